"""The commands of the client at a real terminal: between two turns, and during one."""

import base64
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.plain_client import at_prompt, client, demo, in_input, leave, say
from tests.support.raw_process import gone, raw_agent
from tests.support.terminal_stage import Stage

MODELS = raw_agent("""
models = {"currentModelId": "big", "availableModels": [
    {"modelId": "big", "name": "Big one"}, {"modelId": "small", "name": "Small one"}]}

def serve():
    while True:
        request = read()
        method = request.get("method")
        if method == "initialize":
            initialize(request)
        elif method == "session/new":
            answer(request, {"sessionId": "s", "models": models})
        elif method == "session/set_model" and request["params"]["modelId"] == "small":
            answer(request, {})
        else:
            fail(request, -32601, "Method not found")
""")
EDITS = raw_agent("""
def call(id, title, **fields):
    update({"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": "edit",
            "status": "completed", **fields})

def diff(path, old, new):
    return {"type": "diff", "path": os.path.join(os.getcwd(), path), "oldText": old,
            "newText": new}

def prompt(request):
    long = "\\n".join(f"line {number}" for number in range(60))
    shown = {"type": "content", "content": {"type": "text", "text": long}}
    call("1", "Look around", content=[shown])
    call("2", "Edit a.py", content=[diff("a.py", "x = 1\\n", "x = 2\\n")])
    call("3", "Edit it again", content=[diff("a.py", "x = 2\\n", "x = 3\\n")])
    call("4", "Add b.py", content=[diff("b.py", None, "y = 4\\n")])
    text("All done.")
    answer(request, {"stopReason": "end_turn"})
""")
COMPLAINS = raw_agent("""
os.write(2, b"loading \\x1b]0;evil\\x07plugins\\n")

def prompt(request):
    os.write(2, b"cache miss\\n")
    write(b"not a message\\n")
    text("done")
    answer(request, {"stopReason": "end_turn"})
""")
STATUS_OF_TURN = "◐ working"


def enter(stage: Stage, text: str) -> None:
    """Enter a text, whatever is going on."""
    stage.type(text)
    stage.wait_for(lambda stage: in_input(stage, text))
    stage.press("enter")


def prompts(record: Path) -> list[list[dict[str, Any]]]:
    """The blocks of each prompt that was sent."""
    lines = map(json.loads, record.read_text().splitlines())
    messages = [each["message"] for each in lines if "message" in each]
    sent = [each for each in messages if each.get("method") == "session/prompt"]
    return [each["params"]["prompt"] for each in sent]


# ---- models and modes ------------------------------------------------------------------------


def test_a_model_is_shown_and_chosen() -> None:
    with client(agent=MODELS) as stage:
        say(stage, "/model", "* big    Big one")
        stage.wait_for(" · Big one · ~")
        say(stage, "/model small one", "* small  Small one")
        stage.wait_for(" · Small one · ~")
        say(stage, "/model huge", "Model has no value 'huge'; it offers big (Big one) and small")
        leave(stage)


def test_shift_tab_chooses_the_next_mode_also_during_a_turn() -> None:
    with client(agent=demo("slow", speed=1)) as stage:
        stage.wait_for(lambda stage: at_prompt(stage) and "Mode: Ask" in stage.text)
        stage.press("shift-tab")
        stage.wait_for("Mode: Code")
        enter(stage, "go")
        stage.wait_for(STATUS_OF_TURN)
        stage.press("shift-tab")
        stage.wait_for("Mode: Ask")
        stage.press("shift-tab", "shift-tab", "shift-tab")  # each one goes on from the last
        stage.wait_for("Mode: Code")
        stage.press("esc")
        stage.wait_for("The turn ended: cancelled")
        leave(stage)


def test_shift_tab_goes_back_in_a_list_of_completions() -> None:
    with client(agent=demo("echo")) as stage:
        stage.wait_for(at_prompt)
        stage.type("/mo")
        stage.wait_for("/model")
        stage.press("tab", "tab")
        stage.wait_for(lambda stage: in_input(stage, "/model"))
        stage.press("shift-tab")
        stage.wait_for(lambda stage: in_input(stage, "/mode"))
        assert "Mode: Code" not in stage.text
        stage.press("ctrl-c")
        leave(stage)


