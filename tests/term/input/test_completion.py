"""What is offered while a person types: commands, values and paths."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from tests.support.settings import EVIL, MODES, SET, session
from twofold.client.mentions import missing, parts_of
from twofold.host.file_index import listing_of
from twofold.session import Session
from twofold.term.input.completion import MOST, InputCompleter, found_paths, is_completed
from twofold.term.input.slash_commands import CLIENT_COMMANDS
from twofold.text.safe import one_line
from twofold.wire import v2


def completed(text: str, cwd: Path, made: Session = SET) -> list[str]:
    """What the input would be, for each completion at its end."""
    completer = InputCompleter(lambda: made, cwd)
    found = completer.get_completions(Document(text), CompleteEvent())
    return [text[: len(text) + each.start_position] + each.text for each in found]


@pytest.fixture(scope="module")
def cwd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cwd")
    for name in ("src/twofold", "Samples", "my docs", ".git", "sub.dir"):
        (folder / name).mkdir(parents=True)
    files = (
        *("setup.py", "Readme.md", ".env", "a b.txt", "it's", "src/twin.py", "src/x.py"),
        *("my docs/one two.md", "my docs/three", "evil\x1b[2J", "new\nline", "src/.hidden"),
    )
    for name in files:
        (folder / name).write_text("x", encoding="utf-8")
    return folder


# ---- commands--------------------------------------------------------------------------------


def test_a_slash_offers_the_commands_of_the_client_and_of_the_agent(cwd: Path) -> None:
    made = session(MODES, commands=("web", "plan"))
    assert completed("/", cwd, made) == [
        *(f"/{name}" for name in CLIENT_COMMANDS),
        "/web",
        "//plan",
    ]


OFFERED = {
    "a beginning": ("/co", ["/config", "/copy"]),
    "whatever the case": ("/QU", ["/quit"]),
    "nothing like it": ("/xyz", []),
    "a command without arguments": ("/help ", []),
    "modes": ("/mode ", ["/mode ask", "/mode code"]),
    "the beginning of a mode": ("/mode C", ["/mode code"]),
    "settings": ("/config ", ["/config session-mode", "/config model", "/config web search"]),
    "the beginning of a setting": ("/config MO", ["/config model"]),
    "values": (
        "/config model ",
        ["/config model big-1", "/config model s-1", "/config model s-2"],
    ),
    "the beginning of a value": ("/config model  b", ["/config model  big-1"]),
    "the values of an id in another case": ("/config MODEL b", ["/config MODEL big-1"]),
    "a switch": ("/config web search ", ["/config web search on", "/config web search off"]),
    "not at the beginning": ("see /he", []),
    "not on the second line": ("/web\n/he", []),
    "text": ("hello", []),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("text", "made"), OFFERED.values(), ids=list(OFFERED))
def test_commands_are_completed_with_what_there_is(text: str, made: list[str], cwd: Path) -> None:
    assert completed(text, cwd) == made


def test_an_agent_without_modes_offers_none(cwd: Path) -> None:
    assert completed("/mode ", cwd, Session("s")) == []


def test_descriptions_and_hints_are_shown_beside_a_command(cwd: Path) -> None:
    made = Session("s")
    hint = v2.TextCommandInput("QUERY")
    made.apply(v2.AvailableCommandsUpdate([v2.Command("web", "searches\nthe web", hint)]))
    completer = InputCompleter(lambda: made, cwd)
    [found] = completer.get_completions(Document("/we"), CompleteEvent())
    assert found.display_meta_text == "QUERY searches the web"


def test_names_that_cannot_be_seen_for_what_they_are_are_not_offered(cwd: Path) -> None:
    made = session(commands=(EVIL, "\x1b[1mbold", "a\u200bb", "", "fine"))
    assert completed("/", cwd, made)[len(CLIENT_COMMANDS) :] == ["/fine"]


def test_commands_without_end_are_offered_up_to_a_bound(cwd: Path) -> None:
    made = session(commands=tuple(f"c{number}" for number in range(5000)))
    assert len(completed("/", cwd, made)) == MOST


# ---- paths -----------------------------------------------------------------------------------

PATHS: dict[str, tuple[str, list[str]]] = {
    "all but what is hidden": (
        "@",
        [
            *('@"a b.txt"', '@"it\'s"', '@"my docs/', "@Readme.md", "@Samples/", "@setup.py"),
            *("@src/", "@sub.dir/"),
        ],
    ),
    "what is hidden": ("see @.", ["see @.env", "see @.git/"]),
    "a beginning": ("@se", ["@setup.py"]),
    "whatever the case": ("@S", ["@Samples/", "@setup.py", "@src/", "@sub.dir/"]),
    "in a directory": ("@src/tw", ["@src/twin.py", "@src/twofold/"]),
    "in a directory of another case": ("@SRC/TWO", ["@src/twofold/"]),
    "hidden in a directory": ("@src/.", ["@src/.hidden"]),
    "from here": ("@./se", ["@./setup.py"]),
    "from above": ("@src/../se", ["@src/../setup.py"]),
    "within quotes": ('@"my docs/', ['@"my docs/one two.md"', '@"my docs/three"']),
    "a beginning within quotes": ('@"my do', ['@"my docs/']),
    "quotes without need": ('@"se', ['@"setup.py"']),
    "in brackets": ("(@se", ["(@setup.py"]),
    "on the second line": ("/web\n@se", ["/web\n@setup.py"]),
    "behind a command": ("/web @se", ["/web @setup.py"]),
    "an address": ("me@se", []),
    "a mention that is over": ("@setup.py ", []),
    "quotes that are over": ('@"a b.txt"', []),
    "a directory that is not there": ("@nowhere/x", []),
    "a file as a directory": ("@setup.py/", []),
    "a zero": ("@\0/x", []),
}


@pytest.mark.parametrize(("text", "made"), PATHS.values(), ids=list(PATHS))
def test_paths_are_completed_in_their_directory(text: str, made: list[str], cwd: Path) -> None:
    assert completed(text, cwd) == made


def test_absolute_paths_and_the_home_are_completed(
    cwd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(cwd))
    assert completed("@~/se", tmp_path) == ["@~/setup.py"]
    assert completed(f"@{cwd}/se", tmp_path) == [f"@{cwd}/setup.py"]


def test_a_directory_that_cannot_be_read_completes_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> object:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert completed("@", tmp_path) == ["@file"]
    monkeypatch.setattr(os, "scandir", refuse)
    assert completed("@", tmp_path) == []


def test_a_large_directory_is_offered_up_to_a_bound_in_order(tmp_path: Path) -> None:
    for number in range(MOST + 50):
        (tmp_path / f"{number:03}").touch()
    assert completed("@", tmp_path) == [f"@{number:03}" for number in range(MOST)]


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that are read from now on."""
    read: list[str] = []
    scandir: Callable[..., object] = os.scandir

    def noted(path: object) -> object:
        read.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    return read


