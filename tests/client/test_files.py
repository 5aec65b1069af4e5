"""What a client reads and writes for its agent, and everything it refuses to."""

import errno
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from twofold.client import files as files_module
from twofold.client.files import Files
from twofold.errors import LocalError
from twofold.rpc.errors import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RequestError
from twofold.wire import v1
from twofold.wire.base import UNSET

NOBODY = 65534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory next to the root, with a file that must stay untouched."""
    folder = tmp_path / "root-not"  # the root's name is how its own begins
    folder.mkdir()
    (folder / "secret").write_text("secret")
    return folder


def read(
    files: Files,
    path: Path | str,
    line: int | None = None,
    limit: int | None = None,
    checked: Path | None = None,
) -> str:
    request = v1.ReadTextFileRequest(session_id="s", path=str(path), line=line, limit=limit)
    return files.read(request, checked).content


def write(files: Files, path: Path | str, content: str, checked: Path | None = None) -> None:
    request = v1.WriteTextFileRequest(session_id="s", path=str(path), content=content)
    assert files.write(request, checked) == v1.Empty()


def refusal(attempt: Callable[[], object]) -> RequestError:
    with pytest.raises(RequestError) as raised:
        attempt()
    return raised.value


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# ---- reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    ["", "one", "one\n", "a\r\nb\rc\n", "\ufeffmarked", "ä€😀\u2028\x0b\x00\n", "\n" * 10_000],
)
def test_what_was_written_is_read_back_byte_for_byte(root: Path, content: str) -> None:
    files = Files([root])
    write(files, root / "file", content)
    assert (root / "file").read_bytes() == content.encode()
    assert read(files, root / "file") == content


TEXT = "1\n2\r\n\n4\u20285\n6"


@pytest.mark.parametrize(
    ("line", "limit", "part"),
    [
        (None, None, TEXT),
        (0, None, TEXT),
        (1, None, TEXT),
        (2, None, "2\r\n\n4\u20285\n6"),
        (5, None, "6"),
        (6, None, ""),
        (4_294_967_295, None, ""),
        (None, 2, "1\n2\r\n"),
        (0, 1, "1\n"),
        (3, 2, "\n4\u20285\n"),
        (5, 7, "6"),
        (2, 0, ""),
        (None, 4_294_967_295, TEXT),
    ],
)
def test_a_part_is_so_many_lines_from_a_line_on(
    root: Path, line: int | None, limit: int | None, part: str
) -> None:
    (root / "file").write_bytes(TEXT.encode())
    assert read(Files([root]), root / "file", line, limit) == part


def test_line_and_limit_may_be_omitted(root: Path) -> None:
    (root / "file").write_text("1\n2\n")
    request = v1.ReadTextFileRequest(session_id="s", path=str(root / "file"))
    assert request.line is UNSET
    assert Files([root]).read(request).content == "1\n2\n"


def test_lines_of_a_large_file_are_the_same_lines(root: Path) -> None:
    lines = [f"{number} " + "x" * (number % 300) + "\n" for number in range(5_000)]
    (root / "file").write_text("".join(lines))
    files = Files([root])
    for start, count in [(1, 5_000), (2, 1), (1_234, 1_000), (4_999, 9), (5_001, 1)]:
        expected = "".join(lines[start - 1 : start - 1 + count])
        assert read(files, root / "file", start, count) == expected


def test_a_text_part_of_a_file_that_is_not_all_text_can_be_read(root: Path) -> None:
    (root / "file").write_bytes(b"text\n\xff\xfe\n")
    assert read(Files([root]), root / "file", 1, 1) == "text\n"


def test_a_file_of_the_limit_is_read_and_one_byte_more_is_refused(root: Path) -> None:
    files = Files([root], limit=1_000)
    (root / "file").write_bytes(b"x" * 1_000)
    assert len(read(files, root / "file")) == 1_000
    (root / "file").write_bytes(b"x" * 1_001)
    error = refusal(lambda: read(files, root / "file", 1, 1))
    assert error.code == INVALID_PARAMS
    assert "1000 bytes" in error.message


def test_a_huge_file_is_refused_unread(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (root / "file").open("wb") as file:
        file.truncate(1 << 40)
    monkeypatch.delattr(os, "read")
    error = refusal(lambda: read(Files([root]), root / "file"))
    assert "is larger than the limit" in error.message


def test_a_file_without_a_size_is_read_up_to_the_limit() -> None:
    proc = Path("/proc/self")
    if not (proc / "cmdline").exists():
        pytest.skip("needs /proc")
    whole = (proc / "status").read_text()
    assert (proc / "status").stat().st_size == 0
    assert read(Files([proc]), proc.resolve() / "status").startswith(whole[:5])
    error = refusal(lambda: read(Files([proc], limit=10), proc.resolve() / "status"))
    assert "is larger than the limit of 10 bytes" in error.message


# ---- where -----------------------------------------------------------------------------------


def test_every_root_is_served_under_every_name_it_has(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "alias").symlink_to(root)
    files = Files([tmp_path / "alias", str(tmp_path / "other")])
    write(files, tmp_path / "other" / "file", "other")
    write(files, root / "file", "root")
    assert read(files, tmp_path / "alias" / "file") == "root"
    assert read(files, tmp_path / "alias" / ".." / "other" / "file") == "other"
    assert files.path_of(str(tmp_path / "alias" / "new" / "file")) == root / "new" / "file"


def test_a_link_inside_is_followed_and_stays_a_link(root: Path) -> None:
    (root / "real").write_text("old")
    (root / "link").symlink_to("real")
    (root / "folder").mkdir()
    (root / "way").symlink_to(root / "folder")
    (root / "dangling").symlink_to("way/new")
    files = Files([root])
    for link in ("link", "dangling"):
        write(files, root / link, "new")
        assert read(files, root / link) == "new"
        assert (root / link).is_symlink()
    assert (root / "real").read_text() == "new"
    assert (root / "folder" / "new").read_text() == "new"


def way_out(root: Path, outside: Path, name: str) -> str:
    """A path that begins inside of the root and ends outside of it."""
    (root / "file").write_text("")
    (root / "to-folder").symlink_to(outside)
    (root / "to-file").symlink_to(outside / "secret")
    (root / "to-nothing").symlink_to(outside / "new")
    (root / "to-link").symlink_to(root / "to-file")
    (root / "up").symlink_to("..")
    return {
        "dots": f"{root}/../{outside.name}/secret",
        "dots through nothing": f"{root}/nothing/../../{outside.name}/secret",
        "dots through a link": f"{root}/to-folder/../{outside.name}/secret",
        "neighbour": str(outside / "secret"),
        "parent": str(root.parent),
        "system": "/etc/passwd",
        "two slashes": f"/{outside}/secret",
        "linked folder": str(root / "to-folder" / "secret"),
        "new in a linked folder": str(root / "to-folder" / "a" / "b"),
        "linked file": str(root / "to-file"),
        "dangling link": str(root / "to-nothing"),
        "link to a link": str(root / "to-link"),
        "link upwards": str(root / "up" / outside.name / "secret"),
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        *("dots", "dots through nothing", "dots through a link", "neighbour", "parent", "system"),
        *("two slashes", "linked folder", "new in a linked folder", "linked file"),
        *("dangling link", "link to a link", "link upwards"),
    ],
)
def test_no_path_leads_out(root: Path, outside: Path, name: str) -> None:
    path = way_out(root, outside, name)
    files = Files([root])
    for attempt in (
        lambda: read(files, path),
        lambda: write(files, path, "mine"),
        lambda: files.path_of(path),
    ):
        error = refusal(attempt)
        assert error.code == INVALID_PARAMS
        assert repr(path) in error.message
        assert str(root) in error.message
        assert error.data == {"path": path}
    assert names(outside) == ["secret"]
    assert (outside / "secret").read_text() == "secret"


@pytest.mark.parametrize("path", ["", "file", "./file", "../file", "~/file", "file:///etc/passwd"])
def test_a_path_that_is_not_absolute_is_refused(root: Path, path: str) -> None:
    error = refusal(lambda: read(Files([root]), path))
    assert (error.code, error.message) == (INVALID_PARAMS, f"{path!r} is not absolute.")


@pytest.mark.parametrize("name", ["a\x00b", "\ud83d"])
def test_a_name_no_file_can_have_is_refused(root: Path, name: str) -> None:
    files = Files([root])
    assert refusal(lambda: read(files, f"{root}/{name}")).code == INVALID_PARAMS
    assert refusal(lambda: write(files, f"{root}/{name}", "")).code == INVALID_PARAMS


def test_without_a_directory_there_is_nothing_to_serve() -> None:
    with pytest.raises(LocalError, match="name at least one"):
        Files([])


# ---- a link that appears after the path was checked ------------------------------------------


@pytest.mark.parametrize("swapped", ["folder", "folder/file", "."])
def test_a_link_put_there_after_the_check_is_not_followed(
    root: Path, outside: Path, swapped: str
) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "file").write_text("mine")
    (outside / "file").write_text("secret")
    (outside / "folder").mkdir()
    (outside / "folder" / "file").write_text("secret")
    files = Files([root])
    checked = files.path_of(str(root / "folder" / "file"))

    target = outside / "file" if swapped.endswith("file") else outside
    place = Path(os.path.normpath(root / swapped))
    place.rename(root.parent / "moved")
    place.symlink_to(target)
    for attempt in (
        lambda: read(files, checked, checked=checked),
        lambda: write(files, checked, "stolen", checked),
    ):
        assert refusal(attempt).code == INVALID_PARAMS
    assert sorted(file.read_text() for file in outside.rglob("*") if file.is_file()) == [
        *("secret",) * 3
    ]


def test_what_was_checked_is_what_is_touched(root: Path) -> None:
    for name in ("one", "two"):
        (root / name).write_text(name)
    link = root / "link"
    link.symlink_to("one")
    files = Files([root])
    checked = files.path_of(str(link))
    link.unlink()
    link.symlink_to("two")
    assert read(files, link, checked=checked) == "one"
    write(files, link, "changed", checked)
    assert [(root / name).read_text() for name in ("one", "two")] == ["changed", "two"]


def test_a_path_from_elsewhere_is_not_taken_for_checked(root: Path, outside: Path) -> None:
    files = Files([root])
    error = refusal(lambda: read(files, root / "file", checked=outside / "secret"))
    assert "is outside of the session" in error.message


# ---- what is no file -------------------------------------------------------------------------


def nothing_but_a_file(root: Path, kind: str) -> Path:
    path = root / "thing"
    if kind == "a directory":
        path.mkdir()
    elif kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as bound:
            here = os.getcwd()
            os.chdir(root)  # the path of a socket is short
            bound.bind("thing")
            os.chdir(here)
    elif kind == "a device":
        return Path("/dev/null")
    else:
        return root
    return path


@pytest.mark.parametrize("kind", ["a directory", "a named pipe", "a socket", "a device", "root"])
def test_what_is_no_regular_file_is_refused_at_once(root: Path, kind: str) -> None:
    path = nothing_but_a_file(root, kind)
    files = Files([root, "/dev"])
    before = names(root)
    for attempt in (lambda: read(files, path), lambda: write(files, path, "text")):
        error = refusal(attempt)
        assert error.code == INVALID_PARAMS
        assert kind.replace("root", "a directory") in error.message
    assert names(root) == before
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("kind", ["a directory", "a named pipe"])
def test_what_stops_being_a_file_while_it_is_opened_is_refused(
    root: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    regular = root / "regular"
    regular.write_text("")
    path = nothing_but_a_file(root, kind)
    real = files_module._Folder.stat
    monkeypatch.setattr(
        files_module._Folder,
        "stat",
        lambda self, name: real(self, "regular" if name == path.name else name),
    )
    error = refusal(lambda: read(Files([root]), path))
    assert kind in error.message
    assert refusal(lambda: write(Files([root]), path, "text")).code in (
        INVALID_PARAMS,
        INTERNAL_ERROR,
    )
    assert names(root) == ["regular", "thing"]


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"caf\xe9", b"\xed\xa0\x80", b"\xf0\x9f\x98"])
def test_what_is_not_utf_8_is_refused(root: Path, data: bytes) -> None:
    (root / "file").write_bytes(data)
    error = refusal(lambda: read(Files([root]), root / "file"))
    assert (error.code, error.data) == (INVALID_PARAMS, {"path": str(root / "file")})
    assert "is not a text in UTF-8" in error.message


def test_text_that_utf_8_cannot_encode_is_refused_and_nothing_written(root: Path) -> None:
    error = refusal(lambda: write(Files([root]), root / "new" / "file", "a\ud800"))
    assert error.code == INVALID_PARAMS
    assert names(root) == []


# ---- what the system refuses -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("missing", RESOURCE_NOT_FOUND, "No such file or directory"),
        ("missing/below", RESOURCE_NOT_FOUND, "No such file or directory"),
        ("file/below", INVALID_PARAMS, "Not a directory"),
        ("x" * 300, INVALID_PARAMS, "File name too long"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(
    root: Path, name: str, code: int, reason: str
) -> None:
    (root / "file").write_text("")
    error = refusal(lambda: read(Files([root]), root / name))
    path = str(root / name)
    assert (error.code, error.data) == (code, {"path": path})
    assert error.message == f"Cannot read {path!r}: {reason}."


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("file/below", r"Not a directory|File exists"),
        ("file/below/more", r"Not a directory|File exists"),
        ("x" * 300, "File name too long"),
        ("new/" + "x" * 300, "File name too long"),
        ("x" * 300 + "/new", "File name too long"),
    ],
)
def test_what_cannot_be_written_is_refused_with_the_reason(
    root: Path, name: str, reason: str
) -> None:
    (root / "file").write_text("kept")
    error = refusal(lambda: write(Files([root]), root / name, "text"))
    assert error.message.startswith(f"Cannot write {str(root / name)!r}: ")
    assert error.data == {"path": str(root / name)}
    assert re.search(reason, error.message)
    assert (root / "file").read_text() == "kept"


def test_a_loop_of_links_is_refused(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    files = Files([root])
    assert refusal(lambda: read(files, root / "one")).code == INVALID_PARAMS
    assert refusal(lambda: write(files, root / "one" / "file", "")).code == INVALID_PARAMS


def test_a_root_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    root = tmp_path / "gone"
    files = Files([root])
    for attempt in (lambda: read(files, root / "f"), lambda: write(files, root / "f", "")):
        assert refusal(attempt).code == RESOURCE_NOT_FOUND
    assert not root.exists()


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A root of the current user, who is not root here: nothing can be refused to root."""
    folder = Path(tempfile.mkdtemp())
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield folder
    if is_root:
        os.seteuid(0)
    for below in folder.iterdir():
        below.chmod(0o700)
    shutil.rmtree(folder)


