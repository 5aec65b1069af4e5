"""What Ctrl-C does before a command has something to clean up, and after that.

The commands take a moment to import. An exception that is raised in the middle of an import may be
dropped or reported by the code being imported, so until then Ctrl-C ends the process. Nothing that
takes long may be imported here.
"""

import os
import signal

CANCELLED = 5  # `exit_status.CANCELLED`, whose module takes long to import


def exit_on_interrupt() -> None:
    """Have Ctrl-C end this process silently, until `raise_on_interrupt` is called."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not for a job that ignores
        try:
            signal.signal(signal.SIGINT, _exit)
        except ValueError:  # only the main thread receives signals
            return


def raise_on_interrupt() -> None:
    """Have Ctrl-C raise `KeyboardInterrupt` again: from now on there is something to clean up."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(number: int, frame: object) -> None:
    os._exit(CANCELLED)
