"""`twofold run --prompt`: one turn with an agent, for scripts.

The person is asked nothing: what the rules do not allow is rejected. The reply goes to standard
output in the chosen format (see `formats`), everything else to standard error, and the exit status
reports how the turn ended (see `exit_status`). However it ends, the agent and every process that it
started have ended too.
"""

import asyncio

from msgspec import Struct

from twofold.cli.formats import PRINTERS, Format
from twofold.cli.output import Output, not_written
from twofold.cli.unattended import Problems, StderrLines, has_terminal, slow_start, with_login
from twofold.client.client import Client
from twofold.client.known_sessions import NotReopened, known_sessions
from twofold.client.launch import Launch, Seconds, on_signals
from twofold.client.mentions import missing, no_file
from twofold.client.prompting import Reply
from twofold.client.session import ClientSession
from twofold.errors import PeerError, TwofoldError
from twofold.rpc.errors import RequestFailed
from twofold.term import exit_status
from twofold.term.run_options import RunOptions

GIVE_UP = 3.0
"""How many seconds an agent has to end a cancelled turn."""
SLOW_END = 3.0
"""After how many seconds a slow exit is reported: an agent that is not working has two."""


class TurnOptions(Struct, kw_only=True):
    """The options of `twofold run` that only `--prompt` takes."""

    prompt: str
    output_format: Format
    login: str | None
    timeout: float | None
    stderr: StderrLines | None = None
    """Prints the agent's standard error, with `--verbose`."""


class NoneToResume(PeerError):
    """The agent has no session in the directory."""

    def __init__(self, client: Client) -> None:
        super().__init__(
            f"{client.agent_name} has no session in this directory: there is none to resume."
        )


async def run_one_turn(
    wanted: RunOptions, launch: Launch, turn: TurnOptions, output: Output
) -> int:
    """Send one prompt and print the reply, and return the exit status.

    `wanted.choose` resumes the session that was updated last, because nobody can choose.
    """
    run = _OneTurn(wanted, launch, turn, output)
    on_signals(run.interrupt)
    try:
        async with asyncio.timeout(turn.timeout) as limit:
            status = await run.run(limit)
    except TimeoutError:
        if not limit.expired():
            raise
        output.report(run.timed_out())
        status = exit_status.TIMEOUT
    except TwofoldError as error:
        output.report("\n".join([str(error), *run.stderr_lines]))
        status = exit_status.of_error(error)
    except asyncio.CancelledError:
        if not run.signals:
            raise
        status = exit_status.CANCELLED
    finally:
        if turn.stderr is not None:
            turn.stderr.end()
    return exit_status.CANCELLED if run.interrupted else run.check_written(status)


class _OneTurn:
    """One turn, from the start of the agent to its end."""

    def __init__(
        self, wanted: RunOptions, launch: Launch, turn: TurnOptions, output: Output
    ) -> None:
        self.signals = 0
        self.interrupted = False
        """A signal arrived before the turn had ended."""
        self.stderr_lines: list[str] = []
        """What the agent wrote to its standard error before it failed."""
        self._wanted = wanted
        self._launch = launch
        self._turn = turn
        self._output = output
        self._problems = Problems(output, losses=turn.stderr is not None)
        self._task = asyncio.current_task()
        self._session: ClientSession | None = None
        self._over = False
        self._cancelling: asyncio.Task[None] | None = None

    async def run(self, limit: asyncio.Timeout) -> int:
        """Start the agent, send the prompt and wait for the end; returns the exit status."""
        loop, at = asyncio.get_running_loop(), limit.when()
        hurry = loop.call_at(at, self._launch.hurry) if at is not None else None
        command = self._wanted.command
        on_slow = slow_start(self._output, self._launch)
        async with self._launch.client(
            login=has_terminal(), on_problem=self._problems, on_slow=on_slow
        ) as client:
            self._problems.release()
            session, reply = await with_login(
                client,
                lambda: self._open_and_prompt(client),
                self._turn.login,
                command,
                self._wanted.cwd,
                self._wanted.env,
            )
            limit.reschedule(None)  # the turn was in time, however long the agent takes to exit
            if reply.given_up:
                self._launch.hurry()
            ending = Seconds(self._report_slow_end)
        ending.close()
        if hurry is not None:
            hurry.cancel()
        if reply.stop_reason != "end_turn":
            self._output.report(f"The turn ended with {reply.stop_reason}.")
        decided = [each for each in session.decisions if each.by != "cancel"]
        return exit_status.of_reply(reply, denied=not all(each.allowed for each in decided))

    async def _open_and_prompt(self, client: Client) -> tuple[ClientSession, Reply]:
        self._over = False
        try:
            session = await self._open(client)
            return session, await self._prompt(session)
        except (RequestFailed, NotReopened):
            # read now: an agent that is being ended may write more, which is not about this
            lines = await self._launch.stderr.settled()
            self.stderr_lines = lines if self._turn.stderr is None else []  # they are printed
            raise

    async def _open(self, client: Client) -> ClientSession:
        session_id, cwd = self._wanted.resume, self._wanted.cwd
        if self._wanted.choose:
            known = await known_sessions(client, cwd)
            if not known.sessions:
                raise NoneToResume(client)
            session_id = known.sessions[0].session_id
        if session_id is not None:
            return await self._wanted.setup.reopen(
                client, session_id, cwd, self._wanted.command, self._problems, replay=False
            )
        return await self._wanted.setup.new_session(client, cwd, self._problems)

    async def _prompt(self, session: ClientSession) -> Reply:
        for mention in missing(self._turn.prompt, self._wanted.cwd):
            self._output.report(no_file(mention))
        printer = PRINTERS[self._turn.output_format](session, self._output)
        reply = None
        self._session = session
        try:
            self._launch.stderr.forget()
            reply = await session.prompt(self._turn.prompt)
        finally:
            self._session, self._over = None, True
            printer.end(reply)
        return reply

    def _report_slow_end(self, seconds: float) -> None:
        if seconds == SLOW_END:
            self._output.report("Waiting for the agent to exit; Ctrl-C ends it now.")

    # ---- signals, timeouts and full disks

    def interrupt(self) -> None:
        """Cancel the turn at the first signal, and leave at once at the second."""
        self.signals += 1
        self.interrupted = self.interrupted or not self._over
        if self._session is None or self.signals > 1:
            self._launch.hurry()
        if self.signals == 1 and self._session is not None:
            self._cancelling = asyncio.create_task(self._session.cancel(GIVE_UP))
        elif self._task is not None and not (self.signals == 1 and self._over):
            self._task.cancel()  # `run` ends what it has started

    def timed_out(self) -> str:
        """The message for what did not happen within the timeout."""
        seconds = self._turn.timeout or 0
        if not self._launch.answered:
            return str(self._launch.silent(seconds))
        return f"The turn did not end within {seconds:g} seconds: it was cancelled."

    def check_written(self, status: int) -> int:
        """Report output that is incomplete, and return the exit status."""
        faults = {"Standard output": self._output.out.fault}
        if self._wanted.record is not None:
            faults[self._wanted.record.name] = self._launch.fault
        for name, fault in faults.items():
            if fault is not None:
                self._output.report(not_written(name, fault))
                status = status or exit_status.FAILED
        return status
