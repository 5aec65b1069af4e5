"""The messages of a recording as lines of a screen: one line each, or with all that belongs to one.

Draws what `journal.inspection` and `journal.comparison` found. All text of peers is made safe here.
"""

import json
from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice
from typing import Any, Final

from twofold.journal.comparison import Difference
from twofold.journal.inspection import Detail, Inspected
from twofold.term.lines import AnyStyle, Parts, Row, cells, cut
from twofold.text.safe import harmless_json, one_line, sanitize
from twofold.wire import codec

_ARROWS: Final = {"client": ("→", "cyan"), "agent": ("←", "green"), None: ("·", "dim")}
_SIGNS: Final[dict[str, tuple[str, str]]] = {
    "result": ("✓", "green"),
    "error": ("✗", "red"),
    "request": ("?", "yellow"),
}
_NAME: Final = 27
_LABEL: Final = 60
_SHORT_SESSION: Final = 8
_WIDE, _MIDDLE, _NARROW = 110, 84, 60
"""From so many columns on all facts are shown, all but the session, all but the size and the id."""


def message_row(message: Inspected, width: int | None) -> Row:
    """One message on one line.

    Args:
        message: What there is to know of it.
        width: How many columns there are; None for as many as it takes.
    """
    room = _WIDE if width is None else width
    arrow, style = _ARROWS[message.sender]
    parts: list[tuple[str, AnyStyle]] = [
        (f"{message.number:>5} ", "dim"),
        (f"{_seconds(message.elapsed):>9} ", "dim"),
        (f"{arrow} ", style),
        *_named(message, room),
    ]
    if room >= _MIDDLE:
        identity = "" if message.id is None else one_line(str(message.id))
        parts.append((f" {_fitted(identity, 5, right=True)}", "dim"))
        parts.append((f" {_size(message.size):>8}", "dim"))
    if room >= _NARROW:
        parts.append((f" {_duration(message.latency):>8}", "yellow" if _is_slow(message) else ""))
    if room >= _WIDE:
        session = one_line(message.session or "")[:_SHORT_SESSION]
        parts.append((f"  {session:<{_SHORT_SESSION}}", "blue"))
    parts.append(("  ", ""))
    parts += _marks(message)
    parts.append((one_line(message.summary), ""))
    row = _stripped(tuple(parts))
    return row if width is None else cut(row, width)


def _named(message: Inspected, room: int) -> Parts:
    """The name of a message, and what kind of message it is."""
    sign, style = _SIGNS.get(message.kind, (" ", ""))
    name = message.update or message.name or message.kind
    width = _NAME if room >= _MIDDLE else max(12, min(_NAME, room - 34))
    bold = "bold" if message.kind == "request" and message.sender == "client" else ""
    if message.kind in ("note", "noise", "unreadable"):
        bold = "dim"
    return ((f"{sign} ", style), (_fitted(one_line(name), width), bold))


def _marks(message: Inspected) -> Parts:
    """What is wrong with a message, and what would be lost of it."""
    found = [
        ("fault", "red", [f"{each.path}: {each.reason}" for each in message.faults]),
        ("unknown", "yellow", message.unknown),
        ("refused", "red", [message.refused] if message.refused else []),
        ("lost", "magenta", [each.path for each in message.losses]),
    ]
    made: list[tuple[str, AnyStyle]] = []
    for word, style, items in found:
        if items:
            more = f" +{len(items) - 1}" if len(items) > 1 else ""
            made += [(f"[{word}: {one_line(items[0]).lstrip(':. ')}{more}]", style), (" ", "")]
    return tuple(made)


def message_text(message: Inspected) -> bytes:
    """One message as a line of JSON for programs."""
    value = {
        name: getattr(message, name)
        for name in message.__struct_fields__
        if getattr(message, name) not in (None, "", [])
    }
    return codec.encode(value) + b"\n"


