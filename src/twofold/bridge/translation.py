"""Two sides that speak different versions, and what both directions of translating share.

Messages are translated as they come, one after the other and without waiting, so that nothing
overtakes anything. Each side has its own ids: a request is asked anew on the other side, and its
answer goes back under the id it had. Extension methods, methods that nobody knows, and those that
both versions write alike pass unread; methods that only the other version has are refused. What
cannot be converted is refused where someone waits for an answer, and reported in any case.
Whatever goes wrong with one message, the next one is read.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Struct, field

from twofold.bridge.loss_log import LossLog
from twofold.bridge.side import End
from twofold.convert.losses import NotConvertible
from twofold.peer.problems import Problem, Report
from twofold.rpc import connection
from twofold.rpc.connection import Batch, Event, read_line
from twofold.rpc.connection import Malformed as NoMessage
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.frames import LineTooLong
from twofold.rpc.messages import Failure, Notification, Request, RequestId, Response
from twofold.wire import codec, v1, v2
from twofold.wire.base import Malformed
from twofold.wire.shared import CancelRequestNotification, Error

Outcome: TypeAlias = Response | Failure
Then: TypeAlias = Callable[[Outcome], None]
Timer: TypeAlias = Callable[[], None]
"""Call it to stop the timer."""
Later: TypeAlias = Callable[[float, Callable[[], None]], Timer]

Requests: TypeAlias = Mapping[str, Callable[[Any, Request], None]]
Notifications: TypeAlias = Mapping[str, Callable[[Any, Notification], None]]

# What a client and an agent say through a chain of proxies: it wraps messages of one version.
_PROXY = "proxy/"

PENDING = 16 * 1024
"""How many requests may wait for an answer of one side; more are refused."""
SESSIONS = 10_000
"""How many sessions are known at once."""
QUIET = 0.2
"""How many seconds of silence after its answer show that an agent has replayed all of a session."""
REPLAY = 5.0
"""How many seconds an agent that has answered may go on replaying before its client is answered."""
WITHDRAWN = 1000
"""Of how many requests that were taken back it is known that an answer may still come."""


class Silence:
    """Calls `then` when nothing has come for `quiet` seconds, or after `longest` in any case."""

    def __init__(
        self, later: Later, then: Callable[[], None], *, quiet: float, longest: float
    ) -> None:
        self._later = later
        self._then = then
        self._seconds = quiet
        self._quiet = later(quiet, self.end)
        self._longest = later(longest, self.end)

    def broken(self) -> None:
        """Something came: the silence begins anew."""
        self._quiet()
        self._quiet = self._later(self._seconds, self.end)

    def end(self) -> None:
        """Wait no longer."""
        self.stop()
        self._then()

    def stop(self) -> None:
        """Never call `then`."""
        self._quiet()
        self._longest()


class Asked(Struct, eq=False):
    """A request that was passed on and waits for its answer."""

    asker: RequestId | None
    """The id under which it was asked; None if the bridge itself asked."""
    then: Then
    method: str


class Side(Struct, eq=False):
    """One side: its end, and what was asked there."""

    end: End
    asked: dict[RequestId, Asked] = field(default_factory=dict)
    withdrawn: dict[RequestId, None] = field(default_factory=dict)
    last_id: int = 0
    ids: dict[RequestId, RequestId] = field(default_factory=dict)
    """The ids here by those of the asker: a flood of withdrawals must not search for each."""

    def ask(self, method: str, params: bytes | None, asker: RequestId | None, then: Then) -> int:
        """Ask this side; raises `RequestError` if too much was asked already."""
        if len(self.asked) >= PENDING:
            advice = "wait for answers before you ask more"
            raise RequestError.too_many("requests at once", PENDING, advice)
        self.last_id += 1
        self.asked[self.last_id] = Asked(asker, then, method)
        if asker is not None:
            self.ids[asker] = self.last_id
        self.end.send(connection.request(self.last_id, method, params))
        return self.last_id

    def id_of(self, asker: RequestId) -> RequestId | None:
        """The id here of a request that the other side calls `asker`."""
        mine = self.ids.get(asker)
        asked = self.asked.get(mine) if mine is not None else None
        return mine if asked is not None and asked.asker == asker else None

    def take(self, identity: RequestId | None) -> Asked | None:
        """Take out what waits for an answer with this id; None if nothing does."""
        asked = self.asked.pop(identity, None) if identity is not None else None
        if asked is not None and asked.asker is not None and self.ids.get(asked.asker) == identity:
            del self.ids[asked.asker]
        return asked

    def disown(self, identity: RequestId) -> None:
        """The asker was answered already: it cannot withdraw the request any more."""
        asked = self.take(identity)
        if asked is not None:
            asked.asker = None
            self.asked[identity] = asked

    def forget(self, identity: RequestId) -> bool:
        """Wait for an answer no more, though one may come; false if nobody did."""
        if self.take(identity) is None:
            return False
        self.withdrawn[identity] = None
        if len(self.withdrawn) > WITHDRAWN:
            del self.withdrawn[next(iter(self.withdrawn))]
        return True


class Translation:
    """What both directions share; `Up` and `Down` know the methods."""

    client_version: ClassVar[Literal[1, 2]]
    on_client_request: ClassVar[Requests]
    on_client_notification: ClassVar[Notifications]
    on_agent_request: ClassVar[Requests]
    on_agent_notification: ClassVar[Notifications]

    def __init__(self, client: End, agent: End, log: LossLog, report: Report, later: Later) -> None:
        self.client = Side(client)
        self.agent = Side(agent)
        self.log = log
        self.report = report
        self.later = later
        self.introduction = b"{}"
        """What a client that initializes once more is answered."""
        self._died: RequestError | None = None

    # ---- what comes

    def from_client(self, line: bytes | LineTooLong) -> None:
        """A line of the client."""
        self._from(line, self.client, self.agent)

    def from_agent(self, line: bytes | LineTooLong) -> None:
        """A line of the agent."""
        self._from(line, self.agent, self.client)

    def _from(self, line: bytes | LineTooLong, here: Side, there: Side) -> None:
        for event in events_of(line):
            if isinstance(event, NoMessage):
                self._noise(event, here)
            elif isinstance(event, Request):
                self._requested(event, here, there)
            elif isinstance(event, Notification):
                self._notified(event, here, there)
            elif isinstance(event, Batch):
                here.end.take_apart(event)
            else:
                self._answered(event, here)

    def _noise(self, event: NoMessage, here: Side) -> None:
        shown = event.line.decode(errors="replace")
        self.report(Problem("noise", f"{here.end.name}: {event.reason}: {shown}"))
        if event.refusal and (here is self.client or not event.maybe_log):
            here.end.send(event.refusal)

    def _requested(self, request: Request, here: Side, there: Side) -> None:
        of_client = here is self.client
        table = self.on_client_request if of_client else self.on_agent_request
        handle = table.get(request.method)
        try:
            if of_client and self._died is not None:
                raise self._died
            if handle is not None:
                handle(self, request)
            elif of_client and request.method == "initialize":
                here.end.send(connection.respond(request.id, self.introduction))
            elif self._is_foreign(request.method, of_client=of_client):
                raise RequestError.method_not_found(request.method)
            else:
                self.pass_on(request, here, there)
        except Exception as error:
            self.fail(here, request.id, self._as_refusal(request.method, error))
        finally:
            self.log.flush(request.method)

    def _notified(self, notification: Notification, here: Side, there: Side) -> None:
        of_client = here is self.client
        table = self.on_client_notification if of_client else self.on_agent_notification
        handle = table.get(notification.method)
        try:
            if notification.method == "$/cancel_request":
                self._withdrawn(notification, here, there)
            elif handle is not None:
                handle(self, notification)
            elif notification.method.startswith(_PROXY):
                self.log.tell(notification.method, "", "a bridge is no proxy")
            else:
                params = None if notification.params is UNSET else notification.params
                there.end.send(connection.notify(notification.method, params))
        except Exception as error:
            self.not_passed_on(notification.method, here, error)
        finally:
            self.log.flush(notification.method)

    def _answered(self, answer: Outcome, here: Side) -> None:
        if answer.id is not None and answer.id in here.withdrawn:
            del here.withdrawn[answer.id]
            return
        asked = here.take(answer.id)
        if asked is None:
            text = f"The {here.end.name} answered a request that nobody waits for: {answer.id!r}"
            self.report(Problem("answer", text))
            return
        self._deliver(asked, answer, here)

    def _deliver(self, asked: Asked, answer: Outcome, here: Side) -> None:
        try:
            asked.then(answer)
        except Exception as error:
            if isinstance(error, NotConvertible):
                self.log.refuse(asked.method, error)
            else:
                self.not_passed_on(f"an answer to {asked.method}", here, error)
            if asked.asker is not None:
                other = self.agent if here is self.client else self.client
                self.fail(other, asked.asker, _bad_answer(error))
        finally:
            self.log.flush(asked.method)

    def _is_foreign(self, method: str, *, of_client: bool) -> bool:
        """Whether a method is of the other version only: the sender's has no such method."""
        client, agent = (
            (v1.METHODS, v2.METHODS) if self.client_version == 1 else (v2.METHODS, v1.METHODS)
        )
        own, other = (client, agent) if of_client else (agent, client)
        return (method in other and method not in own) or method.startswith(_PROXY)

    # ---- what is too much

    def check_sessions(self, count: int) -> None:
        """Refuse one more session than are known at once."""
        if count >= SESSIONS:
            raise Malformed("sessionId", f"more than {SESSIONS} sessions are open: close some")

    # ---- what goes wrong

    def _as_refusal(self, method: str, error: Exception) -> RequestError:
        if isinstance(error, RequestError):
            return error
        if isinstance(error, Malformed):
            return RequestError.invalid_params(str(error))
        if isinstance(error, NotConvertible):
            self.log.refuse(method, error)
            return _refused(error)
        self._broke(method, error)
        return RequestError(INTERNAL_ERROR, "Internal error")

    def not_passed_on(self, what: str, here: Side, error: Exception) -> None:
        """Something that needs no answer could not be translated."""
        if isinstance(error, NotConvertible):
            self.log.refuse(what, error)
        elif isinstance(error, Malformed):
            text = f"The {here.end.name} sent {_a(what)} that is none: {error}"
            self.report(Problem("update", text))
        else:
            self._broke(what, error)

    def _broke(self, what: str, error: Exception) -> None:
        text = f"{what} could not be translated: {type(error).__name__}: {error}"
        self.report(Problem("handler", text, error=error))

    # ---- passing on

    def pass_on(self, request: Request, here: Side, there: Side) -> None:
        """Ask the same on the other side, unread."""
        params = None if request.params is UNSET else request.params
        there.ask(request.method, params, request.id, self.back(here, request.id))

    def back(self, to: Side, identity: RequestId) -> Then:
        """Give an answer back as it is."""

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(to, identity, answer)
            else:
                to.end.send(connection.respond(identity, answer.result))

        return then

    def give_back(self, to: Side, identity: RequestId, failure: Failure) -> None:
        """Give an error back."""
        self.fail(to, identity, as_request_error(failure))

    def respond(self, to: Side, identity: RequestId, result: Any) -> None:
        """Answer a request."""
        to.end.send(connection.respond(identity, codec.encode(result)))

    def fail(self, to: Side, identity: RequestId, error: RequestError) -> None:
        """Answer a request with an error."""
        to.end.send(connection.fail(identity, error, codec.encode))

    def notify(self, to: Side, method: str, params: Any) -> None:
        """Tell something."""
        to.end.send(connection.notify(method, codec.encode(params)))

    def _withdrawn(self, notification: Notification, here: Side, there: Side) -> None:
        """Someone does not want an answer any more: the id is another on the other side."""
        params = codec.decode(notification.params or b"{}", CancelRequestNotification)
        if params.request_id is None:
            return
        asked = here.end.batches.id_of(params.request_id)
        if self.withdraw(here, asked):
            return
        identity = there.id_of(asked)
        if identity is not None:
            self.notify(there, "$/cancel_request", CancelRequestNotification(identity))

    def withdraw(self, here: Side, identity: Any) -> bool:
        """Whether the bridge itself has dealt with a request that is not wanted any more."""
        return False

    def take_back(self, there: Side, identity: RequestId) -> None:
        """Stop waiting for an answer, and say so."""
        if there.forget(identity):
            self.notify(there, "$/cancel_request", CancelRequestNotification(identity))

    # ---- the end

    def agent_died(self, error: RequestError) -> None:
        """The agent is gone: whoever waits for it, or asks from now on, is told so.

        What the agent asked is taken back first: then there is an end to it.
        """
        self._died = error
        for identity in list(self.client.asked):
            self.take_back(self.client, identity)
        self._fail_all(self.agent, error)

    def client_left(self) -> None:
        """The client is gone: what the agent asked it gets an answer."""
        self._fail_all(self.client, RequestError(INTERNAL_ERROR, "The client is gone"))

    def _fail_all(self, side: Side, error: RequestError) -> None:
        asked, side.asked, side.ids = side.asked, {}, {}
        failure = Failure(None, codec.encode(_as_json(error)))
        for each in asked.values():
            self._deliver(each, failure, side)

    def close(self) -> None:
        """Stop every timer."""


