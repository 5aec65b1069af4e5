"""The agent of `stdio_peers/sdk_v2_agent.py` as a server with the official Python SDK.

    python -m benchmarks.remote_peers.py_server

The first line of output is the port, and it ends when stdin does.
"""

import asyncio
import socket
import sys
from typing import Any

import uvicorn
from acp.experimental.negotiation import AgentProtocolRouter
from acp.http.asgi import create_asgi_app

from benchmarks.stdio_peers.sdk_v2_agent import BenchAgent

LARGE = 32 * 1024 * 1024


def _connected(connection: Any) -> BenchAgent:
    agent = BenchAgent()
    agent.on_connect(connection)
    return agent


async def main() -> None:
    """Serve until standard input ends."""
    app = create_asgi_app(AgentProtocolRouter(v2=_connected))
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, ws_max_size=LARGE, lifespan="off", log_level="warning")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await asyncio.to_thread(sys.stdin.read)
    server.force_exit = server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
