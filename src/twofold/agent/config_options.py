"""Look-ups in the config options of a session, without any state."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from twofold.convert.options import MODE
from twofold.errors import LocalError
from twofold.wire import v2

Options: TypeAlias = list[v2.SessionConfigOption]

_SETTABLE = v2.SessionConfigSelect | v2.SessionConfigBoolean


class NoSuchOption(LocalError):
    """The session has no such config option, or the option cannot have this value."""


def value_of(options: Sequence[v2.SessionConfigOption], config_id: str) -> str | bool | None:
    """The current value of an option; None if there is no such option."""
    for option in options:
        if isinstance(option, _SETTABLE) and option.config_id == config_id:
            return option.current_value
    return None


def with_value(
    options: Sequence[v2.SessionConfigOption], config_id: str, value: str | bool
) -> Options:
    """A copy of the options with one of them set; raises `NoSuchOption`."""
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
            raise NoSuchOption(f"config option {option.config_id!r} must be true or false")
        return
    values: list[str] = []
    for entry in option.options:
        choices = entry.options if isinstance(entry, v2.SessionConfigSelectGroup) else [entry]
        values += [choice.value for choice in choices]
    if value not in values:
        choice = ", ".join(values)
        raise NoSuchOption(f"config option {option.config_id!r} must be one of {choice}")


def mode_option_id(options: Sequence[v2.SessionConfigOption]) -> str | None:
    """The id of the option that holds the mode: it is found by its category, ids are free."""
    for option in options:
        if isinstance(option, v2.SessionConfigSelect) and option.category == MODE:
            return option.config_id
    return None


def without_booleans(options: Sequence[v2.SessionConfigOption]) -> Options:
    """The options that every client of version 1 can show: booleans need a capability."""
    return [option for option in options if not isinstance(option, v2.SessionConfigBoolean)]
