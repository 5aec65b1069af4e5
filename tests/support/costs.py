"""What work costs, counted: it depends on nothing but the code."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def functions_called(work: Callable[[], object]) -> int:
    """How many functions the work calls."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
