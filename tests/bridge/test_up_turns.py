"""The turns of a version 1 agent as a client of version 2 sees them."""

from typing import Any

import pytest

from tests.support.bridge_stage import Json, Stage, text
from twofold.bridge.up import ACKNOWLEDGE, WAITING

CANCELLED = {"outcome": {"outcome": "cancelled"}}
SIGNS_OF_LIFE = ["update", "permission", "elicitation", "result", "timer"]


def elicit(stage: Stage, **scope: Any) -> Any:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = {"mode": "form", "message": "Who?", "requestedSchema": schema, **scope}
    return stage.agent.ask("elicitation/create", params)


def show_life(stage: Stage, sign: str) -> None:
    match sign:
        case "update":
            stage.chunk()
        case "permission":
            stage.permission()
        case "elicitation":
            elicit(stage, sessionId="s")
        case "result":
            stage.finish()
        case "timer":
            stage.clock.run()


# ---- acknowledgement --------------------------------------------------------------------------


@pytest.mark.parametrize("sign", SIGNS_OF_LIFE)
def test_a_prompt_is_acknowledged_at_the_first_sign_of_life(sign: str) -> None:
    stage = Stage()
    prompt = stage.prompt("hello")
    assert stage.client.messages == []
    assert [seconds for seconds, _ in stage.clock.waiting.values()] == [ACKNOWLEDGE]
    show_life(stage, sign)
    result, message, running = stage.client.messages[:3]
    assert result["id"] == prompt
    message_id = result["result"]["messageId"]
    assert message["params"]["update"] == {
        "sessionUpdate": "user_message",
        "messageId": message_id,
        "content": [text("hello")],
    }
    assert running["params"]["update"] == {"sessionUpdate": "state_update", "state": "running"}
    assert stage.clock.waiting == {}, "no timer is left behind"
    assert len(stage.client.answers(prompt)) == 1


def test_the_timer_acknowledges_only_once() -> None:
    stage = Stage()
    prompt = stage.prompt()
    (_, timer), *_ = stage.clock.waiting.values()
    stage.chunk()
    timer()
    assert len(stage.client.answers(prompt)) == 1
    assert stage.client.states == ["running"]


def test_an_early_error_reaches_the_client_as_an_error() -> None:
    stage = Stage()
    prompt = stage.prompt()
    stage.agent.fail(stage.agent.last_asked("session/prompt"), -32000, "Log in first")
    assert stage.client.error(prompt) == {"code": -32000, "message": "Log in first"}
    assert stage.client.updates == []
    assert stage.clock.waiting == {}
    assert stage.pending == []


def test_an_error_after_the_acknowledgement_ends_the_turn_with_an_error() -> None:
    stage = Stage()
    prompt = stage.prompt()
    stage.chunk("so far")
    stage.agent.fail(stage.agent.last_asked("session/prompt"), 400, "model", data={"a": 1})
    assert stage.client.result(prompt)["messageId"]
    assert stage.client.updates[-1] == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "stopReason": "error",
        "error": {"code": 400, "message": "model", "data": {"a": 1}},
    }


@pytest.mark.parametrize("result", [None, {}, {"stopReason": 5}, []])
def test_a_result_that_is_none_ends_the_turn_with_an_error(result: Any) -> None:
    stage = Stage()
    stage.prompt()
    stage.agent.answer(stage.agent.last_asked("session/prompt"), result)
    assert stage.client.states == ["running", "idle:error"]
    assert stage.pending == []


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "refusal", "_mood"])
def test_the_result_is_idle_with_the_stop_reason_after_every_update(reason: str) -> None:
    stage = Stage()
    stage.prompt()
    stage.chunk("a")
    stage.chunk("b")
    stage.finish(reason, usage={"totalTokens": 3, "inputTokens": 1, "outputTokens": 2})
    idle = stage.client.updates[-1]
    assert (idle["state"], idle["stopReason"]) == ("idle", reason)
    assert idle["usage"]["totalTokens"] == 3
    assert stage.client.texts == ["a", "b"]


def test_the_agents_echo_of_the_prompt_is_swallowed() -> None:
    stage = Stage()
    stage.prompt("hello world")
    stage.chunk("hello ", "user_message_chunk")
    stage.chunk("world", "user_message_chunk")
    stage.chunk("hello")
    assert stage.client.texts == ["hello"]


