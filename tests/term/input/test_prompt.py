"""Where a person types: keys in, text out, and what is on the screen meanwhile."""

import asyncio
import io
import re
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyte
import pyte.modes
import pytest
from prompt_toolkit.application import get_app
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from tests.support.settings import EVIL, MODES, SET, WEB
from twofold.session import Session
from twofold.term.input.history import keep_entry, read_entries
from twofold.term.input.prompt import (
    HOW_TO_LEAVE,
    NOT_SENT,
    InlineOutput,
    Prompt,
    in_encoding,
    status_line,
)
from twofold.wire import v2
from twofold.wire.shared import SessionInfoUpdate, UsageUpdate

ENTER, ALT_ENTER, CTRL_J, CTRL_C, CTRL_D = "\r", "\x1b\r", "\n", "\x03", "\x04"
UP, TAB, BACKSPACE, LEFT = "\x1b[A", "\t", "\x7f", "\x1b[D"
ROWS = 12
LONG = "\n".join(["a line"] * 2000)


def pasted(text: str) -> str:
    """A paste as a terminal tells it."""
    return f"\x1b[200~{text}\x1b[201~"


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        yield pipe


@pytest.fixture
def prompt(keys: PipeInput, tmp_path: Path) -> Prompt:
    return Prompt(lambda: SET, tmp_path, input=keys, output=DummyOutput())


def answer(prompt: Prompt, keys: PipeInput, typed: str, prefill: str = "") -> str | None:
    keys.send_text(typed)
    return asyncio.run(prompt.ask(prefill))


# ---- keys ------------------------------------------------------------------------------------

TYPED: dict[str, tuple[str, str | None]] = {
    "enter sends": (f"hello{ENTER}", "hello"),
    "enter on nothing does nothing": (f"{ENTER}{ENTER} {ENTER}\x15hi{ENTER}", "hi"),
    "alt-enter begins a line": (f"a{ALT_ENTER}b{ENTER}", "a\nb"),
    "ctrl-j begins a line": (f"a{CTRL_J}b{ENTER}", "a\nb"),
    "a backslash begins a line": (f"a\\{ENTER}b{ENTER}", "a\nb"),
    "a backslash within a line stays": (f"a\\b{ENTER}", "a\\b"),
    "a backslash behind the cursor stays": (f"a\\{LEFT}{ENTER}", "a\\"),
    "a line is not indented like the one before": (f"  a{CTRL_J}b{ENTER}", "  a\nb"),
    "ctrl-c clears": (f"hello{CTRL_C}bye{ENTER}", "bye"),
    "ctrl-c on an empty line leaves nothing yet": (f"{CTRL_C}hi{ENTER}", "hi"),
    "ctrl-c twice leaves": (CTRL_C * 2, None),
    "ctrl-c clears before it leaves": (f"hello{CTRL_C * 3}", None),
    "ctrl-c is forgotten when something is typed": (f"{CTRL_C}x{CTRL_C}{CTRL_C}y{ENTER}", "y"),
    "ctrl-d leaves": (CTRL_D, None),
    "ctrl-d on a line deletes": (f"ab{LEFT}{CTRL_D}{ENTER}", "a"),
    "the end of the input leaves": ("", None),
    "a byte that is no character": (f"a\udc80b{ENTER}", "a\ufffdb"),
}


@pytest.mark.parametrize(("typed", "sent"), TYPED.values(), ids=list(TYPED))
def test_keys_do_what_they_say(
    typed: str, sent: str | None, prompt: Prompt, keys: PipeInput
) -> None:
    if typed == "":
        keys.close()
        assert asyncio.run(prompt.ask()) is None
        return
    keys.send_bytes(typed.encode("utf-8", "surrogateescape"))
    assert asyncio.run(prompt.ask()) == sent


def test_an_enter_that_belongs_to_something_else_sends_nothing(
    prompt: Prompt, keys: PipeInput
) -> None:
    heard: list[bool] = []
    prompt.on_key = lambda: heard.append(True)
    prompt.holds_enter = lambda: len(heard) < 7
    assert answer(prompt, keys, f"es{ENTER}{ENTER}x{ENTER}") == "esx"


