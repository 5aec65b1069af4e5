"""What a client runs for its agent: its output, its end, and that nothing of it stays behind."""

import asyncio
import base64
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.real_time import in_real_time, run
from twofold.client import terminals as terminal_module
from twofold.client.terminals import PIECE, Output, Terminal, Terminals, Update
from twofold.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    RequestError,
)
from twofold.session import Session
from twofold.transport import groups
from twofold.wire import v1, v2
from twofold.wire.base import UNSET

T = TypeVar("T")
LIMIT = 10.0
FOREVER = "sleep 1000"


async def until(condition: Callable[[], bool]) -> None:
    """Poll for what is not reported, such as the end of a process that is not a child."""
    while not condition():  # noqa: ASYNC110  # there is no event
        await asyncio.sleep(0.005)


def children() -> set[int]:
    """Our child processes, zombies included."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = entry.read_text().rpartition(")")[2].split()[1]
        except OSError:  # it has just ended
            continue
        if int(parent) == os.getpid():
            found.add(int(entry.parent.name))
    return found


def descriptors() -> int:
    fds = Path("/proc/self/fd")
    return len(list(fds.iterdir())) if fds.exists() else 0


def is_running(pid: int) -> bool:
    """Whether a process runs; one that only waits to be buried by init does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()


class View:
    """What `on_update` was called with, by terminal."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self._changed = asyncio.Event()

    def __call__(self, update: Update) -> None:
        self.updates.append(update)
        self._changed.set()

    def data(self, terminal_id: str) -> bytes:
        return b"".join(
            base64.b64decode(update.data, validate=True)
            for update in self.updates
            if isinstance(update, v2.TerminalOutputChunk) and update.terminal_id == terminal_id
        )

    def exits(self, terminal_id: str) -> list[v2.TerminalExitStatus]:
        return [
            update.exit_status
            for update in self.updates
            if isinstance(update, v2.TerminalUpdate)
            and update.terminal_id == terminal_id
            and isinstance(update.exit_status, v2.TerminalExitStatus)
        ]

    async def shows(self, terminal_id: str, text: bytes) -> bytes:
        """Wait until the output has `text` in it."""
        while text not in (data := self.data(terminal_id)):
            self._changed.clear()
            await self._changed.wait()
        return data


class Desk:
    """Terminals, as an agent would ask for them."""

    def __init__(self, terminals: Terminals, view: View) -> None:
        self.terminals = terminals
        self.view = view

    async def create(self, command: str, *args: str, **options: Any) -> str:
        request = v1.CreateTerminalRequest(
            session_id="s", command=command, args=list(args) if args else UNSET, **options
        )
        return (await self.terminals.create(request)).terminal_id

    async def sh(self, line: str, **options: Any) -> str:
        return await self.create("/bin/sh", "-c", line, **options)

    async def wait(self, terminal_id: str) -> v1.TerminalExitStatus:
        return await self.terminals.wait_for_exit(named(terminal_id))

    def output(self, terminal_id: str) -> v1.TerminalOutputResponse:
        return self.terminals.output(named(terminal_id))

    def kill(self, terminal_id: str) -> None:
        assert self.terminals.kill(named(terminal_id)) == v1.Empty()

    def release(self, terminal_id: str) -> None:
        assert self.terminals.release(named(terminal_id)) == v1.Empty()

    async def text(self, command: str, *args: str, **options: Any) -> str:
        """All that a command writes until it ends."""
        terminal_id = await self.create(command, *args, **options)
        await self.wait(terminal_id)
        return self.output(terminal_id).output


def named(terminal_id: str) -> v1.TerminalRequest:
    return v1.TerminalRequest(session_id="s", terminal_id=terminal_id)


@asynccontextmanager
async def desk(*roots: Path, **options: Any) -> AsyncIterator[Desk]:
    """Terminals that leave nothing behind: no process, no descriptor, no thread."""
    groups.guard(os.getpid())  # what watches all processes is started once
    groups.unguard(os.getpid())
    before, opened, threads = children(), descriptors(), threading.active_count()
    view = View()
    terminals = Terminals(roots, **{"on_update": view, **options})
    try:
        yield Desk(terminals, view)
    finally:
        await terminals.close()
    assert children() <= before
    assert descriptors() <= opened
    assert threading.active_count() <= threads


@contextmanager
def gate(folder: Path) -> Iterator[Callable[[], None]]:
    """A pipe called `gate` on which a command can wait until it is let go."""
    os.mkfifo(folder / "gate")
    opened = os.open(folder / "gate", os.O_RDWR)

    def let_go() -> None:
        os.write(opened, b"go\n")

    yield let_go
    os.close(opened)


async def refusal(attempt: Awaitable[object]) -> RequestError:
    with pytest.raises(RequestError) as raised:
        await attempt
    return raised.value


# ---- what a command writes and how it ends ---------------------------------------------------


@in_real_time
async def test_a_command_is_shown_from_its_start_to_its_end(tmp_path: Path) -> None:
    here = str(tmp_path)
    async with desk(tmp_path) as at:
        line = r"printf 'out\377\000'; printf err >&2; printf out; exit 3"
        one = await at.sh(line)
        status = await at.wait(one)
        assert status == v1.TerminalExitStatus(exit_code=3, signal=None)
        assert at.output(one) == v1.TerminalOutputResponse(
            output="out\ufffd\0errout", truncated=False, exit_status=status
        )
        first, *chunks, last = at.view.updates
        assert isinstance(first, v2.TerminalUpdate)
        assert first.terminal_id == one
        assert first.cwd == here
        assert isinstance(first.command, str)
        assert first.command.startswith("/bin/sh -c 'printf ")
        assert at.view.data(one) == b"out\xff\0errout"
        assert all(isinstance(chunk, v2.TerminalOutputChunk) for chunk in chunks)
        assert last == v2.TerminalUpdate(
            terminal_id=one, exit_status=v2.TerminalExitStatus(exit_code=3, signal=None)
        )


ENDINGS = [
    ("exit 0", 0, None),
    ("exit 1", 1, None),
    ("exit 255", 255, None),
    ("kill -TERM $$", None, "SIGTERM"),
    ("kill -KILL $$", None, "SIGKILL"),
    ("kill -USR1 $$", None, "SIGUSR1"),
    ("no-such-command-anywhere 2>/dev/null", 127, None),
]


@pytest.mark.parametrize("notified", [True, False], ids=["notified", "polling"])
@pytest.mark.parametrize(("line", "code", "by"), ENDINGS)
@in_real_time
async def test_exit_codes_and_signals_are_reported(
    tmp_path: Path,
    line: str,
    code: int | None,
    by: str | None,
    notified: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not notified:
        monkeypatch.setattr(terminal_module, "_exit_watch", lambda _: None)
    async with desk(tmp_path) as at:
        one = await at.sh(line)
        assert await at.wait(one) == v1.TerminalExitStatus(exit_code=code, signal=by)
        assert at.view.exits(one) == [v2.TerminalExitStatus(exit_code=code, signal=by)]


@in_real_time
async def test_while_it_runs_there_is_output_and_no_exit_status(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        one = await at.sh(f"echo started; {FOREVER}")
        await at.view.shows(one, b"started\n")
        assert at.output(one) == v1.TerminalOutputResponse(output="started\n", truncated=False)
        assert at.view.exits(one) == []


@in_real_time
async def test_all_output_comes_before_the_exit(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        one = await at.sh("head -c 700000 /dev/zero")
        await at.wait(one)
        assert len(at.view.data(one)) == 700_000
        assert isinstance(at.view.updates[-1], v2.TerminalUpdate)
        assert len(at.output(one).output) == 700_000


async def ended_unseen(at: Desk, line: str) -> tuple[str, Terminal]:
    """A terminal whose command has ended, while the event loop had no time to notice."""
    one = await at.sh(line)
    terminal = at.terminals._terminals[one]
    os.waitid(os.P_PID, terminal._process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    return one, terminal


@in_real_time
async def test_what_the_pipe_still_holds_is_read_before_the_exit_is_reported(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as at:
        one, terminal = await ended_unseen(at, "head -c 60000 /dev/zero")
        terminal._look()
        assert len(at.view.data(one)) == 60_000
        assert at.view.updates[-1].exit_status is not UNSET  # type: ignore[union-attr]


@in_real_time
async def test_a_pipe_that_never_empties_does_not_hold_up_the_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = iter([b"y\n"] * 10_000)
    async with desk(tmp_path) as at:
        one, terminal = await ended_unseen(at, "exit 4")
        with monkeypatch.context() as flooded:
            flooded.setattr(os, "read", lambda *_: next(pieces))
            terminal._look()
        assert at.view.exits(one) == [v2.TerminalExitStatus(exit_code=4, signal=None)]


@contextmanager
def typed(text: bytes) -> Iterator[None]:
    """A person typed `text` into the program that the tests run in."""
    reader, writer = os.pipe()
    os.write(writer, text)
    os.close(writer)
    kept = os.dup(0)
    os.dup2(reader, 0)
    os.close(reader)
    yield
    os.dup2(kept, 0)
    os.close(kept)


def test_a_command_gets_no_input_and_no_tty(tmp_path: Path) -> None:
    async def story() -> None:
        async with desk(tmp_path) as at:
            assert await at.text("cat") == ""
            assert await at.text("/bin/sh", "-c", "test -t 1 || echo none") == "none\n"

    with typed(b"not for commands"):
        run(story())


def test_a_command_that_closes_its_output_is_still_waited_for(tmp_path: Path) -> None:
    async def story(let_go: Callable[[], None]) -> None:
        async with desk(tmp_path) as at:
            one = await at.sh("echo last; exec >&- 2>&-; read go < gate; exit 5")
            await at.view.shows(one, b"last")
            waiting = asyncio.ensure_future(at.wait(one))
            let_go()
            assert (await waiting).exit_code == 5

    with gate(tmp_path) as let_go:
        run(story(let_go))


@in_real_time
async def test_many_commands_run_at_the_same_time_and_are_not_mixed_up(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        ids = [await at.sh(f"echo {number}; exit {number}") for number in range(40)]
        statuses = await asyncio.gather(*map(at.wait, ids))
        assert [status.exit_code for status in statuses] == list(range(40))
        assert [at.output(one).output for one in ids] == [f"{n}\n" for n in range(40)]
        assert len(set(ids)) == 40


# ---- what is run -----------------------------------------------------------------------------


@in_real_time
async def test_arguments_are_passed_as_they_are(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        args = ["%s|", "two words", "$HOME", "*", "; exit 1", "'", ""]
        assert await at.text("printf", *args) == "two words|$HOME|*|; exit 1|'||"
        update = at.view.updates[0]
        assert isinstance(update, v2.TerminalUpdate)
        assert update.command == """printf '%s|' 'two words' '$HOME' '*' '; exit 1' ''"'"'' ''"""


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("echo one two", "one two\n"),
        ("echo one && echo two | tr o 0", "one\ntw0\n"),
        ("A=1;echo $A", "1\n"),
        ("echo\ttab", "tab\n"),
        ("echo 'quoted  words' >&2", "quoted  words\n"),
        ("pwd", None),
    ],
)
@pytest.mark.parametrize("args", [UNSET, []], ids=["no args", "empty args"])
@in_real_time
async def test_a_whole_line_without_arguments_goes_to_the_shell(
    tmp_path: Path, line: str, text: str | None, args: Any
) -> None:
    expected = text or f"{tmp_path}\n"
    async with desk(tmp_path) as at:
        request = v1.CreateTerminalRequest(session_id="s", command=line, args=args)
        one = (await at.terminals.create(request)).terminal_id
        assert (await at.wait(one)).exit_code == 0
        assert at.output(one).output == expected
        update = at.view.updates[0]
        assert isinstance(update, v2.TerminalUpdate)
        assert update.command == line


@pytest.mark.parametrize("name", ["{root}/my tool", "./my tool"])
@in_real_time
async def test_the_path_of_a_program_is_no_line_for_the_shell(tmp_path: Path, name: str) -> None:
    tool = tmp_path / "my tool"
    tool.write_text("#!/bin/sh\necho tool\n")
    tool.chmod(0o755)
    async with desk(tmp_path) as at:
        assert await at.text(name.format(root=tmp_path)) == "tool\n"


def test_the_environment_is_what_was_given_and_what_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECRET", "PASSED", "REMOVED", "OVERRIDDEN"):
        monkeypatch.setenv(name, "ours")
    client = {"REMOVED": None, "OVERRIDDEN": "client", "CLIENT": "client"}
    passed = ["PASSED", "REMOVED", "OVERRIDDEN", "NOWHERE"]

    async def story() -> None:
        async with desk(tmp_path, env=client, pass_env=passed) as at:
            line = "echo ${SECRET-none} $PASSED ${REMOVED-none} $OVERRIDDEN $CLIENT $AGENT"
            assert await at.text(line) == "none ours none client client\n"
            env = [v1.EnvVariable(name="CLIENT", value="agent"), v1.EnvVariable("AGENT", "agent")]
            assert await at.text(line, env=env) == "none ours none client agent agent\n"

    run(story())


def test_a_command_gets_what_any_command_needs_and_no_more_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name != "PATH":
            monkeypatch.delenv(name)
    for name in ("HOME", "LC_ALL", "TERM", "API_KEY", "SSH_AUTH_SOCK", "HTTPS_PROXY", "LCX"):
        monkeypatch.setenv(name, "C")

    async def story() -> None:
        async with desk(tmp_path) as at:
            names = {line.partition("=")[0] for line in (await at.text("env")).splitlines()}
            assert names - {"PWD", "_", "SHLVL"} == {"PATH", "HOME", "LC_ALL", "TERM"}

    run(story())


def test_a_command_runs_in_the_first_root_or_in_the_given_directory(tmp_path: Path) -> None:
    for name in ("one", "two/below"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "one" / "link").symlink_to(tmp_path / "two")
    one, two = (tmp_path / "one").resolve(), (tmp_path / "two").resolve()

    async def story() -> None:
        async with desk(tmp_path / "one", tmp_path / "two") as at:
            for cwd, where in [
                (None, one),
                (UNSET, one),
                (str(two / "below"), two / "below"),
                (str(one / "link" / "below"), two / "below"),
                (str(one / ".." / "two"), two),
            ]:
                assert await at.text("pwd", cwd=cwd) == f"{where}\n"
                update = at.view.updates[0]
                assert isinstance(update, v2.TerminalUpdate)
                assert update.cwd == str(where)
                at.view.updates.clear()

    run(story())


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cwd", "code", "reason"),
    [
        ("{root}/../outside", INVALID_PARAMS, "is outside of the session"),
        ("{root}/link", INVALID_PARAMS, "is outside of the session"),
        ("/", INVALID_PARAMS, "is outside of the session"),
        ("folder", INVALID_PARAMS, "is not absolute"),
        ("", INVALID_PARAMS, "is not absolute"),
        ("{root}/a\0b", INVALID_PARAMS, "cannot be a path"),
        ("{root}/missing", RESOURCE_NOT_FOUND, "is not a directory"),
        ("{root}/file", RESOURCE_NOT_FOUND, "is not a directory"),
    ],
)
@in_real_time
async def test_a_directory_that_is_not_ours_is_refused(
    tmp_path: Path, cwd: str, code: int, reason: str
) -> None:
    (tmp_path / "outside").mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_text("")
    (root / "link").symlink_to(tmp_path / "outside")
    async with desk(root) as at:
        error = await refusal(at.create("pwd", cwd=cwd.format(root=root)))
        assert (error.code, at.view.updates) == (code, [])
        assert reason in error.message


@in_real_time
async def test_a_root_that_is_gone_is_named(tmp_path: Path) -> None:
    async with desk(tmp_path / "gone") as at:
        error = await refusal(at.create("pwd"))
        assert str(tmp_path / "gone") in error.message


@pytest.mark.parametrize(
    ("command", "args", "code", "reason"),
    [
        ("no-such-command-anywhere", ["x"], RESOURCE_NOT_FOUND, "no-such-command-anywhere"),
        ("no-such-command-anywhere", [], RESOURCE_NOT_FOUND, "on the PATH"),
        ("./missing", [], RESOURCE_NOT_FOUND, "./missing"),
        ("./lost", [], RESOURCE_NOT_FOUND, "interpreter"),
        ("./plain", [], INVALID_PARAMS, "may not be executed"),
        ("./text", [], INTERNAL_ERROR, "is no program"),
        (".", [], INVALID_PARAMS, ". is a directory"),
        ("", [], INVALID_PARAMS, "is empty"),
        (" \n", [], INVALID_PARAMS, "is empty"),
        ("echo", ["a\0b"], INVALID_PARAMS, "null byte"),
        ("echo", ["\ud800"], INVALID_PARAMS, "Cannot run"),
        ("echo", ["x" * 5_000_000], INTERNAL_ERROR, "Argument list too long"),
    ],
)
def test_what_cannot_be_started_is_refused_and_leaves_nothing(
    tmp_path: Path, command: str, args: list[str], code: int, reason: str
) -> None:
    for name, mode, text in [
        ("plain", 0o644, ""),
        ("text", 0o755, "just text"),
        ("lost", 0o755, "#!/no/such/interpreter\n"),
    ]:
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)

    async def story() -> None:
        async with desk(tmp_path) as at:
            before = children(), descriptors()
            error = await refusal(at.create(command, *args))
            assert (children(), descriptors()) == before
            assert (error.code, at.view.updates) == (code, [])
            assert reason in error.message
            assert len(error.message) < 1_000

    run(story())


@in_real_time
async def test_an_environment_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        for name in ("A=B", "A\0B"):
            env = [v1.EnvVariable(name=name, value="")]
            assert (await refusal(at.create("env", env=env))).code == INVALID_PARAMS


@in_real_time
async def test_an_unknown_terminal_is_refused_by_everything(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        released = await at.sh("exit 0")
        at.release(released)
        for unknown in ("", "terminal-1", released):

            async def attempt(ask: Callable[[str], Any], unknown: str = unknown) -> None:
                answer = ask(unknown)
                if asyncio.iscoroutine(answer):
                    await answer

            for ask in (at.output, at.wait, at.kill, at.release):
                error = await refusal(attempt(ask))
                assert error.code == RESOURCE_NOT_FOUND
                assert error.data == {"terminalId": unknown}


# ---- how much is kept ------------------------------------------------------------------------

TEXT = "aä€😀zß\n" * 3


@pytest.mark.parametrize("limit", range(len(TEXT.encode()) + 2))
def test_output_is_cut_at_its_beginning_and_between_characters(limit: int) -> None:
    data = TEXT.encode()
    output = Output(limit)
    for byte in data:
        output.add(bytes([byte]))
    text, truncated = output.text(complete=True)
    assert TEXT.endswith(text)
    assert limit - 3 <= len(text.encode()) <= limit or text == TEXT
    assert truncated == (text != TEXT)


@pytest.mark.parametrize("size", [7, 1_000, PIECE, 3 * PIECE])
@pytest.mark.parametrize("limit", [0, 1, 10, PIECE - 1, 2 * PIECE])
def test_the_end_stays_right_and_memory_bounded_when_output_is_dropped(
    size: int, limit: int
) -> None:
    data = ("ä€😀" * (5 * PIECE // 9 + 1)).encode()
    output = Output(limit)
    dropped = 0
    for start in range(0, len(data), size):
        dropped += output.add(data[start : start + size])
        assert len(output._bytes) <= 2 * limit + PIECE + size
    text, truncated = output.text(complete=True)
    assert truncated
    assert dropped
    assert data.endswith(text.encode())
    assert limit - 3 <= len(text.encode()) <= limit


def test_what_is_kept_begins_with_a_whole_character_right_after_dropping() -> None:
    output = Output(10)
    assert output.add("€".encode() * PIECE)
    assert len(output._bytes) == 10
    assert output.kept().decode() == "€€€"
    assert output.text(complete=True) == ("€€€", True)


def test_bytes_that_are_no_text_are_replaced_and_still_within_the_limit() -> None:
    output = Output(10)
    output.add(b"\xff\x80\x80\x80\x80\x80\xffabc")
    text, truncated = output.text(complete=True)
    assert text == "\ufffd\ufffdabc"
    assert truncated


def test_output_that_is_as_long_as_the_limit_is_kept_whole_even_if_it_is_no_text() -> None:
    output = Output(4)
    output.add(b"\x80abc")
    assert output.kept() == b"\x80abc"


def test_half_a_character_is_not_shown_until_the_other_half_is_there(tmp_path: Path) -> None:
    async def story(let_go: Callable[[], None]) -> None:
        async with desk(tmp_path) as at:
            line = r"printf 'a\303'; read go < gate; printf '\244b\303'"
            one = await at.sh(line)
            await at.view.shows(one, b"a\xc3")
            assert at.output(one).output == "a"
            let_go()
            await at.wait(one)
            assert at.output(one).output == "aäb\ufffd"

    with gate(tmp_path) as let_go:
        run(story(let_go))


@pytest.mark.parametrize(
    ("asked", "kept"),
    [(None, 100), (UNSET, 100), (0, 0), (30, 30), (100, 100), (2**64 - 1, 200)],
)
@in_real_time
async def test_the_agent_sets_how_much_output_is_kept_up_to_the_limit_of_the_client(
    tmp_path: Path, asked: Any, kept: int
) -> None:
    limits = {"default_output_limit": 100, "max_output_limit": 200}
    async with desk(tmp_path, **limits) as at:
        one = await at.sh("head -c 1000 /dev/zero | tr '\\0' x", output_byte_limit=asked)
        await at.wait(one)
        output = at.output(one)
        assert (output.output, output.truncated) == ("x" * kept, True)
        assert len(at.view.data(one)) == 1_000


def test_a_flood_keeps_memory_flat_here_and_in_the_view(tmp_path: Path) -> None:
    flood = 24 * 1024 * 1024
    limit = 256 * 1024

    async def story() -> int:
        session = Session("s")
        seen = longest = 0
        enough = asyncio.Event()

        def watch(update: Update) -> None:
            nonlocal seen, longest
            session.apply(update)
            if isinstance(update, v2.TerminalOutputChunk):
                seen += len(update.data) * 3 // 4
                longest = max(longest, len(session.terminals[update.terminal_id].output))
                if seen > flood:
                    enough.set()

        async with desk(tmp_path, on_update=watch, default_output_limit=limit) as at:
            one = await at.create("yes")
            await enough.wait()
            at.kill(one)
            assert (await at.wait(one)).signal == "SIGTERM"
            output = at.output(one)
            assert output.truncated
            assert len(output.output) == limit
            assert set(output.output.split()) == {"y"}
        assert longest <= 2 * limit + 2 * PIECE
        return tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    try:
        assert run(story()) < flood / 8
    finally:
        tracemalloc.stop()


# ---- kill and release ------------------------------------------------------------------------


@in_real_time
async def test_killing_resolves_pending_waits_and_keeps_the_output(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        one = await at.sh(f"echo output; {FOREVER}")
        await at.view.shows(one, b"output")
        waiters = [asyncio.ensure_future(at.wait(one)) for _ in range(3)]
        await asyncio.sleep(0)
        at.kill(one)
        at.kill(one)
        assert {(status.exit_code, status.signal) for status in await asyncio.gather(*waiters)} == {
            (None, "SIGTERM")
        }
        assert at.output(one).output == "output\n"
        assert at.output(one).exit_status == await at.wait(one)
        at.kill(one)
        assert len(at.view.exits(one)) == 1


@in_real_time
async def test_releasing_resolves_pending_waits_and_removes_the_terminal(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        one = await at.sh(FOREVER)
        waiting = asyncio.ensure_future(at.wait(one))
        await asyncio.sleep(0)
        at.release(one)
        with pytest.raises(RequestError):
            at.output(one)
        assert (await waiting).signal == "SIGTERM"
        assert at.view.exits(one) == [v2.TerminalExitStatus(exit_code=None, signal="SIGTERM")]


@in_real_time
async def test_a_cancelled_wait_does_not_end_the_other_waits(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        one = await at.sh(FOREVER)
        impatient, patient = (asyncio.ensure_future(at.wait(one)) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.wait([impatient])
        at.kill(one)
        assert (await patient).signal == "SIGTERM"


@pytest.mark.parametrize("notified", [True, False], ids=["notified", "polling"])
@in_real_time
async def test_a_command_that_ignores_the_request_is_ended_by_force(
    tmp_path: Path, notified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not notified:
        monkeypatch.setattr(terminal_module, "_exit_watch", lambda _: None)
    async with desk(tmp_path, grace=0.05) as at:
        line = f"trap '' TERM; {FOREVER} & echo pid $!; echo ready; wait; {FOREVER}"
        one = await at.sh(line)
        shown = await at.view.shows(one, b"ready")
        at.kill(one)
        assert (await at.wait(one)).signal == "SIGKILL"
        await until(lambda: not is_running(int(shown.split()[1])))


# blocked, so that the request cannot come too early
CLEANER = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
print("cleaned", flush=True)
sys.exit(7)
"""


