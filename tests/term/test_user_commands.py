"""Commands of the person's own: what is one, and what is attached."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from twofold.term.lines import Drawable, all_rows, plain
from twofold.term.user_commands import (
    Attached,
    NotRun,
    UserCommand,
    UserCommands,
    parse_user_command,
)

PARSED: dict[str, tuple[str, UserCommand | None]] = {
    "a command": ("!make test", UserCommand("make test", False)),
    "with a blank": ("! make ", UserCommand("make", False)),
    "attached": ("!!git diff", UserCommand("git diff", True)),
    "what removes": ("!!", UserCommand("", True)),
    "text": ("make test", None),
    "text with a mark in it": ("Do it!", None),
    "a blank before it": (" !important", None),
    "an image in Markdown": ("![picture](a.png)", None),
}


@pytest.mark.parametrize(("text", "command"), PARSED.values(), ids=PARSED)
def test_a_command_begins_with_a_mark(text: str, command: UserCommand | None) -> None:
    assert parse_user_command(text) == command


def test_what_was_pasted_is_no_command() -> None:
    text = "!rm -r x\n" * 50
    assert parse_user_command(text, [text]) is None
    assert parse_user_command("!cat x", ["x"]) == UserCommand("cat x", False)


@pytest.mark.parametrize("text", ["!", "! ", "!make\nand tell me"])
def test_half_a_command_is_neither_run_nor_sent(text: str) -> None:
    with pytest.raises(NotRun, match="blank before"):
        parse_user_command(text)


def test_what_is_attached_cannot_end_its_own_fence() -> None:
    attached = Attached("cat a.md", "```\ncode\n````", "exit status 2")
    assert attached.words == "$ cat a.md · 3 lines · exit status 2"
    assert attached.text == (
        "\n\nOutput of a command that I ran:\n"
        "`````\n$ cat a.md\n```\ncode\n````\n`````\n(exit status 2)"
    )


class Printed:
    """Where the output of commands goes."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def print_more(self, lines: Sequence[Drawable], kind: str) -> None:
        self.rows += [plain(row) for row in all_rows(lines, None)]


RUNS: dict[str, tuple[str, list[str]]] = {
    "output of both kinds, in order": ("echo out; echo err >&2", ["  out", "  err"]),
    "a failure": ("echo no; exit 3", ["  no", "  exit status 3"]),
    "a signal": ("kill -s KILL $$", ["  ended by SIGKILL"]),
    "nothing": ("true", ["  no output"]),
    "its directory": ("ls", ["  here.txt"]),
    "no input": ("cat", ["  no output"]),
    "a program that is not there": ("nothing-like-it 2> /dev/null", ["  exit status 127"]),
}


@pytest.mark.parametrize(("command", "rows"), RUNS.values(), ids=RUNS)
def test_a_command_runs_in_the_directory_and_shows_how_it_ended(
    command: str, rows: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    (tmp_path / "here.txt").touch()
    printed = Printed()

    async def main() -> None:
        commands = UserCommands(tmp_path, printed, lambda: None)
        await commands.run(UserCommand(command, False))
        assert not commands.running
        assert not commands.attached
        await commands.close()

    asyncio.run(main())
    assert printed.rows == rows


def test_a_shell_that_is_not_there_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/no/shell")

    async def main() -> None:
        commands = UserCommands(tmp_path, Printed(), lambda: None)
        with pytest.raises(NotRun, match="/no/shell: No such file"):
            await commands.run(UserCommand("true", False))
        assert not commands.running

    asyncio.run(main())


def test_what_is_attached_goes_with_one_prompt_and_can_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")

    async def main() -> None:
        commands = UserCommands(tmp_path, Printed(), lambda: None)
        await commands.run(UserCommand("echo hi", True))
        assert commands.rows == [("⋯ attached: ", "$ echo hi · 1 line · !! removes it")]
        assert commands.take_attached() == [Attached("echo hi", "hi", "")]
        assert commands.take_attached() == []
        with pytest.raises(NotRun, match="Nothing is attached"):
            await commands.run(UserCommand("", True))
        await commands.run(UserCommand("echo hi", True))
        await commands.run(UserCommand("", True))
        assert commands.rows == []

    asyncio.run(main())