def test_an_agent_without_modes_and_models_says_so() -> None:
    with client(agent=raw_agent("")) as stage:
        say(stage, "/model", "The agent offers no choice of models in this session.")
        stage.press("shift-tab")
        stage.wait_for("The agent has no modes in this session.")
        leave(stage)


# ---- copy, export, diff, expand --------------------------------------------------------------


def copied(stage: Stage) -> list[str]:
    """What the terminal was asked to copy."""
    found = re.findall(rb"\x1b\]52;c;([^\x07]*)\x07", stage.raw)
    return [base64.b64decode(each).decode() for each in found]


def test_a_message_is_copied_by_the_terminal_and_with_a_tool(tmp_path: Path) -> None:
    tool, kept = tmp_path / "wl-copy", tmp_path / "clipboard"
    tool.write_text(f'#!/bin/sh\ncat > "{kept}"\n')
    tool.chmod(0o700)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "WAYLAND_DISPLAY": None, "DISPLAY": None}
    with client(agent=demo("echo"), env=env) as stage:
        say(stage, "/copy", "The agent has sent no message that could be copied.")
        say(stage, "one", "echo: one")
        say(stage, "two", "echo: two")
        say(stage, "/copy", "Copied 1 line: “echo: two”. It is in the clipboard if")
        say(stage, "/copy 2", "Copied 1 line: “echo: one”.")
        say(stage, "/copy 3", "The agent has sent only 2 messages")
        say(stage, "/copy last", "/copy takes a number from 1 on, not 'last'.")
        leave(stage)
        assert copied(stage) == ["echo: two", "echo: one"]
    assert not kept.exists()
    with client(agent=demo("echo"), env={**env, "WAYLAND_DISPLAY": "w"}) as stage:
        say(stage, "one", "echo: one")
        say(stage, "/copy", "Copied 1 line: “echo: one”.")
        leave(stage)
        assert "It is in the clipboard if" not in stage.text
    assert kept.read_text() == "echo: one"


def test_a_session_is_exported_by_suffix_and_no_file_overwritten(tmp_path: Path) -> None:
    with client(agent=demo("echo"), cwd=tmp_path, columns=120) as stage:
        say(stage, "hello", "echo: hello")
        for name in ("talk.md", "talk.html", "talk.jsonl"):
            say(stage, f"/export {name}", f"Wrote {tmp_path / name}")
        say(stage, "/export talk.md", "talk.md exists already. Nothing was written")
        before = (tmp_path / "talk.md").read_text()
        say(stage, "more", "echo: more")
        say(stage, "/export --force talk.md", f"Wrote {tmp_path / 'talk.md'}")
        say(stage, "/export talk.doc", "The suffix of 'talk.doc' names no format.")
        leave(stage)
    assert "echo: hello" in before
    assert "echo: more" not in before
    assert "echo: more" in (tmp_path / "talk.md").read_text()
    assert (tmp_path / "talk.html").read_text().startswith("<!doctype html>")
    assert all(map(json.loads, (tmp_path / "talk.jsonl").read_text().splitlines()))


def test_all_changes_of_the_session_are_shown_by_file(tmp_path: Path) -> None:
    with client(agent=EDITS, cwd=tmp_path) as stage:
        say(stage, "/diff", "No completed tool call of this session shows a change.")
        say(stage, "go", "All done.")
        say(stage, "/diff", "2 changed files +2 -1")
        rows = stage.text.split("2 changed files +2 -1")[1]
        assert re.findall(r"^[-+].*|^[ab]\.py.*", rows, re.MULTILINE) == [
            "a.py",
            "-x = 1",
            "+x = 3",
            "b.py (new file)",
            "+y = 4",
        ]
        say(stage, "/diff 2", "b.py (new file)")
        say(stage, "/diff 3", "There is no file 3: this session has changed 2 files.")
        leave(stage)


