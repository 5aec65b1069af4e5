"""What is shown of a session: text made safe, terminal output, diffs, the outline."""

import base64
import dataclasses
import json
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ValuesOf
from tests.support.sessions import session_of
from twofold.convert.losses import Losses
from twofold.convert.patches import git_patch
from twofold.convert.upgrade import upgrade_diff
from twofold.session import Session
from twofold.text import TerminalText, one_line, sanitize, terminal_text
from twofold.text.safe import harmless_json
from twofold.text.terminal import LONGEST_LINE, LONGEST_SEQUENCE
from twofold.view import (
    CompactionBlock,
    DescribedItem,
    DiffItem,
    DiffLine,
    FooterBlock,
    MessageBlock,
    NoticeBlock,
    PermissionBlock,
    PlanBlock,
    SubagentBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
    UnknownBlock,
    diff_lines,
    entry_block,
    outline,
)
from twofold.view.blocks import KIND_ICONS
from twofold.view.markdown import Paragraph, Span
from twofold.view.outline import PLAN_MARKS, STOP_REASONS, TOOL_GLYPHS
from twofold.wire import codec, v1, v2
from twofold.wire.shared import ToolKind

# Any string there is, halves of surrogate pairs included, rich in what must not pass.
NASTY = (
    *("\x1b", "\x1b[", "\x1b]", "\x1b\\", "\x07", "\x9b", "\x9d", "\x9c", "[31m", "0;title"),
    *("\r", "\n", "\t", "\0", "\x7f", "\u202e", "\u2066", "\u200b", "\u200d", "\ufe0f", "\ufeff"),
    *("\ud800", "\udfff", "a", "é", "👩", "\u2028", "\U000e0041", "\u3164", "\u061c", "\u200c"),
    *("1", "\u20e3", "\ufe0e", "م", "क", "ᠠ", "\u180b", "日", "\U000e0100", "\U0001bca0"),
)
any_text = st.text(st.characters(exclude_categories=[])) | st.lists(
    st.sampled_from(NASTY) | st.text(max_size=2), max_size=20
).map("".join)

# Default_Ignorable_Code_Point, as Unicode 15 lists it: nothing is drawn for these.
IGNORABLE = {
    *"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u3164\ufeff\uffa0",
    *map(chr, range(0x180B, 0x1810)),
    *map(chr, range(0x200B, 0x2010)),
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2060, 0x2070)),
    *map(chr, range(0xFE00, 0xFE10)),
    *map(chr, range(0xFFF0, 0xFFF9)),
    *map(chr, range(0x1BCA0, 0x1BCA4)),
    *map(chr, range(0x1D173, 0x1D17B)),
    *map(chr, range(0xE0000, 0xE1000)),
}
# Those that may pass in their place: joiners, and selectors of variants.
PLACED = {*"\u200c\u200d\u180b\u180c\u180d\u180f", *map(chr, range(0xFE00, 0xFE10))}
# Format characters that are drawn: signs before numbers and the like.
DRAWN = {*map(chr, range(0x600, 0x606)), *"\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"}
FORBIDDEN = IGNORABLE - PLACED


def is_safe(text: str) -> bool:
    """No control, format or ignorable character, but for joiners and selectors in their place."""
    for place, char in enumerate(text):
        if char in PLACED:
            before = text[place - 1] if place else ""
            # never beside a letter that is not joined, never two of them but in an emoji
            if not before or before in FORBIDDEN or before in "aé\ufffd \n":
                return False
            if before in PLACED and (before, char) != ("\ufe0f", "\u200d"):
                return False
        elif char in FORBIDDEN or (
            unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
            and char not in DRAWN
            and char not in "\n\t"
        ):
            return False
    return True


# ---- text ----------------------------------------------------------------------------------


@given(any_text)
def test_nothing_that_does_more_than_show_passes(text: str) -> None:
    safe = sanitize(text)
    assert is_safe(safe)
    safe.encode()


@given(any_text)
def test_safe_text_stays_as_it_is(text: str) -> None:
    assert sanitize(sanitize(text)) == sanitize(text)


@given(st.text(st.characters(exclude_categories=["C", "Z", "M", "Lo"])))
def test_visible_text_stays_as_it_is(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;https://example.com\x1b\\a link\x1b]8;;\x1b\\", "a link"),
        ("\x1bPq#0;2;0\x1b\\after an image", "after an image"),
        ("\x1b(Bcharset", "charset"),
        ("\x1b[31", "␛[31"),
        ("\x1b]0;never closed", "␛]0;never closed"),
        ("\x1bc", "␛c"),
        ("Windows\r\nlines", "Windows\nlines"),
        ("over\rwrite", "over␍write"),
        ("\0\x07\x7f", "␀␇␡"),
        ("\x85\x9f", "\ufffd\ufffd"),
        ("allow\u202eyned", "allow\ufffdyned"),
        ("pass\u200bwd", "pass\ufffdwd"),
        ("\ud83d alone", "\ufffd alone"),
        ("e\u200dvil", "e\ufffdvil"),
        ("👩\u200d💻 ❤\ufe0f\u200d🔥 می\u200cخواهم", "👩\u200d💻 ❤\ufe0f\u200d🔥 می\u200cخواهم"),
        ("a\ufe01\ufe02\ufe03", "a\ufffd\ufffd\ufffd"),
        ("日\ufe01\ufe02", "日\ufe01\ufffd"),
        ("1\ufe0f\u20e3 1\ufe0f", "1\ufe0f\u20e3 1\ufffd"),
        ("ᠠ\u180b a\u180b", "ᠠ\u180b a\ufffd"),
        ("ж\u200dж é\u200cé", "ж\ufffdж é\ufffdé"),
        ("क्\u200dष", "क्\u200dष"),
        ("👩\u200da 👩\u200d", "👩\ufffda 👩\ufffd"),
        ("🏴\U000e0067\U000e007f", "🏴\ufffd\ufffd"),
        ("a\U0001bca0\U00013430\u00ad", "a\ufffd\ufffd\ufffd"),
        ("größe, 日本語, हिन्दी", "größe, 日本語, हिन्दी"),
    ],
)
def test_what_is_not_to_be_seen_is_dropped_or_shown(text: str, shown: str) -> None:
    assert sanitize(text) == shown


