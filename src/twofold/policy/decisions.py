"""From a decision to an answer: which option, what is remembered of it, and what is recorded.

An option is judged by its kind alone. Ids, names and the order of options are the agent's choice,
and an unknown kind is never taken for a yes or a no.
"""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from twofold.policy import globs
from twofold.policy.rules import BadRule, Decision, Rule
from twofold.policy.subject import Subject
from twofold.policy.written import parse_rule, read_policy
from twofold.wire.shared import PermissionOption

By: TypeAlias = Literal["person", "policy", "remembered", "cancel", "nobody"]

_DECISION_OF: Final[dict[str, Decision]] = {
    "allow_once": "allow",
    "allow_always": "allow",
    "reject_once": "reject",
    "reject_always": "reject",
}


def choose(
    options: Sequence[PermissionOption], decision: Literal["allow", "reject"]
) -> PermissionOption | None:
    """The option that carries out a decision of a rule, by its kind alone.

    To allow there is only `allow_once`: `allow_always` is for a person to choose, and of two that
    allow once the kind does not decide. To reject, `reject_once` is preferred to `reject_always`.

    Args:
        options: The options of the permission request.
        decision: What the rule decided.

    Returns:
        The option; None if there is none: then ask a person to allow, or answer `cancelled`.
    """
    if decision == "allow":
        once = [option for option in options if option.kind == "allow_once"]
        return once[0] if len(once) == 1 else None
    for kind in ("reject_once", "reject_always"):
        for option in options:
            if option.kind == kind:
                return option
    return None


def remembered(subject: Subject, option: PermissionOption) -> Rule | None:
    """The rule for later requests like `subject`, if the chosen option is one for always.

    What was allowed is all that was shown: the rule matches the same request under another id, and
    nothing that has more or less of anything. None if the request was too large to be compared.

    What was rejected is wider: requests of the same kind and name with the same command, in
    whatever it is wrapped; if there was no command, those that touch one of its paths and have
    none either; if there was neither, those with the same title that have neither.
    """
    if option.kind not in ("allow_always", "reject_always"):
        return None
    same: dict[str, str | tuple[str, ...]]
    if option.kind == "allow_always":
        if subject.fingerprint is None:
            return None
        same = {"exactly": subject.fingerprint}
    elif subject.command:
        same = {"command": globs.escape(subject.command)}
    elif subject.paths:
        same = {"command": "", "path": tuple(map(globs.escape_path, subject.paths))}
    else:
        title = globs.escape(globs.one_line(subject.title))
        same = {"command": "", "path": (), "title": title}
    return Rule(
        decision=_DECISION_OF[option.kind],
        kind=globs.escape(subject.kind),
        name=globs.escape(subject.name or ""),
        source="remembered",
        **same,  # type: ignore[arg-type]  # each of its fields has one of the two types
    )


class Decided(Struct, frozen=True):
    """A permission request that was answered: how, by whom, and by which rule."""

    request_id: int | str
    """The id of the request, as in `Permission.request_id`."""
    subject: Subject
    """What was judged; without the strings that were only `mentioned`, which may be large."""
    option_id: str | None
    """The id of the chosen option; None if the answer was `cancelled`."""
    option_kind: str | None
    """The kind of the chosen option; None if the answer was `cancelled`."""
    by: By
    """Who decided: `person`, `policy`, `remembered` (as a person answered before), `cancel`
    (with the turn) or `nobody` (there was no person to ask)."""
    rule: Rule | None = None
    """The rule that decided, or that left the decision to a person; None if none matched."""
    tool_call_id: str | None = None
    """The tool call that it was about, if it was about one."""
    advice: str = ""
    """Where no rule matched: the narrowest rule that would have."""
    reason: str = ""
    """Why a person decided so, if they gave a reason."""

    @property
    def allowed(self) -> bool:
        """Whether the agent may go on; an unknown kind is not a yes."""
        return _DECISION_OF.get(self.option_kind or "") == "allow"

    @property
    def outcome(self) -> str:
        """What was answered and by whom, on one line: `allowed by --allow read`."""
        if self.option_kind is None:
            answer = "cancelled"
        else:
            done = {"allow": "allowed", "reject": "rejected"}
            answer = done.get(_DECISION_OF.get(self.option_kind, ""), "answered")
        if self.option_kind in ("allow_always", "reject_always"):
            answer += " for good"
        return globs.one_line(answer + self._reason())

    def __str__(self) -> str:
        """The outcome, what was judged, and if no rule matched the one that would have.

        Only the outcome for a decision of a person, who has seen the request, and for a cancel.
        It is read by that person: `allowed by you`, `rejected by you: use make`.
        """
        if self.by == "person":
            reason = f": {_cut(globs.one_line(self.reason))}" if self.reason else ""
            return f"{self.outcome.removesuffix('a person')}you{reason}"
        if self.by in ("remembered", "cancel"):
            return self.outcome
        line = f"{self.outcome} [{judged(self.subject)}]"
        return f"{line}; {self.advice}" if self.advice else line

    def _reason(self) -> str:
        match self.by:
            case "person":
                return " by a person"
            case "remembered":
                return " as answered before"
            case "cancel":
                return " with the turn"
            case "nobody":
                return f": nobody to ask{self._wish}"
        return f" by {self._rule}" if self.option_kind else f" by {self._rule}: no option rejects"

    @property
    def _wish(self) -> str:
        if self.rule is None:
            return ""
        wish = "says to ask" if self.rule.decision == "ask" else "finds no option to pick"
        return f", and {self._rule} {wish}"

    @property
    def _rule(self) -> str:
        return (self.rule.source or str(self.rule)) if self.rule else "the policy"


