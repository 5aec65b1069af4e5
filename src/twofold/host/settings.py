"""The settings: one TOML file of the user, and one of the project, which can only restrict.

`load` reads both, checks them and merges them. A file that cannot be used raises `SettingsError`,
which names the file, the line, what is wrong and what is right. A project's file comes with a
repository that may be anybody's: it can reject and ask, and never start, allow or send anything.
Only in directories that the user trusts may it choose an agent, a mode and options.
"""

import difflib
import os
import re
import shlex
import stat
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from twofold.errors import LocalError
from twofold.host import toml_lines
from twofold.host.amounts import BadAmount, parse_duration, parse_size
from twofold.host.client_keys import BadKey, Bindings
from twofold.policy import BadRule, Rule, parse_rule
from twofold.transport.endpoint import BadUrl, Endpoint
from twofold.wire import v2
from twofold.wire.shared import EnvVariable, HttpHeader

PROJECT_FILE: Final = ".twofold.toml"
DEFAULT: Final = "default"
"""The origin of a value that no file sets."""
_LARGEST: Final = 1024 * 1024

Theme = Literal["auto", "dark", "light"]


class SettingsError(LocalError):
    """A settings file cannot be used.

    Attributes:
        file: The path of the file.
        line: The line that is wrong, counted from 1; None if it is not about one line.
        reason: What is wrong, and what is right.
    """

    def __init__(self, file: str | os.PathLike[str], line: int | None, reason: str) -> None:
        where = os.fspath(file) if line is None else f"{os.fspath(file)}, line {line}"
        super().__init__(f"{where}: {reason}")
        self.file = os.fspath(file)
        self.line = line
        self.reason = reason


# ---- what a file may hold ----------------------------------------------------------------------


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent, in the table `[agents.NAME]`: a new one, or changes to one that is known."""

    command: Annotated[
        str | list[str] | None,
        Meta(description="The command that starts it: a list of words, or one text for a shell."),
    ] = None
    url: Annotated[
        str | None, Meta(description="The URL of an agent that runs elsewhere, instead of command.")
    ] = None
    token_file: Annotated[
        str | None, Meta(description="The file that holds the token for the URL.")
    ] = None
    env: Annotated[
        dict[str, str], Meta(description="Environment variables to set for the agent.")
    ] = {}
    mode: Annotated[
        str | None, Meta(description="The mode to choose in a new session, by its id.")
    ] = None
    options: Annotated[
        dict[str, str | bool],
        Meta(description="Config options to set in a new session, by their ids."),
    ] = {}
    install: Annotated[
        str | None, Meta(description="The command that installs it; shown, never run.")
    ] = None
    description: Annotated[str | None, Meta(description="What it is, in one line.")] = None


class RuleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules for permissions, in the table `[rules]`, written as on the command line."""

    allow: Annotated[list[str], Meta(description="As --allow: read, command:make test.")] = []
    reject: Annotated[list[str], Meta(description="As --reject: path:**/.env.")] = []
    ask: Annotated[list[str], Meta(description="As --ask: command:git push*.")] = []


class McpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An MCP server, in the table `[mcp.NAME]`: a command, or a URL."""

    command: Annotated[str | None, Meta(description="The program that the agent starts.")] = None
    args: Annotated[list[str], Meta(description="The arguments of the command.")] = []
    env: Annotated[dict[str, str], Meta(description="Environment variables of the command.")] = {}
    url: Annotated[str | None, Meta(description="The address of a server over HTTP.")] = None
    headers: Annotated[
        dict[str, str], Meta(description="HTTP headers to send, such as Authorization.")
    ] = {}

    def server(self, name: str) -> v2.McpServer:
        """The server as `session/new` takes it."""
        if self.url is not None:
            headers = [HttpHeader(key, value) for key, value in self.headers.items()]
            return v2.McpServerHttp(name, self.url, headers)
        env = [EnvVariable(key, value) for key, value in self.env.items()]
        return v2.McpServerStdio(name, self.command or "", self.args, env)


class NotificationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and how the terminal client notifies you, in the table `[notifications]`."""

    bell: Annotated[bool, Meta(description="Ring the terminal's bell.")] = True
    desktop: Annotated[
        bool, Meta(description="Have the terminal show a notification of the desktop.")
    ] = False
    after: Annotated[
        float, Meta(description="Of turns, only for those that took this many seconds or more.")
    ] = 10.0


class ServeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server of `twofold serve`, in the table `[serve]`; its options come before these."""

    port: Annotated[int | None, Meta(description="The port that it listens on.")] = None
    journal: Annotated[str | None, Meta(description="The file in which it keeps sessions.")] = None
    keep: Annotated[
        str | None,
        Meta(description="How long sessions are kept in which nothing happens: 90d, 12h."),
    ] = None
    keep_size: Annotated[
        str | None, Meta(description="How much all sessions may need: 10G, 500M.")
    ] = None
    idle_after: Annotated[
        str | None, Meta(description="After how long an agent without work is ended: 30m.")
    ] = None
    agents: Annotated[int | None, Meta(description="How many agents may run at once.")] = None
    sessions: Annotated[
        int | None, Meta(description="How many sessions may be open at once; cold ones are not.")
    ] = None
    queued: Annotated[
        int | None, Meta(description="How many prompts may be queued in a session.")
    ] = None


class SettingsFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of Twofold."""

    agent: Annotated[
        str | None, Meta(description="The name of the agent that `twofold run` starts.")
    ] = None
    agents: Annotated[dict[str, AgentSettings], Meta(description="Agents, by name.")] = {}
    rules: Annotated[RuleSettings, Meta(description="Rules for permissions.")] = RuleSettings()
    mcp: Annotated[
        dict[str, McpSettings], Meta(description="MCP servers for the agents, by name.")
    ] = {}
    keys: Annotated[
        dict[str, str | list[str]], Meta(description="Keys of the terminal client, by action.")
    ] = {}
    theme: Annotated[
        Theme, Meta(description="The colors of the terminal client; auto asks the terminal.")
    ] = "auto"
    notifications: NotificationSettings = NotificationSettings()
    serve: ServeSettings = ServeSettings()
    window_title: Annotated[
        bool, Meta(description="Whether the terminal client sets the title of its window.")
    ] = True
    registry: Annotated[
        str | None, Meta(description="The path of an ACP registry file, with more agents.")
    ] = None
    trust: Annotated[
        list[str],
        Meta(
            description="Directories whose projects may choose an agent, a mode and options in"
            " .twofold.toml."
        ),
    ] = []


def schema() -> dict[str, Any]:
    """The JSON Schema of a settings file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The settings of Twofold",
        **msgspec.json.schema(SettingsFile),
    }


# ---- the settings, from all files --------------------------------------------------------------


class Settings(Struct, frozen=True, kw_only=True):
    """The settings in effect, and where each value comes from."""

    values: SettingsFile = SettingsFile()
    """What the user's file sets, and what the project's file may change of it."""
    rules: tuple[Rule, ...] = ()
    """The rules of both files, in the order in which they are tried."""
    origins: Mapping[str, str] = {}
    """Where the values come from, by key (`agents.claude.mode`): `FILE:LINE`."""
    user_file: Path | None = None
    """The user's file, whether it is there or not; None without a home directory."""
    project_file: Path | None = None
    """The project's file, if there is one."""
    warnings: tuple[str, ...] = ()
    """What is ignored of the project's file, and why."""

    def origin(self, key: str) -> str:
        """Where the value of a key comes from: `FILE:LINE`, or `default`."""
        return self.origins.get(key, DEFAULT)

    def agent(self, name: str) -> AgentSettings:
        """What the files set for an agent."""
        return self.values.agents.get(name, AgentSettings())

    def bindings(self) -> Bindings:
        """The keys of the terminal client."""
        return Bindings(self.values.keys)

    def mcp_servers(self) -> list[v2.McpServer]:
        """The MCP servers, as `session/new` takes them."""
        return [each.server(name) for name, each in self.values.mcp.items()]

    @property
    def registry_file(self) -> Path | None:
        """The registry file; a relative path is relative to the user's file."""
        if self.values.registry is None:
            return None
        return self._beside(self.values.registry)

    @property
    def journal_file(self) -> Path | None:
        """The journal of the server; a relative path is relative to the user's file."""
        journal = self.values.serve.journal
        return None if journal is None else self._beside(journal)

    def token_file(self, name: str) -> Path | None:
        """The file with the token of an agent; a relative path is relative to the user's file."""
        file = self.agent(name).token_file
        return None if file is None else self._beside(file)

    def _beside(self, file: str) -> Path:
        path = Path(os.path.expanduser(file))
        return path if self.user_file is None else self.user_file.parent / path


