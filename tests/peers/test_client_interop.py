"""Twofold's client with agents made with the official SDKs, as real processes.

Each agent of `README.md` is taken through every step in one session, and the session's state is
compared with what is written there: first with the version demanded, then with it left open.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import twofold
from tests.peers.facts import OPTIONS, PLAN, Json
from tests.peers.test_py_peers import SDKS, program
from tests.peers.test_ts_peers import agent_command
from tests.peers.validators import Version
from twofold import Client, ClientSession, Message, Problem, Question, Reply, ToolCall, connect
from twofold.wire import v2
from twofold.wire.shared import PermissionOption

STEP_SECONDS = 10.0
PATCH = """\
diff --git /tmp/demo.txt /tmp/demo.txt
--- /tmp/demo.txt
+++ /tmp/demo.txt
@@ -1 +1 @@
-old
+new
"""


class Agent(NamedTuple):
    """An agent of `README.md`, and what its SDK lacks."""

    version: Version
    name: str
    release: str
    command: list[str]
    deletes: bool = True
    names_errors: bool = True


@pytest.fixture(scope="module", params=["ts v1", "ts v2", "py v1", "py v2"])
def agent(
    request: pytest.FixtureRequest, node_sdk: Path, python_sdk: Callable[[str], Path]
) -> Agent:
    sdk, version = request.param.split(" v")
    spoken: Version = 1 if version == "1" else 2
    if sdk == "ts":
        command = agent_command(node_sdk, spoken)
        return Agent(spoken, f"ts-agent-v{version}", "2.4.0", command)
    command = program(python_sdk, "agent", spoken)
    return Agent(
        *(spoken, f"py-agent-v{version}", SDKS[spoken], command),
        deletes=spoken == 2,
        names_errors=spoken == 1,
    )


class Person:
    """Answers as the step wants it, and remembers what was asked."""

    def __init__(self) -> None:
        self.kind = ""
        self.questions: list[Question] = []
        self.asked = asyncio.Event()

    async def __call__(self, question: Question) -> PermissionOption | None:
        self.questions.append(question)
        self.asked.set()
        if not self.kind:
            await asyncio.Event().wait()  # until it is cancelled
        return question.option(self.kind)


class Meeting:
    """A client in conversation with an agent."""

    def __init__(self, agent: Agent, client: Client, person: Person) -> None:
        self.agent, self.client, self.person = agent, client, person
        self.v1 = agent.version == 1
        self.updates: list[v2.SessionUpdate] = []
        self.session: ClientSession

    async def open(self) -> None:
        self.session = await self.client.new_session("/tmp")
        self.session.on_update(self.updates.append)

    async def prompt(self, text: str) -> Reply:
        self.updates.clear()
        return await self.session.prompt(text)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that changes in the session."""
        changes = self.session.changes(0)
        while not condition():
            await anext(changes)
        changes.close()

    def call(self, identity: str) -> ToolCall:
        return self.session.state.tool_calls[identity]


@asynccontextmanager
async def met(agent: Agent, version: Version | None) -> AsyncIterator[Meeting]:
    problems: list[Problem] = []
    person = Person()
    options: dict[str, Any] = {"version": version, "ask": person, "on_problem": problems.append}
    async with asyncio.timeout(30), connect(agent.command, **options) as client:
        meeting = Meeting(agent, client, person)
        await meeting.open()
        yield meeting
    assert problems == []


def mode(session: ClientSession) -> Json:
    [option] = session.state.config_options
    assert isinstance(option, v2.SessionConfigSelect)
    assert option.category == "mode"
    values = [each.value for each in option.options if isinstance(each, v2.SessionConfigUngrouped)]
    return {"current": option.current_value, "available": values}


# ---- the steps -------------------------------------------------------------------------------


async def introduces(meeting: Meeting) -> None:
    client, agent = meeting.client, meeting.agent
    assert client.protocol_version == agent.version
    assert (client.agent.info.name, client.agent.info.version) == (agent.name, agent.release)
    [method] = client.auth_methods
    assert isinstance(method, v2.AuthMethodAgent)
    assert method.method_id == "token"
    await client.authenticate("token")
    assert [client.can(what) for what in ("load", "resume", "list", "close")] == [True] * 4
    assert client.can("delete") is agent.deletes
    assert meeting.session.session_id == "s1"
    assert mode(meeting.session) == {"current": "ask", "available": ["ask", "code"]}
    assert meeting.session.state.state == "idle"


async def streams(meeting: Meeting) -> None:
    reply = await meeting.prompt("stream")
    assert (reply.text, reply.stop_reason) == ("one two three four five", "end_turn")
    entries = [(entry.role, entry.text) for entry in reply.entries if isinstance(entry, Message)]
    assert entries == [
        *(("user", "stream"), ("thought", "let me think"), ("agent", "one two three four five")),
    ]
    kinds = [type(update) for update in meeting.updates]
    assert kinds.count(v2.AgentMessageChunk) == 5
    assert kinds.count(v2.AgentThoughtChunk) == 2
    assert kinds[-1] is v2.StateUpdate
    state = meeting.session.state
    assert (state.state, state.stop_reason) == ("idle", "end_turn")
    if not meeting.v1:
        assert [entry.message_id for entry in reply.entries if isinstance(entry, Message)] == [
            *("u1", "h1", "m1"),
        ]


