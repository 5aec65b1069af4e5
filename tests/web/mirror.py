"""What a page holds of a session: the messages of the server, applied as the page applies them."""

import json
from typing import Any

Json = Any


class Mirror:
    """The blocks of a window of places, and the facts."""

    def __init__(self, window: tuple[int, int | None] = (0, None)) -> None:
        self.window = window
        self.epoch = ""
        self.seq = -1
        self.count = 0
        self.facts: dict[str, Json] = {}
        self.blocks: dict[str, Json] = {}
        self.places: dict[str, int | None] = {}
        self.done: list[int] = []
        self.frames = 0
        self.opened = 0

    def take(self, text: str) -> None:
        """Apply a message."""
        message = json.loads(text)
        match message["type"]:
            case "opened":
                self.opened += 1
                if not message["resumed"]:
                    self.blocks, self.places, self.seq = {}, {}, -1
                self.epoch = message["epoch"]
                self.facts |= message["facts"]
                assert message["seq"] == message["frame"]["seq"]
                self.apply(message["frame"])
            case "frame":
                self.apply(message)
            case "done":
                self.done.append(message["id"])
            case _:
                raise AssertionError(message)

    def apply(self, frame: Json) -> None:
        assert frame["seq"] >= self.seq
        self.frames += 1
        self.seq, self.count = frame["seq"], max(self.count, frame["count"])
        for at, key, version, block in frame.get("put", []):
            assert version >= 0
            if at is None or self.holds(at):
                assert self.places.setdefault(key, at) == at, "a place never changes"
                self.blocks[key] = block
        for key, settled, tail in frame.get("grow", []):
            if key in self.blocks:
                block = self.blocks[key]
                block["items"] = [*block.get("items", []), *settled]
                block["tail"] = tail
        for key in frame.get("gone", []):
            self.blocks.pop(key, None)
        self.facts |= frame.get("facts", {})

    def holds(self, at: int) -> bool:
        """Whether a place is in the window."""
        return self.window[0] <= at < (self.window[1] if self.window[1] is not None else 1 << 40)

    def move(self, window: tuple[int, int | None]) -> None:
        """Hold other places from now on."""
        self.window = window
        for key, at in list(self.places.items()):
            if at is not None and not self.holds(at):
                self.blocks.pop(key, None)
                del self.places[key]

    def shown(self) -> Json:
        """All that it shows, however the texts came."""
        return {key: _joined(block) for key, block in self.blocks.items()}, self.facts


def _joined(block: Json) -> Json:
    if block["type"] != "MessageBlock":
        made = dict(block)
        if not made.get("tail"):
            made.pop("tail", None)
        return made
    items: list[Json] = []
    for item in [*block.get("items", []), None, *block.get("tail", [])]:
        last = items[-1] if items else None
        if item is None:
            items.append(None)
        elif last is not None and item["type"] == last["type"] == "TextItem":
            items[-1] = {"type": "TextItem", "text": last["text"] + item["text"]}
        else:
            # a line may be coloured before the fence that it is in has been read whole
            items.append(
                {name: value for name, value in item.items() if name != "spans"}
                | (
                    {"spans": item["spans"]}
                    if item["type"] != "CodeLine" and "spans" in item
                    else {}
                )
            )
    return {**block, "items": items, "tail": None}
