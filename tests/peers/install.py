"""The official SDKs, installed by name into `.peers/` on demand.

A peer is complete when its stamp is there, which is written last: what an
interrupted set-up left behind is removed and made again. Two test runs in one
checkout wait for each other. Where a peer cannot be had, `Unavailable` has the reason.
"""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"

NODE_SDK = "@agentclientprotocol/sdk"
# zod is what the SDK leaves to its user to install; pinned, for it is what refuses values.
# Its server upgrades to WebSockets with ws.
NODE_PACKAGES = (f"{NODE_SDK}@2.4.0", "zod@4.6.7", "ws@8.23.0")
# What the tests of the web page need: a checker of types, one of accessibility, and one of style.
PAGE_PACKAGES = ("typescript@7.0.2", "axe-core@4.14.0", "@biomejs/biome@2.6.7")
# What most pages render Markdown with, for the benchmarks.
MARKED = "marked 18.2.0"
PYTHON_SDKS = ("0.12.1", "1.0.0rc3")
# The release that has a server, and what runs it.
PYTHON_SERVER = ("agent-client-protocol[http]==1.0.0rc3", "uvicorn==0.54.0")
TEXTUAL = ("textual==8.2.8", "rich==15.0.0")
# Other clients, for the benchmarks.
ACPX = "acpx 0.19.1"
ACPX_NODE = (22, 13)
TOAD = "batrachian-toad 0.6.20"
TOAD_PYTHON = "python3.14"

INSTALL_TIMEOUT = 300


class Unavailable(Exception):
    """A peer cannot be had on this machine."""


def node_sdk() -> Path:
    """The folder of the TypeScript SDK's package; its files are `dist/` and `schema/`."""
    return _node_modules("node", NODE_PACKAGES, NODE_SDK) / NODE_SDK


def page_checkers() -> Path:
    """The folder that has the packages `typescript`, `axe-core` and `biome`."""
    return _node_modules("page", PAGE_PACKAGES, "axe-core")


def marked() -> Path:
    """The file of marked, as a module for browsers."""
    modules = _node_modules("marked", (MARKED.replace(" ", "@"),), "marked")
    return modules / "marked" / "lib" / "marked.esm.js"


def _node_modules(name: str, packages: tuple[str, ...], product: str) -> Path:
    home = PEERS / name
    modules = home / "node_modules"

    def build() -> None:
        npm = _command("npm")
        # npm climbs to the nearest package.json unless the folder has one
        (home / "package.json").write_text('{"private": true}\n')
        run_installer(
            npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages, at=home
        )

    _command("node")
    _make(home, " ".join(packages), modules / product / "package.json", build)
    return modules


def python_sdk(version: str) -> Path:
    """The interpreter of a virtual environment that has this version of the Python SDK."""
    return _environment(f"python-{version}", f"agent-client-protocol=={version}")


def python_server() -> Path:
    """The interpreter of a virtual environment that can serve the Python SDK's agents."""
    return _environment("python-server", *PYTHON_SERVER)


def textual() -> Path:
    """The interpreter of a virtual environment that has what else shows markdown in a terminal."""
    return _environment("textual", *TEXTUAL)


def acpx() -> Path:
    """The program of acpx."""
    home = PEERS / "acpx"
    program = home / "node_modules" / ".bin" / "acpx"
    package = ACPX.replace(" ", "@")

    def build() -> None:
        (home / "package.json").write_text('{"private": true}\n')
        run_installer(
            _command("npm"),
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            package,
            at=home,
        )

    asked = (_command("node"), "--version")
    node = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if tuple(map(int, node.removeprefix("v").split(".")[:2])) < ACPX_NODE:
        needed = ".".join(map(str, ACPX_NODE))
        raise Unavailable(f"{ACPX} needs Node {needed} or newer, and this is {node}")
    _make(home, package, program, build)
    return program


def toad() -> Path:
    """The program of Toad."""
    try:
        python = _command(TOAD_PYTHON)
    except Unavailable as error:
        raise Unavailable(f"{TOAD} needs Python 3.14: {error}") from None
    return _environment("toad", TOAD.replace(" ", "=="), python=python).with_name("toad")


def _environment(name: str, *requirements: str, python: str = sys.executable) -> Path:
    home = PEERS / name
    interpreter = home / "bin" / "python"

    def build() -> None:
        run_installer(python, "-m", "venv", str(home), at=ROOT)
        pip = (str(interpreter), "-m", "pip", "--disable-pip-version-check", "--quiet")
        run_installer(*pip, "install", *requirements, at=home)

    _make(home, " ".join(requirements), interpreter, build)
    return interpreter


def _make(home: Path, wanted: str, product: Path, build: Callable[[], None]) -> None:
    stamp = home / ".complete"
    with _one_at_a_time():
        # `exists` follows links: the environment of a Python that was removed is made again
        if product.exists() and stamp.exists() and stamp.read_text() == wanted:
            return
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        build()
        if not product.exists():
            raise Unavailable(f"{wanted} was installed, but {product.relative_to(ROOT)} is missing")
        stamp.write_text(wanted)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    PEERS.mkdir(exist_ok=True)
    with (PEERS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _command(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"{name} is not installed")
    return path


def run_installer(*command: str, at: Path = ROOT) -> None:
    """Run a command that installs something; raises `Unavailable` if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=at,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise Unavailable(f"{' '.join(command)} ended with {done.returncode}:\n{tail}")
