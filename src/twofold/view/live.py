"""The live view of a session: blocks with keys and versions, and frames of what changed.

A frame holds the blocks that are new or different (`put`), what was added to blocks that only grew
(`grow`), and the keys of blocks that no longer exist (`gone`). An observer that applies frames in
order has the same blocks as one that reads all of the session. An observer keeps one number, the
`seq` of its last frame; one that is slow, or was away, asks with that number for what is newer.

The cost of a frame is what changed, however long the session, its messages and its outputs are.
Pure: nothing here draws, waits or looks at a clock.
"""

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, assert_never

from twofold.session import Message, Session, Terminal, ToolCall
from twofold.session.changes import (
    Change,
    CommandsChanged,
    CompactionChanged,
    ConfigChanged,
    ContentAppended,
    EntryAdded,
    EntryChanged,
    InfoChanged,
    NoticeAdded,
    PermissionChanged,
    PlanChanged,
    StateChanged,
    SubagentChanged,
    TerminalChanged,
    TerminalOutputAppended,
    UnknownAdded,
    UsageChanged,
)
from twofold.text.safe import Seen
from twofold.text.terminal import TerminalText
from twofold.view.blocks import (
    Block,
    MessageBlock,
    OutputBlock,
    Piece,
    TextItem,
    ToolCallBlock,
    joined,
)
from twofold.view.message import MessageReader
from twofold.view.outline import (
    Look,
    UnknownKinds,
    compaction_block,
    footer,
    notice_block,
    plan_block,
    sender_of,
    subagent_block,
)
from twofold.wire import v2
from twofold.wire.content import ContentBlock, TextContent

Kind: TypeAlias = Literal[
    "entry",
    "permission",
    "plan",
    "notice",
    "compaction",
    "subagent",
    "unknown",
    "terminal",
    "footer",
    "turn",
]


class Key(NamedTuple):
    """Which block: its kind, and the index or id that the session knows it by."""

    kind: Kind
    identity: int | str

    def __str__(self) -> str:
        """The key as a text that can be sent: `entry:12`."""
        # an id of the agent may hold half a surrogate pair, which no encoding has
        return f"{self.kind}:{self.identity}".encode(errors="backslashreplace").decode()


LiveBlock: TypeAlias = Block | OutputBlock


class Put(NamedTuple):
    """A block that is new, or different from what it was."""

    key: Key
    version: int
    """The sequence number of the change that last touched the block."""
    block: LiveBlock


class Grow(NamedTuple):
    """What was added to a block, and its end, which replaces the end it had before."""

    key: Key
    settled: tuple[Piece, ...]
    tail: tuple[Piece, ...]


class Frame(NamedTuple):
    """What changed; blocks that are new come in the order in which they are to be shown."""

    seq: int
    put: list[Put]
    grow: list[Grow]
    gone: list[Key]


FOOTER: Final = Key("footer", "")
PLACED: Final[frozenset[Kind]] = frozenset(
    {"entry", "notice", "compaction", "subagent", "unknown", "turn"}
)
"""The kinds of blocks that are read one after the other; all others are shown beside them."""
LONGEST_OUTPUT: Final = 1 << 20
"""How many characters of a terminal's output a block holds, counted from the end."""
KEPT_PIECES: Final = 1024
"""How many settled pieces of a block are kept for observers that are behind."""
KEPT_BLOCKS: Final = 64
"""For how many blocks pieces are kept: those that grew last."""


