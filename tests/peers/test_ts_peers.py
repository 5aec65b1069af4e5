"""The TypeScript peers of `README.md`, against each other, and the agents asked line by line.

What is tested here is the fixtures: that they do what is written down, and send nothing that
the official schema refuses.
"""

import asyncio
import json
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.peers.facts import ALL_STEPS, Json, Line, expected, with_one_tick
from tests.peers.validators import Schemas, SchemaValidator, Version
from tests.support.schema_shapes import methods_of
from twofold.convert.patches import git_patch

HERE = Path(__file__).parent
VERSIONS: list[Version] = [1, 2]


def agent_command(node_sdk: Path, version: Version) -> list[str]:
    return ["node", str(HERE / "ts_agent.mjs"), str(node_sdk), str(version)]


def run_client(
    node_sdk: Path, version: Version, agent: Sequence[str], **env: str
) -> dict[str, Line]:
    """The report of the client on each step."""
    client = ["node", str(HERE / "ts_client.mjs"), str(node_sdk), str(version), "--", *agent]
    done = subprocess.run(
        client, env=os.environ | env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line.pop("step"): line for line in lines}


# ---- each other --------------------------------------------------------------------------------


class Meeting(NamedTuple):
    """The report of a client on its agent, and the messages between them."""

    version: Version
    lines: dict[str, Line]
    to_agent: list[Line]
    from_agent: list[Line]


def meet(node_sdk: Path, version: Version, folder: Path, **env: str) -> Meeting:
    to_agent, from_agent = folder / f"to {version}", folder / f"from {version}"
    taps = [shlex.join(["tee", str(file)]) for file in (to_agent, from_agent)]
    agent = f"{taps[0]} | {shlex.join(agent_command(node_sdk, version))} | {taps[1]}"
    lines = run_client(node_sdk, version, ["sh", "-c", agent], **env)
    return Meeting(version, lines, messages(to_agent), messages(from_agent))


def messages(tap: Path) -> list[Line]:
    return [json.loads(line) for line in tap.read_text().splitlines()]


@pytest.fixture(scope="module", params=VERSIONS, ids=["v1", "v2"])
def meeting(
    request: pytest.FixtureRequest, node_sdk: Path, tmp_path_factory: pytest.TempPathFactory
) -> Meeting:
    """Client and agent of one version, through every step."""
    return meet(node_sdk, request.param, tmp_path_factory.mktemp("meeting"))


def test_client_and_agent_do_every_step_as_written_down(meeting: Meeting) -> None:
    info = {"name": f"ts-agent-v{meeting.version}", "version": "2.4.0"}
    assert list(meeting.lines) == ALL_STEPS
    assert with_one_tick(meeting.lines) == expected(meeting.version, info)


def test_both_send_only_messages_that_the_official_schema_allows(
    meeting: Meeting, schemas: Schemas, valid: SchemaValidator
) -> None:
    version = meeting.version
    methods = methods_of(schemas[f"v{version}", "stable"])
    sides = (meeting.to_agent, meeting.from_agent)
    for here, there in (sides, sides[::-1]):
        asked = {m["id"]: m["method"] for m in there if "method" in m and "id" in m}
        for message in here:
            name: str | None = "Error"
            value = message.get("error")
            if "method" in message:
                name, value = methods[message["method"]].params, message["params"]
            elif "result" in message:
                name, value = methods[asked[message["id"]]].result, message["result"]
            assert name is not None
            assert valid(version, "stable", name, value) == [], message


def words(sent: list[Line]) -> list[str]:
    """The messages of an agent, each in a word."""

    def word(message: Line) -> str:
        if "method" not in message:
            return "result" if "result" in message else "error"
        update = message["params"].get("update")
        if update is None:
            return str(message["method"])
        return str(update.get("state") or update["sessionUpdate"])

    return [word(message) for message in sent]


def turn(meeting: Meeting, step: str) -> list[str]:
    """The messages of the agent in a step: a v1 result ends its turn, a v2 result begins it."""
    sent = words(meeting.from_agent)
    results = [at for at, word in enumerate(sent) if word in {"result", "error"}]
    number = ALL_STEPS.index(step)
    if meeting.version == 1:
        return sent[results[number - 1] + 1 : results[number] + 1]
    return sent[results[number] : results[number + 1]]


