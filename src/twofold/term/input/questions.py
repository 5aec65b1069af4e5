"""What the agent asks the person, one question at a time, answered with one key.

A key stands for a kind of option, never for a place or a name, and no key answers that was meant
for something else (see `guard`). There is no default: Enter says nothing, Escape rejects. However
many questions wait, only the first is drawn.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

from twofold.client.permissions import Question
from twofold.session import Permission
from twofold.session.changes import (
    Change,
    ContentAppended,
    EntryAdded,
    EntryChanged,
    TerminalChanged,
)
from twofold.term.block_lines import INDENT, counted
from twofold.term.input.guard import SILENCE, Guard
from twofold.term.input.keys import ESCAPE
from twofold.term.input.slash_commands import shorten
from twofold.term.lines import Line, Parts, Row, all_rows, cells, line
from twofold.term.question_lines import Page, block_of, in_short
from twofold.view.blocks import QuestionBlock
from twofold.wire import v2
from twofold.wire.shared import PermissionOption

MOST_AT_ONCE: Final = 200
"""How many rows of a question are printed before anyone wanted to see all of it."""
_REJECTS: Final = frozenset({"reject_once", "reject_always"})
_HOW: Final = "A key answers after a second without any key, or after Tab."
_KEYS: Final = {"allow_once": "y", "allow_always": "a", "reject_once": "n", "reject_always": "d"}
_STYLES: Final = {
    "allow_once": "green",
    "allow_always": "green",
    "reject_once": "red",
    "reject_always": "red",
}


class Choice(NamedTuple):
    """An answer, and the key that gives it."""

    key: str
    option: PermissionOption


def choices(options: list[PermissionOption]) -> list[Choice]:
    """A key for each option: by its kind if that tells which is meant, else a number."""
    kinds = Counter(option.kind for option in options)
    numbers = iter("123456789")
    made = []
    for option in options:
        key = _KEYS.get(option.kind, "") if kinds[option.kind] == 1 else ""
        key = key or next(numbers, "")
        if key:
            made.append(Choice(key, option))
    return made


class Asked:
    """A question that waits for its answer."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answer: asyncio.Future[PermissionOption | None] = (
            asyncio.get_running_loop().create_future()
        )
        self.seen = False
        """It is on the screen, as it is now."""
        self.printed = False
        """What would happen is in the scrollback, for it does not fit on the screen."""
        self.folded = False
        """Not all that can be shown is shown."""
        self._unfolded = False

    @property
    def tool_call_id(self) -> str | None:
        """The tool call that it is about."""
        return Permission("", self.question.request).tool_call_id

    # ---- what would happen

    @cached_property
    def block(self) -> QuestionBlock:
        """What would happen."""
        return block_of(self.question)

    @cached_property
    def _page(self) -> Page:
        return Page(self.block)

    def is_changed_by(self, changes: Iterable[Change]) -> bool:
        """Whether there is something else to see of what it is about."""
        call = self.question.session.tool_calls.get(self.tool_call_id or "")
        if call is None or "block" not in self.__dict__:
            return False
        entry = {EntryAdded(call.index), EntryChanged(call.index), ContentAppended(call.index)}
        shown = {each.terminal_id for each in call.content if isinstance(each, v2.Terminal)}
        terminals = {TerminalChanged(terminal_id) for terminal_id in shown}
        return any(change in entry or change in terminals for change in changes)

    def refresh(self) -> bool:
        """Look again at what it is about; whether there is something else to see."""
        before = self.__dict__.pop("block", None)
        if self.block == before:
            return False
        self.__dict__.pop("_page", None)
        self.seen = self.printed = self.folded = False
        return True

    def unfold(self) -> None:
        """Have all of it printed."""
        self.seen = self.printed = self.folded = False
        self._unfolded = True

    def told(self, width: int) -> list[Row]:
        """What would happen, all that can be shown of it."""
        return [(), *all_rows(self._page.lines, width)]

    def to_print(self, width: int) -> list[Row]:
        """What goes to the scrollback: all of it, unless that is very much and nobody wanted it."""
        rows = self.told(width)
        if len(rows) > MOST_AT_ONCE and not self._unfolded:
            page = Page(self.block, fold=True)
            self.folded = page.hidden > 0
            rows = [(), *all_rows(page.lines, width)]
        return rows

    # ---- answers

    @property
    def choices(self) -> list[Choice]:
        """What can be answered: nothing is allowed for always that cannot be seen."""
        if not self._page.missing:
            return self._choices
        return [each for each in self._choices if each.option.kind != "allow_always"]

    @cached_property
    def _choices(self) -> list[Choice]:
        return choices(self.question.options)

    def choice(self, key: str) -> Choice | None:
        """What a key stands for."""
        return next((choice for choice in self.choices if choice.key == key), None)

    def is_asked_twice(self, choice: Choice) -> bool:
        """Whether an answer counts only when it is given again."""
        kind = choice.option.kind
        return kind.endswith("_always") or (self._page.missing > 0 and kind not in _REJECTS)

    def wants_unfolding(self, choice: Choice) -> bool:
        """Whether all of it has to be shown first."""
        return self.folded and choice.option.kind not in _REJECTS

    def answers(
        self, width: int, others: int = 0, *, opened: bool = True, again: str | None = None
    ) -> list[Row]:
        """The keys; pale as long as none of them counts, only one if it has to come again."""
        made = in_short(self.block, width, printed=self.printed)
        packed = _packed(self._confirmation(again) if again else self._answers(opened), width)
        lines = [Line(parts, ((INDENT, ""),)) for parts in packed]
        if self.folded:
            lines.append(line("(a key that allows shows everything first)", "yellow", INDENT))
        if left := len(self.question.options) - len(self.choices):
            lines.append(line(f"({counted(left, 'more option')} without a key)", "dim", INDENT))
        if others:
            what = "question waits" if others == 1 else "questions wait"
            lines.append(line(f"({others:,} more {what})", "dim", INDENT))
        return [*made, *all_rows(lines, width)]

    def _answers(self, opened: bool) -> Iterator[Parts]:
        for choice in self.choices:
            if opened:
                style = _STYLES.get(choice.option.kind, "")
                yield (choice.key, f"bold reverse {style}"), (f" {_words(choice.option)}", style)
            else:
                yield (choice.key, "bold dim"), (f" {_words(choice.option)}", "dim")
        yield ("Esc", "bold" if opened else "bold dim"), (" reject", "dim")

    def _confirmation(self, again: str) -> Iterator[Parts]:
        choice = self.choice(again)
        if choice is not None:
            style = _STYLES.get(choice.option.kind, "")
            yield (again, f"bold reverse {style}"), (f" again: {_words(choice.option)}", style)
        yield (("any other key goes back", "dim"),)