def test_permission_denied_is_reported_and_nothing_is_left_behind(theirs: Path) -> None:
    files = Files([theirs])
    for name, mode in [("locked", 0o000), ("protected", 0o444)]:
        (theirs / name).write_text("kept")
        (theirs / name).chmod(mode)
    (theirs / "closed").mkdir(mode=0o500)
    (theirs / "shut").mkdir(mode=0o000)
    for attempt in (
        lambda: read(files, theirs / "locked"),
        lambda: read(files, theirs / "shut" / "file"),
        lambda: write(files, theirs / "locked", "new"),
        lambda: write(files, theirs / "protected", "new"),
        lambda: write(files, theirs / "closed" / "file", "new"),
        lambda: write(files, theirs / "closed" / "a" / "b", "new"),
    ):
        error = refusal(attempt)
        assert error.code == INTERNAL_ERROR
        assert error.message.endswith(": Permission denied.")
    assert (theirs / "protected").read_text() == "kept"
    assert names(theirs / "closed") == []
    assert names(theirs) == ["closed", "locked", "protected", "shut"]


def test_a_directory_that_may_be_entered_but_not_listed_is_entered(theirs: Path) -> None:
    (theirs / "dim" / "light").mkdir(parents=True)
    (theirs / "dim").chmod(0o300)
    files = Files([theirs])
    write(files, theirs / "dim" / "light" / "file", "text")
    assert read(files, theirs / "dim" / "light" / "file") == "text"


