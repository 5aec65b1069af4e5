"""`twofold sessions`: what an agent knows, listed for people and for programs."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commands import DEMO, TWOFOLD, called, twofold, until
from tests.support.raw_process import gone, raw_agent
from twofold.cli.commands import commands
from twofold.cli.session_list import table
from twofold.client.known_sessions import age, shortened, title, when
from twofold.text import sanitize
from twofold.wire import v2

# `listed` is given the params of each request, and gives the result.
LISTS = """
def initialize(request):
    info = {"name": "raw", "version": "1"}
    answer(request, {"protocolVersion": 2, "info": info, "capabilities": {"session": {}},
                     "authMethods": [{"type": "agent", "methodId": "token", "name": "Token"}]})

def session(number, **more):
    stamp = f"2026-11-16T10:{number % 60:02}:00Z"
    return {"sessionId": f"s{number}", "cwd": "/work", "title": f"Talk {number}",
            "updatedAt": stamp, **more}

forgotten = fail
asked = []
def fail(request, *reason):
    if request["method"] != "session/list":
        return forgotten(request, *reason)
    asked.append(request["params"])
    answer(request, listed(request["params"]))
"""


def agent(listed: str) -> list[str]:
    """An agent that lists what the expression gives."""
    return raw_agent(f"{LISTS}\ndef listed(params): return {listed}")


def sessions(*arguments: str) -> Result:
    return twofold("sessions", *arguments)


@pytest.fixture(autouse=True)
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place where it is five and a half hours later."""
    monkeypatch.setenv("TZ", "XYZ-05:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# ---- the list ----------------------------------------------------------------------------------

THREE = """{"sessions": [
    session(1, title="The first", cwd="/work/a"),
    session(11, title=None),
    session(7, updatedAt="2026-11-16T10:07:00", title="äöü 漢字"),
    session(3, updatedAt="yesterday", cwd=""),
]}"""


def test_a_line_is_a_session_and_the_last_updated_is_the_first() -> None:
    result = sessions("--all", "--", *agent(THREE))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "s11  2026-11-16 15:41  /work",
        "s7   2026-11-16 15:37  /work    äöü 漢字",
        "s1   2026-11-16 15:31  /work/a  The first",
        "s3   -                 -        Talk 3",
    ]


def test_json_is_what_the_agent_said_in_the_words_of_version_2() -> None:
    result = sessions("--all", "--json", "--", *agent(THREE))
    listed = [json.loads(line) for line in result.stdout.splitlines()]
    assert (result.exit_code, result.stderr) == (0, "")
    assert [each["sessionId"] for each in listed] == ["s11", "s7", "s1", "s3"]
    assert listed[0] == {
        "sessionId": "s11",
        "cwd": "/work",
        "title": None,
        "updatedAt": "2026-11-16T10:11:00Z",
    }


def test_those_of_the_directory_are_listed_also_if_the_agent_lists_others(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "link").symlink_to(here)
    listed = f"""{{"sessions": [
        session(1, cwd={str(here)!r}), session(2, cwd={str(tmp_path / "link")!r}),
        session(3, cwd={str(tmp_path)!r}), session(4, cwd="\\0"),
        session(5, cwd={str(here)!r}, title=params["cwd"]),
    ]}}"""
    result = sessions("--cwd", str(here), "--json", "--", *agent(listed))
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["sessionId"] for each in found] == ["s5", "s2", "s1"]
    assert found[0]["title"] == str(here)  # which is what the agent was asked for


def test_the_sessions_of_the_demo_agent_are_listed_with_either_version(tmp_path: Path) -> None:
    command = [*DEMO, "--keep", str(tmp_path / "kept")]
    assert called("--prompt", "stream", "--cwd", str(tmp_path), *command).exit_code == 0
    for version in ("1", "2"):
        result = sessions("--cwd", str(tmp_path), *command, "--version", version)
        assert (result.exit_code, result.stderr) == (0, "")
        (line,) = result.stdout.splitlines()
        assert line.startswith("s1  20")
        assert str(tmp_path) in line


# ---- agents that cannot, do not end, or mean harm ----------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [([], "No sessions in this directory.\n"), (["--all"], "No sessions.\n")],
)
def test_no_sessions_are_no_error(options: list[str], told: str) -> None:
    result = sessions(*options, "--", *agent('{"sessions": []}'))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", told)


@pytest.mark.parametrize(
    ("command", "status", "told"),
    [
        (raw_agent(""), 1, "raw cannot list its sessions."),
        (agent("1"), 1, "The agent answered session/list with an invalid result"),
        (["no-such-agent"], 7, "there is no command no-such-agent"),
        ([sys.executable, "-c", "exit('no key')"], 7, "no key"),
    ],
    ids=["cannot", "nonsense", "no command", "dies"],
)
def test_what_goes_wrong_is_said_and_has_a_status(
    command: list[str], status: int, told: str
) -> None:
    result = sessions("--", *command)
    assert (result.exit_code, result.stdout) == (status, "")
    assert told in result.stderr


PAGE = "[session(300 * len(asked) + each) for each in range(300)]"


