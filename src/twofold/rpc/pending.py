"""The requests that were sent to one peer and wait for its answers."""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from twofold.rpc.messages import RequestId

T = TypeVar("T")

GIVEN_UP: Final = 1024
"""How many requests that were given up are remembered, so that a late answer is recognised."""

_LONGEST_ID = 20  # digits of a number that we would use as an id


class Pending(Generic[T]):
    """A table of requests by their id; `T` is what the sender remembers of one.

    "1" and 1 are the same id, because some peers change the type of an id when they answer. Where
    both are pending, the exact one is found.
    """

    __slots__ = ("_given_up", "_requests")

    def __init__(self) -> None:
        self._requests: dict[RequestId, T] = {}
        self._given_up: dict[RequestId, None] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[T]:
        """What is remembered of the requests that wait, in the order in which they were sent."""
        return iter(list(self._requests.values()))

    def add(self, identity: RequestId, request: T) -> None:
        """A request was sent."""
        self._requests[identity] = request

    def get(self, identity: RequestId | None) -> T | None:
        """A request that waits; None if there is none."""
        key = find_id(self._requests, identity)
        return None if key is None else self._requests[key]

    def take(self, identity: RequestId | None) -> T | None:
        """Remove and return the request that an answer is for; None if there is none."""
        key = identity if identity in self._requests else find_id(self._requests, identity)
        return None if key is None else self._requests.pop(key)

    def give_up(self, identity: RequestId) -> T | None:
        """Remove and return a request whose answer, if it comes, is to be ignored."""
        request = self._requests.pop(identity, None)
        if request is not None:
            self._given_up[identity] = None
            if len(self._given_up) > GIVEN_UP:
                del self._given_up[next(iter(self._given_up))]
        return request

    def is_late(self, identity: RequestId | None) -> bool:
        """Whether an answer is for a request that was given up; true once for each."""
        key = find_id(self._given_up, identity)
        if key is None:
            return False
        del self._given_up[key]
        return True

    def clear(self) -> list[T]:
        """Remove and return all requests that wait."""
        requests = list(self._requests.values())
        self._requests.clear()
        return requests


def find_id(table: dict[RequestId, T], identity: RequestId | None) -> RequestId | None:
    """The id under which a table has a request: the given one, else that of the other type."""
    if identity is None or identity in table:
        return identity
    if isinstance(identity, int):
        other: RequestId = str(identity)
    elif identity.isdecimal() and len(identity) < _LONGEST_ID:
        other = int(identity)
    else:
        return None
    return other if other in table else None
