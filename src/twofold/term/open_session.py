"""One session that the terminal client has open: it sends what a person enters, in order.

The input line is there all the time, and what is entered during a turn is queued. Escape or Ctrl-C
cancels a turn, a second Ctrl-C leaves. What slash commands do is in `command_actions`.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from twofold.client.known_sessions import NotReopened
from twofold.client.launch import RecentStderr
from twofold.client.mentions import missing, no_file, parts_of
from twofold.client.prompt_blocks import Part
from twofold.client.prompting import Reply
from twofold.client.session import ClientSession
from twofold.errors import ConnectionEnded, LocalError, NotSupported
from twofold.host.client_keys import Bindings
from twofold.rpc.errors import RequestFailed
from twofold.term.attachments import attachment_lines
from twofold.term.images import Pictures
from twofold.term.input.clipboard import clipboard_image
from twofold.term.input.editor import Editor, Entered
from twofold.term.input.external_editor import edited
from twofold.term.input.keys import ESCAPE, Keyboard
from twofold.term.input.questions import PendingQuestion, Questions
from twofold.term.input.slash_commands import (
    SlashCommand,
    check_command,
    next_mode,
    parse_command,
    text_to_send,
)
from twofold.term.lines import all_rows, line
from twofold.term.live_cards import user_lines
from twofold.term.session_display import SessionDisplay
from twofold.term.status import duration
from twofold.term.terminal_writer import TerminalWriter
from twofold.term.user_commands import UserCommands, parse_user_command
from twofold.text import one_line, sanitize
from twofold.view.outline import STOP_REASONS
from twofold.wire.content import ContentBlock, TextContent

GIVE_UP: Final = 10.0
"""How many seconds an agent has to end a cancelled turn."""

T = TypeVar("T")


class Leave(Exception):
    """The person leaves, whatever is going on."""


class Sessions(Protocol):
    """What a session asks of the client, which may have several sessions open."""

    async def begin(self) -> None:
        """Begin another session, and show it."""

    async def resume(self, session_id: str) -> None:
        """Resume a session of the agent, and show it."""

    async def pick(self) -> None:
        """Have the person choose a session, and show it."""

    async def close(self) -> None:
        """Close the session that is shown."""

    def rename(self, title: str) -> None:
        """Give the session that is shown a title."""

    def switch(self, number: int) -> None:
        """Show the open session of this number, counted from 1; 0 is the next one."""

    def leaves_work(self) -> str:
        """What is going on in other sessions, if it would be lost by leaving."""

    verbose: bool
    """Whether the agent's standard error, every problem and every loss are shown."""


RunCommand: TypeAlias = "Callable[[SlashCommand, OpenSession], Awaitable[None]]"
"""Runs a command of the client."""


