"""The filters on the command line, as people use them."""

import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import Result

from tests.support.commands import twofold
from twofold.journal.recording import Recording, read_line

TEXT = {"type": "text", "text": "Hello"}


def chunk(text: str, message_id: str | None = "m1", kind: str = "agent") -> dict[str, Any]:
    update = {
        "sessionUpdate": f"{kind}_message_chunk",
        "content": {"type": "text", "text": text},
    }
    return update | ({"messageId": message_id} if message_id else {})


def rpc(update: dict[str, Any], session: str = "s1") -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": session, "update": update},
    }


def run(*args: str, lines: list[Any], raw: bytes | None = None) -> Result:
    data = raw if raw is not None else "".join(json.dumps(line) + "\n" for line in lines).encode()
    return twofold(*args, input=data)


def out(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def err(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stderr.splitlines()]


# ---- fold ----------------------------------------------------------------------------------


def test_fold_prints_whole_upserts_in_entry_order_and_the_state_last() -> None:
    lines = [
        rpc(chunk("A", "a")),
        rpc(
            {
                "sessionUpdate": "plan_update",
                "plan": {"type": "items", "planId": "p", "entries": []},
            }
        ),
        rpc({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Reading"}),
        rpc(chunk("B", "b")),
        rpc(chunk("A2", "a")),
        rpc({"sessionUpdate": "usage_update", "used": 1, "size": 2}),
        rpc({"sessionUpdate": "session_info_update", "title": "T"}),
        rpc({"sessionUpdate": "available_commands_update", "availableCommands": []}),
    ]
    result = run("fold", lines=lines)
    assert result.exit_code == 0
    assert {line["sessionId"] for line in out(result)} == {"s1"}
    assert [line["update"]["sessionUpdate"] for line in out(result)] == [
        "agent_message",
        "tool_call_update",
        "agent_message",
        "plan_update",
        "available_commands_update",
        "session_info_update",
        "usage_update",
        "state_update",
    ]
    assert out(result)[0]["update"] == {
        "sessionUpdate": "agent_message",
        "messageId": "a",
        "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "A2"}],
    }


def test_fields_at_their_default_are_omitted() -> None:
    update: dict[str, Any] = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "kind": "other",
        "status": "pending",
        "content": [],
        "locations": None,
        "rawInput": None,
    }
    assert out(run("fold", lines=[update]))[0]["update"] == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
    }


@pytest.mark.parametrize(
    "wrap",
    [
        rpc,
        lambda update: {"sessionId": "s1", "update": update},
        lambda update: update,
        lambda update: {"t": 0.5, "dir": "a2c", "message": rpc(update)},
    ],
    ids=["message", "params", "update", "record"],
)
def test_a_line_may_be_a_message_or_params_or_an_update_or_a_record(wrap: Any) -> None:
    result = run("fold", lines=[wrap(chunk("A")), wrap(chunk("B"))])
    assert result.exit_code == 0
    assert len(out(result)[0]["update"]["content"]) == 2


def test_what_fold_prints_folds_to_the_same() -> None:
    first = run("fold", lines=[chunk("A"), chunk("B", "b", "user"), chunk("C")])
    assert run("fold", lines=out(first)).stdout == first.stdout


def test_prompts_results_and_permissions_of_version_1_add_up() -> None:
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "t", "title": "Run it", "kind": "execute"}
    ask = {"sessionId": "s", "toolCall": call, "options": options}
    lines = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "session/new",
            "params": {"cwd": "/", "mcpServers": []},
        },
        {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/prompt",
            "params": {"sessionId": "s", "prompt": [TEXT]},
        },
        rpc(chunk("Hi", None), "s"),
        {"jsonrpc": "2.0", "id": 2, "method": "session/request_permission", "params": ask},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "result": {"outcome": {"outcome": "selected", "optionId": "y"}},
        },
        {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}},
    ]
    updates = [line["update"] for line in out(run("fold", lines=lines))]
    assert [update["sessionUpdate"] for update in updates] == [
        "user_message",
        "agent_message",
        "tool_call_update",
        "state_update",
    ]
    assert updates[0]["content"] == [TEXT]
    assert updates[2]["title"] == "Run it"
    assert updates[3] == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "stopReason": "end_turn",
    }


