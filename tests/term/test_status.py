"""The status line: what is going on first, then the facts about the session; and the title."""

from pathlib import Path

import pytest

from tests.support.settings import EVIL, MODES, SET, WEB
from twofold.session import Session
from twofold.term.lines import cells, plain
from twofold.term.status import (
    Elsewhere,
    State,
    Surroundings,
    duration,
    has_window_title,
    short_directory,
    status_row,
    window_title,
)
from twofold.view.blocks import Setting
from twofold.wire import v2
from twofold.wire.shared import Cost, SessionInfoUpdate, UsageUpdate

FACTS = "Mode: Ask first · The Model: Big One · Web: off"
SHOWN = [
    (State(), FACTS),
    (State(hint="Ctrl-C once more"), "Ctrl-C once more"),
    (State(warning="@a is no file here"), f"@a is no file here · {FACTS}"),
    (State(elsewhere=Elsewhere("2 works")), f"2 works · {FACTS}"),
    (State(working=True), f"◐ working · Esc cancels · {FACTS}"),
    (State(working=True, seconds=65), f"◐ working 1 min 05 s · Esc cancels · {FACTS}"),
    (State(working=True, queued=1), f"◐ working · Esc cancels · ↑ edits what is next · {FACTS}"),
    (State(working=True, queued=1, typed=True), f"◐ working · Esc cancels · {FACTS}"),
    (
        State(working=True, asked=True),
        f"? press Tab to answer · Ctrl-C cancels the turn · {FACTS}",
    ),
    (
        State(working=True, asked=True, typed=True),
        f"? press Ctrl-Y to answer · Ctrl-C cancels the turn · {FACTS}",
    ),
    (State(asked=True, answerable=True), f"? waiting for you · {FACTS}"),
    (
        State(working=True, cancelling=True, asked=True),
        f"⊘ cancelling · Ctrl-C again gives up and leaves · {FACTS}",
    ),
]


@pytest.mark.parametrize(("state", "shown"), SHOWN)
def test_the_status_says_what_goes_on_and_which_key_helps(state: State, shown: str) -> None:
    assert plain(status_row(state, SET, 200)) == shown


# ---- what fits ---------------------------------------------------------------------------------

OPUS = Setting("Model", "Opus", "model")
AROUND = Surroundings("claude", OPUS, "~/work/weather", "fix/negative-zero")
IDLE = State()
WORKS = State(working=True, seconds=65)
ASKED = State(working=True, asked=True, typed=True)
USAGE = "53k of 200k tokens, $0.05"
RUNS = f"◐ working 1 min 05 s · Esc cancels · {USAGE} · Mode: Ask first"
WHOLE = "claude · Opus · ~/work/weather (fix/negative-zero) · Web: off"
WIDTHS = [
    (IDLE, 10, "Mode: Ask…"),
    (IDLE, 20, "Mode: Ask first"),
    (IDLE, 60, f"Mode: Ask first · {USAGE} · claude · Opus"),
    (IDLE, 70, f"Mode: Ask first · {USAGE} · claude · Opus · weather"),
    (IDLE, 79, f"Mode: Ask first · {USAGE} · claude · Opus · weather"),
    (IDLE, 119, f"Mode: Ask first · {USAGE} · {WHOLE}"),
    (IDLE, 159, f"Mode: Ask first · {USAGE} · {WHOLE} · Minus zero"),
    (WORKS, 20, "◐ working 1 min 05 s"),
    (WORKS, 40, "◐ working 1 min 05 s · Mode: Ask first"),
    (WORKS, 70, f"◐ working 1 min 05 s · {USAGE} · Mode: Ask first"),
    (WORKS, 80, RUNS),
    (WORKS, 119, f"{RUNS} · claude · Opus · weather · Web: off"),
    (WORKS, 159, f"{RUNS} · {WHOLE}"),
    (ASKED, 79, f"? press Ctrl-Y to answer · {USAGE} · Mode: Ask first"),
    (ASKED, 90, f"? press Ctrl-Y to answer · Ctrl-C cancels · {USAGE} · Mode: Ask first"),
]


def busy(title: str = "Minus zero") -> Session:
    made = Session("s", usage=UsageUpdate(53_000, 200_000, Cost(0.05, "USD")))
    made.apply(v2.ConfigOptionUpdate([MODES, WEB]))
    made.apply(SessionInfoUpdate(title=title))
    return made


@pytest.mark.parametrize(("state", "width", "shown"), WIDTHS)
def test_whole_facts_are_left_out_where_there_is_no_room(
    state: State, width: int, shown: str
) -> None:
    assert plain(status_row(state, busy(), width, AROUND)) == shown


@pytest.mark.parametrize("state", [IDLE, WORKS, State(asked=True), ASKED])
def test_eighty_columns_show_the_state_the_mode_and_the_tokens(state: State) -> None:
    shown = plain(status_row(state, busy(), 79, AROUND))
    begins = plain(status_row(state, Session("s"), 79)).partition(" · ")[0]
    assert shown.startswith(begins)
    assert "Mode: Ask first" in shown
    assert USAGE in shown