def test_what_was_folded_is_printed_in_full_by_its_number(tmp_path: Path) -> None:
    with client(agent=EDITS, cwd=tmp_path) as stage:
        say(stage, "go", "All done.")
        assert "line 59" not in stage.text
        say(stage, "/expand 2", "Fewer than 2 were folded.")
        say(stage, "/expand 1", "line 59")
        say(stage, "/expand", "line 59")
        leave(stage)


# ---- verbose ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["the option", "the command"])
def test_verbose_shows_the_standard_error_and_problems(how: str) -> None:
    options = ["--verbose"] if how == "the option" else []
    with client(*options, agent=COMPLAINS) as stage:
        stage.wait_for(at_prompt)
        if how == "the option":
            stage.wait_for("[stderr] loading plugins")
        else:
            assert "loading" not in stage.text
            say(stage, "/verbose", "Shown from now on: the agent's standard error")
        say(stage, "go", "done")
        stage.wait_for("[stderr] cache miss")
        stage.wait_for("! The agent sent something that is no message")
        say(stage, "/verbose", "Not shown any more: the agent's standard error")
        before = stage.text.count("cache miss")
        say(stage, "again", "done")
        leave(stage)
        assert stage.text.count("cache miss") == before


def test_a_standard_error_without_end_is_bounded_on_the_screen() -> None:
    with client("--verbose", agent=demo("stderr")) as stage:
        stage.wait_for(at_prompt)
        enter(stage, "go")
        stage.wait_for("lines not shown")
        leave(stage)
        assert len(stage.text) < 500_000


# ---- commands of the person's own ------------------------------------------------------------


def test_a_command_runs_in_the_directory_and_its_output_is_no_escape_sequence(
    tmp_path: Path,
) -> None:
    (tmp_path / "here.txt").touch()
    record = tmp_path / "record"
    with client(f"--record={record}", agent=demo("echo"), cwd=tmp_path) as stage:
        say(stage, "!ls here*; printf '\\033]0;evil\\007\\033[31mred\\n'; exit 3", "exit status 3")
        assert "  here.txt\n  red\n  exit status 3" in stage.text
        assert b"evil\x07" not in stage.raw
        say(stage, "! true", "no output")
        say(stage, " !hello", "echo: !hello")
        leave(stage)
    assert len(prompts(record)) == 1


def test_output_is_shown_as_it_arrives_and_ctrl_c_stops_the_command(tmp_path: Path) -> None:
    with client(agent=demo("echo"), cwd=tmp_path) as stage:
        stage.wait_for(at_prompt)
        enter(stage, "!echo $$ begun; sleep 1000; echo never")
        stage.wait_for("⋯ running: $ echo $$ begun")
        stage.wait_for(lambda stage: re.search(r"^  \d+ begun$", stage.text, re.MULTILINE))
        enter(stage, "after it")
        stage.wait_for("⋯ next: after it")
        stage.press("ctrl-c")
        stage.wait_for("  stopped")
        stage.wait_for("echo: after it")
        pid = re.search(r"^  (\d+) begun$", stage.text, re.MULTILINE)
        assert pid is not None
        assert gone(int(pid[1]))
        enter(stage, "!sleep 1000")
        stage.wait_for("⋯ running: $ sleep 1000")
        stage.press("esc")
        stage.wait_for(lambda stage: stage.text.count("  stopped") == 2 and at_prompt(stage))
        leave(stage)


def test_leaving_ends_a_command_and_what_runs_in_the_background(tmp_path: Path) -> None:
    with client(agent=demo("echo"), cwd=tmp_path) as stage:
        say(stage, "!sleep 1000 & echo left $!", "left ")
        enter(stage, "!echo runs $$; sleep 1000")
        stage.wait_for(lambda stage: re.search(r"^  runs \d+$", stage.text, re.MULTILINE))
        stage.press("ctrl-d")
        assert stage.wait_end() == 0
        pids = re.findall(r"^  (?:left|runs) (\d+)$", stage.text, re.MULTILINE)
    assert len(pids) == 2
    assert all(gone(int(pid)) for pid in pids)


