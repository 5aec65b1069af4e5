"""Converts the updates of a live v1 session to v2, with message ids that last.

The `Upgrader` of `convert` gives ids to messages that have none. Here an id names the role of a
message and its place in the session, so that a replay gives the same ids as the live session did,
in this process and in the next one: the n-th user message has the id that the n-th prompt was
acknowledged with. If an agent replays more or fewer user messages than there were prompts, they are
recognised by their text. A session whose beginning is unknown gets ids with a prefix of its own,
because its client may remember the others.

In a replay each message is announced with no content before its first chunk: a client that has it
already then replaces it instead of appending to it.
"""

import secrets
from collections import deque
from typing import Any

from msgspec import Struct, field

from twofold.convert.losses import Losses
from twofold.convert.upgrade import Upgrader
from twofold.wire import v1, v2
from twofold.wire.content import ContentBlock, TextContent

PREFIX = "v1"
KNOWN = 1000
"""How many user messages of a session are recognised by their text."""
NAMES = 100_000
"""How many message ids and tool calls of a session are remembered."""
_LONGEST = 200  # how many characters of a text are compared

_OF_AGENT = frozenset({v1.AgentMessageChunk, v1.AgentThoughtChunk})
_WHOLE: dict[type, type[v2.UserMessage | v2.AgentMessage | v2.AgentThought]] = {
    v2.UserMessageChunk: v2.UserMessage,
    v2.AgentMessageChunk: v2.AgentMessage,
    v2.AgentThoughtChunk: v2.AgentThought,
}


class UserMessage(Struct, frozen=True):
    """A user message whose id the client knows."""

    message_id: str
    number: int
    text: str


class _Replay(Struct, eq=False):
    """A replay that is under way."""

    expected: list[UserMessage]
    """The user messages that the client knows, in their order."""
    numbers: dict[str, int]
    """The highest number of each role before the replay."""
    passed: int = 0
    """How many of the expected messages were replayed or left out."""
    asides: int = 0
    """How many user messages were replayed that are none of the user's prompts."""
    text: str = ""
    """The text so far of the last user message."""
    announced: dict[tuple[type, str], None] = field(default_factory=dict)


