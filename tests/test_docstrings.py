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


def test_every_public_name_has_a_docstring() -> None:
    assert list(undocumented()) == [], "these need a docstring"


def undocumented() -> Iterator[str]:
    for name in twofold.__all__:
        value = getattr(twofold, name)
        if inspect.isclass(value):
            documents = [Documents(each) for each in project_classes(value)]
            if not documents[0].text:
                yield name
            members = {member for each in documents for member in each.members}
            for member in sorted(members - vars(BaseException).keys()):  # Python documents `args`
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
