"""The client behind one connection of an agent: how to send to it, and what it can show."""

import asyncio
from collections.abc import Iterable, Sequence

from twofold.agent.config_options import without_booleans
from twofold.convert.losses import Loss
from twofold.peer.peer import Peer
from twofold.peer.problems import Problem, Report
from twofold.wire import v1, v2

LOSSES = 1000
"""How many different losses are reported for one client."""


class ClientLink:
    """What the sessions and turns of one connection share."""

    def __init__(self, peer: Peer, report: Report) -> None:
        self.peer = peer
        self.report = report
        self.protocol_version: int = 0
        """The version that was agreed on; 0 before `initialize`."""
        self.client: v2.InitializeRequest | None = None
        """What the client sent in `initialize`, as version 2."""
        self.session_capabilities: v1.ClientSessionCapabilities | None = None
        """What a client of version 1 declared that it shows."""
        self.gone = asyncio.Event()
        """Set when the client has disconnected, or the connection is being closed."""
        self._lost: set[tuple[str, str]] = set()

    def shown_options(
        self, options: Sequence[v2.SessionConfigOption]
    ) -> list[v2.SessionConfigOption]:
        """The config options that this client of version 1 declared it can show."""
        declared = self.session_capabilities
        if declared and declared.config_options and declared.config_options.boolean:
            return list(options)
        shown = without_booleans(options)
        if len(shown) < len(options):
            self.report_loss("configOptions", "the client did not declare that it shows booleans")
        return shown

    def report_loss(self, path: str, reason: str, session_id: str | None = None) -> None:
        """Report something that version 1 cannot express, each path and reason once."""
        if (path, reason) not in self._lost and len(self._lost) < LOSSES:
            self._lost.add((path, reason))
            self.report(Problem("loss", f"{path}: {reason}", session_id))

    def report_losses(self, losses: Iterable[Loss], session_id: str | None = None) -> None:
        """Report what a conversion to version 1 lost."""
        for loss in losses:
            self.report_loss(loss.path, loss.reason, session_id)
