"""The option `--line-limit`: how long a line of a peer may be."""

import click

from twofold.rpc.frames import LIMIT

MIB = 1024 * 1024


def _in_bytes(context: click.Context, option: click.Parameter, mib: int) -> int:
    return mib * MIB


line_limit = click.option(
    "--line-limit",
    type=click.IntRange(min=1),
    default=LIMIT // MIB,
    show_default=True,
    callback=_in_bytes,
    metavar="MIB",
    help="Pass over lines that are longer than so many MiB.",
)
