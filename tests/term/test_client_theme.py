"""`twofold run` and `twofold show` in light and in dark terminals, and with other keys."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.client_stage import foreign
from tests.support.plain_client import RUN, at_prompt, demo, in_input, leave
from tests.support.terminal_stage import Env, Stage
from twofold.term.themes import DARK, LIGHT, Theme

SHOW = [sys.executable, "-m", "twofold", "show"]
WHITE, BLACK = "rgb:fdfd/f6f6/e3e3", "rgb:1e1e/1e1e/1e1e"
ANSWER, KIND = f"\x1b]11;{WHITE}\x1b\\", "\x1b[?62;22c"
QUERY = b"\x1b]11;?\x1b\\\x1b[c"


def stage_of(
    *options: str, env: Env | None = None, background: str = "", mute: bool = False
) -> Stage:
    command = [*RUN, *options, "--", *demo("tools")]
    return Stage(command, columns=90, env=env, background=background, mute=mute)


def in_theme(stage: Stage, theme: Theme) -> bool:
    """Whether what the client has written last is in the colours of the theme."""
    found = re.findall(rb"\x1b\[(?:[0-9]+;)*38;5;([0-9]+)m", stage.raw)
    return bool(found) and {int(each) for each in found[-2:]} <= set(theme.fixed.values())


def settings(folder: Path, text: str) -> Env:
    (folder / "settings.toml").write_text(text, encoding="utf-8")
    return {"TWOFOLD_SETTINGS": str(folder / "settings.toml")}


@pytest.mark.parametrize(("background", "theme"), [(WHITE, LIGHT), (BLACK, DARK), ("", DARK)])
def test_the_colours_suit_the_background_that_the_terminal_reports(
    background: str, theme: Theme
) -> None:
    with stage_of("--start", "go", background=background) as stage:
        stage.wait_for("done")
        stage.wait_for(at_prompt)
        assert in_theme(stage, theme)
        assert stage.raw.count(QUERY) == 1
        assert foreign(stage.raw) == ""
        leave(stage)


def test_a_theme_of_the_settings_asks_no_terminal(tmp_path: Path) -> None:
    for name, theme in (("light", LIGHT), ("dark", DARK)):
        env = settings(tmp_path, f'theme = "{name}"')
        with stage_of("--start", "go", env=env, background=BLACK) as stage:
            stage.wait_for("done")
            stage.wait_for(at_prompt)
            assert in_theme(stage, theme)
            assert QUERY not in stage.raw
            leave(stage)


@pytest.mark.parametrize(
    "env", [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {"TERM": "linux"}], ids=["dumb", "plain", "linux"]
)
def test_a_terminal_that_cannot_answer_or_has_no_colours_is_not_asked(env: Env) -> None:
    with stage_of(env=env) as stage:
        stage.wait_for("/help lists")
        stage.wait_quiet()
        assert b"\x1b]11" not in stage.raw
        stage.press("ctrl-d")
        assert stage.wait_end() == 0


def test_a_terminal_that_answers_nothing_is_dark_or_what_the_environment_has() -> None:
    with stage_of("--start", "go", mute=True) as stage:
        stage.wait_for("done")
        stage.wait_for(at_prompt)
        assert in_theme(stage, DARK)
        leave(stage)
    with stage_of("--start", "go", mute=True, env={"COLORFGBG": "0;15"}) as stage:
        stage.wait_for("done")
        assert in_theme(stage, LIGHT)


def test_what_is_typed_around_an_answer_is_in_the_input_line() -> None:
    with stage_of(mute=True) as stage:
        stage.wait_for(lambda stage: QUERY in stage.raw)
        stage.type(f"one{ANSWER} two{KIND} three")
        stage.wait_for(lambda stage: in_input(stage, "one two three"))
        assert in_theme(stage, LIGHT)


def test_an_answer_after_the_wait_changes_the_colours_and_reaches_no_input_line() -> None:
    with stage_of(mute=True) as stage:
        stage.wait_for(at_prompt)
        stage.type("typed")
        stage.wait_for(lambda stage: in_input(stage, "typed"))
        stage.type(f"{ANSWER}{KIND}")
        stage.wait_for(lambda stage: in_theme(stage, LIGHT))
        assert in_input(stage, "typed")
        stage.type(" more")
        stage.wait_for(lambda stage: in_input(stage, "typed more"))


def test_an_answer_in_slow_pieces_reaches_no_input_line() -> None:
    with stage_of(mute=True) as stage:
        stage.wait_for(at_prompt)
        text = f"{ANSWER}{KIND}"
        for start, end in ((0, 2), (2, 12), (12, -12), (-12, -9), (-9, -2), (-2, None)):
            stage.type(text[start:end])
            stage.wait_quiet(0.3)  # longer than an Escape waits for its key
            assert in_input(stage)
        stage.wait_for(lambda stage: in_theme(stage, LIGHT))
        stage.type("after")
        stage.wait_for(lambda stage: in_input(stage, "after"))


def test_an_answer_is_not_left_for_the_shell_when_the_agent_cannot_start(tmp_path: Path) -> None:
    shell = 'stty -echo; "$@"; stty -icanon min 0 time 5; printf "left:%s." "$(cat -v)"'
    command = ["sh", "-c", shell, "sh", *RUN, "--", "false"]
    with Stage(command, columns=90, mute=True) as stage:
        stage.wait_for(lambda stage: QUERY in stage.raw)
        stage.type(f"{ANSWER}{KIND}")
        stage.wait_for("left:.")


# ---- twofold show ------------------------------------------------------------------------------

SAMPLE = str(Path(__file__).resolve().parents[2] / "samples" / "showcase.jsonl")


@pytest.mark.parametrize(("background", "theme"), [(WHITE, LIGHT), (BLACK, DARK), ("", DARK)])
def test_show_asks_the_terminal_too(background: str, theme: Theme) -> None:
    with Stage([*SHOW, SAMPLE], columns=90, background=background) as stage:
        assert stage.wait_end() == 0
        assert stage.raw.count(QUERY) == 1
        assert in_theme(stage, theme)
        assert "^[" not in stage.text


def test_show_asks_nothing_if_the_theme_is_given_or_its_output_goes_elsewhere(
    tmp_path: Path,
) -> None:
    light = settings(tmp_path, 'theme = "light"')
    given: list[tuple[list[str], Env]] = [
        ([*SHOW, "--theme", "light", SAMPLE], {}),
        ([*SHOW, SAMPLE], light),
    ]
    for command, env in given:
        with Stage(command, columns=90, env=env) as stage:
            assert stage.wait_end() == 0
            assert QUERY not in stage.raw
            assert in_theme(stage, LIGHT)
    piped = ["sh", "-c", '"$@" | cat', "sh", *SHOW, SAMPLE]
    with Stage(piped, columns=90) as stage:
        assert stage.wait_end() == 0
        assert b"\x1b" not in stage.raw


# ---- other keys --------------------------------------------------------------------------------

KEYS = """
[keys]
send = "c-s"
newline = "enter"
unfold = "f5"
search = ["c-f", "f3"]
edit = "c-e"
"""


def test_keys_of_the_settings_do_what_they_are_for_and_the_others_nothing(tmp_path: Path) -> None:
    env = {**settings(tmp_path, KEYS), "EDITOR": "sh -c 'echo edited > $0'"}
    command = [*RUN, "--", *demo("echo")]
    with Stage(command, columns=90, rows=40, env=env) as stage:
        stage.wait_for(at_prompt)
        stage.type("first")
        stage.press("enter")
        stage.type("second")
        stage.wait_for(lambda stage: stage.screen()[stage.cursor[1]] == "  second")
        stage.press("ctrl-o", "ctrl-j", "ctrl-r")  # they do nothing: not even send, or search
        stage.press("ctrl-s")
        stage.wait_for("> first\n> second\n")
        stage.wait_for(at_prompt)
        assert "Ctrl-J" not in stage.text
        stage.press("ctrl-f")
        stage.wait_for("search:")
        stage.press("esc")
        stage.wait_gone("search:")
        stage.press("ctrl-e")
        stage.wait_for(lambda stage: in_input(stage, "edited"))
        stage.press("ctrl-c")
        stage.type("/help")
        stage.press("ctrl-s")
        for words in ("Ctrl-S  ", "Alt-Enter, Enter  ", "F5  ", "Ctrl-F, F3  ", "Ctrl-E  "):
            stage.wait_for(words)
        leave(stage)


def test_a_wrong_key_is_an_error_before_anything_is_started(tmp_path: Path) -> None:
    env = settings(tmp_path, '[keys]\nsend = "c-c"\n')
    with Stage([*RUN, "--", *demo()], columns=200, env=env) as stage:
        assert stage.wait_end() == 2
        assert "settings.toml, line 2: Ctrl-C cancels and leaves" in "".join(stage.screen())
