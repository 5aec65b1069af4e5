"""A receiver that records the calls of a transport, and lets a test wait for them."""

import asyncio
from collections.abc import Callable

from tests.support.real_time import PATIENCE


class Recorder:
    """Records the bytes (`data`), the argument of `ended` (`errors`) and other calls (`calls`)."""

    def __init__(self, on_data: Callable[[], None] = lambda: None) -> None:
        self.data = bytearray()
        self.pieces = 0
        self.largest = 0
        self.errors: list[Exception | None] = []
        self.calls: list[str] = []
        self._on_data = on_data
        self._changed = asyncio.Event()

    def received(self, data: bytes) -> None:
        assert not self.errors, "data after the end"
        assert data, "an empty piece"
        self.data += data
        self.pieces += 1
        self.largest = max(self.largest, len(data))
        self._on_data()
        self._changed.set()

    def ended(self, error: Exception | None) -> None:
        self.errors.append(error)
        self._record("ended")

    def pause_writing(self) -> None:
        self._record("pause_writing")

    def resume_writing(self) -> None:
        self._record("resume_writing")

    def _record(self, what: str) -> None:
        self.calls.append(what)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds after a call."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def end(self) -> Exception | None:
        """The error it ended with."""
        await self.until(lambda: bool(self.errors))
        [error] = self.errors
        return error
