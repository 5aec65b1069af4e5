"""A server with one session that grows, and what it costs: prints one JSON object.

    python -m benchmarks.page_peers.session_server --entries 1000 --reading 10 --frames 300

The server is that of `twofold serve`, with an agent in the same process that sends exactly what is
measured. The pages that observe it have a process of their own.
"""

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.terminal_peers.streams import prose
from tests.support.raw_agent import call, chunk
from tests.web.server_stage import ServerStage, serving, soon

_PACE: Final = 1 / 60
_SETTLING: Final = 0.5
"""Seconds in which a server that has just been given work comes to rest."""


async def _measure(given: argparse.Namespace) -> Any:
    async with serving() as stage:
        await _fill(stage, given.entries)
        with _pages() as pages:
            assert pages.stdin is not None
            assert pages.stdout is not None
            pages.stdin.write(json.dumps(_wanted(stage, given)) + "\n")
            pages.stdin.flush()
            assert await asyncio.to_thread(pages.stdout.readline) == "ready\n"
            await asyncio.sleep(_SETTLING)
            report = await (_held if given.large else _timed)(stage, given.frames, given.chunks)
            pages.stdin.close()
            report["delays"] = json.loads(await asyncio.to_thread(pages.stdout.readline))
        return report


def _pages() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.page_peers.observing"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _wanted(stage: ServerStage, given: argparse.Namespace) -> Any:
    return {
        "port": stage.port,
        "headers": stage.bearer(),
        "session": stage.hosted.id,
        "entries": stage.hosted.count,
        "reading": given.reading,
        "stalled": given.stalled,
    }


async def _fill(stage: ServerStage, entries: int) -> None:
    for number in range(entries):
        if number % 7 == 3:
            stage.agent.update(call(f"c{number}", "completed", title=f"Call {number}"))
        else:
            stage.agent.update(chunk(f"Message {number}.", f"m{number}"))
        if number % 100 == 99:
            await asyncio.sleep(0)

    def arrived() -> bool:
        stage.hosted.flush()
        return stage.hosted.count >= entries

    await soon(arrived)


async def _timed(stage: ServerStage, frames: int, chunks: int) -> Any:
    """Processor time of a frame, with so many chunks in it."""
    feed = stage.app.sockets.feeds[stage.hosted.id]
    words = prose(frames * chunks)
    before, encoded = time.process_time(), feed.encodings
    for _ in range(frames):
        stage.agent.update(*(chunk(text, "growing") for text in islice(words, chunks)))
        await asyncio.sleep(_PACE)
    seconds, made = time.process_time() - before, feed.encodings - encoded
    return {"frame_seconds": seconds / made, "frames": made}


async def _held(stage: ServerStage, frames: int, chunks: int) -> Any:
    """Memory at the end of a stream of whole messages, each with so many chunks' worth of text."""
    text = "word " * chunks
    gc.collect()
    before = _memory()
    unsent = 0
    for number in range(frames):
        stage.agent.update(chunk(f"@{time.monotonic_ns()} {text}", f"n{number}"))
        stage.agent.messages.clear()
        await asyncio.sleep(_PACE)
        if number % 20 == 0:
            unsent = max(unsent, _unsent(stage.port))
    gc.collect()
    return {"held_bytes": _memory() - before, "unsent_bytes": unsent}


def _memory() -> int:
    return tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0


def _unsent(port: int) -> int:
    """What the kernel holds for those who are connected, where it shows that."""
    table = Path("/proc/net/tcp")
    rows = table.read_text().splitlines()[1:] if table.exists() else []
    return sum(_queued(row.split(), port) for row in rows)


def _queued(row: list[str], port: int) -> int:
    is_ours = int(row[1].rpartition(":")[2], 16) == port
    return int(row[4].partition(":")[0], 16) if is_ours else 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="session_server", description=__doc__)
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--reading", type=int, default=1, help="pages that read")
    parser.add_argument("--stalled", type=int, default=0, help="pages that do not")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--chunks", type=int, default=17, help="of a frame")
    parser.add_argument("--large", action="store_true", help="frames are whole messages")
    parser.add_argument("--trace", action="store_true", help="count memory")
    given = parser.parse_args()
    if given.trace:
        tracemalloc.start()
    print(json.dumps(asyncio.run(_measure(given))))


if __name__ == "__main__":
    main()