@given(any_text, st.booleans())
def test_json_for_a_terminal_is_the_same_value_and_does_nothing_but_show(
    text: str, ascii_only: bool
) -> None:
    line = json.dumps({text: [text, 1]}, ensure_ascii=ascii_only).encode("utf-8", "replace")
    shown = harmless_json(line)
    assert json.loads(shown) == json.loads(line)
    assert is_safe(shown.decode())
    assert PLACED.isdisjoint(shown.decode())


@given(any_text)
def test_a_title_stays_on_one_line(text: str) -> None:
    assert not {"\n", "\t"}.intersection(one_line(text))
    assert is_safe(one_line(text))


# ---- terminals -----------------------------------------------------------------------------

PIECES = (
    *(b"\x1b", b"\x1b[", b"[", b"]", b"\x1b]0;", b"\x1bP", b"\x07", b"\x1b\\", b"\\", b"\x9c"),
    *(
        b"\xc2\x9b",
        b"\xc2\x9d",
        b"\xc2\x9c",
        b"31m",
        b"K",
        b"2K",
        b"1K",
        b"5G",
        b"m",
        b"(B",
        b"\x18",
    ),
    *(
        b"\r",
        b"\n",
        b"\r\n",
        b"\b",
        b"\t",
        b"\f",
        b"abc",
        b"\xe2\x9c\x93",
        b"\xf0\x9f",
        b"\xb0",
        b"\xff",
    ),
    *("👩\u200d💻".encode(), "\u200d".encode(), "\ufe0f\ufe0f".encode(), "\u202e".encode()),
)
terminal_output = st.binary() | st.lists(
    st.sampled_from(PIECES) | st.binary(max_size=3), max_size=30
).map(b"".join)


def fed(*pieces: bytes) -> str:
    text = TerminalText()
    for piece in pieces:
        text.feed(piece)
    return text.text


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted(place % (len(data) + 1) for place in places)
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


@given(terminal_output, st.lists(st.integers(0, 200)))
def test_any_split_of_the_output_gives_the_same_text(data: bytes, places: list[int]) -> None:
    assert fed(*cut(data, places)) == terminal_text(data)


@given(terminal_output)
def test_output_byte_by_byte_gives_the_same_text(data: bytes) -> None:
    assert fed(*(data[at : at + 1] for at in range(len(data)))) == terminal_text(data)


@given(terminal_output)
def test_the_text_of_a_terminal_is_safe(data: bytes) -> None:
    text = terminal_text(data)
    assert is_safe(text)
    assert sanitize(text) == text


@given(terminal_output, terminal_output)
def test_looking_at_the_text_does_not_change_it(before: bytes, after: bytes) -> None:
    text = TerminalText()
    text.feed(before)
    assert text.text == terminal_text(before)
    text.feed(after)
    assert text.text == terminal_text(before + after)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"plain\nlines\n", "plain\nlines\n"),
        (b"raw\r\nlines\r\n", "raw\nlines\n"),
        (b"\x1b[1m\x1b[38;5;2mok\x1b[0m done\r\n", "ok done\n"),
        (b"\x1b]0;title\x07shown", "shown"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b(B\x1b)0text\x1b=", "text"),
        (b"10%\r50%\r100%", "100%"),
        (b"a longer line\rshort", "shortger line"),
        (b"working\r\x1b[Kdone\n", "done\n"),
        (b"working\x1b[2K\x1b[1Gdone\n", "done\n"),
        (b"ab\x1b[1Kc", "  c"),
        (b"a\x1b[4Gb", "a  b"),
        (b"typo\b\b\b\bgood", "good"),
        (b"\b\bx", "x"),
        (b"N\bNA\bAM\bME\bE", "NAME"),
        (b"bell\x07 null\0", "bell null"),
        (b"caf\xc3\xa9 \xe2\x9c", "café "),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"waiting for \x1b[3", "waiting for "),
        (b"a tab\there", "a tab\there"),
        (b"page\fbreak", "page\nbreak"),
        (b"\x1b]0;no end of the title\nthe next line", "\nthe next line"),
        (b"\x1b]0;cut off\x1b[31mtext", "text"),
        (b"\x1b[\x1b[31mtext", "text"),
        ("\u202eevil".encode(), "\ufffdevil"),
    ],
)
def test_output_reads_as_it_would_on_a_terminal(output: bytes, text: str) -> None:
    assert terminal_text(output) == text


