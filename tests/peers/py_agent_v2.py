"""An agent of protocol version 2, made with the official Python SDK 1.0.0rc3.

    python py_agent_v2.py

On stdio, by an interpreter that has the SDK. What it does is in `README.md`, but for two
things this SDK cannot express: it refuses an `initialize` of another version with -32602, and
the idle update of a failed turn has a stop reason and no error.
"""

import asyncio
import base64
from typing import TYPE_CHECKING, Any

from acp import RequestError
from acp.connection import StreamDirection
from acp.experimental import v2
from acp.experimental.v2 import schema

if TYPE_CHECKING:
    from tests.peers import py_scenarios as scenarios
else:  # a plain script, whose folder is on the path
    import py_scenarios as scenarios

PATCH = f"""\
diff --git {scenarios.DEMO} {scenarios.DEMO}
--- {scenarios.DEMO}
+++ {scenarios.DEMO}
@@ -1 +1 @@
-{scenarios.OLD.rstrip()}
+{scenarios.NEW.rstrip()}
"""


def config_options(session: scenarios.Session) -> list[Any]:
    return [
        schema.SelectSessionConfigOption(
            config_id="mode",
            category="mode",
            name="Mode",
            current_value=session.mode,
            options=[
                schema.SessionConfigSelectOption(value=value, name=name)
                for value, name in scenarios.MODES.items()
            ],
        )
    ]


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def diff() -> Any:
    return schema.DiffToolCallContent(
        changes=[schema.ModifyDiffChange(path=scenarios.DEMO)],
        patch=schema.DiffPatch(format="git_patch", text=PATCH),
    )


def tool_call(call: scenarios.Call) -> Any:
    """A call with all that is known of it: its diff when the edit is done."""
    known: dict[str, Any] = {}
    if call.kind == "edit":
        known["locations"] = [schema.ToolCallLocation(path=scenarios.DEMO)]
        if call.status == "completed":
            known["content"] = [diff()]
    if call.terminal is not None:
        known["content"] = [schema.TerminalToolCallContent(terminal_id=call.terminal.id)]
    return schema.SessionToolCallUpdate(
        tool_call_id=call.id, title=call.title, kind=call.kind, status=call.status, **known
    )


def terminal_whole(terminal: scenarios.Terminal, session: scenarios.Session) -> Any:
    return schema.SessionTerminalUpdate(
        terminal_id=terminal.id,
        command=terminal.command,
        cwd=session.cwd,
        output=schema.TerminalOutput(data=base64_of(terminal.output)),
        **exit_status(terminal),
    )


def exit_status(terminal: scenarios.Terminal) -> dict[str, Any]:
    if terminal.exit_code is None:
        return {}
    return {"exit_status": schema.TerminalExitStatus(exit_code=terminal.exit_code)}


