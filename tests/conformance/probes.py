"""The probes: for each id, what is asked of a live conversation, and what must come of it.

A probe asserts what its requirement demands, raises `Absent` where the subject does not have what
it is about, and returns a text where its requirement only wants to have something recorded.
"""

import asyncio
from collections.abc import Awaitable, Callable
from os import path
from typing import Any, TypeAlias

from tests.conformance.exchanges import (
    HISTORY,
    META,
    Resumed,
    bad_line,
    cancelled_turn,
    cancelled_turn_with_meta,
    choices,
    closed_in_a_turn,
    config_id,
    config_options,
    deleted,
    option_set,
    permission_turn,
    plain_turn,
    replayed,
    requests_in_a_batch,
    resumed,
    second_prompt_meanwhile,
    second_turn,
    set_up,
)
from tests.conformance.talk import Json, Line, Talk, Turn
from tests.conformance.visit import CWD, LOGIN, LOGOUT, Absent, Visit
from tests.peers.validators import Version

Probe: TypeAlias = Callable[[Visit], Awaitable[str | None]]

PROBES: dict[tuple[Version, str], Probe] = {}

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
AUTH_REQUIRED = -32000
A_WHILE = 1.0
"""How many seconds an answer may take that most agents do not give."""
LONG = 10.0
"""How many seconds something may take that most agents do."""

