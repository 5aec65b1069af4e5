"""The agents that are known by name: those of this table, of a registry file, of the settings.

A name stands for a command. Nothing is downloaded or installed: an agent is installed if its
program is on the PATH, and for one that is not the error has the command that installs it.
"""

import difflib
import json
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from twofold.errors import LocalError
from twofold.host.settings import AgentSettings, Settings
from twofold.text import one_line
from twofold.transport.commands import CommandNotStarted, shown
from twofold.transport.endpoint import Endpoint, read_token

DEMO: Final = "demo"
"""The agent that is started if no other is chosen."""
BUILT_IN: Final = "built in"


class KnownAgent(Struct, frozen=True, kw_only=True):
    """An agent that is known by name."""

    name: str
    """What `twofold run NAME` takes."""
    command: tuple[str, ...]
    """The program that starts it, and its arguments."""
    description: str = ""
    """What it is, in one line."""
    install: str = ""
    """The command or the steps that install it."""
    needs: str = ""
    """What it needs to work: a login, or a variable with a key."""
    env: Mapping[str, str] = {}
    """Variables to set for it."""
    endpoint: Endpoint | None = None
    """Where it is reached, if it is not started here."""
    npm_package: str = ""
    """The npm package of the program, if its name has to be looked up there."""
    origin: str = BUILT_IN
    """Where it is defined: `built in`, or a file."""


