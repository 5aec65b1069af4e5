"""`/export FILE`: the format by the suffix, and no file overwritten unasked."""

from pathlib import Path

import pytest

from twofold.session import Session
from twofold.term.export_file import NotExported, Target, export_file, parse_target

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
