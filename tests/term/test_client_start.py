"""`twofold run` at a terminal: the start of an agent, and what can be wrong with it."""

import subprocess
from pathlib import Path

import pytest

from tests.support.plain_client import RUN, at_prompt, client, demo, leave, say
from tests.support.raw_process import raw_agent

SLOW = raw_agent("""
def initialize(request):
    os.write(2, b"reading the model\\n\\x1b]0;owned\\x07part 3 of 7\\n")
    time.sleep(2.2)
    answer(request, {"protocolVersion": 1, "agentInfo": {"name": "slow", "version": "1"}})
""")
FALLS = raw_agent("os.write(2, b'no \\x1b[2Jkey is set\\n'); sys.exit(3)")


def test_who_waits_for_a_slow_start_sees_for_how_long_and_what_the_agent_said_last() -> None:
    with client(agent=SLOW, columns=60) as stage:
        stage.wait_for(lambda stage: stage.screen()[0].endswith("… 1 s"))
        assert stage.screen()[0].startswith("Starting ")
        assert stage.screen()[1] == "  part 3 of 7"
        stage.type("hello\r")
        stage.wait_for(lambda stage: stage.screen()[0].endswith("… 2 s"))
        stage.wait_for("> hello")  # what was typed meanwhile is nowhere else
        assert "".join(stage.screen()).count("hello") == 1
        assert "Starting" not in stage.text
        assert "part 3" not in stage.text
        assert stage.title == f"{stage.home.name} · twofold"  # and not what the agent wrote
        stage.press("ctrl-c")
        leave(stage)


def test_who_waits_for_a_command_that_is_no_agent_is_told_what_to_check() -> None:
    with client(agent=["sleep", "60"], columns=60) as stage:
        stage.wait_for("It has not answered initialize yet.")
        stage.wait_for("Many programs need an option such as --acp")
        stage.press("ctrl-c")
        assert stage.wait_end() == 5
        assert "initialize" not in stage.text


SLOW_SESSION = raw_agent("""
def initialize(request):
    answer(request, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})

made = answer
def answer(request, result):
    if request["method"] == "session/new":
        time.sleep(2.2)
    made(request, result)

def fail(request, *reason):
    time.sleep(2.2)
    text("of long ago")
    made(request, {})
""")


@pytest.mark.parametrize(
    ("options", "told"),
    [((), "Creating a session … 1 s"), (("--resume", "s"), "Loading session s … 1 s")],
)
def test_who_waits_for_a_session_sees_it_and_what_was_typed_is_kept(
    options: tuple[str, ...], told: str
) -> None:
    with client(*options, agent=SLOW_SESSION) as stage:
        stage.wait_for(lambda stage: stage.screen()[0] == told)
        stage.type("hello")
        stage.wait_for("> hello")
        assert told not in stage.text
        stage.press("ctrl-c")
        leave(stage)


LATE_REPLAY = raw_agent("""
def initialize(request):
    answer(request, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})

def fail(request, *reason):
    answer(request, {})
    time.sleep(0.02)
    text("of long ago")

def prompt(request):
    update({"sessionUpdate": "agent_message_chunk", "messageId": "n",
            "content": {"type": "text", "text": "of today"}})
    answer(request, {"stopReason": "end_turn"})
""")


def test_a_replay_that_comes_late_stands_above_what_is_said_at_the_start() -> None:
    with client("--resume", "s", "--start", "go on", agent=LATE_REPLAY) as stage:
        stage.wait_for("of today")
        places = [stage.text.index(each) for each in ("of long ago", "> go on", "of today")]
        assert places == sorted(places)
        leave(stage)


NAMELESS = raw_agent("def initialize(request): answer(request, {'protocolVersion': 1})")


def test_an_agent_that_has_no_name_is_called_by_its_command(tmp_path: Path) -> None:
    program, *arguments = NAMELESS
    (tmp_path / "nameless").symlink_to(program)
    with client(agent=[f"{tmp_path}/nameless", *arguments], columns=200) as stage:
        stage.wait_for(at_prompt)
        assert f" · {tmp_path}/nameless -I -S -c" in stage.screen()[0]
        assert "The agent 0" not in stage.text
        leave(stage)


REFUSED: dict[str, tuple[list[str], int, str]] = {
    "a command that is not there": (
        ["no-such-agent"],
        7,
        "The agent (no-such-agent) could not be started",
    ),
    "one that ends with a message": (FALLS, 7, "no key is set"),
    "one that ends without": (["true"], 7, "ended with exit code 0"),
    "one that repeats what it hears": (["cat"], 1, "it is not an agent"),
    "one that talks and ends": (["echo", "Welcome!"], 7, "no message of the protocol: Welcome!"),
}


@pytest.mark.parametrize(("agent", "status", "words"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_agent_is_told_and_the_terminal_is_given_back(
    agent: list[str], status: int, words: str
) -> None:
    with client(agent=agent) as stage:
        assert stage.wait_end() == status
        assert words in " ".join(stage.text.split())
        assert "Traceback" not in stage.text
        assert "Starting" not in stage.text
        assert stage.children() == []
        assert not stage.cursor_is_hidden
        assert b"\x1b[2J" not in stage.raw


@pytest.mark.parametrize(
    "agent", [["sleep", "60"], ["sh", "-c", "echo Welcome to the agent; sleep 60"]]
)
def test_who_does_not_want_to_wait_leaves_at_once_and_with_the_agent(agent: list[str]) -> None:
    with client(agent=agent) as stage:
        stage.wait_for("… 1 s")
        stage.press("ctrl-c")
        assert stage.wait_end() == 5
        assert stage.children() == []
        assert "Starting" not in stage.text
        assert not stage.cursor_is_hidden


def test_without_a_terminal_there_is_a_hint_how_scripts_do_it() -> None:
    done = subprocess.run(
        RUN, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--prompt TEXT" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("version", ["1", "2"])
def test_an_agent_of_either_version_is_talked_to(version: str) -> None:
    with client(agent=demo("--version", version)) as stage:
        stage.wait_for(f"version {version} of the protocol")
        say(stage, "/echo hello", "echo: hello")
        say(stage, "/mode code", "* code")
        stage.type("fix it\r")
        stage.wait_for("on both sides of zero")
        leave(stage)


def test_an_agent_that_wants_a_login_gets_one_or_is_left() -> None:
    with client(agent=demo("auth")) as stage:
        stage.wait_for("Twofold demo agent requires a login. How do you want to log in?")
        stage.wait_for("❯ 1 Token  Any token will do")
        stage.wait_for("Enter chooses")
        stage.press("enter")
        stage.wait_for("Logging in: Token")
        leave(stage)
    with client(agent=demo("auth")) as stage:
        stage.wait_for("How do you want to log in?")
        stage.press("esc")
        assert stage.wait_end() == 0
        assert stage.children() == []


LINGERS = raw_agent("""
def read():
    line = sys.stdin.readline()
    while not line:
        os.write(2, b".")  # it is at work
        time.sleep(0.05)
    return json.loads(line)
""")


def test_who_leaves_sees_that_the_agent_has_not_ended_and_can_end_it_at_once() -> None:
    with client(agent=LINGERS) as stage:
        stage.wait_for(at_prompt)
        stage.press("ctrl-d")
        stage.wait_for("Waiting for the agent to exit … 1 s · Ctrl-C ends it now")
        stage.press("ctrl-c")
        assert stage.wait_end() == 0
        assert stage.children() == []
        assert "Waiting" not in stage.text
        assert not stage.cursor_is_hidden
