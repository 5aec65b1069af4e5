"""What `twofold run` prints for scripts: the forms of a turn, and the streams they go to.

What the agent says goes to standard output, everything else to standard error. Text of the agent
is made safe to show; JSON stays as it is, but on a terminal, where it must not do anything either.
A stream that nobody reads any more is left alone, and the turn goes on.
"""

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal, TextIO, TypeAlias

from twofold.client.permissions import Question
from twofold.client.prompting import Reply
from twofold.client.session import ClientSession
from twofold.session import Message, Session, ToolCall, snapshot
from twofold.term.lines import all_rows, plain
from twofold.term.question_lines import Page, block_of
from twofold.text.safe import Pieces, harmless_json, one_line, sanitize
from twofold.view.blocks import CommandPart, DescribedItem, TerminalItem, TextItem, described
from twofold.view.outline import entry_block
from twofold.wire import codec, v2
from twofold.wire.content import ContentBlock, TextContent

Form: TypeAlias = Literal["text", "json", "updates", "quiet"]

FAILURE_LINES: Final = 3
"""How many lines of what a failed tool call said are printed."""
_LONGEST_LINE: Final = 300


class Stream:
    """A standard stream, which may be closed or go away."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.is_terminal = stream is not None and stream.isatty()
        self.fault: OSError | None = None
        """Why it could not be written; None also if nobody wanted to read it."""

    def same_as(self, other: "Stream") -> bool:
        """Whether what is written to either comes out at the same place."""
        if self._stream is None or other._stream is None:
            return False
        try:
            return os.path.sameopenfile(self._stream.fileno(), other._stream.fileno())
        except (OSError, ValueError):  # they are no files
            return False

    def text(self, text: str) -> None:
        """Write text in the encoding of the stream."""
        if self._stream is not None:
            self.data(text.encode(self._stream.encoding or "utf-8", errors="replace"))

    def data(self, data: bytes) -> None:
        """Write bytes; whoever does not read as fast as the agent talks makes it wait."""
        if self._stream is None:
            return
        try:
            self._stream.buffer.write(data)
            self._stream.buffer.flush()
        except BrokenPipeError:
            self._leave()
        except OSError as error:
            self.fault = error
            self._leave()

    def _leave(self) -> None:
        """Write no more, and let Python find nothing wrong with the stream at its end."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Screen:
    """Both streams, which may be the same terminal or log."""

    def __init__(self) -> None:
        self.out, self._err = Stream(sys.stdout), Stream(sys.stderr)
        self._shared = self.out.same_as(self._err)
        self._in_line = False

    def text(self, text: str) -> None:
        """Print text of the agent that was made safe."""
        if text:
            self.out.text(text)
            self._in_line = not text.endswith("\n")

    def fresh_line(self) -> None:
        """End the line, unless nothing is on it."""
        if self._in_line:
            self.text("\n")

    def json(self, line: bytes) -> None:
        """Print a line of JSON."""
        self.out.data(harmless_json(line) if self.out.is_terminal else line)

    def tell(self, text: str) -> None:
        """Say something about the turn; lines stay lines."""
        if self._shared:
            self.fresh_line()
        self._err.text(sanitize(text) + "\n")


# ---- forms -----------------------------------------------------------------------------------


class Printer:
    """Tells what was decided, and nothing else: of `json` the tape prints the rest."""

    def __init__(self, session: ClientSession, screen: Screen) -> None:
        self._session = session
        self._screen = screen
        self._decided = 0
        self._broken_off = False
        self._asked: dict[int | str, Question] = {}
        session.on_question(self._asked.__setitem__)
        session.on_update(self._came)

    def _came(self, update: v2.SessionUpdate) -> None:
        if not self._broken_off:  # another printer may tell what is said in the session now
            self._tell_decisions()
            self.update(update)

    def update(self, update: v2.SessionUpdate) -> None:
        """One update of the session."""

    def end(self, reply: Reply | None) -> None:
        """The turn is over; without a reply if it was broken off."""
        self._tell_decisions()
        self._broken_off = reply is None

    def _tell_decisions(self) -> None:
        for decided in self._session.decisions[self._decided :]:
            self._decided += 1
            title = decided.subject.title or decided.subject.kind
            told = f"[permission] {one_line(title)}: {one_line(str(decided))}"
            asked = self._asked.pop(decided.request_id, None)
            self._screen.tell("\n".join([told, *(_details(asked, told) if asked else ())]))


def _details(question: Question, told: str) -> list[str]:
    """What would happen, as far as the line above does not say so."""
    block = block_of(question)
    here = not question.subject.elsewhere
    shown = [
        part
        for part in block.parts
        if not isinstance(part, CommandPart)
        or one_line(part.text) not in told
        or not (here or not part.cwd or part.cwd in told)
    ]
    if not shown:
        return []
    _, *lines = Page(replace(block, parts=tuple(shown))).lines
    return [plain(row).rstrip() for row in all_rows(lines, None)]


class Updates(Printer):
    """What is known of the session, then every update: added up, they are the session."""

    def __init__(self, session: ClientSession, screen: Screen) -> None:
        super().__init__(session, screen)
        for update in snapshot(session.state):
            self.update(update)

    def update(self, update: v2.SessionUpdate) -> None:
        """One update of the session."""
        line = codec.encode({"sessionId": self._session.session_id, "update": update})
        self._screen.json(line + b"\n")


