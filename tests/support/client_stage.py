"""The interactive client on a stage, with the demo agent behind it.

`client` starts `twofold run` in a real terminal, `say` sends a prompt and waits for the next one,
`answer` presses a key when the agent asks, and `ends` holds what is true of every client that has
ended: the terminal is as it was before, no process is left, and nothing was written to the
terminal but text and sequences of our own.
"""

import re
import sys
from typing import Final, Literal, TypeAlias

from tests.support.terminal_screen import BRACKETED_PASTE
from tests.support.terminal_stage import AnyStage, Stage
from tests.support.terminal_waiting import process_stat
from twofold.term.input.guard import READ, SILENCE

Version: TypeAlias = Literal[1, 2]
VERSIONS: Final[tuple[Version, Version]] = (1, 2)

TWOFOLD: Final = [sys.executable, "-P", "-m", "twofold"]

# The settings of the terminal before and after, as the terminal itself tells them. Ctrl-C reaches
# all that runs in a terminal, and the shell has to outlive the client to look.
_WATCHED: Final = (
    'trap : INT; stty -g > "$HOME/before"; "$@"; status=$?; stty -g > "$HOME/after"; exit $status'
)
_SHOWN: Final = re.compile(rb"(?<!\x1b\[\?25l)\x1b\[\?2004h")
"""What a prompt writes when it appears; the display of a turn hides the cursor before it."""
_OURS: Final = re.compile(
    r"\x1b\[(?:\?(?:1l|12l|7[hl]|25[hl]|2004[hl]|2026[hl])|[0-9]*[ABCDJK]|[0-9;]*m)"
    r"|\x1b\]8;(?:id=[0-9]+;file:///[!-~]+|;)\x1b\\"
)
"""Modes of keys, cursor, wrapping, pastes and frames; moves, erasing, looks, and links to files."""


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


def wait_prompt(stage: AnyStage, number: int = 1) -> None:
    """Wait until a prompt has appeared for the `number`th time."""
    stage.wait_for(lambda stage: _prompts(stage) >= number)


def _prompts(stage: AnyStage) -> int:
    return len(_SHOWN.findall(stage.raw))


def begin(stage: AnyStage, text: str) -> int:
    """Send a prompt; the number of the prompt that comes after it."""
    shown = _prompts(stage)
    stage.type(text)
    stage.press("enter")
    return shown + 1


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
    asked = ("? press Tab to answer", "? waiting for you")
    stage.wait_for(lambda stage: any(row.startswith(asked) for row in stage.screen()))
    stage.wait_quiet(READ + 0.05)
    stage.press("tab")
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
    """All text in the terminal, the directory of the client replaced by `{cwd}`."""
    return stage.text.rstrip().replace(str(stage.home), "{cwd}")


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
