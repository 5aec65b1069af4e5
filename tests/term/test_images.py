"""Pictures where the terminal can draw them: sizes, protocols, and what is never sent."""

import base64
import re
import struct
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.term.images import (
    LARGEST,
    MOST_ROWS,
    Picture,
    Pictures,
    Protocol,
    drawn,
    image_size,
    protocol_of,
)


def png(width: int, height: int, more: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    length = struct.pack(">I", len(header))
    return b"\x89PNG\r\n\x1a\n" + length + chunk + struct.pack(">I", zlib.crc32(chunk)) + more


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def jpeg(width: int, height: int, frame: int = 0xC0) -> bytes:
    app = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9
    tables = b"\xff\xc4" + struct.pack(">H", 4) + b"\xff\xc0"  # looks like a frame, and is none
    size = struct.pack(">BHH", 8, height, width)
    return b"\xff\xd8" + app + b"\xff" + tables + bytes([0xFF, frame, 0, 11]) + size + b"\3\1\x22\0"


def webp(kind: bytes, body: bytes) -> bytes:
    chunk = kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def extended(width: int, height: int) -> bytes:
    sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return webp(b"VP8X", b"\0\0\0\0" + sizes)


def lossless(width: int, height: int) -> bytes:
    bits = (width - 1) | (height - 1) << 14
    return webp(b"VP8L", b"\x2f" + bits.to_bytes(4, "little") + b"\0" * 8)


def lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height))


FORMATS = [png, gif, jpeg, extended, lossless, lossy]


@pytest.mark.parametrize("made", FORMATS)
@pytest.mark.parametrize(("width", "height"), [(1, 1), (640, 480), (16383, 3)])
def test_the_size_is_read_from_the_header(
    made: Callable[[int, int], bytes], width: int, height: int
) -> None:
    assert image_size(made(width, height)) == (width, height)


@pytest.mark.parametrize("frame", [0xC1, 0xC2, 0xC3, 0xC9, 0xCF])
def test_the_size_of_any_kind_of_jpeg_is_read(frame: int) -> None:
    assert image_size(jpeg(30, 20, frame)) == (30, 20)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no picture",
        b"\x89PNG\r\n\x1a\n",
        png(10, 10)[:20],
        png(0, 10),
        png(10, 10).replace(b"IHDR", b"IDAT"),
        gif(10, 0),
        b"GIF89a\1",
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xd9",
        b"\xff\xd8\xff\xda\0\4\0\0" + jpeg(10, 10)[2:],
        jpeg(10, 10)[:30],
        b"\xff\xd8" + b"\xff\xe0\0\0" * 50,
        b"\xff\xd8" + b"\xff" * 5000,
        b"RIFF\0\0\0\0WEBP",
        webp(b"ABCD", b"\0" * 40),
        webp(b"VP8L", b"\0" * 40),
        webp(b"VP8 ", b"\0" * 40),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    ],
)
def test_what_is_no_picture_has_no_size(data: bytes) -> None:
    assert image_size(data) is None


@given(st.sampled_from([made(300, 200) for made in FORMATS]), st.binary(max_size=40), st.data())
def test_a_broken_header_gives_a_size_or_none(
    start: bytes, rest: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(start)))
    size = image_size(start[:at] + rest)
    assert size is None or (size[0] > 0 and size[1] > 0)


# ---- which terminal ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "xterm-kitty"}, Protocol.KITTY),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, Protocol.KITTY),
        ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, Protocol.KITTY),
        ({"TERM_PROGRAM": "ghostty"}, Protocol.KITTY),
        ({"TERM_PROGRAM": "WezTerm"}, Protocol.KITTY),
        ({"TERM_PROGRAM": "iTerm.app"}, Protocol.ITERM2),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, Protocol.ITERM2),
        ({"TERM": "dumb", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux-1/default,1,0"}, None),
        ({"TERM": "xterm-kitty", "STY": "1.pts-0"}, None),
        ({"TERM": "screen-256color", "TERM_PROGRAM": "iTerm.app"}, None),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM_PROGRAM": "vscode", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM_PROGRAM": "Apple_Terminal", "LC_TERMINAL": "iTerm2"}, None),
    ],
)
def test_the_environment_tells_what_the_terminal_can(
    environment: dict[str, str], expected: Protocol | None
) -> None:
    assert protocol_of(environment) is expected
    assert Pictures(environment).protocol is expected


# ---- what is written ---------------------------------------------------------------------------


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def kitty(data: bytes, columns: int = 80) -> Picture:
    picture = drawn(b64(data), "image/png", Protocol.KITTY, columns)
    assert picture is not None
    return picture


_SENT = re.compile(
    r"\r\n+\x1b\[(\d+)A(?:\x1b\[\d+C)?\x1b7"
    r"((?:\x1b_G[a-zA-Z0-9=,]+;[A-Za-z0-9+/=]*\x1b\\)+"
    r"|\x1b\]1337;File=[a-zA-Z0-9=;]+:[A-Za-z0-9+/=]+\x07)"
    r"\x1b8\x1b\[(\d+)B\r"
)