class Live:
    """Follows one session.

    Args:
        session: The session; it may hold something already.
        outputs: Whether outputs of terminals are blocks of their own, as plain text. A toolkit
            that interprets the output itself has no use for them: then the tool calls that show a
            terminal change with its output.
        texts: Whether the items of terminals hold the text of their output, for a view that is
            drawn once: every change of the output would read all of it again.
        cwd: The directory of the session, if it is known: paths inside of it are shown relative
            to it, and it is not named where a command runs in it.
        seq: The number to begin with, for a view that takes the place of another one.
        earlier: Blocks that come before those of the session, as `add` adds them.
    """

    def __init__(
        self,
        session: Session,
        *,
        outputs: bool = True,
        texts: bool = False,
        cwd: str | None = None,
        seq: int = 0,
        earlier: Iterable[LiveBlock] = (),
    ) -> None:
        self.session = session
        self.seq = seq
        """The number of changes that were taken."""
        self.places: list[Key] = []
        """The blocks that are read one after the other, in the order in which they appeared. It
        only grows, so each of them has a place that never changes; one that is gone leaves a hole.
        """
        self._outputs = outputs
        self._look = Look(session, outputs=texts, cwd=cwd)
        self._kinds = UnknownKinds(session)
        self._noted: dict[int, tuple[list[v2.ToolCallContent], int]] = {}  # what of an entry
        self._showing: dict[str, set[int]] = {}  # the entries that show a terminal, by its id
        self._asked: dict[int | str, Key] = {}  # where a question is shown, also after its answer
        self._blocks: dict[Key, _Tracked] = {}  # those that changed last are at the end
        self._beside: dict[Key, _Tracked] = {}  # those without a place, in the same order
        self._growing: dict[Key, _Tracked] = {}  # those whose pieces are kept, in the same order
        self._added = list(earlier)
        for key in self._everything():
            self._touch(key)

    def take(self, changes: Iterable[Change]) -> list[Key]:
        """Note what changed.

        Returns:
            The blocks that are new, different or gone, each once.
        """
        self.seq += 1
        every = dict.fromkeys(changes)  # many are equal
        keys = dict.fromkeys(key for change in every for key in self._keys(change))
        for key in keys:
            self._touch(key)
        return list(keys)

    def frame(self, since: int | None = None, window: Iterable[Key] | None = None) -> Frame:
        """What changed since a frame.

        Args:
            since: The `seq` of the last frame that was seen; None for an observer that begins.
            window: The blocks that are shown; None for all of them.
        """
        last = -1 if since is None else since
        found = self._newer(last) if window is None else filter(None, map(self._blocks.get, window))
        frame = Frame(self.seq, [], [], [])
        for tracked in sorted(found, key=lambda each: each.place):
            if tracked.version > last:
                self._add(tracked, last, frame)
        return frame

    def window(self, since: int | None, first: int, end: int | None = None) -> Frame:
        """What changed since a frame in a range of places, and in all blocks without a place.

        Args:
            since: The `seq` of the last frame that was seen; None for an observer that begins.
            first: The first place.
            end: The place after the last one; None for all that there are.
        """
        keys = self.places[max(0, first) : end if end is None else max(0, end)]
        return self.frame(since, [*keys, *self._changed_beside(since)])

    def at(self, key: Key) -> int | None:
        """The place of a block in `places`; None if it is shown beside them, or is unknown."""
        tracked = self._blocks.get(key)
        return tracked.at if tracked is not None else None

    def add(self, block: LiveBlock) -> Key:
        """Add a block of the host itself, such as how a turn ended, below all there is."""
        self.seq += 1
        self._added.append(block)
        key = Key("turn", len(self._added) - 1)
        self._touch(key)
        return key

    def block(self, key: Key) -> LiveBlock | None:
        """The whole block as it is now; None if there is none (any more)."""
        session, identity = self.session, key.identity
        match key.kind:
            case "entry":
                known = isinstance(identity, int) and identity < len(session.entries)
                return self._look.entry(session.entries[int(identity)]) if known else None
            case "permission":
                permission = session.permissions.get(identity)
                shown = permission is not None and self._asked.get(identity, key) == key
                return self._look.question(permission) if permission and shown else None
            case "plan":
                update = session.plans.get(str(identity))
                return plan_block(update.plan) if update else None
            case "notice":
                return notice_block(session.notices[int(identity)])
            case "compaction":
                return compaction_block(session.compactions[str(identity)])
            case "subagent":
                return subagent_block(session.subagents[str(identity)])
            case "unknown":
                return self._kinds.block(identity)
            case "terminal":
                terminal = session.terminals.get(str(identity))
                return _output_block(terminal.output) if terminal else None
            case "footer":
                return footer(session)
            case "turn":
                return self._added[int(identity)]
            case _:
                assert_never(key.kind)

    def cut(self, key: Key) -> list[Piece]:
        """Settle what was read of a message; what follows in it begins a new text.

        For an observer of its own that can show what is unsettled no longer. The pieces are in
        no later frame.
        """
        tracked = self._blocks.get(key)
        if tracked is None or not isinstance(tracked.stream, _MessageStream):
            return []
        self._growing.pop(key, None)
        return tracked.stream.cut(tracked.read)

    def take_cancel(self) -> None:
        """Note that a cancel was sent: the session itself reports no change for it."""
        self.seq += 1
        for call in self.session.open_calls.values():
            self._touch(Key("entry", call.index))
        self._touch(FOOTER)

    # ---- frames

    def _newer(self, last: int) -> Iterator["_Tracked"]:
        for tracked in reversed(self._blocks.values()):
            if tracked.version <= last:
                return
            yield tracked

    def _changed_beside(self, since: int | None) -> list[Key]:
        """The blocks without a place that changed since a frame."""
        if since is None:  # however many questions were settled, one that begins needs none of them
            asked = [Key("permission", request_id) for request_id in self.session.permissions]
            plans = [Key("plan", plan_id) for plan_id in self.session.plans]
            outputs = [Key("terminal", identity) for identity in self.session.terminals]
            return [*(outputs if self._outputs else ()), *asked, *plans, FOOTER]
        changed = []
        for tracked in reversed(self._beside.values()):
            if tracked.version <= since:
                break
            changed.append(tracked.key)
        return changed

    def _touch(self, key: Key) -> None:
        tracked = self._blocks.pop(key, None)
        if tracked is None:
            tracked = _Tracked(key, len(self._blocks))
            if key.kind in PLACED:
                tracked.at = len(self.places)
                self.places.append(key)
        if tracked.at is None:
            self._beside.pop(key, None)
            self._beside[key] = tracked
        tracked.version = self.seq
        self._blocks[key] = tracked

    def _add(self, tracked: "_Tracked", last: int, frame: Frame) -> None:
        stream = tracked.stream or self._stream(tracked)
        if stream is not None:
            self._grow(tracked, stream, last, frame)
            return
        block = self.block(tracked.key)
        if block is not None:
            frame.put.append(Put(tracked.key, tracked.version, block))
        elif last >= 0:
            frame.gone.append(tracked.key)

    def _stream(self, tracked: "_Tracked") -> "_Stream | None":
        """How to read a block that grows; None if it is always read as a whole."""
        key = tracked.key
        if key.kind == "entry":
            entry = self.session.entries[int(key.identity)]
            if isinstance(entry, Message):
                tracked.stream = _MessageStream(entry)
            else:
                tracked.stream = _CallStream(entry, self._look)
        elif key.kind == "terminal":
            tracked.stream = _OutputStream(self.session.terminals[str(key.identity)])
        return tracked.stream

    def _grow(self, tracked: "_Tracked", stream: "_Stream", last: int, frame: Frame) -> None:
        key, log = tracked.key, stream.log
        if tracked.read < tracked.version:
            # read once for every version: so all observers agree on what a version holds
            stream.read(self.seq)
            tracked.read = self.seq
            self._growing.pop(key, None)
            self._growing[key] = tracked
            if len(self._growing) > KEPT_BLOCKS:
                self._growing.pop(next(iter(self._growing))).forget()
        if last < log.begun or last < log.forgotten:
            frame.put.append(Put(key, tracked.version, stream.block()))
            return
        settled = log.since(last)
        if settled or log.tail_changed > last:
            frame.grow.append(Grow(key, settled, log.tail))

    # ---- changes

    def _everything(self) -> list[Key]:
        session = self.session
        keys = [Key("turn", number) for number in range(len(self._added))]
        keys += [Key("entry", index) for index in range(len(session.entries))]
        for index in range(len(session.entries)):
            self._note_call(index)
        if self._outputs:
            keys += [Key("terminal", terminal_id) for terminal_id in session.terminals]
        keys += [self._question(request_id) for request_id in session.permissions]
        keys += [Key("plan", plan_id) for plan_id in session.plans]
        keys += [Key("notice", index) for index in range(len(session.notices))]
        keys += [Key("compaction", identity) for identity in session.compactions]
        keys += [Key("subagent", identity) for identity in session.subagents]
        keys += [Key("unknown", kind) for kind in self._kinds.all()]
        return list(dict.fromkeys([*keys, FOOTER]))

    def _keys(self, change: Change) -> Iterator[Key]:
        match change:
            case EntryAdded() | EntryChanged() | ContentAppended():
                yield from self._note_call(change.index)
                yield Key("entry", change.index)
            case TerminalOutputAppended() if self._outputs:
                yield Key("terminal", change.terminal_id)
            case TerminalChanged() | TerminalOutputAppended():
                if self._outputs:
                    yield Key("terminal", change.terminal_id)
                showing = self._showing.get(change.terminal_id, ())
                yield from (Key("entry", index) for index in sorted(showing))
            case PermissionChanged():
                self._look.refresh_question(change.request_id)
                yield self._question(change.request_id)
            case PlanChanged():
                yield Key("plan", change.plan_id)
            case NoticeAdded():
                yield Key("notice", change.index)
            case CompactionChanged():
                yield Key("compaction", change.compaction_id)
            case SubagentChanged():
                yield Key("subagent", change.session_id)
            case UnknownAdded():
                yield Key("unknown", self._kinds.of(change.index))
            case (
                CommandsChanged()
                | ConfigChanged()
                | InfoChanged()
                | UsageChanged()
                | StateChanged()
            ):
                yield FOOTER
            case _:
                assert_never(change)

    def _note_call(self, index: int) -> Sequence[Key]:
        """Note the terminals that an entry shows.

        Returns:
            The questions that were shown by themselves before their tool call was there.
        """
        call = self.session.entries[index]
        if not isinstance(call, ToolCall):
            return ()
        moved = self._look.refresh_call(call)
        for request_id in moved:
            self._asked[request_id] = Key("entry", index)
        noted, count = self._noted.get(index, (None, 0))
        for content in call.content[count if noted is call.content else 0 :]:
            if isinstance(content, v2.Terminal):
                self._showing.setdefault(content.terminal_id, set()).add(index)
        if call.content:
            self._noted[index] = call.content, len(call.content)
        return [Key("permission", request_id) for request_id in moved]

    def _question(self, request_id: int | str) -> Key:
        """Where a question is shown: with its tool call, or by itself."""
        permission = self.session.permissions.get(request_id)
        if permission is not None:
            call = self.session.tool_calls.get(permission.tool_call_id or "")
            key = Key("entry", call.index) if call is not None else Key("permission", request_id)
            self._asked[request_id] = key
        # it may have been answered before anyone looked: then nothing was shown
        return self._asked.get(request_id) or Key("permission", request_id)


