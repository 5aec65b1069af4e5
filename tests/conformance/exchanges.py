"""What several requirements look at: each of these is done once with a subject."""

from typing import NamedTuple

from tests.conformance.talk import Json, Line, Talk, Turn, is_response
from tests.conformance.visit import CWD, Absent, Visit

HISTORY = {
    *("user_message", "agent_message", "agent_thought"),
    *("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"),
    *("tool_call", "tool_call_update", "tool_call_content_chunk", "plan", "plan_update"),
    *("terminal_update", "terminal_output_chunk"),
}
"""Updates that belong to the history of a session."""
META = {"conformance": {"trace": "1"}}


class Resumed(NamedTuple):
    """A session that was taken up again, and not touched since."""

    talk: Talk
    turn: Turn
    """Its first turn, which may not be the only one."""
    reply: Json
    start: int
    """The number of messages before the request."""

    @property
    def _split(self) -> int:
        return self.talk.messages.index(self.reply)

    @property
    def before(self) -> list[Json]:
        """The updates before the response."""
        count = len(self.talk.updates(self.turn.session, self._split))
        updates = self.talk.updates(self.turn.session, self.start)
        return updates[: len(updates) - count]

    @property
    def after(self) -> list[Json]:
        """The updates after the response, so far."""
        return self.talk.updates(self.turn.session, self._split)


class Asked(NamedTuple):
    """A turn that asked for permission: what came before the answer, and all of it."""

    request: Json
    waiting: list[Json]
    turn: Turn


class OptionSet(NamedTuple):
    """A config option that was set."""

    before: list[Json]
    config_id: str
    value: str
    reply: Json


# ---- turns -----------------------------------------------------------------------------------


async def plain_turn(visit: Visit) -> Turn:
    talk = await visit.having("session/new")
    return await talk.turn(await visit.new_session(talk), visit.subject.prompts.plain)


async def second_turn(visit: Visit) -> Turn:
    """A second prompt in the session of the first."""
    first = await visit.once(plain_turn)
    return await (await visit.talk()).turn(first.session, visit.subject.prompts.plain)


async def tools_turns(visit: Visit) -> None:
    talk = await visit.talk()
    session = await visit.new_session(talk)
    for prompt in visit.subject.prompts.tools:
        await talk.turn(session, prompt)


async def permission_turn(visit: Visit) -> Asked:
    """A turn that asks; it is answered when everything that belongs to the question has come."""
    talk = await visit.talk()
    if visit.subject.prompts.permission is None:
        raise Absent("asks for no permission")
    session = await visit.new_session(talk)
    start, answer = len(talk.messages), talk.permission
    talk.permission = lambda params: None
    prompt = talk.prompt(session, visit.subject.prompts.permission)
    await talk.until(lambda: talk.requests("session/request_permission", start))
    talk.permission = answer
    await talk.fence()
    (request,) = talk.requests("session/request_permission", start)
    waiting = talk.messages[start:]
    talk.send({"id": request["id"], "result": {"outcome": answer(request["params"])}})
    return Asked(request, waiting, await talk.end_of_turn(session, prompt, start))


async def failed_turn(visit: Visit) -> None:
    """A turn that the agent fails."""
    talk = await visit.talk()
    if visit.subject.prompts.error is not None:
        await talk.turn(await visit.new_session(talk), visit.subject.prompts.error)


async def crash(visit: Visit) -> None:
    """A turn in which the agent dies; whatever the client is still sent is recorded."""
    if visit.subject.prompts.crash is not None:
        talk = await visit.talk("crash")
        talk.prompt(await visit.new_session(talk), visit.subject.prompts.crash)
        await talk.over()


async def _slow(visit: Visit, talk: Talk) -> tuple[str, int, int]:
    """A turn that goes on: its session, its request id and where its messages begin."""
    session = await visit.new_session(talk)
    start = len(talk.messages)
    prompt = talk.prompt(session, visit.subject.prompts.slow)
    await talk.until(
        lambda: any(
            update["sessionUpdate"] == "agent_message_chunk"
            for update in talk.updates(session, start)
        )
    )
    return session, prompt, start


async def cancelled_turn(visit: Visit) -> Turn:
    talk = await visit.having("session/new")
    session, prompt, start = await _slow(visit, talk)
    talk.notify("session/cancel", {"sessionId": session})
    turn = await talk.end_of_turn(session, prompt, start)
    await talk.fence()
    return turn


async def cancelled_turn_with_meta(visit: Visit) -> Turn:
    talk = await visit.having("session/new")
    session, prompt, start = await _slow(visit, talk)
    talk.notify("session/cancel", {"sessionId": session, "_meta": META})
    return await talk.end_of_turn(session, prompt, start)


async def closed_in_a_turn(visit: Visit) -> Turn:
    """A turn whose session is closed."""
    talk = await visit.having("session/close")
    session, prompt, start = await _slow(visit, talk)
    closing = talk.request("session/close", {"sessionId": session})
    turn = await talk.end_of_turn(session, prompt, start)
    reply = await talk.reply(closing)
    assert "result" in reply, reply
    return turn


