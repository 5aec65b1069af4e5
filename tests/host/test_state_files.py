"""What was sent before, in a file: bounded, private, and never a reason to fail."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.host import state_files
from twofold.host.state_files import MOST_ENTRIES, keep_entry, read_entries

ENTRIES = st.lists(st.lists(st.text(st.characters(codec=None)), min_size=1, max_size=3), max_size=5)


@given(entries=ENTRIES)
def test_what_is_kept_is_read_again(
    entries: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("kept") / "history"
    for entry in entries:
        keep_entry(path, entry)
    assert read_entries(path) == entries


def test_the_file_and_its_folder_are_for_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history"
    keep_entry(path, ["secret"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.touch(0o644)
    keep_entry(path, ["secret"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_last_thousand_entries_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f'["{number}"]\n' for number in range(MOST_ENTRIES)), "utf-8")
    keep_entry(path, ["one more"])
    keep_entry(path, ["and another"])
    kept = read_entries(path)
    assert len(kept) == MOST_ENTRIES
    assert (kept[0], kept[-2:]) == (["2"], [["one more"], ["and another"]])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["history"]


def test_the_file_never_grows_beyond_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "LARGEST", 1000)
    path = tmp_path / "history"
    for number in range(40):
        keep_entry(path, [f"{number:0100}"])
        assert path.stat().st_size <= 1000
    assert read_entries(path)[-1] == [f"{39:0100}"]
    keep_entry(path, ["x" * 250])  # too large
    assert read_entries(path)[-1] == [f"{39:0100}"]


def test_of_a_file_that_is_too_large_the_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "LARGEST", 20)
    path = tmp_path / "history"
    path.write_text('["first, which is cut"]\n["second"]\n', "utf-8")
    assert read_entries(path) == [["second"]]


def test_lines_that_are_no_entry_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "history"
    deep = b"[" * 100_000
    path.write_bytes(b'["a"]\n\xff\n{}\n[]\n[1]\n"b"\n\n' + deep + b'\n["c", "d", ""]')
    assert read_entries(path) == [["a"], ["c", "d", ""]]


def test_a_last_line_that_was_cut_off_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'["a"]\n["b')
    keep_entry(path, ["c"])
    assert read_entries(path) == [["a"], ["c"]]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text('["x"]\n' * MOST_ENTRIES, "utf-8")
    link.symlink_to(real)
    keep_entry(link, ["last"])
    assert link.is_symlink()
    assert read_entries(real)[-1] == ["last"]


@pytest.fixture(params=["a directory", "a pipe", "below a file", "a zero", "no name"])
def unusable(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "history"
    match request.param:
        case "a directory":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "below a file":
            path.touch()
            path = path / "x"
        case "a zero":
            path = tmp_path / "\0"
        case _:
            path = tmp_path / ("x" * 5000)
    return path


def test_a_file_that_cannot_be_used_is_no_error(unusable: Path) -> None:
    assert read_entries(unusable) == []
    keep_entry(unusable, ["x"])
    assert read_entries(unusable) == []


def test_a_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    path.write_text('["x"]\n' * MOST_ENTRIES, "utf-8")

    def refuse(*paths: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    keep_entry(path, ["y"])
    assert len(read_entries(path)) == MOST_ENTRIES
    assert os.listdir(tmp_path) == ["history"]