@pytest.mark.parametrize(
    ("listed", "lines", "told"),
    [
        (f'{{"sessions": {PAGE}, "nextCursor": str(len(asked))}}', 1000, "Only the first 1,000"),
        (f'{{"sessions": {PAGE}, "nextCursor": "again"}}', 600, ""),
        ('{"sessions": [session(1)], "nextCursor": str(len(asked))}', 1, "Only the first 1,000"),
        ('{"sessions": [], "nextCursor": str(len(asked))}', 0, "Only the first 1,000"),
        (f'{{"sessions": {PAGE} * 4}}', 300, ""),
        ('{"sessions": [session(each) for each in range(1001)]}', 1000, "Only the first 1,000"),
        ('{"sessions": [session(each) for each in range(1000)]}', 1000, ""),
    ],
)
def test_an_agent_that_lists_without_end_is_not_listened_to_for_ever(
    listed: str, lines: int, told: str
) -> None:
    result = sessions("--all", "--", *agent(listed))
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == lines
    assert told in result.stderr
    assert bool(told) == bool(result.stderr)


def test_a_signal_ends_the_list_and_the_agent(tmp_path: Path) -> None:
    asked = tmp_path / "pid"
    hangs = f"""
def fail(request, *reason):
    with open({str(asked)!r}, "w") as file:
        file.write(f"{{os.getpid()}}\\n")
    sys.stdin.read()
"""

    async def main() -> int | None:
        words = ["sessions", "--", *raw_agent(f"{LISTS}{hangs}")]
        process = await asyncio.create_subprocess_exec(*TWOFOLD, *words)
        await until(lambda: asked.exists() and asked.read_text().endswith("\n"))
        process.send_signal(signal.SIGINT)
        return await process.wait()

    assert asyncio.run(main()) == 5
    assert gone(int(asked.read_text()))


EVIL = r"""{"sessions": [session(1, sessionId="\x1b[2Jid\n\x9b1m", cwd="/\x1b]0;x\x07\ndir",
    title="a\r\nb\x1b[31m\u202ec" + "x" * 200)]}"""


def test_nothing_of_an_agent_controls_the_terminal() -> None:
    result = sessions("--all", "--", *agent(EVIL))
    (line,) = result.stdout.splitlines()
    assert line.startswith("id  2026-11-16 15:31  / dir  a b�c")
    assert line.endswith("x…")
    assert len(line) < 120


def test_json_on_a_terminal_says_the_same_and_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, terminal = os.openpty()
    with open(seen, "rb", buffering=0) as reader, open(terminal, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        with pytest.raises(SystemExit):
            commands(["sessions", "--all", "--json", "--", *agent(EVIL)])
        shown = reader.read(4000).decode()
    assert json.loads(shown)["sessionId"] == "\x1b[2Jid\n\x9b1m"
    assert not set("\x1b\x9b\u202e\x07").intersection(shown)


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        (["--login", "token"], 0, "No sessions in this directory."),
        (["--login", "x"], 1, "raw has no login 'x': it names token."),
        ([], 1, "The agent wants a login first; it names token. Choose one with --login"),
    ],
)
def test_an_agent_that_wants_a_login_gets_the_one_that_is_named(
    options: list[str], status: int, told: str
) -> None:
    wants = """
listing, logged_in = fail, []
def fail(request, *reason):
    if request["method"] == "auth/login":
        logged_in.append(True)
        answer(request, {})
    elif request["method"] == "session/list" and not logged_in:
        forgotten(request, -32000, "Authentication required")
    else:
        listing(request, *reason)
"""
    command = raw_agent(f'{LISTS}\ndef listed(params): return {{"sessions": []}}\n{wants}')
    result = sessions(*options, "--", *command)
    assert (result.exit_code, result.stdout) == (status, "")
    assert told in result.stderr


# ---- what is shown of a session ----------------------------------------------------------------

texts = st.one_of(st.none(), st.text(), st.text(st.sampled_from("\x1b[2J\x9b\u202e\n\t\r漢a")))
stamps = st.one_of(texts, st.datetimes().map(str), st.just("0001-01-01T00:00:00+14:00"))
infos = st.builds(
    v2.SessionInfo,
    session_id=st.text(),
    cwd=st.text(),
    title=texts,
    updated_at=stamps,
)


@given(st.lists(infos, min_size=1, max_size=5))
def test_a_session_is_one_harmless_line_whatever_it_is_called(listed: list[v2.SessionInfo]) -> None:
    lines = table(listed)
    assert len(lines) == len(listed)
    for line in lines:
        assert sanitize(line) == line
        assert "\n" not in line


@pytest.mark.parametrize("stamp", [None, "", "soon", "9999-12-31T23:59:59-14:00", "2026-13-01"])
def test_a_time_that_cannot_be_told_here_is_left_out(stamp: str | None) -> None:
    assert when(v2.SessionInfo("s", "/", updated_at=stamp)) == ""


@given(st.text(), st.integers(2, 30))
def test_a_text_is_made_as_short_as_it_must_be(text: str, longest: int) -> None:
    line = shortened(text, longest)
    assert len(line) <= longest
    assert title(v2.SessionInfo("s", "/", title=text), longest) == line


@pytest.mark.parametrize(
    ("updated_at", "words"),
    [
        ("2026-11-16T11:59:30Z", "just now"),
        ("2026-11-16T12:00:30Z", "just now"),  # the agent's clock is ahead
        ("2026-11-16T11:55:00", "5 min ago"),
        ("2026-11-16T10:00:00+00:00", "2 h ago"),
        ("2026-11-14T11:00:00Z", "2 days ago"),
        ("yesterday", ""),
        (None, ""),
    ],
)
def test_the_age_of_a_session_is_in_words(updated_at: str | None, words: str) -> None:
    assert age(updated_at, datetime(2026, 11, 16, 12, tzinfo=UTC)) == words
