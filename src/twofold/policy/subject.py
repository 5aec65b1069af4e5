"""What a permission request is about, as far as a rule can judge it.

Everything in a `Subject` is what the agent declares; nothing here checks that it does just that.
Any request has a subject, whatever the agent sends. A string that is a path, a command, a script, a
directory or a variable is kept as such; every other string of the request is kept as `mentioned`,
for the rules that reject or ask.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from twofold.policy import globs
from twofold.session import Session, ToolCall
from twofold.wire import v2
from twofold.wire.base import UNSET, Extras, Wire
from twofold.wire.shared import Content, ToolKind
from twofold.wire.tool_input import (
    COMMANDS,
    DIRECTORIES,
    DIRECTORIES_OF_COMMANDS,
    EDITED_TEXTS,
    IDS,
    SCRIPTS,
    VARIABLES,
    letters_of,
    names_path,
)

KINDS: Final[tuple[str, ...]] = get_args(ToolKind)[1].values
"""The kinds of tool calls; a word that is not among them counts as `other`."""

DEEPEST: Final = 64
MOST_VALUES: Final = 10_000
MOST_CHARACTERS: Final = 256 * 1024
"""How much of a request is looked at: a larger one is `partial`."""

LONGEST_PATH: Final = 4096


class Subject(Struct, frozen=True):
    """What the agent asks permission for, as it describes it."""

    kind: str = "other"
    """`execute` for every request that has a command or a script, whatever kind the agent gives."""
    name: str | None = None
    """The name of the tool; None if the agent gave none."""
    title: str = ""
    """What a person is shown: the title of the tool call, or else of the request."""
    paths: tuple[str, ...] = ()
    """Every file it names: locations, diffs and the input of the tool, as they were written."""
    command: str | None = None
    """The command that would be run, as it was written; None if there is none."""
    cwd: str | None = None
    """The directory in which it would work, as it was written."""
    env: tuple[tuple[str, str], ...] = ()
    """The variables that it sets."""
    scripts: tuple[str, ...] = ()
    """What else would be run: scripts, and commands beside `command`."""
    mentioned: tuple[str, ...] = ()
    """Every other string of the request; only rules that reject or ask look at them."""
    texts: tuple[str, ...] = ()
    """What an edit takes out and puts in: neither commands nor lists of paths."""
    declared: str | None = None
    """The kind that the agent gave, where it is not `kind`."""
    heading: str = ""
    """The title of the request, where it is not `title`."""
    directories: tuple[str, ...] = ()
    """The session's directory under each of its names: relative paths are relative to it."""
    home: str | None = None
    """The home directory, for which a tilde stands at the start of a path."""
    partial: bool = False
    """The request is too large or too deep to be looked at as a whole."""
    shown: str = ""
    """A digest of all that a person is shown of the request."""

    @property
    def elsewhere(self) -> bool:
        """Whether it names another directory for its work than the session's."""
        if self.cwd is None:
            return False
        places = [globs.normal(each) for each in self.directories]
        return not places or globs.normal(globs.joined(places[0], self.cwd)) not in places

    @property
    def fingerprint(self) -> str | None:
        """A digest that no other request has; None if the request is `partial`."""
        return None if self.partial else _digest(msgspec.to_builtins(self))


def subject_of(
    request: v2.RequestPermissionRequest,
    session: Session,
    *,
    before: ToolCall | None = None,
    directories: Sequence[str] = (),
    home: str | None = None,
) -> Subject:
    """The subject of a permission request.

    Args:
        request: The request.
        session: The session; fields of the tool call that the request leaves out are taken from it.
        before: The tool call as it was before the request patched it.
        directories: The names of the session's directory.
        home: The directory that `~` means.
    """
    call = _call_of(request, session)
    found = _Found(tuple(directories), {call.tool_call_id, request.session_id} - {""})
    found.of_call(call)
    if isinstance(request.subject, v2.CommandPermissionSubject):
        found.asked(request.subject.command.strip(), request.subject.cwd)
    found.of_request(request)
    if before is not None:
        found.of_past(before)
    subject = found.subject(call, request.title, home)
    return with_shown(subject, request, [call, before])


