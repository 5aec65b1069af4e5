"""A replay as a client meets it: what it waits for, what it follows, and what it refuses."""

import json
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.any_records import JUNK, MESSAGES, RECORDS
from tests.support.recordings import (
    TEXT,
    Json,
    answer,
    entries_of,
    folded,
    notify,
    request,
    tape,
    update,
    words,
)
from tests.support.replayed import Talk, follow, updates_in
from twofold.journal import replay

CALL = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Edit", "kind": "edit"}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
ASK = request(
    0, "session/request_permission", sessionId="s", toolCall={"toolCallId": "t"}, options=OPTIONS
)
END = {"stopReason": "end_turn"}


def choose(option: str, identity: Any = 0) -> Json:
    return answer(identity, outcome={"outcome": "selected", "optionId": option})


def prompt(identity: Any, text: str = "hi", session: str = "s") -> Json:
    blocks = [{"type": "text", "text": text}]
    return request(identity, "session/prompt", sessionId=session, prompt=blocks)


def new(identity: Any, cwd: str = "/work") -> Json:
    return request(identity, "session/new", cwd=cwd, mcpServers=[])


HELLO = [
    ("c2a", request(1, "initialize", protocolVersion=1, clientCapabilities={})),
    ("a2c", answer(1, protocolVersion=1, agentCapabilities={"loadSession": True}, _x={"a": 1.0})),
    ("c2a", new(2)),
    ("a2c", answer(2, sessionId="s", modes=None)),
]
TURN = [
    ("c2a", prompt(3)),
    ("a2c", words("one ")),
    ("a2c", words("two")),
    ("a2c", answer(3, **END)),
]
SECOND = [("c2a", prompt(4, "more")), ("a2c", words("three")), ("a2c", answer(4, **END))]
ASKING = [
    ("c2a", prompt(3)),
    ("a2c", update(**CALL)),
    ("a2c", ASK),
    ("c2a", choose("yes")),
    ("a2c", words("done")),
    ("a2c", answer(3, **END)),
]
SLOW = [
    ("c2a", prompt(3)),
    ("a2c", words("slowly")),
    ("a2c", words("more")),
    ("c2a", notify("session/cancel", sessionId="s")),
    ("a2c", words("stopping")),
    ("a2c", answer(3, stopReason="cancelled")),
]


def begun(*steps: tuple[str, Json], **options: Any) -> Talk:
    """A replay of a session that the client has begun."""
    talk = Talk(tape(*HELLO, *steps), **options)
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    initialize = request("i", "initialize", protocolVersion=1, clientCapabilities=capabilities)
    return talk.send(initialize).send(new("n"))


# ---- what is sent, and when --------------------------------------------------------------------


def test_what_nothing_has_to_be_changed_in_is_sent_byte_for_byte() -> None:
    data = tape(*HELLO, *TURN)
    talk = Talk(data).send(HELLO[0][1]).send(HELLO[2][1]).send(TURN[0][1])
    recorded = [each.raw for each in entries_of(data) if each.sender == "agent"]
    assert [line.removesuffix(b"\n") for line in talk.lines] == recorded


def test_the_answers_have_the_ids_of_this_client() -> None:
    talk = begun(*TURN).send(prompt("p"))
    assert [talk.to(each)["result"] for each in "inp"] == [
        HELLO[1][1]["result"],
        {"sessionId": "s", "modes": None},
        END,
    ]
    assert talk.texts() == "one two"


def test_nothing_is_sent_before_the_client_has_sent_what_the_recorded_one_had() -> None:
    talk = Talk(tape(*HELLO, *TURN))
    assert talk.wait().lines == []
    talk.send(HELLO[0][1])
    assert len(talk.wait().lines) == 1
    talk.send(HELLO[2][1])
    assert len(talk.wait().lines) == 2


@pytest.mark.parametrize(("speed", "pause"), [(1.0, 0.1), (10.0, 0.01), (inf, 0.0)])
def test_the_pauses_are_the_recorded_ones_at_the_given_speed(speed: float, pause: float) -> None:
    talk = Talk(tape(*HELLO, *TURN), speed=speed)
    talk.send(HELLO[0][1]).wait().send(HELLO[2][1]).wait()
    talk.now = 1000.0  # the client takes its time
    talk.send(prompt(3)).wait()
    assert talk.times[-3:] == pytest.approx([1000 + pause, 1000 + 2 * pause, 1000 + 3 * pause])


