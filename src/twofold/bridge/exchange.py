"""The messages between a client and an agent that speak different versions.

`Down` and `Up` know the rules of their direction. What is the same in both is here: an `Endpoint`
for each side, which pairs requests with answers, and the `Exchange` between the two, which reads
lines and calls the handler of each message.

Messages are translated in the order in which they arrive, without waiting, so that none overtakes
another. Each side has its own request ids: a request is sent on with a new id, and its answer
returns with the original one. Extension methods, unknown methods, and methods that both versions
write alike pass unread. Methods that only the other version has are refused. A message that cannot
be converted is reported, and answered with an error if it is a request. An error in one message
does not affect the next.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import UNSET, Struct

from twofold.bridge.loss_log import LossLog, LossReporter
from twofold.bridge.side import Side
from twofold.convert.losses import NotConvertible
from twofold.peer.answering import error_for_peer
from twofold.peer.problems import Problem, Report
from twofold.rpc import connection
from twofold.rpc.connection import (
    Batch,
    Event,
    Failure,
    Notification,
    Pending,
    Request,
    RequestId,
    Response,
    read_line,
)
from twofold.rpc.connection import Malformed as NoMessage
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.frames import LineTooLong
from twofold.wire import codec, v1, v2
from twofold.wire.base import Malformed
from twofold.wire.shared import CancelRequestNotification, Error

Answer: TypeAlias = Response | Failure
OnAnswer: TypeAlias = Callable[[Answer], None]
OnRequest: TypeAlias = Callable[[Request], None]
OnNotification: TypeAlias = Callable[[Notification], None]
OnWithdrawal: TypeAlias = Callable[[RequestId], bool]
"""Called with the id of a request that its sender cancels; true if nothing is left to pass on."""
StopTimer: TypeAlias = Callable[[], None]
StartTimer: TypeAlias = Callable[[float, Callable[[], None]], StopTimer]
"""Calls a function after so many seconds, unless the result is called first."""

_ONLY_V1 = frozenset(v1.METHODS.keys() - v2.METHODS.keys())
_ONLY_V2 = frozenset(v2.METHODS.keys() - v1.METHODS.keys())
_PROXY = "proxy/"  # messages of a chain of proxies, which wrap messages of one version

PENDING = 16 * 1024
"""How many requests to one side may wait for an answer; more are refused."""
SESSIONS = 10_000
"""How many sessions may be open at once."""
QUIET = 0.2
"""After how many seconds without an update a replay counts as complete."""
REPLAY = 5.0
"""After how many seconds a replay counts as complete in any case."""


class SilenceTimer:
    """Calls `then` after `quiet` seconds without `restart`, and after `longest` in any case.

    The timers are injected, so that the bridge's rules have no clock of their own.
    """

    def __init__(
        self, start: StartTimer, then: Callable[[], None], *, quiet: float, longest: float
    ) -> None:
        self._start = start
        self._then = then
        self._seconds = quiet
        self._stop_quiet = start(quiet, self.finish)
        self._stop_longest = start(longest, self.finish)

    def restart(self) -> None:
        """Something arrived: wait for `quiet` seconds again."""
        self._stop_quiet()
        self._stop_quiet = self._start(self._seconds, self.finish)

    def finish(self) -> None:
        """Stop waiting and call `then` now."""
        self.stop()
        self._then()

    def stop(self) -> None:
        """Stop waiting, without calling `then`."""
        self._stop_quiet()
        self._stop_longest()


class PendingRequest(Struct, eq=False):
    """A request that was sent to one side and has no answer yet."""

    request_id: RequestId
    origin: RequestId | None
    """The id of the request of the other side that it stands for; None if there is none."""
    on_answer: OnAnswer
    method: str


class Endpoint:
    """Sends messages to one side, and pairs its answers with the requests that it was sent."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.name: Final = side.name
        self.pending: Pending[PendingRequest] = Pending()
        self.on_request: Mapping[str, OnRequest] = {}
        """Handlers for the requests of this side, by method."""
        self.on_notification: Mapping[str, OnNotification] = {}
        """Handlers for the notifications of this side, by method."""
        self.on_withdrawal: OnWithdrawal = lambda request_id: False
        self.foreign: frozenset[str] = frozenset()
        """The methods that this side's version does not have and the other version has."""
        self._last_id = 0
        # by the sender's id: a flood of withdrawals must not search the table for each
        self._by_origin: dict[RequestId, PendingRequest] = {}

    # ---- sending

    def request(
        self, method: str, params: bytes | None, origin: RequestId | None, on_answer: OnAnswer
    ) -> int:
        """Send a request and return its id.

        Raises:
            RequestError: Too many requests are waiting for an answer of this side.
        """
        if len(self.pending) >= PENDING:
            advice = "wait for answers before sending more"
            raise RequestError.too_many("requests at once", PENDING, advice)
        self._last_id += 1
        pending = PendingRequest(self._last_id, origin, on_answer, method)
        self.pending.add(self._last_id, pending)
        if origin is not None:
            self._by_origin[origin] = pending
        self.side.send(connection.request(self._last_id, method, params))
        return self._last_id

    def respond(self, request_id: RequestId, result: Any) -> None:
        """Answer a request of this side."""
        self.side.send(connection.respond(request_id, codec.encode(result)))

    def fail(self, request_id: RequestId, error: RequestError | Failure) -> None:
        """Answer a request of this side with an error, or with the other side's failure."""
        if isinstance(error, Failure):
            error = as_request_error(error)
        self.side.send(connection.fail(request_id, error, codec.encode))

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.side.send(connection.notify(method, codec.encode(params)))

    # ---- requests that wait for an answer

    def id_of(self, origin: RequestId) -> RequestId | None:
        """The id of the pending request that stands for `origin`, the sender's own id."""
        pending = self._by_origin.get(origin)
        return pending.request_id if pending is not None else None

    def take(self, request_id: RequestId | None) -> PendingRequest | None:
        """Remove and return the pending request with this id; None if there is none."""
        return self._unlink(self.pending.take(request_id))

    def take_all(self) -> list[PendingRequest]:
        """Remove and return every pending request."""
        self._by_origin.clear()
        return self.pending.clear()

    def detach(self, request_id: RequestId) -> None:
        """Mark a request as answered to its sender, which then can no longer withdraw it."""
        pending = self._unlink(self.pending.get(request_id))
        if pending is not None:
            pending.origin = None

    def drop(self, request_id: RequestId) -> bool:
        """Wait no longer for an answer; a late one is dropped. False if none was waited for."""
        return self._unlink(self.pending.give_up(request_id)) is not None

    def cancel(self, request_id: RequestId) -> None:
        """Wait no longer for an answer, and send `$/cancel_request`."""
        if self.drop(request_id):
            self.notify("$/cancel_request", CancelRequestNotification(request_id))

    def _unlink(self, pending: PendingRequest | None) -> PendingRequest | None:
        origin = pending.origin if pending is not None else None
        # the sender may have used its id again, for another request
        if origin is not None and self._by_origin.get(origin) is pending:
            del self._by_origin[origin]
        return pending


