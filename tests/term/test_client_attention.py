"""The client in a terminal that has a title, reports its focus, and rings."""

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.support.plain_client import RUN, at_prompt, client, demo, in_input, leave, say
from tests.support.terminal_screen import FOCUS
from tests.support.terminal_stage import Env, Stage
from twofold.term.input.guard import SILENCE

IN, OUT = "\x1b[I", "\x1b[O"
BELL = b"\a"


def branch(home: Path, name: str) -> None:
    (home / ".git").mkdir(exist_ok=True)
    (home / ".git" / "HEAD").write_text(f"ref: refs/heads/{name}\n")


def bells(stage: Stage) -> int:
    """How often it rang: a title and a notification end otherwise."""
    return stage.raw.count(BELL)


def settings(tmp_path: Path, text: str) -> Env:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    return {"TWOFOLD_SETTINGS": str(file)}


def status(stage: Stage) -> str:
    """The row below the input line."""
    return stage.screen()[stage.cursor[1] + 1]


def ask(stage: Stage, then: str = "") -> None:
    """Have the agent ask, with a report of the focus right behind the Enter."""
    stage.wait_for(at_prompt)
    stage.type(f"/permission\r{then}")
    stage.wait_for(lambda stage: any(row.startswith("? press ") for row in stage.screen()))


def answered(stage: Stage) -> None:
    """Answer it, once the silence is over."""
    stage.wait_for("waiting for you")
    stage.press("y")
    stage.wait_for(at_prompt)
    stage.wait_quiet(SILENCE + 0.05)


# ---- the status line ---------------------------------------------------------------------------


