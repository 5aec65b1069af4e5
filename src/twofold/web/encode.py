"""Blocks as JSON for the page: what to draw, and nothing of the protocol.

A block becomes an object with the name of its class as `type` and its fields in camel case. Fields
that are not shown and fields that have their default are left out. What a browser should not have
to find out is added: the colours of code, the words of a diff that changed, the rows of a
terminal, the sign of a tool, where the bytes of a picture are.

Total: every block of a session can be encoded. Every string comes from a block, and so is safe to
show; a link leads to http, https or mailto, and any other target is text. Nothing is without a
bound: what is too long for a page is shortened, and a number says by how much.
"""

import json
import re
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Final, NamedTuple, TypeAlias, assert_never, cast
from urllib.parse import unquote, urlsplit

import msgspec

from twofold.host.call_times import CallTime
from twofold.session import Message, Session
from twofold.styled import Parts
from twofold.styled.code import Highlighter, allowance
from twofold.styled.emulator import Outputs
from twofold.text.safe import one_line, sanitize
from twofold.view.as_html import is_safe_link
from twofold.view.blocks import (
    CompactionBlock,
    DescribedItem,
    DiffItem,
    FooterBlock,
    HeadingBlock,
    Item,
    MessageBlock,
    NoticeBlock,
    OutputBlock,
    PermissionBlock,
    Piece,
    PlanBlock,
    RemarkBlock,
    SubagentBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
    UnknownBlock,
)
from twofold.view.diff import DiffLine, changed_words, pairs
from twofold.view.live import Key, LiveBlock
from twofold.view.markdown import CodeLine, CodeStart, Markdown, MarkdownBlock, Span
from twofold.wire.base import Unknown
from twofold.wire.content import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from twofold.wire.shared import Content

Json: TypeAlias = Any
"""What `msgspec.json.encode` takes: lists, dicts, texts, numbers, and JSON that is written."""

LONGEST_TEXT: Final = 50_000
"""Characters of one text of a tool, a plan or a question."""
LONGEST_STRING: Final = 200_000
"""Characters of any string: of a command, say, that one is asked to allow."""
MOST_LINES: Final = 2_000
"""Lines of one diff."""
LONGEST_LINE: Final = 2_000
"""Characters of one line of a diff."""
LONGEST_DIFF: Final = 100_000
"""Characters of one diff."""
ROWS: Final = 200
"""Rows of a terminal, counted from the end."""
LONGEST_ROWS: Final = 40_000
"""Characters of those rows."""
MOST_PARTS: Final = 2_000
"""Pieces in one style of those rows; more of them are shown without their styles."""
LONGEST_RAW: Final = 4_000
"""Characters of the JSON of content, or of an update, that nobody knows."""
COLOURING: Final = 0.25
"""Seconds of work for all the colours of one frame; what is left over is plain."""
KEPT_PIECES: Final = 4_096
"""Lines of code and pictures of growing messages whose encoding is kept."""
KEPT_ITEMS: Final = 512
KEPT_BYTES: Final = 8 << 20
"""Diffs and texts of tools whose encoding is kept, and how much memory that takes."""
KEPT_FENCES: Final = 64
"""Growing messages whose open fence is kept."""


