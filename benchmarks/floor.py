"""The least that can be done with a line: a typed decode into structs made for just this line.

No union to choose from, no field that the line does not hold, no care for what is unknown, no
work for the garbage collector. Nothing useful is cheaper in Python.
"""

from msgspec import Struct
from msgspec.json import Decoder


class _Bare(Struct, gc=False, rename="camel"):
    pass


class _Text(_Bare, tag_field="type", tag="text"):
    text: str


class _Chunk(_Bare, tag_field="sessionUpdate", tag="agent_message_chunk"):
    message_id: str
    content: _Text


class _ChunkParams(_Bare):
    session_id: str
    update: _Chunk


class ChunkLine(_Bare):
    """A chunk, in either version."""

    params: _ChunkParams


class _DiffV1(_Bare, tag_field="type", tag="diff"):
    path: str
    old_text: str
    new_text: str


class _DiffCallV1(_Bare, tag_field="sessionUpdate", tag="tool_call_update"):
    tool_call_id: str
    status: str
    content: list[_DiffV1]


class _DiffParamsV1(_Bare):
    session_id: str
    update: _DiffCallV1


class _DiffLineV1(_Bare):
    params: _DiffParamsV1


class _Change(_Bare):
    operation: str
    path: str


class _Patch(_Bare):
    format: str
    text: str


class _DiffV2(_Bare, tag_field="type", tag="diff"):
    changes: list[_Change]
    patch: _Patch


class _DiffCallV2(_Bare, tag_field="sessionUpdate", tag="tool_call_update"):
    tool_call_id: str
    status: str
    content: list[_DiffV2]


class _DiffParamsV2(_Bare):
    session_id: str
    update: _DiffCallV2


class _DiffLineV2(_Bare):
    params: _DiffParamsV2


class _Entry(_Bare):
    content: str
    priority: str
    status: str


class _PlanV1(_Bare, tag_field="sessionUpdate", tag="plan"):
    entries: list[_Entry]


class _PlanParamsV1(_Bare):
    session_id: str
    update: _PlanV1


class _PlanLineV1(_Bare):
    params: _PlanParamsV1


class _Items(_Bare, tag_field="type", tag="items"):
    plan_id: str
    entries: list[_Entry]


class _PlanV2(_Bare, tag_field="sessionUpdate", tag="plan_update"):
    plan: _Items


class _PlanParamsV2(_Bare):
    session_id: str
    update: _PlanV2


class _PlanLineV2(_Bare):
    params: _PlanParamsV2


chunk = Decoder(ChunkLine).decode
diff_v1 = Decoder(_DiffLineV1).decode
diff_v2 = Decoder(_DiffLineV2).decode
plan_v1 = Decoder(_PlanLineV1).decode
plan_v2 = Decoder(_PlanLineV2).decode