def load(cwd: str | os.PathLike[str] = ".", environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings that are in effect for a session in `cwd`.

    Args:
        cwd: The directory of the session.
        environ: The environment; by default that of this process.

    Raises:
        SettingsError: A file cannot be read, or what is in it cannot be used.
    """
    environ = os.environ if environ is None else environ
    user_file, project_file = user_path(environ), project_path(cwd)
    user = _Source.read(user_file, must_exist=bool(environ.get("TWOFOLD_SETTINGS")))
    project = _Source.read(project_file, must_exist=False)
    _check_project(project)
    trusted = project_file is not None and _is_trusted(project_file, user.file.trust)
    warnings = () if trusted else tuple(_ignored(project, user_file))
    return Settings(
        values=_merged(user.file, project.file, trusted=trusted),
        # a project's `ask` must be tried before the user's `allow`: it restricts
        rules=(*project.rules(), *user.rules()),
        origins=_origins(user, project, trusted=trusted),
        user_file=user_file,
        project_file=project_file,
        warnings=warnings,
    )


def user_path(environ: Mapping[str, str]) -> Path | None:
    """The path of the user's file; None without a home directory."""
    if named := environ.get("TWOFOLD_SETTINGS"):
        return Path(named)
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # XDG base directories: a relative path is ignored
        home = environ.get("HOME") or os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, ".config")
    return Path(base) / "twofold" / "settings.toml"


def project_path(cwd: str | os.PathLike[str]) -> Path | None:
    """The nearest `.twofold.toml` from `cwd` up to the root of its Git repository, if any.

    Outside of a repository only `cwd` itself is looked at.
    """
    here = Path(os.path.abspath(cwd))
    upwards = [here, *here.parents]
    root = next((each for each in upwards if (each / ".git").exists()), here)
    for folder in upwards[: upwards.index(root) + 1]:
        if (folder / PROJECT_FILE).exists():
            return folder / PROJECT_FILE
    return None


# ---- reading a file ----------------------------------------------------------------------------


