"""Requests and their results, one version into the other, without memory.

All but session/update, session/request_permission and the result of session/prompt, whose sense
depends on what went before. A method that the other version does not have is refused; so is
whatever would ask for something else once a part of it is left out. Any other part that cannot be
carried is left out and reported.

Not reported, because nothing is lost: null for omitted, an empty `_meta` where there is no place
for one, an empty list where a version requires a list, a name for a peer that has none, and a mode
that is also a config option.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from twofold.convert.capabilities import (
    downgrade_agent,
    downgrade_client,
    kept,
    upgrade_agent,
    upgrade_client,
)
from twofold.convert.downgrade import downgrade_block
from twofold.convert.losses import Losses, NotConvertible, carried, recast
from twofold.convert.options import (
    MODE,
    downgrade_config_options,
    modes_of,
    upgrade_config_options,
    with_modes,
)
from twofold.convert.upgrade import is_rfc3339, is_uri, upgrade_block
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed, Omittable, Wire
from twofold.wire.content import UnknownContent
from twofold.wire.elicitation import (
    CreateElicitationResponse,
    ElicitationAccept,
    ElicitationPropertySchema,
    MultiSelectPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
    UnknownElicitation,
)
from twofold.wire.shared import CancelRequestNotification, Method

# Questions to the user and their answers, one version into the other.


def upgrade_question(
    params: v1.CreateElicitationRequest, losses: Losses
) -> v2.CreateElicitationRequest:
    _refuse_scope(params, losses)
    if not isinstance(params, v1.ElicitationForm):
        return params
    form, path = params.requested_schema, "requestedSchema"
    for name, question in (form.properties or {}).items():
        _refuse_no_choice(question, losses, f"{path}.properties.{name}")
    schema = recast(
        form,
        v2.ElicitationSchema,
        losses,
        path,
        type="object" if form.type is UNSET else form.type,
        properties=form.properties or {},
    )
    return recast(params, v2.ElicitationForm, losses, requested_schema=schema)


def downgrade_question(
    params: v2.CreateElicitationRequest, losses: Losses
) -> v1.CreateElicitationRequest:
    if not isinstance(params, v2.ElicitationForm):
        return params
    form, path = params.requested_schema, "requestedSchema"
    questions = {
        name: _downgrade_format(question, losses, f"{path}.properties.{name}")
        for name, question in form.properties.items()
    }
    schema = recast(form, v1.ElicitationSchema, losses, path, properties=questions)
    return recast(params, v1.ElicitationForm, losses, requested_schema=schema)


def _refuse_scope(params: v1.CreateElicitationRequest, losses: Losses) -> None:
    # v1 lets a question belong to a session and a request at once, or to a request without an id
    if isinstance(params, UnknownElicitation):
        scope = params.raw.fields
    else:
        scope = {"requestId": params.request_id}
    if scope.get("requestId", UNSET) is None or {"sessionId", "requestId"} <= scope.keys():
        raise losses.refuse("requestId", "version 2 asks for one session, or for one request")


def _refuse_no_choice(question: ElicitationPropertySchema, losses: Losses, path: str) -> None:
    choices: list[Any] = []
    match question:
        case StringPropertySchema():
            choices = [question.enum, question.one_of]
        case MultiSelectPropertySchema(items=StringMultiSelectItems() as items):
            choices = [items.enum]
        case MultiSelectPropertySchema(items=TitledMultiSelectItems() as items):
            choices = [items.any_of]
    if [] in choices:  # v2: at least one. Asking without the list would allow any answer
        raise losses.refuse(path, "version 2 has no choice among nothing")


_FORMATS = {"email", "uri", "date", "date-time"}


def _downgrade_format(
    question: ElicitationPropertySchema, losses: Losses, path: str
) -> ElicitationPropertySchema:
    if not isinstance(question, StringPropertySchema) or not question.format:
        return question
    if question.format in _FORMATS:
        return question
    losses.report(f"{path}.format", f"version 1 has no format {question.format!r}")
    return replace(question, format=UNSET)


def downgrade_answer(
    result: CreateElicitationResponse, losses: Losses
) -> CreateElicitationResponse:
    if not isinstance(result, ElicitationAccept) or not result.content:
        return result
    content = {}
    for name, value in result.content.items():
        if _is_answer(value):
            content[name] = value
        else:
            losses.report(f"content.{name}", "version 1 answers with scalars or lists of strings")
    return replace(result, content=content)


def _is_answer(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str | bool | int | float)


W = TypeVar("W", bound=Wire)


# ---- sessions ------------------------------------------------------------------------------


def _upgrade_new(params: v1.NewSessionRequest, losses: Losses) -> v2.NewSessionRequest:
    servers = _upgrade_servers(params.mcp_servers, losses)
    return recast(params, v2.NewSessionRequest, losses, mcp_servers=servers)


def _downgrade_new(params: v2.NewSessionRequest, losses: Losses) -> v1.NewSessionRequest:
    servers = _downgrade_servers(params.mcp_servers or [], losses)  # v1 requires the list
    return recast(params, v1.NewSessionRequest, losses, mcp_servers=servers)


def _upgrade_load(params: v1.LoadSessionRequest, losses: Losses) -> v2.ResumeSessionRequest:
    shape, start = v2.ResumeSessionRequest, v2.ReplayFromStart()
    servers = _upgrade_servers(params.mcp_servers, losses)
    return recast(params, shape, losses, mcp_servers=servers, replay_from=start)


def _upgrade_resume(params: v1.ResumeSessionRequest, losses: Losses) -> v2.ResumeSessionRequest:
    servers: Omittable[list[v2.McpServer]] = UNSET
    if params.mcp_servers is not UNSET:
        servers = _upgrade_servers(params.mcp_servers, losses)
    return recast(params, v2.ResumeSessionRequest, losses, mcp_servers=servers)


def _downgrade_resume(
    params: v2.ResumeSessionRequest, losses: Losses
) -> v1.LoadSessionRequest | v1.ResumeSessionRequest:
    replay, servers = params.replay_from, _downgrade_servers(params.mcp_servers or [], losses)
    if isinstance(replay, v2.ReplayFromStart):
        if replay.meta or replay.unknown:
            losses.report("replayFrom", "version 1 replays by method, and has no such object")
        return recast(params, v1.LoadSessionRequest, losses, mcp_servers=servers)
    if replay:  # v2: an agent must not substitute another cursor, or none
        raise losses.refuse("replayFrom", f"version 1 cannot replay from {replay.tag!r}")
    given = UNSET if params.mcp_servers is UNSET else servers
    return recast(params, v1.ResumeSessionRequest, losses, mcp_servers=given)


def _downgrade_fork(params: v2.ResumeSessionRequest, losses: Losses) -> v1.ResumeSessionRequest:
    if params.replay_from:
        raise losses.refuse("replayFrom", "a session that is forked is not replayed")
    servers = _downgrade_servers(params.mcp_servers or [], losses)
    return recast(params, v1.ResumeSessionRequest, losses, mcp_servers=servers)


def _upgrade_setup(
    result: v1.NewSessionResponse | v1.SessionSetup,
    losses: Losses,
    shape: type[W],
) -> W:
    options: Omittable[list[v2.SessionConfigOption]] = UNSET
    if result.config_options is not None and result.config_options is not UNSET:
        options = upgrade_config_options(result.config_options, losses)
    if result.modes:
        options = with_modes(options or [], result.modes, losses)
    return recast(result, shape, losses, config_options=options)


def _downgrade_setup(
    result: v2.NewSessionResponse | v2.ResumeSessionResponse, losses: Losses, shape: type[W]
) -> W:
    if result.available_commands:
        losses.report("availableCommands", "version 1 has commands in an update only")
    options: Omittable[list[v1.SessionConfigOption]] = UNSET
    if result.config_options is not UNSET:
        options = downgrade_config_options(result.config_options, losses)
    modes = modes_of(result.config_options or []) or UNSET
    return recast(result, shape, losses, modes=modes, config_options=options)


def _upgrade_list(result: v1.ListSessionsResponse, losses: Losses) -> v2.ListSessionsResponse:
    sessions = [
        _upgrade_info(info, losses, f"sessions[{index}]")
        for index, info in enumerate(result.sessions)
    ]
    return recast(result, v2.ListSessionsResponse, losses, sessions=sessions)


def _upgrade_info(info: v1.SessionInfo, losses: Losses, path: str) -> v2.SessionInfo:
    updated_at = info.updated_at
    if updated_at is not UNSET and updated_at is not None and not is_rfc3339(updated_at):
        losses.report(f"{path}.updatedAt", "version 2 requires a time with its offset (RFC 3339)")
        updated_at = UNSET
    return recast(info, v2.SessionInfo, losses, path, updated_at=updated_at)


def _downgrade_list(result: v2.ListSessionsResponse, losses: Losses) -> v1.ListSessionsResponse:
    sessions = [
        recast(info, v1.SessionInfo, losses, f"sessions[{index}]")
        for index, info in enumerate(result.sessions)
    ]
    return recast(result, v1.ListSessionsResponse, losses, sessions=sessions)


# ---- MCP servers ---------------------------------------------------------------------------


def _upgrade_servers(servers: list[v1.McpServer], losses: Losses) -> list[v2.McpServer]:
    return kept(
        _upgrade_server(server, losses, f"mcpServers[{index}]")
        for index, server in enumerate(servers)
    )


def _downgrade_servers(servers: list[v2.McpServer], losses: Losses) -> list[v1.McpServer]:
    return kept(
        _downgrade_server(server, losses, f"mcpServers[{index}]")
        for index, server in enumerate(servers)
    )


def _upgrade_server(server: v1.McpServer, losses: Losses, path: str) -> v2.McpServer | None:
    match server:
        case v1.McpServerStdio():
            return recast(server, v2.McpServerStdio, losses, path)
        case v1.McpServerHttp():
            if is_uri(server.url):
                return recast(server, v2.McpServerHttp, losses, path)
            losses.report(f"{path}.url", "version 2 requires a URI")
            return None
        case v1.McpServerSse():
            losses.report(path, "version 2 has no MCP servers over SSE")
            return None
    try:  # some clients of version 1 write `type: "stdio"`, which version 2 has
        read: v2.McpServer = codec.read(server.raw.fields, v2.McpServer)
    except Malformed as error:
        losses.report(path, error.reason)
        return None
    return read


def _downgrade_server(server: v2.McpServer, losses: Losses, path: str) -> v1.McpServer | None:
    # v1 requires the lists
    match server:
        case v2.McpServerStdio():
            args, env = server.args or [], server.env or []
            return recast(server, v1.McpServerStdio, losses, path, args=args, env=env)
        case v2.McpServerHttp():
            headers = server.headers or []
            return recast(server, v1.McpServerHttp, losses, path, headers=headers)
    if server.tag == "acp":  # unstable, and the same in both
        return v1.UnknownMcpServer(raw=server.raw)
    losses.report(path, f"version 1 has no MCP servers of type {server.tag!r}")
    return None


# ---- setting options -----------------------------------------------------------------------


def _upgrade_set_mode(
    params: v1.SetSessionModeRequest, losses: Losses
) -> v2.SetSessionConfigOptionRequest:
    return v2.SetSessionConfigOptionRequest(
        params.session_id,
        MODE,
        "id",
        params.mode_id,
        **carried(params, v2.SetSessionConfigOptionRequest, losses, ""),
    )


def _upgrade_mode_set(result: Wire, losses: Losses) -> Wire:
    raise losses.refuse(
        "configOptions", "version 2 answers with all config options, which are not known here"
    )


def _upgrade_set_option(
    params: v1.SetSessionConfigOptionRequest, losses: Losses
) -> v2.SetSessionConfigOptionRequest:
    # v1: a string is an id, whatever its type is called
    kind = "boolean" if isinstance(params.value, bool) else "id"
    if params.type is not UNSET and params.type != kind:
        losses.report("type", f"version 1 reads this as of type {kind!r}")
    return recast(params, v2.SetSessionConfigOptionRequest, losses, type=kind)


def _downgrade_set_option(
    params: v2.SetSessionConfigOptionRequest, losses: Losses
) -> v1.SetSessionConfigOptionRequest:
    shape = v1.SetSessionConfigOptionRequest
    if params.type == "id" and isinstance(params.value, str):
        return recast(params, shape, losses, type=UNSET)
    if params.type == "boolean" and isinstance(params.value, bool):
        return recast(params, shape, losses)
    raise losses.refuse("type", f"version 1 has no such value of type {params.type!r}")


def _upgrade_options_set(
    result: v1.SetSessionConfigOptionResponse, losses: Losses
) -> v2.SetSessionConfigOptionResponse:
    options = upgrade_config_options(result.config_options, losses)
    return recast(result, v2.SetSessionConfigOptionResponse, losses, config_options=options)


def _downgrade_options_set(
    result: v2.SetSessionConfigOptionResponse, losses: Losses
) -> v1.SetSessionConfigOptionResponse:
    options = downgrade_config_options(result.config_options, losses)
    return recast(result, v1.SetSessionConfigOptionResponse, losses, config_options=options)


# ---- prompts -------------------------------------------------------------------------------


def _upgrade_prompt(params: v1.PromptRequest, losses: Losses) -> v2.PromptRequest:
    if not params.prompt:
        raise losses.refuse("prompt", "version 2 has no empty prompts")
    blocks = [
        upgrade_block(block, losses, f"prompt[{index}]")
        for index, block in enumerate(params.prompt)
    ]
    return recast(params, v2.PromptRequest, losses, prompt=blocks)


def _downgrade_prompt(params: v2.PromptRequest, losses: Losses) -> v1.PromptRequest:
    for index, block in enumerate(params.prompt):
        if isinstance(block, UnknownContent):  # the agent would answer another question
            reason = f"version 1 has no content of type {block.tag!r}"
            raise losses.refuse(f"prompt[{index}]", reason)
    blocks = [
        downgrade_block(block, losses, f"prompt[{index}]")
        for index, block in enumerate(params.prompt)
    ]
    return recast(params, v1.PromptRequest, losses, prompt=blocks)


# ---- methods -------------------------------------------------------------------------------

Convert: TypeAlias = Callable[[Any, Losses], Any]


class _Row(NamedTuple):
    """What becomes of a method: its name there, and how its params and result get there."""

    method: str
    params: Convert
    result: Convert | None = None


def _same(value: Wire, losses: Losses) -> Wire:
    return value


def _to(shape: type[W]) -> Convert:
    """For a struct whose fields the other version has too."""
    return lambda source, losses: recast(source, shape, losses)


def _setup(convert: Callable[[Any, Losses, type[W]], W], shape: type[W]) -> Convert:
    return lambda result, losses: convert(result, losses, shape)


def _upgrade_cancel(params: CancelRequestNotification, losses: Losses) -> Wire:
    if params.request_id is None:
        raise losses.refuse("requestId", "version 2 has no requests without an id")
    return params


_SHARED = {
    "session/delete": _Row("session/delete", _same, _same),
    "session/close": _Row("session/close", _same, _same),
    "session/cancel": _Row("session/cancel", _same),
    "elicitation/complete": _Row("elicitation/complete", _same),
}

_UPGRADES = _SHARED | {
    "initialize": _Row("initialize", upgrade_client, upgrade_agent),
    "authenticate": _Row("auth/login", _to(v2.LoginAuthRequest), _same),
    "logout": _Row("auth/logout", _same, _same),
    "session/new": _Row("session/new", _upgrade_new, _setup(_upgrade_setup, v2.NewSessionResponse)),
    "session/load": _Row(
        "session/resume", _upgrade_load, _setup(_upgrade_setup, v2.ResumeSessionResponse)
    ),
    "session/resume": _Row(
        "session/resume", _upgrade_resume, _setup(_upgrade_setup, v2.ResumeSessionResponse)
    ),
    "session/fork": _Row(  # unstable: params as of a resume, a result as of a new session
        "session/fork", _upgrade_resume, _setup(_upgrade_setup, v2.NewSessionResponse)
    ),
    "session/list": _Row("session/list", _to(v2.ListSessionsRequest), _upgrade_list),
    "session/set_mode": _Row("session/set_config_option", _upgrade_set_mode, _upgrade_mode_set),
    "session/set_config_option": _Row(
        "session/set_config_option", _upgrade_set_option, _upgrade_options_set
    ),
    "session/prompt": _Row("session/prompt", _upgrade_prompt),
    "elicitation/create": _Row("elicitation/create", upgrade_question, _same),
    "$/cancel_request": _Row("$/cancel_request", _upgrade_cancel),
}

_DOWNGRADES = _SHARED | {
    "initialize": _Row("initialize", downgrade_client, downgrade_agent),
    "auth/login": _Row("authenticate", _to(v1.AuthenticateRequest), _same),
    "auth/logout": _Row("logout", _same, _same),
    "session/new": _Row(
        "session/new", _downgrade_new, _setup(_downgrade_setup, v1.NewSessionResponse)
    ),
    "session/resume": _Row(
        "session/resume", _downgrade_resume, _setup(_downgrade_setup, v1.SessionSetup)
    ),
    "session/fork": _Row(
        "session/fork", _downgrade_fork, _setup(_downgrade_setup, v1.NewSessionResponse)
    ),
    "session/list": _Row("session/list", _to(v1.ListSessionsRequest), _downgrade_list),
    "session/set_config_option": _Row(
        "session/set_config_option", _downgrade_set_option, _downgrade_options_set
    ),
    "session/prompt": _Row("session/prompt", _downgrade_prompt),
    "elicitation/create": _Row("elicitation/create", downgrade_question, downgrade_answer),
    "$/cancel_request": _Row("$/cancel_request", _same),
}


def upgrade_params(method: str, params: Any, losses: Losses) -> tuple[str, Any]:
    """A request or notification of version 1 as one of version 2: its method and its params."""
    row = _UPGRADES.get(method)
    if row is None:
        raise _not_here(method, v2.METHODS, losses)
    return row.method, row.params(params, losses)


def upgrade_result(method: str, result: Any, losses: Losses) -> Any:
    """The result of version 1's `method` as that of the method it becomes."""
    row = _UPGRADES.get(method)
    if row is None or row.result is None:
        raise _not_here(method, v2.METHODS, losses)
    return row.result(result, losses)


def downgrade_params(method: str, params: Any, losses: Losses) -> tuple[str, Any]:
    """A request or notification of version 2 as one of version 1: its method and its params."""
    row = _DOWNGRADES.get(method)
    if row is None:
        raise _not_here(method, v1.METHODS, losses)
    converted = row.params(params, losses)
    # A resume that replays is version 1's load.
    loads = isinstance(converted, v1.LoadSessionRequest)
    return "session/load" if loads else row.method, converted


def downgrade_result(method: str, result: Any, losses: Losses) -> Any:
    """The result of version 2's `method` as that of the method it becomes."""
    row = _DOWNGRADES.get(method)
    if row is None or row.result is None:
        raise _not_here(method, v1.METHODS, losses)
    return row.result(result, losses)


def _not_here(method: str, methods: dict[str, Method], losses: Losses) -> NotConvertible:
    if method in methods:
        return losses.refuse(method, "this is not converted by itself, but by a translation")
    return losses.refuse(method, "the other version has no such method")
