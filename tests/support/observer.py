"""An observer of a live view: it keeps the blocks of the frames, and nothing else."""

from dataclasses import replace

from twofold.view.blocks import (
    Block,
    Item,
    MessageBlock,
    OutputBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
    joined,
)
from twofold.view.live import Frame, Key, Live, LiveBlock


class Observer:
    """Applies frames in order."""

    def __init__(self) -> None:
        self.seen: int | None = None
        self.blocks: dict[Key, LiveBlock] = {}
        self.versions: dict[Key, int] = {}

    def look(self, live: Live) -> Frame:
        """Ask for what is newer than what was seen, and apply it."""
        frame = live.frame(self.seen)
        self.apply(frame)
        return frame

    def apply(self, frame: Frame) -> None:
        assert self.seen is None or frame.seq >= self.seen
        keys = [*(put.key for put in frame.put), *(grow.key for grow in frame.grow), *frame.gone]
        assert len(keys) == len(set(keys)), "a block is in a frame once"
        for key, version, block in frame.put:
            assert (-1 if self.seen is None else self.seen) < version <= frame.seq
            self.blocks[key], self.versions[key] = block, version
        for key, settled, tail in frame.grow:
            block = self.blocks[key]
            assert isinstance(block, MessageBlock | ToolCallBlock | OutputBlock)
            items = joined((*block.items, *settled))
            if isinstance(block, ToolCallBlock):
                assert not tail
                block = replace(block, items=(*block.items, *settled))  # type: ignore[arg-type]
            else:
                block = replace(block, items=items, tail=tail)  # type: ignore[arg-type]
            self.blocks[key] = block
        for key in frame.gone:
            self.blocks.pop(key, None)
        self.seen = frame.seq

    def outline(self) -> list[Block]:
        """The blocks in the order of an outline, outputs put where their terminals are shown."""
        order = ("entry", "permission", "plan", "notice", "compaction", "subagent", "unknown")
        keys = [key for kind in (*order, "footer") for key in self.blocks if key.kind == kind]
        entries = sorted([key for key in keys if key.kind == "entry"])
        return [self._whole(self.blocks[key]) for key in [*entries, *keys[len(entries) :]]]

    def _whole(self, block: LiveBlock) -> Block:
        assert not isinstance(block, OutputBlock)
        if not isinstance(block, ToolCallBlock):
            return block
        return replace(block, items=tuple(map(self._with_output, block.items)))

    def _with_output(self, item: Item) -> Item:
        if not isinstance(item, TerminalItem):
            return item
        output = self.blocks.get(Key("terminal", item.terminal_id))
        if not isinstance(output, OutputBlock):
            return item
        pieces = joined((*output.items, *output.tail))
        return replace(item, text="".join([p.text for p in pieces if isinstance(p, TextItem)]))
