"""The stage itself: a terminal as programs expect it, and waits that see what people would see."""

import os
import signal
import sys
from collections.abc import Callable

import pytest

from tests.support.raw_process import alive, gone
from tests.support.terminal_stage import AnyStage, Stage, TmuxStage

AnyMake = Callable[..., AnyStage]
both = pytest.mark.parametrize("make", [Stage, TmuxStage])


def python(script: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script]


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


RAW = """
import os, sys, tty
tty.setraw(0)
def ask(question, end):
    os.write(1, question)
    answer = b""
    while not answer.endswith(end):
        answer += os.read(0, 1)
    return answer
def say(what):
    os.write(1, repr(what).encode() + b"\\r\\n")
"""


# ---- a program and its terminal --------------------------------------------------------------


@both
def test_what_is_typed_reaches_the_program_and_its_status_is_returned(make: AnyMake) -> None:
    with make(sh('read line; echo "got <$line>"; exit 7')) as stage:
        stage.type("grüße, 世界")
        stage.press("enter")
        stage.wait_for("got <grüße, 世界>")
        assert stage.wait_end() == 7


@both
def test_all_that_was_written_before_the_end_is_seen(make: AnyMake) -> None:
    with make(sh("seq 1 500")) as stage:
        assert stage.wait_end() == 0
        assert [row for row in stage.scrollback() if row] == [f"{n}" for n in range(1, 501)]
        assert stage.screen() == [*[f"{n}" for n in range(478, 501)], ""]


@both
def test_the_program_controls_its_terminal_so_ctrl_c_interrupts_it(make: AnyMake) -> None:
    with make(sh("trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 9; done")) as stage:
        stage.wait_for("ready")
        stage.press("ctrl-c")
        stage.wait_for("caught")
        assert stage.wait_end() == 3


@both
def test_a_program_ended_by_a_signal_has_a_negative_status(make: AnyMake) -> None:
    with make(["cat"]) as stage:
        stage.type("here\r")
        stage.wait_for(lambda stage: stage.text.count("here") == 2)
        stage.press("ctrl-c")
        assert stage.wait_end() == -signal.SIGINT


def test_ctrl_d_ends_the_input() -> None:
    with Stage(["cat"]) as stage:
        stage.press("ctrl-d")
        assert stage.wait_end() == 0


@both
def test_a_resize_gives_the_program_the_new_size(make: AnyMake) -> None:
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.01; done"
    with make(sh(script), columns=70, rows=20) as stage:
        stage.wait_for("20 70")
        stage.resize(50, 12)
        stage.wait_for("12 50")
        assert len(stage.screen()) == 12


def test_a_terminal_that_is_closed_hangs_up_its_program() -> None:
    with Stage(sh("trap 'exit 5' HUP; echo ready; while :; do sleep 0.01; done")) as stage:
        stage.wait_for("ready")
        stage.hang_up()
        assert stage.wait_end() == 5


def test_a_program_is_hung_up_even_if_the_tests_ignore_that_signal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stage = Stage(python("input('ready')"))
    finally:
        signal.signal(signal.SIGHUP, before)
    with stage:
        stage.wait_for("ready")
        stage.hang_up()
        assert stage.wait_end() == -signal.SIGHUP


def test_a_program_that_does_not_read_stops_neither_what_is_typed_nor_what_it_writes() -> None:
    script = "import os, tty; tty.setraw(0); os.write(1, b'ready'); os.write(1, b'.' * 300_000)"
    with Stage(python(script)) as stage:
        stage.wait_for("ready")
        stage.type("x" * 100_000)
        assert stage.wait_end() == 0
        assert stage.raw == b"ready" + b"." * 300_000


