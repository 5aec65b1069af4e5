"""What a permission request would do, as far as the agent sent it: all of it, each thing once.

An agent may ask with less than it showed before, hide a script in the input of a tool beside
harmless content, or ask in a way that no schema has. So everything is collected: from the request,
from the tool call before and after the request patched it, and from what this client would do
itself. Nothing is cut here, but for objects with more values than anyone reads, which are marked.

Pure, and without any toolkit: every string of a block is safe to show.
"""

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from twofold.session import Terminal, ToolCall
from twofold.text.safe import one_line, sanitize
from twofold.view.blocks import (
    CommandPart,
    DiffItem,
    Location,
    NotePart,
    PathsPart,
    QuestionBlock,
    QuestionPart,
    TextPart,
    Value,
    ValuesPart,
    base64_size,
)
from twofold.view.diff import AnyDiff, diff_lines
from twofold.wire import codec, v2
from twofold.wire.base import UNSET, Extras, Wire
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import Content
from twofold.wire.tool_input import (
    ARGUMENTS,
    COMMANDS,
    DIRECTORIES,
    PLAIN_PATHS,
    PLAIN_TEXTS,
    SCRIPTS,
    letters_of,
)

MOST_VALUES: Final = 20_000
"""How many values of one object are shown."""
COMMAND: Final = "Run this command?"
"""What is asked where the title is nothing but the command."""

_RUN: Final = COMMANDS | SCRIPTS
_PROGRAMS: Final = COMMANDS - ARGUMENTS


def question_block(
    request: v2.RequestPermissionRequest,
    *,
    call: ToolCall | None = None,
    before: ToolCall | None = None,
    content: Iterable[v2.ToolCallContent] = (),
    terminals: Mapping[str, Terminal] | None = None,
    command: str | None = None,
    paths: Iterable[str] = (),
    directories: Iterable[str] = (),
) -> QuestionBlock:
    """Everything there is to see of a request.

    `call` is its tool call as it is now, `before` as it was before the request patched it.
    `content` is what this client itself would do. `command` and `paths` are what rules judge: they
    are shown where nothing else shows them. `directories` are the names of the session's own: of a
    command that runs there, none is shown.
    """
    found = _Found(terminals or {}, request.title, directories)
    if request.description:
        found.text(request.description)
    found.contents(content)
    match request.subject:
        case v2.ToolCallPermissionSubject() as subject:
            found.commands(subject.tool_call.raw_input)
            found.commands(call.raw_input if call is not None else None)
            found.call(subject.tool_call)
            found.rest(subject.tool_call)
        case v2.CommandPermissionSubject() as subject:
            found.command(subject.command, subject.cwd)
            found.terminal(subject.terminal_id or "")
        case v2.UnknownPermissionSubject() as subject:
            found.values("subject", subject.raw.fields)
    if call is not None:
        found.call(call)
    found.judged(command, paths)
    found.rest(request)
    if isinstance(request.subject, Wire):
        found.rest(request.subject)
    if before is not None:
        found.earlier(before)
    return QuestionBlock(found.title(), found.kind, found.all_parts())