# ---- writing ---------------------------------------------------------------------------------


def test_missing_directories_are_created_for_a_write(root: Path) -> None:
    write(Files([root]), root / "a" / "b" / "c", "text")
    assert (root / "a" / "b" / "c").read_text() == "text"
    assert names(root / "a" / "b") == ["c"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o200, 0o4755])
def test_a_file_keeps_its_permissions_but_no_privileges(root: Path, mode: int) -> None:
    (root / "file").write_text("old")
    (root / "file").chmod(mode)
    write(Files([root]), root / "file", "new")
    assert stat.S_IMODE((root / "file").stat().st_mode) == mode & 0o777


def test_a_private_file_stays_private_while_it_is_written(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("old")
    (root / "file").chmod(0o600)
    seen: list[int] = []

    def look(_: int, __: os.stat_result) -> None:
        seen.extend(stat.S_IMODE(entry.stat().st_mode) for entry in root.iterdir())

    monkeypatch.setattr(files_module, "_keep_mode", look)
    write(Files([root]), root / "file", "new")
    assert seen == [0o600, 0o600]


def test_a_new_file_has_the_usual_permissions(root: Path) -> None:
    before = os.umask(0o027)
    try:
        write(Files([root]), root / "file", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "file").stat().st_mode) == 0o640


