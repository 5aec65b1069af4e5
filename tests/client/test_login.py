"""Logging in when an agent wants that first: by the agent, in the terminal, and for scripts."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import DEMO, PATIENCE, TWOFOLD, called, until
from tests.support.raw_process import gone, raw_agent
from tests.support.real_time import run
from twofold.client.client import Client
from twofold.client.launch import Launch
from twofold.client.login import (
    LoginFailed,
    LoginNeeded,
    NoSuchWay,
    log_in,
    others,
    wants_login,
    way_of,
    ways,
)
from twofold.rpc.errors import AUTH_REQUIRED, RequestFailed
from twofold.transport.commands import CommandNotStarted

BOTH = pytest.mark.parametrize("version", [1, 2])

# An agent that wants a login, of either version. Its first argument is what it does in the
# terminal; it is logged in when `DONE` is there.
AGENT = """
DONE = FOLDER + "/done"
if "--login" in sys.argv:
    how = sys.argv[-1]
    open(FOLDER + "/pid", "w").write(str(os.getpid()))
    print("Who are you?", os.environ["WHO"], flush=True)
    if how == "hang":
        open(FOLDER + "/hangs", "w").close()
        time.sleep(60)
    if how == "dies":
        os.kill(os.getpid(), 15)
    if how == "0":
        open(DONE, "w").close()
    sys.exit(int(how))

def terminal(how):
    return {"type": "terminal", "id": how, "name": "In the terminal", "args": ["--login", how],
            "env": env(WHO="me")}

def env(**values):
    listed = [{"name": name, "value": values[name]} for name in values]
    return listed if VERSION == 2 else values

METHODS = [
    {"id": "token", "name": "Tok\\x1b[31men", "description": "one\\nor two", "type": "agent"},
    *map(terminal, ["0", "3", "dies", "hang"]),
    {"id": "bad", "name": "", "type": "terminal", "env": env(**{"A=B": "x"})},
    {"id": "key\\n\\x9b", "name": "Key", "type": "env_var", "vars": [{"name": "KEY"}]},
]

def initialize(request):
    methods = METHODS
    if VERSION == 2:
        methods = [{("methodId" if key == "id" else key): each[key] for key in each}
                   for each in methods]
        info = {"name": "raw", "version": "1"}
        answer(request, {"protocolVersion": 2, "info": info, "capabilities": {"session": {}},
                         "authMethods": methods})
    else:
        answer(request, {"protocolVersion": 1, "authMethods": methods})

forgotten = fail
def fail(request, *reason):
    if request["method"] in ("auth/login", "authenticate"):
        if request["params"]["methodId"] != "token" or REFUSES:
            return forgotten(request, -32603, "wrong token")
        open(DONE, "w").close()
        return answer(request, {})
    forgotten(request, *reason)

def serve():
    while True:
        request = read()
        method = request.get("method")
        if method == "initialize":
            initialize(request)
        elif method == "session/new" and not os.path.exists(DONE):
            forgotten(request, -32000, "Authentication required")
        elif method == "session/new":
            answer(request, {"sessionId": "s"})
        elif method == "session/prompt":
            prompt(request)
        elif "id" in request:
            fail(request, -32601, "Method not found")
