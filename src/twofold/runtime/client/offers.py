"""What a client does for an agent of version 1: its files and its terminals.

Only inside the session's directories, and only what the policy or a person allows: a request is a
permission like any other, held in the session's state while it waits. What was allowed is what is
done: the file that was shown, the command with the variables and the directory that were shown.
"""

import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold.convert.diffs import git_patch
from twofold.policy import Subject
from twofold.rpc.errors import RESOURCE_NOT_FOUND, RequestError
from twofold.runtime.client.permissions import HOME, names_of
from twofold.runtime.files import MIB, Files
from twofold.runtime.terminals import Terminals, command_of
from twofold.wire import v1, v2
from twofold.wire.base import UNSET
from twofold.wire.content import TextContent
from twofold.wire.shared import Content, PermissionOption

if TYPE_CHECKING:
    from twofold.runtime.client.session import ClientSession

NOT_ALLOWED = -32001
"""The code of a refusal; the protocol has none for it."""

_OPTIONS = [
    PermissionOption("allow", "Allow", "allow_once"),
    PermissionOption("allow-always", "Always allow", "allow_always"),
    PermissionOption("reject", "Reject", "reject_once"),
    PermissionOption("reject-always", "Never allow", "reject_always"),
]
_COMPARED = 8 * MIB
"""How many characters of a file, old and new, are compared; a larger one is shown as it will be."""


class Offers:
    """The files and terminals of one session."""

    def __init__(self, session: "ClientSession") -> None:
        self._session = session
        self.roots = session.roots
        """The directories that are served."""
        self._files = Files(session.roots)
        self._terminals = Terminals(
            session.roots,
            on_update=self._shown,
            env=session.client.env,
            pass_env=session.client.pass_env,
        )
        self._asked = 0

    async def answer(self, method: str, params: Any) -> Any:
        """The result of one of version 1's `fs/*` and `terminal/*`."""
        return await _ANSWERS[method](self, params)

    async def close(self) -> None:
        """End everything that still runs."""
        await self._terminals.close()

    def _shown(self, update: v2.TerminalUpdate | v2.TerminalOutputChunk) -> None:
        if not self._session.closed:
            self._session.happened(update)

    # ---- files

    async def _read(self, params: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
        path = self._files.path_of(params.path)
        await self._allowed("read", f"Read {path}", path=str(path))
        return self._files.read(params, path)

    async def _write(self, params: v1.WriteTextFileRequest) -> v1.Empty:
        path = self._files.path_of(params.path)
        content = self._change(params, path)
        await self._allowed("edit", f"Write {path}", path=str(path), content=content)
        return self._files.write(params, path)

    def _change(
        self, params: v1.WriteTextFileRequest, path: Path
    ) -> tuple[v2.ToolCallContent, ...]:
        """What a write would change, all of it; without a diff if the old text cannot be read."""
        name, new = str(path), params.content
        asked = v1.ReadTextFileRequest(params.session_id, params.path)
        try:
            old = self._files.read(asked, path).content
        except RequestError as error:
            if error.code == RESOURCE_NOT_FOUND:
                return (_diff(v2.DiffAdd(name), git_patch(name, None, new)),)
            old = None
        if old is None or len(old) + len(new) > _COMPARED:
            return (_diff(v2.DiffModify(name), ""), Content(TextContent(new)))
        return (_diff(v2.DiffModify(name), git_patch(name, old, new)),)

    # ---- terminals

    async def _create(self, params: v1.CreateTerminalRequest) -> v1.CreateTerminalResponse:
        cwd = self._terminals.directory_of(params)
        command = _typed(params)
        await self._allowed("execute", f"Run {command}", command=command, cwd=str(cwd))
        return await self._terminals.create(params, cwd)

    async def _output(self, params: v1.TerminalRequest) -> v1.TerminalOutputResponse:
        return self._terminals.output(params)

    async def _wait(self, params: v1.TerminalRequest) -> v1.TerminalExitStatus:
        return await self._terminals.wait_for_exit(params)

    async def _kill(self, params: v1.TerminalRequest) -> v1.Empty:
        return self._terminals.kill(params)

    async def _release(self, params: v1.TerminalRequest) -> v1.Empty:
        return self._terminals.release(params)

    # ---- permission

    async def _allowed(
        self,
        kind: str,
        title: str,
        *,
        path: str = "",
        command: str = "",
        cwd: str = "",
        content: tuple[v2.ToolCallContent, ...] = (),
    ) -> None:
        """Ask whoever decides, showing exactly what would happen; raises if it is not allowed."""
        self._asked += 1
        request = v2.RequestPermissionRequest(
            self._session.session_id,
            title,
            _OPTIONS,
            subject=v2.CommandPermissionSubject(command, cwd) if command else UNSET,
        )
        subject = Subject(
            kind,
            None,
            title,
            (path,) if path else (),
            command or None,
            cwd or None,
            directories=names_of(self.roots[0]),
            home=HOME,
        )
        key = f"client:{self._asked}"
        decided = await self._session.ask_locally(key, request, subject, content)
        if decided.by == "cancel":
            raise RequestError.cancelled()
        if not decided.allowed:
            raise RequestError(
                NOT_ALLOWED, "The client does not allow it", {"reason": decided.outcome}
            )


def _typed(params: v1.CreateTerminalRequest) -> str:
    """The command as one would type it, with the variables that the agent sets for it.

    They belong to what is allowed: a variable can make any program run another.
    """
    set_first = [f"{shlex.quote(one.name)}={shlex.quote(one.value)}" for one in params.env or ()]
    return " ".join([*set_first, command_of(params)])


def _diff(change: v2.DiffChange, patch: str) -> v2.Diff:
    return v2.Diff([change], v2.DiffPatch("git_patch", patch) if patch else UNSET)


_ANSWERS: dict[str, Callable[[Offers, Any], Awaitable[Any]]] = {
    "fs/read_text_file": Offers._read,
    "fs/write_text_file": Offers._write,
    "terminal/create": Offers._create,
    "terminal/output": Offers._output,
    "terminal/wait_for_exit": Offers._wait,
    "terminal/kill": Offers._kill,
    "terminal/release": Offers._release,
}
