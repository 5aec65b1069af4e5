"""ACP version 2 (draft of November 2026), and the shapes of its earlier drafts.

Only what version 1 says differently. Shapes of earlier drafts carry the month in their name; they
are read and written back as they came, and `convert.drafts` lifts them to the newest.
"""

from twofold.wire.content import *
from twofold.wire.elicitation import *
from twofold.wire.methods import Method
from twofold.wire.shared import *
from twofold.wire.v2.requests import *
from twofold.wire.v2.tools import *
from twofold.wire.v2.updates import *

METHODS: dict[str, Method] = {
    "initialize": Method("agent", InitializeRequest, InitializeResponse),
    "auth/login": Method("agent", LoginAuthRequest, Empty),
    "auth/logout": Method("agent", Empty, Empty),
    "session/new": Method("agent", NewSessionRequest, NewSessionResponse),
    "session/list": Method("agent", ListSessionsRequest, ListSessionsResponse),
    "session/delete": Method("agent", SessionParams, Empty),
    "session/resume": Method("agent", ResumeSessionRequest, ResumeSessionResponse),
    "session/close": Method("agent", SessionParams, Empty),
    "session/set_config_option": Method(
        "agent", SetSessionConfigOptionRequest, SetSessionConfigOptionResponse
    ),
    "session/prompt": Method("agent", PromptRequest, PromptResponse),
    "session/cancel": Method("agent", SessionParams, None),
    "tool_call/cancel": Method("agent", CancelToolCallRequest, Empty),
    "terminal/cancel": Method("agent", CancelTerminalRequest, Empty),
    "session/request_permission": Method(
        "client", RequestPermissionRequest, RequestPermissionResponse
    ),
    "session/update": Method("client", UpdateSessionNotification, None),
    "elicitation/create": Method("client", CreateElicitationRequest, CreateElicitationResponse),
    "elicitation/complete": Method("client", CompleteElicitationNotification, None),
    "$/cancel_request": Method("both", CancelRequestNotification, None),
}
