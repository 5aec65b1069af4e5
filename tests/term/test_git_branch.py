"""The branch of a directory is read from the files of Git, and nothing in them is trusted."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.idle_clock import until
from twofold.term.git_branch import Branch, branch_of

HASH = "0123456789abcdef0123456789abcdef01234567"
HEADS = {
    "ref: refs/heads/main\n": "main",
    "ref: refs/heads/fix/negative-zero": "fix/negative-zero",
    "ref:refs/heads/main\nmore\n": "main",
    "ref: refs/remotes/origin/main\n": "refs/remotes/origin/main",
    f"{HASH}\n": "0123456",
    f"{HASH}{HASH[:24]}\n": "0123456",
    "ref: refs/heads/.invalid\n": "",
    f"{HASH[:-1]}\n": "",
    "": "",
    "something else": "",
    "ref: refs/heads/a\x1b[2J\x07b\x9bc\n": "a\u2407b",
    f"ref: refs/heads/{'x' * 100_000}": "x" * 60,
}


def repository(at: Path, head: str) -> Path:
    (at / ".git").mkdir(parents=True)
    (at / ".git" / "HEAD").write_text(head, encoding="utf-8")
    return at


@pytest.mark.parametrize(("head", "branch"), HEADS.items())
def test_the_branch_is_what_head_names(tmp_path: Path, head: str, branch: str) -> None:
    assert branch_of(repository(tmp_path / "work", head)) == branch


def test_a_directory_below_has_the_branch_of_its_work_tree(tmp_path: Path) -> None:
    below = repository(tmp_path, "ref: refs/heads/outer") / "a" / "b"
    below.mkdir(parents=True)
    assert branch_of(below) == "outer"
    repository(tmp_path / "a", "ref: refs/heads/inner")
    assert branch_of(below) == "inner"


def test_a_work_tree_beside_the_main_one_has_its_own_branch(tmp_path: Path) -> None:
    main, other = tmp_path / "main", tmp_path / "other"
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    for arguments in (
        ["init", "-q", "-b", "main", str(main)],
        ["-C", str(main), *who, "commit", "-q", "--allow-empty", "-m", "x"],
        ["-C", str(main), "worktree", "add", "-q", "-b", "topic", str(other)],
    ):
        subprocess.run(["git", *arguments], check=True)
    assert (branch_of(main), branch_of(other)) == ("main", "topic")


@pytest.mark.parametrize("link", ["gitdir: ../place", "gitdir: {}/place\n"])
def test_a_file_may_name_the_place_of_the_repository(tmp_path: Path, link: str) -> None:
    work, place = tmp_path / "work", tmp_path / "place"
    work.mkdir()
    place.mkdir()
    (place / "HEAD").write_text("ref: refs/heads/linked")
    (work / ".git").write_text(link.format(tmp_path))
    assert branch_of(work) == "linked"


@pytest.mark.parametrize("link", ["", "gitdir:", "gitdir: nowhere", "gitdir: \0", "x" * 10_000])
def test_a_file_that_names_nothing_gives_no_branch(tmp_path: Path, link: str) -> None:
    (tmp_path / ".git").write_text(link)
    assert branch_of(tmp_path) == ""


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert branch_of(tmp_path) == ""


def test_it_is_read_again_only_on_demand_and_a_change_is_reported_once(tmp_path: Path) -> None:
    work = repository(tmp_path / "work", "ref: refs/heads/main")
    seen: list[str] = []

    async def played() -> None:
        changed = asyncio.Event()

        def note() -> None:
            seen.append(branch.name)
            changed.set()

        branch = Branch(work, note)
        branch.refresh()
        branch.refresh()
        await changed.wait()
        changed.clear()
        (work / ".git" / "HEAD").write_text("ref: refs/heads/topic")
        branch.refresh()
        await changed.wait()
        branch.close()
        branch.refresh()
        await until(lambda: len(asyncio.all_tasks()) <= 2)

    asyncio.run(asyncio.wait_for(played(), 30))
    assert seen == ["main", "topic"]
