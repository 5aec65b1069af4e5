"""Fewer events that add up to the same: the pieces of finished messages and outputs become one.

Pure. Of the pieces of a message the first stays, because it gives the message its place, and the
last becomes the whole message, so that it makes sense to a reader that has seen any of them. The
same holds for the output of a terminal. Everything else stays as it is.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from twofold.journal.journal import Entry, Event
from twofold.journal.session_events import KINDS, OPENING, UPDATE, read_input
from twofold.session.inputs import Applied, StartedOver
from twofold.wire import codec, v2
from twofold.wire.base import UNSET, Malformed

FEWEST: Final = 3
"""Of fewer pieces nothing is gained."""

_WHOLE: Final[dict[type, type[v2.MessagePatch]]] = {
    v2.UserMessageChunk: v2.UserMessage,
    v2.AgentMessageChunk: v2.AgentMessage,
    v2.AgentThoughtChunk: v2.AgentThought,
}
_PATCHES: Final = {whole: chunk for chunk, whole in _WHOLE.items()}

Thing: TypeAlias = tuple[type, str]
"""A message by the type of its chunks and its id, or a terminal."""


class Compaction(NamedTuple):
    """What `Journal.compact` is called with."""

    first: int
    last: int
    kept: Mapping[int, Entry | None]


class _Pieces(NamedTuple):
    seqs: list[int]
    content: list[Any]


def compaction(events: Iterable[Event], is_known: Callable[[Thing], bool]) -> Compaction | None:
    """How to compact events that follow each other.

    Args:
        events: The events, in order; nothing of the session is sent after them that would go on
            with one of their messages.
        is_known: Whether the session, or the one that took its place last, had a message or a
            terminal before them; then it is left alone. A terminal is named by
            `TerminalOutputChunk` and its id.

    Returns:
        None if nothing is gained.
    """
    found: dict[Thing, _Pieces | None] = {}
    seqs: list[int] = []
    for event in events:
        seqs.append(event.seq)
        update = _update(event)
        if update is _OVER:
            found.clear()  # what follows takes the place of everything: no message goes on
        thing = _thing(update)
        if thing is None:
            continue
        if thing not in found:
            found[thing] = None if is_known(thing) else _Pieces([], [])
        pieces = found[thing]
        if pieces is None:
            continue
        if _is_piece(update):
            pieces.seqs.append(event.seq)
            pieces.content.append(_content(update))
        else:
            found[thing] = None  # it was changed as a whole, too, or has more than its content
    replaced: dict[int, Entry | None] = {}
    dropped: set[int] = set()
    for thing, pieces in found.items():
        whole = _joined(thing, pieces) if pieces and len(pieces.seqs) >= FEWEST else None
        if whole is not None and pieces is not None:
            replaced[pieces.seqs[-1]] = Entry(UPDATE, codec.encode(whole))
            dropped.update(pieces.seqs[1:-1])
    if not dropped:
        return None
    kept: dict[int, Entry | None] = {seq: None for seq in seqs if seq not in dropped}
    return Compaction(seqs[0], seqs[-1], kept | replaced)


_OVER: Final = object()


def _update(event: Event) -> Any:
    if event.kind not in KINDS:
        return _OVER if event.kind == OPENING else None
    try:
        given = read_input(event.kind, event.body)
    except Malformed:
        return None
    if isinstance(given, StartedOver):
        return _OVER
    return given.update if isinstance(given, Applied) else None


def _thing(update: Any) -> Thing | None:
    kind = type(update)
    if kind in _WHOLE:
        return kind, update.message_id
    if kind in _PATCHES:
        return _PATCHES[kind], update.message_id
    if kind is v2.TerminalOutputChunk or kind is v2.TerminalUpdate:
        return v2.TerminalOutputChunk, update.terminal_id
    return None


def _is_piece(update: Any) -> bool:
    """Whether it only appends; what a chunk has beside its content would be lost."""
    return (
        (type(update) in _WHOLE or type(update) is v2.TerminalOutputChunk)
        and update.meta is UNSET
        and update.unknown is UNSET
    )


def _content(update: Any) -> Any:
    if type(update) is v2.TerminalOutputChunk:
        return codec.output_bytes(update.data)
    return update.content


def _joined(thing: Thing, pieces: _Pieces) -> Any:
    kind, identity = thing
    if kind is v2.TerminalOutputChunk:
        data = base64.b64encode(b"".join(pieces.content)).decode()
        return v2.TerminalUpdate(identity, output=v2.TerminalOutput(data))
    return _WHOLE[kind](identity, content=pieces.content)
