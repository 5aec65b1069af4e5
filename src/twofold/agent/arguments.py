"""Checks of what an agent's author passes in: a wrong argument raises before anything is sent.

A wrong type raises TypeError, a wrong value raises `InvalidArgument`; the message names the
argument and what is allowed. Each check returns the value, so that it can stand where the value is
used.
"""

import inspect
import math
from collections.abc import Callable, Collection, Iterable
from os import PathLike, fspath
from typing import Any, TypeVar

from twofold.errors import LocalError
from twofold.wire import codec
from twofold.wire.base import UNSET, Fault, Malformed, UnsetType, known_values

T = TypeVar("T")


class InvalidArgument(LocalError, ValueError):
    """An argument has the right type and a value that is not allowed."""


def wrong_type(name: str, value: object, wanted: str) -> TypeError:
    """The error for an argument of the wrong type; the caller raises it."""
    return TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


# ---- plain values ----------------------------------------------------------------------------


def text(name: str, value: object) -> str:
    """A str."""
    if isinstance(value, str):
        return value
    raise wrong_type(name, value, "a str")


def text_or_none(name: str, value: object) -> str | None:
    """A str or None."""
    if value is None or isinstance(value, str):
        return value
    raise wrong_type(name, value, "a str or None")


def filled_text(name: str, value: object) -> str:
    """A str that is not empty."""
    if text(name, value):
        return str(value)
    raise InvalidArgument(f"{name} must not be empty")


def path(name: str, value: object) -> str:
    """A path as a str; the argument may be a str or a path object."""
    if isinstance(value, str | PathLike):
        found = fspath(value)
        if isinstance(found, str):
            return found
    raise wrong_type(name, value, "a str or a path object")


def integer(name: str, value: object, least: int | None = 0, most: int | None = None) -> int:
    """An int from `least` to `most`; True and False are not numbers here."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(name, value, "an int")
    if least is not None and value < least:
        raise InvalidArgument(f"{name} must be {least} or more, not {value}")
    if most is not None and value > most:
        raise InvalidArgument(f"{name} must be {most} or less, not {value}")
    return value


def seconds(name: str, value: object) -> float:
    """A number of seconds: an int or a float, 0 or more, not infinite."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong_type(name, value, "a number of seconds")
    if not 0 <= value < math.inf:
        raise InvalidArgument(f"{name} must be 0 or more, and finite, not {value}")
    return value


def enumerated(name: str, value: object, alias: Any) -> str:
    """One of the values of an open enumeration, or a value of one's own, which starts with `_`.

    ACP, Extensibility: names that start with an underscore are free for extensions; all others
    belong to the protocol, so that a misspelt one is an error.
    """
    known = known_values(alias)
    if text(name, value) in known or str(value).startswith("_"):
        return str(value)
    choices = ", ".join(known)
    raise InvalidArgument(f"{name} must be one of {choices}, or start with '_', not {value!r}")


def subset(name: str, values: object, allowed: tuple[T, ...]) -> frozenset[T]:
    """Some of the allowed values, without order."""
    choices = ", ".join(map(repr, allowed))
    if isinstance(values, str | bytes) or not isinstance(values, Collection):
        raise wrong_type(name, values, f"a list of some of {choices}")
    for value in values:
        if isinstance(value, bool) or value not in allowed:
            raise InvalidArgument(f"{name} must hold only {choices}, not {value!r}")
    return frozenset(values)


def items(name: str, values: object, of: str) -> list[Any]:
    """The items of a list or another iterable, but not the characters of a str."""
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise wrong_type(name, values, f"a list of {of}")
    return list(values)


def json_value(name: str, value: T) -> T:
    """Anything that JSON can express, or `UNSET`."""
    if value is UNSET:
        return value
    try:
        codec.encode(value)
    except Exception as error:
        raise TypeError(f"{name} must be a value that JSON can express: {error}") from error
    return value


# ---- structs of the protocol -----------------------------------------------------------------


def struct(name: str, value: T, shape: Any, wanted: str) -> T:
    """A struct of `twofold.wire` whose fields are as the protocol wants them.

    Structs do not check their fields when they are made, so that they are encoded and read again.
    """
    if not isinstance(value, shape):
        raise wrong_type(name, value, wanted)
    faults: list[Fault] = []
    try:
        codec.decode(codec.encode(value), shape, faults)
    except Malformed as error:
        raise _wrong_field(name, error.path, error.reason) from None
    except Exception as error:
        raise TypeError(f"{name} has a field that JSON cannot express: {error}") from error
    if faults:
        raise _wrong_field(name, faults[0].path, faults[0].reason)
    return value


def structs(name: str, values: object, shape: Any, wanted: str) -> list[Any]:
    """A list of such structs."""
    found = items(name, values, wanted)
    return [struct(f"{name}[{index}]", value, shape, wanted) for index, value in enumerate(found)]


def _wrong_field(name: str, path: str, reason: str) -> InvalidArgument:
    where = f"{name}.{path}" if path else name
    return InvalidArgument(f"{where} is not as the protocol wants it: {reason}")


# ---- functions -------------------------------------------------------------------------------


def callback(name: str, value: T) -> T:
    """Something that can be called."""
    if callable(value):
        return value
    raise wrong_type(name, value, "a function")


def async_handler(name: str, handler: T) -> T:
    """An `async def` function or method, a partial of one, or an object whose `__call__` is one.

    A plain function is refused when it is registered: its awaits would be missing, and the client
    would be the first to notice.
    """
    if _is_async(handler) or _is_async(getattr(type(handler), "__call__", None)):  # noqa: B004
        return handler
    found = getattr(handler, "__qualname__", None) or type(handler).__name__
    raise TypeError(f"{name} must be given an `async def` function, and {found} is not one")


def _is_async(function: object) -> bool:
    # a decorator that wraps a handler is as good as the handler
    return callable(function) and inspect.iscoroutinefunction(inspect.unwrap(function))


def unless_unset(check: Callable[[str, Any], T], name: str, value: Any) -> T | None | UnsetType:
    """`check(name, value)`, but a field may also be left out (`UNSET`) or cleared (`None`)."""
    return value if value is UNSET or value is None else check(name, value)
