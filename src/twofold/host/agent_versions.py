"""Which version an agent has and which version of the protocol it speaks.

Only the agent itself can say it, so it is started for that, and asked for nothing but
`initialize`. The answer is kept in the cache directory until the agent's program changes.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from twofold.client.launch import Launch
from twofold.errors import NoAnswer, TwofoldError
from twofold.host.known_agents import KnownAgent
from twofold.peer.problems import Problem
from twofold.text import one_line
from twofold.version import VERSION

PATIENCE: Final = 20.0
"""How many seconds an agent has to answer."""


class AgentVersion(Struct, frozen=True):
    """What an agent answered."""

    name: str = ""
    """The name that it gives itself."""
    version: str = ""
    """Its version; empty if it sent none."""
    protocol: int | None = None
    """The version of the protocol that it speaks; None if it did not answer."""
    error: str = ""
    """Why it could not be asked, on one line."""


async def ask_version(agent: KnownAgent, patience: float = PATIENCE) -> AgentVersion:
    """Start an installed agent, ask for its version, and end it. Nothing is raised or printed."""
    launch = Launch(agent.command, env=agent.env, endpoint=agent.endpoint)
    try:
        async with asyncio.timeout(patience) as limit, launch.client(on_problem=_ignore) as client:
            limit.reschedule(None)  # it has answered, however long it takes to exit
            info = client.agent.info
            return AgentVersion(
                one_line(info.name), one_line(info.version), client.protocol_version
            )
    except (TimeoutError, NoAnswer):
        return AgentVersion(error=f"it did not answer within {patience:g} seconds")
    except (TwofoldError, OSError) as error:
        return AgentVersion(error=one_line(str(error).partition("\n")[0]))


def _ignore(problem: Problem) -> None:
    pass


# ---- the cache ---------------------------------------------------------------------------------


class VersionCache:
    """The answers of agents, in a file. A cache that cannot be read or written is empty."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._kept = self._read()

    def get(self, agent: KnownAgent) -> AgentVersion | None:
        """The answer of an installed agent, unless its program has changed since."""
        return self._kept.get(_key(agent))

    def put(self, agent: KnownAgent, answer: AgentVersion) -> None:
        """Keep an answer; one that is an error is not kept."""
        if answer.protocol is not None:
            self._kept[_key(agent)] = answer

    def save(self) -> None:
        """Write the answers."""
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            whole = self._file.with_name(f"{self._file.name}.{os.getpid()}")
            whole.write_bytes(msgspec.json.encode(self._kept))
            whole.replace(self._file)  # another process never reads half of it
        except OSError:
            pass

    def _read(self) -> dict[str, AgentVersion]:
        if self._file is None:
            return {}
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, AgentVersion])
        except (OSError, msgspec.MsgspecError):
            return {}


def cache_file(environ: Mapping[str, str]) -> Path | None:
    """The file of the cache (XDG base directories); None without a home directory."""
    base = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        home = environ.get("HOME") or os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, ".cache")
    return Path(base) / "twofold" / "agents.json"


def _key(agent: KnownAgent) -> str:
    """Changes with the command, with its program, and with this package, which has the demo."""
    found = shutil.which(agent.command[0]) or agent.command[0]
    program = os.path.realpath(found)
    try:
        status = os.stat(program)
        stamp = [status.st_mtime_ns, status.st_size]
    except OSError:
        stamp = []
    return msgspec.json.encode([VERSION, agent.command, program, *stamp]).decode()
