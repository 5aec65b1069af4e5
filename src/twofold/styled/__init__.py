"""Code and terminal output in styles, for every toolkit: text, and words for how it looks.

A style is made of words such as `bold`, `red`, `on blue` and `#ff8800`; what becomes of them is up
to the toolkit. Text of peers stays text.
"""

from typing import TypeAlias

Parts: TypeAlias = tuple[tuple[str, str], ...]
"""A row: pieces of text, each in one style."""
