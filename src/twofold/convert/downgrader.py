"""Version 2 → version 1 with a memory, one session at a time.

`Downgrader` knows what each message has shown, what each tool call holds and what each terminal
printed. Pure: updates in, updates out, losses reported.
"""

import base64
import binascii
from typing import Any

from msgspec import Struct, field

from twofold.view.terminal import TerminalText
from twofold.convert.downgrade import CHUNKS as CHUNKS_OF_V1
from twofold.convert.downgrade import (
    WHOLE,
    downgrade_block,
    downgrade_chunk,
    downgrade_simple,
    downgrade_tool_call,
    downgrade_tool_content,
    report_clear,
    representable_content,
)
from twofold.convert.drafts import lift_content
from twofold.convert.losses import Losses
from twofold.convert.permission import downgrade_permission
from twofold.convert.sent import Sent
from twofold.wire import v1, v2
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import CompactionSummaryChunk, CompactionUpdate, Content, Notice


class _Terminal:
    """A terminal as text, which is all that version 1 can show of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._output = TerminalText()
        self._command = ""
        self._exit = ""

    def apply(self, update: v2.TerminalUpdate | v2.TerminalOutputChunk) -> None:
        if isinstance(update, v2.TerminalOutputChunk):
            self._output.feed(_bytes(update.data))
            return
        if update.output is not UNSET:
            self._output = TerminalText()
            if update.output:
                self._output.feed(_bytes(update.output.data))
        if update.command is not UNSET:
            self._command = f"$ {update.command}\n" if update.command else ""
        if update.exit_status is not UNSET:
            self._exit = _exit(update.exit_status) if update.exit_status else ""

    @property
    def text(self) -> str:
        text = self._command + self._output.text[-self._limit :]
        if self._exit and text and not text.endswith("\n"):
            text += "\n"
        return text + self._exit


def _exit(status: v2.TerminalExitStatus) -> str:
    if status.signal:
        return f"[ended by {status.signal}]"
    return f"[exit {status.exit_code}]" if isinstance(status.exit_code, int) else "[ended]"


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4))
    except (binascii.Error, ValueError):
        return b""


class _Call(Struct):
    """A tool call as the version 1 side has it."""

    shown: set[str] = field(default_factory=set)
    """Which of the fields that cannot be cleared it has."""
    content: list[str | list[v1.ToolCallContent]] = field(default_factory=list)
    """What its items became; a terminal is kept by its id, for its text still changes."""


class Downgrader:
    """A version 2 session on its way to version 1.

    `notices`, `compactions`: whether the client advertised that it understands them.
    `terminal_limit`: how much of a terminal's text is shown, counted from its end.
    """

    def __init__(
        self,
        losses: Losses | None = None,
        *,
        notices: bool = True,
        compactions: bool = True,
        terminal_limit: int = 64 * 1024,
    ) -> None:
        self.losses = Losses() if losses is None else losses
        self._notices = notices
        self._compactions = compactions
        self._terminal_limit = terminal_limit
        self._sent: dict[tuple[type[v1.ContentChunk], str], Sent] = {}
        self._calls: dict[str, _Call] = {}
        self._terminals: dict[str, _Terminal] = {}
        self._referring: dict[str, set[str]] = {}  # terminal → tool calls
        self._made = 0

    def update(self, update: v2.SessionUpdate) -> list[v1.SessionUpdate]:
        """The updates of version 1 that say what `update` says, as far as it can be said."""
        match update:
            case v2.ContentChunk():
                self._shown(CHUNKS_OF_V1[type(update)], update.message_id).add(update.content)
                return [downgrade_chunk(update, self.losses)]
            case v2.MessagePatch():
                return self._message(update)
            case v2.ToolCallUpdate():
                return self._tool_call(update)
            case v2.ToolCallContentChunk():
                return self._content_chunk(update)
            case v2.TerminalUpdate() | v2.TerminalOutputChunk():
                return self._terminal(update)
            case Notice() if not self._notices:
                self.losses.report("update", "the client does not show notices")
                return []
            case CompactionUpdate() | CompactionSummaryChunk() if not self._compactions:
                self.losses.report("update", "the client does not show compactions")
                return []
        return downgrade_simple(update, self.losses)

    # ---- messages

    def _shown(self, shape: type[v1.ContentChunk], message_id: str) -> Sent:
        sent = self._sent.get((shape, message_id))
        if sent is None:
            sent = self._sent[shape, message_id] = Sent()
        return sent

    def _message(self, update: v2.MessagePatch) -> list[v1.SessionUpdate]:
        shape = WHOLE[type(update)]
        content = representable_content(update, self.losses)
        sent = self._shown(shape, update.message_id)
        suffix = sent.suffix(content)
        if suffix is None:
            return self._correction(shape, update.message_id, content)
        if sent.blocks + len(suffix) != len(content):
            self.losses.report("update.content", "version 1 keeps the chunks as they were sent")
        return self._chunks(shape, update.message_id, suffix, sent)

    def _chunks(
        self, shape: type[v1.ContentChunk], message_id: str, blocks: list[ContentBlock], sent: Sent
    ) -> list[v1.SessionUpdate]:
        chunks: list[Any] = []
        for index, block in enumerate(blocks):
            sent.add(block)
            shown = downgrade_block(block, self.losses, f"update.content[{index}]")
            chunks.append(shape(shown, message_id))
        return chunks

    def _correction(
        self, shape: type[v1.ContentChunk], message_id: str, content: list[ContentBlock]
    ) -> list[v1.SessionUpdate]:
        self.losses.report(
            "update.content", "version 1 cannot replace what was sent: a correction follows it"
        )
        self._made += 1
        corrected = f"{message_id}:correction:{self._made}"
        mark = TextContent("[correction]\n")
        chunks = self._chunks(shape, corrected, [mark, *content], Sent())
        # from here on the message is what the correction shows
        sent = self._sent[shape, message_id] = Sent()
        for block in content:
            sent.add(block)
        return chunks

    # ---- tool calls

    def _tool_call(self, update: v2.ToolCallUpdate) -> list[v1.SessionUpdate]:
        call = self._calls.get(update.tool_call_id)
        known = call is not None
        if call is None:
            call = self._calls[update.tool_call_id] = _Call()
        self._note_clears(call, update)
        if update.content is not UNSET:
            self._forget(update.tool_call_id, call)
            for index, item in enumerate(update.content or []):
                self._render(update.tool_call_id, call, item, f"update.content[{index}]")
        patch = downgrade_tool_call(update, self._contents(call), self.losses)
        return [patch if known else self._whole(patch, update)]

    def _note_clears(self, call: _Call, update: v2.ToolCallUpdate) -> None:
        for name in ("title", "name", "raw_input", "raw_output", "meta"):
            value = getattr(update, name)
            if value is None and name in call.shown:
                report_clear(name, self.losses)
            elif value is not UNSET and value is not None:
                call.shown.add(name)

    def _whole(self, patch: v1.ToolCallUpdate, update: v2.ToolCallUpdate) -> v1.ToolCall:
        title = patch.title
        if not title:
            title = patch.name or (str(patch.kind) if patch.kind else "Tool call")
            self.losses.report("update.title", "version 1 needs a title")
        self._calls[update.tool_call_id].shown.add("title")
        given = {
            name: value
            for name in (*_CALL_FIELDS, "meta", "unknown")
            if (value := getattr(patch, name)) is not None
        }
        return v1.ToolCall(patch.tool_call_id, title, **given)

    def _content_chunk(self, update: v2.ToolCallContentChunk) -> list[v1.SessionUpdate]:
        call = self._calls.get(update.tool_call_id)
        if call is None:
            self._calls[update.tool_call_id] = call = _Call()
            self._render(update.tool_call_id, call, update.content, "update.content")
            empty = v1.ToolCallUpdate(update.tool_call_id, content=self._contents(call))
            return [self._whole(empty, v2.ToolCallUpdate(update.tool_call_id))]
        self._render(update.tool_call_id, call, update.content, "update.content")
        return [v1.ToolCallUpdate(update.tool_call_id, content=self._contents(call))]

    def _render(self, call_id: str, call: _Call, item: v2.ToolCallContent, path: str) -> None:
        if isinstance(item, v2.Terminal):
            self.losses.report(path, "version 1 has no agent-owned terminals: it becomes text")
            self._referring.setdefault(item.terminal_id, set()).add(call_id)
            call.content.append(item.terminal_id)
        else:
            call.content.append(downgrade_tool_content(lift_content(item), self.losses, path))

    def _forget(self, call_id: str, call: _Call) -> None:
        for item in call.content:
            if isinstance(item, str):
                self._referring[item].discard(call_id)
        call.content = []

    def _contents(self, call: _Call) -> list[v1.ToolCallContent]:
        items: list[v1.ToolCallContent] = []
        for item in call.content:
            if isinstance(item, str):
                items.append(Content(TextContent(self._terminal_text(item))))
            else:
                items += item
        return items

    def permission(
        self, request: v2.RequestPermissionRequest | v2.JuneRequestPermissionRequest
    ) -> v1.RequestPermissionRequest:
        """A permission request; the tool call it shows is known from then on."""
        self._made += 1
        made = downgrade_permission(request, self.losses, f"v2:permission:{self._made}")
        self._calls.setdefault(made.tool_call.tool_call_id, _Call())
        return made

    # ---- terminals

    def _terminal(
        self, update: v2.TerminalUpdate | v2.TerminalOutputChunk
    ) -> list[v1.SessionUpdate]:
        terminal = self._terminals.get(update.terminal_id)
        if terminal is None:
            terminal = self._terminals[update.terminal_id] = _Terminal(self._terminal_limit)
        terminal.apply(update)
        calls = self._referring.get(update.terminal_id)
        if not calls:
            # a tool call may still refer to it; until then nobody sees it
            self.losses.report("update", "version 1 shows a terminal only inside a tool call")
            return []
        return [
            v1.ToolCallUpdate(call_id, content=self._contents(self._calls[call_id]))
            for call_id in sorted(calls)
        ]

    def _terminal_text(self, terminal_id: str) -> str:
        terminal = self._terminals.get(terminal_id)
        if terminal is None:
            return f"[terminal {terminal_id}]"
        return terminal.text


_CALL_FIELDS = ("name", "kind", "status", "content", "locations", "raw_input", "raw_output")
