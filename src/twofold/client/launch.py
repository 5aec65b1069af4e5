"""Launches an agent's command and connects to it, with a record of the connection if wanted.

An agent at a URL runs already: it is only connected to.

The interactive client, one turn for scripts and the list of sessions all begin here. Nothing is
printed: callbacks report a slow start and problems. However the block of `Launch.client` is left,
the agent and everything that it started has ended.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, TypeAlias, cast

from twofold.client.client import Client, Offered, connect
from twofold.client.incoming import Elicit, NewState
from twofold.client.negotiate import AgentSilent, WantedVersion
from twofold.client.permissions import Ask
from twofold.errors import NoAnswer
from twofold.peer.problems import Report, log
from twofold.policy import Policy
from twofold.rpc.frames import LIMIT
from twofold.session import Session
from twofold.text import one_line
from twofold.transport.base import Transport
from twofold.transport.commands import StderrTail, shown
from twofold.transport.endpoint import MESSAGE_LIMIT, Endpoint
from twofold.transport.process import OnStderr, Process
from twofold.transport.remote import open_remote
from twofold.transport.tape import Tape, Taped

OnSlow: TypeAlias = Callable[[float], None]
"""Called each second with how many seconds have passed."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OUT_OF_STEP = 0.05
_LAST_LINES = 12
_LONGEST = 300


class RecentStderr:
    """The end of an agent's standard error since the last `forget`, to show beside a failure."""

    def __init__(self) -> None:
        self._tail = StderrTail()

    def add(self, data: bytes) -> None:
        """Add what the agent wrote."""
        self._tail.add(data)

    def forget(self) -> None:
        """Drop what was written before a turn: it has nothing to do with it."""
        self._tail = StderrTail()

    async def settled(self) -> list[str]:
        """The last lines, safe to show, below a heading; empty if there are none.

        The two outputs of an agent are read independently: what it wrote before an answer may be
        read after it, so this waits a moment.
        """
        await asyncio.sleep(_OUT_OF_STEP)
        return self.lines

    @property
    def lines(self) -> list[str]:
        """The same, as far as it was read by now."""
        last = self._tail.text.rstrip().splitlines()[-_LAST_LINES:]
        if not last:
            return []
        return [
            "The end of the agent's standard error:",
            *(f"  {each[:_LONGEST]}" for each in last),
        ]


