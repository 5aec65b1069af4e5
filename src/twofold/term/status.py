"""What goes on, in a few words: the status line below the input, and the title of the window.

Of the status line only what fits is shown, whole facts, the most important of them first: the
state, what is wrong, what waits elsewhere, the mode, tokens and cost, the keys that help, and then
the agent, its model, the directory with its branch, other settings and the title.
"""

import os
from collections.abc import Mapping, Sequence
from enum import IntEnum, auto
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from rich.cells import cell_len

from twofold.client.known_sessions import shortened
from twofold.session import Session
from twofold.term.lines import Parts, Row, cut
from twofold.text import one_line
from twofold.view.blocks import FooterBlock, Setting
from twofold.view.outline import footer

_LONGEST: Final = 1000
_SHORTEST: Final = 12
"""How many columns of a title are worth showing."""
_LONGEST_DIRECTORY: Final = 30
_LONGEST_NAME: Final = 30
"""How many characters of an agent, a model or a branch are shown."""
_LONGEST_TITLE: Final = 60
"""How many characters of a session's title are in the title of the window."""
_BETWEEN: Final = " · "


class Elsewhere(NamedTuple):
    """What goes on in other sessions."""

    words: str = ""
    asked: bool = False
    """A question waits in one of them."""


class State(NamedTuple):
    """What is going on in the client."""

    working: bool = False
    cancelling: bool = False
    asked: bool = False
    """A question waits for an answer."""
    answerable: bool = False
    """A key would answer it now."""
    typed: bool = False
    """There is text in the input line."""
    queued: int = 0
    seconds: int = 0
    """How long the turn has taken."""
    hint: str = ""
    """Shown instead of everything else."""
    warning: str = ""
    """What is wrong in the input line."""
    elsewhere: Elsewhere = Elsewhere()


class Surroundings(NamedTuple):
    """Who works in the session, and where; the texts are short and safe to show."""

    agent: str = ""
    model: Setting | None = None
    directory: str = ""
    branch: str = ""


_UNKNOWN: Final = Surroundings()


class Rank(IntEnum):
    """How important a fact is, the most important first."""

    STATE = auto()
    WARNING = auto()
    ELSEWHERE = auto()
    MODE = auto()
    USAGE = auto()
    KEYS = auto()
    AGENT = auto()
    MODEL = auto()
    PLACE = auto()
    OTHER = auto()
    TITLE = auto()


class _Fact(NamedTuple):
    rank: Rank
    forms: tuple[str, ...]
    """The words, and shorter ones for where they do not fit; empty words show nothing."""
    style: str = "dim"


def status_row(state: State, session: Session, width: int, around: Surroundings = _UNKNOWN) -> Row:
    """The status line: as many facts as fit, the most important ones."""
    if state.hint:
        return cut(((state.hint, "dim"),), width)
    return _row(state, footer(session), width, around)


@lru_cache(maxsize=4)
def _row(state: State, shown: FooterBlock, width: int, around: Surroundings) -> Row:
    """The row of these facts; most frames change none of them."""
    facts = [fact for fact in _facts(state, shown, around) if fact.forms[0]]
    made: Parts = ()
    for at, words in sorted(_fitting(facts, width).items()):
        between: Parts = ((_BETWEEN, "dim"),) if made else ()
        made = (*made, *between, (words, facts[at].style))
    return cut(made, width)


def _fitting(facts: Sequence[_Fact], width: int) -> dict[int, str]:
    """The places of the facts to show, and their words; the first one and a title may be cut."""
    kept: dict[int, str] = {}
    left = width
    for at in sorted(range(len(facts)), key=lambda at: facts[at].rank):
        room = left - len(_BETWEEN) if kept else left
        words = next((each for each in facts[at].forms if cell_len(each) <= room), None)
        if words is None and (not kept or (facts[at].rank == Rank.TITLE and room >= _SHORTEST)):
            words = facts[at].forms[-1]
        if words is None:
            break
        kept[at] = words
        left = room - cell_len(words)
    return kept


