"""The filters: `fold`, `show` and `convert`. JSON Lines in, from a file or standard input.

A bad line is reported on standard error with its number, and the rest is read. No mistake of a peer
or a user shows a traceback.
"""

import io
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast

import click

from twofold.cli.help import HelpfulCommand
from twofold.cli.options import journal_file
from twofold.cli.output import standard_output
from twofold.convert.conversation import Conversation, Out, Target
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.versions import Dialect
from twofold.errors import LocalError, PeerError
from twofold.journal.recording import Line, Recording, read_line
from twofold.session import Draft, Session, snapshot
from twofold.text.safe import harmless_json, one_line
from twofold.wire import codec
from twofold.wire.base import Malformed

if TYPE_CHECKING:
    from rich.console import Console

    from twofold.cli.wire_view import Asked
    from twofold.host.recovery import Recovery
    from twofold.host.settings import Theme as ThemeChoice
    from twofold.journal.journal import SessionRow
    from twofold.term.lines import Row
    from twofold.term.themes import Theme

_BAD_INPUT, _LOST, _REFUSED = 2, 3, 4
"""Exit statuses."""

_file = click.argument("file", default="-", metavar="[FILE]")
_journal = click.option(
    "--journal",
    is_flag=True,
    help="Read a session that `twofold serve` keeps: FILE is its id, or the beginning of it; the"
    " last one by default.",
)
_from = click.option(
    "--from",
    "source",
    type=click.Choice(["auto", "1", "2", "guide"]),
    default="auto",
    show_default=True,
    help="The version of the input.",
)


@click.command(cls=HelpfulCommand)
@_file
@_journal
@journal_file
@_from
@click.option(
    "--draft",
    type=click.Choice([draft.value for draft in Draft]),
    help="The draft of version 2 whose rule for _meta applies; detected by default.",
)
def fold(
    file: str, journal: bool, journal_file: Path | None, source: str, draft: str | None
) -> None:
    """Print the final state of each session in a recording.

    The output is a snapshot, one update per line. Each line of the input is a JSON-RPC message, its
    params, a bare update, or an object that holds the message in its field "message".
    """
    if journal:
        _, recovery = _kept(file, journal_file)
        sessions: list[Session] = [recovery.session]
        status = 0
    else:
        recording, status = _read(_opened(file), source, draft)
        sessions = list(recording.sessions.values())
    with standard_output() as out:
        for session in sessions:
            for update in snapshot(session):
                _print(out, {"sessionId": session.session_id, "update": update})
    sys.exit(status)


