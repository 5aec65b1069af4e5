"""The paths of a tree: what Git lists, what a walk finds, and what is left out."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.host import file_index
from twofold.host.directory_walk import parse_rules, walk
from twofold.host.file_index import FileIndex, Listing, listing_of


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x", encoding="utf-8")


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def listed(root: Path) -> list[str]:
    async def first() -> Listing | None:
        return await FileIndex(root).first(asyncio.Event())

    listing = asyncio.run(first())
    assert listing is not None
    return sorted(listing.paths)


# ---- listings --------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(st.lists(PATHS))
def test_a_listing_has_every_file_and_every_directory_above_it_once(files: list[str]) -> None:
    listing = listing_of(files)
    above = {
        "/".join(parts[:end]) + "/"
        for parts in (path.split("/") for path in files)
        for end in range(1, len(parts))
    }
    assert sorted(listing.paths) == sorted({*files, *above})
    assert listing.folded == [path.casefold() for path in listing.paths]


# ---- in a work tree --------------------------------------------------------------------------


def test_git_lists_tracked_and_new_files_and_leaves_out_what_it_ignores(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    make(tmp_path, "src/a.py", "src/deep/b.py", "out/c.o", ".hidden/d", "a b.txt", "é.md")
    (tmp_path / ".gitignore").write_text("out/\n", encoding="utf-8")
    git(tmp_path, "add", "src/a.py")
    assert listed(tmp_path) == [
        *(".gitignore", ".hidden/", ".hidden/d", "a b.txt", "src/", "src/a.py", "src/deep/"),
        *("src/deep/b.py", "é.md"),
    ]
    assert listed(tmp_path / "src") == ["a.py", "deep/", "deep/b.py"]


def test_a_program_that_the_repository_names_is_not_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    make(tmp_path, "a")
    program = tmp_path / ".git" / "monitor"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n", encoding="utf-8")
    program.chmod(0o700)
    git(tmp_path, "config", "core.fsmonitor", str(program))
    assert listed(tmp_path) == ["a"]
    assert not (tmp_path / "was-run").exists()


def test_where_git_lists_nothing_the_tree_is_walked(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    make(tmp_path, "out/c.o")
    (tmp_path / ".gitignore").write_text("out/\n", encoding="utf-8")
    assert listed(tmp_path / "out") == ["c.o"]


def test_without_git_the_tree_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "src/a.py")
    monkeypatch.setenv("PATH", "")
    assert listed(tmp_path) == ["src/", "src/a.py"]


def test_a_list_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_index, "MOST_PATHS", 3)
    make(tmp_path, *(f"{number}" for number in range(9)))
    assert len(listed(tmp_path)) == 3
    git(tmp_path, "init", "-q")
    assert listed(tmp_path) == ["0", "1", "2"]


def test_an_old_list_is_used_until_a_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_index, "AGE", 0.0)
    monkeypatch.setattr(file_index, "_SLOWNESS", 0)

    async def changes() -> None:
        index = FileIndex(tmp_path)
        assert index.current() is None
        assert await index.first(asyncio.Event()) is not None
        make(tmp_path, "new")
        old = index.current()
        assert old is not None
        assert old.paths == []
        assert index._making is not None
        await index._making
        newer = index.current()
        assert newer is not None
        assert newer.paths == ["new"]
        index.close()

    asyncio.run(changes())


def test_who_gives_up_gets_no_list_and_the_work_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(cwd: Path, stopped: Callable[[], bool]) -> Listing:
        while not stopped():
            time.sleep(0.001)
        return listing_of([])

    monkeypatch.setattr(file_index, "_listing", endless)

    async def given_up() -> None:
        index = FileIndex(tmp_path)
        over = asyncio.Event()
        over.set()
        assert await index.first(over) is None
        index.close()

    asyncio.run(given_up())


# ---- elsewhere -------------------------------------------------------------------------------


def test_a_walk_leaves_out_hidden_directories_and_those_of_package_managers(
    tmp_path: Path,
) -> None:
    make(tmp_path, "a", ".env", ".cache/b", "node_modules/c/d", "x/__pycache__/e", "x/f")
    (tmp_path / "x" / "again").symlink_to(tmp_path)
    assert sorted(walk(tmp_path, 100)) == [".env", "a", "x/again", "x/f"]


def test_a_walk_is_bounded_and_can_be_stopped(tmp_path: Path) -> None:
    make(tmp_path, *(f"{number}/a" for number in range(9)))
    assert len(walk(tmp_path, 12)) == 3
    assert walk(tmp_path, 100, lambda: True) == []


def test_a_pipe_in_place_of_the_patterns_blocks_nothing(tmp_path: Path) -> None:
    make(tmp_path, "a")
    os.mkfifo(tmp_path / ".gitignore")
    assert sorted(walk(tmp_path, 100)) == [".gitignore", "a"]


FILES = (
    *("a.log", "keep.log", "out/x", "src/out/y", "src/gen/z", "src/a.tmp", "doc/b.tmp"),
    *("gen/z", "x/y/z", "!odd", "#odd"),
)
PATTERNS = {
    "a name": "keep.log",
    "a glob": "*.log",
    "a directory": "out/",
    "a directory with all in it": "out/**",
    "at the top": "/gen",
    "a path": "src/gen",
    "a glob in a path": "*/*.tmp",
    "at any depth": "**/gen",
    "all but one": "*.log\n!keep.log",
    "the last one decides": "!keep.log\n*.log",
    "comments and blank lines": "# *.log\n\n  \nout/  ",
    "escapes": "\\!odd\n\\#odd",
    "a class": "[ab].*",
}


@pytest.mark.parametrize("patterns", PATTERNS.values(), ids=list(PATTERNS))
def test_a_walk_ignores_what_git_ignores(patterns: str, tmp_path: Path) -> None:
    make(tmp_path, *FILES)
    (tmp_path / ".gitignore").write_text(patterns, encoding="utf-8")
    walked = sorted(walk(tmp_path, 1000))
    git(tmp_path, "init", "-q")
    assert walked == [path for path in listed(tmp_path) if not path.endswith("/")]


def test_patterns_of_a_directory_below_are_relative_to_it(tmp_path: Path) -> None:
    make(tmp_path, *FILES)
    (tmp_path / "src" / ".gitignore").write_text("/out\n*.tmp\n", encoding="utf-8")
    walked = sorted(walk(tmp_path, 1000))
    git(tmp_path, "init", "-q")
    assert walked == [path for path in listed(tmp_path) if not path.endswith("/")]
    assert "out/x" in walked


@given(st.text("ab*?[]!/\\# ", max_size=12))
def test_no_pattern_fails(pattern: str) -> None:
    for rule in parse_rules(pattern):
        rule.matches(("a", "b"), is_directory=True)
