"""Law 1 for conversations: any split of the bytes gives the same events, and no bytes raise."""

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from twofold.errors import PeerError
from twofold.rpc import connection, frames
from twofold.rpc.connection import (
    ENTRIES,
    GIVEN_UP,
    Batch,
    Connection,
    Failure,
    Malformed,
    Notification,
    Pending,
    Request,
    Response,
    read_line,
    read_message,
    write_message,
)
from twofold.rpc.errors import INVALID_REQUEST, PARSE_ERROR, RequestError, RequestFailed
from twofold.rpc.frames import Lines, LineTooLong
from twofold.wire import codec

PING = b'{"jsonrpc":"2.0","method":"ping"}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
TITLE = b"\x1b]0;an agent\x07"
MIB = 1024 * 1024


def events(pieces: list[bytes], limit: int = 10_000) -> list[Any]:
    """The events of all pieces, including the end of the input."""
    reading = Connection(limit=limit)
    found = [event for piece in pieces for event in reading.receive(piece)]
    return [flat(event) for event in [*found, *reading.end()]]


def flat(event: Any) -> Any:
    """An event that can be compared: a batch as the list of its entries."""
    return list(event) if isinstance(event, Batch) else event


def only(line: bytes) -> Any:
    """The one event of a line."""
    (event,) = read_line(line)
    return event


def refusal(event: Any) -> Any:
    assert isinstance(event, Malformed)
    assert event.refusal.endswith(b"\n")
    return json.loads(event.refusal)


# ---- any bytes, in any pieces

texts = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
odd_ids = values | st.sampled_from([0, -1, 1.0, 10**30, "7", "\ud800", "", True])
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | values,
        "id": odd_ids,
        "method": st.sampled_from(["ping", "session/update", "\ud800"]) | values,
        "params": values,
        "result": values,
        "error": values,
        "more": values,
    },
)
messages = (envelopes | st.lists(envelopes, max_size=3)).map(lambda each: json.dumps(each).encode())
noise = st.sampled_from([b"", b" ", b"\r", TITLE, b"\x1b[31m", b"\xef\xbb\xbf", b"log: ", b"\xff"])
lines = st.lists(
    st.tuples(noise, messages | st.binary(max_size=20), noise).map(b"".join), max_size=6
)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({each % (len(data) + 1) for each in cuts})
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


@given(lines, st.lists(st.integers(0, 1000), max_size=20), st.integers(1, 400))
def test_any_split_of_the_bytes_gives_the_same_events(
    lines: list[bytes], cuts: list[int], limit: int
) -> None:
    data = b"\n".join(lines)
    assert events(cut(data, cuts), limit) == events([data], limit)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_no_bytes_make_it_raise(data: bytes, cuts: list[int]) -> None:
    events(cut(data, cuts))


@settings(max_examples=300)
@given(messages, noise)
def test_no_message_however_odd_makes_it_raise(message: bytes, before: bytes) -> None:
    for event in read_line(before + message):
        for each in event if isinstance(event, Batch) else [event]:
            if isinstance(each, Malformed) and each.refusal:
                json.loads(each.refusal)


@given(st.lists(st.binary(max_size=12), max_size=12), st.integers(1, 20))
def test_lines_are_the_bytes_between_newlines(pieces: list[bytes], limit: int) -> None:
    reading = Lines(limit)
    found = [line for piece in pieces for line in reading.feed(piece)] + reading.end()
    expected = [each for each in b"".join(pieces).split(b"\n") if len(each) > limit or each.strip()]
    assert len(found) == len(expected)
    for line, whole in zip(found, expected, strict=True):
        if isinstance(line, LineTooLong):
            assert (line.size, line.limit) == (len(whole), limit)
            assert (line.head, line.tail) == (whole[:512], whole[-512:])
        else:
            assert line == whole
            assert len(whole) <= limit


