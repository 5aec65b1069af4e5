"""`twofold bridge`: an agent of either version for a client of either version.

The bridge is itself an agent on standard input and output. What it has to say to people goes to
standard error, beside what the agent itself says there.
"""

import asyncio
import sys
from pathlib import Path
from typing import IO, Any, cast

import click

from twofold.bridge import Bridge, LossLog
from twofold.bridge.bridge import Offered
from twofold.bridge.handshake import Wanted
from twofold.errors import LocalError
from twofold.runtime.errors import Problem
from twofold.runtime.process import Process, ProcessEnded
from twofold.runtime.stdio import Stdio
from twofold.text.safe import one_line
from twofold.wire import codec

NOT_STARTED = 127
SIGNALLED = 128

_VERSION = click.Choice(["auto", "1", "2"])


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--client", default="auto", type=_VERSION, help="The version of the client.")
@click.option("--agent", default="auto", type=_VERSION, help="The version of the agent.")
@click.option("--strict", is_flag=True, help="Pass nothing on that would lose something.")
@click.option("--losses", type=click.Path(path_type=Path), help="Write every loss to this file.")
@click.option(
    "--offer",
    default="",
    help="What to offer to an agent of version 1: fs, terminal, or both with a comma.",
)
@click.argument("command", nargs=-1, required=True)
def bridge(
    client: str, agent: str, strict: bool, losses: Path | None, offer: str, command: tuple[str, ...]
) -> None:
    """Be an agent on standard input and output, with COMMAND as the agent behind.

    Both sides may speak either version of the protocol. If they speak the same, everything
    passes through; if not, it is translated, and what is lost is told on standard error, each
    kind once. Ends with the agent's exit status.
    """
    sys.exit(asyncio.run(_run(client, agent, strict, losses, _offered(offer), list(command))))


async def _run(
    client: str,
    agent: str,
    strict: bool,
    losses: Path | None,
    offer: frozenset[Offered],
    command: list[str],
) -> int:
    file = losses.open("ab") if losses is not None else None
    try:
        return await _bridge(_wanted(client), _wanted(agent), strict, file, offer, command)
    except LocalError as error:
        _say(str(error))
        return NOT_STARTED
    finally:
        if file is not None:
            file.close()


async def _bridge(
    client: Wanted,
    agent: Wanted,
    strict: bool,
    file: IO[bytes] | None,
    offer: frozenset[Offered],
    command: list[str],
) -> int:
    async def start() -> Process:
        return await Process.spawn(command, on_stderr=_pass_on)

    def every(what: str, path: str, reason: str) -> None:
        if file is not None:
            file.write(codec.encode({"message": what, "path": path, "reason": reason}) + b"\n")
            file.flush()

    log = LossLog(strict=strict, first=_tell_loss, every=every)
    bridge = Bridge(
        await Stdio.open(),
        start,
        client_version=client,
        agent_version=agent,
        offer=offer,
        losses=log,
        on_problem=_tell_problem,
    )
    await bridge.run()
    return _status(bridge.agent_error)


def _status(error: Exception | None) -> int:
    if not isinstance(error, ProcessEnded):
        return 0 if error is None else 1
    return SIGNALLED if error.exit_code is None else error.exit_code


def _wanted(version: str) -> Wanted:
    return cast("Wanted", version if version == "auto" else int(version))


def _offered(text: str) -> frozenset[Offered]:
    words = {word.strip() for word in text.split(",") if word.strip()}
    unknown = words - {"fs", "terminal"}
    if unknown:
        raise click.BadParameter(
            f"{', '.join(sorted(unknown))} cannot be offered; fs and terminal can.",
            param_hint="--offer",
        )
    return cast("frozenset[Offered]", frozenset(words))


def _tell_loss(what: str, path: str, reason: str) -> None:
    _say(f"lost: {what}: {path}: {reason}" if path else f"lost: {what}: {reason}")


def _tell_problem(problem: Problem) -> None:
    _say(str(problem))


def _pass_on(data: bytes) -> None:
    _write(data)


def _say(text: str) -> None:
    _write(f"twofold bridge: {one_line(text)}\n".encode())


def _write(data: Any) -> None:
    try:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()
    except (OSError, ValueError):
        pass  # nobody listens
