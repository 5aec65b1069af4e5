"""The sockets of the page: each observes one session at a time, and a controller's steers it.

Requests are answered in words, also those that are none, and the socket stays open. What is sent is
made when the socket can take it, so that a page that does not read costs little and delays nobody.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, assert_never

import msgspec

from twofold.errors import TwofoldError
from twofold.host.file_index import FileIndex
from twofold.host.host import Host, NoSuchSession
from twofold.host.hosted_session import HostedSession
from twofold.text import one_line, sanitize
from twofold.text.fuzzy import best_paths
from twofold.web.access import Guest
from twofold.web.feed import Feed, Observer
from twofold.web.requests import (
    MOST_PLACES,
    READS,
    Answer,
    AnyRequest,
    BadRequest,
    Cancel,
    CloseSession,
    Complete,
    DeleteSession,
    EditQueued,
    Leave,
    MoveWindow,
    NewSession,
    Open,
    Prompt,
    RemoveQueued,
    RenameSession,
    RestartSession,
    Resumable,
    Resume,
    Search,
    SendQueued,
    SetOption,
    parse,
    prompt_parts,
)

MOST_SOCKETS: Final = 256
RATE: Final = 50.0
"""Requests per second that a socket may send on the average; more of them are read later."""
BURST: Final = 200
STALLED: Final = 60.0
"""After so many seconds in which a page took nothing it is let go."""
WAITING: Final = 32
"""Answers that a page has not read; until then no further request is read."""
AT_ONCE: Final = 8
"""Requests of one socket that take time and are worked on at once."""
ANSWERED: Final = 12.0
"""Seconds after which a request that takes longer is answered that it does."""
LONGEST_ERROR: Final = 4_000
FOUND: Final = 100
PATHS: Final = 50

PUT_OUT: Final = 4401
GOING: Final = 1001
STALLED_CODE: Final = 4408
TOO_MANY: Final = 1013
"""Codes with which a socket is closed."""

Facts: TypeAlias = Mapping[str, Any]
"""What an answer has beside its type and its id."""

_log = logging.getLogger("twofold.web")


class Socket(Protocol):
    """A WebSocket that is open."""

    async def receive(self) -> str | bytes | None:
        """The next message; None if there are no more."""

    async def send(self, text: str) -> None:
        """Send a message; returns when it has room for the next one."""

    async def close(self, code: int, reason: str) -> None:
        """Close it."""

    @property
    def has_room(self) -> bool:
        """Whether a message may be written now, without waiting."""

    def write(self, message: bytes) -> None:
        """Write a message as `websocket_message` makes it; there has to be room."""


class Closed(Exception):
    """The other side is gone."""


class LiveSockets:
    """All sockets of a server, and what they share.

    Args:
        host: The sessions.
        welcome: What a page is sent first, beside its role and its name.
    """

    def __init__(self, host: Host, welcome: Callable[[], Mapping[str, Any]]) -> None:
        self.host = host
        self.welcome = welcome
        self.feeds: dict[str, Feed] = {}
        self._open: set[_Connection] = set()
        self._indexes: dict[Path, FileIndex] = {}
        self._sessions = ""
        self._subscription = host.subscribe(lambda _: self._listed())

    def __len__(self) -> int:
        return len(self._open)

    async def serve(self, socket: Socket, guest: Guest) -> None:
        """Talk to a page until one side closes the socket."""
        if len(self._open) >= MOST_SOCKETS:
            await socket.close(TOO_MANY, f"This server has {MOST_SOCKETS} pages open already.")
            return
        connection = _Connection(self, socket, guest)
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.discard(connection)
            connection.leave()

    def put_out(self, is_valid: Callable[[Guest], bool]) -> None:
        """Close the sockets of guests whose token is no longer valid."""
        for connection in list(self._open):
            if not is_valid(connection.guest):
                connection.end(PUT_OUT, "You are no longer let in.")

    def close(self) -> None:
        """Close all sockets: the server is going."""
        self._subscription.cancel()
        for connection in list(self._open):
            connection.end(GOING, "The server is going.")
        for index in self._indexes.values():
            index.close()

    # ---- what sockets share

    def feed(self, hosted: HostedSession) -> Feed:
        """The frames of a session."""
        feed = self.feeds.get(hosted.id)
        if feed is None:
            feed = self.feeds[hosted.id] = Feed(hosted)
        return feed

    def left(self, feed: Feed) -> None:
        """An observer is gone: frames that nobody looks at are not encoded."""
        if not feed.observers and self.feeds.get(feed.hosted.id) is feed:
            del self.feeds[feed.hosted.id]
            feed.close()

    @property
    def sessions(self) -> str:
        """The list of sessions, encoded once for all."""
        self._sessions = self._sessions or _written(
            {"type": "sessions", "sessions": self.host.sessions}
        )
        return self._sessions

    def index(self, cwd: Path) -> FileIndex:
        """The paths below a directory."""
        return self._indexes.setdefault(cwd, FileIndex(cwd))

    def _listed(self) -> None:
        self._sessions = ""
        facts = self.host.sessions
        known = {each["id"] for each in facts}
        for connection in list(self._open):
            connection.listed(known)
        used = {Path(each["cwd"]) for each in facts}
        for cwd in [cwd for cwd in self._indexes if cwd not in used]:
            self._indexes.pop(cwd).close()


class _Connection:
    """One socket."""

    def __init__(self, shared: LiveSockets, socket: Socket, guest: Guest) -> None:
        self.guest = guest
        self._shared = shared
        self._host = shared.host
        self._socket = socket
        self._observer: Observer | None = None
        self._answers: deque[str] = deque()
        self._has_room = asyncio.Event()
        self._sessions_due = True
        self._wake = asyncio.Event()
        self._is_resting = False
        """Everything was sent, and nothing is to be sent yet."""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[tuple[int, str]] = self._loop.create_future()
        self._sending_since = math.inf
        self._tasks: set[asyncio.Task[None]] = set()
        self._pace = Pace(RATE, BURST)

    async def run(self) -> None:
        """Talk until one side closes the socket."""
        welcome = {"type": "welcome", "role": self.guest.role, "name": self.guest.name}
        self._answer({**welcome, **self._shared.welcome()})
        self._look()
        sending = asyncio.create_task(self._send_all())
        receiving = asyncio.create_task(self._receive_all())
        waited: set[asyncio.Future[Any]] = {sending, receiving, self._ended}
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._looking.cancel()
            every = [sending, receiving, *self._tasks]
            for task in every:
                task.cancel()
            for result in await asyncio.gather(*every, return_exceptions=True):
                if isinstance(result, Exception) and not isinstance(result, Closed | TimeoutError):
                    _log.error("A socket of the page failed", exc_info=result)
        code, reason = self._ended.result() if self._ended.done() else (GOING, "")
        with suppress(Closed, TimeoutError):
            async with asyncio.timeout(1):
                await self._socket.close(code, reason)

    def _look(self) -> None:
        """Let the page go if it has taken nothing for long; looked at from time to time."""
        if self._loop.time() - self._sending_since > STALLED:
            self.end(STALLED_CODE, "This page has not read what it was sent.")
        self._looking = self._loop.call_later(STALLED / 2, self._look)

    def end(self, code: int, reason: str) -> None:
        """Close the socket."""
        if not self._ended.done():
            self._ended.set_result((code, reason))

    def listed(self, known: set[str]) -> None:
        """The list of sessions has changed."""
        self._sessions_due = True
        observer = self._observer
        if observer is not None and observer.session_id not in known:
            self.leave()
            self._answer(
                {
                    "type": "closed",
                    "session": observer.session_id,
                    "reason": "The session was closed.",
                }
            )
        self._wake.set()

    def leave(self) -> None:
        """Observe no session."""
        observer, self._observer = self._observer, None
        if observer is not None:
            self._shared.left(observer.leave())

    # ---- sending

    async def _send_all(self) -> None:
        while True:
            text = self._next()
            if text is None:
                self._wake.clear()
                self._is_resting = True
                await self._wake.wait()
                self._is_resting = False
                continue
            self._sending_since = self._loop.time()
            await self._socket.send(text)
            self._sending_since = math.inf

    def _has_frame(self) -> None:
        """The session has a frame: it is written at once if that is all there is to do.

        A session has many observers, and waking a task for each costs more than the writing.
        """
        observer = self._observer
        is_all = self._is_resting and not (self._wake.is_set() or self._answers)
        if observer is not None and is_all and not self._sessions_due and self._socket.has_room:
            message = observer.take_shared()
            if message is not None:
                self._socket.write(message)
                return
        self._wake.set()

    def _next(self) -> str | None:
        if self._answers:
            text = self._answers.popleft()
            self._has_room.set()
            return text
        if self._sessions_due:
            self._sessions_due = False
            return self._shared.sessions
        return self._observer.next() if self._observer is not None else None

    def _answer(self, message: Mapping[str, Any]) -> None:
        self._answers.append(_written(message))
        self._wake.set()

    # ---- receiving

    async def _receive_all(self) -> None:
        while (message := await self._socket.receive()) is not None:
            await self._pace.wait()
            while len(self._answers) >= WAITING or len(self._tasks) >= AT_ONCE:
                self._has_room.clear()
                await self._has_room.wait()
            self._read(message)

    def _read(self, message: str | bytes) -> None:
        identity: int | None = None
        try:
            request = parse(message)
            identity = request.id
            if self.guest.role == "observer" and not isinstance(request, READS):
                raise BadRequest("You may look, and change nothing.")
            work = self._handle(request)
        except Exception as error:
            self._answer(_failed(error, getattr(error, "id", None) or identity))
            return
        if isinstance(work, Awaitable):
            task = asyncio.create_task(self._finish(work, identity))
            self._tasks.add(task)
            task.add_done_callback(self._finished)
        elif work is not None:
            self._done(identity, work)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._has_room.set()

    async def _finish(
        self, work: Awaitable[Mapping[str, Any] | None], identity: int | None
    ) -> None:
        try:
            async with asyncio.timeout(ANSWERED):
                done = await work
        except TimeoutError:
            words = "This takes longer than usual. Look at the session, or try again in a while."
            self._answer({"type": "error", "id": identity, "message": words})
        except Exception as error:
            self._answer(_failed(error, identity))
        else:
            if done is not None:
                self._done(identity, done)

    def _done(self, identity: int | None, facts: Mapping[str, Any]) -> None:
        if identity is not None:
            self._answer({"type": "done", "id": identity, **facts})

    # ---- requests

    def _handle(self, request: AnyRequest) -> Facts | Awaitable[Facts | None] | None:
        """Do what is asked: returns the facts of the answer, or None if it is sent later."""
        host, by = self._host, self.guest.name
        match request:
            case Open():
                hosted = host.find(request.session)
                if not hosted.is_read:
                    return self._observe_once_read(request, hosted)
                self._observe(request)
                return None
            case MoveWindow():
                self._move(request)
                return None
            case Leave():
                self.leave()
            case Prompt():
                hosted = self._hosted
                able = hosted.facts()["session"]["capabilities"]["embedded"]
                item = hosted.prompt(prompt_parts(request, embedded=able), by)
                return _once_kept(hosted, {"item": item})
            case EditQueued():
                self._hosted.edit_queued(request.item, request.text)
                return _once_kept(self._hosted, {})
            case RemoveQueued():
                self._hosted.remove_queued(request.item)
                return _once_kept(self._hosted, {})
            case SendQueued():
                self._hosted.send_queued(request.item)
            case Cancel():
                self._hosted.cancel(by)
            case Answer():
                self._hosted.answer(request.question, request.option, by, request.reason)
                return _once_kept(self._hosted, {})
            case SetOption():
                return _nothing(self._hosted.set_option(request.control, request.value))
            case NewSession():
                return _opened(host.new_session(request.agent, request.cwd, request.mode))
            case Resumable():
                return _listed(host.resumable(request.agent, request.cwd))
            case Resume():
                return _opened(host.resume(request.session, request.agent, request.cwd))
            case CloseSession():
                return _nothing(host.close_session(request.session))
            case DeleteSession():
                return _nothing(host.delete(request.session))
            case RestartSession():
                return _nothing(host.restart(request.session))
            case RenameSession():
                host.rename(request.session, request.title)
            case Search():
                return self._search(request)
            case Complete():
                return self._complete(request.text)
            case _:
                assert_never(request)
        return {}

    @property
    def _hosted(self) -> HostedSession:
        if self._observer is None:
            raise BadRequest("Open a session first.")
        return self._host.find(self._observer.session_id)

    async def _observe_once_read(self, request: Open, hosted: HostedSession) -> None:
        await hosted.ready()
        self._observe(request)

    def _observe(self, request: Open) -> None:
        hosted = self._host.find(request.session)
        begin, end = request.window
        if end is None and hosted.count - begin > MOST_PLACES:
            raise BadRequest(f"A window has at most {MOST_PLACES:,} places.")
        self.leave()
        self._observer = Observer(
            self._shared.feed(hosted),
            request.window,
            self._has_frame,
            request=request.id,
            epoch=request.epoch,
            since=request.since,
        )
        self._wake.set()

    def _move(self, request: MoveWindow) -> None:
        hosted = self._hosted
        if request.to is None and hosted.count - request.from_ > MOST_PLACES:
            raise BadRequest(f"A window has at most {MOST_PLACES:,} places.")
        assert self._observer is not None
        self._observer.move((request.from_, request.to), request.id)

    async def _search(self, request: Search) -> Mapping[str, Any]:
        wanted = request.session
        every = [wanted] if wanted else [each["id"] for each in self._host.sessions]
        if not wanted:
            await self._host.read_found(request.text)
        found: list[Any] = []
        for session in every:
            with suppress(NoSuchSession):
                hits = await self._host.find(session).search(request.text, FOUND - len(found))
                found += [{"session": session, **hit} for hit in hits]
            if len(found) >= FOUND:
                break
        return {"found": found}

    async def _complete(self, text: str) -> Mapping[str, Any]:
        listing = await self._shared.index(self._hosted.cwd).first(asyncio.Event())
        if listing is None:
            return {"paths": []}
        positions = await asyncio.to_thread(best_paths, text[:1000], listing.folded, PATHS)
        paths = [listing.paths[position] for position in positions]
        return {"paths": [path for path in paths if one_line(path) == path]}


async def _once_kept(hosted: HostedSession, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts of the answer, once what was asked for cannot be lost any more."""
    await hosted.kept()
    return facts


