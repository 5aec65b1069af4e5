"""What the requirements are asked of: our agents, and agents behind the bridge."""

import sys
from pathlib import Path
from typing import NamedTuple

from tests.peers.validators import Version

AGENTS = Path(__file__).parent / "agents"
DEMO = (sys.executable, "-m", "twofold", "agent", "--speed", "0")
BRIDGE = (sys.executable, "-m", "twofold", "bridge", "--")
MINIMAL = (sys.executable, "-m", "tests.conformance.agents.minimal")
GUARDED = (sys.executable, "-m", "tests.conformance.agents.guarded")
BARE = (sys.executable, "-I", "-S", str(AGENTS / "bare.py"))


class Prompts(NamedTuple):
    """What an agent has to be asked so that it does something; None where it never does."""

    plain: str
    slow: str = "slow"
    """A turn that goes on until it is cancelled."""
    tools: tuple[str, ...] = ()
    """Turns with plans, tool calls and terminals."""
    permission: str | None = None
    """A request for permission."""
    error: str | None = None
    """A turn that fails."""
    crash: str | None = None
    """A turn in which the agent dies."""


class Subject(NamedTuple):
    """An agent for clients of `version`, as a process."""

    name: str
    version: Version
    title: str
    command: tuple[str, ...]
    prompts: Prompts
    login: bool = False
    """Sessions need a login first."""


OF_DEMO = Prompts(
    "stream",
    tools=("tools", "showcase"),
    permission="permission",
    error="error",
    crash="crash",
)
OF_OTHERS = Prompts("hello")


def _subjects(version: Version) -> list[Subject]:
    other = "1" if version == 2 else "2"
    fewest = (
        Subject("bridge-bare", 2, "bridge, bare v1 agent", (*BRIDGE, *BARE), OF_OTHERS)
        if version == 2
        else Subject(
            "bridge-minimal", 1, "bridge, minimal v2 agent", (*BRIDGE, *MINIMAL, "2"), OF_OTHERS
        )
    )
    return [
        Subject("demo", version, "demo agent", DEMO, OF_DEMO),
        Subject("minimal", version, "minimal agent", MINIMAL, OF_OTHERS),
        Subject("guarded", version, "agent with a login", GUARDED, OF_OTHERS, login=True),
        Subject(
            "bridge-demo",
            version,
            f"bridge, demo agent of v{other}",
            (*BRIDGE, *DEMO, "--version", other),
            OF_DEMO,
        ),
        Subject(
            "bridge-guarded",
            version,
            f"bridge, v{other} agent with a login",
            (*BRIDGE, *GUARDED, other),
            OF_OTHERS,
            login=True,
        ),
        fewest,
    ]


SUBJECTS: dict[Version, list[Subject]] = {1: _subjects(1), 2: _subjects(2)}
