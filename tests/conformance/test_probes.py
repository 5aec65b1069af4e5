"""The probes and rules notice what they are there for."""

import asyncio
import sys
from collections.abc import Mapping
from typing import TypeAlias

import pytest

from tests.conformance.requirements import REQUIREMENTS
from tests.conformance.schema import Official
from tests.conformance.subjects import AGENTS, Prompts, Subject
from tests.conformance.verdicts import Patience, Verdicts, judged
from tests.peers.validators import Schemas, SchemaValidator, Version

pytestmark = pytest.mark.processes

Broken: TypeAlias = Mapping[tuple[str, Version], Verdicts]
"""The outcomes of an agent that breaks the rules, by how it does and for which version."""

PROMPTS = Prompts("plain", tools=("tools",), permission="permission")
SOON = Patience(probe=2.0, end=2.0)
"""What such an agent does not do at once, it never does."""
ALL: list[tuple[str, Version]] = [
    ("wrong", 1),
    ("wrong", 2),
    ("locked", 1),
    ("locked", 2),
    ("refusing", 2),
]
NOT_SHOWN = {1: {"AUTH-005"}, 2: {"INIT-001", "AUTH-205"}}
"""What an agent cannot break that breaks the rest."""


@pytest.fixture(scope="module")
def broken(schemas: Schemas, valid: SchemaValidator) -> Broken:
    official = Official(schemas, valid)

    def subject(mode: str, version: Version) -> Subject:
        command = (sys.executable, "-I", "-S", str(AGENTS / "broken.py"), mode)
        return Subject(mode, version, mode, command, PROMPTS)

    async def ask_all() -> list[Verdicts]:
        return await asyncio.gather(*(judged(subject(*each), official, SOON) for each in ALL))

    return dict(zip(ALL, asyncio.run(ask_all()), strict=True))


@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_that_breaks_the_rules_meets_no_requirement(
    version: Version, broken: Broken
) -> None:
    verdicts = broken["wrong", version]
    demanded = {each.id for each in REQUIREMENTS[version] if each.level != "recorded"}
    assert {each for each in demanded if verdicts[each].kind != "failed"} <= NOT_SHOWN[version]


@pytest.mark.parametrize(("version", "requirement"), [(1, "AUTH-005"), (2, "AUTH-205")])
def test_a_session_that_needs_an_unnamed_login_is_noticed(
    version: Version, requirement: str, broken: Broken
) -> None:
    assert broken["locked", version][requirement].kind == "failed"


def test_an_agent_that_refuses_to_begin_is_noticed(broken: Broken) -> None:
    assert broken["refusing", 2]["INIT-001"].kind == "failed"
