"""The answers to a batch, gathered until the last of them is there.

JSON-RPC: a batch with requests is answered by one array with all responses, in any order; an entry
that is no message by an error without an id among them; a batch of notifications by nothing. A
request leads its answer to its batch, so equal ids inside one batch, or inside and outside of it,
do not mix. Nothing here waits or writes: a method returns the line that is due, `b""` if none is.
"""

from collections import Counter
from collections.abc import Iterator

from msgspec import UNSET

from twofold.rpc import connection
from twofold.rpc.connection import (
    Batch,
    Failure,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    read_line,
)
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.frames import LIMIT


class Gathering:
    """The answers to one batch.

    `strict`: a batch in which nothing is a message gets an answer, too. A client is not strict, for
    an agent may print an array to its log. Answers of more than `limit` bytes are not gathered: the
    requests behind them get an error.
    """

    def __init__(self, *, strict: bool, limit: int = LIMIT) -> None:
        self._strict = strict
        self._limit = limit
        self._waiting: Counter[RequestId] = Counter()
        self._left = 0
        self._answers: list[bytes] = []
        self._size = 0
        self._reading = True

    @property
    def open(self) -> bool:
        """Whether an answer is still missing."""
        return self._reading or self._left > 0

    def read(self, batch: Batch) -> Iterator[Message | Malformed]:
        """The entries one by one; requests get their batch, and what is no message is refused."""
        for event in batch:
            if isinstance(event, Malformed):
                self._answers.append(event.refusal.rstrip())
                event.refusal = b""
            else:
                self._strict = True
                if isinstance(event, Request):
                    self._waiting[event.id] += 1
                    self._left += 1
                    event.batch = self
            yield event

    def end(self) -> bytes:
        """All entries were read."""
        self._reading = False
        return self._due()

    def add(self, identity: RequestId, answer: bytes) -> bytes:
        """One of its requests was answered with this line."""
        if not self._waiting[identity]:
            return b""  # a second answer
        self._waiting[identity] -= 1
        self._left -= 1
        if self._size + len(answer) > self._limit:
            answer = connection.fail(identity, _too_long(self._limit))
        self._size += len(answer)
        self._answers.append(answer.rstrip())
        return self._due()

    def abandon(self, error: RequestError) -> bytes:
        """The requests that are left will not be answered: they get `error`."""
        due = b""
        for identity in list(self._waiting.elements()):
            due = self.add(identity, connection.fail(identity, error))
        return due

    def _due(self) -> bytes:
        if self.open or not self._answers or not self._strict:
            return b""
        answers, self._answers = self._answers, []
        return b"[" + b",".join(answers) + b"]\n"


def _too_long(limit: int) -> RequestError:
    reason = f"the answers to this batch are longer than {limit} bytes: ask one by one"
    return RequestError(INTERNAL_ERROR, "Batch too long", {"reason": reason})


# ---- batches of a peer whose messages are passed on --------------------------------------------

_OURS = "twofold-batch-"


class Apart:
    """Takes batches apart: each entry becomes a line, and the answers to them become one again.

    A request gets an id that is used only once, by which its answer is found in what is sent.
    """

    def __init__(self, *, strict: bool, limit: int = LIMIT) -> None:
        self._strict = strict
        self._limit = limit
        self.open: dict[RequestId | None, Request] = {}
        """Requests without an answer, by the id that they were given.

        If there are any, what is sent has to go through `sent`.
        """
        self._given: dict[RequestId, str] = {}  # the ids that open requests were given, by theirs
        self._number = 0
        self._rest = bytearray()
        """Of what is sent, a line that is not complete."""

    def gathering(self) -> Gathering:
        """For the answers to a new batch."""
        return Gathering(strict=self._strict, limit=self._limit)

    def line(self, event: Message) -> bytes:
        """An entry of a batch as a line of its own."""
        if not isinstance(event, Request):
            return _line(event)
        self._number += 1
        identity = f"{_OURS}{self._number}"
        self.open[identity] = event
        self._given[event.id] = identity
        return _line(Request(identity, event.method, event.params))

    def id_of(self, identity: RequestId) -> RequestId:
        """The id that an open request of a batch was given; any other id as it is."""
        return self._given.get(identity, identity)

    def sent(self, data: bytes) -> bytes:
        """What to send instead of `data`, in which answers may be that have to wait."""
        self._rest += data
        end = self._rest.rfind(b"\n") + 1
        if not end and len(self._rest) <= self._limit:
            return b""
        lines = bytes(self._rest[:end] or self._rest).splitlines(keepends=True)
        del self._rest[: sum(map(len, lines))]
        passed = b"".join(map(self._gathered, lines))
        if self.open:
            return passed
        rest, self._rest = self._rest, bytearray()
        return passed + rest

    def abandon(self, error: RequestError) -> bytes:
        """The requests that are left will not be answered: they get `error`."""
        due = [request.batch.abandon(error) for request in self.open.values()]
        self.open.clear()
        self._given.clear()
        return b"".join([bytes(self._rest), *due])

    def _gathered(self, line: bytes) -> bytes:
        if _OURS.encode() not in line:
            return line
        events = list(_entries(line))
        if not any(self._request_of(event) for event in events):
            return line
        return b"".join(map(self._gathered_one, events))

    def _request_of(self, event: Message | Malformed) -> Request | None:
        return self.open.get(event.id) if isinstance(event, Response | Failure) else None

    def _gathered_one(self, event: Message | Malformed) -> bytes:
        if isinstance(event, Malformed):
            return b""
        request = self._request_of(event)
        if request is None or not isinstance(event, Response | Failure):
            return _line(event)
        del self.open[event.id]
        if self._given.get(request.id) == event.id:
            del self._given[request.id]
        event.id = request.id
        due: bytes = request.batch.add(request.id, _line(event))
        return due


def _entries(line: bytes) -> Iterator[Message | Malformed]:
    for event in read_line(line):
        if isinstance(event, Batch):
            yield from event
        else:
            yield event


def _line(message: Message) -> bytes:
    if isinstance(message, Response):
        return connection.respond(message.id, message.result)
    if isinstance(message, Failure):
        return connection.failed(message.id, message.error)
    params = None if message.params is UNSET else message.params
    if isinstance(message, Notification):
        return connection.notify(message.method, params)
    return connection.request(message.id, message.method, params)
