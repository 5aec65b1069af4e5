"""`twofold agent`: the built-in demo agent on standard input and output.

The demo agent itself is imported when the command is called, so that `--help` is quick.
"""

from typing import TYPE_CHECKING, Literal

import click

from twofold.cli.completers import complete_scenario
from twofold.cli.help import HelpfulCommand
from twofold.cli.options import line_limit
from twofold.cli.output import standard_output
from twofold.errors import LocalError

if TYPE_CHECKING:
    from twofold.demo import Scenario

_VERSIONS: dict[str | None, tuple[Literal[1, 2], ...]] = {None: (1, 2), "1": (1,), "2": (2,)}


def _scenarios() -> dict[str, "Scenario"]:
    from twofold.demo import SCENARIOS

    return SCENARIOS


def _list(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    width = max(map(len, _scenarios()))
    with standard_output():
        for scenario in _scenarios().values():
            click.echo(f"{scenario.name:{width}}  {scenario.summary}")
    context.exit()


def _check_scenario(
    context: click.Context, argument: click.Parameter, name: str | None
) -> str | None:
    if name is not None and name not in _scenarios():
        raise click.BadParameter(f"there is no {name!r}. `twofold agent --list` lists them all.")
    return name


@click.command(cls=HelpfulCommand)
@click.argument(
    "scenario", required=False, callback=_check_scenario, shell_complete=complete_scenario
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="How fast it plays: 10 is ten times faster, 0 is without any pause.",
)
@click.option("--version", type=click.Choice(["1", "2"]), help="Speak only this version.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False),
    help="Keep the sessions in this directory, so that they can be loaded again.",
)
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list,
    help="List the scenarios and exit.",
)
@line_limit
def agent(
    scenario: str | None, speed: float, version: str | None, keep: str | None, line_limit: int
) -> None:
    """Run the built-in demo agent.

    It speaks the protocol on standard input and output, so a client has to start it. Each prompt
    plays SCENARIO; without SCENARIO, the scenario that the prompt names (/flood, /noise, …), or the
    showcase. It changes no file, runs no command and needs no network.
    """
    from twofold.demo import demo_agent

    try:
        demo_agent(scenario, speed, _VERSIONS[version], keep, line_limit=line_limit).run()
    except LocalError as error:
        raise click.ClickException(str(error)) from None
