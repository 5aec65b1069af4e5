"""What a session adds up to: one reducer over version 2, pure."""

from twofold.session.reduce import Session, Sessions
from twofold.session.snapshot import snapshot
from twofold.session.state import (
    FINISHED,
    Compaction,
    Decision,
    Draft,
    Entry,
    Message,
    Permission,
    Role,
    Terminal,
    ToolCall,
)

__all__ = [
    "FINISHED",
    "Compaction",
    "Decision",
    "Draft",
    "Entry",
    "Message",
    "Permission",
    "Role",
    "Session",
    "Sessions",
    "Terminal",
    "ToolCall",
    "snapshot",
]
