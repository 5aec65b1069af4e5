"""Randomly damaged messages raise nothing but `TwofoldError`.

Runs for 5 seconds, in CI for 60; `TWOFOLD_FUZZ_SECONDS` sets another time. A failure prints the
number of the round, which repeats it.
"""

import json
import os
import random
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from twofold.convert.conversation import Conversation
from twofold.convert.downgrade import Downgrader
from twofold.convert.losses import Losses
from twofold.convert.upgrade import Upgrader
from twofold.errors import TwofoldError
from twofold.journal.recording import Recording, read_line
from twofold.session import Draft, Session, snapshot
from twofold.wire import codec, guide, v1, v2

ROOT = Path(__file__).resolve().parents[1]
SECONDS = float(os.environ.get("TWOFOLD_FUZZ_SECONDS", "60" if os.environ.get("CI") else "5"))
JUNK: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 1e300, 2**80, "", "\ud800", "\x1b[31m", "null", [], {}),
    *([None], [[]], {"type": "?"}, {"type": "text"}, {"sessionUpdate": "?"}, {"?": 1}, "a" * 300),
]
KEYS = ["type", "sessionUpdate", "content", "messageId", "toolCallId", "status", "_meta", "?", "x"]


def corpus() -> list[Any]:
    """Messages to damage: the sample of the project, and those in `../shared` if that exists."""
    files = [ROOT / "samples" / "showcase.jsonl"]
    files += sorted(ROOT.parent.glob("shared/transcripts/*.jsonl"))
    files += sorted(ROOT.parent.glob("shared/examples/*.jsonl"))
    found = []
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            found.append(record.get("message", record.get("json", record)))
    return found


def damaged(value: Any, chance: random.Random) -> Any:
    """`value` with something changed somewhere."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        match chance.randrange(8):
            case 0:
                return {name: item for name, item in value.items() if name != key}
            case 1:
                return {**value, chance.choice(KEYS): chance.choice(JUNK)}
            case _:
                return {**value, key: damaged(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        index = chance.randrange(len(value))
        changed = damaged(value[index], chance)
        return [*value[:index], changed, *value[index + chance.randrange(2) :]]
    return chance.choice(JUNK)


def updates_in(message: Any) -> list[Any]:
    if isinstance(message, dict):
        params = message.get("params")
        if isinstance(params, dict) and "update" in params:
            return [params["update"]]
        if "sessionUpdate" in message:
            return [message]
    return []


class Targets:
    """Everything that reads messages of a peer."""

    def __init__(self) -> None:
        self.sessions = [Session("s", draft) for draft in Draft]
        self.upgrader = Upgrader(own_terminals=True)
        self.downgrader = Downgrader()
        self.conversations = [Conversation("1", Losses()), Conversation("2", Losses(strict=True))]
        self.recording = Recording()

    def feed(self, value: Any) -> None:
        data = json.dumps(value).encode()
        for update in updates_in(value):
            self.update(json.dumps(update).encode())
        for shape in (v1.METHODS["session/prompt"].params, v2.METHODS["initialize"].result):
            attempt(lambda shape=shape: codec.encode(codec.decode(data, shape)))
        attempt(lambda: v1.decode_update_line(data))
        attempt(lambda: v2.decode_update_line(data))
        attempt(lambda: self.lines(data))

    def update(self, data: bytes) -> None:
        attempt(lambda: codec.encode(codec.decode(data, guide.SessionUpdate)))
        attempt(lambda: self.upgrader.update(v1.decode_update(data)))
        attempt(lambda: self.downgrader.update(v2.decode_update(data)))
        for session in self.sessions:
            attempt(lambda session=session: session.apply(v2.decode_update(data)))

    def lines(self, data: bytes) -> None:
        for line in read_line(data):
            attempt(lambda line=line: self.recording.take(line))
            if line.message is not None:
                for conversation in self.conversations:
                    attempt(partial(conversation.message, line.message))

    def check(self) -> None:
        """The snapshot of each session still rebuilds it, whatever was applied to it."""
        for session in [*self.sessions, *self.recording.sessions.values()]:
            again = Session(session.session_id, session.draft)
            for update in snapshot(session):
                again.apply(v2.decode_update(codec.encode(update)))
            again.permissions, again.cancelling = session.permissions, session.cancelling
            assert again == session


def attempt(action: Any) -> None:
    with suppress(TwofoldError):
        action()


def test_damaged_messages_cause_nothing_but_declared_errors() -> None:
    messages = corpus()
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end:
        chance = random.Random(number)
        targets = Targets()
        try:
            for _ in range(60):
                targets.feed(damaged(chance.choice(messages), chance))
            targets.check()
        except Exception as error:
            raise AssertionError(f"round {number} failed") from error
        number += 1
    assert number > 0


def test_damaged_bytes_cause_nothing_but_declared_errors() -> None:
    messages = corpus()
    for number in range(2000):
        chance = random.Random(number)
        data = bytearray(json.dumps(chance.choice(messages)).encode())
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        attempt(lambda data=data: read_line(bytes(data)))
        for shape in (v1.SessionUpdate, v2.SessionUpdate, guide.SessionUpdate):
            attempt(lambda data=data, shape=shape: codec.decode(bytes(data), shape))
