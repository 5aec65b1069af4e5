"""`twofold run --prompt`: one turn for scripts, with the demo agent and with small raw agents.

What a script sees (output, exit status, signals, files) is looked at with the program as a process;
the rest calls it in this one, with the agent as a process.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.raw_process import gone, raw_agent
from twofold.cli.commands import commands

Json = dict[str, Any]

PATIENCE = 30.0
"""More seconds than any run here should take."""
BOTH = pytest.mark.parametrize("version", ["1", "2"])
TWOFOLD = [sys.executable, "-m", "twofold"]
DEMO = ["--", *TWOFOLD, "agent", "--speed", "0"]


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """What becomes of the program as a process."""
    command = [*TWOFOLD, "run", *arguments]
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, **options}
    done = subprocess.run(command, encoding="utf-8", timeout=PATIENCE, check=False, **options)
    assert "Traceback" not in (done.stderr or "")
    return done


def called(*arguments: str, **options: Any) -> Result:
    """What becomes of a call in this process."""
    return CliRunner().invoke(commands, ["run", *arguments], catch_exceptions=False, **options)


def lines(text: str) -> list[Json]:
    return [json.loads(line) for line in text.splitlines()]


def filtered(*arguments: str, data: str | None = None) -> str:
    """What a filter makes of a tape, or of `data`."""
    result = CliRunner().invoke(commands, arguments, input=data, catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


# ---- formats and the tape ----------------------------------------------------------------------


@BOTH
def test_text_is_what_the_agent_says_and_the_filters_read_the_record(
    version: str, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    done = process("--prompt", "tools", "--version", version, "--record", str(tape), *DEMO)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.splitlines() == ["[edit] Edit demo.txt", "[execute] Say hello"]
    records = lines(tape.read_text("utf-8"))
    kinds = [record["dir"] for record in records if "message" not in record]
    assert kinds == ["header", "negotiated", "exit"]
    header, end = records[0], records[-1]
    assert (header["format"], header["version"]) == ("twofold.tape", 1)
    assert header["command"] == DEMO[1:]
    assert next(each["version"] for each in records if each["dir"] == "negotiated") == int(version)
    assert (end["code"], end["signal"]) == (0, None)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    shown = filtered("show", str(tape))
    assert "Edit demo.txt" in shown
    assert "done" in shown
    assert '"hello' in filtered("convert", "--to", version, str(tape))


@BOTH
def test_updates_add_up_to_the_session_of_the_record(version: str, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    arguments = ["--format", "updates", "--version", version, "--record", str(tape)]
    result = called("--prompt", "tools", *arguments, *DEMO)
    assert result.exit_code == 0
    kinds = {line["update"]["sessionUpdate"] for line in lines(result.stdout)}
    assert {"user_message", "plan_update", "tool_call_update", "state_update"} <= kinds
    assert filtered("fold", data=result.stdout) == filtered("fold", str(tape))


@BOTH
def test_json_is_the_messages_of_both_sides_as_they_were(version: str, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    arguments = ["--format", "json", "--version", version, "--record", str(tape)]
    done = process("--prompt", "stream", *arguments, *DEMO)
    assert (done.returncode, done.stderr) == (0, "")
    records = lines(done.stdout)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert {record["dir"] for record in records} == {"c2a", "a2c"}
    assert records[0]["message"]["method"] == "initialize"
    assert all(isinstance(record["time"], float) for record in records)

    def messages(text: str) -> list[str]:
        raw = [line.partition('"message":')[2] for line in text.splitlines()]
        return [message for message in raw if message]

    assert messages(done.stdout) == messages(tape.read_text("utf-8"))


@BOTH
def test_quiet_is_only_the_last_message(version: str) -> None:
    result = called("--prompt", "no-ids", "--format", "quiet", "--version", version, *DEMO)
    assert (result.exit_code, result.output) == (0, "Another message.\n")


def test_without_a_command_the_demo_agent_answers_what_standard_input_says(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('not from here')")
    entry = "from twofold.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", entry, "run", "--prompt", "-"],
        input=b"/echo \xc3\xa4 b\n",
        capture_output=True,
        cwd=tmp_path,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == "echo: ä b\n"


# ---- exit statuses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "version", "status", "told"),
    [
        ("refusal", "1", 3, "The turn ended with refusal."),
        ("max-tokens", "2", 4, "The turn ended with max_tokens."),
        ("max-turn-requests", "1", 4, "The turn ended with max_turn_requests."),
        ("error", "1", 1, "boom (-32603)"),
        ("error", "2", 1, "boom (-32603)"),
        ("crash", "2", 7, "ended with exit code 3"),
        ("auth", "2", 1, "The agent wants a login first; it names token."),
        ("permission", "1", 6, "[permission] Run make: rejected: nobody to ask"),
    ],
)
def test_the_exit_status_says_how_the_turn_ended(
    scenario: str, version: str, status: int, told: str
) -> None:
    result = called("--prompt", "hi", "--version", version, *DEMO, scenario)
    assert result.exit_code == status
    assert told in result.stderr


DENIED = """
def prompt(request):
    options = [{"optionId": "no", "name": "No", "kind": "reject_once"}]
    call = {"toolCallId": "t", "title": "Format the disk"}
    params = {"sessionId": "s", "toolCall": call, "options": options}
    send({"id": 9, "method": "session/request_permission", "params": params})
    read()
    answer(request, {"stopReason": "cancelled"})