async def uses_tools(meeting: Meeting) -> None:
    reply = await meeting.prompt("tools")
    assert (reply.text, reply.stop_reason) == ("done", "end_turn")
    edit, hello = meeting.call("t2a"), meeting.call("t2b")
    assert (edit.kind, edit.title, edit.status) == ("edit", "Edit demo.txt", "completed")
    assert [each.path for each in edit.locations] == ["/tmp/demo.txt"]
    [diff] = edit.content
    assert isinstance(diff, v2.Diff)
    assert isinstance(diff.patch, v2.DiffPatch)
    assert diff.patch.text.strip() == PATCH.strip()
    assert [type(change) for change in diff.changes] == [v2.DiffModify]
    assert (hello.kind, hello.title, hello.status) == ("execute", "Say hello", "completed")
    [plan] = meeting.session.state.plans.values()
    assert isinstance(plan.plan, v2.PlanItems)
    assert [
        {"content": step.content, "priority": step.priority, "status": step.status}
        for step in plan.plan.entries
    ] == PLAN
    [shown] = hello.content
    if meeting.v1:
        assert isinstance(shown, v2.Content)
        assert isinstance(shown.content, v2.TextContent)
        assert shown.content.text == "hello"
        return
    assert isinstance(shown, v2.Terminal)
    terminal = meeting.session.state.terminals[shown.terminal_id]
    assert (terminal.terminal_id, terminal.command) == ("term2", "echo hello")
    assert bytes(terminal.output) == b"hello\n"
    assert terminal.exit_status is not None
    assert terminal.exit_status.exit_code == 0


async def asks(meeting: Meeting) -> None:
    for number, kind, option, status in (
        (3, "allow_once", "a1", "completed"),
        (4, "reject_once", "r1", "failed"),
    ):
        meeting.person.kind = kind
        reply = await meeting.prompt("permission")
        assert (reply.text, reply.stop_reason) == (f"outcome: {option}", "end_turn")
        assert meeting.call(f"p{number}").status == status
        question = meeting.person.questions[-1]
        assert [[each.option_id, each.kind] for each in question.options] == OPTIONS
        assert question.request.title == "Run make"
        assert (question.subject.kind, question.subject.title) == ("execute", "Run make")
        decided = meeting.session.decisions[-1]
        assert (decided.by, decided.option_kind) == ("person", kind)
        assert meeting.session.state.permissions == {}


async def is_cancelled(meeting: Meeting) -> None:
    meeting.updates.clear()
    turn = asyncio.create_task(meeting.session.prompt("slow"))
    await meeting.until(
        lambda: any(isinstance(update, v2.AgentMessageChunk) for update in meeting.updates)
    )
    await meeting.session.cancel()
    reply = await turn
    assert (reply.stop_reason, reply.given_up) == ("cancelled", False)
    assert reply.text.replace("tick ", "") == ""
    assert reply.text.startswith("tick ")
    state = meeting.session.state
    assert (state.state, state.stop_reason, state.cancelling) == ("idle", "cancelled", False)


async def is_cancelled_while_it_asks(meeting: Meeting) -> None:
    meeting.person.kind = ""
    meeting.person.asked.clear()
    turn = asyncio.create_task(meeting.prompt("slow-permission"))
    await meeting.person.asked.wait()
    state = meeting.session.state
    [waiting] = state.permissions.values()
    assert waiting.tool_call_id == "p6"
    assert state.state == ("running" if meeting.v1 else "requires_action")
    await meeting.session.cancel()
    reply = await turn
    assert (reply.stop_reason, reply.text) == ("cancelled", "")
    assert meeting.call("p6").status == ("failed" if meeting.v1 else "cancelled")
    assert state.permissions == {}
    assert meeting.session.decisions[-1].by == "cancel"


async def fails(meeting: Meeting) -> None:
    with pytest.raises(twofold.TurnFailed) as caught:
        await meeting.prompt("error")
    assert (caught.value.error is not None) is meeting.agent.names_errors
    assert caught.value.code == -32603
    if meeting.agent.names_errors:
        assert caught.value.message == "boom"
    assert (meeting.session.state.state, meeting.session.state.stop_reason) == ("idle", "error")


async def is_set(meeting: Meeting) -> None:
    await meeting.session.set_mode("code")
    assert mode(meeting.session) == {"current": "code", "available": ["ask", "code"]}
    with pytest.raises(twofold.RequestFailed):
        await meeting.session.set_mode("no such mode")
    assert mode(meeting.session)["current"] == "code"


async def is_listed(meeting: Meeting) -> None:
    infos = [info async for info in meeting.client.list_sessions()]
    assert [(info.session_id, info.cwd, info.title) for info in infos] == [
        ("s1", "/tmp", "Session s1")
    ]
    assert [info async for info in meeting.client.list_sessions("/elsewhere")] == []


