"""Rules and the policy they make: what is allowed, rejected or asked, without asking anyone.

A rule that allows is read narrowly, a rule that rejects or asks is read widely; where both match,
the rejection wins. A rule judges what the agent declares (see `policy.subject`): a kind or a name
allows whatever the agent gives that kind or name, and a wildcard behind a program that runs others
(`git *`, `python *`, `find *`) allows these. Pure: no clock, no task, no file.
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase, translate
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import force_setattr

from twofold.errors import LocalError
from twofold.policy import globs
from twofold.policy.subject import LONGEST_PATH, Subject

# ---- what a line for a shell may run, read widely: for rules that reject or ask, never to allow
#
# No shell is parsed here. A line is cut at everything that can end a command, and then each of its
# words may be the program: so `sudo rm`, `FOO=1 rm`, `xargs rm`, `bash -c 'rm …'` and `/bin/rm` all
# run `rm`, whatever precedes it, and so does `git rm`. That is more than the truth. What a shell
# computes while it runs (variables, encoded scripts) is not seen. The cost is linear.


_ENDS: Final = re.compile(f"{globs.SHELL_CONTROL.pattern}|[{{}}]")
_CONTINUED: Final = re.compile(r"\\\r?\n")
_BLANK: Final = re.compile(r"\$IFS|\$\{IFS\}")
_QUOTES: Final = re.compile(r"[\\'\"]")
_START: Final = r"(?<![^\s'\"/\\=:,@!$~{}\[\]])"
"""Where a program may begin: at a word, at the end of a path, behind a quote or an assignment."""


def parts(text: str) -> dict[str, None]:
    """The line itself and every command in it, with and without quotes; the keys are in order."""
    found = dict.fromkeys((text, globs.one_line(text)))
    for reading in (text, _unquoted(text)):
        for part in _ENDS.split(reading):
            found[globs.one_line(part)] = None
        found[globs.one_line(reading)] = None
    found.pop("", None)
    return found


def runs(pattern: str, part: str) -> bool:
    """Whether one of `parts` may run a command that the pattern fits."""
    patterns = {pattern}
    if "[" not in pattern:  # a set of quotes would become an empty one
        patterns.add(_unquoted(pattern))
    if globs.SHELL_CONTROL.search(pattern):  # it is about more than one command
        patterns.update([f"{each}*" for each in patterns])
    # `rm *` is meant for `rm`, too, if that is all there is to see
    return any(_ends_with(each, text) for each in patterns for text in (part, f"{part} "))


def _unquoted(text: str) -> str:
    return _QUOTES.sub("", _BLANK.sub(" ", _CONTINUED.sub("", text)))


def _ends_with(pattern: str, text: str) -> bool:
    """Whether the pattern fits the text from some start of a program to its end."""
    if globs.matches_text(pattern, text):
        return True
    head, rest = globs.fixed_head(pattern)
    if not head:
        return False  # it begins with a star: what fits an end of the text fits all of it
    if not rest:
        return re.search(_START + translate(head), text) is not None
    begins = re.search(_START + translate(head)[:-2], text)  # without the end of the text
    # what the rest, which begins with a star, does not fit here it fits nowhere behind
    return begins is not None and fnmatchcase(text[begins.end() :], rest)


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
    """What to do with requests that all of its patterns match.

    In a pattern `*` matches any text, `?` one character, `[abc]` one of a set. In a path `*`
    matches no slash, and `**` between two slashes matches any number of directories. An
    empty pattern matches only a request without the field: `command=""` is a request without a
    command, `path=()` one without paths. A field without a pattern matches anything.
    """

    decision: Decision
    """`allow`, `reject` or `ask`: what to do if every pattern matches."""
    kind: str | None = None
    """A pattern for `Subject.kind`."""
    name: str | None = None
    """A pattern for `Subject.name`."""
    title: str | None = None
    """Matched on one line: every run of white space counts as a blank."""
    path: str | tuple[str, ...] | None = None
    """A pattern, or several of which one must match."""
    command: str | None = None
    """A pattern for `Subject.command`; rules that reject or ask match the scripts, too."""
    source: str = ""
    """The source of the rule, for people: `--allow read`, `policy.json rule 3`."""
    exactly: str = ""
    """Only the request with this `Subject.fingerprint`: what was answered for always."""

    def __post_init__(self) -> None:
        if fault := _fault(self):
            raise BadRule(str(self), fault)

    def __str__(self) -> str:
        terms = []
        for field in FIELDS:
            pattern = getattr(self, field)
            if pattern is not None:
                patterns = [pattern] if isinstance(pattern, str) else pattern or [""]
                terms += [f"{field}:{each}" for each in patterns]
        return f"{self.decision} {','.join(terms)}".strip()

    def matches(self, subject: Subject) -> bool:
        """Whether the rule decides about `subject`."""
        return _matches(self, _Judged(subject))

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
    if not rule.exactly and not any(getattr(rule, field) for field in FIELDS):
        return "it names nothing; what no rule speaks of is decided by 'otherwise'"
    if rule.kind == "":
        return "its kind is empty; every request has one"
    for field in ("kind", "name", "title", "command"):
        if fault := globs.text_fault(getattr(rule, field) or ""):
            return fault
    return next(filter(None, map(globs.path_fault, rule.path_patterns)), None)


def _matches(rule: Rule, judged: "_Judged") -> bool:
    if rule.exactly and rule.exactly != judged.fingerprint:
        return False
    if rule.name is not None and not globs.matches_text(rule.name, judged.subject.name):
        return False
    return _allowed(rule, judged.subject) if rule.decision == "allow" else _touched(rule, judged)


# ---- narrowly: what an allow rule matches ----------------------------------------------------


def _allowed(rule: Rule, subject: Subject) -> bool:
    if rule.kind is not None and not globs.matches_text(rule.kind, subject.kind):
        return False
    if rule.exactly:
        return True  # it is the request that was shown
    if rule.command is rule.title is rule.path is None:
        # whatever the agent calls so, but nothing that is run under another name
        hidden = subject.env or subject.scripts or subject.partial
        return subject.kind == "execute" or not hidden
    # What is beside it, and where it runs, can make anything of what the rule names.
    if subject.env or subject.scripts or subject.partial or subject.elsewhere:
        return False
    # Neither a path nor a title is evidence of what a command does.
    if subject.command and rule.command is None:
        return False
    return (
        (rule.command is None or _one_command(rule.command, subject))
        and (rule.title is None or _titled(rule.title, subject))
        and (rule.path is None or _every_path(rule, subject))
    )


def _one_command(pattern: str, subject: Subject) -> bool:
    command = subject.command or ""
    if not command and pattern and subject.kind == "execute":
        # An agent that gives no more than a title puts it there. Beside other words it is prose.
        command = "" if subject.mentioned or subject.heading else subject.title
    if pattern == command:
        return True
    assigned = _ASSIGNED.match(command)
    if assigned and not pattern.startswith(assigned[0]):
        return False  # a variable can make any program run another: no wildcard matches it
    return _contained(pattern, command) and globs.matches_text(pattern, command)


_ASSIGNED = re.compile(r"(?:\s*[A-Za-z_]\w*\+?=\S*)+")


def _titled(pattern: str, subject: Subject) -> bool:
    # An agent that gives no more than a title puts the command there.
    if subject.kind == "execute" and not _contained(pattern, subject.title):
        return False
    return globs.matches_text(pattern, globs.one_line(subject.title))


def _contained(pattern: str, command: str) -> bool:
    """Whether a wildcard matches only words of one command, not the start of another."""
    return globs.literal(pattern) or not globs.SHELL_CONTROL.search(command)


def _every_path(rule: Rule, subject: Subject) -> bool:
    # a string that is written like a path is taken for one, whatever its key is
    paths = [*subject.paths, *filter(_LIKE_A_PATH.fullmatch, subject.mentioned)]
    if not rule.path_patterns or not subject.paths:
        return not rule.path_patterns and not paths
    return all(any(_surely(each, path) for each in rule.path_patterns) for path in paths)


_LIKE_A_PATH = re.compile(r"(?:/|~|\.\.?[/\\]|file:|\\\\|[A-Za-z]:[/\\])[^\n]*")


def _surely(pattern: str, path: str) -> bool:
    # A backslash is a letter on one system and a slash on the other: no wildcard hides it.
    return globs.matches_path(pattern, path) and ("\\" not in path or globs.literal(pattern))


# ---- widely: what a reject or ask rule matches -----------------------------------------------


def _touched(rule: Rule, judged: "_Judged") -> bool:
    titles = judged.titles
    return (
        (rule.kind is None or any(globs.matches_text(rule.kind, each) for each in judged.kinds))
        and (rule.title is None or any(globs.matches_text(rule.title, each) for each in titles))
        and (rule.command is None or _any_command(rule.command, judged))
        and (rule.path is None or _any_path(rule, judged))
    )


def _any_command(pattern: str, judged: "_Judged") -> bool:
    subject = judged.subject
    if not pattern:
        return not subject.command
    if not pattern.strip("*?"):  # without a word of its own it speaks of what is run, not of prose
        title = subject.title if subject.kind == "execute" else ""
        run = (subject.command or title, *subject.scripts)
        return any(globs.matches_text(pattern, each) for each in run)
    return any(runs(pattern, part) for part in judged.commands)


def _any_path(rule: Rule, judged: "_Judged") -> bool:
    if not rule.path_patterns:
        return not judged.subject.paths
    patterns = [each.split("/") for each in rule.path_patterns]
    return any(globs.steps_match(each, path) for each in patterns for path in judged.paths)


MOST_WORDS: Final = 4_000
"""How many words of a request are tried as paths, and how many parts of it as commands."""

_WORDS = re.compile(r"[^\s'\"`;&|<>()\[\]{},=@]+")
_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\})(?=[/\\]|\Z)")


def _braceless(text: str) -> str:
    return text.replace("${HOME}", "$HOME")


class _Judged:
    """A subject, and all that a wide reading finds in it: worked out when it is asked for, once."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._too_much = False

    @cached_property
    def fingerprint(self) -> str | None:
        return self.subject.fingerprint

    @property
    def in_full(self) -> bool:
        """Whether all of the request could be looked at."""
        return not (self.subject.partial or self._too_much)

    @cached_property
    def kinds(self) -> set[str]:
        subject = self.subject
        runs = "execute" if subject.env or subject.scripts else subject.kind
        return {subject.kind, subject.declared or subject.kind, runs}

    @cached_property
    def titles(self) -> set[str]:
        return {globs.one_line(each) for each in (self.subject.title, self.subject.heading)}

    @cached_property
    def commands(self) -> list[str]:
        """Every part of every string that may be run."""
        subject = self.subject
        variables = [f"{name}={value}" for name, value in subject.env]
        found: dict[str, None] = {}
        run = (subject.command or "", *subject.scripts, *variables)
        for text in (*run, subject.title, subject.heading, *subject.mentioned):
            found |= parts(text)
        self._too_much = self._too_much or len(found) > MOST_WORDS
        return list(found)[:MOST_WORDS]

    @cached_property
    def paths(self) -> list[list[str]]:
        """Every file that a string may name, as steps from the root."""
        found: dict[str, None] = {}
        for number, word in enumerate(self._words()):
            if number >= MOST_WORDS:
                self._too_much = True
                break
            found |= dict.fromkeys(self._places(word))
        return [path.split("/") for path in found]

    def _words(self) -> Iterator[str]:
        """The strings that may be paths, and the words of those that may hold some."""
        subject = self.subject
        yield from subject.paths
        if subject.cwd:
            yield subject.cwd
        values = [value for _, value in subject.env]
        for text in (*subject.mentioned, *subject.texts, *values):
            if len(text) <= LONGEST_PATH and "\n" not in text:
                yield text.strip()
        for text in (subject.command or "", *subject.scripts):
            yield from _WORDS.findall(_braceless(text))
        for text in (subject.title, subject.heading, *subject.mentioned, *values):
            # of a sentence only what is written like a path
            found = _WORDS.findall(_braceless(text))
            yield from (word for word in found if re.search(r"[/\\.~]", word))

    def _places(self, word: str) -> Iterator[str]:
        """Where a word leads, in all the ways it can be read."""
        subject = self.subject
        bases = [*subject.directories]
        if subject.cwd:
            bases += [globs.joined(base, subject.cwd) for base in subject.directories or ("",)]
        for reading in _readings(word, subject.home):
            path = globs.normal(reading)
            yield path
            if not path.startswith("/"):
                yield from (globs.normal(f"{base}/{path}") for base in bases)
            for base in subject.directories:  # a directory goes by each of its names
                inside = path.removeprefix(base)
                if inside != path and inside[:1] in ("", "/"):
                    yield from (globs.normal(other + inside) for other in subject.directories)


