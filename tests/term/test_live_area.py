"""What is live and what goes to the scrollback, drawn on a terminal in memory."""

import base64
import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.screens import MemoryTerminal, memory_writer
from tests.support.strategies import v2_struct_streams
from twofold.session import Session
from twofold.session.reduce import NotBase64
from twofold.styled import Parts, code
from twofold.styled.code import Highlighter
from twofold.styled.emulator import MOST
from twofold.term.lines import line, plain
from twofold.term.live_area import COLOURING, FOLD, LiveArea
from twofold.term.live_cards import MOST_ITEMS, MOST_NOTES
from twofold.term.terminal_writer import TerminalWriter
from twofold.view.live import Key
from twofold.wire import v2
from twofold.wire.content import ImageContent, TextContent
from twofold.wire.shared import PlanRemoved


class Scene:
    """A session, its live_area and a terminal: `scene.play(update, …)` draws after every update."""

    def __init__(self, columns: int = 60, rows: int = 12) -> None:
        self.session = Session("s")
        self.notes: dict[Key, list[str]] = {}
        self.live_area = LiveArea(self.session, lambda key: self.notes.get(key, ()))
        self.writer: TerminalWriter
        self.terminal: MemoryTerminal
        self.writer, self.terminal = memory_writer(columns, rows)

    def play(self, *updates: v2.SessionUpdate, draw: bool = True) -> "Scene":
        for update in updates:
            self.live_area.apply(self.session.apply(update))
            if draw:
                self.draw()
        return self

    def draw(self) -> None:
        pinned = [(), (("status", ""),)]
        frame = self.live_area.draw(self.writer.width, self.writer.height, pinned)
        self.writer.show(frame.settled, frame.live)

    def end(self) -> list[str]:
        """The turn ends: what is in the terminal."""
        self.writer.show(self.live_area.settle(self.writer.width).settled, [])
        self.writer.leave()
        return self.terminal.all


def said(text: str, message_id: str = "m") -> v2.AgentMessageChunk:
    return v2.AgentMessageChunk(message_id, TextContent(text))


def call(identity: str, status: str = "in_progress", **fields: object) -> v2.ToolCallUpdate:
    return v2.ToolCallUpdate(identity, title=f"Call {identity}", status=status, **fields)  # type: ignore[arg-type]


def blocks(rows: Iterable[str]) -> list[list[str]]:
    """The rows between blank ones."""
    made: list[list[str]] = [[]]
    for row in rows:
        if row:
            made[-1].append(row)
        elif made[-1]:
            made.append([])
    return [block for block in made if block]


# ---- in place ----------------------------------------------------------------------------------


def test_a_call_changes_in_place_while_it_is_on_the_screen() -> None:
    scene = Scene().play(call("a", "pending"), call("a"), call("a", "completed"))
    assert [row for row in scene.terminal.all if "Call a" in row] == ["✓ Call a  (completed)"]


def test_calls_that_run_at_once_and_messages_that_interleave_all_change_in_place() -> None:
    scene = Scene(rows=20).play(
        call("a"),
        said("one ", "m"),
        call("b"),
        said("two ", "n"),
        said("goes on", "m"),
        call("a", "completed"),
        said("ends", "n"),
        call("b", "failed"),
    )
    assert blocks(scene.end()) == [
        ["✓ Call a  (completed)"],
        ["one goes on"],
        ["✗ Call b  (failed)"],
        ["two ends"],
    ]


def test_a_whole_message_that_says_what_was_said_changes_nothing() -> None:
    scene = Scene().play(said("one "), said("two"))
    before = scene.terminal.writes
    scene.play(v2.AgentMessage("m", content=[TextContent("one two")]))
    assert scene.terminal.writes == before
    scene.play(v2.AgentMessage("m", content=[TextContent("one two three")]))
    assert scene.end() == ["one two three"]


