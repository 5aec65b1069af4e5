"""What the client draws, and when: live while work goes on, above the prompt between two turns.

Changes of the session arrive at most sixty times a second (`ClientSession.on_change`), and nothing
is drawn while nothing changes.
The board shows the session; problems and decisions are shown beside it.
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
from twofold.term.board import Board
from twofold.term.display import Display
from twofold.term.images import MOST_ROWS, Pictures
from twofold.term.input.keys import typed_rows
from twofold.term.input.prompt import Prompt
from twofold.term.input.questions import Questions
from twofold.term.lines import Drawn, Line, Row, all_rows, cut, line
from twofold.text import one_line, sanitize
from twofold.view.live import Key
from twofold.view.outline import footer

RATE: Final = 60.0
"""How often changes of the session are drawn, per second, at most."""
_QUIET: Final = 0.2
"""For how many seconds nothing has to come before something is printed above a prompt."""
_LONGEST_QUIET: Final = 1.0
"""After so many seconds it is printed in any case."""
_SHOWN: Final = 3
"""How many problems of one kind are shown in full, in one turn."""
_LONGEST: Final = 400


class Drawing:
    """One session on one terminal."""

    def __init__(
        self,
        session: ClientSession,
        display: Display,
        prompt: Prompt,
        questions: Questions,
        pictures: Pictures,
    ) -> None:
        self.board = Board(session.state, self._notes)
        self.working = False
        """The display is ours; otherwise it is the prompt's."""
        self.cancelling = False
        """The person has cancelled what goes on."""
        self.typed: Callable[[], str] = lambda: ""
        """What is typed ahead."""
        self._session = session
        self._display = display
        self._prompt = prompt
        self._questions = questions
        self._pictures = pictures
        self._decided: dict[str, list[Decided]] = {}
        self._seen_decisions = 0
        self._problems: dict[str, int] = {}
        self._drawing: asyncio.Handle | None = None
        self._foot = 0
        self._quiet: asyncio.TimerHandle | None = None
        self._waiting_since = 0.0
        self._above: asyncio.Task[None] | None = None
        self._watching = session.on_change(self._changed, RATE)

    def begin(self) -> None:
        """Work begins: changes are drawn live."""
        self.working = True
        self._draw()

    def end(self) -> None:
        """Work has ended: all there is goes to the scrollback, and the display to the prompt."""
        self.working = self.cancelling = False
        self._stop(self._drawing)
        self._drawing = None
        self._session.flush_changes()
        self._note_decisions()
        self._count_problems()
        self.print(self.board.settle(self._display.width).settled)
        self._display.leave()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave the terminal to somebody else, in a block: what is live is drawn again after it."""
        self._display.show([], [])
        self._display.leave()
        try:
            yield
        finally:
            self._questions.show_again()
            self._draw()

    def close(self) -> None:
        """Watch the session no more, and leave the terminal as it was."""
        self._watching.cancel()
        self._stop(self._drawing, self._quiet)
        self._display.leave()

    @staticmethod
    def _stop(*timers: asyncio.Handle | None) -> None:
        for timer in timers:
            if timer is not None:
                timer.cancel()

    @property
    def frames(self) -> int:
        """How many times something was written."""
        return self._display.frames

    # ---- for good

    @property
    def width(self) -> int:
        """How wide rows may be."""
        return self._display.width

    def print(self, rows: Sequence[Row]) -> None:
        """Write rows, and the pictures that belong to them."""
        self._display.show(rows, [])
        pictures, self.board.pictures = self.board.pictures, []
        for content in pictures:
            if content.data:
                size = self._display.width, min(MOST_ROWS, self._display.height)
                picture = self._pictures.drawn(content.data, content.mime_type, *size)
                if picture is not None:
                    self._display.write(picture)

    def tell(self, lines: Iterable[Drawn]) -> None:
        """Print lines below a blank row."""
        self.print([(), *all_rows(lines, self._display.width)])

    def fault(self, error: TwofoldError) -> None:
        """Print an error."""
        self.tell([line(sanitize(str(error)), "red")])

    def hand_over(self) -> None:
        """Leave a blank row, and the display to the prompt."""
        self.print([()])
        self._display.leave()

    # ---- changes and problems

    def _changed(self, changes: Iterable[Change]) -> None:
        changes = list(changes)
        self._note_decisions()
        self.board.take(changes)
        self._questions.take(changes)
        if not self.working:
            self._prompt.refresh()
        self.soon()

    def problem(self, problem: Problem) -> None:
        """Show a problem that was survived; losses of a conversion are not shown here."""
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
        self.board.remark([Line(((words[:_LONGEST], "yellow"),), head=(("! ", "yellow"),))])
        self.soon()

    def _note_decisions(self) -> None:
        decisions = self._session.decisions
        for decided in decisions[self._seen_decisions :]:
            self._seen_decisions += 1
            if decided.tool_call_id in self._session.state.tool_calls:
                self._decided.setdefault(decided.tool_call_id or "", []).append(decided)
            else:
                words = f"? {one_line(decided.subject.title)}: {decided}"
                self.board.remark([line(words, "dim italic")])

    def _notes(self, key: Key) -> list[str]:
        entry = self._session.state.entries[int(key.identity)] if key.kind == "entry" else None
        if not isinstance(entry, ToolCall):
            return []
        return [str(decided) for decided in self._decided.get(entry.tool_call_id, ())]

    # ---- while work goes on

    def soon(self) -> None:
        """Draw once, when all that happens now has happened."""
        if not self.working:
            self._print_soon()
        elif self._drawing is None:
            self._drawing = asyncio.get_running_loop().call_soon(self._draw)

    def _draw(self) -> None:
        self._drawing = None
        width, height = self._display.width, self._display.height
        whole = not self._display.is_narrower
        if self._display.overflows and self._questions.keep(whole=whole):
            # half of it is in the scrollback: there the other half follows, instead of all of it
            self._display.keep(self._foot)
            self.board.keep()
        typed = typed_rows(self.typed(), width)
        self._show_question(width, height - len(typed) - 2)
        foot = [*self._questions.keys(width), (), *typed, self._status(width)]
        self._foot = len(foot)
        pinned = [*self._questions.description(width), *foot]
        frame = self.board.frame(width, height, pinned)
        if self.board.pictures:
            self.print(frame.settled)
            self._display.show([], frame.live)
        else:
            self._display.show(frame.settled, frame.live)

    def _show_question(self, width: int, room: int) -> None:
        """The person sees all of a question: what does not fit goes to the scrollback first."""
        asked = self._questions.current
        if asked is not None and not asked.seen:
            self._session.flush_changes()  # what it is about is on the board
        call = self._session.state.tool_calls.get(asked.tool_call_id or "") if asked else None
        self.board.ask(Key("entry", call.index) if call is not None else None)
        printed = self._questions.printed(width, room, dumb=self._display.dumb)
        if asked is not None and printed:
            self.board.ask_in_full(printed, width, whole=not asked.folded)

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
        rows = self.board.quiet(self._display.width).settled
        if rows:

            def write() -> None:
                self.print([*(rows if rows[0] else rows[1:]), ()])
                self._display.leave()

            self._above = asyncio.create_task(self._prompt.print_above(write))