def _readings(word: str, home: str | None) -> set[str]:
    readings = {word, word.rstrip(".,:;!?")}
    for each in list(readings):
        if ":" in each:  # a URI, a line behind a path, a host before one
            readings |= {_uri_path(each), *each.split(":")}
    if home:
        readings |= {_HOME.sub(lambda _: home, each, count=1) for each in readings}
    readings |= {unquote(each) for each in readings}
    readings |= {each.replace("\\", "/") for each in readings}
    return readings - {""}


def _uri_path(text: str) -> str:
    try:
        return urlsplit(text).path
    except ValueError:
        return ""


# ---- the policy ------------------------------------------------------------------------------


class Ruling(Struct, frozen=True):
    """The decision of a policy about a request, and the rule that made it."""

    decision: Decision
    """`allow`, `reject` or `ask`."""
    rule: Rule | None = None
    """The rule that decided; None if none matched."""


class Policy(Struct, frozen=True):
    """Rules in order, and the decision when none of them matches.

    Args:
        rules: The rules; any that rejects wins, else the first that matches.
        otherwise: The decision when no rule matches: ask, by default.
    """

    rules: Sequence[Rule] = ()
    otherwise: Decision = "ask"

    def __post_init__(self) -> None:
        force_setattr(self, "rules", tuple(self.rules))
        if fault := decision_fault(self.otherwise):
            raise BadRule(f"otherwise {self.otherwise}", fault)

    def rule(self, subject: Subject) -> Rule | None:
        """The rule that decides: any that rejects, else the first that matches."""
        return self.decide(subject).rule

    def decide(self, subject: Subject) -> Ruling:
        """What to do about `subject`, and by which rule.

        A request that is too large to be held against every rule that rejects or asks is asked.
        """
        judged = _Judged(subject)
        found = [rule for rule in self.rules if _matches(rule, judged)]
        rejecting = (rule for rule in found if rule.decision == "reject")
        rule = next(rejecting, found[0] if found else None)
        decision = rule.decision if rule else self.otherwise
        if decision == "allow" and not judged.in_full and self._looks_inside:
            return Ruling("ask")
        return Ruling(decision, rule)

    @property
    def _looks_inside(self) -> bool:
        """Whether what a request holds may be a reason not to allow it."""
        return any(
            rule.decision != "allow" and (rule.command or rule.path_patterns) for rule in self.rules
        )
