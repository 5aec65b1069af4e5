"""`twofold run --prompt`: one turn for scripts, with the demo agent and with small raw agents.

The agent is a process always, the program where it matters.
"""

import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.commands import (
    DEMO,
    PATIENCE,
    Json,
    asks,
    called,
    filtered,
    lines,
    process,
    twofold,
)
from tests.support.raw_process import raw_agent
from twofold.cli.unattended import Problems, StderrLines
from twofold.client.launch import Launch
from twofold.peer.problems import Problem
from twofold.term.run_options import RunOptions
from twofold.transport.commands import IS_IT

BOTH = pytest.mark.parametrize("version", ["1", "2"])


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
    other = {"1": "2", "2": "1"}[version]
    converted = twofold("convert", "--to", other, str(tape))
    assert converted.exit_code in (0, 3)  # version 1 cannot say everything
    assert "Edit demo.txt" in converted.stdout


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
    result = called("--prompt", "stream", *arguments, *DEMO)
    assert (result.exit_code, result.stderr) == (0, "")
    records = lines(result.stdout)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert {record["dir"] for record in records} == {"c2a", "a2c"}
    assert records[0]["message"]["method"] == "initialize"
    assert all(isinstance(record["time"], float) for record in records)

    def messages(text: str) -> list[str]:
        raw = [line.partition('"message":')[2] for line in text.splitlines()]
        return [message for message in raw if message]

    assert messages(result.stdout) == messages(tape.read_text("utf-8"))


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


TRACEBACK = """
os.write(2, b"starting\\n")
def prompt(request):
    update({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Build", "status": "failed"})
    os.write(2, b"Traceback:\\n" + b"  deep\\n" * 50 + b"KeyError: \x1b[2J'model'\\n")
    fail(request, -32603, "Internal error")
"""


def test_a_turn_that_fails_shows_the_end_of_the_standard_error_of_that_turn() -> None:
    result = called("--prompt", "x", "--", *raw_agent(TRACEBACK))
    assert (result.exit_code, result.stdout) == (1, "")
    told = result.stderr.splitlines()
    at = told.index("session/prompt failed: Internal error (-32603)")
    assert told[at + 1] == "The end of the agent's standard error:"
    assert told[at + 2 :] == ["    deep"] * 11 + ["  KeyError: 'model'"]
    silent = raw_agent("def prompt(request): fail(request, -32603, 'Internal error')")
    assert called("--prompt", "x", "--", *silent).stderr.endswith("(-32603)\n")


LOSES = """
def prompt(request):
    os.write(2, b"on \x1b[31mstandard\x1b[0m error\\n\\nwithout an end")
    write(b"a banner\\n")
    answer(request, {"stopReason": "end_turn"})
"""


def test_verbose_prints_the_standard_error_as_it_is_written_and_safely() -> None:
    quiet = called("--prompt", "x", "--", *raw_agent(LOSES))
    banner = "The agent sent something that is no message: not JSON: a banner"
    assert (quiet.exit_code, quiet.stderr) == (0, f"{banner}\n")
    result = called("--verbose", "--prompt", "x", "--", *raw_agent(LOSES))
    assert (result.exit_code, result.stdout) == (0, "")
    assert sorted(result.stderr.splitlines()) == sorted(
        [banner, "[stderr] on standard error", "[stderr]", "[stderr] without an end"]
    )


def test_verbose_reports_what_a_conversion_loses() -> None:
    loss = Problem("loss", "plan: it is lost")
    for losses, reported in ((False, []), (True, ["plan: it is lost"])):
        output = Reports()
        Problems(output, losses=losses)(loss)  # type: ignore[arg-type]
        assert output.lines == reported