def test_what_is_attached_is_shown_and_goes_with_one_prompt(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", agent=demo("user-echo"), cwd=tmp_path) as stage:
        say(stage, "!!echo one; echo two", "⋯ attached: $ echo one; echo two · 2 lines")
        say(stage, "!!", "Nothing is attached any more.")
        assert "⋯ attached" not in "\n".join(stage.screen())
        say(stage, "!!", "Nothing is attached. !!COMMAND attaches")
        say(stage, "!!echo one; false", "⋯ attached: $ echo one; false · 1 line · exit status 1")
        say(stage, "why?", "  └ $ echo one; false · 1 line · exit status 1")
        assert "⋯ attached" not in "\n".join(stage.screen())
        assert stage.text.count("> why?") == 1  # the echo of the agent is not shown again
        say(stage, "and now?", "> and now?")
        leave(stage)
    first, second = prompts(record)
    assert [each["text"] for each in first] == [
        "why?",
        "\n\nOutput of a command that I ran:\n```\n$ echo one; false\none\n```\n(exit status 1)",
    ]
    assert [each["text"] for each in second] == ["and now?"]


def test_a_command_without_end_fills_neither_the_screen_nor_the_prompt(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", agent=demo("refusal"), cwd=tmp_path) as stage:
        say(stage, "!!seq 100000", "98,950 lines not shown")
        assert "  100000" in stage.text
        enter(stage, "go")
        stage.wait_for("The turn ended")
        leave(stage)
    assert len(prompts(record)[0][1]["text"]) < 20_000


def test_a_pasted_text_is_not_run(tmp_path: Path) -> None:
    with client(agent=demo("echo"), cwd=tmp_path) as stage:
        stage.wait_for(at_prompt)
        stage.paste("!touch oops\n" * 50)
        stage.wait_for("[pasted #1")
        stage.press("enter")
        stage.wait_for("echo: !touch oops")
        stage.wait_for(at_prompt)
        leave(stage)
    assert not (tmp_path / "oops").exists()


# ---- during a turn ---------------------------------------------------------------------------


def _shows_more(stage: Stage, words: str, before: int) -> bool:
    return stage.text.count(words) > before


def test_every_command_works_during_a_turn_and_none_is_sent(tmp_path: Path) -> None:
    record = tmp_path / "record"
    env = {"VISUAL": "sh -c 'echo edited > \"$0\"'"}
    shown = {
        "/plan": "The agent has no plan.",
        "/usage": "The agent has not reported how many tokens",
        "/config": "/config ID shows the values",
        "/mode": "* ask",
        "/model": "no choice of models",
        "/diff": "No completed tool call",
        "/expand": "Nothing was folded.",
        "/copy": "Copied",
        "/export talk.md": "Wrote ",
        "/verbose": "Shown from now on",
        "!echo mine": "  mine",
        "!!echo theirs": "⋯ attached: $ echo theirs",
        "/help": "removes it",
        "/moed": "Did you mean /mode",
        "/mode nothing": "Mode has no value 'nothing'",
        "/plan b": "/plan takes no argument",
    }
    agent = demo("slow", speed=1)
    with client(f"--record={record}", agent=agent, cwd=tmp_path, env=env, rows=60) as stage:
        stage.wait_for(at_prompt)
        enter(stage, "go")
        stage.wait_for(STATUS_OF_TURN)
        for command, words in shown.items():
            before = stage.text.count(words)
            enter(stage, command)
            shows_more = partial(_shows_more, words=words, before=before)
            stage.wait_for(shows_more)
        enter(stage, "/editor")
        stage.wait_for(lambda stage: in_input(stage, "edited"))
        assert any(row.startswith(STATUS_OF_TURN) for row in stage.screen())
        stage.press("ctrl-u")
        stage.wait_for(in_input)
        enter(stage, "/exit")
        stage.wait_end()
    assert [each[0]["text"] for each in prompts(record)] == ["go"]


def test_two_slashes_send_a_word_that_is_no_command(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", agent=demo()) as stage:
        say(stage, "/modle", "There is no /modle. Did you mean /mode or /model? Nothing was sent")
        say(stage, "//modle", "I do not know that command.")
        leave(stage)
    assert [each[0]["text"] for each in prompts(record)] == ["/modle"]
