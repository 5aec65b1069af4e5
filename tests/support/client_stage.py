"""The interactive client on a stage, with the demo agent behind it.

`client` starts `twofold run` in a real terminal, `say` sends a prompt and waits for the next one,
`answer` presses a key when the agent asks, and `ends` holds what is true of every client that has
ended: the terminal is as it was before, no process is left, and nothing was written to the
terminal but text and sequences of our own.
"""

import re
import sys
from typing import Final, Literal, TypeAlias

from tests.support.terminal_screen import BRACKETED_PASTE, FOCUS
from tests.support.terminal_stage import AnyStage, Stage
from tests.support.terminal_waiting import process_stat
from twofold.term.input.guard import READ, SILENCE

Version: TypeAlias = Literal[1, 2]
VERSIONS: Final[tuple[Version, Version]] = (1, 2)

Sent: TypeAlias = tuple[str, int]
"""How a prompt that was sent begins, and how often that was in the terminal before."""

TWOFOLD: Final = [sys.executable, "-P", "-m", "twofold"]

# The settings of the terminal before and after, as the terminal itself tells them. Ctrl-C reaches
# all that runs in a terminal, and the shell has to outlive the client to look. The bell is off: on
# a slow machine a test may look like a person who is away.
_WATCHED: Final = (
    'mkdir -p "$HOME/.config/twofold"; '
    'echo "notifications = { bell = false }" > "$HOME/.config/twofold/settings.toml"; '
    'trap : INT; stty -g > "$HOME/before"; "$@"; status=$?; stty -g > "$HOME/after"; exit $status'
)
_OURS: Final = re.compile(
    r"\x1b\[(?:\?(?:1l|12l|7[hl]|25[hl]|1004[hl]|2004[hl]|2026[hl])|[0-9]*[ABCDJK]|[0-9;]*m|2[23];0t)"
    r"|\x1b\]8;(?:id=[0-9]+;file:///[!-~]+|;)\x1b\\"
    r"|\x1b\]11;\?\x1b\\\x1b\[c"
    r"|\x1b\]2;(?:(?:[?◐] )?[^\x00-\x1f\x7f-\x9f]{0,60} · twofold)?\x1b\\"
)
"""Modes of keys, cursor, wrapping, focus, pastes and frames; moves, erasing, looks, links to files,
the title of the window, set, saved and restored, and the question for the background.
"""


def command(
    version: Version,
    *agent: str,
    speed: float = 0,
    version_option_of: Literal["client", "agent"] = "client",
) -> list[str]:
    """The client, and the demo agent that it starts, with arguments such as a scenario.

    The version is an option of the client, or of the agent.
    """
    wanted = ["--version", f"{version}"]
    run, be_agent = [*TWOFOLD, "run"], [*TWOFOLD, "agent", "--speed", f"{speed:g}", *agent]
    (run if version_option_of == "client" else be_agent).extend(wanted)
    return ["sh", "-c", _WATCHED, "sh", *run, "--", *be_agent]


def client(
    version: Version,
    *agent: str,
    speed: float = 0,
    version_option_of: Literal["client", "agent"] = "client",
    columns: int = 80,
    rows: int = 24,
) -> Stage:
    """A client in a terminal, in the empty directory `stage.home`."""
    started = command(version, *agent, speed=speed, version_option_of=version_option_of)
    return Stage(started, columns=columns, rows=rows)


# ---- talking ---------------------------------------------------------------------------------


def wait_prompt(stage: AnyStage, sent: Sent | None = None) -> None:
    """Wait until the client waits for a prompt, after this one was sent."""
    stage.wait_for(lambda stage: is_idle(stage) and (sent is None or _times(stage, sent) > sent[1]))


def is_idle(stage: AnyStage) -> bool:
    """Whether the input line is empty and no turn goes on: the status begins with the mode.

    A frame may be read in two parts, so an empty line below the input is no sign.
    """
    rows = stage.screen()
    at = max((number for number, row in enumerate(rows) if row.startswith(">")), default=-1)
    return at >= 0 and rows[at] == ">" and any(row.startswith("Mode:") for row in rows[at:])


def _times(stage: AnyStage, sent: Sent) -> int:
    return sum(row.startswith(sent[0]) for row in stage.text.split("\n"))


