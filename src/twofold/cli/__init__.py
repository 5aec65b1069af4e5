"""The command `twofold`, which needs more packages than the library (the extra `cli`).

Only `main` is here. It imports a command after Ctrl-C is handled, and reports a missing package.
"""

import sys

from twofold.cli.interrupts import exit_on_interrupt

_EXTRA = ("click", "prompt_toolkit", "pygments", "rich")


def main() -> None:
    """Run the command `twofold`."""
    exit_on_interrupt()
    try:
        from twofold.cli.commands import commands

        commands()
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.exit("The twofold command needs more than the library: pip install 'twofold[cli]'")
    except OSError as error:  # such as --help on a full disk
        if error.filename is not None:
            raise
        sys.exit(f"Standard output could not be written to the end: {error.strerror}.")
