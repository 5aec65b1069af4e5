"""What `twofold run` prints for scripts: the forms of a turn, and the streams they go to.

What the agent says goes to standard output, everything else to standard error. Text of the agent
is made safe to show; JSON stays as it is, but on a terminal, where it must not do anything either.
A stream that nobody reads any more is left alone, and the turn goes on.
"""

import os
import re
import sys
from contextlib import suppress
from typing import Literal, TextIO, TypeAlias

from twofold.runtime.client.session import ClientSession
from twofold.runtime.client.turns import Reply
from twofold.session import Message, snapshot
from twofold.text.pieces import Pieces
from twofold.text.safe import one_line, sanitize
from twofold.wire import codec, v2

Form: TypeAlias = Literal["text", "json", "updates", "quiet"]


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
        self.out.data(_harmless(line) if self.out.is_terminal else line)

    def tell(self, text: str) -> None:
        """Say something about the turn; lines stay lines."""
        if self._shared:
            self.fresh_line()
        self._err.text(sanitize(text) + "\n")


# JSON may hold these as they are. In a string an escape says the same; outside of one they are
# blanks, which is all that control characters below 0x20 can be in JSON.
_ACTIVE = re.compile("[\0-\x08\x0b-\x1f]|[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _harmless(line: bytes) -> bytes:
    def escaped(match: re.Match[str]) -> str:
        return " " if match[0] < " " else f"\\u{ord(match[0]):04x}"

    return _ACTIVE.sub(escaped, line.decode(errors="replace")).encode()


# ---- forms -----------------------------------------------------------------------------------


class Printer:
    """Tells what was decided, and nothing else: of `json` the tape prints the rest."""

    def __init__(self, session: ClientSession, screen: Screen) -> None:
        self._session = session
        self._screen = screen
        self._decided = 0
        self._broken_off = False
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
            self._screen.tell(f"[permission] {one_line(title)}: {one_line(str(decided))}")


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
            entry.text
            for entry in (reply.entries if reply is not None else [])
            if isinstance(entry, Message) and entry.role == "agent" and entry.text
        ]
        if said:
            self._screen.text(sanitize(said[-1]).rstrip() + "\n")


class Text(Printer):
    """What the agent says in the turn, as it comes; a blank line stands between two messages."""

    def __init__(self, session: ClientSession, screen: Screen) -> None:
        super().__init__(session, screen)
        self._said: dict[str, list[str]] = {}
        self._message: str | None = None
        self._pieces = Pieces()
        self._titles: dict[str, str] = {}

    def update(self, update: v2.SessionUpdate) -> None:
        """One update of the session; a replay, a greeting or an afterthought is not printed."""
        if not self._session.in_turn:
            return
        match update:
            case v2.AgentMessageChunk(content=v2.TextContent(text=text)):
                self._say(update.message_id, text)
            case v2.AgentMessage(content=list(content)):
                texts = [block.text for block in content if isinstance(block, v2.TextContent)]
                self._replace(update.message_id, "".join(texts))
            case v2.AgentMessage(content=None):
                self._replace(update.message_id, "")
            case v2.ToolCallUpdate(tool_call_id=identity, title=str(title)):
                if self._titles.get(identity) != title:
                    self._titles[identity] = title
                    kind = self._session.state.tool_calls[identity].kind
                    self._screen.tell(f"[{one_line(kind)}] {one_line(title)}")

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
            if self._said:
                self._screen.text("\n")
            self._message = message_id
        self._said.setdefault(message_id, []).append(text)
        self._screen.text(self._pieces.add(text))

    def _end_message(self) -> None:
        self._screen.text(self._pieces.end())
        self._screen.fresh_line()

    def end(self, reply: Reply | None) -> None:
        """The turn is over; without a reply if it was broken off."""
        self._end_message()
        super().end(reply)


PRINTERS: dict[Form, type[Printer]] = {
    "text": Text,
    "quiet": Quiet,
    "updates": Updates,
    "json": Printer,
}
