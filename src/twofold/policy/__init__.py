"""Permissions answered by rules: data that decides, and the record of what was decided. Pure."""

from twofold.policy.decisions import (
    By,
    Decided,
    advice,
    asked_because,
    choose,
    judged,
    remembered,
    rule_for,
)
from twofold.policy.rules import BadRule, Decision, Policy, Rule, Ruling
from twofold.policy.subject import KINDS, Subject, subject_of, with_shown
from twofold.policy.written import BadPolicy, parse_rule, read_policy, write_policy

__all__ = [
    "KINDS",
    "BadPolicy",
    "BadRule",
    "By",
    "Decided",
    "Decision",
    "Policy",
    "Rule",
    "Ruling",
    "Subject",
    "advice",
    "asked_because",
    "choose",
    "judged",
    "parse_rule",
    "read_policy",
    "remembered",
    "rule_for",
    "subject_of",
    "with_shown",
    "write_policy",
]