def test_after_a_turn_that_failed_nothing_is_taken_for_an_echo() -> None:
    stage = Stage()
    stage.prompt("hello")
    stage.chunk("x")
    stage.agent.fail(stage.agent.last_asked("session/prompt"))
    stage.chunk("hello", "user_message_chunk")
    assert stage.client.texts == ["x", "hello"]


def test_late_updates_come_while_idle_and_join_the_last_message() -> None:
    stage = Stage()
    stage.prompt()
    stage.chunk("a")
    stage.finish()
    stage.chunk("late")
    chunks = [each for each in stage.client.updates if "content" in each and "messageId" in each]
    assert chunks[-1]["messageId"] == chunks[-2]["messageId"]
    assert stage.client.states == ["running", "idle:end_turn"]
    assert stage.client.updates[-1]["content"] == text("late")


def test_message_ids_are_never_used_twice() -> None:
    stage = Stage()
    ids = [stage.client.result(_turn(stage))["messageId"] for _ in range(3)]
    agents = [
        each["messageId"]
        for each in stage.client.updates
        if each["sessionUpdate"] == "agent_message_chunk"
    ]
    assert len({*ids, *agents}) == 6


def _turn(stage: Stage) -> Any:
    prompt = stage.prompt()
    stage.chunk()
    stage.finish()
    return prompt


def test_a_prompt_that_version_1_cannot_express_is_refused() -> None:
    stage = Stage()
    params = {"sessionId": "s", "prompt": [{"type": "_hologram"}]}
    asked = stage.client.ask("session/prompt", params)
    assert stage.client.error(asked)["code"] == -32602
    assert stage.pending == []


# ---- prompts that wait ------------------------------------------------------------------------


def test_prompts_of_one_session_wait_for_each_other() -> None:
    stage = Stage()
    prompts = [stage.prompt(words) for words in ("one", "two", "three")]
    for number, prompt in enumerate(prompts, 1):
        asked = stage.agent.asked("session/prompt")
        assert len(asked) == number
        assert not any(stage.client.answers(each) for each in prompts[number - 1 :])
        stage.chunk(str(number))
        stage.finish()
        assert stage.client.result(prompt)["messageId"]
    assert stage.client.states == ["running", "idle:end_turn"] * 3
    assert stage.client.texts == ["1", "2", "3"]


def test_sessions_do_not_wait_for_each_other() -> None:
    stage = Stage()
    stage.prompt(session="s")
    stage.prompt(session="t")
    first, second = stage.agent.asked("session/prompt")
    stage.agent.answer(second["id"], {"stopReason": "end_turn"})
    stage.agent.answer(first["id"], {"stopReason": "refusal"})
    updates = stage.client.notifications("session/update")
    sent = [(each["sessionId"], each["update"]) for each in updates]
    ends = [(name, each["stopReason"]) for name, each in sent if each.get("state") == "idle"]
    assert ends == [("t", "end_turn"), ("s", "refusal")]


def test_a_prompt_after_an_error_does_not_wait() -> None:
    stage = Stage()
    stage.prompt()
    waiting = stage.prompt("again")
    stage.agent.fail(stage.agent.last_asked("session/prompt"), -32000)
    stage.chunk()
    stage.finish()
    assert stage.client.result(waiting)["messageId"]


def test_too_many_waiting_prompts_are_refused() -> None:
    stage = Stage()
    prompts = [stage.prompt(str(number)) for number in range(WAITING + 2)]
    assert stage.client.error(prompts[-1])["code"] == -32602
    assert not any(stage.client.answers(each) for each in prompts[:-1])


# ---- questions --------------------------------------------------------------------------------


def test_a_session_requires_action_while_a_question_is_open() -> None:
    stage = Stage()
    stage.prompt()
    asked = stage.permission()
    request = stage.client.asked("session/request_permission")[0]["params"]
    assert request["title"] == "Run make"
    assert request["subject"]["toolCall"]["toolCallId"] == "t"
    assert stage.client.states == ["running", "requires_action"]
    stage.allow()
    assert stage.agent.result(asked) == {"outcome": {"outcome": "selected", "optionId": "yes"}}
    assert stage.client.states == ["running", "requires_action", "running"]


