"""A person and an agent, turn by turn, on one terminal.

While a turn goes on the display and the keys are ours; between turns they are the prompt's, and
what still comes is printed above it. Nothing is drawn more often than sixty times a second, and
nothing at all while nothing changes.
"""

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from prompt_toolkit.input import Input

from twofold.errors import LocalError, TwofoldError
from twofold.policy import Decided
from twofold.rpc.errors import RequestFailed
from twofold.runtime.client.prompting import Part
from twofold.runtime.client.session import ClientSession
from twofold.runtime.client.turns import Reply
from twofold.runtime.errors import Problem
from twofold.session import ToolCall
from twofold.session.changes import Change
from twofold.term.content.images import MOST_ROWS, Pictures
from twofold.term.draw import footer_facts, plan_lines
from twofold.term.input.keys import Typed
from twofold.term.input.mentions import parts_of
from twofold.term.input.order_lines import config_lines, help_lines, mode_lines, usage_lines
from twofold.term.input.orders import Order, read_choice, read_mode, read_order, text_to_send
from twofold.term.input.prompt import Prompt
from twofold.term.input.questions import Questions
from twofold.term.lines import Drawn, Line, Row, all_rows, cut, line
from twofold.term.live.board import Board
from twofold.term.live.cards import user_lines
from twofold.term.live.display import Display
from twofold.text import one_line, sanitize
from twofold.view.follow import Key
from twofold.view.outline import STOP_REASONS, footer, plan_block
from twofold.wire.content import TextContent

RATE: Final = 60.0
"""How often the display is drawn, per second, at most."""
GIVE_UP: Final = 10.0
"""How many seconds an agent has to end a turn that was cancelled."""
_QUIET: Final = 0.2
"""For how many seconds nothing has to come before something is printed above a prompt."""

_TOLD: Final = 3
"""How many problems of one kind are told in full, in one turn."""
_LONGEST: Final = 400

T = TypeVar("T")


class Leave(Exception):
    """The person wants to leave, whatever goes on."""


