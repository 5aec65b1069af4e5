"""What a client does for an agent of version 1: it reads and writes files and runs commands.

Only inside the session's directories, and only what the policy or a person allows: a request is a
permission like any other, pending in the session's state. What is done is what was shown: that
file, that command with those variables in that directory.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from twofold.client.files import Files
from twofold.client.permissions import HOME, names_of
from twofold.client.session import OpenSession
from twofold.client.terminals import Terminals, typed_command
from twofold.policy import Subject
from twofold.rpc.errors import RequestError
from twofold.wire import v1, v2
from twofold.wire.base import UNSET
from twofold.wire.shared import PermissionOption

_OPTIONS = [
    PermissionOption("allow", "Allow", "allow_once"),
    PermissionOption("allow-always", "Always allow", "allow_always"),
    PermissionOption("reject", "Reject", "reject_once"),
    PermissionOption("reject-always", "Never allow", "reject_always"),
]


class Services:
    """The files and terminals of one session."""

    def __init__(
        self,
        session: OpenSession,
        env: Mapping[str, str | None] | None,
        pass_env: Collection[str],
    ) -> None:
        self._session = session
        self._roots = session.roots
        self._files = Files(session.roots)
        self._terminals = Terminals(
            session.roots, on_update=self._terminal_updated, env=env, pass_env=pass_env
        )
        self._asked = 0

    async def answer(self, method: str, params: Any) -> Any:
        """The result of one of version 1's `fs/*` and `terminal/*` requests."""
        return await _ANSWERS[method](self, params)

    async def close(self) -> None:
        """End every command that still runs."""
        await self._terminals.close()

    def _terminal_updated(self, update: v2.TerminalUpdate | v2.TerminalOutputChunk) -> None:
        if not self._session.closed:
            self._session.add_update(update)

    # ---- files

    async def _read(self, params: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
        path = self._files.path_of(params.path)
        await self._allowed("read", f"Read {path}", path=str(path))
        return self._files.read(params, path)

    async def _write(self, params: v1.WriteTextFileRequest) -> v1.Empty:
        path = self._files.path_of(params.path)
        content = tuple(self._files.change(params, path))
        await self._allowed("edit", f"Write {path}", path=str(path), content=content)
        return self._files.write(params, path)

    # ---- terminals

    async def _create(self, params: v1.CreateTerminalRequest) -> v1.CreateTerminalResponse:
        cwd = self._terminals.directory_of(params)
        command = typed_command(params)
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
        """Ask for permission, showing exactly what would happen; raises if it is not given."""
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
            directories=names_of(self._roots[0]),
            home=HOME,
        )
        key = f"client:{self._asked}"
        decided = await self._session.ask_locally(key, request, subject, content)
        if decided.by == "cancel":
            raise RequestError.cancelled()
        if not decided.allowed:
            raise RequestError.not_allowed(decided.outcome)


_ANSWERS: dict[str, Callable[[Services, Any], Awaitable[Any]]] = {
    "fs/read_text_file": Services._read,
    "fs/write_text_file": Services._write,
    "terminal/create": Services._create,
    "terminal/output": Services._output,
    "terminal/wait_for_exit": Services._wait,
    "terminal/kill": Services._kill,
    "terminal/release": Services._release,
}
