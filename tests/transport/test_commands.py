"""Commands that are started: how children are ended."""

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress

import pytest

from tests.support.real_time import in_real_time
from twofold.transport.commands import end_child


async def start(code: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )


@in_real_time
async def test_a_child_that_has_just_ended_keeps_its_exit_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "asyncio")
    process = await start("raise SystemExit(3)")
    # it has ended, and the event loop has had no time to note it; waitid leaves the status there
    with suppress(ChildProcessError):  # a watcher in a thread was faster
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    end_child(process)
    assert await process.wait() == 3
    assert caplog.records == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@in_real_time
async def test_a_child_that_runs_is_ended(number: signal.Signals) -> None:
    process = await start("print(flush=True); import time; time.sleep(60)")
    assert process.stdout is not None
    await process.stdout.readline()
    end_child(process, number)
    assert await process.wait() == -number
    end_child(process, number)
