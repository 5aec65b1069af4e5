"""`twofold run`: talk to an agent at the terminal, or have one turn with it for scripts.

Here are the options, and which of the two they ask for: `--prompt` is `scripted`, without it the
interactive client of `twofold.term` is. What makes no sense together is said before anything is
started.
"""

import asyncio
import os
import sys
from math import isnan
from pathlib import Path
from typing import IO, Any, Literal, cast

import click

from twofold.cli.demo_agent import DEMO
from twofold.cli.files import opened
from twofold.cli.interrupts import raise_on_interrupt
from twofold.cli.options import line_limit, offered, variable_names
from twofold.cli.printing import PRINTERS, Form, Screen
from twofold.cli.scripted import Scripted, one_turn
from twofold.client.launch import Launch, RunOptions
from twofold.convert.versions import Version
from twofold.errors import TwofoldError
from twofold.policy import Policy, Rule, parse_rule, read_policy
from twofold.term import exit_status

WHICHEVER = ""
"""`--resume` without an id; no session has this one."""

_ONLY_SCRIPTED = {
    "form": "--format is for --prompt: at the terminal the client draws.",
    "timeout": "--timeout is for --prompt: a conversation ends when you end it.",
    "login": "--login is for --prompt: at the terminal the client asks how to log in.",
}


# ---- the options -----------------------------------------------------------------------------


def _seconds(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and (isnan(value) or value <= 0):
        raise click.BadParameter("it is a number of seconds, more than 0.")
    return value


# what follows the command is the command's, also what looks like an option of ours
@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--prompt", help="Have one turn, for scripts: what to say; - reads standard input.")
@click.option("--start", metavar="TEXT", help="Say this first, then go on at the prompt.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(PRINTERS)),
    help="With --prompt. text (the default): what the agent says, as it comes. quiet: only its last"
    " message. updates: every update in the words of version 2. json: the messages of both sides"
    " as they were.",
)
@click.option("--allow", multiple=True, metavar="RULE", help="Allow, e.g. read or command:make.")
@click.option("--reject", multiple=True, metavar="RULE", help="Reject, whatever allows it.")
@click.option(
    "--ask",
    multiple=True,
    metavar="RULE",
    help="Ask, whatever allows it; with --prompt nobody is there to ask, and it is rejected.",
)
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="More rules, from a JSON file.",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The directory to work in; the agent is started there.",
)
@click.option("--version", type=click.Choice(["1", "2"]), help="Speak only this version.")
@click.option(
    "--offer",
    default="",
    callback=offered,
    help="What to do for an agent of version 1: fs, terminal, or both with a comma.",
)
@click.option(
    "--pass-env",
    multiple=True,
    metavar="NAME",
    callback=variable_names,
    help="With --offer terminal: a variable of this environment that commands get, too.",
)
@click.option(
    "--resume",
    is_flag=False,
    flag_value=WHICHEVER,
    metavar="[ID]",
    help="Go on with this session; without ID, with one of the directory that you choose (with"
    " --prompt: the one that was updated last). A command after it needs -- before it.",
)
@click.option("--login", metavar="METHOD", help="With --prompt: log in like this, if need be.")
@click.option(
    "--timeout",
    type=float,
    callback=_seconds,
    help="With --prompt: give up after so many seconds.",
)
@click.option("--no-color", is_flag=True, help="No colors; nor if NO_COLOR is set.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the whole conversation to this file.",
)
@line_limit
@click.argument("command", nargs=-1)
def run(prompt: str | None, record: Path | None, command: tuple[str, ...], **options: Any) -> None:
    """Talk to an agent.

    COMMAND starts the agent; without COMMAND the demo agent answers. With --prompt, send one prompt
    and print the reply, for scripts. Exit status: 0 the turn or the conversation ended, 1 error, 2
    wrong usage, 3 the agent refused, 4 a limit was reached, 5 cancelled, 6 a permission was denied,
    7 the agent died or could not be started, 124 timeout.
    """
    _check(prompt, options)
    screen = Screen()
    words = list(command) or DEMO
    try:
        rules = _policy(options["policy"], options["allow"], options["reject"], options["ask"])
        said = _prompt(prompt) if prompt is not None else None
        with opened(record, "wb", "--record") as file:
            if said is not None:
                scripted = _scripted(words, said, rules, file, options)
                raise_on_interrupt()
                code = asyncio.run(one_turn(scripted, screen))
            else:
                code = _interactive(_wanted(words, rules, file, options), screen)
    except (TwofoldError, OSError) as error:
        screen.tell(str(error))
        code = exit_status.of_error(error)
    except KeyboardInterrupt:  # while standard input was read, or where signals are not handled
        code = exit_status.CANCELLED
    sys.exit(code)


