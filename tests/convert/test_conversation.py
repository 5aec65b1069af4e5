"""Whole conversations: requests, answers and the life of a prompt, message by message."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.strategies import Json
from twofold.convert.conversation import Conversation, Handler, RecordedRequests, Target, handler_of
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.versions import Dialect
from twofold.journal.recording import read_line
from twofold.rpc.connection import Failure, Request, Response, read_message, write_message
from twofold.wire import v1, v2
from twofold.wire.base import Fault, Malformed

TEXT: Json = {"type": "text", "text": "hello"}
IMAGE: Json = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
NEW: Json = {"cwd": "/", "mcpServers": []}


class Talk:
    """A conversation between two peers of one version, read in the other."""

    def __init__(self, target: Target, dialect: Dialect | None = None, **options: bool) -> None:
        self.losses = Losses(**options)
        self.conversation = Conversation(target, self.losses, dialect)

    def client(self, **message: Any) -> list[Json]:
        """The messages that a message of the client becomes; `to` is the receiver of each."""
        return self._convert("client", message)

    def agent(self, **message: Any) -> list[Json]:
        """The messages that a message of the agent becomes; `to` is the receiver of each."""
        return self._convert("agent", message)

    def _convert(self, sender: Handler, message: Json) -> list[Json]:
        read = read_message(message)
        assert read is not None
        other = "agent" if sender == "client" else "client"
        made = []
        for out in self.conversation.message(read, sender):
            written = write_message(out.message)
            del written["jsonrpc"]
            made.append({"to": sender if out.back else other, **written})
        return made

    def update(self, kind: str, **fields: Any) -> list[Json]:
        """What becomes of an update of the agent."""
        return self.agent(**update(kind, **fields))

    @property
    def lost(self) -> list[str]:
        """Where something was lost since the last look."""
        paths = [loss.path for loss in self.losses]
        self.losses.clear()
        return paths


def update(kind: str, session: str = "s", /, **fields: Any) -> Json:
    return {
        "method": "session/update",
        "params": {"sessionId": session, "update": {"sessionUpdate": kind, **fields}},
    }


def to_client(kind: str, session: str = "s", /, **fields: Any) -> Json:
    return {"to": "client", **update(kind, session, **fields)}


def prompt(*blocks: Json, identity: Any = 1, session: str = "s") -> Json:
    return {
        "id": identity,
        "method": "session/prompt",
        "params": {"sessionId": session, "prompt": list(blocks or [TEXT])},
    }


def from_v1(**options: bool) -> Talk:
    return Talk("2", "1", **options)


def from_v2(**options: bool) -> Talk:
    return Talk("1", "2", **options)


# ---- version 1 → version 2: prompts ----------------------------------------------------------


def test_a_prompt_of_version_1_is_forwarded_shown_and_running() -> None:
    talk = from_v1()
    assert talk.client(**prompt(TEXT, IMAGE)) == [
        {"to": "agent", **prompt(TEXT, IMAGE)},
        to_client("user_message", messageId="v1:user:1", content=[TEXT, IMAGE]),
        to_client("state_update", state="running"),
    ]


def test_the_result_of_version_1_names_the_message_and_then_the_session_is_idle() -> None:
    talk = from_v1()
    talk.client(**prompt())
    assert talk.update("agent_message_chunk", content=TEXT) == [
        to_client("agent_message_chunk", messageId="v1:agent:2", content=TEXT)
    ]
    assert talk.agent(id=1, result={"stopReason": "max_tokens", "_meta": {"k": 1}}) == [
        {"to": "client", "id": 1, "result": {"messageId": "v1:user:1"}},
        to_client("state_update", state="idle", stopReason="max_tokens", _meta={"k": 1}),
    ]
    assert talk.lost == []


def test_every_prompt_gets_the_id_of_its_own_message() -> None:
    talk = from_v1()
    first, second = talk.client(**prompt(identity=1)), talk.client(**prompt(identity=2))
    shown = [outs[1]["params"]["update"]["messageId"] for outs in (first, second)]
    answers = [
        talk.agent(id=identity, result={"stopReason": "end_turn"})[0]["result"]["messageId"]
        for identity in (1, 2)
    ]
    assert answers == shown
    assert len(set(shown)) == 2


@pytest.mark.parametrize(
    ("error", "sent"),
    [
        ({"code": -32000, "message": "Auth"}, {"code": -32000, "message": "Auth"}),
        ("broken", {"code": -32603, "message": "unknown error", "sent": "broken"}),
    ],
)
def test_an_error_of_version_1_is_the_answer_and_then_the_session_is_idle_with_it(
    error: Any, sent: Json
) -> None:
    talk = from_v1()
    talk.client(**prompt())
    assert talk.agent(id=1, error=error) == [
        {"to": "client", "id": 1, "error": error},
        to_client("state_update", state="idle", stopReason="error", error=sent),
    ]


def test_an_error_of_version_1_after_a_cancel_is_the_end_of_a_cancelled_turn() -> None:
    talk = from_v1()
    talk.client(**prompt(TEXT))
    talk.client(method="session/cancel", params={"sessionId": "s"})
    _, idle = talk.agent(id=1, error={"code": -32603, "message": "aborted"})
    assert idle["params"]["update"]["stopReason"] == "cancelled"
    talk.client(**prompt(TEXT, identity=2))
    _, idle = talk.agent(id=2, error={"code": -32603, "message": "broken"})
    assert idle["params"]["update"]["stopReason"] == "error"


def test_the_echo_of_a_prompt_by_a_version_1_agent_is_not_shown_again() -> None:
    talk = from_v1()
    talk.client(**prompt(TEXT, IMAGE))
    assert talk.update("user_message_chunk", content={"type": "text", "text": "hel"}) == []
    assert talk.update("user_message_chunk", content={"type": "text", "text": "lo"}) == []
    assert talk.update("user_message_chunk", content=IMAGE) == []
    assert len(talk.update("user_message_chunk", content=TEXT)) == 1


def test_sessions_are_kept_apart() -> None:
    talk = from_v1()
    talk.client(**prompt(session="a"))
    talk.client(**prompt(identity=2, session="b"))
    made = [talk.agent(**update("agent_message_chunk", session, content=TEXT)) for session in "aba"]
    assert made[0] == made[2]
    assert [outs[0]["params"]["sessionId"] for outs in made] == ["a", "b", "a"]


def test_a_prompt_that_is_refused_is_neither_forwarded_nor_shown_nor_answered() -> None:
    talk = from_v1()
    with pytest.raises(NotConvertible):
        talk.client(id=1, method="session/prompt", params={"sessionId": "s", "prompt": []})
    assert talk.agent(id=1, error={"code": 1, "message": "a"}) == []


# ---- version 1 → version 2: setup, modes, replay ---------------------------------------------

MODES: Json = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}
MODE_OPTION: Json = {
    "type": "select",
    "configId": "mode",
    "name": "Mode",
    "category": "mode",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}
SWITCH: Json = {"type": "boolean", "name": "Fast", "currentValue": True}
OWN_MODE: Json = {**MODE_OPTION, "name": "Mine", "configId": "my-mode"}


def as_v1(option: Json) -> Json:
    renamed = {**option, "id": option["configId"]}
    del renamed["configId"]
    return renamed


def with_session(talk: Talk, **setup: Any) -> Json:
    talk.client(id="new", method="session/new", params=NEW)
    (answer,) = talk.agent(id="new", result={"sessionId": "s", **setup})
    result: Json = answer["result"]
    return result


def set_mode(mode: str) -> Json:
    return {
        "id": "mode",
        "method": "session/set_mode",
        "params": {"sessionId": "s", "modeId": mode},
    }


def test_the_modes_of_a_new_session_are_a_config_option() -> None:
    talk = from_v1()
    assert with_session(talk, modes=MODES) == {"sessionId": "s", "configOptions": [MODE_OPTION]}
    assert talk.lost == []


def test_what_is_lost_of_a_new_session_is_reported_once() -> None:
    talk = from_v1()
    with_session(talk, configOptions=[as_v1({**OWN_MODE, "options": []})])
    assert talk.lost == ["configOptions[0].options"]


def test_setting_a_mode_sets_the_option_that_replaces_the_modes() -> None:
    talk = from_v1()
    with_session(talk, modes=MODES, configOptions=[{**SWITCH, "id": "fast"}])
    (request,) = talk.client(**set_mode("code"))
    assert request["method"] == "session/set_config_option"
    assert request["params"] == {
        "sessionId": "s",
        "configId": "mode",
        "type": "id",
        "value": "code",
    }
    (answer,) = talk.agent(id="mode", result={})
    assert answer["result"] == {
        "configOptions": [
            {**MODE_OPTION, "currentValue": "code"},
            {**SWITCH, "configId": "fast"},
        ]
    }


def test_an_agents_own_mode_option_is_found_by_its_category() -> None:
    talk = from_v1()
    with_session(talk, modes=MODES, configOptions=[as_v1(OWN_MODE)])
    (request,) = talk.client(**set_mode("code"))
    assert request["params"]["configId"] == "my-mode"
    (answer,) = talk.agent(id="mode", result=None)
    assert answer["result"] == {"configOptions": [{**OWN_MODE, "currentValue": "code"}]}


def test_the_answer_to_setting_an_option_has_the_mode_too() -> None:
    talk = from_v1()
    with_session(talk, modes=MODES)
    talk.client(
        id=2,
        method="session/set_config_option",
        params={"sessionId": "s", "configId": "fast", "type": "boolean", "value": True},
    )
    fast = {**SWITCH, "configId": "fast"}
    (answer,) = talk.agent(id=2, result={"configOptions": [as_v1(fast)]})
    assert answer["result"] == {"configOptions": [MODE_OPTION, fast]}
    (sent,) = talk.update("current_mode_update", currentModeId="code")
    assert sent["params"]["update"]["configOptions"][1] == fast


def test_loading_is_resuming_with_a_replay_from_the_start() -> None:
    talk = from_v1()
    (request,) = talk.client(id=1, method="session/load", params={"sessionId": "s", **NEW})
    assert request["method"] == "session/resume"
    assert request["params"]["replayFrom"] == {"type": "start"}
    (answer,) = talk.agent(id=1, result={"modes": MODES})
    assert answer["result"] == {"configOptions": [MODE_OPTION]}


def test_resuming_stays_resuming_without_a_replay() -> None:
    talk = from_v1()
    (request,) = talk.client(id=1, method="session/resume", params={"sessionId": "s", "cwd": "/"})
    assert request["method"] == "session/resume"
    assert "replayFrom" not in request["params"]


def test_what_is_replayed_is_not_taken_for_what_was_sent_before() -> None:
    talk = from_v1()
    talk.client(**prompt())
    before = talk.update("agent_message_chunk", content=TEXT)
    talk.agent(id=1, result={"stopReason": "end_turn"})
    talk.client(id=2, method="session/load", params={"sessionId": "s", **NEW})
    (echo,) = talk.update("user_message_chunk", content=TEXT)
    (answer,) = talk.update("agent_message_chunk", content=TEXT)
    ids = {out["params"]["update"]["messageId"] for out in (*before, echo, answer)}
    assert len(ids) == 3


def test_a_tool_call_that_is_replayed_is_new_again() -> None:
    talk = from_v1()
    call = {"toolCallId": "t", "title": "Read"}
    first = talk.update("tool_call", **call)
    assert talk.update("tool_call", **call) != first
    talk.client(id=2, method="session/load", params={"sessionId": "s", **NEW})
    assert talk.update("tool_call", **call) == first


def test_the_modes_of_a_loaded_session_are_known() -> None:
    talk = from_v1()
    talk.client(id=1, method="session/load", params={"sessionId": "s", **NEW})
    talk.agent(id=1, result={"modes": MODES})
    (sent,) = talk.update("current_mode_update", currentModeId="code")
    assert sent["params"]["update"]["configOptions"] == [{**MODE_OPTION, "currentValue": "code"}]


@pytest.mark.parametrize("talk", [from_v1(), from_v2()])
def test_a_prompt_without_an_id_is_only_forwarded(talk: Talk) -> None:
    message = {"method": "session/prompt", "params": prompt()["params"]}
    assert talk.client(**message) == [{"to": "agent", **message}]


# ---- version 2 → version 1: prompts ----------------------------------------------------------


def echo(message_id: str = "u", *blocks: Json) -> Json:
    return {"messageId": message_id, "content": list(blocks or [TEXT])}


def test_a_prompt_of_version_2_is_answered_when_the_turn_is_over() -> None:
    talk = from_v2()
    assert talk.client(**prompt()) == [{"to": "agent", **prompt()}]
    assert talk.update("user_message", **echo()) == []
    assert talk.agent(id=1, result={"messageId": "u"}) == []
    assert talk.update("state_update", state="running") == []
    assert len(talk.update("agent_message_chunk", messageId="m", content=TEXT)) == 1
    assert talk.update("state_update", state="idle", stopReason="end_turn") == [
        {"to": "client", "id": 1, "result": {"stopReason": "end_turn"}}
    ]
    assert talk.lost == []


def test_the_agent_may_run_and_echo_before_it_answers() -> None:
    talk = from_v2()
    talk.client(**prompt(TEXT, IMAGE))
    assert talk.update("state_update", state="running") == []
    assert talk.update("user_message_chunk", messageId="u", content=TEXT) == []
    assert talk.update("user_message_chunk", messageId="u", content=IMAGE) == []
    assert talk.agent(id=1, result={"messageId": "u"}) == []
    assert talk.update("state_update", state="requires_action") == []
    assert talk.update("state_update", state="running") == []
    (answer,) = talk.update("state_update", state="idle", stopReason="refusal")
    assert answer["result"] == {"stopReason": "refusal"}


def test_a_turn_that_is_over_before_the_agent_answers_is_answered_then() -> None:
    talk = from_v2()
    talk.client(**prompt())
    assert talk.update("state_update", state="running") == []
    assert talk.update("state_update", state="idle", stopReason="end_turn") == []
    (answer,) = talk.agent(id=1, result={"messageId": "u"})
    assert answer == {"to": "client", "id": 1, "result": {"stopReason": "end_turn"}}


def test_a_draft_that_answers_with_nothing_is_answered_when_the_turn_is_over() -> None:
    talk = from_v2()
    talk.client(**prompt())
    assert talk.agent(id=1, result={}) == []
    talk.update("state_update", state="running")
    (answer,) = talk.update("state_update", state="idle", stopReason="end_turn")
    assert answer["id"] == 1


def test_a_repeated_idle_is_not_a_completion() -> None:
    talk = from_v2()
    idle = {"state": "idle", "stopReason": "end_turn"}
    talk.update("state_update", state="running")
    talk.update("state_update", **idle)
    talk.losses.clear()
    talk.client(**prompt())
    assert talk.update("state_update", **idle) == []  # of the turn before
    talk.update("user_message", **echo())
    assert talk.update("state_update", **idle) == []
    talk.agent(id=1, result={"messageId": "u"})
    assert talk.update("state_update", **idle) == []
    talk.update("state_update", state="running")
    assert len(talk.update("state_update", **idle)) == 1
    assert talk.update("state_update", **idle) == []
    assert talk.lost == ["update"]  # no request waits for the last one


def test_the_end_of_earlier_work_is_not_the_end_of_the_prompt() -> None:
    talk = from_v2()
    talk.update("state_update", state="running")
    talk.client(**prompt())
    assert talk.update("state_update", state="idle", stopReason="end_turn") == []
    assert talk.agent(id=1, result={"messageId": "u"}) == []
    talk.update("state_update", state="running")
    assert len(talk.update("state_update", state="idle", stopReason="end_turn")) == 1


def test_prompts_that_work_together_end_together() -> None:
    talk = from_v2()
    talk.client(**prompt(identity=1))
    talk.agent(id=1, result={"messageId": "u"})
    talk.update("state_update", state="running")
    talk.client(**prompt(IMAGE, identity=2))
    talk.agent(id=2, result={"messageId": "w"})
    assert talk.update("user_message", **echo("w", IMAGE)) == []
    ends = talk.update("state_update", state="idle", stopReason="end_turn")
    assert [end["id"] for end in ends] == [1, 2]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"error": {"code": 400, "message": "a"}}, {"code": 400, "message": "a"}),
        ({}, {"code": -32603, "message": "The turn ended with an error"}),
        ({"error": None}, {"code": -32603, "message": "The turn ended with an error"}),
    ],
)
def test_a_turn_that_ends_with_an_error_is_answered_with_it(fields: Json, error: Json) -> None:
    talk = from_v2()
    talk.client(**prompt())
    talk.agent(id=1, result={"messageId": "u"})
    talk.update("state_update", state="running")
    assert talk.update("state_update", state="idle", stopReason="error", **fields) == [
        {"to": "client", "id": 1, "error": error}
    ]


@pytest.mark.parametrize("reason", [{}, {"stopReason": None}, {"stopReason": "_tired"}])
def test_a_stop_reason_that_version_1_lacks_is_reported(reason: Json) -> None:
    talk = from_v2()
    talk.client(**prompt())
    talk.agent(id=1, result={"messageId": "u"})
    talk.update("state_update", state="running")
    (answer,) = talk.update("state_update", state="idle", **reason)
    assert answer["result"] == {"stopReason": "end_turn"}
    assert talk.lost == ["update.stopReason"]


def test_usage_and_metadata_of_a_turn_are_those_of_its_result() -> None:
    usage = {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}
    talk = from_v2()
    talk.client(**prompt())
    talk.agent(id=1, result={"messageId": "u"})
    talk.update(
        "state_update", state="running", background=[{"type": "terminal", "terminalId": ""}]
    )
    assert talk.lost == ["update.background"]
    (answer,) = talk.update(
        "state_update", state="idle", stopReason="end_turn", usage=usage, _meta={"k": 1}
    )
    assert answer["result"] == {"stopReason": "end_turn", "usage": usage, "_meta": {"k": 1}}


def test_a_prompt_that_fails_is_answered_at_once_and_only_once() -> None:
    talk = from_v2()
    talk.client(**prompt())
    error = {"code": -32000, "message": "Auth"}
    assert talk.agent(id=1, error=error) == [{"to": "client", "id": 1, "error": error}]
    talk.update("state_update", state="running")
    assert talk.update("state_update", state="idle", stopReason="end_turn") == []


def test_a_cancelled_turn_ends_as_cancelled_in_version_1() -> None:
    talk = from_v2()
    for identity, end in [(1, {"error": {"code": 1, "message": "aborted"}}), (2, None)]:
        talk.client(**prompt(identity=identity))
        talk.client(method="session/cancel", params={"sessionId": "s"})
        if end is not None:
            (answer,) = talk.agent(id=identity, **end)
        else:
            talk.agent(id=identity, result={"messageId": "u"})
            talk.update("state_update", state="running")
            (answer,) = talk.update("state_update", state="idle")
        assert answer == {"to": "client", "id": identity, "result": {"stopReason": "cancelled"}}
    assert talk.lost == ["error"]


def test_an_answer_in_the_shape_of_version_1_ends_the_turn() -> None:
    talk = from_v2()
    talk.client(**prompt())
    assert talk.agent(id=1, result={"stopReason": "refusal"}) == [
        {"to": "client", "id": 1, "result": {"stopReason": "refusal"}}
    ]


def test_user_messages_that_are_not_the_prompt_are_forwarded() -> None:
    talk = from_v2()
    talk.client(**prompt())
    (other,) = talk.update("user_message", **echo("w", IMAGE))
    assert other["params"]["update"] == {
        "sessionUpdate": "user_message_chunk",
        "messageId": "w",
        "content": IMAGE,
    }
    talk.agent(id=1, result={"messageId": "u"})
    # by its id, whatever the agent made of the text
    assert talk.update("user_message", **echo("u", {"type": "text", "text": "changed"})) == []
    assert talk.lost == ["update.content"]
    assert len(talk.update("user_message", **echo("x", TEXT))) == 1


def test_without_a_prompt_the_state_is_lost_and_everything_else_is_forwarded() -> None:
    talk = from_v2()
    assert talk.update("state_update", state="running") == []
    assert len(talk.update("user_message", **echo())) == 1
    assert talk.lost == ["update"]


def test_a_prompt_with_unknown_content_is_refused_and_its_answer_dropped() -> None:
    talk = from_v2()
    with pytest.raises(NotConvertible):
        talk.client(**prompt({"type": "_map"}))
    assert talk.agent(id=1, result={"messageId": "u"}) == []
    talk.update("state_update", state="running")
    assert talk.update("state_update", state="idle", stopReason="end_turn") == []


# ---- version 2 → version 1: setup and replay -------------------------------------------------


def test_commands_of_a_new_session_follow_as_an_update() -> None:
    talk = from_v2()
    talk.client(id=1, method="session/new", params={"cwd": "/"})
    commands = [{"type": "command", "name": "a", "description": "A"}]
    answer, note = talk.agent(
        id=1, result={"sessionId": "s", "availableCommands": commands, "configOptions": []}
    )
    assert answer["result"] == {"sessionId": "s", "configOptions": []}
    assert note == to_client(
        "available_commands_update", availableCommands=[{"name": "a", "description": "A"}]
    )
    assert talk.lost == []


def test_the_mode_of_a_new_session_is_a_mode_too() -> None:
    talk = from_v2()
    talk.client(id=1, method="session/new", params={"cwd": "/"})
    (answer,) = talk.agent(id=1, result={"sessionId": "s", "configOptions": [OWN_MODE]})
    assert answer["result"]["modes"] == MODES
    assert answer["result"]["configOptions"] == [as_v1(OWN_MODE)]


@pytest.mark.parametrize(
    ("replay", "method"),
    [({"replayFrom": {"type": "start"}}, "session/load"), ({}, "session/resume")],
)
def test_resuming_with_a_replay_is_loading(replay: Json, method: str) -> None:
    talk = from_v2()
    params = {"sessionId": "s", "cwd": "/", **replay}
    (request,) = talk.client(id=1, method="session/resume", params=params)
    assert request["method"] == method
    (answer,) = talk.agent(id=1, result={"configOptions": [OWN_MODE]})
    assert answer["result"]["modes"] == MODES


def test_a_replay_from_elsewhere_is_refused_and_its_answer_dropped() -> None:
    talk = from_v2()
    params = {"sessionId": "s", "cwd": "/", "replayFrom": {"type": "_cursor"}}
    with pytest.raises(NotConvertible):
        talk.client(id=1, method="session/resume", params=params)
    assert talk.agent(id=1, result={}) == []


def test_what_is_replayed_is_shown_again() -> None:
    talk = from_v2()
    message = {"messageId": "m", "content": [TEXT]}
    call = {"toolCallId": "t", "title": "Read"}
    first = talk.update("agent_message", **message) + talk.update("tool_call_update", **call)
    params = {"sessionId": "s", "cwd": "/", "replayFrom": {"type": "start"}}
    talk.client(id=1, method="session/resume", params=params)
    again = talk.update("agent_message", **message) + talk.update("tool_call_update", **call)
    assert first == again
    assert [out["params"]["update"]["sessionUpdate"] for out in again] == [
        *("agent_message_chunk", "tool_call")
    ]
    assert talk.lost == []


def test_without_a_replay_what_was_shown_is_not_shown_again() -> None:
    talk = from_v2()
    message = {"messageId": "m", "content": [TEXT]}
    assert len(talk.update("agent_message", **message)) == 1
    talk.client(id=1, method="session/resume", params={"sessionId": "s", "cwd": "/"})
    assert talk.update("agent_message", **message) == []


# ---- permissions, both ways ------------------------------------------------------------------

CALL: Json = {"toolCallId": "t", "title": "Write a.py"}
SUBJECT: Json = {"type": "tool_call", "toolCall": CALL}
SELECTED: Json = {"outcome": {"outcome": "selected", "optionId": "yes"}}


def ask(**fields: Any) -> Json:
    params = {"sessionId": "s", "options": OPTIONS, **fields}
    return {"id": 5, "method": "session/request_permission", "params": params}


def test_a_permission_request_of_version_1_is_asked_in_version_2() -> None:
    talk = from_v1()
    (request,) = talk.agent(**ask(toolCall=CALL))
    assert request == {"to": "client", **ask(title="Write a.py", subject=SUBJECT)}
    assert talk.client(id=5, result=SELECTED) == [{"to": "agent", "id": 5, "result": SELECTED}]
    assert talk.lost == []


def test_a_permission_request_of_version_2_is_asked_in_version_1() -> None:
    talk = from_v2()
    (request,) = talk.agent(**ask(title="Write a.py", subject=SUBJECT))
    assert request == {"to": "client", **ask(toolCall=CALL)}
    assert talk.client(id=5, result=SELECTED) == [{"to": "agent", "id": 5, "result": SELECTED}]
    assert talk.lost == []


def test_a_permission_request_of_june_is_asked_in_either_version() -> None:
    untitled = {"toolCallId": "t"}
    assert from_v2().agent(**ask(toolCall=untitled)) == [{"to": "client", **ask(toolCall=untitled)}]
    (lifted,) = Talk("2", "2").agent(**ask(toolCall=CALL))
    assert lifted == {"to": "client", **ask(title="Write a.py", subject=SUBJECT)}


def test_a_permission_request_that_is_refused_is_not_asked_and_its_answer_is_dropped() -> None:
    talk = from_v1()
    with pytest.raises(NotConvertible):
        talk.agent(**ask(toolCall=CALL, options=[]))
    assert talk.client(id=5, result=SELECTED) == []
    talk = from_v2()
    unknown = [{**OPTIONS[0], "kind": "_allow"}]
    with pytest.raises(NotConvertible):
        talk.agent(**ask(title="a", subject=SUBJECT, options=unknown))
    assert talk.client(id=5, result=SELECTED) == []


def test_an_outcome_that_version_1_lacks_never_becomes_a_choice() -> None:
    talk = from_v2()
    talk.agent(**ask(title="a", subject=SUBJECT))
    talk.losses.clear()
    (answer,) = talk.client(id=5, result={"outcome": {"outcome": "_yes", "optionId": "yes"}})
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
    assert talk.lost == ["outcome"]


# ---- ids, refusals, what passes unread -------------------------------------------------------


def test_the_ids_of_both_sides_may_collide() -> None:
    talk = from_v1()
    talk.client(**prompt(identity=5))
    talk.agent(**ask(toolCall=CALL))
    assert talk.client(id=5, result=SELECTED)[0]["result"] == SELECTED
    assert talk.agent(id=5, result={"stopReason": "end_turn"})[0]["result"].keys() == {"messageId"}


def test_colliding_ids_are_distinguished_by_the_message_where_its_sender_is_unknown() -> None:
    conversation = Conversation("2", Losses(), "1")

    def send(message: Json) -> list[Json]:
        read = read_message(message)
        assert read is not None
        return [write_message(out.message) for out in conversation.message(read)]

    send(prompt(identity=5))
    send(ask(toolCall=CALL))
    assert send({"id": 5, "result": SELECTED})[0]["result"] == SELECTED
    answer, _ = send({"id": 5, "result": {"stopReason": "end_turn"}})
    assert answer["result"].keys() == {"messageId"}


@pytest.mark.parametrize("identity", [0, -1, "", "a"])
def test_an_id_may_be_any_number_or_text(identity: Any) -> None:
    talk = from_v1()
    talk.client(**prompt(identity=identity))
    answer, _ = talk.agent(id=identity, result={"stopReason": "end_turn"})
    assert answer["id"] == identity


@pytest.mark.parametrize("answer", [{"result": {"content": "a"}}, {"error": {"code": 1}}])
@pytest.mark.parametrize(
    ("talk", "method", "params"),
    [
        (from_v1(), "fs/read_text_file", {"sessionId": "s", "path": "/a"}),
        (from_v1(), "terminal/create", {"sessionId": "s", "command": "ls"}),
        (from_v2(), "tool_call/cancel", {"sessionId": "s", "toolCallId": "t"}),
    ],
)
def test_a_method_that_the_other_version_does_not_have_is_refused_and_its_answer_dropped(
    talk: Talk, method: str, params: Json, answer: Json
) -> None:
    asks, answers = (talk.agent, talk.client)
    if method == "tool_call/cancel":
        asks, answers = answers, asks
    with pytest.raises(NotConvertible):
        asks(id=9, method=method, params=params)
    assert answers(id=9, **answer) == []


@pytest.mark.parametrize("answer", [{"result": {"stopReason": "end_turn"}}, {"error": {"code": 1}}])
@pytest.mark.parametrize("talk", [from_v1(), from_v2()])
def test_a_malformed_request_is_not_passed_on_and_its_answer_is_dropped(
    talk: Talk, answer: Json
) -> None:
    with pytest.raises(Malformed):
        talk.client(id=1, method="session/prompt", params={"prompt": "not a list"})
    assert talk.agent(id=1, **answer) == []


@pytest.mark.parametrize("talk", [from_v1(), from_v2()])
@pytest.mark.parametrize("method", ["_acme.dev/do", "future/method"])
def test_unknown_methods_and_their_answers_pass_unread(talk: Talk, method: str) -> None:
    odd: Json = {"params": [None, {"toolCall": 1}]}
    assert talk.client(id=1, method=method, **odd) == [
        {"to": "agent", "id": 1, "method": method, **odd}
    ]
    assert talk.agent(id=1, result=[1]) == [{"to": "client", "id": 1, "result": [1]}]
    talk.client(id=2, method=method)
    assert talk.agent(id=2, error=[1]) == [{"to": "client", "id": 2, "error": [1]}]
    assert talk.agent(method=method, **odd) == [{"to": "client", "method": method, **odd}]


@pytest.mark.parametrize("talk", [from_v1(), from_v2()])
@pytest.mark.parametrize("answer", [{"result": {"stopReason": "a"}}, {"error": None}])
@pytest.mark.parametrize("identity", [7, None])
def test_an_answer_without_a_request_passes_unread(talk: Talk, answer: Json, identity: Any) -> None:
    assert talk.agent(id=identity, **answer) == [{"to": "client", "id": identity, **answer}]


def test_a_request_that_is_answered_with_an_error_is_answered_with_an_error() -> None:
    talk = from_v1()
    talk.client(id=1, method="session/new", params=NEW)
    error = {"code": 1, "message": "a"}
    assert talk.agent(id=1, error=error) == [{"to": "client", "id": 1, "error": error}]


@pytest.mark.parametrize("params", [{}, {"update": 1}, [], None])
def test_a_session_update_without_an_update_is_malformed(params: Any) -> None:
    for talk in (from_v1(), from_v2()):
        with pytest.raises(Malformed):
            talk.agent(method="session/update", params=params)


@pytest.mark.parametrize("method", ["session/cancel", "$/cancel_request"])
def test_notifications_that_both_versions_have_stay_the_same(method: str) -> None:
    params = {"sessionId": "s"} if method == "session/cancel" else {"requestId": 1}
    for talk in (from_v1(), from_v2()):
        assert talk.client(method=method, params=params) == [
            {"to": "agent", "method": method, "params": params}
        ]


# ---- the same version ------------------------------------------------------------------------


def test_version_1_passes_through_untouched() -> None:
    talk = Talk("1", "1")
    odd: Json = {"sessionUpdate": "agent_message_chunk", "content": "not even valid"}
    message = {"method": "session/update", "params": {"sessionId": "s", "update": odd}}
    assert talk.agent(**message) == [{"to": "client", **message}]
    assert talk.client(**prompt()) == [{"to": "agent", **prompt()}]
    result = {"stopReason": 7}
    assert talk.agent(id=1, result=result) == [{"to": "client", "id": 1, "result": result}]
    odd = {"id": 2, "method": "session/new", "params": {"cwd": 7}}
    assert talk.client(**odd) == [{"to": "agent", **odd}]


def test_version_2_is_lifted_to_the_newest_draft() -> None:
    talk = Talk("2", "2")
    plan = {"type": "items", "id": "p", "entries": []}
    (sent,) = talk.update("plan_update", plan=plan)
    assert sent["params"]["update"]["plan"] == {"type": "items", "planId": "p", "entries": []}
    assert talk.client(**prompt()) == [{"to": "agent", **prompt()}]
    assert talk.agent(id=1, result={"messageId": "u"}) == [
        {"to": "client", "id": 1, "result": {"messageId": "u"}}
    ]
    talk.client(**prompt(identity=2))
    error = {"code": 1, "message": "a"}
    assert talk.agent(id=2, error=error) == [{"to": "client", "id": 2, "error": error}]


def test_what_was_skipped_is_reported() -> None:
    faults: list[Fault] = []
    conversation = Conversation("2", Losses(), "1", faults)
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": 7}
    assert conversation.update(call) == [{"sessionUpdate": "tool_call_update", "toolCallId": "t"}]
    assert [fault.path for fault in faults] == [".status"]


def test_a_diff_of_june_keeps_its_whole_texts_on_the_way_to_version_1() -> None:
    talk = from_v2()
    old = "".join(f"{number}\n" for number in range(50))
    diff = {"type": "diff", "path": "/a", "oldText": old, "newText": old + "end\n"}
    (sent,) = talk.update("tool_call_update", toolCallId="t", title="Edit", content=[diff])
    assert sent["params"]["update"]["content"] == [diff]
    assert talk.lost == []


# ---- initialize -------------------------------------------------------------------------------


def initialize(talk: Talk, request: Json, result: Json) -> tuple[Json, Json]:
    (asked,) = talk.client(id=0, method="initialize", params=request)
    (answered,) = talk.agent(id=0, result=result)
    return asked["params"], answered["result"]


INFO = {"name": "a", "version": "1"}


def test_initialize_of_version_1_is_brought_to_version_2() -> None:
    asked, answered = initialize(
        Talk("2"),
        {"protocolVersion": 1, "clientInfo": INFO},
        {"protocolVersion": 1, "agentInfo": INFO, "agentCapabilities": {"loadSession": True}},
    )
    assert (asked["protocolVersion"], asked["info"]) == (2, INFO)
    assert (answered["protocolVersion"], answered["info"]) == (2, INFO)


def test_initialize_of_version_2_is_brought_to_version_1() -> None:
    asked, answered = initialize(
        Talk("1"),
        {"protocolVersion": 2, "info": INFO, "capabilities": {}},
        {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}},
    )
    assert (asked["protocolVersion"], asked["clientInfo"]) == (1, INFO)
    assert (answered["protocolVersion"], answered["agentInfo"]) == (1, INFO)


def test_a_client_of_one_version_may_meet_an_agent_of_the_other() -> None:
    v1_request: Json = {"protocolVersion": 1, "clientInfo": INFO}
    v1_result: Json = {"protocolVersion": 1, "agentInfo": INFO, "authMethods": []}
    v2_request: Json = {"protocolVersion": 2, "info": INFO, "capabilities": {}}
    v2_result: Json = {"protocolVersion": 2, "info": INFO, "capabilities": {}}
    asked, answered = initialize(Talk("1"), v2_request, v1_result)
    assert asked["clientInfo"] == INFO
    assert answered == v1_result
    asked, answered = initialize(Talk("1"), v1_request, v2_result)
    assert asked == v1_request
    assert answered["agentInfo"] == INFO


def test_an_agent_that_claims_version_2_in_shapes_of_version_1_is_converted() -> None:
    talk = Talk("2")
    request = {"protocolVersion": 2, "info": INFO, "capabilities": {}}
    asked, answered = initialize(talk, request, {"protocolVersion": 2, "agentInfo": INFO})
    assert asked == request
    assert (answered["protocolVersion"], answered["info"]) == (2, INFO)
    outs = talk.client(**prompt())
    assert [out["to"] for out in outs] == ["agent", "client", "client"]


# ---- real conversations ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["claude.v1", "codex.v2", "fastagent.v1", "gemini.v1", "opencode.v1"]
)
def test_every_prompt_of_a_real_conversation_is_answered_in_the_other_version(
    shared: Callable[[str], Path], name: str
) -> None:
    target: Target = "1" if name.endswith("v2") else "2"
    conversation = Conversation(target, Losses())
    waiting: dict[Any, int] = {}
    prompts = ends = 0
    for data in shared(f"transcripts/{name}.jsonl").read_bytes().splitlines():
        for line in read_line(data):
            if line.message is None:
                continue
            try:
                outs = conversation.message(line.message, line.sender)
            except (Malformed, NotConvertible):
                continue
            for out in outs:
                message = write_message(out.message)
                if message.get("method") == "session/prompt":
                    waiting[message["id"]] = prompts = prompts + 1
                elif "method" not in message and line.sender == "agent":
                    ends += waiting.pop(message["id"], None) is not None
    assert prompts
    assert waiting == {}
    assert ends == prompts


# ---- which request an answer is for ----------------------------------------------------------


def test_an_answer_finds_its_request_though_both_sides_use_the_same_id() -> None:
    prompt = Request(5, "session/prompt")
    permission = Request(5, "session/request_permission")
    for known in (True, False):
        pending: RecordedRequests[str] = RecordedRequests()
        pending.add(prompt, "prompt")
        pending.add(permission, "permission")
        allowed = Response(5, {"outcome": {"outcome": "cancelled"}})
        ended = Response(5, {"stopReason": "end_turn"})
        assert pending.take(allowed, "client" if known else None) == "permission"
        assert pending.take(ended, "agent" if known else None) == "prompt"
        assert pending.take(ended) is None


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("session/request_permission", {"outcome": {"outcome": "cancelled"}}),
        ("elicitation/create", {"action": "decline"}),
        ("fs/read_text_file", {"content": "x"}),
        ("terminal/create", {"terminalId": "t"}),
        ("terminal/output", {"output": "x", "truncated": False}),
        ("terminal/wait_for_exit", {"exitCode": 0}),
    ],
)
def test_a_result_that_only_a_client_sends_answers_the_agents_request(
    method: str, result: dict[str, Any]
) -> None:
    pending: RecordedRequests[str] = RecordedRequests()
    pending.add(Request(5, "session/prompt"), "prompt")
    pending.add(Request(5, method), "asked")
    assert pending.take(Response(5, result)) == "asked"


def test_an_error_of_an_unknown_sender_is_read_as_the_agents() -> None:
    pending: RecordedRequests[str] = RecordedRequests()
    pending.add(Request(5, "session/prompt"), "prompt")
    pending.add(Request(5, "fs/read_text_file"), "file")
    assert pending.take(Failure(5, {})) == "prompt"
    assert pending.take(Failure(5, {})) == "file"


def test_the_sender_of_a_request_counts_more_than_its_method() -> None:
    pending: RecordedRequests[str] = RecordedRequests()
    pending.add(Request(5, "_any/method"), "asked", "agent")
    assert pending.take(Response(5, {}), "agent") is None
    assert pending.take(Response(5, {}), "client") == "asked"


@pytest.mark.parametrize("table", [v1.METHODS, v2.METHODS])
def test_each_method_is_handled_by_the_side_that_its_version_names(
    table: dict[str, v1.Method],
) -> None:
    for name, method in table.items():
        assert method.side in (handler_of(name), "both")


@pytest.mark.parametrize(
    ("method", "side"),
    [
        ("terminal/cancel", "agent"),
        ("terminal/resize", "client"),
        ("fs/list", "client"),
        ("elicitation/later", "client"),
        ("session/status", "agent"),
        ("_any/method", "agent"),
    ],
)
def test_a_method_that_no_version_has_is_known_by_its_family(method: str, side: str) -> None:
    assert handler_of(method) == side
