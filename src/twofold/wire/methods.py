"""What a method of the protocol is: who answers it, and what goes in and out."""

from typing import Any, Literal, NamedTuple, TypeAlias

Side: TypeAlias = Literal["agent", "client", "both"]


class Method(NamedTuple):
    """One row of a version's method table."""

    side: Side
    """Who handles it."""
    params: Any
    """The type of its params."""
    result: Any
    """The type of its result; None for a notification."""
