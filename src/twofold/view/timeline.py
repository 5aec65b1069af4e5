"""A whole session from top to bottom, in the order to read it.

One block per entry, in the order of the entries, with the turns and what happened between the
entries; then what still waits for an answer, plans, notices and the rest; at the end the state of
the session. Pure: the same session gives the same blocks.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from twofold.session import Message, Session
from twofold.view.blocks import Block, HeadingBlock, MessageBlock, Piece, joined
from twofold.view.message import MessageReader
from twofold.view.outline import (
    Look,
    UnknownKinds,
    compaction_block,
    decision_block,
    footer,
    notice_block,
    plan_block,
    sender_of,
    subagent_block,
)
from twofold.wire.content import TextContent

AT_ONCE: Final = 4_096
"""Characters of a message that are read in one step."""

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
    steps = outline_steps(session, remarks, cwd=cwd, hidden=hidden)
    return [block for block in steps if block is not None]


def outline_steps(
    session: Session,
    remarks: Remarks = (),
    *,
    cwd: str | None = None,
    hidden: Collection[int] = frozenset(),
) -> Iterator[Block | None]:
    """The blocks of `outline`, made one by one; None where more work is to be done for one.

    If the session changes meanwhile, each block is as it is when its turn has come.
    """
    look = Look(session, cwd=cwd)
    decisions = [(each.place, decision_block(each)) for each in session.decisions]
    # an answer belongs to the turn before whatever ended or began after the same entry
    waiting = deque(sorted([*decisions, *remarks], key=lambda remark: remark[0]))
    for index, entry in enumerate(session.entries):
        while waiting and waiting[0][0] <= index:
            yield waiting.popleft()[1]
        if index in hidden:
            continue
        if isinstance(entry, Message):
            yield from _message(entry)
        else:
            yield look.tool_call(entry)
            look.forget_call(entry)
    for _, block in waiting:
        yield block
    yield from _others(session, look)


def _message(message: Message) -> Iterator[Block | None]:
    """A message, taken for all there will ever be of it; a long one is read bit by bit."""
    reader = MessageReader(markdown=message.role == "agent")
    pieces: list[Piece] = []
    for block in list(message.content):
        if not isinstance(block, TextContent):
            pieces += reader.add([block])
            continue
        for start in range(0, len(block.text), AT_ONCE):
            if start:
                yield None
            pieces += reader.add([TextContent(block.text[start : start + AT_ONCE])])
    items = joined([*pieces, *reader.end()])
    yield MessageBlock(message.role, items, sender_of(message), message=message)


def _others(session: Session, look: Look) -> Iterator[Block | None]:
    """What is not read between the entries."""
    for permission in list(session.permissions.values()):
        if permission.tool_call_id not in session.tool_calls:
            yield look.question(permission)
    yield from [plan_block(each.plan) for each in session.plans.values()]
    yield from map(notice_block, session.notices)
    yield from map(compaction_block, list(session.compactions.values()))
    yield from map(subagent_block, list(session.subagents.values()))
    kinds = UnknownKinds(session)
    yield from [kinds.block(kind) for kind in kinds.all()]
    yield footer(session)


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
