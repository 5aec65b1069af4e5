"""Slash commands: `/mode plan`, `/config model`, `/quit`.

A slash command is alone on its line. The client has a few of its own; a `/word` that is a command
of the agent is sent to it as text. If both have a command of the same name, the client's is meant,
and `//mode` sends the agent its `/mode`. Any other `/word` is probably a typing mistake, so it is
not sent unless it begins with two slashes.

This module parses commands, finds the modes and options that they name, and makes the lines that
they print. `client` runs them. The agent's words are sanitized and shortened in every line.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from rich.cells import cell_len

from twofold.convert.options import (
    Option,
    choices,
    find_option,
    grouped_choices,
    known_options,
    mode_option,
    value_name,
)
from twofold.errors import LocalError
from twofold.host.client_keys import ACTIONS, DEFAULTS, Bindings
from twofold.session import Session
from twofold.term.lines import BLANK, Line, line
from twofold.text.safe import one_line
from twofold.view.outline import short, usage_words
from twofold.wire import v2
from twofold.wire.shared import SessionConfigSelectOption

LONGEST: Final = 120
"""How many characters of an agent's name are shown."""
MOST_NAMED: Final = 20
"""How many names an error message lists."""
MOST_OFFERED: Final = 1000
"""How many of an agent's commands, options and values are looked at."""
MOST_LISTED: Final = 100
"""How many lines of an agent's list are shown."""
MOST_SUGGESTED: Final = 3
"""How many commands are suggested for one that does not exist."""
_SIMILAR: Final = 0.6
_MOST_WORDS: Final = 16
"""How many words the id of a config option may have."""
_WIDEST: Final = 22
"""The widest first column of a table."""
_MARGIN: Final = (("  ", ""),)
_WORD: Final = re.compile(r"[A-Za-z][\w:.-]{0,119}")
_NUMBER: Final = re.compile(r"0*[1-9][0-9]{0,8}", re.ASCII)


class ClientCommand(NamedTuple):
    """A command of the client: its name, its arguments, and what it does."""

    name: str
    arguments: str
    summary: str


CLIENT_COMMANDS: Final = {
    command.name: command
    for command in (
        ClientCommand("help", "", "list the commands and keys"),
        ClientCommand("new", "", "begin another session; this one goes on"),
        ClientCommand("sessions", "", "show the sessions, and choose one"),
        ClientCommand("resume", "[ID]", "resume a session of the agent"),
        ClientCommand("rename", "[TITLE]", "give this session a title; the agent does not see it"),
        ClientCommand("close", "", "close this session; Ctrl-D leaves all of them"),
        ClientCommand("mode", "[NAME]", "show the agent's modes, or choose one"),
        ClientCommand("model", "[NAME]", "show the agent's models, or choose one"),
        ClientCommand("config", "[ID [VALUE]]", "show the agent's settings, or change one"),
        ClientCommand("plan", "", "show the plan"),
        ClientCommand("usage", "", "show how many tokens were used, and their cost"),
        ClientCommand("diff", "[N]", "show all changed files, or all of the N-th file's changes"),
        ClientCommand("expand", "[N]", "print in full what was folded, or the N-th last of it"),
        ClientCommand("copy", "[N]", "copy the last message of the agent, or the N-th last"),
        ClientCommand("export", "FILE", "write the session to a .md, .html, .txt or .jsonl file"),
        ClientCommand("editor", "", "edit the input in $VISUAL or $EDITOR"),
        ClientCommand("paste", "", "attach the image in the clipboard"),
        ClientCommand("thoughts", "", "fold or unfold the agent's thoughts"),
        ClientCommand("verbose", "", "show or hide losses, problems and the agent's stderr"),
        ClientCommand("quit", "", "leave; so does /exit"),
    )
}
_ALIASES: Final = {"exit": "quit"}


class SlashCommand(NamedTuple):
    """A command of the client as it was typed; `argument` is everything after its name."""

    name: str
    argument: str = ""


class Setting(NamedTuple):
    """A config option and its new value; None only shows the option."""

    config_id: str
    value: str | bool | None


class AgentCommand(NamedTuple):
    """A command of the agent: its name unchanged, hint and description sanitized."""

    name: str
    hint: str
    description: str


# ---- errors ------------------------------------------------------------------------------------


class TakesNoArgument(LocalError):
    """A command of the client that takes no argument was given one."""

    def __init__(self, name: str, argument: str, *, has_agent: bool) -> None:
        other = f"The agent's own /{name} needs" if has_agent else "To send it to the agent, type"
        super().__init__(
            f"/{name} takes no argument. {other} two slashes: //{name} {shorten(argument)}"
        )
        self.name = name
        self.argument = argument


