"""One session that a host has open: an agent's process, its state, and any number of observers.

There is one fold, one writer and one live view. Observers never fold: they are given frames, at
most sixty a second and only when something changed, and facts, which are values beside the blocks.
Controllers prompt, answer and cancel through the methods here. Prompts are sent one after the
other, in the order of the queue. Nothing is allowed by default. When the agent dies nothing stays
pending: questions are settled, the turn has ended with an error, and what is queued is held.

What happens is written to a log. With a log that keeps it, a session outlives its host: it is cold
until somebody sends a prompt, and then its agent is started and resumes it.
"""

import asyncio
import os
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from twofold.client.client import Client
from twofold.client.incoming import NewState
from twofold.client.known_sessions import NotReopened, shortened
from twofold.client.launch import RecentStderr
from twofold.client.login import others, wants_login, ways
from twofold.client.mentions import missing, no_file, parts_of
from twofold.client.permissions import Ask, Question
from twofold.client.prompt_blocks import Part
from twofold.client.prompting import Reply
from twofold.client.session import ClientSession
from twofold.client.session_setup import SessionSetup
from twofold.client.watching import RATE, ChangeCallback, Subscription
from twofold.errors import ConnectionEnded, LocalError, NotSupported, PeerError, TwofoldError
from twofold.host.call_times import CallTime, CallTimes, Now
from twofold.host.prompt_queue import PromptQueue, QueuedPrompt
from twofold.host.questions import OpenQuestion, Questions
from twofold.host.recovery import Recovery, kept_blocks
from twofold.host.search import search
from twofold.host.sent_prompts import SentPrompts
from twofold.host.session_facts import (
    LONGEST_NAME,
    Control,
    Fact,
    capabilities,
    commands,
    controls,
    plan,
    usage,
)
from twofold.host.session_log import NO_LOG, SessionLog, SessionWriter
from twofold.peer.problems import Problem, Report, described, log
from twofold.policy import Decided
from twofold.rpc.errors import RequestFailed
from twofold.session import Message, Session, ToolCall
from twofold.session.changes import (
    Change,
    Changes,
    CommandsChanged,
    ConfigChanged,
    EntryAdded,
    InfoChanged,
    PermissionChanged,
    PlanChanged,
    StateChanged,
    UsageChanged,
)
from twofold.session.inputs import Applied, Input, LoggedSession
from twofold.text import one_line, sanitize
from twofold.view.blocks import RemarkBlock
from twofold.view.live import Frame, Key, Live, LiveBlock
from twofold.view.outline import STOP_REASONS
from twofold.wire import v2
from twofold.wire.shared import PermissionOption

State: TypeAlias = Literal["starting", "running", "waiting", "idle", "cold", "failed"]
OnFrame: TypeAlias = Callable[[Frame], None]

GIVE_UP: Final = 10.0
"""How many seconds an agent has to end a turn that was cancelled."""
QUEUED: Final = 100
"""How many prompts may be queued."""
HELD: Final = "A turn was cancelled or failed before this prompt was sent, so it was not sent."
MOST_PROBLEMS: Final = 50
"""How many problems are shown."""
LONGEST_TEXT: Final = 200_000
"""How many characters of a turn a search over all sessions looks at."""
_PLAIN: Final = SessionSetup()
_FACTS: Final[tuple[str, ...]] = (
    *("session", "queue", "questions", "answered"),
    *("controls", "commands", "usage", "plan", "problems"),
)
_CHANGED_BY: Final[dict[type, tuple[str, ...]]] = {
    CommandsChanged: ("commands",),
    ConfigChanged: ("controls",),
    InfoChanged: ("session",),
    PermissionChanged: ("session", "questions", "answered"),
    PlanChanged: ("plan",),
    StateChanged: ("session",),
    UsageChanged: ("usage",),
}


class InputObserver(Protocol):
    """Follows what is done to a session, in order, once it may be shown."""

    def inputs(self, given: Sequence[Input]) -> None:
        """These were done to `live.session`."""

    def replaced(self) -> None:
        """Another session took the place of `live.session`: it holds what came before."""

    def facts_changed(self) -> None:
        """Facts may have changed; called at most sixty times a second."""

    def ended(self) -> None:
        """The session was closed."""


class StartsAgent(Protocol):
    """Starts the agent of a session, once: a `Launch`."""

    stderr: RecentStderr

    def client(
        self, *, ask: Ask | None = None, on_problem: Report = log, new_state: NewState = Session
    ) -> AbstractAsyncContextManager[Client]:
        """Start the agent and connect to it, in a block."""

    def hurry(self) -> None:
        """End the agent without waiting for it to end by itself."""


class NotRunning(LocalError):
    """The agent of the session does not run, or not yet."""

    def __init__(self, state: State) -> None:
        words = "is being started. Wait until it has answered."
        if state == "failed":
            words = "has ended. Start it again first."
        if state == "cold":
            words = "does not run. Send a prompt, which starts it again."
        super().__init__(f"The agent of this session {words}")


