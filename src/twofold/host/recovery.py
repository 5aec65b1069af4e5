"""The log of a hosted session → the session as it was, and what becomes of what was unfinished.

Folding the events one after the other gives the session, the blocks in the order in which they
were shown, the queue and the answers. Then nothing is left pending: questions are withdrawn, a turn
that went on has ended with an error that says why, and queued prompts are held. An event that
cannot be read is left out and reported; the rest is read.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from twofold.client.known_sessions import shortened
from twofold.convert.turns import failed_turn
from twofold.host import session_log as log
from twofold.host.prompt_queue import QueuedPrompt
from twofold.host.questions import MOST_ANSWERED
from twofold.host.session_facts import LONGEST_NAME, Fact
from twofold.journal import session_events as events
from twofold.journal.session_events import KINDS, read_input
from twofold.rpc.errors import INTERNAL_ERROR
from twofold.session.changes import Changes
from twofold.session.inputs import Input, LoggedSession, OnInput, put
from twofold.view.blocks import RemarkBlock
from twofold.view.live import Key, Live, LiveBlock
from twofold.wire.shared import Error

INTERRUPTED: Final = "The server ended in the middle of this turn, and the agent with it."


class Recovery:
    """Folds the events of one session.

    Args:
        cwd: The directory of the session.
        report: Called, in words, with an event that cannot be read.
    """

    def __init__(self, cwd: str, report: Callable[[str], None]) -> None:
        self._cwd = cwd
        self._report = report
        self.session = LoggedSession("", _ignore)
        """The state of the session."""
        self.live = self._live(self.session)
        """Its blocks."""
        self.agent_session: str | None = None
        """The id that the agent gave it."""
        self.failure: str | None = None
        """Why the agent ended, if it has not been started since."""
        self.first_words = ""
        """The first prompt that was entered, on one line."""
        self.answered: deque[Fact] = deque(maxlen=MOST_ANSWERED)
        """The last answers to questions."""
        self._prompts: dict[str, QueuedPrompt] = {}
        self._items: list[str] = []
        self._opening: LoggedSession | None = None

    @property
    def queue(self) -> list[QueuedPrompt]:
        """The prompts that were queued."""
        return [self._prompts[item] for item in self._items if item in self._prompts]

    def put(self, seq: int, kind: str, body: bytes) -> None:
        """Fold one event."""
        try:
            self._put(kind, body)
        except Exception as error:
            self._report(f"Event {seq} of the journal, of kind {kind!r}, cannot be read: {error}")

    def _put(self, kind: str, body: bytes) -> None:
        if kind in KINDS:
            given = read_input(kind, body)
            if self._opening is not None:
                self._opening = _logged(put(self._opening, given)[0])
                return
            session, changes = put(self.session, given)
            if session is not self.session:
                self.session = _logged(session)
                self.live = self._live(self.session)
            self.live.take(changes)
            return
        match kind:
            case log.REMARK:
                self.live.add(log.read_remark(body))
            case log.QUEUED:
                prompt = log.read_prompt(body)
                self._prompts[prompt.item] = prompt
                self.first_words = self.first_words or shortened(prompt.text, LONGEST_NAME)
            case log.QUEUE:
                self._items = list(log.read_items(body))
                self._prompts = {prompt.item: prompt for prompt in self.queue}
            case log.ANSWERED:
                self.answered.append(log.read_facts(body))
            case events.OPENING:
                self.agent_session = str(log.read_facts(body)["session"])
                self._opening = LoggedSession(self.agent_session, _ignore)
            case events.OPENED:
                self._open(keep=bool(log.read_facts(body)["keep"]))
            case log.STARTED:
                self.failure = None
            case log.FAILED:
                self.failure = str(log.read_facts(body)["reason"])

    def _open(self, *, keep: bool) -> None:
        opened, self._opening = self._opening, None
        if opened is not None:
            earlier = [*kept_blocks(self.live).values()] if keep else []
            self.session, self.live = opened, self._live(opened, earlier)

    def _live(self, session: LoggedSession, earlier: list[LiveBlock] | None = None) -> Live:
        return Live(session, outputs=False, cwd=self._cwd, earlier=earlier or ())

    def settle(self, on_input: OnInput) -> RemarkBlock | None:
        """End what was going on; `on_input` is called with what is done for it, now and later.

        Returns:
            What to show for a turn that was interrupted.
        """
        session = self.session
        session.on_input = on_input
        interrupted = session.state != "idle" or session.turn == "open"
        for request_id in list(session.permissions):
            self.live.take(session.settle(request_id))
        if interrupted:
            ended = failed_turn(Error(INTERNAL_ERROR, INTERRUPTED), cancelling=False)
            self.live.take(session.apply(ended))
        if session.open_calls or session.turn == "open":  # of work that no state reported
            self.live.take(session.replayed())
        if not interrupted:
            return None
        block = RemarkBlock(INTERRUPTED, "error")
        self.live.add(block)
        return block


def kept_blocks(live: Live) -> dict[Key, LiveBlock]:
    """The blocks of a view that another one goes on below, in order."""
    blocks = [(key, live.block(key)) for key in live.places]
    return {key: block for key, block in blocks if block is not None}


def _ignore(given: Input, changes: Changes) -> None:
    """What was logged already is not logged again."""


def _logged(session: object) -> LoggedSession:
    assert isinstance(session, LoggedSession)
    return session
