"""A client of version 2 and an agent of version 1: sessions, options, and what is offered."""

from typing import Any

import pytest

from tests.support.bridge_stage import ALL, Json, Stage, choose, modes, resume

SILENT: Json = {}
"""An agent of version 1 that can do nothing beyond the least."""
LOADS: Json = {"loadSession": True}


# ---- initialize and authentication ----------------------------------------------------------


def test_a_client_that_initializes_once_more_gets_the_same_answer() -> None:
    stage = Stage(initialize_result=b'{"protocolVersion":2}')
    asked = stage.client.ask("initialize", {"protocolVersion": 2})
    assert stage.client.result(asked) == {"protocolVersion": 2}
    assert stage.agent.messages == []


@pytest.mark.parametrize(
    ("method", "params", "name", "lowered"),
    [
        ("auth/login", {"methodId": "token"}, "authenticate", {"methodId": "token"}),
        ("auth/logout", {}, "logout", {}),
    ],
)
@pytest.mark.parametrize("result", [{}, None])
def test_authentication_has_another_name(
    method: str, params: Json, name: str, lowered: Json, result: Any
) -> None:
    stage = Stage()
    asked = stage.client.ask(method, params)
    (request,) = stage.agent.asked()
    assert (request["method"], request["params"]) == (name, lowered)
    stage.agent.answer(request["id"], result)
    assert stage.client.result(asked) == {}


def test_an_error_goes_back_as_it_came() -> None:
    stage = Stage()
    asked = stage.client.ask("auth/login", {"methodId": "token"})
    stage.agent.fail(stage.agent.last_asked("authenticate"), -32000, "who?", data={"why": [1]})
    assert stage.client.error(asked) == {"code": -32000, "message": "who?", "data": {"why": [1]}}


# ---- sessions begin ---------------------------------------------------------------------------


def test_a_new_session_gets_the_lists_that_version_1_requires() -> None:
    stage = Stage()
    asked = stage.client.ask(
        "session/new",
        {"cwd": "/work", "mcpServers": [{"type": "stdio", "name": "m", "command": "mcp"}]},
    )
    (request,) = stage.agent.asked("session/new")
    server = {"name": "m", "command": "mcp", "args": [], "env": []}
    assert request["params"] == {"cwd": "/work", "mcpServers": [server]}
    stage.agent.answer(request["id"], {"sessionId": "s", "modes": modes("code")})
    result = stage.client.result(asked)
    assert result["sessionId"] == "s"
    (option,) = result["configOptions"]
    assert (option["configId"], option["category"], option["currentValue"]) == (
        "mode",
        "mode",
        "code",
    )


def test_updates_before_the_answer_to_session_new_are_passed_on() -> None:
    stage = Stage()
    asked = stage.client.ask("session/new", {"cwd": "/work"})
    stage.update({"sessionUpdate": "available_commands_update", "availableCommands": []})
    stage.agent.answer(stage.agent.last_asked("session/new"), {"sessionId": "s"})
    first, second = stage.client.messages
    assert first["params"]["update"]["sessionUpdate"] == "available_commands_update"
    assert second["id"] == asked


def test_a_resume_with_replay_is_a_load_and_ends_with_the_state() -> None:
    stage = Stage()
    asked = resume(stage, replay=True)
    (request,) = stage.agent.asked()
    assert request["method"] == "session/load"
    assert request["params"] == {"sessionId": "s", "cwd": "/work", "mcpServers": []}
    stage.chunk("old")
    stage.agent.answer(request["id"], {"modes": modes()})
    stage.clock.run()
    assert stage.client.texts == ["old"]
    assert [each.get("id") for each in stage.client.messages] == [None, None, None, asked]
    assert stage.client.states == ["idle"]
    assert stage.client.result(asked)["configOptions"][0]["configId"] == "mode"


