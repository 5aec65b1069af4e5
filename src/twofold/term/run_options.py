"""The options of `twofold run`, for the interactive client and for one turn of a script."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from msgspec import Struct

from twofold.client.client import Offered
from twofold.client.negotiate import WantedVersion
from twofold.client.session_setup import SessionSetup
from twofold.host.client_keys import DEFAULTS, Bindings
from twofold.host.settings import NotificationSettings, Theme
from twofold.policy import Policy
from twofold.rpc.frames import LIMIT
from twofold.text import one_line
from twofold.transport.endpoint import Endpoint


class RunOptions(Struct, kw_only=True):
    """The options that the interactive client and one turn share."""

    command: list[str]
    agent_words: tuple[str, ...] = ()
    """What names the agent on the command line: a name, or `--` and its command."""
    policy: Policy
    cwd: Path
    """Where the session works."""
    env: Mapping[str, str] = {}
    """Variables to set for the agent."""
    endpoint: Endpoint | None = None
    """Where the agent is reached, if it is not started here."""
    setup: SessionSetup = SessionSetup()
    """What the session begins with."""
    version: WantedVersion | None = None
    """The protocol version to demand."""
    resume: str | None = None
    """The id of a session to resume."""
    choose: bool = False
    """Have the person choose a session of `cwd` to resume."""
    start: str | None = None
    """The first prompt."""
    verbose: bool = False
    """Show the agent's standard error, problems and losses, in the interactive client."""
    color: bool = True
    theme: Theme = "auto"
    keys: Bindings = DEFAULTS
    offer: frozenset[Offered] = frozenset()
    """What the client does for an agent of version 1."""
    pass_env: tuple[str, ...] = ()
    """Variables of this process that commands get which the client runs for the agent."""
    line_limit: int = LIMIT
    notifications: NotificationSettings = NotificationSettings()
    """When and how the interactive client calls a person who is away."""
    window_title: bool = True
    """Whether the interactive client sets the title of its window."""
    record: IO[bytes] | None = None
    """Where to write the record of the connection."""

    def resume_command(self, session_id: str) -> str:
        """The command that resumes a session."""
        there = [] if self.cwd.absolute() == Path.cwd() else ["--cwd", str(self.cwd.absolute())]
        words = self.agent_words or ("--", *self.command)
        return one_line(shlex.join(["twofold", "run", *there, "--resume", session_id, *words]))
