"""Who types at random moments answers nothing by accident, and loses nothing."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.support.random_typing import Outcome, run

SEEDS = range(10)


def test_random_typing_answers_no_question_and_loses_no_text() -> None:
    with ThreadPoolExecutor(5) as pool:
        outcomes: list[Outcome] = list(pool.map(partial(run, actions=6), SEEDS))
    assert [(out.seed, out.violations) for out in outcomes if out.violations] == []
    complete = [out for out in outcomes if not out.stalled]
    assert complete
    assert sum(out.typed_at_question for out in complete) > 0