class Reports:
    """An `Output` that keeps what is reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def report(self, text: str) -> None:
        self.lines.append(text)


def test_with_verbose_a_turn_that_fails_shows_the_standard_error_once() -> None:
    result = called("--verbose", "--prompt", "x", "--", *raw_agent(TRACEBACK))
    assert result.exit_code == 1
    assert "session/prompt failed: Internal error (-32603)\n" in result.stderr
    assert result.stderr.count("KeyError") == 1
    assert result.stderr.count("deep") == 50


def test_a_line_of_standard_error_that_never_ends_is_printed_in_pieces() -> None:
    output = Reports()
    print_lines = StderrLines(output)  # type: ignore[arg-type]
    for _ in range(3):
        print_lines(b"x" * 40_000)
    print_lines.end()
    assert [len(line) for line in output.lines] == [len("[stderr] ") + n for n in (80_000, 40_000)]


def test_a_session_that_cannot_be_made_shows_the_end_of_the_standard_error() -> None:
    script = """
def answer(request, result):
    if request["method"] == "session/new":
        os.write(2, b"no key is set\\n")
        return fail(request, -32603, "Internal error")
    send({"id": request["id"], "result": result})
"""
    result = called("--prompt", "x", "--", *raw_agent(script))
    assert result.exit_code == 1
    assert result.stderr == (
        "session/new failed: Internal error (-32603)\n"
        "The end of the agent's standard error:\n  no key is set\n"
    )


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
        (asks(1), ["--allow", "execute"], 6, "Run make: rejected: nobody to ask"),
        (asks(stop="cancelled"), [], 6, "The turn ended with cancelled."),
        (raw_agent(NEW_WORD), [], 1, "The turn ended with _tired."),
    ],
    ids=[
        "no command",
        "dies",
        "echo",
        "version",
        "resume",
        "load",
        "no option",
        "denied",
        "new word",
    ],
)
def test_what_an_agent_cannot_do_is_said_and_has_a_status(
    command: list[str], arguments: list[str], status: int, told: str
) -> None:
    result = called("--prompt", "hi", *arguments, "--", *command)
    assert result.exit_code == status
    assert told in result.stderr


NO_MESSAGE = "It printed this, which is no message of the protocol:"


def test_what_a_command_that_is_no_agent_printed_is_shown_once() -> None:
    result = called("--prompt", "x", "--", "echo", "hi \x1b[2Jthere")
    assert (result.exit_code, result.stdout) == (7, "")
    first, *rest = result.stderr.splitlines()
    assert first.endswith(f"ended with exit code 0. {NO_MESSAGE}")
    assert rest == ["  hi there", IS_IT]
    many = called("--prompt", "x", "--", "seq", "100")
    assert many.stderr.splitlines()[1:] == [*(f"  {n}" for n in range(1, 11)), "  …", IS_IT]


def test_what_an_agent_that_is_started_twice_printed_is_reported_once() -> None:
    banner = "write(b'Loading\\n'); "
    falls = "if request['params']['protocolVersion'] == 2: sys.exit(9)"
    agent = raw_agent(
        f"{banner}\nbefore = initialize\ndef initialize(request):\n    {falls}\n    before(request)"
    )
    result = called("--prompt", "x", "--", *agent)
    assert result.exit_code == 0
    assert result.stderr == "The agent sent something that is no message: not JSON: Loading\n"


def test_what_a_silent_command_printed_is_shown() -> None:
    command = ["sh", "-c", "echo Welcome; exec cat > /dev/null"]
    result = called("--prompt", "x", "--timeout", "1", "--", *command)
    assert result.exit_code == 124
    assert result.stderr.endswith(f"{IS_IT}\n{NO_MESSAGE}\n  Welcome\n")


def test_a_directory_is_no_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = called("--prompt", "x", "--", str(tmp_path))
    assert result.exit_code == 7
    assert f"{tmp_path} is a directory." in result.stderr
    assert "chmod" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "data", "told"),
    [
        ([], b"", "Standard input and output must be a terminal."),
        (["--resume"], b"", "In scripts, use --prompt TEXT."),
        (["--format", "json"], b"", "--format needs --prompt"),
        (["--timeout", "3"], b"", "--timeout needs --prompt"),
        (["--verbose"], b"", "Standard input and output must be a terminal."),
        (["--login", "token"], b"", "--login needs --prompt"),
        (["--prompt", "x", "--start", "y"], b"", "--start and --prompt do not go together."),
        (["--prompt", "-"], b"\n", "'--prompt': standard input is empty."),
        (["--prompt", "-"], b"\xff", "'--prompt': standard input is not UTF-8."),
        (["--prompt", " "], b"", "'--prompt': the text is empty."),
        (["--prompt", "x", "--timeout", "nan"], b"", "'--timeout': it must be a number of seconds"),
        (["--prompt", "x", "--timeout", "0"], b"", "'--timeout': it must be a number of seconds"),
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


# ---- where the agent works ---------------------------------------------------------------------

WHERE = """
def prompt(request):
    text(os.getcwd())
    answer(request, {"stopReason": "end_turn"})