@pytest.mark.parametrize("start", [b"\x1b]", b"\x1bP", b"\x1b_", "\x9d".encode()])
def test_a_sequence_that_is_not_closed_is_given_up(start: bytes) -> None:
    words = b"x" * LONGEST_SEQUENCE
    assert terminal_text(start + words) == ""
    assert terminal_text(start + words + b"still here").endswith("still here")
    assert fed(start, words, b"still", b" here") == terminal_text(start + words + b"still here")


def test_a_control_sequence_without_an_end_is_given_up() -> None:
    assert terminal_text(b"\x1b[" + b"1" * 1000 + b"m").endswith("1m")


@pytest.mark.parametrize("size", [LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1])
@pytest.mark.parametrize("end", [b"", b"\n", b"\rnew", b"\x1b[1G\x1b[K"])
def test_a_line_without_end_is_read_in_pieces(size: int, end: bytes) -> None:
    line = b"ab" * (size // 2) + b"c" * (size % 2)
    text = terminal_text(line + end)
    assert fed(line[:1000], line[1000:], end[:1], end[1:]) == text
    if end == b"\n":
        assert text == line.decode() + "\n"


# ---- diffs ---------------------------------------------------------------------------------


def patched(text: str, *changes: v2.DiffChange) -> list[DiffLine]:
    patch = v2.DiffPatch(format="git_patch", text=text)
    return diff_lines(v2.Diff(changes=list(changes), patch=patch))


def pairs(lines: list[DiffLine]) -> list[tuple[str, str]]:
    return [(line.kind, line.text) for line in lines]


def test_a_patch_is_shown_line_by_line() -> None:
    text = (
        "diff --git /w/a.py /w/a.py\nindex 1..2 100644\n--- /w/a.py\n+++ /w/a.py\n"
        "@@ -1,3 +1,3 @@ def f():\n same\n--- removed, not a name\n+added\n\n"
        "\\ No newline at end of file\n"
    )
    assert pairs(patched(text, v2.DiffModify(path="/w/a.py"))) == [
        ("file", "/w/a.py"),
        ("hunk", "@@ -1,3 +1,3 @@ def f():"),
        ("context", "same"),
        ("removed", "-- removed, not a name"),
        ("added", "added"),
        ("context", ""),
    ]


def lifted(old: str | None, new: str) -> list[str]:
    """The lines of a diff of version 1, which may be a piece of a file, below its name."""
    diff = upgrade_diff(v1.Diff("/a", new, old), Losses(), "")
    return [f"{line.kind}: {line.text}" for line in diff_lines(diff)[2:]]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("alpha", "ALPHA", ["removed: alpha", "added: ALPHA"]),
        ("a\nb", "A\nb", ["removed: a", "added: A", "context: b"]),
        ("a\n", "b\n", ["removed: a", "added: b"]),
        ("a", "a\n", ["removed: a", "note: no newline at the end", "added: a"]),
        ("a\n", "b", ["removed: a", "added: b", "note: no newline at the end"]),
        (None, "a", ["added: a", "note: No newline at end of file"]),
        (None, "a\n", ["added: a"]),
    ],
)
def test_a_missing_newline_is_shown_once_and_only_where_it_is_a_difference(
    old: str | None, new: str, lines: list[str]
) -> None:
    assert lifted(old, new) == lines


def test_other_words_behind_a_backslash_stay_to_be_seen() -> None:
    text = "--- a\n+++ a\n@@ -1 +1 @@\n-x\n\\ evil words\n+y\n\\ No newline at end of file\n"
    assert [line.text for line in patched(text)[2:]] == [
        *("x", "evil words", "y", "no newline at the end"),
    ]


@pytest.mark.parametrize(
    ("kind", "text", "markdown"),
    [
        ("execute", "```console\nhi\n```", True),
        ("read", "```\nalpha\n```", True),
        ("execute", "# not a heading\n* not an item", False),
        ("read", "# Readme\n```\ncode\n```\n", False),
        ("other", "Found:\n```\ncode\n```\n", True),
        ("other", "# maybe a comment", False),
        ("other", "one ``` only\n```", False),
        ("fetch", "**bold**?", False),
        ("think", "**bold**", True),
        ("switch_mode", "# The plan", True),
    ],
)
def test_text_of_a_tool_call_is_markdown_only_where_the_agent_wrote_markdown(
    kind: str, text: str, markdown: bool
) -> None:
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    block = only_call(session_of(call(kind=kind, content=content)))
    assert block.items == (TextItem(text, markdown),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (v2.DiffAdd(path="/a"), "/a (new file)"),
        (v2.DiffDelete(path="/a"), "/a (deleted)"),
        (v2.DiffModify(path="/a"), "/a (modified)"),
        (v2.DiffModify(path="/a.png", file_type="binary"), "/a.png (modified, binary)"),
        (v2.DiffMove(old_path="/a", path="/b"), "/a → /b (moved)"),
        (v2.DiffCopy(old_path="/a", path="/b"), "/a → /b (copied)"),
        (v2.DiffAdd(path="/a\x1b[31m\nb"), "/a b (new file)"),
        (
            codec.read({"operation": "sharpen", "path": "/a"}, v2.DiffChange),
            "/a (sharpen)",
        ),
    ],
)
def test_a_change_without_a_patch_is_described(change: v2.DiffChange, words: str) -> None:
    assert pairs(diff_lines(v2.Diff(changes=[change]))) == [("file", words)]


