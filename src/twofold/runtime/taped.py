"""A transport that writes down what passes: the whole conversation, as it was.

A tape is JSON Lines: a header with the format and whatever the caller wants to say of the
conversation, then a record for each line in either direction with its number and time, the raw
message in the field `message`, or as text where it is no JSON. `twofold show`, `fold` and `convert`
read it.
"""

import time
from collections.abc import Callable
from typing import IO, Any, Literal, TypeAlias

from twofold.rpc.frames import Lines, LineTooLong
from twofold.runtime.transport import Receiver, Transport
from twofold.wire import codec
from twofold.wire.base import Malformed

FORMAT = "twofold.tape"

Direction: TypeAlias = Literal["c2a", "a2c"]
Write: TypeAlias = Callable[[bytes], None]


class Tape:
    """Where a conversation is written down, line by line as it happens."""

    def __init__(self, write: Write, clock: Callable[[], float] = time.time, **about: Any) -> None:
        self._write = write
        self._clock = clock
        self._number = 0
        self._record("header", format=FORMAT, version=1, **about)

    @classmethod
    def to(cls, file: IO[bytes], **about: Any) -> "Tape":
        """A tape in a file; what was said is there as soon as it was said."""

        def write(line: bytes) -> None:
            file.write(line)
            file.flush()

        return cls(write, **about)

    def message(self, direction: Direction, line: bytes) -> None:
        """A line of the conversation."""
        try:
            codec.parse(line)
        except Malformed:
            self._record(direction, text=line.decode(errors="replace"))
            return
        # the message stands there byte for byte, not as it would be written again
        head = codec.encode(self._head(direction))
        self._write(head[:-1] + b',"message":' + line.strip() + b"}\n")

    def stderr(self, data: bytes) -> None:
        """Something that the agent wrote to its standard error."""
        self._record("stderr", text=data.decode(errors="replace"))

    def note(self, kind: str, **facts: Any) -> None:
        """Anything else that belongs to the story, such as how the agent ended."""
        self._record(kind, **facts)

    def _record(self, kind: str, **facts: Any) -> None:
        self._write(codec.encode({**self._head(kind), **facts}) + b"\n")

    def _head(self, kind: str) -> dict[str, Any]:
        self._number += 1
        return {"seq": self._number, "time": round(self._clock(), 6), "dir": kind}


class Taped:
    """A transport to an agent, and the tape of what passes over it."""

    def __init__(self, transport: Transport, tape: Tape) -> None:
        self._transport = transport
        self._tape = tape
        self._sent, self._came = Lines(), Lines()

    def start(self, receiver: Receiver) -> None:
        self._transport.start(_Listening(receiver, self._hear))

    def write(self, data: bytes) -> None:
        self._put("c2a", self._sent, data)
        self._transport.write(data)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    async def close(self) -> None:
        await self._transport.close()

    def _hear(self, data: bytes) -> None:
        self._put("a2c", self._came, data)

    def _put(self, direction: Direction, lines: Lines, data: bytes) -> None:
        for line in lines.feed(data):
            if isinstance(line, LineTooLong):
                self._tape.note(direction, text=str(line))
            else:
                self._tape.message(direction, line)


class _Listening:
    """A receiver that someone else hears, too."""

    def __init__(self, receiver: Receiver, hear: Write) -> None:
        self._receiver = receiver
        self._hear = hear
        self.pause_writing = receiver.pause_writing
        self.resume_writing = receiver.resume_writing

    def received(self, data: bytes) -> None:
        self._hear(data)
        self._receiver.received(data)

    def ended(self, error: Exception | None) -> None:
        self._receiver.ended(error)
