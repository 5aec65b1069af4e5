"""`twofold run` at a terminal: what a person types, and what becomes of it."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_stage import wait_question
from tests.support.plain_client import RUN, at_prompt, client, demo, in_input, leave, say
from tests.support.raw_process import raw_agent
from tests.support.terminal_stage import AnyStage, Stage

LONG = "\n".join(f"line {number}" for number in range(200))


def messages(record: Path) -> list[dict[str, Any]]:
    """What both sides said, by the record of the conversation."""
    lines = map(json.loads, record.read_text().splitlines())
    return [each["message"] for each in lines if "message" in each]


def prompts(record: Path) -> list[list[dict[str, Any]]]:
    """The blocks of each prompt that was sent."""
    sent = [each for each in messages(record) if each.get("method") == "session/prompt"]
    return [each["params"]["prompt"] for each in sent]


def answers(record: Path) -> list[dict[str, Any]]:
    """What was answered to permission requests."""
    results = [each.get("result") or {} for each in messages(record)]
    return [result["outcome"] for result in results if "outcome" in result]


# ---- typing ----------------------------------------------------------------------------------


def test_what_is_typed_and_pasted_is_sent_and_can_be_found_again(tmp_path: Path) -> None:
    record = tmp_path / "record"
    (tmp_path / "notes.txt").write_text("remember")
    env = {"XDG_STATE_HOME": f"{tmp_path / 'state'}"}
    agent = demo("echo")
    with client(f"--record={record}", agent=agent, cwd=tmp_path, env=env) as stage:
        stage.wait_for(at_prompt)
        stage.type("one")
        stage.press("alt-enter")
        stage.type("two")
        stage.wait_for("  two")
        stage.press("enter")
        stage.wait_for("echo: one")
        stage.wait_for(at_prompt)
        stage.type("see ")
        stage.paste(LONG)
        stage.wait_for("> see [pasted #1: 200 lines]")
        stage.press("enter")
        stage.wait_for("echo: see line 0")
        stage.wait_for(lambda stage: at_prompt(stage) and stage.text.count("line 199") >= 2)
        stage.type("/mo")
        stage.wait_for("show the agent's modes")
        stage.press("tab")
        stage.wait_for("> /mode")
        stage.press("ctrl-c")
        stage.wait_for(at_prompt)
        stage.type("read @no")
        stage.wait_for("notes.txt")
        stage.press("tab")
        stage.wait_for("> read @notes.txt")
        stage.press("enter")
        stage.wait_for("echo: read @notes.txt")
        leave(stage)
    file = {
        "type": "resource",
        "resource": {
            "uri": f"file://{tmp_path}/notes.txt",
            "text": "remember",
            "mimeType": "text/plain",
        },
    }
    assert prompts(record) == [
        [{"type": "text", "text": "one\ntwo"}],
        [{"type": "text", "text": f"see {LONG}"}],
        [{"type": "text", "text": "read @notes.txt"}, file],
    ]
    with client(agent=agent, cwd=tmp_path, env=env) as stage:
        stage.wait_for(at_prompt)
        stage.press("up")
        stage.wait_for("> read @notes.txt")
        stage.press("up")
        stage.wait_for("> see [pasted before #")
        stage.press("enter")
        stage.wait_for("line 199")
        leave(stage)


def test_a_file_goes_as_a_link_to_an_agent_that_takes_no_other(tmp_path: Path) -> None:
    record = tmp_path / "record"
    (tmp_path / "a b.txt").write_text("x")
    with client(f"--record={record}", agent=raw_agent(""), cwd=tmp_path) as stage:
        stage.wait_for(at_prompt)
        stage.type('see @"a b.txt" there\r')
        stage.wait_for("> see")
        leave(stage)
    link = {
        "type": "resource_link",
        "uri": f"file://{tmp_path}/a%20b.txt",
        "name": "a b.txt",
        "mimeType": "text/plain",
        "size": 1,
    }
    before, after = ({"type": "text", "text": text} for text in ('see @"a b.txt"', " there"))
    assert prompts(record) == [[before, link, after]]


# ---- commands --------------------------------------------------------------------------------

COMMANDS = [
    ("/help", "The agent's commands"),
    ("/mode", "* ask "),
    ("/mode Code", "* code"),
    ("/mode nothing", "Mode has no value 'nothing'; it offers ask and code."),
    ("/config", "thoughts  Thoughts: Aloud"),
    ("/config thoughts quiet", "* quiet"),
    ("/config nothing", "There is no setting 'nothing'. There are mode and thoughts."),
    ("/plan", "The agent has no plan."),
    ("/usage", "The agent has not reported how many tokens it used."),
    ("/expand", "Nothing was folded."),
    ("/thoughts", "Thoughts are shown in full from now on."),
    ("/thoughts", "Thoughts are folded from now on."),
    ("/echo words for it", "echo: words for it"),
    ("//echo and two slashes", "echo: and two slashes"),
    ("//mode", "I do not know that command."),
    ("/quit now", "/quit takes no argument."),
    ("/error", "boom"),
    ("tools", "✓ say hello"),
    ("/plan", "✓ edit the file"),
    ("/refusal", "The turn ended: the agent refused."),
]


def test_the_commands_of_the_client_are_run_and_those_of_the_agent_are_sent(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", rows=60) as stage:
        for command, answer in COMMANDS:
            say(stage, command, answer)
        assert stage.text.count("> //mode") == 1
        assert stage.text.count("> /quit now") == 1
        assert stage.text.count("> /mode") == 3  # and not once more what was sent for `//mode`
        stage.type("/quit\r")
        assert stage.wait_end() == 0
    sent = [block["text"] for blocks in prompts(record) for block in blocks]
    assert sent == [
        *("/echo words for it", "/echo and two slashes", "/mode", "/error", "tools", "/refusal"),
    ]
    told = subprocess.run(
        [sys.executable, "-m", "twofold", "show", record],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "echo: words for it" in told
    assert "✓ say hello" in told


# ---- questions and rules ---------------------------------------------------------------------


def test_a_question_waits_for_its_key_and_not_for_what_is_pasted(tmp_path: Path) -> None:
    record = tmp_path / "record"
    options = (f"--record={record}", "--start", "go")
    with client(*options, agent=demo("permission"), rows=20) as stage:
        wait_question(stage)
        stage.press("enter")
        stage.paste("y\ny")
        stage.wait_for("> y")
        stage.wait_quiet()
        assert "press Ctrl-Y to answer" in stage.text
        assert "? Run make" in stage.text
        wait_question(stage)
        stage.press("y")
        stage.wait_for("outcome: a1")
        stage.wait_for("> y")  # what was pasted is not lost
        stage.press("ctrl-c")
        leave(stage)
        assert "allowed by you" in stage.text
    assert answers(record) == [{"outcome": "selected", "optionId": "a1"}]


def test_who_types_on_while_something_is_asked_answers_nothing(tmp_path: Path) -> None:
    words = "when you are finished please also update the readme, and say what you did"
    record = tmp_path / "record"
    options = (f"--record={record}", "--start", "go")
    with client(*options, agent=demo("permission", speed=1)) as stage:
        stage.wait_for("> go")  # "working" may be over before it can be seen
        for letter in words:  # eleven keys a second
            stage.type(letter)
            pause(stage, 1 / 11)
        stage.wait_for(f"> {words}")
        assert "press Ctrl-Y to answer" in stage.text
        stage.wait_quiet(1.2)  # with something typed ahead no silence is long enough
        stage.press("a")
        stage.wait_for(f"> {words}a")
        stage.press("backspace")
        wait_question(stage)
        stage.press("n")
        stage.wait_for("outcome: r1")
        stage.wait_for(lambda stage: at_prompt(stage, words))
        stage.press("ctrl-c")
        leave(stage)
    assert answers(record) == [{"outcome": "selected", "optionId": "r1"}]
    assert len(prompts(record)) == 1


def test_a_silence_lets_one_key_answer(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", "--start", "go", agent=demo("permission")) as stage:
        stage.wait_for("press Tab to answer")
        assert in_input(stage)
        stage.wait_for("waiting for you")
        stage.press("y")
        stage.wait_for("outcome: a1")
        leave(stage)
    assert answers(record) == [{"outcome": "selected", "optionId": "a1"}]


def test_a_word_instead_of_a_key_sends_nothing(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", "--start", "go", agent=demo("permission")) as stage:
        stage.wait_for("waiting for you")
        for key in ("y", "e", "s", "enter"):
            stage.press(key)
            pause(stage, 1 / 11)
        stage.wait_for("outcome: a1")
        stage.wait_for(lambda stage: at_prompt(stage, "es"))
        stage.press("enter", "enter")
        stage.wait_quiet(1.1)
        assert len(prompts(record)) == 1
        stage.press("backspace", "backspace")
        stage.wait_for(at_prompt)
        stage.wait_quiet(1.1)
        say(stage, "/echo on", "echo: on")  # Enter works again
        leave(stage)
    assert answers(record) == [{"outcome": "selected", "optionId": "a1"}]


def pause(stage: AnyStage, seconds: float) -> None:
    """Let time pass, as it does between two keys."""
    until = time.monotonic() + seconds
    stage.wait_for(lambda stage: time.monotonic() >= until)


RULES: dict[str, tuple[list[str], str, str]] = {
    "allow": (["--allow", "execute"], "allowed by --allow execute", "outcome: a1"),
    "reject": (
        ["--allow", "execute", "--reject", "execute"],
        "rejected by --reject execute",
        "outcome: r1",
    ),
    "policy": (["--policy", "rules.json"], "allowed by rules.json rule 1", "outcome: a1"),
}


@pytest.mark.parametrize(("options", "line", "outcome"), RULES.values(), ids=list(RULES))
def test_what_a_rule_decides_is_not_asked_and_the_rule_is_told(
    options: list[str], line: str, outcome: str, tmp_path: Path
) -> None:
    (tmp_path / "rules.json").write_text('{"rules": [{"decision": "allow", "kind": "execute"}]}')
    with client(*options, "--start", "go", agent=demo("permission"), cwd=tmp_path) as stage:
        stage.wait_for(outcome)
        stage.wait_for(line)
        leave(stage)
        assert b"waiting for you" not in stage.raw


def test_a_rule_that_asks_goes_before_one_that_allows() -> None:
    options = ("--allow", "execute", "--ask", "execute", "--start", "go")
    with client(*options, agent=demo("permission")) as stage:
        wait_question(stage)
        stage.press("esc")
        stage.wait_for("rejected by you")
        leave(stage)


ASKS_LATER = """
def prompt(request):
    text("bye")
    answer(request, {"stopReason": "end_turn"})
    options = [{"optionId": "ok", "name": "Do it", "kind": "allow_once"}]
    call = {"toolCallId": "t", "title": "Clean up"}
    params = {"sessionId": "s", "toolCall": call, "options": options}
    send({"id": 7, "method": "session/request_permission", "params": params})