"""


def test_the_process_of_the_agent_starts_in_the_directory_it_works_in(tmp_path: Path) -> None:
    here = str(tmp_path.resolve())
    result = called("--prompt", "x", "--cwd", here, "--", *raw_agent(WHERE))
    assert (result.exit_code, result.output) == (0, f"{here}\n")


def test_the_path_of_a_program_is_one_of_the_directory_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path.resolve() / "there"
    there.mkdir()
    monkeypatch.chdir(tmp_path)
    program, *arguments = raw_agent(WHERE)
    (tmp_path / "agent").symlink_to(program)
    result = called("--prompt", "x", "--cwd", "there", "--", "./agent", *arguments)
    assert (result.exit_code, result.output) == (0, f"{there}\n")


def test_a_file_that_is_mentioned_and_not_there_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    prompt = "/echo compare @a.py with @nosuch.py"
    result = called("--prompt", prompt, "--cwd", str(tmp_path), *DEMO)
    assert (result.exit_code, result.stdout) == (0, "echo: compare @a.py with @nosuch.py\n")
    assert result.stderr == "There is no such file: @nosuch.py is sent as text.\n"


# ---- rules -------------------------------------------------------------------------------------

POLICY = '{"rules": [{"decision": "allow", "title": "Run *"}], "otherwise": "reject"}'


@pytest.mark.parametrize(
    ("rules", "said", "told"),
    [
        (["--allow", "execute"], "allow", "allowed by --allow execute"),
        (["--allow", "execute", "--reject", "title:*make*"], "reject", "by --reject title:*make*"),
        (["--allow", "execute", "--ask", "title:*make*"], "reject", "rejected: nobody to ask"),
        (["--allow", "read"], "reject", "rejected: nobody to ask"),
        (["--policy", "policy.json"], "allow", "allowed by policy.json rule 1"),
        (["--policy", "policy.json", "--ask", "execute"], "reject", "rejected: nobody to ask"),
    ],
)
def test_rules_decide_and_the_one_that_did_is_named(
    rules: list[str], said: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.json").write_text(POLICY)
    result = called("--prompt", "x", *rules, "--", *asks())
    assert result.exit_code == (0 if said == "allow" else 6)
    assert result.stdout == f"{said}_once\n"
    assert "[permission] Run make: " in result.stderr
    assert told in result.stderr


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            {"rawInput": {"command": "git status"}},
            "[execute, command: git status]; --allow 'command:git status' would allow it",
        ),
        (
            {"title": "Edit files", "kind": "edit", "locations": [{"path": "/w/a"}]},
            "[edit, path: /w/a]; --allow edit,path:/w/a would allow it",
        ),
        (
            {"title": "git status", "kind": "execute"},
            "[execute]; --allow 'execute,title:git status' would allow it",
        ),
    ],
)
def test_the_rule_that_a_line_advises_allows_what_was_rejected(call: Json, line: str) -> None:
    agent = asks(call=call)
    result = called("--prompt", "x", "--", *agent)
    assert (result.exit_code, result.stdout) == (6, "reject_once\n")
    assert f": rejected: nobody to ask {line}\n" in result.stderr
    words = shlex.split(line.partition("; ")[2])
    result = called("--prompt", "x", *words[:2], "--", *agent)
    assert (result.exit_code, result.stdout) == (0, "allow_once\n")


RUNS = """
def prompt(request):
    params = {"sessionId": "s", "command": "echo ${ONE-none} ${TWO-none}"}
    send({"id": 9, "method": "terminal/create", "params": params})
    named = {"sessionId": "s", "terminalId": read()["result"]["terminalId"]}
    send({"id": 10, "method": "terminal/wait_for_exit", "params": named})
    read()
    send({"id": 11, "method": "terminal/output", "params": named})
    text(read()["result"]["output"])
    answer(request, {"stopReason": "end_turn"})
