"""The permission requests of one session, each from when it is received to its one answer.

A request is pending in the session's state until it is settled, once: by an answer that was given
for always, by the policy, by a person, or by a cancel. If there is nobody to ask it is rejected. An
option is picked by its kind; nothing is allowed because of an option's name, id or position.
"""

import asyncio
import dataclasses
import inspect
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from twofold.client.updates import Updates
from twofold.client.watching import Subscription
from twofold.errors import LocalError
from twofold.peer.problems import Problem, Report, described
from twofold.policy import (
    By,
    Decided,
    Policy,
    Rule,
    Subject,
    advice,
    asked_because,
    choose,
    remembered,
    subject_of,
    with_shown,
)
from twofold.rpc.errors import RequestError
from twofold.session import Permission, Session, ToolCall
from twofold.text import one_line
from twofold.view.blocks import QuestionBlock
from twofold.view.question import question_block
from twofold.wire import v2
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    PermissionOption,
    SelectedPermissionOutcome,
)

PENDING = 1000
"""How many requests of one session may be pending; more are refused."""
PENDING_IN_ALL = 4000
"""The same for all sessions of a connection."""
DECIDED = 100_000
"""How many decisions of one session are kept; after so many, requests are refused."""
REMEMBERED = 1000
"""How many answers for always a session keeps; one more removes the oldest."""
HOME = os.path.expanduser("~")


class Question(Struct):
    """A permission request, as the `ask` callback gets it."""

    session: Session
    """The state of the session, the pending request included."""
    request: v2.RequestPermissionRequest
    """The request itself: title, description, options and what it is about."""
    subject: Subject
    """What rules are matched against: kind, paths, command, directory, variables, scripts."""
    before: ToolCall | None = None
    """The tool call as it was before the request patched it, if the session had it."""
    content: tuple[v2.ToolCallContent, ...] = ()
    """What this client itself would do, such as the diff of a file it is asked to write."""
    reason: str = ""
    """Why the person decides so. The `ask` callback may set it; it is kept with the decision, and
    not sent: an answer to a permission request has no field for it."""
    rule: Rule | None = None
    """The rule that matched, and leaves the decision to a person; None if no rule decides."""

    @property
    def options(self) -> list[PermissionOption]:
        """The answers to choose from."""
        return self.request.options

    def option(self, kind: str) -> PermissionOption | None:
        """The first option of a kind.

        Args:
            kind: `allow_once`, `allow_always`, `reject_once` or `reject_always`.

        Returns:
            The option, or None if the agent offers none of this kind.
        """
        return next((option for option in self.options if option.kind == kind), None)


def block_of(question: Question) -> QuestionBlock:
    """Everything there is to see of a question now."""
    session, permission = question.session, Permission("", question.request)
    block = question_block(
        question.request,
        call=session.tool_calls.get(permission.tool_call_id or ""),
        before=question.before,
        content=question.content,
        terminals=session.terminals,
        command=question.subject.command,
        paths=question.subject.paths,
        directories=question.subject.directories,
    )
    return dataclasses.replace(
        block, why=one_line(asked_because(question.rule)) if question.rule else ""
    )


Ask: TypeAlias = Callable[[Question], PermissionOption | None | Awaitable[PermissionOption | None]]
"""Asks a person; returns the chosen option, or None to reject."""
OnQuestion: TypeAlias = Callable[[int | str, Question], None]
"""Called with the id of every permission request and its question, before anyone decides."""


class Waiting(Struct, eq=False):
    """A pending request."""

    request_id: int | str
    question: Question
    answer: asyncio.Future[Decided]
    person: asyncio.Task[None] | None = None
    awaited: bool = False
    """A task waits for the answer, to send it to the agent."""