"""


def test_what_is_asked_at_the_prompt_is_answered_and_what_was_typed_stays(tmp_path: Path) -> None:
    record = tmp_path / "record"
    agent = raw_agent(ASKS_LATER)
    with client(f"--record={record}", "--start", "hello", agent=agent) as stage:
        stage.wait_for("press Tab to answer")
        stage.type("next")
        stage.wait_for("> next")
        wait_question(stage)
        stage.press("y")
        stage.wait_gone("waiting for you")
        stage.wait_for(lambda stage: at_prompt(stage, "next"))
        stage.press("ctrl-c")  # the prompt is drawn, and may not read keys yet
        leave(stage)
    assert answers(record) == [{"outcome": "selected", "optionId": "ok"}]


def test_a_ctrl_c_between_a_question_and_the_prompt_does_not_leave() -> None:
    with client("--start", "hello", agent=raw_agent(ASKS_LATER)) as stage:
        wait_question(stage)
        stage.press("y")
        stage.wait_gone("waiting for you")
        # it is a key of the turn, which has nothing to cancel any more, or one of the prompt
        stage.press("ctrl-c")
        leave(stage)


def test_a_ctrl_c_at_an_empty_prompt_shows_how_to_leave() -> None:
    with client("--start", "hello", agent=raw_agent(ASKS_LATER)) as stage:
        wait_question(stage)
        stage.press("y")
        stage.wait_for(at_prompt)
        stage.press("ctrl-c")
        stage.wait_for("Ctrl-C once more or Ctrl-D leaves")
        leave(stage)


# ---- cancelling and leaving ------------------------------------------------------------------


def test_a_turn_is_cancelled_while_it_asks_and_another_one_works(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", "--start", "fix it", agent=demo(speed=20)) as stage:
        stage.wait_for("press Tab to answer")
        stage.type("/echo for it")
        stage.wait_for("> /echo for it")
        stage.press("ctrl-c")
        stage.wait_for("The turn ended: cancelled")
        stage.wait_for(lambda stage: at_prompt(stage, "/echo for it"))
        stage.press("enter")
        stage.wait_for("echo: for it")
        leave(stage)
        assert stage.text.count("The turn ended: cancelled") == 1
    assert answers(record) == [{"outcome": "cancelled"}]


def test_a_second_ctrl_c_leaves_an_agent_that_does_not_stop() -> None:
    with client("--start", "go", agent=demo("ignore-cancel", speed=1)) as stage:
        stage.wait_for("whatever you do")
        stage.press("ctrl-c")
        stage.wait_for("cancelling")
        stage.press("ctrl-c")
        assert stage.wait_end() == 5
        assert stage.children() == []
        assert not stage.cursor_is_hidden


DIES = raw_agent("""
def prompt(request):
    update({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Build", "kind": "execute",
            "status": "in_progress"})
    os.write(2, b"out of memory\\n")
    os._exit(3)
