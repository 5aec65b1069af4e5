"""`twofold doctor`: examine an agent step by step, and print a report for people or programs.

This module reads the options; `doctor_report`, which does the rest, is imported when the command
runs.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from twofold.cli.completers import complete_command
from twofold.cli.interrupts import CANCELLED, raise_on_interrupt
from twofold.cli.options import AgentCommand, seconds, token_file
from twofold.cli.output import Output
from twofold.errors import TwofoldError

if TYPE_CHECKING:
    from twofold.cli.doctor_report import Format
    from twofold.convert.versions import Version


# after COMMAND, words that look like our options belong to the command
@click.command(cls=AgentCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "--prompt",
    metavar="TEXT",
    help="Send this prompt, and once more to cancel it. Without it no prompt is sent.",
)
@click.option(
    "--timeout",
    type=float,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    callback=seconds,
    help="How long each step may take.",
)
@click.option("--version", type=click.Choice(["1", "2"]), help="Speak only this version.")
@click.option("--login", metavar="METHOD", help="How to log in if the agent wants a login.")
@click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    default=".",
    help="The directory to work in; the agent is started there.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="text: for reading. markdown: to paste into an issue. json: one object per step.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@token_file
@click.argument(
    "command", nargs=-1, metavar="[NAME | URL | -- COMMAND...]", shell_complete=complete_command
)
def doctor(form: "Format", command: tuple[str, ...], dashes: bool, **options: Any) -> None:
    """Examine an agent and print a report.

    NAME is a known agent (see `twofold agents`), URL one that runs already, COMMAND starts any
    other. Without all of them, the default agent of the settings is examined, or else the demo
    agent. Each step has a mark: ✓ it works, ! it works, but something is wrong, ✗ it fails, – it
    was skipped. No permission is granted, and no step takes longer than --timeout. Exit status: 0
    all is fine, 1 something is wrong with the agent, 2 wrong usage, 5 cancelled.
    """
    import asyncio

    from twofold.cli.doctor_report import run_doctor
    from twofold.client.doctor import Checkup
    from twofold.host.agent_choice import choose_agent, is_name
    from twofold.host.settings import Settings, load
    from twofold.term import exit_status

    version = options.pop("version")
    demanded = cast("Version | None", int(version) if version else None)
    output = Output()
    try:
        raise_on_interrupt()
        settings = load(options["cwd"]) if is_name(command, dashes=dashes) else Settings()
        token = options.pop("token")
        agent = choose_agent(command, dashes=dashes, settings=settings, token=token)
        checkup = Checkup(
            command=agent.command,
            env=agent.env,
            endpoint=agent.endpoint,
            version=demanded,
            **options,
        )
        status = asyncio.run(run_doctor(checkup, form, output))
    except TwofoldError as error:
        output.report(str(error))
        status = exit_status.of_error(error)
    except KeyboardInterrupt:  # before signals are handled
        status = CANCELLED
    sys.exit(status)
