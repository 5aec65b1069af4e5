"""One ACP session, whichever version each side speaks."""

from importlib import import_module

from twofold.version import VERSION

TYPE_CHECKING = False  # true for type checkers; importing `typing` takes longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from twofold.agent.agent import Agent
    from twofold.agent.arguments import InvalidArgument
    from twofold.agent.session import AgentSession, SessionClosed
    from twofold.agent.store import (
        DirectoryStore,
        MemoryStore,
        SessionExists,
        Store,
        StoreFailed,
        UnknownSession,
    )
    from twofold.agent.tools import NotCancellable, TerminalHandle, ToolCallHandle, TurnOver
    from twofold.agent.turn import Answer, MessageHandle, Turn
    from twofold.bridge import Bridge, LossLog
    from twofold.client.client import Client, SessionList, connect
    from twofold.client.negotiate import (
        AgentDescription,
        AgentSilent,
        NotAnAgent,
        UnknownVersion,
        WrongVersion,
    )
    from twofold.client.permissions import Question
    from twofold.client.prompt_blocks import FileNotReadable
    from twofold.client.prompting import Reply, ReplyStream, TurnFailed
    from twofold.client.reconnection import ConnectionChange
    from twofold.client.session import ClientSession
    from twofold.client.watching import ChangeFeed, ChangeSubscription, Subscription
    from twofold.convert.downgrade import Downgrader, downgrade
    from twofold.convert.losses import Loss, Losses, NotConvertible
    from twofold.convert.options import NoSuchOption
    from twofold.convert.patches import BadPatch
    from twofold.convert.upgrade import Upgrader, upgrade
    from twofold.errors import (
        BadAnswer,
        ConnectionClosed,
        ConnectionEnded,
        LocalError,
        NoAnswer,
        NotSupported,
        PeerError,
        TwofoldError,
    )
    from twofold.peer.problems import Problem
    from twofold.policy import Decided, Policy, Rule, Ruling, Subject, parse_rule, read_policy
    from twofold.policy.rules import BadRule
    from twofold.policy.written import BadPolicy
    from twofold.rpc.errors import RequestError, RequestFailed
    from twofold.session import Draft, Message, Session, Sessions, Terminal, ToolCall, snapshot
    from twofold.session.changes import (
        Change,
        Changes,
        CommandsChanged,
        CompactionChanged,
        ConfigChanged,
        ContentAppended,
        EntryAdded,
        EntryChanged,
        InfoChanged,
        NoticeAdded,
        PermissionChanged,
        PlanChanged,
        StateChanged,
        SubagentChanged,
        TerminalChanged,
        TerminalOutputAppended,
        UnknownAdded,
        UsageChanged,
    )
    from twofold.session.reduce import NotBase64
    from twofold.session.state import Compaction, Decision, Permission
    from twofold.transport.base import Receiver, Transport
    from twofold.transport.commands import CommandNotStarted, ProcessEnded
    from twofold.transport.endpoint import BadUrl, NotReached, RemoteEnded
    from twofold.transport.memory import memory_pair
    from twofold.transport.process import Process
    from twofold.transport.remote import RemoteNotInstalled
    from twofold.transport.stdio import Stdio, StdioLost, StdioUnavailable
    from twofold.wire import v1, v2
    from twofold.wire.base import UNSET, Fault, Malformed
    from twofold.wire.codec import encode

__version__ = VERSION

__all__ = [
    "UNSET",
    "Agent",
    "AgentDescription",
    "AgentSession",
    "AgentSilent",
    "Answer",
    "BadAnswer",
    "BadPatch",
    "BadPolicy",
    "BadRule",
    "BadUrl",
    "Bridge",
    "Change",
    "ChangeFeed",
    "ChangeSubscription",
    "Changes",
    "Client",
    "ClientSession",
    "CommandNotStarted",
    "CommandsChanged",
    "Compaction",
    "CompactionChanged",
    "ConfigChanged",
    "ConnectionChange",
    "ConnectionClosed",
    "ConnectionEnded",
    "ContentAppended",
    "Decided",
    "Decision",
    "DirectoryStore",
    "Downgrader",
    "Draft",
    "EntryAdded",
    "EntryChanged",
    "Fault",
    "FileNotReadable",
    "InfoChanged",
    "InvalidArgument",
    "LocalError",
    "Loss",
    "LossLog",
    "Losses",
    "Malformed",
    "MemoryStore",
    "Message",
    "MessageHandle",
    "NoAnswer",
    "NoSuchOption",
    "NotAnAgent",
    "NotBase64",
    "NotCancellable",
    "NotConvertible",
    "NotReached",
    "NotSupported",
    "NoticeAdded",
    "PeerError",
    "Permission",
    "PermissionChanged",
    "PlanChanged",
    "Policy",
    "Problem",
    "Process",
    "ProcessEnded",
    "Question",
    "Receiver",
    "RemoteEnded",
    "RemoteNotInstalled",
    "Reply",
    "ReplyStream",
    "RequestError",
    "RequestFailed",
    "Rule",
    "Ruling",
    "Session",
    "SessionClosed",
    "SessionExists",
    "SessionList",
    "Sessions",
    "StateChanged",
    "Stdio",
    "StdioLost",
    "StdioUnavailable",
    "Store",
    "StoreFailed",
    "SubagentChanged",
    "Subject",
    "Subscription",
    "Terminal",
    "TerminalChanged",
    "TerminalHandle",
    "TerminalOutputAppended",
    "ToolCall",
    "ToolCallHandle",
    "Transport",
    "Turn",
    "TurnFailed",
    "TurnOver",
    "TwofoldError",
    "UnknownAdded",
    "UnknownSession",
    "UnknownVersion",
    "Upgrader",
    "UsageChanged",
    "WrongVersion",
    "__version__",
    "connect",
    "downgrade",
    "encode",
    "memory_pair",
    "parse_rule",
    "read_policy",
    "snapshot",
    "upgrade",
    "v1",
    "v2",
]

