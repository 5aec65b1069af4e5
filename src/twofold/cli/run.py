"""`twofold run --prompt`: one turn with an agent, for scripts.

Nobody is asked anything: what the rules do not allow is rejected. What the agent says goes to
standard output in the form that was chosen, everything else to standard error (see `printing`), and
the exit status says how the turn ended (see `status`). However it ends, the agent and all that it
started is gone.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from math import isnan
from pathlib import Path
from typing import IO, Literal, cast

import click
from msgspec import Struct

from twofold.cli import status
from twofold.cli.files import opened
from twofold.cli.printing import PRINTERS, Form, Screen
from twofold.errors import PeerError, TwofoldError
from twofold.policy import Policy, Rule, parse_rule, read_policy
from twofold.rpc.errors import AUTH_REQUIRED, RequestFailed
from twofold.runtime.client.client import Client, connect
from twofold.runtime.client.negotiate import Silent, Version
from twofold.runtime.client.session import ClientSession
from twofold.runtime.client.turns import Reply
from twofold.runtime.commands import shown
from twofold.runtime.errors import Problem
from twofold.runtime.process import Process
from twofold.runtime.taped import Tape, Taped
from twofold.runtime.transport import Transport
from twofold.wire import v2

DEMO = [sys.executable, "-P", "-m", "twofold", "agent"]
"""Who answers if no command is given; `-P`: what lies in the directory is not to be imported."""
GIVE_UP = 3.0
"""How many seconds an agent has to end a turn that was cancelled."""
SLOW = 5.0
"""After how many seconds a start is said to be slow."""

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


class Wanted(Struct, kw_only=True):
    """What was asked for on the command line."""

    command: list[str]
    prompt: str
    form: Form
    policy: Policy
    cwd: Path
    version: Version | None
    resume: str | None
    timeout: float | None
    record: IO[bytes] | None


class LoginNeeded(PeerError):
    """The agent wants someone to log in first; `methods` are the ways that it names."""

    def __init__(self, error: RequestFailed, methods: list[str]) -> None:
        ways = f"; it names {', '.join(methods)}" if methods else ""
        super().__init__(
            f"{error}\nThe agent wants a login first{ways}. Log in with the agent's own program,"
            " then try again."
        )
        self.methods = methods


# ---- the command line ------------------------------------------------------------------------


def _seconds(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and (isnan(value) or value <= 0):
        raise click.BadParameter("it is a number of seconds, more than 0.")
    return value


# what follows the command is the command's, also what looks like an option of ours
@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--prompt", required=True, help="What to say; - reads standard input.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(PRINTERS)),
    default="text",
    show_default=True,
    help="text: what the agent says, as it comes. quiet: only its last message. updates: every"
    " update in the words of version 2. json: the messages of both sides as they were.",
)
@click.option("--allow", multiple=True, metavar="RULE", help="Allow, e.g. read or command:git *.")
@click.option("--reject", multiple=True, metavar="RULE", help="Reject, whatever allows it.")
@click.option("--ask", multiple=True, metavar="RULE", help="Do not allow: nobody is there to ask.")
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="More rules, from a JSON file.",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The directory to work in.",
)
@click.option("--version", type=click.Choice(["1", "2"]), help="Speak only this version.")
@click.option("--resume", metavar="ID", help="Go on with this session.")
@click.option("--timeout", type=float, callback=_seconds, help="Give up after so many seconds.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the whole conversation to this file.",
)
@click.argument("command", nargs=-1)
def run(
    prompt: str,
    form: str,
    allow: tuple[str, ...],
    reject: tuple[str, ...],
    ask: tuple[str, ...],
    policy: Path | None,
    cwd: Path,
    version: str | None,
    resume: str | None,
    timeout: float | None,
    record: Path | None,
    command: tuple[str, ...],
) -> None:
    """Have one turn with the agent that COMMAND starts (the demo agent, without one).

    Exit status: 0 the turn ended, 1 error, 2 usage, 3 refusal, 4 a limit, 5 cancelled, 6 something
    was not allowed, 7 the agent died or could not be started, 124 timeout.
    """
    screen = Screen()
    try:
        rules = _policy(policy, allow, reject, ask)
        said = _prompt(prompt)
        with opened(record, "wb", "--record") as file:
            wanted = Wanted(
                command=list(command) or DEMO,
                prompt=said,
                form=cast("Form", form),
                policy=rules,
                cwd=cwd,
                version=cast("Version | None", int(version) if version else None),
                resume=resume,
                timeout=timeout,
                record=file,
            )
            code = asyncio.run(_run(wanted, screen))
    except (TwofoldError, OSError) as error:
        screen.tell(str(error))
        code = status.of_error(error)
    except KeyboardInterrupt:  # while standard input was read, or where signals are not handled
        code = status.CANCELLED
    sys.exit(code)


def _policy(
    file: Path | None, allow: tuple[str, ...], reject: tuple[str, ...], ask: tuple[str, ...]
) -> Policy:
    """Those that reject go before all; of the others the first counts, so `ask` before `allow`."""
    try:
        written = read_policy(file.read_bytes(), str(file)) if file is not None else Policy()
    except OSError as error:
        reason = f"{file} cannot be read: {error.strerror}."
        raise click.BadParameter(reason, param_hint="'--policy'") from None
    rules = [*_rules(reject, "reject"), *_rules(ask, "ask"), *_rules(allow, "allow")]
    return Policy([*rules, *written.rules], written.otherwise)


def _rules(words: tuple[str, ...], decision: Literal["allow", "reject", "ask"]) -> list[Rule]:
    return [parse_rule(word, decision) for word in words]


def _prompt(text: str) -> str:
    try:
        data = text.encode(errors="surrogateescape")
        if text == "-":
            data = sys.stdin.buffer.read() if sys.stdin is not None else b""
        prompt = data.decode().rstrip("\n")
    except UnicodeError:
        raise click.BadParameter("it is not UTF-8.", param_hint="'--prompt'") from None
    if not prompt.strip():
        where = "standard input is empty." if text == "-" else "it is empty."
        raise click.BadParameter(where, param_hint="'--prompt'")
    return prompt


# ---- the turn --------------------------------------------------------------------------------


async def _run(wanted: Wanted, screen: Screen) -> int:
    turn = _Turn(wanted, screen)
    _on_signals(turn.interrupt)
    try:
        async with asyncio.timeout(wanted.timeout) as limit:
            code = await turn.play()
    except TimeoutError:
        if not limit.expired():
            raise
        screen.tell(turn.late())
        code = status.TIMEOUT
    except TwofoldError as error:
        screen.tell(str(error))
        code = status.of_error(error)
    except asyncio.CancelledError:
        if not turn.signals:
            raise
        code = status.CANCELLED
    return status.CANCELLED if turn.interrupted else turn.written(code)


def _on_signals(interrupt: Callable[[], None]) -> None:
    """Whoever wants this process to end wants the turn to end; it lasts as long as the loop."""
    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or another thread
        for number in heard:
            asyncio.get_running_loop().add_signal_handler(number, interrupt)


class _Turn:
    """One turn, from the start of the agent to its end."""

    def __init__(self, wanted: Wanted, screen: Screen) -> None:
        self.signals = 0
        self.interrupted = False
        """Someone wanted it to end before it did."""
        self._wanted = wanted
        self._screen = screen
        self._task = asyncio.current_task()
        self._process: Process | None = None
        self._answered = False
        """The agent said who it is."""
        self._session: ClientSession | None = None
        self._over = False
        self._cancelling: asyncio.Task[None] | None = None
        self._record = Tape.to(wanted.record, command=wanted.command) if wanted.record else None
        self._tapes = [self._record] if self._record is not None else []
        if wanted.form == "json":
            self._tapes.append(Tape(screen.json))

    async def play(self) -> int:
        """Start the agent, say the prompt and wait for the end; the exit status."""
        async with self._connected() as client:
            try:
                session = await self._open(client)
                reply = await self._prompt(session)
            except RequestFailed as error:
                if error.code != AUTH_REQUIRED:
                    raise
                raise LoginNeeded(error, _ids(client.auth_methods)) from None
        if reply.stop_reason != "end_turn":
            self._screen.tell(f"The turn ended with {reply.stop_reason}.")
        decided = [each for each in session.decisions if each.by != "cancel"]
        return status.of_reply(reply, denied=not all(each.allowed for each in decided))

    async def _open(self, client: Client) -> ClientSession:
        if self._wanted.resume is not None:
            return await client.resume_session(self._wanted.resume, self._wanted.cwd)
        return await client.new_session(self._wanted.cwd)

    async def _prompt(self, session: ClientSession) -> Reply:
        printer = PRINTERS[self._wanted.form](session, self._screen)
        reply = None
        self._session = session
        try:
            reply = await session.prompt(self._wanted.prompt)
        finally:
            self._session, self._over = None, True
            printer.end(reply)
        return reply

    # ---- when it does not end by itself

    def interrupt(self) -> None:
        """Cancel the turn, the first time; leave at once, the second."""
        self.signals += 1
        self.interrupted = self.interrupted or not self._over
        if self.signals == 1 and self._session is not None:
            self._cancelling = asyncio.create_task(self._session.cancel(GIVE_UP))
        elif self._task is not None and not (self.signals == 1 and self._over):
            self._task.cancel()  # what was started is ended on the way out

    def late(self) -> str:
        """What did not happen in time."""
        seconds = self._wanted.timeout or 0
        if not self._answered:
            return str(Silent(seconds, self._last_words))
        return f"The turn did not end within {seconds:g} seconds: it was given up."

    def written(self, code: int) -> int:
        """The exit status, if everything could be written that was wanted."""
        faults = {"Standard output": self._screen.out.fault}
        if self._record is not None and self._wanted.record is not None:
            faults[self._wanted.record.name] = self._record.fault
        for name, fault in faults.items():
            if fault is not None:
                self._screen.tell(f"{name} could not be written to the end: {fault.strerror}.")
                code = code or status.FAILED
        return code

    # ---- the agent

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        version, policy = self._wanted.version, self._wanted.policy
        slow = asyncio.get_running_loop().call_later(SLOW, self._tell_slow)
        try:
            async with connect(
                self._start, version=version, policy=policy, on_problem=self._problem
            ) as client:
                slow.cancel()
                self._answered = True
                self._note_agent(client)
                yield client
        except Silent as error:  # whoever raised it does not see what is behind a tape
            raise Silent(error.seconds, self._last_words) from None
        finally:
            slow.cancel()
            self._note_exit()

    async def _start(self) -> Transport:
        self._note_exit()  # one that fell over version 2 is started again
        self._process = None
        on_stderr = self._record.stderr if self._record is not None else None
        self._process = await Process.spawn(self._wanted.command, on_stderr=on_stderr)
        return Taped(self._process, *self._tapes) if self._tapes else self._process

    @property
    def _last_words(self) -> str:
        return self._process.stderr_tail if self._process is not None else ""

    def _note_agent(self, client: Client) -> None:
        if self._record is not None:
            agent = {"name": client.agent.info.name, "version": client.agent.info.version}
            self._record.note("negotiated", version=client.version, agent=agent)

    def _note_exit(self) -> None:
        if self._record is not None and self._process is not None:
            code, by = self._process.exit_code, self._process.signal
            self._record.note("exit", code=code, signal=by)

    def _tell_slow(self) -> None:
        if self._task is not None and not self._task.cancelling():
            command = shown(self._wanted.command)
            self._screen.tell(f"Still waiting for the agent ({command}) to answer.")

    def _problem(self, problem: Problem) -> None:
        if problem.kind != "loss":
            self._screen.tell(str(problem))


def _ids(methods: list[v2.AuthMethod]) -> list[str]:
    known = (v2.AuthMethodAgent, v2.AuthMethodTerminal)
    return [method.method_id for method in methods if isinstance(method, known)]
