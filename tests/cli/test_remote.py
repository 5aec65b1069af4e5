"""A URL where a command or the name of an agent is accepted, on every command that accepts one."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import PATIENCE, TWOFOLD, called, process, twofold
from tests.support.socket_agent import SocketAgent, echo_agent, in_a_thread
from twofold.transport.commands import environment

SECRET = "sesame-9"
PROMPT = ("--prompt", "hi")


@pytest.fixture(scope="module")
def remote() -> Iterator[SocketAgent]:
    with in_a_thread(echo_agent()) as served:
        yield served


@pytest.fixture(scope="module")
def guarded() -> Iterator[SocketAgent]:
    """An agent that wants a token."""
    with in_a_thread(echo_agent(), SECRET) as served:
        yield served


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    (tmp_path / "token").write_text(f"{SECRET}\n", encoding="utf-8")
    return str(tmp_path / "token")


@pytest.mark.parametrize("before", [(), ("--",)])
def test_a_prompt_is_sent_to_an_agent_at_a_url(
    remote: SocketAgent, before: tuple[str, ...]
) -> None:
    done = called(*PROMPT, *before, remote.url)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "echo: hi\n", "")


def test_the_sessions_of_an_agent_at_a_url_are_listed_and_resumed(remote: SocketAgent) -> None:
    called(*PROMPT, remote.url)
    listed = twofold("sessions", "--json", remote.url)
    session = json.loads(listed.stdout.splitlines()[0])
    assert session["cwd"] == os.getcwd()
    resumed = called("--prompt", "more", "--resume", session["sessionId"], remote.url)
    assert resumed.stdout == "echo: more\n"


def test_an_agent_at_a_url_is_examined(remote: SocketAgent) -> None:
    done = twofold("doctor", "--json", "--prompt", "hi", remote.url)
    steps = {step["name"]: step for step in map(json.loads, done.stdout.splitlines())}
    assert done.exit_code == 0, done.stdout
    assert steps["starts"]["detail"].endswith("by WebSocket")
    assert {name for name, step in steps.items() if step["outcome"] == "skipped"} >= {
        "found",
        "exit",
        "left behind",
        "stderr",
    }


def test_an_agent_that_is_not_reached_is_examined_as_far_as_possible() -> None:
    done = twofold("doctor", "--json", "ws://127.0.0.1:1/acp")
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert [step["name"] for step in steps if step["outcome"] == "failed"] == ["starts"]
    assert done.exit_code == 1


def test_a_bridge_connects_a_client_of_one_version_with_an_agent_at_a_url() -> None:
    with in_a_thread(echo_agent([2])) as served:
        bridge = ("--", *TWOFOLD, "bridge", served.url)
        done = process("--version", "1", *PROMPT, *bridge)
    assert (done.returncode, done.stdout) == (0, "echo: hi\n")


def test_a_bridge_to_nothing_says_so() -> None:
    done = subprocess.run(
        [*TWOFOLD, "bridge", "ws://127.0.0.1:1/acp"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 127
    assert "nothing listens on port 1" in done.stderr


# ---- tokens


def test_a_token_comes_from_a_file_or_from_the_environment(
    guarded: SocketAgent, token_file: str, tmp_path: Path
) -> None:
    tape = tmp_path / "tape"
    in_file = called(*PROMPT, "--token-file", token_file, "--record", str(tape), guarded.url)
    by_variable = called(*PROMPT, guarded.url, env={"TWOFOLD_TOKEN": SECRET})
    for done in (in_file, by_variable):
        assert (done.exit_code, done.stdout, done.stderr) == (0, "echo: hi\n", "")
    assert SECRET not in tape.read_text(encoding="utf-8")


def test_a_file_counts_more_than_the_environment(guarded: SocketAgent, token_file: str) -> None:
    options = ("--token-file", token_file, guarded.url)
    assert called(*PROMPT, *options, env={"TWOFOLD_TOKEN": "wrong"}).exit_code == 0


@pytest.mark.parametrize(
    ("env", "words"),
    [({}, "requires a token"), ({"TWOFOLD_TOKEN": "wrong"}, "does not accept the token")],
)
def test_a_token_that_is_missing_or_wrong_is_explained(
    guarded: SocketAgent, env: dict[str, str], words: str
) -> None:
    done = called(*PROMPT, guarded.url, env=env)
    assert done.exit_code == 7
    assert words in done.stderr


@pytest.mark.parametrize("content", ["", "two words", "\n\n", "x" * 9000])
def test_a_file_without_a_token_is_refused(
    remote: SocketAgent, tmp_path: Path, content: str
) -> None:
    (tmp_path / "token").write_text(content, encoding="utf-8")
    done = called(*PROMPT, "--token-file", str(tmp_path / "token"), remote.url)
    assert done.exit_code == 2
    assert "holds no token" in done.stderr


def test_a_file_that_cannot_be_read_is_refused(remote: SocketAgent) -> None:
    done = called(*PROMPT, "--token-file", "/nowhere", remote.url)
    assert done.exit_code == 2
    assert "No such file" in done.stderr


def test_no_program_gets_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_TOKEN", SECRET)
    monkeypatch.setenv("OTHER", "kept")
    assert "TWOFOLD_TOKEN" not in environment({})
    assert environment({})["OTHER"] == "kept"
    assert environment({"TWOFOLD_TOKEN": "given"})["TWOFOLD_TOKEN"] == "given"


# ---- agents of the settings


@pytest.fixture
def settings(
    guarded: SocketAgent, token_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    file = tmp_path / "settings.toml"
    file.write_text(f'[agents.box]\nurl = "{guarded.url}"\ntoken_file = "token"\n', "utf-8")
    monkeypatch.setenv("TWOFOLD_SETTINGS", str(file))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return file


def test_a_name_of_the_settings_may_be_an_agent_at_a_url(settings: Path) -> None:
    done = called(*PROMPT, "box", env={"TWOFOLD_TOKEN": "of another server"})
    assert (done.exit_code, done.stdout, done.stderr) == (0, "echo: hi\n", "")


def test_it_is_listed_with_its_version(settings: Path) -> None:
    listed = json.loads(twofold("agents", "--json", "--check", "box").stdout)
    assert (listed["installed"], listed["version"]) == (True, "1")
    assert listed["command"][0].startswith("ws://127.0.0.1")


@pytest.mark.parametrize("content", ["", "two words"])
def test_a_token_file_of_the_settings_that_cannot_be_used_is_explained(
    settings: Path, content: str
) -> None:
    (settings.parent / "token").write_text(content, "utf-8")
    done = called(*PROMPT, "box")
    assert done.exit_code == 2
    assert "holds no token" in done.stderr
    checked = json.loads(twofold("agents", "--json", "--check", "box").stdout)
    assert "holds no token" in checked["error"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('command = "x"\nurl = "wss://h"', "cannot have command"),
        ('url = "wss://h"\nenv = { A = "b" }', "cannot have env"),
        ('url = "ftp://h"', "begins with"),
        ('url = "wss://me:pw@h"', "ends in logs"),
        ('token_file = "x"', "belongs to an agent with a url"),
    ],
)
def test_settings_of_a_url_that_cannot_be_used_are_errors(
    settings: Path, lines: str, words: str
) -> None:
    settings.write_text(f"[agents.box]\n{lines}\n", "utf-8")
    done = called(*PROMPT, "box")
    assert done.exit_code == 2
    assert words in done.stderr


# ---- what goes wrong


@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        ("ws://127.0.0.1:1/acp", 7, "nothing listens"),
        ("http://127.0.0.1:1/acp", 7, "nothing listens"),
        ("wss://nowhere.invalid/acp", 7, "is unknown"),
        ("wss://user:pw@h/acp", 2, "ends in logs"),
        ("wss://h:x/acp", 2, "Port"),
    ],
)
def test_an_agent_that_is_not_reached_is_explained(url: str, status: int, words: str) -> None:
    for done in (called(*PROMPT, url), twofold("sessions", url)):
        assert done.exit_code == status
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_no_words_follow_a_url(remote: SocketAgent) -> None:
    done = called(*PROMPT, remote.url, "--acp")
    assert done.exit_code == 2
    assert "nothing can follow it" in done.stderr


def test_the_query_of_a_url_is_sent_and_not_recorded(remote: SocketAgent, tmp_path: Path) -> None:
    tape = tmp_path / "tape"
    done = called(*PROMPT, "--record", str(tape), f"{remote.url}?key={SECRET}")
    assert done.exit_code == 0
    assert SECRET not in tape.read_text(encoding="utf-8")


# ---- directories


def test_the_directory_of_an_agent_at_a_url_may_be_there_only(remote: SocketAgent) -> None:
    done = called(*PROMPT, "--cwd", "/srv/elsewhere", remote.url)
    assert (done.exit_code, done.stderr) == (0, "")
    listed = twofold("sessions", "--json", "--cwd", "/srv/elsewhere", remote.url)
    assert {json.loads(line)["cwd"] for line in listed.stdout.splitlines()} == {"/srv/elsewhere"}


@pytest.mark.parametrize("agent", [("demo",), ("ws://127.0.0.1:1",)])
def test_any_other_directory_has_to_be_here(agent: tuple[str, ...]) -> None:
    where = "nowhere" if agent != ("demo",) else "/nowhere"
    done = called(*PROMPT, "--cwd", where, *agent)
    assert done.exit_code == 2
    assert "does not exist" in done.stderr
