"""Files that are mentioned in a message: which words are mentions, and what becomes of the text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.client.mentions import missing, parts_of, written
from twofold.client.prompt_blocks import Part

FILES = ("a.py", "b.md", "a b.txt", "src/x.py", "odd,name", 'say "hi"', "dots...", "[1].txt")


@pytest.fixture(scope="module")
def cwd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cwd")
    (folder / "src").mkdir()
    for name in FILES:
        (folder / name).write_text("x", encoding="utf-8")
    return folder


def said(parts: list[Part], cwd: Path) -> list[str]:
    """The parts, a path as `<path>`."""
    return [f"<{part.relative_to(cwd)}>" if isinstance(part, Path) else str(part) for part in parts]


CASES: dict[str, tuple[str, list[str]]] = {
    "no mention": ("hello", ["hello"]),
    "nothing": ("", []),
    "a mention between words": ("see @a.py now", ["see @a.py", "<a.py>", " now"]),
    "a mention alone": ("@a.py", ["@a.py", "<a.py>"]),
    "blanks behind the last": ("@a.py \n", ["@a.py \n", "<a.py>"]),
    "two": ("@a.py @b.md", ["@a.py", "<a.py>", " @b.md", "<b.md>"]),
    "one file twice": ("@a.py and @a.py", ["@a.py", "<a.py>", " and @a.py"]),
    "one file in two ways": ("@a.py ./@a.py @./a.py", ["@a.py", "<a.py>", " ./@a.py @./a.py"]),
    "a path": ("@src/x.py", ["@src/x.py", "<src/x.py>"]),
    "a directory": ("@src/", ["@src/", "<src>"]),
    "this directory": ("@./", ["@./", "<.>"]),
    "a comma behind": ("@a.py, please", ["@a.py,", "<a.py>", " please"]),
    "the end of a sentence": ("look at @a.py.", ["look at @a.py.", "<a.py>"]),
    "many marks": ("(really @a.py?!)...", ["(really @a.py?!)...", "<a.py>"]),
    "in brackets": ("(@a.py) x", ["(@a.py)", "<a.py>", " x"]),
    "with a line": ("@a.py:12 is wrong", ["@a.py:12", "<a.py>", " is wrong"]),
    "of something": ("@a.py's end", ["@a.py's", "<a.py>", " end"]),
    "without a blank": ("@a.py,@b.md", ["@a.py,", "<a.py>", "@b.md", "<b.md>"]),
    "a name with a comma": ("@odd,name", ["@odd,name", "<odd,name>"]),
    "in quotes": ('@"a b.txt"!', ['@"a b.txt"!', "<a b.txt>"]),
    "in quotes without need": ('@"a.py"', ['@"a.py"', "<a.py>"]),
    "quotes in quotes": ('@"say \\"hi\\"" x', ['@"say \\"hi\\""', '<say "hi">', " x"]),
    "quotes that stay open": ('@"a b.txt', ['@"a b.txt', "<a b.txt>"]),
    "behind a quote in the same word": (
        '@a.py,@"a b.txt"',
        ["@a.py,", "<a.py>", '@"a b.txt"', "<a b.txt>"],
    ),
    "over lines": ("one\n@a.py\ntwo", ["one\n@a.py", "<a.py>", "\ntwo"]),
}
TEXTS = {
    "somebody": "@someone hi",
    "an address": "me@a.py",
    "an address with a dot": "m.e.@a.py",
    "a path with an at": "x/@a.py",
    "escaped": "\\@a.py",
    "an at alone": "@ a.py",
    "only dots": "@. @.. @...",
    "only slashes": "@/ @//",
    "the home alone": "@~",
    "a part of a name": "@a.p",
    "quotes around nothing": '@""',
    "quotes around what is not there": '@"a.py "',
    "a name nobody can have": "@" + "x" * 5000,
    "a zero": "@a.py\0",
    "a surrogate": "@\udc80",
}


@pytest.mark.parametrize(("text", "parts"), CASES.values(), ids=list(CASES))
def test_a_file_follows_its_mention(text: str, parts: list[str], cwd: Path) -> None:
    assert said(parts_of(text, cwd), cwd) == parts


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_what_is_no_file_stays_text(text: str, cwd: Path) -> None:
    assert parts_of(text, cwd) == [text]


def test_absolute_paths_and_the_home_are_mentions(
    cwd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(cwd))
    path = cwd / "a.py"
    assert parts_of(f"@{path}", tmp_path) == [f"@{path}", path]
    assert parts_of("@~/a.py", tmp_path) == ["@~/a.py", path]
    assert parts_of("@~/", tmp_path) == ["@~/", cwd]


def test_a_mention_in_what_was_pasted_takes_no_file_along(cwd: Path) -> None:
    pasted = "they say @a.py\nand @b.md\n"
    text = f"@src/ look: {pasted}@b.md"
    parts = ["@src/", cwd / "src", f" look: {pasted}@b.md", cwd / "b.md"]
    assert parts_of(text, cwd, [pasted]) == parts
    assert parts_of(pasted.strip(), cwd, [pasted, ""]) == [pasted.strip()]


PIECES = st.sampled_from(
    ["@", '"', "\\", " ", "\n", ",", ".", "/", "~", "x", "me", *FILES, "src/", "src/x.py", "@a.py"]
)


@given(pieces=st.lists(PIECES, max_size=12))
def test_the_texts_are_all_that_was_typed(pieces: list[str], cwd: Path) -> None:
    text = "".join(pieces)
    parts = parts_of(text, cwd)
    texts = [part for part in parts if isinstance(part, str)]
    assert "".join(texts) == text
    assert all(each.strip() for each in texts) or len(parts) == 1
    paths = [part for part in parts if isinstance(part, Path)]
    assert len(paths) == len(set(paths))
    assert all(path.exists() for path in paths)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("around", ["{}", "see {}", "({})", "{} x", "{}, x"])
def test_a_path_as_it_is_written_is_a_mention_of_it(name: str, around: str, cwd: Path) -> None:
    text = around.format(f"@{written(name)}")
    assert cwd / name in parts_of(text, cwd)


def test_a_path_is_quoted_only_where_it_must_be() -> None:
    assert written("src/a-b_c.py") == "src/a-b_c.py"
    assert written("a b") == '"a b"'
    assert written("a b/", closed=False) == '"a b/'


# ---- files that are not there ------------------------------------------------------------------

MISSING: dict[str, tuple[str, list[str]]] = {
    "a file": ("see @nosuch.py, please", ["@nosuch.py"]),
    "the end of a sentence": ("see @nosuch.py.", ["@nosuch.py"]),
    "with a line": ("@nosuch.PY:12 is wrong", ["@nosuch.PY"]),
    "in a directory that is there": ("@src/nosuch", ["@src/nosuch"]),
    "a path": (
        "@./nosuch and @../nosuch and @~/no-such and @/no/such",
        ["@./nosuch", "@../nosuch", "@~/no-such", "@/no/such"],
    ),
    "in quotes": ('@"no such" @"no such"', ['@"no such"']),
    "twice": ("@a.md @a.md", ["@a.md"]),
    "one that is there": ("@a.py @src/ @src/x.py", []),
    "somebody": ("@someone me@example.org @v1.2 @", []),
    "a package": ("@types/node @angular/core", []),
    "a decorator": ("@app.route @pytest.fixture", []),
}


@pytest.mark.parametrize(("text", "found"), MISSING.values(), ids=list(MISSING))
def test_a_mention_of_a_file_that_is_not_there_is_found(
    text: str, found: list[str], cwd: Path
) -> None:
    assert missing(text, cwd) == found


def test_what_was_pasted_mentions_no_file_that_could_be_missing(cwd: Path) -> None:
    assert missing("why? see @nosuch.py", cwd, ["see @nosuch.py"]) == []
