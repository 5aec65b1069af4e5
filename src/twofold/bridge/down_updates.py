"""The updates of a version 2 agent, as a client of version 1 sees them.

Every update is lowered as it comes and goes out at once, but for terminal output and pieces of a
tool call's content: they are gathered for a moment, because all of it is sent each time. What
version 1 does not know never reaches it: it is left out and reported.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

from msgspec import UNSET

from twofold.bridge.down_session import DownSession, Question
from twofold.bridge.end import End
from twofold.bridge.losses import LossLog
from twofold.bridge.lowering import Lowering
from twofold.bridge.translation import Later, Translation
from twofold.convert.losses import carried
from twofold.convert.options import MODE
from twofold.peer.problems import Problem, Report
from twofold.rpc.frames import LineTooLong
from twofold.rpc.messages import Notification, RequestId
from twofold.wire import codec, v1, v2
from twofold.wire.base import Malformed

GATHER = 0.1
"""For how many seconds terminal output and pieces of content are gathered."""
CLOSED = 256
"""Of how many sessions that were closed nothing more is told."""


Special: TypeAlias = Callable[[Any, DownSession, Any], bool]
"""Looks at an update; true if nothing of it goes to the client."""


class DownUpdates(Translation):
    """Sessions and updates of a version 2 agent; `able` is what the client said that it shows."""

    special: ClassVar[Mapping[type, Special]]

    def __init__(
        self,
        client: End,
        agent: End,
        log: LossLog,
        report: Report,
        later: Later,
        able: v1.ClientCapabilities,
    ) -> None:
        super().__init__(client, agent, log, report, later)
        self.losses = log.losses
        """Where converters report."""
        self.sessions: dict[str, DownSession] = {}
        self.closed: dict[str, None] = {}
        """The sessions that the client was done with last."""
        self.asking: dict[RequestId, Question] = {}
        """Questions of the agent that wait for an answer, by their ids at the client."""
        self.merges = False
        """Whether the agent was seen to speak a draft that merges `_meta`."""
        self._able = able.session or v1.ClientSessionCapabilities()

    def session(self, session_id: str) -> DownSession:
        """A session, made when it is first heard of."""
        session = self.sessions.get(session_id)
        if session is None:
            self.check_sessions(len(self.sessions))
            head = codec.update_head(codec.encode(session_id))
            session = DownSession(session_id, head, self.lowering())
            self.sessions[session_id] = session
            self.closed.pop(session_id, None)
        return session

    def lowering(self) -> Lowering:
        """For a session of which the client has been shown nothing."""
        options = self._able.config_options
        lowering = Lowering(
            self.losses,
            notices=bool(self._able.notices),
            compactions=bool(self._able.compaction),
            booleans=bool(options and options.boolean),
        )
        lowering.merges = self.merges
        return lowering

    # ---- what comes

    def from_agent(self, line: bytes | LineTooLong) -> None:
        """A line of the agent; updates are most of them, and are read in one go."""
        if isinstance(line, bytes):
            note = codec.decode_update_line_v2(line)
            if note is not None:
                self.update(note)
                return
        super().from_agent(line)

    def updated(self, notification: Notification) -> None:
        """An update that could not be read in one go."""
        faults: list[Any] = []
        note = codec.decode(notification.params or b"{}", v2.UpdateSessionNotification, faults)
        for fault in faults:
            text = f"The agent sent something malformed at {fault.path}: {fault.reason}"
            self.report(Problem("update", text, note.session_id))
        self.update(note)

    def update(self, note: v2.UpdateSessionNotification) -> None:
        """Tell the client an update, as far as it can be told."""
        session = self.sessions.get(note.session_id)
        if session is None:
            if note.session_id in self.closed:
                self.log.tell("session/update", "", "the session was closed")
                return
            try:
                session = self.session(note.session_id)
            except Malformed as error:
                self.not_passed_on("session/update", self.agent, error)
                return
        if session.settling is not None:
            session.settling.broken()
        special = self.special.get(type(note.update))
        try:
            if special is None or not special(self, session, note.update):
                self._lower(session, note)
        except Exception as error:
            self.not_passed_on("session/update", self.agent, error)
        if self.losses:
            self.log.flush("session/update")

    # ---- what goes out

    def _lower(self, session: DownSession, note: v2.UpdateSessionNotification) -> None:
        lowered = session.lowering.update(note.update)
        session.spoke = True
        if note.meta is UNSET and note.unknown is UNSET:
            send, head = self.client.end.send, session.head
            for each in lowered:
                send(head + codec.encode(each) + b"}}\n")
        else:
            beside = carried(note, v1.SessionNotification, self.losses, "")
            for each in lowered:
                told = v1.SessionNotification(session.session_id, each, **beside)
                self.notify(self.client, "session/update", told)
        if session.lowering.gathered and session.gathering is None:
            session.gathering = self.later(GATHER, lambda: self.flush(session))

    def flush(self, session: DownSession) -> None:
        """Send what was gathered meanwhile."""
        if session.gathering is not None:
            session.gathering()
            session.gathering = None
        for update in session.lowering.flush():
            self.client.end.send(session.head + codec.encode(update) + b"}}\n")

    def finish(self, session: DownSession) -> None:
        """Tell all that there is to tell: a result follows."""
        self.flush(session)
        for loss in session.lowering.unsaid():
            self.log.tell("session/update", loss.path, loss.reason)

    def forget(self, session: DownSession) -> None:
        """The client is done with a session, whatever the agent still says of it."""
        self.finish(session)
        self.sessions.pop(session.session_id, None)
        self.closed[session.session_id] = None
        if len(self.closed) > CLOSED:
            del self.closed[next(iter(self.closed))]

    def _settle_now(self, session: DownSession) -> None:
        """Wait no longer for the rest of a replay."""
        if session.settling is not None:
            session.settling.end()

    def know_options(self, session: DownSession, options: list[v2.SessionConfigOption]) -> None:
        """What there is to set, and which of it is the mode."""
        session.options = options
        for option in options:
            if isinstance(option, v2.SessionConfigSelect) and option.category == MODE:
                session.mode_option = option.config_id
                return
