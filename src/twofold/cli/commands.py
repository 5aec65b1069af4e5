"""The group of commands. A command's module is imported when the command is called.

So `twofold --version` and `twofold --help` import click and this module, and nothing else.
"""

import click

from twofold import __version__
from twofold.cli.interrupts import raise_on_interrupt

SUMMARIES = {
    "agent": "Run the built-in demo agent.",
    "bridge": "Connect a client and an agent of different versions.",
    "convert": "Convert a recording to the other version.",
    "fold": "Print the final state of each session in a recording.",
    "run": "Talk to an agent.",
    "sessions": "List an agent's sessions.",
    "show": "Print a recording for reading.",
}
"""The line of `--help` for each command: the first sentence of its own help."""


class _LazyGroup(click.Group):
    """Imports a command when it is called, and lists all of them without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        match cmd_name:
            case "agent":
                from twofold.cli.demo_agent import agent as command
            case "bridge":
                from twofold.cli.bridge import bridge as command
            case "convert":
                from twofold.cli.filters import convert as command
            case "fold":
                from twofold.cli.filters import fold as command
            case "run":
                from twofold.cli.run import run as command
            case "sessions":
                from twofold.cli.sessions import sessions as command
            case "show":
                from twofold.cli.filters import show as command
            case _:
                return None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="twofold")
@click.pass_context
def commands(context: click.Context) -> None:
    """One ACP session, whichever version each side speaks."""
    # these import more before they begin
    if context.invoked_subcommand not in ("bridge", "run", "sessions"):
        raise_on_interrupt()
