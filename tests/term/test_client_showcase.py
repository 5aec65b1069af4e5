"""The showcase of the demo agent in a real terminal: all that a person sees of it, to the letter.

The terminal is wide enough for every path. Where the two versions of the protocol tell different
things, both are here.
"""

import pytest

from tests.support.client_stage import (
    VERSIONS,
    Version,
    answer,
    begin,
    client,
    command,
    ends_well,
    leave,
    screen_text,
    send_prompt,
    turns,
    wait_prompt,
    wait_question,
    wait_sending,
    wait_status,
)
from tests.support.terminal_screen import Look, Row, Run, plain
from tests.support.terminal_stage import Stage, TmuxStage
from twofold.version import VERSION

COLUMNS = 120

# ---- what is told ----------------------------------------------------------------------------

GREETING = f"""\
Twofold {VERSION} · Twofold demo agent {VERSION} · version @ of the protocol · {{cwd}}
/help lists the commands and keys, Ctrl-D leaves.

"""
NOTICE = """\
! info: This is a demonstration
  No file is touched, and nothing is run.

"""
THOUGHT = """\
  Formatting a small negative number with `.0f` keeps its sign, so -0.4 becomes “-0”. I should see how the report
  formats it, and where else temperatures are printed.

"""  # noqa: E501
CHANGED = '''\
✓ ≡ Read report.py  (read, completed)
  src/weather/report.py:6
  """The weather in words."""

  from weather.reading import Reading


  def temperature(celsius: float) -> str:
      return f"{celsius:.0f} °C"


  def line(reading: Reading) -> str:
      return f"{reading.place}: {temperature(reading.celsius)}, {reading.sky}"

✓ ⌕ Search for “°C”  (search, completed)
  src/weather/report.py:7
  src/weather/report.py:7:    return f"{celsius:.0f} °C"
  tests/: no match

Only temperature() formats it, so that is the one place to change.

✓ ✎ Edit report.py  (edit, completed)
  src/weather/report.py
  @@ -4,7 +4,8 @@


   def temperature(celsius: float) -> str:
  -    return f"{celsius:.0f} °C"
  +    # round() gives an int, and an int has no negative zero
  +    return f"{round(celsius)} °C"


   def line(reading: Reading) -> str:

✓ ✎ Write test_report.py  (edit, completed)
  tests/test_report.py (new file)
  @@ -0,0 +1,11 @@
  +import pytest
  +
  +from weather.report import temperature
  +
  +
  +@pytest.mark.parametrize(
  +    ("celsius", "shown"),
  +    [(-0.4, "0 °C"), (-0.6, "-1 °C"), (0.0, "0 °C"), (21.7, "22 °C")],
  +)
  +def test_a_temperature_is_shown_in_whole_degrees(celsius, shown):
  +    assert temperature(celsius) == shown

'''
RAN = {
    # version 1 has no terminals of the agent: it tells in text what they showed
    1: """\
✓ $ Run the tests and look at Oslo  (execute, completed)
  $ python -m pytest -q && python -m weather oslo
  ....                                       [100%]
  4 passed in 0.03s
  Oslo: 0 °C, light snow ❄
  [exit 0]
""",
    2: """\
✓ $ Run the tests and look at Oslo  (execute, completed)
  $ python -m pytest -q && python -m weather oslo
    ....                                       [100%]
    4 passed in 0.03s
    Oslo: 0 °C, light snow ❄
""",
}
NOT_RUN = """\
✗ $ Run the tests and look at Oslo  (execute, rejected)
  It was not run, for it was not allowed.
"""
FIXED = """
Fixed: Oslo is just below freezing, and the report says “0 °C”.

round() returns an int, so there is no sign left to print; four tests hold that. Here is the day ahead, on both sides
of zero:
[image image/png, 128 bytes]
"""  # noqa: E501
UNSEEN = """
The report is changed and a test is written, but I ran nothing, as you wished. You can do it yourself:

sh
  python -m pytest -q && python -m weather oslo
"""  # noqa: E501
END = """\
[link The weather in words, file://{cwd}/src/weather/report.py, 316 bytes]

Plan
  ✓ Find where the temperature is formatted
  ✓ Round it without a negative zero
  ✓ Add a test
"""
LAST_STEP = "✓ Run the tests"
CANCELLED_STEP = {1: "○ Run the tests", 2: "✗ Run the tests"}  # version 1 has no such status