def _words(option: PermissionOption) -> str:
    kind, name = shorten(option.kind.replace("_", " ")), shorten(option.name)
    return name if name.lower() == kind else f"{name} ({kind})"


def _packed(answers: Iterable[Parts], width: int) -> Iterator[Parts]:
    """As many answers on a line as fit, none of them parted."""
    made: Parts = ()
    for parts in answers:
        longer: Parts = (*made, ("   ", ""), *parts) if made else parts
        if made and len(INDENT) + cells(longer) > width:
            yield made
            longer = parts
        made = longer
    yield made


class Questions:
    """The questions that wait, the first of which is asked.

    `silence` is for how many seconds no key may have come before one answers (see `guard`).
    """

    def __init__(self, silence: float = SILENCE) -> None:
        self._waiting: OrderedDict[int, Asked] = OrderedDict()  # by the order in which they came
        self._asked = 0
        self._guard = Guard(silence)
        self._timer: asyncio.TimerHandle | None = None
        self.changed: Callable[[], None] = lambda: None
        """Called when there is another question to show or none any more, or it looks different."""
        self.ahead: Callable[[], bool] = lambda: False
        """Whether something is typed ahead."""

    @property
    def current(self) -> Asked | None:
        """What is asked now."""
        return next(iter(self._waiting.values()), None)

    def is_open(self) -> bool:
        """Whether a key would answer; otherwise a deliberate one has to come first."""
        return self._guard.is_open(ahead=self.ahead())

    async def ask(self, question: Question) -> PermissionOption | None:
        """Have the person choose; None to reject."""
        asked = Asked(question)
        number = self._asked = self._asked + 1
        self._waiting[number] = asked
        self.changed()
        try:
            return await asked.answer
        finally:
            if self.current is asked:
                self._guard.clear()
            del self._waiting[number]
            self.changed()

    def take(self, changes: Iterable[Change]) -> None:
        """The session changed: what is asked may be about something else now."""
        asked = self.current
        if asked is not None and asked.is_changed_by(changes) and asked.refresh():
            self._guard.clear()
            self.changed()

    def show_again(self) -> None:
        """The question was not to be seen for a while: it starts anew when it is drawn."""
        if self.current is not None:
            self.current.seen = False

    def unfold(self) -> bool:
        """Have all of the question printed; False if there is nothing more to see."""
        asked = self.current
        if asked is None or not asked.folded:
            return False
        asked.unfold()
        self._guard.clear()
        self.changed()
        return True

    def printed(self, width: int, room: int, *, dumb: bool = False) -> list[Row]:
        """What has to go to the scrollback now, for it does not fit on the screen: once."""
        asked = self.current
        if asked is None or asked.printed:
            return []
        if not dumb and len(asked.told(width)) + len(self._keys(asked, width)) <= room:
            return []
        made = asked.to_print(width)
        if dumb:  # nothing on it is ever live
            made += [*asked.answers(width), *line(_HOW, "dim", INDENT).rows(width)]
        asked.printed, asked.seen = True, False
        return made

    def keep(self, *, whole: bool) -> bool:
        """The question stays where it is on the screen, for good; False if it is not there.

        Unless it is `whole`, it has to be shown again before it can be allowed.
        """
        asked = self.current
        if asked is None or asked.printed or not asked.seen:
            return False
        asked.printed, asked.folded = True, not whole
        return True

    def rows(self, width: int) -> list[Row]:
        """The question, from now on to be read; only its keys if the rest was printed."""
        return [*self.told(width), *self.keys(width)]

    def told(self, width: int) -> list[Row]:
        """What would happen, unless it was printed."""
        asked = self.current
        return asked.told(width) if asked is not None and not asked.printed else []

    def keys(self, width: int) -> list[Row]:
        """The keys of the question, which is to be read from now on."""
        asked = self.current
        if asked is None:
            return []
        if not asked.seen:
            asked.seen = True
            self._guard.show(_now())
            self._watch()
        return self._keys(asked, width)

    def _keys(self, asked: Asked, width: int) -> list[Row]:
        others = len(self._waiting) - 1
        return asked.answers(width, others, opened=self.is_open(), again=self._guard.again)

    # ---- keys

    @property
    def in_burst(self) -> bool:
        """Whether what comes now still belongs to the last answer, so that nothing is sent."""
        return self._guard.burst

    def heard(self) -> None:
        """A key came that is for somebody else."""
        self._guard.heard(_now())
        self._watch()

    def press(self, key: str, *, alone: bool = True) -> bool:
        """Take a key; False if it is not for what is asked. `alone`: no other came with it."""
        asked = self.current
        if asked is None or asked.answer.done():
            self._guard.heard(_now())
            return False
        chosen = asked.choice(key)
        unfolds = chosen is not None and asked.wants_unfolding(chosen)
        verdict = self._guard.press(
            key,
            _now(),
            answers=chosen is not None or key == ESCAPE,
            twice=chosen is not None and not unfolds and asked.is_asked_twice(chosen),
            alone=alone,
            ahead=self.ahead(),
        )
        if verdict == "answer" and unfolds:
            self.unfold()
        elif verdict == "answer":
            asked.answer.set_result(chosen.option if chosen is not None else None)
        self._watch()
        self.changed()
        return verdict != "keep"

    def _watch(self) -> None:
        """Look again when there was silence for long enough."""
        due = self._guard.due
        if due is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due, self._elapse)

    def _elapse(self) -> None:
        self._timer = None
        self._guard.elapse(_now())
        self._watch()
        self.changed()


def _now() -> float:
    return asyncio.get_running_loop().time()