class UnknownCommand(LocalError):
    """A `/word` that is a command of neither the client nor the agent."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        folded = name.casefold()
        # most often it is the beginning of the command, or the whole of it with a typing mistake
        begun = [word for word in known if word.casefold().startswith(folded)]
        near = begun or get_close_matches(folded, known, cutoff=_SIMILAR)
        self.near = tuple(near[:MOST_SUGGESTED])
        words = [f"/{word}" for word in self.near]
        meant = f" Did you mean {_listed(words, 'or')}?" if words else ""
        super().__init__(
            f"There is no /{shorten(name)}.{meant} Nothing was sent: /help lists"
            f" all commands, and //{shorten(name)} sends it to the agent as text."
        )


class NoModes(LocalError):
    """The agent has no modes in this session."""

    def __init__(self) -> None:
        super().__init__("The agent has no modes in this session.")


class NoOtherMode(LocalError):
    """The agent has only one mode."""

    def __init__(self) -> None:
        super().__init__("The agent has no other mode in this session.")


class NoModels(LocalError):
    """The agent offers no choice of models in this session."""

    def __init__(self, *, has_agent: bool) -> None:
        other = " //model sends the agent its own /model." if has_agent else ""
        super().__init__(f"The agent offers no choice of models in this session.{other}")


class NotANumber(LocalError):
    """The argument of a command is not a number from 1 on."""

    def __init__(self, name: str, argument: str) -> None:
        super().__init__(f"/{name} takes a number from 1 on, not {shorten(argument)!r}.")
        self.name = name
        self.argument = argument


class UnknownOption(LocalError):
    """No config option has this id or name."""

    def __init__(self, word: str, known: Iterable[str]) -> None:
        self.word = word
        self.known = tuple(known)
        there = f"There are {_listed(self.known)}." if self.known else "The agent has no settings."
        super().__init__(f"There is no setting {shorten(word)!r}. {there}")


class UnknownValue(LocalError):
    """A config option does not offer this value."""

    def __init__(self, option: str, word: str, known: Iterable[str]) -> None:
        self.option = option
        self.word = word
        self.known = tuple(known)
        there = f"it offers {_listed(self.known)}" if self.known else "it offers none"
        name = shorten(option) or "The setting"
        super().__init__(f"{name} has no value {shorten(word)!r}; {there}.")


class AmbiguousName(LocalError):
    """Several options or values have this name, and only their ids differ."""

    def __init__(self, word: str, known: Iterable[str]) -> None:
        self.word = word
        self.known = tuple(known)
        super().__init__(f"{shorten(word)!r} may be {_listed(self.known, 'or')}: type the id.")


# ---- parsing -----------------------------------------------------------------------------------


def parse_command(text: str, session: Session) -> SlashCommand | None:
    """The client's command in a text; None if the text is for the agent.

    Raises:
        TakesNoArgument: The command was given an argument that it does not take.
    """
    name, argument = _words(text)
    if name in _ALIASES and not argument and name not in _command_names(session):
        name = _ALIASES[name]
    if name not in CLIENT_COMMANDS:
        return None
    if argument and not CLIENT_COMMANDS[name].arguments:
        raise TakesNoArgument(name, argument, has_agent=name in _command_names(session))
    return SlashCommand(name, argument)


def check_command(text: str, session: Session) -> None:
    """Check that a `/word` is a command; a path such as `/usr/bin` is not one.

    Raises:
        UnknownCommand: It is a command of neither the client nor the agent.
    """
    name, _ = _words(text)
    known = [*CLIENT_COMMANDS, *_command_names(session)]
    if _WORD.fullmatch(name) and name not in known:
        raise UnknownCommand(name, known)


def text_to_send(text: str, session: Session) -> str:
    """The text for the agent: a command after two slashes is sent with one.

    `//word` with more lines below it is probably pasted code, and is not changed, unless the word
    is a command.
    """
    if text.startswith("//"):
        name = text[2:].split(maxsplit=1)[:1]
        known = {*CLIENT_COMMANDS, *_command_names(session)}
        if name and text[2:].startswith(name[0]) and name[0] in known:
            return text[1:]
        if _WORD.fullmatch(_words(text[1:])[0]):
            return text[1:]
    return text


def parse_number(command: str, argument: str) -> int | None:
    """The number that a command was given; None if it was given nothing.

    Raises:
        NotANumber: It was given something else.
    """
    if not argument:
        return None
    if not _NUMBER.fullmatch(argument):
        raise NotANumber(command, argument)
    return int(argument)


def _words(text: str) -> tuple[str, str]:
    text = text.rstrip()
    if not text.startswith("/") or "\n" in text:
        return "", ""
    name, _, argument = text[1:].replace("\t", " ").partition(" ")
    return name, argument.strip()


# ---- what the agent offers ---------------------------------------------------------------------


def agent_commands(session: Session) -> list[AgentCommand]:
    """The agent's commands that can be typed, in the agent's order."""
    return [
        AgentCommand(command.name, _hint(command), shorten(command.description, 10 * LONGEST))
        for command in session.commands[:MOST_OFFERED]
        if isinstance(command, v2.Command | v2.AugustCommand) and typable(command.name)
    ]


def _command_names(session: Session) -> list[str]:
    return [command.name for command in agent_commands(session)]


def _hint(command: v2.Command | v2.AugustCommand) -> str:
    return shorten(command.input.hint) if isinstance(command.input, v2.TextCommandInput) else ""


def config_options(session: Session) -> list[Option]:
    """The config options of known kinds."""
    return known_options(session.config_options[:MOST_OFFERED])


def offered_choices(option: v2.SessionConfigSelect) -> Iterator[SessionConfigSelectOption]:
    """The choices of an option, as many as are looked at."""
    return islice(choices(option), MOST_OFFERED)


def shorten(text: str, longest: int = LONGEST) -> str:
    """The agent's text, sanitized, on one line of at most `longest` characters."""
    line = one_line(text[: 4 * longest])
    return f"{line[: longest - 1]}…" if len(line) > longest else line


