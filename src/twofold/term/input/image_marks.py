"""Images in the input line, shown as marks: `[image #1: 640×480 PNG, 34 KB]`."""

import base64
import re
from typing import Final

from twofold.term.images import image_size
from twofold.view.blocks import size
from twofold.wire.content import ImageContent

MOST_KEPT: Final = 20
"""How many images are kept, those that were sent included."""
_LOOK: Final = re.compile(r"\[image #([1-9][0-9]{0,8}): [^\[\]\n]{1,80}\]")


class ImageMarks:
    """The images that were pasted, each with its mark.

    A mark is plain text in the input: it can be moved and deleted, and its image is sent if the
    mark is still there. Only marks that were made here have an image.
    """

    def __init__(self) -> None:
        self._images: dict[str, ImageContent] = {}
        self._taken: set[int] = {0}

    def mark(self, image: ImageContent) -> str:
        """Make a new mark for an image."""
        number = max(self._taken) + 1
        self._taken.add(number)
        mark = f"[image #{number}: {image_words(image)}]"
        self._images[mark] = image
        while len(self._images) > MOST_KEPT:
            del self._images[next(iter(self._images))]
        return mark

    def typed(self, text: str) -> str:
        """Return the text, and never make a mark that it already contains."""
        self._taken.update(int(found[1]) for found in _LOOK.finditer(text))
        return text

    def images(self, text: str) -> dict[str, ImageContent]:
        """The marks in a text, with their images."""
        marks = (found[0] for found in _LOOK.finditer(text))
        return {mark: self._images[mark] for mark in marks if mark in self._images}

    def without_image(self, text: str) -> list[tuple[int, int]]:
        """Where marks are whose image is not here: it was pasted long ago, or in another client."""
        return [each.span() for each in _LOOK.finditer(text) if each[0] not in self._images]

    def mark_before(self, text: str) -> str:
        """The mark at the end of the text, which is deleted as a whole; or an empty string."""
        mark = text[text.rfind("[") :] if text.endswith("]") else ""
        return mark if mark in self._images else ""


def image_words(image: ImageContent) -> str:
    """An image in a few words: `640×480 PNG, 34 KB`."""
    data = base64.b64decode(image.data)
    pixels = image_size(data)
    shown = f"{pixels[0]}×{pixels[1]} " if pixels else ""
    return f"{shown}{image.mime_type.rpartition('/')[2].upper()}, {size(len(data))}"
