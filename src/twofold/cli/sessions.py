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
from twofold.cli.options import AgentCommand, journal_file, token_file
from twofold.cli.output import Output
from twofold.errors import TwofoldError


# after COMMAND, words that look like our options belong to the command
@click.command(cls=AgentCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    default=".",
    help="List the sessions of this directory; the agent is started there.",
)
@click.option("--all", "everywhere", is_flag=True, help="List the sessions of every directory.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, as version 2."
)
@click.option(
    "--journal",
    is_flag=True,
    help="List the sessions that `twofold serve` keeps, without starting an agent.",
)
@click.option("--search", metavar="TEXT", help="With --journal: only those in which this is found.")
@journal_file
@click.option("--login", metavar="METHOD", help="How to log in if the agent wants a login.")
@token_file
@click.argument(
    "command",
    nargs=-1,
    metavar="[NAME | URL | -- COMMAND...]",
    shell_complete=complete_command,
)
def sessions(
    cwd: Path,
    everywhere: bool,
    as_json: bool,
    journal: bool,
    search: str | None,
    journal_file: Path | None,
    login: str | None,
    token: str | None,
    command: tuple[str, ...],
    dashes: bool,
) -> None:
    """List an agent's sessions, or those that are kept.

    NAME is one of `twofold agents`, URL an agent that runs already, and COMMAND starts any other;
    without all of them, the default agent of the settings answers, or else the demo agent. Each
    line is the id, the time of the last update, the directory and the title, the most recently
    updated session first. Exit status: 0 the agent answered, even if there is no session, 1 error,
    2 wrong usage, 5 cancelled, 7 the agent died or could not be started, 124 it never answered.
    """
    import asyncio

    from twofold.cli.session_list import Listing, list_sessions
    from twofold.host.agent_choice import choose_agent, is_name
    from twofold.host.settings import Settings, load
    from twofold.term import exit_status

    output = Output()
    if journal:
        sys.exit(_list_kept(journal_file, search, cwd, everywhere, as_json, output))
    if search is not None:
        raise click.UsageError("--search needs --journal: agents have no search.")
    listing = Listing(None if everywhere else cwd, as_json, login)
    try:
        raise_on_interrupt()
        settings = load(cwd) if is_name(command, dashes=dashes) else Settings()
        for warning in settings.warnings:
            output.report(warning)
        agent = choose_agent(command, dashes=dashes, settings=settings, token=token)
        status = asyncio.run(list_sessions(agent, listing, output))
    except (TwofoldError, OSError) as error:
        output.report(str(error))
        status = exit_status.of_error(error)
    except KeyboardInterrupt:  # before signals are handled
        status = exit_status.CANCELLED
    sys.exit(status)


def _list_kept(
    path: Path | None,
    search: str | None,
    cwd: Path,
    everywhere: bool,
    as_json: bool,
    output: Output,
) -> int:
    from twofold.cli.journal_source import read_journal
    from twofold.cli.session_list import print_kept
    from twofold.term import exit_status

    where = None if everywhere else str(cwd.absolute())
    try:
        read_journal(path, lambda reader: print_kept(reader, where, search, as_json, output))
    except TwofoldError as error:
        output.report(str(error))
        return exit_status.FAILED
    return exit_status.OK