class HostedSession:
    """One session, with its agent.

    Args:
        agent_name: What the agent is called: its name in the settings, or its command.
        cwd: The directory that the session works in.
        launch: Makes what starts the agent, for each start of it.
        command: The command that is started, for errors.
        log_in: The command with which a person logs in at the terminal.
        setup: What a new session begins with.
        resume: The id, of the agent, of a session to resume instead.
        on_change: Called when something changed that a list of sessions shows.
        queued: How many prompts may be queued.
        give_up: How many seconds an agent has to end a turn that was cancelled.
        log: Where it is written what happens.
        identity: Its id at its host; by default one is made.
        read: Reads the log of a session of an earlier host, which is cold; it is called when
            somebody needs more than the facts of a list.
        may_start: Called before the agent of a cold session is started; raises if it may not be.
        idle_after: After how many seconds without work the agent is ended, if the session can be
            resumed; None for never.
    """

    def __init__(
        self,
        agent_name: str,
        cwd: Path,
        launch: Callable[[], StartsAgent],
        *,
        command: Sequence[str] = (),
        log_in: str = "",
        setup: SessionSetup = _PLAIN,
        resume: str | None = None,
        on_change: Callable[[], None] = lambda: None,
        queued: int = QUEUED,
        give_up: float = GIVE_UP,
        log: SessionLog = NO_LOG,
        identity: str | None = None,
        read: Callable[["HostedSession"], Awaitable[Recovery]] | None = None,
        may_start: Callable[[], None] = lambda: None,
        idle_after: float | None = None,
    ) -> None:
        self.id = identity or secrets.token_urlsafe(12)
        """Identifies it at its host; it is not the id that the agent gave it."""
        self.epoch = secrets.token_urlsafe(6)
        """Another one if `live` is: then observers have to begin again."""
        self.agent_name = agent_name
        self.cwd = cwd
        self.failure: str | None = None
        """Why it failed, in words, with the end of the agent's standard error."""
        self.last_activity = time.time()
        """When something happened last that a person did or waits for (Unix time)."""
        self.first_words = ""
        """What was sent first, on one line."""
        self.agent_session: str | None = resume
        """The id that the agent gave the session; None if there is none yet."""
        self.on_first_prompt: Callable[[], None] = lambda: None
        self._resumed = resume is not None
        self._title = ""
        self._launch = launch
        self._command = list(command)
        self._log_in = log_in
        self._setup = setup
        self._on_change = on_change
        self._give_up = give_up
        self.log = log
        """Where it is written what happens."""
        self.listed_title = ""
        """The title as lists show it, until the log is read."""
        self._writer = SessionWriter(log, self._on_kept, self._lose_log)
        self._writer.is_paused = read is not None
        self._read = read
        self._reading: asyncio.Task[None] | None = None
        self._may_start = may_start
        self._idle_after = idle_after
        self._cooling: asyncio.TimerHandle | None = None
        self._cold = read is not None
        self._can_resume = False
        self._lost = False
        self._turned_away = False
        """An observer asked for a frame meanwhile."""
        self._state = LoggedSession("", self._on_input)
        self._resuming: str | None = None
        """The session that is resumed without a replay: its state goes on."""
        self._live = self._new_live(self._state, 0)
        self._times = CallTimes(self._state)
        self._changed_calls: set[Key] = set()
        """The tool calls that have changed since the last frame."""
        self._framed = self._live.seq
        self._frames = ChangeCallback(lambda _: self._make_frame(), RATE)
        self._making = False
        self._observers: list[OnFrame] = []
        self._input_observers: list[InputObserver] = []
        self._unshown: list[Input] = []
        """What was done and is still to be kept before it is shown."""
        self._is_other = False
        """Another session took the place of the one that was shown, before `_unshown`."""
        self._facts: dict[str, tuple[int, Fact]] = {}
        self._stale: set[str] = set(_FACTS)
        self._questions = Questions(
            lambda: self._touch("questions", "answered", "session"),
            self._decisions,
            self._writer.answer,
            self._writer.answered,
        )
        self._queue = PromptQueue(queued)
        self._sent = SentPrompts()
        self._wake = asyncio.Event()
        self._problems: deque[Fact] = deque(maxlen=MOST_PROBLEMS)
        self._client: Client | None = None
        self._session: ClientSession | None = None
        self._starter: StartsAgent | None = None
        self._turn: _Turn | None = None
        self._senders: set[str] = set()
        self._run: asyncio.Task[None] | None = None
        self._runs: set[asyncio.Task[None]] = set()  # an agent that has failed may still be ending
        self._closing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._make_facts()

    # ---- what it is

    @property
    def live(self) -> Live:
        """The live view; another one, as `epoch` is, after the agent has started."""
        return self._live

    @property
    def roots(self) -> list[str]:
        """The directories that the session may touch; the first is where it works."""
        return self._session.roots if self._session is not None else [str(self.cwd)]

    @property
    def title(self) -> str:
        """The title that a person or the agent gave it, or what was sent first."""
        if self._read is not None and self.listed_title:
            return self.listed_title
        given = self._title or shortened(self._live.session.title or "", LONGEST_NAME)
        return given or shortened(self.first_words, LONGEST_NAME) or "New session"

    @property
    def state(self) -> State:
        """What it does now."""
        if self.failure is not None:
            return "failed"
        if self._cold:
            return "cold"
        if self._session is None:
            return "starting"
        if len(self._questions):
            return "waiting"
        working = self._turn is not None or self._live.session.state != "idle"
        return "running" if working else "idle"

    @property
    def words(self) -> str:
        """What is going on, on one line: the question that waits, why it failed, or the prompt."""
        if self.failure is not None:
            return shortened(self.failure.partition("\n")[0], LONGEST_NAME)
        return shortened(self._questions.title or self.first_words, LONGEST_NAME)

    @property
    def is_running(self) -> bool:
        """Whether there is an agent's process, or one that is being started or ended."""
        return bool(self._runs)

    @property
    def is_used(self) -> bool:
        """Whether a prompt was entered since it began."""
        return bool(self.first_words or len(self._queue) or self._turn is not None)

    @property
    def prompt_capabilities(self) -> Fact:
        """What prompts may contain beside text and links, as long as the agent runs."""
        return capabilities(self._session.prompt_capabilities if self._session else None)

    def rename(self, title: str) -> None:
        """Give it a title; the agent is not sent it, because ACP has no way to. Empty: none."""
        self._title = shortened(title, LONGEST_NAME)
        self._touch("session")

    @property
    def own_title(self) -> str:
        """The title that a person gave it; empty if nobody did."""
        return self._title

    # ---- observing

    def subscribe(self, on_frame: OnFrame) -> Subscription:
        """Call `on_frame` with what changed since the frame before.

        It is called at most sixty times a second, only when a block or a fact has changed. The
        `facts` that are newer than the frame before belong to it. After `epoch` has changed,
        observers have to begin again: the frame does not hold the blocks that are others then.
        """
        self._observers = [*self._observers, on_frame]

        def cancel() -> None:
            self._observers = [each for each in self._observers if each is not on_frame]

        return Subscription(cancel)

    def observe_inputs(self, observer: InputObserver) -> Subscription:
        """Call `observer` with what is done to `live.session` from now on.

        What is not kept yet has been done to it already: wait for `shown` first.
        """
        self._input_observers = [*self._input_observers, observer]

        def cancel() -> None:
            self._input_observers = [each for each in self._input_observers if each is not observer]

        return Subscription(cancel)

    async def shown(self) -> None:
        """Return once all that was done to the session may be shown."""
        while self._writer.is_keeping:
            with suppress(LocalError):  # then the session has failed, and shows it
                await self._writer.kept()
            await asyncio.sleep(0)

    @property
    def watchers(self) -> int:
        """How many observe its frames."""
        return len(self._observers)

    @property
    def is_keeping(self) -> bool:
        """Whether something must be kept before it is shown: a frame follows once it is."""
        self._turned_away = self._turned_away or self._writer.is_keeping
        return self._writer.is_keeping

    def flush(self) -> None:
        """Make the frame that is pending now."""
        if self._session is not None:
            self._session.flush_changes()
        self._frames.flush()
        if self._writer.is_keeping:
            self._make_frame(now=True)

    def frame(
        self, since: int | None = None, window: tuple[int, int | None] | None = None
    ) -> Frame:
        """What changed since a frame, for an observer that begins or is behind.

        The frame that is pending is made first, so that later frames continue this one.

        Args:
            since: The `seq` of the last frame that was seen; None for an observer that begins.
            window: The first place and the place after the last, or None to follow the end. The
                frame has only blocks of these places and those without a place. Default: all.
        """
        self.flush()
        return self._live.frame(since) if window is None else self._live.window(since, *window)

    def facts(self, since: int | None = None) -> dict[str, Fact]:
        """The facts that have changed since a frame; all of them for an observer that begins."""
        last = -1 if since is None else since
        return {name: value for name, (seq, value) in self._facts.items() if seq > last}

    @property
    def seq(self) -> int:
        """The `seq` of the last frame."""
        return self._framed

    @property
    def count(self) -> int:
        """How many places there are."""
        return len(self._live.places)

    def at(self, key: Key) -> int | None:
        """The place of a block; None if it has none."""
        return self._live.at(key)

    def call_time(self, key: Key) -> CallTime | None:
        """How long the tool call of a block has taken; None if that is not known."""
        return self._times.of(key)

    async def search(self, text: str, limit: int = 100) -> list[Fact]:
        """The places of the blocks in which a text occurs, whatever its case, with excerpts."""
        return await search(self._live, text, limit)

    def _touch(self, *facts: str) -> None:
        """Facts may have changed: the next frame has them."""
        self._stale.update(facts)
        self._soon()

    def _soon(self) -> None:
        if not self._making:
            self._frames.soon()

    def _changed(self, changes: Sequence[Change]) -> None:
        """The session has changed."""
        for change in {type(each) for each in changes}:
            self._stale.update(_CHANGED_BY.get(change, ()))
        touched = self._live.take(changes)
        self._changed_calls.update(filter(self._is_call, touched))
        if self._questions.refresh(frozenset(touched)):
            self._stale.add("questions")
        self._soon()

    def _is_call(self, key: Key) -> bool:
        return key.kind == "entry" and isinstance(
            self._live.session.entries[int(key.identity)], ToolCall
        )

    def _make_frame(self, *, now: bool = False) -> None:
        if self._writer.is_keeping and not now:
            return  # it is made once everything is kept
        self._making = True
        try:
            if self._session is not None:
                self._session.flush_changes()
            self._questions.note_decisions()
            changed = self._make_facts()
            # blocks that nobody looks at are not made, but for tool calls, whose time is noted
            calls, self._changed_calls = self._changed_calls, set()
            made = self._live.frame(self._framed, None if self._observers else calls)
            self._times.note(made.put, Now(asyncio.get_running_loop().time(), time.time()))
            frame = made if self._observers else None
            self._framed = self._live.seq
        finally:
            self._making = False
        if "session" in changed or "questions" in changed:
            self._on_change()
            self._watch_idle()
        for each in self._input_observers:
            _call(each.facts_changed)
        turned_away, self._turned_away = self._turned_away, False
        if frame is None or not (changed or frame.put or frame.grow or frame.gone or turned_away):
            return
        for observer in self._observers:
            _call(partial(observer, frame))

    def _make_facts(self) -> set[str]:
        """Make the facts that may have changed; returns those that have."""
        made: dict[str, Fact] = {name: self._fact(name) for name in _FACTS if name in self._stale}
        self._stale.clear()
        changed: set[str] = {
            name
            for name, value in made.items()
            if name not in self._facts or self._facts[name][1] != value
        }
        if changed and self._live.seq <= self._framed:
            self._live.take(())  # a number of its own for the frame
        for name in changed:
            self._facts[name] = self._live.seq, made[name]
        return changed

    # ---- facts

    def _fact(self, name: str) -> Fact:
        state = self._live.session
        match name:
            case "session":
                return self._session_fact()
            case "queue":
                return [
                    {
                        "item": each.item,
                        "text": each.text,
                        "attachments": each.attachments,
                        "by": each.by,
                        "held": each.held,
                    }
                    for each in self._queue
                ]
            case "questions":
                return self._questions.facts
            case "answered":
                return self._questions.answered
            case "controls":
                return [control.fact for control in self._controls()]
            case "commands":
                return commands(state)
            case "usage":
                return usage(state)
            case "plan":
                return plan(state)
        return list(self._problems)

    def _session_fact(self) -> Fact:
        state = self.state
        return {
            "id": self.id,
            "epoch": self.epoch,
            "agent": self.agent_name,
            "title": self.title,
            "cwd": str(self.cwd),
            "state": state,
            "failure": self.failure,
            "since": self._turn.since if self._turn is not None else None,
            "canPrompt": state != "failed",
            "capabilities": self.prompt_capabilities,
        }

    def _controls(self) -> list[Control]:
        models = self._session.models if self._session is not None else None
        return controls(self._live.session, models)

    # ---- steering

    def prompt(self, parts: Sequence[Part], by: str = "") -> str:
        """Queue a prompt, which is sent when the turn that goes on has ended.

        Args:
            parts: Text, paths of files, content blocks. A file that a text mentions (`@path`) is
                sent with it.
            by: Who sends it.

        Returns:
            Its id in the queue.

        Raises:
            NotRunning: The agent has ended.
            QueueFull: Too much is queued.
            LocalError: There is no content.
        """
        self._check_read()
        if self.failure is not None:
            raise NotRunning("failed")
        if self._cold:
            self._may_start()
        item = self._queue.add(parts, by)
        self._queue_changed()
        if self._cold:
            self.start()
        return item

    async def kept(self) -> None:
        """Return once everything that was done is kept, as far as this session keeps anything.

        Raises:
            LocalError: It cannot be kept; then the session fails.
        """
        await self._writer.kept()

    def when_sent(self, item: str) -> "asyncio.Future[str]":
        """The id of the user message that a queued prompt becomes, once the agent has it.

        The id is empty if the agent worked on the prompt and showed no message for it.

        Returns:
            A future. It raises `NotSent` if the prompt is held or removed, and a `PeerError` if
            the agent refuses it.
        """
        return self._sent.wait(item)

    def edit_queued(self, item: str, text: str) -> None:
        """Replace what was typed in a queued prompt; raises `NotQueued`."""
        self._queue.edit(item, text)
        self._queue_changed()

    def remove_queued(self, item: str) -> None:
        """Remove a queued prompt; raises `NotQueued`."""
        self._queue.remove(item)
        self._queue_changed()

    def send_queued(self, item: str) -> None:
        """Hold a queued prompt no longer; raises `NotQueued`, or `NotRunning`."""
        self._check_read()
        if self.failure is not None:
            raise NotRunning("failed")
        if self._cold:
            self._may_start()
        self._queue.send(item)
        self._queue_changed()
        if self._cold:
            self.start()

    def _queue_changed(self) -> None:
        self._wake.set()
        self._active("queue")

    def _active(self, *facts: str) -> None:
        self.last_activity = time.time()
        if "queue" in facts:
            self._writer.queue(list(self._queue))
            working = self._turn.prompt.item if self._turn is not None else None
            self._sent.check(self._queue, working, self.failure or HELD)
        self._touch("session", *facts)

    def cancel(self, by: str = "") -> None:
        """Cancel the turn; what is queued now is held, and questions are settled.

        It does not wait: an agent that does not end the turn in time is given up. Without a turn
        or a question it does nothing.
        """
        session, turn = self._session, self._turn
        if session is None or self.state not in ("running", "waiting"):
            return
        self._queue.hold()
        self._questions.cancel()
        if turn is not None and turn.cancelled_by is None:
            turn.cancelled_by = by
            turn.sent = session.in_turn
        self._active("queue")
        self._spawn(self._cancel(session))

    async def _cancel(self, session: ClientSession) -> None:
        cancelling = asyncio.ensure_future(session.cancel(self._give_up))
        await asyncio.sleep(0)  # it is sent by then
        if session is self._session:
            session.flush_changes()
            self._live.take_cancel()
            self._soon()
        await cancelling

    def answer(self, question: str, option: str, by: str = "", reason: str = "") -> None:
        """Answer a question: the first answer counts.

        Args:
            question: The id of the question.
            option: The id of the option, as the question shows it.
            by: Who answers.
            reason: Why it is rejected: sent as the next prompt, before what is queued.

        Raises:
            AlreadyAnswered: Somebody else did before.
            NoSuchQuestion: It does not wait for an answer, or has no such option.
            QueueFull: There is no room for the reason; the question still waits.
            LocalError: There is a reason, and the option does not reject.
        """
        reason = reason.strip()
        self._check_read()
        item = self._queue.add([reason], by, is_reason=True) if reason else None
        try:
            self._questions.answer(question, option, by, reason)
        except LocalError:
            if item is not None:
                self._queue.remove(item)
            raise
        self._queue_changed()

    @property
    def open_questions(self) -> list[OpenQuestion]:
        """The questions that are shown, as the agent asked them."""
        return self._questions.open

    async def set_option(self, identity: str, value: str | bool) -> None:
        """Set one of the controls, by the ids of the fact `controls`.

        Raises:
            NotRunning: The agent does not run.
            LocalError: There is no such control, or it has no such value.
            RequestFailed: The agent refused.
        """
        session = self._open_session()
        control = next((each for each in self._controls() if each.identity == identity), None)
        if control is None:
            raise LocalError("The session has no such setting any more.")
        if isinstance(control.option, v2.SessionConfigBoolean) != isinstance(value, bool):
            raise LocalError("This setting has values of another type.")
        chosen = value
        if isinstance(value, str):
            if value not in control.choices:
                raise LocalError("This setting has no such value any more.")
            chosen = control.choices[value].value
        if control.kind == "model":
            await session.set_model(str(chosen))
        else:
            await session.set_config_option(control.option.config_id, chosen)
        self._active("controls")

    async def set_config_option(self, config_id: str, value: str | bool) -> None:
        """Set one of the config options, by the ids of the agent; raises what `set_option` does."""
        self._open_session()
        for control in self._controls():
            if control.option.config_id == config_id:
                chosen = next(
                    (name for name, each in control.choices.items() if each.value == value), value
                )
                await self.set_option(control.identity, chosen)
                return
        raise LocalError("The session has no such setting.")

    async def set_mode(self, mode: str) -> None:
        """Choose a mode, by its id in the fact `controls`; raises what `set_option` does."""
        await self._set_first("mode", mode)

    async def set_model(self, model: str) -> None:
        """Choose a model, by its id in the fact `controls`; raises what `set_option` does."""
        await self._set_first("model", model)

    async def _set_first(self, kind: str, value: str) -> None:
        self._open_session()
        for control in self._controls():
            if control.kind == kind:
                await self.set_option(control.identity, value)
                return
        raise LocalError(f"The agent offers no choice of {kind}s in this session.")

    def _open_session(self) -> ClientSession:
        if self._session is None or self.failure is not None:
            raise NotRunning(self.state)
        return self._session

    # ---- the agent's process

    def start(self) -> None:
        """Start the agent; how that ends is seen in `state`."""
        self._cold = False
        self._writer.started()
        self._active()
        self._run = asyncio.create_task(self._run_agent(list(self._runs)))
        self._runs.add(self._run)
        self._run.add_done_callback(self._runs.discard)

    def set_up(self, command: Sequence[str], log_in: str, setup: SessionSetup) -> None:
        """Use what the settings have now for the next start of the agent."""
        self._command, self._log_in, self._setup = list(command), log_in, setup

    def restart(self) -> None:
        """Start the agent again, and resume the session.

        Raises:
            LocalError: The agent still runs.
        """
        self._check_read()
        if self.failure is None and not self._cold:
            raise LocalError("The agent of this session still runs.")
        self.failure = None
        self._active("queue")
        self.start()

    def hurry(self) -> None:
        """End the agent without waiting for it to end by itself, now or in `close`."""
        if self._starter is not None:
            self._starter.hurry()

    async def close(self) -> None:
        """End the agent and everything that it started; nothing stays pending."""
        if self._closing is None:  # cancelled twice, the end of the process would be cut short
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._cooling is not None:
            self._cooling.cancel()
        if self._reading is not None:
            self._reading.cancel()
        if self._run is not None and self.failure is None:  # else it is ending already
            self._run.cancel()
        if self._runs:
            await asyncio.wait(self._runs)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if not self._cold:
            self._fail("The session was closed.", by_host=True)
        await self._writer.close()
        self._show_inputs()
        self._make_frame()
        self._frames.close()
        self._observers = []
        self._sent.close(self.failure or "The session was closed.")
        observers, self._input_observers = self._input_observers, []
        for observer in observers:
            observer.ended()

    async def delete(self) -> None:
        """Have the agent delete the session for good.

        Raises:
            NotRunning: The agent does not run.
            NotSupported: The agent cannot delete sessions.
            RequestFailed: The agent refused.
        """
        session = self._open_session()
        assert self._client is not None
        await self._client.delete_session(session.session_id)

    async def _run_agent(self, before: Sequence[asyncio.Task[None]]) -> None:
        """Run the agent from its start to its end; `before`: those that have to end first."""
        if before:
            await asyncio.wait(before)
        starter: StartsAgent | None = None
        try:
            starter = self._starter = self._launch()
            async with starter.client(
                ask=self._ask, on_problem=self._add_problem, new_state=self._new_state
            ) as client:
                self._client = client
                await self._talk(client, starter)
        except (TwofoldError, OSError) as error:
            self._fail(self._reason(error, None, starter))
        except Exception as error:
            text = f"A hosted session ended by a mistake of Twofold: {described(error)}"
            log(Problem("handler", text, error=error))
            self._fail(sanitize(text))
        finally:
            self._leave_session()

    def _leave_session(self) -> None:
        self._questions.note_decisions()
        self._client = self._session = None

    async def _talk(self, client: Client, starter: StartsAgent) -> None:
        """Open the session and send prompts until its end, which is shown at once."""
        try:
            session = await self._open(client)
            await self._send_prompts(session)
            self._fail("The session was closed by the agent.")
        except (TwofoldError, OSError) as error:
            if self._session is not None:
                self._session.flush_changes()
            self._fail(self._reason(error, client, starter))
            self._leave_session()

    def _reason(self, error: Exception, client: Client | None, starter: StartsAgent | None) -> str:
        if client is not None and wants_login(error):
            return login_words(client, self._log_in)
        refused = isinstance(error, RequestFailed | NotReopened)
        lines = starter.stderr.lines if refused and starter is not None else []
        return sanitize("\n".join([str(error), *lines]))

    def _fail(self, failure: str, *, by_host: bool = False) -> None:
        if self.failure is None:
            self.failure = failure
            if not by_host:  # it is the end of the host, and of no interest to the next one
                self._writer.failed(failure)
            self._queue.hold()
            self._active("queue", "answered", "questions")

    async def _open(self, client: Client) -> ClientSession:
        """Create the session; or resume it, and begin another one if the agent has forgotten it.

        What is here goes on if the agent can resume without a replay. Otherwise a replay takes its
        place.

        Raises:
            NotReopened: The agent refused to resume the session that the host was asked for.
        """
        setup, report = self._setup, self._add_problem
        # agents keep no session without a prompt
        known = self.agent_session if self.first_words or self._resumed else None
        self._can_resume = client.can("load") or client.can("resume")
        forgotten = ""
        if known is not None:
            try:
                session = await self._reopen(client, known)
                self._adopt(session, keep=not client.can("load"))
                return session
            except (NotReopened, NotSupported) as error:
                if not self._live.places:
                    raise
                reason = error.error if isinstance(error, NotReopened) else error
                forgotten = f"The session was not resumed: {reason}"
        session = await setup.new_session(client, self.cwd, report)
        self._adopt(session, keep=True)
        if forgotten:
            words = f"{forgotten}\n{client.agent_name} does not remember what is above."
            self._add_block(RemarkBlock(sanitize(words), "warning"))
        return session

    async def _reopen(self, client: Client, known: str) -> ClientSession:
        """Resume a session without a replay if it can go on as it is, else have it sent again."""
        command, report = self._command, self._add_problem
        if client.can("resume") and known == self._state.session_id:
            self._resuming = known
            try:
                return await self._setup.reopen(
                    client, known, self.cwd, command, report, replay=False
                )
            except NotReopened:
                if not client.can("load"):
                    raise
            finally:
                self._resuming = None
        return await self._setup.reopen(client, known, self.cwd, command, report, replay=True)

    def _new_state(self, session_id: str) -> Session:
        """The state of a session that the agent opens, or sends something of."""
        if session_id == self._resuming:
            return self._state
        return LoggedSession(session_id, _Opening())

    def _adopt(self, session: ClientSession, *, keep: bool) -> None:
        """Show a session that was opened; `keep`: below what there is, which it does not repeat."""
        before, state = self._live, session.state
        assert isinstance(state, LoggedSession)
        if state is not self._state:
            inputs = state.on_input.inputs if isinstance(state.on_input, _Opening) else []
            self._writer.opened(session.session_id, inputs, keep=keep)
            state.on_input = self._on_input
            kept = kept_blocks(before) if keep else {}
            self._times = self._times.adopted(state, [*kept] if keep else None)
            self._state = state
            self._live = self._new_live(state, before.seq + 1, [*kept.values()])
            self.epoch, self._framed = secrets.token_urlsafe(6), self._live.seq
            self._is_other, self._unshown = True, []
        self._session, self.agent_session = session, session.session_id
        self._questions.begin_again()
        session.on_change(self._changed, 0)
        self._show_inputs()
        self._touch(*_FACTS)

    def _new_live(self, state: Session, seq: int, earlier: Sequence[LiveBlock] = ()) -> Live:
        return Live(state, outputs=False, cwd=str(self.cwd), seq=seq, earlier=earlier)

    # ---- the log

    def _on_input(self, given: Input, changes: Changes) -> None:
        """Something was done to the session that is shown."""
        self._writer.input(given, changes)
        turn = self._turn
        if turn is not None and not turn.message_id:
            turn.message_id = _new_message(given, changes)
            if turn.message_id:
                self._sent.inserted(turn.prompt.item, turn.message_id)
        if self._input_observers:
            self._unshown.append(given)
        if self._input_observers or turn is not None:
            self._show_inputs()
        if self._session is None:  # it is being resumed, or its agent is gone
            self._changed(changes)

    def _on_kept(self) -> None:
        self._show_inputs()
        self._soon()

    def _show_inputs(self) -> None:
        """Pass on what was done to the session, unless it is still to be kept."""
        if self._writer.is_keeping:
            return
        given, self._unshown = self._unshown, []
        is_other, self._is_other = self._is_other, False
        for observer in self._input_observers:
            if is_other:  # as it is now: what was done since is in it
                _call(observer.replaced)
            elif given:
                _call(partial(observer.inputs, given))
        self._sent.report()

    def _lose_log(self, error: LocalError) -> None:
        """Nothing can be kept any more: the agent is ended before more is lost."""
        self._lost = True
        if self.failure is None:
            self._fail(sanitize(str(error)))
            if self._run is not None:
                self._run.cancel()

    @property
    def is_read(self) -> bool:
        """Whether there is more of it here than the facts of a list; else see `ready`."""
        return self._read is None

    async def ready(self) -> None:
        """Read the log of a session of an earlier host; what was going on has ended by then.

        Raises:
            JournalFailed: It cannot be read.
        """
        if self._read is None:
            return
        if self._reading is None or self._reading.done():  # it may have failed before
            self._reading = asyncio.create_task(self._recover(self._read))
        await asyncio.shield(self._reading)

    async def _recover(self, read: Callable[["HostedSession"], Awaitable[Recovery]]) -> None:
        recovery = await read(self)
        self._read = None
        self._state, self._live = recovery.session, recovery.live
        self._times = CallTimes(self._state)
        self._live.seq += 1
        self.epoch, self._framed = secrets.token_urlsafe(6), self._live.seq
        self.agent_session = recovery.agent_session or self.agent_session
        self.first_words = self.first_words or recovery.first_words
        self._resumed = self._resumed or bool(self.first_words)
        self._queue.restore(recovery.queue)
        self._questions.restore(recovery.answered)
        self._writer.restored(recovery.queue, recovery.session)
        block = recovery.settle(self._on_input)
        if block is not None:
            self._writer.remark(block, "")
        self._touch(*_FACTS)
        with suppress(LocalError):  # then the session has failed, and shows it
            await self._writer.kept()
        self._is_other, self._unshown = True, []
        self._show_inputs()
        self._make_frame(now=True)

    @property
    def is_lost(self) -> bool:
        """Whether the log failed: what is here is more than what was kept."""
        return self._lost

    def read_again(self, read: Callable[["HostedSession"], Awaitable[Recovery]]) -> None:
        """Have `ready` read the log: what it does not have is dropped."""
        self._read, self._lost = read, False
        self._writer.is_paused = True

    def _check_read(self) -> None:
        if self._read is not None:
            raise LocalError("The session is being read from the journal. Open it first.")

    # ---- a session without work

    def _watch_idle(self) -> None:
        """End the agent after a while without work, if the session can be resumed."""
        if self._idle_after is None or not self._writer.keeps:
            return
        if self._cooling is not None:
            self._cooling.cancel()
            self._cooling = None
        if self.state == "idle" and self._can_resume and self._closing is None:
            loop = asyncio.get_running_loop()
            self._cooling = loop.call_later(self._idle_after, self._cool)

    def _cool(self) -> None:
        self._cooling = None
        waiting = any(not each.held for each in self._queue)
        if self.state != "idle" or self._run is None or waiting:
            return
        self._cold = True
        self._run.cancel()
        self._touch("session")

    async def _ask(self, question: Question) -> PermissionOption:
        self.last_activity = time.time()
        return await self._questions.ask(question)

    def _decisions(self) -> Sequence[Decided]:
        return self._session.decisions if self._session is not None else ()

    def _add_problem(self, problem: Problem) -> None:
        self._problems.append({"kind": problem.kind, "words": str(problem)})
        self._touch("problems")

    def add_warning(self, words: str) -> None:
        """Show a problem of the host itself."""
        self._add_problem(Problem("setup", words))

    # ---- turns

    async def _send_prompts(self, session: ClientSession) -> None:
        """Send what is queued, one prompt after the other, until the session is closed.

        Raises:
            ConnectionEnded: The agent is gone.
        """
        closed = asyncio.ensure_future(session.wait_closed())
        closed.add_done_callback(lambda _: self._wake.set())
        try:
            while not closed.done():
                prompt = self._queue.take()
                if prompt is not None:
                    await self._send(session, prompt)
                else:
                    self._wake.clear()
                    await self._wake.wait()
            closed.result()
        finally:
            closed.cancel()

    async def _send(self, session: ClientSession, prompt: QueuedPrompt) -> None:
        """Send a prompt, and wait for the end of its turn."""
        turn = self._turn = _Turn(prompt)
        self._active("queue")
        remark, found = RemarkBlock(""), ""
        try:
            blocks = await self._blocks(session, prompt)
            if turn.cancelled_by is not None:
                self._queue.put_back(prompt)
                return
            self._note_sender(prompt)
            assert self._starter is not None
            self._starter.stderr.forget()
            await self._writer.kept()
            reply = await session.prompt(
                *blocks, on_accepted=lambda identity: self._accepted(turn, identity)
            )
            found = turn_text(reply)
            remark = self._ended(turn, reply)
            if turn.sent:
                self._sent.inserted(prompt.item, turn.message_id)
        except ConnectionEnded as error:
            self._sent.failed(prompt.item, error)
            self._queue.hold()
            words = f"{error}\nStart the agent again to go on."
            remark = RemarkBlock(sanitize(words), "error")
            raise
        except PeerError as error:
            self._sent.failed(prompt.item, error)
            self._queue.hold()
            remark = RemarkBlock(await self._failed(turn, error), "error")
        except LocalError as error:  # it was not sent
            self._sent.failed(prompt.item, error)
            self._queue.put_back(prompt)
            remark = RemarkBlock(sanitize(f"Not sent: {error}"), "error")
        finally:
            self._turn = None
            self._show_inputs()
            if remark.text:
                self._add_block(remark, found or one_line(prompt.text))
            self._active("queue")
            self._spawn(self._writer.compact(self._state))

    def _accepted(self, turn: "_Turn", message_id: str) -> None:
        """The agent has the prompt, as this message."""
        if not turn.message_id:
            turn.message_id = message_id
            self._sent.inserted(turn.prompt.item, message_id)
            self._show_inputs()

    async def _blocks(self, session: ClientSession, prompt: QueuedPrompt) -> Sequence[Part]:
        """The content to send; files are read in a thread."""
        parts: list[Part] = []
        for part in prompt.parts:
            if isinstance(part, str) and "@" in part:
                parts += await asyncio.to_thread(parts_of, part, self.cwd)
                for mention in await asyncio.to_thread(missing, part, self.cwd):
                    self.add_warning(no_file(mention))
            else:
                parts.append(part)
        distinct: list[Part] = []
        for part in parts:
            if isinstance(part, str) or part not in distinct:  # a file that is mentioned twice
                distinct.append(part)
        if any(isinstance(part, os.PathLike) for part in distinct):
            return await asyncio.to_thread(session.prompt_blocks, *distinct)
        return session.prompt_blocks(*distinct)

    def _note_sender(self, prompt: QueuedPrompt) -> None:
        self._senders.add(prompt.by)
        if not self.first_words:
            self.first_words = one_line(prompt.text)[:LONGEST_NAME]
            self.on_first_prompt()

    def _ended(self, turn: "_Turn", reply: Reply) -> RemarkBlock:
        """How a turn ended; what is queued is held if it did not end as it should."""
        took, sender = duration(turn.seconds), self._sender(turn)
        if reply.given_up:
            words = "The agent did not end the cancelled turn. It is no longer waited for."
            return RemarkBlock(words, "warning")
        if reply.stop_reason == "cancelled":
            if turn.cancelled_by is None:
                # agents may cancel a turn because of a rejection: its reason is still wanted
                self._queue.hold(reasons=False)
                return RemarkBlock(f"The agent cancelled the turn after {took}{sender}.", "warning")
            if not turn.sent:
                self._queue.put_back(turn.prompt)
                return RemarkBlock("")
            by = f" by {one_line(turn.cancelled_by)}" if turn.cancelled_by else ""
            return RemarkBlock(f"Cancelled{by} after {took}{sender}.", "warning")
        if reply.stop_reason == "end_turn":
            return RemarkBlock(f"The turn took {took}{sender}.")
        reason = STOP_REASONS.get(reply.stop_reason) or one_line(reply.stop_reason)
        return RemarkBlock(f"The turn ended after {took}{sender}: {reason}.", "warning")

    async def _failed(self, turn: "_Turn", error: PeerError) -> str:
        if self._client is not None and wants_login(error):
            return login_words(self._client, self._log_in)
        assert self._starter is not None
        lines = await self._starter.stderr.settled()
        took, sender = duration(turn.seconds), self._sender(turn)
        first = f"The turn failed after {took}{sender}: {error}"
        return sanitize("\n".join([first, "Send the prompt again, or close the session.", *lines]))

    def _sender(self, turn: "_Turn") -> str:
        """Who sent the prompt, if there is more than one who did so far."""
        return f", sent by {one_line(turn.prompt.by)}" if len(self._senders) > 1 else ""

    def _add_block(self, block: RemarkBlock, text: str = "") -> None:
        """Show a block below everything that the agent has sent so far; `text` is for searches."""
        if self._session is not None:
            self._session.flush_changes()
        self._live.add(block)
        self._writer.remark(block, text)
        self._soon()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Opening:
    """What was done to a session that the agent has opened, and that is not shown yet.

    The session itself holds it (`OnInput`): it is gone with a session that nobody asked for.
    """

    def __init__(self) -> None:
        self.inputs: list[Input] = []

    def __call__(self, given: Input, changes: Changes) -> None:
        self.inputs.append(given)


