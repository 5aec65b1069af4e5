"""The input line: it edits text at any time, also while a turn goes on, and draws nothing itself.

The editing is prompt_toolkit's (keys, history, search, completion), with an output that goes
nowhere: `rows` returns what to show, and the display draws it with everything else, so that only
one writer has the terminal. The agent's text is sanitized. A long paste is shown as a short mark
(see `Pastes`).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, Filter, has_focus
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.key_binding.bindings.search import (
    reverse_incremental_search,
    start_reverse_incremental_search,
)
from prompt_toolkit.key_binding.key_bindings import Binding
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import DummyOutput

from twofold.client.mentions import CheckedPaths, missing_places, stretches
from twofold.host.client_keys import DEFAULTS, ENTER, Action, Bindings
from twofold.host.state_files import keep_entry, read_entries
from twofold.session import Session
from twofold.term.input.completion import InputCompleter, is_completed
from twofold.term.input.image_marks import ImageMarks
from twofold.term.input.input_rows import InputRows, completion_rows, text_rows
from twofold.term.input.pastes import Pastes, is_long
from twofold.text import one_line
from twofold.wire.content import ImageContent

HOW_TO_LEAVE: Final = "Ctrl-C once more or Ctrl-D leaves"
REASON_MARK: Final = "Reject, and say what to do instead: "
ASKS_REASON: Final = "? waiting for your reason · Ctrl-C cancels the turn"
NOT_REJECTED: Final = "Not rejected yet, because it followed the key at once: {key} rejects now"
NOT_SENT: Final = "Not sent, because it followed right after an answer: {key} sends it now"
IMAGE_GONE: Final = "The image is no longer here: paste it again"
MOST_COMPLETIONS: Final = 6
"""How many completions are shown at once."""
_ESCAPE: Final = 0.1
"""How many seconds an Escape may still be the beginning of another key."""
_MARK: Final = "> "
_LONGEST: Final = 60
"""How many characters of a mention are shown in a warning."""

OnKey: TypeAlias = Callable[[str, bool], bool]
"""Called with the name of a key, and whether it arrived alone; returns True if it takes the key."""


class Entered(NamedTuple):
    """A text that was sent with Enter."""

    text: str
    pasted: tuple[str, ...] = ()
    """The parts of it that were pasted and not typed (see `mentions.parts_of`)."""
    shown: str = ""
    """The text as it was in the input, with marks for long pastes."""
    images: Mapping[str, ImageContent] = MappingProxyType({})
    """The marks of images in the text, and the images."""
    is_reason: bool = False
    """It is the reason of a rejection: never a command, and sent before what else is queued."""


class _Wrong(NamedTuple):
    """A part of the text that is drawn as an error, and why."""

    start: int
    end: int
    reason: str


class Editor:
    """One input line, with its history and completion.

    Args:
        session: Returns the session, whose commands are completed.
        cwd: Where `@paths` begin.
        history: The file that keeps what was sent, if any.
        source: The terminal to read.
        on_key: Called for each key before it edits anything.
        bindings: Which key does what.
    """

    def __init__(
        self,
        session: Callable[[], Session],
        cwd: Path,
        history: Path | None,
        source: Input,
        on_key: OnKey = lambda key, alone: False,
        bindings: Bindings = DEFAULTS,
    ) -> None:
        self.bindings: Final = bindings
        self.on_enter: Callable[[Entered], None] = lambda entered: None
        """Called with every text that is sent; it is never blank."""
        self.on_leave: Callable[[], None] = lambda: None
        """Called when the person leaves: Ctrl-D or a second Ctrl-C on an empty line."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when `rows` or `hint` has changed."""
        self.on_edit_outside: Callable[[], None] = lambda: None
        """Called when the person asks for an external editor: Ctrl-X Ctrl-E."""
        self.on_switch: Callable[[int], None] = lambda number: None
        """Called with the number of the session to show: Alt-1 to Alt-9."""
        self.holds_enter: Callable[[], bool] = lambda: False
        """Returns True if Enter must not send, because it still belongs to an answer."""
        self.take_back: Callable[[], str] = lambda: ""
        """Returns a queued text to edit, for Up on an empty line; an empty string: there is none.
        """
        self.on_paste_image: Callable[[], None] = lambda: None
        """Called when the person asks for the image in the clipboard: Ctrl-V."""
        self._cwd = cwd
        self._pastes = Pastes()
        self._images = ImageMarks()
        self._paths = CheckedPaths()
        self._checked: tuple[str, list[_Wrong]] = "", []
        self._tab_waits = False
        self._completer = InputCompleter(session, cwd)
        self._leaving = False
        self._held = False
        self._aside: str | None = None  # the text of the input while a reason is typed
        self._drawn: tuple[object, InputRows] | None = None
        self._filter = KeyFilter(source, on_key, frozenset(bindings.keys("send")))
        self._toolkit: PromptSession[str] = PromptSession(
            _MARK,
            multiline=True,
            completer=self._completer,
            complete_while_typing=True,
            # they exclude each other: completion where something is offered, history elsewhere
            enable_history_search=Condition(lambda: not is_completed(self._buffer.document)),
            history=_KeptHistory(history, self._pastes, self._images),
            key_bindings=self._keys(),
            include_default_pygments_style=False,
            mouse_support=False,
            input=self._filter,
            output=DummyOutput(),
        )
        app = self._toolkit.app
        # a signal reports changes of size: without polling, an editor that waits uses no processor
        app.terminal_size_polling_interval = None
        app.ttimeoutlen = _ESCAPE
        app.after_render += lambda _: self.on_change()
        self._buffer.accept_handler = self._accept
        self._buffer.on_text_changed += self._changed
        self._buffer.on_completions_changed += lambda _: self._take_tab_soon()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the keys to another reader for a block."""
        self._filter.paused = True
        try:
            yield
        finally:
            self._filter.paused = False

    async def run(self, prefill: str = "") -> None:
        """Edit until cancelled, or until the terminal is gone.

        Args:
            prefill: What the input begins with, because it was typed before.
        """
        self._images.typed(prefill)
        shown = self._pastes.mark(prefill) if is_long(prefill) else self._pastes.typed(prefill)
        try:
            # the client handles signals and errors of the loop
            await self._toolkit.prompt_async(
                default=shown, handle_sigint=False, set_exception_handler=False
            )
        except (EOFError, KeyboardInterrupt):
            self.on_leave()
        finally:
            self._completer.close()

    # ---- the text

    @property
    def text(self) -> str:
        """The text in the input, with marks for long pastes."""
        return self._buffer.text

    def put(self, text: str) -> None:
        """Replace the text in the input; the cursor goes to its end."""
        self._buffer.document = Document(text)

    def insert(self, text: str) -> None:
        """Insert a text that was typed elsewhere."""
        self._buffer.insert_text(self._pastes.typed(text))

    def put_outside(self, text: str) -> None:
        """Replace the text by one that was edited elsewhere."""
        self.put(self._pastes.typed(text))

    def put_before(self, texts: Iterable[str]) -> None:
        """Put texts before the text in the input, each on lines of its own; never in a reason."""
        if self._aside is not None:
            self._aside = _joined(*texts, self._aside)
        else:
            self.put(_joined(*texts, self._buffer.text))

    @property
    def takes_reason(self) -> bool:
        """True while the input is for the reason of a rejection."""
        return self._aside is not None

    def begin_reason(self) -> None:
        """Take a reason: the text in the input is set aside until `end_reason`."""
        if self._aside is None:
            self._stop_searching()
            self._aside = self._buffer.text
            self._buffer.reset()  # also what could be undone
            self.forget_hint()

    def end_reason(self) -> None:
        """Put back the text that was set aside; below it a reason that was not sent."""
        if self._aside is not None:
            text = _joined(self._aside, self._buffer.text)
            self._aside = None
            self._buffer.reset()
            self.forget_hint()
            self.put(text)

    @property
    def full_text(self) -> str:
        """The text in the input, also what is set aside, with every paste in full."""
        return self._pastes.full(_joined(self._aside or "", self._buffer.text))

    @property
    def busy(self) -> bool:
        """True while a completion is offered or the history is searched: Escape ends that."""
        return self._buffer.complete_state is not None or self._searching

    @property
    def hint(self) -> str:
        """What to show in the status line instead of the status; mostly nothing."""
        if self._leaving:
            return HOW_TO_LEAVE
        if self._aside is not None:
            return NOT_REJECTED.format(key=self._sends) if self._held else ASKS_REASON
        return NOT_SENT.format(key=self._sends) if self._held else ""

    @property
    def _sends(self) -> str:
        return self.bindings.first("send")

    def forget_hint(self) -> None:
        """Show the status again."""
        self._leaving = self._held = False

    @property
    def warning(self) -> str:
        """What is wrong with the text: something that it mentions is not there."""
        wrong = self._wrong()
        return wrong[0].reason if wrong else ""

    def _wrong(self) -> list["_Wrong"]:
        """The mentions of what is not there, but for one that is being completed."""
        document = self._buffer.document
        if self._searching:
            return []
        if self._checked[0] != document.text:
            self._checked = document.text, self._check(document.text)
        completed = document.cursor_position if self._buffer.complete_state is not None else None
        return [each for each in self._checked[1] if each.end != completed]

    def _check(self, text: str) -> list["_Wrong"]:
        pasted = self._pastes.short
        wrong = []
        if "@" in text:
            for each in missing_places(text, self._cwd, pasted, self._paths.is_there):
                reason = f"{one_line(each.mention)[:_LONGEST]} is no file here"
                wrong.append(_Wrong(each.start, each.end, reason))
        for start, end in self._images.without_image(text):
            if not any(start in each for each in stretches(text, pasted)):
                wrong.append(_Wrong(start, end, IMAGE_GONE))
        return sorted(wrong)

    def image_mark(self, image: ImageContent) -> str:
        """Make a mark for an image: the image is sent with a text that contains the mark."""
        self._images.typed(self._buffer.text)
        return self._images.mark(image)

    # ---- drawing

    def rows(self, width: int, room: int) -> InputRows:
        """The input line as rows, with the place of the cursor in them.

        Args:
            width: How wide a row may be.
            room: How many rows there may be; completions are left out first.
        """
        mark, document = self._shown()
        state = self._buffer.complete_state
        wrong = [(each.start, each.end) for each in self._wrong()]
        known = mark, document.text, document.cursor_position, _offered(state), width, room, wrong
        if self._drawn is None or self._drawn[0] != known:
            made = text_rows(mark, document.text, document.cursor_position, width, room, wrong)
            if state is not None and state.completions:
                below = min(MOST_COMPLETIONS, room - len(made.rows))
                texts = [(each.display_text, each.display_meta_text) for each in state.completions]
                listed = completion_rows(texts, state.complete_index, width, below)
                made = made._replace(rows=[*made.rows, *listed])
            self._drawn = known, made
        return self._drawn[1]

    def _shown(self) -> tuple[str, Document]:
        """What is before the text, and the text; in a search what was found."""
        if not self._searching:
            return _MARK if self._aside is None else REASON_MARK, self._buffer.document
        layout = self._toolkit.app.layout
        control = layout.search_target_buffer_control
        needle = self._toolkit.search_buffer.text
        if control is None or not needle:
            return "search: ", Document()
        state = control.search_state
        state.text = needle
        return f"search “{needle}”: ", self._buffer.document_for_search(state)

    @property
    def _searching(self) -> bool:
        return self._toolkit.app.layout.is_searching

    def _stop_searching(self) -> None:
        layout = self._toolkit.app.layout
        if layout.is_searching:
            layout.focus(self._buffer)
            layout.search_links.clear()
            self._toolkit.search_buffer.reset()

    # ---- keys

    @property
    def _buffer(self) -> Buffer:
        return self._toolkit.default_buffer

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        here = has_focus(DEFAULT_BUFFER)
        behind_mark = Condition(lambda: bool(self._mark()))
        empty = Condition(lambda: not self._buffer.text)
        reason = Condition(lambda: self.takes_reason)
        completing = Condition(lambda: self._buffer.complete_state is not None)
        for key in self.bindings.unused:  # else prompt_toolkit's own meaning of it would count
            keys.add(*key.split(), filter=here)(_ignore)
        self._add(keys, "send", self._enter, here)
        keys.add("tab", filter=here & Condition(self._has_one_completion))(_complete)
        keys.add("tab", filter=here & Condition(self._is_searching_paths))(self._wait_with_tab)
        keys.add("escape", filter=here & completing, eager=True)(_stop_completing)
        keys.add("escape", "enter", filter=here)(_new_line)
        self._add(keys, "newline", _new_line, here)
        self._add(keys, "search", start_reverse_incremental_search, here)
        self._add(keys, "search", reverse_incremental_search, ~here)
        keys.add("c-c", filter=here)(self._interrupt)
        keys.add("<sigint>")(self._interrupt)
        keys.add("c-d", filter=here & empty)(lambda _: self.on_leave())
        keys.add("up", filter=here & empty & ~reason)(self._up)
        keys.add("backspace", filter=here & behind_mark)(self._delete_mark)
        if ENTER not in self.bindings.keys("send"):
            keys.add("enter", filter=here)(_enter_without_sending)
        self._add(keys, "edit", lambda _: self.on_edit_outside(), here & ~reason)
        self._add(keys, "paste-image", lambda _: self.on_paste_image(), here)
        keys.add(Keys.BracketedPaste, filter=here)(self._paste)
        for number in range(1, 10):
            keys.add("escape", str(number), filter=here)(partial(self._switch, number))
        return keys

    def _add(
        self,
        keys: KeyBindings,
        action: Action,
        handler: Callable[[KeyPressEvent], None] | Binding,
        where: Filter,
    ) -> None:
        for key in self.bindings.keys(action):
            keys.add(*key.split(), filter=where)(handler)

    def _switch(self, number: int, event: KeyPressEvent) -> None:
        self.on_switch(number)

    def _enter(self, event: KeyPressEvent) -> None:
        if self._tab_waits and self._is_searching_paths():
            return  # what Tab completes is not there yet
        if self.holds_enter():
            self._held = bool(self._buffer.text.strip())
        else:
            self._held = False
            _enter(event)

    def _accept(self, buffer: Buffer) -> bool:
        pieces = [_encodable(piece) for piece in self._pastes.pieces(buffer.text)]
        pasted, images = tuple(pieces[1::2]), self._images.images(buffer.text)
        entered = Entered("".join(pieces), pasted, buffer.text, images, self.takes_reason)
        # after the text was removed from the input and added to the history
        asyncio.get_running_loop().call_soon(partial(self.on_enter, entered))
        return False

    def _has_one_completion(self) -> bool:
        state = self._buffer.complete_state
        return state is not None and len(state.completions) == 1

    def _is_searching_paths(self) -> bool:
        state = self._buffer.complete_state
        return state is not None and not state.completions

    def _wait_with_tab(self, event: KeyPressEvent) -> None:
        """Complete as soon as something is found."""
        self._tab_waits = True

    def _take_tab_soon(self) -> None:
        if self._tab_waits:
            asyncio.get_running_loop().call_soon(self._take_tab)

    def _take_tab(self) -> None:
        state = self._buffer.complete_state
        if self._tab_waits and state is not None and state.completions:
            self._tab_waits = False
            if len(state.completions) == 1:
                self._buffer.apply_completion(state.completions[0])
            else:
                self._buffer.complete_next()

    def _interrupt(self, event: KeyPressEvent) -> None:
        if self._buffer.text:
            self._buffer.reset()
            self._leaving = False
        elif self._leaving:
            self.on_leave()
        else:
            self._leaving = True

    def _up(self, event: KeyPressEvent) -> None:
        queued = self.take_back()
        if queued:
            self.put(queued)
        else:
            event.current_buffer.auto_up(count=event.arg)

    def _changed(self, buffer: Buffer) -> None:
        self.forget_hint()
        self._tab_waits = False
        self._completer.interrupt()

    def _paste(self, event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        self._pastes.typed(self._buffer.text)
        self._buffer.insert_text(self._pastes.shown(text))

    def _mark(self) -> str:
        before = self._buffer.document.text_before_cursor
        return self._pastes.mark_before(before) or self._images.mark_before(before)

    def _delete_mark(self, event: KeyPressEvent) -> None:
        self._buffer.delete_before_cursor(len(self._mark()))


def _offered(state: CompletionState | None) -> tuple[object, ...]:
    return () if state is None else (tuple(state.completions), state.complete_index)


def _ignore(event: KeyPressEvent) -> None:
    pass


def _enter_without_sending(event: KeyPressEvent) -> None:
    state = event.current_buffer.complete_state
    if state is not None and state.current_completion is not None:
        event.current_buffer.complete_state = None  # the chosen completion is in the input
    else:
        _new_line(event)


def _enter(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    state = buffer.complete_state
    if state is not None and state.current_completion is not None:
        buffer.complete_state = None  # the chosen completion is in the input
    elif _continues(buffer):
        buffer.delete_before_cursor()
        _new_line(event)
    elif buffer.text.strip():
        buffer.validate_and_handle()


def _complete(event: KeyPressEvent) -> None:
    """Take the only completion."""
    state = event.current_buffer.complete_state
    assert state is not None
    event.current_buffer.apply_completion(state.completions[0])


def _stop_completing(event: KeyPressEvent) -> None:
    event.current_buffer.cancel_completion()


def _continues(buffer: Buffer) -> bool:
    document = buffer.document
    return document.is_cursor_at_the_end_of_line and document.char_before_cursor == "\\"


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.newline(copy_margin=False)


def _joined(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def _encodable(text: str) -> str:
    """The text without lone surrogates, which cannot be sent.

    They stand for bytes that are invalid in the terminal's encoding, but may be UTF-8.
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class KeyFilter(Input):
    """A terminal whose keys are offered to a callback before the editor gets them.

    Keys that arrive together are handled in their order. A Ctrl-T behind letters waits until these
    are in the input, and what is behind an Enter until what it entered is handled: a Ctrl-C there
    cancels the turn that the Enter began.
    """

    def __init__(
        self, source: Input, on_key: OnKey, sends: frozenset[str] = frozenset({ENTER})
    ) -> None:
        self._source = source
        self._on_key = on_key
        self._sends = sends
        self.paused = False
        """Another reader gets the keys: the timer for an Escape must not take one from it."""
        self._waiting: deque[tuple[KeyPress, bool]] = deque()
        self._ready: Callable[[], None] = lambda: None

    def read_keys(self) -> list[KeyPress]:
        return self._left([] if self._waiting else self._source.read_keys())

    def flush_keys(self) -> list[KeyPress]:
        return self._left([] if self._waiting or self.paused else self._source.flush_keys())

    def _left(self, presses: list[KeyPress]) -> list[KeyPress]:
        """The keys that the callback does not take, up to the next one that must wait for them."""
        self._waiting += [(press, len(presses) == 1) for press in presses]
        left: list[KeyPress] = []
        while self._waiting:
            if left and (
                isinstance(self._waiting[0][0].key, Keys) or key_name(left[-1]) in self._sends
            ):
                break
            press, alone = self._waiting.popleft()
            if not self._on_key(key_name(press), alone):
                left.append(press)
            elif key_name(press) in self._sends:
                break
        if self._waiting:
            asyncio.get_running_loop().call_later(0, self._ready)
        return left

    def fileno(self) -> int:
        return self._source.fileno()

    def typeahead_hash(self) -> str:
        return self._source.typeahead_hash()

    def flush(self) -> None:
        self._source.flush()

    @property
    def closed(self) -> bool:
        return self._source.closed

    def raw_mode(self) -> AbstractContextManager[None]:
        return self._source.raw_mode()

    def cooked_mode(self) -> AbstractContextManager[None]:
        return self._source.cooked_mode()

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        self._ready = input_ready_callback
        return self._source.attach(input_ready_callback)

    def detach(self) -> AbstractContextManager[None]:
        return self._source.detach()

    def close(self) -> None:
        self._source.close()


def key_name(press: KeyPress) -> str:
    """The name of a key: `a`, `c-c`, `escape`."""
    return press.key.value if isinstance(press.key, Keys) else press.key


class _KeptHistory(History):
    """The history for prompt_toolkit, with marks for pastes; the file has the pastes in full."""

    def __init__(self, path: Path | None, pastes: Pastes, images: ImageMarks) -> None:
        super().__init__()
        self._images = images
        self._path = path
        self._pastes = pastes

    def load_history_strings(self) -> Iterable[str]:
        entries = read_entries(self._path) if self._path else []
        return [self._images.typed(self._pastes.joined(entry)) for entry in reversed(entries)]

    def store_string(self, string: str) -> None:
        if self._path:
            keep_entry(self._path, self._pastes.pieces(string))
