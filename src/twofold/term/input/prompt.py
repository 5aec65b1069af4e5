"""Where a person types: a line or several, with history, completion and a line of status below.

The prompt asks and gives back the text; what it drew is erased, so that the client can print the
message in its own style. It draws when a key is pressed and when it is told to, and otherwise
does nothing at all. Text of the agent is shown only after it was made safe.
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

# Long pastes as short marks: `[pasted #1: 2,000 lines]` stands for what was pasted.
#
# A person sees and edits the mark, the agent gets the text. A mark is plain text in the input: it
# may be moved, repeated or deleted, and one that was changed is a mark no longer. Only marks that
# were made here are put back; words that look like one stay as they are. Pure: nothing here reads
# a clipboard or a screen.


MOST_LINES: Final = 8
MOST_CHARACTERS: Final = 800
"""A paste of no more lines and characters than these is shown as it is."""

_LOOK: Final = re.compile(
    r"\[pasted(?: before)? #([1-9][0-9]{0,8}): [0-9][0-9,]* (?:lines|characters?)\]"
)


class Pastes:
    """The long pastes of one prompt, by their marks."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._numbers = {"pasted": 0, "pasted before": 0}
        self._taken: set[int] = set()

    def shown(self, text: str) -> str:
        """What stands for a paste in the input: the text itself, or its mark if it is long."""
        # words that pass for a mark of ours would be put back as another paste
        if is_long(text) or any(found[0] in self._texts for found in _LOOK.finditer(text)):
            return self.mark(text)
        self.typed(text)
        return text

    def mark(self, text: str) -> str:
        """A new mark for a text, however long."""
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
        """Never make a mark that already stands in this text; gives the text back."""
        self._taken.update(int(found[1]) for found in _LOOK.finditer(text))
        return text

    def full(self, text: str) -> str:
        """The text with every paste in place of its mark."""
        return "".join(self.pieces(text))

    def pieces(self, text: str) -> list[str]:
        """The text cut at its marks: typed, pasted, typed, …; each second piece was pasted."""
        pieces: list[str] = []
        end = 0
        for found in _LOOK.finditer(text):
            if (pasted := self._texts.get(found[0])) is not None:
                pieces += (text[end : found.start()], pasted)
                end = found.end()
        return [*pieces, text[end:]]

    def joined(self, pieces: Sequence[str]) -> str:
        """The text to show for such pieces of another day: `full` of it is all of them."""
        for typed in pieces[::2]:
            self.typed(typed)
        return "".join(
            self._mark("pasted before", piece) if number % 2 else piece
            for number, piece in enumerate(pieces)
        )

    def mark_before(self, text: str) -> str:
        """The mark that the text ends with, so that it can be deleted as one; or nothing."""
        if not text.endswith("]"):
            return ""
        mark = text[text.rfind("[") :]
        return mark if mark in self._texts else ""


def is_long(text: str) -> bool:
    """Whether a paste is shown as a mark."""
    return len(text) > MOST_CHARACTERS or _lines(text) > MOST_LINES


def _extent(text: str) -> str:
    lines = _lines(text)
    if lines > MOST_LINES:
        return f"{lines:,} lines"
    return f"{len(text):,} character{'' if len(text) == 1 else 's'}"


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


HOW_TO_LEAVE: Final = "Ctrl-C once more or Ctrl-D leaves"
NOT_SENT: Final = "Not sent, for it came right after an answer: Enter sends it now"
_LONGEST_STATUS: Final = 1000
_STYLES: Final = {
    True: Style.from_dict({"bottom-toolbar": "noreverse ansibrightblack"}),
    False: Style.from_dict({"bottom-toolbar": "noreverse"}),
}


class InlineOutput(Vt100_Output):
    """A terminal that is not asked where the cursor is.

    So the status stands right below the input instead of at the foot of the screen, and nobody
    waits for an answer that some terminals never give.
    """

    def get_rows_below_cursor_position(self) -> int:
        return 1


