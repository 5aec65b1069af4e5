"""Text of a peer, made safe to show.

A peer is not trusted with the user's screen: no escape sequence, no control character, nothing
that turns the direction of the text or hides in it passes. Whole escape sequences are dropped;
what else is not to be seen is shown as something that is. The cost grows with the length of the
text, whatever it holds.
"""

import re

# Characters that take no room, or look like a blank, and so hide what is really there. Joiners
# and variation selectors are not among them: scripts and emoji need those, see `_LOOSE`.
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL = "\0-\x1f\x7f-\x9f"
_SURROGATE = "\ud800-\udfff"  # JSON can say half a pair, no encoding can
_JOINER = "\u200c\u200d"
_SELECTOR = "\ufe00-\ufe0f"
_VISIBLE = f"[^\0-\x9f{_HIDDEN}{_SURROGATE}{_JOINER}]"

_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # CSI: colours, the cursor
    # OSC, DCS, SOS, PM, APC: titles, links, images; up to BEL or ST
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^{_CONTROL}]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]++[0-~]"  # the choice of a character set
)
# A joiner with nothing beyond ASCII to join, a selector after a selector.
_LOOSE = (
    rf"(?<!{_VISIBLE})[{_JOINER}]|[{_JOINER}](?!(?![{_SELECTOR}]){_VISIBLE})"
    rf"|(?<=[{_SELECTOR}])[{_SELECTOR}]"
)
_UNSAFE = re.compile(
    rf"(?P<dropped>{_SEQUENCE}|\r(?=\n))"
    r"|(?P<named>[\0-\x08\x0b-\x1f\x7f])"
    rf"|(?P<replaced>(?:[\x80-\x9f{_HIDDEN}{_SURROGATE}]|{_LOOSE})+)"
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
    if match.lastgroup == "dropped":
        return ""
    if match.lastgroup == "named":
        code = ord(match[0])
        return "\u2421" if code == 0x7F else chr(0x2400 + code)
    return "\ufffd"
