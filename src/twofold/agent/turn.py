"""A turn: what the user asked, and everything an agent can say to it.

The same calls serve clients of both versions. Messages get ids of their own; text that follows a
tool call or a thought is a new message. A turn that is over says nothing more: what an agent does
between turns belongs to the session.
"""

from collections.abc import Callable, Coroutine, Sequence
from os import PathLike
from typing import Any, TypeAlias

from msgspec import Struct

from twofold.agent.session import AgentSession
from twofold.agent.tools import Location, OnCancel, Terminal, ToolCall, new_call, open_terminal
from twofold.errors import LocalError
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import Cost, PermissionOption, SelectedPermissionOutcome

PlanStep: TypeAlias = str | tuple[str, str] | v2.PlanEntry
"""A step, a step with its status, or the whole struct."""
Sending: TypeAlias = Coroutine[Any, Any, None]
"""To be awaited: it waits for a client that does not read as fast."""

ALLOW = PermissionOption("allow", "Allow", "allow_once")
REJECT = PermissionOption("reject", "Reject", "reject_once")

_ALLOWING = frozenset({"allow_once", "allow_always"})


class TurnOver(LocalError):
    """A turn was to say something after its end."""

    def __init__(self) -> None:
        super().__init__(
            "The turn is over: nothing more can be said in it. Wait for what you started before"
            " the prompt handler returns; what goes on between turns is told with `session.send`."
        )


async def _refused(update: v2.SessionUpdate) -> None:
    raise TurnOver


class Answer(Struct, frozen=True):
    """What the user answered; true only if it was allowed."""

    option: PermissionOption | None
    """None if the question was dismissed."""

    def __bool__(self) -> bool:
        return self.option is not None and self.option.kind in _ALLOWING


class Message:
    """A message or a thought, while it is written."""

    def __init__(
        self,
        turn: "Turn",
        message_id: str,
        chunk: type[v2.AgentMessageChunk | v2.AgentThoughtChunk],
        whole: type[v2.AgentMessage | v2.AgentThought],
    ) -> None:
        self.message_id = message_id
        self._turn = turn
        self._chunk = chunk
        self._whole = whole

    # not a coroutine of its own, nor is `say`: a model says thousands of pieces
    def append(self, content: str | ContentBlock) -> Sending:
        """Say more."""
        block = TextContent(content) if isinstance(content, str) else content
        return self._turn.send(self._chunk(self.message_id, block))

    async def replace(self, *content: str | ContentBlock) -> None:
        """Say this instead of everything that the message said."""
        blocks: list[ContentBlock] = [
            TextContent(each) if isinstance(each, str) else each for each in content
        ]
        await self._turn.send(self._whole(self.message_id, blocks))

    async def clear(self) -> None:
        """Take everything back that the message said."""
        await self._turn.send(self._whole(self.message_id, None))