# ---- the four messages


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ('{"jsonrpc":"2.0","method":"m"}', Notification("m")),
        ('{"jsonrpc":"2.0","method":"m","params":[1]}', Notification("m", b"[1]")),
        ('{"jsonrpc":"2.0","method":"m","params":null}', Notification("m")),
        ('{"jsonrpc":"2.0","method":"m","id":1,"params":{}}', Request(1, "m", b"{}")),
        ('{"jsonrpc":"2.0","method":"m","id":"a"}', Request("a", "m")),
        ('{"jsonrpc":"2.0","method":"m","id":2.0}', Request(2, "m")),
        ('{"jsonrpc":"2.0","id":1,"result":null}', Response(1, b"null")),
        ('{"jsonrpc":"2.0","id":"a","result":{"x":1}}', Response("a", b'{"x":1}')),
        ('{"jsonrpc":"2.0","id":1.0,"result":1}', Response(1, b"1")),
        ('{"jsonrpc":"2.0","id":1,"result":1,"error":null}', Response(1, b"1")),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":1}}', Failure(1, b'{"code":1}')),
        ('{"jsonrpc":"2.0","id":1,"result":1,"error":{}}', Failure(1, b"{}")),
        ('{"jsonrpc":"2.0","id":1,"error":null}', Failure(1, b"null")),
        ('{"jsonrpc":"2.0","id":1}', Failure(1, b"null")),
        ('{"jsonrpc":"2.0","id":null,"error":{}}', Failure(None, b"{}")),
        ('{"jsonrpc":"2.0","id":null,"result":1}', Response(None, b"1")),
        ('{"jsonrpc":"2.0","id":1,"result":1,"not":"known"}', Response(1, b"1")),
    ],
)
def test_each_kind_of_message_is_recognised(text: str, event: Any) -> None:
    assert only(text.encode()) == event


@pytest.mark.parametrize(
    "text",
    [
        *("null", "42", '"text"', "true"),
        "starting up...",
        "\x1b[32mINFO\x1b[0m listening",
        'debug: sent {"jsonrpc":"2.0","id":1,"result":{}}',
    ],
)
def test_noise_is_reported_and_never_answered(text: str) -> None:
    event = only(text.encode())
    assert isinstance(event, Malformed)
    assert event.line == text.encode()
    assert not event.refusal


@pytest.mark.parametrize(
    "text",
    [
        *("{}", '{"id":1,"result":{}}', '{"jsonrpc":"1.0","id":1}'),
        '{"level":"info","id":1,"method":"GET","msg":"served"}',
        '{"jsonrpc":2.0,"id":1,"result":{}}',
        '{"jsonrpc":"2.0"}',
        '{"jsonrpc":"2.0","result":{}}',
        '{"jsonrpc":"2.0","id":[1],"result":{}}',
        '{"jsonrpc":"2.0","id":1.5,"result":{}}',
        '{"jsonrpc":"2.0","id":true,"result":{}}',
        '{"jsonrpc":"2.0","id":null}',
        "[]",
    ],
)
def test_json_that_is_no_message_is_refused_unless_it_may_be_a_log(text: str) -> None:
    event = only(text.encode())
    assert event.line == text.encode()
    assert event.maybe_log
    assert refusal(event)["id"] is None
    assert refusal(event)["error"]["code"] == INVALID_REQUEST


@pytest.mark.parametrize("text", ["{not json}", "[INFO] listening", '\x1b[0m{"jsonrpc":', "[1,"])
def test_a_line_that_begins_like_json_is_a_parse_error_unless_it_may_be_a_log(text: str) -> None:
    event = only(text.encode())
    assert event.maybe_log
    assert refusal(event)["id"] is None
    assert refusal(event)["error"]["code"] == PARSE_ERROR


@pytest.mark.parametrize(
    ("text", "echoed"),
    [
        ('{"jsonrpc":"2.0","id":null,"method":"m"}', None),
        ('{"jsonrpc":"2.0","id":true,"method":"m"}', None),
        ('{"jsonrpc":"2.0","id":{},"method":"m"}', None),
        ('{"jsonrpc":"2.0","id":1.5,"method":"m"}', 1.5),
        ('{"jsonrpc":"2.0","id":1,"method":5}', 1),
        ('{"jsonrpc":"2.0","id":"a","method":null}', "a"),
        ('{"jsonrpc":"2.0","id":"\\ud800","method":5}', "\ud800"),
    ],
)
def test_a_request_that_cannot_be_used_is_refused(text: str, echoed: Any) -> None:
    answer = refusal(only(text.encode()))
    assert answer["id"] == echoed
    assert answer["error"]["code"] == INVALID_REQUEST


