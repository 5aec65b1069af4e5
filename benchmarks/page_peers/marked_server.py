"""Serves a page that renders a message with `marked`, and sends it the chunks of a stream.

`python -m benchmarks.page_peers.marked_server MARKED STREAM` prints the address. Every chunk is a
message of a WebSocket, sent as soon as the one before was taken.
"""

import asyncio
import sys
from pathlib import Path

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from benchmarks.terminal_peers.streams import read

_PAGE = Path(__file__).with_name("marked.html")


async def _serve(marked: Path, chunks: list[str]) -> None:
    files = {"/": (_PAGE, "text/html"), "/marked.js": (marked, "text/javascript")}

    def file(_: ServerConnection, request: Request) -> Response | None:
        if request.path == "/stream":
            return None
        path, kind = files.get(request.path, (None, ""))
        if path is None:
            return Response(404, "Not Found", Headers(), b"")
        body = path.read_bytes()
        headers = Headers({"Content-Type": kind, "Content-Length": str(len(body))})
        return Response(200, "OK", headers, body)

    async def stream(socket: ServerConnection) -> None:
        for chunk in chunks:
            await socket.send(chunk)
        await socket.wait_closed()

    async with serve(stream, "127.0.0.1", 0, process_request=file, compression=None) as server:
        host, port = server.sockets[0].getsockname()
        print(f"http://{host}:{port}/", flush=True)
        await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), read(Path(sys.argv[2]))))