@click.command(cls=HelpfulCommand)
@_file
@_journal
@journal_file
@_from
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "html", "jsonl"]),
    default="text",
    show_default=True,
    help="What to print: text for a terminal or a file, a Markdown document, or an HTML page; with"
    " --wire text or JSON Lines.",
)
@click.option(
    "--theme",
    type=click.Choice(["auto", "dark", "light"]),
    help="The colors of text at a terminal; by default those of the settings, or as its background"
    " is.",
)
@click.option("--wire", is_flag=True, help="Print the messages, one line each.")
@click.option("-v", "--verbose", is_flag=True, help="With --wire: print all of each message.")
@click.option(
    "--message",
    type=click.IntRange(min=1),
    metavar="N",
    help="Print all of message N: its JSON, its form in the other version, the state after it.",
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="FILTER",
    help="With --wire: print only some messages: method=NAME, session=ID, text=WORDS, client,"
    " agent, faults, unknown, losses or errors. All of several filters have to hold.",
)
@click.option(
    "--at",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show what the first N messages add up to.",
)
@click.option(
    "--diff",
    "other",
    type=click.File("rb"),
    metavar="OTHER",
    help="Compare what this recording and OTHER add up to.",
)
@click.option(
    "--session",
    "sessions",
    multiple=True,
    metavar="ID",
    help="With --diff: the session to compare; given twice, the one in OTHER is the second.",
)
def show(
    file: str,
    journal: bool,
    journal_file: Path | None,
    source: str,
    form: Literal["text", "markdown", "html", "jsonl"],
    theme: "ThemeChoice | None",
    wire: bool,
    verbose: bool,
    message: int | None,
    filters: tuple[str, ...],
    at: int | None,
    other: IO[bytes] | None,
    sessions: tuple[str, ...],
) -> None:
    """Print a recording for reading.

    With --wire, --message or --filter its messages are printed, and what is wrong with them. The
    exit status of --diff is 1 if there is a difference.
    """
    from rich.console import Console

    from twofold.cli.journal_source import outline_of
    from twofold.term.export import document
    from twofold.term.transcript import render_blocks

    views = {"--wire": wire or verbose or filters or message, "--at": at, "--diff": other}
    chosen = [name for name, given in views.items() if given]
    if len(chosen) > 1:
        raise click.UsageError(f"{chosen[0]} and {chosen[1]} cannot be combined.")
    if sessions and other is None:
        raise click.UsageError(
            "--session needs --diff; messages of a session: --filter session=ID."
        )
    prints_lines = chosen in (["--wire"], ["--diff"])
    if form not in (("text", "jsonl") if prints_lines else ("text", "markdown", "html")):
        what = chosen[0] if prints_lines else "the sessions; it needs --wire or --diff"
        raise click.UsageError(f"--format {form} is not for {what}.")
    console = Console(highlight=False)
    if journal and chosen:
        data: IO[bytes] = io.BytesIO(b"\n".join(_kept_lines(file, journal_file)))
    elif not journal:
        data = _opened(file)
    if prints_lines:
        from twofold.cli.wire_view import Asked

        asked = Asked(_dialect(source), verbose, message, filters, sessions)
        sys.exit(_show_lines(data, other, asked, None if form == "jsonl" else console, theme))
    if journal and not chosen:
        blocks, status = outline_of(*_kept(file, journal_file)), 0
    else:
        recording, status = _read(data, source, None, at)
        blocks = recording.outline()
    if not blocks:
        _report("There is nothing to show: the input has no session and no failed request.")
    with standard_output() as out:
        if form == "text":
            render_blocks(blocks, console, _theme(theme, console))
        elif form != "jsonl":  # which was refused above
            out.write(document(blocks, form).encode(errors="replace"))
    sys.exit(status)


def _show_lines(
    file: IO[bytes],
    other: IO[bytes] | None,
    asked: "Asked",
    console: "Console | None",
    theme: "ThemeChoice | None",
) -> int:
    """Print messages or differences, as JSON Lines if there is no console; return the status."""
    from twofold.cli.wire_view import Drawing, Printing, print_differences, print_messages
    from twofold.term.transcript import render_rows

    drawing = None
    if console is not None:
        chosen, shown = _theme(theme, console), console

        def print_rows(rows: "Iterable[Row]") -> None:
            render_rows(rows, shown, chosen)

        drawing = Drawing(print_rows, console.width if console.is_terminal else None)
    with standard_output() as out:
        printing = Printing(out, drawing, _report)
        if other is None:
            return print_messages(_raw_lines(file), asked, printing)
        return print_differences(_raw_lines(file), other, asked, printing)


def _theme(wanted: "ThemeChoice | None", console: "Console") -> "Theme":
    """The theme; the terminal is asked only if something is printed in colours there."""
    from twofold.host.settings import SettingsError, load
    from twofold.term.background import ask_background, can_ask, choose_theme

    if not console.is_terminal or console.color_system is None or console.no_color:
        return choose_theme("dark", None, os.environ)
    try:
        wanted = wanted or load().values.theme
    except SettingsError as error:  # it can be shown nevertheless
        _report(str(error))
        wanted = "auto"
    asks = wanted == "auto" and sys.stdout.isatty() and can_ask(os.environ)
    return choose_theme(wanted, ask_background() if asks else None, os.environ)


@click.command(cls=HelpfulCommand)
@_file
@_journal
@journal_file
@click.option(
    "--to", "target", type=click.Choice(["1", "2"]), required=True, help="The version to print."
)
@_from
@click.option("--strict", is_flag=True, help="Refuse messages that would lose something.")
def convert(
    file: str,
    journal: bool,
    journal_file: Path | None,
    target: str,
    source: str,
    strict: bool,
) -> None:
    """Convert a recording to the other version.

    Losses are written to standard error, one JSON object per line. Exit status: 0 nothing was lost,
    2 bad input, 3 something was lost, 4 something was refused.
    """
    losses = Losses(strict=strict)
    conversation = Conversation(cast("Target", target), losses, _dialect(source))
    lines = _kept_lines(file, journal_file) if journal else _opened(file)
    with standard_output() as out:
        status = _convert_all(lines, conversation, losses, out)
    sys.exit(status)


