"""Ten thousand connections to `twofold serve`: most are refused, and who was let in goes on."""

import asyncio
import contextlib
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Self

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.served import Served, serving
from tests.web.server_stage import Page
from twofold.web.server import MOST_CONNECTIONS

CONNECTIONS: Final = 10_000
BATCH: Final = 500
MOST_MEMORY: Final = 48 << 20
"""Bytes by which the server may grow: what its connections hold, and what is not given back."""
SLOWEST: Final = 5.0
"""Seconds in which the page is answered, on a machine that others use."""
_ADDRESS: Final = "127.0.0.1"


class Crowd:
    """Connections that send nothing, and stay open as far as the server lets them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._reading: set[asyncio.Task[str]] = set()
        self.answers: Counter[str] = Counter()
        """What the server answered before it closed a connection, by its first line."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()

    @property
    def waiting(self) -> int:
        """How many connections the server has not closed."""
        return len(self._reading)

    async def come(self, count: int) -> None:
        """Open connections, until no more of them wait than the server holds."""
        opened = [asyncio.open_connection(_ADDRESS, self._port) for _ in range(count)]
        for reader, writer in await asyncio.gather(*opened):
            self._writers.append(writer)
            self._reading.add(asyncio.create_task(self._read(reader)))
        while len(self._reading) > MOST_CONNECTIONS:
            done, self._reading = await asyncio.wait(
                self._reading, timeout=30, return_when=asyncio.FIRST_COMPLETED
            )
            assert done, f"{len(self._reading)} connections are neither answered nor closed"
            self.answers.update(task.result() for task in done)

    async def _read(self, reader: asyncio.StreamReader) -> str:
        with contextlib.suppress(ConnectionError):
            answer = (await reader.read()).decode()
            if answer:
                assert "too many connections" in answer
                assert "Retry-After: " in answer
            return answer.partition("\r\n")[0]
        return ""


@asynccontextmanager
async def page_of(served: Served) -> AsyncIterator[Page]:
    """A page that was let in, and observes the first session."""
    async with connect(
        served.url.replace("http", "ws") + "live",
        additional_headers={"Authorization": f"Bearer {served.token}"},
        compression=None,
        max_size=None,
    ) as socket:
        listed: Any = SimpleNamespace(id="")
        page = Page(socket, listed)
        await page.until(lambda: page.sessions)
        listed.id = page.sessions[0]["id"]
        await page.open()
        await page.until(lambda: page.mirror.facts["session"]["state"] == "idle")
        yield page


async def until_let_in(served: Served) -> None:
    """Wait until the server has found that the crowd is gone, and lets another page in."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(InvalidStatus):
                async with page_of(served):
                    return
            await asyncio.sleep(0.05)


def raise_limit(wanted: int) -> int:
    """Let this process have so many files open, as far as it may; returns how many it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = max(soft, wanted if hard == resource.RLIM_INFINITY else min(wanted, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


async def crowd_comes(served: Served, count: int) -> tuple[Counter[str], list[float], int]:
    """Open connections in batches.

    Returns:
        What was answered how often, how long the page waited for its own answers, and by how much
        the memory of the server grew.
    """
    port = int(served.url.rstrip("/").rpartition(":")[2])
    waits: list[float] = []
    async with page_of(served) as page:
        before = most = served.memory or 0
        async with Crowd(port) as crowd:
            for start in range(0, count, BATCH):
                begun = time.monotonic()
                arriving = asyncio.create_task(crowd.come(min(BATCH, count - start)))
                assert (await page.ask("search", text="x"))["type"] == "done"
                waits.append(time.monotonic() - begun)
                await arriving
                most = max(most, served.memory or 0)
            assert crowd.waiting > MOST_CONNECTIONS / 2, "the server holds as many as it can"
            await page.ask("prompt", text="/flood 20")
            await page.until(lambda: "turn:" in "".join(page.mirror.blocks))
            assert page.mirror.facts["session"]["state"] == "idle"
            answers = Counter(crowd.answers)
        await until_let_in(served)
    return answers, waits, most - before


def test_ten_thousand_connections_are_bounded_and_the_page_goes_on(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(CONNECTIONS, raise_limit(CONNECTIONS + 500) - 500)
    try:
        with serving(tmp_path) as served:
            answers, waits, growth = asyncio.run(crowd_comes(served, count))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert set(answers) <= {"HTTP/1.1 503 Service Unavailable", ""}, "refused, or too slow"
    assert answers["HTTP/1.1 503 Service Unavailable"] > count / 2
    assert max(waits) < SLOWEST
    assert growth < MOST_MEMORY
