"""A hosted session whose agents send exactly what a test makes them send, and its observers.

    async with hosting(2) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["hello"], "Anna")
        prompt = await stage.begin()
        stage.agent.update(chunk("Hi."))
        stage.finish(prompt)
        await stage.settled()

Every start of the agent is another `RawAgent`; `stage.agent` is the last one.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support import raw_agent
from tests.support.idle_clock import until
from tests.support.observer import Observer
from tests.support.raw_agent import HELLO, Answer, Json, RawAgent
from twofold.client.launch import Launch
from twofold.host.hosted_session import HostedSession
from twofold.policy import Policy
from twofold.transport.base import Transport
from twofold.transport.memory import MemoryTransport, memory_pair
from twofold.view.blocks import RemarkBlock
from twofold.view.live import Frame

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class MemoryLaunch(Launch):
    """Starts another scripted agent each time."""

    def __init__(self, stage: "HostStage", policy: Policy) -> None:
        super().__init__(["scripted"], policy=policy)
        self._stage = stage
        self.transport: MemoryTransport | None = None
        stage.launches.append(self)

    async def _start(self) -> Transport:
        ours, theirs = memory_pair()
        self.transport = ours
        self._stage.agents.append(RawAgent(theirs, self._stage.answers))
        return ours


class HostStage:
    """A hosted session and its agents."""

    def __init__(
        self, speaks: int, answers: Mapping[str, Answer], policy: Policy, **options: Any
    ) -> None:
        self.version = speaks
        self.policy = policy
        self.answers = {
            "initialize": HELLO[speaks],
            "session/new": {"sessionId": "s"},
            "session/close": {},
            **answers,
        }
        self.agents: list[RawAgent] = []
        self.launches: list[MemoryLaunch] = []
        options.setdefault("cwd", Path("/"))
        options.setdefault("agent_name", "scripted")
        self.hosted = HostedSession(launch=lambda: MemoryLaunch(self, policy), **options)

    @property
    def agent(self) -> RawAgent:
        return self.agents[-1]

    async def idle(self) -> None:
        await self.state("idle")

    async def state(self, state: str) -> None:
        await until_soon(lambda: self.hosted.state == state)

    async def drained(self) -> None:
        """Wait until all that was sent has been handled."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def settled(self) -> None:
        """Wait until all that was sent has been handled, and is in a frame."""
        await self.drained()
        self.hosted.flush()

    def facts(self) -> dict[str, Any]:
        """All facts as they are now."""
        self.hosted.flush()
        return self.hosted.facts()

    async def begin(self) -> Json:
        """The next prompt, which the agent begins to work on."""
        await until_soon(lambda: self.agents)
        return await raw_agent.begin(self.version, self.agent)

    def finish(self, prompt: Json, reason: str = "end_turn") -> None:
        raw_agent.finish(self.version, self.agent, prompt, reason)

    def ask(
        self, call: str = "c", options: list[Json] | None = None, request_id: Json = None
    ) -> asyncio.Future[Json]:
        """The agent asks for permission; the future is the whole answer."""
        patch = {"toolCallId": call, "title": f"Work on {call}", "kind": "edit"}
        params: Json = {"sessionId": "s", "options": OPTIONS if options is None else options}
        if self.version == 1:
            params["toolCall"] = patch
        else:
            params |= {"title": "May I?", "subject": {"type": "tool_call", "toolCall": patch}}
        return self.agent.ask("session/request_permission", params, request_id)

    async def asked(self, count: int = 1) -> list[str]:
        """The ids of the questions that are shown, once there are so many."""
        await until_soon(lambda: len(self.hosted.facts()["questions"]) == count)
        return [each["question"] for each in self.hosted.facts()["questions"]]

    def prompts(self) -> list[str]:
        """The texts of the prompts that the agent has received so far, in order."""
        sent = [each for each in self.agent.messages if each.get("method") == "session/prompt"]
        return ["".join(part.get("text", "") for part in each["params"]["prompt"]) for each in sent]

    def remarks(self) -> list[str]:
        """What the host has added to the session."""
        blocks = [self.hosted.live.block(key) for key in self.hosted.live.places]
        return [block.text for block in blocks if isinstance(block, RemarkBlock)]


async def until_soon(condition: Any) -> None:
    """Wait until `condition` holds, on the simulated clock for a minute at most."""
    for _ in range(600):
        for _ in range(20):
            if condition():
                return
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
    raise AssertionError("the condition did not come true")


@asynccontextmanager
async def hosting(
    speaks: int,
    answers: Mapping[str, Answer] | None = None,
    /,
    *,
    policy: Policy | None = None,
    opens: bool = True,
    **options: Any,
) -> AsyncIterator[HostStage]:
    """A hosted session that was started; when it is left, nothing is pending."""
    stage = HostStage(speaks, answers or {}, policy or Policy(), **options)
    stage.hosted.start()
    if opens:
        await stage.idle()
    try:
        yield stage
    finally:
        await stage.hosted.close()
    hosted = stage.hosted
    assert hosted.live.session.permissions == {}
    assert hosted.facts()["questions"] == []
    assert all(each["held"] for each in hosted.facts()["queue"])
    assert not hosted.is_running
    for agent in stage.agents:
        await until(lambda: agent.ended_with)  # noqa: B023


class Page(Observer):
    """An observer as a browser is one: it keeps what the frames and facts hold, and nothing else.

    It begins again if the epoch is another, and asks for what it missed after `skip`.
    """

    def __init__(self, hosted: HostedSession) -> None:
        super().__init__()
        self._hosted = hosted
        self.epoch = ""
        self.facts: dict[str, Any] = {}
        self.places: dict[Any, int | None] = {}
        self.frames = 0
        self.skips = False
        """True while its connection is too slow."""
        self.begin()
        self.subscription = hosted.subscribe(self._take)

    def begin(self) -> None:
        self.seen, self.blocks, self.versions, self.places = None, {}, {}, {}
        self.catch_up()
        self.epoch = self._hosted.epoch

    def catch_up(self) -> None:
        """Ask for what is newer than the last frame, as after a reload or a lost network."""
        if self.epoch not in ("", self._hosted.epoch):
            self.epoch = ""
            self.begin()
            return
        frame = self._hosted.frame(self.seen)
        self._apply(frame)

    def _take(self, frame: Frame) -> None:
        self.frames += 1
        if self.skips:
            return
        if self.epoch != self._hosted.epoch:
            self.begin()
        else:
            self._apply(frame)

    def _apply(self, frame: Frame) -> None:
        facts = self._hosted.facts(self.seen)
        self.facts |= facts
        self.apply(frame)
        for put in frame.put:
            at = self._hosted.at(put.key)
            assert self.places.setdefault(put.key, at) == at, "a place never changes"

    def shown(self) -> tuple[Any, ...]:
        """All that it shows."""
        return self.blocks, self.places, self.facts
