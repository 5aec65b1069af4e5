"""An agent: who it is, and what it does when it is asked.

    agent = Agent("weather", version="1.0")

    @agent.prompt
    async def answer(turn): ...

    agent.run()

The same handlers serve clients of version 1 and version 2.
"""

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from os import PathLike
from typing import Any, Literal, TypeAlias, TypeVar

from twofold.agent.connection import AgentConnection
from twofold.agent.session import AgentSession
from twofold.agent.store import DirectoryStore, MemoryStore, Store
from twofold.agent.turn import Turn
from twofold.errors import LocalError
from twofold.peer.problems import Problem, Report, log
from twofold.rpc.frames import LIMIT
from twofold.transport.base import Transport
from twofold.transport.stdio import Stdio
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.shared import Capability, Implementation

CANCEL = 5.0
"""How many seconds a prompt handler has to stop when its turn is cancelled."""

PromptHandler: TypeAlias = Callable[[Turn], Awaitable[str | None]]
SessionHandler: TypeAlias = Callable[[AgentSession], Awaitable[None]]
OptionHandler: TypeAlias = Callable[[AgentSession, str, str | bool], Awaitable[None]]
Method: TypeAlias = Callable[[Any], Awaitable[Any]]
PromptContent: TypeAlias = Literal["image", "audio", "embedded_context"]
McpTransport: TypeAlias = Literal["stdio", "http"]
F = TypeVar("F", bound=Callable[..., Any])


