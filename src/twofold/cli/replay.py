"""`twofold replay`: an agent on standard input and output that plays a recording.

`run_replay`, which does the work, is imported when the command runs.
"""

import sys
from math import inf
from typing import Final, Literal

import click

from twofold.cli.help import HelpfulCommand
from twofold.cli.interrupts import raise_on_interrupt
from twofold.cli.options import line_limit
from twofold.errors import LocalError

_VERSIONS: Final[dict[str | None, Literal["auto", 1, 2]]] = {None: "auto", "1": 1, "2": 2}


def _speed(context: click.Context, option: click.Parameter, value: str) -> float:
    """`recorded`, `max` or a factor."""
    if value in ("recorded", "max"):
        return 1.0 if value == "recorded" else inf
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not 0 < factor < inf:
        raise click.BadParameter(
            f"{value!r} is neither recorded, nor max, nor a number greater than 0."
        )
    return factor


@click.command(cls=HelpfulCommand)
@click.argument("recording", type=click.Path(exists=True, dir_okay=False, allow_dash=False))
@click.option(
    "--speed",
    default="recorded",
    show_default=True,
    metavar="recorded|N|max",
    callback=_speed,
    help="How fast it plays: 10 is ten times faster than recorded, max is without any pause.",
)
@click.option("--session", metavar="ID", help="Play only this session.")
@click.option("--loop", is_flag=True, help="Start again when a session is over.")
@click.option(
    "--strict",
    is_flag=True,
    help="Answer with an error where the client deviates, and exit with 3.",
)
@click.option(
    "--version", type=click.Choice(["1", "2"]), help="Speak only this version with the client."
)
@click.option(
    "--from",
    "source",
    type=click.Choice(["auto", "1", "2", "guide"]),
    default="auto",
    show_default=True,
    help="The version of the recording.",
)
@line_limit
def replay(
    recording: str,
    speed: float,
    session: str | None,
    loop: bool,
    strict: bool,
    version: str | None,
    source: str,
    line_limit: int,
) -> None:
    """Play a recording to a client.

    It is an agent on standard input and output, so a client has to start it. It sends what the
    agent in RECORDING sent, and waits where the client has to act. If the client asks for the other
    version, the messages are converted. What the client does otherwise than the recorded one is
    reported on standard error.
    """
    import asyncio

    from twofold.cli.run_replay import Options, read_recording, run_replay

    raise_on_interrupt()
    try:
        script = read_recording(recording, source, session)
        options = Options(speed, loop, strict, session, _VERSIONS[version], line_limit)
        sys.exit(asyncio.run(run_replay(script, options)))
    except LocalError as error:
        raise click.ClickException(str(error)) from None