class Quiet(Printer):
    """Only the last message of the turn."""

    def end(self, reply: Reply | None) -> None:
        """The turn is over; without a reply if it was broken off."""
        super().end(reply)
        said = [
            _words(entry.content)
            for entry in (reply.entries if reply is not None else [])
            if isinstance(entry, Message) and entry.role == "agent" and entry.content
        ]
        shown = [text for text in said if text.strip()]
        if shown:
            text = _LEADING_BLANK.sub("", sanitize(shown[-1]))
            self._screen.text(text.rstrip() + "\n")


class Text(Printer):
    """What the agent says in the turn, as it comes; a blank line stands between two messages."""

    def __init__(self, session: ClientSession, screen: Screen) -> None:
        super().__init__(session, screen)
        self._said: dict[str, list[str]] = {}
        self._message: str | None = None
        self._pieces = Pieces()
        self._printed = False
        """Something of any message was printed."""
        self._begun = False
        """Something of the message that is printed now was, so that its blank lines count."""
        self._titles: dict[str, str] = {}
        self._failed: set[str] = set()

    def update(self, update: v2.SessionUpdate) -> None:
        """One update of the session; a replay, a greeting or an afterthought is not printed."""
        if not self._session.in_turn:
            return
        match update:
            case v2.AgentMessageChunk(content=block):
                before = self._said.get(update.message_id) or [""]
                self._say(update.message_id, _word(block, before[-1]))
            case v2.AgentMessage(content=list(content)):
                self._replace(update.message_id, _words(content))
            case v2.AgentMessage(content=None):
                self._replace(update.message_id, "")
            case v2.ToolCallUpdate(tool_call_id=identity):
                self._call(self._session.state.tool_calls[identity], update.title)

    def _call(self, call: ToolCall, title: object) -> None:
        identity = call.tool_call_id
        if isinstance(title, str) and self._titles.get(identity) != title:
            self._titles[identity] = title
            self._screen.tell(f"[{one_line(call.kind)}] {one_line(title)}")
        if call.status == "failed" and identity not in self._failed:
            self._failed.add(identity)
            if not self._was_denied(identity):
                self._screen.tell("\n".join(_failure(call, self._session.state)))

    def _was_denied(self, tool_call_id: str) -> bool:
        """Whether the line that tells the decision already tells why it failed."""
        decisions = self._session.decisions
        return any(each.tool_call_id == tool_call_id and not each.allowed for each in decisions)

    def _replace(self, message_id: str, text: str) -> None:
        """A message as a whole: most often all of what was said in pieces, or more of it."""
        before = "".join(self._said.get(message_id, ()))
        if text.startswith(before):
            text = text[len(before) :]
        else:  # what was printed cannot be taken back: what it is now is printed after it
            self._said[message_id] = []
            self._message = None
        self._say(message_id, text)

    def _say(self, message_id: str, text: str) -> None:
        if not text:
            return
        if message_id != self._message:
            self._end_message()
            self._message, self._begun = message_id, False
        self._said.setdefault(message_id, []).append(text)
        self._print(self._pieces.add(text))

    def _print(self, text: str) -> None:
        if not self._begun:
            text = _LEADING_BLANK.sub("", text)
            if not text:
                return
            if self._printed:
                self._screen.text("\n")
            self._begun = self._printed = True
        self._screen.text(text)

    def _end_message(self) -> None:
        left = self._pieces.end()
        if left:
            self._print(left)
        self._screen.fresh_line()

    def end(self, reply: Reply | None) -> None:
        """The turn is over; without a reply if it was broken off."""
        self._end_message()
        super().end(reply)


_LEADING_BLANK: Final = re.compile(r"\A(?:[^\S\n]*\n)+")


def _words(content: Iterable[ContentBlock]) -> str:
    """A message as text; what is not text is named on a line of its own."""
    words: list[str] = []
    for block in content:
        words.append(_word(block, words[-1] if words else ""))
    return "".join(words)


def _word(block: ContentBlock, before: str) -> str:
    if isinstance(block, TextContent):
        return block.text
    line = f"{described(block)}\n"
    return line if not before or before.endswith("\n") else f"\n{line}"


def _failure(call: ToolCall, session: Session) -> list[str]:
    """A failed tool call: its title, and the first lines of what it said of that."""
    shown = entry_block(session, call)
    lines: list[str] = []
    for item in shown.items if call.content else ():
        match item:
            case TextItem():
                lines += item.text.splitlines()
            case DescribedItem():
                lines.append(item.text)
            case TerminalItem():  # of a command the end tells most
                lines += [*item.text.rstrip().splitlines()[-FAILURE_LINES:], item.exit or ""]
    if not lines and call.raw_output is not None:
        raw = call.raw_output
        lines = (raw if isinstance(raw, str) else codec.encode(raw).decode()).splitlines()
    told = [each for each in map(one_line, lines) if each][:FAILURE_LINES]
    title = one_line(call.title or "") or one_line(call.name or "") or one_line(call.kind)
    return [f"[failed] {title}", *(f"  {each[:_LONGEST_LINE]}" for each in told)]


PRINTERS: dict[Form, type[Printer]] = {
    "text": Text,
    "quiet": Quiet,
    "updates": Updates,
    "json": Printer,
}
