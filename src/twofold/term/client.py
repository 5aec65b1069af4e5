"""`twofold run` at a terminal: the interactive client.

`interact` starts the agent, logs in if the agent requires it, and creates or resumes a session. A
`Conversation` then alternates between the prompt, which reads the keys itself, and turns, during
which the keys are read here. The first Ctrl-C cancels a turn, the second leaves. A question of the
agent is answered before the next prompt. However it ends, the terminal is as it was before and the
agent's process has ended.
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
from twofold.client.launch import Launch, RecentStderr, Seconds, on_signals
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
from twofold.term.images import Pictures
from twofold.term.input.keys import Keyboard
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
from twofold.term.lines import BLANK, Drawable, Line, all_rows, cut, line
from twofold.term.live_cards import user_lines
from twofold.term.row_encoder import RowEncoder, has_links
from twofold.term.run_options import RunOptions
from twofold.term.session_display import SessionDisplay
from twofold.term.terminal_writer import TerminalWriter, Tty
from twofold.text import one_line, sanitize
from twofold.transport.commands import IS_IT, shown
from twofold.version import VERSION
from twofold.view.outline import STOP_REASONS, plan_block
from twofold.wire.content import TextContent

GIVE_UP: Final = 10.0
"""How many seconds an agent has to end a cancelled turn."""
_MOST_EARLY: Final = 100
"""How many problems are kept until there is a session to show them in."""
_HINT: Final = 5.0
"""After how many seconds without an answer the client shows a hint."""

T = TypeVar("T")


class Leave(Exception):
    """The person leaves, whatever is going on."""


async def interact(wanted: RunOptions, launch: Launch) -> int:
    """Talk to an agent until the person leaves, and return the exit status."""
    system = Console(file=sys.stdout).color_system
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    encoder = RowEncoder(system, encoding, color=wanted.color, links=has_links(os.environ))
    writer = TerminalWriter(Tty(), encoder, dumb=is_dumb_terminal())
    client = _TerminalClient(wanted, launch, writer, create_input(sys.stdin))
    on_signals(client.interrupt)
    # on a dumb terminal the toolkit draws the prompt, and would write some escape sequences
    plainly = create_app_session(output=PlainTextOutput(sys.stdout))
    try:
        with plainly if writer.dumb else nullcontext():
            return await client.run()
    finally:
        writer.leave()


class _TerminalClient:
    """Runs one agent from its start to its end."""

    def __init__(
        self, wanted: RunOptions, launch: Launch, writer: TerminalWriter, source: Input
    ) -> None:
        self._wanted = wanted
        self._launch = launch
        self._writer = writer
        self._source = source
        self._keys = Keyboard(source, self._pressed)
        self._questions = Questions()
        self._display: SessionDisplay | None = None
        self._conversation: Conversation | None = None
        self._early: list[Problem] = []
        self._task = asyncio.current_task()
        self._interrupted = False
        self._ending: Seconds | None = None

    async def run(self) -> int:
        """Run until the person leaves, and return the exit status."""
        connecting = self._launch.client(
            ask=self._questions.ask,
            login=True,
            on_problem=self._problem,
            on_slow=self._show_slow_start,
        )
        try:
            async with AsyncExitStack() as stack:
                with self._keys.listening():
                    client = await stack.enter_async_context(connecting)
                stack.push(self._note_end)  # runs before the agent's end is waited for
                self._writer.show([], [])
                session = await self._open(client)
                if session is not None:
                    await self._talk(client, session)
        except Leave:
            return exit_status.CANCELLED
        except TwofoldError as error:
            above = [BLANK] if self._conversation is not None else []
            refused = isinstance(error, RequestFailed | NotReopened)
            below = self._launch.stderr.lines if refused else []
            self._print([*above, line(sanitize("\n".join([str(error), *below])), "red")])
            return exit_status.of_error(error)
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
            self._writer.show([], [])
            return exit_status.CANCELLED
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return exit_status.CANCELLED  # the window was closed
        finally:
            if self._ending is not None:
                self._ending.close()
                self._writer.show([], [])
        return exit_status.OK

    def _note_end(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """The conversation is over: from now on the client waits for the agent to exit."""
        if isinstance(error, Leave | asyncio.CancelledError):
            self._launch.hurry()
        self._ending = Seconds(self._show_slow_end)

    def interrupt(self) -> None:
        """Handle a signal that ends this process."""
        if self._ending is not None:
            self._launch.hurry()
        elif self._conversation is not None:
            self._conversation.leave()
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
        _stop_process(self._keys)
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
        wanted = self._wanted
        session_id = wanted.resume
        if wanted.choose:
            session_id = await self._choose_session(client)
            if session_id is None:
                return None
        what = "Creating a session" if session_id is None else f"Loading session {session_id}"
        with self._keys.listening(), self._counted(what):
            if session_id is None:
                session = await client.new_session(wanted.cwd)
            else:
                session = await reopen(client, session_id, wanted.cwd, wanted.command, replay=True)
            await session.settled()  # print a replay or a greeting above the first prompt
            return session

    async def _choose_session(self, client: Client) -> str | None:
        with self._keys.listening(), self._counted("Listing the sessions"):
            known = (await known_sessions(client, self._wanted.cwd)).sessions
        if not known:
            words = f"{client.agent_name} has no session in this directory."
            self._print([line(f"{words} --resume ID resumes any other session.", "yellow")])
            return None
        entries = [f"{when(info):16}  {title(info) or one_line(info.session_id)}" for info in known]
        chosen = await choose(self._writer, self._keys, "Resume which session?", entries)
        return known[chosen].session_id if chosen is not None else None

    async def _log_in(self, client: Client, error: RequestFailed) -> bool:
        """Log in with the method that the person chooses; returns False if they chose none."""
        offered = ways(client)
        if not offered:
            raise LoginNeeded(error, client)
        entries = [
            f"{way.name}: {way.description}" if way.description else way.name for way in offered
        ]
        question = f"{client.agent_name} requires a login. How do you want to log in?"
        chosen = await choose(self._writer, self._keys, question, entries)
        if chosen is None:
            return False
        self._print([line(f"Logging in: {offered[chosen].name}", "dim")])
        self._writer.leave()
        await log_in(client, offered[chosen], self._wanted.command, self._wanted.cwd)
        return True

    async def _talk(self, client: Client, session: ClientSession) -> None:
        self._print(_greeting(client, self._wanted))
        self._writer.leave()  # making a prompt shows the cursor
        prompt = Prompt(
            lambda: session.state,
            self._wanted.cwd.absolute(),
            history_file(),
            color=self._wanted.color,
            input=self._source,
        )
        display = SessionDisplay(
            session, self._writer, prompt, self._questions, Pictures(os.environ)
        )
        conversation = Conversation(
            session,
            display,
            prompt,
            self._source,
            self._questions,
            self._wanted.cwd.absolute(),
            self._launch.stderr,
        )
        self._display, self._conversation = display, conversation
        try:
            for problem in self._early:
                display.show_problem(problem)
            conversation.print_history()
            await conversation.talk(self._wanted.start, self._keys.take_ahead())
        finally:
            display.close()

    # ---- drawing while the client waits

    def _show_slow_start(self, seconds: float) -> None:
        width, since = self._writer.width, f" … {seconds:.0f} s"
        words = cut(((f"Starting {shown(self._launch.command)}", "yellow"),), width - len(since))
        rows = [cut((*words, (since, "yellow")), width)]
        problems = [one_line(str(last)) for last in self._early[-1:] if last.kind != "loss"]
        output = [each for each in (self._launch.last_line, *problems) if each]
        rows += [cut(((f"  {each}", "dim"),), width) for each in output]
        if seconds >= _HINT:
            hint = f"It has not answered initialize yet. {IS_IT} Ctrl-C leaves."
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
        if self._display is not None:
            self._display.show_problem(problem)
        elif len(self._early) < _MOST_EARLY:
            self._early.append(problem)

    def _print(self, lines: Iterable[Drawable]) -> None:
        self._writer.show(all_rows(lines, self._writer.width), [])


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


def history_file() -> Path | None:
    """The file that keeps what was sent (XDG base directories); None without a home directory."""
    base = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return folder / "twofold" / "history"


# ---- the conversation --------------------------------------------------------------------------


class Conversation:
    """Alternates between the prompt and turns of one session."""

    def __init__(
        self,
        session: ClientSession,
        display: SessionDisplay,
        prompt: Prompt,
        keys: Input,
        questions: Questions,
        cwd: Path,
        stderr: RecentStderr,
    ) -> None:
        self._session = session
        self._display = display
        self._prompt = prompt
        self._questions = questions
        self._cwd = cwd
        self._stderr = stderr
        self._keys = Keyboard(keys, self._pressed)
        self._prefill = ""
        self._asking: asyncio.Future[str | None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        questions.on_change = self._asked
        questions.has_typed_ahead = lambda: bool(self._typed)
        display.typed = lambda: self._typed
        self._keys.changed = self._redraw
        prompt.on_key, prompt.holds_enter = questions.note_key, lambda: questions.in_burst

    # ---- prompts

    def print_history(self) -> None:
        """Print what the agent sent before the first prompt."""
        self._display.live_area.show_everything()
        self._display.print(self._display.live_area.settle(self._display.width).settled)

    async def talk(self, start: str | None, ahead: str = "") -> None:
        """Read and send prompts until the person leaves.

        Args:
            start: Sent first, if there is one.
            ahead: What was typed before the first prompt.
        """
        with self._keys.raw():
            if start is not None:
                self._display.print([()])
                await self._send(start, typed=False)
            while True:
                text = await self._read(ahead)
                ahead = ""
                if text is None or not await self._send(text, self._prompt.pasted):
                    return

    async def _read(self, prefill: str) -> str | None:
        """Read the next prompt; questions that arrive meanwhile are answered first."""
        self._display.hand_over()
        self._prefill = prefill + self._keys.take_ahead()
        while True:
            if self._questions.current is not None:  # it arrived as the turn ended
                await self._answer_questions()
                self._prefill += self._keys.take_ahead()
            prefill, self._prefill = self._prefill, ""
            self._asking = asyncio.ensure_future(self._prompt.ask(prefill))
            await self._unless_leaving(self._asking)
            if not self._asking.cancelled():
                return self._asking.result()
            self._prefill = self._prompt.typed

    @property
    def _typed(self) -> str:
        """The text that the next prompt begins with."""
        return self._prefill + self._keys.text

    async def _send(self, text: str, pasted: Sequence[str] = (), *, typed: bool = True) -> bool:
        """Run a slash command, or send the text to the agent; returns False to leave."""
        shown = user_lines([TextContent(text.strip())])
        self._display.print(all_rows(shown, self._display.width))
        try:
            command = parse_command(text, self._session.state)
            if command is not None:
                return await _run_command(command, self._session, self._display)
            if typed:  # at the start the agent may not have sent its commands yet
                check_command(text, self._session.state)
            words = text_to_send(text, self._session.state)
            for mention in missing(words, self._cwd, pasted):
                self._display.print_lines([line(no_file(mention), "yellow")])
            await self._turn(words, parts_of(words, self._cwd, pasted))
        except (LocalError, RequestFailed) as error:
            self._display.print_error(error)
        return True

    # ---- turns

    async def _turn(self, words: str, parts: Sequence[Part]) -> None:
        self._display.live_area.begin_turn(words)  # an echo of these words is not drawn again
        self._stderr.forget()
        reply: Reply | None = None
        failed: list[str] = []
        with self._at_work():
            turn = asyncio.ensure_future(self._session.prompt(*parts))
            try:
                await self._unless_leaving(turn)
                reply = turn.result()
            except RequestFailed as error:
                failed = [str(error), *await self._stderr.settled()]
        if failed:  # printed below the tool call that failed
            self._display.print_lines([line(sanitize("\n".join(failed)), "red")])
        if reply is not None:
            self._print_end(reply)

    def _print_end(self, reply: Reply) -> None:
        if reply.given_up:
            words = "The agent did not end the cancelled turn. The client no longer waits for it."
            self._display.print_lines([line(words, "yellow")])
        elif reply.stop_reason != "end_turn":
            reason = STOP_REASONS.get(reply.stop_reason) or one_line(reply.stop_reason)
            self._display.print_lines([line(f"The turn ended: {reason}.", "yellow")])

    async def _answer_questions(self) -> None:
        """Ask the questions that arrived between two turns."""
        self._display.live_area.begin_turn()
        with self._at_work():
            while self._questions.current is not None:
                answered = asyncio.ensure_future(_settled(self._questions.current.answer))
                await self._unless_leaving(answered)
                await asyncio.sleep(0)  # let the answered request be removed

    async def _unless_leaving(self, work: asyncio.Future[T]) -> None:
        """Wait for the work; raises `Leave` if the person leaves first."""
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
        """Draw, and read the keys, for a block."""
        with self._keys.listening(), _resized(self._display.redraw_soon):
            try:
                self._display.begin_work()
                yield
            finally:
                self._stopping = None
                self._display.end_work()

    # ---- keys and questions

    def leave(self) -> None:
        """Leave, whatever is going on."""
        if not self._leaving.done():
            self._leaving.set_result(None)

    def _pressed(self, key: str) -> bool:
        if key in ("c-c", "c-o", "c-z"):
            self._questions.note_key()
        if key == "c-c" and self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        elif key == "c-c":
            self.leave()
        elif key == "c-z":
            self._suspend()
        elif key == "c-o" and self._questions.unfold():
            pass
        elif key == "c-o":
            self._display.live_area.unfolded = not self._display.live_area.unfolded
            self._display.live_area.redraw()
            self._display.redraw_soon()
        else:
            self._session.flush_changes()  # what is answered must be on the screen
            return self._questions.press(key, alone=self._keys.alone)
        return True

    def _suspend(self) -> None:
        with self._display.suspended():
            _stop_process(self._keys)

    async def _stop(self) -> None:
        """Cancel the turn, and mark what is open as cancelled."""
        cancelled = asyncio.ensure_future(self._session.cancel(GIVE_UP))
        await asyncio.sleep(0)
        if self._display.working:
            self._session.flush_changes()  # updates from before are not marked
            self._display.cancelling = True
            self._display.live_area.mark_cancelled()
            self._display.redraw_soon()
        await cancelled

    def _redraw(self) -> None:
        if self._display.working:
            self._display.redraw_soon()

    def _asked(self) -> None:
        if self._display.working:
            self._display.redraw_soon()
        elif self._questions.current is not None and self._asking is not None:
            self._asking.cancel()  # the next prompt begins with what was typed so far


async def _settled(answer: asyncio.Future[T]) -> None:
    await asyncio.wait({answer})


@contextmanager
def _resized(redraw: Callable[[], None]) -> Iterator[None]:
    """Redraw for a block whenever the terminal is resized."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, redraw)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


