"""The config options of a session: look-ups, and what they may be set to."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.convert.options import (
    NoSuchOption,
    choices,
    find_option,
    grouped_choices,
    has_mode_option,
    known_options,
    mode_option,
    modes_of,
    value_name,
    value_of,
    with_checked_value,
    with_value,
    without_booleans,
)
from twofold.wire import v2
from twofold.wire.base import Extras

ONE = v2.SessionConfigUngrouped("one", "One")
TWO = v2.SessionConfigSelectOption("two", "Two")
THREE = v2.SessionConfigSelectOption("three", "Three")
GROUP = v2.SessionConfigSelectGroup("g", "Group", [TWO, THREE])
SPARE = v2.SessionConfigSelectGroup("empty", "Empty", [])
UNKNOWN = v2.UnknownSessionConfig(raw=Extras({"type": "slider", "configId": "depth"}))


def select(config_id: str, value: str = "one", **fields: Any) -> v2.SessionConfigSelect:
    return v2.SessionConfigSelect(
        config_id, config_id, current_value=value, options=[ONE, GROUP, SPARE], **fields
    )


def switch(config_id: str, *, value: bool = False, **fields: Any) -> v2.SessionConfigBoolean:
    return v2.SessionConfigBoolean(config_id, config_id, current_value=value, **fields)


OPTIONS: list[v2.SessionConfigOption] = [UNKNOWN, select("model"), switch("fast", value=True)]


def test_an_option_is_found_by_its_id_unless_its_type_is_unknown() -> None:
    assert find_option(OPTIONS, "model") is OPTIONS[1]
    assert find_option(OPTIONS, "depth") is None
    assert find_option([], "model") is None
    assert known_options(OPTIONS) == OPTIONS[1:]


@pytest.mark.parametrize(
    ("config_id", "value"), [("model", "one"), ("fast", True), ("depth", None), ("other", None)]
)
def test_the_value_of_an_option_is_what_it_is_set_to(config_id: str, value: Any) -> None:
    assert value_of(OPTIONS, config_id) == value


@given(st.sampled_from(["model", "fast", "depth", "other"]), st.text() | st.booleans())
def test_setting_a_value_changes_nothing_else(config_id: str, value: str | bool) -> None:
    before = list(OPTIONS)
    changed = with_value(OPTIONS, config_id, value)
    assert before == OPTIONS
    for old, new in zip(OPTIONS, changed, strict=True):
        if find_option([old], config_id) is None:
            assert new is old
    if find_option(OPTIONS, config_id) is not None:
        assert value_of(changed, config_id) == value


def test_only_the_first_of_two_options_with_one_id_is_set() -> None:
    twice: list[v2.SessionConfigOption] = [select("a"), switch("a")]
    assert with_value(twice, "a", "two") == [select("a", "two"), switch("a")]


@pytest.mark.parametrize(("value", "name"), [("one", "One"), ("three", "Three"), ("x", "x")])
def test_a_value_that_is_no_choice_is_its_own_name(value: str, name: str) -> None:
    assert value_name(select("a", value)) == name


def test_choices_are_those_in_groups_too_in_their_order() -> None:
    assert [*choices(select("a"))] == [ONE, TWO, THREE]
    assert [*grouped_choices(select("a"))] == [(None, ONE), (GROUP, TWO), (GROUP, THREE)]


@pytest.mark.parametrize(
    ("options", "by_category", "by_id", "has"),
    [
        ([], None, None, False),
        ([select("model"), UNKNOWN], None, None, False),
        ([select("model"), select("how", category="mode")], "how", "how", True),
        ([select("mode"), select("how", category="mode")], "how", "mode", True),
        ([select("mode")], None, "mode", True),
        ([switch("mode", category="mode")], None, None, True),
        ([switch("how", category="mode"), select("a", category="mode")], "a", "a", True),
    ],
)
def test_the_mode_is_the_first_select_of_its_category(
    options: Sequence[v2.SessionConfigOption], by_category: str | None, by_id: str | None, has: bool
) -> None:
    found = [mode_option(options), mode_option(options, by_id=True)]
    assert [option and option.config_id for option in found] == [by_category, by_id]
    assert has_mode_option(options) == has
    modes = modes_of(list(options))
    assert (modes is None) == (by_category is None)
    if modes is not None:
        assert [mode.id for mode in modes.available_modes] == ["one", "two", "three"]


# ---- what an option may be set to

MODE = select("how", category="mode")
LOUD = switch("loud")
SETTABLE: list[v2.SessionConfigOption] = [select("model"), UNKNOWN, MODE, LOUD]


@pytest.mark.parametrize(
    ("config_id", "value"), [("model", "three"), ("how", "two"), ("loud", True)]
)
def test_setting_an_option_changes_a_copy(config_id: str, value: Any) -> None:
    changed = with_checked_value(SETTABLE, config_id, value)
    assert value_of(changed, config_id) is value
    assert value_of(SETTABLE, config_id) is not value
    same = [each for each in changed if value_of([each], config_id) is None]
    assert same == [each for each in SETTABLE if value_of([each], config_id) is None]


@pytest.mark.parametrize(
    ("config_id", "value", "reason"),
    [
        ("tempo", "fast", "there is no config option 'tempo'"),
        ("depth", "fast", "there is no config option 'depth'"),
        ("model", "huge", "config option 'model' must be one of one, two, three"),
        ("how", True, "config option 'how' must be one of one, two, three"),
        ("loud", "yes", "config option 'loud' must be true or false"),
    ],
)
def test_a_missing_option_or_a_value_it_cannot_have_is_refused(
    config_id: str, value: Any, reason: str
) -> None:
    with pytest.raises(NoSuchOption, match=reason):
        with_checked_value(SETTABLE, config_id, value)


def test_every_client_of_version_1_can_show_everything_but_booleans() -> None:
    assert without_booleans(SETTABLE) == [select("model"), UNKNOWN, MODE]
