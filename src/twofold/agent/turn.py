"""A turn: one prompt, and everything that an agent can send in answer to it.

The same calls serve clients of both versions. Messages get ids of their own; text after a tool call
or a thought is a new message. After its end a turn sends nothing more: updates between turns belong
to the session.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Any, TypeAlias

from msgspec import Struct

from twofold.agent import arguments
from twofold.agent.session import AgentSession, OpenSession, checked_update
from twofold.agent.tools import (
    Location,
    OnCancel,
    Sending,
    TerminalHandle,
    ToolCallHandle,
    TurnOver,
    TurnScope,
    as_patch,
    new_call,
    open_terminal,
)
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import (
    Cost,
    PermissionOption,
    PermissionOptionKind,
    PlanEntryPriority,
    SelectedPermissionOutcome,
)

PlanStep: TypeAlias = str | tuple[str, str] | v2.PlanEntry
"""A step, a step with its status, or the whole struct."""

ALLOW = PermissionOption("allow", "Allow", "allow_once")
REJECT = PermissionOption("reject", "Reject", "reject_once")

_ALLOWING = frozenset({"allow_once", "allow_always"})
_CONTENT = "a str or a content block such as v2.ImageContent"


class Answer(Struct, frozen=True):
    """The user's answer to `Turn.ask`; true only if the user allowed it."""

    option: PermissionOption | None
    """The option that was chosen; None if the question was dismissed."""

    def __bool__(self) -> bool:
        return self.option is not None and self.option.kind in _ALLOWING


class MessageHandle:
    """A message or a thought that is being written, as `turn.message()` returns it."""

    def __init__(
        self,
        scope: TurnScope,
        message_id: str,
        chunk: type[v2.AgentMessageChunk | v2.AgentThoughtChunk],
        whole: type[v2.AgentMessage | v2.AgentThought],
    ) -> None:
        self._scope = scope
        self._message_id = message_id
        self._chunk = chunk
        self._whole = whole

    @property
    def message_id(self) -> str:
        """The id of the message."""
        return self._message_id

    # Neither this nor `Turn.say` is a coroutine of its own: a model sends thousands of pieces.
    def append(self, content: str | ContentBlock) -> Sending:
        """Send more of the message.

        Args:
            content: A piece of text, or a content block.

        Returns:
            A coroutine; awaiting it sends the piece, and waits while the client does not read.

        Raises:
            TypeError: The content is neither a str nor a content block.
            TurnOver: The turn is over.
        """
        block = TextContent(content) if isinstance(content, str) else _block("content", content)
        return self._scope.send(self._chunk(self._message_id, block))

    async def replace(self, *content: str | ContentBlock) -> None:
        """Replace everything that the message held.

        Args:
            *content: Text and content blocks.
        """
        blocks = [_block(f"content[{index}]", item) for index, item in enumerate(content)]
        await self._scope.send(self._whole(self._message_id, blocks))

    async def clear(self) -> None:
        """Remove everything that the message held."""
        await self._scope.send(self._whole(self._message_id, None))


