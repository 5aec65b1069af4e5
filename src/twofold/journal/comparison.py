"""What two sessions add up to, compared: entry by entry, and then everything else.

Ids that an agent invents anew each time are left out: those of messages, of the session, and of
tool calls as far as their order is the same. Does no I/O.
"""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from twofold.session import Session, snapshot
from twofold.wire import codec

Kind: TypeAlias = Literal["only_first", "only_second", "changed"]

_INVENTED: Final = frozenset({"messageId", "updatedAt", "_meta"})
_ENTRIES: Final = frozenset(
    {"user_message", "agent_message", "agent_thought", "tool_call_update", "session_message"}
)


class Difference(Struct, frozen=True):
    """One thing that is not the same in both sessions."""

    kind: Kind
    name: str
    """The variant of the update that would make it."""
    label: str
    """Which one it is: a title, or the beginning of a text."""
    field: str = ""
    """The field that differs; empty for a whole entry."""
    first: Any = None
    """The value in the first session; None if it has none."""
    second: Any = None
    """The value in the second session; None if it has none."""


def compare(first: Session, second: Session) -> list[Difference]:
    """The differences of two sessions, in their order.

    Args:
        first: The session that is compared.
        second: What it is compared with.
    """
    entries, rest = _parted(first)
    other_entries, other_rest = _parted(second)
    matcher = SequenceMatcher(
        None, [_key(each) for each in entries], [_key(each) for each in other_entries], False
    )
    made: list[Difference] = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        block, other_block = entries[start:end], other_entries[other_start:other_end]
        if tag == "equal":
            pairs = zip(block, other_block, strict=True)
            made += [each for one, other in pairs for each in _pair(one, other)]
        else:
            made += _block(block, other_block)
    for name in sorted(rest.keys() | other_rest.keys()):
        made += _pair(rest.get(name), other_rest.get(name))
    return made


def _parted(session: Session) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The entries of a session, and everything else by its name."""
    entries: list[dict[str, Any]] = []
    rest: dict[str, dict[str, Any]] = {}
    for number, each in enumerate(snapshot(session)):
        update = codec.to_json(each)
        kind = update["sessionUpdate"]
        bare = {name: value for name, value in update.items() if name not in _INVENTED}
        if kind in _ENTRIES:
            entries.append(bare)
            continue
        identity = next((update[name] for name in _IDS if name in update), "")
        plan = update.get("plan")
        identity = plan.get("planId", "") if isinstance(plan, dict) else identity
        repeated = number if kind == "notice" else ""
        rest[f"{kind} {identity}{repeated}"] = bare
    return entries, rest


_IDS: Final = ("terminalId", "compactionId", "subagentId")


def _key(entry: dict[str, Any]) -> tuple[str, str]:
    """What makes two entries the same one: all of a message, the title of a tool call."""
    kind = entry["sessionUpdate"]
    if kind == "tool_call_update":
        return kind, str(entry.get("title") or entry.get("kind"))
    return kind, codec.encode(entry.get("content")).decode(errors="replace")


def _block(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> Iterator[Difference]:
    """The differences of entries at the same place: those of one kind are compared in pairs."""
    left = list(second)
    for entry in first:
        place = next(
            (
                place
                for place, other in enumerate(left)
                if other["sessionUpdate"] == entry["sessionUpdate"]
            ),
            None,
        )
        if place is None:
            yield from _pair(entry, None)
            continue
        for other in left[:place]:
            yield from _pair(None, other)
        yield from _pair(entry, left[place])
        del left[: place + 1]
    for other in left:
        yield from _pair(None, other)


def _pair(first: dict[str, Any] | None, second: dict[str, Any] | None) -> Iterator[Difference]:
    name = (first or second or {})["sessionUpdate"]
    label = _label(first or second or {})
    if first is None or second is None:
        kind: Kind = "only_first" if second is None else "only_second"
        yield Difference(kind, name, label, "", first, second)
        return
    for field in dict.fromkeys([*first, *second]):
        one, other = _comparable(first.get(field)), _comparable(second.get(field))
        if one != other and field != "toolCallId":
            yield Difference("changed", name, label, field, one, other)


def _comparable(value: Any) -> Any:
    """Content with its texts joined, for they may have arrived in other pieces."""
    if not isinstance(value, list):
        return value
    made: list[Any] = []
    for block in value:
        is_text = isinstance(block, dict) and block.get("type") == "text" and len(block) == 2
        if is_text and made and isinstance(made[-1], str):
            made[-1] += block["text"]
        else:
            made.append(block["text"] if is_text else block)
    return made[0] if len(made) == 1 and isinstance(made[0], str) else made


def _label(update: dict[str, Any]) -> str:
    for name in ("title", "state", "terminalId", "kind"):
        if isinstance(update.get(name), str):
            return str(update[name])
    content = _comparable(update.get("content"))
    first = content[0] if isinstance(content, list) and content else content
    return first if isinstance(first, str) else ""
