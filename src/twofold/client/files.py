"""The files a client reads and writes for its agent: `fs/read_text_file`, `fs/write_text_file`.

Only inside the session's directories, wherever symbolic links lead; only regular files; only
UTF-8, byte for byte (no newline is translated, a byte order mark is part of the text). A write
replaces the old file in one step, or changes nothing. What the file system refuses is raised as a
`RequestError` for the agent. Nothing here asks for permission: the caller does, for the path that
`Files.path_of` returns, and passes it on as `checked`, so that what was allowed is what is done,
even if a link has changed meanwhile.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from twofold.convert.patches import git_patch
from twofold.errors import LocalError
from twofold.rpc.errors import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RequestError
from twofold.wire import v1, v2
from twofold.wire.base import UNSET
from twofold.wire.content import TextContent
from twofold.wire.shared import Content

MIB = 1024 * 1024
_COMPARED = 8 * MIB
"""Up to how many characters, old and new, a diff is made; larger files are shown whole."""


class Roots:
    """The directories that a session may touch, with their links resolved."""

    def __init__(self, roots: Sequence[os.PathLike[str] | str]) -> None:
        try:
            self.paths = tuple(Path(os.path.realpath(root)) for root in roots)
        except OSError as error:  # a link that changes while it is followed
            reason = error.strerror or "it changes all the time"
            raise LocalError(f"A directory of the session cannot be found: {reason}.") from error
        if not self.paths:
            raise LocalError("No directory was given that the agent may use: name at least one.")

    def resolve(self, path: str) -> Path:
        """`path` with its links resolved; raises `RequestError` outside of the directories."""
        if not os.path.isabs(path):
            raise _refused(INVALID_PARAMS, path, "is not absolute")
        try:
            resolved = Path(os.path.realpath(path))
        except ValueError:
            raise _refused(INVALID_PARAMS, path, "cannot be a path on this system") from None
        except OSError as error:  # a link that changes while it is followed
            reason = error.strerror or "the system refused"
            raise _refused(INTERNAL_ERROR, path, f"cannot be found: {reason}") from error
        self.root_of(resolved, path)
        return resolved

    def root_of(self, resolved: Path, path: str) -> Path:
        """The directory that contains `resolved`; `path` is what the agent sent."""
        for root in self.paths:
            if resolved.is_relative_to(root):
                return root
        names = ", ".join(map(str, self.paths))
        raise _refused(
            INVALID_PARAMS, path, f"is outside of the session: only paths inside {names} are served"
        )


class Files:
    """The text files inside `roots`, none of more than `limit` bytes."""

    def __init__(self, roots: Sequence[os.PathLike[str] | str], *, limit: int = 64 * MIB) -> None:
        self._roots = Roots(roots)
        self._limit = limit

    def path_of(self, path: str) -> Path:
        """The file that reading or writing `path` would touch; raises outside of the roots."""
        return self._roots.resolve(path)

    def read(
        self, params: v1.ReadTextFileRequest, checked: Path | None = None
    ) -> v1.ReadTextFileResponse:
        """The text of a file, or `limit` lines of it from `line` on (the first is 1)."""
        path = params.path
        resolved = checked or self.path_of(path)
        with _refusals("read", path), self._folder_of(resolved, path) as folder:
            data = self._contents(folder, resolved.name, path)
        limit = params.limit if isinstance(params.limit, int) else None
        part = _lines(data, params.line or 1, limit)
        try:
            return v1.ReadTextFileResponse(content=part.decode())
        except UnicodeDecodeError:
            raise _refused(INVALID_PARAMS, path, "is not a text in UTF-8") from None

    def write(self, params: v1.WriteTextFileRequest, checked: Path | None = None) -> v1.Empty:
        """Replace the content of the file, and create missing directories."""
        path = params.path
        try:
            data = params.content.encode()
        except UnicodeEncodeError:
            raise _refused(INVALID_PARAMS, path, "cannot hold text with lone surrogates") from None
        if len(data) > self._limit:
            raise self._too_large(path)
        resolved = checked or self.path_of(path)
        with _refusals("write", path), self._folder_of(resolved, path, create=True) as folder:
            _replace(folder, resolved.name, data, path)
        return v1.Empty()

    def change(self, params: v1.WriteTextFileRequest, checked: Path) -> list[v2.ToolCallContent]:
        """Everything that a write would change; without a diff if the old text cannot be read."""
        name, new = str(checked), params.content
        asked = v1.ReadTextFileRequest(params.session_id, params.path)
        try:
            old = self.read(asked, checked).content
        except RequestError as error:
            if error.code == RESOURCE_NOT_FOUND:
                return [_diff(v2.DiffAdd(name), git_patch(name, None, new))]
            old = None
        if old is None or len(old) + len(new) > _COMPARED:
            return [_diff(v2.DiffModify(name), ""), Content(TextContent(new))]
        return [_diff(v2.DiffModify(name), git_patch(name, old, new))]

    @contextmanager
    def _folder_of(self, resolved: Path, path: str, *, create: bool = False) -> Iterator["_Folder"]:
        root = self._roots.root_of(resolved, path)
        steps = resolved.relative_to(root).parts
        if not steps:
            raise _refused(INVALID_PARAMS, path, "is a directory, not a file")
        folder = _Folder(root, steps[:-1], create=create)
        try:
            yield folder
        finally:
            folder.close()

    def _contents(self, folder: "_Folder", name: str, path: str) -> bytearray:
        # checked before it is opened, because opening a device can have an effect
        _only_regular(folder.stat(name), path)
        fd = folder.open(name, _READ)
        try:
            found = os.fstat(fd)
            _only_regular(found, path)
            data = bytearray()
            if found.st_size <= self._limit:
                # the file may grow meanwhile, and some files report another size than they have
                while len(data) <= self._limit and (piece := os.read(fd, MIB)):
                    data += piece
        finally:
            os.close(fd)
        if max(found.st_size, len(data)) > self._limit:
            raise self._too_large(path)
        return data

    def _too_large(self, path: str) -> RequestError:
        return _refused(INVALID_PARAMS, path, f"is larger than the limit of {self._limit} bytes")


# ---- lines -----------------------------------------------------------------------------------

_STRIDE = 4096


def _lines(data: bytearray, line: int, limit: int | None) -> bytearray:
    """The lines from `line` on, with their ends; nothing after the last."""
    start = _after(data, 0, line - 1)
    return data[start:] if limit is None else data[start : _after(data, start, limit)]


def _after(data: bytearray, start: int, lines: int) -> int:
    """Where the text goes on after so many lines: its end, if it has no more."""
    # counted in strides: a loop over the lines of a large file would block everything else
    while lines and start < len(data):
        found = data.count(b"\n", start, start + _STRIDE)
        if found >= lines:
            for _ in range(lines):
                start = data.index(b"\n", start) + 1
            return start
        lines -= found
        start += _STRIDE
    return min(start, len(data))


# ---- errors of the file system ---------------------------------------------------------------

_CODES = {
    errno.ENOENT: RESOURCE_NOT_FOUND,
    errno.ENOTDIR: INVALID_PARAMS,
    errno.ELOOP: INVALID_PARAMS,
    errno.ENAMETOOLONG: INVALID_PARAMS,
}


def _diff(change: v2.DiffChange, patch: str) -> v2.Diff:
    return v2.Diff([change], v2.DiffPatch("git_patch", patch) if patch else UNSET)


def _refused(code: int, path: str, reason: str) -> RequestError:
    return RequestError(code, f"{path!r} {reason}.", {"path": path})


@contextmanager
def _refusals(verb: str, path: str) -> Iterator[None]:
    """Turn an OSError into a `RequestError` with the system's reason."""
    try:
        yield
    except OSError as error:
        code = _CODES.get(error.errno or 0, INTERNAL_ERROR)
        reason = error.strerror or "the system refused"
        raise RequestError(code, f"Cannot {verb} {path!r}: {reason}.", {"path": path}) from error