def test_a_resume_without_replay_is_a_resume_where_the_agent_has_one() -> None:
    stage = Stage()
    asked = resume(stage, replay=False)
    stage.agent.answer(stage.agent.last_asked("session/resume"), None)
    assert stage.client.result(asked) == {}
    assert stage.client.states == ["idle"]


def test_a_resume_is_made_of_a_load_whose_replay_is_kept_from_the_client() -> None:
    stage = Stage(LOADS)
    asked = resume(stage, replay=False)
    loading = stage.agent.last_asked("session/load")
    stage.chunk("old", "user_message_chunk")
    stage.chunk("old")
    stage.update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Old"})
    stage.update({"sessionUpdate": "plan", "entries": []})
    stage.update({"sessionUpdate": "usage_update", "used": 1, "size": 2})
    stage.agent.answer(loading, {})
    stage.clock.run()
    assert [each["sessionUpdate"] for each in stage.client.updates] == [
        "usage_update",
        "state_update",
    ]
    assert stage.client.result(asked) == {}


def test_after_a_load_that_failed_nothing_is_kept_from_the_client() -> None:
    stage = Stage(LOADS)
    asked = resume(stage, replay=False)
    stage.agent.fail(stage.agent.last_asked("session/load"), -32002, "none")
    assert stage.client.error(asked)["code"] == -32002
    stage.chunk("new")
    assert stage.client.texts == ["new"]
    assert stage.client.states == []


@pytest.mark.parametrize(
    ("able", "replay"),
    [(SILENT, True), (SILENT, False), ({"sessionCapabilities": {"resume": {}}}, True)],
)
def test_what_an_agent_cannot_replay_or_resume_is_refused(able: Json, replay: bool) -> None:
    stage = Stage(able)
    asked = resume(stage, replay=replay)
    error = stage.client.error(asked)
    assert error["code"] == -32601
    assert "session/load" in error["message"]
    assert stage.agent.messages == []
    assert stage.up.sessions == {}


def test_a_replay_from_somewhere_else_is_refused() -> None:
    stage = Stage()
    params = {"sessionId": "s", "cwd": "/", "replayFrom": {"type": "_cursor", "at": 4}}
    asked = stage.client.ask("session/resume", params)
    assert stage.client.error(asked)["code"] == -32602
    assert stage.agent.messages == []


def test_a_resume_in_mid_turn_reports_that_the_session_runs() -> None:
    stage = Stage()
    stage.prompt()
    stage.chunk()
    resume(stage, replay=False)
    stage.agent.answer(stage.agent.last_asked("session/resume"), {})
    assert stage.client.states == ["running", "running"]


# ---- sessions are listed and end --------------------------------------------------------------


def test_a_list_is_the_agents_where_it_has_one() -> None:
    stage = Stage()
    asked = stage.client.ask("session/list", {"cwd": "/work"})
    info = {"sessionId": "s", "cwd": "/work", "updatedAt": "2026-11-01T10:00:00Z"}
    stage.agent.answer(stage.agent.last_asked("session/list"), {"sessions": [info]})
    assert stage.client.result(asked) == {"sessions": [info]}


def test_an_agent_that_cannot_list_is_named_in_the_error() -> None:
    stage = Stage(LOADS)
    stage.session()
    error = stage.client.error(stage.client.ask("session/list", {}))
    assert error["code"] == -32601
    assert error["message"] == "The agent cannot list its sessions: it has no session/list"
    assert stage.agent.asked("session/list") == []


def test_a_close_that_the_agent_lacks_only_forgets() -> None:
    stage = Stage(SILENT)
    stage.session()
    asked = stage.client.ask("session/close", {"sessionId": "s"})
    assert stage.client.result(asked) == {}
    assert stage.agent.asked("session/close") == []
    assert stage.up.sessions == {}


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
def test_close_and_delete_are_passed_on_and_forget_when_they_worked(method: str) -> None:
    stage = Stage()
    stage.session()
    refused = stage.client.ask(method, {"sessionId": "s"})
    stage.agent.fail(stage.agent.last_asked(method), -32603)
    assert stage.client.error(refused)["code"] == -32603
    assert list(stage.up.sessions) == ["s"]
    done = stage.client.ask(method, {"sessionId": "s"})
    stage.agent.answer(stage.agent.last_asked(method), {})
    assert stage.client.result(done) == {}
    assert stage.up.sessions == {}


