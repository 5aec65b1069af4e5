"""What an agent asks a person, and which key answers what."""

import asyncio
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import pytest

from tests.support.simulated import simulate, turns
from twofold.client.permissions import Question
from twofold.policy import subject_of
from twofold.session import Session
from twofold.term.input.guard import SILENCE
from twofold.term.input.questions import PendingQuestion, Questions, choices
from twofold.term.lines import plain
from twofold.term.question_lines import MOST_LINES
from twofold.view.blocks import QuestionBlock
from twofold.view.question import question_block
from twofold.wire import v2
from twofold.wire.shared import PermissionOption

ONCE = PermissionOption("once", "Run it", "allow_once")
ALWAYS = PermissionOption("always", "Always", "allow_always")
NO = PermissionOption("no", "Do not run it", "reject_once")
NEVER = PermissionOption("never", "Never", "reject_always")
OTHER = PermissionOption("other", "Perhaps", "_maybe")
KNOWN = [ONCE, ALWAYS, NO, NEVER]
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\nyes\u202e" + "x" * 10_000


def asks(
    options: Iterable[PermissionOption] = KNOWN,
    title: str = "Run this?",
    subject: v2.RequestPermissionSubject | None = None,
    description: str | None = None,
) -> Question:
    request = v2.RequestPermissionRequest("s", title, list(options), description=description)
    if subject is not None:
        request.subject = subject
    session = Session("s")
    return Question(session, request, subject_of(request, session))


def shown(questions: Questions, width: int = 60) -> str:
    return "\n".join(plain(row) for row in questions.rows(width))


# ---- which key is which ----------------------------------------------------------------------

KEYS: dict[str, tuple[list[str], list[str]]] = {
    "each kind has its key": (
        ["allow_once", "allow_always", "reject_once", "reject_always"],
        ["y", "a", "n", "d"],
    ),
    "wherever it stands": (["reject_once", "allow_once"], ["n", "y"]),
    "two of one kind are told apart by numbers": (
        ["allow_once", "allow_once", "reject_once"],
        ["1", "2", "n"],
    ),
    "also where they do not stand together": (
        ["allow_once", "reject_once", "allow_once"],
        ["1", "n", "2"],
    ),
    "a kind that nobody knows has a number": (["_maybe", "allow", "y"], ["1", "2", "3"]),
    "and so has an empty one": (["", "allow_once"], ["1", "y"]),
    "there are nine numbers": (["_maybe"] * 11, list("123456789")),
    "no options, no keys": ([], []),
}


@pytest.mark.parametrize(("kinds", "keys"), KEYS.values(), ids=list(KEYS))
def test_a_key_stands_for_a_kind_of_option(kinds: list[str], keys: list[str]) -> None:
    options = [PermissionOption(f"{n}", "yes", kind) for n, kind in enumerate(kinds)]
    made = choices(options)
    assert [choice.key for choice in made] == keys
    assert [choice.option for choice in made] == options[: len(keys)]


def test_an_option_of_an_unknown_kind_is_not_allowed_by_its_name() -> None:
    made = choices([PermissionOption("y", "yes", "_allow_once"), NO])
    assert [choice.key for choice in made] == ["1", "n"]


# ---- answers ---------------------------------------------------------------------------------

ANSWERS: dict[str, tuple[str, PermissionOption | None]] = {
    "y allows once": ("y", ONCE),
    "a allows always": ("a", ALWAYS),
    "n rejects": ("n", NO),
    "d rejects for always": ("d", NEVER),
    "1 is the one of an unknown kind": ("1", OTHER),
    "escape rejects": ("escape", None),
}


@pytest.mark.parametrize(("key", "answer"), ANSWERS.values(), ids=list(ANSWERS))
def test_a_key_answers_what_was_read(key: str, answer: PermissionOption | None) -> None:
    async def main() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.ask(asks([*KNOWN, OTHER])))
        await turns()
        questions.rows(60)
        await asyncio.sleep(SILENCE)
        assert questions.press(key)
        if key in ("a", "d"):
            assert f"{key} again: " in shown(questions)
            await asyncio.sleep(SILENCE)
            assert questions.press(key)
        assert await asking == answer
        assert questions.current is None
        assert questions.rows(60) == []

    simulate(main())


