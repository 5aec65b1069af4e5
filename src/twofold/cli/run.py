"""`twofold run --prompt`: one turn with an agent, for scripts.

Nobody is asked anything: what the rules do not allow is rejected. What the agent says goes to
standard output in the form that was chosen, everything else to standard error, and the exit status
says how the turn ended (see `status`).
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

import click
from msgspec import Struct

from twofold.cli import status
from twofold.errors import TwofoldError
from twofold.policy import Policy, Rule, parse_rule, read_policy
from twofold.runtime.client.client import Client, connect
from twofold.runtime.client.negotiate import Version
from twofold.runtime.client.session import ClientSession
from twofold.runtime.errors import Problem
from twofold.runtime.process import Process
from twofold.runtime.taped import Tape, Taped
from twofold.runtime.transport import Transport
from twofold.session import Message
from twofold.text.safe import one_line, sanitize
from twofold.wire import codec, v2

Form: TypeAlias = Literal["text", "json", "updates", "quiet"]

DEMO = [sys.executable, "-m", "twofold", "agent"]
"""Who answers if no command is given."""


class Wanted(Struct):
    """What was asked for on the command line."""

    command: list[str]
    prompt: str
    form: Form
    policy: Policy
    cwd: Path
    version: Version | None = None
    resume: str | None = None
    timeout: float | None = None
    record: IO[bytes] | None = None


def _rules(words: tuple[str, ...], decision: Literal["allow", "reject", "ask"]) -> list[Rule]:
    return [parse_rule(word, decision) for word in words]


@click.command(context_settings={"ignore_unknown_options": False})
@click.option("--prompt", required=True, help="What to say; - reads standard input.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "updates", "quiet"]),
    default="text",
    show_default=True,
    help="text: what the agent says, as it comes. quiet: only its last message. updates: every"
    " update in the words of version 2. json: the messages of both sides as they were.",
)
@click.option("--allow", multiple=True, metavar="RULE", help="Allow, e.g. read or command:git *.")
@click.option("--reject", multiple=True, metavar="RULE", help="Reject, before anything allows.")
@click.option("--policy", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--cwd", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--version", type=click.Choice(["1", "2"]), help="Speak only this version.")
@click.option("--resume", metavar="ID", help="Go on with this session.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Give up after so many seconds.")
@click.option("--record", type=click.File("wb"), help="Write the conversation to this file.")
@click.argument("command", nargs=-1)
def run(
    prompt: str,
    form: str,
    allow: tuple[str, ...],
    reject: tuple[str, ...],
    policy: Path | None,
    cwd: Path,
    version: str | None,
    resume: str | None,
    timeout: float | None,
    record: IO[bytes] | None,
    command: tuple[str, ...],
) -> None:
    """Have one turn with the agent that COMMAND starts (the demo agent, without one).

    Exit status: 0 the turn ended, 1 error, 2 usage, 3 refusal, 4 a limit, 5 cancelled, 6 something
    was not allowed, 7 the agent died or could not be started, 124 timeout.
    """
    try:
        wanted = Wanted(
            list(command) or DEMO,
            sys.stdin.read() if prompt == "-" else prompt,
            cast("Form", form),
            _policy(policy, allow, reject),
            cwd,
            cast("Version | None", int(version) if version else None),
            resume,
            timeout,
            record,
        )
        sys.exit(asyncio.run(_run(wanted)))
    except TwofoldError as error:
        _tell(str(error))
        sys.exit(status.of_error(error))
    except KeyboardInterrupt:
        sys.exit(status.CANCELLED)


def _policy(file: Path | None, allow: tuple[str, ...], reject: tuple[str, ...]) -> Policy:
    written = read_policy(file.read_bytes(), str(file)) if file is not None else Policy()
    rules = [*_rules(reject, "reject"), *_rules(allow, "allow"), *written.rules]
    return Policy(rules, written.otherwise)


async def _run(wanted: Wanted) -> int:
    try:
        async with asyncio.timeout(wanted.timeout):
            return await _turn(wanted)
    except TimeoutError:
        _tell(f"The turn did not end within {wanted.timeout:g} seconds.")
        return status.TIMEOUT


async def _turn(wanted: Wanted) -> int:
    async with _connected(wanted) as client:
        session = await _session(client, wanted)
        printer = _PRINTERS[wanted.form](session)
        reply = await session.prompt(wanted.prompt)
        printer.end()
        for decided in session.decisions:
            if not decided.allowed:
                _tell(f"{decided.subject.title}: {decided}")
        if reply.stop_reason != "end_turn":
            _tell(f"The turn ended with {reply.stop_reason}.")
        denied = any(not decided.allowed for decided in session.decisions)
        return status.of_reply(reply, denied=denied)


@asynccontextmanager
async def _connected(wanted: Wanted) -> AsyncIterator[Client]:
    tapes = _tapes(wanted)

    async def start() -> Transport:
        process = await Process.spawn(wanted.command, on_stderr=_heard(tapes))
        transport: Transport = process
        for tape in tapes:
            transport = Taped(transport, tape)
        return transport

    async with connect(
        start, version=wanted.version, policy=wanted.policy, on_problem=_problem
    ) as client:
        yield client


def _tapes(wanted: Wanted) -> list[Tape]:
    tapes = []
    if wanted.record is not None:
        tapes.append(Tape.to(wanted.record, command=wanted.command))
    if wanted.form == "json":
        tapes.append(_Wire())
    return tapes


class _Wire(Tape):
    """The tape on standard output: messages only."""

    def __init__(self) -> None:
        super().__init__(lambda line: None)
        self._write = _out

    def stderr(self, data: bytes) -> None:
        """Standard error is not part of the conversation."""


def _heard(tapes: list[Tape]) -> Callable[[bytes], None]:
    def hear(data: bytes) -> None:
        for tape in tapes:
            tape.stderr(data)

    return hear


async def _session(client: Client, wanted: Wanted) -> ClientSession:
    if wanted.resume is not None:
        return await client.resume_session(wanted.resume, wanted.cwd)
    return await client.new_session(wanted.cwd)


# ---- what goes to standard output ------------------------------------------------------------


class _Silent:
    """Nothing: someone else prints."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        session.on_update(self.update)

    def update(self, update: v2.SessionUpdate) -> None:
        """One update of the session."""

    def end(self) -> None:
        """The turn is over."""


