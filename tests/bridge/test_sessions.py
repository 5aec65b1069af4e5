"""The session that a client sees through a bridge is the session that the agent reported.

Random sessions of an agent of one version are played to a client of the other, through a bridge
and over memory, and both ends add up what they sent and received. If the bridge reported no loss,
the sums are equal; if it did, the client's is what is left after the same losses. And what a bridge
remembers of a session does not grow with its messages.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import twofold
from tests.convert.test_laws import shown, streams_of_version_1
from tests.peers.validators import SchemaValidator
from tests.support.bridge_peers import HELLO_BACK, Json, Raw, Refused, Version, bridged, new_session
from tests.support.bridge_stage import RecordingSide
from tests.support.down_talk import Talk, call, chunk, printed, shell
from tests.support.strategies import (
    UNKNOWN,
    V1_TAGS,
    V2_TAGS,
    Values,
    commands,
    config_options,
    states,
    v1_permission_requests,
    v1_updates,
    v2_permission_requests,
    v2_updates,
)
from twofold.bridge import Bridge, LossLog
from twofold.bridge.lifting import Lifting
from twofold.bridge.lowering import Lowering
from twofold.bridge.side import Side
from twofold.bridge.up import Up
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.upgrade import Upgrader, is_plain
from twofold.session import Draft, Session
from twofold.transport.memory import memory_pair
from twofold.wire import codec, v1, v2
from twofold.wire.content import TextContent

# ---- scripts ---------------------------------------------------------------------------------

Order = tuple[Literal["echo", "result", "running"], ...]
STOPS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
ORDERS: tuple[Order, ...] = (
    ("echo", "result", "running"),
    ("running", "echo", "result"),
    ("result", "running", "echo"),
)


class Turn:
    """What an agent does about a prompt: steps, the end, and more steps after it.

    A step is a session update, or `{"ask": …}`, a request for permission.
    """

    def __init__(self, steps: list[Json], later: list[Json], stop: str, order: Order) -> None:
        self.steps = steps
        self.later = later
        self.stop = stop
        self.order = order

    def __repr__(self) -> str:
        return f"Turn({self.steps}, {self.later}, {self.stop!r}, {self.order})"


def scripts(steps: Values) -> Values:
    """Sessions of a few turns."""
    turn = st.builds(
        Turn,
        st.lists(steps, max_size=8),
        st.lists(steps, max_size=2),
        st.sampled_from(STOPS),
        st.sampled_from(ORDERS),
    )
    return st.lists(turn, min_size=1, max_size=3)


def asks(requests: Values) -> Values:
    return requests.map(lambda params: {"ask": {**params, "sessionId": "s"}})


v1_steps = v1_updates(*V1_TAGS, UNKNOWN, unknown=True) | asks(v1_permission_requests())
v2_steps = v2_updates(
    *(tag for tag in V2_TAGS if tag != "state_update"), UNKNOWN, unknown=True
) | asks(v2_permission_requests())


def prompt_of(number: int) -> list[Json]:
    # no random text begins like this, so that none is taken for an echo
    return [{"type": "text", "text": f"❯❯{number}"}]


def prompt_id(number: int) -> str:
    return f"prompt-{number}"


# ---- the agent -------------------------------------------------------------------------------


async def act(agent: Raw, version: Version, script: list[Turn]) -> None:
    """Play a script, and have the client know where it is."""
    for number, turn in enumerate(script):
        request = await agent.receive("session/prompt")
        if version == 2:
            for what in turn.order:
                _begin(agent, what, request, number)
        elif turn.order[0] == "echo":
            block = prompt_of(number)[0]
            agent.update({"sessionUpdate": "user_message_chunk", "content": block})
        await _steps(agent, turn.steps)
        if version == 2:
            agent.update(
                {"sessionUpdate": "state_update", "state": "idle", "stopReason": turn.stop}
            )
        else:
            agent.answer(request, {"stopReason": turn.stop})
        await _steps(agent, turn.later)
        agent.notify("_mark", {"number": number})
    agent.answer(await agent.receive("session/close"), {})


def _begin(agent: Raw, what: str, request: Json, number: int) -> None:
    if what == "result":
        agent.answer(request, {"messageId": prompt_id(number)})
    elif what == "running":
        agent.update({"sessionUpdate": "state_update", "state": "running"})
    else:
        echo = {"sessionUpdate": "user_message", "messageId": prompt_id(number)}
        agent.update({**echo, "content": prompt_of(number)})


async def _steps(agent: Raw, steps: list[Json]) -> None:
    for step in steps:
        if "ask" in step:
            with suppress(Refused):
                await agent.ask("session/request_permission", step["ask"])
        else:
            agent.update(step)


# ---- the client ------------------------------------------------------------------------------


class Folding:
    """A client that adds up what it sees, in the words of version 2."""

    def __init__(self, raw: Raw, version: Version) -> None:
        self.session = Session("s")
        self._raw = raw
        self._upgrader = Upgrader() if version == 1 else None
        self._position = len(raw.messages)

    async def play(self, turns: int) -> None:
        """Send so many prompts, look at all that comes, and close the session."""
        for number in range(turns):
            if self._upgrader is not None:
                self._upgrader.prompt([TextContent(prompt_of(number)[0]["text"])])
                self.session.apply(asked_by_client(number))
            params = {"sessionId": "s", "prompt": prompt_of(number)}
            prompting = asyncio.create_task(self._raw.ask("session/prompt", params))
            await self._until(lambda message: message.get("method") == "_mark")
            await prompting
        await self._raw.ask("session/close", {"sessionId": "s"})
        for message in self._raw.messages[self._position : -1]:
            self._see(message)  # what was gathered until then

    async def _until(self, last: Callable[[Json], bool]) -> None:
        while True:
            await self._raw.until(lambda: len(self._raw.messages) > self._position)
            message = self._raw.messages[self._position]
            self._position += 1
            self._see(message)
            if last(message):
                return

    def _see(self, message: Json) -> None:
        method = message.get("method")
        if method == "session/update":
            self._update(message["params"]["update"])
        elif method == "session/request_permission":
            self._permission(message)
        elif method is None and self._upgrader is not None:
            result = codec.read(message["result"], v1.PromptResponse)
            self.session.apply(self._upgrader.finished(result))

    def _update(self, update: Json) -> None:
        if self._upgrader is None:
            self.session.apply(codec.read(update, v2.SessionUpdate))
            return
        read = codec.read(update, v1.SessionUpdate)
        assert not isinstance(read, v1.UnknownUpdate), "it never reaches a client of version 1"
        for each in self._upgrader.update(read):
            self.session.apply(each)

    def _permission(self, message: Json) -> None:
        params = message["params"]
        if self._upgrader is None:
            request = codec.read(params, v2.RequestPermissionRequest)
        else:
            read = codec.read(params, v1.RequestPermissionRequest)
            request = self._upgrader.permission(read)
        answer(self.session, request)
        outcome = {"outcome": "selected", "optionId": params["options"][0]["optionId"]}
        self._raw.answer(message, {"outcome": outcome})


def answer(session: Session, request: v2.RequestPermissionRequest) -> None:
    """What a permission leaves behind in a session."""
    session.ask("q", request)
    session.settle("q")


def asked_by_client(number: int) -> v2.UserMessage:
    return v2.UserMessage(prompt_id(number), [TextContent(prompt_of(number)[0]["text"])])


def see(script: list[Turn], agent_version: Version) -> tuple[Session, int]:
    """What a client of the other version sees of a script, and how much was lost on the way."""

    async def meet() -> tuple[Session, int]:
        log = LossLog()
        other: Version = 1 if agent_version == 2 else 2
        async with bridged(other, agent_version, losses=log) as (client, agent, _):
            await new_session(client, agent)
            before = log.count  # capabilities have losses of their own
            folding = Folding(client, other)
            acting = asyncio.create_task(act(agent, agent_version, script))
            await asyncio.gather(folding.play(len(script)), acting)
            return folding.session, log.count - before

    return asyncio.run(meet())


def in_one_piece(session: Session) -> Session:
    """A session whose messages have no seams: texts that follow each other are one."""
    for messages in session.messages.values():
        for message in messages.values():
            whole: list[Any] = []
            for block in message.content:
                if whole and is_plain(block) and is_plain(whole[-1]):
                    block = TextContent(whole.pop().text + block.text)
                whole.append(block)
            message.content[:] = whole
    return session


# ---- what the agent reported, and what is left of it -----------------------------------------


def reported_by_v2(script: list[Turn]) -> Session:
    """The session as an agent of version 2 sends it, which answers prompts as November does."""
    session = Session("s", Draft.NOVEMBER)
    for number, turn in enumerate(script):
        session.apply(asked_by_client(number))
        for step in [*turn.steps, {"stop": turn.stop}, *turn.later]:
            if "ask" in step:
                answer(session, codec.read(step["ask"], v2.RequestPermissionRequest))
            elif "stop" in step:
                session.apply(v2.StateUpdate("idle", turn.stop))
            else:
                session.apply(codec.read(step, v2.SessionUpdate))
    session.draft = Draft.JUNE  # as version 1 has it
    return session


class Left:
    """What the conversions by themselves leave of a session of version 2 in version 1."""

    def __init__(self) -> None:
        self.losses = Losses()
        self.lost = 0
        self.session = Session("s")
        self._up = Upgrader()
        self._down = Lowering(
            self.losses, notices=True, compactions=True, booleans=True, merges_meta=True
        )

    def of(self, script: list[Turn]) -> "Left":
        for number, turn in enumerate(script):
            self._up.prompt([TextContent(prompt_of(number)[0]["text"])])
            self.session.apply(asked_by_client(number))
            for step in turn.steps:
                self._step(step)
            self._finish()
            self.session.apply(self._up.finished(v1.PromptResponse(turn.stop)))
            for step in turn.later:
                self._step(step)
        self._finish()
        self.lost += len(self.losses)
        return self

    def _step(self, step: Json) -> None:
        try:
            if "ask" in step:
                self._send(self._down.flush())
                request = codec.read(step["ask"], v2.RequestPermissionRequest)
                answer(self.session, self._up.permission(self._down.permission(request)))
            else:
                self._send(self._down.update(codec.read(step, v2.SessionUpdate)))
        except NotConvertible:
            self.lost += 1

    def _finish(self) -> None:
        self._send(self._down.flush())
        self.lost += len(self._down.unshown())

    def _send(self, updates: list[v1.SessionUpdate]) -> None:
        for update in updates:
            for each in self._up.update(v1.decode_update(codec.encode(update))):
                self.session.apply(each)


def reported_by_v1(script: list[Turn]) -> tuple[Session, int]:
    """The session as an agent of version 1 sends it, lifted to version 2; the losses."""
    session, losses, refused = Session("s"), Losses(), 0
    up = Lifting(losses)
    for number, turn in enumerate(script):
        for each in up.prompt([TextContent(prompt_of(number)[0]["text"])]):
            session.apply(each)
        for step in [*turn.steps, {"stop": turn.stop}, *turn.later]:
            if "ask" in step:
                try:
                    read = codec.read(step["ask"], v1.RequestPermissionRequest)
                    answer(session, up.permission(read))
                except NotConvertible:
                    refused += 1
            elif "stop" in step:
                session.apply(up.upgrader.finished(v1.PromptResponse(turn.stop)))
            else:
                for each in up.update(codec.read(step, v1.SessionUpdate)):
                    session.apply(each)
    return session, len(losses) + refused


# ---- the law ---------------------------------------------------------------------------------


@settings(max_examples=30)
@given(scripts(v1_steps))
def test_a_client_of_version_2_sees_what_an_agent_of_version_1_reported(
    script: list[Turn],
) -> None:
    seen, lost = see(script, 1)
    reported, losses = reported_by_v1(script)
    event(f"losses: {min(lost, 3)}")
    assert shown(seen) == shown(reported)
    assert lost == losses


@settings(max_examples=30)
@given(scripts(v2_steps))
def test_a_client_of_version_1_sees_what_is_left_after_the_reported_losses(
    script: list[Turn],
) -> None:
    seen, lost = see(script, 2)
    left = Left().of(script)
    event(f"losses: {min(lost, 3)}")
    assert shown(seen) == shown(left.session)
    assert lost == left.lost
    if not lost:
        reported = reported_by_v2(script)
        assert shown(in_one_piece(seen)) == shown(in_one_piece(reported))


@settings(max_examples=30)
@given(streams_of_version_1(), st.lists(st.integers(0, 20), min_size=2, max_size=2), st.data())
def test_updates_that_version_1_can_express_are_received_as_the_agent_sent_them(
    stream: list[v2.SessionUpdate], cuts: list[int], data: st.DataObject
) -> None:
    steps = [codec.to_json(each) for each in stream]
    first, second = sorted(cuts)
    order = st.sampled_from(ORDERS)
    script = [
        Turn(steps[:first], [], "end_turn", data.draw(order)),
        Turn(steps[first:second], steps[second:], "refusal", data.draw(order)),
    ]
    seen, lost = see(script, 2)
    assert lost == 0
    assert shown(seen) == shown(reported_by_v2(script))


# ---- what reaches a client is valid ------------------------------------------------------------

SHAPES = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
}
RESULTS = ("NewSessionResponse", "PromptResponse")


@settings(max_examples=25)
@given(
    st.lists(v2_steps, max_size=10),
    st.lists(config_options(), max_size=3),
    st.lists(commands(), max_size=2),
    states().filter(lambda state: state["state"] == "idle"),
    st.booleans(),
)
def test_a_client_of_version_1_receives_only_what_its_schema_allows(
    valid: SchemaValidator,
    steps: list[Json],
    options: list[Json],
    listed: list[Json],
    idle: Json,
    able: bool,
) -> None:
    talk = Talk(None if able else {})
    made = {"sessionId": "s", "configOptions": options, "availableCommands": listed}
    asked = [talk.ask("session/new", {"cwd": "/", "mcpServers": []})]
    talk.answer(talk.agent.messages[-1], made)
    asked.append(talk.begin())
    for number, step in enumerate(steps):
        if "ask" in step:
            talk.agent_asks("session/request_permission", step["ask"], f"q{number}")
        else:
            talk.update(step)
    talk.fire()
    talk.update({"sessionUpdate": "state_update", **idle})
    for message in talk.client.messages:
        if "method" in message:
            assert not valid(1, "stable", SHAPES[message["method"]], message["params"])
        elif "result" in message:
            shape = RESULTS[asked.index(message["id"])]
            assert not valid(1, "stable", shape, message["result"])
        else:
            assert not valid(1, "stable", "Error", message["error"])
    assert [len(talk.answers(identity)) for identity in asked] == [1, 1]


# ---- messages that begin empty, are cleared, and are sent again -------------------------------

words: Values = st.sampled_from(("", "A", "B", "AB")).map(
    lambda text: {"type": "text", "text": text}
)
some_message = st.fixed_dictionaries(
    {
        "sessionUpdate": st.sampled_from(("agent_message", "agent_thought")),
        "messageId": st.sampled_from("ab"),
    },
    optional={"content": st.none() | st.lists(words, max_size=2), "_meta": st.none()},
)
some_chunk = st.fixed_dictionaries(
    {
        "sessionUpdate": st.sampled_from(("agent_message_chunk", "agent_thought_chunk")),
        "messageId": st.sampled_from("ab"),
        "content": words,
    }
)
some_call = st.sampled_from((call("a", title="Read"), call("b", title="Write")))


def lowered(stream: list[Json]) -> Left:
    """What is left of the updates of one turn."""
    return Left().of([Turn(stream, [], "end_turn", ORDERS[0])])


@settings(max_examples=150)
@given(st.lists(some_message | some_chunk | some_call, max_size=8))
def test_messages_of_which_no_loss_is_reported_are_seen_as_they_are(stream: list[Json]) -> None:
    left = lowered(stream)
    event(f"lost: {left.lost > 0}")
    if not left.lost:
        script = [Turn(stream, [], "end_turn", ORDERS[0])]
        reported = reported_by_v2(script)
        assert shown(in_one_piece(left.session)) == shown(in_one_piece(reported))


@settings(max_examples=150)
@given(st.lists(some_message | some_chunk, max_size=8))
def test_the_last_part_of_a_message_that_was_sent_ends_with_its_text(stream: list[Json]) -> None:
    """Unless it is empty: what was shown cannot be taken back."""
    seen = lowered(stream).session
    reported = reported_by_v2([Turn(stream, [], "end_turn", ORDERS[0])])
    for role in ("agent", "thought"):
        for message_id, message in reported.messages[role].items():
            parts = [each for each in seen.messages[role] if each.split(":")[0] == message_id]
            if message.text:
                last = seen.messages[role][parts[-1]].text
                assert last.removeprefix("[correction]\n") == message.text


# ---- a whole client --------------------------------------------------------------------------

USAGE = {"sessionUpdate": "usage_update", "used": 5, "size": 100}
TITLE = {"sessionUpdate": "session_info_update", "title": "A title"}
OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
ENTRIES = [{"content": "Look", "priority": "high", "status": "in_progress"}]
DIFF = {"type": "diff", "path": "/a", "oldText": "a\n", "newText": "b\n"}


def _v1_script() -> list[Turn]:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "A"}}
    thought = {**chunk, "sessionUpdate": "agent_thought_chunk"}
    call_ = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit", "kind": "edit"}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}
    tool_call = {"toolCallId": "d", "title": "Delete"}
    steps: list[Json] = [
        *(thought, chunk, chunk, {"sessionUpdate": "plan", "entries": ENTRIES}),
        *(call_, {**done, "content": [DIFF]}, chunk, USAGE, TITLE),
        {"ask": {"sessionId": "s", "toolCall": tool_call, "options": OPTIONS}},
    ]
    return [
        Turn(steps, [], "end_turn", ORDERS[0]),
        Turn([thought, done], [], "refusal", ORDERS[1]),
    ]


def _v2_script() -> list[Turn]:
    plan = {"type": "items", "planId": "main", "entries": ENTRIES}
    tool_call = {"toolCallId": "d", "title": "Delete"}
    subject = {"type": "tool_call", "toolCall": tool_call}
    steps: list[Json] = [
        chunk("T", "t", "agent_thought"),
        *(chunk("A"), chunk("B", "n"), chunk("C")),
        {"sessionUpdate": "plan_update", "plan": plan},
        call("c", title="Edit", kind="edit", status="in_progress"),
        call("c", status="completed", locations=[{"path": "/a", "line": 3}]),
        *(USAGE, TITLE),
        {"ask": {"sessionId": "s", "title": "Delete", "subject": subject, "options": OPTIONS}},
    ]
    return [
        Turn(steps, [], "end_turn", ORDERS[0]),
        Turn([chunk("E", "o"), call("c", title="Edited")], [], "refusal", ORDERS[1]),
    ]


SCRIPTS: dict[Version, list[Turn]] = {1: _v1_script(), 2: _v2_script()}


async def whole(script: list[Turn], agent_version: Version, log: LossLog | None) -> Session:
    """What a client of Twofold has of a script: directly, or through a bridge that reports."""
    (client_end, front), (back, agent_end) = memory_pair(), memory_pair()
    agent, version = Raw(agent_end if log else front), agent_version
    bridging = None
    if log is not None:
        bridging = asyncio.create_task(Bridge(front, back, losses=log).run())
        version = 1 if agent_version == 2 else 2
    greeting = asyncio.create_task(greet(agent, agent_version))
    policy = twofold.Policy([], "allow")
    async with twofold.connect(client_end, version=version, policy=policy) as client:
        greeting.cancel()
        making = asyncio.create_task(client.new_session("/"))
        agent.answer(await agent.receive("session/new"), {"sessionId": "s"})
        session = await making
        acting = asyncio.create_task(act(agent, agent_version, script))
        for number, turn in enumerate(script):
            reply = await session.prompt(prompt_of(number)[0]["text"])
            assert reply.stop_reason == turn.stop
        await session.close()
        await acting
    if bridging is not None:
        await bridging
    return session.state


async def greet(agent: Raw, version: Version) -> None:
    while True:
        agent.answer(await agent.receive("initialize"), HELLO_BACK[version])


def alike(session: Session) -> Any:
    """A session without the names that each side gives, and without the draft it was read as."""
    for role, messages in session.messages.items():
        for number, message in enumerate(messages.values()):
            message.message_id = f"{role}-{number}"
    session.draft = twofold.Draft.JUNE
    return shown(session)


@pytest.mark.parametrize("version", [1, 2])
def test_a_whole_client_sees_the_same_with_and_without_a_bridge(version: Version) -> None:
    lost: list[str] = []
    log = LossLog(every=lambda what, path, reason: lost.append(what))
    bridged_ = asyncio.run(whole(SCRIPTS[version], version, log))
    direct = asyncio.run(whole(SCRIPTS[version], version, None))
    assert len(direct.entries) >= 7
    assert alike(bridged_) == alike(direct)
    assert set(lost) <= {"initialize"}  # capabilities have losses of their own


# ---- what a bridge remembers -----------------------------------------------------------------

FEW, MANY = 1_000, 20_000


class AgentSilent(RecordingSide):
    """A side that drops what it receives."""

    def send(self, line: bytes) -> None:
        pass


def weight(thing: Any, seen: set[int]) -> int:
    """How many bytes something takes with all that it holds, but for its ends and for code."""
    if id(thing) in seen or isinstance(thing, type | Side) or callable(thing):
        return 0
    seen.add(id(thing))
    if isinstance(thing, dict):
        held = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset | deque):
        held = list(thing)
    else:
        slots = [name for each in type(thing).__mro__ for name in getattr(each, "__slots__", ())]
        names = {*slots, *getattr(thing, "__struct_fields__", ()), *getattr(thing, "__dict__", ())}
        held = [getattr(thing, name, None) for name in names]
    return sys.getsizeof(thing) + sum(weight(each, seen) for each in held)


def grows(translation: Any, speak: Callable[[int], None]) -> int:
    """By how many bytes a bridge is heavier after many updates than after a few."""
    sizes = []
    for numbers in (range(FEW), range(FEW, MANY)):
        for number in numbers:
            speak(number)
        sizes.append(weight(translation, set()))
    return sizes[1] - sizes[0]


def note(update: Json) -> bytes:
    params = {"sessionId": "s", "update": update}
    return codec.encode({"jsonrpc": "2.0", "method": "session/update", "params": params})


DOWNWARDS: dict[str, list[Json]] = {
    "one message": [chunk("some words ")],
    "messages that take turns": [
        *(chunk("A", "a"), chunk("B", "b")),
        chunk("T", "a", "agent_thought"),
    ],
    "a tool call": [call(title="Read", status="in_progress"), call(rawOutput={"a": 1})],
    "a terminal": [printed("a line of output " * 20 + "\n")],
    "empty messages": [{"sessionUpdate": "agent_message", "messageId": "m", "content": []}],
    "losses": [{"sessionUpdate": "_acme"}],
    "usage": [USAGE, TITLE],
}
UPWARDS: dict[str, list[Json]] = {
    "one message": [chunk("some words ")],
    "chunks without ids": [
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "A"}}
    ],
    "a tool call": [
        {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"},
    ],
    "usage": [USAGE, TITLE],
}


@pytest.mark.parametrize("kind", DOWNWARDS)
def test_what_is_remembered_for_a_client_of_version_1_does_not_grow(kind: str) -> None:
    talk = Talk()
    talk.down.client.side = AgentSilent("client")
    talk.log._every = None
    lines = [note(update) for update in DOWNWARDS[kind]]

    def speak(number: int) -> None:
        talk.down.from_agent(lines[number % len(lines)])
        if number % 100 == 99:
            talk.fire()

    talk.update(shell())
    kept = 64 * 1024 if kind == "a terminal" else 1_000  # the end of what it printed
    assert grows(talk.down, speak) < kept
    assert talk.problems == []


@pytest.mark.parametrize("kind", UPWARDS)
def test_what_is_remembered_for_a_client_of_version_2_does_not_grow(kind: str) -> None:
    problems: list[Any] = []
    ends = (AgentSilent("client"), AgentSilent("agent"))
    able = v1.AgentCapabilities()
    up = Up(*ends, LossLog(), problems.append, lambda seconds, call: lambda: None, able)
    lines = [note(update) for update in UPWARDS[kind]]
    assert grows(up, lambda number: up.from_agent(lines[number % len(lines)])) < 1_000
    assert problems == []


def test_what_is_remembered_would_be_seen_to_grow() -> None:
    """The tests above would be none if they weighed nothing."""
    talk = Talk()
    talk.down.client.side = AgentSilent("client")

    def speak(number: int) -> None:
        talk.down.from_agent(note(chunk("A", str(number % FEW))))

    assert grows(talk.down, lambda number: speak(0 if number < FEW else number)) > 50_000
