"""Commands that Twofold starts: their check, their environment, and how they ended.

The texts are for people: they name the command, what happened to it, and what to do. Output of the
process is made safe to show.
"""

import errno
import os
import shlex
import shutil
import signal
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from twofold.errors import ConnectionEnded, LocalError
from twofold.text import one_line, terminal_text

if TYPE_CHECKING:
    from asyncio.subprocess import Process

STDERR_KEPT = 64 * 1024
"""How many bytes of standard error are kept, counted from the end."""

STDOUT_KEPT = 4 * 1024
"""How many bytes of standard output are kept, counted from the beginning."""

TOKEN_VARIABLE = "TWOFOLD_TOKEN"
"""The variable that holds the token for an agent at a URL."""

LONGEST_COMMAND = 200
LAST_LINES = 20
LAST_CHARACTERS = 4000
FIRST_LINES = 10
IS_IT = "Is it an ACP agent? Many programs need an option such as --acp to be one."


class CommandNotStarted(LocalError):
    """A command could not be started.

    Attributes:
        command: The command and its arguments; empty if it was none.
        reason: Why, and what to do.
    """

    def __init__(self, command: Sequence[str], reason: str) -> None:
        which = f" ({shown(command)})" if command else ""
        super().__init__(f"The agent{which} could not be started: {reason}")
        self.command = tuple(command)
        self.reason = reason


