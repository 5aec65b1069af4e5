"""`twofold run` at a terminal: from the start of the agent to the end of the conversation.

Starts the agent and shows that it takes long, logs in and takes up a session if that is wanted,
and then it is up to the `Conversation`. However it ends, the terminal is as it was before and the
agent is gone.
"""

import asyncio
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.utils import is_dumb_terminal
from rich.console import Console

from twofold.cli import status
from twofold.client.client import Client
from twofold.client.known_sessions import NotTakenUp, known_sessions, take_up, title, when
from twofold.client.launch import Connecting, Seconds, Wanted, on_signals
from twofold.client.login import LoginNeeded, log_in, wants_login, ways
from twofold.client.session import ClientSession
from twofold.convert.capabilities import NAMELESS
from twofold.errors import TwofoldError
from twofold.peer.problems import Problem
from twofold.rpc.errors import RequestFailed
from twofold.term.client.conversation import Conversation, Leave
from twofold.term.client.drawing import Drawing
from twofold.term.content.images import Pictures
from twofold.term.input.keys import Typed
from twofold.term.input.menu import choose
from twofold.term.input.prompt import Prompt
from twofold.term.input.questions import Questions
from twofold.term.lines import BLANK, Drawn, Line, all_rows, cut, line
from twofold.term.live.display import Display, Tty
from twofold.term.paint import Paint, has_links
from twofold.text import one_line, sanitize
from twofold.transport.commands import IS_IT, shown
from twofold.version import VERSION

_EARLY: Final = 100
"""How many problems are kept until they can be told."""
_HINT: Final = 5.0
"""After how many seconds without an answer it is said what may be wrong."""


async def interact(wanted: Wanted, connecting: Connecting) -> int:
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
        self, wanted: Wanted, connecting: Connecting, display: Display, source: Input
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
            return status.CANCELLED
        except TwofoldError as error:
            above = [BLANK] if self._conversation is not None else []
            refused = isinstance(error, RequestFailed | NotTakenUp)
            below = self._connecting.complaints.lines if refused else []
            self._tell([*above, line(sanitize("\n".join([str(error), *below])), "red")])
            return status.of_error(error)
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
            self._display.show([], [])
            return status.CANCELLED
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return status.CANCELLED  # the window was closed
        finally:
            if self._ending is not None:
                self._ending.close()
                self._display.show([], [])
        return status.OK

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
                session = await take_up(client, identity, wanted.cwd, wanted.command, replay=True)
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
            self._connecting.complaints,
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


def _greeting(client: Client, wanted: Wanted) -> list[Drawn]:
    info = client.agent.info
    name = f"{client.agent_name} {one_line(info.version)}".strip()
    if info == NAMELESS or not one_line(info.title or info.name):
        name = shown(wanted.command)  # it did not say what it is called
    about = f"{name} · version {client.version} of the protocol · {wanted.cwd.absolute()}"
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