def test_records_without_times_are_played_without_pauses() -> None:
    data = b"".join(json.dumps(each).encode() + b"\n" for _, each in [*HELLO, *TURN])
    talk = Talk(data, speed=1.0).send(HELLO[0][1]).send(HELLO[2][1]).send(prompt(3))
    assert talk.texts() == "one two"
    assert talk.now == 0


def test_noise_and_standard_error_are_played_too() -> None:
    data = tape(*HELLO) + b"".join(
        json.dumps(each).encode() + b"\n"
        for each in [
            {"dir": "c2a", "message": prompt(3)},
            {"dir": "a2c", "text": "Loading…"},
            {"dir": "stderr", "text": "warning\n"},
            {"dir": "a2c", "noise": "\x1b]0;t\x07", "message": answer(3, **END)},
        ]
    )
    talk = Talk(data).send(HELLO[0][1]).send(HELLO[2][1]).send(prompt(3))
    assert talk.lines[2] == "Loading…\n".encode()
    assert talk.lines[3].startswith(b"\x1b]0;t\x07{")
    assert talk.replay.stderr == ["warning\n"]


# ---- what the agent asks -----------------------------------------------------------------------


def test_what_follows_a_question_waits_for_its_answer() -> None:
    talk = begun(*ASKING).send(prompt("p")).wait()
    assert talk.messages[-1] == ASK
    talk.send(choose("yes"))
    assert talk.texts() == "done"
    assert talk.to("p")["result"] == END
    assert talk.replay.reports == []


def test_another_answer_is_reported_and_the_recording_goes_on() -> None:
    talk = begun(*ASKING).send(prompt("p")).send(choose("no"))
    assert talk.to("p")["result"] == END
    (report,) = talk.replay.reports
    assert report == (
        "line 8: the client answered session/request_permission with 'no',"
        " the recorded one with 'yes'"
    )
    assert not talk.replay.deviated


def test_with_strict_another_answer_ends_the_turn_with_an_error() -> None:
    talk = begun(*ASKING, strict=True).send(prompt("p")).send(choose("no"))
    error = talk.to("p")["error"]
    assert error["message"] == "The client deviates from the recording"
    assert error["data"] == {"reason": "session/request_permission: expected 'yes'"}
    assert talk.texts() == ""
    assert talk.replay.deviated


def test_an_answer_that_comes_early_counts() -> None:
    early = [*ASKING[:3], ("a2c", words("while asking ")), *ASKING[3:]]
    talk = begun(*early, speed=1.0).wait().send(prompt("p"))
    while not any(each.get("method") == ASK["method"] for each in talk.messages):
        talk.now = talk.replay.next_due(talk.now) or talk.now
        talk.run()
    talk.send(choose("yes")).wait()
    assert talk.texts() == "while asking done"


def test_a_request_with_an_id_that_is_in_use_gets_another_one() -> None:
    twice = [
        ("c2a", prompt(3)),
        ("a2c", ASK),
        ("a2c", ASK),
        ("c2a", choose("yes")),
        ("a2c", answer(3, **END)),
    ]
    talk = begun(*twice).send(prompt("p"))
    ids = [each["id"] for each in talk.messages if each.get("method") == ASK["method"]]
    assert ids == [0, "replay:1"]


READ = request(5, "fs/read_text_file", sessionId="s", path="/work/a.txt")
READING = [
    ("c2a", prompt(3)),
    ("a2c", READ),
    ("c2a", answer(5, content="a")),
    ("a2c", words("read")),
    ("a2c", answer(3, **END)),
]


def test_a_request_that_the_client_does_not_offer_is_left_out() -> None:
    talk = Talk(tape(*HELLO, *READING)).send(HELLO[0][1]).send(new(2)).send(prompt("p"))
    assert talk.to("p")["result"] == END
    assert talk.replay.reports == [
        "line 6: left out fs/read_text_file: the client does not offer it"
    ]


def test_paths_are_those_of_the_directory_that_the_client_chose() -> None:
    talk = begun(*READING)
    other = Talk(tape(*HELLO, *READING))
    other.send(request(1, "initialize", clientCapabilities={"fs": {"readTextFile": True}}))
    other.send(new(2, "/home/me")).send(prompt("p"))
    assert talk.send(prompt("p")).messages[-1]["params"]["path"] == "/work/a.txt"
    assert other.messages[-1]["params"]["path"] == "/home/me/a.txt"