@in_real_time
async def test_a_command_may_clean_up_before_it_ends(tmp_path: Path) -> None:
    async with desk(tmp_path, grace=LIMIT) as at:
        one = await at.create(sys.executable, "-c", CLEANER)
        await at.view.shows(one, b"ready")
        at.kill(one)
        assert (await at.wait(one)).exit_code == 7
        assert at.output(one).output == "ready\ncleaned\n"


def test_what_a_shell_started_may_clean_up_though_the_shell_is_gone(tmp_path: Path) -> None:
    slow = CLEANER.replace('print("cleaned"', 'open("gate").readline(); print("cleaned"')

    async def story(let_go: Callable[[], None]) -> None:
        async with desk(tmp_path, grace=1_000) as at:
            child = shlex.join([sys.executable, "-c", slow])
            one = await at.sh(f"{child} & wait")
            await at.view.shows(one, b"ready")
            waiting = asyncio.ensure_future(at.wait(one))
            await asyncio.sleep(0)
            at.release(one)
            assert (await waiting).signal == "SIGTERM"
            let_go()
            await at.view.shows(one, b"cleaned")
            await until(lambda: not at.terminals._ending)

    with gate(tmp_path) as let_go:
        run(story(let_go))


DESCENDANTS = {
    "that it waits for": f"{FOREVER} & echo pid $!; wait",
    "left behind": f"{FOREVER} & echo pid $!",
    "left behind in silence": f"{FOREVER} >/dev/null 2>&1 & echo pid $!",
    "of its children": f"sh -c '{FOREVER} & echo pid $!; wait' & wait",
    "that ignore the request": f"(trap '' TERM; exec {FOREVER}) & echo pid $!",
}


