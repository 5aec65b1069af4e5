"""What is left of a journal whose process is killed at any moment.

`make soak-journal` does the same a thousand times, or as often as one likes.
"""

import pytest

from tests.support.journals import ENGINES
from tests.support.killed_writers import ROUNDS, body, faults, runs
from twofold.journal.journal import Event

KILLS = 200


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_process_that_is_killed_leaves_no_gap_and_all_that_was_committed(engine: str) -> None:
    found = list(runs(range(KILLS // ROUNDS), jobs=2, engine=engine))
    assert [(out.seed, each) for out in found for each in out.violations] == []
    assert sum(out.kills for out in found) == KILLS
    assert sum(out.committed for out in found) > KILLS
    assert sum(out.found for out in found) > KILLS


def test_the_comparison_notices_gaps_and_torn_events() -> None:
    fine = [Event(seq, 0.0, "update", body(1, 3, seq, 9)) for seq in (1, 2, 3)]
    assert list(faults(fine)) == []
    torn = fine[1]._replace(body=fine[1].body.replace(b"xx", b"x"))
    assert list(faults([fine[0], torn])) == ["event 2 is torn"]
    assert list(faults([fine[0], fine[2]])) == ["event 3 follows 1, and has 3"]
    back = fine[0]._replace(epoch=1)
    assert list(faults([back, fine[1]])) == ["event 2 has epoch 0 after 1"]
