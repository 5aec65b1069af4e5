"""What our orders print: help, modes, settings, usage.

Lines to draw, with the words of the agent safe and never without end. What is chosen now is
marked with a star, which every encoding has.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from rich.cells import cell_len

from twofold.errors import LocalError
from twofold.session import Session
from twofold.term.lines import BLANK, Line, line
from twofold.text.safe import one_line
from twofold.view.outline import short, usage_words
from twofold.wire import v2
from twofold.wire.shared import SessionConfigSelectOption

# What a person orders the client to do: `/mode plan`, `/config model`, `/quit`.
#
# An order stands alone on its line and begins with its slash. A `/word` that is a command of the
# agent goes to it as it is; where the agent has a command that is called like an order, the order
# wins, and `//mode` sends the agent its `/mode`. Any other `/word` is more often a slip than a
# message, so it is not sent unless it has two slashes. Nothing here carries an order out: it
# says what was ordered and which of the agent's values was meant, or raises with what there is.


LONGEST: Final = 120
"""A name that an agent gave is shown up to this length."""
MOST_NAMED: Final = 20
"""A sentence that says what there is names no more than these."""
MOST_OFFERED: Final = 1000
"""Of the commands, options and values of an agent only so many are looked at, each time."""

MOST_SUGGESTED: Final = 3
"""So many words are suggested for one that there is not."""
_ALIKE: Final = 0.6
_WORD: Final = re.compile(r"[A-Za-z][\w:.-]{0,119}")

Option: TypeAlias = v2.SessionConfigSelect | v2.SessionConfigBoolean
"""A config option of a kind that we know."""


class KnownOrder(NamedTuple):
    """An order that there is: how it is called, what may follow, what it does."""

    name: str
    arguments: str
    summary: str


ORDERS: Final = {
    order.name: order
    for order in (
        KnownOrder("help", "", "what can be typed here"),
        KnownOrder("mode", "[NAME]", "show the modes of the agent, or choose one"),
        KnownOrder("config", "[ID [VALUE]]", "show the settings of the agent, or change one"),
        KnownOrder("plan", "", "show the plan"),
        KnownOrder("usage", "", "show how many tokens were used, and what they cost"),
        KnownOrder("expand", "", "print in full what was folded"),
        KnownOrder("thoughts", "", "fold or unfold the thoughts of the agent"),
        KnownOrder("quit", "", "leave; so does /exit"),
    )
}
_ALIASES: Final = {"exit": "quit"}


class Order(NamedTuple):
    """An order as it was given; `argument` is everything behind its name."""

    name: str
    argument: str = ""


class Choice(NamedTuple):
    """A config option and the value for it; None: it is only to be shown."""

    config_id: str
    value: str | bool | None


class AgentCommand(NamedTuple):
    """A command of the agent: its name as it says it, the rest safe to show."""

    name: str
    hint: str
    description: str


# ---- what goes wrong ---------------------------------------------------------------------------


class TakesNothing(LocalError):
    """An order that has no arguments was given some."""

    def __init__(self, name: str, argument: str, *, has_agent: bool) -> None:
        other = f"The agent's own /{name} takes" if has_agent else "To send it to the agent takes"
        super().__init__(
            f"/{name} takes no argument. {other} two slashes: //{name} {said(argument)}"
        )
        self.name = name
        self.argument = argument


class UnknownOrder(LocalError):
    """A word behind a slash that is neither an order nor a command of the agent."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        folded = name.casefold()
        # what somebody means is most often the beginning of it, or all of it with a slip
        begun = [word for word in known if word.casefold().startswith(folded)]
        near = begun or get_close_matches(folded, known, cutoff=_ALIKE)
        self.near = tuple(near[:MOST_SUGGESTED])
        words = [f"/{word}" for word in self.near]
        meant = f" Did you mean {_listed(words, 'or')}?" if words else ""
        super().__init__(
            f"There is no /{said(name)}.{meant} Nothing was sent: /help lists"
            f" what there is, and //{said(name)} sends it to the agent as text."
        )


class NoModes(LocalError):
    """The agent has no modes in this session."""

    def __init__(self) -> None:
        super().__init__("The agent has no modes in this session.")