class _Source(Struct, frozen=True):
    """A file that was read and checked."""

    path: Path | None = None
    file: SettingsFile = SettingsFile()
    data: Mapping[str, Any] = {}
    lines: Mapping[toml_lines.Path, int] = {}

    @classmethod
    def read(cls, path: Path | None, *, must_exist: bool) -> "_Source":
        if path is None:
            return cls()
        try:
            text = _text(path)
        except FileNotFoundError:
            if must_exist:
                raise SettingsError(path, None, "TWOFOLD_SETTINGS names no file.") from None
            return cls()
        except OSError as error:
            raise SettingsError(path, None, f"it cannot be read: {error.strerror}.") from None
        return read_file(text, path)

    def line(self, *keys: str) -> int | None:
        """The line of a key, or of the nearest table around it."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return self.lines[keys[:length]]
        return None

    def origin(self, *keys: str) -> str:
        return f"{self.path}:{self.line(*keys)}"

    def error(self, keys: Sequence[str], reason: str) -> SettingsError:
        return SettingsError(self.path or "", self.line(*keys), reason)

    def rules(self) -> list[Rule]:
        """The rules of the file: a rule that asks is tried before one that allows."""
        return [
            *self._parsed("reject", self.file.rules.reject),
            *self._parsed("ask", self.file.rules.ask),
            *self._parsed("allow", self.file.rules.allow),
        ]

    def _parsed(
        self, decision: Literal["allow", "reject", "ask"], texts: Iterable[str]
    ) -> Iterator[Rule]:
        for number, text in enumerate(texts):
            keys = ("rules", decision, str(number))
            try:
                rule = parse_rule(text, decision)
            except BadRule as error:
                reason = f"the rule {text!r} of {decision} cannot be used: {error.reason}."
                raise self.error(keys, reason) from None
            yield replace(rule, source=f"{self.origin(*keys)} {decision} {text}")


def read_file(text: str, path: str | os.PathLike[str]) -> _Source:
    """Check the text of a settings file.

    Raises:
        SettingsError: It is not TOML, has an unknown key, or a value of the wrong type.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        words = str(error)[: found.start()] if found else str(error)
        raise SettingsError(path, line, f"this is not TOML: {words}.") from None
    source = _Source(Path(path), data=data, lines=toml_lines.key_lines(text))
    _check_table(source, data, SettingsFile, ())
    checked = replace(source, file=msgspec.convert(data, SettingsFile))
    _check_values(checked)
    return checked