def test_ids_that_are_no_text_are_echoed_as_they_came() -> None:
    request = only(b'{"jsonrpc":"2.0","id":"\\ud800","method":"m"}')
    assert isinstance(request, Request)
    answer = connection.respond(request.id, b"1") + connection.fail(
        request.id, RequestError.cancelled()
    )
    assert [json.loads(each)["id"] for each in answer.splitlines()] == ["\ud800", "\ud800"]


def test_a_huge_id_is_echoed_in_full() -> None:
    request = only(b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % (b"9" * 400))
    assert isinstance(request, Request)
    assert json.loads(connection.respond(request.id, b"1"))["id"] == int("9" * 400)


@pytest.mark.parametrize(
    "deep",
    [b'{"jsonrpc":"2.0","id":1,"result":%b}', b'{"jsonrpc":"2.0","method":"\\ud800","x":%b}'],
)
@pytest.mark.parametrize("depth", [*range(900, 1010, 5), 100_000])
def test_json_of_any_depth_does_not_raise(deep: bytes, depth: int) -> None:
    assert read_line(deep % (b"[" * depth + b"]" * depth))


# ---- batches


def test_the_entries_of_a_batch_are_events_of_their_own() -> None:
    batch = b"[%b, 5, [%b], %b, {}]" % (PING, PING, ANSWER)
    first, five, nested, last, empty = only(batch)
    assert (first, last) == (Notification("ping"), Response(1, b"{}"))
    for event in (five, nested, empty):
        assert refusal(event)["error"]["code"] == INVALID_REQUEST
        assert refusal(event)["id"] is None


def test_a_batch_with_a_message_that_is_odd_is_read_to_its_end() -> None:
    odd = b'{"jsonrpc":"2.0","method":"\\ud800"}'
    assert list(only(b"[%b,%b]" % (odd, ANSWER))) == [Notification("\ud800"), Response(1, b"{}")]


@pytest.mark.parametrize("odd", [b"", b'"\\ud800",'])
def test_a_batch_of_too_many_entries_is_refused_as_a_whole(odd: bytes) -> None:
    assert len(list(only(b"[" + PING + b",{}" * (ENTRIES - 1) + b"]"))) == ENTRIES
    event = only(b"[" + odd + PING + b",{}" * ENTRIES + b"]")
    assert f"more than {ENTRIES} entries" in refusal(event)["error"]["data"]["reason"]


# ---- noise


@pytest.mark.parametrize(
    "noisy",
    [
        TITLE + ANSWER,
        b"\x1b]0;title\x1b\\" + ANSWER,
        b"\x1b[2J\x1b[1;31m" + ANSWER + b"\x1b[0m",
        b"\xef\xbb\xbf" + ANSWER,
        b"\x00\x00" + ANSWER + b"\x07",
        b"\x1b]0;a\x07 \x1b]0;b\x07" + b"[" + ANSWER + b"]\x1b[K",
    ],
)
def test_a_message_is_found_on_a_line_with_control_characters(noisy: bytes) -> None:
    malformed, event = read_line(noisy)
    assert isinstance(malformed, Malformed)
    assert flat(event) in (Response(1, b"{}"), [Response(1, b"{}")])


def test_whitespace_around_a_message_is_no_noise() -> None:
    assert events([b"\r\n \t" + ANSWER + b" \r\n\n  \n"]) == [Response(1, b"{}")]


def test_a_log_line_in_colour_is_reported_once() -> None:
    event = only(b'\x1b[32m{"level":"info"}\x1b[0m')
    assert isinstance(event, Malformed)


def test_only_the_beginning_of_noise_is_kept() -> None:
    event = only(b"x" * 100_000)
    assert len(event.line) == 200


# ---- answers and requests that cannot be read

UNREADABLE = "NaN"  # is not JSON
ANSWERS = [
    '{"jsonrpc":"2.0","id":7,"result":%s}',
    '{"id":7,"jsonrpc":"2.0","result":%s}',
    '{"jsonrpc":"2.0","result":%s,"id":7}',
    '{"result":%s,"id":7,"jsonrpc":"2.0"}',
    '{"result":%s,"jsonrpc":"2.0","id":7}',
    '{"error":%s,"id":7,"jsonrpc":"2.0"}',
    ' { "jsonrpc" : "2.0" , "id" : 7 , "error" : %s } ',
    '{"jsonrpc":"2.0","id":7,"result":%s,"id":8',
]
REQUESTS = [
    '{"jsonrpc":"2.0","id":7,"method":"m","params":%s}',
    '{"jsonrpc":"2.0","method":"m","id":7,"params":%s}',
    '{"id":7,"jsonrpc":"2.0","method":"m","params":%s}',
    '{"jsonrpc":"2.0","method":"m","params":%s,"id":7}',
]