def test_a_change_that_the_patch_leaves_out_is_described_too() -> None:
    text = git_patch("/w/a.py", "old\n", "new\n")
    lines = patched(text, v2.DiffDelete(path="/etc/passwd"), v2.DiffModify(path="/w/a.py"))
    assert [line.text for line in lines if line.kind == "file"] == [
        "/w/a.py",
        "/etc/passwd (deleted)",
    ]


def test_a_file_of_the_patch_that_no_change_names_keeps_its_name() -> None:
    lines = patched(git_patch("/etc/passwd", "old\n", "new\n"), v2.DiffModify(path="/w/a.py"))
    assert [line.text for line in lines if line.kind == "file"] == [
        "/etc/passwd",
        "/w/a.py (modified)",
    ]


def test_a_relative_name_is_shown_as_the_absolute_path_of_its_change() -> None:
    text = "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n"
    lines = patched(text, v2.DiffModify(path="/w/src/a.py"))
    assert [line.text for line in lines if line.kind == "file"] == ["/w/src/a.py"]
    assert patched(text)[0] == DiffLine("file", "src/a.py")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n",
            [("file", "a → b (moved)")],
        ),
        (
            "diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n",
            [("file", "x.png (binary)")],
        ),
        (
            "diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\nliteral 3\nKcmZ\n\n",
            [("file", "x (new file, binary)")],
        ),
        (
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
            [("file", "x"), ("note", "old mode 100644"), ("note", "new mode 100755")],
        ),
        (
            'diff --git "a/\\303\\244" "b/\\303\\244"\ndeleted file mode 100644\n',
            [("file", "ä (deleted)")],
        ),
        (
            "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hello\n",
            [("file", "new.txt (new file)"), ("hunk", "@@ -0,0 +1 @@"), ("added", "hello")],
        ),
        (
            "Here is the change:\n\n--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n+one too many\n",
            [
                ("note", "Here is the change:"),
                ("file", "a"),
                ("hunk", "@@ -1 +1 @@"),
                ("removed", "x"),
                ("added", "y"),
                ("added", "one too many"),
            ],
        ),
        (
            "--- a\r\n+++ a\r\n@@ -1,2 +1,2 @@\r\n same\r\n-x\r\n+y\n",
            [
                ("file", "a"),
                ("hunk", "@@ -1,2 +1,2 @@"),
                ("context", "same"),
                ("removed", "x␍"),
                ("added", "y"),
            ],
        ),
        ("not a patch at all", [("note", "not a patch at all")]),
        ("", []),
    ],
)
def test_a_patch_of_any_sort_is_read_as_far_as_it_goes(
    text: str, shown: list[tuple[str, str]]
) -> None:
    assert pairs(patched(text)) == shown


def test_a_patch_of_an_unknown_format_is_shown_as_it_is() -> None:
    patch = v2.DiffPatch(format="ed", text="1d\n\x1b[2Jw\n")
    assert pairs(diff_lines(v2.Diff(changes=[v2.DiffModify(path="/a")], patch=patch))) == [
        ("file", "/a (modified)"),
        ("note", "a patch of the format ed:"),
        ("context", "1d"),
        ("context", "w"),
    ]


def test_the_drafts_of_june_and_july_are_read() -> None:
    july = v2.JulyDiff(
        changes=[v2.DiffModify(path="/a")],
        patch=v2.JulyDiffPatch(format="git_patch", diff=git_patch("/a", "x\n", "y\n")),
    )
    june = v2.JuneDiff(path="/a", old_text="x\n", new_text="y\n")
    assert diff_lines(july) == diff_lines(june)
    assert pairs(diff_lines(v2.JuneDiff(path="/a", new_text="x\ny"))) == [
        ("file", "/a (new file)"),
        ("added", "x"),
        ("added", "y"),
    ]
    assert pairs(diff_lines(v2.JuneDiff(path="/a", old_text="x", new_text="x\n")))[1:] == [
        ("note", "only the newline at the end of the file changed")
    ]


some_lines = st.lists(st.sampled_from(["a", "b", "c", "", "- x", "+++ y", "@@ z", "longer"]))
files = some_lines.map(lambda lines: "".join(f"{line}\n" for line in lines))
SIGNS = {"added": "+", "removed": "-", "context": " ", "hunk": ""}


@given(files, files)
def test_every_line_of_a_patch_is_shown_for_what_it_is(old: str, new: str) -> None:
    text = git_patch("/a", old, new)
    lines = patched(text, v2.DiffModify(path="/a"))
    shown = [SIGNS[line.kind] + line.text for line in lines if line.kind != "file"]
    assert shown == text.split("\n")[3:-1]