class Permissions:
    """The permission requests of one session."""

    def __init__(
        self,
        updates: Updates,
        policy: Policy,
        ask: Ask | None,
        report: Report,
        roots: Callable[[], Sequence[str]],
        count_all: Callable[[], int],
    ) -> None:
        """`count_all` counts the pending requests of all sessions of the connection."""
        self._updates = updates
        self._roots = roots
        self._count_all = count_all
        self._again = 0
        self._full = False
        """It was reported that requests are refused."""
        self._policy = policy
        self._ask = ask
        self._report = report
        self._waiting: dict[int | str, Waiting] = {}
        self.rules: list[Rule] = []
        """What was answered for always in this session."""
        self.decisions: list[Decided] = []
        """Every decision, with the rule that made it."""
        self._on_question: list[OnQuestion] = []

    def on_question(self, callback: OnQuestion) -> Subscription:
        """Call `callback` with every request and its id, before anyone decides."""
        self._on_question = [*self._on_question, callback]

        def cancel() -> None:
            self._on_question = [each for each in self._on_question if each is not callback]

        return Subscription(cancel)

    @property
    def pending(self) -> bool:
        """Whether a request is pending."""
        return bool(self._waiting)

    @property
    def count(self) -> int:
        """How many requests are pending."""
        return len(self._waiting)

    def ask(
        self,
        request_id: int | str,
        request: v2.RequestPermissionRequest,
        subject: Subject | None = None,
        content: tuple[v2.ToolCallContent, ...] = (),
    ) -> Waiting:
        """Add a request to the session's state until it is settled; a rule may settle it at once.

        Args:
            request_id: The id of the agent's request.
            request: The request, in version 2.
            subject: What it is about; by default it is read from the request.
            content: What this client itself would do.

        Raises:
            RequestError: Too many requests are pending.
        """
        session = self._updates.state
        self._check_room()
        asked = request_id
        while request_id in session.permissions:  # an id that is used twice at once
            self._again += 1
            request_id = f"{asked}:again:{self._again}"
        self._updates.watchers.changed(session.ask(request_id, request))
        before = session.permissions[request_id].before
        subject = self._subject(request, subject, before, content)
        question = Question(session, request, subject, before, content)
        for callback in self._on_question:
            callback(request_id, question)
        answer: asyncio.Future[Decided] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[request_id] = Waiting(request_id, question, answer)
        if session.cancelling:
            self._settle(waiting, None, "cancel")
        elif not self._by_rule(waiting):
            waiting.person = asyncio.create_task(self._by_person(waiting))
            # even if the task was cancelled meanwhile: nothing stays pending
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
        return subject_of(request, self._updates.state, before=before, directories=names, home=HOME)

    def _check_room(self) -> None:
        """Refuse a request if too many are pending: an agent must not flood a person with them."""
        advice = "wait for answers before you ask more"
        refused: RequestError | None = None
        if len(self._waiting) >= PENDING:
            refused = RequestError.too_many("permission requests in this session", PENDING, advice)
        elif self._count_all() >= PENDING_IN_ALL:
            refused = RequestError.too_many("permission requests at once", PENDING_IN_ALL, advice)
        elif len(self.decisions) >= DECIDED:
            advice = "go on in a new session"
            refused = RequestError.too_many("permission requests in this session", DECIDED, advice)
        if refused is None:
            self._full = False
            return
        if not self._full:
            self._full = True
            text = f"Permission requests of the agent are refused: {refused.message}"
            self._report(Problem("limit", text, self._updates.session_id))
        raise refused

    async def answered(self, waiting: Waiting) -> Decided:
        """Wait for the decision; if this is cancelled the request is withdrawn."""
        waiting.awaited = True
        try:
            return await waiting.answer
        finally:
            if waiting.answer.cancelled():
                self._over(waiting)

    def unless_awaited(self, waiting: Waiting) -> None:
        """Withdraw a request that the agent cancelled before `answered` was called for it."""
        if not waiting.awaited:
            self._over(waiting)

    def cancel(self) -> None:
        """Answer every pending request with `cancelled`."""
        for waiting in list(self._waiting.values()):
            self._settle(waiting, None, "cancel")

    # ---- who decides

    def _by_rule(self, waiting: Waiting) -> bool:
        # answers for always come first, but a rule that rejects beats them
        policy = Policy([*self.rules, *self._policy.rules], self._policy.otherwise)
        ruling = policy.decide(waiting.question.subject)
        waiting.question.rule = ruling.rule
        if ruling.decision == "ask":
            return False
        option = choose(waiting.question.options, ruling.decision)
        if option is None and ruling.decision == "allow":
            return False  # no option allows just this: a person decides
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
                allowed = "one of its options or None"
                raise LocalError(f"The answer to a permission is {allowed}, not {chosen!r}.")
        except Exception as error:
            text = f"The ask callback raised {described(error)}: the permission is rejected"
            self._report(Problem("handler", text, error=error))
            return
        option = choose(question.options, "reject") if chosen is None else chosen
        if self._settle(waiting, option, "person") and option is not None:
            self._remember(question.subject, option)

    def _settle_by_nobody(self, waiting: Waiting) -> None:
        question = waiting.question
        self._settle(waiting, choose(question.options, "reject"), "nobody", question.rule)

    def _remember(self, subject: Subject, option: PermissionOption) -> None:
        rule = remembered(subject, option)
        if rule is not None:
            self.rules.append(rule)
            del self.rules[:-REMEMBERED]
            for waiting in list(self._waiting.values()):
                self._by_rule(waiting)

    # ---- settling

    def _settle(
        self, waiting: Waiting, option: PermissionOption | None, by: By, rule: Rule | None = None
    ) -> bool:
        if waiting.answer.done():
            return False  # the first answer counts
        identity, kind = (option.option_id, option.kind) if option else (None, None)
        subject = waiting.question.subject
        unruled = rule is None and by in ("policy", "nobody") and kind != "allow_once"
        why = advice(subject) if unruled else ""
        # decisions are kept, and texts that were only mentioned may be large
        subject = replace(subject, mentioned=(), texts=())
        call = Permission(waiting.request_id, waiting.question.request).tool_call_id
        said = waiting.question.reason if by == "person" else ""
        decided = Decided(waiting.request_id, subject, identity, kind, by, rule, call, why, said)
        waiting.answer.set_result(decided)
        self.decisions.append(decided)
        self._over(waiting, response(decided).outcome)
        return True

    def _over(self, waiting: Waiting, outcome: v2.RequestPermissionOutcome | None = None) -> None:
        """Remove a request; without an outcome it was withdrawn."""
        waiting.answer.cancel()  # does nothing once it has a result
        if self._waiting.pop(waiting.request_id, None) is None:
            return
        if waiting.person is not None and waiting.person is not asyncio.current_task():
            waiting.person.cancel()
        changes = self._updates.state.settle(waiting.request_id, outcome)
        self._updates.watchers.changed(changes)


def names_of(*directories: str) -> tuple[str, ...]:
    """Each directory as it was given, and with its links resolved."""
    names = list(directories)
    with suppress(OSError):  # a link that changes while it is followed
        names += map(os.path.realpath, directories)
    return tuple(dict.fromkeys(names))


def response(decided: Decided) -> v2.RequestPermissionResponse:
    """A decision as the answer to the agent."""
    if decided.option_id is None:
        return v2.RequestPermissionResponse(CancelledPermissionOutcome())
    return v2.RequestPermissionResponse(SelectedPermissionOutcome(decided.option_id))
