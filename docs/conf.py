"""The documentation site: `make docs` builds it from these pages and from the docstrings.

The pages are plain Markdown and can be read without the site. Nothing is fetched from a network,
neither by the build nor by a page of the site.
"""

import inspect
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import stringify_annotation

import twofold
from twofold.wire.base import Wire

ROOT = Path(__file__).resolve().parents[1]

project = "Twofold"
author = "the authors of Twofold"
version = release = twofold.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

default_role = "py:obj"  # in docstrings, `Agent` is a link to Agent
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Twofold {release}"
html_show_copyright = False
html_copy_source = False

autoclass_content = "both"
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    # what a class inherits is shown with it, unless it comes from one of these
    "inherited-members": "BaseException,Enum,Exception,Generic,Protocol,Struct,Wire,dict,list,str",
}
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False


VERSIONS = ("v1", "v2")


def _functions(version: str) -> list[str]:
    """The functions of one version of the protocol, by name."""
    module = getattr(twofold, version)
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
    ]


def _structs(version: str) -> list[str]:
    """The structs of one version of the protocol, by name; those of both are in version 2."""
    module = getattr(twofold, version)
    return sorted(
        name
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, Wire)
        and value is not Wire
        and (version == "v2" or value is not getattr(twofold.v2, name, None))
    )


def _unions(module: Any, names: Iterable[str]) -> dict[str, str]:
    """The unions of structs among `names` of a module, as a signature spells them out."""
    unions = {}
    for name in names:
        value = getattr(module, name)
        spelled = stringify_annotation(value, "smart") if get_args(value) else ""
        if " | ~twofold" in spelled and not getattr(value, "__parameters__", ()):
            unions[name] = spelled
    return unions


_UNIONS = {
    f"{version}.{name}": spelled
    for version in VERSIONS
    for name, spelled in _unions(getattr(twofold, version), vars(getattr(twofold, version))).items()
} | _unions(twofold, twofold.__all__)
# a union of both versions is named after version 2; the longest is replaced first
_NAMES = sorted(
    {spelled: name for name, spelled in _UNIONS.items()}.items(), key=lambda union: -len(union[0])
)
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_REPOSITORY = _PROJECT["urls"]["Repository"]


_TYPE = r"(?:[^,\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*"
_PLAIN = [
    # a default that only Python's own text describes, such as `<factory>`
    (r"<function [\w.]*<lambda>>|<[^<>]*>", "..."),
    # an open enumeration
    (r"(?:~typing\.)?Annotated\[str, Known\(([^()]*)\)\]", r"~typing.Literal[\1] | str"),
    # how a field is checked and decoded
    (r", ~?msgspec\.Meta\([^()]*\)", ""),
    (rf"(?:~typing\.)?Annotated\[({_TYPE})(?:, [A-Z_]+)*\]", r"\1"),
    # the fields of every struct of the wire, which the page names once
    (r"(?:, )?(?:\*, )?meta: dict[^=]* = UNSET, unknown: [^=]*Extras[^=]* = UNSET", ""),
]


def _link_to_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Element | None:
    """Resolves `Turn` in a docstring to `twofold.Turn`, wherever the docstring is."""
    if node.get("refdomain") != "py":
        return None
    found: nodes.Element | None = env.domains["py"].resolve_xref(
        env, node["refdoc"], app.builder, "obj", f"twofold.{node['reftarget']}", node, content
    )
    return found


def _link_to_repository(app: Sphinx, page: str, source: list[str]) -> None:
    """Links to files beside `docs` lead to the repository, for they are not on the site."""
    source[0] = source[0].replace("](../", f"]({_REPOSITORY}/blob/main/")


def _simplify_signature(
    app: Sphinx,
    what: str,
    name: str,
    value: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    if signature and _is_made_by_twofold(value):
        return "", None
    return signature and _simplify(signature), returns and _simplify(returns)


def _is_made_by_twofold(value: object) -> bool:
    """Whether a class has a constructor that is of no use to readers, so that it is not shown."""
    if not inspect.isclass(value):
        return False
    if issubclass(value, twofold.TwofoldError):
        return value is not twofold.RequestError
    return value in _MADE_BY_TWOFOLD or getattr(value, "_is_protocol", False)


_MADE_BY_TWOFOLD = (
    *(twofold.AgentSession, twofold.Turn, twofold.Answer, twofold.MessageHandle),
    *(twofold.ToolCallHandle, twofold.TerminalHandle, twofold.Client, twofold.ClientSession),
    *(twofold.SessionList, twofold.ReplyStream, twofold.Subscription, twofold.ChangeSubscription),
    *(twofold.ChangeFeed, twofold.Process, twofold.Stdio, twofold.Draft),
)


def _simplify(signature: str) -> str:
    for spelled, union in _NAMES:
        signature = signature.replace(spelled, union)
    for pattern, plain in _PLAIN:
        signature = re.sub(pattern, plain, signature)
    return signature


_NO_SECTIONS: dict[str, list[str]] = {}


def _before_napoleon(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Lets docstrings be written as Markdown: an indented block after a paragraph is code."""
    marked: list[str] = []
    paragraph = ""  # the last line that is not blank
    for line in lines:
        begins = line.startswith("    ") and marked and not marked[-1]
        if begins and paragraph and not paragraph.startswith((" ", "- ")):
            marked += ["::", ""]
        marked.append(line)
        paragraph = line or paragraph
    lines[:] = marked
    if what in ("attribute", "data", "property") and "Raises:" not in marked:
        _NO_SECTIONS[name] = marked


def _after_napoleon(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Napoleon reads "One line: what it means." behind a field as a type and a text."""
    lines[:] = _NO_SECTIONS.pop(name, lines)


class Union(SphinxDirective):
    """`.. union:: twofold.v1.SessionUpdate`: a union with its members, and a text."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        spelled = _UNIONS[name.removeprefix("twofold.")]
        for other, union in _NAMES:
            spelled = spelled.replace(f"[{other},", f"[~twofold.{union},")
        text = "".join(f"\n   {line}" for line in ["", *self.content])
        return self.parse_text_to_nodes(f".. py:type:: {name}\n   :canonical: {spelled}\n{text}")


class WireModule(SphinxDirective):
    """`.. wire:: v1`: the functions, the structs and the unions of version 1."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (version,) = self.arguments
        functions = [f".. autofunction:: twofold.{version}.{name}" for name in _functions(version)]
        structs = [f".. autoclass:: twofold.{version}.{name}" for name in _structs(version)]
        unions = sorted(
            f".. union:: twofold.{name}" for _, name in _NAMES if name.startswith(f"{version}.")
        )
        return self.parse_text_to_nodes("\n\n".join([*functions, *structs, *unions]))


def setup(app: Sphinx) -> None:
    app.add_directive("union", Union)
    app.add_directive("wire", WireModule)
    # napoleon, which reads the sections of a docstring, has priority 500
    app.connect("autodoc-process-docstring", _before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", _after_napoleon, priority=600)
    app.connect("autodoc-process-signature", _simplify_signature)
    app.connect("missing-reference", _link_to_public_name)
    app.connect("source-read", _link_to_repository)
