"""This process's own descriptors as a transport, whatever is at their other end."""

import asyncio
import os
import pty
import socket
import subprocess
import sys
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_time import PATIENCE, in_real_time, run
from tests.support.receiver import Recorder
from twofold.transport import stdio
from twofold.transport.base import HIGH_WATER, Transport
from twofold.transport.stdio import (
    PIECE,
    ClaimedStdio,
    Stdio,
    StdioLost,
    StdioUnavailable,
)

WHOLE = bytes(range(256)) * 4096


@pytest.fixture(autouse=True)
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []


def started(read_fd: int, write_fd: int, **options: Any) -> tuple[Stdio, Recorder]:
    transport = Stdio.from_fds(read_fd, write_fd, **options)
    recorder = Recorder()
    transport.start(recorder)
    return transport, recorder


async def read_all(fd: int) -> bytes:
    """What comes out of `fd` until its end, without holding up the event loop."""
    return await asyncio.to_thread(lambda: b"".join(iter(lambda: os.read(fd, PIECE), b"")))


async def read_exactly(fd: int, size: int) -> bytes:
    def read() -> bytes:
        data = b""
        while len(data) < size:
            data += os.read(fd, size - len(data))
        return data

    return await asyncio.to_thread(read)


class Ends:
    """A transport on two pipes, and the other ends of them."""

    def __init__(self, **options: Any) -> None:
        read_fd, self.to_it = os.pipe()
        self.from_it, write_fd = os.pipe()
        self.transport = Stdio.from_fds(read_fd, write_fd, **options)
        self.recorder = Recorder()
        self.started: Transport = self.transport

    @classmethod
    def started_at_once(cls) -> "Ends":
        ends = cls()
        ends.transport.start(ends.recorder)
        return ends

    async def finish(self) -> None:
        await self.transport.close()
        self.close()

    def close(self) -> None:
        for fd in {self.to_it, self.from_it} - {-1}:
            os.close(fd)
        self.to_it = self.from_it = -1

    def end_input(self) -> None:
        os.close(self.to_it)
        self.to_it = -1

    def stop_reading(self) -> None:
        os.close(self.from_it)
        self.from_it = -1


# ---- every kind of descriptor


@in_real_time
async def test_pipes_carry_both_ways_and_end() -> None:
    ends = Ends()
    os.write(ends.to_it, b"before the start\n")
    ends.transport.start(ends.recorder)
    assert ends.recorder.data == b"", "called from inside start"
    await ends.recorder.until(lambda: ends.recorder.data == b"before the start\n")
    ends.transport.write(b"answer\n")
    assert await read_exactly(ends.from_it, 7) == b"answer\n"
    ends.end_input()
    assert await ends.recorder.end() is None
    ends.transport.write(b"after the end of the input\n")
    await ends.transport.close()
    assert await read_all(ends.from_it) == b"after the end of the input\n"
    assert ends.recorder.calls == ["ended"]
    ends.close()


@in_real_time
async def test_one_socket_carries_both_ways() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        fd = ours.detach()
        transport, recorder = started(fd, fd)
        theirs.sendall(b"question\n")
        await recorder.until(lambda: recorder.data == b"question\n")
        transport.write(b"answer\n")
        assert await asyncio.to_thread(theirs.recv, 99) == b"answer\n"
        theirs.shutdown(socket.SHUT_WR)
        assert await recorder.end() is None
        await transport.close()
        assert theirs.recv(99) == b"", "it was not closed"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


@in_real_time
async def test_a_terminal_serves_and_gets_its_flags_back() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    # the shell of the user shares the terminal in just this way
    read_fd, write_fd = os.dup(slave), os.dup(slave)
    transport, recorder = started(read_fd, write_fd)
    os.write(master, b"question\n")
    await recorder.until(lambda: recorder.data == b"question\n")
    transport.write(b"answer\n")
    assert await read_exactly(master, 7) == b"answer\n"
    assert not os.get_blocking(slave)
    await transport.close()
    assert os.get_blocking(slave)
    os.close(slave)
    os.close(master)


