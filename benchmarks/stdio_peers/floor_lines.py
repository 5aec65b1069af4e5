"""The lines of the floor: structs made for just these lines, and nothing that is not sent."""

from msgspec import Struct
from msgspec.json import Decoder, Encoder


class _Bare(Struct, gc=False, rename="camel", omit_defaults=True):
    pass


class Text(_Bare, tag_field="type", tag="text"):
    """A block of text."""

    text: str


class Chunk(_Bare, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """A piece of the agent's message."""

    message_id: str
    content: Text


class Update(_Bare):
    """What a chunk says, and in which session."""

    session_id: str
    update: Chunk


class ToClient(_Bare):
    """An update, or the answer to a request."""

    jsonrpc: str
    id: int | None = None
    method: str | None = None
    params: Update | None = None
    result: dict[str, str] | None = None


class Prompt(_Bare):
    """A prompt; empty for a ping."""

    session_id: str = ""
    prompt: list[Text] = []


class ToAgent(_Bare):
    """A request."""

    jsonrpc: str
    id: int
    method: str
    params: Prompt


encode = Encoder().encode
decode_to_client = Decoder(ToClient).decode
decode_to_agent = Decoder(ToAgent).decode
