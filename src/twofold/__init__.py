"""One ACP session, whichever version each side speaks."""

from twofold.convert.downgrade import downgrade
from twofold.convert.downgrader import Downgrader
from twofold.convert.losses import Loss, Losses, NotConvertible
from twofold.convert.upgrade import upgrade
from twofold.convert.upgrader import Upgrader
from twofold.errors import LocalError, PeerError, TwofoldError
from twofold.session import Draft, Message, Session, Sessions, Terminal, ToolCall, snapshot
from twofold.wire import v1, v2
from twofold.wire.base import UNSET, Fault, Malformed
from twofold.wire.codec import (
    decode_update_line_v1,
    decode_update_line_v2,
    decode_update_v1,
    decode_update_v2,
    encode,
)

__version__ = "0.1.0"

__all__ = [
    "UNSET",
    "Downgrader",
    "Draft",
    "Fault",
    "LocalError",
    "Loss",
    "Losses",
    "Malformed",
    "Message",
    "NotConvertible",
    "PeerError",
    "Session",
    "Sessions",
    "Terminal",
    "ToolCall",
    "TwofoldError",
    "Upgrader",
    "__version__",
    "decode_update_line_v1",
    "decode_update_line_v2",
    "decode_update_v1",
    "decode_update_v2",
    "downgrade",
    "encode",
    "snapshot",
    "upgrade",
    "v1",
    "v2",
]
