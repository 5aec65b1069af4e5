"""What our orders print: help, modes, settings, usage.

Lines to draw, with the words of the agent safe and never without end. What is chosen now is
marked with a star, which every encoding has.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from rich.cells import cell_len

from twofold.session import Session
from twofold.term.input.orders import (
    LONGEST,
    ORDERS,
    AgentCommand,
    NoModes,
    Option,
    UnknownOption,
    agent_commands,
    choices,
    config_options,
    mode_option,
    said,
)
from twofold.term.lines import BLANK, Line, line
from twofold.view.outline import short, usage_words
from twofold.wire import v2
from twofold.wire.shared import SessionConfigSelectOption

MOST_LISTED: Final = 100
"""A list of the agent is shown up to this many lines."""
KEYS: Final = (
    ("Enter", "sends"),
    ("Alt-Enter, Ctrl-J", "a new line; so does a backslash at the end of the line"),
    ("Tab", "completes orders, commands and paths"),
    ("@path", 'sends a file along; with blanks @"a b.txt"'),
    ("Up", "what was sent before; after some words, what began with them"),
    ("Ctrl-C", "clears the input; twice on an empty line: leaves"),
    ("Ctrl-D", "leaves, on an empty line"),
)
_WIDEST: Final = 22
_Part: TypeAlias = tuple[str, str]
_MARGIN: Final = (("  ", ""),)


def help_lines(session: Session) -> list[Line]:
    """Our orders, the keys, and the commands of the agent."""
    orders = [(f"/{order.name} {order.arguments}", order.summary) for order in ORDERS.values()]
    made = [line("Orders", "bold"), *_table(orders)]
    made += [BLANK, line("Keys", "bold"), *_table(KEYS)]
    commands = agent_commands(session)
    if commands:
        told = [(_slashed(command.name), _described(command)) for command in commands]
        made += [BLANK, line("Commands of the agent", "bold"), *_table(told[:MOST_LISTED])]
        made += _left(len(told))
    twice = [command.name for command in commands if command.name in ORDERS]
    if twice:
        both = ", ".join([f"/{name}" for name in dict.fromkeys(twice)])
        note = f"{both}: the order is meant. Two slashes reach the agent's command: //{twice[0]}"
        made.append(line(note, "dim", "  "))
    return made


def mode_lines(session: Session) -> list[Line]:
    """The modes, the current one marked; raises `NoModes` if there are none."""
    option = mode_option(session)
    if option is None:
        raise NoModes
    return _select_lines(option)


def config_lines(session: Session, config_id: str | None = None) -> list[Line]:
    """Every config option with its current value, or one of them with all of its values."""
    options = config_options(session)
    if config_id is not None:
        for option in options:
            if option.config_id == config_id:
                return _option_lines(option)
        raise UnknownOption(config_id, [option.config_id for option in options])
    if not options:
        return [line("The agent has no settings in this session.", "dim")]
    told = [(said(option.config_id), _current(option)) for option in options]
    made = [*_table(told[:MOST_LISTED]), *_left(len(told))]
    return [*made, line("/config ID shows the values, /config ID VALUE chooses one.", "dim")]


def usage_lines(session: Session) -> list[Line]:
    """How many tokens were used, how many are left, and what they cost."""
    usage = session.usage
    if usage is None:
        return [line("The agent has not said how many tokens it used.", "dim")]
    made = [line(usage_words(usage))]
    if usage.size:
        left = max(0, usage.size - usage.used)
        percent = min(100 * usage.used // usage.size, 999)
        made.append(
            line(f"{percent}% of the context is used, {short(left)} tokens are left", "dim")
        )
    return made


# ---- settings ----------------------------------------------------------------------------------


def _option_lines(option: Option) -> list[Line]:
    made = [line(f"{said(option.name)} ({said(option.config_id)})", "bold")]
    if option.description:
        made.append(line(said(option.description, 10 * LONGEST), "dim", "  "))
    if isinstance(option, v2.SessionConfigSelect):
        return made + _select_lines(option)
    values = (("on", option.current_value), ("off", not option.current_value))
    return [*made, *(_choice(value, "", current, 0) for value, current in values)]


def _select_lines(option: v2.SessionConfigSelect) -> list[Line]:
    current = option.current_value
    offered = list(choices(option))
    values = [said(choice.value) for _, choice in offered[:MOST_LISTED]]
    column = _column(values)
    made: list[Line] = []
    group_before = ""
    for value, (group, choice) in zip(values, offered, strict=False):
        if group and group != group_before:
            made.append(line(group, "cyan", "  "))
        group_before = group
        made.append(_choice(value, _about(choice), choice.value == current, column))
    made += _left(len(offered))
    if current not in [choice.value for _, choice in offered]:
        made.append(_choice(said(current), "not offered any more", True, column))
    return made


def _about(choice: SessionConfigSelectOption) -> str:
    name, told = said(choice.name), said(choice.description or "", 10 * LONGEST)
    if name.casefold() == said(choice.value).casefold():
        return told
    return f"{name}: {told}" if told else name


def _choice(value: str, about: str, current: bool, column: int) -> Line:
    mark = ("* " if current else "  ", "green")
    return _row(mark, (value, "bold" if current else ""), (about, "dim"), column)


def _current(option: Option) -> str:
    if isinstance(option, v2.SessionConfigBoolean):
        value = "on" if option.current_value else "off"
    else:
        named = (
            choice.name for _, choice in choices(option) if choice.value == option.current_value
        )
        value = said(next(named, option.current_value))
    told = f" ({said(option.description)})" if option.description else ""
    return f"{said(option.name)}: {value}{told}"


# ---- tables ------------------------------------------------------------------------------------


def _slashed(name: str) -> str:
    return f"//{name}" if name in ORDERS else f"/{name}"


def _described(command: AgentCommand) -> str:
    hint = f"[{command.hint}] " if command.hint else ""
    return f"{hint}{command.description}"


def _table(rows: Sequence[tuple[str, str]]) -> Iterator[Line]:
    column = _column([head for head, _ in rows])
    for head, text in rows:
        yield _row(("", ""), (head, "bold"), (text, ""), column)


def _column(heads: Iterable[str]) -> int:
    """How wide the first column is; heads that are wider still do not count."""
    sizes = [size for head in heads if (size := cell_len(head)) <= _WIDEST]
    return max(sizes, default=0) + 2


def _row(mark: _Part, head: _Part, text: _Part, column: int) -> Line:
    blanks = column - cell_len(head[0])
    if not text[0]:
        return Line((mark, head), _MARGIN)
    if blanks < 2:  # it takes the place of the text, which goes on behind it
        return Line((head, ("  ", ""), text), _MARGIN, head=(mark,))
    return Line((text,), _MARGIN, head=(mark, head, (" " * blanks, "")))


def _left(count: int) -> list[Line]:
    if count <= MOST_LISTED:
        return []
    return [line(f"… and {count - MOST_LISTED:,} more", "dim", "  ")]
