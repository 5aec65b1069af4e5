"""A host: sessions with the real demo agent, one process each, and bounds for all of them."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.hosted import Page
from tests.support.real_time import in_real_time
from tests.support.socket_agent import echo_agent, reachable
from twofold.client.launch import Launch
from twofold.errors import LocalError
from twofold.host.agent_choice import ChosenAgent
from twofold.host.host import (
    Host,
    Limits,
    NoSuchSession,
    NotADirectory,
    TooMany,
)
from twofold.host.hosted_session import HostedSession, NotRunning
from twofold.host.kept_sessions import read_sessions
from twofold.host.known_agents import UnknownAgent
from twofold.host.settings import Settings
from twofold.host.state_files import state_file
from twofold.policy import Policy, parse_rule
from twofold.session import snapshot
from twofold.view.blocks import RemarkBlock, ToolCallBlock

DEMO = [sys.executable, "-P", "-m", "twofold", "agent", "--speed", "0"]
both = pytest.mark.parametrize("version", ["1", "2"])


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@asynccontextmanager
async def hosting(
    *arguments: str, cwd: Path | str = "/", **options: Any
) -> AsyncIterator[tuple[Host, list[Launch]]]:
    """A host whose default agent is the demo; when it is left, no process is."""
    launches: list[Launch] = []

    def launch(agent: ChosenAgent, where: Path, policy: Policy) -> Launch:
        made = Launch(agent.command, cwd=where, env=agent.env, policy=policy)
        launches.append(made)
        return made

    host = Host([*DEMO, *arguments], dashes=True, cwd=cwd, launch=launch, **options)
    try:
        yield host, launches
    finally:
        await host.close()
    assert not any(map(is_alive, launches))


def is_alive(launch: Launch) -> bool:
    process = launch._process
    return process is not None and process.exit_code is None and process.signal is None


async def until(hosted: HostedSession, condition: Callable[[], object]) -> None:
    """Wait until a condition holds that frames are about."""
    changed = asyncio.Event()
    subscription = hosted.subscribe(lambda frame: changed.set())
    while not condition():
        await changed.wait()
        changed.clear()
    subscription.cancel()


async def state(hosted: HostedSession, *wanted: str) -> None:
    await until(hosted, lambda: hosted.state in wanted)


async def ended(hosted: HostedSession) -> None:
    """Wait until the agent has failed and its process is gone."""
    await state(hosted, "failed")
    if hosted._runs:
        await asyncio.wait(hosted._runs)


async def turn(hosted: HostedSession, text: str, option: str = "allow_once") -> None:
    """Send a prompt, and answer every question of its turn."""
    before = len(remarks(hosted))
    hosted.prompt([text], "Anna")

    def ended() -> bool:
        for fact in hosted.facts()["questions"]:
            chosen = [each["option"] for each in fact["options"] if each["kind"] == option]
            hosted.answer(fact["question"], chosen[0], "Anna")
        return len(remarks(hosted)) > before and hosted.state == "idle"

    await until(hosted, ended)


def remarks(hosted: HostedSession) -> list[str]:
    blocks = [hosted.live.block(key) for key in hosted.live.places]
    return [block.text for block in blocks if isinstance(block, RemarkBlock)]


# ---- the whole walk ------------------------------------------------------------------------------


@both
@in_real_time
async def test_two_observers_see_the_same_of_the_showcase(version: str, tmp_path: Path) -> None:
    async with hosting("--version", version, cwd=tmp_path) as (host, _):
        hosted = await host.new_session()
        pages = [Page(hosted), Page(hosted)]
        await turn(hosted, "The report says -0. Please fix that.")
        hosted.flush()
        late = Page(hosted)
        assert pages[0].shown() == pages[1].shown() == late.shown()
        calls = [each for each in late.blocks.values() if isinstance(each, ToolCallBlock)]
        assert {each.kind for each in calls} >= {"read", "edit", "execute"}
        assert all(each.finished for each in calls)
        facts = late.facts
        assert facts["session"]["state"] == "idle"
        assert facts["usage"]["words"].startswith("53k of 200k tokens")
        assert [step["status"] for step in facts["plan"][0]["steps"]] == ["completed"] * 4
        assert facts["commands"][0]["name"] == "showcase"
        assert {"mode", "select"} <= {each["kind"] for each in facts["controls"]}
        assert [each["words"] for each in facts["answered"]] == ["allowed by Anna"]
        assert remarks(hosted)[0].startswith("The turn took")
        assert len(list(snapshot(hosted.live.session))) > 10
        assert len(await hosted.search("oslo")) > 1


@both
@in_real_time
async def test_an_agent_that_crashes_in_a_turn_is_started_again(
    version: str, tmp_path: Path
) -> None:
    arguments = ["--version", version, "--keep", str(tmp_path)]
    async with hosting(*arguments) as (host, launches):
        hosted = await host.new_session()
        await turn(hosted, "/echo one")
        hosted.prompt(["/crash"], "Anna")
        hosted.prompt(["/echo two"], "Anna")
        await state(hosted, "failed")
        assert hosted.failure is not None
        assert "divided by zero" in hosted.failure, "the end of its standard error"
        await host.restart(hosted.id)
        await state(hosted, "idle", "failed")
        assert hosted.state == "idle"
        assert len(launches) == 2
        assert not is_alive(launches[0]), "one ends before the other is started"
        hosted.flush()
        (held,) = hosted.facts()["queue"]
        before = len(remarks(hosted))
        hosted.send_queued(held["item"])
        await until(hosted, lambda: len(remarks(hosted)) > before)
        texts = [getattr(entry, "text", "") for entry in hosted.live.session.entries]
        assert any("one" in text for text in texts), "the session was loaded again"


@in_real_time
async def test_an_agent_at_a_url_is_hosted_and_connected_to_again(tmp_path: Path) -> None:
    async with reachable(echo_agent(), "sesame") as served:
        host = Host([f"{served.url}?key=secret"], token="sesame", cwd=tmp_path)
        try:
            hosted = await host.new_session()
            await turn(hosted, "one")
            assert host.default_name == f"{served.url}?…"
            assert hosted.agent_name == host.default_name
            served.refuse = 401
            served.cut()
            await state(hosted, "failed")
            assert "broke it off" in (hosted.failure or "")
            await host.restart(hosted.id)
            await until(hosted, lambda: "401" in (hosted.failure or ""))
            served.refuse = None
            await host.restart(hosted.id)
            await state(hosted, "idle")
            await turn(hosted, "two")
            texts = [getattr(entry, "text", "") for entry in hosted.live.session.entries]
            assert texts == ["one", "echo: one", "two", "echo: two"]
        finally:
            await host.close()


@in_real_time
async def test_what_an_agent_has_is_listed_and_opened_again(tmp_path: Path) -> None:
    arguments = ["--keep", str(tmp_path / "kept")]
    async with hosting(*arguments, cwd=tmp_path) as (host, launches):
        hosted = await host.new_session()
        await turn(hosted, "/echo remember this")
        host.rename(hosted.id, "My title")
        session = hosted.agent_session
        assert session is not None
        await host.close_session(hosted.id)
        assert host.sessions == []
        with pytest.raises(NoSuchSession):
            host.find(hosted.id)
        listed = await asyncio.gather(*(host.resumable() for _ in range(5)))
        assert len(launches) == 2, "five questions at once start one agent"
        assert all(each == listed[0] for each in listed)
        ((fact,),) = [listed[0]]
        assert fact["session"] == session
        assert fact["title"] == "My title"
        assert fact["cwd"] == str(tmp_path)
        again = await host.resume(session)
        assert again is await host.resume(session), "it is open already"
        await state(again, "idle", "failed")
        assert again.state == "idle"
        assert again.title == "My title"
        assert again.count >= 2
        await host.delete(again.id)
        assert host.sessions == []
        assert await host.resumable() == []


@in_real_time
async def test_an_agent_that_wants_a_login_fails_with_the_command_for_it() -> None:
    async with hosting("auth") as (host, _):
        hosted = await host.new_session()
        await state(hosted, "failed")
        assert hosted.failure is not None
        assert "requires a login" in hosted.failure
        assert "`twofold run --cwd / -- " in hosted.failure
        with pytest.raises(NotRunning):
            await host.delete(hosted.id)


@in_real_time
async def test_rules_of_the_server_are_applied_and_named(tmp_path: Path) -> None:
    def policy(settings: Settings) -> Policy:
        return Policy([parse_rule("execute", "reject"), *settings.rules])

    (tmp_path / ".twofold.toml").write_text('[rules]\nreject = ["read"]\n')
    async with hosting(policy=policy) as (host, _):
        hosted = await host.new_session(cwd=tmp_path)
        await state(hosted, "idle")
        hosted.prompt(["/permission"], "Anna")
        await until(hosted, lambda: hosted.facts()["answered"])
        (fact,) = hosted.facts()["answered"]
        assert fact["by"] == "policy"
        assert "--reject execute" in fact["words"] or "rejected by" in fact["words"]


@in_real_time
async def test_a_session_can_begin_with_a_mode() -> None:
    async with hosting() as (host, _):
        hosted = await host.new_session(mode="code")
        wrong = await host.new_session(mode="none of these")
        await state(hosted, "idle", "failed")
        hosted.flush()
        mode = next(each for each in hosted.facts()["controls"] if each["kind"] == "mode")
        assert mode["value"] == "code"
        await state(wrong, "idle", "failed")
        assert "cannot begin with mode" in str(wrong.failure)


# ---- what is refused -----------------------------------------------------------------------------


@in_real_time
async def test_a_name_from_a_client_is_never_run_as_a_command() -> None:
    async with hosting() as (host, launches):
        for name in ("/bin/sh", "./agent", "sh", "", "no-such-agent"):
            with pytest.raises(UnknownAgent):
                await host.new_session(name)
            with pytest.raises(UnknownAgent):
                await host.resumable(name)
        assert launches == []
        assert host.sessions == []


@pytest.mark.parametrize("cwd", ["/no/such/directory", "/etc/passwd", "a\0b"])
@in_real_time
async def test_a_session_works_in_a_directory_that_exists(cwd: str) -> None:
    async with hosting() as (host, launches):
        with pytest.raises(NotADirectory):
            await host.new_session(cwd=cwd)
        assert launches == []


@in_real_time
async def test_sessions_and_agents_have_bounds() -> None:
    async with hosting(limits=Limits(agents=2, sessions=3)) as (host, launches):
        first, second = await host.new_session(), await host.new_session()
        with pytest.raises(TooMany, match="2 agents running"):
            await host.new_session()
        with pytest.raises(TooMany):
            await host.resumable()
        await state(second, "idle")
        second.prompt(["/crash"])
        await ended(second)
        third = await host.new_session()
        with pytest.raises(TooMany):
            await host.restart(second.id)
        await host.close_session(third.id)
        with pytest.raises(LocalError, match="still runs"):
            await host.restart(first.id)
        await host.restart(second.id)
        await state(second, "idle", "failed")
        second.prompt(["/crash"])
        await ended(second)
        await host.new_session()
        with pytest.raises(TooMany, match="3 sessions"):
            await host.new_session()
        storm = await asyncio.gather(
            *(host.new_session() for _ in range(100)), return_exceptions=True
        )
        assert all(isinstance(each, TooMany) for each in storm)
        assert sum(map(is_alive, launches)) <= 2


@in_real_time
async def test_an_agent_that_cannot_be_started_fails_the_session(tmp_path: Path) -> None:
    host = Host(["no-such-program-at-all"], dashes=True, cwd=tmp_path)
    hosted = await host.new_session()
    await state(hosted, "failed")
    assert "no-such-program-at-all" in str(hosted.failure)
    assert host.sessions[0]["state"] == "failed"
    assert "no-such-program-at-all" in host.sessions[0]["words"]
    with pytest.raises(LocalError):
        await host.resumable()
    await host.close()
    with pytest.raises(LocalError, match="being stopped"):
        await host.new_session()


# ---- the list ------------------------------------------------------------------------------------


@in_real_time
async def test_the_list_is_reported_when_it_changes() -> None:
    async with hosting() as (host, _):
        reported: list[Any] = []
        changed = asyncio.Event()

        def note(sessions: list[Any]) -> None:
            reported.append([(each["title"], each["state"]) for each in sessions])
            changed.set()

        subscription = host.subscribe(note)
        hosted = await host.new_session()
        await turn(hosted, "/permission")
        while not reported or reported[-1] != [("/permission", "idle")]:
            changed.clear()
            await changed.wait()
        subscription.cancel()
        await host.close_session(hosted.id)
        assert len(reported) < 20
        assert [("New session", "starting")] in reported


@in_real_time
async def test_the_agents_that_can_be_named_are_listed_with_the_default_first() -> None:
    async with hosting() as (host, _):
        first, *others = host.agents()
        assert first["name"] == host.default_name
        assert first["installed"] is True
        assert {"demo", "claude"} <= {each["name"] for each in others}
    assert Host().agents()[0]["name"] == Host().default_name == "demo"


@in_real_time
async def test_first_words_and_titles_are_kept_where_the_terminal_client_keeps_them() -> None:
    async with hosting() as (host, _):
        hosted = await host.new_session()
        await turn(hosted, "/echo hello")
        host.rename(hosted.id, "Mine")
        (kept,) = read_sessions(state_file("sessions"), DEMO).values()
        assert (kept.first_words, kept.title) == ("/echo hello", "Mine")
        assert kept.session_id == hosted.agent_session


@in_real_time
async def test_every_process_has_ended_when_a_host_is_closed() -> None:
    async with hosting() as (host, launches):
        hosted = [await host.new_session() for _ in range(3)]
        await asyncio.gather(*(state(each, "idle") for each in hosted))
        hosted[0].prompt(["/slow"])
        hosted[1].prompt(["/slow-permission"])
        await state(hosted[0], "running")
        await state(hosted[1], "waiting")
        closing = asyncio.create_task(host.close_session(hosted[2].id))
        await asyncio.sleep(0)
        host.hurry()
        await host.close()
        await closing
        assert len(launches) == 3
        assert not any(map(is_alive, launches))


def test_the_environment_of_an_agent_is_that_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    command = [sys.executable, "-c", "import os; os._exit(int(os.environ['CODE']))"]
    file.write_text(f"agent = 'mine'\n[agents.mine]\ncommand = {command}\nenv = {{CODE = '42'}}\n")
    monkeypatch.setenv("TWOFOLD_SETTINGS", os.fspath(file))
    (tmp_path / "folder").mkdir()

    async def run() -> None:
        host = Host(cwd=tmp_path)
        for name in (None, "mine"):
            hosted = await host.new_session(name, cwd="folder/..")
            await state(hosted, "failed")
            assert hosted.agent_name == "mine"
            assert hosted.cwd == tmp_path
            assert "42" in str(hosted.failure)
        named = await Host([*DEMO], dashes=True, cwd=tmp_path).new_session("mine")
        await state(named, "failed")
        assert named.agent_name == "mine"
        await host.close()

    asyncio.run(run())
