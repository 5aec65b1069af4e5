"""The table of requirements has what the kit has."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.requirements import REQUIREMENTS
from tests.peers.validators import Version

LETTERS = {"mandatory": "M", "conditional": "C", "advisory": "A", "recorded": "I"}
ROW = re.compile(r"^\| ([A-Z]+(?:-[A-Z]+)*-\d+) \| ([MCAI]) \|", re.MULTILINE)


@pytest.mark.parametrize("version", [1, 2])
def test_the_requirements_are_those_of_the_kit(
    version: Version, shared: Callable[[str], Path]
) -> None:
    text = shared("conformance.md").read_text(encoding="utf-8")
    section = text.partition(f"## Version {version} ")[2].partition("\n## ")[0]
    ours = [(each.id, LETTERS[each.level]) for each in REQUIREMENTS[version]]
    assert ours == ROW.findall(section)


@pytest.mark.parametrize(("version", "count"), [(1, 56), (2, 106)])
def test_no_requirement_is_listed_twice(version: Version, count: int) -> None:
    assert len({each.id for each in REQUIREMENTS[version]}) == count