def test_one_directory_is_read(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = reads(monkeypatch)
    assert completed("@src/tw", cwd) != []
    assert read == [str(cwd / "src")]


def test_no_directory_is_read_where_nothing_is_mentioned(
    cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reads(monkeypatch)
    completed("hello", cwd)
    completed("/he", cwd)
    assert read == []


def test_every_file_that_is_offered_is_a_mention(cwd: Path) -> None:
    for beginning in ("@", "@.", "@src/", '@"my docs/'):
        for text in completed(beginning, cwd):
            _, path = parts_of(text, cwd)
            assert isinstance(path, Path)


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)


@given(name=NAMES.filter(lambda name: len(name.encode()) < 200 and name not in ("~", ".", "..")))
def test_a_name_is_offered_so_that_it_is_found_again_or_not_at_all(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("one")
    (folder / name).touch()
    for text in completed("see @." if name.startswith(".") else "see @", folder):
        assert parts_of(text, folder) == [text, folder / name]
        assert one_line(text) == text


# ---- when ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        *(("/", True), ("/mode x", True), ("see @a", True), ('@"a b', True)),
        *(("", False), ("a/b", False), ("@a ", False), ("/x\ny", False)),
    ],
)
def test_something_is_offered_only_for_commands_and_open_mentions(text: str, offered: bool) -> None:
    assert is_completed(Document(text)) is offered


# ---- paths of the whole tree -----------------------------------------------------------------


def searched(text: str, cwd: Path) -> list[str]:
    """What the input would be for each completion, those of the whole tree included."""

    async def found() -> list[str]:
        completer = InputCompleter(lambda: SET, cwd)
        made = completer.get_completions_async(Document(text), CompleteEvent())
        return [text[: len(text) + each.start_position] + each.text async for each in made]

    return asyncio.run(found())


SEARCHED: dict[str, tuple[str, list[str]]] = {
    "a file below": ("@twn", ["@src/twin.py"]),
    "nearby first": ("@s", ["@Samples/", "@setup.py", "@src/", "@sub.dir/"]),
    "a directory": ("@twof", ["@src/twofold/"]),
    "across directories": ("@src/x", ["@src/x.py"]),
    "quoted where it must be": ("@thr", ['@"my docs/three"']),
    "within quotes": ('@"thr', ['@"my docs/three"']),
    "nothing like it": ("@zzz", []),
    "a directory is only listed": ("@src/", ["@src/twin.py", "@src/twofold/", "@src/x.py"]),
    "from here": ("@./twn", []),
    "an absolute path": ("@/twn", []),
}


@pytest.mark.parametrize(("text", "made"), SEARCHED.values(), ids=list(SEARCHED))
def test_paths_are_found_by_their_letters(text: str, made: list[str], cwd: Path) -> None:
    (cwd / "src" / "twofold" / "keep").touch()
    found = searched(text, cwd)
    assert found[: len(made)] == made
    assert bool(found) == bool(made)


@given(st.text("steupy./", min_size=1, max_size=4))
def test_whatever_is_found_is_there_and_offered_once(cwd: Path, needle: str) -> None:
    found = searched(f"@{needle}", cwd)
    assert len(found) == len(set(found))
    for text in found:
        assert not missing(text, cwd)


def test_what_is_not_there_any_more_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    assert [each.path for each in found_paths("e", listing_of(["there", "gone"]), tmp_path)] == [
        "there"
    ]
