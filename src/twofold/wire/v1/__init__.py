"""ACP version 1: only what version 2 says differently.

The schema of version 1 is closed, and strict peers fail on what they do not know. Reading it here
is as open as reading version 2: an unknown variant, kind or status is kept.
"""

from twofold.wire.content import *
from twofold.wire.elicitation import *
from twofold.wire.methods import Method
from twofold.wire.shared import *
from twofold.wire.v1.requests import *
from twofold.wire.v1.updates import *

METHODS: dict[str, Method] = {
    "initialize": Method("agent", InitializeRequest, InitializeResponse),
    "authenticate": Method("agent", AuthenticateRequest, Empty),
    "logout": Method("agent", Empty, Empty),
    "session/new": Method("agent", NewSessionRequest, NewSessionResponse),
    "session/load": Method("agent", LoadSessionRequest, SessionSetup),
    "session/list": Method("agent", ListSessionsRequest, ListSessionsResponse),
    "session/delete": Method("agent", SessionParams, Empty),
    "session/resume": Method("agent", ResumeSessionRequest, SessionSetup),
    "session/close": Method("agent", SessionParams, Empty),
    "session/set_mode": Method("agent", SetSessionModeRequest, Empty),
    "session/set_config_option": Method(
        "agent", SetSessionConfigOptionRequest, SetSessionConfigOptionResponse
    ),
    "session/prompt": Method("agent", PromptRequest, PromptResponse),
    "session/cancel": Method("agent", SessionParams, None),
    "session/request_permission": Method(
        "client", RequestPermissionRequest, RequestPermissionResponse
    ),
    "session/update": Method("client", SessionNotification, None),
    "fs/read_text_file": Method("client", ReadTextFileRequest, ReadTextFileResponse),
    "fs/write_text_file": Method("client", WriteTextFileRequest, Empty),
    "terminal/create": Method("client", CreateTerminalRequest, CreateTerminalResponse),
    "terminal/output": Method("client", TerminalRequest, TerminalOutputResponse),
    "terminal/release": Method("client", TerminalRequest, Empty),
    "terminal/wait_for_exit": Method("client", TerminalRequest, TerminalExitStatus),
    "terminal/kill": Method("client", TerminalRequest, Empty),
    "elicitation/create": Method("client", CreateElicitationRequest, CreateElicitationResponse),
    "elicitation/complete": Method("client", CompleteElicitationNotification, None),
    "$/cancel_request": Method("both", CancelRequestNotification, None),
}
