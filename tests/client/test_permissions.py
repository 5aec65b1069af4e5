"""Who answers the permission requests of an agent, and what stays of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.idle_clock import simulated, until, within
from tests.support.raw_agent import CANCELLED, IDLE, RUNNING, Json, Problems, RawAgent, call, talk
from twofold import ClientSession, Policy, Question, Rule
from twofold.client.permissions import REMEMBERED, block_of
from twofold.peer import answering
from twofold.policy import asked_because, parse_rule
from twofold.wire.shared import PermissionOption

ALLOW, ALWAYS, REJECT, NEVER = (
    {"optionId": "b", "name": "Yes", "kind": "allow_once"},
    {"optionId": "c", "name": "Yes, and don't ask again", "kind": "allow_always"},
    {"optionId": "a", "name": "Allow nothing", "kind": "reject_once"},
    {"optionId": "d", "name": "Never", "kind": "reject_always"},
)
OPTIONS = [REJECT, ALLOW, ALWAYS, NEVER]
NAME = {"b": "allow_once", "c": "allow_always", "a": "reject_once", "d": "reject_always"}


def request(version: int, tool_call_id: str, options: list[Json], **fields: Json) -> Json:
    """The params of a request about a tool call."""
    tool_call = {"toolCallId": tool_call_id, **fields}
    if version == 1:
        return {"sessionId": "s", "toolCall": tool_call, "options": options}
    title = str(fields.get("title", "May I?"))
    subject = {"type": "tool_call", "toolCall": tool_call}
    return {"sessionId": "s", "title": title, "subject": subject, "options": options}


class Table:
    """A session and its agent, who asks."""

    def __init__(self, version: int, session: ClientSession, agent: RawAgent) -> None:
        self.version, self.session, self.agent = version, session, agent

    def ask(
        self,
        tool_call_id: str = "t",
        options: list[Json] | None = None,
        request_id: Json = None,
        **fields: Json,
    ) -> asyncio.Future[Json]:
        chosen = OPTIONS if options is None else options
        params = request(self.version, tool_call_id, chosen, **fields)
        return self.agent.ask("session/request_permission", params, request_id)

    async def outcome(self, asked: asyncio.Future[Json]) -> str:
        """The kind of the chosen option, or `cancelled`."""
        outcome = (await within(1, asked))["result"]["outcome"]
        return (
            NAME[outcome["optionId"]]
            if outcome["outcome"] == "selected"
            else str(outcome["outcome"])
        )

    async def pending(self, count: int = 1) -> None:
        await until(lambda: len(self.session.state.permissions) == count)


both = pytest.mark.parametrize("version", [1, 2])


@asynccontextmanager
async def at_table(version: int, **options: Any) -> AsyncIterator[Table]:
    """A table with `options` of `connect`; when it is left, nothing waits."""
    async with talk(version, **options) as (client, agent):
        table = Table(version, await client.new_session("/work"), agent)
        yield table
        assert table.session.state.permissions == {}


def choose(kind: str) -> Callable[[Question], PermissionOption | None]:
    return lambda question: question.option(kind)


class Person:
    """Answers when the test lets it."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.answers: list[asyncio.Future[PermissionOption | None]] = []

    async def __call__(self, question: Question) -> PermissionOption | None:
        self.questions.append(question)
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


async def later(question: Question) -> PermissionOption | None:
    await asyncio.sleep(3600)
    return question.option("allow_once")


# ---- a person --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NAME.values())
@both
@simulated
async def test_a_person_chooses_an_option(version: int, kind: str) -> None:
    async with talk(version, ask=choose(kind)) as (client, agent):
        table = Table(version, await client.new_session("/work"), agent)
        assert await table.outcome(table.ask()) == kind
        [decided] = table.session.decisions
        assert (decided.by, decided.option_kind, decided.rule) == ("person", kind, None)
        assert decided.allowed is kind.startswith("allow")


@both
@simulated
async def test_a_person_sees_the_call_before_the_question_and_the_question_in_the_state(
    version: int,
) -> None:
    person = Person()
    async with at_table(version, ask=person) as table:
        fields: Json = {"title": "Run make", "kind": "execute", "rawInput": {"command": "make all"}}
        asked = table.ask("p", **fields)
        await until(lambda: person.questions)
        [question] = person.questions
        state = table.session.state
        assert question.session is state
        assert question.subject.command == "make all"
        assert question.subject.title == "Run make"
        assert [option.kind for option in question.options] == [each["kind"] for each in OPTIONS]
        assert state.tool_calls["p"].title == "Run make"
        assert [each.tool_call_id for each in state.permissions.values()] == ["p"]
        person.answers[0].set_result(question.option("allow_once"))
        assert await table.outcome(asked) == "allow_once"


