"""`twofold bridge` as a process, with small agents behind it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.real_time import PATIENCE, in_real_time
from twofold import connect
from twofold.cli.bridge import bridge
from twofold.cli.run_bridge import KEPT, Stderr

Json = dict[str, Any]

AGENT = """
import json, os, signal, subprocess, sys, time

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def update(update):
    send({"method": "session/update", "params": {"sessionId": "s", "update": update}})

info = {"name": "test", "version": " ".join(sys.argv[1:]) or "1"}
known = {"initialize": {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info}}
known |= {"session/new": {"sessionId": "s"}}
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    BODY
    if method in known:
        send({"id": message["id"], "result": known[method]})
"""
PYTHON = [sys.executable, "-I", "-S", "-c"]
"""What starts fastest."""
V1 = {"protocolVersion": 1, "clientCapabilities": {}}
V2 = {"protocolVersion": 2, "info": {"name": "test", "version": "1"}}
PROMPT = {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}


def agent(body: str = "pass") -> list[str]:
    """An agent of version 1 that does `body` with each message."""
    lines = body.strip().splitlines()
    return [*PYTHON, AGENT.replace("BODY", "\n    ".join(lines))]


class Client:
    """A client of a bridge that runs as a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.messages: list[Json] = []

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def raw_lines(self) -> list[bytes]:
        """All that comes until the end, as it was written."""
        assert self.process.stdout is not None
        return (await self.process.stdout.read()).splitlines()

    async def ask(self, identity: Any, method: str, params: Any) -> Json:
        """Ask, and wait for the answer."""
        self.send(id=identity, method=method, params=params)
        while True:
            message = await self.read()
            assert message is not None, "the bridge is gone"
            if message.get("id") == identity and "method" not in message:
                return message

    async def read(self) -> Json | None:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self.process.stdout.readline()
        if line:
            self.messages.append(json.loads(line))
        return self.messages[-1] if line else None

    async def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def status(self) -> int:
        """How the bridge ended."""
        async with asyncio.timeout(PATIENCE):
            while await self.read():
                pass
            return await self.process.wait()

    async def complaints(self) -> str:
        """What it wrote to its standard error."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            return (await self.process.stderr.read()).decode()


@asynccontextmanager
async def bridged(*arguments: str, stderr: int = subprocess.PIPE) -> AsyncIterator[Client]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "twofold", "bridge", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
    try:
        yield Client(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def gone(pid: int) -> bool:
    """Whether a process ended; a zombie counts as ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


async def has_gone(pid: int) -> bool:
    for _ in range(int(PATIENCE / 0.01)):
        if gone(pid):
            return True
        await asyncio.sleep(0.01)  # only the parent is notified
    return False


# ---- the agent ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("client", [V1, V2], ids=["passing", "translating"])
@in_real_time
async def test_exit_status_and_last_words_of_the_agent_reach_the_client(client: Json) -> None:
    dies = 'if method == "session/prompt": print("disk on fire", file=sys.stderr); sys.exit(7)'

    async with bridged("--", *agent(dies)) as peer:
        await peer.ask(1, "initialize", client)
        error = (await peer.ask(2, "session/prompt", PROMPT))["error"]
        assert error["data"] == {"stderr": "disk on fire", "exitCode": 7}
        assert "exit code 7" in error["message"]
        assert await peer.status() == 7
        assert "disk on fire\n" in await peer.complaints()


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("client", [V1, V2], ids=["passing", "translating"])
@in_real_time
async def test_an_agent_that_dies_inside_its_answer_has_not_answered(
    client: Json, size: int
) -> None:
    dies = f"""
if method == "session/prompt":
    answer = json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": {{"x": "y" * {size}}}}})
    sys.stdout.write(answer[:-2])
    sys.stdout.flush()
    sys.exit(7)
"""

    async with bridged("--", *agent(dies)) as peer:
        await peer.ask(1, "initialize", client)
        peer.send(id=2, method="session/prompt", params=PROMPT)
        lines = await peer.raw_lines()
        assert json.loads(lines[-1])["error"]["data"]["exitCode"] == 7
        assert len(lines) == (2 if client is V1 and size > 65536 else 1)
        assert await peer.status() == 7


