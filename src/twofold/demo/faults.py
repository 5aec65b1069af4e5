"""Faults that were met in real agents, one scenario for each: a client should survive them all.

Some faults of version 1 cannot be expressed in version 2, which has one update for the beginning
and the change of a tool call, and requires message ids. There a scenario sends the nearest thing
that version 2 allows.
"""

import asyncio
import sys

from twofold.agent.session import AgentSession, open_session
from twofold.agent.turn import ALLOW, REJECT
from twofold.demo.scene import Play, Scenario, Scene, call_content, text_content
from twofold.wire import codec, v2
from twofold.wire.content import TextContent
from twofold.wire.shared import SelectedPermissionOutcome

# ---- tool calls in the wrong order, sent twice, or of unknown kinds ---------------------------

_V1, _V2 = "tool_call", "tool_call_update"


async def update_first(scene: Scene) -> None:
    call = {"toolCallId": f"first-{scene.number}"}
    begun = {"title": "Count the files", "kind": "read", "status": "in_progress"}
    half = call_content("half of them: 21")
    if scene.protocol_version == 1:
        await scene.update(_V2, **call, status="in_progress", content=[half])
        await scene.pause()
        await scene.update(_V1, **call, **begun, content=[half])
    else:
        await scene.update("tool_call_content_chunk", **call, content=half)
        await scene.pause()
        await scene.update(_V2, **call, **begun)
    await scene.pause()
    both = [half, call_content("all of them: 42")]
    await scene.update(_V2, **call, status="completed", content=both)
    await scene.say("The update came before the tool call.")


async def call_twice(scene: Scene) -> None:
    call = {"toolCallId": f"twice-{scene.number}", "kind": "read", "status": "in_progress"}
    announce = _V1 if scene.protocol_version == 1 else _V2
    await scene.update(announce, **call, title="Read", content=[call_content("which file?")])
    await scene.pause()
    notes = call_content("buy milk")
    await scene.update(announce, **call, title="Read notes.txt", content=[notes])
    await scene.pause()
    await scene.update(_V2, toolCallId=call["toolCallId"], status="completed")
    await scene.say("The same tool call was announced twice.")


async def permission_first(scene: Scene) -> None:
    call = v2.ToolCallPatch(
        f"asked-{scene.number}",
        title="Delete the build",
        kind="delete",
        status="pending",
        raw_input={"command": "rm -r build"},
    )
    response = await scene.session.request_permission(
        v2.RequestPermissionRequest(
            scene.session.session_id,
            "Delete the build",
            [ALLOW, REJECT],
            subject=v2.ToolCallPermissionSubject(call),
        )
    )
    outcome = response.outcome
    allowed = (
        isinstance(outcome, SelectedPermissionOutcome) and outcome.option_id == ALLOW.option_id
    )
    status = "completed" if allowed else "failed"
    await scene.session.send(v2.ToolCallUpdate(call.tool_call_id, status=status))
    await scene.say("The permission request came before its tool call.")


async def string_output(scene: Scene) -> None:
    async with scene.turn.tool_call(
        "List the files",
        kind="search",
        raw_input="*.py",
        tool_call_id=f"string-{scene.number}",
    ) as call:
        await scene.pause()
        await call.complete(raw_output="42 files, 3 of them new")
    await scene.say("What went in and what came out are plain strings.")


async def unknown(scene: Scene) -> None:
    await scene.update("_demo_forecast", sky="clear", degrees=21)
    await scene.update(
        "agent_message_chunk",
        messageId=f"unknown-{scene.number}",
        content={"type": "_demo_hologram", "data": "a cat"},
    )
    call = {"toolCallId": f"unknown-{scene.number}"}
    await scene.update(
        _V1 if scene.protocol_version == 1 else _V2,
        **call,
        title="Teleport the build",
        kind="_demo_teleport",
        status="_demo_napping",
        content=[{"type": "_demo_smell", "of": "rain"}, call_content("zzz")],
    )
    await scene.pause()
    await scene.update(
        "agent_message_chunk",
        messageId=f"unknown-{scene.number}",
        content=text_content("An update, a content, a kind and a status that nobody knows."),
    )
    await scene.update(_V2, **call, status="completed")


# ---- messages without ids, sent twice, or interleaved -----------------------------------------