"""
NEW_WORD = 'def prompt(request): answer(request, {"stopReason": "_tired"})'
FORGETFUL = """
def initialize(request):
    able = {"loadSession": "LOADS" == "yes"}
    answer(request, {"protocolVersion": 1, "agentCapabilities": able})
"""


@pytest.mark.parametrize(
    ("command", "arguments", "status", "told"),
    [
        (["no-such-agent"], [], 7, "there is no command no-such-agent"),
        ([sys.executable, "-c", "exit('no key')"], [], 7, "ended with exit code 1."),
        (["cat"], [], 1, "it is not an agent"),
        (raw_agent(""), ["--version", "2"], 1, "speaks version 1"),
        (raw_agent(""), ["--cwd", "/", "--resume", "x"], 1, "cannot resume sessions"),
        (raw_agent(FORGETFUL.replace("LOADS", "yes")), ["--resume", "x"], 1, "(-32601)"),
        (raw_agent(DENIED), ["--allow", "other"], 6, "Format the disk: rejected: nobody to ask"),
        (raw_agent(NEW_WORD), [], 1, "The turn ended with _tired."),
    ],
    ids=["no command", "dies", "echo", "version", "resume", "load", "denied", "new word"],
)
def test_what_an_agent_cannot_do_is_said_and_has_a_status(
    command: list[str], arguments: list[str], status: int, told: str
) -> None:
    result = called("--prompt", "hi", *arguments, "--", *command)
    assert result.exit_code == status
    assert told in result.stderr


@pytest.mark.parametrize(
    ("arguments", "data", "told"),
    [
        ([], b"", "Missing option '--prompt'"),
        (["--prompt", "-"], b"\n", "'--prompt': standard input is empty."),
        (["--prompt", "-"], b"\xff", "'--prompt': it is not UTF-8."),
        (["--prompt", " "], b"", "'--prompt': it is empty."),
        (["--prompt", "x", "--timeout", "nan"], b"", "'--timeout': it is a number of seconds"),
        (["--prompt", "x", "--timeout", "0"], b"", "'--timeout': it is a number of seconds"),
        (["--prompt", "x", "--allow", "reed"], b"", "'--allow reed' cannot be used: 'reed' is nei"),
        (["--prompt", "x", "--ask", "path:"], b"", "nothing follows 'path:'"),
        (["--prompt", "x", "--policy", "bad.json"], b"", "bad.json: it is not JSON"),
        (["--prompt", "x", "--policy", "none.json"], b"", "'none.json' does not exist"),
        (["--prompt", "x", "--record", "none/tape"], b"", "none/tape cannot be written: No such"),
        (["--prompt", "x", "--cwd", "none"], b"", "'none' does not exist"),
    ],
)
def test_a_wrong_call_is_said_before_anything_is_started(
    arguments: list[str], data: bytes, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{")
    result = called(*arguments, "--", "touch", "started", input=data)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())
    assert not (tmp_path / "started").exists()


# ---- rules -------------------------------------------------------------------------------------

POLICY = '{"rules": [{"decision": "allow", "title": "Run *"}], "otherwise": "reject"}'


@pytest.mark.parametrize(
    ("rules", "said", "told"),
    [
        (["--allow", "execute"], "a1", "allowed by --allow execute"),
        (["--allow", "execute", "--reject", "title:*make*"], "r1", "by --reject title:*make*"),
        (["--allow", "execute", "--ask", "title:*make*"], "r1", "rejected: nobody to ask"),
        (["--policy", "policy.json"], "a1", "allowed by policy.json rule 1"),
        (["--policy", "policy.json", "--ask", "execute"], "r1", "rejected: nobody to ask"),
    ],
)
def test_rules_decide_and_the_one_that_did_is_named(
    rules: list[str], said: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.json").write_text(POLICY)
    result = called("--prompt", "permission", *rules, *DEMO)
    assert result.exit_code == (0 if said == "a1" else 6)
    assert result.stdout == f"outcome: {said}\n"
    assert told in result.stderr


# ---- what is printed ---------------------------------------------------------------------------

SECOND = """
def initialize(request):
    info = {"name": "raw", "version": "1"}
    answer(request, {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}})