class _Tracked:
    """A block: when it first appeared, when it last changed, and how it is read if it grows."""

    __slots__ = ("at", "key", "place", "read", "stream", "version")

    def __init__(self, key: Key, place: int) -> None:
        self.key = key
        self.place = place
        self.at: int | None = None
        """Its place in `Live.places`."""
        self.version = 0
        self.read = -1
        """The version that the stream has read."""
        self.stream: _Stream | None = None

    def forget(self) -> None:
        """Keep no pieces for observers that are behind."""
        if isinstance(self.stream, _CallStream):  # read as a whole when it changes again
            self.stream.drop()
            self.stream, self.read = None, -1
        elif self.stream is not None:
            self.stream.log.forget(self.read)


# ---- blocks that grow ------------------------------------------------------------------------


class _Log:
    """The pieces of a block that settled last, each with the sequence number of its frame."""

    __slots__ = ("begun", "forgotten", "pieces", "tail", "tail_changed")

    def __init__(self) -> None:
        self.begin(-1)
        self.forgotten = -1
        """Pieces up to this number may not be here any more."""

    def begin(self, seq: int) -> None:
        """The block is another one from here on."""
        self.begun = self.tail_changed = seq
        self.pieces: list[tuple[int, Piece]] = []
        self.tail: tuple[Piece, ...] = ()
        self.forgotten = -1

    def add(self, seq: int, settled: Iterable[Piece], tail: tuple[Piece, ...] = ()) -> None:
        """Append what settled, and replace the tail."""
        self.pieces += [(seq, piece) for piece in settled]
        if len(self.pieces) > 2 * KEPT_PIECES:  # not for every piece
            self.forgotten = self.pieces[-KEPT_PIECES - 1][0]
            del self.pieces[:-KEPT_PIECES]
        if tail != self.tail:
            self.tail, self.tail_changed = tail, seq

    def forget(self, seq: int) -> None:
        """Drop the pieces, none of which is newer than this number."""
        self.forgotten, self.pieces = seq, []

    def since(self, last: int) -> tuple[Piece, ...]:
        """The pieces that are newer than a number."""
        count = 0
        for version, _ in reversed(self.pieces):
            if version <= last:
                break
            count += 1
        return tuple([piece for _, piece in self.pieces[len(self.pieces) - count :]])

    @property
    def whole(self) -> tuple[Piece, ...] | None:
        """All pieces of the block; None if some were dropped."""
        return tuple([piece for _, piece in self.pieces]) if self.forgotten < self.begun else None