@pytest.mark.parametrize("more", [b"", b"x" * 10_000, bytes(range(256)) * 100])
def test_kitty_gets_a_png_in_chunks_and_is_asked_for_no_answer(more: bytes) -> None:
    data = png(100, 100, more)
    found = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", kitty(data).sequence)
    keys = [dict(pair.split("=") for pair in each.split(",")) for each, _ in found]
    assert base64.b64decode("".join([chunk for _, chunk in found])) == data
    assert all(len(chunk) <= 4096 for _, chunk in found)
    assert all(len(chunk) % 4 == 0 for _, chunk in found)
    assert [key["m"] for key in keys] == ["1"] * (len(found) - 1) + ["0"]
    assert {key["q"] for key in keys} == {"2"}
    assert keys[0] == {
        "a": "T",
        "f": "100",
        "c": "10",
        "r": "5",
        "C": "1",
        "q": "2",
        "m": keys[0]["m"],
    }


@pytest.mark.parametrize("made", [png, gif, jpeg, lossless])
def test_iterm2_gets_any_picture_as_it_is(made: Callable[[int, int], bytes]) -> None:
    data = made(100, 100)
    picture = drawn(b64(data), "image/png", Protocol.ITERM2, 80)
    assert picture is not None
    keys = f"inline=1;size={len(data)};width=10;height=5;preserveAspectRatio=1"
    assert f"\x1b]1337;File={keys}:{b64(data)}\x07" in picture.sequence


@given(
    st.sampled_from(list(Protocol)),
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.integers(1, 300),
    st.integers(1, 100),
    st.integers(-1, 9),
)
def test_a_picture_fits_and_makes_room_for_itself(
    protocol: Protocol, width: int, height: int, columns: int, rows: int, margin: int
) -> None:
    data = b64(png(width, height))
    picture = drawn(data, "image/png", protocol, columns, rows=rows, margin=margin)
    assert picture is not None
    assert 1 <= picture.columns <= columns
    assert 1 <= picture.rows <= min(rows, MOST_ROWS)
    sent = _SENT.fullmatch(picture.sequence)
    assert sent is not None
    assert int(sent[1]) == int(sent[3]) == picture.sequence.count("\n") == picture.rows
    assert (f"\x1b[{margin}C" in picture.sequence) == (margin > 0)


@pytest.mark.parametrize(
    ("size", "columns", "cells"),
    [
        ((100, 100), 80, (10, 5)),
        ((1600, 400), 80, (80, 10)),
        ((1000, 10_000), 80, (5, 24)),
        ((1, 1), 80, (1, 1)),
        ((8000, 1), 80, (80, 1)),
    ],
)
def test_a_picture_keeps_its_shape(
    size: tuple[int, int], columns: int, cells: tuple[int, int]
) -> None:
    picture = kitty(png(*size), columns)
    assert (picture.columns, picture.rows) == cells


@pytest.mark.parametrize(
    ("data", "mime_type", "protocol", "columns"),
    [
        (b64(png(9, 9)), "image/png", None, 80),
        (b64(png(9, 9)), "image/png", Protocol.KITTY, 0),
        (b64(png(9, 9)), "text/html", Protocol.KITTY, 80),
        (b64(gif(9, 9)), "image/gif", Protocol.KITTY, 80),
        (b64(gif(9, 9)), "image/png", Protocol.KITTY, 80),
        (b64(b"no picture"), "image/png", Protocol.ITERM2, 80),
        (b64(png(100_000, 100_000)), "image/png", Protocol.KITTY, 80),
        (b64(png(9, 9, b"x" * LARGEST)), "image/png", Protocol.KITTY, 80),
        ("A" * (2 * LARGEST), "image/png", Protocol.KITTY, 80),
        ("", "image/png", Protocol.KITTY, 80),
        ("a", "image/png", Protocol.KITTY, 80),
        ("größe", "image/png", Protocol.KITTY, 80),
        ("\ud800", "image/png", Protocol.KITTY, 80),
        (b64(png(9, 9)) + "\x1b\\\x1b]0;title\x07", "image/png", Protocol.KITTY, 80),
        (b64(png(9, 9)) + "\x07", "image/png", Protocol.ITERM2, 80),
    ],
)
def test_what_cannot_be_drawn_is_not(
    data: str, mime_type: str, protocol: Protocol | None, columns: int
) -> None:
    assert drawn(data, mime_type, protocol, columns) is None


def test_base64_with_newlines_is_read() -> None:
    data = png(100, 100, b"x" * 200)
    lines = base64.encodebytes(data).decode()
    assert drawn(lines, "image/png", Protocol.KITTY, 80) == kitty(data)


@given(st.text(), st.sampled_from(list(Protocol)))
def test_nothing_of_the_peer_but_a_picture_reaches_the_terminal(
    text: str, protocol: Protocol
) -> None:
    assert drawn(text, "image/png", protocol, 80) is None


@given(st.binary(max_size=300), st.sampled_from(list(Protocol)))
def test_what_is_sent_has_one_form_whatever_is_in_the_picture(
    more: bytes, protocol: Protocol
) -> None:
    picture = drawn(b64(png(50, 50, more)), "image/png", protocol, 80)
    assert picture is not None
    assert _SENT.fullmatch(picture.sequence)


def test_pictures_are_drawn_the_way_of_the_terminal() -> None:
    data = b64(png(100, 2000))
    assert Pictures({}).drawn(data, "image/png", 80) is None
    sequence = Pictures({"TERM": "xterm-kitty"}).drawn(data, "image/png", 80, 7)
    assert sequence is not None
    assert "r=7," in sequence