def test_a_delete_that_the_agent_lacks_is_refused() -> None:
    stage = Stage(SILENT)
    asked = stage.client.ask("session/delete", {"sessionId": "s"})
    assert stage.client.error(asked)["code"] == -32601


@pytest.mark.parametrize("able", [ALL, SILENT])
def test_a_close_in_mid_turn_ends_the_turn_first(able: Json) -> None:
    stage = Stage(able)
    stage.session()
    running, waiting = stage.prompt(), stage.prompt("next")
    asked = stage.permission()
    closing = stage.client.ask("session/close", {"sessionId": "s"})
    if able is ALL:
        stage.agent.answer(stage.agent.last_asked("session/close"), {})
    assert stage.client.error(waiting)["code"] == -32800
    assert stage.client.result(running)["messageId"]
    assert stage.agent.result(asked) == {"outcome": {"outcome": "cancelled"}}
    assert stage.agent.notifications("session/cancel") == [{"sessionId": "s"}]
    assert stage.client.states[-1] == "idle:cancelled"
    assert stage.client.messages[-1]["id"] == closing
    before = len(stage.client.messages)
    stage.chunk("late")
    late = stage.permission("u")
    stage.finish("cancelled")
    assert stage.agent.result(late) == {"outcome": {"outcome": "cancelled"}}
    assert len(stage.client.messages) == before, "a closed session sends nothing"
    assert stage.lost == [("", "the session was closed")]
    assert stage.up.sessions == {}


def test_a_session_that_is_used_again_after_its_close_waits_for_the_old_turn() -> None:
    stage = Stage(SILENT)
    stage.session()
    stage.prompt("old")
    stage.client.ask("session/close", {"sessionId": "s"})
    new = stage.prompt("new")
    assert len(stage.agent.asked("session/prompt")) == 1
    stage.finish("cancelled")
    assert len(stage.agent.asked("session/prompt")) == 2
    stage.chunk("fresh")
    stage.finish()
    assert stage.client.result(new)["messageId"]
    assert stage.client.states == ["running", "idle:cancelled", "running", "idle:end_turn"]
    assert list(stage.up.sessions) == ["s"]


# ---- modes and options ------------------------------------------------------------------------


def test_the_option_that_replaces_the_modes_is_set_as_a_mode() -> None:
    stage = Stage()
    stage.session(modes=modes())
    asked = choose(stage, "mode", "code")
    (request,) = stage.agent.asked("session/set_mode")
    assert request["params"] == {"sessionId": "s", "modeId": "code"}
    stage.agent.answer(request["id"], None)
    (option,) = stage.client.result(asked)["configOptions"]
    assert option["currentValue"] == "code"


def test_a_mode_is_chosen_by_an_id() -> None:
    stage = Stage()
    stage.session(modes=modes())
    assert stage.client.error(choose(stage, "mode", True, "boolean"))["code"] == -32602


def test_a_mode_update_of_the_agent_is_an_update_of_the_option() -> None:
    stage = Stage()
    stage.session(modes=modes())
    stage.update({"sessionUpdate": "current_mode_update", "currentModeId": "code"})
    (update,) = stage.client.updates
    assert update["sessionUpdate"] == "config_option_update"
    assert update["configOptions"][0]["currentValue"] == "code"


