"""Real child processes as transports: how they are started, read and ended."""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.raw_process import alive, gone
from tests.support.real_time import PATIENCE, in_real_time, run
from tests.support.receiver import Recorder
from twofold.transport import groups
from twofold.transport import process as process_module
from twofold.transport.base import HIGH_WATER, Transport
from twofold.transport.commands import STDERR_KEPT, StderrTail, shown
from twofold.transport.process import AT_WORK, CommandNotStarted, Process, ProcessEnded

QUICK = (0.1, 0.1, 2.0)
"""For children that are known to need a signal."""
READY = b"ready\n"


def python(source: str) -> list[str]:
    """A command that runs `source`, with what most of it needs imported."""
    return [sys.executable, "-I", "-S", "-c", f"import os, signal, subprocess, sys, time\n{source}"]


SAY_READY = "os.write(1, b'ready\\n')\n"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
STAY = SAY_READY + "time.sleep(60)\n"
GRANDCHILD = "[sys.executable, '-I', '-S', '-c', {!r}]"
QUIET = ", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
UNTIL_EOF = "while os.read(0, 65536): pass\n"


def with_grandchild(source: str, then: str, options: str = "") -> list[str]:
    """A command that starts another, prints its process id, and goes on."""
    inner = f"import signal, time\n{source}\nprint('up', flush=True)\ntime.sleep(60)"
    return python(
        f"child = subprocess.Popen({GRANDCHILD.format(inner)}{options})\n"
        f"os.write(1, b'pid %d\\n' % child.pid)\n{then}"
    )


@pytest.fixture(autouse=True, scope="module")
def quick_collection() -> Iterator[None]:
    """Let `gc.collect` look only at what a test made."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No noise of the event loop, no descriptor and no zombie stays behind."""
    groups.guard(os.getpid())  # what watches all processes is started once
    groups.unguard(os.getpid())
    before, others = open_fds(), children()
    yield
    gc.collect()  # unclosed transports and processes warn now, and warnings are errors
    assert [record.getMessage() for record in caplog.get_records("call")] == []
    assert open_fds() == before
    assert children() <= others


