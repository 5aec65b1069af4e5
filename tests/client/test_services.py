"""What a client does for an agent of version 1: files and terminals, if it offers them.

That files and commands are handled well is tested elsewhere; here it is who may use them.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.idle_clock import simulated, until, within
from tests.support.raw_agent import RUNNING, Json, Problems, RawAgent, talk
from tests.support.raw_process import raw_agent
from tests.support.real_time import PATIENCE, in_real_time
from twofold import ClientSession, Policy, Question, connect
from twofold.policy import parse_rule
from twofold.rpc.errors import NOT_ALLOWED
from twofold.wire import v2
from twofold.wire.shared import Content, PermissionOption

ALLOW_ALL = Policy((), "allow")


async def seen(session: ClientSession, condition: Callable[[], object]) -> None:
    """Wait until the session shows something that a process has to do first."""
    changes = session.changes(0)
    while not condition():
        await anext(changes)
    changes.close()


class Agent:
    """An agent that uses the files and terminals of its client."""

    def __init__(self, raw: RawAgent) -> None:
        self.raw = raw

    async def ask(self, method: str, **params: Json) -> Json:
        answer = await self.raw.ask(method, {"sessionId": "s", **params})
        return answer["result"] if "result" in answer else answer["error"]

    async def read(self, path: Path, **params: Json) -> Json:
        return await self.ask("fs/read_text_file", path=str(path), **params)

    async def write(self, path: Path, content: str) -> Json:
        return await self.ask("fs/write_text_file", path=str(path), content=content)

    async def create(self, command: str, *args: str, **params: Json) -> Json:
        return await self.ask("terminal/create", command=command, args=list(args), **params)


# ---- who offers what -------------------------------------------------------------------------

USES: dict[str, tuple[str, Json]] = {
    "fs/read_text_file": ("fs", {"path": "/work/x"}),
    "fs/write_text_file": ("fs", {"path": "/work/x", "content": ""}),
    "terminal/create": ("terminal", {"command": "true"}),
    "terminal/output": ("terminal", {"terminalId": "t"}),
    "terminal/wait_for_exit": ("terminal", {"terminalId": "t"}),
    "terminal/kill": ("terminal", {"terminalId": "t"}),
    "terminal/release": ("terminal", {"terminalId": "t"}),
}


@pytest.mark.parametrize("offered", ["fs", "terminal", None])
@pytest.mark.parametrize("method", USES)
@simulated
async def test_only_what_is_offered_is_answered(method: str, offered: str | None) -> None:
    needs, params = USES[method]
    offer = [offered] if offered else []
    async with talk(1, offer=offer) as (client, raw):
        await client.new_session("/nonexistent")
        answer = await within(1, Agent(raw).ask(method, **params))
        assert (answer["code"] == -32601) is (needs != offered)


@simulated
async def test_what_is_offered_is_advertised() -> None:
    for offer in ([], ["fs"], ["terminal"], ["fs", "terminal"]):
        async with talk(1, version=1, offer=offer) as (_, raw):
            announced = raw.messages[0]["params"]["clientCapabilities"]
            files = "fs" in offer
            assert announced["fs"] == {"readTextFile": files, "writeTextFile": files}
            assert announced["terminal"] is ("terminal" in offer)


@pytest.mark.parametrize("method", USES)
@simulated
async def test_agents_of_version_2_have_files_and_terminals_of_their_own(method: str) -> None:
    async with talk(2, offer=["fs", "terminal"]) as (client, raw):
        assert "fs" not in str(raw.messages[0]["params"]["capabilities"])
        await client.new_session("/work")
        answer = await Agent(raw).ask(method, **USES[method][1])
        assert answer["code"] == -32601


@simulated
async def test_requests_for_an_unknown_session_are_refused() -> None:
    async with talk(1, offer=["fs"], policy=ALLOW_ALL) as (_, raw):
        answer = await Agent(raw).read(Path("/etc/passwd"))
        assert answer["code"] == -32602


# ---- files -----------------------------------------------------------------------------------


@simulated
async def test_files_are_read_and_written_where_the_policy_allows_it(tmp_path: Path) -> None:
    rules = [parse_rule("read", "allow"), parse_rule(f"edit,path:{tmp_path}/src/**", "allow")]
    async with talk(1, offer=["fs"], policy=Policy(rules)) as (client, raw):
        session = await client.new_session(tmp_path)
        agent = Agent(raw)
        assert await agent.write(tmp_path / "src" / "a.txt", "one\ntwo\n") == {}
        assert (tmp_path / "src" / "a.txt").read_text() == "one\ntwo\n"
        read = await agent.read(tmp_path / "src" / "a.txt", line=2, limit=1)
        assert read == {"content": "two\n"}
        refused = await agent.write(tmp_path / "b.txt", "no")
        assert refused["code"] == NOT_ALLOWED
        assert refused["message"] == "The client does not allow it"
        assert not (tmp_path / "b.txt").exists()
        assert [(each.by, each.allowed) for each in session.decisions] == [
            *(("policy", True), ("policy", True), ("nobody", False)),
        ]
        assert [each.rule for each in session.decisions] == [rules[1], rules[0], None]


@simulated
async def test_files_outside_of_the_session_are_out_of_reach_whatever_is_allowed(
    tmp_path: Path,
) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("x")
    (inside / "link").symlink_to(outside / "secret")
    asked: list[Question] = []

    def ask(question: Question) -> PermissionOption | None:
        asked.append(question)
        return question.option("allow_once")

    async with talk(1, offer=["fs"], ask=ask) as (client, raw):
        session = await client.new_session(inside)
        agent = Agent(raw)
        for path in (outside / "secret", inside / "link", inside / ".." / "out" / "secret"):
            assert (await agent.read(path))["code"] == -32602
            assert (await agent.write(path, "y"))["code"] == -32602
        assert (await agent.ask("fs/read_text_file", path="in/x"))["code"] == -32602
        assert asked == []
        assert session.decisions == []
    assert (outside / "secret").read_text() == "x"


@simulated
async def test_what_is_asked_shows_the_file_and_what_would_be_written(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> PermissionOption | None:
        asked.append(question)
        await asyncio.sleep(5)
        return question.option("allow_always")

    async with talk(1, offer=["fs"], ask=ask) as (client, raw):
        session = await client.new_session(tmp_path)
        agent = Agent(raw)
        (tmp_path / "a.txt").write_text("old\nsame\n")
        writing = asyncio.create_task(agent.write(tmp_path / "a.txt", "x" * 5000 + "\nsame\n"))
        await until(lambda: asked)
        [question] = asked
        assert list(session.state.permissions) == ["client:1"]
        assert question.request.title == f"Write {tmp_path / 'a.txt'}"
        assert question.subject.kind == "edit"
        assert question.subject.paths == (str(tmp_path / "a.txt"),)
        [diff] = question.content
        assert isinstance(diff, v2.Diff)
        assert diff.changes == [v2.DiffModify(str(tmp_path / "a.txt"))]
        assert isinstance(diff.patch, v2.DiffPatch)
        assert diff.patch.text.endswith(f"@@ -1,2 +1,2 @@\n-old\n+{'x' * 5000}\n same\n")
        assert await writing == {}
        assert session.state.permissions == {}
        assert [each.by for each in session.decisions] == ["person"]


@simulated
async def test_a_write_that_was_allowed_for_always_is_that_write_and_no_other(
    tmp_path: Path,
) -> None:
    def ask(question: Question) -> PermissionOption | None:
        return question.option("allow_always")

    async with talk(1, offer=["fs"], ask=ask) as (client, raw):
        session = await client.new_session(tmp_path)
        for text in ("x", "y", "x", "y"):
            (tmp_path / "a.txt").write_text("old")
            assert await Agent(raw).write(tmp_path / "a.txt", text) == {}
        assert [each.by for each in session.decisions] == [*["person"] * 2, *["remembered"] * 2]


async def shown_of(folder: Path, text: str, *, old: bytes | None) -> list[v2.ToolCallContent]:
    """What a person is shown of a write."""
    asked: list[Question] = []
    if old is not None:
        (folder / "a").write_bytes(old)

    def ask(question: Question) -> PermissionOption | None:
        asked.append(question)
        return question.option("reject_once")

    async with talk(1, offer=["fs"], ask=ask) as (client, raw):
        await client.new_session(folder)
        refused = await Agent(raw).write(folder / "a", text)
        assert refused["data"] == {"reason": "rejected by a person"}
    [question] = asked
    return list(question.content)


@simulated
async def test_a_new_file_is_shown_as_one(tmp_path: Path) -> None:
    [diff] = await shown_of(tmp_path, "x\n", old=None)
    assert isinstance(diff, v2.Diff)
    assert diff.changes == [v2.DiffAdd(str(tmp_path / "a"))]
    assert isinstance(diff.patch, v2.DiffPatch)
    assert "new file mode" in diff.patch.text
    assert diff.patch.text.endswith("+x\n")


@simulated
async def test_a_write_that_changes_nothing_has_no_patch(tmp_path: Path) -> None:
    [diff] = await shown_of(tmp_path, "x\n", old=b"x\n")
    assert diff == v2.Diff([v2.DiffModify(str(tmp_path / "a"))])


@simulated
async def test_what_takes_the_place_of_no_text_is_shown_as_it_will_be(tmp_path: Path) -> None:
    diff, content = await shown_of(tmp_path, "x" * 9000, old=b"\xff\xfe")
    assert diff == v2.Diff([v2.DiffModify(str(tmp_path / "a"))])
    assert content == Content(v2.TextContent("x" * 9000))


@simulated
async def test_a_link_that_changes_while_a_person_thinks_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("harmless")
    (tmp_path / "b").write_text("secret")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")

    def ask(question: Question) -> PermissionOption | None:
        assert question.subject.paths == (str(tmp_path / "a"),)
        link.unlink()
        link.symlink_to(tmp_path / "b")
        return question.option("allow_once")

    async with talk(1, offer=["fs"], ask=ask) as (client, raw):
        await client.new_session(tmp_path)
        assert await Agent(raw).read(link) == {"content": "harmless"}


@simulated
async def test_a_cancelled_turn_cancels_what_waits_to_be_allowed(tmp_path: Path) -> None:
    async def ask(question: Question) -> PermissionOption | None:
        await asyncio.sleep(3600)
        raise AssertionError("too late")

    async with talk(1, offer=["fs"], ask=ask) as (client, raw):
        session = await client.new_session(tmp_path)
        turn = asyncio.create_task(session.prompt("go"))
        prompt = await raw.receive("session/prompt")
        reading = asyncio.create_task(Agent(raw).read(tmp_path / "a"))
        await until(lambda: session.state.permissions)
        cancelling = asyncio.create_task(session.cancel())
        assert (await reading)["code"] == -32800
        raw.answer(prompt, {"stopReason": "cancelled"})
        await cancelling
        await turn


@simulated
async def test_files_come_after_the_updates_before_them(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    order: list[str] = []

    def ask(question: Question) -> PermissionOption | None:
        order.append("asked")
        return question.option("allow_once")

    async with talk(1, offer=["fs"], ask=ask) as (client, raw):
        session = await client.new_session(tmp_path)

        @session.on_update
        async def slowly(update: v2.SessionUpdate) -> None:
            await asyncio.sleep(5)
            order.append("handled")

        raw.update({"sessionUpdate": "usage_update", "used": 1, "size": 2})
        assert await Agent(raw).read(tmp_path / "a") == {"content": "x"}
        assert order == ["handled", "asked"]


@simulated
async def test_a_session_that_is_loaded_with_other_directories_serves_those(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "a").write_text(folder.name)
    async with talk(1, {"session/load": {}}, offer=["fs"], policy=ALLOW_ALL) as (client, raw):
        await client.new_session(one)
        agent = Agent(raw)
        assert await agent.read(one / "a") == {"content": "one"}
        await client.load_session("s", two)
        assert await agent.read(two / "a") == {"content": "two"}
        assert (await agent.read(one / "a"))["code"] == -32602


# ---- terminals -------------------------------------------------------------------------------


async def shown(session: ClientSession, output: bytes) -> None:
    await seen(
        session,
        lambda: any(output in bytes(each.output) for each in session.state.terminals.values()),
    )


@in_real_time
async def test_a_terminal_is_part_of_the_session(tmp_path: Path) -> None:
    async with talk(1, offer=["terminal"], policy=ALLOW_ALL) as (client, raw):
        session = await client.new_session(tmp_path)
        agent = Agent(raw)
        made = await agent.create("sh", "-c", "printf hello; exit 3")
        identity = made["terminalId"]
        content = [{"type": "terminal", "terminalId": identity}]
        fields = {"toolCallId": "t", "title": "Run", "content": content}
        raw.update({"sessionUpdate": "tool_call", **fields})
        exited = await agent.ask("terminal/wait_for_exit", terminalId=identity)
        assert exited["exitCode"] == 3
        await seen(session, lambda: session.state.terminals[identity].exit_status)
        terminal = session.state.terminals[identity]
        assert bytes(terminal.output) == b"hello"
        assert terminal.command == "sh -c 'printf hello; exit 3'"
        assert terminal.cwd == str(tmp_path)
        [item] = session.state.tool_calls["t"].content
        assert isinstance(item, v2.Terminal)
        assert item.terminal_id == identity
        output = await agent.ask("terminal/output", terminalId=identity)
        assert output["output"] == "hello"
        assert await agent.ask("terminal/release", terminalId=identity) == {}
        gone = await agent.ask("terminal/output", terminalId=identity)
        assert gone["code"] == -32002
        assert bytes(session.state.terminals[identity].output) == b"hello"


@in_real_time
async def test_a_command_runs_only_as_the_policy_allows_it(tmp_path: Path) -> None:
    rules = [parse_rule("command:echo *", "allow")]
    async with talk(1, offer=["terminal"], policy=Policy(rules)) as (client, raw):
        session = await client.new_session(tmp_path)
        agent = Agent(raw)
        made = await agent.create("echo", "fine")
        assert "terminalId" in made
        for refused in (
            agent.create("rm", "-r", "x"),
            agent.create("echo", "x; touch made"),
            agent.create("echo x; touch made"),
            agent.create("echo", "x", env=[{"name": "LD_PRELOAD", "value": "/tmp/evil.so"}]),
        ):
            assert (await refused)["code"] == NOT_ALLOWED
        assert [each.allowed for each in session.decisions] == [True, False, False, False, False]
        assert session.decisions[-1].subject.command == "LD_PRELOAD=/tmp/evil.so echo x"
        assert not (tmp_path / "made").exists()
        await agent.ask("terminal/wait_for_exit", terminalId=made["terminalId"])
        assert len(session.state.terminals) == 1


@in_real_time
async def test_a_command_is_asked_for_with_all_that_it_would_do(tmp_path: Path) -> None:
    asked: list[Question] = []

    def ask(question: Question) -> PermissionOption | None:
        asked.append(question)
        return question.option("allow_once")

    (tmp_path / "sub").mkdir()
    async with talk(1, offer=["terminal"], ask=ask) as (client, raw):
        session = await client.new_session(tmp_path)
        agent = Agent(raw)
        env = [{"name": "WORD", "value": "two words"}]
        made = await agent.create("sh", "-c", 'echo "$WORD"', env=env, cwd=str(tmp_path / "sub"))
        [question] = asked
        subject = question.request.subject
        assert isinstance(subject, v2.CommandPermissionSubject)
        command = "WORD='two words' sh -c 'echo \"$WORD\"'"
        assert (subject.command, subject.cwd) == (command, str(tmp_path / "sub"))
        assert (question.subject.kind, question.subject.command) == ("execute", command)
        await agent.ask("terminal/wait_for_exit", terminalId=made["terminalId"])
        await shown(session, b"two words\n")


@in_real_time
async def test_a_command_runs_in_the_directory_that_was_shown(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    shown: list[str | None] = []

    def ask(question: Question) -> PermissionOption | None:
        shown.append(question.subject.cwd)
        link.unlink()
        link.symlink_to(tmp_path / "b")
        return question.option("allow_once")

    async with talk(1, offer=["terminal"], ask=ask) as (client, raw):
        session = await client.new_session(tmp_path)
        agent = Agent(raw)
        made = await agent.create("pwd", cwd=str(link))
        await agent.ask("terminal/wait_for_exit", terminalId=made["terminalId"])
        output = await agent.ask("terminal/output", terminalId=made["terminalId"])
        assert output["output"] == f"{tmp_path / 'a'}\n"
        assert shown == [str(tmp_path / "a")]
        assert session.state.terminals[made["terminalId"]].cwd == str(tmp_path / "a")


@in_real_time
async def test_a_directory_that_becomes_a_link_while_a_person_thinks_is_left_alone(
    tmp_path: Path,
) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()

    def ask(question: Question) -> PermissionOption | None:
        (inside / "sub").rename(inside / "moved")
        (inside / "sub").symlink_to(outside)
        return question.option("allow_once")

    async with talk(1, offer=["terminal"], ask=ask) as (client, raw):
        await client.new_session(inside)
        refused = await Agent(raw).create("touch", "made", cwd=str(inside / "sub"))
        assert "has become a link" in refused["message"]
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ({}, "none none none\n"),
        ({"pass_env": ["SECRET"]}, "ours none none\n"),
        ({"env": {"GIVEN": "agent", "SECRET": "agent"}}, "none none none\n"),
    ],
    ids=["nothing", "named", "no command"],
)
@in_real_time
async def test_a_command_does_not_get_the_secrets_of_the_client(
    options: Json, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "ours")
    monkeypatch.setenv("OTHER_TOKEN", "ours")
    async with talk(1, offer=["terminal"], policy=ALLOW_ALL, **options) as (client, raw):
        await client.new_session(tmp_path)
        agent = Agent(raw)
        line = "echo ${SECRET-none} ${OTHER_TOKEN-none} ${GIVEN-none}"
        made = await agent.create("sh", "-c", line)
        await agent.ask("terminal/wait_for_exit", terminalId=made["terminalId"])
        got = await agent.ask("terminal/output", terminalId=made["terminalId"])
        assert got["output"] == output


RUNS = """
def prompt(request):
    params = {"sessionId": "s", "command": "echo ${GIVEN-none} ${SECRET-none} ${HIDDEN-none}"}
    send({"id": 9, "method": "terminal/create", "params": params})
    named = {"sessionId": "s", "terminalId": read()["result"]["terminalId"]}
    send({"id": 10, "method": "terminal/wait_for_exit", "params": named})
    read()
    send({"id": 11, "method": "terminal/output", "params": named})
    text(read()["result"]["output"])
    answer(request, {"stopReason": "end_turn"})