V2_TOOLS = [
    *("plan_update", "terminal_update", "tool_call_update", "tool_call_update"),
    *("terminal_output_chunk", "tool_call_update", "terminal_output_chunk"),
    *("terminal_update", "tool_call_update", "plan_update", "agent_message_chunk"),
]
TURNS = {
    "stream": {
        1: [*["agent_thought_chunk"] * 2, *["agent_message_chunk"] * 5, "result"],
        2: [
            *("result", "user_message", "running"),
            *(*["agent_thought_chunk"] * 2, *["agent_message_chunk"] * 5, "idle"),
        ],
    },
    "tools": {
        1: [
            *("plan", "tool_call", "tool_call", "tool_call_update", "tool_call_update"),
            *("plan", "agent_message_chunk", "result"),
        ],
        2: ["result", "user_message", "running", *V2_TOOLS, "idle"],
    },
    "allow": {
        1: [
            *("tool_call", "session/request_permission", "tool_call_update"),
            *("agent_message_chunk", "result"),
        ],
        2: [
            *("result", "user_message", "running", "tool_call_update", "requires_action"),
            *("session/request_permission", "running", "tool_call_update"),
            *("agent_message_chunk", "idle"),
        ],
    },
    "cancel_permission": {
        1: ["tool_call", "session/request_permission", "tool_call_update", "result"],
        2: [
            *("result", "user_message", "running", "tool_call_update", "requires_action"),
            *("session/request_permission", "tool_call_update", "idle"),
        ],
    },
    "error": {1: ["error"], 2: ["result", "user_message", "running", "idle"]},
}


@pytest.mark.parametrize("step", TURNS)
def test_an_agent_sends_its_turn_in_the_order_written_down(meeting: Meeting, step: str) -> None:
    # the answer to a question may be there before the agent withdraws it, or after
    sent = [word for word in turn(meeting, step) if word != "$/cancel_request"]
    wanted = TURNS[step][meeting.version]
    # what a v2 agent sends before the next result belongs to the next step
    assert sent[: len(wanted)] == wanted


DIFFS: dict[Version, Json] = {
    1: {"path": "/tmp/demo.txt", "oldText": "old\n", "newText": "new\n"},
    2: {
        "changes": [{"operation": "modify", "path": "/tmp/demo.txt"}],
        "patch": {"format": "git_patch", "text": git_patch("/tmp/demo.txt", "old\n", "new\n")},
    },
}


def test_an_edit_carries_the_diff_of_its_version(meeting: Meeting) -> None:
    updates = (message.get("params", {}).get("update", {}) for message in meeting.from_agent)
    edits = [update.get("content") for update in updates if update.get("toolCallId") == "t2a"]
    diff = [{"type": "diff", **DIFFS[meeting.version]}]
    # as it begins, as it is completed, and in the replay
    assert edits == [None, diff, diff]


@pytest.mark.parametrize(("mine", "theirs"), [(1, 2), (2, 1)])
def test_peers_of_different_versions_do_not_come_together(
    mine: Version, theirs: Version, node_sdk: Path
) -> None:
    lines = run_client(node_sdk, mine, agent_command(node_sdk, theirs))
    assert not lines.pop("initialize")["ok"]
    assert list(lines.values()) == [{"ok": False, "error": "no session"}] * 13


@pytest.mark.parametrize("version", VERSIONS)
def test_the_environment_chooses_steps_prompts_and_cwd(
    version: Version, node_sdk: Path, tmp_path: Path
) -> None:
    prompts = {"stream": "/stream", "permission": " /hi there ", "cancel": "no"}
    environment = {
        "STEPS": "stream,allow,cancel",
        "PROMPTS": json.dumps(prompts),
        "CWD": "/somewhere/else",
    }
    meeting = meet(node_sdk, version, tmp_path, **environment)
    assert {step: facts["text"] for step, facts in meeting.lines.items()} == {
        "stream": "one two three four five",
        "allow": "echo: hi there",
        "cancel": "echo: no",
    }
    (new,) = (m for m in meeting.to_agent if m.get("method") == "session/new")
    assert new["params"]["cwd"] == "/somewhere/else"


# ---- an agent, asked what the client does not ask ----------------------------------------------


