"""The peers of `README.md` by name: what they are, and the command lines that start them.

Every client can be started with every agent behind it: `[*client, *agent]`.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.peers.facts import Line
from tests.peers.validators import Version
from twofold.version import VERSION

HERE = Path(__file__).parent
TWOFOLD = [sys.executable, "-m", "twofold"]


class Peer(NamedTuple):
    """A client and an agent: what they are made with, and the version that they speak."""

    made_with: str
    release: str
    version: Version
    agent: str

    @property
    def info(self) -> Line:
        """The info of the agent."""
        return {"name": self.agent, "version": self.release}


PEERS = {
    "ts1": Peer("TypeScript SDK", "2.4.0", 1, "ts-agent-v1"),
    "ts2": Peer("TypeScript SDK", "2.4.0", 2, "ts-agent-v2"),
    "py1": Peer("Python SDK", "0.12.1", 1, "py-agent-v1"),
    "py2": Peer("Python SDK", "1.0.0rc3", 2, "py-agent-v2"),
    "tf1": Peer("Twofold", VERSION, 1, "twofold-demo"),
    "tf2": Peer("Twofold", VERSION, 2, "twofold-demo"),
}


def commands(
    node_sdk: Path, python_sdk: Callable[[str], Path]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The command lines of all clients and of all agents."""
    clients, agents = {}, {}
    for name, peer in PEERS.items():
        number = str(peer.version)
        if peer.made_with == "TypeScript SDK":
            client, agent = (
                ["node", str(HERE / f"ts_{role}.mjs"), str(node_sdk), number]
                for role in ("client", "agent")
            )
        elif peer.made_with == "Python SDK":
            client, agent = (
                [str(python_sdk(peer.release)), str(HERE / f"py_{role}_v{number}.py")]
                for role in ("client", "agent")
            )
        else:
            client = [sys.executable, str(HERE / "twofold_client.py"), number]
            agent = [*TWOFOLD, "agent", "--version", number, "--speed", "0"]
        clients[name], agents[name] = [*client, "--"], agent
    return clients, agents
