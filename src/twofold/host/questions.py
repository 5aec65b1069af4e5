"""The permission requests of one session: those that wait, and how the others were settled.

The first answer wins: a later one is an error that names who gave the first. Only people answer
here, and nothing is allowed by default. What became of a request is read from the decisions of the
session (`ClientSession.decisions`), so what is shown as answered is what was sent to the agent.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from twofold.client.known_sessions import shortened
from twofold.client.permissions import Question, block_of
from twofold.errors import LocalError
from twofold.host.session_facts import LONGEST_NAME, Fact, sendable_ids
from twofold.policy import Decided, asked_because
from twofold.session import Permission
from twofold.text import one_line
from twofold.view.blocks import QuestionBlock
from twofold.view.live import Key
from twofold.wire import v2
from twofold.wire.shared import PermissionOption

MOST_SHOWN: Final = 20
"""How many questions that wait are shown at once: the others follow when these are answered."""
MOST_ANSWERED: Final = 50
"""How many answers are shown."""
_REMEMBERED: Final = 2000
_REJECTS: Final = frozenset({"reject_once", "reject_always"})


class AlreadyAnswered(LocalError):
    """Somebody else has answered the question.

    Attributes:
        by: Who did.
    """

    def __init__(self, by: str, words: str) -> None:
        super().__init__(f"This question was answered already: {words}.")
        self.by = by


class NoSuchQuestion(LocalError):
    """The question does not wait for an answer, or it has no such option."""


class OpenQuestion(NamedTuple):
    """A question that waits for a person, as the agent asked it."""

    identity: str
    """Its id here, for `answer`."""
    request: v2.RequestPermissionRequest
    options: dict[str, PermissionOption]
    """The options by the ids for `answer`."""


class _Waiting:
    """A question that waits for a person."""

    def __init__(self, identity: str, question: Question) -> None:
        self.identity = identity
        self.question = question
        self.since = time.time()
        self.answer: asyncio.Future[PermissionOption] = asyncio.get_running_loop().create_future()
        self.by = ""
        self.cancelled = False
        """The turn was cancelled: it is settled in a moment."""
        handles = sendable_ids([option.option_id for option in question.options])
        self.options = dict(zip(handles, question.options, strict=True))
        self._block: QuestionBlock | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can be answered."""
        return not self.answer.done() and not self.cancelled

    @property
    def request_id(self) -> int | str | None:
        """The id of the request in the state of the session."""
        for request_id, permission in reversed(self.question.session.permissions.items()):
            if permission.request is self.question.request:
                return request_id
        return None

    @property
    def key(self) -> Key | None:
        """The block of the tool call that it is about."""
        call_id = Permission("", self.question.request).tool_call_id
        call = self.question.session.tool_calls.get(call_id or "")
        return Key("entry", call.index) if call is not None else None

    def refresh(self) -> None:
        """Its tool call has changed: what it shows is made again."""
        self._block = None

    @property
    def fact(self) -> Fact:
        """The question as it is shown; `parts` are blocks."""
        self._block = block = self._block or block_of(self.question)
        key = self.key
        return {
            "question": self.identity,
            "key": str(key) if key is not None else None,
            "title": block.title,
            "kind": block.kind,
            "parts": list(block.parts),
            "options": [
                {
                    "option": handle,
                    "name": shortened(option.name, LONGEST_NAME),
                    "kind": one_line(option.kind),
                }
                for handle, option in self.options.items()
            ],
            "since": self.since,
            "why": one_line(asked_because(self.question.rule)),
            "canReason": any(option.kind in _REJECTS for option in self.question.options),
        }