def test_a_message_that_is_replaced_on_the_screen_is_replaced() -> None:
    scene = Scene().play(said("wrong"), v2.AgentMessage("m", content=[TextContent("right")]))
    assert scene.end() == ["right"]


# ---- to the scrollback ---------------------------------------------------------------------------


def test_a_long_message_goes_to_the_scrollback_as_it_grows_and_is_there_once() -> None:
    lines = [f"line {number}" for number in range(100)]
    scene = Scene().play(*(said(f"{text}\n\n") for text in lines))
    assert scene.terminal.screen[-1] == "status"
    assert [row for row in scene.end() if row] == lines


def test_an_open_call_floats_at_the_bottom_while_a_message_scrolls_by() -> None:
    scene = Scene().play(call("a"), *(said(f"line {number}\n\n") for number in range(40)))
    assert "◐ Call a  (in progress)" in scene.terminal.screen
    scene.play(call("a", "completed"))
    rows = scene.end()
    assert [row for row in rows if "Call a" in row] == ["✓ Call a  (completed)"]
    assert [row for row in rows if row.startswith("line")] == [f"line {n}" for n in range(40)]


@pytest.mark.parametrize("draw", [True, False])
def test_a_call_that_floated_is_above_what_is_sent_after_it_is_done(draw: bool) -> None:
    scene = Scene().play(call("a"), *(said(f"line {number}\n\n") for number in range(40)))
    assert "◐ Call a  (in progress)" in scene.terminal.screen
    scene.play(call("a", "completed"), said("after", "n"), draw=draw)
    assert blocks(scene.end())[-2:] == [["✓ Call a  (completed)"], ["after"]]


def test_of_many_open_calls_the_last_are_shown_and_the_others_counted() -> None:
    scene = Scene(rows=16).play(*(call(str(number)) for number in range(50)))
    shown = "\n".join(scene.terminal.screen)
    assert "more open tool calls" in shown
    assert scene.terminal.screen[-1] == "status"
    scene.play(*(call(str(number), "completed") for number in range(50)))
    done = [row for row in scene.end() if row]
    assert sorted(done) == sorted(f"✓ Call {number}  (completed)" for number in range(50))


def test_what_is_said_after_a_message_went_to_the_scrollback_is_shown_below() -> None:
    scene = Scene().play(said("The first.", "m"))
    scene.end()
    scene.play(said(" And more.", "m"))
    assert blocks(scene.end()) == [["The first."], ["⋯ continued", "And more."]]


def test_another_message_instead_of_one_in_the_scrollback_is_shown_below() -> None:
    scene = Scene().play(said("wrong", "m"))
    scene.end()
    scene.play(v2.AgentMessage("m", content=[TextContent("right")]))
    assert blocks(scene.end()) == [["wrong"], ["⋯ sent again", "right"]]


def test_a_call_that_changes_in_the_scrollback_is_shown_again_without_its_diff() -> None:
    diff = v2.JuneDiff("/a", "new\n", old_text="old\n")
    scene = Scene(rows=30).play(call("a", content=[diff]))
    scene.end()
    scene.play(call("a", "completed"))
    text = "\n".join(scene.end())
    assert "✓ Call a  (completed)" in text
    assert text.count("+new") == 1


# ---- folding -------------------------------------------------------------------------------------


def test_a_long_item_is_folded_and_can_be_expanded() -> None:
    text = "\n".join(f"line {number}" for number in range(50))
    content = [v2.Content(TextContent(text))]
    scene = Scene(rows=40).play(call("a", "completed", content=content))
    rows = scene.end()
    assert f"  … {50 - FOLD} more lines" in rows
    expanded = scene.live_area.expanded(scene.writer.width)
    assert "  line 49" in ["".join(part for part, _ in row) for row in expanded]


