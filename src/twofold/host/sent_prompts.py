"""What became of queued prompts, for callers that wait until one was sent to the agent.

A prompt that was sent is a user message of the session: its id is the answer. One that is held,
removed, or could not be sent is not waited for any longer. Nothing here sends or waits itself.
"""

import asyncio
from collections.abc import Iterable

from twofold.errors import LocalError
from twofold.host.prompt_queue import QueuedPrompt


class NotSent(LocalError):
    """A queued prompt was not sent to the agent."""


class SentPrompts:
    """The prompts of one session that somebody waits for."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._inserted: dict[str, str] = {}

    def wait(self, item: str) -> "asyncio.Future[str]":
        """The id of the message that a queued prompt becomes; raises why it becomes none."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve)
        self._waiting[item] = future
        return future

    def inserted(self, item: str, message_id: str) -> None:
        """The agent has a prompt, as this message; `report` passes that on."""
        if item in self._waiting:
            self._inserted.setdefault(item, message_id)

    def report(self) -> None:
        """Everything so far has been shown: return the ids of messages to those who wait."""
        inserted, self._inserted = self._inserted, {}
        for item, message_id in inserted.items():
            future = self._waiting.pop(item)
            if not future.done():
                future.set_result(message_id)

    def failed(self, item: str, error: Exception) -> None:
        """A prompt was not sent, or the agent refused it."""
        future = self._waiting.get(item)
        if future is not None and item not in self._inserted:
            del self._waiting[item]
            if not future.done():
                future.set_exception(error.with_traceback(None))

    def check(self, queued: Iterable[QueuedPrompt], working: str | None, why: str) -> None:
        """Fail those that are held or were removed.

        Args:
            queued: What is queued now.
            working: The prompt that the agent works on.
            why: Why prompts are held.
        """
        if not self._waiting:
            return
        held = {each.item: each.held for each in queued}
        for item in list(self._waiting):
            if item == working or held.get(item) is False:
                continue
            self.failed(item, NotSent(why if item in held else "The prompt was removed."))

    def close(self, why: str) -> None:
        """Fail all: nothing is sent any more."""
        self.report()
        for item in list(self._waiting):
            self.failed(item, NotSent(why))


def _retrieve(future: "asyncio.Future[str]") -> None:
    """Mark an error as seen, because the caller may be gone."""
    if not future.cancelled():
        future.exception()
