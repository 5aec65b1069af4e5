"""Slash commands: which text is one, what it means, and what it prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.settings import EMPTY, EVIL, MODEL, MODES, SET, WEB, session, ungrouped
from twofold.errors import LocalError
from twofold.session import Session
from twofold.term.input.slash_commands import (
    CLIENT_COMMANDS,
    MOST_LISTED,
    MOST_OFFERED,
    AmbiguousName,
    NoModels,
    NoModes,
    NoOtherMode,
    NotANumber,
    Setting,
    SlashCommand,
    TakesNoArgument,
    UnknownCommand,
    UnknownOption,
    UnknownValue,
    agent_commands,
    check_command,
    config_lines,
    find_mode,
    find_model,
    find_setting,
    help_lines,
    mode_lines,
    model_lines,
    next_mode,
    parse_command,
    parse_number,
    text_to_send,
    usage_lines,
)
from twofold.term.lines import Line, all_rows, plain
from twofold.wire import v2
from twofold.wire.shared import Cost, UsageUpdate


def shown(lines: list[Line], width: int | None = None) -> list[str]:
    return [plain(row) for row in all_rows(lines, width)]


# ---- reading ---------------------------------------------------------------------------------

READ: dict[str, tuple[str, SlashCommand | None]] = {
    "a command": ("/help", SlashCommand("help")),
    "a command with blanks behind it": ("/quit  \n", SlashCommand("quit")),
    "an argument": ("/mode plan", SlashCommand("mode", "plan")),
    "blanks around an argument": ("/mode \t plan  ", SlashCommand("mode", "plan")),
    "two arguments": ("/config model Big One", SlashCommand("config", "model Big One")),
    "text": ("hello", None),
    "nothing": ("", None),
    "a slash": ("/", None),
    "a command of the agent": ("/web cats", None),
    "a longer word": ("/helpme", None),
    "another case": ("/HELP", None),
    "a path": ("/usr/bin is full", None),
    "two slashes": ("//mode plan", None),
    "not at the beginning": (" /help", None),
    "several lines": ("/mode\nplan", None),
}


@pytest.mark.parametrize(("text", "command"), READ.values(), ids=list(READ))
def test_a_command_of_the_client_is_alone_on_its_line(
    text: str, command: SlashCommand | None
) -> None:
    assert parse_command(text, EMPTY) == command


@pytest.mark.parametrize(
    "name", [name for name, command in CLIENT_COMMANDS.items() if not command.arguments]
)
def test_a_command_that_takes_nothing_refuses_an_argument(name: str) -> None:
    with pytest.raises(TakesNoArgument, match=f"To send it to the agent, .*//{name} the thing$"):
        parse_command(f"/{name} the thing", EMPTY)
    with pytest.raises(TakesNoArgument, match=f"The agent's own /{name} needs two slashes"):
        parse_command(f"/{name} the thing", session(commands=(name,)))


SENT = {
    "text": ("hello", "hello"),
    "a command of the agent": ("/web cats", "/web cats"),
    "called like ours": ("//mode plan", "/mode plan"),
    "twice the slash of theirs": ("//web cats", "/web cats"),
    "over lines": ("//plan\nall of it", "/plan\nall of it"),
    "a comment": ("// mode", "// mode"),
    "a word that nobody knows": ("//xyzzy it", "/xyzzy it"),
    "code": ("//modern\nx = 1", "//modern\nx = 1"),
    "the address of a host": ("//host/share", "//host/share"),
    "two slashes": ("//", "//"),
    "three": ("///mode", "///mode"),
}


@pytest.mark.parametrize(("text", "sent"), SENT.values(), ids=list(SENT))
def test_two_slashes_reach_a_command_of_the_agent(text: str, sent: str) -> None:
    assert text_to_send(text, session(commands=("web",))) == sent


SLIPS = {
    "a slip": ("/usge", "Did you mean /usage?"),
    "another case": ("/HELP", "Did you mean /help?"),
    "the beginning of several": ("/w", "Did you mean /web or /wait?"),
    "nothing like it": ("/xyzzy", "There is no /xyzzy. Nothing was sent: /help lists"),
    "with an argument": ("/mod plan", "Did you mean /mode or /model?"),
}


@pytest.mark.parametrize(("text", "told"), SLIPS.values(), ids=list(SLIPS))
def test_a_word_behind_a_slash_that_nobody_knows_is_not_sent(text: str, told: str) -> None:
    made = session(commands=("web", "wait"))
    assert parse_command(text, made) is None
    with pytest.raises(UnknownCommand) as caught:
        check_command(text, made)
    assert told in str(caught.value)
    assert f"/{text.split(maxsplit=1)[0]} sends it to the agent as text." in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["/web cats", "/help", "/usr/bin is", " /clear", "//xyzzy", "/", "/2 of 3", "/a\nb"],
)
def test_what_is_known_or_no_word_is_sent(text: str) -> None:
    check_command(text, session(commands=("web",)))


def test_exit_leaves_unless_the_agent_has_it() -> None:
    assert parse_command("/exit", EMPTY) == SlashCommand("quit")
    assert parse_command("/exit now", EMPTY) is None
    assert parse_command("/exit", session(commands=("exit",))) is None


@given(st.text())
def test_text_without_two_slashes_goes_as_it_is(text: str) -> None:
    if not text.startswith("//"):
        assert text_to_send(text, SET) == text


# ---- what was meant --------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["code", "CODE", "Code"])
def test_a_mode_is_found_by_its_value_or_its_name(word: str) -> None:
    assert find_mode(word, SET) == "code"
    assert find_mode("ask FIRST", SET) == "ask"


def test_a_mode_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(UnknownValue) as caught:
        find_mode("plan", SET)
    assert str(caught.value) == "Mode has no value 'plan'; it offers ask (Ask first) and code."


def test_an_agent_without_modes_is_told_so() -> None:
    with pytest.raises(NoModes):
        find_mode("plan", session(MODEL))
    with pytest.raises(NoModes):
        mode_lines(session(MODEL))


def test_the_next_mode_follows_the_current_one_and_the_first_the_last() -> None:
    assert next_mode(SET) == "code"
    modes = replace(MODES, current_value="code")
    assert next_mode(session(modes)) == "ask"
    assert next_mode(session(replace(MODES, current_value="gone"))) == "ask"


def test_without_another_mode_there_is_no_next_one() -> None:
    with pytest.raises(NoModes):
        next_mode(session(MODEL))
    with pytest.raises(NoOtherMode):
        next_mode(session(replace(MODES, options=MODES.options[:1])))


def test_a_model_is_found_and_shown_like_a_mode() -> None:
    assert find_model("big one", MODEL, SET) == "big-1"
    assert "  * big-1  Big One" in shown(model_lines(MODEL, SET))
    with pytest.raises(UnknownValue):
        find_model("huge", MODEL, SET)


def test_an_agent_that_offers_no_models_may_have_a_command_for_it() -> None:
    with pytest.raises(NoModels, match=r"no choice of models in this session\.$"):
        model_lines(None, EMPTY)
    with pytest.raises(NoModels, match="//model sends"):
        find_model("big", None, session(commands=("model",)))


@pytest.mark.parametrize(("argument", "number"), [("", None), ("1", 1), ("007", 7)])
def test_a_command_takes_a_number_or_nothing(argument: str, number: int | None) -> None:
    assert parse_number("copy", argument) == number


@pytest.mark.parametrize("argument", ["0", "-1", "x", "1 2", "9" * 20, "²", "١"])
def test_anything_else_is_no_number(argument: str) -> None:
    with pytest.raises(NotANumber, match="/copy takes a number from 1 on"):
        parse_number("copy", argument)


SETTINGS = {
    "only an id": ("model", Setting("model", None)),
    "only a name": ("the MODEL", Setting("model", None)),
    "a value": ("model s-2", Setting("model", "s-2")),
    "the name of a value": ("model big one", Setting("model", "big-1")),
    "by the name of the option": ("The Model  BIG-1", Setting("model", "big-1")),
    "a switch": ("web on", Setting("web search", True)),
    "an id with a blank": ("web search off", Setting("web search", False)),
}


@pytest.mark.parametrize(("argument", "setting"), SETTINGS.values(), ids=list(SETTINGS))
def test_a_setting_is_found_by_ids_and_names(argument: str, setting: Setting) -> None:
    assert find_setting(argument, SET) == setting


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("on", True), ("true", True), ("Yes", True)),
        *(("off", False), ("FALSE", False), ("no", False)),
    ],
)
def test_a_switch_has_many_words(word: str, value: bool) -> None:
    assert find_setting(f"web {word}", SET) == Setting("web search", value)


WRONG: dict[str, tuple[str, type[LocalError], str]] = {
    "an option": (
        *("colour red", UnknownOption),
        "There is no setting 'colour'. There are session-mode, model and web search.",
    ),
    "a value": (
        *("model huge", UnknownValue),
        "The Model has no value 'huge'; it offers big-1 (Big One), s-1 (Small) and s-2 (small).",
    ),
    "a switch": ("web maybe", UnknownValue, "Web has no value 'maybe'; it offers on and off."),
    "a name that two values have": (
        *("model small", AmbiguousName),
        "'small' may be s-1 or s-2: type the id.",
    ),
}


@pytest.mark.parametrize(("argument", "error", "text"), WRONG.values(), ids=list(WRONG))
def test_what_is_not_there_is_told_with_what_is(
    argument: str, error: type[LocalError], text: str
) -> None:
    with pytest.raises(error) as caught:
        find_setting(argument, SET)
    assert str(caught.value) == text


def test_an_agent_without_settings_is_told_so() -> None:
    with pytest.raises(UnknownOption, match=r"no setting 'x'\. The agent has no settings\.$"):
        find_setting("x y", EMPTY)
    assert shown(config_lines(EMPTY)) == ["The agent has no settings in this session."]


def test_a_value_with_hidden_characters_is_found_by_what_is_seen_of_it() -> None:
    hidden = v2.SessionConfigSelect(
        config_id="\x1b[1mm",
        name="M",
        current_value="x",
        options=[ungrouped("a\x1b[31mb", "N")],
    )
    assert find_setting("m ab", session(hidden)) == Setting("\x1b[1mm", "a\x1b[31mb")


WORDS = st.sampled_from(
    ["model", "The Model", "web", "web search", "mode", "on", "s-1", "big one", "x", " ", "\x1b[1m"]
)


@given(st.lists(WORDS, max_size=5).map(" ".join) | st.text(max_size=30))
def test_any_argument_is_a_choice_or_a_sentence(argument: str) -> None:
    said = ""
    choice = None
    try:
        choice = find_setting(argument, SET)
    except LocalError as error:
        said = str(error)
    if choice is None:
        assert said.endswith(".")
        assert "\x1b" not in said
    else:
        assert choice.config_id in ("model", "web search", "session-mode")


# ---- what is printed -------------------------------------------------------------------------


def test_help_lists_the_commands_of_both_sides_and_the_keys() -> None:
    made = Session("s")
    hint = v2.TextCommandInput("what to look for")
    commands: list[v2.AvailableCommand] = [
        v2.Command("web", "searches the web", hint),
        v2.AugustCommand("plan", "makes a plan"),
    ]
    made.apply(v2.AvailableCommandsUpdate(commands))
    text = "\n".join(shown(help_lines(made)))
    for command in CLIENT_COMMANDS.values():
        assert f"/{command.name} {command.arguments}".strip() in text
        assert command.summary in text
    assert "  /web    [what to look for] searches the web\n" in text
    assert "  //plan  makes a plan\n" in text
    assert "/plan: the client's command. Two slashes send the agent's: //plan" in text


def test_help_without_commands_speaks_of_none() -> None:
    assert "The agent's commands" not in shown(help_lines(EMPTY))


def test_modes_are_shown_with_the_current_one_marked() -> None:
    assert shown(mode_lines(SET)) == [
        "  * ask   Ask first: asks before it edits",
        "    code",
    ]


def test_settings_are_shown_with_their_current_values() -> None:
    assert shown(config_lines(SET)) == [
        "  session-mode  Mode: Ask first",
        "  model         The Model: Big One (who answers)",
        "  web search    Web: off (may look things up)",
        "/config ID shows the values, /config ID VALUE chooses one.",
    ]


def test_a_setting_is_shown_with_all_its_values_by_group() -> None:
    assert shown(config_lines(SET, "model")) == [
        "The Model (model)",
        "  who answers",
        "  Large",
        "  * big-1  Big One",
        "  Small",
        "    s-1    Small",
        "    s-2    small",
    ]


def test_a_switch_is_shown_as_on_and_off() -> None:
    rows = shown(config_lines(SET, "web search"))
    assert rows == ["Web (web search)", "  may look things up", "    on", "  * off"]


def test_a_setting_that_is_gone_is_told() -> None:
    with pytest.raises(UnknownOption):
        config_lines(SET, "gone")


def test_a_current_value_that_is_not_offered_is_shown_all_the_same() -> None:
    lost = v2.SessionConfigSelect(
        config_id="m", name="M", category="mode", current_value="old", options=[]
    )
    rows = shown(mode_lines(session(lost)))
    assert rows == ["  * old  no longer offered"]


USAGES = {
    "some": (UsageUpdate(53000, 200000), "53k of 200k tokens", "26%", "147k tokens are left"),
    "a price": (
        UsageUpdate(53000, 200000, Cost(0.05, "USD")),
        *("53k of 200k tokens, $0.05", "26%", "147k tokens are left"),
    ),
    "too many": (UsageUpdate(300, 100), "300 of 100 tokens", "300%", "0 tokens are left"),
}


@pytest.mark.parametrize(("usage", "words", "percent", "left"), USAGES.values(), ids=list(USAGES))
def test_usage_says_what_is_left(usage: UsageUpdate, words: str, percent: str, left: str) -> None:
    made = Session("s", usage=usage)
    assert shown(usage_lines(made)) == [words, f"{percent} of the context is used, {left}"]


def test_usage_without_a_size_or_without_any_is_told() -> None:
    assert shown(usage_lines(Session("s", usage=UsageUpdate(812, 0)))) == ["812 tokens"]
    assert "has not reported" in shown(usage_lines(EMPTY))[0]


# ---- hostile agents --------------------------------------------------------------------------


def test_no_word_of_an_agent_reaches_the_terminal_raw_or_without_end() -> None:
    evil = v2.SessionConfigSelect(
        config_id=EVIL,
        name=EVIL,
        description=EVIL,
        category="mode",
        current_value=EVIL,
        options=[v2.SessionConfigSelectGroup(EVIL, EVIL, [ungrouped(EVIL, EVIL, EVIL)])] * 500,
    )
    made = session(evil, *[WEB] * 500)
    made.apply(v2.AvailableCommandsUpdate([v2.Command(EVIL, EVIL), v2.Command("ok", EVIL)] * 9000))
    told = [mode_lines(made), config_lines(made), config_lines(made, EVIL), help_lines(made)]
    for lines in told:
        rows = shown(lines)
        assert not any(set(row) & set(map(chr, range(32))) or "\x9b" in row for row in rows)
        assert len(rows) < 2 * MOST_LISTED + 40
        assert max(map(len, rows)) < 3000
        shown(lines, 20)
    for argument in (EVIL, f"{EVIL} x", "nothing"):
        with pytest.raises(LocalError) as caught:
            find_setting(argument, made)
        assert len(str(caught.value)) < 5000


def test_only_so_many_commands_are_looked_at() -> None:
    made = session(commands=tuple(f"c{number}" for number in range(MOST_OFFERED + 5)))
    assert len(agent_commands(made)) == MOST_OFFERED
    assert "  … and 900 more" in shown(help_lines(made))
