"""Kills processes that write a journal, and looks at what they leave.

A run belongs to a seed. It forks a process that writes a few sessions as fast as it can and prints
what is committed, and kills it (SIGKILL) at a random moment, also while the journal is opened. Then
it opens the journal, reads everything and compares; the next round goes on with the same journal.
`python -m tests.support.killed_writers` does that many times.

The process is forked by one without threads, so that it starts within a millisecond.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from zlib import crc32

from tests.support.journals import ENGINES, Place, events, place_at
from twofold.journal.journal import Entry, Event, Journal, SessionRow

ROUNDS = 10
"""How often the same journal is written and killed."""
LONGEST = 0.06
"""After at most so many seconds a process is killed."""
SESSIONS = ("a", "b", "c")


@dataclass
class Outcome:
    """What a run found."""

    seed: int
    kills: int = 0
    committed: int = 0
    """How many events the processes printed as committed."""
    found: int = 0
    """How many events were in the journals, compacted ones included."""
    in_opening: int = 0
    """How many processes were killed before they had opened the journal."""
    violations: list[str] = field(default_factory=list)


# ---- the process that is killed --------------------------------------------------------------


def body(first: int, last: int, seq: int, size: int, kind: str = "update") -> bytes:
    """The body of an event: which numbers it stands for, those of its append, and a checksum."""
    start = first if kind == "whole" else seq
    text = json.dumps({"from": start, "first": first, "last": last, "pad": "x" * size})
    return json.dumps({"sum": crc32(text.encode()), "text": text}).encode()


async def write(place: Place, seed: int, out: int) -> None:
    """Append, compact, keep snapshots and delete, and print what is committed, without an end."""
    chance = random.Random(seed)
    journal = await place.open()
    report(out, "opened", "", 0)
    for name in SESSIONS:
        await journal.open_session(SessionRow(session=name))
    async with asyncio.TaskGroup() as tasks:
        while True:
            for _ in range(chance.randrange(1, 30)):
                await journal.wait_writable()
                name = chance.choice(SESSIONS)
                tasks.create_task(append(journal, name, chance, out))
            await asyncio.sleep(chance.choice([0, 0, 0.001, 0.003]))
            if chance.random() < 0.1:
                row = await journal.session(chance.choice(SESSIONS))
                if row is not None and row.head:
                    await journal.put_snapshot(row.session, row.head, b'{"seq": %d}' % row.head)
            if chance.random() < 0.02:
                await journal.open_session(SessionRow(session="gone"))
                journal.append("gone", [Entry("update", body(1, 40, n, 9)) for n in range(1, 41)])
                await journal.delete("gone")


async def append(journal: Journal, session: str, chance: random.Random, out: int) -> None:
    """Append a few events and print their commit; sometimes make one of them afterwards."""
    count, size = chance.randrange(1, 8), chance.choice([10, 10, 100, 3_000])
    # the numbers are those that `append` gives next: nothing is appended in between
    first = journal.append(session, []).first
    last = first + count - 1
    numbers = range(first, last + 1)
    pending = journal.append(
        session, [Entry("update", body(first, last, seq, size), "word") for seq in numbers]
    )
    await pending
    report(out, "committed", session, last)
    if chance.random() < 0.2:
        whole = Entry("whole", body(first, last, last, size, "whole"), "whole")
        await journal.compact(session, first, last, {last: whole})
        report(out, "compacted", session, last)


def report(out: int, *words: object) -> None:
    """Print a line, in one write."""
    os.write(out, f"{' '.join(map(str, words))}\n".encode())


# ---- what kills it, and looks ----------------------------------------------------------------


def killed(place: Place, seed: int, seconds: float) -> list[list[str]]:
    """What a process prints until it is killed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            asyncio.run(write(place, seed, writing))
        except BaseException as error:
            report(writing, "raised", repr(error).replace("\n", " "), 0)
        finally:
            os._exit(1)
    os.close(writing)
    deadline = time.monotonic() + seconds
    printed = b""
    while (left := deadline - time.monotonic()) > 0:
        if select.select([reading], [], [], left)[0]:
            piece = os.read(reading, 65_536)
            if not piece:
                break
            printed += piece
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while piece := os.read(reading, 65_536):
        printed += piece
    os.close(reading)
    return [line.split(" ") for line in printed.decode().splitlines()]