async def _nothing(work: Awaitable[None]) -> Mapping[str, Any]:
    await work
    return {}


async def _opened(work: Awaitable[HostedSession]) -> Mapping[str, Any]:
    return {"session": (await work).id}


async def _listed(work: Awaitable[list[Any]]) -> Mapping[str, Any]:
    return {"sessions": await work}


def _failed(error: Exception, identity: int | None) -> Mapping[str, Any]:
    """An error in words; one that is ours is logged."""
    if isinstance(error, TwofoldError):
        message = sanitize(str(error))[:LONGEST_ERROR]
    else:
        _log.error("A request of the page failed", exc_info=error)
        message = "The server failed to do this. Its log has the reason."
    return {"type": "error", "id": identity, "message": message}


def _written(message: Mapping[str, Any]) -> str:
    return msgspec.json.encode(message).decode()


class Pace:
    """Lets so many requests through per second, a burst at first."""

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._at = clock()

    def take(self) -> float:
        """Take one; returns after how many seconds it may go."""
        self._refill()
        self._left -= 1
        return max(0.0, -self._left / self._rate)

    def may_go(self) -> bool:
        """Whether one more may go now; it is taken if so."""
        self._refill()
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now

    async def wait(self) -> None:
        """Wait until one more may go."""
        await asyncio.sleep(self.take())