class _Stream(Protocol):
    """How a block that grows is read."""

    log: _Log

    def read(self, seq: int) -> None:
        """Read what is new, up to where the session is now."""

    def block(self) -> LiveBlock:
        """The whole block, as far as it was read."""


class _MessageStream:
    """A message. One that is replaced by a longer one that begins with it goes on."""

    __slots__ = ("_content", "_count", "_message", "_others", "_reader", "_seen", "_sender", "log")

    def __init__(self, message: Message) -> None:
        self.log = _Log()
        self._message = message
        self._begin()

    def _begin(self) -> None:
        self._content: Sequence[ContentBlock] = self._message.content
        self._count = 0
        self._sender = sender_of(self._message)
        self._seen = Seen()  # of the text
        self._others: list[tuple[int, ContentBlock]] = []  # and where in the text they are
        self._reader = self._new_reader()

    def _new_reader(self) -> MessageReader:
        return MessageReader(markdown=self._message.role == "agent")

    def read(self, seq: int) -> None:
        message = self._message
        if message.content is self._content and self._count:
            new = message.content[self._count :]
        else:
            rest = self._rest() if self._count else None
            if rest is None:
                self._begin()
                self.log.begin(seq)
                rest = list(message.content)
            new = rest
        if self._sender != (sender := sender_of(message)):
            self._sender, self.log.begun = sender, seq
        self._content, self._count = message.content, len(message.content)
        for block in new:
            if isinstance(block, TextContent):
                self._seen.add(block.text)
            else:
                self._others.append((self._seen.length, block))
        settled = self._reader.add(new)
        self.log.add(seq, settled, self._reader.tail())

    def _rest(self) -> list[ContentBlock] | None:
        """What a message that was replaced as a whole has beyond what was read.

        None if it does not begin with what was read. Most often it repeats what was sent in chunks.
        """
        if not self._seen.begins(self._message.text):
            return None
        rest: list[ContentBlock] = []
        length = others = 0
        for block in self._message.content:
            if isinstance(block, TextContent):
                left = length + len(block.text) - self._seen.length
                length += len(block.text)
                if left > 0:
                    rest.append(TextContent(block.text[-left:]))
            elif others < len(self._others):
                if self._others[others] != (length, block):
                    return None
                others += 1
            elif length < self._seen.length:
                return None
            else:
                rest.append(block)
        return rest if others == len(self._others) else None

    def block(self) -> MessageBlock:
        items, tail = self.log.whole, self.log.tail
        if items is None:
            reader = self._new_reader()
            items = tuple(reader.add(self._content[: self._count]))
            tail = reader.tail()
        return MessageBlock(self._message.role, joined(items), self._sender, tail)

    def cut(self, read: int) -> list[Piece]:
        """Settle the tail; all there is up to the number `read` is not needed any more."""
        self.log.forget(read)
        self.log.tail = ()
        return self._reader.end()


