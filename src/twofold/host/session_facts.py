"""What is shown beside the blocks of a session: controls, commands, usage and plans.

Pure. Each fact is made of dicts, lists, texts, numbers and None, so that it can be sent as JSON.
Words of the agent are safe to show and shortened, and no list is longer than its bound. An id of
the agent is given as it is if it can be sent and no other is like it, and otherwise by its number.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from twofold.client.known_sessions import shortened
from twofold.convert.options import Option, choices, known_options, mode_option, model_option
from twofold.session import Session
from twofold.text import one_line
from twofold.view.outline import plan_block, usage_words
from twofold.wire import v2
from twofold.wire.shared import SessionConfigSelectOption

Fact: TypeAlias = Any
"""A value that can be sent as JSON."""
ControlKind: TypeAlias = Literal["select", "boolean", "mode", "model"]

MOST_CONTROLS: Final = 100
MOST_CHOICES: Final = 1000
MOST_COMMANDS: Final = 1000
MOST_PLANS: Final = 20
LONGEST_NAME: Final = 200
LONGEST_DESCRIPTION: Final = 1000


def sendable_ids(identities: Sequence[str]) -> list[str]:
    """An id for each id of the agent, all of them different."""
    made: list[str] = []
    taken: set[str] = set()
    for number, identity in enumerate(identities, 1):
        chosen = identity if _typable(identity) and identity not in taken else f"#{number}"
        while chosen in taken:
            chosen = f"#{chosen}"
        taken.add(chosen)
        made.append(chosen)
    return made


# ---- controls ----------------------------------------------------------------------------------


class Control(NamedTuple):
    """A setting that can be changed; `choices` are the values by the ids that are sent."""

    identity: str
    kind: ControlKind
    option: Option
    choices: dict[str, SessionConfigSelectOption]

    @property
    def fact(self) -> Fact:
        """The control as it is sent."""
        return {
            "id": self.identity,
            "name": shortened(self.option.name, LONGEST_NAME) or self.identity,
            "kind": self.kind,
            "value": self._value,
            "choices": [
                {
                    "value": identity,
                    "name": shortened(choice.name, LONGEST_NAME) or identity,
                    "description": shortened(choice.description or "", LONGEST_DESCRIPTION),
                }
                for identity, choice in self.choices.items()
            ],
        }

    @property
    def _value(self) -> str | bool:
        current = self.option.current_value
        if isinstance(current, bool):
            return current
        chosen = (name for name, choice in self.choices.items() if choice.value == current)
        return next(chosen, None) or shortened(current, LONGEST_NAME)


def controls(session: Session, models: v2.SessionConfigSelect | None) -> list[Control]:
    """What can be set: the config options, and the models of an agent that has none for them."""
    options = known_options(session.config_options[:MOST_CONTROLS])
    mode, model = mode_option(options), model_option(options)
    if model is None and models is not None:
        options, model = [*options, models], models
    identities = sendable_ids([option.config_id for option in options])
    return [
        Control(identity, _kind(option, mode, model), option, _choices(option))
        for identity, option in zip(identities, options, strict=True)
    ]


def _kind(option: Option, mode: Option | None, model: Option | None) -> ControlKind:
    if option is mode:
        return "mode"
    if option is model:
        return "model"
    return "boolean" if isinstance(option, v2.SessionConfigBoolean) else "select"


def _choices(option: Option) -> dict[str, SessionConfigSelectOption]:
    if isinstance(option, v2.SessionConfigBoolean):
        return {}
    offered = list(islice(choices(option), MOST_CHOICES))
    return dict(zip(sendable_ids([each.value for each in offered]), offered, strict=True))


# ---- what else there is ------------------------------------------------------------------------


def commands(session: Session) -> list[Fact]:
    """The commands of the agent that can be typed."""
    return [
        {
            "name": command.name,
            "description": shortened(command.description, LONGEST_DESCRIPTION),
            "hint": _hint(command),
        }
        for command in session.commands[:MOST_COMMANDS]
        if isinstance(command, v2.Command | v2.AugustCommand) and _typable(command.name)
    ]


def _typable(name: str) -> bool:
    """Whether it is shown in full, and has nothing hidden in it."""
    return name != "" and len(name) <= LONGEST_NAME and one_line(name) == name


def _hint(command: v2.Command | v2.AugustCommand) -> str:
    given = command.input
    return shortened(given.hint, LONGEST_NAME) if isinstance(given, v2.TextCommandInput) else ""


def usage(session: Session) -> Fact:
    """Tokens and what they cost; None if the agent reported none."""
    usage = session.usage
    if usage is None:
        return None
    return {"words": usage_words(usage), "used": usage.used, "size": usage.size}


def plan(session: Session) -> list[Fact]:
    """The plans of the agent: their steps, or their text."""
    plans = [plan_block(each.plan) for each in islice(session.plans.values(), MOST_PLANS)]
    return [{"steps": list(map(asdict, plan.steps)), "text": plan.text} for plan in plans]


def capabilities(able: v2.PromptCapabilities | None) -> Fact:
    """What prompts may contain beside text and links."""
    return {
        "image": bool(able and able.image),
        "audio": bool(able and able.audio),
        "embedded": bool(able and able.embedded_context),
    }
