"""The table of requests that wait for an answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.rpc.pending import GIVEN_UP, Pending

ids = st.integers(-(2**40), 2**40) | st.text(max_size=12)


@given(st.dictionaries(ids, st.text(), max_size=8), st.randoms())
def test_every_answer_takes_its_own_request_once(requests: dict[Any, str], random: Any) -> None:
    pending: Pending[tuple[Any, str]] = Pending()
    for identity, value in requests.items():
        pending.add(identity, (identity, value))
    assert list(pending) == list(requests.items())
    order = list(requests)
    random.shuffle(order)
    for identity in order:
        assert pending.get(identity) == (identity, requests[identity])
        assert pending.take(identity) == (identity, requests[identity])
    assert len(pending) == 0


@pytest.mark.parametrize(("sent", "answered"), [(1, "1"), ("1", 1), ("17", 17), (0, "0")])
def test_an_id_may_come_back_as_another_type(sent: Any, answered: Any) -> None:
    pending: Pending[str] = Pending()
    pending.add(sent, "asked")
    assert pending.get(answered) == "asked"
    assert pending.take(answered) == "asked"
    assert pending.take(sent) is None


def test_the_exact_id_is_found_first() -> None:
    pending: Pending[str] = Pending()
    pending.add("1", "text")
    pending.add(1, "number")
    assert pending.take(1) == "number"
    assert pending.take(1) == "text"


@pytest.mark.parametrize("identity", [None, 2, "2", "one", "9" * 100, "-1", "\u0661x", ""])
def test_an_id_that_was_not_sent_finds_nothing(identity: Any) -> None:
    pending: Pending[str] = Pending()
    pending.add(1, "asked")
    assert pending.get(identity) is None
    assert pending.take(identity) is None
    assert not pending.is_late(identity)
    assert len(pending) == 1


def test_the_answer_to_a_request_that_was_given_up_is_late_once() -> None:
    pending: Pending[str] = Pending()
    pending.add(1, "asked")
    assert pending.give_up(1) == "asked"
    assert pending.give_up(1) is None
    assert pending.take(1) is None
    assert pending.is_late("1")
    assert not pending.is_late(1)


def test_only_so_many_requests_that_were_given_up_are_remembered() -> None:
    pending: Pending[int] = Pending()
    for number in range(GIVEN_UP + 1):
        pending.add(number, number)
        pending.give_up(number)
    assert not pending.is_late(0)
    assert pending.is_late(1)


def test_all_that_waits_can_be_settled_at_once() -> None:
    pending: Pending[str] = Pending()
    pending.add(1, "a")
    pending.add(2, "b")
    assert pending.clear() == ["a", "b"]
    assert pending.clear() == []
