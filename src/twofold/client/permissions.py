"""Who answers a permission request: a rule, a person, or nobody.

A request waits in the session's state until it is settled, once: by the policy, by an answer that
was given for always, by a person, or by a cancel. Without anyone to ask it is rejected. An option
is picked by its kind; nothing is allowed because of what it is called or where it stands.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from twofold.errors import LocalError
from twofold.peer.problems import Problem, Report, described
from twofold.policy import (
    By,
    Decided,
    Policy,
    Rule,
    Subject,
    advice,
    choose,
    remembered,
    subject_of,
    with_shown,
)
from twofold.rpc.errors import RequestError
from twofold.session import Permission, Session, ToolCall
from twofold.session.changes import Changes
from twofold.wire import v2
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    PermissionOption,
    SelectedPermissionOutcome,
)

PENDING = 1000
"""How many requests of one session may wait for an answer; more are refused."""
PENDING_IN_ALL = 4000
"""The same for all sessions of a connection."""
DECIDED = 100_000
"""How many decisions of one session are kept; after so many, requests are refused."""
REMEMBERED = 1000
"""How many answers for always a session keeps: with one more the oldest is asked again."""
HOME = os.path.expanduser("~")


class Question(Struct):
    """What a person is asked: everything there is to see before saying yes."""

    session: Session
    request: v2.RequestPermissionRequest
    subject: Subject
    before: ToolCall | None = None
    """The tool call as it was before the request patched it, if the session knew it."""
    content: tuple[v2.ToolCallContent, ...] = ()
    """What this client itself would do, such as the diff of a file it is asked to write."""

    @property
    def options(self) -> list[PermissionOption]:
        """The answers to choose from, by kind."""
        return self.request.options

    def option(self, kind: str) -> PermissionOption | None:
        """The option of a kind, if there is one: `allow_once`, `reject_once`, …"""
        return next((option for option in self.options if option.kind == kind), None)


Ask: TypeAlias = Callable[[Question], PermissionOption | None | Awaitable[PermissionOption | None]]
"""Asks a person: the chosen option, or None to reject."""


class NoSuchOption(LocalError):
    """Whoever was asked answered with something else than one of the options."""

    def __init__(self, answer: object) -> None:
        super().__init__(
            f"The answer to a permission request is one of its options or None, not {answer!r}."
        )


class Waiting(Struct, eq=False):
    """A request that waits for its answer."""

    request_id: int | str
    question: Question
    answer: asyncio.Future[Decided]
    person: asyncio.Task[None] | None = None
    awaited: bool = False
    """Someone is there to pass the answer on."""
    rule: Rule | None = None
    """The rule that leaves it to a person, if one does."""


class Permissions:
    """The permission requests of one session."""

    def __init__(
        self,
        session: Callable[[], Session],
        tell: Callable[[Changes], None],
        policy: Policy,
        ask: Ask | None,
        report: Report,
        roots: Callable[[], Sequence[str]] = tuple,
        pending: Callable[[], int] | None = None,
    ) -> None:
        """`pending` counts the requests that wait in all sessions of the connection."""
        self._roots = roots
        self._session = session
        self._pending = pending or (lambda: len(self._waiting))
        self._again = 0
        self._full = False
        """It was reported that requests are refused."""
        self._tell = tell
        self._policy = policy
        self._ask = ask
        self._report = report
        self._waiting: dict[int | str, Waiting] = {}
        self.rules: list[Rule] = []
        """What was answered for always, in this session."""
        self.decisions: list[Decided] = []
        """Every decision, with the rule that made it."""
        self.on_ask: Callable[[int | str, Question], None] = lambda request_id, question: None
        """Called with every request and its id, before anyone decides."""

    @property
    def pending(self) -> bool:
        """Whether something waits for an answer."""
        return bool(self._waiting)

    @property
    def count(self) -> int:
        """How many requests wait for an answer."""
        return len(self._waiting)

    def ask(
        self,
        request_id: int | str,
        request: v2.RequestPermissionRequest,
        subject: Subject | None = None,
        content: tuple[v2.ToolCallContent, ...] = (),
    ) -> Waiting:
        """Hold a request in the session's state until it is settled; a rule may do it at once.

        Raises `RequestError` if too many wait.
        """
        session = self._session()
        self._check_room()
        asked = request_id
        while request_id in session.permissions:  # an id that is used twice at once
            self._again += 1
            request_id = f"{asked}:again:{self._again}"
        self._tell(session.ask(request_id, request))
        before = session.permissions[request_id].before
        subject = self._subject(request, subject, before, content)
        question = Question(session, request, subject, before, content)
        self.on_ask(request_id, question)
        answer: asyncio.Future[Decided] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[request_id] = Waiting(request_id, question, answer)
        if session.cancelling:
            self._settle(waiting, None, "cancel")
        elif not self._by_rule(waiting):
            waiting.person = asyncio.create_task(self._by_person(waiting))
            # also if whoever asks was cancelled meanwhile: nothing stays pending
            waiting.person.add_done_callback(lambda _: self._settle_by_nobody(waiting))
        return waiting

    def _subject(
        self,
        request: v2.RequestPermissionRequest,
        subject: Subject | None,
        before: ToolCall | None,
        content: tuple[v2.ToolCallContent, ...],
    ) -> Subject:
        if subject is not None:
            return with_shown(subject, request, content=content)
        names = names_of(*self._roots()[:1])
        return subject_of(request, self._session(), before=before, directories=names, home=HOME)

    def _check_room(self) -> None:
        """Refuse what is too much: an agent that floods a person with questions gets no answers."""
        advice = "wait for answers before you ask more"
        refused: RequestError | None = None
        if len(self._waiting) >= PENDING:
            refused = RequestError.too_many("permission requests in this session", PENDING, advice)
        elif self._pending() >= PENDING_IN_ALL:
            refused = RequestError.too_many("permission requests at once", PENDING_IN_ALL, advice)
        elif len(self.decisions) >= DECIDED:
            advice = "go on in a new session"
            refused = RequestError.too_many("permission requests in this session", DECIDED, advice)
        if refused is None:
            self._full = False
            return
        if not self._full:
            self._full = True
            text = f"The agent asks for too much, and is refused: {refused.message}"
            self._report(Problem("limit", text, self._session().session_id))
        raise refused

    async def answered(self, waiting: Waiting) -> Decided:
        """The answer; if whoever waits for it is cancelled the request is withdrawn."""
        waiting.awaited = True
        try:
            return await waiting.answer
        finally:
            if waiting.answer.cancelled():
                self._over(waiting)

    def unless_awaited(self, waiting: Waiting) -> None:
        """Withdraw a request that was taken back before anyone came to wait for its answer."""
        if not waiting.awaited:
            self._over(waiting)

    def cancel(self) -> None:
        """The turn was cancelled: whatever waits is answered `cancelled`."""
        for waiting in list(self._waiting.values()):
            self._settle(waiting, None, "cancel")

    # ---- who decides

    def _by_rule(self, waiting: Waiting) -> bool:
        # what was answered for always comes first, but nothing goes before a rule that rejects
        policy = Policy([*self.rules, *self._policy.rules], self._policy.otherwise)
        ruling = policy.decide(waiting.question.subject)
        waiting.rule = ruling.rule
        if ruling.decision == "ask":
            return False
        option = choose(waiting.question.options, ruling.decision)
        if option is None and ruling.decision == "allow":
            return False  # there is no option that allows just this: a person decides
        by: By = "remembered" if ruling.rule in self.rules else "policy"
        self._settle(waiting, option, by, ruling.rule)
        return True

    async def _by_person(self, waiting: Waiting) -> None:
        question = waiting.question
        if self._ask is None:
            return
        try:
            chosen = self._ask(question)
            if inspect.isawaitable(chosen):
                chosen = await chosen
            if chosen is not None and chosen not in question.options:
                raise NoSuchOption(chosen)
        except Exception as error:
            text = f"Asking for permission failed, so it is rejected: {described(error)}"
            self._report(Problem("handler", text, error=error))
            return
        option = choose(question.options, "reject") if chosen is None else chosen
        if self._settle(waiting, option, "person") and option is not None:
            self._remember(question.subject, option)

    def _settle_by_nobody(self, waiting: Waiting) -> None:
        self._settle(waiting, choose(waiting.question.options, "reject"), "nobody", waiting.rule)

    def _remember(self, subject: Subject, option: PermissionOption) -> None:
        rule = remembered(subject, option)
        if rule is not None:
            self.rules.append(rule)
            del self.rules[:-REMEMBERED]
            for waiting in list(self._waiting.values()):
                self._by_rule(waiting)

    # ---- the end of it

    def _settle(
        self, waiting: Waiting, option: PermissionOption | None, by: By, rule: Rule | None = None
    ) -> bool:
        if waiting.answer.done():
            return False  # the first answer counts
        identity, kind = (option.option_id, option.kind) if option else (None, None)
        subject = waiting.question.subject
        unruled = rule is None and by in ("policy", "nobody") and kind != "allow_once"
        why = advice(subject) if unruled else ""
        # what was only mentioned may be large, and decisions are kept
        subject = replace(subject, mentioned=(), texts=())
        call = Permission(waiting.request_id, waiting.question.request).tool_call_id
        decided = Decided(waiting.request_id, subject, identity, kind, by, rule, call, why)
        waiting.answer.set_result(decided)
        self.decisions.append(decided)
        self._over(waiting, response(decided).outcome)
        return True

    def _over(self, waiting: Waiting, outcome: v2.RequestPermissionOutcome | None = None) -> None:
        """Nobody has to be asked any more; without an outcome the request was withdrawn."""
        waiting.answer.cancel()  # does nothing to one that was given
        if self._waiting.pop(waiting.request_id, None) is None:
            return
        if waiting.person is not None and waiting.person is not asyncio.current_task():
            waiting.person.cancel()
        self._tell(self._session().settle(waiting.request_id, outcome))


def names_of(*directories: str) -> tuple[str, ...]:
    """Each directory as it was given, and where it really is."""
    names = list(directories)
    with suppress(OSError):  # a link that changes while it is followed
        names += map(os.path.realpath, directories)
    return tuple(dict.fromkeys(names))


def response(decided: Decided) -> v2.RequestPermissionResponse:
    """A decision as the agent is told of it."""
    if decided.option_id is None:
        return v2.RequestPermissionResponse(CancelledPermissionOutcome())
    return v2.RequestPermissionResponse(SelectedPermissionOutcome(decided.option_id))