""")


def test_a_call_that_was_open_when_the_agent_died_is_not_left_in_progress() -> None:
    with client("--start", "go", agent=DIES) as stage:
        stage.wait_for("Start the agent again")
        stage.press("esc")
        assert stage.wait_end() == 7
        assert "Build  (execute, not finished)" in stage.text
        assert "in progress" not in stage.text
        assert stage.text.index("Build") < stage.text.index("out of memory")


def test_a_file_that_is_mentioned_and_not_there_is_reported_before_it_is_sent() -> None:
    with client() as stage:
        say(stage, "/echo see @nosuch.py", "echo: see @nosuch.py")
        said = ["> /echo see", "There is no such file: @nosuch.py is sent as text.", "echo: see"]
        places = [stage.text.index(each) for each in said]
        assert places == sorted(places)
        leave(stage)


def test_a_slip_behind_a_slash_costs_no_turn_and_exit_leaves(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}") as stage:
        say(stage, "/usge", "Did you mean /usage?")
        say(stage, "//usge", "I do not know that command.")
        stage.type("/exit\r")
        assert stage.wait_end() == 0
    assert prompts(record) == [[{"type": "text", "text": "/usge"}]]


FAILS = raw_agent("""
def prompt(request):
    update({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Build", "status": "failed"})
    os.write(2, b"KeyError: 'model'\\n")
    fail(request, -32603, "Internal error")
""")


def test_what_a_turn_failed_with_stands_below_the_call_that_failed() -> None:
    with client("--start", "go", agent=FAILS) as stage:
        stage.wait_for(lambda stage: "KeyError" in stage.text and at_prompt(stage))
        said = ["> go", "Build", "Internal error (-32603)", "standard error:", "KeyError: 'model'"]
        places = [stage.text.index(each) for each in said]
        assert places == sorted(places)
        leave(stage)


@pytest.mark.parametrize("where", ["in a turn", "at the prompt"])
@pytest.mark.parametrize("how", ["SIGTERM", "hang up"])
def test_who_is_ended_leaves_no_process(how: str, where: str) -> None:
    start = ("--start", "go") if where == "in a turn" else ()
    with client(*start, agent=demo("slow")) as stage:
        stage.wait_for("tick tick" if start else at_prompt)
        if how == "SIGTERM":
            os.kill(stage.pid, signal.SIGTERM)
            assert stage.wait_end() == 5
        else:
            stage.hang_up()
            stage.wait_end()
        stage.wait_for(lambda stage: stage.children() == [])
        assert "Traceback" not in stage.text


# ---- in the background -----------------------------------------------------------------------


def at_shell(stage: Stage) -> bool:
    return not stage.cursor_is_hidden and stage.screen()[stage.cursor[1]] == "shell$"


@contextmanager
def in_shell(*options: str, agent: Sequence[str]) -> Iterator[Stage]:
    """The client in a shell that can stop and continue it."""
    with Stage(["sh", "-i"], columns=90, rows=30, env={"PS1": "shell$ "}) as stage:
        stage.wait_for(at_shell)
        stage.type(f"stty -g > before; {shlex.join([*RUN, *options, '--', *agent])}\r")
        yield stage
        stage.wait_for(at_shell)
        stage.type("exit 0\r")
        assert stage.wait_end() == 0
        assert stage.children() == []


def stop_and_continue(stage: Stage) -> None:
    """Ctrl-Z, and `fg`; meanwhile the shell has the terminal as it was before."""
    stage.press("ctrl-z")
    stage.wait_for("Stopped")
    stage.wait_for(at_shell)
    live = stage.text
    stage.type("stty -g > meanwhile; fg\r")
    stage.wait_for("meanwhile; fg\n")
    for words in ("waiting for you", "Starting", "Press Tab", "Enter chooses"):
        assert words not in live  # nothing of what was live is left


def same_modes(stage: Stage) -> bool:
    return (stage.home / "before").read_text() == (stage.home / "meanwhile").read_text()


def test_ctrl_z_stops_a_turn_and_the_shell_has_it_go_on() -> None:
    with in_shell("--start", "go", agent=demo("permission")) as stage:
        stage.wait_for("waiting for you")
        stop_and_continue(stage)
        stage.wait_for("press Tab to answer")  # it starts anew
        assert same_modes(stage)
        wait_question(stage)
        stage.press("n")
        stage.wait_for("outcome: r1")
        stage.wait_for(at_prompt)
        stage.press("ctrl-d")


def test_ctrl_z_stops_the_start_of_an_agent_and_the_shell_has_it_go_on() -> None:
    with in_shell(agent=["sleep", "60"]) as stage:
        stage.wait_for("… 1 s")
        stop_and_continue(stage)
        stage.wait_for("Starting sleep 60")
        assert same_modes(stage)
        stage.press("ctrl-c")


def test_ctrl_z_stops_a_menu_and_the_shell_has_it_go_on() -> None:
    with in_shell(agent=demo("auth")) as stage:
        stage.wait_for("Enter chooses")
        stop_and_continue(stage)
        stage.wait_for("❯ 1 Token")
        assert same_modes(stage)
        stage.press("esc")


# ---- sessions --------------------------------------------------------------------------------


def test_a_session_is_taken_up_again_with_all_that_was_said(tmp_path: Path) -> None:
    agent = demo("--keep", f"{tmp_path / 'kept'}")
    with client("--start", "/echo the first words", agent=agent, cwd=tmp_path) as stage:
        stage.wait_for("echo: the first words")
        leave(stage)
    command = [sys.executable, "-m", "twofold", "sessions", "--", *agent]
    listed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.match(r"s1 ", listed.stdout)
    with client("--resume", "s1", agent=agent, cwd=tmp_path) as stage:
        stage.wait_for("echo: the first words")
        say(stage, "/echo the second", "echo: the second")
        leave(stage)
    with client("--resume", agent=agent, cwd=tmp_path) as stage:
        stage.wait_for("Resume which session?")
        stage.wait_for("Enter chooses")
        stage.press("enter")
        stage.wait_for("echo: the second")
        leave(stage)
        assert stage.text.count("> /echo the first words") == 1
        assert "Resume which session?" not in stage.text
    with client("--resume", agent=agent, cwd=tmp_path) as stage:
        stage.wait_for("Resume which session?")
        stage.press("esc")
        assert stage.wait_end() == 0


# ---- nothing to do ---------------------------------------------------------------------------


def test_who_waits_for_a_person_uses_no_processor() -> None:
    def asleep(stage: AnyStage) -> bool:
        return time.monotonic() > until

    with client() as stage:
        stage.wait_for(at_prompt)
        stage.wait_quiet()
        before, until = stage.cpu_seconds(), time.monotonic() + 2
        stage.wait_for(asleep)
        assert stage.cpu_seconds() - before < 0.1


def test_a_ctrl_c_that_comes_together_with_the_enter_puts_the_text_back() -> None:
    with client() as stage:
        stage.wait_for(at_prompt)
        stage.type("/silent\r\x03")
        stage.wait_for(lambda stage: at_prompt(stage, "/silent"))
        stage.press("ctrl-c")
        leave(stage)


# ---- the input line during a turn --------------------------------------------------------------


def test_what_is_entered_during_a_turn_is_sent_when_it_has_ended(tmp_path: Path) -> None:
    record = tmp_path / "record"
    options = (f"--record={record}", "--start", "/stream")
    with client(*options) as stage:
        # the turn is short: on a busy machine it may be over before anybody looks
        stage.wait_for(lambda stage: "◐ working" in stage.text or "five" in stage.text)
        stage.type("/echo later\r")
        stage.wait_for("echo: later")
        leave(stage)
        assert stage.text.index("one two three four five") < stage.text.index("echo: later")
    assert [blocks[0]["text"] for blocks in prompts(record)] == ["/stream", "/echo later"]


def test_what_is_queued_can_be_edited_and_removed(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", "--start", "/slow") as stage:
        stage.wait_for("tick")
        stage.type("/echo one\r/echo two\r")
        stage.wait_for("⋯ next: /echo two")
        stage.press("up")
        stage.wait_for(lambda stage: in_input(stage, "/echo two"))
        assert "⋯ next: /echo two" not in stage.text
        stage.type("!\r")
        stage.wait_for("⋯ next: /echo two!")
        stage.press("up")
        stage.wait_gone("⋯ next: /echo two!")
        stage.press("ctrl-u")
        stage.wait_for(in_input)
        stage.press("esc")
        stage.wait_for("The turn ended: cancelled.")
        stage.wait_for(lambda stage: at_prompt(stage, "/echo one"))  # not sent unasked
        stage.press("enter")
        stage.wait_for("echo: one")
        leave(stage)
    assert [blocks[0]["text"] for blocks in prompts(record)] == ["/slow", "/echo one"]


def test_escape_cancels_a_turn_and_what_is_typed_stays() -> None:
    with client("--start", "/slow") as stage:
        stage.wait_for("tick")
        stage.type("half a sen")
        stage.wait_for(lambda stage: in_input(stage, "half a sen"))
        stage.press("esc")
        stage.wait_for("The turn ended: cancelled.")
        stage.wait_for(lambda stage: at_prompt(stage, "half a sen"))
        stage.press("ctrl-c")
        leave(stage)


def test_a_command_of_the_client_is_run_during_a_turn() -> None:
    with client("--start", "/slow") as stage:
        stage.wait_for("tick")
        stage.type("/mode code\r")
        stage.wait_for("* code")
        stage.wait_for(in_input)
        assert "◐ working" in stage.text
        stage.press("esc")
        stage.wait_for("The turn ended: cancelled.")
        leave(stage)


def test_ctrl_d_during_a_turn_leaves_only_when_it_is_pressed_again() -> None:
    with client("--start", "/silent") as stage:
        stage.wait_for("◐ working")
        stage.press("ctrl-d")
        stage.wait_for("Ctrl-D again leaves")
        stage.press("ctrl-d")
        assert stage.wait_end() == 5
        assert stage.children() == []


def test_the_input_is_edited_in_the_editor_of_the_environment(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf " world" >> "$1"\n')
    editor.chmod(0o755)
    with client(env={"VISUAL": str(editor)}) as stage:
        stage.wait_for(at_prompt)
        stage.type("/echo hello")
        stage.wait_for(lambda stage: at_prompt(stage, "/echo hello"))
        stage.press("ctrl-x")
        stage.press("ctrl-e")
        stage.wait_for(lambda stage: at_prompt(stage, "/echo hello world"))
        stage.press("enter")
        stage.wait_for("echo: hello world")
        leave(stage)


def test_an_editor_that_is_not_there_is_named_and_the_text_stays() -> None:
    with client(env={"VISUAL": "/no/such-editor"}) as stage:
        stage.wait_for(at_prompt)
        stage.type("hello")
        stage.wait_for(lambda stage: at_prompt(stage, "hello"))
        stage.press("ctrl-x")
        stage.press("ctrl-e")
        stage.wait_for("cannot start the editor '/no/such-editor'")
        stage.wait_for(lambda stage: at_prompt(stage, "hello"))
        stage.press("ctrl-c")
        leave(stage)
