"""What the agent asks the person, one question at a time, answered with one key.

A key stands for a kind of option, never for a place or a name, and no key answers that was meant
for something else (see `guard`). There is no default: Enter says nothing, Escape rejects. However
many questions wait, only the first is drawn.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from twofold.runtime.client.permissions import Question
from twofold.session import Permission
from twofold.term.draw import INDENT, path_style, question_lines
from twofold.term.input.guard import SILENCE, Guard
from twofold.term.input.keys import ESCAPE
from twofold.term.input.orders import said
from twofold.term.lines import Drawn, Line, Parts, Row, all_rows, cells, line
from twofold.text import one_line, sanitize
from twofold.view.blocks import PermissionBlock
from twofold.wire import v2
from twofold.wire.shared import PermissionOption

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
        self.choices = choices(question.options)
        self.answer: asyncio.Future[PermissionOption | None] = (
            asyncio.get_running_loop().create_future()
        )
        self.seen = False
        """It is on the screen."""
        self.printed = False
        """What would happen is in the scrollback, for it does not fit on the screen."""

    @property
    def tool_call_id(self) -> str | None:
        """The tool call that it is about."""
        return Permission("", self.question.request).tool_call_id

    def choice(self, key: str) -> Choice | None:
        """What a key stands for."""
        return next((choice for choice in self.choices if choice.key == key), None)

    def rows(self, width: int, others: int = 0) -> list[Row]:
        """What would happen, and the keys."""
        return [*self.told(width), *self.answers(width, others)]

    def told(self, width: int) -> list[Row]:
        """What would happen."""
        return [(), *all_rows([*question_lines(_block(self.question)), *self._paths()], width)]

    def answers(
        self, width: int, others: int = 0, *, opened: bool = True, again: str | None = None
    ) -> list[Row]:
        """The keys; pale as long as none of them counts, only one if it has to come again."""
        packed = _packed(self._confirmation(again) if again else self._answers(opened), width)
        lines = [Line(parts, ((INDENT, ""),)) for parts in packed]
        if left := len(self.question.options) - len(self.choices):
            lines.append(line(f"({left} more options have no key)", "dim", INDENT))
        if others:
            what = "question waits" if others == 1 else "questions wait"
            lines.append(line(f"({others} more {what})", "dim", INDENT))
        return all_rows(lines, width)

    def _paths(self) -> list[Drawn]:
        return [
            Line(((one_line(path), path_style(one_line(path))),), ((INDENT, ""),), prose=False)
            for path in self.question.subject.paths[:20]
        ]

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
    kind, name = said(option.kind.replace("_", " ")), said(option.name)
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


def _block(question: Question) -> PermissionBlock:
    """The question as a view shows it; the command of a tool's input is shown as one."""
    request = question.request
    command, cwd = question.subject.command, None
    if isinstance(request.subject, v2.CommandPermissionSubject):
        command, cwd = request.subject.command, one_line(request.subject.cwd)
    description = sanitize(request.description) if request.description else None
    shown = sanitize(command) if command else None
    return PermissionBlock(0, one_line(request.title), description, shown, cwd, ())


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

    def rows(self, width: int) -> list[Row]:
        """The question, from now on to be read; only its keys if the rest was printed."""
        asked = self.current
        if asked is None:
            return []
        if not asked.seen:
            asked.seen = True
            self._guard.show(_now())
            self._watch()
        keys = asked.answers(
            width, len(self._waiting) - 1, opened=self.is_open(), again=self._guard.again
        )
        return keys if asked.printed else [*asked.told(width), *keys]

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
        verdict = self._guard.press(
            key,
            _now(),
            answers=chosen is not None or key == ESCAPE,
            twice=chosen is not None and chosen.option.kind.endswith("_always"),
            alone=alone,
            ahead=self.ahead(),
        )
        if verdict == "answer":
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
