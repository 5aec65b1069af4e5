"""`twofold run` on terminals that can do little, and on some that change their size."""

import re
from collections import Counter

import pytest

from tests.support.plain_client import RUN, WORKING, client, demo
from tests.support.raw_process import raw_agent
from tests.support.terminal_stage import AnyStage, Env, Stage, TmuxStage
from twofold.term.input.guard import SILENCE
from twofold.term.lines import line, plain

_SGR = re.compile(rb"\x1b\[([0-9;:]*)m")


def colours(raw: bytes) -> set[str]:
    """The numbers of colours among the attributes that were set."""
    numbers = {number for found in _SGR.findall(raw) for number in re.split(b"[;:]", found)}
    return {n.decode() for n in numbers if re.fullmatch(rb"3[0-8]|4[0-8]|9[0-7]|10[0-7]", n)}


def turn_is_over(stage: AnyStage) -> bool:
    """Whether the input line is empty and no turn goes on."""
    rows = stage.screen()
    return ">" in rows and not any(row.startswith(WORKING) for row in rows)


def through_the_showcase(stage: Stage) -> None:
    """Have everything shown that there is, with a question on the way, and leave."""
    stage.wait_for(lambda stage: b"? press" in stage.raw)
    stage.wait_quiet(SILENCE + 0.1)
    stage.press("y")
    stage.wait_for(lambda stage: "both" in stage.text and not stage.cursor_is_hidden)
    stage.wait_quiet()
    stage.press("ctrl-d")
    assert stage.wait_end() == 0
    assert "Traceback" not in stage.text
    assert "Error" not in stage.text


# ---- colours ---------------------------------------------------------------------------------

COLOURLESS: dict[str, tuple[tuple[str, ...], Env]] = {
    "--no-color": (("--no-color",), {}),
    "NO_COLOR": ((), {"NO_COLOR": "1"}),
}


@pytest.mark.parametrize(("options", "env"), COLOURLESS.values(), ids=list(COLOURLESS))
def test_who_wants_no_colours_gets_none(options: tuple[str, ...], env: Env) -> None:
    with client(*options, "--start", "go", env=env) as stage:
        through_the_showcase(stage)
        assert colours(stage.raw) == set()
        assert b"\x1b[1m" in stage.raw  # there is still weight


def test_without_such_a_wish_there_are_colours() -> None:
    with client("--start", "go", env={"COLORTERM": "truecolor"}) as stage:
        through_the_showcase(stage)
        assert {"38"} <= colours(stage.raw) <= {"38", "48"}  # no colour that a palette changes


# ---- small and plain terminals ---------------------------------------------------------------


@pytest.mark.parametrize(("columns", "rows"), [(20, 8), (12, 5)])
def test_a_small_terminal_shows_as_much_as_it_can(columns: int, rows: int) -> None:
    with client("--start", "go", columns=columns, rows=rows) as stage:
        through_the_showcase(stage)
        assert "Fixed:" in stage.text


