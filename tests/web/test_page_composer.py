"""The composer: prompts, the queue, history, completion, attachments, and what can be set."""

import pytest
from playwright.sync_api import FilePayload, Locator, Page, expect

from tests.support.page_server import PageServer
from tests.web.conftest import OpenPage


def prompt(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Prompt")


def test_enter_sends_and_shift_enter_is_a_new_line(server: PageServer, open_page: OpenPage) -> None:
    server.add()
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    prompt(page).press_sequentially("one")
    prompt(page).press("Shift+Enter")
    prompt(page).press_sequentially("two")
    prompt(page).press("Enter")
    assert server.wait_for("prompt")["text"] == "one\ntwo"
    expect(prompt(page)).to_have_value("")


def test_up_recalls_what_was_sent(server: PageServer, open_page: OpenPage) -> None:
    server.add()
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    for number, text in enumerate(("first", "second"), 1):
        prompt(page).fill(text)
        prompt(page).press("Enter")
        server.wait_for("prompt", number)
    prompt(page).press("ArrowUp")
    expect(prompt(page)).to_have_value("second")
    prompt(page).press("ArrowUp")
    expect(prompt(page)).to_have_value("first")
    prompt(page).press("ArrowDown")
    prompt(page).press("ArrowDown")
    expect(prompt(page)).to_have_value("")


def test_what_is_queued_is_shown_edited_and_removed(
    server: PageServer, open_page: OpenPage
) -> None:
    session = server.add()
    queue = [
        {"item": "1", "text": "Then commit", "by": "anna", "held": False},
        {"item": "2", "text": "Then push", "by": "tester", "held": True},
    ]
    server.set(session, session={"state": "running"}, queue=queue)
    page = open_page(server.url)
    expect(page.locator("#send")).to_have_text("Queue")
    rows = page.locator("#queue li")
    expect(rows).to_have_text(
        ["Queued: Then commitby annaEditRemove", "Held: Then pushby testerSendEditRemove"]
    )
    rows.nth(0).get_by_role("button", name="Edit").click()
    page.get_by_label("Edit the queued prompt").fill("Then commit all")
    page.keyboard.press("Enter")
    assert server.wait_for("queue.edit") | {"id": 0} == {
        "type": "queue.edit",
        "id": 0,
        "item": "1",
        "text": "Then commit all",
    }
    rows.nth(1).get_by_role("button", name="Send").click()
    assert server.wait_for("queue.send")["item"] == "2"
    rows.nth(1).get_by_role("button", name="Remove").click()
    assert server.wait_for("queue.remove")["item"] == "2"


def test_escape_and_a_button_cancel_the_turn(server: PageServer, open_page: OpenPage) -> None:
    session = server.add()
    server.set(session, session={"state": "running"})
    page = open_page(server.url)
    page.get_by_role("button", name="Stop").click()
    server.wait_for("cancel", 1)
    prompt(page).press("Escape")
    server.wait_for("cancel", 2)
    server.set(session, session={"state": "idle"})
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_a_command_is_completed(server: PageServer, open_page: OpenPage) -> None:
    commands = [{"name": "compact", "description": "Shorter"}, {"name": "test", "description": ""}]
    server.add(commands=commands)
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    prompt(page).press_sequentially("/c")
    expect(page.get_by_role("option")).to_have_text("/compact Shorter")
    prompt(page).press("Tab")
    expect(prompt(page)).to_have_value("/compact ")


def test_a_path_is_completed(server: PageServer, open_page: OpenPage) -> None:
    server.add()
    server.answers["complete"] = lambda message: {"paths": ["src/a.py", "src/a b.py"]}
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    prompt(page).press_sequentially("See @a")
    expect(page.get_by_role("option")).to_have_count(2)
    assert server.wait_for("complete", 2)["text"] == "a"
    prompt(page).press("ArrowDown")
    prompt(page).press("Enter")
    expect(prompt(page)).to_have_value('See @"src/a b.py" ')
    assert server.of_type("prompt") == []


def test_files_are_attached_as_the_agent_takes_them(
    server: PageServer, open_page: OpenPage
) -> None:
    server.add()
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    picture: FilePayload = {"name": "a.png", "mimeType": "image/png", "buffer": b"\x89PNG"}
    sound: FilePayload = {"name": "a.mp3", "mimeType": "audio/mpeg", "buffer": b"ID3"}
    page.locator("#file-input").set_input_files([picture, sound])
    expect(page.locator("#attachments")).to_contain_text("a.png")
    expect(page.locator("#reports")).to_contain_text("This agent takes no sounds")
    prompt(page).fill("Look")
    prompt(page).press("Enter")
    sent = server.wait_for("prompt")["attachments"]
    assert sent == [{"name": "a.png", "mime": "image/png", "data": "iVBORw=="}]


PICTURE = {"name": "a.png", "type": "image/png", "text": "PNG"}
FILE = {"name": "notes.txt", "type": "text/plain", "text": "milk"}
SEND_FILES = """(target, [kind, files]) => {
  const data = new DataTransfer();
  for (const { name, type, text } of files) data.items.add(new File([text], name, { type }));
  const options = { bubbles: true, cancelable: true, dataTransfer: data, clipboardData: data };
  const event = kind === "paste" ? new ClipboardEvent(kind, options) : new DragEvent(kind, options);
  return !target.dispatchEvent(event);
}"""
"""Pastes or drops files; returns whether the page took them, and not the browser."""


@pytest.mark.parametrize("kind", ["paste", "drop"])
@pytest.mark.parametrize(
    ("taken", "names", "refusals"),
    [
        (("image", "embedded"), ["a.png", "notes.txt"], []),
        (("image",), ["a.png"], ["This agent takes no files: notes.txt is not attached."]),
        (("embedded",), ["notes.txt"], ["This agent takes no pictures: a.png is not attached."]),
        (
            (),
            [],
            [
                "This agent takes no pictures: a.png is not attached.",
                "This agent takes no files: notes.txt is not attached.",
            ],
        ),
    ],
)
def test_what_is_pasted_or_dropped_is_attached_as_the_agent_takes_it(
    server: PageServer,
    open_page: OpenPage,
    kind: str,
    taken: tuple[str, ...],
    names: list[str],
    refusals: list[str],
) -> None:
    session = server.add()
    server.set(session, session={"capabilities": dict.fromkeys(taken, True)})
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    assert prompt(page).evaluate(SEND_FILES, [kind, [PICTURE, FILE]])
    expect(page.locator("#attachments li")).to_have_text([f"{name} ×" for name in names])
    for words in refusals:
        expect(page.locator("#reports")).to_contain_text(words)
    prompt(page).fill("Look")
    prompt(page).press("Enter")
    sent = server.wait_for("prompt")["attachments"]
    data = {
        "a.png": {"name": "a.png", "mime": "image/png", "data": "UE5H"},
        "notes.txt": {"name": "notes.txt", "mime": "text/plain", "data": "bWlsaw=="},
    }
    assert sent == [data[name] for name in names]


def test_a_place_for_files_is_marked_while_they_are_above_it(
    server: PageServer, open_page: OpenPage
) -> None:
    server.add()
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    assert prompt(page).evaluate(SEND_FILES, ["dragover", [FILE]])
    expect(page.locator("#composer")).to_have_class("dropping")
    prompt(page).evaluate(SEND_FILES, ["drop", [FILE]])
    expect(page.locator("#composer")).not_to_have_class("dropping")
    expect(page.locator("#attachments")).to_contain_text("notes.txt")
    page.get_by_role("button", name="Remove notes.txt").click()
    expect(page.locator("#attachments")).to_be_hidden()


def test_text_that_is_pasted_is_left_to_the_browser(
    server: PageServer, open_page: OpenPage
) -> None:
    server.add()
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    assert not prompt(page).evaluate(SEND_FILES, ["paste", []])


def test_modes_and_options_are_set(server: PageServer, open_page: OpenPage) -> None:
    choices = [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]
    mode = {"id": "mode", "name": "Mode", "kind": "mode", "value": "ask", "choices": choices}
    loud = {"id": "loud", "name": "Loud", "kind": "boolean", "value": False, "choices": []}
    server.add(controls=[mode, loud], usage={"words": "12 of 200,000 tokens"})
    page = open_page(server.url)
    expect(page.locator("#usage")).to_have_text("12 of 200,000 tokens")
    page.locator("#controls").get_by_label("Mode").select_option("code")
    assert server.wait_for("option")["value"] == "code"
    page.get_by_label("Loud").check()
    assert server.wait_for("option", 2)["value"] is True


def test_a_control_that_cannot_be_set_goes_back(server: PageServer, open_page: OpenPage) -> None:
    choices = [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]
    mode = {"id": "mode", "name": "Mode", "kind": "mode", "value": "ask", "choices": choices}
    server.add(controls=[mode])
    refusal = {"type": "error", "message": "The agent refused this mode."}
    server.answers["option"] = lambda message: refusal
    page = open_page(server.url)
    page.locator("#controls").get_by_label("Mode").select_option("code")
    expect(page.locator("#reports")).to_contain_text("The agent refused this mode.")
    expect(page.locator("#controls").get_by_label("Mode")).to_have_value("ask")


def test_the_plan_shows_what_is_done_now_and_opens(server: PageServer, open_page: OpenPage) -> None:
    steps = [
        {"mark": "✓", "status": "completed", "text": "Find it"},
        {"mark": "▸", "status": "in_progress", "text": "Fix it"},
    ]
    server.add(plan=[{"steps": steps, "text": None}])
    page = open_page(server.url)
    expect(page.locator("#plan-summary")).to_have_text("Plan 1/2: Fix it")
    page.locator("#plan-summary").click()
    expect(page.locator("#plan li")).to_have_text(
        ["✓ Find it (completed)", "▸ Fix it (in progress)"]
    )


def test_what_was_written_is_there_after_a_reload(server: PageServer, open_page: OpenPage) -> None:
    server.add()
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    prompt(page).fill("not sent yet")
    page.reload()
    expect(prompt(page)).to_have_value("not sent yet")


def test_without_a_connection_nothing_is_sent_and_the_text_stays(
    server: PageServer, open_page: OpenPage
) -> None:
    server.add()
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    server.refuses = True
    server.cut()
    expect(page.locator("#connection")).to_contain_text("The connection is lost")
    prompt(page).fill("Later")
    prompt(page).press("Enter")
    expect(prompt(page)).to_have_value("Later")
    server.refuses = False
    expect(page.locator("#connection")).to_be_hidden()
    prompt(page).press("Enter")
    assert server.wait_for("prompt")["text"] == "Later"
