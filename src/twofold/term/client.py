"""`twofold run` at a terminal: the interactive client.

`interact` starts the agent, logs in if the agent requires it, and creates or resumes a session. A
`SessionSwitcher` then has one session or several of them open. If the agent ends too early, the
person can start it again and resume the session. However it ends, the terminal is as it was before
and the agent's process has ended.
"""

import asyncio
import errno
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

from prompt_toolkit.utils import is_dumb_terminal
from rich.console import Console

from twofold.client.client import Client
from twofold.client.known_sessions import NotReopened, age, known_sessions, title
from twofold.client.launch import Launch, Seconds, on_signals
from twofold.client.login import LoginNeeded, log_in, wants_login, ways
from twofold.client.permissions import Question
from twofold.client.reconnection import STABLE, TRIES, is_final, pause_before
from twofold.client.session import ClientSession
from twofold.convert.capabilities import NAMELESS
from twofold.errors import ConnectionEnded, TwofoldError
from twofold.peer.problems import Problem
from twofold.rpc.errors import RequestFailed
from twofold.term import exit_status
from twofold.term.background import LATEST, PATIENCE, QUERY, can_ask, choose_theme
from twofold.term.diagnosis import Diagnosis
from twofold.term.input.focus import Presence
from twofold.term.input.keys import Keyboard
from twofold.term.input.menu import choose
from twofold.term.input.picker import Entry
from twofold.term.input.questions import Questions
from twofold.term.input.terminal_input import TerminalInput
from twofold.term.lines import BLANK, Drawable, Line, all_rows, cut, line
from twofold.term.open_session import Leave, stop_process
from twofold.term.row_encoder import RowEncoder, has_links
from twofold.term.run_options import RunOptions
from twofold.term.session_switcher import Place, SessionSwitcher
from twofold.term.terminal_writer import TerminalWriter, Tty
from twofold.text import one_line, sanitize
from twofold.transport.commands import IS_IT, shown
from twofold.transport.endpoint import NotReached
from twofold.version import VERSION
from twofold.wire.shared import PermissionOption

_MOST_EARLY: Final = 100
"""How many problems are kept until there is a session to show them in."""
_HINT: Final = 5.0
"""After how many seconds without an answer the client shows a hint."""


async def interact(wanted: RunOptions, launch: Launch) -> int:
    """Talk to an agent until the person leaves, and return the exit status."""
    system = Console(file=sys.stdout).color_system
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    encoder = RowEncoder(system, encoding, color=wanted.color, links=has_links(os.environ))
    writer = TerminalWriter(Tty(), encoder, dumb=is_dumb_terminal())
    presence = Presence(asyncio.get_running_loop().time())
    client = _TerminalClient(wanted, launch, writer, TerminalInput(sys.stdin, presence), presence)
    on_signals(client.interrupt)
    try:
        return await client.run()
    finally:
        writer.leave()


