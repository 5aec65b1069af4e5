"""A client of version 2 and an agent of version 1: everything but turns and questions.

What version 2 takes for granted and the agent lacks is made up for, where that can be done: a
resume by a load whose replay is kept from the client, a close that only forgets.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from twofold.bridge.end import End
from twofold.bridge.lifting import Lifting
from twofold.bridge.losses import LossLog
from twofold.bridge.translation import (
    QUIET,
    REPLAY,
    Later,
    Notifications,
    Outcome,
    Requests,
    Silence,
    read_result,
)
from twofold.bridge.up_questions import UpQuestions
from twofold.bridge.up_session import UpSession
from twofold.convert.losses import Losses, carried, recast
from twofold.convert.requests import downgrade_params, upgrade_result
from twofold.peer.problems import Report
from twofold.rpc.errors import METHOD_NOT_FOUND, RequestError
from twofold.rpc.messages import Failure, Request
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET

if TYPE_CHECKING:
    from twofold.bridge.offers import Offers

_NO_LOAD = "it has no session/load"


class Up(UpQuestions):
    """Translates for a client of version 2; `able` is what the agent of version 1 can do."""

    def __init__(
        self,
        client: End,
        agent: End,
        log: LossLog,
        report: Report,
        later: Later,
        able: v1.AgentCapabilities,
        *,
        own_terminals: bool = False,
        offers: "Offers | None" = None,
    ) -> None:
        super().__init__(client, agent, log, report, later, own_terminals=own_terminals)
        self._load = bool(able.load_session)
        self._able = able.session_capabilities or v1.SessionCapabilities()
        self._offers = offers

    # ---- asking the agent

    def _simple(self, request: Request) -> None:
        """A request that the other version has too, with or without another name."""
        name, params = self._lowered(request)
        self._ask(request, name, params, lambda result: result)

    def _ask(
        self,
        request: Request,
        name: str,
        params: Any,
        look: Callable[[Any], Any],
        answered: Callable[[Outcome], None] = lambda answer: None,
    ) -> None:
        """Ask the agent, `look` at the result, and give it back converted."""

        def convert(result: Any) -> Any:
            return upgrade_result(name, look(result), self.losses)

        self._ask_for(request, name, params, convert, answered)

    def _ask_for(
        self,
        request: Request,
        name: str,
        params: Any,
        convert: Callable[[Any], Any],
        answered: Callable[[Outcome], None] = lambda answer: None,
    ) -> None:
        """Ask the agent; `answered` hears of any answer, and `convert` makes one of a result."""

        def then(answer: Outcome) -> None:
            answered(answer)
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
            else:
                result = read_result(answer, v1.METHODS[name].result)
                self.respond(self.client, request.id, convert(result))

        self.agent.ask(name, codec.encode(params), request.id, then)

    def _lowered(self, request: Request) -> tuple[str, Any]:
        params = codec.decode(request.params or b"{}", v2.METHODS[request.method].params)
        return downgrade_params(request.method, params, self.losses)

    # ---- sessions begin

    def _new(self, request: Request) -> None:
        name, params = self._lowered(request)

        def made(result: v1.NewSessionResponse) -> v1.NewSessionResponse:
            session = self.session(result.session_id)
            session.roots = _roots(params)
            # what is lost of options is reported once, where the result is converted
            session.upgrader.setup(result, Losses())
            return result

        self._ask(request, name, params, made)

    def _fork(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.ResumeSessionRequest)
        name, lowered = downgrade_params(request.method, params, self.losses)

        def answered(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
                return
            read = read_result(answer, v1.NewSessionResponse)
            told = read.session_id in self.sessions  # some replay it first
            session = self.session(read.session_id)
            session.roots = _roots(lowered)
            if not told:
                own = self._own_terminals
                session.upgrader = Lifting.resumed(self.log.losses, own_terminals=own)
            session.upgrader.setup(read, Losses())
            self.respond(self.client, request.id, upgrade_result(name, read, self.losses))

        self.agent.ask(name, codec.encode(lowered), request.id, answered)

    def _resume(self, request: Request) -> None:
        name, params = self._lowered(request)
        session = self.sessions.get(params.session_id)
        if session is not None and session.settling is not None:
            session.settling.end()
        known = session is not None and bool(session.roots)
        if name == "session/load" and not self._load:
            raise RequestError(METHOD_NOT_FOUND, f"The agent cannot replay sessions: {_NO_LOAD}")
        if name == "session/resume" and not (self._able.resume or self._load):
            if session is None or not known or session.muted == "closed":
                reason = f"{_NO_LOAD} and no session/resume, and the session is not open here"
                raise RequestError(METHOD_NOT_FOUND, f"The agent cannot resume sessions: {reason}")
            self._rejoin(request, session, params)
        else:
            self._set_up(request, name, params, known)

    def _rejoin(self, request: Request, session: UpSession, params: Any) -> None:
        """Go on with a session that is open here: the agent has no part in that."""
        if _roots(params) != session.roots or params.mcp_servers:
            reason = "the agent cannot set up an open session anew: it goes on as it was"
            self.losses.report("cwd" if _roots(params) != session.roots else "mcpServers", reason)
        self.tell(session, _state(session))
        options = session.upgrader.config_options
        result = v2.ResumeSessionResponse(config_options=options or UNSET)
        self.respond(self.client, request.id, result)

    def _set_up(self, request: Request, name: str, params: Any, known: bool) -> None:
        """Have the agent load or resume a session; one that cannot resume loads it unseen."""
        unwanted = name == "session/resume" and not self._able.resume
        if unwanted:
            name, servers = "session/load", params.mcp_servers or []
            params = recast(params, v1.LoadSessionRequest, self.losses, mcp_servers=servers)
        session = self.session(params.session_id)
        before, roots = session.upgrader, session.roots
        session.roots = _roots(params)
        session.muted = "replay" if unwanted else ""
        if not known:
            own = self._own_terminals
            session.upgrader = Lifting.resumed(self.log.losses, own_terminals=own)
        if name == "session/load":
            session.upgrader = session.upgrader.replayed()

        def answered(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                session.muted, session.upgrader, session.roots = "", before, roots
                self.give_back(self.client, request.id, answer)
                return
            read = read_result(answer, v1.METHODS[name].result)
            session.upgrader.setup(read, Losses())
            result = upgrade_result(name, read, self.losses)
            if name == "session/load":  # some go on to replay
                session.settling = Silence(
                    self.later, lambda: finished(result), quiet=QUIET, longest=REPLAY
                )
            else:
                finished(result)

        def finished(result: Any) -> None:
            session.settling = None
            if session.muted == "replay":
                session.muted = "late replay"
            self.tell(session, _state(session))
            self.respond(self.client, request.id, result)

        self.agent.ask(name, codec.encode(params), request.id, answered)

    # ---- sessions are listed, and end

    def _list(self, request: Request) -> None:
        if not self._able.list:
            reason = "The agent cannot list its sessions: it has no session/list"
            raise RequestError(METHOD_NOT_FOUND, reason)
        self._simple(request)

    def _close(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.SessionParams)
        session = self.sessions.get(params.session_id)
        if session is not None:
            self.cancel(session, v2.SessionParams(params.session_id))
        if self._able.close:
            self._end_session(request)
        else:
            if session is not None:
                self.closed(session)
            self.respond(self.client, request.id, v2.Empty())

    def _delete(self, request: Request) -> None:
        if not self._able.delete:
            raise RequestError.method_not_found(request.method)
        self._end_session(request)

    def _end_session(self, request: Request) -> None:
        name, params = self._lowered(request)

        def ended(result: Any) -> Any:
            session = self.sessions.get(params.session_id)
            if session is not None:
                self.closed(session)
            return result

        self._ask(request, name, params, ended)

    def closed(self, session: UpSession) -> None:
        """What the bridge runs for a session ends with it."""
        super().closed(session)
        if self._offers is not None:
            self._offers.forget(session.session_id)

    # ---- options

    def _set_option(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.SetSessionConfigOptionRequest)
        session = self.session(params.session_id)
        if session.upgrader.is_made_mode(params.config_id):
            self._set_mode(request, session, params)
            return
        name, lowered = downgrade_params(request.method, params, self.losses)

        def chosen(result: v1.SetSessionConfigOptionResponse) -> Any:
            converted = upgrade_result(name, result, self.losses)
            options = session.upgrader.options_set(converted)
            return replace(converted, config_options=options)

        self._ask_for(request, name, lowered, chosen)

    def _set_mode(
        self, request: Request, session: UpSession, params: v2.SetSessionConfigOptionRequest
    ) -> None:
        """The modes of version 1 have a request of their own."""
        mode = params.value
        if not isinstance(mode, str):
            raise RequestError.invalid_params("a mode is chosen by its id, which is a string")
        beside = carried(params, v1.SetSessionModeRequest, self.losses, "")
        asked = v1.SetSessionModeRequest(params.session_id, mode, **beside)

        def chosen(result: v1.Empty) -> Any:
            session.upgrader.mode_chosen(mode)
            shape = v2.SetSessionConfigOptionResponse
            return shape(session.upgrader.config_options, **carried(result, shape, self.losses, ""))

        self._ask_for(request, "session/set_mode", asked, chosen)

    # ---- what only one side has

    def _cannot(self, request: Request) -> None:
        raise RequestError.method_not_found(request.method)

    def _cancel_terminal(self, request: Request) -> None:
        """Only the bridge's own terminals can be cancelled."""
        if self._offers is None:
            raise RequestError.method_not_found(request.method)
        params = codec.decode(request.params or b"{}", v2.CancelTerminalRequest)
        if not self._offers.cancel(params.session_id, params.terminal_id):
            raise RequestError.invalid_params("the bridge runs no such terminal")
        self.respond(self.client, request.id, v2.Empty())

    def _offered(self, request: Request) -> None:
        """Files and terminals: only if the bridge offers them."""
        if self._offers is None:
            raise RequestError.method_not_found(request.method)
        self._offers.answer(self, request)

    client_version = 2
    on_client_request: ClassVar[Requests] = {
        "auth/login": _simple,
        "auth/logout": _simple,
        "session/new": _new,
        "session/resume": _resume,
        "session/fork": _fork,
        "session/list": _list,
        "session/close": _close,
        "session/delete": _delete,
        "session/set_config_option": _set_option,
        "session/prompt": UpQuestions.prompt,
        "tool_call/cancel": _cannot,
        "terminal/cancel": _cancel_terminal,
    }
    on_client_notification: ClassVar[Notifications] = {"session/cancel": UpQuestions.cancelled}
    on_agent_request: ClassVar[Requests] = {
        "session/request_permission": UpQuestions.permission,
        "elicitation/create": UpQuestions.elicit,
        "fs/read_text_file": _offered,
        "fs/write_text_file": _offered,
        "terminal/create": _offered,
        "terminal/output": _offered,
        "terminal/wait_for_exit": _offered,
        "terminal/kill": _offered,
        "terminal/release": _offered,
    }
    on_agent_notification: ClassVar[Notifications] = {"session/update": UpQuestions.updated}


def _roots(params: Any) -> list[str]:
    return [params.cwd, *(params.additional_directories or [])]


def _state(session: UpSession) -> v2.StateUpdate:
    """What a session is doing, as far as its client knows."""
    turn = session.turn
    if turn is None or turn.over or not turn.acknowledged:
        return v2.StateUpdate("idle")
    return v2.StateUpdate("requires_action" if session.asked_in(turn) else "running")
