"""What the ACP clients of one hosted session are sent: its updates, encoded once for all of them.

A client that attaches is sent the session as it is, if it asks for that, and then every update in
the order in which it was applied. Questions are asked of all controllers, and withdrawn when one of
them, or a person elsewhere, has answered. Nothing here waits for a client.

A restarted agent may replay its session under other message ids. What clients have seen already is
not sent again: the ids that they know stand for the new ones.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from msgspec.structs import replace

from twofold.host.hosted_session import HostedSession
from twofold.host.questions import OpenQuestion
from twofold.session import Message, Session, ToolCall, snapshot
from twofold.session.inputs import Applied, Asked, Input
from twofold.session.state import Entry
from twofold.text import one_line
from twofold.wire import codec, v2
from twofold.wire.base import UNSET
from twofold.wire.content import TextContent
from twofold.wire.shared import Notice, NoticeSeverity, SessionMessage, SessionMessageChunk

PIECE: Final = 256 << 10
"""Bytes of an update of a replay that is not divided."""
_CALL: Final = "call"
NOTE: Final = "_twofold.host"
"""The key of `_meta` by which what the host adds to a session is recognised."""

_ROLES: Final[dict[type, str]] = {
    v2.UserMessage: "user",
    v2.UserMessageChunk: "user",
    v2.AgentMessage: "agent",
    v2.AgentMessageChunk: "agent",
    v2.AgentThought: "thought",
    v2.AgentThoughtChunk: "thought",
    SessionMessage: "session",
    SessionMessageChunk: "session",
}


class Attached(Protocol):
    """A client that is attached to the session."""

    controls: bool
    """Whether it may answer questions."""

    def send(self, line: bytes) -> None:
        """Send it a line, after those before."""

    def ask(self, question: OpenQuestion) -> None:
        """Ask it a question."""

    def withdraw(self, identity: str) -> None:
        """Ask it a question no longer; one that it was not asked is none."""

    def ended(self) -> None:
        """The session was closed."""


class SessionFeed:
    """The updates of one session, for all clients that are attached to it."""

    def __init__(self, hosted: HostedSession) -> None:
        self.hosted = hosted
        self.clients: list[Attached] = []
        self.encodings = 0
        """How many updates were encoded for all clients together."""
        self._head = codec.update_head(codec.encode(hosted.id))
        self._state: Session = hosted.live.session
        self._ids = _EntryIds()
        self._above: list[v2.SessionUpdate] = []
        """The transcript above a session that the agent began because it forgot the one before."""
        self._questions: dict[str, OpenQuestion] = {}
        self._answerers: dict[str, Attached] = {}
        self._answered: set[str] = set()
        self._failure: str | None = None
        self._subscription = hosted.observe_inputs(self)

    # ---- clients

    def add(self, client: Attached) -> None:
        """Send a client every update from now on; the caller has waited for `shown`."""
        if not self.clients:
            self._questions = {each.identity: each for each in self.hosted.open_questions}
            self._answered = {each["question"] for each in self.hosted.facts()["answered"]}
            self._failure = self.hosted.failure
        self.clients = [*self.clients, client]

    def remove(self, client: Attached) -> None:
        """Send a client nothing any more."""
        self.clients = [each for each in self.clients if each is not client]
        self._answerers = {
            identity: each for identity, each in self._answerers.items() if each is not client
        }

    def close(self) -> None:
        """Follow the session no more."""
        self._subscription.cancel()

    @property
    def is_watched_elsewhere(self) -> bool:
        """Whether anybody but these clients observes the session."""
        return self.hosted.watchers > 0

    def message_id(self, given: str) -> str:
        """The id by which clients know a user message."""
        return self._ids.of("user", given)

    def line(self, update: v2.SessionUpdate) -> bytes:
        """An update as a line for a client."""
        return b"".join((self._head, codec.encode(update), b"}}\n"))

    def lines(self, update: v2.SessionUpdate) -> Iterator[bytes]:
        """An update of a replay as lines: a large one in pieces, which give the same.

        What arrived in many messages would be one that a client refuses, or reads no more.
        """
        line = self.line(update)
        if len(line) <= PIECE:
            yield line
        else:
            yield from map(self.line, in_pieces(update))

    def replay(self) -> list[v2.SessionUpdate]:
        """The updates that rebuild the session as it is now, the state last."""
        updates = [*self._above, *map(self._ids.shown, snapshot(self._state))]
        # v2: notices are live only
        return [update for update in updates if not isinstance(update, Notice)]

    def questions(self) -> list[OpenQuestion]:
        """The questions that clients were asked and that wait."""
        return list(self._questions.values())

    # ---- what is done to the session (`InputObserver`)

    def inputs(self, given: Sequence[Input]) -> None:
        """Send what was done to the session."""
        for each in given:
            if isinstance(each, Applied):
                self._send(each.update)
            elif isinstance(each, Asked) and (patch := _asked_patch(each)) is not None:
                self._send(patch)

    def replaced(self) -> None:
        """Send what the other session has that clients have not seen."""
        before, self._state = self._state, self.hosted.live.session
        if before.entries and not self._state.entries:
            self._above += map(self._ids.shown, _entries(before))
        same = self._ids.align(before, self._state)
        for update in snapshot(self._state):
            if not self._is_seen(update, before, same):
                self._send(update)

    def _is_seen(self, update: v2.SessionUpdate, before: Session, same: int) -> bool:
        """Whether clients have what an update of the session has; the first entries are `same`."""
        state = self._state
        match update:
            case v2.ToolCallUpdate():
                call = state.tool_calls[update.tool_call_id]
                return call.index < same and call == before.entries[call.index]
            case v2.TerminalUpdate():
                identity = update.terminal_id
                return state.terminals[identity] == before.terminals.get(identity)
            case v2.UnknownUpdate() | Notice():
                return update in before.unknown or update in before.notices
        role = _ROLES.get(type(update))
        if role is None:
            return False
        message = state.messages[role][update.message_id]  # type: ignore[index,union-attr]
        return bool(message.index < same)

    def ended(self) -> None:
        """The session was closed."""
        if self._failure is None:  # else they know
            self._notify("warning", "The session was closed.", "")
        clients, self.clients = self.clients, []
        for client in clients:
            client.ended()

    def _send(self, update: v2.SessionUpdate) -> None:
        if not self.clients:
            self._ids.shown(update)  # an id that is used again is another message
            return
        self.encodings += 1
        line = self.line(self._ids.shown(update))
        for client in self.clients:
            client.send(line)

    # ---- questions, and what else there is to know

    def answer(self, client: Attached, question: OpenQuestion, option_id: str, by: str) -> None:
        """A client answers a question.

        Raises:
            LocalError: Somebody else has answered it, or there is no such option.
        """
        chosen = (name for name, each in question.options.items() if each.option_id == option_id)
        self.hosted.answer(question.identity, next(chosen, option_id), by)
        self._answerers[question.identity] = client

    def request(self, question: OpenQuestion) -> v2.RequestPermissionRequest:
        """A question as a client is asked it.

        The tool call in it is as it is now, so that asking later changes nothing of it.
        """
        request = replace(question.request, session_id=self.hosted.id)
        subject = request.subject
        if isinstance(subject, v2.ToolCallPermissionSubject):
            call = self._state.tool_calls.get(subject.tool_call.tool_call_id)
            if call is not None:
                now = self._ids.shown_call(_as_it_is(subject.tool_call, call))
                request = replace(request, subject=replace(subject, tool_call=now))
        elif isinstance(subject, v2.CommandPermissionSubject) and subject.tool_call_id:
            identity = self._ids.of(_CALL, subject.tool_call_id)
            request = replace(request, subject=replace(subject, tool_call_id=identity))
        return request

    def facts_changed(self) -> None:
        """Ask what is asked now, withdraw what is not, and show who answered."""
        if not self.clients or self.hosted.is_keeping:
            return  # once everything is kept this is called again
        self._refresh_questions()
        answered = self.hosted.facts()["answered"]
        for fact in answered:
            if fact["question"] not in self._answered:
                self._report_answer(fact)
        self._answered = {each["question"] for each in answered}
        failure, self._failure = self._failure, self.hosted.failure
        if self._failure and self._failure != failure:
            first, _, rest = self._failure.partition("\n")
            self._notify("error", one_line(first), rest)

    def _refresh_questions(self) -> None:
        now = {each.identity: each for each in self.hosted.open_questions}
        before, self._questions = self._questions, now
        for identity in before.keys() - now.keys():
            for client in self.clients:
                client.withdraw(identity)
        for identity, question in now.items():
            if identity not in before:
                for client in self.clients:
                    client.ask(question)

    def _report_answer(self, fact: dict[str, Any]) -> None:
        """Show who answered a question to all who did not."""
        answerer = self._answerers.pop(fact["question"], None)
        title = f"{fact['title'] or 'A permission request'}: {fact['words']}"
        meta = {"question": fact["question"], "by": fact["by"]}
        self._notify("info", title, "", meta, but=answerer)

    def _notify(
        self,
        severity: NoticeSeverity,
        title: str,
        description: str,
        meta: dict[str, Any] | None = None,
        *,
        but: Attached | None = None,
    ) -> None:
        clients = [client for client in self.clients if client is not but]
        if clients:
            line = self.line(notice(severity, title, description, meta))
            for client in clients:
                client.send(line)


def notice(
    severity: NoticeSeverity, title: str, description: str = "", meta: dict[str, Any] | None = None
) -> Notice:
    """A notice of the host, which is no part of the session."""
    return Notice(severity, title, description or UNSET, meta={NOTE: meta or {}})


# ---- ids of entries -----------------------------------------------------------------------------


class _EntryIds:
    """The ids by which clients know messages and tool calls, where they are others."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], str] = {}
        self._taken: set[tuple[str, str]] = set()
        """Ids of entries of sessions that were replaced."""

    def shown(self, update: v2.SessionUpdate) -> v2.SessionUpdate:
        """An update with the id that clients know."""
        if not self._taken:
            return update
        if isinstance(update, v2.ToolCallUpdate | v2.ToolCallContentChunk):
            found = self.of(_CALL, update.tool_call_id)
            return replace(update, tool_call_id=found)
        role = _ROLES.get(type(update))
        if role is None:
            return update
        given: str = update.message_id  # type: ignore[union-attr]
        return replace(update, message_id=self.of(role, given))

    def shown_call(self, patch: v2.ToolCallPatch) -> v2.ToolCallPatch:
        """A patch of a tool call with the id that clients know."""
        return replace(patch, tool_call_id=self.of(_CALL, patch.tool_call_id))

    def of(self, role: str, given: str) -> str:
        """The id by which clients know an entry."""
        if not self._taken:
            return given
        found = self._shown.get((role, given))
        if found is None:
            found, number = given, 2
            while (role, found) in self._taken:
                found, number = f"{given}~{number}", number + 1
            self._shown[role, given] = found
        return found

    def align(self, before: Session, after: Session) -> int:
        """Another session took the place of one; returns how many entries are the same."""
        known = [_id_of(entry) for entry in before.entries]
        names = [self.of(*identity) for identity in known]
        shown: dict[tuple[str, str], str] = {}
        same = 0
        for old, new in zip(before.entries, after.entries, strict=False):
            if not _is_same(old, new):
                break
            same += 1
            shown[_id_of(new)] = names[old.index]
        self._taken |= {(kind, name) for (kind, _), name in zip(known, names, strict=True)}
        self._shown = shown
        return same