class _TerminalClient:
    """Runs one agent from its start to its end, and again if it ended too early."""

    def __init__(
        self,
        wanted: RunOptions,
        launch: Launch,
        writer: TerminalWriter,
        source: TerminalInput,
        presence: Presence,
    ) -> None:
        self._wanted = wanted
        self._launch = launch
        self._writer = writer
        self._source = source
        self._presence = presence
        self._keys = Keyboard(source, self._pressed)
        self._questions: defaultdict[str, Questions] = defaultdict(
            lambda: Questions(bindings=wanted.keys)
        )
        self._sessions: SessionSwitcher | None = None
        self._again: _Again | None = None
        self._left: SessionSwitcher | None = None
        """The sessions of the connection that has ended."""
        self._since = 0.0
        """When the last talk began."""
        self._tries = 0
        """How often an agent at a URL was connected to again."""
        self._early: list[Problem] = []
        self._diagnosis = Diagnosis(on=wanted.verbose)
        launch.on_stderr = self._diagnosis.add_stderr
        self._task = asyncio.current_task()
        self._interrupted = False
        self._ending: Seconds | None = None
        self._asked_at: float | None = None
        self._answered = asyncio.Event()
        source.answers.on_change = self._take_answer
        self._set_theme()

    async def run(self) -> int:
        """Run until the person leaves, and return the exit status."""
        try:
            while True:
                try:
                    return await self._run_agent()
                except (ConnectionEnded, NotReached) as error:
                    if not await self._goes_on_after(error):
                        return exit_status.of_error(error)
        except Leave:
            return exit_status.CANCELLED
        except TwofoldError as error:
            self._print_error(error)
            return exit_status.of_error(error)
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
            self._writer.show([], [])
            if self._left is not None:
                self._print_farewell(self._left)
            return exit_status.CANCELLED
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return exit_status.CANCELLED  # the window was closed
        finally:
            await self._take_late_answer()

    async def _run_agent(self) -> int:
        connecting = self._launch.client(
            ask=self._ask,
            login=True,
            on_problem=self._problem,
            on_slow=self._show_slow_start,
        )
        try:
            async with AsyncExitStack() as stack:
                with self._keys.listening():
                    async with self._background():
                        client = await stack.enter_async_context(connecting)
                stack.push(self._note_end)  # runs before the agent's end is waited for
                self._writer.show([], [])
                session = await self._open(client)
                if session is not None:
                    await self._talk(client, session)
        finally:
            if self._ending is not None:
                self._ending.close()
                self._ending = None
                self._writer.show([], [])
        return exit_status.OK

    def _print_error(self, error: TwofoldError) -> None:
        talked = self._sessions is not None or self._left is not None
        above = [BLANK] if talked else []
        refused = isinstance(error, RequestFailed | NotReopened)
        below = self._launch.stderr.lines if refused else []
        self._print([*above, line(sanitize("\n".join([str(error), *below])), "red")])

    async def _ask(self, question: Question) -> PermissionOption | None:
        return await self._questions[question.request.session_id].ask(question)

    def _note_end(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """The talk is over: from now on the client waits for the agent to exit."""
        if isinstance(error, Leave | asyncio.CancelledError):
            self._launch.hurry()
        self._ending = Seconds(self._show_slow_end)

    # ---- the theme

    @asynccontextmanager
    async def _background(self) -> AsyncIterator[None]:
        """Ask for the background of the terminal, and at the end of the block wait a moment."""
        writer, loop = self._writer, asyncio.get_running_loop()
        asks = self._wanted.theme == "auto" and writer.has_colors and can_ask(os.environ)
        if not asks or self._asked_at is not None:
            yield
            return
        self._asked_at = loop.time()
        writer.write(QUERY)
        try:
            yield
        finally:
            await self._wait_answer(self._asked_at + PATIENCE)

    async def _wait_answer(self, until: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._answered.wait()

    async def _take_late_answer(self) -> None:
        """What the terminal answers after the end would be typed into the shell."""
        if self._asked_at is not None and not self._answered.is_set():
            with self._keys.listening():
                await self._wait_answer(self._asked_at + LATEST)

    def _take_answer(self) -> None:
        if self._source.answers.complete:
            self._answered.set()
        self._set_theme()

    def _set_theme(self) -> None:
        colour = self._source.answers.colour
        self._writer.set_theme(choose_theme(self._wanted.theme, colour, os.environ))
        if self._sessions is not None:  # the answer was late
            self._sessions.current.display.redraw_soon()

    # ---- the agent ended too early

    async def _goes_on_after(self, error: TwofoldError) -> bool:
        """Connect again, or let the person decide; False if this is the end."""
        loop = asyncio.get_running_loop()
        if self._sessions is not None:
            self._left, self._sessions = self._sessions, None
            if loop.time() - self._since > STABLE:
                self._tries = 0
        before = self._left
        if before is None:
            self._print_error(error)
            return False
        if self._connects_again(before, error):
            if not self._tries:
                self._print_error(error)
            await self._wait_before_attempt()
            self._continue_with(before, before.resumable)
            return True
        self._print_error(error)
        self._tries = 0
        return await self._wants_restart(before)

    def _connects_again(self, before: SessionSwitcher, error: TwofoldError) -> bool:
        """Whether an agent at a URL is connected to again, because nothing is lost by it."""
        complete = before.resumable is not None or not before.current.first_words
        there = self._launch.endpoint is not None and not is_final(error)
        return there and complete and self._tries < TRIES

    async def _wait_before_attempt(self) -> None:
        pause, self._tries = pause_before(self._tries), self._tries + 1
        words = f"Connecting again, attempt {self._tries} of {TRIES} … · Ctrl-C leaves"
        self._writer.show([], [cut(((words, "yellow"),), self._writer.width)])
        with self._keys.listening():
            await asyncio.sleep(pause)

    def _continue_with(self, before: SessionSwitcher, session_id: str | None) -> None:
        self._again = _Again(session_id, before.draft)
        self._questions.clear()

    async def _wants_restart(self, before: SessionSwitcher) -> bool:
        """Whether the person wants to start the agent again."""
        if self._writer.dumb:
            return False
        session_id = before.resumable
        again = "Start the agent again" if self._launch.endpoint is None else "Connect again"
        entries = [f"{again}, and resume this session"] if session_id else []
        entries += [f"{again}, with a new session", "Leave"]
        with self._keys.raw():
            listed = [Entry(each) for each in entries]
            title = "The agent has ended."
            if self._launch.endpoint is not None:
                title = "There is no connection to the agent."
            chosen = await choose(self._writer, self._keys, title, listed)
        if chosen is None or entries[chosen] == "Leave":
            self._print_farewell(before)
            return False
        self._continue_with(before, session_id if chosen == 0 else None)
        return True

    def interrupt(self) -> None:
        """Handle a signal that ends this process."""
        if self._ending is not None:
            self._launch.hurry()
        elif self._sessions is not None:
            self._sessions.leave()
        elif self._task is not None:
            self._interrupted = True
            self._launch.hurry()
            self._task.cancel()

    def _pressed(self, key: str) -> bool:
        """Handle a key while the client waits for the agent; other keys are typed ahead."""
        if key == "c-c":
            self.interrupt()
        elif key == "c-z":
            self._suspend()
        return key in ("c-c", "c-z")

    def _suspend(self) -> None:
        self._writer.show([], [])
        self._writer.leave()
        stop_process(self._keys)
        self._keys.changed()  # a menu draws itself again

    # ---- the session

    async def _open(self, client: Client) -> ClientSession | None:
        """Create or resume a session; None if the person left a menu."""
        try:
            return await self._create_or_resume(client)
        except RequestFailed as error:
            if not wants_login(error):
                raise
            if not await self._log_in(client, error):
                return None
        return await self._create_or_resume(client)

    async def _create_or_resume(self, client: Client) -> ClientSession | None:
        wanted, again = self._wanted, self._again
        session_id = wanted.resume if again is None else again.session_id
        if wanted.choose and again is None:
            session_id = await self._choose_session(client)
            if session_id is None:
                return None
        what = "Creating a session" if session_id is None else f"Loading session {session_id}"
        with self._keys.listening(), self._counted(what):
            if session_id is None:
                session = await wanted.setup.new_session(client, wanted.cwd, self._problem)
            else:
                session = await wanted.setup.reopen(
                    client, session_id, wanted.cwd, wanted.command, self._problem, replay=True
                )
            await session.settled()  # print a replay or a greeting above the first prompt
            return session

    async def _choose_session(self, client: Client) -> str | None:
        with self._keys.listening(), self._counted("Listing the sessions"):
            known = (await known_sessions(client, self._wanted.cwd)).sessions
        if not known:
            words = f"{client.agent_name} has no session in this directory."
            self._print([line(f"{words} --resume ID resumes any other session.", "yellow")])
            return None
        now = datetime.now(UTC)
        entries = [
            Entry(title(info) or one_line(info.session_id), age(info.updated_at, now))
            for info in known
        ]
        chosen = await choose(self._writer, self._keys, "Resume which session?", entries)
        return known[chosen].session_id if chosen is not None else None

    async def _log_in(self, client: Client, error: RequestFailed) -> bool:
        """Log in with the method that the person chooses; returns False if they chose none."""
        offered = ways(client)
        if not offered:
            raise LoginNeeded(error, client)
        entries = [Entry(way.name, way.description) for way in offered]
        question = f"{client.agent_name} requires a login. How do you want to log in?"
        chosen = await choose(self._writer, self._keys, question, entries)
        if chosen is None:
            return False
        self._print([line(f"Logging in: {offered[chosen].name}", "dim")])
        self._writer.leave()
        wanted = self._wanted
        await log_in(client, offered[chosen], wanted.command, wanted.cwd, wanted.env)
        return True

    async def _talk(self, client: Client, session: ClientSession) -> None:
        again, self._again = self._again, None
        place = Place(self._writer, self._keys, self._source, self._presence)
        sessions = SessionSwitcher(
            client, self._wanted, self._launch, place, self._questions, self._diagnosis
        )
        opened = sessions.add(session)
        self._sessions, self._left = sessions, None
        self._since = asyncio.get_running_loop().time()
        start = self._wanted.start if again is None else None
        ahead = self._keys.take_ahead() if again is None else again.draft + self._keys.take_ahead()
        self._print(_greeting(client, self._wanted))
        try:
            for problem in self._early:
                sessions.show_problem(problem)
            opened.print_history(printed=again is not None and again.session_id is not None)
            await sessions.run(start, ahead)
        finally:
            sessions.close_displays()
            if not isinstance(sys.exc_info()[1], ConnectionEnded):
                self._print_farewell(sessions)

    def _print_farewell(self, sessions: SessionSwitcher) -> None:
        if lines := [line(words, "dim") for words in sessions.farewell()]:
            self._print([BLANK, *lines])

    # ---- drawing while the client waits

    def _show_slow_start(self, seconds: float) -> None:
        width, since = self._writer.width, f" … {seconds:.0f} s"
        words = cut(((self._launch.what_happens, "yellow"),), width - len(since))
        rows = [cut((*words, (since, "yellow")), width)]
        problems = [one_line(str(last)) for last in self._early[-1:] if last.kind != "loss"]
        output = [each for each in (self._launch.last_line, *problems) if each]
        rows += [cut(((f"  {each}", "dim"),), width) for each in output]
        if seconds >= _HINT:
            is_it = f" {IS_IT}" if self._launch.endpoint is None else ""
            hint = f"It has not answered initialize yet.{is_it} Ctrl-C leaves."
            rows += all_rows([line(hint, "dim", "  ")], width)
        self._writer.show([], rows)

    @contextmanager
    def _counted(self, what: str) -> Iterator[None]:
        """Show how many seconds a block takes."""
        seconds = Seconds(lambda passed: self._show_seconds(what, passed))
        try:
            yield
        finally:
            seconds.close()
            self._writer.show([], [])

    def _show_slow_end(self, seconds: float) -> None:
        self._show_seconds("Waiting for the agent to exit", seconds, " · Ctrl-C ends it now")

    def _show_seconds(self, what: str, seconds: float, more: str = "") -> None:
        words = f"{one_line(what)} … {seconds:.0f} s{more}"
        self._writer.show([], [cut(((words, "yellow"),), self._writer.width)])

    def _problem(self, problem: Problem) -> None:
        if self._sessions is not None:
            self._sessions.show_problem(problem)
        elif len(self._early) < _MOST_EARLY:
            self._early.append(problem)

    def _print(self, lines: Iterable[Drawable]) -> None:
        self._writer.show(all_rows(lines, self._writer.width), [])


class _Again(NamedTuple):
    """How to go on with an agent that is started again."""

    session_id: str | None
    """The session to resume."""
    draft: str
    """What was in the input line."""


def _greeting(client: Client, wanted: RunOptions) -> list[Drawable]:
    info = client.agent.info
    name = f"{client.agent_name} {one_line(info.version)}".strip()
    if info == NAMELESS or not one_line(info.title or info.name):
        name = shown(wanted.command)  # the agent sent no name
    about = f"{name} · version {client.protocol_version} of the protocol · {wanted.cwd.absolute()}"
    return [
        Line((("Twofold", "bold"), (f" {VERSION} · ", "dim"), (one_line(about), "dim"))),
        line("/help lists the commands and keys, Ctrl-D leaves.", "dim"),
    ]
