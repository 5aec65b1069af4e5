"""The sessions that a server has open, each with an agent's process of its own.

A host starts agents by name with the settings of the directory they work in, keeps the list of its
sessions, and ends every agent when it is closed. There are bounds for processes, sessions and
queued prompts, so that no number of clients makes it start or keep more. A name from a client is
never run as a command.
"""

import asyncio
import os
import secrets
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from twofold.client.known_sessions import known_sessions, title
from twofold.client.launch import Launch
from twofold.client.login import wants_login
from twofold.client.negotiate import WantedVersion
from twofold.client.session_setup import SessionSetup
from twofold.client.watching import ChangeCallback, Subscription
from twofold.errors import LocalError, PeerError
from twofold.host.agent_choice import ChosenAgent, choose_agent, is_name
from twofold.host.hosted_session import QUEUED, HostedSession, StartsAgent, login_words
from twofold.host.journal_log import JournalLog, read_session
from twofold.host.kept_sessions import KeptSession, keep_session, read_sessions
from twofold.host.known_agents import UnknownAgent, installed, known_agents
from twofold.host.recovery import Recovery
from twofold.host.session_facts import LONGEST_NAME, Fact
from twofold.host.session_log import NO_LOG, SessionLog
from twofold.host.session_log import QUEUED as QUEUED_EVENT
from twofold.host.settings import Settings, load
from twofold.host.state_files import state_file
from twofold.journal.journal import (
    Description,
    Journal,
    JournalFailed,
    NotInJournal,
    SessionRow,
)
from twofold.peer.problems import Problem, described, log
from twofold.policy import Policy
from twofold.rpc.errors import RequestFailed
from twofold.text import one_line
from twofold.transport.commands import shown
from twofold.transport.endpoint import Endpoint, is_url

OnSessions: TypeAlias = Callable[[list[Fact]], None]
MakePolicy: TypeAlias = Callable[[Settings], Policy]
"""The rules for a session, from the settings of its directory."""

LIST_RATE: Final = 5.0
"""How often changes of the list of sessions are reported, per second, at most."""
LISTING: Final = 60.0
"""How many seconds an agent may take to start and to list its sessions."""
MOST_COLD: Final = 500
"""How many sessions of the journal are listed: the last ones."""
MOST_READ: Final = 10
"""How many sessions are read for one search."""
CLOSED: Final = "closed"
"""The state, in the journal, of a session that a person has closed."""


class Limits(Struct, frozen=True, kw_only=True):
    """How much a host does at once."""

    agents: int = 32
    """Processes of agents."""
    sessions: int = 100
    """Sessions, those whose agent has ended included."""
    queued: int = QUEUED
    """Prompts that wait in one session."""


class TooMany(LocalError):
    """A limit of the host is reached.

    Attributes:
        limit: The limit.
    """

    def __init__(self, what: str, limit: int, advice: str) -> None:
        super().__init__(f"This server has {limit} {what} already. {advice}")
        self.limit = limit


class NoSuchSession(LocalError):
    """The host has no session of this id (any more)."""


