"""What a session begins with: MCP servers, a mode and config options.

A server that the agent cannot use is reported and left out. A mode or an option that cannot be set
is an error: it may be what keeps the agent from changing files.
"""

import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from twofold.client.client import Client
from twofold.client.known_sessions import reopen
from twofold.client.negotiate import check_setup
from twofold.client.session import ClientSession
from twofold.convert.options import choices, find_option, known_options, mode_option
from twofold.errors import LocalError, NotSupported
from twofold.peer.problems import Problem, Report
from twofold.text import one_line
from twofold.wire import v2


class SetupFailed(LocalError):
    """The agent has no such mode or option, or no such value for it.

    Attributes:
        wanted: What was to be set: `mode plan`.
        reason: Why it cannot be set, and what there is.
    """

    def __init__(self, wanted: str, reason: str) -> None:
        super().__init__(f"The session cannot begin with {one_line(wanted)}: {one_line(reason)}.")
        self.wanted = wanted
        self.reason = reason


class SessionSetup(Struct, frozen=True, kw_only=True):
    """What a session begins with."""

    mcp_servers: tuple[v2.McpServer, ...] = ()
    """MCP servers for the agent, as far as it can use them."""
    mode: str | None = None
    """The id of the mode to choose in a new session."""
    options: Mapping[str, str | bool] = {}
    """The config options to set in a new session, by their ids."""

    async def new_session(
        self, client: Client, cwd: str | os.PathLike[str], report: Report
    ) -> ClientSession:
        """Begin a session, and set its options and its mode.

        Raises:
            SetupFailed: The agent has no such mode, option or value.
            RequestFailed: The agent refused, for example because it wants a login first.
        """
        servers = self._usable(client, report)
        session = await client.new_session(cwd, mcp_servers=servers)
        for config_id, value in self.options.items():
            await _set_option(session, config_id, value)
        if self.mode is not None:  # last: an option may change the mode
            await _set_mode(session, self.mode)
        return session

    async def reopen(
        self,
        client: Client,
        session_id: str,
        cwd: str | os.PathLike[str],
        command: Sequence[str],
        report: Report,
        *,
        replay: bool,
    ) -> ClientSession:
        """Open a session again, with the MCP servers; it has its mode and options already.

        Raises:
            NotReopened: The agent refused.
            RequestFailed: The agent wants a login first.
        """
        servers = self._usable(client, report)
        return await reopen(client, session_id, cwd, command, replay=replay, mcp_servers=servers)

    def _usable(self, client: Client, report: Report) -> list[v2.McpServer]:
        usable = []
        for server in self.mcp_servers:
            try:
                check_setup(client.agent, (), [server])
            except NotSupported as error:
                report(Problem("setup", f"An MCP server is left out: {error}"))
            else:
                usable.append(server)
        return usable


async def _set_mode(session: ClientSession, mode: str) -> None:
    option = mode_option(session.state.config_options)
    if option is None:
        raise SetupFailed(f"mode {mode!r}", "the agent has no modes")
    await _set_choice(session, option, mode, f"mode {mode!r}")


async def _set_option(session: ClientSession, config_id: str, value: str | bool) -> None:
    options = session.state.config_options
    option = find_option(options, config_id)
    wanted = f"option {config_id!r}"
    if option is None:
        there = _listed(each.config_id for each in known_options(options))
        raise SetupFailed(wanted, f"the agent has no such option; {there}")
    if isinstance(option, v2.SessionConfigBoolean) != isinstance(value, bool):
        right = "true or false" if isinstance(option, v2.SessionConfigBoolean) else "a text"
        raise SetupFailed(wanted, f"its value must be {right}")
    if isinstance(option, v2.SessionConfigSelect):
        await _set_choice(session, option, str(value), f"{wanted} set to {value!r}")
    elif option.current_value != value:
        await session.set_config_option(config_id, value)


async def _set_choice(
    session: ClientSession, option: v2.SessionConfigSelect, value: str, wanted: str
) -> None:
    values = [choice.value for choice in choices(option)]
    if value not in values:
        raise SetupFailed(wanted, f"the agent does not offer it; {_listed(values)}")
    if option.current_value != value:
        await session.set_config_option(option.config_id, value)


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    return f"there are {', '.join(found)}" if found else "there are none"
