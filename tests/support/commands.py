"""The command `twofold` in tests: in this process, or as a process of its own."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from tests.support.raw_process import raw_agent
from twofold.cli.commands import commands

Json = dict[str, Any]

PATIENCE = 30.0
"""More seconds than any run here should take."""
TWOFOLD = [sys.executable, "-m", "twofold"]
DEMO = ["--", *TWOFOLD, "agent", "--speed", "0"]


def twofold(*arguments: str, **options: Any) -> Result:
    """The result of a command in this process."""
    return CliRunner().invoke(commands, arguments, catch_exceptions=False, **options)


def called(*arguments: str, **options: Any) -> Result:
    """The result of `twofold run` in this process."""
    return twofold("run", *arguments, **options)


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The result of `twofold run` as a process."""
    command = [*TWOFOLD, "run", *arguments]
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, **options}
    done = subprocess.run(command, encoding="utf-8", timeout=PATIENCE, check=False, **options)
    assert "Traceback" not in (done.stderr or "")
    return done


def lines(text: str) -> list[Json]:
    return [json.loads(line) for line in text.splitlines()]


def filtered(*arguments: str, data: str | None = None) -> str:
    """The output of a filter that succeeds, for a tape or for `data`."""
    result = twofold(*arguments, input=data)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


async def until(condition: Callable[[], bool]) -> None:
    """Poll a file, whose changes are not reported."""
    for _ in range(int(PATIENCE / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not happen")


# ---- agents ------------------------------------------------------------------------------------

RUN_MAKE = {"title": "Run make", "kind": "execute"}
ASKS = """
def prompt(request):
    kinds = ["allow_once", "reject_once"][START:]
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    params = {"sessionId": "s", "toolCall": CALL, "options": options}
    send({"id": 9, "method": "session/request_permission", "params": params})
    text(read()["result"]["outcome"]["optionId"])
    answer(request, {"stopReason": STOP})
"""


def asks(start: int = 0, stop: str = "end_turn", call: Json = RUN_MAKE) -> list[str]:
    """An agent that asks whether to do `call`, with the options from `start` on."""
    script = ASKS.replace("START", str(start)).replace("STOP", repr(stop))
    return raw_agent(script.replace("CALL", repr({"toolCallId": "t", **call})))