"""


def agent(folder: Path, version: int = 1, *, refuses: bool = False) -> list[str]:
    values = f"FOLDER, VERSION, REFUSES = {str(folder)!r}, {version}, {refuses}"
    return raw_agent(f"{values}\n{AGENT}")


def meet(command: list[str], talk: Callable[[Client], Any]) -> None:
    """Connect, and run `talk`."""

    async def main() -> None:
        async with Launch(command).client() as client:
            await talk(client)

    run(main())


async def logged_in(client: Client) -> bool:
    try:
        await client.new_session()
    except RequestFailed as error:
        if not wants_login(error):
            raise
        return False
    return True


# ---- the ways ----------------------------------------------------------------------------------


@BOTH
def test_what_can_be_done_is_offered_and_the_rest_is_named(version: int, tmp_path: Path) -> None:
    async def talk(client: Client) -> None:
        assert [way.method_id for way in ways(client)] == ["token", "0", "3", "dies", "hang", "bad"]
        first, second = ways(client)[:2]
        assert (first.name, first.description, first.terminal) == ("Token", "one or two", None)
        assert second.terminal is not None
        assert second.terminal.args == ["--login", "0"]
        assert ways(client)[-1].name == "bad"  # it has no name: it goes by its id
        assert others(client) == ["key � (of the unknown kind env_var)"]
        with pytest.raises(NoSuchWay, match="has no login 'key': it names token, 0, 3"):
            way_of(client, "key")

    meet(agent(tmp_path, version), talk)


def test_an_agent_without_a_login_method_raises_with_that_reason() -> None:
    async def talk(client: Client) -> None:
        assert (ways(client), others(client)) == ([], [])
        with pytest.raises(NoSuchWay, match="raw has no login 'x': it names none"):
            way_of(client, "x")
        needed = LoginNeeded(RequestFailed("session/new", AUTH_REQUIRED, "no"), client)
        assert "wants a login first. Log in with the agent's own program" in str(needed)

    meet(raw_agent(""), talk)


# ---- doing it ----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("method", ["token", "0"])
def test_after_a_login_the_agent_works(version: int, method: str, tmp_path: Path) -> None:
    command = agent(tmp_path, version)

    async def talk(client: Client) -> None:
        assert not await logged_in(client)
        await log_in(client, way_of(client, method), command)
        assert await logged_in(client)

    meet(command, talk)


@pytest.mark.parametrize(
    ("method", "error", "words"),
    [
        ("token", RequestFailed, "authenticate failed: wrong token"),
        ("3", LoginFailed, r"--login 3\) ended with exit code 3\."),
        ("dies", LoginFailed, r"was ended by SIGTERM\."),
        ("bad", CommandNotStarted, "could not be started"),
    ],
)
def test_a_login_that_fails_raises_with_the_reason(
    method: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    command = agent(tmp_path, refuses=True)

    async def talk(client: Client) -> None:
        # what is shown of a command is short: this one would fill it with the script
        command_line = [sys.executable, str(script)]
        with pytest.raises(error, match=words):
            await log_in(client, way_of(client, method), command_line)
        assert not await logged_in(client)

    script = tmp_path / "agent.py"
    script.write_text(command[-1])
    meet(command, talk)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    async def talk(client: Client) -> None:
        with pytest.raises(CommandNotStarted, match="there is no command no-such-agent"):
            await log_in(client, way_of(client, "0"), ["no-such-agent"])

    meet(agent(tmp_path), talk)


def test_a_login_that_is_broken_off_is_ended(tmp_path: Path) -> None:
    command = agent(tmp_path)

    async def talk(client: Client) -> None:
        task = asyncio.create_task(log_in(client, way_of(client, "hang"), command))
        await until((tmp_path / "hangs").exists)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    meet(command, talk)
    assert gone(int((tmp_path / "pid").read_text()))


def test_ctrl_c_is_for_the_login_while_it_has_the_terminal(tmp_path: Path) -> None:
    command = agent(tmp_path)
    before = signal.getsignal(signal.SIGINT)

    async def talk(client: Client) -> None:
        task = asyncio.create_task(log_in(client, way_of(client, "hang"), command))
        await until((tmp_path / "hangs").exists)
        # as the terminal does: to everybody in the foreground
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGINT)
        with pytest.raises(LoginFailed, match="ended"):
            await task

    meet(command, talk)
    assert signal.getsignal(signal.SIGINT) is before


# ---- for scripts -------------------------------------------------------------------------------


def test_a_turn_logs_in_first_if_the_agent_wants_it() -> None:
    result = called("--prompt", "x", "--login", "token", *DEMO, "auth")
    assert result.exit_code == 0
    assert result.stdout


def test_a_declined_login_is_not_done(tmp_path: Path) -> None:
    (tmp_path / "done").touch()
    result = called("--prompt", "x", "--login", "none", "--", *agent(tmp_path))
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "it names token, 0, 3, dies, hang, bad, key � (of the unknown kind env_var)."),
        ([], "Choose one with --login, or log in with the agent's own program."),
        (["--login", "token"], "authenticate failed: wrong token"),
        (["--login", "tokn"], "has no login 'tokn': it names token, 0"),
        (["--login", "0"], "The login 0 is done in a terminal, and standard input is none."),
    ],
)
def test_a_login_that_a_script_cannot_do_raises_with_the_reason(
    options: list[str], words: str, tmp_path: Path
) -> None:
    result = called("--prompt", "x", *options, "--", *agent(tmp_path, refuses=True))
    assert (result.exit_code, result.stdout) == (1, "")
    assert words in result.stderr


LATE = """
def prompt(request):
    if not logged_in:
        return forgotten(request, -32000, "Authentication required")
    text("welcome")
    answer(request, {"stopReason": "end_turn"})

logged_in, forgotten = [], fail
def initialize(request):
    answer(request, {"protocolVersion": 1, "authMethods": [{"id": "token", "name": "Token"}]})
def fail(request, *reason):
    logged_in.append(request["method"])
    answer(request, {})
"""


def test_an_agent_that_wants_the_login_only_for_the_prompt_gets_it() -> None:
    result = called("--prompt", "x", "--login", "token", "--", *raw_agent(LATE))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "welcome\n", "")


def test_a_login_in_the_terminal_leaves_standard_output_to_the_turn(tmp_path: Path) -> None:
    ours, terminal = os.openpty()
    try:
        words = [*TWOFOLD, "run", "--prompt", "x", "--login", "0", "--", *agent(tmp_path)]
        done = subprocess.run(
            words, stdin=terminal, capture_output=True, timeout=PATIENCE, check=False
        )
    finally:
        os.close(ours)
        os.close(terminal)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"Who are you? me\n")
