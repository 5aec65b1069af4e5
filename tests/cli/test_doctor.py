"""`twofold doctor`: its report for people, for issues and for programs, and its exit status."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import DEMO, PATIENCE, TWOFOLD, lines, twofold
from tests.support.raw_process import raw_agent
from twofold.cli.doctor_report import MARKS, hider, step_lines
from twofold.client.doctor import STEPS, Step

PAGE = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"


def test_a_healthy_agent_is_fine() -> None:
    result = twofold("doctor", *DEMO)
    assert (result.exit_code, result.stderr) == (0, "")
    head, about, _, *rest = result.stdout.splitlines()
    assert head.startswith("twofold doctor -- ")
    assert re.match(r"Twofold \S+, Python \S+, ", about)
    assert rest[-1] == "All is fine."
    marked = [line for line in rest if line[:1] in MARKS.values()]
    assert [line[2:].partition("  ")[0] for line in marked] == list(STEPS)


def test_what_is_wrong_is_named_at_the_end_and_changes_the_exit_status() -> None:
    result = twofold("doctor", *DEMO, "auth")
    assert result.exit_code == 1
    assert "! login        needed; the agent names token (Token)\n" in result.stdout
    assert result.stdout.endswith("\nSomething is wrong: login. To report it: --format markdown.\n")
    result = twofold("doctor", "--prompt", "x", *DEMO, "crash")
    assert result.exit_code == 1
    assert result.stdout.endswith("\nFailed: prompt, exit. To report it: --format markdown.\n")


@pytest.mark.parametrize("option", [["--json"], ["--format", "json"]])
def test_programs_read_one_object_per_step(option: list[str]) -> None:
    result = twofold("doctor", *option, "--", "no-such-agent")
    assert (result.exit_code, result.stderr) == (1, "")
    first, *rest = lines(result.stdout)
    assert first == {
        "name": "found",
        "outcome": "failed",
        "detail": "there is no command no-such-agent on the PATH",
        "advice": "Install it, or give its full path.",
    }
    assert [each["name"] for each in rest] == list(STEPS[1:])
    assert {each["outcome"] for each in rest} == {"skipped"}


def test_a_report_for_an_issue_is_one_block_whatever_the_agent_writes() -> None:
    script = "os.write(2, b'~~~~~~~~\\n```\\n# Heading\\n')"
    result = twofold("doctor", "--format", "markdown", "--", *raw_agent(script))
    written = result.stdout.splitlines()
    fences = [number for number, line in enumerate(written) if line.startswith("~~~")]
    assert fences == [0, len(written) - 1]
    assert any(line.endswith("# Heading") and line.startswith(" ") for line in written)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--timeout", "0"], "it must be a number of seconds greater than 0"),
        (["--timeout", "nan"], "it must be a number of seconds greater than 0"),
        (["--cwd", "none"], "'none' does not exist"),
        (["--format", "xml"], "'xml' is not one of"),
        (["--version", "3"], "'3' is not one of"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_started(
    arguments: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = twofold("doctor", *arguments, "--", "touch", "started")
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())
    assert not (tmp_path / "started").exists()


# ---- what must not be published ----------------------------------------------------------------


def test_secrets_of_the_environment_and_of_the_command_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789")
    script = "os.write(2, b'bad key sk-0123456789 and to\"ken-456\\n')"
    command = [*raw_agent(script), "--auth-token", 'to"ken-456', "--secret=hush-hush"]
    for form in ("text", "markdown", "json"):
        result = twofold("doctor", "--format", form, "--", *command)
        assert "bad key *** and ***" in result.stdout
        for secret in ("sk-0123456789", "ken-456", "hush"):
            assert secret not in result.stdout


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("/home/ada/bin/agent", "~/bin/agent"),
        ("in /home/ada", "in ~"),
        ("/home/adamant/x", "/home/adamant/x"),
        ("pass word short", "pass word short"),
        ("PATH=/usr/bin", "PATH=/usr/bin"),
    ],
)
def test_the_home_directory_is_shortened_and_other_words_stay(text: str, hidden: str) -> None:
    environ = {"PATH": "/usr/bin", "DB_PASSWORD": "short", "EMPTY_TOKEN": ""}
    assert hider(["agent", "--key"], environ, Path("/home/ada"))(text) == hidden


def test_a_home_at_the_root_is_no_prefix_of_every_path() -> None:
    assert hider(["agent"], {}, Path("/"))("/usr/bin") == "/usr/bin"


# ---- words and signals -------------------------------------------------------------------------


def test_a_step_shows_its_mark_its_lines_and_its_advice() -> None:
    step = Step(name="exit", outcome="warning", detail="slow", lines=["a"], advice="Be quick.")
    assert list(step_lines(step)) == [
        "! exit         slow",
        "               a",
        "               → Be quick.",
    ]


def test_a_signal_ends_the_examination_and_the_agent() -> None:
    command = [
        *TWOFOLD,
        "doctor",
        "--",
        *raw_agent("def initialize(request): os.kill(os.getppid(), 2)"),
    ]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (5, "")
    assert "✓ found" in done.stdout


# ---- the page ----------------------------------------------------------------------------------

_CHANGING = [
    (re.compile(r"\d+\.\d+ s\b"), "N s"),
    (re.compile(r"^Twofold .*", re.MULTILINE), "Twofold"),
    (re.compile(r"^(✓ found +).*", re.MULTILINE), r"\1PATH"),
    (re.compile(r"-- \S+ -m twofold"), "-- twofold"),
]


def unchanging(text: str) -> str:
    """A report without what differs from run to run and from machine to machine."""
    for pattern, replacement in _CHANGING:
        text = pattern.sub(replacement, text)
    return text


def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n\$ (.*?)^```", page, re.MULTILINE | re.DOTALL)
    command, _, report = shown.partition("\n")
    assert command == "twofold doctor -- twofold agent early-update"
    words = ["doctor", "--cwd", str(tmp_path), "--", *TWOFOLD, "agent", "early-update"]
    assert unchanging(twofold(*words).stdout) == unchanging(report)
