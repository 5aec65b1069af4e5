"""A session as a Markdown document: nothing of a peer leaves its own place in it."""

import re
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.support.sessions import session_of
from tests.support.strategies import v2_struct_streams
from twofold.session import Session
from twofold.text.safe import one_line, sanitize
from twofold.view.as_markdown import closed, escaped, fenced, markdown_document, quoted
from twofold.view.blocks import (
    Block,
    DiffItem,
    FooterBlock,
    HeadingBlock,
    PlanBlock,
    PlanStep,
    RemarkBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
)
from twofold.view.diff import DiffLine
from twofold.view.timeline import outline, turn_headings
from twofold.wire import v2

READER: Final = MarkdownIt("commonmark")
PIECES: Final = [
    *("```", "````", "~~~", "``", "`", "```py", "> ", "- ", "# ", "---", "<!--", "-->", "<script>"),
    *(
        "</script>",
        "<pre>",
        "<style>",
        "<?",
        "<![CDATA[",
        "1. ",
        "*",
        "_",
        "[a](b)",
        "|",
        "\\",
        "   ",
    ),
    *("    code", "\n", "text", "&amp;", "<div>", "~~", "=", "  ```"),
]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=10).map(
    lambda pieces: sanitize("\n".join(pieces))
)
lines = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=8).map(
    lambda pieces: one_line("".join(pieces))
)
END: Final = "## The end"


def ends(document: str) -> bool:
    """Whether the heading after a document is a heading."""
    tokens = READER.parse(f"{document}\n\n{END}\n")
    return [token.type for token in tokens[-3:]] == [
        "heading_open",
        "inline",
        "heading_close",
    ] and (tokens[-2].content == "The end" and tokens[-3].level == 0)


@given(texts)
def test_text_in_a_fence_is_read_back_as_it_was(text: str) -> None:
    (token,) = READER.parse(fenced(text))
    assert token.type == "fence"
    assert token.content == text.removesuffix("\n") + "\n"
    assert ends(fenced(text))


@given(lines)
def test_a_line_that_is_escaped_is_shown_as_it_was(text: str) -> None:
    tokens = READER.parse(f"**Title:** {escaped(text)}")
    children = tokens[1].children or []
    assert {child.type for child in children} <= {
        "text",
        "strong_open",
        "strong_close",
        "text_special",
    }
    shown = "".join([child.content for child in children])
    assert shown == f"Title: {text}".rstrip()


@given(lines.filter(bool))
def test_an_escaped_line_begins_no_heading_and_no_list(text: str) -> None:
    types = {token.type for token in READER.parse(escaped(text))}
    assert types == {"paragraph_open", "inline", "paragraph_close"}


@given(texts)
@example("</script>\n```\n   ")
@example("- a\n  ```\nb")
@example("- <div>\n  ```\n\nb")
@example("1. a\n\n   ~~~\n~~~~\nb")
def test_what_an_agent_wrote_takes_in_nothing_that_follows_it(text: str) -> None:
    assert ends(closed(text))


@pytest.mark.parametrize(
    "text",
    [
        "1. Install it:\n\n   ```sh\n   npm i\n   ```\n2. Run it.",
        "- a\n  ```html\n  <script>\n  ```\n\n```\n<pre>\n```",
        "<details>\n<summary>More</summary>\n\n```\ncode\n```\n\n</details>",
    ],
)
def test_fences_that_are_closed_stay_as_they_were(text: str) -> None:
    assert closed(text) == text


@given(texts)
def test_what_an_agent_wrote_stays_as_it_was(text: str) -> None:
    made = closed(text)
    before = text.strip("\n")
    assert made.replace("\\<", "<").startswith(before.replace("\\<", "<"))
    assert set(made.replace("\\<", "<")[len(before.replace("\\<", "<")) :]) <= set("\n`~<!->")


@given(texts)
def test_a_quote_holds_all_of_the_text_and_nothing_else(text: str) -> None:
    assert re.sub("(?m)^> ?", "", quoted(text)) == text.strip("\n")
    assert ends(quoted(text))


@given(v2_struct_streams(max_size=15))
def test_no_session_makes_a_document_that_swallows_its_end(updates: list[v2.SessionUpdate]) -> None:
    session = Session("s")
    for update in updates:
        session.apply(update)
    assert ends(markdown_document(outline(session, turn_headings(session))))


def message(kind: str, text: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "messageId": kind, "content": [{"type": "text", "text": text}]}


def document(*updates: dict[str, Any]) -> str:
    return markdown_document(outline(session_of(*updates))[:-1])


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("agent_message", "# Done\n\n* **two** files\n", "# Done\n\n* **two** files\n"),
        ("agent_message", "```py\nx = 1", "```py\nx = 1\n```\n"),
        ("agent_message", "<!-- hidden", "\\<!-- hidden\n"),
        ("user_message", "Do it\n\nnow", "**User:**\n\n> Do it\n>\n> now\n"),
        ("agent_thought", "Hm.", "*Thought:*\n\n> Hm.\n"),
    ],
)
def test_messages_are_shown_as_they_were_sent(kind: str, text: str, shown: str) -> None:
    assert document(message(kind, text)) == shown


def test_a_tool_call_is_a_heading_with_its_status_and_results() -> None:
    rows = (
        DiffLine("file", "a.py"),
        DiffLine("hunk", "@@ -1 +1 @@"),
        DiffLine("removed", "x"),
        DiffLine("added", "y"),
        DiffLine("context", "z"),
        DiffLine("note", "no newline at the end"),
        DiffLine("file", "b.py (new file)"),
        DiffLine("added", "```"),
    )
    terminal = TerminalItem("make\nall", "/w", "ok\n", True, exit="exit code 2", succeeded=False)
    items = (TextItem("some text"), DiffItem(rows), terminal)
    call = ToolCallBlock(
        "✗", "failed", "edit", "Edit *it*", (), items, (), 0, ("permission allowed",)
    )
    assert markdown_document([call]) == (
        "### ✗ Edit \\*it\\*\n\n*edit, failed*\n\n```\nsome text\n```\n\n"
        "`a.py`\n\n```diff\n@@ -1 +1 @@\n-x\n+y\n z\n\\ no newline at the end\n```\n\n"
        "`b.py (new file)`\n\n````diff\n+```\n````\n\n"
        "```console\n$ make\n> all\nok\n```\n\n*in /w, exit code 2*\n\n- permission allowed\n"
    )


def test_a_plan_is_a_list_of_tasks() -> None:
    steps = (
        PlanStep("✓", "completed", "one"),
        PlanStep("◐", "in_progress", "two"),
        PlanStep("○", "pending", "three"),
        PlanStep("✗", "cancelled", "four"),
    )
    assert markdown_document([PlanBlock(steps)]) == (
        "### Plan\n\n- [x] one\n- [ ] two (in progress)\n- [ ] three\n- [ ] ~~four~~\n"
    )


def test_headings_remarks_and_the_state_are_shown() -> None:
    blocks: list[Block] = [
        HeadingBlock("Fix it", ("demo", "/w")),
        HeadingBlock("Turn 1", ("12:00",), 2),
        RemarkBlock("end of turn"),
        FooterBlock(None, (), "5 tokens", "idle", cancelling=False),
    ]
    assert markdown_document(blocks) == (
        "# Fix it\n\ndemo · /w\n\n## Turn 1 · 12:00\n\n*end of turn*\n\n*5 tokens · idle*\n"
    )


def test_nothing_is_an_empty_document() -> None:
    assert markdown_document([]) == ""
