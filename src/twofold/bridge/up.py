"""A client of version 2 and an agent of version 1: everything but the turns.

What version 2 takes for granted and the agent lacks is made up for: a list of the sessions of this
bridge, a resume by a load whose replay is kept from the client, a close that only forgets.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from msgspec.structs import replace

from twofold.bridge.end import End
from twofold.bridge.losses import LossLog
from twofold.bridge.translation import (
    Asked,
    Later,
    Notifications,
    Outcome,
    Requests,
    read_result,
)
from twofold.bridge.up_turns import UpSession, UpTurns
from twofold.convert.losses import Losses
from twofold.convert.setup import downgrade_params, upgrade_result
from twofold.rpc.errors import METHOD_NOT_FOUND, RequestError
from twofold.rpc.messages import Failure, Request
from twofold.runtime.errors import Report
from twofold.wire import codec, v1, v2


class Up(UpTurns):
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
        answer_offered: Callable[["Up", Request], None] | None = None,
    ) -> None:
        super().__init__(client, agent, log, report, later, own_terminals=own_terminals)
        self._load = bool(able.load_session)
        self._able = able.session_capabilities or v1.SessionCapabilities()
        self._answer_offered = answer_offered

    # ---- requests of the client

    def _simple(self, request: Request) -> None:
        """A request that the other version has too, with or without another name."""
        name, params = self._lowered(request)
        self._ask(request, name, params, lambda result: upgrade_result(name, result, self.losses))

    def _ask(self, request: Request, name: str, params: Any, convert: Callable[[Any], Any]) -> None:
        """Ask the agent, and give the result back converted."""

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
            else:
                result = read_result(answer, v1.METHODS[name].result)
                self.respond(self.client, request.id, convert(result))

        self.agent.ask(name, codec.encode(params), request.id, then)

    def _lowered(self, request: Request) -> tuple[str, Any]:
        params = codec.decode(request.params or b"{}", v2.METHODS[request.method].params)
        return downgrade_params(request.method, params, self.losses)

    def _new(self, request: Request) -> None:
        name, params = self._lowered(request)

        def made(result: v1.NewSessionResponse) -> Any:
            session = self.session(result.session_id)
            session.roots = _roots(params)
            # what is lost of options is reported once, where the result is converted
            session.upgrader.setup(result, Losses())
            return upgrade_result(name, result, self.losses)

        self._ask(request, name, params, made)

    def _resume(self, request: Request) -> None:
        name, params = self._lowered(request)
        replay = isinstance(params, v1.LoadSessionRequest)
        silent = False
        if not replay and not self._able.resume:
            if not self._load:
                raise RequestError(METHOD_NOT_FOUND, "The agent cannot resume sessions")
            # version 1 has only load: what it replays was not asked for
            name, silent = "session/load", True
            params = v1.LoadSessionRequest(
                params.session_id,
                params.cwd,
                params.mcp_servers or [],
                params.additional_directories,
            )
        elif replay and not self._load:
            raise RequestError(METHOD_NOT_FOUND, "The agent cannot load sessions")
        session = self.session(params.session_id)
        session.roots, session.silent = _roots(params), silent
        if not silent:
            session.upgrader = session.upgrader.replayed()

        def resumed(result: v1.SessionSetup) -> Any:
            session.upgrader.setup(result, Losses())
            if session.turn is None:
                self.tell(session, v2.StateUpdate("idle"))
            return upgrade_result(name, result, self.losses)

        self._ask(request, name, params, resumed)
        self._after(lambda: _hear(session))

    def _after(self, then: Callable[[], None]) -> None:
        """Do something when the last request was answered, however it was."""
        asked = self.agent.asked[self.agent.last_id]
        first = asked.then

        def both(answer: Outcome) -> None:
            then()
            first(answer)

        self.agent.asked[self.agent.last_id] = Asked(asked.asker, both)

    def _list(self, request: Request) -> None:
        if self._able.list:
            self._simple(request)
            return
        params = codec.decode(request.params or b"{}", v2.ListSessionsRequest)
        infos = [
            v2.SessionInfo(session.session_id, session.roots[0])
            for session in self.sessions.values()
            if session.roots and (not params.cwd or params.cwd == session.roots[0])
        ]
        self.respond(self.client, request.id, v2.ListSessionsResponse(infos))

    def _close_session(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.SessionParams)
        session = self.session(params.session_id)
        self.cancel_turn(session)
        if self._able.close:
            self._simple(request)
            self._after(lambda: self.forget(session))
        else:
            self.respond(self.client, request.id, v2.Empty())
            self.forget(session)

    def _delete(self, request: Request) -> None:
        if not self._able.delete:
            raise RequestError.method_not_found(request.method)
        self._simple(request)

    def _set_option(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.SetSessionConfigOptionRequest)
        session = self.session(params.session_id)
        upgrader = session.upgrader
        if upgrader.is_made_mode(params.config_id):
            mode = str(params.value)

            def chosen(result: Any) -> Any:
                upgrader.mode_chosen(mode)
                return v2.SetSessionConfigOptionResponse(upgrader.config_options)

            asked = v1.SetSessionModeRequest(params.session_id, mode)
            self._ask(request, "session/set_mode", asked, chosen)
            return
        name, lowered = downgrade_params(request.method, params, self.losses)

        def set_(result: v1.SetSessionConfigOptionResponse) -> Any:
            converted = upgrade_result(name, result, self.losses)
            return replace(converted, config_options=upgrader.options_set(converted))

        self._ask(request, name, lowered, set_)

    def _cannot(self, request: Request) -> None:
        raise RequestError.method_not_found(request.method)

    def _offered(self, request: Request) -> None:
        """Files and terminals: only if the bridge offers them."""
        if self._answer_offered is None:
            raise RequestError.method_not_found(request.method)
        self._answer_offered(self, request)

    on_client_request: ClassVar[Requests] = {
        "auth/login": _simple,
        "auth/logout": _simple,
        "session/new": _new,
        "session/resume": _resume,
        "session/list": _list,
        "session/close": _close_session,
        "session/delete": _delete,
        "session/set_config_option": _set_option,
        "session/prompt": UpTurns.prompt,
        "tool_call/cancel": _cannot,
        "terminal/cancel": _cannot,
    }
    on_client_notification: ClassVar[Notifications] = {"session/cancel": UpTurns.cancelled}
    on_agent_request: ClassVar[Requests] = {
        "session/request_permission": UpTurns.permission,
        "elicitation/create": UpTurns.elicit,
        "fs/read_text_file": _offered,
        "fs/write_text_file": _offered,
        "terminal/create": _offered,
        "terminal/output": _offered,
        "terminal/wait_for_exit": _offered,
        "terminal/kill": _offered,
        "terminal/release": _offered,
    }
    on_agent_notification: ClassVar[Notifications] = {"session/update": UpTurns.updated}


def _roots(params: Any) -> list[str]:
    return [params.cwd, *(params.additional_directories or [])]


def _hear(session: UpSession) -> None:
    session.silent = False