class _Updates(_Silent):
    """Every update, one JSON object a line."""

    def update(self, update: v2.SessionUpdate) -> None:
        """One update of the session."""
        _out(codec.encode({"sessionId": self.session.session_id, "update": update}) + b"\n")


class _Text(_Silent):
    """What the agent says, as it comes; what it does goes to standard error."""

    def __init__(self, session: ClientSession) -> None:
        super().__init__(session)
        self._message = ""
        self._ended_line = True

    def update(self, update: v2.SessionUpdate) -> None:
        """One update of the session."""
        match update:
            case v2.AgentMessageChunk(content=v2.TextContent(text=text)):
                self._say(update.message_id, text)
            case v2.AgentMessage():
                whole = self.session.state.messages["agent"][update.message_id]
                self._say(update.message_id, whole.text)
            case v2.ToolCallUpdate(title=str(title)):
                self._fresh_line()
                _tell(title)

    def _say(self, message_id: str, text: str) -> None:
        if message_id != self._message:
            self._fresh_line()
            self._message = message_id
        if text:
            _out(sanitize(text).encode(errors="replace"))
            self._ended_line = text.endswith("\n")

    def _fresh_line(self) -> None:
        if not self._ended_line:
            _out(b"\n")
            self._ended_line = True

    def end(self) -> None:
        """The turn is over."""
        self._fresh_line()


class _Quiet(_Silent):
    """Only the last message of the turn."""

    def end(self) -> None:
        """The turn is over."""
        for entry in reversed(self.session.state.entries):
            if isinstance(entry, Message) and entry.role == "agent" and entry.text:
                _out(sanitize(entry.text).rstrip().encode(errors="replace") + b"\n")
                return


_PRINTERS: dict[Form, type[_Silent]] = {
    "text": _Text,
    "quiet": _Quiet,
    "updates": _Updates,
    "json": _Silent,
}


def _out(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # nobody reads on: the turn goes on without them
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _problem(problem: Problem) -> None:
    if problem.kind != "loss":
        _tell(str(problem))


def _tell(text: str) -> None:
    print("\n".join(map(one_line, text.split("\n"))), file=sys.stderr, flush=True)
