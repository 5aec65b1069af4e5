"""What a recording is played from: its sessions, and what mere updates lack."""

import json
from typing import Any

import pytest

from tests.support.recordings import TEXT, answer, request, script_of, tape, update, words


def methods(script: Any, session: int = 0) -> list[tuple[str, str, str]]:
    steps = script.sessions[session].steps
    return [(step.sender, step.kind, step.update or step.method) for step in steps]


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in values)


def test_the_request_that_began_a_session_belongs_to_it() -> None:
    script = script_of(
        tape(
            ("c2a", request(1, "session/new", cwd="/work", mcpServers=[])),
            ("a2c", words("early", messageId="m")),
            ("a2c", answer(1, sessionId="s", modes=None)),
        )
    )
    (session,) = script.sessions
    assert methods(script) == [
        ("client", "request", "session/new"),
        ("agent", "notification", "agent_message_chunk"),
        ("agent", "result", "session/new"),
    ]
    assert (session.session_id, session.cwd, session.setup) == ("s", "/work", {"modes": None})
    assert script.connection.steps == []


def test_a_refused_request_for_a_session_belongs_to_the_connection() -> None:
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "Log in"}}
    script = script_of(tape(("c2a", request(1, "session/new", cwd="/")), ("a2c", error)))
    assert [step.kind for step in script.connection.steps] == ["request", "error"]
    assert script.sessions == []


@pytest.mark.parametrize(
    ("result", "version"),
    [
        ({"protocolVersion": 1, "agentCapabilities": {}}, 1),
        ({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {}}, 2),
    ],
)
def test_the_answer_to_initialize_decides_the_version(result: Any, version: int) -> None:
    data = tape(("c2a", request(1, "initialize", protocolVersion=2)), ("a2c", answer(1, **result)))
    assert script_of(data).version == version


def test_updates_of_version_2_get_a_prompt_before_each_user_message() -> None:
    user = {"sessionUpdate": "user_message", "messageId": "u", "content": TEXT}
    agent = {"sessionUpdate": "agent_message", "messageId": "m", "content": TEXT}
    idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
    script = script_of(lines(user, agent, idle, {**user, "messageId": "u2"}, agent))
    assert script.version == 2
    turn = [
        ("client", "request", "session/prompt"),
        ("agent", "result", "session/prompt"),
        ("agent", "notification", "user_message"),
        ("agent", "notification", "agent_message"),
        ("agent", "notification", "state_update"),
    ]
    assert methods(script) == turn * 2


def test_updates_of_version_1_get_a_prompt_and_its_answer() -> None:
    commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    chunk = {"sessionUpdate": "agent_message_chunk", "content": TEXT[0]}
    script = script_of(lines(commands, chunk, chunk))
    assert script.version == 1
    assert methods(script) == [
        ("agent", "notification", "available_commands_update"),
        ("client", "request", "session/prompt"),
        ("agent", "notification", "agent_message_chunk"),
        ("agent", "notification", "agent_message_chunk"),
        ("agent", "result", "session/prompt"),
    ]


def test_bare_params_of_prompts_and_permissions_are_requests() -> None:
    options = [{"optionId": "a", "name": "Allow", "kind": "allow_once"}]
    script = script_of(
        lines(
            {"sessionId": "s", "prompt": TEXT},
            {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": options},
            {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": []}},
        )
    )
    assert methods(script) == [
        ("client", "request", "session/prompt"),
        ("agent", "request", "session/request_permission"),
        ("client", "result", "session/request_permission"),
        ("agent", "notification", "plan"),
        ("agent", "result", "session/prompt"),
    ]


def test_the_dialect_of_the_guide_is_played_in_version_2() -> None:
    script = script_of(
        lines(
            {"sessionUpdate": "agent_message_chunk", "index": 0, "content": TEXT[0]},
            {
                "sessionUpdate": "plan",
                "description": "d",
                "steps": [{"description": "a", "status": "pending"}],
            },
        )
    )
    assert script.version == 2
    assert ("agent", "notification", "plan_update") in methods(script)


def test_lines_that_cannot_be_read_are_named_by_their_number() -> None:
    script = script_of(b'{"jsonrpc":"2.0","method":"_a"}\n\nnot json\n{"b": 1}\n')
    assert [each.partition(":")[0] for each in script.problems] == ["line 3", "line 4"]


def test_an_exit_that_no_client_asked_for_is_part_of_the_script() -> None:
    for record, code in [
        ({"dir": "exit", "code": 3, "signal": None}, 3),
        ({"dir": "exit", "code": 0, "signal": None}, None),
        ({"dir": "exit", "code": None, "signal": "SIGTERM"}, None),
    ]:
        assert script_of(lines(update(sessionUpdate="plan", entries=[]), record)).exit_code == code
