"""`twofold run --prompt` when not the agent ends it, but a clock, a signal or a reader."""

import asyncio
import functools
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.commands import DEMO, PATIENCE, TWOFOLD, asks, called, lines, process, until
from tests.support.raw_process import gone, raw_agent
from twofold.transport.process import Process

# ---- clocks -----------------------------------------------------------------------------------


def test_an_agent_that_answers_nothing_is_given_up_and_its_last_words_are_told(
    tmp_path: Path,
) -> None:
    tape = tmp_path / "tape.jsonl"
    command = ["sh", "-c", "echo no key, no answer >&2; exec cat > /dev/null"]
    result = called("--prompt", "x", "--timeout", "1", "--record", str(tape), "--", *command)
    assert result.exit_code == 124
    assert "did not answer initialize within 1 seconds" in result.stderr
    assert "  no key, no answer\n" in result.stderr
    records = lines(tape.read_text())
    assert "no key, no answer\n" in [record.get("text") for record in records]
    assert (records[-1]["dir"], records[-1]["code"]) == ("exit", 0)


HANGS = """
def prompt(request):
    text("begun")
    open(PATH, "w").write(str(read().get("method")))
"""


def test_a_turn_that_does_not_end_in_time_is_cancelled(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    agent = raw_agent(HANGS.replace("PATH", repr(str(heard))))
    result = called("--prompt", "x", "--timeout", "1.5", "--", *agent)
    assert (result.exit_code, result.stdout) == (124, "begun\n")
    assert result.stderr == "The turn did not end within 1.5 seconds: it was cancelled.\n"
    assert heard.read_text() == "session/cancel"


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that does not end by itself has more time for that than any test may take."""
    spawn = functools.partial(Process.spawn, close_timeouts=(600, 600, 2))
    monkeypatch.setattr("twofold.client.launch.Process.spawn", spawn)


LINGERS = """
def read():
    line = sys.stdin.readline()
    if not line:
        time.sleep(600)
    return json.loads(line)
"""


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize(
    "agent", [["sleep", "600"], raw_agent(f"{LINGERS}\ndef prompt(request): pass")]
)
def test_the_end_of_the_agent_does_not_prolong_a_timeout(agent: list[str]) -> None:
    assert called("--prompt", "x", "--timeout", "1", "--", *agent).exit_code == 124


@pytest.mark.usefixtures("endless")
def test_a_turn_that_ended_in_time_is_no_timeout_however_long_the_agent_takes_to_end() -> None:
    result = called("--prompt", "x", "--timeout", "2", "--", *raw_agent(LINGERS))
    assert (result.exit_code, result.output) == (0, "")


# ---- death ------------------------------------------------------------------------------------

DIES = """
def prompt(request):
    import os
    sys.stderr.write("the disk is on fire\\n")
    sys.stderr.flush()
    result = {"stopReason": "end_turn"}
    answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})
    os.write(1, answer[:CUT].encode())
    os._exit(3)
"""


@pytest.mark.parametrize("cut", [1, 20, 40, -2, -1])
def test_an_agent_that_dies_inside_its_answer_is_reported_as_dead(cut: int) -> None:
    result = called("--prompt", "x", "--", *raw_agent(DIES.replace("CUT", str(cut))))
    assert result.exit_code == 7
    assert "ended with exit code 3" in result.stderr
    assert "  the disk is on fire\n" in result.stderr


# ---- signals ----------------------------------------------------------------------------------


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(
        *TWOFOLD, "run", *arguments, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    try:
        async with asyncio.timeout(PATIENCE):
            yield running
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


def with_child(folder: Path, command: list[str]) -> list[str]:
    """A command in a wrapper that starts something else, and writes down the numbers of both."""
    script = 'sleep 60 & echo $$ $! > "$0"; "$@"; exit'
    return ["--", "sh", "-c", script, str(folder / "numbers"), *command]


def numbers_in(folder: Path) -> list[int]:
    """The numbers of the processes, when all are written."""
    try:
        written = (folder / "numbers").read_text()
    except FileNotFoundError:
        return []
    return [int(each) for each in written.split()] if written.endswith("\n") else []


STUBBORN = 'def prompt(request): text("on and on")'
DEAF = ["sh", "-c", "exec cat > /dev/null"]


async def interrupted(
    folder: Path, command: list[str], signals: Sequence[int], *options: str, told: bytes
) -> None:
    """Send the signals: the first in the middle of the turn, the second when the turn is told."""
    tape = folder / "tape.jsonl"
    options = (*options, "--record", str(tape))
    async with running("--prompt", "slow", *options, *with_child(folder, command)) as process:
        assert process.stdout is not None
        await process.stdout.read(1)
        for number in signals:
            process.send_signal(number)
            await until(lambda: "session/cancel" in tape.read_text())
        _, stderr = await process.communicate()
    assert (process.returncode, stderr) == (5, told)
    assert all(map(gone, numbers_in(folder)))


async def interrupted_early(folder: Path) -> None:
    async with running("--prompt", "x", *with_child(folder, DEAF)) as process:
        await until(lambda: bool(numbers_in(folder)))
        process.send_signal(signal.SIGINT)
        assert await process.communicate() == (b"", b"")
    assert process.returncode == 5
    assert all(map(gone, numbers_in(folder)))


def test_a_signal_cancels_the_turn_and_leaves_no_process(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "1234"]
    for folder in folders:
        folder.mkdir()
    told = b"The turn ended with cancelled.\n"
    interrupt, terminate = [signal.SIGINT], [signal.SIGTERM]

    async def run() -> None:
        await asyncio.gather(  # together, for each takes a while
            interrupted(folders[0], DEMO[1:], interrupt, "--version", "1", told=told),
            interrupted(folders[1], DEMO[1:], terminate, "--version", "2", told=told),
            interrupted(folders[2], raw_agent(STUBBORN), interrupt * 2, told=b""),
            interrupted_early(folders[3]),
        )

    asyncio.run(run())


# ---- streams that go away ----------------------------------------------------------------------


def test_a_reader_that_leaves_does_not_end_the_turn(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    told = tmp_path / "stderr"
    words = [*TWOFOLD, "run", "--format", "json", "--record", str(tape), "--prompt", "/flood 500"]
    script = '"$@" 2> "$0" | head -n 1; echo ${PIPESTATUS[0]}'
    command = ["bash", "-c", script, str(told), *words, *DEMO]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    first, status = done.stdout.splitlines()
    assert (json.loads(first)["seq"], status) == (1, b"0")
    assert told.read_bytes() == done.stderr == b""
    assert lines(tape.read_text())[-1]["dir"] == "exit"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_an_output_or_a_record_that_cannot_be_written_is_told() -> None:
    with open("/dev/full", "wb") as full:
        arguments = ["--record", "/dev/full", "--prompt", "x", "--", *raw_agent("")]
        done = process("--format", "json", *arguments, capture_output=False, stdout=full, stderr=-1)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Standard output could not be written to the end: No space left on device.",
        "/dev/full could not be written to the end: No space left on device.",
    ]


def test_streams_that_are_closed_are_left_alone() -> None:
    command = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *TWOFOLD, "run", "--prompt", "x", "--"]
    done = subprocess.run([*command, *asks()], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (6, b"", b"")