def typable(word: str) -> bool:
    """True if a person can type the word: it is shown in full and has no hidden characters."""
    return word != "" and len(word) <= LONGEST and one_line(word) == word


# ---- finding modes, options and values ---------------------------------------------------------


def find_mode(argument: str, session: Session) -> str:
    """The value of the mode with this value or name.

    Raises:
        NoModes: The agent has no modes.
        UnknownValue: No mode has this value or name.
        AmbiguousName: Several modes have this name.
    """
    option = mode_option(session.config_options)
    if option is None:
        raise NoModes
    return _value(argument, option)


def next_mode(session: Session) -> str:
    """The value of the mode after the current one; after the last one the first.

    Raises:
        NoModes: The agent has no modes.
        NoOtherMode: It has only one.
    """
    option = mode_option(session.config_options)
    if option is None:
        raise NoModes
    values = list(dict.fromkeys(choice.value for choice in offered_choices(option)))
    current = option.current_value
    if not values or values == [current]:
        raise NoOtherMode
    place = values.index(current) + 1 if current in values else 0
    return values[place % len(values)]


def find_model(argument: str, models: v2.SessionConfigSelect | None, session: Session) -> str:
    """The value of the model with this value or name.

    Args:
        argument: What was typed.
        models: What the agent offers, if it offers a choice.
        session: The session.

    Raises:
        NoModels: The agent offers no choice.
        UnknownValue: No model has this value or name.
        AmbiguousName: Several models have this name.
    """
    if models is None:
        raise NoModels(has_agent="model" in _command_names(session))
    return _value(argument, models)


def find_setting(argument: str, session: Session) -> Setting:
    """The option and value of `/config ID [VALUE]`; upper and lower case are the same.

    Raises:
        UnknownOption: No option has this id or name.
        UnknownValue: The option does not offer this value.
        AmbiguousName: Several options or values have this name.
    """
    option, word = _option(argument.strip(), config_options(session))
    if not word:
        return Setting(option.config_id, None)
    if isinstance(option, v2.SessionConfigBoolean):
        return Setting(option.config_id, _switch(word, option))
    return Setting(option.config_id, _value(word, option))


def _option(argument: str, options: Sequence[Option]) -> tuple[Option, str]:
    """The option at the beginning of the argument, and the rest; an id may contain blanks."""
    names = [_Name(option.config_id, option.name) for option in options]
    words = argument[: 4 * LONGEST].split(" ")
    for count in range(min(len(words), _MOST_WORDS), 0, -1):
        word = " ".join(words[:count])
        if found := _matching(word, names):
            ids = list(dict.fromkeys(options[number].config_id for number in found))
            if len(ids) > 1:
                raise AmbiguousName(word, ids)
            return options[found[0]], argument[len(word) :].strip()
    raise UnknownOption(words[0], [option.config_id for option in options])