@pytest.mark.parametrize(
    ("end", "status", "data"),
    [
        ("sys.exit(0)", 0, {"exitCode": 0}),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, {"signal": "SIGKILL"}),
    ],
)
@in_real_time
async def test_the_status_of_the_bridge_is_the_agents(end: str, status: int, data: Json) -> None:
    async with bridged(*agent(f'if method == "_x/end": {end}')) as peer:
        await peer.ask(1, "initialize", V2)
        error = (await peer.ask(2, "_x/end", {}))["error"]
        assert error["data"] == {"stderr": "", **data}
        assert await peer.status() == status


@in_real_time
async def test_an_agent_that_dies_before_it_is_asked_anything_is_an_error_for_the_client() -> None:
    command = [*PYTHON, "import sys; sys.exit('no key in the environment')"]
    async with bridged("--", *command) as peer:
        error = (await peer.ask(1, "initialize", V2))["error"]
        assert error["data"]["exitCode"] == 1
        assert error["data"]["stderr"] == "no key in the environment"
        assert await peer.status() == 1


@in_real_time
async def test_an_agent_that_does_not_survive_version_2_is_started_again() -> None:
    dies = 'if method == "initialize" and message["params"]["protocolVersion"] != 1: sys.exit(9)'

    async with bridged("--", *agent(dies)) as peer:
        result = (await peer.ask(1, "initialize", V2))["result"]
        assert result["protocolVersion"] == 2
        new = await peer.ask(2, "session/new", {"cwd": "/"})
        assert new["result"]["sessionId"] == "s"
        await peer.leave()
        assert await peer.status() == 0


# ---- the client ends --------------------------------------------------------------------------

GRANDCHILD = """
if method == "initialize":
    child = subprocess.Popen(["sleep", "60"])
    info["version"] = f"{os.getpid()} {child.pid}"
"""


@in_real_time
async def test_when_the_client_goes_everything_that_the_agent_started_ends() -> None:
    plain = agent(GRANDCHILD)
    wrapped = ["/bin/sh", "-c", '"$@"; exit', "sh", *plain]

    await asyncio.gather(  # together, for each takes a while
        go(plain, "closes its end"),
        go(wrapped, "closes its end"),
        go(plain, "is killed"),
        go(wrapped, "asks to end", status=128 + signal.SIGTERM),
    )


async def go(command: list[str], how: str, status: int = 0) -> None:
    async with bridged("--", *command) as peer:
        result = (await peer.ask(1, "initialize", V2))["result"]
        pids = [int(each) for each in result["info"]["version"].split()]
        assert not any(map(gone, pids))
        if how == "asks to end":
            peer.process.send_signal(signal.SIGTERM)
        else:
            await peer.leave()
        if how == "is killed":
            peer.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE):
            assert await peer.process.wait() == status
        assert all([await has_gone(pid) for pid in pids])


@in_real_time
async def test_an_agent_that_never_answers_does_not_outlive_its_client() -> None:
    stuck = 'if method == "initialize": print(os.getpid(), file=sys.stderr); continue'

    async with bridged("--", *agent(stuck)) as peer:
        peer.send(id=1, method="initialize", params=V2)
        assert peer.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            pid = int(await peer.process.stderr.readline())
        await peer.leave()
        assert await peer.status() == 0
        assert await has_gone(pid)


# ---- reports for people -----------------------------------------------------------------------


@in_real_time
async def test_a_command_that_is_not_there_is_a_clear_message() -> None:
    async with bridged("--", "no-such-agent", "--acp") as peer:
        assert await peer.status() == 127
        assert peer.messages == []
        complaints = await peer.complaints()
        assert complaints == (
            "twofold bridge: The agent (no-such-agent --acp) could not be started: there is no"
            " command no-such-agent on the PATH. Install it, or give its full path.\n"
        )


@in_real_time
async def test_losses_are_reported_once_and_written_in_full(tmp_path: Path) -> None:
    losing = """
if method == "session/new":
    for number in range(3):
        call = {"toolCallId": "t", "title": "T", "locations": [{"path": "/a", "line": 0}]}
        update({"sessionUpdate": "tool_call", **call})
"""
    losses = tmp_path / "losses.jsonl"

    async with bridged("--losses", str(losses), "--", *agent(losing)) as peer:
        await peer.ask(1, "initialize", V2)
        await peer.ask(2, "session/new", {"cwd": "/"})
        await peer.leave()
        assert await peer.status() == 0
        (complaints,) = [line for line in (await peer.complaints()).splitlines() if "line" in line]
        assert complaints == (
            "twofold bridge: lost: session/update: update.locations[0].line:"
            " version 2 counts lines from 1"
        )
    written = [json.loads(line) for line in losses.read_text().splitlines()]
    assert [each["path"] for each in written].count("update.locations[0].line") == 3
    assert all(each.keys() == {"message", "path", "reason"} for each in written)


