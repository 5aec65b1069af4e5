"""The queue of prompts: in order, bounded, and nothing is sent that is held."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.client.prompt_blocks import Part
from twofold.errors import LocalError
from twofold.host import prompt_queue
from twofold.host.prompt_queue import NotQueued, PromptQueue, QueueFull
from twofold.wire.content import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "reason", "take", "hold", "hold others", "send", "remove", "edit"]),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(STEPS)
def test_prompts_are_taken_in_order_and_held_ones_only_after_they_were_sent(
    steps: list[tuple[str, int]],
) -> None:
    queue = PromptQueue(6)
    model: list[dict[str, Any]] = []  # in order: reasons first
    for number, (step, which) in enumerate(steps):
        items = [each["item"] for each in model]
        item = items[which] if which < len(items) else "none"
        if step in ("add", "reason"):
            if len(model) == 6:
                with pytest.raises(QueueFull, match="6 prompts"):
                    queue.add(["more"], "Anna")
                continue
            reason = step == "reason"
            made = queue.add([f"{number}"], "Anna", is_reason=reason)
            place = sum(each["reason"] for each in model) if reason else len(model)
            model.insert(place, {"item": made, "held": False, "reason": reason})
        elif step == "take":
            free = [each for each in model if not each["held"]]
            taken = queue.take()
            assert (taken.item if taken else None) == (free[0]["item"] if free else None)
            model = [each for each in model if not free or each is not free[0]]
        elif step.startswith("hold"):
            queue.hold(reasons=step == "hold")
            for each in model:
                each["held"] = each["held"] or step == "hold" or not each["reason"]
        elif item == "none":
            with pytest.raises(NotQueued):
                getattr(queue, step)(*([item, "text"] if step == "edit" else [item]))
        elif step == "send":
            queue.send(item)
            model[which]["held"] = False
        elif step == "remove":
            queue.remove(item)
            del model[which]
        else:
            queue.edit(item, f"edited {number}")
        assert [(each.item, each.held) for each in queue] == [
            (each["item"], each["held"]) for each in model
        ]
        assert len(queue) == len(model)


def test_what_was_not_sent_is_put_back_held_and_first() -> None:
    queue = PromptQueue(5)
    queue.add(["first"], "Anna")
    taken = queue.take()
    assert taken is not None
    queue.add(["second"], "Anna")
    queue.put_back(taken)
    assert [(each.text, each.held) for each in queue] == [("first", True), ("second", False)]


@pytest.mark.parametrize("parts", [[], [""], ["  \n"]])
def test_a_prompt_needs_some_content(parts: list[Part]) -> None:
    queue = PromptQueue(5)
    with pytest.raises(LocalError, match="needs some content"):
        queue.add(parts, "Anna")
    item = queue.add(["text"], "Anna")
    with pytest.raises(LocalError, match="needs some content"):
        queue.edit(item, " ")
    assert [each.text for each in queue] == ["text"]


LARGE = "x" * 400
PARTS = [
    LARGE,
    TextContent(LARGE),
    ImageContent(LARGE, "image/png"),
    AudioContent(LARGE, "audio/wav"),
    EmbeddedResource(TextResourceContents(LARGE, "file:///a")),
    EmbeddedResource(BlobResourceContents(LARGE, "file:///a")),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_all_that_is_queued_has_a_bound(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_queue, "LARGEST", 1000)
    queue = PromptQueue(100)
    queue.add([part], "Anna")
    item = queue.add([part], "Anna")
    with pytest.raises(QueueFull, match="too large"):
        queue.add([part], "Anna")
    with pytest.raises(QueueFull, match="too large"):
        queue.edit(item, "x" * 700)
    queue.edit(item, "short")


def test_attachments_are_named_in_a_few_words() -> None:
    queue = PromptQueue(5)
    queue.add(["look", Path("/a/\x1b[31mb.txt"), ResourceLink("c", "file:///c")], "Anna")
    (prompt,) = queue
    assert prompt.attachments == ["/a/b.txt", "[link c, file:///c]"]
    assert prompt.text == "look"
