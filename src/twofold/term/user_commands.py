"""Commands of the person's own: `!make` runs in the session's directory, and shows its output.

`!!make` attaches the output to the next prompt as well, exactly as it was shown. A command has the
environment of the client, no input and no terminal. What it leaves running in the background ends
with the client.
"""

import asyncio
import base64
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from twofold.client.terminals import Child, Terminal, Update, spawn
from twofold.errors import LocalError
from twofold.term.command_output import CommandOutput
from twofold.term.lines import Drawable, Line, line
from twofold.text import one_line
from twofold.transport import groups
from twofold.wire import v1, v2

GRACE: Final = 2.0
"""How many seconds a command has to end after it was asked to."""
KIND: Final = "command"
"""What notes with the output of a command are about."""
_KEPT: Final = 64 * 1024
"""How many bytes the terminal keeps: the lines to show are kept apart from it."""
_MARGIN: Final = "  "
_LONGEST: Final = 200


class NotRun(LocalError):
    """A command of the person's cannot be run."""


class UserCommand(NamedTuple):
    """What was typed after `!` or `!!`."""

    text: str
    """The command; empty after `!!` alone, which removes what is attached."""
    attach: bool


def parse_user_command(text: str, pasted: Sequence[str] = ()) -> UserCommand | None:
    """The command in a text that begins with `!`; None if it is a prompt.

    Args:
        text: What was entered.
        pasted: The parts of it that were pasted: a command is typed.

    Raises:
        NotRun: It begins like a command, and is none.
    """
    if not text.startswith("!") or any(text.startswith(paste) for paste in pasted if paste):
        return None
    if text.startswith("!["):  # an image in Markdown
        return None
    if "\n" in text.strip():
        raise NotRun(
            "A command after ! is one line, so nothing was run or sent."
            " With a blank before the ! it is sent as text."
        )
    attach = text.startswith("!!")
    command = text[2 if attach else 1 :].strip()
    if not command and not attach:
        raise NotRun("There is no command after the !. With a blank before it, it is sent as text.")
    return UserCommand(command, attach)


class Attached(NamedTuple):
    """The output of a command, for the next prompt."""

    command: str
    output: str
    end: str
    """How the command ended, if it did not succeed."""

    @property
    def words(self) -> str:
        """What is attached, on one line."""
        count = len(self.output.splitlines())
        lines = f"{count:,} line{'' if count == 1 else 's'}"
        return " · ".join(filter(None, [f"$ {_short(self.command)}", lines, self.end]))

    @property
    def text(self) -> str:
        """The text for the agent."""
        fence = "```"
        while fence in self.output:
            fence += "`"
        output = f"{self.output}\n" if self.output else ""
        end = f"\n({self.end})" if self.end else ""
        return (
            f"\n\nOutput of a command that I ran:\n{fence}\n$ {self.command}\n{output}{fence}{end}"
        )


class Output(Protocol):
    """Where the output goes."""

    def print_more(self, lines: Sequence[Drawable], kind: str) -> None:
        """Print lines right below those before."""


class UserCommands:
    """Runs the commands of one session, one at a time, and keeps what is attached.

    Args:
        cwd: Where they run.
        output: Where their output is shown.
        on_change: Called when `rows` has changed.
    """

    def __init__(self, cwd: Path, output: Output, on_change: Callable[[], None]) -> None:
        self.attached: list[Attached] = []
        """What goes with the next prompt."""
        self._cwd = cwd
        self._output = output
        self._on_change = on_change
        self._running: tuple[str, Terminal] | None = None
        self._stopped = False
        self._left: list[Terminal] = []
        """Of commands that have ended, and left something in the background."""

    @property
    def running(self) -> bool:
        """Whether a command runs."""
        return self._running is not None

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What runs and what is attached: a mark, and words."""
        made = []
        if self._running is not None:
            words = f"$ {_short(self._running[0])} · Ctrl-C stops it"
            made.append(("⋯ running: ", words))
        return made + [("⋯ attached: ", f"{each.words} · !! removes it") for each in self.attached]

    async def run(self, command: UserCommand) -> None:
        """Run a command until it has ended, and show its output.

        Raises:
            NotRun: It cannot be started, or another one runs.
        """
        if not command.text:
            self._remove_attached()
            return
        if self._running is not None:
            raise NotRun(f"$ {_short(self._running[0])} still runs. Ctrl-C stops it.")
        output = CommandOutput()
        ended = False  # what is left in the background writes to nobody

        def report(update: Update) -> None:
            if isinstance(update, v2.TerminalOutputChunk) and not ended:
                self._show(output.feed(base64.b64decode(update.data)))

        child = self._start(command.text)
        terminal = Terminal("", child, limit=_KEPT, grace=GRACE, report=report)
        self._running, self._stopped = (command.text, terminal), False
        self._on_change()
        try:
            status = await asyncio.shield(terminal.exit)
        finally:
            ended, self._running = True, None
            self._keep_or_close(terminal, child)
            self._on_change()
        self._show(output.end())
        end = self._end(status)
        if end:
            self._print([line(end, "yellow", _MARGIN)])
        elif not output.text:
            self._print([line("no output", "dim italic", _MARGIN)])
        if command.attach:
            self.attached.append(Attached(command.text, output.text, end))
            self._on_change()

    def _start(self, command: str) -> Child:
        shell = os.environ.get("SHELL") or "/bin/sh"
        try:
            return spawn([shell, "-c", command], self._cwd, os.environ)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise NotRun(f"The command cannot be run by {shell}: {reason}.") from None

    def _keep_or_close(self, terminal: Terminal, child: Child) -> None:
        if not terminal.exit.done():
            terminal.force()
            self._left.append(terminal)
        elif groups.exists(child.process.pid):
            self._left.append(terminal)
        else:
            terminal.stop()

    def stop(self) -> bool:
        """Stop the command that runs, the second time at once; returns False if none runs."""
        if self._running is None:
            return False
        terminal = self._running[1]
        if self._stopped:
            terminal.force()
        else:
            self._stopped = True
            terminal.stop()
        return True

    async def close(self) -> None:
        """End everything that was started, and wait for it."""
        ending = [*self._left, *([self._running[1]] if self._running else [])]
        self._left = []
        for terminal in ending:
            terminal.stop()
        if ending:
            await asyncio.wait([terminal.gone for terminal in ending])

    def take_attached(self) -> list[Attached]:
        """Return what is attached, and attach it no longer."""
        taken, self.attached = self.attached, []
        self._on_change()
        return taken

    def _remove_attached(self) -> None:
        if not self.take_attached():
            raise NotRun("Nothing is attached. !!COMMAND attaches the output of a command.")
        self._print([line("Nothing is attached any more.", "dim", _MARGIN)])

    def _show(self, lines: Sequence[str]) -> None:
        if lines:
            self._print([Line(((each, ""),), ((_MARGIN, ""),), prose=False) for each in lines])

    def _print(self, lines: Sequence[Drawable]) -> None:
        self._output.print_more(lines, KIND)

    def _end(self, status: v1.TerminalExitStatus) -> str:
        """How a command ended, unless it succeeded."""
        if self._stopped:
            return "stopped"
        if status.signal:
            return f"ended by {status.signal}"
        return f"exit status {status.exit_code}" if status.exit_code else ""


def _short(command: str) -> str:
    words = one_line(command)
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
