"""The updates of one session: read in the agent's version, applied to the state in version 2's.

Everything that belongs to the session passes through one inbox, in wire order. An update of an
agent that speaks version 1 is converted before it is applied. So is one in the client guide's
dialect, which an agent of version 1 may begin to send at any time: from then on the session is read
as that dialect.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from twofold.client.agent_peer import AgentPeer
from twofold.client.models import read_models
from twofold.client.watching import Watchers
from twofold.convert.drafts import lift
from twofold.convert.guide import GuideUpgrader
from twofold.convert.losses import Loss, Losses, carried
from twofold.convert.options import MODE
from twofold.convert.turns import Echo, failed_turn
from twofold.convert.upgrade import Upgrader, mode_id
from twofold.errors import LocalError, PeerError
from twofold.peer.problems import Problem, Report
from twofold.session import Session
from twofold.wire import codec, guide, v1, v2
from twofold.wire.base import Wire
from twofold.wire.content import ContentBlock
from twofold.wire.shared import Error

Chunk: TypeAlias = guide.AgentMessageChunk | guide.AgentThoughtChunk | guide.UserMessageChunk
Handled: TypeAlias = Awaitable[None] | None
Setup: TypeAlias = (
    v1.NewSessionResponse | v1.SessionSetup | v2.NewSessionResponse | v2.ResumeSessionResponse
)

LOSSES = 100
"""How many different losses of a session are reported."""

_CALLS = frozenset({v1.ToolCall, v1.ToolCallUpdate})
_GUIDE_STATUSES = frozenset({"running", "requires_permission"})


class Updates:
    """What one session receives, and the state that it adds up to."""

    def __init__(
        self, agent: AgentPeer, state: Session, *, own_terminals: bool, speaks_guide: bool
    ) -> None:
        self.session_id = session_id = state.session_id
        self.state = state
        """What the session looks like now; another object after it was loaded again."""
        self.inbox = agent.new_inbox(session_id)
        self.watchers = Watchers(session_id, agent.report)
        self.closed = False
        self._why: Exception | None = None
        """Why the session is closed, if its agent is gone."""
        self._end = asyncio.Event()
        self._report = agent.report
        self._own_terminals = own_terminals
        self.upgrader: Upgrader | None = None
        """Converts what an agent of version 1 sends; None for version 2."""
        self.models: v2.SessionConfigSelect | None = None
        """The models of an agent that has no config option for them (see `models`)."""
        self._drifted: Upgrader | None = None
        """Converts version 1's updates of an agent that claims version 2."""
        self._guide: _GuideReader | None = None
        self._intercepted: dict[type, Callable[[Any], Handled]] = {
            v2.ToolCallUpdate: self._lift,
            v2.ToolCallContentChunk: self._lift,
            v2.PlanUpdate: self._lift,
            v2.AvailableCommandsUpdate: self._lift,
        }
        self.take: Callable[[Any], Handled] = self._take_v2
        """Applies one update in the agent's version; called for every update of the session."""
        if agent.description.protocol_version == 1:
            self.upgrader = self._new_upgrader()
            self.take = self._take_v1
        if speaks_guide:
            self.speak_guide()

    def close(self, why: Exception | None) -> None:
        """Mark the session as closed; later calls raise `why`, if there is an error."""
        self.closed = True
        self._why = why
        self._end.set()

    async def wait_closed(self) -> None:
        """Wait until the session is closed; raises the error, if there is one."""
        await self._end.wait()
        if self._why is not None:
            raise self._why.with_traceback(None)

    def check_open(self) -> None:
        """Raise if the session is closed."""
        if self._why is not None:
            raise self._why.with_traceback(None)  # raised again and again, it would only grow
        if self.closed:
            raise LocalError(
                f"The session {self.session_id} is closed: load it again, or make a new one."
            )

    def _new_upgrader(self) -> Upgrader:
        losses = _ReportedLosses(self.session_id, self._report)
        # the state may go on from an earlier process of the agent: no message id is made up twice
        begun = len(self.state.entries)
        prefix = f"v1:{begun}" if begun else "v1"
        return Upgrader(losses, own_terminals=self._own_terminals, prefix=prefix)

    # ---- version 2

    def intercept(self, kind: type, handle: Callable[[Any], Handled]) -> None:
        """Have `handle` apply the updates of this type of an agent that speaks version 2."""
        self._intercepted[kind] = handle

    def _take_v2(self, update: v2.SessionUpdate) -> Handled:
        handle = self._intercepted.get(type(update))
        return self.apply(update) if handle is None else handle(update)

    def _lift(self, update: v2.SessionUpdate) -> Handled:
        return self.apply(lift(update))

    def take_drifted(self, update: v1.SessionUpdate) -> Handled:
        """Apply an update of version 1 of an agent that claims version 2."""
        if self._drifted is None:
            self._drifted = self._new_upgrader()
            text = "The agent claims version 2 of the protocol, and sends updates of version 1"
            self._report(Problem("version", text, self.session_id))
        return self.apply_all(self._drifted.update(update))

    # ---- version 1

    def _take_v1(self, update: v1.SessionUpdate) -> Handled:
        upgrader = self.upgrader
        assert upgrader is not None
        plain = upgrader.plain(update)
        if plain is not None:
            return self.apply(plain)
        if type(update) in _CALLS and _has_guide_status(update):
            return self._take_v1_as_guide(update)
        return self.apply_all(upgrader.update(update))

    # ---- the client guide's dialect

    @property
    def speaks_guide(self) -> bool:
        """Whether updates are read in the client guide's dialect."""
        return self._guide is not None

    def speak_guide(self) -> None:
        """Read updates in the client guide's dialect from now on."""
        if self._guide is None:
            self._guide = self._new_guide_reader()
            self.take = self._take_v1_as_guide

    def take_guide(self, update: guide.SessionUpdate) -> Handled:
        """Apply an update that was read in the client guide's dialect."""
        if self._guide is None:
            self.speak_guide()
            text = "The agent sends updates in the dialect of the client guide: read as such"
            self._report(Problem("version", text, self.session_id))
        return self.apply_all(self._guide.read(update)) if self._guide is not None else None

    def _new_guide_reader(self) -> "_GuideReader":
        assert self.upgrader is not None  # the dialect begins with version 1's handshake
        return _GuideReader(self.upgrader, _ReportedLosses(self.session_id, self._report))

    def _take_v1_as_guide(self, update: v1.SessionUpdate) -> Handled:
        return self.take_guide(codec.read(codec.to_json(update), guide.SessionUpdate))

    # ---- the state

    def apply(self, update: v2.SessionUpdate) -> Handled:
        """Apply one update and pass it on; an awaitable if a handler has to be awaited."""
        watchers = self.watchers
        changes = self.state.apply(update)
        if watchers.listeners:
            watchers.changed(changes)
        return watchers.handle(update) if watchers.handlers else None

    def apply_all(self, updates: Sequence[v2.SessionUpdate]) -> Handled:
        """Apply the updates that one message was converted to; each may fail on its own."""
        if len(updates) == 1:
            return self.apply(updates[0])
        applied = []
        for update in updates:
            try:
                self.watchers.changed(self.state.apply(update))
            except PeerError as error:
                self._report(Problem("update", str(error), self.session_id, error))
            else:
                applied.append(update)
        return self.watchers.handle_all(applied) if self.watchers.handlers else None

    def prompted(self, blocks: list[ContentBlock]) -> Handled:
        """A prompt was sent: show that work has begun, before the agent reports it."""
        if self.upgrader is None:
            self.watchers.changed(self.state.prompted())
            return None
        if self._guide is not None:
            self._guide.prompted(blocks)
        return self.apply_all(self.upgrader.prompt(blocks))

    def finished(self, response: v1.PromptResponse) -> v2.StateUpdate:
        """The idle state for the answer of an agent of version 1 to a prompt."""
        assert self.upgrader is not None
        if self._guide is not None:
            self._guide.finished()
        return self.upgrader.finished(response)

    def failed(self, error: Error) -> v2.StateUpdate:
        """The idle state for an error with which an agent of either version answered a prompt."""
        cancelling = self.state.cancelling
        if self.upgrader is None:
            return failed_turn(error, cancelling=cancelling)
        if self._guide is not None:
            self._guide.finished()
        return self.upgrader.failed(error, cancelling=cancelling)

    # ---- the answers to new, load and resume

    def set_up(self, outcome: Setup) -> Handled:
        """Apply the settings and commands in the answer to new, load or resume."""
        updates: list[v2.SessionUpdate] = []
        if isinstance(outcome, v2.NewSessionResponse | v2.ResumeSessionResponse):
            if outcome.config_options:
                updates.append(v2.ConfigOptionUpdate(outcome.config_options))
            if outcome.available_commands:
                updates.append(lift(v2.AvailableCommandsUpdate(outcome.available_commands)))
        elif self.upgrader is not None:
            self.models = read_models(outcome) or self.models
            if outcome.modes or outcome.config_options:  # an answer without settings changes none
                self.upgrader.setup(outcome)
                updates.append(v2.ConfigOptionUpdate(self.upgrader.config_options))
        return self.apply_all(updates) if updates else None

    def replayed(self) -> None:
        """All of a replay was applied."""
        self.watchers.changed(self.state.replayed())

    def start_over(self) -> Callable[[], None]:
        """Drop, in wire order, what a replay is about to send again.

        Returns:
            A function that restores it, for a replay that the agent refused.
        """
        before = self.state, self.upgrader, self._drifted, self._guide
        begun = False

        def drop(_: None) -> None:
            nonlocal begun
            begun = True
            self.state = self.state.without_transcript()
            self._drifted = None
            if self.upgrader is not None:
                self.upgrader = self.upgrader.replayed()
            if self._guide is not None:
                self._guide = self._new_guide_reader()

        def restore() -> None:
            if begun:
                self.state, self.upgrader, self._drifted, self._guide = before

        self.inbox.put(drop, None)
        return restore

    # ---- settings

    def mode_was_set(self, mode: str) -> Handled:
        """Apply a mode that the agent accepted by `session/set_mode`."""
        if self._guide is not None:
            return self.apply_all(self._guide.mode_set(guide.SessionMode(mode)))
        return self.apply_all(self.upgrader.mode_set(mode)) if self.upgrader is not None else None

    def options_were_set(
        self, outcome: v1.SetSessionConfigOptionResponse | v2.SetSessionConfigOptionResponse
    ) -> Handled:
        """Apply the options that the agent answered with."""
        if isinstance(outcome, v2.SetSessionConfigOptionResponse):
            options = outcome.config_options
            if self.upgrader is not None:
                options = self.upgrader.options_set(outcome)
            return self.apply_all([v2.ConfigOptionUpdate(options)])
        if self.upgrader is None:
            return None
        return self.apply_all(self.upgrader.update(v1.ConfigOptionUpdate(outcome.config_options)))