def children() -> set[int]:
    """The processes that we started and have not waited for; other tests may have some."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            _, _, rest = stat.read_text().rpartition(") ")
            if int(rest.split()[1]) == os.getpid():
                found.add(int(stat.parent.name))
    return found


@pytest.fixture
def short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "GRACE", 0.1)
    monkeypatch.setattr(process_module, "LAST_CALL", 0.1)


def open_fds() -> int:
    return len(os.listdir("/dev/fd"))


async def started(command: list[str], **options: Any) -> tuple[Process, Recorder]:
    process = await Process.spawn(command, **options)
    recorder = Recorder()
    process.start(recorder)
    return process, recorder


async def ready(command: list[str], **options: Any) -> tuple[Process, Recorder]:
    """A process that has printed `READY`."""
    process, recorder = await started(command, **options)
    await recorder.until(lambda: READY in recorder.data)
    return process, recorder


async def exit_of(process: Process) -> None:
    for _ in range(1000):
        if not process.running:
            return
        await asyncio.sleep(0.005)
    pytest.fail("it still runs")


async def grandchild_of(recorder: Recorder, expected: bytes = b"up\n") -> int:
    await recorder.until(lambda: b"pid " in recorder.data and expected in recorder.data)
    _, _, rest = bytes(recorder.data).partition(b"pid ")
    return int(rest.split()[0])


# ---- speaking


@in_real_time
async def test_what_is_written_comes_back_from_an_echo() -> None:
    process, recorder = await started(["cat"])
    transport: Transport = process
    assert process.running
    assert process.command == ("cat",)
    assert alive(process.pid)
    transport.write(b"one\n")
    transport.write(b"two\n")
    await recorder.until(lambda: recorder.data == b"one\ntwo\n")
    await transport.close()
    assert recorder.errors == [None]
    assert (process.running, process.exit_code, process.signal) == (False, 0, None)


@in_real_time
async def test_what_came_before_the_start_is_kept_and_the_end_too() -> None:
    process = await Process.spawn(python("os.write(1, b'early'); sys.exit(4)"))
    await exit_of(process)
    recorder = Recorder()
    process.start(recorder)
    assert recorder.data == b"", "called from inside start"
    error = await recorder.end()
    assert recorder.data == b"early"
    assert isinstance(error, ProcessEnded)
    assert error.exit_code == 4
    await process.close()


@in_real_time
async def test_megabytes_go_both_ways() -> None:
    sent = os.urandom(1 << 16) * 64
    process, recorder = await started(["cat"])
    process.write(sent)
    await recorder.until(lambda: len(recorder.data) == len(sent))
    assert recorder.data == sent
    assert recorder.calls[:2] == ["pause_writing", "resume_writing"]
    await process.close()


def test_what_waits_to_be_written_is_written_before_the_input_ends(tmp_path: Path) -> None:
    sent = os.urandom(1 << 16) * 16
    target = tmp_path / "got"

    async def main() -> None:
        process, _ = await started(["sh", "-c", f"cat > '{target}'"])
        process.write(sent)
        await process.close()
        assert process.exit_code == 0

    run(main())
    assert target.read_bytes() == sent


@pytest.mark.parametrize(
    ("env", "name", "value"),
    [
        (None, "TWOFOLD_TEST", "inherited"),
        ({"TWOFOLD_TEST": "given"}, "TWOFOLD_TEST", "given"),
        ({"TWOFOLD_TEST": ""}, "TWOFOLD_TEST", ""),
        ({"TWOFOLD_TEST": None}, "TWOFOLD_TEST", "(none)"),
        ({"TWOFOLD_OTHER": "more"}, "TWOFOLD_OTHER", "more"),
        ({"TWOFOLD_OTHER": "more"}, "TWOFOLD_TEST", "inherited"),
        ({"TWOFOLD_MISSING": None}, "TWOFOLD_TEST", "inherited"),
    ],
)
def test_the_environment_is_ours_with_overrides(
    monkeypatch: pytest.MonkeyPatch, env: Mapping[str, str | None] | None, name: str, value: str
) -> None:
    monkeypatch.setenv("TWOFOLD_TEST", "inherited")

    async def main() -> None:
        process, recorder = await started(["sh", "-c", f"printf %s ${{{name}-(none)}}"], env=env)
        await recorder.end()
        assert recorder.data.decode() == value
        await process.close()

    run(main())


@in_real_time
async def test_the_command_runs_in_the_given_directory(tmp_path: Path) -> None:
    where = str(tmp_path)
    process, recorder = await started(["pwd"], cwd=tmp_path)
    await recorder.end()
    assert recorder.data.decode().strip() == where
    await process.close()


@in_real_time
async def test_it_leads_a_session_of_its_own() -> None:
    process, _ = await ready(python(STAY), close_timeouts=QUICK)
    assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
    await process.close()


# ---- not starting


@pytest.mark.parametrize(
    ("command", "options", "expected"),
    [
        (["no-such-agent", "--acp"], {}, ["(no-such-agent --acp)", "on the PATH", "Install"]),
        (["sh"], {"env": {"PATH": "/nowhere"}}, ["no command sh on the PATH"]),
        (["./no-such-agent"], {}, ["no file ./no-such-agent", "Check the path"]),
        (["{tmp}/plain"], {}, ["may not be executed", "chmod +x"]),
        (["{tmp}/orphan"], {}, ["interpreter", "is not there"]),
        (["{tmp}/garbage"], {}, ["is no program"]),
        (["{tmp}"], {}, ["{tmp} is a directory"]),
        (["sh"], {"cwd": "{tmp}/missing"}, ["{tmp}/missing does not exist"]),
        (["sh"], {"cwd": "{tmp}/plain"}, ["{tmp}/plain is not a directory"]),
        (["sh", "a\0b"], {}, ["null byte"]),
        (["sh"], {"env": {"A=B": "c"}}, ["environment variable"]),
        (["sh"], {"env": {"A": 1}}, ["not int"]),
        ([], {}, ["starts with a program"]),
        ([""], {}, ["starts with a program"]),
        (["sh", 1], {}, ["list of strings"]),
        ("sh -c true", {}, ["a list such as", "'sh -c true'"]),
        (b"sh", {}, ["a list such as"]),
        (None, {}, ["a list such as"]),
        ({"sh"}, {}, ["a list such as"]),
    ],
)
def test_a_command_that_cannot_start_raises_with_the_reason(
    tmp_path: Path, command: Any, options: dict[str, Any], expected: list[str]
) -> None:
    for name, text, mode in (
        ("plain", "#!/bin/sh\n", 0o644),
        ("orphan", "#!/no/such/interpreter\n", 0o755),
        ("garbage", "\1\2\3", 0o755),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)

    def filled(value: Any) -> Any:
        return value.replace("{tmp}", str(tmp_path)) if isinstance(value, str) else value

    if isinstance(command, list):
        command = [filled(part) for part in command]
    options = {name: filled(value) for name, value in options.items()}

    async def main() -> None:
        with pytest.raises(CommandNotStarted) as caught:
            await Process.spawn(command, **options)
        text = str(caught.value)
        assert text.startswith("The agent")
        assert text.endswith(".")
        for words in expected:
            assert filled(words) in text

    run(main())


@pytest.mark.parametrize("turns", range(12))
def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path, turns: int) -> None:
    note = tmp_path / "pid"

    async def main() -> None:
        command = ["sh", "-c", f"echo $$ > '{note}'; exec sleep 60"]
        spawning = asyncio.create_task(Process.spawn(command, close_timeouts=QUICK))
        for _ in range(turns):
            await asyncio.sleep(0)
        spawning.cancel()
        try:
            process = await spawning
        except asyncio.CancelledError:
            return
        await process.close()

    run(main())
    if note.exists() and (pid := note.read_text().strip()):
        assert gone(int(pid))


# ---- dying


@in_real_time
async def test_the_error_of_a_death_has_the_exit_code_and_the_last_lines_of_stderr() -> None:
    source = "for i in range(30): print('line', i, file=sys.stderr)\nsys.exit(3)"
    process, recorder = await started(python(source))
    error = await recorder.end()
    assert isinstance(error, ProcessEnded)
    assert (error.exit_code, error.signal) == (3, None)
    assert error.command == tuple(python(source))
    assert error.stderr.split("\n") == [f"line {i}" for i in range(10, 30)]
    assert f"The agent ({shown(error.command)}) ended with exit code 3. " in str(error)
    assert str(error).endswith("The end of its standard error:\n" + indented(error.stderr))
    assert process.exit_code == 3
    process.write(b"too late")
    await process.close()
    assert recorder.calls == ["ended"]


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


@in_real_time
async def test_a_death_by_signal_names_the_signal() -> None:
    process, recorder = await started(["sh", "-c", "kill -9 $$"])
    error = await recorder.end()
    assert isinstance(error, ProcessEnded)
    assert (error.exit_code, error.signal, error.stderr) == (None, "SIGKILL", "")
    assert str(error).startswith("The agent (sh -c 'kill -9 $$') was ended by SIGKILL. ")
    assert "It wrote nothing to its standard error" in str(error)
    assert (process.exit_code, process.signal) == (None, "SIGKILL")
    await process.close()


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"exit_code": 0}, "ended with exit code 0."),
        ({"exit_code": 127, "stderr": "\n\n"}, "exit code 127. It wrote nothing"),
        ({"signal": "SIGTERM", "stderr": "a\nb\n"}, "SIGTERM. The end of its standard error:\n  a"),
        ({}, "closed its output, but still runs."),
    ],
)
def test_the_text_of_a_death(facts: dict[str, Any], expected: str) -> None:
    assert expected in str(ProcessEnded(["agent"], **facts))


def test_a_death_does_not_carry_pages_of_stderr() -> None:
    error = ProcessEnded(["agent"] + ["word"] * 1000, exit_code=1, stderr="x" * 50_000)
    assert len(error.stderr) < 5_000
    assert len(str(error)) < 5_500


@in_real_time
async def test_all_that_was_written_before_the_death_is_delivered_before_the_end() -> None:
    source = "os.write(1, b'x' * (1 << 20)); os.write(1, b'last'); os._exit(9)"
    process, recorder = await started(python(source))
    error = await recorder.end()
    assert len(recorder.data) == (1 << 20) + 4
    assert recorder.data.endswith(b"last")
    assert isinstance(error, ProcessEnded)
    assert error.exit_code == 9
    await process.close()


@pytest.mark.usefixtures("short_graces")
@in_real_time
async def test_a_death_in_a_pause_is_reported_after_the_rest_was_read() -> None:
    source = SAY_READY + "sys.stdin.readline()\nos.write(1, b'x' * 50_000); sys.exit(5)"
    process, recorder = await ready(python(source))
    process.pause_reading()
    process.write(b"go\n")
    await exit_of(process)
    await asyncio.sleep(0.3)  # longer than every grace
    assert recorder.calls == []
    assert recorder.data == READY
    process.resume_reading()
    error = await recorder.end()
    assert len(recorder.data) == len(READY) + 50_000
    assert isinstance(error, ProcessEnded)
    assert error.exit_code == 5
    await process.close()


@pytest.mark.usefixtures("short_graces")
@in_real_time
async def test_a_process_that_closes_its_output_but_lives_is_reported_as_such() -> None:
    source = "os.write(2, b'why\\n'); os.close(1); time.sleep(60)"
    process, recorder = await started(python(source), close_timeouts=QUICK)
    error = await recorder.end()
    assert isinstance(error, ProcessEnded)
    assert (error.exit_code, error.signal, error.stderr) == (None, None, "why")
    assert "closed its output, but still runs" in str(error)
    assert process.running
    process.write(b"nobody reads it")
    await process.close()
    assert process.signal == "SIGTERM"
    assert recorder.calls == ["ended"]


@in_real_time
async def test_a_process_that_closes_its_stderr_goes_on() -> None:
    process, recorder = await started(python("os.close(2)\n" + SAY_READY + UNTIL_EOF))
    await recorder.until(lambda: recorder.data == READY)
    await process.close()
    assert process.exit_code == 0


@in_real_time
async def test_a_process_that_closes_its_input_is_no_error_and_does_not_block_writes() -> None:
    source = SAY_READY + "os.read(0, 1); os.close(0); time.sleep(60)"
    process, recorder = await ready(python(source), close_timeouts=QUICK)
    process.write(b"x" * (4 * HIGH_WATER))
    assert recorder.calls == ["pause_writing"]
    await recorder.until(lambda: recorder.calls == ["pause_writing", "resume_writing"])
    for _ in range(10):
        process.write(b"dropped" * HIGH_WATER)
    assert process.running
    assert recorder.calls == ["pause_writing", "resume_writing"]
    await process.close()


# ---- stderr


@in_real_time
async def test_the_error_waits_a_moment_for_the_end_of_stderr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_module, "LAST_CALL", PATIENCE)
    outsider = "['sh', '-c', 'sleep 0.1; echo late >&2']"
    options = "stdout=subprocess.DEVNULL, start_new_session=True"
    source = f"subprocess.Popen({outsider}, {options})\nos._exit(3)"
    process, recorder = await started(python(source))
    error = await recorder.end()
    assert isinstance(error, ProcessEnded)
    assert (error.exit_code, error.stderr) == (3, "late")
    await process.close()


@in_real_time
async def test_a_flood_on_stderr_does_not_block_and_its_end_is_kept() -> None:
    seen = 0

    def count(data: bytes) -> None:
        nonlocal seen
        seen += len(data)

    source = "os.write(2, b'e' * ((1 << 20) - 4) + b'last')\nos.write(1, os.read(0, 99))"
    process, recorder = await started(python(source), on_stderr=count)
    process.write(b"hello\n")
    await recorder.end()
    assert recorder.data == b"hello\n"
    assert seen == 1 << 20
    assert process.stderr_tail == "e" * (STDERR_KEPT - 4) + "last"
    await process.close()


def test_the_memory_of_stderr_is_flat_and_its_text_safe_to_show() -> None:
    words = StderrTail()
    for _ in range(1000):
        words.add("é\x1b[31mred\x1b[0m\r\n".encode() * 1000)
        assert len(words._bytes) <= 2 * STDERR_KEPT
    words.add(b"\xff\x1b]0;title\x07end")
    assert words.text.endswith("éred\néred\n\ufffdend")
    assert "\x1b" not in words.text
    words.add("é".encode() * STDERR_KEPT + b"x")  # the cut goes through a character
    assert words.text == "é" * (STDERR_KEPT // 2 - 1) + "x"


# ---- pausing


WRITES_UNTIL_BLOCKED = """
piece = bytes(range(256)) * 256
os.set_blocking(1, False)
written = 0
try:
    while written < 64 * len(piece):
        written += os.write(1, piece[written % len(piece):])
