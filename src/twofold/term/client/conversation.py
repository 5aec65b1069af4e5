"""A person and an agent, turn by turn, on one terminal.

While a turn goes on the keys are ours; between turns they are the prompt's. The first Ctrl-C
cancels a turn, the second leaves; what the agent asks is answered before anything else is said.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from prompt_toolkit.input import Input

from twofold.client.launch import Complaints
from twofold.client.session import ClientSession
from twofold.client.turns import Part, Reply
from twofold.errors import LocalError
from twofold.rpc.errors import RequestFailed
from twofold.term.client.drawing import Drawing
from twofold.term.client.obeying import obey
from twofold.term.input.keys import Typed
from twofold.term.input.mentions import missing, no_file, parts_of
from twofold.term.input.orders import check_command, read_order, text_to_send
from twofold.term.input.prompt import Prompt
from twofold.term.input.questions import Questions
from twofold.term.lines import all_rows, line
from twofold.term.live.message_cards import user_lines
from twofold.text import one_line, sanitize
from twofold.view.outline import STOP_REASONS
from twofold.wire.content import TextContent

GIVE_UP: Final = 10.0
"""How many seconds an agent has to end a turn that was cancelled."""

T = TypeVar("T")


class Leave(Exception):
    """The person wants to leave, whatever goes on."""


class Conversation:
    """The turns with one session."""

    def __init__(
        self,
        session: ClientSession,
        drawing: Drawing,
        prompt: Prompt,
        keys: Input,
        questions: Questions,
        cwd: Path,
        complaints: Complaints,
    ) -> None:
        self._session = session
        self._drawing = drawing
        self._prompt = prompt
        self._questions = questions
        self._cwd = cwd
        self._complaints = complaints
        self._keys = Typed(keys, self._pressed)
        self._prefill = ""
        self._asking: asyncio.Future[str | None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        questions.changed = self._asked
        questions.ahead = lambda: bool(self._typed)
        drawing.typed = lambda: self._typed
        self._keys.changed = self._redraw
        prompt.heard, prompt.holds = questions.heard, lambda: questions.in_burst

    # ---- prompts

    def history(self) -> None:
        """Show what was said before."""
        self._drawing.board.everything()
        self._drawing.print(self._drawing.board.settle(self._drawing.width).settled)

    async def talk(self, start: str | None, ahead: str = "") -> None:
        """Turn after turn, until the person leaves; `ahead` was typed before it could be heard."""
        if start is not None:
            self._drawing.print([()])
            await self._said(start, typed=False)
        while True:
            text = await self._ask(ahead)
            ahead = ""
            if text is None or not await self._said(text, self._prompt.pasted):
                return

    async def _ask(self, prefill: str) -> str | None:
        """What the person says next; whatever the agent asks meanwhile is answered first."""
        self._drawing.hand_over()
        self._prefill = prefill + self._keys.ahead()
        while True:
            if self._questions.current is not None:  # it was asked as the turn ended
                await self._attend()
                self._prefill += self._keys.ahead()
            prefill, self._prefill = self._prefill, ""
            self._asking = asyncio.ensure_future(self._prompt.ask(prefill))
            await self._unless_leaving(self._asking)
            if not self._asking.cancelled():
                return self._asking.result()
            self._prefill = self._prompt.typed

    @property
    def _typed(self) -> str:
        """What will stand in the next prompt."""
        return self._prefill + self._keys.text

    async def _said(self, text: str, pasted: Sequence[str] = (), *, typed: bool = True) -> bool:
        """Do what the person said; False to leave."""
        shown = user_lines([TextContent(text.strip())])
        self._drawing.print(all_rows(shown, self._drawing.width))
        try:
            order = read_order(text, self._session.state)
            if order is not None:
                return await obey(order, self._session, self._drawing)
            if typed:  # what is sent at the start is older than the commands of the agent
                check_command(text, self._session.state)
            words = text_to_send(text, self._session.state)
            for mention in missing(words, self._cwd, pasted):
                self._drawing.tell([line(no_file(mention), "yellow")])
            await self._turn(words, parts_of(words, self._cwd, pasted))
        except (LocalError, RequestFailed) as error:
            self._drawing.fault(error)
        return True

    # ---- turns

    async def _turn(self, words: str, parts: Sequence[Part]) -> None:
        self._drawing.board.begin(words)  # they are on the screen: repeated, they are not shown
        self._complaints.forget()
        reply: Reply | None = None
        failed: list[str] = []
        with self._at_work():
            turn = asyncio.ensure_future(self._session.prompt(*parts))
            try:
                await self._unless_leaving(turn)
                reply = turn.result()
            except RequestFailed as error:
                failed = [str(error), *await self._complaints.told()]
        if failed:  # below the call that failed, which is on the screen now
            self._drawing.tell([line(sanitize("\n".join(failed)), "red")])
        if reply is not None:
            self._tell_end(reply)

    def _tell_end(self, reply: Reply) -> None:
        if reply.given_up:
            words = "The agent did not end the turn: it was given up."
            self._drawing.tell([line(words, "yellow")])
        elif reply.stop_reason != "end_turn":
            reason = STOP_REASONS.get(reply.stop_reason) or one_line(reply.stop_reason)
            self._drawing.tell([line(f"The turn ended: {reason}.", "yellow")])

    async def _attend(self) -> None:
        """Something is asked between two turns."""
        self._drawing.board.begin()
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
        """The display and the keys are ours, in a block."""
        with self._keys.listening(), _resized(self._drawing.soon):
            try:
                self._drawing.begin()
                yield
            finally:
                self._stopping = None
                self._drawing.end()

    # ---- keys and questions

    def leave(self) -> None:
        """Leave, whatever goes on."""
        if not self._leaving.done():
            self._leaving.set_result(None)

    def _pressed(self, key: str) -> bool:
        if key in ("c-c", "c-o", "c-z"):
            self._questions.heard()
        if key == "c-c" and self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        elif key == "c-c":
            self.leave()
        elif key == "c-z":
            self._suspend()
        elif key == "c-o" and self._questions.unfold():
            pass
        elif key == "c-o":
            self._drawing.board.unfolded = not self._drawing.board.unfolded
            self._drawing.board.redraw()
            self._drawing.soon()
        else:
            self._session.flush_changes()  # an answer is about what is on the screen
            return self._questions.press(key, alone=self._keys.alone)
        return True

    def _suspend(self) -> None:
        """Stop this process, until the shell has it go on; the agent goes on meanwhile."""
        if hasattr(signal, "SIGTSTP"):
            with self._drawing.suspended(), self._keys.suspended():
                os.kill(0, signal.SIGTSTP)  # as the terminal does it: all that was started with us

    async def _stop(self) -> None:
        """Cancel the turn; what is open looks otherwise as soon as the agent is told."""
        cancelled = asyncio.ensure_future(self._session.cancel(GIVE_UP))
        await asyncio.sleep(0)
        if self._drawing.working:
            self._session.flush_changes()  # what came before it is not marked
            self._drawing.cancelling = True
            self._drawing.board.cancelled()
            self._drawing.soon()
        await cancelled

    def _redraw(self) -> None:
        if self._drawing.working:
            self._drawing.soon()

    def _asked(self) -> None:
        if self._drawing.working:
            self._drawing.soon()
        elif self._questions.current is not None and self._asking is not None:
            self._asking.cancel()  # what was typed so far stands there again afterwards


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