def _text(path: Path) -> str:
    status = os.stat(path)
    if path.name == PROJECT_FILE and not stat.S_ISREG(status.st_mode):
        raise SettingsError(path, None, "it is not a regular file.")  # a pipe would never end
    with open(path, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise SettingsError(path, None, f"it is larger than {_LARGEST // 1024} KiB.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(path, line, "this is not UTF-8.") from None


# ---- checking what is in it --------------------------------------------------------------------


def _check_table(
    source: _Source, table: Mapping[str, Any], kind: type[Struct], keys: tuple[str, ...]
) -> None:
    known = {field.name: field.type for field in fields(kind)}
    for key, value in table.items():
        if key not in known:
            where = f"the table [{_dotted(keys)}] has" if keys else "the settings have"
            reason = f"{where} no key {key!r}. {_right_key(key, list(known))}"
            raise source.error((*keys, key), reason)
        _check_value(source, value, _bare(known[key]), (*keys, key))


def _check_value(source: _Source, value: Any, kind: Any, keys: tuple[str, ...]) -> None:
    inner = get_args(kind)[1] if get_origin(kind) is dict else None
    table = kind if inner is None else inner
    is_table = isinstance(table, type) and issubclass(table, Struct)
    if isinstance(value, dict) and is_table and inner is None:
        _check_table(source, value, kind, keys)
    elif isinstance(value, dict) and inner is not None:
        for key, each in value.items():
            _check_value(source, each, _bare(inner), (*keys, key))
    else:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            # the value itself is not shown unless it is one of a few words: it may be a secret
            found = repr(value) if get_origin(kind) is Literal else _kind_of(value)
            right = f"{_dotted(keys)} must be {_expected(kind)}, not {found}."
            raise source.error(keys, right) from None


def _check_values(source: _Source) -> None:
    """Check what types cannot express."""
    keys: tuple[str, ...]
    for name, agent in source.file.agents.items():
        keys = ("agents", name, "command")
        if isinstance(agent.command, str):
            try:
                words = shlex.split(agent.command)
            except ValueError as error:
                reason = f"{_dotted(keys)} cannot be split into words: {error}."
                raise source.error(keys, reason) from None
        else:
            words = agent.command if agent.command is not None else ["-"]
        if not words or not words[0]:
            raise source.error(keys, f"{_dotted(keys)} is empty; it starts with a program.")
        _check_url(source, name, agent)
        if "/" in name or not name.strip():
            raise source.error(keys[:2], f"{name!r} is no name for an agent: use letters and -.")
    for name, server in source.file.mcp.items():
        keys = ("mcp", name)
        if (server.command is None) == (server.url is None):
            reason = f"{_dotted(keys)} needs either a command or a url."
            raise source.error(keys, reason)
        for key, belongs in {"args": "command", "env": "command", "headers": "url"}.items():
            if getattr(server, key) and getattr(server, belongs) is None:
                raise source.error((*keys, key), f"{key} belongs to a server with a {belongs}.")
        if server.url is not None and urlsplit(server.url).scheme not in ("http", "https"):
            raise source.error((*keys, "url"), "url must start with http:// or https://.")
    try:
        Bindings(source.file.keys)
    except BadKey as error:
        raise source.error(("keys", error.action), error.reason) from None
    _check_serve(source)
    if not source.file.notifications.after >= 0:  # NaN is none either
        keys = ("notifications", "after")
        raise source.error(keys, f"{_dotted(keys)} must not be less than 0.")


def _check_serve(source: _Source) -> None:
    serve = source.file.serve
    parsers = {"keep": parse_duration, "idle_after": parse_duration, "keep_size": parse_size}
    for key, parse in parsers.items():
        value = getattr(serve, key)
        try:
            if value is not None:
                parse(value)
        except BadAmount as error:
            raise source.error(("serve", key), f"serve.{key}: {error}") from None
    for key in ("agents", "sessions", "queued"):
        if getattr(serve, key) is not None and getattr(serve, key) < 1:
            raise source.error(("serve", key), f"serve.{key} must be at least 1.")
    if serve.port is not None and not 0 <= serve.port < 65536:
        raise source.error(("serve", "port"), "serve.port must be from 0 to 65535.")


def _right_key(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, 1)
    return f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(known)}."


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


_WORDS: Final[dict[Any, str]] = {
    str: "a text in quotes",
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    list: "a list of texts",
    dict: "a table",
}


def _expected(kind: Any) -> str:
    """What a value must be, for people."""
    if get_origin(kind) is Literal:
        *first, last = map(repr, get_args(kind))
        return f"{', '.join(first)} or {last}"
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_expected(each) for each in get_args(kind) if each is not type(None))
    return _WORDS.get(get_origin(kind) or kind, "a table")


def _kind_of(value: Any) -> str:
    kinds: dict[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "a table",
    }
    if isinstance(value, list) and not all(isinstance(each, str) for each in value):
        return "a list of other things"
    return kinds.get(type(value), "a date or time")


def _dotted(keys: Iterable[str]) -> str:
    bare = re.compile(r"[A-Za-z0-9_-]+")
    return ".".join(key if bare.fullmatch(key) else f'"{key}"' for key in keys)


def _check_url(source: _Source, name: str, agent: AgentSettings) -> None:
    keys = ("agents", name)
    if agent.url is None:
        if agent.token_file is not None:
            raise source.error((*keys, "token_file"), "token_file belongs to an agent with a url.")
        return
    for key in ("command", "env", "install"):
        if getattr(agent, key):
            reason = f"{_dotted(keys)} has a url, so it cannot have {key}: nothing is started."
            raise source.error((*keys, key), reason)
    try:
        Endpoint(agent.url)
    except BadUrl as error:
        reason = f"{_dotted((*keys, 'url'))} cannot be used: {error.reason}"
        raise source.error((*keys, "url"), reason) from None


# ---- what a project may do ---------------------------------------------------------------------

_PROJECT_MAY: Final = (
    "a project's file may only have rules.reject and rules.ask and, in directories that you trust,"
    " agent, agents.NAME.mode and agents.NAME.options"
)


