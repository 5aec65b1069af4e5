"""The options with which rules about permissions are given, and the rules that they make."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

if TYPE_CHECKING:
    from twofold.host.settings import Settings
    from twofold.policy import Policy, Rule

F = TypeVar("F", bound=Callable[..., Any])


def rules(ask: str) -> Callable[[F], F]:
    """The options `--allow`, `--reject`, `--ask`, whose help is given, and `--policy`."""
    options = (
        click.option(
            "--allow",
            multiple=True,
            metavar="RULE",
            help="Allow, for example read or command:make.",
        ),
        click.option(
            "--reject", multiple=True, metavar="RULE", help="Reject, whatever else allows it."
        ),
        click.option("--ask", multiple=True, metavar="RULE", help=ask),
        click.option(
            "--policy",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Read more rules from this JSON file.",
        ),
    )

    def decorated(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def policy_of(settings: "Settings", options: dict[str, Any]) -> "Policy":
    """The rules of the options, those that reject first, then those of the settings.

    `--ask` is before `--allow`, because the first rule that matches decides.
    """
    from twofold.policy import Policy, read_policy

    file: Path | None = options["policy"]
    try:
        written = read_policy(file.read_bytes(), str(file)) if file is not None else Policy()
    except OSError as error:
        reason = f"{file} cannot be read: {error.strerror}."
        raise click.BadParameter(reason, param_hint="'--policy'") from None
    own = [
        *_rules(options["reject"], "reject"),
        *_rules(options["ask"], "ask"),
        *_rules(options["allow"], "allow"),
    ]
    return Policy([*own, *written.rules, *settings.rules], written.otherwise)


def _rules(words: tuple[str, ...], decision: Literal["allow", "reject", "ask"]) -> "list[Rule]":
    from twofold.policy import parse_rule

    return [parse_rule(word, decision) for word in words]
