"""`initialize`, one version into the other: who the peers are, and what they can do.

Version 1 has a flag or marker for each thing a peer can do; version 2 takes some of them for
granted and has no field for others. A capability that only one version has is reported as a loss
where a peer has it (or, if the other version takes it for granted, where the peer lacks it).
Nothing here emulates: the bridge makes up for what an agent lacks.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from twofold.convert.losses import Losses, carried
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Extras, Maybe, Omittable, Wire
from twofold.wire.shared import Capability, EnvVariable, Implementation

NAMELESS = Implementation("unknown", "0")
"""The name of a version 1 peer that sends none; version 2 requires one."""

_GRANTED_BY_1 = "version 1 takes it for granted"
_GRANTED_BY_2 = "version 2 takes it for granted"
_LOGOUT = "version 2 has it wherever there are auth methods"
LACKING = frozenset({_GRANTED_BY_1, _GRANTED_BY_2, _LOGOUT})
"""The reasons of losses that a bridge does not report: it answers requests for these itself."""

T = TypeVar("T")
W = TypeVar("W", bound=Wire)


def named(info: Maybe[Implementation]) -> Implementation:
    """Who a peer of version 1 is, for version 2: neither the name nor the version is empty."""
    if not info:
        return NAMELESS
    if info.name and info.version:
        return info
    return replace(info, name=info.name or NAMELESS.name, version=info.version or NAMELESS.version)


# ---- the client ----------------------------------------------------------------------------


def upgrade_client(params: v1.InitializeRequest, losses: Losses) -> v2.InitializeRequest:
    """The client of version 1 as one of version 2."""
    capabilities = params.client_capabilities
    return v2.InitializeRequest(
        2,
        named(params.client_info),
        _upgrade_client_capabilities(capabilities, losses) if capabilities else UNSET,
        **carried(params, v2.InitializeRequest, losses, ""),
    )


def downgrade_client(
    params: v2.InitializeRequest | v2.AugustInitializeRequest, losses: Losses
) -> v1.InitializeRequest:
    """The client of version 2 as one of version 1."""
    return v1.InitializeRequest(
        1,
        _downgrade_client_capabilities(params.capabilities or v2.ClientCapabilities(), losses),
        params.info,
        **carried(params, v1.InitializeRequest, losses, ""),
    )


def _upgrade_client_capabilities(
    capabilities: v1.ClientCapabilities, losses: Losses
) -> v2.ClientCapabilities:
    path = "clientCapabilities"
    for name in ("subagents", "plan"):  # unstable
        capabilities, able = _taken(capabilities, name)
        if able is not UNSET and able is not None:
            losses.report(f"{path}.{name}", "version 2 has no such capability")
    _report_files(capabilities.fs, losses, f"{path}.fs")
    if capabilities.terminal:
        losses.report(f"{path}.terminal", "version 2 agents run their commands themselves")
    _report_understood(capabilities.session, losses, f"{path}.session")
    auth: Maybe[v2.ClientAuthCapabilities] = UNSET
    if capabilities.auth:
        auth = v2.ClientAuthCapabilities(
            _marker(capabilities.auth.terminal),
            **carried(capabilities.auth, v2.ClientAuthCapabilities, losses, f"{path}.auth"),
        )
    return v2.ClientCapabilities(
        auth, capabilities.elicitation, **carried(capabilities, v2.ClientCapabilities, losses, path)
    )


def _report_files(files: Omittable[v1.FileSystemCapabilities], losses: Losses, path: str) -> None:
    if not files:
        return
    for name, able in (
        ("readTextFile", files.read_text_file),
        ("writeTextFile", files.write_text_file),
    ):
        if able:
            losses.report(f"{path}.{name}", "version 2 agents use the file system themselves")
    _report_beside(files, losses, path)


def _report_understood(
    session: Maybe[v1.ClientSessionCapabilities], losses: Losses, path: str
) -> None:
    # Clients of version 2 understand these in any case, so the markers themselves are no loss.
    if not session:
        return
    _report_beside(session, losses, path)
    _report_beside(session.compaction, losses, f"{path}.compaction")
    _report_beside(session.notices, losses, f"{path}.notices")
    if session.config_options:
        _report_beside(session.config_options, losses, f"{path}.configOptions")
        _report_beside(session.config_options.boolean, losses, f"{path}.configOptions.boolean")


def _downgrade_client_capabilities(
    capabilities: v2.ClientCapabilities, losses: Losses
) -> v1.ClientCapabilities:
    path = "capabilities"
    auth: Omittable[v1.AuthCapabilities] = UNSET
    if capabilities.auth:
        auth = v1.AuthCapabilities(
            _flag(capabilities.auth.terminal, losses, f"{path}.auth.terminal"),
            **carried(capabilities.auth, v1.AuthCapabilities, losses, f"{path}.auth"),
        )
    # What every client of version 2 understands. `fs` and `terminal` it does not offer.
    session = v1.ClientSessionCapabilities(
        compaction=Capability(),
        config_options=v1.SessionConfigOptionsCapabilities(Capability()),
        notices=Capability(),
    )
    return v1.ClientCapabilities(
        session=session,
        auth=auth,
        elicitation=capabilities.elicitation,
        **carried(capabilities, v1.ClientCapabilities, losses, path),
    )


# ---- the agent -----------------------------------------------------------------------------


def upgrade_agent(result: v1.InitializeResponse, losses: Losses) -> v2.InitializeResponse:
    """The agent of version 1 as one of version 2."""
    capabilities = result.agent_capabilities or v1.AgentCapabilities()
    methods: list[v2.AuthMethod] = kept(
        upgrade_auth_method(method, losses, f"authMethods[{index}]")
        for index, method in enumerate(result.auth_methods or [])
    )
    logout = capabilities.auth.logout if capabilities.auth else UNSET
    # v2: a list of auth methods that is not empty means that login and logout are supported
    if bool(logout) != bool(methods):
        only = "version 2 has it only where there are auth methods"
        losses.report("agentCapabilities.auth.logout", _LOGOUT if methods else only)
    return v2.InitializeResponse(
        2,
        named(result.agent_info),
        _upgrade_agent_capabilities(capabilities, losses),
        UNSET if result.auth_methods is UNSET else methods,
        **carried(result, v2.InitializeResponse, losses, ""),
    )


def downgrade_agent(
    result: v2.InitializeResponse | v2.AugustInitializeResponse, losses: Losses
) -> v1.InitializeResponse:
    """The agent of version 2 as one of version 1."""
    methods: list[v1.AuthMethod] = kept(
        downgrade_auth_method(method, losses, f"authMethods[{index}]")
        for index, method in enumerate(result.auth_methods or [])
    )
    capabilities = _downgrade_agent_capabilities(
        result.capabilities or v2.AgentCapabilities(), bool(result.auth_methods), losses
    )
    return v1.InitializeResponse(
        1,
        capabilities,
        UNSET if result.auth_methods is UNSET else methods,
        result.info,
        **carried(result, v1.InitializeResponse, losses, ""),
    )


def _upgrade_agent_capabilities(
    capabilities: v1.AgentCapabilities, losses: Losses
) -> v2.AgentCapabilities:
    path = "agentCapabilities"
    prompt, mcp = capabilities.prompt_capabilities, capabilities.mcp_capabilities
    sessions = capabilities.session_capabilities or v1.SessionCapabilities()
    _report_lacking(capabilities, sessions, losses, path)
    return v2.AgentCapabilities(
        v2.SessionCapabilities(
            prompt=_upgrade_prompt_capabilities(prompt, losses, f"{path}.promptCapabilities"),
            mcp=_upgrade_mcp_capabilities(mcp, losses, f"{path}.mcpCapabilities"),
            delete=sessions.delete,
            additional_directories=sessions.additional_directories,
            **carried(sessions, v2.SessionCapabilities, losses, f"{path}.sessionCapabilities"),
        ),
        _upgrade_auth(capabilities.auth, losses, f"{path}.auth"),
        **carried(capabilities, v2.AgentCapabilities, losses, path),
    )


def _report_lacking(
    capabilities: v1.AgentCapabilities, sessions: v1.SessionCapabilities, losses: Losses, path: str
) -> None:
    if not capabilities.load_session:
        losses.report(f"{path}.loadSession", _GRANTED_BY_2)
    for name, marker in (
        ("list", sessions.list),
        ("resume", sessions.resume),
        ("close", sessions.close),
    ):
        if not marker:
            losses.report(f"{path}.sessionCapabilities.{name}", _GRANTED_BY_2)
        _report_beside(marker, losses, f"{path}.sessionCapabilities.{name}")


def _upgrade_prompt_capabilities(
    prompt: Omittable[v1.PromptCapabilities], losses: Losses, path: str
) -> Maybe[v2.PromptCapabilities]:
    if not prompt:
        return UNSET
    return v2.PromptCapabilities(
        _marker(prompt.image),
        _marker(prompt.audio),
        _marker(prompt.embedded_context),
        **carried(prompt, v2.PromptCapabilities, losses, path),
    )


def _upgrade_mcp_capabilities(
    mcp: Omittable[v1.McpCapabilities], losses: Losses, path: str
) -> v2.McpCapabilities:
    if not mcp:
        return v2.McpCapabilities(stdio=Capability())  # every agent of version 1 has it
    if mcp.sse:
        losses.report(f"{path}.sse", "version 2 has no MCP servers over SSE")
    mcp, acp = _taken(mcp, "acp")
    able = v2.McpCapabilities(
        Capability(), _marker(mcp.http), **carried(mcp, v2.McpCapabilities, losses, path)
    )
    return _with(able, "acp", {}) if acp is True else able


def _upgrade_auth(
    auth: Omittable[v1.AgentAuthCapabilities], losses: Losses, path: str
) -> Maybe[Capability]:
    # `auth` of version 2 is for extensions only; without any it means nothing.
    if not auth:
        return UNSET
    _report_beside(auth.logout, losses, f"{path}.logout")
    beside = carried(auth, Capability, losses, path)
    return Capability(**beside) if auth.meta or auth.unknown else UNSET


def _downgrade_agent_capabilities(
    capabilities: v2.AgentCapabilities, has_auth_methods: bool, losses: Losses
) -> v1.AgentCapabilities:
    path = "capabilities"
    session = capabilities.session
    auth: Omittable[v1.AgentAuthCapabilities] = UNSET
    if capabilities.auth or has_auth_methods:
        auth = v1.AgentAuthCapabilities(
            Capability() if has_auth_methods else UNSET,
            **carried(
                capabilities.auth or Capability(),
                v1.AgentAuthCapabilities,
                losses,
                f"{path}.auth",
            ),
        )
    beside = carried(capabilities, v1.AgentCapabilities, losses, path)
    if not session:
        losses.report(f"{path}.session", "version 1 takes sessions for granted")
        return v1.AgentCapabilities(auth=auth, **beside)
    return v1.AgentCapabilities(
        load_session=True,
        prompt_capabilities=_downgrade_prompt_capabilities(
            session.prompt, losses, f"{path}.session.prompt"
        ),
        mcp_capabilities=_downgrade_mcp_capabilities(session.mcp, losses, f"{path}.session.mcp"),
        session_capabilities=v1.SessionCapabilities(
            list=Capability(),
            delete=session.delete,
            additional_directories=session.additional_directories,
            resume=Capability(),
            close=Capability(),
            **carried(session, v1.SessionCapabilities, losses, f"{path}.session"),
        ),
        auth=auth,
        **beside,
    )


def _downgrade_prompt_capabilities(
    prompt: Maybe[v2.PromptCapabilities], losses: Losses, path: str
) -> Omittable[v1.PromptCapabilities]:
    if not prompt:
        return UNSET
    return v1.PromptCapabilities(
        _flag(prompt.image, losses, f"{path}.image"),
        _flag(prompt.audio, losses, f"{path}.audio"),
        _flag(prompt.embedded_context, losses, f"{path}.embeddedContext"),
        **carried(prompt, v1.PromptCapabilities, losses, path),
    )


def _downgrade_mcp_capabilities(
    mcp: Maybe[v2.McpCapabilities], losses: Losses, path: str
) -> Omittable[v1.McpCapabilities]:
    if not mcp or not mcp.stdio:
        losses.report(f"{path}.stdio", _GRANTED_BY_1)
    if not mcp:
        return UNSET
    _report_beside(mcp.stdio, losses, f"{path}.stdio")
    mcp, acp = _taken(mcp, "acp")
    able = v1.McpCapabilities(
        _flag(mcp.http, losses, f"{path}.http"), **carried(mcp, v1.McpCapabilities, losses, path)
    )
    return _with(able, "acp", True) if isinstance(acp, dict) else able


# ---- auth methods --------------------------------------------------------------------------


def upgrade_auth_method(
    method: v1.AuthMethod, losses: Losses, path: str = "authMethod"
) -> v2.AuthMethod | None:
    """A way to authenticate; None where it has no id or no name."""
    if isinstance(method, v1.AuthMethodAgent):
        return v2.AuthMethodAgent(
            method.id,
            method.name,
            method.description,
            **carried(method, v2.AuthMethodAgent, losses, path),
        )
    if isinstance(method, v1.AuthMethodTerminal):
        env = [EnvVariable(name, value) for name, value in (method.env or {}).items()]
        return v2.AuthMethodTerminal(
            method.id,
            method.name,
            method.description,
            method.args,
            UNSET if method.env is UNSET else env,
            **carried(method, v2.AuthMethodTerminal, losses, path),
        )
    # Read again: some agents of version 1 write `type: "agent"`, which version 2 has.
    raw = renamed(method.raw.fields, "id", "methodId", losses, path)
    if not (isinstance(raw.get("methodId"), str) and isinstance(raw.get("name"), str)):
        losses.report(path, "version 2 requires an id and a name")
        return None
    read: v2.AuthMethod = codec.read(raw, v2.AuthMethod)
    return read


def downgrade_auth_method(
    method: v2.AuthMethod, losses: Losses, path: str = "authMethod"
) -> v1.AuthMethod | None:
    """A way to authenticate; None for a type that version 1 does not have."""
    if isinstance(method, v2.UnknownAuthMethod):
        # A peer of version 1 would take it for a method that the agent handles.
        losses.report(path, f"version 1 has no auth methods of type {method.tag!r}")
        return None
    if isinstance(method, v2.AuthMethodAgent):
        return v1.AuthMethodAgent(
            method.method_id,
            method.name,
            method.description,
            **carried(method, v1.AuthMethodAgent, losses, path),
        )
    return v1.AuthMethodTerminal(
        method.method_id,
        method.name,
        method.description,
        method.args,
        UNSET if method.env is UNSET else _downgrade_env(method.env, losses, f"{path}.env"),
        **carried(method, v1.AuthMethodTerminal, losses, path),
    )


def _downgrade_env(env: list[EnvVariable], losses: Losses, path: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for index, variable in enumerate(env):
        if variable.name in values:
            losses.report(f"{path}[{index}]", "version 1 has one value for a variable: the last")
        values[variable.name] = variable.value
        _report_beside(variable, losses, f"{path}[{index}]")
    return values


# ---- markers, flags and the unknown --------------------------------------------------------


def renamed(raw: dict[str, T], old: str, new: str, losses: Losses, path: str) -> dict[str, T]:
    """An object that we do not understand, with a field that we do understand renamed."""
    if new in raw:
        losses.report(f"{path}.{new}", "this field means something else in the other version")
    return {new if name == old else name: value for name, value in raw.items() if name != new}


def _taken(part: W, name: str) -> tuple[W, Any]:
    """A part without a field that only the unstable schemas have, and that field."""
    if not isinstance(part.unknown, Extras) or name not in part.unknown.fields:
        return part, UNSET
    rest = {key: value for key, value in part.unknown.fields.items() if key != name}
    return replace(part, unknown=Extras(rest) if rest else UNSET), part.unknown.fields[name]


def _with(part: W, name: str, value: Any) -> W:
    """A part with a field that only the unstable schemas have."""
    beside = part.unknown.fields if isinstance(part.unknown, Extras) else {}
    return replace(part, unknown=Extras(beside | {name: value}))


def _marker(flag: Omittable[bool]) -> Maybe[Capability]:
    return Capability() if flag else UNSET


def _flag(marker: Maybe[Capability], losses: Losses, path: str) -> Omittable[bool]:
    _report_beside(marker, losses, path)
    return True if marker else UNSET


def _report_beside(part: Maybe[Wire], losses: Losses, path: str) -> None:
    """A part that the other version does not have, or has as a mere flag."""
    if part and (part.meta or isinstance(part.unknown, Extras)):
        losses.report(path, "the other version has no place for its metadata")


def kept(items: Iterable[T | None]) -> list[T]:
    """Those that could be converted."""
    return [item for item in items if item is not None]
