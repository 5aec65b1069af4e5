"""Requests and answers in a recording, where the ids of both sides meet."""

from typing import Any

import pytest

from twofold.convert.recorded import RecordedRequests, handler_of
from twofold.rpc.messages import Failure, Request, Response
from twofold.wire import v1, v2


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


def test_an_error_is_the_agents_where_nobody_knows_who_sent_it() -> None:
    pending: RecordedRequests[str] = RecordedRequests()
    pending.add(Request(5, "session/prompt"), "prompt")
    pending.add(Request(5, "fs/read_text_file"), "file")
    assert pending.take(Failure(5, {})) == "prompt"
    assert pending.take(Failure(5, {})) == "file"


def test_who_sent_a_request_counts_more_than_its_method() -> None:
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
