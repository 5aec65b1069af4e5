"""What a program writes to its terminal: the sequences in it, and its plain text.

Bytes arrive in pieces that may end inside a character or an escape sequence; any split gives the
same. Nothing is waited for without end: an escape sequence that is not closed is given up.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import Final

from twofold.text.safe import sanitize

LONGEST_SEQUENCE: Final = 1 << 16
"""So many characters of an unclosed title, link or image are dropped; the next one shows."""

LONGEST_LINE: Final = 1 << 16
"""After so many characters a line is done with, as if wrapped: nothing goes back behind it."""

_PIECE = re.compile(
    r"(?P<text>[^\0-\x1f\x7f-\x9f]++)"
    r"|(?:\x1b\[|\x9b)(?P<args>[0-?]{0,64}+)(?P<middle>[ -/]{0,4}+)(?P<final>[@-~])?"
    r"|(?P<osc>\x1b\]|\x9d)"
    r"|(?P<string>\x1b[PX^_]|[\x90\x98\x9e\x9f])"
    r"|\x1b(?P<between>[ -/]{0,4}+)(?P<escape>[0-Z\\`-~])?"
    r"|(?P<control>.)",
    re.DOTALL,
)
_STRING = re.compile(r"[^\x07\x18\x1a\x1b\x9c]*+")
_OSC = re.compile(r"[^\x07\x18\x1a\x1b\x9c\n]*+")  # its words are on one line

Shortcut = Callable[[str, int], int]
"""Reads what it knows to be harmless from a place on; returns where it stopped."""


class Scanner:
    """Finds the pieces of a terminal's output: text, control characters, complete sequences.

    Titles, links, images and whatever else is between an introducer and its end are passed over.
    """

    __slots__ = ("_decoder", "_pending", "_string", "_swallowed")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""  # the beginning of a sequence, never long
        self._string: re.Pattern[str] | None = None  # what may be in the string we are in
        self._swallowed = 0

    def scan(
        self, output: bytes | bytearray, shortcut: Shortcut | None = None
    ) -> Iterator[re.Match[str]]:
        """The pieces that are complete with this output; all of them must be taken.

        `lastgroup` says what a piece is: `text` without control characters; `control`, one
        character; `final`, a control sequence (with `args`, and `middle` before the final
        character); `escape`, a short sequence (with `between` before its last character).
        """
        text = self._pending + self._decoder.decode(output)
        self._pending = ""
        at, size = 0, len(text)
        while at < size:
            if self._string is not None:
                at = self._in_string(text, at)
                continue
            if shortcut is not None and (end := shortcut(text, at)) > at:
                at = end
                continue
            found = _PIECE.match(text, at)
            assert found is not None  # any character is a piece
            at = found.end()
            match found.lastgroup:
                case "text" | "control" | "final" | "escape":
                    yield found
                case "osc" | "string":
                    self._string = _OSC if found["osc"] else _STRING
                    self._swallowed = 0
                case _ if at == size:  # a sequence that goes on
                    self._pending = found[0]
                case _:
                    pass  # one that cannot be: its beginning is left out

    def _in_string(self, text: str, at: int) -> int:
        """Pass over the words of a title, link or image; returns where they end."""
        assert self._string is not None
        body = self._string.match(text, at, at + LONGEST_SEQUENCE - self._swallowed)
        end = body.end() if body else at
        self._swallowed += end - at
        if end == len(text) and self._swallowed < LONGEST_SEQUENCE:
            return end
        if text.startswith("\x1b", end) and end + 1 == len(text):
            self._pending = "\x1b"  # perhaps the first half of its end
            return end + 1
        self._string = None
        if text.startswith("\x1b\\", end):
            return end + 2
        return end + 1 if text.startswith(("\x07", "\x18", "\x1a", "\x9c"), end) else end


# The usual case, taken in one go: whole lines that hold nothing special but colours.
_COLOUR = re.compile(r"\x1b\[[0-9:;]{0,64}+m")
_LINES = re.compile(rf"(?:(?:[^\0-\x08\x0a-\x1f\x7f-\x9f]++|{_COLOUR.pattern})*+\r?\n)++")


class TerminalText:
    """What a terminal wrote, as text that is safe to show. Feed it, and read `text`.

    Not a screen: there is one line being written, on which CR and BS go back and later text
    overwrites; what moves between lines, and every colour, is left out.
    """

    __slots__ = ("_column", "_done", "_limit", "_line", "_scanner", "_size")

    def __init__(self, limit: int | None = None) -> None:
        """`limit`: how many characters to keep, counted from the end; all if None."""
        self._limit = limit
        self._size = 0  # of what is done
        self._scanner = Scanner()
        self._done: list[str] = []
        self._line: list[str] = []  # the line being written, by character
        self._column = 0

    @property
    def text(self) -> str:
        """All there is so far, but for a character or escape sequence that is not complete."""
        if len(self._done) > 1:
            self._done = ["".join(self._done)]
        text = "".join([*self._done, self.line])
        return text if self._limit is None else text[max(0, len(text) - self._limit) :]

    @property
    def line(self) -> str:
        """The line that is being written."""
        return sanitize("".join(self._line))

    def take_ended(self) -> str:
        """The lines that ended since the last call; from then on `text` is without them."""
        ended = "".join(self._done)
        self._done, self._size = [], 0
        return ended

    def feed(self, output: bytes | bytearray) -> None:
        """Read what the program wrote next."""
        for piece in self._scanner.scan(output, self._whole_lines):
            match piece.lastgroup:
                case "text":
                    self._write(piece[0])
                case "final":
                    self._control(piece["middle"] + piece["final"], piece["args"])
                case "control":
                    self._control_character(piece[0])

    def _whole_lines(self, text: str, at: int) -> int:
        """Read whole lines at once, if a line begins here; returns where they end."""
        if self._line or self._column or not (lines := _LINES.match(text, at)):
            return at
        plain = _COLOUR.sub("", lines[0])
        if len(plain) >= LONGEST_LINE and max(map(len, plain.split("\n"))) >= LONGEST_LINE:
            return at
        self._keep(sanitize(plain))
        return lines.end()

    def _control_character(self, char: str) -> None:
        match char:
            case "\n" | "\v" | "\f":
                self._finish_line("\n")
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\t":
                self._write(char)

    def _control(self, final: str, args: str) -> None:
        """Do what a control sequence does to the line being written."""
        number = int(args) if args.isdecimal() else 0
        if final == "G":  # to a column
            self._column = min(max(number, 1), LONGEST_LINE) - 1
        elif final == "K" and number == 2:  # erase the line
            self._line = []
        elif final == "K" and number == 1:  # erase what came before
            blank = min(self._column + 1, len(self._line))
            self._line[:blank] = " " * blank
        elif final in "JK" and not number:  # erase what follows
            del self._line[self._column :]

    def _write(self, run: str) -> None:
        start = 0
        while start < len(run):
            line, at = self._line, self._column
            if at > len(line):
                line += " " * (at - len(line))
            piece = run[start : start + LONGEST_LINE - at]
            line[at : at + len(piece)] = piece
            start += len(piece)
            self._column = at + len(piece)
            if self._column == LONGEST_LINE:
                self._finish_line("")

    def _finish_line(self, end: str) -> None:
        self._keep(sanitize("".join(self._line)) + end)
        self._line, self._column = [], 0

    def _keep(self, text: str) -> None:
        self._done.append(text)
        self._size += len(text)
        if self._limit is not None and self._size > 2 * self._limit:  # not for every line
            kept = "".join(self._done)[self._size - self._limit :]
            self._done, self._size = [kept], len(kept)


def terminal_text(output: bytes | bytearray) -> str:
    """The plain text of raw terminal output."""
    text = TerminalText()
    text.feed(output)
    return text.text