@pytest.mark.parametrize(
    ("able", "replay", "method"),
    [
        (ALL, True, "session/load"),
        (ALL, False, "session/resume"),
        (LOADS, False, "session/load"),
    ],
    ids=["load", "resume", "resume by a load"],
)
def test_the_modes_of_a_resumed_session_are_those_that_the_agent_answered_with(
    able: Json, replay: bool, method: str
) -> None:
    stage = Stage(able)
    resume(stage, replay=replay)
    stage.agent.answer(stage.agent.last_asked(method), {"modes": modes()})
    stage.clock.run()
    choose(stage, "mode", "code")
    (request,) = stage.agent.asked("session/set_mode")
    assert request["params"] == {"sessionId": "s", "modeId": "code"}
    stage.update({"sessionUpdate": "current_mode_update", "currentModeId": "code"})
    (option,) = stage.client.updates[-1]["configOptions"]
    assert option["currentValue"] == "code"
    offered = [mode["id"] for mode in modes()["availableModes"]]
    assert [choice["value"] for choice in option["options"]] == offered


OWN_MODE = {
    "id": "session-mode",
    "name": "Mode",
    "type": "select",
    "category": "mode",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}


def test_an_agents_own_option_is_set_as_an_option_and_keeps_its_name() -> None:
    stage = Stage()
    stage.session(modes=modes(), configOptions=[OWN_MODE])
    asked = choose(stage, "session-mode", "code")
    (request,) = stage.agent.asked("session/set_config_option")
    assert request["params"] == {"sessionId": "s", "configId": "session-mode", "value": "code"}
    stage.agent.answer(request["id"], {"configOptions": [{**OWN_MODE, "currentValue": "code"}]})
    (option,) = stage.client.result(asked)["configOptions"]
    assert (option["configId"], option["currentValue"]) == ("session-mode", "code")


def test_setting_another_option_keeps_the_one_that_replaces_the_modes() -> None:
    stage = Stage()
    fast = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False}
    stage.session(modes=modes(), configOptions=[fast])
    asked = choose(stage, "fast", True, "boolean")
    answered = {"configOptions": [{**fast, "currentValue": True}]}
    stage.agent.answer(stage.agent.last_asked("session/set_config_option"), answered)
    options = stage.client.result(asked)["configOptions"]
    assert [each["configId"] for each in options] == ["mode", "fast"]
    assert options[1]["currentValue"] is True


# ---- what the bridge offers -------------------------------------------------------------------


class FakeOffers:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.forgotten: list[str] = []

    def answer(self, up: Any, request: Any) -> None:
        self.asked.append(request.method)
        up.agent.respond(request.id, {})

    def cancel(self, session_id: str, terminal_id: str) -> bool:
        return (session_id, terminal_id) == ("s", "known")

    def forget(self, session_id: str) -> None:
        self.forgotten.append(session_id)


def test_files_and_terminals_are_answered_by_the_side_that_offers_them() -> None:
    offers = FakeOffers()
    stage = Stage(offers=offers)
    asked = stage.agent.ask("fs/read_text_file", {"sessionId": "s", "path": "/x"})
    assert stage.agent.result(asked) == {}
    assert offers.asked == ["fs/read_text_file"]
    assert stage.client.messages == []


def test_a_terminal_of_the_bridge_can_be_cancelled() -> None:
    stage = Stage(offers=FakeOffers())
    known = stage.client.ask("terminal/cancel", {"sessionId": "s", "terminalId": "known"})
    assert stage.client.result(known) == {}
    other = stage.client.ask("terminal/cancel", {"sessionId": "s", "terminalId": "other"})
    assert stage.client.error(other)["code"] == -32602


@pytest.mark.parametrize("able", [ALL, SILENT])
def test_what_the_bridge_runs_for_a_session_ends_with_it(able: Json) -> None:
    offers = FakeOffers()
    stage = Stage(able, offers=offers)
    stage.session()
    stage.client.ask("session/close", {"sessionId": "s"})
    if able is ALL:
        assert offers.forgotten == []
        stage.agent.answer(stage.agent.last_asked("session/close"), {})
    assert offers.forgotten == ["s"]