class _Turn:
    """The turn that goes on."""

    def __init__(self, prompt: QueuedPrompt) -> None:
        self.prompt = prompt
        self.since = time.time()
        self.cancelled_by: str | None = None
        self.sent = True
        """False if it was cancelled before it was sent."""
        self.message_id = ""
        """The user message that the prompt became; empty until it is known."""
        self._begun = asyncio.get_running_loop().time()

    @property
    def seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._begun


def _call(observer: Callable[[], None]) -> None:
    """Call an observer; one that raises is reported, and the others are called all the same."""
    try:
        observer()
    except Exception as error:
        text = f"An observer of a session raised {described(error)}"
        log(Problem("handler", text, error=error))


def _new_message(given: Input, changes: Changes) -> str:
    """The id of the user message that an input has added; empty if it has added none."""
    if not isinstance(given, Applied) or not any(isinstance(each, EntryAdded) for each in changes):
        return ""
    update = given.update
    return update.message_id if isinstance(update, v2.UserMessage | v2.UserMessageChunk) else ""


def duration(seconds: float) -> str:
    """A duration in words: `0.4 s`, `12 s`, `2 min 5 s`, `1 h 2 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def turn_text(reply: Reply) -> str:
    """What a turn can be found by: its messages, and the titles of its tool calls."""
    texts = [
        entry.text if isinstance(entry, Message) else entry.title or "" for entry in reply.entries
    ]
    return "\n".join(filter(None, texts))[:LONGEST_TEXT]


def login_words(client: Client, log_in: str) -> str:
    """What to do if an agent requires a login; `log_in` is the command for it."""
    names = [*(way.name for way in ways(client)), *others(client)]
    named = f" ({', '.join(names)})" if names else ""
    how = "Log in with the agent's own program"
    if log_in:
        how = f"Log in at a terminal of this machine with `{one_line(log_in)}`"
    return f"{client.agent_name} requires a login{named}. {how}, then start the session again here."