def _convert_all(
    file: Iterable[bytes], conversation: Conversation, losses: Losses, output: IO[bytes]
) -> int:
    """Convert each line of `file`, and return the exit status."""
    status = 0
    for number, line in _lines(file):
        if isinstance(line, PeerError):
            _report_line(number, line)
            status = _BAD_INPUT
            continue
        try:
            for out in _convert(conversation, line):
                made = line.wrap(out.message, back=out.back) if isinstance(out, Out) else out
                _print(output, made)
        except NotConvertible as refusal:
            _report_loss(number, refusal.path, refusal.reason)
            status = _BAD_INPUT if status == _BAD_INPUT else _REFUSED
        except PeerError as error:
            _report_line(number, error)
            status = _BAD_INPUT
        if losses:
            status = status or _LOST
        for loss in losses:
            _report_loss(number, loss.path, loss.reason)
        losses.clear()
    return status


def _convert(conversation: Conversation, line: Line) -> list[Out] | list[dict[str, Any] | None]:
    if line.message is None:
        return [line.record]
    return conversation.message(line.message, line.sender)


# ---- reading -----------------------------------------------------------------------------------


def _opened(name: str) -> IO[bytes]:
    """A file, or standard input for `-`; it is opened here because an id is no file."""
    file: IO[bytes] = click.File("rb").convert(name, None, click.get_current_context())
    return file


def _kept(wanted: str, path: Path | None) -> "tuple[SessionRow, Recovery]":
    """A session of the journal."""
    from twofold.cli.journal_source import read_journal, recovered

    try:
        return read_journal(path, lambda reader: recovered(reader, wanted, _report))
    except LocalError as error:
        raise click.ClickException(str(error)) from None


def _kept_lines(wanted: str, path: Path | None) -> list[bytes]:
    """The updates of a session of the journal."""
    from twofold.cli.journal_source import read_journal, update_lines

    try:
        return read_journal(path, lambda reader: update_lines(reader, wanted))
    except LocalError as error:
        raise click.ClickException(str(error)) from None


def _read(
    file: IO[bytes], source: str, draft: str | None, at: int | None = None
) -> tuple[Recording, int]:
    """Fold all messages of `file`, or the first `at`; return the exit status with the result."""
    recording = Recording(_dialect(source), Draft(draft) if draft else None)
    lines = list(_lines(file))
    for _, line in lines:  # the version may show only in a later line
        if isinstance(line, Line):
            recording.look(line)
    status = 0
    for number, line in lines[:at]:
        try:
            if isinstance(line, PeerError):
                raise line
            recording.take(line)
        except PeerError as error:
            _report_line(number, error)
            status = _BAD_INPUT
        for fault in recording.faults:
            _report(f"line {number}: ignored {fault.path}: {fault.reason}")
        recording.faults.clear()
    return recording, status


def _lines(file: Iterable[bytes]) -> Iterator[tuple[int, Line | PeerError]]:
    for number, data in enumerate(_raw_lines(file), 1):
        if not data.strip():
            continue
        try:
            for line in read_line(data):
                yield number, line
        except Malformed as error:
            yield number, error


def _raw_lines(file: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from file
    except OSError as error:
        name = getattr(file, "name", "The input")
        raise click.ClickException(f"{name} cannot be read: {error.strerror}.") from None


def _dialect(source: str) -> Dialect | None:
    return None if source == "auto" else cast("Dialect", source)


# ---- printing ----------------------------------------------------------------------------------


def _print(out: IO[bytes], value: Any) -> None:
    line = codec.encode(value)
    out.write((harmless_json(line) if sys.stdout.isatty() else line) + b"\n")


def _report_loss(line: int, path: str, reason: str) -> None:
    _report(codec.encode({"line": line, "path": path, "reason": reason}).decode())


def _report_line(line: int, error: PeerError) -> None:
    _report(f"line {line}: {error}")


def _report(text: str) -> None:
    print(one_line(text), file=sys.stderr)  # it may quote a peer
