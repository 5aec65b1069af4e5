"""From a decision to an answer: which option, what is remembered of it, and what is recorded.

An option is what its kind says. Ids and names are the agent's own words, an order says nothing,
and a kind nobody knows is never taken for a yes or a no.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from twofold.policy import globs
from twofold.policy.rules import Decision, Rule
from twofold.policy.subject import Subject
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
    """The option that carries out a decision nobody was asked about, by its kind alone.

    To allow there is only `allow_once`: `allow_always` is for a person to say, and of two that
    allow once the kind does not tell which is meant. Without one, ask. To reject, `reject_once`
    comes before `reject_always`. Without either, answer `cancelled`.
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
    """The rule for later requests like `subject`, if the option chosen for it says "always".

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
    subject: Subject
    option_id: str | None
    option_kind: str | None
    """The kind of the chosen option; None if the answer was `cancelled`."""
    by: By
    rule: Rule | None = None
    tool_call_id: str | None = None
    """The tool call that it was about, if it was about one."""

    @property
    def allowed(self) -> bool:
        """Whether the agent may go on; a kind nobody knows is not a yes."""
        return _DECISION_OF.get(self.option_kind or "") == "allow"

    def __str__(self) -> str:
        if self.option_kind is None:
            answer = "cancelled"
        else:
            done = {"allow": "allowed", "reject": "rejected"}
            answer = done.get(_DECISION_OF.get(self.option_kind, ""), "answered")
        if self.option_kind in ("allow_always", "reject_always"):
            answer += " for good"
        return globs.one_line(answer + self._reason())

    def _reason(self) -> str:
        match self.by:
            case "person":
                return " by a person"
            case "remembered":
                return " as answered before"
            case "cancel":
                return " with the turn"
            case "nobody":
                return ": nobody to ask"
        by = (self.rule.source or str(self.rule)) if self.rule else "the policy"
        return f" by {by}" if self.option_kind else f" by {by}: no option rejects"