def test_what_was_typed_before_stands_in_the_input(prompt: Prompt, keys: PipeInput) -> None:
    assert answer(prompt, keys, f" world{ENTER}", "hello") == "hello world"


@pytest.mark.parametrize(
    ("prefill", "sent"), [("\udcc3\udcbc", "ü!"), ("\udcfc", "\ufffd!"), ("\ud800a", "\ufffda!")]
)
def test_bytes_of_another_encoding_become_what_they_are_or_nothing(
    prefill: str, sent: str, prompt: Prompt, keys: PipeInput
) -> None:
    assert answer(prompt, keys, f"!{ENTER}", prefill) == sent


def test_one_asks_as_often_as_one_likes(prompt: Prompt, keys: PipeInput) -> None:
    async def thrice() -> list[str | None]:
        return [await prompt.ask() for _ in range(3)]

    keys.send_text(f"one{ENTER}two{ENTER}{CTRL_C}{CTRL_C}")
    assert asyncio.run(thrice()) == ["one", "two", None]


def test_what_stood_in_the_input_can_be_asked_for_again(prompt: Prompt, keys: PipeInput) -> None:
    async def interrupted() -> str | None:
        asking = asyncio.ensure_future(prompt.ask())
        await until(lambda: prompt.typed.endswith("]"))
        asking.cancel()
        await asyncio.wait([asking])
        keys.send_text(f" end{ENTER}")
        return await prompt.ask(prompt.typed)

    keys.send_text("see " + pasted(LONG))
    assert asyncio.run(interrupted()) == f"see {LONG} end"


# ---- pastes ----------------------------------------------------------------------------------

PASTES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "a short paste": (pasted("a\r\nb\rc") + ENTER, "a\nb\nc", ()),
    "a long paste": (f"see {pasted(LONG)} there{ENTER}", f"see {LONG} there", (LONG,)),
    "two": (f"{pasted(LONG)}{pasted(LONG + '!')}{ENTER}", f"{LONG}{LONG}!", (LONG, LONG + "!")),
    "one deleted": (f"a{pasted(LONG)}{BACKSPACE}b{ENTER}", "ab", ()),
    "a mark that was typed before": (
        *(f"[pasted #1: 2,000 lines]{pasted(LONG)}{ENTER}", f"[pasted #1: 2,000 lines]{LONG}"),
        (LONG,),
    ),
}


@pytest.mark.parametrize(("typed", "sent", "long"), PASTES.values(), ids=list(PASTES))
def test_a_paste_is_sent_in_full(
    typed: str, sent: str, long: tuple[str, ...], prompt: Prompt, keys: PipeInput
) -> None:
    assert answer(prompt, keys, typed) == sent
    assert prompt.pasted == long


def test_a_long_paste_stands_in_the_input_as_a_mark(prompt: Prompt, keys: PipeInput) -> None:
    async def shown() -> str:
        asking = asyncio.ensure_future(prompt.ask())
        await until(lambda: prompt.typed != "")
        text = prompt.typed
        keys.send_text(ENTER)
        assert await asking == LONG
        return text

    keys.send_text(pasted(LONG))
    assert asyncio.run(shown()) == "[pasted #1: 2,000 lines]"


def test_a_long_text_that_was_typed_before_is_a_mark_too(prompt: Prompt, keys: PipeInput) -> None:
    assert answer(prompt, keys, f"!{ENTER}", LONG) == f"{LONG}!"
    assert prompt.pasted == (LONG,)


# ---- history ---------------------------------------------------------------------------------


def asked(path: Path | None, typed: str) -> str | None:
    """The answer of a new client with this history."""
    with create_pipe_input() as pipe:
        prompt = Prompt(lambda: SET, Path("/"), path, input=pipe, output=DummyOutput())

        async def press(key: str) -> None:
            before = prompt.typed
            pipe.send_text(key)
            await until(lambda: not get_app().is_running or prompt.typed != before)

        async def typing() -> str | None:
            asking = asyncio.ensure_future(prompt.ask())
            await until(lambda: get_app().is_running)
            await drawn()  # what was sent before is loaded then
            for key in typed.split("|"):
                await press(key)
            return await asking

        return asyncio.run(typing())


