"""A JSON-RPC 2.0 conversation, without any I/O.

Bytes in, events out; intents in, bytes out. Nothing here waits, and nothing the peer sends makes
it raise: what is not JSON-RPC becomes a `Malformed` event, and the conversation goes on. Params,
results and errors are returned as raw JSON: the caller decodes them. `Pending` finds the request
that an answer is for.

A batch is one event that holds the others; `rpc.batches` gathers the answers to it. Programs write
other things than messages to their output: logs are reported and passed over, and a message that
follows the title of a terminal on its line is still found. Whatever a line holds, reading it takes
a small multiple of its length in memory.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import takewhile
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from twofold.rpc.errors import INVALID_REQUEST, PARSE_ERROR, RequestError
from twofold.rpc.frames import LIMIT, Lines, LineTooLong

ENTRIES = 4096
"""How many entries a batch may have."""
GIVEN_UP: Final = 1024
"""How many requests that were given up are remembered, so that a late answer is recognised."""

_SHOWN = 200
_LONGEST_ID = 20  # digits of a number that we would use as an id

T = TypeVar("T")

# ---- messages -------------------------------------------------------------------------------

RequestId: TypeAlias = int | str


class Request(Struct):
    """A message that wants an answer."""

    id: RequestId
    method: str
    params: Any = UNSET
    batch: Any = UNSET
    """The `Gathering` of its batch, which collects its answer; unset outside of a batch."""


class Notification(Struct):
    """A message that gets no answer."""

    method: str
    params: Any = UNSET


class Response(Struct):
    """The answer to a request."""

    id: RequestId | None
    result: Any


class Failure(Struct):
    """The answer to a request that failed."""

    id: RequestId | None
    error: Any


Message: TypeAlias = Request | Notification | Response | Failure


def read_message(value: Any) -> Message | None:
    """The message that parsed JSON is; None if it is not JSON-RPC."""
    if not isinstance(value, dict):
        return None
    identity: Any = value.get("id")
    method = value.get("method")
    if isinstance(method, str):
        params = value.get("params", UNSET)
        if "id" not in value:
            return Notification(method, params)
        return Request(identity, method, params) if _is_id(identity) else None
    if not _is_id(identity) and ("id" not in value or identity is not None):
        return None
    if "result" in value:
        return Response(identity, value["result"])
    if "error" in value:
        return Failure(identity, value["error"])
    return None


def write_message(message: Message) -> dict[str, Any]:
    """A message as JSON-RPC 2.0 writes it."""
    value: dict[str, Any] = {"jsonrpc": "2.0"}
    for name in message.__struct_fields__:
        field = getattr(message, name)
        if field is not UNSET:
            value[name] = field
    return value


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


# ---- events ---------------------------------------------------------------------------------


class Malformed(Struct):
    """Something that is not a message."""

    reason: str
    line: bytes
    """The beginning of the line."""
    refusal: bytes = b""
    """The answer it gets, if it was meant as a message."""
    maybe_log: bool = False
    """Only an agent sends the refusal: what an agent printed may be a line of its log."""


class Batch(Struct):
    """Several messages on one line. Iterating reads them one by one."""

    entries: tuple[Raw, ...]

    def __iter__(self) -> Iterator[Message | Malformed]:
        for entry in self.entries:
            yield _entry(bytes(entry))


Event: TypeAlias = Message | Malformed | Batch


class Connection:
    """Reads what a peer sends. `first` is called before the parser, and may read a line itself."""

    def __init__(
        self, *, limit: int = LIMIT, first: Callable[[bytes], Any | None] | None = None
    ) -> None:
        self.first = first
        self.size = 0
        """How long the line of the last event is."""
        self._lines = Lines(limit)

    def receive(self, data: bytes) -> Iterator[Any]:
        """The events that `data` completes, one by one; whatever `first` made is one of them."""
        return self._events(self._lines.feed(data))

    def end(self) -> Iterator[Any]:
        """The stream ended: the events of the last line, if no newline ended it.

        If the end cut that line off it is no message: half an answer is not an answer.
        """
        last = self._lines.end()
        if all(map(is_whole, last)):
            return self._events(last)
        return map(cut_off, last)

    def _events(self, lines: list[bytes | LineTooLong]) -> Iterator[Any]:
        for line in lines:
            if isinstance(line, bytes):
                self.size = len(line)
                if self.first is not None:  # asked every time: an event may change it
                    made = self.first(line)
                    if made is not None:
                        yield made
                        continue
                yield from read_line(line)
            else:
                yield from unreadable(str(line), line.head, line.tail)


# ---- reading ---------------------------------------------------------------------------------


# anything else is read with care: an array of any length may be where an id should be
_Scalar: TypeAlias = str | int | float | bool | None


class _Envelope(Struct, gc=False):
    jsonrpc: _Scalar | UnsetType = UNSET
    id: _Scalar | UnsetType = UNSET
    method: _Scalar | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_envelope = msgspec.json.Decoder(_Envelope).decode
_skip = msgspec.json.Decoder(Raw).decode  # makes no objects of it
_NOT_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)


@cache
def _batch() -> Callable[[bytes], tuple[Raw, ...]]:
    """Decodes an array of at most `ENTRIES` entries.

    A struct of that many fields stops at the first entry too many. A list would be made first and
    counted later: 64 MiB of `{},` would be 22 million objects.
    """
    fields = [(f"entry_{number}", Raw | UnsetType, UNSET) for number in range(ENTRIES)]
    kind = msgspec.defstruct("Entries", fields, array_like=True, forbid_unknown_fields=True)
    decode = msgspec.json.Decoder(kind).decode

    def entries(line: bytes) -> tuple[Raw, ...]:
        decoded = msgspec.structs.astuple(decode(line))
        return tuple(takewhile(lambda entry: entry is not UNSET, decoded))

    return entries


def read_line(line: bytes) -> Iterable[Event]:
    """The events of one line."""
    try:
        return [_event(_envelope(line), line)]
    except _NOT_JSON:
        pass
    if line.lstrip()[:1] != b"[":
        return _search(line)
    try:
        entries = _batch()(line)
    except msgspec.ValidationError:
        return [_too_many(line)]
    except _NOT_JSON:
        return _search(line)
    return [_batch_of(entries, line)]


def _batch_of(entries: tuple[Raw, ...], line: bytes) -> Event:
    return Batch(entries) if entries else _no_message("an empty batch", line)


def _too_many(line: bytes) -> Malformed:
    return _no_message(f"a batch of more than {ENTRIES} entries: send fewer at once", line)


def _entry(entry: bytes) -> Message | Malformed:
    if entry[:1] == b"[":
        return _no_message("a batch inside a batch", entry)
    reason = "JSON that is not a message"
    for event in read_line(entry):
        if not isinstance(event, Malformed | Batch):
            return event
        if isinstance(event, Malformed):
            if event.refusal:
                return event
            reason = event.reason
    return _no_message(reason, entry)


def _event(envelope: _Envelope, line: bytes) -> Event:
    if envelope.jsonrpc != "2.0":  # a log in JSON may have an id and a method, too
        return _no_message('JSON that is not JSON-RPC 2.0 (no "jsonrpc": "2.0")', line)
    identity, method = _as_id(envelope.id), envelope.method
    if isinstance(method, str):
        params = UNSET if envelope.params is UNSET else bytes(envelope.params)
        if params == b"null":
            params = UNSET  # JSON-RPC: an object, a list, or left out
        if identity is UNSET:
            return Notification(method, params)
        if _is_id(identity):
            return Request(identity, method, params)
        return _refused("a request whose id is neither a string nor an integer", line, identity)
    if method is not UNSET:
        return _refused("a request whose method is not a string", line, identity)
    if not _is_id(identity) and identity is not None:
        return _no_message("a message without a method and without an id", line)
    return _answer(envelope, identity, line)


def _answer(envelope: _Envelope, identity: RequestId | None, line: bytes) -> Event:
    error = envelope.error
    if error is not UNSET and (bytes(error) != b"null" or envelope.result is UNSET):
        return Failure(identity, bytes(error))
    if envelope.result is not UNSET:
        return Response(identity, bytes(envelope.result))
    if identity is None:
        return _no_message("an answer that answers nothing", line)
    # it names a request: its sender must not wait for a better answer
    return Failure(identity, b"null")


def _refused(
    reason: str, line: bytes, identity: Any, code: int = INVALID_REQUEST, *, maybe_log: bool = False
) -> Malformed:
    # JSON-RPC: an id that cannot be used is answered with null
    echoed = identity if _is_id(identity) or isinstance(identity, float) else None
    message = "Parse error" if code == PARSE_ERROR else "Invalid request"
    refusal = fail(echoed, RequestError(code, message, {"reason": reason}))
    return Malformed(reason, line[:_SHOWN], refusal, maybe_log)


def _no_message(reason: str, line: bytes, code: int = INVALID_REQUEST) -> Malformed:
    """JSON, or meant as JSON, that names no request."""
    return _refused(reason, line, None, code, maybe_log=True)


def _as_id(value: Any) -> Any:
    # to some languages every number is a float: 1.0 is the request 1
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_whole(last: bytes | LineTooLong) -> bool:
    """Whether a line that no newline ended is complete."""
    if isinstance(last, LineTooLong):
        return False
    bare = _bare(last.strip())
    if bare[:1] not in (b"{", b"["):
        return True  # noise
    try:
        _skip(bare)
    except _NOT_JSON:  # cut off, or text that msgspec refuses
        read = Request | Notification | Response | Batch
        return any(isinstance(event, read) for event in read_line(bare))
    return True


def cut_off(last: bytes | LineTooLong) -> Malformed:
    """What is reported of a line that the end of the stream cut off."""
    head = last.head if isinstance(last, LineTooLong) else last
    return Malformed("the end of the stream cut the line off", head[:_SHOWN])


# ---- what msgspec cannot read ----------------------------------------------------------------

# Titles, colours and other control of a terminal. Words before a message are not passed over: a
# log that quotes a message must not be taken for it.
_CONTROL = b"(?>%b)++" % b"|".join(  # atomic, for a peer may try to make it backtrack
    [
        rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)",  # a title
        rb"\x1b\[[0-?]*[ -/]*[@-~]",  # a colour, the cursor
        rb"\x1b[ -/]*[0-~]",
        rb"[\x00-\x20\x7f]",
        rb"\xef\xbb\xbf",  # a byte order mark
    ]
)
_NOISE = re.compile(_CONTROL)


# What the standard library makes of JSON: at most so many bytes of memory for one value, which a
# comma or a bracket begins, and so much memory for one line beside a multiple of its length.
_VALUE = 256
_ROOM = 16 * 1024 * 1024
_FACTOR = 8


def _search(line: bytes) -> Iterable[Event]:
    """The messages of a line that is not JSON as a whole."""
    line = line.strip()
    bare = _bare(line)
    if bare != line and bare[:1] in (b"{", b"["):
        found = list(read_line(bare))
        if all(isinstance(event, Malformed) for event in found):
            return found
        return [Malformed("control characters on the line of a message", line[:_SHOWN]), *found]
    values = line.count(b",") + line.count(b"[") + line.count(b"{")
    if values * _VALUE > _ROOM + _FACTOR * len(line):
        return unreadable("not JSON, or too many values to look for what is wrong", line, line)
    try:
        # escapes and bytes that are no text: msgspec refuses them, and peers do send them
        value = _decoder.decode(line.decode(errors="surrogateescape"))
        if not isinstance(value, list):
            return [_odd(value, line)]
        if len(value) > ENTRIES:
            return [_too_many(line)]
        return [_batch_of(tuple(map(_raw, value)), line)]
    except (ValueError, RecursionError):
        return unreadable("not JSON", line, line, PARSE_ERROR)


def _bare(line: bytes) -> bytes:
    """A line without the control characters at its ends."""
    before = _NOISE.match(line)
    start = before.end() if before else 0
    end = max(line.rfind(b"}"), line.rfind(b"]")) + 1
    return line[start:end] if start < end and _NOISE.fullmatch(line, end) else line[start:]


def _odd(value: Any, line: bytes) -> Event:
    if not isinstance(value, dict):
        return Malformed("JSON that is not a message", line[:_SHOWN])

    def raw(name: str) -> Raw | UnsetType:
        return _raw(value[name]) if name in value else UNSET

    envelope = _Envelope(  # not as typed: `_event` looks at what they are
        value.get("jsonrpc", UNSET),
        value.get("id", UNSET),
        value.get("method", UNSET),
        raw("params"),
        raw("result"),
        raw("error"),
    )
    return _event(envelope, line)


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value, allow_nan=False).encode())


_MEMBER = rb'"(jsonrpc|id|method)"\s*:\s*("[ !#-\[\]-~]{0,128}"|-?\d{1,18})\s*'
_NAMED = re.compile(_MEMBER)
_FIRST = re.compile(rb'\s*\{\s*((?:%b,\s*)*)"(result|error|params|method)"\s*:' % _MEMBER)
_LAST = re.compile(rb"(?:,\s*%b)+\}\s*\Z" % _MEMBER)
_END = 512  # of either end of a line, where to look for members: over more, a match takes memory
_NOISE_END = 4096  # where a message must begin that follows control characters


def unreadable(
    reason: str, head: bytes, tail: bytes, code: int = INVALID_REQUEST
) -> list[Message | Malformed]:
    """The events of a line that cannot be read; a request that its ends name is answered."""
    bare = _bare(head[:_NOISE_END])[:_END]
    if bare[:1] not in (b"{", b"["):
        return [Malformed(reason, head[:_SHOWN])]
    report = _no_message(reason, head, code)
    first = _FIRST.match(bare)
    if first is None:
        return [report]
    last = _LAST.search(tail[-_END:])
    named = dict(_NAMED.findall(last[0] if last else b"") + _NAMED.findall(first[1]))
    if named.get(b"jsonrpc") != b'"2.0"' or b"id" not in named:
        return [report]
    text = named[b"id"].decode()
    identity: RequestId = text[1:-1] if text.startswith('"') else int(text)
    if b"method" in named or first[4] in (b"params", b"method"):
        return [_refused(reason, head, identity, code)]
    error = {"code": INVALID_REQUEST, "message": f"The answer cannot be read: {reason}"}
    # the answer of a peer: the sender of the request gets the error, and the peer gets none
    return [Malformed(reason, head[:_SHOWN]), Failure(identity, _encode(error))]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)


# ---- writing ---------------------------------------------------------------------------------

_dump = msgspec.json.Encoder().encode


def _encode(value: Any) -> bytes:
    try:
        return _dump(value)
    except UnicodeEncodeError:  # a lone surrogate, which has to be escaped
        return json.dumps(value).encode()


def request(identity: RequestId, method: str, params: bytes | None) -> bytes:
    """A request as a line; `params` is JSON."""
    rest = b"" if params is None else b',"params":' + params
    head = b'{"jsonrpc":"2.0","id":%b,"method":%b' % (_encode(identity), _encode(method))
    return head + rest + b"}\n"


def notify(method: str, params: bytes | None) -> bytes:
    """A notification as a line; `params` is JSON."""
    rest = b"" if params is None else b',"params":' + params
    return b'{"jsonrpc":"2.0","method":%b' % _encode(method) + rest + b"}\n"


def respond(identity: RequestId | None, result: bytes) -> bytes:
    """The answer to a request as a line; `result` is JSON."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (_encode(identity), result)


