"""Law 1: any split of the bytes gives the same events, and no bytes make the core raise."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import PeerError
from twofold.rpc.errors import RequestFailed
from twofold.rpc.frames import Lines, LineTooLong
from twofold.rpc.messages import (
    Failure,
    Notification,
    Request,
    Response,
    read_message,
    write_message,
)
from twofold.wire import codec
from twofold.wire.base import Malformed

texts = st.text(max_size=12)
ids = st.integers(-(2**40), 2**40) | texts
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
messages = st.one_of(
    st.builds(Request, ids, texts, values),
    st.builds(Notification, texts, values),
    st.builds(Response, ids, values),
    st.builds(Failure, ids, values),
)
noise = st.binary(max_size=20).map(lambda data: data.replace(b"\n", b""))


def events(pieces: list[bytes], limit: int = 10_000) -> list[Any]:
    """What the pieces say: messages, and what is none."""
    lines = Lines(limit)
    read = [line for piece in pieces for line in lines.feed(piece)] + lines.end()
    found: list[Any] = []
    for line in read:
        if isinstance(line, LineTooLong):
            found.append((line.size, line.limit))
            continue
        try:
            found.append(read_message(codec.parse(line)))
        except Malformed:
            found.append(line)
    return found


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({each % (len(data) + 1) for each in cuts})
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


@given(
    st.lists(messages.map(lambda each: codec.encode(write_message(each))) | noise, max_size=8),
    st.lists(st.integers(0, 2000), max_size=20),
    st.integers(1, 200),
)
def test_any_split_of_the_bytes_gives_the_same_events(
    lines: list[bytes], cuts: list[int], limit: int
) -> None:
    data = b"\n".join(lines)
    assert events(cut(data, cuts), limit) == events([data], limit)


@given(st.lists(messages, max_size=8), st.lists(st.integers(0, 2000), max_size=20))
def test_messages_come_out_as_they_went_in(sent: list[Any], cuts: list[int]) -> None:
    data = b"".join(codec.encode(write_message(message)) + b"\n" for message in sent)
    assert events(cut(data, cuts), limit=10**6) == sent


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10))
def test_no_bytes_make_it_raise(data: bytes, cuts: list[int]) -> None:
    events(cut(data, cuts))


def test_a_line_over_the_limit_is_told_of_and_the_next_one_is_read() -> None:
    lines = Lines(limit=5)
    found = lines.feed(b"123456\n12345\n")
    assert isinstance(found[0], LineTooLong)
    assert isinstance(found[0], PeerError)
    assert (found[0].size, found[0].limit) == (6, 5)
    assert found[1:] == [b"12345"]


def test_a_line_over_the_limit_is_not_kept_in_memory() -> None:
    lines = Lines(limit=10)
    for _ in range(1000):
        lines.feed(b"x" * 100)
    assert len(lines._parts) <= 10
    (told,) = lines.feed(b"\n")
    assert isinstance(told, LineTooLong)
    assert told.size == 100_000


@pytest.mark.parametrize(
    "line",
    [
        *("null", "42", '"text"', "[]", "{}", '{"id": 1}', '{"id": true, "method": "m"}'),
        *('{"method": 5}', '{"id": null, "method": "m"}', '{"result": {}}', '{"error": {}}'),
        '{"id": {}, "result": 1}',
    ],
)
def test_what_is_not_json_rpc_is_none_of_the_four(line: str) -> None:
    assert read_message(json.loads(line)) is None


def test_an_error_without_a_known_request_may_have_a_null_id() -> None:
    error = {"code": -32700, "message": "Parse error"}
    assert read_message({"id": None, "error": error}) == Failure(None, error)


def test_the_end_of_the_standard_error_of_a_dead_agent_is_shown_behind_a_bridge() -> None:
    failed = RequestFailed("session/prompt", -32603, "The agent died", {"stderr": "one\ntwo"})
    shown = "session/prompt failed: The agent died (-32603). The end of its standard error:"
    assert str(failed) == f"{shown}\n  one\n  two"
    for nothing in ({"stderr": ""}, {"stderr": 5}, {"stderr": None}):
        assert "standard error" not in str(RequestFailed("m", 1, "no", nothing))