def _id_of(entry: Entry) -> tuple[str, str]:
    """What an entry is, and its id."""
    if isinstance(entry, Message):
        return entry.role, entry.message_id
    return _CALL, entry.tool_call_id


def _is_same(old: Entry, new: Entry) -> bool:
    if isinstance(old, Message):
        return (
            isinstance(new, Message)
            and old.role == new.role
            and _joined(old.content) == _joined(new.content)
        )
    return isinstance(new, ToolCall) and old.tool_call_id == new.tool_call_id


def _joined(content: Sequence[Any]) -> list[Any]:
    """Content with neighbouring texts in one, because a replay may cut them elsewhere."""
    made: list[Any] = []
    for block in content:
        text = block.text if isinstance(block, TextContent) else None
        if text is not None and made and isinstance(made[-1], str):
            made[-1] += text
        else:
            made.append(block if text is None else text)
    return made


# ---- updates -----------------------------------------------------------------------------------


def _entries(session: Session) -> Iterator[v2.SessionUpdate]:
    """The transcript of a session."""
    for update in snapshot(session):
        if type(update) in _ROLES or isinstance(update, v2.ToolCallUpdate):
            yield update


_CHUNKS: Final[dict[type, Callable[..., v2.SessionUpdate]]] = {
    v2.UserMessage: v2.UserMessageChunk,
    v2.AgentMessage: v2.AgentMessageChunk,
    v2.AgentThought: v2.AgentThoughtChunk,
}