def test_what_needs_an_answer_elsewhere_and_what_is_wrong_go_before_every_fact() -> None:
    elsewhere = Elsewhere("2 waits for you (Alt-2)", asked=True)
    state = State(working=True, warning="@a is no file here", elsewhere=elsewhere)
    shown = plain(status_row(state, busy(), 60, AROUND))
    assert shown == "◐ working · 2 waits for you (Alt-2) · @a is no file here"


def test_a_long_title_is_cut_where_some_of_it_fits() -> None:
    made = Session("s")
    made.apply(SessionInfoUpdate(title="What to do about the minus sign"))
    assert plain(status_row(IDLE, made, 30, Surroundings("claude"))) == (
        "claude · What to do about the…"
    )
    assert plain(status_row(IDLE, made, 20, Surroundings("claude"))) == "claude"


def test_a_model_among_the_settings_is_shown_once() -> None:
    around = Surroundings("claude", Setting("The Model", "Big One", None))
    shown = plain(status_row(IDLE, SET, 99, around))
    assert shown == "Mode: Ask first · claude · Big One · Web: off"


@pytest.mark.parametrize("columns", [1, 2, 5, 12, 30])
@pytest.mark.parametrize("state", [State(), State(working=True)])
def test_the_status_takes_one_row_however_narrow_the_terminal(columns: int, state: State) -> None:
    assert cells(status_row(state, SET, columns, AROUND)) <= columns


def test_a_status_without_end_is_cut() -> None:
    made = Session("s")
    made.apply(SessionInfoUpdate(title=EVIL))
    assert len(plain(status_row(State(), made, 5000))) <= 1000


def test_the_mode_comes_first_then_the_tokens_and_the_title_last() -> None:
    made = Session("s", usage=UsageUpdate(812, 0))
    made.apply(v2.ConfigOptionUpdate([WEB, MODES]))
    made.apply(SessionInfoUpdate(title="Fix it"))
    assert (
        plain(status_row(State(), made, 99)) == "Mode: Ask first · 812 tokens · Web: off · Fix it"
    )
    assert plain(status_row(State(), Session("s"), 99)) == ""


def test_words_of_the_agent_reach_the_status_only_when_safe() -> None:
    made = Session("s")
    made.apply(SessionInfoUpdate(title="\x1b]0;owned\x07a\r\nb\x9b2J"))
    around = Surroundings("\x1b]0;x\x07claude\n", None, "~", "\x1b[2Jmain")
    assert plain(status_row(State(), made, 99, around)) == "claude · ~ (main) · a b"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0 s"), (59, "59 s"), (60, "1 min 00 s"), (3725, "1 h 02 min")]
)
def test_a_duration_has_the_unit_that_fits(seconds: int, shown: str) -> None:
    assert duration(seconds) == shown


# ---- the directory -----------------------------------------------------------------------------

HOME = "/home/ada"
DIRECTORIES = {
    "/": "/",
    "/home/ada": "~",
    "/home/ada/work": "~/work",
    "/home/adam/work": "/home/adam/work",
    "/home/ada/a/very/long/way/down/to/the/sources": "…/long/way/down/to/the/sources",
    f"/srv/{'x' * 50}": f"…/{'x' * 27}…",
    "/srv/a\x1b[2Jb\nc": "/srv/ab c",
}


@pytest.mark.parametrize(("path", "shown"), DIRECTORIES.items())
def test_a_directory_is_short_and_safe(path: str, shown: str) -> None:
    assert short_directory(Path(path), HOME) == shown
    assert len(shown) <= 30


def test_without_a_home_a_directory_is_absolute() -> None:
    assert short_directory(Path("/home/ada/work"), "~") == "/home/ada/work"


# ---- the title of the window -------------------------------------------------------------------

TITLES = [
    (State(), "Minus zero", "Minus zero · twofold"),
    (State(), "", "twofold"),
    (State(working=True, seconds=9), "Minus zero", "◐ Minus zero · twofold"),
    (State(working=True, asked=True), "Minus zero", "? Minus zero · twofold"),
    (State(elsewhere=Elsewhere("2 waits", asked=True)), "Minus zero", "? Minus zero · twofold"),
    (State(working=True, elsewhere=Elsewhere("2 works")), "a", "◐ a · twofold"),
    (State(), "\x1b]2;owned\x07a\x1b\\;b\x9c\n", "a\u241b\\;b\ufffd · twofold"),
    (State(), "x" * 100_000, f"{'x' * 59}… · twofold"),
]


@pytest.mark.parametrize(("state", "name", "title"), TITLES)
def test_the_title_of_the_window_is_the_session_with_a_mark(
    state: State, name: str, title: str
) -> None:
    assert window_title(state, name) == title


@pytest.mark.parametrize(
    ("term", "has"), [("xterm-256color", True), ("dumb", False), ("linux", False), ("", False)]
)
def test_a_terminal_without_a_window_gets_no_title(term: str, has: bool) -> None:
    assert has_window_title({"TERM": term}) is has
