"""Which agent a command line means: the name of a known agent, a command, a URL, or nothing.

One word that is no path, without `--` before it, is a name. A URL is an agent that runs already,
with or without `--`. Nothing is the default agent of the settings, or else the demo agent.
Everything else is a command.
"""

import os
from collections.abc import Mapping, Sequence

from msgspec import Struct

from twofold.errors import LocalError
from twofold.host.known_agents import (
    BUILT_IN_DEMO,
    DEMO,
    UnknownAgent,
    endpoint_of,
    known_agents,
    resolve,
)
from twofold.host.settings import AgentSettings, Settings
from twofold.host.state_files import state_file
from twofold.transport.endpoint import BadUrl, Endpoint, is_url


class ChosenAgent(Struct, frozen=True):
    """The agent to start, or to connect to."""

    command: list[str]
    """The command that starts it; for an agent at a URL the URL, safe to show."""
    words: tuple[str, ...] = ()
    """What names it on a command line: its name, or `--` and the command."""
    env: Mapping[str, str] = {}
    """Variables to set for it."""
    settings: AgentSettings = AgentSettings()
    """What the settings say about it; nothing for a command."""
    endpoint: Endpoint | None = None
    """Where it is reached, if it runs already."""


class NoDefaultAgent(LocalError):
    """The settings name a default agent that does not exist."""

    def __init__(self, origin: str, error: UnknownAgent) -> None:
        super().__init__(f"{origin}: {error}")


def is_name(words: Sequence[str], *, dashes: bool) -> bool:
    """True if the words of a command line are the name of an agent, or none at all."""
    return not words or (len(words) == 1 and not dashes and "/" not in words[0])


def choose_agent(
    words: Sequence[str], *, dashes: bool, settings: Settings, token: str | None = None
) -> ChosenAgent:
    """The agent that a command line means.

    Args:
        words: The arguments behind the options.
        dashes: Whether `--` is before them.
        settings: The settings in effect.
        token: The token for an agent at a URL; a command does not get it.

    Raises:
        BadUrl: It is a URL that cannot be used.
        UnknownAgent: There is no agent of this name.
        AgentNotInstalled: It is known, but not installed.
        NoDefaultAgent: The settings name a default agent that does not exist.
        BadRegistry: The registry file of the settings cannot be used.
    """
    if words and is_url(words[0]):
        return _at_url(words, token)
    if not is_name(words, dashes=dashes):
        return ChosenAgent(list(words), ("--", *words))
    name = words[0] if words else settings.values.agent or DEMO
    try:
        agent = resolve(name, known_agents(settings))
    except UnknownAgent as error:
        if words:
            raise
        raise NoDefaultAgent(settings.origin("agent"), error) from None
    if agent.endpoint is not None:
        return ChosenAgent(
            list(agent.command),
            (name,),
            settings=settings.agent(name),
            endpoint=endpoint_of(name, settings, token),
        )
    command = [*agent.command, *(_kept() if agent == BUILT_IN_DEMO else ())]
    return ChosenAgent(command, (name,), agent.env, settings.agent(name))


def _at_url(words: Sequence[str], token: str | None) -> ChosenAgent:
    endpoint = Endpoint(words[0], token)
    if len(words) > 1:
        reason = "nothing can follow it, because no command is started. Remove the other words."
        raise BadUrl(endpoint.shown, reason)
    return ChosenAgent([endpoint.shown], (endpoint.shown,), endpoint=endpoint)


def _kept() -> list[str]:
    """Options that have the demo agent keep its sessions, where that is possible."""
    folder = state_file("demo-sessions")
    if folder is None:
        return []
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return []
    return ["--keep", str(folder)] if os.access(folder, os.W_OK) else []
