"""What came of every requirement for a subject: the probes first, then the rules."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, NamedTuple

from tests.conformance import exchanges
from tests.conformance.probes import PROBES, Probe
from tests.conformance.requirements import REQUIREMENTS
from tests.conformance.rules import RULES
from tests.conformance.schema import Official
from tests.conformance.subjects import Subject
from tests.conformance.visit import Absent, Visit


class Patience(NamedTuple):
    """How many seconds things may take; nothing comes near it unless it fails."""

    probe: float = 15.0
    end: float = 5.0
    """Until a process has ended, from the end of its input."""


PATIENCE = Patience()


Kind = Literal["passed", "not applicable", "recorded", "failed"]


class Outcome(NamedTuple):
    """What came of a requirement, and why or what where that matters."""

    kind: Kind
    note: str = ""


Verdicts = Mapping[str, Outcome]
"""The outcomes of one subject, by id."""


async def judged(subject: Subject, official: Official, patience: Patience = PATIENCE) -> Verdicts:
    """Ask everything of a subject."""
    visit = Visit(subject, official)
    found: dict[str, Outcome] = {}
    try:
        for requirement in REQUIREMENTS[subject.version]:
            probe = PROBES.get((subject.version, requirement.id))
            if probe is not None:
                found[requirement.id] = await _probed(probe, visit, patience)
        await _record_the_rest(visit, patience)
        await visit.close(patience.end)
    finally:
        visit.kill()
    for requirement in REQUIREMENTS[subject.version]:
        rule = RULES.get((subject.version, requirement.id))
        if rule is not None:
            try:
                found[requirement.id] = _passed(rule(visit))
            except Exception as error:
                found[requirement.id] = _not_passed(error)
    return found


async def _probed(probe: Probe, visit: Visit, patience: Patience) -> Outcome:
    try:
        async with asyncio.timeout(patience.probe):
            return _passed(await probe(visit))
    except Exception as error:
        return _not_passed(error)


async def _record_the_rest(visit: Visit, patience: Patience) -> None:
    """Have everything recorded that the rules look at, also where no probe did."""
    for exchange in exchanges.ALL:
        with suppress(Exception):  # the probes and rules that look at it report it
            async with asyncio.timeout(patience.probe):
                await visit.once(exchange)


def _passed(note: str | None) -> Outcome:
    return Outcome("passed") if note is None else Outcome("recorded", note)


def _not_passed(error: Exception) -> Outcome:
    if isinstance(error, Absent):
        return Outcome("not applicable", str(error))
    if isinstance(error, TimeoutError):
        return Outcome("failed", "it took too long")
    return Outcome("failed", f"{type(error).__name__}: {error}")