@pytest.mark.parametrize("key", ["c-m", "c-j", " ", "Y", "2", "x", "up", "<bracketed-paste>"])
def test_any_other_key_answers_nothing_and_is_for_someone_else(key: str) -> None:
    async def main() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.ask(asks()))
        await turns()
        questions.rows(60)
        await asyncio.sleep(SILENCE)
        assert not questions.press(key)
        await turns()
        assert not asking.done()
        await asyncio.sleep(SILENCE)
        questions.press("n")
        assert await asking == NO

    simulate(main())


@pytest.mark.parametrize("key", ["y", "escape"])
def test_a_key_that_comes_before_the_question_could_be_read_is_no_answer(key: str) -> None:
    async def main() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.ask(asks()))
        await turns()
        assert not questions.press(key)  # it is not even drawn
        questions.rows(60)
        assert not questions.press(key)
        await asyncio.sleep(SILENCE * 0.9)
        questions.rows(60)  # drawn again: it is read since the first time
        assert not questions.press(key)
        await turns()
        assert not asking.done()
        await asyncio.sleep(SILENCE)
        assert questions.is_open()
        assert questions.press(key)
        assert not questions.press(key)  # twice: it answers once
        assert questions.in_burst
        assert await asking == (ONCE if key == "y" else None)

    simulate(main())


def test_with_something_typed_ahead_a_deliberate_key_comes_first() -> None:
    async def main() -> None:
        questions = Questions()
        questions.has_typed_ahead = lambda: True
        asking = asyncio.create_task(questions.ask(asks()))
        await turns()
        questions.rows(60)
        await asyncio.sleep(3600)
        assert not questions.is_open()
        assert not questions.press("y")
        assert not questions.press("c-i"), "behind a text Tab completes"
        assert questions.press("c-y")
        assert questions.is_open()
        assert questions.press("y")
        assert await asking == ONCE

    simulate(main())


def test_keys_that_come_together_answer_nothing() -> None:
    async def main() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.ask(asks()))
        await turns()
        questions.rows(60)
        await asyncio.sleep(SILENCE)
        assert not questions.press("y", alone=False)
        assert not questions.press("c-m", alone=False)
        await turns()
        assert not asking.done()
        asking.cancel()
        await turns()

    simulate(main())


def test_how_long_the_silence_is_can_be_chosen() -> None:
    async def main() -> None:
        questions = Questions(silence=5)
        asking = asyncio.create_task(questions.ask(asks()))
        await turns()
        questions.rows(60)
        await asyncio.sleep(4.9)
        assert not questions.is_open()
        await asyncio.sleep(0.1)
        assert questions.is_open()
        questions.press("n")
        assert await asking == NO

    simulate(main())


def test_without_a_question_no_key_is_an_answer() -> None:
    async def main() -> None:
        assert not any(Questions().press(key) for key in ("y", "n", "escape", "1"))

    simulate(main())


# ---- several ---------------------------------------------------------------------------------


def test_questions_are_asked_one_after_the_other_and_each_is_read() -> None:
    async def main() -> None:
        questions = Questions()
        changes: list[str | None] = []
        questions.on_change = lambda: changes.append(
            questions.current.question.request.title if questions.current else None
        )
        asking = [
            asyncio.create_task(questions.ask(asks(title=title))) for title in ("one", "two", "six")
        ]
        await turns()
        assert "? one" in shown(questions)
        assert "(2 more questions wait)" in shown(questions)
        await asyncio.sleep(SILENCE)
        questions.press("y")
        await turns()
        assert "? two" in shown(questions)
        assert "(1 more question waits)" in shown(questions)
        assert not questions.press("y")  # it came for the one before
        await turns()
        assert not asking[1].done()
        await asyncio.sleep(SILENCE)
        questions.press("n")
        await turns()
        assert "more question" not in shown(questions)
        await asyncio.sleep(SILENCE)
        questions.press("escape")
        assert [await each for each in asking] == [ONCE, NO, None]
        assert [title for title, _ in groupby(changes)] == ["one", "two", "six", None]

    simulate(main())


