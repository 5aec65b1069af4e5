"""`twofold settings`: show the settings in effect, and where each of them comes from."""

import os
import sys
from pathlib import Path

import click

from twofold.cli.help import HelpfulCommand
from twofold.cli.output import Output, not_written
from twofold.errors import TwofoldError
from twofold.text import sanitize


@click.command(cls=HelpfulCommand)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Show the settings of a session in this directory.",
)
@click.option("--json", "form", flag_value="json", help="Print one JSON object per line.")
@click.option("--schema", "form", flag_value="schema", help="Print the JSON Schema, for editors.")
@click.option("--path", "form", flag_value="path", help="Print the paths of the files.")
def settings(cwd: Path, form: str | None) -> None:
    """Show the settings, and where each value comes from.

    They are in your own file (settings.toml in the config directory, or the file that the variable
    TWOFOLD_SETTINGS names) and in the project's file .twofold.toml, which can only restrict. Of
    environment variables and headers only the names are shown.
    """
    import json

    from twofold.host.settings import Settings, load, project_path, schema, shown, user_path
    from twofold.term import exit_status

    output = Output()

    def show(made: Settings) -> None:
        for each in shown(made):
            line = {"key": each.key, "value": each.value, "origin": each.origin}
            if form == "json":
                output.json(json.dumps(line).encode() + b"\n")
            else:
                value = (
                    json.dumps(each.value, ensure_ascii=False) if each.value is not None else "-"
                )
                output.text(sanitize(f"{each.key} = {value}  ({each.origin})") + "\n")

    try:
        if form == "schema":
            output.json(json.dumps(schema(), indent=2).encode() + b"\n")
        elif form == "path":  # also if a file cannot be used: this is where to mend it
            for path in (user_path(os.environ), project_path(cwd)):
                if path is not None:
                    output.text(f"{sanitize(str(path))}\n")
        else:
            made = load(cwd)
            show(made)
            for warning in made.warnings:
                output.report(warning)
    except TwofoldError as error:
        output.report(str(error))
        sys.exit(exit_status.of_error(error))
    if output.out.fault is not None:
        output.report(not_written("Standard output", output.out.fault))
        sys.exit(exit_status.FAILED)
