"""Server-sent events: what is an event, and that it does not matter how the bytes are split."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.transport.event_stream import LONGEST_ID, EventStream, EventTooLong

LIMIT = 1000
PIECES = st.sampled_from(
    [
        b"data",
        b":",
        b" ",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"id: 7",
        b"retry: 20",
        b"x",
        b"\xef\xbb\xbf",
    ]
)
STREAMS = st.lists(PIECES, max_size=30).map(b"".join)


def read(*pieces: bytes, limit: int = LIMIT) -> tuple[list[bytes], EventStream]:
    stream = EventStream(limit)
    return [event.data for piece in pieces for event in stream.feed(piece)], stream


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: {}\n\n", [b"{}"]),
        (b"data:{}\r\n\r\n", [b"{}"]),
        (b"data: {}\r\r", [b"{}"]),
        (b"\xef\xbb\xbfdata: 1\n\n", [b"1"]),
        (b": a comment\n\ndata: 1\n: another\n\n", [b"1"]),
        (b"data: {\ndata: }\n\n", [b"{\n}"]),
        (b"event: message\ndata: 1\nunknown: 2\n\n", [b"1"]),
        (b"data\n\n", [b""]),
        (b"data:  two blanks\n\n", [b" two blanks"]),
        (b"event: nothing\n\n", []),
        (b"data: 1\n", []),
        (b"data: 1", []),
    ],
)
def test_events_are_read_as_the_standard_has_it(data: bytes, events: list[bytes]) -> None:
    assert read(data)[0] == events


@given(STREAMS, st.lists(st.integers(0, 200), max_size=5))
def test_any_split_of_the_bytes_gives_the_same_events(data: bytes, cuts: list[int]) -> None:
    whole, stream = read(data)
    marks = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in itertools.pairwise(marks)]
    parts, other = read(*pieces)
    assert parts == whole
    assert (other.last_id, other.retry, other.whole) == (stream.last_id, stream.retry, stream.whole)


def test_the_id_of_an_event_counts_once_the_event_is_complete() -> None:
    _, stream = read(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")
    assert stream.last_id == b"1"
    assert not stream.whole


def test_an_id_stays_until_there_is_another_one() -> None:
    assert read(b"id: 1\ndata: a\n\ndata: b\n\n")[1].last_id == b"1"


@pytest.mark.parametrize("value", [b"a\0b", b"x" * (LONGEST_ID + 1)])
def test_an_id_that_no_header_should_hold_is_ignored(value: bytes) -> None:
    assert read(b"id: 1\n\nid: %b\n\n" % value, limit=LONGEST_ID * 4)[1].last_id == b"1"


def test_the_time_to_wait_is_read_in_milliseconds() -> None:
    assert read(b"retry: 1500\n")[1].retry == 1.5
    assert read(b"retry: soon\nretry: -1\nretry: 99999999999\n")[1].retry is None


@pytest.mark.parametrize("piece", [b"data: x", b"data: x\n", b":", b"data\n"])
def test_an_event_has_a_limit_however_it_arrives(piece: bytes) -> None:
    if piece.startswith(b":"):
        with pytest.raises(EventTooLong):
            read(*[piece] * (LIMIT + 1))
        return
    with pytest.raises(EventTooLong) as caught:
        read(*[piece] * (LIMIT + 10))
    assert caught.value.limit == LIMIT


def test_many_events_together_may_be_longer_than_the_limit() -> None:
    assert len(read(b"data: x\n\n" * LIMIT)[0]) == LIMIT
