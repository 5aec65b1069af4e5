"""The interactive client with an agent at a URL, and what it does when the connection is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.plain_client import RUN, at_prompt, leave, say
from tests.support.socket_agent import SocketAgent, echo_agent, in_a_thread
from tests.support.terminal_stage import Stage


@pytest.fixture
def remote() -> Iterator[SocketAgent]:
    with in_a_thread(echo_agent()) as served:
        yield served


def client(served: SocketAgent, cwd: Path) -> Stage:
    return Stage([*RUN, served.url], columns=90, rows=50, cwd=cwd)


def test_a_person_talks_to_an_agent_at_a_url(remote: SocketAgent, tmp_path: Path) -> None:
    with client(remote, tmp_path) as stage:
        say(stage, "one", "echo: one")
        leave(stage)
    assert "To resume it: twofold run --resume" in stage.text
    assert remote.url in stage.text


def test_a_lost_connection_is_made_again_with_session_and_draft(
    remote: SocketAgent, tmp_path: Path
) -> None:
    with client(remote, tmp_path) as stage:
        say(stage, "one", "echo: one")
        stage.type("half a sen")
        stage.wait_for("half a sen")
        remote.cut_from_outside()
        stage.wait_for("broke it off")
        stage.wait_for(lambda stage: at_prompt(stage, "half a sen"))
        stage.type("tence")
        stage.press("enter")
        stage.wait_for("echo: half a sentence")
        assert stage.text.count("echo: one") == 1
        assert stage.text.count("of the protocol") == 2
        leave(stage)
    assert remote.connections == 2


def test_a_server_that_shuts_the_client_out_is_not_asked_again(
    remote: SocketAgent, tmp_path: Path
) -> None:
    with client(remote, tmp_path) as stage:
        say(stage, "one", "echo: one")
        remote.refuse = 401
        remote.cut_from_outside()
        stage.wait_for("requires a token")
        stage.wait_for("There is no connection to the agent.")
        stage.wait_for("Enter chooses")
        remote.refuse = None
        stage.press("enter")
        stage.wait_for(lambda stage: stage.text.count("of the protocol") == 2)
        say(stage, "two", "echo: two")
        leave(stage)


def test_an_agent_that_is_not_reached_at_first_is_an_error(tmp_path: Path) -> None:
    with Stage([*RUN, "ws://127.0.0.1:1/acp"], columns=90, rows=20, cwd=tmp_path) as stage:
        assert stage.wait_end() == 7
    assert "nothing listens on port 1" in stage.text.replace("\n", " ")


def test_the_directory_of_the_session_may_be_there_only(
    remote: SocketAgent, tmp_path: Path
) -> None:
    command = [*RUN, "--cwd", "/srv/elsewhere", remote.url]
    with Stage(command, columns=90, rows=50, cwd=tmp_path) as stage:
        say(stage, "look at @notes.txt", "echo: look at @notes.txt")
        stage.type("!pwd")
        stage.press("enter")
        stage.wait_for("The command cannot be run")
        leave(stage)
    assert "Traceback" not in stage.text
