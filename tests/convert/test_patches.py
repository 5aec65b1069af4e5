"""Patches written, patches read, and Git as the judge of both."""

import os
import random
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twofold.convert.line_diff import changed_lines
from twofold.convert.patches import BadPatch, FilePatch, git_patch, parse_patch, read_patch

P = "/home/user/project/src/config.json"

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")

# Few lines, so that some are equal; \x0b, \x85, \u2028 and a lone \r end no line.
odd_lines = st.sampled_from(
    [
        "",
        "a",
        "b",
        "}",
        "-- x",
        "++ x",
        "a\r",
        "\r",
        " a",
        "\\",
        "x\x0by",
        "x\u2028y",
        "\x85",
        "é😀",
    ]
)
texts = st.builds(
    lambda lines, end: "\n".join(lines) + end,
    st.lists(odd_lines | st.text(max_size=5), max_size=40),
    st.sampled_from(["", "\n"]),
)
# What any file system takes, and what only a patch has to take.
names = st.text("ab.-~é😀 \t\n\r\x7f\x01\"\\'", min_size=1, max_size=20).filter(
    lambda name: name.strip(".") != ""
)
paths = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map("/".__add__) | names


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, str]:
    """A text of many lines and the same with some of them edited."""
    old = [f"line {number % draw(st.sampled_from([3, 1000]))}" for number in range(200)]
    new = old.copy()
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(new)))
        new[at : at + draw(st.integers(0, 3))] = draw(st.lists(odd_lines, max_size=3))
    return "\n".join(old) + "\n", "\n".join(new) + draw(st.sampled_from(["", "\n"]))


pairs = st.tuples(texts, texts) | edited()


def applied(old: str, patch: str) -> str:
    """The text after the hunks of a patch of one file, found by their line numbers."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", old)
    result: list[str] = []
    at = 0
    for head, body in re.findall(r"^@@ -(\S+) \+\S+ @@\n((?:[-+ \\].*\n)*)", patch, re.MULTILINE):
        start, _, count = head.partition(",")
        begin = int(start) - (count != "0")
        result += lines[at:begin]
        at = begin
        for sign, line in re.findall(r"(.)(.*\n(?:\\.*\n)?)", body):
            line = re.sub(r"\n\\.*\n", "", line)
            if sign != "+":
                assert lines[at] == line
                at += 1
            if sign != "-":
                result.append(line)
    return "".join(result + lines[at:])


def changed(patch: str) -> int:
    return len(re.findall(r"^(?:-(?!--)|\+(?!\+\+))", patch, re.MULTILINE))


# Writing


def test_a_modified_file_is_written_as_the_protocol_shows_it() -> None:
    old, new = '{\n  "debug": false\n}\n', '{\n  "debug": true\n}\n'
    assert git_patch(P, old, new) == (
        f"diff --git {P} {P}\n--- {P}\n+++ {P}\n@@ -1,3 +1,3 @@\n"
        ' {\n-  "debug": false\n+  "debug": true\n }\n'
    )


def test_a_new_file_comes_from_dev_null() -> None:
    assert git_patch(P, None, "a\nb\n") == (
        f"diff --git {P} {P}\nnew file mode 100644\n--- /dev/null\n+++ {P}\n"
        "@@ -0,0 +1,2 @@\n+a\n+b\n"
    )


def test_a_deleted_file_goes_to_dev_null() -> None:
    assert git_patch(P, "a", None) == (
        f"diff --git {P} {P}\ndeleted file mode 100644\n--- {P}\n+++ /dev/null\n@@ -1 +0,0 @@\n"
        "-a\n\\ No newline at end of file\n"
    )


def test_an_empty_file_comes_and_goes_without_hunks() -> None:
    head = f"diff --git {P} {P}\n"
    assert git_patch(P, None, "") == f"{head}new file mode 100644\n--- /dev/null\n+++ {P}\n"
    assert git_patch(P, "", None) == f"{head}deleted file mode 100644\n--- {P}\n+++ /dev/null\n"


@pytest.mark.parametrize("text", [None, "", "a", "a\n"])
def test_equal_texts_give_no_patch(text: str | None) -> None:
    assert git_patch(P, text, text) == ""


def test_only_the_newline_at_the_end_may_change() -> None:
    patch = git_patch(P, "a\nb", "a\nb\n")
    assert patch.endswith("@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n")


@pytest.mark.parametrize(("between", "hunks"), [(6, 1), (7, 2)])
def test_changes_share_a_hunk_while_their_context_meets(between: int, hunks: int) -> None:
    middle = [f"{number}\n" for number in range(between)]
    patch = git_patch(P, "".join(["a\n", *middle, "b\n"]), "".join(["x\n", *middle, "y\n"]))
    assert patch.count("\n@@ ") == hunks


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("/plain-~'x", "/plain-~'x"),
        ("/a b", "/a b\t"),
        ("/é", '"/\\303\\251"'),
        ("/é b", '"/\\303\\251 b"\t'),
        ('/"q"\\', '"/\\"q\\"\\\\"'),
        ("/\a\b\t\n\v\f\r", '"/\\a\\b\\t\\n\\v\\f\\r"'),
        ("/\x01\x7f", '"/\\001\\177"'),
    ],
)
def test_a_path_is_quoted_as_git_quotes_it(path: str, label: str) -> None:
    name = label.removesuffix("\t")
    patch = git_patch(path, "a\n", "b\n")
    assert patch.startswith(f"diff --git {name} {name}\n--- {label}\n+++ {label}\n@@ ")


@given(pairs)
def test_the_hunks_turn_the_old_text_into_the_new(pair: tuple[str, str]) -> None:
    old, new = pair
    assert applied(old, git_patch(P, old, new)) == new


@given(st.integers(0, 499), st.integers(0, 499))
def test_a_small_edit_gives_a_small_patch(one: int, two: int) -> None:
    old = [f"{number % 50}\n" for number in range(500)]
    new = old.copy()
    new[one] = new[two] = "edited\n"
    assert changed(git_patch(P, "".join(old), "".join(new))) <= 4


# Which lines changed


class Counted(str):
    """A line that counts how often it is compared."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Counted.times += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def shuffled(lines: list[str], seed: int) -> list[str]:
    return random.Random(seed).sample(lines, len(lines))