def test_a_session_runs_again_when_the_last_question_is_answered() -> None:
    stage = Stage()
    stage.prompt()
    first, second = stage.permission("a"), elicit(stage, sessionId="s")
    at_client = [each["id"] for each in stage.client.asked()]
    stage.client.answer(at_client[1], {"action": "accept", "content": {"name": "Ada"}})
    assert stage.agent.result(second) == {"action": "accept", "content": {"name": "Ada"}}
    assert stage.client.states == ["running", "requires_action"]
    stage.client.fail(at_client[0], -32601, "none")
    assert stage.agent.error(first)["code"] == -32601
    assert stage.client.states == ["running", "requires_action", "running"]


def test_a_question_outside_a_turn_does_not_change_what_the_session_does() -> None:
    stage = Stage()
    stage.session()
    asked = stage.permission()
    stage.allow()
    assert stage.agent.result(asked)["outcome"]["outcome"] == "selected"
    assert stage.client.states == []


def test_a_question_from_before_the_turn_is_not_one_of_the_turn() -> None:
    stage = Stage()
    stage.permission("before")
    stage.prompt()
    stage.permission("in")
    assert stage.client.states == ["running", "requires_action"]
    stage.allow()
    assert stage.client.states == ["running", "requires_action", "running"]
    stage.finish()
    assert stage.client.notifications("$/cancel_request") == [], "the first question is still open"


def test_a_question_of_an_unknown_mode_belongs_to_its_session_too() -> None:
    stage = Stage()
    stage.prompt()
    elicit(stage, mode="_voice", sessionId="s")
    assert stage.client.states == ["running", "requires_action"]


def test_a_question_that_the_agent_does_not_wait_for_is_void_at_the_end_of_the_turn() -> None:
    stage = Stage()
    stage.prompt()
    asked = stage.permission()
    stage.finish()
    at_client = stage.client.last_asked("session/request_permission")
    assert stage.client.notifications("$/cancel_request") == [{"requestId": at_client}]
    assert stage.agent.result(asked) == CANCELLED
    assert stage.client.states == ["running", "requires_action", "idle:end_turn"]
    stage.allow()
    assert len(stage.agent.answers(asked)) == 1
    assert stage.problems == [], "an answer that was on its way is no problem"


def test_an_unknown_outcome_counts_as_cancelled_and_is_a_loss() -> None:
    stage = Stage()
    stage.prompt()
    asked = stage.permission()
    at_client = stage.client.last_asked("session/request_permission")
    stage.client.answer(at_client, {"outcome": {"outcome": "_maybe"}})
    assert stage.agent.result(asked) == CANCELLED
    assert [path for path, _ in stage.lost] == ["outcome"]


def test_a_question_about_a_request_names_it_as_the_client_does() -> None:
    stage = Stage()
    login = stage.client.ask("auth/login", {"methodId": "token"}, identity="L")
    asked = elicit(stage, requestId=stage.agent.last_asked("authenticate"))
    (question,) = stage.client.asked("elicitation/create")
    assert question["params"]["requestId"] == login
    stage.client.answer(question["id"], {"action": "decline"})
    assert stage.agent.result(asked) == {"action": "decline"}
    assert stage.client.states == []


def test_a_question_about_a_prompt_is_about_its_session() -> None:
    stage = Stage()
    prompt = stage.prompt()
    elicit(stage, requestId=stage.agent.last_asked("session/prompt"))
    (question,) = stage.client.asked("elicitation/create")
    assert question["params"]["sessionId"] == "s"
    assert "requestId" not in question["params"]
    assert stage.client.result(prompt)["messageId"]
    assert stage.client.states == ["running", "requires_action"]


@pytest.mark.parametrize("identity", [4711, "x"])
def test_a_question_about_a_request_that_is_not_pending_is_refused(identity: Any) -> None:
    stage = Stage()
    assert stage.agent.error(elicit(stage, requestId=identity))["code"] == -32602
    assert stage.client.messages == []


