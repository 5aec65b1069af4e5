"""Looks for a text in all blocks of a session.

What an agent sent is searched as it was sent, so nothing has to be drawn or parsed for it. The
event loop goes on meanwhile, however long the session is. Excerpts are safe to show.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final

from twofold.session import Message, Session, ToolCall
from twofold.text import one_line
from twofold.view.live import Key, Live
from twofold.wire import v2
from twofold.wire.content import TextContent
from twofold.wire.shared import Content

_AROUND: Final = 60
"""How many characters are shown before and after what was found."""
_AT_ONCE: Final = 200
"""How many blocks are searched before other work has its turn."""


async def search(live: Live, text: str, limit: int) -> list[dict[str, Any]]:
    """The blocks in which a text occurs, whatever its case, in order.

    Returns:
        For each of the first `limit` blocks its place (`at`), and an excerpt (`text`).
    """
    found: list[dict[str, Any]] = []
    if not text.strip() or limit < 1:
        return found
    wanted = re.compile(re.escape(text), re.IGNORECASE)
    for at in range(len(live.places)):
        if at % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)
        hit = _excerpt(live, live.places[at], wanted)
        if hit is not None:
            found.append({"at": at, "text": hit})
            if len(found) == limit:
                break
    return found


def _excerpt(live: Live, key: Key, wanted: re.Pattern[str]) -> str | None:
    for text in _texts(live, key):
        found = wanted.search(text)
        if found is not None:
            start, end = max(0, found.start() - _AROUND), found.end() + _AROUND
            before, after = "…" if start else "", "…" if end < len(text) else ""
            return f"{before}{one_line(text[start:end])}{after}"
    return None


def _texts(live: Live, key: Key) -> Iterator[str]:
    entry = live.session.entries[int(key.identity)] if key.kind == "entry" else None
    if isinstance(entry, Message):
        yield entry.text
    elif isinstance(entry, ToolCall):
        yield from _call_texts(live.session, entry)
    else:
        block = live.block(key)
        for name in ("title", "text", "description", "error", "name"):
            value = getattr(block, name, None)
            if isinstance(value, str):
                yield value


def _call_texts(session: Session, call: ToolCall) -> Iterator[str]:
    yield call.title or ""
    for location in call.locations:
        yield location.path
    for content in call.content:
        match content:
            case Content(content=TextContent() as block):
                yield block.text
            case v2.Terminal():
                terminal = session.terminals.get(content.terminal_id)
                if terminal is not None:
                    yield terminal.command or ""
                    yield terminal.output.decode(errors="replace")
            case v2.JuneDiff():
                yield from (content.path, content.old_text or "", content.new_text)
            case v2.JulyDiff():
                yield content.patch.diff
            case v2.Diff(patch=v2.DiffPatch() as patch):
                yield patch.text
            case _:
                pass
