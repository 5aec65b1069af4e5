"""Version 1 → version 2 for a client that watches.

The upgrader of `convert` gives ids to messages that have none; here the ids also last. A message
is named by its role and its place in the session, so that a replay gives the same names as the
live session did, in this process and in the next one: the n-th user message has the id that the
n-th prompt was acknowledged with. Agents that replay more or fewer user messages than there were
prompts are followed by the text of the prompts. A session of which the beginning is unknown gets
names of its own, for its client may remember the others.

In a replay a message is announced with no content before its first chunk: a client that has it
already starts it anew instead of appending to it.
"""

import secrets
from collections import deque
from typing import Any

from msgspec import Struct, field

from twofold.convert.losses import Losses
from twofold.convert.upgrader import NewId, Upgrader
from twofold.wire import v1, v2
from twofold.wire.content import ContentBlock, TextContent

PREFIX = "v1"
KNOWN = 1000
"""How many user messages of a session are known by their text."""
NAMES = 100_000
"""How many messages of a session may go on in turns."""
_LONGEST = 200  # how much of a text it takes to recognise it

_WHOLE: dict[type, type[v2.UserMessage | v2.AgentMessage | v2.AgentThought]] = {
    v2.UserMessageChunk: v2.UserMessage,
    v2.AgentMessageChunk: v2.AgentMessage,
    v2.AgentThoughtChunk: v2.AgentThought,
}


class UserMessage(Struct, frozen=True):
    """A user message of which the client knows the id."""

    message_id: str
    number: int
    text: str


class _Replay(Struct, eq=False):
    """A replay that is under way."""

    expected: list[UserMessage]
    """The user messages that the client knows, in their order."""
    numbers: dict[str, int]
    """How far the names of each role had come before."""
    passed: int = 0
    """How many of the expected ones have come, or will not come any more."""
    asides: int = 0
    text: str = ""
    """What was said so far in the user message that came last."""
    primed: dict[tuple[type, str], None] = field(default_factory=dict)


