"""The sessions that the client has open with one agent: one is shown, the others go on behind it.

Each has its own prompts, queue, draft and questions. They share the input line and the terminal. A
question of a session that is not shown waits until it is, and the status line says so.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from prompt_toolkit.input import Input

from twofold.client.client import Client
from twofold.client.known_sessions import age, known_sessions, shortened, title
from twofold.client.launch import Launch, Seconds
from twofold.client.session import ClientSession
from twofold.convert.capabilities import NAMELESS
from twofold.errors import ConnectionEnded, LocalError, TwofoldError
from twofold.host.kept_sessions import KeptSession, keep_session, read_sessions
from twofold.host.state_files import state_file
from twofold.peer.problems import Problem
from twofold.rpc.errors import RequestFailed
from twofold.term.command_actions import run_command
from twofold.term.diagnosis import KIND, Diagnosis
from twofold.term.git_branch import Branch
from twofold.term.input.editor import Editor
from twofold.term.input.focus import Presence
from twofold.term.input.keys import Keyboard
from twofold.term.input.picker import Entry, pick
from twofold.term.input.questions import PendingQuestion, Questions
from twofold.term.lines import Line, line
from twofold.term.notifications import Notifier
from twofold.term.open_session import Leave, OpenSession
from twofold.term.run_options import RunOptions
from twofold.term.status import (
    Elsewhere,
    State,
    Surroundings,
    has_window_title,
    short_directory,
    window_title,
)
from twofold.term.terminal_writer import TerminalWriter
from twofold.text import one_line
from twofold.wire import v2

_LONGEST: Final = 60


class Place(NamedTuple):
    """Where the client shows sessions and reads keys."""

    writer: TerminalWriter
    keys: Keyboard
    source: Input
    presence: Presence


class SessionSwitcher:
    """Implements `open_session.Sessions` for one agent.

    Args:
        client: The agent.
        options: What the client was started with.
        launch: How the agent was started.
        place: Where sessions are shown.
        questions: The questions of each session, by its id.
        diagnosis: Shown in the session that is shown.
    """

    def __init__(
        self,
        client: Client,
        options: RunOptions,
        launch: Launch,
        place: Place,
        questions: defaultdict[str, Questions],
        diagnosis: Diagnosis,
    ) -> None:
        self.opened: list[OpenSession] = []
        self._client = client
        self._options = options
        self._launch = launch
        self._place = place
        self._questions = questions
        self._diagnosis = diagnosis
        self._cwd = options.cwd.absolute()
        self._file = state_file("sessions")
        self._kept = read_sessions(self._file, options.command)
        self._editor = Editor(
            lambda: self.current.session.state,
            self._cwd,
            state_file("history"),
            place.source,
            self._pressed,
            options.keys,
        )
        self._branch = Branch(self._cwd, self._redraw)
        directory = short_directory(self._cwd, os.path.expanduser("~"))
        self._around = Surroundings(self._agent, directory=directory)
        self._has_title = options.window_title and has_window_title(os.environ)
        self._notifier = Notifier(
            options.notifications,
            place.writer,
            place.presence,
            os.environ,
            f"{self._agent} in {directory}",
        )
        place.presence.on_return = self._branch.refresh
        self._tasks: dict[asyncio.Task[None], OpenSession] = {}
        self._watches: set[asyncio.Task[None]] = set()
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._current: OpenSession | None = None
        self._before: OpenSession | None = None
        self._last_elsewhere = Elsewhere()

    def _pressed(self, key: str, alone: bool) -> bool:
        return self.current.pressed(key, alone)

    # ---- from the first session until the person leaves

    async def run(self, start: str | None, ahead: str) -> None:
        """Talk in the session that was added until the person leaves.

        Args:
            start: Sent first, if there is one.
            ahead: What was typed before.

        Raises:
            Leave: The person leaves in the middle of something.
            PeerError: The connection has ended.
        """
        with self._place.keys.raw():
            self.current.display.open()
            self._diagnosis.show_with(self._show_diagnosis)
            editing = asyncio.ensure_future(self._editor.run(ahead))
            self._branch.refresh()
            try:
                self._begin(self.current, start)
                with self._place.writer.reporting_focus():
                    await self._left
            finally:
                for task in [editing, *self._watches, *self._tasks]:
                    task.cancel()
                    with suppress(asyncio.CancelledError, TwofoldError, Leave):
                        await task

    def close_displays(self) -> None:
        """Leave the terminal as it was."""
        self._diagnosis.close()
        self._branch.close()
        self._notifier.close()
        self._place.presence.on_return = lambda: None
        self._place.writer.title = ""
        for opened in self.opened:
            opened.display.close()

    def add(self, session: ClientSession) -> OpenSession:
        """Open a session, and show it."""
        opened = OpenSession(
            session,
            self._place.writer,
            self._place.keys,
            self._editor,
            self._questions[session.session_id],
            self._launch.stderr,
            self._cwd,
            self,
            run_command,
        )
        opened.display.elsewhere = partial(self._elsewhere, opened)
        opened.display.on_change_behind = self._update_status
        opened.display.surroundings = self._surroundings
        opened.display.window_title = partial(self._window_title, opened)
        opened.on_first_prompt = partial(self._keep, opened)
        opened.on_work = self._branch.refresh
        opened.on_question = partial(self._call_for, opened)
        opened.on_rest = self._notifier.note_end
        kept = self._kept.get(session.session_id)
        if kept is not None:
            opened.first_words, opened.title = kept.first_words, kept.title
        self.opened.append(opened)
        self._show(opened)
        return opened

    def _begin(self, opened: OpenSession, start: str | None = None) -> None:
        task = asyncio.ensure_future(opened.run(start))
        self._tasks[task] = opened
        task.add_done_callback(self._ended)
        watch = asyncio.ensure_future(self._watch(opened))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, opened: OpenSession) -> None:
        """Notice the end of the agent between two turns; in a turn its prompt fails."""
        try:
            await opened.session.wait_closed()
        except ConnectionEnded as error:
            if not any(each.display.working for each in self.opened) and not self._left.done():
                self._left.set_exception(error)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """The person leaves, the connection has ended, or one session was closed."""
        opened = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if self._left.done() or task.cancelled():
            return
        if error is not None:
            self._left.set_exception(error)
        elif opened in self.opened:
            self._left.set_result(None)

    @property
    def current(self) -> OpenSession:
        """The session that is shown."""
        assert self._current is not None, "a session is added first"
        return self._current

    @property
    def draft(self) -> str:
        """What is in the input line, and what was queued in the session that is shown."""
        self.current.take_all_back()
        return self._editor.full_text

    def leave(self) -> None:
        """Leave, whatever is going on."""
        self.current.leave()

    def show_problem(self, problem: Problem) -> None:
        """Show a problem in the session that is shown; with `/verbose` every one in full."""
        if self._diagnosis.on:
            self._diagnosis.add_problem(problem)
        else:
            self.current.display.show_problem(problem)

    def _show_diagnosis(self, lines: Sequence[Line]) -> None:
        self.current.display.add_notes(lines, KIND)

    @property
    def verbose(self) -> bool:
        """Whether the agent's standard error, every problem and every loss are shown."""
        return self._diagnosis.on

    @verbose.setter
    def verbose(self, on: bool) -> None:
        self._diagnosis.on = on

    # ---- the session that is shown

    def _show(self, opened: OpenSession) -> None:
        before = self._current
        if before is opened:
            return
        if before is not None:
            before.leave_input()
            before.display.hide()
        self._before, self._current = before, opened
        self._last_elsewhere = self._elsewhere(opened)
        opened.take_input()
        if before is not None:
            self._print_heading(opened)
            if opened.display.is_open:
                opened.display.show_again()
            else:
                opened.display.open()

    def _print_heading(self, opened: OpenSession) -> None:
        number = self.opened.index(opened) + 1
        words = f"── {number} · {self._name(opened)} ".ljust(60, "─")
        self._place.writer.show([(), *line(words, "bold cyan").rows(self._place.writer.width)], [])

    def switch(self, number: int) -> None:
        """Show the open session of this number, counted from 1; 0 is the next one."""
        if len(self.opened) == 1 and number in (0, 1):
            self._note("This is the only open session. /new begins another one.")
        elif number > len(self.opened):
            self._note(f"There are only {len(self.opened)} open sessions. /new begins another one.")
        else:
            here = self.opened.index(self.current)
            self._show(self.opened[number - 1 if number else (here + 1) % len(self.opened)])

    def _note(self, words: str) -> None:
        self.current.display.print_lines([line(words, "dim")])

    def _name(self, opened: OpenSession) -> str:
        name = opened.title or opened.session.state.info.title or opened.first_words
        return shortened(name or "new session", _LONGEST)

    def _elsewhere(self, shown: OpenSession) -> Elsewhere:
        """What goes on behind the session that is shown."""
        words, asked = [], False
        for number, opened in enumerate(self.opened, 1):
            if opened is shown:
                continue
            if opened.questions.current is not None:
                words.append(f"{number} waits for you (Alt-{number})")
                asked = True
            elif opened.display.working:
                words.append(f"{number} works")
        return Elsewhere(", ".join(words), asked)

    def _update_status(self) -> None:
        """A session that is not shown has changed: show that if the status line is concerned."""
        elsewhere = self._elsewhere(self.current)
        if elsewhere != self._last_elsewhere:
            self._last_elsewhere = elsewhere
            self.current.display.redraw_soon()

    # ---- who works and where

    @property
    def _agent(self) -> str:
        """The name by which the agent was started, or else its own, or that of its program."""
        words = self._options.agent_words
        if words and words[0] != "--":
            return one_line(words[0])
        info = self._client.agent.info
        own = self._client.agent_name if info != NAMELESS else ""
        return own or one_line(os.path.basename(self._options.command[0]))

    def _surroundings(self) -> Surroundings:
        return self._around._replace(branch=self._branch.name)

    def _window_title(self, opened: OpenSession, state: State) -> str:
        if not self._has_title:
            return ""
        name = opened.title or opened.session.state.title or self._cwd.name
        return window_title(state, name)

    def _redraw(self) -> None:
        self.current.display.redraw_soon()

    def _call_for(self, opened: OpenSession, asked: PendingQuestion) -> None:
        """Call a person who is away for a question that waits."""

        def words() -> str | None:
            return asked.block.title if opened.questions.current is asked else None

        self._notifier.note_question(words)

    def leaves_work(self) -> str:
        """What is going on in other sessions, if it would be lost by leaving."""
        busy = [each for each in self.opened if each is not self.current and each.display.working]
        return f"The agent is working in {len(busy)} other session(s)." if busy else ""

    # ---- commands

    async def begin(self) -> None:
        """Begin another session, and show it."""
        setup = self._options.setup
        making = setup.new_session(self._client, self._cwd, self.show_problem)
        self._open(await self._counted("Creating a session", making))

    async def resume(self, session_id: str) -> None:
        """Resume a session of the agent, and show it; one that is open is shown."""
        for opened in self.opened:
            if opened.session.session_id == session_id:
                self._show(opened)
                return
        command, setup = self._options.command, self._options.setup
        making = setup.reopen(
            self._client, session_id, self._cwd, command, self.show_problem, replay=True
        )
        self._open(await self._counted(f"Loading session {session_id}", making))

    async def _counted(self, what: str, making: Awaitable[ClientSession]) -> ClientSession:
        """Open a session, and show how long it takes; the input line stays."""
        where = self.current.display
        seconds = Seconds(lambda passed: where.set_hint(f"{one_line(what)} … {passed:.0f} s"))
        try:
            session = await making
            await session.settled()  # a replay is printed above the first prompt
            return session
        finally:
            seconds.close()
            where.set_hint("")

    def _open(self, session: ClientSession) -> None:
        opened = self.add(session)
        opened.print_history()
        self._begin(opened)

    async def close(self) -> None:
        """Close the session that is shown, and show the one before it; the last one leaves."""
        closing = self.current
        if closing.display.working:
            raise LocalError("The agent is working in this session. Esc cancels the turn.")
        if len(self.opened) == 1:
            closing.end()
            return
        others = [each for each in self.opened if each is not closing]
        before = self._before if self._before in others else others[-1]
        assert before is not None
        self._note(f"Closed. {self._how_to_resume(closing)}".rstrip())
        self._show(before)
        self.opened.remove(closing)
        closing.end()
        closing.display.close()
        if self._client.can("close"):
            try:
                await closing.session.close()
            except RequestFailed as error:
                before.display.print_error(error)

    def rename(self, title: str) -> None:
        """Give the session that is shown a title; the agent is not told, ACP has no way to."""
        self.current.title = one_line(title)
        self._keep(self.current)
        self._note(f"The title is now “{self._name(self.current)}”. The agent does not see it.")

    def _keep(self, opened: OpenSession) -> None:
        session_id = opened.session.session_id
        words = opened.first_words, opened.title
        keep_session(self._file, self._options.command, session_id, self._cwd, *words)

    # ---- the list of sessions

    async def pick(self) -> None:
        """Have the person choose a session, and show it."""
        listed: list[v2.SessionInfo] = []
        if self._client.can("list"):
            listed = (await known_sessions(self._client, self._cwd)).sessions
        choices = self._choices(listed)
        display = self.current.display
        with display.suspended(), self._editor.paused():
            at = await pick(
                self._place.writer,
                self._place.keys,
                f"Sessions of {self._client.agent_name} in this directory",
                [entry for _, entry in choices],
            )
            typed = self._place.keys.take_ahead()
        if at is not None:
            await self.resume(choices[at][0])
        if typed:
            self._editor.insert(typed)

    def _choices(self, listed: Sequence[v2.SessionInfo]) -> list[tuple[str, Entry]]:
        """The sessions to choose from: open ones, those of the agent, and those kept here."""
        now = datetime.now(UTC)
        known = {info.session_id: info for info in listed}
        made = []
        for number, opened in enumerate(self.opened, 1):
            info = known.pop(opened.session.session_id, None)
            details = [f"Alt-{number}", *([age(info.updated_at, now)] if info else [])]
            mark = "●" if opened is self.current else "○"
            made.append(
                (opened, self._entry(self._name(opened), details, opened.first_words, mark))
            )
        found = [(each.session.session_id, entry) for each, entry in made]
        for session_id, info in known.items():
            kept = self._kept.get(session_id, KeptSession(session_id, "", ""))
            name = kept.title or title(info, _LONGEST) or kept.first_words or one_line(session_id)
            entry = self._entry(name, [age(info.updated_at, now)], kept.first_words)
            found.append((session_id, entry))
        if not self._client.can("list") and self._can_reopen:
            listed_ids = {session_id for session_id, _ in found}
            for kept in reversed(self._kept.values()):
                if kept.session_id not in listed_ids and Path(kept.cwd) == self._cwd:
                    name = kept.title or kept.first_words or one_line(kept.session_id)
                    entry = self._entry(name, [age(kept.updated_at, now)], kept.first_words)
                    found.append((kept.session_id, entry))
        return found

    @staticmethod
    def _entry(name: str, details: Sequence[str], first_words: str, mark: str = "") -> Entry:
        first = shortened(first_words, _LONGEST)
        shown = [*details, f"“{first}”" if first and first != name else ""]
        return Entry(shortened(name, _LONGEST), " · ".join(filter(None, shown)), mark)

    @property
    def _can_reopen(self) -> bool:
        return self._client.can("load") or self._client.can("resume")

    # ---- how to come back

    def _how_to_resume(self, opened: OpenSession) -> str:
        if not self._can_reopen or not opened.first_words:
            return ""
        return f"To resume it: {self._options.resume_command(opened.session.session_id)}"

    @property
    def resumable(self) -> str | None:
        """The id of the session that is shown, if the agent can resume it."""
        if not self._can_reopen or not self.current.first_words:
            return None
        return self.current.session.session_id

    def farewell(self) -> list[str]:
        """How to resume each session, to be printed when the person leaves."""
        return [words for opened in self.opened if (words := self._how_to_resume(opened))]
