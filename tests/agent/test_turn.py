"""Everything an agent can send, as clients of either version get it and as the schemas want it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import twofold
from tests.peers.validators import Schemas, SchemaValidator
from tests.support.raw_client import RawClient, Version, an_agent, in_session, settled, talking
from tests.support.real_time import in_real_time, run
from twofold import UNSET, InvalidArgument, Session, v2
from twofold.agent.session import open_session
from twofold.wire.content import ImageContent, ResourceLink, TextContent
from twofold.wire.shared import Content

BOTH = pytest.mark.parametrize("version", [1, 2])
Handler = Callable[[twofold.Turn], Awaitable[Any]]

PICTURE = ImageContent("eA==", "image/png")


def state_after(
    version: Version,
    handler: Handler,
    problems: list[twofold.Problem] | None = None,
    stop: str = "end_turn",
) -> Session:
    """What a client of Twofold makes of a turn."""

    async def main() -> Session:
        agent, reported = an_agent()
        agent.on_prompt(handler)
        here, there = twofold.memory_pair()
        serving = asyncio.create_task(agent.serve(there))
        async with twofold.connect(here, version=version) as client:
            session = await client.new_session("/work")
            reply = await session.prompt("Go")
            assert reply.stop_reason == stop
        await serving
        assert [each.text for each in reported if each.kind != "loss"] == []
        if problems is not None:
            problems.extend(reported)
        return session.state

    return run(main())


def texts(state: Session, role: Any = "agent") -> list[str]:
    return [message.text for message in state.messages[role].values()]


def the_call(state: Session) -> twofold.ToolCall:
    (call,) = state.tool_calls.values()
    return call


def shown(call: twofold.ToolCall) -> list[str]:
    """The text that a tool call shows."""
    return [
        item.content.text
        for item in call.content
        if isinstance(item, Content) and isinstance(item.content, TextContent)
    ]


# ---- messages --------------------------------------------------------------------------------


@BOTH
def test_text_goes_on_until_something_else_comes_between(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        await turn.think("I ")
        await turn.think("think.")
        await turn.say("One ")
        await turn.plan(["a plan is no boundary"])
        await turn.usage(1, 2)
        await turn.say("message.")
        async with turn.tool_call("Work"):
            pass
        await turn.say("Another.")
        await turn.think("More.")
        await turn.say("Third.")

    state = state_after(version, answer)
    assert texts(state) == ["One message.", "Another.", "Third."]
    assert texts(state, "thought") == ["I think.", "More."]


@BOTH
@in_real_time
async def test_the_prompt_is_there_as_text_and_as_blocks(version: Version) -> None:
    seen: list[twofold.Turn] = []
    agent, _ = an_agent()

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        seen.append(turn)

    link = {"type": "resource_link", "name": "a", "uri": "file:///a"}
    blocks = [{"type": "text", "text": "Look"}, link, {"type": "text", "text": "at it"}]
    async with in_session(agent, version) as client:
        prompt = client.ask("session/prompt", {"sessionId": "s", "prompt": blocks})
        await client.wait_for(client.end_of(prompt))
    (turn,) = seen
    assert turn.text == "Look\nat it"
    assert turn.blocks == [
        *(TextContent("Look"), ResourceLink("a", "file:///a"), TextContent("at it"))
    ]
    assert turn.session.state.messages["user"][turn.message_id].content == turn.blocks


@BOTH
def test_content_of_any_kind_can_be_sent(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        await turn.say("See: ")
        await turn.say(PICTURE)
        await turn.think(ResourceLink("a", "file:///a"))

    state = state_after(version, answer)
    (message,) = state.messages["agent"].values()
    assert message.content == [TextContent("See: "), PICTURE]
    (thought,) = state.messages["thought"].values()
    assert thought.content == [ResourceLink("a", "file:///a")]


@BOTH
def test_messages_interleave(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        one, two, mine = turn.message(), turn.message(), turn.thought("my-own-id")
        for each in (one, two, one, mine, two):
            await each.append(f"{each.message_id} ")
        await turn.message("my-own-id").append("another kind, another message")

    state = state_after(version, answer)
    one, two, mine = texts(state)
    assert one.split()[0] == one.split()[1] != two.split()[0] == two.split()[1]
    assert state.messages["thought"]["my-own-id"].text == "my-own-id "
    assert mine == "another kind, another message"


def test_a_message_can_be_replaced_and_taken_back() -> None:
    async def answer(turn: twofold.Turn) -> None:
        message = turn.message("m")
        await message.append("Fixed teh typo.")
        await message.replace("Fixed the typo.", PICTURE)
        await message.append(" Really.")
        gone = turn.thought("t")
        await gone.append("Not for you.")
        await gone.clear()

    state = state_after(2, answer)
    fixed = [TextContent("Fixed the typo."), PICTURE, TextContent(" Really.")]
    assert state.messages["agent"]["m"].content == fixed
    assert state.messages["thought"]["t"].content == []


def test_version_1_gets_a_correction_and_the_loss_is_reported() -> None:
    async def answer(turn: twofold.Turn) -> None:
        message = turn.message("m")
        await message.append("Fixed teh typo.")
        await message.replace("Fixed the typo.")
        await message.append(" Really.")
        await message.clear()

    problems: list[twofold.Problem] = []
    state = state_after(1, answer, problems)
    assert texts(state) == ["Fixed teh typo.", "[correction]\nFixed the typo. Really."]
    reasons = " ".join(problem.text for problem in problems)
    assert "cannot replace what was sent" in reasons
    assert "this one clears the content" in reasons


@pytest.mark.parametrize("pieces", [1, 63, 64, 65, 200])
def test_a_replacement_that_extends_what_version_1_has_is_no_correction(pieces: int) -> None:
    async def answer(turn: twofold.Turn) -> None:
        message = turn.message("m")
        texts = [f"ü{number} " for number in range(pieces)]
        for piece in texts:
            await message.append(piece)
        await turn.message("other").append("meanwhile")
        await message.replace(*texts, "the end")
        await message.append(".")

    state = state_after(1, answer)
    whole = "".join(f"ü{number} " for number in range(pieces)) + "the end."
    assert [state.messages["agent"]["m"].text, *texts(state)[1:]] == [whole, "meanwhile"]


# ---- tool calls ------------------------------------------------------------------------------


@BOTH
def test_a_tool_call_sends_its_title_kind_and_status(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call(
            "Read",
            kind="read",
            name="read_file",
            locations=["/a", Path("/b"), ("/c", 3), v2.ToolCallLocation("/d", 4), "in/here"],
            raw_input={"path": "/a"},
            tool_call_id="mine",
        ) as call:
            assert (call.tool_call_id, call.status, call.ended) == ("mine", "in_progress", False)
            await call.update(title="Read a", raw_input=[1])
            await call.complete({"n": 1})
            assert (call.status, call.ended) == ("completed", True)

    call = the_call(state_after(version, answer))
    assert (call.tool_call_id, call.title, call.kind, call.status) == (
        *("mine", "Read a", "read", "completed"),
    )
    assert (call.name, call.raw_input, call.raw_output) == ("read_file", [1], {"n": 1})
    assert [(each.path, each.line or None) for each in call.locations] == [
        *(("/a", None), ("/b", None), ("/c", 3), ("/d", 4), ("/work/in/here", None)),
    ]


@BOTH
def test_a_tool_call_shows_items_that_are_appended_and_replaced(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("One", tool_call_id="one") as call:
            await call.append("first")
            await call.append(PICTURE)
            await call.append(Content(TextContent("whole")))
        async with turn.tool_call("Two", tool_call_id="two") as call:
            await call.append("forgotten")
            await call.replace("instead", PICTURE)
            await call.append("after")
        async with turn.tool_call("Three", tool_call_id="three") as call:
            await call.append("forgotten")
            await call.replace()
            await call.locate("/a")
            await call.locate(("/b", 2))

    calls = state_after(version, answer).tool_calls
    picture = Content(PICTURE)
    assert calls["one"].content == [
        *(Content(TextContent("first")), picture, Content(TextContent("whole")))
    ]
    assert calls["two"].content == [
        *(Content(TextContent("instead")), picture, Content(TextContent("after")))
    ]
    assert calls["three"].content == []
    assert [(each.path, each.line) for each in calls["three"].locations] == [("/b", 2)]


def test_a_field_can_be_cleared_in_version_2() -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Read", kind="read", raw_input=1, name="n") as call:
            await call.update(kind=None, raw_input=None, name=None)

    call = the_call(state_after(2, answer))
    assert (call.kind, call.raw_input, call.name) == ("other", None, None)


class Stop(Exception):
    pass


ENDS: list[tuple[str, BaseException | None, str]] = [
    ("the block is left", None, "completed"),
    ("an exception leaves it", Stop(), "failed"),
    ("it is cancelled", asyncio.CancelledError(), "cancelled"),
]


@pytest.mark.parametrize(("error", "status"), [end[1:] for end in ENDS], ids=[e[0] for e in ENDS])
def test_leaving_the_block_ends_a_tool_call(error: BaseException | None, status: str) -> None:
    async def answer(turn: twofold.Turn) -> None:
        try:
            async with turn.tool_call("Work"):
                if error is not None:
                    raise error
        except (Stop, asyncio.CancelledError):
            pass

    assert the_call(state_after(2, answer)).status == status
    lowered = "failed" if status == "cancelled" else status  # it has no word for it
    assert the_call(state_after(1, answer)).status == lowered


@BOTH
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_call_that_was_ended_before_is_left_as_it_is(version: Version, status: str) -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Work") as call:
            await call.update(status=status)
        async with turn.tool_call("Fail") as call:
            await call.fail("No such file", {"errno": 2})

    first, second = state_after(version, answer).tool_calls.values()
    assert first.status == ("failed" if (version, status) == (1, "cancelled") else status)
    assert (second.status, shown(second), second.raw_output) == (
        *("failed", ["No such file"], {"errno": 2}),
    )


@BOTH
def test_a_call_without_a_block_is_started_by_hand(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        call = turn.tool_call("Work")
        assert call.status == "pending"
        await call.start()
        await call.complete()

    assert the_call(state_after(version, answer)).status == "completed"


# ---- diffs -----------------------------------------------------------------------------------

PATCH = """\
diff --git a/old.txt b/new.txt
similarity index 50%
rename from old.txt
rename to new.txt
--- a/old.txt
+++ b/new.txt
@@ -1 +1 @@
-one
+two
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
"""


def diffs_of(version: Version) -> list[Any]:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Edit", kind="edit") as call:
            await call.diff("/a.txt", "one\ntwo\n", "one\n2\n")
            await call.diff(Path("src/b.txt"), None, "new\n")
            await call.diff("/c.txt", "old\n", None)
            await call.diff("/same.txt", "same\n", "same\n")
            await call.patch(PATCH)

    return list(the_call(state_after(version, answer)).content)


def test_diffs_are_made_of_two_texts_or_of_a_patch() -> None:
    modify, add, delete, same, patch = diffs_of(2)
    assert modify.changes == [v2.DiffModify("/a.txt")]
    assert modify.patch.format == "git_patch"
    assert "-two\n+2\n" in modify.patch.text
    assert add.changes == [v2.DiffAdd("/work/src/b.txt")], "a path is absolute"
    assert delete.changes == [v2.DiffDelete("/c.txt")]
    assert (same.changes, same.patch) == ([v2.DiffModify("/same.txt")], UNSET)
    assert patch.changes == [
        v2.DiffMove("/work/old.txt", "/work/new.txt"),
        v2.DiffDelete("/work/gone.txt"),
    ]
    assert patch.patch.text == PATCH


def test_version_1_gets_the_changed_lines() -> None:
    texts_of = [diff.patch.text for diff in diffs_of(1) if isinstance(diff, v2.Diff) and diff.patch]
    lines = {line for text in texts_of for line in text.splitlines()}
    assert {"-two", "+2", "+new", "-old", "-one", "+two", "-bye"} <= lines


@BOTH
def test_a_diff_of_nothing_and_a_patch_that_is_none_are_refused(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Edit") as call:
            with pytest.raises(InvalidArgument, match="needs a text"):
                await call.diff("/a", None, None)
            with pytest.raises(InvalidArgument, match="changes a file"):
                await call.patch("")
            with pytest.raises(InvalidArgument, match="must be a Git patch"):
                await call.patch("I changed nothing.")
            with pytest.raises(InvalidArgument, match="must be a Git patch"):
                await call.patch("--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n")

    assert the_call(state_after(version, answer)).content == []


# ---- terminals -------------------------------------------------------------------------------

PRINTED = "grün \x1b[32m✓\x1b[0m 🙂\n".encode()


async def print_by_bytes(turn: twofold.Turn) -> None:
    async with turn.tool_call("Run", kind="execute") as call:
        terminal = await call.terminal("make all", "/src")
        assert not terminal.ended
        for byte in PRINTED:
            await terminal.write(bytes([byte]))
        await terminal.write("done\n")
        await terminal.exit(2)
        assert terminal.ended


def test_a_terminal_keeps_bytes_that_are_split_inside_characters() -> None:
    state = state_after(2, print_by_bytes)
    (terminal,) = state.terminals.values()
    assert bytes(terminal.output) == PRINTED + b"done\n"
    assert (terminal.command, terminal.cwd) == ("make all", "/src")
    assert terminal.exit_status == v2.TerminalExitStatus(2)
    assert the_call(state).content == [v2.Terminal(terminal.terminal_id)]


def test_version_1_gets_the_text_of_a_terminal() -> None:
    assert shown(the_call(state_after(1, print_by_bytes))) == [
        "$ make all\ngrün ✓ 🙂\ndone\n[exit 2]"
    ]


@BOTH
def test_a_terminal_can_be_shown_by_a_later_call(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        terminal = await turn.terminal("sleep 5", "build")
        await terminal.write(b"printed before the first look\n")
        async with turn.tool_call("Look") as call:
            await call.append(terminal)
            await call.append("and text")
        await terminal.exit(signal="SIGTERM")

    state = state_after(version, answer)
    if version == 2:
        (terminal,) = state.terminals.values()
        assert terminal.exit_status == v2.TerminalExitStatus(signal="SIGTERM")
        assert terminal.cwd == "/work/build"
        assert the_call(state).content[0] == v2.Terminal(terminal.terminal_id)
    else:
        first, second = shown(the_call(state))
        assert "printed before the first look" in first
        assert first.endswith("[ended by SIGTERM]")
        assert second == "and text"


def test_what_a_terminal_printed_is_not_lost_with_what_version_1_cannot_say() -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Run") as call:
            terminal = await call.terminal("make")
            await terminal.write("printed")
            await terminal.exit(0)
            await turn.message("m").clear()

    assert shown(the_call(state_after(1, answer))) == ["$ make\nprinted\n[exit 0]"]


@in_real_time
async def test_a_flood_of_terminal_output_is_gathered_for_version_1() -> None:
    agent, _ = an_agent()
    go = asyncio.Event()

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Run") as call:
            terminal = await call.terminal()
            for number in range(500):
                await terminal.write(f"{number}\n")
            await go.wait()

    async with in_session(agent, 1) as client:
        client.prompt()
        await client.until(lambda: "499" in str(client.updates()))
        assert client.story().count("tool_call_update") < 10
        go.set()
        await client.wait_for("result end_turn")


def test_a_flood_of_content_is_gathered_for_version_1() -> None:
    def written(pieces: int) -> int:
        lines: list[Any] = []

        async def main() -> None:
            agent, _ = an_agent()
            frozen = asyncio.Event()

            @agent.on_prompt
            async def answer(turn: twofold.Turn) -> None:
                timer = asyncio.get_running_loop().call_later(3600, frozen.set)
                open_session(turn.session)._gathering = timer
                async with turn.tool_call("Search") as call:
                    for number in range(pieces):
                        await call.append(f"piece {number:05}")
                        await turn.say("x")

            async with in_session(agent, 1) as client:
                client.prompt()
                await client.wait_for("result end_turn")
                lines.extend(client.updates())
            shown = [each for each in lines if each.get("content") and "toolCallId" in each]
            assert len(shown[-1]["content"]) == pieces
            assert lines.index(shown[-1]) < len(lines) - 1, "it is sent before the call ends"

        run(main())
        return len(json.dumps(lines))

    assert written(1_000) < 2.2 * written(500)


# ---- plans and what belongs to the session ---------------------------------------------------


@BOTH
def test_a_plan_is_sent_whole_and_can_be_removed(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        whole = v2.PlanEntry("check", "high", "completed")
        await turn.plan(["look", ("fix", "in_progress"), whole])
        await turn.say("planned")

    async def nothing_left(turn: twofold.Turn) -> None:
        await answer(turn)
        await turn.plan([])

    (plan,) = state_after(version, answer).plans.values()
    assert isinstance(plan.plan, v2.PlanItems)
    assert plan.plan.entries == [
        v2.PlanEntry("look", "medium", "pending"),
        v2.PlanEntry("fix", "medium", "in_progress"),
        v2.PlanEntry("check", "high", "completed"),
    ]
    (plan,) = state_after(version, nothing_left).plans.values()
    assert isinstance(plan.plan, v2.PlanItems)
    assert plan.plan.entries == []


OPTION = v2.SessionConfigSelect(
    config_id="mode",
    name="Mode",
    category="mode",
    current_value="ask",
    options=[v2.SessionConfigUngrouped("ask", "Ask"), v2.SessionConfigUngrouped("code", "Code")],
)


@BOTH
def test_title_usage_commands_options_and_notices_belong_to_the_session(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        await turn.title("Gone")
        await turn.title(None)
        await turn.title("A title")
        await turn.usage(1, 2)
        await turn.usage(10, 20, v2.Cost(0.25, "EUR"))
        await turn.commands([v2.Command("go", "Go", v2.TextCommandInput("where"))])
        await turn.config_options([OPTION])
        assert turn.session.option("mode") == "ask"
        await turn.session.set_option("mode", "code")
        await turn.notice("Careful", "It is hot", "warning")
        await turn.notice("By the way")

    state = state_after(version, answer)
    assert state.title == "A title"
    assert state.usage == v2.UsageUpdate(10, 20, v2.Cost(0.25, "EUR"))
    assert state.commands == [v2.Command("go", "Go", v2.TextCommandInput("where"))]
    (option,) = state.config_options
    assert isinstance(option, v2.SessionConfigSelect)
    assert option.current_value == "code"
    assert [(each.severity, each.title, each.description) for each in state.notices] == [
        ("warning", "Careful", "It is hot"),
        ("info", "By the way", UNSET),
    ]


def test_a_title_can_be_taken_away() -> None:
    async def answer(turn: twofold.Turn) -> None:
        await turn.title("Gone")
        await turn.title(None)

    assert state_after(2, answer).title is None


@BOTH
def test_any_update_can_be_sent_as_it_is(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        await turn.send(v2.AgentMessageChunk("m", TextContent("one")))
        await turn.session.send(v2.AgentMessageChunk("m", TextContent(" two")))

    assert texts(state_after(version, answer)) == ["one two"]


SHOWS: dict[str, Any] = {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}}


@pytest.mark.parametrize("shows", [SHOWS, {}])
@in_real_time
async def test_version_1_gets_what_it_declared_that_it_shows(shows: dict[str, Any]) -> None:
    agent, problems = an_agent()

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        await turn.notice("Careful")
        await turn.config_options([OPTION, BOOLEAN])
        await turn.send(v2.CompactionUpdate("c", "completed"))

    hello = {"protocolVersion": 1, "clientCapabilities": {"session": shows}}
    async with talking(agent, 1, initialized=False) as client:
        await client.call("initialize", hello)
        await client.new_session()
        await client.reply(client.prompt())
        options = [each["id"] for each in client.updates()[-3 if shows else 0]["configOptions"]]
        if shows:
            assert client.story() == [
                "notice",
                "config_option_update",
                "current_mode_update",
                "compaction_update",
                "result end_turn",
            ]
            assert options == ["mode", "loud"]
        else:
            assert client.story() == [
                *("config_option_update", "current_mode_update", "result end_turn")
            ]
            assert options == ["mode"]
    assert [problem.kind for problem in problems] == ([] if shows else ["loss"] * 3)


# ---- ids -------------------------------------------------------------------------------------


@BOTH
@in_real_time
async def test_ids_are_unique_in_a_session_also_among_those_that_an_agent_chose(
    version: Version,
) -> None:
    made: list[str] = []
    agent, _ = an_agent()

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        made.append(turn.message_id)
        for number in range(5):
            # sent too early
            await turn.message(f"message-{5 * number}").append("x")
            for handle in (turn.message(), turn.thought()):
                await handle.append("x")
                made.append(handle.message_id)
            async with turn.tool_call("x") as call:
                terminal = await call.terminal()
            made.extend([call.tool_call_id, terminal.terminal_id])

    async with in_session(agent, version) as client:
        for _ in range(3):
            client.mark()
            await client.wait_for(client.end_of(client.prompt()))
    assert len(made) == len(set(made)) == 3 * 21


# ---- the schemas -----------------------------------------------------------------------------


async def send_it_all(turn: twofold.Turn) -> str | None:
    await turn.think("Hm.")
    message = turn.message()
    await message.append("Fixed teh typo.")
    await message.replace("Fixed the typo.")
    await message.clear()
    await turn.say(PICTURE)
    await turn.plan(["look", ("fix", "in_progress")])
    await turn.plan([])
    async with turn.tool_call(
        "Edit",
        kind="edit",
        name="edit",
        locations=[("/a", 1)],
        raw_input={},
        on_cancel=lambda: None,
    ) as call:
        await call.append("text")
        await call.diff("/a", "1\n", "2\n")
        await call.diff("/b", None, "2\n")
        await call.patch(PATCH)
        await call.locate("/b")
        await call.replace("only this")
        assert await turn.ask("May I?", call, description="It is safe.")
        await call.complete([1, "two", None])
    async with turn.tool_call("Run", kind="execute") as call:
        terminal = await call.terminal("make", on_cancel=lambda: None)
        await terminal.write(b"\xff\x00half of \xc3")
        assert not await turn.ask("Run it?", call, command="make", cwd="/src")
        await terminal.exit(-1)
        await call.fail("It broke.")
    async with turn.tool_call("Left open") as call:
        await call.terminal()
        await call.update(status="paused")
    await turn.usage(1, 2, v2.Cost(1.5, "EUR"))
    await turn.title("A title")
    await turn.title(None)
    await turn.commands([v2.Command("go", "Go", v2.TextCommandInput("where"))])
    await turn.config_options([OPTION, BOOLEAN])
    await turn.notice("Careful", "Hot", "warning")
    if turn.text == "fail":
        raise twofold.RequestError(-32000, "Log in", {"how": "soon"})
    return "refusal" if turn.text == "refuse" else None


BOOLEAN = v2.SessionConfigBoolean(config_id="loud", name="Loud", current_value=True)


@BOTH
def test_everything_an_agent_writes_is_valid(
    version: Version, valid: SchemaValidator, schemas: Schemas
) -> None:
    async def main() -> RawClient:
        agent, _ = an_agent(auth_methods=[v2.AuthMethodAgent("token", "Token")])
        agent.on_prompt(send_it_all)

        @agent.on_new_session
        async def prepare(session: twofold.AgentSession) -> None:
            await session.config_options([OPTION, BOOLEAN])
            await session.commands([v2.Command("go", "Go")])

        async with in_session(agent, version) as client:
            for text in ("say", "refuse", "fail"):
                client.mark()
                client.prompt(text)
                for outcome in ({"outcome": "selected", "optionId": "allow"}, {"outcome": "?"}):
                    client.answer(await client.request(), {"outcome": outcome})
                ends = {"say": "end_turn", "refuse": "refusal", "fail": "error"}
                if (version, text) == (1, "fail"):
                    await client.wait_for("error -32000")
                else:
                    await client.wait_for(client.end_of(0, ends[text]))
            await finish(client)
        return client

    client = run(main())
    results = {
        definition["x-method"]: name
        for name, definition in schemas[f"v{version}", "stable"]["$defs"].items()
        if "x-method" in definition and name.endswith("Response")
    }
    notification = "SessionNotification" if version == 1 else "UpdateSessionNotification"
    requests = {"session/update": notification, "session/request_permission": None}
    objections = []
    for message in client.messages:
        message.pop("seen", None)
        if "method" in message:
            name = requests[message["method"]] or "RequestPermissionRequest"
            objections += valid(version, "stable", name, message["params"])
        elif "error" in message:
            objections += valid(version, "stable", "Error", message["error"])
        else:
            method = client.asked[message["id"]]
            objections += valid(version, "stable", results[method], message["result"])
    assert objections == []
    assert len(client.messages) > 100


async def finish(client: RawClient) -> None:
    """Everything else that a client can ask."""
    if client.version == 1:
        await client.call("authenticate", {"methodId": "token"})
        await client.call("logout")
        await client.call("session/set_mode", {"sessionId": "s", "modeId": "code"})
        option = {"sessionId": "s", "configId": "mode", "value": "ask"}
    else:
        await client.call("auth/login", {"methodId": "token"})
        await client.call("auth/logout")
        option = {"sessionId": "s", "configId": "mode", "type": "id", "value": "code"}
    await client.call("session/set_config_option", option)
    await client.reply(client.load())
    await client.reply(client.load(replay=False))
    await client.call("session/list")
    await client.call("session/close", {"sessionId": "s"})
    await client.reply(client.load(replay=False))
    await settled()
    await client.call("session/delete", {"sessionId": "s"})
    await client.refused("nonsense")