# ---- what a terminal answers -----------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("written", "position"),
    [(b"", b"1;1"), (b"ab\r\ncd", b"2;3"), (b"\x1b[5;7H", b"5;7")],
)
def test_a_program_that_asks_where_the_cursor_is_gets_an_answer(
    make: AnyMake, written: bytes, position: bytes
) -> None:
    question = written + b"\x1b[6n"
    script = f"{RAW}answer = ask({question!r}, b'R'); say(['at', answer])"
    with make(python(script)) as stage:
        assert stage.wait_end() == 0
        assert repr(b"\x1b[" + position + b"R") in stage.text.replace("\n", "")


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (b"\x1b[c", b"\x1b[?6c"),
        (b"x" * 80 + b"\x1b[6n", b"\x1b[1;80R"),
        (b"\x1b[5n", b"\x1b[0n"),
        (b"\x1b[?2026$p", b"\x1b[?2026;2$y"),
        (b"\x1b[?2004h\x1b[?2004$p", b"\x1b[?2004;1$y"),
        (b"\x1b[?9999$p", b"\x1b[?9999;0$y"),
    ],
)
def test_a_program_that_asks_what_the_terminal_can_do_gets_an_answer(
    asked: bytes, answer: bytes
) -> None:
    with Stage(python(f"{RAW}say(ask({asked!r}, {answer[-1:]!r}))")) as stage:
        assert stage.wait_end() == 0
        assert repr(answer) in stage.text


@both
def test_a_prompt_that_needs_the_cursor_position_works_without_a_warning(make: AnyMake) -> None:
    script = "from prompt_toolkit import prompt; print('<', prompt('say: '), '>')"
    with make([sys.executable, "-c", script]) as stage:
        stage.wait_for("say:")
        stage.type("one")
        stage.press("left", "left", "left")
        stage.type("no ")
        stage.press("enter")
        stage.wait_for("< no one >")
        assert stage.wait_end() == 0
        assert "WARNING" not in stage.text


@both
@pytest.mark.parametrize(
    ("mode", "seen"),
    [(b"\x1b[?2004h", b"\x1b[200~a\rb\x1b[201~."), (b"", b"a\rb.")],
    ids=["brackets wanted", "brackets unknown"],
)
def test_what_is_pasted_comes_in_brackets_if_the_program_wants_them(
    make: AnyMake, mode: bytes, seen: bytes
) -> None:
    with make(python(f"{RAW}say(ask({mode + b'ready: '!r}, b'.'))")) as stage:
        stage.wait_for("ready:")
        stage.paste("a\nb")
        stage.type(".")
        assert stage.wait_end() == 0
        assert repr(seen) in stage.text


@both
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("enter", b"\r"),
        ("esc", b"\x1b"),
        ("up", b"\x1b[A"),
        ("alt-enter", b"\x1b\r"),
        ("ctrl-c", b"\x03"),
        ("ctrl-\\", b"\x1c"),
        ("y", b"y"),
    ],
)
def test_a_key_is_what_a_terminal_sends_for_it(make: AnyMake, name: str, sent: bytes) -> None:
    with make(python(f"{RAW}say(ask(b'ready', b'.'))")) as stage:
        stage.wait_for("ready")
        stage.press(name)
        stage.type(".")
        assert stage.wait_end() == 0
        assert repr(sent + b".") in stage.text


def test_a_key_that_does_not_exist_is_a_mistake_of_the_test() -> None:
    with Stage(["cat"]) as stage, pytest.raises(AssertionError, match="no key 'entre'"):
        stage.press("entre")


# ---- the environment -------------------------------------------------------------------------


def test_the_program_sees_nothing_of_the_environment_of_the_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    script = "import os; print(sorted(os.environ), os.getcwd() == os.environ['HOME'])"
    with Stage(python(script), columns=300, env={"LANG": None, "X": "1"}) as stage:
        assert stage.wait_end() == 0
        names = ["HOME", "LC_CTYPE", "PATH", "PYTHONUNBUFFERED", "TERM", "TWOFOLD_STAGE", "X"]
        assert f"{names} True" in stage.text
        assert stage.home.is_dir()
    assert not stage.home.exists()