async def no_ids(scene: Scene) -> None:
    if scene.protocol_version == 2:
        await scene.turn.think("Version 2 requires ids, ")
        await scene.turn.think("so here they are.")
        await scene.say("One message, ", "in two pieces.")
        async with scene.turn.tool_call("Look around", tool_call_id=f"between-{scene.number}"):
            await scene.pause()
        await scene.say("Another message.")
        return
    for kind, pieces in (
        ("agent_thought_chunk", ("No piece of this ", "has an id.")),
        ("agent_message_chunk", ("One message, ", "in two pieces.")),
    ):
        for piece in pieces:
            await scene.update(kind, content=text_content(piece))
            await scene.pause()
    call = {"toolCallId": f"between-{scene.number}", "title": "Look around"}
    await scene.update("tool_call", **call, status="completed")
    await scene.update("agent_message_chunk", content=text_content("Another message."))


async def whole_copy(scene: Scene) -> None:
    identity = f"whole-{scene.number}"
    # version 2 requires an id, and has an update of its own for a whole message
    known = {"messageId": identity} if scene.protocol_version == 2 else {}
    for piece in ("Piece by piece, ", "and then ", "all at once."):
        await scene.update("agent_message_chunk", **known, content=text_content(piece))
        await scene.pause()
    whole = text_content("Piece by piece, and then all at once.")
    if scene.protocol_version == 2:
        await scene.update("agent_message", **known, content=[whole])
    else:
        await scene.update("agent_message_chunk", messageId=identity, content=whole)


async def user_echo(scene: Scene) -> None:
    if scene.protocol_version == 2:
        content = [codec.to_json(block) for block in scene.turn.blocks]
        for _ in range(2):
            await scene.update("user_message", messageId=scene.turn.message_id, content=content)
    else:
        for block in scene.turn.blocks:
            await scene.update("user_message_chunk", content=codec.to_json(block))
    await scene.say("That is what you said.")


async def interleaved(scene: Scene) -> None:
    one = scene.turn.message(f"a{scene.number}")
    other = scene.turn.message(f"b{scene.number}")
    for message, piece in (
        (one, "The first message "),
        (other, "The second message comes between."),
        (one, "goes on after the second."),
    ):
        await message.append(piece)
        await scene.pause()


# ---- updates at the wrong time, and answers that never come -----------------------------------

EARLY = "This update was sent before its session was created."


def send_early(session: AgentSession) -> None:
    """Send an update of a session whose `session/new` is not answered yet."""
    update = v2.AgentMessageChunk("early", TextContent(EARLY))  # the same in both versions
    params = v2.UpdateSessionNotification(session.session_id, update)
    open_session(session).link.peer.notify("session/update", params)


async def early_update(scene: Scene) -> None:
    scene.demo.early = True
    await scene.say("From now on, updates of a new session are sent before its response.")


async def late_updates(scene: Scene) -> None:
    message = scene.turn.message(f"late-{scene.number}")
    call = v2.ToolCallUpdate(
        f"late-{scene.number}", title="Tidy up", kind="other", status="in_progress"
    )
    await scene.session.send(call)  # not by the turn, which would end it
    await message.append("The turn ends here")
    scene.afterwards(_late(scene, message.message_id, call.tool_call_id))


async def _late(scene: Scene, message_id: str, call_id: str) -> None:
    await scene.pause(0.5)
    await scene.session.send(v2.AgentMessageChunk(message_id, TextContent(", and I go on.")))
    await scene.session.send(v2.ToolCallUpdate(call_id, status="completed"))


async def after_cancel(scene: Scene) -> None:
    async with scene.turn.tool_call(
        "Build everything", kind="execute", tool_call_id=f"build-{scene.number}"
    ) as call:
        await scene.say("Cancel me. ")
        try:
            await scene.wait()
        except asyncio.CancelledError:
            await call.append("42 of 43 files")
            await scene.say("One moment, ", "I am almost done.")
            await call.complete()
            raise


async def ignore_cancel(scene: Scene) -> None:
    # without the pause of `scene.say`, in which a cancel would end the turn
    await scene.turn.say("I do not stop, whatever you do.")
    await scene.until_gone()


async def silent(scene: Scene) -> None:
    await scene.until_gone()


# ---- too many bytes, and bytes that are no messages -------------------------------------------

MEGABYTES = 10
CHUNKS = 50_000
STDERR = 1024 * 1024
_LINE = "demo agent: everything is fine, nothing to see here, go on".ljust(63) + "\n"


