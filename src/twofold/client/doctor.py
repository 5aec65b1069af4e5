"""Examines an agent step by step, as `twofold doctor` prints it.

Each step has an outcome, one line of detail and, where something is wrong, advice. No step waits
longer than its timeout, a step that cannot be done is skipped with the reason, and however far the
examination gets, the agent has ended after it. No permission is granted, no file and no terminal is
offered, and a prompt is sent only if the caller gives one. Text of the agent is safe to show.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct

from twofold.client.client import Client, connect
from twofold.client.known_sessions import known_sessions
from twofold.client.launch import located
from twofold.client.login import NoSuchWay, log_in, others, wants_login, way_of, ways
from twofold.client.negotiate import Able, AgentSilent, NotAnAgent, WantedVersion, WrongVersion
from twofold.client.prompting import Reply
from twofold.client.session import ClientSession
from twofold.client.watched_agent import WatchedAgent
from twofold.convert.options import choices, known_options
from twofold.errors import BadAnswer, ConnectionEnded, NoAnswer, TwofoldError
from twofold.rpc.errors import RequestFailed
from twofold.text import one_line
from twofold.transport.commands import IS_IT, CommandNotStarted, ProcessEnded, environment, why_not
from twofold.transport.endpoint import Endpoint, NotReached
from twofold.transport.groups import Running
from twofold.wire import codec, v2

TIMEOUT = 30.0
"""How many seconds each step may take by default."""
LOGIN = 300.0
"""How many seconds a login may take at least: a person may have to do something."""
VERSION = 3.0
"""How many seconds the program has to answer `--version`."""
QUICK = 1.0
"""How many seconds after a cancel a turn may still end by itself: the messages may have crossed."""
BEFORE_CANCEL = 2.0
"""How many seconds a turn that shows nothing runs before it is cancelled."""
_MORE_TIME = "If the agent only needs longer, give it more time with --timeout."
_NOT_STARTED = "the program was not started"
_ELSEWHERE = "the agent was not started here"
_LONGEST = 300
_MOST_LISTED = 12
_MOST_LINES = 10

Outcome: TypeAlias = Literal["ok", "warning", "failed", "skipped"]
StepName: TypeAlias = Literal[
    "found",
    "starts",
    "initialize",
    "login",
    "new session",
    "prompt",
    "cancel",
    "list",
    "close",
    "resume",
    "delete",
    "exit",
    "left behind",
    "stdout",
    "stderr",
    "protocol",
]
STEPS: Final[tuple[StepName, ...]] = get_args(StepName)
"""The steps in their order."""


class Step(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one step. Its texts are on one line and safe to show."""

    name: StepName
    outcome: Outcome
    detail: str
    """What was found."""
    advice: str = ""
    """What to do if something is wrong."""
    seconds: float | None = None
    """How long the step took, where that tells something about the agent."""
    lines: list[str] = []
    """More about it, for people."""
    facts: dict[str, Any] = {}
    """More about it, for programs."""


OnStep: TypeAlias = Callable[[Step], None]


class Checkup(Struct, kw_only=True):
    """What to examine, and how far to go."""

    command: Sequence[str]
    """The command that starts the agent."""
    env: Mapping[str, str] = {}
    """Variables to set for it."""
    endpoint: Endpoint | None = None
    """Where the agent is reached, if it is not started here."""
    cwd: Path = Path()
    """Where the agent is started, and where its session works."""
    prompt: str | None = None
    """The prompt to send, twice: the second time it is cancelled. None sends none."""
    login: str | None = None
    """The login method to use if the agent requires one."""
    version: WantedVersion | None = None
    """The version of the protocol to demand."""
    timeout: float = TIMEOUT
    """How many seconds each step may take."""


async def examine(checkup: Checkup, on_step: OnStep = lambda step: None) -> list[Step]:
    """Examine an agent.

    Args:
        checkup: What to examine.
        on_step: Called with the result of each step, as soon as it is known.

    Returns:
        The results of all steps, in the order of `STEPS`.
    """
    examination = _Examination(checkup, on_step)
    await examination.run()
    return examination.steps


def is_fine(steps: Sequence[Step]) -> bool:
    """Whether no step failed or warns."""
    return all(step.outcome in ("ok", "skipped") for step in steps)