class Exchange:
    """Two endpoints of different versions, and the dispatch of the messages between them.

    `initialize_result` is the answer to a client that sends `initialize` a second time.
    """

    def __init__(
        self,
        client: Side,
        agent: Side,
        log: LossLog,
        report: Report,
        initialize_result: bytes,
        *,
        client_version: int,
    ) -> None:
        self.client = Endpoint(client)
        self.agent = Endpoint(agent)
        self.client.foreign = _ONLY_V2 if client_version == 1 else _ONLY_V1
        self.agent.foreign = _ONLY_V1 if client_version == 1 else _ONLY_V2
        self._methods = v2.METHODS if client_version == 1 else v1.METHODS
        """The methods of the agent's version."""
        self.log = LossReporter(log)
        self.report = report
        self._initialize_result = initialize_result
        self._agent_error: RequestError | None = None

    # ---- receiving

    def from_client(self, line: bytes | LineTooLong) -> None:
        """Handle a line of the client."""
        self._receive(line, self.client, self.agent)

    def from_agent(self, line: bytes | LineTooLong) -> None:
        """Handle a line of the agent."""
        self._receive(line, self.agent, self.client)

    def _receive(self, line: bytes | LineTooLong, sender: Endpoint, other: Endpoint) -> None:
        for event in events_of(line):
            if isinstance(event, Request):
                self._request(event, sender, other)
            elif isinstance(event, Notification):
                self._notification(event, sender, other)
            elif isinstance(event, Response | Failure):
                self._answer(event, sender, other)
            elif isinstance(event, Batch):
                sender.side.take_apart(event)
            else:
                self._no_message(event, sender)

    def _no_message(self, event: NoMessage, sender: Endpoint) -> None:
        shown = event.line.decode(errors="replace")
        self.report(Problem("noise", f"{sender.name}: {event.reason}: {shown}"))
        if event.refusal and (sender is self.client or not event.maybe_log):
            sender.side.send(event.refusal)

    def _request(self, request: Request, sender: Endpoint, other: Endpoint) -> None:
        method = request.method
        handle = sender.on_request.get(method)
        try:
            if sender is self.client and self._agent_error is not None:
                raise self._agent_error
            if handle is not None:
                handle(request)
            elif method == "initialize" and sender is self.client:
                sender.side.send(connection.respond(request.id, self._initialize_result))
            elif method in sender.foreign or method.startswith(_PROXY):
                raise RequestError.method_not_found(method)
            else:
                self._forward(request, sender, other)
        except Exception as error:
            sender.fail(request.id, self._refusal(method, error))
        finally:
            self.log.flush(method)

    def _forward(self, request: Request, sender: Endpoint, other: Endpoint) -> None:
        """Send a request on as it is, and its answer back as it is."""

        def answered(answer: Answer) -> None:
            if isinstance(answer, Failure):
                sender.fail(request.id, answer)
            else:
                sender.side.send(connection.respond(request.id, answer.result))

        params = None if request.params is UNSET else request.params
        other.request(request.method, params, request.id, answered)

    def convert_request(
        self, request: Request, name: str, params: Any, convert: Callable[[Any], Any]
    ) -> None:
        """Send a request of the client to the agent, and its converted result to the client.

        Args:
            request: The request of the client.
            name: The name of the method in the agent's version.
            params: The params in the agent's version.
            convert: Converts the result of the agent.
        """

        def answered(answer: Answer) -> None:
            if isinstance(answer, Failure):
                self.client.fail(request.id, answer)
            else:
                result = read_result(answer, self._methods[name].result)
                self.client.respond(request.id, convert(result))

        self.agent.request(name, codec.encode(params), request.id, answered)

    def _notification(self, notification: Notification, sender: Endpoint, other: Endpoint) -> None:
        method = notification.method
        handle = sender.on_notification.get(method)
        try:
            if method == "$/cancel_request":
                self._withdraw(notification, sender, other)
            elif handle is not None:
                handle(notification)
            elif method.startswith(_PROXY):
                self.log.report(method, "", "the bridge does not take part in chains of proxies")
            else:
                params = None if notification.params is UNSET else notification.params
                other.side.send(connection.notify(method, params))
        except Exception as error:
            self.report_failure(method, sender, error)
        finally:
            self.log.flush(method)

    def _withdraw(self, notification: Notification, sender: Endpoint, other: Endpoint) -> None:
        """The sender cancels one of its requests, which has another id on the other side."""
        params = codec.decode(notification.params or b"{}", CancelRequestNotification)
        if params.request_id is None:
            return
        request_id = sender.side.batches.id_of(params.request_id)
        if sender.on_withdrawal(request_id):
            return
        at_other = other.id_of(request_id)
        if at_other is not None:
            other.notify("$/cancel_request", CancelRequestNotification(at_other))

    def _answer(self, answer: Answer, sender: Endpoint, other: Endpoint) -> None:
        if sender.pending.is_late(answer.id):
            return
        pending = sender.take(answer.id)
        if pending is None:
            text = f"The {sender.name} answered a request that is not pending: {answer.id!r}"
            self.report(Problem("answer", text))
        else:
            self._deliver(pending, answer, sender, other)

    def _deliver(
        self, pending: PendingRequest, answer: Answer, sender: Endpoint, other: Endpoint
    ) -> None:
        try:
            pending.on_answer(answer)
        except Exception as error:
            if isinstance(error, NotConvertible):
                self.log.refuse(pending.method, error)
            else:
                self.report_failure(f"answer to {pending.method}", sender, error)
            if pending.origin is not None:
                other.fail(pending.origin, _bad_answer(error))
        finally:
            self.log.flush(pending.method)

    # ---- errors

    def _refusal(self, method: str, error: Exception) -> RequestError:
        """The answer to a request whose handler raised `error`."""
        meant = error_for_peer(error)
        if meant is not None:
            return meant
        if isinstance(error, NotConvertible):
            self.log.refuse(method, error)
            reason = f"this cannot be converted to the version of the other side: {error}"
            return RequestError.invalid_params(reason)
        self._report_bug(method, error)
        return RequestError(INTERNAL_ERROR, "Internal error")

    def report_failure(self, what: str, sender: Endpoint, error: Exception) -> None:
        """Report a notification or an answer that could not be translated."""
        if isinstance(error, NotConvertible):
            self.log.refuse(what, error)
        elif isinstance(error, Malformed):
            text = f"The {sender.name} sent a malformed {what}: {error}"
            self.report(Problem("update", text))
        else:
            self._report_bug(what, error)

    def _report_bug(self, what: str, error: Exception) -> None:
        text = f"{what} could not be translated: {type(error).__name__}: {error}"
        self.report(Problem("handler", text, error=error))

    # ---- the end of a side

    def agent_died(self, error: RequestError) -> None:
        """Answer the client's requests with `error`, those that follow included.

        The agent's own requests are cancelled first, so that the client no longer asks its user.
        """
        self._agent_error = error
        for pending in self.client.pending:
            self.client.cancel(pending.request_id)
        self._fail_all(self.agent, self.client, error)

    def client_left(self) -> None:
        """Answer the agent's requests with an error."""
        error = RequestError(INTERNAL_ERROR, "The client closed the connection")
        self._fail_all(self.client, self.agent, error)

    def _fail_all(self, gone: Endpoint, other: Endpoint, error: RequestError) -> None:
        value: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not UNSET:
            value["data"] = error.data
        failure = Failure(None, codec.encode(value))
        for pending in gone.take_all():
            self._deliver(pending, failure, gone, other)