def in_pieces(update: v2.SessionUpdate) -> Iterator[v2.SessionUpdate]:
    """An update and the chunks that follow it, as far as it can be divided."""
    match update:
        case v2.UserMessage() | v2.AgentMessage() | v2.AgentThought() if update.content:
            first, rest = _divided(update.content)
            yield replace(update, content=first)
            for block in rest:
                yield _CHUNKS[type(update)](update.message_id, block)
        case v2.ToolCallUpdate() if update.content:
            some, others = _divided(update.content)
            yield replace(update, content=some)
            for content in others:
                yield v2.ToolCallContentChunk(update.tool_call_id, content)
        case v2.TerminalUpdate() if update.output:
            data = update.output.data  # base64: pieces of whole groups of four
            yield replace(update, output=replace(update.output, data=data[:PIECE]))
            for start in range(PIECE, len(data), PIECE):
                yield v2.TerminalOutputChunk(update.terminal_id, data[start : start + PIECE])
        case _:
            yield update


def _divided(items: Sequence[Any]) -> tuple[list[Any], Sequence[Any]]:
    """The first items, about as many as fit into one piece, and the others."""
    size = 0
    for count, item in enumerate(items):
        size += len(codec.encode(item))
        if count and size > PIECE:
            return list(items[:count]), items[count:]
    return list(items), ()


def _asked_patch(asked: Asked) -> v2.ToolCallUpdate | None:
    """The update that a permission request is to its tool call; None if it is none."""
    subject = asked.request.subject
    if not isinstance(subject, v2.ToolCallPermissionSubject):
        return None
    patch = subject.tool_call
    fields = {name: getattr(patch, name) for name in patch.__struct_fields__}
    return v2.ToolCallUpdate(**fields)


def _as_it_is(patch: v2.ToolCallPatch, call: ToolCall) -> v2.ToolCallPatch:
    """A patch of a tool call with the values that the call has now."""
    changed: dict[str, Any] = {}
    for name in ("name", "title", "kind", "status", "raw_input", "raw_output", "capabilities"):
        if getattr(patch, name) is not UNSET:
            changed[name] = getattr(call, name)
    for name in ("content", "locations"):
        if getattr(patch, name) is not UNSET:
            changed[name] = list(getattr(call, name))
    if patch.meta is not UNSET:
        changed["meta"] = call.meta
    return replace(patch, **changed)
