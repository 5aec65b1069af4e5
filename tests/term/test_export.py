"""A session as a document, in the format that the name of a file asks for."""

import json
from pathlib import Path
from typing import get_args

import pytest

from twofold.session import Session
from twofold.term.export import (
    SUFFIXES,
    ExportFormat,
    NotExported,
    Target,
    document,
    export,
    export_file,
    format_of,
    parse_target,
)
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


# ---- files, none overwritten unasked ------------------------------------------------------------

TARGETS: dict[str, tuple[str, Target]] = {
    "a name": ("talk.md", Target("talk.md", False)),
    "blanks": (" my talk.html ", Target("my talk.html", False)),
    "quotes": ("'my talk.txt'", Target("my talk.txt", False)),
    "force behind it": ("talk.jsonl --force", Target("talk.jsonl", True)),
    "force before it": ("--force talk.MD", Target("talk.MD", True)),
    "quotes and force": ('"--force x.md" --force', Target("--force x.md", True)),
}


@pytest.mark.parametrize(("argument", "target"), TARGETS.values(), ids=TARGETS)
def test_a_target_is_a_name_and_maybe_force(argument: str, target: Target) -> None:
    assert parse_target(argument) == target


@pytest.mark.parametrize("argument", ["", "--force", "talk", "talk.pdf", ".md", "''"])
def test_a_name_without_a_format_is_refused_with_the_suffixes(argument: str) -> None:
    with pytest.raises(NotExported, match=r"\.md"):
        parse_target(argument)


def test_a_file_is_written_once_and_again_only_by_force(tmp_path: Path) -> None:
    target = Target("talk.md", False)
    made = export_file(target, Session("first"), tmp_path)
    assert made.path == tmp_path / "talk.md"
    assert made.path.stat().st_size == made.size
    before = made.path.read_text()
    assert before.startswith("# Session first\n")
    with pytest.raises(NotExported, match=r"/export --force talk\.md"):
        export_file(target, Session("second"), tmp_path)
    assert made.path.read_text() == before
    export_file(Target("talk.md", True), Session("second"), tmp_path)
    assert made.path.read_text().startswith("# Session second\n")


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()
    for name, reason in (
        ("no/talk.md", "There is no directory"),
        ("folder.md", "is a directory"),
        ("a\0b.md", "null"),
        ("x" * 300 + ".md", "too long"),
    ):
        with pytest.raises(NotExported, match=reason):
            export_file(Target(name, True), Session("s"), tmp_path)
