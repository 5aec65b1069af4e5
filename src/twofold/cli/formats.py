"""What `twofold run --prompt` prints: the formats of `--format`.

The agent's messages go to standard output, everything else to standard error. The agent's text is
sanitized; its JSON is printed unchanged, except on a terminal, where control characters are
escaped.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from twofold.cli.output import Output
from twofold.client.permissions import Question, block_of
from twofold.client.prompting import Reply
from twofold.client.session import ClientSession
from twofold.session import Message, Session, ToolCall, snapshot
from twofold.term.lines import all_rows, plain
from twofold.term.question_lines import Page
from twofold.text.safe import Pieces, one_line, sanitize
from twofold.view.blocks import CommandPart, DescribedItem, TerminalItem, TextItem, described
from twofold.view.outline import entry_block
from twofold.wire import codec, v2
from twofold.wire.content import ContentBlock, TextContent

Format: TypeAlias = Literal["text", "json", "updates", "quiet"]

_FAILURE_LINES: Final = 3
"""How many lines of a failed tool call's output are printed."""
_LONGEST_LINE: Final = 300
_LEADING_BLANK_LINES: Final = re.compile(r"\A(?:[^\S\n]*\n)+")


class Printer:
    """Reports the permission decisions of a turn, and prints nothing else.

    This is all of the format `json`, whose messages are printed as they are sent and received.
    """

    def __init__(self, session: ClientSession, output: Output) -> None:
        self._session = session
        self._output = output
        self._reported = 0
        self._ended_early = False
        self._asked: dict[int | str, Question] = {}
        session.on_question(self._asked.__setitem__)
        session.on_update(self._receive)

    def _receive(self, update: v2.SessionUpdate) -> None:
        if not self._ended_early:  # after a login, the printer of the next attempt prints
            self._report_decisions()
            self.update(update)

    def update(self, update: v2.SessionUpdate) -> None:
        """Print an update of the session."""

    def end(self, reply: Reply | None) -> None:
        """Print what is left when the turn has ended; it failed if there is no reply."""
        self._report_decisions()
        self._ended_early = reply is None

    def _report_decisions(self) -> None:
        for decided in self._session.decisions[self._reported :]:
            self._reported += 1
            title = decided.subject.title or decided.subject.kind
            summary = f"[permission] {one_line(title)}: {one_line(str(decided))}"
            asked = self._asked.pop(decided.request_id, None)
            details = _details(asked, summary) if asked else []
            self._output.report("\n".join([summary, *details]))


def _details(question: Question, summary: str) -> list[str]:
    """The lines of a question, without the commands that the summary already names."""
    block = block_of(question)
    here = not question.subject.elsewhere
    shown = [
        part
        for part in block.parts
        if not isinstance(part, CommandPart)
        or one_line(part.text) not in summary
        or not (here or not part.cwd or part.cwd in summary)
    ]
    if not shown:
        return []
    _, *lines = Page(replace(block, parts=tuple(shown), why="")).lines
    return [plain(row).rstrip() for row in all_rows(lines, None)]


class UpdatesPrinter(Printer):
    """Prints a snapshot of the session, then every update: folded, they give the session."""

    def __init__(self, session: ClientSession, output: Output) -> None:
        super().__init__(session, output)
        for update in snapshot(session.state):
            self.update(update)

    def update(self, update: v2.SessionUpdate) -> None:
        line = codec.encode({"sessionId": self._session.session_id, "update": update})
        self._output.json(line + b"\n")


class QuietPrinter(Printer):
    """Prints only the last message of the turn."""

    def end(self, reply: Reply | None) -> None:
        super().end(reply)
        messages = [
            _text(entry.content)
            for entry in (reply.entries if reply is not None else [])
            if isinstance(entry, Message) and entry.role == "agent" and entry.content
        ]
        not_blank = [text for text in messages if text.strip()]
        if not_blank:
            text = _LEADING_BLANK_LINES.sub("", sanitize(not_blank[-1]))
            self._output.text(text.rstrip() + "\n")


