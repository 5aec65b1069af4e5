"""Files and terminals that a bridge offers to an agent of version 1, with real ones."""

# ruff: noqa: ASYNC240  (the loop of a test has nothing else to do)

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.bridge_peers import Json, Raw, Refused, bridged, new_session
from tests.support.real_time import in_real_time
from twofold.bridge import Bridge

BOTH = frozenset({"fs", "terminal"})


@asynccontextmanager
async def at_work(
    directory: Path, offer: frozenset[str] = BOTH, pass_env: tuple[str, ...] = (), **params: Any
) -> AsyncIterator[tuple[Raw, Raw, Bridge]]:
    """A client of version 2 that allows all, an agent of version 1, a session in `directory`."""
    async with bridged(2, 1, offer=offer, pass_env=pass_env) as (client, agent, bridge):
        client.on_request = lambda request: client.answer(request, chosen("allow"))
        await new_session(client, agent, cwd=str(directory), **params)
        yield client, agent, bridge


def chosen(option: str) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": option}}


async def code_of(asking: Coroutine[Any, Any, Any]) -> int:
    """The code of a refusal."""
    with pytest.raises(Refused) as refused:
        await asking
    code: int = refused.value.code
    return code


def of_session(**params: Any) -> Json:
    return {"sessionId": "s", **params}


async def create(agent: Raw, *command: str, **params: Any) -> str:
    """A terminal of the bridge, by its id."""
    asked = of_session(command=command[0], args=list(command[1:]), **params)
    terminal_id: str = (await agent.ask("terminal/create", asked))["terminalId"]
    return terminal_id


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


# ---- what is offered -------------------------------------------------------------------------

REQUESTS: dict[str, Json] = {
    "fs/read_text_file": {"path": "/x"},
    "fs/write_text_file": {"path": "/x", "content": ""},
    "terminal/create": {"command": "true"},
    "terminal/output": {"terminalId": "t"},
    "terminal/wait_for_exit": {"terminalId": "t"},
    "terminal/kill": {"terminalId": "t"},
    "terminal/release": {"terminalId": "t"},
}


@pytest.mark.parametrize("offer", [(), ("fs",), ("terminal",), ("fs", "terminal")])
@in_real_time
async def test_only_what_is_offered_is_advertised_and_done(offer: tuple[str, ...]) -> None:
    async with at_work(Path("/"), frozenset(offer)) as (client, agent, _):
        asked = [each for each in agent.messages if each.get("method") == "initialize"][-1]
        able = asked["params"]["clientCapabilities"]
        files = able.get("fs") or {}
        offered = "fs" in offer
        assert files.get("readTextFile", False) == offered
        assert files.get("writeTextFile", False) == offered
        assert able.get("terminal", False) == ("terminal" in offer)
        for method, params in REQUESTS.items():
            if method.partition("/")[0] not in offer:
                assert await code_of(agent.ask(method, of_session(**params))) == -32601
        cancelling = client.ask("terminal/cancel", of_session(terminalId="t"))
        assert await code_of(cancelling) == (-32602 if offer else -32601)


@in_real_time
async def test_a_request_that_is_malformed_is_refused() -> None:
    async with at_work(Path("/")) as (_, agent, _):
        assert await code_of(agent.ask("fs/read_text_file", of_session(path=5))) == -32602
        assert await code_of(agent.ask("terminal/create", of_session())) == -32602