def fail(identity: Any, error: RequestError, encode: Callable[[Any], bytes] = _encode) -> bytes:
    """The refusal of a request as a line; `encode` writes the data of the error."""
    message = " ".join(error.message.split()) or "Error"  # ERROR-001: one line, and not empty
    value: dict[str, Any] = {"code": error.code, "message": message}
    if error.data is not UNSET:
        value["data"] = error.data
    return failed(identity, encode(value))


def failed(identity: Any, error: bytes) -> bytes:
    """The refusal of a request as a line; `error` is JSON."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (_encode(identity), error)


# ---- the requests that wait for an answer ---------------------------------------------------


class Pending(Generic[T]):
    """A table of requests by their id; `T` is what the sender remembers of one.

    "1" and 1 are the same id, because some peers change the type of an id when they answer. Where
    both are pending, the exact one is found.
    """

    __slots__ = ("_given_up", "_requests")

    def __init__(self) -> None:
        self._requests: dict[RequestId, T] = {}
        self._given_up: dict[RequestId, None] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[T]:
        """What is remembered of the requests that wait, in the order in which they were sent."""
        return iter(list(self._requests.values()))

    def add(self, identity: RequestId, request: T) -> None:
        """A request was sent."""
        self._requests[identity] = request

    def get(self, identity: RequestId | None) -> T | None:
        """A request that waits; None if there is none."""
        key = find_id(self._requests, identity)
        return None if key is None else self._requests[key]

    def take(self, identity: RequestId | None) -> T | None:
        """Remove and return the request that an answer is for; None if there is none."""
        key = identity if identity in self._requests else find_id(self._requests, identity)
        return None if key is None else self._requests.pop(key)

    def give_up(self, identity: RequestId) -> T | None:
        """Remove and return a request whose answer, if it comes, is to be ignored."""
        request = self._requests.pop(identity, None)
        if request is not None:
            self._given_up[identity] = None
            if len(self._given_up) > GIVEN_UP:
                del self._given_up[next(iter(self._given_up))]
        return request

    def is_late(self, identity: RequestId | None) -> bool:
        """Whether an answer is for a request that was given up; true once for each."""
        key = find_id(self._given_up, identity)
        if key is None:
            return False
        del self._given_up[key]
        return True

    def clear(self) -> list[T]:
        """Remove and return all requests that wait."""
        requests = list(self._requests.values())
        self._requests.clear()
        return requests


def find_id(table: dict[RequestId, T], identity: RequestId | None) -> RequestId | None:
    """The id under which a table has a request: the given one, else that of the other type."""
    if identity is None or identity in table:
        return identity
    if isinstance(identity, int):
        other: RequestId = str(identity)
    elif identity.isdecimal() and len(identity) < _LONGEST_ID:
        other = int(identity)
    else:
        return None
    return other if other in table else None
