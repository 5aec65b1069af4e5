"""The showcase: one turn with everything that a client can show.

An agent takes the sign off a negative zero in a weather report, writes a test for it, asks before
it runs a command and shows its output. All of it is made up: no file is touched and nothing is run.
The user's answer, and the two options of the session, change what follows.
"""

from urllib.parse import quote

from twofold.agent.tools import ToolCallHandle
from twofold.demo.scene import Scenario, Scene
from twofold.wire import v2
from twofold.wire.content import ImageContent, ResourceLink
from twofold.wire.shared import Cost, PermissionOption

TITLE = "No more negative zero"
COMMAND = "python -m pytest -q && python -m weather oslo"
CONTEXT = 200_000
COST = 0.0512
"""What a turn costs, in dollars."""

# ---- what can be set -------------------------------------------------------------------------

MODE = v2.SessionConfigSelect(
    "mode",
    "Mode",
    category="mode",
    current_value="ask",
    options=[
        v2.SessionConfigUngrouped("ask", "Ask", "Asks before it runs a command"),
        v2.SessionConfigUngrouped("code", "Code", "Runs commands without asking"),
    ],
)
THOUGHTS = v2.SessionConfigSelect(
    "thoughts",
    "Thoughts",
    category="thought_level",
    current_value="aloud",
    options=[
        v2.SessionConfigUngrouped("aloud", "Aloud", "Says what it thinks"),
        v2.SessionConfigUngrouped("quiet", "Quiet", "Thinks in silence"),
    ],
)
OPTIONS: list[v2.SessionConfigOption] = [MODE, THOUGHTS]


# ---- the files -------------------------------------------------------------------------------

BEFORE = '''"""The weather in words."""

from weather.reading import Reading


def temperature(celsius: float) -> str:
    return f"{celsius:.0f} °C"


def line(reading: Reading) -> str:
    return f"{reading.place}: {temperature(reading.celsius)}, {reading.sky}"
'''
AFTER = BEFORE.replace(
    '    return f"{celsius:.0f} °C"\n',
    "    # round() gives an int, and an int has no negative zero\n"
    '    return f"{round(celsius)} °C"\n',
)
TEST = """import pytest

from weather.report import temperature


@pytest.mark.parametrize(
    ("celsius", "shown"),
    [(-0.4, "0 °C"), (-0.6, "-1 °C"), (0.0, "0 °C"), (21.7, "22 °C")],
)
def test_a_temperature_is_shown_in_whole_degrees(celsius, shown):
    assert temperature(celsius) == shown
"""

# cut inside an escape sequence, and inside a character
PRINTED = (
    b"\x1b[32m....\x1b[0m\x1b[32m                                       [100%]\x1b[0m\r\n\x1b[3",
    b"2m\x1b[1m4 passed\x1b[0m\x1b[32m in 0.03s\x1b[0m\r\nfetching \xe2\x80\xa6",
    b"\r\x1b[K\x1b[1mOslo\x1b[0m: \x1b[36m0 \xc2",
    b"\xb0C\x1b[0m, light snow \xe2\x9d\x84\r\n",
)
# forty by sixteen pixels: the temperature of a day, above and below zero
CHART = (
    "iVBORw0KGgoAAAANSUhEUgAAACgAAAAQCAMAAABTCc2fAAAACVBMVEX///87gvb1nguz2DudAAAAMklEQVR42mNgGKKA"
    "iYmJigpBimCYPIWMjIxwjKwIhmFyKAqxAfIV4gOkKyQKEK2QWAAArLUAlOa0tCcAAAAASUVORK5CYII="
)


def _path(scene: Scene, name: str) -> str:
    return f"{scene.session.cwd.rstrip('/')}/{name}"


def report(scene: Scene) -> str:
    """The file that is changed."""
    return _path(scene, "src/weather/report.py")


# ---- the plan --------------------------------------------------------------------------------

STEPS = (
    ("Find where the temperature is formatted", "high"),
    ("Round it without a negative zero", "high"),
    ("Add a test", "medium"),
    ("Run the tests", "medium"),
)


async def _plan(scene: Scene, done: int, current: str = "in_progress") -> None:
    """The first `done` steps are completed; the one after them is `current`."""
    statuses = ["completed"] * done + [current] + ["pending"] * len(STEPS)
    entries = [
        v2.PlanEntry(content, priority, status)
        for (content, priority), status in zip(STEPS, statuses, strict=False)
    ]
    await scene.turn.plan(entries)


# ---- the turn --------------------------------------------------------------------------------


async def showcase(scene: Scene) -> None:
    await scene.turn.notice(
        "This is a demonstration", "No file is touched, and nothing is run.", "info"
    )
    if scene.session.option("thoughts") == "aloud":
        await _think(scene)
    await _plan(scene, 0)
    await scene.turn.title(TITLE)
    await _look(scene)
    await _usage(scene, 18_240, 0.021)
    await _plan(scene, 1)
    await scene.say("Only `temperature()` formats it, ", "so that is the one place to change.")
    await _edit(scene)
    await _plan(scene, 2)
    await _write(scene)
    await _plan(scene, 3)
    ran = await _run(scene)
    await _plan(scene, 4 if ran else 3, "cancelled")
    await (_conclude if ran else _conclude_unseen)(scene)
    await _usage(scene, 53_418, COST)


