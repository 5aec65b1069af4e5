"""A URL where a command stands: `twofold.connect("wss://…")`."""

import pytest

import twofold
from twofold import BadUrl, LocalError


def test_a_text_that_is_no_url_is_refused_as_before() -> None:
    with pytest.raises(TypeError, match=r"A command is a list of words, such as \['claude'\]"):
        twofold.connect("claude")


def test_a_url_is_checked_before_anything_is_tried() -> None:
    with pytest.raises(BadUrl, match="could be read on the way"):
        twofold.connect("ws://example.com/acp", token="sesame")


def test_a_token_without_a_url_is_refused() -> None:
    with pytest.raises(LocalError, match="A token is for an agent at a URL"):
        twofold.connect(["some-agent"], token="sesame")
