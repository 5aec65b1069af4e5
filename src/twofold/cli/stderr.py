"""Standard error, for a program that must not wait for whoever reads it.

What is not taken is kept for a while, and left out when too much of it is kept: a client that
starts an agent and never looks at its standard error must not stop it. The descriptor stays as it
is, for the client may write to the same one.
"""

import asyncio
import os
import sys
from contextlib import suppress
from typing import Self

KEPT = 1024 * 1024
"""How many bytes may wait."""
LAST_WORDS = 1.0
"""How many seconds the end may take for them."""

_PIECE = 4096
"""A pipe that can be written to takes as much without blocking (PIPE_BUF of Linux)."""


class Stderr:
    """`async with Stderr() as stderr: stderr.write(b"…")`."""

    def __init__(self, fd: int = 2) -> None:
        self._fd = fd
        self._waiting = bytearray()
        self._empty = asyncio.Event()
        self._empty.set()
        self._patient = True
        """The event loop can tell when there is room; what it cannot watch always has some."""
        self._lost = fd == 2 and sys.__stderr__ is None  # the number may be another's by now

    def write(self, data: bytes) -> None:
        """Write, without waiting."""
        if self._lost or len(self._waiting) + len(data) > KEPT:
            return
        self._waiting += data
        if not self._empty.is_set():
            return
        self._empty.clear()
        try:
            asyncio.get_running_loop().add_writer(self._fd, self._go_on)
        except (OSError, NotImplementedError):
            self._patient = False
            self._write_all()

    def _go_on(self) -> None:
        self._write_piece()
        if not self._waiting:
            asyncio.get_running_loop().remove_writer(self._fd)
            self._empty.set()

    def _write_all(self) -> None:
        while self._waiting:
            self._write_piece()
        self._empty.set()

    def _write_piece(self) -> None:
        try:
            del self._waiting[: os.write(self._fd, self._waiting[:_PIECE])]
        except BlockingIOError:  # others may have made it so
            if not self._patient:
                self._waiting.clear()
        except OSError:  # nobody listens any more
            self._lost = True
            self._waiting.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._empty.wait()
        self._lost = True
        if not self._empty.is_set():
            asyncio.get_running_loop().remove_writer(self._fd)
