"""`twofold journal`: check the journal of the server, and import recordings."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import twofold
from twofold.host.state_files import default_journal

SECONDS = (0.0, 0.1, 0.2, 0.3, 0.4, 1.0, 1.1, 2.0, 2.1)
INFO = {"name": "raw", "version": "7"}
CALL = {"toolCallId": "t", "title": "Look", "kind": "execute", "status": "pending"}
YES = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
BEGUN = {"sessionUpdate": "tool_call", **CALL}
ASKED = {"toolCall": CALL, "options": [YES]}
ROCK = {"type": "text", "text": "On the rock."}
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": ROCK}
PROMPT = [{"type": "text", "text": "Where is the lighthouse?"}]
MESSAGES: list[tuple[str, dict[str, Any]]] = [
    ("c2a", {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}}),
    ("a2c", {"id": 0, "result": {"protocolVersion": 1, "agentInfo": INFO}}),
    ("c2a", {"id": 1, "method": "session/new", "params": {"cwd": "/work", "mcpServers": []}}),
    ("a2c", {"id": 1, "result": {"sessionId": "s"}}),
    ("c2a", {"id": 2, "method": "session/prompt", "params": {"prompt": PROMPT}}),
    ("a2c", {"method": "session/update", "params": {"update": BEGUN}}),
    ("a2c", {"id": 9, "method": "session/request_permission", "params": ASKED}),
    ("c2a", {"id": 9, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}),
    ("a2c", {"method": "session/update", "params": {"update": CHUNK}}),
]


def record(sender: str, seconds: float, message: dict[str, Any]) -> str:
    message = {"jsonrpc": "2.0", **message}
    if message.get("method", "").startswith("session/") and message["method"] != "session/new":
        message["params"] = {"sessionId": "s", **message["params"]}
    return json.dumps({"dir": sender, "time": 1_800_000_000 + seconds, "message": message}) + "\n"


LINES = [record(sender, at, each) for (sender, each), at in zip(MESSAGES, SECONDS, strict=True)]
TALK = "".join(LINES)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def written(name: str = "talk.jsonl", text: str = TALK) -> str:
    Path(name).write_text(text)
    return name


def test_a_recording_is_imported_and_shown_with_its_answers() -> None:
    result = twofold("journal", "import", written())
    assert (result.exit_code, result.stdout, result.stderr) == (0, "talk:s\n", "")
    shown = twofold("show", "--journal").stdout
    assert shown.startswith("── Where is the lighthouse? ──\nraw 7 · /work · ")
    for words in ("> Where is the lighthouse?", "permission allowed: Yes", "On the rock."):
        assert words in shown
    (listed,) = twofold("sessions", "--journal", "--all", "--json").stdout.splitlines()
    assert json.loads(listed)["updatedAt"].startswith("2027-01-15")
    assert twofold("sessions", "--journal", "--all", "--search", "rock").stdout.count("\n") == 2


def test_what_a_recording_adds_up_to_is_the_same_after_its_import() -> None:
    talk = written()
    twofold("journal", "import", talk)
    before, after = (
        [json.loads(line)["update"] for line in twofold(*words).stdout.splitlines()]
        for words in (("fold", talk), ("fold", "--journal"))
    )
    assert after == before


def test_a_question_that_was_open_at_the_end_is_open() -> None:
    twofold("journal", "import", written(text="".join(LINES[:7])))
    assert "waiting for permission" in twofold("show", "--journal").stdout


def test_a_session_is_imported_once() -> None:
    talk = written()
    twofold("journal", "import", talk)
    result = twofold("journal", "import", talk)
    assert result.exit_code == 0
    assert "talk:s is in the journal already" in result.stderr
    assert len(twofold("sessions", "--journal", "--all").stdout.splitlines()) == 1


def test_a_line_that_cannot_be_read_is_named_and_the_rest_is_imported() -> None:
    result = twofold("journal", "import", written(text=TALK + "{\n"))
    assert (result.exit_code, result.stdout) == (2, "talk:s\n")
    assert "line 10: " in result.stderr


def test_a_journal_without_faults_is_said_to_be_so_and_a_damaged_one_is_not() -> None:
    twofold("journal", "import", written())
    result = twofold("journal", "check")
    assert (result.exit_code, result.stdout) == (0, "The journal has no faults.\n")
    connection = sqlite3.connect(default_journal())
    connection.execute("DELETE FROM events WHERE id IN (SELECT id FROM events LIMIT 1 OFFSET 2)")
    connection.commit()
    connection.close()
    result = twofold("journal", "check")
    assert result.exit_code == 1
    assert "talk:s" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["check"], 1, "cannot be opened"),
        (["check", "talk.jsonl"], 2, "RECORDING goes with import"),
        (["import"], 2, "RECORDING goes with import"),
        (["import", "nowhere.jsonl"], 2, "does not exist"),
        (["forget"], 2, "forget"),
    ],
)
def test_wrong_usage_and_a_missing_journal_are_named(
    arguments: list[str], status: int, words: str
) -> None:
    written()
    result = twofold("journal", *arguments)
    assert result.exit_code == status
    assert words in result.stderr
    assert "Traceback" not in result.stderr