class NotADirectory(LocalError):
    """A session cannot work there: it is no directory of this machine."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{one_line(path)} is not a directory on this machine. Name one that exists."
        )


class ListingFailed(PeerError):
    """An agent could not list its sessions."""


def rules_of_settings(settings: Settings) -> Policy:
    """Only the rules of the settings; everything else is asked."""
    return Policy(list(settings.rules))


class Host:
    """The sessions of a server.

    Args:
        agent: What names the default agent on the command line: a name, or a command.
        dashes: Whether `--` was before it.
        token: The token for an agent at a URL.
        cwd: Where sessions work by default.
        policy: Makes the rules of a session.
        version: The protocol version to demand of agents.
        limits: How much it does at once.
        launch: Makes what starts an agent.
        journal: Where sessions are kept, so that they outlive the host; the caller closes it.
        idle_after: After how many seconds without work an agent is ended; None for never.
    """

    def __init__(
        self,
        agent: Sequence[str] = (),
        *,
        dashes: bool = False,
        token: str | None = None,
        cwd: str | os.PathLike[str] = ".",
        policy: MakePolicy = rules_of_settings,
        version: WantedVersion | None = None,
        limits: Limits | None = None,
        launch: Callable[[ChosenAgent, Path, Policy], StartsAgent] | None = None,
        journal: Journal | None = None,
        idle_after: float | None = None,
    ) -> None:
        self.cwd = Path(cwd).absolute()
        self.limits = limits or Limits()
        self._words = list(agent)
        self._dashes = dashes
        self._token = token
        self._policy = policy
        self._version = version
        self._launch = launch or self._process
        self._journal = journal
        self._idle_after = idle_after
        self._described: dict[str, Description] = {}
        self._agent_words: dict[str, _AgentWords] = {}
        """What named the agent of each session."""
        self._describing: asyncio.Task[None] | None = None
        self._hosted: dict[str, HostedSession] = {}
        self._observers: list[OnSessions] = []
        self._shown: list[Fact] = []
        self._changes: ChangeCallback | None = None
        self._listing: dict[tuple[str, str], asyncio.Task[list[Fact]]] = {}
        self._ending: set[HostedSession] = set()
        self._closed = False

    async def open(self) -> None:
        """List the sessions of the journal, the last ones only; those without a prompt are deleted.

        Raises:
            JournalFailed: The journal cannot be written.
        """
        if self._journal is None:
            return
        for row in await self._journal.sessions(limit=MOST_COLD):
            if row.state == CLOSED or row.session in self._hosted:
                continue
            if row.first_words or await self._was_used(row.session):
                self._hosted[row.session] = self._cold(row)
            else:
                await self._journal.delete(row.session)
        self._changed()

    async def _was_used(self, session: str) -> bool:
        """Whether a prompt was entered, although the host ended before its list had it."""
        assert self._journal is not None
        async for events in self._journal.read(session):
            if any(event.kind == QUEUED_EVENT for event in events):
                return True
        return False

    # ---- what there is

    @property
    def sessions(self) -> list[Fact]:
        """The sessions as a list shows them, the one with the last activity first."""
        hosted = sorted(self._hosted.values(), key=lambda each: each.last_activity, reverse=True)
        return [
            {
                "id": each.id,
                "title": each.title,
                "agent": each.agent_name,
                "cwd": str(each.cwd),
                "state": each.state,
                "failure": each.failure,
                "activity": each.last_activity,
                "words": each.words,
            }
            for each in hosted
        ]

    def find(self, session_id: str) -> HostedSession:
        """The session of an id; raises `NoSuchSession`."""
        hosted = self._hosted.get(session_id)
        if hosted is None:
            raise NoSuchSession("This session is not open here any more.")
        return hosted

    def agents(self) -> list[Fact]:
        """The agents that can be named, and whether they are installed; the default one first.

        Raises:
            SettingsError: A settings file cannot be used.
            BadRegistry: The registry file of the settings cannot be used.
        """
        known = known_agents(load(self.cwd))
        made = [
            {
                "name": name,
                "description": one_line(agent.description),
                "installed": installed(agent) is not None,
            }
            for name, agent in known.items()
        ]
        default = self.default_name
        if default not in known:
            own = {"name": default, "description": "the command of this server", "installed": True}
            made.insert(0, own)
        return sorted(made, key=lambda each: (each["name"] != default, not each["installed"]))

    @property
    def default_name(self) -> str:
        """What the default agent is called."""
        if is_name(self._words, dashes=self._dashes):
            return self._words[0] if self._words else load(self.cwd).values.agent or "demo"
        return _shown(self._words)

    def subscribe(self, callback: OnSessions) -> Subscription:
        """Call `callback` with `sessions` when they have changed, a few times a second at most."""
        self._observers = [*self._observers, callback]

        def cancel() -> None:
            self._observers = [each for each in self._observers if each is not callback]

        return Subscription(cancel)

    def _changed(self) -> None:
        if self._changes is None:
            self._changes = ChangeCallback(lambda _: self._report(), LIST_RATE)
        if not self._closed:
            self._changes.soon()

    def _report(self) -> None:
        sessions = self.sessions
        self._describe()
        if sessions == self._shown:
            return
        self._shown = sessions
        for observer in self._observers:
            try:
                observer(sessions)
            except Exception as error:
                text = f"An observer of the sessions raised {described(error)}"
                log(Problem("handler", text, error=error))

    # ---- beginning and ending

    async def new_session(
        self,
        agent: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        mode: str | None = None,
    ) -> HostedSession:
        """Begin a session; its agent is started meanwhile, and how that ends is in its `state`.

        Args:
            agent: The name of an agent; by default the one of this host.
            cwd: Where it works.
            mode: The mode to begin with, by its id.

        Raises:
            UnknownAgent: There is no agent of this name.
            AgentNotInstalled: It is not installed.
            NotADirectory: `cwd` is none.
            SettingsError: A settings file cannot be used.
            TooMany: There are too many sessions or agents.
        """
        return await self._begin(agent, cwd, mode=mode)

    async def resume(
        self,
        agent_session: str,
        agent: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> HostedSession:
        """Open a session of an agent again; one that is open here is returned as it is.

        Args:
            agent_session: Its id, as `resumable` lists it.
            agent: As for `new_session`.
            cwd: As for `new_session`.

        Raises:
            LocalError: As for `new_session`.
        """
        return await self._begin(agent, cwd, resume=agent_session)

    async def _begin(
        self,
        agent: str | None,
        cwd: str | os.PathLike[str] | None,
        *,
        mode: str | None = None,
        resume: str | None = None,
    ) -> HostedSession:
        place = await self._place(agent, cwd)
        if resume is not None:
            for each in self._hosted.values():
                if (each.agent_session, each.agent_name) == (resume, place.name):
                    return each
        self._check_room()
        identity = secrets.token_urlsafe(12)
        log: SessionLog = NO_LOG
        if self._journal is not None:
            row = SessionRow(session=identity, agent=place.name, cwd=str(place.cwd))
            await self._journal.open_session(row)
            log = JournalLog(self._journal, identity)
            self._check_room()  # others may have begun meanwhile
        hosted = HostedSession(
            place.name,
            place.cwd,
            lambda: self._launch(place.agent, place.cwd, self._policy(place.settings)),
            command=place.agent.command,
            log_in=place.log_in,
            setup=_setup(place, mode),
            resume=resume,
            on_change=self._changed,
            queued=self.limits.queued,
            log=log,
            identity=identity,
            may_start=self._check_agents,
            idle_after=self._idle_after,
        )
        self._agent_words[hosted.id] = place.words
        for warning in place.settings.warnings:
            hosted.add_warning(warning)
        hosted.on_first_prompt = lambda: _keep(hosted, place.agent)
        kept = _kept(place.agent).get(resume or "")
        if kept is not None:
            hosted.first_words = kept.first_words
            hosted.rename(kept.title)
        self._hosted[hosted.id] = hosted
        hosted.start()
        self._changed()
        return hosted

    def _cold(self, row: SessionRow) -> HostedSession:
        """A session of the journal, whose agent is started when somebody sends a prompt."""
        assert self._journal is not None
        hosted: HostedSession
        kept = _Kept()
        with suppress(msgspec.DecodeError):
            kept = msgspec.json.decode(row.facts, type=_Kept)

        def start() -> StartsAgent:
            # the journal is the user's own: what named the agent names it again
            place = self._find_place(row.agent, row.cwd, kept.agent)
            hosted.set_up(place.agent.command, place.log_in, _setup(place, None))
            hosted.on_first_prompt = lambda: _keep(hosted, place.agent)
            return self._launch(place.agent, place.cwd, self._policy(place.settings))

        hosted = HostedSession(
            row.agent,
            Path(row.cwd),
            start,
            on_change=self._changed,
            queued=self.limits.queued,
            log=JournalLog(self._journal, row.session),
            identity=row.session,
            read=self._read,
            may_start=self._check_agents,
            idle_after=self._idle_after,
        )
        hosted.first_words = row.first_words
        hosted.last_activity = row.updated
        if kept.agent is not None:
            self._agent_words[row.session] = kept.agent
        hosted.listed_title = row.title
        hosted.agent_session = kept.agent_session
        hosted.rename(kept.title)
        self._described[row.session] = self._description(hosted)
        return hosted

    async def _read(self, hosted: HostedSession) -> Recovery:
        """Read the log of a session, and open it to be written again."""
        journal = self._journal
        assert journal is not None
        if await journal.session(hosted.id) is None:  # it was too old, or too much
            self._hosted.pop(hosted.id, None)
            self._changed()
            raise NotInJournal(hosted.id)
        row = await journal.open_session(SessionRow(session=hosted.id))
        log = hosted.log
        assert isinstance(log, JournalLog)
        log.begin(row.head)
        return await read_session(journal, hosted.id, str(hosted.cwd), hosted.add_warning)

    async def read_found(self, text: str) -> None:
        """Read the logs of the sessions in which the journal finds a text, so that they can be
        searched; some of them if there are many.
        """
        if self._journal is None:
            return
        found = dict.fromkeys(hit.session for hit in await self._journal.search(text))
        unread = [
            hosted
            for identity in found
            if (hosted := self._hosted.get(identity)) is not None and not hosted.is_read
        ]
        for hosted in unread[:MOST_READ]:
            with suppress(LocalError):
                await hosted.ready()

    def _description(self, hosted: HostedSession) -> Description:
        words = self._agent_words.get(hosted.id)
        return {
            "title": hosted.title,
            "first_words": hosted.first_words,
            "state": hosted.state,
            "facts": msgspec.json.encode(_Kept(hosted.agent_session, hosted.own_title, words)),
        }

    def _describe(self) -> None:
        """Write what lists show of the sessions to the journal, as far as it has changed."""
        if self._journal is None or (self._describing and not self._describing.done()):
            return
        found = {each.id: self._description(each) for each in self._hosted.values()}
        news = {
            identity: description
            for identity, description in found.items()
            if self._described.get(identity) != description
        }
        if news:
            self._describing = asyncio.create_task(self._write_descriptions(news))

    async def _write_descriptions(self, news: dict[str, Description]) -> None:
        assert self._journal is not None
        for identity, description in news.items():
            with suppress(NotInJournal):  # it was deleted meanwhile
                await self._journal.describe(identity, **description)
            self._described[identity] = description

    def _check_room(self) -> None:
        if self._closed:
            raise LocalError("This server is being stopped.")
        if sum(each.state != "cold" for each in self._hosted.values()) >= self.limits.sessions:
            advice = "Close one that is not needed any more."
            raise TooMany("sessions", self.limits.sessions, advice)
        self._check_agents()

    def _check_agents(self, besides: HostedSession | None = None) -> None:
        there = [*self._hosted.values(), *self._ending]
        running = sum(each.is_running for each in there if each is not besides)
        running += len(self._listing)
        if running >= self.limits.agents:
            advice = "Close a session that is not needed any more."
            raise TooMany("agents running", self.limits.agents, advice)

    async def restart(self, session_id: str) -> None:
        """Start the agent of a session again, and resume the session.

        Raises:
            NoSuchSession: The host has no such session.
            TooMany: There are too many agents.
            JournalFailed: The journal still cannot be written.
            LocalError: The agent still runs.
        """
        hosted = self.find(session_id)
        self._check_agents(besides=hosted)  # its own agent ends before it is started again
        if hosted.is_lost and self._journal is not None:
            await self._journal.resume()
            hosted.read_again(self._read)
        await hosted.ready()
        hosted.restart()

    async def close_session(self, session_id: str) -> None:
        """End the agent of a session, and forget the session; raises `NoSuchSession`.

        A journal keeps it all the same.
        """
        hosted = self.find(session_id)
        del self._hosted[session_id]
        self._changed()
        self._ending.add(hosted)
        try:
            await hosted.close()
            await self._close_in_journal(hosted)
        finally:
            self._ending.discard(hosted)

    async def _close_in_journal(self, hosted: HostedSession) -> None:
        self._described.pop(hosted.id, None)
        self._agent_words.pop(hosted.id, None)
        if self._journal is None:
            return
        with suppress(JournalFailed, NotInJournal):
            if hosted.first_words:
                description = self._description(hosted)
                description["state"] = CLOSED
                await self._journal.describe(hosted.id, **description)
                await self._journal.close_session(hosted.id)
            else:
                await self._journal.delete(hosted.id)

    async def delete(self, session_id: str) -> None:
        """Have the agent delete a session for good, and close it.

        Raises:
            NoSuchSession: The host has no such session.
            NotRunning: Its agent does not run.
            NotSupported: The agent cannot delete sessions.
            RequestFailed: The agent refused.
        """
        hosted = self.find(session_id)
        await hosted.delete()
        if session_id in self._hosted:
            await self.close_session(session_id)
        if self._journal is not None:
            await self._journal.delete(session_id)

    def rename(self, session_id: str, title: str) -> None:
        """Give a session a title; agents have no request for that, so it is kept here.

        Raises:
            NoSuchSession: The host has no such session.
        """
        hosted = self.find(session_id)
        hosted.rename(title)
        hosted.on_first_prompt()

    def hurry(self) -> None:
        """End all agents without waiting for them to end by themselves."""
        for hosted in [*self._hosted.values(), *self._ending]:
            hosted.hurry()

    async def close(self) -> None:
        """End every agent and everything that they started."""
        self._closed = True
        listing = list(self._listing.values())
        for task in listing:
            task.cancel()
        await asyncio.gather(
            *(each.close() for each in [*self._hosted.values(), *self._ending]),
            return_exceptions=True,
        )
        if listing:
            await asyncio.wait(listing)
        await self._leave_journal()
        if self._changes is not None:
            self._changes.close()
        self._observers = []

    async def _leave_journal(self) -> None:
        if self._journal is None:
            return
        if self._describing is not None:
            await asyncio.wait([self._describing])
        with suppress(LocalError):
            for hosted in self._hosted.values():
                if hosted.first_words:
                    description = self._description(hosted)
                    description["state"] = "cold"
                    await self._journal.describe(hosted.id, **description)
                else:
                    await self._journal.delete(hosted.id)

    # ---- sessions that an agent has

    async def resumable(
        self, agent: str | None = None, cwd: str | os.PathLike[str] | None = None
    ) -> list[Fact]:
        """The sessions of a directory that an agent has, the last updated first.

        The agent is started for it if it does not run already, and ended after it. Questions for
        the same list at the same time share one process. For an agent that cannot list its
        sessions, those that were begun on this machine are listed.

        Returns:
            For each its `session` id, its `title`, its `cwd`, and when it was `updated` (ISO 8601).

        Raises:
            ListingFailed: The agent did not list them, for example because it requires a login.
            LocalError: As for `new_session`.
        """
        place = await self._place(agent, cwd)
        identity = place.name, str(place.cwd)
        task = self._listing.get(identity)
        if task is None:
            self._check_agents()
            task = self._listing[identity] = asyncio.create_task(self._list(place))
            task.add_done_callback(partial(self._listed, identity))
        return await asyncio.shield(task)

    def _listed(self, identity: tuple[str, str], task: "asyncio.Task[list[Fact]]") -> None:
        del self._listing[identity]
        if not task.cancelled():
            task.exception()  # those who asked may be gone

    async def _list(self, place: "_Place") -> list[Fact]:
        starter = self._launch(place.agent, place.cwd, Policy())
        try:
            async with asyncio.timeout(LISTING), starter.client() as client:
                try:
                    lists, infos = client.can("list"), []
                    if lists:
                        infos = (await known_sessions(client, place.cwd)).sessions
                    reopens = client.can("load") or client.can("resume")
                except RequestFailed as error:
                    words = login_words(client, place.log_in) if wants_login(error) else str(error)
                    raise ListingFailed(one_line(words)) from None
        except TimeoutError:
            reason = f"The agent did not list its sessions within {LISTING:g} seconds."
            raise ListingFailed(reason) from None
        kept = _kept(place.agent)
        made: dict[str, Fact] = {}
        for info in infos:
            known = kept.get(info.session_id)
            given = (known.title if known else "") or title(info, LONGEST_NAME)
            made[info.session_id] = {
                "session": info.session_id,
                "title": given or (known.first_words if known else ""),
                "cwd": one_line(info.cwd),
                "updated": info.updated_at or None,
            }
        if not lists:
            for known in reversed(kept.values()):
                if Path(known.cwd) == place.cwd:
                    made[known.session_id] = {
                        "session": known.session_id,
                        "title": known.title or known.first_words,
                        "cwd": known.cwd,
                        "updated": known.updated_at,
                    }
        return [each for each in made.values() if reopens and _is_sendable(each["session"])]

    # ---- agents

    async def _place(self, agent: str | None, cwd: str | os.PathLike[str] | None) -> "_Place":
        return await asyncio.to_thread(self._find_place, agent, cwd)

    def _find_place(
        self,
        agent: str | None,
        cwd: str | os.PathLike[str] | None,
        named: "_AgentWords | None" = None,
    ) -> "_Place":
        """Read the settings, and find the agent; this reads files.

        `named` is what an earlier host was given.
        """
        given = os.path.expanduser(cwd) if cwd is not None else os.fspath(self.cwd)
        try:
            folder = Path(os.path.abspath(os.path.join(self.cwd, given)))
            if not folder.is_dir():
                raise NotADirectory(str(folder))
        except ValueError:  # it holds a null character
            raise NotADirectory(os.fspath(given)) from None
        settings = load(folder)
        words, dashes = self._words, self._dashes
        if named is not None:
            words, dashes, agent = named.words, named.dashes, None
        is_command = not is_name(words, dashes=dashes)
        if agent is not None and not (is_command and agent == self.default_name):
            if not is_name([agent], dashes=False):
                raise UnknownAgent(agent, list(known_agents(settings)))
            words, dashes = [agent], False
        chosen = choose_agent(words, dashes=dashes, settings=settings, token=self._token)
        name = chosen.words[0] if is_name(words, dashes=dashes) else _shown(words)
        log_in = shlex.join(["twofold", "run", "--cwd", str(folder), *chosen.words])
        return _Place(chosen, name, folder, settings, _AgentWords(words, dashes), log_in)

    def _process(self, agent: ChosenAgent, cwd: Path, policy: Policy) -> StartsAgent:
        return Launch(
            agent.command,
            cwd=cwd,
            env=agent.env,
            version=self._version,
            policy=policy,
            endpoint=agent.endpoint,
        )


class _AgentWords(Struct, frozen=True):
    """What names an agent, as on a command line."""

    words: list[str]
    dashes: bool
    """Whether `--` was before it."""


class _Place(Struct, frozen=True):
    """An agent, and where it works."""

    agent: ChosenAgent
    name: str
    cwd: Path
    settings: Settings
    words: _AgentWords
    log_in: str
    """The command with which a person logs in at a terminal."""


class _Kept(Struct):
    """What a journal keeps beside the fields of a session."""

    agent_session: str | None = None
    title: str = ""
    """The title that a person gave it."""
    agent: _AgentWords | None = None


def _setup(place: _Place, mode: str | None) -> SessionSetup:
    chosen = place.agent.settings
    return SessionSetup(
        mcp_servers=tuple(place.settings.mcp_servers()),
        mode=mode or chosen.mode,
        options=chosen.options,
    )


def _shown(words: Sequence[str]) -> str:
    """A command, or a URL without its query."""
    return Endpoint(words[0]).shown if is_url(words[0]) else shown(words)


def _kept(agent: ChosenAgent) -> dict[str, KeptSession]:
    return read_sessions(state_file("sessions"), agent.command)


def _keep(hosted: HostedSession, agent: ChosenAgent) -> None:
    """Write first words and title to the file that the terminal client reads, too."""
    if hosted.agent_session is not None and hosted.first_words:
        file, words = state_file("sessions"), (hosted.first_words, hosted.own_title)
        keep_session(file, agent.command, hosted.agent_session, hosted.cwd, *words)


def _is_sendable(identity: str) -> bool:
    """Whether an id is text of which a message can be made."""
    try:
        identity.encode()
    except UnicodeEncodeError:
        return False
    return True
