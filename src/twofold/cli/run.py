"""`twofold run`: talk to an agent at the terminal, or send it one prompt from a script.

This module reads the options and checks that they go together, before anything is started. With
`--prompt`, `one_turn` does the rest; without it, the interactive client of `twofold.term` does.
Both, and all that they need, are imported when the command runs, so that `--help` is quick.
"""

import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

import click

from twofold.cli.completers import complete_command, complete_session
from twofold.cli.interrupts import raise_on_interrupt
from twofold.cli.options import (
    AgentCommand,
    line_limit,
    parse_offer,
    pass_env,
    seconds,
    token_file,
)
from twofold.cli.output import Output, not_written, opened
from twofold.cli.rules import policy_of, rules
from twofold.errors import TwofoldError

if TYPE_CHECKING:
    from twofold.cli.one_turn import TurnOptions
    from twofold.client.launch import Launch
    from twofold.convert.versions import Version
    from twofold.host.agent_choice import ChosenAgent
    from twofold.host.settings import Settings
    from twofold.policy import Policy
    from twofold.term.run_options import RunOptions
    from twofold.transport.process import OnStderr

FORMATS: Final = ("text", "quiet", "updates", "json")
"""The values of `--format`: a test compares them with `formats.PRINTERS`."""
_NO_ID = ""
"""`--resume` without an id; no session has this one."""

_NEED_PROMPT = {
    "form": "--format needs --prompt: at the terminal, the client draws the session.",
    "timeout": "--timeout needs --prompt: at the terminal, you end the conversation.",
    "login": "--login needs --prompt: at the terminal, the client asks how to log in.",
}


# ---- the options -----------------------------------------------------------------------------


# after COMMAND, words that look like our options belong to the command
@click.command(cls=AgentCommand, context_settings={"allow_interspersed_args": False})
@click.option("--prompt", help="Send this one prompt and exit, for scripts; - reads stdin.")
@click.option("--start", metavar="TEXT", help="Send this first, then go on at the prompt.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="With --prompt. text (the default): the agent's messages as they arrive. quiet: only its"
    " last message. updates: every update, as version 2. json: the messages of both sides,"
    " unchanged.",
)
@rules("Ask, whatever else allows it. With --prompt nobody can be asked, so this rejects.")
@click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    default=".",
    help="The directory to work in; the agent is started there.",
)
@click.option("--version", type=click.Choice(["1", "2"]), help="Speak only this version.")
@click.option(
    "--offer",
    default="",
    callback=parse_offer,
    help="What a version 1 agent may ask this client to do: fs, terminal, or fs,terminal.",
)
@pass_env
@click.option(
    "--resume",
    is_flag=False,
    flag_value=_NO_ID,
    shell_complete=complete_session,
    metavar="[ID]",
    help="Resume this session. Without ID, choose one of the directory's sessions; with --prompt,"
    " resume the one that was updated last. Put -- before a COMMAND that follows.",
)
@click.option(
    "--login", metavar="METHOD", help="With --prompt: how to log in if the agent wants a login."
)
@click.option(
    "--timeout",
    type=float,
    callback=seconds,
    help="With --prompt: give up after this many seconds.",
)
@click.option(
    "--verbose",
    is_flag=True,
    help="Show the agent's standard error, and what a conversion loses.",
)
@click.option("--no-color", is_flag=True, help="Use no colors; the same as NO_COLOR=1.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the whole conversation to this file.",
)
@line_limit
@token_file
@click.argument(
    "command",
    nargs=-1,
    metavar="[NAME | URL | -- COMMAND...]",
    shell_complete=complete_command,
)
def run(
    prompt: str | None,
    record: Path | None,
    command: tuple[str, ...],
    dashes: bool,
    **options: Any,
) -> None:
    """Talk to an agent.

    NAME is one of `twofold agents`, URL an agent that runs already, and COMMAND starts any other;
    without all of them, the default agent of the settings answers, or else the demo agent. With
    --prompt, send one prompt and print the reply, for scripts. Exit status: 0 the turn or the
    conversation ended, 1 error, 2 wrong usage, 3 the agent refused, 4 a limit was reached, 5
    cancelled, 6 a permission was denied, 7 the agent died or could not be started, 124 timeout.
    """
    _check(prompt, options)
    import asyncio

    from twofold.cli.one_turn import run_one_turn
    from twofold.host.agent_choice import choose_agent
    from twofold.host.settings import load
    from twofold.term import exit_status

    output = Output()
    try:
        settings = load(options["cwd"])
        for warning in settings.warnings:
            output.report(warning)
        token = options["token"]
        agent = choose_agent(command, dashes=dashes, settings=settings, token=token)
        policy = policy_of(settings, options)
        turn = _turn(prompt, options, output) if prompt is not None else None
        with opened(record, "wb", "--record") as file:
            wanted = _wanted(agent, settings, policy, file, options)
            if turn is not None:
                json = output if turn.output_format == "json" else None
                launch = _launch(wanted, json, turn.stderr)
                raise_on_interrupt()
                status = asyncio.run(run_one_turn(wanted, launch, turn, output))
            else:
                status = _interact(wanted, output)
    except (TwofoldError, OSError) as error:
        output.report(str(error))
        status = exit_status.of_error(error)
    except KeyboardInterrupt:  # while reading standard input, or before signals are handled
        status = exit_status.CANCELLED
    sys.exit(status)