def _facts(state: State, shown: FooterBlock, around: Surroundings) -> list[_Fact]:
    """All facts in the order in which they are shown: in a turn the tokens are before the mode."""
    modes = [each for each in shown.settings if each.category == "mode"]
    others = [each for each in shown.settings if each not in (*modes, around.model)]
    mode = [_Fact(Rank.MODE, (f"{each.name}: {each.value}"[:_LONGEST],)) for each in modes]
    usage = [_Fact(Rank.USAGE, (shown.usage or "",))]
    model = shortened(around.model.value, _LONGEST_NAME) if around.model is not None else ""
    return [
        *_head(state),
        _Fact(Rank.ELSEWHERE, (state.elsewhere.words,), "magenta"),
        _Fact(Rank.WARNING, (state.warning,), "yellow"),
        *([*usage, *mode] if state.working else [*mode, *usage]),
        _Fact(Rank.AGENT, (shortened(around.agent, _LONGEST_NAME),)),
        _Fact(Rank.MODEL, (model,)),
        _Fact(Rank.PLACE, _place(around)),
        *[_Fact(Rank.OTHER, (f"{each.name}: {each.value}"[:_LONGEST],)) for each in others],
        _Fact(Rank.TITLE, ("" if state.working else (shown.title or "")[:_LONGEST],)),
    ]


def _head(state: State) -> list[_Fact]:
    """What is going on, and which keys help."""
    if state.cancelling:
        keys = "Ctrl-C again gives up and leaves", "Ctrl-C again leaves"
        return [_Fact(Rank.STATE, ("⊘ cancelling",), "red"), _Fact(Rank.KEYS, keys)]
    if state.asked:
        key = "Ctrl-Y" if state.typed else "Tab"
        asked = "? waiting for you" if state.answerable else f"? press {key} to answer"
        keys = "Ctrl-C cancels the turn", "Ctrl-C cancels"
        shown = [_Fact(Rank.KEYS, keys)] if state.working else []
        return [_Fact(Rank.STATE, (asked,), "bold magenta"), *shown]
    if not state.working:
        return []
    since = f" {duration(state.seconds)}" if state.seconds else ""
    edits = " · ↑ edits what is next" if state.queued and not state.typed else ""
    keys = f"Esc cancels{edits}", "Esc cancels"
    return [_Fact(Rank.STATE, (f"◐ working{since}",), "yellow"), _Fact(Rank.KEYS, keys)]


def _place(around: Surroundings) -> tuple[str, ...]:
    """The directory with its branch: `~/work/weather (main)`, `weather (main)`, `weather`."""
    last = around.directory.rpartition("/")[2] or around.directory
    if not around.branch:
        return around.directory, last
    branch = shortened(around.branch, _LONGEST_NAME)
    return f"{around.directory} ({branch})", f"{last} ({branch})", last


def short_directory(path: Path, home: str) -> str:
    """A directory, short and safe to show: `~/work`, or its last parts if it is long."""
    words = os.fspath(path)
    if os.path.isabs(home) and path.is_relative_to(home):
        below = os.fspath(path.relative_to(home))
        words = "~" if below == "." else f"~/{below}"
    words = one_line(words)
    if len(words) <= _LONGEST_DIRECTORY:
        return words
    parts = words.split("/")
    kept = parts.pop()
    while parts and len(kept) + len(parts[-1]) < _LONGEST_DIRECTORY - 2:
        kept = f"{parts.pop()}/{kept}"
    if len(kept) > _LONGEST_DIRECTORY - 2:
        kept = f"{kept[: _LONGEST_DIRECTORY - 3]}…"
    return f"…/{kept}"


def has_window_title(environment: Mapping[str, str]) -> bool:
    """Whether the terminal has a title to set, as far as the environment shows it."""
    return environment.get("TERM", "") not in ("", "dumb", "linux")


def window_title(state: State, name: str) -> str:
    """The title of the window: a mark for what goes on, and the session, before anything is cut.

    Args:
        state: What is going on.
        name: The title of the session, or its directory; it may be anybody's.
    """
    mark = ""
    if state.asked or state.elsewhere.asked:
        mark = "? "
    elif state.working:
        mark = "◐ "
    words = shortened(name[: 4 * _LONGEST_TITLE], _LONGEST_TITLE)
    return f"{mark}{words} · twofold" if words else f"{mark}twofold"


def duration(seconds: int) -> str:
    """How long something took: `12 s`, `3 min 05 s`, `1 h 02 min`."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