@given(files, files)
def test_a_diff_of_two_texts_accounts_for_every_line(old: str, new: str) -> None:
    lines = diff_lines(v2.JuneDiff(path="/a", old_text=old, new_text=new))
    removed = Counter(line.text for line in lines if line.kind == "removed")
    added = Counter(line.text for line in lines if line.kind == "added")
    before, after = Counter(old.split("\n")[:-1]), Counter(new.split("\n")[:-1])
    assert removed <= before
    assert before - removed + added == after


def test_of_two_long_texts_only_what_is_near_a_change_is_shown() -> None:
    old = "".join(f"{n}\n" for n in range(20_000))
    new = old.replace("\n100\n", "\nfirst\n").replace("\n19000\n", "\nlast\n")
    lines = pairs(diff_lines(v2.JuneDiff(path="/a", old_text=old, new_text=new)))
    assert lines[:6] == [
        ("file", "/a"),
        ("hunk", "@@ -98,7 +98,7 @@"),
        *(("context", str(97 + n)) for n in range(3)),
        ("removed", "100"),
    ]
    assert len(lines) == 1 + 2 * 9
    assert lines[-4:] == [("added", "last"), *(("context", str(19001 + n)) for n in range(3))]


patch_pieces = st.sampled_from([*NASTY, "--- ", "+++ ", "@@ -1 +1 @@", "diff --git ", '"'])


@given(st.text() | st.lists(patch_pieces).map("".join))
def test_no_patch_makes_the_view_raise(text: str) -> None:
    assert all(is_safe(line.text) and "\n" not in line.text for line in patched(text))


# ---- the outline ---------------------------------------------------------------------------


def chunk(role: str, message_id: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"sessionUpdate": f"{role}_chunk", "messageId": message_id, "content": content}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(**fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c", **fields}


def only_call(session: Session) -> ToolCallBlock:
    block = outline(session)[0]
    assert isinstance(block, ToolCallBlock)
    return block


def last(session: Session) -> FooterBlock:
    block = outline(session)[-1]
    assert isinstance(block, FooterBlock)
    return block


def test_entries_come_in_order_and_the_state_last() -> None:
    session = session_of(
        chunk("user_message", "u", text("Hello")),
        chunk("agent_thought", "t", text("Hm.")),
        call(title="Look"),
        chunk("agent_message", "a", text("Hi ")),
        {"sessionUpdate": "notice", "severity": "warning", "title": "Slow"},
        chunk("agent_message", "a", text("there")),
    )
    blocks = outline(session)
    assert [type(block) for block in blocks] == [
        *(MessageBlock, MessageBlock, ToolCallBlock, MessageBlock),
        *(NoticeBlock, FooterBlock),
    ]
    assert blocks[0] == MessageBlock("user", (TextItem("Hello"),))
    assert blocks[1] == MessageBlock("thought", (TextItem("Hm."),))
    assert blocks[3] == MessageBlock("agent", (Paragraph((Span("Hi there"),)),))
    assert blocks[:4] == [entry_block(session, entry) for entry in session.entries]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            {"type": "image", "data": "A" * 16000, "mimeType": "image/png"},
            "[image image/png, 12 KB]",
        ),
        ({"type": "image", "data": "AA==", "mimeType": "image/png"}, "[image image/png, 1 byte]"),
        (
            {"type": "image", "data": "", "mimeType": "image/png", "uri": "https://x/y.png"},
            "[image image/png, https://x/y.png]",
        ),
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "[audio audio/wav, 3 bytes]"),
        (
            {"type": "resource_link", "name": "a.py", "uri": "file:///a.py", "size": 3_400_000},
            "[link a.py, file:///a.py, 3.4 MB]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a.py", "text": "1\n2\n"}},
            "[resource file:///a.py, 2 lines]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}},
            "[resource file:///a, 3 bytes]",
        ),
        ({"type": "hologram", "depth": 3}, "[unknown content: hologram]"),
        ({"type": "\x1b[2J\n", "depth": 3}, "[unknown content: ]"),
    ],
)
def test_content_that_is_not_text_is_described(content: dict[str, Any], words: str) -> None:
    session = session_of(
        chunk("agent_message", "a", text("See:")),
        chunk("agent_message", "a", content),
        chunk("agent_message", "a", text("Nice.")),
    )
    assert outline(session)[0] == MessageBlock(
        "agent",
        (Paragraph((Span("See:"),)), DescribedItem(words), Paragraph((Span("Nice."),))),
    )


def test_an_escape_sequence_split_over_chunks_is_dropped_whole() -> None:
    session = session_of(
        chunk("agent_message", "a", text("\x1b[3")), chunk("agent_message", "a", text("1mred"))
    )
    assert outline(session)[0] == MessageBlock("agent", (Paragraph((Span("red"),)),))


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, ("○", "pending", "other", "other")),
        (
            {"title": "Read", "kind": "read", "status": "completed"},
            ("✓", "completed", "read", "Read"),
        ),
        ({"name": "grep", "kind": "search"}, ("○", "pending", "search", "grep")),
        ({"title": " \n", "name": "grep"}, ("○", "pending", "other", "grep")),
        ({"kind": "execute", "status": "failed"}, ("✗", "failed", "execute", "execute")),
        ({"status": "cancelled"}, ("⊘", "cancelled", "other", "other")),
        ({"status": "polishing", "kind": "polish"}, ("◐", "in progress", "other", "other")),
        ({"status": "waiting"}, ("◐", "in progress", "other", "other")),
        ({"status": "paused"}, ("◑", "paused", "other", "other")),
    ],
)
def test_a_tool_call_has_a_glyph_a_status_a_kind_and_a_title(
    fields: dict[str, Any], shown: tuple[str, ...]
) -> None:
    block = only_call(session_of(call(**fields)))
    assert (block.glyph, block.word, block.kind, block.title) == shown


