"""Text of a peer, made safe to show.

A peer is not trusted with the user's screen: no escape sequence, no control character, and nothing
that changes the direction of the text or hides in it passes. Whole escape sequences are dropped.
Other invisible characters are replaced by visible ones. The cost is linear in the length of the
text, whatever it holds.

Invisible characters pass only where they have a visible effect: a joiner between two emoji or two
letters of a script that joins them, one variation selector after a character that has variants.
Between Latin letters, say, they would only make two texts look the same.
"""

import re
import zlib
from typing import Final

# Characters without width, or that look like a blank, and so hide what is really there.
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL = "\0-\x08\x0b-\x1f\x7f-\x9f"
_SURROGATE = "\ud800-\udfff"  # JSON can hold half a pair, no encoding can
# These hide too, but scripts and emoji need them between visible characters, or after one.
_JOINER = "\u200c\u200d"
_SELECTOR = "\ufe00-\ufe0f"
_MONGOLIAN_SELECTOR = "\u180b-\u180d\u180f"
# Arabic and its neighbours, the scripts of India and Southeast Asia, Mongolian.
_JOINED = (
    "\u0600-\u061b\u061d-\u109f\u1780-\u17b3\u17b6-\u17ff\u1807\u180a\u1820-\u18af"
    "\u1900-\u1aff\u1b00-\u1c4f\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00011000-\U00011fff"
)
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf"
    "\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
# Emoji and symbols, ideographs and the signs between them.
_VARIED = f"{_EMOJI}\u2200-\u22ff\u3001-\u3163\u3165-\u9fff\uf900-\ufaff\uff01-\uff5e"

# The pattern starts with one class of characters, which the search passes over at full speed.
_UNSAFE = re.compile(
    f"[{_CONTROL}{_HIDDEN}{_SURROGATE}{_JOINER}{_SELECTOR}{_MONGOLIAN_SELECTOR}]"
    r"(?:(?P<dropped>"
    # CSI: colours, the cursor
    r"(?:(?<=\x1b)\[|(?<=\x9b))[0-?]*+[ -/]*+[@-~]"
    # OSC, DCS, SOS, PM, APC: titles, links, images; up to BEL or ST
    r"|(?:(?<=\x1b)[\]PX^_]|(?<=[\x90\x98\x9d-\x9f]))[^\0-\x1f\x7f-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    # the choice of a character set
    r"|(?<=\x1b)[ -/]++[0-~]"
    r"|(?<=\r)(?=\n)"
    r")|(?P<kept>"
    rf"(?<=[{_JOINED}][{_JOINER}])(?=[{_JOINED}])"
    rf"|(?<=[{_EMOJI}]\u200d)(?=[{_EMOJI}])"
    rf"|(?<=[{_EMOJI}]\ufe0f\u200d)(?=[{_EMOJI}])"
    rf"|(?<=[{_VARIED}][{_SELECTOR}])"
    r"|(?<=[0-9#*][\ufe0e\ufe0f])(?=\u20e3)"  # a key of a keyboard
    rf"|(?<=[\u1820-\u18af][{_MONGOLIAN_SELECTOR}])"
    r"))?",
    re.DOTALL,
)
_BLANKS = re.compile(r"[\n\t]+")


def sanitize(text: str) -> str:
    """The text without anything that does more than show; the same text if it is harmless.

    Newlines and tabs stay. A CR before a newline is dropped. Other control characters become their
    pictures (`␛`); what is invisible or cannot be encoded becomes U+FFFD.
    """
    return _UNSAFE.sub(_seen, text)


def one_line(text: str) -> str:
    """The text, safe and on one line, so that it cannot be taken for several."""
    return _BLANKS.sub(" ", sanitize(text)).strip()


# JSON may hold all of these unescaped. Inside a string an escape means the same character. Outside
# of one, control characters below 0x20 are blanks.
_ACTIVE = re.compile(
    f"[\0-\x08\x0b-\x1f\x7f-\x9f{_HIDDEN}{_SURROGATE}{_JOINER}{_SELECTOR}{_MONGOLIAN_SELECTOR}]"
)


def harmless_json(line: bytes) -> bytes:
    """A line of JSON for a terminal: the same value, without anything that does more than show."""
    return _ACTIVE.sub(_escaped, line.decode(errors="replace")).encode()


def _escaped(match: re.Match[str]) -> str:
    if match[0] < " ":
        return " "
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join([f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4)])


def _seen(match: re.Match[str]) -> str:
    if match.lastgroup is not None:
        return "" if match.lastgroup == "dropped" else match[0]
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # its picture
    return "\u2421" if code == 0x7F else "\ufffd"


# ---- text in pieces --------------------------------------------------------------------------

LONGEST_HELD: Final = 512
"""How many characters of an unfinished escape sequence are held back; a longer one is shown."""

# At the end of the text: the beginning of something that `sanitize` drops or keeps as a whole.
_UNFINISHED = re.compile(
    "[\r\x1b\x90\x98\x9b\x9d-\x9f\u200c\u200d]"
    r"(?:(?<=[\r\u200c\u200d])"
    r"|(?:(?<=\x1b)\[|(?<=\x9b))[0-?]*+[ -/]*+"
    r"|(?:(?<=\x1b)[\]PX^_]|(?<=[\x90\x98\x9d-\x9f]))[^\0-\x1f\x7f-\x9f]*+\x1b?"
    r"|(?<=\x1b)[ -/]*+"
    r")\Z"
)


class Pieces:
    """Sanitizes text that arrives in pieces: any split gives what `sanitize` makes of the whole.

    What cannot be judged yet is held back: half of a line's end, a joiner, an unfinished escape
    sequence.
    """

    def __init__(self) -> None:
        self._before = ""
        self._held = ""

    def add(self, piece: str) -> str:
        """Add a piece; returns the text that can be shown now."""
        text = self._held + piece
        unfinished = _UNFINISHED.search(text)
        held = unfinished[0] if unfinished else ""
        self._held = held if len(held) <= LONGEST_HELD else ""
        return self._safe(text[: len(text) - len(self._held)])

    def end(self) -> str:
        """End the text; returns what was held back, sanitized."""
        text, self._held = self._held, ""
        left = self._safe(text)
        self._before = ""
        return left

    def _safe(self, text: str) -> str:
        if not text:
            return ""
        # a joiner passes only after a visible character
        shown = sanitize(self._before + text)[len(self._before) :]
        self._before = text[-1] if sanitize(text[-1]) == text[-1] else ""
        return shown


class Seen:
    """Recognises a text that arrived in pieces. Keeps its length and a checksum, not the text."""

    __slots__ = ("_sum", "length")

    def __init__(self) -> None:
        self.length = 0
        """How many characters arrived."""
        self._sum = 0

    def add(self, text: str) -> None:
        """Add the next piece."""
        self.length += len(text)
        self._sum = _sum(text, self._sum)

    def begins(self, text: str) -> bool:
        """Whether `text` begins with all that arrived."""
        return len(text) >= self.length and _sum(text[: self.length]) == self._sum

    def is_all_of(self, text: str) -> bool:
        """Whether `text` is exactly what arrived."""
        return len(text) == self.length and _sum(text) == self._sum


def _sum(text: str, before: int = 0) -> int:
    return zlib.crc32(text.encode(errors="surrogatepass"), before)