class Turn:
    """One prompt and the answer to it."""

    def __init__(self, session: AgentSession, message_id: str, blocks: list[ContentBlock]) -> None:
        self.session = session
        self.message_id = message_id
        """The id of the user's message."""
        self.blocks = blocks
        """What the user said, as it came."""
        self.cancelled = False
        """Whether the client asked to stop. The handler's task is cancelled, too."""
        self.over = False
        """Whether it has ended, so that nothing more can be said in it."""
        self.asking = 0
        """How many questions wait for an answer."""
        self.calls: dict[str, ToolCall] = {}
        self.terminals: dict[str, Terminal] = {}
        self.send: Callable[[v2.SessionUpdate], Sending] = session.send
        """Tell the client one update of version 2, as it stands; the other methods make them."""
        self._message: Message | None = None
        self._thought: Message | None = None

    @property
    def text(self) -> str:
        """The text of what the user said."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))

    def end(self) -> None:
        """From now on nothing is said in it any more, by whoever still wants to."""
        self.over = True
        self.send = _refused

    # ---- messages

    def say(self, content: str | ContentBlock) -> Sending:
        """Say something: text, or a piece of it as it comes."""
        message = self._message
        if message is None:
            message = self._message = self.message()
            self._thought = None
        return message.append(content)

    def think(self, content: str | ContentBlock) -> Sending:
        """Think aloud."""
        thought = self._thought
        if thought is None:
            thought = self._thought = self.thought()
            self._message = None
        return thought.append(content)

    def message(self, message_id: str | None = None) -> Message:
        """A message of its own, which can be replaced and cleared; several may be open at once."""
        identity = message_id or self.session.new_id("message")
        return Message(self, identity, v2.AgentMessageChunk, v2.AgentMessage)

    def thought(self, message_id: str | None = None) -> Message:
        """A thought of its own."""
        identity = message_id or self.session.new_id("thought")
        return Message(self, identity, v2.AgentThoughtChunk, v2.AgentThought)

    # ---- doing things

    def tool_call(
        self,
        title: str,
        *,
        kind: str = "other",
        name: str | None = None,
        locations: Sequence[Location] = (),
        raw_input: Any = UNSET,
        tool_call_id: str | None = None,
        on_cancel: OnCancel | None = None,
    ) -> ToolCall:
        """Something the agent does, as a block: `async with turn.tool_call(…) as call`.

        With `on_cancel` the client may stop just this call.
        """
        self._message = self._thought = None
        call = new_call(
            self,
            title,
            kind=kind,
            name=name,
            locations=locations,
            raw_input=raw_input,
            tool_call_id=tool_call_id,
            on_cancel=on_cancel,
        )
        self.calls[call.tool_call_id] = call
        return call

    async def terminal(
        self,
        command: str | None = None,
        cwd: str | PathLike[str] | None = None,
        *,
        on_cancel: OnCancel | None = None,
    ) -> Terminal:
        """A terminal that no tool call shows yet; append it to one."""
        return await open_terminal(self, command, cwd, on_cancel)

    async def plan(self, steps: Sequence[PlanStep], plan_id: str = "main") -> None:
        """What the agent means to do; the whole plan each time, and no steps to take it away."""
        entries = [_entry(step) for step in steps]
        await self.send(v2.PlanUpdate(v2.PlanItems(plan_id, entries)))

    # ---- asking

    async def ask(
        self,
        title: str,
        call: ToolCall | None = None,
        *,
        description: str = "",
        options: Sequence[PermissionOption] = (ALLOW, REJECT),
        command: str | None = None,
        cwd: str | PathLike[str] | None = None,
    ) -> Answer:
        """Ask the user for permission; the answer is true only if it was given.

        Show what would happen: the tool call that asks, or the command that would run.
        """
        subject: Any = UNSET
        if command is not None:
            identity = call.tool_call_id if call is not None else UNSET
            subject = v2.CommandPermissionSubject(command, str(cwd or self.session.cwd), identity)
        elif call is not None:
            subject = v2.ToolCallPermissionSubject(call.shown())
        request = v2.RequestPermissionRequest(
            self.session.session_id, title, list(options), description or UNSET, subject
        )
        outcome = (await self._open_session().request_permission(request)).outcome
        if not isinstance(outcome, SelectedPermissionOutcome):
            return Answer(None)
        chosen = [option for option in options if option.option_id == outcome.option_id]
        return Answer(chosen[0] if chosen else None)

    # ---- what belongs to the session

    def _open_session(self) -> AgentSession:
        if self.over:
            raise TurnOver
        return self.session

    async def title(self, title: str | None) -> None:
        """What the session is called."""
        await self._open_session().title(title)

    async def usage(self, used: int, size: int, cost: Cost | None = None) -> None:
        """How much of the context is used, and what it cost so far."""
        await self._open_session().usage(used, size, cost)

    async def commands(self, commands: Sequence[v2.Command]) -> None:
        """The slash commands that the user can give."""
        await self._open_session().commands(commands)

    async def config_options(self, options: Sequence[v2.SessionConfigOption]) -> None:
        """Everything that can be set, modes included."""
        await self._open_session().config_options(options)

    async def notice(self, title: str, description: str = "", severity: str = "info") -> None:
        """Something the user should know that is not part of the conversation."""
        await self._open_session().notice(title, description, severity)


def _entry(step: PlanStep) -> v2.PlanEntry:
    if isinstance(step, v2.PlanEntry):
        return step
    content, status = (step, "pending") if isinstance(step, str) else step
    return v2.PlanEntry(content, "medium", status)
