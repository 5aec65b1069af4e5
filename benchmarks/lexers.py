"""How long one expression of a lexer can take, for every language that is coloured.

`python -m benchmarks.lexers [NAME…]` makes hostile text of the expressions themselves: what comes
before something that repeats, that something again and again, and an end that does not fit. It is
cut to what the highlighter gives a lexer at most. While an expression looks for its match nobody
can look at the clock, so the longest match is how late the client can be. A lexer that needs more
than `MOST` has no place in `LANGUAGES`. Not part of `make bench`, for it takes minutes.
"""

import random
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from re import _parser  # type: ignore[attr-defined]
from time import process_time
from typing import Any, NamedTuple

from twofold.styled import code

MOST = 0.05
"""Seconds for one match."""
_GIVEN_UP = 1.0
_SIZE = code.BATCH + code.CHARACTERS_BEFORE
_ENDS = ("", "\0", "\n!")
_PLENTY = "a \t0-(x.\"'\\"


class Longest(NamedTuple):
    """The longest match of a lexer, by which expression and on what."""

    seconds: float = 0.0
    expression: str = ""
    text: str = ""


def measured(name: str) -> Longest:
    """The longest match that was found for a language."""
    chance = random.Random(1)
    longest = Longest()
    for expression in _expressions(code._lexer(name)):
        for text in _hostile(expression, chance):
            given = _given(name, text)
            seconds = _match(expression, given)
            if seconds > longest.seconds:
                longest = Longest(seconds, expression.pattern, given)
            if seconds >= _GIVEN_UP:
                return longest
    return longest


def _expressions(lexer: Any) -> Iterator[re.Pattern[str]]:
    seen: set[str] = set()
    for rules in getattr(lexer, "_tokens", {}).values():
        for match, *_ in rules:
            expression = getattr(match, "__self__", None)
            if isinstance(expression, re.Pattern) and expression.pattern not in seen:
                seen.add(expression.pattern)
                yield expression


def _given(name: str, text: str) -> str:
    """What a lexer reads of the text."""
    lines, _ = code._readable([], text.split("\n"))
    if code._is_ambiguous(name, lines):
        return "\n"
    return "\n".join(lines)[:_SIZE] + "\n"


def _match(expression: re.Pattern[str], text: str) -> float:
    began = process_time()
    signal.setitimer(signal.ITIMER_REAL, _GIVEN_UP)
    try:
        expression.match(text)
    except TimeoutError:
        return _GIVEN_UP
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return process_time() - began


def _give_up(*_: object) -> None:
    raise TimeoutError


# ---- hostile text --------------------------------------------------------------------------------


def _hostile(expression: re.Pattern[str], chance: random.Random) -> Iterator[str]:
    tried: set[tuple[str, str]] = set()
    for before, repeated in _repeats(_parser.parse(expression.pattern), chance):
        units = {_sample(repeated, chance) for _ in range(4)}
        units |= {one + other for one in units for other in units}
        units |= {" " * (code.MOST_BLANKS - 1) + "\n\n" for unit in units if unit.isspace()}
        for unit in units:
            if unit and (before, unit) not in tried:
                tried.add((before, unit))
                long = (before + unit * _SIZE)[: code.LONGEST_LINE]
                many = (before + unit * _SIZE)[:_SIZE]
                short = "\n".join(many[at : at + 79] for at in range(0, _SIZE, 79))
                few = [before + unit * count for count in (4, 6, 8, 10, 12)]
                yield from (text + end for text in (long, short, *few) for end in _ENDS)


def _repeats(tree: Iterable[Any], chance: random.Random, before: str = "") -> Iterator[Any]:
    """What repeats without end in an expression, and a text for what comes before it."""
    for operation, argument in tree:
        match str(operation):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                yield before, argument[2]
                yield from _repeats(argument[2], chance, before)
            case "SUBPATTERN":
                yield from _repeats(argument[3], chance, before)
            case "BRANCH":
                for branch in argument[1]:
                    yield from _repeats(branch, chance, before)
            case "ASSERT" | "ASSERT_NOT":
                yield from _repeats(argument[1], chance, before)
        before += _one(str(operation), argument, chance)


def _sample(tree: Iterable[Any], chance: random.Random) -> str:
    """A text that the expression matches, more or less."""
    return "".join([_one(str(operation), argument, chance) for operation, argument in tree])


def _one(operation: str, argument: Any, chance: random.Random) -> str:
    match operation:
        case "LITERAL":
            return chr(argument)
        case "NOT_LITERAL":
            return chance.choice([sign for sign in _PLENTY if ord(sign) != argument])
        case "ANY":
            return chance.choice("a \t")
        case "IN":
            return _of_set(argument, chance)
        case "BRANCH":
            return _sample(chance.choice(argument[1]), chance)
        case "SUBPATTERN":
            return _sample(argument[3], chance)
        case "ATOMIC_GROUP":
            return _sample(argument, chance)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, repeated = argument
            return "".join([_sample(repeated, chance) for _ in range(max(least, min(1, most)))])
    return ""


_CATEGORIES = {"DIGIT": "0", "SPACE": " \t", "WORD": "a", "NOT_SPACE": "a-", "NOT_WORD": "- "}


def _of_set(items: Iterable[Any], chance: random.Random) -> str:
    signs: list[str] = []
    negated = False
    for operation, argument in items:
        match str(operation):
            case "NEGATE":
                negated = True
            case "LITERAL":
                signs.append(chr(argument))
            case "RANGE":
                signs += [chr(argument[0]), chr(argument[1])]
            case "CATEGORY":
                signs += _CATEGORIES.get(str(argument).removeprefix("CATEGORY_"), "a")
    if negated:
        return chance.choice([sign for sign in _PLENTY if sign not in signs] or ["ü"])
    return chance.choice(signs)


def main(names: list[str]) -> int:
    """Print the longest match of every language; 1 if one takes too long."""
    signal.signal(signal.SIGALRM, _give_up)
    late = 0
    for name in names or code.LANGUAGES:
        longest = measured(name)
        late += longest.seconds > MOST
        print(f"{name:14} {longest.seconds * 1e3:8.1f} ms", flush=True)
        if longest.seconds > MOST:
            print(f"  {longest.expression[:200]!r}\n  {longest.text[:80]!r}…", flush=True)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
