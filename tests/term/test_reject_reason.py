"""A rejection with a reason: what the agent gets, and what does not become a reason."""

from pathlib import Path

import pytest

from tests.support.client_stage import wait_question
from tests.support.plain_client import at_prompt, client, demo, in_input
from tests.support.random_typing import Record
from tests.support.raw_process import raw_agent
from tests.support.terminal_stage import Stage
from twofold.term.input.editor import NOT_REJECTED as NOT_REJECTED_YET
from twofold.term.input.editor import NOT_SENT as NOT_SENT_YET
from twofold.term.input.editor import REASON_MARK
from twofold.term.input.guard import READ, SILENCE

NOT_REJECTED = NOT_REJECTED_YET.format(key="Enter")
NOT_SENT = NOT_SENT_YET.format(key="Enter")


def in_reason(stage: Stage, typed: str = "") -> bool:
    return stage.screen()[stage.cursor[1]] == f"{REASON_MARK}{typed}".rstrip()


def input_rows(stage: Stage, number: int) -> list[str]:
    """The last rows of the input line."""
    end = stage.cursor[1] + 1
    return stage.screen()[end - number : end]


def open_reason(stage: Stage) -> None:
    wait_question(stage)
    stage.press("r")
    stage.wait_for(in_reason)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_reason_rejects_and_is_sent_before_what_was_queued(tmp_path: Path, version: str) -> None:
    record = tmp_path / "record"
    agent = demo("--version", version)
    with client(f"--record={record}", "--start", "/permission", agent=agent) as stage:
        stage.wait_for("press Tab to answer")
        stage.type("/stream")
        stage.wait_for(lambda stage: in_input(stage, "/stream"))
        stage.press("enter")
        stage.wait_for("next: /stream")
        stage.type("draft")
        stage.wait_for(lambda stage: in_input(stage, "draft"))
        open_reason(stage)
        stage.type("/echo use ninja")
        stage.wait_for(lambda stage: in_reason(stage, "/echo use ninja"))
        stage.wait_quiet(SILENCE + 0.2)
        stage.press("enter")
        stage.wait_for("rejected by you: /echo use ninja")
        stage.wait_for("one two three four five")
        stage.wait_for(lambda stage: at_prompt(stage, "draft"))
    assert Record(record).answers == ["reject_once"]
    assert Record(record).prompts == ["/permission", "/echo use ninja", "/stream"]


def test_escape_goes_back_to_the_question_and_nothing_typed_is_lost(tmp_path: Path) -> None:
    record = tmp_path / "record"
    options = (f"--record={record}", "--start", "/permission")
    with client(*options, agent=demo()) as stage:
        open_reason(stage)
        stage.type("wait")
        stage.wait_for(lambda stage: in_reason(stage, "wait"))
        stage.press("esc")
        stage.wait_for("press Ctrl-Y to answer")
        stage.wait_for(lambda stage: in_input(stage, "wait"))
        assert Record(record).answers == []
        wait_question(stage)
        stage.press("y")
        stage.wait_for("allowed by you")
        stage.wait_for(lambda stage: at_prompt(stage, "wait"))
    assert Record(record).answers == ["allow_once"]
    assert Record(record).prompts == ["/permission"]