def test_folded_blocks_are_counted_from_the_last_one_of_the_session() -> None:
    scene = Scene(rows=40)
    long = [v2.Content(TextContent("\n".join(f"line {number}" for number in range(50))))]
    scene.play(call("a", "completed", content=long), said("a message " * 200))
    scene.play(call("b", "completed"), v2.AgentThoughtChunk("t", TextContent("I think.\n\n" * 20)))
    scene.end()
    scene.live_area.begin_turn()
    scene.play(call("c", "completed", content=long))

    def first(number: int) -> str:
        rows = scene.live_area.expanded_last(number, scene.writer.width)
        return plain(rows[0]) if rows else ""

    assert [first(number) for number in (1, 2, 3, 4)] == [
        "✓ Call c  (completed)",
        "  I think.",
        "✓ Call a  (completed)",
        "",
    ]
    assert scene.live_area.expanded_last(1, 60) == scene.live_area.expanded(60)


def test_notes_of_one_kind_stay_together_until_something_comes_between() -> None:
    scene = Scene(rows=30)
    for number in (1, 2):
        scene.live_area.add_notes([line(f"note {number}")], "stderr")
    scene.live_area.add_notes([line("output")], "command")
    scene.play(said("hello"))
    scene.live_area.add_notes([line("note 3")], "stderr")
    scene.draw()
    assert scene.end() == ["note 1", "note 2", "", "output", "", "hello", "", "note 3"]


def test_notes_without_end_go_to_the_scrollback_once_and_in_order() -> None:
    scene = Scene(rows=10)
    for number in range(3 * MOST_NOTES):
        scene.live_area.add_notes([line(f"note {number}")], "stderr")
        scene.draw()
    notes = [row for row in scene.end() if row]
    assert notes == [f"note {number}" for number in range(3 * MOST_NOTES)]


def test_what_is_folded_on_the_screen_can_be_unfolded_and_folded_again() -> None:
    text = "\n".join(f"line {number}" for number in range(FOLD + 5))
    scene = Scene(rows=40).play(call("a", content=[v2.Content(TextContent(text))]))
    last = f"  line {FOLD + 4}"
    for unfolded in (True, False):
        assert (last in scene.terminal.screen) is not unfolded
        scene.live_area.unfolded = unfolded
        scene.live_area.redraw()
        scene.draw()
        assert (last in scene.terminal.screen) is unfolded


def toggle(scene: Scene) -> None:
    """Press Ctrl-O."""
    scene.live_area.unfolded = not scene.live_area.unfolded
    scene.live_area.redraw()
    scene.draw()


def long_text(lines: int) -> v2.Content:
    return v2.Content(TextContent("\n".join(f"line {number}" for number in range(lines))))


def test_a_call_taller_than_the_screen_is_unfolded_as_far_as_it_fits_and_folded_again() -> None:
    scene = Scene(rows=30).play(said("Before it."), call("a", content=[long_text(60)]))
    folded = scene.terminal.screen
    assert f"  … {60 - FOLD} more lines" in folded
    toggle(scene)
    # the screen without the status, the row above it, and the cursor's own; the mark and the title
    shown = 30 - 1 - 2 - 2
    assert scene.terminal.screen == [
        f"… {2 + 60 - shown} rows above",
        "◐ Call a  (in progress)",
        *(f"  line {number}" for number in range(60 - shown, 60)),
        "",
        "status",
    ]
    toggle(scene)
    assert scene.terminal.screen == folded


def test_an_unfolded_call_is_in_the_scrollback_as_a_whole_when_it_is_finished() -> None:
    scene = Scene(rows=30).play(call("a", content=[long_text(60)]))
    toggle(scene)
    scene.play(call("a", "completed"))
    lines = [f"  line {number}" for number in range(60)]
    assert blocks(scene.end()) == [["✓ Call a  (completed)", *lines]]


