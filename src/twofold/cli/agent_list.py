"""What `twofold agents` runs: it finds the programs of the agents, and asks for their versions."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from twofold.cli.output import Output, not_written
from twofold.client.launch import on_signals
from twofold.errors import LocalError
from twofold.host.agent_versions import AgentVersion, VersionCache, ask_version, cache_file
from twofold.host.known_agents import (
    KnownAgent,
    UnknownAgent,
    endpoint_of,
    installed,
    known_agents,
)
from twofold.host.settings import Settings
from twofold.term import exit_status
from twofold.text import one_line
from twofold.wire import codec

_AT_ONCE: Final = 4
"""How many agents are started at a time."""
_HEADINGS: Final = ("NAME", "INSTALLED", "VERSION", "PROTOCOL", "ABOUT")


class Listed(Struct, frozen=True):
    """A line of the list."""

    agent: KnownAgent
    """With the program that is installed here, if one is."""
    is_installed: bool
    answer: AgentVersion | None = None
    """What the agent answered, now or at the last check."""


async def list_agents(
    settings: Settings, names: Sequence[str], check: bool, as_json: bool, output: Output
) -> int:
    """Print the agents, and return the exit status.

    Raises:
        UnknownAgent: One of `names` is no agent.
        BadRegistry: The registry file of the settings cannot be used.
    """
    known = known_agents(settings)
    for name in names:
        if name not in known:
            raise UnknownAgent(name, list(known))
    cache = VersionCache(cache_file(os.environ))
    listed = [_listed(known[name], cache) for name in names or known]
    if check:
        on_signals(_cancel_this_task())  # the agents that were started end with it
        try:
            listed = await _checked(listed, cache, settings)
        except asyncio.CancelledError:
            return exit_status.CANCELLED
        finally:
            cache.save()
    if as_json:
        for each in listed:
            output.json(codec.encode(_object(each)) + b"\n")
    else:
        output.text("".join(f"{line}\n" for line in table(listed)))
        if any(each.is_installed and each.answer is None for each in listed):
            output.report("`twofold agents --check` starts them to ask for the versions.")
    if output.out.fault is None:
        return exit_status.OK
    output.report(not_written("Standard output", output.out.fault))
    return exit_status.FAILED


def _cancel_this_task() -> Callable[[], None]:
    task = asyncio.current_task()

    def cancel() -> None:
        if task is not None:
            task.cancel()

    return cancel


def _listed(agent: KnownAgent, cache: VersionCache) -> Listed:
    program = installed(agent)
    if program is None:
        return Listed(agent, is_installed=False)
    found = replace(agent, command=(program, *agent.command[1:]))
    return Listed(found, is_installed=True, answer=cache.get(found))


async def _checked(listed: list[Listed], cache: VersionCache, settings: Settings) -> list[Listed]:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def check(each: Listed) -> Listed:
        if not each.is_installed:
            return each
        agent = each.agent
        if agent.endpoint is not None:
            try:
                agent = replace(agent, endpoint=endpoint_of(agent.name, settings))
            except LocalError as error:
                return replace(each, answer=AgentVersion(error=one_line(str(error))))
        async with limit:
            answer = await ask_version(agent)
        cache.put(each.agent, answer)
        return replace(each, answer=answer)

    return list(await asyncio.gather(*map(check, listed)))


# ---- printing ----------------------------------------------------------------------------------


def table(listed: Sequence[Listed]) -> list[str]:
    """The lines for people, in columns below a heading."""
    rows = [_HEADINGS, *map(_cells, listed)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = [
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def _cells(each: Listed) -> tuple[str, str, str, str, str]:
    answer = each.answer or AgentVersion()
    about = each.agent.description
    if not each.is_installed:
        about = f"{about} · {each.agent.install}" if each.agent.install else about
    elif answer.error:
        about = f"failed: {answer.error}"
    elif each.agent.needs:
        about = f"{about} · needs {each.agent.needs}"
    return (
        one_line(each.agent.name),
        "yes" if each.is_installed else "no",
        one_line(answer.version) or "-",
        str(answer.protocol or "-"),
        one_line(about),
    )


def _object(each: Listed) -> dict[str, Any]:
    agent, answer = each.agent, each.answer or AgentVersion()
    return {
        "name": agent.name,
        "installed": each.is_installed,
        "version": answer.version or None,
        "protocolVersion": answer.protocol,
        "error": answer.error or None,
        "command": list(agent.command),
        "description": agent.description,
        "install": agent.install or None,
        "needs": agent.needs or None,
        "origin": agent.origin,
    }
