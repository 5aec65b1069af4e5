"""Rules and policies as people write them: on a command line, and in a JSON file.

A rule that cannot be meant is refused, with what is wrong and what would be right: a typo must
never widen what is allowed, nor quietly switch off what is rejected. Nothing here opens a file.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from twofold.errors import LocalError
from twofold.policy import globs
from twofold.policy.rules import FIELDS, BadRule, Decision, Policy, Rule, decision_fault
from twofold.policy.subject import KINDS

_COMMA = re.compile(r",\s*(?=[A-Za-z_]+:)")
_TERM = re.compile(r"([A-Za-z_]+):(.*)", re.DOTALL)


class BadPolicy(LocalError):
    """A policy file cannot be used.

    Attributes:
        source: The name of the file.
        reason: What is wrong with it.
        number: Which of its rules is wrong, from 1; None if it is not about one rule.
    """

    def __init__(self, source: str, reason: str, number: int | None = None) -> None:
        where = source if number is None else f"{source}, rule {number}"
        super().__init__(f"{where}: {reason}.")
        self.source = source
        self.reason = reason
        self.number = number


# ---- the command line ------------------------------------------------------------------------


def parse_rule(text: str, decision: Decision) -> Rule:
    """Read a rule from the text of a flag such as `--allow TEXT`.

        read                          a kind of tool call
        path:/src/**                  FIELD:PATTERN; a field is kind, name, title, path or command
        edit,path:/src/**             a kind and a pattern: both must match
        name:bash,command:make test   several patterns: all must match

    A comma belongs to the pattern before it unless a word and a colon follow; `[,]` is a comma in
    any case. Blanks around a pattern do not count. Two rules take two flags.

    Args:
        text: The text of the flag.
        decision: `allow`, `reject` or `ask`.

    Raises:
        BadRule: The rule cannot be meant; the error has the reason.
    """
    source = f"--{decision} {text}"
    try:
        return Rule(decision=decision, source=source, **_terms(text, source))
    except BadRule as error:
        raise BadRule(source, error.reason) from None


def _terms(text: str, source: str) -> dict[str, Any]:
    patterns: dict[str, str] = {}
    for number, term in enumerate(_COMMA.split(text.strip())):
        found = _TERM.fullmatch(term)
        field, pattern = (found[1], found[2].strip()) if found else ("kind", term.strip())
        if found is None and (number or pattern not in KINDS):
            what = f"{pattern!r} is neither a kind ({', '.join(KINDS)}) nor FIELD:PATTERN"
            raise BadRule(source, f"{what}, such as 'path:/src/**'")
        if field not in FIELDS:
            fields = f"{field!r} is no field; there are {', '.join(FIELDS)}"
            raise BadRule(source, f"{fields}; write '[,]' for a comma that belongs to a pattern")
        if field in patterns:
            raise BadRule(source, f"it has two patterns for {field}; give two rules")
        if not pattern:
            raise BadRule(source, f"nothing follows '{field}:'")
        patterns[field] = pattern
    if fault := _kind_fault(patterns.get("kind")):
        raise BadRule(source, fault)
    return patterns


def _kind_fault(pattern: str | None) -> str | None:
    """A pattern that no kind fits is a typo: such a rule would never match."""
    if pattern is None or any(globs.matches_text(pattern, kind) for kind in KINDS):
        return None
    return f"no kind is {pattern!r}; there are {', '.join(KINDS)}"


# ---- the file --------------------------------------------------------------------------------


class _Object(dict[str, Any]):
    """A JSON object, and a key that it has twice, of which JSON takes the last."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__()
        self.twice: str | None = None
        for key, value in pairs:
            if key in self:
                self.twice = key
            self[key] = value


def read_policy(data: bytes | str, source: str) -> Policy:
    """Read a policy from the JSON of a file.

        {"rules": [{"decision": "allow", "kind": "read"},
                   {"decision": "reject", "path": ["**/.env", "**/.ssh/**"]}],
         "otherwise": "ask"}

    A rule has a decision and a pattern for each field it names: kind, name, title, path (one or
    a list, of which one must match), command. Both keys of the policy may be left out.

    Args:
        data: The content of the file.
        source: The name of the file, for errors and for the rules.

    Raises:
        BadPolicy: The policy cannot be used.
    """
    policy = _object(_json(data, source), ("rules", "otherwise"), "a policy", source, None)
    rules = policy.get("rules", [])
    if not isinstance(rules, list):
        raise BadPolicy(source, "'rules' is not a list")
    otherwise = policy.get("otherwise", "ask")
    if fault := decision_fault(otherwise):
        raise BadPolicy(source, f"'otherwise': {fault}")
    read = [_rule(rule, source, number) for number, rule in enumerate(rules, 1)]
    return Policy(read, otherwise)


def write_policy(policy: Policy) -> bytes:
    """The JSON that `read_policy` reads as this policy, without the sources of its rules.

    It is plain ASCII, so that no character in it can hide or pass for another.

    Raises:
        BadRule: A rule was remembered in a session: a file has no pattern as narrow as that.
    """
    rules = []
    for rule in policy.rules:
        if rule.exactly:
            raise BadRule(str(rule), "it was remembered for one session, no file can hold it")
        patterns = {field: getattr(rule, field) for field in FIELDS}
        given = {field: pattern for field, pattern in patterns.items() if pattern is not None}
        rules.append({"decision": rule.decision, **given})
    return json.dumps({"rules": rules, "otherwise": policy.otherwise}, indent=2).encode() + b"\n"


def _json(data: bytes | str, source: str) -> object:
    try:
        return json.loads(data, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:  # a bad character is a ValueError, too
        raise BadPolicy(source, f"it is not JSON: {error}") from None


def _object(
    value: object, keys: Sequence[str], what: str, source: str, number: int | None
) -> dict[str, Any]:
    def refuse(reason: str) -> NoReturn:
        raise BadPolicy(source, reason, number)

    if not isinstance(value, _Object):
        refuse(f"{what} is a JSON object with the keys {', '.join(keys)}")
    if value.twice is not None:
        refuse(f"the key {value.twice!r} is given twice")
    for key in value:
        if key not in keys:
            refuse(f"unknown key {key!r}; {what} has {', '.join(keys)}")
    return value


def _rule(value: object, source: str, number: int) -> Rule:
    fields = _object(value, ("decision", *FIELDS), "a rule", source, number)
    if "decision" not in fields:
        raise BadPolicy(source, "it has no decision", number)
    for field in FIELDS:
        if field in fields and (fault := _pattern_fault(field, fields[field])):
            raise BadPolicy(source, fault, number)
    if isinstance(fields.get("path"), list):
        fields["path"] = tuple(fields["path"])
    try:
        return Rule(**fields, source=f"{source} rule {number}")
    except BadRule as error:
        raise BadPolicy(source, error.reason, number) from None


def _pattern_fault(field: str, value: object) -> str | None:
    if isinstance(value, str):
        return _kind_fault(value) if field == "kind" else None
    if field != "path":
        return f"the pattern for {field} is not a string; leave {field} out if any will do"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return None
    return "the pattern for path is not a string or a list of strings; leave it out if any will do"