def with_shown(
    subject: Subject,
    request: v2.RequestPermissionRequest,
    calls: Sequence[ToolCall | None] = (),
    content: Sequence[v2.ToolCallContent] = (),
) -> Subject:
    """The subject with a digest of what is shown.

    That is the request, the call before and after it, and the `content` that this side adds. Ids,
    `_meta`, the status and what came of the call are left out.
    """
    if subject.partial:
        return subject
    ids = {request.session_id, *(call.tool_call_id for call in calls if call is not None)} - {""}
    about = request.subject
    seen: list[dict[str, Any]] = []
    for call in calls:
        of_call = {name: getattr(call, name) for name in _SHOWN} if call is not None else {}
        if of_call and of_call not in seen:
            seen.append(of_call)
    shown = {
        "title": request.title,
        "description": request.description or "",
        "subject": None if isinstance(about, v2.ToolCallPermissionSubject) else about,
        "unknown": [request.unknown, about.unknown if about else UNSET],
        "calls": seen,
        "content": list(content),
    }
    try:
        return replace(subject, shown=_digest(_plain(shown, ids)))
    except RecursionError:
        return replace(subject, partial=True)


_PATCHED = ("kind", "name", "title", "content", "locations", "raw_input")
_SHOWN = (*_PATCHED, "unknown")


def _call_of(request: v2.RequestPermissionRequest, session: Session) -> ToolCall:
    """The tool call that the request is about; an empty one if it is about none."""
    match request.subject:
        case v2.ToolCallPermissionSubject(tool_call=patch):
            return _patched(session.tool_calls.get(patch.tool_call_id), patch)
        case v2.CommandPermissionSubject(tool_call_id=str(tool_call_id)):
            return session.tool_calls.get(tool_call_id) or ToolCall(tool_call_id, 0)
    return ToolCall("", 0)


def _patched(known: ToolCall | None, patch: v2.ToolCallPatch) -> ToolCall:
    """The tool call that `patch` makes of the known one, which stays as it is."""
    call = ToolCall(patch.tool_call_id, 0)
    for name in _PATCHED:
        value = getattr(patch, name)
        if value is UNSET and known is not None:
            value = getattr(known, name)
        if value is not UNSET and value is not None:  # null resets it
            setattr(call, name, value)
    call.unknown = dict(known.unknown) if known is not None else {}
    if isinstance(patch.unknown, Extras):
        call.unknown.update(patch.unknown.fields)
        call.unknown.pop("sessionUpdate", None)  # some requests carry a whole update
    return call


# ---- what the strings of a request are -------------------------------------------------------

_RUN: Final = COMMANDS | SCRIPTS
_PATCH_PATH = re.compile(
    r"^(?:\+\+\+ |--- |rename (?:from|to) |copy (?:from|to) |Index: |\*\*\* [A-Z][A-Za-z ]*: )"
    r"([^\t\r\n]+)",
    re.MULTILINE,
)
_PATH_SIGN = re.compile(r"[/\\.]")
_DIRECTORY_NOTE = re.compile(r"\[current working directory (.+)\]")


