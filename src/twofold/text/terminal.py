"""The plain text of a terminal's output.

Bytes come in pieces that may end inside a character or an escape sequence, and any split gives
the same text. Not a terminal: there is one line being written, on which CR and BS go back and
later text overwrites; what moves between lines, and every colour, is left out. Nothing is waited
for without end: an escape sequence that is not closed is given up after a while.
"""

import codecs
import re
from typing import Final

from twofold.text.safe import sanitize

LONGEST_SEQUENCE: Final = 1 << 16
"""So many characters of an unclosed title, link or image are dropped; the next one shows."""

LONGEST_LINE: Final = 1 << 16
"""After so many characters a line is done with, as if wrapped: nothing goes back behind it."""

_PLAIN = r"[^\0-\x08\x0a-\x1f\x7f-\x9f]"
_RUN = re.compile(f"{_PLAIN}++")
# The usual case, taken in one go: whole lines that hold nothing special but colours.
_COLOUR = re.compile(r"\x1b\[[0-9:;]{0,64}+m")
_LINES = re.compile(rf"(?:(?:{_PLAIN}++|{_COLOUR.pattern})*+\r?\n)++")
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)(?P<args>[0-?]{0,64}+)[ -/]{0,4}+(?P<csi>[@-~])?"
    r"|(?P<osc>\x1b\]|\x9d)"
    r"|(?P<string>\x1b[PX^_]|[\x90\x98\x9e\x9f])"
    r"|\x1b[ -/]{0,4}+(?P<other>[0-Z\\`-~])?"
)
_STRING = re.compile(r"[^\x07\x18\x1a\x1b\x9c]*+")
_OSC = re.compile(r"[^\x07\x18\x1a\x1b\x9c\n]*+")  # its words stand on one line


class TerminalText:
    """What a terminal wrote, as text that is safe to show. Feed it, and read `text`."""

    __slots__ = (
        "_column",
        "_decoder",
        "_done",
        "_limit",
        "_line",
        "_pending",
        "_size",
        "_string",
        "_swallowed",
    )

    def __init__(self, limit: int | None = None) -> None:
        """`limit`: how many characters to keep, counted from the end; all if None."""
        self._limit = limit
        self._size = 0  # of what is done
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._done: list[str] = []
        self._line: list[str] = []  # the line being written, by character
        self._column = 0
        self._pending = ""  # the start of an escape sequence, never long
        self._string: re.Pattern[str] | None = None  # what may stand in the string we are in
        self._swallowed = 0

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
        """Take in what came next."""
        text = self._pending + self._decoder.decode(output)
        self._pending = ""
        at = 0
        while at < len(text):
            at = self._in_text(text, at) if self._string is None else self._in_string(text, at)

    def _in_text(self, text: str, at: int) -> int:
        """Take in what stands at `at`, and tell where the next thing stands."""
        if not self._line and not self._column and (lines := _LINES.match(text, at)):
            plain = _COLOUR.sub("", lines[0])
            if len(plain) < LONGEST_LINE or max(map(len, plain.split("\n"))) < LONGEST_LINE:
                self._keep(sanitize(plain))
                return lines.end()
        if run := _RUN.match(text, at):
            self._write(run[0])
            return run.end()
        if escape := _ESCAPE.match(text, at):
            return self._escape(escape, text)
        match text[at]:
            case "\n" | "\v" | "\f":
                self._finish_line("\n")
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
        return at + 1

    def _in_string(self, text: str, at: int) -> int:
        """Pass over the words of a title, link or image."""
        assert self._string is not None
        room = LONGEST_SEQUENCE - self._swallowed
        body = self._string.match(text, at, at + room)
        end = body.end() if body else at
        self._swallowed += end - at
        if end == len(text) and self._swallowed < LONGEST_SEQUENCE:
            return end
        if text.startswith("\x1b", end) and end + 1 == len(text):
            self._pending = "\x1b"  # perhaps the first half of ST
            return end + 1
        self._string = None
        if text.startswith("\x1b\\", end):
            return end + 2
        return end + 1 if text.startswith(("\x07", "\x18", "\x1a", "\x9c"), end) else end

    def _escape(self, escape: re.Match[str], text: str) -> int:
        match escape.lastgroup:
            case "osc" | "string":
                self._string = _OSC if escape["osc"] else _STRING
                self._swallowed = 0
            case "csi":
                self._control(escape["csi"], escape["args"])
            case "args" | None if escape.end() == len(text):
                self._pending = escape[0]
        return escape.end()

    def _control(self, final: str, args: str) -> None:
        """Do what a control sequence says of the line being written."""
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
