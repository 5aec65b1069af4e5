"""Which agent a command line means, and what the settings do to a run."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.commands import DEMO, asks, called, process, twofold
from tests.support.raw_process import raw_agent

REPORTS = """
seen = {"env": {name: value for name, value in os.environ.items() if name.startswith("MY_")}}
def initialize(request):
    answer(request, {"protocolVersion": 1, "agentInfo": {"name": "raw", "version": "1"}})

forgotten = answer
def answer(request, result):
    if request["method"] == "session/new":
        seen["mcp"] = [each["name"] for each in request["params"]["mcpServers"]]
        modes = [{"id": each, "name": each} for each in ("ask", "plan")]
        result["modes"] = {"currentModeId": "ask", "availableModes": modes}
    forgotten(request, result)

failed = fail
def fail(request, *reason):
    if request["method"] != "session/set_mode":
        return failed(request, *reason)
    seen["mode"] = request["params"]["modeId"]
    answer(request, {})

def prompt(request):
    text(json.dumps(seen))
    answer(request, {"stopReason": "end_turn"})
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory with a PATH of its own, where settings can be written."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path / "project")
    settings(tmp_path, monkeypatch, "")
    return tmp_path


def settings(place: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (place / "settings.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("TWOFOLD_SETTINGS", str(place / "settings.toml"))


def command(words: list[str]) -> str:
    return f"command = {json.dumps(words)}"


PROMPT = ("--prompt", "hi")


# ---- a name, a command, nothing ----------------------------------------------------------------


def test_a_name_is_an_agent_of_the_settings(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(place, monkeypatch, f"[agents.mine]\n{command(raw_agent(REPORTS))}")
    result = called(*PROMPT, "mine")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {"env": {}, "mcp": []}


def test_nothing_is_the_default_agent_of_the_settings(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = f"agent = 'mine'\n[agents.mine]\n{command(raw_agent(REPORTS))}"
    settings(place, monkeypatch, mine)
    assert json.loads(called(*PROMPT).stdout) == {"env": {}, "mcp": []}


def test_nothing_without_settings_is_the_demo_agent(place: Path) -> None:
    assert twofold("sessions").stderr == "No sessions in this directory.\n"


@pytest.mark.parametrize("run", [("run", *PROMPT), ("sessions",)])
def test_a_name_that_is_not_known_is_wrong_usage(run: tuple[str, ...], place: Path) -> None:
    result = twofold(*run, "gemni")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "There is no agent 'gemni'. Did you mean gemini?" in result.stderr


@pytest.mark.parametrize("run", [("run", *PROMPT), ("sessions",)])
def test_an_agent_that_is_not_installed_is_named_with_its_install_command(
    run: tuple[str, ...], place: Path
) -> None:
    result = twofold(*run, "gemini")
    assert (result.exit_code, result.stdout) == (7, "")
    assert "To install it: npm install -g @google/gemini-cli" in result.stderr


def test_the_bridge_takes_a_name(place: Path) -> None:
    result = twofold("bridge", "gemini")
    assert (result.exit_code, result.stdout) == (127, "")
    assert "twofold bridge: The agent (gemini --acp) could not be started" in result.stderr
    assert twofold("bridge", "gemni").exit_code == 1


@pytest.mark.parametrize("words", [("--", "gemini"), ("./gemini",), ("gemini", "--acp")])
@pytest.mark.parametrize("run", [("run", *PROMPT), ("sessions",)])
def test_what_is_behind_dashes_or_a_path_or_several_words_is_a_command(
    run: tuple[str, ...], words: tuple[str, ...], place: Path
) -> None:
    result = twofold(*run, *words)
    assert result.exit_code == 7
    assert "install" not in result.stderr.lower().replace("install it, or give", "")


def test_a_default_agent_that_is_not_known_is_an_error_with_its_line(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(place, monkeypatch, "\nagent = 'gemni'")
    result = called(*PROMPT)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{place / 'settings.toml'}:2: There is no agent 'gemni'.")


def test_settings_that_cannot_be_used_are_an_error_in_one_line(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(place, monkeypatch, "them = 'dark'")
    result = called(*PROMPT, *DEMO)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"{place / 'settings.toml'}, line 1: the settings have no key 'them'. Did you mean"
        " 'theme'?\n"
    )


# ---- what the settings do ----------------------------------------------------------------------


def test_env_mode_and_servers_of_the_settings_reach_the_agent(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""
[agents.mine]
{command(raw_agent(REPORTS))}
env = {{ MY_KEY = "hush" }}
mode = "plan"
[mcp.files]
command = "mcp-files"
[mcp.web]
url = "https://mcp.example"
"""
    settings(place, monkeypatch, text)
    result = called(*PROMPT, "mine")
    seen = {"env": {"MY_KEY": "hush"}, "mcp": ["files"], "mode": "plan"}
    assert json.loads(result.stdout) == seen
    assert result.stderr == (
        "An MCP server is left out: raw reaches no MCP servers over HTTP (web).\n"
    )


def test_a_mode_that_the_agent_does_not_have_ends_the_run_before_the_prompt(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = f"[agents.mine]\n{command(raw_agent(REPORTS))}\nmode = 'safe'"
    settings(place, monkeypatch, mine)
    result = called(*PROMPT, "mine")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "mode 'safe': the agent does not offer it; there are ask, plan." in result.stderr


def test_the_rules_of_the_settings_decide_behind_those_of_the_command_line(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(place, monkeypatch, "[rules]\nallow = ['execute']")
    run = (*PROMPT, "--", *asks())
    result = called(*run)
    assert (result.exit_code, result.stdout) == (0, "allow_once\n")
    assert f"{place / 'settings.toml'}:2 allow execute" in result.stderr
    assert called("--reject", "execute", *run).stdout == "reject_once\n"
    settings(place, monkeypatch, "[rules]\nask = ['execute']")
    assert called("--allow", "execute", *run).stdout == "allow_once\n"
    settings(place, monkeypatch, "[rules]\nreject = ['execute']")
    assert called("--allow", "execute", *run).stdout == "reject_once\n"


def test_the_file_of_a_project_restricts_what_the_user_allows(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(place, monkeypatch, "[rules]\nallow = ['execute']")
    Path(".twofold.toml").write_text("[rules]\nask = ['execute']", encoding="utf-8")
    assert called(*PROMPT, "--", *asks()).stdout == "reject_once\n"


def test_what_is_ignored_of_a_project_is_a_warning(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = f"[agents.mine]\n{command(raw_agent(REPORTS))}"
    settings(place, monkeypatch, mine)
    Path(".twofold.toml").write_text("[agents.mine]\nmode = 'plan'", encoding="utf-8")
    result = called(*PROMPT, "mine")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"env": {}, "mcp": []})
    assert "line 2: agents.mine.mode is ignored, because you do not trust" in result.stderr
    settings(place, monkeypatch, f"trust = ['{place}']\n{mine}")
    assert json.loads(called(*PROMPT, "mine").stdout)["mode"] == "plan"


def test_the_directory_of_the_session_decides_which_project_it_is(place: Path) -> None:
    other = place / "other"
    other.mkdir()
    (other / ".twofold.toml").write_text("[rules]\nallow = ['read']", encoding="utf-8")
    assert called("--cwd", str(other), *PROMPT, *DEMO).exit_code == 2


def test_the_file_in_the_config_directory_is_read_by_the_program(place: Path) -> None:
    there = place / "config" / "twofold" / "settings.toml"
    there.parent.mkdir(parents=True)
    there.write_text("theme = 'drak'", encoding="utf-8")
    environ = {k: v for k, v in os.environ.items() if k != "TWOFOLD_SETTINGS"}
    environ |= {"XDG_CONFIG_HOME": str(place / "config"), "PATH": os.path.dirname(sys.executable)}
    done = process(*PROMPT, env=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{there}, line 1: theme must be 'auto', 'dark' or 'light'")
