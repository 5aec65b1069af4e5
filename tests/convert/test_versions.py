"""Which version a peer speaks, by `initialize`, by its answer, and by what it sends."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import Json, v1_streams, v2_streams
from twofold.convert.conversation import Conversation
from twofold.convert.losses import Losses
from twofold.convert.versions import (
    Detector,
    Dialect,
    claimed_version,
    dialect_of_client,
    dialects_of,
    other_version,
    version_of_agent,
    version_of_client,
)

TEXT: Json = {"type": "text", "text": "hello"}
INFO = {"name": "a", "version": "1"}

V1_CHUNK = {"sessionUpdate": "agent_message_chunk", "content": TEXT}


@pytest.mark.parametrize(
    ("update", "dialects"),
    [
        (V1_CHUNK, {"1"}),
        ({**V1_CHUNK, "messageId": None}, {"1"}),
        ({**V1_CHUNK, "messageId": "m"}, {"1", "2"}),
        ({"sessionUpdate": "agent_message", "messageId": "m"}, {"2"}),
        ({"sessionUpdate": "state_update", "state": "idle"}, {"2"}),
        ({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "cancelled"}, {"2"}),
        ({"sessionUpdate": "tool_call_update", "toolCallId": "t", "capabilities": {}}, {"2"}),
        (
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "t",
                "content": [1, {"type": "diff", "changes": []}],
            },
            {"2"},
        ),
        ({"sessionUpdate": "config_option_update", "configOptions": [{"configId": "a"}]}, {"2"}),
        ({"sessionUpdate": "config_option_update", "configOptions": [{"id": "a"}]}, {"1"}),
        *(
            ({"sessionUpdate": "config_option_update", "configOptions": odd}, {"1", "2", "guide"})
            for odd in ([], {"a": 1}, ["a"], 7, None)
        ),
        *(
            (
                {"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": odd},
                {"1", "2", "guide"},
            )
            for odd in (
                [{"type": "diff", "path": "/a", "newText": ""}],
                [{"type": "content", "changes": []}],
                [7],
                {"type": "diff", "changes": []},
            )
        ),
        ({"sessionUpdate": "usage_update", "used": 1, "size": 1}, {"1", "2", "guide"}),
        ({"sessionUpdate": ["odd"]}, {"1", "2", "guide"}),
        ({}, {"1", "2", "guide"}),
    ],
)
def test_an_update_shows_the_versions_it_makes_sense_in(update: Json, dialects: set[str]) -> None:
    assert dialects_of(update) == dialects


@pytest.mark.parametrize(
    ("params", "dialect"),
    [
        ({"protocolVersion": 2, "clientInfo": {}}, "1"),
        ({"protocolVersion": 2, "clientCapabilities": {}}, "1"),
        ({"protocolVersion": 2, "info": {}}, "2"),
        ({"protocolVersion": 1, "capabilities": {}}, "2"),
        # one that speaks both speaks what it asks for
        ({"protocolVersion": 2, "capabilities": {}, "clientCapabilities": {}}, "2"),
        ({"protocolVersion": 3, "info": {}, "clientInfo": {}}, "2"),
        ({"protocolVersion": 1, "capabilities": {}, "clientCapabilities": {}}, "1"),
        ({"capabilities": {}, "clientCapabilities": {}}, "1"),
        ({"protocolVersion": 1}, "1"),
        ({"protocolVersion": 2}, None),
        ({}, None),
        (None, None),
    ],
)
def test_an_initialize_request_shows_the_clients_version_by_its_shape(
    params: Any, dialect: str | None
) -> None:
    assert dialect_of_client(params) == dialect


@pytest.mark.parametrize(
    ("result", "dialect"),
    [
        ({"protocolVersion": 2, "agentCapabilities": {}}, "1"),
        ({"protocolVersion": 2, "agentInfo": {"name": "a", "version": "1"}}, "1"),
        ({"protocolVersion": 2, "info": {"name": "a", "version": "1"}}, "2"),
        ({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "agentInfo": {}}, "2"),
        ({"protocolVersion": 1, "info": {"name": "a", "version": "1"}}, "1"),
        ({"info": {"name": "a", "version": "1"}}, "2"),
        # every draft of version 2 requires `info`, with both of its fields
        ({"protocolVersion": 2}, "1"),
        ({"protocolVersion": 2, "info": None}, "1"),
        ({"protocolVersion": 2, "info": {}}, "1"),
        ({"protocolVersion": 2, "info": {"name": "a"}, "capabilities": {}}, "1"),
        ({"protocolVersion": 2, "capabilities": {"session": {}}}, "1"),
        ({"protocolVersion": 1}, "1"),
        ({"protocolVersion": "2"}, "1"),
        ({"protocolVersion": True, "info": {"name": "a", "version": "1"}}, "1"),
    ],
)
def test_an_agent_speaks_the_version_of_its_shapes_whatever_it_claims(
    result: Json, dialect: Dialect
) -> None:
    detector = Detector()
    detector.initialized(result)
    assert detector.of_requests("2" if dialect == "1" else "1") == dialect


@pytest.mark.parametrize("result", [None, [], {}, {"agentInfo": {}}])
def test_an_answer_without_a_version_leaves_the_best_guess(result: Any) -> None:
    detector = Detector()
    assert (detector.of_requests("1"), detector.of_requests("2")) == ("1", "2")
    detector.initializing({"protocolVersion": 1})
    detector.initialized(result)
    assert detector.of_requests("2") == "1"


def test_a_stream_that_shows_nothing_is_taken_for_the_other_version() -> None:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": None}
    assert Conversation("2", Losses()).update(update) == [
        {"sessionUpdate": "tool_call_update", "toolCallId": "t"}
    ]
    (lowered,) = Conversation("1", Losses()).update(update)
    assert lowered["content"] == []


def test_the_version_that_the_caller_gives_is_kept() -> None:
    detector = Detector("2")
    detector.initializing({"protocolVersion": 1})
    detector.initialized({"protocolVersion": 1})
    assert detector.dialect(V1_CHUNK) == "2"
    assert detector.of_requests("1") == "2"


def test_a_stream_without_initialize_shows_its_version_by_the_first_distinct_update() -> None:
    detector = Detector()
    either = {"sessionUpdate": "usage_update", "used": 1, "size": 1}
    assert detector.dialect(either, "2") == "2"
    assert detector.dialect(V1_CHUNK, "2") == "1"
    assert detector.dialect(either, "2") == "1"
    # one stray update of another version is read as what it is, and changes nothing
    assert detector.dialect({"sessionUpdate": "state_update", "state": "idle"}, "1") == "2"
    assert detector.dialect(either, "2") == "1"


@pytest.mark.parametrize(
    ("message", "otherwise", "dialect"),
    [
        ({"method": "session/load"}, "2", "1"),
        ({"method": "fs/read_text_file"}, "2", "1"),
        ({"method": "auth/login"}, "1", "2"),
        ({"method": "session/prompt"}, "1", "1"),
        ({"method": "session/prompt"}, "2", "2"),
        ({"method": "_nobody/knows"}, "2", "2"),
    ],
)
def test_a_method_that_only_one_version_has_shows_the_version(
    message: Json, otherwise: Dialect, dialect: Dialect
) -> None:
    detector = Detector()
    detector.requested(message["method"])
    either = {"sessionUpdate": "usage_update", "used": 1, "size": 1}
    assert detector.dialect(either, otherwise) == dialect
    assert detector.of_requests(otherwise) == dialect


def test_two_lines_that_each_leave_two_versions_leave_one() -> None:
    detector = Detector()
    detector.look({**V1_CHUNK, "messageId": "m"})
    assert detector.possible == {"1", "2"}
    detector.look({"sessionUpdate": "plan", "entries": []})
    assert detector.possible == {"1"}


@settings(max_examples=60)
@given(v1_streams(max_size=10) | v2_streams(max_size=10))
def test_what_is_known_of_a_stream_never_grows_wider(stream: list[Json]) -> None:
    detector = Detector()
    for update in stream:
        before = detector.possible
        detector.dialect(update)
        assert detector.possible <= before
        assert detector.possible


@settings(max_examples=60)
@given(st.data(), st.sampled_from(["1", "2"]), st.sampled_from(["1", "2"]))
def test_a_stream_of_one_version_is_not_read_as_the_other_once_it_showed_itself(
    data: st.DataObject, spoken: Dialect, otherwise: Dialect
) -> None:
    streams = v1_streams(max_size=10) if spoken == "1" else v2_streams(max_size=10, unknown=False)
    stream = data.draw(streams)
    detector = Detector()
    for update in stream:
        read = detector.dialect(update, otherwise)
        if "1" not in detector.possible or "2" not in detector.possible:
            assert read == spoken


@settings(max_examples=60)
@given(v1_streams(max_size=8) | v2_streams(max_size=8, unknown=False), st.randoms())
def test_after_a_look_ahead_the_order_of_the_lines_does_not_matter(
    stream: list[Json], random: Random
) -> None:
    shuffled = list(stream)
    random.shuffle(shuffled)
    known = []
    for order in (stream, shuffled):
        detector = Detector()
        for update in order:
            detector.look(update)
        known.append((detector.possible, [detector.dialect(update) for update in stream]))
    assert known[0] == known[1]


# ---- the version to speak --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "version"),
    [
        ({"protocolVersion": 1}, 1),
        ({"protocolVersion": 2}, 2),
        ({"protocolVersion": 3}, 2),
        ({"protocolVersion": 0}, 1),
        ({"protocolVersion": "2"}, 1),
        ({"protocolVersion": 2, "clientInfo": INFO}, 1),
        ({"protocolVersion": 2, "info": INFO}, 2),
        ({"protocolVersion": 2, "info": INFO, "clientInfo": INFO}, 2),
        ({"protocolVersion": 1, "info": INFO}, 1),
        ({}, 1),
        (None, 1),
    ],
)
def test_a_client_is_answered_in_the_version_that_it_shows_and_asks_for(
    params: Any, version: int
) -> None:
    assert version_of_client(params) == version


@pytest.mark.parametrize(
    ("result", "version"),
    [
        ({"protocolVersion": 1}, 1),
        ({"protocolVersion": 2}, 1),
        ({"protocolVersion": 2, "info": INFO}, 2),
        ({"info": INFO}, 2),
        ({"agentInfo": INFO}, 1),
        ({"protocolVersion": "1"}, None),
        ({"protocolVersion": "1", "agentCapabilities": {}}, 1),
        ({}, None),
        (None, None),
    ],
)
def test_an_agent_shows_its_version_or_none(result: Any, version: int | None) -> None:
    assert version_of_agent(result) == version


@pytest.mark.parametrize(
    ("message", "version"),
    [
        ({"protocolVersion": 7}, 7),
        ({"protocolVersion": True}, None),
        ({"protocolVersion": 1.0}, None),
        ({"protocolVersion": None}, None),
        ({}, None),
        ([], None),
    ],
)
def test_a_version_is_an_integer(message: Any, version: int | None) -> None:
    assert claimed_version(message) == version


def test_there_are_two_versions_to_try() -> None:
    assert (other_version(1), other_version(2)) == (2, 1)