async def _think(scene: Scene) -> None:
    for piece in (
        "Formatting a small negative number ",
        "with `.0f` keeps its sign, ",
        "so -0.4 becomes “-0”. ",
        "I should see how the report formats it, ",
        "and where else temperatures are printed.",
    ):
        await scene.turn.think(piece)
        await scene.pause(0.16)


async def _usage(scene: Scene, used: int, cost: float) -> None:
    """Send the usage; the cost is that of the whole session, so it adds up over its turns."""
    total = COST * (scene.number - 1) + cost
    await scene.turn.usage(used, CONTEXT, Cost(round(total, 4), "USD"))


async def _look(scene: Scene) -> None:
    """Two tool calls at once: each sends output while the other is running."""
    path = report(scene)
    read = scene.turn.tool_call(
        "Read report.py",
        kind="read",
        name="read_file",
        locations=[(path, 6)],
        raw_input={"path": path},
    )
    search = scene.turn.tool_call(
        "Search for “°C”",
        kind="search",
        name="grep",
        raw_input={"pattern": "°C", "path": scene.session.cwd},
    )
    async with read, search:
        await scene.pause(0.4)
        await search.append('src/weather/report.py:7:    return f"{celsius:.0f} °C"')
        await scene.pause(0.2)
        await read.append(BEFORE)
        await scene.pause(0.2)
        await search.append("tests/: no match")
        await scene.pause(0.2)
        await read.complete()
        await search.locate((path, 7))
        await scene.pause(0.2)
        await search.complete(raw_output={"matches": 1})


async def _edit(scene: Scene) -> None:
    path = report(scene)
    async with scene.turn.tool_call(
        "Edit report.py", kind="edit", name="edit_file", locations=[(path, 7)]
    ) as call:
        await scene.pause(0.3)
        await call.diff(path, BEFORE, AFTER)
        await scene.pause(0.3)


async def _write(scene: Scene) -> None:
    path = _path(scene, "tests/test_report.py")
    async with scene.turn.tool_call(
        "Write test_report.py", kind="edit", name="write_file", locations=[path]
    ) as call:
        await scene.pause(0.3)
        await call.diff(path, None, TEST)
        await scene.pause(0.3)


# ---- the command -----------------------------------------------------------------------------

YES = PermissionOption("yes", "Run it", "allow_once")
ALWAYS = PermissionOption("always", "Run it, and do not ask again", "allow_always")
NO = PermissionOption("no", "Do not run it", "reject_once")


async def _run(scene: Scene) -> bool:
    """Ask, and run the command if the user allows it; returns whether it ran."""
    title = "Run the tests and look at Oslo"
    call = scene.turn.tool_call(title)
    # pending until it was allowed: so it is not a block, which would start it
    await call.update(
        title=title,
        kind="execute",
        name="shell",
        status="pending",
        raw_input={"command": COMMAND, "cwd": scene.session.cwd},
    )
    if not await _may_run(scene, call):
        await call.fail("It was not run, for it was not allowed.")
        return False
    await call.update(status="in_progress")
    terminal = await call.terminal(COMMAND, scene.session.cwd)
    for piece in PRINTED:
        await scene.pause(0.4)
        await terminal.write(piece)
    await terminal.exit(0)
    await call.complete(raw_output={"exitCode": 0})
    return True


async def _may_run(scene: Scene, call: ToolCallHandle) -> bool:
    if scene.session.option("mode") == "code" or scene.session.session_id in scene.demo.trusted:
        return True
    answer = await scene.turn.ask(
        "Run this command?",
        call,
        description="It runs the tests and fetches the forecast for Oslo.",
        options=(YES, ALWAYS, NO),
        command=COMMAND,
    )
    if answer.option == ALWAYS:
        scene.demo.trusted.add(scene.session.session_id)
    return bool(answer)


# ---- the end ---------------------------------------------------------------------------------


async def _conclude(scene: Scene) -> None:
    await scene.say(
        *("Fixed: ", "Oslo is just below freezing, ", "and the report says “0 °C”.", "\n\n"),
        *("`round()` returns an int, ", "so there is no sign left to print; "),
        *("four tests hold that. ", "Here is the day ahead, on both sides of zero:"),
    )
    await scene.turn.say(ImageContent(CHART, "image/png"))
    await scene.pause()
    await _link(scene)


async def _conclude_unseen(scene: Scene) -> None:
    await scene.say(
        *("The report is changed and a test is written, ", "but I ran nothing, as you wished. "),
        *("You can do it yourself:", "\n\n", f"```sh\n{COMMAND}\n```\n"),
    )
    await _link(scene)


async def _link(scene: Scene) -> None:
    path = report(scene)
    await scene.turn.say(
        ResourceLink(
            "report.py",
            f"file://{quote(path)}",
            title="The weather in words",
            mime_type="text/x-python",
            size=len(AFTER.encode()),
        )
    )


SCENARIO = Scenario("showcase", "A turn with everything that a client can show", showcase)
