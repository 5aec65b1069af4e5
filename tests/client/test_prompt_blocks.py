"""What a prompt is made of: text, files and blocks, and only what the agent takes."""

import base64
import os
from pathlib import Path

import pytest

from tests.support.idle_clock import simulated
from tests.support.raw_agent import in_session
from twofold import LocalError, NotSupported
from twofold.client import prompt_blocks
from twofold.client.prompt_blocks import FileNotReadable, Part, blocks_of
from twofold.wire import v2
from twofold.wire.base import Extras
from twofold.wire.content import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    UnknownContent,
)

HERE = v2.Capability()
NOTHING = v2.PromptCapabilities()
EVERYTHING = v2.PromptCapabilities(image=HERE, audio=HERE, embedded_context=HERE)

PNG = b"\x89PNG\r\n\x1a\n\0\0\xff"


def blocks(*parts: Part, able: v2.PromptCapabilities = EVERYTHING) -> list[ContentBlock]:
    return blocks_of(parts, able, "raw")


def block(part: Part, able: v2.PromptCapabilities = EVERYTHING) -> ContentBlock:
    [made] = blocks(part, able=able)
    return made


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


# ---- files -----------------------------------------------------------------------------------


def test_text_and_blocks_go_as_they_are_and_in_order() -> None:
    link = ResourceLink("x", "file:///x")
    assert blocks("one", link, "two") == [TextContent("one"), link, TextContent("two")]


def test_a_text_file_travels_inside_the_prompt_to_the_byte(tmp_path: Path) -> None:
    path = put(tmp_path, "a.py", "# ünïcode\r\nprint()\n".encode())
    text = TextResourceContents("# ünïcode\r\nprint()\n", path.as_uri(), "text/x-python")
    assert block(path) == EmbeddedResource(text)


def test_a_relative_path_becomes_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, "notes", b"hello")
    monkeypatch.chdir(tmp_path)
    assert block(Path("notes"), NOTHING) == ResourceLink("notes", path.as_uri(), size=5)


def test_a_picture_travels_inside_the_prompt(tmp_path: Path) -> None:
    path = put(tmp_path, "a.png", PNG)
    assert block(path) == ImageContent(base64.b64encode(PNG).decode(), "image/png", path.as_uri())


def test_a_sound_travels_inside_the_prompt(tmp_path: Path) -> None:
    path = put(tmp_path, "a.wav", b"RIFF")
    made = block(path)
    assert isinstance(made, AudioContent)
    assert (made.data, made.mime_type[:6]) == (base64.b64encode(b"RIFF").decode(), "audio/")


def test_a_drawing_in_xml_is_a_text(tmp_path: Path) -> None:
    made = block(put(tmp_path, "a.svg", b"<svg/>"))
    assert isinstance(made, EmbeddedResource)
    assert isinstance(made.resource, TextResourceContents)
    assert made.resource.text == "<svg/>"


LINKS = {
    "a picture for an agent that takes none": ("a.png", PNG, NOTHING),
    "a text for an agent that takes none": ("a.txt", b"hello", NOTHING),
    "a text that is none": ("a.txt", b"\xff\xfe", EVERYTHING),
    "a picture for an agent that takes only text": (
        *("a.png", PNG),
        v2.PromptCapabilities(embedded_context=HERE),
    ),
}


@pytest.mark.parametrize(("name", "data", "able"), LINKS.values(), ids=list(LINKS))
def test_what_cannot_travel_inside_goes_as_a_link(
    name: str, data: bytes, able: v2.PromptCapabilities, tmp_path: Path
) -> None:
    path = put(tmp_path, name, data)
    made = block(path, able)
    assert isinstance(made, ResourceLink)
    assert (made.name, made.uri, made.size) == (name, path.as_uri(), len(data))
    assert made.mime_type in ("image/png", "text/plain")


@pytest.mark.parametrize(("name", "limit"), [("a.txt", "EMBEDDED"), ("a.png", "PLAYED")])
def test_what_is_too_large_goes_as_a_link(
    name: str, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_blocks, "EMBEDDED", 100)
    monkeypatch.setattr(prompt_blocks, "PLAYED", 200)
    size = getattr(prompt_blocks, limit)
    assert not isinstance(block(put(tmp_path, name, b"x" * size)), ResourceLink)
    assert isinstance(block(put(tmp_path, name, b"x" * (size + 1))), ResourceLink)


def test_a_directory_goes_as_a_link(tmp_path: Path) -> None:
    assert block(tmp_path) == ResourceLink(tmp_path.name, tmp_path.as_uri())


def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "a.png"
    os.mkfifo(pipe)
    assert block(pipe) == ResourceLink("a.png", pipe.as_uri())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotReadable, match=r"gone\.txt cannot be sent .*: No such file"):
        block(tmp_path / "gone.txt")


# ---- what the agent takes --------------------------------------------------------------------

TEXT_RESOURCE = EmbeddedResource(TextResourceContents("x", "file:///x"))
BLOB_RESOURCE = EmbeddedResource(BlobResourceContents("eA==", "file:///x"))
REFUSED: dict[str, tuple[ContentBlock, str]] = {
    "images": (ImageContent("eA==", "image/png"), "raw does not accept images in prompts"),
    "audio": (AudioContent("eA==", "audio/wav"), "raw does not accept audio in prompts"),
    "a resource": (TEXT_RESOURCE, "raw does not accept embedded resources in prompts"),
    "a blob": (BLOB_RESOURCE, "raw does not accept embedded resources in prompts"),
}


@pytest.mark.parametrize(("given", "text"), REFUSED.values(), ids=list(REFUSED))
@pytest.mark.parametrize("able", [NOTHING, v2.PromptCapabilities(None, None, None)])
def test_what_the_agent_does_not_take_is_refused_with_what_to_do(
    given: ContentBlock, text: str, able: v2.PromptCapabilities
) -> None:
    with pytest.raises(NotSupported) as caught:
        blocks("look", given, able=able)
    assert str(caught.value) == f"{text}. Send text or a link instead."
    assert blocks("look", given)[1] is given


def test_an_unknown_block_is_sent_unchanged() -> None:
    video = UnknownContent(raw=Extras({"type": "video"}))
    assert blocks(video, able=NOTHING) == [video]


@pytest.mark.parametrize("parts", [(), ("",), ("", "")])
def test_an_empty_prompt_is_refused(parts: tuple[Part, ...]) -> None:
    with pytest.raises(LocalError, match="needs some content"):
        blocks(*parts)


def test_an_empty_text_beside_something_else_is_left_out(tmp_path: Path) -> None:
    assert blocks("", "x") == [TextContent("x")]


def test_anything_else_is_refused() -> None:
    with pytest.raises(LocalError, match="not of bytes"):
        blocks(b"hello")  # type: ignore[arg-type]


@simulated
async def test_a_prompt_that_is_refused_is_not_sent() -> None:
    async with in_session(2) as (session, agent):
        with pytest.raises(NotSupported, match="raw does not accept audio"):
            await session.prompt("listen", AudioContent("eA==", "audio/wav"))
        assert "session/prompt" not in agent.methods()
