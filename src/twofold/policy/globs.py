"""The patterns of rules, and what they match.

In a pattern `*` matches any text, `?` one character, `[abc]` and `[!abc]` one of a set, `[*]` the
character itself; case counts. In a path `*` stays between two slashes and `**`, alone between them,
matches any number of directories. Paths are compared as text: no link is followed, no home is
looked up, the disk is not read.
"""

import re
from fnmatch import fnmatchcase
from typing import Final

SHELL_CONTROL: Final = re.compile(r"[;&|`<>()\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]|\$[{\[]")
"""What makes more of a command line than one command: separators, pipes, redirections and
substitutions of sh, zsh, fish and PowerShell, what a terminal takes for a key, and every
character that some program ends a line at."""

_SET = re.compile(r"\[!?\]?[^\]]*\]")
_SET_OF_ONE = re.compile(r"\[(?:\]|[^!\]])\]")
_SPECIAL = re.compile(r"[*?\[]")
_STEPS = ("", ".", "..")  # not names: no wildcard matches them


def literal(pattern: str) -> bool:
    """Whether the pattern matches one text only."""
    return not _SPECIAL.search(_SET_OF_ONE.sub("", pattern))


def escape(text: str) -> str:
    """The pattern that matches this text and no other."""
    return _SPECIAL.sub(r"[\g<0>]", text)


def escape_path(path: str) -> str:
    """The pattern that matches this path, however it is written, and no other."""
    return re.sub(r"\A[~$]", r"[\g<0>]", escape(normal(path)))


def fixed_head(pattern: str) -> tuple[str, str]:
    """The pattern before its first `*`, and the pattern from there on."""
    at = 0
    while at < len(pattern) and pattern[at] != "*":
        found = _SET.match(pattern, at)
        at = found.end() if found else at + 1
    return pattern[:at], pattern[at:]


def one_line(text: str) -> str:
    """The text with every run of white space as one blank."""
    return " ".join(text.split())


def normal(path: str) -> str:
    """The path with `.`, `..` and doubled slashes resolved, as text."""
    absolute = path.startswith("/")
    steps: list[str] = []
    for step in path.split("/"):
        if step == ".." and steps and steps[-1] != "..":
            steps.pop()
        elif step not in _STEPS or (step == ".." and not absolute):
            steps.append(step)
    return "/" + "/".join(steps) if absolute else "/".join(steps) or "."


def joined(directory: str, path: str) -> str:
    """The path, which is relative to `directory` unless it is absolute."""
    return path if path.startswith("/") else f"{directory}/{path}"


def text_fault(pattern: str) -> str | None:
    """What is wrong with a pattern, and what would be right."""
    if "[" in _SET.sub("", pattern):
        return f"{pattern!r} opens a '[' and does not close it; '[[]' stands for the character"
    return None


def path_fault(pattern: str) -> str | None:
    """What is wrong with a pattern of paths, and what would be right."""
    if not pattern:
        return "a path is empty; leave it out, or name one"
    if pattern[0] in "~$":
        return f"nothing expands {pattern!r}; write the path in full, or '**/' and its end"
    if pattern.endswith("/") and pattern != "/":
        return f"{pattern!r} ends in a slash; {pattern + '**'!r} is what lies in a directory"
    if pattern != normal(pattern):
        return f"{pattern!r} takes detours; write {normal(pattern)!r}"
    for step in pattern.split("/"):
        if "**" in step and step != "**":
            return f"'**' stands alone between slashes, as in '/src/**/*.py', not in {step!r}"
        if fault := text_fault(step):
            return fault
    return None


def matches_text(pattern: str, text: str | None) -> bool:
    """Whether the pattern matches; an empty pattern matches only an empty or missing text."""
    if not pattern or not text:
        return not pattern and not text
    return fnmatchcase(text, pattern)


def matches_path(pattern: str, path: str) -> bool:
    """Whether the pattern matches the path. A relative path never matches an absolute pattern."""
    return steps_match(pattern.split("/"), normal(path).split("/"))


def steps_match(patterns: list[str], steps: list[str]) -> bool:
    """`matches_path` of lists of steps. After a dead end the last `**` takes one step more."""
    at = here = 0
    stars, taken = -1, 0
    while here < len(steps):
        if at < len(patterns) and patterns[at] == "**":
            stars, taken = at, here
            at += 1
        elif at < len(patterns) and _step_matches(patterns[at], steps[here]):
            at, here = at + 1, here + 1
        elif stars >= 0:
            taken += 1
            at, here = stars + 1, taken
        else:
            return False
    return all(rest == "**" for rest in patterns[at:])


def _step_matches(pattern: str, step: str) -> bool:
    return pattern == step if step in _STEPS else fnmatchcase(step, pattern)
