"""The command line. The library alone does not need what it needs."""

import sys

_EXTRA = ("click", "prompt_toolkit", "pygments", "pyte", "rich")


def main() -> None:
    """Run the command `twofold`."""
    try:
        from twofold.cli.commands import commands

        commands()  # some import what they need when they are called
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.exit("The twofold command needs more than the library: pip install 'twofold[cli]'")
    except OSError as error:  # such as --help on a full disk
        if error.filename is not None:
            raise
        sys.exit(f"Standard output could not be written to the end: {error.strerror}.")
