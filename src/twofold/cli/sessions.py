"""`twofold sessions`: list the sessions of an agent.

One line for each session on standard output, the most recently updated first; everything else goes
to standard error. The agent's text is sanitized. This module reads the options; `session_list`,
which does the rest, is imported when the command runs.
"""

import sys
from pathlib import Path

import click

from twofold.cli.completers import complete_command
from twofold.cli.interrupts import raise_on_interrupt
from twofold.cli.options import AgentCommand
from twofold.cli.output import Output
from twofold.errors import TwofoldError


# after COMMAND, words that look like our options belong to the command
@click.command(cls=AgentCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="List the sessions of this directory; the agent is started there.",
)
@click.option("--all", "everywhere", is_flag=True, help="List the sessions of every directory.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, as version 2."
)
@click.option("--login", metavar="METHOD", help="How to log in if the agent wants a login.")
@click.argument(
    "command",
    nargs=-1,
    metavar="[NAME | -- COMMAND...]",
    shell_complete=complete_command,
)
def sessions(
    cwd: Path,
    everywhere: bool,
    as_json: bool,
    login: str | None,
    command: tuple[str, ...],
    dashes: bool,
) -> None:
    """List an agent's sessions.

    NAME is one of `twofold agents`, and COMMAND starts any other agent; without both, the default
    agent of the settings answers, or else the demo agent. Each line is the id, the time of the last
    update, the directory and the title, the most recently updated session first. Exit status: 0
    the agent answered, even if there is no session, 1 error, 2 wrong usage, 5 cancelled, 7 the
    agent died or could not be started, 124 it never answered.
    """
    import asyncio

    from twofold.cli.session_list import Listing, list_sessions
    from twofold.host.agent_choice import choose_agent, is_name
    from twofold.host.settings import Settings, load
    from twofold.term import exit_status

    output = Output()
    listing = Listing(None if everywhere else cwd, as_json, login)
    try:
        raise_on_interrupt()
        settings = load(cwd) if is_name(command, dashes=dashes) else Settings()
        for warning in settings.warnings:
            output.report(warning)
        agent = choose_agent(command, dashes=dashes, settings=settings)
        status = asyncio.run(list_sessions(agent, listing, output))
    except (TwofoldError, OSError) as error:
        output.report(str(error))
        status = exit_status.of_error(error)
    except KeyboardInterrupt:  # before signals are handled
        status = exit_status.CANCELLED
    sys.exit(status)
