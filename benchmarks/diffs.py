"""A diff of version 1 into a Git patch, beside the process `git diff --no-index`.

`python -m benchmarks.diffs` measures the texts that are hard for a diff, too.
"""

import os
import random
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path
from time import process_time
from typing import NamedTuple

from benchmarks.table import Amount, Missing, Row, Topic, as_text, at_most
from twofold import Losses
from twofold.convert.upgrade import upgrade_diff
from twofold.wire import v1

COUNT = 10_000
EDITS = 20

_PASSES = 31
_SEED = 1


class Case(NamedTuple):
    """Two texts, as lines."""

    what: str
    old: list[str]
    new: list[str]


def measure(*, hard: bool = False) -> Topic:
    """The diffs of an agent at work, and those that no agent makes if they are asked for."""
    cases = [*_usual(), *(_hard() if hard else [])]
    return Topic(
        "diff",
        f"two texts of {COUNT:,} lines into the patch of version 2. In the floor column: "
        "the process `git diff --no-index` on the same texts, its start included, the writing of "
        f"the files not. The shortest of {_PASSES} times, in turns. `git apply` must make the new "
        "text of the old one.",
        [_row(case) for case in cases],
    )


def _usual() -> list[Case]:
    chance = random.Random(_SEED)
    lines = _lines(chance)
    return [
        Case(f"{EDITS} edits of {size} line{'s' * (size > 1)}", lines, _edited(lines, size, chance))
        for size in (1, 3, 20)
    ]


def _hard() -> list[Case]:
    chance = random.Random(_SEED)
    lines = _lines(chance)
    twice = lines[: COUNT // 2] * 2
    brackets = ["}", "", "    }", "{"]
    return [
        Case("1,000 edits of 1 line", lines, _edited(lines, 1, chance, places=1_000)),
        Case("nothing in common", lines, [f"x{line}" for line in lines]),
        Case("shuffled", lines, chance.sample(lines, COUNT)),
        Case("shuffled, lines twice", chance.sample(twice, COUNT), chance.sample(twice, COUNT)),
        Case(
            "brackets and blanks",
            chance.choices(brackets, k=COUNT),
            chance.choices(brackets, k=COUNT),
        ),
        Case("reversed", lines, lines[::-1]),
    ]


def _lines(chance: random.Random) -> list[str]:
    return [f"line {number} {chance.random()}" for number in range(COUNT)]


def _edited(lines: list[str], size: int, chance: random.Random, places: int = EDITS) -> list[str]:
    """The lines with some of them replaced by new ones, in places far apart."""
    new = lines.copy()
    for at in chance.sample(range(COUNT - size), places):
        new[at : at + size] = [f"edited {at} {line}" for line in range(size)]
    return new


def _row(case: Case) -> Row:
    old, new = ("".join(f"{line}\n" for line in side) for side in (case.old, case.new))
    git = shutil.which("git")
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for side, text in {"old": old, "new": new}.items():
            (folder / side).write_text(text, encoding="utf-8", newline="")
        for _ in range(_PASSES):
            ours.append(_write(str(folder / "old"), old, new))
            if git:
                theirs.append(_git_diff(git, folder))
        flaw = "" if not git or _applies(git, folder, old, new) else "the patch does not apply"
    beside = Amount(min(theirs), whose="git") if git else Missing("git is not installed")
    return Row(f"diff: {case.what}", Amount(min(ours)), beside, None, at_most(1, "git diff"), flaw)


def _write(path: str, old: str, new: str) -> float:
    diff, losses = v1.Diff(path, new, old), Losses()
    start = process_time()
    upgrade_diff(diff, losses, "update.content[0]")
    return process_time() - start


def _git_diff(git: str, folder: Path) -> float:
    command = [git, "diff", "--no-index", "--no-ext-diff", "old", "new"]
    environment = _plain(folder)
    start = _with_children()
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    return _with_children() - start


def _with_children() -> float:
    """Processor time of this process and of those it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def _applies(git: str, folder: Path, old: str, new: str) -> bool:
    """Whether Git makes the new text of the old one, told by the patch."""
    path = folder / "old"
    diff = upgrade_diff(v1.Diff(str(path), new, old), Losses(), "update.content[0]")
    assert diff.patch
    done = subprocess.run(
        [git, "apply", "--unsafe-paths", "-p0", "-"],
        input=diff.patch.text.encode(),
        cwd=folder,
        env=_plain(folder),
        capture_output=True,
        check=False,
    )
    return done.returncode == 0 and path.read_text(encoding="utf-8") == new


def _plain(folder: Path) -> dict[str, str]:
    """No settings of whoever runs this, nor of a repository around: another race otherwise."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **rest,
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }


if __name__ == "__main__":
    print(as_text([measure(hard=True)]))
