"""Replays of a version 1 agent for a client of version 2: when, how much of it, and its names."""

import pytest

from tests.support.bridge_stage import ALL, Json, Stage, resume, text
from tests.support.sessions import session_of
from twofold.bridge.exchange import QUIET, REPLAY
from twofold.bridge.lifting import KNOWN

LOADS: Json = {"loadSession": True}
SILENT: Json = {}


def user(stage: Stage, words: str, message_id: str = "") -> None:
    update: Json = {"sessionUpdate": "user_message_chunk", "content": text(words)}
    stage.update(update | ({"messageId": message_id} if message_id else {}))


def turn(stage: Stage, words: str, reply: str = "reply") -> str:
    """One turn; the id that its prompt was acknowledged with."""
    prompt = stage.prompt(words)
    stage.chunk(reply)
    stage.finish()
    acknowledged: str = stage.client.result(prompt)["messageId"]
    return acknowledged


def answer_load(stage: Stage) -> None:
    stage.agent.answer(stage.agent.last_asked("session/load"), {})
    stage.clock.elapse(QUIET)


def replay(stage: Stage, *messages: str, ids: bool = False) -> list[Json]:
    """Replay a session, `u:` begins a message of the user; returns what the client received."""
    before = len(stage.client.updates)
    resume(stage, replay=True)
    for number, message in enumerate(messages):
        role, words = message.split(":")
        identity = f"own-{number}" if ids else ""
        if role == "u":
            user(stage, words, identity)
        else:
            stage.chunk(words)
    answer_load(stage)
    return stage.client.updates[before:]


def users(updates: list[Json]) -> list[str]:
    """The ids of the user messages, in their order."""
    found = [each["messageId"] for each in updates if each["sessionUpdate"].startswith("user_")]
    return list(dict.fromkeys(found))


def folded(updates: list[Json]) -> list[tuple[str, str]]:
    return [
        (message_id, message.text)
        for messages in session_of(*updates).messages.values()
        for message_id, message in messages.items()
    ]


# ---- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [False, True], ids=["without ids", "with ids of the agent"])
def test_a_replayed_user_message_has_the_id_of_its_prompt(ids: bool) -> None:
    stage = Stage(ALL)
    stage.session()
    prompts = [turn(stage, words) for words in ("first", "second", "first")]
    replayed = replay(stage, "u:first", "a:x", "u:second", "a:x", "u:first", "a:x", ids=ids)
    assert users(replayed) == prompts
    again = replay(stage, "u:first", "a:x", "u:second", "a:x", "u:first", "a:x", ids=ids)
    assert users(again) == prompts
    assert turn(stage, "fourth") not in prompts


@pytest.mark.parametrize("ids", [False, True], ids=["without ids", "with ids of the agent"])
def test_the_names_are_the_same_in_the_next_process(ids: bool) -> None:
    first = Stage(ALL)
    first.session()
    prompts = [turn(first, "one"), turn(first, "two")]
    second, third = Stage(ALL), Stage(LOADS)
    history = ("u:one", "a:reply", "u:two", "a:reply")
    replayed = replay(second, *history, ids=ids)
    assert users(replayed) == prompts
    assert replayed == replay(third, *history, ids=ids)
    # and so are those of what follows
    assert turn(second, "three") == turn(third, "three")
    fourth = Stage(ALL)
    assert users(replay(fourth, *history, "u:three"))[-1] == second.client.updates[-4]["messageId"]


def test_a_replay_that_is_not_forwarded_counts() -> None:
    seen, unseen = Stage(LOADS), Stage(LOADS)
    replay(seen, "u:one", "a:x", "u:two", "a:x")
    resume(unseen, replay=False)
    for words in ("one", "two"):
        user(unseen, words)
        unseen.chunk("x")
    answer_load(unseen)
    assert turn(seen, "three") == turn(unseen, "three")
    names = [each.get("messageId") for each in unseen.client.updates if "messageId" in each]
    assert len(set(names)) == 2  # the prompt and its answer


