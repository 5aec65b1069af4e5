"""The start of an agent: how long it takes, what the agent prints, and what is recorded."""

import asyncio
import io
import json
import os
import signal
import sys
from typing import Any

import pytest

from tests.support.raw_process import raw_agent
from tests.support.real_time import in_real_time, run
from tests.support.simulated import leaves_nothing, simulate
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


@leaves_nothing
async def test_what_is_read_of_standard_error_a_moment_after_a_failure_is_shown_too() -> None:
    stderr = RecentStderr()
    stderr.add(b"one\n")
    asyncio.get_running_loop().call_soon(stderr.add, b"two\n")
    assert [line.strip() for line in (await stderr.settled())[1:]] == ["one", "two"]


# ---- clocks ------------------------------------------------------------------------------------


def test_each_second_is_reported_until_the_wait_is_closed() -> None:
    seconds_reported: list[float] = []

    async def main() -> None:
        seconds = Seconds(seconds_reported.append)
        await asyncio.sleep(3.5)
        seconds.close()
        await asyncio.sleep(10)

    simulate(main())
    assert seconds_reported == [1.0, 2.0, 3.0]


def test_no_second_is_reported_to_a_task_that_is_being_ended() -> None:
    seconds_reported: list[float] = []

    async def waits() -> None:
        seconds = Seconds(seconds_reported.append)
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
    assert seconds_reported == [1.0]


def test_a_start_that_takes_long_is_reported_with_the_last_line_of_standard_error() -> None:
    reported: list[tuple[float, str]] = []
    connecting = Launch(raw_agent("os.write(2, b'key?\\n'); sys.stdin.read()"))

    async def main() -> None:
        slow = asyncio.Event()

        def report(seconds: float) -> None:
            reported.append((seconds, connecting.last_line))
            slow.set()

        async def connect() -> None:
            async with connecting.client(on_slow=report):
                pass

        task = asyncio.create_task(connect())
        await slow.wait()
        task.cancel()
        await asyncio.wait([task])

    run(main())
    assert reported == [(1.0, "key?")]
    assert not connecting.answered
    assert "  key?" in str(connecting.silent(2))


# ---- what the agent prints beside the protocol -------------------------------------------------


def test_the_last_line_of_standard_error_is_safe_to_show() -> None:
    connecting = Launch(WARNS)
    before = connecting.last_line

    async def main() -> None:
        async with connecting.client():
            assert connecting.answered

    run(main())
    assert (before, connecting.last_line) == ("", "last line")


def test_an_agent_that_dies_at_the_start_is_reported_with_its_last_lines() -> None:
    async def main() -> None:
        async with Launch([sys.executable, "-c", "exit('no key')"]).client():
            pass

    with pytest.raises(ProcessEnded, match="no key"):
        run(main())


def test_silence_behind_a_tape_is_reported_with_the_last_lines() -> None:
    async def main() -> None:
        async with Launch(WARNS, record=io.BytesIO()).client():
            raise AgentSilent(3, "")

    with pytest.raises(AgentSilent, match="within 3 seconds") as caught:
        run(main())
    assert caught.value.stderr == "no key\nlast line"


# ---- the record --------------------------------------------------------------------------------


def test_the_record_has_each_start_and_each_end() -> None:
    file = io.BytesIO()
    lines: list[bytes] = []
    connecting = Launch(raw_agent(FALLS), record=file, tapes=[Tape(lines.append)])

    async def main() -> None:
        async with connecting.client() as client:
            assert client.protocol_version == 1

    run(main())
    notes = [record for record in records(file) if record["dir"] not in ("c2a", "a2c")]
    recorded = [(note["dir"], note.get("code"), note.get("text")) for note in notes]
    assert recorded == [
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

    run(main())
    assert connecting.fault is not None
    assert connecting.fault.strerror == "No space left on device"


# ---- signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@in_real_time
async def test_a_signal_calls_its_handler(number: int) -> None:
    came = asyncio.Event()
    on_signals(came.set)
    os.kill(os.getpid(), number)
    await came.wait()
