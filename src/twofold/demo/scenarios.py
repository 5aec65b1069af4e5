"""All scenarios of the demo agent, by name, and the small ones that tests of clients ask for.

What a small scenario sends is fixed to the letter, ids included: `t2a` is the first tool call of
the second prompt of a session. They keep their own pace, whatever the speed of the demo.
"""

import asyncio
import base64
from typing import Any

from twofold.convert.patches import git_patch
from twofold.demo import faults, showcase
from twofold.demo.scene import LONG, Scenario, Scene
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.wire import v2
from twofold.wire.content import TextContent
from twofold.wire.shared import Content, PermissionOption, SelectedPermissionOutcome

TICK = 0.02
"""How many seconds pass between two words of the slow turn."""

DEMO_FILE = "/tmp/demo.txt"
OPTIONS = (
    PermissionOption("a1", "Allow once", "allow_once"),
    PermissionOption("a2", "Always allow", "allow_always"),
    PermissionOption("r1", "Reject once", "reject_once"),
    PermissionOption("r2", "Always reject", "reject_always"),
)
ALLOWING = ("a1", "a2")


async def _send(scene: Scene, *pieces: str) -> None:
    message = scene.turn.message(f"m{scene.number}")
    for piece in pieces:
        await message.append(piece)


async def stream(scene: Scene) -> None:
    thought = scene.turn.thought(f"h{scene.number}")
    for piece in ("let me ", "think"):
        await thought.append(piece)
    await _send(scene, "one ", "two ", "three ", "four ", "five")


# ---- tools -----------------------------------------------------------------------------------


async def tools(scene: Scene) -> None:
    number = scene.number
    edit = scene.turn.tool_call(
        "Edit demo.txt", kind="edit", locations=[DEMO_FILE], tool_call_id=f"t{number}a"
    )
    hello = scene.turn.tool_call("Say hello", kind="execute", tool_call_id=f"t{number}b")
    await _plan(scene, "in_progress", "pending")
    if scene.protocol_version == 1:
        await edit.start()
        await hello.start()
        await edit.update(status="completed", content=[_diff()])
        await hello.update(status="completed", content=[Content(TextContent("hello"))])
    else:
        terminal = f"term{number}"
        await scene.turn.send(v2.TerminalUpdate(terminal, "echo hello"))
        await edit.start()
        await hello.update(
            title="Say hello",
            kind="execute",
            status="in_progress",
            content=[v2.Terminal(terminal)],
        )
        await scene.turn.send(_output(terminal, b"hel"))
        await edit.update(status="completed", content=[_diff()])
        await scene.turn.send(_output(terminal, b"lo\n"))
        exited = v2.TerminalExitStatus(0)
        await scene.turn.send(v2.TerminalUpdate(terminal, exit_status=exited))
        await hello.complete()
    await _plan(scene, "completed", "completed")
    await _send(scene, "done")


async def _plan(scene: Scene, edit: str, hello: str) -> None:
    entries = [v2.PlanEntry("edit the file", "high", edit), v2.PlanEntry("say hello", "low", hello)]
    await scene.turn.plan(entries, "plan")


def _output(terminal_id: str, data: bytes) -> v2.TerminalOutputChunk:
    return v2.TerminalOutputChunk(terminal_id, base64.b64encode(data).decode())


def _diff() -> v2.Diff:
    text = git_patch(DEMO_FILE, "old\n", "new\n")
    return v2.Diff([v2.DiffModify(DEMO_FILE)], v2.DiffPatch("git_patch", text))


# ---- permissions -----------------------------------------------------------------------------


async def permission(scene: Scene) -> None:
    call = scene.turn.tool_call("Run make", tool_call_id=f"p{scene.number}")
    about: dict[str, Any] = {"title": "Run make", "kind": "execute"}
    await call.update(**about, status="pending")
    # version 1 asks with a tool call, version 2 with a question about one
    patch = v2.ToolCallPatch(call.tool_call_id, **(about if scene.protocol_version == 1 else {}))
    response = await scene.session.request_permission(
        v2.RequestPermissionRequest(
            scene.session.session_id,
            "Run make",
            list(OPTIONS),
            subject=v2.ToolCallPermissionSubject(patch),
        )
    )
    outcome = response.outcome
    chosen = outcome.option_id if isinstance(outcome, SelectedPermissionOutcome) else "cancelled"
    await call.update(status="completed" if chosen in ALLOWING else "failed")
    await _send(scene, f"outcome: {chosen}")


# ---- the rest --------------------------------------------------------------------------------


async def slow(scene: Scene) -> None:
    for _ in range(round(LONG / TICK)):
        await _send(scene, "tick ")
        await asyncio.sleep(TICK)


async def error(scene: Scene) -> None:
    raise RequestError(INTERNAL_ERROR, "boom")


async def echo(scene: Scene) -> None:
    await _send(scene, f"echo: {scene.argument}")


_BY_WORD = (
    Scenario("stream", "Two thoughts and a message in five pieces", stream),
    Scenario("tools", "A plan and two tool calls at once, with a diff and a terminal", tools),
    Scenario("permission", "A tool call that asks first", permission),
    Scenario("slow", "A word every 20 ms for a minute, to be cancelled", slow),
    Scenario("slow-permission", "The same as permission, to be cancelled", permission),
    Scenario("error", "The turn fails with an error", error),
    Scenario("echo", "Repeats what you write", echo, hint="what to repeat"),
)


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for scenario in (showcase.SCENARIO, *_BY_WORD, *faults.SCENARIOS)
}