class Prompt:
    """Asks a person what to say, as often as one likes.

    `session` gives the session as it is: its commands are completed and its settings shown.
    `cwd` is where `@paths` begin. `history` is the file that keeps what was sent, if any.
    """

    def __init__(
        self,
        session: Callable[[], Session],
        cwd: Path,
        history: Path | None = None,
        *,
        color: bool = True,
        input: Input | None = None,  # noqa: A002  # as prompt_toolkit says it
        output: Output | None = None,
    ) -> None:
        self.pasted: tuple[str, ...] = ()
        """What of the last answer was pasted and not typed (see `mentions.parts_of`)."""
        self.heard: Callable[[], None] = lambda: None
        """Called for every key."""
        self.holds: Callable[[], bool] = lambda: False
        """Whether Enter sends nothing, for it still belongs to something else."""
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
            # one excludes the other: completion where something is offered, history elsewhere
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
        # the signal says when the size changes: who waits for a key wakes up for nothing else
        self._toolkit.app.terminal_size_polling_interval = None
        self._toolkit.app.key_processor.before_key_press += lambda _: self.heard()
        self._buffer.on_text_changed += self._stay

    async def ask(self, prefill: str = "") -> str | None:
        """What the person sends, never blank; None if they want to leave.

        `prefill` stands in the input at the beginning, for what was typed before it was asked.
        """
        self._leaving = self._held = False
        self._status = None
        shown = self._pastes.mark(prefill) if is_long(prefill) else self._pastes.typed(prefill)
        try:
            # signals and errors of the loop are the business of the client
            shown = await self._toolkit.prompt_async(
                default=shown, handle_sigint=False, set_exception_handler=False
            )
        except (EOFError, KeyboardInterrupt):  # a dumb terminal has no keys but this one
            return None
        pieces = [_encodable(piece) for piece in self._pastes.pieces(shown)]
        self.pasted = tuple(pieces[1::2])
        return "".join(pieces)

    @property
    def typed(self) -> str:
        """What stands in the input, or stood there when the asking was cancelled: a `prefill`."""
        return self._buffer.text

    def refresh(self) -> None:
        """The session has changed: draw the status again, if it is to be seen."""
        self._status = None
        if self._toolkit.app.is_running:
            self._toolkit.app.invalidate()

    async def print_above(self, write: Callable[[], None]) -> None:
        """Let something be printed; while the prompt waits, above what the person types."""
        if not self._toolkit.app.is_running:
            write()
            return
        # who is cancelled half-way would leave the prompt waiting for the terminal for ever
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
        # in the last column some terminals begin a new row
        line = plain(cut(((status, ""),), max(0, output.get_size().columns - 1)))
        return in_encoding(line, output.encoding())

    def _stay(self, buffer: Buffer) -> None:
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
        self.heard()  # on a dumb terminal nobody else reports keys
        self._held = self.holds()
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
        buffer.complete_state = None  # it was chosen, and stands in the input
    elif _continues(buffer):
        buffer.delete_before_cursor()
        _new_line(event)
    elif buffer.text.strip():
        buffer.validate_and_handle()


def _complete(event: KeyPressEvent) -> None:
    """Take the one completion that there is; there is nothing to choose."""
    state = event.current_buffer.complete_state
    assert state is not None
    event.current_buffer.apply_completion(state.completions[0])


def _continues(buffer: Buffer) -> bool:
    document = buffer.document
    return document.is_cursor_at_the_end_of_line and document.char_before_cursor == "\\"


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.newline(copy_margin=False)


def _terminal() -> Output | None:
    """The terminal of the program; None: one that can do nothing, which the toolkit knows."""
    return None if is_dumb_terminal() else InlineOutput.from_pty(sys.stdout)


# ---- words -------------------------------------------------------------------------------------


def status_line(session: Session) -> str:
    """Settings, usage and title on one line: mode, tokens and cost first, the rest may be cut."""
    shown = footer(session)
    modes = [setting for setting in shown.settings if setting.category == "mode"]
    others = [setting for setting in shown.settings if setting.category != "mode"]
    facts = [f"{setting.name}: {setting.value}" for setting in modes]
    facts += [shown.usage] if shown.usage else []
    facts += [f"{setting.name}: {setting.value}" for setting in others]
    facts += [shown.title] if shown.title else []
    return " · ".join(facts)[:_LONGEST_STATUS]


def in_encoding(text: str, encoding: str) -> str:
    """The text as far as the encoding of the terminal knows its characters."""
    if encoding.lower().replace("-", "") == "utf8":
        return text
    plainer = text.replace("·", "|").replace("…", "~")
    try:
        return plainer.encode(encoding, "replace").decode(encoding)
    except LookupError:
        return plainer.encode("ascii", "replace").decode("ascii")


def _encodable(text: str) -> str:
    """The text without halves of characters, which nobody can send.

    They stand for bytes that are not of the terminal's encoding, but may well be UTF-8.
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# ---- what was sent before ----------------------------------------------------------------------


class _KeptHistory(History):
    """The history as prompt_toolkit wants it, with marks; the file has the pastes in full."""

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
