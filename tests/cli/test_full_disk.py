"""What happens when nothing more can be written: one line that says so, and no traceback."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import TWOFOLD
from tests.support.raw_process import raw_agent

FULL = Path("/dev/full")
SAMPLE = str(Path(__file__).parents[2] / "samples" / "showcase.jsonl")
TALKS = """
def prompt(request):
    text("hi")
    answer(request, {"stopReason": "end_turn"})
"""
PRINTING = {
    "show": ["show", SAMPLE],
    "fold": ["fold", SAMPLE],
    "convert": ["convert", "--to", "1", SAMPLE],
    "agent --list": ["agent", "--list"],
    "--help": ["--help"],
    "--version": ["--version"],
    "fold --help": ["fold", "--help"],
    "run": ["run", "--prompt", "hello", "--", *raw_agent(TALKS)],
}

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")


def called(*arguments: str, stdout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TWOFOLD, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", PRINTING)
def test_a_command_on_a_full_disk_ends_with_one_line(command: str) -> None:
    with FULL.open("wb") as full:
        done = called(*PRINTING[command], stdout=full.fileno())
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith(("Error", "Standard"))]
    (line,) = lines
    assert "Standard output could not be written to the end: No space left on device." in line


@pytest.mark.parametrize("command", PRINTING)
def test_a_command_whose_reader_is_gone_ends_quietly(command: str) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = called(*PRINTING[command], stdout=write)
    finally:
        os.close(write)
    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr


@pytest.mark.parametrize("command", ["show", "fold", "convert", "agent --list"])
def test_a_command_whose_standard_output_is_closed_says_so(command: str) -> None:
    words = ["sh", "-c", '"$@" >&-', "sh", *TWOFOLD, *PRINTING[command]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: Standard output is closed: there is nowhere to print to.\n"


def test_a_record_on_a_full_disk_is_reported_when_the_turn_is_over() -> None:
    done = called(
        *("run", "--prompt", "hello", "--record", str(FULL), "--", *raw_agent(TALKS)),
        stdout=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert "/dev/full could not be written to the end: No space left on device." in done.stderr
    assert "Traceback" not in done.stderr


def test_losses_on_a_full_disk_are_reported_and_the_bridge_goes_on() -> None:
    able = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    params = {"protocolVersion": 1, "clientCapabilities": able}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    agent = [*TWOFOLD, "agent", "--version", "2"]
    pipe = subprocess.PIPE
    words = [*TWOFOLD, "bridge", "--losses", str(FULL), "--", *agent]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        bridge.stdin.write(json.dumps(hello).encode() + b"\n")
        bridge.stdin.flush()
        assert "result" in json.loads(bridge.stdout.readline())
        said = bridge.communicate(timeout=60)[1].decode()
    assert "Traceback" not in said
    assert said.count("/dev/full could not be written to the end") == 1
    assert said.count("lost: initialize") > 1
    assert bridge.returncode == 1


@pytest.mark.parametrize("command", ["run", "bridge"])
def test_what_is_recorded_is_its_owners_alone(tmp_path: Path, command: str) -> None:
    file = tmp_path / "file"
    agent = raw_agent("")
    words = {
        "run": ["run", "--prompt", "x", "--record", str(file), "--", *agent],
        "bridge": ["bridge", "--losses", str(file), "--", *agent],
    }
    before = os.umask(0o022)
    try:
        called(*words[command], stdout=subprocess.DEVNULL)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