def test_a_call_that_floats_says_how_much_of_it_is_not_shown_and_can_be_unfolded() -> None:
    scene = Scene(rows=12).play(call("a", content=[long_text(60)]))
    floating = scene.terminal.screen
    head, mark = "◐ Call a  (in progress)", f"  … {FOLD} more rows"
    assert floating == ["", head, "  line 0", mark, "", "status"]
    toggle(scene)
    assert "  line 59" in scene.terminal.screen
    assert "◐ Call a  (in progress)" in scene.terminal.screen
    toggle(scene)
    assert scene.terminal.screen == floating


live_calls = st.builds(
    call,
    st.sampled_from("abcd"),
    st.sampled_from(["in_progress", "completed"]),
    content=st.integers(0, 50).map(lambda lines: [long_text(lines)] if lines else []),
)
live_messages = st.builds(said, st.sampled_from(["word ", "more\n\n", "- item\n"]))


@given(st.lists(live_calls | live_messages, max_size=12), st.integers(26, 60), st.integers(1, 40))
def test_unfolding_keeps_to_the_screen_and_folding_again_restores_every_row(
    updates: list[v2.SessionUpdate], width: int, height: int
) -> None:
    live_area = Scene().live_area
    pinned = [(), (("status", ""),)]
    for update in updates:
        live_area.apply(live_area.session.apply(update))
        folded = live_area.draw(width, height, pinned)
        while (settled := live_area.draw(width, height, pinned)) != folded:
            folded = settled
        live_area.unfolded = True
        live_area.redraw()
        unfolded = live_area.draw(width, height, pinned)
        assert len(unfolded.live) <= height
        assert len(unfolded.live) >= min(height, len(folded.live))
        assert all(len(plain(row)) <= width for row in unfolded.live)
        live_area.unfolded = False
        live_area.redraw()
        again = live_area.draw(width, height, pinned)
        assert (unfolded.settled, again) == ([], folded)


def test_a_thought_shows_its_end_while_it_is_thought_and_its_beginning_when_it_is_folded() -> None:
    words = " ".join(f"thought{number:02}" for number in range(60))
    scene = Scene().play(v2.AgentThoughtChunk("t", TextContent(words)))
    shown = " ".join(scene.terminal.screen)
    assert "thought59" in shown
    assert "thought00" not in shown
    shown = " ".join(scene.end())
    assert "thought00" in shown
    assert "more rows" in shown
    scene.live_area.fold_thoughts = False
    scene.play(v2.AgentThoughtChunk("u", TextContent(words)))
    assert "thought59" in " ".join(scene.end())


def test_of_many_items_the_last_are_shown_and_the_others_can_be_expanded() -> None:
    items = [v2.Content(TextContent(f"item {number}")) for number in range(MOST_ITEMS + 10)]
    scene = Scene(rows=60).play(call("a", content=items))
    assert scene.terminal.screen[1:3] == ["  … 10 items before", "  item 10"]
    assert f"  item {MOST_ITEMS + 9}" in scene.terminal.screen
    toggle(scene)
    assert "  item 0" in scene.terminal.screen
    toggle(scene)
    scene.end()
    expanded = map(plain, scene.live_area.expanded(40))
    assert "  item 0" in expanded


def test_of_many_files_the_first_are_named() -> None:
    files = [v2.ToolCallLocation(f"/file{number}") for number in range(FOLD + 10)]
    rows = Scene(rows=60).play(call("a", locations=files)).end()
    assert rows[1] == "  /file0"
    assert rows[-1] == "  … 10 more files"


def test_a_folded_line_is_not_longer_than_a_screen_or_two() -> None:
    shown = Scene(rows=60).play(call("a", content=[v2.Content(TextContent("x" * 5000))])).end()
    assert "… 4,000 more characters" in shown[-1] + shown[-2]


def test_what_follows_in_a_fence_is_counted_without_being_read() -> None:
    fence = "```text\n" + "\n".join(f"line {number}" for number in range(100)) + "\n```"
    rows = Scene(rows=60).play(call("a", content=[v2.Content(TextContent(fence))])).end()
    code_rows = [row for row in rows if "line " in row]
    assert rows[-1] == f"  … {100 - len(code_rows)} more lines"


