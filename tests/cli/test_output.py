"""What commands print, piece by piece and on a terminal."""

import json
import os
import sys
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twofold.cli.output import Output
from twofold.text.safe import Pieces, sanitize

PARTS = [
    "a",
    "ä",
    "\r",
    "\n",
    "\t",
    "\u200d",
    "\u200c",
    "\ufe0f",
    "❤",
    "\U0001f469",
    "\u202e",
    "\0",
]


def printed(text: str, cuts: list[int]) -> str:
    pieces = Pieces()
    at = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return "".join(pieces.add(text[start:end]) for start, end in pairwise(at)) + pieces.end()


@example(parts=["\U0001f469", "\u200d", "\U0001f469"], cuts=[1])
@example(parts=["\U0001f469", "\u200d", "\U0001f469"], cuts=[2])
@example(parts=["❤", "\ufe0f"], cuts=[1])
@example(parts=["\r", "\n"], cuts=[1])
@given(st.lists(st.sampled_from(PARTS), max_size=12), st.lists(st.integers(0, 12), max_size=6))
def test_text_in_pieces_is_made_safe_like_all_of_it(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    assert printed(text, cuts) == sanitize(text)


@example(text="\x1b]0;title\x07", cuts=[1, 3])
@given(st.text(st.sampled_from("\x1b[]0;m\x07\x9bA\r\n")), st.lists(st.integers(0, 12), max_size=6))
def test_no_split_lets_an_escape_sequence_through(text: str, cuts: list[int]) -> None:
    assert not set("\x1b\x07\x9b\r").intersection(printed(text, cuts))


def test_json_on_a_terminal_says_the_same_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {"text": "ä\x9b31m\u202e\x7f"}
    line = json.dumps(said, ensure_ascii=False).replace(",", ",\r").encode() + b"\n"
    seen, terminal = os.openpty()
    with open(seen, "rb", buffering=0) as reader, open(terminal, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        Output().json(line)
        shown = reader.read(1000).decode()
    assert json.loads(shown) == said
    assert "ä" in shown
    assert not set("\x9b\u202e\x7f").intersection(shown)
