"""One more of anything costs a live view the same, however many there were before.

What is counted is calls of functions, from the update to the bytes for the terminal, with a frame
after every update: it depends on nothing but the code.
"""

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import pytest

from tests.support.costs import functions_called
from twofold.session import Session
from twofold.styled.emulator import Emulator
from twofold.term.live_area import MOST_CARDS, LiveArea
from twofold.term.row_encoder import RowEncoder
from twofold.term.terminal_writer import TerminalWriter
from twofold.view.outline import footer
from twofold.wire import v2
from twofold.wire.content import TextContent
from twofold.wire.shared import (
    CompactionSummaryChunk,
    CompactionUpdate,
    Notice,
    SessionMessageChunk,
    UsageUpdate,
)

Updates: TypeAlias = list[v2.SessionUpdate]

FEW: Final = 300
MANY: Final = 4 * FEW


class Nowhere:
    """A terminal that drops what is written to it."""

    def write(self, data: bytes) -> None:
        """Drop it."""

    def size(self) -> tuple[int, int]:
        return 100, 40


class View:
    """A session on a terminal."""

    def __init__(self) -> None:
        self.session = Session("s")
        self.live_area = LiveArea(self.session, lambda key: ())
        self.writer = TerminalWriter(Nowhere(), RowEncoder("standard", "utf-8"))

    def play(self, updates: Iterable[v2.SessionUpdate]) -> None:
        for update in updates:
            self.live_area.apply(self.session.apply(update))
            footer(self.session)
            frame = self.live_area.draw(self.writer.width, self.writer.height, [()])
            self.writer.show(frame.settled, frame.live)

    def end(self) -> None:
        self.writer.show(self.live_area.settle(self.writer.width).settled, [])


# ---- what there can be many of -------------------------------------------------------------------


def unknown(tag: str) -> v2.SessionUpdate:
    return v2.decode_update(json.dumps({"sessionUpdate": tag}))


def call(identity: str, status: str = "in_progress", **fields: Any) -> v2.ToolCallUpdate:
    return v2.ToolCallUpdate(identity, status=status, **{"title": "Call", **fields})


def text(words: str) -> v2.Content:
    return v2.Content(TextContent(words))


def plan(identity: str, steps: int = 1) -> v2.PlanUpdate:
    entries = [v2.PlanEntry(f"step {number}", "high", "pending") for number in range(steps)]
    return v2.PlanUpdate(v2.PlanItems(identity, entries))


def words(role: type[v2.ContentChunk], identity: str, text: str = "word ") -> Any:
    return role(identity, TextContent(text))


def data(output: str) -> str:
    return base64.b64encode(output.encode()).decode()


def printed(identity: str, output: str = "more\n") -> v2.TerminalOutputChunk:
    return v2.TerminalOutputChunk(identity, data(output))


def option(number: int) -> v2.SessionConfigBoolean:
    return v2.SessionConfigBoolean(config_id=f"{number}", name="Option", current_value=True)


MANY_OF: dict[str, Callable[[int], Updates]] = {
    "kinds of unknown updates": lambda n: [unknown(f"tag{i}") for i in range(n)],
    "unknown updates of one kind": lambda n: [unknown("tag")] * n,
    "open calls": lambda n: [call(f"{i}") for i in range(n)],
    "calls that end in the order they began": lambda n: [
        *(call(f"{i}") for i in range(n)),
        *(call(f"{i}", "completed") for i in range(n)),
    ],
    "calls that end the other way round": lambda n: [
        *(call(f"{i}") for i in range(n)),
        *(call(f"{i}", "completed") for i in reversed(range(n))),
    ],
    "finished calls": lambda n: [call(f"{i}", "completed") for i in range(n)],
    "updates of one call": lambda n: [call("a", content=[text("x\n" * 50)]) for _ in range(n)],
    "titles of one call": lambda n: [call("a", title=f"Title {i}") for i in range(n)],
    "pieces of one call": lambda n: [v2.ToolCallContentChunk("a", text("x")) for _ in range(n)],
    "plans": lambda n: [plan(f"{i}") for i in range(n)],
    "notices": lambda n: [Notice("info", "title")] * n,
    "compactions": lambda n: [CompactionUpdate(f"{i}", "in_progress") for i in range(n)],
    "subagents": lambda n: [v2.SubagentUpdate(f"{i}", title="title") for i in range(n)],
    "messages": lambda n: [words(v2.AgentMessageChunk, f"{i}") for i in range(n)],
    "messages of nothing": lambda n: [words(v2.AgentMessageChunk, f"{i}", "") for i in range(n)],
    "messages by turns": lambda n: [
        words(v2.AgentMessageChunk, f"{i % 2}", "a\n\n") for i in range(n)
    ],
    "messages that go on": lambda n: [
        words(v2.AgentMessageChunk, f"{i % (n // 2)}", "a") for i in range(n)
    ],
    "thoughts": lambda n: [words(v2.AgentThoughtChunk, f"{i}") for i in range(n)],
    "pieces of a message of the person": lambda n: [words(v2.UserMessageChunk, "u")] * n,
    "empty messages of the person": lambda n: [
        words(v2.UserMessageChunk, f"{i}", "") for i in range(n)
    ],
    "numbers of tokens": lambda n: [UsageUpdate(i, n) for i in range(n)],
    "pieces of output": lambda n: [call("a", content=[v2.Terminal("t")]), *[printed("t")] * n],
    "lines of code": lambda n: [
        words(v2.AgentMessageChunk, "m", line) for line in ["```rust\n", *["let x = 1;\n"] * n]
    ],
    "rows of a table": lambda n: [
        words(v2.AgentMessageChunk, "m", line) for line in ["|a|b|\n|-|-|\n", *["|x|y|\n"] * n]
    ],
}
"""As many updates as there are of them, or twice as many."""

