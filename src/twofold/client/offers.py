"""What a client does for an agent of version 1: its files and its terminals.

Only inside the session's directories, and only what the policy or a person allows: a request is a
permission like any other, held in the session's state while it waits. What was allowed is what is
done: the file that was shown, the command with the variables and the directory that were shown.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from twofold.client.files import Files
from twofold.client.permissions import HOME, names_of
from twofold.client.terminals import Terminals, typed_command
from twofold.policy import Subject
from twofold.rpc.errors import RequestError
from twofold.wire import v1, v2
from twofold.wire.base import UNSET
from twofold.wire.shared import PermissionOption

if TYPE_CHECKING:
    from twofold.client.session import ClientSession

_OPTIONS = [
    PermissionOption("allow", "Allow", "allow_once"),
    PermissionOption("allow-always", "Always allow", "allow_always"),
    PermissionOption("reject", "Reject", "reject_once"),
    PermissionOption("reject-always", "Never allow", "reject_always"),
]


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
            raise RequestError.not_allowed(decided.outcome)


_ANSWERS: dict[str, Callable[[Offers, Any], Awaitable[Any]]] = {
    "fs/read_text_file": Offers._read,
    "fs/write_text_file": Offers._write,
    "terminal/create": Offers._create,
    "terminal/output": Offers._output,
    "terminal/wait_for_exit": Offers._wait,
    "terminal/kill": Offers._kill,
    "terminal/release": Offers._release,
}
