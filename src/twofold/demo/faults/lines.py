"""Too much on the wire, and what does not belong there."""

import sys

from twofold.demo.scene import Scenario, Scene, text_content

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
    def said(text: str) -> bytes:
        message = {"messageId": f"noise-{scene.number}", "content": text_content(text)}
        return scene.update_line("agent_message_chunk", **message)

    for line in (
        b"\x1b]0;demo agent\x07" + said("After a title, "),
        b'{"level":"info","message":"still here"}\n',
        b'{"id":"log-1","method":"log","params":{"level":"debug"}}\n',
        b"\n\r\n   \n",
        b"[info] a log line, with {braces} and [brackets]\n",
        b'null\n42\n"a string"\n[]\n',
        b"\xff\xfe no text at all \x00\n",
        said("between log lines, "),
        b"[" + said("in a batch ").strip() + b"," + said("of two.").strip() + b"]\n",
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


_LINES = (
    Scenario("big-line", "A message in one line of 10 MB", big_line, hint="how many MB"),
    Scenario("flood", "A message in 50,000 pieces, without a pause", flood, hint="how many"),
    Scenario("noise", "Titles, logs, blanks and a batch on standard output", noise),
    Scenario("stderr", "1 MiB on standard error", stderr_flood),
)
