"""The command line. The library alone does not need what it needs.

Nothing that takes long is imported here: Ctrl-C is handled before that, and while it is going on.
"""

import os
import signal
import sys

_EXTRA = ("click", "prompt_toolkit", "pygments", "rich")
_CANCELLED = 5  # as in `status`, which takes long to import


def main() -> None:
    """Run the command `twofold`."""
    _leave_at_once()
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


def _leave_at_once() -> None:
    """Have Ctrl-C end this process without a word, as long as there is nothing to clean up.

    An exception could come in the middle of an import, where some code drops it or reports it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not for a job that ignores
        try:
            signal.signal(signal.SIGINT, _leave)
        except ValueError:  # another thread than the main one hears no signals
            return


def _leave(number: int, frame: object) -> None:
    os._exit(_CANCELLED)


def raise_interrupts() -> None:
    """From here on Ctrl-C is a `KeyboardInterrupt` again: there is something to clean up."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
