"""One ACP session, whichever version each side speaks."""

from importlib import import_module

from twofold.version import VERSION

TYPE_CHECKING = False  # what checkers take for true; `typing` takes longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from twofold.agent.agent import Agent
    from twofold.agent.arguments import InvalidArgument
    from twofold.agent.config_options import NoSuchOption
    from twofold.agent.session import AgentSession, SessionClosed
    from twofold.agent.store import (
        DirectoryStore,
        MemoryStore,
        SessionExists,
        Store,
        StoreFailed,
        UnknownSession,
    )
    from twofold.agent.tools import TerminalHandle, ToolCallHandle, TurnOver
    from twofold.agent.turn import Answer, MessageHandle, Turn
    from twofold.bridge import Bridge, LossLog
    from twofold.client.client import Client, SessionList, connect
    from twofold.client.negotiate import (
        AgentDescription,
        NotAnAgent,
        AgentSilent,
        UnknownVersion,
        WrongVersion,
    )
    from twofold.agent.session import AgentSession, NoSuchOption, SessionClosed
    from twofold.agent.store import SessionExists, StoreFailed, UnknownSession
    from twofold.agent.tools import NotCancellable
    from twofold.agent.turn import Answer, Turn, TurnOver
    from twofold.bridge import Bridge, LossLog
    from twofold.client.client import Client, connect
    from twofold.client.negotiate import AgentSilent, NotAnAgent, UnknownVersion, WrongVersion
    from twofold.client.permissions import Question
    from twofold.client.prompt_blocks import FileNotReadable
    from twofold.client.prompting import Reply, ReplyStream, TurnFailed
    from twofold.client.session import ClientSession
    from twofold.client.watching import ChangeFeed, ChangeSubscription, Subscription
    from twofold.client.turns import FileNotReadable, Reply, TurnFailed
    from twofold.convert.downgrade import downgrade
    from twofold.convert.downgrader import Downgrader
    from twofold.convert.losses import Loss, Losses, NotConvertible
    from twofold.convert.patches import BadPatch
    from twofold.convert.upgrade import upgrade
    from twofold.convert.upgrader import Upgrader
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
    from twofold.policy import Decided, Policy, Rule, Subject, parse_rule, read_policy
    from twofold.policy.rules import BadRule
    from twofold.policy.written import BadPolicy
    from twofold.rpc.errors import RequestError, RequestFailed
    from twofold.session import Draft, Message, Session, Sessions, Terminal, ToolCall, snapshot
    from twofold.session.reduce import NotBase64
    from twofold.transport.base import Receiver, Transport
    from twofold.transport.memory import memory_pair
    from twofold.transport.process import CommandNotStarted, Process, ProcessEnded
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
    "Bridge",
    "ChangeFeed",
    "ChangeSubscription",
    "Client",
    "ClientSession",
    "CommandNotStarted",
    "ConnectionClosed",
    "ConnectionEnded",
    "Decided",
    "DirectoryStore",
    "Downgrader",
    "Draft",
    "Fault",
    "FileNotReadable",
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
    "NotSupported",
    "PeerError",
    "Policy",
    "Problem",
    "Process",
    "ProcessEnded",
    "Question",
    "Receiver",
    "Reply",
    "ReplyStream",
    "RequestError",
    "RequestFailed",
    "Rule",
    "Session",
    "SessionClosed",
    "SessionExists",
    "SessionList",
    "Sessions",
    "AgentSilent",
    "Store",
    "StoreFailed",
    "Stdio",
    "StdioLost",
    "StdioUnavailable",
    "StoreFailed",
    "Subject",
    "Subscription",
    "Terminal",
    "TerminalHandle",
    "ToolCall",
    "ToolCallHandle",
    "Transport",
    "Turn",
    "TurnFailed",
    "TurnOver",
    "TwofoldError",
    "UnknownSession",
    "UnknownVersion",
    "Upgrader",
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
_LATER = {
    **dict.fromkeys(("Bridge", "LossLog"), "twofold.bridge"),
    "downgrade": "twofold.convert.downgrade",
    "Downgrader": "twofold.convert.downgrader",
    **dict.fromkeys(("Loss", "Losses", "NotConvertible"), "twofold.convert.losses"),
    "BadPatch": "twofold.convert.patches",
    "upgrade": "twofold.convert.upgrade",
    "Upgrader": "twofold.convert.upgrader",
    **dict.fromkeys(
        (
            *("BadAnswer", "ConnectionClosed", "ConnectionEnded", "LocalError", "NoAnswer"),
            *("NotSupported", "PeerError", "TwofoldError"),
        ),
        "twofold.errors",
    ),
    **dict.fromkeys(
        ("Decided", "Policy", "Rule", "Subject", "parse_rule", "read_policy"), "twofold.policy"
    ),
    "BadRule": "twofold.policy.rules",
    "BadPolicy": "twofold.policy.written",
    **dict.fromkeys(("RequestError", "RequestFailed"), "twofold.rpc.errors"),
    "Agent": "twofold.agent.agent",
    "InvalidArgument": "twofold.agent.arguments",
    "NoSuchOption": "twofold.agent.config_options",
    **dict.fromkeys(("AgentSession", "SessionClosed"), "twofold.agent.session"),
    **dict.fromkeys(
        (
            *("DirectoryStore", "MemoryStore", "SessionExists", "Store", "StoreFailed"),
            "UnknownSession",
        ),
        "twofold.agent.store",
    ),
    **dict.fromkeys(("TerminalHandle", "ToolCallHandle", "TurnOver"), "twofold.agent.tools"),
    **dict.fromkeys(("Answer", "MessageHandle", "Turn"), "twofold.agent.turn"),
    **dict.fromkeys(("Client", "connect"), "twofold.client.client"),
    **dict.fromkeys(("NotAnAgent", "UnknownVersion", "WrongVersion"), "twofold.client.negotiate"),
    **dict.fromkeys(("Answer", "Turn", "TurnOver"), "twofold.agent.turn"),
    **dict.fromkeys(("Client", "SessionList", "connect"), "twofold.client.client"),
    **dict.fromkeys(
        ("AgentDescription", "NotAnAgent", "AgentSilent", "UnknownVersion", "WrongVersion"),
        "twofold.client.negotiate",
    ),
    "FileNotReadable": "twofold.client.prompt_blocks",
    "Question": "twofold.client.permissions",
    "ClientSession": "twofold.client.session",
    **dict.fromkeys(("Reply", "ReplyStream", "TurnFailed"), "twofold.client.prompting"),
    **dict.fromkeys(
        ("ChangeFeed", "ChangeSubscription", "Subscription"), "twofold.client.watching"
    ),
    **dict.fromkeys(("AgentSession", "NoSuchOption", "SessionClosed"), "twofold.agent.session"),
    **dict.fromkeys(("SessionExists", "StoreFailed", "UnknownSession"), "twofold.agent.store"),
    "NotCancellable": "twofold.agent.tools",
    **dict.fromkeys(("Answer", "Turn", "TurnOver"), "twofold.agent.turn"),
    **dict.fromkeys(("Client", "connect"), "twofold.client.client"),
    **dict.fromkeys(
        ("AgentSilent", "NotAnAgent", "UnknownVersion", "WrongVersion"), "twofold.client.negotiate"
    ),
    "Question": "twofold.client.permissions",
    "ClientSession": "twofold.client.session",
    **dict.fromkeys(("FileNotReadable", "Reply", "TurnFailed"), "twofold.client.turns"),
    "Problem": "twofold.peer.problems",
    **dict.fromkeys(("Receiver", "Transport"), "twofold.transport.base"),
    "memory_pair": "twofold.transport.memory",
    **dict.fromkeys(("CommandNotStarted", "Process", "ProcessEnded"), "twofold.transport.process"),
    **dict.fromkeys(("Stdio", "StdioLost", "StdioUnavailable"), "twofold.transport.stdio"),
    **dict.fromkeys(
        ("Draft", "Message", "Session", "Sessions", "Terminal", "ToolCall", "snapshot"),
        "twofold.session",
    ),
    "NotBase64": "twofold.session.reduce",
    **dict.fromkeys(("UNSET", "Fault", "Malformed"), "twofold.wire.base"),
    "encode": "twofold.wire.codec",
}


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
