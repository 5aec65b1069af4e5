"""`twofold show --wire` prints the messages of a recording, `--diff` what two of them add up to."""

from collections.abc import Callable, Iterable, Iterator
from typing import IO, Final, NamedTuple

import click

from twofold.convert.versions import Dialect
from twofold.errors import PeerError
from twofold.journal.comparison import Difference, compare
from twofold.journal.inspection import (
    BadFilter,
    Inspected,
    Inspector,
    Selection,
    parse_filter,
    state_of,
)
from twofold.journal.recording import Recording, read_line
from twofold.session import Session
from twofold.term.lines import Row
from twofold.term.wire_lines import detail_rows, difference_rows, message_row, message_text
from twofold.text.safe import harmless_json, one_line
from twofold.wire import codec

BAD_INPUT: Final = 2
DIFFERENT: Final = 1
"""Exit statuses."""


class Asked(NamedTuple):
    """What is to be printed."""

    dialect: Dialect | None
    verbose: bool
    message: int | None
    filters: tuple[str, ...]
    sessions: tuple[str, ...]


class Drawing(NamedTuple):
    """How rows are printed for people."""

    print_rows: Callable[[Iterable[Row]], None]
    width: int | None


class Printing(NamedTuple):
    """Where it is printed."""

    out: IO[bytes]
    drawing: Drawing | None
    """None for JSON Lines."""
    report: Callable[[str], None]

    def json(self, line: bytes) -> None:
        """Print a line of JSON; at a terminal nothing in it does more than show."""
        self.out.write(harmless_json(line.rstrip()) + b"\n" if self.out.isatty() else line)


def print_messages(lines: Iterable[bytes], asked: Asked, printing: Printing) -> int:
    """Print the messages of a recording, and return the exit status.

    Args:
        lines: The lines of the recording.
        asked: What is to be printed.
        printing: Where and how.

    Raises:
        click.UsageError: A filter cannot be understood, or there is no such message.
    """
    try:
        selection = Selection([parse_filter(each) for each in asked.filters])
    except BadFilter as error:
        raise click.BadParameter(str(error), param_hint="'--filter'") from None
    whole = asked.verbose or asked.message is not None
    inspector = Inspector(asked.dialect, keeps_state=whole)
    status = 0
    found = False

    def chosen() -> Iterator[Inspected]:
        nonlocal status, found
        for message in inspector.read_all(lines):
            if message.kind == "unreadable":
                status = BAD_INPUT
            if asked.message is not None and message.number != asked.message:
                continue
            if asked.message is not None or selection.holds(message, inspector.raw):
                found = True
                yield message
            if asked.message is not None:
                return

    if printing.drawing is None:
        for message in chosen():
            _print_json(message, inspector, printing, whole=whole)
    else:
        printing.drawing.print_rows(_rows(chosen(), inspector, printing.drawing.width, whole=whole))
    if asked.message is not None and not found:
        raise click.UsageError(f"there is no message {asked.message}.")
    if not found and asked.filters:
        printing.report("No message passes the filters.")
    return status


def _rows(
    messages: Iterable[Inspected], inspector: Inspector, width: int | None, *, whole: bool
) -> Iterator[Row]:
    for place, message in enumerate(messages):
        if not whole:
            yield message_row(message, width)
            continue
        if place:
            yield ()
        yield from detail_rows(inspector.detail(message), width)


def _print_json(
    message: Inspected, inspector: Inspector, printing: Printing, *, whole: bool
) -> None:
    if not whole:
        printing.json(message_text(message))
        return
    detail = inspector.detail(message)
    value = {
        "message": codec.parse(message_text(message)),
        "raw": detail.raw.decode(errors="replace"),
        "version": detail.version,
        "converted": detail.converted,
        "state": detail.state,
    }
    printing.json(codec.encode(value) + b"\n")


# ---- differences ---------------------------------------------------------------------------------


def print_differences(
    lines: Iterable[bytes], other: IO[bytes], asked: Asked, printing: Printing
) -> int:
    """Print what two recordings add up to otherwise, and return the exit status.

    Args:
        lines: The lines of the first recording.
        other: The second recording.
        asked: Which sessions are compared, and the version.
        printing: Where and how.

    Raises:
        click.UsageError: There is no such session.
    """
    if len(asked.sessions) > 2:
        raise click.UsageError("--session can be given at most twice.")
    first, bad = _folded(lines, asked.dialect, printing.report)
    second, other_bad = _folded(other, asked.dialect, printing.report)
    differences = 0
    for one, two in _pairs(first, second, asked.sessions, printing.report):
        found = compare(one, two)
        differences += len(found)
        if printing.drawing is None:
            for each in found:
                printing.json(_as_json(each, one.session_id))
        else:
            printing.drawing.print_rows(_difference_rows(one, two, found, printing.drawing.width))
    if bad or other_bad:
        return BAD_INPUT
    is_alone = not asked.sessions and len(first) != len(second)
    return DIFFERENT if differences or is_alone else 0


def _folded(
    lines: Iterable[bytes], dialect: Dialect | None, report: Callable[[str], None]
) -> tuple[dict[str, Session], bool]:
    recording, read = Recording(dialect), []
    bad = False
    for number, data in enumerate(lines, 1):
        if not data.strip():
            continue
        try:
            read += [(number, line) for line in read_line(data)]
        except PeerError as error:
            report(f"line {number}: {error}")
            bad = True
    for _, line in read:
        recording.look(line)
    for number, line in read:
        try:
            recording.take(line)
        except PeerError as error:
            report(f"line {number}: {error}")
            bad = True
    return dict(recording.sessions), bad


def _pairs(
    first: dict[str, Session],
    second: dict[str, Session],
    wanted: tuple[str, ...],
    report: Callable[[str], None],
) -> Iterator[tuple[Session, Session]]:
    """The sessions to compare: those that were asked for, of the same id, or in their order."""
    if wanted:
        one, two = wanted[0], wanted[-1]
        for identity, sessions, name in ((one, first, "recording"), (two, second, "other one")):
            if identity not in sessions:
                raise click.UsageError(f"the {name} has no session {identity!r}.")
        yield first[one], second[two]
        return
    same = [identity for identity in first if identity in second]
    yield from [(first[identity], second[identity]) for identity in same]
    left = [session for identity, session in first.items() if identity not in second]
    other = [session for identity, session in second.items() if identity not in first]
    yield from zip(left, other, strict=False)
    for session in left[len(other) :]:
        report(f"Only in the first recording: session {session.session_id}")
    for session in other[len(left) :]:
        report(f"Only in the second recording: session {session.session_id}")


def _difference_rows(
    one: Session, two: Session, found: list[Difference], width: int | None
) -> Iterator[Row]:
    names = dict.fromkeys(one_line(each.session_id) or "without an id" for each in (one, two))
    counts = [state_of(each).get("entries", 0) for each in (one, two)]
    head = f"session {' and '.join(names)}: {counts[0]} and {counts[1]} entries"
    count = {0: "no difference", 1: "1 difference"}.get(len(found), f"{len(found)} differences")
    yield ((f"{head}, {count}", "bold"),)
    for each in found:
        yield from difference_rows(each, width)


def _as_json(difference: Difference, session: str) -> bytes:
    return codec.encode({"session": session, **codec.to_json(difference)}) + b"\n"
