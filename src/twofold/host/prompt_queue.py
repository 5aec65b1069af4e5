"""The prompts of one session that were not sent yet, in the order in which they are sent.

A prompt that is held is not sent until a person sends it: a turn was cancelled or failed since it
was entered, and nobody may want it any more. Pure: nothing here waits or sends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any, Final

from twofold.client.prompt_blocks import Part
from twofold.errors import LocalError
from twofold.text import sanitize
from twofold.view.blocks import described
from twofold.wire.base import Wire
from twofold.wire.content import BlobResourceContents, EmbeddedResource, TextContent

LARGEST: Final = 64 * 1024 * 1024
"""How many characters all queued prompts of a session may have, their attachments included."""


class QueueFull(LocalError):
    """Too much is queued in a session."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason} Wait until some of it was sent, or remove some of it.")


class NotQueued(LocalError):
    """There is no such prompt in the queue.

    Attributes:
        item: The id of the prompt.
    """

    def __init__(self, item: str) -> None:
        super().__init__("This prompt is not in the queue any more: it was sent or removed.")
        self.item = item


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """A prompt that was not sent yet."""

    item: str
    """Its id."""
    parts: tuple[Part, ...]
    by: str
    """Who entered it."""
    held: bool = False
    """It is not sent until a person sends it."""
    is_reason: bool = False
    """It is why a person rejected something: it is sent before other prompts."""

    @property
    def text(self) -> str:
        """What was typed, as it was typed."""
        return "".join([text for part in self.parts if (text := _typed(part)) is not None])

    @property
    def attachments(self) -> list[str]:
        """What else is sent, each in a few words."""
        return [_words(part) for part in self.parts if _typed(part) is None]

    @property
    def size(self) -> int:
        """About how many characters are kept for it."""
        return sum(map(_size, self.parts))


class PromptQueue:
    """The queue of one session; `limit` is how many prompts it has room for."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._prompts: list[QueuedPrompt] = []
        self._last_item = 0

    def restore(self, prompts: Sequence[QueuedPrompt]) -> None:
        """Queue prompts of an earlier host, which are held."""
        self._prompts = list(prompts)
        numbers = [
            int(each.item) for each in prompts if each.item.isascii() and each.item.isdigit()
        ]
        self._last_item = max([self._last_item, *numbers])

    def __iter__(self) -> Iterator[QueuedPrompt]:
        return iter(self._prompts)

    def __len__(self) -> int:
        return len(self._prompts)

    def add(self, parts: Sequence[Part], by: str, *, is_reason: bool = False) -> str:
        """Add a prompt behind all others; a reason is added before those that are none.

        Returns:
            The id of the prompt.

        Raises:
            QueueFull: There is no room.
            LocalError: The prompt is empty.
        """
        self._last_item += 1
        prompt = QueuedPrompt(str(self._last_item), tuple(parts), by, is_reason=is_reason)
        self._check(prompt)
        place = len(self._prompts)
        if is_reason:
            place = sum(each.is_reason for each in self._prompts)
        self._prompts.insert(place, prompt)
        return prompt.item

    def _check(self, prompt: QueuedPrompt) -> None:
        if not prompt.text.strip() and not prompt.attachments:
            raise LocalError("A prompt needs some content.")
        others = [each for each in self._prompts if each.item != prompt.item]
        if len(others) >= self._limit:
            raise QueueFull(f"There are {self._limit} prompts in the queue already.")
        if prompt.size + sum(each.size for each in others) > LARGEST:
            raise QueueFull("What is queued is too large.")

    def edit(self, item: str, text: str) -> None:
        """Replace what was typed; attachments stay.

        Raises:
            NotQueued: There is no such prompt.
            QueueFull: There is no room.
            LocalError: The prompt would be empty.
        """
        place, prompt = self._find(item)
        others = [part for part in prompt.parts if _typed(part) is None]
        changed = replace(prompt, parts=(text, *others))
        self._check(changed)
        self._prompts[place] = changed

    def remove(self, item: str) -> None:
        """Remove a prompt; raises `NotQueued`."""
        place, _ = self._find(item)
        del self._prompts[place]

    def send(self, item: str) -> None:
        """Hold a prompt no longer; raises `NotQueued`."""
        place, prompt = self._find(item)
        self._prompts[place] = replace(prompt, held=False)

    def hold(self, *, reasons: bool = True) -> None:
        """Hold all prompts; `reasons`: why something was rejected, too."""
        self._prompts = [
            replace(each, held=each.held or reasons or not each.is_reason) for each in self._prompts
        ]

    def put_back(self, prompt: QueuedPrompt) -> None:
        """Hold a prompt that was taken and not sent, before all others."""
        self._prompts.insert(0, replace(prompt, held=True))

    def take(self) -> QueuedPrompt | None:
        """Remove and return the prompt to send next; None if there is none, or all are held."""
        for place, prompt in enumerate(self._prompts):
            if not prompt.held:
                return self._prompts.pop(place)
        return None

    def _find(self, item: str) -> tuple[int, QueuedPrompt]:
        for place, prompt in enumerate(self._prompts):
            if prompt.item == item:
                return place, prompt
        raise NotQueued(item)


def _typed(part: Part) -> str | None:
    """The text of a part that a person typed; None for an attachment."""
    if isinstance(part, TextContent):
        return part.text
    return part if isinstance(part, str) else None


def _words(part: Part) -> str:
    if isinstance(part, PathLike):
        return sanitize(fspath(part))
    return described(part) if isinstance(part, Wire) else ""


def _size(part: Any) -> int:
    """The characters of a part: what is large in a block is a field of text."""
    if isinstance(part, str):
        return len(part)
    if isinstance(part, TextContent):
        return len(part.text)
    if isinstance(part, EmbeddedResource):
        blob = part.resource
        return len(blob.blob if isinstance(blob, BlobResourceContents) else blob.text)
    return len(getattr(part, "data", None) or "")