@pytest.mark.parametrize(
    ("encoding", "env"),
    [
        ("ascii", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        ("latin-1", {"PYTHONIOENCODING": "latin-1"}),
    ],
)
def test_a_terminal_of_another_encoding_gets_signs_that_it_has(encoding: str, env: Env) -> None:
    command = [*RUN, "--start", "go", "--", *demo()]
    with Stage(command, columns=90, rows=30, env=env, encoding=encoding) as stage:
        through_the_showcase(stage)
        assert "v e Edit report.py" in stage.text
        assert "v Run the tests" in stage.text
        assert "\ufffd" not in stage.text
        assert ("0 °C" in stage.text) == (encoding == "latin-1")


def test_a_dumb_terminal_gets_words_and_no_escape_sequence() -> None:
    with client("--start", "go", env={"TERM": "dumb"}) as stage:
        stage.wait_for("y Run it (allow once)")
        stage.wait_quiet(SILENCE + 0.1)
        stage.press("y")
        stage.wait_for("on both sides of zero")
        stage.wait_quiet(SILENCE + 0.1)
        stage.type("/echo more\r")
        stage.wait_for("echo: more")
        stage.wait_quiet()
        stage.press("ctrl-d")
        assert stage.wait_end() == 0
        assert b"\x1b" not in stage.raw
        assert stage.text.count("? Run this command?") == 1
        assert stage.text.count("Fixed: Oslo") == 1


def test_a_dumb_terminal_shows_what_there_is_to_choose() -> None:
    with client(agent=demo("auth"), env={"TERM": "dumb"}) as stage:
        stage.wait_for("❯ 1 Token")
        stage.wait_for("after one second without any key")
        stage.wait_quiet(SILENCE + 0.1)
        stage.press("enter")
        stage.wait_for("Logging in: Token")
        stage.wait_for("/help lists")
        stage.wait_quiet()
        stage.press("ctrl-d")
        assert stage.wait_end() == 0
        assert b"\x1b" not in stage.raw


# ---- changes of size -------------------------------------------------------------------------

SIZES = [(100, 30), (60, 30), (45, 20), (80, 12), (80, 30)]
WORDS = "Words that are still on the move, and so many that they have to be broken somewhere."
WAITS = raw_agent(f"""
def prompt(request):
    update({{"sessionUpdate": "plan", "entries": [
        {{"content": "A step that is told in many words, so that it takes more than one row",
         "priority": "high", "status": "in_progress"}},
        {{"content": "Another one", "priority": "low", "status": "pending"}}]}})
    text("{WORDS}")
    read()
    text("\\n\\nThe end.")
    answer(request, {{"stopReason": "cancelled"}})
""")


def twice(rows: list[str]) -> list[str]:
    """The rows that stand there more than once."""
    return [row for row, count in Counter(row for row in rows if len(row) > 1).items() if count > 1]


def drawn_for(stage: TmuxStage, width: int) -> bool:
    """Whether the words are broken for this width."""
    rows = [plain(row) for row in line(WORDS).rows(width)]
    screen = stage.screen()
    return rows[0] in screen and screen[screen.index(rows[0]) :][: len(rows)] == rows


def test_what_is_live_is_drawn_anew_when_the_size_changes_and_nothing_is_left_over() -> None:
    command = [*RUN, "--start", "go", "--", *WAITS]
    with TmuxStage(command, columns=80, rows=24) as stage:
        stage.wait_for("Another one")
        for columns, rows in SIZES:
            stage.resize(columns, rows)
            stage.wait_for(lambda stage: drawn_for(stage, stage.columns - 1))
            stage.wait_quiet()
            assert twice(stage.scrollback()) == [], stage.text
            for text in ("> go", "Words that", "Another one", "working"):
                assert stage.text.count(text) == 1, text
        stage.press("ctrl-c")
        stage.wait_for("The end.")
        stage.wait_for(lambda stage: ">" in stage.screen())
        stage.type("typed at the prompt")
        for columns, rows in SIZES:
            stage.resize(columns, rows)
            stage.wait_quiet(0.5)  # tmux tells of a new size after a quarter of a second
            for text in ("> go", "Words that", "The end.", "> typed at the prompt"):
                assert stage.text.count(text) == 1, text
        stage.press("ctrl-c", "ctrl-d")
        assert stage.wait_end() == 0


ASKS = """
def prompt(request):
    text("Let me do it.")
    call = {
        "toolCallId": "t",
        "title": "Clean up",
        "rawInput": {"command": "\\n".join(f"line number {number}" for number in range(10))},
    }
    options = [{"optionId": "ok", "name": "Do it", "kind": "allow_once"}]
    params = {"sessionId": "s", "toolCall": call, "options": options}
    send({"id": 7, "method": "session/request_permission", "params": params})
    text(read()["result"]["outcome"]["outcome"])
    answer(request, {"stopReason": "end_turn"})
"""
LINES = [f"line number {number}" for number in range(10)]


def test_a_question_stands_in_the_scrollback_once_when_the_screen_becomes_too_small_for_it() -> (
    None
):
    command = [*RUN, "--start", "go", "--", *raw_agent(ASKS)]
    with TmuxStage(command, columns=80, rows=24) as stage:
        stage.wait_for("waiting for you")
        for columns, rows in [(80, 12), (80, 24), (80, 9), (100, 30)]:
            stage.resize(columns, rows)
            stage.wait_quiet(0.5)
            rows_now = stage.scrollback()
            for text in ("Let me do it.", *(f"> {each}" for each in LINES[1:]), "y Do it"):
                assert sum(text in row for row in rows_now) == 1, text
        stage.press("y")
        stage.wait_for("selected")


def test_a_question_that_a_narrow_screen_may_have_cut_is_shown_again_before_it_is_allowed() -> None:
    command = [*RUN, "--start", "go", "--", *raw_agent(ASKS)]
    with Stage(command, columns=80, rows=24) as stage:
        stage.wait_for("waiting for you")
        stage.resize(50, 10)
        stage.wait_for("everything first")
        stage.press("y")
        stage.wait_gone("everything first")
        stage.wait_for("> line number 9")
        rows = [row.strip() for row in stage.scrollback()]
        at = rows.index("> line number 9")
        assert rows[at - 9 : at + 1] == [
            f"{'>' if n else '$'} {each}" for n, each in enumerate(LINES)
        ]
        stage.wait_quiet(SILENCE + 0.1)
        stage.press("y")
        stage.wait_for("selected")


# ---- what is taller than the screen ------------------------------------------------------------

TALL = raw_agent("""
def prompt(request):
    lines = "\\n".join(f"line {number}" for number in range(60))
    update({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Tall", "kind": "other",
            "status": "in_progress", "content": [
                {"type": "content", "content": {"type": "text", "text": lines}}]})
    read()
    update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})
    answer(request, {"stopReason": "cancelled"})
""")


def without_seconds(rows: list[str]) -> list[str]:
    """The rows, without how long the turn has taken."""
    return [re.sub(r"working \d+ s", "working", row) for row in rows]


def test_ctrl_o_unfolds_a_call_taller_than_the_screen_as_far_as_it_fits_and_folds_it() -> None:
    with TmuxStage([*RUN, "--start", "go", "--", *TALL], columns=80, rows=30) as stage:
        stage.wait_for("more lines")
        stage.wait_quiet()
        folded = without_seconds(stage.screen())
        for _ in range(2):
            stage.press("ctrl-o")
            stage.wait_for("  line 59")
            stage.wait_quiet()
            rows = stage.screen()
            assert sum(row.startswith("  line ") for row in rows) > 20
            assert [row for row in rows if "rows above" in row]
            assert "◐ Tall  (in progress)" in rows
            assert "working" in stage.text
            stage.press("ctrl-o")
            stage.wait_for("more lines")
            stage.wait_quiet()
            # what was above the call may have moved to the scrollback, the call is as it was
            at = folded.index("◐ Tall  (in progress)")
            again = without_seconds(stage.screen())
            assert again[again.index(folded[at]) :][: len(folded) - at] == folded[at:]
            assert twice(stage.scrollback()) == []
        stage.press("ctrl-o")
        stage.wait_for("  line 59")
        stage.press("ctrl-c")
        stage.wait_for(turn_is_over)
        stage.wait_quiet()
        rows = [row for row in stage.scrollback() if row.startswith("  line ")]
        assert rows == [f"  line {number}" for number in range(60)]
        stage.press("ctrl-d")
        assert stage.wait_end() == 0


DEAFENING = raw_agent("""
def prompt(request):
    for language in ("easytrieve", "autohotkey", "csharp", "bash"):
        text(f"```{language}\\n" + "\\t" * 1_990 + "\\n$'" + r"\\7" * 400 + "\\n```\\n")
    text("Done.")
    read()
    answer(request, {"stopReason": "cancelled"})
""")


def test_no_code_keeps_the_client_from_drawing_and_from_reading_keys() -> None:
    with TmuxStage([*RUN, "--start", "go", "--", *DEAFENING], columns=80, rows=30) as stage:
        stage.wait_for("Done.")
        stage.press("ctrl-c")
        stage.wait_for(turn_is_over)
        stage.press("ctrl-d")
        assert stage.wait_end() == 0