_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link that changed just now",
}


def _only_regular(found: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something special")
        raise _refused(INVALID_PARAMS, path, f"is {kind}, not a file")


# ---- writing in one step ---------------------------------------------------------------------


def _replace(folder: "_Folder", name: str, data: bytes, path: str) -> None:
    """Put a new file with `data` in the place of `name`, which keeps its permissions."""
    before = _replaceable(folder, name, path)
    temporary = f".twofold-{secrets.token_hex(8)}.tmp"
    # nobody may read in the new file what they could not read in the old one
    fd = folder.open(temporary, _CREATE, 0o666 if before is None else 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            if before is not None:
                _keep_mode(fd, before)
        folder.rename(temporary, name)
    except BaseException:
        with suppress(OSError):
            folder.unlink(temporary)
        raise


def _replaceable(folder: "_Folder", name: str, path: str) -> os.stat_result | None:
    """The file that is there now, if any; raises unless it is regular and writable."""
    try:
        found = folder.stat(name)
    except FileNotFoundError:
        return None
    _only_regular(found, path)
    # a write-protected file could still be replaced, which is what it is protected from
    os.close(folder.open(name, _WRITE))
    return found


def _keep_mode(fd: int, before: os.stat_result) -> None:
    with suppress(OSError):  # only root may change the owner, and for others it stays the same
        os.fchown(fd, before.st_uid, before.st_gid)
    os.fchmod(fd, stat.S_IMODE(before.st_mode) & 0o777)


# ---- directories that cannot be swapped for others -------------------------------------------

_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
# a pipe that replaced a file must not block, a terminal not become the controlling one
_NO_WAIT = os.O_NONBLOCK | os.O_NOCTTY
_READ = os.O_RDONLY | _NO_LINK | _NO_WAIT
_WRITE = os.O_WRONLY | _NO_LINK | _NO_WAIT
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
_ENTER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | _NO_LINK  # only Linux has O_PATH


class _Folder:
    """A directory inside a root, reached step by step without following any link.

    The path was resolved before, so a link on the way was put there since, to lead us out. The
    folder holds a descriptor of the directory itself, and names files relative to that.
    """

    def __init__(self, root: Path, steps: Sequence[str], *, create: bool) -> None:
        self._fd = _walk(root, steps, create=create)

    def close(self) -> None:
        os.close(self._fd)

    def stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._fd, follow_symlinks=False)

    def open(self, name: str, flags: int, mode: int = 0) -> int:
        return os.open(name, flags, mode, dir_fd=self._fd)

    def rename(self, name: str, to: str) -> None:
        os.replace(name, to, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self._fd)


def _walk(root: Path, steps: Sequence[str], *, create: bool) -> int:
    here = os.open(root, _ENTER)
    try:
        for step in steps:
            below = _enter(step, here, create=create)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


def _enter(step: str, above: int, *, create: bool) -> int:
    try:
        return os.open(step, _ENTER, dir_fd=above)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):  # another process created it
        os.mkdir(step, dir_fd=above)
    return os.open(step, _ENTER, dir_fd=above)