def test_a_question_about_a_request_names_the_id_that_this_client_gave_it() -> None:
    steps = [
        ("c2a", request(7, "authenticate", methodId="form")),
        ("a2c", request(0, "elicitation/create", requestId=7, message="Name?")),
        ("c2a", answer(0, action="accept")),
        ("a2c", answer(7)),
    ]
    talk = Talk(tape(*HELLO[:2], *steps))
    talk.send(request(1, "initialize", clientCapabilities={"elicitation": {"form": {}}}))
    talk.send(request("login", "authenticate", methodId="form"))
    assert talk.messages[-1]["params"] == {"requestId": "login", "message": "Name?"}
    talk.send(answer(0, action="decline"))
    assert talk.to("login")["result"] == {}
    (report,) = talk.replay.reports
    assert report.endswith(
        "answered elicitation/create with 'decline', the recorded one with 'accept'"
    )


TERMINALS = [
    ("c2a", prompt(3)),
    ("a2c", request(1, "terminal/create", sessionId="s", command="ls")),
    ("c2a", answer(1, terminalId="term-1")),
    ("a2c", update(**CALL, content=[{"type": "terminal", "terminalId": "term-1"}])),
    ("a2c", request(2, "terminal/output", sessionId="s", terminalId="term-1")),
    ("c2a", answer(2, output="a", truncated=False)),
    ("a2c", answer(3, **END)),
]


def test_terminals_are_those_that_the_client_created() -> None:
    talk = begun(*TERMINALS).send(prompt("p")).send(answer(1, terminalId="mine"))
    shown, asked = talk.messages[-2:]
    assert shown["params"]["update"]["content"] == [{"type": "terminal", "terminalId": "mine"}]
    assert asked["params"]["terminalId"] == "mine"


def test_without_its_terminal_nothing_is_asked_of_it() -> None:
    refusal = {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "No"}}
    talk = begun(*TERMINALS).send(prompt("p")).send(refusal)
    assert talk.to("p")["result"] == END
    assert talk.messages[-2]["params"]["update"]["content"] == []


# ---- prompts -----------------------------------------------------------------------------------


def test_a_prompt_with_another_text_is_played_and_reported() -> None:
    talk = begun(*TURN).send(prompt("p", "hello"))
    assert talk.texts() == "one two"
    assert talk.replay.reports == ["line 5: the prompt is 'hello', the recorded one 'hi'"]


def test_with_strict_a_prompt_with_another_text_is_refused_and_may_be_sent_again() -> None:
    talk = begun(*TURN, strict=True).send(prompt("p", "hello"))
    assert talk.to("p")["error"]["data"] == {"reason": "expected 'hi'"}
    assert talk.replay.deviated
    assert talk.send(prompt("q")).to("q")["result"] == END


def test_after_the_last_turn_prompts_get_an_error_that_says_so() -> None:
    talk = begun(*TURN).send(prompt("p")).send(prompt("q"))
    error = talk.to("q")["error"]
    assert (error["code"], error["message"]) == (-32600, "The recording is over")
    assert error["data"]["reason"].startswith("it has 1 prompt of this session")


def test_a_prompt_that_is_sent_during_a_turn_is_the_next_turn() -> None:
    talk = begun(*ASKING, *SECOND).send(prompt("p")).send(prompt("q", "more"))
    assert talk.texts() == ""
    talk.send(choose("yes"))
    assert talk.texts() == "donethree"
    assert talk.to("q")["result"] == END


def test_a_turn_that_the_recording_does_not_end_fails() -> None:
    talk = begun(*TURN[:2]).send(prompt("p"))
    assert talk.texts() == "one "
    assert talk.to("p")["error"]["message"] == "The recording is over"


def test_an_agent_that_exited_in_a_turn_exits_again() -> None:
    data = tape(*HELLO, *TURN[:2]) + b'{"dir": "exit", "code": 3, "signal": null}\n'
    talk = Talk(data).send(HELLO[0][1]).send(HELLO[2][1]).send(prompt(3))
    assert talk.texts() == "one "
    assert talk.replay.exit_code == 3


def test_a_loop_starts_again_with_other_ids() -> None:
    call = ("a2c", update(**CALL))
    turn = [TURN[0], call, *TURN[1:]]
    talk = begun(*turn, *SECOND, loop=True)
    for number in range(5):
        talk.send(prompt(f"p{number}"))
        assert talk.to(f"p{number}")["result"] == END
    assert talk.texts() == "one twothree" * 2 + "one two"
    calls = [each["params"]["update"] for each in talk.messages if "params" in each]
    ids = [each["toolCallId"] for each in calls if "toolCallId" in each]
    assert ids == ["t", "t~2", "t~3"]


# ---- cancelling --------------------------------------------------------------------------------