def _check(prompt: str | None, options: dict[str, Any]) -> None:
    """Refuse options that do not go together, and to draw where nobody sees it."""
    if prompt is not None:
        if options["start"] is not None:
            raise click.UsageError("--start is for the terminal: --prompt says all that is said.")
        return
    for option, reason in _ONLY_SCRIPTED.items():
        if options[option] is not None:
            raise click.UsageError(reason)
    if not at_terminal():
        raise click.UsageError(
            "Talking to an agent takes a terminal, for standard input and output. In scripts, give"
            " what to say with --prompt TEXT."
        )


def at_terminal() -> bool:
    """Whether someone sits there: both streams are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


# ---- what was asked for ----------------------------------------------------------------------


def _scripted(
    command: list[str],
    prompt: str,
    policy: Policy,
    record: IO[bytes] | None,
    options: dict[str, Any],
) -> Scripted:
    return Scripted(
        command=command,
        prompt=prompt,
        form=cast("Form", options["form"] or "text"),
        policy=policy,
        cwd=options["cwd"],
        version=_version(options["version"]),
        resume=options["resume"] or None,
        latest=options["resume"] == WHICHEVER,
        login=options["login"],
        timeout=options["timeout"],
        offer=options["offer"],
        pass_env=options["pass_env"],
        line_limit=options["line_limit"],
        record=record,
    )


def _wanted(
    command: list[str], policy: Policy, record: IO[bytes] | None, options: dict[str, Any]
) -> RunOptions:
    return RunOptions(
        command=command,
        policy=policy,
        cwd=options["cwd"],
        version=_version(options["version"]),
        resume=options["resume"] or None,
        choose=options["resume"] == WHICHEVER,
        start=_start(options["start"]),
        color=not options["no_color"] and not os.environ.get("NO_COLOR"),
        offer=options["offer"],
        pass_env=options["pass_env"],
        line_limit=options["line_limit"],
        record=record,
    )


def _version(version: str | None) -> Version | None:
    return cast("Version | None", int(version) if version else None)


def _policy(
    file: Path | None, allow: tuple[str, ...], reject: tuple[str, ...], ask: tuple[str, ...]
) -> Policy:
    """Those that reject go before all; of the others the first counts, so `ask` before `allow`."""
    try:
        written = read_policy(file.read_bytes(), str(file)) if file is not None else Policy()
    except OSError as error:
        reason = f"{file} cannot be read: {error.strerror}."
        raise click.BadParameter(reason, param_hint="'--policy'") from None
    rules = [*_rules(reject, "reject"), *_rules(ask, "ask"), *_rules(allow, "allow")]
    return Policy([*rules, *written.rules], written.otherwise)


def _rules(words: tuple[str, ...], decision: Literal["allow", "reject", "ask"]) -> list[Rule]:
    return [parse_rule(word, decision) for word in words]


def _prompt(text: str) -> str:
    if text != "-":
        return _said(text.encode(errors="surrogateescape"), "--prompt", "it")
    data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    return _said(data, "--prompt", "standard input")


def _start(text: str | None) -> str | None:
    if text is None:
        return None
    return _said(text.encode(errors="surrogateescape"), "--start", "it")


def _said(data: bytes, option: str, where: str) -> str:
    try:
        text = data.decode().rstrip("\n")
    except UnicodeError:
        raise click.BadParameter(f"{where} is not UTF-8.", param_hint=f"'{option}'") from None
    if not text.strip():
        raise click.BadParameter(f"{where} is empty.", param_hint=f"'{option}'")
    return text


# ---- at the terminal -------------------------------------------------------------------------


def _interactive(wanted: RunOptions, screen: Screen) -> int:
    from twofold.term.client import interact

    connecting = Launch(
        wanted.command,
        cwd=wanted.cwd,
        version=wanted.version,
        policy=wanted.policy,
        offer=wanted.offer,
        pass_env=wanted.pass_env,
        line_limit=wanted.line_limit,
        record=wanted.record,
    )
    raise_on_interrupt()
    code = asyncio.run(interact(wanted, connecting))
    fault = connecting.fault
    if fault is not None and wanted.record is not None:
        screen.tell(f"{wanted.record.name} could not be written to the end: {fault.strerror}.")
        code = code or exit_status.FAILED
    return code
