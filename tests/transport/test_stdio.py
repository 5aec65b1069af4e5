"""This process's own descriptors as a transport, whatever stands at their other end."""

import asyncio
import os
import pty
import socket
import subprocess
import sys
import tty
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.receiver import PATIENCE, Recorder
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


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE))


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


def test_pipes_carry_both_ways_and_end() -> None:
    async def main() -> None:
        ends = Ends()
        os.write(ends.to_it, b"before the start\n")
        ends.transport.start(ends.recorder)
        assert ends.recorder.data == b"", "told from inside start"
        await ends.recorder.until(lambda: ends.recorder.data == b"before the start\n")
        ends.transport.write(b"answer\n")
        assert await read_exactly(ends.from_it, 7) == b"answer\n"
        ends.end_input()
        assert await ends.recorder.end() is None
        ends.transport.write(b"after the end of the input\n")
        await ends.transport.close()
        assert await read_all(ends.from_it) == b"after the end of the input\n"
        assert ends.recorder.told == ["ended"]
        ends.close()

    run(main())


def test_one_socket_carries_both_ways() -> None:
    async def main() -> None:
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

    run(main())


def test_a_terminal_serves_and_gets_its_flags_back() -> None:
    async def main() -> None:
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

    run(main())


def test_flags_that_were_set_before_stay_set() -> None:
    async def main() -> None:
        from_it, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        kept = os.dup(write_fd)
        transport = Stdio.from_fds(os.open(os.devnull, os.O_RDONLY), write_fd)
        await transport.close()
        assert not os.get_blocking(kept)
        os.close(kept)
        os.close(from_it)

    run(main())


@pytest.mark.parametrize("side", [0, 1], ids=["master", "slave"])
def test_a_terminal_that_hangs_up_is_the_end_and_no_error(side: int) -> None:
    async def main() -> None:
        sides = pty.openpty()
        tty.setraw(sides[1])
        transport, recorder = started(sides[side], os.dup(sides[side]))
        os.close(sides[1 - side])
        assert await recorder.end() is None
        await transport.close()

    run(main())


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


def test_dev_null_has_nothing_to_say_and_takes_everything() -> None:
    async def main() -> None:
        read_fd, write_fd = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
        transport, recorder = started(read_fd, write_fd)
        transport.write(WHOLE)
        assert await recorder.end() is None
        await transport.close()
        assert recorder.told.count("pause_writing") == recorder.told.count("resume_writing")

    run(main())