async def until(true: Callable[[], bool]) -> None:
    """Let the others go on until something is true."""
    for _ in range(50_000):
        if true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


async def drawn() -> None:
    """Let it be drawn, and what is begun then be done."""
    count = get_app().render_counter
    get_app().invalidate()
    await until(lambda: get_app().render_counter > count)
    for _ in range(20):
        await asyncio.sleep(0)


def test_what_was_sent_is_there_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "history"
    assert asked(path, f"first{ENTER}") == "first"
    assert asked(path, f"two{CTRL_J}lines{ENTER}") == "two\nlines"
    assert read_entries(path) == [["first"], ["two\nlines"]]
    assert asked(path, f"fi|{UP}|{ENTER}") == "first"


def test_a_paste_is_kept_in_full_and_comes_back_as_one(tmp_path: Path) -> None:
    path = tmp_path / "history"
    assert asked(path, f"see {pasted(LONG)}{ENTER}") == f"see {LONG}"
    assert read_entries(path) == [["see ", LONG, ""]]
    assert asked(path, f"{UP}|!{ENTER}") == f"see {LONG}!"


def test_arrow_up_finds_what_began_with_the_same_words(tmp_path: Path) -> None:
    path = tmp_path / "history"
    for text in ("fix this", "fix that", "write a test"):
        keep_entry(path, [text])
    assert asked(path, f"fix|{UP}|{UP}|{ENTER}") == "fix this"
    assert asked(path, f"{UP}|{UP}|{ENTER}") == "write a test"


def test_without_a_file_or_with_one_that_cannot_be_used_nothing_is_kept(tmp_path: Path) -> None:
    assert asked(None, f"hello{ENTER}") == "hello"
    assert asked(tmp_path, f"hello{ENTER}") == "hello"
    assert list(tmp_path.iterdir()) == []


# ---- completion ------------------------------------------------------------------------------


async def offered(keys: PipeInput, typed: str) -> None:
    """Type something, and wait for what is offered then."""
    keys.send_text(typed)
    await until(lambda: get_app().current_buffer.complete_state is not None)


def test_tab_takes_the_one_completion_that_there_is(prompt: Prompt, keys: PipeInput) -> None:
    async def typing() -> str | None:
        asking = asyncio.ensure_future(prompt.ask())
        await offered(keys, "/con")
        keys.send_text(TAB + ENTER)
        return await asking

    assert asyncio.run(typing()) == "/config"


def test_enter_takes_what_was_chosen_and_does_not_send_it(prompt: Prompt, keys: PipeInput) -> None:
    async def typing() -> str | None:
        asking = asyncio.ensure_future(prompt.ask())
        await offered(keys, "/mode ")
        keys.send_text(f"{TAB}{TAB}{ENTER}!{ENTER}")
        return await asking

    assert asyncio.run(typing()) == "/mode code!"


def test_enter_sends_what_was_typed_if_nothing_was_chosen(prompt: Prompt, keys: PipeInput) -> None:
    async def typing() -> str | None:
        asking = asyncio.ensure_future(prompt.ask())
        await offered(keys, "/mode ")
        keys.send_text(f"co{ENTER}")
        return await asking

    assert asyncio.run(typing()) == "/mode co"


def test_a_path_is_completed_from_one_directory_to_the_next(
    prompt: Prompt, keys: PipeInput, tmp_path: Path
) -> None:
    (tmp_path / "a dir").mkdir()
    (tmp_path / "a dir" / "file").touch()

    async def typing() -> str | None:
        asking = asyncio.ensure_future(prompt.ask())
        await offered(keys, "see @a")
        keys.send_text(TAB)
        await until(lambda: prompt.typed == 'see @"a dir/')
        await offered(keys, "")
        keys.send_text(TAB + ENTER)
        return await asking

    assert asyncio.run(typing()) == 'see @"a dir/file"'


# ---- the screen ------------------------------------------------------------------------------