class UnknownOption(LocalError):
    """There is no config option of that id or name."""

    def __init__(self, word: str, known: Iterable[str]) -> None:
        self.word = word
        self.known = tuple(known)
        there = f"There are {_listed(self.known)}." if self.known else "The agent has no settings."
        super().__init__(f"There is no setting {said(word)!r}. {there}")


class UnknownValue(LocalError):
    """A config option has no value of that name."""

    def __init__(self, option: str, word: str, known: Iterable[str]) -> None:
        self.option = option
        self.word = word
        self.known = tuple(known)
        there = f"there are {_listed(self.known)}" if self.known else "it offers none"
        name = said(option) or "The setting"
        super().__init__(f"{name} has no value {said(word)!r}; {there}.")


class AmbiguousName(LocalError):
    """More than one thing goes by that name; their ids tell them apart."""

    def __init__(self, word: str, known: Iterable[str]) -> None:
        self.word = word
        self.known = tuple(known)
        super().__init__(f"{said(word)!r} may be {_listed(self.known, 'or')}: say which.")


# ---- reading -----------------------------------------------------------------------------------


def read_order(text: str, session: Session) -> Order | None:
    """The order that a person gave, None if the text is for the agent.

    Raises `TakesNothing` for an order with an argument it does not take.
    """
    name, argument = _words(text)
    if name in _ALIASES and not argument and name not in _command_names(session):
        name = _ALIASES[name]
    if name not in ORDERS:
        return None
    if argument and not ORDERS[name].arguments:
        raise TakesNothing(name, argument, has_agent=name in _command_names(session))
    return Order(name, argument)


def check_command(text: str, session: Session) -> None:
    """Raise `UnknownOrder` for a `/word` that nobody knows; a path is none."""
    name, _ = _words(text)
    known = [*ORDERS, *_command_names(session)]
    if _WORD.fullmatch(name) and name not in known:
        raise UnknownOrder(name, known)


def text_to_send(text: str, session: Session) -> str:
    """The text for the agent: `//mode` is its `/mode`, and `//word` a `/word` that nobody knows.

    Where more lines follow a word that nobody knows, it is code that was pasted, and stays.
    """
    if text.startswith("//"):
        name = text[2:].split(maxsplit=1)[:1]
        known = {*ORDERS, *_command_names(session)}
        if name and text[2:].startswith(name[0]) and name[0] in known:
            return text[1:]
        if _WORD.fullmatch(_words(text[1:])[0]):
            return text[1:]
    return text


def _words(text: str) -> tuple[str, str]:
    text = text.rstrip()
    if not text.startswith("/") or "\n" in text:
        return "", ""
    name, _, argument = text[1:].replace("\t", " ").partition(" ")
    return name, argument.strip()


# ---- what the agent has ------------------------------------------------------------------------


def agent_commands(session: Session) -> list[AgentCommand]:
    """The commands of the agent that can be typed, in its order."""
    return [
        AgentCommand(command.name, _hint(command), said(command.description, 10 * LONGEST))
        for command in session.commands[:MOST_OFFERED]
        if isinstance(command, v2.Command | v2.AugustCommand) and typable(command.name)
    ]


def _command_names(session: Session) -> list[str]:
    return [command.name for command in agent_commands(session)]


def _hint(command: v2.Command | v2.AugustCommand) -> str:
    return said(command.input.hint) if isinstance(command.input, v2.TextCommandInput) else ""


def config_options(session: Session) -> list[Option]:
    """The config options of kinds that we know."""
    options = session.config_options[:MOST_OFFERED]
    return [option for option in options if isinstance(option, v2.SessionConfigCommon)]


def mode_option(session: Session) -> v2.SessionConfigSelect | None:
    """The config option that holds the modes."""
    for option in session.config_options:
        if isinstance(option, v2.SessionConfigSelect) and option.category == "mode":
            return option
    return None


def choices(option: v2.SessionConfigSelect) -> Iterator[tuple[str, SessionConfigSelectOption]]:
    """The values of an option, each with the name of its group, which may be empty."""
    return islice(_choices(option), MOST_OFFERED)