def recorded(session: ClientSession) -> list[tuple[str, str]]:
    """The conversation, each entry with its kind and its text, as if it had ticked once."""
    entries = []
    for entry in session.state.entries:
        if isinstance(entry, ToolCall):
            entries.append((entry.tool_call_id, entry.status))
        else:
            text = "tick " if entry.text.startswith("tick ") else entry.text
            entries.append((entry.role, text))
    return entries


def conversation(version: Version) -> list[tuple[str, str]]:
    stopped = "failed" if version == 1 else "cancelled"
    return [
        *(("user", "stream"), ("agent", "one two three four five")),
        *(("user", "tools"), ("t2a", "completed"), ("t2b", "completed"), ("agent", "done")),
        *(("user", "permission"), ("p3", "completed"), ("agent", "outcome: a1")),
        *(("user", "permission"), ("p4", "failed"), ("agent", "outcome: r1")),
        *(("user", "slow"), ("agent", "tick ")),
        *(("user", "slow-permission"), ("p6", stopped)),
        ("user", "error"),
    ]


async def is_loaded(meeting: Meeting) -> None:
    live = [each for each in recorded(meeting.session) if each[0] != "thought"]
    assert live == conversation(meeting.agent.version)
    before = meeting.session.state
    assert await meeting.client.load_session("s1", "/tmp") is meeting.session
    assert meeting.session.state is not before
    assert recorded(meeting.session) == conversation(meeting.agent.version)
    assert mode(meeting.session)["current"] == "code"
    assert meeting.session.state.state == "idle"
    if not meeting.v1:
        assert bytes(meeting.session.state.terminals["term2"].output) == b"hello\n"


async def is_resumed(meeting: Meeting) -> None:
    before = recorded(meeting.session)
    assert await meeting.client.resume_session("s1", "/tmp") is meeting.session
    assert recorded(meeting.session) == before
    reply = await meeting.prompt("once more")
    assert reply.text == "echo: once more"
    await meeting.session.close()
    with pytest.raises(twofold.LocalError, match="is closed"):
        await meeting.session.prompt("hello?")
    again = await meeting.client.resume_session("s1", "/tmp")
    assert again is not meeting.session
    assert again.state.entries == []
    assert mode(again)["current"] == "code"
    assert (await again.prompt("and again")).text == "echo: and again"
    meeting.session = again


async def ends(meeting: Meeting) -> None:
    turn = asyncio.create_task(meeting.session.prompt("slow"))
    await meeting.until(lambda: meeting.session.state.state == "running")
    await meeting.session.close()
    assert (await turn).stop_reason == "cancelled"
    assert meeting.client.sessions == {}
    if meeting.agent.deletes:
        await meeting.client.delete_session("s1")
        assert [info async for info in meeting.client.list_sessions()] == []
        with pytest.raises(twofold.RequestFailed) as caught:
            await meeting.client.load_session("s1", "/tmp")
        assert caught.value.code == -32002
    else:
        with pytest.raises(twofold.NotSupported, match="cannot delete sessions"):
            await meeting.client.delete_session("s1")


STEPS: list[Callable[[Meeting], Awaitable[None]]] = [
    *(introduces, streams, uses_tools, asks, is_cancelled, is_cancelled_while_it_asks, fails),
    *(is_set, is_listed, is_loaded, is_resumed, ends),
]


def test_the_client_goes_through_every_step(agent: Agent) -> None:
    async def scenario() -> None:
        async with met(agent, agent.version) as meeting:
            for step in STEPS:
                async with asyncio.timeout(STEP_SECONDS):
                    await step(meeting)

    asyncio.run(scenario())


# ---- negotiation -----------------------------------------------------------------------------


def test_the_version_is_found_out_where_it_is_left_open(agent: Agent) -> None:
    async def scenario() -> None:
        async with met(agent, None) as meeting:
            await introduces(meeting)
            await streams(meeting)

    asyncio.run(scenario())


def test_a_version_that_the_agent_does_not_speak_is_refused(agent: Agent) -> None:
    other: Version = 2 if agent.version == 1 else 1

    async def scenario() -> None:
        async with connect(agent.command, version=other, on_problem=lambda problem: None):
            raise AssertionError("that is not its version")

    with pytest.raises((twofold.WrongVersion, twofold.RequestFailed)) as caught:
        asyncio.run(scenario())
    if isinstance(caught.value, twofold.WrongVersion):
        assert caught.value.protocol_version == agent.version


def test_several_sessions_go_on_at_once_and_several_prompts_one_by_one(agent: Agent) -> None:
    async def scenario() -> None:
        async with met(agent, agent.version) as meeting:
            others = [await meeting.client.new_session("/tmp") for _ in range(3)]
            replies = await asyncio.gather(
                *(session.prompt("stream") for session in (meeting.session, *others))
            )
            assert {reply.text for reply in replies} == {"one two three four five"}
            assert [session.session_id for session in others] == ["s2", "s3", "s4"]
            prompts = ("stream", "one more", "and one more")
            replies = await asyncio.gather(*map(meeting.session.prompt, prompts))
            assert [reply.text for reply in replies] == [
                *("one two three four five", "echo: one more", "echo: and one more"),
            ]

    asyncio.run(scenario())