def changed(version: Version) -> str:
    # the diff of version 1 is two texts, which say nothing of the lines before them
    return CHANGED if version == 2 else CHANGED.replace("@@ -4,7 +4,8 @@", "@@ -1,7 +1,8 @@")


def ran(version: Version, note: str = "", thought: str = THOUGHT) -> str:
    """What stands below the prompt of a turn in which the command was run."""
    call = RAN[version] + (f"  {note}\n" if note else "")
    return f"{NOTICE}{thought}{changed(version)}{call}{FIXED}{END}  {LAST_STEP}"


def not_run(version: Version, note: str) -> str:
    """The same of one in which it was not."""
    step = CANCELLED_STEP[version]
    return f"{NOTICE}{THOUGHT}{changed(version)}{NOT_RUN}  {note}\n{UNSEEN}{END}  {step}"


ASKED = {
    1: """\
Plan
  ✓ Find where the temperature is formatted
  ✓ Round it without a negative zero
  ✓ Add a test
  ◐ Run the tests

? Run the tests and look at Oslo  (execute)
  $ python -m pytest -q && python -m weather oslo
  │ It runs the tests and fetches the forecast for Oslo.
  │ tool: shell
""",
    2: """\
Plan
  ✓ Find where the temperature is formatted
  ✓ Round it without a negative zero
  ✓ Add a test
  ◐ Run the tests

? Run this command?  (execute)
  │ It runs the tests and fetches the forecast for Oslo.
  $ python -m pytest -q && python -m weather oslo
  │ tool call: Run the tests and look at Oslo
  │ tool: shell
""",
}
KEYS = """\
  y Run it (allow once)   a Run it, and do not ask again (allow always)   n Do not run it (reject once)
  r reject with a reason   Esc reject

>
? waiting for you · Ctrl-C cancels the turn · 18k of 200k tokens, $0.02 · Mode: Ask · Twofold demo agent · ~"""  # noqa: E501
WHO = "Twofold demo agent · ~"
STATUS = f"Mode: Ask · 53k of 200k tokens, $0.05 · {WHO} · Thoughts: Aloud · No more negative zero"


def first_turn(version: Version) -> str:
    """All that stands in the terminal after the first turn, in which the command was allowed."""
    turn = ran(version, "allowed by you")
    return f"{GREETING.replace('@', f'{version}')}> showcase\n\n{turn}"


RED, GREEN, CYAN, GREY = "ff8787", "87d787", "5fd7d7", "a8a8a8"
"""The colours of the dark theme, of 256."""

