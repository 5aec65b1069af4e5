"""The file with first words and titles of sessions."""

from pathlib import Path

from twofold.host.kept_sessions import keep_session, read_sessions

AGENT = ["twofold", "agent"]


def test_a_later_entry_replaces_one_of_the_same_session_and_is_last(tmp_path: Path) -> None:
    path = tmp_path / "sessions"
    keep_session(path, AGENT, "s1", Path("/work"), "fix it", "")
    keep_session(path, AGENT, "s2", Path("/work"), "add it", "")
    keep_session(path, AGENT, "s1", Path("/work"), "fix it", "the parser")
    kept = read_sessions(path, AGENT)
    assert list(kept) == ["s2", "s1"]
    assert kept["s1"].first_words == "fix it"
    assert kept["s1"].title == "the parser"


def test_sessions_of_another_agent_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sessions"
    keep_session(path, AGENT, "s1", Path("/work"), "fix it", "")
    assert read_sessions(path, ["another", "agent"]) == {}


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "sessions"
    keep_session(path, AGENT, "s1", Path("/work"), "fix it", "")
    assert path.stat().st_mode & 0o077 == 0


def test_words_are_kept_short_and_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "sessions"
    keep_session(path, AGENT, "s1", Path("/work"), "a\nb\x1b[31m" + "c" * 1_000, "")
    words = read_sessions(path, AGENT)["s1"].first_words
    assert words.startswith("a b")
    assert "\x1b" not in words
    assert len(words) <= 200


def test_without_a_state_directory_nothing_is_kept() -> None:
    keep_session(None, AGENT, "s1", Path("/work"), "fix it", "")
    assert read_sessions(None, AGENT) == {}


def test_a_line_that_is_no_entry_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "sessions"
    keep_session(path, AGENT, "s1", Path("/work"), "fix it", "")
    path.write_bytes(b'\xff{"not": an entry\n[]\n' + path.read_bytes())
    assert list(read_sessions(path, AGENT)) == ["s1"]
