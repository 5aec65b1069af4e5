"""`make mutants` changes code, and leaves alone what no test should hold."""

import pytest

from scripts.mutants import Mutator

SOURCE = '''
"""A docstring."""
LIMIT = 64 << 20

def read(lines, at=0):
    """Another one."""
    {code}

class Shape(Protocol):
    def size(self) -> int: return 1
'''


def changed(code: str) -> set[str]:
    """What the line becomes in each mutant of it."""
    source = SOURCE.format(code=code).encode()
    found = set()
    for change in Mutator("read.py", source).changes():
        mutant = source[: change.begin] + change.text.encode() + source[change.end :]
        found.add(mutant.decode().splitlines()[6].strip())
    return found - {code}


@pytest.mark.parametrize(
    ("code", "mutants"),
    [
        ("a = b == c", {"a = b != c"}),
        ("a = (b) < (c)", {"a = (b) >= (c)", "a = (b) <= (c)"}),
        ("a = b not in c", {"a = b in c"}),
        ("a = b and c", {"a = b or c"}),
        ("a = not b", {"a = (b)"}),
        ("a = b + c", {"a = b - c"}),
        ("a = b[1]", {"a = b[2]"}),
        ("a = 'kind'", {"a = 'kind~'"}),
        ("a = b if c else d", {"a = b if (not (c)) else d"}),
        ("a = b(c, d)", {"a = b(d, c)"}),
        ("a(b)", {"pass"}),
        ("a.b = c", {"pass"}),
        ("raise a('text for people')", {"pass"}),
        ("return a", {"return None"}),
    ],
)
def test_code_is_changed(code: str, mutants: set[str]) -> None:
    assert changed(code) == mutants


@pytest.mark.parametrize(
    "code",
    [
        "a = b",
        "a = 'text for people'",
        "a: int | str = b",
        "log.warning('text', a, b)",
        "assert a == b",
        "a = f'{b == c}'",
        "a = isinstance(b, c)",
        "a = min(b, c)",
        "a = TypeVar('T')",
        "a: int = field(repr=False)",
    ],
)
def test_what_no_test_should_hold_is_left_alone(code: str) -> None:
    assert changed(code) == set()