def _check(prompt: str | None, options: dict[str, Any]) -> None:
    """Refuse options that do not go together, and to draw where there is no terminal."""
    if prompt is not None:
        if options["start"] is not None:
            raise click.UsageError("--start and --prompt do not go together.")
        return
    for option, reason in _NEED_PROMPT.items():
        if options[option] is not None:
            raise click.UsageError(reason)
    if not at_terminal():
        raise click.UsageError(
            "Standard input and output must be a terminal. In scripts, use --prompt TEXT."
        )


def at_terminal() -> bool:
    """True if standard input and standard output are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


# ---- from options to what is run ---------------------------------------------------------------


def _turn(prompt: str, options: dict[str, Any], output: Output) -> "TurnOptions":
    from twofold.cli.one_turn import TurnOptions
    from twofold.cli.unattended import StderrLines

    return TurnOptions(
        prompt=_prompt(prompt),
        output_format=options["form"] or "text",
        login=options["login"],
        timeout=options["timeout"],
        stderr=StderrLines(output) if options["verbose"] else None,
    )


def _wanted(
    agent: "ChosenAgent",
    settings: "Settings",
    policy: "Policy",
    record: IO[bytes] | None,
    options: dict[str, Any],
) -> "RunOptions":
    from twofold.client.session_setup import SessionSetup
    from twofold.term.run_options import RunOptions

    version = options["version"]
    return RunOptions(
        command=agent.command,
        endpoint=agent.endpoint,
        agent_words=agent.words,
        policy=policy,
        cwd=options["cwd"],
        env=agent.env,
        setup=SessionSetup(
            mcp_servers=tuple(settings.mcp_servers()),
            mode=agent.settings.mode,
            options=agent.settings.options,
        ),
        version=cast("Version | None", int(version) if version else None),
        resume=options["resume"] or None,
        choose=options["resume"] == _NO_ID,
        start=_start(options["start"]),
        verbose=options["verbose"],
        color=not options["no_color"] and not os.environ.get("NO_COLOR"),
        theme=settings.values.theme,
        keys=settings.bindings(),
        offer=options["offer"],
        pass_env=options["pass_env"],
        line_limit=options["line_limit"],
        notifications=settings.values.notifications,
        window_title=settings.values.window_title,
        record=record,
    )


def _launch(
    wanted: "RunOptions", json: Output | None = None, on_stderr: "OnStderr | None" = None
) -> "Launch":
    """The connection to the agent; `json` prints every message."""
    from twofold.client.launch import Launch
    from twofold.transport.tape import Tape

    return Launch(
        wanted.command,
        cwd=wanted.cwd,
        env=wanted.env,
        version=wanted.version,
        policy=wanted.policy,
        offer=wanted.offer,
        pass_env=wanted.pass_env,
        line_limit=wanted.line_limit,
        record=wanted.record,
        tapes=[Tape(json.json)] if json is not None else [],
        on_stderr=on_stderr,
        endpoint=wanted.endpoint,
    )


def _prompt(text: str) -> str:
    if text != "-":
        return _decoded(text.encode(errors="surrogateescape"), "--prompt", "the text")
    data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    return _decoded(data, "--prompt", "standard input")


def _start(text: str | None) -> str | None:
    if text is None:
        return None
    return _decoded(text.encode(errors="surrogateescape"), "--start", "the text")


def _decoded(data: bytes, option: str, source: str) -> str:
    try:
        text = data.decode().rstrip("\n")
    except UnicodeError:
        raise click.BadParameter(f"{source} is not UTF-8.", param_hint=f"'{option}'") from None
    if not text.strip():
        raise click.BadParameter(f"{source} is empty.", param_hint=f"'{option}'")
    return text


# ---- at the terminal -------------------------------------------------------------------------


def _interact(wanted: "RunOptions", output: Output) -> int:
    import asyncio

    from twofold.term import exit_status
    from twofold.term.client import interact

    launch = _launch(wanted)
    raise_on_interrupt()
    status = asyncio.run(interact(wanted, launch))
    fault = launch.fault
    if fault is not None and wanted.record is not None:
        output.report(not_written(wanted.record.name, fault))
        status = status or exit_status.FAILED
    return status