def test_the_branch_is_read_again_after_a_command_and_after_a_turn(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    branch(work, "main")
    with client(cwd=work, columns=120) as stage:
        stage.wait_for("work (main) · Thoughts")
        stage.wait_for(at_prompt)
        stage.type("!echo ref: refs/heads/topic > .git/HEAD\r")
        stage.wait_for("work (topic) · Thoughts")
        branch(work, "fix")
        say(stage, "/echo hello", "echo: hello")
        stage.wait_for("work (fix) · Thoughts")
        branch(work, "other")
        stage.type(f"{OUT}{IN}")  # somebody was in another window
        stage.wait_for("work (other) · Thoughts")
        leave(stage)


def test_the_status_shows_a_known_agent_by_its_name_and_the_directory(tmp_path: Path) -> None:
    env = settings(tmp_path, f"[agents.mine]\ncommand = '{shlex.join(demo())}'\n")
    with Stage([*RUN, "mine"], columns=80, env=env) as stage:
        stage.wait_for(at_prompt)
        assert status(stage) == "Mode: Ask · mine · ~ · Thoughts: Aloud"
        leave(stage)


# ---- the title ---------------------------------------------------------------------------------


def titled(*options: str, agent: list[str], env: Env | None = None) -> Stage:
    """The client in a window that had a title before."""
    command = shlex.join([*RUN, *options, "--", *agent])
    return Stage(["sh", "-c", f"printf '\\033]2;mine\\033\\\\'; exec {command}"], env=env)


def test_the_title_shows_what_goes_on_and_is_restored() -> None:
    with titled(agent=demo("permission")) as stage:
        stage.wait_for(at_prompt)
        assert stage.title == f"{stage.home.name} · twofold"
        stage.type("go\r")
        stage.wait_for(lambda stage: stage.title == f"? {stage.home.name} · twofold")
        answered(stage)
        assert stage.title == f"{stage.home.name} · twofold"
        leave(stage)
        assert stage.title == "mine"


def test_the_title_is_that_of_the_session_and_is_written_only_when_it_changes() -> None:
    with titled(agent=demo(speed=0)) as stage:
        say(stage, "/stream", "five")
        written = stage.raw.count(b"\x1b]2;")
        stage.type("some words")
        stage.wait_for(lambda stage: in_input(stage, "some words"))
        assert stage.raw.count(b"\x1b]2;") == written
        stage.press("ctrl-c")
        stage.wait_for(at_prompt)
        stage.type("/rename Minus zero\r")
        stage.wait_for(lambda stage: stage.title == "Minus zero · twofold")
        leave(stage)
        assert stage.title == "mine"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_ends_the_client_restores_title_and_focus(ending: signal.Signals) -> None:
    with titled(agent=demo(speed=1)) as stage:
        stage.wait_for(at_prompt)
        stage.type("/slow\r")
        stage.wait_for(lambda stage: stage.title.startswith("◐ ") and stage.has_mode(FOCUS))
        os.kill(stage.pid, ending)
        assert stage.wait_end() == 5
        assert stage.title == "mine"
        assert not stage.has_mode(FOCUS)


def test_a_stopped_client_leaves_title_and_focus_to_the_shell() -> None:
    with Stage(["sh", "-i"], columns=90, env={"PS1": "shell$ "}) as stage:
        stage.wait_for("shell$ ".rstrip())
        stage.type(f"printf '\\033]2;mine\\033\\\\'; {shlex.join([*RUN, '--', *demo()])}\r")
        stage.wait_for(at_prompt)
        stage.wait_for(lambda stage: stage.has_mode(FOCUS))  # it is written after the first frame
        ours = stage.title
        stage.press("ctrl-z")
        stage.wait_for("Stopped")
        assert (stage.title, stage.has_mode(FOCUS)) == ("mine", False)
        stage.type("fg\r")
        stage.wait_for(lambda stage: stage.title == ours and stage.has_mode(FOCUS))
        stage.wait_for(at_prompt)
        stage.press("ctrl-d")
        stage.wait_for(lambda stage: stage.title == "mine")
        stage.wait_for(lambda stage: stage.screen()[stage.cursor[1]] == "shell$")
        stage.type("exit 0\r")
        assert stage.wait_end() == 0


def test_an_editor_has_its_own_title_and_gets_no_reports(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf '\\033]2;editor\\033\\\\ready'\nread answer\n")
    editor.chmod(0o755)
    with client(env={"VISUAL": str(editor)}) as stage:
        stage.wait_for(at_prompt)
        ours = stage.title
        stage.type("\x18\x05")
        stage.wait_for("ready")
        assert (stage.title, stage.has_mode(FOCUS)) == ("editor", False)
        stage.type("\r")
        stage.wait_for(lambda stage: stage.title == ours and stage.has_mode(FOCUS))
        leave(stage)


@pytest.mark.parametrize(
    ("env", "text"), [({}, "window_title = false"), ({"TERM": "linux"}, "window_title = true")]
)
def test_a_title_is_left_alone_by_the_settings_or_without_a_window(
    tmp_path: Path, env: Env, text: str
) -> None:
    with titled(agent=demo(), env={**settings(tmp_path, text), **env}) as stage:
        say(stage, "/echo hello", "echo: hello")
        assert stage.title == "mine"
        leave(stage)
        assert stage.raw.count(b"\x1b]2;") == 1


# ---- the focus ---------------------------------------------------------------------------------


def test_a_question_calls_once_while_the_terminal_has_no_focus() -> None:
    with client() as stage:
        ask(stage, OUT)
        stage.wait_for("waiting for you")
        assert bells(stage) == 1
        stage.type(IN)
        answered(stage)
        assert bells(stage) == 1
        ask(stage)  # somebody who types is there
        answered(stage)
        leave(stage)
        assert bells(stage) == 1


def test_a_question_calls_nobody_who_is_there() -> None:
    with client() as stage:
        ask(stage, f"{OUT}{IN}")
        answered(stage)
        leave(stage)
        assert bells(stage) == 0


def test_a_question_that_a_rule_decides_calls_nobody() -> None:
    with client("--allow", "execute") as stage:
        stage.wait_for(at_prompt)
        stage.type(f"/permission\r{OUT}")
        stage.wait_for("outcome: ")
        stage.wait_for(at_prompt)
        leave(stage)
        assert bells(stage) == 0


def test_a_report_types_nothing_answers_nothing_and_does_not_break_the_silence() -> None:
    with client() as stage:
        stage.wait_for(at_prompt)
        stage.type(f"ab{OUT}c{IN}d")
        stage.wait_for(lambda stage: in_input(stage, "abcd"))
        stage.press("ctrl-c")
        ask(stage)
        for _ in range(100):
            stage.type(f"{OUT}{IN}")
            stage.wait_quiet(SILENCE / 8)
            if "? waiting for you" in stage.text:
                break
        assert "? waiting for you" in stage.text
        assert in_input(stage)
        assert "outcome: " not in stage.text
        answered(stage)
        leave(stage)


LONG = "notifications = { bell = true, desktop = true, after = 0 }"


def test_the_end_of_a_turn_is_a_notification_of_the_desktop(tmp_path: Path) -> None:
    with client(env=settings(tmp_path, LONG)) as stage:
        stage.wait_for(at_prompt)
        stage.type(f"/stream\r{OUT}")
        stage.wait_for(lambda stage: bells(stage) == 1)
        leave(stage)
        wanted = "\x1b]777;notify;Twofold demo agent in ~;The turn has ended after 0 s.\x1b\\\a"
        assert wanted.encode() in stage.raw
        assert bells(stage) == 1


def test_turns_that_are_queued_are_one_piece_of_work(tmp_path: Path) -> None:
    with client(agent=demo(speed=1), env=settings(tmp_path, LONG)) as stage:
        stage.wait_for(at_prompt)
        stage.type(f"/stream\r/stream\r{OUT}")
        stage.wait_for(lambda stage: stage.text.count("five") == 2 and at_prompt(stage))
        leave(stage)
        before, bell, _ = stage.raw.partition(BELL)
        assert bell
        assert before.count(b"five") == 2, "the end of the first turn is no rest"


def test_a_turn_that_the_person_cancels_calls_nobody(tmp_path: Path) -> None:
    with client(agent=demo(speed=1), env=settings(tmp_path, LONG)) as stage:
        stage.wait_for(at_prompt)
        stage.type("/slow\r")
        stage.wait_for("tick tick")
        stage.type(f"\x03{OUT}")
        stage.wait_for("The turn ended: cancelled.")
        stage.wait_for(at_prompt)
        leave(stage)
        assert bells(stage) == 0


def test_an_agent_that_dies_calls_the_person(tmp_path: Path) -> None:
    agent = [sys.executable, "-P", "-m", "twofold", "agent", "--speed", "0", "crash"]
    with client(agent=agent, env=settings(tmp_path, LONG)) as stage:
        stage.wait_for(at_prompt)
        stage.type(f"go\r{OUT}")
        stage.wait_for("The agent has ended.")
        assert bells(stage) == 1
        stage.press("ctrl-c")
        stage.wait_end()
        assert not stage.has_mode(FOCUS)


def test_a_dumb_terminal_gets_neither_title_nor_focus_nor_bell() -> None:
    with client(env={"TERM": "dumb"}) as stage:
        stage.wait_for(lambda stage: stage.screen()[stage.cursor[1]] == ">")
        stage.type(f"/echo hello\r{OUT}")
        stage.wait_for("echo: hello\n")
        leave(stage)
        assert b"\x1b]" not in stage.raw
        assert b"1004" not in stage.raw
        assert bells(stage) == 0
