"""The command `twofold`, which needs more packages than the library (the extra `cli`).

Only `main` is here. It imports a command after Ctrl-C is handled, and reports a missing package.
`--version` alone needs none of them: scripts call it often, and click takes long to import.
"""

import os
import sys

from twofold.cli.interrupts import exit_on_interrupt
from twofold.version import VERSION

_EXTRA = ("click", "prompt_toolkit", "pygments", "rich")


def main() -> None:
    """Run the command `twofold`."""
    exit_on_interrupt()
    if sys.argv[1:] == ["--version"] and _print_version():
        return
    try:
        from twofold.cli.commands import commands

        if "_TWOFOLD_COMPLETE" in os.environ:  # a shell asks what to offer at Tab
            from twofold.cli.completers import register

            register()
        commands()
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.exit("The twofold command needs more than the library: pip install 'twofold[cli]'")
    except OSError as error:  # such as --help on a full disk
        if error.filename is not None:
            raise
        sys.exit(f"Standard output could not be written to the end: {error.strerror}.")


def _print_version() -> bool:
    """Print what `--version` of click prints; False if it cannot be written: click reports why."""
    try:
        os.write(1, f"twofold, version {VERSION}\n".encode())
    except OSError:
        return False
    return True