def begin(stage: AnyStage, text: str) -> Sent:
    """Send a prompt; returns what to wait for."""
    first = f"> {text.splitlines()[0]}"[: stage.columns // 2]
    before = _times(stage, (first, 0))
    stage.type(text)
    stage.press("enter")
    return first, before


def send_prompt(stage: AnyStage, text: str) -> None:
    """Send a prompt, and wait until the client asks for the next one."""
    wait_prompt(stage, begin(stage, text))


def wait_status(stage: AnyStage, status: str) -> None:
    """Wait until an empty prompt stands below everything, and this below it."""
    stage.wait_for(lambda stage: screen_text(stage).endswith(f"\n\n>\n{status}"))


def wait_idle(stage: AnyStage) -> None:
    """Wait until the client and then the agent sleep: each has done what it was told to do.

    A process that is written to is awake at once, so none sleeps with something unread.
    """
    stage.wait_for(lambda stage: {process_stat(pid)[0] for pid in stage.children()} == {"S"})


def wait_question(stage: AnyStage) -> None:
    """Wait until the agent asks, and until a key answers it: a deliberate one comes first."""
    asked = ("? press Tab to answer", "? press Ctrl-Y to answer", "? waiting for you")
    stage.wait_for(lambda stage: any(row.startswith(asked) for row in stage.screen()))
    stage.wait_quiet(READ + 0.05)
    typed = any(row.startswith("? press Ctrl-Y") for row in stage.screen())
    stage.press("ctrl-y" if typed else "tab")
    stage.wait_for(lambda stage: any("? waiting for you" in row for row in stage.screen()))


def give(stage: AnyStage, key: str) -> None:
    """Answer a question that waits; an answer for always is given twice."""
    stage.press(key)
    if key in ("a", "d"):
        stage.wait_for(lambda stage: any(f"{key} again" in row for row in stage.screen()))
        stage.wait_quiet(SILENCE + 0.1)
        stage.press(key)


def wait_sending(stage: AnyStage) -> None:
    """Wait until Enter sends again: what follows an answer at once does not."""
    stage.wait_quiet(SILENCE + 0.05)


def answer(stage: AnyStage, text: str, key: str) -> None:
    """Send a prompt, answer what the agent asks, and wait for the next prompt."""
    after = begin(stage, text)
    wait_question(stage)
    give(stage, key)
    wait_prompt(stage, after)
    wait_sending(stage)


# ---- reading ---------------------------------------------------------------------------------


def screen_text(stage: AnyStage) -> str:
    """All text in the terminal, without how to resume; the client's directory is `{cwd}`."""
    text, _, _ = stage.text.partition("\n\nTo resume it: ")
    return text.rstrip().replace(str(stage.home), "{cwd}")


def turns(stage: AnyStage) -> list[tuple[str, str]]:
    """The prompts and the turns after them, of a client that has ended."""
    _, *rest = re.split(r"^> (.*)\n", screen_text(stage), flags=re.MULTILINE)
    return [(prompt, turn.strip("\n")) for prompt, turn in zip(rest[::2], rest[1::2], strict=True)]


def blocks(text: str) -> list[str]:
    """The pieces of a text between its blank lines, by their names."""
    return sorted(block.strip("\n") for block in text.split("\n\n"))


# ---- laws ------------------------------------------------------------------------------------


def leave(stage: Stage) -> None:
    """Leave by Ctrl-D, at a prompt with nothing in it."""
    stage.press("ctrl-d")
    ends(stage, 0)


def ends(stage: Stage, status: int) -> None:
    """The client ends with this status, and leaves everything as it was."""
    ends_well(stage, status)
    assert not stage.cursor_is_hidden
    assert not stage.has_mode(BRACKETED_PASTE)
    assert not stage.has_mode(FOCUS)
    assert stage.cursor[0] == 0, "the shell begins on a line of its own"
    assert stage.title == ""


def ends_well(stage: AnyStage, status: int) -> None:
    """The same, as far as it can be seen in any terminal."""
    assert stage.wait_end() == status
    assert stage.children() == []
    assert (stage.home / "after").read_text() == (stage.home / "before").read_text()
    assert foreign(stage.raw) == ""


def foreign(written: bytes) -> str:
    """What of the output is neither text nor a sequence of ours: nothing."""
    text = _OURS.sub("", written.decode())
    return "".join(character for character in text if not _is_text(character))


def _is_text(character: str) -> bool:
    return character.isprintable() or character in "\r\n"
