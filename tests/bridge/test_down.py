"""A client of version 1 and an agent of version 2, one message at a time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.bridge_stage import text
from tests.support.down_talk import (
    ACTION,
    CHOSEN,
    DISMISSED,
    IDLE,
    OPTIONS,
    RUNNING,
    SNAPSHOT,
    STOPPED,
    Json,
    S,
    Talk,
    call,
    chunk,
    printed,
    shell,
    whole,
)
from twofold.bridge.down import GATHER, OWN, SETTLE, SETTLE_UNSURE

# ---- requests --------------------------------------------------------------------------------

MODE = {
    "configId": "session-mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}
MODE_V1 = {**{key: MODE[key] for key in MODE if key != "configId"}, "id": "session-mode"}
TOGGLE = {"configId": "fast", "name": "Fast", "type": "boolean", "currentValue": True}
TOGGLE_V1 = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": True}
MODES_V1 = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}
SERVER_V1 = {"name": "x", "command": "/x", "args": [], "env": []}


@pytest.mark.parametrize(
    ("method", "params", "at_agent", "params_there", "result", "result_here"),
    [
        ("authenticate", {"methodId": "m"}, "auth/login", {"methodId": "m"}, {}, {}),
        ("logout", {}, "auth/logout", {}, {}, {}),
        (
            "session/new",
            {"cwd": "/w", "mcpServers": [SERVER_V1]},
            "session/new",
            {"cwd": "/w", "mcpServers": [{"type": "stdio", **SERVER_V1}]},
            {"sessionId": "s", "configOptions": [MODE]},
            {"sessionId": "s", "modes": MODES_V1, "configOptions": [MODE_V1]},
        ),
        (
            "session/load",
            {"sessionId": "s", "cwd": "/w", "mcpServers": []},
            "session/resume",
            {"sessionId": "s", "cwd": "/w", "mcpServers": [], "replayFrom": {"type": "start"}},
            {},
            {},
        ),
        (
            "session/resume",
            {"sessionId": "s", "cwd": "/w"},
            "session/resume",
            {"sessionId": "s", "cwd": "/w"},
            None,
            {},
        ),
        (
            "session/list",
            {"cwd": "/w"},
            "session/list",
            {"cwd": "/w"},
            {"sessions": [{"sessionId": "s", "cwd": "/w"}], "nextCursor": None},
            {"sessions": [{"sessionId": "s", "cwd": "/w"}], "nextCursor": None},
        ),
        ("session/close", {"sessionId": "s"}, "session/close", {"sessionId": "s"}, {}, {}),
        ("session/delete", {"sessionId": "s"}, "session/delete", {"sessionId": "s"}, {}, {}),
        (
            "session/set_config_option",
            {"sessionId": "s", "configId": "fast", "value": True, "type": "boolean"},
            "session/set_config_option",
            {"sessionId": "s", "configId": "fast", "type": "boolean", "value": True},
            {"configOptions": [TOGGLE]},
            {"configOptions": [TOGGLE_V1]},
        ),
        ("_acme/x", {"a": [1]}, "_acme/x", {"a": [1]}, {"b": None}, {"b": None}),
        ("future/method", {"a": 1}, "future/method", {"a": 1}, 5, 5),
    ],
)
def test_a_request_of_the_client_is_asked_and_answered_in_the_words_of_each_side(
    method: str, params: Any, at_agent: str, params_there: Any, result: Any, result_here: Any
) -> None:
    talk = Talk()
    asked = talk.ask(method, params)
    (there,) = talk.agent.messages
    assert there["method"] == at_agent
    assert there["params"] == params_there
    talk.answer(there, result)
    talk.fire()
    assert talk.result(asked) == result_here
    assert not talk.down.agent.pending
    assert not talk.problems


@pytest.mark.parametrize(
    "method",
    [
        *("authenticate", "session/new", "session/load", "session/list", "session/close"),
        *("session/set_mode", "session/set_config_option", "session/prompt", "_x"),
    ],
)
def test_an_error_of_the_agent_comes_back_as_it_is(method: str) -> None:
    talk = Talk()
    params = {
        "methodId": "m",
        "sessionId": "s",
        "cwd": "/w",
        "mcpServers": [],
        "modeId": "x",
        "configId": "c",
        "value": "v",
        "prompt": [text("hi")],
    }
    asked = talk.ask(method, params)
    talk.refuse(talk.agent.messages[-1], -32000, "log in first", data={"how": ["a", None]})
    assert talk.error(asked) == {
        "code": -32000,
        "message": "log in first",
        "data": {"how": ["a", None]},
    }


def test_ids_of_both_sides_do_not_meet() -> None:
    talk = Talk()
    talk.from_client(id="a", method="_x", params={})
    talk.from_client(id=0, method="_y", params={})
    talk.from_agent(id="a", method="_z", params={})
    first, second = talk.agent.messages
    assert len({first["id"], second["id"]}) == 2
    talk.answer(second, "y")
    talk.answer(first, "x")
    assert (talk.result("a"), talk.result(0)) == ("x", "y")
    talk.answer(talk.shown("_z"), "z")
    assert talk.agent_result("a") == "z"


def test_a_malformed_request_is_refused_and_not_sent_to_the_agent() -> None:
    talk = Talk()
    asked = talk.ask("session/prompt", {"sessionId": "s", "prompt": "not a list"})
    assert talk.error(asked)["code"] == -32602
    assert talk.agent.messages == []
    assert not talk.down.sessions.get("s", talk.down.session("s")).turns


def test_an_answer_that_is_malformed_becomes_an_error() -> None:
    talk = Talk()
    asked = talk.ask("session/new", {"cwd": "/w", "mcpServers": []})
    talk.answer(talk.asked("session/new"), {"sessionId": 5})
    assert talk.error(asked)["code"] == -32603


def test_unknown_notifications_pass_unread_both_ways() -> None:
    talk = Talk()
    talk.from_client(method="_x", params={"a": 1})
    talk.from_agent(method="elicitation/complete", params={"elicitationId": "e"})
    talk.from_agent(method="_status", params=[1])
    assert talk.agent.messages == [{"jsonrpc": "2.0", "method": "_x", "params": {"a": 1}}]
    assert [each["method"] for each in talk.client.messages] == ["elicitation/complete", "_status"]


# ---- sessions --------------------------------------------------------------------------------

COMMANDS = [{"type": "command", "name": "go", "description": "Go", "input": None}]


def test_commands_of_a_result_follow_it_as_an_update() -> None:
    talk = Talk()
    asked = talk.ask("session/new", {"cwd": "/w", "mcpServers": []})
    result = {"sessionId": "s", "availableCommands": COMMANDS}
    talk.answer(talk.asked("session/new"), result)
    assert talk.client.messages[0]["id"] == asked
    (update,) = talk.updates()
    assert update["sessionUpdate"] == "available_commands_update"
    assert update["availableCommands"] == [{"name": "go", "description": "Go"}]
    assert talk.lost == []


def test_commands_that_cannot_be_sent_do_not_answer_a_request_twice() -> None:
    talk = Talk(strict=True)
    asked = talk.ask("session/new", {"cwd": "/w", "mcpServers": []})
    unknown = {"type": "_menu", "name": "go", "description": "Go"}
    talk.answer(talk.asked("session/new"), {"sessionId": "s", "availableCommands": [unknown]})
    assert talk.result(asked) == {"sessionId": "s"}
    assert talk.updates() == []
    assert talk.log.refused == 1


def test_a_load_shows_everything_again() -> None:
    talk = Talk()
    talk.update(call(title="Read"), chunk("A"), shell("d"), printed("out"))
    loading = talk.ask("session/load", {"sessionId": S, "cwd": "/w", "mcpServers": []})
    before = len(talk.updates())
    assert talk.updates()[-1]["content"][0]["content"]["text"] == "out"  # it was not lost
    talk.update(call(title="Read"), whole("A"), chunk("B", "u1", "user_message"), SNAPSHOT)
    talk.answer(talk.asked("session/resume"), {})
    again = talk.updates()[before:]
    tags = [each["sessionUpdate"] for each in again]
    assert tags == ["tool_call", "agent_message_chunk", "user_message_chunk"]
    assert talk.client.messages[-1]["id"] == loading


def test_everything_that_was_replayed_is_handled_before_the_result() -> None:
    talk = Talk()
    loading = talk.ask("session/load", {"sessionId": S, "cwd": "/w", "mcpServers": []})
    talk.update(shell(), printed("out"), whole(message_id="a"), SNAPSHOT)
    talk.answer(talk.asked("session/resume"), {})
    *_, output, last = talk.client.messages
    assert shown_text(output["params"]["update"]) == "out"
    assert last["id"] == loading
    assert "version 1 has no empty messages" in talk.reasons
    assert not talk.timers


def test_a_replay_that_goes_on_after_the_answer_is_sent_before_the_clients_answer() -> None:
    talk = Talk()
    loading = talk.ask("session/load", {"sessionId": S, "cwd": "/w", "mcpServers": []})
    talk.update(chunk("A"))
    talk.answer(talk.asked("session/resume"), {})
    assert talk.answers(loading) == []
    talk.update(chunk("B"), shell(), printed("out"))
    assert talk.answers(loading) == []
    talk.fire()
    assert talk.result(loading) == {}
    assert talk.client.messages[-1]["id"] == loading
    assert talk.text("agent_message_chunk") == "AB"
    assert not talk.timers


@pytest.mark.parametrize("event", ["prompt", "death", "close", "load"])
def test_a_wait_for_silence_ends_early_with_the_next_event(event: str) -> None:
    talk = Talk()
    load = {"sessionId": S, "cwd": "/w", "mcpServers": []}
    loading = talk.ask("session/load", load)
    talk.answer(talk.asked("session/resume"), {})
    if event == "prompt":
        talk.prompt()
    elif event == "death":
        talk.die()
    elif event == "close":
        talk.ask("session/close", {"sessionId": S})
        talk.answer(talk.asked("session/close"), {})
    else:
        talk.ask("session/load", load)
    assert talk.result(loading) == {}
    talk.leave()
    assert not talk.timers


def test_a_load_shows_the_prompts_of_the_client_itself_too() -> None:
    talk = Talk()
    talk.begin("u1", "hello")
    talk.update(IDLE)
    talk.ask("session/load", {"sessionId": S, "cwd": "/w", "mcpServers": []})
    talk.update(whole("hello", message_id="u1", kind="user_message"))
    assert talk.text("user_message_chunk") == "hello"


def test_a_load_that_is_refused_changes_nothing_that_was_shown() -> None:
    talk = Talk()
    talk.update(call(title="Read"))
    talk.ask("session/load", {"sessionId": S, "cwd": "/w", "mcpServers": []})
    talk.refuse(talk.asked("session/resume"), -32002)
    talk.update(call(status="completed"))
    assert [each["sessionUpdate"] for each in talk.updates()] == ["tool_call", "tool_call_update"]
    talk.ask("session/load", {"sessionId": "none", "cwd": "/w", "mcpServers": []})
    talk.refuse(talk.asked("session/resume"), -32002)
    assert list(talk.down.sessions) == [S]


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
def test_a_session_that_ends_settles_its_turn_and_its_questions(method: str) -> None:
    talk = Talk()
    prompt = talk.begin()
    talk.ask_permission()
    talk.update(shell(), printed("out"))
    asked = talk.ask(method, {"sessionId": S})
    talk.answer(talk.asked(method), {})
    assert talk.agent_result("q1") == DISMISSED
    assert talk.result(prompt) == {"stopReason": "cancelled"}
    assert talk.updates()[-1]["content"][0]["content"]["text"] == "out"
    assert [each.get("id") for each in talk.client.messages[-2:]] == [prompt, asked]
    assert not talk.down.sessions
    assert not talk.timers


def test_nothing_more_is_sent_of_a_session_that_was_closed() -> None:
    talk = Talk()
    talk.update(chunk("A"))
    talk.ask("session/close", {"sessionId": S})
    talk.answer(talk.asked("session/close"), {})
    before = len(talk.client.messages)
    talk.update(chunk("B"), IDLE)
    talk.ask_permission("q1")
    talk.agent_asks("elicitation/create", QUESTION, "q2")
    assert len(talk.client.messages) == before
    assert talk.agent_result("q1") == DISMISSED
    assert talk.agent_result("q2") == {"action": "cancel"}
    assert talk.reasons == ["the session was closed"] * 2
    assert not talk.down.sessions
    talk.ask("session/resume", {"sessionId": S, "cwd": "/w"})
    talk.answer(talk.asked("session/resume"), {})
    talk.update(chunk("C"))
    talk.ask_permission("q3")
    assert talk.text() == "AC"
    assert talk.shown("session/request_permission")


def test_a_session_that_could_not_be_closed_goes_on() -> None:
    talk = Talk()
    prompt = talk.begin()
    talk.ask("session/close", {"sessionId": S})
    talk.refuse(talk.asked("session/close"), -32603)
    assert not talk.answers(prompt)
    talk.update(IDLE)
    assert talk.result(prompt) == {"stopReason": "end_turn"}


def test_a_mode_is_set_by_the_option_of_its_category() -> None:
    talk = Talk()
    talk.ask("session/new", {"cwd": "/w", "mcpServers": []})
    talk.answer(talk.asked("session/new"), {"sessionId": S, "configOptions": [TOGGLE, MODE]})
    asked = talk.ask("session/set_mode", {"sessionId": S, "modeId": "code"})
    there = talk.asked("session/set_config_option")
    chosen = {"sessionId": S, "configId": "session-mode", "type": "id", "value": "code"}
    assert there["params"] == chosen
    options = [{**MODE, "currentValue": "code"}]
    talk.answer(there, {"configOptions": options})
    assert talk.result(asked) == {}
    tags = [each["sessionUpdate"] for each in talk.updates()]
    assert tags == ["config_option_update", "current_mode_update"]
    assert talk.updates()[-1]["currentModeId"] == "code"


def test_options_that_a_mode_brings_are_sent_once() -> None:
    talk = Talk()
    talk.update({"sessionUpdate": "config_option_update", "configOptions": [MODE]})
    talk.ask("session/set_mode", {"sessionId": S, "modeId": "code"})
    options = [{**MODE, "currentValue": "code"}]
    talk.update({"sessionUpdate": "config_option_update", "configOptions": options})
    before = len(talk.updates())
    talk.answer(talk.asked("session/set_config_option"), {"configOptions": options})
    assert len(talk.updates()) == before


def test_a_mode_that_is_set_as_an_option_is_sent_as_a_mode_too() -> None:
    talk = Talk()
    talk.update({"sessionUpdate": "config_option_update", "configOptions": [MODE]})
    before = len(talk.updates())
    params = {"sessionId": S, "configId": "session-mode", "value": "code"}
    asked = talk.ask("session/set_config_option", params)
    options = [{**MODE, "currentValue": "code"}]
    talk.answer(talk.asked("session/set_config_option"), {"configOptions": options})
    assert talk.updates()[before:] == [
        {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    ]
    assert talk.result(asked) == {"configOptions": [{**MODE_V1, "currentValue": "code"}]}
    talk.ask("session/set_config_option", {"sessionId": S, "configId": "other", "value": "x"})
    talk.answer(talk.asked("session/set_config_option"), {"configOptions": [*options, TOGGLE]})
    assert len(talk.updates()) == before + 1  # the mode is still the same


def test_boolean_options_are_only_for_clients_that_show_them() -> None:
    talk = Talk({})
    asked = talk.ask("session/new", {"cwd": "/w", "mcpServers": []})
    talk.answer(talk.asked("session/new"), {"sessionId": S, "configOptions": [TOGGLE, MODE]})
    assert talk.result(asked)["configOptions"] == [MODE_V1]
    talk.update({"sessionUpdate": "config_option_update", "configOptions": [TOGGLE]})
    assert talk.updates()[-1] == {"sessionUpdate": "config_option_update", "configOptions": []}
    asked = talk.ask(
        "session/set_config_option", {"sessionId": S, "configId": "session-mode", "value": "ask"}
    )
    talk.answer(talk.asked("session/set_config_option"), {"configOptions": [TOGGLE]})
    assert talk.result(asked) == {"configOptions": []}
    assert talk.reasons == ["the client does not show boolean options"] * 3


# ---- turns -----------------------------------------------------------------------------------


def test_a_prompt_is_answered_at_the_idle_that_ends_the_work_on_it() -> None:
    talk = Talk()
    prompt = talk.prompt("hello")
    there = talk.asked("session/prompt")
    assert there["params"] == {"sessionId": S, "prompt": [text("hello")]}
    talk.answer(there, {"messageId": "u1"})
    talk.update(RUNNING, chunk("A"), ACTION, RUNNING, chunk("B"))
    assert not talk.answers(prompt)
    usage = {"totalTokens": 3, "inputTokens": 2, "outputTokens": 1}
    talk.update({**IDLE, "usage": usage, "_meta": {"k": 1}, "_x": 2})
    assert talk.text() == "AB"
    assert talk.client.messages[-1]["id"] == prompt
    expected = {"stopReason": "end_turn", "usage": usage, "_meta": {"k": 1}, "_x": 2}
    assert talk.result(prompt) == expected
    talk.update(IDLE, SNAPSHOT, RUNNING, IDLE)
    assert len(talk.answers(prompt)) == 1
    assert not talk.timers


ORDERS = {
    "claude": ["echo", "result", RUNNING, chunk("A"), IDLE],
    "codex": [RUNNING, "chunked echo", "result", chunk("A"), IDLE],
    "June": ["June result", "echo", RUNNING, chunk("A"), IDLE],
    "no echo": ["result", RUNNING, chunk("A"), IDLE],
    "a result after the end": [RUNNING, chunk("A"), IDLE, "result"],
    "a result after the echo and the end": [RUNNING, "echo", chunk("A"), IDLE, "result"],
    "a snapshot first": [SNAPSHOT, "result", RUNNING, chunk("A"), IDLE],
    "idle before the work": ["result", IDLE, RUNNING, chunk("A"), IDLE],
    "an unknown state": ["result", {**RUNNING, "state": "_dreaming"}, chunk("A"), IDLE],
    "the words of version 1": [chunk("A"), "result of version 1"],
    "something else than a result": ["nonsense", RUNNING, chunk("A"), IDLE],
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_turn_ends_once_whatever_the_order(order: str) -> None:
    talk = Talk()
    prompt = talk.prompt("hel", "lo")
    there = talk.asked("session/prompt")
    results = {
        "result": {"messageId": "u1"},
        "June result": {},
        "result of version 1": {"stopReason": "end_turn"},
        "nonsense": ["what?"],
    }
    for step in ORDERS[order]:
        if isinstance(step, dict):
            talk.update(step)
        elif step in results:
            talk.answer(there, results[step])
        elif step == "echo":
            talk.update(whole("hel", "lo", message_id="u1", kind="user_message"))
        else:
            for piece in ("he", "l", "lo"):
                talk.update(chunk(piece, "u1", "user_message"))
    assert talk.result(prompt) == {"stopReason": "end_turn"}
    assert talk.client.messages[-1]["id"] == prompt
    assert talk.text("user_message_chunk") == ""
    assert talk.text() == "A"
    assert not talk.down.agent.pending
    assert not talk.timers
    assert [problem.kind for problem in talk.problems] == ["answer"] * (order.startswith("some"))
    assert talk.lost == []


def test_an_idle_that_no_work_led_up_to_ends_a_turn_if_no_work_follows() -> None:
    talk = Talk()
    prompt = talk.accepted()
    talk.update(chunk("A"), IDLE)
    assert not talk.answers(prompt)
    assert talk.fire() == [SETTLE]
    assert talk.result(prompt) == {"stopReason": "end_turn"}


def test_an_idle_of_an_agent_that_sent_nothing_is_given_more_time() -> None:
    talk = Talk()
    prompt = talk.accepted()
    talk.update(SNAPSHOT, IDLE)
    assert talk.timers == [SETTLE_UNSURE]
    talk.update(chunk("A"), IDLE, SNAPSHOT)
    assert talk.timers == [SETTLE]
    talk.fire()
    assert talk.result(prompt) == {"stopReason": "end_turn"}


def test_an_idle_after_other_work_is_given_more_time() -> None:
    talk = Talk()
    talk.update(RUNNING)
    prompt = talk.prompt()
    talk.update(chunk("A"), IDLE)
    talk.answer(talk.asked("session/prompt"), {"messageId": "u1"})
    assert talk.fire() == [SETTLE_UNSURE]
    assert talk.result(prompt) == {"stopReason": "end_turn"}


def test_work_that_begins_in_time_goes_on() -> None:
    talk = Talk()
    prompt = talk.accepted()
    talk.update(IDLE, RUNNING)
    talk.fire()
    assert not talk.answers(prompt)
    talk.update({**IDLE, "stopReason": "refusal"})
    assert talk.result(prompt) == {"stopReason": "refusal"}


def test_the_end_of_the_last_turn_is_not_the_end_of_the_next() -> None:
    talk = Talk()
    talk.begin()
    talk.update({**IDLE, "stopReason": "max_tokens"})
    prompt = talk.prompt()
    talk.answer(talk.asked("session/prompt"), {"messageId": "u2"})
    assert talk.timers == []  # a slow agent may take its time until it runs
    talk.update(RUNNING, IDLE)
    assert talk.result(prompt) == {"stopReason": "end_turn"}


def test_the_end_of_other_work_is_not_the_end_of_a_prompt_that_waits() -> None:
    talk = Talk()
    talk.update(RUNNING)
    prompt = talk.prompt()
    talk.update(ACTION, RUNNING, IDLE)
    talk.answer(talk.asked("session/prompt"), {"messageId": "u1"})
    assert not talk.answers(prompt)
    talk.update(RUNNING, chunk("A"), {**IDLE, "stopReason": "max_tokens"})
    assert talk.result(prompt) == {"stopReason": "max_tokens"}


def test_a_prompt_into_work_that_goes_on_ends_with_it() -> None:
    talk = Talk()
    first = talk.begin("u1")
    second = talk.prompt("and this")
    talk.answer(talk.asked("session/prompt"), {"messageId": "u2"})
    talk.update(chunk("A"), IDLE)
    assert talk.result(first) == talk.result(second) == {"stopReason": "end_turn"}


STOPS: dict[str, tuple[Json, Json, int]] = {
    "no reason": ({}, {"stopReason": "end_turn"}, 0),
    "null": ({"stopReason": None, "usage": None}, {"stopReason": "end_turn"}, 0),
    "a reason of the future": ({"stopReason": "_bored"}, {"stopReason": "end_turn"}, 1),
    "background work": (
        {"stopReason": "end_turn", "background": [{"type": "terminal", "terminalId": "t"}]},
        {"stopReason": "end_turn"},
        1,
    ),
    "max_turn_requests": (
        {"stopReason": "max_turn_requests"},
        {"stopReason": "max_turn_requests"},
        0,
    ),
}


@pytest.mark.parametrize("case", STOPS)
def test_a_stop_reason_is_one_that_version_1_has(case: str) -> None:
    fields, result, losses = STOPS[case]
    talk = Talk()
    prompt = talk.begin()
    talk.update({**SNAPSHOT, **fields})
    assert talk.result(prompt) == result
    assert len(talk.lost) == losses


def test_a_strict_bridge_does_not_pass_one_stop_reason_for_another() -> None:
    talk = Talk(strict=True)
    prompt = talk.begin()
    talk.update({**SNAPSHOT, "stopReason": "_bored"})
    assert talk.error(prompt)["code"] == -32603
    assert talk.log.refused == 1


ERRORS: dict[str, tuple[Json, Json]] = {
    "an error": (
        {"error": {"code": 400, "message": "bad", "data": {"a": 1}}},
        {"code": 400, "message": "bad", "data": {"a": 1}},
    ),
    "no error": ({}, {"code": -32603, "message": "The turn ended with an error"}),
    "null": ({"error": None}, {"code": -32603, "message": "The turn ended with an error"}),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("case", ERRORS)
def test_a_turn_that_ends_with_an_error_is_answered_with_it(case: str, strict: bool) -> None:
    fields, error = ERRORS[case]
    talk = Talk(strict=strict)
    prompt = talk.begin()
    talk.update(chunk("A"), {**SNAPSHOT, "stopReason": "error", **fields})
    assert talk.error(prompt) == error
    assert talk.client.messages[-1]["id"] == prompt
    assert talk.lost == []


@pytest.mark.parametrize("strict", [False, True])
def test_what_an_error_has_no_place_for_is_reported(strict: bool) -> None:
    talk = Talk(strict=strict)
    prompt = talk.begin()
    usage = {"totalTokens": 3, "inputTokens": 2, "outputTokens": 1}
    error = {"code": 1, "message": "overloaded"}
    idle = {**SNAPSHOT, "stopReason": "error", "error": error}
    talk.update({**idle, "usage": usage, "_meta": {"k": 1}})
    assert talk.error(prompt) == error
    assert [path for _, path, _ in talk.lost] == ["usage", "_meta"]


def test_an_end_that_is_too_deep_is_an_end_all_the_same() -> None:
    """What can just be read may be too deep to be written."""
    for depth in (10, *range(700, 1000, 5), 5_000):
        talk = Talk()
        prompt = talk.begin()
        idle = b'{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn","_meta":%b}'
        deep = b'{"k":%b}' % (b"[" * depth + b"]" * depth)
        params = b'{"sessionId":"s","update":%b}' % (idle % deep)
        talk.down.from_agent(b'{"jsonrpc":"2.0","method":"session/update","params":%b}' % params)
        talk.update(IDLE)
        assert len(talk.client.lines) == 1
        assert not talk.down.sessions[S].turns, prompt


def test_an_empty_prompt_is_refused() -> None:
    talk = Talk()
    asked = talk.ask("session/prompt", {"sessionId": S, "prompt": []})
    assert talk.error(asked)["code"] == -32602
    assert talk.agent.messages == []


# ---- the prompt's echo, and other user messages ----------------------------------------------


def test_user_messages_that_are_no_echo_are_shown() -> None:
    talk = Talk()
    talk.begin("u1", "hello")
    talk.update(chunk("from elsewhere", "u2", "user_message"))
    talk.update(whole("whole", message_id="u3", kind="user_message"))
    assert talk.text("user_message_chunk") == "from elsewherewhole"


def test_an_echo_is_known_though_another_message_comes_first() -> None:
    talk = Talk()
    talk.prompt("hello")
    talk.update(chunk("from elsewhere", "u2", "user_message"), chunk("hel", "u1", "user_message"))
    talk.update(chunk("lo", "u1", "user_message"))
    assert talk.text("user_message_chunk") == "from elsewhere"


def test_a_prompt_that_is_sent_again_after_its_turn_is_not_shown_twice() -> None:
    talk = Talk()
    talk.begin("u1", "hello")
    talk.update(IDLE)
    talk.update(whole("hello", message_id="u1", kind="user_message", _meta={"k": 1}))
    assert talk.updates() == []
    assert talk.reasons == ["version 1 cannot change a prompt that was sent"]


@pytest.mark.parametrize(
    "update",
    [
        whole("something else", message_id="u1", kind="user_message"),
        chunk("something else", "u1", "user_message"),
        whole("hello", message_id="u1", kind="user_message", _meta={"k": 1}),
    ],
)
def test_a_prompt_that_the_agent_changes_is_reported(update: Json) -> None:
    talk = Talk()
    talk.begin("u1", "hello")
    talk.update(update)
    assert talk.updates() == []
    assert talk.reasons == ["version 1 cannot change a prompt that was sent"]


def test_an_echo_that_begins_empty_is_no_loss() -> None:
    talk = Talk()
    talk.prompt("hello")
    empty = whole(message_id="u1", kind="user_message", _meta=None)
    talk.update(empty, chunk("hello", "u1", "user_message"))
    talk.answer(talk.asked("session/prompt"), {"messageId": "u1"})
    talk.update(empty, chunk("hel", "u1", "user_message"), chunk("lo", "u1", "user_message"))
    talk.update(RUNNING, IDLE)
    assert talk.updates() == []
    assert talk.lost == []


def test_what_is_known_of_old_prompts_is_limited() -> None:
    talk = Talk()
    for number in range(OWN + 10):
        talk.begin(f"u{number}")
        talk.update(IDLE)
    own = talk.down.sessions[S].own_messages
    assert len(own) == OWN
    assert f"u{OWN + 9}" in own


# ---- messages --------------------------------------------------------------------------------


def test_an_empty_message_that_its_chunks_follow_is_no_loss() -> None:
    """As an agent replays: an upsert without content, then the content."""
    talk = Talk()
    for kind in ("user_message", "agent_thought", "agent_message"):
        talk.update(whole(message_id="m", kind=kind, _meta=None), chunk(kind, "m", kind))
    talk.update(whole(message_id="n", _meta=None), {"sessionUpdate": "usage_update", **USAGE})
    talk.update(whole("n", message_id="n"))
    assert talk.text("user_message_chunk") == "user_message"
    assert talk.text("agent_thought_chunk") == "agent_thought"
    assert talk.text() == "agent_messagen"
    talk.down.finish(talk.down.sessions[S])
    assert talk.lost == []


USAGE: Json = {"used": 1, "size": 2}


@pytest.mark.parametrize("other", [chunk("B", "b"), call(title="Read"), whole("B", message_id="b")])
def test_an_empty_message_whose_place_is_taken_is_a_loss(other: Json) -> None:
    talk = Talk()
    prompt = talk.begin()
    talk.update(whole(message_id="a"), other, chunk("A", "a"), IDLE)
    assert talk.result(prompt)
    assert talk.reasons == ["version 1 has no empty messages"]


def test_an_empty_message_whose_place_a_question_takes_is_a_loss() -> None:
    talk = Talk()
    talk.begin()
    talk.update(whole(message_id="a"))
    talk.ask_permission(subject={"type": "tool_call", "toolCall": {"toolCallId": "c"}})
    talk.update(chunk("A", "a"), IDLE)
    assert "version 1 has no empty messages" in talk.reasons


@pytest.mark.parametrize(("order", "losses"), [("ab", 0), ("ba", 1)])
def test_empty_messages_keep_their_order(order: str, losses: int) -> None:
    talk = Talk()
    talk.begin()
    talk.update(whole(message_id="a"), whole(message_id="b"))
    talk.update(*[chunk(each, each) for each in order], IDLE)
    assert talk.text() == order
    assert len(talk.lost) == losses


def test_an_empty_message_that_stays_empty_is_a_loss_when_the_turn_is_over() -> None:
    talk = Talk()
    prompt = talk.begin()
    talk.update(whole(message_id="a"), chunk("B", "b", "agent_thought"), whole(message_id="c"))
    talk.update({"sessionUpdate": "agent_thought", "messageId": "d"})
    assert talk.lost == []
    talk.update(IDLE)
    assert talk.result(prompt)
    assert talk.reasons == ["version 1 has no empty messages"] * 3
    talk.begin("u2")
    talk.update(IDLE)
    assert len(talk.lost) == 3


def test_metadata_that_was_never_shown_can_be_cleared() -> None:
    talk = Talk(strict=True)
    talk.update(whole("A", _meta=None), {"sessionUpdate": "agent_message", "messageId": "m"})
    assert talk.text() == "A"
    assert talk.lost == []


@pytest.mark.parametrize("strict", [False, True])
def test_a_message_that_is_extended_is_sent_by_its_suffix(strict: bool) -> None:
    talk = Talk(strict=strict)
    talk.update(chunk("AB"), chunk("C"), whole("AB", "C", "D"), chunk("E"))
    assert talk.text() == "ABCDE"
    assert {each["messageId"] for each in talk.updates()} == {"m"}
    assert talk.lost == []


NOTHING = {"sessionUpdate": "agent_message", "messageId": "m", "content": None}
REPLACED: list[tuple[list[Json], str]] = [
    ([chunk("A"), whole("X"), chunk("Y")], "AY"),
    ([chunk("A"), whole(), chunk("X"), chunk("Y")], "AXY"),
    ([chunk("A"), whole(), whole("X"), chunk("Y")], "AY"),
    ([chunk("A"), NOTHING, chunk("XY")], "AXY"),
]
"""Streams, and what a strict bridge shows of them: what it refuses leaves no trace."""


@pytest.mark.parametrize("stream", [stream for stream, _ in REPLACED])
def test_a_message_that_is_replaced_goes_on_as_a_correction(stream: list[Json]) -> None:
    talk = Talk()
    talk.update(*stream)
    assert talk.text() == "A[correction]\nXY"
    first, *correction = talk.updates()
    assert first["messageId"] == "m"
    (changed,) = {each["messageId"] for each in correction}
    assert changed != "m"
    assert "version 1 cannot replace what was sent: a correction follows it" in talk.reasons


def test_a_message_that_is_cleared_and_sent_again_needs_no_correction() -> None:
    talk = Talk()
    talk.update(chunk("A"), whole(), chunk("A"), chunk("B"))
    assert talk.text() == "AB"


@pytest.mark.parametrize(("stream", "seen"), REPLACED)
def test_a_strict_bridge_replaces_nothing(stream: list[Json], seen: str) -> None:
    talk = Talk(strict=True)
    talk.update(*stream)
    assert talk.text() == seen
    assert talk.log.refused >= 1


# ---- what version 1 does not know ------------------------------------------------------------

NOTICE = {"sessionUpdate": "notice", "severity": "info", "title": "Look"}
COMPACTION = {"sessionUpdate": "compaction_update", "compactionId": "x", "status": "completed"}
SUMMARY = {"sessionUpdate": "compaction_summary_chunk", "compactionId": "x", "content": text("s")}


@pytest.mark.parametrize("update", [NOTICE, COMPACTION, SUMMARY])
def test_notices_and_compactions_are_only_for_clients_that_show_them(update: Json) -> None:
    able, unable = Talk(), Talk({"session": None})
    able.update(update)
    unable.update(update)
    assert able.updates() == [update]
    assert unable.updates() == []
    assert (len(able.lost), len(unable.lost)) == (0, 1)


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "_acme", "messageId": "m"},
        {"sessionUpdate": "future", "content": 5},
        {"sessionUpdate": "subagent_update", "sessionId": "x"},
        {"sessionUpdate": "session_message_chunk", "messageId": "m", "content": text("x")},
        {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "of version 1"},
    ],
)
def test_a_variant_that_version_1_lacks_never_reaches_it(update: Json) -> None:
    talk = Talk()
    talk.update(update)
    assert talk.client.messages == []
    assert len(talk.lost) == 1


def test_work_between_prompts_is_reported_as_lost() -> None:
    talk = Talk()
    talk.update(SNAPSHOT, RUNNING, chunk("meanwhile"), IDLE)
    assert talk.text() == "meanwhile"
    assert talk.reasons == ["version 1 has no session state but the result of a prompt"]


def test_what_travels_beside_an_update_travels_on() -> None:
    talk = Talk()
    talk.update(chunk("A"), _meta={"trace": 1}, _x=2)
    params = talk.client.messages[0]["params"]
    assert params == {"sessionId": S, "update": chunk("A"), "_meta": {"trace": 1}, "_x": 2}


def test_usage_and_titles_pass() -> None:
    talk = Talk()
    updates = [
        {"sessionUpdate": "usage_update", **USAGE},
        {"sessionUpdate": "session_info_update", "title": "T"},
    ]
    talk.update(*updates)
    assert talk.updates() == updates


BAD: dict[str, Json] = {
    "output that is not base64": {
        "sessionUpdate": "terminal_output_chunk",
        "terminalId": "t",
        "data": "?",
    },
    "a chunk without content": {"sessionUpdate": "agent_message_chunk", "messageId": "m"},
    "a chunk of nothing": {"sessionUpdate": "agent_message_chunk", "content": 5},
}


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_update_is_reported_and_the_next_one_passes(case: str) -> None:
    talk = Talk()
    talk.update(BAD[case], chunk("A"))
    assert talk.text() == "A"
    assert [problem.kind for problem in talk.problems] == ["update"]


def test_a_malformed_field_is_reported_and_the_rest_passes() -> None:
    talk = Talk()
    talk.update(call(title="Read", status=5))
    assert talk.updates() == [{"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read"}]
    (problem,) = talk.problems
    assert "status" in problem.text
    assert problem.session_id == S


def test_an_update_that_is_too_deep_is_reported_and_nothing_breaks() -> None:
    """What can just be read may be too deep to be written."""
    depths = [10, *range(700, 1000), 5_000, 100_000]
    for depth in depths:
        talk = Talk()
        deep = b"[" * depth + b"]" * depth
        update = b'{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"x","rawInput":%b}'
        params = b'{"sessionId":"s","update":%b}' % (update % deep)
        line = b'{"jsonrpc":"2.0","method":"session/update","params":%b}' % params
        talk.down.from_agent(line)
        assert len(talk.client.lines) + len(talk.problems) == 1


# ---- terminals -------------------------------------------------------------------------------


def shown_text(update: Json) -> str:
    return "".join(item["content"]["text"] for item in update["content"])


def test_terminal_output_is_gathered_for_a_moment() -> None:
    talk = Talk()
    talk.update(shell(), *[printed(str(number)) for number in range(10)])
    assert len(talk.updates()) == 1
    assert talk.fire() == [GATHER]
    assert shown_text(talk.updates()[-1]) == "0123456789"
    assert len(talk.updates()) == 2
    talk.update(printed("!"))
    talk.fire()
    assert shown_text(talk.updates()[-1]) == "0123456789!"
    assert not talk.timers


def test_what_was_gathered_goes_out_before_anything_else_of_the_call() -> None:
    talk = Talk()
    talk.update(shell(), printed("out"), call(status="completed"))
    _, output, completed = talk.updates()
    assert shown_text(output) == "out"
    assert completed["status"] == "completed"
    talk.fire()
    assert len(talk.updates()) == 3


def test_what_was_gathered_does_not_go_out_with_every_word_of_a_message() -> None:
    talk = Talk()
    talk.update(shell(), shell("d", "u"))
    for number in range(20):
        talk.update(printed("x"), chunk(str(number)), call("d", status="in_progress"))
    assert sum(bool(each.get("content")) for each in talk.updates() if "toolCallId" in each) == 2
    talk.fire()
    assert shown_text(talk.updates()[-1]) == "x" * 20


@pytest.mark.parametrize("end", ["idle", "refusal", "death", "permission"])
def test_what_was_gathered_goes_out_before_an_end(end: str) -> None:
    talk = Talk()
    prompt = talk.prompt()
    talk.update(RUNNING, shell(), printed("out"))
    if end == "idle":
        talk.answer(talk.asked("session/prompt"), {"messageId": "u1"})
        talk.update(IDLE)
    elif end == "refusal":
        talk.refuse(talk.asked("session/prompt"), -32603)
    elif end == "death":
        talk.die()
    else:
        talk.ask_permission()
        prompt = talk.client.messages[-1]["id"]
    *_, output, last = talk.client.messages
    assert shown_text(output["params"]["update"]) == "out"
    assert last["id"] == prompt
    assert not talk.timers


# ---- metadata ---------------------------------------------------------------------------------


def test_metadata_that_is_merged_is_sent_as_a_whole() -> None:
    """The draft of November merges it, and null takes a key away; version 1 replaces it."""
    talk = Talk()
    talk.begin()  # the answer has an id: the agent speaks that draft
    talk.update(call(title="T", _meta={"a": 1}), call(_meta={"b": 2}), call(status="in_progress"))
    talk.update(call(_meta={"a": None}), call(_meta={"b": None}), call("d", title="D", _meta={}))
    metas = [each.get("_meta", "none") for each in talk.updates()]
    assert metas == [{"a": 1}, {"a": 1, "b": 2}, "none", {"b": 2}, {}, "none"]
    shown = {"toolCallId": "c", "title": "May I?", "_meta": {"z": 26}}
    talk.update(call(_meta={"y": 25}))
    talk.ask_permission(subject={"type": "tool_call", "toolCall": shown})
    asked = talk.shown("session/request_permission")["params"]
    assert asked["toolCall"]["_meta"] == {"y": 25, "z": 26}
    assert talk.lost == []


@pytest.mark.parametrize(
    "patch",
    [
        {"sessionUpdate": "compaction_update", "compactionId": "a", "status": "in_progress"},
        {"sessionUpdate": "session_info_update"},
    ],
    ids=["compaction", "session"],
)
def test_metadata_of_compactions_and_of_the_session_is_sent_as_a_whole(patch: Json) -> None:
    talk = Talk()
    talk.begin()
    for meta in ({"a": 1}, {"b": 2}, {"a": None}, {"b": None}):
        talk.update({**patch, "_meta": meta})
    talk.update({**patch, "_meta": None})
    assert [each["_meta"] for each in talk.updates()] == [
        {"a": 1},
        {"a": 1, "b": 2},
        {"b": 2},
        {},
        None,
    ]
    assert talk.lost == []


def test_metadata_of_an_earlier_draft_is_replaced() -> None:
    talk = Talk()
    talk.prompt()
    talk.answer(talk.asked("session/prompt"), {})
    talk.update(RUNNING, call(title="T", _meta={"a": 1}), call(_meta={"b": 2}))
    assert [each.get("_meta") for each in talk.updates()] == [{"a": 1}, {"b": 2}]


def test_a_session_that_is_loaded_later_is_read_in_the_same_draft() -> None:
    talk = Talk()
    talk.begin()
    talk.update(IDLE)
    talk.ask("session/load", {"sessionId": "other", "cwd": "/w", "mcpServers": []})
    talk.update(call(title="T", _meta={"a": 1}), call(_meta={"b": 2}), session="other")
    assert talk.updates()[-1]["_meta"] == {"a": 1, "b": 2}


def test_the_same_text_in_other_pieces_is_no_loss() -> None:
    talk = Talk()
    talk.update(chunk("one "), chunk("two"), whole("one two"), whole("one two", " three"))
    assert talk.text("agent_message_chunk") == "one two three"
    assert talk.lost == []


# ---- pieces of a tool call's content ---------------------------------------------------------


def piece(words: str, call_id: str = "c") -> Json:
    tag = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": call_id}
    return {**tag, "content": {"type": "content", "content": text(words)}}


def test_pieces_of_content_are_gathered_for_a_moment() -> None:
    talk = Talk()
    talk.update(call(title="Search"), *[piece(str(number)) for number in range(10)])
    assert len(talk.updates()) == 1
    assert talk.fire() == [GATHER]
    assert shown_text(talk.updates()[-1]) == "0123456789"
    talk.update(piece("!"))
    talk.fire()
    assert shown_text(talk.updates()[-1]) == "0123456789!"
    assert len(talk.updates()) == 3
    assert not talk.timers


def test_a_call_that_begins_with_a_piece_is_shown_at_once() -> None:
    talk = Talk()
    talk.update(piece("first"), piece("second"))
    (shown,) = talk.updates()
    assert (shown["sessionUpdate"], shown_text(shown)) == ("tool_call", "first")
    talk.fire()
    assert shown_text(talk.updates()[-1]) == "firstsecond"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_all_content_is_there_before_a_call_ends(status: str) -> None:
    talk = Talk()
    talk.update(call(title="Search"), piece("a"), piece("b"), call(status=status))
    _, content, ended = talk.updates()
    assert shown_text(content) == "ab"
    assert "content" not in ended
    talk.fire()
    assert len(talk.updates()) == 3


def test_pieces_that_were_replaced_meanwhile_are_not_sent() -> None:
    talk = Talk()
    content = [{"type": "content", "content": text("instead")}]
    talk.update(call(title="Search"), piece("a"), call(content=content), piece("!"))
    assert [shown_text(each) for each in talk.updates()[1:]] == ["instead"]
    talk.fire()
    assert shown_text(talk.updates()[-1]) == "instead!"


def test_a_refused_update_does_not_lose_what_was_gathered() -> None:
    talk = Talk(strict=True)
    talk.update(call(title="Search", status="in_progress"), piece("a"))
    talk.update(call(status="cancelled"))  # which version 1 cannot express
    assert talk.log.refused == 1
    talk.fire()
    assert shown_text(talk.updates()[-1]) == "a"


@pytest.mark.parametrize("end", ["idle", "refusal", "death", "permission", "load"])
def test_pieces_of_content_go_out_before_an_end(end: str) -> None:
    talk = Talk()
    prompt = talk.prompt()
    talk.update(RUNNING, call(title="Search"), piece("a"), piece("b"))
    if end == "idle":
        talk.answer(talk.asked("session/prompt"), {"messageId": "u1"})
        talk.update(IDLE)
    elif end == "refusal":
        talk.refuse(talk.asked("session/prompt"), -32603)
    elif end == "death":
        talk.die()
    elif end == "permission":
        talk.ask_permission()
    else:
        talk.ask("session/load", {"sessionId": S, "cwd": "/w", "mcpServers": []})
    content = [each for each in talk.updates() if each.get("content")]
    assert shown_text(content[-1]) == "ab"
    if end in ("idle", "refusal", "death"):
        assert talk.client.messages[-1]["id"] == prompt
    assert not talk.timers


BETWEEN: dict[str, list[Json]] = {
    "nothing": [],
    "words of a message": [chunk("x")],
    "another call": [piece("y", "d")],
    "what it does": [call(status="in_progress", rawOutput={"n": 1})],
    "its title": [call(title="Searching")],
    "usage": [{"sessionUpdate": "usage_update", "used": 1, "size": 2}],
}


@pytest.mark.parametrize("between", BETWEEN)
def test_the_cost_of_a_piece_does_not_grow_with_the_content(between: str) -> None:
    def written(pieces: int) -> int:
        talk = Talk()
        talk.update(call(title="Search"), call("d", title="Other"))
        for number in range(pieces):
            talk.update(piece(f"piece {number:05}"), *BETWEEN[between])
        talk.fire()
        shown = [each for each in talk.updates() if each.get("toolCallId") == "c"][-1]
        assert len(shown["content"]) == pieces
        return sum(map(len, talk.client.lines))

    # within one moment: twice as much for twice as many
    assert written(2_000) < 2.2 * written(1_000)


def test_a_terminal_that_a_tool_call_shows_later_is_no_loss() -> None:
    talk = Talk()
    prompt = talk.begin()
    talk.update({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls"})
    talk.update(printed("out\n"), shell(), IDLE)
    assert talk.result(prompt)
    assert shown_text(talk.updates()[0]) == "$ ls\nout\n"
    assert talk.reasons == ["version 1 has no agent-owned terminals: it becomes text"]


def test_a_terminal_that_nobody_shows_is_a_loss_when_the_turn_is_over() -> None:
    talk = Talk()
    talk.begin()
    talk.update(printed("out"), printed("put"))
    assert talk.lost == []
    talk.update(IDLE)
    reason = "version 1 shows a terminal only inside a tool call"
    assert talk.lost == [("session/update", "update", reason)]
    talk.begin("u2")
    talk.update(IDLE)
    assert len(talk.lost) == 1


# ---- permissions -----------------------------------------------------------------------------


def test_a_permission_is_asked_and_answered() -> None:
    talk = Talk()
    talk.begin()
    tool_call = {"toolCallId": "c", "title": "Write a file", "kind": "edit"}
    talk.ask_permission(subject={"type": "tool_call", "toolCall": tool_call})
    asked = talk.shown("session/request_permission")
    assert asked["params"] == {"sessionId": S, "toolCall": tool_call, "options": OPTIONS}
    talk.answer(asked, {**CHOSEN, "_meta": {"k": 1}})
    assert talk.agent_result("q1") == {**CHOSEN, "_meta": {"k": 1}}
    assert not talk.down.client.pending
    assert not talk.down.questions


def test_a_permission_for_a_command_shows_it_as_a_tool_call() -> None:
    talk = Talk()
    talk.ask_permission(subject={"type": "command", "command": "rm -rf x", "cwd": "/w"})
    made = talk.shown("session/request_permission")["params"]["toolCall"]
    assert made["kind"] == "execute"
    assert "rm -rf x" in made["content"][0]["content"]["text"]


def test_a_permission_of_june_is_read() -> None:
    talk = Talk()
    tool_call = {"toolCallId": "c", "title": "Write a file"}
    params = {"sessionId": S, "toolCall": tool_call, "options": OPTIONS}
    talk.agent_asks("session/request_permission", params)
    assert talk.shown("session/request_permission")["params"] == params


def test_a_permission_without_options_is_answered_by_the_bridge() -> None:
    talk = Talk()
    talk.ask_permission(options=[])
    assert talk.agent_result("q1") == DISMISSED
    assert talk.client.messages == []


NO = {"outcome": {"outcome": "selected", "optionId": "no"}}
NEVER = {"outcome": {"outcome": "selected", "optionId": "never"}}
DISMISSALS: dict[str, tuple[list[Json], Json]] = {
    "reject once": (OPTIONS, NO),
    "reject once comes last": (OPTIONS[::-1], NO),
    "only for good": ([OPTIONS[0], OPTIONS[2]], NEVER),
    "no option that rejects": (OPTIONS[:1], DISMISSED),
}


@pytest.mark.parametrize("case", DISMISSALS)
def test_a_dismissal_outside_a_cancel_is_a_rejection(case: str) -> None:
    options, expected = DISMISSALS[case]
    talk = Talk()
    talk.begin()
    talk.ask_permission(options=options)
    talk.answer(talk.shown("session/request_permission"), DISMISSED)
    assert talk.agent_result("q1") == expected


def test_an_unknown_outcome_is_passed_on_unchanged() -> None:
    talk = Talk()
    talk.ask_permission()
    odd = {"outcome": {"outcome": "_later", "when": 5}}
    talk.answer(talk.shown("session/request_permission"), odd)
    assert talk.agent_result("q1") == odd


@pytest.mark.parametrize("result", [{"outcome": "yes"}, [], None])
def test_an_answer_to_a_permission_that_is_none_is_an_error_for_the_agent(result: Any) -> None:
    talk = Talk()
    talk.ask_permission()
    talk.answer(talk.shown("session/request_permission"), result)
    (answer,) = talk.agent_answers("q1")
    assert answer["error"]["code"] == -32603
    assert not talk.down.questions


def test_an_error_of_the_client_is_an_error_for_the_agent() -> None:
    talk = Talk()
    talk.ask_permission()
    talk.refuse(talk.shown("session/request_permission"), -32601, "what?")
    (answer,) = talk.agent_answers("q1")
    assert answer["error"] == {"code": -32601, "message": "what?"}
    assert not talk.down.questions


def test_options_of_kinds_that_version_1_lacks_are_never_shown_as_others() -> None:
    talk = Talk()
    unknown = {"optionId": "u", "name": "Perhaps", "kind": "_perhaps"}
    talk.ask_permission("q1", options=[unknown, *OPTIONS])
    assert talk.shown("session/request_permission")["params"]["options"] == OPTIONS
    talk.ask_permission("q2", options=[unknown])
    (answer,) = talk.agent_answers("q2")
    assert answer["error"]["code"] == -32602


def test_a_permission_that_the_agent_takes_back_is_answered_at_once() -> None:
    talk = Talk()
    talk.begin()
    talk.ask_permission()
    asked = talk.shown("session/request_permission")
    talk.from_agent(method="$/cancel_request", params={"requestId": "q1"})
    assert talk.agent_result("q1") == DISMISSED
    assert talk.client.messages[-1]["params"] == {"requestId": asked["id"]}
    talk.answer(asked, CHOSEN)  # too late
    assert len(talk.agent_answers("q1")) == 1
    assert talk.problems == []


def test_a_second_permission_waits_beside_the_first() -> None:
    talk = Talk()
    talk.ask_permission("q1")
    first = talk.shown("session/request_permission")
    talk.ask_permission("q2")
    second = talk.shown("session/request_permission")
    talk.answer(second, CHOSEN)
    assert talk.agent_result("q2") == CHOSEN
    assert not talk.agent_answers("q1")
    talk.answer(first, NO)
    assert talk.agent_result("q1") == NO


# ---- cancel ----------------------------------------------------------------------------------


def test_a_cancel_settles_what_was_asked_on_both_sides() -> None:
    talk = Talk()
    prompt = talk.begin()
    talk.ask_permission("q1")
    asked = talk.shown("session/request_permission")
    talk.update(chunk("A"))
    talk.cancel()
    methods = [each["method"] for each in talk.agent.messages if "method" in each]
    assert methods[-1] == "session/cancel"
    assert talk.agent_result("q1") == DISMISSED
    talk.from_agent(method="$/cancel_request", params={"requestId": "q1"})  # as some agents do
    talk.answer(asked, DISMISSED)  # as version 1 demands
    talk.ask_permission("q2")
    assert talk.agent_result("q2") == DISMISSED
    talk.update(chunk("B"), STOPPED)
    assert talk.result(prompt) == {"stopReason": "cancelled"}
    assert talk.text() == "AB"
    assert len(talk.agent_answers("q1")) == 1
    assert "$/cancel_request" not in [each.get("method") for each in talk.client.messages]
    assert talk.problems == []


def test_a_permission_in_the_next_turn_is_asked_again() -> None:
    talk = Talk()
    talk.begin("u1")
    talk.cancel()
    talk.update(STOPPED)
    talk.begin("u2")
    talk.ask_permission()
    assert talk.shown("session/request_permission")
    assert not talk.agent_answers("q1")


def test_a_cancel_that_the_prompt_did_not_survive_is_over() -> None:
    """The agent refuses the prompt and never sends idle."""
    talk = Talk()
    prompt = talk.prompt()
    talk.cancel()
    talk.refuse(talk.asked("session/prompt"), -32800)
    assert talk.result(prompt) == {"stopReason": "cancelled"}
    assert talk.lost == []
    talk.begin("u2")
    talk.ask_permission()
    assert not talk.agent_answers("q1")


CANCELLED_ENDS: dict[str, list[Json]] = {
    "cancelled": [STOPPED],
    "no reason": [SNAPSHOT],
    "an error": [{**SNAPSHOT, "stopReason": "error", "error": {"code": 1, "message": "aborted"}}],
}


@pytest.mark.parametrize("end", CANCELLED_ENDS)
@pytest.mark.parametrize("runs", [False, True])
def test_a_cancelled_turn_ends_as_cancelled(end: str, runs: bool) -> None:
    talk = Talk()
    prompt = talk.accepted()
    talk.update(*[RUNNING] * runs)
    talk.cancel()
    talk.update(*CANCELLED_ENDS[end])
    assert talk.result(prompt) == {"stopReason": "cancelled"}
    assert len(talk.lost) == (end == "an error")
    assert not talk.timers


def test_a_turn_may_end_by_itself_after_a_cancel() -> None:
    talk = Talk()
    prompt = talk.begin()
    talk.cancel()
    talk.update(IDLE)
    assert talk.result(prompt) == {"stopReason": "end_turn"}


def test_an_error_after_a_cancel_is_reported() -> None:
    talk = Talk()
    prompt = talk.prompt()
    talk.cancel()
    talk.refuse(talk.asked("session/prompt"), -32603, "aborted")
    assert talk.result(prompt) == {"stopReason": "cancelled"}
    assert talk.reasons == ["a cancelled turn of version 1 has no error"]


def test_a_cancel_without_a_turn_is_passed_on_and_changes_nothing() -> None:
    talk = Talk()
    talk.cancel("unknown")
    talk.update(SNAPSHOT)
    talk.from_client(method="session/cancel", params={"sessionId": S, "_meta": {"k": 1}})
    assert talk.agent.messages[-1]["params"] == {"sessionId": S, "_meta": {"k": 1}}
    talk.ask_permission()
    assert not talk.agent_answers("q1")
    assert len(talk.agent.messages) == 2


def test_what_is_asked_after_a_cancel_is_over_is_asked() -> None:
    refused, between = Talk(), Talk()
    refused.prompt()
    refused.cancel()
    refused.refuse(refused.asked("session/prompt"), -32800)
    between.update(RUNNING)
    between.cancel()
    between.prompt()
    for talk in (refused, between):
        talk.ask_permission()
        assert talk.shown("session/request_permission")
        assert not talk.agent_answers("q1")


def test_a_prompt_that_is_withdrawn_before_it_was_taken_in_is_withdrawn_at_the_agent() -> None:
    talk = Talk()
    prompt = talk.prompt()
    there = talk.asked("session/prompt")
    talk.withdraw(prompt)
    assert talk.asked("$/cancel_request")["params"] == {"requestId": there["id"]}
    talk.refuse(there, -32800, "Request cancelled")
    assert talk.error(prompt)["code"] == -32800


def test_a_prompt_that_is_taken_in_all_the_same_is_cancelled_then() -> None:
    talk = Talk()
    prompt = talk.prompt()
    talk.withdraw(prompt)
    talk.answer(talk.asked("session/prompt"), {"messageId": "u1"})
    assert talk.asked("session/cancel")
    talk.update(RUNNING, STOPPED)
    assert talk.result(prompt) == {"stopReason": "cancelled"}


def test_a_prompt_that_is_withdrawn_in_its_turn_cancels_the_turn() -> None:
    talk = Talk()
    prompt = talk.begin()
    talk.ask_permission()
    talk.withdraw(prompt)
    assert talk.asked("session/cancel")["params"] == {"sessionId": S}
    assert talk.agent_result("q1") == DISMISSED
    talk.update(STOPPED)
    assert talk.result(prompt) == {"stopReason": "cancelled"}


@pytest.mark.parametrize("identity", [99, None, "q1"])
def test_an_unknown_request_cannot_be_withdrawn(identity: Any) -> None:
    talk = Talk()
    talk.withdraw(identity)
    talk.from_agent(method="$/cancel_request", params={"requestId": identity})
    assert talk.agent.messages == []
    assert talk.client.messages == []


def test_other_requests_are_withdrawn_by_their_other_id() -> None:
    talk = Talk()
    asked = talk.ask("_slow", {})
    talk.withdraw(asked)
    assert talk.asked("$/cancel_request")["params"] == {"requestId": talk.asked("_slow")["id"]}


# ---- elicitation -----------------------------------------------------------------------------

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
QUESTION = {"mode": "form", "message": "Who?", "sessionId": S, "requestedSchema": FORM}


def test_a_question_is_asked_and_answered() -> None:
    talk = Talk()
    talk.agent_asks("elicitation/create", QUESTION)
    asked = talk.shown("elicitation/create")
    assert asked["params"] == QUESTION
    answer = {"action": "accept", "content": {"name": "x"}}
    talk.answer(asked, answer)
    assert talk.agent_result("q1") == answer


def test_a_question_of_a_request_names_the_clients_own_id() -> None:
    talk = Talk()
    talk.from_client(id="login", method="authenticate", params={"methodId": "m"})
    there = talk.asked("auth/login")
    of_request = {key: QUESTION[key] for key in QUESTION if key != "sessionId"}
    talk.agent_asks("elicitation/create", {**of_request, "requestId": there["id"]})
    assert talk.shown("elicitation/create")["params"]["requestId"] == "login"
    talk.agent_asks("elicitation/create", {**of_request, "requestId": 77}, "q2")
    (refused,) = talk.agent_answers("q2")
    assert refused["error"]["code"] == -32602


def test_a_question_is_dismissed_by_a_cancel() -> None:
    talk = Talk()
    talk.begin()
    talk.agent_asks("elicitation/create", QUESTION)
    talk.cancel()
    assert talk.agent_result("q1") == {"action": "cancel"}


def test_a_question_that_version_1_lacks_is_refused() -> None:
    talk = Talk()
    talk.agent_asks("elicitation/create", {"mode": "_voice", "message": "?", "sessionId": S})
    assert talk.client.messages == []
    (refused,) = talk.agent_answers("q1")
    assert refused["error"]["code"] == -32602


# ---- ends ------------------------------------------------------------------------------------


def test_a_dead_agent_settles_everything() -> None:
    talk = Talk()
    running = talk.begin()
    waiting, listing = talk.prompt("more"), talk.ask("session/list", {})
    talk.cancel()
    talk.ask_permission("q1", session="other")
    question = talk.shown("session/request_permission")
    talk.update(chunk("last words"))
    talk.die()
    for asked in (running, waiting, listing):
        error = talk.error(asked)
        assert error == {"code": -32603, "message": "The agent ended", "data": {"exitCode": 3}}
    assert talk.shown("$/cancel_request")["params"] == {"requestId": question["id"]}
    assert talk.text() == "last words"
    for state in (
        talk.down.agent.pending,
        talk.down.client.pending,
        talk.down.questions,
        talk.timers,
    ):
        assert not state
    late = talk.ask("session/list", {})
    assert talk.error(late)["message"] == "The agent ended"


def test_a_client_that_leaves_leaves_nothing_pending_at_the_agent() -> None:
    talk = Talk()
    talk.begin()
    talk.ask_permission("q1")
    talk.ask_permission("q2", session="idle")
    talk.agent_asks("_ask", {}, "q3")
    talk.update(shell(), printed("out"))
    talk.leave()
    assert talk.asked("session/cancel")["params"] == {"sessionId": S}
    assert talk.agent_result("q1") == talk.agent_result("q2") == DISMISSED
    (refused,) = talk.agent_answers("q3")
    assert "error" in refused
    assert not talk.timers


# ---- as it was recorded ----------------------------------------------------------------------


def test_a_recorded_session_is_replayed_without_a_lost_message(
    shared: Callable[[str], Path],
) -> None:
    """An agent that sends each message as an empty upsert and then in chunks."""
    talk, sent = Talk(), []
    talk.ask("session/load", {"sessionId": S, "cwd": "/w", "mcpServers": []})
    for line in shared("transcripts/codex.v2.jsonl").read_text().splitlines():
        entry = json.loads(line)
        message = entry.get("message", {})
        of_replay = entry["step"] == "resume_session" and message.get("method") == "session/update"
        if of_replay and entry["t"] > 19.2:  # before that it resumes without a replay
            sent.append(message["params"]["update"])
    talk.update(*sent)
    talk.answer(talk.asked("session/resume"), {})
    chunks_sent = [each for each in sent if each["sessionUpdate"].endswith("_chunk")]
    assert len(chunks_sent) > 10
    for kind in ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"):
        pieces = [each["content"]["text"] for each in chunks_sent if each["sessionUpdate"] == kind]
        assert talk.text(kind) == "".join(pieces)
    calls = {each["toolCallId"] for each in sent if "toolCallId" in each}
    assert {each["toolCallId"] for each in talk.updates() if "toolCallId" in each} == calls
    assert set(talk.reasons) <= {
        "version 1 has no agent-owned terminals: it becomes text",
        "version 1 shows the changed lines only, a file at a time",
    }
    assert talk.problems == []
