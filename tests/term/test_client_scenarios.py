"""Every scenario of the demo agent in a real terminal, faults above all, in both versions.

Most are played one after the other in one client, each by its command; what came of each is
compared, and the client has to be as well at the end as at the beginning. Those that end the
client, or are about its start, have a client of their own.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Final

import pytest

from tests.support.client_stage import (
    VERSIONS,
    Version,
    begin,
    blocks,
    client,
    ends,
    foreign,
    leave,
    screen_text,
    send_prompt,
    turns,
    wait_idle,
    wait_prompt,
    wait_question,
    wait_sending,
    wait_status,
)
from tests.support.terminal_stage import Stage
from twofold.demo import SCENARIOS

BOTH = pytest.mark.parametrize("version", VERSIONS)
WIDTH: Final = 79
"""The columns that are used: the last one stays free."""

# ---- what stands there in the end ------------------------------------------------------------

STATUS = "Mode: Ask · Twofold demo agent · ~ · Thoughts: Aloud"
CANCELLED = "The turn ended: cancelled."
TOLD: dict[str, str] = {
    "stream": """\
  let me think

one two three four five""",
    "tools": """\
✓ ✎ Edit demo.txt  (edit, completed)
  /tmp/demo.txt
  @@ -1 +1 @@
  -old
  +new

✓ $ Say hello  (execute, completed)
  $ echo hello
    hello

done

Plan
  ✓ edit the file
  ✓ say hello""",
    "permission": """\
✓ $ Run make  (execute, completed)
  allowed by you

outcome: a1""",
    "slow-permission": f"""\
⊘ $ Run make  (execute, cancelled)
  cancelled with the turn

{CANCELLED}""",
    "error": "session/prompt failed: boom (-32603)",
    "echo": "echo: what I say",
    "update-first": """\
✓ ≡ Count the files  (read, completed)
  half of them: 21
  all of them: 42

The update came before the tool call.""",
    "call-twice": """\
✓ ≡ Read notes.txt  (read, completed)
  buy milk

The same tool call was announced twice.""",
    "permission-first": """\
✓ ⌫ Delete the build  (delete, completed)
  input: {"command": "rm -r build"}
  allowed by you

The permission request came before its tool call.""",
    "string-output": """\
✓ ⌕ List the files  (search, completed)
  input: *.py
  output: 42 files, 3 of them new

What went in and what came out are plain strings.""",
    "unknown": """\
[unknown update: _demo_forecast]

[unknown content: _demo_hologram]
An update, a content, a kind and a status that nobody knows.

✓ Teleport the build  (completed)
  [unknown content: _demo_smell]
  zzz""",
    "no-ids": """\
  Version 2 requires ids, so here they are.

One message, in two pieces.

✓ Look around  (completed)

Another message.""",
    "whole-copy": "Piece by piece, and then all at once.",
    "user-echo": "That is what you said.",
    "interleaved": """\
The first message goes on after the second.

The second message comes between.""",
    "early-update": "From now on, updates of a new session are sent before its response.",
    "after-cancel": f"""\
✓ $ Build everything  (execute, completed)
  42 of 43 files

Cancel me.
⊘ after the cancel:
One moment, I am almost done.

{CANCELLED}""",
    "stderr": "There is 1 MiB more on standard error now.",
    "max-tokens": """\
This is as far as I get.

The turn ended: the token limit is reached.""",
    "max-turn-requests": """\
This is as far as I get.

The turn ended: the limit of requests is reached.""",
    "refusal": """\
This is as far as I get.

The turn ended: the agent refused.""",
    "auth": "From now on, a new session needs a login.",
}
# What version 1 has no words for, or says otherwise.
TOLD_IN_1: dict[str, str] = {
    "tools": """\
✓ ✎ Edit demo.txt  (edit, completed)
  /tmp/demo.txt
  @@ -1 +1 @@
  -old
  +new

✓ $ Say hello  (execute, completed)
  hello

done

Plan
  ✓ edit the file
  ✓ say hello""",
    "slow-permission": f"""\
✗ $ Run make  (execute, failed)
  cancelled with the turn

{CANCELLED}""",
    "no-ids": """\
  No piece of this has an id.

One message, in two pieces.

✓ Look around  (completed)

