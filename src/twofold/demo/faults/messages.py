"""Messages whose identity is unclear: without ids, told twice, mixed up."""

from twofold.demo.scene import Scenario, Scene, text_content
from twofold.wire import codec


async def no_ids(scene: Scene) -> None:
    if scene.version == 2:
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
    # version 2 requires an id, and has a word of its own for a whole message
    known = {"messageId": identity} if scene.version == 2 else {}
    for piece in ("Piece by piece, ", "and then ", "all at once."):
        await scene.update("agent_message_chunk", **known, content=text_content(piece))
        await scene.pause()
    whole = text_content("Piece by piece, and then all at once.")
    if scene.version == 2:
        await scene.update("agent_message", **known, content=[whole])
    else:
        await scene.update("agent_message_chunk", messageId=identity, content=whole)


async def user_echo(scene: Scene) -> None:
    if scene.version == 2:
        said = [codec.to_json(block) for block in scene.turn.blocks]
        for _ in range(2):
            await scene.update("user_message", messageId=scene.turn.message_id, content=said)
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


_MESSAGES = (
    Scenario("no-ids", "Messages without ids; version 2 requires them, and gets them", no_ids),
    Scenario(
        "whole-copy", "A message in pieces without an id, then all of it with one", whole_copy
    ),
    Scenario("user-echo", "Your own message comes back", user_echo),
    Scenario("interleaved", "Two messages, their pieces mixed: A, B, A", interleaved),
)