except BlockingIOError:
    pass
os.set_blocking(1, True)
os.write(2, b"blocked at %d\\n" % written)
while written < 64 * len(piece):
    written += os.write(1, piece[written % len(piece):])
"""


@pytest.mark.parametrize("late", [False, True], ids=["in-a-pause", "before-the-start"])
@in_real_time
async def test_the_process_waits_while_reading_is_paused(late: bool) -> None:
    whole = bytes(range(256)) * 256 * 64
    blocked = asyncio.Event()
    process = await Process.spawn(
        python(WRITES_UNTIL_BLOCKED), on_stderr=lambda data: blocked.set()
    )
    recorder = Recorder(on_data=process.pause_reading)
    if not late:
        process.start(recorder)
    await asyncio.wait_for(blocked.wait(), PATIENCE)
    [written] = [int(word) for word in process.stderr_tail.split() if word.isdigit()]
    assert written < len(whole) // 2  # what the pipe holds
    if late:
        process.start(recorder)
    # every piece pauses: each resume gives one more
    while not recorder.errors:
        pieces = recorder.pieces
        process.resume_reading()
        await recorder.until(lambda: recorder.pieces > pieces or bool(recorder.errors))  # noqa: B023
        assert recorder.pieces <= pieces + 1
    assert recorder.data == whole
    await process.close()


@in_real_time
async def test_nothing_is_delivered_in_a_pause_at_any_turn_of_the_loop() -> None:
    paused = False

    def check() -> None:
        assert not paused

    process = await Process.spawn(python("os.write(1, b'x' * (4 << 20))"))
    recorder = Recorder(on_data=check)
    process.start(recorder)
    turn = 0
    while not recorder.errors:
        turn += 1
        paused = not paused
        if paused:
            process.pause_reading()
        else:
            process.resume_reading()
        for _ in range(turn % 7):
            await asyncio.sleep(0)
    assert len(recorder.data) == 4 << 20
    await process.close()


# ---- closing


def spends(seconds: float) -> Callable[[float], bool]:
    """Whether what began now took no longer than that, on a machine that has other work too."""
    begun = time.monotonic()
    return lambda slack: time.monotonic() - begun < seconds + slack


@pytest.mark.parametrize(
    ("source", "exit_code", "ended_by"),
    [
        (SAY_READY + UNTIL_EOF + "sys.exit(7)", 7, None),
        (SAY_READY + UNTIL_EOF + "os.write(1, b'x' * (1 << 20))\nsys.exit(8)", 8, None),
        (STAY, None, "SIGTERM"),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n" + STAY, 9, None),
        (DEAF + STAY, None, "SIGKILL"),
        (SAY_READY + "os.kill(os.getpid(), signal.SIGSTOP)", None, "SIGKILL"),
    ],
    ids=["eof", "eof-with-output", "term", "term-handled", "deaf", "stopped"],
)
@in_real_time
async def test_closing_goes_as_far_as_it_must_and_no_further(
    source: str, exit_code: int | None, ended_by: str | None
) -> None:
    patient = 5.0 if exit_code in (7, 8) else 0.1
    polite = 5.0 if ended_by == "SIGTERM" or exit_code == 9 else 0.1
    timeouts = (patient, polite, 2.0)
    process, recorder = await ready(python(source), close_timeouts=timeouts)
    process.pause_reading()
    within = spends(0.2)
    await process.close()
    assert within(1.5)
    assert (process.exit_code, process.signal) == (exit_code, ended_by)
    sent = ["SIGTERM"] if exit_code not in (7, 8) else []
    assert process.signals == (["SIGTERM", "SIGKILL"] if ended_by == "SIGKILL" else sent)
    assert process.left_behind == []
    assert recorder.errors == [None]
    assert not process.running
    await process.wait()


BUSY = "begun = time.monotonic()\nwhile time.monotonic() - begun < {}: {}\n"


@pytest.mark.parametrize("work", ["pass", "os.write(2, b'.'); time.sleep(0.05)"])
@in_real_time
async def test_a_process_that_is_still_at_work_after_its_input_ended_ends_by_itself(
    work: str,
) -> None:
    source = SAY_READY + UNTIL_EOF + BUSY.format(1.2, work) + "sys.exit(7)"
    process, _ = await ready(python(source), close_timeouts=(0.5, 0.1, 2.0))
    await process.close()
    assert (process.exit_code, process.signal) == (7, None)


@in_real_time
async def test_a_process_that_works_for_ever_is_not_waited_for_for_ever() -> None:
    process, _ = await ready(python(SAY_READY + BUSY.format(60, "pass")), close_timeouts=QUICK)
    within = spends(AT_WORK * QUICK[0])
    await process.close()
    assert within(1.5)
    assert process.signal == "SIGTERM"


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(("source", "ended_by"), [(STAY, "SIGTERM"), (DEAF + STAY, "SIGKILL")])
@in_real_time
async def test_a_caller_that_cannot_wait_hurries_the_end(
    source: str, ended_by: str, early: bool
) -> None:
    process, _ = await ready(python(source), close_timeouts=(60, 60, 2.0))
    if early:
        process.hurry()
    closing = asyncio.create_task(process.close())
    await asyncio.sleep(0)
    process.hurry()
    await closing  # which would take longer than any test here may
    assert process.signal == ended_by


@in_real_time
async def test_closing_a_process_that_never_reads_is_bounded() -> None:
    process, recorder = await ready(python(DEAF + STAY), close_timeouts=QUICK)
    process.write(b"x" * HIGH_WATER)
    assert recorder.calls == []
    process.write(b"x" * HIGH_WATER)
    assert recorder.calls == ["pause_writing"]
    within = spends(0.2)
    await process.close()
    assert within(1.5)
    assert process.signal == "SIGKILL"
    assert recorder.errors == [None]


@pytest.mark.parametrize(
    ("source", "then"),
    [
        ("", UNTIL_EOF),
        ("", "time.sleep(60)"),
        (DEAF, UNTIL_EOF),
        (DEAF, DEAF + "time.sleep(60)"),
    ],
    ids=["leader-ends-at-eof", "leader-ends-at-term", "only-leader-ends", "neither-ends"],
)
@in_real_time
async def test_closing_ends_the_whole_group(source: str, then: str) -> None:
    process, recorder = await started(with_grandchild(source, then), close_timeouts=QUICK)
    grandchild = await grandchild_of(recorder)
    await process.close()
    assert not alive(process.pid)
    assert gone(grandchild)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="the processes are found in /proc")
@pytest.mark.parametrize(
    ("source", "linger", "stays"),
    [("", 0.05, True), ("signal.setitimer(signal.ITIMER_REAL, 0.3)", PATIENCE, False)],
    ids=["stays", "follows"],
)
@in_real_time
async def test_what_a_process_leaves_behind_is_named_after_it_had_time_to_end(
    source: str, linger: float, stays: bool
) -> None:
    process, recorder = await started(with_grandchild(source, UNTIL_EOF), linger=linger)
    grandchild = await grandchild_of(recorder)
    await process.close()
    assert process.signals == []
    assert [each.pid for each in process.left_behind] == ([grandchild] if stays else [])
    assert all("time.sleep(60)" in each.command for each in process.left_behind)
    assert gone(grandchild)


@pytest.mark.usefixtures("short_graces")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", b"up\n"),
        (", stdout=subprocess.DEVNULL", b""),
        (QUIET, b""),
    ],
    ids=["holds-the-output", "holds-stderr", "holds-nothing"],
)
@in_real_time
async def test_a_wrapper_that_is_killed_leaves_no_orphan(options: str, expected: bytes) -> None:
    command = with_grandchild(DEAF, "time.sleep(60)", options)
    process, recorder = await started(command)
    grandchild = await grandchild_of(recorder, expected)
    os.kill(process.pid, signal.SIGKILL)
    error = await recorder.end()
    assert isinstance(error, ProcessEnded)
    assert error.signal == "SIGKILL"
    assert gone(grandchild)
    await process.close()


@pytest.mark.usefixtures("short_graces")
@in_real_time
async def test_a_leader_that_dies_after_it_closed_its_output_leaves_no_orphan() -> None:
    then = "os.close(1)\n" + UNTIL_EOF + "os.kill(os.getpid(), signal.SIGKILL)"
    process, recorder = await started(with_grandchild("", then, QUIET))
    grandchild = await grandchild_of(recorder, b"")
    assert "still runs" in str(await recorder.end())
    process._stdin.close()
    await exit_of(process)
    assert process.signal == "SIGKILL"
    assert gone(grandchild)
    await process.close()


@pytest.mark.usefixtures("short_graces")
@pytest.mark.parametrize("closes", [False, True], ids=["dies", "is-closed"])
@in_real_time
async def test_a_process_that_left_the_group_with_our_pipes_does_not_hold_up_the_end(
    closes: bool,
) -> None:
    then = "time.sleep(60)" if closes else "time.sleep(0.05); os._exit(6)"
    command = with_grandchild("", then, ", start_new_session=True")
    process, recorder = await started(command, close_timeouts=QUICK)
    outsider = await grandchild_of(recorder, b"")
    process.write(b"x" * (2 * HIGH_WATER))  # which it never reads
    try:
        if not closes:
            error = await recorder.end()
            assert isinstance(error, ProcessEnded)
            assert error.exit_code == 6
        await process.close()
        assert len(recorder.errors) == 1
        assert not alive(process.pid)
    finally:
        os.kill(outsider, signal.SIGKILL)


@in_real_time
async def test_closing_again_and_at_once_is_one_close() -> None:
    process, recorder = await ready(python(STAY), close_timeouts=QUICK)
    await asyncio.gather(process.close(), process.close(), process.close())
    await process.close()
    process.write(b"dropped")
    process.pause_reading()
    process.resume_reading()
    assert recorder.calls == ["ended"]


@in_real_time
async def test_nothing_is_received_after_close() -> None:
    source = SAY_READY + UNTIL_EOF + "os.write(1, b'afterwards')"
    process, recorder = await ready(python(source))
    await process.close()
    assert recorder.data == READY
    assert process.exit_code == 0


@in_real_time
async def test_a_process_closed_before_its_start_reports_the_end_when_started() -> None:
    process = await Process.spawn(["cat"])
    await process.close()
    recorder = Recorder()
    process.start(recorder)
    assert await recorder.end() is None


@in_real_time
async def test_a_close_that_is_cancelled_still_ends_the_group() -> None:
    command = with_grandchild(DEAF, DEAF + "time.sleep(60)")
    process, recorder = await started(command, close_timeouts=QUICK)
    grandchild = await grandchild_of(recorder)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.close(), 0.01)
    await process.close()
    assert not alive(process.pid)
    assert gone(grandchild)


def test_a_close_that_the_end_of_the_program_cancels_kills_at_once() -> None:
    pids: list[int] = []

    async def main() -> None:
        command = with_grandchild(DEAF, DEAF + "time.sleep(60)")
        process, recorder = await started(command, close_timeouts=(30, 30, 2))
        pids.extend([process.pid, await grandchild_of(recorder)])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.close(), 0.01)

    within = spends(0.5)
    run(main())
    assert within(2)
    assert all(gone(pid) for pid in pids)