class Turn:
    """One prompt and the answer to it, as a prompt handler is given it.

    After the end of the turn every method that sends raises `TurnOver`.
    """

    def __init__(self, scope: TurnScope, message_id: str, blocks: list[ContentBlock]) -> None:
        self._scope = scope
        self._message_id = message_id
        self._blocks = blocks
        self._message: MessageHandle | None = None
        self._thought: MessageHandle | None = None

    @property
    def session(self) -> AgentSession:
        """The session that the prompt belongs to."""
        return self._scope.session.face

    @property
    def message_id(self) -> str:
        """The id of the user's message."""
        return self._message_id

    @property
    def blocks(self) -> list[ContentBlock]:
        """The content of the prompt, as the client sent it."""
        return self._blocks

    @property
    def text(self) -> str:
        """The text of the prompt."""
        return "\n".join(block.text for block in self._blocks if isinstance(block, TextContent))

    @property
    def cancelled(self) -> bool:
        """Whether the client cancelled the turn. The handler's task is cancelled, too."""
        return self._scope.state.cancelled

    @property
    def over(self) -> bool:
        """Whether the turn has ended, so that nothing more can be sent in it."""
        return self._scope.over

    async def send(self, update: v2.SessionUpdate) -> None:
        """Send one update of version 2 as it is; the other methods make updates for you.

        Args:
            update: A session update of `twofold.v2`.

        Raises:
            TypeError: It is not a session update.
            InvalidArgument: A field of it is not as the protocol wants it.
            TurnOver: The turn is over.
        """
        await self._scope.send(checked_update(update))

    # ---- messages

    def say(self, content: str | ContentBlock) -> Sending:
        """Send a piece of the agent's message.

        Pieces belong to one message until a tool call or a thought comes between them.

        Args:
            content: A piece of text, or a content block.

        Returns:
            A coroutine; awaiting it sends the piece, and waits while the client does not read.

        Raises:
            TypeError: The content is neither a str nor a content block.
            TurnOver: The turn is over.
        """
        message = self._message
        if message is None:
            message = self._message = self.message()
            self._thought = None
        return message.append(content)

    def think(self, content: str | ContentBlock) -> Sending:
        """Send a piece of a thought; otherwise as `say`.

        Args:
            content: A piece of text, or a content block.
        """
        thought = self._thought
        if thought is None:
            thought = self._thought = self.thought()
            self._message = None
        return thought.append(content)

    def message(self, message_id: str | None = None) -> MessageHandle:
        """A message of its own, which can be replaced and cleared; several may be open at once.

        Args:
            message_id: Its id; by default a new one.

        Returns:
            The handle to write it with.
        """
        identity = arguments.text_or_none("message_id", message_id)
        identity = identity or self._scope.session.new_id("message")
        return MessageHandle(self._scope, identity, v2.AgentMessageChunk, v2.AgentMessage)

    def thought(self, message_id: str | None = None) -> MessageHandle:
        """A thought of its own; otherwise as `message`.

        Args:
            message_id: Its id; by default a new one.
        """
        identity = arguments.text_or_none("message_id", message_id)
        identity = identity or self._scope.session.new_id("thought")
        return MessageHandle(self._scope, identity, v2.AgentThoughtChunk, v2.AgentThought)

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
    ) -> ToolCallHandle:
        """Something the agent does, as a block: `async with turn.tool_call(…) as call`.

        Args:
            title: What it does, in a few words.
            kind: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`,
                `switch_mode` or `other`; one of your own starts with `_`.
            name: The name of the tool.
            locations: The files it works on: paths, or `(path, line)`.
            raw_input: The input of the tool, as JSON.
            tool_call_id: Its id; by default a new one.
            on_cancel: Called when the client asks to stop just this call.

        Returns:
            The handle of the call. Nothing is sent before its block is entered.
        """
        call = new_call(
            self._scope,
            title,
            kind=kind,
            name=name,
            locations=locations,
            raw_input=raw_input,
            tool_call_id=tool_call_id,
            on_cancel=on_cancel,
        )
        self._message = self._thought = None
        return call

    async def terminal(
        self,
        command: str | None = None,
        cwd: str | PathLike[str] | None = None,
        *,
        on_cancel: OnCancel | None = None,
    ) -> TerminalHandle:
        """A terminal that no tool call shows yet: append it to one.

        Args:
            command: The command that runs in it.
            cwd: The directory that it runs in; the session's by default.
            on_cancel: Called when the client asks to stop just this command.

        Returns:
            The handle to write its output to.
        """
        return await open_terminal(self._scope, command, cwd, on_cancel)

    async def plan(self, steps: Sequence[PlanStep], plan_id: str = "main") -> None:
        """Send the whole plan.

        Args:
            steps: Steps, `(step, status)`, or entries with a priority; an empty list removes the
                plan.
            plan_id: Which plan it is, if there are several.
        """
        found = arguments.items("steps", steps, "steps or (step, status)")
        entries = [_entry(f"steps[{index}]", step) for index, step in enumerate(found)]
        arguments.text("plan_id", plan_id)
        await self._scope.send(v2.PlanUpdate(v2.PlanItems(plan_id, entries)))

    # ---- permissions

    async def ask(
        self,
        title: str,
        call: ToolCallHandle | None = None,
        *,
        description: str = "",
        options: Sequence[PermissionOption] = (ALLOW, REJECT),
        command: str | None = None,
        cwd: str | PathLike[str] | None = None,
    ) -> Answer:
        """Ask the user for permission.

        Show what would happen: pass the tool call that asks, or the command that would run.

        Args:
            title: The question.
            call: The tool call that it is about.
            description: More about it.
            options: What the user can choose; by default to allow or to reject it once.
            command: The command that would run.
            cwd: The directory that it would run in; the session's by default.

        Returns:
            The answer, which is true only if the user allowed it.

        Raises:
            InvalidArgument: There are no options, or one that is not allowed.
            TurnOver: The turn is over.
        """
        arguments.text("title", title)
        if call is not None and not isinstance(call, ToolCallHandle):
            raise arguments.wrong_type("call", call, "a ToolCallHandle or None")
        arguments.text("description", description)
        choices = _permission_options(options)
        arguments.text_or_none("command", command)
        where = self._scope.absolute("cwd", "" if cwd is None else cwd)
        session = self._open_session()
        subject: Any = UNSET
        if command is not None:
            identity = call.tool_call_id if call is not None else UNSET
            subject = v2.CommandPermissionSubject(command, where, identity)
        elif call is not None:
            subject = v2.ToolCallPermissionSubject(as_patch(call))
        request = v2.RequestPermissionRequest(
            session.session_id, title, choices, description or UNSET, subject
        )
        outcome = (await session.request_permission(request)).outcome
        if not isinstance(outcome, SelectedPermissionOutcome):
            return Answer(None)
        chosen = [option for option in choices if option.option_id == outcome.option_id]
        return Answer(chosen[0] if chosen else None)

    # ---- the same as in the session, while the turn goes on

    def _open_session(self) -> OpenSession:
        if self._scope.over:
            raise TurnOver
        return self._scope.session

    async def title(self, title: str | None) -> None:
        """Set the title of the session.

        Args:
            title: The title; None removes it.
        """
        await self._open_session().send_title(title)

    async def usage(self, used: int, size: int, cost: Cost | None = None) -> None:
        """Send how much of the context is used, and the cost so far.

        Args:
            used: The number of tokens in the context.
            size: The number of tokens that the context can hold.
            cost: The cost of the session so far, as `v2.Cost(amount, currency)`.
        """
        await self._open_session().send_usage(used, size, cost)

    async def commands(self, commands: Sequence[v2.AvailableCommand]) -> None:
        """Set the slash commands that the user can give.

        Args:
            commands: All of them; an empty list removes them.
        """
        await self._open_session().send_commands(commands)

    async def config_options(self, options: Sequence[v2.SessionConfigOption]) -> None:
        """Set the config options, modes included (as a select of category `mode`).

        Args:
            options: All of them, with their current values.
        """
        await self._open_session().send_config_options(options)

    async def notice(self, title: str, description: str = "", severity: str = "info") -> None:
        """Show the user something that is not part of the conversation.

        Args:
            title: One line.
            description: More about it.
            severity: `info`, `warning` or `error`.
        """
        await self._open_session().send_notice(title, description, severity)


