"""A client attached over a WebSocket: updates and round trips, beside the servers of the SDKs.

The client is the same for all: bare frames that are counted. The SDKs' agents run inside their
servers. Twofold's is a process of its own behind the host, which folds the session, keeps it in a
journal and would show it to any number of others at the same time.

`python -m benchmarks.attaching` measures this topic alone.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.peers import why
from benchmarks.stdio import PIECES
from benchmarks.table import Amount, Missing, Row, Topic, as_text, faster
from tests.peers.install import ROOT, Unavailable, node_sdk, python_server

COUNT = 20_000
PINGS = 1_000
_WARM = 1_000
_PASSES = 3
_PATIENCE = 120.0
_PEERS = Path(__file__).parent / "remote_peers"


class Found(NamedTuple):
    """The shortest times of a server, in seconds."""

    stream: float
    round_trip: float


class Address(NamedTuple):
    """Where a server is, and who may come in."""

    url: str
    headers: dict[str, str]


Serve = Callable[[ExitStack], Address]


def measure() -> Topic:
    """Every server by turns."""
    servers: dict[str, Serve] = {"Twofold": _twofold, "TypeScript": _typescript, "SDK": _python}
    found: dict[str, Found | Missing] = {}
    for _ in range(_PASSES):
        for name, serve in servers.items():
            before = found.get(name)
            if not isinstance(before, Missing):
                found[name] = _run(serve, before)
    return Topic("remote", _how(found), _rows(found))


def _run(serve: Serve, before: Found | None) -> Found | Missing:
    try:
        with ExitStack() as stack:
            run = asyncio.run(asyncio.wait_for(_talk(serve(stack)), _PATIENCE))
    except Unavailable as error:
        return why(error)
    except TimeoutError:
        return Missing(f"it was not done after {_PATIENCE:g} seconds")
    return Found(*map(min, run, before)) if before is not None else run


# ---- the client ----------------------------------------------------------------------------------


async def _talk(address: Address) -> Found:
    async with connect(
        address.url, additional_headers=address.headers, max_size=None, compression=None
    ) as socket:
        await _ask(socket, 0, "initialize", protocolVersion=2, info=_INFO, capabilities={})
        made = await _ask(socket, 1, "session/new", cwd=os.getcwd(), mcpServers=[])
        session = made["sessionId"]
        await _turn(socket, 2, session, _WARM)
        times = []
        for number in range(PINGS):
            begin = perf_counter()
            await _ask(socket, 1000 + number, "bench/unknown")
            times.append(perf_counter() - begin)
        begin = perf_counter()
        await _turn(socket, 3, session, COUNT)
        return Found(perf_counter() - begin, median(times))


_INFO = {"name": "bench", "version": "1.0"}


async def _ask(socket: ClientConnection, number: int, method: str, **params: Any) -> Any:
    """The result of a request; None for an error."""
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    await socket.send(json.dumps(message))
    while True:
        answer = json.loads(await socket.recv())
        if answer.get("id") == number and "method" not in answer:
            return answer.get("result")


async def _turn(socket: ClientConnection, number: int, session: str, count: int) -> None:
    """Send a prompt, and count its characters until the session is idle."""
    text = json.dumps({"pieces": PIECES, "count": count})
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    message = {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": prompt}
    await socket.send(json.dumps(message))
    expected = sum(len(PIECES[each % len(PIECES)]) for each in range(count))
    received, works = 0, False
    while received < expected or works:
        update = (json.loads(await socket.recv()).get("params") or {}).get("update") or {}
        if update.get("sessionUpdate") == "agent_message_chunk":
            received += len(update["content"]["text"])
        elif update.get("sessionUpdate") == "state_update":
            works = update["state"] != "idle"


# ---- the servers ---------------------------------------------------------------------------------


def _twofold(stack: ExitStack) -> Address:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    agent = [sys.executable, "-m", "benchmarks.stdio_peers.twofold_agent"]
    command = [sys.executable, "-m", "twofold", "serve", "--no-open", "--port", "0", "--", *agent]
    environ = {**os.environ, "XDG_STATE_HOME": folder}
    line = stack.enter_context(_started(command, environ))
    found = re.search(r"http://([^/]+)/", line)
    if found is None:
        raise RuntimeError(f"Twofold itself cannot be measured: it printed {line!r}")
    token = (Path(folder) / "twofold" / "serve" / "token").read_text().strip()
    return Address(f"ws://{found[1]}/acp", {"Authorization": f"Bearer {token}"})


def _typescript(stack: ExitStack) -> Address:
    command = ["node", str(_PEERS / "ts_server.mjs"), str(node_sdk())]
    return _at(stack.enter_context(_started(command)))


def _python(stack: ExitStack) -> Address:
    command = [str(python_server()), "-m", "benchmarks.remote_peers.py_server"]
    return _at(stack.enter_context(_started(command)))


def _at(line: str) -> Address:
    if not line.strip().isdigit():
        raise Unavailable("the server did not start")
    return Address(f"ws://127.0.0.1:{int(line)}/acp", {})


@contextmanager
def _started(command: list[str], environ: dict[str, str] | None = None) -> Iterator[str]:
    """The first line that a server prints; it is ended with the block."""
    with subprocess.Popen(
        command,
        cwd=ROOT,  # `-m` finds `benchmarks` there
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.terminate()


# ---- rows ----------------------------------------------------------------------------------------


def _rows(found: dict[str, Found | Missing]) -> list[Row]:
    ours = found["Twofold"]
    if isinstance(ours, Missing):
        raise RuntimeError(f"Twofold itself cannot be measured: {ours.why}")
    stream, trip = f"/acp by WebSocket: {COUNT:,} updates", "/acp by WebSocket: round trip"
    rows = []
    for name in ("SDK", "TypeScript"):
        whose = "Python" if name == "SDK" else name
        times = found[name]
        target = faster(5)
        rows += [
            Row(f"{stream}, {whose}", Amount(ours.stream), None, _amount(times, 0), target),
            Row(f"{trip}, {whose}", Amount(ours.round_trip), None, _amount(times, 1), None),
        ]
    return rows


def _amount(times: Found | Missing, which: int) -> Amount | Missing:
    return times if isinstance(times, Missing) else Amount(times[which])


def _how(found: dict[str, Found | Missing]) -> str:
    rates = ", ".join(
        f"{name} {COUNT / times.stream:,.0f}"
        for name, times in found.items()
        if isinstance(times, Found)
    )
    return (
        f"one client, the same for all, receives {COUNT:,} chunks of 20 to 40 characters of one "
        "turn over a WebSocket on this machine, in version 2, and reads each as JSON. The agents "
        "of the SDKs run inside their servers; Twofold's is a process of its own behind "
        "`twofold serve`, which folds the session and keeps it in a journal. Round trip: the "
        "median of "
        f"{PINGS:,} requests that are answered with an error, one after the other. Wall time, the "
        f"shortest of {_PASSES} runs by turns. Updates a second: {rates}."
    )


if __name__ == "__main__":
    print(as_text([measure()]))
