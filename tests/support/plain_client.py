"""The interactive client on a stage, with any options and any agent.

`client_stage` is for the demo agent, and holds more laws.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.terminal_stage import Env, Stage

RUN = [sys.executable, "-m", "twofold", "run"]


def demo(*arguments: str, speed: float = 0) -> list[str]:
    """The command of a demo agent."""
    return [sys.executable, "-P", "-m", "twofold", "agent", "--speed", f"{speed}", *arguments]


def client(
    *options: str,
    agent: Sequence[str] = (),
    columns: int = 90,
    rows: int = 30,
    cwd: Path | None = None,
    env: Env | None = None,
) -> Stage:
    """The client in a terminal; at its end nothing is left of it or of the agent."""
    command = [*RUN, *options, "--", *(agent or demo())]
    return Stage(command, columns=columns, rows=rows, cwd=cwd, env=env)


WORKING = ("◐ working", "⊘ cancelling", "? waiting for you", "? press ")
"""What the status line begins with while the client does not wait for a prompt."""


def in_input(stage: Stage, typed: str = "") -> bool:
    """Whether the input line holds nothing or just this; a turn may be going on."""
    return not stage.cursor_is_hidden and stage.screen()[stage.cursor[1]] == f"> {typed}".rstrip()


def at_prompt(stage: Stage, typed: str = "") -> bool:
    """Whether the client waits for a prompt, with nothing in the input line or just this."""
    below = stage.screen()[stage.cursor[1] :]
    return in_input(stage, typed) and not any(row.startswith(WORKING) for row in below)


def say(stage: Stage, text: str, answer: str) -> None:
    """Type a prompt, and wait for its answer and for the next prompt."""
    stage.wait_for(at_prompt)
    before = stage.text.count(answer)
    stage.type(text)
    stage.press("enter")
    stage.wait_for(lambda stage: stage.text.count(answer) > before and at_prompt(stage))


def leave(stage: Stage) -> None:
    stage.wait_for(at_prompt)
    stage.press("ctrl-d")
    assert stage.wait_end() == 0
    assert stage.children() == []