class Encoder:
    """Encodes the blocks of one session.

    It keeps how far the colours of a growing fence are, so that a further line costs one line.

    Args:
        session: Where the bytes of pictures and sounds are.
        time_of: Returns how long the tool call of a block has taken, if that is known.
    """

    def __init__(
        self,
        session: Session | None = None,
        time_of: Callable[[Key], CallTime | None] = lambda _: None,
    ) -> None:
        self._session = session
        self._time_of = time_of
        self._outputs = Outputs()
        self._fences: OrderedDict[Key, Highlighter | None] = OrderedDict()
        self._pieces: OrderedDict[int, tuple[Piece, Json]] = OrderedDict()
        self._items: OrderedDict[int, tuple[Item, msgspec.Raw]] = OrderedDict()
        self._weight = 0

    def put(self, key: Key, block: LiveBlock) -> Json:
        """A whole block."""
        with allowance(COLOURING):
            return self._block(key, block)

    def grow(
        self, key: Key, settled: Sequence[Piece], tail: Sequence[Piece]
    ) -> tuple[list[Json], list[Json]]:
        """What was added to a block, and its new end."""
        with allowance(COLOURING):
            return self._grown(key, settled, tail, self._fences.get(key))

    def _grown(
        self,
        key: Key,
        settled: Sequence[Piece],
        tail: Sequence[Piece],
        fence: Highlighter | None,
        *,
        whole: bool = False,
    ) -> tuple[list[Json], list[Json]]:
        media = _Media(self._session, key)
        made, fence = self._read(settled, fence, media, keep=True, again=whole)
        if fence is not None or (key in self._fences and not whole):
            self._fences[key] = fence
            self._fences.move_to_end(key)
            if len(self._fences) > KEPT_FENCES:
                self._fences.popitem(last=False)
        end, _ = self._read(tail, copy(fence), media, keep=False)
        return made, end

    # ---- blocks

    def _block(self, key: Key, block: LiveBlock) -> Json:
        match block:
            case MessageBlock():
                made = plain(block)
                items, tail = self._grown(key, block.items, block.tail, None, whole=True)
                made["items"] = items
                if tail:
                    made["tail"] = tail
                return made
            case ToolCallBlock():
                made = plain(block)
                media = _Media(self._session, key)
                made["items"] = [self._item(item, media) for item in block.items]
                made |= {"icon": block.icon, "word": block.word}
                return made | self._time(key)
            case CompactionBlock():
                made = plain(block)
                media = _Media(self._session, key)
                made["items"] = [self._item(item, media) for item in block.items]
                return made
            case UnknownBlock(latest=latest):
                return plain(block) | ({"raw": "\n".join(map(_raw, latest))} if latest else {})
            case (
                OutputBlock()
                | PermissionBlock()
                | PlanBlock()
                | NoticeBlock()
                | SubagentBlock()
                | FooterBlock()
                | HeadingBlock()
                | RemarkBlock()
            ):
                return plain(block)
            case _:
                assert_never(block)

    def _time(self, key: Key) -> dict[str, Json]:
        time = self._time_of(key)
        if time is None:
            return {}
        made: dict[str, Json] = {"seconds": round(time.seconds, 3)}
        if time.since is not None:
            made["since"] = round(time.since, 3)
        return made

    # ---- pieces of messages

    def _read(
        self,
        pieces: Sequence[Piece],
        fence: Highlighter | None,
        media: "_Media",
        *,
        keep: bool,
        again: bool = False,
    ) -> tuple[list[Json], Highlighter | None]:
        """The pieces, and the fence that is open at their end.

        With `keep` a piece that was encoded before is not encoded again, so that all observers
        see it in the same colours. With `again` the fence has not read it yet all the same.
        """
        made: list[Json] = []
        for piece in pieces:
            known = self._pieces.get(id(piece)) if keep else None
            if known is not None and not isinstance(piece, CodeStart):
                made.append(known[1])
                if again and fence is not None and isinstance(piece, CodeLine):
                    fence.add([piece.text])
                continue
            match piece:
                case CodeStart():
                    fence = Highlighter.for_language(piece.language) if piece.language else None
                    made.append(plain(piece))
                case CodeLine():
                    encoded = _code_line(piece, fence)
                    made.append(encoded)
                    self._keep_piece(piece, encoded, keep and fence is not None)
                case DescribedItem():
                    encoded = self._item(piece, media)
                    made.append(encoded)
                    self._keep_piece(piece, encoded, keep)
                case TextItem() | DiffItem() | TerminalItem():
                    made.append(self._item(piece, media))
                case _:
                    fence = None
                    made.append(plain(piece))
        return made, fence

    def _keep_piece(self, piece: Piece, encoded: Json, keep: bool) -> None:
        if keep:
            self._pieces[id(piece)] = piece, encoded  # the piece too: its id stays its own
            if len(self._pieces) > KEPT_PIECES:
                self._pieces.popitem(last=False)

    # ---- items

    def _item(self, item: Item, media: "_Media") -> Json:
        match item:
            case TextItem():
                if item.markdown:
                    return self._kept(item, _markdown_text)
                return plain(item)
            case DescribedItem():
                return plain(item) | _described(item, media)
            case DiffItem():
                return self._kept(item, _diff)
            case TerminalItem():
                return plain(item) | self._terminal(item)
            case _:
                assert_never(item)

    def _kept(self, item: Item, encode: Callable[[Any], Json]) -> msgspec.Raw:
        """The encoding of an item that costs much and stays the same object."""
        known = self._items.pop(id(item), None)
        if known is None:
            known = item, msgspec.Raw(msgspec.json.encode(encode(item)))
            self._weight += len(memoryview(known[1]))
        self._items[id(item)] = known
        while len(self._items) > KEPT_ITEMS or self._weight > KEPT_BYTES:
            _, (_, dropped) = self._items.popitem(last=False)
            self._weight -= len(memoryview(dropped))
        return known[1]

    def _terminal(self, item: TerminalItem) -> dict[str, Json]:
        """The last rows of a terminal."""
        rows, hidden = self._outputs(item, ROWS)
        shown: list[Parts] = []
        size = 0
        for row in reversed(rows):
            length = sum([len(text) for text, _ in row])
            if shown and size + length > LONGEST_ROWS:
                break
            shown.append(_beginning(row, LONGEST_ROWS))
            size += length
        shown.reverse()
        if sum(map(len, shown)) > MOST_PARTS:
            shown = [(("".join([text for text, _ in row]), ""),) for row in shown]
        made: dict[str, Json] = {"rows": shown}
        if hidden := hidden + len(rows) - len(shown):
            made["hidden"] = hidden
        return made


