"""What the shell offers at Tab for scenarios, sessions and agents' commands.

No agent is started, and no error is shown: a shell would print it into the line that is being
typed. Everything that takes long is imported when it is needed.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ShellComplete,
    add_completion_class,
    split_arg_string,
)

PROGRAM = "twofold"


class _Bash(BashComplete):
    """Reads the words of bash one by one, so that an empty word before others counts as one."""

    def get_completion_args(self) -> tuple[list[str], str]:
        # the script separates them by newlines, and an unquoted word has none
        words = ["".join(split_arg_string(word)) for word in os.environ["COMP_WORDS"].split("\n")]
        place = int(os.environ["COMP_CWORD"])
        return words[1:place], words[place] if place < len(words) else ""


def register() -> None:
    """Have this process answer bash with the words as they are."""
    add_completion_class(_Bash)


def agent_names() -> list[tuple[str, str]]:
    """The agents that `run` and the others start by name, each with a short description."""
    from twofold.errors import TwofoldError
    from twofold.host.known_agents import known_agents
    from twofold.host.settings import Settings, load

    try:
        known = known_agents(load())
    except TwofoldError:  # the command itself says what is wrong with them
        known = known_agents(Settings())
    return [(agent.name, agent.description) for agent in known.values()]


def complete_scenario(
    context: click.Context, argument: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The scenarios of the demo agent."""
    from twofold.demo import SCENARIOS

    return [
        CompletionItem(each.name, help=each.summary)
        for each in SCENARIOS.values()
        if each.name.startswith(incomplete)
    ]


def complete_command(
    context: click.Context, argument: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The command of an agent: its program, then files; a command of Twofold completes itself."""
    words: Sequence[str] = context.params.get(argument.name or "") or ()
    if not words:
        names = [CompletionItem(name, help=text) for name, text in agent_names()]
        known = [item for item in names if item.value.startswith(incomplete)]
        return [*known, *map(CompletionItem, _programs(incomplete))] or _files(incomplete)
    if os.path.basename(words[0]) == PROGRAM:
        root = context.find_root().command
        return ShellComplete(root, {}, PROGRAM, "").get_completions(list(words[1:]), incomplete)
    return _files(incomplete)


def complete_session(
    context: click.Context, option: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The sessions that the demo agent keeps in a directory: only it can be read without a start.

    The command of the agent follows the option, so it is read from the whole line.
    """
    words = split_arg_string(os.environ.get("COMP_WORDS", ""))
    directory = kept_in(words[words.index("--") + 1 :] if "--" in words else [])
    if directory is None or not os.path.isdir(directory):
        return []
    from twofold.agent.store import DirectoryStore
    from twofold.client.known_sessions import title

    with suppress(Exception):  # a directory that cannot be read offers nothing
        return [
            CompletionItem(info.session_id, help=title(info))
            for info in DirectoryStore(directory).list()
            if info.session_id.startswith(incomplete) and info.session_id.isprintable()
        ]
    return []


def kept_in(command: Sequence[str]) -> str | None:
    """The directory in which a command of the demo agent keeps its sessions; None for others."""
    of_python = [sys.executable, "-m", PROGRAM]
    words = list(command)
    if words[:3] == of_python or (words and os.path.basename(words[0]) == PROGRAM):
        rest = words[3:] if words[:3] == of_python else words[1:]
        if rest[:1] == ["agent"]:
            for option, value in zip(rest, [*rest[1:], ""], strict=True):
                name, is_joined, joined = option.partition("=")
                if name == "--keep":
                    return (joined if is_joined else value) or None
    return None


def _programs(incomplete: str) -> list[str]:
    """The programs on the PATH that begin like this; none for a path or for nothing typed."""
    if not incomplete or "/" in incomplete:
        return []
    return sorted(set(_executables(incomplete)))


def _executables(incomplete: str) -> Iterator[str]:
    for directory in os.get_exec_path():
        with suppress(OSError):
            for entry in os.scandir(directory):
                if entry.name.startswith(incomplete) and os.access(entry.path, os.X_OK):
                    yield entry.name


def _files(incomplete: str) -> list[CompletionItem]:
    """Have the shell complete files."""
    return [CompletionItem(incomplete, type="file")]
