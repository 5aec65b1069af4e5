"""The way to an agent: its command is started, written down if that is wanted, and heard.

What the interactive client, one turn for scripts and the list of sessions have in common. Nothing
is printed here: whoever connects is called for a start that takes long and for problems. However
the block of `Connecting.client` is left, the agent and all that it started is gone.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, TypeAlias, cast

from msgspec import Struct

from twofold.client.client import Client, Offered, connect
from twofold.client.incoming import Elicit
from twofold.client.negotiate import Silent, WantedVersion
from twofold.client.permissions import Ask
from twofold.peer.problems import Report, log
from twofold.policy import Policy
from twofold.rpc.frames import LIMIT
from twofold.text import one_line
from twofold.transport.base import Transport
from twofold.transport.commands import LastWords
from twofold.transport.process import Process
from twofold.transport.tape import Tape, Taped

OnSlow: TypeAlias = Callable[[float], None]
"""Told each second for how many seconds the agent has not answered yet."""

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_OUT_OF_STEP = 0.05
_LAST_LINES = 12
_LONGEST = 300


class Wanted(Struct, kw_only=True):
    """What was asked of the interactive client on the command line."""

    command: list[str]
    policy: Policy
    cwd: Path
    version: WantedVersion | None = None
    resume: str | None = None
    """Go on with this session."""
    choose: bool = False
    """Go on with a session of `cwd` that the person chooses."""
    start: str | None = None
    """What to say first."""
    color: bool = True
    offer: frozenset[Offered] = frozenset()
    """What the client does for an agent of version 1."""
    pass_env: tuple[str, ...] = ()
    """Variables of ours that commands get which the client runs for the agent."""
    line_limit: int = LIMIT
    record: IO[bytes] | None = None


class Complaints:
    """What an agent wrote to its standard error since the last `forget`, for a failure to show."""

    def __init__(self) -> None:
        self._words = LastWords()

    def add(self, data: bytes) -> None:
        """Take in what it wrote."""
        self._words.add(data)

    def forget(self) -> None:
        """A turn begins: what was written before has nothing to do with it."""
        self._words = LastWords()

    async def told(self) -> list[str]:
        """The last lines, safe to show, below a heading; empty if there are none.

        The two outputs of an agent are not in step: what was written before an answer may be read
        after it, so this waits a moment.
        """
        await asyncio.sleep(_OUT_OF_STEP)
        return self.lines

    @property
    def lines(self) -> list[str]:
        """The same, as far as it was read."""
        last = self._words.text.rstrip().splitlines()[-_LAST_LINES:]
        if not last:
            return []
        return [
            "The end of the agent's standard error:",
            *(f"  {each[:_LONGEST]}" for each in last),
        ]


class Connecting:
    """The way to one agent: `async with connecting.client() as client: …`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        version: WantedVersion | None = None,
        policy: Policy | None = None,
        offer: frozenset[Offered] = frozenset(),
        pass_env: Sequence[str] = (),
        line_limit: int = LIMIT,
        record: IO[bytes] | None = None,
        tapes: Sequence[Tape] = (),
    ) -> None:
        self.command = list(command)
        self.cwd = cwd
        """Where the agent's process is started."""
        self.answered = False
        """The agent said who it is."""
        self.complaints = Complaints()
        self._version = version
        self._policy = policy
        self._offer = offer
        self._pass_env = pass_env
        self._line_limit = line_limit
        self._process: Process | None = None
        self._hurried = False
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
    ) -> AsyncIterator[Client]:
        """Start the agent and agree on a version; `on_slow` is called until that is done.

        `login`: someone sits at the terminal, and can log in there.
        """
        offer = {*self._offer, "login"} if login else self._offer
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
            ) as client:
                if waiting is not None:
                    waiting.close()
                self.answered = True
                self._note_agent(client)
                yield client
        except Silent as error:  # whoever raised it does not see what is behind a tape
            raise self.silent(error.seconds) from None
        finally:
            if waiting is not None:
                waiting.close()
            self._note_exit()

    # ---- what is known of it

    @property
    def last_line(self) -> str:
        """The last line that the agent wrote to its standard error, safe to show; often empty."""
        lines = self._last_words.split("\n")
        return next((line for line in map(one_line, reversed(lines)) if line), "")

    @property
    def fault(self) -> OSError | None:
        """Why the record ends before the conversation, if it does."""
        return self._record.fault if self._record is not None else None

    def silent(self, seconds: float) -> Silent:
        """The agent did not answer within so many seconds: the error that says so."""
        printed = self._process.printed if self._process is not None else ""
        return Silent(seconds, self._last_words, printed)

    @property
    def _last_words(self) -> str:
        return self._process.stderr_tail if self._process is not None else ""

    # ---- the process

    def hurry(self) -> None:
        """Nobody wants to wait for the agent to end by itself, now or later."""
        self._hurried = True
        if self._process is not None:
            self._process.hurry()

    async def _start(self) -> Transport:
        self._note_exit()  # one that fell over version 2 is started again
        self._process = None
        record = self._record

        def on_stderr(data: bytes) -> None:
            self.complaints.add(data)
            if record is not None:
                record.stderr(data)

        command = located(self.command, self.cwd)
        self._process = await Process.spawn(command, cwd=self.cwd, on_stderr=on_stderr)
        if self._hurried:
            self._process.hurry()
        if not self._tapes:
            return self._process
        return Taped(self._process, *self._tapes, line_limit=self._line_limit)

    def _note_agent(self, client: Client) -> None:
        if self._record is not None:
            agent = {"name": client.agent.info.name, "version": client.agent.info.version}
            self._record.note("negotiated", version=client.protocol_version, agent=agent)

    def _note_exit(self) -> None:
        if self._record is not None and self._process is not None:
            code, by = self._process.exit_code, self._process.signal
            self._record.note("exit", code=code, signal=by)


def located(command: Sequence[str], cwd: str | os.PathLike[str] | None) -> list[str]:
    """The command as it is started in `cwd`: the path of a program is one of this directory."""
    program, *arguments = command
    here = os.path.abspath(program)
    elsewhere = cwd is not None and os.path.abspath(cwd) != os.path.abspath(".")
    if elsewhere and os.path.dirname(program) and os.path.exists(here):
        program = here
    return [program, *arguments]


# ---- clocks and signals ------------------------------------------------------------------------


class Seconds:
    """A call for each second that passes, until it is closed or the task is cancelled."""

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
            return  # nobody waits any more: what was started is being ended
        self._passed += 1
        self._wait()
        self._call(float(self._passed))

    def close(self) -> None:
        """Call no more."""
        self._timer.cancel()


def on_signals(interrupt: Callable[[], None]) -> None:
    """Whoever wants this process to end calls `interrupt`; it lasts as long as the loop."""
    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or another thread
        for number in heard:
            asyncio.get_running_loop().add_signal_handler(number, interrupt)
