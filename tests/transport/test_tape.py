"""The tape of a conversation: everything that passed, as it was, whatever it was."""

import asyncio
import json
from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.receiver import Recorder
from tests.support.simulated import leaves_nothing, simulate, turns
from twofold.cli.commands import commands
from twofold.transport.memory import memory_pair
from twofold.transport.tape import Tape, Taped

Json = dict[str, Any]

REQUEST = b'{"jsonrpc":"2.0", "id":1,"method":"x" , "params":{"a":1.0,"a":2}}'
UPDATE = '{"jsonrpc":"2.0","method":"session/update","params":{"größe":"\U0001f469"}}'.encode()
RESULT = b'{"id":1,"jsonrpc":"2.0","result":{"half":"\\ud800"}}'
MESSAGES = [REQUEST, UPDATE, RESULT]
NOISE = [
    b"null",
    b"[]",
    b'"a string"',
    b"[info] a log line",
    b'{"level":"info","message":"a log in JSON"}',
    b'a log that quotes {"jsonrpc":"2.0","method":"x"}',
    b'{"jsonrpc":"2.0","method":"x","params":',
    b'{"jsonrpc":"2.0","method":"x","params":"\xff"}',
    b"\xff\xfe no text",
]


def taped(came: Sequence[bytes], sent: Sequence[bytes] = ()) -> tuple[list[bytes], bytes, bytes]:
    """The lines of a tape when `came` comes and `sent` is sent; what both ends got."""
    lines: list[bytes] = []

    async def main() -> tuple[bytes, bytes]:
        near, far = memory_pair()
        transport = Taped(near, Tape(lines.append, clock=lambda: 5.0))
        ours, theirs = Recorder(), Recorder()
        transport.start(ours)
        far.start(theirs)
        for piece in came:
            far.write(piece)
            await turns()
        for piece in sent:
            transport.write(piece)
            await turns()
        await far.close()
        await turns()
        await transport.close()
        await turns()
        assert len(ours.errors) == len(theirs.errors) == 1
        return bytes(ours.data), bytes(theirs.data)

    ours, theirs = simulate(main())
    return lines, ours, theirs


def read(lines: list[bytes]) -> list[Json]:
    return [json.loads(line) for line in lines]


# ---- what is recorded -------------------------------------------------------------------------


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_recorded_byte_for_byte(message: bytes) -> None:
    lines, ours, theirs = taped([message + b"\r\n"], [message + b"\n"])
    assert lines == [
        b'{"seq":1,"time":5.0,"dir":"a2c","message":' + message + b"}\n",
        b'{"seq":2,"time":5.0,"dir":"c2a","message":' + message + b"}\n",
    ]
    assert (ours, theirs) == (message + b"\r\n", message + b"\n")


@pytest.mark.parametrize("noise", NOISE)
def test_a_line_that_is_no_message_is_recorded_as_text(noise: bytes) -> None:
    lines, _, _ = taped([noise + b"\n"])
    text = noise.decode(errors="replace")
    assert read(lines) == [{"seq": 1, "time": 5.0, "dir": "a2c", "text": text}]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\x1b]0;a title\x07", b""),
        (b"\x1b]0;a {title}\x07", b"\x1b[0m"),
        (b"\xef\xbb\xbf", b""),
        (b"", b"\x07"),
    ],
)
def test_a_message_behind_control_characters_is_found(before: bytes, after: bytes) -> None:
    lines, _, _ = taped([before + UPDATE + after + b"\n"])
    (line,) = lines
    assert line.endswith(b'"message":' + UPDATE + b"}\n")
    assert json.loads(line).get("noise", "") == before.decode()


def test_the_messages_of_a_batch_are_recorded_one_by_one() -> None:
    lines, _, _ = taped([b"[" + REQUEST + b" , 42," + UPDATE + b"]\n"])
    assert [line.partition(b'"message":')[2] for line in lines] == [
        REQUEST + b"}\n",
        UPDATE + b"}\n",
    ]


def test_a_last_line_without_a_newline_is_not_lost() -> None:
    lines, _, _ = taped([UPDATE], [REQUEST])
    assert {record["dir"] for record in read(lines)} == {"a2c", "c2a"}