def test_locations_are_shown_with_their_line() -> None:
    block = only_call(session_of(call(locations=[{"path": "/a.py", "line": 3}, {"path": "/b.py"}])))
    assert [str(location) for location in block.locations] == ["/a.py:3", "/b.py"]


def test_a_terminal_is_shown_where_a_tool_call_refers_to_it() -> None:
    reference = call(content=[{"type": "terminal", "terminalId": "t"}])
    session = session_of(reference)
    assert only_call(session).items == (
        TerminalItem(None, None, "", received=False, exit=None, succeeded=False),
    )
    for update in (
        {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls", "cwd": "/w"},
        {
            "sessionUpdate": "terminal_output_chunk",
            "terminalId": "t",
            "data": base64.b64encode(b"\x1b[32mfile\x1b[0m\r\n").decode(),
        },
    ):
        session.apply(codec.read(update, v2.SessionUpdate))
    running = TerminalItem("ls", "/w", "file\n", received=True, exit=None, succeeded=False)
    assert only_call(session).items == (running,)


@pytest.mark.parametrize(
    ("status", "words", "succeeded"),
    [
        ({"exitCode": 0}, "exit code 0", True),
        ({"exitCode": 2, "signal": None}, "exit code 2", False),
        ({"signal": "SIGKILL"}, "ended by SIGKILL", False),
        ({}, "ended", False),
    ],
)
def test_the_end_of_a_terminal_is_shown(
    status: dict[str, Any], words: str, succeeded: bool
) -> None:
    session = session_of(
        {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": status},
        call(content=[{"type": "terminal", "terminalId": "t"}]),
    )
    (item,) = only_call(session).items
    assert isinstance(item, TerminalItem)
    assert (item.exit, item.succeeded) == (words, succeeded)


def test_the_raw_input_is_shown_when_there_is_nothing_else() -> None:
    given = call(rawInput={"command": "make \x1b[2J"}, rawOutput="done")
    assert only_call(session_of(given)).items == (
        TextItem('input: {"command": "make \\u001b[2J"}'),
        TextItem("output: done"),
    )
    with_content = call(content=[{"type": "content", "content": text("built")}])
    assert only_call(session_of(given, with_content)).items == (TextItem("built"),)
    (item,) = only_call(session_of(call(rawInput="x" * 5000))).items
    assert isinstance(item, TextItem)
    assert item.text.endswith("x … and 3,000 characters more")


def test_a_diff_and_unknown_content_are_shown_in_their_tool_call() -> None:
    diff = {"type": "diff", "changes": [{"operation": "delete", "path": "/a"}]}
    session = session_of(call(content=[diff, {"type": "hologram"}]))
    assert only_call(session).items == (
        DiffItem((DiffLine("file", "/a (deleted)"),)),
        DescribedItem("[unknown content: hologram]"),
    )


OPTIONS = [
    {"optionId": "1", "name": "Yes", "kind": "allow_once"},
    {"optionId": "2", "name": "Perhaps", "kind": "ask_mother"},
]


def asked(session: Session, request_id: int, **fields: Any) -> None:
    request = {"sessionId": "s", "title": "May I?", "options": OPTIONS, **fields}
    session.ask(request_id, codec.read(request, v2.RequestPermissionRequest))


def test_a_tool_call_that_needs_permission_is_shown_as_waiting() -> None:
    session = session_of(call(title="Push", status="in_progress"))
    asked(session, 7, subject={"type": "tool_call", "toolCall": {"toolCallId": "c"}})
    block = only_call(session)
    assert (block.glyph, block.word) == ("?", "waiting for permission")
    (permission,) = block.permissions
    assert (permission.request_id, permission.title) == (7, "May I?")
    assert [(option.name, option.kind) for option in permission.options] == [
        ("Yes", "allow_once"),
        ("Perhaps", "ask_mother"),
    ]
    session.settle(7)
    block = only_call(session)
    assert (block.glyph, block.permissions) == ("◐", ())


def test_a_question_about_a_command_shows_the_command() -> None:
    session = session_of()
    command = {"type": "command", "command": "rm -rf build\x1b[8m\nrm -rf /", "cwd": "/w"}
    asked(session, 1, subject={**command, "toolCallId": "unknown"})
    asked(session, 2, subject={"type": "spell"}, description="Magic.")
    first, second, _ = outline(session)
    assert isinstance(first, PermissionBlock)
    assert (first.command, first.cwd) == ("rm -rf build\nrm -rf /", "/w")
    assert isinstance(second, PermissionBlock)
    assert second.description == "Magic.\n[unknown subject: spell]"


def plan(**fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "plan_update", "plan": {"planId": "p", **fields}}


def test_a_plan_has_a_mark_for_every_step() -> None:
    statuses = ["completed", "in_progress", "pending", "cancelled", "postponed"]
    steps = [{"content": status, "priority": "low", "status": status} for status in statuses]
    block = outline(session_of(plan(type="items", entries=steps)))[0]
    assert isinstance(block, PlanBlock)
    assert "".join(step.mark for step in block.steps) == "✓◐○✗◐"
    assert [step.text for step in block.steps] == statuses


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"type": "markdown", "content": "# Plan"}, "# Plan"),
        ({"type": "file", "uri": "file:///plan.md"}, "[plan in file:///plan.md]"),
        ({"type": "mindmap", "nodes": []}, "[unknown plan: mindmap]"),
    ],
)
def test_a_plan_of_another_sort_is_shown_too(fields: dict[str, Any], shown: str) -> None:
    assert outline(session_of(plan(**fields)))[0] == PlanBlock((), shown)


