"""The frames of one hosted session, for all who observe it.

A frame is encoded once, and every observer that is up to date is sent the same text. One whose
socket is behind is sent nothing until it can take more; then it is sent what changed since its last
frame in its window, made for it, piece by piece. So an observer costs what is in its socket and
one piece, and delays nobody. Nothing here waits.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from websockets.frames import Frame as WebSocketFrame
from websockets.frames import Opcode

from twofold.host.hosted_session import HostedSession
from twofold.view.blocks import MessageBlock, RemarkBlock, size
from twofold.view.live import Frame, Grow, LiveBlock, Put
from twofold.view.markdown import CodeLine, CodeStart
from twofold.web.encode import Encoder, Json, encoded, plain
from twofold.web.requests import Window

PIECE: Final = 128 << 10
"""Bytes of blocks that a message to an observer has, about."""
LARGEST_BLOCK: Final = 384 << 10
"""Bytes of a block without its items; of a larger one only its size is shown."""
LARGEST_SHARED: Final = 512 << 10
"""Bytes of a frame that is sent to all; of a larger one everyone is sent what is in its window."""
KEPT: Final = 16
"""Frames that are kept for observers that are a little behind."""
NOTHING_YET: Final = -1
"""The `seq` of a page that has not been sent everything yet."""


class _Shared(NamedTuple):
    """A frame that all observers are sent."""

    number: int
    seq: int
    text: str
    message: bytes
    """The text as a message of a WebSocket, which is written to every socket as it is."""


class Feed:
    """What the observers of one session share."""

    def __init__(self, hosted: HostedSession) -> None:
        self.hosted = hosted
        self.observers: list[Observer] = []
        self.encodings = 0
        """How many frames were encoded for all observers together."""
        self.number = 0
        """The number of the last frame."""
        hosted.flush()
        self._begin()
        self._subscription = hosted.subscribe(self._on_frame)

    def _begin(self) -> None:
        self.epoch = self.hosted.epoch
        self._live = self.hosted.live
        self.encoder = Encoder(self._live.session, self.hosted.call_time)
        self._seq = self.hosted.seq
        self._shared: deque[_Shared] = deque(maxlen=KEPT)

    def close(self) -> None:
        """Follow the session no more."""
        self._subscription.cancel()

    def shared(self, number: int) -> _Shared | None:
        """The frame of a number, if it was made for all and is still kept."""
        return next((each for each in reversed(self._shared) if each.number == number), None)

    def _on_frame(self, frame: Frame) -> None:
        self.number += 1
        if self.hosted.epoch != self.epoch:
            self._begin()
        else:
            if self.hosted.live is not self._live:  # the agent has started
                self._live = self.hosted.live
                self.encoder = Encoder(self._live.session, self.hosted.call_time)
            facts = self.hosted.facts(self._seq)
            self._seq = self.hosted.seq
            self._share(frame, facts)
        for observer in self.observers:
            observer.wake()

    def _share(self, frame: Frame, facts: dict[str, Any]) -> None:
        self.encodings += 1
        message: dict[str, Json] = {
            "type": "frame",
            "seq": frame.seq,
            "count": self.hosted.count,
            "put": [self._put(put) for put in frame.put],
            "grow": [self._grow(grow) for grow in frame.grow],
            "gone": list(map(str, frame.gone)),
            "facts": encoded(facts),
        }
        text = _written({name: value for name, value in message.items() if value not in ([], {})})
        if len(text) <= LARGEST_SHARED:
            whole = websocket_message(text)
            self._shared.append(_Shared(self.number, frame.seq, text, whole))

    def _put(self, put: Put) -> Json:
        block = self.encoder.put(put.key, put.block)
        return [self.hosted.at(put.key), str(put.key), put.version, block]

    def _grow(self, grow: Grow) -> Json:
        return [str(grow.key), *self.encoder.grow(grow.key, grow.settled, grow.tail)]


# ---- observers ---------------------------------------------------------------------------------


class Observer:
    """One page that observes a session: where it is, and what it is sent next.

    Args:
        feed: The frames of the session.
        window: The places that it holds.
        wake: Called when there is something to send.
        request: The id of the request to observe.
        epoch: The epoch of the frames that it has seen.
        since: The `seq` of the last one.
    """

    def __init__(
        self,
        feed: Feed,
        window: Window,
        wake: Callable[[], None],
        *,
        request: int | None = None,
        epoch: str | None = None,
        since: int | None = None,
    ) -> None:
        self.wake = wake
        self._feed = feed
        self._window = window
        self._seen = epoch
        self._since = since
        self._epoch = ""  # of what was sent: nothing
        self._number = -1  # of the last frame that was sent
        self._request = request
        self._moves: list[tuple[Window, int | None]] = []
        self._series: Iterator[str] = iter(())
        self._is_in_series = True  # until it was found to have ended
        feed.observers.append(self)

    @property
    def session_id(self) -> str:
        """The session that it observes."""
        return self._feed.hosted.id

    def leave(self) -> Feed:
        """Observe no more; returns the feed, which may have no observer now."""
        self._feed.observers.remove(self)
        return self._feed

    def move(self, window: Window, request: int | None) -> None:
        """The page holds other places from now on; what is new in them is sent, then `done`."""
        self._moves.append((window, request))
        self.wake()

    def take_shared(self) -> bytes | None:
        """The message that comes next, if it is one that all are sent; None if it is not.

        The caller has sent what came before, and sends it now.
        """
        feed = self._feed
        if self._is_in_series or self._epoch != feed.epoch or self._moves:
            return None
        shared = feed.shared(self._number + 1)
        if shared is None:
            return None
        self._number, self._since = shared.number, shared.seq
        return shared.message

    def next(self) -> str | None:
        """What to send next; None if there is nothing. The caller has sent what came before."""
        while True:
            text = next(self._series, None)
            self._is_in_series = text is not None
            if text is not None:
                return text
            feed = self._feed
            if self._epoch == feed.epoch and not self._moves:
                if self._number == feed.number:
                    return None
                shared = feed.shared(self._number + 1)
                if shared is not None:
                    self._number, self._since = shared.number, shared.seq
                    return shared.text
            if feed.hosted.is_keeping:
                return None  # a frame follows once everything is kept
            feed.hosted.flush()  # what is read now has to fit the frames that follow
            if self._epoch != feed.epoch:
                self._series = self._opened()
            elif self._moves:
                self._series = self._moved()
            else:
                self._series = self._caught_up()

    # ---- series of messages

    def _opened(self) -> Iterator[str]:
        """Everything in the window, or what is newer in it for one that comes back."""
        hosted = self._feed.hosted
        since = self._since if self._seen == hosted.epoch else None
        resumed = since is not None and 0 <= since <= hosted.live.seq
        self._seen = None
        frame = hosted.frame(since if resumed else None, self._window)
        request, self._request = self._request, None
        head: dict[str, Json] = {"type": "opened", "session": hosted.id, "epoch": hosted.epoch}
        head |= {"resumed": resumed, "facts": encoded(hosted.facts())}
        if request is not None:
            head["id"] = request
        before = since if resumed and since is not None else NOTHING_YET
        messages = _Series(self._feed, frame, before).messages({})
        self._arrive(frame)
        return _with_head(head, messages)

    def _caught_up(self) -> Iterator[str]:
        """What changed in the window since the last frame."""
        hosted, since = self._feed.hosted, self._since
        assert since is not None
        frame = hosted.frame(since, self._window)
        facts = hosted.facts(since)
        self._arrive(frame)
        return map(_written, _Series(self._feed, frame, since).messages(facts))

    def _moved(self) -> Iterator[str]:
        """What changed in the window that stays, and all of what is new in it."""
        hosted, since = self._feed.hosted, self._since
        assert since is not None
        moves, self._moves = self._moves, []
        window, stays = moves[-1][0], self._window
        for each, _ in moves:  # a page drops what is outside of a window at once
            stays = _common(stays, each)
        frame = hosted.frame(since, stays)
        puts = {put.key: put for put in frame.put}
        for begin, end in _added(stays, window, hosted.count):
            puts |= {put.key: put for put in hosted.live.window(None, begin, end).put}
        facts = hosted.facts(since)
        self._window = window
        self._arrive(frame)
        grown = [grow for grow in frame.grow if grow.key not in puts]
        series = _Series(self._feed, frame._replace(put=list(puts.values()), grow=grown), since)
        return _then(
            map(_written, series.messages(facts)),
            [{"type": "done", "id": request} for _, request in moves if request is not None],
        )

    def _arrive(self, frame: Frame) -> None:
        self._epoch, self._number = self._feed.epoch, self._feed.number
        self._since = frame.seq


def _with_head(head: dict[str, Json], messages: Iterator[dict[str, Json]]) -> Iterator[str]:
    first = next(messages)
    yield _written(head | {"seq": first["seq"], "count": first["count"], "frame": first})
    yield from map(_written, messages)


def _then(texts: Iterator[str], answers: Sequence[Json]) -> Iterator[str]:
    yield from texts
    yield from map(_written, answers)


def _common(one: Window, other: Window) -> Window:
    ends = [end for _, end in (one, other) if end is not None]
    begin = max(one[0], other[0])
    return begin, max(begin, min(ends)) if ends else None


def _added(before: Window, after: Window, count: int) -> Iterator[tuple[int, int]]:
    """The places of a window that were not in the one before."""
    begin, end = after[0], count if after[1] is None else min(after[1], count)
    old, old_end = before[0], count if before[1] is None else before[1]
    if old >= old_end:
        old = old_end = end
    for first, last in ((begin, min(end, old)), (max(begin, old_end), end)):
        if first < last:
            yield first, last


# ---- a frame in pieces -------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A part of a frame, in JSON."""

    kind: str
    """The list that it belongs to: `put` or `grow`."""
    data: msgspec.Raw
    size: int


