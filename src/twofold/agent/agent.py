"""An agent: its name, its settings, and the handlers that answer clients of both versions.

agent = Agent("weather", version="1.0")

@agent.on_prompt
async def answer(turn: Turn) -> None: ...

agent.run()
"""

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import Any, Literal, TypeAlias, TypeVar

from twofold.agent import arguments
from twofold.agent.connection import AgentConnection
from twofold.agent.definition import (
    Definition,
    LoginHandler,
    LogoutHandler,
    NotificationHandler,
    OptionHandler,
    PromptHandler,
    RequestHandler,
    SessionHandler,
)
from twofold.agent.session import AgentSession
from twofold.agent.store import DirectoryStore, MemoryStore, Store
from twofold.peer.problems import Problem, Report, log
from twofold.rpc.frames import LIMIT
from twofold.transport.base import Transport
from twofold.transport.stdio import Stdio
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.shared import Implementation

CANCEL = 5.0
"""How many seconds a prompt handler has to stop when its turn is cancelled."""

PromptContent: TypeAlias = Literal["image", "audio", "embedded_context"]
McpTransport: TypeAlias = Literal["stdio", "http"]
ProtocolVersion: TypeAlias = Literal[1, 2]

# type checkers read `(1,)` as a tuple of literals only where a tuple is named
PromptContents: TypeAlias = Collection[PromptContent] | tuple[PromptContent, ...]
McpTransports: TypeAlias = Collection[McpTransport] | tuple[McpTransport, ...]
ProtocolVersions: TypeAlias = Collection[ProtocolVersion] | tuple[ProtocolVersion, ...]

PromptT = TypeVar("PromptT", bound=PromptHandler)
SessionT = TypeVar("SessionT", bound=SessionHandler)
OptionT = TypeVar("OptionT", bound=OptionHandler)
LoginT = TypeVar("LoginT", bound=LoginHandler)
LogoutT = TypeVar("LogoutT", bound=LogoutHandler)
RequestT = TypeVar("RequestT", bound=RequestHandler)
NotificationT = TypeVar("NotificationT", bound=NotificationHandler)