class Turn(scenarios.Turn):
    """A turn whose steps are the SDK's updates, sent after the prompt is answered."""

    CANCELLED = "cancelled"

    def __init__(self, client: Any, session: scenarios.Session, prompt: list[Any]) -> None:
        super().__init__(session, prompt)
        self._client = client
        self.answered = asyncio.Event()
        self.state = schema.RunningSessionStateUpdate()

    async def run(self) -> None:
        """The whole turn, from the echo of the prompt to idle."""
        try:
            await self.answered.wait()
            await self._update(
                schema.UserMessageUpdate(message_id=self.user.id, content=self.user.blocks)
            )
            await self._enter(schema.RunningSessionStateUpdate())
            await self._enter(schema.IdleSessionStateUpdate(stop_reason=await self._stop_reason()))
        except ConnectionError:
            pass  # the client is gone, and the rest is not needed
        finally:
            self.end()

    async def _stop_reason(self) -> str:
        try:
            return await self.play()
        except RequestError:
            return "error"

    async def _update(self, update: Any) -> None:
        await self._client.session_update(session_id=self.session.id, update=update)

    async def _enter(self, state: Any) -> None:
        self.state = state
        await self._update(state)

    async def think(self, text: str) -> None:
        block = schema.TextContentBlock(text=text)
        await self._update(schema.AgentThoughtChunk(message_id=f"h{self.number}", content=block))

    async def send_chunk(self, message: scenarios.AgentMessage, text: str) -> None:
        block = schema.TextContentBlock(text=text)
        await self._update(schema.AgentMessageChunk(message_id=message.id, content=block))

    async def send_plan(self, entries: list[dict[str, str]]) -> None:
        plan = schema.PlanUpdateItems(
            plan_id="plan", entries=[schema.PlanEntry(**entry) for entry in entries]
        )
        await self._update(schema.SessionPlanUpdate(plan=plan))

    async def send_call(self, call: scenarios.Call) -> None:
        await self._update(tool_call(call))

    async def send_end(self, call: scenarios.Call) -> None:
        shown = {"content": [diff()]} if call.kind == "edit" else {}
        await self._update(
            schema.SessionToolCallUpdate(tool_call_id=call.id, status=call.status, **shown)
        )

    async def send_terminal(self, terminal: scenarios.Terminal) -> None:
        fields = exit_status(terminal) or {"command": terminal.command, "cwd": self.session.cwd}
        await self._update(schema.SessionTerminalUpdate(terminal_id=terminal.id, **fields))

    async def send_output(self, terminal: scenarios.Terminal, text: str) -> None:
        await self._update(
            schema.SessionTerminalOutputChunk(terminal_id=terminal.id, data=base64_of(text))
        )

    async def ask(self, call: scenarios.Call) -> str:
        await self._enter(schema.RequiresActionSessionStateUpdate())
        asked = asyncio.create_task(self._request_permission(call))
        cancelled = asyncio.create_task(self.cancelled.wait())
        await asyncio.wait({asked, cancelled}, return_when=asyncio.FIRST_COMPLETED)
        cancelled.cancel()
        if self.cancelled.is_set():
            # the SDK withdraws the request with $/cancel_request
            asked.cancel()
            await asyncio.wait({asked})
            return "cancelled"
        await self._enter(schema.RunningSessionStateUpdate())
        return await asked

    async def _request_permission(self, call: scenarios.Call) -> str:
        subject = schema.ToolCallUpdate(tool_call_id=call.id)
        answer = await self._client.request_permission(
            session_id=self.session.id,
            title=call.title,
            subject=schema.ToolCallPermissionSubjectVariant(tool_call=subject),
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
        self._prompts: dict[Any, str] = {}
        self._turns: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    def observe(self, event: Any) -> None:
        """Let a turn begin when the answer to its prompt is on the wire.

        The SDK sends the answer after the handler is done, so the handler cannot wait for it.
        """
        message = event.message
        if event.direction is StreamDirection.INCOMING:
            if message.get("method") == "session/prompt":
                self._prompts[message.get("id")] = message["params"]["sessionId"]
        elif "method" not in message:
            session_id = self._prompts.pop(message.get("id"), None)
            if session_id is not None and "result" in message:
                turn = self._sessions.known(session_id).turn
                if isinstance(turn, Turn):
                    turn.answered.set()

    async def initialize(self, protocol_version: int, **_: Any) -> Any:
        return schema.InitializeResponse(
            protocol_version=v2.PROTOCOL_VERSION,
            info=schema.Implementation(name="py-agent-v2", version="1.0.0rc3"),
            capabilities=schema.AgentCapabilities(
                session=schema.SessionCapabilities(delete=schema.SessionDeleteCapabilities()),
            ),
            auth_methods=[schema.AgentAuthMethod(method_id="token", name="Token")],
        )

    async def login(self, method_id: str, **_: Any) -> Any:
        if method_id != "token":
            raise RequestError.invalid_params({"details": f"no method {method_id!r}"})
        return schema.LoginAuthResponse()

    async def new_session(self, cwd: str, **_: Any) -> Any:
        session = self._sessions.new(cwd)
        options = config_options(session)
        return schema.NewSessionResponse(session_id=session.id, config_options=options)

    async def resume_session(self, session_id: str, replay_from: Any = None, **_: Any) -> Any:
        session = self._sessions.reopened(session_id)
        updates = self._replayed(session) if replay_from is not None else []
        turn = session.turn
        updates.append(turn.state if isinstance(turn, Turn) else schema.IdleSessionStateUpdate())
        for update in updates:
            await self._client.session_update(session_id=session_id, update=update)
        return schema.ResumeSessionResponse(config_options=config_options(session))

    def _replayed(self, session: scenarios.Session) -> list[Any]:
        updates: list[Any] = []
        for item in session.record:
            match item:
                case scenarios.UserMessage(message_id, blocks):
                    updates.append(schema.UserMessageUpdate(message_id=message_id, content=blocks))
                case scenarios.AgentMessage(message_id, text):
                    block = schema.TextContentBlock(text=text)
                    message = schema.AgentMessageUpdate(message_id=message_id, content=[block])
                    updates.append(message)
                case scenarios.Call():
                    if item.terminal is not None:
                        updates.append(terminal_whole(item.terminal, session))
                    updates.append(tool_call(item))
        return updates

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

    async def delete_session(self, session_id: str, **_: Any) -> Any:
        await self._sessions.delete(session_id)
        return schema.DeleteSessionResponse()

    async def set_config_option(self, session_id: str, config_id: str, value: Any, **_: Any) -> Any:
        session = self._sessions.active(session_id)
        if config_id != "mode":
            raise RequestError.invalid_params({"details": f"no option {config_id!r}"})
        session.set_mode(value)
        options = config_options(session)
        await self._client.session_update(
            session_id=session_id, update=schema.ConfigOptionUpdate(config_options=options)
        )
        return schema.SetSessionConfigOptionResponse(config_options=options)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> Any:
        session = self._sessions.active(session_id)
        await session.wait_for_its_turn()
        turn = Turn(self._client, session, prompt)
        task = asyncio.create_task(turn.run())
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)
        return schema.PromptResponse(message_id=turn.user.id)

    async def cancel_session(self, session_id: str, **_: Any) -> None:
        self._sessions.cancel(session_id)


if __name__ == "__main__":
    agent = Agent()
    asyncio.run(v2.run_agent(agent, observers=[agent.observe]))
