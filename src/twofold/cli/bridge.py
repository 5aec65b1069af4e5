"""`twofold bridge`: lets a client and an agent of different versions work together.

The bridge is itself an agent on standard input and output. Its own messages go to standard error,
together with the agent's. Neither ever waits for the reader of standard error. This module reads
the options; `run_bridge`, which does the rest, is imported when the command runs.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from twofold.cli.completers import complete_command
from twofold.cli.interrupts import raise_on_interrupt
from twofold.cli.options import (
    AgentCommand,
    Offered,
    line_limit,
    parse_offer,
    pass_env,
    token_file,
)
from twofold.cli.output import Output, opened
from twofold.errors import LocalError

if TYPE_CHECKING:
    from twofold.bridge.handshake import Wanted

_VERSION: Final = click.Choice(["auto", "1", "2"])


def _wanted(context: click.Context, option: click.Parameter, version: str) -> "Wanted":
    return cast("Wanted", version if version == "auto" else int(version))


# after COMMAND, words that look like our options belong to the command
@click.command(cls=AgentCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "--client", default="auto", type=_VERSION, callback=_wanted, help="The client's version."
)
@click.option(
    "--agent", default="auto", type=_VERSION, callback=_wanted, help="The agent's version."
)
@click.option("--strict", is_flag=True, help="Refuse messages that would lose something.")
@click.option(
    "--losses",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write every loss to this file.",
)
@click.option(
    "--offer",
    default="",
    callback=parse_offer,
    help="What a version 1 agent may ask the bridge to do, if the client allows it each time: fs,"
    " terminal, or fs,terminal.",
)
@pass_env
@line_limit
@token_file
@click.argument(
    "command",
    nargs=-1,
    required=True,
    metavar="NAME | URL | -- COMMAND...",
    shell_complete=complete_command,
)
def bridge(
    client: "Wanted",
    agent: "Wanted",
    strict: bool,
    losses: Path | None,
    offer: frozenset[Offered],
    pass_env: tuple[str, ...],
    line_limit: int,
    token: str | None,
    command: tuple[str, ...],
    dashes: bool,
) -> None:
    """Connect a client and an agent of different versions.

    The bridge is an agent on standard input and output. The agent behind it is NAME, one of
    `twofold agents`, the one that runs at URL, or what COMMAND starts. If both sides speak the same
    version, messages pass unchanged. If not, they are translated, and each kind of loss is reported
    once on standard error. The exit status is the agent's.
    """
    import asyncio

    from twofold.cli.run_bridge import FAILED, NOT_STARTED, run_bridge
    from twofold.host.agent_choice import choose_agent, is_name
    from twofold.host.settings import Settings, load
    from twofold.transport.commands import CommandNotStarted

    raise_on_interrupt()
    try:
        settings = load() if is_name(command, dashes=dashes) else Settings()
        chosen = choose_agent(command, dashes=dashes, settings=settings, token=token)
    except LocalError as error:
        Output().report(f"twofold bridge: {error}")
        sys.exit(NOT_STARTED if isinstance(error, CommandNotStarted) else FAILED)
    sides: dict[str, Any] = {"client_version": client, "agent_version": agent, "offer": offer}
    sides["pass_env"] = pass_env
    sides["line_limit"] = line_limit
    with opened(losses, "ab", "--losses") as file:
        sys.exit(asyncio.run(run_bridge(chosen, strict, file, sides)))