"""


@pytest.mark.parametrize(
    ("options", "output"), [([], "none none\n"), (["--pass-env", "ONE"], "ours none\n")]
)
def test_a_command_gets_only_the_variables_that_are_named(
    options: list[str], output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE", "ours")
    monkeypatch.setenv("TWO", "ours")
    rules = ["--offer", "terminal", "--allow", "execute", *options]
    result = called("--prompt", "x", *rules, "--", *raw_agent(RUNS))
    assert (result.exit_code, result.stdout) == (0, output)


@pytest.mark.parametrize("name", ["", "A=b"])
def test_a_variable_is_passed_by_its_name(name: str) -> None:
    result = called("--prompt", "x", "--pass-env", name)
    assert result.exit_code == 2
    assert "give NAME, not its value" in result.stderr


HIDES = """
def prompt(request):
    call = {
        "toolCallId": "t",
        "title": "Look around",
        "kind": "execute",
        "content": [{"type": "content", "content": {"type": "text", "text": "Lists files"}}],
        "locations": [{"path": f"/src/{number}.py"} for number in range(30)],
        "rawInput": {
            "script": "rm -rf ~\\n" + "# nothing\\n" * 200 + "git status",
            "in": "x" * 3000,
        },
    }
    options = [{"optionId": "no", "name": "No", "kind": "reject_once"}]
    params = {"sessionId": "s", "toolCall": call, "options": options}
    send({"id": 1, "method": "session/request_permission", "params": params})
    read()
    answer(request, {"stopReason": "end_turn"})
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_command_that_the_decision_names_is_not_shown_once_more(elsewhere: bool) -> None:
    given = {"command": "make test", **({"cwd": "/elsewhere"} if elsewhere else {})}
    result = called("--prompt", "x", "--", *asks(call={"rawInput": given}))
    assert result.stderr.count("make test") == (1 if elsewhere else 2)  # the advised rule names it
    assert ("/elsewhere" in result.stderr) == elsewhere


def test_all_that_was_asked_for_stands_below_the_decision() -> None:
    result = called("--prompt", "x", "--", *raw_agent(HIDES))
    assert result.exit_code == 6
    told = result.stderr.split("\n")
    at = told.index("  │ script:")
    assert told[at + 1] == "  $ rm -rf ~"
    assert told[at + 202] == "  > git status"
    assert "  │ Lists files" in told
    assert [row for row in told if row.startswith("  │ /src/")] == [
        f"  │ /src/{number}.py" for number in range(30)
    ]
    assert f"  │   in: {'x' * 3000}" in told


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


PICTURED = """
def block(**content): update({"sessionUpdate": "agent_message_chunk", "messageId": "m",
                              "content": content})
def turn():
    text("See:"); block(type="image", mimeType="image/png", data="A" * 16000)
    block(type="resource_link", name="a.py", uri="file:///a.py"); text("Done.")
    whole("\\n \\n\\n  Bye", "n")
"""


def test_what_is_no_text_is_named_where_it_stands_and_blank_lines_lead_no_message() -> None:
    named = "[image image/png, 12 KB]\n[link a.py, file:///a.py]\n"
    agent = raw_agent(f"{SECOND}\n{PICTURED}")
    result = called("--prompt", "x", "--", *agent)
    assert (result.exit_code, result.output) == (0, f"See:\n{named}Done.\n\n  Bye\n")
    quiet = called("--prompt", "x", "--format", "quiet", "--", *agent)
    assert (quiet.exit_code, quiet.output) == (0, "  Bye\n")


