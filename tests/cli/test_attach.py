"""Clients of Twofold attached to the sessions of `twofold serve`, over the network."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest

import twofold
from tests.cli.test_serve import Serving, serving
from tests.support.commands import PATIENCE, TWOFOLD, until
from tests.support.real_time import in_real_time
from twofold.session import Session
from twofold.transport.base import Transport
from twofold.transport.http import StreamableHttp

Open = Callable[[], Any]
TASK = "The report says -0. Please fix that."


@pytest.fixture(params=["1", "2"], ids=["agent v1", "agent v2"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Serving]:
    """A server whose agent speaks this version."""
    agent = [*TWOFOLD, "agent", "--speed", "0", "--version", request.param]
    with serving(tmp_path, "--no-open", "--", *agent) as made:
        yield made


def address(server: Serving, scheme: str) -> str:
    return f"{scheme}://{urlsplit(server.url).netloc}/acp"


def token_of(server: Serving) -> str:
    return (server.folder / "token").read_text().strip()


def agent_of(server: Serving, way: str) -> Any:
    """What `connect` is given."""

    async def by_http() -> Transport:
        return await StreamableHttp.open(address(server, "http"), token=token_of(server))

    return address(server, "ws") if way == "websocket" else by_http


def connected(server: Serving, way: str, version: Literal[1, 2], **options: Any) -> Any:
    if way == "websocket":
        options["token"] = token_of(server)
    return twofold.connect(agent_of(server, way), version=version, **options)


def allow(question: twofold.Question) -> twofold.v2.PermissionOption | None:
    return question.option("allow_once")


def texts(session: Session) -> list[str]:
    return [
        entry.title or "" if isinstance(entry, twofold.ToolCall) else entry.text
        for entry in session.entries
    ]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("way", ["websocket", "http"])
@in_real_time
async def test_a_session_goes_on_in_a_client_that_comes_later(
    server: Serving, way: str, version: Literal[1, 2], tmp_path: Path
) -> None:
    async with connected(server, way, version, ask=allow) as client:
        assert client.protocol_version == version
        session = await client.new_session(tmp_path)
        reply = await session.prompt(TASK)
        assert reply.stop_reason == "end_turn"
        before, identity = texts(session.state), session.session_id
    async with connected(server, way, version, ask=allow) as client:
        listed = [info.session_id async for info in client.list_sessions(tmp_path)]
        assert identity in listed
        session = await client.load_session(identity, tmp_path)
        assert texts(session.state) == before
        assert (await session.prompt("Thank you.")).stop_reason == "end_turn"
        assert len(session.state.entries) > len(before)


@in_real_time
async def test_clients_of_both_versions_see_the_same_session_and_either_may_answer(
    server: Serving, tmp_path: Path
) -> None:
    asked: list[int] = []
    answered = asyncio.Event()

    async def wait(question: twofold.Question) -> twofold.v2.PermissionOption | None:
        asked.append(2)
        await answered.wait()  # until it is withdrawn, because the other one has answered
        return None

    def answer(question: twofold.Question) -> twofold.v2.PermissionOption | None:
        asked.append(1)
        return question.option("allow_once")

    async with (
        connected(server, "websocket", 2, ask=wait) as newer,
        connected(server, "http", 1, ask=answer) as older,
    ):
        prompting = await newer.new_session(tmp_path)
        watching = await older.load_session(prompting.session_id, tmp_path)
        reply = await prompting.prompt(TASK)
        assert reply.stop_reason == "end_turn"
        assert set(asked) == {1, 2}
        # the question is withdrawn, and what was sent last arrives, a moment later
        await until(lambda: not prompting.state.permissions)
        await until(lambda: texts(watching.state) == texts(prompting.state))


def ran(server: Serving, *arguments: str) -> "subprocess.CompletedProcess[str]":
    token = ("--token-file", str(server.folder / "token"))
    words = [each if each != "TOKEN" else token for each in arguments]
    flat = [word for each in words for word in (each if isinstance(each, tuple) else (each,))]
    return subprocess.run(
        [*TWOFOLD, *flat],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


def test_the_commands_take_the_address_of_the_server(server: Serving) -> None:
    url = address(server, "http")
    done = ran(server, "run", "--prompt", TASK, "--allow", "execute", "TOKEN", url)
    assert done.returncode == 0, done.stderr
    assert "Fixed: Oslo is just below freezing" in done.stdout
    listed = ran(server, "sessions", "--all", "--json", "TOKEN", url)
    titles = [json.loads(line).get("title") for line in listed.stdout.splitlines()]
    assert "No more negative zero" in titles
    examined = ran(server, "doctor", "--prompt", "hello", "TOKEN", url)
    assert examined.returncode == 0, examined.stdout
    assert "All is fine." in examined.stdout


@pytest.mark.parametrize("version", ["1", "2"])
def test_an_editor_that_starts_agents_by_command_reaches_the_server_by_the_bridge(
    server: Serving, version: str
) -> None:
    token = ["--token-file", str(server.folder / "token")]
    bridge = [*TWOFOLD, "bridge", *token, address(server, "ws")]
    words = ("run", "--prompt", TASK, "--allow", "execute", "--version", version, "--", *bridge)
    done = ran(server, *words)
    assert done.returncode == 0, done.stderr
    assert "Fixed: Oslo is just below freezing" in done.stdout


@pytest.mark.parametrize("token", ["", "wrong"])
def test_who_has_no_token_is_refused_in_words(server: Serving, token: str, tmp_path: Path) -> None:
    file = tmp_path / "no-token"
    file.write_text(token or "x")
    words = ["--token-file", str(file)] if token else []
    done = ran(server, "run", "--prompt", "hello", *words, address(server, "ws"))
    assert done.returncode == 7
    assert "(401)" in done.stderr
    assert "Traceback" not in done.stderr