async def look(place: Place, committed: dict[str, int], out: Outcome) -> None:
    """Compare the journal with what was printed."""
    journal = await place.open()
    try:
        out.violations += [f"check: {fault}" for fault in await journal.check()]
        for row in await journal.sessions():
            last = await read_all(journal, row.session, out)
            if last != row.head:
                out.violations.append(f"{row.session}: head {row.head}, last event {last}")
            if row.session in committed and last < committed[row.session]:
                out.violations.append(
                    f"{row.session}: {committed[row.session]} was committed, {last} is the last"
                )
            snapshot = await journal.snapshot(row.session)
            if snapshot is not None and json.loads(snapshot.body) != {"seq": snapshot.seq}:
                out.violations.append(f"{row.session}: the snapshot is torn")
        known = {row.session for row in await journal.sessions()}
        lost = [name for name, seq in committed.items() if seq and name not in known]
        out.violations += [f"the session {name} is lost" for name in lost]
    finally:
        await journal.close()


async def read_all(journal: Journal, session: str, out: Outcome) -> int:
    """Read a session, and return the number of its last event."""
    last, whole_append = 0, 0
    found = await events(journal, session)
    for fault in faults(found):
        out.violations.append(f"{session}: {fault}")
    for event in found:
        last, whole_append = event.seq, json.loads(json.loads(event.body)["text"])["last"]
    if last != whole_append:
        out.violations.append(f"{session}: the append up to {whole_append} ends at {last}")
    out.found += last
    return last


def faults(found: list[Event]) -> Iterator[str]:
    """Gaps between events, and events that are torn or in the wrong place."""
    last = epoch = 0
    for event in found:
        outside = json.loads(event.body)
        inside = json.loads(outside["text"])
        if crc32(outside["text"].encode()) != outside["sum"]:
            yield f"event {event.seq} is torn"
        if inside["from"] != last + 1 or not inside["first"] <= event.seq <= inside["last"]:
            yield f"event {event.seq} follows {last}, and has {inside['from']}"
        if event.epoch < epoch:
            yield f"event {event.seq} has epoch {event.epoch} after {epoch}"
        last, epoch = event.seq, event.epoch


def run(seed: int, engine: str = "sqlite", rounds: int = ROUNDS) -> Outcome:
    """Write and kill a few times."""
    chance = random.Random(seed)
    out = Outcome(seed)
    with tempfile.TemporaryDirectory() as directory:
        address = ENGINES[engine](Path(directory)).address
        committed = dict.fromkeys(SESSIONS, 0)
        for _ in range(rounds):
            place = place_at(engine, address)
            lines = killed(place, chance.randrange(2**32), chance.uniform(0, LONGEST))
            out.kills += 1
            out.in_opening += not lines
            for line in lines:
                if line[0] == "raised":
                    out.violations.append(" ".join(line))
                elif line[0] == "committed" and line[1] in committed:
                    out.committed += 1
                    committed[line[1]] = max(committed[line[1]], int(line[2]))
            asyncio.run(look(place, committed, out))
    return out


def runs(seeds: range, jobs: int, **options: object) -> Iterator[Outcome]:
    """Several runs, in processes of their own: those may fork."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield from pool.map(partial(run, **options), seeds)  # type: ignore[arg-type]


def main(arguments: list[str]) -> int:
    """The command line; the exit status is 1 after a violation."""
    parser = argparse.ArgumentParser(description="Kill processes that write a journal.")
    parser.add_argument("--runs", type=int, default=1000, help="how many processes are killed")
    parser.add_argument("--seed", type=int, default=0, help="of the first journal")
    parser.add_argument("--jobs", type=int, default=2, help="journals at the same time")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="sqlite")
    given = parser.parse_args(arguments)
    total: Counter[str] = Counter()
    seeds = range(given.seed, given.seed + max(1, given.runs // ROUNDS))
    for out in runs(seeds, given.jobs, engine=given.engine):
        total.update(
            journals=1,
            kills=out.kills,
            in_opening=out.in_opening,
            committed_appends=out.committed,
            events_found=out.found,
            violations=len(out.violations),
        )
        for each in out.violations:
            print(f"seed {out.seed}: {each}", flush=True)
    print(dict(total), flush=True)
    return 1 if total["violations"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