def test_the_rest_of_the_state_is_shown_after_the_entries() -> None:
    session = session_of(
        {"sessionUpdate": "notice", "severity": "error", "title": "Oh", "description": "no"},
        {
            "sessionUpdate": "compaction_update",
            "compactionId": "1",
            "status": "completed",
            "summary": [text("Short.")],
        },
        {
            "sessionUpdate": "subagent_update",
            "sessionId": "sub",
            "title": "Helper",
            "state": {"state": "idle", "stopReason": "end_turn"},
        },
        {"sessionUpdate": "_acme/mood", "mood": "good"},
        {"sessionUpdate": "_acme/mood", "mood": "better"},
    )
    assert outline(session)[:-1] == [
        NoticeBlock("error", "Oh", "no"),
        CompactionBlock("completed", (TextItem("Short."),), None),
        SubagentBlock("Helper", None, "idle, end of turn"),
        UnknownBlock("_acme/mood", 2),
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"used": 53_418, "size": 200_000}, "53k of 200k tokens"),
        (
            {"used": 53_418, "size": 200_000, "cost": {"amount": 0.0512, "currency": "USD"}},
            "53k of 200k tokens, $0.05",
        ),
        (
            {"used": 812, "size": 1_000_000, "cost": {"amount": 1234, "currency": "EUR"}},
            "812 of 1M tokens, €1,234.00",
        ),
        ({"used": 1_549, "size": 0}, "1.5k tokens"),
        (
            {"used": 999_999, "size": 2_560_000, "cost": {"amount": 0.0042, "currency": "CHF"}},
            "1M of 2.6M tokens, 0.0042 CHF",
        ),
        ({"used": 0, "size": 1, "cost": {"amount": 0, "currency": "GBP"}}, "0 of 1 tokens, £0.00"),
    ],
)
def test_usage_is_read_at_a_glance(fields: dict[str, Any], words: str) -> None:
    assert last(session_of({"sessionUpdate": "usage_update", **fields})).usage == words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"state": "running"}, "running"),
        ({"state": "idle", "stopReason": "end_turn"}, "idle, end of turn"),
        ({"state": "idle", "stopReason": "tired"}, "idle, tired"),
        (
            {
                "state": "idle",
                "stopReason": "error",
                "error": {"code": -32603, "message": "Oh\nno"},
            },
            "idle, an error: Oh no",
        ),
        ({"state": "requires_action"}, "waiting for you"),
        ({"state": "dreaming"}, "dreaming"),
        (
            {"state": "idle", "background": [{"type": "terminal", "terminalId": "t"}]},
            "idle, 1 in the background",
        ),
    ],
)
def test_the_state_is_shown_with_its_reason(fields: dict[str, Any], words: str) -> None:
    assert last(session_of({"sessionUpdate": "state_update", **fields})).state == words


def test_the_settings_go_by_their_names() -> None:
    mode: dict[str, Any] = {
        "type": "select",
        "configId": "session-mode",
        "name": "Mode",
        "category": "mode",
        "currentValue": "ask",
        "options": [{"value": "ask", "name": "Ask first"}],
    }
    grouped = {"groupId": "g", "name": "G", "options": [{"value": "l", "name": "Large"}]}
    model = mode | {"configId": "m", "name": "Model", "category": "model", "currentValue": "l"}
    fast = {"type": "boolean", "configId": "f", "name": "Fast", "currentValue": False}
    options = [
        mode,
        model | {"options": [grouped]},
        fast,
        mode | {"configId": "x", "name": "X", "currentValue": "gone"},
        {"type": "dial", "configId": "d", "name": "Dial"},
    ]
    block = last(session_of({"sessionUpdate": "config_option_update", "configOptions": options}))
    assert [(setting.name, setting.value) for setting in block.settings] == [
        ("Mode", "Ask first"),
        ("Model", "Large"),
        ("Fast", "off"),
        ("X", "gone"),
    ]


def test_while_a_cancel_is_on_its_way_open_tool_calls_show_it() -> None:
    session = session_of(
        {"sessionUpdate": "state_update", "state": "running"}, call(status="in_progress")
    )
    session.cancel()
    block = only_call(session)
    assert (block.glyph, block.word) == ("⊘", "cancelling")
    assert last(session).cancelling
    idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
    session.apply(codec.read(idle, v2.SessionUpdate))
    assert not last(session).cancelling


