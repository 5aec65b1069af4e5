"""What a hosted session writes down as it happens: its log, from which it can be rebuilt.

The inputs of the session are events of the log, and so is what only the host knows: prompts with
who entered them, answers with who gave them, how turns ended, which session of the agent it is.
What must not be lost is kept before anybody is shown that it happened, or the agent is sent it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from twofold.client.prompt_blocks import Part
from twofold.errors import LocalError
from twofold.host.prompt_queue import QueuedPrompt
from twofold.host.session_facts import Fact
from twofold.journal.compaction import Thing
from twofold.journal.session_events import OPENED, OPENING, write_input
from twofold.session import Role, Session
from twofold.session.changes import Changes
from twofold.session.inputs import Applied, Input, StartedOver
from twofold.view.blocks import RemarkBlock
from twofold.wire import codec, v2
from twofold.wire.base import Malformed
from twofold.wire.content import ContentBlock

QUEUED: Final = "queued"
QUEUE: Final = "queue"
ANSWER: Final = "answer"
ANSWERED: Final = "answered"
REMARK: Final = "remark"
STARTED: Final = "started"
FAILED: Final = "failed"

_ROLES: Final[dict[type, Role]] = {
    v2.UserMessageChunk: "user",
    v2.AgentMessageChunk: "agent",
    v2.AgentThoughtChunk: "thought",
}

Tone: TypeAlias = Literal["", "warning", "error"]
_TONES: Final[dict[str, Tone]] = {"warning": "warning", "error": "error"}


class SessionLog(Protocol):
    """Where a hosted session writes."""

    @property
    def keeps(self) -> bool:
        """Whether anything is kept at all."""

    def put(self, kind: str, body: bytes, text: str = "") -> None:
        """Write an event, in order; it is kept a moment later.

        Args:
            kind: What happened.
            body: The facts, as JSON.
            text: What a search over all sessions should find it by.
        """

    async def kept(self) -> None:
        """Return once all that was put is kept.

        Raises:
            JournalFailed: It never will be.
        """

    async def compact(self, is_known: Callable[[Thing], bool]) -> None:
        """Make fewer events of those since the last call, which add up to the same.

        Args:
            is_known: Whether the session had a message or a terminal before that.

        Raises:
            JournalFailed: It cannot be written.
        """


class NoLog:
    """Keeps nothing: the session lives as long as its host."""

    keeps = False

    def put(self, kind: str, body: bytes, text: str = "") -> None:
        """Write nothing."""

    async def kept(self) -> None:
        """Return at once."""

    async def compact(self, is_known: Callable[[Thing], bool]) -> None:
        """There is nothing to compact."""


NO_LOG: Final = NoLog()


class SessionWriter:
    """Writes the log of one hosted session.

    Args:
        log: Where it is written.
        on_kept: Called when everything that has to be kept before it is shown is kept.
        on_lost: Called when nothing can be kept any more.
    """

    def __init__(
        self, log: SessionLog, on_kept: Callable[[], None], on_lost: Callable[[LocalError], None]
    ) -> None:
        self.keeps = log.keeps
        """Whether anything is kept at all."""
        self.is_paused = False
        """Nothing is written, because the log is still to be read."""
        self._log = log
        self._on_kept = on_kept
        self._on_lost = on_lost
        self._queue: list[QueuedPrompt] = []
        self._keeping: set[asyncio.Task[None]] = set()
        self._entries = 0
        self._terminals: frozenset[str] = frozenset()

    @property
    def is_keeping(self) -> bool:
        """Whether something must be kept before anything more is shown."""
        return bool(self._keeping)

    async def kept(self) -> None:
        """Return once all that was written is kept.

        Raises:
            JournalFailed: It never will be.
        """
        try:
            await self._log.kept()
        except LocalError as error:
            self._on_lost(error)
            raise

    async def compact(self, session: Session) -> None:
        """A turn has ended: make fewer events of its pieces."""
        entries, terminals = self._entries, self._terminals
        self._entries, self._terminals = len(session.entries), frozenset(session.terminals)

        def is_known(thing: Thing) -> bool:
            kind, identity = thing
            role = _ROLES.get(kind)
            if role is None:
                return identity in terminals
            message = session.messages[role].get(identity)
            return message is None or message.index < entries

        with suppress(LocalError):  # it is only larger than it could be
            await self._log.compact(is_known)

    async def close(self) -> None:
        """Wait until everything is kept, as far as it can be."""
        for task in self._keeping:
            task.cancel()
        if self._keeping:
            await asyncio.wait(self._keeping)
        with suppress(LocalError):
            await self._log.kept()

    # ---- events

    def input(self, given: Input, changes: Changes) -> None:
        """Something was done to the session (`OnInput`)."""
        if not self.keeps or self.is_paused:
            return
        self._put(*write_input(given))
        if isinstance(given, StartedOver):
            self._entries, self._terminals = 0, frozenset()
        if isinstance(given, Applied) and isinstance(given.update, v2.StateUpdate):
            self._show_once_kept()

    def opened(self, session_id: str, inputs: Iterable[Input], *, keep: bool) -> None:
        """The agent opened another session, to which `inputs` were done; see `Recovery`."""
        if not self.keeps or self.is_paused:
            return
        self._entries, self._terminals = 0, frozenset()
        self._put(OPENING, write_facts(session=session_id))
        for given in inputs:
            self._put(*write_input(given))
        self._put(OPENED, write_facts(keep=keep))

    def queue(self, prompts: Sequence[QueuedPrompt]) -> None:
        """The prompts that are queued now; what is no news is not written."""
        if self.is_paused or not self.keeps or list(prompts) == self._queue:
            return
        known = {each.item: each.parts for each in self._queue}
        for prompt in prompts:
            if known.get(prompt.item) != prompt.parts:
                self._put(QUEUED, write_prompt(prompt))
        self._put(QUEUE, write_items(prompts))
        self._queue = list(prompts)
        self._show_once_kept()

    def restored(self, prompts: Sequence[QueuedPrompt], session: Session) -> None:
        """Go on after what was read; these prompts are queued."""
        self.is_paused = False
        self._entries, self._terminals = len(session.entries), frozenset(session.terminals)
        self._queue = list(prompts)

    def remark(self, block: RemarkBlock, text: str) -> None:
        """The host added a block; `text` is what a search finds it by."""
        self._put(REMARK, write_remark(block), text)

    def answered(self, fact: Fact) -> None:
        """A question was settled."""
        self._put(ANSWERED, write_facts(**fact))

    async def answer(self, fact: Fact) -> None:
        """A person has answered: return once that is kept; raises `JournalFailed`."""
        self._put(ANSWER, write_facts(**fact))
        await self.kept()

    def started(self) -> None:
        """The agent is started."""
        self._put(STARTED, write_facts())

    def failed(self, reason: str) -> None:
        """The agent has ended."""
        self._put(FAILED, write_facts(reason=reason))

    def _put(self, kind: str, body: bytes, text: str = "") -> None:
        if not self.is_paused:
            self._log.put(kind, body, text)

    def _show_once_kept(self) -> None:
        """Show nothing more until everything so far is kept: what was shown must not be lost."""
        if self.keeps and not self.is_paused:
            task = asyncio.create_task(self._until_kept())
            self._keeping.add(task)
            task.add_done_callback(self._shown)

    async def _until_kept(self) -> None:
        with suppress(LocalError):
            await self.kept()

    def _shown(self, task: "asyncio.Task[None]") -> None:
        self._keeping.discard(task)
        if not self._keeping and not task.cancelled():
            self._on_kept()


# ---- bodies --------------------------------------------------------------------------------------


def write_prompt(prompt: QueuedPrompt) -> bytes:
    """The body of `QUEUED`."""
    return codec.encode(
        {
            "item": prompt.item,
            "parts": list(map(_written_part, prompt.parts)),
            "by": prompt.by,
            "reason": prompt.is_reason,
        }
    )


def _written_part(part: Part) -> Any:
    if isinstance(part, str):
        return part
    if isinstance(part, PathLike):
        return {"path": fspath(part)}
    return {"block": part}


def read_prompt(body: bytes) -> QueuedPrompt:
    """The prompt of a body of `QUEUED`; held, because nobody may want it sent any more."""
    value = codec.parse(body)
    parts = tuple(map(_read_part, value["parts"]))
    return QueuedPrompt(value["item"], parts, value["by"], held=True, is_reason=value["reason"])


def _read_part(value: Any) -> Part:
    if isinstance(value, str):
        return value
    if "path" in value:
        return Path(value["path"])
    block: Part = codec.read(value["block"], ContentBlock)
    return block


def write_items(prompts: Iterable[QueuedPrompt]) -> bytes:
    """The body of `QUEUE`: which prompts are queued, in order."""
    return codec.encode([prompt.item for prompt in prompts])


def write_remark(block: RemarkBlock) -> bytes:
    """The body of `REMARK`."""
    return codec.encode({"text": block.text, "tone": block.tone})


def read_remark(body: bytes) -> RemarkBlock:
    """The block of a body of `REMARK`."""
    value = codec.parse(body)
    return RemarkBlock(str(value["text"]), _TONES.get(value["tone"], ""))


def write_facts(**facts: Fact) -> bytes:
    """Any other body."""
    return codec.encode(facts)


def read_facts(body: bytes) -> dict[str, Any]:
    """Any other body as it was written.

    Raises:
        Malformed: It is no object.
    """
    value = codec.parse(body)
    if not isinstance(value, dict):
        raise Malformed("", "an event without facts")
    return value


def read_items(body: bytes) -> Iterator[str]:
    """The ids of a body of `QUEUE`."""
    return map(str, codec.parse(body))
