"""Version 2 → version 1 for a client that watches.

The downgrader of `convert` judges each update by itself; here the next ones may still come. An
empty message waits for its content and a terminal for the tool call that shows it, and both are
lost only if they wait in vain (`unsaid`). A message that was cleared, which version 1 cannot do,
goes on as a correction. What terminals print, and pieces of content, are gathered until `flush`.
Nothing here waits.
"""

from typing import Any, TypeAlias

from msgspec.structs import replace

from twofold.convert.downgrade import CHUNKS, WHOLE
from twofold.convert.downgrader import Downgrader
from twofold.convert.losses import Loss, Losses
from twofold.convert.permissions import asked_about
from twofold.wire import v1, v2
from twofold.wire.base import UNSET, Maybe

Key: TypeAlias = tuple[type[v1.ContentChunk], str]

_EMPTY = "version 1 has no empty messages"
_UNSEEN = "version 1 shows a terminal only inside a tool call"
_PATCHES: dict[type[v2.ContentChunk], type[v2.MessagePatch]] = {
    v2.AgentMessageChunk: v2.AgentMessage,
    v2.AgentThoughtChunk: v2.AgentThought,
    v2.UserMessageChunk: v2.UserMessage,
}


class Lowering(Downgrader):
    """A downgrader of a live session; the flags are what the client said that it shows."""

    def __init__(self, losses: Losses, *, notices: bool, compactions: bool, booleans: bool) -> None:
        super().__init__(losses, notices=notices, compactions=compactions, gather=True, cuts=False)
        self.merges = False
        """Whether `_meta` of a tool call is merged key by key, as the draft of November has it."""
        self._metas: dict[str, dict[str, Any]] = {}
        self._booleans = booleans
        self._empty: dict[Key, bool] = {}
        """Messages without content: true if they had some, which the client has seen."""
        self._lost = 0
        """How many of those that were never shown have lost their place."""
        self._unseen: dict[str, None] = {}
        """Terminals that no tool call showed when they printed something."""

    def update(self, update: v2.SessionUpdate) -> list[v1.SessionUpdate]:
        """The updates of version 1 that say what `update` says, as far as it can be said."""
        if isinstance(update, v2.ContentChunk):  # first, for there are thousands of them
            return self._continued(update) if self._empty else super().update(update)
        return super().update(update)

    def unsaid(self) -> list[Loss]:
        """What waited to be shown and was not; from now on it waits no longer."""
        self._displace()
        lost = [Loss("update.content", _EMPTY)] * self._lost
        lost += [Loss("update", _UNSEEN) for each in self._unseen if not self._referring.get(each)]
        self._lost = 0
        self._unseen.clear()
        return lost

    # ---- messages

    def shown_elsewhere(self, message_id: str) -> None:
        """The client shows a user message by itself: none is missing."""
        self._empty.pop((v1.UserMessageChunk, message_id), None)

    def _message(self, update: v2.MessagePatch) -> list[v1.SessionUpdate]:
        if update.meta is None:  # the client has been shown no metadata that could be cleared
            update = replace(update, meta=UNSET)
        key = (WHOLE[type(update)], update.message_id)
        if update.content or update.meta or update.unknown is not UNSET:
            self._place(key)
            return super()._message(update)
        if key not in self._sent:
            self._empty[key] = False
            return []
        if update.content is UNSET:
            return []  # it says nothing
        if not self.losses.strict:
            self._empty[key] = True
        return super()._message(update)  # which refuses to clear it

    def _continued(self, update: Any) -> list[v1.SessionUpdate]:
        """A chunk, while there are messages without content."""
        key = (CHUNKS[type(update)], update.message_id)
        cleared = self._empty.get(key, False)
        self._place(key)
        if not cleared:
            return super().update(update)
        if update.meta or update.unknown is not UNSET:
            self.losses.report("update", "a correction has no metadata of its first chunk")
        return super()._message(_PATCHES[type(update)](update.message_id, [update.content]))

    def _place(self, key: Key) -> None:
        """A message has content: if it had none before, it takes its place now."""
        if key not in self._sent:
            self._displace(key)
        self._empty.pop(key, None)

    def _displace(self, until: Key | None = None) -> None:
        """Something comes where empty messages were to be: all, or those before one of them."""
        for key, shown in list(self._empty.items()):
            if key == until:
                break
            if not shown:
                del self._empty[key]
                self._lost += 1

    # ---- tool calls and terminals

    def _update(self, update: v2.SessionUpdate) -> list[v1.SessionUpdate]:
        if isinstance(update, v2.ToolCallUpdate | v2.ToolCallContentChunk):
            if update.tool_call_id not in self._calls:
                self._displace()
            if isinstance(update, v2.ToolCallUpdate) and update.meta is not UNSET:
                meta = self._meta_of(update)
                lowered = super()._update(replace(update, meta=meta))
                self._metas[update.tool_call_id] = meta or {}
                return lowered
        elif isinstance(update, v2.ConfigOptionUpdate):
            options = self.options(update.config_options, "update.configOptions")
            update = replace(update, config_options=options)
        return super()._update(update)

    def _meta_of(self, patch: v2.ToolCallPatch) -> Maybe[dict[str, Any]]:
        """The metadata that a patch leaves its call with: version 1 replaces it as a whole."""
        meta = patch.meta
        if not isinstance(meta, dict) or not self.merges:
            return meta
        known = self._metas.get(patch.tool_call_id, {})
        merged = {key: value for key, value in (known | meta).items() if value is not None}
        return merged if merged or known else UNSET

    def permission(
        self, request: v2.RequestPermissionRequest | v2.JuneRequestPermissionRequest
    ) -> v1.RequestPermissionRequest:
        """A permission request; the tool call it shows is known from then on."""
        self._displace()
        call = asked_about(request)
        if isinstance(call, v2.ToolCallPatch) and not call.title:
            known = self._calls.get(call.tool_call_id)
            if known is None or not known.title:
                reason = "version 1 needs a title: it is that of the request"
                self.losses.report("subject.toolCall.title", reason)
        if isinstance(call, v2.ToolCallPatch) and call.meta is not UNSET:
            meta = self._meta_of(call)
            request = _with_call(request, replace(call, meta=meta))
            self._metas[call.tool_call_id] = meta or {}
        return super().permission(request)

    def _terminal(
        self, update: v2.TerminalUpdate | v2.TerminalOutputChunk
    ) -> list[v1.SessionUpdate]:
        if self._referring.get(update.terminal_id):
            return super()._terminal(update)
        losses, self.losses = self.losses, Losses()  # a tool call may still show it
        try:
            shown = super()._terminal(update)
        finally:
            self.losses = losses
        self._unseen[update.terminal_id] = None
        return shown

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
                self.losses.report(f"{path}[{index}]", "the client does not show boolean options")
            else:
                shown.append(option)
        return shown


def _with_call(
    request: v2.RequestPermissionRequest | v2.JuneRequestPermissionRequest, call: v2.ToolCallPatch
) -> Any:
    if isinstance(request, v2.JuneRequestPermissionRequest):
        return replace(request, tool_call=call)
    return replace(request, subject=v2.ToolCallPermissionSubject(call))