@both
@simulated
async def test_a_question_that_a_person_dismisses_is_a_rejection_not_a_cancel(version: int) -> None:
    async with at_table(version, ask=lambda question: None) as table:
        assert await table.outcome(table.ask()) == "reject_once"
        assert table.session.decisions[0].by == "person"


@both
@simulated
async def test_without_an_option_to_reject_a_dismissal_is_cancelled(version: int) -> None:
    async with at_table(version, ask=lambda question: None) as table:
        assert await table.outcome(table.ask(options=[ALLOW, ALWAYS])) == "cancelled"


@both
@simulated
async def test_a_status_update_while_the_question_waits_does_not_take_it_away(version: int) -> None:
    async with at_table(version, ask=later) as table:
        asked = table.ask("t", title="Run make")
        await table.pending()
        fields = {"toolCallId": "t", "status": "in_progress"}
        table.agent.update({"sessionUpdate": "tool_call_update", **fields})
        table.agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Run"})
        await until(lambda: table.session.state.tool_calls["t"].title == "Run")
        assert len(table.session.state.permissions) == 1
        assert table.session.state.tool_calls["t"].status == "in_progress"
        assert not asked.done()
        await asyncio.sleep(3600)
        assert await table.outcome(asked) == "allow_once"


@both
@simulated
async def test_two_questions_under_one_id_are_both_held_and_both_answered(version: int) -> None:
    async with at_table(version, ask=later) as table:
        for call in ("t", "u"):
            table.ask(call, request_id="same")
        await table.pending(2)
        await asyncio.sleep(3601)
        answers = [each for each in table.agent.messages if each.get("id") == "same"]
        assert len(answers) == 2
        assert len(table.session.decisions) == 2


# ---- no person -------------------------------------------------------------------------------


@both
@simulated
async def test_without_anyone_to_ask_the_answer_is_a_rejection(version: int) -> None:
    async with at_table(version) as table:
        assert await table.outcome(table.ask()) == "reject_once"
        [decided] = table.session.decisions
        assert (decided.by, str(decided)) == ("nobody", "rejected: nobody to ask [other]")


@both
@simulated
async def test_a_request_without_an_option_that_rejects_is_cancelled(version: int) -> None:
    async with at_table(version) as table:
        strange = {"optionId": "a", "name": "Reject", "kind": "_acme_maybe"}
        for options in ([ALLOW], [ALWAYS], [ALLOW, strange], [strange]):
            assert await table.outcome(table.ask(options=options)) == "cancelled"
        assert not any(decided.allowed for decided in table.session.decisions)


@both
@simulated
async def test_a_request_without_options_is_cancelled(version: int) -> None:
    async with at_table(version, ask=choose("allow_once")) as table:
        assert await table.outcome(table.ask(options=[])) == "cancelled"


def broken(question: Question) -> PermissionOption | None:
    raise RuntimeError("no display")


async def cancelled_inside(question: Question) -> PermissionOption | None:
    raise asyncio.CancelledError


FAILURES: dict[str, Any] = {
    "raises": broken,
    "returns True": lambda question: True,
    "names an option": lambda question: "b",
    "makes an option up": lambda question: PermissionOption("b", "Yes", "allow_always"),
    "was cancelled": cancelled_inside,
}


@pytest.mark.parametrize("ask", FAILURES.values(), ids=list(FAILURES))
@both
@simulated
async def test_asking_that_fails_is_a_rejection(version: int, ask: Any) -> None:
    problems = Problems()
    async with talk(version, problems=problems, ask=ask) as (client, agent):
        table = Table(version, await client.new_session("/work"), agent)
        assert await table.outcome(table.ask()) == "reject_once"
        assert table.session.state.permissions == {}
        assert table.session.decisions[0].by == "nobody"
    if ask is not cancelled_inside:
        [problem] = problems.of("handler")
        assert problem.startswith("The ask callback raised ")


