"""Version 1 → version 2: updates and permission requests.

`upgrade` converts an update by itself. `Upgrader` converts a session with the same functions and
remembers which messages are open, which tool calls exist, which modes there are and what the prompt
was. Version 1's null is the same as omitted and is never forwarded: in version 2 it would clear.
Pure: updates in, updates out, losses reported.
"""

import base64
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeGuard
from urllib.parse import quote

from msgspec.structs import replace

from twofold.convert.drafts import diff_of_texts, lift
from twofold.convert.losses import Losses, carried
from twofold.convert.options import (
    MODE,
    has_mode_option,
    mode_option,
    option_of_modes,
    upgrade_command,
    upgrade_config_option,
    with_value,
)
from twofold.convert.turns import Echo, ended_turn, failed_turn
from twofold.text.safe import Seen
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Wire
from twofold.wire.content import (
    Annotations,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from twofold.wire.shared import (
    CompactionSummaryChunk,
    CompactionUpdate,
    Content,
    Error,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
)

NewId: TypeAlias = Callable[[type[v1.ContentChunk]], str]
"""Returns an unused id for a message that has none; the argument is the type of its chunks."""

PLAN_ID = "main"
"""The id of the one plan that version 1 has."""

CHUNKS: dict[type[v1.ContentChunk], type[v2.ContentChunk]] = {
    v1.AgentMessageChunk: v2.AgentMessageChunk,
    v1.AgentThoughtChunk: v2.AgentThoughtChunk,
    v1.UserMessageChunk: v2.UserMessageChunk,
}
_WHOLE: Final[dict[type, type[v2.UserMessage | v2.AgentMessage | v2.AgentThought]]] = {
    v1.UserMessageChunk: v2.UserMessage,
    v1.AgentMessageChunk: v2.AgentMessage,
    v1.AgentThoughtChunk: v2.AgentThought,
}

REPLACED: dict[str, Any] = {
    "name": None,
    "kind": "other",
    "status": "pending",
    "content": [],
    "locations": [],
    "raw_input": None,
    "raw_output": None,
    "meta": None,
}
"""The fields of a call that a `tool_call` for a known id clears if it leaves them out."""


def upgrade(update: v1.SessionUpdate, losses: Losses) -> list[v2.SessionUpdate]:
    """Convert one update of version 1 by itself; `Upgrader` converts a session, and loses less.

    Args:
        update: The update.
        losses: Where everything is reported that version 2 cannot express.

    Returns:
        The updates of version 2 with the same meaning, in order.

    Raises:
        NotConvertible: Something must not be left out, or `losses` is strict.
    """
    match update:
        case v1.ContentChunk():
            if not update.message_id:
                losses.report("update.messageId", "without an id, where a message ends is unknown")
            return [upgrade_chunk(update, update.message_id or f"v1:{_role(update)}", losses)]
        case v1.ToolCall() | v1.ToolCallUpdate():
            owned = terminals_in(update)
            patch = upgrade_tool_call(update, owned, losses)
            return [*terminal_updates(update), patch]
        case v1.CurrentModeUpdate() | v1.DocumentedCurrentModeUpdate():
            losses.report("update", "the other modes and config options are not known here")
            rest = carried(update, v2.ConfigOptionUpdate, losses, "update")
            return [v2.ConfigOptionUpdate([_only_mode(mode_id(update))], **rest)]
    return [upgrade_simple(update, losses)]


def upgrade_simple(update: v1.SessionUpdate, losses: Losses) -> v2.SessionUpdate:
    """An update that needs no memory in any case."""
    match update:
        case v1.Plan():
            return upgrade_plan(update, losses)
        case v1.PlanUpdate():
            return upgrade_plan_update(update, losses)
        case v1.AvailableCommandsUpdate():
            return v2.AvailableCommandsUpdate(
                [
                    upgrade_command(command, losses, f"update.availableCommands[{index}]")
                    for index, command in enumerate(update.available_commands)
                ],
                **carried(update, v2.AvailableCommandsUpdate, losses, "update"),
            )
        case v1.ConfigOptionUpdate():
            return v2.ConfigOptionUpdate(
                [
                    upgrade_config_option(option, losses, f"update.configOptions[{index}]")
                    for index, option in enumerate(update.config_options)
                ],
                **carried(update, v2.ConfigOptionUpdate, losses, "update"),
            )
        case SessionInfoUpdate():
            return upgrade_info(update, losses)
        case v1.UnknownUpdate():
            return _unknown(update)
        case CompactionSummaryChunk() | SessionMessageChunk():
            return replace(update, content=upgrade_block(update.content, losses, "update.content"))
        case CompactionUpdate() if update.summary:
            return replace(update, summary=upgrade_blocks(update.summary, losses, "update.summary"))
        case SessionMessage() if update.content:
            return replace(update, content=upgrade_blocks(update.content, losses, "update.content"))
    return update  # type: ignore[return-value]  # the shapes that both versions share


# ---- messages ------------------------------------------------------------------------------


def upgrade_chunk(update: v1.ContentChunk, message_id: str, losses: Losses) -> Any:
    """A chunk of the message `message_id`."""
    content = update.content
    if not isinstance(content, TextContent) or content.annotations is not UNSET:
        content = upgrade_block(content, losses, "update.content")
    shape = CHUNKS[type(update)]
    if update.meta is UNSET and update.unknown is UNSET:
        return shape(message_id, content)
    return shape(message_id, content, **carried(update, shape, losses, "update"))


def _role(update: v1.ContentChunk) -> str:
    return {v1.AgentMessageChunk: "agent", v1.AgentThoughtChunk: "thought"}.get(
        type(update), "user"
    )


def upgrade_block(block: ContentBlock, losses: Losses, path: str) -> ContentBlock:
    """A content block; version 2 bounds numbers that version 1 does not, and wants URIs."""
    if isinstance(block, UnknownContent):
        return block
    notes = block.annotations
    if isinstance(notes, Annotations) and notes.priority and not 0 <= notes.priority <= 1:
        losses.report(f"{path}.annotations.priority", "version 2 has no priority outside 0 to 1")
        block = replace(block, annotations=replace(notes, priority=UNSET))
    if isinstance(block, ResourceLink) and block.size and block.size < 0:
        losses.report(f"{path}.size", "version 2 has no size below 0")
        block = replace(block, size=UNSET)
    match block:
        case EmbeddedResource(resource=resource) if not is_uri(resource.uri):
            uri = _as_uri(resource.uri, losses, f"{path}.resource")
            return replace(block, resource=replace(resource, uri=uri))
        case ImageContent(uri=str(uri)) | ResourceLink(uri=uri) if not is_uri(uri):
            return replace(block, uri=_as_uri(uri, losses, path))
    return block


def upgrade_blocks(blocks: list[ContentBlock], losses: Losses, path: str) -> list[ContentBlock]:
    """Content blocks, each with its place in `path`."""
    return [upgrade_block(each, losses, f"{path}[{index}]") for index, each in enumerate(blocks)]


# RFC 3986, but for the grammar inside the brackets of an IP address.
_PLAIN = r"[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2}"
_URI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*+:"
    rf"(?://(?:(?:{_PLAIN}|:)*+@)?(?:\[[0-9A-Fa-f:.]++\]|(?:{_PLAIN})*+)(?::[0-9]*+)?(?![^/?#])"
    r"|(?!//))"
    rf"(?:{_PLAIN}|[:@/])*+(?:\?(?:{_PLAIN}|[:@/?])*+)?(?:\#(?:{_PLAIN}|[:@/?])*+)?"
)


