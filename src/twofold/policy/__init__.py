"""Permissions answered by rules: data that decides, and the record of what was decided. Pure."""

from twofold.policy.decisions import By, Decided, choose, remembered
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
    "choose",
    "parse_rule",
    "read_policy",
    "remembered",
    "subject_of",
    "with_shown",
    "write_policy",
]
