"""Server-sent events, without any I/O: bytes in pieces that end anywhere, events out.

Any split of the bytes gives the same events. Comments and fields without a meaning here are
ignored, and an event that the end of the stream cuts off is none. Memory is bounded: an event that
is longer than the limit raises.
"""

from collections.abc import Iterator

from msgspec import Struct

from twofold.errors import PeerError

MEDIA_TYPE = "text/event-stream"
LONGEST_ID = 1024
"""How many bytes the id of an event may have; a longer one is ignored."""
_BOM = b"\xef\xbb\xbf"


class EventTooLong(PeerError):
    """A server sent an event longer than we accept."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The server sent an event of more than {limit} bytes.")
        self.limit = limit


class Event(Struct, frozen=True):
    """One event."""

    data: bytes
    """The data; between several lines of it is a line feed."""


class EventStream:
    """Reads one stream of events.

    Attributes:
        last_id: The id of the last event that had one, to be sent when the stream is opened again.
        commented: Whether there was a comment: the server sends them to show that it is there.
        retry: After how many seconds the server wants a new connection; None if it sent none.
    """

    def __init__(self, limit: int, last_id: bytes = b"") -> None:
        self.last_id = last_id
        self.retry: float | None = None
        self.commented = False
        self._limit = limit
        self._line = bytearray()
        self._data: bytearray | None = None
        self._id = last_id
        self._first = True
        self._after_return = False

    @property
    def whole(self) -> bool:
        """Whether nothing of an event was read whose end is missing."""
        return not self._line and self._data is None

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that `data` completes, one by one.

        Raises:
            EventTooLong: An event is longer than the limit.
        """
        if self._after_return and data:
            # a line feed after a carriage return belongs to the same end of a line
            data = data.removeprefix(b"\n")
            self._after_return = False
        self._after_return = data.endswith(b"\r") or (self._after_return and not data)
        *ends, rest = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for end in ends:
            self._add(end)
            line, self._line = bytes(self._line), bytearray()
            if self._first:
                self._first = False
                line = line.removeprefix(_BOM)
            if line:
                self._read(line)
            elif (event := self._take()) is not None:
                yield event
        self._add(rest)

    def _add(self, part: bytes) -> None:
        if len(self._data or b"") + len(self._line) + len(part) > self._limit:
            raise EventTooLong(self._limit)
        self._line += part

    def _read(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if not field:
            self.commented = True
            return
        value = value.removeprefix(b" ")
        if field == b"data":
            if self._data is None:
                self._data = bytearray(value)
            else:
                self._data += b"\n" + value
        elif field == b"id" and b"\0" not in value and len(value) <= LONGEST_ID:
            self._id = value
        elif field == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = int(value) / 1000

    def _take(self) -> Event | None:
        self.last_id = self._id
        data, self._data = self._data, None
        return Event(bytes(data)) if data is not None else None
