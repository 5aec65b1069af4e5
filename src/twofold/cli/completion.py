"""`twofold completion`: the script that lets a shell complete the command `twofold`.

The script asks `twofold` itself at Tab. `--install` writes it to the directory where the shell
looks for such scripts; no other file is changed.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import click
from click.shell_completion import get_completion_class

from twofold.cli.completers import PROGRAM
from twofold.cli.help import HelpfulCommand
from twofold.cli.output import not_written, standard_output

Shell: TypeAlias = Literal["bash", "zsh", "fish"]

_VARIABLE = f"_{PROGRAM.upper()}_COMPLETE"


@click.command(cls=HelpfulCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option(
    "--install",
    is_flag=True,
    help="Write the script where the shell finds it, instead of printing it.",
)
def completion(shell: Shell, install: bool) -> None:
    """Print or install shell completion.

    The shell then completes commands, options, scenarios of the demo agent and its sessions. No
    other file than the script is written: if the shell needs a line in its own settings, the line
    is printed.
    """
    text = script(shell)
    if not install:
        with standard_output() as out:
            out.write(text.encode())
        return
    path = place(shell, os.environ, Path.home())
    _write(path, text)
    click.echo(f"Written: {path}")
    click.echo(advice(shell, path))


def script(shell: Shell) -> str:
    """The script for a shell."""
    made = get_completion_class(shell)
    assert made is not None
    # the script depends on the name of the program only
    return made(click.Command(PROGRAM), {}, PROGRAM, _VARIABLE).source()


def place(shell: Shell, environ: Mapping[str, str], home: Path) -> Path:
    """Where a shell looks for the script of one user."""
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    if shell == "bash":
        own = environ.get("BASH_COMPLETION_USER_DIR")
        return Path(own or data / "bash-completion") / "completions" / PROGRAM
    if shell == "zsh":
        return data / "zsh" / "site-functions" / f"_{PROGRAM}"
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return config / "fish" / "completions" / f"{PROGRAM}.fish"


def advice(shell: Shell, path: Path) -> str:
    """What is left to do."""
    if shell == "bash":
        return "Open a new shell. It needs the package bash-completion, which most systems have."
    if shell == "zsh":
        return (
            "Add these lines to ~/.zshrc, before any other compinit, and open a new shell:\n"
            f"  fpath=({path.parent} $fpath)\n"
            "  autoload -Uz compinit && compinit"
        )
    return "Open a new shell."


def _write(path: Path, text: str) -> None:
    try:
        if path.exists() and _VARIABLE not in path.read_text(encoding="utf-8", errors="replace"):
            raise click.ClickException(
                f"{path} exists and is not a script of Twofold. Remove it, or print the script"
                f" without --install."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(not_written(str(path), error)) from None