class Agent:
    """An agent process and the lines between."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin, self.stdout, self._id = process.stdin, process.stdout, 0

    def write(self, **message: Json) -> None:
        self.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, **params: Json) -> int:
        self._id += 1
        self.write(id=self._id, method=method, params=params)
        return self._id

    async def read_until(self, wanted: Callable[[Line], bool]) -> list[Line]:
        """The messages of the agent up to the one that is wanted."""
        sent: list[Line] = []
        while not (sent and wanted(sent[-1])):
            sent.append(json.loads(await self.stdout.readline()))
        return sent

    async def answer(self, request: int) -> Line:
        def answers(message: Line) -> bool:
            return message.get("id") == request and "method" not in message

        return (await self.read_until(answers))[-1]

    async def done(self, method: str, **params: Json) -> Line:
        return await self.answer(self.ask(method, **params))

    def prompt(self, text: str) -> int:
        return self.ask("session/prompt", sessionId="s1", prompt=[{"type": "text", "text": text}])

    async def new(self, cwd: str = "/a") -> str:
        answer = await self.done("session/new", cwd=cwd, mcpServers=[])
        return str(answer["result"]["sessionId"])


@asynccontextmanager
async def started(node_sdk: Path, version: Version) -> AsyncIterator[Agent]:
    """The agent, initialized; it ends by itself when its input does."""
    pipe = asyncio.subprocess.PIPE
    command = agent_command(node_sdk, version)
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    agent = Agent(process)
    try:
        async with asyncio.timeout(20):
            about = {"info": {"name": "test", "version": "1"}} if version == 2 else {}
            await agent.done("initialize", protocolVersion=version, **about)
            yield agent
            agent.stdin.close()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_are_numbered_listed_and_filtered(version: Version, node_sdk: Path) -> None:
    async def check() -> None:
        async with started(node_sdk, version) as agent:
            assert [await agent.new(cwd) for cwd in ("/a", "/b")] == ["s1", "s2"]
            everything = await agent.done("session/list")
            filtered = await agent.done("session/list", cwd="/b")
            assert everything["result"]["sessions"] == [
                {"sessionId": "s1", "cwd": "/a", "title": "Session s1"},
                {"sessionId": "s2", "cwd": "/b", "title": "Session s2"},
            ]
            assert filtered["result"]["sessions"] == everything["result"]["sessions"][1:]

    asyncio.run(check())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_closed_session_is_unknown_until_it_is_resumed(version: Version, node_sdk: Path) -> None:
    async def check() -> None:
        async with started(node_sdk, version) as agent:
            await agent.new()
            agent.prompt("slow")
            closed = agent.ask("session/close", sessionId="s1")
            turn = await agent.read_until(lambda message: message.get("id") == closed)
            assert words(turn)[-2:] == ["result" if version == 1 else "idle", "result"]
            assert "cancelled" in json.dumps(turn[-2])

            assert (await agent.answer(agent.prompt("hi")))["error"]["code"] == -32002
            assert "result" in await agent.done("session/resume", sessionId="s1", cwd="/a")
            assert "result" in await agent.answer(agent.prompt("hi"))

            assert "result" in await agent.done("session/delete", sessionId="s1")
            gone = await agent.done("session/resume", sessionId="s1", cwd="/a")
            assert gone["error"]["code"] == -32002

    asyncio.run(check())


def test_a_v1_agent_refuses_a_prompt_in_a_turn(node_sdk: Path) -> None:
    async def check() -> None:
        async with started(node_sdk, 1) as agent:
            await agent.new()
            slow = agent.prompt("slow")
            assert (await agent.answer(agent.prompt("hi")))["error"]["code"] == -32600
            agent.write(method="session/cancel", params={"sessionId": "s1"})
            assert (await agent.answer(slow))["result"] == {"stopReason": "cancelled"}

    asyncio.run(check())


def test_a_v2_agent_holds_a_prompt_until_the_turn_is_over(node_sdk: Path) -> None:
    async def check() -> None:
        async with started(node_sdk, 2) as agent:
            await agent.new()
            agent.prompt("permission")
            held = agent.prompt("hi")
            *_, request = await agent.read_until(
                lambda message: message.get("method") == "session/request_permission"
            )
            selected = {"outcome": {"outcome": "selected", "optionId": "a2"}}
            agent.write(id=request["id"], result=selected)
            until_held = await agent.read_until(lambda message: message.get("id") == held)
            assert words(until_held)[-3:] == ["agent_message_chunk", "idle", "result"]
            assert until_held[-1]["result"] == {"messageId": "u2"}

    asyncio.run(check())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cancel_right_behind_the_prompt_is_not_lost(version: Version, node_sdk: Path) -> None:
    async def check() -> None:
        async with started(node_sdk, version) as agent:
            await agent.new()
            agent.prompt("slow")
            agent.write(method="session/cancel", params={"sessionId": "s1"})
            turn = await agent.read_until(lambda message: "cancelled" in json.dumps(message))
            assert words(turn)[-1] == ("result" if version == 1 else "idle")

    asyncio.run(check())


def test_a_v2_agent_answers_held_prompts_when_cancelled(node_sdk: Path) -> None:
    async def check() -> None:
        async with started(node_sdk, 2) as agent:
            await agent.new()
            agent.prompt("slow")
            held = agent.prompt("hi")
            agent.write(method="session/cancel", params={"sessionId": "s1"})
            assert (await agent.answer(held))["error"]["code"] == -32800

    asyncio.run(check())