async def second_prompt_meanwhile(visit: Visit) -> tuple[Talk, str, int]:
    """A prompt while a turn runs, in a conversation of its own: its session and request id."""
    talk = await visit.talk("spare")
    session, _, _ = await _slow(visit, talk)
    return talk, session, talk.prompt(session, visit.subject.prompts.plain)


# ---- sessions --------------------------------------------------------------------------------


async def _again(visit: Visit, method: str, **more: object) -> Resumed:
    talk = await visit.having(method)
    turn = await talk.turn(await visit.new_session(talk), visit.subject.prompts.plain)
    for prompt in visit.subject.prompts.tools:
        await talk.turn(turn.session, prompt)
    await talk.fence()
    start = len(talk.messages)
    params = {"sessionId": turn.session, "cwd": CWD, "mcpServers": [], **more}
    reply = await talk.ask(method, params)
    await talk.fence()
    return Resumed(talk, turn, reply, start)


async def resumed(visit: Visit) -> Resumed:
    return await _again(visit, "session/resume")


async def replayed(visit: Visit) -> Resumed:
    if visit.version == 1:
        return await _again(visit, "session/load")
    return await _again(visit, "session/resume", replayFrom={"type": "start"})


async def deleted(visit: Visit) -> str:
    """The id of a session that was deleted."""
    talk = await visit.having("session/delete")
    session = await visit.new_session(talk)
    await talk.turn(session, visit.subject.prompts.plain)
    result = await talk.call("session/delete", {"sessionId": session})
    objections = visit.official.result_objections(visit.version, "session/delete", result)
    assert not objections, objections
    return session


# ---- options ---------------------------------------------------------------------------------


async def set_up(visit: Visit) -> Json:
    """The answer to `session/new`."""
    talk = await visit.having("session/new")
    result: Json = await talk.call("session/new", {"cwd": CWD, "mcpServers": []})
    await talk.fence()
    return result


async def config_options(visit: Visit) -> list[Json]:
    options: list[Json] = (await visit.once(set_up)).get("configOptions") or []
    if not options:
        raise Absent("no config options")
    return options


def config_id(option: Json) -> str:
    """The id of an option, in either version."""
    found: str = option["configId"] if "configId" in option else option["id"]
    return found


def choices(option: Json) -> list[str]:
    """The values that a select can have."""
    flat = [inner for each in option["options"] for inner in each.get("options", [each])]
    return [each["value"] for each in flat]


async def option_set(visit: Visit) -> OptionSet:
    """The first select, set to something else."""
    options = await visit.once(config_options)
    select = next(each for each in options if each["type"] == "select")
    value = next(each for each in choices(select) if each != select["currentValue"])
    params = {
        "sessionId": (await visit.once(set_up))["sessionId"],
        "configId": config_id(select),
        "value": value,
        **({"type": "id"} if visit.version == 2 else {}),
    }
    talk = await visit.talk()
    reply = await talk.ask("session/set_config_option", params)
    await talk.fence()
    return OptionSet(options, config_id(select), value, reply)


# ---- what is not quite JSON-RPC ----------------------------------------------------------------


async def notifications(visit: Visit) -> None:
    """Unknown notifications, and a known one."""
    talk = await visit.talk("wild")
    talk.notify("_conformance/noted")
    talk.notify("conformance/unknown")
    talk.notify("$/conformance")
    talk.notify("session/cancel", {"sessionId": await visit.new_session(talk)})
    await talk.fence()


async def requests_in_a_batch(visit: Visit) -> tuple[Talk, int, int, str]:
    """Two requests and a notification: where the answers begin, and the ids.

    The first gets a result, the second an error.
    """
    talk = await visit.talk("wild")
    start, number, word = len(talk.lines), talk.next_id(), "in-a-batch"
    talk.send(
        {"id": number, "method": "session/new", "params": {"cwd": CWD, "mcpServers": []}},
        {"method": "_conformance/noted", "params": {}},
        {"id": word, "method": "conformance/unknown", "params": {}},
    )
    await talk.reply(number)
    await talk.reply(word)
    await talk.fence()
    return talk, start, number, word


async def bad_line(visit: Visit, data: bytes) -> list[Line]:
    """The lines that answer a line which holds no request that can be read."""
    talk = await visit.talk("wild")
    start = len(talk.lines)
    talk.send_line(data)
    fence = await talk.fence()
    return [
        line
        for line in talk.lines[start:]
        if not line.sent and any(is_response(each) and each != fence for each in line.messages)
    ]


ALL = (
    *(plain_turn, second_turn, tools_turns, permission_turn, cancelled_turn),
    *(cancelled_turn_with_meta, closed_in_a_turn, resumed, replayed, deleted, option_set),
    *(notifications, failed_turn, crash),
)
"""What is recorded of every subject, whichever version it is asked in."""