def unreadable(pattern: str) -> list[Any]:
    return list(read_line((pattern % UNREADABLE).encode()))


def too_long(pattern: str) -> list[Any]:
    return events([(pattern % f'"{"x" * 5000}"').encode() + b"\n"], limit=2000)


WAYS = pytest.mark.parametrize("way", [unreadable, too_long])


@WAYS
@pytest.mark.parametrize("pattern", ANSWERS)
def test_an_answer_that_cannot_be_read_settles_its_request(
    way: Callable[[str], list[Any]], pattern: str
) -> None:
    malformed, failure = way(pattern)
    assert isinstance(malformed, Malformed)
    assert isinstance(failure, Failure)
    assert failure.id == 7
    assert "cannot be read" in json.loads(failure.error)["message"]


@WAYS
@pytest.mark.parametrize("pattern", REQUESTS)
def test_a_request_that_cannot_be_read_is_refused(
    way: Callable[[str], list[Any]], pattern: str
) -> None:
    (malformed,) = way(pattern)
    assert refusal(malformed)["id"] == 7


@WAYS
@pytest.mark.parametrize(
    "pattern",
    [
        '{"jsonrpc":"2.0","method":"session/update","params":%s}',
        '{"level":"info","id":7,"result":%s}',
        '{"id":7,"result":%s}',
        '{"jsonrpc":"1.0","id":7,"result":%s}',
        'log: {"jsonrpc":"2.0","id":7,"result":%s}',
        '{"jsonrpc":"2.0","id":"\x7f\u00ff","result":%s}',
    ],
)
def test_nothing_is_made_up_for_what_names_no_request(
    way: Callable[[str], list[Any]], pattern: str
) -> None:
    (malformed,) = way(pattern)
    assert isinstance(malformed, Malformed)
    assert not malformed.refusal or malformed.maybe_log
    assert not malformed.refusal or refusal(malformed)["id"] is None


def test_an_answer_with_an_id_that_looks_like_a_number_keeps_its_kind() -> None:
    *_, failure = unreadable('{"jsonrpc":"2.0","id":"7","result":%s}')
    assert failure.id == "7"
    *_, failure = unreadable('{"jsonrpc":"2.0","id":-007,"result":%s}')
    assert failure.id == -7


def test_an_answer_that_is_too_long_is_found_behind_a_title() -> None:
    data = TITLE + b'{"jsonrpc":"2.0","id":7,"result":"%b"}\n' % (b"x" * 5000) + ANSWER
    malformed, failure, answer = events([data], limit=2000)
    assert "5049 bytes" in malformed.reason
    assert failure.id == 7
    assert answer == Response(1, b"{}")


# ---- size


def test_a_line_over_the_limit_is_skipped_and_the_next_one_is_read() -> None:
    malformed, answer = events([b"x" * 5000, b"x" * 5000 + b"\n" + ANSWER + b"\n"], limit=2000)
    assert isinstance(malformed, Malformed)
    assert malformed.reason == "The peer sent a line of 10000 bytes; the limit is 2000."
    assert answer == Response(1, b"{}")


def test_a_line_of_exactly_the_limit_is_read() -> None:
    assert events([ANSWER + b"\n"], limit=len(ANSWER)) == [Response(1, b"{}")]


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()  # others may use the machine, too
    work()
    return time.process_time() - begin


def shortest(work: Callable[[], object]) -> float:
    return min(seconds(work) for _ in range(3))


def test_a_huge_line_in_many_pieces_costs_as_much_as_it_is_long() -> None:
    piece = b"x" * 100

    def read(count: int) -> None:
        reading = Lines()
        for _ in range(count):
            reading.feed(piece)
        (line,) = reading.feed(b"\n")
        assert isinstance(line, bytes)
        assert len(line) == 100 * count

    small, large = shortest(lambda: read(2_000)), shortest(lambda: read(16_000))
    assert large < 8 * small * 4  # a quadratic cost would be 64 times as much


