"""One ACP session, whichever version each side speaks."""

from twofold.convert.downgrader import Downgrader
from twofold.convert.losses import Loss, Losses, NotConvertible
from twofold.convert.upgrader import Upgrader
from twofold.errors import LocalError, PeerError, TwofoldError
from twofold.session import Draft, Session, Sessions, snapshot

__version__ = "0.1.0"

__all__ = [
    "Downgrader",
    "Draft",
    "LocalError",
    "Loss",
    "Losses",
    "NotConvertible",
    "PeerError",
    "Session",
    "Sessions",
    "TwofoldError",
    "Upgrader",
    "__version__",
    "snapshot",
]