def _stop_process(keys: Keyboard) -> None:
    """Stop this process until the shell continues it; the agent goes on meanwhile."""
    with keys.suspended():
        os.kill(0, signal.SIGTSTP)  # the process group, as the terminal does it


# ---- slash commands ----------------------------------------------------------------------------


async def _run_command(
    command: SlashCommand, session: ClientSession, display: SessionDisplay
) -> bool:
    """Run a command of the client and print its result; returns False to leave."""
    state = session.state
    match command.name:
        case "quit":
            return False
        case "help":
            display.print_lines(help_lines(state))
        case "usage":
            display.print_lines(usage_lines(state))
        case "plan":
            display.print_lines(_plans(state))
        case "mode":
            if command.argument:
                await session.set_mode(find_mode(command.argument, state))
            display.print_lines(mode_lines(session.state))
        case "config":
            display.print_lines(await _config(command.argument, session))
        case "thoughts":
            display.print_lines([_toggle_thoughts(display)])
        case "expand":
            rows = display.live_area.expanded(display.width)
            display.print([(), *(rows or line("Nothing was folded.", "dim").rows(None))])
    return True


async def _config(argument: str, session: ClientSession) -> list[Drawable]:
    if not argument:
        return [*config_lines(session.state)]
    setting = find_setting(argument, session.state)
    if setting.value is not None:
        await session.set_config_option(setting.config_id, setting.value)
    return [*config_lines(session.state, setting.config_id)]


def _plans(state: Session) -> list[Drawable]:
    plans = [plan_block(update.plan) for update in state.plans.values()]
    shown = [each for plan in plans for each in plan_lines(plan)]
    return shown or [line("The agent has no plan.", "dim")]


def _toggle_thoughts(display: SessionDisplay) -> Drawable:
    live_area = display.live_area
    live_area.fold_thoughts = not live_area.fold_thoughts
    how = "folded" if live_area.fold_thoughts else "shown in full"
    return line(f"Thoughts are {how} from now on.", "dim")
