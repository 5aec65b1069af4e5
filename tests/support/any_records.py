"""Messages and records with any junk in them, for tests of what reads recordings."""

from hypothesis import strategies as st

FIELDS = [
    *("sessionId", "update", "sessionUpdate", "prompt", "toolCall", "options", "outcome", "state"),
    *("terminalId", "requestId", "cwd", "modes", "configOptions", "stopReason", "protocolVersion"),
    *("replayFrom", "modeId", "configId", "content", "type", "text", "path", "patch", "messageId"),
]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["s", "s2", "t", "", "idle"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)
    ),
    max_leaves=6,
)
METHODS = st.sampled_from(
    [
        *("initialize", "session/new", "session/load", "session/resume", "session/prompt"),
        *("session/update", "session/cancel", "session/fork", "session/close", "session/list"),
        *("session/set_mode", "session/request_permission", "terminal/create", "terminal/output"),
        *("fs/read_text_file", "elicitation/create", "$/cancel_request", "_x/y"),
    ]
)
PARAMS = st.dictionaries(st.sampled_from(FIELDS), JUNK, max_size=4) | JUNK
IDS = st.sampled_from([0, 1, 2, "1", "p"])
VARIANTS = st.sampled_from(
    [
        *("agent_message_chunk", "user_message", "agent_message", "tool_call", "tool_call_update"),
        *("plan", "plan_update", "state_update", "terminal_update", "terminal_output_chunk"),
        *("usage_update", "session_info_update", "config_option_update", "notice", "_mood"),
    ]
)
UPDATES = st.builds(
    lambda session, variant, rest: {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": session, "update": {**rest, "sessionUpdate": variant}},
    },
    st.sampled_from(["s", "s2"]),
    VARIANTS,
    st.dictionaries(st.sampled_from(FIELDS), JUNK, max_size=4),
)
MESSAGES = UPDATES | (
    st.builds(lambda i, m, p: {"id": i, "method": m, "params": p}, IDS, METHODS, PARAMS)
    | st.builds(lambda m, p: {"method": m, "params": p}, METHODS, PARAMS)
    | st.builds(lambda i, r: {"id": i, "result": r}, IDS, PARAMS)
    | st.builds(lambda i, e: {"id": i, "error": e}, IDS, JUNK)
).map(lambda message: {"jsonrpc": "2.0", **message})
RECORDS = (
    st.builds(lambda way, m: {"dir": way, "message": m}, st.sampled_from(["c2a", "a2c"]), MESSAGES)
    | MESSAGES
    | PARAMS
    | st.builds(
        lambda kind, v: {"dir": kind, **v},
        st.sampled_from(["stderr", "exit", "a2c"]),
        st.dictionaries(st.sampled_from(["text", "code", "exit", "noise"]), JUNK),
    )
)
