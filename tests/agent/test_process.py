"""An agent as a program: what reaches its standard output, and how it ends."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.raw_client import INITIALIZE, Json, Version, word

PATIENCE = 15.0
"""No process takes that long unless it hangs."""

PROGRAM = """
import asyncio, os, subprocess, sys
import twofold

agent = twofold.Agent("program", cancel_timeout=0.2, keep=os.environ.get("KEEP"),
                      new_session_id=lambda: "s")
print("printed before it runs")

@agent.on_prompt
async def answer(turn):
    if turn.text == "print":
        print("printed by the handler")
        os.system("echo printed by a shell")
        subprocess.run([sys.executable, "-c", "print('printed by a program')"])
        os.write(1, b"written to the descriptor\\n")
        assert sys.stdin.read() == ""
    await turn.say("working")
    if turn.text == "work":
        async with turn.tool_call("Work"):
            await asyncio.Event().wait()
    while turn.text == "ignore":
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@agent.on_close_session
async def close(session):
    print("closed", session.session_id)

agent.run()
print("ran to its end")
"""


class Program:
    """An agent in a process of its own, spoken to by hand."""

    def __init__(self, path: Path, version: Version, stdin: Any = subprocess.PIPE) -> None:
        environ = {**os.environ, "KEEP": str(path.parent / "kept"), "PYTHONUNBUFFERED": ""}
        self.version = version
        self.process = subprocess.Popen(
            [sys.executable, str(path)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
        )
        self.messages: list[Json] = []
        self.went_on = False
        """Whether it went on after the agent, and had its standard output back."""
        self._last_id = 0
        self._watchdog = threading.Timer(PATIENCE, self.process.kill)
        self._watchdog.start()

    def ask(self, method: str, params: Json) -> int:
        assert self.process.stdin is not None
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self._last_id

    def read_until(self, what: str) -> Json:
        """Read up to the message that `word` sums up as `what`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.messages.append(json.loads(line))
            if word(self.messages[-1]) == what:
                return self.messages[-1]
        raise AssertionError(f"it ended without {what!r}: {self.messages}")

    def begin(self) -> None:
        self.ask("initialize", INITIALIZE[self.version])
        self.read_until("result")
        self.ask("session/new", {"cwd": "/", "mcpServers": []})
        self.read_until("result")

    def prompt(self, text: str) -> None:
        blocks = [{"type": "text", "text": text}]
        self.ask("session/prompt", {"sessionId": "s", "prompt": blocks})

    def end(self) -> tuple[int, str]:
        """Its exit status and what it wrote to standard error; standard input is closed."""
        stdout, stderr = self.process.communicate(timeout=PATIENCE)
        for line in stdout.decode().splitlines():
            if line == "ran to its end":
                self.went_on = True
            else:
                self.messages.append(json.loads(line))
        return self.process.returncode, stderr.decode()

    def kill(self) -> None:
        self._watchdog.cancel()
        with self.process:
            self.process.kill()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """`started(2)`: the program above, which does not outlive the test."""
    programs: list[Program] = []
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)

    def start(version: Version = 2, **options: Any) -> Program:
        programs.append(Program(path, version, **options))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()


Start = Callable[..., Program]


def test_what_is_printed_stays_off_the_conversation(started: Start) -> None:
    program = started()
    program.begin()
    program.prompt("print")
    program.read_until("idle end_turn")
    status, stderr = program.end()
    assert status == 0
    for source in (
        "printed before it runs",
        "printed by the handler",
        "printed by a shell",
        "printed by a program",
        "written to the descriptor",
        "closed s",
    ):
        assert source in stderr
        assert source not in str(program.messages)
    assert "Traceback" not in stderr


@pytest.mark.parametrize("version", [1, 2])
def test_the_end_of_standard_input_is_the_end_of_the_process(
    started: Start, version: Version
) -> None:
    program = started(version)
    program.begin()
    program.prompt("work")
    program.read_until("tool_call in_progress" if version == 1 else "tool_call_update in_progress")
    before = time.monotonic()
    status, stderr = program.end()
    assert time.monotonic() - before < 5
    assert status == 0
    assert program.went_on
    assert "closed s" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("text", ["hello", "work"])
def test_a_signal_ends_it_cleanly_and_its_turns_are_answered(
    started: Start, how: signal.Signals, text: str
) -> None:
    program = started()
    program.begin()
    program.prompt(text)
    program.read_until("idle end_turn" if text == "hello" else "tool_call_update in_progress")
    program.process.send_signal(how)
    program.process.wait(PATIENCE)  # standard input is open: it does not wait for that
    status, stderr = program.end()
    assert status == 0
    assert program.went_on
    assert "closed s" in stderr
    assert "Traceback" not in stderr
    if text == "work":
        assert [word(each) for each in program.messages][-2:] == [
            "tool_call_update cancelled",
            "idle cancelled",
        ]


@pytest.mark.parametrize("how", [None, signal.SIGTERM, signal.SIGINT])
def test_a_handler_that_does_not_stop_does_not_keep_the_process(
    started: Start, how: signal.Signals | None
) -> None:
    program = started()
    program.begin()
    program.prompt("ignore")
    program.read_until("agent_message_chunk")
    if how is not None:
        program.process.send_signal(how)
        program.process.wait(PATIENCE)
    status, stderr = program.end()
    assert status == 1
    assert "did not stop" in stderr
    assert "closed s" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("version", [1, 2])
def test_a_session_of_a_process_that_was_killed_can_be_loaded(
    started: Start, version: Version, tmp_path: Path
) -> None:
    killed = started(version)
    killed.begin()
    killed.prompt("work")
    killed.read_until("tool_call in_progress" if version == 1 else "tool_call_update in_progress")
    log = tmp_path / "kept" / "s.jsonl"
    before = time.monotonic()
    while "tool_call_update" not in log.read_text():  # it is kept soon, not at once
        assert time.monotonic() - before < PATIENCE
        time.sleep(0.01)
    killed.process.kill()
    killed.end()

    heir = started(version)
    heir.ask("initialize", INITIALIZE[version])
    heir.read_until("result")
    params: Json = {"sessionId": "s", "cwd": "/", "mcpServers": []}
    if version == 1:
        heir.ask("session/load", params)
    else:
        heir.ask("session/resume", {**params, "replayFrom": {"type": "start"}})
    heir.messages.clear()
    heir.read_until("result")
    ended = "tool_call failed" if version == 1 else "tool_call_update cancelled"
    story = [word(each) for each in heir.messages]
    assert ended in story
    assert version == 1 or story[-2] == "idle cancelled"
    assert "work" in str(heir.messages[0])
    assert heir.end()[0] == 0


@pytest.mark.parametrize("on_terminal", [True, False])
def test_starting_it_on_a_terminal_prints_a_hint(started: Start, on_terminal: bool) -> None:
    master, slave = pty.openpty() if on_terminal else (-1, subprocess.PIPE)
    try:
        program = started(stdin=slave)
        hint = b"program speaks the Agent Client Protocol on standard input and output"
        if on_terminal:
            assert program.process.stderr is not None
            assert hint in program.process.stderr.readline()
            program.process.send_signal(signal.SIGINT)
            program.process.wait(PATIENCE)
        status, stderr = program.end()
        assert status == 0
        assert hint.decode() not in stderr
        assert "Traceback" not in stderr
    finally:
        if on_terminal:
            os.close(master)
            os.close(slave)