class _Series:
    """A frame as messages, each of which is made when the one before was sent.

    Until the last one has arrived the page has only seen the frame before: a page that comes back
    in between is sent all of them again. So what is applied twice comes in the last message, but
    for the items of a block that the same series puts.
    """

    def __init__(self, feed: Feed, frame: Frame, before: int) -> None:
        self._feed = feed
        self._before = before
        self._seq = frame.seq
        self._count = feed.hosted.count
        self._encoder = feed.encoder
        # what ends in a fence is encoded now, because the lines that follow are read after it
        self._puts = [
            (put, list(self._pieces(put)) if _ends_in_fence(put.block) else None)
            for put in frame.put
        ]
        self._last: dict[str, Json] = {
            "grow": [feed._grow(grow) for grow in frame.grow],
            "gone": list(map(str, frame.gone)),
        }

    def messages(self, facts: dict[str, Any]) -> Iterator[dict[str, Json]]:
        """The messages, at least one."""
        last = self._last | ({"facts": encoded(facts)} if facts else {})
        lists: dict[str, list[Json]] = {}
        room = PIECE
        for piece in self._all():
            if lists and piece.size > room:
                yield self._message(self._before, lists)
                lists, room = {}, PIECE
            lists.setdefault(piece.kind, []).append(piece.data)
            room -= piece.size
        lists["grow"] = [*lists.get("grow", ()), *last.pop("grow")]
        yield self._message(self._seq, {**lists, **last})

    def _message(self, seq: int, lists: dict[str, Json]) -> dict[str, Json]:
        found = {name: value for name, value in lists.items() if value}
        return {"type": "frame", "seq": seq, "count": self._count, **found}

    def _all(self) -> Iterator[_Piece]:
        for put, pieces in self._puts:
            yield from pieces if pieces is not None else self._pieces(put)

    def _pieces(self, put: Put) -> Iterator[_Piece]:
        """A block; of a large one the items follow it, piece by piece."""
        block = self._encoder.put(put.key, put.block)
        whole = self._piece("put", self._place(put, block))
        if whole.size <= PIECE:
            yield whole
            return
        items, tail = block.get("items", []), block.get("tail", [])
        empty = {name: value for name, value in block.items() if name != "tail"} | {"items": []}
        first = self._piece("put", self._place(put, empty if items or tail else block))
        if first.size > LARGEST_BLOCK:
            words = f"What is here is too large to be shown on a page: {size(whole.size)}."
            yield self._piece("put", self._place(put, plain(RemarkBlock(words, "warning"))))
            return
        yield first
        key = str(put.key)
        for some in _batches(items):
            yield self._piece("grow", [key, some, []])
        if tail:
            yield self._piece("grow", [key, [], tail])

    def _place(self, put: Put, block: Json) -> Json:
        return [self._feed.hosted.at(put.key), str(put.key), put.version, block]

    def _piece(self, kind: str, value: Json) -> _Piece:
        data = msgspec.json.encode(value)
        return _Piece(kind, msgspec.Raw(data), len(data))


def _batches(items: Sequence[Json]) -> Iterator[list[Json]]:
    batch: list[Json] = []
    room = PIECE
    for item in items:
        data = msgspec.json.encode(item)
        if batch and len(data) > room:
            yield batch
            batch, room = [], PIECE
        batch.append(msgspec.Raw(data))
        room -= len(data)
    if batch:
        yield batch


def _ends_in_fence(block: LiveBlock) -> bool:
    return (
        isinstance(block, MessageBlock)
        and bool(block.items)
        and isinstance(block.items[-1], CodeLine | CodeStart)
    )


def websocket_message(text: str) -> bytes:
    """A text as a server writes it to a WebSocket that compresses nothing."""
    return WebSocketFrame(Opcode.TEXT, text.encode()).serialize(mask=False)


def _written(message: Json) -> str:
    return msgspec.json.encode(message).decode()
