"""SIGKILL of this process: what it started is ended all the same."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import TWOFOLD
from tests.support.raw_process import alive, gone, raw_agent
from tests.support.real_time import PATIENCE, in_real_time
from twofold.transport import groups
from twofold.transport.process import Process

# an agent that ignores the end of its input, in a wrapper, with a child of its own
STUBBORN = """
import signal
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
with open(PATH, "w") as file:
    file.write(f"{os.getpid()} {child.pid}\\n")

def read():
    line = sys.stdin.readline()
    while not line:
        time.sleep(60)
    return json.loads(line)

def prompt(request):
    text("begun")
"""


def stubborn(file: Path) -> list[str]:
    agent = raw_agent(STUBBORN.replace("PATH", repr(str(file))))
    return ["sh", "-c", '"$@"; exit', "sh", *agent]


def numbers_in(file: Path) -> list[int]:
    """The ids of the processes, once the agent has written them to `file`."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        written = file.read_text() if file.exists() else ""
        if written.endswith("\n"):
            return [int(each) for each in written.split()]
        time.sleep(0.01)
    raise AssertionError("the agent was not started")


@pytest.mark.parametrize("attempt", range(5))
@pytest.mark.parametrize("command", ["run", "bridge"])
def test_when_run_or_bridge_is_killed_the_agent_dies_with_all_it_started(
    tmp_path: Path, command: str, attempt: int
) -> None:
    file = tmp_path / "numbers"
    options = ["--prompt", "x"] if command == "run" else []

    pipe = subprocess.PIPE
    words = [*TWOFOLD, command, *options, "--", *stubborn(file)]
    running = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe)
    numbers = numbers_in(file)
    try:
        assert all(map(alive, numbers))
        running.kill()
        assert all(map(gone, numbers))
    finally:
        running.kill()
        running.communicate()
        for number in filter(alive, numbers):
            os.kill(number, signal.SIGKILL)


def watches() -> list[int]:
    """The shells that watch this process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = folder.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            words = folder.joinpath("cmdline").read_bytes()
        except OSError:
            continue
        if parent == str(os.getpid()) and b"groups=" in words:
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@in_real_time
async def test_one_shell_watches_all_processes_and_forgets_those_that_ended() -> None:
    async with asyncio.timeout(PATIENCE):
        one = await Process.spawn(["sleep", "600"])
        before = watches()
        two = await Process.spawn(["sleep", "600"])
        assert watches() == before
        assert len(before) == 1
        await asyncio.gather(one.close(), two.close())


@pytest.mark.parametrize(
    ("lines", "ended"),
    [
        (["+ A", "+ B"], "AB"),
        (["+ A", "+ B", "- A"], "B"),
        (["+ A", "+ B", "- B"], "A"),
        (["+ A", "- A", "- A", "+ B", "- B"], ""),
        (["+ A", "- B", "- 7", "nonsense"], "A"),
        ([], ""),
    ],
)
def test_the_shell_ends_what_is_left_when_the_pipe_ends(lines: list[str], ended: str) -> None:
    started: dict[str, Any] = {
        name: subprocess.Popen(["sleep", "600"], start_new_session=True) for name in "AB"
    }
    try:
        script = "".join(f"{line}\n" for line in lines)
        for name, process in started.items():
            script = script.replace(name, str(process.pid))
        shell = ["/bin/sh", "-c", groups._WATCH]
        subprocess.run(shell, input=script.encode(), timeout=60, check=False)
        for name, process in started.items():
            if name in ended:
                assert process.wait(PATIENCE) == -signal.SIGKILL
            else:
                assert process.poll() is None
    finally:
        for process in started.values():
            process.kill()
            process.wait()


@in_real_time
async def test_without_a_shell_processes_are_started_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "_SHELL", "/no/such/shell")
    monkeypatch.setattr(groups, "_watch", groups._Watch())
    process = await Process.spawn([sys.executable, "-c", "print(1)"])
    await process.close()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="the processes are found in /proc")
def test_a_process_that_left_its_group_is_found_by_a_variable() -> None:
    variable = f"TWOFOLD_TEST_{os.getpid()}"
    script = "import subprocess as s; s.Popen(['sleep', '600'], start_new_session=True, stdout=-3)"
    environment = {**os.environ, variable: "1"}
    assert groups.with_variable(f"{variable}=1") == []
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=PATIENCE)
    (found,) = groups.with_variable(f"{variable}=1")
    assert found.command == "sleep 600"
    assert groups.members(found.pid) == [found]
    groups.kill(found.pid)
    assert gone(found.pid)
    assert groups.members(found.pid) == groups.with_variable(f"{variable}=1") == []
