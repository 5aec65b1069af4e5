"""Blocks as one HTML page that stands by itself.

The page has no script and loads nothing: a policy in it forbids both, and allows just its own
stylesheet. Text of peers becomes text: it is escaped wherever it is written, links lead to http,
https and mailto only, and a picture is in the page itself, decoded and encoded again, if it is a
PNG, JPEG, GIF or WebP. Pure: the same blocks give the same page.

Colours of code and of terminals come from the caller (`Colours`), as words for styles.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import Final, TypeAlias, assert_never
from urllib.parse import urlsplit

from twofold.view.blocks import (
    Block,
    CompactionBlock,
    DescribedItem,
    DiffItem,
    FooterBlock,
    HeadingBlock,
    Item,
    MessageBlock,
    NoticeBlock,
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
from twofold.view.diff import DiffLine, DiffLineKind, Range, changed_words, pairs
from twofold.view.html_style import BASE, COLOURS
from twofold.view.markdown import (
    Blank,
    Cells,
    CodeLine,
    CodeStart,
    Heading,
    ListItem,
    Markdown,
    MarkdownBlock,
    Paragraph,
    Quote,
    Rule,
    Span,
    Table,
    TableRow,
)
from twofold.wire.content import ImageContent

StyledRow: TypeAlias = Sequence[tuple[str, str]]
"""Pieces of a row, each with the words for its style: `bold red on #ffffff`."""

LARGEST_IMAGE: Final = 8_000_000
"""Bytes of a picture that is put into the page."""
_IMAGES: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
)
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_RGB = re.compile(r"#[0-9a-f]{6}")
_SWITCHES: Final = frozenset({"bold", "dim", "italic", "underline", "strike"})
_SIGNS: Final[dict[DiffLineKind, str]] = {"added": "+", "removed": "-", "context": " "}
_FACTS = re.compile(r" \([a-z, ]*\)$")  # what follows the name of a file: `(new file)`
_FIRST_WORDS: Final = 80
"""How many characters of a thought are shown while it is closed."""


def _plain_code(language: str, lines: list[str]) -> list[StyledRow]:
    return [((line, ""),) for line in lines]


def _plain_output(item: TerminalItem) -> list[StyledRow]:
    text = item.text.rstrip()
    return [((line, ""),) for line in text.split("\n")] if text else []


@dataclass(frozen=True, slots=True)
class Colours:
    """Where styled text comes from; each result has the text of what was given, line by line."""

    code: Callable[[str, list[str]], Sequence[StyledRow]] = _plain_code
    """The lines of some code, by the name of its language."""
    file: Callable[[str, list[str]], Sequence[StyledRow]] = _plain_code
    """The lines of a part of a file, by its path."""
    output: Callable[[TerminalItem], Sequence[StyledRow]] = _plain_output
    """The rows of a terminal."""


PLAIN: Final = Colours()


def html_document(blocks: Iterable[Block], title: str = "", colours: Colours = PLAIN) -> str:
    """The blocks as one page.

    Args:
        blocks: What to show, from top to bottom.
        title: The title of the page; by default the first heading.
        colours: Where the colours of code and terminals come from.
    """
    made = HtmlDocument(title, colours)
    for block in blocks:
        made.add(block)
    return made.text()


class HtmlDocument:
    """A page that is made block by block; the arguments are those of `html_document`."""

    def __init__(self, title: str = "", colours: Colours = PLAIN) -> None:
        self._title = title
        self._page = _Page(colours)
        self._body: list[str] = []

    def add(self, block: Block) -> None:
        """Add a block below the others."""
        if isinstance(block, HeadingBlock):
            self._title = self._title or block.text
        self._body.append(self._page.block(block))

    def text(self) -> str:
        """The page."""
        style = self._page.style()
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )
        body = "\n".join(self._body)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{_text(self._title or 'Session')}</title>\n"
            f"<style>{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
        )


def _run(
    blocks: Sequence[MarkdownBlock], start: int, belongs: Callable[[MarkdownBlock], bool]
) -> Sequence[MarkdownBlock]:
    """The blocks from one on that belong together; it costs as much as they are."""
    end = start
    while end < len(blocks) and belongs(blocks[end]):
        end += 1
    return blocks[start:end]


def _text(text: str) -> str:
    return escape(text, quote=True)


def _element(name: str, content: str, css: str = "") -> str:
    """An element around HTML; `css` is one of our own classes."""
    return f'<{name} class="{css}">{content}</{name}>' if css else f"<{name}>{content}</{name}>"


@dataclass(slots=True)
class _Page:
    """The parts of one page, and the colours that its stylesheet needs for them."""

    colours: Colours
    _rgb: set[str] = field(default_factory=set)

    def style(self) -> str:
        """The stylesheet."""
        own = [
            f".f-{colour}{{color:#{colour}}}.b-{colour}{{background:#{colour}}}"
            for colour in sorted(self._rgb)
        ]
        return "\n".join([BASE, *own])

    # ---- blocks

    def block(self, block: Block) -> str:
        """A block as HTML."""
        match block:
            case MessageBlock():
                return self._message(block)
            case ToolCallBlock():
                return self._tool_call(block)
            case PermissionBlock():
                return _element("section", self._permission(block), "question")
            case PlanBlock():
                return _plan(block)
            case NoticeBlock():
                words = _element("strong", _text(f"{block.severity}: {block.title}"))
                return _element("section", words + _paragraph(block.description), "notice")
            case CompactionBlock():
                words = _text(f"Context compaction: {block.status.replace('_', ' ')}")
                made = _element("p", words) + _paragraph(block.error)
                return _element("section", made + self._items(block.items), "notice")
            case SubagentBlock():
                state = f" ({block.state})" if block.state else ""
                words = _element("p", _text(f"Subagent: {block.title}{state}"))
                return _element("section", words + _paragraph(block.description), "notice")
            case UnknownBlock():
                times = f" × {block.count}" if block.count > 1 else ""
                return _element("p", _text(f"[unknown update: {block.name}]{times}"), "remark")
            case FooterBlock():
                return _footer(block)
            case HeadingBlock():
                return _heading(block)
            case RemarkBlock():
                tone = {"": "remark", "warning": "remark warning", "error": "remark error"}
                return _element("p", _text(block.text), tone[block.tone])
            case _:
                assert_never(block)

    def _message(self, block: MessageBlock) -> str:
        content = self._pieces((*block.items, *block.tail))
        match block.role:
            case "user":
                return _element("section", content, "user")
            case "agent":
                return _element("section", content, "agent")
            case "thought":
                texts = [item.text for item in block.items if isinstance(item, TextItem)]
                words = " ".join("".join(texts).split())
                short = words[:_FIRST_WORDS] + ("…" if len(words) > _FIRST_WORDS else "")
                summary = _element("summary", _text(f"Thought: {short}" if short else "Thought"))
                return _element("details", summary + content, "thought")
            case "session":
                words = _text(f"Message from session {block.sender or 'unknown'}")
                return _element("section", _element("p", words, "facts") + content, "session")

    def _pieces(self, pieces: Iterable[Piece]) -> str:
        made: list[str] = []
        for is_item, group in groupby(pieces, lambda piece: isinstance(piece, Item)):
            if is_item:
                made += [self._item(piece) for piece in group if isinstance(piece, Item)]
            else:
                blocks = [piece for piece in group if not isinstance(piece, Item)]
                made.append(self._markdown(blocks))
        return "".join(made)

    def _tool_call(self, block: ToolCallBlock) -> str:
        kind = [] if block.kind == "other" else [block.kind.replace("_", " ")]
        glyph = _element("span", _text(block.glyph), "glyph")
        status = _element("span", _text(", ".join([*kind, block.word])), "status")
        made = [_element("h3", f"{glyph} {_text(block.title)} {status}")]
        places = [_element("li", _text(str(location))) for location in block.unnamed_locations]
        if places:
            made.append(_element("ul", "".join(places), "files"))
        made.append(self._items(block.items))
        made += [
            _element("section", self._permission(permission), "question")
            for permission in block.permissions
        ]
        made += [_element("p", _text(decision), "remark") for decision in block.decisions]
        # the status is one of ours, whatever the peer sent
        css = block.status if block.status in _STATUSES else "in_progress"
        return _element("article", "".join(made), f"call {css}")

    def _permission(self, block: PermissionBlock) -> str:
        made = [_element("p", _text(f"? {block.title}"), "asked"), _paragraph(block.description)]
        if block.command is not None:
            made.append(_element("pre", _command(block.command), "terminal"))
        if block.cwd:
            made.append(_element("p", _text(f"in {block.cwd}"), "facts"))
        options = [_element("li", _text(option.name)) for option in block.options]
        return "".join([*made, _element("ul", "".join(options)) if options else ""])

    # ---- items

    def _items(self, items: Iterable[Item]) -> str:
        return "".join([self._item(item) for item in items])

    def _item(self, item: Item) -> str:
        match item:
            case TextItem():
                text = item.text.strip("\n")
                if not text:
                    return ""
                if item.markdown:
                    reader = Markdown()
                    return self._markdown([*reader.feed(text), *reader.end()])
                return _element("div", _text(text), "text")
            case DescribedItem():
                return _image(item) or _element("p", _text(item.text), "facts")
            case DiffItem():
                return self._diff(item.lines)
            case TerminalItem():
                return self._terminal(item)
            case _:
                assert_never(item)

    def _terminal(self, item: TerminalItem) -> str:
        rows = [self._row(row) for row in self.colours.output(item)]
        parts = [_command(item.command)] if item.command else []
        made = _element("pre", "\n".join([*parts, *rows]), "terminal") if parts or rows else ""
        facts = [f"in {item.cwd}"] if item.cwd else []
        facts += [] if item.received else ["output not received"]
        if facts:
            made += _element("p", _text(", ".join(facts)), "facts")
        if item.exit and not item.succeeded:
            made += _element("p", _text(item.exit), "remark error")
        return made

    def _diff(self, lines: Sequence[DiffLine]) -> str:
        """Lines with their signs; the words that changed are marked."""
        marks: dict[int, list[Range]] = {}
        for old, new in pairs(lines):
            marks[old], marks[new] = changed_words(lines[old].text, lines[new].text)
        coloured = self._coloured(lines)
        made: list[str] = []
        for place, line in enumerate(lines):
            if line.kind in _SIGNS:
                row = coloured.get(place, ((line.text, ""),))
                text = "".join(
                    [
                        _element("mark", _text(piece)) if marked else self._styled(piece, style)
                        for piece, style, marked in _marked(row, marks.get(place, []))
                    ]
                )
            else:
                text = _text(line.text)
            made.append(_element("span", _SIGNS.get(line.kind, "") + text + "\n", line.kind))
        return _element("pre", "".join(made), "diff")

    def _coloured(self, lines: Sequence[DiffLine]) -> dict[int, StyledRow]:
        """The rows of added lines and those around them in the colours of their language."""
        found: dict[int, StyledRow] = {}
        path = ""
        piece: list[int] = []
        for place, line in [*enumerate(lines), (len(lines), DiffLine("file", ""))]:
            if line.kind in ("file", "hunk"):
                texts = [lines[each].text for each in piece]
                found |= zip(piece, self.colours.file(path, texts) if path else (), strict=False)
                piece = []
                if line.kind == "file":
                    path = _FACTS.sub("", line.text).rpartition(" → ")[2]
            elif line.kind in ("added", "context"):
                piece.append(place)
        return found

    # ---- styled text

    def _row(self, row: StyledRow) -> str:
        return "".join([self._styled(text, style) for text, style in row])

    def _styled(self, text: str, style: str) -> str:
        classes = self._classes(style.split()) if style else []
        return _element("span", _text(text), " ".join(classes)) if classes else _text(text)

    def _classes(self, words: Sequence[str]) -> list[str]:
        """Our classes for the words of a style; words that we do not know have none."""
        classes = [word for word in words if word in _SWITCHES]
        colours = iter([word for word in words if word not in _SWITCHES and word != "reverse"])
        front = ground = ""
        for word in colours:
            if word == "on":
                ground = next(colours, "")
            else:
                front = word
        if "reverse" in words:
            front, ground = ground or "ground", front or "text"
        found = (self._colour("f", front), self._colour("b", ground))
        return classes + [each for each in found if each]

    def _colour(self, side: str, colour: str) -> str:
        if _RGB.fullmatch(colour):
            self._rgb.add(colour[1:])
            return f"{side}-{colour[1:]}"
        return f"{side}-{colour}" if colour in COLOURS else ""

    # ---- markdown

    def _markdown(self, blocks: Sequence[MarkdownBlock], depth: int = 0) -> str:
        """Blocks that have the same containers down to a depth."""
        made: list[str] = []
        at = 0
        while at < len(blocks):
            inside = blocks[at].within[depth : depth + 1]
            if not inside:
                leaves = _run(blocks, at, lambda each: len(each.within) <= depth)
                made.append(self._leaves(leaves))
                at += len(leaves)
                continue
            kind = _container(inside[0])
            group = _run(blocks, at, lambda each: _kind(each, depth) == kind)  # noqa: B023
            made.append(self._group(group, inside[0], depth))
            at += len(group)
        return "".join(made)

    def _group(
        self, blocks: Sequence[MarkdownBlock], container: Quote | ListItem, depth: int
    ) -> str:
        """A quote, or a list with its items."""
        if isinstance(container, Quote):
            return _element("blockquote", self._markdown(blocks, depth + 1))
        items: list[list[MarkdownBlock]] = []
        for block in blocks:
            own = block.within[depth]
            if not items or (isinstance(own, ListItem) and own.opens):
                items.append([])
            items[-1].append(block)
        made: list[str] = []
        for item in items:
            own = item[0].within[depth]
            assert isinstance(own, ListItem)
            box = "" if own.task is None else _text("☑ " if own.task else "☐ ")
            value = f' value="{own.number}"' if own.number is not None else ""
            css = "" if own.task is None else ' class="task"'
            made.append(f"<li{value}{css}>{box}{self._markdown(item, depth + 1)}</li>")
        return _element("ul" if container.number is None else "ol", "".join(made))

    def _leaves(self, blocks: Sequence[MarkdownBlock]) -> str:
        made: list[str] = []
        at = 0
        while at < len(blocks):
            block = blocks[at]
            at += 1
            match block:
                case Heading():
                    name = f"h{min(6, block.level + 3)}"  # below the headings of the page
                    made.append(_element(name, _spans(block.spans)))
                case Paragraph():
                    made.append(_element("p", _spans(block.spans)) if block.spans else "")
                case CodeStart() | CodeLine():
                    lines = _run(blocks, at, lambda each: isinstance(each, CodeLine))
                    at += len(lines)
                    language = block.language if isinstance(block, CodeStart) else ""
                    first = [block] if isinstance(block, CodeLine) else []
                    made.append(self._code(language, [*first, *lines]))
                case Rule():
                    made.append("<hr>")
                case Table() | TableRow():
                    rows = _run(blocks, at, lambda each: isinstance(each, TableRow))
                    at += len(rows)
                    made.append(_table([block, *rows]))
                case Blank():
                    pass
                case _:
                    assert_never(block)
        return "".join(made)

    def _code(self, language: str, blocks: Sequence[MarkdownBlock]) -> str:
        lines: list[str] = []
        for block in blocks:
            assert isinstance(block, CodeLine)
            if block.continues and lines:
                lines[-1] += block.text
            else:
                lines.append(block.text)
        rows = self.colours.code(language, lines) if language else [((each, ""),) for each in lines]
        return _element("pre", _element("code", "\n".join(map(self._row, rows))), "code")


_STATUSES: Final = frozenset(
    {
        *("pending", "in_progress", "paused", "completed", "failed", "cancelled"),
        *("waiting", "cancelling", "rejected", "left_open"),
    }
)


def _kind(block: MarkdownBlock, depth: int) -> str:
    return _container(block.within[depth]) if len(block.within) > depth else ""


def _container(container: Quote | ListItem) -> str:
    if isinstance(container, Quote):
        return "quote"
    return "bullets" if container.number is None else "numbers"


def _spans(spans: Iterable[Span]) -> str:
    return "".join([_span(span) for span in spans])


def _span(span: Span) -> str:
    text = f"[image: {span.text}]" if span.image and span.text else span.text
    made = _text(text or ("[image]" if span.image else "")).replace("\n", "<br>")
    for name, is_on in (
        ("code", span.code),
        ("del", span.strike),
        ("em", span.emphasis),
        ("strong", span.strong),
    ):
        made = _element(name, made) if is_on else made
    if span.url and is_safe_link(span.url):
        return f'<a href="{_text(span.url)}" rel="noopener noreferrer">{made}</a>'
    return f"{made} ({_text(span.url)})" if span.url and span.url != span.text else made


def is_safe_link(url: str) -> bool:
    """Whether a page may link to it: http, https and mailto, with nothing hidden in it."""
    if not url.isprintable() or any(sign.isspace() for sign in url):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and bool(parts.netloc or parts.scheme == "mailto")


def _table(blocks: Sequence[MarkdownBlock]) -> str:
    made: list[str] = []
    for block in blocks:
        if isinstance(block, Table):
            made.append(_element("thead", _cells("th", block.header)))
            made += [_cells("td", row) for row in block.rows]
        elif isinstance(block, TableRow):
            made.append(_cells("td", block.cells))
    return _element("div", _element("table", "".join(made)), "scroll")


def _cells(name: str, cells: Cells) -> str:
    return _element("tr", "".join([_element(name, _spans(cell)) for cell in cells]))


def _marked(row: StyledRow, ranges: Sequence[Range]) -> Iterator[tuple[str, str, bool]]:
    """The pieces of a row, cut where ranges begin and end: text, style, whether it is in one."""
    at = 0
    edges = sorted({edge for each in ranges for edge in each})
    for text, style in row:
        inside = [edge - at for edge in edges if 0 < edge - at < len(text)]
        for start, end in zip([0, *inside], [*inside, len(text)], strict=True):
            if start < end:
                marked = any(first <= at + start < last for first, last in ranges)
                yield text[start:end], style, marked
        at += len(text)


def _heading(block: HeadingBlock) -> str:
    facts = _text(" · ".join(block.facts))
    if block.level == 1:
        made = _element("h1", _text(block.text))
        return _element("header", made + (_element("p", facts, "facts") if facts else ""))
    beside = f" {_element('span', facts, 'facts')}" if facts else ""
    return _element("h2", _text(block.text) + beside)


def _plan(block: PlanBlock) -> str:
    steps = [
        _element("li", _text(f"{step.mark} {step.text}"), f"step {step.status}")
        for step in block.steps
    ]
    made = _element("ul", "".join(steps), "plan") if steps else _paragraph(block.text)
    return _element("section", _element("h3", "Plan") + made) if made else ""


def _footer(block: FooterBlock) -> str:
    facts = [f"{setting.name}: {setting.value}" for setting in block.settings]
    facts += [each for each in (block.usage, block.state) if each]
    title = _element("p", _text(block.title)) if block.title else ""
    return _element("footer", title + _element("p", _text(" · ".join(facts)), "facts"))


def _paragraph(text: str | None) -> str:
    return _element("div", _text(text), "text") if text and text.strip() else ""


def _command(command: str) -> str:
    rows = [("> " if number else "$ ") + row for number, row in enumerate(command.split("\n"))]
    return _element("span", _text("\n".join(rows)), "command")


def _image(item: DescribedItem) -> str:
    """A picture in the page; empty if it is none of the kinds that are shown."""
    content = item.content
    if not isinstance(content, ImageContent) or len(content.data) > LARGEST_IMAGE * 3 // 2:
        return ""
    try:
        data = base64.b64decode("".join(content.data.split()), validate=True)
    except ValueError:
        return ""
    found = [kind for start, kind in _IMAGES if start.match(data)]
    if not found or len(data) > LARGEST_IMAGE:
        return ""
    encoded = base64.b64encode(data).decode()
    return f'<img src="data:{found[0]};base64,{encoded}" alt="{_text(item.text)}">'
