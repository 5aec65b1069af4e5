"""Questions on the page: answered by key and by mouse, and never by accident."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.page_blocks import plain, question
from tests.support.page_server import Json, PageServer, Played
from tests.web.conftest import OpenPage

ASKED = {"state": "waiting", "since": 0}


def asked(server: PageServer, *questions: Json) -> Played:
    session = server.add()
    server.set(session, session=ASKED, questions=list(questions or [question()]))
    return session


def wait_for_silence(page: Page) -> None:
    page.wait_for_selector("#question.quiet-now")


def answered(server: PageServer, count: int = 1) -> Json:
    sent = server.wait_for("answer", count)
    return {name: sent[name] for name in ("question", "option", "reason") if name in sent}


KEYS = {"y": "yes", "n": "no"}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_answers_after_a_silence(server: PageServer, open_page: OpenPage, key: str) -> None:
    asked(server)
    page = open_page(server.url)
    wait_for_silence(page)
    page.keyboard.press(key)
    assert answered(server) == {"question": "q1", "option": KEYS[key]}
    expect(page.locator("#question")).to_be_hidden()


def test_an_answer_for_always_is_given_twice(server: PageServer, open_page: OpenPage) -> None:
    asked(server)
    page = open_page(server.url)
    wait_for_silence(page)
    page.keyboard.press("a")
    expect(page.locator("#question .hint")).to_contain_text("Press a once more")
    page.keyboard.press("a")  # at once: it was held down, or pressed twice
    assert server.of_type("answer") == []
    wait_for_silence(page)
    page.keyboard.press("a")
    assert answered(server) == {"question": "q1", "option": "always"}


def test_another_key_goes_back_from_always(server: PageServer, open_page: OpenPage) -> None:
    asked(server)
    page = open_page(server.url)
    wait_for_silence(page)
    page.keyboard.press("a")
    page.keyboard.press("j")
    wait_for_silence(page)
    page.keyboard.press("a")
    expect(page.locator("#question .hint")).to_contain_text("Press a once more")
    wait_for_silence(page)
    page.keyboard.press("n")
    assert answered(server)["option"] == "no"


def test_a_question_names_the_rule_that_applies(server: PageServer, open_page: OpenPage) -> None:
    asked(server, question(why="--ask 'rm *' says to ask."))
    page = open_page(server.url)
    expect(page.locator("#question .why")).to_have_text("--ask 'rm *' says to ask.")


def test_a_key_without_a_silence_answers_nothing(server: PageServer, open_page: OpenPage) -> None:
    asked(server)
    page = open_page(server.url)
    page.wait_for_selector("#question")
    page.keyboard.type("yyyyyy")
    wait_for_silence(page)
    page.keyboard.press("n")
    assert answered(server)["option"] == "no"
    assert len(server.of_type("answer")) == 1


def test_typing_never_answers(server: PageServer, open_page: OpenPage) -> None:
    session = server.add()
    page = open_page(server.url)
    page.get_by_role("textbox", name="Prompt").focus()
    server.set(session, session=ASKED, questions=[question()])
    page.wait_for_selector("#question")
    expect(page.locator("#question .hint")).to_contain_text("keys do not answer")
    page.get_by_role("textbox", name="Prompt").press_sequentially("yes always no", delay=5)
    page.keyboard.press("Enter")
    assert server.wait_for("prompt")["text"] == "yes always no"
    assert server.of_type("answer") == []
    expect(page.locator("#question")).to_be_visible()


def test_a_click_answers(server: PageServer, open_page: OpenPage) -> None:
    asked(server)
    page = open_page(server.url)
    page.get_by_role("button", name="Do not run it").click()
    assert answered(server) == {"question": "q1", "option": "no"}


def test_a_question_does_not_take_a_click_that_was_meant_for_something_else(
    server: PageServer, open_page: OpenPage
) -> None:
    session = server.add()
    page = open_page(server.url)
    page.evaluate(
        """() => new MutationObserver(() => {
             for (const each of document.querySelectorAll("#question .answer")) each.click();
           }).observe(document.getElementById("question"), {childList: true})"""
    )
    server.set(session, session=ASKED, questions=[question()])
    page.get_by_role("button", name="Do not run it").click()
    assert [each["option"] for each in server.of_type("answer")] == ["no"]


def test_a_rejection_has_a_reason(server: PageServer, open_page: OpenPage) -> None:
    asked(server)
    page = open_page(server.url)
    wait_for_silence(page)
    page.keyboard.press("r")
    field = page.get_by_role("textbox", name="What the agent should do instead")
    expect(field).to_be_focused()
    field.press_sequentially("Use yarn, not npm")
    page.get_by_role("button", name="Reject", exact=True).click()
    assert answered(server) == {"question": "q1", "option": "no", "reason": "Use yarn, not npm"}


def test_an_enter_in_the_same_breath_rejects_nothing(
    server: PageServer, open_page: OpenPage
) -> None:
    asked(server)
    page = open_page(server.url)
    wait_for_silence(page)
    page.keyboard.press("r")
    page.keyboard.type("un it")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    wait_for_silence(page)
    page.keyboard.press("y")
    assert answered(server)["option"] == "yes"
    assert len(server.of_type("answer")) == 1


def test_the_focus_goes_to_the_question_and_back(server: PageServer, open_page: OpenPage) -> None:
    session = server.add()
    server.put(session, plain("thought", "Hm"))
    page = open_page(server.url)
    page.locator("summary", has_text="Thought").focus()
    server.set(session, session=ASKED, questions=[question()])
    expect(page.locator("#question")).to_be_focused()
    wait_for_silence(page)
    page.keyboard.press("y")
    expect(page.locator("summary", has_text="Thought")).to_be_focused()


def test_the_question_shows_whether_a_key_would_answer(
    server: PageServer, open_page: OpenPage
) -> None:
    asked(server)
    page = open_page(server.url)
    hint = page.locator("#question .hint")
    wait_for_silence(page)
    expect(hint).to_have_text("A key answers.")
    page.get_by_role("textbox", name="Prompt").focus()
    expect(hint).to_contain_text("keys do not answer")
    page.get_by_role("textbox", name="Prompt").evaluate("e => e.blur()")
    expect(hint).to_have_text("A key answers.")


def test_tab_in_an_empty_prompt_goes_to_the_question(
    server: PageServer, open_page: OpenPage
) -> None:
    session = server.add()
    page = open_page(server.url)
    prompt = page.get_by_role("textbox", name="Prompt")
    prompt.focus()
    server.set(session, session=ASKED, questions=[question()])
    page.wait_for_selector("#question")
    prompt.press("Tab")
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.press("Escape")
    expect(prompt).to_be_focused()
    assert server.of_type("cancel") == []


def test_questions_are_asked_one_after_the_other(server: PageServer, open_page: OpenPage) -> None:
    first, second = question("q1", title="First?"), question("q2", title="Second?")
    session = asked(server, first, second)
    page = open_page(server.url)
    expect(page.locator("#question")).to_contain_text("1 more question waits")
    wait_for_silence(page)
    page.keyboard.press("y")
    expect(page.locator("#question h2")).to_contain_text("Second?")
    server.set(session, questions=[second])
    wait_for_silence(page)
    page.keyboard.press("n")
    assert answered(server, 2) == {"question": "q2", "option": "no"}


def test_an_answer_of_somebody_else_takes_the_question_away(
    server: PageServer, open_page: OpenPage
) -> None:
    session = asked(server)
    pages = [open_page(server.url), open_page(server.url)]
    for page in pages:
        expect(page.locator("#question")).to_be_visible()
    words = {"question": "q1", "by": "anna", "words": "rejected by anna"}
    server.set(session, questions=[], answered=[words])
    for page in pages:
        expect(page.locator("#question")).to_be_hidden()
        expect(page.locator("#reports")).to_contain_text("rejected by anna")


def test_everything_that_would_happen_is_shown(server: PageServer, open_page: OpenPage) -> None:
    parts = [
        {"type": "NotePart", "text": "A note."},
        {"type": "CommandPart", "text": "make\nmake install", "cwd": "/srv"},
        {"type": "PathsPart", "locations": [{"path": "/etc/passwd", "line": 3}]},
        {"type": "TextPart", "text": "Please."},
        {
            "type": "ValuesPart",
            "name": "input",
            "values": [
                {"depth": 0, "name": "env", "text": ""},
                {"depth": 1, "name": "DEBUG", "text": "1"},
            ],
            "more": 4,
        },
        {"type": "DiffItem", "lines": [{"kind": "added", "text": "x"}]},
    ]
    asked(server, question(parts=parts))
    page = open_page(server.url)
    text = page.locator("#question .parts").inner_text()
    for words in (
        *("A note.", "$ make\n> make install", "in /srv", "/etc/passwd:3", "Please.", "input"),
        *("env", "DEBUG: 1", "4 more values are not shown", "+x"),
    ):
        assert words in text


def test_options_of_the_same_kind_have_numbers(server: PageServer, open_page: OpenPage) -> None:
    options = [
        {"option": "a", "name": "With tests", "kind": "allow_once"},
        {"option": "b", "name": "Without", "kind": "allow_once"},
        {"option": "c", "name": "Perhaps", "kind": "maybe"},
        {"option": "d", "name": "No", "kind": "reject_once"},
    ]
    asked(server, question(options=options))
    page = open_page(server.url)
    expect(page.locator("#question kbd")).to_have_text(["1", "2", "3", "n", "r"])
    wait_for_silence(page)
    page.keyboard.press("2")
    assert answered(server)["option"] == "b"


def test_who_may_only_look_cannot_answer(server: PageServer, open_page: OpenPage) -> None:
    server.role = "observer"
    asked(server)
    page = open_page(server.url)
    expect(page.locator("#question .hint")).to_contain_text("A controller has to answer")
    expect(page.locator("#question .answer")).to_have_count(0)
    expect(page.locator("#send")).to_be_disabled()
