"""Rules and the policy they make: what is allowed, rejected or asked, without asking anyone.

A rule that allows is read narrowly, a rule that rejects or asks is read widely; where both match,
the rejection wins. A rule goes by what the agent says of itself (see `policy.subject`): a kind or
a name allows whatever the agent calls so, and a wildcard behind a program that runs others
(`python *`, `find *`) allows these. Pure: no clock, no task, no file.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from twofold.errors import LocalError
from twofold.policy import globs
from twofold.policy.subject import Subject

Decision: TypeAlias = Literal["allow", "reject", "ask"]
DECISIONS: Final[tuple[str, ...]] = get_args(Decision)

FIELDS: Final = ("kind", "name", "title", "path", "command")
"""What a rule may have a pattern for."""


class BadRule(LocalError):
    """A rule that cannot be meant: `rule` is how it was written, `reason` what is wrong with it."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(f"The rule {rule!r} cannot be used: {reason}.")
        self.rule = rule
        self.reason = reason


class Rule(Struct, frozen=True, kw_only=True):
    """What to do with requests that all of its patterns match (`policy.globs` says how).

    An empty pattern matches what is not there: `command=""` is a request without a command,
    `path=()` one without paths.
    """

    decision: Decision
    kind: str | None = None
    name: str | None = None
    title: str | None = None
    """Matched on one line: every run of white space counts as a blank."""
    path: str | tuple[str, ...] | None = None
    """A pattern, or several of which one must match."""
    command: str | None = None
    source: str = ""
    """Where the rule came from, for people: `--allow read`, `policy.json rule 3`."""

    def __post_init__(self) -> None:
        if fault := _fault(self):
            raise BadRule(str(self), fault)

    def __str__(self) -> str:
        told = []
        for field in FIELDS:
            pattern = getattr(self, field)
            if pattern is not None:
                patterns = [pattern] if isinstance(pattern, str) else pattern or [""]
                told += [f"{field}:{each}" for each in patterns]
        return f"{self.decision} {','.join(told)}".strip()

    def matches(self, subject: Subject) -> bool:
        """Whether the rule speaks of `subject`."""
        fits = _allowed if self.decision == "allow" else _touched
        return (
            (self.kind is None or globs.matches_text(self.kind, subject.kind))
            and (self.name is None or globs.matches_text(self.name, subject.name))
            and fits(self, subject)
        )

    @property
    def path_patterns(self) -> tuple[str, ...]:
        """The patterns of paths, one of which must match."""
        return (self.path,) if isinstance(self.path, str) else self.path or ()


def decision_fault(word: object) -> str | None:
    """What is wrong with a decision, if it is none."""
    if word in DECISIONS:
        return None
    return f"{word!r} is no decision; there are {', '.join(DECISIONS)}"


def _fault(rule: Rule) -> str | None:
    if fault := decision_fault(rule.decision):
        return fault
    if not any(getattr(rule, field) for field in FIELDS):
        return "it names nothing; what no rule speaks of is decided by 'otherwise'"
    if rule.kind == "":
        return "its kind is empty; every request has one"
    for field in ("kind", "name", "title", "command"):
        if fault := globs.text_fault(getattr(rule, field) or ""):
            return fault
    return next(filter(None, map(globs.path_fault, rule.path_patterns)), None)


# ---- narrowly: what an allow rule matches ----------------------------------------------------


def _allowed(rule: Rule, subject: Subject) -> bool:
    # Where and under what title says nothing about what a command does.
    if subject.command and rule.command is None and not (rule.title is rule.path is None):
        return False
    return (
        (rule.command is None or _one_command(rule.command, subject.command or ""))
        and (rule.title is None or _titled(rule.title, subject))
        and (rule.path is None or _every_path(rule, subject.paths))
    )


def _one_command(pattern: str, command: str) -> bool:
    if pattern == command:
        return True
    return _contained(pattern, command) and globs.matches_text(pattern, command)


def _titled(pattern: str, subject: Subject) -> bool:
    # An agent that gives no more than a title puts the command there.
    if subject.kind == "execute" and not _contained(pattern, subject.title):
        return False
    return globs.matches_text(pattern, globs.one_line(subject.title))


def _contained(pattern: str, command: str) -> bool:
    """Whether a wildcard can stand only for words of one command, not for the start of another."""
    return globs.literal(pattern) or not globs.SHELL_CONTROL.search(command)


def _every_path(rule: Rule, paths: Sequence[str]) -> bool:
    if not rule.path_patterns or not paths:
        return not rule.path_patterns and not paths
    return all(any(_surely(each, path) for each in rule.path_patterns) for path in paths)


def _surely(pattern: str, path: str) -> bool:
    # A backslash is a letter on one system and a slash on the other: no wildcard hides it.
    return globs.matches_path(pattern, path) and ("\\" not in path or globs.literal(pattern))


# ---- widely: what a reject or ask rule matches -----------------------------------------------


def _touched(rule: Rule, subject: Subject) -> bool:
    return (
        (rule.command is None or _any_command(rule.command, subject.command))
        and (rule.title is None or globs.matches_text(rule.title, globs.one_line(subject.title)))
        and (rule.path is None or _any_path(rule, subject.paths))
    )


def _any_command(pattern: str, command: str | None) -> bool:
    """The whole command line, or a part of it between the signs that make several of it."""
    parts = globs.SHELL_CONTROL.split(command) if command else []
    return globs.matches_text(pattern, command) or any(
        globs.matches_text(pattern, part) for part in map(globs.one_line, parts) if part
    )


def _any_path(rule: Rule, paths: Sequence[str]) -> bool:
    if not rule.path_patterns:
        return not paths
    read = [reading for path in paths for reading in {path, path.replace("\\", "/")}]
    return any(globs.matches_path(each, path) for each in rule.path_patterns for path in read)


# ---- the policy ------------------------------------------------------------------------------


class Ruling(Struct, frozen=True):
    """What a policy says about a request, and the rule that said it (None: no rule did)."""

    decision: Decision
    rule: Rule | None = None


class Policy(Struct, frozen=True):
    """Rules in order, and what to do when none of them speaks: ask, unless told otherwise."""

    rules: Sequence[Rule] = ()
    otherwise: Decision = "ask"

    def __post_init__(self) -> None:
        force_setattr(self, "rules", tuple(self.rules))
        if fault := decision_fault(self.otherwise):
            raise BadRule(f"otherwise {self.otherwise}", fault)

    def rule(self, subject: Subject) -> Rule | None:
        """The rule that decides: any that rejects, else the first that matches."""
        found = [rule for rule in self.rules if rule.matches(subject)]
        rejecting = (rule for rule in found if rule.decision == "reject")
        return next(rejecting, found[0] if found else None)

    def decide(self, subject: Subject) -> Ruling:
        """What to do about `subject`, and by which rule."""
        rule = self.rule(subject)
        return Ruling(rule.decision if rule else self.otherwise, rule)
