"""How long a patch takes to write and to read, beside the process `git diff --no-index`.

Run as `python -m benchmarks.diffs`. Every text has 10,000 lines; times are the best of several,
in milliseconds. Git's hold the start of its process, for that is what one would pay.
"""

import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from twofold.convert.diffs import git_patch, parse_patch

COUNT = 10_000
ROUNDS = 7


def edited(lines: list[str], places: int, size: int, chance: random.Random) -> list[str]:
    """The lines with some of them replaced by new ones, in places far apart."""
    new = lines.copy()
    for at in sorted(chance.sample(range(COUNT - size), places), reverse=True):
        new[at : at + size] = [f"edited {at} {line}" for line in range(size)]
    return new


def cases() -> dict[str, tuple[list[str], list[str]]]:
    chance = random.Random(1)
    lines = [f"line {number} {chance.random()}" for number in range(COUNT)]
    twice = lines[: COUNT // 2] * 2
    brackets = ["}", "", "    }", "{"]
    shuffle = chance.sample
    return {
        "20 edits of a line": (lines, edited(lines, 20, 1, chance)),
        "20 edits of 3 lines": (lines, edited(lines, 20, 3, chance)),
        "20 edits of 20 lines": (lines, edited(lines, 20, 20, chance)),
        "1000 edits of a line": (lines, edited(lines, 1000, 1, chance)),
        "nothing in common": (lines, [f"x{line}" for line in lines]),
        "shuffled": (lines, shuffle(lines, COUNT)),
        "shuffled, each line twice": (shuffle(twice, COUNT), shuffle(twice, COUNT)),
        "brackets and blanks": (
            chance.choices(brackets, k=COUNT),
            chance.choices(brackets, k=COUNT),
        ),
        "reversed": (lines, lines[::-1]),
        "a new file": ([], lines),
    }


def best(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(ROUNDS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times) * 1000


def git_diff(folder: str, old: str, new: str) -> Callable[[], object]:
    for name, text in {"old": old, "new": new}.items():
        (Path(folder) / name).write_text(text, encoding="utf-8", newline="")
    command = ["git", "diff", "--no-index", "old", "new"]
    return lambda: subprocess.run(command, cwd=folder, capture_output=True, check=False)


def main() -> None:
    git = shutil.which("git")
    print(f"{'ms':<26}{'write':>9}{'git':>9}{'read':>9}{'changed lines':>15}")
    for name, sides in cases().items():
        old, new = ("".join(f"{line}\n" for line in side) for side in sides)
        write = best(lambda old=old, new=new: git_patch("/x", old, new))  # type: ignore[misc]
        patch = git_patch("/x", old, new)
        read = best(lambda patch=patch: parse_patch(patch))  # type: ignore[misc]
        theirs = "-"
        if git:
            with tempfile.TemporaryDirectory() as folder:
                theirs = f"{best(git_diff(folder, old, new)):.1f}"
        changed = sum(line[:1] in ("+", "-") for line in patch.split("\n")) - 2
        print(f"{name:<26}{write:>9.1f}{theirs:>9}{read:>9.1f}{changed:>15}")


if __name__ == "__main__":
    main()