def test_of_many_plans_the_last_are_at_the_bottom_and_all_are_in_the_scrollback() -> None:
    plans = [
        v2.PlanUpdate(v2.PlanItems(f"{number}", [v2.PlanEntry(f"step {number}", "low", "pending")]))
        for number in range(6)
    ]
    scene = Scene(rows=40).play(*plans)
    shown = "\n".join(scene.terminal.screen)
    assert "step 2" not in shown
    assert "step 3" in shown
    assert "… and 3 more plans" in shown
    scene.play(PlanRemoved("5"))
    assert "… and 2 more plans" in "\n".join(scene.terminal.screen)
    assert [row for row in scene.end() if "step" in row] == [f"  ○ step {n}" for n in range(5)]


def test_output_that_was_there_already_is_read_in_full_when_it_is_unfolded() -> None:
    output = "".join(f"line {number:05}\n" for number in range(6_000)).encode()
    scene = Scene(rows=40).play(
        v2.TerminalUpdate("t", output=v2.TerminalOutput(base64.b64encode(output).decode())),
        call("a", content=[v2.Terminal("t")]),
    )
    assert f"… {6_000 - FOLD:,} lines before" in "\n".join(scene.terminal.screen)
    toggle(scene)
    rows = scene.end()
    assert rows[2:] == [f"    line {number:05}" for number in range(6_000 - MOST, 6_000)]


# ---- colours -------------------------------------------------------------------------------------


def test_colouring_in_one_go_has_an_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[float] = []

    class Watching(Highlighter):
        def add(self, lines: list[str]) -> list[Parts]:
            found = code._allowed.get()
            allowed.append(found.seconds if found else math.inf)
            return super().add(lines)

    monkeypatch.setattr("twofold.term.markdown_lines.Highlighter", Watching)
    monkeypatch.setattr("twofold.term.diff_lines.Highlighter", Watching)
    fence, diff = "```python\nx = 1\n```", v2.JuneDiff("/a.py", "x = 1\n", old_text="")
    scene = Scene().play(said(f"{fence}\n"), call("a", content=[diff]), call("b", "completed"))
    scene.play(call("c", content=[v2.Content(TextContent(fence))]))
    scene.end()
    scene.live_area.expanded(40)
    assert len(allowed) >= 3
    assert max(allowed) <= COLOURING


# ---- the person ----------------------------------------------------------------------------------


@pytest.mark.parametrize("echo", ["Do it\nnow", "Do  it now ", "Do it"])
def test_what_the_client_has_shown_is_not_shown_again_when_it_comes_back(echo: str) -> None:
    scene = Scene()
    scene.live_area.begin_turn("Do it\nnow")
    scene.play(v2.UserMessage("u", content=[TextContent(echo)]), said("Done."))
    assert blocks(scene.end()) == [["Done."]]


def test_what_someone_else_said_is_shown() -> None:
    scene = Scene()
    scene.live_area.begin_turn("Do it")
    scene.play(v2.UserMessageChunk("u", TextContent("Not me")), said("Done."))
    assert blocks(scene.end()) == [["> Not me"], ["Done."]]


# ---- cancelling ----------------------------------------------------------------------------------


def test_open_calls_and_late_words_are_shown_as_cancelled() -> None:
    scene = Scene(rows=20).play(v2.StateUpdate("running"), call("a"), said("before"))
    scene.session.cancel()
    scene.live_area.mark_cancelled()
    scene.play(said("after"))
    assert "⊘ Call a  (cancelling)" in scene.terminal.screen
    scene.play(said("new", "n"), *scene.session.cancelled_calls())
    rows = scene.end()
    assert "⊘ Call a  (cancelled)" in rows
    assert rows[-2:] == ["⊘ after the cancel:", "new"]
    assert rows[rows.index("before") : rows.index("after") + 1] == [
        "before",
        "⊘ after the cancel:",
        "after",
    ]