def test_a_word_that_begins_with_the_key_rejects_nothing(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", "--start", "/permission", agent=demo()) as stage:
        stage.wait_for("waiting for you")
        for key in "run it":
            stage.type(key)
            stage.wait_quiet(0.06)
        stage.press("enter")
        stage.wait_for(NOT_REJECTED)
        assert Record(record).answers == []


def test_a_reason_of_a_cancelled_turn_goes_back_into_the_input_line(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", "--start", "/permission", agent=demo()) as stage:
        open_reason(stage)
        stage.type("other")
        stage.wait_for(lambda stage: in_reason(stage, "other"))
        stage.press("ctrl-c")
        stage.wait_for(lambda stage: at_prompt(stage, "other"))
    assert Record(record).answers == ["cancelled"]
    assert Record(record).prompts == ["/permission"]


def test_a_second_enter_does_not_send_the_text_that_was_set_aside(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", "--start", "/permission", agent=demo()) as stage:
        stage.wait_for("press Tab to answer")
        stage.type("draft")
        stage.wait_for(lambda stage: in_input(stage, "draft"))
        open_reason(stage)
        stage.type("/echo no")
        stage.wait_for(lambda stage: in_reason(stage, "/echo no"))
        stage.wait_quiet(SILENCE + 0.2)
        stage.type("\r\r")
        stage.wait_for("echo: no")
        stage.wait_for(lambda stage: in_input(stage, "draft"))
        stage.wait_for(NOT_SENT)
    assert Record(record).prompts == ["/permission", "/echo no"]


def test_a_key_for_the_question_shows_the_status_in_place_of_a_hint() -> None:
    with client("--start", "/permission", agent=demo()) as stage:
        open_reason(stage)
        stage.type("wait")
        stage.wait_for(lambda stage: in_reason(stage, "wait"))
        stage.press("esc")
        stage.wait_for("press Ctrl-Y to answer")
        stage.press("enter")
        stage.wait_for(NOT_SENT)
        stage.wait_quiet(READ + 0.1)
        stage.press("ctrl-y")
        stage.wait_for("waiting for you")
        assert NOT_SENT not in stage.screen()


def test_a_reason_stays_in_its_session_when_another_one_is_shown(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", agent=demo()) as stage:
        stage.wait_for(at_prompt)
        stage.type("/permission\r")
        stage.wait_for("press Tab to answer")
        stage.type("/new\r")
        stage.wait_for(lambda stage: "── 2 · new session" in stage.text and in_input(stage))
        stage.press("ctrl-t")
        open_reason(stage)
        stage.type("other")
        stage.wait_for(lambda stage: in_reason(stage, "other"))
        stage.press("ctrl-t")
        stage.wait_for(lambda stage: at_prompt(stage, ""))
        stage.type("/echo two\r")
        stage.wait_for("echo: two")
        assert Record(record).answers == []
        stage.press("ctrl-t")
        stage.wait_for(lambda stage: in_input(stage, "other"))
        stage.wait_for("press Ctrl-Y to answer")
    assert Record(record).prompts == ["/permission", "/echo two"]


def test_what_was_queued_in_a_session_that_is_not_shown_goes_back_to_it(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", agent=demo(speed=1)) as stage:
        stage.wait_for(at_prompt)
        stage.type("/new\r")
        stage.wait_for(lambda stage: "── 2 · new session" in stage.text and at_prompt(stage))
        stage.type("/slow\r")
        stage.wait_for("working")
        stage.type("queued\r")
        stage.wait_for("next: queued")
        stage.type("draft")
        stage.wait_for(lambda stage: in_input(stage, "draft"))
        stage.type("\x03\x14")
        stage.wait_for(lambda stage: "── 1 · new session" in stage.text and at_prompt(stage))
        stage.wait_gone("2 works")
        assert at_prompt(stage)
        stage.press("ctrl-t")
        stage.wait_for(lambda stage: input_rows(stage, 2) == ["> queued", "  draft"])
    assert Record(record).prompts == ["/slow"]


ASKS = """
def ask(request):
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    call = {"toolCallId": "t", "title": "Run make", "kind": "execute"}
    params = {"sessionId": "s", "toolCall": call, "options": options}
    send({"id": "q", "method": "session/request_permission", "params": params})
"""
CANCELS = raw_agent(f"""{ASKS}
def prompt(request):
    if request["params"]["prompt"][0]["text"] != "go":
        text("understood")
        return answer(request, {{"stopReason": "end_turn"}})
    ask(request)
    read()
    answer(request, {{"stopReason": "cancelled"}})
""")


def test_a_reason_is_sent_if_the_agent_ends_the_turn_because_of_the_rejection(
    tmp_path: Path,
) -> None:
    record = tmp_path / "record"
    with client(f"--record={record}", "--start", "go", agent=CANCELS) as stage:
        stage.wait_for("press Tab to answer")
        stage.type("queued\r")
        stage.wait_for("next: queued")
        open_reason(stage)
        stage.type("other")
        stage.wait_for(lambda stage: in_reason(stage, "other"))
        stage.wait_quiet(SILENCE + 0.2)
        stage.press("enter")
        stage.wait_for("understood")
        stage.wait_for(lambda stage: at_prompt(stage, "queued"))
    assert Record(record).answers == ["reject_once"]
    assert Record(record).prompts == ["go", "other"]


def test_a_reason_for_a_question_that_is_withdrawn_goes_into_the_input_line(
    tmp_path: Path,
) -> None:
    record, withdraw = tmp_path / "record", tmp_path / "withdraw"
    agent = raw_agent(f"""{ASKS}
def prompt(request):
    ask(request)
    while not os.path.exists({str(withdraw)!r}):
        time.sleep(0.01)
    send({{"method": "$/cancel_request", "params": {{"requestId": "q"}}}})
    answer(request, {{"stopReason": "end_turn"}})
""")
    with client(f"--record={record}", "--start", "go", agent=agent) as stage:
        stage.wait_for("press Tab to answer")
        stage.type("draft")
        stage.wait_for(lambda stage: in_input(stage, "draft"))
        open_reason(stage)
        stage.type("other")
        stage.wait_for(lambda stage: in_reason(stage, "other"))
        withdraw.touch()
        stage.wait_for(lambda stage: input_rows(stage, 2) == ["> draft", "  other"])
        stage.press("enter")
        stage.wait_for(NOT_SENT)
    assert Record(record).prompts == ["go"]