def encode_block(block: LiveBlock, key: Key | None = None, session: Session | None = None) -> Json:
    """A block by itself."""
    return Encoder(session).put(key or Key("footer", ""), block)


# ---- fields ------------------------------------------------------------------------------------


class _Field(NamedTuple):
    name: str
    written: str
    default: object


def _fields(shape: type) -> tuple[_Field, ...]:
    """The fields of a class that are shown."""
    found = _found.get(shape)
    if found is None:
        found = _found[shape] = tuple(
            _Field(each.name, _camel(each.name), each.default)
            for each in fields(shape)
            if each.metadata.get("shown", True) and each.name not in _ADDED.get(shape.__name__, ())
        )
    return found


_found: dict[type, tuple[_Field, ...]] = {}

_ADDED: Final = {
    "MessageBlock": ("items", "tail"),
    "ToolCallBlock": ("items",),
    "CompactionBlock": ("items",),
    "TerminalItem": ("text",),
}
"""Fields that the encoder writes itself."""


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def plain(value: Any) -> dict[str, Json]:
    """A dataclass of a view as an object, with all that is in it."""
    made: dict[str, Json] = {"type": type(value).__name__}
    for name, written, default in _fields(type(value)):
        own = getattr(value, name)
        if default is MISSING or own != default:
            made[written] = encoded(own)
    if isinstance(value, TextItem):
        _shorten(made)
    return made


