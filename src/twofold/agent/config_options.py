"""What an agent allows its config options to be set to, and shows of them to version 1."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from twofold.convert.options import Option, choices, find_option, with_value
from twofold.errors import LocalError
from twofold.wire import v2

Options: TypeAlias = list[v2.SessionConfigOption]


class NoSuchOption(LocalError):
    """The session has no such config option, or the option cannot have this value."""


def with_checked_value(
    options: Sequence[v2.SessionConfigOption], config_id: str, value: str | bool
) -> Options:
    """A copy of the options with one of them set; raises `NoSuchOption`."""
    option = find_option(options, config_id)
    if option is None:
        raise NoSuchOption(f"there is no config option {config_id!r}")
    _check(option, value)
    return with_value(options, config_id, value)


def _check(option: Option, value: Any) -> None:
    if isinstance(option, v2.SessionConfigBoolean):
        if not isinstance(value, bool):
            raise NoSuchOption(f"config option {option.config_id!r} must be true or false")
        return
    values = [choice.value for choice in choices(option)]
    if value not in values:
        offered = ", ".join(values)
        raise NoSuchOption(f"config option {option.config_id!r} must be one of {offered}")


def without_booleans(options: Sequence[v2.SessionConfigOption]) -> Options:
    """The options that every client of version 1 can show: booleans need a capability."""
    return [option for option in options if not isinstance(option, v2.SessionConfigBoolean)]
