"""Questions to the user and their answers, one version into the other."""

from typing import Any

from msgspec.structs import replace

from twofold.convert.carry import recast
from twofold.convert.losses import Losses
from twofold.wire import v1, v2
from twofold.wire.base import UNSET
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
    losses.report(f"{path}.format", f"version 1 does not know the format {question.format!r}")
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
