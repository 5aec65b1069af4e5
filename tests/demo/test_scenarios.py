"""The demo agent, met by Twofold's own client: every scenario, in both versions.

Most meet in memory; what needs a process (crashes, standard error, the command line) has one.
The showcase and the life of sessions have files of their own.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import twofold
from tests.peers.validators import Version
from tests.support.demo_meeting import LIMIT, VERSIONS, calls_of, meeting, messages_of, play
from tests.support.real_time import in_real_time, run
from twofold.cli.commands import commands
from twofold.demo import SCENARIOS, demo_agent
from twofold.demo.scene import Demo, Scene
from twofold.errors import LocalError
from twofold.session import Session
from twofold.wire import v2

BOTH = pytest.mark.parametrize("version", VERSIONS)
COMMAND = [sys.executable, "-m", "twofold", "agent"]


# ---- turns that end by themselves --------------------------------------------------------------


class Expected(NamedTuple):
    """What a scenario leaves behind, in either version."""

    messages: list[str]
    calls: dict[str, tuple[str, str, str]] = {}  # noqa: RUF012 (never changed)
    stop: str = "end_turn"
    problems: list[str] = []  # noqa: RUF012


NOISE = ["noise"] * 9
ENDS: dict[str, Expected] = {
    "/stream": Expected(["one two three four five"]),
    "/tools": Expected(
        ["done"],
        {
            "t1a": ("Edit demo.txt", "edit", "completed"),
            "t1b": ("Say hello", "execute", "completed"),
        },
    ),
    "/permission": Expected(["outcome: a1"], {"p1": ("Run make", "execute", "completed")}),
    "/echo  hello there ": Expected(["echo: hello there"]),
    "/update-first": Expected(
        ["The update came before the tool call."],
        {"first-1": ("Count the files", "read", "completed")},
    ),
    "/call-twice": Expected(
        ["The same tool call was announced twice."],
        {"twice-1": ("Read notes.txt", "read", "completed")},
    ),
    "/permission-first": Expected(
        ["The permission request came before its tool call."],
        {"asked-1": ("Delete the build", "delete", "completed")},
    ),
    "/string-output": Expected(
        ["What went in and what came out are plain strings."],
        {"string-1": ("List the files", "search", "completed")},
    ),
    "/unknown": Expected(
        ["An update, a content, a kind and a status that nobody knows."],
        {"unknown-1": ("Teleport the build", "_demo_teleport", "completed")},
    ),
    "/no-ids": Expected(
        ["One message, in two pieces.", "Another message."],
        {"between-1": ("Look around", "other", "completed")},
    ),
    "/user-echo": Expected(["That is what you said."]),
    "/interleaved": Expected(
        [
            "The first message goes on after the second.",
            "The second message comes between.",
        ]
    ),
    "/flood 1000": Expected(["".join(f"{number} " for number in range(1000))]),
    "/big-line 1": Expected(["0123456789abcdef" * 65536]),
    "/noise": Expected(["After a title, between log lines, in a batch of two."], problems=NOISE),
    "/stderr": Expected(["Standard error is yours, not mine: I leave it alone."]),
    "/max-tokens": Expected(["This is as far as I get."], stop="max_tokens"),
    "/max-turn-requests": Expected(["This is as far as I get."], stop="max_turn_requests"),
    "/refusal": Expected(["This is as far as I get."], stop="refusal"),
}


@BOTH
@pytest.mark.parametrize("prompt", ENDS)
def test_a_scenario_leaves_the_same_session_in_both_versions(prompt: str, version: Version) -> None:
    played = play(prompt, version)
    messages, calls, stop, problems = ENDS[prompt]
    assert messages_of(played.state, "agent") == messages
    assert calls_of(played.state) == calls
    assert (played.stop, played.problems) == (stop, problems)
    assert messages_of(played.state, "user") == [prompt]
    assert played.state.state == "idle"


# the scenarios that are tested below, each by itself
ALONE = {
    *("showcase", "slow", "slow-permission", "error", "whole-copy", "early-update"),
    *("late-updates", "after-cancel", "ignore-cancel", "silent", "crash", "auth"),
}


def test_every_scenario_is_tested() -> None:
    assert {prompt.split()[0][1:] for prompt in ENDS} | ALONE == SCENARIOS.keys()


@BOTH
def test_a_scenario_can_be_named_by_a_command_a_word_or_at_the_start(version: Version) -> None:
    one, two, three = (
        play("/refusal", version),
        play(" refusal ", version),
        play("Anything at all", version, "refusal"),
    )
    assert one.stop == two.stop == three.stop == "refusal"
    assert one.text == two.text == three.text


def test_an_agent_started_for_a_scenario_still_obeys_commands() -> None:
    assert play("/echo hi", 2, "refusal").text == "echo: hi"
    assert play("hi", 2, "echo").text == "echo: hi"
    assert play("3", 2, "flood").text == "0 1 2 "


def test_an_unknown_command_is_answered_with_those_that_are_known() -> None:
    text = play("/flod", 2).text
    assert all(f"`/{name}`" in text for name in SCENARIOS)


def test_a_path_is_not_a_command() -> None:
    assert play("/usr/bin/env is missing", 2).state.title == "No more negative zero"


@BOTH
def test_a_message_sent_in_pieces_and_again_as_a_whole_ends_with_the_whole(
    version: Version,
) -> None:
    played = play("/whole-copy", version)
    assert messages_of(played.state, "agent")[-1] == "Piece by piece, and then all at once."


@BOTH
def test_unknown_words_are_kept(version: Version) -> None:
    state = play("/unknown", version).state
    [update] = state.unknown
    assert update.raw.fields["sky"] == "clear"
    smell, _ = state.tool_calls["unknown-1"].content
    assert isinstance(smell, v2.UnknownToolCallContent)
    hologram = state.messages["agent"]["unknown-1"].content[0]
    assert isinstance(hologram, v2.UnknownContent)


@BOTH
def test_string_output_stays_a_string(version: Version) -> None:
    call = play("/string-output", version).state.tool_calls["string-1"]
    assert (call.raw_input, call.raw_output) == ("*.py", "42 files, 3 of them new")


@BOTH
@in_real_time
async def test_an_error_is_reported_as_one(version: Version) -> None:
    async with meeting(version) as met:
        session = await met.client.new_session()
        with pytest.raises(twofold.PeerError, match=r"boom \(-32603\)"):
            await session.prompt("error")
        assert (await session.prompt("/echo still here")).text == "echo: still here"


@pytest.mark.parametrize(("speed", "slept"), [(1, [0.5]), (10, [0.05]), (0, [])])
def test_the_speed_divides_the_pauses_and_zero_has_none(
    speed: float, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    turn: Any = SimpleNamespace(session=SimpleNamespace(state=Session("s1")))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    run(Scene(Demo(speed=speed), turn, "").pause(0.5))
    assert pauses == slept


# ---- turns that are cancelled ------------------------------------------------------------------


async def prompted(session: twofold.ClientSession, prompt: str, until: str) -> asyncio.Task[Any]:
    """Prompt, and wait for an update that contains `until`."""
    seen = asyncio.Event()

    def look(update: Any) -> None:
        if until in str(update):
            seen.set()

    session.on_update(look)
    turn = asyncio.create_task(session.prompt(prompt))
    await seen.wait()
    return turn


@BOTH
@in_real_time
async def test_the_slow_turn_ticks_until_it_is_cancelled(version: Version) -> None:
    async with meeting(version) as met:
        session = await met.client.new_session()
        turn = await prompted(session, "/slow", "tick")
        await session.cancel()
        reply = await turn
        assert (reply.stop_reason, reply.given_up) == ("cancelled", False)
        assert set(reply.text.split()) == {"tick"}


@BOTH
def test_a_permission_that_waits_is_cancelled_with_its_turn(version: Version) -> None:
    async def never(question: twofold.Question) -> None:
        asked.set()
        await asyncio.Event().wait()

    async def main() -> None:
        async with meeting(version, ask=never) as met:
            session = await met.client.new_session()
            turn = asyncio.create_task(session.prompt("/slow-permission"))
            await asked.wait()
            await session.cancel()
            assert (await turn).stop_reason == "cancelled"
            assert session.state.permissions == {}
            # version 1 has no word for cancelled
            status = {1: "failed", 2: "cancelled"}[version]
            assert calls_of(session.state) == {"p1": ("Run make", "execute", status)}
            assert messages_of(session.state, "agent") == []

    asked = asyncio.Event()
    run(main())


@BOTH
@in_real_time
async def test_updates_after_a_cancel_are_taken_and_the_turn_ends_cancelled(
    version: Version,
) -> None:
    async with meeting(version) as met:
        session = await met.client.new_session()
        turn = await prompted(session, "/after-cancel", "Cancel me")
        await session.cancel()
        reply = await turn
        assert (reply.stop_reason, reply.given_up) == ("cancelled", False)
        assert reply.text == "Cancel me. One moment, I am almost done."
        assert (met.problems, met.failures) == ([], [])


@BOTH
@pytest.mark.parametrize(
    ("prompt", "text"),
    [("/ignore-cancel", "I do not stop, whatever you do."), ("/silent", "")],
)
@in_real_time
async def test_a_turn_that_never_ends_is_given_up_by_the_client(
    version: Version, prompt: str, text: str
) -> None:
    async with meeting(version) as met:
        session = await met.client.new_session()
        turn = await prompted(session, prompt, text or prompt)
        other = await met.client.new_session()  # answered when the turn has begun
        await session.cancel(give_up=0.05)
        reply = await turn
        assert (reply.stop_reason, reply.given_up) == ("cancelled", True)
        assert reply.text == text
        assert met.problems[0].kind == "stuck"
        assert (await other.prompt("/echo you hear me")).text == "echo: you hear me"


@BOTH
@in_real_time
async def test_updates_after_the_end_of_a_turn_join_what_they_belong_to(version: Version) -> None:
    async with meeting(version) as met:
        session = await met.client.new_session()
        late = asyncio.Event()

        @session.on_update
        def look(update: Any) -> None:
            if isinstance(update, v2.ToolCallUpdate) and update.status == "completed":
                late.set()

        reply = await session.prompt("/late-updates")
        await late.wait()
        assert reply.stop_reason == "end_turn"
        assert messages_of(session.state, "agent") == ["The turn ends here, and I go on."]
        assert calls_of(session.state) == {"late-1": ("Tidy up", "other", "completed")}
        sent = [str(message) for message in met.from_agent.messages]
        end = next(at for at, each in enumerate(sent) if "end_turn" in each)
        assert next(at for at, each in enumerate(sent) if "I go on" in each) > end


# ---- how it is made -----------------------------------------------------------------------------


@pytest.mark.parametrize(("only", "asked"), [(1, 2), (2, None), (1, None)])
def test_an_agent_of_one_version_speaks_it(only: Version, asked: Version | None) -> None:
    async def main() -> int:
        async with meeting(asked, versions=(only,)) as met:
            session = await met.client.new_session()
            await session.prompt("/stream")
            return met.client.protocol_version

    if asked is not None:
        with pytest.raises(twofold.TwofoldError):
            run(main())
    else:
        assert run(main()) == only


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"scenario": "nope"}, "no scenario 'nope'"),
        ({"speed": -1}, "The speed must be 0 or more"),
        ({"speed": float("nan")}, "The speed must be 0 or more"),
        ({"protocol_versions": ()}, "protocol_versions must hold"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(LocalError, match=reason):
        demo_agent(**wrong)


# ---- as a process ------------------------------------------------------------------------------


def with_process(
    work: Callable[[twofold.Client], Awaitable[None]], *args: str, **more: Any
) -> None:
    async def main() -> None:
        command = [*COMMAND, "--speed", "0", *args]
        async with asyncio.timeout(LIMIT), twofold.connect(command, **more) as client:
            await work(client)

    run(main())


def test_a_crash_is_reported_with_the_exit_status_and_the_last_words() -> None:
    async def work(client: twofold.Client) -> None:
        session = await client.new_session()
        with pytest.raises(twofold.ProcessEnded, match="divided by zero") as died:
            await session.prompt("hi")
        assert died.value.exit_code == 3
        assert messages_of(session.state, "agent") == ["I crash in the middle of a "]

    with_process(work, "crash")


@BOTH
def test_a_flood_of_standard_error_and_of_updates_blocks_neither_side(version: Version) -> None:
    errors = bytearray()

    async def work(client: twofold.Client) -> None:
        session = await client.new_session()
        assert "1 MiB" in (await session.prompt("/stderr")).text
        text = (await session.prompt("/flood")).text
        assert text.endswith(" 49998 49999 ")
        assert len((await session.prompt("/big-line")).text) == 10 * 1024 * 1024

    with_process(work, "--version", str(version), on_stderr=errors.extend)
    assert len(errors) == 1024 * 1024


def test_the_command_lists_its_scenarios_and_refuses_others() -> None:
    listed = CliRunner().invoke(commands, ["agent", "--list"])
    assert [line.split()[0] for line in listed.output.splitlines()] == list(SCENARIOS)
    refused = CliRunner().invoke(commands, ["agent", "nope"])
    assert refused.exit_code == 2
    assert "--list" in refused.output


def test_a_directory_that_cannot_keep_sessions_is_refused_without_a_traceback(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    refused = CliRunner().invoke(commands, ["agent", "--keep", str(tmp_path / "file" / "x")])
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: Cannot read or write sessions at")