Another message.""",
}

# How far the message is when something is told beside it is up to the clock: so blocks are
# compared, and not their order.
NOISE = """\
! The agent sent something that is no message: control characters on the line
  of a message:
  {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update
  ":{"sessionUpdate":"agent_message_chunk","messageId":"noise-1","content":{"ty
  pe":"text","text":"After a titl

! The agent sent something that is no message: JSON that is not JSON-RPC 2.0
  (no "jsonrpc": "2.0"): {"level":"info","message":"still here"}

! The agent sent something that is no message: JSON that is not JSON-RPC 2.0
  (no "jsonrpc": "2.0"):
  {"id":"log-1","method":"log","params":{"level":"debug"}}

After a title, between log lines, in a batch of two.

! (6 more problems like this)"""
SLOW = re.compile(rf"tick([ \n]tick)+(\n⊘ after the cancel:\ntick([ \n]tick)*)?\n\n{CANCELLED}")

# ---- what is done ----------------------------------------------------------------------------


def cancel_at(text: str) -> Callable[[Stage], None]:
    """Press Ctrl-C when this is to be seen."""

    def act(stage: Stage) -> None:
        stage.wait_for(lambda stage: any(text in row for row in stage.screen()))
        stage.press("ctrl-c")

    return act


def allow(stage: Stage) -> None:
    wait_question(stage)
    stage.press("y")
    wait_sending(stage)


ACTS: dict[str, Callable[[Stage], None]] = {
    "permission": allow,
    "permission-first": allow,
    "slow-permission": cancel_at("? press Tab to answer"),
    "slow": cancel_at("tick tick"),
    "after-cancel": cancel_at("Cancel me."),
}
ARGUMENTS = {"echo": " what I *say*", "flood": " 3000", "big-line": " 1"}
TOGETHER = [
    "noise",
    "slow",
    *TOLD,
    "flood",
    "big-line",
]  # the noise first, for it tells the number of its message
OF_THEIR_OWN = {"late-updates", "ignore-cancel", "silent", "crash"}


def test_every_scenario_is_played_in_a_terminal() -> None:
    elsewhere = {"showcase"}
    assert {*TOGETHER, *OF_THEIR_OWN, *elsewhere} == SCENARIOS.keys()


@cache
def played(version: Version) -> dict[str, str]:
    """What came of each scenario, of those that leave the client as it was before."""
    with client(version) as stage:
        wait_prompt(stage)
        for name in TOGETHER:
            after = begin(stage, f"/{name}{ARGUMENTS.get(name, '')}")
            if name in ACTS:
                ACTS[name](stage)
            wait_prompt(stage, after)
        wait_status(stage, STATUS)
        leave(stage)
        shown = turns(stage)
    assert [said for said, _ in shown] == [f"/{name}{ARGUMENTS.get(name, '')}" for name in TOGETHER]
    return dict(zip(TOGETHER, [came for _, came in shown], strict=True))


@BOTH
@pytest.mark.parametrize("name", TOLD)
def test_of_a_scenario_this_is_to_be_seen(name: str, version: Version) -> None:
    expected = TOLD_IN_1.get(name) if version == 1 else None
    assert played(version)[name] == (expected or TOLD[name])


@BOTH
def test_what_is_no_message_is_told_in_short_beside_what_is_one(version: Version) -> None:
    assert blocks(played(version)["noise"]) == blocks(NOISE)


@BOTH
def test_a_turn_is_cancelled_by_a_key(version: Version) -> None:
    assert SLOW.fullmatch(played(version)["slow"])


@BOTH
@pytest.mark.parametrize(
    ("name", "between", "expected"),
    [
        ("flood", " ", " ".join(map(str, range(3000)))),
        ("big-line", "", "0123456789abcdef" * (1 << 16)),
    ],
)
def test_of_much_text_every_character_stands_in_the_scrollback(
    name: str, between: str, expected: str, version: Version
) -> None:
    rows = played(version)[name].split("\n")
    assert between.join(rows) == expected
    # a paragraph without an end begins a new row once in a while
    full = -(-len(expected) // WIDTH)
    assert max(map(len, rows)) == WIDTH
    assert full <= len(rows) < full * 1.1


# ---- the start -------------------------------------------------------------------------------


@BOTH
def test_an_agent_that_wants_a_login_gets_one_at_the_start(version: Version) -> None:
    with client(version, "auth") as stage:
        stage.wait_for("Enter chooses")
        assert screen_text(stage) == (
            "? Twofold demo agent requires a login. How do you want to log in?\n"
            "❯ 1 Token  Any token will do: none is asked\n"
            "  Up and Down move, Enter chooses, Esc leaves"
        )
        stage.press("enter")
        wait_prompt(stage)
        assert screen_text(stage).startswith("Logging in: Token\nTwofold ")
        send_prompt(stage, "/echo in")
        leave(stage)
        assert turns(stage) == [("/echo in", "echo: in")]


@BOTH
def test_who_does_not_want_to_log_in_leaves(version: Version) -> None:
    with client(version, "auth") as stage:
        stage.wait_for("Esc leaves")
        stage.press("esc")
        ends(stage, 0)
        assert screen_text(stage) == ""


@BOTH
def test_what_is_told_of_a_session_before_it_is_there_stands_above_the_first_prompt(
    version: Version,
) -> None:
    with client(version, "early-update") as stage:
        wait_prompt(stage)
        wait_status(stage, STATUS)
        leave(stage)
        early = "This update was sent before its session was created."
        assert screen_text(stage).endswith(f"Ctrl-D leaves.\n\n{early}")


@BOTH
def test_an_agent_that_never_answers_is_waited_for_until_ctrl_c(version: Version) -> None:
    with client(version, "silent") as stage:
        stage.wait_for("… 1 s")
        assert screen_text(stage).startswith("Starting ")
        stage.press("ctrl-c")
        ends(stage, 5)


# ---- the end ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("name", "said"), [("silent", ""), ("ignore-cancel", "\nI do not stop, whatever you do.\n")]
)
def test_a_turn_that_does_not_end_is_left_by_a_second_ctrl_c(
    name: str, said: str, version: Version
) -> None:
    with client(version) as stage:
        wait_prompt(stage)
        begin(stage, f"/{name}")
        stage.wait_for(said.strip() or "◐ working")
        wait_idle(stage)  # a turn that is cancelled before it begins does not begin
        stage.press("ctrl-c")
        status = "⊘ cancelling · Ctrl-C again gives up and leaves · Mode: Ask"
        live = f"> /{name}\n{said}\n>\n{status}"
        stage.wait_for(lambda stage: screen_text(stage).endswith(live))
        stage.press("ctrl-c")
        ends(stage, 5)
        assert screen_text(stage).endswith(f"> /{name}\n{said}".rstrip())


@BOTH
def test_if_the_agent_ends_its_last_words_are_shown(version: Version) -> None:
    with client(version) as stage:
        wait_prompt(stage)
        begin(stage, "/crash")
        stage.wait_for("Start the agent again")
        stage.press("esc")
        ends(stage, 7)
        [(_, came)] = turns(stage)
        call, said, error = came.split("\n\n")
        assert call == "– $ Divide by zero  (execute, not finished)"
        assert said == "I crash in the middle of a"
        assert " ended with exit code 3. The end of its standard error:" in " ".join(error.split())
        assert error.endswith("\n  demo agent: divided by zero, as it was asked to")


# ---- between the turns -----------------------------------------------------------------------

LATE = """\
– Tidy up  (not finished)

The turn ends here

⋯ continued
, and I go on.

✓ Tidy up  (completed)"""


@BOTH
def test_what_comes_late_is_printed_above_the_prompt_and_what_is_typed_stays(
    version: Version,
) -> None:
    with client(version, speed=1) as stage:
        wait_prompt(stage)
        wait_prompt(stage, begin(stage, "/late-updates"))
        stage.type("/echo what I ty")
        stage.wait_for("✓ Tidy up  (completed)")
        stage.wait_for(lambda stage: "> /echo what I ty" in stage.screen())
        assert (
            screen_text(stage).partition("> /late-updates\n\n")[2].startswith(f"{LATE}\n\n> /echo")
        )
        stage.type("pe")
        stage.press("enter")
        stage.wait_for("echo: what I type")
        wait_prompt(stage)
        leave(stage)
        assert turns(stage) == [("/late-updates", LATE), ("/echo what I type", "echo: what I type")]


# ---- the law ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (b"\x1b[1;32mours\x1b[0m\x1b[K\r\n\x1b[2A\x1b[?25l\x1b[?2026h\xe2\x9c\x93", ""),
        (b"\x1b]0;a title\x07", "\x1b\x07"),
        (b"\x1b[2;5H", "\x1b"),
        (b"\x1b[?1049h", "\x1b"),
        (b"\x1b[6n", "\x1b"),
        (b"\x1bc", "\x1b"),
        (b"a\x08b\tc\x00", "\x08\t\x00"),
        (b"\xc2\x9b31m", "\x9b"),
        ("\u202eback".encode(), "\u202e"),
    ],
)
def test_what_is_not_ours_would_be_found(written: bytes, found: str) -> None:
    assert foreign(written) == found