# ---- a policy --------------------------------------------------------------------------------

RULES = [
    parse_rule("read", "allow"),
    parse_rule("command:git status", "allow"),
    parse_rule("path:/work/.env", "reject"),
]
RULED: dict[str, tuple[Json, str, str, Rule | None]] = {
    "a rule allows": ({"kind": "read"}, "allow_once", "policy", RULES[0]),
    "a rule rejects": (
        {"kind": "read", "locations": [{"path": "/work/.env"}]},
        *("reject_once", "policy", RULES[2]),
    ),
    "a rule allows a command": (
        {"kind": "execute", "rawInput": {"command": "git status"}},
        *("allow_once", "policy", RULES[1]),
    ),
    "no rule: a person": ({"kind": "execute"}, "allow_always", "person", None),
    "more than the rule allows: a person": (
        {"kind": "execute", "rawInput": {"command": "git status; rm -r /"}},
        *("allow_always", "person", None),
    ),
}


@pytest.mark.parametrize(("fields", "kind", "by", "rule"), RULED.values(), ids=list(RULED))
@both
@simulated
async def test_a_policy_decides_before_a_person_and_its_rule_is_recorded(
    version: int, fields: Json, kind: str, by: str, rule: Rule | None
) -> None:
    options: Json = {"policy": Policy(RULES), "ask": choose("allow_always")}
    async with talk(version, **options) as (client, agent):
        table = Table(version, await client.new_session("/work"), agent)
        assert await table.outcome(table.ask(**fields)) == kind
        [decided] = table.session.decisions
        assert (decided.by, decided.rule) == (by, rule)


WHY = {
    "no rule": ({"kind": "read"}, OPTIONS, "No rule decides this."),
    "a rule that asks": (
        {"kind": "execute", "rawInput": {"command": "git push"}},
        *(OPTIONS, "--ask command:git * says to ask."),
    ),
    "a rule without an option for it": (
        {"kind": "execute", "rawInput": {"command": "make"}},
        [each for each in OPTIONS if each["kind"] != "allow_once"],
        "--allow command:make would allow it, but the agent offers no option for just this.",
    ),
}


@pytest.mark.parametrize(("fields", "options", "words"), WHY.values(), ids=list(WHY))
@both
@simulated
async def test_a_question_names_the_rule_that_led_to_it(
    version: int, fields: Json, options: list[Json], words: str
) -> None:
    asked: list[tuple[str, str]] = []

    def ask(question: Question) -> None:
        asked.append((asked_because(question.rule), block_of(question).why))

    rules = [parse_rule("command:git *", "ask"), parse_rule("command:make", "allow")]
    async with talk(version, policy=Policy(rules), ask=ask) as (client, agent):
        table = Table(version, await client.new_session("/work"), agent)
        await table.outcome(table.ask(options=options, **fields))
    assert asked == [(words, words if "No rule" not in words else "")]


@both
@simulated
async def test_a_path_is_rejected_however_it_is_written_in_the_directory_of_the_session(
    version: int,
) -> None:
    rules = [parse_rule("path:/work/secret/**", "reject"), parse_rule("read", "allow")]
    async with at_table(version, policy=Policy(rules)) as table:
        for raw in ({"target_file": "secret/a"}, {"path": "../work/secret/a"}):
            asked = table.ask(str(raw), kind="read", title="Read", rawInput=raw)
            assert await table.outcome(asked) == "reject_once"
        asked = table.ask("t", kind="read", title="Read", rawInput={"path": "public/a"})
        assert await table.outcome(asked) == "allow_once"


@simulated
async def test_the_directory_of_the_session_is_the_one_that_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    rules = [
        parse_rule(f"path:{tmp_path}/real/secret", "reject"),
        parse_rule("command:make", "allow"),
    ]
    async with talk(2, policy=Policy(rules, "allow")) as (client, agent):
        table = Table(2, await client.new_session(tmp_path / "link"), agent)
        for path in ("secret", str(tmp_path / "link" / "secret")):
            asked = table.ask(path, kind="read", rawInput={"path": path})
            assert await table.outcome(asked) == "reject_once"
        raw = {"command": "make", "cwd": str(tmp_path / "real")}
        assert await table.outcome(table.ask(rawInput=raw)) == "allow_once"
        assert table.session.decisions[-1].rule == rules[1]


