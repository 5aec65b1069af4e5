"""The input line: keys in, text out, and what is to be shown meanwhile."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import get_app
from prompt_toolkit.input import PipeInput, create_pipe_input

from tests.support.settings import SET
from twofold.host.state_files import keep_entry, read_entries
from twofold.session import Session
from twofold.term.input.editor import HOW_TO_LEAVE, IMAGE_GONE, NOT_SENT, Editor, Entered
from twofold.term.lines import plain
from twofold.wire import v2
from twofold.wire.content import ImageContent

ENTER, ALT_ENTER, CTRL_J, CTRL_C, CTRL_D, CTRL_T = "\r", "\x1b\r", "\n", "\x03", "\x04", "\x14"
UP, TAB, BACKSPACE, LEFT = "\x1b[A", "\t", "\x7f", "\x1b[D"
LONG = "\n".join(["a line"] * 2000)


def pasted(text: str) -> str:
    """A paste as a terminal tells it."""
    return f"\x1b[200~{text}\x1b[201~"


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        yield pipe


@pytest.fixture
def editor(keys: PipeInput, tmp_path: Path) -> Editor:
    return Editor(lambda: SET, tmp_path, None, keys)


async def entered(editor: Editor, prefill: str = "") -> Entered | None:
    """Edit until something is entered; None if the person leaves."""
    done: asyncio.Future[Entered | None] = asyncio.get_running_loop().create_future()

    def end(result: Entered | None) -> None:
        if not done.done():
            done.set_result(result)

    editor.on_enter, editor.on_leave = end, lambda: end(None)
    editing = asyncio.ensure_future(editor.run(prefill))
    try:
        return await done
    finally:
        editing.cancel()
        await asyncio.wait([editing])


async def ask(editor: Editor, prefill: str = "") -> str | None:
    sent = await entered(editor, prefill)
    return sent.text if sent is not None else None


def answer(editor: Editor, keys: PipeInput, typed: str, prefill: str = "") -> str | None:
    keys.send_text(typed)
    return asyncio.run(ask(editor, prefill))


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
    typed: str, sent: str | None, editor: Editor, keys: PipeInput
) -> None:
    if typed == "":
        keys.close()
        assert asyncio.run(ask(editor)) is None
        return
    keys.send_bytes(typed.encode("utf-8", "surrogateescape"))
    assert asyncio.run(ask(editor)) == sent


def test_an_enter_that_belongs_to_something_else_sends_nothing(
    editor: Editor, keys: PipeInput
) -> None:
    held = iter([True, True, False])
    editor.holds_enter = lambda: next(held)
    assert answer(editor, keys, f"es{ENTER}{ENTER}x{ENTER}") == "esx"


def test_an_enter_that_is_held_on_an_empty_line_promises_nothing(
    editor: Editor, keys: PipeInput
) -> None:
    hints: list[str] = []

    def hold() -> bool:
        asyncio.get_running_loop().call_soon(lambda: hints.append(editor.hint))
        return len(hints) < 2

    editor.holds_enter = hold
    assert answer(editor, keys, f"{ENTER}a{ENTER}b{ENTER}") == "ab"
    assert hints[:2] == ["", NOT_SENT.format(key="Enter")]


def test_texts_that_come_back_while_a_reason_is_typed_do_not_become_part_of_it(
    editor: Editor,
) -> None:
    async def typing() -> list[str]:
        editor.put("draft")
        editor.begin_reason()
        editor.put("reason")
        editor.put_before(["one", "two"])
        seen = [editor.text, editor.full_text]
        editor.end_reason()
        seen.append(editor.text)
        editor.put_before(["zero"])
        return [*seen, editor.text]

    back = "one\ntwo\ndraft\nreason"
    assert asyncio.run(typing()) == ["reason", back, back, f"zero\n{back}"]


def test_what_was_typed_before_stands_in_the_input(editor: Editor, keys: PipeInput) -> None:
    assert answer(editor, keys, f" world{ENTER}", "hello") == "hello world"


@pytest.mark.parametrize(
    ("prefill", "sent"), [("\udcc3\udcbc", "ü!"), ("\udcfc", "\ufffd!"), ("\ud800a", "\ufffda!")]
)
def test_bytes_of_another_encoding_become_what_they_are_or_nothing(
    prefill: str, sent: str, editor: Editor, keys: PipeInput
) -> None:
    assert answer(editor, keys, f"!{ENTER}", prefill) == sent


def test_one_enters_as_often_as_one_likes(editor: Editor, keys: PipeInput) -> None:
    async def all_of_them() -> list[str]:
        texts: list[str] = []
        left = asyncio.Event()
        editor.on_enter = lambda sent: texts.append(sent.text)
        editor.on_leave = left.set
        editing = asyncio.ensure_future(editor.run())
        keys.send_text(f"one{ENTER}two{ENTER}{CTRL_C}{CTRL_C}")
        await left.wait()
        editing.cancel()
        await asyncio.wait([editing])
        return texts

    assert asyncio.run(all_of_them()) == ["one", "two"]


def test_keys_behind_an_enter_wait_until_it_is_handled(keys: PipeInput, tmp_path: Path) -> None:
    seen: list[str] = []

    def note(key: str, alone: bool) -> bool:
        seen.append(key)
        return False

    editor = Editor(lambda: SET, tmp_path, None, keys, note)

    async def typing() -> None:
        left = asyncio.Event()
        editor.on_enter = lambda sent: seen.append(f"entered {sent.text}")
        editor.on_leave = left.set
        editing = asyncio.ensure_future(editor.run())
        keys.send_text(f"a{ENTER}{CTRL_C}b{ENTER}{CTRL_D}")
        await left.wait()
        editing.cancel()
        await asyncio.wait([editing])

    asyncio.run(typing())
    assert seen == ["a", "c-m", "entered a", "c-c", "b", "c-m", "entered b", "c-d"]


def test_a_key_that_is_taken_finds_everything_before_it_in_the_input(
    keys: PipeInput, tmp_path: Path
) -> None:
    seen: list[str] = []

    def take(key: str, alone: bool) -> bool:
        if key == "c-t":
            seen.append(get_app().current_buffer.text)
        return key == "c-t"

    editor = Editor(lambda: SET, tmp_path, None, keys, take)
    assert answer(editor, keys, f"ax{BACKSPACE}{CTRL_T}b{CTRL_T}{CTRL_T}c{ENTER}") == "abc"
    assert seen == ["a", "ab", "ab"]


def test_a_key_that_is_taken_edits_nothing(keys: PipeInput, tmp_path: Path) -> None:
    editor = Editor(lambda: SET, tmp_path, None, keys, lambda key, alone: key == "y")
    assert answer(editor, keys, f"yes{ENTER}") == "es"


def test_up_on_an_empty_line_takes_back_what_is_queued(editor: Editor, keys: PipeInput) -> None:
    queued = ["first", "second"]
    editor.take_back = lambda: queued.pop() if queued else ""
    assert answer(editor, keys, f"{UP}!{ENTER}") == "second!"
    assert queued == ["first"]


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
    typed: str, sent: str, long: tuple[str, ...], editor: Editor, keys: PipeInput
) -> None:
    keys.send_text(typed)
    got = asyncio.run(entered(editor))
    assert got is not None
    assert (got.text, got.pasted) == (sent, long)


def test_a_long_paste_stands_in_the_input_as_a_mark(editor: Editor, keys: PipeInput) -> None:
    async def shown() -> str:
        asking = asyncio.ensure_future(ask(editor))
        await until(lambda: editor.text != "")
        text = editor.text
        keys.send_text(ENTER)
        assert await asking == LONG
        return text

    keys.send_text(pasted(LONG))
    assert asyncio.run(shown()) == "[pasted #1: 2,000 lines]"


def test_a_long_text_that_was_typed_before_is_a_mark_too(editor: Editor, keys: PipeInput) -> None:
    keys.send_text(f"!{ENTER}")
    got = asyncio.run(entered(editor, LONG))
    assert got == Entered(f"{LONG}!", (LONG,), "[pasted #1: 2,000 lines]!")


# ---- history ---------------------------------------------------------------------------------


def asked(path: Path | None, typed: str) -> str | None:
    """What is entered in a new client with this history."""
    with create_pipe_input() as pipe:
        editor = Editor(lambda: SET, Path("/"), path, pipe)

        async def press(key: str) -> None:
            before = editor.text
            pipe.send_text(key)
            await until(lambda: not get_app().is_running or editor.text != before)

        async def typing() -> str | None:
            asking = asyncio.ensure_future(ask(editor))
            await until(lambda: get_app().is_running)
            await drawn()  # what was sent before is loaded then
            for key in typed.split("|"):
                await press(key)
            return await asking

        return asyncio.run(typing())


async def until(true: Callable[[], bool]) -> None:
    """Let the others go on until something is true."""
    for _ in range(20_000):
        if true():
            return
        await asyncio.sleep(0.001)
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

    def is_offered() -> bool:
        state = get_app().current_buffer.complete_state
        return state is not None and bool(state.completions)

    await until(is_offered)


def test_tab_takes_the_one_completion_that_there_is(editor: Editor, keys: PipeInput) -> None:
    async def typing() -> str | None:
        asking = asyncio.ensure_future(ask(editor))
        await offered(keys, "/con")
        keys.send_text(TAB + ENTER)
        return await asking

    assert asyncio.run(typing()) == "/config"


def test_enter_takes_what_was_chosen_and_does_not_send_it(editor: Editor, keys: PipeInput) -> None:
    async def typing() -> str | None:
        asking = asyncio.ensure_future(ask(editor))
        await offered(keys, "/mode ")
        keys.send_text(f"{TAB}{TAB}{ENTER}!{ENTER}")
        return await asking

    assert asyncio.run(typing()) == "/mode code!"


def test_enter_sends_what_was_typed_if_nothing_was_chosen(editor: Editor, keys: PipeInput) -> None:
    async def typing() -> str | None:
        asking = asyncio.ensure_future(ask(editor))
        await offered(keys, "/mode ")
        keys.send_text(f"co{ENTER}")
        return await asking

    assert asyncio.run(typing()) == "/mode co"


def test_a_path_is_completed_from_one_directory_to_the_next(
    editor: Editor, keys: PipeInput, tmp_path: Path
) -> None:
    (tmp_path / "a dir").mkdir()
    (tmp_path / "a dir" / "file").touch()

    async def typing() -> str | None:
        asking = asyncio.ensure_future(ask(editor))
        await offered(keys, "see @a")
        keys.send_text(TAB)
        await until(lambda: editor.text == 'see @"a dir/')
        await offered(keys, "fi")
        keys.send_text(TAB)
        await until(lambda: editor.text == 'see @"a dir/file"')
        keys.send_text(ENTER)
        return await asking

    assert asyncio.run(typing()) == 'see @"a dir/file"'


def test_a_tab_before_anything_was_found_takes_the_first_that_is_found(
    editor: Editor, keys: PipeInput, tmp_path: Path
) -> None:
    make = tmp_path / "deep" / "er"
    make.mkdir(parents=True)
    (make / "needle.py").touch()

    async def typing() -> str | None:
        asking = asyncio.ensure_future(ask(editor))
        keys.send_text("see @ndl")
        await until(lambda: get_app().current_buffer.complete_state is not None)
        keys.send_text(TAB)
        await until(lambda: editor.text == "see @deep/er/needle.py")
        keys.send_text(ENTER)
        return await asking

    assert asyncio.run(typing()) == "see @deep/er/needle.py"


def test_a_mention_that_does_not_exist_is_marked_unless_it_is_pasted(
    editor: Editor, keys: PipeInput, tmp_path: Path
) -> None:
    (tmp_path / "there.py").touch()

    async def typing() -> None:
        asking = asyncio.ensure_future(ask(editor))
        keys.send_text(f"@there.py @gone.py {pasted('@other.py')} x")
        await until(lambda: editor.text.endswith(" x"))
        styled = [text for text, style in editor.rows(80, 5).rows[0] if "red" in str(style)]
        assert styled == ["@gone.py"]
        assert editor.warning == "@gone.py is no file here"
        keys.send_text(ENTER)
        await asking

    asyncio.run(typing())


def test_an_image_is_a_mark_that_is_sent_with_the_text_or_deleted_as_a_whole(
    editor: Editor, keys: PipeInput
) -> None:
    image = ImageContent("iVBORw0KGgo=", "image/png")

    async def typing() -> Entered | None:
        asking = asyncio.ensure_future(entered(editor))
        editor.on_paste_image = lambda: editor.insert(editor.image_mark(image))
        keys.send_text(f"\x16{BACKSPACE}see \x16")
        await until(lambda: editor.text.startswith("see ["))
        keys.send_text(ENTER)
        return await asking

    sent = asyncio.run(typing())
    assert sent is not None
    assert sent.text == "see [image #2: PNG, 8 bytes]"
    assert sent.images == {"[image #2: PNG, 8 bytes]": image}


def test_a_mark_without_its_image_is_drawn_as_an_error_unless_it_is_pasted(
    editor: Editor, keys: PipeInput
) -> None:
    mark = "[image #1: PNG, 8 bytes]"
    image = ImageContent("iVBORw0KGgo=", "image/png")

    async def typing() -> None:
        asking = asyncio.ensure_future(entered(editor, prefill=mark))
        await until(lambda: editor.text == mark)
        assert editor.warning == IMAGE_GONE
        assert editor.image_mark(image) == "[image #2: PNG, 8 bytes]"
        editor.put("[image #2: PNG, 8 bytes]")
        assert editor.warning == ""
        editor.put("")
        keys.send_text(f"{pasted(mark)} x")
        await until(lambda: editor.text.endswith(" x"))
        assert editor.warning == ""
        keys.send_text(ENTER)
        await asking

    asyncio.run(typing())


# ---- what is shown ----------------------------------------------------------------------------


def shown(editor: Editor) -> list[str]:
    return [plain(row).rstrip() for row in editor.rows(60, 8).rows]


async def while_editing(editor: Editor, check: Callable[[], bool]) -> None:
    """Edit until the check is true."""
    editing = asyncio.ensure_future(editor.run())
    try:
        await until(check)
    finally:
        editing.cancel()
        await asyncio.wait([editing])


def test_the_text_is_behind_its_mark_and_completions_are_below(
    editor: Editor, keys: PipeInput
) -> None:
    keys.send_text("/mode ")
    asyncio.run(while_editing(editor, lambda: len(shown(editor)) == 3))
    assert shown(editor)[0] == "> /mode"
    assert shown(editor)[1].startswith("  ask")


def test_a_search_shows_what_it_found(keys: PipeInput, tmp_path: Path) -> None:
    keep_entry(tmp_path / "history", ["fix the parser"])
    editor = Editor(lambda: SET, tmp_path, tmp_path / "history", keys)

    async def search() -> None:
        editing = asyncio.ensure_future(editor.run())
        await until(lambda: get_app().is_running)
        await drawn()
        keys.send_text("\x12pars")
        await until(lambda: shown(editor) == ["search “pars”: fix the parser"])
        assert editor.busy
        editing.cancel()
        await asyncio.wait([editing])

    asyncio.run(search())


def test_the_first_interrupt_says_how_to_leave_until_something_is_typed(
    editor: Editor, keys: PipeInput
) -> None:
    async def play() -> None:
        editing = asyncio.ensure_future(editor.run())
        keys.send_text(CTRL_C)
        await until(lambda: editor.hint == HOW_TO_LEAVE)
        keys.send_text("x")
        await until(lambda: editor.hint == "")
        editor.holds_enter = lambda: True
        keys.send_text(ENTER)
        await until(lambda: editor.hint == NOT_SENT.format(key="Enter"))
        editing.cancel()
        await asyncio.wait([editing])

    asyncio.run(play())


def test_words_of_the_agent_are_offered_only_when_safe(keys: PipeInput, tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07a\r\nb\x9b2J"
    made = Session("s")
    made.apply(v2.AvailableCommandsUpdate([v2.Command("evil", evil), v2.Command(evil, "")]))
    editor = Editor(lambda: made, tmp_path, None, keys)
    keys.send_text("/evi")
    asyncio.run(while_editing(editor, lambda: len(shown(editor)) == 2))
    assert "owned" not in "".join(shown(editor))
    assert "\x9b" not in "".join(shown(editor))


def test_nothing_is_drawn_while_nothing_happens(editor: Editor) -> None:
    async def wait() -> None:
        editing = asyncio.ensure_future(editor.run())
        await until(lambda: get_app().is_running)
        await drawn()
        app, count = get_app(), get_app().render_counter
        for _ in range(1000):
            await asyncio.sleep(0)
        assert app.render_counter == count
        assert not app.refresh_interval
        assert not app.terminal_size_polling_interval
        editing.cancel()
        await asyncio.wait([editing])

    asyncio.run(wait())