@example(lines=[UPDATE, NOISE[3], b"\x1b]0;t\x07" + REQUEST, b"", b"[" + RESULT + b"]"], cuts=[1])
@given(
    lines=st.lists(st.sampled_from([*MESSAGES, *NOISE, b"", b"  \r"]), max_size=6),
    cuts=st.lists(st.integers(0, 600), max_size=8),
)
@settings(max_examples=25)
def test_any_split_of_the_bytes_gives_the_same_records(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    at = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(at) if start < end]
    split, ours, _ = taped(pieces)
    assert split == taped([data] if data else [])[0]
    assert ours == data


# ---- what else happened ------------------------------------------------------------------------


def test_a_tape_in_a_file_begins_with_a_header_and_numbers_its_records() -> None:
    file = BytesIO()
    tape = Tape.to(file, command=["some", "agent"])
    tape.line("c2a", REQUEST)
    tape.note("exit", code=3, signal=None)
    header, message, end = read(file.getvalue().splitlines())
    assert header["format"] == "twofold.tape"
    assert (header["version"], header["command"]) == (1, ["some", "agent"])
    assert (message["dir"], end["dir"], end["code"]) == ("c2a", "exit", 3)
    assert [each["seq"] for each in (header, message, end)] == [1, 2, 3]
    assert header["time"] <= message["time"] <= end["time"]


def test_standard_error_may_be_cut_in_the_middle_of_a_character() -> None:
    lines: list[bytes] = []
    tape = Tape(lines.append)
    for byte in "größe\n".encode():
        tape.stderr(bytes([byte]))
    assert {record["dir"] for record in read(lines)} == {"stderr"}
    assert "".join(record["text"] for record in read(lines)) == "größe\n"


class Full(BytesIO):
    """A file on a disk that is full."""

    def write(self, data: Any) -> int:
        if self.tell():
            raise OSError(28, "No space left on device")
        return super().write(data)


def test_a_tape_that_cannot_be_written_stops_and_keeps_the_error() -> None:
    file = Full()
    tape = Tape.to(file)
    tape.line("c2a", REQUEST)
    tape.line("c2a", REQUEST)
    assert len(file.getvalue().splitlines()) == 1
    assert tape.fault is not None
    assert tape.fault.errno == 28


class Reluctant(BytesIO):
    """A file that takes a byte at a time."""

    def write(self, data: Any) -> int:
        return super().write(bytes(data)[:1])


def test_a_file_that_takes_less_than_it_is_given_gets_all_of_it() -> None:
    file = Reluctant()
    Tape.to(file).line("a2c", UPDATE)
    assert file.getvalue().endswith(b'"message":' + UPDATE + b"}\n")


@leaves_nothing
async def test_reading_can_be_paused() -> None:
    near, far = memory_pair()
    transport = Taped(near)
    ours = Recorder()
    transport.start(ours)
    transport.pause_reading()
    far.write(UPDATE)
    await turns()
    assert not ours.data
    transport.resume_reading()
    await turns()
    assert bytes(ours.data) == UPDATE
    await asyncio.gather(transport.close(), far.close())
    await turns()


# ---- who reads it ------------------------------------------------------------------------------


def test_the_filters_pass_over_what_is_no_message() -> None:
    def chunk(text: str) -> bytes:
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}
        params = {"sessionId": "s", "update": update}
        message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
        return json.dumps(message).encode()

    file = BytesIO()
    tape = Tape.to(file)
    lines = [chunk("one "), *NOISE, b"\x1b]0;t\x07" + chunk("two "), b"[" + chunk("three") + b"]"]
    for line in lines:
        tape.line("a2c", line)
    tape.stderr(b"words\n")
    tape.note("exit", code=0, signal=None)
    for command in (["fold"], ["show"], ["convert", "--to", "2"]):
        result = CliRunner().invoke(commands, command, input=file.getvalue())
        assert (result.exit_code, result.stderr) == (0, "")
        if command == ["show"]:
            assert "one two three" in result.stdout