class Lifting:
    """Converts the updates of one live session.

    Args:
        losses: Where losses are reported.
        own_terminals: The bridge runs the terminals of the session itself.
        prefix: The first part of the message ids.
        whole: The session was seen from its beginning.
    """

    def __init__(
        self,
        losses: Losses,
        *,
        own_terminals: bool = False,
        prefix: str = PREFIX,
        whole: bool = True,
    ) -> None:
        self.upgrader = Upgrader(losses, own_terminals=own_terminals, new_id=self._new_id)
        """The converter behind it, which has the modes and the config options."""
        self._prefix = prefix
        self._whole = whole
        self._unnamed = 0
        self._numbers: dict[str, int] = {}
        self._users: deque[UserMessage] = deque(maxlen=KNOWN)
        self._placed: dict[str, str] = {}  # ids of user messages, by the upgrader's ids for them
        self._metas: dict[str, tuple[str, ...]] = {}  # the keys in `_meta` of each tool call
        self._replay: _Replay | None = None

    @classmethod
    def resumed(cls, losses: Losses, *, own_terminals: bool = False) -> "Lifting":
        """For a session that goes on here without anything of what was sent before."""
        return cls(losses, own_terminals=own_terminals, prefix=_own_prefix(), whole=False)

    def replayed(self) -> "Lifting":
        """For a replay of the session from its beginning."""
        again = Lifting(self.upgrader.losses, whole=self._knows_all)
        again.upgrader = self.upgrader.replayed(again._new_id)
        before = self._numbers if self._prefix == PREFIX else {}
        if self._replay is not None:
            before = _highest(before, self._replay.numbers)
        again._replay = _Replay(list(self._users), before)
        return again

    def update(self, update: v1.SessionUpdate) -> list[v2.SessionUpdate]:
        """Convert an update."""
        lifted = self.upgrader.update(update)
        if self._replay is None and type(update) in _OF_AGENT:
            return lifted  # most updates are these
        if isinstance(update, v1.UserMessageChunk):
            lifted = [self._in_place(each, named=bool(update.message_id)) for each in lifted]
        elif isinstance(update, (v1.ToolCall, v1.ToolCallUpdate)):
            self._replace_meta(lifted[-1], whole=isinstance(update, v1.ToolCall))
        if self._replay is not None:
            lifted = _announced(lifted, self._replay.announced)
        return lifted

    def permission(self, request: v1.RequestPermissionRequest) -> v2.RequestPermissionRequest:
        """Convert a permission request, which may announce a new tool call."""
        lifted = self.upgrader.permission(request)
        if isinstance(lifted.subject, v2.ToolCallPermissionSubject):
            self._replace_meta(lifted.subject.tool_call, whole=False)
        return lifted

    def _replace_meta(self, call: Any, *, whole: bool) -> None:
        """v1 replaces metadata, the newest draft merges it: keys that are gone become null."""
        known = self._metas.get(call.tool_call_id, ())
        if not isinstance(call.meta, dict):
            if whole and known:  # all of the call is replaced
                call.meta = None
                del self._metas[call.tool_call_id]
            return
        gone = dict.fromkeys(key for key in known if key not in call.meta)
        self._metas[call.tool_call_id] = tuple(call.meta)
        _bound(self._metas)
        if gone:
            call.meta = call.meta | gone

    def skip(self, update: v1.SessionUpdate) -> None:
        """Count an update that the client is not sent, so that later messages keep their ids."""
        losses, self.upgrader.losses = self.upgrader.losses, Losses()
        try:
            self.update(update)
        finally:
            self.upgrader.losses = losses

    def prompt(self, blocks: list[ContentBlock]) -> list[v2.SessionUpdate]:
        """Convert a prompt; what the agent sends from now on is not part of a replay."""
        self._end_replay()
        text = next((each.text for each in blocks if isinstance(each, TextContent)), "")
        shown = self.upgrader.prompt(blocks, self._next_user(text))
        return [v2.UserMessage(self.prompt_id, blocks), *shown[1:]]

    @property
    def prompt_id(self) -> str:
        """The message id of the last prompt."""
        return self.upgrader.prompt_id

    def refused(self) -> None:
        """The last prompt was refused before its id was sent: the next prompt gets the id."""
        if self._users and self._users[-1].message_id == self.prompt_id:
            self._numbers["user"] = self._users.pop().number - 1

    @property
    def _knows_all(self) -> bool:
        # a replay without any user message is not the whole of a session
        replayed = self._replay is not None and self._numbers.get("user", 0) > 0
        return self._whole or replayed

    def _end_replay(self) -> None:
        if self._replay is None:
            return
        self._whole = self._knows_all
        if not self._whole:
            self._prefix = _own_prefix()
        # ids that the client may still show from before the replay are not given again
        self._numbers = _highest(self._numbers, self._replay.numbers)
        self._replay = None

    # ---- ids

    def _new_id(self, kind: type[v1.ContentChunk]) -> str:
        if kind is v1.UserMessageChunk:
            self._unnamed += 1
            return f" {self._unnamed}"  # never sent: `_in_place` replaces it
        return self._numbered("thought" if kind is v1.AgentThoughtChunk else "agent")

    def _numbered(self, role: str) -> str:
        number = self._numbers[role] = self._numbers.get(role, 0) + 1
        return f"{self._prefix}:{role}:{number}"

    def _next_user(self, text: str) -> str:
        message_id = self._numbered("user")
        self._users.append(UserMessage(message_id, self._numbers["user"], _short(text)))
        return message_id

    def _in_place(self, update: Any, *, named: bool) -> Any:
        """Give a user message its lasting id; later chunks get the id of the first."""
        content = update.content if isinstance(update, v2.UserMessageChunk) else update.content[0]
        text = content.text if isinstance(content, TextContent) else ""
        name = update.message_id
        if name not in self._placed or (not named and self._is_next(text)):
            self._placed[name] = self._place(text)
            _bound(self._placed)
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
        """The id of a user message that begins with `text`."""
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
        replay.asides += 1  # the user did not send it
        return f"{self._prefix}:user:{number - 1}.{replay.asides}"

    def _again(self, known: UserMessage) -> str:
        number = known.number if self._whole else self._numbers.get("user", 0) + 1
        self._numbers["user"] = number
        self._users.append(UserMessage(known.message_id, number, known.text))
        return known.message_id


def _own_prefix() -> str:
    return f"{PREFIX}:{secrets.token_hex(4)}"


def _announced(
    lifted: list[v2.SessionUpdate], announced: dict[tuple[type, str], None]
) -> list[v2.SessionUpdate]:
    """Put an empty message before the first chunk of each message."""
    updates: list[v2.SessionUpdate] = []
    for update in lifted:
        whole = _WHOLE.get(type(update))
        if whole is not None and isinstance(update, v2.ContentChunk):
            key = (whole, update.message_id)
            if key not in announced:
                announced[key] = None
                _bound(announced)
                updates.append(whole(update.message_id, []))
        updates.append(update)
    return updates


def _bound(names: dict[Any, Any]) -> None:
    if len(names) > NAMES:
        del names[next(iter(names))]


def _find(text: str, known: list[UserMessage], start: int, *, loosely: bool) -> int | None:
    """Which of the known messages has this text: the one at `start`, or one that follows it."""
    text = " ".join(text.split())
    expected, short = known[start].text, text[:_LONGEST]
    if loosely and (not text or not expected or expected in text or expected.startswith(short)):
        return start  # with more around it, or the first piece of it
    equal = (index for index in range(start, len(known)) if known[index].text == short)
    return next(equal, None) if short else None


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


def _highest(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    roles = first.keys() | second.keys()
    return {role: max(first.get(role, 0), second.get(role, 0)) for role in roles}