def detail_rows(detail: Detail, width: int | None) -> Iterator[Row]:
    """One message with all that belongs to it.

    Args:
        detail: What there is to show.
        width: How many columns there are; None for as many as it takes.
    """
    yield message_row(detail.message, width)
    message = detail.message
    facts = [f"line {message.line}", f"version {detail.version}", f"{message.size:,} bytes"]
    if message.session:
        facts.append(f"session {one_line(message.session)}")
    if message.answers is not None:
        facts.append(f"answers message {message.answers}")
    yield (("  " + ", ".join(facts), "dim"),)
    for fault in message.faults:
        yield (("  fault: ", "red"), (one_line(f"{fault.path}: {fault.reason}".lstrip(": ")), ""))
    for path in message.unknown:
        yield (("  unknown: ", "yellow"), (one_line(path), ""))
    yield from _document("as recorded", detail.raw)
    other = "version 1" if detail.version == "2" else "version 2"
    if message.refused:
        yield (("  not converted: ", "red"), (one_line(message.refused), ""))
    for number, each in enumerate(detail.converted, 1):
        count = f" ({number} of {len(detail.converted)})" if len(detail.converted) > 1 else ""
        yield from _document(f"in {other}{count}", codec.encode(each))
    if not detail.converted and not message.refused and message.kind in ("notification", "result"):
        yield ((f"  in {other}: no message", "dim"),)
    for loss in message.losses:
        yield (("  lost: ", "magenta"), (one_line(f"{loss.path}: {loss.reason}"), ""))
    if detail.state:
        state = ", ".join(f"{name} {one_line(str(each))}" for name, each in detail.state.items())
        yield (("  after it: ", "bold"), (state, ""))


def _document(title: str, raw: bytes) -> Iterator[Row]:
    """JSON, indented; what is none as it is."""
    yield ((f"  {title}", "bold"),)
    safe = harmless_json(raw)
    try:
        text = json.dumps(json.loads(safe), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = safe.decode(errors="replace")
    # an escape is a character again when it was read
    for line in sanitize(text).expandtabs().split("\n"):
        yield ((f"    {line}", ""),)


def difference_rows(difference: Difference, width: int | None) -> Iterator[Row]:
    """One difference of two sessions."""
    label = one_line(difference.label)
    label = label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"
    head = f"{difference.name} {label}".strip()
    if difference.kind != "changed":
        sign, style = ("-", "red") if difference.kind == "only_first" else ("+", "green")
        yield _limited((((f"{sign} {head}"), style),), width)
        return
    yield _limited(((f"~ {head}: {difference.field}", "yellow"),), width)
    lines = unified_diff(_lines(difference.first), _lines(difference.second), n=1, lineterm="")
    for line in islice(lines, 2, None):  # after the names of the files
        style = {"-": "red", "+": "green"}.get(line[:1], "dim")
        if not line.startswith("@@"):
            yield _limited(((f"    {line[:1]} {line[1:]}", style),), width)


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    text = value if isinstance(value, str) else codec.encode(value).decode(errors="replace")
    return [one_line(line) for line in text.split("\n")]


def _limited(row: Row, width: int | None) -> Row:
    return row if width is None else cut(row, width)


# ---- numbers and columns ------------------------------------------------------------------------


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _size(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1000:.1f} kB"
    return f"{size / 1_000_000:.1f} MB"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"


def _is_slow(message: Inspected) -> bool:
    return message.latency is not None and message.latency >= 1 and message.sender == "agent"


def _fitted(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly so many columns."""
    row = cut(((text, ""),), width)
    shown = "".join([part for part, _ in row])
    blanks = " " * (width - cells(row))
    return blanks + shown if right else shown + blanks


def _stripped(row: Row) -> Row:
    """The row without blanks at its end."""
    made = list(row)
    while made and not made[-1][0].strip():
        made.pop()
    if made:
        made[-1] = (made[-1][0].rstrip(), made[-1][1])
    return tuple(made)