def read_result(answer: Response, shape: Any) -> Any:
    """A result as structs; some agents answer null where nothing is to be said."""
    return codec.decode(b"{}" if answer.result == b"null" else answer.result, shape)


def as_request_error(failure: Failure) -> RequestError:
    """An error of a peer, to be passed on."""
    try:
        error: Error = codec.decode(failure.error, Error)
    except Malformed:
        sent = failure.error.decode(errors="replace")[:200]
        return RequestError(INTERNAL_ERROR, "An error that is none", {"sent": sent})
    return RequestError(error.code, error.message, error.data)


def events_of(line: bytes | LineTooLong) -> Iterable[Event]:
    """What a line says; one that is too long may still name a request."""
    if isinstance(line, LineTooLong):
        return connection.unreadable(str(line), line.head, line.tail)
    return read_line(line)


def _a(what: str) -> str:
    return what if what.startswith("an ") else f"a {what}"


def _as_json(error: RequestError) -> dict[str, Any]:
    value: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not UNSET:
        value["data"] = error.data
    return value


def _bad_answer(error: Exception) -> RequestError:
    if not isinstance(error, Malformed | NotConvertible):
        return RequestError(INTERNAL_ERROR, "Internal error")
    reason = {"reason": f"the answer could not be passed on: {error}"}
    return RequestError(INTERNAL_ERROR, "Bad answer", reason)


def _refused(refusal: NotConvertible) -> RequestError:
    reason = f"the other side speaks another version, which cannot say this: {refusal}"
    return RequestError.invalid_params(reason)
