"""Shell completion: what Tab offers, and the scripts that shells run for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import PATIENCE, called, twofold
from twofold.cli.commands import SUMMARIES
from twofold.cli.completers import kept_in, register
from twofold.cli.completion import Shell, place, script

SHELLS: list[Shell] = ["bash", "zsh", "fish"]


def offered(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is offered at the `|` of a line, as bash asks for it."""
    before, _, after = line.partition("|")
    monkeypatch.setenv("COMP_WORDS", (before + after).replace(" ", "\n"))
    monkeypatch.setenv("COMP_CWORD", str(before.count(" ")))
    register()
    result = twofold(env={"_TWOFOLD_COMPLETE": "bash_complete"}, prog_name="twofold")
    assert (result.exit_code, result.stderr) == (0, "")
    return [item for item in result.stdout.splitlines() if item]


def plain(*words: str) -> list[str]:
    return [f"plain,{word}" for word in words]


@pytest.mark.parametrize(
    ("line", "items"),
    [
        ("twofold |", plain(*SUMMARIES)),
        ("twofold ses|", plain("sessions")),
        ("twofold --v|", plain("--version")),
        ("twofold doctor --f|", plain("--format")),
        ("twofold doctor --format |", plain("text", "markdown", "json")),
        ("twofold doctor --format=m|", plain("markdown")),
        ("twofold agent no|", plain("no-ids", "noise")),
        ("twofold completion |", plain("bash", "zsh", "fish")),
        ("twofold doctor -- twofold agent cra|", plain("crash")),
        ("twofold doctor -- ./some|", ["file,./some"]),
        ("twofold doctor -- other agent no|", ["file,no"]),
    ],
)
def test_tab_offers_what_fits(line: str, items: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered(line, monkeypatch) == items


def test_the_program_of_an_agent_is_looked_for_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, mode in (("some-agent", 0o755), ("some-notes", 0o644), ("other", 0o755)):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(mode)
    monkeypatch.setenv("PATH", f"{tmp_path}:/no/such/directory")
    assert offered("twofold doctor -- some|", monkeypatch) == plain("some-agent")


def test_tab_starts_no_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "started"
    program = tmp_path / "agent"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    for line in (f"twofold run --resume | -- {program}", f"twofold doctor -- {program} |"):
        offered(line, monkeypatch)
    assert not mark.exists()


def test_sessions_that_the_demo_agent_keeps_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    agent = [sys.executable, "-m", "twofold", "agent", "--keep", str(kept)]
    for prompt in ("/echo one", "/echo two"):
        assert called("--prompt", prompt, "--", *agent).exit_code == 0
    line = f"twofold run --resume | -- twofold agent --keep {kept}"
    assert sorted(offered(line, monkeypatch)) == plain("s1", "s2")
    assert offered(line.replace("|", "s2|"), monkeypatch) == plain("s2")
    assert offered(line.replace(str(kept), "none"), monkeypatch) == []
    assert offered(line.replace("agent", "bridge"), monkeypatch) == []


@pytest.mark.parametrize(
    ("command", "directory"),
    [
        (["twofold", "agent", "--keep", "d"], "d"),
        (["/bin/twofold", "agent", "--keep=d", "noise"], "d"),
        ([sys.executable, "-m", "twofold", "agent", "--keep", "d"], "d"),
        (["twofold", "agent", "--keep"], None),
        (["twofold", "agent"], None),
        (["twofold", "run", "--keep", "d"], None),
        (["other", "agent", "--keep", "d"], None),
        ([], None),
    ],
)
def test_only_a_command_of_the_demo_agent_names_where_sessions_are_kept(
    command: list[str], directory: str | None
) -> None:
    assert kept_in(command) == directory


# ---- scripts -----------------------------------------------------------------------------------

# what bash does at Tab: it calls the function that `complete` registered
AT_TAB = """
compopt() { :; }
COMP_WORDS=(WORDS)
COMP_CWORD=PLACE
"$FUNCTION" twofold
printf '%s\\n' "${COMPREPLY[@]}"
"""


def in_shell(shell: str, text: str, home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """A script, run by a real shell that finds the `twofold` of this environment."""
    program = shutil.which(shell)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail(f"CI needs {shell}", pytrace=False)
        pytest.skip(f"{shell} is not installed")
    here = os.path.dirname(sys.executable)
    return subprocess.run(
        [program, "-c", text],
        env={"PATH": f"{here}:{os.environ['PATH']}", "HOME": str(home), **environ},
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "place", "items"),
    [
        ("twofold doctor --format m", 3, ["markdown"]),
        ("twofold show --from ''", 3, ["auto", "1", "2", "guide"]),
        ("twofold run --resume '' -- twofold agent --keep kept", 3, ["s1"]),
    ],
)
def test_bash_runs_the_script_and_completes(
    words: str, place: int, items: list[str], tmp_path: Path
) -> None:
    kept = str(tmp_path / "kept")
    agent = [sys.executable, "-m", "twofold", "agent", "--keep", kept]
    assert called("--prompt", "/echo one", "--", *agent).exit_code == 0
    function = "FUNCTION=$(complete -p twofold | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
    at_tab = AT_TAB.replace("WORDS=(WORDS", f"WORDS=({words}").replace("PLACE", str(place))
    text = f'cd "$HOME"\neval "$(twofold completion bash)"\n{function}\n{at_tab}'
    done = in_shell("bash", text, tmp_path)
    assert (done.stdout.splitlines(), done.stderr) == (items, "")


def test_fish_runs_the_script_and_completes(tmp_path: Path) -> None:
    text = 'twofold completion fish | source; complete --do-complete "twofold doctor --format m"'
    done = in_shell("fish", text, tmp_path)
    assert (done.stdout.split(), done.stderr) == (["markdown"], "")


@pytest.mark.parametrize(
    ("shell", "check"), [("zsh", "zsh -n {}"), ("fish", "fish --no-execute {}")]
)
def test_the_other_shells_can_parse_their_scripts(shell: Shell, check: str, tmp_path: Path) -> None:
    file = tmp_path / "script"
    file.write_text(script(shell), encoding="utf-8")
    done = in_shell(shell, check.format(file), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed(shell: Shell) -> None:
    result = twofold("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == script(shell)
    assert f"_TWOFOLD_COMPLETE={shell}_complete" in result.stdout


# ---- installing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shell", "environ", "path"),
    [
        ("bash", {}, "/h/.local/share/bash-completion/completions/twofold"),
        ("bash", {"XDG_DATA_HOME": "/d"}, "/d/bash-completion/completions/twofold"),
        ("bash", {"BASH_COMPLETION_USER_DIR": "/b"}, "/b/completions/twofold"),
        ("zsh", {}, "/h/.local/share/zsh/site-functions/_twofold"),
        ("zsh", {"XDG_DATA_HOME": "/d"}, "/d/zsh/site-functions/_twofold"),
        ("fish", {}, "/h/.config/fish/completions/twofold.fish"),
        ("fish", {"XDG_CONFIG_HOME": "/c"}, "/c/fish/completions/twofold.fish"),
    ],
)
def test_the_script_is_installed_where_the_shell_looks_for_it(
    shell: Shell, environ: dict[str, str], path: str
) -> None:
    assert place(shell, environ, Path("/h")) == Path(path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_but_the_script_is_written_and_a_second_time_is_the_same(
    shell: Shell, home: Path
) -> None:
    for _ in range(2):
        result = twofold("completion", shell, "--install")
        path = place(shell, {}, home)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith(f"Written: {path}\n")
        assert [each for each in home.rglob("*") if each.is_file()] == [path]
        assert path.read_text(encoding="utf-8") == script(shell)
    assert (f"fpath=({path.parent} $fpath)" in result.stdout) == (shell == "zsh")


def test_a_file_of_somebody_else_is_not_replaced(home: Path) -> None:
    path = place("bash", {}, home)
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    result = twofold("completion", "bash", "--install")
    assert result.exit_code == 1
    assert f"{path} exists and is not a script of Twofold." in result.stderr
    assert path.read_text() == "mine"


def test_a_directory_that_cannot_be_written_is_reported(home: Path) -> None:
    (home / ".local").write_text("a file")
    result = twofold("completion", "bash", "--install")
    assert result.exit_code == 1
    assert "Not a directory" in result.stderr
    assert "Traceback" not in result.stderr