OTHERWISE: dict[str, tuple[list[str], list[int | None]]] = {
    "more around it": (["<context>\n one", "two", "three </end>"], [0, 1, 2]),
    "other blanks": (["one\n", " two", "three"], [0, 1, 2]),
    "one was left out": (["one", "three"], [0, 2]),
    "the first was left out": (["two", "three"], [1, 2]),
    "one was put between": (["one", "[interrupted]", "two", "three"], [0, None, 1, 2]),
    "one was put before": (["AGENTS.md", "one", "two", "three"], [None, 0, 1, 2]),
    "one follows": (["one", "two", "three", "four"], [0, 1, 2, None]),
    "one has other words": (["one", "Make a plan", "three"], [0, None, 2]),
    "only a piece of each": (["on", "tw", "thr"], [0, 1, 2]),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_an_agent_replays_otherwise_is_followed_by_its_text(name: str) -> None:
    texts, expected = OTHERWISE[name]
    stage = Stage(ALL)
    stage.session()
    prompts = [turn(stage, words) for words in ("one", "two", "three")]
    replayed = replay(stage, *(each for words in texts for each in (f"u:{words}", "a:x")))
    names = users(replayed)
    assert (
        users(replay(stage, *(each for words in texts for each in (f"u:{words}", "a:x")))) == names
    )
    assert len(names) == len(texts), "each message has a name of its own"
    for message_id, place in zip(names, expected, strict=True):
        assert (message_id in prompts) == (place is not None)
        if place is not None:
            assert message_id == prompts[place]
    assert turn(stage, "later") not in {*prompts, *names}


def test_prompts_that_nothing_came_between_are_separated_again() -> None:
    stage = Stage(ALL)
    stage.session()
    first = stage.prompt("one")
    stage.cancel()
    stage.finish("cancelled")
    second = turn(stage, "two")
    replayed = replay(stage, "u:one", "u:two", "a:x")
    assert users(replayed) == [stage.client.result(first)["messageId"], second]
    assert dict(folded(replayed))[second] == "two"


def test_the_pieces_of_a_replayed_prompt_stay_together() -> None:
    stage = Stage(ALL)
    stage.session()
    prompts = [turn(stage, "one and two"), turn(stage, "two")]
    replayed = replay(stage, "u:one and ", "u:two", "a:x", "u:two", "a:x")
    assert users(replayed) == prompts
    assert dict(folded(replayed))[prompts[0]] == "one and two"


def test_a_prompt_that_was_refused_at_once_has_no_place() -> None:
    stage = Stage(ALL)
    stage.session()
    refused = stage.prompt("log in first")
    stage.agent.fail(stage.agent.last_asked("session/prompt"), -32000)
    assert stage.client.error(refused)["code"] == -32000
    acknowledged = turn(stage, "now")
    other = Stage(ALL)
    assert users(replay(other, "u:now", "a:x")) == [acknowledged]


def test_a_session_that_goes_on_without_its_past_has_names_of_its_own() -> None:
    first = Stage(ALL)
    first.session()
    taken = {turn(first, "one"), turn(first, "two")}
    taken |= {each["messageId"] for each in first.client.updates if "messageId" in each}
    for _ in range(2):  # each time
        stage = Stage(ALL)
        resume(stage, replay=False)
        stage.agent.answer(stage.agent.last_asked("session/resume"), {})
        prompt = turn(stage, "three")
        new = {each["messageId"] for each in stage.client.updates if "messageId" in each}
        assert not new & taken
        taken |= new
        replayed = replay(stage, "u:one", "a:x", "u:two", "a:x", "u:three", "a:x")
        assert users(replayed)[-1] == prompt
        assert turn(stage, "four") not in {*users(replayed), *taken}


@pytest.mark.parametrize("seen", [True, False])
def test_an_agent_that_does_not_replay_the_user_gets_names_of_its_own(seen: bool) -> None:
    first = Stage(LOADS)
    first.session()
    taken = {turn(first, "one"), turn(first, "two")}
    stage = Stage(LOADS)
    resume(stage, replay=seen)
    stage.chunk("reply")
    answer_load(stage)
    assert turn(stage, "three") not in taken


def test_what_the_client_may_still_show_keeps_its_names() -> None:
    stage = Stage(ALL)
    stage.session()
    turn(stage, "one")
    stage.prompt("two")
    stage.chunk("a")
    stage.update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"})
    stage.chunk("b")
    stage.finish()
    before = {each["messageId"] for each in stage.client.updates if "messageId" in each}
    replay(stage, "u:one", "a:all at once")  # and no more than that
    count = len(stage.client.updates)
    turn(stage, "three")
    new = {each["messageId"] for each in stage.client.updates[count:] if "messageId" in each}
    assert not new & before


def test_what_is_known_of_the_prompts_is_bounded() -> None:
    stage = Stage(ALL)
    stage.session()
    numbers = range(KNOWN + 20)
    prompts = [turn(stage, f"prompt {number}") for number in numbers]
    assert len(stage.up.session("s").lifting._users) == KNOWN
    replayed = replay(stage, *(each for n in numbers for each in (f"u:prompt {n}", "a:x")))
    assert users(replayed) == prompts


# ---- announced before they are sent ------------------------------------------------------------


def test_a_client_that_has_a_message_already_does_not_append_to_it() -> None:
    stage = Stage(ALL)
    stage.session()
    turn(stage, "Hi", "Hello")
    live = folded(stage.client.updates)
    replay(stage, "u:Hi", "a:Hel", "a:lo")
    assert folded(stage.client.updates) == live
    replay(stage, "u:Hi", "a:Hello", ids=True)
    assert folded(stage.client.updates) == live


def test_each_replayed_message_is_announced_once_before_its_first_chunk() -> None:
    stage = Stage(ALL)
    resume(stage, replay=True)
    for words, message_id in (("A", "a"), ("B", "b"), ("C", "a")):  # in turns
        update = {"sessionUpdate": "agent_message_chunk", "messageId": message_id}
        stage.update({**update, "content": text(words)})
    stage.chunk("T", "agent_thought_chunk")
    answer_load(stage)
    replayed = [(each["sessionUpdate"], each.get("messageId")) for each in stage.client.updates]
    thought = replayed[5][1]
    assert replayed == [
        *(("agent_message", "a"), ("agent_message_chunk", "a")),
        *(("agent_message", "b"), ("agent_message_chunk", "b")),
        ("agent_message_chunk", "a"),
        *(("agent_thought", thought), ("agent_thought_chunk", thought)),
        ("state_update", None),
    ]
    assert stage.client.updates[0]["content"] == []
    # what comes in a turn is not of the past
    stage.prompt()
    stage.chunk("new")
    assert stage.client.updates[-1]["sessionUpdate"] == "agent_message_chunk"
    assert stage.client.updates[-2]["sessionUpdate"] == "state_update"


# ---- after the answer --------------------------------------------------------------------------


def test_a_replay_in_two_halves_comes_before_the_answer() -> None:
    stage = Stage(LOADS)
    asked = resume(stage, replay=True)
    user(stage, "one")
    stage.agent.answer(stage.agent.last_asked("session/load"), {})
    for words in ("two", "three"):
        stage.clock.elapse(QUIET * 0.9)
        assert stage.client.answers(asked) == []
        stage.chunk(words)
    stage.clock.elapse(QUIET)
    assert stage.client.result(asked) == {}
    assert stage.client.messages[-1]["id"] == asked
    assert stage.client.texts == ["one", "two", "three"]
    assert stage.clock.waiting == {}


def test_an_agent_that_never_stops_replaying_does_not_keep_the_answer_back() -> None:
    stage = Stage(LOADS)
    asked = resume(stage, replay=True)
    stage.agent.answer(stage.agent.last_asked("session/load"), {})
    for _ in range(int(REPLAY / QUIET) + 2):
        stage.clock.elapse(QUIET * 0.9)
        stage.chunk("more")
        if stage.client.answers(asked):
            break
    stage.clock.elapse(QUIET)
    assert stage.client.result(asked) == {}
    assert stage.clock.now <= REPLAY + QUIET


@pytest.mark.parametrize("halves", [(0, 2), (1, 1), (2, 0)])
def test_nothing_of_a_replay_reaches_a_client_that_asked_for_none(halves: tuple[int, int]) -> None:
    stage = Stage(LOADS)
    asked = resume(stage, replay=False)
    for _ in range(halves[0]):
        stage.chunk("old")
    stage.agent.answer(stage.agent.last_asked("session/load"), {})
    for _ in range(halves[1]):
        stage.chunk("old")
    stage.clock.elapse(QUIET)
    assert stage.client.result(asked) == {}
    stage.chunk("old, and late")
    assert [each["sessionUpdate"] for each in stage.client.updates] == ["state_update"]
    stage.prompt()
    stage.chunk("new")
    assert stage.client.texts == ["new"]


@pytest.mark.parametrize("event", ["prompt", "death", "close", "resume", "departure"])
def test_a_wait_for_silence_ends_early_with_the_next_event(event: str) -> None:
    stage = Stage(ALL)
    asked = resume(stage, replay=True)
    stage.agent.answer(stage.agent.last_asked("session/load"), {})
    if event == "prompt":
        stage.prompt()
    elif event == "death":
        stage.die()
    elif event == "close":
        stage.client.ask("session/close", {"sessionId": "s"})
        stage.agent.answer(stage.agent.last_asked("session/close"), {})
    elif event == "resume":
        resume(stage, replay=True)
    if event != "departure":
        assert stage.client.result(asked) == {}
    stage.up.client_left()
    stage.up.close()
    stage.clock.elapse(REPLAY)
    assert len(stage.client.answers(asked)) == (event != "departure")


def test_a_session_that_could_not_be_loaded_is_not_open() -> None:
    stage = Stage(LOADS)
    asked = resume(stage, replay=True)
    stage.agent.fail(stage.agent.last_asked("session/load"), -32002, "none")
    assert stage.client.error(asked)["code"] == -32002
    assert stage.up.session("s").roots == []


# ---- agents that can neither load nor resume ---------------------------------------------------


def test_a_session_that_is_open_here_goes_on_without_the_agent() -> None:
    stage = Stage(SILENT)
    stage.session(modes={"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]})
    turn(stage, "one")
    count = len(stage.agent.messages)
    asked = resume(stage, replay=False)
    (option,) = stage.client.result(asked)["configOptions"]
    assert option["currentValue"] == "a"
    assert stage.client.states[-1] == "idle"
    assert len(stage.agent.messages) == count
    assert stage.lost == []
    turn(stage, "two")


def test_a_session_that_is_open_here_cannot_move() -> None:
    stage = Stage(SILENT)
    stage.session()
    params = {"sessionId": "s", "cwd": "/elsewhere"}
    assert stage.client.result(stage.client.ask("session/resume", params)) == {}
    ((path, reason),) = stage.lost
    assert (path, "cannot set up" in reason) == ("cwd", True)


def test_a_session_that_runs_here_is_resumed_running() -> None:
    stage = Stage(SILENT)
    stage.session()
    stage.prompt()
    stage.chunk()
    resume(stage, replay=False)
    assert stage.client.states == ["running", "running"]


@pytest.mark.parametrize(
    ("able", "wants_replay", "lacks"),
    [
        (SILENT, True, ["session/load"]),
        (SILENT, False, ["session/load", "session/resume", "not open here"]),
        ({"sessionCapabilities": {"resume": {}}}, True, ["session/load"]),
    ],
)
def test_what_the_agent_lacks_is_named(able: Json, wants_replay: bool, lacks: list[str]) -> None:
    stage = Stage(able)
    if wants_replay:
        stage.session()
    error = stage.client.error(resume(stage, replay=wants_replay))
    assert error["code"] == -32601
    assert all(each in error["message"] for each in lacks)
