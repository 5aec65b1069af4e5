"""`twofold run` at a terminal: from the start of the agent to the end of the conversation.

Starts the agent and shows that it takes long, logs in and takes up a session if that is wanted,
and then it is up to the `Conversation`. However it ends, the terminal is as it was before and the
agent is gone.
"""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.utils import is_dumb_terminal
from rich.console import Console

from twofold.client.client import Client
from twofold.client.known_sessions import NotReopened, known_sessions, reopen, title, when
from twofold.client.launch import Launch, RunOptions, Seconds, StderrTail, on_signals
from twofold.client.login import LoginNeeded, log_in, wants_login, ways
from twofold.client.prompt_blocks import Part
from twofold.client.prompting import Reply
from twofold.client.session import ClientSession
from twofold.convert.capabilities import NAMELESS
from twofold.errors import LocalError, TwofoldError
from twofold.peer.problems import Problem
from twofold.rpc.errors import RequestFailed
from twofold.session import Session
from twofold.term import exit_status
from twofold.term.block_lines import plan_lines
from twofold.term.cards import user_lines
from twofold.term.display import Display, Tty
from twofold.term.drawing import Drawing
from twofold.term.images import Pictures
from twofold.term.input.keys import Typed
from twofold.term.input.mentions import missing, no_file, parts_of
from twofold.term.input.menu import choose
from twofold.term.input.prompt import Prompt
from twofold.term.input.questions import Questions
from twofold.term.input.slash_commands import (
    SlashCommand,
    check_command,
    config_lines,
    find_mode,
    find_setting,
    help_lines,
    mode_lines,
    parse_command,
    text_to_send,
    usage_lines,
)
from twofold.term.lines import BLANK, Drawn, Line, all_rows, cut, line
from twofold.term.paint import Paint, has_links
from twofold.text import one_line, sanitize
from twofold.transport.commands import IS_IT, shown
from twofold.version import VERSION
from twofold.view.outline import STOP_REASONS, plan_block
from twofold.wire.content import TextContent

# Orders of the person to the client, carried out: `/mode plan`, `/config`, `/expand`.


async def obey(order: SlashCommand, session: ClientSession, drawing: Drawing) -> bool:
    """Do what was ordered, and show what came of it; False to leave."""
    state = session.state
    match order.name:
        case "quit":
            return False
        case "help":
            drawing.tell(help_lines(state))
        case "usage":
            drawing.tell(usage_lines(state))
        case "plan":
            drawing.tell(_plans(state))
        case "mode":
            if order.argument:
                await session.set_mode(find_mode(order.argument, state))
            drawing.tell(mode_lines(session.state))
        case "config":
            drawing.tell(await _config(order.argument, session))
        case "thoughts":
            drawing.tell([_thoughts(drawing)])
        case "expand":
            rows = drawing.board.expanded(drawing.width)
            drawing.print([(), *(rows or line("Nothing was folded.", "dim").rows(None))])
    return True


async def _config(argument: str, session: ClientSession) -> list[Drawn]:
    if not argument:
        return [*config_lines(session.state)]
    choice = find_setting(argument, session.state)
    if choice.value is not None:
        await session.set_config_option(choice.config_id, choice.value)
    return [*config_lines(session.state, choice.config_id)]


def _plans(state: Session) -> list[Drawn]:
    plans = [plan_block(update.plan) for update in state.plans.values()]
    shown = [each for plan in plans for each in plan_lines(plan)]
    return shown or [line("The agent has no plan.", "dim")]


def _thoughts(drawing: Drawing) -> Drawn:
    board = drawing.board
    board.fold_thoughts = not board.fold_thoughts
    how = "folded" if board.fold_thoughts else "shown in full"
    return line(f"Thoughts are {how} from now on.", "dim")


# A person and an agent, turn by turn, on one terminal.
#
# While a turn goes on the keys are ours; between turns they are the prompt's. The first Ctrl-C
# cancels a turn, the second leaves; what the agent asks is answered before anything else is said.


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
        complaints: StderrTail,
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
            order = parse_command(text, self._session.state)
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
                failed = [str(error), *await self._complaints.settled()]
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


_EARLY: Final = 100
"""How many problems are kept until they can be told."""
_HINT: Final = 5.0
"""After how many seconds without an answer it is said what may be wrong."""


