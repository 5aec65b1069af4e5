"""The prompt: one or several lines with history, completion, and a status line below.

When the text is sent, the prompt erases itself, so that the client can print the message in its own
style. It draws when a key is pressed and when the session has changed, and otherwise does nothing.
The agent's text is sanitized. A long paste is shown as a short mark (see `Pastes`).
"""

import asyncio
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal

from twofold.session import Session
from twofold.term.input.completion import InputCompleter, is_completed
from twofold.term.input.history import keep_entry, read_entries
from twofold.term.lines import cut, plain
from twofold.view.outline import footer

HOW_TO_LEAVE: Final = "Ctrl-C once more or Ctrl-D leaves"
NOT_SENT: Final = "Not sent, because it followed right after an answer: Enter sends it now"
_LONGEST_STATUS: Final = 1000
_STYLES: Final = {
    True: Style.from_dict({"bottom-toolbar": "noreverse ansibrightblack"}),
    False: Style.from_dict({"bottom-toolbar": "noreverse"}),
}


class InlineOutput(Vt100_Output):
    """A terminal that is not asked for the position of the cursor.

    So the status is right below the input instead of at the bottom of the screen, and the prompt
    does not wait for an answer that some terminals never give.
    """

    def get_rows_below_cursor_position(self) -> int:
        return 1


