"""A client that does what the recorded one did, against a replay, without any I/O."""

import json
from collections.abc import Callable
from math import inf
from typing import Any

from tests.support.recordings import Json, entries_of, script_of
from twofold.journal.replay import Replay
from twofold.journal.script import Script
from twofold.rpc.connection import Failure, Request, Response, read_line


class Talk:
    """A replay, and what a client and it have sent each other; the clock jumps as it has to."""

    def __init__(self, data: bytes | Script, *, speed: float = inf, **options: Any) -> None:
        script = script_of(data) if isinstance(data, bytes) else data
        self.replay = Replay(script, speed=speed, **options)
        self.now = 0.0
        self.lines: list[bytes] = []
        """What the replay sent."""
        self.times: list[float] = []
        """When it sent that."""
        self.record: list[bytes] = []
        """Both directions, as a recording."""

    def send(self, message: Json) -> "Talk":
        """The client sends a message, and the replay what is due at once."""
        self.record.append(_record("c2a", message))
        (event,) = read_line(json.dumps(message).encode())
        self.replay.receive(event, self.now)  # type: ignore[arg-type]
        self.run()
        return self

    def run(self) -> None:
        """Let the replay send what is due now."""
        while lines := self.replay.send(self.now):
            for line in lines:
                self.lines.append(line)
                self.times.append(self.now)
                for event in read_line(line.strip()):
                    if isinstance(event, Request | Response | Failure) or hasattr(event, "method"):
                        self.record.append(b'{"dir":"a2c","message":' + line.strip() + b"}")
                        break

    def wait(self) -> "Talk":
        """Let the clock run until the client has to act."""
        while (due := self.replay.next_due(self.now)) is not None:
            self.now = max(self.now, due)
            self.run()
        return self

    @property
    def messages(self) -> list[Json]:
        return [json.loads(line) for line in self.lines]

    def to(self, identity: Any) -> Json:
        """The answer to a request of the client."""
        (found,) = [each for each in self.messages if answers(each, identity)]
        return found

    def texts(self) -> str:
        """The text of all messages of the agent."""
        updates = updates_in(self.messages)
        chunks = [each for each in updates if each.get("sessionUpdate") == "agent_message_chunk"]
        return "".join(each["content"]["text"] for each in chunks)


def updates_in(messages: list[Json]) -> list[Json]:
    """The session updates among messages."""
    return [each["params"]["update"] for each in messages if each.get("method") == "session/update"]


def answers(message: Json, identity: Any) -> bool:
    return "method" not in message and message.get("id") == identity


def _record(way: str, message: Json) -> bytes:
    return json.dumps({"dir": way, "message": message}).encode()


# ---- a client that follows a recording -----------------------------------------------------------


def follow(data: bytes, talk: Talk, rename: Callable[[Any], Any] = str) -> Talk:
    """Do what the recorded client did, once the replay has sent what came before it.

    Args:
        data: The recording.
        talk: The replay of it.
        rename: Returns the id of a request of this client for the recorded one.
    """
    entries = entries_of(data)
    received = 0
    order = [each.number for each in entries if each.sender == "agent" and each.kind == "request"]
    for entry in entries:
        if entry.message is None or entry.sender is None:
            continue
        if entry.sender == "agent":
            received += 1
            continue
        talk.wait()
        sent = [each for each in talk.messages if "jsonrpc" in each]
        assert len(sent) >= received, f"line {entry.line}: {len(sent)} instead of {received}"
        questions = [each for each in sent if "method" in each and "id" in each]
        message = json.loads(entry.raw)
        if entry.kind == "request":
            message["id"] = rename(f"{entry.number}:{message['id']}")
        elif entry.answered is not None:
            message["id"] = questions[order.index(entry.answered.number)]["id"]
        talk.send(message)
    return talk.wait()
