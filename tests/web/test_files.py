"""Files of a session: those inside of its directories, and nothing else."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from twofold.web.files import AROUND, LARGEST, LONGEST_LINE, NotShown, read_file, shown_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a few files, and a secret beside it."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text('def a():\n    return "x"\n')
    (folder / "big.txt").write_text("".join([f"line {number}\n" for number in range(1, 2001)]))
    return folder


def shown(root: Path, path: str, line: int | None = None) -> dict[str, object]:
    return shown_file([str(root)], path, line)


@pytest.mark.parametrize("path", ["src/a.py", "src//a.py", "./src/a.py", "ABSOLUTE"])
def test_a_file_inside_is_shown_in_colours(root: Path, path: str) -> None:
    made = shown(root, path.replace("ABSOLUTE", str(root / "src" / "a.py")), 2)
    assert made["name"] == "src/a.py"
    assert (made["line"], made["first"], made["total"], made["more"]) == (2, 1, 2, False)
    assert made["lines"] == [
        (("def ", "magenta"), ("a", "blue"), ("():", "")),
        (("    ", ""), ("return ", "magenta"), ('"x"', "green")),
    ]


def test_a_directory_that_is_reached_by_a_link_itself_is_a_directory_of_the_session(
    root: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    assert read_file([str(link)], str(link / "src/a.py")).name == "src/a.py"
    assert read_file([str(link)], str(root / "src/a.py")).name == "src/a.py"


def test_any_directory_of_the_session_may_hold_the_file(root: Path, tmp_path: Path) -> None:
    roots = [str(tmp_path / "nowhere"), str(root)]
    assert read_file(roots, str(root / "src/a.py")).name == "src/a.py"


def _link(root: Path) -> str:
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    return "link.txt"


def _inner_link(root: Path) -> str:
    (root / "link.py").symlink_to("src/a.py")
    return "link.py"


def _linked_folder(root: Path) -> str:
    (root / "out").symlink_to(root.parent)
    return "out/secret.txt"


def _pipe(root: Path) -> str:
    os.mkfifo(root / "pipe")
    return "pipe"


def _socket(root: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(root / "socket"))
    return "socket"


def _unreadable(root: Path) -> str:
    (root / "image").write_bytes(b"\x89PNG\0\0")
    return "image"


REFUSED: dict[str, str | Callable[[Path], str]] = {
    "up": "../secret.txt",
    "up and down": "src/../../secret.txt",
    "up inside": "src/../src/a.py",
    "up from the top": "/..",
    "absolute": "/etc/passwd",
    "proc": "/proc/self/environ",
    "device": "/dev/zero",
    "beside": lambda root: str(root.parent / "secret.txt"),
    "beside, with the same beginning": lambda root: f"{root}2/x",
    "absolute, up": lambda root: f"{root}/../secret.txt",
    "the directory itself": ".",
    "the directory itself, absolute": str,
    "a directory": "src",
    "below a file": "src/a.py/b",
    "nothing": "",
    "nul": "src/a.py\0",
    "missing": "src/b.py",
    "long": "a/" * 5_000,
    "long name": "a" * 300,
    "home": "~/secret.txt",
    "url": "file:///etc/passwd",
    "a link out": _link,
    "a link inside": _inner_link,
    "a directory that is a link": _linked_folder,
    "a pipe": _pipe,
    "a socket": _socket,
    "no text": _unreadable,
}


@pytest.mark.parametrize("name", REFUSED)
def test_everything_else_is_refused_in_words(root: Path, name: str) -> None:
    asked = REFUSED[name]
    path = asked if isinstance(asked, str) else asked(root)
    with pytest.raises(NotShown) as raised:
        shown(root, path)
    assert "secret" not in str(raised.value)
    assert str(raised.value).endswith(".")


@pytest.mark.parametrize(
    ("line", "first", "count"),
    [(None, 1, AROUND + 1), (1, 1, AROUND + 1), (1000, 600, 2 * AROUND + 1), (5000, 1600, 401)],
)
def test_lines_around_the_one_that_is_asked_for_are_shown(
    root: Path, line: int | None, first: int, count: int
) -> None:
    made = shown(root, "big.txt", line)
    lines = made["lines"]
    assert isinstance(lines, list)
    assert (made["first"], len(lines), made["total"]) == (first, count, 2000)
    assert lines[0] == ((f"line {first}", ""),)


def test_of_a_large_file_the_beginning_is_shown(root: Path) -> None:
    (root / "huge.log").write_bytes((b"x" * 99 + b"\n") * (LARGEST // 50))
    made = shown(root, "huge.log", 10**9)
    assert made["more"] is True
    assert made["total"] == LARGEST // 100 + 1


def test_a_long_line_is_shortened(root: Path) -> None:
    (root / "min.js").write_text("x" * 100_000)
    made = shown(root, "min.js")
    ((text, _),) = made["lines"][0]  # type: ignore[index]
    assert text == "x" * LONGEST_LINE + "… 98,000 more characters"


def test_what_a_file_holds_is_safe_to_show(root: Path) -> None:
    (root / "evil.txt").write_bytes(b"a\x1b[31m\xff\r\n\xe2\x80\xaeb")
    assert shown(root, "evil.txt")["lines"] == [(("a\ufffd", ""),), (("\ufffdb", ""),)]


def test_an_empty_file_has_one_empty_line(root: Path) -> None:
    (root / "empty").write_bytes(b"")
    assert shown(root, "empty")["lines"] == [()]
