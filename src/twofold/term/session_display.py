"""Decides when one session is redrawn: live during a turn, above the prompt between two turns.

Changes of the session arrive at most sixty times a second (`ClientSession.on_change`), and nothing
is drawn while nothing changes. The live area shows the session; problems and decisions are added to
it as remarks.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from twofold.client.session import ClientSession
from twofold.errors import TwofoldError
from twofold.peer.problems import Problem
from twofold.policy import Decided
from twofold.session import ToolCall
from twofold.session.changes import Change
from twofold.term.images import MOST_ROWS, Pictures
from twofold.term.input.keys import typed_rows
from twofold.term.input.prompt import Prompt
from twofold.term.input.questions import Questions
from twofold.term.lines import Drawable, Line, Row, all_rows, cut, line
from twofold.term.live_area import LiveArea
from twofold.term.terminal_writer import TerminalWriter
from twofold.text import one_line, sanitize
from twofold.view.live import Key
from twofold.view.outline import footer

RATE: Final = 60.0
"""How often changes of the session are drawn, per second, at most."""
_QUIET: Final = 0.2
"""How many seconds without a change have to pass before something is printed above a prompt."""
_LONGEST_QUIET: Final = 1.0
"""After so many seconds it is printed in any case."""
_SHOWN: Final = 3
"""How many problems of one kind are shown in full, in one turn."""
_LONGEST: Final = 400


class SessionDisplay:
    """One session on one terminal."""

    def __init__(
        self,
        session: ClientSession,
        writer: TerminalWriter,
        prompt: Prompt,
        questions: Questions,
        pictures: Pictures,
    ) -> None:
        self.live_area = LiveArea(session.state, self._notes)
        self.working = False
        """True if the terminal belongs to this display; otherwise it belongs to the prompt."""
        self.cancelling = False
        """True if the person has cancelled the turn."""
        self.typed: Callable[[], str] = lambda: ""
        """Returns what is typed ahead."""
        self._session = session
        self._writer = writer
        self._prompt = prompt
        self._questions = questions
        self._pictures = pictures
        self._decided: dict[str, list[Decided]] = {}
        self._seen_decisions = 0
        self._problems: dict[str, int] = {}
        self._next_draw: asyncio.Handle | None = None
        self._foot = 0
        self._quiet: asyncio.TimerHandle | None = None
        self._waiting_since = 0.0
        self._above: asyncio.Task[None] | None = None
        self._watching = session.on_change(self._changed, RATE)

    def begin_work(self) -> None:
        """Take the terminal, and draw changes live."""
        self.working = True
        self._draw()

    def end_work(self) -> None:
        """Settle everything in the scrollback, and leave the terminal to the prompt."""
        self.working = self.cancelling = False
        self._stop(self._next_draw)
        self._next_draw = None
        self._session.flush_changes()
        self._note_decisions()
        self._count_problems()
        self.print(self.live_area.settle(self._writer.width).settled)
        self._writer.leave()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave the terminal to another program for a block, and redraw the live rows after it."""
        self._writer.show([], [])
        self._writer.leave()
        try:
            yield
        finally:
            self._questions.show_again()
            self._draw()

    def close(self) -> None:
        """Stop watching the session, and leave the terminal as it was."""
        self._watching.cancel()
        self._stop(self._next_draw, self._quiet)
        self._writer.leave()

    @staticmethod
    def _stop(*timers: asyncio.Handle | None) -> None:
        for timer in timers:
            if timer is not None:
                timer.cancel()

    @property
    def frames(self) -> int:
        """How many times something was written."""
        return self._writer.frames

    # ---- settled rows

    @property
    def width(self) -> int:
        """How wide rows may be."""
        return self._writer.width

    def print(self, rows: Sequence[Row]) -> None:
        """Write rows, and the pictures that belong to them."""
        self._writer.show(rows, [])
        pictures, self.live_area.pictures = self.live_area.pictures, []
        for content in pictures:
            if content.data:
                size = self._writer.width, min(MOST_ROWS, self._writer.height)
                picture = self._pictures.drawn(content.data, content.mime_type, *size)
                if picture is not None:
                    self._writer.write(picture)

    def print_lines(self, lines: Iterable[Drawable]) -> None:
        """Print lines below a blank row."""
        self.print([(), *all_rows(lines, self._writer.width)])

    def print_error(self, error: TwofoldError) -> None:
        """Print an error."""
        self.print_lines([line(sanitize(str(error)), "red")])

    def hand_over(self) -> None:
        """Print a blank row, and leave the terminal to the prompt."""
        self.print([()])
        self._writer.leave()

    # ---- changes and problems

    def _changed(self, changes: Iterable[Change]) -> None:
        changes = list(changes)
        self._note_decisions()
        self.live_area.apply(changes)
        self._questions.apply(changes)
        if not self.working:
            self._prompt.refresh()
        self.redraw_soon()

    def show_problem(self, problem: Problem) -> None:
        """Show a problem that did not end the session; losses of a conversion are not shown."""
        if problem.kind == "loss":
            return
        self._problems[problem.kind] = self._problems.get(problem.kind, 0) + 1
        if self._problems[problem.kind] <= _SHOWN:
            self._warn(one_line(str(problem)))

    def _count_problems(self) -> None:
        """Show how many more problems there were of each kind."""
        for number in self._problems.values():
            if number > _SHOWN:
                self._warn(f"({number - _SHOWN:,} more problems like this)")
        self._problems = {}

    def _warn(self, words: str) -> None:
        self.live_area.add_remark([Line(((words[:_LONGEST], "yellow"),), head=(("! ", "yellow"),))])
        self.redraw_soon()

    def _note_decisions(self) -> None:
        decisions = self._session.decisions
        for decided in decisions[self._seen_decisions :]:
            self._seen_decisions += 1
            if decided.tool_call_id in self._session.state.tool_calls:
                self._decided.setdefault(decided.tool_call_id or "", []).append(decided)
            else:
                words = f"? {one_line(decided.subject.title)}: {decided}"
                self.live_area.add_remark([line(words, "dim italic")])

    def _notes(self, key: Key) -> list[str]:
        entry = self._session.state.entries[int(key.identity)] if key.kind == "entry" else None
        if not isinstance(entry, ToolCall):
            return []
        return [str(decided) for decided in self._decided.get(entry.tool_call_id, ())]

    # ---- while work goes on

    def redraw_soon(self) -> None:
        """Redraw once, after everything that is queued in the event loop now."""
        if not self.working:
            self._print_soon()
        elif self._next_draw is None:
            self._next_draw = asyncio.get_running_loop().call_soon(self._draw)

    def _draw(self) -> None:
        self._next_draw = None
        width, height = self._writer.width, self._writer.height
        whole = not self._writer.is_narrower
        if self._writer.overflows and self._questions.leave_on_screen(whole=whole):
            # half of it is in the scrollback: there the other half follows, instead of all of it
            self._writer.keep(self._foot)
            self.live_area.leave_on_screen()
        typed = typed_rows(self.typed(), width)
        self._show_question(width, height - len(typed) - 2)
        foot = [*self._questions.key_rows(width), (), *typed, self._status(width)]
        self._foot = len(foot)
        pinned = [*self._questions.description_rows(width), *foot]
        settled, live = self.live_area.draw(width, height, pinned)
        if self.live_area.pictures:
            self.print(settled)
            self._writer.show([], live)
        else:
            self._writer.show(settled, live)

    def _show_question(self, width: int, room: int) -> None:
        """The person sees all of a question: what does not fit goes to the scrollback first."""
        asked = self._questions.current
        if asked is not None and not asked.seen:
            self._session.flush_changes()  # what it is about is in the live area
        call = self._session.state.tool_calls.get(asked.tool_call_id or "") if asked else None
        self.live_area.set_question(Key("entry", call.index) if call is not None else None)
        printed = self._questions.rows_to_print(width, room, dumb=self._writer.dumb)
        if asked is not None and printed:
            self.live_area.print_question(printed, width, whole=not asked.folded)

    def _status(self, width: int) -> Row:
        state = footer(self._session.state)
        if self.cancelling:
            head = (("⊘ cancelling", "red"), (" · Ctrl-C again gives up and leaves", "dim"))
        elif self._questions.current is not None:
            words = "waiting for you" if self._questions.is_open() else "press Tab to answer"
            head = ((f"? {words}", "bold magenta"), (" · Ctrl-C cancels the turn", "dim"))
        else:
            head = (("◐ working", "yellow"), (" · Ctrl-C cancels", "dim"))
        # tokens and cost first: what does not fit is cut off
        facts = [*filter(None, [state.usage]), *(f"{s.name}: {s.value}" for s in state.settings)]
        rest = "".join([f" · {fact}" for fact in facts])
        return cut((*head, (rest, "dim")), width)

    # ---- above the prompt

    def _print_soon(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._quiet is None:
            self._waiting_since = now
        else:
            self._quiet.cancel()
        at = min(now + _QUIET, self._waiting_since + _LONGEST_QUIET)
        self._quiet = asyncio.get_running_loop().call_at(at, self._print_above)

    def _print_above(self) -> None:
        self._quiet = None
        if self.working:
            return
        if self._above is not None and not self._above.done():
            self._print_soon()
            return
        rows = self.live_area.draw_finished(self._writer.width).settled
        if rows:

            def write() -> None:
                self.print([*(rows if rows[0] else rows[1:]), ()])
                self._writer.leave()

            self._above = asyncio.create_task(self._prompt.print_above(write))