class Conversation:
    """The turns with one session."""

    def __init__(
        self,
        session: ClientSession,
        display: Display,
        prompt: Prompt,
        keys: Input,
        questions: Questions,
        pictures: Pictures,
        cwd: Path,
    ) -> None:
        self._session = session
        self._display = display
        self._prompt = prompt
        self._questions = questions
        self._pictures = pictures
        self._cwd = cwd
        self._keys = Typed(keys, self._pressed)
        self._board = Board(session.state, self._notes)
        self._decided: dict[str, list[Decided]] = {}
        self._seen_decisions = 0
        self._problems: dict[str, int] = {}
        self._working = False
        self._cancelling: asyncio.Task[None] | None = None
        self._asking: asyncio.Future[str | None] | None = None
        self._leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drawing: asyncio.TimerHandle | None = None
        self._drawn = 0.0
        self._quiet: asyncio.TimerHandle | None = None
        self._above: asyncio.Task[None] | None = None
        questions.changed = self._asked
        self._stop_watching = session.on_change(self._changed, RATE)

    def close(self) -> None:
        """Watch the session no more, and leave the terminal as it was."""
        self._stop_watching()
        for timer in (self._drawing, self._quiet):
            if timer is not None:
                timer.cancel()
        self._display.leave()

    # ---- prompts

    def history(self) -> None:
        """Show what was said before."""
        self._board.everything()
        self._print(self._board.settle(self._display.width).settled)

    async def talk(self, start: str | None, ahead: str = "") -> None:
        """Turn after turn, until the person leaves; `ahead` was typed before it could be heard."""
        if start is not None:
            self._print([()])
            await self._said(start)
        while True:
            text = await self._ask(ahead)
            ahead = ""
            if text is None or not await self._said(text, self._prompt.pasted):
                return

    async def _ask(self, prefill: str) -> str | None:
        """What the person says next; whatever the agent asks meanwhile is answered first."""
        self._print([()])
        self._display.leave()
        prefill += self._keys.ahead()
        while True:
            if self._questions.current is not None:  # it was asked as the turn ended
                await self._attend()
                prefill += self._keys.ahead()
            self._asking = asyncio.ensure_future(self._prompt.ask(prefill))
            await self._unless_leaving(self._asking)
            if not self._asking.cancelled():
                return self._asking.result()
            prefill = self._prompt.typed

    async def _said(self, text: str, pasted: Sequence[str] = ()) -> bool:
        """Do what the person said; False to leave."""
        self._print(all_rows(user_lines([TextContent(text.strip())]), self._display.width))
        try:
            order = read_order(text, self._session.state)
            if order is not None:
                return await self._obey(order)
            words = text_to_send(text, self._session.state)
            await self._turn(words, parts_of(words, self._cwd, pasted))
        except LocalError as error:
            self._fault(error)
        except RequestFailed as error:
            self._fault(error)
        return True

    # ---- orders

    async def _obey(self, order: Order) -> bool:
        state = self._session.state
        match order.name:
            case "quit":
                return False
            case "help":
                self.tell(help_lines(state))
            case "usage":
                self.tell(usage_lines(state))
            case "plan":
                self.tell(self._plans())
            case "mode" if order.argument:
                await self._session.set_mode(read_mode(order.argument, state))
                self.tell(mode_lines(state))
            case "mode":
                self.tell(mode_lines(state))
            case "config":
                await self._config(order.argument)
            case "thoughts":
                self._board.fold_thoughts = not self._board.fold_thoughts
                how = "folded" if self._board.fold_thoughts else "shown in full"
                self.tell([line(f"Thoughts are {how} from now on.", "dim")])
            case "expand":
                rows = self._board.expanded(self._display.width)
                self._print([(), *rows] if rows else line("Nothing was folded.", "dim").rows(None))
        return True

    async def _config(self, argument: str) -> None:
        if not argument:
            self.tell(config_lines(self._session.state))
            return
        choice = read_choice(argument, self._session.state)
        if choice.value is not None:
            await self._session.set_config_option(choice.config_id, choice.value)
        self.tell(config_lines(self._session.state, choice.config_id))

    def _plans(self) -> list[Drawn]:
        plans = [plan_block(update.plan) for update in self._session.state.plans.values()]
        shown = [each for plan in plans for each in plan_lines(plan)]
        return shown or [line("The agent has no plan.", "dim")]

    # ---- turns

    async def _turn(self, words: str, parts: Sequence[Part]) -> None:
        self._board.begin(words)  # they are on the screen, and need not be shown if repeated
        reply: Reply | None = None
        with self._at_work():
            turn = asyncio.ensure_future(self._session.prompt(*parts))
            try:
                await self._unless_leaving(turn)
                reply = turn.result()
            except RequestFailed as error:
                self._board.remark([line(sanitize(str(error)), "red")])
        if reply is not None:
            self._tell_end(reply)

    def _tell_end(self, reply: Reply) -> None:
        if reply.given_up:
            words = "The agent did not end the turn: it was given up."
            self.tell([line(words, "yellow")])
        elif reply.stop_reason != "end_turn":
            reason = STOP_REASONS.get(reply.stop_reason) or one_line(reply.stop_reason)
            self.tell([line(f"The turn ended: {reason}.", "yellow")])

    async def _attend(self) -> None:
        """Something is asked between two turns."""
        self._board.begin()
        with self._at_work():
            while self._questions.current is not None:
                answered = asyncio.ensure_future(_settled(self._questions.current.answer))
                await self._unless_leaving(answered)
                await asyncio.sleep(0)  # whoever asked goes on

    async def _unless_leaving(self, work: asyncio.Future[T]) -> None:
        """Wait for the work, or for the person to give up."""
        try:
            both: set[asyncio.Future[Any]] = {work, self._leaving}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._leaving.done() and not work.done():
                raise Leave
        finally:
            if not work.done():
                work.cancel()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """The display and the keys are ours; at the end all there is goes to the scrollback."""
        self._working = True
        with self._keys.listening(), _resized(self._soon):
            try:
                self._draw()
                yield
            finally:
                self._working, self._cancelling = False, None
                if self._drawing is not None:
                    self._drawing.cancel()
                    self._drawing = None
                self._session.flush_changes()
                self._note_decisions()
                self._tell_problems()
                self._print(self._board.settle(self._display.width).settled)
                self._display.leave()

    def leave(self) -> None:
        """Leave, whatever goes on."""
        if not self._leaving.done():
            self._leaving.set_result(None)

    def _interrupt(self) -> None:
        """Cancel the turn; if that was done already, leave."""
        if self._working and self._cancelling is None:
            self._cancelling = asyncio.create_task(self._session.cancel(GIVE_UP))
            self._session.state.cancel()
            self._board.cancelled()
            self._soon()
        else:
            self.leave()

    def _pressed(self, key: str) -> bool:
        if key == "c-c":
            self._interrupt()
        elif key == "c-o":
            self._board.unfolded = not self._board.unfolded
            self._board.redraw()
            self._soon()
        elif key == "c-l":
            self._soon()
        else:
            return self._questions.press(key)
        return True

    # ---- what comes

    def _changed(self, changes: Iterable[Change]) -> None:
        self._note_decisions()
        self._board.take(changes)
        if self._working:
            self._soon()
        else:
            self._prompt.refresh()
            self._print_soon()

    def problem(self, problem: Problem) -> None:
        """Tell what went wrong and was survived; what a conversion loses is no concern here."""
        if problem.kind == "loss":
            return
        self._problems[problem.kind] = self._problems.get(problem.kind, 0) + 1
        if self._problems[problem.kind] <= _TOLD:
            self._remark(one_line(str(problem)), "yellow")

    def _tell_problems(self) -> None:
        """Of what went wrong again and again only the number is told."""
        for number in self._problems.values():
            if number > _TOLD:
                self._remark(f"({number - _TOLD:,} more problems like this)", "yellow")
        self._problems = {}

    def _remark(self, words: str, style: str) -> None:
        self._board.remark([Line(((words[:_LONGEST], style),), head=(("! ", style),))])
        if self._working:
            self._soon()
        else:
            self._print_soon()

    def _asked(self) -> None:
        if self._working:
            self._soon()
        elif self._questions.current is not None and self._asking is not None:
            self._asking.cancel()  # what was typed so far stands there again afterwards

    # ---- decisions

    def _note_decisions(self) -> None:
        decisions = self._session.decisions
        for decided in decisions[self._seen_decisions :]:
            self._seen_decisions += 1
            if decided.tool_call_id in self._session.state.tool_calls:
                self._decided.setdefault(decided.tool_call_id or "", []).append(decided)
            else:
                words = f"? {one_line(decided.subject.title)}: {decided}"
                self._board.remark([line(words, "dim italic")])

    def _notes(self, key: Key) -> list[str]:
        entry = self._session.state.entries[int(key.identity)] if key.kind == "entry" else None
        if not isinstance(entry, ToolCall):
            return []
        return [str(decided) for decided in self._decided.get(entry.tool_call_id, ())]

    # ---- drawing

    def _soon(self) -> None:
        """Draw, but not more often than the eye sees."""
        if self._drawing is None:
            loop = asyncio.get_running_loop()
            self._drawing = loop.call_at(max(loop.time(), self._drawn + 1 / RATE), self._draw)

    def _draw(self) -> None:
        self._drawing = None
        if not self._working:
            return
        self._drawn = asyncio.get_running_loop().time()
        width, height = self._display.width, self._display.height
        self._show_question(width, height)
        pinned = [*self._questions.rows(width), (), self._status(width)]
        frame = self._board.frame(width, height, pinned)
        if self._board.pictures:
            self._print(frame.settled)
            self._display.show([], frame.live)
        else:
            self._display.show(frame.settled, frame.live)

    def _show_question(self, width: int, height: int) -> None:
        """Whoever is asked sees all of it: what does not fit goes to the scrollback first."""
        asked = self._questions.current
        if asked is None or asked.seen is not None:
            return
        room = height - len(asked.rows(width)) - 2
        call = self._session.state.tool_calls.get(asked.tool_call_id or "")
        if call is not None:
            self._board.ask(Key("entry", call.index), width, room)
        if room < 0:
            asked.printed = True
            full = asked.rows(width) if self._display.dumb else asked.told(width)
            self._board.ask_in_full(full, width)

    def _status(self, width: int) -> Row:
        state = footer(self._session.state)
        if self._cancelling is not None:
            head = (("⊘ cancelling", "red"), (" · Ctrl-C again gives up and leaves", "dim"))
        elif self._questions.current is not None:
            head = (("? waiting for you", "bold magenta"), (" · Ctrl-C cancels the turn", "dim"))
        else:
            head = (("◐ working", "yellow"), (" · Ctrl-C cancels", "dim"))
        facts = footer_facts(state)[: -2 if state.cancelling else -1]
        rest = "".join([f" · {fact}" for fact in facts])
        return cut((*head, (rest, "dim")), width)

    def tell(self, lines: Iterable[Drawn]) -> None:
        """Say something, for good."""
        self._print([(), *all_rows(lines, self._display.width)])

    def _fault(self, error: TwofoldError) -> None:
        self.tell([line(sanitize(str(error)), "red")])

    def _print(self, rows: Sequence[Row]) -> None:
        """Write rows for good, and the pictures that belong to them."""
        self._display.show(rows, [])
        pictures, self._board.pictures = self._board.pictures, []
        for content in pictures:
            if content.data:
                size = self._display.width, min(MOST_ROWS, self._display.height)
                picture = self._pictures.drawn(content.data, content.mime_type, *size)
                if picture is not None:
                    self._display.write(picture)

    # ---- above the prompt

    def _print_soon(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = asyncio.get_running_loop().call_later(_QUIET, self._print_above)

    def _print_above(self) -> None:
        self._quiet = None
        if self._working or (self._above is not None and not self._above.done()):
            return
        rows = self._board.quiet(self._display.width).settled
        if rows:

            def write() -> None:
                self._print([*(rows if rows[0] else rows[1:]), ()])
                self._display.leave()

            self._above = asyncio.create_task(self._prompt.print_above(write))


async def _settled(answer: asyncio.Future[T]) -> None:
    await asyncio.wait({answer})


@contextmanager
def _resized(redraw: Callable[[], None]) -> Iterator[None]:
    """Draw again when the size of the terminal changes, in a block."""
    loop = asyncio.get_running_loop()
    number = getattr(signal, "SIGWINCH", None)
    if number is None:
        yield
        return
    loop.add_signal_handler(number, redraw)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)
