"""Config options, modes and commands: look-ups, and one version into the other.

Version 2 has no modes: they are one select option of category `mode` among the config options.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from twofold.convert.capabilities import kept, renamed
from twofold.convert.losses import Losses, carried, recast
from twofold.errors import LocalError
from twofold.wire import v1, v2
from twofold.wire.base import UNSET, Extras, Maybe
from twofold.wire.shared import SessionConfigSelectOption

MODE = "mode"
"""The id and category of the config option that stands for the modes of version 1."""
MODEL = "model"
"""The category of the config option that chooses the model."""

Option: TypeAlias = v2.SessionConfigSelect | v2.SessionConfigBoolean
"""A config option of a known type."""
Options: TypeAlias = list[v2.SessionConfigOption]


# ---- look-ups ------------------------------------------------------------------------------


def known_options(options: Sequence[v2.SessionConfigOption]) -> list[Option]:
    """The config options of known types."""
    return [option for option in options if not isinstance(option, v2.UnknownSessionConfig)]


def find_option(options: Sequence[v2.SessionConfigOption], config_id: str) -> Option | None:
    """The config option with an id; None if there is none."""
    for option in options:
        if not isinstance(option, v2.UnknownSessionConfig) and option.config_id == config_id:
            return option
    return None


def value_of(options: Sequence[v2.SessionConfigOption], config_id: str) -> str | bool | None:
    """What an option is set to; None if there is no such option."""
    option = find_option(options, config_id)
    return None if option is None else option.current_value


def with_value(
    options: Sequence[v2.SessionConfigOption], config_id: str, value: str | bool
) -> Options:
    """The options with the one that has an id set to a value, which is not checked."""
    found = find_option(options, config_id)
    if found is None:
        return list(options)
    changed = replace(found, current_value=value)
    return [changed if option is found else option for option in options]


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


def grouped_choices(
    option: v2.SessionConfigSelect,
) -> Iterator[tuple[v2.SessionConfigSelectGroup | None, SessionConfigSelectOption]]:
    """The choices of a select in their order, each with its group if it is in one."""
    for entry in option.options:
        if isinstance(entry, v2.SessionConfigSelectGroup):
            for choice in entry.options:
                yield entry, choice
        else:
            yield None, entry


def choices(option: v2.SessionConfigSelect) -> Iterator[SessionConfigSelectOption]:
    """The choices of a select in their order, those in groups included."""
    return (choice for _, choice in grouped_choices(option))


def value_name(option: v2.SessionConfigSelect) -> str:
    """The name of the choice that a select is set to; a value that is no choice is its own name."""
    current = option.current_value
    return next((choice.name for choice in choices(option) if choice.value == current), current)


def mode_option(
    options: Sequence[v2.SessionConfigOption], *, by_id: bool = False
) -> v2.SessionConfigSelect | None:
    """The select that sets the mode: the first one of category `mode`, for it has no fixed id.

    Args:
        options: All the config options of a session.
        by_id: A select whose id is `mode` counts too, whatever its category.
    """
    for option in options:
        if isinstance(option, v2.SessionConfigSelect) and (
            option.category == MODE or (by_id and option.config_id == MODE)
        ):
            return option
    return None


def model_option(options: Sequence[v2.SessionConfigOption]) -> v2.SessionConfigSelect | None:
    """The select that sets the model: one of category `model`, else one with that id, else None."""
    selects = [option for option in options if isinstance(option, v2.SessionConfigSelect)]
    for of in ("category", "config_id"):
        for option in selects:
            if getattr(option, of) == MODEL:
                return option
    return None


def has_mode_option(options: Sequence[v2.SessionConfigOption]) -> bool:
    """Whether an agent has a mode among its config options, so that it needs none made."""
    return any(MODE in (option.config_id, option.category) for option in known_options(options))


# ---- config options ------------------------------------------------------------------------


def upgrade_config_option(
    option: v1.SessionConfigOption, losses: Losses, path: str = "configOption"
) -> v2.SessionConfigOption:
    """A config option for version 2; one of an unknown type is kept, under its new id."""
    match option:
        case v1.SessionConfigSelect():
            options = _upgrade_choices(option, losses, f"{path}.options")
            shape = v2.SessionConfigSelect
            return recast(option, shape, losses, path, config_id=option.id, options=options)
        case v1.SessionConfigBoolean():
            return recast(option, v2.SessionConfigBoolean, losses, path, config_id=option.id)
    raw = renamed(option.raw.fields, "id", "configId", losses, path)
    return v2.UnknownSessionConfig(raw=Extras(raw))


def downgrade_config_option(
    option: v2.SessionConfigOption, losses: Losses, path: str = "configOption"
) -> v1.SessionConfigOption | None:
    """A config option for version 1; None for a type that version 1 does not have."""
    match option:
        case v2.SessionConfigSelect():
            options = [
                _downgrade_choice(choice, losses, f"{path}.options[{index}]")
                for index, choice in enumerate(option.options)
            ]
            shape = v1.SessionConfigSelect
            return recast(option, shape, losses, path, id=option.config_id, options=options)
        case v2.SessionConfigBoolean():
            return recast(option, v1.SessionConfigBoolean, losses, path, id=option.config_id)
    losses.report(path, f"version 1 has no config options of type {option.tag!r}")
    return None


def _upgrade_choices(
    option: v1.SessionConfigSelect, losses: Losses, path: str
) -> list[v2.SessionConfigSelectEntry]:
    upgraded: list[v2.SessionConfigSelectEntry] = kept(
        _upgrade_choice(choice, losses, f"{path}[{index}]")
        for index, choice in enumerate(option.options)
    )
    if upgraded:
        return upgraded
    # v2: at least one choice. The current value is one, and an option must not be lost with
    # what it is set to.
    losses.report(path, "version 2 requires a choice: the current value became the only one")
    return [v2.SessionConfigUngrouped(option.current_value, option.current_value)]


def _upgrade_choice(
    choice: v1.SessionConfigSelectEntry, losses: Losses, path: str
) -> v2.SessionConfigSelectEntry | None:
    if not isinstance(choice, v1.SessionConfigSelectGroup):
        return recast(choice, v2.SessionConfigUngrouped, losses, path)
    if not choice.options:  # v2: at least one choice in a group, too
        losses.report(path, "version 2 has no empty groups")
        return None
    return recast(choice, v2.SessionConfigSelectGroup, losses, path, group_id=choice.group)


def _downgrade_choice(
    choice: v2.SessionConfigSelectEntry, losses: Losses, path: str
) -> v1.SessionConfigSelectEntry:
    if not isinstance(choice, v2.SessionConfigSelectGroup):
        return recast(choice, v1.SessionConfigUngrouped, losses, path)
    return recast(choice, v1.SessionConfigSelectGroup, losses, path, group=choice.group_id)


def upgrade_config_options(
    options: list[v1.SessionConfigOption], losses: Losses
) -> list[v2.SessionConfigOption]:
    return [
        upgrade_config_option(option, losses, f"configOptions[{index}]")
        for index, option in enumerate(options)
    ]


def downgrade_config_options(
    options: list[v2.SessionConfigOption], losses: Losses
) -> list[v1.SessionConfigOption]:
    return kept(
        downgrade_config_option(option, losses, f"configOptions[{index}]")
        for index, option in enumerate(options)
    )


# ---- modes ---------------------------------------------------------------------------------


def option_of_modes(
    modes: v1.SessionModeState, losses: Losses | None = None
) -> v2.SessionConfigSelect:
    """The modes of version 1 as a config option."""
    losses = Losses() if losses is None else losses
    offered: list[v2.SessionConfigSelectEntry] = [
        recast(
            mode, v2.SessionConfigUngrouped, losses, f"modes.availableModes[{index}]", value=mode.id
        )
        for index, mode in enumerate(modes.available_modes)
    ]
    if not offered:  # v2: at least one choice
        losses.report("modes.availableModes", "version 2 requires a choice: the current mode")
        offered = [v2.SessionConfigUngrouped(modes.current_mode_id, modes.current_mode_id)]
    return v2.SessionConfigSelect(
        config_id=MODE,
        name="Mode",
        category=MODE,
        current_value=modes.current_mode_id,
        options=offered,
        **carried(modes, v2.SessionConfigSelect, losses, "modes"),
    )


def modes_of(options: list[v2.SessionConfigOption]) -> v1.SessionModeState | None:
    """The modes among the config options, as version 1 has them; None if there are none."""
    option = mode_option(options)
    if option is None:
        return None
    unreported = Losses()  # version 1 gets the option as well: what modes cannot hold is not lost
    modes = [
        recast(choice, v1.SessionMode, unreported, id=choice.value) for choice in choices(option)
    ]
    beside = carried(option, v1.SessionModeState, unreported, "")
    return v1.SessionModeState(option.current_value, modes, **beside)


def with_modes(
    options: list[v2.SessionConfigOption], modes: v1.SessionModeState, losses: Losses
) -> list[v2.SessionConfigOption]:
    """The config options of a version 1 agent, and its modes as one of them."""
    if not has_mode_option(options):
        return [option_of_modes(modes, losses), *options]
    if not includes(modes_of(options), modes):
        losses.report("modes", "the agent has a config option for it, which differs")
    return options


def includes(other: v1.SessionModeState | None, modes: v1.SessionModeState) -> bool:
    """Whether `other` has the same modes as `modes`, and its metadata."""

    def facts(mode: v1.SessionMode) -> tuple[Any, ...]:
        return mode.id, mode.name, mode.description or None, mode.meta or None, mode.unknown

    return (
        other is not None
        and other.current_mode_id == modes.current_mode_id
        and [*map(facts, other.available_modes)] == [*map(facts, modes.available_modes)]
        and (not modes.meta or modes.meta == other.meta)
        and (not modes.unknown or modes.unknown == other.unknown)
    )


# ---- commands ------------------------------------------------------------------------------


def upgrade_command(
    command: v1.AvailableCommand, losses: Losses, path: str = "availableCommand"
) -> v2.Command:
    """A command that the user can give."""
    hint: Maybe[v2.AvailableCommandInput] = UNSET
    if command.input:
        hint = recast(command.input, v2.TextCommandInput, losses, f"{path}.input")
    return recast(command, v2.Command, losses, path, input=hint)


def downgrade_command(
    command: v2.AvailableCommand, losses: Losses, path: str = "availableCommand"
) -> v1.AvailableCommand | None:
    """A command that the user can give; None for a type that version 1 does not have."""
    if isinstance(command, v2.UnknownCommand):
        losses.report(path, f"version 1 has no commands of type {command.tag!r}")
        return None
    hint: Maybe[v1.UnstructuredCommandInput] = UNSET
    if isinstance(command.input, v2.TextCommandInput):
        hint = recast(command.input, v1.UnstructuredCommandInput, losses, f"{path}.input")
    elif command.input:
        losses.report(f"{path}.input", f"version 1 has no input {command.input.tag!r}")
    return recast(command, v1.AvailableCommand, losses, path, input=hint)