def cancel(session: str = "s") -> Json:
    return notify("session/cancel", sessionId=session)


def test_a_recorded_cancel_is_waited_for() -> None:
    talk = begun(*SLOW).send(prompt("p")).wait()
    assert talk.texts() == "slowlymore"
    assert talk.replay.reports == [
        "line 8: waiting for session/cancel, which the recorded client sent here"
    ]
    talk.send(cancel())
    assert talk.texts() == "slowlymorestopping"
    assert talk.to("p")["result"] == {"stopReason": "cancelled"}


def test_a_cancel_that_comes_earlier_than_recorded_leaves_out_what_was_before_it() -> None:
    talk = begun(*SLOW, speed=1.0).wait().send(prompt("p"))
    talk.now += 0.15
    talk.run()
    talk.send(cancel()).wait()
    assert talk.texts() == "slowlystopping"
    assert talk.to("p")["result"] == {"stopReason": "cancelled"}


@pytest.mark.parametrize("how", [cancel(), notify("$/cancel_request", requestId="p")])
def test_a_cancel_that_the_recording_does_not_have_ends_the_turn(how: Json) -> None:
    talk = begun(*ASKING, *SECOND).send(prompt("p")).send(how)
    assert talk.to("p")["result"] == {"stopReason": "cancelled"}
    talk.send(answer(0, outcome={"outcome": "cancelled"}))
    assert talk.texts() == ""
    assert talk.replay.reports == ["line 5: the client cancelled this turn; the recorded did not"]
    assert talk.send(prompt("q", "more")).texts() == "three"


def test_a_cancel_right_after_the_prompt_is_not_lost() -> None:
    late = [*TURN, ("a2c", words("late")), *ASKING]
    talk = begun(*late, speed=1.0).wait().send(prompt("p"))
    talk.now += 0.35
    talk.run()
    talk.send(prompt("q")).send(cancel()).wait()
    assert talk.texts() == "one twolate"
    assert talk.to("q")["result"] == {"stopReason": "cancelled"}


def test_a_cancel_outside_of_a_turn_does_nothing() -> None:
    talk = begun(*TURN).send(cancel()).send(prompt("p"))
    assert talk.to("p")["result"] == END
    assert talk.send(cancel()).send(cancel("unknown")).to("p")["result"] == END


def test_a_prompt_that_waits_can_be_withdrawn() -> None:
    talk = begun(*ASKING, *SECOND).send(prompt("p")).send(prompt("q"))
    talk.send(notify("$/cancel_request", requestId="q"))
    assert talk.to("q")["error"]["code"] == -32800
    assert talk.send(choose("yes")).send(prompt("r", "more")).texts() == "donethree"


V2 = [
    ("c2a", request(1, "initialize", protocolVersion=2)),
    ("a2c", answer(1, protocolVersion=2, info={"name": "a", "version": "1"}, capabilities={})),
    ("c2a", new(2)),
    ("a2c", answer(2, sessionId="s")),
    ("c2a", prompt(3)),
    ("a2c", answer(3, messageId="u")),
    ("a2c", update(sessionUpdate="state_update", state="running")),
    ("a2c", ASK),
    ("c2a", choose("yes")),
    ("a2c", update(sessionUpdate="state_update", state="idle", stopReason="end_turn")),
]


def states(talk: Talk) -> list[Json]:
    """The states after the first."""
    updates = updates_in(talk.messages)
    return [each for each in updates if each["sessionUpdate"] == "state_update"][1:]