class _CallStream:
    """A tool call: as long as nothing else of it changes, only the items that are new are sent."""

    __slots__ = ("_block", "_call", "_look", "log")

    def __init__(self, call: ToolCall, look: Look) -> None:
        self.log = _Log()
        self._call = call
        self._look = look
        self._block: ToolCallBlock | None = None

    def read(self, seq: int) -> None:
        before, block = self._block, self._look.tool_call(self._call)
        self._block = block
        if before is None or not _continues(before, block):
            self.log.begin(seq)
        else:
            self.log.add(seq, block.items[len(before.items) :])

    def block(self) -> ToolCallBlock:
        return self._block or self._look.tool_call(self._call)

    def drop(self) -> None:
        """Forget what was found of the call."""
        self._look.forget_call(self._call)


def _continues(before: ToolCallBlock, block: ToolCallBlock) -> bool:
    """Whether a block only has more items than before.

    Items are the same if they are the same objects: a terminal that has printed more is another.
    """
    return (
        before.status == block.status
        and before.title == block.title
        and len(before.items) <= len(block.items)
        and all(map(operator.is_, before.items, block.items))
        and replace(before, items=()) == replace(block, items=())
    )


class _OutputStream:
    """The output of a terminal: lines that have ended, and the one that is being written."""

    __slots__ = ("_output", "_read", "_terminal", "_text", "_weight", "log")

    def __init__(self, terminal: Terminal) -> None:
        self.log = _Log()
        self._terminal = terminal
        self._output: bytearray | None = None
        self._read = self._weight = 0
        self._text = TerminalText()

    def read(self, seq: int) -> None:
        output = self._terminal.output
        begins = output is not self._output or self._read > len(output)
        if begins:
            self._output, self._read, self._text = output, 0, TerminalText()
            self.log.begin(seq)
        self._text.feed(output[self._read :])
        self._read = len(output)
        ended = self._text.take_ended()
        self.log.add(seq, () if begins else _text(ended), _text(self._text.line))
        self._weight += len(ended)
        if begins or self._weight > LONGEST_OUTPUT:
            self._weight = 0
            self.log.forget(seq)

    def block(self) -> OutputBlock:
        return _output_block(self._terminal.output[: self._read])


def _text(text: str) -> tuple[TextItem, ...]:
    return (TextItem(text),) if text else ()


def _output_block(output: bytearray) -> OutputBlock:
    text = TerminalText(LONGEST_OUTPUT)
    text.feed(output)
    line = text.line
    return OutputBlock(_text(text.take_ended()[-LONGEST_OUTPUT:]), _text(line))
