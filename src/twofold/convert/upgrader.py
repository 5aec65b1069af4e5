"""Version 1 → version 2 with a memory, one session at a time.

`Upgrader` remembers which messages are open, which tool calls exist, which modes there are and
what the prompt was. Pure: updates in, updates out, losses reported.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from twofold.convert.losses import Losses, carried
from twofold.convert.options import (
    MODE,
    has_mode_option,
    mode_option,
    option_of_modes,
    upgrade_config_option,
    with_value,
)
from twofold.convert.permissions import upgrade_permission
from twofold.convert.turns import Echo, ended_turn, failed_turn
from twofold.convert.upgrade import (
    CHUNKS,
    mode_id,
    terminal_updates,
    terminals_in,
    terminals_with_output,
    upgrade_blocks,
    upgrade_chunk,
    upgrade_simple,
    upgrade_tool_call,
)
from twofold.text.safe import Seen
from twofold.wire import v1, v2
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import Error

_WHOLE: Final[dict[type, type[v2.UserMessage | v2.AgentMessage | v2.AgentThought]]] = {
    v1.UserMessageChunk: v2.UserMessage,
    v1.AgentMessageChunk: v2.AgentMessage,
    v1.AgentThoughtChunk: v2.AgentThought,
}

NewId: TypeAlias = Callable[[type[v1.ContentChunk]], str]
"""Returns an unused id for a message that has none; the argument is the type of its chunks."""


class Upgrader:
    """Converts a version 1 session to version 2, update by update.

    Args:
        losses: Where everything is reported that version 2 cannot express.
        own_terminals: The reader also has the client's terminals (a recording, a bridge that
            offers `terminal/*`), so that a terminal of version 1 becomes one of version 2.
        prefix: The first part of every message id that is made up.
        new_id: Makes up message ids instead; `prefix` is not used then.
    """

    def __init__(
        self,
        losses: Losses | None = None,
        *,
        own_terminals: bool = False,
        prefix: str = "v1",
        new_id: NewId | None = None,
    ) -> None:
        self.losses = Losses() if losses is None else losses
        self.own_terminals = own_terminals
        self._prefix = prefix
        self._id_maker = new_id
        self._made = 0
        self.prompt_id = ""
        """The id that the user's last prompt was given."""
        self._open: type[v1.ContentChunk] | None = None
        self._open_id = ""
        self._nameless = _Nameless()
        self._names: dict[str, str] = {}  # ids of messages that were begun without one
        self._titles: dict[str, str] = {}
        self._owned: set[str] = set()
        self._deltas: dict[str, Seen] = {}  # the output that arrived in deltas, by terminal
        self._with_content: set[str] = set()  # tool calls
        self._echo = Echo()
        self._modes: v1.SessionModeState | None = None
        self._options: list[v2.SessionConfigOption] = []

    def plain(self, update: Any) -> Any:
        """Lift one more piece of plain text of the open message; None for any other update.

        Most updates are such pieces. `update` lifts all others, and these too.
        """
        kind = type(update)
        if kind is not self._open or (kind is v1.UserMessageChunk and self._echo):
            return None  # only a user's chunk may be the echo of a prompt
        content, message_id = update.content, update.message_id
        if (
            type(content) is not TextContent
            or content.annotations is not UNSET
            or update.meta is not UNSET
            or update.unknown is not UNSET
        ):
            return None
        if message_id:
            if self._nameless.seen is not None or message_id in self._names:
                return None
            self._open_id = message_id
        elif self._nameless.seen is not None:
            self._nameless.seen.add(content.text)
        return CHUNKS[kind](self._open_id, content)

    def update(self, update: v1.SessionUpdate) -> list[v2.SessionUpdate]:
        """Convert one update of version 1.

        Returns:
            The updates of version 2 with the same meaning, in order.
        """
        chunk = self.plain(update)
        if chunk is not None:
            return [chunk]
        match update:
            case v1.ContentChunk():
                return self._chunk(update)
            case v1.ToolCall() | v1.ToolCallUpdate():
                return self._tool_call(update)
            case v1.CurrentModeUpdate() | v1.DocumentedCurrentModeUpdate():
                rest = carried(update, v2.ConfigOptionUpdate, self.losses, "update")
                return self.mode_set(mode_id(update), **rest)
        converted = upgrade_simple(update, self.losses)
        if isinstance(converted, v2.ConfigOptionUpdate):
            self._options = converted.config_options
            return [replace(converted, config_options=self.config_options)]
        return [converted]

    # ---- messages

    def _chunk(self, update: v1.ContentChunk) -> list[v2.SessionUpdate]:
        # the echo is checked first: that costs less than the kind of every chunk
        echo = self._echo
        if echo and isinstance(update, v1.UserMessageChunk) and echo.swallows(update.content):
            return []
        kind = type(update)
        if update.message_id:
            if self._open is kind and self._nameless.is_said_by(update.content):
                return [self._named(update)]
            message_id = self._names.get(update.message_id, update.message_id)
            self._nameless.forget()
        elif self._open is kind:
            # a message without an id goes on until a chunk of another kind or a new tool call
            message_id = self._open_id
            self._nameless.go_on(update.content)
        else:
            message_id = self._new_id(kind)
            self._nameless.begin(update.content)
        chunk = upgrade_chunk(update, message_id, self.losses)
        self._open, self._open_id = kind, message_id
        return [chunk]

    def _named(self, update: v1.ContentChunk) -> v2.SessionUpdate:
        """The open message, which has no id, is repeated as a whole with an id: it is that one."""
        self._names[update.message_id or ""] = self._open_id
        self._nameless.forget()
        chunk = upgrade_chunk(update, self._open_id, self.losses)
        whole = _WHOLE[type(update)]
        return whole(self._open_id, [chunk.content], meta=chunk.meta, unknown=chunk.unknown)

    def _new_id(self, kind: type[v1.ContentChunk]) -> str:
        if self._id_maker is not None:
            return self._id_maker(kind)
        self._made += 1
        role = {v1.UserMessageChunk: "user", v1.AgentThoughtChunk: "thought"}.get(kind, "agent")
        return f"{self._prefix}:{role}:{self._made}"

    # ---- tool calls

    def _tool_call(self, update: v1.ToolCall | v1.ToolCallUpdate) -> list[v2.SessionUpdate]:
        known = update.tool_call_id in self._titles
        owned = self._terminals(update)
        patch = upgrade_tool_call(update, owned, self.losses, known=known)
        self._announced(update)
        return [*terminal_updates(update, self._deltas), patch, *self._unnamed_terminals(update)]

    def _unnamed_terminals(
        self, update: v1.ToolCall | v1.ToolCallUpdate
    ) -> list[v2.ToolCallContentChunk]:
        """References to terminals whose output a call without content would not show."""
        self._note_content(update)
        outputs = terminals_with_output(update)
        if not outputs or update.tool_call_id in self._with_content:
            return []
        self._with_content.add(update.tool_call_id)
        return [
            v2.ToolCallContentChunk(update.tool_call_id, v2.Terminal(terminal_id))
            for terminal_id in outputs
        ]

    def _note_content(self, call: v1.ToolCall | v1.ToolCallPatch) -> None:
        if call.content:
            self._with_content.add(call.tool_call_id)
        elif call.content == [] or isinstance(call, v1.ToolCall):
            self._with_content.discard(call.tool_call_id)

    def _terminals(self, update: v1.ToolCall | v1.ToolCallPatch) -> set[str]:
        self._owned |= terminals_in(update)
        if self.own_terminals:
            for item in update.content or []:
                if isinstance(item, v1.Terminal):
                    self._owned.add(item.terminal_id)
        return self._owned

    def _announced(self, call: v1.ToolCall | v1.ToolCallPatch) -> None:
        if call.tool_call_id not in self._titles:
            self._open = None  # a new tool call ends the open message
            self._titles[call.tool_call_id] = ""
        if call.title:
            self._titles[call.tool_call_id] = call.title

    def permission(self, request: v1.RequestPermissionRequest) -> v2.RequestPermissionRequest:
        """A permission request; a call that was never announced is announced by it."""
        call = request.tool_call
        title = self._titles.get(call.tool_call_id, "")
        converted = upgrade_permission(request, self._terminals(call), self.losses, title)
        self._announced(call)
        self._note_content(call)
        return converted

    # ---- modes and config options

    def setup(
        self, response: v1.NewSessionResponse | v1.SessionSetup, losses: Losses | None = None
    ) -> None:
        """Remember the modes and config options in the result of new, load or resume."""
        losses = self.losses if losses is None else losses
        self._modes = response.modes or None
        self._options = [
            upgrade_config_option(option, losses, f"configOptions[{index}]")
            for index, option in enumerate(response.config_options or [])
        ]

    @property
    def config_options(self) -> list[v2.SessionConfigOption]:
        """All the config options as version 2 has them."""
        # an agent's own mode option replaces the modes of version 1
        if self._modes is None or has_mode_option(self._options):
            return self._options
        return [option_of_modes(self._modes), *self._options]

    def mode_set(self, mode: str, **rest: Any) -> list[v2.SessionUpdate]:
        """The agent changed its mode; `rest` is the metadata of the update that reports it."""
        if has_mode_option(self._options):
            return []  # the agent reports its own option
        known = self._modes or v1.SessionModeState(mode, [])
        modes = known.available_modes
        if mode not in {each.id for each in modes}:
            modes = [*modes, v1.SessionMode(mode, mode)]
        self._modes = replace(known, current_mode_id=mode, available_modes=modes)
        return [v2.ConfigOptionUpdate(self.config_options, **rest)]

    def mode_chosen(self, mode: str) -> None:
        """The agent agreed to a mode that the client chose."""
        option = mode_option(self._options)
        if option is not None:
            self._options = with_value(self._options, option.config_id, mode)
        else:
            self.mode_set(mode)

    def options_set(
        self, response: v2.SetSessionConfigOptionResponse
    ) -> list[v2.SessionConfigOption]:
        """All the config options, after the agent answered with those that it has."""
        self._options = response.config_options
        return self.config_options

    @property
    def mode_option_id(self) -> str:
        """The id of the config option that sets the mode."""
        option = mode_option(self._options)
        return MODE if option is None else option.config_id

    def is_made_mode(self, config_id: str) -> bool:
        """Whether a config option was made of modes, so that `session/set_mode` sets it."""
        return config_id == MODE and self._modes is not None and not has_mode_option(self._options)

    # ---- turns

    def replayed(self, new_id: NewId | None = None) -> "Upgrader":
        """The upgrader for a replay of the session: it remembers the modes and options only.

        Args:
            new_id: Makes up the message ids of the replay; by default they are made up as here.
        """
        again = Upgrader(
            self.losses,
            own_terminals=self.own_terminals,
            prefix=self._prefix,
            new_id=new_id or self._id_maker,
        )
        again._modes, again._options, again._made = self._modes, self._options, self._made
        return again

    def prompt(self, blocks: list[ContentBlock], message_id: str = "") -> list[v2.SessionUpdate]:
        """A prompt was sent: version 2 shows its message and that work has begun.

        Args:
            blocks: The content of the prompt; the agent's echo of it is left out.
            message_id: The id of the message; made up if empty, and then in `prompt_id`.
        """
        self._open = None
        self._echo.expect(blocks)
        self.prompt_id = message_id or self._new_id(v1.UserMessageChunk)
        shown = upgrade_blocks(blocks, Losses(), "prompt")  # the request reports what is lost
        return [v2.UserMessage(self.prompt_id, shown), v2.StateUpdate("running")]

    def finished(self, response: v1.PromptResponse) -> v2.StateUpdate:
        """The prompt was answered, which ends the turn; later chunks join the last message."""
        self._echo.forget()
        return ended_turn(response, self.losses)

    def failed(self, error: Error, *, cancelling: bool) -> v2.StateUpdate:
        """The prompt was answered with an error, which ends the turn."""
        self._echo.forget()
        return failed_turn(error, cancelling=cancelling)


class _Nameless:
    """A checksum of the open message, if it has no id and holds nothing but text."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: Seen | None = None
        """Its text, while one is open that holds nothing else."""

    def forget(self) -> None:
        """No such message is open, or it holds something else than text."""
        self.seen = None

    def begin(self, content: ContentBlock) -> None:
        """A message begins."""
        self.seen = Seen()
        self.go_on(content)

    def go_on(self, content: ContentBlock) -> None:
        """It goes on."""
        if not isinstance(content, TextContent):
            self.forget()
        elif self.seen is not None:
            self.seen.add(content.text)

    def is_said_by(self, content: ContentBlock) -> bool:
        """Whether this is all of it at once."""
        return (
            self.seen is not None
            and self.seen.length > 0
            and isinstance(content, TextContent)
            and self.seen.is_all_of(content.text)
        )