class UnknownAgent(LocalError):
    """There is no agent of this name.

    Attributes:
        name: The name.
        close: A name that is written much like it, if there is one.
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.close = next(iter(difflib.get_close_matches(name, known, 1)), None)
        meant = f" Did you mean {self.close}?" if self.close is not None else ""
        super().__init__(
            f"There is no agent {one_line(name)!r}.{meant} `twofold agents` lists the names. If it"
            f" is a command, put -- before it: -- {shown([name])}"
        )


class AgentNotInstalled(CommandNotStarted):
    """The program of a known agent is not on the PATH.

    Attributes:
        agent: The agent.
    """

    def __init__(self, agent: KnownAgent) -> None:
        program = one_line(agent.command[0])
        how = f" To install it: {one_line(agent.install)}" if agent.install else " Install it."
        super().__init__(agent.command, f"there is no command {program} on the PATH.{how}")
        self.agent = agent


class BadRegistry(LocalError):
    """A registry file cannot be used: `file` is its path, `reason` what is wrong with it."""

    def __init__(self, file: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"The registry {os.fspath(file)} cannot be used: {reason}.")
        self.file = os.fspath(file)
        self.reason = reason


# ---- the table ---------------------------------------------------------------------------------


def _npm(package: str) -> str:
    return f"npm install -g {package}"


def _uv(package: str) -> str:
    return f"uv tool install {package}"


BUILT_IN_DEMO: Final = KnownAgent(
    name=DEMO,
    # -P: Python must not import the files of the current directory
    command=(sys.executable, "-P", "-m", "twofold", "agent"),
    description="the built-in demo agent, offline",
)

_TABLE: Final = (
    BUILT_IN_DEMO,
    KnownAgent(
        name="auggie",
        command=("auggie", "--acp"),
        description="Auggie, Augment Code's agent",
        install=_npm("@augmentcode/auggie"),
        needs="an Augment login",
        env={"AUGMENT_DISABLE_AUTO_UPDATE": "1"},
    ),
    KnownAgent(
        name="claude",
        command=("claude-agent-acp",),
        description="Claude Code, through its ACP adapter",
        install=_npm("@agentclientprotocol/claude-agent-acp"),
        needs="a Claude login or ANTHROPIC_API_KEY",
    ),
    KnownAgent(
        name="cline",
        command=("cline", "--acp"),
        description="Cline's command-line agent",
        install=_npm("cline"),
        needs="a login or a provider's key (cline auth)",
    ),
    KnownAgent(
        name="codex",
        command=("codex-acp",),
        description="OpenAI Codex, through its ACP adapter",
        install=_npm("@agentclientprotocol/codex-acp"),
        needs="a ChatGPT login, CODEX_API_KEY or OPENAI_API_KEY",
    ),
    KnownAgent(
        name="copilot",
        command=("copilot", "--acp"),
        description="GitHub Copilot's command-line agent",
        install=_npm("@github/copilot"),
        needs="a GitHub login (copilot login) or GH_TOKEN",
    ),
    KnownAgent(
        name="cursor",
        command=("cursor-agent", "acp"),
        description="Cursor's command-line agent",
        install="curl https://cursor.com/install -fsS | bash",
        needs="a login (cursor-agent login) or CURSOR_API_KEY",
    ),
    KnownAgent(
        name="fast-agent",
        command=("fast-agent-acp",),
        description="fast-agent, for models of many providers",
        install=_uv("fast-agent-acp"),
        needs="a key of the provider of your model",
    ),
    KnownAgent(
        name="gemini",
        command=("gemini", "--acp"),
        description="Google's Gemini CLI",
        install=_npm("@google/gemini-cli"),
        needs="a Google login or GEMINI_API_KEY",
    ),
    KnownAgent(
        name="goose",
        command=("goose", "acp"),
        description="goose, an open source agent for many providers",
        install="curl -fsSL"
        " https://github.com/aaif-goose/goose/releases/download/stable/download_cli.sh | bash",
        needs="a provider (goose configure)",
    ),
    KnownAgent(
        name="hermes",
        command=("hermes", "acp"),
        description="Hermes Agent of Nous Research",
        install=_uv("'hermes-agent[acp]'"),
        needs="a provider (hermes acp --setup)",
    ),
    KnownAgent(
        name="kimi",
        command=("kimi", "acp"),
        description="Moonshot AI's Kimi CLI",
        install=_uv("--python 3.13 kimi-cli"),
        needs="a login (kimi, then /setup)",
    ),
    KnownAgent(
        name="opencode",
        command=("opencode", "acp"),
        description="OpenCode, an open source agent for many providers",
        install=_npm("opencode-ai"),
        needs="a provider (opencode auth login)",
    ),
    KnownAgent(
        name="pi",
        command=("pi-acp",),
        description="the coding agent pi, through its ACP adapter",
        install=_npm("@earendil-works/pi-coding-agent pi-acp"),
        needs="a provider (pi-acp --terminal-login)",
    ),
    KnownAgent(
        name="qwen",
        command=("qwen", "--acp"),
        description="Alibaba's Qwen Code",
        install=_npm("@qwen-code/qwen-code"),
        needs="a login, or a provider's key",
    ),
    KnownAgent(
        name="vibe",
        command=("vibe-acp",),
        description="Mistral's coding agent Vibe",
        install=_uv("mistral-vibe"),
        needs="a Mistral login or MISTRAL_API_KEY",
    ),
)


def known_agents(settings: Settings) -> dict[str, KnownAgent]:
    """The agents by name: those of the table, changed by the registry file and by the settings.

    Raises:
        BadRegistry: The settings name a registry file that cannot be used.
    """
    known = {agent.name: agent for agent in _TABLE}
    if (file := settings.registry_file) is not None:
        known |= read_registry(file)
    for name, wanted in settings.values.agents.items():
        before = known.get(name)
        words = shlex.split(wanted.command) if isinstance(wanted.command, str) else wanted.command
        if wanted.url is not None:
            known[name] = _remote(name, wanted, settings)
            continue
        if words is None and before is None:
            continue  # it only has a mode or options, for an agent of another machine
        agent = before or KnownAgent(name=name, command=())
        if words is not None:
            # another command is another program: it is installed in another way
            agent = KnownAgent(
                name=name, command=tuple(words), description=agent.description, env=agent.env
            )
        known[name] = replace(
            agent,
            env={**agent.env, **wanted.env},
            install=wanted.install or agent.install,
            description=wanted.description or agent.description,
            origin=settings.origin(f"agents.{name}.command") if words else agent.origin,
        )
    return dict(sorted(known.items()))


def _remote(name: str, wanted: AgentSettings, settings: Settings) -> KnownAgent:
    endpoint = Endpoint(wanted.url or "")
    return KnownAgent(
        name=name,
        command=(endpoint.shown,),
        endpoint=endpoint,
        description=wanted.description or "an agent that runs elsewhere",
        origin=settings.origin(f"agents.{name}.url"),
    )


def endpoint_of(name: str, settings: Settings, token: str | None = None) -> Endpoint:
    """Where an agent with a URL is reached, with its own token or else with this one.

    Raises:
        BadUrl: The file of its token cannot be used.
    """
    file = settings.token_file(name)
    own = read_token(file) if file is not None else token
    return Endpoint(settings.agent(name).url or "", own)


# ---- is it installed? --------------------------------------------------------------------------


def resolve(name: str, known: Mapping[str, KnownAgent]) -> KnownAgent:
    """The agent of a name, with the program that is installed here.

    Raises:
        UnknownAgent: There is no agent of this name.
        AgentNotInstalled: Its program is not on the PATH.
    """
    agent = known.get(name)
    if agent is None:
        raise UnknownAgent(name, list(known))
    program = installed(agent)
    if program is None:
        raise AgentNotInstalled(agent)
    return replace(agent, command=(program, *agent.command[1:]))


def installed(agent: KnownAgent) -> str | None:
    """The program of an agent, as it is to be started; None if it is not installed.

    Of an agent at a URL it is the URL.
    """
    if agent.endpoint is not None:
        return agent.command[0]
    environ = {**os.environ, **agent.env}
    path = environ.get("PATH")
    if agent.npm_package and (found := _npm_program(agent.npm_package, path)):
        return found
    program = os.path.expanduser(agent.command[0])
    return program if shutil.which(program, path=path) is not None else None


def _npm_program(package: str, path: str | None) -> str | None:
    """The program of an npm package that is installed globally, in a directory of the PATH."""
    for folder in (path or "").split(os.pathsep):
        if not os.path.isabs(folder):
            continue
        manifest = Path(folder).parent / "lib" / "node_modules" / package / "package.json"
        try:
            programs = json.loads(manifest.read_bytes()).get("bin")
        except (OSError, ValueError, AttributeError):
            continue
        bare = package.rpartition("/")[2]
        names = list(programs) if isinstance(programs, dict) else [bare]
        for name in sorted(names, key=lambda each: each != bare):
            program = os.path.join(folder, name)
            if os.path.basename(program) == name and shutil.which(program):
                return program
    return None


# ---- a registry file ---------------------------------------------------------------------------
#
# The format of the public ACP registry. Unknown fields are ignored: the format grows.


class _Package(Struct):
    package: str
    args: list[str] = []
    env: dict[str, str] = {}


class _Binary(Struct):
    archive: str
    cmd: str
    args: list[str] = []
    env: dict[str, str] = {}


class _Distribution(Struct):
    binary: dict[str, _Binary] = {}
    npx: _Package | None = None
    uvx: _Package | None = None


class _Entry(Struct):
    id: str
    name: str
    distribution: _Distribution
    description: str = ""


class _Registry(Struct):
    agents: list[_Entry]


def read_registry(file: str | os.PathLike[str]) -> dict[str, KnownAgent]:
    """The agents of an ACP registry file, by their ids.

    An agent that is not distributed for this platform is left out.

    Raises:
        BadRegistry: The file cannot be read, or is not a registry.
    """
    try:
        registry = msgspec.json.decode(Path(file).read_bytes(), type=_Registry)
    except OSError as error:
        raise BadRegistry(file, f"{error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise BadRegistry(file, str(error)) from None
    return {agent.name: agent for entry in registry.agents for agent in _agents(entry, file)}


def _agents(entry: _Entry, file: str | os.PathLike[str]) -> Iterator[KnownAgent]:
    made: dict[str, Any] = {
        "name": entry.id,
        "description": one_line(entry.description or entry.name),
        "origin": os.fspath(file),
    }
    npx, uvx = entry.distribution.npx, entry.distribution.uvx
    binary = entry.distribution.binary.get(_platform())
    if npx is not None:
        package = re.sub(r"(?<=.)@[^/]*$", "", npx.package)
        command = (package.rpartition("/")[2], *npx.args)
        install = _npm(shlex.quote(npx.package))
        yield KnownAgent(command=command, env=npx.env, install=install, npm_package=package, **made)
    elif uvx is not None:
        package = re.split(r"[\[=<>~!@ ]", uvx.package, maxsplit=1)[0]
        install = _uv(shlex.quote(uvx.package))
        yield KnownAgent(command=(package, *uvx.args), env=uvx.env, install=install, **made)
    elif binary is not None:
        program = os.path.basename(binary.cmd)
        install = f"unpack {binary.archive} and put {program} on the PATH"
        yield KnownAgent(command=(program, *binary.args), env=binary.env, install=install, **made)


def _platform() -> str:
    machine = platform.machine().lower()
    names = {"arm64": "aarch64", "amd64": "x86_64"}
    return f"{sys.platform}-{names.get(machine, machine)}"
