"""A client that does what the recorded one did, against a replay, without any I/O."""

import json
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from twofold.convert.versions import Dialect
from twofold.journal.recording import Recording
from twofold.journal.recording import read_line as read_record
from twofold.journal.replay import Replay
from twofold.journal.script import Script, read_script
from twofold.journal.wire_log import Entry, WireLog
from twofold.rpc.connection import Failure, Request, Response, read_line
from twofold.session import Session

Json = dict[str, Any]
TEXT = [{"type": "text", "text": "hi"}]


def tape(*messages: tuple[str, Json], step: float = 0.1) -> bytes:
    """A recording of messages, each with its direction."""
    records = [
        {"seq": number, "time": round(number * step, 3), "dir": way, "message": message}
        for number, (way, message) in enumerate(messages, 1)
    ]
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def request(identity: Any, method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def answer(identity: Any, **result: Any) -> Json:
    return {"jsonrpc": "2.0", "id": identity, "result": result}


def notify(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def update(session: str = "s", **members: Any) -> Json:
    return notify("session/update", sessionId=session, update=members)


def words(text: str, session: str = "s", **members: Any) -> Json:
    content = {"type": "text", "text": text}
    return update(session, sessionUpdate="agent_message_chunk", content=content, **members)


def script_of(data: bytes, dialect: Dialect | None = None) -> Script:
    return read_script(data.splitlines(keepends=True), dialect)


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
    log = WireLog()
    entries = [
        entry
        for number, each in enumerate(data.splitlines(), 1)
        for entry in log.read(each, number)
    ]
    received = asked = 0
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
            asked += 1
        talk.send(message)
    return talk.wait()


def folded(lines: bytes | Iterable[bytes]) -> dict[str, Session]:
    """The sessions that a recording adds up to."""
    recording = Recording()
    read = [
        line
        for each in (lines.splitlines() if isinstance(lines, bytes) else lines)
        for line in read_record(each)
    ]
    for line in read:
        recording.look(line)
    for line in read:
        recording.take(line)
    return {session.session_id: session for session in recording.sessions.values()}


def entries_of(data: bytes) -> list[Entry]:
    log = WireLog()
    return [
        entry
        for number, each in enumerate(data.splitlines(), 1)
        for entry in log.read(each, number)
    ]