"""


@in_real_time
async def test_a_command_gets_what_was_set_for_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "ours")
    monkeypatch.setenv("HIDDEN", "ours")
    options: Json = {"env": {"GIVEN": "agent", "HIDDEN": None}, "pass_env": ["HIDDEN"]}
    command = raw_agent(RUNS)
    async with connect(command, offer=["terminal"], policy=ALLOW_ALL, **options) as client:
        session = await client.new_session(tmp_path)
        assert (await session.prompt("go")).text == "agent none none\n"


@in_real_time
async def test_an_allowed_command_is_not_allowed_in_another_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    rules = [parse_rule("command:true", "allow")]
    async with talk(1, offer=["terminal"], policy=Policy(rules)) as (client, raw):
        session = await client.new_session(tmp_path)
        agent = Agent(raw)
        assert "terminalId" in await agent.create("true", cwd=str(tmp_path))
        refused = await agent.create("true", cwd=str(tmp_path / "sub"))
        assert refused["code"] == NOT_ALLOWED
        assert refused["data"] == {"reason": "rejected: nobody to ask"}
        assert str(session.decisions[-1]).endswith(
            f"[execute, command: true, in: {tmp_path / 'sub'}];"
            " no rule for a command or a path covers another directory"
        )


@in_real_time
async def test_a_command_outside_of_the_session_is_not_even_asked_for(tmp_path: Path) -> None:
    async with talk(1, offer=["terminal"], policy=ALLOW_ALL) as (client, raw):
        session = await client.new_session(tmp_path)
        answer = await Agent(raw).create("true", cwd="/")
        assert answer["code"] == -32602
        assert session.decisions == []
        assert session.state.terminals == {}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


async def ended(pid: int) -> None:
    """Poll: the end of a process that is not a child is not reported."""
    for _ in range(int(PATIENCE / 0.01)):
        if not alive(pid):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it still runs")


@pytest.mark.parametrize("end", ["session", "client", "agent"])
def test_what_runs_ends_with(end: str, tmp_path: Path) -> None:
    async def scenario() -> int:
        answers: Json = {"session/close": {}}
        options: Json = {"offer": ["terminal"], "policy": ALLOW_ALL, "problems": Problems()}
        async with talk(1, answers, **options) as (client, raw):
            session = await client.new_session(tmp_path)
            await Agent(raw).create("sh", "-c", "echo $$ > pid; echo up; exec sleep 600")
            await shown(session, b"up")
            pid = int((tmp_path / "pid").read_text())
            assert alive(pid)
            if end == "session":
                await session.close()
                await ended(pid)
            elif end == "agent":
                await raw.gone()
                await ended(pid)
        return pid

    async def bounded() -> int:
        async with asyncio.timeout(PATIENCE):
            return await scenario()

    assert not alive(asyncio.run(bounded()))


@in_real_time
async def test_a_terminal_that_the_agent_waits_for_can_be_killed_meanwhile(tmp_path: Path) -> None:
    async with talk(1, offer=["terminal"], policy=ALLOW_ALL) as (client, raw):
        session = await client.new_session(tmp_path)
        raw.update(RUNNING)
        agent = Agent(raw)
        made = await agent.create("sleep", "600")
        identity = made["terminalId"]
        waiting = asyncio.create_task(agent.ask("terminal/wait_for_exit", terminalId=identity))
        assert await agent.ask("terminal/kill", terminalId=identity) == {}
        assert (await waiting)["signal"]
        await seen(session, lambda: session.state.terminals[identity].exit_status)