@pytest.mark.parametrize("number", [0, 1])
def test_a_question_that_is_cancelled_goes_away(number: int) -> None:
    async def main() -> None:
        questions = Questions()
        asking = [asyncio.create_task(questions.ask(asks(title=title))) for title in ("one", "two")]
        await turns()
        questions.rows(60)
        asking[number].cancel()
        await turns()
        left = asking[1 - number]
        assert asking[number].cancelled()
        assert ("? two" if number == 0 else "? one") in shown(questions)
        await asyncio.sleep(SILENCE)
        questions.rows(60)
        await asyncio.sleep(SILENCE)
        questions.press("y")
        assert await left == ONCE

    simulate(main())


# ---- the reason of a rejection ---------------------------------------------------------------


async def opened_reason(questions: Questions) -> None:
    await turns()
    questions.rows(60)
    await asyncio.sleep(SILENCE)
    assert questions.press("r")
    assert questions.asks_reason


def test_a_reason_rejects_once_and_is_kept_with_the_question() -> None:
    async def main() -> None:
        questions, question = Questions(), asks([NEVER, NO, ONCE])
        asking = asyncio.create_task(questions.ask(question))
        await opened_reason(questions)
        assert not any(questions.press(key) for key in ["y", "n", "d", "escape", "c-m", "c-i"])
        assert questions.reject("use make")
        assert await asking == NO
        assert question.reason == "use make"
        assert not questions.asks_reason
        assert questions.in_burst
        assert not questions.reject("again")

    simulate(main())


def test_who_goes_back_from_a_reason_is_asked_anew() -> None:
    async def main() -> None:
        questions, question = Questions(), asks()
        asking = asyncio.create_task(questions.ask(question))
        await opened_reason(questions)
        await asyncio.sleep(SILENCE)
        questions.leave_reason()
        questions.rows(60)
        assert not questions.press("n")
        await asyncio.sleep(SILENCE)
        assert questions.press("y")
        assert await asking == ONCE
        assert question.reason == ""

    simulate(main())


def test_a_reason_ends_with_its_question() -> None:
    async def main() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.ask(asks()))
        await opened_reason(questions)
        await asyncio.sleep(SILENCE * 5)
        asking.cancel()
        await turns()
        assert not questions.asks_reason
        assert not questions.reject("too late")
        questions.note_key()
        assert questions.in_burst

    simulate(main())


def test_no_reason_is_asked_for_where_the_agent_does_not_offer_to_reject_once() -> None:
    async def main() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.ask(asks([ONCE, NEVER])))
        await turns()
        assert "reason" not in shown(questions)
        await asyncio.sleep(SILENCE)
        assert not questions.press("r")
        assert not questions.asks_reason
        asking.cancel()
        await asyncio.wait([asking])

    simulate(main())


# ---- what is to be seen ----------------------------------------------------------------------


def seen(question: Question, width: int = 60) -> list[str]:
    async def main() -> list[str]:
        asked = PendingQuestion(question)
        return [plain(row) for row in [*asked.description_rows(width), *asked.answer_rows(width)]]

    return simulate(main())


def test_a_question_shows_what_would_happen_and_the_keys() -> None:
    command = v2.CommandPermissionSubject("make all\nmake install", "/home/me/project")
    assert seen(asks([ONCE, NO], "Build it?", command, "It takes a while.")) == [
        "",
        "? Build it?",
        "  │ It takes a while.",
        "  $ make all",
        "  > make install",
        "  in /home/me/project",
        "  $ make all  … 1 more line",
        "  y Run it (allow once)   n Do not run it (reject once)",
        "  r reject with a reason   Esc reject",
    ]