# Nothing is imported before it is used: who only reads and adds up does not wait for what runs
# agents and clients, and the command can handle Ctrl-C before anything that takes long.
_MODULES = {
    "twofold.agent.agent": ("Agent",),
    "twofold.agent.arguments": ("InvalidArgument",),
    "twofold.agent.session": (
        "AgentSession",
        "SessionClosed",
    ),
    "twofold.agent.store": (
        "DirectoryStore",
        "MemoryStore",
        "SessionExists",
        "Store",
        "StoreFailed",
        "UnknownSession",
    ),
    "twofold.agent.tools": (
        "NotCancellable",
        "TerminalHandle",
        "ToolCallHandle",
        "TurnOver",
    ),
    "twofold.agent.turn": (
        "Answer",
        "MessageHandle",
        "Turn",
    ),
    "twofold.bridge": (
        "Bridge",
        "LossLog",
    ),
    "twofold.client.client": (
        "Client",
        "SessionList",
        "connect",
    ),
    "twofold.client.negotiate": (
        "AgentDescription",
        "AgentSilent",
        "NotAnAgent",
        "UnknownVersion",
        "WrongVersion",
    ),
    "twofold.client.permissions": ("Question",),
    "twofold.client.prompt_blocks": ("FileNotReadable",),
    "twofold.client.prompting": (
        "Reply",
        "ReplyStream",
        "TurnFailed",
    ),
    "twofold.client.reconnection": ("ConnectionChange",),
    "twofold.client.session": ("ClientSession",),
    "twofold.client.watching": (
        "ChangeFeed",
        "ChangeSubscription",
        "Subscription",
    ),
    "twofold.convert.downgrade": (
        "Downgrader",
        "downgrade",
    ),
    "twofold.convert.losses": (
        "Loss",
        "Losses",
        "NotConvertible",
    ),
    "twofold.convert.options": ("NoSuchOption",),
    "twofold.convert.patches": ("BadPatch",),
    "twofold.convert.upgrade": (
        "Upgrader",
        "upgrade",
    ),
    "twofold.errors": (
        "BadAnswer",
        "ConnectionClosed",
        "ConnectionEnded",
        "LocalError",
        "NoAnswer",
        "NotSupported",
        "PeerError",
        "TwofoldError",
    ),
    "twofold.peer.problems": ("Problem",),
    "twofold.policy": (
        "Decided",
        "Policy",
        "Rule",
        "Ruling",
        "Subject",
        "parse_rule",
        "read_policy",
    ),
    "twofold.policy.rules": ("BadRule",),
    "twofold.policy.written": ("BadPolicy",),
    "twofold.rpc.errors": (
        "RequestError",
        "RequestFailed",
    ),
    "twofold.session": (
        "Draft",
        "Message",
        "Session",
        "Sessions",
        "Terminal",
        "ToolCall",
        "snapshot",
    ),
    "twofold.session.changes": (
        "Change",
        "Changes",
        "CommandsChanged",
        "CompactionChanged",
        "ConfigChanged",
        "ContentAppended",
        "EntryAdded",
        "EntryChanged",
        "InfoChanged",
        "NoticeAdded",
        "PermissionChanged",
        "PlanChanged",
        "StateChanged",
        "SubagentChanged",
        "TerminalChanged",
        "TerminalOutputAppended",
        "UnknownAdded",
        "UsageChanged",
    ),
    "twofold.session.reduce": ("NotBase64",),
    "twofold.session.state": (
        "Compaction",
        "Decision",
        "Permission",
    ),
    "twofold.transport.base": (
        "Receiver",
        "Transport",
    ),
    "twofold.transport.commands": (
        "CommandNotStarted",
        "ProcessEnded",
    ),
    "twofold.transport.endpoint": (
        "BadUrl",
        "NotReached",
        "RemoteEnded",
    ),
    "twofold.transport.memory": ("memory_pair",),
    "twofold.transport.process": ("Process",),
    "twofold.transport.remote": ("RemoteNotInstalled",),
    "twofold.transport.stdio": (
        "Stdio",
        "StdioLost",
        "StdioUnavailable",
    ),
    "twofold.wire.base": (
        "UNSET",
        "Fault",
        "Malformed",
    ),
    "twofold.wire.codec": ("encode",),
}
_LATER = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> "Any":
    value: Any
    if name in _LATER:
        value = getattr(import_module(_LATER[name]), name)
    elif name in ("v1", "v2"):
        value = import_module(f"twofold.wire.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