class Prompt:
    """Asks a person for text, any number of times.

    Args:
        session: Returns the session, whose commands are completed and whose settings are shown.
        cwd: Where `@paths` begin.
        history: The file that keeps what was sent, if any.
        color: Whether to use colors.
        input: The terminal to read, if not standard input.
        output: The terminal to draw on, if not standard output.
    """

    def __init__(
        self,
        session: Callable[[], Session],
        cwd: Path,
        history: Path | None = None,
        *,
        color: bool = True,
        input: Input | None = None,  # noqa: A002  # as in prompt_toolkit
        output: Output | None = None,
    ) -> None:
        self.pasted: tuple[str, ...] = ()
        """The parts of the last text that were pasted and not typed (see `mentions.parts_of`)."""
        self.on_key: Callable[[], None] = lambda: None
        """Called for every key."""
        self.holds_enter: Callable[[], bool] = lambda: False
        """Returns True if Enter must not send, because it still belongs to an answer."""
        self._session = session
        self._pastes = Pastes()
        self._leaving = False
        self._held = False
        self._status: str | None = None
        self._toolkit: PromptSession[str] = PromptSession(
            "> ",
            multiline=True,
            completer=InputCompleter(session, cwd),
            complete_while_typing=True,
            # they exclude each other: completion where something is offered, history elsewhere
            enable_history_search=Condition(lambda: not is_completed(self._buffer.document)),
            history=_KeptHistory(history, self._pastes),
            key_bindings=self._keys(),
            bottom_toolbar=self._toolbar,
            style=_STYLES[color],
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            include_default_pygments_style=False,
            mouse_support=False,
            enable_suspend=True,
            erase_when_done=True,
            input=input,
            output=output or _terminal(),
        )
        # a signal reports changes of size: without polling, a prompt that waits uses no processor
        self._toolkit.app.terminal_size_polling_interval = None
        self._toolkit.app.key_processor.before_key_press += lambda _: self.on_key()
        self._buffer.on_text_changed += self._reset_status

    async def ask(self, prefill: str = "") -> str | None:
        """Wait until the person sends a text.

        Args:
            prefill: What the input begins with, because it was typed before.

        Returns:
            The text, which is never blank, or None if the person leaves.
        """
        self._leaving = self._held = False
        self._status = None
        shown = self._pastes.mark(prefill) if is_long(prefill) else self._pastes.typed(prefill)
        try:
            # the client handles signals and errors of the loop
            shown = await self._toolkit.prompt_async(
                default=shown, handle_sigint=False, set_exception_handler=False
            )
        except (EOFError, KeyboardInterrupt):  # on a dumb terminal Ctrl-C raises
            return None
        pieces = [_encodable(piece) for piece in self._pastes.pieces(shown)]
        self.pasted = tuple(pieces[1::2])
        return "".join(pieces)

    @property
    def typed(self) -> str:
        """The text in the input, also after `ask` was cancelled: the next `prefill`."""
        return self._buffer.text

    def refresh(self) -> None:
        """Draw the status again, because the session has changed."""
        self._status = None
        if self._toolkit.app.is_running:
            self._toolkit.app.invalidate()

    async def print_above(self, write: Callable[[], None]) -> None:
        """Call `write`; while the prompt waits, it prints above what the person types."""
        if not self._toolkit.app.is_running:
            write()
            return
        # a cancellation half-way would leave the prompt waiting for the terminal for ever
        await asyncio.shield(run_in_terminal(write))

    # ---- the status

    def _toolbar(self) -> str:
        output = self._toolkit.app.output
        if self._leaving:
            status = HOW_TO_LEAVE
        elif self._held:
            status = NOT_SENT
        elif self._status is None:
            status = self._status = status_line(self._session())
        else:
            status = self._status
        # in the last column some terminals start a new row
        line = plain(cut(((status, ""),), max(0, output.get_size().columns - 1)))
        return in_encoding(line, output.encoding())

    def _reset_status(self, buffer: Buffer) -> None:
        self._leaving = self._held = False

    # ---- the keys

    @property
    def _buffer(self) -> Buffer:
        return self._toolkit.default_buffer

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        here = has_focus(DEFAULT_BUFFER)
        behind_mark = Condition(lambda: bool(self._mark()))
        keys.add("enter", filter=here)(self._enter)
        keys.add("tab", filter=here & Condition(self._has_one_completion))(_complete)
        keys.add("escape", "enter", filter=here)(_new_line)
        keys.add("c-j", filter=here)(_new_line)
        keys.add("c-c", filter=here)(self._interrupt)
        keys.add("<sigint>")(self._interrupt)
        keys.add("backspace", filter=here & behind_mark)(self._delete_mark)
        keys.add(Keys.BracketedPaste, filter=here)(self._paste)
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        self.on_key()  # on a dumb terminal this is the only report
        self._held = self.holds_enter()
        if not self._held:
            _enter(event)

    def _has_one_completion(self) -> bool:
        state = self._buffer.complete_state
        return state is not None and len(state.completions) == 1

    def _interrupt(self, event: KeyPressEvent) -> None:
        if self._buffer.text:
            self._buffer.reset()
            self._leaving = False
        elif self._leaving:
            event.app.exit(exception=EOFError())
        else:
            self._leaving = True

    def _paste(self, event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        self._pastes.typed(self._buffer.text)
        self._buffer.insert_text(self._pastes.shown(text))

    def _mark(self) -> str:
        return self._pastes.mark_before(self._buffer.document.text_before_cursor)

    def _delete_mark(self, event: KeyPressEvent) -> None:
        self._buffer.delete_before_cursor(len(self._mark()))


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


def _continues(buffer: Buffer) -> bool:
    document = buffer.document
    return document.is_cursor_at_the_end_of_line and document.char_before_cursor == "\\"


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.newline(copy_margin=False)


def _terminal() -> Output | None:
    """The terminal to draw on; None leaves a dumb terminal to the toolkit."""
    return None if is_dumb_terminal() else InlineOutput.from_pty(sys.stdout)


# ---- texts -------------------------------------------------------------------------------------


def status_line(session: Session) -> str:
    """Settings, usage and title on one line, the most important first: the end may be cut."""
    shown = footer(session)
    modes = [setting for setting in shown.settings if setting.category == "mode"]
    others = [setting for setting in shown.settings if setting.category != "mode"]
    facts = [f"{setting.name}: {setting.value}" for setting in modes]
    facts += [shown.usage] if shown.usage else []
    facts += [f"{setting.name}: {setting.value}" for setting in others]
    facts += [shown.title] if shown.title else []
    return " · ".join(facts)[:_LONGEST_STATUS]


def in_encoding(text: str, encoding: str) -> str:
    """The text, with characters that the terminal's encoding does not have replaced."""
    if encoding.lower().replace("-", "") == "utf8":
        return text
    plainer = text.replace("·", "|").replace("…", "~")
    try:
        return plainer.encode(encoding, "replace").decode(encoding)
    except LookupError:
        return plainer.encode("ascii", "replace").decode("ascii")


def _encodable(text: str) -> str:
    """The text without lone surrogates, which cannot be sent.

    They stand for bytes that are invalid in the terminal's encoding, but may be UTF-8.
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# ---- pastes ------------------------------------------------------------------------------------

MOST_LINES: Final = 8
MOST_CHARACTERS: Final = 800
"""A paste up to this size is shown unchanged."""

_LOOK: Final = re.compile(
    r"\[pasted(?: before)? #([1-9][0-9]{0,8}): [0-9][0-9,]* (?:lines|characters?)\]"
)


class Pastes:
    """Long pastes as short marks: `[pasted #1: 2,000 lines]`.

    A person sees and edits the mark, the agent gets the text. A mark is plain text in the input: it
    can be moved, repeated or deleted, and it is a mark no longer once it was edited. Only marks
    that were made here are replaced; typed words that look like a mark stay.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._numbers = {"pasted": 0, "pasted before": 0}
        self._taken: set[int] = set()

    def shown(self, text: str) -> str:
        """How a paste is shown in the input: the text itself, or its mark if it is long."""
        # a paste that contains one of our marks would be replaced by that other paste
        if is_long(text) or any(found[0] in self._texts for found in _LOOK.finditer(text)):
            return self.mark(text)
        self.typed(text)
        return text

    def mark(self, text: str) -> str:
        """Make a new mark for a text of any length."""
        return self._mark("pasted", text)

    def _mark(self, word: str, text: str) -> str:
        number = self._numbers[word] + 1
        while number in self._taken:
            number += 1
        self._numbers[word] = number
        mark = f"[{word} #{number}: {_extent(text)}]"
        self._texts[mark] = text
        return mark

    def typed(self, text: str) -> str:
        """Return the text, and never make a mark that it already contains."""
        self._taken.update(int(found[1]) for found in _LOOK.finditer(text))
        return text

    def full(self, text: str) -> str:
        """The text with every mark replaced by its paste."""
        return "".join(self.pieces(text))

    def pieces(self, text: str) -> list[str]:
        """The text, split at its marks: typed, pasted, typed, …; every second piece was pasted."""
        pieces: list[str] = []
        end = 0
        for found in _LOOK.finditer(text):
            if (pasted := self._texts.get(found[0])) is not None:
                pieces += (text[end : found.start()], pasted)
                end = found.end()
        return [*pieces, text[end:]]

    def joined(self, pieces: Sequence[str]) -> str:
        """The text to show for pieces from the history, with new marks for what was pasted."""
        for typed in pieces[::2]:
            self.typed(typed)
        return "".join(
            self._mark("pasted before", piece) if number % 2 else piece
            for number, piece in enumerate(pieces)
        )

    def mark_before(self, text: str) -> str:
        """The mark at the end of the text, which is deleted as a whole; or an empty string."""
        if not text.endswith("]"):
            return ""
        mark = text[text.rfind("[") :]
        return mark if mark in self._texts else ""


def is_long(text: str) -> bool:
    """True if a paste of this text is shown as a mark."""
    return len(text) > MOST_CHARACTERS or _lines(text) > MOST_LINES


def _extent(text: str) -> str:
    lines = _lines(text)
    if lines > MOST_LINES:
        return f"{lines:,} lines"
    return f"{len(text):,} character{'' if len(text) == 1 else 's'}"


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


# ---- history -----------------------------------------------------------------------------------


class _KeptHistory(History):
    """The history for prompt_toolkit, with marks for pastes; the file has the pastes in full."""

    def __init__(self, path: Path | None, pastes: Pastes) -> None:
        super().__init__()
        self._path = path
        self._pastes = pastes

    def load_history_strings(self) -> Iterable[str]:
        entries = read_entries(self._path) if self._path else []
        return [self._pastes.joined(entry) for entry in reversed(entries)]

    def store_string(self, string: str) -> None:
        if self._path:
            keep_entry(self._path, self._pastes.pieces(string))
