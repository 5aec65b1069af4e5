"""`twofold agents`: what is known, what is installed, and what it answers when it is asked."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import TWOFOLD, twofold, until
from tests.support.raw_process import gone, raw_agent
from twofold.host.agent_versions import AgentVersion, VersionCache, ask_version, cache_file
from twofold.host.known_agents import KnownAgent


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a PATH, a cache and settings of its own."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TWOFOLD_SETTINGS", str(tmp_path / "settings.toml"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.toml").touch()
    return tmp_path


def known(place: Path, **agents: list[str]) -> None:
    text = "".join(f"[agents.{name}]\ncommand = {json.dumps(agents[name])}\n" for name in agents)
    (place / "settings.toml").write_text(text, encoding="utf-8")


def program(place: Path, name: str, script: str) -> list[str]:
    """An agent that is a program of its own, and notes each start."""
    *interpreter, code = raw_agent(f"open('starts', 'a').write('x')\n{script}")
    (place / "agent.py").write_text(code, encoding="utf-8")
    words = [*interpreter[:-1], str(place / "agent.py")]
    path = place / "bin" / name
    path.write_text(f"#!/bin/sh\nexec {' '.join(words)}\n", encoding="utf-8")
    path.chmod(0o755)
    return [name]


def listed(*arguments: str) -> list[dict[str, Any]]:
    result = twofold("agents", "--json", *arguments)
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_what_is_missing_is_listed_with_its_install_command(place: Path) -> None:
    result = twofold("agents")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["NAME", "INSTALLED", "VERSION", "PROTOCOL", "ABOUT"]
    (claude,) = [line for line in lines if line.startswith("claude ")]
    assert claude.split()[1:4] == ["no", "-", "-"]
    assert claude.endswith("npm install -g @agentclientprotocol/claude-agent-acp")
    assert "`twofold agents --check`" in result.stderr  # the demo agent was not asked yet


def test_nothing_is_started_without_check(place: Path) -> None:
    known(place, mine=program(place, "mine", ""))
    assert [each["installed"] for each in listed("mine")] == [True]
    assert not (place / "starts").exists()


def test_check_asks_and_the_answer_is_kept_until_the_program_changes(place: Path) -> None:
    known(place, mine=program(place, "mine", ""))
    before = {"version": None, "protocolVersion": None, "error": None}
    answered = {"version": "1", "protocolVersion": 1, "error": None}
    assert listed("mine")[0].items() >= before.items()
    assert listed("--check", "mine")[0].items() >= answered.items()
    starts = (place / "starts").read_text()
    assert listed("mine")[0].items() >= answered.items()
    assert (place / "starts").read_text() == starts
    os.utime(place / "bin" / "mine", ns=(1, 1))
    assert listed("mine")[0].items() >= before.items()


def test_an_agent_that_cannot_be_asked_is_listed_with_the_reason(place: Path) -> None:
    known(place, mine=program(place, "mine", "sys.exit(3)"))
    result = twofold("agents", "--check", "mine")
    assert result.exit_code == 0
    assert "failed: The agent (mine) ended with exit code 3" in result.stdout
    assert listed("mine")[0]["error"] is None  # a failure is not kept


def test_a_name_that_is_not_known_is_wrong_usage(place: Path) -> None:
    result = twofold("agents", "cluade")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Did you mean claude?" in result.stderr


def test_the_text_of_a_registry_cannot_control_the_terminal(place: Path) -> None:
    entry = {"id": "it", "name": "It", "description": "\x1b[2Jgone\nmore"}
    registry = {"agents": [{**entry, "distribution": {"npx": {"package": "a\x1b[2J"}}}]}
    (place / "r.json").write_text(json.dumps(registry), encoding="utf-8")
    (place / "settings.toml").write_text("registry = 'r.json'", encoding="utf-8")
    result = twofold("agents", "it")
    assert "\x1b" not in result.stdout
    assert len(result.stdout.splitlines()) == 2


def test_a_signal_ends_the_agents_that_are_being_asked(place: Path) -> None:
    script = "def initialize(request): open('pid', 'w').write(str(os.getpid()))"
    known(place, mine=program(place, "mine", script))
    started = subprocess.Popen([*TWOFOLD, "agents", "--check", "mine"], cwd=place)

    async def main() -> None:
        pid = place / "pid"
        await until(lambda: pid.exists() and pid.read_text().isdigit())
        started.send_signal(signal.SIGTERM)
        await until(lambda: started.poll() is not None)
        await until(lambda: gone(int(pid.read_text())))

    asyncio.run(main())
    assert started.returncode == 5


# ---- the versions and their cache --------------------------------------------------------------


def test_an_agent_that_does_not_answer_is_given_up() -> None:
    agent = KnownAgent(name="it", command=tuple(raw_agent("def initialize(request): pass")))
    answer = asyncio.run(ask_version(agent, patience=0.05))
    assert answer == AgentVersion(error="it did not answer within 0.05 seconds")


def test_an_agent_gets_its_variables_when_it_is_asked() -> None:
    script = """
def initialize(request):
    info = {"name": "raw", "version": os.environ["MY_VERSION"]}
    answer(request, {"protocolVersion": 1, "agentInfo": info})
"""
    env = {"MY_VERSION": "7"}
    agent = KnownAgent(name="it", command=tuple(raw_agent(script)), env=env)
    assert asyncio.run(ask_version(agent)) == AgentVersion("raw", "7", 1)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}'])
def test_a_cache_that_cannot_be_read_is_empty(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "agents.json").write_bytes(content)
    cache = VersionCache(tmp_path / "agents.json")
    assert cache.get(KnownAgent(name="it", command=("it",))) is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = VersionCache(tmp_path / "file" / "agents.json")
    agent = KnownAgent(name="it", command=("it",))
    cache.put(agent, AgentVersion("it", "1", 1))
    cache.save()
    assert cache.get(agent) == AgentVersion("it", "1", 1)


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": "/h"}, "/h/.cache/twofold/agents.json"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/c/twofold/agents.json"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "c"}, "/h/.cache/twofold/agents.json"),
    ],
)
def test_the_cache_is_in_the_cache_directory(environ: dict[str, str], path: str) -> None:
    assert cache_file(environ) == Path(path)


def test_another_command_of_one_program_is_another_agent() -> None:
    cache = VersionCache(None)
    cache.put(KnownAgent(name="a", command=("sh", "1")), AgentVersion("a", "1", 1))
    assert cache.get(KnownAgent(name="a", command=("sh", "2"))) is None
