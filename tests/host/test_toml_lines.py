"""Every key of a TOML text has its line."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from twofold.host.toml_lines import key_lines

TEXT = """\
# a comment
agent = "x"

[agents.x]  # a header
command = [
    "one",
    "two",
]
env = { A = "1", B = "2" }
options.model = "big"
text = \"\"\"
[not.a.table]
key = 1
\"\"\"

[rules]
allow = ["read", "command:make"]

[[list]]
a = 1
[[list]]
b = 2
"""


def test_every_key_has_the_line_where_it_is_written() -> None:
    lines = {".".join(path): line for path, line in key_lines(TEXT).items()}
    assert lines == {
        "agent": 2,
        "agents": 4,
        "agents.x": 4,
        "agents.x.command": 5,
        "agents.x.command.0": 6,
        "agents.x.command.1": 7,
        "agents.x.env": 9,
        "agents.x.env.A": 9,
        "agents.x.env.B": 9,
        "agents.x.options": 10,
        "agents.x.options.model": 10,
        "agents.x.text": 11,
        "rules": 16,
        "rules.allow": 17,
        "rules.allow.0": 17,
        "rules.allow.1": 17,
        "list": 19,
        "list.a": 20,
        "list.b": 22,
    }


KEYS = st.sampled_from(["a", "b", '"a b"', "'#'", "c.d", '"["'])
VALUES = st.sampled_from(["1", '"x # y"', "[1,\n 2]", "'''\n[a]\n'''", "{ q = [ 3 ] }", "[]"])
LINES = st.lists(
    st.one_of(
        st.builds("{} = {}".format, KEYS, VALUES),
        st.builds("[{}]".format, KEYS),
        st.sampled_from(["", "# [a]", "  "]),
    ),
    max_size=8,
)


@given(LINES)
def test_every_value_of_a_valid_text_has_a_line(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = key_lines(text)
    assert all(1 <= line <= text.count("\n") + 1 for line in found.values())
    check(data, (), found)


def check(value: Any, path: tuple[str, ...], found: dict[tuple[str, ...], int]) -> None:
    assert not path or path in found
    if isinstance(value, dict):
        for key, inner in value.items():
            check(inner, (*path, key), found)
