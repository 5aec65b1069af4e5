"""Updates at the wrong time, and answers that never come."""

import asyncio

from twofold.agent.session import AgentSession
from twofold.demo.scene import Scenario, Scene
from twofold.wire import v2
from twofold.wire.content import TextContent

EARLY = "This session was told of before it was there."


def tell_early(session: AgentSession) -> None:
    """An update of a session whose `session/new` is not answered yet."""
    update = v2.AgentMessageChunk("early", TextContent(EARLY))  # the same in both versions
    params = v2.UpdateSessionNotification(session.session_id, update)
    session.connection.peer.notify("session/update", params)


async def early_update(scene: Scene) -> None:
    scene.demo.early = True
    await scene.say("From now on, new sessions are told of before they are answered.")


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
    await scene.say("I do not stop, whatever you do.")
    await scene.until_gone()


async def silent(scene: Scene) -> None:
    await scene.until_gone()


_TIMING = (
    Scenario("early-update", "An update of a session before session/new is answered", early_update),
    Scenario("late-updates", "Updates after the end of the turn", late_updates),
    Scenario(
        "after-cancel", "Updates after the cancel; wait for the words to cancel", after_cancel
    ),
    Scenario("ignore-cancel", "A turn that does not end when it is cancelled", ignore_cancel),
    Scenario("silent", "No answer; if started with it, to nothing at all", silent),
)