class Agent:
    """An agent, ready to be given handlers and to be run.

    `prompts` names what prompts may hold besides text and links, `mcp` the kinds of MCP servers
    that it connects to. `keep` is a directory in which sessions survive a restart. `versions` are
    the versions of the protocol that it speaks. Lines of a client that are longer than `line_limit`
    bytes are refused.
    """

    def __init__(
        self,
        name: str,
        version: str = "0",
        *,
        title: str | None = None,
        prompts: Collection[PromptContent] = ("image", "audio", "embedded_context"),
        mcp: Collection[McpTransport] = (),
        auth_methods: Sequence[v2.AuthMethod] = (),
        keep: str | PathLike[str] | None = None,
        versions: Collection[Literal[1, 2]] = (1, 2),
        new_session_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        cancel_timeout: float = CANCEL,
        line_limit: int = LIMIT,
        on_problem: Report = log,
    ) -> None:
        if not set(versions) or not set(versions) <= {1, 2}:
            raise LocalError("An agent speaks version 1, version 2 or both.")
        self.info = Implementation(name, version, UNSET if title is None else title)
        self.prompts = frozenset(prompts)
        self.mcp = frozenset(mcp)
        self.auth_methods = list(auth_methods)
        self.versions = frozenset(versions)
        self.store: Store = MemoryStore() if keep is None else DirectoryStore(keep)
        self.open_sessions: dict[str, AgentSession] = {}
        """The sessions that are open, each for one client."""
        self.new_session_id = new_session_id
        self.cancel_timeout = cancel_timeout
        self.line_limit = line_limit
        """How many bytes a line of a client may have."""
        self.report = on_problem
        self.methods: dict[str, Method] = {}
        self.notifications: dict[str, Method] = {}
        self.on_prompt: PromptHandler | None = None
        self.on_session: SessionHandler | None = None
        self.on_resume: SessionHandler | None = None
        self.on_close: SessionHandler | None = None
        self.on_config_option: OptionHandler | None = None
        self.on_authenticate: Callable[[str], Awaitable[None]] | None = None
        self.on_logout: Callable[[], Awaitable[None]] | None = None

    # ---- handlers

    def prompt(self, handler: F) -> F:
        """`async def (turn)`: answers a prompt. It may return a stop reason such as `refusal`."""
        self.on_prompt = handler
        return handler

    def session(self, handler: F) -> F:
        """`async def (session)`: prepares a new session: commands, config options, a title."""
        self.on_session = handler
        return handler

    def resume(self, handler: F) -> F:
        """`async def (session)`: prepares a session that is taken up again; it has its state."""
        self.on_resume = handler
        return handler

    def close(self, handler: F) -> F:
        """`async def (session)`: frees what was held for a session, whoever ended it."""
        self.on_close = handler
        return handler

    def config_option(self, handler: F) -> F:
        """`async def (session, config_id, value)`: hears that the client set an option.

        It raises `RequestError` to refuse, and may set options itself.
        """
        self.on_config_option = handler
        return handler

    def authenticate(self, handler: F) -> F:
        """`async def (method_id)`: logs in; raises `RequestError` if that does not work."""
        self.on_authenticate = handler
        return handler

    def logout(self, handler: F) -> F:
        """`async def ()`: logs out."""
        self.on_logout = handler
        return handler

    def method(self, name: str) -> Callable[[F], F]:
        """`async def (params)`: answers a method of your own; its name starts with `_`."""
        return self._extend(self.methods, name)

    def notification(self, name: str) -> Callable[[F], F]:
        """`async def (params)`: hears a notification of your own; its name starts with `_`."""
        return self._extend(self.notifications, name)

    def _extend(self, table: dict[str, Method], name: str) -> Callable[[F], F]:
        if not name.startswith("_"):
            raise LocalError(f"The name of an extension starts with an underscore: _{name}")

        def register(handler: F) -> F:
            table[name] = handler
            return handler

        return register

    # ---- running

    def run(self) -> None:
        """Serve the client on standard input and output until it is gone, or we are told to end.

        What handlers do then has `cancel_timeout` seconds to stop; whatever does not stop does not
        keep the process from ending.
        """
        with suppress(KeyboardInterrupt):
            asyncio.run(self._run())

    async def _run(self) -> None:
        if sys.stdin is not None and sys.stdin.isatty():
            print(
                f"{self.info.name} speaks the Agent Client Protocol on standard input and output:"
                " start it from a client.",
                file=sys.stderr,
            )
        serving = asyncio.ensure_future(self.serve(await Stdio.open()))
        # not on Windows, nor outside the main thread; SIGINT cancels this task by itself
        with suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        try:
            await asyncio.wait({serving})
        finally:
            with suppress(NotImplementedError, RuntimeError, ValueError):  # once more ends us
                asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
            serving.cancel()
            await asyncio.wait({serving})
            await self._abandon()
        if not serving.cancelled():
            serving.result()

    async def _abandon(self) -> None:
        """End what is left; a client that is gone must not leave a process behind."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left and (await asyncio.wait(left, timeout=self.cancel_timeout))[1]:
            text = "A handler did not stop when the client was gone: the process ends all the same"
            self.report(Problem("stuck", text))
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):  # there may be none
                    stream.flush()
            os._exit(1)

    async def serve(self, transport: Transport) -> None:
        """Serve one client over `transport` until it is gone."""
        await AgentConnection(self, transport).serve()

    # ---- who it is

    def introduction(self, client: v2.InitializeRequest) -> v2.InitializeResponse:
        """What the agent says of itself to a client, in the words of version 2."""
        here = Capability()
        able: dict[str, Any] = dict.fromkeys(self.prompts, here)
        mcp: dict[str, Any] = dict.fromkeys(self.mcp, here)
        capabilities = v2.AgentCapabilities(
            session=v2.SessionCapabilities(
                prompt=v2.PromptCapabilities(**able),
                mcp=v2.McpCapabilities(**mcp) if mcp else UNSET,
                delete=here,
                additional_directories=here,
            )
        )
        methods = self.auth_methods
        if not (
            client.capabilities and client.capabilities.auth and client.capabilities.auth.terminal
        ):
            # v2: only a client that can run them is told of them
            methods = [each for each in methods if not isinstance(each, v2.AuthMethodTerminal)]
        return v2.InitializeResponse(2, self.info, capabilities, methods or UNSET)
