"""Kills a real server at random moments, and checks what its journal has kept.

A run is one state directory. A server is started again and again on the same journal; a page
sends prompts and answers questions over the real socket, and the server is killed with SIGKILL.
What the server had acknowledged, or had shown as ended, must be in the journal, without a gap and
without a torn event, and every later server must list and fold it.

    python -m tests.support.host_kills --runs 100 --kills 10 --seed 0
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.commands import PATIENCE, TWOFOLD
from tests.web.mirror import Mirror
from twofold.host.journal_log import read_session
from twofold.host.session_log import ANSWER, QUEUED, read_facts
from twofold.journal.sqlite_reader import SqliteReader
from twofold.view.blocks import RemarkBlock
from twofold.wire import codec

Json = Any
SPEEDS: Final = ("0", "20", "60")
LONGEST: Final = 3.0
"""Seconds after which a server is killed, at most."""


class Seen:
    """What one server has acknowledged and shown."""

    def __init__(self) -> None:
        self.prompts: dict[str, str] = {}
        """The session by the text of a prompt that was acknowledged."""
        self.answers: set[tuple[str, str]] = set()
        """Session and question of answers that were acknowledged."""
        self.remarks: dict[str, list[str]] = {}
        """How turns ended, by session, as the page showed it."""


class Page:
    """A page that prompts and answers until its server is gone."""

    def __init__(self, socket: ClientConnection, chance: random.Random, names: str) -> None:
        self._socket = socket
        self._chance = chance
        self._names = names
        self._number = 0
        self._asked: dict[int, tuple[str, Json]] = {}
        self._tried: set[str] = set()
        self._ids = 0
        self.mirror = Mirror()
        self.session = ""
        self.seen = Seen()

    async def run(self) -> None:
        with suppress(ConnectionClosed):
            async for message in self._socket:
                await self._take(json.loads(message), str(message))

    async def _take(self, message: Json, text: str) -> None:
        match message["type"]:
            case "sessions" if not self.session:
                known = [each["id"] for each in message["sessions"]]
                if known:
                    self.session = self._chance.choice(known)
                    await self._ask("open", session=self.session, window=[0, None])
            case "opened" | "frame":
                self._asked.pop(message.get("id"), None)
                self.mirror.take(text)
                self._note()
                await self._act()
            case "done":
                kind, fact = self._asked.pop(message["id"])
                if kind == "prompt":
                    self.seen.prompts[fact] = self.session
                elif kind == "answer":
                    self.seen.answers.add((self.session, fact))
            case "error":
                self._asked.pop(message.get("id"), None)

    async def _act(self) -> None:
        for question in self.mirror.facts.get("questions", []):
            identity = question["question"]
            if identity not in self._tried and self._chance.random() < 0.7:
                self._tried.add(identity)
                option = self._chance.choice(question["options"])["option"]
                await self._ask("answer", identity, question=identity, option=option)
        state = self.mirror.facts["session"]["state"]
        if state in ("idle", "cold") and not self._asked and self._number < 4:
            self._number += 1
            text = f"{self._names} {self._number}"
            await self._ask("prompt", text, text=text)

    async def _ask(self, kind: str, fact: Json = None, **fields: Json) -> None:
        self._ids += 1
        self._asked[self._ids] = kind, fact
        await self._socket.send(json.dumps({"type": kind, "id": self._ids, **fields}))

    def _note(self) -> None:
        shown = [
            block["text"]
            for block in self.mirror.blocks.values()
            if block["type"] == "RemarkBlock" and block["text"].startswith("The turn took")
        ]
        self.seen.remarks[self.session] = shown


async def serve_and_kill(folder: Path, seed: int, speed: str) -> Seen:
    """Run a server for a random while, and kill it."""
    chance = random.Random(seed)
    state = folder / "state"
    environ = {**os.environ, "XDG_STATE_HOME": str(state)}
    agent = [*TWOFOLD, "agent", "--speed", speed, "--keep", str(folder / "agent")]
    command = [*TWOFOLD, "serve", "--no-open", "--port", "0", "--", *agent]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environ, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            line = (await process.stdout.readline()).decode()
        found = re.search(r"http://([^/]+)/", line)
        assert found is not None, f"the server did not start: {line!r}"
        token = (state / "twofold" / "serve" / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(
            f"ws://{found[1]}/live", additional_headers=headers, max_size=None
        ) as socket:
            page = Page(socket, chance, f"prompt {seed}")
            running = asyncio.create_task(page.run())
            await asyncio.wait([running], timeout=chance.uniform(0.02, LONGEST))
            os.kill(process.pid, signal.SIGKILL)
            await running  # what was sent before the end counts, too
        return page.seen
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def violations(folder: Path, seen: list[Seen]) -> list[str]:
    """What the journal has lost of what was acknowledged or shown."""
    found: list[str] = []
    path = folder / "state" / "twofold" / "journal" / "sessions.db"
    async with await SqliteReader.open(path) as journal:
        found += [f"the journal is at fault: {fault}" for fault in await journal.check()]
        for session in {row.session for row in await journal.sessions(limit=10_000)}:
            prompts, answers = set(), set()
            async for events in journal.read(session):
                for event in events:
                    if event.kind == QUEUED:
                        prompts.add("".join(codec.parse(event.body)["parts"]))
                    elif event.kind == ANSWER:
                        answers.add(str(read_facts(event.body)["question"]))
            problems: list[str] = []
            recovery = await read_session(journal, session, str(folder), problems.append)
            found += problems
            remarks = Counter(
                block.text
                for key in recovery.live.places
                if isinstance(block := recovery.live.block(key), RemarkBlock)
            )
            for each in seen:
                for text, where in each.prompts.items():
                    if where == session and text not in prompts:
                        found.append(f"the prompt {text!r} was acknowledged and is lost")
                for where, question in each.answers:
                    if where == session and question not in answers:
                        found.append(f"the answer to {question} was acknowledged and is lost")
                shown = Counter(each.remarks.get(session, ()))
                if not shown <= remarks:
                    found.append(f"{shown - remarks} was shown and is lost")
        listed = {row.session for row in await journal.sessions(limit=10_000)}
        found += [
            f"the session of {text!r} is lost"
            for each in seen
            for text, session in each.prompts.items()
            if session not in listed
        ]
    return found


async def run(folder: Path, seed: int, kills: int) -> tuple[list[str], Counter[str]]:
    """Kill so many servers on one journal; returns what was lost, and what was done."""
    chance = random.Random(seed)
    seen: list[Seen] = []
    for number in range(kills):
        seen.append(await serve_and_kill(folder, seed * 1000 + number, chance.choice(SPEEDS)))
        lost = await violations(folder, seen)
        if lost:
            return lost, Counter(kills=number + 1)
    done: Counter[str] = Counter(kills=kills)
    for each in seen:
        done.update(prompts=len(each.prompts), answers=len(each.answers))
        done.update(ends=max(map(len, each.remarks.values()), default=0))
    return [], done


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Kill servers at random moments.")
    parser.add_argument("--runs", type=int, default=100, help="journals")
    parser.add_argument("--kills", type=int, default=10, help="servers on each of them")
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    given = parser.parse_args(arguments)
    total: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.runs):
        with tempfile.TemporaryDirectory() as folder:
            lost, done = asyncio.run(run(Path(folder), seed, given.kills))
        total.update(done, runs=1, violations=len(lost))
        for each in lost:
            print(f"seed {seed}: {each}", flush=True)
        if not total["runs"] % 10:
            print(dict(total), flush=True)
    print(dict(total))
    return 1 if total["violations"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
