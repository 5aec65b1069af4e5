"""A whole session from top to bottom: one frame of the live view, in the order to read it.

One block per entry, in the order of the entries, with the turns and what happened between the
entries; then what still waits for an answer, plans, notices and the rest; at the end the state of
the session. Pure: the same session gives the same blocks.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from twofold.session import Message, Session
from twofold.view.blocks import Block, HeadingBlock, MessageBlock, OutputBlock, joined
from twofold.view.live import Live, Put
from twofold.view.outline import decision_block

Remarks: TypeAlias = Sequence[tuple[int, Block]]
"""Blocks between the entries, each with the number of entries before it."""


def outline(
    session: Session,
    remarks: Remarks = (),
    *,
    cwd: str | None = None,
    hidden: Collection[int] = frozenset(),
) -> list[Block]:
    """Everything there is to show of a session.

    Args:
        session: The session.
        remarks: What else to show between the entries.
        cwd: The directory of the session, if it is known: paths inside of it are shown relative
            to it.
        hidden: The entries to leave out, by their index.
    """
    live = Live(session, outputs=False, texts=True, cwd=cwd)
    decisions = [(each.place, decision_block(each)) for each in session.decisions]
    # an answer belongs to the turn before whatever ended or began after the same entry
    waiting = deque(sorted([*decisions, *remarks], key=lambda remark: remark[0]))
    blocks: list[Block] = []
    others: list[Block] = []
    for put in live.frame().put:
        block = _whole(live, put)
        if put.key.kind != "entry":
            others.append(block)
            continue
        index = int(put.key.identity)
        while waiting and waiting[0][0] <= index:
            blocks.append(waiting.popleft()[1])
        if index not in hidden:
            blocks.append(block)
    return [*blocks, *(block for _, block in waiting), *others]


def _whole(live: Live, put: Put) -> Block:
    """The block, taken for all there will ever be of it."""
    block = put.block
    assert not isinstance(block, OutputBlock)  # this view has none
    if isinstance(block, MessageBlock):
        items = joined((*block.items, *live.cut(put.key)))
        message = live.session.entries[int(put.key.identity)]
        assert isinstance(message, Message)
        return replace(block, items=items, tail=(), message=message)
    return block


def turn_headings(
    session: Session, ends: Collection[int] = frozenset(), times: Mapping[int, str] | None = None
) -> list[tuple[int, Block]]:
    """A heading for every turn, to be shown between the entries.

    A turn begins with a message of the user. Several in a row are one prompt, unless a turn ended
    between them.

    Args:
        session: The session.
        ends: After how many entries turns ended.
        times: When entries were added, in words, by their index.
    """
    made: list[tuple[int, Block]] = []
    before = ""
    for entry in session.entries:
        role = entry.role if isinstance(entry, Message) else "agent"
        if role == "user" and (before != "user" or entry.index in ends):
            time = (times or {}).get(entry.index)
            facts = (time,) if time else ()
            made.append((entry.index, HeadingBlock(f"Turn {len(made) + 1}", facts, 2)))
        before = role
    return made
