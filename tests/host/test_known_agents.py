"""Agents by name: the table, the registry file, the settings, and what is installed."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from twofold.errors import LocalError
from twofold.host import known_agents as known
from twofold.host.known_agents import (
    AgentNotInstalled,
    BadRegistry,
    KnownAgent,
    UnknownAgent,
    installed,
    known_agents,
    read_registry,
    resolve,
)
from twofold.host.settings import Settings, load
from twofold.transport.commands import CommandNotStarted


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory of the PATH, which is empty."""
    folder = tmp_path / "prefix" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def set_to(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    return load(tmp_path, {"TWOFOLD_SETTINGS": str(file)})


def registry(tmp_path: Path, **distribution: Any) -> dict[str, KnownAgent]:
    entry = {"id": "it", "name": "It", "version": "1.0.0", "description": "An agent"}
    file = tmp_path / "registry.json"
    entries = [{**entry, "distribution": distribution, "preview": {"later": True}}]
    file.write_text(json.dumps({"version": "1.0.0", "agents": entries, "extensions": []}))
    return read_registry(file)


# ---- the table ---------------------------------------------------------------------------------


def test_the_table_has_the_command_installation_and_use_of_every_agent() -> None:
    agents = known_agents(Settings())
    assert list(agents) == sorted(agents)
    assert len(agents) > 12
    for name, agent in agents.items():
        assert name == agent.name
        assert agent.description
        assert "://" not in agent.description
        assert name == known.DEMO or (agent.install and agent.needs)


def test_the_table_has_no_command_that_downloads_its_program() -> None:
    for agent in known_agents(Settings()).values():
        assert agent.command[0] not in ("npx", "uvx", "bunx", "pipx")


def test_the_demo_agent_is_installed_wherever_twofold_is(bin_folder: Path) -> None:
    assert resolve(known.DEMO, known_agents(Settings())).command[-1] == "agent"


# ---- what is installed -------------------------------------------------------------------------


def test_a_name_that_is_close_to_another_is_an_error_with_that_one() -> None:
    with pytest.raises(UnknownAgent) as caught:
        resolve("cluade", known_agents(Settings()))
    assert isinstance(caught.value, LocalError)
    assert str(caught.value) == (
        "There is no agent 'cluade'. Did you mean claude? `twofold agents` lists the names. If it"
        " is a command, put -- before it: -- cluade"
    )


def test_a_name_like_no_other_is_an_error_without_a_guess() -> None:
    with pytest.raises(UnknownAgent, match=r"'zzzzz'\. `twofold agents`"):
        resolve("zzzzz", known_agents(Settings()))


def test_a_missing_program_is_an_error_with_the_command_that_installs_it(bin_folder: Path) -> None:
    with pytest.raises(AgentNotInstalled) as caught:
        resolve("codex", known_agents(Settings()))
    assert isinstance(caught.value, CommandNotStarted)
    assert str(caught.value) == (
        "The agent (codex-acp) could not be started: there is no command codex-acp on the PATH. To"
        " install it: npm install -g @agentclientprotocol/codex-acp"
    )


def test_a_program_on_the_path_is_installed(bin_folder: Path) -> None:
    program(bin_folder / "gemini")
    assert resolve("gemini", known_agents(Settings())).command == ("gemini", "--acp")


# ---- the settings ------------------------------------------------------------------------------


def test_the_settings_add_an_agent(tmp_path: Path, bin_folder: Path) -> None:
    made = set_to(tmp_path, "[agents.mine]\ncommand = \"mine --acp 'a b'\"\ninstall = 'get mine'")
    agents = known_agents(made)
    assert agents["mine"].command == ("mine", "--acp", "a b")
    assert agents["mine"].origin == f"{tmp_path / 'settings.toml'}:2"
    with pytest.raises(AgentNotInstalled, match="To install it: get mine"):
        resolve("mine", agents)


def test_the_settings_change_a_known_agent_and_keep_the_rest(tmp_path: Path) -> None:
    before = known_agents(Settings())["auggie"]
    agent = known_agents(set_to(tmp_path, "[agents.auggie]\nenv = { A = '1' }"))["auggie"]
    assert agent.env == {"AUGMENT_DISABLE_AUTO_UPDATE": "1", "A": "1"}
    assert (agent.command, agent.install) == (before.command, before.install)


def test_another_command_is_not_installed_as_the_known_one_was(tmp_path: Path) -> None:
    made = set_to(tmp_path, "[agents.claude]\ncommand = ['/opt/claude', 'acp']")
    agent = known_agents(made)["claude"]
    assert (agent.command, agent.install) == (("/opt/claude", "acp"), "")


def test_an_agent_without_a_command_is_no_agent(tmp_path: Path) -> None:
    assert "mine" not in known_agents(set_to(tmp_path, "[agents.mine]\nmode = 'plan'"))


def test_a_path_in_the_home_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    there = program(tmp_path / "bin" / "mine")
    made = set_to(tmp_path, "[agents.mine]\ncommand = ['~/bin/mine']")
    assert resolve("mine", known_agents(made)).command == (str(there),)


# ---- the registry ------------------------------------------------------------------------------


def test_an_npm_package_that_is_not_installed_is_never_downloaded(
    tmp_path: Path, bin_folder: Path
) -> None:
    program(bin_folder / "npx")
    agent = registry(tmp_path, npx={"package": "@some/gem-cli@0.3.1", "args": ["--acp"]})["it"]
    assert agent.command == ("gem-cli", "--acp")
    assert agent.install == "npm install -g @some/gem-cli@0.3.1"
    assert installed(agent) is None


def test_the_program_of_an_npm_package_is_found_by_its_manifest(
    tmp_path: Path, bin_folder: Path
) -> None:
    agent = registry(tmp_path, npx={"package": "@some/gem-cli@0.3.1", "args": ["--acp"]})["it"]
    manifest = bin_folder.parent / "lib/node_modules/@some/gem-cli/package.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"bin": {"gem": "dist/gem.js"}}')
    assert installed(agent) is None  # the manifest alone is no program
    gem = program(bin_folder / "gem")
    assert resolve("it", {"it": agent}).command == (str(gem), "--acp")


@pytest.mark.parametrize("manifest", ["{", "[]", '{"bin": {"../../evil": "x"}}', '{"bin": 5}'])
def test_a_manifest_that_makes_no_sense_is_ignored(
    manifest: str, tmp_path: Path, bin_folder: Path
) -> None:
    program(tmp_path / "evil")
    agent = registry(tmp_path, npx={"package": "gem"})["it"]
    file = bin_folder.parent / "lib/node_modules/gem/package.json"
    file.parent.mkdir(parents=True)
    file.write_text(manifest)
    assert installed(agent) is None


@pytest.mark.parametrize(
    "package", ["fast", "fast==1.2", "fast[acp]==1", "fast>=2", "fast @ git+https://x", "fast~=1"]
)
def test_a_python_package_is_installed_if_its_program_is_on_the_path(
    package: str, tmp_path: Path, bin_folder: Path
) -> None:
    program(bin_folder / "uvx")
    env = {"MODEL": "x"}
    agent = registry(tmp_path, uvx={"package": package, "args": ["-x"], "env": env})["it"]
    assert agent.command == ("fast", "-x")
    assert agent.env == env
    assert shlex.split(agent.install) == ["uv", "tool", "install", package]
    assert installed(agent) is None
    program(bin_folder / "fast")
    assert installed(agent) == "fast"


def test_a_binary_is_that_of_this_platform(
    tmp_path: Path, bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    here = {"archive": "https://x.example/goose.tar.gz", "cmd": "./dist/goose", "args": ["acp"]}
    there = {"archive": "https://x.example/other.zip", "cmd": "other.exe"}
    agents = registry(tmp_path, binary={"windows-x86_64": there, "darwin-aarch64": here})
    assert agents["it"].command == ("goose", "acp")
    assert agents["it"].install == (
        "unpack https://x.example/goose.tar.gz and put goose on the PATH"
    )
    assert registry(tmp_path, binary={"windows-x86_64": there}) == {}


def test_a_registry_changes_the_table_and_the_settings_change_the_registry(
    tmp_path: Path,
) -> None:
    entry = {"id": "gemini", "name": "G", "distribution": {"npx": {"package": "g@1"}}}
    (tmp_path / "r.json").write_text(json.dumps({"agents": [entry]}))
    agents = known_agents(set_to(tmp_path, "registry = 'r.json'"))
    assert (agents["gemini"].command, agents["gemini"].origin) == (("g",), f"{tmp_path}/r.json")
    agents = known_agents(set_to(tmp_path, "registry = 'r.json'\n[agents.gemini]\ncommand = 'h'"))
    assert agents["gemini"].command == ("h",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Input data was truncated"),
        ("{}", "Object missing required field `agents`"),
        ('{"agents": [{"id": 1}]}', "Expected `str`, got `int`"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_that_is_no_registry_is_an_error(
    text: str | None, reason: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "r.json").write_text(text)
    with pytest.raises(BadRegistry) as caught:
        known_agents(set_to(tmp_path, "registry = 'r.json'"))
    assert str(caught.value).startswith(
        f"The registry {tmp_path / 'r.json'} cannot be used: {reason}"
    )
    assert os.fspath(tmp_path) in caught.value.file


def test_the_page_has_the_table() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "agents-by-name.md"
    rows = re.findall(
        r"^\| `(\S+)` \| `(.*?)` \| (.*) \| (.*) \|$", page.read_text("utf-8"), re.MULTILINE
    )
    agents = known_agents(Settings())
    assert sorted(name for name, *_ in rows) == list(agents)
    for name, command, install, needs in rows:
        agent = agents[name]
        if name != known.DEMO:
            assert command == shlex.join(agent.command)
            assert install == f"`{agent.install}`".replace("|", "\\|")
            assert needs == agent.needs
