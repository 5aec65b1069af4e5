"""The help of every command: nothing is cut off, options are grouped, examples can be typed."""

import shlex

import click
import pytest

from tests.support.commands import twofold
from twofold.cli.commands import EXAMPLES, GROUPS, SUMMARIES, commands
from twofold.cli.help import HELP

NAMES = ["-h", "--help"]
"""As of the group: a command remembers the names of the first context that asks for its help."""


def command(name: str) -> click.Command:
    found = commands.get_command(click.Context(commands), name)
    assert found is not None
    return found


def options(name: str) -> list[str]:
    """The long and short names of a command's options."""
    found = command(name)
    params = found.get_params(click.Context(found, help_option_names=NAMES))
    return [each for param in params if isinstance(param, click.Option) for each in param.opts]


def test_the_help_lists_every_command_once_with_its_whole_summary() -> None:
    shown = twofold("--help").stdout
    for name, summary in SUMMARIES.items():
        (line,) = [each for each in shown.splitlines() if each.startswith(f"  {name} ")]
        assert line.endswith(f"  {summary}")
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(SUMMARIES)


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_help_of_a_command_has_its_examples_and_every_option_once(name: str) -> None:
    shown = twofold(name, "--help").stdout
    for example in HELP[name].examples:
        assert f"\n  {example}\n" in shown
    for option in options(name):
        listed = [line for line in shown.splitlines() if line.startswith("  -") and option in line]
        assert any(option in line.replace(",", " ").split() for line in listed), option
    headings = [line for line in shown.splitlines() if line.endswith(":") and line[:1].isalpha()]
    assert len(headings) == len(set(headings))


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_group_names_only_options_that_exist(name: str) -> None:
    named = [option for names in HELP[name].groups.values() for option in names]
    assert set(named) <= set(options(name))
    assert len(named) == len(set(named))


def typed() -> list[str]:
    return [*EXAMPLES, *(example for each in HELP.values() for example in each.examples)]


@pytest.mark.parametrize("example", typed())
def test_an_example_can_be_typed(example: str) -> None:
    words = shlex.split(example.removeprefix('eval "$(').removesuffix(')"').partition(" | ")[0])
    words = words[: words.index(">")] if ">" in words else words
    program, name, *arguments = words
    assert program == "twofold"
    found = command(name)
    with click.Context(found, info_name=name, help_option_names=NAMES) as context:
        context.allow_interspersed_args = found.allow_interspersed_args
        found.make_parser(context).parse_args(arguments)  # raises for an unknown option


def test_an_option_that_is_in_no_group_is_listed_last() -> None:
    shown = twofold("doctor", "--help").stdout
    assert shown.rstrip().splitlines()[-2:] == [
        "Other options:",
        "  -h, --help  Show this message and exit.",
    ]