async def interact(wanted: RunOptions, connecting: Launch) -> int:
    """Talk to an agent until the person leaves; the exit status."""
    system = Console(file=sys.stdout).color_system
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    paint = Paint(system, encoding, color=wanted.color, links=has_links(os.environ))
    display = Display(Tty(), paint, dumb=is_dumb_terminal())
    client = _Client(wanted, connecting, display, create_input(sys.stdin))
    on_signals(client.interrupt)
    # the prompt of a dumb terminal is the toolkit's own, which would still write some sequences
    plainly = create_app_session(output=PlainTextOutput(sys.stdout))
    try:
        with plainly if display.dumb else nullcontext():
            return await client.run()
    finally:
        display.leave()


class _Client:
    """One agent, from its start to its end."""

    def __init__(
        self, wanted: RunOptions, connecting: Launch, display: Display, source: Input
    ) -> None:
        self._wanted = wanted
        self._connecting = connecting
        self._display = display
        self._source = source
        self._keys = Typed(source, self._pressed)
        self._questions = Questions()
        self._drawing: Drawing | None = None
        self._conversation: Conversation | None = None
        self._early: list[Problem] = []
        self._task = asyncio.current_task()
        self._interrupted = False
        self._ending: Seconds | None = None

    async def run(self) -> int:
        """Until the person leaves; the exit status."""
        connecting = self._connecting.client(
            ask=self._questions.ask,
            login=True,
            on_problem=self._problem,
            on_slow=self._slow,
        )
        try:
            async with AsyncExitStack() as stack:
                with self._keys.listening():
                    client = await stack.enter_async_context(connecting)
                stack.push(self._ends)  # before its end is waited for
                self._display.show([], [])
                session = await self._open(client)
                if session is not None:
                    await self._talk(client, session)
        except Leave:
            return exit_status.CANCELLED
        except TwofoldError as error:
            above = [BLANK] if self._conversation is not None else []
            refused = isinstance(error, RequestFailed | NotReopened)
            below = self._connecting.stderr.lines if refused else []
            self._tell([*above, line(sanitize("\n".join([str(error), *below])), "red")])
            return exit_status.of_error(error)
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
            self._display.show([], [])
            return exit_status.CANCELLED
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return exit_status.CANCELLED  # the window was closed
        finally:
            if self._ending is not None:
                self._ending.close()
                self._display.show([], [])
        return exit_status.OK

    def _ends(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """The conversation is over, and the agent is asked to end."""
        if isinstance(error, Leave | asyncio.CancelledError):
            self._connecting.hurry()
        self._ending = Seconds(self._slow_end)

    def interrupt(self) -> None:
        """A signal that wants this process to end."""
        if self._ending is not None:
            self._connecting.hurry()
        elif self._conversation is not None:
            self._conversation.leave()
        elif self._task is not None:
            self._interrupted = True
            self._connecting.hurry()
            self._task.cancel()

    def _pressed(self, key: str) -> bool:
        """While the agent is waited for; anything else is for the prompt."""
        if key == "c-c":
            self.interrupt()
        return key == "c-c"

    # ---- the session

    async def _open(self, client: Client) -> ClientSession | None:
        """The session to talk in; None if the person chose none."""
        try:
            return await self._take_up(client)
        except RequestFailed as error:
            if not wants_login(error):
                raise
            if not await self._log_in(client, error):
                return None
        return await self._take_up(client)

    async def _take_up(self, client: Client) -> ClientSession | None:
        wanted = self._wanted
        identity = wanted.resume
        if wanted.choose:
            identity = await self._choose_session(client)
            if identity is None:
                return None
        what = "Making a session" if identity is None else f"Loading the session {identity}"
        with self._keys.listening(), self._counted(what):
            if identity is None:
                session = await client.new_session(wanted.cwd)
            else:
                session = await reopen(client, identity, wanted.cwd, wanted.command, replay=True)
            await session.settled()  # a replay or a greeting stands above what is said now
            return session

    async def _choose_session(self, client: Client) -> str | None:
        with self._keys.listening(), self._counted("Listing the sessions"):
            known = (await known_sessions(client, self._wanted.cwd)).sessions
        if not known:
            words = f"{client.agent_name} knows no session of this directory."
            self._tell([line(f"{words} --resume takes the id of any other.", "yellow")])
            return None
        told = [f"{when(info):16}  {title(info) or one_line(info.session_id)}" for info in known]
        chosen = await choose(self._display, self._source, "Go on with which session?", told)
        return known[chosen].session_id if chosen is not None else None

    async def _log_in(self, client: Client, error: RequestFailed) -> bool:
        """Have the person choose a way to log in, and do it; False if they chose none."""
        offered = ways(client)
        if not offered:
            raise LoginNeeded(error, client)
        told = [
            f"{way.name}: {way.description}" if way.description else way.name for way in offered
        ]
        about = f"{client.agent_name} wants a login first."
        chosen = await choose(self._display, self._source, f"{about} How?", told)
        if chosen is None:
            return False
        self._tell([line(f"Logging in: {offered[chosen].name}", "dim")])
        self._display.leave()
        await log_in(client, offered[chosen], self._wanted.command, self._wanted.cwd)
        return True

    async def _talk(self, client: Client, session: ClientSession) -> None:
        self._tell(_greeting(client, self._wanted))
        self._display.leave()  # a prompt shows the cursor when it is made
        prompt = Prompt(
            lambda: session.state,
            self._wanted.cwd.absolute(),
            history_file(),
            color=self._wanted.color,
            input=self._source,
        )
        drawing = Drawing(session, self._display, prompt, self._questions, Pictures(os.environ))
        conversation = Conversation(
            session,
            drawing,
            prompt,
            self._source,
            self._questions,
            self._wanted.cwd.absolute(),
            self._connecting.stderr,
        )
        self._drawing, self._conversation = drawing, conversation
        try:
            for problem in self._early:
                drawing.problem(problem)
            conversation.history()
            await conversation.talk(self._wanted.start, self._keys.ahead())
        finally:
            drawing.close()

    # ---- what is told

    def _slow(self, seconds: float) -> None:
        width, since = self._display.width, f" … {seconds:.0f} s"
        words = cut(
            ((f"Starting {shown(self._connecting.command)}", "yellow"),), width - len(since)
        )
        rows = [cut((*words, (since, "yellow")), width)]
        told = [one_line(str(problem)) for problem in self._early[-1:] if problem.kind != "loss"]
        said = [each for each in (self._connecting.last_line, *told) if each]
        rows += [cut(((f"  {each}", "dim"),), width) for each in said]
        if seconds >= _HINT:
            hint = f"It has not answered initialize yet. {IS_IT} Ctrl-C leaves."
            rows += all_rows([line(hint, "dim", "  ")], width)
        self._display.show([], rows)

    @contextmanager
    def _counted(self, what: str) -> Iterator[None]:
        """Show for how many seconds something takes, in a block."""
        seconds = Seconds(lambda passed: self._count(what, passed, ""))
        try:
            yield
        finally:
            seconds.close()
            self._display.show([], [])

    def _slow_end(self, seconds: float) -> None:
        self._count("Waiting for the agent to end", seconds, " · Ctrl-C ends it now")

    def _count(self, what: str, seconds: float, more: str) -> None:
        words = f"{one_line(what)} … {seconds:.0f} s{more}"
        self._display.show([], [cut(((words, "yellow"),), self._display.width)])

    def _problem(self, problem: Problem) -> None:
        if self._drawing is not None:
            self._drawing.problem(problem)
        elif len(self._early) < _EARLY:
            self._early.append(problem)

    def _tell(self, lines: Iterable[Drawn]) -> None:
        self._display.show(all_rows(lines, self._display.width), [])


def _greeting(client: Client, wanted: RunOptions) -> list[Drawn]:
    info = client.agent.info
    name = f"{client.agent_name} {one_line(info.version)}".strip()
    if info == NAMELESS or not one_line(info.title or info.name):
        name = shown(wanted.command)  # it did not say what it is called
    about = f"{name} · version {client.protocol_version} of the protocol · {wanted.cwd.absolute()}"
    return [
        Line((("Twofold", "bold"), (f" {VERSION} · ", "dim"), (one_line(about), "dim"))),
        line("/help tells what can be typed, Ctrl-D leaves.", "dim"),
    ]


def history_file() -> Path | None:
    """Where what was typed is kept, by the rules of the desktop; None if there is no home."""
    base = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return folder / "twofold" / "history"


# The terminal client: from the start of an agent to the end of the conversation.
