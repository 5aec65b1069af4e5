"""The group of commands. A command's module is imported when the command is called.

So `twofold --version` and `twofold --help` import click and this module, and nothing else.
"""

from typing import TYPE_CHECKING

import click

from twofold import __version__
from twofold.cli.interrupts import raise_on_interrupt

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SUMMARIES = {
    "agent": "Run the built-in demo agent.",
    "agents": "List the agents that `twofold run NAME` knows.",
    "bridge": "Connect a client and an agent of different versions.",
    "completion": "Print or install shell completion.",
    "convert": "Convert a recording to the other version.",
    "doctor": "Examine an agent and print a report.",
    "fold": "Print the final state of each session in a recording.",
    "journal": "Check the journal of `twofold serve`, or import a recording.",
    "replay": "Play a recording to a client.",
    "run": "Talk to an agent.",
    "serve": "See and steer sessions in a browser.",
    "sessions": "List an agent's sessions, or those that are kept.",
    "settings": "Show the settings, and where each value comes from.",
    "show": "Print a recording for reading.",
}
"""The line of `--help` for each command: the first sentence of its own help."""

GROUPS = {
    "Agents": ("run", "serve", "agents", "sessions", "doctor", "bridge", "agent"),
    "Recordings": ("show", "fold", "convert", "replay", "journal"),
    "Settings": ("settings", "completion"),
}
"""The headings of `--help`, each with its commands. Commands in no group are listed last."""

_LATER = ("agents", "bridge", "doctor", "journal", "replay", "run", "serve", "sessions")
"""The commands that import more before they begin, and then have interrupts raised themselves."""

EXAMPLES = (
    "twofold run claude",
    "twofold run -- some-agent --acp",
    "twofold serve claude",
    "twofold doctor -- some-agent --acp",
)


class _LazyGroup(click.Group):
    """Imports a command when it is called, and lists all of them without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command: click.Command
        match cmd_name:
            case "agent":
                from twofold.cli.demo_agent import agent as command
            case "agents":
                from twofold.cli.agents import agents as command
            case "bridge":
                from twofold.cli.bridge import bridge as command
            case "completion":
                from twofold.cli.completion import completion as command
            case "convert":
                from twofold.cli.filters import convert as command
            case "doctor":
                from twofold.cli.doctor import doctor as command
            case "fold":
                from twofold.cli.filters import fold as command
            case "journal":
                from twofold.cli.journal import journal as command
            case "replay":
                from twofold.cli.replay import replay as command
            case "run":
                from twofold.cli.run import run as command
            case "serve":
                from twofold.cli.serve import serve as command
            case "sessions":
                from twofold.cli.sessions import sessions as command
            case "settings":
                from twofold.cli.settings import settings as command
            case "show":
                from twofold.cli.filters import show as command
            case _:
                return None
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        from click.shell_completion import CompletionItem

        names = [name for name in SUMMARIES if name.startswith(incomplete)]
        items = [CompletionItem(name, help=SUMMARIES[name]) for name in names]
        return items or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        grouped = {name for names in GROUPS.values() for name in names}
        rest = tuple(name for name in SUMMARIES if name not in grouped)
        width = max(map(len, SUMMARIES))  # the same in every group
        for heading, names in {**GROUPS, "Other commands": rest}.items():
            rows = [(f"{name:{width}}", SUMMARIES[name]) for name in names if name in SUMMARIES]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_commands(ctx, formatter)
        with formatter.section("Examples"):
            for example in EXAMPLES:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        click.Command.format_options(self, ctx, formatter)
        formatter.write("\nThe help of a command: twofold COMMAND --help\n")


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="twofold")
@click.pass_context
def commands(context: click.Context) -> None:
    """One ACP session, whichever version each side speaks."""
    if context.invoked_subcommand not in _LATER:
        raise_on_interrupt()
