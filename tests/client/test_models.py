"""The models of an agent: a config option, or what some agents of version 1 send beside modes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.idle_clock import simulated
from tests.support.raw_agent import Json, RawAgent, talk
from twofold.client.models import read_models
from twofold.errors import NotSupported
from twofold.rpc.errors import RequestFailed
from twofold.wire import codec, v1

MODELS = {
    "currentModelId": "big",
    "availableModels": [
        {"modelId": "big", "name": "Big one", "description": "slow"},
        {"modelId": "small", "name": "Small one"},
    ],
}
OPTION = {
    "id": "engine",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "a",
    "options": [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}],
}


def new_session(**fields: Json) -> Json:
    return {"sessionId": "s", **fields}


def requests(agent: RawAgent, method: str) -> list[Json]:
    return [each["params"] for each in agent.messages if each.get("method") == method]


@simulated
async def test_a_model_outside_the_schema_is_chosen_with_its_own_request() -> None:
    answers = {"session/new": new_session(models=MODELS), "session/set_model": {}}
    async with talk(1, answers) as (client, agent):
        session = await client.new_session("/work")
        models = session.models
        assert models is not None
        assert models.current_value == "big"
        assert [getattr(each, "value", None) for each in models.options] == ["big", "small"]
        assert session.state.config_options == []
        await session.set_model("small")
        assert requests(agent, "session/set_model") == [{"sessionId": "s", "modelId": "small"}]
        assert session.models is not None
        assert session.models.current_value == "small"


@simulated
async def test_a_refused_model_is_not_the_current_one() -> None:
    def refuse(agent: RawAgent, message: Json) -> None:
        agent.send({"id": message["id"], "error": {"code": -32602, "message": "no"}})

    answers = {"session/new": new_session(models=MODELS), "session/set_model": refuse}
    async with talk(1, answers) as (client, _):
        session = await client.new_session("/work")
        with pytest.raises(RequestFailed):
            await session.set_model("small")
        assert session.models is not None
        assert session.models.current_value == "big"


@simulated
async def test_a_config_option_goes_before_models_outside_the_schema() -> None:
    def set_option(agent: RawAgent, message: Json) -> None:
        value = message["params"]["value"]
        agent.answer(message, {"configOptions": [{**OPTION, "currentValue": value}]})

    answers = {
        "session/new": new_session(models=MODELS, configOptions=[OPTION]),
        "session/set_config_option": set_option,
    }
    async with talk(1, answers) as (client, agent):
        session = await client.new_session("/work")
        await session.set_model("b")
        assert session.models is not None
        assert session.models.current_value == "b"
        assert not requests(agent, "session/set_model")


@simulated
async def test_an_agent_without_models_has_none_to_choose() -> None:
    async with talk(2) as (client, _):
        session = await client.new_session("/work")
        assert session.models is None
        with pytest.raises(NotSupported, match="no choice of models"):
            await session.set_model("small")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["currentModelId", "availableModels", "modelId", "name", "description"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(JSON)
def test_whatever_an_agent_sends_as_models_is_read_or_ignored(models: Json) -> None:
    found = read_models(codec.read(new_session(models=models), v1.NewSessionResponse))
    if found is not None:
        assert isinstance(models, dict)
        assert found.current_value == models["currentModelId"]