def whole(text, message="m"):
    content = [{"type": "text", "text": text}]
    update({"sessionUpdate": "agent_message", "messageId": message, "content": content})

def prompt(request):
    answer(request, {"messageId": "u"})
    update({"sessionUpdate": "state_update", "state": "running"})
    turn()
    update({"sessionUpdate": "state_update", "state": "idle", "stopReason": stop})

stop = "end_turn"
"""


@pytest.mark.parametrize(
    ("turn", "printed"),
    [
        ("text('Hel'); text('lo'); whole('Hello')", "Hello\n"),
        ("text('Hel'); whole('Hello'); text('!')", "Hello!\n"),
        ("whole(''); text('Hello'); whole('Hello')", "Hello\n"),
        ("text('Hello'); whole('Bye')", "Hello\n\nBye\n"),
        ("text('A'); whole('B', 'b'); text('A')", "A\n\nB\n\nA\n"),
        ("text('A\\r'); text('\\nB\\n')", "A\nB\n"),
    ],
)
def test_a_message_is_printed_once_however_it_comes(turn: str, printed: str) -> None:
    result = called("--prompt", "x", "--", *raw_agent(f"{SECOND}\ndef turn(): {turn}"))
    assert (result.exit_code, result.output) == (0, printed)


EVIL = r"""
def turn():
    text("\x1b]0;owned\x07A\x1b"); text("[2J\x9b31mB\u202e\x08")
    update({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "\x1b[2J\nx\x9b1m"})
stop = "\x1b[31m\x9bred"
write(b"\x1b[31m\xc2\x9b noise\n")
"""


def test_nothing_that_the_agent_says_controls_the_terminal() -> None:
    result = called("--prompt", "x", "--", *raw_agent(SECOND + EVIL))
    assert result.exit_code == 1
    assert [each for each in result.output if each < " " and each != "\n"] == []
    assert not set("\x7f\x9b\u202e").intersection(result.output)
    assert result.stdout == "AB��\n"
    assert "[other] x" in result.stderr


LOADS = (
    FORGETFUL.replace("LOADS", "yes")
    + """
forgotten = fail
def fail(request, *reason):
    if request["method"] != "session/load":
        return forgotten(request, *reason)
    text("of long ago")
    answer(request, {})
"""
)


def test_what_is_replayed_is_no_part_of_the_turn_but_of_the_session() -> None:
    command = ["--", *raw_agent(LOADS)]
    quiet = called("--prompt", "x", "--resume", "s", "--format", "quiet", *command)
    assert (quiet.exit_code, quiet.output) == (0, "")
    text = called("--prompt", "x", "--resume", "s", *command)
    assert (text.exit_code, text.output) == (0, "")
    updates = called("--prompt", "x", "--resume", "s", "--format", "updates", *command)
    assert lines(updates.stdout)[0]["update"]["content"] == [
        {"type": "text", "text": "of long ago"}
    ]


# ---- when it does not end ----------------------------------------------------------------------


def test_an_agent_that_answers_nothing_is_given_up_and_its_last_words_are_told(
    tmp_path: Path,
) -> None:
    tape = tmp_path / "tape.jsonl"
    command = ["sh", "-c", "echo no key, no answer >&2; exec cat > /dev/null"]
    result = called("--prompt", "x", "--timeout", "1", "--record", str(tape), "--", *command)
    assert result.exit_code == 124
    assert "did not answer initialize within 1 seconds" in result.stderr
    assert "  no key, no answer\n" in result.stderr
    records = lines(tape.read_text())
    assert "no key, no answer\n" in [record.get("text") for record in records]
    assert (records[-1]["dir"], records[-1]["code"]) == ("exit", 0)


HANGS = """
def prompt(request):
    text("begun")
    open(PATH, "w").write(str(read().get("method")))
