"""The engines of journals, as a fixture: every test that uses it runs once for each."""

from collections.abc import Callable
from itertools import count

import pytest

from tests.support.journals import ENGINES, Place

Places = Callable[[], Place]


@pytest.fixture(scope="module", params=sorted(ENGINES))
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """`places()` is where a new journal can be kept, another one at each call."""
    base, numbers = tmp_path_factory.mktemp("journals"), count()

    def place() -> Place:
        directory = base / str(next(numbers))
        directory.mkdir(mode=0o700)
        return ENGINES[request.param](directory)

    return place


@pytest.fixture
def place(places: Places) -> Place:
    """Where a new journal can be kept."""
    return places()