def asked_because(rule: Rule | None) -> str:
    """Why a person is asked: the rule that matched, or that none decides.

    Args:
        rule: The rule of the `Ruling`.
    """
    if rule is None:
        return "No rule decides this."
    name = "An answer for always" if rule.source == "remembered" else rule.source or str(rule)
    if rule.decision == "ask":
        return globs.one_line(f"{name} says to ask.")
    return globs.one_line(f"{name} would allow it, but the agent offers no option for just this.")


# ---- what was judged -------------------------------------------------------------------------

_MOST_PATHS: Final = 10
_LONGEST: Final = 400


def judged(subject: Subject) -> str:
    """What rules judge, on one line: the kind, the command with its directory, and the files."""
    facts = [subject.kind]
    if subject.command:
        facts.append(f"command: {_cut(subject.command)}")
    facts += [f"script: {_cut(each)}" for each in subject.scripts]
    if subject.cwd is not None and subject.elsewhere:
        facts.append(f"in: {_cut(subject.cwd)}")
    if subject.env:
        facts.append(f"variables: {_cut(' '.join([name for name, _ in subject.env]))}")
    facts += [f"path: {_cut(path)}" for path in subject.paths[:_MOST_PATHS]]
    if len(subject.paths) > _MOST_PATHS:
        facts.append(f"and {len(subject.paths) - _MOST_PATHS} more paths")
    return ", ".join(facts)


def _cut(text: str) -> str:
    text = globs.one_line(text)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… ({len(text) - _LONGEST} more characters)"


def advice(subject: Subject) -> str:
    """The narrowest rule that would allow this request, or why there is none.

    A rule by kind or name alone is never among them: it would allow more than was asked for.
    """
    beside = [
        what
        for what, there in (
            ("its variables", subject.env),
            ("its script", subject.scripts),
            ("another directory", subject.elsewhere),
        )
        if there
    ]
    if beside:
        return f"no rule for a command or a path covers {' and '.join(beside)}"
    rule = rule_for(subject)
    return f"{rule} would allow it" if rule else ""


def rule_for(subject: Subject) -> str | None:
    """The narrowest rule that allows this request, as a person writes it; None if none does."""
    same: dict[str, str | tuple[str, ...]] = {"kind": subject.kind}
    paths = tuple(dict.fromkeys(map(globs.escape_path, subject.paths)))
    if subject.command:
        same = {"command": globs.escape(subject.command)}
    elif paths:
        same["path"] = paths[0] if len(paths) == 1 else paths
    elif subject.mentioned or (subject.kind == "other" and not subject.name):
        return None  # a title is too little: it would allow anything else under the same title
    else:
        if subject.name:
            same["name"] = globs.escape(subject.name)
        same["title"] = globs.escape(globs.one_line(subject.title))
    try:
        rule, written = _written(same)
    except BadRule:
        return None
    usable = rule.matches(subject) and len(written) <= _LONGEST and written.isprintable()
    return written if usable else None


def _written(same: dict[str, str | tuple[str, ...]]) -> tuple[Rule, str]:
    """A rule that allows, and how to write it: as an option, or in a file if it has many paths."""
    if isinstance(same.get("path"), tuple):
        in_file = json.dumps({"decision": "allow", **same})
        rule = read_policy(f'{{"rules": [{in_file}]}}', "").rules[0]
        return rule, f"{in_file} in a --policy file"
    terms = [value if field == "kind" else f"{field}:{value}" for field, value in same.items()]
    text = ",".join([_COMMA.sub("[,]", str(term)) for term in terms])
    return parse_rule(text, "allow"), f"--allow {shlex.quote(text)}"


_COMMA: Final = re.compile(r",(?=\s*[A-Za-z_]+:)")
