"""The text of a paragraph, a heading or a cell, as spans.

Nothing raises, and nothing is hidden but the markup itself: what is not closed, raw HTML and
references to link definitions are shown as they are. A character that an entity stands for is
made safe like any other. The cost grows with the length of the text.
"""

import html
import re
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from twofold.text.safe import one_line, sanitize
from twofold.view.markdown.blocks import Span, Spans

# Which asterisks, underscores and tildes belong together.
#
# The rules of CommonMark for delimiter runs, but for underscores in names: a run that code goes on
# after (`__init__.py`, `__call__(`) closes nothing. Every run is looked at a bounded number of
# times, whatever the text.


Kind: TypeAlias = Literal["strong", "emphasis", "strike"]

_BLANK: Final = ""
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CODE_GOES_ON: Final = frozenset("./\\:=-")


@dataclass(slots=True)
class Run:
    """Characters of one kind beside each other, of which `left` are not used up yet."""

    char: str
    size: int
    node: int
    """Where it stands among the nodes of its text."""
    opens: bool
    closes: bool
    left: int


class Pair(NamedTuple):
    """Two nodes between which the text is strong, emphasised or struck out."""

    opener: int
    closer: int
    kind: Kind


def run_at(text: str, start: int, end: int, node: int) -> Run | None:
    """The delimiter run that stands there; None if it can be nothing but text."""
    char = text[start]
    before = text[start - 1] if start else _BLANK
    after = text[end] if end < len(text) else _BLANK
    blank_before, blank_after = _blank(before), _blank(after)
    mark_before, mark_after = _mark(before), _mark(after)
    left = not blank_after and (not mark_after or blank_before or mark_before)
    right = not blank_before and (not mark_before or blank_after or mark_after)
    opens, closes = left, right
    if char == "_":
        opens = left and (not right or mark_before)
        closes = right and (not left or mark_after) and not _in_name(text, end)
    elif char == "~" and end - start != 2:
        return None
    return Run(char, end - start, node, opens, closes, end - start) if opens or closes else None


def _blank(char: str) -> bool:
    return not char or char.isspace()


def _mark(char: str) -> bool:
    return char in _PUNCTUATION or (char > "\x7f" and unicodedata.category(char)[0] in "PS")


def _in_name(text: str, end: int) -> bool:
    after = text[end : end + 2]
    return after[:1] in ("(", "[") or (
        len(after) == 2 and after[0] in _CODE_GOES_ON and after[1].isalnum()
    )


def pairs(runs: list[Run]) -> list[Pair]:
    """The runs that belong together; `left` of each run is how much of it stays text."""
    made: list[Pair] = []
    openers: list[tuple[int, Run]] = []
    # For each sort of closer, the run before which none opens for it: nothing is searched twice.
    bottoms: dict[tuple[str, bool, int], int] = {}
    for number, run in enumerate(runs):
        sort = (run.char, run.opens, run.size % 3)
        while run.closes and run.left:
            found = _opener(openers, run, bottoms.get(sort, 0))
            if found is None:
                bottoms[sort] = number
                break
            del openers[found + 1 :]  # what stands between is text
            opener = openers[found][1]
            used = 2 if min(opener.left, run.left) >= 2 else 1
            opener.left -= used
            run.left -= used
            made.append(Pair(opener.node, run.node, _kind(run.char, used)))
            if not opener.left:
                openers.pop()
        if run.opens and run.left:
            openers.append((number, run))
    return made


def _opener(openers: list[tuple[int, Run]], closer: Run, bottom: int) -> int | None:
    """Where the nearest run stands that this one closes."""
    for at in range(len(openers) - 1, -1, -1):
        number, run = openers[at]
        if number < bottom:
            return None
        if run.char == closer.char and not _odd(run, closer):
            return at
    return None


def _odd(opener: Run, closer: Run) -> bool:
    """The rule of three: `*a**b*` is not cut in the middle."""
    if not (opener.closes or closer.opens) or closer.char == "~":
        return False
    return (opener.size + closer.size) % 3 == 0 and (opener.size % 3 != 0 or closer.size % 3 != 0)


