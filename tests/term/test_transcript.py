"""A session on the console, and the recorded conversation that ships with the project."""

import base64
import io
import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.peers.validators import Schemas, SchemaValidator
from twofold.session import Session
from twofold.term.block_lines import STATUS_STYLES
from twofold.term.diff_lines import STYLES
from twofold.term.live_area import LiveArea
from twofold.term.row_encoder import RowEncoder
from twofold.term.transcript import render_blocks
from twofold.view.diff import DiffLineKind
from twofold.view.outline import GLYPHS
from twofold.view.timeline import outline
from twofold.wire import codec, v2

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "showcase.jsonl"


def render(session: Session, console: Console) -> None:
    render_blocks(outline(session), console)


def plain(session: Session) -> str:
    """What a file or a pipe gets."""
    out = io.StringIO()
    render(session, Console(file=out))
    return out.getvalue()


def coloured(session: Session, width: int = 80) -> str:
    """What a terminal gets."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="256", width=width)
    render(session, console)
    return out.getvalue()


def bare(output: str) -> str:
    """The output without the codes that we know to be our own."""
    return re.sub(r"\x1b\[[0-9;]*m", "", output)


def session_of(*updates: dict[str, Any]) -> Session:
    session = Session("s")
    for update in updates:
        session.apply(codec.read(update, v2.SessionUpdate))
    return session


def message(role: str, words: str, message_id: str = "m") -> dict[str, Any]:
    content = [{"type": "text", "text": words}]
    return {"sessionUpdate": role, "messageId": message_id, "content": content}


def call(**fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c", **fields}


# ---- the console ---------------------------------------------------------------------------


def test_each_role_looks_like_itself() -> None:
    session = session_of(
        message("user_message", "Do it\nnow"),
        message("agent_thought", "Hm."),
        message("agent_message", "Done."),
    )
    assert plain(session) == "> Do it\n> now\n\n  Hm.\n\nDone.\n\nidle\n"
    shown = coloured(session)
    assert "> \x1b[1mDo it\x1b[0m\n" in shown
    assert "\x1b[3;38;5;248mHm.\x1b[0m\n" in shown
    assert "\nDone.\n" in shown


@pytest.mark.parametrize("words", ["[bold]x[/bold] [/]", ":smile:", "http://x 1.5 'y'", "\\[a]"])
def test_the_words_of_a_peer_are_not_taken_for_markup(words: str) -> None:
    session = session_of(message("agent_thought", words))
    assert plain(session).startswith(f"  {words}\n")
    assert bare(coloured(session)).startswith(f"  {words}\n")


def test_what_the_agent_says_is_drawn_as_markdown_with_and_without_a_terminal() -> None:
    session = session_of(message("agent_message", "# Done\n\n- **two** files\n\n```py\nx = 1\n```"))
    assert plain(session) == "Done\n\n• two files\n\npy\n  x = 1\n\nidle\n"
    shown = coloured(session)
    assert bare(shown) == plain(session)
    assert "\x1b[1mtwo\x1b[0m" in shown


def output(data: bytes, terminal_id: str = "t") -> dict[str, Any]:
    encoded = {"data": base64.b64encode(data).decode()}
    return {"sessionUpdate": "terminal_update", "terminalId": terminal_id, "output": encoded}


def shows(terminal_id: str = "t") -> dict[str, Any]:
    return call(title="Run", content=[{"type": "terminal", "terminalId": terminal_id}])


def test_on_a_terminal_the_output_of_a_terminal_is_drawn_as_its_screen_shows_it() -> None:
    written = b"10 %\r\n20 %\x1b[1A\r\x1b[K\x1b[38;5;114mdone\x1b[0m\r\n\x1b[Kmore"
    session = session_of(output(written), shows())
    assert "\n    \x1b[38;5;114mdone\x1b[0m\n    more\n\n" in coloured(session)
    assert "\x1b" not in plain(session)


def test_no_row_of_a_long_output_is_left_out() -> None:
    numbers = [f"{number:06}" for number in range(60_000)]  # more than a live client keeps
    session = session_of(output("\n".join(numbers).encode()), shows())
    for shown in (plain(session), bare(coloured(session))):
        assert re.findall(r"^    (\d{6})$", shown, re.MULTILINE) == numbers


def test_terminals_of_two_sessions_may_have_one_id() -> None:
    blocks = [
        block
        for word in (b"one", b"two")
        for block in outline(session_of(output(word), shows()))[:1]
    ]
    out = io.StringIO()
    render_blocks(blocks, Console(file=out, force_terminal=True, color_system="standard"))
    assert re.findall(r"^    (\w+)$", out.getvalue(), re.MULTILINE) == ["one", "two"]


def test_without_a_terminal_nothing_is_coloured_cut_or_wrapped() -> None:
    long = "word " * 100 + "x" * 500 + "\tand a tab"
    title = {**shows(), "title": long.replace("\t", " ")}
    shown = plain(session_of(message("agent_message", long), output(long.encode()), title))
    assert "\x1b" not in shown
    assert f"{long}\n" in shown
    assert f"\n    {long}\n" in shown
    assert f"○ {title['title']}  (pending)\n" in shown


def test_on_a_terminal_everything_stays_on_the_screen() -> None:
    long = "word 日本語 👩‍💻\t" * 30 + "x" * 200
    diff = {"type": "diff", "path": f"/{'p' * 99}", "newText": long}
    session = session_of(
        message("user_message", long),
        message("agent_message", long),
        call(title=long, content=[diff], locations=[{"path": f"/{'q' * 99}"}]),
    )
    rows = bare(coloured(session, width=40)).split("\n")
    assert max(map(cell_len, rows)) <= 40
    assert "".join(rows).count("x" * 20) >= 3


def test_on_a_terminal_what_is_wrapped_stays_behind_its_margin() -> None:
    rows = coloured(session_of(message("user_message", "one two three " * 5)), width=24)
    assert all(row.startswith("> ") for row in bare(rows).split("\n\n")[0].split("\n"))


def test_escape_codes_of_peers_reach_no_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b5m\u202e"
    session = session_of(
        message("agent_message", evil),
        call(title=evil, kind=evil, status=evil, rawInput=evil, locations=[{"path": evil}]),
        {"sessionUpdate": "notice", "severity": evil, "title": evil},
        {"sessionUpdate": evil},
        {"sessionUpdate": "session_info_update", "title": evil},
    )
    for shown in (plain(session), bare(coloured(session))):
        assert not set("\x1b\x07\x9b\u202e").intersection(shown)
        assert "owned" not in shown


def test_a_diff_is_a_coloured_patch() -> None:
    diff = {"type": "diff", "path": "/a.py", "oldText": "same\nold\n", "newText": "same\nnew\n"}
    session = session_of(call(title="Edit", kind="edit", status="completed", content=[diff]))
    assert plain(session) == (
        "✓ ✎ Edit  (edit, completed)\n  /a.py\n  @@ -1,2 +1,2 @@\n   same\n  -old\n  +new\n\nidle\n"
    )
    shown = coloured(session)
    assert "\x1b[1;38;5;210m-\x1b[0m\x1b[38;5;210mold\x1b[0m" in shown
    assert "\x1b[1;38;5;114m+\x1b[0m\x1b[38;5;114mnew\x1b[0m" in shown


def test_a_file_named_by_a_diff_is_not_named_twice() -> None:
    diff = {"type": "diff", "path": "/a.py", "newText": "x\n"}
    places = [{"path": "/a.py", "line": 1}, {"path": "/b.py", "line": 2}]
    shown = plain(session_of(call(content=[diff], locations=places)))
    assert shown.count("/a.py") == 1
    assert "  /b.py:2\n" in shown


def test_a_permission_shows_what_it_is_about_and_the_options() -> None:
    session = session_of(call(title="Clean", kind="execute"))
    request = {
        "sessionId": "s",
        "title": "Run it?",
        "description": "It cleans up.",
        "subject": {"type": "command", "command": "make clean", "cwd": "/w", "toolCallId": "c"},
        "options": [{"optionId": "1", "name": "Yes", "kind": "allow_once"}],
    }
    session.ask(1, codec.read(request, v2.RequestPermissionRequest))
    assert plain(session) == (
        "? $ Clean  (execute, waiting for permission)\n"
        "  ? Run it?\n"
        "    It cleans up.\n"
        "    $ make clean\n"
        "    in /w\n"
        "    • Yes  (allow once)\n"
        "\nidle\n"
    )


def test_what_else_there_is_has_a_line_of_its_own() -> None:
    session = session_of(
        {"sessionUpdate": "state_update", "state": "running"},
        call(content=[{"type": "terminal", "terminalId": "gone"}]),
        {"sessionUpdate": "notice", "severity": "info", "title": "Tea", "description": "is ready"},
        {
            "sessionUpdate": "compaction_update",
            "compactionId": "1",
            "status": "failed",
            "error": "too long",
        },
        {"sessionUpdate": "subagent_update", "sessionId": "helper", "description": "helps"},
        {"sessionUpdate": "_x"},
        {"sessionUpdate": "_x"},
        {
            "sessionUpdate": "session_message",
            "messageId": "1",
            "senderSessionId": "other",
            "content": [{"type": "text", "text": "Psst."}],
        },
        message("agent_message", ""),
        {
            "sessionUpdate": "plan_update",
            "plan": {"type": "markdown", "planId": "p", "content": "1. x\n"},
        },
    )
    session.cancel()
    assert plain(session).split("\n\n") == [
        "⊘ other  (cancelling)\n  output not received",
        "message from session other:\n  Psst.",
        "Plan\n  1. x",
        "! info: Tea\n  is ready",
        "context compaction: failed\n  too long",
        "subagent: helper\n  helps",
        "[unknown update: _x] × 2",
        "running · cancelling\n",
    ]


def test_an_empty_plan_is_not_shown() -> None:
    plan = {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": []}}
    assert plain(session_of(plan)) == "idle\n"


def test_markdown_of_a_tool_call_is_drawn() -> None:
    text = "Found **two**:\n\n```\na\nb\n```\n"
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    shown = plain(session_of(call(title="Look", content=content)))
    assert "**" not in shown
    assert "```" not in shown
    assert "  Found two:" in shown
    assert "    a\n    b\n" in shown


def test_an_old_encoding_gets_what_it_can_show() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="latin-1")
    render(session_of(message("agent_message", "größe ✓")), Console(file=out))
    out.flush()
    assert raw.getvalue().startswith("größe ?\n".encode("latin-1"))


def test_ten_thousand_entries_are_all_there() -> None:
    session = session_of(
        *(message("agent_message", f"number {n}", message_id=str(n)) for n in range(10_000))
    )
    shown = plain(session)
    assert [f"number {n}" for n in range(10_000)] == shown.split("\n\n")[:-1]


def test_every_status_and_every_line_of_a_diff_has_a_style() -> None:
    assert set(GLYPHS) == set(STATUS_STYLES)
    assert set(get_args(DiffLineKind)) == set(STYLES)


# ---- the sample ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]


def answered(records: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    """Every message as its method, `params` or `result`, and what it holds."""
    found = []
    asked: dict[tuple[str, Any], str] = {}
    for record in records:
        message, side = record["message"], record["dir"]
        if "method" in message:
            if "id" in message:
                asked[side, message["id"]] = message["method"]
            found.append((message["method"], "params", message["params"]))
        else:
            method = asked.pop(("a2c" if side == "c2a" else "c2a", message["id"]))
            found.append((method, "result", message["result"]))
    assert asked == {}, "a request without an answer"
    return found


def folded(records: list[dict[str, Any]]) -> Session:
    session = Session("s")
    for record in records:
        message = record["message"]
        match message.get("method"):
            case "session/update":
                session.apply(codec.read(message["params"]["update"], v2.SessionUpdate))
            case "session/request_permission":
                request = codec.read(message["params"], v2.RequestPermissionRequest)
                session.ask(message["id"], request)
            case "session/cancel":
                session.cancel()
            case None if record["dir"] == "c2a":
                session.settle(message["id"])
    return session


def test_the_sample_is_a_recording(records: list[dict[str, Any]]) -> None:
    assert all(set(record) == {"t", "dir", "message"} for record in records)
    assert {record["dir"] for record in records} == {"c2a", "a2c"}
    times = [record["t"] for record in records]
    assert times == sorted(times)


def test_the_sample_fits_the_structs_without_any_indulgence(records: list[dict[str, Any]]) -> None:
    for method, part, value in answered(records):
        shape = getattr(v2.METHODS[method], part)
        try:
            msgspec.convert(value, shape)
        except msgspec.ValidationError:  # a shape that no tag tells apart takes the slow way
            faults: list[Any] = []
            assert codec.encode(codec.read(value, shape, faults)) is not None
            assert faults == []


def test_the_sample_is_valid_for_the_official_schema(
    records: list[dict[str, Any]], schemas: Schemas, valid: SchemaValidator
) -> None:
    definitions = schemas["v2", "stable"]["$defs"].items()
    names = {
        (body["x-method"], "result" if name.endswith("Response") else "params"): name
        for name, body in definitions
        if "x-method" in body
    }
    for method, part, value in answered(records):
        assert valid(2, "stable", names[method, part], value) == []


def test_the_sample_shows_everything_there_is_to_show(records: list[dict[str, Any]]) -> None:
    updates = [
        value["update"] for method, _, value in answered(records) if method == "session/update"
    ]
    assert {update["sessionUpdate"] for update in updates} >= {
        *("user_message", "agent_thought_chunk", "agent_message_chunk", "state_update"),
        *("tool_call_update", "tool_call_content_chunk", "plan_update", "usage_update"),
        *("terminal_update", "terminal_output_chunk", "session_info_update"),
        "config_option_update",
    }
    chunks = [
        base64.b64decode(update["data"])
        for update in updates
        if update["sessionUpdate"] == "terminal_output_chunk"
    ]
    assert any(chunk.endswith(b"\xc2") for chunk in chunks), "none ends inside a character"


def test_the_sample_reads_well(records: list[dict[str, Any]]) -> None:
    shown = plain(folded(records))
    for line in (
        "> The report says “-0 °C” when it is just below freezing. Please fix that and add a test.",
        "✓ ≡ Read report.py  (read, completed)",
        "  /home/ada/weather/src/weather/report.py:6",
        '  -    return f"{celsius:.0f} °C"',
        '  +    return f"{round(celsius)} °C"',
        "  /home/ada/weather/tests/test_report.py (new file)",
        "    Oslo: 0 °C, light snow ❄",
        "[image image/png, 128 bytes]",
        "⊘ $ Commit and push  (execute, cancelled)",
        "  ✓ Run the tests",
        "No more negative zero",
    ):
        assert f"{line}\n" in shown
    assert shown.endswith(
        "Mode: Ask first · Model: Rowan Large · 53k of 200k tokens, $0.05 · idle, cancelled\n"
    )
    assert "\ufffd" not in shown


@pytest.mark.parametrize("width", [30, 60, 200])
def test_the_live_client_shows_the_sample_with_the_same_rows(
    records: list[dict[str, Any]], width: int
) -> None:
    session = folded(records)
    live_area = LiveArea(session, lambda key: ())
    live_area.unfolded, live_area.fold_thoughts = True, False
    live_area.show_everything()
    blank, *rows = live_area.settle(width).settled
    assert blank == ()  # below what the client printed before
    encoder = RowEncoder("256", "utf-8")
    live = [encoder.text(row) for row in rows]
    shown = coloured(session, width).split("\n")
    assert shown[: len(live)] == live
    footer = bare("\n".join(shown[len(live) :]))
    assert footer.startswith("\nNo more negative zero\n")
    assert any(
        "\x1b[38;5;80m0 °C\x1b[0m" in row for row in live
    )  # a colour of the agent's terminal


def test_the_sample_can_be_shown_at_any_moment(records: list[dict[str, Any]]) -> None:
    for end in range(len(records)):
        assert plain(folded(records[:end])).endswith("\n")