def is_uri(text: str) -> bool:
    """Whether version 2 takes `text` for a URI."""
    return _URI.fullmatch(text) is not None


def _as_uri(text: str, losses: Losses, path: str) -> str:
    losses.report(f"{path}.uri", "version 2 requires a URI")
    escaped = quote(text, safe="%/:?#[]@!$&'()*+,;=", errors="replace")  # a space, an umlaut
    return escaped if is_uri(escaped) else "file:" + quote(text, errors="replace")  # a path


# ---- tool calls ----------------------------------------------------------------------------


def upgrade_tool_call(
    update: v1.ToolCall | v1.ToolCallPatch,
    owned: set[str],
    losses: Losses,
    *,
    known: bool = True,
    shape: type[v2.ToolCallPatch] = v2.ToolCallUpdate,
    path: str = "update",
) -> Any:
    """A tool call or a patch of one. `owned`: the terminals that have a version 2 counterpart.

    A whole `tool_call` for a known id replaces everything, so every field is written; for a new id
    the defaults are left out.
    """
    values: dict[str, Any] = {
        name: value
        for name in ("title", "name", "kind", "status", "raw_input", "raw_output")
        if (value := getattr(update, name)) is not UNSET and value is not None
    }
    if update.content:
        values["content"] = [
            upgrade_tool_content(item, owned, losses, f"{path}.content[{index}]")
            for index, item in enumerate(update.content)
        ]
    elif update.content == []:
        values["content"] = []
    if update.locations:
        values["locations"] = [
            _location(item, losses, f"{path}.locations[{index}]")
            for index, item in enumerate(update.locations)
        ]
    elif update.locations == []:
        values["locations"] = []
    rest = carried(update, shape, losses, path)
    values |= {name: value for name, value in rest.items() if value is not UNSET}
    if isinstance(update, v1.ToolCall) and known:
        values = {**REPLACED, **values}
    return shape(update.tool_call_id, **values)


