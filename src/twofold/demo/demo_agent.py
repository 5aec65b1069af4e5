"""The demo agent: an ordinary agent whose answers are scenarios.

A slash command (`/flood 1000`) or a single word (`stream`) names a scenario; any other prompt
plays the one the agent was started with, or the showcase. It needs no network, no key and no
model, and gives the same answers to the same prompts.
"""

import asyncio
import re
from collections.abc import Callable
from os import PathLike

from twofold.agent.agent import Agent, ProtocolVersions
from twofold.agent.session import AgentSession
from twofold.agent.turn import Turn
from twofold.demo.faults import send_early
from twofold.demo.scenarios import SCENARIOS
from twofold.demo.scene import Demo, Scenario, Scene
from twofold.demo.showcase import OPTIONS
from twofold.errors import LocalError
from twofold.peer.problems import Problem, Report, log
from twofold.rpc.errors import AUTH_REQUIRED, RequestError
from twofold.rpc.frames import LIMIT
from twofold.transport.base import Transport
from twofold.version import VERSION
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.content import TextContent

CANCEL_TIMEOUT = 24 * 60 * 60.0
"""How many seconds a turn may ignore a cancel: the scenario `ignore-cancel` is meant to."""

_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)


class UnknownScenario(LocalError):
    """There is no scenario of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no scenario {name!r}: choose one of {', '.join(SCENARIOS)}.")
        self.name = name


def demo_agent(
    scenario: str | None = None,
    speed: float = 1.0,
    protocol_versions: ProtocolVersions = (1, 2),
    keep: str | PathLike[str] | None = None,
    *,
    line_limit: int = LIMIT,
    on_problem: Report = log,
) -> Agent:
    """Make the demo agent.

    Args:
        scenario: What any prompt plays; by default the showcase.
        speed: Divides the pauses; at 0 there are none.
        protocol_versions: The versions of the protocol that it speaks.
        keep: A directory for its sessions.
        line_limit: How many bytes a line of a client may have.
        on_problem: Called with every problem but losses, which the showcase has in version 1.

    Raises:
        UnknownScenario: There is no such scenario.
        LocalError: The speed is below 0.
    """
    if scenario is not None and scenario not in SCENARIOS:
        raise UnknownScenario(scenario)
    if not speed >= 0:
        raise LocalError(f"The speed must be 0 or more, not {speed}.")
    demo = Demo(scenario, speed, needs_login=scenario == "auth", early=scenario == "early-update")
    return _DemoAgent(demo, protocol_versions, keep, line_limit, on_problem)


class _DemoAgent(Agent):
    def __init__(
        self,
        demo: Demo,
        protocol_versions: ProtocolVersions,
        keep: str | PathLike[str] | None,
        line_limit: int,
        on_problem: Report,
    ) -> None:
        super().__init__(
            "twofold-demo",
            VERSION,
            title="Twofold demo agent",
            auth_methods=[v2.AuthMethodAgent("token", "Token", "Any token will do: none is asked")],
            keep=keep,
            protocol_versions=protocol_versions,
            new_session_id=self._new_session_id,
            cancel_timeout=CANCEL_TIMEOUT,
            line_limit=line_limit,
            on_problem=_without_losses(on_problem),
        )
        self._demo = demo
        self._sessions = 0
        self.on_prompt(self._play)
        self.on_new_session(self._prepare)
        self.on_config_option(self._option_set)
        self.on_login(self._log_in)
        self.on_logout(self._log_out)

    # ---- running

    def run(self) -> None:
        self._demo.alone = True
        super().run()

    async def serve(self, transport: Transport) -> None:
        if self._demo.scenario == "silent":
            await _read_silently(transport)
        else:
            await super().serve(transport)

    # ---- sessions

    def _new_session_id(self) -> str:
        if self._demo.needs_login and not self._demo.logged_in:
            raise RequestError(AUTH_REQUIRED, "Authentication required")
        self._sessions += 1
        while self.store.info(f"s{self._sessions}") is not None:
            self._sessions += 1
        return f"s{self._sessions}"

    async def _prepare(self, session: AgentSession) -> None:
        if self._demo.early:
            send_early(session)
        await session.config_options(OPTIONS)
        await session.commands(COMMANDS)

    async def _option_set(self, session: AgentSession, config_id: str, value: str | bool) -> None:
        if session.protocol_version == 2:  # it is in the answer; not every client reads it there
            await session.config_options(session.state.config_options)

    async def _log_in(self, method_id: str) -> None:
        self._demo.logged_in = True

    async def _log_out(self) -> None:
        self._demo.logged_in = False

    # ---- prompts

    async def _play(self, turn: Turn) -> str | None:
        scenario, argument = chosen(turn, self._demo.scenario)
        return await scenario.play(Scene(self._demo, turn, argument))


def chosen(turn: Turn, start: str | None) -> tuple[Scenario, str]:
    """The scenario that a prompt plays, and the argument that the prompt gives it."""
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


def _without_losses(report: Report) -> Callable[[Problem], None]:
    def filtered(problem: Problem) -> None:
        if problem.kind != "loss":  # version 1 cannot express all of the showcase: that is known
            report(problem)

    return filtered


class _Silent:
    """Reads all that a client sends, and answers nothing (`Receiver`)."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    def received(self, data: bytes) -> None:
        """It is dropped."""

    def ended(self, error: Exception | None) -> None:
        self.over.set()

    def pause_writing(self) -> None:
        """Nothing is written."""

    def resume_writing(self) -> None:
        """Nothing is written."""


async def _read_silently(transport: Transport) -> None:
    receiver = _Silent()
    transport.start(receiver)
    try:
        await receiver.over.wait()
    finally:
        await transport.close()
