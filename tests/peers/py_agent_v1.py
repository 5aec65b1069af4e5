"""An agent of protocol version 1, made with the official Python SDK 0.12.1.

    python py_agent_v1.py

On stdio, by an interpreter that has the SDK. What it does is in `README.md`; it has no
`session/delete`, for which this SDK has no route.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import acp
from acp import schema

if TYPE_CHECKING:
    from tests.peers import py_scenarios as scenarios
else:  # a plain script, whose folder is on the path
    import py_scenarios as scenarios


def modes(session: scenarios.Session) -> Any:
    return schema.SessionModeState(
        current_mode_id=session.mode,
        available_modes=[
            schema.SessionMode(id=mode, name=name) for mode, name in scenarios.MODES.items()
        ],
    )


def content(call: scenarios.Call) -> list[Any] | None:
    """What a call shows, which in this version it does when it is done."""
    if call.status != "completed":
        return None
    if call.kind == "edit":
        return [acp.tool_diff_content(scenarios.DEMO, scenarios.NEW, scenarios.OLD)]
    if call.terminal is not None:
        return [acp.tool_content(acp.text_block(call.terminal.output.rstrip()))]
    return None


def tool_call(call: scenarios.Call) -> Any:
    edits = call.kind == "edit"
    return acp.start_tool_call(
        call.id,
        call.title,
        kind=call.kind,
        status=call.status,
        content=content(call),
        locations=[schema.ToolCallLocation(path=scenarios.DEMO)] if edits else None,
    )


class Turn(scenarios.Turn):
    """A turn whose steps are the SDK's updates, sent before the prompt is answered."""

    CANCELLED = "failed"

    def __init__(self, client: Any, session: scenarios.Session, prompt: list[Any]) -> None:
        super().__init__(session, prompt)
        self._client = client

    async def _update(self, update: Any) -> None:
        await self._client.session_update(session_id=self.session.id, update=update)

    async def think(self, text: str) -> None:
        await self._update(acp.update_agent_thought_text(text))

    async def send_chunk(self, message: scenarios.AgentMessage, text: str) -> None:
        await self._update(acp.update_agent_message_text(text))

    async def send_plan(self, entries: list[dict[str, str]]) -> None:
        await self._update(acp.update_plan([schema.PlanEntry(**entry) for entry in entries]))

    async def send_call(self, call: scenarios.Call) -> None:
        await self._update(tool_call(call))

    async def send_end(self, call: scenarios.Call) -> None:
        await self._update(acp.update_tool_call(call.id, status=call.status, content=content(call)))

    async def send_terminal(self, terminal: scenarios.Terminal) -> None:
        """Terminals belong to the client in this version, and it offers none."""

    async def send_output(self, terminal: scenarios.Terminal, text: str) -> None:
        """A call shows its output when there is all of it."""

    async def ask(self, call: scenarios.Call) -> str:
        answer = await self._client.request_permission(
            session_id=self.session.id,
            tool_call=schema.ToolCallUpdate(tool_call_id=call.id, title=call.title, kind=call.kind),
            options=[
                schema.PermissionOption(option_id=option, kind=kind, name=name)
                for option, (kind, name) in scenarios.OPTIONS.items()
            ],
        )
        return str(getattr(answer.outcome, "option_id", "cancelled"))


class Agent:
    """The agent's methods, by the SDK's names."""

    def __init__(self) -> None:
        self._sessions = scenarios.Sessions()
        self._client: Any = None

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> Any:
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="py-agent-v1", version="0.12.1"),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[schema.AuthMethodAgent(id="token", name="Token")],
        )

    async def authenticate(self, method_id: str, **_: Any) -> Any:
        if method_id != "token":
            raise acp.RequestError.invalid_params({"details": f"no method {method_id!r}"})
        return schema.AuthenticateResponse()

    async def new_session(self, cwd: str, **_: Any) -> Any:
        session = self._sessions.new(cwd)
        return schema.NewSessionResponse(session_id=session.id, modes=modes(session))

    async def load_session(self, session_id: str, **_: Any) -> Any:
        session = self._sessions.reopened(session_id)
        for item in session.record:
            for update in self._replayed(item):
                await self._client.session_update(session_id=session_id, update=update)
        return schema.LoadSessionResponse(modes=modes(session))

    def _replayed(self, item: Any) -> list[Any]:
        match item:
            case scenarios.UserMessage():
                return [acp.update_user_message(block) for block in item.blocks]
            case scenarios.AgentMessage():
                return [acp.update_agent_message_text(item.text)]
            case _:
                return [tool_call(item)]

    async def resume_session(self, session_id: str, **_: Any) -> Any:
        return schema.ResumeSessionResponse(modes=modes(self._sessions.reopened(session_id)))

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> Any:
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(session_id=each.id, cwd=each.cwd, title=each.title)
                for each in self._sessions.listed(cwd)
            ]
        )

    async def close_session(self, session_id: str, **_: Any) -> Any:
        await self._sessions.known(session_id).close()
        return schema.CloseSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> Any:
        self._sessions.active(session_id).set_mode(mode_id)
        update = acp.helpers.update_current_mode(mode_id)
        await self._client.session_update(session_id=session_id, update=update)
        return schema.SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> Any:
        session = self._sessions.active(session_id)
        if session.turn is not None:
            raise acp.RequestError.invalid_request({"details": "a turn is running"})
        turn = Turn(self._client, session, prompt)
        try:
            return schema.PromptResponse(stop_reason=await turn.play())
        finally:
            turn.end()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._sessions.cancel(session_id)


if __name__ == "__main__":
    # the SDK counts session/resume and session/close as unstable
    asyncio.run(acp.run_agent(Agent(), use_unstable_protocol=True))
