"""The sessions of a host as one ACP agent, for each client that is connected.

A client lists the sessions, begins some, attaches to any and leaves them; they stay. Any number of
clients, and of people at pages, share a session: each prompt is a user message for all, a question
is asked of every controller and the first answer counts. An observer is sent everything and may
change nothing.

Version 2 is served here; a client of version 1 is served through a bridge in the same process. A
client costs no process, and one that does not read is disconnected: it may come back and resume.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from os.path import isabs, normpath
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from twofold.bridge import Bridge
from twofold.client.known_sessions import shortened
from twofold.convert.versions import claimed_version
from twofold.errors import ConnectionEnded, LocalError, PeerError, TwofoldError
from twofold.host.host import Host, NoSuchSession
from twofold.host.hosted_session import HostedSession
from twofold.host.prompt_queue import NotQueued
from twofold.host.questions import OpenQuestion
from twofold.host.sent_prompts import NotSent
from twofold.host.session_facts import Fact
from twofold.host.session_feed import SessionFeed, notice
from twofold.peer.peer import Peer
from twofold.peer.problems import Problem, Report, described, guarded, log
from twofold.policy import choose
from twofold.rpc.connection import Notification, Request
from twofold.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    NOT_ALLOWED,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
    RequestError,
    RequestFailed,
)
from twofold.text import one_line
from twofold.transport.base import Transport
from twofold.transport.memory import memory_pair
from twofold.version import VERSION
from twofold.wire import codec, v2
from twofold.wire.base import UNSET, Malformed, UnsetType
from twofold.wire.shared import Capability, Implementation, SelectedPermissionOutcome

AGENT: Final = "_twofold.agent"
"""In `_meta` of `session/new`: the name of the agent, as `twofold agents` lists it."""
END: Final = "_twofold.end"
"""In `_meta` of `session/close`: true to end the session, if nobody else has it open."""
FACTS: Final = "_twofold"
"""In `_meta` of what is answered: what the host knows beside the protocol."""

PAGE: Final = 100
"""How many sessions one answer to `session/list` holds."""
MESSAGE_LIMIT: Final = 32 << 20
"""How many bytes a message of a client may have."""
MOST_UNREAD: Final = 64 << 20
"""How many bytes may wait for a client that does not read."""
MOST_UNREAD_IN_ALL: Final = 256 << 20
"""The same for all clients together: then the one for which most waits is disconnected."""
STALLED: Final = 60.0
"""After so many seconds in which a client took nothing it is disconnected."""
LONGEST_NAME: Final = 60
MOST_ATTACHED: Final = 1000
"""How many sessions a client may have open."""

_STARTED: Final = frozenset({"idle", "running", "waiting"})
_ANSWERED: Final = (v2.ConfigOptionUpdate, v2.AvailableCommandsUpdate, v2.StateUpdate)
"""What the answer to `session/new` holds, or implies: a new session is idle."""
_Handle: TypeAlias = Callable[[Any], Awaitable[Any]]


class Visitor(Struct, frozen=True):
    """Who a client belongs to."""

    name: str
    """What others are shown, unless the client has a name itself."""
    controls: bool
    """Whether it may prompt, answer and cancel; otherwise it may look."""


class NotReading(PeerError):
    """A client was disconnected because it did not read what it was sent."""


class AcpAgents:
    """Serves the sessions of a host to ACP clients.

    Args:
        host: The sessions.
        report: Called with each problem that a connection survived; by default it is logged.
    """

    def __init__(self, host: Host, report: Report = log) -> None:
        self.host = host
        self.report = guarded(report)
        self.clients: set[AcpClient] = set()
        """Those that are connected."""
        self._feeds: dict[str, SessionFeed] = {}

    async def serve(self, transport: Transport, visitor: Visitor, *, version: int = 2) -> None:
        """Serve one client until it disconnects, or the task is cancelled.

        Args:
            transport: The client.
            visitor: Who it belongs to.
            version: The version of the protocol that it speaks: 1 or 2.

        Raises:
            NotReading: It was disconnected because it did not read.
        """
        if version != 1:
            await AcpClient(self, transport, visitor).serve()
            return
        ours, theirs = memory_pair()
        bridge = Bridge(
            transport,
            theirs,
            client_version=1,
            agent_version=2,
            on_problem=_but_losses(self.report),
            line_limit=MESSAGE_LIMIT,
            cancel_at_end=False,
        )
        bridging = asyncio.create_task(bridge.run())
        try:
            await AcpClient(self, ours, visitor).serve()
        finally:
            bridging.cancel()
            ended = (await asyncio.gather(bridging, return_exceptions=True))[0]
            if isinstance(ended, Exception):
                text = f"The bridge of a client failed: {described(ended)}"
                self.report(Problem("handler", text, error=ended))

    def feed(self, hosted: HostedSession) -> SessionFeed:
        """The updates of a session; made for its first client and kept as long as the session."""
        for identity in [each for each in self._feeds if not self._is_open(each)]:
            self._feeds.pop(identity).close()
        feed = self._feeds.get(hosted.id)
        if feed is None or feed.hosted is not hosted:
            feed = self._feeds[hosted.id] = SessionFeed(hosted)
        return feed

    def _is_open(self, identity: str) -> bool:
        with suppress(NoSuchSession):
            return self.host.find(identity) is self._feeds[identity].hosted
        return False

    def name_for(self, wanted: str) -> str:
        """A name that no other client has: `Zed`, `Zed 2`."""
        taken = {client.name for client in self.clients}
        name, number = wanted, 2
        while name in taken:
            name, number = f"{wanted} {number}", number + 1
        return name

    def bound_unread(self) -> None:
        """Disconnect the client for which most waits, if too much waits in all."""
        if sum(client.unread for client in self.clients) > MOST_UNREAD_IN_ALL:
            max(self.clients, key=lambda client: client.unread).cut()


def _but_losses(report: Report) -> Report:
    """Reports of a bridge without what version 1 cannot express: that is no problem of the host."""

    def filtered(problem: Problem) -> None:
        if problem.kind != "loss":
            report(problem)

    return filtered


class AcpClient:
    """One client (`Listener`)."""

    def __init__(self, agents: AcpAgents, transport: Transport, visitor: Visitor) -> None:
        self.controls = visitor.controls
        self.name = visitor.name
        """Who others are shown as the sender of what it sends."""
        self.agents = agents
        self.unread = 0
        """How many bytes wait because it does not read, about."""
        self.peer = Peer(
            transport, self, who="client", report=agents.report, line_limit=MESSAGE_LIMIT
        )
        self._host = agents.host
        self._is_initialized = False
        self._attached: dict[str, Attachment] = {}
        self._created: set[str] = set()
        """The sessions that it began."""
        self._gone = asyncio.Event()
        self._failure: Exception | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._handlers: dict[str, _Handle] = {
            "session/new": self._new,
            "session/list": self._list,
            "session/resume": self._resume,
            "session/close": self._close_session,
            "session/delete": self._delete,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
        }

    async def serve(self) -> None:
        """Answer the client until it disconnects; its sessions stay.

        Raises:
            NotReading: It was disconnected because it did not read.
        """
        self.agents.clients.add(self)
        try:
            self.peer.start()
            await self._gone.wait()
        finally:
            self.agents.clients.discard(self)
            await self._leave()
        if self._failure is not None:
            raise self._failure

    async def _leave(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()
        attached, self._attached = self._attached, {}
        for attachment in attached.values():
            attachment.leave()
        await self.peer.close()
        for attachment in attached.values():
            await self._end_unused(attachment)

    async def _end_unused(self, attachment: "Attachment") -> None:
        """End a session that the client began if nobody has used it, or looks at it."""
        feed = attachment.feed
        hosted = feed.hosted
        unused = hosted.id in self._created and not hosted.is_used
        if unused and not feed.clients and not feed.is_watched_elsewhere:
            with suppress(NoSuchSession):
                await self._host.close_session(hosted.id)

    # ---- sending

    def send(self, line: bytes) -> None:
        """Send a line; a client that does not read for too long is disconnected."""
        self.peer.send(line)
        if not self.peer.crowded:
            return
        self.unread += len(line)
        if self._catching_up is None and not self._gone.is_set():
            self._catching_up = asyncio.create_task(self._catch_up())
        if self.unread > MOST_UNREAD:
            self.cut()
        elif self.unread > MOST_UNREAD // 4:
            self.agents.bound_unread()

    async def _catch_up(self) -> None:
        try:
            async with asyncio.timeout(STALLED):
                await self.peer.room()
        except TimeoutError:
            self.cut()
        except TwofoldError:  # it is gone
            return
        self._catching_up = None
        self.unread = 0

    async def room(self) -> None:
        """Wait until the client has read enough."""
        while self._catching_up is not None:
            await asyncio.wait([self._catching_up])
        if self.peer.crowded:
            await self.peer.room()

    def cut(self) -> None:
        """Disconnect a client that does not read."""
        self._failure = NotReading("The client did not read what it was sent.")
        self._gone.set()

    # ---- what the client sends (`Listener`)

    def updated(self, update: Any, size: int) -> None:
        """Never called: clients send no updates."""

    def ended(self, error: Exception | None) -> None:
        """The client has disconnected."""
        self._gone.set()

    def notified(self, notification: Notification) -> None:
        """Handle a notification of the client."""
        if notification.method == "session/cancel":
            # when the requests before it have begun, so that it stops a prompt sent just before
            asyncio.get_running_loop().call_soon(self._cancel, notification)
        elif not notification.method.startswith(("_", "$/")):
            text = f"The client sent an unknown notification: {notification.method}"
            self.agents.report(Problem("noise", text))

    def requested(self, request: Request) -> None:
        """Answer a request of the client."""
        self.peer.serve(request, self._answer)

    async def _answer(self, request: Request) -> Any:
        if request.method == "initialize":
            return self._initialize(request)
        if not self._is_initialized:
            raise RequestError(INVALID_REQUEST, "Not initialized: initialize comes first")
        handle = self._handlers.get(request.method)
        if handle is None:
            raise RequestError.method_not_found(request.method)
        params = codec.decode(request.params or b"{}", v2.METHODS[request.method].params)
        try:
            return await handle(params)
        except (TwofoldError, OSError) as error:
            raise _as_request_error(error) from None

    # ---- initialize

    def _initialize(self, request: Request) -> v2.InitializeResponse:
        params = codec.parse(request.params or b"{}")
        if claimed_version(params) is None:
            raise RequestError.invalid_params("protocolVersion must be an integer")
        if self._is_initialized:
            raise RequestError(INVALID_REQUEST, "Already initialized")
        read = codec.read(params, v2.InitializeRequest)
        if read.info:
            given = shortened(read.info.title or read.info.name, LONGEST_NAME)
            self.name = given or self.name
        self.agents.clients.discard(self)
        self.name = self.agents.name_for(self.name)
        self.agents.clients.add(self)
        self._is_initialized = True
        role = "controller" if self.controls else "observer"
        return v2.InitializeResponse(
            2,
            Implementation("twofold", VERSION, title="Twofold"),
            v2.AgentCapabilities(
                session=v2.SessionCapabilities(
                    prompt=_prompt_capabilities(self._host), delete=Capability()
                )
            ),
            meta={FACTS: {"role": role, "name": self.name}},
        )

    # ---- sessions

    async def _list(self, params: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        facts = sorted(_in_directory(self._host.sessions, params.cwd or None), key=_age)
        facts.reverse()
        if params.cursor:
            # a page starts after the last one shown: others may appear, move or go meanwhile
            last = _read_cursor(params.cursor)
            facts = [each for each in facts if _age(each) < last]
        page = facts[:PAGE]
        rest = _cursor(page[-1]) if facts[PAGE:] else UNSET
        return v2.ListSessionsResponse(list(map(_session_info, page)), rest)

    async def _new(self, params: v2.NewSessionRequest) -> v2.NewSessionResponse:
        self._check_controls()
        self._check_room()
        if params.additional_directories:
            raise RequestError.invalid_params("additional directories are not supported here")
        if not isabs(params.cwd):
            raise RequestError.invalid_params("cwd must be an absolute path")
        agent = (params.meta or {}).get(AGENT)
        if agent is not None and not isinstance(agent, str):
            raise RequestError.invalid_params(f"{AGENT} must be the name of an agent")
        hosted = await self._host.new_session(agent, params.cwd)
        try:
            await _started(hosted)
            if hosted.failure is not None:
                raise _failed_start(hosted)
            await hosted.shown()
        except BaseException:
            with suppress(NoSuchSession):
                await self._host.close_session(hosted.id)
            raise
        self._created.add(hosted.id)
        attachment = self._attach(hosted)
        attachment.greet()
        if params.mcp_servers:
            words = "MCP servers of the client are not used: this server has settings for them."
            attachment.send(attachment.feed.line(notice("warning", words)))
        asyncio.get_running_loop().call_soon(attachment.go_live)
        state = hosted.live.session
        return v2.NewSessionResponse(
            hosted.id,
            state.config_options or UNSET,
            state.commands or UNSET,
            meta={FACTS: _facts(hosted)},
        )

    async def _resume(self, params: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        start = params.replay_from
        if start and not isinstance(start, v2.ReplayFromStart):
            raise RequestError.invalid_params(
                f"cannot replay from {start.tag!r}, only from the start"
            )
        hosted = self._host.find(params.session_id)
        await hosted.ready()
        await hosted.shown()
        attachment = self._attached.get(hosted.id)
        if attachment is None:
            self._check_room()
            attachment = self._attach(hosted)
        await attachment.begin(replay=bool(start))
        state = hosted.live.session
        return v2.ResumeSessionResponse(
            state.config_options or UNSET, state.commands or UNSET, meta={FACTS: _facts(hosted)}
        )

    def _check_room(self) -> None:
        if len(self._attached) >= MOST_ATTACHED:
            advice = "close one before you open another"
            raise RequestError.too_many("open sessions", MOST_ATTACHED, advice)

    def _attach(self, hosted: HostedSession) -> "Attachment":
        attachment = Attachment(self, self.agents.feed(hosted))
        self._attached[hosted.id] = attachment
        return attachment

    def _detach(self, session_id: str) -> "Attachment | None":
        attachment = self._attached.pop(session_id, None)
        if attachment is not None:
            attachment.leave()
        return attachment

    def closed(self, session_id: str) -> None:
        """A session was closed."""
        self._attached.pop(session_id, None)

    async def _close_session(self, params: v2.SessionParams) -> v2.Empty:
        ends = (params.meta or {}).get(END) is True
        if ends:
            self._check_controls()
        attachment = self._detach(params.session_id)
        ended = False
        if ends and attachment is not None:
            feed = attachment.feed
            if not feed.clients and not feed.is_watched_elsewhere:
                with suppress(NoSuchSession):
                    await self._host.close_session(params.session_id)
                    ended = True
        elif attachment is not None:
            await self._end_unused(attachment)
        return v2.Empty(meta={FACTS: {"ended": ended}})

    async def _delete(self, params: v2.SessionParams) -> v2.Empty:
        self._check_controls()
        with suppress(NoSuchSession):  # it is deleted already
            await self._host.delete(params.session_id)
        return v2.Empty()

    def _find(self, session_id: str) -> "Attachment":
        attachment = self._attached.get(session_id)
        if attachment is None:
            self._host.find(session_id)
            raise LocalError("This session is not open in this client. Resume it first.")
        return attachment

    def _check_controls(self) -> None:
        if not self.controls:
            raise RequestError(NOT_ALLOWED, "You may look, and change nothing.")

    # ---- steering

    async def _set_option(
        self, params: v2.SetSessionConfigOptionRequest
    ) -> v2.SetSessionConfigOptionResponse:
        self._check_controls()
        hosted = self._find(params.session_id).hosted
        await hosted.set_config_option(params.config_id, params.value)
        await hosted.shown()
        return v2.SetSessionConfigOptionResponse(hosted.live.session.config_options)

    async def _prompt(self, params: v2.PromptRequest) -> v2.PromptResponse:
        self._check_controls()
        feed = self._find(params.session_id).feed
        hosted = feed.hosted
        if hosted.failure is not None:
            await self._host.restart(hosted.id)
        parts: list[Any] = list(params.prompt)
        item = hosted.prompt(parts, self.name)
        sent = hosted.when_sent(item)
        try:
            message_id = await sent
        except (NotSent, asyncio.CancelledError):
            # nobody but this client waits for it, and it has its answer
            with suppress(NotQueued):
                hosted.remove_queued(item)
            raise
        return v2.PromptResponse(feed.message_id(message_id) if message_id else f"host-{item}")

    def _cancel(self, notification: Notification) -> None:
        try:
            params = codec.decode(notification.params or b"{}", v2.SessionParams)
        except Malformed as error:
            self.agents.report(Problem("noise", f"session/cancel: {error}"))
            return
        attachment = self._attached.get(params.session_id)
        if attachment is not None and self.controls:
            attachment.hosted.cancel(self.name)


class Attachment:
    """One client in one session (`Attached`)."""

    def __init__(self, client: AcpClient, feed: SessionFeed) -> None:
        self.feed = feed
        self.hosted = feed.hosted
        self.controls = client.controls
        self._client = client
        self._held: list[bytes] | None = []
        """What is sent when the client may have it; None if it is sent at once."""
        self._held_size = 0
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._beginning = asyncio.Lock()
        self._left = False
        feed.add(self)

    # ---- what the client is sent (`Attached`)

    def send(self, line: bytes) -> None:
        """Send a line, or hold it until what comes before was sent."""
        if self._held is None:
            self._client.send(line)
            return
        self._held.append(line)
        self._held_size += len(line)
        if self._held_size > MOST_UNREAD:
            self._client.cut()

    def ask(self, question: OpenQuestion) -> None:
        """Ask the client, unless it may only look; what is held comes first."""
        if self.controls and self._held is None and question.identity not in self._asking:
            task = asyncio.create_task(self._ask(question))
            self._asking[question.identity] = task
            task.add_done_callback(lambda _: self._asking.pop(question.identity, None))

    def withdraw(self, identity: str) -> None:
        """Ask the client no longer."""
        task = self._asking.get(identity)
        if task is not None:
            task.cancel()

    def ended(self) -> None:
        """The session was closed."""
        self._client.closed(self.hosted.id)
        self.leave()

    # ---- beginning and leaving

    async def begin(self, *, replay: bool) -> None:
        """Send the session as it is, or only its state; what is done meanwhile follows."""
        async with self._beginning:
            self._hold()
            updates = self.feed.replay() if replay else [self.hosted.live.session.state_update]
            for update in updates:
                for line in self.feed.lines(update):
                    self._client.send(line)
                    if self._client.peer.crowded:
                        await self._client.room()
            self.go_live()

    def greet(self) -> None:
        """Send what the agent has sent in a new session, but for what is in the answer."""
        for update in self.feed.replay():
            if not isinstance(update, _ANSWERED):
                self.send(self.feed.line(update))

    def _hold(self) -> None:
        if self._held is None:
            self._held, self._held_size = [], 0

    def go_live(self) -> None:
        """Send what was held back, and ask what waits."""
        held, self._held = self._held, None
        if self._left:
            return
        for line in held or ():
            self._client.send(line)
        for question in self.feed.questions():
            self.ask(question)

    def leave(self) -> None:
        """Send the client nothing more of the session."""
        self._left = True
        self.feed.remove(self)
        for task in list(self._asking.values()):
            task.cancel()

    # ---- questions

    async def _ask(self, question: OpenQuestion) -> None:
        """Ask the client; one that cannot be asked leaves the question to others."""
        peer = self._client.peer
        try:
            answer = await peer.request(
                "session/request_permission",
                self.feed.request(question),
                v2.RequestPermissionResponse,
            )
        except ConnectionEnded:
            return
        except TwofoldError as error:
            text = f"{self._client.name} did not answer a question: {one_line(str(error))}"
            self._client.agents.report(Problem("answer", text, self.hosted.id))
            return
        outcome = answer.outcome
        if isinstance(outcome, SelectedPermissionOutcome):
            try:
                self.feed.answer(self, question, outcome.option_id, self._client.name)
            except LocalError as error:
                self.send(self.feed.line(notice("warning", one_line(str(error)))))
        elif (rejecting := choose(question.request.options, "reject")) is not None:
            # as in version 1: dismissed without a cancel it is rejected, so that no turn hangs
            with suppress(LocalError):  # it was answered, or cancelled with the turn
                self.feed.answer(self, question, rejecting.option_id, self._client.name)


# ---- parts of answers --------------------------------------------------------------------------


def _prompt_capabilities(host: Host) -> v2.PromptCapabilities:
    """What every agent that runs here accepts in prompts, as far as that is known."""
    started = [each["id"] for each in host.sessions if each["state"] in _STARTED]
    able = [host.find(identity).prompt_capabilities for identity in started]

    def marker(name: str) -> Capability | UnsetType:
        return Capability() if able and all(each[name] for each in able) else UNSET

    return v2.PromptCapabilities(
        image=marker("image"), audio=marker("audio"), embedded_context=marker("embedded")
    )


def _in_directory(facts: list[Fact], cwd: str | None) -> list[Fact]:
    return [each for each in facts if cwd is None or normpath(each["cwd"]) == normpath(cwd)]


def _age(fact: Fact) -> tuple[float, str]:
    return fact["activity"], fact["id"]


def _session_info(fact: dict[str, Any]) -> v2.SessionInfo:
    updated = datetime.fromtimestamp(fact["activity"], UTC).isoformat(timespec="milliseconds")
    return v2.SessionInfo(
        fact["id"],
        fact["cwd"],
        title=fact["title"],
        updated_at=updated.replace("+00:00", "Z"),
        meta={FACTS: {"agent": fact["agent"], "state": fact["state"]}},
    )


def _facts(hosted: HostedSession) -> dict[str, Any]:
    facts = {"agent": hosted.agent_name, "state": hosted.state}
    return {**facts, "prompt": hosted.prompt_capabilities}


def _cursor(fact: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_age(fact))).decode()


def _read_cursor(cursor: str) -> tuple[float, str]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=tuple[float, str])
    except (ValueError, msgspec.DecodeError):
        raise RequestError.invalid_params("this cursor is not one of ours") from None


async def _started(hosted: HostedSession) -> None:
    """Wait until the agent of a session has started, or has failed to."""
    changed = asyncio.Event()
    subscription = hosted.subscribe(lambda _: changed.set())
    try:
        while hosted.state == "starting":
            changed.clear()
            await changed.wait()
    finally:
        subscription.cancel()


def _failed_start(hosted: HostedSession) -> RequestError:
    failure = hosted.failure or ""
    return RequestError(INTERNAL_ERROR, failure.partition("\n")[0], {"details": failure})


def _as_request_error(error: Exception) -> RequestError:
    """What a client is answered: words for people, and the code of the agent if it refused."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, RequestFailed):
        return RequestError(error.code, error.message, error.data)
    words = one_line(str(error))
    if isinstance(error, NoSuchSession):
        return RequestError(RESOURCE_NOT_FOUND, words)
    if isinstance(error, NotSent):
        return RequestError(REQUEST_CANCELLED, words)
    if isinstance(error, LocalError):
        return RequestError(INVALID_REQUEST, words)
    return RequestError(INTERNAL_ERROR, words)
