"""The way to an agent: how long it takes, what it says meanwhile, and what is written of it."""

import asyncio
import io
import json
import os
import signal
import sys
from typing import Any

import pytest

from tests.support import raw_process
from tests.support.raw_process import raw_agent
from tests.support.simulated import simulate
from twofold.client.launch import Launch, RecentStderr, Seconds, on_signals
from twofold.client.negotiate import AgentSilent
from twofold.transport.process import ProcessEnded
from twofold.transport.tape import Tape

QUIET = raw_agent("")
WARNS = raw_agent("os.write(2, b'no key\\n\\x1b[31mlast \\x1b]0;x\\x07line\\n\\n')")
FALLS = """
def initialize(request):
    if request["params"]["protocolVersion"] == 2:
        os.write(2, b"what is 2?")
        sys.exit(9)
    answer(request, {"protocolVersion": 1})
"""


def records(file: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.getvalue().splitlines()]


# ---- standard error ----------------------------------------------------------------------------


def test_what_is_read_of_standard_error_a_moment_after_a_failure_is_shown_too() -> None:
    async def main() -> None:
        stderr = RecentStderr()
        stderr.add(b"one\n")
        asyncio.get_running_loop().call_soon(stderr.add, b"two\n")
        assert [line.strip() for line in (await stderr.settled())[1:]] == ["one", "two"]

    simulate(main())


# ---- clocks ------------------------------------------------------------------------------------


def test_each_second_is_told_until_nobody_waits_any_more() -> None:
    told: list[float] = []

    async def main() -> None:
        seconds = Seconds(told.append)
        await asyncio.sleep(3.5)
        seconds.close()
        await asyncio.sleep(10)

    simulate(main())
    assert told == [1.0, 2.0, 3.0]


def test_no_second_is_told_to_a_task_that_is_being_ended() -> None:
    told: list[float] = []

    async def waits() -> None:
        seconds = Seconds(told.append)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(5)  # as the end of an agent takes a while
            seconds.close()

    async def main() -> None:
        task = asyncio.create_task(waits())
        await asyncio.sleep(1.5)
        task.cancel()
        await asyncio.wait([task])

    simulate(main())
    assert told == [1.0]


def test_a_start_that_takes_long_is_told_with_the_last_line_of_standard_error() -> None:
    said: list[tuple[float, str]] = []
    connecting = Launch(raw_agent("os.write(2, b'key?\\n'); sys.stdin.read()"))

    async def main() -> None:
        slow = asyncio.Event()

        def tell(seconds: float) -> None:
            said.append((seconds, connecting.last_line))
            slow.set()

        async def connect() -> None:
            async with connecting.client(on_slow=tell):
                pass

        task = asyncio.create_task(connect())
        await slow.wait()
        task.cancel()
        await asyncio.wait([task])

    raw_process.run(main())
    assert said == [(1.0, "key?")]
    assert not connecting.answered
    assert "  key?" in str(connecting.silent(2))


# ---- what the agent says beside the protocol ---------------------------------------------------


def test_the_last_line_of_standard_error_is_safe_to_show() -> None:
    connecting = Launch(WARNS)
    before = connecting.last_line

    async def main() -> None:
        async with connecting.client():
            assert connecting.answered

    raw_process.run(main())
    assert (before, connecting.last_line) == ("", "last line")


def test_an_agent_that_dies_at_the_start_is_told_with_its_last_words() -> None:
    async def main() -> None:
        async with Launch([sys.executable, "-c", "exit('no key')"]).client():
            pass

    with pytest.raises(ProcessEnded, match="no key"):
        raw_process.run(main())


def test_silence_behind_a_tape_is_told_with_the_last_words() -> None:
    async def main() -> None:
        async with Launch(WARNS, record=io.BytesIO()).client():
            raise AgentSilent(3, "")

    with pytest.raises(AgentSilent, match="within 3 seconds") as caught:
        raw_process.run(main())
    assert caught.value.stderr == "no key\nlast line"


# ---- the record --------------------------------------------------------------------------------


def test_the_record_tells_of_each_start_and_each_end() -> None:
    file = io.BytesIO()
    lines: list[bytes] = []
    connecting = Launch(raw_agent(FALLS), record=file, tapes=[Tape(lines.append)])

    async def main() -> None:
        async with connecting.client() as client:
            assert client.protocol_version == 1

    raw_process.run(main())
    notes = [record for record in records(file) if record["dir"] not in ("c2a", "a2c")]
    told = [(note["dir"], note.get("code"), note.get("text")) for note in notes]
    assert told == [
        ("header", None, None),
        ("stderr", None, "what is 2?"),
        ("exit", 9, None),
        ("negotiated", None, None),
        ("exit", 0, None),
    ]
    messages = [record["message"] for record in records(file) if "message" in record]
    assert [json.loads(line)["message"] for line in lines] == messages
    assert connecting.fault is None


class Full(io.BytesIO):
    def write(self, data: object) -> int:
        raise OSError(28, "No space left on device")


def test_a_record_that_cannot_be_written_is_a_fault_and_not_the_end() -> None:
    connecting = Launch(QUIET, record=Full())

    async def main() -> None:
        async with connecting.client() as client:
            await client.new_session()

    raw_process.run(main())
    assert connecting.fault is not None
    assert connecting.fault.strerror == "No space left on device"


# ---- signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_calls_whoever_wants_to_hear_of_it(number: int) -> None:
    async def main() -> None:
        came = asyncio.Event()
        on_signals(came.set)
        os.kill(os.getpid(), number)
        await came.wait()

    raw_process.run(main())
