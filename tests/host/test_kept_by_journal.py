"""Sessions that outlive their host: the real demo agent, and a journal in a file."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.host.test_host import DEMO, remarks, state, turn
from tests.support.hosted import Page
from tests.support.real_time import in_real_time
from twofold.errors import LocalError
from twofold.host.host import Host, Limits, TooMany
from twofold.host.hosted_session import HostedSession
from twofold.host.recovery import INTERRUPTED
from twofold.journal.sqlite import SqliteJournal

both = pytest.mark.parametrize("version", ["1", "2"])


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@asynccontextmanager
async def hosting(tmp_path: Path, *arguments: str, **options: Any) -> AsyncIterator[Host]:
    """A host whose journal is always the same."""
    journal = await SqliteJournal.open(tmp_path / "journal" / "sessions.db")
    keep = str(tmp_path / "agent")
    command = [*DEMO, "--keep", keep, *arguments]
    host = Host(command, dashes=True, cwd=tmp_path, journal=journal, **options)
    try:
        await host.open()
        yield host
    finally:
        await host.close()
        await journal.close()


def only(host: Host) -> HostedSession:
    (fact,) = host.sessions
    return host.find(fact["id"])


@both
@in_real_time
async def test_a_session_outlives_its_host(version: str, tmp_path: Path) -> None:
    async with hosting(tmp_path, "--version", version) as host:
        hosted = await host.new_session()
        await turn(hosted, "The report says -0. Please fix that.")
        host.rename(hosted.id, "The report")
        identity, shown = hosted.id, Page(hosted).blocks
        answered = hosted.facts()["answered"]
    async with hosting(tmp_path, "--version", version) as host:
        (fact,) = host.sessions
        assert (fact["id"], fact["state"]) == (identity, "cold")
        assert fact["title"] == "The report"
        hosted = host.find(identity)
        await hosted.ready()
        assert Page(hosted).blocks == shown
        assert hosted.facts()["answered"] == answered
        assert hosted.state == "cold"
        await turn(hosted, "Thank you.")
        assert len(Page(hosted).blocks) > len(shown)
        epoch, after = hosted.epoch, Page(hosted).blocks
    async with hosting(tmp_path, "--version", version) as host:
        hosted = only(host)
        await hosted.ready()
        assert Page(hosted).blocks == after
        assert hosted.epoch != epoch


@in_real_time
async def test_a_session_goes_on_with_its_own_agent_at_a_host_with_another(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        await turn(await host.new_session(), "hello")
    async with hosting(tmp_path, "--version", "1") as host:
        hosted = only(host)
        await hosted.ready()
        before = hosted.agent_name
        await turn(hosted, "again")
        assert hosted.failure is None
        assert (hosted.agent_name, host.default_name != before) == (before, True)


@in_real_time
async def test_a_session_without_a_prompt_is_not_kept(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        hosted = await host.new_session()
        await state(hosted, "idle")
    async with hosting(tmp_path) as host:
        assert host.sessions == []


@in_real_time
async def test_a_session_that_was_closed_is_not_listed_any_more(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        hosted = await host.new_session()
        await turn(hosted, "hello")
        await host.close_session(hosted.id)
    async with hosting(tmp_path) as host:
        assert host.sessions == []
        assert host._journal is not None
        (row,) = await host._journal.sessions()
        assert (row.state, row.first_words) == ("closed", "hello")


@in_real_time
async def test_a_session_that_was_deleted_is_gone(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        hosted = await host.new_session()
        await turn(hosted, "hello")
        await host.delete(hosted.id)
        assert host._journal is not None
        assert await host._journal.sessions() == []


@in_real_time
async def test_a_turn_that_was_interrupted_has_ended_and_what_was_queued_is_held(
    tmp_path: Path,
) -> None:
    async with hosting(tmp_path) as host:
        hosted = await host.new_session()
        hosted.prompt(["The report says -0."], "Anna")
        hosted.prompt(["And then?"], "Bert")
        await state(hosted, "waiting")
        await hosted.kept()
        journal = host._journal
        assert isinstance(journal, SqliteJournal)
        # as after a crash: another host reads what was kept by now
        copy = tmp_path / "copy" / "journal"
        copy.mkdir(parents=True, mode=0o700)
        for file in (tmp_path / "journal").iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
    async with hosting(tmp_path / "copy") as host:
        hosted = only(host)
        await hosted.ready()
        assert remarks(hosted) == [INTERRUPTED]
        assert hosted.facts()["questions"] == []
        assert [(each["text"], each["held"]) for each in hosted.facts()["queue"]] == [
            ("And then?", True)
        ]


@in_real_time
async def test_an_agent_without_work_is_ended_and_started_again_for_a_prompt(
    tmp_path: Path,
) -> None:
    async with hosting(tmp_path, idle_after=0.1) as host:
        hosted = await host.new_session()
        await turn(hosted, "hello")
        await state(hosted, "cold")
        await asyncio.wait(hosted._runs)
        await turn(hosted, "again")
        assert [each for each in remarks(hosted) if "does not remember" in each] == []


@in_real_time
async def test_cold_sessions_count_as_no_agents_but_starting_one_does(tmp_path: Path) -> None:
    async with hosting(tmp_path, limits=Limits(agents=1)) as host:
        hosted = await host.new_session()
        await turn(hosted, "hello")
    async with hosting(tmp_path, limits=Limits(agents=1)) as host:
        cold = only(host)
        await cold.ready()
        await state(await host.new_session(), "idle")
        with pytest.raises(TooMany):
            cold.prompt(["more"])
        assert cold.facts()["queue"] == []


@in_real_time
async def test_a_search_reads_the_sessions_of_the_journal_that_it_finds(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        for words in ("Where is the lighthouse?", "What is a harbour?"):
            await turn(await host.new_session(), words)
    async with hosting(tmp_path) as host:
        await host.read_found("lighthouse")
        read = [fact["words"] for fact in host.sessions if host.find(fact["id"]).is_read]
        assert read == ["Where is the lighthouse?"]


@in_real_time
async def test_a_session_that_the_journal_cannot_keep_fails_and_goes_on_after_a_restart(
    tmp_path: Path,
) -> None:
    async with hosting(tmp_path) as host:
        hosted = await host.new_session()
        await turn(hosted, "hello")
        shown = Page(hosted).blocks
        journal = host._journal
        assert isinstance(journal, SqliteJournal)
        journal._on_failed("no space left on device")
        hosted.prompt(["lost"], "Anna")
        with pytest.raises(LocalError, match="no space left"):
            await hosted.kept()
        await state(hosted, "failed")
        assert "no space left" in (hosted.failure or "")
        await host.restart(hosted.id)
        await state(hosted, "idle")
        assert Page(hosted).blocks == shown
        await turn(hosted, "again")