def test_a_question_of_an_unknown_kind_names_its_request_by_the_id_of_the_client() -> None:
    stage = Stage()
    login = stage.client.ask("auth/login", {"methodId": "token"}, identity="L")
    at_agent = stage.agent.last_asked("authenticate")
    stage.agent.ask("elicitation/create", {"mode": "_voice", "requestId": at_agent, "tone": "low"})
    (question,) = stage.client.asked("elicitation/create")
    assert question["params"] == {"mode": "_voice", "requestId": login, "tone": "low"}


# ---- cancel -----------------------------------------------------------------------------------


def test_a_cancel_is_passed_on_only_if_a_turn_runs() -> None:
    stage = Stage()
    stage.session()
    stage.cancel()
    stage.cancel("a session that does not exist")
    assert stage.agent.notifications("session/cancel") == []
    stage.prompt()
    stage.cancel()
    stage.cancel()
    assert stage.agent.notifications("session/cancel") == [{"sessionId": "s"}]
    stage.finish("cancelled")
    stage.cancel()
    assert len(stage.agent.notifications("session/cancel")) == 1
    assert stage.client.states == ["running", "idle:cancelled"]


def test_a_cancel_answers_the_prompts_that_wait() -> None:
    stage = Stage()
    running, *waiting = [stage.prompt(words) for words in "abc"]
    stage.cancel()
    assert [stage.client.error(each)["code"] for each in waiting] == [-32800, -32800]
    stage.finish("cancelled")
    assert stage.client.result(running)["messageId"]
    assert len(stage.agent.asked("session/prompt")) == 1


def test_a_cancel_settles_what_the_agent_asked_on_both_sides() -> None:
    stage = Stage()
    stage.prompt()
    permission, question = stage.permission(), elicit(stage, sessionId="s")
    stage.cancel()
    assert stage.agent.result(permission) == CANCELLED
    assert stage.agent.result(question) == {"action": "cancel"}
    asked = [each["id"] for each in stage.client.asked()]
    assert [each["requestId"] for each in stage.client.notifications("$/cancel_request")] == asked
    methods = [each.get("method") for each in stage.agent.messages]
    assert methods == ["session/prompt", "session/cancel", None, None]
    assert stage.client.states == ["running", "requires_action", "running"]


