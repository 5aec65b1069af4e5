"""The keys of the terminal client that the settings can change, and what each of them does.

Nothing here reads a key. Keys that answer questions, choose in menus, cancel or leave are not in
the table: they do the same everywhere, so that nobody allows something by accident.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, get_args

Action: TypeAlias = Literal[
    "send",
    "newline",
    "search",
    "edit",
    "paste-image",
    "next-mode",
    "next-session",
    "unfold",
]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)

ENTER: Final = "c-m"
_DEFAULTS: Final[dict[Action, tuple[str, ...]]] = {
    "send": (ENTER,),
    "newline": ("c-j",),
    "search": ("c-r",),
    "edit": ("c-x c-e",),
    "paste-image": ("c-v",),
    "next-mode": ("s-tab",),
    "next-session": ("c-t",),
    "unfold": ("c-o",),
}
_FIXED: Final = {
    "c-c": "cancels and leaves",
    "c-d": "leaves",
    "c-h": "is Backspace",
    "c-i": "is Tab, which opens a question",
    "c-m": "is Enter; write enter",
    "c-y": "opens a question",
    "c-z": "stops the client",
}
_NAME: Final = re.compile(r"c-[a-z]|f[1-9]|f1[0-2]|s-tab|enter")
_NAMES: Final = "c-a to c-z for Ctrl and a letter, f1 to f12, s-tab for Shift-Tab, or enter"


class BadKey(ValueError):
    """A key or an action that cannot be used.

    Attributes:
        action: The action, as it was written.
        reason: What is wrong, and what is right.
    """

    def __init__(self, action: str, reason: str) -> None:
        super().__init__(reason)
        self.action = action
        self.reason = reason


class Bindings:
    """Which key does what: the defaults, with changes.

    Args:
        changes: The keys of some actions, one or several of each.

    Raises:
        BadKey: An action or a key does not exist, or a key does two things or must not be changed.
    """

    def __init__(self, changes: Mapping[str, str | Sequence[str]] | None = None) -> None:
        self._keys = dict(_DEFAULTS)
        for name, given in (changes or {}).items():
            action = _action(name)
            words = [given] if isinstance(given, str) else given
            if not words:
                raise BadKey(name, f"{name} needs a key: {_NAMES}.")
            self._keys[action] = tuple([_key(action, word) for word in words])
        self._check_doubles(changes or {})
        self._actions = {key: action for action, keys in self._keys.items() for key in keys}

    def _check_doubles(self, changes: Mapping[str, object]) -> None:
        """The error is reported for an action that was changed."""
        taken: dict[str, Action] = {}
        # what was not changed comes first, so it is never the one to be reported
        for action in sorted(ACTIONS, key=lambda each: each in changes):
            for key in dict.fromkeys(each.split()[0] for each in self._keys[action]):
                if key in taken:
                    reason = f"{shown_key(key)} is the key of {taken[key]} already: choose another,"
                    raise BadKey(action, f"{reason} or give {taken[key]} another one, too.")
                taken[key] = action

    def keys(self, action: Action) -> tuple[str, ...]:
        """The keys of an action; one of two parts (`c-x c-e`) is pressed one after the other."""
        return self._keys[action]

    def action(self, key: str) -> Action | None:
        """What a key does; None if it is not in the table."""
        return self._actions.get(key)

    def shown(self, action: Action) -> str:
        """The keys of an action as they are shown: `Ctrl-X Ctrl-E`."""
        return ", ".join([shown_key(key) for key in self._keys[action]])

    def first(self, action: Action) -> str:
        """The first key of an action, as it is shown."""
        return shown_key(self._keys[action][0])

    @property
    def unused(self) -> list[str]:
        """Keys that do something by default, and nothing now."""
        every = [key for keys in _DEFAULTS.values() for key in keys]
        return [key for key in every if key not in self._actions]


def shown_key(key: str) -> str:
    """The name of a key for people."""
    words = {ENTER: "Enter", "s-tab": "Shift-Tab"}
    return " ".join([words.get(each, each.replace("c-", "Ctrl-").title()) for each in key.split()])


def _action(name: str) -> Action:
    for action in ACTIONS:
        if action == name:
            return action
    close = difflib.get_close_matches(name, ACTIONS, 1)
    right = f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(ACTIONS)}."
    raise BadKey(name, f"there is no action {name!r}. {right}")


def _key(action: Action, word: str) -> str:
    key = word.strip().lower()
    if key in _DEFAULTS[action] and key != ENTER:
        return key
    if not _NAME.fullmatch(key):
        raise BadKey(action, f"{word!r} is no key that {action} can have: {_NAMES}.")
    if key in _FIXED:
        raise BadKey(action, f"{shown_key(key)} {_FIXED[key]}, and does nothing else.")
    if key == "enter" and action not in ("send", "newline"):
        raise BadKey(action, "Enter can only be the key of send or newline.")
    return ENTER if key == "enter" else key


DEFAULTS: Final = Bindings()