def test_an_input_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        read_fd, write_fd = os.open(tmp_path, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
        transport, recorder = started(read_fd, write_fd)
        error = await recorder.end()
        assert isinstance(error, StdioLost)
        assert (error.stream, error.reason) == ("input", "Is a directory")
        assert "read from standard input any more: Is a directory" in str(error)
        await transport.close()

    run(main())


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


def test_a_pause_before_the_start_holds() -> None:
    async def main() -> None:
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
        await ends.transport.close()
        ends.close()

    run(main())


def test_a_peer_that_does_not_read_makes_the_writer_wait_until_it_does() -> None:
    async def main() -> None:
        ends = Ends()
        ends.transport.start(ends.recorder)
        sent = 0
        while not ends.recorder.told:
            ends.transport.write(WHOLE[:PIECE])
            sent += PIECE
        assert ends.recorder.told == ["pause_writing"]
        assert HIGH_WATER < sent <= HIGH_WATER + 4 * PIECE
        ends.transport.write(WHOLE)
        reading = asyncio.create_task(read_exactly(ends.from_it, sent + len(WHOLE)))
        await ends.recorder.until(lambda: ends.recorder.told == ["pause_writing", "resume_writing"])
        data = await reading
        assert data == WHOLE[:PIECE] * (sent // PIECE) + WHOLE
        ends.end_input()
        await ends.recorder.end()
        await ends.transport.close()
        ends.close()

    run(main())


# ---- the end


def test_closing_sends_what_waits() -> None:
    async def main() -> None:
        ends = Ends()
        ends.transport.start(ends.recorder)
        ends.end_input()
        await ends.recorder.end()
        ends.transport.write(WHOLE)
        closing = asyncio.create_task(ends.transport.close())
        assert await read_all(ends.from_it) == WHOLE
        await closing
        ends.close()

    run(main())


def test_closing_is_bounded_when_nobody_reads() -> None:
    async def main() -> None:
        ends = Ends(flush_timeout=0.05)
        ends.transport.start(ends.recorder)
        ends.transport.write(WHOLE)
        await asyncio.wait_for(ends.transport.close(), 2)
        assert await ends.recorder.end() is None
        sent = await read_all(ends.from_it)
        assert 0 < len(sent) < len(WHOLE)
        assert WHOLE.startswith(sent)
        ends.close()

    run(main())


def test_closing_twice_and_at_once_is_one_close_and_drops_what_comes_later() -> None:
    async def main() -> None:
        ends = Ends()
        ends.transport.start(ends.recorder)
        await asyncio.gather(ends.transport.close(), ends.transport.close())
        await ends.transport.close()
        ends.transport.write(b"dropped")
        ends.transport.pause_reading()
        ends.transport.resume_reading()
        assert ends.recorder.told == ["ended"]
        assert await read_all(ends.from_it) == b""
        ends.close()

    run(main())


def test_nothing_is_received_after_close() -> None:
    async def main() -> None:
        ends = Ends()
        ends.transport.start(ends.recorder)
        os.write(ends.to_it, b"too late")
        await ends.transport.close()
        assert ends.recorder.data == b""
        assert ends.recorder.errors == [None]
        ends.close()

    run(main())


def test_a_transport_closed_before_its_start_tells_the_end_when_started() -> None:
    async def main() -> None:
        ends = Ends()
        await ends.transport.close()
        ends.transport.start(ends.recorder)
        assert await ends.recorder.end() is None
        ends.close()

    run(main())


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
        pass  # and nobody writes to the other
    for fd in kept:
        os.close(fd)


def test_a_client_that_stops_reading_ends_it_after_what_it_had_said() -> None:
    async def main() -> None:
        ends = Ends()
        ends.transport.start(ends.recorder)
        ends.stop_reading()
        os.write(ends.to_it, b"last words")
        for _ in range(10):
            ends.transport.write(b"nobody hears it")
        ends.end_input()
        error = await ends.recorder.end()
        assert ends.recorder.data == b"last words"
        assert error is None or isinstance(error, StdioLost)
        await ends.transport.close()
        ends.close()

    run(main())


@pytest.mark.parametrize("early", [False, True], ids=["started", "before-start"])
def test_a_client_that_stops_reading_but_stays_is_lost(
    monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    monkeypatch.setattr(stdio, "GRACE", 0.05)

    async def main() -> None:
        ends = Ends()
        if not early:
            ends.transport.start(ends.recorder)
        ends.stop_reading()
        ends.transport.write(b"nobody hears it")
        if early:
            ends.transport.start(ends.recorder)
        error = await ends.recorder.end()
        assert isinstance(error, StdioLost)
        assert (error.stream, error.reason) == ("output", "Broken pipe")
        ends.end_input()
        await ends.transport.close()
        ends.close()

    run(main())


def test_a_writer_that_waits_is_released_when_the_output_breaks() -> None:
    async def main() -> None:
        ends = Ends()
        ends.transport.start(ends.recorder)
        ends.transport.write(WHOLE)
        assert ends.recorder.told == ["pause_writing"]
        ends.stop_reading()
        await ends.recorder.until(lambda: ends.recorder.told == ["pause_writing", "resume_writing"])
        ends.end_input()
        assert isinstance(await ends.recorder.end(), StdioLost)
        await ends.transport.close()
        ends.close()

    run(main())


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


def test_files_may_stand_for_stdin_and_stdout(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(WHOLE)
    done = agent(ECHO, f"< '{source}' > '{target}'")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"printed before\n")
    assert target.read_bytes() == WHOLE


def test_nothing_may_stand_for_stdin_and_stdout() -> None:
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