def test_a_message_of_nothing_but_blanks_is_not_the_last_one() -> None:
    agent = raw_agent(f"{SECOND}\ndef turn(): text('A'); whole('\\n', 'b')")
    for form in ("text", "quiet"):
        result = called("--prompt", "x", "--format", form, "--", *agent)
        assert (result.exit_code, result.output) == (0, "A\n")


FAILS = """
def prompt(request):
    why = {"type": "text", "text": "no such\x1b[2J text\\n\\n2\\n3\\n4"}
    said = {"type": "content", "content": why}
    update({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "Edit a.py", "kind": "edit"})
    for _ in range(2):
        update({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "failed",
                "content": [said]})
    update({"sessionUpdate": "tool_call", "toolCallId": "b", "title": "Look", "status": "failed",
            "rawOutput": {"error": "gone"}})
    update({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run", "status": "failed"})
    answer(request, {"stopReason": "end_turn"})
"""


def test_a_tool_call_that_failed_is_told_once_with_the_first_lines_of_why() -> None:
    result = called("--prompt", "x", "--", *raw_agent(FAILS))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [
        "[edit] Edit a.py",
        *("[failed] Edit a.py", "  no such text", "  2", "  3"),
        *("[other] Look", "[failed] Look", '  {"error":"gone"}'),
        *("[other] Run", "[failed] Run"),
    ]


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
    assert result.stdout == "AB�␈\n"
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


NO_IDS = """
def text(said):
    content = {"type": "text", "text": said}
    update({"sessionUpdate": "agent_message_chunk", "content": content})

def prompt(request):
    text("the second answer")
    answer(request, {"stopReason": "end_turn"})
"""
LATE_REPLAY = (
    FORGETFUL.replace("LOADS", "yes")
    + NO_IDS
    + """
forgotten = fail
def fail(request, *reason):
    if request["method"] != "session/load":
        return forgotten(request, *reason)
    text("the first ")
    answer(request, {})
    for piece in ("answer", " of", " long", " ago"):
        time.sleep(0.03)
        text(piece)
"""
)
GREETS = (
    NO_IDS
    + """
greets = answer
def answer(request, result):
    greets(request, result)
    if request["method"] == "session/new":
        time.sleep(0.01)
        text("Welcome!")
"""
)


@pytest.mark.parametrize("form", ["text", "quiet"])
@pytest.mark.parametrize(
    ("agent", "options"),
    [(raw_agent(LATE_REPLAY), ["--resume", "s"]), (raw_agent(GREETS), [])],
    ids=["replays after the answer", "greets after the answer"],
)
def test_what_an_agent_sends_after_it_answered_for_the_session_is_not_printed_as_the_reply(
    agent: list[str], options: list[str], form: str
) -> None:
    result = called("--prompt", "x", "--format", form, *options, "--", *agent)
    assert (result.exit_code, result.output) == (0, "the second answer\n")


# ---- sessions that are gone on with ------------------------------------------------------------


