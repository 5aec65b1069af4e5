"""The part of `scripts.mutants` that runs inside pytest (`-p scripts.mutants_pytest`).

A failing example of hypothesis is not made smaller: that a test fails is all a mutant needs. With
TWOFOLD_RECORD set to a folder, each test's outcomes and the functions of Twofold that it calls are
written there, one line of JSON for each test.
"""

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import hypothesis
import pytest

from scripts.mutants import ROOMS

ROOT = Path.cwd()
SOURCE = f"{ROOT}/src/twofold/"


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.register_profile(
        "mutants",
        hypothesis.settings.get_profile("ci"),
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    )
    hypothesis.settings.load_profile("mutants")
    if folder := os.environ.get("TWOFOLD_RECORD"):
        config.pluginmanager.register(Recorder(Path(folder)))


class Recorder:
    """Writes what each test calls."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / f"{os.getpid()}.jsonl"
        self._codes: set[CodeType] = set()
        self._outcomes: set[str] = set()
        self._seconds = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if _is_unit_test(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._codes, self._outcomes, self._seconds = set(), set(), 0.0
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            calls = sorted(
                f"{code.co_filename.removeprefix(f'{ROOT}/')}:{code.co_firstlineno}"
                for code in self._codes
            )
            line = [item.nodeid, round(self._seconds, 3), sorted(self._outcomes), calls]
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._outcomes.add(report.outcome)
        self._seconds += report.duration

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            self._codes.add(frame.f_code)


def _is_unit_test(item: pytest.Item) -> bool:
    if item.get_closest_marker("processes"):
        return item.path.parent.name in ROOMS
    return not item.get_closest_marker("peers")