def _check_project(project: _Source) -> None:
    """Refuse what would let a repository start, allow or send something."""
    for keys in _leaves(project.data):
        match keys:
            case ("rules", "reject" | "ask") | ("agent",) | ("agents", _, "mode"):
                continue
            case ("agents", _, "options", *_):
                continue
            case ("agents",) | ("agents", _) | ("rules",):  # an empty table
                continue
        reason = f"{_dotted(keys)} is not allowed here: {_PROJECT_MAY}. Set it in your own file."
        raise project.error(keys, reason)


def _ignored(project: _Source, user_file: Path | None) -> Iterator[str]:
    """What an untrusted project sets that is left out: a mode can be one that never asks."""
    for keys in _leaves(project.data):
        if keys[0] in ("agent", "agents") and project.path is not None:
            yield (
                f"{project.path}, line {project.line(*keys)}: {_dotted(keys)} is ignored, because"
                f" you do not trust this project. To use it, add {str(project.path.parent)!r} to"
                f" trust in {user_file}."
            )


def _is_trusted(project_file: Path, trust: Iterable[str]) -> bool:
    here = os.path.realpath(project_file.parent)
    for each in trust:
        folder = os.path.realpath(os.path.expanduser(each))
        if os.path.isabs(os.path.expanduser(each)) and Path(here).is_relative_to(folder):
            return True
    return False


def _merged(user: SettingsFile, project: SettingsFile, *, trusted: bool) -> SettingsFile:
    rules = RuleSettings(
        reject=[*project.rules.reject, *user.rules.reject],
        ask=[*project.rules.ask, *user.rules.ask],
        allow=user.rules.allow,
    )
    if not trusted:
        return replace(user, rules=rules)
    agents = dict(user.agents)
    for name, wanted in project.agents.items():
        known = agents.get(name, AgentSettings())
        options = {**known.options, **wanted.options}
        agents[name] = replace(known, mode=wanted.mode or known.mode, options=options)
    return replace(user, agent=project.agent or user.agent, agents=agents, rules=rules)


def _origins(user: _Source, project: _Source, *, trusted: bool) -> dict[str, str]:
    found = {}
    for keys in _leaves(user.data):
        found[_dotted(keys)] = user.origin(*keys)
    for keys in _leaves(project.data):
        if keys[0] == "rules":
            key, there = _dotted(keys), project.origin(*keys)
            found[key] = f"{there}, {found[key]}" if key in found else there
        elif trusted:
            found[_dotted(keys)] = project.origin(*keys)
    return found


def _leaves(data: Mapping[str, Any], keys: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every value that is not a table, and of every empty table."""
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*keys, key))
        else:
            yield (*keys, key)


# ---- showing them ------------------------------------------------------------------------------


class Shown(Struct, frozen=True):
    """A value as `twofold settings` shows it: nothing secret is in it."""

    key: str
    """Its key: `agents.claude.mode`."""
    value: Any
    """The value; `set` for an environment variable or a header."""
    origin: str
    """Where it comes from: `FILE:LINE`, or `default`."""


def shown(settings: Settings) -> list[Shown]:
    """Every value in effect, without secrets."""
    values = msgspec.to_builtins(settings.values)
    found = []
    for keys in _leaves(values):
        value: Any = values
        for key in keys:
            value = value[key]
        key = _dotted(keys)
        origin = settings.origin(key)
        optional = keys[0] in ("agents", "mcp") and origin == DEFAULT and len(keys) > 1
        if value is not None and not (optional and not value):
            found.append(Shown(key, _harmless(keys, value), origin))
        elif value is None and len(keys) == 1:
            found.append(Shown(key, None, origin))
    return found


def _harmless(keys: Sequence[str], value: Any) -> Any:
    if len(keys) > 3 and keys[0] in ("agents", "mcp") and keys[2] in ("env", "headers"):
        return "set"
    if len(keys) == 3 and keys[0] == "mcp" and keys[2] == "url":
        parts = urlsplit(value)  # without a user, a password and a query
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
    return value