@both
@simulated
async def test_a_decision_without_a_person_names_its_subject_and_the_rule_that_would_allow_it(
    version: int,
) -> None:
    rules = [parse_rule("read", "allow"), parse_rule("edit", "ask")]
    async with at_table(version, policy=Policy(rules)) as table:
        await table.outcome(table.ask("a", title="Check", rawInput={"command": "make"}))
        await table.outcome(table.ask("b", title="x", kind="edit", locations=[{"path": "/work/a"}]))
        only_always = [ALWAYS, NEVER]
        await table.outcome(table.ask("c", title="Read", kind="read", options=only_always))
        make = "[execute, command: make]; --allow command:make would allow it"
        assert [str(each) for each in table.session.decisions] == [
            f"rejected: nobody to ask {make}",
            "rejected: nobody to ask, and --ask edit says to ask [edit, path: /work/a]",
            "rejected for good: nobody to ask, and --allow read finds no option to pick [read]",
        ]


@both
@simulated
async def test_a_request_without_exactly_one_option_of_the_decided_kind_is_left_to_a_person(
    version: int,
) -> None:
    async with at_table(
        version, policy=Policy([parse_rule("read", "allow")]), ask=choose("reject_always")
    ) as table:
        strange = {"optionId": "b", "name": "Allow", "kind": "allow"}
        for options in (
            [ALWAYS, NEVER],
            [strange, NEVER],
            [ALLOW, {**ALLOW, "optionId": "x"}, NEVER],
        ):
            assert await table.outcome(table.ask(options=options, kind="read")) == "reject_always"
            table.session._opened.permissions.rules.clear()
        assert {decided.by for decided in table.session.decisions} == {"person"}


@both
@simulated
async def test_a_policy_that_rejects_picks_the_option_by_its_kind(version: int) -> None:
    async with at_table(version, policy=Policy((), "reject"), ask=choose("allow_once")) as table:
        lying = {"optionId": "reject", "name": "Reject", "kind": "allow_once"}
        assert await table.outcome(table.ask(options=[lying, NEVER])) == "reject_always"
        assert await table.outcome(table.ask(options=[lying])) == "cancelled"
        assert not any(decided.allowed for decided in table.session.decisions)


@both
@simulated
async def test_a_policy_that_allows_needs_no_person_to_ask(version: int) -> None:
    async with at_table(version, policy=Policy((), "allow")) as table:
        assert await table.outcome(table.ask()) == "allow_once"
        assert table.session.decisions[0].by == "policy"


# ---- for always ------------------------------------------------------------------------------


@both
@simulated
async def test_what_was_allowed_for_always_is_not_asked_again_in_this_session(version: int) -> None:
    async with at_table(version, ask=choose("allow_always")) as table:
        make: Json = {"kind": "execute", "rawInput": {"command": "make"}}
        other: Json = {"kind": "execute", "rawInput": {"command": "make clean"}}
        assert await table.outcome(table.ask("t1", **make)) == "allow_always"
        assert await table.outcome(table.ask("t2", **make)) == "allow_once"
        assert await table.outcome(table.ask("t3", **other)) == "allow_always"
        first, second, third = table.session.decisions
        assert [each.by for each in (first, second, third)] == ["person", "remembered", "person"]
        assert second.rule is table.session._opened.permissions.rules[0]


@pytest.mark.parametrize(
    ("kind", "rest"), [("allow_always", "allow_once"), ("reject_always", "reject_once")]
)
@both
@simulated
async def test_an_answer_for_always_settles_what_waits_and_is_like_it(
    version: int, kind: str, rest: str
) -> None:
    person = Person()
    async with talk(version, ask=person) as (client, agent):
        table = Table(version, await client.new_session("/work"), agent)
        make: Json = {"kind": "execute", "rawInput": {"command": "make"}}
        first, like_it = table.ask("t1", **make), table.ask("t2", **make)
        other = table.ask("t3", kind="execute", rawInput={"command": "rm"})
        await until(lambda: len(person.questions) == 3)
        person.answers[1].set_result(person.questions[1].option(kind))
        assert await table.outcome(like_it) == kind
        assert await table.outcome(first) == rest
        assert person.answers[0].cancelled()
        assert len(table.session.state.permissions) == 1
        assert not other.done()
        person.answers[2].set_result(None)
        assert await table.outcome(other) == "reject_once"
        assert [each.by for each in table.session.decisions] == [
            "person",
            "remembered",
            "person",
        ]