def check_session_count(count: int) -> None:
    """Raise `Malformed` if `count` sessions are open and one more is too many."""
    if count >= SESSIONS:
        raise Malformed("sessionId", f"more than {SESSIONS} sessions are open: close some")


def read_result(answer: Response, shape: Any) -> Any:
    """Decode a result; null counts as an empty one, because some agents send it."""
    return codec.decode(b"{}" if answer.result == b"null" else answer.result, shape)


def as_request_error(failure: Failure) -> RequestError:
    """The error of a peer, as the one that is passed on."""
    try:
        error: Error = codec.decode(failure.error, Error)
    except Malformed:
        sent = failure.error.decode(errors="replace")[:200]
        message = "The peer sent a malformed error object"
        return RequestError(INTERNAL_ERROR, message, {"sent": sent})
    return RequestError(error.code, error.message, error.data)


def events_of(line: bytes | LineTooLong) -> Iterable[Event]:
    """The messages of a line; the ends of one that is too long may still name a request."""
    if isinstance(line, LineTooLong):
        return connection.unreadable(str(line), line.head, line.tail)
    return read_line(line)


def _bad_answer(error: Exception) -> RequestError:
    if not isinstance(error, Malformed | NotConvertible):
        return RequestError(INTERNAL_ERROR, "Internal error")
    reason = {"reason": f"the answer could not be converted: {error}"}
    return RequestError(INTERNAL_ERROR, "Bad answer", reason)