def upgrade_tool_content(
    item: v1.ToolCallContent, owned: set[str], losses: Losses, path: str
) -> v2.ToolCallContent:
    """One item of a tool call's content."""
    match item:
        case Content():
            block = upgrade_block(item.content, losses, f"{path}.content")
            return item if block is item.content else replace(item, content=block)
        case v1.Diff():
            return upgrade_diff(item, losses, path)
        case v1.Terminal():
            if item.terminal_id in owned:
                extra = carried(item, v2.Terminal, losses, path)
                return v2.Terminal(item.terminal_id, **extra)
            losses.report(path, "a terminal of version 1 is the client's; its output stays there")
            return Content(TextContent(f"[terminal {item.terminal_id}]"))
    return v2.UnknownToolCallContent(raw=item.raw)


def upgrade_diff(diff: v1.Diff, losses: Losses, path: str) -> v2.Diff:
    """Two texts as a change and a patch; equal texts have no patch."""
    beside = carried(diff, v2.Diff, losses, path)
    return diff_of_texts(diff.path, diff.old_text, diff.new_text, **beside)


def _location(location: v1.ToolCallLocation, losses: Losses, path: str) -> v2.ToolCallLocation:
    line = UNSET if location.line is None else location.line
    if line == 0:
        losses.report(f"{path}.line", "version 2 counts lines from 1")
        line = UNSET
    return v2.ToolCallLocation(
        location.path, line, **carried(location, v2.ToolCallLocation, losses, path)
    )


# ---- terminals that the agent describes in `_meta` -----------------------------------------
#
# Agents that run commands themselves show them in version 1 as content for a terminal that the
# client never created, with its command, output and exit status in `_meta`.


def terminals_in(update: Wire) -> set[str]:
    """The terminals that an update describes in its `_meta`."""
    return {terminal_id for _, terminal_id, _ in _facts(update)}


def terminal_updates(
    update: v1.ToolCall | v1.ToolCallPatch, deltas: dict[str, Seen] | None = None
) -> list[v2.TerminalUpdate | v2.TerminalOutputChunk]:
    """The terminals in `_meta` as updates of version 2.

    `deltas` holds the output that arrived in deltas, by terminal: output that repeats all of it
    replaces them.
    """
    deltas = {} if deltas is None else deltas
    return [
        _HANDLERS[key](terminal_id, facts, deltas) for key, terminal_id, facts in _facts(update)
    ]


