"""The agent's questions, asked one at a time and answered with one key.

A key stands for the kind of an option, never for its place or name, and no key answers that was
meant for something else (see `guard`). There is no default: Enter does not answer, Escape rejects.
One key opens the input line for a reason, and Enter there rejects: then every key is for the line.
However many questions wait, only the first is drawn.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

from twofold.client.permissions import Question, block_of
from twofold.host.client_keys import DEFAULTS, Bindings
from twofold.session import Permission
from twofold.session.changes import (
    Change,
    ContentAppended,
    EntryAdded,
    EntryChanged,
    TerminalChanged,
)
from twofold.term.block_lines import INDENT, counted
from twofold.term.input.guard import SILENCE, TimedGuard
from twofold.term.input.keys import ESCAPE, TAB
from twofold.term.input.slash_commands import shorten
from twofold.term.lines import Line, Parts, Row, all_rows, cells, line
from twofold.term.question_lines import Page, in_short
from twofold.view.blocks import QuestionBlock
from twofold.wire import v2
from twofold.wire.shared import PermissionOption

MOST_AT_ONCE: Final = 200
"""How many rows of a question are printed before the person asks to see all of it."""
_REJECTS: Final = frozenset({"reject_once", "reject_always"})
_HOW: Final = "A key answers after one second without any key, or after Tab."
REASON: Final = "r"
"""The key that opens the input line for the reason of a rejection."""
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
    """A key for each option: by its kind if no other option has that kind, else a number."""
    kinds = Counter(option.kind for option in options)
    numbers = iter("123456789")
    made = []
    for option in options:
        key = _KEYS.get(option.kind, "") if kinds[option.kind] == 1 else ""
        key = key or next(numbers, "")
        if key:
            made.append(Choice(key, option))
    return made


class PendingQuestion:
    """A question that waits for its answer."""

    def __init__(self, question: Question, bindings: Bindings = DEFAULTS) -> None:
        self.question = question
        self._bindings = bindings
        self.answer: asyncio.Future[PermissionOption | None] = (
            asyncio.get_running_loop().create_future()
        )
        self.seen = False
        """The current version of it is on the screen."""
        self.printed = False
        """Its description is in the scrollback, because it does not fit on the screen."""
        self.folded = False
        """Only a part of its description is shown."""
        self._unfolded = False

    @property
    def tool_call_id(self) -> str | None:
        """The id of the tool call that it is about."""
        return Permission("", self.question.request).tool_call_id

    # ---- the description of what would happen

    @cached_property
    def block(self) -> QuestionBlock:
        """The description of what would happen."""
        return block_of(self.question)

    @cached_property
    def _page(self) -> Page:
        return Page(self.block)

    def is_changed_by(self, changes: Iterable[Change]) -> bool:
        """True if the changes concern the tool call that it is about."""
        call = self.question.session.tool_calls.get(self.tool_call_id or "")
        if call is None or "block" not in self.__dict__:
            return False
        entry = {EntryAdded(call.index), EntryChanged(call.index), ContentAppended(call.index)}
        shown = {each.terminal_id for each in call.content if isinstance(each, v2.Terminal)}
        terminals = {TerminalChanged(terminal_id) for terminal_id in shown}
        return any(change in entry or change in terminals for change in changes)

    def refresh(self) -> bool:
        """Make the description again; returns True if it has changed."""
        before = self.__dict__.pop("block", None)
        if self.block == before:
            return False
        self.__dict__.pop("_page", None)
        self.seen = self.printed = self.folded = False
        return True

    def unfold(self) -> None:
        """Print the whole description when it is drawn next."""
        self.seen = self.printed = self.folded = False
        self._unfolded = True

    def description_rows(self, width: int) -> list[Row]:
        """The whole description of what would happen."""
        return [(), *all_rows(self._page.lines, width)]

    def rows_to_print(self, width: int) -> list[Row]:
        """The description for the scrollback: folded if it is very long, until `unfold`."""
        rows = self.description_rows(width)
        if len(rows) > MOST_AT_ONCE and not self._unfolded:
            page = Page(self.block, fold=True, unfold_key=self._bindings.first("unfold"))
            self.folded = page.hidden > 0
            rows = [(), *all_rows(page.lines, width)]
        return rows

    # ---- answers

    @property
    def choices(self) -> list[Choice]:
        """The answers with a key: nothing is allowed for always that cannot be seen."""
        if not self._page.missing:
            return self._choices
        return [each for each in self._choices if each.option.kind != "allow_always"]

    @cached_property
    def _choices(self) -> list[Choice]:
        return choices(self.question.options)

    def choice(self, key: str) -> Choice | None:
        """The answer that a key stands for."""
        return next((choice for choice in self.choices if choice.key == key), None)

    @property
    def rejection(self) -> PermissionOption | None:
        """The option that rejects with a reason, if there is one."""
        return self.question.option("reject_once")

    def needs_confirmation(self, choice: Choice) -> bool:
        """True if the answer counts only when it is given twice."""
        kind = choice.option.kind
        return kind.endswith("_always") or (self._page.missing > 0 and kind not in _REJECTS)

    def wants_unfolding(self, choice: Choice) -> bool:
        """True if the whole description has to be shown before this answer counts."""
        return self.folded and choice.option.kind not in _REJECTS

    def answer_rows(
        self,
        width: int,
        others: int = 0,
        *,
        opened: bool = True,
        again: str | None = None,
        reasoned: bool = False,
    ) -> list[Row]:
        """The keys: dim while none of them counts, only one while it has to be pressed again.

        `reasoned`: the reason of a rejection is being typed.
        """
        made = in_short(self.block, width, printed=self.printed)
        keys = self._confirmation(again) if again else self._answers(opened)
        packed = _packed(self._reason_keys() if reasoned else keys, width)
        lines = [Line(parts, ((INDENT, ""),)) for parts in packed]
        if self.folded and not reasoned:
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
        if self.rejection is not None:
            yield (REASON, "bold" if opened else "bold dim"), (" reject with a reason", "dim")
        yield ("Esc", "bold" if opened else "bold dim"), (" reject", "dim")

    def _reason_keys(self) -> Iterator[Parts]:
        key, words = self._bindings.first("send"), " reject; the reason is sent after this turn"
        yield (key, "bold reverse red"), (words, "red")
        yield ("Esc", "bold"), (" back to the question", "dim")

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
    """Lines of answers, as many on each as fit without breaking one."""
    made: Parts = ()
    for parts in answers:
        longer: Parts = (*made, ("   ", ""), *parts) if made else parts
        if made and len(INDENT) + cells(longer) > width:
            yield made
            longer = parts
        made = longer
    yield made


class Questions:
    """The questions that wait for an answer; the first of them is asked.

    `silence` is how many seconds without a key make a silence (see `guard`).
    """

    def __init__(self, silence: float = SILENCE, bindings: Bindings = DEFAULTS) -> None:
        self._bindings = bindings
        self._waiting: OrderedDict[int, PendingQuestion] = OrderedDict()  # in the order of arrival
        self._asked = 0
        self._guard = TimedGuard(self._report_change, silence)
        self.on_change: Callable[[], None] = lambda: None
        """Called when the question to show has changed, or how it is drawn."""
        self.has_typed_ahead: Callable[[], bool] = lambda: False
        """Returns True if something is typed ahead."""
        self.on_reason: Callable[[], None] = lambda: None
        """Called when a reason is asked for, and when it is no more; see `asks_reason`."""
        self._reasoned: PendingQuestion | None = None

    def _report_change(self) -> None:
        self.on_change()  # the client sets it later

    @property
    def current(self) -> PendingQuestion | None:
        """The question that is asked now."""
        return next(iter(self._waiting.values()), None)

    def is_open(self) -> bool:
        """True if a key would answer now; otherwise a deliberate one is needed first."""
        return self._guard.is_open(ahead=self.has_typed_ahead())

    async def ask(self, question: Question) -> PermissionOption | None:
        """Wait for the person's answer; None rejects."""
        asked = PendingQuestion(question, self._bindings)
        number = self._asked = self._asked + 1
        self._waiting[number] = asked
        self.on_change()
        try:
            return await asked.answer
        finally:
            if self.current is asked:
                self._guard.clear()
            del self._waiting[number]
            if self._reasoned is asked:  # it was withdrawn or cancelled
                self._guard.hold()
                self._end_reason()
            self.on_change()

    def apply(self, changes: Iterable[Change]) -> None:
        """The session has changed: if that concerns the question, ask it anew."""
        asked = self.current
        if asked is not None and asked.is_changed_by(changes) and asked.refresh():
            self._guard.clear()
            self.on_change()

    def show_again(self) -> None:
        """The question was off the screen for a while: it starts anew when it is drawn."""
        if self.current is not None:
            self.current.seen = False

    def unfold(self) -> bool:
        """Print all of the question; returns False if nothing of it is folded."""
        asked = self.current
        if asked is None or not asked.folded:
            return False
        asked.unfold()
        self._guard.clear()
        self.on_change()
        return True

    def rows_to_print(self, width: int, room: int, *, dumb: bool = False) -> list[Row]:
        """The rows to print to the scrollback now, once, because they do not fit on the screen."""
        asked = self.current
        if asked is None or asked.printed:
            return []
        if (
            not dumb
            and len(asked.description_rows(width)) + len(self._key_rows(asked, width)) <= room
        ):
            return []
        made = asked.rows_to_print(width)
        if dumb:  # nothing on it is ever live
            made += [*asked.answer_rows(width), *line(_HOW, "dim", INDENT).rows(width)]
        asked.printed, asked.seen = True, False
        return made

    def leave_on_screen(self, *, whole: bool) -> bool:
        """Leave the question where it is on the screen; returns False if it is not there.

        Unless it is `whole`, it has to be shown again before it can be allowed.
        """
        asked = self.current
        if asked is None or asked.printed or not asked.seen:
            return False
        asked.printed, asked.folded = True, not whole
        return True

    def rows(self, width: int) -> list[Row]:
        """The question, which can be read from now on; only its keys if the rest was printed."""
        return [*self.description_rows(width), *self.key_rows(width)]

    def description_rows(self, width: int) -> list[Row]:
        """The description of what would happen, unless it was printed."""
        asked = self.current
        return asked.description_rows(width) if asked is not None and not asked.printed else []

    def key_rows(self, width: int) -> list[Row]:
        """The keys of the question, which can be read from now on."""
        asked = self.current
        if asked is None:
            return []
        if not asked.seen:
            asked.seen = True
            self._guard.show()
        return self._key_rows(asked, width)

    def _key_rows(self, asked: PendingQuestion, width: int) -> list[Row]:
        others = len(self._waiting) - 1
        return asked.answer_rows(
            width,
            others,
            opened=self.is_open(),
            again=self._guard.again,
            reasoned=self.asks_reason,
        )

    # ---- the reason of a rejection

    @property
    def asks_reason(self) -> bool:
        """True while the input line is for the reason of a rejection."""
        return self._reasoned is not None

    def reject(self, reason: str) -> bool:
        """Reject the question for a reason; returns False if it is gone."""
        asked = self._reasoned
        if asked is None or asked.rejection is None or asked.answer.done():
            return False
        asked.question.reason = reason
        asked.answer.set_result(asked.rejection)
        self._guard.hold()  # a second Enter must not send the text that was set aside
        self._end_reason()
        return True

    def leave_reason(self) -> None:
        """Go back to the question, which starts anew."""
        if self._reasoned is not None:
            self._reasoned.seen = False
            self._guard.note_key()
            self._guard.clear()
            self._end_reason()
            self.on_change()

    def _end_reason(self) -> None:
        self._reasoned = None
        self.on_reason()

    # ---- keys

    @property
    def in_burst(self) -> bool:
        """True while keys still belong to the last answer, so that nothing is sent."""
        return self._guard.burst

    def note_key(self) -> None:
        """A key was pressed for anything else."""
        self._guard.note_key()

    def press(self, key: str, *, alone: bool = True) -> bool:
        """Handle a key; returns False if it is not for the question.

        `alone`: no other key arrived together with it.
        """
        asked = self.current
        if asked is None or asked.answer.done() or self.asks_reason:
            self._guard.note_key()
            return False
        if key == TAB and self.has_typed_ahead():
            self._guard.note_key()  # behind a text Tab completes
            return False
        chosen = asked.choice(key)
        asks_reason = key == REASON and asked.rejection is not None
        unfolds = chosen is not None and asked.wants_unfolding(chosen)
        verdict = self._guard.press(
            key,
            answers=chosen is not None or key == ESCAPE or asks_reason,
            twice=chosen is not None and not unfolds and asked.needs_confirmation(chosen),
            alone=alone,
            ahead=self.has_typed_ahead(),
        )
        if verdict == "answer" and unfolds:
            self.unfold()
        elif verdict == "answer" and asks_reason:
            self._reasoned = asked
            self.on_reason()
        elif verdict == "answer":
            asked.answer.set_result(chosen.option if chosen is not None else None)
        self.on_change()
        return verdict != "keep"
