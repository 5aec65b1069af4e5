"""Pictures, drawn as the terminal can: by its own protocol, or as half blocks in true colour.

What the terminal can is read from the environment; it is never asked. An escape sequence holds
nothing of the peer's own writing: its base64 is decoded, looked at, and encoded again, and a
picture that is not what it claims to be, or too large, is not drawn at all. Nothing here raises.
"""

import base64
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from twofold.term.half_blocks import half_block_rows
from twofold.term.row_encoder import RowEncoder

LARGEST: Final = 8_000_000
"""Bytes of a picture that is drawn."""
MOST_ROWS: Final = 24
_LONGEST: Final = LARGEST * 3 // 2  # characters; base64 takes four for three, and some newlines
_MOST_PIXELS: Final = 64_000_000  # a small file can ask the terminal for a lot of memory
_CELL: Final = (10, 20)  # pixels of a cell, about; it is twice as high as it is wide
_ENCODER: Final = RowEncoder("truecolor", "utf-8")
_CHUNK: Final = 4096  # characters that kitty takes in one sequence


class Protocol(StrEnum):
    """How a terminal wants its pictures."""

    KITTY = "kitty"
    ITERM2 = "iterm2"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, to be written as it is with the cursor at the start of a row.

    It makes room for itself; the cursor ends at the start of the row below it.
    """

    sequence: str
    columns: int
    rows: int


def protocol_of(environment: Mapping[str, str]) -> Protocol | None:
    """How the terminal draws pictures, as far as the environment shows; None: not at all."""
    term = environment.get("TERM", "")
    program = environment.get("TERM_PROGRAM", "").lower()
    # A multiplexer would have to pass the picture on, and draws its own screen over it.
    if environment.get("TMUX") or environment.get("STY") or program in ("tmux", "screen"):
        return None
    if term == "dumb" or term.startswith(("screen", "tmux")):
        return None
    if term in ("xterm-kitty", "xterm-ghostty") or program in ("ghostty", "wezterm"):
        return Protocol.KITTY
    if program == "iterm.app":
        return Protocol.ITERM2
    if program:  # another terminal, started from one whose variables it inherited
        return None
    if environment.get("KITTY_WINDOW_ID"):
        return Protocol.KITTY
    return Protocol.ITERM2 if environment.get("LC_TERMINAL") == "iTerm2" else None


def has_half_blocks(environment: Mapping[str, str]) -> bool:
    """Whether pictures can be drawn as coloured characters: with true colour, and in UTF-8."""
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    locale = next((environment[name] for name in names if environment.get(name)), "")
    in_utf8 = locale.lower().replace("-", "").endswith("utf8")
    coloured = environment.get("COLORTERM", "").lower() in ("truecolor", "24bit")
    return in_utf8 and coloured and not environment.get("NO_COLOR")


class Pictures:
    """Draws pictures the way one terminal wants them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.protocol = protocol_of(environment)
        self.half_blocks = self.protocol is None and has_half_blocks(environment)

    def drawn(
        self, data_base64: str, mime_type: str, columns: int, rows: int = MOST_ROWS
    ) -> str | None:
        """The sequence for the start of a row (see `Picture`); None if it cannot be drawn."""
        if self.half_blocks:
            made = half_block_rows(data_base64, columns, rows)
            return "".join([f"\r{_ENCODER.text(row)}\r\n" for row in made]) or None
        picture = drawn(data_base64, mime_type, self.protocol, columns, rows=rows)
        return picture.sequence if picture is not None else None


def drawn(
    data_base64: str,
    mime_type: str,
    protocol: Protocol | None,
    columns: int,
    *,
    rows: int = MOST_ROWS,
    margin: int = 0,
) -> Picture | None:
    """The picture behind a margin, in at most so many columns and rows, if it can be drawn.

    `rows` must be less than the terminal has.
    """
    rows = min(rows, MOST_ROWS)
    if protocol is None or columns < 1 or rows < 1 or not mime_type.lower().startswith("image/"):
        return None
    data = _decoded(data_base64)
    size = image_size(data)
    if size is None or size[0] * size[1] > _MOST_PIXELS:
        return None
    if protocol is Protocol.KITTY and not data.startswith(_PNG):
        return None
    wide, high = _cells(*size, columns, rows)
    write = _kitty if protocol is Protocol.KITTY else _iterm2
    right = f"\x1b[{margin}C" if margin > 0 else ""
    # Where the cursor goes after a picture is for every terminal to decide: it is put back.
    before = "\r" + "\n" * high + f"\x1b[{high}A{right}\x1b7"
    after = f"\x1b8\x1b[{high}B\r"
    return Picture(f"{before}{write(data, wide, high)}{after}", wide, high)


def _decoded(data_base64: str) -> bytes:
    """The bytes; none if it is no base64, or too large."""
    if len(data_base64) > _LONGEST:
        return b""
    try:
        data = base64.b64decode("".join(data_base64.split()), validate=True)
    except ValueError:  # no base64, or not even ASCII
        return b""
    return data if len(data) <= LARGEST else b""


def _cells(width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
    """How many columns and rows it takes: its own size, made smaller until it fits."""
    wide, high = width / _CELL[0], height / _CELL[1]
    scale = min(1.0, columns / wide, rows / high)
    return (
        min(columns, max(1, math.ceil(wide * scale))),
        min(rows, max(1, math.ceil(high * scale))),
    )


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _kitty(data: bytes, columns: int, rows: int) -> str:
    """Sent and shown (`a=T`) as PNG, in so many cells, without an answer (`q=2`)."""
    text = _encoded(data)
    chunks = [text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)]
    keys = [f"a=T,f=100,c={columns},r={rows},C=1,q=2", *["q=2"] * (len(chunks) - 1)]
    more = [*[1] * (len(chunks) - 1), 0]
    return "".join(
        [
            f"\x1b_G{key},m={goes_on};{chunk}\x1b\\"
            for key, goes_on, chunk in zip(keys, more, chunks, strict=True)
        ]
    )


def _iterm2(data: bytes, columns: int, rows: int) -> str:
    keys = f"inline=1;size={len(data)};width={columns};height={rows};preserveAspectRatio=1"
    return f"\x1b]1337;File={keys}:{_encoded(data)}\x07"


# ---- how large it is ---------------------------------------------------------------------------

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG's headers of a frame
_BARE: Final = frozenset({0x01, *range(0xD0, 0xD9)})  # its markers that nothing follows


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, from the header of a PNG, JPEG, GIF or WebP; else None."""
    size = None
    if data.startswith(_PNG):
        size = _number(data, 16, 4), _number(data, 20, 4)
        size = size if data[12:16] == b"IHDR" and len(data) >= 24 else None
    elif data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        size = _little(data, 6, 2), _little(data, 8, 2)
    elif data.startswith(b"\xff\xd8\xff"):
        size = _jpeg_size(data)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) >= 30:
        size = _webp_size(data)
    return size if size is not None and all(size) else None


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _little(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    for marker, at in _jpeg_segments(data):
        if marker in _FRAMES and at + 7 <= len(data):
            return _number(data, at + 5, 2), _number(data, at + 3, 2)
    return None


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int]]:
    """The markers, and where the length that follows each of them is."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _BARE:
            at += 2
        elif marker in (0xD9, 0xDA):  # the end, or the picture itself
            return
        else:
            yield marker, at + 2
            at += 2 + max(2, _number(data, at + 2, 2))


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
        case b"VP8L" if data[20] == 0x2F:
            bits = _little(data, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return None
