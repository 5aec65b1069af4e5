"""`twofold replay` as clients meet it: in memory, and as a process."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

import twofold
from tests.peers.validators import Version
from tests.support.commands import DEMO, TWOFOLD, called, process
from tests.support.commands import twofold as command
from tests.support.demo_meeting import Tap
from tests.support.real_time import in_real_time
from tests.support.recordings import answer, folded, request, tape, words
from twofold import memory_pair
from twofold.cli.run_replay import DEVIATED, Options, play
from twofold.journal.script import read_script
from twofold.rpc.frames import LIMIT
from twofold.session import Message, Session

Json = dict[str, Any]
SCENARIOS = [
    "stream",
    "tools",
    "permission",
    "no-ids",
    "unknown",
    "interleaved",
    "user-echo",
]
MAX = Options(inf, False, False, None, "auto", LIMIT)
HELLO = [
    ("c2a", request(1, "initialize", protocolVersion=1)),
    ("a2c", answer(1, protocolVersion=1, agentCapabilities={})),
    ("c2a", request(2, "session/new", cwd="/", mcpServers=[])),
    ("a2c", answer(2, sessionId="s")),
    ("c2a", request(3, "session/prompt", sessionId="s", prompt=[{"type": "text", "text": "hi"}])),
    ("a2c", words("hello")),
    ("a2c", answer(3, stopReason="end_turn")),
]


ASKED = [message for way, message in HELLO if way == "c2a"]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "tape.jsonl"
    path.write_bytes(tape(*HELLO))
    return path


# ---- in memory ---------------------------------------------------------------------------------


class Played:
    """A client that plays against a replay, and what the replay reported."""

    def __init__(self, client: twofold.Client, tap: Tap, reports: list[str]) -> None:
        self.client = client
        self.tap = tap
        self.reports = reports


@asynccontextmanager
async def replayed(data: bytes, version: Version, options: Options = MAX) -> AsyncIterator[Played]:
    ours, theirs = memory_pair()
    reports: list[str] = []
    script = read_script(data.splitlines(keepends=True))
    tap = Tap(theirs)
    playing = asyncio.create_task(play(script, options, tap, reports.append))
    allow = twofold.Policy((), "allow")
    async with twofold.connect(ours, version=version, policy=allow) as client:
        yield Played(client, tap, reports)
    await playing


def recorded(scenario: str, version: Version, folder: Path) -> bytes:
    """The recording of one turn with the demo agent."""
    path = folder / "recorded.jsonl"
    options = ["--version", str(version), "--record", str(path), "--allow", "execute"]
    called(*options, "--prompt", scenario, *DEMO)
    return path.read_bytes()


def story(session: Session) -> list[Any]:
    """What both versions can hold of a session."""
    return [
        (entry.role, entry.text)
        if isinstance(entry, Message)
        else (entry.tool_call_id, entry.title, entry.kind, entry.status)
        for entry in session.entries
    ]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_client_of_either_version_ends_with_the_recorded_session(
    scenario: str, version: Version, tmp_path: Path
) -> None:
    data = recorded(scenario, version, tmp_path)
    (wanted,) = folded(data).values()

    @in_real_time
    async def meet(client_version: Version) -> None:
        async with replayed(data, client_version) as played:
            session = await played.client.new_session(cwd=os.getcwd())
            await session.prompt(scenario)
            assert played.client.protocol_version == client_version
            if client_version == version:
                assert [story(session.state), session.state.plans] == [story(wanted), wanted.plans]
                assert played.reports == []
            else:
                assert shared(story(session.state)) == shared(story(wanted))
            assert all(each.startswith("lost: ") for each in played.reports)

    meet(version)
    meet(2 if version == 1 else 1)


def shared(entries: list[Any]) -> list[Any]:
    """Without what version 1 cannot hold: unknown content is named, unknown kinds are `other`."""
    return [
        (entry[0], _NAMED.sub("", entry[1]))
        if len(entry) == 2
        else tuple("other" if each.startswith("_") else each for each in entry)
        for entry in entries
    ]


_NAMED = re.compile(r"^\[_\w+ content\]")


@in_real_time
async def test_what_a_client_of_the_same_version_receives_is_byte_for_byte_what_was_recorded() -> (
    None
):
    data = tape(*HELLO)
    async with replayed(data, 1) as played:
        session = await played.client.new_session(cwd="/")
        await session.prompt("hi")
        sent = bytes(played.tap.written).splitlines()
    wanted = json.dumps(words("hello")).encode()
    assert sent[2] == wanted


@pytest.mark.parametrize("version", [1, 2])
@in_real_time
async def test_it_can_speak_only_one_version_with_the_client(version: Version) -> None:
    ours, theirs = memory_pair()
    script = read_script(tape(*HELLO).splitlines())
    options = MAX._replace(version=version)
    playing = asyncio.create_task(play(script, options, theirs, lambda text: None))
    async with twofold.connect(ours) as client:
        session = await client.new_session(cwd="/")
        assert (await session.prompt("hi")).text == "hello"
        assert client.protocol_version == version
    await playing


@in_real_time
async def test_the_requests_of_a_batch_are_answered_by_one_batch() -> None:
    ours, theirs = memory_pair()
    script = read_script(tape(*HELLO).splitlines())
    lines: asyncio.Queue[bytes] = asyncio.Queue()

    class Client:
        def received(self, data: bytes) -> None:
            for line in data.splitlines():
                lines.put_nowait(line)

        def ended(self, error: Exception | None) -> None: ...
        def pause_writing(self) -> None: ...
        def resume_writing(self) -> None: ...

    playing = asyncio.create_task(play(script, MAX, theirs, lambda text: None))
    ours.start(Client())
    ours.write(json.dumps(HELLO[0][1]).encode() + b"\n")
    await lines.get()
    batch = [request("a", "session/new", cwd="/", mcpServers=[]), request("b", "session/list")]
    ours.write(json.dumps(batch).encode() + b"\n")
    answers = json.loads(await lines.get())
    assert {each["id"] for each in answers} == {"a", "b"}
    await ours.close()
    await playing


@in_real_time
async def test_a_client_that_does_not_read_makes_the_replay_wait() -> None:
    flood = [("a2c", words("x" * 1000)) for _ in range(2000)]
    data = tape(*HELLO[:5], *flood, HELLO[-1])
    ours, theirs = memory_pair()
    received = 0
    enough = asyncio.Event()

    class Client:
        def received(self, data: bytes) -> None:
            nonlocal received
            received += len(data)
            ours.pause_reading()
            enough.set()

        def ended(self, error: Exception | None) -> None: ...
        def pause_writing(self) -> None: ...
        def resume_writing(self) -> None: ...

    playing = asyncio.create_task(play(read_script(data.splitlines()), MAX, theirs, print))
    ours.start(Client())
    for _, message in (HELLO[0], HELLO[2], HELLO[4]):
        ours.write(json.dumps(message).encode() + b"\n")
        ours.resume_reading()
        await enough.wait()
        enough.clear()
    for _ in range(100):
        await asyncio.sleep(0)
    waiting = ours._size + theirs._size
    assert waiting < 1024 * 1024
    while received < 2_000_000:
        ours.resume_reading()
        await enough.wait()
        enough.clear()
    await ours.close()
    await playing


NAMES = ["claude.v1", "codex.v2", "fastagent.v1", "gemini.v1", "opencode.v1"]


class Recorded(NamedTuple):
    """The beginning of a real conversation: what the client sent, and what it adds up to."""

    lines: list[bytes]
    prompts: list[str]
    outcomes: dict[str, Json]
    """Of the permission requests, by their tool calls."""
    session: Session


def beginning(path: Path) -> Recorded:
    """All turns before anything else than turns."""
    lines, prompts = [], []
    calls: dict[Any, str] = {}
    outcomes: dict[str, Json] = {}
    for line in path.read_bytes().splitlines():
        message: Json = json.loads(line).get("message", {})
        method = message.get("method", "")
        if method.startswith("session/") and method.endswith(("load", "resume", "mode", "option")):
            break
        lines.append(line)
        if method == "session/prompt":
            prompts.append(message["params"]["prompt"][0]["text"])
        if method == "session/request_permission":
            params = message["params"]
            calls[message["id"]] = params.get("subject", params)["toolCall"]["toolCallId"]
        if isinstance(message.get("result"), dict) and "outcome" in message["result"]:
            outcomes[calls[message["id"]]] = message["result"]["outcome"]
    (session,) = folded(lines).values()
    return Recorded(lines, prompts, outcomes, session)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_a_real_conversation_is_had_again_in_either_version(
    name: str, version: Version, shared: Callable[[str], Path]
) -> None:
    talk = beginning(shared(f"transcripts/{name}.jsonl"))

    @in_real_time
    async def have_again() -> None:
        ours, theirs = memory_pair()
        reports: list[str] = []
        cancelling = asyncio.Event()
        cancelled = asyncio.Event()

        def report(text: str) -> None:
            reports.append(text)
            if "waiting for session/cancel" in text:
                cancelling.set()

        async def ask(question: twofold.Question) -> twofold.v2.PermissionOption | None:
            subject = question.request.subject
            assert isinstance(subject, twofold.v2.ToolCallPermissionSubject)
            outcome = talk.outcomes[subject.tool_call.tool_call_id]
            if outcome["outcome"] == "cancelled":
                await cancelled.wait()
                return None
            return next(
                each for each in question.request.options if each.option_id == outcome["optionId"]
            )

        async def cancel_when_asked(session: twofold.ClientSession) -> None:
            while True:
                await cancelling.wait()
                cancelling.clear()
                cancelled.set()  # the callback goes on when the cancel has been sent
                await session.cancel()

        playing = asyncio.create_task(play(read_script(talk.lines), MAX, theirs, report))
        async with twofold.connect(ours, version=version, ask=ask, on_problem=ignore) as client:
            session = await client.new_session(cwd="/workspace")
            watching = asyncio.create_task(cancel_when_asked(session))
            for prompt in talk.prompts:
                cancelled.clear()
                try:
                    await session.prompt(prompt)
                except twofold.RequestFailed as error:
                    assert "The script asked for this failure" in str(error)  # noqa: PT017
            watching.cancel()
            # a prompt that fails before any update is not repeated by the bridge
            assert without_prompts(session.state) == without_prompts(talk.session)
        await playing
        assert not [each for each in reports if "answered" in each or "prompt is" in each]

    have_again()


def ignore(problem: twofold.Problem) -> None:
    """One agent writes times that version 2 does not have."""


def without_prompts(session: Session) -> list[Any]:
    return [entry for entry in story(session) if entry[0] != "user"]


@pytest.mark.parametrize("size", [1, 7, 500])
@in_real_time
async def test_any_split_of_what_the_client_sends_gives_the_same(size: int) -> None:
    ours, theirs = memory_pair()
    received = bytearray()
    whole = asyncio.Event()

    class Client:
        def received(self, data: bytes) -> None:
            received.extend(data)
            if received.count(b"\n") == 4:
                whole.set()

        def ended(self, error: Exception | None) -> None: ...
        def pause_writing(self) -> None: ...
        def resume_writing(self) -> None: ...

    playing = asyncio.create_task(play(read_script(tape(*HELLO).splitlines()), MAX, theirs, print))
    ours.start(Client())
    data = b"".join(json.dumps(each).encode() + b"\n" for each in ASKED)
    for start in range(0, len(data), size):
        ours.write(data[start : start + size])
        await asyncio.sleep(0)
    await whole.wait()
    assert [json.loads(line) for line in received.splitlines()] == [
        message for way, message in HELLO if way == "a2c"
    ]
    await ours.close()
    await playing


# ---- as a process ------------------------------------------------------------------------------


class Run(NamedTuple):
    """What came of a replay that a client asked one request after the other."""

    answers: list[Json]
    errors: str
    status: int


def replay(*arguments: str | Path, asking: list[Json]) -> Run:
    words = [*TWOFOLD, "replay", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        answers = []
        for message in asking:
            running.stdin.write(json.dumps(message).encode() + b"\n")
            running.stdin.flush()
            answers += _until_answered(running.stdout, message["id"])
        running.stdin.close()
        errors = running.stderr.read().decode()
        return Run(answers, errors, running.wait(20))


def _until_answered(stream: IO[bytes], identity: Any) -> list[Json]:
    for line in stream:
        message: Json = json.loads(line)
        if "method" not in message and message["id"] == identity:
            return [message]
    return []


def test_twofold_run_plays_a_recording(recording: Path) -> None:
    agent = ["--", *TWOFOLD, "replay", "--speed", "max", str(recording)]
    for version in ("1", "2"):
        done = process("--version", version, "--prompt", "hi", *agent)
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_a_crash_is_played_with_its_exit_status(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    called("--version", "1", "--record", str(path), "--prompt", "crash", *DEMO)
    (session,) = folded(path.read_bytes())
    params = {"sessionId": session, "prompt": []}
    crashed = replay(
        "--speed", "max", path, asking=[*ASKED[:2], request(3, "session/prompt", **params)]
    )
    assert crashed.status == 3
    assert len(crashed.answers) == 3
    assert crashed.answers[-1]["error"]["message"] == "The agent closed the connection"
    assert replay("--speed", "max", path, asking=ASKED[:2]).status == 0


def test_with_strict_the_exit_status_says_that_the_client_deviated(recording: Path) -> None:
    other = request(3, "session/prompt", sessionId="s", prompt=[])
    ended = replay("--strict", recording, asking=[*ASKED[:2], other])
    assert ended.status == DEVIATED
    assert ended.answers[-1]["error"]["message"] == "The client deviates from the recording"
    assert "line 5: the prompt is '', the recorded one 'hi'" in ended.errors
    assert replay("--strict", "--speed", "max", recording, asking=ASKED).status == 0


def test_a_signal_ends_it(recording: Path) -> None:
    words = [*TWOFOLD, "replay", str(recording)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(json.dumps(ASKED[0]).encode() + b"\n")
        running.stdin.flush()
        running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 128 + signal.SIGTERM


def test_lines_that_cannot_be_read_are_named_and_the_rest_is_played(recording: Path) -> None:
    with recording.open("ab") as file:
        file.write(b"not json\n")
    done = replay(recording, asking=ASKED[:1])
    assert done.answers == [HELLO[1][1]]
    assert done.errors.startswith("twofold replay: line 8: not JSON")


@pytest.mark.parametrize(
    ("content", "arguments", "reason"),
    [
        (b"", [], "has no message of an agent to play."),
        (b"\x00\x01\n{}\n", [], "line 2: not understood"),
        (tape(*HELLO), ["--session", "x"], "has no session 'x'. It has: s."),
        (tape(*HELLO), ["--speed", "fast"], "'fast' is neither recorded, nor max, nor a number"),
        (tape(*HELLO), ["--speed", "0"], "'0' is neither recorded, nor max, nor a number"),
    ],
)
def test_a_mistake_is_reported_in_words(
    content: bytes, arguments: list[str], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_bytes(content)
    result = command("replay", str(path), *arguments)
    assert result.exit_code in (1, 2)
    assert reason in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    result = command("replay", str(tmp_path / "none.jsonl"))
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_a_line_that_is_too_long_is_refused(recording: Path) -> None:
    long = request(5, "_x/echo", filler="x" * 2 * 1024 * 1024)
    done = replay("--line-limit", "1", recording, asking=[ASKED[0], long])
    assert "the limit is" in done.answers[1]["error"]["data"]["reason"]
