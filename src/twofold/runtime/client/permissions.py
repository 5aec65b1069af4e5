"""Who answers a permission request: a rule, a person, or nobody.

A request waits in the session's state until it is settled, once: by the policy, by an answer that
was given for always, by a person, or by a cancel. Without anyone to ask it is rejected. An option
is picked by its kind; nothing is allowed because of what it is called or where it stands.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from twofold.policy import By, Decided, Policy, Rule, Subject, choose, remembered, subject_of
from twofold.runtime.errors import Problem, Report
from twofold.session import Session
from twofold.session.changes import Changes
from twofold.wire import v2
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    PermissionOption,
    SelectedPermissionOutcome,
)


class Question(Struct):
    """What a person is asked: everything there is to see before saying yes."""

    session: Session
    request: v2.RequestPermissionRequest
    subject: Subject

    @property
    def options(self) -> list[PermissionOption]:
        """The answers to choose from, by kind."""
        return self.request.options

    def option(self, kind: str) -> PermissionOption | None:
        """The option of a kind, if there is one: `allow_once`, `reject_once`, …"""
        return next((option for option in self.options if option.kind == kind), None)


Ask: TypeAlias = Callable[[Question], PermissionOption | None | Awaitable[PermissionOption | None]]
"""Asks a person: the chosen option, or None to reject."""


class _Waiting(Struct):
    request_id: int | str
    question: Question
    answer: asyncio.Future[Decided]


class Permissions:
    """The permission requests of one session."""

    def __init__(
        self,
        session: Callable[[], Session],
        tell: Callable[[Changes], None],
        policy: Policy,
        ask: Ask | None,
        report: Report,
    ) -> None:
        self._session = session
        self._tell = tell
        self._policy = policy
        self._ask = ask
        self._report = report
        self._waiting: dict[int | str, _Waiting] = {}
        self.rules: list[Rule] = []
        """What was answered for always, in this session."""
        self.decisions: list[Decided] = []
        """Every decision, with the rule that made it."""

    async def decide(
        self,
        request_id: int | str,
        request: v2.RequestPermissionRequest,
        subject: Subject | None = None,
    ) -> Decided:
        """The answer to a request that the session's state holds already."""
        session = self._session()
        question = Question(session, request, subject or subject_of(request, session))
        future: asyncio.Future[Decided] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(request_id, question, future)
        self._waiting[request_id] = waiting
        person: asyncio.Future[None] | None = None
        try:
            if session.cancelling:
                self._settle(waiting, None, "cancel")
            elif not self._by_rule(waiting):
                person = asyncio.ensure_future(self._by_person(waiting))
            decided = await future
        finally:
            if person is not None:
                person.cancel()
            del self._waiting[request_id]
            self._tell(self._session().settle(request_id))
        self.decisions.append(decided)
        return decided

    def cancel(self) -> None:
        """The turn was cancelled: whatever waits is answered `cancelled`."""
        for waiting in list(self._waiting.values()):
            self._settle(waiting, None, "cancel")

    # ---- who decides

    def _by_rule(self, waiting: _Waiting) -> bool:
        # what was answered for always comes first, but nothing goes before a rule that rejects
        policy = Policy([*self.rules, *self._policy.rules], self._policy.otherwise)
        ruling = policy.decide(waiting.question.subject)
        if ruling.decision == "ask":
            return False
        option = choose(waiting.question.options, ruling.decision)
        if option is None and ruling.decision == "allow":
            return False  # there is no option that allows just this: a person decides
        by: By = "remembered" if ruling.rule in self.rules else "policy"
        self._settle(waiting, option, by, ruling.rule)
        return True

    async def _by_person(self, waiting: _Waiting) -> None:
        question = waiting.question
        option = choose(question.options, "reject")
        by: By = "nobody"
        if self._ask is not None:
            try:
                chosen = self._ask(question)
                if inspect.isawaitable(chosen):
                    chosen = await chosen
            except Exception as error:
                text = f"Asking for permission failed, so it is rejected: {error}"
                self._report(Problem("handler", text, error=error))
            else:
                by = "person"
                if chosen is not None:
                    option = chosen
        self._settle(waiting, option, by)
        if by == "person" and option is not None:
            self._remember(question.subject, option)

    def _remember(self, subject: Subject, option: PermissionOption) -> None:
        rule = remembered(subject, option)
        if rule is not None:
            self.rules.append(rule)
            for waiting in list(self._waiting.values()):
                if not waiting.answer.done():
                    self._by_rule(waiting)

    def _settle(
        self, waiting: _Waiting, option: PermissionOption | None, by: By, rule: Rule | None = None
    ) -> None:
        if waiting.answer.done():
            return  # the first answer counts
        identity, kind = (option.option_id, option.kind) if option else (None, None)
        subject = waiting.question.subject
        waiting.answer.set_result(Decided(waiting.request_id, subject, identity, kind, by, rule))


def response(decided: Decided) -> v2.RequestPermissionResponse:
    """A decision as the agent is told of it."""
    if decided.option_id is None:
        return v2.RequestPermissionResponse(CancelledPermissionOutcome())
    return v2.RequestPermissionResponse(SelectedPermissionOutcome(decided.option_id))
