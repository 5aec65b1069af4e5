"""`docs/conformance.md`, made of what a run of `test_conformance.py` found."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tests.conformance.failures import FAILURES
from tests.conformance.requirements import REQUIREMENTS, Requirement
from tests.conformance.subjects import SUBJECTS, Subject
from tests.conformance.verdicts import Kind, Outcome, Verdicts
from tests.peers.validators import Version

WIDTH = 120
KINDS: tuple[Kind, ...] = ("passed", "not applicable", "recorded", "failed")

INTRODUCTION = (
    "acp-tck, the conformance kit of the Agent Client Protocol, lists what an agent has to do: 106"
    " requirements for version 2 and 56 for version 1. Tests of our own check them with agents that"
    " are made with Twofold, and with agents behind `twofold bridge`. Each is a real process that"
    " gets raw JSON lines, and every message it sends is compared with the official JSON schema."
)
HOW_TO = """\
The test run makes this page, and fails if the page is out of date. To make it anew:

```
TWOFOLD_WRITE_DOCS=1 make test ARGS=tests/conformance
```"""
WHO = {
    "demo agent": "`twofold agent`, which has everything but a login in a terminal",
    "minimal agent": "a `twofold.Agent` with nothing but a handler for prompts",
    "agent with a login": "a `twofold.Agent` that makes no session before a login, offers one in a"
    " terminal, and has an option that is a boolean",
    "bridge, …": "the same agents, restricted to the other version, behind `twofold bridge`; the"
    " bare v1 agent is written without a library and has only what version 1 demands",
}
LEGEND = (
    "✓: met. –: does not apply, because the agent does not have what the cell names. ✗: not met,"
    " for the reason with that number below the table. Every agent has to meet what is *mandatory*,"
    " an agent with the capability what is *conditional*, and every agent should meet what is"
    " *advisory*. What is *recorded* demands nothing: the cell shows what happens."
)

Found = Mapping[Subject, Verdicts]


def page(found: Found) -> str:
    """The page, for the outcomes of all subjects."""
    who = "\n".join(_wrapped(f"- **{name}**: {what}.", "  ") for name, what in WHO.items())
    parts = ["# Conformance", _wrapped(INTRODUCTION), HOW_TO, who, _wrapped(LEGEND)]
    return "\n\n".join([*parts, *_section(2, found), *_section(1, found)]) + "\n"


def _section(version: Version, found: Found) -> list[str]:
    subjects = SUBJECTS[version]
    reasons = list(dict.fromkeys(why for key, why in FAILURES.items() if key[0] == version))
    parts = [f"## Version {version}", _counts(subjects, found)]
    rows = [["id", "level", "requirement", *(subject.title for subject in subjects)]]
    rows.append(["---"] * len(rows[0]))
    for requirement in REQUIREMENTS[version]:
        cells = [_cell(subject, requirement, found, reasons) for subject in subjects]
        rows.append([requirement.id, requirement.level, requirement.words, *cells])
    parts.append(_rows(rows))
    if reasons:
        parts.append("Not met, and why:")
        parts.append("\n".join(f"{at}. {why}." for at, why in enumerate(reasons, 1)))
    return parts


def _counts(subjects: Sequence[Subject], found: Found) -> str:
    rows = [["", "met", "does not apply", "recorded", "not met"], ["---"] * 5]
    for subject in subjects:
        counts = Counter(outcome.kind for outcome in found[subject].values())
        rows.append([subject.title, *(str(counts[kind]) for kind in KINDS)])
    return _rows(rows)


def _cell(subject: Subject, requirement: Requirement, found: Found, reasons: Sequence[str]) -> str:
    outcome: Outcome = found[subject][requirement.id]
    if outcome.kind == "passed":
        return "✓"
    if outcome.kind == "not applicable":
        return f"– {outcome.note}"
    if outcome.kind == "recorded":
        return outcome.note
    reason = FAILURES.get((subject.version, subject.name, requirement.id))
    return "✗" if reason is None else f"✗ {reasons.index(reason) + 1}"


def _rows(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
