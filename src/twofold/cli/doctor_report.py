"""What `twofold doctor` runs: it examines an agent, and prints each step as soon as it is known.

The report is made to be published: values that look like secrets are replaced by `***`, and the
home directory by `~`.
"""

import asyncio
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from twofold.cli.output import Output, not_written
from twofold.client.doctor import STEPS, Checkup, Outcome, Step, examine, is_fine
from twofold.client.launch import on_signals
from twofold.term import exit_status
from twofold.text import one_line
from twofold.transport.commands import shown
from twofold.version import VERSION
from twofold.wire import codec

Format: TypeAlias = Literal["text", "markdown", "json"]

MARKS: Final[Mapping[Outcome, str]] = {"ok": "✓", "warning": "!", "failed": "✗", "skipped": "–"}
_NAME_WIDTH = max(map(len, STEPS))
_INDENT = " " * (_NAME_WIDTH + 4)
_FENCE = "~~~~~~~~"  # no report contains it at the start of a line: every line begins with a mark

_SECRET = re.compile(r"(?:api_?)?key|token|secret|passw(?:or)?d|credential", re.IGNORECASE)
_SHORTEST_SECRET = 8
_HIDDEN = "***"


async def run_doctor(checkup: Checkup, form: Format, output: Output) -> int:
    """Examine the agent, print the report, and return the exit status."""
    task, stopped = asyncio.current_task(), False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        if task is not None:
            task.cancel()  # `examine` ends the agent

    on_signals(stop)
    hide = hider(checkup.command, {**os.environ, **checkup.env}, Path.home())
    steps: list[Step] = []

    def write(text: str) -> None:
        output.text(hide(text))

    def on_step(step: Step) -> None:
        steps.append(step)
        if form == "json":
            output.json(hide(codec.encode(step).decode()).encode() + b"\n")
        else:
            write("".join(f"{line}\n" for line in step_lines(step)))

    if form != "json":
        write("\n".join([*heading(checkup, form), ""]))
    try:
        await examine(checkup, on_step)
    except asyncio.CancelledError:
        if not stopped:
            raise
        return exit_status.CANCELLED
    finally:
        if form == "markdown":
            write(f"{_FENCE}\n")
    if form == "text":
        write(f"\n{conclusion(steps)}\n")
    if output.out.fault is not None:
        output.report(not_written("Standard output", output.out.fault))
        return exit_status.FAILED
    return exit_status.OK if is_fine(steps) else exit_status.FAILED


# ---- words -------------------------------------------------------------------------------------


def heading(checkup: Checkup, form: Format) -> Iterator[str]:
    """The lines above the steps: what was examined, with what, and where."""
    dashes = "-- " if checkup.endpoint is None else ""
    command = f"twofold doctor {dashes}{shown(checkup.command)}"
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    about = f"Twofold {VERSION}, Python {platform.python_version()}, {one_line(system)}"
    if form == "markdown":
        yield from (_FENCE, command, about, "")
    else:
        yield from (command, about, "")


def step_lines(step: Step) -> Iterator[str]:
    """The lines of a step: its mark, name and detail, then more about it and the advice."""
    yield f"{MARKS[step.outcome]} {step.name:{_NAME_WIDTH}}  {step.detail}"
    for line in step.lines:
        yield f"{_INDENT}{line}"
    if step.advice:
        yield f"{_INDENT}→ {step.advice}"


def conclusion(steps: Sequence[Step]) -> str:
    """The last line of the report."""
    failed = [step.name for step in steps if step.outcome == "failed"]
    wrong = [step.name for step in steps if step.outcome == "warning"]
    if not failed and not wrong:
        return "All is fine."
    parts = [f"failed: {', '.join(failed)}"] if failed else []
    parts += [f"something is wrong: {', '.join(wrong)}"] if wrong else []
    return f"{'; '.join(parts).capitalize()}. To report it: --format markdown."


# ---- what must not be published ----------------------------------------------------------------


def hider(command: Sequence[str], environ: Mapping[str, str], home: Path) -> Callable[[str], str]:
    """A function that replaces secrets and the home directory in a text.

    Secrets are the values of variables and of options of the command whose name sounds like one,
    if they are long enough not to be a word.
    """
    secrets = {value for name, value in environ.items() if _SECRET.search(name)}
    for option, after in zip(command, [*command[1:], ""], strict=True):
        name, is_joined, value = option.partition("=")
        if name.startswith("-") and _SECRET.search(name):
            secrets.add(value if is_joined else after)
    hidden = [each for each in secrets if len(each) >= _SHORTEST_SECRET]
    escaped = [codec.encode(each).decode()[1:-1] for each in hidden]
    # the longest first: a secret may contain another
    words = sorted({*hidden, *escaped}, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, words))) if words else None
    at_home = (
        re.compile(rf"{re.escape(str(home))}(?=[/\s\"',;:)]|$)") if len(home.parts) > 1 else None
    )

    def hide(text: str) -> str:
        text = pattern.sub(_HIDDEN, text) if pattern is not None else text
        return at_home.sub("~", text) if at_home is not None else text

    return hide
