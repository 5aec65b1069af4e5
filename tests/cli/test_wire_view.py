"""`twofold show --wire`, `--message`, `--at` and `--diff`, as people use them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.support.commands import twofold
from tests.support.recordings import answer, request, tape, update, words

TALK: list[Any] = [
    ("c2a", request(1, "initialize", protocolVersion=1)),
    ("a2c", answer(1, protocolVersion=1, agentInfo={"name": "a", "version": "2"})),
    ("c2a", request(2, "session/prompt", sessionId="s", prompt=[{"type": "text", "text": "hi"}])),
    ("a2c", words("Hello ")),
    ("a2c", words("there")),
    ("a2c", answer(2, stopReason="end_turn")),
]


def show(*arguments: str, data: bytes = tape(*TALK)) -> Result:
    return twofold("show", *arguments, input=data)


def test_the_wire_is_printed_one_line_for_each_message() -> None:
    result = show("--wire")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert len(lines) == len(TALK)
    size = len(json.dumps(TALK[2][1]))
    assert lines[2].split() == f"3 0.200 → ? session/prompt 2 {size} B s hi".split()
    assert lines[5].split()[-3:] == ["ms", "s", "end_turn"]


def test_filters_choose_messages() -> None:
    lines = show("--filter", "agent", "--filter", "method=agent_message_chunk").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["4", "5"]
    none = show("--wire", "--filter", "faults")
    assert (none.stdout, none.stderr) == ("", "No message passes the filters.\n")


def test_programs_get_a_line_of_json_for_each_message() -> None:
    lines = [json.loads(line) for line in show("--wire", "--format", "jsonl").stdout.splitlines()]
    assert [each["number"] for each in lines] == [1, 2, 3, 4, 5, 6]
    assert lines[5]["answers"] == 3
    assert lines[5]["latency"] == 0.3
    (detail,) = show("--message", "4", "--format", "jsonl").stdout.splitlines()
    found = json.loads(detail)
    assert json.loads(found["raw"]) == TALK[3][1]
    assert found["converted"][0]["params"]["update"]["messageId"] == "v1:agent:2"
    assert found["state"] == {"state": "running", "entries": 2}


def test_all_of_a_message_can_be_printed_and_all_of_every_message() -> None:
    one = show("--message", "4")
    assert '"text": "Hello "' in one.stdout
    assert "  in version 2" in one.stdout
    assert "  after it: state running, entries 2" in one.stdout
    every = show("--verbose")
    assert every.stdout.count("  as recorded\n") == len(TALK)
    assert one.stdout in every.stdout


def test_the_state_at_a_message_is_what_the_messages_up_to_it_add_up_to() -> None:
    assert "Hello \n" in show("--at", "4").stdout.replace("Hello\n", "Hello \n")
    assert "there" not in show("--at", "4").stdout
    assert show("--at", "6").stdout == show().stdout
    assert show("--at", "99").stdout == show().stdout
    assert "Hello" in show("--at", "4", "--format", "html").stdout


def test_a_line_that_cannot_be_read_is_in_its_place_and_changes_the_exit_status() -> None:
    result = show("--wire", data=b"nonsense\n" + tape(*TALK))
    assert result.exit_code == 2
    assert "unreadable" in result.stdout.splitlines()[0]
    assert "nonsense" in result.stdout.splitlines()[0]
    assert len(result.stdout.splitlines()) == len(TALK) + 1


def test_escape_sequences_of_peers_are_not_printed() -> None:
    evil = tape(*TALK[:3], ("a2c", words("\x1b[2J\u202e")), ("a2c", update(sessionUpdate="\x1b")))
    for arguments in (["--wire"], ["--verbose"], ["--wire", "--format", "jsonl"]):
        result = show(*arguments, data=evil)
        assert "\x1b" not in result.stdout
        assert "jsonl" in arguments or "\u202e" not in result.stdout


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.jsonl"
    path.write_bytes(tape(*TALK[:4], ("a2c", words("you")), TALK[5]))
    return path


def test_two_recordings_are_compared(other: Path) -> None:
    result = show("--diff", str(other))
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "session s: 2 and 2 entries, 1 difference",
        "~ agent_message Hello there: content",
        "    - Hello there",
        "    + Hello you",
    ]
    (line,) = show("--diff", str(other), "--format", "jsonl").stdout.splitlines()
    found = json.loads(line)
    assert (found["first"], found["second"]) == ("Hello there", "Hello you")


def test_a_recording_is_like_itself(tmp_path: Path) -> None:
    path = tmp_path / "same.jsonl"
    path.write_bytes(tape(*TALK))
    result = show("--diff", str(path))
    assert (result.exit_code, result.stdout) == (0, "session s: 2 and 2 entries, no difference\n")


def test_two_sessions_of_one_recording_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    path.write_bytes(tape(*TALK, ("a2c", words("Hello there", "t"))))
    result = show("--diff", str(path), "--session", "s", "--session", "t", data=path.read_bytes())
    assert result.exit_code == 1
    assert "session s and t: 2 and 1 entries" in result.stdout
    assert "- user_message hi" in result.stdout
    alone = show("--diff", str(path))
    assert (alone.exit_code, alone.stderr) == (1, "Only in the second recording: session t\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--wire", "--at", "3"], "--wire and --at cannot be combined."),
        (["--message", "77"], "there is no message 77."),
        (["--message", "0"], "0 is not in the range"),
        (["--wire", "--filter", "colour=red"], "'colour' cannot be filtered by"),
        (["--filter", "foo"], "'foo' is none of faults"),
        (["--format", "jsonl"], "--format jsonl is not for the sessions"),
        (["--wire", "--format", "html"], "--format html is not for --wire."),
        (["--session", "s"], "--session needs --diff"),
        (["--diff", "none.jsonl"], "none.jsonl"),
    ],
)
def test_a_mistake_is_reported_in_words(arguments: list[str], reason: str) -> None:
    result = show(*arguments)
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())


def test_a_session_that_is_not_there_cannot_be_compared(other: Path) -> None:
    result = show("--diff", str(other), "--session", "x")
    assert result.exit_code == 2
    assert "the recording has no session 'x'." in result.stderr