class Lifting(Upgrader):
    """An upgrader of a live session; `whole` if all of it was seen from its beginning."""

    def __init__(
        self,
        losses: Losses,
        *,
        own_terminals: bool = False,
        prefix: str = PREFIX,
        whole: bool = True,
    ) -> None:
        super().__init__(losses, own_terminals=own_terminals, prefix=prefix)
        self._whole = whole
        self._numbers: dict[str, int] = {}
        self._users: deque[UserMessage] = deque(maxlen=KNOWN)
        self._placed: dict[str, str] = {}  # user messages: the agent's name, or none → ours
        self._metas: dict[str, tuple[str, ...]] = {}  # the keys that each tool call has
        self._replay: _Replay | None = None

    @classmethod
    def resumed(cls, losses: Losses, *, own_terminals: bool = False) -> "Lifting":
        """For a session that goes on here without anything of what was said before."""
        return cls(losses, own_terminals=own_terminals, prefix=_own_prefix(), whole=False)

    def replayed(self, new_id: NewId | None = None) -> "Lifting":
        """The upgrader for a replay of the session from its beginning."""
        whole = self._knows_all
        again = Lifting(self.losses, own_terminals=self.own_terminals, whole=whole)
        again._modes, again._options = self._modes, self._options
        before = self._numbers if self._prefix == PREFIX else {}
        if self._replay is not None:
            before = _furthest(before, self._replay.numbers)
        again._replay = _Replay(list(self._users), before)
        return again

    def update(self, update: v1.SessionUpdate) -> list[v2.SessionUpdate]:
        """The updates of version 2 that say what `update` says."""
        lifted = super().update(update)
        if isinstance(update, v1.UserMessageChunk):
            lifted = [self._in_place(each, named=bool(update.message_id)) for each in lifted]
        elif isinstance(update, v1.ToolCall | v1.ToolCallUpdate):
            self._replace_meta(lifted[-1], whole=isinstance(update, v1.ToolCall))
        if self._replay is not None:
            lifted = _primed(lifted, self._replay.primed)
        return lifted

    def permission(self, request: v1.RequestPermissionRequest) -> v2.RequestPermissionRequest:
        """A permission request; a call that was never announced is announced by it."""
        lifted = super().permission(request)
        if isinstance(lifted.subject, v2.ToolCallPermissionSubject):
            self._replace_meta(lifted.subject.tool_call, whole=False)
        return lifted

    def _replace_meta(self, call: Any, *, whole: bool) -> None:
        """Version 1 replaces metadata, the newest draft merges it: keys that go are set to null."""
        known = self._metas.get(call.tool_call_id, ())
        if not isinstance(call.meta, dict):
            if whole and known:  # all of the call is replaced
                call.meta = None
                del self._metas[call.tool_call_id]
            return
        gone = dict.fromkeys(key for key in known if key not in call.meta)
        self._metas[call.tool_call_id] = tuple(call.meta)
        _bounded(self._metas)
        if gone:
            call.meta = call.meta | gone

    def pass_over(self, update: v1.SessionUpdate) -> None:
        """Count an update that the client does not get, so that later ones keep their names."""
        losses, self.losses = self.losses, Losses()
        try:
            self.update(update)
        finally:
            self.losses = losses

    def prompt(self, blocks: list[ContentBlock], message_id: str = "") -> list[v2.SessionUpdate]:
        """The user asked: what comes from now on is not of a replay any more."""
        self._end_replay()
        shown = super().prompt(blocks)
        text = next((each.text for each in blocks if isinstance(each, TextContent)), "")
        self.prompt_id = self._next_user(text)
        return [v2.UserMessage(self.prompt_id, blocks), *shown[1:]]

    def refused(self) -> None:
        """The last prompt was refused before its id was sent: the next one gets it."""
        if self._users and self._users[-1].message_id == self.prompt_id:
            self._numbers["user"] = self._users.pop().number - 1

    @property
    def _knows_all(self) -> bool:
        # a replay without a word of the user is not the whole of a session
        replayed = self._replay is not None and self._numbers.get("user", 0) > 0
        return self._whole or replayed

    def _end_replay(self) -> None:
        if self._replay is None:
            return
        self._whole = self._knows_all
        if not self._whole:
            self._prefix = _own_prefix()
        # what the client may still show of before keeps its names for itself
        self._numbers = _furthest(self._numbers, self._replay.numbers)
        self._replay = None

    # ---- names

    def _new_id(self, kind: type[v1.ContentChunk]) -> str:
        if kind is v1.UserMessageChunk:
            self._made += 1
            return f" {self._made}"  # which nobody sees: its place is found by its content
        return self._named_by("thought" if kind is v1.AgentThoughtChunk else "agent")

    def _named_by(self, role: str) -> str:
        number = self._numbers[role] = self._numbers.get(role, 0) + 1
        return f"{self._prefix}:{role}:{number}"

    def _next_user(self, text: str) -> str:
        message_id = self._named_by("user")
        self._users.append(UserMessage(message_id, self._numbers["user"], _short(text)))
        return message_id

    def _in_place(self, update: Any, *, named: bool) -> Any:
        """A user message by its own name; its chunks go where the first of them went."""
        content = update.content if isinstance(update, v2.UserMessageChunk) else update.content[0]
        text = content.text if isinstance(content, TextContent) else ""
        name = update.message_id
        if name not in self._placed or (not named and self._is_next(text)):
            self._placed[name] = self._place(text)
            _bounded(self._placed)
        elif self._replay is not None:
            self._replay.text = (self._replay.text + text)[: 2 * _LONGEST]
        update.message_id = self._placed[name]
        return update

    def _is_next(self, text: str) -> bool:
        """Whether text that would join a replayed prompt is all of the next one."""
        replay = self._replay
        if replay is None or not 0 < replay.passed < len(replay.expected) or not text:
            return False
        before, following = replay.expected[replay.passed - 1 : replay.passed + 1]
        return before.text == _short(replay.text) and following.text == _short(text)

    def _place(self, text: str) -> str:
        replay = self._replay
        if replay is None:
            return self._next_user(text)
        replay.text = text
        if replay.passed >= len(replay.expected):
            return self._next_user(text)
        number = self._numbers.get("user", 0) + 1
        forgotten = len(replay.expected) == KNOWN and number < replay.expected[0].number
        if self._whole and forgotten:
            return self._next_user(text)
        found = _find(text, replay.expected, replay.passed, loosely=self._whole)
        if found is not None:
            replay.passed = found + 1
            return self._again(replay.expected[found])
        if not self._whole:
            return self._next_user(text)  # it is from before what the client knows
        replay.asides += 1  # the user did not say it
        return f"{self._prefix}:user:{number - 1}.{replay.asides}"

    def _again(self, known: UserMessage) -> str:
        number = known.number if self._whole else self._numbers.get("user", 0) + 1
        self._numbers["user"] = number
        self._users.append(UserMessage(known.message_id, number, known.text))
        return known.message_id


def _own_prefix() -> str:
    return f"{PREFIX}:{secrets.token_hex(4)}"


def _primed(
    lifted: list[v2.SessionUpdate], primed: dict[tuple[type, str], None]
) -> list[v2.SessionUpdate]:
    """Each message is announced with no content before its first chunk."""
    sent: list[v2.SessionUpdate] = []
    for update in lifted:
        whole = _WHOLE.get(type(update))
        if whole is not None and isinstance(update, v2.ContentChunk):
            key = (whole, update.message_id)
            if key not in primed:
                primed[key] = None
                _bounded(primed)
                sent.append(whole(update.message_id, []))
        sent.append(update)
    return sent


def _bounded(names: dict[Any, Any]) -> None:
    if len(names) > NAMES:
        del names[next(iter(names))]


def _find(text: str, known: list[UserMessage], start: int, *, loosely: bool) -> int | None:
    """Which of the known messages this is: the next one, or one that follows it."""
    said = " ".join(text.split())
    expected, short = known[start].text, said[:_LONGEST]
    if loosely and (not said or not expected or expected in said or expected.startswith(short)):
        return start  # with more around it, or the first piece of it
    equal = (index for index in range(start, len(known)) if known[index].text == short)
    return next(equal, None) if short else None


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


def _furthest(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    roles = first.keys() | second.keys()
    return {role: max(first.get(role, 0), second.get(role, 0)) for role in roles}