def known(shape: Any) -> set[str]:
    """The values of an open enumeration on the wire."""
    return set(get_args(shape)[1].values)


@pytest.mark.parametrize(
    ("table", "shape"),
    [
        (TOOL_GLYPHS, v2.ToolCallStatus),
        (PLAN_MARKS, v2.PlanEntryStatus),
        (STOP_REASONS, v2.StopReason),
        (set(KIND_ICONS), ToolKind),
    ],
)
def test_every_value_of_the_wire_can_be_shown(table: Any, shape: Any) -> None:
    assert set(table) == known(shape)


def strings(value: Any) -> Iterator[str]:
    """Every string in a block."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from strings(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if field.metadata.get("shown", True):
                yield from strings(getattr(value, field.name))


def assert_shown_safely(session: Session) -> None:
    blocks = outline(session)
    assert len(blocks) >= len(session.entries) + 1
    for block in blocks:
        hash(block)
        for string in strings(block):
            assert is_safe(string), string


@given(st.data())
def test_whatever_peers_send_a_safe_outline_comes_of_it(
    values_of: ValuesOf, data: st.DataObject
) -> None:
    session = Session("s")
    updates = values_of(2, "unstable", "SessionUpdate")
    for update in data.draw(st.lists(updates, max_size=5)):
        session.apply(codec.read(update, v2.SessionUpdate))
    request = data.draw(st.none() | values_of(2, "unstable", "RequestPermissionRequest"))
    if request is not None:
        session.ask(1, codec.read(request, v2.RequestPermissionRequest))
    session.cancelling = data.draw(st.booleans())
    assert_shown_safely(session)


contents = st.one_of(
    any_text.map(text),
    st.builds(
        lambda mime, data: {"type": "image", "mimeType": mime, "data": data}, any_text, any_text
    ),
    st.builds(
        lambda name, uri: {"type": "resource_link", "name": name, "uri": uri}, any_text, any_text
    ),
    any_text.map(lambda tag: {"type": f"_{tag}"}),
)
tool_contents = st.one_of(
    contents.map(lambda content: {"type": "content", "content": content}),
    st.just({"type": "terminal", "terminalId": "t"}),
    st.builds(
        lambda path, old, new: {"type": "diff", "path": path, "oldText": old, "newText": new},
        *(any_text, st.none() | any_text, any_text),
    ),
    st.builds(
        lambda path, patch: {
            "type": "diff",
            "changes": [{"operation": "modify", "path": path}],
            "patch": {"format": "git_patch", "text": patch},
        },
        *(any_text, any_text),
    ),
    any_text.map(lambda tag: {"type": f"_{tag}"}),
)
hostile_updates = st.one_of(
    st.builds(chunk, st.sampled_from(["user_message", "agent_thought"]), st.just("m"), contents),
    st.builds(
        lambda title, kind, status, content, path, raw: call(
            title=title,
            kind=kind,
            status=status,
            content=content,
            locations=[{"path": path}],
            rawInput=raw,
        ),
        *(any_text, any_text, any_text, st.lists(tool_contents), any_text, any_text),
    ),
    st.builds(
        lambda command, output: {
            "sessionUpdate": "terminal_update",
            "terminalId": "t",
            "command": command,
            "output": {"data": base64.b64encode(output).decode()},
            "exitStatus": {"signal": command},
        },
        *(any_text, terminal_output),
    ),
    any_text.map(lambda tag: {"sessionUpdate": f"_{tag}"}),
    any_text.map(lambda title: {"sessionUpdate": "session_info_update", "title": title}),
    any_text.map(lambda content: plan(type="markdown", content=content)),
    any_text.map(
        lambda word: {"sessionUpdate": "state_update", "state": word or "x", "stopReason": word}
    ),
    any_text.map(
        lambda word: {
            "sessionUpdate": "usage_update",
            "used": 1,
            "size": 2,
            "cost": {"amount": 1e300, "currency": word},
        }
    ),
)


@given(st.lists(hostile_updates), any_text)
def test_hostile_text_is_made_safe_in_every_field(
    updates: list[dict[str, Any]], words: str
) -> None:
    session = session_of(*updates)
    options = [{"optionId": "o", "name": words, "kind": words}]
    subject = {"type": "command", "command": words, "cwd": words}
    asked(session, 1, title=words, description=words, subject=subject, options=options)
    assert_shown_safely(session)


def test_no_character_of_a_forbidden_class_passes_between_letters() -> None:
    shown = sanitize("a" + "a".join(map(chr, range(0x110000))))
    assert is_safe(shown)
    assert PLACED.isdisjoint(shown)


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([b"line\n", b"one\ntwo\n"]), max_size=20),
    st.integers(1, 60),
)
def test_a_limit_keeps_the_end_of_the_text(pieces: list[bytes], limit: int) -> None:
    whole, bounded = TerminalText(), TerminalText(limit)
    for piece in pieces:
        whole.feed(piece)
        bounded.feed(piece)
    assert bounded.text == whole.text[max(0, len(whole.text) - limit) :]