class TextPrinter(Printer):
    """Prints the agent's messages as they arrive, with a blank line between two messages."""

    def __init__(self, session: ClientSession, output: Output) -> None:
        super().__init__(session, output)
        self._texts: dict[str, list[str]] = {}
        """The pieces of each message, by its id."""
        self._message: str | None = None
        """The id of the message that is printed now."""
        self._pieces = Pieces()
        self._printed = False
        """A message was printed before, so that the next one needs a blank line above it."""
        self._begun = False
        """The current message has printed text, so that its blank lines count."""
        self._titles: dict[str, str] = {}
        self._failed: set[str] = set()

    def update(self, update: v2.SessionUpdate) -> None:
        if not self._session.in_turn:  # a replay or a greeting is not part of the reply
            return
        match update:
            case v2.AgentMessageChunk(content=block):
                before = self._texts.get(update.message_id) or [""]
                self._append(update.message_id, _block_text(block, before[-1]))
            case v2.AgentMessage(content=list(content)):
                self._replace(update.message_id, _text(content))
            case v2.AgentMessage(content=None):
                self._replace(update.message_id, "")
            case v2.ToolCallUpdate(tool_call_id=identity):
                self._call(self._session.state.tool_calls[identity], update.title)

    def _call(self, call: ToolCall, title: object) -> None:
        identity = call.tool_call_id
        if isinstance(title, str) and self._titles.get(identity) != title:
            self._titles[identity] = title
            self._output.report(f"[{one_line(call.kind)}] {one_line(title)}")
        if call.status == "failed" and identity not in self._failed:
            self._failed.add(identity)
            if not self._was_denied(identity):
                self._output.report("\n".join(_failure(call, self._session.state)))

    def _was_denied(self, tool_call_id: str) -> bool:
        """True if the line about the decision already gives the reason for the failure."""
        decisions = self._session.decisions
        return any(each.tool_call_id == tool_call_id and not each.allowed for each in decisions)

    def _replace(self, message_id: str, text: str) -> None:
        """Print a whole message, without its beginning if that was printed in pieces before."""
        before = "".join(self._texts.get(message_id, ()))
        if text.startswith(before):
            text = text[len(before) :]
        else:  # printed text cannot be taken back: the new text is printed below it
            self._texts[message_id] = []
            self._message = None
        self._append(message_id, text)

    def _append(self, message_id: str, text: str) -> None:
        if not text:
            return
        if message_id != self._message:
            self._end_message()
            self._message, self._begun = message_id, False
        self._texts.setdefault(message_id, []).append(text)
        self._print(self._pieces.add(text))

    def _print(self, text: str) -> None:
        if not self._begun:
            text = _LEADING_BLANK_LINES.sub("", text)
            if not text:
                return
            if self._printed:
                self._output.text("\n")
            self._begun = self._printed = True
        self._output.text(text)

    def _end_message(self) -> None:
        left = self._pieces.end()
        if left:
            self._print(left)
        self._output.end_line()

    def end(self, reply: Reply | None) -> None:
        self._end_message()
        super().end(reply)


def _text(content: Iterable[ContentBlock]) -> str:
    """A message as text; a block that is not text is described on a line of its own."""
    texts: list[str] = []
    for block in content:
        texts.append(_block_text(block, texts[-1] if texts else ""))
    return "".join(texts)


def _block_text(block: ContentBlock, before: str) -> str:
    if isinstance(block, TextContent):
        return block.text
    line = f"{described(block)}\n"
    return line if not before or before.endswith("\n") else f"\n{line}"


def _failure(call: ToolCall, session: Session) -> list[str]:
    """The title of a failed tool call, and the first lines of its output."""
    shown = entry_block(session, call)
    lines: list[str] = []
    for item in shown.items if call.content else ():
        match item:
            case TextItem():
                lines += item.text.splitlines()
            case DescribedItem():
                lines.append(item.text)
            case TerminalItem():  # the error is at the end
                lines += [*item.text.rstrip().splitlines()[-_FAILURE_LINES:], item.exit or ""]
    if not lines and call.raw_output is not None:
        raw = call.raw_output
        lines = (raw if isinstance(raw, str) else codec.encode(raw).decode()).splitlines()
    first = [each for each in map(one_line, lines) if each][:_FAILURE_LINES]
    title = one_line(call.title or "") or one_line(call.name or "") or one_line(call.kind)
    return [f"[failed] {title}", *(f"  {each[:_LONGEST_LINE]}" for each in first)]


PRINTERS: dict[Format, type[Printer]] = {
    "text": TextPrinter,
    "quiet": QuietPrinter,
    "updates": UpdatesPrinter,
    "json": Printer,
}
