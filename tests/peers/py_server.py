"""Serves an agent of the Python SDK 1.0.0rc3 at /acp: streamable HTTP, and a WebSocket.

    python py_server.py 1|2

By an interpreter that has the SDK with its server. Without the package websockets, or with the
variable NO_WEBSOCKET, uvicorn does not upgrade. The first line of output is the port, and it ends
when stdin does. Each connection has an agent of its own; they share the sessions.
"""

import asyncio
import os
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from acp.experimental.negotiation import AgentProtocolRouter
from acp.http.asgi import create_asgi_app

if TYPE_CHECKING:
    from tests.peers import py_agent_v1, py_agent_v2
    from tests.peers import py_scenarios as scenarios
else:  # a plain script, whose folder is on the path
    import py_agent_v1
    import py_agent_v2
    import py_scenarios as scenarios

LARGE = 32 * 1024 * 1024


def router_of(version: str) -> Any:
    """Makes an agent for each connection; all of them share their sessions."""
    sessions = scenarios.Sessions()
    router = AgentProtocolRouter(v1=_connected)

    def connect(transport: Any, output: Any = None, **options: Any) -> Any:
        if version == "1":
            agent: Any = py_agent_v1.Agent()
            made = AgentProtocolRouter(v1=partial(_connected, agent))
        else:
            agent = py_agent_v2.Agent()
            made = AgentProtocolRouter(v2=partial(_connected, agent))
            options["observers"] = [agent.observe]
        agent._sessions = sessions
        return made.connect(transport, output, **options)

    router.connect = connect
    return router


def _add_removed_functions() -> None:
    """Add the functions to the SDK that release 0.12.1 had, for which the agent was written."""
    import acp
    from acp import schema

    def text(value: str) -> Any:
        return schema.TextContentBlock(text=value)

    def content(kind: str, shape: Any) -> Any:
        return lambda block: shape(session_update=kind, content=block)

    say = content("agent_message_chunk", schema.AgentMessageChunk)
    think = content("agent_thought_chunk", schema.AgentThoughtChunk)
    added: dict[str, Any] = {
        "text_block": text,
        "tool_content": lambda block: schema.ContentToolCallContent(content=block),
        "tool_diff_content": lambda path, new, old: schema.FileEditToolCallContent(
            path=path, new_text=new, old_text=old
        ),
        "update_plan": lambda entries: schema.AgentPlanUpdate(entries=entries),
        "update_user_message": content("user_message_chunk", schema.UserMessageChunk),
        "update_agent_message_text": lambda value: say(text(value)),
        "update_agent_thought_text": lambda value: think(text(value)),
        "start_tool_call": lambda call, title, **fields: schema.ToolCallStart(
            session_update="tool_call", tool_call_id=call, title=title, **fields
        ),
        "update_tool_call": lambda call, **fields: schema.ToolCallProgress(
            session_update="tool_call_update", tool_call_id=call, **fields
        ),
    }
    for name, function in added.items():
        setattr(acp, name, function)


def _connected(agent: Any, connection: Any) -> Any:
    agent.on_connect(connection)
    return agent


async def main(version: str) -> None:
    if version == "1":
        _add_removed_functions()
    app = create_asgi_app(router_of(version))
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            ws="none" if os.environ.get("NO_WEBSOCKET") else "auto",
            ws_max_size=LARGE,
            lifespan="off",
            log_level="warning",
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await asyncio.to_thread(sys.stdin.read)
    server.force_exit = server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