async def big_line(scene: Scene) -> None:
    megabytes = scene.count(MEGABYTES, 200)
    await scene.turn.say("0123456789abcdef" * (megabytes * 1024 * 1024 // 16))


async def flood(scene: Scene) -> None:
    for number in range(scene.count(CHUNKS, 5_000_000)):
        await scene.turn.say(f"{number} ")


async def noise(scene: Scene) -> None:
    def chunk(text: str) -> bytes:
        message = {"messageId": f"noise-{scene.number}", "content": text_content(text)}
        return scene.update_line("agent_message_chunk", **message)

    for line in (
        b"\x1b]0;demo agent\x07" + chunk("After a title, "),
        b'{"level":"info","message":"still here"}\n',
        b'{"id":"log-1","method":"log","params":{"level":"debug"}}\n',
        b"\n\r\n   \n",
        b"[info] a log line, with {braces} and [brackets]\n",
        b'null\n42\n"a string"\n[]\n',
        b"\xff\xfe no text at all \x00\n",
        chunk("between log lines, "),
        b"[" + chunk("in a batch ").strip() + b"," + chunk("of two.").strip() + b"]\n",
    ):
        await scene.line(line)
        await scene.pause()


async def stderr_flood(scene: Scene) -> None:
    if scene.demo.alone:
        sys.stderr.write(_LINE * (STDERR // len(_LINE)))
        sys.stderr.flush()
        await scene.say("There is 1 MiB more on standard error now.")
    else:
        await scene.say("Standard error is yours, not mine: I leave it alone.")


# ---- turns that do not end well, and sessions that need a login -------------------------------


async def crash(scene: Scene) -> None:
    async with scene.turn.tool_call(
        "Divide by zero", kind="execute", tool_call_id=f"crash-{scene.number}"
    ):
        await scene.say("I crash in the middle of a ")
        await scene.crash("demo agent: divided by zero, as it was asked to")


async def auth(scene: Scene) -> None:
    scene.demo.needs_login, scene.demo.logged_in = True, False
    await scene.say("From now on, a new session needs a login.")


def stops(reason: str) -> Play:
    """A turn that ends with a stop reason."""

    async def play(scene: Scene) -> str:
        await scene.say("This is ", "as far as ", "I get.")
        return reason

    return play


SCENARIOS = (
    Scenario("update-first", "An update of a tool call before the tool call", update_first),
    Scenario("call-twice", "One tool call, announced twice", call_twice),
    Scenario(
        "permission-first", "Permission for a tool call that was never announced", permission_first
    ),
    Scenario("string-output", "A tool call whose raw input and output are strings", string_output),
    Scenario("unknown", "An update, content, a tool kind and a status that are unknown", unknown),
    Scenario("no-ids", "Messages without ids; with ids in version 2, which requires them", no_ids),
    Scenario(
        "whole-copy", "A message in pieces without an id, then all of it with one", whole_copy
    ),
    Scenario("user-echo", "Your own message comes back", user_echo),
    Scenario("interleaved", "Two messages, their pieces mixed: A, B, A", interleaved),
    Scenario("early-update", "An update of a session before session/new is answered", early_update),
    Scenario("late-updates", "Updates after the end of the turn", late_updates),
    Scenario(
        "after-cancel", "Updates after the cancel; cancel when its text appears", after_cancel
    ),
    Scenario("ignore-cancel", "A turn that does not end when it is cancelled", ignore_cancel),
    Scenario("silent", "No answer to a prompt; if started with it, to any request", silent),
    Scenario("big-line", "A message in one line of 10 MB", big_line, hint="how many MB"),
    Scenario("flood", "A message in 50,000 pieces, without a pause", flood, hint="how many"),
    Scenario("noise", "Titles, logs, blanks and a batch on standard output", noise),
    Scenario("stderr", "1 MiB on standard error", stderr_flood),
    Scenario("max-tokens", "The turn stops at the limit of tokens", stops("max_tokens")),
    Scenario("max-turn-requests", "It stops at the limit of requests", stops("max_turn_requests")),
    Scenario("refusal", "The agent refuses to go on", stops("refusal")),
    Scenario("crash", "The agent dies in the middle of the turn", crash),
    Scenario("auth", "New sessions need a login first", auth),
)