@pytest.mark.parametrize("line", DESCENDANTS.values(), ids=DESCENDANTS)
@pytest.mark.parametrize("how", ["kill", "release", "close"])
@in_real_time
async def test_nothing_that_it_started_is_left(tmp_path: Path, line: str, how: str) -> None:
    async with desk(tmp_path, grace=0.05) as at:
        one = await at.sh(line)
        pid = int((await at.view.shows(one, b"\n")).split()[1])
        assert is_running(pid)
        if how == "close":
            await at.terminals.close()
        else:
            getattr(at, how)(one)
        await until(lambda: not is_running(pid))


ESCAPED = """
import os, signal
os.setsid()
print("pid", os.getpid(), flush=True)
signal.pause()
"""


@in_real_time
async def test_what_escapes_to_another_session_does_not_hold_the_pipe(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        child = shlex.join([sys.executable, "-c", ESCAPED])
        one = await at.sh(f"{child} & wait")
        pid = int((await at.view.shows(one, b"\n")).split()[1])
        await at.terminals.close()
        assert is_running(pid)
        os.kill(pid, signal.SIGKILL)


def test_a_zombie_process_does_not_count_as_running() -> None:
    if not Path("/proc/self").exists():
        pytest.skip("needs /proc")
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        assert terminal_module._runs(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert groups.exists(process.pid)
        assert not terminal_module._runs(process.pid)


def test_what_it_leaves_running_is_not_waited_for_but_still_shown(tmp_path: Path) -> None:
    async def story(let_go: Callable[[], None]) -> None:
        async with desk(tmp_path) as at:
            one = await at.sh("(read go < gate; echo late) & echo early")
            assert (await at.wait(one)).exit_code == 0
            assert at.output(one).output == "early\n"
            let_go()
            await at.view.shows(one, b"late\n")
            assert at.output(one).output == "early\nlate\n"

    with gate(tmp_path) as let_go:
        run(story(let_go))


def test_a_flood_of_what_it_left_running_does_not_hold_up_its_end(tmp_path: Path) -> None:
    async def story(let_go: Callable[[], None]) -> None:
        flooded = asyncio.Event()

        def watch(update: Update) -> None:
            if isinstance(update, v2.TerminalOutputChunk):
                flooded.set()

        async with desk(tmp_path, on_update=watch) as at:
            one = await at.sh("yes & read go < gate; exit 4")
            await flooded.wait()
            let_go()
            assert (await at.wait(one)).exit_code == 4

    with gate(tmp_path) as let_go:
        run(story(let_go))


@in_real_time
async def test_a_process_that_cannot_be_killed_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_module, "LAST_WAIT", 0.05)
    view = View()
    terminals = Terminals([tmp_path], on_update=view, grace=0.05)
    at = Desk(terminals, view)
    one = await at.sh(FOREVER)
    process = terminals._terminals[one]._process
    waiting = asyncio.ensure_future(at.wait(one))
    await asyncio.sleep(0)
    with monkeypatch.context() as powerless:
        powerless.setattr(groups, "terminate", lambda _: None)
        powerless.setattr(groups, "kill", lambda _: None)
        await terminals.close()
    assert await waiting == v1.TerminalExitStatus(exit_code=None, signal=None)
    assert view.exits(one) == [v2.TerminalExitStatus(exit_code=None, signal=None)]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(LIMIT)


# ---- closing ---------------------------------------------------------------------------------


@in_real_time
async def test_closing_ends_everything_in_bounded_time(tmp_path: Path) -> None:
    async with desk(tmp_path, grace=0.2) as at:
        stubborn = f"trap '' TERM; echo ready; {FOREVER}"
        ids = [await at.sh(stubborn) for _ in range(5)] + [await at.create("yes")]
        for one in ids[:-1]:
            await at.view.shows(one, b"ready")
        at.release(ids[0])
        waiters = [asyncio.ensure_future(at.wait(one)) for one in ids[1:]]
        await asyncio.sleep(0)
        start = time.monotonic()
        await asyncio.gather(at.terminals.close(), at.terminals.close())
        assert time.monotonic() - start < 2
        signals = [(await waiter).signal for waiter in waiters]
        assert signals == ["SIGKILL"] * 4 + ["SIGTERM"]
        assert (await refusal(at.create("pwd"))).code == INVALID_REQUEST
        assert (await refusal(at.wait(ids[1]))).code == RESOURCE_NOT_FOUND


@in_real_time
async def test_closing_in_a_hurry_ends_everything_all_the_same(tmp_path: Path) -> None:
    async with desk(tmp_path, grace=1_000) as at:
        one = await at.sh(f"trap '' TERM; echo ready; {FOREVER}")
        await at.view.shows(one, b"ready")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await at.terminals.close()
        assert at.view.exits(one) == [v2.TerminalExitStatus(exit_code=None, signal="SIGKILL")]


# ---- how many --------------------------------------------------------------------------------


@in_real_time
async def test_too_many_running_commands_are_refused(tmp_path: Path) -> None:
    async with desk(tmp_path, limit_count=2) as at:
        one, _ = [await at.sh(FOREVER) for _ in range(2)]
        error = await refusal(at.create("pwd"))
        assert error.code == INVALID_REQUEST
        assert "2 terminals are running" in error.message
        waiting = asyncio.ensure_future(at.wait(one))
        await asyncio.sleep(0)
        at.release(one)
        await waiting
        await until(lambda: not at.terminals._ending)
        await at.sh(FOREVER)


@in_real_time
async def test_released_commands_count_until_they_have_ended(tmp_path: Path) -> None:
    async with desk(tmp_path, limit_count=1, grace=0.1) as at:
        one = await at.sh(f"trap '' TERM; echo ready; {FOREVER}")
        await at.view.shows(one, b"ready")
        at.release(one)
        assert (await refusal(at.create("pwd"))).code == INVALID_REQUEST


@in_real_time
async def test_the_oldest_that_ended_makes_room_for_a_new_one(tmp_path: Path) -> None:
    async with desk(tmp_path, limit_count=3) as at:
        running = await at.sh(FOREVER)
        ended = [await at.sh("exit 0") for _ in range(2)]
        await asyncio.gather(*map(at.wait, ended))
        await at.wait(await at.sh("exit 0"))
        assert (await refusal(at.wait(ended[0]))).code == RESOURCE_NOT_FOUND
        assert at.output(ended[1]).exit_status is not UNSET
        assert at.output(running).exit_status is UNSET


# ---- the view --------------------------------------------------------------------------------


def test_a_view_that_fails_does_not_stop_the_command(tmp_path: Path) -> None:
    failures: list[Any] = []

    def broken(_: Update) -> None:
        raise RuntimeError("broken view")

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(context)
        )
        async with desk(tmp_path, on_update=broken) as at:
            assert await at.text("echo works") == "works\n"

    run(story())
    assert len(failures) >= 3
    assert {str(failure["exception"]) for failure in failures} == {"broken view"}


@pytest.mark.parametrize("how", ["kill", "release"])
@pytest.mark.parametrize("when", ["chunk", "exit"])
@in_real_time
async def test_a_view_may_end_a_command_while_it_handles_its_update(
    tmp_path: Path, how: str, when: str
) -> None:
    wanted = v2.TerminalOutputChunk if when == "chunk" else v2.TerminalUpdate
    view = View()

    def react(update: Update) -> None:
        view(update)
        known = update.terminal_id in at.terminals._terminals
        if isinstance(update, wanted) and known:
            getattr(at, how)(update.terminal_id)

    async with desk(tmp_path, on_update=react) as at:
        one = await at.sh(f"{FOREVER} & echo pid $!; exit 0")
        pid = int((await view.shows(one, b"\n")).split()[1])
        await until(lambda: not is_running(pid))
        await until(lambda: len(view.exits(one)) == 1)