# ---- in a terminal ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_showcase_is_told_to_the_letter_and_every_answer_counts(version: Version) -> None:
    with client(version, version_option_of="agent", columns=COLUMNS, rows=50) as stage:
        wait_prompt(stage)
        after = begin(stage, "showcase")
        wait_question(stage)
        assert screen_text(stage).endswith(changed(version) + ASKED[version] + KEYS)
        assert looks(stage, "y Run it")[:3] == (
            Run("  ", Look()),
            Run("y", Look(GREEN, bold=True, reverse=True)),
            Run(" Run it (allow once)", Look(GREEN)),
        )
        stage.press("y")
        wait_prompt(stage, after)
        wait_status(stage, STATUS)
        wait_sending(stage)
        assert screen_text(stage) == f"{first_turn(version)}\n\n>\n{STATUS}"
        for key in ("n", "esc", "a"):
            answer(stage, "showcase", key)
        send_prompt(stage, "showcase")  # the agent does not ask again
        leave(stage)
        assert turns(stage) == [
            ("showcase", ran(version, "allowed by you")),
            ("showcase", not_run(version, "rejected by you")),
            ("showcase", not_run(version, "rejected by you")),
            ("showcase", ran(version, "allowed for good by you")),
            ("showcase", ran(version)),
        ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_settings_of_the_session_change_the_showcase_and_stand_in_the_status(
    version: Version,
) -> None:
    with client(version, columns=COLUMNS) as stage:
        wait_prompt(stage)
        wait_status(stage, f"Mode: Ask · {WHO} · Thoughts: Aloud")
        for command in ("/mode code", "/config thoughts quiet", "showcase", "/plan", "/usage"):
            send_prompt(stage, command)
        tokens = "53k of 200k tokens, $0.05"
        wait_status(
            stage, f"Mode: Code · {tokens} · {WHO} · Thoughts: Quiet · No more negative zero"
        )
        leave(stage)
        assert turns(stage) == [
            (
                "/mode code",
                "    ask   Asks before it runs a command\n  * code  Runs commands without asking",
            ),
            (
                "/config thoughts quiet",
                "Thoughts (thoughts)\n    aloud  Says what it thinks\n  * quiet  Thinks in silence",
            ),
            ("showcase", ran(version, thought="")),
            ("/plan", END.partition("\n\n")[2] + f"  {LAST_STEP}"),
            (
                "/usage",
                "53k of 200k tokens, $0.05\n26% of the context is used, 147k tokens are left",
            ),
        ]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_for_good_is_given_again_without_asking(version: Version) -> None:
    with client(version) as stage:
        wait_prompt(stage)
        answer(stage, "/permission", "d")
        send_prompt(stage, "/permission")
        leave(stage)
        call = "✗ $ Run make  (execute, rejected)"
        assert turns(stage) == [
            ("/permission", f"{call}\n  rejected for good by you\n\noutcome: r2"),
            ("/permission", f"{call}\n  rejected as answered before\n\noutcome: r1"),
        ]


def test_in_tmux_the_showcase_is_the_same() -> None:
    with TmuxStage(command(2), columns=COLUMNS, rows=24) as stage:
        wait_prompt(stage)
        begin(stage, "showcase")
        wait_question(stage)
        assert screen_text(stage).endswith(ASKED[2] + KEYS)
        stage.press("y")
        wait_status(stage, STATUS)
        stage.press("ctrl-d")
        ends_well(stage, 0)
        assert screen_text(stage) == first_turn(2)


# ---- how it looks ----------------------------------------------------------------------------


def looks(stage: Stage, text: str) -> Row:
    """The first row with this text, in pieces that know their look."""
    return next(row for row in stage.styles() if text in plain(row))


def test_what_is_shown_has_its_colours_and_the_output_of_the_agents_terminal_too() -> None:
    with client(2, columns=COLUMNS) as stage:
        wait_prompt(stage)
        answer(stage, "showcase", "y")
        for row in LOOKS:
            assert looks(stage, plain(row).strip()) == row
        minus, plus = looks(stage, "-    return f"), looks(stage, "+    return f")
        assert minus[1] == Run("-", Look(RED, bold=True))
        assert plus[1] == Run("+", Look(GREEN, bold=True))
        # of a line that was changed, the words that differ stand out
        assert [run.text for run in minus if run.look.reverse] == [":.0f"]
        assert [run.text for run in plus if run.look.reverse] == ["round(", ")"]
        leave(stage)
        assert screen_text(stage) == first_turn(2)  # in a terminal of 24 rows, too


PLAIN, BOLD, DIM, DONE = Look(), Look(bold=True), Look(GREY), Look(GREEN)
LOOKS: list[Row] = [
    (Run("> ", PLAIN), Run("showcase", BOLD)),
    (Run("! info: This is a demonstration", Look(CYAN)),),
    (
        Run("  ", PLAIN),
        Run("formats it, and where else temperatures are printed.", Look(GREY, italic=True)),
    ),
    (
        Run("✓ ", DONE),
        Run("≡ ", DIM),
        Run("Read report.py", BOLD),
        Run("  (read, completed)", DONE),
    ),
    (
        Run("Only ", PLAIN),
        Run("temperature()", Look(CYAN)),
        Run(" formats it, so that is the one place to change.", PLAIN),
    ),
    (Run("  ", PLAIN), Run("@@ -4,7 +4,8 @@", Look(CYAN))),
    # the colours of the agent's own terminal
    (
        Run("    ", PLAIN),
        Run("4 passed", Look(GREEN, bold=True)),
        Run(" in 0.03s", DONE),
    ),
    (
        Run("    ", PLAIN),
        Run("Oslo", BOLD),
        Run(": ", PLAIN),
        Run("0 °C", Look(CYAN)),
        Run(", light snow ❄", PLAIN),
    ),
    (Run("  ", PLAIN), Run("allowed by you", Look(GREY, italic=True))),
    (Run("Plan", BOLD),),
    (Run("  ", PLAIN), Run("✓ ", DONE), Run("Add a test", DIM)),
]