"""


def test_a_turn_that_does_not_end_in_time_is_cancelled(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    agent = raw_agent(HANGS.replace("PATH", repr(str(heard))))
    result = called("--prompt", "x", "--timeout", "2", "--", *agent)
    assert (result.exit_code, result.stdout) == (124, "begun\n")
    assert result.stderr == "The turn did not end within 2 seconds: it was given up.\n"
    assert heard.read_text() == "session/cancel"


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(
        *TWOFOLD, "run", *arguments, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    try:
        async with asyncio.timeout(PATIENCE):
            yield running
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


def with_child(path: Path, scenario: str) -> list[str]:
    """The demo agent in a wrapper that starts something else, and writes the numbers of both."""
    script = 'sleep 60 & echo $$ $! > "$0"; "$@"; exit'
    return ["--", "sh", "-c", script, str(path), *DEMO[1:], scenario]


@pytest.mark.parametrize(
    ("scenario", "version", "number", "times"),
    [
        ("slow", "1", signal.SIGINT, 1),
        ("slow", "2", signal.SIGTERM, 1),
        ("ignore-cancel", "2", signal.SIGINT, 2),
    ],
)
def test_a_signal_cancels_the_turn_and_leaves_no_process(
    scenario: str, version: str, number: int, times: int, tmp_path: Path
) -> None:
    numbers, tape = tmp_path / "numbers", tmp_path / "tape.jsonl"

    async def interrupted() -> tuple[int | None, bytes]:
        arguments = ["--prompt", "x", "--version", version, "--record", str(tape)]
        async with running(*arguments, *with_child(numbers, scenario)) as process:
            assert process.stdout is not None
            await process.stdout.read(1)
            process.send_signal(number)
            while times > 1 and "session/cancel" not in tape.read_text():
                await asyncio.sleep(0.01)  # a file tells nobody that it grows
            if times > 1:
                process.send_signal(number)
            _, told = await process.communicate()
            return process.returncode, told

    status, told = asyncio.run(interrupted())
    assert status == 5
    assert b"Traceback" not in told
    assert all(gone(int(each)) for each in numbers.read_text().split())
    methods = [line.get("message", {}).get("method") for line in lines(tape.read_text())]
    assert "session/cancel" in methods
    if times == 1:
        assert told == b"The turn ended with cancelled.\n"


def test_a_signal_before_the_turn_ends_the_start(tmp_path: Path) -> None:
    numbers = tmp_path / "numbers"

    async def interrupted() -> int | None:
        async with running("--prompt", "x", *with_child(numbers, "silent")) as process:
            while not (numbers.exists() and numbers.read_text().endswith("\n")):
                await asyncio.sleep(0.01)
            process.send_signal(signal.SIGINT)
            assert await process.communicate() == (b"", b"")
            return process.returncode

    assert asyncio.run(interrupted()) == 5
    assert all(gone(int(each)) for each in numbers.read_text().split())


# ---- streams that go away ----------------------------------------------------------------------


def test_a_reader_that_leaves_does_not_end_the_turn(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    told = tmp_path / "stderr"
    words = [*TWOFOLD, "run", "--format", "json", "--record", str(tape), "--prompt", "/flood 3000"]
    script = '"$@" 2> "$0" | head -n 1; echo ${PIPESTATUS[0]}'
    command = ["bash", "-c", script, str(told), *words, *DEMO]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    first, status = done.stdout.splitlines()
    assert (json.loads(first)["seq"], status) == (1, b"0")
    assert told.read_bytes() == done.stderr == b""
    assert lines(tape.read_text())[-1]["dir"] == "exit"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_an_output_or_a_record_that_cannot_be_written_is_told() -> None:
    with open("/dev/full", "wb") as full:
        arguments = ["--record", "/dev/full", "--prompt", "x", "--", *raw_agent("")]
        done = process("--format", "json", *arguments, capture_output=False, stdout=full, stderr=-1)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Standard output could not be written to the end: No space left on device.",
        "/dev/full could not be written to the end: No space left on device.",
    ]


def test_streams_that_are_closed_are_left_alone() -> None:
    command = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *TWOFOLD, "run", "--prompt", "permission"]
    done = subprocess.run([*command, *DEMO], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (6, b"", b"")
