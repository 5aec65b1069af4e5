"""Config options, modes and commands, one version into the other.

Version 2 has no modes: they are one select option of category `mode` among the config options.
"""

from typing import Any

from twofold.convert.capabilities import kept, renamed
from twofold.convert.losses import Losses, carried, recast
from twofold.wire import v1, v2
from twofold.wire.base import UNSET, Extras, Maybe
from twofold.wire.shared import SessionConfigSelectOption

MODE = "mode"
"""The id and category of the config option that stands for the modes of version 1."""


# ---- config options ------------------------------------------------------------------------


def upgrade_config_option(
    option: v1.SessionConfigOption, losses: Losses, path: str = "configOption"
) -> v2.SessionConfigOption:
    """A config option; one of a type that we do not know is kept, under its new id."""
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
    """A config option; None for one of a type that version 1 does not know."""
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
    losses.report(path, f"version 1 does not know config options of type {option.tag!r}")
    return None


def _upgrade_choices(
    option: v1.SessionConfigSelect, losses: Losses, path: str
) -> list[v2.SessionConfigSelectEntry]:
    choices: list[v2.SessionConfigSelectEntry] = kept(
        _upgrade_choice(choice, losses, f"{path}[{index}]")
        for index, choice in enumerate(option.options)
    )
    if choices:
        return choices
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


def mode_option(modes: v1.SessionModeState, losses: Losses | None = None) -> v2.SessionConfigSelect:
    """The modes of version 1 as a config option."""
    losses = Losses() if losses is None else losses
    choices: list[v2.SessionConfigSelectEntry] = [
        recast(
            mode, v2.SessionConfigUngrouped, losses, f"modes.availableModes[{index}]", value=mode.id
        )
        for index, mode in enumerate(modes.available_modes)
    ]
    if not choices:  # v2: at least one choice
        losses.report("modes.availableModes", "version 2 requires a choice: the current mode")
        choices = [v2.SessionConfigUngrouped(modes.current_mode_id, modes.current_mode_id)]
    return v2.SessionConfigSelect(
        config_id=MODE,
        name="Mode",
        category=MODE,
        current_value=modes.current_mode_id,
        options=choices,
        **carried(modes, v2.SessionConfigSelect, losses, "modes"),
    )


def modes_of(options: list[v2.SessionConfigOption]) -> v1.SessionModeState | None:
    """The modes among the config options: the first select of category `mode`."""
    for option in options:
        if isinstance(option, v2.SessionConfigSelect) and option.category == MODE:
            # The option itself goes over as well: what modes cannot say is not lost.
            unreported = Losses()
            modes = [
                recast(choice, v1.SessionMode, unreported, id=choice.value)
                for choice in _flat(option.options)
            ]
            return v1.SessionModeState(
                option.current_value,
                modes,
                **carried(option, v1.SessionModeState, unreported, ""),
            )
    return None


def has_mode_option(options: list[v2.SessionConfigOption]) -> bool:
    """Whether an agent has a mode among its config options, so that it needs none made."""
    return any(
        option.config_id == MODE or option.category == MODE
        for option in options
        if isinstance(option, v2.SessionConfigCommon)
    )


def _flat(entries: list[v2.SessionConfigSelectEntry]) -> list[SessionConfigSelectOption]:
    choices: list[SessionConfigSelectOption] = []
    for entry in entries:
        choices += entry.options if isinstance(entry, v2.SessionConfigSelectGroup) else [entry]
    return choices


def with_modes(
    options: list[v2.SessionConfigOption], modes: v1.SessionModeState, losses: Losses
) -> list[v2.SessionConfigOption]:
    if not has_mode_option(options):
        return [mode_option(modes, losses), *options]
    if not says(modes_of(options), modes):
        losses.report("modes", "the agent has a config option for it, which says otherwise")
    return options


def says(said: v1.SessionModeState | None, modes: v1.SessionModeState) -> bool:
    """Whether `said` says all that `modes` says."""

    def facts(mode: v1.SessionMode) -> tuple[Any, ...]:
        return mode.id, mode.name, mode.description or None, mode.meta or None, mode.unknown

    return (
        said is not None
        and said.current_mode_id == modes.current_mode_id
        and [*map(facts, said.available_modes)] == [*map(facts, modes.available_modes)]
        and (not modes.meta or modes.meta == said.meta)
        and (not modes.unknown or modes.unknown == said.unknown)
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
    """A command that the user can give; None for one of a type that version 1 does not know."""
    if isinstance(command, v2.UnknownCommand):
        losses.report(path, f"version 1 does not know commands of type {command.tag!r}")
        return None
    hint: Maybe[v1.UnstructuredCommandInput] = UNSET
    if isinstance(command.input, v2.TextCommandInput):
        hint = recast(command.input, v1.UnstructuredCommandInput, losses, f"{path}.input")
    elif command.input:
        losses.report(f"{path}.input", f"version 1 does not know input {command.input.tag!r}")
    return recast(command, v1.AvailableCommand, losses, path, input=hint)