class Launch:
    """An agent's command or URL, and how to connect to it: `async with launch.client() as …`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str | None] | None = None,
        version: WantedVersion | None = None,
        policy: Policy | None = None,
        offer: frozenset[Offered] = frozenset(),
        pass_env: Sequence[str] = (),
        line_limit: int = LIMIT,
        record: IO[bytes] | None = None,
        tapes: Sequence[Tape] = (),
        on_stderr: OnStderr | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        self.command = list(command)
        self.endpoint = endpoint
        """Where the agent is reached, if it is not started here."""
        self.cwd = cwd
        """Where the agent's process is started."""
        self._env = env
        self.answered = False
        """Whether the agent has answered `initialize`."""
        self.stderr = RecentStderr()
        self._version = version
        self._policy = policy
        self._offer = offer
        self._pass_env = pass_env
        self._line_limit = line_limit
        self._process: Process | None = None
        self._hurried = False
        self.on_stderr = on_stderr
        """Called with what the agent writes to its standard error."""
        self._record = Tape.to(record, command=self.command) if record is not None else None
        self._tapes = [*([self._record] if self._record is not None else []), *tapes]

    @asynccontextmanager
    async def client(
        self,
        *,
        ask: Ask | None = None,
        elicit: Elicit | None = None,
        login: bool = False,
        on_problem: Report = log,
        on_slow: OnSlow | None = None,
        new_state: NewState = Session,
    ) -> AsyncIterator[Client]:
        """Start the agent and connect to it, in a block.

        Args:
            ask: As for `connect`.
            elicit: As for `connect`.
            login: Whether a person can log in at this terminal.
            on_problem: As for `connect`.
            on_slow: Called each second until the agent has answered.
            new_state: As for `connect`.

        Raises:
            PeerError: As for `connect`; `AgentSilent` shows what the agent printed.
        """
        # a login in the terminal is done by the agent's command, and a URL has none
        offer = {*self._offer, "login"} if login and self.endpoint is None else self._offer
        waiting = Seconds(on_slow) if on_slow is not None else None
        try:
            async with connect(
                self._start,
                version=self._version,
                policy=self._policy,
                ask=ask,
                elicit=elicit,
                offer=cast("frozenset[Offered]", offer),
                pass_env=self._pass_env,
                on_problem=on_problem,
                line_limit=self._line_limit,
                new_state=new_state,
            ) as client:
                if waiting is not None:
                    waiting.close()
                self.answered = True
                self._note_agent(client)
                yield client
        except NoAnswer as error:  # `connect` cannot see the process behind the tape
            if error.method != "initialize":
                raise
            raise self.silent(error.seconds) from None
        finally:
            if waiting is not None:
                waiting.close()
            self._note_exit()

    @property
    def what_happens(self) -> str:
        """What is done until the agent has answered, safe to show."""
        verb = "Starting" if self.endpoint is None else "Connecting to"
        return f"{verb} {shown(self.command)}"

    # ---- what the agent printed

    @property
    def last_line(self) -> str:
        """The last line of the agent's standard error, safe to show; often empty."""
        lines = self._stderr_tail.split("\n")
        return next((line for line in map(one_line, reversed(lines)) if line), "")

    @property
    def fault(self) -> OSError | None:
        """The error that ended the record before the connection, if there was one."""
        return self._record.fault if self._record is not None else None

    def silent(self, seconds: float) -> NoAnswer:
        """The error for an agent that did not answer within `seconds`."""
        if self.endpoint is not None:
            return NoAnswer("agent", "initialize", seconds)
        printed = self._process.printed if self._process is not None else ""
        return AgentSilent(seconds, self._stderr_tail, printed)

    @property
    def _stderr_tail(self) -> str:
        return self._process.stderr_tail if self._process is not None else ""

    # ---- the process

    def hurry(self) -> None:
        """End the agent without waiting for it to end by itself, now or later."""
        self._hurried = True
        if self._process is not None:
            self._process.hurry()

    async def _start(self) -> Transport:
        self._note_exit()  # an agent that crashed on version 2 is started again
        self._process = None
        if self.endpoint is not None:
            limit = min(self._line_limit, MESSAGE_LIMIT)
            return self._taped(await open_remote(self.endpoint, limit=limit))
        record = self._record

        def on_stderr(data: bytes) -> None:
            self.stderr.add(data)
            if self.on_stderr is not None:
                self.on_stderr(data)
            if record is not None:
                record.stderr(data)

        command = located(self.command, self.cwd)
        self._process = await Process.spawn(
            command, cwd=self.cwd, env=self._env, on_stderr=on_stderr
        )
        if self._hurried:
            self._process.hurry()
        return self._taped(self._process)

    def _taped(self, transport: Transport) -> Transport:
        if not self._tapes:
            return transport
        return Taped(transport, *self._tapes, line_limit=self._line_limit)

    def _note_agent(self, client: Client) -> None:
        if self._record is not None:
            agent = {"name": client.agent.info.name, "version": client.agent.info.version}
            self._record.note("negotiated", version=client.protocol_version, agent=agent)

    def _note_exit(self) -> None:
        if self._record is not None and self._process is not None:
            code, by = self._process.exit_code, self._process.signal
            self._record.note("exit", code=code, signal=by)


def located(command: Sequence[str], cwd: str | os.PathLike[str] | None) -> list[str]:
    """The command to start in `cwd`; a relative path of its program is one of this directory."""
    program, *arguments = command
    here = os.path.abspath(program)
    elsewhere = cwd is not None and os.path.abspath(cwd) != os.path.abspath(".")
    if elsewhere and os.path.dirname(program) and os.path.exists(here):
        program = here
    return [program, *arguments]


# ---- clocks and signals ------------------------------------------------------------------------


class Seconds:
    """Calls a function each second, until `close` or until the task is cancelled."""

    def __init__(self, call: OnSlow) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._call = call
        self._begun = self._loop.time()
        self._passed = 0
        self._wait()

    def _wait(self) -> None:
        self._timer = self._loop.call_at(self._begun + self._passed + 1, self._tick)

    def _tick(self) -> None:
        if self._task is not None and self._task.cancelling():
            return  # the task is on its way out
        self._passed += 1
        self._wait()
        self._call(float(self._passed))

    def close(self) -> None:
        """Stop the calls."""
        self._timer.cancel()


def on_signals(interrupt: Callable[[], None]) -> None:
    """Call `interrupt` on every signal that asks this process to end, as long as the loop runs."""
    wanted = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    with suppress(RuntimeError, ValueError):  # not in the main thread
        for number in wanted:
            asyncio.get_running_loop().add_signal_handler(number, interrupt)
