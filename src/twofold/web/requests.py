"""What the page may send on its socket, checked: anything else is refused in words.

Every request has a type and may have an `id`, with which it is answered. Pure.
"""

from base64 import b64decode
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from twofold.client.prompt_blocks import Part
from twofold.errors import LocalError
from twofold.wire.content import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    TextResourceContents,
)

LARGEST_MESSAGE: Final = 32 << 20
"""Bytes of one message."""
MOST_ATTACHMENTS: Final = 20
MOST_PLACES: Final = 5_000
"""Places of a window."""
LONGEST_NAME: Final = 200

Window: TypeAlias = tuple[int, int | None]
"""The places that a page holds: from the first to before the last, or to the end."""


class Request(Struct, rename="camel", kw_only=True, tag_field="type"):
    """A request of the page."""

    id: int | None = None
    """With this its answer is marked."""


class Open(Request, tag="open"):
    """Observe a session."""

    session: str
    window: Window = (0, None)
    epoch: str | None = None
    since: int | None = None


class MoveWindow(Request, tag="window"):
    """Hold these places from now on."""

    from_: int = msgspec.field(name="from")
    to: int | None = None


class Leave(Request, tag="leave"):
    """Observe no session."""


class Attachment(Struct):
    """A file that comes with a prompt."""

    name: str
    mime: str
    data: str
    """Its bytes in base64."""


class Prompt(Request, tag="prompt"):
    """Queue a prompt."""

    text: str
    attachments: list[Attachment] = []


class EditQueued(Request, tag="queue.edit"):
    item: str
    text: str


class RemoveQueued(Request, tag="queue.remove"):
    item: str


class SendQueued(Request, tag="queue.send"):
    item: str


class Cancel(Request, tag="cancel"):
    """Cancel the turn."""


class Answer(Request, tag="answer"):
    """Answer a question."""

    question: str
    option: str
    reason: str = ""


class SetOption(Request, tag="option"):
    """Set a control."""

    control: str
    value: str | bool


class NewSession(Request, tag="session.new"):
    agent: str | None = None
    cwd: str | None = None
    mode: str | None = None


class Resumable(Request, tag="session.resumable"):
    """List the sessions that an agent can resume."""

    agent: str | None = None
    cwd: str | None = None


class Resume(Request, tag="session.resume"):
    session: str
    agent: str | None = None
    cwd: str | None = None


class CloseSession(Request, tag="session.close"):
    session: str


class DeleteSession(Request, tag="session.delete"):
    session: str


class RestartSession(Request, tag="session.restart"):
    session: str


class RenameSession(Request, tag="session.rename"):
    session: str
    title: str


class Search(Request, tag="search"):
    """Search a session, or all of them."""

    text: str
    session: str | None = None


class Complete(Request, tag="complete"):
    """Paths of the session's files for what is typed."""

    text: str


AnyRequest: TypeAlias = (
    Open
    | MoveWindow
    | Leave
    | Prompt
    | EditQueued
    | RemoveQueued
    | SendQueued
    | Cancel
    | Answer
    | SetOption
    | NewSession
    | Resumable
    | Resume
    | CloseSession
    | DeleteSession
    | RestartSession
    | RenameSession
    | Search
    | Complete
)

READS: Final = (Open, MoveWindow, Leave, Search, Complete)
"""What an observer may send, too."""


class BadRequest(LocalError):
    """A message of the page is no request.

    Attributes:
        id: With this it would have been answered.
    """

    def __init__(self, reason: str, identity: int | None = None) -> None:
        super().__init__(reason)
        self.id = identity


_decoder: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)


class _Answered(Struct):
    id: int | None = None


_answered = msgspec.json.Decoder(_Answered)


def parse(message: str | bytes) -> AnyRequest:
    """A message as a request.

    Raises:
        BadRequest: It is none; the text states why.
    """
    try:
        found = _decoder.decode(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        identity = None
        with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            identity = _answered.decode(message).id
        reason = str(error) if isinstance(error, msgspec.ValidationError) else "it is no JSON"
        raise BadRequest(f"The message is no request: {reason[:LONGEST_NAME]}.", identity) from None
    match found:
        case Open(window=window):
            check_window(window, found.id)
        case MoveWindow(from_=begin, to=end):
            check_window((begin, end), found.id)
    return found


def check_window(window: Window, identity: int | None = None) -> None:
    """Raise `BadRequest` if a window ends before it begins, or has too many places."""
    begin, end = window
    if begin < 0 or (end is not None and end < begin):
        raise BadRequest("A window goes from a place to a later one.", identity)
    if end is not None and end - begin > MOST_PLACES:
        raise BadRequest(f"A window has at most {MOST_PLACES:,} places.", identity)


# ---- prompts -------------------------------------------------------------------------------------


def prompt_parts(prompt: Prompt, *, embedded: bool) -> list[Part]:
    """What a prompt is made of: its text, then what comes with it.

    Args:
        prompt: The request.
        embedded: Whether the agent takes resources; without that a text is part of the text.

    Raises:
        BadRequest: There is too much, or an attachment is none.
    """
    if len(prompt.attachments) > MOST_ATTACHMENTS:
        raise BadRequest(f"A prompt has at most {MOST_ATTACHMENTS} attachments.", prompt.id)
    parts: list[Part] = [prompt.text] if prompt.text.strip() else []
    parts += [_part(each, prompt.id, embedded=embedded) for each in prompt.attachments]
    if not parts:
        raise BadRequest("A prompt needs some text, or an attachment.", prompt.id)
    return parts


def _part(attachment: Attachment, identity: int | None, *, embedded: bool) -> Part:
    name = attachment.name[:LONGEST_NAME].replace("/", "_") or "attachment"
    kind = attachment.mime.partition(";")[0].strip().lower()[:LONGEST_NAME]
    try:
        data = b64decode(attachment.data, validate=True)
    except ValueError:
        raise BadRequest("The bytes of an attachment are not in base64.", identity) from None
    if kind.startswith("image/") and not kind.endswith("+xml"):
        return ImageContent(attachment.data, kind)
    if kind.startswith("audio/"):
        return AudioContent(attachment.data, kind)
    uri = f"attachment:///{name}"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        blob = BlobResourceContents(attachment.data, uri, kind or "application/octet-stream")
        return EmbeddedResource(blob)
    if not embedded:
        fence = "`" * max(3, 1 + max(map(len, _runs(text)), default=0))
        return f"{name}:\n{fence}\n{text}\n{fence}"
    return EmbeddedResource(TextResourceContents(text, uri, kind or "text/plain"))


def _runs(text: str) -> list[str]:
    """The runs of backticks in a text."""
    return ["`" * len(run) for run in "".join(c if c == "`" else " " for c in text).split()]