@in_real_time
async def test_flags_that_were_set_before_stay_set() -> None:
    from_it, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    kept = os.dup(write_fd)
    transport = Stdio.from_fds(os.open(os.devnull, os.O_RDONLY), write_fd)
    await transport.close()
    assert not os.get_blocking(kept)
    os.close(kept)
    os.close(from_it)


@pytest.mark.parametrize("side", [0, 1], ids=["master", "slave"])
@in_real_time
async def test_a_terminal_that_hangs_up_is_the_end_and_no_error(side: int) -> None:
    sides = pty.openpty()
    tty.setraw(sides[1])
    transport, recorder = started(sides[side], os.dup(sides[side]))
    os.close(sides[1 - side])
    assert await recorder.end() is None
    await transport.close()


def test_plain_files_are_read_in_pieces_and_written(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(WHOLE)

    async def main() -> None:
        read_fd = os.open(source, os.O_RDONLY)
        write_fd = os.open(target, os.O_WRONLY | os.O_CREAT)
        transport, recorder = started(read_fd, write_fd)
        assert await recorder.end() is None
        assert recorder.data == WHOLE
        assert recorder.largest <= PIECE
        transport.write(WHOLE)
        transport.write(b"end")
        await transport.close()

    run(main())
    assert target.read_bytes() == WHOLE + b"end"


@in_real_time
async def test_dev_null_is_at_its_end_and_accepts_every_write() -> None:
    read_fd, write_fd = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
    transport, recorder = started(read_fd, write_fd)
    transport.write(WHOLE)
    assert await recorder.end() is None
    await transport.close()
    assert recorder.calls.count("pause_writing") == recorder.calls.count("resume_writing")


@in_real_time
async def test_an_input_that_cannot_be_read_raises_with_the_reason(tmp_path: Path) -> None:
    read_fd, write_fd = os.open(tmp_path, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
    transport, recorder = started(read_fd, write_fd)
    error = await recorder.end()
    assert isinstance(error, StdioLost)
    assert (error.stream, error.reason) == ("input", "Is a directory")
    assert "read from standard input any more: Is a directory" in str(error)
    await transport.close()


# ---- waiting for each other


def source_of(kind: str, tmp_path: Path) -> tuple[int, Callable[[], None]]:
    """A descriptor out of which `WHOLE` comes, and what to do with it when done."""
    if kind == "file":
        (tmp_path / "in").write_bytes(WHOLE)
        return os.open(tmp_path / "in", os.O_RDONLY), lambda: None
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    fd = os.dup(child.stdout.fileno())
    child.stdout.close()
    # more than a pipe holds: the writer has to wait as long as we do
    feeder = subprocess.Popen([sys.executable, "-c", FEED], stdout=child.stdin)
    child.stdin.close()

    def done() -> None:
        assert feeder.wait(PATIENCE) == 0
        assert child.wait(PATIENCE) == 0

    return fd, done


FEED = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)"


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_a_pause_holds_everything_back_and_loses_nothing(tmp_path: Path, kind: str) -> None:
    read_fd, done = source_of(kind, tmp_path)

    async def main() -> None:
        transport = Stdio.from_fds(read_fd, os.open(os.devnull, os.O_WRONLY))
        recorder = Recorder(on_data=transport.pause_reading)
        transport.start(recorder)
        await recorder.until(lambda: recorder.pieces == 1)
        while not recorder.errors:
            pieces = recorder.pieces
            for _ in range(10):
                await asyncio.sleep(0)
            assert recorder.pieces == pieces
            transport.resume_reading()
            await recorder.until(lambda: recorder.pieces > pieces or bool(recorder.errors))  # noqa: B023
            assert recorder.pieces <= pieces + 1
        assert recorder.errors == [None]
        assert recorder.data == WHOLE
        await transport.close()

    run(main())
    done()


@in_real_time
async def test_a_pause_before_the_start_holds() -> None:
    ends = Ends()
    os.write(ends.to_it, b"x")
    ends.transport.pause_reading()
    ends.transport.start(ends.recorder)
    for _ in range(10):
        await asyncio.sleep(0)
    assert ends.recorder.data == b""
    ends.transport.resume_reading()
    await ends.recorder.until(lambda: ends.recorder.data == b"x")
    ends.end_input()
    await ends.recorder.end()
    await ends.finish()


@in_real_time
async def test_a_peer_that_does_not_read_makes_the_writer_wait_until_it_does() -> None:
    ends = Ends.started_at_once()
    sent = 0
    while not ends.recorder.calls:
        ends.transport.write(WHOLE[:PIECE])
        sent += PIECE
    assert ends.recorder.calls == ["pause_writing"]
    assert HIGH_WATER < sent <= HIGH_WATER + 4 * PIECE
    ends.transport.write(WHOLE)
    reading = asyncio.create_task(read_exactly(ends.from_it, sent + len(WHOLE)))
    await ends.recorder.until(lambda: ends.recorder.calls == ["pause_writing", "resume_writing"])
    data = await reading
    assert data == WHOLE[:PIECE] * (sent // PIECE) + WHOLE
    ends.end_input()
    await ends.recorder.end()
    await ends.finish()


# ---- the end


@in_real_time
async def test_closing_sends_what_waits() -> None:
    ends = Ends.started_at_once()
    ends.end_input()
    await ends.recorder.end()
    ends.transport.write(WHOLE)
    closing = asyncio.create_task(ends.transport.close())
    assert await read_all(ends.from_it) == WHOLE
    await closing
    ends.close()


@in_real_time
async def test_closing_is_bounded_when_the_other_side_does_not_read() -> None:
    ends = Ends(flush_timeout=0.05)
    ends.transport.start(ends.recorder)
    ends.transport.write(WHOLE)
    await asyncio.wait_for(ends.transport.close(), 2)
    assert await ends.recorder.end() is None
    sent = await read_all(ends.from_it)
    assert 0 < len(sent) < len(WHOLE)
    assert WHOLE.startswith(sent)
    ends.close()


@in_real_time
async def test_closing_twice_and_at_once_is_one_close_and_drops_what_comes_later() -> None:
    ends = Ends.started_at_once()
    await asyncio.gather(ends.transport.close(), ends.transport.close())
    await ends.transport.close()
    ends.transport.write(b"dropped")
    ends.transport.pause_reading()
    ends.transport.resume_reading()
    assert ends.recorder.calls == ["ended"]
    assert await read_all(ends.from_it) == b""
    ends.close()


@in_real_time
async def test_nothing_is_received_after_close() -> None:
    ends = Ends.started_at_once()
    os.write(ends.to_it, b"too late")
    await ends.transport.close()
    assert ends.recorder.data == b""
    assert ends.recorder.errors == [None]
    ends.close()


@in_real_time
async def test_a_transport_closed_before_its_start_reports_the_end_when_started() -> None:
    ends = Ends()
    await ends.transport.close()
    ends.transport.start(ends.recorder)
    assert await ends.recorder.end() is None
    ends.close()


def test_a_close_that_is_cancelled_gives_the_descriptors_back_all_the_same() -> None:
    kept: list[int] = []

    async def main() -> None:
        ends = Ends(flush_timeout=30)
        ends.transport.start(ends.recorder)
        ends.transport.write(WHOLE)
        kept.extend([ends.to_it, ends.from_it])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ends.transport.close(), 0.01)

    run(main())
    with pytest.raises(BrokenPipeError):
        os.write(kept[0], b"nobody reads this pipe any more")
    while os.read(kept[1], PIECE):
        pass  # and the other has no writer
    for fd in kept:
        os.close(fd)


@in_real_time
async def test_a_client_that_stops_reading_ends_it_after_the_messages_it_sent() -> None:
    ends = Ends.started_at_once()
    ends.stop_reading()
    os.write(ends.to_it, b"last words")
    for _ in range(10):
        ends.transport.write(b"nobody reads it")
    ends.end_input()
    error = await ends.recorder.end()
    assert ends.recorder.data == b"last words"
    assert error is None or isinstance(error, StdioLost)
    await ends.finish()


@pytest.mark.parametrize("early", [False, True], ids=["started", "before-start"])
@in_real_time
async def test_a_client_that_stops_reading_but_stays_is_lost(
    monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    monkeypatch.setattr(stdio, "GRACE", 0.05)
    ends = Ends()
    if not early:
        ends.transport.start(ends.recorder)
    ends.stop_reading()
    ends.transport.write(b"nobody reads it")
    if early:
        ends.transport.start(ends.recorder)
    error = await ends.recorder.end()
    assert isinstance(error, StdioLost)
    assert (error.stream, error.reason) == ("output", "Broken pipe")
    ends.end_input()
    await ends.finish()


@in_real_time
async def test_a_writer_that_waits_is_released_when_the_output_breaks() -> None:
    ends = Ends.started_at_once()
    ends.transport.write(WHOLE)
    assert ends.recorder.calls == ["pause_writing"]
    ends.stop_reading()
    await ends.recorder.until(lambda: ends.recorder.calls == ["pause_writing", "resume_writing"])
    ends.end_input()
    assert isinstance(await ends.recorder.end(), StdioLost)
    await ends.finish()


# ---- our own stdin and stdout


HEAD = """
import asyncio, os, subprocess, sys
from tests.support.receiver import Recorder
from twofold.transport.stdio import Stdio
print("printed before")
async def main():
    transport, recorder = await Stdio.open(), Recorder()
    transport.start(recorder)
    {}
asyncio.run(main())
"""
ECHO = """
    await recorder.end()
    transport.write(bytes(recorder.data))
    await transport.close()
"""
STRAY = """
    print("printed")
    os.system("echo from a shell")
    os.write(1, b"written\\n")
    subprocess.run(["cat"])  # it has nothing to read
    assert sys.stdin.read() == ""
    print("no newline", end="")
"""
AFTER = "    print('printed after')"


def agent(body: str, shell: str = "", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a program that speaks over its stdio, with redirections of the shell."""
    # what is printed waits until it is flushed
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", HEAD.format(body)]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": env, **options}
    root = Path(__file__).parents[2]
    return subprocess.run(command, check=False, cwd=root, timeout=PATIENCE, **options)


def test_stray_output_stays_off_the_protocol_and_appears_on_stderr() -> None:
    done = agent(STRAY + ECHO + AFTER, input=b"question\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"question\nprinted after\n"
    assert done.stderr.split(b"\n") == [
        b"printed before",
        b"printed",
        b"from a shell",
        b"written",
        b"no newline",
    ]


def test_stray_output_goes_nowhere_without_a_stderr() -> None:
    done = agent(STRAY + ECHO, "2>&-", input=b"question\n")
    assert (done.returncode, done.stdout) == (0, b"question\n")


def test_stdin_and_stdout_may_be_files(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(WHOLE)
    done = agent(ECHO, f"< '{source}' > '{target}'")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"printed before\n")
    assert target.read_bytes() == WHOLE


def test_stdin_and_stdout_may_be_dev_null() -> None:
    done = agent(ECHO, "< /dev/null > /dev/null")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"printed before\n")


@pytest.mark.parametrize(("closed", "name"), [("<&-", "input"), (">&-", "output")])
def test_a_closed_stdio_is_refused_with_a_clear_text(closed: str, name: str) -> None:
    done = agent(ECHO, closed, input=b"")
    assert done.returncode == 1
    last = done.stderr.decode().strip().split("\n")[-1]
    assert f"StdioUnavailable: Standard {name} is closed" in last
    assert "started by its client" in last


def test_what_is_claimed_is_private_given_back_and_claimed_only_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = os.fstat(0), os.fstat(1)
    claimed = ClaimedStdio()
    try:
        assert min(claimed.read_fd, claimed.write_fd) > 2
        assert not os.get_inheritable(claimed.read_fd)
        assert not os.get_inheritable(claimed.write_fd)
        assert os.path.sameopenfile(1, 2)
        assert os.read(0, 1) == b""
        os.write(claimed.write_fd, b"protocol\n")
        os.write(1, b"stray\n")
        with pytest.raises(StdioUnavailable, match="already carry a conversation"):
            ClaimedStdio()
    finally:
        claimed.release()
    assert capfd.readouterr() == ("protocol\n", "stray\n")
    assert [os.path.samestat(before[fd], os.fstat(fd)) for fd in (0, 1)] == [True, True]
    claimed.release()  # a second time does nothing
    ClaimedStdio().release()