def resumed(tape: Path) -> list[str]:
    """The sessions that were asked for in a tape."""
    records = lines(tape.read_text("utf-8"))
    messages = [each["message"] for each in records if each["dir"] == "c2a"]
    return [each["params"]["sessionId"] for each in messages if "resume" in each.get("method", "")]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--prompt", "stream", "--resume", "s1", "--"], "s1"),
        (["--prompt", "stream", "--resume=s1"], "s1"),
        (["--prompt", "stream", "--resume", "--"], "s2"),
        (["--resume", "--prompt", "stream", "--"], "s2"),
    ],
)
def test_a_session_is_resumed_by_its_id_or_as_the_last_of_the_directory(
    options: list[str], wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there, tape = tmp_path / "here", tmp_path / "there", tmp_path / "tape"
    for folder in (here, there):
        folder.mkdir()
    command = [*DEMO[1:], "--keep", str(tmp_path / "kept")]
    for cwd in (here, here, there):
        assert called("--prompt", "stream", "--cwd", str(cwd), "--", *command).exit_code == 0
    monkeypatch.chdir(here)
    result = called("--record", str(tape), *options, *command)
    assert (result.exit_code, result.stdout) == (0, "one two three four five\n")
    assert resumed(tape) == [wanted]


GONE = """
def initialize(request):
    able = {"loadSession": True, "sessionCapabilities": {"resume": {}, LISTS}}
    answer(request, {"protocolVersion": 1, "agentCapabilities": able,
                     "agentInfo": {"name": "raw", "version": "1"}})

def fail(request, *reason):
    send({"id": request["id"], "error": {"code": -32002, "message": "Resource not found"}})
"""


@pytest.mark.parametrize(
    ("lists", "advice"),
    [
        ('"list": {}', "To list its sessions: twofold sessions --all -- "),
        ("", "raw cannot list its sessions."),
    ],
)
def test_a_session_that_is_not_there_is_named_with_how_to_list_them(
    lists: str, advice: str
) -> None:
    agent = raw_agent(GONE.replace("LISTS", lists))
    result = called("--prompt", "x", "--resume", "no-such", "--", *agent)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        "The session 'no-such' cannot be resumed: session/resume failed: Resource not found"
    )
    assert advice in result.stderr


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (DEMO[1:], "Twofold demo agent has no session in this directory"),
        (raw_agent(""), "raw cannot list its sessions."),
    ],
)
def test_without_a_session_to_resume_it_is_said(command: list[str], told: str) -> None:
    result = called("--prompt", "x", "--resume", "--", *command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert told in result.stderr


# ---- at the terminal ---------------------------------------------------------------------------


class Client:
    """Stands where the interactive client is, and keeps what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: int = 0) -> None:
        module = ModuleType("twofold.term.client")
        monkeypatch.setattr(module, "interact", self._interact, raising=False)
        monkeypatch.setitem(sys.modules, "twofold.term.client", module)
        monkeypatch.setattr("twofold.cli.run.at_terminal", lambda: True)
        monkeypatch.delenv("NO_COLOR", raising=False)
        self._status = status

    async def _interact(self, wanted: RunOptions, connecting: Launch) -> int:
        self.wanted = wanted
        async with connecting.client() as client:
            self.agent = client.agent_name
        return self._status


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--"], {}),
        (["--resume", "--"], {"choose": True}),
        (["--resume", "--no-color", "--"], {"choose": True, "color": False}),
        (["--resume", "ab", "--"], {"resume": "ab"}),
        (["--resume", "ab"], {"resume": "ab"}),
        (["--resume=ab"], {"resume": "ab"}),
        (["--start", "hello\n", "--version", "1", "--"], {"start": "hello", "version": 1}),
    ],
)
def test_without_a_prompt_the_client_is_given_what_was_asked_for(
    options: list[str], expected: Json, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = Client(monkeypatch, status=7)
    rules = ["--allow", "read", "--cwd", str(tmp_path)]
    command = raw_agent("")
    result = called(*rules, *options, *command)
    assert (result.exit_code, result.output) == (7, "")
    assert client.agent == "raw"
    assert client.wanted.command == command
    assert client.wanted.cwd == tmp_path
    assert [str(rule) for rule in client.wanted.policy.rules] == ["allow kind:read"]
    usual = {"resume": None, "choose": False, "start": None, "color": True, "version": None}
    assert {name: getattr(client.wanted, name) for name in usual} == usual | expected


def test_nobody_who_sets_no_color_gets_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    assert called().exit_code == 0
    assert client.wanted.color is False


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_start_is_a_wrong_call(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Client(monkeypatch)
    result = called("--start", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'--start': the text is empty." in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to offer")
def test_a_conversation_that_could_not_be_recorded_is_no_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Client(monkeypatch)
    result = called("--record", "/dev/full", *DEMO)
    assert result.exit_code == 1
    assert result.stderr == "/dev/full could not be written to the end: No space left on device.\n"


def test_what_goes_wrong_in_the_client_is_said_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Client(monkeypatch)
    result = called("--", "no-such-agent")
    assert result.exit_code == 7
    assert "there is no command no-such-agent" in result.stderr
