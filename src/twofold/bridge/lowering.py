"""Converts the updates of a live v2 session to v1.

The `Downgrader` of `convert` judges each update by itself. In a live session a later update may
still help: an empty message waits for its content, and a terminal for the tool call that shows it.
Both are reported as lost only if nothing came (`unshown`). A message that was cleared, which v1
cannot express, goes on as a correction. Terminal output and pieces of content are collected until
`flush`. Nothing here has a clock.
"""

from typing import Any, TypeAlias

from msgspec.structs import replace

from twofold.convert.downgrade import CHUNKS, WHOLE, Downgrader, asked_about
from twofold.convert.losses import Loss, Losses
from twofold.wire import v1, v2
from twofold.wire.base import UNSET, Maybe
from twofold.wire.shared import CompactionUpdate, SessionInfoUpdate

Key: TypeAlias = tuple[type[v1.ContentChunk], str]
Message: TypeAlias = v2.UserMessage | v2.AgentMessage | v2.AgentThought
Chunk: TypeAlias = v2.UserMessageChunk | v2.AgentMessageChunk | v2.AgentThoughtChunk

_EMPTY = "version 1 has no empty messages"
_UNSEEN = "version 1 shows a terminal only inside a tool call"
_PATCHES: dict[type[v2.ContentChunk], type[Message]] = {
    v2.AgentMessageChunk: v2.AgentMessage,
    v2.AgentThoughtChunk: v2.AgentThought,
    v2.UserMessageChunk: v2.UserMessage,
}


