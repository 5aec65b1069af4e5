"""Text of a peer, made safe to show.

A peer is not trusted with the user's screen: no escape sequence, no control character, nothing
that turns the direction of the text or hides in it passes. Whole escape sequences are dropped;
what else is not to be seen is shown as something that is. The cost grows with the length of the
text, whatever it holds.
"""

import re

# Characters that take no room, or look like a blank, and so hide what is really there.
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL = "\0-\x08\x0b-\x1f\x7f-\x9f"
_SURROGATE = "\ud800-\udfff"  # JSON can say half a pair, no encoding can
# These hide too, but scripts and emoji need them between visible characters, or after one.
_JOINER = "\u200c\u200d"
_SELECTOR = "\ufe00-\ufe0f"
_VISIBLE = f"[^\0-\x9f{_HIDDEN}{_SURROGATE}{_JOINER}]"

# The pattern starts with one class of characters, which the search passes over at full speed.
_UNSAFE = re.compile(
    f"[{_CONTROL}{_HIDDEN}{_SURROGATE}{_JOINER}{_SELECTOR}]"
    r"(?:(?P<dropped>"
    # CSI: colours, the cursor
    r"(?:(?<=\x1b)\[|(?<=\x9b))[0-?]*+[ -/]*+[@-~]"
    # OSC, DCS, SOS, PM, APC: titles, links, images; up to BEL or ST
    r"|(?:(?<=\x1b)[\]PX^_]|(?<=[\x90\x98\x9d-\x9f]))[^\0-\x1f\x7f-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    # the choice of a character set
    r"|(?<=\x1b)[ -/]++[0-~]"
    r"|(?<=\r)(?=\n)"
    r")|(?P<kept>"
    rf"(?<={_VISIBLE}[{_JOINER}])(?![{_SELECTOR}])(?={_VISIBLE})"
    rf"|(?<=[{_SELECTOR}])(?<![{_SELECTOR}{_JOINER}].)"
    r"))?",
    re.DOTALL,
)
_BLANKS = re.compile(r"[\n\t]+")


def sanitize(text: str) -> str:
    """The text without anything that does more than show: the same text if it is harmless.

    Newlines and tabs stay, a CR before a newline goes. Other control characters become their
    pictures (`␛`), what cannot be seen or encoded becomes U+FFFD.
    """
    return _UNSAFE.sub(_seen, text)


def one_line(text: str) -> str:
    """The text, safe and on one line, so that it cannot pass for more than one thing."""
    return _BLANKS.sub(" ", sanitize(text)).strip()


def _seen(match: re.Match[str]) -> str:
    if match.lastgroup is not None:
        return "" if match.lastgroup == "dropped" else match[0]
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # its picture
    return "\u2421" if code == 0x7F else "\ufffd"
