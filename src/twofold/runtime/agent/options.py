"""Config options: what a client may set, and what of it a client of version 1 can be shown."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from twofold.convert.options import MODE
from twofold.errors import LocalError
from twofold.wire import v2

Options: TypeAlias = list[v2.SessionConfigOption]

_SETTABLE = v2.SessionConfigSelect | v2.SessionConfigBoolean


class NoSuchOption(LocalError):
    """A config option was to be set that there is not, or to a value that it cannot have."""


def value_of(options: Sequence[v2.SessionConfigOption], config_id: str) -> str | bool | None:
    """What an option is set to; None if there is no such option."""
    for option in options:
        if isinstance(option, _SETTABLE) and option.config_id == config_id:
            return option.current_value
    return None


def with_value(
    options: Sequence[v2.SessionConfigOption], config_id: str, value: str | bool
) -> Options:
    """The options with one of them set; raises `NoSuchOption`."""
    changed: Options = list(options)
    for index, option in enumerate(options):
        if isinstance(option, _SETTABLE) and option.config_id == config_id:
            _check(option, value)
            changed[index] = replace(option, current_value=value)
            return changed
    raise NoSuchOption(f"there is no config option {config_id!r}")


def _check(option: v2.SessionConfigSelect | v2.SessionConfigBoolean, value: Any) -> None:
    if isinstance(option, v2.SessionConfigBoolean):
        if not isinstance(value, bool):
            raise NoSuchOption(f"{option.config_id!r} is true or false")
        return
    values: list[str] = []
    for entry in option.options:
        choices = entry.options if isinstance(entry, v2.SessionConfigSelectGroup) else [entry]
        values += [choice.value for choice in choices]
    if value not in values:
        raise NoSuchOption(f"{option.config_id!r} is one of {', '.join(values)}")


def mode_option(options: Sequence[v2.SessionConfigOption]) -> str | None:
    """The id of the option that is the mode; it has no fixed name."""
    for option in options:
        if isinstance(option, v2.SessionConfigSelect) and option.category == MODE:
            return option.config_id
    return None


def without_booleans(options: Sequence[v2.SessionConfigOption]) -> Options:
    """What a client of version 1 knows that did not say it knows more."""
    return [option for option in options if not isinstance(option, v2.SessionConfigBoolean)]