def terminals_with_output(update: Wire) -> list[str]:
    """The terminals that an update brings output of in its `_meta`."""
    return [terminal_id for key, terminal_id, _ in _facts(update) if key in (_DELTA, _OUTPUT)]


def _facts(update: Wire) -> Iterator[tuple[str, str, dict[str, Any]]]:
    meta = update.meta or {}
    for key in _HANDLERS:
        facts = meta.get(key)
        if key == _DELTA and _same_terminal(facts, meta.get(_OUTPUT)):
            continue  # the same output under both names
        if isinstance(facts, dict) and isinstance(facts.get("terminal_id"), str):
            yield key, facts["terminal_id"], facts


def _same_terminal(one: Any, other: Any) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(other, dict)
        and one.get("terminal_id") == other.get("terminal_id")
    )


def _info(terminal_id: str, facts: dict[str, Any], _: dict[str, Seen]) -> v2.TerminalUpdate:
    known = {name: facts[name] for name in ("command", "cwd") if isinstance(facts.get(name), str)}
    return v2.TerminalUpdate(terminal_id, **known)


def _delta(
    terminal_id: str, facts: dict[str, Any], deltas: dict[str, Seen]
) -> v2.TerminalOutputChunk:
    deltas.setdefault(terminal_id, Seen())
    return _appended(terminal_id, _data(facts), deltas)


def _output(
    terminal_id: str, facts: dict[str, Any], deltas: dict[str, Seen]
) -> v2.TerminalUpdate | v2.TerminalOutputChunk:
    text, seen = _data(facts), deltas.get(terminal_id)
    if seen is None or not seen.begins(text):
        return _appended(terminal_id, text, deltas)
    seen = deltas[terminal_id] = Seen()
    seen.add(text)
    return v2.TerminalUpdate(terminal_id, output=v2.TerminalOutput(text_as_base64(text)))


def _appended(terminal_id: str, text: str, deltas: dict[str, Seen]) -> v2.TerminalOutputChunk:
    if terminal_id in deltas:
        deltas[terminal_id].add(text)
    return v2.TerminalOutputChunk(terminal_id, text_as_base64(text))


def _data(facts: dict[str, Any]) -> str:
    data = facts.get("data")
    return data if isinstance(data, str) else ""


def _exit(terminal_id: str, facts: dict[str, Any], _: dict[str, Seen]) -> v2.TerminalUpdate:
    code, signal = facts.get("exit_code"), facts.get("signal")
    status = v2.TerminalExitStatus(
        code if isinstance(code, int) and not isinstance(code, bool) else UNSET,
        signal if isinstance(signal, str) else UNSET,
    )
    return v2.TerminalUpdate(terminal_id, exit_status=status)


# Output arrives piece by piece under either name: codex picks one by the client's capabilities.
_DELTA, _OUTPUT = "terminal_output_delta", "terminal_output"
_HANDLERS: dict[str, Any] = {
    "terminal_info": _info,
    _DELTA: _delta,
    _OUTPUT: _output,
    "terminal_exit": _exit,
}


def text_as_base64(text: str) -> str:
    """Terminal text as version 2 carries bytes."""
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


# ---- info, plans, modes, the unknown -------------------------------------------------------


def upgrade_info(update: SessionInfoUpdate, losses: Losses) -> SessionInfoUpdate:
    """What a session is called and when it changed."""
    if not isinstance(update.updated_at, str) or is_rfc3339(update.updated_at):
        return update
    losses.report("update.updatedAt", "version 2 requires a time with its offset (RFC 3339)")
    return replace(update, updated_at=UNSET)