def _has_guide_status(call: Any) -> bool:
    """Whether a tool call of version 1, which reads any status, has one that only the guide has."""
    return call.status in _GUIDE_STATUSES


class _GuideReader:
    """Reads a session in the client guide's dialect.

    The dialect has version 1's requests and answers. So the session's `Upgrader` reads those, and
    holds the modes and config options of both.
    """

    def __init__(self, upgrader: Upgrader, losses: Losses) -> None:
        self._upgrader = upgrader
        self._losses = losses
        self._guide = GuideUpgrader(losses)
        self._modes: dict[str, guide.SessionMode] = {}
        """The modes that updates described: version 1's updates have only an id."""
        self._echo = Echo()
        self._open: type[guide.ContentChunk] | None = None
        self._opened = 0
        self._calls: set[str] = set()

    def prompted(self, blocks: list[ContentBlock]) -> None:
        """A prompt was sent: it ends the open message, and its echo may follow."""
        self._open = None
        self._echo.expect(blocks)

    def finished(self) -> None:
        """The turn has ended: no echo follows any more."""
        self._echo.forget()

    def read(self, update: guide.SessionUpdate) -> list[v2.SessionUpdate]:
        """The updates of version 2 for one of the dialect."""
        match update:
            case guide.UserMessageChunk() if self._echo.swallows(update.content):
                return []
            case guide.AgentMessageChunk() | guide.AgentThoughtChunk() | guide.UserMessageChunk():
                return self._guide.update(self._named(update))
            case guide.ToolCall() | guide.ToolCallUpdate():
                if update.tool_call_id not in self._calls:
                    self._calls.add(update.tool_call_id)
                    self._open = None  # as in version 1, a new tool call ends the open message
                if update.title:  # version 1's permission requests often have only the id
                    titled = v1.ToolCallUpdate(update.tool_call_id, title=update.title)
                    self._upgrader.update(titled)
            case guide.CurrentModeUpdate():
                return self.mode_set(update.current_mode, update)
            case guide.BareCurrentModeUpdate():
                return self.mode_set(guide.SessionMode(update.current_mode), update)
            case v1.CurrentModeUpdate() | v1.DocumentedCurrentModeUpdate():
                return self.mode_set(guide.SessionMode(mode_id(update)), update)
        lifted = self._guide.update(update)
        for at, each in enumerate(lifted):
            if isinstance(each, v2.ConfigOptionUpdate):
                self._upgrader.options_set(v2.SetSessionConfigOptionResponse(each.config_options))
                lifted[at] = replace(each, config_options=self._options())
        return lifted

    def _named(self, chunk: Chunk) -> Chunk:
        """The chunk with a message id if it has neither that nor an index.

        As in version 1, such a message goes on until something else comes between.
        """
        if chunk.message_id or isinstance(chunk.index, int | float):
            self._open = None
            return chunk
        if self._open is not type(chunk):
            self._open = type(chunk)
            self._opened += 1
        return replace(chunk, message_id=f"guide:open:{self._opened}")

    def mode_set(
        self, mode: guide.SessionMode, update: Wire | None = None
    ) -> list[v2.SessionUpdate]:
        """The mode of the session is another; `update` is the update with that news."""
        if mode.name:
            self._modes[mode.id] = mode
        self._upgrader.mode_chosen(mode.id)
        rest = carried(update, v2.ConfigOptionUpdate, self._losses, "update") if update else {}
        return [v2.ConfigOptionUpdate(self._options(), **rest)]

    def _options(self) -> list[v2.SessionConfigOption]:
        options = self._upgrader.config_options
        if not self._modes or not self._upgrader.is_made_mode(MODE):
            return options
        modes = options[0]  # the option that was made of the modes comes first
        if not isinstance(modes, v2.SessionConfigSelect):
            return options
        return [replace(modes, options=[*map(self._described, modes.options)]), *options[1:]]

    def _described(self, choice: Any) -> Any:
        mode = self._modes.get(choice.value)
        if mode is None:
            return choice
        return replace(choice, name=mode.name or choice.name, description=mode.description)


class _ReportedLosses(Losses):
    """Reports every loss once, and keeps none."""

    def __init__(self, session_id: str, report: Report) -> None:
        super().__init__()
        self._session_id = session_id
        self._report_problem = report
        self._reported: set[Loss] = set()

    def report(self, path: str, reason: str) -> None:
        loss = Loss(path, reason)
        if loss not in self._reported and len(self._reported) < LOSSES:
            self._reported.add(loss)
            text = f"Part of an update was lost: {path}: {reason}"
            self._report_problem(Problem("loss", text, self._session_id))
