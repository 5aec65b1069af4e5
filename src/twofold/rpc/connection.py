"""A JSON-RPC 2.0 conversation, without any I/O.

Bytes in, events out; intents in, bytes out. Nothing here waits, and nothing the peer sends makes
it raise: what is not JSON-RPC becomes a `Malformed` event, and the conversation goes on. Params,
results and errors are passed on as the JSON they came in, for whoever knows their types.

Batches are read, each entry by itself, and never written. Programs write other things than
messages to their output: logs are told of and passed over, and a message that follows the title
of a terminal on its line is still found.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from twofold.rpc.errors import INVALID_REQUEST, RequestError
from twofold.rpc.frames import LIMIT, Lines, LineTooLong
from twofold.rpc.messages import Failure, Message, Notification, Request, RequestId, Response

_SHOWN = 200


class Malformed(Struct):
    """Something that is not a message."""

    reason: str
    line: bytes
    """The beginning of what came."""
    refusal: bytes = b""
    """The answer it must get, if it was meant as a request."""


Event: TypeAlias = Message | Malformed


class Connection:
    """Reads what a peer sends. `first` may read a line by itself, before anyone else looks."""

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
        """No more bytes will come: what the last line says, if no newline ended it."""
        return self._events(self._lines.end())

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
                yield from _unreadable(str(line), line.head)


# ---- reading ---------------------------------------------------------------------------------


class _Envelope(Struct, gc=False):
    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_envelope = msgspec.json.Decoder(_Envelope).decode
_batch = msgspec.json.Decoder(list[Raw]).decode
_NOT_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)


def read_line(line: bytes) -> list[Event]:
    """What one line says."""
    try:
        return [_event(_envelope(line), line)]
    except _NOT_JSON:
        pass
    try:
        entries = _batch(line)
    except _NOT_JSON:
        return _search(line)
    if not entries:
        return [Malformed("an empty batch", line[:_SHOWN])]
    return [event for entry in entries for event in _entry(bytes(entry))]


def _entry(entry: bytes) -> list[Event]:
    if entry.lstrip().startswith(b"["):
        return [Malformed("a batch inside a batch", entry[:_SHOWN])]
    return read_line(entry)


def _event(envelope: _Envelope, line: bytes) -> Event:
    if envelope.jsonrpc != "2.0":  # a log in JSON may have an id and a method, too
        return Malformed('JSON that is not JSON-RPC 2.0 (no "jsonrpc": "2.0")', line[:_SHOWN])
    identity, method = envelope.id, envelope.method
    if isinstance(method, str):
        params = UNSET if envelope.params is UNSET else bytes(envelope.params)
        if identity is UNSET:
            return Notification(method, params)
        if _is_id(identity):
            return Request(identity, method, params)
        return _refused("a request whose id is neither a string nor an integer", line, identity)
    if method is not UNSET:
        return _refused("a request whose method is not a string", line, identity)
    if not _is_id(identity) and identity is not None:
        return Malformed("a message without a method and without an id", line[:_SHOWN])
    return _answer(envelope, identity, line)


def _answer(envelope: _Envelope, identity: RequestId | None, line: bytes) -> Event:
    error = envelope.error
    if error is not UNSET and (bytes(error) != b"null" or envelope.result is UNSET):
        return Failure(identity, bytes(error))
    if envelope.result is not UNSET:
        return Response(identity, bytes(envelope.result))
    if identity is None:
        return Malformed("an answer that answers nothing", line[:_SHOWN])
    # it names a request: whoever asked must not wait for a better answer
    return Failure(identity, b"null")


def _refused(reason: str, line: bytes, identity: Any) -> Malformed:
    # JSON-RPC: an id that cannot be used is answered with null
    echoed = identity if isinstance(identity, int | float | str) else None
    refusal = fail(echoed, RequestError(INVALID_REQUEST, "Invalid request", {"reason": reason}))
    return Malformed(reason, line[:_SHOWN], refusal)


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


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


def _search(line: bytes) -> list[Event]:
    """The messages of a line that is not JSON as it stands."""
    bare = _bare(line)
    if bare != line and bare[:1] in (b"{", b"["):
        found = read_line(bare)
        if not all(isinstance(event, Malformed) for event in found):
            return [Malformed("control characters on the line of a message", line[:_SHOWN]), *found]
    try:
        # escapes and bytes that are no text: msgspec refuses them, and peers do send them
        value = _decoder.decode(line.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        return _unreadable("not JSON", line)
    entries = value if isinstance(value, list) else [value]
    return [_odd(entry, line) for entry in entries]


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
        return Raw(json.dumps(value[name]).encode()) if name in value else UNSET

    envelope = _Envelope(
        value.get("jsonrpc", UNSET),
        value.get("id", UNSET),
        value.get("method", UNSET),
        raw("params"),
        raw("result"),
        raw("error"),
    )
    return _event(envelope, line)


_HEAD = re.compile(
    rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(-?\d{1,18}|"[^"\\\x00-\x1f]{1,128}")\s*'
    rb',\s*"(result|error|method)"'
)


def _unreadable(reason: str, line: bytes) -> list[Event]:
    """A line that cannot be read; if its beginning names a request, nobody waits for it."""
    head = _HEAD.match(line)
    if head is None:
        return [Malformed(reason, line[:_SHOWN])]
    identity = msgspec.json.decode(head[1], type=int | str)
    if head[2] == b"method":
        return [_refused(reason, line, identity)]
    error = {"code": INVALID_REQUEST, "message": f"The answer cannot be read: {reason}"}
    return [Malformed(reason, line[:_SHOWN]), Failure(identity, _encode(error))]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)


# ---- writing ---------------------------------------------------------------------------------

Encode: TypeAlias = Callable[[Any], bytes]
_encode = msgspec.json.Encoder().encode


def request(identity: RequestId, method: str, params: bytes | None) -> bytes:
    """A request as a line; `params` is JSON."""
    rest = b"" if params is None else b',"params":' + params
    head = b'{"jsonrpc":"2.0","id":%b,"method":%b' % (_encode(identity), _encode(method))
    return head + rest + b"}\n"


def notify(method: str, params: bytes | None) -> bytes:
    """A notification as a line; `params` is JSON."""
    rest = b"" if params is None else b',"params":' + params
    return b'{"jsonrpc":"2.0","method":%b' % _encode(method) + rest + b"}\n"


def respond(identity: RequestId, result: bytes) -> bytes:
    """The answer to a request as a line; `result` is JSON."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (_encode(identity), result)


def fail(identity: Any, error: RequestError) -> bytes:
    """The refusal of a request as a line."""
    value: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not UNSET:
        value["data"] = error.data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (_encode(identity), _encode(value))