def upgrade_plan(update: v1.Plan, losses: Losses) -> v2.PlanUpdate:
    """The one plan of version 1, as a plan with an id."""
    return v2.PlanUpdate(
        v2.PlanItems(PLAN_ID, _entries(update.entries, losses, "update.entries")),
        **carried(update, v2.PlanUpdate, losses, "update"),
    )


def upgrade_plan_update(update: v1.PlanUpdate, losses: Losses) -> v2.PlanUpdate:
    """A plan with an id, which version 1 has as an unstable feature."""
    plan: v2.PlanUpdateContent
    if isinstance(update.plan, v1.PlanItems):
        plan = v2.PlanItems(
            update.plan.plan_id,
            _entries(update.plan.entries, losses, "update.plan.entries"),
            **carried(update.plan, v2.PlanItems, losses, "update.plan"),
        )
    else:
        plan = update.plan
        if isinstance(plan, v2.PlanFile) and not is_uri(plan.uri):
            plan = replace(plan, uri=_as_uri(plan.uri, losses, "update.plan"))
    return v2.PlanUpdate(plan, **carried(update, v2.PlanUpdate, losses, "update"))


def _entries(entries: list[v1.PlanEntry], losses: Losses, path: str) -> list[v2.PlanEntry]:
    return [
        v2.PlanEntry(
            entry.content,
            entry.priority,
            entry.status,
            **carried(entry, v2.PlanEntry, losses, f"{path}[{index}]"),
        )
        for index, entry in enumerate(entries)
    ]


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def is_rfc3339(text: str) -> bool:
    """Whether version 2 accepts a text as a time; version 1 leaves the format open."""
    if not _RFC3339.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:  # a day or hour that does not exist
        return False
    return True


def mode_id(update: v1.CurrentModeUpdate | v1.DocumentedCurrentModeUpdate) -> str:
    """The mode an update names, in either shape."""
    if isinstance(update, v1.CurrentModeUpdate):
        return update.current_mode_id
    return update.mode_id


def _only_mode(mode: str) -> v2.SessionConfigSelect:
    option = v2.SessionConfigUngrouped(mode, mode)
    return v2.SessionConfigSelect(
        "mode", "Mode", category="mode", current_value=mode, options=[option]
    )


def _unknown(update: v1.UnknownUpdate) -> v2.SessionUpdate:
    # A version 1 agent may already send an update that only version 2 has; one that does not fit
    # its shape there is malformed, not unknown.
    read: v2.SessionUpdate = codec.read(update.raw.fields, v2.SessionUpdate)
    return lift(read)


# ---- permission requests -------------------------------------------------------------------


def upgrade_permission(
    request: v1.RequestPermissionRequest, owned: set[str], losses: Losses, title: str | None = None
) -> v2.RequestPermissionRequest:
    """The tool call becomes the subject; `title` is what the call is known as, if it is known."""
    if not request.options:
        raise losses.refuse("options", "version 2 needs at least one option")
    call = upgrade_tool_call(
        request.tool_call, owned, losses, shape=v2.ToolCallPatch, path="toolCall"
    )
    return v2.RequestPermissionRequest(
        request.session_id,
        request.tool_call.title or title or request.tool_call.name or "Permission needed",
        request.options,
        subject=v2.ToolCallPermissionSubject(call),
        **carried(request, v2.RequestPermissionRequest, losses, ""),
    )


def upgrade_outcome(response: v1.RequestPermissionResponse) -> v2.RequestPermissionResponse:
    """The answer, which both versions write alike."""
    outcome: v2.RequestPermissionOutcome
    if isinstance(response.outcome, v1.UnknownPermissionOutcome):
        outcome = v2.UnknownPermissionOutcome(raw=response.outcome.raw)
    else:
        outcome = response.outcome
    return v2.RequestPermissionResponse(outcome, meta=response.meta, unknown=response.unknown)


# ---- a session, with a memory --------------------------------------------------------------


