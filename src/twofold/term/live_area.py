"""Decides which part of a session is live on the screen and which part goes to the scrollback.

A live row can still change; a row in the scrollback is settled and is never written again. There is
one card for each live block, in the order in which the blocks appeared. Cards stay live as long as
there is room, so that a block changes in place. Then the oldest are released to the scrollback. A
tool call that is still open at that moment floats at the bottom until it is done. A block that
changes after its release is shown again: the new part of a message, the whole of anything else.
`draw` returns the rows to write; nothing is written here.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from twofold.session import Message, Session
from twofold.session.changes import Change
from twofold.styled.code import allowance
from twofold.styled.emulator import Outputs
from twofold.term.block_lines import DrawOptions, block_lines, counted, live_output, plan_lines
from twofold.term.lines import Drawable, Row, all_rows, cut, line
from twofold.term.live_cards import (
    MOST_ITEMS,
    THOUGHT_ROWS,
    BlockCard,
    Card,
    MessageCard,
    NotesCard,
    RemarkCard,
    ThoughtCard,
    UserCard,
    folded,
)
from twofold.view import live
from twofold.view.blocks import MessageBlock, PlanBlock, ToolCallBlock
from twofold.view.live import FOOTER, Key, Live, LiveBlock
from twofold.wire.content import ImageContent

FOLD: Final = 16
"""How many lines an item of a tool call may take."""
FLOATING: Final = 4
"""How many open tool calls are shown at the bottom."""
MOST_PLANS: Final = 3
"""How many plans are shown at the bottom."""
MOST_CARDS: Final = 200
"""How many cards are live: more than a screen has room for, so only of cards without a row."""
COLOURING: Final = 0.2
"""Seconds that colouring code may take in one go, while keys and the agent wait."""
_FLOATING_ROWS: Final = 3
_PLAN_ROWS: Final = 8


class ScreenUpdate(NamedTuple):
    """The rows to write: settled ones, and the live ones below them."""

    settled: list[Row]
    live: list[Row]


class LiveArea:
    """The live blocks of one session, as cards."""

    def __init__(
        self, session: Session, notes: Callable[[Key], Sequence[str]], cwd: str | None = None
    ) -> None:
        """`cwd`: the directory of the session, if it is known."""
        self.session = session
        self.fold_thoughts = True
        self.unfolded = False
        self._live = Live(session, outputs=False, cwd=cwd)
        self._seen = self._live.seq
        self._output = live_output(Outputs())
        self._notes = notes
        self._cards: list[Card] = []
        self._floating: list[Card] = []
        self._by_key: dict[Key, Card] = {}
        self._released: dict[
            Key, frozenset[int]
        ] = {}  # in the scrollback, with the diffs they show
        self._settled: list[Row] = []
        self._above = False
        self._shown = ""
        self._plans: list[Key] = []  # in order
        self._plan_windows: dict[Key, tuple[int, list[Row]]] = {}  # and for which width
        self._this_turn: dict[Key, None] = {}
        self._cancelled = False
        self._asked: Key | None = None
        self._drawn: dict[Card, list[Row]] = {}  # as the last `draw` returned them
        self._drawn_for = 0
        self.pictures: list[ImageContent] = []
        """Pictures that are in the scrollback as words, for a terminal that can draw them."""

    # ---- what changes

    def begin_turn(self, shown: str = "") -> None:
        """Begin a turn; `shown` is the prompt as the client has printed it already."""
        self._shown, self._cancelled = shown, False
        self._this_turn = {}
        self._above = True

    @allowance(COLOURING)
    def show_everything(self) -> None:
        """Show the whole session below what the client printed, as after it was loaded."""
        self._above = True
        self._apply(self._live.frame())

    @allowance(COLOURING)
    def apply(self, changes: Iterable[Change]) -> None:
        """Apply changes of the session to the cards."""
        keys = self._live.take(changes)
        if self._cancelled:  # the session has forgotten it when the turn ends, which is quick
            self._begin_late(keys)
        self._apply(self._live.frame(self._seen), keys)

    def mark_cancelled(self) -> None:
        """Draw open tool calls as cancelled: a cancel was sent."""
        self._cancelled = True
        self._live.take_cancel()
        self._apply(self._live.frame(self._seen))

    def add_remark(self, lines: Sequence[Drawable]) -> None:
        """Show lines of the client itself, below what the agent has sent so far."""
        self._append(RemarkCard(lines))

    def add_notes(self, lines: Sequence[Drawable], kind: str) -> None:
        """Show lines of the client right below those of the same kind, if nothing came between."""
        last = self._cards[-1] if self._cards else None
        if not isinstance(last, NotesCard) or last.kind != kind or not last.has_room:
            last = NotesCard(kind)
            self._append(last)
        last.add(lines)

    def _append(self, card: Card) -> None:
        if self._cards and isinstance(self._cards[-1], UserCard | ThoughtCard):
            self._cards[-1].done = True  # it goes on as something else
        self._cards.append(card)

    def _begin_late(self, keys: Iterable[Key]) -> None:
        """What is added to these messages next was sent after the cancel."""
        for key in keys:
            card = self._by_key.get(key)
            if isinstance(card, MessageCard) and not card.cancelled:
                card.grow(self._live.cut(key), ())
                card.after_cancel()

    def _apply(self, frame: live.Frame, order: Iterable[Key] = ()) -> None:
        """Show what a frame holds; a card that is new is below those that changed before it."""
        self._seen = frame.seq
        changed: dict[Key, live.Put | live.Grow] = {put.key: put for put in frame.put}
        changed.update((grow.key, grow) for grow in frame.grow)
        for key in dict.fromkeys([*order, *changed]):
            change = changed.get(key)
            if change is None or key == FOOTER or key.kind == "permission":
                continue  # the footer and questions are shown elsewhere
            if key.kind == "plan":
                self._note_plan(key)
            elif self._show(key, change):
                self._this_turn[key] = None
        for key in frame.gone:
            if key.kind == "plan":
                self._forget_plan(key)

    def _show(self, key: Key, change: live.Put | live.Grow) -> bool:
        """Show a change on the card of its block; returns False if nothing of it is shown."""
        card = self._by_key.get(key)
        if card is None:
            if isinstance(change, live.Put):
                card = self._new_card(key, change.block)
            else:
                card = self._continued(key, change)
            if card is None:
                return False
            self._by_key[key] = card
            self._append(card)
        elif isinstance(change, live.Put):
            card.put(change.block)
            if card.done and card in self._floating:  # above what appears after it
                self._floating.remove(card)
                self._append(card)
        else:
            card.grow(change.settled, change.tail)
        return True

    def _note_plan(self, key: Key) -> None:
        self._plan_windows.pop(key, None)
        place = bisect_left(self._plans, key)
        if self._plans[place : place + 1] != [key]:
            self._plans.insert(place, key)

    def _forget_plan(self, key: Key) -> None:
        self._plan_windows.pop(key, None)
        place = bisect_left(self._plans, key)
        if self._plans[place : place + 1] == [key]:
            del self._plans[place]

    def _new_card(self, key: Key, block: LiveBlock) -> Card | None:
        printed = self._released.get(key)
        card: Card
        match block:
            case MessageBlock(role="user" | "session") if printed is not None:
                return None
            case MessageBlock(role="user"):
                card = UserCard(key, self._shown)
            case MessageBlock(role="thought"):
                card = ThoughtCard(key, lambda: self.fold_thoughts)
            case MessageBlock(role="agent"):
                mark = "" if printed is None else "⋯ sent again"
                card = MessageCard(key, mark, cancelled=self._cancelled)
            case _:
                return BlockCard(
                    key,
                    block,
                    self._options,
                    printed=printed or frozenset(),
                    notes=self._notes,
                    asked=lambda: self._asked,
                )
        card.grow(block.items, block.tail)
        return card

    def _continued(self, key: Key, grow: live.Grow) -> Card | None:
        """A card for what is new of a block that is in the scrollback; of a tool call for all."""
        entry = self.session.entries[int(key.identity)]
        card: Card
        match entry:
            case Message(role="agent"):
                mark = "⋯ continued" if key in self._released else ""
                card = MessageCard(key, mark, cancelled=self._cancelled)
            case Message(role="thought"):
                card = ThoughtCard(key, lambda: self.fold_thoughts)
            case _:
                block = self._live.block(key)
                return self._new_card(key, block) if block is not None else None
        card.grow(grow.settled, grow.tail)
        return card

    def _options(self, fold: bool = False) -> DrawOptions:
        return DrawOptions(None if self.unfolded and not fold else FOLD, self._output)

    # ---- rows to write

    @allowance(COLOURING)
    def draw(self, width: int, height: int, pinned: Sequence[Row] = ()) -> ScreenUpdate:
        """The rows to write while work goes on; `pinned` are rows to show below the cards.

        What is released is decided as if everything were folded: unfolding changes only what is
        seen, so that folding again restores it.
        """
        self._collect_finished()
        below = [*self._floating_rows(width), *self._plan_rows(width), *pinned]
        excess = len(self._live_rows(width)) - max(1, height - len(below))
        while excess > 0 and self._cards:
            freed = self._release_first(width, excess)
            if not freed:
                break
            excess -= freed
        while len(self._cards) > max(MOST_CARDS, height):
            self._release_first(width, 1)
        below = [*self._plan_rows(width), *pinned]
        if self.unfolded:
            live = self._unfolded_rows(width, max(1, height - len(below)))
        else:
            live = [*self._live_rows(width), *self._floating_rows(width)]
        self._drawn, self._drawn_for = {card: card.rows(width) for card in self._cards}, width
        return ScreenUpdate(self._take_settled(), [*live, *below][-height:])

    def set_question(self, key: Key | None) -> None:
        """Set the block that a question is about and shows itself; None: there is no question."""
        before, self._asked = self._asked, key
        for each in {before, key}:
            if before != key and each is not None and each in self._by_key:
                self._by_key[each].redraw()

    @allowance(COLOURING)
    def print_question(self, rows: Sequence[Row], width: int, *, whole: bool = True) -> None:
        """Settle a question that does not fit on the screen, below everything else.

        If it is `whole`, so are the diffs in it: they are not shown again with their tool call.
        """
        self._release_all(width)
        self._settled += rows
        card = self._by_key.get(self._asked) if self._asked is not None else None
        if whole and isinstance(card, BlockCard):
            card.printed_diffs()

    def leave_on_screen(self) -> None:
        """Count the rows of the last `draw` as settled where they are; open tool calls float."""
        for card in list(self._cards):
            if isinstance(card, BlockCard) and not card.done:
                self._cards.remove(card)
                self._floating.append(card)
                continue
            drawn = self._drawn.get(card, [])
            self._finish(card)
            rows = card.rows(self._drawn_for or 80)
            if drawn and rows[: len(drawn)] == drawn:
                rows, card.begun = rows[len(drawn) :], True
            self._print(card, rows)
            self._forget(card)

    def _release_all(self, width: int) -> None:
        """Release all cards; open tool calls float."""
        while self._cards:
            first = self._cards[0]
            if first.done or not isinstance(first, BlockCard):
                self._release(first, width)
            else:
                self._floating.append(self._cards.pop(0))

    @allowance(COLOURING)
    def settle(self, width: int) -> ScreenUpdate:
        """Settle everything, because no work goes on any more."""
        self._cards += self._floating
        self._floating = []
        for card in list(self._cards):
            self._release(card, width)
        for key in self._plans:
            block = self._live.block(key)
            if block is not None:
                self._add(all_rows(block_lines(block, self._options()), width))
        self._plans, self._plan_windows = [], {}
        return ScreenUpdate(self._take_settled(), [])

    @allowance(COLOURING)
    def draw_finished(self, width: int) -> ScreenUpdate:
        """Settle what is finished, while nobody waits for a turn."""
        self._collect_finished()
        running = self.session.state == "running"
        for card in list(self._cards):
            growing = isinstance(card, MessageCard) and running and card is self._cards[-1]
            if card.done or not (isinstance(card, BlockCard) or growing):
                self._release(card, width)
        return ScreenUpdate(self._take_settled(), [])

    @allowance(COLOURING)
    def expanded(self, width: int) -> list[Row]:
        """Everything that was folded since the last prompt, in full."""
        made: list[Row] = []
        for key in self._this_turn:
            if rows := self._expanded(key, width):
                made += [(), *rows] if made else rows
        return made

    @allowance(COLOURING)
    def expanded_last(self, number: int, width: int) -> list[Row]:
        """The last block of the session that is folded, in full, or the one `number` before it.

        Args:
            number: 1 for the last one.
            width: How wide rows may be.
        """
        for index in range(len(self.session.entries) - 1, -1, -1):
            entry = self.session.entries[index]
            if isinstance(entry, Message) and entry.role != "thought":
                continue
            if rows := self._expanded(Key("entry", index), width):
                number -= 1
                if not number:
                    return rows
        return []

    def _expanded(self, key: Key, width: int) -> list[Row]:
        """A block in full; no rows if it is not folded."""
        block = self._live.block(key)
        if block is None or not self._is_folded(key, width):
            return []
        return all_rows(block_lines(block, DrawOptions(None, self._output)), width)

    def _is_folded(self, key: Key, width: int) -> bool:
        block = self._live.block(key)
        if isinstance(block, ToolCallBlock):
            if len(block.items) > MOST_ITEMS:
                return True
            full = all_rows(block_lines(block, DrawOptions(None, self._output)), width)
            return len(full) > len(
                all_rows(block_lines(block, DrawOptions(FOLD, self._output)), width)
            )
        entry = self.session.entries[int(key.identity)] if key.kind == "entry" else None
        if isinstance(entry, Message) and entry.role == "thought" and block is not None:
            rows = all_rows(block_lines(block, DrawOptions()), width)
            return self.fold_thoughts and folded(rows, THOUGHT_ROWS) != rows
        return False

    def redraw(self) -> None:
        """Make the live rows again, because something that they depend on changed."""
        for card in [*self._cards, *self._floating]:
            card.redraw()

    @property
    def empty(self) -> bool:
        """True if nothing is live."""
        return not self._cards and not self._floating

    # ---- live

    def _live_rows(self, width: int) -> list[Row]:
        live: list[Row] = []
        for card in self._cards:
            rows = card.folded_rows(width)
            if rows and not card.begun and (live or self._above or self._settled):
                live.append(())
            live += rows
        return live

    def _unfolded_rows(self, width: int, room: int) -> list[Row]:
        """The last rows of the cards in full, below a row with the number of those above them."""
        live: list[Row] = []
        first: dict[int, Row] = {}  # the first rows of tool calls and the like, by their places
        for card in [*self._cards, *self._floating[-FLOATING:]]:
            rows = card.rows(width)
            if rows and not card.begun and (live or self._above or self._settled):
                live.append(())
            if rows:
                first[len(live)] = rows[0] if isinstance(card, BlockCard) else ()
            live += rows
        live += self._not_shown(width)
        if len(live) <= room:
            return live
        start = len(live) - room + 1
        shown = live[start:]
        head = next((first[at] for at in reversed(first) if at <= start), ())
        if head and start not in first and room > _FLOATING_ROWS:
            shown[0] = head  # so that one sees whose rows these are
        words = f"… {counted(len(live) - len(shown), 'row')} above"
        return [cut(((words, "dim italic"),), width), *shown]

    def _collect_finished(self) -> None:
        """Move tool calls that are done from the floating ones back to the cards."""
        self._cards += [card for card in self._floating if card.done]
        self._floating = [card for card in self._floating if not card.done]

    def _floating_rows(self, width: int) -> list[Row]:
        made: list[Row] = []
        for card in self._floating[-FLOATING:]:
            rows = folded(card.folded_rows(width), _FLOATING_ROWS - 1)
            made += [cut(row, width) for row in rows]
        made += self._not_shown(width)
        return [(), *made] if made else []

    def _not_shown(self, width: int) -> list[Row]:
        """How many open tool calls are not shown."""
        left = len(self._floating) - FLOATING
        if left <= 0:
            return []
        return line(f"… and {counted(left, 'more open tool call')}", "dim").rows(width)

    def _plan_rows(self, width: int) -> list[Row]:
        made: list[Row] = []
        for key in self._plans[-MOST_PLANS:]:
            drawn_for, rows = self._plan_windows.get(key, (0, []))
            block = self._live.block(key) if drawn_for != width else None
            if isinstance(block, PlanBlock):
                rows = _window(block, width)
                self._plan_windows[key] = width, rows
            made += rows
        left = len(self._plans) - MOST_PLANS
        if left > 0:
            made += line(f"… and {counted(left, 'more plan')}", "dim").rows(width)
        return [(), *made] if made else []

    # ---- to the scrollback

    def _release_first(self, width: int, excess: int) -> int:
        """Release the first card or its first rows; returns how many rows that frees."""
        first = self._cards[0]
        alone = len(self._cards) == 1
        if isinstance(first, MessageCard) and alone and not first.done:
            given = first.take_rows(width, excess)
            self._print(first, given)
            return len(given)
        taken = max(1, len(first.folded_rows(width)))
        if first.done or not isinstance(first, BlockCard):
            if alone and not first.done:
                return 0
            self._release(first, width)
        else:
            self._floating.append(self._cards.pop(0))
        return taken

    def _finish(self, card: Card) -> None:
        """End the card: what follows in its message begins a new text."""
        if isinstance(card, MessageCard):
            card.grow(self._live.cut(card.key), ())
        card.finish()

    def _release(self, card: Card, width: int) -> None:
        self._finish(card)
        self._print(card, card.rows(width))
        self._forget(card)

    def _print(self, card: Card, rows: list[Row]) -> None:
        if card.begun:
            self._settled += rows
        else:
            self._add(rows)
        card.begun = card.begun or bool(rows)

    def _add(self, rows: Sequence[Row]) -> None:
        """Settle a block, below a blank row."""
        if not rows:
            return
        if self._above or self._settled:
            self._settled.append(())
        self._settled += rows

    def _take_settled(self) -> list[Row]:
        settled, self._settled = self._settled, []
        self._above = self._above or bool(settled)
        return settled

    def _forget(self, card: Card) -> None:
        if card in self._cards:
            self._cards.remove(card)
        if self._by_key.pop(card.key, None) is None:
            return
        if card.begun or isinstance(card, UserCard):  # else all of it is new when it changes
            self._released[card.key] = card.diffs if isinstance(card, BlockCard) else frozenset()
        self.pictures += card.pictures


def _window(plan: PlanBlock, width: int) -> list[Row]:
    """The steps around the one that is worked on, as many as there is room for."""
    if len(plan.steps) < _PLAN_ROWS:
        rows = all_rows(plan_lines(plan), width)
        if len(rows) <= _PLAN_ROWS:
            return rows
    at = next((n for n, step in enumerate(plan.steps) if step.status == "in_progress"), 0)
    start = max(0, min(at, len(plan.steps) - (_PLAN_ROWS - 1)))
    steps = plan.steps[start : start + _PLAN_ROWS - 1]
    shown = all_rows(plan_lines(PlanBlock(steps, plan.text if not steps else None)), width)
    return shown[:_PLAN_ROWS]
