"""The demo agent: an ordinary agent whose answers are scenarios.

A slash command (`/flood 1000`) or a single word (`stream`) names a scenario; any other prompt
plays the one the agent was started for, or the showcase. It needs no network, no key and no
model, and says the same to the same prompts.
"""

import asyncio
import re
from collections.abc import Callable, Collection
from os import PathLike
from typing import Literal

from twofold.agent.agent import Agent
from twofold.agent.session import AgentSession
from twofold.agent.turn import Turn
from twofold.demo.faults import tell_early
from twofold.demo.scenarios import SCENARIOS
from twofold.demo.scene import Demo, Scenario, Scene
from twofold.demo.showcase import OPTIONS
from twofold.errors import LocalError
from twofold.peer.problems import Problem, Report, log
from twofold.rpc.errors import AUTH_REQUIRED, RequestError
from twofold.transport.base import Transport
from twofold.version import VERSION
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.content import TextContent

PATIENCE = 24 * 60 * 60.0
"""How long a turn that ignores a cancel may do so: it is meant to."""

_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)


class UnknownScenario(LocalError):
    """There is no scenario of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no scenario {name!r}: choose one of {', '.join(SCENARIOS)}.")
        self.name = name


def demo_agent(
    scenario: str | None = None,
    speed: float = 1.0,
    versions: Collection[Literal[1, 2]] = (1, 2),
    keep: str | PathLike[str] | None = None,
) -> Agent:
    """The demo agent; `scenario` is what any prompt plays, else it is the showcase.

    `speed` divides the pauses; at 0 there are none. `keep` is a directory for its sessions.
    """
    if scenario is not None and scenario not in SCENARIOS:
        raise UnknownScenario(scenario)
    if not speed >= 0:
        raise LocalError(f"The speed is 0 or more, not {speed}.")
    demo = Demo(scenario, speed, needs_login=scenario == "auth", early=scenario == "early-update")
    return _DemoAgent(demo, versions, keep)


class _DemoAgent(Agent):
    def __init__(
        self,
        demo: Demo,
        versions: Collection[Literal[1, 2]],
        keep: str | PathLike[str] | None,
    ) -> None:
        super().__init__(
            "twofold-demo",
            VERSION,
            title="Twofold demo agent",
            auth_methods=[v2.AuthMethodAgent("token", "Token", "Any token will do: none is asked")],
            keep=keep,
            versions=versions,
            new_session_id=self._new_session_id,
            cancel_timeout=PATIENCE,
            on_problem=_report_of(log),
        )
        self.demo = demo
        self._sessions = 0
        self.prompt(self._play)
        self.session(self._prepare)
        self.config_option(self._option_set)
        self.authenticate(self._log_in)
        self.logout(self._log_out)

    # ---- running

    def run(self) -> None:
        self.demo.alone = True
        super().run()

    async def serve(self, transport: Transport) -> None:
        if self.demo.scenario == "silent":
            await _listen(transport)
        else:
            await super().serve(transport)

    # ---- sessions

    def _new_session_id(self) -> str:
        if self.demo.needs_login and not self.demo.logged_in:
            raise RequestError(AUTH_REQUIRED, "Authentication required")
        self._sessions += 1
        while self.store.info(f"s{self._sessions}") is not None:
            self._sessions += 1
        return f"s{self._sessions}"

    async def _prepare(self, session: AgentSession) -> None:
        if self.demo.early:
            tell_early(session)
        await session.config_options(OPTIONS)
        await session.commands(COMMANDS)

    async def _option_set(self, session: AgentSession, config_id: str, value: str | bool) -> None:
        if session.version == 2:  # the answer says it, too; not every client looks there
            await session.config_options(session.state.config_options)

    async def _log_in(self, method_id: str) -> None:
        self.demo.logged_in = True

    async def _log_out(self) -> None:
        self.demo.logged_in = False

    # ---- prompts

    async def _play(self, turn: Turn) -> str | None:
        scenario, argument = chosen(turn, self.demo.scenario)
        return await scenario.play(Scene(self.demo, turn, argument))


def chosen(turn: Turn, start: str | None) -> tuple[Scenario, str]:
    """What a prompt plays, and what it says to it."""
    text = next((block.text for block in turn.blocks if isinstance(block, TextContent)), "").strip()
    command = _COMMAND.fullmatch(text)
    if command is not None:
        return SCENARIOS.get(command[1], _NO_SUCH), (command[2] or "").strip()
    if start is not None:
        return SCENARIOS[start], text
    return SCENARIOS.get(text, SCENARIOS["showcase"]), ""


async def _no_such(scene: Scene) -> None:
    known = "\n".join(f"- `/{each.name}` {each.summary}" for each in SCENARIOS.values())
    await scene.say("I do not know that command. ", f"These I know:\n\n{known}")


_NO_SUCH = Scenario("", "", _no_such)

COMMANDS = [
    v2.Command(each.name, each.summary, v2.TextCommandInput(each.hint) if each.hint else UNSET)
    for each in SCENARIOS.values()
]


def _report_of(report: Report) -> Callable[[Problem], None]:
    def but_losses(problem: Problem) -> None:
        if problem.kind != "loss":  # version 1 cannot say all of the showcase: that is known
            report(problem)

    return but_losses


class _Deaf:
    """Hears a client out, and says nothing (`Receiver`)."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    def received(self, data: bytes) -> None:
        """It is not looked at."""

    def ended(self, error: Exception | None) -> None:
        self.over.set()

    def pause_writing(self) -> None:
        """Nothing is written."""

    def resume_writing(self) -> None:
        """Nothing is written."""


async def _listen(transport: Transport) -> None:
    receiver = _Deaf()
    transport.start(receiver)
    try:
        await receiver.over.wait()
    finally:
        await transport.close()
