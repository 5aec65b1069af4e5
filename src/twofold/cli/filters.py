"""The commands, and of them the filters: `fold`, `convert`, `show`.

JSON Lines in, from a file or standard input. A bad line is reported on standard error with its
number and the rest goes on; nobody sees a traceback for a mistake of a peer or a user.
"""

import sys
from collections.abc import Iterator
from typing import IO, Any, cast

import click

from twofold.cli.files import standard_output
from twofold.convert.conversation import Conversation, Out, Target
from twofold.convert.versions import Dialect
from twofold.convert.losses import Losses, NotConvertible
from twofold.errors import PeerError
from twofold.journal.recording import Line, Recording, read_line
from twofold.session import Draft, snapshot
from twofold.text.safe import harmless_json, one_line
from twofold.wire import codec
from twofold.wire.base import Malformed

BAD_INPUT, LOSSES, REFUSED = 2, 3, 4

FILE = click.argument("file", type=click.File("rb"), default="-")
FROM = click.option(
    "--from",
    "source",
    type=click.Choice(["auto", "1", "2", "guide"]),
    default="auto",
    show_default=True,
    help="The version that the input speaks.",
)


@click.command()
@FILE
@FROM
@click.option(
    "--draft",
    type=click.Choice([draft.value for draft in Draft]),
    help="Whose rule for _meta holds; found out by default.",
)
def fold(file: IO[bytes], source: str, draft: str | None) -> None:
    """Print the final state of each session in a recording.

    The output is a snapshot, one update per line. Each line of the input is a JSON-RPC message, its
    params, a bare update, or an object that holds the message in its field "message".
    """
    recording, status = _add_up(file, source, draft)
    with standard_output() as out:
        for session in recording.sessions.values():
            for update in snapshot(session):
                _print(out, {"sessionId": session.session_id, "update": update})
    sys.exit(status)


@click.command()
@FILE
@FROM
def show(file: IO[bytes], source: str) -> None:
    """Print a recording for reading."""
    from rich.console import Console

    from twofold.term.transcript import render_blocks

    recording, status = _add_up(file, source, None)
    blocks = recording.outline()
    if not blocks:
        _say("There is nothing to show: the input holds no session, and nothing failed in it.")
    with standard_output():
        render_blocks(blocks, Console(highlight=False))
    sys.exit(status)


@click.command()
@FILE
@click.option("--to", "target", type=click.Choice(["1", "2"]), required=True)
@FROM
@click.option("--strict", is_flag=True, help="Refuse what would lose something.")
def convert(file: IO[bytes], target: str, source: str, strict: bool) -> None:
    """Convert a recording to the other version.

    Losses are written to standard error, one JSON object per line. Exit status: 0 nothing was lost,
    2 bad input, 3 something was lost, 4 something was refused.
    """
    losses = Losses(strict=strict)
    conversation = Conversation(cast("Target", target), losses, _dialect(source))
    with standard_output() as out:
        status = _convert_all(file, conversation, losses, out)
    sys.exit(status)


def _convert_all(
    file: IO[bytes], conversation: Conversation, losses: Losses, output: IO[bytes]
) -> int:
    """Convert each line of `file`; the exit status."""
    status = 0
    for number, line in _lines(file):
        if isinstance(line, PeerError):
            _complain(number, line)
            status = BAD_INPUT
            continue
        try:
            for out in _convert(conversation, line):
                made = line.wrap(out.message, back=out.back) if isinstance(out, Out) else out
                _print(output, made)
        except NotConvertible as refusal:
            _report(number, refusal.path, refusal.reason)
            status = BAD_INPUT if status == BAD_INPUT else REFUSED
        except PeerError as error:
            _complain(number, error)
            status = BAD_INPUT
        if losses:
            status = status or LOSSES
        for loss in losses:
            _report(number, loss.path, loss.reason)
        losses.clear()
    return status


def _convert(conversation: Conversation, line: Line) -> list[Out] | list[dict[str, Any] | None]:
    if line.message is None:
        return [line.record]
    return conversation.message(line.message, line.sender)


def _add_up(file: IO[bytes], source: str, draft: str | None) -> tuple[Recording, int]:
    """All lines of `file`, added up; the exit status says whether all were understood."""
    recording = Recording(_dialect(source), Draft(draft) if draft else None)
    lines = list(_lines(file))
    for _, line in lines:
        if isinstance(line, Line):
            recording.look(line)
    status = 0
    for number, line in lines:
        try:
            if isinstance(line, PeerError):
                raise line
            recording.take(line)
        except PeerError as error:
            _complain(number, error)
            status = BAD_INPUT
        for fault in recording.faults:
            _say(f"line {number}: passed over {fault.path}: {fault.reason}")
        recording.faults.clear()
    return recording, status


def _lines(file: IO[bytes]) -> Iterator[tuple[int, Line | PeerError]]:
    for number, data in enumerate(_readable(file), 1):
        if not data.strip():
            continue
        try:
            for line in read_line(data):
                yield number, line
        except Malformed as error:
            yield number, error


def _readable(file: IO[bytes]) -> Iterator[bytes]:
    try:
        yield from file
    except OSError as error:
        raise click.ClickException(f"{file.name} cannot be read: {error.strerror}.") from None


def _dialect(source: str) -> Dialect | None:
    return None if source == "auto" else cast("Dialect", source)


def _print(out: IO[bytes], value: Any) -> None:
    line = codec.encode(value)
    out.write((harmless_json(line) if sys.stdout.isatty() else line) + b"\n")


def _report(line: int, path: str, reason: str) -> None:
    _say(codec.encode({"line": line, "path": path, "reason": reason}).decode())


def _complain(line: int, error: PeerError) -> None:
    _say(f"line {line}: {error}")


def _say(text: str) -> None:
    print(one_line(text), file=sys.stderr)  # it may quote a peer