def test_a_result_that_names_the_message_shows_the_november_draft() -> None:
    """Only November's prompt result carries a messageId; its `_meta` merges by key."""
    upserts = [
        {"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"a": 1}},
        {"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"b": 2}},
    ]
    prompt = {"sessionId": "s1", "prompt": [TEXT]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": prompt}
    for result, meta in (({}, {"b": 2}), ({"messageId": "u"}, {"a": 1, "b": 2})):
        answer = {"jsonrpc": "2.0", "id": 1, "result": result}
        folded = run("fold", "--from", "2", lines=[request, answer, *map(rpc, upserts)])
        assert out(folded)[0]["update"]["_meta"] == meta


@pytest.mark.parametrize(("draft", "meta"), [("2026-06", {"b": 2}), ("2026-11", {"a": 1, "b": 2})])
def test_the_caller_may_choose_the_draft(draft: str, meta: dict[str, int]) -> None:
    lines = [
        {"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"a": 1}},
        {"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"b": 2}},
    ]
    assert out(run("fold", "--draft", draft, lines=lines))[0]["update"]["_meta"] == meta


@pytest.mark.parametrize(
    "lines",
    [
        [{"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"}],
        [{"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "status": "running"}],
        [{"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T"}],
    ],
    ids=["version 1", "guide", "version 2"],
)
def test_the_version_is_told_from_the_lines(lines: list[Any]) -> None:
    update = out(run("fold", lines=lines))[0]["update"]
    assert (update["sessionUpdate"], update["title"]) == ("tool_call_update", "T")


def test_what_one_line_shows_of_the_version_holds_for_the_next() -> None:
    lines: list[dict[str, Any]] = [
        {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": None, "status": "failed"},
    ]
    call, _ = out(run("fold", lines=lines))
    assert (call["update"]["title"], call["update"]["status"]) == ("T", "failed")
    assert out(run("convert", "--to", "1", lines=lines)) == lines


def test_sessions_are_printed_one_after_the_other() -> None:
    lines = [rpc(chunk("A"), "s1"), rpc(chunk("B"), "s2"), rpc(chunk("C"), "s1")]
    assert [line["sessionId"] for line in out(run("fold", lines=lines))] == ["s1", "s1", "s2", "s2"]


def test_messages_that_tell_nothing_of_the_session_are_passed_over() -> None:
    lines = [
        {"jsonrpc": "2.0", "method": "_example.com/hello"},
        {"jsonrpc": "2.0", "id": 9, "method": "session/no_such_method", "params": {}},
        {"t": 1.0, "dir": "a2c", "exit": 0},
        rpc(chunk("A")),
    ]
    result = run("fold", lines=lines)
    assert result.exit_code == 0
    assert result.stderr == ""


def test_bare_params_of_a_permission_request_add_up_the_same_each_time() -> None:
    call = {"toolCallId": "t", "title": "Run it", "kind": "execute"}
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    lines = [{"sessionId": "s", "toolCall": call, "options": options}]
    first, second = (run("show", lines=lines).stdout for _ in range(2))
    assert "Run it" in first
    assert first == second
    recordings = [Recording(), Recording()]
    for recording in recordings:
        for line in read_line(json.dumps(lines[0])):
            recording.take(line)
    assert recordings[0].sessions == recordings[1].sessions


# ---- bad input -----------------------------------------------------------------------------

BAD = [b"not json", b"[]", b"42", b'{"foo": 1}', b"\xff\xfe", b'{"sessionUpdate":"agent_message"}']


@pytest.mark.parametrize("command", [["fold"], ["show"], ["convert", "--to", "1"]])
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_line_is_reported_with_its_number_and_the_rest_goes_on(
    command: list[str], bad: bytes
) -> None:
    good = json.dumps(rpc(chunk("good"))).encode()
    result = run(*command, lines=[], raw=b"\n".join([good, bad, good, b""]))
    assert result.exit_code == 2
    assert result.stderr.startswith("line 2: ")
    assert result.stdout.count("good") == 2


def test_a_malformed_optional_field_is_mentioned_and_counts_as_omitted() -> None:
    lines = [
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": 5, "title": "T"},
    ]
    result = run("fold", "--from", "2", lines=lines)
    assert result.exit_code == 0
    assert "line 2" in result.stderr
    assert "status" in result.stderr
    assert out(result)[0]["update"]["status"] == "completed"


def test_nothing_a_peer_sends_reaches_the_terminal_as_an_escape() -> None:
    evil = "\x1b]0;owned\x07\x1b[31mred\x9b31m"
    lines = [
        {
            "sessionUpdate": "agent_message",
            "messageId": "m",
            "content": [{"type": "text", "text": evil}],
        },
        {"sessionUpdate": "agent_message", evil: 1},
        {"sessionUpdate": "tool_call_update", "toolCallId": evil, "title": evil, "status": evil},
    ]
    for command in (["show"], ["fold"], ["convert", "--to", "1"]):
        result = run(*command, lines=lines)
        for text in (result.stdout, result.stderr):
            assert "\x1b" not in text
        assert "\x9b" not in result.stderr


EVIL = "a\x9b2J\x7f\u202eb\u200bc\U000e0041d\u200de"


@pytest.mark.parametrize("arguments", [["fold"], ["convert", "--to", "2"]])
@pytest.mark.parametrize("terminal", [False, True])
def test_json_goes_to_a_terminal_with_escapes_and_to_a_pipe_as_it_is(
    arguments: list[str], terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {"sessionUpdate": "agent_message", "messageId": "m", "content": [TEXT | {"text": EVIL}]}
    raw = json.dumps(whole, ensure_ascii=False).encode()
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: terminal)
    result = run(*arguments, lines=[], raw=raw)
    first = result.stdout_bytes.decode().splitlines()[0]
    update = json.loads(first)
    assert update.get("update", update)["content"][0]["text"] == EVIL
    assert any(char in first for char in EVIL[1:] if not char.isascii()) is not terminal
    assert ("\x7f" in first) is not terminal


def test_a_missing_file_is_a_plain_message() -> None:
    result = twofold("fold", "no-such-file.jsonl")
    assert result.exit_code == 2
    assert "no-such-file.jsonl" in result.stderr
    assert "Traceback" not in result.stderr


# ---- convert -------------------------------------------------------------------------------


def test_convert_without_loss_exits_0_and_keeps_the_envelope() -> None:
    tool = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"}
    for wrap in (
        lambda update: {"t": 1.5, "dir": "a2c", "note": "n", "message": rpc(update)},
        rpc,
        lambda update: {"sessionId": "s1", "update": update, "_meta": {"k": 1}},
        lambda update: update,
    ):
        result = run("convert", "--to", "2", lines=[wrap(tool)])
        assert result.exit_code == 0
        assert out(result) == [
            wrap({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T"})
        ]


def test_losses_go_to_stderr_with_line_path_and_reason_and_exit_3() -> None:
    lines = [
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T", "kind": "read"},
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "title": None,
            "status": "completed",
        },
    ]
    result = run("convert", "--to", "1", "--from", "2", lines=lines)
    assert result.exit_code == 3
    (loss,) = err(result)
    assert loss.keys() == {"line", "path", "reason"}
    assert (loss["line"], loss["path"]) == (2, "update.title")
    assert out(result)[1] == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "status": "completed",
    }


def test_strict_refuses_the_same_and_exits_4() -> None:
    lines = [
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": None},
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"},
    ]
    result = run("convert", "--to", "1", "--from", "2", "--strict", lines=lines)
    assert result.exit_code == 4
    assert [report["line"] for report in err(result)] == [2]
    assert len(out(result)) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"_meta": {"a": 1}},
        {"content": None},
        {"content": []},
        {"content": [TEXT], "_meta": None},
    ],
)
@pytest.mark.parametrize("kind", ["user_message", "agent_message", "agent_thought"])
def test_what_seed_002_says_must_fail_fails_and_the_rest_is_converted(
    kind: str, fields: dict[str, Any]
) -> None:
    lines = [{"sessionUpdate": kind, "messageId": "m", **fields}, chunk("rest", "n")]
    result = run("convert", "--to", "1", lines=lines)
    assert result.exit_code == 4
    assert err(result)[0]["line"] == 1
    assert out(result) == [chunk("rest", "n")]


def test_a_whole_message_fans_out_to_one_line_per_block() -> None:
    message = {"sessionUpdate": "agent_message", "messageId": "m", "content": [TEXT, TEXT]}
    result = run("convert", "--to", "1", lines=[rpc(message)])
    assert result.exit_code == 0
    assert out(result) == [rpc(chunk("Hello", "m"))] * 2


def test_other_messages_pass() -> None:
    other = {"jsonrpc": "2.0", "id": 1, "method": "_example.com/x", "params": {"a": [1, None]}}
    record = {"t": 1.0, "dir": "a2c", "exit": 0}
    result = run("convert", "--to", "2", lines=[other, record])
    assert result.exit_code == 0
    assert out(result) == [other, record]


def test_a_batch_is_read_and_never_written() -> None:
    result = run("convert", "--to", "2", lines=[[rpc(chunk("A")), rpc(chunk("B"))]])
    assert out(result) == [rpc(chunk("A")), rpc(chunk("B"))]


# ---- show ----------------------------------------------------------------------------------


def test_show_is_plain_text_when_the_output_is_not_a_terminal() -> None:
    result = run("show", lines=[chunk("Hello", "u", "user"), chunk("World")])
    assert result.exit_code == 0
    assert "Hello" in result.stdout
    assert "World" in result.stdout
    assert "\x1b" not in result.stdout


def codex_command() -> list[dict[str, Any]]:
    """A command as codex reports it to a client of version 1 that declares nothing."""

    def meta(**told: dict[str, Any]) -> dict[str, Any]:
        return {key: {"terminal_id": "c", **facts} for key, facts in told.items()}

    reference = [{"type": "terminal", "terminalId": "c"}]
    updates: list[dict[str, Any]] = [
        {
            "sessionUpdate": "tool_call",
            "title": "echo hi",
            "kind": "execute",
            "status": "in_progress",
            "content": reference,
            "_meta": meta(terminal_info={"cwd": "/work"}),
        },
        {
            "sessionUpdate": "tool_call_update",
            "_meta": meta(terminal_output_delta={"data": "hi\n"}),
        },
        {
            "sessionUpdate": "tool_call_update",
            "status": "completed",
            "_meta": meta(terminal_exit={"exit_code": 0, "signal": None}),
        },
    ]
    return [rpc({"toolCallId": "c", **update}) for update in updates]


def test_show_prints_the_output_of_a_command_that_came_in_deltas() -> None:
    shown = run("show", lines=codex_command()).stdout
    assert "✓ $ echo hi  (execute, completed)\n    hi\n" in shown
    assert "exit code" not in shown


def test_show_prints_what_failed_where_there_is_no_session() -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "authenticate", "params": {"methodId": "key"}}
    refusal = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "\x1b[2JNo"}}
    result = run("show", lines=[request, refusal])
    assert (result.stdout, result.exit_code) == ("✗ authenticate failed: No\n", 0)


@pytest.mark.parametrize(
    ("form", "begins", "holds"),
    [
        ("text", "── Turn 1 ──\n", "> Hello\n"),
        ("markdown", "## Turn 1\n", "> Hello\n"),
        ("html", "<!doctype html>\n", '<section class="user">'),
    ],
)
def test_show_prints_the_format_that_was_asked_for(form: str, begins: str, holds: str) -> None:
    lines = [chunk("Hello", "u", "user"), chunk("World ❄")]
    result = run("show", "--format", form, lines=lines)
    assert result.exit_code == 0
    assert result.stdout.startswith(begins)
    assert holds in result.stdout
    assert "World ❄" in result.stdout


def test_show_says_so_if_there_is_nothing_to_show() -> None:
    result = run("show", lines=[{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}])
    assert (result.stdout, result.exit_code) == ("", 0)
    assert result.stderr.startswith("There is nothing to show")


def test_the_command_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "twofold", "fold"],
        input=json.dumps(chunk("A")).encode(),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[0])["update"]["messageId"] == "m1"