class OpenSession:
    """Sends what a person enters to one session, one prompt after the other."""

    def __init__(
        self,
        session: ClientSession,
        writer: TerminalWriter,
        keyboard: Keyboard,
        editor: Editor,
        questions: Questions,
        stderr: RecentStderr,
        cwd: Path,
        sessions: Sessions,
        run_command: RunCommand,
    ) -> None:
        self.session = session
        self.sessions = sessions
        self.cwd = cwd
        self.first_words = ""
        """What the person sent first, on one line."""
        self.title = ""
        """The title that the person gave it."""
        self.on_first_prompt: Callable[[], None] = lambda: None
        self.on_work: Callable[[], None] = lambda: None
        """Called when a turn or a command of the person's begins, and when it ends."""
        self.on_question: Callable[[PendingQuestion], None] = lambda asked: None
        """Called once for each question that is asked."""
        self.on_rest: Callable[[str, float], None] = lambda words, seconds: None
        """Called when a turn has ended and none follows: how, and after how many seconds."""
        self.questions = questions
        self._run_command = run_command
        self._stderr = stderr
        self._keyboard = keyboard
        self._editor = editor
        self.display = SessionDisplay(session, writer, editor, questions, Pictures(os.environ))
        self._commands = UserCommands(cwd, self.display, self._commands_changed)
        self.display.pending = lambda: self._commands.rows
        self.display.held_up = lambda: self._commands.running
        self._mode_lock = asyncio.Lock()
        self._draft = ""
        self._has_input = False
        self._reading: asyncio.Future[list[ContentBlock]] | None = None
        self._queue: list[Entered] = []
        self._wake = asyncio.Event()
        self._ended = False
        self._left_turn = False
        self._stopping: asyncio.Task[None] | None = None
        self._asked: PendingQuestion | None = None
        self._busy_since: float | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.display.queue = self._queue
        questions.on_change = self._questions_changed
        questions.has_typed_ahead = lambda: bool(self._editor.text) or self._editor.busy
        questions.on_reason = self._reason_changed

    @property
    def bindings(self) -> Bindings:
        """Which key does what."""
        return self._editor.bindings

    @property
    def recent_stderr(self) -> list[str]:
        """The last lines of the agent's standard error, safe to show; often none."""
        return self._stderr.lines

    # ---- on the screen, or not

    def take_input(self) -> None:
        """Have the input line: what is entered from now on is for this session."""
        editor = self._editor
        editor.on_enter = self._entered
        editor.on_leave = self._leave_or_warn
        editor.on_change = self.display.redraw_soon
        editor.on_edit_outside = self._edit_outside
        editor.on_paste_image = lambda: self._spawn(self.paste_image())
        editor.on_switch = self.sessions.switch
        editor.holds_enter = lambda: self.questions.in_burst
        editor.take_back = self._take_back
        editor.put(self._draft)
        self._has_input = True

    def leave_input(self) -> None:
        """Keep what is in the input line until this session has it again."""
        self.questions.leave_reason()
        self._draft = self._editor.text
        self._has_input = False

    # ---- prompts

    def print_history(self, *, printed: bool = False) -> None:
        """Print what the agent sent before the first prompt, unless it was printed before."""
        self.display.live_area.show_everything()
        rows = self.display.live_area.settle(self.display.width).settled
        if not printed:
            self.display.print(rows)

    async def run(self, start: str | None = None) -> None:
        """Send prompts until the person leaves.

        Args:
            start: Sent first, if there is one.

        Raises:
            Leave: The person leaves in the middle of something.
        """
        self._questions_changed()  # one may have been asked before there was a session
        try:
            if start is not None:
                await self._send(Entered(start, shown=start), typed=False)
            while (entered := await self._next()) is not None:
                await self._send(entered)
        finally:
            for task in self._tasks:
                task.cancel()
            await self._commands.close()

    async def _next(self) -> Entered | None:
        """Wait for the next text to send; None if the person leaves."""
        while (not self._queue or self._commands.running) and not self._ended:
            self.display.sending = False
            self.display.redraw_soon()
            self._wake.clear()
            await self._unless_leaving(asyncio.ensure_future(self._wake.wait()))
        return self._queue.pop(0) if not self._ended else None

    def _entered(self, entered: Entered) -> None:
        """Queue a text; during a turn commands of the client and the person's are run at once."""
        if entered.is_reason:
            self._reject(entered)
        elif self.display.working and self._is_command(entered):
            self._spawn(self._send(entered))
        else:
            self._put_in_queue(len(self._queue), entered)

    def _put_in_queue(self, place: int, entered: Entered) -> None:
        self._queue.insert(place, entered)
        self.display.sending = True
        self._wake.set()
        self.display.redraw_soon()

    def _reject(self, reason: Entered) -> None:
        """Reject the question, and send the reason next: the answer itself has no field for it."""
        if self.questions.reject(reason.text.strip()):
            self._put_in_queue(sum(entered.is_reason for entered in self._queue), reason)
        else:  # the question is gone
            self._put_before([reason.shown])

    def _reason_changed(self) -> None:
        if self.questions.asks_reason:
            self._editor.begin_reason()
        else:
            self._editor.end_reason()

    def _is_command(self, entered: Entered) -> bool:
        """Whether a text is not for the agent, or is wrong in a way that can be shown at once."""
        try:
            if parse_user_command(entered.text, entered.pasted) is not None:
                return True
            if parse_command(entered.text, self.session.state) is not None:
                return True
            check_command(entered.text, self.session.state)
        except LocalError:
            return True
        return False

    def _questions_changed(self) -> None:
        asked = self.questions.current
        if asked is not None and asked is not self._asked:
            self.on_question(asked)
        self._asked = asked
        self.display.redraw_soon()

    def _commands_changed(self) -> None:
        self._wake.set()
        self.display.redraw_soon()

    def _take_back(self) -> str:
        """Remove the last queued text, so that it can be edited."""
        return self._queue.pop().shown if self._queue else ""

    def take_all_back(self, *, reasons: bool = True) -> None:
        """Put what is queued back into the input line: the turn did not end as it should."""
        back = [entered for entered in self._queue if reasons or not entered.is_reason]
        if back:
            self._queue[:] = [entered for entered in self._queue if entered not in back]
            self._put_before([entered.shown for entered in back])

    def _put_before(self, texts: Sequence[str]) -> None:
        """Put texts before what is in the input line, or is kept for it."""
        if self._has_input:
            self._editor.put_before(texts)
        else:
            self._draft = "\n".join([*texts, *filter(None, [self._draft])])

    async def _send(self, entered: Entered, *, typed: bool = True) -> None:
        """Run a slash command, or send the text to the agent."""
        text = entered.text
        self.display.print_lines(user_lines([TextContent(text.strip())]))
        try:
            reason = text.strip() if entered.is_reason else ""
            own = parse_user_command(text, entered.pasted) if typed and not reason else None
            if own is not None:
                running = asyncio.ensure_future(self._commands.run(own))
                self.on_work()
                await self._unless_leaving(running)
                self.on_work()
                running.result()
                return
            command = parse_command(text, self.session.state) if not reason else None
            if command is not None:
                await self._run_command(command, self)
                return
            if typed and not reason:  # at the start the agent may not have sent its commands yet
                check_command(text, self.session.state)
            words = reason or text_to_send(text, self.session.state)
            parts = parts_of(words, self.cwd, entered.pasted, entered.images)
            attached = await self._attach(parts)
            if attached is None:
                self.display.print_lines([line("Not sent.", "yellow")])
                self._put_before([entered.shown])
                return
            for mention in missing(words, self.cwd, entered.pasted):
                self.display.print_lines([line(no_file(mention), "yellow")])
            await self._turn(words, attached)
        except (LocalError, RequestFailed, NotReopened) as error:
            self.display.print_error(error)

    async def _attach(self, parts: Sequence[Part]) -> Sequence[Part] | None:
        """Read the files of a prompt, and print what is attached below it.

        Returns:
            The blocks to send; None if the person did not want to wait for them.
        """
        if all(isinstance(part, str) for part in parts):
            return parts
        reading = asyncio.ensure_future(asyncio.to_thread(self.session.prompt_blocks, *parts))
        self._reading = reading
        try:
            await self._unless_leaving(reading)
        finally:
            self._reading = None
        if reading.cancelled():
            return None
        able = self.session.prompt_capabilities
        attached = attachment_lines(parts, reading.result(), able, self.cwd)
        self.display.print(all_rows(attached, self.display.width))
        return reading.result()

    async def paste_image(self) -> None:
        """Attach the image in the clipboard to the input line."""
        try:
            if not self.session.prompt_capabilities.image:
                raise NotSupported(
                    "The agent takes no images. A file that you mention with @ is sent as a link."
                )
            mark = self._editor.image_mark(await clipboard_image(os.environ))
        except LocalError as error:
            self.display.print_error(error)
            return
        if self._has_input:
            self._editor.insert(mark)
        else:  # another session is shown by now
            self._draft += mark

    # ---- turns

    async def _turn(self, words: str, parts: Sequence[Part]) -> None:
        if not self.first_words:
            self.first_words = one_line(words)
            self.on_first_prompt()
        attached = self._commands.take_attached()
        texts = [each.text for each in attached]
        if shown := [line(each.words, "dim", "  └ ") for each in attached]:
            self.display.print(all_rows(shown, self.display.width))
        # an echo of these words is not drawn again
        self.display.live_area.begin_turn("".join([words, *texts]))
        self._stderr.forget()
        reply: Reply | None = None
        failed: list[str] = []
        self.display.begin_work()
        self.on_work()
        if self._busy_since is None:
            self._busy_since = asyncio.get_running_loop().time()
        turn = asyncio.ensure_future(self.session.prompt(*parts, *texts))
        try:
            await self._unless_leaving(turn)
            reply = turn.result()
        except RequestFailed as error:
            stderr = await self._stderr.settled()
            failed = [str(error), *(stderr if not self.sessions.verbose else ())]
        except ConnectionEnded:
            self._rest("The agent has ended")
            raise
        except LocalError:  # it was not sent
            self._commands.attached = attached
            raise
        finally:
            stopped, self._stopping = self._stopping is not None, None
            self.display.end_work()
            self.on_work()
        if failed:  # printed below the tool call that failed
            self.display.print_lines([line(sanitize("\n".join(failed)), "red")])
        if reply is not None:
            self._print_end(reply)
        if failed or reply is None or reply.stop_reason == "cancelled":
            # agents may cancel a turn because of a rejection: then its reason is still wanted
            self.take_all_back(reasons=bool(failed) or stopped)
        if stopped:
            self._busy_since = None  # the person is there
        elif not self._queue:
            self._rest("The turn has failed" if failed else "The turn has ended")

    def _rest(self, what: str) -> None:
        """The agent works no more: all turns without a pause between them count as one."""
        since, self._busy_since = self._busy_since, None
        if since is not None:
            seconds = asyncio.get_running_loop().time() - since
            self.on_rest(f"{what} after {duration(int(seconds))}.", seconds)

    def _print_end(self, reply: Reply) -> None:
        if reply.given_up:
            words = "The agent did not end the cancelled turn. The client no longer waits for it."
            self.display.print_lines([line(words, "yellow")])
        elif reply.stop_reason != "end_turn":
            reason = STOP_REASONS.get(reply.stop_reason) or one_line(reply.stop_reason)
            self.display.print_lines([line(f"The turn ended: {reason}.", "yellow")])

    async def _unless_leaving(self, work: asyncio.Future[T]) -> None:
        """Wait for the work; raises `Leave` if the person leaves first."""
        try:
            both: set[asyncio.Future[Any]] = {work, self._leaving}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._leaving.done() and not work.done():
                raise Leave
        finally:
            if not work.done():
                work.cancel()

    # ---- keys

    def leave(self) -> None:
        """Leave, whatever is going on."""
        if not self._leaving.done():
            self._leaving.set_result(None)

    def end(self) -> None:
        """Leave when this turn has ended, or at once if there is none."""
        self._ended = True
        self._commands.stop()
        self._wake.set()

    def _leave_or_warn(self) -> None:
        """Leave between two turns; during one the turn has to be cancelled first."""
        work = "" if self.display.working else self.sessions.leaves_work()
        if not self.display.working and (not work or self._left_turn):
            self.end()
        elif self.display.working and (self._left_turn or self._stopping is not None):
            self.leave()
        else:
            self._left_turn = True
            words = work or "The agent is working. Esc cancels the turn,"
            self.display.print_lines([line(f"{words} Ctrl-D again leaves.", "yellow")])

    def pressed(self, key: str, alone: bool) -> bool:
        """Handle a key; returns False if it is for the input line."""
        action = self.bindings.action(key)
        if key in ("c-c", "c-z") or action in ("unfold", "next-session", "next-mode"):
            self.questions.note_key()
        if key != "c-d":
            self._left_turn = False
        if self._reading is not None and (key == "c-c" or (key == ESCAPE and alone)):
            self._reading.cancel()
        elif key == "c-c" and self._commands.stop():
            pass
        elif key == "c-c" and self.display.working:
            self._cancel() if self._stopping is None else self.leave()
        elif key == "c-c" and self._queue:
            self.take_all_back()  # it is not sent yet
        elif key == "c-z":
            self._suspend()
        elif action == "next-session":
            self.sessions.switch(0)
        elif action == "next-mode" and not self._editor.busy:
            self._spawn(self._choose_next_mode())
        elif action == "next-mode" or key == "s-tab":
            return False
        elif action == "unfold" and self.questions.unfold():
            pass
        elif action == "unfold":
            self.display.live_area.unfolded = not self.display.live_area.unfolded
            self.display.live_area.redraw()
            self.display.redraw_soon()
        elif key == ESCAPE and alone:
            return self._escape()
        elif key == "c-c":
            return False
        else:
            self.session.flush_changes()  # what is answered must be on the screen
            return self._offer(key, alone=alone)
        return True

    def _offer(self, key: str, *, alone: bool = True) -> bool:
        """Offer a key to the question; a hint must not hide the status that it changes."""
        taken = self.questions.press(key, alone=alone)
        if taken:
            self._editor.forget_hint()
        return taken

    def _escape(self) -> bool:
        """Reject the question, or cancel the turn; returns False if it is for the input line."""
        if self.questions.asks_reason and not self._editor.busy:
            self.questions.leave_reason()
            return True
        if self.questions.current is not None and not self._editor.busy:
            self.session.flush_changes()
            self._offer(ESCAPE)
            return True
        self.questions.note_key()
        if self._editor.busy or not (self.display.working or self._commands.running):
            return False
        if not self.display.working:
            self._commands.stop()
        elif self._stopping is None:
            self._cancel()
        return True

    def _cancel(self) -> None:
        self._stopping = asyncio.create_task(self._stop())

    async def _stop(self) -> None:
        """Cancel the turn, and mark what is open as cancelled."""
        cancelled = asyncio.ensure_future(self.session.cancel(GIVE_UP))
        await asyncio.sleep(0)
        if self.display.working:
            self.session.flush_changes()  # updates from before are not marked
            self.display.cancelling = True
            self.display.live_area.mark_cancelled()
            self.display.redraw_soon()
        await cancelled

    async def _choose_next_mode(self) -> None:
        """Choose the mode after the current one; the status line shows it."""
        try:
            async with self._mode_lock:  # a second key begins with what the first one has set
                await self.session.set_mode(next_mode(self.session.state))
        except (LocalError, RequestFailed) as error:
            self.display.print_error(error)

    def _suspend(self) -> None:
        with self.display.suspended():
            stop_process(self._keyboard)

    def _edit_outside(self) -> None:
        self._spawn(self.edit())

    async def edit(self) -> None:
        """Edit the input line in the editor of the environment; the agent goes on meanwhile."""
        try:
            with self.display.suspended(), self._keyboard.suspended():
                text = await edited(self._editor.full_text, os.environ)
        except LocalError as error:
            self.display.print_error(error)
        else:
            self._editor.put_outside(text)

    def _spawn(self, work: Coroutine[object, object, object]) -> None:
        async def unless_leaving() -> None:
            with suppress(Leave):  # `run` raises it
                await work

        task = asyncio.create_task(unless_leaving())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def stop_process(keys: Keyboard) -> None:
    """Stop this process until the shell continues it; the agent goes on meanwhile."""
    with keys.suspended():
        os.kill(0, signal.SIGTSTP)  # the process group, as the terminal does it
