"""`twofold run --prompt`: one turn with an agent, for scripts.

Nobody is asked anything: what the rules do not allow is rejected. What the agent says goes to
standard output in the form that was chosen, everything else to standard error (see `printing`), and
the exit status says how the turn ended (see `status`). However it ends, the agent and all that it
started is gone.
"""

import asyncio
from pathlib import Path
from typing import IO

from msgspec import Struct

from twofold.cli.printing import PRINTERS, Form, Screen
from twofold.cli.unattended import Problems, sits_there, slow, with_login
from twofold.client.client import Client, Offered
from twofold.client.known_sessions import NotReopened, known_sessions, reopen
from twofold.client.launch import Launch, Seconds, on_signals
from twofold.client.prompting import Reply
from twofold.client.session import ClientSession
from twofold.convert.versions import Version
from twofold.errors import PeerError, TwofoldError
from twofold.policy import Policy
from twofold.rpc.errors import RequestFailed
from twofold.rpc.frames import LIMIT
from twofold.term import exit_status
from twofold.term.input.mentions import missing, no_file
from twofold.transport.tape import Tape

GIVE_UP = 3.0
"""How many seconds an agent has to end a turn that was cancelled."""
SLOW_END = 3.0
"""After how many seconds it is said that the agent has not ended yet: most need no more than two,
if only because they are asked to."""


class Scripted(Struct, kw_only=True):
    """What was asked for on the command line."""

    command: list[str]
    prompt: str
    form: Form
    policy: Policy
    cwd: Path
    version: Version | None
    resume: str | None
    latest: bool
    """Go on with the session of `cwd` that was updated last."""
    login: str | None
    timeout: float | None
    offer: frozenset[Offered] = frozenset()
    pass_env: tuple[str, ...] = ()
    line_limit: int = LIMIT
    record: IO[bytes] | None


class NoneToResume(PeerError):
    """The agent knows no session of the directory."""

    def __init__(self, client: Client) -> None:
        super().__init__(
            f"{client.agent_name} knows no session of this directory: there is none to resume."
        )


async def one_turn(wanted: Scripted, screen: Screen) -> int:
    """Have the turn; the exit status."""
    turn = _Turn(wanted, screen)
    on_signals(turn.interrupt)
    try:
        async with asyncio.timeout(wanted.timeout) as limit:
            code = await turn.play(limit)
    except TimeoutError:
        if not limit.expired():
            raise
        screen.tell(turn.late())
        code = exit_status.TIMEOUT
    except TwofoldError as error:
        screen.tell("\n".join([str(error), *turn.complaints]))
        code = exit_status.of_error(error)
    except asyncio.CancelledError:
        if not turn.signals:
            raise
        code = exit_status.CANCELLED
    return exit_status.CANCELLED if turn.interrupted else turn.written(code)


class _Turn:
    """One turn, from the start of the agent to its end."""

    def __init__(self, wanted: Scripted, screen: Screen) -> None:
        self.signals = 0
        self.interrupted = False
        """Someone wanted it to end before it did."""
        self.complaints: list[str] = []
        """What the agent wrote to its standard error before it failed."""
        self._wanted = wanted
        self._screen = screen
        self._task = asyncio.current_task()
        self._session: ClientSession | None = None
        self._over = False
        self._cancelling: asyncio.Task[None] | None = None
        self._connecting = Launch(
            wanted.command,
            cwd=wanted.cwd,
            version=wanted.version,
            policy=wanted.policy,
            offer=wanted.offer,
            pass_env=wanted.pass_env,
            line_limit=wanted.line_limit,
            record=wanted.record,
            tapes=[Tape(screen.json)] if wanted.form == "json" else [],
        )

    async def play(self, limit: asyncio.Timeout) -> int:
        """Start the agent, say the prompt and wait for the end; the exit status."""
        loop, at = asyncio.get_running_loop(), limit.when()
        hurry = loop.call_at(at, self._connecting.hurry) if at is not None else None
        login, command = self._wanted.login, self._wanted.command
        told, late = Problems(self._screen), slow(self._screen, command)
        here = sits_there()
        async with self._connecting.client(login=here, on_problem=told, on_slow=late) as client:
            told.answered()
            session, reply = await with_login(
                client, lambda: self._talk(client), login, command, self._wanted.cwd
            )
            limit.reschedule(None)  # the turn was in time, whatever the end of the agent takes
            if reply.given_up:
                self._connecting.hurry()
            ending = Seconds(self._ends)
        ending.close()
        if hurry is not None:
            hurry.cancel()
        if reply.stop_reason != "end_turn":
            self._screen.tell(f"The turn ended with {reply.stop_reason}.")
        decided = [each for each in session.decisions if each.by != "cancel"]
        return exit_status.of_reply(reply, denied=not all(each.allowed for each in decided))

    async def _talk(self, client: Client) -> tuple[ClientSession, Reply]:
        self._over = False
        try:
            session = await self._open(client)
            return session, await self._prompt(session)
        except (RequestFailed, NotReopened):
            # now, for an agent that is ended may have more to say, and none of it of this
            self.complaints = await self._connecting.stderr.settled()
            raise

    async def _open(self, client: Client) -> ClientSession:
        session_id, cwd = self._wanted.resume, self._wanted.cwd
        if self._wanted.latest:
            known = await known_sessions(client, cwd)
            if not known.sessions:
                raise NoneToResume(client)
            session_id = known.sessions[0].session_id
        if session_id is not None:
            return await reopen(client, session_id, cwd, self._wanted.command, replay=False)
        return await client.new_session(cwd)

    async def _prompt(self, session: ClientSession) -> Reply:
        for mention in missing(self._wanted.prompt, self._wanted.cwd):
            self._screen.tell(no_file(mention))
        printer = PRINTERS[self._wanted.form](session, self._screen)
        reply = None
        self._session = session
        try:
            self._connecting.stderr.forget()
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
        if self._session is None or self.signals > 1:
            self._connecting.hurry()
        if self.signals == 1 and self._session is not None:
            self._cancelling = asyncio.create_task(self._session.cancel(GIVE_UP))
        elif self._task is not None and not (self.signals == 1 and self._over):
            self._task.cancel()  # what was started is ended on the way out

    def _ends(self, seconds: float) -> None:
        if seconds == SLOW_END:
            self._screen.tell("Waiting for the agent to end; Ctrl-C ends it now.")

    def late(self) -> str:
        """What did not happen in time."""
        seconds = self._wanted.timeout or 0
        if not self._connecting.answered:
            return str(self._connecting.silent(seconds))
        return f"The turn did not end within {seconds:g} seconds: it was given up."

    def written(self, code: int) -> int:
        """The exit status, if everything could be written that was wanted."""
        faults = {"Standard output": self._screen.out.fault}
        if self._wanted.record is not None:
            faults[self._wanted.record.name] = self._connecting.fault
        for name, fault in faults.items():
            if fault is not None:
                self._screen.tell(f"{name} could not be written to the end: {fault.strerror}.")
                code = code or exit_status.FAILED
        return code
