"""The rules: for each id, what must hold for everything that a subject was seen to send.

A rule looks at the conversations when all of them have ended. It raises `Absent` where nothing was
sent that it is about.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from os import path
from typing import Any, TypeAlias

from tests.conformance.exchanges import HISTORY, Resumed, config_id, replayed
from tests.conformance.schema import ENVELOPE
from tests.conformance.talk import Json, Line, Talk, is_response, is_update
from tests.conformance.visit import Absent, Visit
from tests.peers.validators import Version

Rule: TypeAlias = Callable[[Visit], str | None]

RULES: dict[tuple[Version, str], Rule] = {}

KINDS = {
    *("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"),
    "other",
}
STATUSES = {"pending", "in_progress", "paused", "completed", "failed", "cancelled"}
PLAN_STATUSES = {"pending", "in_progress", "completed", "cancelled"}
PRIORITIES = {"high", "medium", "low"}
UPDATES = HISTORY - {"tool_call", "plan"} | {
    *("state_update", "available_commands_update", "config_option_update"),
    *("session_info_update", "usage_update", "notice", "compaction_update"),
    "compaction_summary_chunk",
}
STATES = {"running", "idle", "requires_action"}
CONTENTS = {"text", "image", "audio", "resource_link", "resource"}
MESSAGES = {"user_message", "agent_message", "agent_thought"}
NAMES = {
    "tool_call_update": "tool calls",
    "plan_update": "plans",
    "terminal_update": "terminals",
    "config_option_update": "config options",
}
"""What an agent lacks that never sends such an update."""


def rule(*, v1: str = "", v2: str = "") -> Callable[[Rule], Rule]:
    """Have a function judge a requirement of version 1, of version 2, or of both."""

    def register(function: Rule) -> Rule:
        ids: dict[Version, str] = {1: v1, 2: v2}
        for version, name in ids.items():
            if name:
                RULES[version, name] = function
        return function

    return register


# ---- what was sent -----------------------------------------------------------------------------


def received(visit: Visit) -> Iterator[tuple[Talk, Line]]:
    """Every line of the agent."""
    for talk in visit.talks.values():
        for line in talk.lines:
            if not line.sent:
                yield talk, line


def messages(visit: Visit) -> Iterator[Json]:
    """Every message of the agent."""
    for _, line in received(visit):
        yield from line.messages


def updates(visit: Visit, *kinds: str) -> list[tuple[Any, Json]]:
    """Every update of some kinds, each with the key of its session; `Absent` if none is."""
    found = [
        ((name, message["params"]["sessionId"]), message["params"]["update"])
        for name, talk in visit.talks.items()
        if talk.spoken == visit.version
        for message in talk.messages
        if is_update(message) and message["params"]["update"]["sessionUpdate"] in kinds
    ]
    if not found:
        raise Absent(f"no {NAMES.get(kinds[0], kinds[0])}")
    return found


def errors(visit: Visit) -> list[Json]:
    """Every error."""
    return [message["error"] for message in messages(visit) if "error" in message]


def known(value: Any, words: set[str]) -> bool:
    """Whether a word is defined, or of an extension, or left out."""
    return value is None or value in words or str(value).startswith("_")


# ---- lines -----------------------------------------------------------------------------------


@rule(v2="TRANSPORT-201")
def a_line_is_a_message_or_a_batch(visit: Visit) -> None:
    for _, line in received(visit):
        read = json.loads(line.data)
        entries = read if isinstance(read, list) else [read]
        assert entries, "an empty batch"
        for entry in entries:
            assert isinstance(entry, dict), line.data
            assert entry["jsonrpc"] == "2.0", line.data


@rule(v1="TRANSPORT-001")
def a_line_is_a_message(visit: Visit) -> None:
    for _, line in received(visit):
        read = json.loads(line.data)
        assert isinstance(read, dict), line.data
        assert read["jsonrpc"] == "2.0", line.data


@rule(v1="TRANSPORT-002", v2="TRANSPORT-002")
def the_output_is_utf_8(visit: Visit) -> None:
    for _, line in received(visit):
        line.data.decode("utf-8", "strict")


@rule(v2="TRANSPORT-203")
def a_message_is_one_line(visit: Visit) -> None:
    for _, line in received(visit):
        assert line.data.endswith(b"\n"), line.data
        assert line.messages, line.data


# ---- JSON-RPC --------------------------------------------------------------------------------


@rule(v1="JSONRPC-002", v2="JSONRPC-002")
def a_response_has_a_result_or_an_error(visit: Visit) -> None:
    for message in messages(visit):
        if is_response(message):
            assert ("result" in message) != ("error" in message), message
    for error in errors(visit):
        assert type(error["code"]) is int, error
        assert isinstance(error["message"], str), error


@rule(v2="CANCEL-205")
@rule(v1="JSONRPC-003", v2="JSONRPC-003")
def a_notification_gets_no_response(visit: Visit) -> None:
    """Every response answers one request, or a line in which no request can be read."""
    for talk in visit.talks.values():
        asked, unreadable = _asked(talk)
        for message in filter(is_response, talk.messages):
            if message.get("id") in asked:
                asked.remove(message["id"])
            else:
                unreadable -= 1
        assert unreadable >= 0, "something was answered that is no request"


def _asked(talk: Talk) -> tuple[list[Any], int]:
    """The ids of all requests, and how many entries of our lines are no messages."""
    ids: list[Any] = []
    unreadable = 0
    for line in talk.lines:
        if not line.sent:
            continue
        try:
            read = json.loads(line.data)
        except ValueError:
            unreadable += 1
            continue
        for entry in read if isinstance(read, list) and read else [read]:
            if not isinstance(entry, dict) or not isinstance(entry.get("method", ""), str):
                unreadable += 1
            elif "method" in entry and "id" in entry:
                ids.append(entry["id"])
            elif not {"method", "result", "error"} & entry.keys():
                unreadable += 1
    return ids, unreadable


@rule(v1="ERROR-001", v2="ERROR-001")
def an_error_is_one_line(visit: Visit) -> None:
    assert errors(visit)
    for error in errors(visit):
        assert error["message"].strip(), error
        assert len(error["message"].splitlines()) == 1, error


@rule(v2="BATCH-207")
def batches_of_the_agent(visit: Visit) -> str:
    unasked = [
        line
        for _, line in received(visit)
        if len(line.messages) > 1 and not all(map(is_response, line.messages))
    ]
    return f"{len(unasked)} of them" if unasked else "none"


@rule(v2="BATCH-208")
def lifecycle_in_a_batch(visit: Visit) -> str:
    for talk, line in received(visit):
        if line.data.startswith(b"[") and talk.initialized in line.messages:
            return "initialize is answered in one"
    return "none"


# ---- the schema ------------------------------------------------------------------------------


@rule(v1="SCHEMA-001", v2="SCHEMA-001")
def every_message_is_valid(visit: Visit) -> None:
    for talk in visit.talks.values():
        for version, name, value in visit.official.values(talk):
            objections = visit.official.objections(version, name, value)
            assert not objections, f"{name}: {objections[0]} in {value}"


@rule(v1="SCHEMA-002", v2="SCHEMA-002")
def every_key_is_known(visit: Visit) -> None:
    for message in messages(visit):
        assert message.keys() <= ENVELOPE, message
    for talk in visit.talks.values():
        for version, name, value in visit.official.values(talk):
            keys = visit.official.keys(version, name)
            assert not keys or value.keys() <= keys, f"{name}: {value.keys() - keys}"


@rule(v2="META-201")
def meta_is_an_object(visit: Visit) -> None:
    def check(value: Any) -> None:
        if isinstance(value, list):
            for inner in value:
                check(inner)
        elif isinstance(value, dict):
            assert value.get("_meta") is None or isinstance(value["_meta"], dict), value
            for inner in value.values():
                check(inner)

    for message in messages(visit):
        check(message)


# ---- what the client is asked ------------------------------------------------------------------


def _called(visit: Visit, *beginnings: str) -> set[str]:
    methods = {message["method"] for message in messages(visit) if not is_response(message)}
    return {method for method in methods if method.startswith(beginnings)}


@rule(v1="CLIENTCAP-001")
def no_files_unless_offered(visit: Visit) -> None:
    assert not _called(visit, "fs/")


@rule(v1="CLIENTCAP-002")
def no_terminals_unless_offered(visit: Visit) -> None:
    assert not _called(visit, "terminal/")


@rule(v1="CLIENTCAP-003", v2="CLIENTCAP-201")
def no_elicitation_unless_offered(visit: Visit) -> None:
    assert not _called(visit, "elicitation/")


@rule(v2="CLIENTCAP-202")
def only_methods_that_exist(visit: Visit) -> None:
    methods = {method for method in _called(visit, "") if not method.startswith("_")}
    assert methods <= visit.official.client_methods(2)


# ---- after the end of something ----------------------------------------------------------------


def _after_cancel(visit: Visit) -> Iterator[Json]:
    """The updates of a session after its turn was reported cancelled, until it is used again."""
    for talk in visit.talks.values():
        over: dict[str, bool] = {}
        prompts: dict[Any, str] = {}
        for line in talk.lines:
            for message in line.messages:
                session = message.get("params", {}).get("sessionId")
                if line.sent:
                    over.pop(session, None)
                    if message.get("method") == "session/prompt":
                        prompts[message.get("id")] = session
                elif is_update(message):
                    update = message["params"]["update"]
                    if over.get(session):
                        yield update
                    if update.get("state") == "idle" and update.get("stopReason") == "cancelled":
                        over[session] = True
                elif (message.get("result") or {}).get("stopReason") == "cancelled":
                    over[prompts[message["id"]]] = True


@rule(v2="CANCEL-202")
def no_state_follows_a_cancel(visit: Visit) -> None:
    assert not [each for each in _after_cancel(visit) if each["sessionUpdate"] == "state_update"]


@rule(v1="CANCEL-002")
def no_update_follows_a_cancel(visit: Visit) -> None:
    assert not list(_after_cancel(visit))


@rule(v1="LOAD-002")
def nothing_of_a_replay_follows_the_response(visit: Visit) -> None:
    replay = _replay(visit)
    assert [each for each in replay.before if each["sessionUpdate"] in HISTORY]
    assert not [each for each in replay.after if each["sessionUpdate"] in HISTORY], replay.after


@rule(v2="RESUME-202")
def nothing_but_notices_follows_the_response(visit: Visit) -> None:
    replay = _replay(visit)
    assert [each for each in replay.before if each["sessionUpdate"] in HISTORY]
    assert not [each for each in replay.after if each["sessionUpdate"] != "notice"], replay.after


def _replay(visit: Visit) -> Resumed:
    replay = visit.found(replayed)
    assert "result" in replay.reply, replay.reply["error"]
    return replay


@rule(v1="SHUTDOWN-001", v2="SHUTDOWN-001")
def the_agent_ends_after_its_input(visit: Visit) -> None:
    for name, talk in visit.talks.items():
        assert talk.ended is not None
        assert talk.ended.in_time, f"{name} did not end"


@rule(v1="STDERR-001", v2="STDERR-001")
def what_is_on_standard_error(visit: Visit) -> str:
    return "some lines" if visit.talks["main"].stderr else "nothing"


# ---- updates ---------------------------------------------------------------------------------


@rule(v2="PATCH-201")
def a_message_has_an_id(visit: Visit) -> None:
    kinds = sorted(MESSAGES | {f"{kind}_chunk" for kind in MESSAGES})
    for _, update in updates(visit, *kinds):
        assert update.get("messageId"), update


@rule(v2="PATCH-204")
def a_tool_call_has_an_id(visit: Visit) -> None:
    for _, update in updates(visit, "tool_call_update", "tool_call_content_chunk"):
        assert update.get("toolCallId"), update
        assert update["sessionUpdate"] == "tool_call_update" or "content" in update, update


@rule(v2="PATCH-205")
def a_plan_has_an_id(visit: Visit) -> None:
    for _, update in updates(visit, "plan_update"):
        assert update["plan"].get("planId"), update


@rule(v2="PATCH-206")
def the_directory_of_a_terminal_is_set_once(visit: Visit) -> None:
    seen: dict[Any, str] = {}
    for session, update in updates(visit, "terminal_update"):
        if update.get("cwd") is not None:
            assert path.isabs(update["cwd"]), update
            assert seen.setdefault((session, update["terminalId"]), update["cwd"]) == update["cwd"]
    if not seen:
        raise Absent("no directories of terminals")


@rule(v2="PATCH-207")
def terminal_output_is_base64(visit: Visit) -> None:
    for _, update in updates(visit, "terminal_update", "terminal_output_chunk"):
        data = update.get("data") or (update.get("output") or {}).get("data", "")
        try:
            base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise AssertionError(f"{data!r}: {error}") from None


@rule(v2="PATCH-208")
def a_tool_call_begins_with_its_title(visit: Visit) -> None:
    names: dict[Any, str | None] = {}
    for session, update in updates(visit, "tool_call_update"):
        call = (session, update.get("toolCallId"))
        if call not in names:
            assert update.get("title"), update
            names[call] = update.get("name")
        elif update.get("name") is not None:
            assert update["name"] == names[call], update


@rule(v2="CONFIG-206")
def a_config_option_update_is_complete(visit: Visit) -> None:
    complete: dict[Any, list[str]] = {}
    for name, talk in visit.talks.items():
        for message in filter(is_response, talk.messages):
            result = message.get("result") or {}
            if result.get("configOptions") and "sessionId" in result:
                options = list(map(config_id, result["configOptions"]))
                complete[name, result["sessionId"]] = options
    for session, update in updates(visit, "config_option_update"):
        assert list(map(config_id, update["configOptions"])) == complete[session]


@rule(v2="ENUM-201")
def kinds_and_statuses_are_defined(visit: Visit) -> None:
    for _, update in updates(visit, "tool_call_update", "plan_update"):
        if update["sessionUpdate"] == "tool_call_update":
            assert known(update.get("kind"), KINDS), update
            assert known(update.get("status"), STATUSES), update
        else:
            for entry in update["plan"].get("entries", ()):
                assert known(entry["priority"], PRIORITIES), entry
                assert known(entry["status"], PLAN_STATUSES), entry


@rule(v2="ENUM-202")
def updates_states_and_contents_are_defined(visit: Visit) -> None:
    for talk in visit.talks.values():
        for message in talk.messages:
            if is_update(message) and talk.spoken == 2:
                update = message["params"]["update"]
                assert known(update["sessionUpdate"], UPDATES), update
                assert known(update.get("state"), STATES), update
                for block in _blocks(update):
                    assert known(block["type"], CONTENTS), block


def _blocks(update: Json) -> list[Json]:
    """The content blocks of a message."""
    if update["sessionUpdate"].removesuffix("_chunk") not in MESSAGES:
        return []
    content = update.get("content") or []
    return content if isinstance(content, list) else [content]
