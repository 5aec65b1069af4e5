"""The Python SDK's peers themselves: its clients and agents do what `README.md` lists.

Client against agent, as processes, in both versions; and the agents again by the lines they
write, for what the SDK's client cannot see. Twofold has no part in this.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.peers.facts import ALL_STEPS, Line, expected, with_one_tick
from tests.peers.validators import Version

Json = dict[str, Any]
Sdk = Callable[[str], Path]

HERE = Path(__file__).parent
SDKS: dict[Version, str] = {1: "0.12.1", 2: "1.0.0rc3"}
BOTH = pytest.mark.parametrize("version", [1, 2])
RUN_LIMIT = 60
WIRE_LIMIT = 20


def program(python_sdk: Sdk, role: str, version: Version) -> list[str]:
    return [str(python_sdk(SDKS[version])), str(HERE / f"py_{role}_v{version}.py")]


def run_client(client: list[str], agent: list[str], **env: str) -> list[Json]:
    """The report of the client on each step with this agent."""
    done = subprocess.run(
        [*client, "--", *agent],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=RUN_LIMIT,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- client and agent ------------------------------------------------------------------------

# what an SDK has no words for
LACKS: dict[Version, dict[str, Line]] = {
    1: {"close": {"deleted": None, "ids": ["s1"]}},
    2: {"error": {"code": None, "message": None}},
}


@BOTH
def test_client_and_agent_of_the_sdk_go_through_every_step(
    version: Version, python_sdk: Sdk
) -> None:
    client, agent = (program(python_sdk, role, version) for role in ("client", "agent"))
    lines = {line.pop("step"): line for line in run_client(client, agent)}

    facts = expected(version, {"name": f"py-agent-v{version}", "version": SDKS[version]})
    for step, lacking in LACKS[version].items():
        facts[step] |= lacking
    assert with_one_tick(lines) == facts
    assert list(lines) == ALL_STEPS


@BOTH
def test_the_environment_chooses_steps_and_prompts(version: Version, python_sdk: Sdk) -> None:
    client, agent = (program(python_sdk, role, version) for role in ("client", "agent"))
    prompts = {"stream": " /stream ", "permission": "wrong", "allow": "/hello there"}
    lines = run_client(client, agent, STEPS="stream,allow", PROMPTS=json.dumps(prompts))

    assert [line["step"] for line in lines] == ["stream", "allow"]
    assert lines[0]["text"] == "one two three four five"
    assert lines[1]["text"] == "echo: hello there"
    assert lines[1]["options"] is None


@BOTH
def test_a_client_whose_agent_dies_reports_it_and_goes_on(
    version: Version, python_sdk: Sdk
) -> None:
    client = program(python_sdk, "client", version)
    lines = run_client(client, [sys.executable, "-c", "input()"])

    assert [line["step"] for line in lines] == ALL_STEPS
    assert not any(line["ok"] for line in lines)
    assert "closed" in lines[0]["error"].lower()
    assert {line["error"] for line in lines[1:]} == {"no session"}


@BOTH
def test_a_step_that_takes_too_long_is_given_up(version: Version, python_sdk: Sdk) -> None:
    client = program(python_sdk, "client", version)
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    lines = run_client(client, silent, STEPS="initialize", STEP_SECONDS="0.5")

    assert lines == [{"step": "initialize", "ok": False, "error": "timeout"}]


# An agent that answers from a table, names a session by its folder, and has a word in
# its list that no SDK can read.
SLOPPY = """
import json, sys
answers = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    result = answers.get(asked["method"])
    if asked["method"] == "session/new":
        result = {"sessionId": asked["params"]["cwd"]}
    if asked["method"] == "session/list":
        update = {"sessionUpdate": "tool_call_update", "toolCallId": 7}
        params = {"sessionId": "/somewhere", "update": update}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
INITIALIZED: dict[Version, Json] = {
    1: {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"list": {}}}},
    2: {
        "protocolVersion": 2,
        "info": {"name": "sloppy", "version": "1"},
        "capabilities": {"session": {}},
    },
}
NOT_OFFERED: dict[Version, list[str]] = {1: ["mode", "replay", "resume"], 2: ["mode"]}


@BOTH
def test_a_client_reports_what_its_sdk_refused_and_what_is_not_offered(
    version: Version, python_sdk: Sdk
) -> None:
    answers = {"initialize": INITIALIZED[version], "session/list": {"sessions": []}}
    agent = [sys.executable, "-c", SLOPPY, json.dumps(answers)]
    client = program(python_sdk, "client", version)
    steps = ",".join(["new", "list", *NOT_OFFERED[version]])
    lines = {line.pop("step"): line for line in run_client(client, agent, STEPS=steps, CWD="/some")}

    assert lines.pop("new") == {"ok": True, "session": "/some", "modes": None}
    refused = "the SDK refused 1 update"
    assert lines.pop("list") == {"ok": False, "error": refused, "ids": []}
    not_offered = {"ok": False, "error": "not offered"}
    assert lines == dict.fromkeys(NOT_OFFERED[version], not_offered)


# ---- the agents, line by line ----------------------------------------------------------------


