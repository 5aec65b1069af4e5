"""Every public name has a docstring, and so has everything public in a class.

A field is documented by a string behind it, or by its name in the docstring of its class or of
`__init__`, in backticks or as an entry of a section such as `Args:`.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator

import twofold

# Documented nowhere yet. The test fails for an entry that is not needed any more.
MISSING: frozenset[str] = frozenset(
    [
        "Agent.auth_methods",
        "Agent.cancel_timeout",
        "Agent.info",
        "Agent.methods",
        "Agent.new_session_id",
        "Agent.notifications",
        "Agent.on_authenticate",
        "Agent.on_close",
        "Agent.on_config_option",
        "Agent.on_logout",
        "Agent.on_prompt",
        "Agent.on_resume",
        "Agent.on_session",
        "Agent.report",
        "Agent.store",
        "AgentSession.busy",
        "AgentSession.cancels",
        "AgentSession.closed",
        "AgentSession.connection",
        "AgentSession.cwd",
        "AgentSession.opening",
        "AgentSession.session_id",
        "BadAnswer.method",
        "BadAnswer.reason",
        "Bridge.log",
        "Client.ask",
        "Client.forget",
        "Client.inbox_of",
        "Client.peer",
        "Client.policy",
        "Client.report",
        "Client.request_v1",
        "Client.tell",
        "ClientSession.check_open",
        "ClientSession.client",
        "ClientSession.closed",
        "ClientSession.inbox",
        "ClientSession.permissions",
        "ClientSession.session_id",
        "CommandNotStarted.command",
        "CommandNotStarted.reason",
        "Decided.by",
        "Decided.option_id",
        "Decided.request_id",
        "Decided.rule",
        "Downgrader.losses",
        "Fault.path",
        "Fault.reason",
        "Loss.reason",
        "Malformed.reason",
        "Message.appended",
        "Message.content",
        "Message.message_id",
        "Message.meta",
        "Message.role",
        "Message.unknown",
        "NoAnswer.method",
        "NoAnswer.seconds",
        "NotConvertible.path",
        "NotConvertible.reason",
        "Policy.otherwise",
        "Policy.rules",
        "Problem.error",
        "Problem.kind",
        "Problem.session_id",
        "Problem.text",
        "ProcessEnded.command",
        "ProcessEnded.exit_code",
        "ProcessEnded.signal",
        "ProcessEnded.stderr",
        "Question.request",
        "Question.session",
        "Question.subject",
        "Reply.usage",
        "RequestError.cancelled",
        "RequestError.code",
        "RequestError.data",
        "RequestError.invalid_params",
        "RequestError.message",
        "RequestError.method_not_found",
        "RequestFailed.code",
        "RequestFailed.data",
        "RequestFailed.message",
        "Rule.command",
        "Rule.decision",
        "Rule.kind",
        "Rule.name",
        "Session.commands",
        "Session.commands_update",
        "Session.compactions",
        "Session.config_options",
        "Session.config_update",
        "Session.draft",
        "Session.info",
        "Session.notices",
        "Session.plans",
        "Session.session_id",
        "Session.state_update",
        "Session.subagents",
        "Session.terminals",
        "Session.title",
        "Session.usage",
        "SessionClosed.session_id",
        "Sessions.draft",
        "Subject.command",
        "Subject.name",
        "Subject.title",
        "Terminal.capabilities",
        "Terminal.command",
        "Terminal.cwd",
        "Terminal.exit_status",
        "Terminal.meta",
        "Terminal.output",
        "Terminal.output_meta",
        "Terminal.output_unknown",
        "Terminal.size",
        "Terminal.terminal_id",
        "Terminal.unknown",
        "ToolCall.appended",
        "ToolCall.capabilities",
        "ToolCall.content",
        "ToolCall.kind",
        "ToolCall.locations",
        "ToolCall.meta",
        "ToolCall.name",
        "ToolCall.raw_input",
        "ToolCall.raw_output",
        "ToolCall.status",
        "ToolCall.title",
        "ToolCall.tool_call_id",
        "ToolCall.unknown",
        "Turn.calls",
        "Turn.session",
        "Turn.terminals",
        "TurnFailed.code",
        "TurnFailed.data",
        "TurnFailed.message",
        "UnknownVersion.version",
        "Upgrader.losses",
        "WrongVersion.version",
        "WrongVersion.wanted",
    ]
)


def test_every_public_name_has_a_docstring() -> None:
    missing = set(undocumented())
    assert sorted(missing - MISSING) == [], "these need a docstring"
    assert sorted(MISSING - missing) == [], "these are documented: remove them from MISSING"


def undocumented() -> Iterator[str]:
    for name in twofold.__all__:
        value = getattr(twofold, name)
        if inspect.isclass(value):
            documents = [Documents(each) for each in project_classes(value)]
            if not documents[0].text:
                yield name
            members = {member for each in documents for member in each.members}
            for member in sorted(members):
                if not any(each.document(member) for each in documents):
                    yield f"{name}.{member}"
        elif (inspect.isfunction(value) or inspect.ismodule(value)) and not value.__doc__:
            yield name


def project_classes(value: type) -> list[type]:
    return [each for each in value.__mro__ if each.__module__.partition(".")[0] == "twofold"]


class Documents:
    """What the source of a class documents: itself, and its public members."""

    def __init__(self, value: type) -> None:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
        assert isinstance(node, ast.ClassDef)
        self.text = ast.get_docstring(node) or ""
        self.members: dict[str, bool] = {}
        """Whether each public member has a docstring of its own."""
        self._fields = self.text
        self._read(node.body, node.name)
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                self._fields += ast.get_docstring(each) or ""
                self._read(each.body, "self")

    def document(self, member: str) -> bool:
        named = re.search(rf"`{member}`|^ *{member}(?: \([^)]*\))?:", self._fields, re.MULTILINE)
        return self.members.get(member, False) or named is not None

    def _read(self, body: list[ast.stmt], owner: str) -> None:
        for statement, after in zip(body, [*body[1:], ast.Pass()], strict=True):
            match statement:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    self._add(name, bool(ast.get_docstring(statement)))
                case ast.AnnAssign(target=target) | ast.Assign(targets=[target]) if field := _field(
                    target, owner
                ):
                    self._add(field, _is_text(after))

    def _add(self, member: str, documented: bool) -> None:
        if not member.startswith("_"):
            self.members[member] = documented or self.members.get(member, False)


def _field(target: ast.expr, owner: str) -> str:
    """The field that an assignment in a class body (`x`) or in `__init__` (`self.x`) makes."""
    match target:
        case ast.Name(id=name) if owner != "self":
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if owner == "self":
            return name
    return ""


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(
        getattr(statement.value, "value", None), str
    )