def _value(word: str, option: v2.SessionConfigSelect) -> str:
    offered = [*offered_choices(option)]
    found = _matching(word, [_Name(choice.value, choice.name) for choice in offered])
    values = list(dict.fromkeys(offered[number].value for number in found))
    if len(values) > 1:
        raise AmbiguousName(word, values)
    if not values:
        raise UnknownValue(option.name, word, [_value_name(choice) for choice in offered])
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


class _Name:
    """An id and a name, also in the form in which they are compared."""

    __slots__ = ("folded_id", "folded_name", "id")

    def __init__(self, id_: str, name: str) -> None:
        self.id = id_
        self.folded_id = shorten(id_).casefold()
        self.folded_name = shorten(name).casefold()


def _matching(word: str, names: Sequence[_Name]) -> list[int]:
    """The indexes of the names that match: by exact id, else by id, else by name."""
    folded = one_line(word).casefold()
    for matches in (
        [name.id == word for name in names],
        [name.folded_id == folded for name in names],
        [name.folded_name == folded for name in names],
    ):
        if any(matches):
            return [number for number, match in enumerate(matches) if match]
    return []


def _value_name(choice: SessionConfigSelectOption) -> str:
    value, name = shorten(choice.value), shorten(choice.name)
    return value if name.casefold() in ("", value.casefold()) else f"{value} ({name})"


