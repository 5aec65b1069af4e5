"""Facts of a session: safe, bounded, and made of what JSON has."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import v2_struct_streams
from twofold.host import session_facts as facts
from twofold.host.session_facts import LONGEST_NAME, sendable_ids
from twofold.session import Session
from twofold.session.reduce import NotBase64
from twofold.text import one_line
from twofold.wire import v2
from twofold.wire.shared import UsageUpdate


@given(st.lists(st.text(st.characters(codec=None)) | st.sampled_from(["a", "#1", "#2", "##2"])))
def test_ids_can_be_sent_and_are_all_different(identities: list[str]) -> None:
    made = sendable_ids(identities)
    assert len(made) == len(set(made)) == len(identities)
    for shown, identity in zip(made, identities, strict=True):
        assert shown.encode()
        assert one_line(shown) == shown
        assert len(shown) <= max(LONGEST_NAME, len(identities) + 10)
        harmless = one_line(identity) == identity and 0 < len(identity) <= LONGEST_NAME
        if harmless and identities.count(identity) == 1 and not identity.startswith("#"):
            assert shown == identity


@given(v2_struct_streams(max_size=20))
def test_every_fact_of_any_session_can_be_sent(updates: list[v2.SessionUpdate]) -> None:
    session = Session("s")
    for update in updates:
        try:
            session.apply(update)
        except NotBase64:
            continue
    made: list[Any] = [
        [control.fact for control in facts.controls(session, None)],
        facts.commands(session),
        facts.usage(session),
        facts.plan(session),
        facts.capabilities(None),
    ]
    assert json.loads(msgspec.json.encode(made)) == msgspec.to_builtins(made)


def test_what_an_agent_offers_without_end_is_cut() -> None:
    session = Session("s")
    names = [f"command-{number}" for number in range(5000)]
    commands = [v2.Command(name, "x" * 5000) for name in names]
    session.apply(v2.AvailableCommandsUpdate([*commands, v2.Command("b\x1b[31mad", "")]))
    values = [v2.SessionConfigUngrouped(f"v{number}", "y" * 5000) for number in range(5000)]
    options = [
        v2.SessionConfigSelect(f"o{number}", "z" * 5000, current_value="v1", options=[*values])
        for number in range(150)
    ]
    session.apply(v2.ConfigOptionUpdate([*options]))
    shown = facts.commands(session)
    assert len(shown) == facts.MOST_COMMANDS
    assert len(shown[0]["description"]) == facts.LONGEST_DESCRIPTION
    controls = facts.controls(session, None)
    assert len(controls) == facts.MOST_CONTROLS
    fact = controls[0].fact
    assert len(fact["choices"]) == facts.MOST_CHOICES
    assert len(fact["name"]) == len(fact["choices"][0]["name"]) == LONGEST_NAME


@pytest.mark.parametrize("own", [True, False])
def test_models_outside_of_the_options_are_a_control_unless_there_is_one(own: bool) -> None:
    session = Session("s")
    model = v2.SessionConfigSelect(
        "m",
        "Model",
        category="model",
        current_value="a",
        options=[v2.SessionConfigUngrouped("a", "A")],
    )
    if own:
        session.apply(v2.ConfigOptionUpdate([model]))
    (control,) = facts.controls(session, model)
    assert (control.kind, control.fact["value"]) == ("model", "a")


def test_a_value_that_is_no_choice_is_shown_as_it_is() -> None:
    session = Session("s")
    option = v2.SessionConfigSelect("o", "O", current_value="gone\x1b[1m", options=[])
    session.apply(v2.ConfigOptionUpdate([option]))
    (control,) = facts.controls(session, None)
    assert control.fact["value"] == "gone"


def test_usage_and_plans_are_as_the_views_show_them() -> None:
    session = Session("s")
    assert facts.usage(session) is None
    session.apply(UsageUpdate(53_000, 200_000))
    assert facts.usage(session) == {"words": "53k of 200k tokens", "used": 53_000, "size": 200_000}
    session.apply(v2.PlanUpdate(v2.PlanItems("p", [v2.PlanEntry("do it", "low", "pending")])))
    (plan,) = facts.plan(session)
    assert plan == {"steps": [{"mark": "○", "status": "pending", "text": "do it"}], "text": None}
