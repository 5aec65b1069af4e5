"""Every requirement of the conformance kit, asked of every subject.

A subject is asked everything at once, in few processes; the tests look at what came of it.
`docs/conformance.md` is made of the same; with TWOFOLD_WRITE_DOCS set it is written, otherwise
compared.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.conformance.failures import FAILURES
from tests.conformance.page import page
from tests.conformance.probes import PROBES
from tests.conformance.requirements import REQUIREMENTS, Requirement
from tests.conformance.rules import RULES
from tests.conformance.schema import Official
from tests.conformance.subjects import SUBJECTS, Subject
from tests.conformance.verdicts import Verdicts, judged
from tests.peers.install import ROOT
from tests.peers.validators import Schemas, SchemaValidator, Version

pytestmark = pytest.mark.processes

PAGE = ROOT / "docs" / "conformance.md"
AT_ONCE = (os.cpu_count() or 1) + 1
"""How many subjects are asked at the same time."""

Found: TypeAlias = Mapping[Subject, Verdicts]

EVERYONE = [*SUBJECTS[2], *SUBJECTS[1]]
VERSIONS: tuple[Version, ...] = (1, 2)
each_version = pytest.mark.parametrize("version", VERSIONS)


def known_to_fail(reason: str) -> pytest.MarkDecorator:
    """A mark for a test that must fail, and only by its own assertion."""
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)


def cases() -> list[object]:
    """Every subject with every requirement of its version."""
    found: list[object] = []
    for subject in EVERYONE:
        for requirement in REQUIREMENTS[subject.version]:
            reason = FAILURES.get((subject.version, subject.name, requirement.id))
            marks = () if reason is None else known_to_fail(reason)
            name = f"v{subject.version}-{subject.name}-{requirement.id}"
            found.append(pytest.param(subject, requirement, id=name, marks=marks))
    return found


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, schemas: Schemas, valid: SchemaValidator) -> Found:
    """What came of the subjects that the chosen tests look at."""
    subjects = wanted(request.session.items)
    return asyncio.run(ask(subjects, Official(schemas, valid)))


def wanted(items: Sequence[pytest.Item]) -> list[Subject]:
    """The subjects that the chosen tests look at; one that names none needs all."""
    named: list[Subject] = []
    for item in items:
        if item.path == Path(__file__) and "found" in getattr(item, "fixturenames", ()):
            params = item.callspec.params if hasattr(item, "callspec") else {}
            named += [params["subject"]] if "subject" in params else EVERYONE
    return [subject for subject in EVERYONE if subject in named]


async def ask(subjects: Sequence[Subject], official: Official) -> Found:
    """Ask everything of all subjects, some of them at the same time."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(subject: Subject) -> Verdicts:
        async with free:
            return await judged(subject, official)

    return dict(zip(subjects, await asyncio.gather(*map(one, subjects)), strict=True))


@pytest.mark.parametrize(("subject", "requirement"), cases())
def test_a_subject_meets_a_requirement(
    subject: Subject, requirement: Requirement, found: Found
) -> None:
    outcome = found[subject][requirement.id]
    assert outcome.kind != "failed", outcome.note
    if requirement.level == "recorded":
        assert outcome.kind != "passed", "it demands nothing that could be met"
    else:
        assert outcome.kind != "recorded", "it demands something"


@each_version
def test_every_requirement_is_met_by_some_subject(version: Version, found: Found) -> None:
    met = {
        name
        for subject in SUBJECTS[version]
        for name, outcome in found[subject].items()
        if outcome.kind == "passed"
    }
    demanded = {each.id for each in REQUIREMENTS[version] if each.level != "recorded"}
    only_failed = {key[2] for key in FAILURES if key[0] == version}
    assert demanded - met <= only_failed


def test_the_page_matches_the_results(found: Found) -> None:
    made = page(found)
    if os.environ.get("TWOFOLD_WRITE_DOCS"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made, "TWOFOLD_WRITE_DOCS=1 makes it anew"


# ---- the tables ------------------------------------------------------------------------------


@each_version
def test_every_requirement_has_one_judge(version: Version) -> None:
    judges = [name for number, name in (*PROBES, *RULES) if number == version]
    assert sorted(judges) == sorted(each.id for each in REQUIREMENTS[version])


def test_what_is_known_to_fail_names_subjects_and_requirements() -> None:
    names = {
        (subject.version, subject.name, requirement.id)
        for subject in EVERYONE
        for requirement in REQUIREMENTS[subject.version]
    }
    assert FAILURES.keys() <= names
