"""The showcase of the demo agent: what it shows, in both versions, and what changes it."""

import base64
import zlib
from typing import Any

import pytest

import twofold
from tests.peers.validators import Version
from tests.support.demo_meeting import VERSIONS, calls_of, choose, meeting, messages_of, play
from tests.support.real_time import in_real_time, run
from twofold.convert.patches import parse_patch
from twofold.demo import SCENARIOS
from twofold.text.terminal import TerminalText
from twofold.wire import v2
from twofold.wire.content import ImageContent, ResourceLink

BOTH = pytest.mark.parametrize("version", VERSIONS)


@BOTH
def test_the_showcase_shows_everything(version: Version) -> None:
    played = play("The report says “-0 °C”. Please fix that.", version)
    state = played.state
    assert (played.stop, played.problems) == ("end_turn", [])
    assert "keeps its sign" in messages_of(state, "thought")[0]
    assert [title for title, _, status in calls_of(state).values() if status == "completed"] == [
        *("Read report.py", "Search for “°C”", "Edit report.py", "Write test_report.py"),
        "Run the tests and look at Oslo",
    ]
    assert state.title == "No more negative zero"
    assert state.usage is not None
    assert state.usage.cost
    assert {command.name for command in state.commands if isinstance(command, v2.Command)} == set(
        SCENARIOS
    )
    [plan] = state.plans.values()
    assert isinstance(plan.plan, v2.PlanItems)
    assert {entry.status for entry in plan.plan.entries} == {"completed"}
    assert [notice.title for notice in state.notices] == ["This is a demonstration"]


@BOTH
def test_the_showcase_has_two_diffs_and_one_is_a_new_file(version: Version) -> None:
    state = play("go", version).state
    diffs = [
        (item.changes[0], item.patch)
        for call in state.tool_calls.values()
        for item in call.content
        if isinstance(item, v2.Diff)
    ]
    modify, add = diffs
    assert isinstance(modify[0], v2.DiffModify)
    assert isinstance(add[0], v2.DiffAdd)
    for change, patch in diffs:
        assert patch
        [file] = parse_patch(patch.text)
        assert isinstance(change, v2.DiffModify | v2.DiffAdd)
        assert file.path == change.path
        assert change.path.startswith("/home/ada/weather/")


def test_the_showcase_ends_with_a_real_image_and_a_link() -> None:
    state = play("go", 2).state
    *_, image, link = list(state.messages["agent"].values())[-1].content
    assert isinstance(image, ImageContent)
    assert isinstance(link, ResourceLink)
    data = base64.b64decode(image.data)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, kinds = 8, []
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        body, sum_ = data[at + 4 : at + 8 + size], data[at + 8 + size : at + 12 + size]
        assert zlib.crc32(body) == int.from_bytes(sum_)
        kinds.append(body[:4])
        at += 12 + size
    assert (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")


def test_terminal_output_is_cut_inside_escapes_and_characters_and_still_reads() -> None:
    played = play("go", 2)
    updates = [
        message["params"]["update"]
        for message in played.from_agent
        if message.get("method") == "session/update"
    ]
    pieces = [base64.b64decode(each["data"]) for each in updates if "data" in each]
    assert pieces[0].endswith(b"\x1b[3")
    assert any(piece.endswith(b"\xc2") for piece in pieces)
    text = TerminalText()
    for piece in pieces:
        text.feed(piece)
    assert "4 passed in 0.03s" in text.text
    assert "Oslo: 0 °C, light snow ❄" in text.text
    [terminal] = played.state.terminals.values()
    assert bytes(terminal.output) == b"".join(pieces)
    assert terminal.exit_status == v2.TerminalExitStatus(0)


@BOTH
def test_tool_calls_of_the_showcase_send_output_in_turns(version: Version) -> None:
    played = play("go", version)
    ids = [
        update["toolCallId"]
        for message in played.from_agent
        if (update := message.get("params", {}).get("update", {})).get("toolCallId")
    ]
    read, search = list(dict.fromkeys(ids))[:2]
    both = [call for call in ids if call in {read, search}]
    if version == 2:
        assert both[:5] == [read, search, search, read, search]
    else:  # the pieces of what a call found are sent together
        assert both[:3] == [read, search, read]


@BOTH
@pytest.mark.parametrize("kind", ["reject_once", "none of them"])
def test_without_permission_the_showcase_runs_nothing(version: Version, kind: str) -> None:
    state = play("go", version, ask=choose(kind)).state
    *_, run_call = state.tool_calls.values()
    assert (run_call.title, run_call.status) == ("Run the tests and look at Oslo", "failed")
    assert state.terminals == {}
    assert "I ran nothing, as you wished" in messages_of(state, "agent")[-1]
    [plan] = state.plans.values()
    assert isinstance(plan.plan, v2.PlanItems)
    assert plan.plan.entries[-1].status == ("pending" if version == 1 else "cancelled")


@BOTH
@in_real_time
async def test_what_was_allowed_for_always_is_not_asked_again(version: Version) -> None:
    asked: list[twofold.Question] = []

    def ask(question: twofold.Question) -> Any:
        asked.append(question)
        return question.option("allow_always")

    async with meeting(version, ask=ask) as met:
        session = await met.client.new_session()
        for _ in range(2):
            await session.prompt("go")
        assert len(asked) == 1


@BOTH
def test_the_cost_of_a_session_never_falls(version: Version) -> None:
    costs: list[float] = []

    async def main() -> None:
        async with meeting(version) as met:
            session = await met.client.new_session()

            @session.on_update
            def note(update: Any) -> None:
                if isinstance(update, v2.UsageUpdate) and update.cost:
                    costs.append(update.cost.amount)

            for _ in range(4):
                await session.prompt("go")

    run(main())
    assert len(costs) == 8
    assert costs == sorted(set(costs))


@BOTH
@in_real_time
async def test_the_options_change_the_story(version: Version) -> None:
    def ask(question: twofold.Question) -> Any:
        raise AssertionError("no permission is asked in the mode code")

    async with meeting(version, ask=ask) as met:
        session = await met.client.new_session()
        await session.set_mode("code")
        await session.set_config_option("thoughts", "quiet")
        await session.prompt("go")
        assert met.problems == []
        assert messages_of(session.state, "thought") == []
        assert {status for _, _, status in calls_of(session.state).values()} == {"completed"}


@BOTH
@pytest.mark.parametrize("prompt", ["go", "/tools", "/permission", "/noise", "/unknown"])
def test_two_runs_send_the_same_bytes(version: Version, prompt: str) -> None:
    first, second = play(prompt, version), play(prompt, version)
    assert first.bytes_from_agent == second.bytes_from_agent
    assert b'"s1"' in first.bytes_from_agent
