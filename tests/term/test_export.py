"""A session as a document, in the format that the name of a file asks for."""

import json
from typing import get_args

import pytest

from twofold.session import Session
from twofold.term.export import SUFFIXES, ExportFormat, document, export, format_of
from twofold.view.blocks import HeadingBlock, RemarkBlock
from twofold.wire import codec, v2


def session() -> Session:
    made = Session("s")
    for kind, text in (("user_message", "Fix <it>"), ("agent_message", "**Done**")):
        content = [{"type": "text", "text": text}]
        update = {"sessionUpdate": kind, "messageId": kind, "content": content}
        made.apply(codec.read(update, v2.SessionUpdate))
    place = [{"path": "/home/me/a.py", "line": 3}]
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Read"}
    made.apply(codec.read({**call, "locations": place}, v2.SessionUpdate))
    return made


SHOWN: dict[ExportFormat, list[str]] = {
    "text": [
        "── Session s ──\ndemo · /home/me\n",
        "── Turn 1 ──",
        "> Fix <it>",
        "Done",
        "  a.py:3\n",
    ],
    "markdown": [
        "# Session s\n\ndemo · /home/me\n",
        "## Turn 1",
        "> Fix <it>",
        "**Done**",
        "`a.py:3`",
    ],
    "html": ["<h1>Session s</h1>", "<h2>Turn 1</h2>", "Fix &lt;it&gt;", "<strong>Done</strong>"],
    "jsonl": ['"sessionId":"s"', "**Done**", "/home/me/a.py"],
}


@pytest.mark.parametrize("form", get_args(ExportFormat))
def test_every_format_holds_the_whole_session(form: ExportFormat) -> None:
    made = export(session(), form, cwd="/home/me", facts=["demo"])
    for part in SHOWN[form]:
        assert part in made
    assert made.endswith("\n")


def test_json_lines_rebuild_the_session() -> None:
    again = Session("s")
    for line in export(session(), "jsonl").splitlines():
        again.apply(codec.read(json.loads(line)["update"], v2.SessionUpdate))
    assert again == session()


def test_the_title_of_a_session_is_its_heading() -> None:
    titled = session()
    info = {"sessionUpdate": "session_info_update", "title": "Fix\x1b[31m it"}
    titled.apply(codec.read(info, v2.SessionUpdate))
    assert export(titled, "markdown").startswith("# Fix it\n")


def test_the_suffix_of_a_file_names_the_format() -> None:
    assert {format_of(f"a.b{suffix.upper()}") for suffix in SUFFIXES} == set(get_args(ExportFormat))
    assert format_of("a.b/c.html") == "html"
    assert format_of("html") is None
    assert format_of("a.pdf") is None


def test_blocks_that_hold_nothing_make_an_empty_text() -> None:
    assert document([], "text") == ""
    assert document([HeadingBlock("A"), RemarkBlock("b")], "text") == "── A ──\n\n· b\n"