@in_real_time
async def test_requests_for_an_unknown_session_are_refused(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (_, agent, _):
        for method, params in REQUESTS.items():
            params = {"sessionId": "other", **params}
            assert await code_of(agent.ask(method, params)) == -32602


# ---- files -----------------------------------------------------------------------------------


@in_real_time
async def test_files_are_read_and_written_as_they_are(tmp_path: Path) -> None:
    path, words = str(tmp_path / "new" / "größe.txt"), "\ufeffeins\r\nzwei\n👩‍💻"

    async with at_work(tmp_path) as (_, agent, _):
        wrote = await agent.ask("fs/write_text_file", of_session(path=path, content=words))
        assert wrote == {}
        read = await agent.ask("fs/read_text_file", of_session(path=path))
        assert read == {"content": words}
        part = of_session(path=path, line=2, limit=1)
        assert await agent.ask("fs/read_text_file", part) == {"content": "zwei\n"}
    assert Path(path).read_bytes() == words.encode()


@in_real_time
async def test_files_outside_of_the_session_are_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    secret = outside / "secret"
    secret.write_text("secret")
    (inside / "link").symlink_to(outside)
    ways = [
        str(secret),
        str(inside / ".." / "out" / "secret"),
        str(inside / "link" / "secret"),
        "secret",
        "",
    ]

    async with at_work(inside) as (_, agent, _):
        for path in ways:
            reading = agent.ask("fs/read_text_file", of_session(path=path))
            assert await code_of(reading) == -32602, path
            writing = agent.ask("fs/write_text_file", of_session(path=path, content="x"))
            assert await code_of(writing) == -32602, path
    assert secret.read_text() == "secret"
    assert sorted(tmp_path.rglob("*")) == sorted([inside, inside / "link", outside, secret])


@in_real_time
async def test_further_directories_of_a_session_are_served(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (two / "a").write_text("A")

    async with at_work(one, additionalDirectories=[str(two)]) as (_, agent, _):
        read = await agent.ask("fs/read_text_file", of_session(path=str(two / "a")))
        assert read == {"content": "A"}


@in_real_time
async def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (_, agent, _):
        reading = agent.ask("fs/read_text_file", of_session(path=str(tmp_path / "none")))
        assert await code_of(reading) == -32002


@in_real_time
async def test_a_session_that_is_set_up_elsewhere_has_its_files_there(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "a").write_text(folder.name)

    async with at_work(old) as (client, agent, _):
        reading = of_session(path=str(old / "a"))
        assert await agent.ask("fs/read_text_file", reading) == {"content": "old"}
        terminal = await create(agent, "sleep", "60")
        waiting = asyncio.create_task(
            agent.ask("terminal/wait_for_exit", of_session(terminalId=terminal))
        )
        resuming = asyncio.create_task(
            client.ask("session/resume", of_session(cwd=str(new), mcpServers=[]))
        )
        agent.answer(await agent.receive("session/resume"), {})
        await resuming
        there = of_session(path=str(new / "a"))
        assert await agent.ask("fs/read_text_file", there) == {"content": "new"}
        assert await code_of(agent.ask("fs/read_text_file", reading)) == -32602
        assert (await waiting)["signal"] == "SIGTERM"


@in_real_time
async def test_directories_that_are_not_absolute_are_not_served() -> None:
    async with at_work(Path("here")) as (_, agent, _):
        path = str(Path.cwd() / "here" / "x")
        writing = agent.ask("fs/write_text_file", of_session(path=path, content="x"))
        assert await code_of(writing) == -32602
    assert not Path("here").exists()


# ---- terminals -------------------------------------------------------------------------------


def of_terminals(client: Raw) -> list[Json]:
    return [each for each in client.updates() if "terminalId" in each]


def of_terminal(client: Raw, terminal_id: str) -> list[Json]:
    return [each for each in client.updates() if each.get("terminalId") == terminal_id]


def printed(client: Raw, terminal_id: str) -> bytes:
    """What a client of version 2 has of a terminal's output."""
    output = b""
    for update in of_terminal(client, terminal_id):
        if update["sessionUpdate"] == "terminal_output_chunk":
            output += base64.b64decode(update["data"])
        elif "output" in update:
            output = base64.b64decode(update["output"]["data"])
    return output


def exit_status(client: Raw, terminal_id: str) -> Any:
    found = [each.get("exitStatus") for each in of_terminal(client, terminal_id)]
    return next((each for each in found if each), None)


@in_real_time
async def test_a_terminal_of_the_bridge_is_one_of_version_2(tmp_path: Path) -> None:
    """Every byte of it, and how it ended."""
    folder = os.path.realpath(tmp_path)
    code = "import os, sys; [os.write(1, bytes(range(256))) for _ in range(64)]; sys.exit(3)"

    async with at_work(tmp_path) as (client, agent, _):
        terminal = await create(agent, *python(code))
        ended = await agent.ask("terminal/wait_for_exit", of_session(terminalId=terminal))
        assert ended["exitCode"] == 3
        await client.until(lambda: exit_status(client, terminal))
        first, *_, last = of_terminal(client, terminal)
        assert first["sessionUpdate"] == "terminal_update"
        assert "os.write" in first["command"]
        assert first["cwd"] == folder
        assert first["capabilities"] == {"cancel": {}}
        assert last["exitStatus"]["exitCode"] == 3
        assert last["capabilities"] is None
        assert printed(client, terminal) == bytes(range(256)) * 64


@in_real_time
async def test_a_terminal_is_where_the_session_works_unless_it_is_elsewhere_inside(
    tmp_path: Path,
) -> None:
    (tmp_path / "sub").mkdir()
    folder = os.path.realpath(tmp_path)

    async def pwd(client: Raw, agent: Raw, **params: Any) -> str:
        terminal = await create(agent, "pwd", **params)
        await client.until(lambda: exit_status(client, terminal))
        return printed(client, terminal).decode().strip()

    async with at_work(tmp_path) as (client, agent, _):
        assert await pwd(client, agent) == folder
        assert await pwd(client, agent, cwd=str(tmp_path / "sub")) == f"{folder}/sub"
        outside = of_session(command="pwd", cwd="/")
        assert await code_of(agent.ask("terminal/create", outside)) == -32602


@pytest.mark.parametrize(("passed", "output"), [((), "none none"), (("ONE",), "ours none")])
@in_real_time
async def test_a_command_does_not_get_the_secrets_of_the_bridge_unless_they_are_named(
    passed: tuple[str, ...], output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE", "ours")
    monkeypatch.setenv("TWO", "ours")

    async with at_work(tmp_path, pass_env=passed) as (client, agent, _):
        terminal = await create(agent, "sh", "-c", "echo ${ONE-none} ${TWO-none}")
        await client.until(lambda: exit_status(client, terminal))
        assert printed(client, terminal).decode() == f"{output}\n"


@in_real_time
async def test_the_agent_reads_what_its_terminal_printed(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (_, agent, _):
        terminal = await create(agent, "printf 'größe'; exit 0", outputByteLimit=3)
        named = of_session(terminalId=terminal)
        await agent.ask("terminal/wait_for_exit", named)
        output = await agent.ask("terminal/output", named)
        assert output["output"] == "ße"
        assert output["truncated"] is True
        assert output["exitStatus"]["exitCode"] == 0
        assert await agent.ask("terminal/release", named) == {}
        assert await code_of(agent.ask("terminal/output", named)) == -32002


@in_real_time
async def test_a_tool_call_shows_the_terminal_it_runs_in(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (client, agent, _):
        terminal = await create(agent, "true")
        content = [{"type": "terminal", "terminalId": terminal}]
        call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Shell"}
        agent.update({**call, "content": content})
        await client.until(lambda: "toolCallId" in client.updates()[-1])
        assert client.updates()[-1]["content"] == content


@in_real_time
async def test_a_command_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (client, agent, _):
        asking = agent.ask("terminal/create", of_session(command="no-such-command"))
        assert await code_of(asking) == -32002
        assert of_terminals(client) == []


@pytest.mark.parametrize("by", ["the client", "the agent"])
@in_real_time
async def test_a_terminal_can_be_ended_from_both_sides(tmp_path: Path, by: str) -> None:
    async with at_work(tmp_path) as (client, agent, _):
        terminal = await create(agent, "echo up; exec sleep 60")
        named = of_session(terminalId=terminal)
        await client.until(lambda: printed(client, terminal) == b"up\n")
        if by == "the client":
            assert await client.ask("terminal/cancel", named) == {}
        else:
            assert await agent.ask("terminal/kill", named) == {}
        ended = await agent.ask("terminal/wait_for_exit", named)
        assert ended["signal"] == "SIGTERM"
        await client.until(lambda: exit_status(client, terminal))
        assert exit_status(client, terminal)["signal"] == "SIGTERM"
        assert await code_of(client.ask("terminal/cancel", named)) == -32602
        output = await agent.ask("terminal/output", named)  # it was not released
        assert output["output"] == "up\n"


@in_real_time
async def test_a_terminal_that_nobody_knows_cannot_be_cancelled(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (client, agent, _):
        await create(agent, "sleep", "60")
        for params in (of_session(terminalId="t"), {"sessionId": "x", "terminalId": "t"}, {}):
            assert await code_of(client.ask("terminal/cancel", params)) == -32602


# ---- permission ------------------------------------------------------------------------------


def permissions(client: Raw) -> list[Json]:
    asked = [each for each in client.messages if each.get("method") == "session/request_permission"]
    return [each["params"] for each in asked]


@in_real_time
async def test_nothing_is_run_that_was_not_allowed(tmp_path: Path) -> None:
    made = tmp_path / "made"
    (tmp_path / "old").write_text("old")
    answers: list[Any] = [
        chosen("reject"),
        {"outcome": {"outcome": "cancelled"}},
        chosen("no-such-option"),
        {"outcome": {"outcome": "_later"}},
        {},
        None,
    ]
    requests: list[tuple[str, Json]] = [
        ("terminal/create", of_session(command="touch", args=[str(made)])),
        ("fs/write_text_file", of_session(path=str(made), content="x")),
        ("fs/write_text_file", of_session(path=str(tmp_path / "old"), content="x")),
        ("fs/read_text_file", of_session(path=str(tmp_path / "old"))),
    ]

    async with at_work(tmp_path) as (client, agent, _):
        for answer in answers:
            client.on_request = lambda request, answer=answer: client.answer(request, answer)
            for method, params in requests:
                assert await code_of(agent.ask(method, params)) == -32001
        client.on_request = lambda request: client.send(
            id=request["id"], error={"code": -32603, "message": "there is no person"}
        )
        for method, params in requests:
            assert await code_of(agent.ask(method, params)) == -32001
        assert len(permissions(client)) == len(requests) * (len(answers) + 1)
        assert of_terminals(client) == []
        ended = [each["status"] for each in client.updates() if "toolCallId" in each]
        assert set(ended) == {"failed"}
    assert not made.exists()
    assert (tmp_path / "old").read_text() == "old"


@in_real_time
async def test_a_question_shows_the_command_its_variables_and_where_it_runs(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("sub")
    folder = os.path.realpath(tmp_path)

    async with at_work(tmp_path) as (client, agent, _):
        env = [{"name": "PAGER", "value": "rm -rf ~"}]
        await create(agent, "pwd", "-P", env=env, cwd=str(tmp_path / "link"))
        (asked,) = permissions(client)
        command = "PAGER='rm -rf ~' pwd -P"
        cwd = f"{folder}/sub"
        assert asked["subject"] == {"type": "command", "command": command, "cwd": cwd}
        assert asked["title"] == f"Run {command}"
        kinds = [each["kind"] for each in asked["options"]]
        assert kinds == ["allow_once", "allow_always", "reject_once"]
        (terminal,) = {each["terminalId"] for each in of_terminals(client)}
        await client.until(lambda: exit_status(client, terminal))
        assert printed(client, terminal).decode().strip() == cwd


@in_real_time
async def test_a_question_shows_the_file_and_what_would_become_of_it(tmp_path: Path) -> None:
    folder = os.path.realpath(tmp_path)
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")

    async with at_work(tmp_path) as (client, agent, _):
        for name in ("a", "new", "bytes"):
            path = f"{folder}/{name}"
            params = of_session(path=path, content="one\n2\n")
            await agent.ask("fs/write_text_file", params)
            asked = permissions(client)[-1]
            call = asked["subject"]["toolCall"]
            assert (call["kind"], call["locations"]) == ("edit", [{"path": path}])
            diff, *text = call["content"]
            operation = "add" if name == "new" else "modify"
            assert diff["changes"] == [{"operation": operation, "path": path}]
            if name == "bytes":  # there is no old text to compare with
                assert [each["content"]["text"] for each in text] == ["one\n2\n"]
            else:
                assert "+2\n" in diff["patch"]["text"]
                assert ("-two\n" in diff["patch"]["text"]) == (name == "a")
            assert "allow_always" not in {each["kind"] for each in asked["options"]}
            done = [each for each in client.updates() if "toolCallId" in each][-1]
            assert (done["toolCallId"], done["status"]) == (call["toolCallId"], "completed")


@in_real_time
async def test_what_is_always_allowed_is_exactly_that(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)

    async with at_work(tmp_path) as (client, agent, _):
        client.on_request = lambda request: client.answer(request, chosen("allow-always"))
        for _ in range(2):
            await create(agent, "true")
            await agent.ask("fs/read_text_file", of_session(path=str(tmp_path / "a")))
        assert len(permissions(client)) == 2
        (tmp_path / "sub").mkdir()
        await create(agent, "true", cwd=str(tmp_path / "sub"))
        await create(agent, "true", env=[{"name": "A", "value": "1"}])
        await create(agent, "true", "x")
        await agent.ask("fs/read_text_file", of_session(path=str(tmp_path / "b")))
        writing = of_session(path=str(tmp_path / "a"), content="x")
        client.on_request = lambda request: client.answer(request, chosen("allow"))
        for _ in range(2):
            await agent.ask("fs/write_text_file", writing)
        assert len(permissions(client)) == 8


@in_real_time
async def test_a_session_requires_action_while_the_bridge_asks(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (client, agent, _):
        client.on_request = None
        prompt = of_session(prompt=[{"type": "text", "text": "go"}])
        await client.ask("session/prompt", prompt)
        running = asyncio.create_task(create(agent, "true"))
        asked = await client.receive("session/request_permission")
        states = [each["state"] for each in client.updates() if "state" in each]
        assert states == ["running", "requires_action"]
        client.answer(asked, chosen("allow"))
        await running
        await client.until(lambda: "running" in str(client.updates()[-3:]))


@pytest.mark.parametrize("way", ["cancel", "close", "delete", "death", "departure"])
@in_real_time
async def test_a_question_of_the_bridge_is_settled_with_its_session(
    tmp_path: Path, way: str
) -> None:
    async with at_work(tmp_path) as (client, agent, _):
        client.on_request = None
        prompt = of_session(prompt=[{"type": "text", "text": "go"}])
        await client.ask("session/prompt", prompt)
        made = of_session(command="touch", args=[str(tmp_path / "made")])
        running = asyncio.create_task(agent.ask("terminal/create", made))
        await client.receive("session/request_permission")
        if way == "cancel":
            client.notify("session/cancel", {"sessionId": "s"})
            assert await code_of(asyncio.wait_for(running, 10)) == -32800
            await client.receive("$/cancel_request")
            again = agent.ask("terminal/create", made)
            assert await code_of(again) == -32800, "no permission is asked in a cancelled turn"
        elif way in ("close", "delete"):
            method = f"session/{way}"
            ending = asyncio.create_task(client.ask(method, {"sessionId": "s"}))
            agent.answer(await agent.receive(method), {})
            await ending
            assert await code_of(asyncio.wait_for(running, 10)) == -32800
        elif way == "death":
            await agent.transport.close()
    running.cancel()
    await asyncio.wait({running})
    assert not (tmp_path / "made").exists()


# ---- ends ------------------------------------------------------------------------------------


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def sleeper(client: Raw, agent: Raw) -> tuple[str, int]:
    """A terminal in which something runs that takes long, and its process."""
    terminal = await create(agent, "echo $$; exec sleep 60")
    await client.until(lambda: printed(client, terminal).endswith(b"\n"))
    return terminal, int(printed(client, terminal))


@pytest.mark.parametrize("in_a_turn", [False, True])
@pytest.mark.parametrize("method", ["session/close", "session/delete"])
@in_real_time
async def test_a_session_that_ends_ends_what_runs_in_it(
    tmp_path: Path, method: str, in_a_turn: bool
) -> None:
    async with at_work(tmp_path) as (client, agent, _):
        if in_a_turn:  # which the agent does not end
            prompt = of_session(prompt=[{"type": "text", "text": "go"}])
            await client.ask("session/prompt", prompt)
        terminal, pid = await sleeper(client, agent)
        named = of_session(terminalId=terminal)
        waiting = asyncio.create_task(agent.ask("terminal/wait_for_exit", named))
        ending = asyncio.create_task(client.ask(method, {"sessionId": "s"}))
        agent.answer(await agent.receive(method), {})
        await ending
        count = len(client.updates())
        assert (await waiting)["signal"] == "SIGTERM"
        assert not runs(pid)
        assert await code_of(agent.ask("terminal/create", of_session(command="ls"))) == -32602
        assert len(client.updates()) == count


@pytest.mark.parametrize("who", ["client", "agent"])
@in_real_time
async def test_a_bridge_that_ends_ends_what_runs(tmp_path: Path, who: str) -> None:
    pids: list[int] = []

    async with at_work(tmp_path) as (client, agent, _):
        for _ in range(3):
            terminal, pid = await sleeper(client, agent)
            pids.append(pid)
        waiting = asyncio.create_task(
            agent.ask("terminal/wait_for_exit", of_session(terminalId=terminal))
        )
        if who == "agent":
            await agent.transport.close()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert len(pids) == 3
    assert not any(map(runs, pids))
