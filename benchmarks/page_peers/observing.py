"""Pages that observe a session, without a browser: they read what is sent, and draw nothing.

`python -m benchmarks.page_peers.observing` reads one JSON object from its input, opens its pages,
prints `ready`, and at the end of its input prints how long updates took until a page had them:
`[seconds, ...]`, by the time that stands in an update as `@nanoseconds`.
"""

import asyncio
import json
import re
import socket
import sys
import time
from contextlib import AsyncExitStack
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect

_STAMP: Final = re.compile(r"@(\d+)")
_PLACES: Final = 80
_SMALL: Final = 4096
"""Bytes that a page which does not read has room for."""


async def _observe(wanted: Any) -> list[float]:
    delays: list[float] = []
    async with AsyncExitStack() as stack:
        reading = [await _opened(stack, wanted) for _ in range(wanted["reading"])]
        for _ in range(wanted["stalled"]):
            await _opened(stack, wanted, reads=False)
        tasks = [asyncio.create_task(_read(page, delays)) for page in reading]
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return delays


async def _opened(stack: AsyncExitStack, wanted: Any, *, reads: bool = True) -> ClientConnection:
    made = socket.socket()
    if not reads:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
    made.connect(("127.0.0.1", wanted["port"]))
    made.setblocking(False)
    page = await stack.enter_async_context(
        connect(
            f"ws://127.0.0.1:{wanted['port']}/live",
            sock=made,
            additional_headers=wanted["headers"],
            max_size=None,
            max_queue=None if reads else 1,
            compression=None,
            ping_interval=None,
            close_timeout=0.1,
        )
    )
    window = [max(0, wanted["entries"] - _PLACES), None]
    request = {"type": "open", "id": 1, "session": wanted["session"], "window": window}
    await page.send(json.dumps(request))
    while '"opened"' not in str(await page.recv()):
        pass
    return page


async def _read(page: ClientConnection, delays: list[float]) -> None:
    async for message in page:
        now = time.monotonic_ns()
        stamps = _STAMP.findall(str(message))
        if stamps:
            delays.append((now - int(stamps[-1])) / 1e9)


if __name__ == "__main__":
    found = asyncio.run(_observe(json.loads(sys.stdin.readline())))
    print(json.dumps(found))