STOP_REASONS = {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
IMAGE = {"type": "image", "mimeType": "image/png", "data": PIXEL}
AUDIO = {"type": "audio", "mimeType": "audio/wav", "data": SILENCE}
LINK = {"type": "resource_link", "name": "README.md", "uri": "file:///README.md"}
RESOURCE = {
    "type": "resource",
    "resource": {"uri": "file:///README.md", "mimeType": "text/markdown", "text": "# Read me"},
}


def probe(*, v1: str = "", v2: str = "") -> Callable[[Probe], Probe]:
    """Have a function judge a requirement of version 1, of version 2, or of both."""

    def register(function: Probe) -> Probe:
        ids: dict[Version, str] = {1: v1, 2: v2}
        for version, name in ids.items():
            if name:
                PROBES[version, name] = function
        return function

    return register


def valid(visit: Visit, method: str, reply: Json) -> Any:
    """The result of a reply, which the schema allows."""
    assert "result" in reply, f"{method}: {reply.get('error')}"
    objections = visit.official.result_objections(visit.version, method, reply["result"])
    assert not objections, objections
    return reply["result"]


def ended(visit: Visit, turn: Turn) -> None:
    """The turn was accepted, and came to an end with a stop reason."""
    assert "result" in turn.reply, turn.reply
    assert turn.stop_reason in STOP_REASONS, turn.stop_reason


def codes(lines: list[Line]) -> str:
    """The codes of the errors in some lines, in any order, or that there are none."""
    found = [answer(each) for line in lines for each in line.messages]
    return ", ".join(sorted(found)) or "no answer"


def answer(reply: Json) -> str:
    """How a request was answered, in a word."""
    return str(reply["error"]["code"]) if "error" in reply else "accepted"


# ---- initialize ------------------------------------------------------------------------------


async def initialized(visit: Visit, name: str = "main") -> Json:
    reply = (await visit.talk(name)).initialized
    assert "result" in reply, reply
    found: Json = reply["result"]
    return found


@probe(v2="INIT-001")
async def initialize_succeeds(visit: Visit) -> None:
    await initialized(visit)


@probe(v1="INIT-001")
async def initialize_is_valid(visit: Visit) -> None:
    await initialized(visit)
    result = valid(visit, "initialize", (await visit.talk()).initialized)
    assert type(result["protocolVersion"]) is int


@probe(v1="INIT-002", v2="INIT-201")
async def the_version_is_agreed_on(visit: Visit) -> None:
    assert (await initialized(visit))["protocolVersion"] == visit.version
    assert (await initialized(visit, "future"))["protocolVersion"] != 65535


@probe(v1="INIT-003", v2="INIT-003")
async def an_unknown_version_is_answered_with_a_known_one(visit: Visit) -> None:
    latest = (await initialized(visit))["protocolVersion"]
    answered = (await initialized(visit, "future"))["protocolVersion"]
    assert latest <= answered < 65535


@probe(v2="INIT-202")
async def an_old_version_is_no_error(visit: Visit) -> None:
    assert (await initialized(visit, "past"))["protocolVersion"] in (1, 2)


@probe(v1="INIT-004", v2="INIT-203")
async def the_agent_names_itself(visit: Visit) -> None:
    result = await initialized(visit)
    info = result.get("info" if visit.version == 2 else "agentInfo")
    assert isinstance(info, dict), "the agent does not name itself"
    assert info["name"]
    assert info["version"]


@probe(v2="INIT-204")
async def capabilities_are_objects(visit: Visit) -> None:
    def check(value: Any, place: str) -> None:
        assert value is None or isinstance(value, dict), f"{place} is {value!r}"
        for key, inner in (value or {}).items():
            if key != "_meta":
                check(inner, f"{place}.{key}")

    check(visit.capabilities(await visit.talk()), "capabilities")


@probe(v2="EXT-202")
async def extensions_are_in_meta(visit: Visit) -> None:
    capabilities = visit.capabilities(await visit.talk())
    assert capabilities.keys() <= visit.official.keys(2, "AgentCapabilities")
    session = capabilities.get("session") or {}
    assert session.keys() <= visit.official.keys(2, "SessionCapabilities")


# ---- sessions --------------------------------------------------------------------------------


@probe(v1="SESSION-001", v2="SESSION-001")
async def a_session_is_made(visit: Visit) -> None:
    talk = await visit.having("session/new")
    params = {"cwd": CWD, **({"mcpServers": []} if visit.version == 1 else {})}
    assert valid(visit, "session/new", await talk.ask("session/new", params))["sessionId"]


@probe(v1="SESSION-002", v2="SESSION-002")
async def two_sessions_have_two_ids(visit: Visit) -> None:
    talk = await visit.having("session/new")
    assert await visit.new_session(talk) != await visit.new_session(talk)


@probe(v2="SESSION-203")
async def mcp_servers_are_optional(visit: Visit) -> None:
    talk = await visit.having("session/new")
    for params in ({"cwd": CWD}, {"cwd": CWD, "mcpServers": []}):
        valid(visit, "session/new", await talk.ask("session/new", params))


@probe(v1="ADDDIRS-001", v2="ADDDIRS-201")
async def a_session_has_more_directories(visit: Visit) -> None:
    talk = await visit.having("additional directories")
    params = {"cwd": CWD, "mcpServers": [], "additionalDirectories": ["/"]}
    valid(visit, "session/new", await talk.ask("session/new", params))


@probe(v2="ADDDIRS-202")
async def a_resumed_session_has_more_directories(visit: Visit) -> None:
    talk = await visit.having("additional directories")
    session = (await visit.once(plain_turn)).session
    params = {"sessionId": session, "cwd": CWD, "additionalDirectories": ["/"]}
    valid(visit, "session/resume", await talk.ask("session/resume", params))


@probe(v2="MCP-201")
async def with_an_mcp_server_over_stdio(visit: Visit) -> str:
    return await _with_server(visit, {"type": "stdio", "name": "files", "command": "/bin/true"})


@probe(v2="MCP-202")
async def with_an_mcp_server_over_http(visit: Visit) -> str:
    return await _with_server(visit, {"type": "http", "name": "web", "url": "http://localhost/"})


async def _with_server(visit: Visit, server: Json) -> str:
    talk = await visit.having("session/new")
    return answer(await talk.ask("session/new", {"cwd": CWD, "mcpServers": [server]}))


@probe(v1="LIST-001", v2="LIST-201")
async def sessions_are_listed(visit: Visit) -> None:
    assert isinstance(await listed(visit), list)


@probe(v1="LIST-002", v2="LIST-202")
async def a_directory_without_sessions_is_empty(visit: Visit) -> None:
    assert await listed(visit, cwd="/conformance/no/such/directory") == []


@probe(v2="LIST-203")
async def sessions_are_listed_by_directory(visit: Visit) -> None:
    await visit.once(plain_turn)
    sessions = await listed(visit, cwd=CWD)
    assert sessions
    assert {each["cwd"] for each in sessions} == {CWD}


@probe(v2="LIST-204")
async def the_directory_of_a_session_is_absolute(visit: Visit) -> None:
    await visit.once(plain_turn)
    sessions = await listed(visit)
    assert sessions
    assert all(path.isabs(each["cwd"]) for each in sessions)


async def listed(visit: Visit, **params: str) -> list[Json]:
    talk = await visit.having("session/list")
    reply = await talk.ask("session/list", params)
    found: list[Json] = valid(visit, "session/list", reply)["sessions"]
    return found


@probe(v1="CLOSE-001", v2="CLOSE-201")
async def an_idle_session_is_closed(visit: Visit) -> None:
    talk = await visit.having("session/close")
    params = {"sessionId": await visit.new_session(talk)}
    assert valid(visit, "session/close", await talk.ask("session/close", params)) == {}


@probe(v1="DELETE-001", v2="DELETE-201")
async def a_session_is_deleted(visit: Visit) -> None:
    await visit.once(deleted)


@probe(v2="DELETE-202")
async def a_deleted_session_is_not_listed(visit: Visit) -> None:
    session = await visit.once(deleted)
    assert session not in {each["sessionId"] for each in await listed(visit)}


@probe(v1="DELETE-002", v2="DELETE-203")
async def what_does_not_exist_can_be_deleted(visit: Visit) -> None:
    talk = await visit.having("session/delete")
    params = {"sessionId": "conformance-no-such-session"}
    valid(visit, "session/delete", await talk.ask("session/delete", params))


# ---- sessions that are taken up again ----------------------------------------------------------


@probe(v1="RESUME-001", v2="RESUME-201")
async def a_session_is_resumed(visit: Visit) -> None:
    valid(visit, "session/resume", (await visit.once(resumed)).reply)


@probe(v1="RESUME-002", v2="RESUME-203")
async def resuming_sends_no_history(visit: Visit) -> None:
    taken_up = await succeeded(visit, resumed)
    assert not history(taken_up.before), taken_up.before


@probe(v1="LOAD-001")
async def a_session_is_loaded(visit: Visit) -> None:
    valid(visit, "session/load", (await visit.once(replayed)).reply)


@probe(v1="LOAD-003")
async def the_answer_to_a_load_is_an_object(visit: Visit) -> None:
    assert isinstance((await succeeded(visit, replayed)).reply["result"], dict)


@probe(v2="RESUME-204")
async def a_replayed_user_message_keeps_its_id(visit: Visit) -> None:
    replay = await succeeded(visit, replayed)
    given = replay.turn.reply["result"]["messageId"]
    users = {"user_message", "user_message_chunk"}
    ids = [each["messageId"] for each in replay.before if each["sessionUpdate"] in users]
    assert ids[:1] == [given]


@probe(v2="RESUME-205")
async def a_replayed_chunk_has_its_message(visit: Visit) -> None:
    replay = await succeeded(visit, replayed)
    chunks = [each for each in replay.before if each["sessionUpdate"].endswith("message_chunk")]
    whole: set[tuple[str, str]] = set()
    for update in replay.before:
        kind = update["sessionUpdate"].removesuffix("_chunk")
        if kind not in ("user_message", "agent_message", "agent_thought"):
            continue
        key = (kind, update["messageId"])
        if update["sessionUpdate"] == kind:
            whole.add(key)
        else:
            assert key in whole, f"a chunk of {key} comes before the message itself"
    assert whole or chunks, "nothing was replayed"


async def succeeded(visit: Visit, exchange: Callable[[Visit], Awaitable[Resumed]]) -> Resumed:
    taken_up = await visit.once(exchange)
    assert "result" in taken_up.reply, taken_up.reply["error"]
    return taken_up


def history(updates: list[Json]) -> list[Json]:
    """The updates that belong to the history of a session."""
    return [each for each in updates if each["sessionUpdate"] in HISTORY]


# ---- prompts ---------------------------------------------------------------------------------


@probe(v1="PROMPT-001")
async def a_prompt_is_answered_with_a_stop_reason(visit: Visit) -> None:
    turn = await visit.once(plain_turn)
    assert valid(visit, "session/prompt", turn.reply)["stopReason"] in STOP_REASONS


@probe(v2="PROMPT-201")
async def a_prompt_is_given_an_id(visit: Visit) -> None:
    turn = await visit.once(plain_turn)
    assert valid(visit, "session/prompt", turn.reply)["messageId"]


@probe(v1="PROMPT-002", v2="PROMPT-205")
async def every_update_of_a_turn_names_its_session(visit: Visit) -> None:
    turn = await visit.once(plain_turn)
    shape = "SessionNotification" if visit.version == 1 else "UpdateSessionNotification"
    updates = [each for each in turn.messages if each.get("method") == "session/update"]
    assert updates
    for each in updates:
        assert each["params"]["sessionId"] == turn.session
        objections = visit.official.objections(visit.version, shape, each["params"])
        assert not objections, objections


@probe(v2="PROMPT-203")
async def the_users_message_is_reported(visit: Visit) -> None:
    turn = await visit.once(plain_turn)
    given = turn.reply["result"]["messageId"]
    for update in turn.updates:
        if update.get("state") == "idle":
            break
        if update["sessionUpdate"] in ("user_message", "user_message_chunk"):
            assert update["messageId"] == given
            return
    raise AssertionError("idle came before the user's message")


@probe(v2="PATCH-203")
async def two_prompts_are_given_two_ids(visit: Visit) -> None:
    first, second = await visit.once(plain_turn), await visit.once(second_turn)
    assert first.reply["result"]["messageId"] != second.reply["result"]["messageId"]


@probe(v2="STATE-201")
async def running_comes_before_idle(visit: Visit) -> None:
    states = [each.get("state") for each in (await visit.once(plain_turn)).updates]
    assert "running" in states[: states.index("idle")]


@probe(v2="STATE-202")
async def idle_comes_after_running(visit: Visit) -> None:
    states = [each.get("state") for each in (await visit.once(plain_turn)).updates]
    assert "idle" in states[states.index("running") :]


@probe(v2="STATE-203")
async def idle_has_a_stop_reason(visit: Visit) -> None:
    reason = (await visit.once(plain_turn)).stop_reason or ""
    assert reason in STOP_REASONS or reason.startswith("_"), reason


@probe(v1="PROMPTCAP-001", v2="PROMPTCAP-001")
async def a_prompt_has_an_image(visit: Visit) -> None:
    await _prompted(visit, await visit.having("images"), IMAGE)


@probe(v1="PROMPTCAP-002", v2="PROMPTCAP-002")
async def a_prompt_has_audio(visit: Visit) -> None:
    await _prompted(visit, await visit.having("audio"), AUDIO)


@probe(v1="PROMPTCAP-003", v2="PROMPTCAP-003")
async def a_prompt_has_a_resource(visit: Visit) -> None:
    await _prompted(visit, await visit.having("embedded resources"), RESOURCE)


@probe(v1="PROMPT-003", v2="PROMPT-003")
async def a_prompt_has_a_link(visit: Visit) -> None:
    await _prompted(visit, await visit.having("session/new"), LINK)


@probe(v1="META-001", v2="META-001")
async def a_prompt_has_meta(visit: Visit) -> None:
    await _prompted(visit, await visit.having("session/new"), _meta=META)


async def _prompted(visit: Visit, talk: Talk, *blocks: Json, **more: Any) -> None:
    prompt = [{"type": "text", "text": visit.subject.prompts.plain}, *blocks]
    ended(visit, await talk.turn(await visit.new_session(talk), prompt, **more))


@probe(v1="INFO-UNKNOWNSESSION-001", v2="INFO-UNKNOWNSESSION-001")
async def a_prompt_for_no_session(visit: Visit) -> str:
    talk = await visit.having("session/new")
    return answer(await talk.reply(talk.prompt("conformance-no-such-session", "hello")))


@probe(v2="INFO-CONCURRENT-201")
async def a_second_prompt_while_a_turn_runs(visit: Visit) -> str:
    talk, session, second = await visit.once(second_prompt_meanwhile)
    try:
        async with asyncio.timeout(A_WHILE):
            return answer(await talk.reply(second))
    except TimeoutError:
        return "waits for the first"
    finally:
        talk.notify("session/cancel", {"sessionId": session})


# ---- permissions -----------------------------------------------------------------------------


@probe(v2="PERM-201")
async def a_permission_request_is_complete(visit: Visit) -> None:
    request, _, turn = await visit.once(permission_turn)
    params = request["params"]
    objections = visit.official.objections(2, "RequestPermissionRequest", params)
    assert not objections, objections
    assert params["sessionId"] == turn.session
    assert params["title"]
    assert params["options"]
    assert all(each["optionId"] and each["name"] and each["kind"] for each in params["options"])
    ended(visit, turn)


@probe(v2="PATCH-209")
async def the_state_is_requires_action_while_a_permission_waits(visit: Visit) -> None:
    _, waiting, turn = await visit.once(permission_turn)
    states = [each["state"] for each in turn.updates if "state" in each]
    so_far = [each for each in waiting if each.get("method") == "session/update"]
    waited = [each["params"]["update"].get("state") for each in so_far]
    assert [each for each in waited if each][-1] == "requires_action"
    assert "running" in states[states.index("requires_action") :]


@probe(v2="ENUM-203")
async def an_unknown_outcome_is_tolerated(visit: Visit) -> None:
    prompt = visit.subject.prompts.permission
    if prompt is None:
        raise Absent("asks for no permission")
    talk = await visit.talk("spare")
    before, talk.permission = talk.permission, lambda params: {"outcome": "_later"}
    turn = await talk.turn(await visit.new_session(talk), prompt)
    talk.permission = before
    ended(visit, turn)


# ---- cancel ----------------------------------------------------------------------------------


@probe(v1="CANCEL-001", v2="CANCEL-201")
async def a_cancelled_turn_ends_with_the_reason_cancelled(visit: Visit) -> None:
    assert (await visit.once(cancelled_turn)).stop_reason == "cancelled"


@probe(v2="CANCEL-203")
async def a_cancel_is_no_error(visit: Visit) -> None:
    for exchange in (cancelled_turn, cancelled_turn_with_meta):
        turn = await visit.once(exchange)
        assert "error" not in turn.reply, turn.reply
        assert turn.stop_reason not in (STOP_REASONS | {"error"}) - {"cancelled"}


@probe(v2="CANCEL-204")
async def how_soon_work_stops(visit: Visit) -> str:
    return "not observable"


@probe(v2="CANCEL-206")
async def a_cancel_may_have_meta(visit: Visit) -> None:
    for exchange in (cancelled_turn, cancelled_turn_with_meta):
        assert (await visit.once(exchange)).stop_reason == "cancelled"


@probe(v2="CANCEL-207")
async def no_reason_of_its_own_replaces_cancelled(visit: Visit) -> None:
    for exchange in (cancelled_turn, cancelled_turn_with_meta):
        reason = (await visit.once(exchange)).stop_reason or ""
        assert reason in STOP_REASONS or reason.startswith("_"), reason


@probe(v1="CLOSE-002", v2="CLOSE-202")
@probe(v2="CANCEL-208")
async def a_close_cancels(visit: Visit) -> None:
    assert (await visit.once(closed_in_a_turn)).stop_reason == "cancelled"


@probe(v2="INFO-CANCEL-201")
async def a_cancel_of_nothing(visit: Visit) -> str:
    talk = await visit.having("session/new")
    session = await visit.new_session(talk)
    start = len(talk.messages)
    talk.notify("session/cancel", {"sessionId": session})
    await talk.fence()
    kinds = [each["sessionUpdate"] for each in talk.updates(session, start)]
    return ", ".join(kinds) or "ignored"


@probe(v2="INFO-CANCEL-202")
async def a_cancel_of_a_question(visit: Visit) -> str:
    prompt = visit.subject.prompts.permission
    if prompt is None:
        raise Absent("asks for no permission")
    talk = await visit.talk("spare")
    session = await visit.new_session(talk)
    start, answers = len(talk.messages), talk.permission
    talk.permission = lambda params: None
    turn = talk.prompt(session, prompt)
    await talk.until(lambda: talk.requests("session/request_permission", start))
    talk.permission = answers
    talk.notify("session/cancel", {"sessionId": session})
    withdrawn = False
    try:
        async with asyncio.timeout(LONG):
            await talk.until(lambda: talk.requests("$/cancel_request", start))
            withdrawn = True
    except TimeoutError:
        pass
    (request,) = talk.requests("session/request_permission", start)
    talk.send({"id": request["id"], "result": {"outcome": {"outcome": "cancelled"}}})
    await talk.end_of_turn(session, turn, start)
    return "withdrawn" if withdrawn else "left to the client"


# ---- options and modes -----------------------------------------------------------------------


@probe(v2="CONFIG-201")
async def config_options_are_valid(visit: Visit) -> None:
    for option in await visit.once(config_options):
        objections = visit.official.objections(2, "SessionConfigOption", option)
        assert not objections, objections


@probe(v1="CONFIG-001", v2="CONFIG-204")
async def a_value_is_one_of_its_choices(visit: Visit) -> None:
    for option in await visit.once(config_options):
        if option["type"] == "select":
            assert option["currentValue"] in choices(option)
        else:
            assert isinstance(option["currentValue"], bool)


@probe(v1="CONFIG-002", v2="CONFIG-202")
async def setting_an_option_gives_all_of_them(visit: Visit) -> None:
    done = await visit.once(option_set)
    options = valid(visit, "session/set_config_option", done.reply)["configOptions"]
    assert list(map(config_id, options)) == list(map(config_id, done.before))
    (changed,) = [each for each in options if config_id(each) == done.config_id]
    assert changed["currentValue"] == done.value


@probe(v2="CONFIG-203")
async def the_options_of_a_resumed_session_are_valid(visit: Visit) -> None:
    await visit.once(config_options)
    result = (await succeeded(visit, resumed)).reply["result"]
    if not result.get("configOptions"):
        raise Absent("none in the answer")
    for option in result["configOptions"]:
        objections = visit.official.objections(2, "SessionConfigOption", option)
        assert not objections, objections


@probe(v1="CONFIG-003")
async def no_boolean_for_a_client_that_shows_none(visit: Visit) -> None:
    options = (await visit.once(set_up)).get("configOptions") or []
    assert all(option["type"] != "boolean" for option in options)


@probe(v1="MODES-001")
async def modes_are_valid(visit: Visit) -> None:
    modes = await _modes(visit)
    objections = visit.official.objections(1, "SessionModeState", modes)
    assert not objections, objections
    assert modes["currentModeId"] in {each["id"] for each in modes["availableModes"]}


@probe(v1="MODES-002")
async def a_mode_is_set(visit: Visit) -> None:
    modes, talk = await _modes(visit), await visit.talk()
    other = next(
        each["id"] for each in modes["availableModes"] if each["id"] != modes["currentModeId"]
    )
    session = await visit.new_session(talk)
    start = len(talk.messages)
    params = {"sessionId": session, "modeId": other}
    valid(visit, "session/set_mode", await talk.ask("session/set_mode", params))
    await talk.fence()
    assert other in {each.get("currentModeId") for each in talk.updates(session, start)}


async def _modes(visit: Visit) -> Json:
    modes: Json | None = (await visit.once(set_up)).get("modes")
    if modes is None:
        raise Absent("no modes")
    return modes


# ---- login -----------------------------------------------------------------------------------


async def _methods(visit: Visit, talk: Talk) -> list[Json]:
    found: list[Json] = talk.initialized["result"].get("authMethods") or []
    if not found:
        raise Absent("no login")
    return found


@probe(v1="AUTH-001", v2="AUTH-201")
async def no_two_logins_have_one_id(visit: Visit) -> None:
    methods = await _methods(visit, await visit.talk("login"))
    ids = [each["id" if visit.version == 1 else "methodId"] for each in methods]
    assert len(ids) == len(set(ids))


@probe(v1="AUTH-002", v2="AUTH-202")
async def no_terminal_login_unless_offered(visit: Visit) -> None:
    assert not visit.logins(await visit.talk(), "terminal")


@probe(v2="AUTH-206")
async def the_type_of_a_login_is_known(visit: Visit) -> None:
    for method in await _methods(visit, await visit.talk("login")):
        assert method["type"] in ("agent", "terminal") or method["type"].startswith("_")


@probe(v2="AUTH-207")
async def a_terminal_login_is_well_formed(visit: Visit) -> None:
    talk = await visit.talk("login")
    if not visit.logins(talk, "terminal"):
        raise Absent("no login in a terminal")
    for method in await _methods(visit, talk):
        if method["type"] == "terminal":
            assert all(isinstance(each, str) for each in method.get("args", []))
            names = [each["name"] for each in method.get("env", [])]
            assert all(isinstance(each["value"], str) for each in method.get("env", []))
            assert len(names) == len(set(names))


async def _logged_in(visit: Visit) -> Talk:
    """A conversation after a login that the agent does itself."""
    talk = await visit.talk("login")
    await _methods(visit, talk)
    if not visit.logins(talk):
        raise Absent("no login by the agent")
    method = LOGIN[visit.version]
    valid(visit, method, await talk.ask(method, {"methodId": visit.logins(talk)[0]}))
    return talk


@probe(v1="AUTH-003", v2="AUTH-204")
async def a_login_lets_one_in(visit: Visit) -> None:
    talk = await _logged_in(visit)
    reply = await talk.ask("session/new", {"cwd": CWD, "mcpServers": []})
    assert reply.get("error", {}).get("code") != AUTH_REQUIRED


@probe(v1="AUTH-004", v2="AUTH-203")
async def a_logout_succeeds(visit: Visit) -> None:
    talk = await _logged_in(visit)
    if visit.version == 1 and not visit.has(talk, "logout"):
        raise Absent("no logout")
    method = LOGOUT[visit.version]
    assert isinstance(valid(visit, method, await talk.ask(method)), dict)


@probe(v1="AUTH-005", v2="AUTH-205")
async def no_login_is_needed_where_there_is_none(visit: Visit) -> None:
    talk = await visit.having("session/new")
    if talk.initialized["result"].get("authMethods"):
        raise Absent("has a login")
    reply = await talk.ask("session/new", {"cwd": CWD, "mcpServers": []})
    assert reply.get("error", {}).get("code") != AUTH_REQUIRED


# ---- JSON-RPC --------------------------------------------------------------------------------


@probe(v1="JSONRPC-001", v2="JSONRPC-001")
async def ids_are_echoed(visit: Visit) -> None:
    talk = await visit.talk()
    for request_id in (talk.next_id(), "a-string", "17"):
        params = {"cwd": CWD, "mcpServers": []}
        await talk.reply(talk.request("session/new", params, request_id))
    for request_id in (talk.next_id(), "another-string"):
        await talk.reply(talk.request("conformance/unknown", {}, request_id))
    if visit.version == 2:
        await visit.once(requests_in_a_batch)


@probe(v1="JSONRPC-004", v2="JSONRPC-004")
async def an_unknown_method_is_refused(visit: Visit) -> None:
    reply = await (await visit.talk()).ask("conformance/unknown")
    assert reply.get("error", {}).get("code") == METHOD_NOT_FOUND, reply


@probe(v1="JSONRPC-005", v2="JSONRPC-005")
async def a_bad_request_breaks_nothing(visit: Visit) -> None:
    talk = await visit.talk("wild")
    assert "error" in await talk.ask("session/prompt", {"sessionId": 1})
    assert "error" in await talk.ask("conformance/unknown")
    if visit.version == 2:
        await bad_line(visit, b'[{"jsonrpc": "2.0", "method": 1}, 2]')
    assert await visit.new_session(talk)


@probe(v1="EXT-001", v2="EXT-001")
async def an_extension_gets_a_response(visit: Visit) -> None:
    await (await visit.talk()).ask("_conformance/request", {"any": "thing"})


@probe(v2="EXT-201")
async def an_unknown_notification_is_ignored(visit: Visit) -> None:
    talk = await visit.talk("wild")
    start = len(talk.messages)
    talk.notify("_conformance/noted")
    await talk.fence()
    assert len(talk.messages) == start + 1, talk.messages[start:]


@probe(v2="EXT-203")
async def an_unknown_notification_of_the_protocol(visit: Visit) -> str:
    talk = await visit.talk("wild")
    start = len(talk.messages)
    talk.notify("$/conformance")
    await talk.fence()
    return "ignored" if len(talk.messages) == start + 1 else "answered"


@probe(v1="INFO-PARSE-001", v2="INFO-PARSE-001")
async def a_line_that_is_not_json(visit: Visit) -> str:
    return codes(await bad_line(visit, b'{"jsonrpc": "2.0", "id": 1000, "method": "session/li'))


@probe(v1="INFO-INVALIDREQ-001", v2="INFO-INVALIDREQ-001")
async def an_object_that_is_no_message(visit: Visit) -> str:
    return codes(await bad_line(visit, b'{"jsonrpc": "2.0", "hello": "world"}'))


# ---- batches ---------------------------------------------------------------------------------


@probe(v2="BATCH-201")
async def an_empty_batch_is_refused(visit: Visit) -> None:
    lines = await bad_line(visit, b"[]")
    assert codes(lines) == str(INVALID_REQUEST)
    assert lines[0].messages[0]["id"] is None
    assert not is_array(lines[0])


@probe(v2="BATCH-202")
async def notifications_in_a_batch_get_no_reply(visit: Visit) -> None:
    talk = await visit.talk("wild")
    start = len(talk.messages)
    notification = {"method": "_conformance/noted", "params": {}}
    talk.send(notification, notification)
    await talk.fence()
    assert len(talk.messages) == start + 1, talk.messages[start:]


@probe(v2="BATCH-203")
async def each_invalid_entry_is_refused(visit: Visit) -> None:
    lines = await bad_line(visit, b'[1, "two"]')
    assert codes(lines) == f"{INVALID_REQUEST}, {INVALID_REQUEST}"
    assert all(each["id"] is None for line in lines for each in line.messages)


@probe(v2="BATCH-204")
async def a_batch_is_answered_with_an_array(visit: Visit) -> None:
    lines = await _batch_answers(visit)
    assert [is_array(line) for line in lines] == [True]
    assert len(lines[0].messages) == 2


@probe(v2="BATCH-205")
async def the_answers_to_a_batch_match_by_id(visit: Visit) -> None:
    _, _, number, word = await visit.once(requests_in_a_batch)
    answers = [each for line in await _batch_answers(visit) for each in line.messages]
    found = {each["id"]: "result" in each for each in answers}
    assert found == {number: True, word: False}


async def _batch_answers(visit: Visit) -> list[Line]:
    talk, start, number, word = await visit.once(requests_in_a_batch)
    return [
        line
        for line in talk.lines[start:]
        if not line.sent and any(each.get("id") in (number, word) for each in line.messages)
    ]


@probe(v2="BATCH-206")
async def the_order_of_work_in_a_batch(visit: Visit) -> str:
    return "not observable"


@probe(v2="INFO-BATCH-201")
async def a_batch_that_is_not_json(visit: Visit) -> str:
    return codes(await bad_line(visit, b'[{"jsonrpc": "2.0", "id": 1001, "method": "x"}, {"js'))


@probe(v2="INFO-BATCH-202")
async def a_mixed_batch(visit: Visit) -> str:
    talk = await visit.talk("wild")
    start, request_id = len(talk.lines), talk.next_id()
    talk.send_line(
        b'[{"jsonrpc": "2.0", "id": %d, "method": "conformance/unknown"},'
        b' {"jsonrpc": "2.0", "method": "_conformance/noted"}, 1]' % request_id
    )
    await talk.reply(request_id)
    await talk.fence()
    lines = [
        line
        for line in talk.lines[start:]
        if not line.sent and any(each.get("id", 0) in (None, request_id) for each in line.messages)
    ]
    arrays = [is_array(line) for line in lines]
    return f"{'one array' if arrays == [True] else 'no array'}: {codes(lines)}"


def is_array(line: Line) -> bool:
    """Whether a line is a batch."""
    return line.data.lstrip().startswith(b"[")