def _choices(option: v2.SessionConfigSelect) -> Iterator[tuple[str, SessionConfigSelectOption]]:
    for entry in option.options:
        if isinstance(entry, v2.SessionConfigSelectGroup):
            group = said(entry.name) or said(entry.group_id)
            yield from ((group, choice) for choice in entry.options)
        else:
            yield "", entry


def said(text: str, longest: int = LONGEST) -> str:
    """Words of an agent on one line, safe to show and not without end."""
    line = one_line(text[: 4 * longest])
    return f"{line[: longest - 1]}…" if len(line) > longest else line


def typable(word: str) -> bool:
    """Whether what is seen of a word is all of it, so that a person can type it."""
    return word != "" and len(word) <= LONGEST and one_line(word) == word


# ---- what was meant ----------------------------------------------------------------------------


def read_mode(argument: str, session: Session) -> str:
    """The value of the mode that goes by this value or name."""
    option = mode_option(session)
    if option is None:
        raise NoModes
    return _value(argument, option)


def read_choice(argument: str, session: Session) -> Choice:
    """What `/config ID [VALUE]` means; ids, names and values are found whatever their case."""
    option, word = _option(argument.strip(), config_options(session))
    if not word:
        return Choice(option.config_id, None)
    if isinstance(option, v2.SessionConfigBoolean):
        return Choice(option.config_id, _switch(word, option))
    return Choice(option.config_id, _value(word, option))


def _option(argument: str, options: Sequence[Option]) -> tuple[Option, str]:
    """The option that the argument begins with, and the rest; an id may have blanks in it."""
    names = [_Name(option.config_id, option.name) for option in options]
    words = argument[: 4 * LONGEST].split(" ")
    for count in range(min(len(words), _MOST_WORDS), 0, -1):
        word = " ".join(words[:count])
        if found := _meant(word, names):
            ids = list(dict.fromkeys(options[number].config_id for number in found))
            if len(ids) > 1:
                raise AmbiguousName(word, ids)
            return options[found[0]], argument[len(word) :].strip()
    raise UnknownOption(words[0], [option.config_id for option in options])


def _value(word: str, option: v2.SessionConfigSelect) -> str:
    offered = [choice for _, choice in choices(option)]
    found = _meant(word, [_Name(choice.value, choice.name) for choice in offered])
    values = list(dict.fromkeys(offered[number].value for number in found))
    if len(values) > 1:
        raise AmbiguousName(word, values)
    if not values:
        raise UnknownValue(option.name, word, [_called(choice) for choice in offered])
    return values[0]


_SWITCHES: Final = {
    **dict.fromkeys(("on", "true", "yes"), True),
    **dict.fromkeys(("off", "false", "no"), False),
}


def _switch(word: str, option: v2.SessionConfigBoolean) -> bool:
    value = _SWITCHES.get(word.casefold())
    if value is None:
        raise UnknownValue(option.name, word, ("on", "off"))
    return value


_MOST_WORDS: Final = 16


class _Name:
    """An id and a name as they are compared."""

    __slots__ = ("id", "said_id", "said_name")

    def __init__(self, id_: str, name: str) -> None:
        self.id = id_
        self.said_id = said(id_).casefold()
        self.said_name = said(name).casefold()


def _meant(word: str, names: Sequence[_Name]) -> list[int]:
    """Which of these go by the word: by the very id, else by id, else by name."""
    folded = one_line(word).casefold()
    for way in (
        [name.id == word for name in names],
        [name.said_id == folded for name in names],
        [name.said_name == folded for name in names],
    ):
        if any(way):
            return [number for number, fits in enumerate(way) if fits]
    return []


def _called(choice: SessionConfigSelectOption) -> str:
    value, name = said(choice.value), said(choice.name)
    return value if name.casefold() in ("", value.casefold()) else f"{value} ({name})"


def _listed(names: Sequence[str], word: str = "and") -> str:
    shown = [said(name) or "''" for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        return f"{', '.join(shown)} and {len(names) - MOST_NAMED:,} more"
    return f" {word} ".join([*([", ".join(shown[:-1])] if shown[1:] else []), shown[-1]])


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