@in_real_time
async def test_what_follows_the_command_is_the_commands() -> None:
    async with bridged("--client", "2", *agent(), "--client", "3", "--help") as peer:
        result = (await peer.ask(1, "initialize", V2))["result"]
        assert result["info"]["version"] == "--client 3 --help"


@in_real_time
async def test_standard_error_need_not_be_read() -> None:
    floods = """
if method == "session/new":
    for number in range(64):
        sys.stderr.write("x" * 65535 + chr(10))
"""

    unread, written = os.pipe()
    try:
        async with bridged("--", *agent(floods), stderr=written) as peer:
            await peer.ask(1, "initialize", V2)
            answer = await peer.ask(2, "session/new", {"cwd": "/"})
            assert answer["result"]["sessionId"] == "s"
            await peer.leave()
            assert await peer.status() == 0
    finally:
        os.close(unread)
        os.close(written)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "Missing argument 'NAME | URL | -- COMMAND...'"),
        (["--client", "3", "--", "x"], "'3' is not one of 'auto', '1', '2'"),
        (["--agent", "two", "--", "x"], "'two' is not one of 'auto', '1', '2'"),
        (["--offer", "fs,net", "--", "x"], "net cannot be offered; fs and terminal can."),
        (["--clinet", "1", "--", "x"], "No such option"),
        (["--losses", "/no/such/folder/file", "--", "x"], "/no/such/folder/file cannot be written"),
        (["--losses", "/", "--", "x"], "is a directory"),
    ],
)
def test_a_mistake_on_the_command_line_is_reported(arguments: list[str], expected: str) -> None:
    result = CliRunner().invoke(bridge, arguments)
    assert result.exit_code == 2
    assert expected in result.output


# ---- standard error ---------------------------------------------------------------------------


def read_all(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()


def test_what_standard_error_does_not_take_is_kept_and_then_left_out() -> None:
    async def run() -> tuple[int, int]:
        unread, written = os.pipe()
        async with Stderr(written) as stderr:
            for _ in range(2 * KEPT // 65536):
                stderr.write(b"x" * 65536)
            reading = asyncio.create_task(asyncio.to_thread(read_all, unread))
            await asyncio.wait_for(stderr._empty.wait(), PATIENCE)
            stderr.write(b"yyy")
        os.close(written)
        data = await reading
        return data.count(b"x"), data.count(b"y")

    kept, after = asyncio.run(run())
    assert KEPT <= kept <= KEPT + 65536
    assert after == 3


def test_standard_error_may_be_a_file_or_a_pipe_without_a_reader(tmp_path: Path) -> None:
    async def write(fd: int) -> None:
        async with Stderr(fd) as stderr:
            stderr.write(b"one\n")
            stderr.write(b"two\n")

    with (tmp_path / "errors").open("wb", buffering=0) as file:
        asyncio.run(write(file.fileno()))
    assert (tmp_path / "errors").read_bytes() == b"one\ntwo\n"
    unread, written = os.pipe()
    os.close(unread)
    asyncio.run(write(written))
    os.close(written)


# ---- agents of the official Python SDK --------------------------------------------------------

REPEATS_THE_NUMBER = """
import asyncio
import acp
from acp import schema

class Agent:
    def on_connect(self, conn):
        self.conn = conn

    async def initialize(self, protocol_version, **_):
        return schema.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd, mcp_servers, **_):
        return schema.NewSessionResponse(session_id=f"{cwd} {mcp_servers}")

    async def prompt(self, session_id, prompt, **_):
        update = acp.update_agent_message_text(f"you sent {prompt[0].text}")
        await self.conn.session_update(session_id=session_id, update=update)
        return schema.PromptResponse(stop_reason="end_turn")

asyncio.run(acp.run_agent(Agent()))
"""


@in_real_time
async def test_an_agent_of_the_python_sdk_that_repeats_the_number_is_spoken_to_in_version_1(
    python_sdk: Callable[[str], Path],
) -> None:
    agent = [str(python_sdk("0.12.1")), "-c", REPEATS_THE_NUMBER]
    command = [sys.executable, "-m", "twofold", "bridge", "--", *agent]

    async with connect(command, version=2) as client:
        session = await client.new_session("/")
        assert session.session_id == "/ []"
        assert (await session.prompt("hi")).text == "you sent hi"