def _kind(char: str, used: int) -> Kind:
    if char == "~":
        return "strike"
    return "strong" if used == 2 else "emphasis"


# The pattern starts with one class of characters, which the search passes over at full speed.
_SPECIAL = re.compile(r"[\\`*_~!\[\]<&hw](?:(?<![hw])|(?<=h)(?=ttps?://)|(?<=w)(?=ww\.[^\W_]))")
_RUN = re.compile(r"\*+|_+|~+")
_TICKS = re.compile(r"`+")
_ESCAPABLE: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_AUTOLINK = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^\0- <>]*+)>")
_EMAIL = re.compile(r"<([\w.!#$%&'*+/=?^`{|}~-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)*+)>")
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*+(?:[\s/][^<>]*+)?>|<[!?][^<>]*+>")
_URL = re.compile(r"(?:https?://|www\.)[^\s<>`\[\]]++")

_PLAIN_URL = r"[^\s()\\]|\\."
_IN_PARENS = rf"\((?:{_PLAIN_URL}|\((?:{_PLAIN_URL})*+\))*+\)"
_TARGET = re.compile(
    rf"\(\s*+(?:<([^<>\n]*+)>|((?:{_PLAIN_URL}|{_IN_PARENS})*+))"
    r"""(?:\s++(?:"[^"]*+"|'[^']*+'|\([^()]*+\)))?\s*+\)"""
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


def spans(text: str) -> Spans:
    """The text in its styles."""
    return Inline(text).spans()


@dataclass(slots=True)
class _Node:
    text: str
    start: int
    end: int
    code: bool = False
    url: str = ""
    image: bool = False
    run: Run | None = None

    def shown(self) -> str:
        """The text without what turned out to be markup."""
        return self.text if self.run is None else self.run.char * self.run.left


@dataclass(slots=True)
class _Bracket:
    node: int
    image: bool
    active: bool = True


class _Link(NamedTuple):
    opener: int
    closer: int
    url: str


class _Change(NamedTuple):
    opened: list[int]
    closed: list[int]


_KINDS: Final[dict[Kind, int]] = {"strong": 0, "emphasis": 1, "strike": 2}


class Inline:
    """One text, taken apart."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._nodes: list[_Node] = []
        self._plain = 0  # where the text begins that is in no node yet
        self._runs: list[Run] = []
        self._brackets: list[_Bracket] = []
        self._pairs: list[Pair] = []
        self._links: list[_Link] = []
        self._ticks: dict[int, list[int]] | None = None
        self._unclosed: list[int] = []  # where something begins that does not end
        self._read()

    # ---- what came out ---------------------------------------------------------------------

    def spans(self) -> Spans:
        """The text in its styles, as few spans as there are changes."""
        changes = self._changes()
        starts = {link.opener: link.url for link in self._links}
        ends = {link.closer for link in self._links}
        made = _Spans()
        depths, styles = [0, 0, 0], (False, False, False)
        url, shown = "", False
        for number, node in enumerate(self._nodes):
            if number in ends:
                if url and not shown:  # a link without any text: its target is shown
                    made.add(url, (False, False, False, False, url, False))
                url = ""
            change = changes.get(number)
            if change is not None:
                for kind in change.closed:
                    depths[kind] -= 1
                styles = (depths[0] > 0, depths[1] > 0, depths[2] > 0)
            text = node.shown()
            if text or node.image:
                target = node.url if node.image else url or node.url
                made.add(text, (*styles, node.code, target, node.image))
                shown = shown or not node.image
            if change is not None:
                for kind in change.opened:
                    depths[kind] += 1
                styles = (depths[0] > 0, depths[1] > 0, depths[2] > 0)
            if number in starts:
                url, shown = starts[number], False
        return made.end()

    def _changes(self) -> dict[int, "_Change"]:
        """What begins after a node and what ends before it."""
        made: dict[int, _Change] = {}
        for pair in self._pairs:
            kind = _KINDS[pair.kind]
            made.setdefault(pair.opener, _Change([], [])).opened.append(kind)
            made.setdefault(pair.closer, _Change([], [])).closed.append(kind)
        return made

    def whole(self) -> list[tuple[int, int]]:
        """From where to where the text must stay together to mean the same."""
        nodes = self._nodes
        atoms = [(node.start, node.end) for node in nodes if node.code or node.url]
        links = [(nodes[link.opener].start, nodes[link.closer].end) for link in self._links]
        styled = [(nodes[pair.opener].start, nodes[pair.closer].end) for pair in self._pairs]
        return [*atoms, *links, *styled]

    def unclosed(self) -> int:
        """Where the first thing begins that later text may still close; the end if nothing."""
        nodes = self._nodes
        found = [nodes[bracket.node].start for bracket in self._brackets if bracket.active]
        found += [nodes[run.node].start for run in self._runs if run.opens and run.left]
        return min([*found, *self._unclosed], default=len(self._text))

    # ---- reading ---------------------------------------------------------------------------

    def _read(self) -> None:
        text, at = self._text, 0
        while special := _SPECIAL.search(text, at):
            start = special.start()
            match text[start]:
                case "\\":
                    at = self._escape(start)
                case "`":
                    at = self._code(start)
                case "*" | "_" | "~":
                    at = self._run(start)
                case "[":
                    at = self._bracket(start, "[")
                case "!":
                    at = self._bracket(start, "![") if text.startswith("![", start) else start + 1
                case "]":
                    at = self._close(start)
                case "<":
                    at = self._angle(start)
                case "&":
                    at = self._entity(start)
                case _:
                    at = self._bare_url(start)
        self._flush(len(text))
        self._pairs += pairs(self._runs)

    def _add(self, node: _Node) -> int:
        """Take a node in, after the plain text before it; gives where it ends."""
        self._flush(node.start)
        self._nodes.append(node)
        self._plain = node.end
        return node.end

    def _flush(self, end: int) -> None:
        if end > self._plain:
            self._nodes.append(_Node(self._text[self._plain : end], self._plain, end))
            self._plain = end

    def _escape(self, start: int) -> int:
        after = self._text[start + 1 : start + 2]
        if after == "\n":
            return self._add(_Node("", start, start + 1))
        if after in _ESCAPABLE:
            return self._add(_Node(after, start, start + 2))
        return start + 1

    def _code(self, start: int) -> int:
        ticks = _TICKS.match(self._text, start)
        assert ticks is not None
        size, begin = len(ticks[0]), ticks.end()
        end = self._closing_ticks(size, begin)
        if end is None:
            self._unclosed.append(start)
            return begin
        code = self._text[begin:end].replace("\n", " ")
        if code[0] == code[-1] == " " and code.strip(" "):
            code = code[1:-1]
        return self._add(_Node(code, start, end + size, code=True))

    def _closing_ticks(self, size: int, begin: int) -> int | None:
        if self._ticks is None:
            self._ticks = {}
            for found in _TICKS.finditer(self._text):
                self._ticks.setdefault(len(found[0]), []).append(found.start())
        places = self._ticks.get(size, [])
        at = bisect_left(places, begin)
        return places[at] if at < len(places) else None

    def _run(self, start: int) -> int:
        found = _RUN.match(self._text, start)
        assert found is not None
        self._flush(start)
        run = run_at(self._text, start, found.end(), len(self._nodes))
        if run is None:
            return found.end()
        self._runs.append(run)
        return self._add(_Node("", start, found.end(), run=run))

    def _angle(self, start: int) -> int:
        text = self._text
        if found := _AUTOLINK.match(text, start):
            return self._add(_Node(found[1], start, found.end(), url=found[1]))
        if found := _EMAIL.match(text, start):
            return self._add(_Node(found[1], start, found.end(), url=f"mailto:{found[1]}"))
        if found := _TAG.match(text, start):
            return self._add(_Node(found[0], start, found.end()))
        self._wait(start, start, "<", ">")
        return start + 1

    def _wait(self, start: int, at: int, opener: str, closer: str) -> None:
        """Keep in mind what began and may end in later text: the target of a link, a tag."""
        if self._text.startswith(opener, at) and self._text.find(closer, at) < 0:
            self._unclosed.append(start)

    def _entity(self, start: int) -> int:
        found = _ENTITY.match(self._text, start)
        if found is None:
            return start + 1
        return self._add(_Node(_decoded(found), start, found.end()))

    def _bare_url(self, start: int) -> int:
        found = _URL.match(self._text, start)
        if found is None or (start and self._text[start - 1].isalnum()):
            return start + 1
        url = _without_punctuation(found[0])
        return self._add(_Node(url, start, start + len(url), url=url))

    # ---- links -----------------------------------------------------------------------------

    def _bracket(self, start: int, mark: str) -> int:
        self._flush(start)
        self._brackets.append(_Bracket(len(self._nodes), mark == "!["))
        return self._add(_Node(mark, start, start + len(mark)))

    def _close(self, start: int) -> int:
        if not self._brackets:
            return start + 1
        bracket = self._brackets.pop()
        target = _TARGET.match(self._text, start + 1) if bracket.active else None
        if target is None:
            self._wait(self._nodes[bracket.node].start, start + 1, "(", ")")
            return start + 1
        self._flush(start)
        url = _unescaped(target[1] if target[1] is not None else target[2])
        self._pairs += pairs(self._inner_runs(bracket.node))
        if bracket.image:
            return self._image(bracket.node, url, target.end())
        self._nodes[bracket.node].text = ""
        self._links.append(_Link(bracket.node, len(self._nodes), url))
        for other in reversed(self._brackets):  # links do not hold links
            if not (other.image or other.active):
                break
            other.active = other.active and other.image
        return self._add(_Node("", start, target.end()))

    def _image(self, first: int, url: str, end: int) -> int:
        start = self._nodes[first].start
        described = "".join([node.shown() for node in self._nodes[first + 1 :]])
        del self._nodes[first:]
        while self._pairs and self._pairs[-1].opener >= first:
            self._pairs.pop()
        while self._links and self._links[-1].opener >= first:
            self._links.pop()
        self._plain = start
        return self._add(_Node(described, start, end, url=url, image=True))

    def _inner_runs(self, node: int) -> list[Run]:
        """The runs after a node, which have nothing to do with those before any more."""
        first = len(self._runs)
        while first and self._runs[first - 1].node > node:
            first -= 1
        inner = self._runs[first:]
        del self._runs[first:]
        return inner


class _Spans:
    """Spans in the making; text beside text of the same style is one of them."""

    def __init__(self) -> None:
        self._made: list[Span] = []
        self._texts: list[str] = []
        self._style: tuple[Any, ...] = ()

    def add(self, text: str, style: tuple[Any, ...]) -> None:
        """Add text; the style is what a span has beside it, in its order."""
        if style != self._style or style[-1]:  # two images stay two
            self._close()
            self._style = style
        self._texts.append(text)

    def end(self) -> Spans:
        """All there is."""
        self._close()
        return tuple(self._made)

    def _close(self) -> None:
        if self._texts:
            self._made.append(Span("".join(self._texts), *self._style))
            self._texts = []


def _decoded(entity: re.Match[str]) -> str:
    """The character an entity stands for, if it may be shown; the entity if there is none."""
    char = html.unescape(entity[0])
    if not char or char == entity[0]:
        return entity[0]
    return " " if char.isspace() and char != "\u00a0" else sanitize(char)


def _unescaped(url: str) -> str:
    return one_line(_ENTITY.sub(_decoded, _ESCAPE.sub(r"\1", url)))


def _without_punctuation(url: str) -> str:
    """A bare URL without what ends the sentence or the brackets around it."""
    while True:
        bare = url.rstrip("?!.,:;*_~'\"")
        if bare.endswith(")") and bare.count(")") > bare.count("("):
            bare = bare[:-1]
        if bare == url:
            return url
        url = bare
