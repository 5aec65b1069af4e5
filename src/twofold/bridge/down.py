"""A client of version 1 and an agent of version 2: everything but the turns.

What version 2 tells in a result and version 1 in an update (commands, options that a new mode
brings) goes out as an update. What version 1 does not know never reaches it.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import UNSET
from msgspec.structs import replace

from twofold.bridge.down_session import DownSession
from twofold.bridge.down_turns import DownTurns
from twofold.bridge.translation import (
    QUIET,
    REPLAY,
    Notifications,
    Outcome,
    Requests,
    Silence,
    read_result,
)
from twofold.convert.losses import NotConvertible, carried
from twofold.convert.options import modes_of
from twofold.convert.permissions import upgrade_outcome
from twofold.convert.requests import downgrade_params, downgrade_result, upgrade_params
from twofold.policy import choose
from twofold.rpc.errors import RequestError
from twofold.rpc.messages import Failure, Request, Response
from twofold.wire import codec, v1, v2
from twofold.wire.elicitation import ElicitationCancel
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    PermissionOption,
    SelectedPermissionOutcome,
)

_CANCELLED = v2.RequestPermissionResponse(CancelledPermissionOutcome())
_NO_ANSWER = ElicitationCancel()


class Down(DownTurns):
    """Translates for a client of version 1; `able` is what it said that it shows."""

    # ---- requests of the client

    def _simple(self, request: Request) -> None:
        """A request that the other version has too, with or without another name."""
        name, params = self._lifted(request)
        self._ask(request, name, params, lambda result: downgrade_result(name, result, self.losses))

    def _ask(self, request: Request, name: str, params: Any, convert: Callable[[Any], Any]) -> None:
        """Ask the agent, and give the result back converted."""

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
            else:
                result = read_result(answer, v2.METHODS[name].result)
                self.respond(self.client, request.id, convert(result))

        self.agent.ask(name, codec.encode(params), request.id, then)

    def _lifted(self, request: Request) -> tuple[str, Any]:
        params = codec.decode(request.params or b"{}", v1.METHODS[request.method].params)
        return upgrade_params(request.method, params, self.losses)

    # ---- sessions

    def _new(self, request: Request) -> None:
        name, params = self._lifted(request)
        self._set_up(request, name, params, lambda result: self.session(result.session_id))

    def _fork(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.ResumeSessionRequest)
        name, lifted = upgrade_params(request.method, params, self.losses)
        self._set_up(request, name, lifted, lambda result: self.session(result.session_id))

    def _status(self, request: Request) -> None:
        """The state of a session is beside its status in version 2."""

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
                return
            result = codec.parse(answer.result)
            if isinstance(result, dict) and result.pop("state", None) is not None:
                reason = "version 1 has no session state but the result of a prompt"
                self.losses.report("state", reason)
            self.respond(self.client, request.id, result)

        params = None if request.params is UNSET else request.params
        self.agent.ask(request.method, params, request.id, then)

    def _resume(self, request: Request) -> None:
        name, params = self._lifted(request)
        self._set_up(request, name, params, lambda result: self.session(params.session_id))

    def _load(self, request: Request) -> None:
        name, params = self._lifted(request)
        known = params.session_id in self.sessions
        session = self.session(params.session_id)
        self._settle_now(session)
        self.finish(session)
        session.complete = False
        # a replay tells everything again, to someone who forgets what it has seen
        before, session.lowering = session.lowering, self.lowering()
        own, session.own = session.own, {}

        def refused() -> None:
            session.lowering, session.own, session.complete = before, own, True
            if not known:
                self.sessions.pop(params.session_id, None)

        self._set_up(request, name, params, lambda result: session, refused)

    def _set_up(
        self,
        request: Request,
        name: str,
        params: Any,
        session_of: Callable[[Any], DownSession],
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        """New, load, resume and fork: commands, which version 2 has in the result, follow it."""

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                refused()
                self.give_back(self.client, request.id, answer)
                return
            forked = name == "session/fork"
            shape = v2.NewSessionResponse if forked else v2.METHODS[name].result
            result = read_result(answer, shape)
            session = session_of(result)
            lowered = self._setup(session, name, result)

            def finished() -> None:
                session.settling, session.complete = None, True
                self.finish(session)
                self.respond(self.client, request.id, lowered)
                if result.available_commands:
                    self._tell(session, v2.AvailableCommandsUpdate(result.available_commands))

            if session.complete:
                finished()
            else:  # v1: nothing of a replay follows the answer
                session.settling = Silence(self.later, finished, quiet=QUIET, longest=REPLAY)

        self.agent.ask(name, codec.encode(params), request.id, then)

    def _setup(self, session: DownSession, name: str, result: Any) -> Any:
        bare = replace(result, available_commands=UNSET)
        if result.config_options is not UNSET:
            self.know_options(session, result.config_options)
            options = session.lowering.options(result.config_options, "configOptions")
            bare = replace(bare, config_options=options)
        return downgrade_result(name, bare, self.losses)

    def _tell(self, session: DownSession, update: v2.SessionUpdate) -> None:
        self.update(v2.UpdateSessionNotification(session.session_id, update))

    def _end_session(self, request: Request) -> None:
        """Close and delete: nothing of the session has to be remembered any more."""
        name, params = self._lifted(request)

        def ended(result: Any) -> Any:
            session = self.sessions.get(params.session_id)
            if session is not None:
                self.forget(session)
            return result

        self._ask(request, name, params, ended)

    # ---- modes and config options

    def _set_mode(self, request: Request) -> None:
        name, params = self._lifted(request)
        session = self.session(params.session_id)

        def chosen(result: v2.SetSessionConfigOptionResponse) -> Any:
            if result.config_options != session.options:
                # a mode may bring other options, and version 1's result has no place for them
                self._tell(session, v2.ConfigOptionUpdate(result.config_options))
            return v1.Empty(**carried(result, v1.Empty, self.losses, ""))

        self._ask(request, name, replace(params, config_id=session.mode_option), chosen)

    def _set_option(self, request: Request) -> None:
        name, params = self._lifted(request)
        session = self.session(params.session_id)

        def chosen(result: v2.SetSessionConfigOptionResponse) -> Any:
            before, now = _mode(session.options), _mode(result.config_options)
            self.know_options(session, result.config_options)
            if now and now != before:
                note = v1.SessionNotification(session.session_id, v1.CurrentModeUpdate(now))
                self.notify(self.client, "session/update", note)
            options = session.lowering.options(result.config_options, "configOptions")
            bare = replace(result, config_options=options)
            return downgrade_result(name, bare, self.losses)

        self._ask(request, name, params, chosen)

    # ---- requests of the agent

    def _permission(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.RequestPermissionRequest)
        closed = params.session_id in self.closed
        if closed or not params.options or self.session(params.session_id).cancelling:
            self.respond(self.agent, request.id, _CANCELLED)
            return
        session = self.session(params.session_id)
        self.flush(session)
        lowered = session.lowering.permission(params)

        def decided(answer: Response) -> None:
            read = upgrade_outcome(read_result(answer, v1.RequestPermissionResponse))
            self.respond(self.agent, request.id, _or_rejected(read, params.options))

        self.question(request, lowered, session, _CANCELLED, decided)

    def _elicit(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.CreateElicitationRequest)
        if isinstance(params, v2.UnknownElicitation):
            raise NotConvertible("mode", f"version 1 does not know the mode {params.tag!r}")
        name, lowered = downgrade_params(request.method, params, self.losses)
        if lowered.request_id is not UNSET and lowered.request_id is not None:
            asked = self.agent.asked.get(lowered.request_id)
            if asked is None or asked.asker is None:
                raise RequestError.invalid_params("no such request is pending")
            lowered = replace(lowered, request_id=asked.asker)
        session_id = lowered.session_id or ""
        if session_id in self.closed:
            self.respond(self.agent, request.id, _NO_ANSWER)
            return

        def given(answer: Response) -> None:
            read = read_result(answer, v1.METHODS[name].result)
            self.respond(self.agent, request.id, read)

        self.question(request, lowered, self.sessions.get(session_id), _NO_ANSWER, given)

    client_version = 1
    on_client_request: ClassVar[Requests] = {
        "authenticate": _simple,
        "logout": _simple,
        "session/new": _new,
        "session/load": _load,
        "session/resume": _resume,
        "session/fork": _fork,
        "session/status": _status,
        "session/list": _simple,
        "session/close": _end_session,
        "session/delete": _end_session,
        "session/set_mode": _set_mode,
        "session/set_config_option": _set_option,
        "session/prompt": DownTurns.prompt,
    }
    on_client_notification: ClassVar[Notifications] = {"session/cancel": DownTurns.cancelled}
    on_agent_request: ClassVar[Requests] = {
        "session/request_permission": _permission,
        "elicitation/create": _elicit,
    }
    on_agent_notification: ClassVar[Notifications] = {"session/update": DownTurns.updated}


def _mode(options: list[v2.SessionConfigOption]) -> str:
    modes = modes_of(options)
    return modes.current_mode_id if modes is not None else ""


def _or_rejected(
    answer: v2.RequestPermissionResponse, options: list[PermissionOption]
) -> v2.RequestPermissionResponse:
    """A dismissal outside a cancel is a no, not the end of the turn."""
    if not isinstance(answer.outcome, CancelledPermissionOutcome):
        return answer
    reject = choose(options, "reject")
    if reject is None:
        return answer
    return replace(answer, outcome=SelectedPermissionOutcome(reject.option_id))