def test_a_question_about_a_tool_call_shows_its_command_and_its_paths() -> None:
    call = v2.ToolCallPatch(
        "t",
        kind="edit",
        raw_input={"command": "sed -i s/a/b/ a.py"},
        locations=[v2.ToolCallLocation("/src/a.py"), v2.ToolCallLocation("/src/b.py")],
    )
    rows = seen(asks([NO], "Edit?", v2.ToolCallPermissionSubject(call)))
    assert rows == [
        *("", "? Edit?  (edit)", "  $ sed -i s/a/b/ a.py", "  │ /src/a.py", "  │ /src/b.py"),
        "  n Do not run it (reject once)   r reject with a reason",
        "  Esc reject",
    ]


def test_options_that_no_key_is_left_for_are_counted() -> None:
    options = [PermissionOption(f"{number}", "Maybe", "maybe") for number in range(12)]
    assert seen(asks(options))[-1] == "  (3 more options without a key)"


def test_an_option_that_is_called_like_its_kind_is_not_told_twice() -> None:
    options = [PermissionOption("a", "Allow once", "allow_once"), OTHER]
    assert seen(asks(options))[-1] == "  y Allow once   1 Perhaps (maybe)   Esc reject"


@pytest.mark.parametrize(
    "subject",
    [
        v2.CommandPermissionSubject(EVIL, EVIL),
        v2.ToolCallPermissionSubject(
            v2.ToolCallPatch(EVIL, title=EVIL, locations=[v2.ToolCallLocation(EVIL)] * 100)
        ),
    ],
    ids=["command", "tool call"],
)
def test_nothing_that_an_agent_asks_reaches_the_terminal_as_a_command(
    subject: v2.RequestPermissionSubject,
) -> None:
    options = [PermissionOption("o", EVIL, "allow_once"), PermissionOption("p", EVIL, EVIL)]
    rows = seen(asks(options, EVIL, subject, EVIL), 80)
    assert all(char.isprintable() for row in rows for char in row)
    assert "\u202e" not in "".join(rows)


def test_the_keys_are_seen_however_long_the_options_are_called() -> None:
    async def main() -> None:
        asked = PendingQuestion(
            asks([PermissionOption("o", EVIL, kind) for kind in ("allow_once", "x")])
        )
        rows = [plain(row) for row in asked.answer_rows(80)]
        assert len(rows) < 8
        assert rows[0].startswith("  y")
        assert rows[-1].endswith("Esc reject")

    simulate(main())


# ---- much to see -----------------------------------------------------------------------------


def long_command(lines: int) -> Question:
    text = "\n".join(["rm -rf ~", *["# nothing"] * (lines - 2), "git status"])
    return asks(title="Look around?", subject=v2.CommandPermissionSubject(text, "/w"))


def test_what_does_not_fit_is_printed_once_and_the_keys_stay() -> None:
    async def main() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.ask(long_command(50)))
        await turns()
        assert questions.rows_to_print(60, 80) == []  # it fits
        printed = [plain(row) for row in questions.rows_to_print(60, 20)]
        assert printed[1:3] == ["? Look around?", "  $ rm -rf ~"]
        assert printed[-2:] == ["  > git status", "  in /w"]
        assert len(printed) == 53
        assert questions.rows_to_print(60, 20) == []
        assert [plain(row) for row in questions.rows(60)][:3] == [
            "",
            "? Look around?",
            "  $ rm -rf ~  … 49 more lines",
        ]
        await asyncio.sleep(SILENCE)
        questions.press("y")
        assert await asking == ONCE

    simulate(main())


