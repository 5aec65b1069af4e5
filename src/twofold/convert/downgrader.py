"""Version 2 → version 1 with a memory, one session at a time.

`Downgrader` remembers what was sent of each message, what each tool call holds and what each
terminal printed. Pure: updates in, updates out, losses reported.
"""

from array import array
from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, TypeGuard, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from twofold.convert.downgrade import CHUNKS as CHUNKS_OF_V1
from twofold.convert.downgrade import (
    WHOLE,
    downgrade_block,
    downgrade_chunk,
    downgrade_simple,
    downgrade_tool_call,
    downgrade_tool_content,
    plan_id,
    report_clear,
    representable_content,
)
from twofold.convert.losses import Losses
from twofold.convert.permissions import Shown, asked_about, downgrade_permission
from twofold.convert.upgrade import PLAN_ID
from twofold.text.terminal import TerminalText
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import (
    CompactionSummaryChunk,
    CompactionUpdate,
    Content,
    Notice,
    PlanRemoved,
)

# ---- what version 1 was sent of a message ----------------------------------------------------

_TOGETHER = 64  # pieces of text that are digested at once, for a stream has thousands of them
_LARGE = 4096  # a piece of so many characters does not wait for others


class Sent:
    """What was sent of a message, as `message_id`, in constant memory.

    Version 1 only appends. A whole message of version 2 can be sent if it extends what was sent;
    a running digest decides that, so the content is not kept. `text.safe.Seen` answers a smaller
    question with a checksum: whether a plain text is what was streamed. Here blocks that are not
    text and the cuts between blocks count too, the rest of the message is returned, and a collision
    would lose a part of it.
    """

    __slots__ = ("_blocks", "_cuts", "_digest", "_length", "_texts", "growing", "message_id")

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        self._blocks = 0
        self._cuts = blake2b(digest_size=16)
        self._length = 0
        self._digest = blake2b(digest_size=16)
        self._texts: list[str] = []  # went out, and not digested yet
        self.growing = False
        """Whether it may have such text."""

    def add(self, block: ContentBlock) -> None:
        """One more block went out."""
        if is_plain(block):
            self.add_text(block.text)
            return
        self.digest()
        data = _data(block)
        self._take(data, [len(data)])

    def add_text(self, text: str) -> None:
        """One more block went out, which is plain text."""
        texts = self._texts
        texts.append(text)
        if len(texts) >= _TOGETHER or len(text) >= _LARGE:
            self.digest()

    def digest(self) -> None:
        """Forget the text that went out, but for its digest."""
        texts, self._texts = self._texts, []
        if texts:
            data = "".join(texts).encode("utf-8", "surrogatepass")
            self._take(data, [len(text) for text in texts])

    def _take(self, data: bytes, sizes: list[int]) -> None:
        self._length += len(data)
        self._digest.update(data)
        self._blocks += len(sizes)
        self._cuts.update(_cuts(sizes))

    def suffix(self, content: list[ContentBlock]) -> list[ContentBlock] | None:
        """What of `content` has not gone out yet; None if it does not begin with what has."""
        self.digest()
        digest, left = blake2b(digest_size=16), self._length
        for index, block in enumerate(content):
            data = _data(block)
            # empty text went out too, as often as it was sent
            if left == 0 and (data or index >= self._blocks):
                return content[index:] if digest.digest() == self._digest.digest() else None
            digest.update(data[:left])
            if len(data) > left:
                if digest.digest() != self._digest.digest():
                    return None
                rest = TextContent(data[left:].decode("utf-8", "surrogatepass"))
                return [rest, *content[index + 1 :]]
            left -= len(data)
        return [] if digest.digest() == self._digest.digest() else None

    def cut_like(self, content: list[ContentBlock]) -> bool:
        """Whether what went out ends, block by block, where the blocks of `content` do."""
        self.digest()
        cuts = blake2b(_cuts(map(_size, content[: self._blocks])), digest_size=16)
        return cuts.digest() == self._cuts.digest()