@both
@simulated
async def test_nothing_that_was_allowed_for_always_goes_before_a_rule_that_rejects(
    version: int,
) -> None:
    async with at_table(
        version, policy=Policy([parse_rule("path:/work/x", "reject")]), ask=choose("allow_always")
    ) as table:
        assert await table.outcome(table.ask("t1", kind="edit")) == "allow_always"
        rejected = table.ask("t2", kind="edit", locations=[{"path": "/work/x"}])
        assert await table.outcome(rejected) == "reject_once"


@pytest.mark.parametrize(
    "raw",
    [
        {"command": "./build.sh", "cwd": "/work/other"},
        {"command": "./build.sh", "env": {"PATH": "/tmp"}},
        {"command": "./build.sh", "sandbox": False},
    ],
)
@both
@simulated
async def test_what_is_more_than_was_allowed_for_always_is_asked_again(
    version: int, raw: Json
) -> None:
    async with at_table(version, ask=choose("allow_always")) as table:
        shown: Json = {"kind": "execute", "title": "Build"}
        for number, given in enumerate([{"command": "./build.sh"}, raw, {"command": "./build.sh"}]):
            await table.outcome(table.ask(f"t{number}", rawInput=given, **shown))
        assert [each.by for each in table.session.decisions] == ["person", "person", "remembered"]


@both
@simulated
async def test_a_title_alone_is_allowed_for_always_only_with_that_title(version: int) -> None:
    async with at_table(version, ask=choose("allow_always")) as table:
        for title in ("Fetch http://good", "Fetch http://evil", "Fetch http://good"):
            await table.outcome(table.ask(f"t{title}", title=title, kind="fetch"))
        assert [each.by for each in table.session.decisions] == ["person", "person", "remembered"]


@simulated
async def test_only_so_many_answers_for_always_are_kept() -> None:
    async with at_table(2, ask=choose("allow_always")) as table:
        for number in range(REMEMBERED + 2):
            await table.outcome(table.ask(f"t{number}", title=f"Read {number}"))
        assert len(table.session._opened.permissions.rules) == REMEMBERED
        assert await table.outcome(table.ask("old", title="Read 1")) == "allow_always"
        assert await table.outcome(table.ask("new", title="Read 1000")) == "allow_once"


@simulated
async def test_what_is_remembered_belongs_to_one_session() -> None:
    async with talk(2, ask=choose("allow_always")) as (client, agent):
        table = Table(2, await client.new_session("/work"), agent)
        assert await table.outcome(table.ask(kind="read")) == "allow_always"
        agent.answers["session/new"] = {"sessionId": "s2"}
        other = await client.new_session("/work")
        params = request(2, "t", OPTIONS, kind="read") | {"sessionId": "s2"}
        asked = agent.ask("session/request_permission", params)
        assert await table.outcome(asked) == "allow_always"
        assert other.decisions[0].by == "person"


# ---- cancel and withdrawal -------------------------------------------------------------------


async def begin_turn(table: Table) -> tuple["asyncio.Task[Any]", Json]:
    turn = asyncio.create_task(table.session.prompt("go"))
    prompt = await table.agent.receive("session/prompt")
    if table.version == 2:
        table.agent.answer(prompt, {"messageId": "u1"})
        table.agent.update(RUNNING)
    return turn, prompt


def end_turn(table: Table, prompt: Json) -> None:
    if table.version == 2:
        table.agent.update(CANCELLED)
    else:
        table.agent.answer(prompt, {"stopReason": "cancelled"})


@both
@simulated
async def test_a_cancel_answers_everything_that_waits_with_cancelled(version: int) -> None:
    async with at_table(version, ask=later) as table:
        turn, prompt = await begin_turn(table)
        waiting = [table.ask("t1"), table.ask("t2")]
        await table.pending(2)
        cancelling = asyncio.create_task(table.session.cancel())
        for asked in waiting:
            assert await table.outcome(asked) == "cancelled"
        assert await table.outcome(table.ask("t3")) == "cancelled"  # before the turn has ended
        assert [each.by for each in table.session.decisions] == ["cancel"] * 3
        end_turn(table, prompt)
        await cancelling
        assert (await turn).stop_reason == "cancelled"
        asked = table.ask("t4")
        await table.pending()  # the next turn's questions are asked again
        await asyncio.sleep(3600)
        assert await table.outcome(asked) == "allow_once"