def _listed(names: Sequence[str], word: str = "and") -> str:
    shown = [shorten(name) or "''" for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        return f"{', '.join(shown)} and {len(names) - MOST_NAMED:,} more"
    return f" {word} ".join([*([", ".join(shown[:-1])] if shown[1:] else []), shown[-1]])


# ---- lines to print ----------------------------------------------------------------------------

KEYS: Final = (
    ("{send}", "sends; during a turn, when it has ended"),
    ("Alt-Enter, {newline}", "new line; so does a backslash at the end of the line"),
    ("Esc, Ctrl-C", "cancels the turn; Ctrl-C once more leaves"),
    ("Tab", "completes commands and paths"),
    ("{next-mode}", "chooses the agent's next mode"),
    ("@path", 'attaches a file, found by its letters; with blanks @"a b.txt"'),
    ("{paste-image}", "attaches the image in the clipboard"),
    ("!command", "runs a command of your own in the session's directory"),
    ("!!command", "the same, and attaches its output to the next prompt; !! alone removes it"),
    ("Up", "recalls what was queued or sent; with text, what began with that text"),
    ("{search}", "searches what was sent"),
    ("{edit}", "edits the input in $VISUAL or $EDITOR"),
    ("{next-session}, Alt-1 … 9", "shows the next session, or the one of this number"),
    ("{unfold}", "unfolds or folds what is on the screen"),
    ("Ctrl-C", "between turns: clears the input; twice on an empty line: leaves"),
    ("Ctrl-D", "leaves, on an empty line"),
)
_Part: TypeAlias = tuple[str, str]


def help_lines(session: Session, bindings: Bindings = DEFAULTS) -> list[Line]:
    """The client's commands, the keys, and the agent's commands."""
    ours = [(f"/{each.name} {each.arguments}", each.summary) for each in CLIENT_COMMANDS.values()]
    shown: dict[str, str] = {action: bindings.shown(action) for action in ACTIONS}
    keys = [(key.format_map(shown), meaning) for key, meaning in KEYS]
    made = [line("Commands", "bold"), *_table(ours)]
    made += [BLANK, line("Keys", "bold"), *_table(keys)]
    commands = agent_commands(session)
    if commands:
        theirs = [(_slashed(command.name), _described(command)) for command in commands]
        made += [BLANK, line("The agent's commands", "bold"), *_table(theirs[:MOST_LISTED])]
        made += _more(len(theirs))
    twice = [command.name for command in commands if command.name in CLIENT_COMMANDS]
    if twice:
        both = ", ".join([f"/{name}" for name in dict.fromkeys(twice)])
        note = f"{both}: the client's command. Two slashes send the agent's: //{twice[0]}"
        made.append(line(note, "dim", "  "))
    return made


def mode_lines(session: Session) -> list[Line]:
    """The modes, with the current one marked.

    Raises:
        NoModes: The agent has no modes.
    """
    option = mode_option(session.config_options)
    if option is None:
        raise NoModes
    return _select_lines(option)


def model_lines(models: v2.SessionConfigSelect | None, session: Session) -> list[Line]:
    """The models, with the current one marked.

    Raises:
        NoModels: The agent offers no choice of models.
    """
    if models is None:
        raise NoModels(has_agent="model" in _command_names(session))
    return _select_lines(models)


def config_lines(session: Session, config_id: str | None = None) -> list[Line]:
    """Every config option with its current value, or one option with all of its values.

    Raises:
        UnknownOption: No option has this id.
    """
    options = config_options(session)
    if config_id is not None:
        found = find_option(options, config_id)
        if found is None:
            raise UnknownOption(config_id, [option.config_id for option in options])
        return _option_lines(found)
    if not options:
        return [line("The agent has no settings in this session.", "dim")]
    rows = [(shorten(option.config_id), _current(option)) for option in options]
    made = [*_table(rows[:MOST_LISTED]), *_more(len(rows))]
    return [*made, line("/config ID shows the values, /config ID VALUE chooses one.", "dim")]


def usage_lines(session: Session) -> list[Line]:
    """How many tokens were used and are left, and their cost."""
    usage = session.usage
    if usage is None:
        return [line("The agent has not reported how many tokens it used.", "dim")]
    made = [line(usage_words(usage))]
    if usage.size:
        left = max(0, usage.size - usage.used)
        percent = min(100 * usage.used // usage.size, 999)
        made.append(
            line(f"{percent}% of the context is used, {short(left)} tokens are left", "dim")
        )
    return made


def _option_lines(option: Option) -> list[Line]:
    made = [line(f"{shorten(option.name)} ({shorten(option.config_id)})", "bold")]
    if option.description:
        made.append(line(shorten(option.description, 10 * LONGEST), "dim", "  "))
    if isinstance(option, v2.SessionConfigSelect):
        return made + _select_lines(option)
    values = (("on", option.current_value), ("off", not option.current_value))
    return [*made, *(_choice(value, "", current, 0) for value, current in values)]


def _select_lines(option: v2.SessionConfigSelect) -> list[Line]:
    current = option.current_value
    offered = list(islice(grouped_choices(option), MOST_OFFERED))
    values = [shorten(choice.value) for _, choice in offered[:MOST_LISTED]]
    column = _column(values)
    made: list[Line] = []
    group_before = ""
    for value, (entry, choice) in zip(values, offered, strict=False):
        group = shorten(entry.name) or shorten(entry.group_id) if entry is not None else ""
        if group and group != group_before:
            made.append(line(group, "cyan", "  "))
        group_before = group
        made.append(_choice(value, _about(choice), choice.value == current, column))
    made += _more(len(offered))
    if current not in [choice.value for _, choice in offered]:
        made.append(_choice(shorten(current), "no longer offered", True, column))
    return made


def _about(choice: SessionConfigSelectOption) -> str:
    name, description = shorten(choice.name), shorten(choice.description or "", 10 * LONGEST)
    if name.casefold() == shorten(choice.value).casefold():
        return description
    return f"{name}: {description}" if description else name


def _choice(value: str, about: str, current: bool, column: int) -> Line:
    mark = ("* " if current else "  ", "green")
    return _row(mark, (value, "bold" if current else ""), (about, "dim"), column)


def _current(option: Option) -> str:
    if isinstance(option, v2.SessionConfigBoolean):
        value = "on" if option.current_value else "off"
    else:
        value = shorten(value_name(option))
    description = f" ({shorten(option.description)})" if option.description else ""
    return f"{shorten(option.name)}: {value}{description}"


def _slashed(name: str) -> str:
    return f"//{name}" if name in CLIENT_COMMANDS else f"/{name}"


def _described(command: AgentCommand) -> str:
    hint = f"[{command.hint}] " if command.hint else ""
    return f"{hint}{command.description}"


def _table(rows: Sequence[tuple[str, str]]) -> Iterator[Line]:
    column = _column([head for head, _ in rows])
    for head, text in rows:
        yield _row(("", ""), (head, "bold"), (text, ""), column)


def _column(heads: Iterable[str]) -> int:
    """The width of the first column; heads wider than `_WIDEST` do not count."""
    sizes = [size for head in heads if (size := cell_len(head)) <= _WIDEST]
    return max(sizes, default=0) + 2


def _row(mark: _Part, head: _Part, text: _Part, column: int) -> Line:
    blanks = column - cell_len(head[0])
    if not text[0]:
        return Line((mark, head), _MARGIN)
    if blanks < 2:  # a wide head pushes the text to the right
        return Line((head, ("  ", ""), text), _MARGIN, head=(mark,))
    return Line((text,), _MARGIN, head=(mark, head, (" " * blanks, "")))


def _more(count: int) -> list[Line]:
    if count <= MOST_LISTED:
        return []
    return [line(f"… and {count - MOST_LISTED:,} more", "dim", "  ")]
