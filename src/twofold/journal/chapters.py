"""What to show of a recording: its sessions in chapters, each with its heading, turns and replays.

A chapter shows one session from its start or from a replay on. What a replay repeats is not shown
again. Times are shown where the recording has them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any, Final

from msgspec import Struct

from twofold.session import Entry, Session, ToolCall
from twofold.text.safe import one_line
from twofold.view.blocks import Block, FooterBlock, HeadingBlock, RemarkBlock, ToolCallBlock
from twofold.view.outline import entry_block
from twofold.view.timeline import outline, turn_headings

_REPLAY_ENDS: Final = HeadingBlock("The replay ends here")
_YEARS: Final = 1e8
"""About three years, in seconds."""
_SEARCHED: Final = 50
"""How many messages that follow the last one found are searched for a replayed message."""


class SessionFacts(Struct):
    """What the heading of a session shows beside its title."""

    agent: str = ""
    version: str = ""
    cwd: str | None = None


def agent_words(initialized: Mapping[str, Any]) -> str:
    """The name and version of an agent, from its answer to `initialize`; empty if it has none."""
    info = initialized.get("agentInfo") or initialized.get("info")
    if not isinstance(info, dict):
        return ""
    words = [info.get("title") or info.get("name"), info.get("version")]
    return " ".join([one_line(word) for word in words if isinstance(word, str) and word])


@dataclass(slots=True, eq=False)
class Chapter:
    """A part of the recording that shows one session: a replay starts another chapter."""

    session: Session
    replayed_by: str = ""
    """The method that asked for a replay, if this is one."""
    before: "Chapter | None" = None
    """The chapter that is replayed."""
    remarks: list[tuple[int, Block]] = field(default_factory=list)
    """What happened between the entries, each with the number of entries before it."""
    _replayed: int | None = None  # how many entries were replayed, once that has ended
    _ends: set[int] = field(default_factory=set)  # after how many entries turns ended
    _times: dict[int, float] = field(default_factory=dict)  # of entries, by their index
    _noted: int = 0  # for how many entries a time was noted
    _began: float | None = None  # when the current turn began

    @property
    def has_content(self) -> bool:
        """Whether there is more to show than the state of the session."""
        session = self.session
        main = (session.entries, session.permissions, session.decisions, session.plans)
        aside = (session.notices, session.compactions, session.subagents, session.unknown)
        return any([self.remarks, *main, *aside])

    @property
    def started(self) -> float | None:
        """When the first entry was added, in seconds since 1970."""
        return min([time for time in self._times.values() if _is_absolute(time)], default=None)

    # ---- what happens

    def note_entries(self, time: float | None) -> None:
        """Note when the newest entries were added; those of a replay are older than that."""
        count = len(self.session.entries)
        if time is not None and not self._in_replay:
            self._times |= dict.fromkeys(range(self._noted, count), time)
        self._noted = count

    def remark(self, block: Block) -> None:
        """Show a block after the entries that there are now."""
        self.remarks.append((len(self.session.entries), block))

    def turn_began(self, time: float | None) -> None:
        """A prompt was sent; one that is sent during a turn begins none."""
        if self._began is None:
            self._began = time

    def turn_ended(self, outcome: RemarkBlock, time: float | None) -> None:
        """Show how a turn ended, and how long it took."""
        if self._began is not None and time is not None and time >= self._began:
            outcome = replace(outcome, text=f"{outcome.text} · {duration(time - self._began)}")
        self._began = None
        self.remark(outcome)
        self._ends.add(len(self.session.entries))

    def end_replay(self) -> None:
        """Everything so far was replayed, if anything was."""
        if self._in_replay:
            self._replayed = len(self.session.entries)
            self.remark(_REPLAY_ENDS)

    @property
    def _in_replay(self) -> bool:
        return bool(self.replayed_by) and self._replayed is None

    # ---- what to show

    def heading(self) -> HeadingBlock | None:
        """The heading of a replay; None for a chapter that is none."""
        if not self.replayed_by:
            return None
        count = len(self._replayed_entries())
        if not count:
            return HeadingBlock(f"The agent replayed nothing ({self.replayed_by})")
        known = len(self._repeated())
        entries = f"{count:,} {'entry' if count == 1 else 'entries'}"
        repeated = "as shown above" if known == count else f"{known:,} of them as shown above"
        facts = (f"{entries}, {repeated}",) if known else ()
        return HeadingBlock(f"Replayed by the agent ({self.replayed_by})", facts)

    def blocks(
        self, cwd: str | None, written: Callable[[float], str], *, titled: bool, last: bool
    ) -> list[Block]:
        """The blocks to show below the heading.

        Args:
            cwd: The directory of the session, if it is known.
            written: Returns a time in words.
            titled: Whether the title of the session is shown already.
            last: Whether no other chapter of the same session follows.
        """
        end, hidden = len(self.session.entries), self._repeated()
        idle_marks = ((0, _REPLAY_ENDS), (end, _REPLAY_ENDS))  # nothing before, or nothing after
        remarks = [each for each in self.remarks if each not in idle_marks]
        times = {index: written(time) for index, time in self._times.items() if _is_absolute(time)}
        turns = turn_headings(self.session, self._ends, times)
        remarks += [(place, block) for place, block in turns if place not in hidden]
        *blocks, footer = outline(self.session, remarks, cwd=cwd, hidden=hidden)
        assert isinstance(footer, FooterBlock)
        if titled:
            footer = replace(footer, title=None)
        if end in self._ends:  # a remark shows how the last turn ended
            footer = replace(footer, state=one_line(self.session.state))
        idle = footer == FooterBlock(None, (), None, "idle", cancelling=False)
        said = bool(blocks or self.replayed_by)
        return blocks if said and (idle or not last) else [*blocks, footer]

    def _replayed_entries(self) -> list[Entry]:
        return self.session.entries[: self._replayed] if self.replayed_by else []

    def _repeated(self) -> frozenset[int]:
        """The replayed entries that hold nothing but what the chapters before show."""
        shown = _Shown()
        chapter = self.before
        while chapter is not None:
            shown.add(chapter.session)
            chapter = chapter.before
        return frozenset(
            entry.index for entry in self._replayed_entries() if shown.holds(entry, self.session)
        )


class _Shown:
    """What chapters show, to find it again in a replay.

    An agent may replay less of a tool call than it sent, and join messages that had something
    between them.
    """

    def __init__(self) -> None:
        self._calls: dict[str, set[str]] = {}
        self._texts: dict[str, str] = {}  # of all messages, by role, without blanks
        self._starts: dict[str, list[int]] = {}  # of the messages in these texts
        self._found: dict[str, int] = {}  # how many messages were found

    def add(self, session: Session) -> None:
        """Read what a chapter shows."""
        for entry in session.entries:
            if isinstance(entry, ToolCall):
                self._calls.setdefault(entry.tool_call_id, set()).update(_parts(entry, session))
                continue
            text = self._texts.get(entry.role, "")
            self._starts.setdefault(entry.role, []).append(len(text))
            self._texts[entry.role] = text + "".join(entry.text.split())

    def holds(self, entry: Entry, session: Session) -> bool:
        """Whether all of a replayed entry was shown; messages are asked for in their order."""
        if isinstance(entry, ToolCall):
            return _parts(entry, session) <= self._calls.get(entry.tool_call_id, set())
        role, text = entry.role, "".join(entry.text.split())
        whole, starts = self._texts.get(role, ""), self._starts.get(role, [])
        first = self._found.get(role, 0)
        for number, start in enumerate(starts[first : first + _SEARCHED], first):
            if not whole.startswith(text, start):
                continue
            end = start + len(text)
            if end == len(whole) or end in starts[number : number + _SEARCHED]:
                self._found[role] = number + 1
                return True
        return False


def _parts(call: ToolCall, session: Session) -> set[str]:
    """What there is to see of a tool call."""
    block = entry_block(session, call)
    assert isinstance(block, ToolCallBlock)
    return {f"{block.kind} {block.title}", *map(repr, block.items)}


def shown(
    parts: Iterable[Chapter | Block], facts: Mapping[str, SessionFacts], zone: tzinfo | None
) -> list[Block]:
    """The blocks of all chapters, and of what happened outside of them."""
    every = list(parts)
    filled = [each for each in every if not isinstance(each, Chapter) or each.has_content]
    every = filled or every
    newest = {each.session.session_id: each for each in every if isinstance(each, Chapter)}
    blocks: list[Block] = []
    begun: set[str] = set()
    for each in every:
        if not isinstance(each, Chapter):
            blocks.append(each)
            continue
        identity = each.session.session_id
        known = facts.get(identity, SessionFacts())
        title = one_line(newest[identity].session.title or "")
        heading = None if identity in begun else _session_heading(each, title, known, zone)
        begun.add(identity)
        blocks += [block for block in (heading, each.heading()) if block is not None]
        blocks += each.blocks(
            known.cwd,
            lambda time: _time(time, zone),
            titled=bool(title),
            last=each is newest[identity],
        )
    return blocks


def _session_heading(
    chapter: Chapter, title: str, known: SessionFacts, zone: tzinfo | None
) -> HeadingBlock | None:
    """The heading of a session; None if nothing is known about it."""
    identity = one_line(chapter.session.session_id)
    facts: Sequence[str | None] = (
        f"session {identity}" if title and identity else None,
        known.agent,
        one_line(known.cwd) if known.cwd else None,
        f"ACP v{known.version}" if known.version else None,
        _time(chapter.started, zone) if chapter.started is not None else None,
    )
    text = title or (f"Session {identity}" if identity else "")
    given = tuple([fact for fact in facts if fact])
    return HeadingBlock(text or "Session", given) if text or given else None


def _is_absolute(time: float) -> bool:
    """Whether it counts from 1970, not from the start of a recording, which lasts no years."""
    return time > _YEARS


def _time(time: float, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(time, zone).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float) -> str:
    """How long something took: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