@both
@simulated
async def test_a_question_that_comes_together_with_the_end_of_a_cancelled_turn_is_cancelled(
    version: int,
) -> None:
    async with at_table(version, ask=later) as table:
        turn, prompt = await begin_turn(table)
        cancelling = asyncio.create_task(table.session.cancel())
        await table.agent.receive("session/cancel")
        asked = table.ask("t1")
        end_turn(table, prompt)
        await cancelling
        assert await table.outcome(asked) == "cancelled"
        await turn


@simulated
async def test_a_cancel_while_idle_answers_what_background_work_asks() -> None:
    async with at_table(2, ask=later) as table:
        table.agent.update(call("t", "in_progress"), IDLE)
        asked = table.ask("t")
        await table.pending()
        await table.session.cancel()
        assert await table.outcome(asked) == "cancelled"
        assert not table.session.state.cancelling


@both
@simulated
async def test_a_request_that_the_agent_withdraws_is_asked_no_more(version: int) -> None:
    async with at_table(version, ask=later) as table:
        asked = table.ask("t", request_id="w")
        await table.pending()
        table.agent.notify("$/cancel_request", {"requestId": "w"})
        assert (await within(1, asked))["error"]["code"] == -32800
        assert table.session.state.permissions == {}
        assert table.session.decisions == []


@both
@simulated
async def test_a_request_that_is_withdrawn_in_the_same_breath_leaves_nothing(version: int) -> None:
    async with at_table(version, ask=later) as table:
        asked = table.ask("t", request_id="w")
        table.agent.notify("$/cancel_request", {"requestId": "w"})
        assert (await within(1, asked))["error"]["code"] == -32800
        await until(lambda: table.session.state.permissions == {})


@both
@simulated
async def test_a_request_that_is_refused_because_too_many_wait_is_not_asked(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "REFUSED", 1)
    problems = Problems()
    async with at_table(version, ask=later, problems=problems) as table:
        first = table.ask("t", request_id="first")
        await table.pending()
        second = table.ask("u", request_id="second")
        assert "requests at once" in (await within(1, second))["error"]["message"]
        assert list(table.session.state.permissions) == ["first"]
        await table.session.cancel()
        assert await table.outcome(first) == "cancelled"
    assert len(problems.of("limit")) == len(problems) == 1


@both
@simulated
async def test_a_session_that_is_closed_answers_what_waits(version: int) -> None:
    async with at_table(version, ask=later) as table:
        table.agent.answers["session/close"] = {}
        asked = table.ask("t")
        await table.pending()
        await table.session.close()
        assert await table.outcome(asked) == "cancelled"


@both
@simulated
async def test_an_agent_that_dies_leaves_no_question(version: int) -> None:
    person = Person()
    async with talk(version, ask=person) as (client, agent):
        table = Table(version, await client.new_session("/work"), agent)
        table.ask("t")
        await until(lambda: person.questions)
        await agent.gone()
        await until(lambda: table.session.closed)
        assert table.session.state.permissions == {}
        assert person.answers[0].cancelled()


# ---- requests that cannot be read ------------------------------------------------------------

MALFORMED: dict[str, Json] = {
    "nothing": {},
    "no options": {"sessionId": "s", "title": "x", "toolCall": {"toolCallId": "t"}},
    "options that are none": {
        **request(2, "t", OPTIONS),
        "toolCall": {"toolCallId": "t"},
        "options": [{"optionId": 1}],
    },
}


@pytest.mark.parametrize("params", MALFORMED.values(), ids=list(MALFORMED))
@both
@simulated
async def test_an_unreadable_request_is_refused_without_asking(version: int, params: Json) -> None:
    person = Person()
    async with at_table(version, ask=person) as table:
        asked = table.agent.ask("session/request_permission", params)
        assert (await within(1, asked))["error"]["code"] == -32602
        assert person.questions == []


@both
@simulated
async def test_a_request_of_a_session_that_is_gone_is_refused(version: int) -> None:
    async with at_table(version, ask=later) as table:
        table.agent.answers["session/close"] = {}
        await table.session.close()
        assert (await within(1, table.ask()))["error"]["code"] == -32602