# ---- arguments -------------------------------------------------------------------------------


def _block(name: str, content: str | ContentBlock) -> ContentBlock:
    if isinstance(content, str):
        return TextContent(content)
    return arguments.struct(name, content, ContentBlock, _CONTENT)


def _entry(name: str, step: object) -> v2.PlanEntry:
    if isinstance(step, v2.PlanEntry):
        arguments.struct(name, step, v2.PlanEntry, "a step")
        arguments.enumerated(f"{name}.priority", step.priority, PlanEntryPriority)
        arguments.enumerated(f"{name}.status", step.status, v2.PlanEntryStatus)
        return step
    if isinstance(step, str):
        return v2.PlanEntry(step, "medium", "pending")
    if not isinstance(step, tuple) or len(step) != 2:
        raise arguments.wrong_type(name, step, "a str, (step, status) or a v2.PlanEntry")
    content = arguments.text(f"{name}[0]", step[0])
    status = arguments.enumerated(f"{name}[1]", step[1], v2.PlanEntryStatus)
    return v2.PlanEntry(content, "medium", status)


def _permission_options(options: object) -> list[PermissionOption]:
    found: list[PermissionOption] = arguments.structs(
        "options", options, PermissionOption, "v2.PermissionOption"
    )
    for index, option in enumerate(found):
        arguments.enumerated(f"options[{index}].kind", option.kind, PermissionOptionKind)
    return found