class _Found:
    """What is found in a request, string by string."""

    def __init__(self, directories: tuple[str, ...], ids: set[str]) -> None:
        self._directories = directories
        self._ids = ids  # of this one call: no rule is about them
        self._declared = "other"
        self._command = ""
        self._paths: list[str] = []
        self._places: list[str] = []
        self._env: list[tuple[str, str]] = []
        self._scripts: list[str] = []
        self._mentioned: list[str] = []
        self._texts: list[str] = []
        self._heading = ""
        self._values = self._characters = 0
        self._partial = False

    def of_call(self, call: ToolCall) -> None:
        self._declared = call.kind if call.kind in KINDS else "other"
        for location in call.locations:
            self._paths.append(location.path)
            self._unknown(location)
        given = call.raw_input
        skipped: set[str] = set()
        if isinstance(given, dict):
            self._command, skipped = _command(given)
            self._fields({key: given[key] for key in given if key not in skipped})
        else:
            self._walk("", given, 1)
        self._fields(call.unknown)
        self._of_content(call.content, call.title or "")

    def asked(self, command: str, cwd: str | None) -> None:
        """The request itself has the command: the one of its call is only mentioned."""
        if self._command and self._command != command:
            self._mention(self._command)
        self._command = command
        self._declared = "execute"
        if cwd:
            self._places.insert(0, cwd)

    def of_request(self, request: v2.RequestPermissionRequest) -> None:
        self._heading = request.title
        if request.description:
            self._mention(request.description)
        self._unknown(request)
        if isinstance(request.subject, v2.UnknownPermissionSubject):
            self._fields(request.subject.raw.fields)
        elif request.subject:
            self._unknown(request.subject)

    def of_past(self, before: ToolCall) -> None:
        """The call as it was before: the request may have shortened it."""
        past = _Found(self._directories, self._ids)
        past.of_call(before)
        title, command = before.title or "", past._command
        known = {*self._mentioned, *self._texts, *self._scripts, *self._paths, self._command}
        self._texts += [text for text in past._texts if text not in known]
        for text in (title, command, *past._scripts, *past._paths, *past._mentioned):
            if text and text not in known:
                self._mention(text)
        self._partial = self._partial or past._partial

    def subject(self, call: ToolCall, title: str, home: str | None) -> Subject:
        declared = self._declared
        runs = bool(self._command or (self._scripts and call.raw_input))
        kind = "execute" if runs else declared
        shown = call.title or title
        made = Subject(
            kind,
            call.name,
            shown,
            _once(self._paths),
            self._command or None,
            None,
            _once(self._env),
            _once(self._scripts),
            _once(text for text in self._mentioned if text != shown),
            _once(self._texts),
            declared if declared != kind else None,
            self._heading if self._heading != shown else "",
            self._directories,
            home,
            self._partial,
        )
        places = [replace(made, cwd=place) for place in _once(self._places)]
        return next((each for each in places if each.elsewhere), places[0] if places else made)

    # ---- strings

    def _unknown(self, value: Wire) -> None:
        if isinstance(value.unknown, Extras):
            self._fields(value.unknown.fields)

    def _fields(self, fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            self._name("", str(key))
            self._walk(str(key), value, 1)

    def _name(self, key: str, name: str) -> None:
        """The name of a field may itself be a path."""
        if _PATH_SIGN.search(name):
            self._string(key, "", name)

    def _walk(self, key: str, value: Any, depth: int) -> None:
        letters = letters_of(key)
        self._values += 1
        if self._values > MOST_VALUES or depth > DEEPEST:
            self._partial = True
        elif letters in VARIABLES and value:
            try:
                self._env += _variables(value)
            except RecursionError:  # a value too deep to be written as text
                self._partial = True
        elif isinstance(value, str):
            self._string(key, letters, value)
        elif isinstance(value, list) and letters in COMMANDS:
            self._scripts += filter(None, [_words(value)])
        elif isinstance(value, list):
            for each in value:
                self._walk(key, each, depth + 1)
                if self._partial:
                    return
        elif isinstance(value, dict):
            inside = key if letters in _RUN else ""
            for name, each in value.items():
                self._name(key, str(name))
                self._walk(inside or str(name), each, depth + 1)
                if self._partial:
                    return

    def _string(self, key: str, letters: str, text: str) -> None:
        is_path = len(text) <= LONGEST_PATH and "\n" not in text
        if not text.strip() or (letters in IDS and text in self._ids):
            return
        if self._declared == "edit" and not self._command and letters in EDITED_TEXTS:
            self._texts.append(text)
            self._mention(*_PATCH_PATH.findall(text))
        elif letters in _RUN:
            self._scripts.append(text.strip())
        elif letters in DIRECTORIES or (self._command and letters in DIRECTORIES_OF_COMMANDS):
            self._places.append(text)
        elif is_path and (names_path(key) or text.startswith("file:")):
            self._paths.append(text)
        else:
            self._mention(text)

    def _mention(self, *texts: str) -> None:
        for text in filter(None, texts):
            self._characters += len(text)
            if self._characters > MOST_CHARACTERS:
                self._partial = True
                return
            self._mentioned.append(text)

    def _of_content(self, content: Iterable[v2.ToolCallContent], title: str) -> None:
        for item in content:
            self._unknown(item)
            if isinstance(item, v2.JuneDiff):
                self._paths.append(item.path)
            elif isinstance(item, v2.Diff | v2.JulyDiff):
                for change in item.changes:
                    self._paths += _changed_paths(change)
                self._of_patch(item)
            elif isinstance(item, Content):
                self._of_block(item.content, title)
            elif isinstance(item, v2.UnknownToolCallContent):
                self._fields(item.raw.fields)

    def _of_patch(self, diff: v2.Diff | v2.JulyDiff) -> None:
        if not diff.patch:
            return
        text = diff.patch.diff if isinstance(diff.patch, v2.JulyDiffPatch) else diff.patch.text
        for path in _PATCH_PATH.findall(text):
            if path.startswith("/") and path != "/dev/null":
                self._paths.append(path)
            else:
                self._mention(path)

    def _of_block(self, block: Any, title: str) -> None:
        self._unknown(block)
        match block:
            case v2.TextContent(text=text):
                if not self._repeats(text, title):
                    self._mention(text)
            case v2.ResourceLink(name=name, uri=uri, description=description):
                self._mention(name, uri, description or "")
            case v2.EmbeddedResource(resource=resource):
                self._mention(resource.uri)
                if isinstance(resource, v2.TextResourceContents):
                    self._mention(resource.text)
            case v2.UnknownContent(raw=raw):
                self._fields(raw.fields)

    def _repeats(self, text: str, title: str) -> bool:
        """Whether a text beside a title adds nothing: it is the title, or where the session is."""
        text = text.strip()
        note = _DIRECTORY_NOTE.fullmatch(text)
        return text == title or (note is not None and note[1] in self._directories)


def _once(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(filter(None, values)))


def _changed_paths(change: v2.DiffChange) -> Iterator[str]:
    if isinstance(change, v2.UnknownDiffChange):  # it touches files all the same
        for key in ("oldPath", "path"):
            yield from _strings(change.raw.fields.get(key))
        return
    if isinstance(change, v2.DiffPathPairChange):
        yield change.old_path
    yield change.path


def _command(given: dict[Any, Any]) -> tuple[str, set[str]]:
    """The command line of a tool's input, and the keys it is made of.

    It is one string, or words, or a program and its `args`.
    """
    for key in ("command", "cmd"):
        program = _words(given.get(key))
        if program:
            arguments = _words(given.get("args"))
            return f"{program} {arguments}".strip(), {key, "args"} if arguments else {key}
    return "", set()


def _words(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    words = value if isinstance(value, list) else []
    return shlex.join(word if isinstance(word, str) else "?" for word in words)


def _variables(value: Any) -> Iterator[tuple[str, str]]:
    """Variables in one of the forms that agents use; of any other form, its text."""
    pairs: list[Any] = list(value.items()) if isinstance(value, dict) else []
    for each in value if isinstance(value, list) else [] if pairs else [value]:
        if isinstance(each, dict):
            pairs.append((each.get("name", "?"), each.get("value", "")))
        else:
            pairs.append(str(each).partition("=")[::2])
    for name, text in pairs:
        yield str(name), text if isinstance(text, str) else str(text)


def _strings(value: object) -> list[str]:
    """The strings of a string or a list; of anything else, none."""
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]


# ---- the digest of what is shown -------------------------------------------------------------

_LEFT_OUT = frozenset({"meta", "unknown", "tool_call_id", "terminal_id", "session_id"})


def _plain(value: Any, ids: set[str]) -> Any:
    """A value of the wire as plain JSON, without ids and `_meta`."""
    if isinstance(value, Wire):
        named = {name: getattr(value, name) for name in value.__struct_fields__}
        kept = {name: each for name, each in named.items() if name not in _LEFT_OUT}
        fields = {name: _plain(each, ids) for name, each in kept.items() if each is not UNSET}
        return {"?": type(value).__name__, **fields, "unknown": _plain(value.unknown, ids)}
    if isinstance(value, Extras):
        return _plain(value.fields, ids)
    if isinstance(value, list | tuple):
        return [_plain(each, ids) for each in value]
    if isinstance(value, dict):
        return {
            str(key): None if _is_id(key, each, ids) else _plain(each, ids)
            for key, each in value.items()
        }
    return None if value is UNSET else value


def _is_id(key: Any, value: Any, ids: set[str]) -> bool:
    return isinstance(value, str) and value in ids and letters_of(str(key)) in IDS


def _digest(value: Any) -> str:
    # escaped as ASCII, for a peer's text may hold half a character
    data = json.dumps(value, sort_keys=True, ensure_ascii=True, default=repr)
    return hashlib.sha256(data.encode()).hexdigest()