class _Examination:
    """One examination, from the search for the program to the end of its processes."""

    def __init__(self, checkup: Checkup, on_step: OnStep) -> None:
        self.steps: list[Step] = []
        self._checkup = checkup
        self._on_step = on_step
        self._agent = WatchedAgent(checkup.command, checkup.cwd, checkup.env, checkup.endpoint)
        self._remote = checkup.endpoint is not None
        self._clock = asyncio.get_running_loop().time
        self._connected = False
        self._begun = self._clock()

    async def run(self) -> None:
        if not await self._find():
            self._skip_rest("the program was not found")
            return
        self._begun = self._clock()
        try:
            async with connect(
                self._agent.open,
                version=self._checkup.version,
                offer=set() if self._remote else {"login"},
                on_problem=self._agent.report,
                start_timeout=self._checkup.timeout,
            ) as client:
                self._connected = True
                self._note_initialized(client)
                await self._talk(client)
        except TwofoldError as error:
            if self._connected:
                raise
            if not self._note_not_initialized(error):
                return
        self._skip_until("exit", "there is no connection")
        self._note_end()

    # ---- results

    def _add(
        self,
        name: StepName,
        outcome: Outcome,
        detail: str,
        advice: str = "",
        *,
        seconds: float | None = None,
        lines: Sequence[str] = (),
        facts: dict[str, Any] | None = None,
    ) -> None:
        step = Step(
            name=name,
            outcome=outcome,
            detail=_short(detail),
            advice=one_line(advice),
            seconds=None if seconds is None else round(seconds, 3),
            lines=[_short(line) for line in lines],
            facts=facts or {},
        )
        self.steps.append(step)
        self._on_step(step)

    def _skip(self, name: StepName, reason: str) -> None:
        self._add(name, "skipped", reason)

    def _skip_until(self, name: StepName, reason: str) -> None:
        """Skip the steps before `name` that have no result yet."""
        for each in STEPS[len(self.steps) : STEPS.index(name)]:
            self._skip(each, reason)

    def _skip_rest(self, reason: str) -> None:
        for each in STEPS[len(self.steps) :]:
            self._skip(each, reason)

    async def _try(
        self, name: StepName, work: Callable[[], Awaitable[None]], limit: float | None = None
    ) -> bool:
        """Do a step within its timeout; an error is the result of the step. True without one."""
        if self._agent.over:
            self._skip(name, "the agent has ended")
            return False
        limit = limit or self._checkup.timeout
        begun = self._clock()
        try:
            async with asyncio.timeout(limit):
                await work()
        except TimeoutError:
            self._add(name, "failed", f"it did not end within {limit:g} seconds", _MORE_TIME)
        except TwofoldError as error:
            self._add_error(name, error, self._clock() - begun)
        else:
            return True
        return False

    def _add_error(self, name: StepName, error: TwofoldError, seconds: float | None = None) -> None:
        first, *rest = str(error).split("\n")
        facts: dict[str, Any] = {"error": type(error).__name__}
        if isinstance(error, ProcessEnded):  # what it wrote is shown by the steps after this one
            first, rest = error.summary, error.stdout.split("\n") if error.stdout else []
        elif isinstance(error, NotAnAgent):
            first = "the command repeats its input: it is not an agent"
        elif isinstance(error, AgentSilent):
            first = f"no answer within {error.seconds:g} seconds"
            rest = error.stdout.split("\n") if error.stdout else []
        elif isinstance(error, RequestFailed):
            facts |= {"code": error.code, "message": error.message}
        lines = rest[:_MOST_LINES]
        advice = _advice_remote(error) if self._remote else _advice(error)
        self._add(name, "failed", first, advice, seconds=seconds, lines=lines, facts=facts)

    # ---- the program

    async def _find(self) -> bool:
        if self._remote:
            self._skip("found", _ELSEWHERE)
            return True
        program = located(self._checkup.command, self._checkup.cwd)[0]
        path = found_program(program, self._checkup.cwd)
        if isinstance(path, OSError):
            reason = why_not(path, program, environment({}), self._checkup.cwd)
            detail, _, advice = reason.partition(". ")
            self._add("found", "failed", detail, advice)
            return False
        version = await program_version(path, self._checkup.cwd)
        more = f", {version}" if version else ""
        self._add("found", "ok", f"{path}{more}", facts={"path": path, "version": version or None})
        return True

    # ---- initialize

    def _note_started(self) -> None:
        seconds = self._agent.start_seconds
        detail = f"in {seconds:.2f} s"
        if self._agent.connection is not None:
            detail = f"connected {detail}, by {self._agent.connection.way}"
        self._add("starts", "ok", detail, seconds=seconds)

    def _note_initialized(self, client: Client) -> None:
        self._note_started()
        seconds = self._clock() - self._begun - self._agent.start_seconds
        handshakes = self._agent.handshakes
        info = client.agent.info
        name = f"{client.agent_name} {info.version}".strip()
        asked = "; ".join(map(str, handshakes))
        outcome: Outcome = "ok"
        advice = ""
        if self._agent.starts > 1:
            outcome = "warning"
            advice = (
                "The agent had to be started again. Answer initialize with the newest version that"
                " the agent speaks, whatever version the client asks for."
            )
        elif any(each.error for each in handshakes):
            outcome = "warning"
            advice = (
                "Answer initialize with the newest version that the agent speaks instead of an"
                " error."
            )
        self._add(
            "initialize",
            outcome,
            f"{name}, in {seconds:.2f} s: {asked}",
            advice,
            seconds=seconds,
            lines=_about(client),
            facts={
                "info": codec.to_json(info),
                "protocolVersion": client.protocol_version,
                "handshakes": [codec.to_json(each) for each in handshakes],
                "capabilities": codec.to_json(client.capabilities),
                "authMethods": [codec.to_json(each) for each in client.auth_methods],
                "can": _abilities(client),
            },
        )

    def _note_not_initialized(self, error: TwofoldError) -> bool:
        """Note why there is no connection; False if there is not even a process."""
        if isinstance(error, CommandNotStarted | NotReached) and not self._agent.starts:
            detail, _, advice = error.reason.partition(". ")
            self._add("starts", "failed", detail, advice)
            self._skip_rest("there is no connection" if self._remote else _NOT_STARTED)
            return False
        self._note_started()
        self._add_error("initialize", error)
        return True

    # ---- sessions

    async def _talk(self, client: Client) -> None:
        session = await self._open(client)
        if session is None:
            self._skip_until("exit", "there is no session")
            return
        await self._prompt_and_cancel(session)
        await self._list(client)
        closed = await self._close(client, session)
        await self._resume(client, session.session_id, closed)
        await self._delete(client, session.session_id)

    async def _open(self, client: Client) -> ClientSession | None:
        """Make a session, after a login if the agent wants one and the caller named a method."""
        named = _login_methods(client)
        try:
            session, seconds = await self._new_session(client)
        except TwofoldError as error:
            if not wants_login(error):
                self._add("login", "ok", f"not asked for; {named}")
                self._add_error("new session", error)
                return None
            if not await self._log_in(client, named):
                self._skip("new session", "the agent wants a login first")
                return None
            try:
                session, seconds = await self._new_session(client)
            except TwofoldError as refused:
                self._add_error("new session", refused)
                return None
        else:
            self._add("login", "ok", f"not asked for; {named}")
        await self._note_session(session, seconds)
        return session

    async def _new_session(self, client: Client) -> tuple[ClientSession, float]:
        begun, limit = self._clock(), self._checkup.timeout
        try:
            async with asyncio.timeout(limit):
                session = await client.new_session(self._checkup.cwd)
        except TimeoutError:
            raise NoAnswer("agent", "session/new", limit) from None
        return session, self._clock() - begun

    async def _log_in(self, client: Client, named: str) -> bool:
        login = self._checkup.login
        if login is None:
            advice = "Log in with the agent's own program"
            if ways(client):
                advice += ", or choose one with --login"
            self._add("login", "warning", f"needed; {named}", f"{advice}, then try again.")
            return False

        async def work() -> None:
            begun = self._clock()
            way = way_of(client, login)
            await log_in(client, way, self._checkup.command, self._checkup.cwd)
            seconds = self._clock() - begun
            self._add("login", "ok", f"logged in by {login} in {seconds:.2f} s", seconds=seconds)

        return await self._try("login", work, max(LOGIN, self._checkup.timeout))

    async def _note_session(self, session: ClientSession, seconds: float) -> None:
        early = self._agent.early_updates
        with suppress(TwofoldError, TimeoutError):  # commands often follow the answer
            async with asyncio.timeout(self._checkup.timeout):
                await session.settled()
        state = session.state
        outcome: Outcome = "ok"
        detail, advice = f"in {seconds:.2f} s", ""
        if early:
            outcome = "warning"
            detail += f"; {_count(early, 'update')} of the session before the answer"
            advice = (
                "Send updates after the answer to session/new: until then the client does not know"
                " the session, and many clients drop them."
            )
        self._add(
            "new session",
            outcome,
            detail,
            advice,
            seconds=seconds,
            lines=_about_session(session),
            facts={
                "sessionId": session.session_id,
                "configOptions": [codec.to_json(each) for each in state.config_options],
                "commands": _command_names(session),
                "updatesBeforeAnswer": early,
            },
        )

    # ---- turns

    async def _prompt_and_cancel(self, session: ClientSession) -> None:
        if self._checkup.prompt is None:
            for name in ("prompt", "cancel"):
                self._skip(name, "only with --prompt TEXT")
            return
        prompt = self._checkup.prompt
        turn: asyncio.Task[Reply] | None = None
        try:
            begun, updates = self._clock(), list[float]()
            watching = session.on_update(lambda update: updates.append(self._clock() - begun))
            turn = asyncio.create_task(session.prompt(prompt))
            await asyncio.wait({turn}, timeout=self._checkup.timeout)
            watching.cancel()
            if not turn.done():
                limit = f"it did not end within {self._checkup.timeout:g} seconds"
                self._add("prompt", "failed", limit, _MORE_TIME)
            else:
                try:
                    self._note_reply(session, await turn, self._clock() - begun, updates)
                except TwofoldError as error:
                    self._add_error("prompt", error)
                    self._skip("cancel", "the prompt failed")
                    return
                turn = await self._begin_turn(session, prompt)
            # a turn that is cancelled may take as long as any step before it is given up
            running = turn
            limit_of_step = self._checkup.timeout + BEFORE_CANCEL
            await self._try("cancel", lambda: self._cancel(session, running), limit_of_step)
        finally:
            if turn is not None:
                turn.cancel()

    def _note_reply(
        self, session: ClientSession, reply: Reply, seconds: float, updates: list[float]
    ) -> None:
        denied = sum(not each.allowed for each in session.decisions)
        ended = reply.stop_reason == "end_turn"
        first = f", the first after {updates[0]:.2f} s" if updates else ""
        lines = [f"{_count(len(updates), 'update')}{first}; {_count(len(reply.text), 'character')}"]
        if denied:
            lines.append(f"{_count(denied, 'permission request')}, rejected: nothing is allowed")
        self._add(
            "prompt",
            "ok" if ended else "warning",
            f"{reply.stop_reason} after {seconds:.2f} s",
            "" if ended else "The turn did not end as usual. Try another prompt.",
            seconds=seconds,
            lines=lines,
            facts={
                "stopReason": reply.stop_reason,
                "updates": len(updates),
                "secondsToFirstUpdate": round(updates[0], 3) if updates else None,
                "permissionsRejected": denied,
                "usage": codec.to_json(reply.usage) if reply.usage else None,
            },
        )

    async def _begin_turn(self, session: ClientSession, prompt: str) -> asyncio.Task[Reply]:
        """Send the prompt; returns when something of its turn arrived, or after a while."""
        shown = asyncio.Event()
        watching = session.on_update(lambda update: shown.set())
        turn = asyncio.create_task(session.prompt(prompt))
        arrived = asyncio.create_task(shown.wait())
        try:
            either = {turn, arrived}
            await asyncio.wait(either, timeout=BEFORE_CANCEL, return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrived.cancel()
            watching.cancel()
        return turn

    async def _cancel(self, session: ClientSession, turn: asyncio.Task[Reply]) -> None:
        begun = self._clock()
        await session.cancel(give_up=self._checkup.timeout)
        self._note_cancelled(await turn, self._clock() - begun)

    def _note_cancelled(self, reply: Reply, seconds: float) -> None:
        outcome: Outcome = "ok"
        detail, advice = f"the turn ended {seconds:.2f} s after the cancel", ""
        if reply.given_up:
            outcome = "failed"
            detail = f"the turn goes on {seconds:.1f} seconds after the cancel"
            advice = "End the turn with the stop reason cancelled when session/cancel arrives."
        elif reply.stop_reason != "cancelled" and seconds > QUICK:
            outcome = "warning"
            detail += f" with {reply.stop_reason}"
            advice = "A turn that was cancelled ends with the stop reason cancelled."
        elif reply.stop_reason != "cancelled":
            outcome = "skipped"
            detail = f"the turn ended ({reply.stop_reason}) before the cancel: try a longer prompt"
        facts = {"stopReason": reply.stop_reason, "givenUp": reply.given_up}
        self._add("cancel", outcome, detail, advice, seconds=seconds, facts=facts)

    # ---- more requests

    async def _list(self, client: Client) -> None:
        if not client.can("list"):
            self._skip("list", "the agent does not offer it")
            return

        async def work() -> None:
            begun = self._clock()
            known = await known_sessions(client, self._checkup.cwd)
            seconds = self._clock() - begun
            number = len(known.sessions)
            more = " or more" if known.more else ""
            detail = f"{_count(number, 'session')}{more} of this directory in {seconds:.2f} s"
            self._add("list", "ok", detail, seconds=seconds, facts={"sessions": number})

        await self._try("list", work)

    async def _close(self, client: Client, session: ClientSession) -> bool:
        if not client.can("close"):
            self._skip("close", "the agent does not offer it")
            return False

        async def work() -> None:
            begun = self._clock()
            await session.close()
            seconds = self._clock() - begun
            self._add("close", "ok", f"in {seconds:.2f} s", seconds=seconds)

        return await self._try("close", work)

    async def _resume(self, client: Client, session_id: str, closed: bool) -> None:
        if not client.can("resume") and not client.can("load"):
            self._skip("resume", "the agent does not offer it")
            return
        if client.can("close") and not closed:
            self._skip("resume", "the session could not be closed")
            return

        async def work() -> None:
            begun = self._clock()
            try:
                if client.can("load"):
                    session = await client.load_session(session_id, self._checkup.cwd)
                else:
                    session = await client.resume_session(session_id, self._checkup.cwd)
            except RequestFailed as error:
                excuse = ""
                if self._checkup.prompt is None:
                    excuse = "the session is empty, which some agents do not keep"
                elif not closed:
                    excuse = "the session is open, and the agent cannot close it"
                if not excuse:
                    raise
                self._skip("resume", f"refused, but {excuse}: {error}")
                return
            seconds = self._clock() - begun
            how = "loaded" if client.can("load") else "resumed"
            number = len(session.state.entries)
            detail = f"{how} with {_count(number, 'entry', 'entries')} in {seconds:.2f} s"
            self._add("resume", "ok", detail, seconds=seconds, facts={"entries": number})

        await self._try("resume", work)

    async def _delete(self, client: Client, session_id: str) -> None:
        """Delete the session, which only this examination needed."""
        if not client.can("delete"):
            self._skip("delete", "the agent does not offer it")
            return

        async def work() -> None:
            begun = self._clock()
            await client.delete_session(session_id)
            seconds = self._clock() - begun
            self._add("delete", "ok", f"in {seconds:.2f} s", seconds=seconds)

        await self._try("delete", work)

    # ---- afterwards

    def _note_end(self) -> None:
        self._note_exit()
        self._note_left_behind()
        self._note_stdout()
        self._note_stderr()
        self._note_protocol()

    def _note_exit(self) -> None:
        process, seconds = self._agent.process, self._agent.exit_seconds
        if self._remote:
            self._skip("exit", _ELSEWHERE)
            return
        if process is None:
            self._skip("exit", "there is no process")
            return
        how = f"exit code {process.exit_code}"
        if process.signal is not None:
            how = f"ended by {process.signal}"
        outcome: Outcome = "ok"
        advice = ""
        detail = f"{how}, {seconds or 0:.2f} s after the end of its input"
        if seconds is None:
            outcome, detail = "failed", f"{how}, before the end of its input"
            advice = "An agent runs until its standard input ends. Its standard error may say why."
        elif process.signals:
            outcome = "warning"
            detail = f"it did not exit by itself: {how} after {seconds:.1f} s"
            advice = "Exit when standard input ends."
        elif process.exit_code != 0:
            outcome, advice = "warning", "Exit with 0 when standard input ends."
        self._add(
            "exit",
            outcome,
            detail,
            advice,
            seconds=seconds,
            facts={
                "exitCode": process.exit_code,
                "signal": process.signal,
                "signalsSent": process.signals,
            },
        )

    def _note_left_behind(self) -> None:
        process, detached = self._agent.process, self._agent.detached
        in_group = process.left_behind if process is not None else []
        if self._remote:
            self._skip("left behind", _ELSEWHERE)
            return
        if not os.path.isdir("/proc"):
            self._skip("left behind", "this system has no /proc to find it in")
            return
        if not in_group and not detached:
            self._add("left behind", "ok", "no process")
            return
        lines = [f"{_named(each)}: was ended with the agent's group" for each in in_group]
        lines += [f"{_named(each)}: left the group and still runs" for each in detached]
        advice = "End every process that the agent started before it exits."
        if detached:
            advice += f" To end it: kill {' '.join(str(each.pid) for each in detached)}"
        facts = {
            "inGroup": [each._asdict() for each in in_group],
            "detached": [each._asdict() for each in detached],
        }
        number = _count(len(lines), "process", "processes")
        self._add("left behind", "warning", number, advice, lines=lines[:_MOST_LINES], facts=facts)

    def _note_stdout(self) -> None:
        noise = self._problems("noise")
        if not noise:
            self._add("stdout", "ok", "only messages")
            return
        number = sum(noise.values())
        detail = f"{_count(number, 'line')} that are no message of the protocol"
        advice = "Write only messages to standard output, and logs to standard error."
        if self._remote:
            advice = "Send only messages, one in a frame or event."
        self._add(
            "stdout", "warning", detail, advice, lines=_counted(noise), facts={"lines": noise}
        )

    def _note_stderr(self) -> None:
        size = self._agent.stderr_size
        if self._remote:
            self._skip("stderr", _ELSEWHERE)
            return
        heading_and_lines = self._agent.stderr.lines
        if not heading_and_lines:
            self._add("stderr", "ok", "empty" if not size else _count(size, "byte"))
            return
        lines = [line.strip("\n") for line in heading_and_lines[1:]]
        detail = f"{_count(size, 'byte')}, of which the end is:"
        self._add("stderr", "ok", detail, lines=lines, facts={"bytes": size, "end": lines})

    def _note_protocol(self) -> None:
        losses = self._problems("loss")
        others = self._problems("answer", "update", "handler", "stuck", "version", "limit")
        about_losses = [f"lost in the conversion to version 1: {line}" for line in _counted(losses)]
        facts = {"problems": others, "losses": losses}
        if not others:
            detail = "no problem"
            self._add("protocol", "ok", detail, lines=about_losses, facts=facts)
            return
        detail = _count(sum(others.values()), "problem")
        advice = "The agent sent what the protocol does not allow there."
        lines = [*_counted(others), *about_losses]
        self._add("protocol", "warning", detail, advice, lines=lines, facts=facts)

    def _problems(self, *kinds: str) -> dict[str, int]:
        found = self._agent.problems.items()
        return {text: number for (kind, text), number in found if kind in kinds}


# ---- the program -------------------------------------------------------------------------------


def found_program(program: str, cwd: Path) -> str | OSError:
    """The full path of a program, or the error that starting it would be refused with."""
    named = os.path.join(cwd, program) if os.path.dirname(program) else program
    path = shutil.which(named)
    if path is not None:
        return os.path.abspath(path)
    return PermissionError() if named != program and os.path.exists(named) else FileNotFoundError()


async def program_version(path: str, cwd: Path) -> str:
    """The first line that `path --version` prints; empty if it does not answer quickly."""
    try:
        process = await asyncio.create_subprocess_exec(
            path,
            "--version",
            cwd=cwd,
            env=environment({}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return ""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(VERSION):
            data = await process.stdout.read(1000)
            status = await process.wait()
    except TimeoutError:
        return ""
    finally:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    lines = data.decode(errors="replace").strip().splitlines()
    return one_line(lines[0])[:100] if lines and status == 0 else ""


# ---- words -------------------------------------------------------------------------------------


def _advice_remote(error: TwofoldError) -> str:
    """Advice about an agent at a URL, of which nothing but messages is seen here."""
    if isinstance(error, NoAnswer):
        return f"Is the URL that of an ACP agent? {_MORE_TIME}"
    if isinstance(error, ConnectionEnded):
        return "The log of the server may have more."
    return "" if isinstance(error, NotReached) else _advice(error)


def _advice(error: TwofoldError) -> str:
    if isinstance(error, AgentSilent):
        return f"{IS_IT} {_MORE_TIME}"
    if isinstance(error, NoAnswer):
        return _MORE_TIME
    if isinstance(error, NotAnAgent):
        return IS_IT
    if isinstance(error, ProcessEnded) and error.stdout:
        return IS_IT
    if isinstance(error, ConnectionEnded):
        return "Run the command by itself to see more; the end of its standard error is below."
    if isinstance(error, RequestFailed):
        return "The agent answered with this error; its standard error below may say more."
    if isinstance(error, BadAnswer):
        return "The agent's answer is not what the protocol's schema requires."
    if isinstance(error, WrongVersion):
        return "Leave out --version to speak any version."
    if isinstance(error, NoSuchWay):
        return "Give one of the methods that the agent names."
    return "This is what Twofold cannot use; the protocol's documentation has the rules."


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _counted(problems: dict[str, int]) -> list[str]:
    lines = [text if number == 1 else f"{number:,} × {text}" for text, number in problems.items()]
    rest = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], *([f"… and {rest} more"] if rest > 0 else [])]


def _listed(names: Sequence[str]) -> str:
    shown = [one_line(name) for name in names[:_MOST_LISTED]]
    rest = len(names) - _MOST_LISTED
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def _named(process: Running) -> str:
    return f"{process.pid} ({one_line(process.command)[:100]})"


def _abilities(client: Client) -> list[str]:
    return [each for each in get_args(Able) if client.can(each)]


def _about(client: Client) -> list[str]:
    """What the agent declared, for people."""
    prompt = client.prompt_capabilities
    takes = ["text", "links"]
    for able, word in (
        (prompt.image, "images"),
        (prompt.audio, "audio"),
        (prompt.embedded_context, "embedded files"),
    ):
        takes += [word] if able else []
    session = client.capabilities.session
    mcp = (session.mcp if session else None) or v2.McpCapabilities()
    servers = [name for able, name in ((mcp.stdio, "stdio"), (mcp.http, "http")) if able]
    return [
        f"offers: {', '.join(_abilities(client)) or 'nothing'}",
        f"prompts: {', '.join(takes)}",
        f"MCP servers: {', '.join(servers) or 'none'}",
        f"login methods: {_method_names(client) or 'none'}",
    ]


def _method_names(client: Client) -> str:
    named = [f"{way.method_id} ({way.name})" for way in ways(client)]
    return _listed([*named, *others(client)])


def _login_methods(client: Client) -> str:
    names = _method_names(client)
    return f"the agent names {names}" if names else "the agent names no method"


def _about_session(session: ClientSession) -> list[str]:
    """The settings and commands of a session, for people."""
    lines = []
    for option in known_options(session.state.config_options):
        value = option.current_value
        if isinstance(option, v2.SessionConfigSelect):
            of = _listed([choice.value for choice in choices(option)])
            lines.append(f"{option.category or 'option'} {option.config_id}: {value} (of {of})")
        else:
            lines.append(f"{option.category or 'option'} {option.config_id}: {value}")
    lines.append(f"commands: {_listed(_command_names(session)) or 'none'}")
    return lines


def _command_names(session: ClientSession) -> list[str]:
    known = [each for each in session.state.commands if not isinstance(each, v2.UnknownCommand)]
    return [each.name for each in known]
