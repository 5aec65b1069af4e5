"""Pictures as half blocks: the right pixels, in bounds, and nothing from what is no PNG."""

import base64
import struct
import zlib
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from rich.style import Style

from twofold.term.half_blocks import (
    MOST_BYTES,
    MOST_COLUMNS,
    MOST_ROWS,
    HalfBlocks,
    half_block_rows,
)
from twofold.term.images import Pictures
from twofold.term.lines import Row, cells
from twofold.wire.content import ImageContent

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(
    width: int,
    height: int,
    rows: bytes,
    *,
    depth: int = 8,
    colour: int = 2,
    interlaced: int = 0,
    more: bytes = b"",
) -> str:
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    data = chunk(b"IHDR", header) + more + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


def pixels(rows: list[Row]) -> list[list[tuple[int, int, int] | None]]:
    """The picture again, from its cells."""
    made: list[list[tuple[int, int, int] | None]] = []
    for row in rows:
        upper: list[tuple[int, int, int] | None] = []
        lower: list[tuple[int, int, int] | None] = []
        for text, style in row:
            found = style if isinstance(style, Style) else Style()
            front, ground = rgb(found.color), rgb(found.bgcolor)
            for sign in text:
                upper.append(front if sign == "▀" else None)
                lower.append(ground if sign == "▀" else front if sign == "▄" else None)
        made += [upper, lower]
    return made


def rgb(colour: Color | None) -> tuple[int, int, int] | None:
    if colour is None or colour.triplet is None:
        return None
    return (colour.triplet.red, colour.triplet.green, colour.triplet.blue)


def filtered(rows: list[bytes], kind: int, step: int) -> bytes:
    """Rows as a writer of PNG filters them, straight from the definition."""
    made = b""
    above = bytes(len(rows[0]))
    for row in rows:
        out = bytearray([kind])
        for at, value in enumerate(row):
            left = row[at - step] if at >= step else 0
            corner = above[at - step] if at >= step else 0
            guess = left + above[at] - corner
            near = min((left, above[at], corner), key=lambda each: abs(guess - each))
            before = (0, left, above[at], (left + above[at]) // 2, near)[kind]
            out.append((value - before) % 256)
        made += bytes(out)
        above = row
    return made


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 4), st.data())
def test_a_small_picture_is_drawn_pixel_by_pixel(
    width: int, height: int, kind: int, data: st.DataObject
) -> None:
    rows = [data.draw(st.binary(min_size=3 * width, max_size=3 * width)) for _ in range(height)]
    shown = pixels(half_block_rows(png(width, height, filtered(rows, kind, 3)), 80))
    expected = [[tuple(row[at : at + 3]) for at in range(0, len(row), 3)] for row in rows]
    assert shown[:height] == expected
    assert shown[height:] in ([], [[None] * width])


PALETTE: Final = chunk(b"PLTE", bytes([*RED, *GREEN, *BLUE]))
KINDS: Final = {
    "grey": (png(1, 1, b"\0\x40", colour=0), (64, 64, 64)),
    "grey of 16 bits": (png(1, 1, b"\0\x40\xff", colour=0, depth=16), (64, 64, 64)),
    "grey of one bit": (png(1, 1, b"\0\x80", colour=0, depth=1), (255, 255, 255)),
    "grey of four bits": (png(1, 1, b"\0\x80", colour=0, depth=4), (136, 136, 136)),
    "grey with alpha": (png(1, 1, b"\0\x40\xff", colour=4), (64, 64, 64)),
    "seen through": (png(1, 1, b"\0\1\2\3\0", colour=6), None),
    "with alpha": (png(1, 1, b"\0\1\2\3\xff", colour=6), (1, 2, 3)),
    "of 16 bits": (png(1, 1, b"\0\1\xff\2\xff\3\xff", depth=16), (1, 2, 3)),
    "a palette": (png(1, 1, b"\0\1", colour=3, more=PALETTE), GREEN),
    "a palette of two bits": (png(1, 1, b"\0\x80", colour=3, depth=2, more=PALETTE), BLUE),
    "a palette, seen through": (
        png(1, 1, b"\0\0", colour=3, more=PALETTE + chunk(b"tRNS", b"\0")),
        None,
    ),
    "beyond the palette": (png(1, 1, b"\0\x09", colour=3, more=PALETTE), None),
}


@pytest.mark.parametrize(("data", "pixel"), KINDS.values(), ids=list(KINDS))
def test_every_kind_of_pixel_is_read(data: str, pixel: tuple[int, int, int] | None) -> None:
    assert pixels(half_block_rows(data, 80))[0] == [pixel]


NOT_DRAWN: Final = {
    "no base64": "ä",
    "nothing": "",
    "a GIF": base64.b64encode(b"GIF89a\1\0\1\0").decode(),
    "interlaced": png(1, 1, b"\0\1\2\3", interlaced=1),
    "a depth that there is not": png(1, 1, b"\0\1\2\3", depth=3),
    "a colour that there is not": png(1, 1, b"\0\1\2\3", colour=5),
    "no width": png(0, 1, b"\0"),
    "a filter that there is not": png(1, 1, b"\5\1\2\3"),
    "less than it claims": png(2, 2, b"\0\1\2\3"),
    "far more than it holds": png(40_000, 40_000, b"\0"),
    "too many pixels": png(MOST_BYTES, 2, b"\0", colour=0),
    "no pixels": base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"\0" * 13)).decode(),
    "damaged": png(1, 1, b"\0\1\2\3")[:-40],
}


@pytest.mark.parametrize("data", NOT_DRAWN.values(), ids=list(NOT_DRAWN))
def test_what_cannot_be_read_has_no_rows(data: str) -> None:
    assert half_block_rows(data, 80) == []


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    for each in (data, b"\x89PNG\r\n\x1a\n" + data, b"\x89PNG\r\n\x1a\n" + header + data):
        half_block_rows(base64.b64encode(each).decode(), 80)


@pytest.mark.parametrize(
    ("size", "columns", "cells_of"),
    [((300, 10), 40, (40, 1)), ((10, 300), 40, (1, MOST_ROWS)), ((200, 200), 500, (48, 24))],
)
def test_a_large_picture_is_made_smaller(
    size: tuple[int, int], columns: int, cells_of: tuple[int, int]
) -> None:
    width, height = size
    rows = half_block_rows(png(width, height, (b"\0" + bytes(RED) * width) * height), columns)
    assert (cells(rows[0]), len(rows)) == cells_of
    assert cells(rows[0]) <= min(columns, MOST_COLUMNS)
    assert pixels(rows)[0] == [RED] * cells_of[0]


def test_without_a_width_there_are_no_rows() -> None:
    content = ImageContent(png(1, 1, b"\0\1\2\3"), "image/png")
    assert HalfBlocks(content).rows(None) == []
    assert len(HalfBlocks(content).rows(80)) == 1


HALF: Final = {"COLORTERM": "truecolor", "LANG": "en_US.UTF-8", "TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("change", "drawn"),
    [
        ({}, True),
        ({"COLORTERM": ""}, False),
        ({"LC_ALL": "C"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"TMUX": "x"}, True),
        ({"TERM": "xterm-kitty"}, False),
    ],
)
def test_half_blocks_are_for_terminals_with_colours_and_without_graphics(
    change: dict[str, str], drawn: bool
) -> None:
    shown = Pictures(HALF | change).drawn(png(1, 2, b"\0\1\2\3\0\4\5\6"), "image/png", 80)
    sequence = "\r\x1b[38;2;1;2;3;48;2;4;5;6m▀\x1b[0m\r\n"
    assert (shown == sequence) is drawn