def test_the_first_answer_wins() -> None:
    stage = Stage()
    stage.prompt()
    before, after = stage.permission("a"), stage.permission("b")
    first, second = [each["id"] for each in stage.client.asked()]
    stage.client.answer(first, {"outcome": {"outcome": "selected", "optionId": "no"}})
    stage.cancel()
    stage.client.answer(second, {"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert stage.agent.result(before)["outcome"] == {"outcome": "selected", "optionId": "no"}
    assert stage.agent.result(after) == CANCELLED
    assert stage.problems == []


def test_after_a_cancel_the_agents_questions_are_answered_at_once() -> None:
    stage = Stage()
    stage.prompt()
    stage.cancel()
    asked = stage.permission("late")
    assert stage.agent.result(asked) == CANCELLED
    assert stage.client.asked() == []
    call = stage.client.updates[-1]
    assert (call["sessionUpdate"], call["toolCallId"]) == ("tool_call_update", "late")


@pytest.mark.parametrize("error", [-32603, -32800])
def test_an_error_after_a_cancel_is_a_cancelled_turn(error: int) -> None:
    stage = Stage()
    prompt = stage.prompt()
    stage.cancel()
    stage.agent.fail(stage.agent.last_asked("session/prompt"), error)
    assert stage.client.result(prompt)["messageId"]
    assert stage.client.states == ["running", "idle:cancelled"]


def test_a_turn_that_ends_well_in_spite_of_a_cancel_ended_well() -> None:
    stage = Stage()
    stage.prompt()
    stage.cancel()
    stage.finish("end_turn")
    assert stage.client.states == ["running", "idle:end_turn"]


def test_updates_after_a_cancel_are_passed_on() -> None:
    stage = Stage()
    stage.prompt()
    stage.cancel()
    stage.chunk("late")
    assert stage.client.texts == ["late"]


def test_the_next_prompt_waits_until_the_old_turn_has_settled() -> None:
    stage = Stage()
    stage.prompt("old")
    stage.cancel()
    stage.prompt("new")
    assert len(stage.agent.asked("session/prompt")) == 1
    stage.chunk("late")
    stage.finish("cancelled")
    assert len(stage.agent.asked("session/prompt")) == 2
    stage.finish()
    assert stage.client.states == ["running", "idle:cancelled", "running", "idle:end_turn"]


def test_a_withdrawn_prompt_that_waits_never_reaches_the_agent() -> None:
    stage = Stage()
    stage.prompt("a")
    withdrawn, last = stage.prompt("b"), stage.prompt("c")
    stage.client.notify("$/cancel_request", {"requestId": withdrawn})
    assert stage.client.error(withdrawn)["code"] == -32800
    stage.finish()
    stage.finish()
    assert len(stage.agent.asked("session/prompt")) == 2
    assert stage.client.result(last)["messageId"]


def test_a_withdrawn_prompt_that_was_not_acknowledged_is_cancelled_alone() -> None:
    stage = Stage()
    withdrawn, last = stage.prompt("a"), stage.prompt("b")
    stage.client.notify("$/cancel_request", {"requestId": withdrawn})
    assert stage.agent.notifications("session/cancel") == [{"sessionId": "s"}]
    assert stage.agent.notifications("$/cancel_request") == []
    stage.finish("cancelled")
    stage.finish()
    assert stage.client.result(last)["messageId"]
    assert stage.client.states == ["running", "idle:cancelled", "running", "idle:end_turn"]


def test_a_prompt_that_was_acknowledged_cannot_be_withdrawn() -> None:
    stage = Stage()
    prompt = stage.prompt()
    stage.chunk()
    stage.client.notify("$/cancel_request", {"requestId": prompt})
    again = stage.client.ask("_x/ask", identity=prompt)
    stage.client.notify("$/cancel_request", {"requestId": again})
    assert stage.agent.notifications("session/cancel") == []
    asked = stage.agent.last_asked("_x/ask")
    assert stage.agent.notifications("$/cancel_request") == [{"requestId": asked}]


# ---- the end ----------------------------------------------------------------------------------


def test_the_death_of_the_agent_settles_everything_with_the_reason() -> None:
    stage = Stage()
    listing = stage.client.ask("session/list", {})
    running, waiting = stage.prompt("a"), stage.prompt("b")
    unacknowledged = stage.prompt("c", "t")
    stage.permission()
    stage.die()
    for identity in (listing, waiting, unacknowledged):
        assert stage.client.error(identity)["data"] == {"exitCode": 3, "stderr": "boom"}
    assert stage.client.result(running)["messageId"]
    at_client = stage.client.last_asked("session/request_permission")
    assert stage.client.notifications("$/cancel_request") == [{"requestId": at_client}]
    idle = stage.client.updates[-1]
    assert (idle["state"], idle["stopReason"]) == ("idle", "error")
    assert idle["error"]["data"]["exitCode"] == 3
    assert stage.pending == []
    assert stage.clock.waiting == {}
    messages = stage.client.messages
    withdrawal = next(each for each in messages if "requestId" in each.get("params", {}))
    assert messages.index(withdrawal) < len(messages) - 1


@pytest.mark.parametrize("method", ["session/list", "session/prompt", "_x/ask"])
def test_a_request_after_a_death_fails_at_once(method: str) -> None:
    stage = Stage()
    stage.die()
    params: Json = {"sessionId": "s", "prompt": [text("a")]}
    asked = stage.client.ask(method, params)
    assert stage.client.error(asked)["data"]["exitCode"] == 3
    assert stage.pending == []


def test_when_the_client_leaves_the_agent_is_cancelled_and_gets_its_answers() -> None:
    stage = Stage()
    stage.prompt()
    login = stage.client.ask("auth/login", {"methodId": "token"})
    permission, question = stage.permission(), stage.agent.ask("_x/ask")
    elicit(stage, requestId=stage.agent.last_asked("authenticate"))
    stage.up.client_left()
    assert stage.agent.result(permission) == CANCELLED
    assert stage.agent.error(question)["code"] == -32603
    assert stage.agent.notifications("session/cancel") == [{"sessionId": "s"}]
    assert all(stage.agent.answers(each) for each in (101, 102, 103))
    assert not stage.client.answers(login)
    assert not stage.up.client.pending