def test_a_terminal_may_have_another_encoding() -> None:
    env = {"PYTHONIOENCODING": "iso-8859-1", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", "print('<' + input() + '>')"]
    with Stage(command, env={**env, "LC_ALL": "C"}, encoding="iso-8859-1") as stage:
        stage.type("é\r")
        assert stage.wait_end() == 0
        assert "<é>" in stage.text
        assert b"<\xe9>" in stage.raw


# ---- waiting ---------------------------------------------------------------------------------


@both
def test_a_wait_that_fails_shows_the_screen(make: AnyMake) -> None:
    with make(sh("echo what stands there; cat")) as stage:
        stage.wait_for("what stands there")
        with pytest.raises(AssertionError, match=r"'that' did not come within 0.01 s\n[^$]*stands"):
            stage.wait_for("that", seconds=0.01)
        with pytest.raises(AssertionError, match="'stands' did not go within"):
            stage.wait_gone("stands", seconds=0.01)
        with pytest.raises(AssertionError, match="it did not end within"):
            stage.wait_end(seconds=0.01)


@both
def test_a_wait_for_what_cannot_come_any_more_fails_at_once(make: AnyMake) -> None:
    with (
        make(sh("echo the end; exit 4")) as stage,
        pytest.raises(AssertionError, match=r"did not come, and it ended with status 4\n[^$]*end"),
    ):
        stage.wait_for("more", seconds=600)


@both
def test_what_was_erased_is_gone(make: AnyMake) -> None:
    with make(sh(r"printf 'working'; read x; printf '\033[A\r\033[Kdone'; read x")) as stage:
        stage.wait_for("working")
        stage.press("enter")
        stage.wait_gone("working")
        stage.wait_for("done")


def test_it_is_quiet_when_nothing_is_written_for_a_while() -> None:
    with Stage(sh("for n in 1 2 3 4 5; do echo $n; sleep 0.01; done; cat")) as stage:
        stage.wait_quiet(0.3)
        assert stage.screen()[:6] == ["1", "2", "3", "4", "5", ""]


# ---- processes -------------------------------------------------------------------------------

LEAVING = """
import os, subprocess
subprocess.Popen(["sleep", "600"])  # hung up with the terminal, when the program ends
if not os.fork():
    os.setsid()
    if not os.fork():
        subprocess.Popen(["sleep", "600"], stdin=-3, stdout=-3, stderr=-3)
    os._exit(0)
os.wait()
print("ready", flush=True)
input()
"""


@both
def test_what_a_program_leaves_behind_is_found_and_killed(make: AnyMake) -> None:
    with make(python(LEAVING)) as stage:
        stage.wait_for("ready")
        stage.wait_for(lambda stage: len(stage.children()) == 2)
        assert stage.pid not in stage.children()
        assert alive(stage.pid)
        stage.press("enter")
        assert stage.wait_end() == 0
        stage.wait_for(lambda stage: len(stage.children()) == 1)
        left = stage.children()
        assert all(map(alive, left))
    assert all(map(gone, left))


def test_a_child_that_shed_its_environment_is_found_below_its_parent() -> None:
    with Stage(sh("env -i sleep 600 & echo ready; wait")) as stage:
        stage.wait_for("ready")
        (child,) = stage.children()
        os.kill(child, signal.SIGTERM)
        stage.wait_for(lambda stage: not stage.children())


@both
def test_two_stages_know_only_their_own(make: AnyMake) -> None:
    with make(sh("sleep 600 & echo ready; wait")) as one, make(["cat"]) as other:
        one.wait_for("ready")
        assert len(one.children()) == 1
        assert other.children() == []


def test_a_program_that_waits_is_idle_and_one_that_computes_is_not() -> None:
    script = "input('ready')\nwhile True: pass"
    with Stage(python(script)) as stage:
        stage.wait_for("ready")
        stage.wait_for(Stage.is_idle)
        before = stage.cpu_seconds()
        stage.press("enter")
        stage.wait_for(lambda stage: stage.cpu_seconds() > before + 0.1)
        assert not stage.is_idle()


# ---- resize and scrollback in a real terminal ------------------------------------------------


def test_tmux_lays_long_rows_out_anew() -> None:
    with TmuxStage(sh("echo 1234567890abcdefghij; cat"), columns=20, rows=5) as stage:
        stage.wait_for("1234567890abcdefghij")
        stage.resize(10, 5)
        stage.wait_for("1234567890\nabcdefghij")
        # tmux passes on what it read a moment after it shows it
        stage.wait_for(lambda stage: stage.raw.startswith(b"1234567890abcdefghij\r\n"))