class Screen(io.StringIO):
    """A terminal, and what is to be seen on it."""

    def __init__(self, keys: PipeInput, columns: int = 60, encoding: str = "utf-8") -> None:
        super().__init__()
        self._keys = keys
        self._encoding = encoding
        self._screen = pyte.Screen(columns, ROWS)
        self._screen.set_mode(pyte.modes.LNM)
        self._stream = pyte.Stream(self._screen)
        size = Size(ROWS, columns)
        self.output = InlineOutput(self, lambda: size, term="xterm", enable_bell=False)
        self.written = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a terminal has one
        return self._encoding

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written += text
        # what pyte does not know, it would show
        self._stream.feed(re.sub(r"\x1b\[[>?][0-9;]*[a-z]", "", text))
        return len(text)

    def press(self, keys: str) -> None:
        self._keys.send_text(keys)

    def rows(self) -> list[str]:
        """What stands on the screen, down to the last row that is not empty."""
        return "\n".join([row.rstrip() for row in self._screen.display]).rstrip().split("\n")


Play: TypeAlias = Callable[[Prompt, Screen], Coroutine[None, None, None]]


def played(
    play: Play,
    made: Session = SET,
    *,
    columns: int = 60,
    encoding: str = "utf-8",
    color: bool = True,
) -> tuple[Screen, str | None]:
    """What happens while a person is asked, who then sends `end`."""
    with create_pipe_input() as keys:
        screen = Screen(keys, columns, encoding)
        prompt = Prompt(lambda: made, Path("/"), color=color, input=keys, output=screen.output)

        async def asking() -> str | None:
            task = asyncio.ensure_future(prompt.ask())
            await until(lambda: ">" in screen.written or screen.written.count("\n") > 1)
            await play(prompt, screen)
            keys.send_text(f"end{ENTER}")
            return await task

        return screen, asyncio.run(asking())


async def seen(screen: Screen, text: str) -> list[str]:
    """The rows of the screen as soon as the text is on it."""
    await until(lambda: any(text in row for row in screen.rows()))
    return screen.rows()


def test_the_status_stands_below_the_input() -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        assert await seen(screen, "Mode") == [
            ">",
            "Mode: Ask first · The Model: Big One · Web: off",
        ]

    assert played(play)[1] == "end"


@pytest.mark.parametrize("columns", [1, 2, 5, 12, 30])
def test_the_status_takes_one_row_however_narrow_the_terminal(columns: int) -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        if columns > 5:
            rows = await seen(screen, "…")
            assert rows == [">", "Mode: Ask first · The Model: Big One"[: columns - 2] + "…"]

    assert played(play, columns=columns)[1] == "end"


def test_a_terminal_of_another_encoding_gets_what_it_knows() -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        rows = await seen(screen, "Mode")
        assert rows == [">", "Mode: Ask first | The Model: B~"]

    screen, _ = played(play, columns=32, encoding="iso-8859-1")
    screen.written.encode("iso-8859-1")


def test_what_was_asked_is_erased() -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        await seen(screen, "Mode")

    assert played(play)[0].rows() == [""]


def test_the_first_interrupt_says_how_to_leave_until_something_is_typed() -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        await seen(screen, "Mode")
        screen.press(CTRL_C)
        await seen(screen, HOW_TO_LEAVE)
        screen.press("x")
        await seen(screen, "Mode")
        screen.press(BACKSPACE)

    assert played(play)[1] == "end"


def test_who_is_not_heard_reads_why() -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        await seen(screen, "Mode")
        prompt.holds_enter = lambda: True
        screen.press("es" + ENTER)
        await seen(screen, NOT_SENT[:30])
        screen.press(BACKSPACE * 2)
        await seen(screen, "Mode")
        prompt.holds_enter = lambda: False

    assert played(play)[1] == "end"


def test_the_status_changes_when_it_is_told_to() -> None:
    made = Session("s")

    async def play(prompt: Prompt, screen: Screen) -> None:
        made.apply(UsageUpdate(53000, 200000))
        prompt.refresh()
        await seen(screen, "53k of 200k tokens")

    assert played(play, made)[1] == "end"


def test_nothing_is_drawn_while_nothing_happens() -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        await seen(screen, "Mode")
        await drawn()
        app, count = get_app(), get_app().render_counter
        for _ in range(1000):
            await asyncio.sleep(0)
        assert app.render_counter == count
        assert not app.refresh_interval
        assert not app.terminal_size_polling_interval

    played(play)


