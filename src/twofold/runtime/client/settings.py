"""What can be set in a session: config options, and the modes of version 1 that stand for one."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from twofold.errors import BadAnswer, NotSupported
from twofold.runtime.problems import Problem
from twofold.wire import v1, v2

if TYPE_CHECKING:
    from twofold.runtime.client.session import ClientSession


async def set_mode(session: "ClientSession", mode: str) -> None:
    """Choose a mode: the config option of category `mode`, whatever it is called."""
    for option in session.state.config_options:
        if isinstance(option, v2.SessionConfigSelect) and option.category == "mode":
            await set_config_option(session, option.config_id, mode)
            return
    raise NotSupported(f"{session.client.agent_name} has no modes in this session.")


async def set_config_option(session: "ClientSession", config_id: str, value: str | bool) -> None:
    """Choose a value for a config option; the state shows it when the agent has agreed."""
    upgrader = session.upgrader
    # the option was made of modes: only then is there no option of the agent's own
    if upgrader is not None and upgrader.is_made_mode(config_id):
        await _set_mode_v1(session, str(value))
        return

    def arrived(outcome: Any) -> Awaitable[None] | None:
        return _options_set(session, config_id, value, outcome)

    kind = "boolean" if isinstance(value, bool) else "id"
    request = v2.SetSessionConfigOptionRequest(session.session_id, config_id, kind, value)
    try:
        await session.client.call(
            "session/set_config_option", request, arrived=session.then(arrived)
        )
    except BadAnswer as error:  # it agreed, though not in the words of the protocol
        session.client.report(Problem("answer", str(error), session.session_id))


async def _set_mode_v1(session: "ClientSession", mode: str) -> None:
    def chosen(outcome: Any) -> Awaitable[None] | None:
        if isinstance(outcome, Exception) or session.upgrader is None:
            return None
        return session.apply_all(session.upgrader.mode_set(mode))

    request = v1.SetSessionModeRequest(session.session_id, mode)
    await session.client.request_v1("session/set_mode", request, session.then(chosen))


def _options_set(
    session: "ClientSession", config_id: str, value: str | bool, outcome: Any
) -> Awaitable[None] | None:
    """The answer, in its place among the updates."""
    upgrader = session.upgrader
    if isinstance(outcome, v1.SetSessionConfigOptionResponse) and upgrader is not None:
        return session.apply_all(upgrader.update(v1.ConfigOptionUpdate(outcome.config_options)))
    if isinstance(outcome, v2.SetSessionConfigOptionResponse):
        return session.apply_all([v2.ConfigOptionUpdate(outcome.config_options)])
    if not isinstance(outcome, BadAnswer):
        return None
    options = [_chosen(option, config_id, value) for option in session.state.config_options]
    if upgrader is not None:
        own = [option for option in options if not upgrader.is_made_mode(_id_of(option))]
        options = upgrader.options_set(v2.SetSessionConfigOptionResponse(own))
    return session.apply_all([v2.ConfigOptionUpdate(options)])


def _chosen(
    option: v2.SessionConfigOption, config_id: str, value: str | bool
) -> v2.SessionConfigOption:
    return replace(option, current_value=value) if _id_of(option) == config_id else option


def _id_of(option: v2.SessionConfigOption) -> str:
    return option.config_id if isinstance(option, v2.SessionConfigCommon) else ""
