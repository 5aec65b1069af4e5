"""Any order of steps of an agent, of controllers and of observers of a hosted session."""

import asyncio

import pytest
from hypothesis import strategies as st

from tests.support.hosted import HostStage, Page
from tests.support.raw_agent import IDLE, Json, RawAgent, call, chunk
from twofold.host.prompt_queue import NotQueued
from twofold.host.questions import AlreadyAnswered, NoSuchQuestion

STEPS = st.lists(
    st.sampled_from(
        [
            *("chunk", "chunk", "chunk", "more", "call", "done", "plan", "notice", "title", "ask"),
            *("answer", "late answer", "withdraw", "prompt", "finish", "cancel", "edit", "remove"),
            *("wait", "wait", "look", "reload", "restart"),
        ]
    ),
    min_size=10,
    max_size=60,
)


class Walk:
    """Takes the steps, one after the other."""

    def __init__(self, stage: HostStage, data: st.DataObject) -> None:
        self.stage, self.data = stage, data
        self.open: list[Json] = []
        self.asked: list[asyncio.Future[Json]] = []
        self.number = 0
        self.always, self.seldom = Page(stage.hosted), Page(stage.hosted)
        self.seldom.skips = True

    async def step(self, name: str) -> None:
        self.number += 1
        await getattr(self, "_" + name.replace(" ", "_"))()
        for _ in range(self.data.draw(st.sampled_from([0, 1, 5, 40]))):
            await asyncio.sleep(0)

    async def _chunk(self) -> None:
        text = self.data.draw(st.sampled_from(["word ", "One.\n\nTw", "```py\nx = 1\n", "- a\n"]))
        self.stage.agent.update(chunk(text, f"m{self.number % 3}"))

    async def _more(self) -> None:
        chunk = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c1"}
        content = {"type": "content", "content": {"type": "text", "text": f"{self.number}"}}
        self.stage.agent.update({**chunk, "content": content})

    async def _call(self) -> None:
        self.stage.agent.update(call(f"c{self.number % 4}"))

    async def _done(self) -> None:
        self.stage.agent.update(call(f"c{self.number % 4}", "completed"))

    async def _plan(self) -> None:
        entry = {"content": f"step {self.number}", "status": "pending", "priority": "low"}
        plan = {"type": "items", "entries": [entry], "planId": "p"}
        self.stage.agent.update({"sessionUpdate": "plan_update", "plan": plan})

    async def _notice(self) -> None:
        notice = {"sessionUpdate": "notice", "severity": "info", "title": f"{self.number}"}
        self.stage.agent.update(notice)

    async def _title(self) -> None:
        info = {"sessionUpdate": "session_info_update", "title": f"Title {self.number}"}
        self.stage.agent.update(info)

    async def _ask(self) -> None:
        self.asked.append(self.stage.ask(f"c{self.number % 4}", request_id=f"r{self.number}"))

    async def _answer(self) -> None:
        for fact in self.stage.hosted.facts()["questions"][:1]:
            try:
                self.stage.hosted.answer(fact["question"], "yes", "Anna")
            except (AlreadyAnswered, NoSuchQuestion):
                continue  # the frame with the end of the question is not made yet

    async def _late_answer(self) -> None:
        for fact in self.stage.hosted.facts()["answered"][-1:]:
            with pytest.raises(AlreadyAnswered):
                self.stage.hosted.answer(fact["question"], "yes", "Bert")

    async def _withdraw(self) -> None:
        self.stage.agent.notify("$/cancel_request", {"requestId": f"r{self.number - 1}"})

    async def _prompt(self) -> None:
        self.stage.hosted.prompt([f"prompt {self.number}"], "Anna")

    async def _finish(self) -> None:
        self.stage.agent.update(IDLE)

    async def _cancel(self) -> None:
        self.stage.hosted.cancel("Bert")

    async def _edit(self) -> None:
        for fact in self.stage.hosted.facts()["queue"][:1]:
            try:
                self.stage.hosted.edit_queued(fact["item"], "edited")
                self.stage.hosted.send_queued(fact["item"])
            except NotQueued:
                continue

    async def _remove(self) -> None:
        for fact in self.stage.hosted.facts()["queue"][:1]:
            try:
                self.stage.hosted.remove_queued(fact["item"])
            except NotQueued:
                continue

    async def _wait(self) -> None:
        await asyncio.sleep(self.data.draw(st.sampled_from([0.001, 0.02, 1.0])))

    async def _look(self) -> None:
        self.seldom.catch_up()

    async def _reload(self) -> None:
        self.seldom = Page(self.stage.hosted)
        self.seldom.skips = True

    async def _restart(self) -> None:
        await self.stage.agent.gone()
        await self.stage.state("failed")
        self.stage.hosted.restart()
        await self.stage.idle()


def accept(agent: RawAgent, prompt: Json) -> None:
    agent.answer(prompt, {"messageId": f"u{prompt['id']}"})
    agent.update({"sessionUpdate": "state_update", "state": "running"})


def replay(agent: RawAgent, request: Json) -> None:
    agent.update(chunk("What was sent before.\n\n", "old"))
    agent.answer(request, {})
