"""Whom the client calls and how: which sequence, when, how often, and with whose words."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.support.idle_clock import simulated
from tests.support.screens import MemoryTerminal, memory_writer
from tests.support.settings import EVIL
from twofold.host.settings import NotificationSettings
from twofold.term.input.focus import AWAY, Presence
from twofold.term.notifications import Notifier, escape_of, protocol_of

# ---- how ---------------------------------------------------------------------------------------

XTERM = {"TERM": "xterm-256color"}
PROTOCOLS = [
    (XTERM, "osc 777"),
    ({"TERM": "xterm-kitty"}, "osc 9"),
    ({"TERM": "xterm-ghostty"}, "osc 9"),
    ({"TERM": "foot"}, "osc 777"),
    ({"TERM": "rxvt-unicode-256color", "KITTY_WINDOW_ID": "1"}, "osc 777"),
    ({**XTERM, "TERM_PROGRAM": "iTerm.app"}, "osc 9"),
    ({**XTERM, "TERM_PROGRAM": "WezTerm"}, "osc 9"),
    ({**XTERM, "TERM_PROGRAM": "ghostty"}, "osc 9"),
    ({**XTERM, "TERM_PROGRAM": "vscode", "LC_TERMINAL": "iTerm2"}, "osc 777"),
    ({**XTERM, "LC_TERMINAL": "iTerm2"}, "osc 9"),
    ({**XTERM, "KITTY_WINDOW_ID": "1"}, "osc 9"),
    ({**XTERM, "WT_SESSION": "x"}, "osc 9"),
    ({**XTERM, "TMUX": "/tmp/tmux-0/default,1,0"}, None),
    ({**XTERM, "STY": "1.pts"}, None),
    ({**XTERM, "TERM_PROGRAM": "tmux"}, None),
    ({"TERM": "tmux-256color"}, None),
    ({"TERM": "screen"}, None),
    ({"TERM": "linux"}, None),
    ({"TERM": "dumb"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("environment", "protocol"), PROTOCOLS)
def test_the_environment_shows_how_a_terminal_takes_notifications(
    environment: Mapping[str, str], protocol: str | None
) -> None:
    assert protocol_of(environment) == protocol


def test_a_notification_is_one_text_or_a_title_and_a_text() -> None:
    assert escape_of("osc 9", "claude in ~", "Done") == "\x1b]9;claude in ~: Done\x1b\\"
    assert escape_of("osc 777", "claude", "Done") == "\x1b]777;notify;claude;Done\x1b\\"


@pytest.mark.parametrize("words", ["a;b\x1b\\c\x07\n\x9c;d", EVIL, "x" * 100_000])
def test_words_of_an_agent_cannot_leave_a_notification(words: str) -> None:
    made = escape_of("osc 777", words, words)
    inside = made.removeprefix("\x1b]777;notify;").removesuffix("\x1b\\")
    assert inside.isprintable()
    assert inside.count(";") == 1
    assert len(made) < 250
    text = escape_of("osc 9", words, words)
    assert text.removeprefix("\x1b]9;").removesuffix("\x1b\\").isprintable()


# ---- when --------------------------------------------------------------------------------------

BELL = NotificationSettings()


class Scene:
    """A notifier on a terminal in memory."""

    def __init__(
        self,
        settings: NotificationSettings = BELL,
        environment: Mapping[str, str] = XTERM,
        *,
        focused: bool | None = None,
    ) -> None:
        self.terminal: MemoryTerminal
        self.writer, self.terminal = memory_writer()
        self.writer.show([], [(("> ", ""),)])
        self.presence = Presence(asyncio.get_running_loop().time())
        self.presence.focused = focused
        self.waits = True
        self.notifier = Notifier(settings, self.writer, self.presence, environment, "claude")

    def ask(self) -> None:
        self.notifier.note_question(lambda: "Run make" if self.waits else None)

    @property
    def bells(self) -> int:
        return self.terminal.written.count(b"\a")


@simulated
async def test_a_question_calls_someone_whose_terminal_has_lost_the_focus() -> None:
    scene = Scene(focused=False)
    scene.ask()
    assert scene.bells == 1
    await asyncio.sleep(1000)
    assert scene.bells == 1


@simulated
async def test_nobody_is_called_who_is_at_the_terminal() -> None:
    scene = Scene(focused=True)
    scene.ask()
    scene.notifier.note_end("Done.", 1000)
    await asyncio.sleep(1000)
    assert scene.bells == 0


@simulated
async def test_without_reports_a_question_calls_after_a_time_without_a_key() -> None:
    scene = Scene()
    await asyncio.sleep(AWAY / 2)
    scene.ask()
    await asyncio.sleep(AWAY / 4)
    scene.presence.note_key(asyncio.get_running_loop().time())
    await asyncio.sleep(AWAY - 0.1)
    assert scene.bells == 0
    await asyncio.sleep(0.2)
    assert scene.bells == 1
    await asyncio.sleep(1000)
    assert scene.bells == 1


@simulated
async def test_a_question_that_was_answered_meanwhile_calls_nobody() -> None:
    scene = Scene()
    scene.ask()
    scene.waits = False
    await asyncio.sleep(1000)
    assert scene.bells == 0


@simulated
async def test_a_report_of_the_focus_counts_at_once() -> None:
    scene = Scene()
    scene.ask()
    scene.presence.note_focus(True)
    await asyncio.sleep(1000)
    assert scene.bells == 0


@pytest.mark.parametrize(
    ("seconds", "focused", "bells"),
    [(9.9, False, 0), (10, False, 1), (10, True, 0), (10, None, 1)],
)
def test_the_end_of_a_turn_calls_if_it_took_long(
    seconds: float, focused: bool | None, bells: int
) -> None:
    @simulated
    async def played() -> None:
        scene = Scene(focused=focused)
        await asyncio.sleep(AWAY)
        scene.notifier.note_end("The turn has ended.", seconds)
        assert scene.bells == bells

    played()


@simulated
async def test_the_end_of_a_turn_does_not_call_someone_who_has_just_typed() -> None:
    scene = Scene()
    await asyncio.sleep(100)
    scene.presence.note_key(asyncio.get_running_loop().time())
    scene.notifier.note_end("The turn has ended.", 100)
    assert scene.bells == 0


@simulated
async def test_an_agent_that_asks_again_and_again_rings_now_and_then() -> None:
    scene = Scene(focused=False)
    for _ in range(100):
        scene.ask()
        await asyncio.sleep(0.1)
    assert scene.bells == 4


@simulated
async def test_another_program_that_has_the_terminal_is_left_alone() -> None:
    scene = Scene(focused=False)
    scene.writer.leave()
    before = scene.terminal.written
    scene.ask()
    assert scene.terminal.written == before


@pytest.mark.parametrize(
    ("bell", "desktop", "written"),
    [
        (True, False, "\a"),
        (False, True, "\x1b]777;notify;claude;A question waits: Run make\x1b\\"),
        (True, True, "\x1b]777;notify;claude;A question waits: Run make\x1b\\\a"),
        (False, False, ""),
    ],
)
def test_the_settings_choose_the_bell_and_the_desktop(
    bell: bool, desktop: bool, written: str
) -> None:
    @simulated
    async def played() -> None:
        scene = Scene(NotificationSettings(bell=bell, desktop=desktop), focused=False)
        before = scene.terminal.written
        scene.ask()
        assert scene.terminal.written == before + written.encode()

    played()


@simulated
async def test_in_a_multiplexer_only_the_bell_is_left() -> None:
    scene = Scene(NotificationSettings(desktop=True), {"TERM": "tmux-256color"}, focused=False)
    before = scene.terminal.written
    scene.ask()
    assert scene.terminal.written == before + b"\a"