@pytest.mark.parametrize("how", ["y", "a", "ctrl-o"])
def test_what_is_folded_is_shown_before_it_is_allowed(how: str) -> None:
    async def main() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.ask(long_command(300)))
        await turns()
        folded = [plain(row) for row in questions.rows_to_print(60, 20)]
        assert "  … 288 more lines, Ctrl-O shows them" in folded
        assert "  (a key that allows shows everything first)" in shown(questions).split("\n")
        await asyncio.sleep(SILENCE)
        assert questions.unfold() if how == "ctrl-o" else questions.press(how)
        await turns()
        assert not asking.done()
        assert len(questions.rows_to_print(60, 20)) == 303
        assert "everything first" not in shown(questions)
        assert not questions.press("y")  # it has to be read first
        await asyncio.sleep(SILENCE)
        assert not questions.unfold()  # there is nothing more to see
        questions.has_typed_ahead = lambda: False
        assert questions.press("y")
        assert await asking == ONCE

    simulate(main())


def test_what_is_folded_can_be_rejected_at_once() -> None:
    async def main() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.ask(long_command(300)))
        await turns()
        questions.rows_to_print(60, 20)
        questions.rows(60)
        await asyncio.sleep(SILENCE)
        assert questions.press("n")
        assert await asking == NO

    simulate(main())


def test_what_nobody_can_see_is_allowed_once_at_most_and_asked_for_twice() -> None:
    async def main() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.ask(long_command(MOST_LINES + 100)))
        await turns()
        questions.rows_to_print(60, 20)
        questions.rows(60)
        await asyncio.sleep(SILENCE)
        assert questions.press("y")
        printed = [plain(row) for row in questions.rows_to_print(60, 20)]
        assert printed[-1] == "  … too long: 100 lines, 901 characters are not shown"
        assert "allow always" not in shown(questions)
        assert "(1 more option without a key)" in shown(questions)
        await asyncio.sleep(SILENCE)
        assert not questions.press("a")
        await asyncio.sleep(SILENCE)
        assert questions.press("y")
        assert "y again" in shown(questions)
        await asyncio.sleep(SILENCE)
        assert questions.press("y")
        assert await asking == ONCE

    simulate(main())


def test_a_call_that_changes_while_it_is_asked_about_is_asked_about_anew() -> None:
    async def main() -> None:
        call = v2.ToolCallPatch("t", raw_input={"command": "ls"})
        question = asks(subject=v2.ToolCallPermissionSubject(call))
        session = question.session
        session.ask(1, question.request)
        questions = Questions()
        asking = asyncio.create_task(questions.ask(question))
        await turns()
        assert "$ ls" in shown(questions)
        await asyncio.sleep(SILENCE)
        questions.apply(session.apply(v2.ToolCallUpdate("t", status="in_progress")))
        assert questions.is_open()  # nothing else would happen
        questions.apply(session.apply(v2.ToolCallUpdate("t", raw_input={"command": "rm -rf ~"})))
        assert not questions.press("y")
        assert "$ ls" in shown(questions)
        assert "$ rm -rf ~" in shown(questions)
        await asyncio.sleep(SILENCE)
        questions.has_typed_ahead = lambda: False
        assert questions.press("n")
        assert await asking == NO

    simulate(main())


# ---- many of them ----------------------------------------------------------------------------


def test_a_question_costs_the_same_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(request: v2.RequestPermissionRequest, **rest: Any) -> QuestionBlock:
        made.append(request.title)
        return question_block(request, **rest)

    monkeypatch.setattr("twofold.client.permissions.question_block", counted)

    async def main() -> None:
        questions = Questions()
        changes: list[None] = []
        questions.on_change = lambda: changes.append(None)
        asking = [asyncio.create_task(questions.ask(asks(title=f"{n}"))) for n in range(4000)]
        await turns()
        assert "(3,999 more questions wait)" in shown(questions)
        assert made == ["0"]  # of the others nothing is drawn
        for each in reversed(asking):
            each.cancel()
        await turns()
        assert questions.current is None
        assert made == ["0"]
        assert len(changes) == 8000

    simulate(main())


def test_options_without_end_are_counted_and_not_drawn() -> None:
    options = [PermissionOption(f"{number}", "Maybe", "maybe") for number in range(100_000)]
    rows = seen(asks(options))
    assert rows[-1] == "  (99,991 more options without a key)"
    assert len(rows) < 20
