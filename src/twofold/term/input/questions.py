"""What the agent asks the person, one question at a time, answered with one key.

A key stands for a kind of option, never for a place or a name, and no key answers that was pressed
before the question could be read. There is no default: Enter says nothing, Escape rejects.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from twofold.runtime.client.permissions import Question
from twofold.session import Permission
from twofold.term.draw import INDENT, path_style, question_lines
from twofold.term.input.keys import ESCAPE
from twofold.term.input.orders import said
from twofold.term.lines import Drawn, Line, Parts, Row, all_rows, cells, line
from twofold.text import one_line, sanitize
from twofold.view.blocks import PermissionBlock
from twofold.wire import v2
from twofold.wire.shared import PermissionOption

READ: Final = 0.35
"""For how many seconds a question has to be seen before a key answers it."""

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
    kinds = [option.kind for option in options]
    numbers = iter("123456789")
    made = []
    for option in options:
        alone = kinds.count(option.kind) == 1
        key = _KEYS.get(option.kind, "") if alone else ""
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
        self.seen: float | None = None
        """Since when it is on the screen."""
        self.printed = False
        """What would happen is in the scrollback, for it does not fit on the screen."""

    @property
    def tool_call_id(self) -> str | None:
        """The tool call that it is about."""
        return Permission("", self.question.request).tool_call_id

    @property
    def was_read(self) -> bool:
        """Whether it has been on the screen for long enough."""
        return self.seen is not None and asyncio.get_running_loop().time() - self.seen >= READ

    def rows(self, width: int, others: int = 0) -> list[Row]:
        """What would happen, and the keys."""
        return [*self.told(width), *self.answers(width, others)]

    def told(self, width: int) -> list[Row]:
        """What would happen."""
        return [(), *all_rows([*question_lines(_block(self.question)), *self._paths()], width)]

    def answers(self, width: int, others: int = 0) -> list[Row]:
        """The keys."""
        lines = [Line(parts, ((INDENT, ""),)) for parts in _packed(self._answers(), width)]
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

    def _answers(self) -> Iterator[Parts]:
        for choice in self.choices:
            style = _STYLES.get(choice.option.kind, "")
            kind = said(choice.option.kind.replace("_", " "))
            name = said(choice.option.name)
            words = name if name.lower() == kind else f"{name} ({kind})"
            yield (choice.key, f"bold reverse {style}"), (f" {words}", style)
        yield ("Esc", "bold"), (" reject", "dim")


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
    """The questions that wait, the first of which is asked."""

    def __init__(self) -> None:
        self._waiting: deque[Asked] = deque()
        self.changed: Callable[[], None] = lambda: None
        """Called when there is another question to show, or none any more."""

    @property
    def current(self) -> Asked | None:
        """What is asked now."""
        return self._waiting[0] if self._waiting else None

    async def ask(self, question: Question) -> PermissionOption | None:
        """Have the person choose; None to reject."""
        asked = Asked(question)
        self._waiting.append(asked)
        self.changed()
        try:
            return await asked.answer
        finally:
            self._waiting.remove(asked)
            self.changed()

    def rows(self, width: int) -> list[Row]:
        """The question, from now on to be read; only its keys if the rest was printed."""
        asked = self.current
        if asked is None:
            return []
        if asked.seen is None:
            asked.seen = asyncio.get_running_loop().time()
        others = len(self._waiting) - 1
        return asked.answers(width, others) if asked.printed else asked.rows(width, others)

    def press(self, key: str) -> bool:
        """Take a key; False if it is no answer to what is asked."""
        asked = self.current
        if asked is None:
            return False
        chosen = next((choice for choice in asked.choices if choice.key == key), None)
        if chosen is None and key != ESCAPE:
            return False
        if asked.was_read and not asked.answer.done():
            asked.answer.set_result(chosen.option if chosen is not None else None)
        return True  # also a key that came too early: it must not become part of the next prompt