class Lowering:
    """Converts the updates of one live session.

    Args:
        losses: Where losses are reported.
        notices: Whether the client shows notices.
        compactions: Whether the client shows compactions.
        booleans: Whether the client shows boolean config options.
        merges_meta: Whether an object in `_meta` is merged key by key, as in the draft of November.
    """

    def __init__(
        self,
        losses: Losses,
        *,
        notices: bool,
        compactions: bool,
        booleans: bool,
        merges_meta: bool = False,
    ) -> None:
        self.merges_meta = merges_meta
        self._losses = losses
        self._downgrader = Downgrader(
            losses, notices=notices, compactions=compactions, gather=True, cuts=False
        )
        self._convert = self._downgrader.update
        self._metas: dict[tuple[str, str], dict[str, Any]] = {}
        """The metadata of tool calls, of compactions and of the session, by kind and id."""
        self._booleans = booleans
        self._empty: dict[Key, bool] = {}
        """Messages without content: true if they had some, which the client was sent."""
        self._lost = 0
        """How many empty messages never got content before something else took their place."""
        self._unseen: dict[str, None] = {}
        """Terminals that no tool call showed when they printed something."""

    def update(self, update: v2.SessionUpdate) -> list[v1.SessionUpdate]:
        """Convert an update, as far as v1 can express it."""
        if isinstance(update, v2.ContentChunk):  # first, because there are thousands of them
            return self._next_chunk(update) if self._empty else self._convert(update)
        match update:
            case v2.UserMessage() | v2.AgentMessage() | v2.AgentThought():
                return self._message(update)
            case v2.ToolCallUpdate() | v2.ToolCallContentChunk():
                return self._tool_call(update)
            case v2.TerminalUpdate() | v2.TerminalOutputChunk():
                if not self._downgrader.shows_terminal(update.terminal_id):
                    self._downgrader.keep_terminal(update)  # a tool call may still show it
                    self._unseen[update.terminal_id] = None
                    return []
            case v2.ConfigOptionUpdate():
                options = self.options(update.config_options, "update.configOptions")
                update = replace(update, config_options=options)
            case CompactionUpdate() if update.meta is not UNSET:
                return self._with_meta(("compaction", update.compaction_id), update)
            case SessionInfoUpdate() if update.meta is not UNSET:
                return self._with_meta(("session", ""), update)
        return self._convert(update)

    @property
    def has_gathered(self) -> bool:
        """Whether `flush` would return something."""
        return bool(self._downgrader.gathered)

    def flush(self) -> list[v1.SessionUpdate]:
        """The updates for the terminal output and the pieces of content that were collected."""
        return self._downgrader.flush()

    def unshown(self) -> list[Loss]:
        """The losses of what waited to be shown and was not; it waits no longer."""
        self._displace()
        lost = [Loss("update.content", _EMPTY)] * self._lost
        shows = self._downgrader.shows_terminal
        lost += [Loss("update", _UNSEEN) for each in self._unseen if not shows(each)]
        self._lost = 0
        self._unseen.clear()
        return lost

    # ---- messages

    def shown_elsewhere(self, message_id: str) -> None:
        """Do not report a user message as lost: the client shows it by itself."""
        self._empty.pop((v1.UserMessageChunk, message_id), None)

    def _message(self, update: Message) -> list[v1.SessionUpdate]:
        if update.meta is None:  # the client was sent no metadata that could be cleared
            update = replace(update, meta=UNSET)
        key = (WHOLE[type(update)], update.message_id)
        if update.content or update.meta or update.unknown is not UNSET:
            self._place(key)
            return self._convert(update)
        if not self._downgrader.has_sent(*key):
            self._empty[key] = False
            return []
        if update.content is UNSET:
            return []  # it changes nothing
        if not self._losses.strict:
            self._empty[key] = True
        return self._convert(update)  # which refuses to clear it

    def _next_chunk(self, update: Chunk) -> list[v1.SessionUpdate]:
        """Convert a chunk while there are messages without content."""
        key = (CHUNKS[type(update)], update.message_id)
        cleared = self._empty.get(key, False)
        self._place(key)
        if not cleared:
            return self._convert(update)
        if update.meta or update.unknown is not UNSET:
            self._losses.report("update", "a correction has no metadata of its first chunk")
        patch = _PATCHES[type(update)]
        return self._convert(patch(update.message_id, [update.content]))

    def _place(self, key: Key) -> None:
        """A message has content: if it had none before, it takes its place now."""
        if not self._downgrader.has_sent(*key):
            self._displace(key)
        self._empty.pop(key, None)

    def _displace(self, until: Key | None = None) -> None:
        """Give up empty messages whose place is taken: all of them, or those before `until`."""
        for key, shown in list(self._empty.items()):
            if key == until:
                break
            if not shown:
                del self._empty[key]
                self._lost += 1

    # ---- tool calls

    def _tool_call(
        self, update: v2.ToolCallUpdate | v2.ToolCallContentChunk
    ) -> list[v1.SessionUpdate]:
        if not self._downgrader.knows_call(update.tool_call_id):
            self._displace()
        if not isinstance(update, v2.ToolCallUpdate) or update.meta is UNSET:
            return self._convert(update)
        return self._with_meta(("call", update.tool_call_id), update)

    def permission(
        self, request: v2.RequestPermissionRequest | v2.JuneRequestPermissionRequest
    ) -> v1.RequestPermissionRequest:
        """Convert a permission request; the client knows the tool call in it from then on."""
        self._displace()
        call = asked_about(request)
        if isinstance(call, v2.ToolCallPatch):
            if not call.title and not self._downgrader.title_of(call.tool_call_id):
                reason = "version 1 needs a title: it is that of the request"
                self._losses.report("subject.toolCall.title", reason)
            if call.meta is not UNSET:
                key = ("call", call.tool_call_id)
                meta = self._merged(key, call.meta)
                request = _with_call(request, replace(call, meta=meta))
                self._metas[key] = meta or {}
        return self._downgrader.permission(request)

    # ---- metadata

    def _with_meta(
        self,
        key: tuple[str, str],
        update: v2.ToolCallUpdate | CompactionUpdate | SessionInfoUpdate,
    ) -> list[v1.SessionUpdate]:
        """Convert a patch with all the metadata that it leaves: v1 replaces it as a whole."""
        meta = self._merged(key, update.meta)
        lowered = self._convert(replace(update, meta=meta))
        self._metas[key] = meta or {}
        return lowered

    def _merged(self, key: tuple[str, str], patch: Maybe[dict[str, Any]]) -> Maybe[dict[str, Any]]:
        if not isinstance(patch, dict) or not self.merges_meta:
            return patch
        known = self._metas.get(key, {})
        merged = {name: value for name, value in (known | patch).items() if value is not None}
        return merged if merged or known else UNSET

    # ---- config options

    def options(
        self, options: list[v2.SessionConfigOption], path: str
    ) -> list[v2.SessionConfigOption]:
        """The config options that the client can show."""
        if self._booleans:
            return options
        shown: list[v2.SessionConfigOption] = []
        for index, option in enumerate(options):
            if isinstance(option, v2.SessionConfigBoolean):
                self._losses.report(f"{path}[{index}]", "the client does not show boolean options")
            else:
                shown.append(option)
        return shown


def _with_call(
    request: v2.RequestPermissionRequest | v2.JuneRequestPermissionRequest, call: v2.ToolCallPatch
) -> Any:
    if isinstance(request, v2.JuneRequestPermissionRequest):
        return replace(request, tool_call=call)
    return replace(request, subject=v2.ToolCallPermissionSubject(call))
