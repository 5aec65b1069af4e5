"""The command line. The library alone does not need what it needs."""

import sys


def main() -> None:
    """Run the command `twofold`."""
    try:
        from twofold.cli.commands import commands
    except ModuleNotFoundError as missing:
        if missing.name not in ("click", "prompt_toolkit", "pygments", "pyte", "rich"):
            raise
        sys.exit("The twofold command needs more than the library: pip install 'twofold[cli]'")
    commands()
