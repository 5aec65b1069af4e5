"""A client of version 2 and an agent of version 1: ids, noise, and what passes unread."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.peers.validators import SchemaValidator, Version
from tests.support.bridge_stage import Json, Stage, choose, modes, resume, text
from tests.support.sessions import session_of
from twofold.rpc.frames import LineTooLong
from twofold.session import Draft
from twofold.wire import codec, v1, v2

LOADS: Json = {"loadSession": True}


# ---- ids --------------------------------------------------------------------------------------


def test_each_side_has_its_own_ids_and_gets_its_own_back() -> None:
    stage = Stage()
    asked = [stage.client.ask("_x/ask", identity=identity) for identity in ("a", 1, "1", 0)]
    at_agent = [each["id"] for each in stage.agent.asked("_x/ask")]
    assert len(set(at_agent)) == len(asked)
    for theirs, mine in reversed(list(zip(at_agent, asked, strict=True))):
        stage.agent.answer(theirs, {"for": mine})
    assert all(stage.client.result(mine) == {"for": mine} for mine in asked)


def test_an_id_may_be_used_again_even_before_its_answer() -> None:
    stage = Stage()
    for _ in range(2):
        stage.client.ask("_x/ask", identity=1)
    for request in stage.agent.asked("_x/ask"):
        stage.agent.answer(request["id"], {})
    assert len(stage.client.answers(1)) == 2


def test_a_withdrawn_request_is_withdrawn_under_the_id_of_the_other_side() -> None:
    stage = Stage()
    asked = stage.client.ask("session/list", {})
    at_agent = stage.agent.last_asked("session/list")
    stage.client.notify("$/cancel_request", {"requestId": asked})
    assert stage.agent.notifications("$/cancel_request") == [{"requestId": at_agent}]
    stage.agent.fail(at_agent, -32800, "Request cancelled")
    assert stage.client.error(asked)["code"] == -32800


def test_a_question_that_the_agent_withdraws_is_withdrawn_at_the_client() -> None:
    stage = Stage()
    stage.prompt()
    asked = stage.permission()
    at_client = stage.client.last_asked("session/request_permission")
    stage.agent.notify("$/cancel_request", {"requestId": asked})
    assert stage.client.notifications("$/cancel_request") == [{"requestId": at_client}]
    stage.client.fail(at_client, -32800, "Request cancelled")
    assert stage.agent.error(asked)["code"] == -32800
    assert stage.client.states == ["running", "requires_action", "running"]


@pytest.mark.parametrize("identity", [None, 4711, "unknown"])
def test_withdrawing_what_is_not_there_changes_nothing(identity: Any) -> None:
    stage = Stage()
    stage.client.ask("_x/ask")
    stage.client.notify("$/cancel_request", {"requestId": identity})
    stage.agent.notify("$/cancel_request", {"requestId": identity})
    assert stage.agent.notifications("$/cancel_request") == []
    assert stage.client.notifications("$/cancel_request") == []


def test_an_answer_without_a_pending_request_is_reported_and_dropped() -> None:
    stage = Stage()
    stage.agent.answer(4711, {})
    stage.client.answer("x", {})
    assert [each.kind for each in stage.problems] == ["answer", "answer"]
    assert stage.client.messages == stage.agent.messages == []


def test_a_second_answer_is_reported_and_dropped() -> None:
    stage = Stage()
    asked = stage.client.ask("_x/ask")
    at_agent = stage.agent.last_asked("_x/ask")
    stage.agent.answer(at_agent, {"n": 1})
    stage.agent.answer(at_agent, {"n": 2})
    assert stage.client.result(asked) == {"n": 1}
    assert [each.kind for each in stage.problems] == ["answer"]


# ---- what passes unread -----------------------------------------------------------------------

ODD_JSON = b'{ "a" :1.50,  "b":[ 1e2,"\\u00e9"], "a":2 }'


@pytest.mark.parametrize("method", ["_x/ask", "unknown/method", "session/archive"])
def test_unknown_methods_pass_unread_both_ways(method: str) -> None:
    stage = Stage()
    asks = b'{"jsonrpc":"2.0","id":"q","method":"%b","params":%b}' % (method.encode(), ODD_JSON)
    stage.client.send(asks)
    stage.agent.send(b'{"jsonrpc":"2.0","id":1,"result":%b}' % ODD_JSON)
    stage.agent.send(asks)
    answered, asked_back = stage.client.lines
    assert ODD_JSON in stage.agent.lines[0]
    assert answered == b'{"jsonrpc":"2.0","id":"q","result":%b}\n' % ODD_JSON
    assert ODD_JSON in asked_back


def test_unknown_notifications_pass_both_ways() -> None:
    stage = Stage()
    stage.client.notify("_x/note", {"n": 1})
    stage.client.notify("_x/bare")
    stage.agent.notify("_x/note", [2])
    stage.agent.notify("elicitation/complete", {"elicitationId": "e"})
    assert stage.agent.messages == [
        {"jsonrpc": "2.0", "method": "_x/note", "params": {"n": 1}},
        {"jsonrpc": "2.0", "method": "_x/bare"},
    ]
    assert stage.client.notifications("_x/note") == [[2]]
    assert stage.client.notifications("elicitation/complete") == [{"elicitationId": "e"}]


@pytest.mark.parametrize(
    "method",
    ["fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/wait_for_exit"],
)
def test_files_and_terminals_that_are_not_offered_are_refused(method: str) -> None:
    stage = Stage()
    asked = stage.agent.ask(method, {"sessionId": "s", "path": "/x"})
    assert stage.agent.error(asked)["code"] == -32601
    assert stage.client.messages == []


@pytest.mark.parametrize("method", ["tool_call/cancel", "terminal/cancel"])
def test_what_version_1_cannot_cancel_is_refused(method: str) -> None:
    stage = Stage()
    asked = stage.client.ask(method, {"sessionId": "s", "toolCallId": "t", "terminalId": "t"})
    assert stage.client.error(asked)["code"] == -32601
    assert stage.agent.messages == []


# ---- noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [
        b"Listening on port 80",
        b"\x1b]0;agent\x07",
        b"[]",
        b"null",
        b'{"level":"info"}',
        b"\xff\xfe",
    ],
)
def test_noise_is_reported_and_skipped(noise: bytes) -> None:
    stage = Stage()
    stage.agent.send(noise)
    stage.chunk("after")
    assert stage.client.texts == ["after"]
    assert [each.kind for each in stage.problems] == ["noise"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/prompt", {"sessionId": "s"}),
        ("session/prompt", {"sessionId": 5, "prompt": []}),
        ("session/prompt", None),
        ("session/new", {}),
        ("session/resume", {"sessionId": "s"}),
        ("session/set_config_option", {"sessionId": "s"}),
        ("session/close", {}),
        ("session/list", {"cwd": 5}),
        ("auth/login", {}),
    ],
)
def test_a_malformed_request_of_the_client_is_refused(method: str, params: Any) -> None:
    stage = Stage()
    asked = stage.client.ask(method, params)
    assert stage.client.error(asked)["code"] == -32602
    assert stage.agent.messages == []
    assert stage.pending == []


def test_a_malformed_permission_of_the_agent_is_refused() -> None:
    stage = Stage()
    stage.prompt()
    for params in ({}, {"sessionId": "s", "toolCall": {}, "options": []}):
        asked = stage.agent.ask("session/request_permission", params)
        assert stage.agent.error(asked)["code"] == -32602
    assert stage.client.asked() == []


def test_a_malformed_notification_is_reported_and_skipped() -> None:
    stage = Stage()
    stage.client.notify("session/cancel", {})
    stage.client.notify("$/cancel_request", {"requestId": [1]})
    stage.agent.notify("session/update", {"sessionId": "s"})
    stage.agent.notify("session/update", {"update": {}})
    assert len(stage.problems) == 4
    assert stage.client.messages == stage.agent.messages == []


def test_a_malformed_part_that_may_be_left_out_is_left_out_and_reported() -> None:
    stage = Stage()
    stage.update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "status": 5})
    (update,) = stage.client.updates
    assert update == {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T"}
    (problem,) = stage.problems
    assert "status" in problem.text


def test_a_malformed_answer_of_the_agent_is_an_error_for_the_client() -> None:
    stage = Stage()
    asked = stage.client.ask("session/new", {"cwd": "/"})
    stage.agent.answer(stage.agent.last_asked("session/new"), {"session": 1})
    error = stage.client.error(asked)
    assert error["code"] == -32603
    assert "sessionId" in error["data"]["reason"]


def test_a_malformed_answer_of_the_client_is_an_error_for_the_agent() -> None:
    stage = Stage()
    stage.prompt()
    asked = stage.permission()
    stage.client.answer(stage.client.last_asked("session/request_permission"), {"outcome": 1})
    assert stage.agent.error(asked)["code"] == -32603
    assert stage.client.states == ["running", "requires_action", "running"]


@pytest.mark.parametrize("error", ["no", None, {"code": "x"}, [1]])
def test_a_malformed_error_is_an_error_all_the_same(error: Any) -> None:
    stage = Stage()
    asked = stage.client.ask("session/list", {})
    at_agent = stage.agent.last_asked("session/list")
    stage.agent.send({"jsonrpc": "2.0", "id": at_agent, "error": error})
    assert stage.client.error(asked)["code"] == -32603


def test_the_entries_of_a_batch_go_one_by_one_and_the_answers_come_back_in_one() -> None:
    stage = Stage()
    batch = [{"jsonrpc": "2.0", "id": n, "method": "_x/ask"} for n in (1, 1, "a")]
    stage.client.send([*batch, 5])
    requests = stage.agent.asked("_x/ask")
    for number, each in enumerate(requests[:2]):
        stage.agent.send({"jsonrpc": "2.0", "id": each["id"], "result": number})
        assert not stage.client.messages
    last = requests[2]["id"]
    stage.agent.send([{"jsonrpc": "2.0", "id": last, "error": {"code": 5, "message": "no"}}])
    (answers,) = stage.client.messages
    assert sorted(map(summary, answers)) == [
        ("1", 0),
        ("1", 1),
        ("None", -32600),
        ("a", 5),
    ]
    assert [each.kind for each in stage.problems] == ["noise"]


def summary(answer: Any) -> tuple[str, Any]:
    return str(answer["id"]), answer["error"]["code"] if "error" in answer else answer["result"]


def test_a_request_with_an_impossible_id_is_refused() -> None:
    stage = Stage()
    stage.client.send({"jsonrpc": "2.0", "id": {}, "method": "session/list"})
    (refused,) = stage.client.messages
    assert refused["id"] is None
    assert refused["error"]["code"] == -32600


def test_whatever_goes_wrong_inside_is_reported_and_the_next_message_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()

    def broken(*arguments: Any) -> Any:
        raise ZeroDivisionError("a secret")

    stage.session()
    lifting = stage.up.sessions["s"].lifting
    monkeypatch.setattr(lifting, "update", broken)
    monkeypatch.setattr(lifting.upgrader, "is_made_mode", broken)
    stage.chunk("lost")
    error = stage.client.error(choose(stage, "mode", "code"))
    assert error == {"code": -32603, "message": "Internal error"}
    assert [each.kind for each in stage.problems] == ["handler", "handler"]
    stage.chunk("text", session="other")
    assert stage.client.texts == ["text"]


# ---- variants and losses ----------------------------------------------------------------------


def test_an_update_of_an_unknown_kind_passes_as_it_is() -> None:
    stage = Stage()
    update = {"sessionUpdate": "_weather", "sky": {"blue": True}}
    stage.update(update)
    assert stage.client.updates == [update]


def test_only_the_bridge_sends_the_state_of_a_session() -> None:
    stage = Stage()
    stage.prompt()
    stage.chunk()
    stage.update({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"})
    stage.finish()
    assert stage.client.states == ["running", "idle:end_turn"]
    assert [path for path, _ in stage.lost] == ["state_update"]


def test_a_version_1_variant_never_reaches_a_version_2_client() -> None:
    stage = Stage()
    stage.session(modes=modes())
    for update in (
        {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"},
        {"sessionUpdate": "plan", "entries": []},
        {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
        {"sessionUpdate": "current_mode_update", "modeId": "ask"},
    ):
        stage.update(update)
    assert [each["sessionUpdate"] for each in stage.client.updates] == [
        "tool_call_update",
        "plan_update",
        "config_option_update",
        "config_option_update",
    ]


def test_the_unknown_fields_of_an_update_notification_are_kept() -> None:
    stage = Stage()
    params = {
        "sessionId": "s",
        "update": {"sessionUpdate": "agent_message_chunk", "content": text("a")},
        "_meta": {"trace": 1},
        "_extra": [2],
    }
    stage.agent.notify("session/update", params)
    (note,) = stage.client.notifications("session/update")
    assert (note["_meta"], note["_extra"]) == ({"trace": 1}, [2])
    assert note["update"]["content"] == text("a")


def metas(stage: Stage) -> list[Any]:
    return [each["_meta"] for each in stage.client.updates if "_meta" in each]


def test_metadata_of_a_call_is_replaced_also_where_it_is_merged() -> None:
    """Version 1 replaces it; version 2 merges it by its keys, and null takes one away."""
    stage = Stage()
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"}
    patch = {"sessionUpdate": "tool_call_update", "toolCallId": "t"}
    stage.update({**call, "_meta": {"a": 1, "b": 1}})
    stage.update({**patch, "_meta": {"b": 2}})
    stage.update({**patch, "status": "in_progress"})
    stage.update({**patch, "_meta": None})
    stage.update({**patch, "_meta": {"c": 3}})
    assert metas(stage) == [{"a": 1, "b": 1}, {"b": 2, "a": None}, {"c": 3, "b": None}]
    session = session_of(*stage.client.updates, draft=Draft.NOVEMBER)
    assert session.tool_calls["t"].meta == {"c": 3}
    stage.update(call)  # as a whole
    session.apply(codec.read(stage.client.updates[-1], v2.SessionUpdate))
    assert not session.tool_calls["t"].meta
    stage.update({**patch, "_meta": {"d": 4}})
    stage.permission("t", toolCall={"toolCallId": "t", "title": "T", "_meta": {"e": 5}})
    asked = stage.client.asked("session/request_permission")[-1]["params"]
    assert asked["subject"]["toolCall"]["_meta"] == {"e": 5, "d": None}
    assert stage.lost == []


def test_a_loss_is_reported_once_per_kind_and_recorded_every_time() -> None:
    stage = Stage()
    for line in range(3):
        locations = [{"path": "/a", "line": 5}] * line + [{"path": "/a", "line": 0}]
        call = {"toolCallId": "t", "title": "T", "locations": locations}
        stage.update({"sessionUpdate": "tool_call", **call})
    assert len(stage.every) == 3
    assert len(stage.lost) == 1
    assert len(stage.client.updates) == 3


def test_strict_passes_nothing_on_that_would_lose_something() -> None:
    stage = Stage(strict=True)
    stage.update(
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "T",
            "locations": [{"path": "/a", "line": 0}],
        }
    )
    assert stage.client.updates == []
    assert stage.log.refused == 1
    server = {"type": "_socket", "name": "m"}
    asked = stage.client.ask("session/new", {"cwd": "/", "mcpServers": [server]})
    assert stage.client.error(asked)["code"] == -32602
    assert stage.agent.messages == []
    assert stage.log.refused == 2
    stage.chunk("fine")
    assert stage.client.texts == ["fine"]


# ---- lines that are too long ------------------------------------------------------------------


def too_long(message: Json) -> LineTooLong:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return LineTooLong(len(data), 100, data[:512], data[-512:])


def test_a_request_fails_if_its_answer_is_too_long() -> None:
    stage = Stage()
    asked = stage.client.ask("session/list", {})
    at_agent = stage.agent.last_asked("session/list")
    stage.up.from_agent(too_long({"id": at_agent, "result": {"sessions": ["x" * 1000]}}))
    assert "cannot be read" in stage.client.error(asked)["message"]
    assert stage.pending == []
    assert [each.kind for each in stage.problems] == ["noise"]


def test_a_request_that_was_too_long_is_refused() -> None:
    stage = Stage()
    stage.up.from_client(too_long({"id": 5, "method": "_x/ask", "params": ["x" * 1000]}))
    assert stage.client.error(5)["code"] == -32600
    assert stage.agent.messages == []


# ---- whatever comes ---------------------------------------------------------------------------

METHODS = st.sampled_from(sorted({*v1.METHODS, *v2.METHODS, "_x/ask", "initialize"}))
PIECES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["s", "t", "mode", "yes", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("sessionId", "update", "sessionUpdate", "toolCall", "toolCallId", "options"),
                    *("prompt", "requestId", "cwd", "content", "type", "_meta", "configOptions"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=8,
)
MESSAGES = (
    st.fixed_dictionaries({"method": METHODS, "params": PIECES})
    | st.fixed_dictionaries({"id": st.integers(0, 4), "method": METHODS, "params": PIECES})
    | st.fixed_dictionaries({"id": st.integers(0, 4), "result": PIECES})
    | st.fixed_dictionaries({"id": st.integers(0, 4), "error": PIECES})
)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.booleans(), MESSAGES | st.binary(max_size=20)), max_size=12))
def test_no_message_of_a_side_makes_the_translation_raise(
    messages: list[tuple[bool, Json | bytes]],
) -> None:
    stage = Stage()
    for by_client, message in messages:
        side = stage.client if by_client else stage.agent
        data = message if isinstance(message, bytes) else {"jsonrpc": "2.0", **message}
        if isinstance(data, bytes) and b"\n" in data:
            continue
        side.send(data)
        stage.clock.run()
    assert [each for each in stage.problems if each.kind == "handler"] == []
    stage.die()
    stage.up.client_left()
    assert not stage.up.agent.pending
    assert not stage.up.client.pending


# ---- what each side gets is what its version allows -------------------------------------------


def test_what_each_side_is_sent_is_valid_in_its_version(valid: SchemaValidator) -> None:
    stage = Stage(LOADS)
    stage.session(modes=modes())
    stage.prompt()
    stage.chunk("thinking", "agent_thought_chunk")
    call = {"toolCallId": "t", "title": "Edit", "kind": "edit", "status": "in_progress"}
    diff = {"type": "diff", "path": "/a", "oldText": "a\n", "newText": "b\n"}
    stage.update({"sessionUpdate": "tool_call", **call, "content": [diff]})
    stage.update({"sessionUpdate": "current_mode_update", "currentModeId": "code"})
    entry = {"content": "do", "priority": "high", "status": "pending"}
    stage.update({"sessionUpdate": "plan", "entries": [entry]})
    stage.permission()
    stage.allow()
    choose(stage, "mode", "ask")
    stage.permission("u")
    stage.cancel()
    stage.finish("cancelled")
    resume(stage, replay=True)
    stage.client.ask("auth/login", {"methodId": "m"})
    stage.client.ask("session/list", {})
    sent: list[tuple[Version, str, Any]]
    sent = [(2, "SessionUpdate", each) for each in stage.client.updates]
    sent += [(2, "RequestPermissionRequest", each["params"]) for each in stage.client.asked()]
    names = {
        "session/new": "NewSessionRequest",
        "session/load": "LoadSessionRequest",
        "session/prompt": "PromptRequest",
        "session/set_mode": "SetSessionModeRequest",
        "authenticate": "AuthenticateRequest",
    }
    sent += [(1, names[each["method"]], each["params"]) for each in stage.agent.asked()]
    cancels = stage.agent.notifications("session/cancel")
    sent += [(1, "CancelNotification", each) for each in cancels]
    assert {name for _, name, _ in sent} >= set(names.values())
    assert [found for each in sent if (found := valid(each[0], "stable", *each[1:]))] == []