def encoded(value: Any) -> Json:
    """A value of a block or a fact: texts, numbers, lists, objects, and dataclasses of a view."""
    match value:
        case Span():
            return _span(value)
        case DiffItem():
            return _diff(value)
        case str():
            left = len(value) - LONGEST_STRING
            return f"{value[:LONGEST_STRING]} … and {left:,} more characters" if left > 0 else value
        case tuple() | list():
            return [encoded(each) for each in value]
        case Mapping():
            return {str(name): encoded(each) for name, each in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return plain(value)
        case _:
            return value


def _span(span: Span) -> dict[str, Json]:
    made: dict[str, Json] = {"type": "Span", "text": span.text}
    for name in ("strong", "emphasis", "strike", "code", "image"):
        if getattr(span, name):
            made[name] = True
    if span.url:
        made["url" if is_safe_link(span.url) else "target"] = span.url
    return made


def _shorten(made: dict[str, Json]) -> None:
    left = len(made["text"]) - LONGEST_TEXT
    if left > 0:
        made["text"], made["hidden"] = made["text"][:LONGEST_TEXT], left


# ---- code --------------------------------------------------------------------------------------


def _code_line(line: CodeLine, fence: Highlighter | None) -> dict[str, Json]:
    made = plain(line)
    if fence is not None:
        spans = fence.add([line.text])[0]
        if _is_styled(spans):
            made["spans"] = spans
    return made


def _is_styled(parts: Parts) -> bool:
    return any(style for _, style in parts)


def _markdown_text(item: TextItem) -> dict[str, Json]:
    """A text that is Markdown, as its blocks."""
    text = item.text.strip("\n")
    hidden = len(text) - LONGEST_TEXT
    reader = Markdown()
    blocks: list[MarkdownBlock] = [*reader.feed(text[:LONGEST_TEXT]), *reader.end()]
    if len(blocks) > MOST_LINES:
        return plain(TextItem(text))
    fence: Highlighter | None = None
    made: list[Json] = []
    for block in blocks:
        if isinstance(block, CodeLine):
            made.append(_code_line(block, fence))
            continue
        named = isinstance(block, CodeStart) and block.language
        fence = Highlighter.for_language(cast("CodeStart", block).language) if named else None
        made.append(plain(block))
    found: dict[str, Json] = {"type": "TextItem", "markdown": made}
    if hidden > 0:
        found["hidden"] = hidden
    return found


# ---- diffs -------------------------------------------------------------------------------------

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@")
_FACTS = re.compile(r" \(([a-z, ]*)\)$")  # what the name of a file is followed by: `(new file)`


def _diff(item: DiffItem) -> dict[str, Json]:
    """The lines of a diff with their numbers, the words that changed, and colours."""
    lines = list(_shown_lines(item.lines))
    marks: dict[int, list[tuple[int, int]]] = {}
    for old, new in pairs(lines):
        gone, come = changed_words(lines[old].text, lines[new].text)
        marks[old] = _in_utf16(lines[old].text, gone)
        marks[new] = _in_utf16(lines[new].text, come)
    coloured = _coloured(lines)
    made: list[Json] = []
    for place, (line, numbers) in enumerate(zip(lines, _numbers(lines), strict=True)):
        each: dict[str, Json] = {"kind": line.kind, "text": line.text, **numbers}
        if found := marks.get(place):
            each["marks"] = found
        spans = coloured.get(place, ())
        if _is_styled(spans):
            each["spans"] = spans
        made.append(each)
    result: dict[str, Json] = {"type": "DiffItem", "lines": made}
    if hidden := len(item.lines) - len(lines):
        result["hidden"] = hidden
    return result


def _shown_lines(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    room = LONGEST_DIFF
    for line in lines[:MOST_LINES]:
        text = line.text
        if len(text) > LONGEST_LINE:
            left = len(text) - LONGEST_LINE
            text = f"{text[:LONGEST_LINE]}… {left:,} more characters"
            line = DiffLine(line.kind, text)
        room -= len(text)
        if room < 0:
            return
        yield line


def _numbers(lines: Iterable[DiffLine]) -> Iterator[dict[str, int]]:
    """The number of every line in the old file and in the new one, where they are known."""
    old = new = 0  # of the next line; 0: not known
    for line in lines:
        match line.kind:
            case "file":
                facts = _FACTS.search(line.text)
                named = facts[1].split(", ") if facts else []
                old, new = 1 if "deleted" in named else 0, 1 if "new file" in named else 0
            case "hunk":
                found = _HUNK.match(line.text)
                old, new = (int(found[1]), int(found[2])) if found else (0, 0)
        numbers: dict[str, int] = {}
        if line.kind in ("removed", "context") and old:
            numbers["old"] = old
            old += 1
        if line.kind in ("added", "context") and new:
            numbers["new"] = new
            new += 1
        yield numbers


def _coloured(lines: Sequence[DiffLine]) -> dict[int, Parts]:
    """The lines of the file as it is now, in the colours of its language, by their places."""
    found: dict[int, Parts] = {}
    path = ""
    piece: list[int] = []
    for place, line in [*enumerate(lines), (len(lines), DiffLine("file", ""))]:
        if line.kind in ("file", "hunk"):
            if path and piece:
                texts = [lines[each].text for each in piece]
                found |= zip(piece, Highlighter.for_path(path).add(texts), strict=True)
            piece = []
            if line.kind == "file":
                path = _FACTS.sub("", line.text).rpartition(" → ")[2]
        elif line.kind in ("added", "context"):
            piece.append(place)
    return found


def _in_utf16(text: str, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges as a browser counts: a character beyond the first 65,536 is two."""
    if not ranges or text.isascii() or max(text) <= "\uffff":
        return ranges

    def units(end: int) -> int:
        return end + sum([sign > "\uffff" for sign in text[:end]])

    return [(units(start), units(end)) for start, end in ranges]


def _beginning(row: Parts, size: int) -> Parts:
    made: list[tuple[str, str]] = []
    for text, style in row:
        if size <= 0:
            break
        made.append((text[:size], style))
        size -= len(text)
    return tuple(made)


# ---- media -------------------------------------------------------------------------------------


def contents(session: Session, key: Key) -> Sequence[ContentBlock | Unknown | None]:
    """What a block is made of; the place of a content block in it is its number for the page."""
    match key.kind:
        case "entry":
            number = key.identity
            if not isinstance(number, int) or not 0 <= number < len(session.entries):
                return ()
            entry = session.entries[number]
            if isinstance(entry, Message):
                return entry.content
            return [
                each.content
                if isinstance(each, Content)
                else each
                if isinstance(each, Unknown)
                else None
                for each in entry.content
            ]
        case "compaction":
            compaction = session.compactions.get(str(key.identity))
            return compaction.summary if compaction is not None else ()
        case _:
            return ()


class _Media:
    """Finds the number of a content block; what is in the session is read only if one asks."""

    def __init__(self, session: Session | None, key: Key) -> None:
        self._session = session
        self._key = key
        self._numbers: dict[int, int] | None = None
        self._every: Sequence[ContentBlock | Unknown | None] = ()

    def number(self, content: object) -> int | None:
        """Its place; None if it is in the session no more."""
        if self._session is None:
            return None
        if self._numbers is None:
            self._every = contents(self._session, self._key)
            self._numbers = {
                id(each): number
                for number, each in enumerate(self._every)
                if each is not None and not isinstance(each, TextContent)
            }
        number = self._numbers.get(id(content))
        if number is not None:
            return number
        equal = [at for at in self._numbers.values() if self._every[at] == content]
        return equal[0] if equal else None


def _described(item: DescribedItem, media: _Media) -> dict[str, Json]:
    content = item.content
    made: dict[str, Json] = {}
    match content:
        case None | TextContent():
            return {}
        case ImageContent():
            made = {"kind": "image", "mime": content.mime_type, "size": _size(content.data)}
            _add_link(made, content.uri)
        case AudioContent():
            made = {"kind": "audio", "mime": content.mime_type, "size": _size(content.data)}
        case ResourceLink():
            made = {"kind": "link", "mime": content.mime_type, "size": content.size}
            _add_link(made, content.uri)
            if content.description:
                made["description"] = sanitize(str(content.description))[:LONGEST_RAW]
        case EmbeddedResource(resource=resource):
            size = (
                len(resource.text.encode(errors="replace"))
                if isinstance(resource, TextResourceContents)
                else _size(resource.blob)
            )
            made = {"kind": "resource", "mime": resource.mime_type, "size": size}
            _add_link(made, resource.uri)
            if isinstance(resource, TextResourceContents):
                made["text"] = True
        case Unknown():
            return {"media": {"kind": "unknown"}, "raw": _raw(content)}
        case _:
            assert_never(content)
    mime = made.pop("mime")
    if isinstance(mime, str) and mime:
        made["mime"] = one_line(mime)
    if not isinstance(made["size"], int):
        del made["size"]
    number = None if made["kind"] == "link" else media.number(content)
    if number is not None:
        made["n"] = number
    return {"media": made}


def _add_link(made: dict[str, Json], uri: object) -> None:
    """Where it leads: a link of the web, or a file."""
    if not isinstance(uri, str):
        return
    if is_safe_link(uri):
        made["url"] = uri
    elif uri.startswith("file:///"):
        made["path"] = one_line(unquote(urlsplit(one_line(uri)).path))


def _size(data: str) -> int:
    return max(0, len(data) * 3 // 4 - data[-2:].count("="))


def _raw(content: Unknown) -> str:
    """The JSON of content, or of an update, that nobody knows."""
    try:
        text = json.dumps(content.raw.fields, ensure_ascii=False, indent=2)
    except (TypeError, ValueError, RecursionError):
        return "…"
    left = len(text) - LONGEST_RAW
    shown = sanitize(text[:LONGEST_RAW])
    return f"{shown} … and {left:,} characters more" if left > 0 else shown


class Bytes(NamedTuple):
    """The bytes of a picture, a sound or a resource."""

    data: bytes
    mime: str


def media_bytes(session: Session, key: Key, number: int) -> Bytes | None:
    """The bytes of a content block of a block; None if there are none."""
    every = contents(session, key)
    content = every[number] if 0 <= number < len(every) else None
    match content:
        case ImageContent() | AudioContent():
            return _decoded(content.data, content.mime_type)
        case EmbeddedResource(resource=BlobResourceContents() as blob):
            return _decoded(blob.blob, blob.mime_type)
        case EmbeddedResource(resource=TextResourceContents() as text):
            return Bytes(text.text.encode(errors="replace"), "text/plain")
        case _:
            return None


def _decoded(data: str, mime: object) -> Bytes | None:
    try:
        return Bytes(b64decode("".join(data.split()), validate=True), str(mime or ""))
    except ValueError:
        return None


def parsed_key(text: str) -> Key | None:
    """The key of a block that has bytes, as the page names it."""
    kind, _, identity = text.partition(":")
    if kind == "entry" and identity.isascii() and identity.isdigit() and len(identity) < 12:
        return Key("entry", int(identity))
    return Key("compaction", identity) if kind == "compaction" else None
