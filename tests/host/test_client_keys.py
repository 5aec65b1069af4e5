"""The keys of the terminal client that the settings can change."""

from pathlib import Path

import pytest

from twofold.host.client_keys import ACTIONS, DEFAULTS, BadKey, Bindings
from twofold.host.settings import SettingsError, read_file


def test_without_changes_every_action_has_its_key() -> None:
    assert {DEFAULTS.shown(action) for action in ACTIONS} == {
        *("Enter", "Ctrl-J", "Ctrl-R", "Ctrl-X Ctrl-E"),
        *("Ctrl-V", "Shift-Tab", "Ctrl-T", "Ctrl-O"),
    }
    assert DEFAULTS.unused == []


def test_an_action_gets_another_key_or_several() -> None:
    bindings = Bindings({"send": ["c-s", "F5"], "newline": "enter", "edit": "c-e"})
    assert bindings.shown("send") == "Ctrl-S, F5"
    assert bindings.first("send") == "Ctrl-S"
    assert bindings.keys("newline") == ("c-m",)
    assert bindings.action("f5") == "send"
    assert bindings.action("c-j") is None
    assert bindings.unused == ["c-j", "c-x c-e"]


def test_two_actions_can_swap_their_keys() -> None:
    bindings = Bindings({"unfold": "c-t", "next-session": "c-o"})
    assert (bindings.action("c-t"), bindings.action("c-o")) == ("unfold", "next-session")


def test_the_key_that_an_action_has_anyway_can_be_written() -> None:
    assert Bindings({"edit": "c-x c-e", "send": "enter"}).unused == []


WRONG: dict[str, tuple[str, str]] = {
    "sent = 'c-s'": ("sent", "there is no action 'sent'. Did you mean 'send'?"),
    "fly = 'c-s'": ("fly", "There are send, newline"),
    "send = 'ctrl-s'": ("send", "'ctrl-s' is no key that send can have: c-a to c-z"),
    "send = 'y'": ("send", "'y' is no key"),
    "unfold = []": ("unfold", "unfold needs a key"),
    "unfold = 'c-c'": ("unfold", "Ctrl-C cancels and leaves, and does nothing else."),
    "unfold = 'c-y'": ("unfold", "Ctrl-Y opens a question"),
    "unfold = 'c-i'": ("unfold", "Tab"),
    "unfold = 'enter'": ("unfold", "Enter can only be the key of send or newline."),
    "unfold = 'c-t'": ("unfold", "Ctrl-T is the key of next-session already"),
    "unfold = 'c-x'": ("unfold", "Ctrl-X is the key of edit already"),
    "newline = 'enter'": ("newline", "Enter is the key of send already"),
    "search = 'c-s'\nunfold = 'c-s'": ("unfold", "Ctrl-S is the key of search already"),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.items())
def test_what_cannot_be_a_key_is_an_error_with_its_line(
    text: str, expected: tuple[str, str]
) -> None:
    action, reason = expected
    with pytest.raises(SettingsError) as caught:
        read_file(f"theme = 'dark'\n[keys]\n{text}\n", Path("settings.toml"))
    assert reason in caught.value.reason
    assert caught.value.line == 3 + text.count("\n")
    assert action in text


def test_an_error_has_the_action_that_was_written() -> None:
    with pytest.raises(BadKey) as caught:
        Bindings({"nothing": "c-s"})
    assert caught.value.action == "nothing"