class Questions:
    """The questions of one session.

    Args:
        on_change: Called when one is asked or settled.
        decisions: Returns the decisions of the session so far, a list that only grows.
        keep: Called with an answer of a person; the agent is sent it after that.
        on_answered: Called with each fact of `answered` when it is new.
    """

    def __init__(
        self,
        on_change: Callable[[], None],
        decisions: Callable[[], Sequence[Decided]],
        keep: Callable[[Fact], Awaitable[None]],
        on_answered: Callable[[Fact], None],
    ) -> None:
        self._on_change = on_change
        self._keep = keep
        self._on_answered = on_answered
        self._decisions = decisions
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._by_request: dict[int | str, _Waiting] = {}
        self._last = 0
        self._settled: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._answered: deque[Fact] = deque(maxlen=MOST_ANSWERED)
        self._read = 0

    def __len__(self) -> int:
        """How many wait for a person."""
        return sum(each.is_open for each in self._waiting.values())

    @property
    def title(self) -> str:
        """What is asked first; empty if nothing is."""
        first = next(iter(self._shown), None)
        return one_line(first.question.request.title) if first is not None else ""

    async def ask(self, question: Question) -> PermissionOption:
        """Ask a person, and return the chosen option; cancelled if it is settled otherwise."""
        self.note_decisions()  # the agent may use the id of a request again
        waiting = _Waiting(self._next(), question)
        self._waiting[waiting.identity] = waiting
        request_id = waiting.request_id
        if request_id is not None:
            self._by_request[request_id] = waiting
        self._on_change()
        try:
            chosen = await waiting.answer
            await self._keep(
                {"question": waiting.identity, "option": chosen.option_id, "by": waiting.by}
            )
            return chosen
        finally:
            if waiting.answer.done() and not waiting.answer.cancelled():
                # until its decision is read, somebody else may try to answer
                self._settled[waiting.identity] = waiting.by, f"by {one_line(waiting.by)}"
            if waiting.answer.cancelled():  # settled by a cancel or a rule, or withdrawn
                self.note_decisions()
                if request_id is not None and self._by_request.get(request_id) is waiting:
                    del self._by_request[request_id]
            self._waiting.pop(waiting.identity, None)
            self._on_change()

    def _next(self) -> str:
        self._last += 1
        return f"q{self._last}"

    def answer(self, identity: str, option: str, by: str, reason: str = "") -> bool:
        """Answer a question, for good.

        Args:
            identity: The id of the question.
            option: The id of the option, as the question shows it.
            by: Who answers.
            reason: Why it is rejected.

        Returns:
            Whether it was rejected.

        Raises:
            AlreadyAnswered: Somebody else did before.
            NoSuchQuestion: It does not wait for an answer, or has no such option.
            LocalError: There is a reason, and the option does not reject.
        """
        waiting = self._waiting.get(identity)
        if waiting is None or not waiting.is_open:
            raise self._too_late(identity, waiting)
        chosen = waiting.options.get(option)
        if chosen is None:
            raise NoSuchQuestion("The question has no such option. Choose one that it shows.")
        rejects = chosen.kind in _REJECTS
        if reason and not rejects:
            raise LocalError("A reason can only be given with an option that rejects.")
        waiting.by, waiting.question.reason = by, reason
        waiting.answer.set_result(chosen)
        self._on_change()
        return rejects

    def _too_late(self, identity: str, waiting: _Waiting | None) -> LocalError:
        if waiting is not None and waiting.answer.done() and not waiting.answer.cancelled():
            return AlreadyAnswered(waiting.by, f"by {one_line(waiting.by)}")
        if identity in self._settled:
            by, words = self._settled[identity]
            return AlreadyAnswered(by, words)
        return NoSuchQuestion(
            "This question does not wait for an answer any more: the agent withdrew it, or the"
            " turn has ended."
        )

    def cancel(self) -> None:
        """The turn is being cancelled: from now on nobody can answer what waits."""
        for waiting in self._waiting.values():
            waiting.cancelled = True
        self._on_change()

    def note_decisions(self) -> None:
        """Read the decisions that are new."""
        decisions = self._decisions()
        for decided in decisions[self._read :]:
            self._note(decided)
        self._read = len(decisions)

    def _note(self, decided: Decided) -> None:
        waiting = self._by_request.pop(decided.request_id, None)
        by, words = str(decided.by), str(decided)
        if decided.by == "person" and waiting is not None:
            by = waiting.by
            words = words.replace("by you", f"by {one_line(by)}" if by else "by a person", 1)
        identity = waiting.identity if waiting is not None else self._next()
        self._settled[identity] = by, words
        if len(self._settled) > _REMEMBERED:
            self._settled.popitem(last=False)
        fact = {
            "question": identity,
            "title": shortened(decided.subject.title, LONGEST_NAME),
            "by": one_line(by),
            "words": words,
        }
        self._answered.append(fact)
        self._on_answered(fact)

    def begin_again(self) -> None:
        """Another process of the agent begins with no decisions."""
        self._read = 0
        self._by_request.clear()

    def restore(self, answered: Iterable[Fact]) -> None:
        """Show the answers of an earlier host; new questions get other ids than theirs."""
        self._answered.extend(answered)
        numbers = [str(each.get("question", ""))[1:] for each in self._answered]
        self._last = max([self._last, *(int(each) for each in numbers if _is_number(each))])

    def refresh(self, keys: Collection[Key]) -> bool:
        """Blocks have changed; returns whether a question is about one of them."""
        changed = [each for each in self._shown if each.key in keys]
        for waiting in changed:
            waiting.refresh()
        return bool(changed)

    @property
    def _shown(self) -> Iterable[_Waiting]:
        return islice((each for each in self._waiting.values() if each.is_open), MOST_SHOWN)

    @property
    def open(self) -> list[OpenQuestion]:
        """The questions that are shown, as the agent asked them."""
        return [
            OpenQuestion(waiting.identity, waiting.question.request, waiting.options)
            for waiting in self._shown
        ]

    @property
    def facts(self) -> list[Fact]:
        """The questions that are shown."""
        return [waiting.fact for waiting in self._shown]

    @property
    def answered(self) -> list[Fact]:
        """The last answers, the oldest first."""
        return list(self._answered)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