class ProcessEnded(ConnectionEnded):
    """The agent's process ended, or closed its output, while the connection was open.

    Attributes:
        command: The command and its arguments.
        exit_code: Its exit code; None if a signal ended it, or if it still runs.
        signal: The name of the signal that ended it, if one did.
        stderr: The end of its standard error.
        stdout: The beginning of its standard output, if that was no message.
        summary: How it ended, on one line.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        exit_code: int | None = None,
        signal: str | None = None,
        stderr: str = "",
        stdout: str = "",
    ) -> None:
        self.command = tuple(command)
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = _last_lines(stderr)
        self.stdout = first_lines(stdout)
        self.summary = f"The agent ({shown(command)}) {self._what()}"
        super().__init__(f"{self.summary}. {self._output()}")

    def _what(self) -> str:
        if self.signal is not None:
            return f"was ended by {self.signal}"
        if self.exit_code is not None:
            return f"ended with exit code {self.exit_code}"
        return "closed its output, but still runs"

    def _output(self) -> str:
        words = []
        if self.stderr:
            words.append(f"The end of its standard error:\n{indented(self.stderr)}")
        if self.stdout:
            words.append(f"{PRINTED}\n{indented(self.stdout)}\n{IS_IT}")
        if not words:
            return "It wrote nothing to its standard error; run the command by itself to see more."
        return "\n".join(words)


PRINTED = "It printed this, which is no message of the protocol:"


def indented(text: str) -> str:
    """Indent the output of a process, to stand below a sentence about it."""
    return "\n".join(f"  {line}" for line in text.split("\n"))


def first_lines(text: str) -> str:
    """The first lines of a text, with a mark where more follow."""
    lines = text.strip("\n").splitlines()
    return "\n".join([*lines[:FIRST_LINES], *(["…"] if lines[FIRST_LINES:] else [])])


def printed(data: bytes | bytearray) -> str:
    """The beginning of a standard output, safe to show; empty if a line may be a message."""
    if any(line.lstrip()[:1] in (b"{", b"[") for line in data.splitlines()):
        return ""
    return terminal_text(bytes(data))


class StderrTail:
    """The end of a standard error: `STDERR_KEPT` bytes, at most twice as many in memory."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        """Append a piece of output."""
        self._bytes += data[-STDERR_KEPT:]
        if len(self._bytes) > 2 * STDERR_KEPT:
            del self._bytes[:-STDERR_KEPT]

    @property
    def text(self) -> str:
        """The end of it, safe to show."""
        kept = bytes(self._bytes[-STDERR_KEPT:])
        if len(self._bytes) >= STDERR_KEPT:
            kept = kept.lstrip(bytes(range(0x80, 0xC0)))  # half a character
        return terminal_text(kept)


def exit_code(returncode: int | None) -> int | None:
    """The exit code, if the process ended and no signal ended it."""
    return None if returncode is None or returncode < 0 else returncode


def signal_name(returncode: int | None) -> str | None:
    """The signal that ended the process, if one did."""
    if returncode is None or returncode >= 0:
        return None
    try:
        return signal.Signals(-returncode).name
    except ValueError:  # real-time signals have no names
        return f"signal {-returncode}"


def shown(command: Sequence[str]) -> str:
    """The command as one would type it, safe to show, on one line and not too long."""
    text = one_line(shlex.join(command))
    return text if len(text) <= LONGEST_COMMAND else f"{text[: LONGEST_COMMAND - 1]}…"


def checked(command: Sequence[str], cwd: str | os.PathLike[str] | None) -> list[str]:
    """The command as a list; raises `CommandNotStarted` if it is none, or `cwd` no directory."""
    if isinstance(command, str | bytes) or not isinstance(command, Sequence):
        raise CommandNotStarted(
            (), f"a command is a list such as ['npx', 'some-agent'], not {command!r}."
        )
    parts = list(command)
    if not parts or not all(isinstance(part, str) for part in parts) or not parts[0]:
        raise CommandNotStarted(
            (), f"a command is a list of strings that starts with a program, not {parts!r}."
        )
    if cwd is not None and not os.path.isdir(cwd):
        wrong = "is not a directory" if os.path.exists(cwd) else "does not exist"
        reason = f"its working directory {one_line(os.fspath(cwd))} {wrong}."
        raise CommandNotStarted(parts, f"{reason} Create it, or give another one.")
    return parts


def environment(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """Our environment with `overrides`; None removes a variable.

    The token for an agent at a URL is no business of an agent that is started here.
    """
    ours = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    return _merged(ours, overrides)


_PLAIN = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP"),
        *("LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
    }
)


def plain_environment(
    overrides: Mapping[str, str | None], passed: Collection[str] = ()
) -> dict[str, str]:
    """The variables that any command needs, those `passed` by name, and `overrides`.

    The environment of a client may hold tokens and keys, which nothing distinguishes from other
    variables: only variables that are known to hold none are kept.
    """
    kept = [name for name in os.environ if name in _PLAIN or name.startswith("LC_")]
    base = {name: os.environ[name] for name in (*kept, *passed) if name in os.environ}
    return _merged(base, overrides)


def _merged(base: Mapping[str, str], overrides: Mapping[str, str | None]) -> dict[str, str]:
    kept = {name: value for name, value in base.items() if name not in overrides}
    return kept | {name: value for name, value in overrides.items() if value is not None}


def why_not(
    error: Exception,
    name: str,
    environ: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
) -> str:
    """Why the program `name` could not be started, and what to do."""
    shown_name = one_line(name)
    if not isinstance(error, OSError):
        return f"{error}."
    if isinstance(error, FileNotFoundError):
        return _not_found(shown_name, _found(name, environ, cwd), os.path.basename(name) == name)
    if isinstance(error, PermissionError | IsADirectoryError) and _is_directory(name, cwd):
        return f"{shown_name} is a directory. Give the path of a program."
    if isinstance(error, PermissionError):
        advice = f"Make it executable (chmod +x {shown_name}), or put its interpreter first."
        return f"{shown_name} may not be executed. {advice}"
    if error.errno == errno.ENOEXEC:
        return f"{shown_name} is no program. If it is a script, put its interpreter first."
    return f"{error.strerror or error}."


def _not_found(name: str, exists: bool, searched: bool) -> str:
    if exists:
        return f"the interpreter that the first line of {name} names is not there. Install it."
    if searched:
        return f"there is no command {name} on the PATH. Install it, or give its full path."
    return f"there is no file {name}. Check the path."


def _found(name: str, environ: Mapping[str, str], cwd: str | os.PathLike[str] | None) -> bool:
    if os.path.basename(name) == name:
        return shutil.which(name, path=environ.get("PATH")) is not None
    return os.path.exists(os.path.join(cwd or "", name))


def _is_directory(name: str, cwd: str | os.PathLike[str] | None) -> bool:
    return os.path.isdir(os.path.join(cwd or "", name))


def _last_lines(text: str) -> str:
    last = "\n".join(text.rstrip().splitlines()[-LAST_LINES:])
    return last if len(last) <= LAST_CHARACTERS else f"…{last[-LAST_CHARACTERS:]}"


def end_child(process: "Process", number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a child of asyncio, which may have ended by itself already.

    The methods of the child look first whether it has ended. If so they take its exit status away
    from asyncio, which then writes a warning to standard error and reports the status 255.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
