"""Commands that read the sessions which `twofold serve` keeps."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.host.test_host import DEMO, turn
from tests.support.commands import twofold
from tests.support.real_time import run
from twofold.host.host import Host
from twofold.host.state_files import default_journal
from twofold.journal.sqlite import SqliteJournal

PROMPTS = ("The report says -0. Please fix that.", "What is a harbour?")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with two sessions; the directory of the sessions is `work` in it."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "work").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        run(_talk(folder / "work"))
    return folder


async def _talk(cwd: Path) -> None:
    journal = await SqliteJournal.open(default_journal())
    host = Host([*DEMO], dashes=True, cwd=cwd, journal=journal)
    try:
        for number, text in enumerate(PROMPTS):
            hosted = await host.new_session()
            await turn(hosted, text)
            host.rename(hosted.id, f"Session {number}")
    finally:
        await host.close()
        await journal.close()


@pytest.fixture(autouse=True)
def in_place(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(kept))
    monkeypatch.chdir(kept / "work")


def listed(*arguments: str) -> list[dict[str, Any]]:
    result = twofold("sessions", "--journal", "--json", *arguments)
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_sessions_of_a_directory_are_listed_the_last_one_first(kept: Path) -> None:
    assert [each["title"] for each in listed()] == ["Session 1", "Session 0"]
    assert {each["cwd"] for each in listed()} == {str(kept / "work")}
    assert all(each["events"] > 10 and each["bytes"] > 1000 for each in listed())
    result = twofold("sessions", "--journal")
    assert [line.split()[-1] for line in result.stdout.splitlines()] == ["1", "0"]


def test_the_sessions_of_another_directory_are_listed_if_all_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert listed() == []
    assert len(listed("--all")) == 2
    assert twofold("sessions", "--journal").stderr == "No sessions in this directory.\n"


@pytest.mark.parametrize("words", ["harbour", "HARBOUR", "what is"])
def test_a_session_is_found_by_what_was_sent(words: str) -> None:
    (found,) = listed("--search", words)
    assert found["title"] == "Session 1"
    assert "harbour" in found["excerpt"]


def test_a_session_is_found_by_its_title() -> None:
    assert [each["title"] for each in listed("--search", "session 0")] == ["Session 0"]


def test_a_search_without_a_journal_is_wrong_usage() -> None:
    result = twofold("sessions", "--search", "x")
    assert result.exit_code == 2
    assert "--search needs --journal" in result.stderr


def test_the_last_session_is_shown_with_its_turns_and_answers() -> None:
    text = twofold("show", "--journal").stdout
    assert text.startswith("── Session 1 ──\n")
    for words in ("> What is a harbour?", "permission allowed: Run it", "The turn took"):
        assert words in text


def test_a_session_is_shown_by_the_beginning_of_its_id() -> None:
    first = listed()[-1]["sessionId"]
    for wanted in (first, first[:8]):
        assert twofold("show", "--journal", wanted).stdout.startswith("── Session 0 ──\n")
    html = twofold("show", "--journal", first, "--format", "html").stdout
    assert "<script" not in html
    assert "Session 0" in html


def test_a_session_is_folded_and_converted() -> None:
    folded = twofold("fold", "--journal").stdout.splitlines()
    again = twofold("fold", input="\n".join(folded)).stdout.splitlines()
    assert [json.loads(each)["update"] for each in again] == [
        json.loads(each)["update"] for each in folded
    ]
    result = twofold("convert", "--journal", "--to", "1")
    assert result.exit_code == 3  # version 1 has no terminals of the agent
    updates = [json.loads(line) for line in result.stdout.splitlines()]
    assert "tool_call" in {each["sessionUpdate"] for each in updates}


def test_the_updates_of_a_session_are_shown_as_messages_and_up_to_one_of_them() -> None:
    rows = twofold("show", "--journal", "--wire").stdout
    assert "agent_message_chunk" in rows
    early = twofold("show", "--journal", "--at", "5").stdout
    assert 0 < len(early) < len(twofold("show", "--journal").stdout)


@pytest.mark.parametrize("command", ["show", "fold"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope"], "The journal has no session 'nope'"),
        (["--journal-file", "nowhere.db"], "nowhere.db"),
    ],
)
def test_what_is_not_there_is_named_without_a_traceback(
    command: str, arguments: list[str], words: str
) -> None:
    result = twofold(command, "--journal", *arguments)
    assert result.exit_code == 1
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_journal_is_read_while_a_server_writes_to_it() -> None:
    async def read_meanwhile() -> None:
        journal = await SqliteJournal.open(default_journal())
        try:
            result = await asyncio.to_thread(twofold, "show", "--journal")
            assert result.stdout.startswith("── Session 1 ──\n")
        finally:
            await journal.close()

    run(read_meanwhile())
