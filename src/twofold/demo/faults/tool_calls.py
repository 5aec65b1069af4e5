"""Tool calls told in the wrong order, twice, or in words that nobody knows.

Version 2 has one update for the beginning and the change of a call, so that some of these are no
faults there: then the nearest thing that version 2 can say is said.
"""

from twofold.agent.turn import ALLOW, REJECT
from twofold.demo.scene import Scenario, Scene, call_content, text_content
from twofold.wire import v2
from twofold.wire.shared import SelectedPermissionOutcome

_V1, _V2 = "tool_call", "tool_call_update"


async def update_first(scene: Scene) -> None:
    call = {"toolCallId": f"first-{scene.number}"}
    begun = {"title": "Count the files", "kind": "read", "status": "in_progress"}
    half = call_content("half of them: 21")
    if scene.version == 1:
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
    announce = _V1 if scene.version == 1 else _V2
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
    await scene.say("Nobody had told of the tool call before it asked.")


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
        _V1 if scene.version == 1 else _V2,
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


_TOOL_CALLS = (
    Scenario("update-first", "An update of a tool call before the tool call", update_first),
    Scenario("call-twice", "One tool call, announced twice", call_twice),
    Scenario(
        "permission-first", "Permission for a tool call that was never announced", permission_first
    ),
    Scenario("string-output", "A tool call whose raw input and output are strings", string_output),
    Scenario("unknown", "An update, a content, a tool kind and a status nobody knows", unknown),
)