class Wire:
    """The lines between a test and an agent."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._asked = 0

    def write(self, **message: Any) -> None:
        assert self.process.stdin
        line = json.dumps({"jsonrpc": "2.0", **message})
        self.process.stdin.write(line.encode() + b"\n")

    def ask(self, method: str, **params: Any) -> int:
        self._asked += 1
        self.write(id=self._asked, method=method, params=params)
        return self._asked

    def prompt(self, text: str) -> int:
        blocks = [{"type": "text", "text": text}]
        return self.ask("session/prompt", sessionId="s1", prompt=blocks)

    async def until(self, holds: Callable[[Json], bool]) -> Json:
        """The next message for which it holds; those before it are skipped."""
        while not holds(message := await self.read()):
            pass
        return message

    async def read(self) -> Json:
        assert self.process.stdout
        line = await self.process.stdout.readline()
        assert line, "the agent ended"
        message: Json = json.loads(line)
        return message

    async def answer(self, request: int) -> Json:
        return await self.until(
            lambda message: message.get("id") == request and "method" not in message
        )

    async def call(self, method: str, **params: Any) -> Json:
        answer = await self.answer(self.ask(method, **params))
        result: Json = answer["result"]
        return result


@asynccontextmanager
async def wire(python_sdk: Sdk, version: Version) -> AsyncIterator[Wire]:
    """An agent that has a session `s1`, and ends by itself when its input does."""
    process = await asyncio.create_subprocess_exec(
        *program(python_sdk, "agent", version),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    agent = Wire(process)
    try:
        info = {"name": "test", "version": "1"}
        named = {"clientInfo": info} if version == 1 else {"info": info}
        await agent.call("initialize", protocolVersion=version, **named)
        await agent.call("session/new", cwd="/work", mcpServers=[])
        yield agent
        await process.communicate(b"")
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def drive(python_sdk: Sdk, version: Version, script: Callable[[Wire], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WIRE_LIMIT), wire(python_sdk, version) as agent:
            await script(agent)

    asyncio.run(main())


def tag(message: Json) -> str:
    """The subject of a message: of an update its tag or its state."""
    if message.get("method") != "session/update":
        return str(message.get("method", "answer"))
    update = message["params"]["update"]
    return str(update.get("state", update["sessionUpdate"]))


def test_a_version_2_agent_answers_before_the_turn_begins(python_sdk: Sdk) -> None:
    async def script(agent: Wire) -> None:
        agent.prompt("hello")
        messages = [await agent.read() for _ in range(5)]
        assert [tag(each) for each in messages] == [
            "answer",
            "user_message",
            "running",
            "agent_message_chunk",
            "idle",
        ]
        assert messages[0]["result"] == {"messageId": "u1"}
        assert messages[3]["params"]["update"]["messageId"] == "m1"

    drive(python_sdk, 2, script)


def test_a_version_1_agent_refuses_a_prompt_during_a_turn(python_sdk: Sdk) -> None:
    async def script(agent: Wire) -> None:
        first = agent.prompt("slow")
        await agent.until(lambda message: tag(message) == "agent_message_chunk")
        refused = await agent.answer(agent.prompt("hello"))
        assert refused["error"]["code"] == -32600
        agent.write(method="session/cancel", params={"sessionId": "s1"})
        assert (await agent.answer(first))["result"] == {"stopReason": "cancelled"}

    drive(python_sdk, 1, script)


def test_a_version_2_agent_holds_a_prompt_during_a_turn(python_sdk: Sdk) -> None:
    async def script(agent: Wire) -> None:
        agent.prompt("permission")
        asked = await agent.until(lambda message: tag(message) == "session/request_permission")
        held = agent.prompt("hello")
        outcome = {"outcome": "selected", "optionId": "r2"}
        agent.write(id=asked["id"], result={"outcome": outcome})
        await agent.until(lambda message: tag(message) == "idle")
        assert (await agent.answer(held))["result"] == {"messageId": "u2"}
        await agent.until(lambda message: tag(message) == "idle")

    drive(python_sdk, 2, script)


def test_a_cancel_withdraws_a_version_2_permission_and_held_prompts(python_sdk: Sdk) -> None:
    async def script(agent: Wire) -> None:
        agent.prompt("slow-permission")
        asked = await agent.until(lambda message: tag(message) == "session/request_permission")
        held = agent.prompt("hello")
        agent.write(method="session/cancel", params={"sessionId": "s1"})
        by_tag: dict[str, Json] = {}
        while not {"$/cancel_request", "idle", "answer"} <= by_tag.keys():
            message = await agent.read()
            by_tag[tag(message)] = message
        assert by_tag["$/cancel_request"]["params"] == {"requestId": asked["id"]}
        assert by_tag["idle"]["params"]["update"]["stopReason"] == "cancelled"
        assert by_tag["answer"]["id"] == held
        assert by_tag["answer"]["error"]["code"] == -32800

    drive(python_sdk, 2, script)


@BOTH
def test_a_closed_session_is_unknown_until_it_is_resumed(version: Version, python_sdk: Sdk) -> None:
    async def script(agent: Wire) -> None:
        turn = agent.prompt("slow")
        await agent.until(lambda message: tag(message) == "agent_message_chunk")
        closed = agent.ask("session/close", sessionId="s1")
        if version == 1:
            assert (await agent.answer(turn))["result"] == {"stopReason": "cancelled"}
        else:
            await agent.until(lambda message: tag(message) == "idle")
        assert (await agent.answer(closed))["result"] == {}
        assert (await agent.answer(agent.prompt("hello")))["error"]["code"] == -32002
        [listed] = (await agent.call("session/list"))["sessions"]
        assert listed == {"sessionId": "s1", "cwd": "/work", "title": "Session s1"}
        assert (await agent.call("session/list", cwd="/elsewhere"))["sessions"] == []
        await agent.call("session/resume", sessionId="s1", cwd="/work", mcpServers=[])
        assert "result" in await agent.answer(agent.prompt("hello"))

    drive(python_sdk, version, script)


@BOTH
def test_an_agent_ends_when_its_input_ends_in_mid_turn(version: Version, python_sdk: Sdk) -> None:
    async def script(agent: Wire) -> None:
        agent.prompt("slow")
        await agent.until(lambda message: tag(message) == "agent_message_chunk")

    drive(python_sdk, version, script)