def test_a_cancel_does_not_touch_what_an_earlier_turn_left_open() -> None:
    scene = Scene(rows=20).play(v2.StateUpdate("running"), call("a"), v2.StateUpdate("idle"))
    assert scene.end() == ["– Call a  (not finished)"]
    scene.live_area.begin_turn()
    scene.play(v2.StateUpdate("running"), call("b"))
    scene.session.cancel()
    scene.live_area.mark_cancelled()
    scene.play(*scene.session.cancelled_calls(), v2.StateUpdate("idle", "cancelled"))
    assert scene.end() == ["– Call a  (not finished)", "", "⊘ Call b  (cancelled)"]


def test_a_call_that_a_turn_leaves_open_does_not_look_as_if_it_went_on() -> None:
    scene = Scene(rows=20).play(v2.StateUpdate("running"), call("a"))
    scene.play(v2.StateUpdate("idle", "end_turn"))
    assert scene.end() == ["– Call a  (not finished)"]


def test_a_cancel_that_nothing_is_said_after_leaves_no_word_of_it() -> None:
    scene = Scene().play(v2.StateUpdate("running"), said("before"))
    scene.session.cancel()
    scene.live_area.mark_cancelled()
    scene.play(v2.StateUpdate("idle", stop_reason="cancelled"))
    assert scene.end() == ["before"]


# ---- questions -----------------------------------------------------------------------------------


def asks(scene: Scene, identity: str, request_id: int = 1) -> None:
    """The agent asks about a tool call."""
    request = v2.RequestPermissionRequest(
        "s", "Do it?", [], subject=v2.ToolCallPermissionSubject(v2.ToolCallPatch(identity))
    )
    scene.live_area.apply(scene.session.ask(request_id, request))


def new_file(lines: int) -> v2.JuneDiff:
    return v2.JuneDiff("/new", "".join(f"line {number}\n" for number in range(lines)))


def test_a_call_that_is_asked_about_is_shown_by_the_question_alone() -> None:
    scene = Scene(rows=20).play(call("a", "pending", content=[new_file(3)]))
    asks(scene, "a")
    scene.draw()
    assert "? Call a  (waiting for permission)" in scene.terminal.screen
    assert "  +line 0" not in scene.terminal.screen  # the question will show it
    scene.live_area.set_question(Key("entry", 0))
    scene.draw()
    assert not any("Call a" in row for row in scene.terminal.screen)
    scene.live_area.apply(scene.session.settle(1))
    scene.live_area.set_question(None)
    scene.play(call("a", "completed"))
    rows = scene.end()
    assert "✓ Call a  (completed)" in rows
    assert "  +line 0" in rows


@pytest.mark.parametrize("whole", [True, False])
def test_a_diff_that_a_question_has_printed_is_not_printed_again(whole: bool) -> None:
    scene = Scene(rows=20).play(call("a", "pending", content=[new_file(3)]))
    asks(scene, "a")
    scene.live_area.set_question(Key("entry", 0))
    scene.live_area.print_question(line("the question, with the diff").rows(40), 40, whole=whole)
    scene.draw()
    scene.live_area.apply(scene.session.settle(1))
    scene.live_area.set_question(None)
    scene.play(call("a", "completed"))
    rows = scene.end()
    assert rows.index("the question, with the diff") < rows.index("✓ Call a  (completed)")
    assert ("  +line 0" in rows) == (not whole)


def test_what_is_kept_is_not_written_again_and_what_came_meanwhile_is() -> None:
    scene = Scene(rows=20).play(said("one", "m"), call("a", "completed"), call("b"))
    scene.draw()
    scene.play(said("two", "n"), draw=False)
    scene.live_area.leave_on_screen()
    frame = scene.live_area.draw(scene.writer.width, 19)
    assert ["".join(text for text, _ in row) for row in frame.settled if row] == ["two"]
    assert any("Call b" in text for row in frame.live for text, _ in row)  # it is still open


