"""Turns that end otherwise than well, and sessions that do not begin."""

from twofold.demo.scene import Play, Scenario, Scene


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


_ENDS = (
    Scenario("max-tokens", "The turn stops at the limit of tokens", stops("max_tokens")),
    Scenario("max-turn-requests", "It stops at the limit of requests", stops("max_turn_requests")),
    Scenario("refusal", "The agent refuses to go on", stops("refusal")),
    Scenario("crash", "The agent dies in the middle of the turn", crash),
    Scenario("auth", "New sessions need a login first", auth),
)
