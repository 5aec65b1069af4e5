"""What the slash commands of the client do.

`slash_commands` parses them, and makes the lines that most of them print.
"""

import os
import shutil
from collections.abc import Awaitable, Callable
from typing import Final

from twofold.client.session import ClientSession
from twofold.session import Session
from twofold.term.block_lines import counted, plan_lines
from twofold.term.change_lines import change_lines
from twofold.term.copy_text import NotCopied, copy_tool, find_answer, give_to_tool, osc52
from twofold.term.export import export_file, parse_target
from twofold.term.input.slash_commands import (
    SlashCommand,
    config_lines,
    find_mode,
    find_model,
    find_setting,
    help_lines,
    mode_lines,
    model_lines,
    parse_number,
    shorten,
    usage_lines,
)
from twofold.term.lines import Drawable, Rows, line
from twofold.term.open_session import OpenSession
from twofold.text import one_line, sanitize
from twofold.view.outline import plan_block
from twofold.view.session_diff import session_changes


async def run_command(command: SlashCommand, here: OpenSession) -> None:
    """Run a command of the client in a session, and print its result there.

    Raises:
        LocalError: It cannot be done like this.
        RequestFailed: The agent refused.
    """
    await _ACTIONS[command.name](here, command.argument)


async def _quit(here: OpenSession, argument: str) -> None:
    here.end()
    if here.display.working:
        here.leave()


async def _help(here: OpenSession, argument: str) -> None:
    here.display.print_lines(help_lines(here.session.state, here.bindings))


async def _usage(here: OpenSession, argument: str) -> None:
    here.display.print_lines(usage_lines(here.session.state))


async def _plan(here: OpenSession, argument: str) -> None:
    here.display.print_lines(_plans(here.session.state))


def _plans(state: Session) -> list[Drawable]:
    plans = [plan_block(update.plan) for update in state.plans.values()]
    shown = [each for plan in plans for each in plan_lines(plan)]
    return shown or [line("The agent has no plan.", "dim")]


async def _mode(here: OpenSession, argument: str) -> None:
    if argument:
        await here.session.set_mode(find_mode(argument, here.session.state))
    here.display.print_lines(mode_lines(here.session.state))


async def _model(here: OpenSession, argument: str) -> None:
    session = here.session
    if argument:
        await session.set_model(find_model(argument, session.models, session.state))
    here.display.print_lines(model_lines(session.models, session.state))


async def _config(here: OpenSession, argument: str) -> None:
    here.display.print_lines(await _configured(argument, here.session))


async def _configured(argument: str, session: ClientSession) -> list[Drawable]:
    if not argument:
        return [*config_lines(session.state)]
    setting = find_setting(argument, session.state)
    if setting.value is not None:
        await session.set_config_option(setting.config_id, setting.value)
    return [*config_lines(session.state, setting.config_id)]


async def _editor(here: OpenSession, argument: str) -> None:
    await here.edit()


async def _paste(here: OpenSession, argument: str) -> None:
    await here.paste_image()


async def _thoughts(here: OpenSession, argument: str) -> None:
    live_area = here.display.live_area
    live_area.fold_thoughts = not live_area.fold_thoughts
    how = "folded" if live_area.fold_thoughts else "shown in full"
    here.display.print_lines([line(f"Thoughts are {how} from now on.", "dim")])


async def _expand(here: OpenSession, argument: str) -> None:
    number, width = parse_number("expand", argument), here.display.width
    if number is None:
        rows, none = here.display.live_area.expanded(width), "Nothing was folded."
    else:
        rows = here.display.live_area.expanded_last(number, width)
        none = "Nothing was folded." if number == 1 else f"Fewer than {number:,} were folded."
    here.display.print_lines([Rows(rows)] if rows else [line(none, "dim")])


async def _diff(here: OpenSession, argument: str) -> None:
    number = parse_number("diff", argument)
    changes = session_changes(here.session.state, str(here.cwd))
    here.display.print_lines(change_lines(changes, number))


async def _copy(here: OpenSession, argument: str) -> None:
    number = parse_number("copy", argument) or 1
    text = sanitize(find_answer(here.session.state, number))
    command = copy_tool(os.environ, shutil.which)
    copied = command is not None and await give_to_tool(command, text)
    try:
        sent = here.display.copy(osc52(text))
    except NotCopied:
        if not copied:
            raise
        sent = False
    if not copied and not sent:
        raise NotCopied(
            "This terminal cannot copy, and none of wl-copy, xclip, xsel and pbcopy can."
        )
    how = "" if copied else " It is in the clipboard if your terminal allows that (OSC 52)."
    words = f"Copied {counted(len(text.splitlines()), 'line')}: “{shorten(text)}”.{how}"
    here.display.print_lines([line(words, "dim")])


async def _export(here: OpenSession, argument: str) -> None:
    made = export_file(parse_target(argument), here.session.state, here.cwd)
    words = f"Wrote {made.path} ({counted(made.lines, 'line')})."
    here.display.print_lines([line(one_line(words), "dim")])


async def _verbose(here: OpenSession, argument: str) -> None:
    here.sessions.verbose = not here.sessions.verbose
    when = "Shown from now on" if here.sessions.verbose else "Not shown any more"
    lines = [line(f"{when}: the agent's standard error, problems and losses.", "dim")]
    if here.sessions.verbose:
        lines += [line(each, "dim") for each in here.recent_stderr]
    here.display.print_lines(lines)


async def _new(here: OpenSession, argument: str) -> None:
    await here.sessions.begin()


async def _sessions(here: OpenSession, argument: str) -> None:
    await here.sessions.pick()


async def _resume(here: OpenSession, argument: str) -> None:
    await (here.sessions.resume(argument) if argument else here.sessions.pick())


async def _rename(here: OpenSession, argument: str) -> None:
    here.sessions.rename(argument)


async def _close(here: OpenSession, argument: str) -> None:
    await here.sessions.close()


_ACTIONS: Final[dict[str, Callable[[OpenSession, str], Awaitable[None]]]] = {
    "close": _close,
    "config": _config,
    "copy": _copy,
    "diff": _diff,
    "editor": _editor,
    "expand": _expand,
    "export": _export,
    "help": _help,
    "mode": _mode,
    "model": _model,
    "new": _new,
    "paste": _paste,
    "plan": _plan,
    "quit": _quit,
    "rename": _rename,
    "resume": _resume,
    "sessions": _sessions,
    "thoughts": _thoughts,
    "usage": _usage,
    "verbose": _verbose,
}