class Upgrader:
    """Converts a version 1 session to version 2, update by update.

    Args:
        losses: Where everything is reported that version 2 cannot express.
        own_terminals: The reader also has the client's terminals (a recording, a bridge that
            offers `terminal/*`), so that a terminal of version 1 becomes one of version 2.
        prefix: The first part of every message id that is made up.
        new_id: Makes up message ids instead; `prefix` is not used then.
    """

    def __init__(
        self,
        losses: Losses | None = None,
        *,
        own_terminals: bool = False,
        prefix: str = "v1",
        new_id: NewId | None = None,
    ) -> None:
        self.losses = Losses() if losses is None else losses
        self.own_terminals = own_terminals
        self._prefix = prefix
        self._id_maker = new_id
        self._made = 0
        self.prompt_id = ""
        """The id that the user's last prompt was given."""
        self._open: type[v1.ContentChunk] | None = None
        self._open_id = ""
        self._nameless = _Nameless()
        self._names: dict[str, str] = {}  # ids of messages that were begun without one
        self._titles: dict[str, str] = {}
        self._owned: set[str] = set()
        self._deltas: dict[str, Seen] = {}  # the output that arrived in deltas, by terminal
        self._with_content: set[str] = set()  # tool calls
        self._echo = Echo()
        self._modes: v1.SessionModeState | None = None
        self._options: list[v2.SessionConfigOption] = []

    def plain(self, update: Any) -> Any:
        """Lift one more piece of plain text of the open message; None for any other update.

        Most updates are such pieces. `update` lifts all others, and these too.
        """
        kind = type(update)
        if kind is not self._open or (kind is v1.UserMessageChunk and self._echo):
            return None  # only a user's chunk may be the echo of a prompt
        content, message_id = update.content, update.message_id
        if (
            type(content) is not TextContent
            or content.annotations is not UNSET
            or update.meta is not UNSET
            or update.unknown is not UNSET
        ):
            return None
        if message_id:
            if self._nameless.seen is not None or message_id in self._names:
                return None
            self._open_id = message_id
        elif self._nameless.seen is not None:
            self._nameless.seen.add(content.text)
        return CHUNKS[kind](self._open_id, content)

    def update(self, update: v1.SessionUpdate) -> list[v2.SessionUpdate]:
        """Convert one update of version 1.

        Returns:
            The updates of version 2 with the same meaning, in order.
        """
        chunk = self.plain(update)
        if chunk is not None:
            return [chunk]
        match update:
            case v1.ContentChunk():
                return self._chunk(update)
            case v1.ToolCall() | v1.ToolCallUpdate():
                return self._tool_call(update)
            case v1.CurrentModeUpdate() | v1.DocumentedCurrentModeUpdate():
                rest = carried(update, v2.ConfigOptionUpdate, self.losses, "update")
                return self.mode_set(mode_id(update), **rest)
        converted = upgrade_simple(update, self.losses)
        if isinstance(converted, v2.ConfigOptionUpdate):
            self._options = converted.config_options
            return [replace(converted, config_options=self.config_options)]
        return [converted]

    # ---- messages

    def _chunk(self, update: v1.ContentChunk) -> list[v2.SessionUpdate]:
        # the echo is checked first: that costs less than the kind of every chunk
        echo = self._echo
        if echo and isinstance(update, v1.UserMessageChunk) and echo.swallows(update.content):
            return []
        kind = type(update)
        if update.message_id:
            if self._open is kind and self._nameless.is_said_by(update.content):
                return [self._named(update)]
            message_id = self._names.get(update.message_id, update.message_id)
            self._nameless.forget()
        elif self._open is kind:
            # a message without an id goes on until a chunk of another kind or a new tool call
            message_id = self._open_id
            self._nameless.go_on(update.content)
        else:
            message_id = self._new_id(kind)
            self._nameless.begin(update.content)
        chunk = upgrade_chunk(update, message_id, self.losses)
        self._open, self._open_id = kind, message_id
        return [chunk]

    def _named(self, update: v1.ContentChunk) -> v2.SessionUpdate:
        """The open message, which has no id, is repeated as a whole with an id: it is that one."""
        self._names[update.message_id or ""] = self._open_id
        self._nameless.forget()
        chunk = upgrade_chunk(update, self._open_id, self.losses)
        whole = _WHOLE[type(update)]
        return whole(self._open_id, [chunk.content], meta=chunk.meta, unknown=chunk.unknown)

    def _new_id(self, kind: type[v1.ContentChunk]) -> str:
        if self._id_maker is not None:
            return self._id_maker(kind)
        self._made += 1
        role = {v1.UserMessageChunk: "user", v1.AgentThoughtChunk: "thought"}.get(kind, "agent")
        return f"{self._prefix}:{role}:{self._made}"

    # ---- tool calls

    def _tool_call(self, update: v1.ToolCall | v1.ToolCallUpdate) -> list[v2.SessionUpdate]:
        known = update.tool_call_id in self._titles
        owned = self._terminals(update)
        patch = upgrade_tool_call(update, owned, self.losses, known=known)
        self._announced(update)
        return [*terminal_updates(update, self._deltas), patch, *self._unnamed_terminals(update)]

    def _unnamed_terminals(
        self, update: v1.ToolCall | v1.ToolCallUpdate
    ) -> list[v2.ToolCallContentChunk]:
        """References to terminals whose output a call without content would not show."""
        self._note_content(update)
        outputs = terminals_with_output(update)
        if not outputs or update.tool_call_id in self._with_content:
            return []
        self._with_content.add(update.tool_call_id)
        return [
            v2.ToolCallContentChunk(update.tool_call_id, v2.Terminal(terminal_id))
            for terminal_id in outputs
        ]

    def _note_content(self, call: v1.ToolCall | v1.ToolCallPatch) -> None:
        if call.content:
            self._with_content.add(call.tool_call_id)
        elif call.content == [] or isinstance(call, v1.ToolCall):
            self._with_content.discard(call.tool_call_id)

    def _terminals(self, update: v1.ToolCall | v1.ToolCallPatch) -> set[str]:
        self._owned |= terminals_in(update)
        if self.own_terminals:
            for item in update.content or []:
                if isinstance(item, v1.Terminal):
                    self._owned.add(item.terminal_id)
        return self._owned

    def _announced(self, call: v1.ToolCall | v1.ToolCallPatch) -> None:
        if call.tool_call_id not in self._titles:
            self._open = None  # a new tool call ends the open message
            self._titles[call.tool_call_id] = ""
        if call.title:
            self._titles[call.tool_call_id] = call.title

    def permission(self, request: v1.RequestPermissionRequest) -> v2.RequestPermissionRequest:
        """A permission request; a call that was never announced is announced by it."""
        call = request.tool_call
        title = self._titles.get(call.tool_call_id, "")
        converted = upgrade_permission(request, self._terminals(call), self.losses, title)
        self._announced(call)
        self._note_content(call)
        return converted

    # ---- modes and config options

    def setup(
        self, response: v1.NewSessionResponse | v1.SessionSetup, losses: Losses | None = None
    ) -> None:
        """Remember the modes and config options in the result of new, load or resume."""
        losses = self.losses if losses is None else losses
        self._modes = response.modes or None
        self._options = [
            upgrade_config_option(option, losses, f"configOptions[{index}]")
            for index, option in enumerate(response.config_options or [])
        ]

    @property
    def config_options(self) -> list[v2.SessionConfigOption]:
        """All the config options as version 2 has them."""
        # an agent's own mode option replaces the modes of version 1
        if self._modes is None or has_mode_option(self._options):
            return self._options
        return [option_of_modes(self._modes), *self._options]

    def mode_set(self, mode: str, **rest: Any) -> list[v2.SessionUpdate]:
        """The agent changed its mode; `rest` is the metadata of the update that reports it."""
        if has_mode_option(self._options):
            return []  # the agent reports its own option
        known = self._modes or v1.SessionModeState(mode, [])
        modes = known.available_modes
        if mode not in {each.id for each in modes}:
            modes = [*modes, v1.SessionMode(mode, mode)]
        self._modes = replace(known, current_mode_id=mode, available_modes=modes)
        return [v2.ConfigOptionUpdate(self.config_options, **rest)]

    def mode_chosen(self, mode: str) -> None:
        """The agent agreed to a mode that the client chose."""
        option = mode_option(self._options)
        if option is not None:
            self._options = with_value(self._options, option.config_id, mode)
        else:
            self.mode_set(mode)

    def options_set(
        self, response: v2.SetSessionConfigOptionResponse
    ) -> list[v2.SessionConfigOption]:
        """All the config options, after the agent answered with those that it has."""
        self._options = response.config_options
        return self.config_options

    @property
    def mode_option_id(self) -> str:
        """The id of the config option that sets the mode."""
        option = mode_option(self._options)
        return MODE if option is None else option.config_id

    def is_made_mode(self, config_id: str) -> bool:
        """Whether a config option was made of modes, so that `session/set_mode` sets it."""
        return config_id == MODE and self._modes is not None and not has_mode_option(self._options)

    # ---- turns

    def replayed(self, new_id: NewId | None = None) -> "Upgrader":
        """The upgrader for a replay of the session: it remembers the modes and options only.

        Args:
            new_id: Makes up the message ids of the replay; by default they are made up as here.
        """
        again = Upgrader(
            self.losses,
            own_terminals=self.own_terminals,
            prefix=self._prefix,
            new_id=new_id or self._id_maker,
        )
        again._modes, again._options, again._made = self._modes, self._options, self._made
        return again

    def prompt(self, blocks: list[ContentBlock], message_id: str = "") -> list[v2.SessionUpdate]:
        """A prompt was sent: version 2 shows its message and that work has begun.

        Args:
            blocks: The content of the prompt; the agent's echo of it is left out.
            message_id: The id of the message; made up if empty, and then in `prompt_id`.
        """
        self._open = None
        self._echo.expect(blocks)
        self.prompt_id = message_id or self._new_id(v1.UserMessageChunk)
        shown = upgrade_blocks(blocks, Losses(), "prompt")  # the request reports what is lost
        return [v2.UserMessage(self.prompt_id, shown), v2.StateUpdate("running")]

    def finished(self, response: v1.PromptResponse) -> v2.StateUpdate:
        """The prompt was answered, which ends the turn; later chunks join the last message."""
        self._echo.forget()
        return ended_turn(response, self.losses)

    def failed(self, error: Error, *, cancelling: bool) -> v2.StateUpdate:
        """The prompt was answered with an error, which ends the turn."""
        self._echo.forget()
        return failed_turn(error, cancelling=cancelling)


def is_plain(block: ContentBlock) -> TypeGuard[TextContent]:
    """Whether a block is text and nothing else."""
    return (
        isinstance(block, TextContent)
        and block.annotations is UNSET
        and block.meta is UNSET
        and block.unknown is UNSET
    )


class _Nameless:
    """A checksum of the open message, if it has no id and holds nothing but plain text."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: Seen | None = None
        """Its text, while one is open that holds nothing else."""

    def forget(self) -> None:
        """No such message is open, or it holds something else than plain text."""
        self.seen = None

    def begin(self, content: ContentBlock) -> None:
        """A message begins."""
        self.seen = Seen()
        self.go_on(content)

    def go_on(self, content: ContentBlock) -> None:
        """It goes on."""
        if not is_plain(content):
            self.forget()
        elif self.seen is not None:
            self.seen.add(content.text)

    def is_said_by(self, content: ContentBlock) -> bool:
        """Whether this is all of it at once."""
        return (
            self.seen is not None
            and self.seen.length > 0
            and is_plain(content)
            and self.seen.is_all_of(content.text)
        )