class Agent:
    """An agent that serves clients of version 1 and version 2 with the same handlers.

    Handlers are registered with the `on_…` decorators and are `async def` functions; a plain
    function raises TypeError when it is registered. Of each kind there is one handler, the last
    that was registered.

    Args:
        name: The name of the agent, as clients show it in logs.
        version: The version of the agent itself.
        title: The name of the agent, as clients show it to people.
        prompts: What prompts may hold besides text and links.
        mcp: The kinds of MCP servers that the agent connects to.
        auth_methods: How a user can log in.
        keep: A directory in which sessions survive a restart, or a `Store`. By default sessions
            are kept in memory.
        protocol_versions: The versions of the protocol that the agent speaks.
        new_session_id: Returns the id of a new session.
        cancel_timeout: How many seconds a handler has to stop when it is cancelled.
        line_limit: How many bytes a line of a client may have; longer ones are refused.
        on_problem: Called with every problem that the agent survived; by default they are logged.

    Raises:
        TypeError: An argument has the wrong type.
        InvalidArgument: An argument has a value that is not allowed.
        StoreFailed: The directory of `keep` cannot be made.
    """

    def __init__(
        self,
        name: str,
        version: str = "0",
        *,
        title: str | None = None,
        prompts: PromptContents = ("image", "audio", "embedded_context"),
        mcp: McpTransports = (),
        auth_methods: Sequence[v2.AuthMethod] = (),
        keep: str | PathLike[str] | Store | None = None,
        protocol_versions: ProtocolVersions = (1, 2),
        new_session_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        cancel_timeout: float = CANCEL,
        line_limit: int = LIMIT,
        on_problem: Report = log,
    ) -> None:
        versions = arguments.subset("protocol_versions", protocol_versions, (1, 2))
        if not versions:
            raise arguments.InvalidArgument("protocol_versions must hold 1, 2 or both")
        title = arguments.text_or_none("title", title)
        self._definition = Definition(
            info=Implementation(
                arguments.filled_text("name", name),
                arguments.filled_text("version", version),
                UNSET if title is None else title,
            ),
            prompts=arguments.subset("prompts", prompts, ("image", "audio", "embedded_context")),
            mcp=arguments.subset("mcp", mcp, ("stdio", "http")),
            auth_methods=arguments.structs(
                "auth_methods", auth_methods, v2.AuthMethod, "v2.AuthMethodAgent"
            ),
            protocol_versions=versions,
            new_session_id=arguments.callback("new_session_id", new_session_id),
            cancel_timeout=arguments.seconds("cancel_timeout", cancel_timeout),
            line_limit=arguments.integer("line_limit", line_limit, least=1),
            report=arguments.callback("on_problem", on_problem),
            store=_store(keep),  # last: it makes the directory
        )

    @property
    def store(self) -> Store:
        """Where the sessions are kept."""
        return self._definition.store

    @property
    def open_sessions(self) -> Mapping[str, AgentSession]:
        """The sessions that are open now, of all clients, by id."""
        return {key: each.face for key, each in self._definition.open_sessions.items()}

    # ---- handlers

    def on_prompt(self, handler: PromptT) -> PromptT:
        """Register the handler that answers prompts.

        Args:
            handler: `async def (turn)`. It returns None for `end_turn`, or another stop reason
                such as `refusal`.

        Returns:
            The handler, so that this is a decorator.

        Raises:
            TypeError: The handler is not async.
        """
        self._definition.on_prompt = arguments.async_handler("on_prompt", handler)
        return handler

    def on_new_session(self, handler: SessionT) -> SessionT:
        """Register the handler that prepares a new session: commands, config options, a title.

        Args:
            handler: `async def (session)`. What it sends is held until the client has the session.
        """
        self._definition.on_new_session = arguments.async_handler("on_new_session", handler)
        return handler

    def on_resume_session(self, handler: SessionT) -> SessionT:
        """Register the handler that prepares a session which a client loads or resumes.

        Args:
            handler: `async def (session)`. The session has its state already.
        """
        self._definition.on_resume_session = arguments.async_handler("on_resume_session", handler)
        return handler

    def on_close_session(self, handler: SessionT) -> SessionT:
        """Register the handler that frees what was held for a session.

        It is called when the client closes or deletes the session, disconnects, or loses the
        session to another client.

        Args:
            handler: `async def (session)`. It has `cancel_timeout` seconds.
        """
        self._definition.on_close_session = arguments.async_handler("on_close_session", handler)
        return handler

    def on_config_option(self, handler: OptionT) -> OptionT:
        """Register the handler that is called when the client sets a config option or a mode.

        Args:
            handler: `async def (session, config_id, value)`. It raises `RequestError` to refuse
                the value, and may set options itself.
        """
        self._definition.on_config_option = arguments.async_handler("on_config_option", handler)
        return handler

    def on_login(self, handler: LoginT) -> LoginT:
        """Register the handler that logs the user in.

        Args:
            handler: `async def (method_id)`. It raises `RequestError` if the login fails.
        """
        self._definition.on_login = arguments.async_handler("on_login", handler)
        return handler

    def on_logout(self, handler: LogoutT) -> LogoutT:
        """Register the handler that logs the user out.

        Args:
            handler: `async def ()`.
        """
        self._definition.on_logout = arguments.async_handler("on_logout", handler)
        return handler

    def on_request(self, method: str) -> Callable[[RequestT], RequestT]:
        """Register the handler of an extension method: `@agent.on_request("_notes/count")`.

        Args:
            method: The name of the method; it starts with `_`.

        Returns:
            A decorator for `async def (params)`, which returns the result as JSON. It raises
            `RequestError` to answer with an error.

        Raises:
            InvalidArgument: The name does not start with `_`.
        """
        return _registration("on_request", method, self._definition.requests)

    def on_notification(self, method: str) -> Callable[[NotificationT], NotificationT]:
        """Register the handler of an extension notification.

        Args:
            method: The name of the notification; it starts with `_`.

        Returns:
            A decorator for `async def (params)`.

        Raises:
            InvalidArgument: The name does not start with `_`.
        """
        return _registration("on_notification", method, self._definition.notifications)

    # ---- running

    def run(self) -> None:
        """Serve the client on standard input and output until it disconnects, or SIGTERM.

        Handlers that still run then have `cancel_timeout` seconds to stop; one that does not stop
        does not keep the process from ending.
        """
        with suppress(KeyboardInterrupt):
            asyncio.run(self._run())

    async def _run(self) -> None:
        if sys.stdin is not None and sys.stdin.isatty():
            print(
                f"{self._definition.info.name} speaks the Agent Client Protocol on standard input"
                " and output: start it from a client.",
                file=sys.stderr,
            )
        serving = asyncio.ensure_future(self.serve(await Stdio.open()))
        # not outside the main thread; SIGINT cancels this task by itself
        with suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        try:
            await asyncio.wait({serving})
        finally:
            with suppress(RuntimeError, ValueError):  # a second one kills us
                asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
            serving.cancel()
            await asyncio.wait({serving})
            await self._cancel_rest()
        if not serving.cancelled():
            serving.result()

    async def _cancel_rest(self) -> None:
        """Cancel the tasks that are left, and exit even if one does not stop."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        timeout = self._definition.cancel_timeout
        if left and (await asyncio.wait(left, timeout=timeout))[1]:
            text = "A handler did not stop after the client disconnected: the process exits anyway"
            self._definition.report(Problem("stuck", text))
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):  # there may be none
                    stream.flush()
            os._exit(1)

    async def serve(self, transport: Transport) -> None:
        """Serve one client until it disconnects. One agent may serve several at a time.

        Args:
            transport: The connection to the client, such as one half of `memory_pair()`.
        """
        if not callable(getattr(transport, "start", None)):
            raise arguments.wrong_type("transport", transport, "a Transport")
        await AgentConnection(self._definition, transport).serve()


def _store(keep: object) -> Store:
    if keep is None:
        return MemoryStore()
    if isinstance(keep, Store):
        return keep
    if isinstance(keep, str | PathLike):
        return DirectoryStore(arguments.path("keep", keep))
    raise arguments.wrong_type("keep", keep, "a path, a Store or None")


def _registration(hook: str, method: str, table: dict[str, Any]) -> Callable[[Any], Any]:
    if not arguments.text("method", method).startswith("_"):
        raise arguments.InvalidArgument(
            f"The name of an extension must start with an underscore: _{method}"
        )

    def register(handler: Any) -> Any:
        table[method] = arguments.async_handler(hook, handler)
        return handler

    return register
