"""What a page may send: anything else is refused in words, whatever it is."""

import base64
import json
from contextlib import suppress
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.web import requests
from twofold.web.requests import (
    MOST_ATTACHMENTS,
    AnyRequest,
    Attachment,
    BadRequest,
    Open,
    Prompt,
    parse,
    prompt_parts,
)
from twofold.wire.content import AudioContent, EmbeddedResource, ImageContent

KINDS: list[type[AnyRequest]] = list(get_args(AnyRequest))
VALID: dict[str, Any] = {
    "int": 1,
    "str": "x",
    "window": [0, None],
    "attachments": [],
    "value": True,
}


def field_values(kind: type[AnyRequest]) -> dict[str, Any]:
    """A valid value for each field."""
    made: dict[str, Any] = {}
    for each in msgspec.structs.fields(kind):
        name = each.encode_name
        made[name] = VALID.get(name, 1 if name in ("id", "from", "to", "since") else "x")
    return made


def message(kind: type[AnyRequest], **fields: Any) -> bytes:
    tag = kind.__struct_config__.tag
    return json.dumps({"type": tag, **field_values(kind), **fields}).encode()


FIELDS = [(kind, name) for kind in KINDS for name in field_values(kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_request_is_read(kind: type[AnyRequest]) -> None:
    assert isinstance(parse(message(kind)), kind)


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_a_field_of_another_type_is_refused_and_named(kind: type[AnyRequest], name: str) -> None:
    with pytest.raises(BadRequest) as raised:
        parse(message(kind, **{name: {"an": ["object"]}}))
    assert str(raised.value).startswith("The message is no request: Expected ")
    assert f"$.{name}" in str(raised.value)
    assert raised.value.id == (None if name == "id" else 1)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "no JSON"),
        (b"nonsense", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b'{"type": "cancel"', "no JSON"),
        (b"[" * 100_000, "Expected `object`"),
        (b"[]", "Expected `object`"),
        (b"5", "Expected `object`"),
        (b"{}", "`type`"),
        (b'{"type": null}', "Expected `str`"),
        (b'{"type": "format.disk"}', "Invalid value 'format.disk'"),
        (b'{"type": "open"}', "missing required field `session`"),
        (b'{"type": "open", "session": "x", "window": [1]}', "Expected `array` of length 2"),
        (b'{"type": "open", "session": "x", "window": [-1, 2]}', "window"),
        (b'{"type": "window", "from": 5, "to": 2}', "window"),
        (b'{"type": "window", "from": 0, "to": 1000000}', "at most"),
        (b'{"type": "window", "from": 1e400}', "request"),
        (b'{"type": "prompt", "text": "\\ud800"}', "no JSON"),
    ],
)
def test_what_is_no_request_is_refused(sent: bytes, words: str) -> None:
    with pytest.raises(BadRequest, match=words.replace("$", r"\$")):
        parse(sent)


@given(st.binary() | st.text())
def test_nothing_but_a_refusal_is_raised_for_any_message(sent: bytes | str) -> None:
    with pytest.raises(BadRequest):
        parse(sent)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.sampled_from(FIELDS), JSON)
def test_any_value_of_a_field_is_read_or_refused(
    field: tuple[type[AnyRequest], str], value: Any
) -> None:
    kind, name = field
    with suppress(BadRequest):
        assert isinstance(parse(message(kind, **{name: value})), kind)


def test_an_open_request_holds_what_the_page_has_seen() -> None:
    found = parse(b'{"type":"open","id":1,"session":"s","epoch":"e","since":7,"window":[3,null]}')
    assert found == Open(id=1, session="s", epoch="e", since=7, window=(3, None))


# ---- prompts -------------------------------------------------------------------------------------


def attached(mime: str, data: bytes = b"data", name: str = "name.x") -> Attachment:
    return Attachment(name=name, mime=mime, data=base64.b64encode(data).decode())


@pytest.mark.parametrize(
    ("attachment", "embedded", "shape"),
    [
        (attached("image/png"), False, ImageContent),
        (attached("audio/wav"), False, AudioContent),
        (attached("image/svg+xml"), True, EmbeddedResource),
        (attached("text/plain"), True, EmbeddedResource),
        (attached("text/plain"), False, str),
        (attached("", b"\xff\xfe"), True, EmbeddedResource),
        (attached("application/pdf", b"\xff\xfe"), False, EmbeddedResource),
    ],
)
def test_an_attachment_becomes_what_an_agent_can_read(
    attachment: Attachment, embedded: bool, shape: type
) -> None:
    parts = prompt_parts(Prompt(text="look", attachments=[attachment]), embedded=embedded)
    assert parts[0] == "look"
    assert isinstance(parts[1], shape)


def test_a_text_in_the_text_cannot_end_its_fence() -> None:
    attachment = attached("text/plain", b"a\n````\nb", "../up/name.md")
    (part,) = prompt_parts(Prompt(text=" ", attachments=[attachment]), embedded=False)
    assert part == ".._up_name.md:\n`````\na\n````\nb\n`````"


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt(text=""),
        Prompt(text=" \n"),
        Prompt(text="x", attachments=[Attachment(name="x", mime="image/png", data="no base64!")]),
        Prompt(text="x", attachments=[attached("image/png")] * (MOST_ATTACHMENTS + 1)),
    ],
)
def test_a_prompt_without_content_or_with_too_much_is_refused(prompt: Prompt) -> None:
    with pytest.raises(BadRequest):
        prompt_parts(prompt, embedded=True)


def test_an_observer_may_only_read() -> None:
    assert {kind.__name__ for kind in requests.READS} == {
        *("Open", "MoveWindow", "Leave", "Search", "Complete")
    }