def test_in_version_2_a_turn_is_cancelled_by_its_state() -> None:
    talk = Talk(tape(*V2)).send(V2[0][1]).send(new(2)).send(prompt("p")).send(cancel())
    assert talk.to("p")["result"] == {"messageId": "u"}
    assert states(talk) == [
        {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
    ]


def test_in_version_2_a_turn_fails_by_its_state() -> None:
    talk = Talk(tape(*V2), strict=True).send(V2[0][1]).send(new(2)).send(prompt("p"))
    (failed,) = states(talk.send(choose("no")))
    assert failed["stopReason"] == "error"
    assert failed["error"]["message"] == "The client deviates from the recording"


# ---- other requests ----------------------------------------------------------------------------

MODE = [
    ("c2a", request(8, "session/set_mode", sessionId="s", modeId="code")),
    ("a2c", update(sessionUpdate="current_mode_update", currentModeId="code")),
    ("a2c", answer(8)),
]


def test_a_request_that_this_client_does_not_send_is_passed_over_with_what_came_of_it() -> None:
    talk = begun(*TURN, *MODE, *SECOND).send(prompt("p")).send(prompt("q", "more"))
    assert talk.texts() == "one twothree"
    kinds = [
        each["params"]["update"]["sessionUpdate"] for each in talk.messages if "params" in each
    ]
    assert "current_mode_update" not in kinds


def test_a_request_at_another_place_gets_its_recorded_answer() -> None:
    talk = begun(*TURN, *MODE, *SECOND)
    talk.send(request("m", "session/set_mode", sessionId="s", modeId="code"))
    assert talk.to("m")["result"] == {}
    assert talk.send(prompt("p")).texts() == "one two"


def test_a_request_that_the_recording_does_not_have_gets_an_error() -> None:
    talk = begun(*TURN).send(request("m", "session/set_mode", sessionId="s", modeId="code"))
    error = talk.to("m")["error"]
    assert (error["code"], error["message"]) == (-32601, "Not in the recording")
    assert error["data"] == {"reason": "the recording has no session/set_mode at this place"}


OFFER: Json = {
    "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]},
    "configOptions": [{"id": "model", "currentValue": "a"}, {"id": "effort", "currentValue": 1}],
}
OFFERING = [*HELLO[:3], ("a2c", answer(2, sessionId="s", **OFFER)), *TURN]


def test_a_mode_and_an_option_that_the_agent_offered_can_be_chosen() -> None:
    talk = Talk(tape(*OFFERING)).send(HELLO[0][1]).send(new(2))
    talk.send(request("m", "session/set_mode", sessionId="s", modeId="code"))
    assert talk.to("m")["result"] == {}
    assert updates_in(talk.messages) == [
        {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    ]
    params = {"sessionId": "s", "configId": "model", "value": "b"}
    talk.send(request("o", "session/set_config_option", **params))
    options = [{"id": "model", "currentValue": "b"}, OFFER["configOptions"][1]]
    assert talk.to("o")["result"] == {"configOptions": options}
    loaded = talk.send(load("l")).to("l")["result"]
    assert loaded["modes"]["currentModeId"] == "code"
    assert loaded["configOptions"] == options


@pytest.mark.parametrize(
    "params", [{"modeId": "none"}, {"modeId": 3}, {"configId": "none", "value": 1}, {}]
)
def test_what_the_agent_did_not_offer_cannot_be_chosen(params: Json) -> None:
    method = "session/set_config_option" if "configId" in params else "session/set_mode"
    talk = Talk(tape(*OFFERING)).send(HELLO[0][1]).send(new(2))
    talk.send(request("m", method, sessionId="s", **params))
    assert talk.to("m")["error"]["message"] == "Not in the recording"


@pytest.mark.parametrize("method", ["session/close", "session/delete", "authenticate"])
def test_what_does_no_harm_is_granted_without_a_recorded_answer(method: str) -> None:
    assert begun(*TURN).send(request("x", method, sessionId="s")).to("x")["result"] == {}


def test_the_recorded_sessions_can_be_listed() -> None:
    talk = begun(*TURN).send(request("l", "session/list"))
    assert talk.to("l")["result"] == {"sessions": [{"sessionId": "s", "cwd": "/work"}]}


def test_an_unknown_session_gets_an_error() -> None:
    error = begun(*TURN).send(prompt("p", session="other")).to("p")["error"]
    assert (error["code"], error["data"]["reason"]) == (
        -32002,
        "the recording has no session 'other'",
    )


@pytest.mark.parametrize(
    "message",
    [
        request(9, "session/prompt"),
        request(9, "session/prompt", sessionId="s", prompt="text"),
        request(9, "session/load", sessionId=3),
        request(9, "session/new", cwd=3),
        {"jsonrpc": "2.0", "id": 9, "method": "_x", "params": [1]},
        notify("session/cancel", sessionId=[]),
        notify("$/cancel_request", requestId={}),
        answer(0, outcome=3),
        {"jsonrpc": "2.0", "id": 0, "result": []},
        {"jsonrpc": "2.0", "id": 77, "error": "x"},
    ],
)
def test_malformed_messages_of_a_client_do_no_harm(message: Json) -> None:
    talk = begun(*ASKING, *SECOND).send(prompt("p")).send(message)
    talk.send(choose("yes")).send(notify("session/cancel", sessionId="s"))
    assert talk.to("p")["result"] == END


# ---- sessions ----------------------------------------------------------------------------------

OTHER = [
    ("c2a", new(10, "/other")),
    ("a2c", answer(10, sessionId="s2")),
    ("c2a", prompt(11, "hi", "s2")),
    ("a2c", words("of two", "s2")),
    ("a2c", answer(11, **END)),
]


def test_sessions_are_played_each_by_itself() -> None:
    talk = begun(*TURN, *OTHER).send(new("n2"))
    assert talk.to("n2")["result"] == {"sessionId": "s2"}
    assert talk.send(prompt("p2", session="s2")).texts() == "of two"
    assert talk.send(prompt("p")).texts() == "of twoone two"


def test_only_the_chosen_session_is_played() -> None:
    talk = begun(*TURN, *OTHER, session="s2")
    assert talk.to("n")["result"] == {"sessionId": "s2"}
    assert talk.send(new("n2")).to("n2")["error"]["message"] == "The recording is over"


def test_a_loop_has_further_sessions() -> None:
    talk = begun(*TURN, loop=True).send(new("n2"))
    identity = talk.to("n2")["result"]["sessionId"]
    assert identity == "s~2"
    talk.send(prompt("p", session=identity))
    assert talk.texts() == "one two"
    assert talk.messages[-2]["params"]["sessionId"] == identity


def test_what_a_client_may_make_of_a_loop_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "SESSIONS", 2)
    monkeypatch.setattr(replay, "WAITING", 1)
    talk = begun(*ASKING, loop=True).send(new("n2")).send(new("n3"))
    assert talk.to("n3")["error"]["message"] == "Too many sessions"
    talk.send(prompt("p")).send(prompt("q")).send(prompt("r"))
    assert talk.to("r")["error"]["message"] == "Too many prompts"
    talk.send(choose("yes")).send(choose("yes"))
    assert talk.to("q")["result"] == END


LOAD = [
    ("c2a", request(20, "session/load", sessionId="s", cwd="/work", mcpServers=[])),
    ("a2c", words("as it was")),
    ("a2c", answer(20, modes={"a": 1})),
]


def load(identity: Any, session: str = "s", method: str = "session/load") -> Json:
    return request(identity, method, sessionId=session, cwd="/work", mcpServers=[])


def test_a_recorded_load_is_played() -> None:
    talk = begun(*TURN, *LOAD, *SECOND).send(prompt("p")).send(load("l"))
    assert talk.texts() == "one twoas it was"
    assert talk.to("l")["result"] == {"modes": {"a": 1}}
    assert talk.send(prompt("q", "more")).texts() == "one twoas it wasthree"


def test_a_session_that_was_not_played_yet_is_loaded_with_all_it_held() -> None:
    talk = Talk(tape(*HELLO, *TURN, *SECOND)).send(HELLO[0][1]).send(load("l"))
    texts = [each["params"]["update"]["content"]["text"] for each in talk.messages[1:-1]]
    assert texts == ["hi", "one ", "two", "more", "three"]
    assert talk.to("l")["result"] == {"modes": None}
    assert talk.send(prompt("p")).to("p")["error"]["message"] == "The recording is over"


def test_a_session_that_was_played_in_part_is_loaded_with_that_part() -> None:
    talk = begun(*TURN, *SECOND).send(prompt("p"))
    before = len(talk.messages)
    talk.send(load("l"))
    texts = [each["params"]["update"]["content"]["text"] for each in talk.messages[before:-1]]
    assert texts == ["hi", "one ", "two"]
    assert talk.send(prompt("q", "more")).to("q")["result"] == END


def test_a_session_is_resumed_without_a_replay_and_then_played() -> None:
    talk = Talk(tape(*HELLO, *TURN)).send(HELLO[0][1])
    talk.send(load("r", method="session/resume"))
    assert len(talk.messages) == 2
    assert talk.send(prompt("p")).texts() == "one two"


def test_a_session_that_was_loaded_in_the_recording_can_be_begun() -> None:
    talk = Talk(tape(*HELLO[:2], *LOAD, *TURN)).send(HELLO[0][1]).send(new("n"))
    assert talk.to("n")["result"] == {"sessionId": "s", "modes": {"a": 1}}
    assert talk.send(prompt("p")).texts() == "as it wasone two"


FORK = [
    ("c2a", request(30, "session/fork", sessionId="s", cwd="/work")),
    ("a2c", words("forked", "f")),
    ("a2c", answer(30, sessionId="f")),
]


def test_a_fork_begins_a_session_of_its_own() -> None:
    talk = begun(*TURN, *FORK).send(prompt("p"))
    assert talk.texts() == "one two"
    talk.send(request("f", "session/fork", sessionId="s", cwd="/work"))
    assert talk.texts() == "one twoforked"
    assert talk.to("f")["result"] == {"sessionId": "f"}


def test_a_refused_session_is_refused_before_the_login() -> None:
    login = {"jsonrpc": "2.0", "id": 5, "error": {"code": -32000, "message": "Log in"}}
    steps = [*HELLO[:2], ("c2a", new(5)), ("a2c", login)]
    steps += [("c2a", request(6, "authenticate", methodId="t")), ("a2c", answer(6))]
    talk = Talk(tape(*steps, *HELLO[2:], *TURN)).send(HELLO[0][1]).send(new("a"))
    assert talk.to("a")["error"]["message"] == "Log in"
    talk.send(request("b", "authenticate", methodId="t")).send(new("c"))
    assert talk.to("c")["result"]["sessionId"] == "s"


def test_what_is_not_of_a_session_waits_for_what_the_recorded_client_did_before() -> None:
    status = ("a2c", notify("_auth/status", ok=True))
    talk = Talk(tape(*HELLO[:3], status, *HELLO[3:], *TURN)).send(HELLO[0][1]).wait()
    assert len(talk.lines) == 1
    talk.send(new("n"))
    assert [each.get("method", "answer") for each in talk.messages[1:]] == [
        "_auth/status",
        "answer",
    ]


# ---- the law -----------------------------------------------------------------------------------

NAMES = ["claude.v1", "codex.v2", "fastagent.v1", "gemini.v1", "opencode.v1"]


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_follows_a_real_conversation_ends_with_the_same_sessions(
    name: str, shared: Callable[[str], Path]
) -> None:
    data = shared(f"transcripts/{name}.jsonl").read_bytes()
    talk = follow(data, Talk(data))
    assert folded(talk.record) == folded(data)
    assert all("waiting for session/cancel" in each for each in talk.replay.reports)


@pytest.mark.parametrize("name", NAMES)
def test_at_any_speed_and_with_the_same_ids_every_byte_of_a_real_agent_is_sent(
    name: str, shared: Callable[[str], Path]
) -> None:
    data = shared(f"transcripts/{name}.jsonl").read_bytes()
    talk = follow(
        data, Talk(data, speed=3.0), lambda identity: json.loads(identity.partition(":")[2])
    )
    recorded = [each.raw for each in entries_of(data) if each.sender == "agent" and each.message]
    assert [line.removesuffix(b"\n") for line in talk.lines] == recorded
    assert talk.times == sorted(talk.times)


ITEMS = st.sampled_from(["text", "thought", "call", "ask", "read", "cancel", "mode"])


def turn(number: int, items: list[str], session: str) -> list[tuple[str, Json]]:
    """A turn of any content, which a client may cancel."""
    steps = [("c2a", prompt(100 + number, f"prompt {number}", session))]
    stop = "end_turn"
    for place, item in enumerate(items):
        identity = f"{number}.{place}"
        match item:
            case "text":
                steps.append(("a2c", words(identity, session)))
            case "thought":
                content = {"type": "text", "text": identity}
                thought = update(session, sessionUpdate="agent_thought_chunk", content=content)
                steps.append(("a2c", thought))
            case "call":
                steps.append(("a2c", update(session, **{**CALL, "toolCallId": identity})))
            case "ask":
                asked = {
                    **ASK["params"],
                    "sessionId": session,
                    "toolCall": {"toolCallId": identity},
                }
                steps.append(("a2c", request(place, ASK["method"], **asked)))
                steps.append(("c2a", choose("no" if place % 2 else "yes", place)))
            case "read":
                steps.append(("a2c", request(place, READ["method"], sessionId=session, path="/a")))
                steps.append(("c2a", answer(place, content="a")))
            case "mode":
                changed = {"sessionUpdate": "current_mode_update", "currentModeId": identity}
                steps.append(("a2c", update(session, **changed)))
            case "cancel" if stop == "end_turn":
                steps.append(("c2a", cancel(session)))
                stop = "cancelled"
    return [*steps, ("a2c", answer(100 + number, stopReason=stop))]


TURNS = st.lists(
    st.tuples(st.sampled_from(["s", "s2"]), st.lists(ITEMS, max_size=6)), min_size=1, max_size=5
)


@given(turns=TURNS, speed=st.sampled_from([1.0, 7.5, inf]))
def test_a_client_that_follows_a_recording_ends_with_the_same_sessions(
    turns: list[tuple[str, list[str]]], speed: float
) -> None:
    capable = {"fs": {"readTextFile": True}}
    first = request(1, "initialize", protocolVersion=1, clientCapabilities=capable)
    steps = [("c2a", first), *HELLO[1:], ("c2a", new(9)), ("a2c", answer(9, sessionId="s2"))]
    for number, (session, items) in enumerate(turns):
        steps += turn(number, items, session)
    data = tape(*steps)
    talk = follow(data, Talk(data, speed=speed))
    assert folded(talk.record) == folded(data)


@given(turns=TURNS, data=st.data())
def test_whatever_a_client_does_every_request_of_it_gets_one_answer(
    turns: list[tuple[str, list[str]]], data: st.DataObject
) -> None:
    """Once it has answered what it was asked and cancelled what waits for a cancel."""
    steps = [*HELLO, ("c2a", new(9)), ("a2c", answer(9, sessionId="s2"))]
    for number, (session, items) in enumerate(turns):
        steps += turn(number, items, session)
    talk = Talk(tape(*steps)).send(HELLO[0][1]).send(new("a")).send(new("b"))
    acts = ["prompt", "cancel", "mode", "load", "list", "resume", "close", "choose", "withdraw"]
    sent: list[Any] = [1, "a", "b"]
    for act in data.draw(st.lists(st.sampled_from(acts), max_size=12)):
        session, identity = data.draw(st.sampled_from(["s", "s2"])), f"x{len(sent)}"
        if act == "cancel":
            talk.send(cancel(session))
        elif act == "withdraw":
            talk.send(notify("$/cancel_request", requestId=sent[-1]))
        elif act == "choose":
            talk.send(choose("yes", data.draw(st.integers(0, 4))))
        else:
            method = {"mode": "session/set_mode"}.get(act, f"session/{act}")
            sent.append(identity)
            talk.send(request(identity, method, sessionId=session, modeId="a", prompt=TEXT))
    for _ in range(60):  # each turn of it waits at most for so many answers and cancels
        asked = [each["id"] for each in talk.messages if "method" in each and "id" in each]
        for identity in asked:
            talk.send(choose("yes", identity))
        talk.send(cancel("s")).send(cancel("s2"))
    for identity in sent:
        talk.to(identity)


@given(
    records=st.lists(RECORDS, max_size=12),
    messages=st.lists(MESSAGES, max_size=10),
    loop=st.booleans(),
)
def test_no_recording_and_no_client_makes_a_replay_raise(
    records: list[Any], messages: list[Json], loop: bool
) -> None:
    data = b"".join(json.dumps(each).encode() + b"\n" for each in records)
    talk = Talk(data, loop=loop, strict=len(records) % 2 == 0)
    for message in messages:
        talk.send(message).wait()
    for each in talk.lines:
        assert each.endswith(b"\n")


def mutated(steps: list[tuple[str, Json]], data: st.DataObject) -> list[tuple[str, Json]]:
    """Messages, some of them left out, repeated, in another place, or with junk in them."""
    made = list(steps)
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(made) - 1))
        way, message = made[place]
        match data.draw(st.sampled_from(["drop", "repeat", "move", "turn", "junk"])):
            case "drop" if len(made) > 1:
                del made[place]
            case "repeat":
                made.insert(place, made[place])
            case "move":
                made.insert(data.draw(st.integers(0, len(made) - 1)), made.pop(place))
            case "turn":
                made[place] = ("c2a" if way == "a2c" else "a2c", message)
            case "junk":
                member = data.draw(st.sampled_from(sorted(message)))
                inner = message[member]
                if isinstance(inner, dict) and inner:
                    name = data.draw(st.sampled_from(sorted(inner)))
                    made[place] = (way, {**message, member: {**inner, name: data.draw(JUNK)}})
                elif member not in ("jsonrpc", "method"):
                    made[place] = (way, {**message, member: data.draw(JUNK)})
    return made


@given(turns=TURNS, data=st.data(), loop=st.booleans(), strict=st.booleans())
def test_a_recording_that_is_broken_anywhere_makes_no_replay_raise(
    turns: list[tuple[str, list[str]]], data: st.DataObject, loop: bool, strict: bool
) -> None:
    steps = [*HELLO, ("c2a", new(9)), ("a2c", answer(9, sessionId="s2"))]
    for number, (session, items) in enumerate(turns):
        steps += turn(number, items, session)
    talk = Talk(tape(*mutated(steps, data)), loop=loop, strict=strict)
    for way, message in mutated(steps, data):
        if way == "c2a":
            talk.send(message).wait()
    assert all(line.endswith(b"\n") for line in talk.lines)