def test_more_than_the_limit_is_not_written(root: Path) -> None:
    files = Files([root], limit=10)
    write(files, root / "file", "ä" * 5)
    error = refusal(lambda: write(files, root / "file", "ä" * 5 + "."))
    assert error.code == INVALID_PARAMS
    assert (root / "file").read_text() == "ä" * 5


def test_a_write_that_fails_at_the_end_leaves_all_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    error = refusal(lambda: write(Files([root]), root / "file", "new"))
    assert error.code == INTERNAL_ERROR
    assert error.message.endswith(": No space left on device.")
    assert (root / "file").read_text() == "old"
    assert names(root) == ["file"]


def test_a_reader_sees_the_old_text_or_the_new_one_and_never_a_part(root: Path) -> None:
    path = root / "file"
    texts = {letter * 200_000 for letter in "abc"}
    files = Files([root])
    write(files, path, "a" * 200_000)
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(path.read_text())

    def change(letter: str) -> None:
        for _ in range(40):
            write(files, path, letter * 200_000)

    reader = threading.Thread(target=look)
    writers = [threading.Thread(target=change, args=(letter,)) for letter in "bc"]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert seen <= texts
    assert path.read_text() in texts
    assert names(root) == ["file"]


def test_no_descriptor_stays_open(root: Path, outside: Path) -> None:
    fds = Path("/proc/self/fd")
    if not fds.exists():
        pytest.skip("needs /proc")
    files = Files([root])
    (root / "link").symlink_to(outside)
    os.mkfifo(root / "pipe")
    (root / "binary").write_bytes(b"\xff")
    before = len(names(fds))
    write(files, root / "a" / "b", secrets.token_hex())
    read(files, root / "a" / "b")
    for name in ("missing", "a", "a/b/c", "pipe", "link/x", "binary", "a/missing/c"):
        refusal(lambda name=name: read(files, root / name))  # type: ignore[misc]
    for name in ("a", "a/b/c", "pipe", "link/x", "new/" + "x" * 300):
        refusal(lambda name=name: write(files, root / name, ""))  # type: ignore[misc]
    assert len(names(fds)) == before


# ---- links that change while they are followed


def test_a_link_that_changes_while_it_is_followed_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files([root])
    (root / "link").symlink_to(root)

    def changed(path: object, **options: object) -> str:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    # up to Python 3.12 it raises if a link becomes something else; later ones do not follow it then
    monkeypatch.setattr(os.path, "realpath", changed)
    with pytest.raises(RequestError, match="link"):
        read(files, root / "link" / "file")
    with pytest.raises(LocalError, match="cannot be found"):
        Files([root / "link"])
