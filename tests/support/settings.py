"""Sessions with modes, options and commands, for tests of what a person types."""

from twofold.session import Session
from twofold.wire import v2
from twofold.wire.base import Extras
from twofold.wire.shared import SessionConfigSelectOption

EMPTY = Session("s")


def ungrouped(value: str, name: str, description: str = "") -> v2.SessionConfigUngrouped:
    return v2.SessionConfigUngrouped(value, name, description or None)


MODES = v2.SessionConfigSelect(
    config_id="session-mode",
    name="Mode",
    category="mode",
    current_value="ask",
    options=[ungrouped("ask", "Ask first", "asks before it edits"), ungrouped("code", "Code")],
)
MODEL = v2.SessionConfigSelect(
    config_id="model",
    name="The Model",
    description="who answers",
    current_value="big-1",
    options=[
        v2.SessionConfigSelectGroup("g1", "Large", [SessionConfigSelectOption("big-1", "Big One")]),
        v2.SessionConfigSelectGroup(
            "g2",
            "Small",
            [SessionConfigSelectOption("s-1", "Small"), SessionConfigSelectOption("s-2", "small")],
        ),
    ],
)
WEB = v2.SessionConfigBoolean(
    config_id="web search", name="Web", description="may look things up", current_value=False
)
OTHER = v2.UnknownSessionConfig(raw=Extras({"type": "slider"}))


def session(*options: v2.SessionConfigOption, commands: tuple[str, ...] = ()) -> Session:
    made = Session("s")
    made.apply(v2.ConfigOptionUpdate(list(options)))
    known = [v2.Command(name, f"does {name}") for name in commands]
    made.apply(v2.AvailableCommandsUpdate([*known, v2.UnknownCommand(raw=Extras({"type": "x"}))]))
    return made


SET = session(MODES, MODEL, WEB, OTHER)

EVIL = "\x1b]0;owned\x07\r\n\x9b2J" + "x" * 100_000
