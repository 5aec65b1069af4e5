"""`twofold journal`: look after the journal of `twofold serve`.

`check` reads all of it and names what is wrong; `import` adds the sessions of a recording.
"""

import sys
from pathlib import Path
from typing import Literal

import click

from twofold.cli.help import HelpfulCommand
from twofold.cli.interrupts import raise_on_interrupt
from twofold.cli.output import Output
from twofold.errors import TwofoldError


@click.command(cls=HelpfulCommand)
@click.option(
    "--journal-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Use this journal instead of that of `twofold serve`.",
)
@click.option(
    "--from",
    "source",
    type=click.Choice(["auto", "1", "2", "guide"]),
    default="auto",
    show_default=True,
    help="With import: the version of the recording.",
)
@click.argument("action", type=click.Choice(["check", "import"]), metavar="check|import")
@click.argument(
    "recording", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
def journal(
    journal_file: Path | None,
    source: str,
    action: Literal["check", "import"],
    recording: Path | None,
) -> None:
    """Check the journal of `twofold serve`, or import a recording.

    `check` reads the whole journal, which may be in use, and prints everything that is wrong with
    it; exit status 1 if anything is. `import` adds the sessions of RECORDING, as they were at its
    end, while no server uses the journal.
    """
    import asyncio

    from twofold.cli.journal_actions import check_journal, import_recording

    if (action == "import") != (recording is not None):
        raise click.UsageError("RECORDING goes with import, and with nothing else.")
    output = Output()
    raise_on_interrupt()
    try:
        if recording is None:
            status = asyncio.run(check_journal(journal_file, output))
        else:
            status = asyncio.run(import_recording(recording, source, journal_file, output))
    except (TwofoldError, OSError) as error:
        output.report(str(error))
        status = 1
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