def _cuts(sizes: Iterable[int]) -> bytes:
    return array("Q", sizes).tobytes()


def is_plain(block: ContentBlock) -> TypeGuard[TextContent]:
    """Whether a block is text and nothing else."""
    return (
        isinstance(block, TextContent)
        and block.annotations is UNSET
        and block.meta is UNSET
        and block.unknown is UNSET
    )


def _size(block: ContentBlock) -> int:
    return len(block.text) if is_plain(block) else len(_data(block))


def _data(block: ContentBlock) -> bytes:
    # Plain text is joined, as a reader sees it; any other block is enclosed in bytes that are not
    # valid in UTF-8.
    if is_plain(block):
        return block.text.encode("utf-8", "surrogatepass")
    return b"\xff" + codec.encode(block) + b"\xff"


P = TypeVar("P", bound=v1.ToolCallPatch)

_GROWING = 8  # messages that may grow at the same time without being digested at every turn


class _Terminal:
    """A terminal as text, which is all that version 1 can show of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._output = TerminalText(self._limit)
        self._command = ""
        self._exit = ""

    def apply(self, update: v2.TerminalUpdate | v2.TerminalOutputChunk) -> None:
        if isinstance(update, v2.TerminalOutputChunk):
            self._output.feed(_bytes(update.data))
            return
        if update.output is not UNSET:
            data = _bytes(update.output.data) if update.output else b""
            self._output = TerminalText(self._limit)
            self._output.feed(data)
        if update.command is not UNSET:
            self._command = f"$ {update.command}\n" if update.command else ""
        if update.exit_status is not UNSET:
            self._exit = _exit(update.exit_status) if update.exit_status else ""

    @property
    def text(self) -> str:
        text = self._command + self._output.text
        if self._exit and text and not text.endswith("\n"):
            text += "\n"
        return text + self._exit


def _exit(status: v2.TerminalExitStatus) -> str:
    if status.signal:
        return f"[ended by {status.signal}]"
    return f"[exit {status.exit_code}]" if isinstance(status.exit_code, int) else "[ended]"


def _bytes(data: str) -> bytes:
    try:
        return codec.output_bytes(data)
    except ValueError:
        raise Malformed("update", "terminal output that is not base64") from None


class _Call(Struct):
    """A tool call as the version 1 side has it."""

    title: str = ""
    shown: set[str] = field(default_factory=set)
    """Which of the fields that cannot be cleared it has."""
    content: list[str | list[v1.ToolCallContent]] = field(default_factory=list)
    """What its items became; a terminal is kept by its id, for its text still changes."""


class Downgrader:
    """Converts a version 2 session to version 1, update by update.

    Args:
        losses: Where everything is reported that version 1 cannot express.
        notices: The client advertised that it shows notices.
        compactions: The client advertised that it shows compactions.
        terminal_limit: How much of a terminal's text is sent, counted from its end.
        gather: Terminal output and pieces of content are not sent at once but by `flush`, because
            the whole content of the tool call is sent each time. They are also sent before a call
            ends.
        cuts: A message that is the same text in other pieces counts as a loss.
    """

    def __init__(
        self,
        losses: Losses | None = None,
        *,
        notices: bool = True,
        compactions: bool = True,
        terminal_limit: int = 64 * 1024,
        gather: bool = False,
        cuts: bool = True,
    ) -> None:
        self.losses = Losses() if losses is None else losses
        self._notices = notices
        self._compactions = compactions
        self._terminal_limit = terminal_limit
        self._sent: dict[tuple[type[v1.ContentChunk], str], Sent] = {}
        self._growing: deque[Sent] = deque()  # those that have text in memory
        self._calls: dict[str, _Call] = {}
        self._terminals: dict[str, _Terminal] = {}
        self._referring: dict[str, set[str]] = {}  # terminal → tool calls
        self._gather = gather
        self._cuts = cuts
        self.gathered: dict[str, None] = {}
        """The tool calls that have content, or output of terminals, that was not sent yet."""
        self._plan = PLAN_ID  # the one that is shown
        self._made = 0

    def plain(self, update: Any) -> Any:
        """Lower a piece of plain text; None for any other update. It never loses anything.

        Most updates are such pieces. `update` lowers all others, and these too.
        """
        shape = CHUNKS_OF_V1.get(type(update))
        if shape is None or not update.message_id:
            return None
        content = update.content
        if (  # `is_plain`, without the call
            type(content) is not TextContent
            or content.annotations is not UNSET
            or content.meta is not UNSET
            or content.unknown is not UNSET
            or update.meta is not UNSET
            or update.unknown is not UNSET
        ):
            return None
        sent = self._sent.get((shape, update.message_id))
        if sent is None or not sent.growing:
            sent = self._shown(shape, update.message_id)
        sent.add_text(content.text)
        return shape(content, sent.message_id)

    def update(self, update: v2.SessionUpdate) -> list[v1.SessionUpdate]:
        """Convert one update of version 2.

        Returns:
            The updates of version 1 with the same meaning, in order, as far as there are any.
        """
        chunk = self.plain(update)
        if chunk is not None:
            return [chunk]
        if isinstance(update, v2.ToolCallUpdate) and update.tool_call_id in self.gathered:
            return self._of_gathered(update)
        return self._update(update)

    def _of_gathered(self, update: v2.ToolCallUpdate) -> list[v1.SessionUpdate]:
        """An update of a call some of whose content was not sent: most do not depend on it."""
        call_id, sent = update.tool_call_id, list[v1.SessionUpdate]()
        if update.content is UNSET and update.status not in _ENDS:
            return self._update(update)
        if update.content is UNSET:  # else it is replaced
            sent = self._gathered_of([call_id])
        lowered = self._update(update)  # which may be refused: then nothing was sent
        del self.gathered[call_id]
        return [*sent, *lowered]

    def flush(self) -> list[v1.SessionUpdate]:
        """The updates for content that was gathered since the last call."""
        sent = self._gathered_of(self.gathered)
        self.gathered = {}
        return sent

    def _gathered_of(self, calls: Iterable[str]) -> list[v1.SessionUpdate]:
        return [
            v1.ToolCallUpdate(call_id, content=self._contents(self._calls[call_id]))
            for call_id in calls
        ]

    def _update(self, update: v2.SessionUpdate) -> list[v1.SessionUpdate]:
        match update:
            case v2.ContentChunk():
                return [self._chunk(update)]
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
            case v2.PlanUpdate() | PlanRemoved():
                return self._plan_changed(update)
        return downgrade_simple(update, self.losses)

    # ---- for a caller that decides about an update before it is converted

    def has_sent(self, shape: type[v1.ContentChunk], message_id: str) -> bool:
        """Whether version 1 was sent anything of a message; `shape` is the type of its chunks."""
        return (shape, message_id) in self._sent

    def knows_call(self, call_id: str) -> bool:
        """Whether version 1 was sent this tool call, by an update or a permission request."""
        return call_id in self._calls

    def title_of(self, call_id: str) -> str:
        """The title of a tool call as version 1 has it; empty for a call without one."""
        call = self._calls.get(call_id)
        return call.title if call is not None else ""

    def shows_terminal(self, terminal_id: str) -> bool:
        """Whether a tool call that version 1 was sent refers to the terminal."""
        return bool(self._referring.get(terminal_id))

    def keep_terminal(self, update: v2.TerminalUpdate | v2.TerminalOutputChunk) -> None:
        """Keep what a terminal printed for a tool call that will refer to it; sends nothing."""
        terminal = self._terminals.get(update.terminal_id) or _Terminal(self._terminal_limit)
        terminal.apply(update)
        self._terminals[update.terminal_id] = terminal

    # ---- messages

    def _shown(self, shape: type[v1.ContentChunk], message_id: str) -> Sent:
        sent = self._sent.get((shape, message_id))
        if sent is None:
            sent = self._sent[shape, message_id] = Sent(message_id)
        if not sent.growing:
            self._grow(sent)
        return sent

    def _grow(self, sent: Sent) -> None:
        """A message goes on; those that have not for the longest time are digested."""
        sent.growing = True
        self._growing.append(sent)
        if len(self._growing) > _GROWING:
            oldest = self._growing.popleft()
            oldest.growing = False
            oldest.digest()

    def _chunk(self, update: v2.ContentChunk) -> Any:
        sent = self._shown(CHUNKS_OF_V1[type(update)], update.message_id)
        chunk = downgrade_chunk(update, self.losses)
        sent.add(update.content)
        if sent.message_id != update.message_id:  # it was corrected
            chunk = replace(chunk, message_id=sent.message_id)
        return chunk

    def _message(self, update: v2.MessagePatch) -> list[v1.SessionUpdate]:
        shape = WHOLE[type(update)]
        content = representable_content(update, self.losses)
        sent = self._shown(shape, update.message_id)
        suffix = sent.suffix(content)
        if suffix is None:
            return self._correction(shape, update.message_id, content)
        if self._cuts and not sent.cut_like(content):
            self.losses.report("update.content", "version 1 keeps the chunks as they were sent")
        chunks = self._chunks(shape, sent.message_id, suffix)
        for block in suffix:
            sent.add(block)
        return chunks

    def _chunks(
        self, shape: type[v1.ContentChunk], message_id: str, blocks: list[ContentBlock]
    ) -> list[v1.SessionUpdate]:
        chunks: list[Any] = [
            shape(downgrade_block(block, self.losses, f"update.content[{index}]"), message_id)
            for index, block in enumerate(blocks)
        ]
        return chunks

    def _correction(
        self, shape: type[v1.ContentChunk], message_id: str, content: list[ContentBlock]
    ) -> list[v1.SessionUpdate]:
        self.losses.report(
            "update.content", "version 1 cannot replace what was sent: a correction follows it"
        )
        self._made += 1
        # from here on the message is what the correction shows
        sent = self._sent[shape, message_id] = Sent(f"{message_id}:correction:{self._made}")
        for block in content:
            sent.add(block)
        mark = TextContent("[correction]\n")
        return self._chunks(shape, sent.message_id, [mark, *content])

    # ---- tool calls

    def _tool_call(self, update: v2.ToolCallUpdate) -> list[v1.SessionUpdate]:
        known = update.tool_call_id in self._calls
        call, patch = self._patched(update, v1.ToolCallUpdate, "update")
        converted = patch if known else self._whole(patch, call)
        self._remember(update.tool_call_id, call)
        return [converted]

    def _patched(self, update: v2.ToolCallPatch, shape: type[P], path: str) -> tuple[_Call, P]:
        """The call after a patch, and the patch for version 1; nothing is remembered yet."""
        known = self._calls.get(update.tool_call_id, _Call())
        call = _Call(update.title or known.title, set(known.shown), known.content)
        for name in ("title", "name", "raw_input", "raw_output", "meta"):
            value = getattr(update, name)
            if value is None and name in call.shown:
                report_clear(name, self.losses, path)
            elif value is not UNSET and value is not None:
                call.shown.add(name)
        content: list[v1.ToolCallContent] = []
        if update.content is not UNSET:
            call.content = [
                self._rendered(item, f"{path}.content[{index}]")
                for index, item in enumerate(update.content or [])
            ]
            content = self._contents(call)
        return call, downgrade_tool_call(update, content, self.losses, shape, path)

    def _remember(self, call_id: str, call: _Call) -> None:
        old = self._calls.get(call_id, _NOTHING)
        self._calls[call_id] = call
        if old.content is call.content:
            return
        for item in old.content:
            if isinstance(item, str):
                self._referring[item].discard(call_id)
        for item in call.content:
            if isinstance(item, str):
                self._referring.setdefault(item, set()).add(call_id)

    def _whole(self, patch: v1.ToolCallUpdate, call: _Call) -> v1.ToolCall:
        if not patch.title:
            call.title = patch.name or (str(patch.kind) if patch.kind else "Tool call")
            self.losses.report("update.title", "version 1 needs a title")
        call.shown.add("title")
        given = {
            name: value
            for name in (*_CALL_FIELDS, "meta", "unknown")
            if (value := getattr(patch, name)) is not None
        }
        return v1.ToolCall(patch.tool_call_id, call.title, **given)

    def _content_chunk(self, update: v2.ToolCallContentChunk) -> list[v1.SessionUpdate]:
        if update.meta or update.unknown:
            self.losses.report("update", "version 1 has no chunks of content, nor their metadata")
        item = self._rendered(update.content, "update.content")
        call = self._calls.get(update.tool_call_id)
        if call is None:
            call = _Call(content=[item])
            patch = v1.ToolCallUpdate(update.tool_call_id, content=self._contents(call))
            whole = self._whole(patch, call)
            self._remember(update.tool_call_id, call)
            return [whole]
        call.content.append(item)
        if isinstance(item, str):
            self._referring.setdefault(item, set()).add(update.tool_call_id)
        if self._gather:
            self.gathered[update.tool_call_id] = None
            return []
        return [v1.ToolCallUpdate(update.tool_call_id, content=self._contents(call))]

    def _rendered(self, item: v2.ToolCallContent, path: str) -> str | list[v1.ToolCallContent]:
        if isinstance(item, v2.Terminal):
            self.losses.report(path, "version 1 has no agent-owned terminals: it becomes text")
            return item.terminal_id
        return downgrade_tool_content(item, self.losses, path)

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
        made_up = f"v2:permission:{self._made}"
        about = asked_about(request)
        patch = None
        if isinstance(about, v2.ToolCallPatch):
            known = self._calls.get(about.tool_call_id)
            june = isinstance(request, v2.JuneRequestPermissionRequest)
            path = "toolCall" if june else "subject.toolCall"
            call, patch = self._patched(about, v1.ToolCallPatch, path)
        else:
            known = self._calls.get(about or made_up)
            call = known or _Call()
        shown = None if known is None else Shown(known.title, self._contents(known))
        made = downgrade_permission(request, self.losses, made_up, shown, patch)
        if made.tool_call.title:
            call.title = made.tool_call.title
            call.shown.add("title")
        self._remember(made.tool_call.tool_call_id, call)
        return made

    # ---- plans

    def _plan_changed(self, update: v2.PlanUpdate | PlanRemoved) -> list[v1.SessionUpdate]:
        if isinstance(update, PlanRemoved) and update.plan_id != self._plan:
            self.losses.report("update.planId", "version 1 has one plan, and shows another")
            return []
        converted = downgrade_simple(update, self.losses)
        if converted and isinstance(update, v2.PlanUpdate):
            self._plan = plan_id(update)
        return converted

    # ---- terminals

    def _terminal(
        self, update: v2.TerminalUpdate | v2.TerminalOutputChunk
    ) -> list[v1.SessionUpdate]:
        self.keep_terminal(update)
        calls = self._referring.get(update.terminal_id)
        if not calls:
            # a tool call may still refer to it; until then nobody sees it
            self.losses.report("update", "version 1 shows a terminal only inside a tool call")
            return []
        if self._gather:
            self.gathered.update(dict.fromkeys(sorted(calls)))
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


_NOTHING = _Call()
_ENDS = frozenset({"completed", "failed", "cancelled"})
_CALL_FIELDS = ("name", "kind", "status", "content", "locations", "raw_input", "raw_output")
