"""The models that some agents of version 1 offer in a field that is in no schema.

`session/new`, `session/load` and `session/resume` are answered with `models` beside `modes`, and
`session/set_model` chooses one. Other agents have a config option of category `model` instead.
"""

from typing import Any, Final

from twofold.convert.options import MODEL
from twofold.wire import v2
from twofold.wire.base import Extras, Wire

SET_MODEL: Final = "session/set_model"
MOST: Final = 1_000
"""How many models are read."""


def read_models(answer: Wire) -> v2.SessionConfigSelect | None:
    """The models in the answer to new, load or resume, as a config option would offer them.

    None if there are none, or if they cannot be read.
    """
    models = answer.unknown.fields.get("models") if isinstance(answer.unknown, Extras) else None
    if not isinstance(models, dict):
        return None
    current, offered = models.get("currentModelId"), models.get("availableModels")
    if not isinstance(current, str) or not isinstance(offered, list):
        return None
    choices = [choice for each in offered[:MOST] if (choice := _choice(each)) is not None]
    return v2.SessionConfigSelect(
        MODEL, "Model", category=MODEL, current_value=current, options=[*choices]
    )


def _choice(model: Any) -> v2.SessionConfigUngrouped | None:
    if not isinstance(model, dict) or not isinstance(model.get("modelId"), str):
        return None
    name, description = model.get("name"), model.get("description")
    return v2.SessionConfigUngrouped(
        model["modelId"],
        name if isinstance(name, str) else model["modelId"],
        description=description if isinstance(description, str) else None,
    )
