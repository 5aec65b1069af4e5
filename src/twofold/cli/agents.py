"""`twofold agents`: list the agents that are known by name, and which are installed here."""

import sys

import click

from twofold.cli.help import HelpfulCommand
from twofold.cli.interrupts import raise_on_interrupt
from twofold.cli.output import Output
from twofold.errors import TwofoldError


@click.command(cls=HelpfulCommand)
@click.option(
    "--check",
    is_flag=True,
    help="Start each installed agent to ask for its version and its version of the protocol.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
def agents(check: bool, as_json: bool, names: tuple[str, ...]) -> None:
    """List the agents that `twofold run NAME` knows.

    Each line is the name, whether the agent is installed, its version, the version of the protocol
    that it speaks, and what it is; for one that is not installed, the command that installs it.
    Nothing is installed or downloaded, and without --check nothing is started: versions are those
    of the last --check. The settings and a registry file add agents.
    """
    import asyncio

    from twofold.cli.agent_list import list_agents
    from twofold.host.settings import load
    from twofold.term import exit_status

    output = Output()
    try:
        raise_on_interrupt()
        status = asyncio.run(list_agents(load(), names, check, as_json, output))
    except TwofoldError as error:
        output.report(str(error))
        status = exit_status.of_error(error)
    except KeyboardInterrupt:
        status = exit_status.CANCELLED
    sys.exit(status)