def test_output_that_an_agent_has_fenced_is_shown_without_the_fence() -> None:
    text = "```console\nfirst\n" + "more\n" * 30 + "```"
    scene = Scene(rows=40).play(call("a", "completed", content=[v2.Content(TextContent(text))]))
    rows = scene.end()
    assert "    first" in rows
    assert not any("```" in row for row in rows)
    assert any("more lines" in row for row in rows)


def test_what_was_decided_stands_with_the_call() -> None:
    scene = Scene()
    scene.notes[Key("entry", 0)] = ["allowed by --allow read"]
    assert scene.play(call("a", "completed")).end() == [
        "✓ Call a  (completed)",
        "  allowed by --allow read",
    ]


# ---- everything else -----------------------------------------------------------------------------


def test_the_plan_stays_at_the_bottom_and_goes_to_the_scrollback_once() -> None:
    def plan(*statuses: str) -> v2.PlanUpdate:
        entries = [v2.PlanEntry(f"step {n}", "high", status) for n, status in enumerate(statuses)]
        return v2.PlanUpdate(v2.PlanItems("p", entries))

    scene = Scene(rows=20).play(plan("in_progress", "pending"), said("hello"))
    assert scene.terminal.screen[-5:-2] == ["Plan", "  ◐ step 0", "  ○ step 1"]
    scene.play(plan("completed", "completed"))
    assert blocks(scene.end())[-1] == ["Plan", "  ✓ step 0", "  ✓ step 1"]
    assert "\n".join(scene.terminal.all).count("Plan") == 1


def test_a_remark_stands_where_it_was_made() -> None:
    scene = Scene().play(said("one", "m"))
    scene.live_area.add_remark([line("Something happened.")])
    assert blocks(scene.play(said("two", "n")).end()) == [
        ["one"],
        ["Something happened."],
        ["two"],
    ]


def test_pictures_are_handed_on_when_their_words_are_in_the_scrollback() -> None:
    picture = ImageContent("aGVsbG8=", "image/png")
    scene = Scene().play(v2.AgentMessageChunk("m", picture))
    assert scene.live_area.pictures == []
    assert scene.end() == ["[image image/png, 5 bytes]"]
    assert scene.live_area.pictures == [picture]


def test_between_turns_only_what_is_done_is_printed() -> None:
    scene = Scene()
    scene.play(call("a"), said("hello"), draw=False)
    quiet = scene.live_area.draw_finished(50)
    assert ["".join(text for text, _ in row) for row in quiet.settled] == ["hello"]
    scene.play(call("a", "completed"), draw=False)
    assert len(scene.live_area.draw_finished(50).settled) == 2


@given(v2_struct_streams(max_size=25), st.integers(10, 70), st.integers(3, 20))
def test_whatever_comes_is_drawn_inside_the_screen_and_each_message_is_there_in_the_end(
    updates: list[v2.SessionUpdate], columns: int, height: int
) -> None:
    scene = Scene(columns, height)
    for update in updates:
        try:
            scene.play(update)
        except NotBase64:
            continue
        assert scene.terminal.screen[-1] == "status"
    rows = scene.end()
    assert scene.live_area.empty
    assert all(len(row) <= columns for row in rows)
    assert "\x1b]" not in scene.terminal.written.decode()


def test_output_of_a_terminal_without_a_size_is_broken_by_the_screen_only() -> None:
    wide = "x" * 150
    output: list[v2.SessionUpdate] = [
        v2.TerminalUpdate("t", "make"),
        v2.TerminalOutputChunk("t", base64.b64encode(f"{wide}\r\n".encode()).decode()),
        call("a", content=[v2.Terminal("t")]),
    ]
    assert any(row.endswith(wide) for row in Scene(columns=200).play(*output).end())
    narrow = Scene(columns=60).play(*output).end()
    assert sum(row.count("x") for row in narrow) == 150
    assert max(map(len, narrow)) <= 60