def brackets(seed: int, count: int) -> list[str]:
    return random.Random(seed).choices(["}", "", "{"], k=count)


def hard_pairs(count: int) -> dict[str, tuple[list[str], list[str]]]:
    lines = [f"line {number}" for number in range(count)]
    twice = lines[: count // 2] * 2
    return {
        "different": (lines, [f"x{line}" for line in lines]),
        "shuffled": (lines, shuffled(lines, 1)),
        "shuffled pairs": (shuffled(twice, 1), shuffled(twice, 2)),
        "reversed": (lines, lines[::-1]),
        "repetitive": (brackets(1, count), brackets(2, count)),
        "one line": (["}"] * count, ["}"] * (count // 3) + ["x"] + ["}"] * (count // 3)),
        "edited everywhere": (lines, [line if len(line) % 2 else f"x{line}" for line in lines]),
        "moved": (lines, lines[count // 3 :] + lines[: count // 3]),
        "emptied": (lines, []),
    }


def holds(old: list[str], new: list[str]) -> int:
    """Check that the changes lead from one side to the other; how many lines they leave alone."""
    kept: list[str] = []
    x = y = 0
    for number, change in enumerate(changed_lines(old, new)):
        assert change.old > x or number == 0
        assert change.old < change.old_end or change.new < change.new_end
        assert old[x : change.old] == new[y : change.new]
        kept += old[x : change.old]
        x, y = change.old_end, change.new_end
    assert old[x:] == new[y:]
    return len(kept) + len(old) - x


def longest(old: list[str], new: list[str]) -> int:
    """The length of the longest common subsequence, the slow way."""
    row = [0] * (len(new) + 1)
    for line in old:
        above = row.copy()
        for at, other in enumerate(new):
            row[at + 1] = above[at] + 1 if line == other else max(above[at + 1], row[at])
    return row[-1]


@given(
    st.lists(st.sampled_from("abc"), max_size=25), st.lists(st.sampled_from("abcd"), max_size=25)
)
def test_the_changes_between_short_texts_are_the_fewest(old: list[str], new: list[str]) -> None:
    assert holds(old, new) == longest(old, new)


@pytest.mark.parametrize("shape", hard_pairs(0))
@pytest.mark.parametrize("count", [1, 7, 300, 2000])
def test_the_changes_are_right_where_the_shortest_are_not_looked_for(
    shape: str, count: int
) -> None:
    holds(*hard_pairs(count)[shape])
    holds(*hard_pairs(count)[shape][::-1])


@pytest.mark.parametrize(("shape", "kept"), [("moved", 1334), ("edited everywhere", 1000)])
def test_a_large_edit_keeps_what_stayed_in_order(shape: str, kept: int) -> None:
    assert holds(*hard_pairs(2000)[shape]) >= kept


@pytest.mark.parametrize("shape", hard_pairs(0))
def test_no_shape_of_text_costs_more_than_its_lines(shape: str) -> None:
    old, new = ([Counted(line) for line in side] for side in hard_pairs(5000)[shape])
    Counted.times = 0
    changed_lines(list[str](old), list[str](new))
    assert Counted.times < 200 * 5000  # all against all would be 25 times as many


# Reading


@given(paths, pairs)
def test_what_was_written_is_read_back(path: str, pair: tuple[str, str]) -> None:
    old, new = pair
    for before, after, operation in [
        (old, new, "modify"),
        (None, new, "add"),
        (old, None, "delete"),
    ]:
        if before == after:
            continue
        [file] = parse_patch(git_patch(path, before, after))
        assert (file.operation, file.path, file.old_path) == (operation, path, None)
        assert not file.binary
        if operation == "modify":
            # Unchanged lines are left out on both sides, the rest is in order.
            assert file.old is not None
            assert file.new is not None
            assert applied(file.old, git_patch(path, file.old, file.new)) == file.new
            rest = iter(old.split("\n"))
            assert all(line in rest for line in file.old.removesuffix("\n").split("\n") if file.old)
        else:
            assert (file.old, file.new) == (before, after)


@given(st.lists(odd_lines, max_size=3), st.lists(odd_lines, max_size=3), st.booleans())
def test_a_hunk_that_shows_the_whole_file_gives_the_whole_text(
    old: list[str], new: list[str], end: bool
) -> None:
    before, after = "\n".join(old) + "\n" * end, "\n".join(new)
    if before != after:
        assert parse_patch(git_patch(P, before, after)) == [
            FilePatch("modify", P, old=before, new=after)
        ]


HUNK = "@@ -1 +1 @@\n-x\n+y\n"

READ = {
    "nothing": ("", []),
    "blank lines": ("\n \n", []),
    "prefixes": (
        f"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n{HUNK}",
        [FilePatch("modify", "x", old="x\n", new="y\n")],
    ),
    "prefixes before an absolute path": (
        f"diff --git a//x b//x\n--- a//x\n+++ b//x\n{HUNK}",
        [FilePatch("modify", "/x", old="x\n", new="y\n")],
    ),
    "mnemonic prefixes, reversed": (
        f"diff --git w/x i/x\n--- w/x\n+++ i/x\n{HUNK}",
        [FilePatch("modify", "x", old="x\n", new="y\n")],
    ),
    "a folder that looks like a prefix": (
        f"diff --git a/x a/x\n--- a/x\n+++ a/x\n{HUNK}",
        [FilePatch("modify", "a/x", old="x\n", new="y\n")],
    ),
    "a new file in a folder that looks like a prefix": (
        "diff --git b/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+y\n",
        [FilePatch("add", "b/x", new="y\n")],
    ),
    "spaces": (
        "diff --git a/x y b/x y\nold mode 100644\nnew mode 100755\n",
        [FilePatch("modify", "x y")],
    ),
    "spaces and a date": (
        f"--- x y\t2020-01-01 00:00:00 +0000\n+++ x y\t2020-01-02 00:00:00 +0000\n{HUNK}",
        [FilePatch("modify", "x y", old="x\n", new="y\n")],
    ),
    "one name in quotes": (
        'diff --git a/x y "b/\\303\\251"\nrename from x y\nrename to "\\303\\251"\n',
        [FilePatch("move", "é", "x y")],
    ),
    "the other name in quotes": (
        'diff --git "a/\\303\\251" b/x y\ncopy from "\\303\\251"\ncopy to x y\n',
        [FilePatch("copy", "x y", "é")],
    ),
    "a rename with an edit": (
        (
            "diff --git /x /y\nsimilarity index 90%\nrename from /x\nrename to /y\n"
            f"--- /x\n+++ /y\n{HUNK}"
        ),
        [FilePatch("move", "/y", "/x", old="x\n", new="y\n")],
    ),
    "a plain new file": (
        "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+y\n",
        [FilePatch("add", "x", new="y\n")],
    ),
    "a plain deleted file": (
        "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n",
        [FilePatch("delete", "x", old="y\n")],
    ),
    "a deleted empty file": (
        "diff --git a/x b/x\ndeleted file mode 100644\nindex e69de29..0000000\n",
        [FilePatch("delete", "x", old="")],
    ),
    "a binary notice": (
        "diff --git a/x b/x\nnew file mode 100644\nBinary files /dev/null and b/x differ\n",
        [FilePatch("add", "x", binary=True)],
    ),
    "a plain binary notice": (
        "Binary files a/x and b/x differ\n",
        [FilePatch("modify", "x", binary=True)],
    ),
    "a binary patch between others": (
        (
            f"--- x\n+++ x\n{HUNK}diff --git y y\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n"
            f"literal 1\nIcmZPo000310RR91\n\n--- z\n+++ z\n{HUNK}"
        ),
        [
            FilePatch("modify", "x", old="x\n", new="y\n"),
            FilePatch("modify", "y", binary=True),
            FilePatch("modify", "z", old="x\n", new="y\n"),
        ],
    ),
    "lines that look like headers": (
        "--- x\n+++ x\n@@ -1,3 +1,3 @@\n--- a\n-diff --git a b\n-@@ -1 +1 @@\n+++ b\n+@@\n+ c\n",
        [FilePatch("modify", "x", old="-- a\ndiff --git a b\n@@ -1 +1 @@\n", new="++ b\n@@\n c\n")],
    ),
    "an empty line without its space": (
        "--- x\n+++ x\n@@ -1,3 +1,3 @@\n-a\n+b\n\n c\n",
        [FilePatch("modify", "x", old="a\n\nc\n", new="b\n\nc\n")],
    ),
    "no newline on one side": (
        "--- x\n+++ x\n@@ -1 +1 @@\n-a\n\\ Kein Zeilenumbruch am Dateiende.\n+a\n",
        [FilePatch("modify", "x", old="a", new="a\n")],
    ),
    "no newline on both sides": (
        "--- x\n+++ x\n@@ -1,2 +1 @@\n-a\n b\n\\ No newline at end of file",
        [FilePatch("modify", "x", old="a\nb", new="b")],
    ),
    "CRLF in the lines of the file": (
        "--- x\n+++ x\n@@ -1 +1 @@\n-a\r\n+b\r\n",
        [FilePatch("modify", "x", old="a\r\n", new="b\r\n")],
    ),
    "CRLF everywhere": (
        "diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n",
        [FilePatch("modify", "x", old="a\r\n", new="b\r\n")],
    ),
    "several hunks": (
        "--- x\n+++ x\n@@ -1 +1,0 @@ def f():\n-a\n@@ -9,0 +9 @@\n+b\n",
        [FilePatch("modify", "x", old="a\n", new="b\n")],
    ),
    "hunks without labels": (
        f"diff --git x x\n{HUNK}",
        [FilePatch("modify", "x", old="x\n", new="y\n")],
    ),
    "a mailed patch": (
        (
            "From 1 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n- better\n---\n x | 2 +-\n\n"
            f"diff --git a/x b/x\n--- a/x\n+++ b/x\n{HUNK}-- \n2.39.5\n\n"
        ),
        [FilePatch("modify", "x", old="x\n", new="y\n")],
    ),
    "commits and their messages": (
        (
            f"commit 1\n\n    one\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n{HUNK}\n"
            f"commit 2\n\n    two\n\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n{HUNK}"
        ),
        [
            FilePatch("modify", "x", old="x\n", new="y\n"),
            FilePatch("modify", "y", old="x\n", new="y\n"),
        ],
    ),
    "two names of one file": (
        f"--- old/x.py\n+++ new/x.py\n{HUNK}",
        [FilePatch("modify", "new/x.py", old="x\n", new="y\n")],
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_patch_is_read(name: str) -> None:
    text, files = READ[name]
    assert parse_patch(text) == files


LABELS = "--- x\n+++ x\n"

REFUSED = {
    "prose": ("hello\n", 2, "no diff"),
    "another format": (
        "*** Begin Patch\n*** Update File: x\n@@\n-a\n+b\n*** End Patch",
        7,
        "no diff",
    ),
    "a hunk of no file": (HUNK, 1, "without a file"),
    "a file of no hunk": (LABELS, 3, "without a hunk"),
    "a hunk header without numbers": (f"{LABELS}@@ -a +b @@\n", 3, "hunk header"),
    "a number without bounds": (f"{LABELS}@@ -1,{'9' * 5000} +1 @@\n", 3, "hunk header"),
    "a hunk that is too short": (f"{LABELS}@@ -1,2 +1 @@\n-x\n+y\n", 6, "ends inside"),
    "a hunk cut by the next file": (f"{LABELS}@@ -1,2 +1 @@\n-x\n+y\ndiff --git a b\n", 6, "not a"),
    "a hunk that is too long": (f"{LABELS}{HUNK}+z\n", 6, "outside"),
    "too many lines on one side": (f"{LABELS}@@ -1,2 +1 @@\n+x\n+y\n", 5, "past the end"),
    "a line after the last": (f"{LABELS}@@ -1,2 +0,0 @@\n-x\n\\ No\n-y\n", 6, "past the end"),
    "a line after the last, further on": (
        f"{LABELS}@@ -1 +0,0 @@\n-x\n\\ No\n@@ -5 +4,0 @@\n-y\n",
        7,
        "past the end",
    ),
    "a missing newline of nothing": (f"{LABELS}@@ -1 +1 @@\n\\ No\n", 4, "no line"),
    "an open quote": (f'--- "x\n+++ x\n{HUNK}', 1, "not closed"),
    "an unknown escape": (f'--- "\\x"\n+++ x\n{HUNK}', 1, "cannot be read"),
    "a path that is not UTF-8": (f'--- "\\377"\n+++ x\n{HUNK}', 1, "cannot be read"),
    "no path": (f"--- \n+++ \n{HUNK}", 1, "path"),
    "names that cannot be separated": ("diff --git a b c d\nold mode 100644\n", 1, "path"),
    "a move from nowhere": ("diff --git a b\nrename to b\n", 1, "path"),
    "two operations": ("diff --git a a\nnew file mode 100644\nrename to b\n", 3, "move and add"),
    "a new file with old lines": (f"--- /dev/null\n+++ x\n{HUNK}", 1, "does not exist"),
    "no file at all": (f"--- /dev/null\n+++ /dev/null\n{HUNK}", 1, "delete and add"),
    "a merge": ("diff --cc x\n@@@ -1 -1 +1 @@@\n", 1, "combined"),
    "a binary patch without data": ("diff --git x x\nGIT binary patch\n\n", 3, "binary"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_text_that_is_no_patch_is_refused_with_line_and_reason(name: str) -> None:
    text, line, reason = REFUSED[name]
    with pytest.raises(BadPatch, match=f"^line {line}: .*{reason}") as caught:
        parse_patch(text)
    assert caught.value.line == line
    assert reason in caught.value.reason


pieces = st.sampled_from(
    [
        *(
            "diff --git ",
            "a/x",
            "b/x",
            " ",
            "/dev/null",
            '"',
            "\\303",
            "\\",
            "\n",
            "\n",
            "\n",
            "\t",
        ),
        *("--- ", "+++ ", "@@ -1 +1 @@", "@@ -1,2 +0,0 @@\n", "@@ -", "-x\n", "+x\n", " x\n", "\r"),
        *("rename from ", "rename to ", "copy from ", "new file mode ", "deleted file mode "),
        *("Binary files ", " and ", " differ", "GIT binary patch", "literal 1", "\\ No", "\ud800"),
    ]
)


def read_or_refused(text: str) -> list[FilePatch]:
    try:
        return parse_patch(text)
    except BadPatch as refused:
        error = refused
    assert 1 <= error.line <= text.count("\n") + 2
    return []


@given(st.text() | st.lists(pieces).map("".join))
@example('--- \ud800\n+++ "\ud800"\n@@ -1 +1 @@\n-x\n+y\n')
def test_no_text_causes_any_other_error(text: str) -> None:
    assert all(file.path for file in read_or_refused(text))


@given(st.data(), paths, pairs)
def test_a_damaged_patch_is_read_or_refused(
    data: st.DataObject, path: str, pair: tuple[str, str]
) -> None:
    patch = git_patch(path, *pair)
    at = data.draw(st.integers(0, len(patch)))
    damaged = (
        patch[:at] + data.draw(pieces | st.just("")) + patch[at + data.draw(st.integers(0, 9)) :]
    )
    read_or_refused(damaged)


# Git as the judge


def git(folder: str | Path, *arguments: str, stdin: str = "", fails: bool = False) -> str:
    """The output of git without any configuration."""
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    environment["GIT_CEILING_DIRECTORIES"] = str(Path(folder).parent)
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=environment,
        input=stdin.encode(),
        capture_output=True,
        check=False,
    )
    assert fails or done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def write(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink(missing_ok=True)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def read(file: Path) -> str | None:
    return file.read_bytes().decode() if file.exists() else None


def git_applies(name: str, old: str | None, new: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder).resolve() / "in a folder" / name
        write(file, old)
        if patch := git_patch(str(file), old, new):
            # -p0: there is no prefix to take off; --unsafe-paths: the paths are absolute.
            git(folder, "apply", "--unsafe-paths", "-p0", "--whitespace=nowarn", stdin=patch)
        assert read(file) == new


@needs_git
@settings(max_examples=60)
@given(names, st.none() | texts, st.none() | texts)
@example('a "b"\té\\', "a\r\nb", "a\r\nb\r\n")
@example("a b", None, "")
@example("a b", "", None)
@example("é", "", "a")
@example("a", "a", "")
@example("a\nb", "a\0b\n", "a\0c\n")
def test_git_applies_what_was_written(name: str, old: str | None, new: str | None) -> None:
    git_applies(name, old, new)


@needs_git
@settings(max_examples=30)
@given(edited())
def test_git_applies_what_was_written_of_a_long_text(pair: tuple[str, str]) -> None:
    git_applies("file", *pair)


@needs_git
@settings(max_examples=30)
@given(names, pairs, st.sampled_from([["--no-prefix"], ["-R"], ["--patience", "--src-prefix=x/"]]))
def test_what_git_shows_of_two_whole_texts_is_read(
    name: str, pair: tuple[str, str], options: list[str]
) -> None:
    old, new = (side.replace("\0", "") for side in pair)  # Git calls it binary
    if old == new:
        return
    with tempfile.TemporaryDirectory() as folder:
        # `git diff` needs a repository to see one file twice.
        git(folder, "init", "--quiet")
        write(Path(folder) / name, old)
        git(folder, "add", "--all")
        write(Path(folder) / name, new)
        [file] = parse_patch(git(folder, "diff", "-U9999", *options))
    if "-R" in options:
        old, new = new, old
    assert (file.operation, file.old, file.new) == ("modify", old, new)
    assert file.path == (f"b/{name}" if "--patience" in options else name)


BEFORE = {
    "edited.txt": "1\n2\n3\n",
    "moved.txt": "".join(f"{number}\n" for number in range(20)),
    "copied é.txt": "".join(f"{number * 7}\n" for number in range(20)),
    "deleted.txt": "gone",
    "deleted empty": "",
    "binary": "\0a",
    "a b/é": "x\n",
    "mode": "m\n",
}
AFTER = {
    "edited.txt": "1\nzwei\n3",
    "moved to.txt": "".join(f"{number}\n" for number in range(20)),
    "copied é.txt": BEFORE["copied é.txt"] + "end\n",
    "copy.txt": BEFORE["copied é.txt"] + "other end\n",
    "binary": "\0b",
    "a b/é": "y\n",
    "mode": "m\n",
    "new empty": "",
    'new "file"': "n\n",
}


@needs_git
@pytest.mark.parametrize(
    "options",
    [
        *([], ["--no-prefix"], ["--binary"], ["--no-prefix", "--full-index", "--binary"]),
        *(["--src-prefix=i/", "--dst-prefix=w/"], ["--stat", "--patch"], ["--function-context"]),
    ],
    ids=" ".join,
)
def test_what_git_diff_writes_is_read(tmp_path: Path, options: list[str]) -> None:
    git(tmp_path, "init", "--quiet")
    for name, text in BEFORE.items():
        write(tmp_path / name, text)
    git(tmp_path, "add", "--all")
    tree = git(tmp_path, "write-tree").strip()
    for name in BEFORE.keys() | AFTER.keys():
        write(tmp_path / name, AFTER.get(name))
    git(tmp_path, "add", "--all")
    git(tmp_path, "update-index", "--chmod=+x", "mode")
    text = git(
        tmp_path, "diff", "--cached", "-U99", "-M", "-C", "--no-rename-empty", *options, tree
    )
    found = {file.path: file for file in parse_patch(text)}
    assert found == {
        "edited.txt": FilePatch("modify", "edited.txt", old="1\n2\n3\n", new="1\nzwei\n3"),
        "moved to.txt": FilePatch("move", "moved to.txt", "moved.txt"),
        "copied é.txt": FilePatch(
            "modify", "copied é.txt", old=BEFORE["copied é.txt"], new=AFTER["copied é.txt"]
        ),
        "copy.txt": FilePatch(
            "copy", "copy.txt", "copied é.txt", old=BEFORE["copied é.txt"], new=AFTER["copy.txt"]
        ),
        "deleted.txt": FilePatch("delete", "deleted.txt", old="gone"),
        "deleted empty": FilePatch("delete", "deleted empty", old=""),
        "binary": FilePatch("modify", "binary", binary=True),
        "a b/é": FilePatch("modify", "a b/é", old="x\n", new="y\n"),
        "mode": FilePatch("modify", "mode"),
        "new empty": FilePatch("add", "new empty", new=""),
        'new "file"': FilePatch("add", 'new "file"', new="n\n"),
    }


@needs_git
def test_a_small_edit_is_written_as_git_writes_it(tmp_path: Path) -> None:
    old = "".join(f"line {number} é\n" for number in range(100))
    new = old.replace("line 5 ", "line five ").replace("line 60 é\n", "") + "one more"
    write(tmp_path / "a file.old", old)
    write(tmp_path / "a file", new)
    arguments = ["--no-index", "--no-prefix", "--", "a file.old", "a file"]
    theirs = git(tmp_path, "diff", *arguments, fails=True)
    headings = re.compile(r"(?<= @@).*")  # Git names the function of a hunk
    ours = git_patch("a file", old, new)
    assert ours[ours.index("@@") :] == headings.sub("", theirs[theirs.index("@@") :])


def test_a_line_between_the_names_and_the_first_hunk_is_shown() -> None:
    (file,) = read_patch("--- a/x\n+++ b/x\nand more\n@@ -1 +1 @@\n-a\n+b\n")
    assert file.lines == [
        ("note", "and more"),
        ("hunk", "@@ -1 +1 @@"),
        ("removed", "a"),
        ("added", "b"),
    ]
