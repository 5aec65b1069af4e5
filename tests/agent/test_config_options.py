"""What an agent's config options may be set to, and which of them version 1 can show."""

from typing import Any

import pytest

from twofold import v2
from twofold.agent.config_options import (
    NoSuchOption,
    with_checked_value,
    without_booleans,
)
from twofold.convert.options import value_of
from twofold.wire.base import Extras
from twofold.wire.shared import SessionConfigSelectOption

GROUPED = v2.SessionConfigSelect(
    "model",
    "Model",
    current_value="small",
    options=[
        v2.SessionConfigUngrouped("small", "Small"),
        v2.SessionConfigSelectGroup("g", "Large ones", [SessionConfigSelectOption("xl", "XL")]),
    ],
)
MODE = v2.SessionConfigSelect(
    "how",
    "How",
    category="mode",
    current_value="ask",
    options=[v2.SessionConfigUngrouped("ask", "Ask"), v2.SessionConfigUngrouped("code", "Code")],
)
LOUD = v2.SessionConfigBoolean("loud", "Loud", current_value=False)
UNKNOWN = v2.UnknownSessionConfig(raw=Extras({"type": "_slider", "configId": "volume"}))
OPTIONS: list[v2.SessionConfigOption] = [GROUPED, UNKNOWN, MODE, LOUD]


@pytest.mark.parametrize(("config_id", "value"), [("model", "xl"), ("how", "code"), ("loud", True)])
def test_setting_an_option_changes_a_copy(config_id: str, value: Any) -> None:
    changed = with_checked_value(OPTIONS, config_id, value)
    assert value_of(changed, config_id) is value
    assert value_of(OPTIONS, config_id) is not value
    same = [each for each in changed if value_of([each], config_id) is None]
    assert same == [each for each in OPTIONS if value_of([each], config_id) is None]


@pytest.mark.parametrize(
    ("config_id", "value", "reason"),
    [
        ("tempo", "fast", "there is no config option 'tempo'"),
        ("volume", "fast", "there is no config option 'volume'"),
        ("model", "huge", "config option 'model' must be one of small, xl"),
        ("how", True, "config option 'how' must be one of ask, code"),
        ("loud", "yes", "config option 'loud' must be true or false"),
    ],
)
def test_an_option_that_there_is_not_is_refused(config_id: str, value: Any, reason: str) -> None:
    with pytest.raises(NoSuchOption, match=reason):
        with_checked_value(OPTIONS, config_id, value)


def test_version_1_is_shown_everything_but_booleans() -> None:
    assert without_booleans(OPTIONS) == [GROUPED, UNKNOWN, MODE]
