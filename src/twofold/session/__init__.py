"""What a session adds up to: one reducer over version 2, pure."""

from twofold.session.parts import (
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
from twofold.session.reduce import Session, Sessions
from twofold.session.snapshot import snapshot

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
