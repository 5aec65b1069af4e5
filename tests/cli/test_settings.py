"""`twofold settings`: every value, where it comes from, and no secret."""

import json
from pathlib import Path

import pytest

from tests.support.commands import twofold

SECRETS = """
theme = "dark"
[agents.mine]
command = "mine"
env = { TOKEN = "hush" }
[mcp.web]
url = "https://ada:hush@mcp.example/mcp?key=hush"
headers = { Authorization = "hush" }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings file of the user."""
    made = tmp_path / "settings.toml"
    made.write_text(SECRETS, encoding="utf-8")
    monkeypatch.setenv("TWOFOLD_SETTINGS", str(made))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return made


def test_every_value_is_printed_with_its_file_and_line(file: Path) -> None:
    result = twofold("settings")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert f'theme = "dark"  ({file}:2)' in lines
    assert f'agents.mine.env.TOKEN = "set"  ({file}:5)' in lines
    assert "notifications.bell = true  (default)" in lines
    assert "agent = -  (default)" in lines


@pytest.mark.parametrize("form", [(), ("--json",), ("--path",), ("--schema",)])
def test_nothing_secret_is_printed(form: tuple[str, ...], file: Path) -> None:
    assert "hush" not in twofold("settings", *form).output


def test_json_is_one_object_per_line(file: Path) -> None:
    objects = [json.loads(line) for line in twofold("settings", "--json").stdout.splitlines()]
    assert {"key": "theme", "value": "dark", "origin": f"{file}:2"} in objects


def test_the_schema_is_json(file: Path) -> None:
    assert (
        "theme"
        in json.loads(twofold("settings", "--schema").stdout)["$defs"]["SettingsFile"]["properties"]
    )


def test_the_paths_are_printed_even_if_a_file_cannot_be_used(file: Path) -> None:
    project = file.parent / "project" / ".twofold.toml"
    assert twofold("settings", "--path").stdout.splitlines() == [str(file)]
    project.write_text("this is not TOML", encoding="utf-8")
    file.write_text("neither is this", encoding="utf-8")
    assert twofold("settings", "--path").stdout.splitlines() == [str(file), str(project)]
    result = twofold("settings")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{file}, line 1: this is not TOML")


def test_what_is_ignored_of_the_project_is_a_warning(file: Path) -> None:
    project = file.parent / "project" / ".twofold.toml"
    project.write_text("agent = 'claude'\n[rules]\nreject = ['fetch']", encoding="utf-8")
    result = twofold("settings", "--cwd", str(project.parent))
    assert result.exit_code == 0
    assert f'rules.reject = ["fetch"]  ({project}:3)' in result.stdout.splitlines()
    assert "agent = -  (default)" in result.stdout.splitlines()
    assert "agent is ignored, because you do not trust this project" in result.stderr
