"""Decides when one session is redrawn, and what is below it: questions, queue, input line, status.

Changes of the session arrive at most sixty times a second (`ClientSession.on_change`), and nothing
is drawn while nothing changes, except for the seconds of a turn. The live area shows the session;
problems and decisions are added to it as remarks. Between two turns everything that is finished
goes to the scrollback, and only the input line is live.
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
from twofold.term.input.editor import Editor, Entered
from twofold.term.input.questions import Questions
from twofold.term.lines import Drawable, Line, Row, all_rows, cut, line, plain
from twofold.term.live_area import LiveArea, ScreenUpdate
from twofold.term.status import Elsewhere, State, Surroundings, status_row
from twofold.term.terminal_writer import Cursor, TerminalWriter
from twofold.text import one_line, sanitize
from twofold.view.blocks import Setting
from twofold.view.live import Key
from twofold.view.outline import setting_of
from twofold.wire import v2
from twofold.wire.content import ImageContent

RATE: Final = 60.0
"""How often changes of the session are drawn, per second, at most."""
_QUIET: Final = 0.2
"""How many seconds without a change have to pass before something is printed between two turns."""
_LONGEST_QUIET: Final = 1.0
"""After so many seconds it is printed in any case."""
_SHOWN: Final = 3
"""How many problems of one kind are shown in full, in one turn."""
_LONGEST: Final = 400
_QUEUED_ROWS: Final = 3
"""How many queued prompts are shown."""
_INPUT_ROWS: Final = 10
"""How many rows of the input line and its completions are shown."""


class SessionDisplay:
    """One session on one terminal."""

    def __init__(
        self,
        session: ClientSession,
        writer: TerminalWriter,
        editor: Editor,
        questions: Questions,
        pictures: Pictures,
    ) -> None:
        self.live_area = LiveArea(session.state, self._notes, next(iter(session.roots), None))
        self.working = False
        """True during a turn."""
        self.cancelling = False
        """True if the person has cancelled the turn."""
        self.sending = False
        """True from Enter until what was entered is done, also before and after its turn."""
        self.queue: Sequence[Entered] = ()
        """What is sent after this turn."""
        self.elsewhere: Callable[[], Elsewhere] = Elsewhere
        """Returns what goes on in other sessions, for the status line."""
        self.surroundings: Callable[[], Surroundings] = Surroundings
        """Returns who works and where, for the status line; the model is added here."""
        self.window_title: Callable[[State], str] = lambda state: ""
        """Returns the title of the window; empty: it is left alone."""
        self.pending: Callable[[], Sequence[tuple[str, str]]] = lambda: ()
        """Returns what runs beside the agent or goes with the next prompt: a mark, and words."""
        self.held_up: Callable[[], bool] = lambda: False
        """Returns True while what is queued waits for something else than a turn."""
        self.on_change_behind: Callable[[], None] = lambda: None
        """Called when there is something to draw while something else has the terminal."""
        self._session = session
        self._writer = writer
        self._editor = editor
        self._questions = questions
        self._pictures = pictures
        self._decided: dict[str, list[Decided]] = {}
        self._seen_decisions = 0
        self._problems: dict[str, int] = {}
        self._next_draw: asyncio.Handle | None = None
        self._foot = 0
        self._hint = ""
        self._model: tuple[v2.SessionConfigSelect | None, Setting | None] = None, None
        self._shown = False
        self._away = 0
        """More than 0 while something else has the terminal: nothing is written then."""
        self._held: list[Row] = []
        """What to write when the terminal is back."""
        self._since = 0.0
        self._second: asyncio.TimerHandle | None = None
        self._quiet: asyncio.TimerHandle | None = None
        self._waiting_since = 0.0
        self._watching = session.on_change(self._changed, RATE)

    def open(self) -> None:
        """Show the input line from now on."""
        self._shown = True
        self._draw()

    @property
    def is_open(self) -> bool:
        """Whether the input line was shown, now or before."""
        return self._shown

    def set_hint(self, words: str) -> None:
        """Show this in the status line instead of the status; nothing shows the status again."""
        self._hint = words
        self.redraw_soon()

    def begin_work(self) -> None:
        """A turn begins: draw its changes live."""
        self.working = True
        self._since = asyncio.get_running_loop().time()
        self._tick()
        self._draw()

    def end_work(self) -> None:
        """The turn has ended: settle everything in the scrollback."""
        self._session.flush_changes()
        self.working = self.cancelling = False
        self._stop(self._next_draw, self._second)
        self._next_draw = self._second = None
        self._note_decisions()
        self._count_problems()
        self.print(self.live_area.settle(self._writer.width).settled)

    def _tick(self) -> None:
        """Show how many seconds the turn has taken, once a second."""
        loop = asyncio.get_running_loop()
        passed = int(loop.time() - self._since)
        if passed:
            self.redraw_soon()
        self._second = loop.call_at(self._since + passed + 1, self._tick)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave the terminal to another program for a block, and redraw the live rows after it."""
        self.hide()
        self._writer.leave()
        try:
            yield
        finally:
            self.show_again()

    def hide(self) -> None:
        """Write nothing until `show_again`: another session or program has the terminal."""
        if not self._away:
            self._writer.show([], [])
        self._away += 1

    def show_again(self) -> None:
        """Write what was printed meanwhile, and draw the live rows again."""
        self._away -= 1
        if not self._away:
            self._questions.show_again()
            held, self._held = self._held, []
            self.print([cut(row, self._writer.width) for row in held])

    def close(self) -> None:
        """Stop watching the session, and leave the terminal as it was."""
        self._shown = False
        self._watching.cancel()
        self._stop(self._next_draw, self._quiet, self._second)
        if not self._away:
            self._writer.show([], [])
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
        """Write rows for good, and the pictures that belong to them."""
        if self._away:
            self._held += rows
            self.on_change_behind()
            return
        pictures, self.live_area.pictures = self.live_area.pictures, []
        made = [picture for content in pictures if (picture := self._picture(content)) is not None]
        if made:
            self._writer.show(rows, [])
            for picture in made:
                self._writer.write(picture)
            rows = []
        self._draw(rows)

    def _picture(self, content: ImageContent) -> str | None:
        if not content.data:
            return None
        size = self._writer.width, min(MOST_ROWS, self._writer.height)
        return self._pictures.drawn(content.data, content.mime_type, *size)

    def print_lines(self, lines: Sequence[Drawable]) -> None:
        """Print lines below a blank row; during a turn in their place among what is live."""
        if self.working:
            self.live_area.add_remark(lines)
            self.redraw_soon()
        else:
            self.print([(), *all_rows(lines, self._writer.width)])

    def print_more(self, lines: Sequence[Drawable], kind: str) -> None:
        """Print lines right below those before; during a turn below those of the same kind."""
        if self.working:
            self.add_notes(lines, kind)
        else:
            self.print(all_rows(lines, self._writer.width))

    def add_notes(self, lines: Sequence[Drawable], kind: str) -> None:
        """Show lines that the person did not ask for one by one, among what is live."""
        self.live_area.add_notes(lines, kind)
        self.redraw_soon()

    def copy(self, escape: str) -> bool:
        """Write an escape sequence that copies a text; returns False if the terminal has none."""
        self._writer.copy(escape)
        return not self._writer.dumb

    def print_error(self, error: TwofoldError) -> None:
        """Print an error."""
        self.print_lines([line(sanitize(str(error)), "red")])

    # ---- changes and problems

    def _changed(self, changes: Iterable[Change]) -> None:
        changes = list(changes)
        self._note_decisions()
        self.live_area.apply(changes)
        self._questions.apply(changes)
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

    # ---- drawing

    def redraw_soon(self) -> None:
        """Redraw once, after everything that is queued in the event loop now."""
        if not self.working:
            self._settle_soon()
        if self._next_draw is None:
            self._next_draw = asyncio.get_running_loop().call_soon(self._draw)

    def _draw(self, printed: Sequence[Row] = ()) -> None:
        """Write the settled rows, and below them what is live now."""
        self._stop(self._next_draw)
        self._next_draw = None
        if self._away:
            self.on_change_behind()
            return
        if not self._shown:
            if printed:
                self._writer.show(printed, [])
            return
        width, height = self._writer.width, self._writer.height
        whole = not self._writer.is_narrower
        if self._writer.overflows and self._questions.leave_on_screen(whole=whole):
            # half of it is in the scrollback: there the other half follows, instead of all of it
            self._writer.keep(self._foot)
            self.live_area.leave_on_screen()
        typed = self._editor.rows(width, max(1, min(_INPUT_ROWS, height - 2)))
        above = [*self._pending_rows(width), *self._queue_rows(width)]
        state = self._state()
        below = [*above, *typed.rows, self._status(state, width)]
        self._writer.title = self.window_title(state)
        self._show_question(width, height - len(below) - 1)
        foot = [*self._questions.key_rows(width), (), *below]
        self._foot = len(foot)
        pinned = [*self._questions.description_rows(width), *foot]
        cursor = Cursor(len(typed.rows) - typed.row, typed.column)
        settled, live = self._drawn(width, height, pinned)
        settled = [*printed, *settled]
        if self.live_area.pictures:
            self.print(settled)
        else:
            self._writer.show(settled, live, cursor)
        if self._writer.dumb:
            self._writer.echo(None if self.working else plain(typed.rows[typed.row]))

    def _drawn(self, width: int, height: int, pinned: Sequence[Row]) -> ScreenUpdate:
        if self.working or self._questions.current is not None:
            return self.live_area.draw(width, height, pinned)
        return ScreenUpdate([], list(pinned))

    def _pending_rows(self, width: int) -> list[Row]:
        pending = self.pending()
        shown = [
            cut(((mark, "cyan"), (words, "dim")), width) for mark, words in pending[:_QUEUED_ROWS]
        ]
        if more := len(pending) - len(shown):
            shown.append(cut(((f"  and {more:,} more", "dim"),), width))
        return shown

    def _queue_rows(self, width: int) -> list[Row]:
        """What is sent after this turn."""
        if not self.working and not self.held_up():
            return []
        shown = [
            cut(((_queued(entered), "cyan"), (one_line(entered.shown), "dim")), width)
            for entered in self.queue[:_QUEUED_ROWS]
        ]
        if more := len(self.queue) - len(shown):
            shown.append(cut(((f"  and {more:,} more", "dim"),), width))
        return shown

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

    def _state(self) -> State:
        return State(
            working=self.working or self.sending,
            cancelling=self.cancelling,
            asked=self._questions.current is not None,
            answerable=self._questions.is_open(),
            typed=self._questions.has_typed_ahead(),
            queued=len(self.queue),
            seconds=int(asyncio.get_running_loop().time() - self._since) * self.working,
            hint=self._editor.hint or self._hint,
            warning=self._editor.warning,
            elsewhere=self.elsewhere(),
        )

    def _status(self, state: State, width: int) -> Row:
        option = self._session.models
        if option is not self._model[0]:  # agents may offer many: they are not searched every time
            self._model = option, setting_of(option) if option is not None else None
        around = self.surroundings()._replace(model=self._model[1])
        return status_row(state, self._session.state, width, around)

    # ---- between two turns

    def _settle_soon(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._quiet is None:
            self._waiting_since = now
        else:
            self._quiet.cancel()
        at = min(now + _QUIET, self._waiting_since + _LONGEST_QUIET)
        self._quiet = asyncio.get_running_loop().call_at(at, self._settle_finished)

    def _settle_finished(self) -> None:
        self._quiet = None
        if self.working or self._questions.current is not None:
            return
        rows = self.live_area.draw_finished(self._writer.width).settled
        if rows:
            self.print(rows if not rows[0] else [(), *rows])


def _queued(entered: Entered) -> str:
    return "⋯ next, why you rejected: " if entered.is_reason else "⋯ next: "
