"""Options that several commands share."""

import os
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

import click

from twofold.cli.help import HelpfulCommand
from twofold.rpc.frames import LIMIT

Offered: TypeAlias = Literal["fs", "terminal"]

_OFFERS: Final = ("fs", "terminal")
_MIB: Final = 1024 * 1024


def parse_offer(context: click.Context, option: click.Parameter, text: str) -> frozenset[Offered]:
    """The words of `--offer`, which are separated by commas."""
    words = {word.strip() for word in text.split(",") if word.strip()}
    unknown = sorted(words.difference(_OFFERS))
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)} cannot be offered; fs and terminal can.")
    return cast("frozenset[Offered]", frozenset(words))


def seconds(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """Refuse a number of seconds that is none."""
    if value is not None and (isnan(value) or value <= 0):
        raise click.BadParameter("it must be a number of seconds greater than 0.")
    return value


def duration(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """The seconds of a duration such as `90d`."""
    from twofold.host.amounts import BadAmount, parse_duration

    try:
        return None if text is None else parse_duration(text)
    except BadAmount as error:
        raise click.BadParameter(str(error)) from None


def size_in_bytes(context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """The bytes of a size such as `10G`."""
    from twofold.host.amounts import BadAmount, parse_size

    try:
        return None if text is None else parse_size(text)
    except BadAmount as error:
        raise click.BadParameter(str(error)) from None


def _read_token(context: click.Context, option: click.Parameter, file: Path | None) -> str | None:
    """The token in a file, or else that of the environment."""
    from twofold.errors import LocalError
    from twofold.transport.commands import TOKEN_VARIABLE
    from twofold.transport.endpoint import read_token

    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        return read_token(file)
    except LocalError as error:
        raise click.BadParameter(str(error)) from None


token_file = click.option(
    "--token-file",
    "token",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    callback=_read_token,
    help="For an agent at a URL: the file that holds the token to send. Without it, the variable"
    " TWOFOLD_TOKEN is used.",
)


def _check_names(
    context: click.Context, option: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        if not name or "=" in name or "\0" in name:
            raise click.BadParameter(
                f"{name!r} is not the name of a variable; give NAME, not its value."
            )
    return names


pass_env = click.option(
    "--pass-env",
    multiple=True,
    metavar="NAME",
    callback=_check_names,
    help="With --offer terminal: pass this environment variable on to the commands that the agent"
    " runs here.",
)


def _in_bytes(context: click.Context, option: click.Parameter, mib: int) -> int:
    return mib * _MIB


line_limit = click.option(
    "--line-limit",
    type=click.IntRange(min=1),
    default=LIMIT // _MIB,
    show_default=True,
    callback=_in_bytes,
    metavar="MIB",
    help="Drop lines that are longer than this many MiB.",
)


journal_file = click.option(
    "--journal-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --journal: read this journal instead of that of `twofold serve`.",
)


class AgentCommand(HelpfulCommand):
    """A command whose last arguments are an agent: `dashes` is true if `--` is before them.

    The directory of `--cwd` has to be here, unless the agent is at a URL: then it may be there.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        words = ctx.params.get("command") or ()
        before = given[: len(given) - len(words)]
        ctx.params["dashes"] = bool(before) and before[-1] == "--"
        self._check_directory(ctx, words)
        return rest

    def _check_directory(self, context: click.Context, words: Sequence[str]) -> None:
        cwd = context.params.get("cwd")
        if cwd is None or (words and _is_url(words[0]) and cwd.is_absolute()):
            return
        [option] = [each for each in self.params if each.name == "cwd"]
        click.Path(exists=True, file_okay=False).convert(cwd, option, context)


def _is_url(word: str) -> bool:
    from twofold.transport.endpoint import is_url

    return is_url(word)
