"""`--offer` and `--pass-env`: what a client or a bridge does for an agent of version 1."""

from typing import Final, Literal, TypeAlias, cast

import click

from twofold.rpc.frames import LIMIT

# The option `--line-limit`: how long a line of a peer may be.


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


Offered: TypeAlias = Literal["fs", "terminal"]

_OFFERS: Final = ("fs", "terminal")


def offered(context: click.Context, option: click.Parameter, text: str) -> frozenset[Offered]:
    """What was named, with commas between."""
    words = {word.strip() for word in text.split(",") if word.strip()}
    unknown = sorted(words.difference(_OFFERS))
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)} cannot be offered; fs and terminal can.")
    return cast("frozenset[Offered]", frozenset(words))


def variable_names(
    context: click.Context, option: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Names of environment variables: a value that was written behind one is a mistake."""
    for name in names:
        if not name or "=" in name or "\0" in name:
            raise click.BadParameter(f"{name!r} is no variable's name; give NAME, not its value.")
    return names