def test_the_memory_of_a_line_in_tiny_pieces_is_that_of_the_line() -> None:
    reading = Lines()
    for _ in range(50_000):
        reading.feed(b"xy")
    assert reading._parts.__sizeof__() < 2 * 100_000


HARD = {
    "titles that never end": b"\x1b]",
    "colours that never end": b"\x1b[0",
    "spaces after an escape": b"\x1b[ ",
    "escapes": b"\x1b",
    "open braces": b'{"jsonrpc":"2.0","id":1,',
    "open brackets": b"[",
    "spaces": b'{ "jsonrpc"  ',
    "digits": b'{"jsonrpc":"2.0","id":1',
    "closed braces": b"}\x1b[",
}


@pytest.mark.parametrize("piece", HARD.values(), ids=HARD)
def test_no_line_takes_more_time_than_its_length(piece: bytes) -> None:
    def read(count: int) -> Callable[[], object]:
        line = piece * count + b"x"
        return lambda: read_line(line)

    small, large = shortest(read(2_000)), shortest(read(32_000))
    assert large < 0.01 + 16 * small * 6  # a quadratic cost would be 256 times as much


FLOODS = {
    "members": b'"id":1,',
    "members of a message": b'{"jsonrpc":"2.0",' + b'"id":1,',
    "objects": b"{},",
    "objects of a batch": b"[" + b"{},",
    "objects where an id should be": b'{"jsonrpc":"2.0","method":"m","id":[' + b"{},",
    "objects beside what is no text": b'["\\ud800",' + b"{},",
    "objects beside bytes that are no text": b'["\xff",' + b"{},",
    "numbers": b"[" + b"1,",
    "strings": b'["\\ud800",' + b'"",',
    "brackets": b"[",
    "titles": b"\x1b]0;a\x07",
}


@pytest.mark.parametrize("close", [b"{}", b"{}]", b"x", b'{}],"result":1}'])
@pytest.mark.parametrize("flood", FLOODS)
def test_no_line_takes_more_memory_than_a_small_multiple_of_its_length(
    flood: str, close: bytes
) -> None:
    start = FLOODS[flood]
    piece = start.rpartition(b"[")[2] or start
    if flood == "members of a message":
        piece = b'"id":1,'
    line = start + piece * (8 * MIB // len(piece)) + close
    only_line = bytes(line)
    read_line(b"[]")  # what is made once
    tracemalloc.start()
    try:
        for event in read_line(only_line):
            for _ in event if isinstance(event, Batch) else [event]:
                pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(only_line)


@pytest.mark.parametrize("pieces", [1, 7])
def test_a_line_of_too_many_values_is_skipped_and_what_it_asked_is_settled(
    monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    monkeypatch.setattr(frames, "VALUES", 1000)
    flood = b'{"jsonrpc":"2.0","id":7,"result":[%b{}]}\n' % (b"{}," * 2000)
    step = len(flood) // pieces + 1
    cuts = [flood[at : at + step] for at in range(0, len(flood), step)]
    report, failure, answer = events([*cuts, ANSWER + b"\n"])
    assert report.reason == "The peer sent a line with more than 1000 values."
    assert failure.id == 7
    assert answer == Response(1, b"{}")


@pytest.mark.parametrize("text", ["a,b,c," * 1000, '\\",[' * 1000, "[{,"])
def test_brackets_inside_strings_do_not_count_as_depth(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(frames, "VALUES", 1000)
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "result": [text, text]}).encode()
    (event,) = events([line + b"\n"], limit=100_000)
    assert isinstance(event, Response)


def test_strings_that_never_end_are_counted_in_one_go() -> None:
    line = b'"' + b'\\"' * 500_000 + b"," * 3
    assert len(list(frames._STRING.finditer(line))) == 1


# ---- writing


def test_the_message_of_an_error_is_one_line_and_not_empty() -> None:
    for message, written in {"a\nb\r\n c": "a b c", "": "Error", "\n": "Error", "ok": "ok"}.items():
        answer = json.loads(connection.fail(1, RequestError(1, message)))
        assert answer["error"]["message"] == written


def test_messages_are_written_as_lines() -> None:
    written = [
        connection.request(1, "m", None),
        connection.request("a", "m", b'{"x":1}'),
        connection.notify("n", b"[]"),
        connection.respond(2, b"null"),
        connection.fail(3, RequestError(-1, "no", {"why": "\n"})),
    ]
    assert all(each.endswith(b"\n") and each.count(b"\n") == 1 for each in written)
    assert events(written) == [
        Request(1, "m", UNSET),
        Request("a", "m", b'{"x":1}'),
        Notification("n", b"[]"),
        Response(2, b"null"),
        Failure(3, b'{"code":-1,"message":"no","data":{"why":"\\n"}}'),
    ]


def test_the_first_reader_of_a_line_may_keep_it() -> None:
    reading = Connection(first=lambda line: len(line) if b"ping" in line else None)
    found = []
    for event in reading.receive(PING + b"\n" + ANSWER + b"\n" + PING + b"\n"):
        found.append((event, reading.size))
        if event == Response(1, b"{}"):
            reading.first = None
    assert found == [
        (len(PING), len(PING)),
        (Response(1, b"{}"), len(ANSWER)),
        (Notification("ping"), len(PING)),
    ]


# ---- parsed messages

ids = st.integers(-(2**40), 2**40) | texts
whole = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.builds(Request, ids, texts, whole)
    | st.builds(Notification, texts, whole)
    | st.builds(Response, ids, whole)
    | st.builds(Failure, ids, whole)
)
def test_a_message_is_read_as_it_was_written(message: Any) -> None:
    assert read_message(codec.parse(codec.encode(write_message(message)))) == message


