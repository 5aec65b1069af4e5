"""Pictures as half blocks, for terminals without graphics: two pixels a cell, one above the other.

Reads PNG without interlacing, which needs nothing but zlib; of any other picture there are no rows.
What it reads is bounded, whatever the header claims. Nothing here raises.
"""

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from rich.color import Color
from rich.style import Style

from twofold.term.lines import AnyStyle, Row
from twofold.wire.content import ImageContent

MOST_COLUMNS: Final = 80
MOST_ROWS: Final = 24
MOST_BYTES: Final = 1_000_000
"""Bytes of pixels that are read: Python takes a step for each of them."""
_LONGEST: Final = 4_000_000  # characters of base64
_SAMPLES: Final = 4  # pixels in each direction that make one of a smaller picture

_START: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by the type of colour
_OPAQUE: Final = 128
_UPPER, _LOWER = "▀", "▄"

Pixel: TypeAlias = tuple[int, int, int] | None
"""Red, green and blue; None where one sees through."""


class _Header(NamedTuple):
    width: int
    height: int
    depth: int
    colour: int

    @property
    def row_size(self) -> int:
        """Bytes of a row without the one that names its filter."""
        return (self.width * _CHANNELS[self.colour] * self.depth + 7) // 8

    @property
    def step(self) -> int:
        """How many bytes before it the same part of the last pixel is."""
        return max(1, _CHANNELS[self.colour] * self.depth // 8)


@dataclass(frozen=True, slots=True)
class HalfBlocks:
    """A picture that is as large as the width allows; without a width it has no rows."""

    content: ImageContent

    def rows(self, width: int | None) -> list[Row]:
        return half_block_rows(self.content.data, width) if width is not None else []


def half_block_rows(data_base64: str, columns: int, rows: int = MOST_ROWS) -> list[Row]:
    """The rows of a picture; none if it is no PNG that can be read here."""
    columns, rows = min(columns, MOST_COLUMNS), min(rows, MOST_ROWS)
    if columns < 1 or rows < 1 or len(data_base64) > _LONGEST:
        return []
    return list(_rows_of(data_base64, columns, rows))


@lru_cache(maxsize=8)
def _rows_of(data_base64: str, columns: int, rows: int) -> tuple[Row, ...]:
    try:
        data = base64.b64decode("".join(data_base64.split()), validate=True)
    except ValueError:
        return ()
    picture = _read(data)
    if picture is None:
        return ()
    width, height = picture.size
    scale = min(1.0, columns / width, 2 * rows / height)
    wide, high = max(1, int(width * scale)), max(1, int(height * scale))
    pixels = [[picture.average(x, y, wide, high) for x in range(wide)] for y in range(high)]
    if len(pixels) % 2:
        pixels.append([None] * wide)
    return tuple([_row(pixels[at], pixels[at + 1]) for at in range(0, len(pixels), 2)])


def _row(upper: list[Pixel], lower: list[Pixel]) -> Row:
    """A row of cells; equal cells beside each other are one part."""
    made: list[tuple[str, AnyStyle]] = []
    for above, below in zip(upper, lower, strict=True):
        sign = _UPPER if above else _LOWER if below else " "
        style = _style(above, below) if above or below else ""
        if made and made[-1][1] == style and made[-1][0][0] == sign:
            made[-1] = (made[-1][0] + sign, style)
        else:
            made.append((sign, style))
    return tuple(made)


@lru_cache(maxsize=4096)
def _style(above: Pixel, below: Pixel) -> Style:
    if above is None or below is None:
        return Style(color=_colour(above or below))
    return Style(color=_colour(above), bgcolor=_colour(below))


def _colour(pixel: Pixel) -> Color | None:
    return Color.from_rgb(*pixel) if pixel is not None else None


# ---- PNG ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Picture:
    header: _Header
    rows: list[bytearray]
    palette: bytes
    alpha: bytes
    """Of the colours of the palette."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.header.width, self.header.height

    def average(self, x: int, y: int, wide: int, high: int) -> Pixel:
        """A pixel of the same picture in another size, which is not larger."""
        width, height = self.size
        found = [
            self._pixel(column, row)
            for row in _samples(y * height // high, (y + 1) * height // high)
            for column in _samples(x * width // wide, (x + 1) * width // wide)
        ]
        seen = [pixel for pixel in found if pixel is not None]
        if 2 * len(seen) < len(found):
            return None
        red, green, blue = (sum(part) // len(seen) for part in zip(*seen, strict=True))
        return red, green, blue

    def _pixel(self, x: int, y: int) -> Pixel:
        row, (_, _, depth, colour) = self.rows[y], self.header
        channels = _CHANNELS[colour]
        if depth < 8:
            bit = x * depth
            value = row[bit // 8] >> (8 - depth - bit % 8) & ((1 << depth) - 1)
            parts = [value if colour == 3 else value * 255 // ((1 << depth) - 1)]
        else:
            size = depth // 8
            start = x * channels * size
            parts = [row[start + place * size] for place in range(channels)]
        if colour == 3:
            return self._of_palette(parts[0])
        if colour in (4, 6) and parts.pop() < _OPAQUE:
            return None
        red, green, blue = parts if len(parts) == 3 else parts * 3
        return red, green, blue

    def _of_palette(self, number: int) -> Pixel:
        colour = self.palette[3 * number : 3 * number + 3]
        if len(colour) < 3 or (number < len(self.alpha) and self.alpha[number] < _OPAQUE):
            return None
        return colour[0], colour[1], colour[2]


def _samples(start: int, end: int) -> range:
    """Some places between two, evenly apart."""
    return range(start, max(end, start + 1), max(1, -(-(end - start) // _SAMPLES)))


def _read(data: bytes) -> _Picture | None:
    chunks = list(_chunks(data))
    header = _header(chunks[0][1]) if chunks and chunks[0][0] == b"IHDR" else None
    if header is None or header.row_size * header.height > MOST_BYTES:
        return None
    expected = (header.row_size + 1) * header.height
    try:
        packed = b"".join([body for kind, body in chunks if kind == b"IDAT"])
        pixels = zlib.decompressobj().decompress(packed, expected)
    except zlib.error:
        return None
    rows = _unfiltered(pixels, header) if len(pixels) == expected else None
    if rows is None:
        return None
    others = dict(chunks)
    return _Picture(header, rows, others.get(b"PLTE", b""), others.get(b"tRNS", b""))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not data.startswith(_START):
        return
    at = len(_START)
    while at + 12 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        at += 12 + size


def _header(body: bytes) -> _Header | None:
    if len(body) != 13:
        return None
    width, height = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
    depth, colour, packing, filtering, interlaced = body[8:]
    known = colour in _CHANNELS and depth in ((1, 2, 4, 8, 16) if colour in (0, 3) else (8, 16))
    if not known or (colour == 3 and depth == 16) or packing or filtering or interlaced:
        return None
    return _Header(width, height, depth, colour) if width and height else None


def _unfiltered(data: bytes, header: _Header) -> list[bytearray] | None:
    """The rows as they were before each was written as a difference to what is beside it."""
    size, step = header.row_size, header.step
    above = bytearray(size)
    rows: list[bytearray] = []
    for start in range(0, len(data), size + 1):
        row = bytearray(data[start + 1 : start + 1 + size])
        match data[start]:
            case 0:
                pass
            case 1:
                for at in range(step, size):
                    row[at] = (row[at] + row[at - step]) & 255
            case 2:
                row = bytearray(
                    [(one + other) & 255 for one, other in zip(row, above, strict=True)]
                )
            case 3:
                for at in range(size):
                    left = row[at - step] if at >= step else 0
                    row[at] = (row[at] + (left + above[at]) // 2) & 255
            case 4:
                for at in range(size):
                    left, corner = (row[at - step], above[at - step]) if at >= step else (0, 0)
                    row[at] = (row[at] + _nearest(left, above[at], corner)) & 255
            case _:
                return None
        rows.append(row)
        above = row
    return rows


def _nearest(left: int, above: int, corner: int) -> int:
    """Which of the three is nearest to `left + above - corner`; PNG calls it Paeth."""
    guess = left + above - corner
    to_left, to_above, to_corner = abs(guess - left), abs(guess - above), abs(guess - corner)
    if to_left <= to_above and to_left <= to_corner:
        return left
    return above if to_above <= to_corner else corner