class _Found:
    """What was found so far."""

    def __init__(
        self, terminals: Mapping[str, Terminal], title: str, directories: Iterable[str]
    ) -> None:
        self.kind = ""
        self._here = {each.rstrip("/") or "/" for each in directories}
        self._title = title
        self._terminals = terminals
        self._parts: list[QuestionPart] = []
        self._commands: dict[str, int] = {}  # where in the parts
        self._paths: set[str] = set()
        self._changed: set[str] = set()  # the paths that diffs name
        self._texts = {one_line(title)}
        self._lines: set[str] = set()  # of diffs
        self._diffs: set[bytes] = set()
        self._objects: set[tuple[str, bytes]] = set()
        self._leaves: set[str] = set()  # of objects
        self._names = {title}

    # ---- the end of it

    def title(self) -> str:
        """The title, unless it is the command that is shown anyway."""
        shown = [*self._commands] == [_unquoted(self._title)]
        return COMMAND if shown else one_line(self._title)

    def all_parts(self) -> tuple[QuestionPart, ...]:
        """Everything that there is to see; a note is added if that is next to nothing."""
        parts = [self._with_other(part) for part in self._parts if not self._is_command(part)]
        if not parts:
            return (NotePart("The agent shows only this title."),)
        if all(isinstance(part, TextPart) for part in parts):
            parts.append(NotePart("The agent shows only these words."))
        return tuple(parts)

    def _with_other(self, part: QuestionPart) -> QuestionPart:
        """A command with its directory, unless it is the one of the session."""
        if not isinstance(part, CommandPart) or part.cwd is None:
            return part
        return replace(part, cwd=None) if (part.cwd.rstrip("/") or "/") in self._here else part

    def _is_command(self, part: QuestionPart) -> bool:
        """Whether words only repeat a command; a conversion puts its directory below it."""
        if not isinstance(part, TextPart):
            return False
        text = part.text.strip()
        command, _, where = text.rpartition("\n(in ")
        return text in self._commands or any(
            isinstance(each, CommandPart) and each.text == command and where == f"{each.cwd})"
            for each in self._parts
        )

    # ---- tool calls

    def call(self, call: ToolCall | v2.ToolCallPatch) -> None:
        """A tool call, or the part of one that a request holds."""
        kind = one_line(call.kind) if isinstance(call.kind, str) else ""
        self.kind = kind if kind and kind != "other" else self.kind
        self.commands(call.raw_input)
        self.contents(call.content or ())
        self.locations(call.locations or ())
        self.values("input", call.raw_input)
        self.values("output", call.raw_output)
        named = {"tool call": call.title, "tool": call.name}
        new = {key: name for key, name in named.items() if name and not self._is_named(name)}
        if new:
            self._names |= {name for name in new.values() if name}
            self.values("", new)
        if isinstance(call, ToolCall):
            self.values("more", {**call.unknown, **({"_meta": call.meta} if call.meta else {})})

    def _is_named(self, name: str) -> bool:
        return name in self._names or _unquoted(name) in self._commands

    def earlier(self, call: ToolCall) -> None:
        """What the call held before the request changed it, as far as it is gone now."""
        kind, place = self.kind, len(self._parts)
        self.call(call)
        if kind and self.kind != kind:
            self.values("", {"kind": self.kind})
            self.kind = kind
        if len(self._parts) > place:
            note = "Before it asked, the agent showed for the same tool call:"
            self._parts.insert(place, NotePart(note))

    def judged(self, command: str | None, paths: Iterable[str]) -> None:
        """What rules judge, where it is not to be seen yet."""
        if command and sanitize(command).strip() not in self._commands:
            self.command(command)
        shown = self._paths | self._leaves
        new = dict.fromkeys(path for path in paths if path not in shown)
        self._add_locations([Location(one_line(path), None) for path in new])

    # ---- what is in them

    def command(self, text: str, cwd: str | None = None, name: str = "") -> None:
        """Something that would run."""
        text, where = sanitize(text).strip(), one_line(cwd) if cwd else None
        if where is not None and where != cwd:  # with characters that are not shown
            self._here.discard(where.rstrip("/") or "/")
        if not text:
            self.values("", {"in": cwd} if cwd else None)
            return
        place = self._commands.get(text)
        known = self._parts[place] if place is not None else None
        if isinstance(known, CommandPart) and (where is None or known.cwd in (where, None)):
            if place is not None and where is not None:
                self._parts[place] = CommandPart(text, where, known.name)
            return
        self._commands[text] = len(self._parts)
        self._parts.append(CommandPart(text, where, name))

    def terminal(self, terminal_id: str) -> None:
        """The command that runs in a terminal, if the agent sent it."""
        terminal = self._terminals.get(terminal_id)
        if terminal is not None and terminal.command:
            self.command(terminal.command, terminal.cwd)

    def text(self, text: str) -> None:
        """Words of the agent."""
        shown = sanitize(text).strip("\n")
        if shown.strip() and shown not in self._texts:
            self._texts.add(shown)
            self._parts.append(TextPart(shown))

    def contents(self, contents: Iterable[v2.ToolCallContent]) -> None:
        """The content of a call."""
        for content in contents:
            match content:
                case Content():
                    self._content(content.content)
                case v2.Terminal():
                    self.terminal(content.terminal_id)
                case v2.Diff() | v2.JulyDiff() | v2.JuneDiff():
                    self._diff(content)
                case _:
                    self.values("content", content.raw.fields)
                    continue
            self.rest(content)

    def _content(self, content: ContentBlock) -> None:
        if isinstance(content, TextContent):
            self.text(content.text)
            if content.annotations:
                self.values("annotations", codec.to_json(content.annotations))
            self.rest(content)
        else:
            self.values("content", _readable(codec.to_json(content)))

    def _diff(self, diff: AnyDiff) -> None:
        identity = _identity(diff)
        if identity in self._diffs:
            return
        self._diffs.add(identity)
        item = DiffItem(tuple(diff_lines(diff)))
        self._lines |= {line.text for line in item.lines}
        if isinstance(diff, v2.JuneDiff):
            self._changed.add(diff.path)
        else:
            self._changed |= {getattr(change, "path", "") for change in diff.changes}
            for change in diff.changes:
                if isinstance(change, v2.UnknownDiffChange):
                    self.values("change", change.raw.fields)
                else:
                    self.rest(change)
        self._paths |= self._changed
        self._parts.append(item)

    def locations(self, locations: Iterable[v2.ToolCallLocation]) -> None:
        """Where a call works; what a diff names is not named again."""
        new: dict[str, Location] = {}
        for location in locations:
            shown = Location(one_line(location.path), location.line or None)
            if location.path not in self._paths or (
                location.line and str(shown) not in self._paths
            ):
                new[str(shown)] = shown
                self._paths |= {location.path, str(shown)}
            self.rest(location)
        self._add_locations([*new.values()])

    def _add_locations(self, locations: list[Location]) -> None:
        if locations:
            self._paths |= {location.path for location in locations}
            self._parts.append(PathsPart(tuple(locations)))

    def rest(self, thing: Wire) -> None:
        """What no schema has, and what is beside it."""
        fields = dict(thing.unknown.fields) if isinstance(thing.unknown, Extras) else {}
        if thing.meta:
            fields["_meta"] = thing.meta
        self.values("more", fields)

    # ---- objects

    def commands(self, value: Any) -> None:
        """What any JSON would run."""
        self._walk(value, None)

    def values(self, name: str, value: Any) -> None:
        """Any JSON: what would run as commands, everything else value by value."""
        if value is UNSET or value is None or value == {} or value == [] or value == "":
            return
        identity = (name, _identity(value))
        if identity in self._objects:
            return
        self._objects.add(identity)
        values: list[Value] = []
        more = self._walk(value, values)
        if values:
            self._parts.append(ValuesPart(name, tuple(values), more))

    def _walk(self, value: Any, made: list[Value] | None) -> int:
        """Write down the values of an object, which may be nested deeper than Python goes.

        None: only look for what would run. Returns how many values are left out.
        """
        more = 0
        stack: list[Iterator[tuple[str, Any]]] = [iter([("", value)])]
        while stack:
            key, item = next(stack[-1], (None, None))
            if key is None:
                stack.pop()
                continue
            depth = max(0, len(stack) - 2)
            below = isinstance(item, dict | list) and bool(item)
            if made is not None and (not below or len(stack) > 1) and not self._is_shown(key, item):
                if len(made) < MOST_VALUES:
                    made.append(Value(depth, one_line(key), "" if below else _text(item)))
                else:
                    more += 1
                if isinstance(item, str):
                    self._leaves.add(item)
            if isinstance(item, dict):
                shown = self._run(item)
                stack.append((f"{name}", each) for name, each in item.items() if name not in shown)
            elif isinstance(item, list):
                stack.append(("-", each) for each in item)
        return more

    def _run(self, item: dict[str, Any]) -> frozenset[str]:
        """Find what an object would run; the names of the values that are shown by that."""
        shown: set[str] = set()
        names = {letters_of(name): name for name in item}
        where = next((names[each] for each in DIRECTORIES if each in names), "")
        cwd = item[where] if where and isinstance(item[where], str) else None
        for name, value in item.items():
            bare, words = letters_of(name), _words(value)
            if bare not in _RUN or not words or name in shown:
                continue
            used = {name}
            arguments = next((names[each] for each in ARGUMENTS if each in names), "")
            if bare in _PROGRAMS and arguments and isinstance(item[arguments], list):
                words = [*words, *_words(item[arguments])]
                used.add(arguments)
            plain = isinstance(value, str)
            text = " ".join(
                [words[0], *map(shlex.quote, words[1:])] if plain else [shlex.join(words)]
            )
            self.command(text, cwd, "" if bare in COMMANDS else one_line(name))
            if all(word in text for word in words):  # else the way it is written shows more
                shown |= used
                shown |= {where} if cwd is not None else set()
        return frozenset(shown)

    def _is_shown(self, key: str, item: Any) -> bool:
        """Whether a value whose name adds nothing is shown already."""
        if not isinstance(item, str):
            return False
        bare, text = letters_of(key), sanitize(item)
        if bare in PLAIN_PATHS:
            return item in self._paths
        if bare not in PLAIN_TEXTS:
            return False
        if text.strip("\n") in self._texts:
            return True
        lines = text.split("\n")
        return bool(self._lines) and all(line in self._lines for line in lines if line)


def _unquoted(title: str) -> str:
    """The title without the marks of code, as a command is compared."""
    return sanitize(title).strip().strip("`").strip()


def _words(value: Any) -> list[str]:
    """The words of a command: one string, or a list of them."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    return []


def _text(value: Any) -> str:
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        return str(value)
    except ValueError:  # Python does not write numbers of more than 4,300 digits
        return "a number of thousands of digits"


def _readable(content: dict[str, Any]) -> dict[str, Any]:
    """A content block without what nobody can read: the size of a picture instead of its data."""
    made = dict(content)
    for key in ("data", "blob"):
        if isinstance(made.get(key), str):
            made[key] = base64_size(made[key])
    if isinstance(made.get("resource"), dict):
        made["resource"] = _readable(made["resource"])
    return made


def _identity(value: Any) -> bytes:
    """A digest: the same for what is written alike."""
    try:
        return hashlib.sha256(codec.encode(value)).digest()
    except RecursionError:
        return f"{id(value)}".encode()