def test_something_is_printed_above_what_is_typed() -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        screen.press("hel")
        await seen(screen, "> hel")
        notes = [partial(note, screen, text) for text in ("one", "two")]
        await asyncio.gather(*map(prompt.print_above, notes))
        rows = await seen(screen, "> hel")
        assert rows[:3] == ["one", "two", "> hel"]
        screen.press(CTRL_C)

    screen, text = played(play)
    assert text == "end"
    assert screen.rows() == ["one", "two"]


def note(screen: Screen, text: str) -> None:
    screen.write(f"{text}\n")


def test_who_prints_and_is_cancelled_does_not_stop_the_others() -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        printing = asyncio.ensure_future(prompt.print_above(lambda: note(screen, "one")))
        await asyncio.sleep(0)
        printing.cancel()
        await prompt.print_above(lambda: note(screen, "two"))
        assert "two" in await seen(screen, ">")

    assert played(play)[1] == "end"


def test_something_is_printed_at_once_while_nobody_is_asked(prompt: Prompt) -> None:
    said: list[str] = []
    asyncio.run(prompt.print_above(lambda: said.append("x")))
    prompt.refresh()
    assert said == ["x"]


def test_an_error_while_printing_is_told_to_who_prints() -> None:
    def fail() -> None:
        raise OSError("no screen")

    async def play(prompt: Prompt, screen: Screen) -> None:
        with pytest.raises(OSError, match="no screen"):
            await prompt.print_above(fail)

    assert played(play)[1] == "end"


def test_without_colour_nothing_is_coloured() -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        await seen(screen, "Mode")
        screen.press("/mode ")
        await seen(screen, "Code")
        screen.press(CTRL_C)

    coloured = re.compile(r"\x1b\[[0-9;]*?(?:3[0-9]|4[0-9]|9[0-7]|10[0-7])[0-9;]*m")
    assert coloured.search(played(play)[0].written)
    assert not coloured.search(played(play, color=False)[0].written)


def test_no_mouse_and_no_answer_of_the_terminal_is_asked_for() -> None:
    async def play(prompt: Prompt, screen: Screen) -> None:
        await seen(screen, "Mode")
        await prompt.print_above(lambda: note(screen, "one"))

    written = played(play)[0].written
    assert "\x1b[?1000h" not in written
    assert "\x1b[6n" not in written


def test_words_of_the_agent_reach_the_screen_only_when_safe() -> None:
    evil = "\x1b]0;owned\x07a\r\nb\x9b2J"
    made = Session("s")
    made.apply(SessionInfoUpdate(title=evil))
    option = v2.SessionConfigBoolean(config_id="x", name=evil, current_value=True)
    made.apply(v2.ConfigOptionUpdate([option]))
    made.apply(v2.AvailableCommandsUpdate([v2.Command("evil", evil), v2.Command(evil, "")]))

    async def play(prompt: Prompt, screen: Screen) -> None:
        assert (await seen(screen, "on"))[-1] == "a b: on · a b"
        screen.press("/evi")
        await seen(screen, "a b")
        screen.press(CTRL_C)

    screen, _ = played(play, made)
    assert "owned" not in screen.written
    assert "\x9b" not in screen.written


def test_a_status_without_end_is_cut() -> None:
    made = Session("s")
    made.apply(SessionInfoUpdate(title=EVIL))
    assert len(status_line(made)) <= 1000


def test_the_mode_comes_first_then_the_tokens_and_the_title_last() -> None:
    made = Session("s", usage=UsageUpdate(812, 0))
    made.apply(v2.ConfigOptionUpdate([WEB, MODES]))
    made.apply(SessionInfoUpdate(title="Fix it"))
    assert status_line(made) == "Mode: Ask first · 812 tokens · Web: off · Fix it"
    assert status_line(Session("s")) == ""


ENCODED = [
    *(("utf-8", "a · b…ü"), ("UTF8", "a · b…ü"), ("iso-8859-1", "a | b~ü")),
    *(("ascii", "a | b~?"), ("no-such-encoding", "a | b~?")),
]


@pytest.mark.parametrize(("encoding", "text"), ENCODED)
def test_a_status_has_only_what_the_encoding_knows(encoding: str, text: str) -> None:
    assert in_encoding("a · b…ü", encoding) == text
