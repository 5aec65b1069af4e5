"""A transport that records every message that passes through another transport.

A tape is JSON Lines: a header with the format and facts of the caller, then one record with a
number and a time for each message in either direction and for other events. A message is in the
field `message`, byte for byte. The messages of a batch are recorded one by one. A line that is no
message is in `text`, and text around a message in `noise`. `twofold show`, `fold` and `convert`
read tapes. A tape that cannot be written stops; the conversation goes on.
"""

import codecs
import json
import re
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO, Any, Literal, TypeAlias

import msgspec

from twofold.rpc.connection import Batch, Malformed, read_line
from twofold.rpc.frames import LIMIT, Lines, LineTooLong
from twofold.transport.base import Receiver, Transport
from twofold.wire import codec
from twofold.wire.base import Malformed as NotJson

FORMAT = "twofold.tape"
VERSION = 1

Direction: TypeAlias = Literal["c2a", "a2c"]
Write: TypeAlias = Callable[[bytes], None]


class Tape:
    """Writes the records of a conversation; `write` is called with one line at a time."""

    def __init__(self, write: Write, clock: Callable[[], float] = time.time) -> None:
        self.fault: OSError | None = None
        """Why the tape could not be written any further, if so."""
        self._write = write
        self._clock = clock
        self._number = 0
        self._stderr = codecs.getincrementaldecoder("utf-8")(errors="replace")

    @classmethod
    def to(cls, file: IO[bytes], **about: Any) -> "Tape":
        """A tape in a file, flushed after every record; `about` goes into the header."""

        def write(line: bytes) -> None:
            rest = memoryview(line)
            while rest:  # a file without a buffer may take less than it is given
                rest = rest[file.write(rest) :]
            file.flush()

        tape = cls(write)
        tape.note("header", format=FORMAT, version=VERSION, **about)
        return tape

    def line(self, direction: Direction, line: bytes) -> None:
        """Record a line that was sent."""
        messages = _messages(line)
        for noise, message in messages:
            # the bytes of the message are kept, not parsed and encoded again
            facts = {"noise": _text(noise)} if noise else {}
            self._put(self._head(direction, facts)[:-1] + b',"message":' + message + b"}\n")
        if not messages:
            self.note(direction, text=_text(line))

    def stderr(self, data: bytes) -> None:
        """Record output of the agent's standard error."""
        text = self._stderr.decode(data)  # a piece may end in the middle of a character
        if text:
            self.note("stderr", text=text)

    def note(self, kind: str, **facts: Any) -> None:
        """Record any other event, such as how the agent ended."""
        self._put(self._head(kind, facts) + b"\n")

    def _head(self, kind: str, facts: dict[str, Any]) -> bytes:
        self._number += 1
        time = round(self._clock(), 6)
        return codec.encode({"seq": self._number, "time": time, "dir": kind, **facts})

    def _put(self, line: bytes) -> None:
        if self.fault is None:
            try:
                self._write(line)
            except OSError as error:
                self.fault = error


class Taped:
    """A transport to an agent that records on tapes what passes through it."""

    def __init__(self, transport: Transport, *tapes: Tape, line_limit: int = LIMIT) -> None:
        self._transport = transport
        self._tapes = tapes
        self._lines: dict[Direction, Lines] = {
            "c2a": Lines(line_limit),
            "a2c": Lines(line_limit),
        }

    def start(self, receiver: Receiver) -> None:
        self._transport.start(_TapedReceiver(receiver, self))

    def write(self, data: bytes) -> None:
        self.passed("c2a", data)
        self._transport.write(data)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    async def close(self) -> None:
        await self._transport.close()

    def passed(self, direction: Direction, data: bytes) -> None:
        """Record the lines that `data` completes."""
        self._put(direction, self._lines[direction].feed(data))

    def ended(self) -> None:
        """Record the last line of each direction, which no newline ended."""
        for direction, lines in self._lines.items():
            self._put(direction, lines.end())

    def _put(self, direction: Direction, lines: list[bytes | LineTooLong]) -> None:
        for line in lines:
            for tape in self._tapes:
                if isinstance(line, LineTooLong):
                    tape.note(direction, text=str(line))
                else:
                    tape.line(direction, line)


class _TapedReceiver:
    """Records what arrives and passes it on to the receiver."""

    def __init__(self, receiver: Receiver, taped: Taped) -> None:
        self._receiver = receiver
        self._taped = taped
        self.pause_writing = receiver.pause_writing
        self.resume_writing = receiver.resume_writing

    def received(self, data: bytes) -> None:
        self._taped.passed("a2c", data)
        self._receiver.received(data)

    def ended(self, error: Exception | None) -> None:
        self._taped.ended()
        self._receiver.ended(error)


# ---- the messages of a line ------------------------------------------------------------------

_BEGINNING = re.compile(rb"[{\[]")
_TRIES = 8  # a terminal title before the message may hold a bracket, too


def _messages(line: bytes) -> list[tuple[bytes, bytes]]:
    """The messages that a connection would find in a line, each with the noise before it."""
    if not _holds_message(line):
        return []
    for noise, bare in _readings(line.strip()):
        if _is_json(bare):
            entries = _entries(bare) if bare[:1] == b"[" else [bare]
            return [(noise, entry) for entry in entries if _holds_message(entry)]
    return []


def _readings(line: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The line itself, then the line without the noise at its ends: (noise, rest)."""
    yield b"", line
    end = max(line.rfind(b"}"), line.rfind(b"]")) + 1
    for start in islice(_BEGINNING.finditer(line), _TRIES):
        yield line[: start.start()], line[start.start() : end]


def _holds_message(line: bytes) -> bool:
    return any(
        any(map(_is_message, event)) if isinstance(event, Batch) else _is_message(event)
        for event in read_line(line)
    )


def _is_message(event: Any) -> bool:
    return not isinstance(event, Malformed)


def _is_json(data: bytes) -> bool:
    try:
        data.decode()  # msgspec does not check it
        msgspec.json.decode(data, type=msgspec.Raw)  # makes no objects of it
    except UnicodeDecodeError:
        return False
    except msgspec.DecodeError:
        try:
            codec.parse(data)  # a lone surrogate, which msgspec refuses
        except NotJson:
            return False
    return True


def _entries(batch: bytes) -> list[bytes]:
    try:
        return [bytes(entry) for entry in msgspec.json.decode(batch, type=list[msgspec.Raw])]
    except msgspec.DecodeError:
        return [json.dumps(entry).encode() for entry in codec.parse(batch)]


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