@given(envelopes | values)
def test_no_parsed_json_makes_it_raise(value: Any) -> None:
    message = read_message(value)
    assert message is None or value.keys() >= write_message(message).keys() - {"jsonrpc"}


def test_a_line_over_the_limit_is_reported_with_its_size() -> None:
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
    (found,) = lines.feed(b"\n")
    assert isinstance(found, LineTooLong)
    assert found.size == 100_000


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


# ---- requests that wait


@given(st.dictionaries(ids, st.text(), max_size=8), st.randoms())
def test_every_answer_takes_its_own_request_once(requests: dict[Any, str], random: Any) -> None:
    pending: Pending[tuple[Any, str]] = Pending()
    for identity, value in requests.items():
        pending.add(identity, (identity, value))
    assert list(pending) == list(requests.items())
    order = list(requests)
    random.shuffle(order)
    for identity in order:
        assert pending.get(identity) == (identity, requests[identity])
        assert pending.take(identity) == (identity, requests[identity])
    assert len(pending) == 0


@pytest.mark.parametrize(("sent", "answered"), [(1, "1"), ("1", 1), ("17", 17), (0, "0")])
def test_an_id_may_come_back_as_another_type(sent: Any, answered: Any) -> None:
    pending: Pending[str] = Pending()
    pending.add(sent, "asked")
    assert pending.get(answered) == "asked"
    assert pending.take(answered) == "asked"
    assert pending.take(sent) is None


def test_the_exact_id_is_found_first() -> None:
    pending: Pending[str] = Pending()
    pending.add("1", "text")
    pending.add(1, "number")
    assert pending.take(1) == "number"
    assert pending.take(1) == "text"


@pytest.mark.parametrize("identity", [None, 2, "2", "one", "9" * 100, "-1", "\u0661x", ""])
def test_an_id_that_was_not_sent_finds_nothing(identity: Any) -> None:
    pending: Pending[str] = Pending()
    pending.add(1, "asked")
    assert pending.get(identity) is None
    assert pending.take(identity) is None
    assert not pending.is_late(identity)
    assert len(pending) == 1


def test_the_answer_to_a_request_that_was_given_up_is_late_once() -> None:
    pending: Pending[str] = Pending()
    pending.add(1, "asked")
    assert pending.give_up(1) == "asked"
    assert pending.give_up(1) is None
    assert pending.take(1) is None
    assert pending.is_late("1")
    assert not pending.is_late(1)


def test_only_so_many_requests_that_were_given_up_are_remembered() -> None:
    pending: Pending[int] = Pending()
    for number in range(GIVEN_UP + 1):
        pending.add(number, number)
        pending.give_up(number)
    assert not pending.is_late(0)
    assert pending.is_late(1)


def test_all_that_waits_can_be_settled_at_once() -> None:
    pending: Pending[str] = Pending()
    pending.add(1, "a")
    pending.add(2, "b")
    assert pending.clear() == ["a", "b"]
    assert pending.clear() == []