LARGE: dict[str, Callable[[int], Updates]] = {
    "a plan": lambda n: [plan("p", n), *[words(v2.AgentMessageChunk, "m", "a\n\n")] * 50],
    "a call with files": lambda n: [
        call("a", locations=[v2.ToolCallLocation(f"/{i}") for i in range(n)]),
        *(call("a", title=f"Title {i}") for i in range(50)),
    ],
    "a call with items": lambda n: [
        call("a", content=[text("x")] * n),
        *(call("a", title=f"Title {i}") for i in range(50)),
    ],
    "a call with diffs": lambda n: [
        call("a", content=[v2.JuneDiff(f"/{i}", "new\n", old_text="old\n") for i in range(n)]),
        *(call("a", title=f"Title {i}") for i in range(50)),
    ],
    "a call with raw input": lambda n: [
        call("a", raw_input={"x": [{"y": "z"}] * n}),
        *(call("a", title=f"Title {i}") for i in range(50)),
    ],
    "a call with code": lambda n: [
        call("a", content=[text("```rust\n" + "let x = 1;\n" * n + "```")]) for _ in range(50)
    ],
    "a call with a long line": lambda n: [
        call("a", content=[text("word " * 10 * n)]) for _ in range(50)
    ],
    "a summary": lambda n: [
        CompactionUpdate("c", "in_progress", summary=[TextContent("word " * n)]),
        *[CompactionSummaryChunk("c", TextContent("word "))] * 50,
    ],
    "a message of another session": lambda n: [
        SessionMessageChunk("m", TextContent("word " * n)),
        *[SessionMessageChunk("m", TextContent("word "))] * 50,
    ],
    "a lot of options": lambda n: [
        v2.ConfigOptionUpdate([option(i) for i in range(n)]),
        *[words(v2.AgentMessageChunk, "m", "a\n\n")] * 50,
    ],
    "a lot of commands": lambda n: [
        v2.AvailableCommandsUpdate([v2.Command(f"{i}", "words") for i in range(n)]),
        *[words(v2.AgentMessageChunk, "m", "a\n\n")] * 50,
    ],
    "a call with terminals": lambda n: [
        call("a", content=[v2.Terminal(f"{i}") for i in range(n // 10)]),
        *(printed(f"{i}") for i in range(20)),
        *[printed("0")] * 50,
    ],
}
"""Something of that size, which is not what changes."""


@pytest.mark.parametrize("updates", MANY_OF.values(), ids=list(MANY_OF))
def test_one_more_costs_the_same(updates: Callable[[int], Updates]) -> None:
    costs = []
    for number in (FEW, MANY):
        view, some = View(), updates(number)
        view.play(updates(20))  # what is found once
        costs.append(functions_called(lambda: view.play(some)) + functions_called(view.end))  # noqa: B023
    # four times as many; with the square it would be sixteen times
    assert costs[1] < 6 * costs[0], costs


@pytest.mark.parametrize("updates", LARGE.values(), ids=list(LARGE))
def test_what_is_large_costs_little_while_something_else_changes(
    updates: Callable[[int], Updates],
) -> None:
    costs = []
    for number in (FEW, MANY):
        view = View()
        first, *others = updates(number)
        view.play([first])
        costs.append(functions_called(lambda: view.play(others)))  # noqa: B023
    assert costs[1] < 2 * costs[0], costs


# ---- terminals -----------------------------------------------------------------------------------


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were interpreted, one by one."""
    sizes: list[int] = []
    feed = Emulator.feed

    def counting(self: Emulator, output: bytes, *rest: Any) -> None:
        sizes.append(len(output))
        feed(self, output, *rest)

    monkeypatch.setattr(Emulator, "feed", counting)
    return sizes


@pytest.mark.parametrize("unfolded", [False, True])
def test_of_many_terminals_in_a_call_only_what_is_new_is_interpreted(
    fed: list[int], unfolded: bool
) -> None:
    output = "a line\n" * 100
    names = [f"t{number}" for number in range(30)]
    view = View()
    view.live_area.unfolded = unfolded
    view.play([v2.TerminalUpdate(name, output=v2.TerminalOutput(data(output))) for name in names])
    view.play([call("a", content=[v2.Terminal(name) for name in names])])
    fed.clear()
    view.play([printed(name) for _ in range(10) for name in names])
    assert sum(fed) == 10 * len(names) * len("more\n")


def test_cards_without_a_row_do_not_pile_up() -> None:
    view = View()
    view.play([words(v2.AgentMessageChunk, f"{number}", "") for number in range(2 * MOST_CARDS)])
    assert len(view.live_area._cards) <= MOST_CARDS
    view.play([words(v2.AgentMessageChunk, "0", "Here it is.")])
    rows = view.live_area.settle(80).settled
    assert [text for row in rows for text, _ in row] == ["Here it is."]
