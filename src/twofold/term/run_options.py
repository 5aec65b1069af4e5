"""The options of `twofold run`, for the interactive client and for one turn of a script."""

from pathlib import Path
from typing import IO

from msgspec import Struct

from twofold.client.client import Offered
from twofold.client.negotiate import WantedVersion
from twofold.policy import Policy
from twofold.rpc.frames import LIMIT


class RunOptions(Struct, kw_only=True):
    """The options that the interactive client and one turn share."""

    command: list[str]
    policy: Policy
    cwd: Path
    """Where the session works."""
    version: WantedVersion | None = None
    """The protocol version to demand."""
    resume: str | None = None
    """The id of a session to resume."""
    choose: bool = False
    """Have the person choose a session of `cwd` to resume."""
    start: str | None = None
    """The first prompt."""
    color: bool = True
    offer: frozenset[Offered] = frozenset()
    """What the client does for an agent of version 1."""
    pass_env: tuple[str, ...] = ()
    """Variables of this process that commands get which the client runs for the agent."""
    line_limit: int = LIMIT
    record: IO[bytes] | None = None
    """Where to write the record of the connection."""
