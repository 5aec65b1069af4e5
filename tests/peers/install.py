"""The official SDKs, installed by name into `.peers/` on demand.

A peer is complete when its stamp is there, which is written last: what an
interrupted set-up left behind is removed and made again. Two test runs in one
checkout wait for each other. Where a peer cannot be had, `Unavailable` says why.
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
NODE_PACKAGES = (f"{NODE_SDK}@2.4.0", "zod@4.6.7")
PYTHON_SDKS = ("0.12.1", "1.0.0rc3")
TEXTUAL = ("textual==8.2.8", "rich==15.0.0")

INSTALL_TIMEOUT = 300


class Unavailable(Exception):
    """A peer cannot be had on this machine."""


def node_sdk() -> Path:
    """The folder of the TypeScript SDK's package; its files are `dist/` and `schema/`."""
    home = PEERS / "node"
    package = home / "node_modules" / NODE_SDK

    def build() -> None:
        npm = _command("npm")
        # npm climbs to the nearest package.json unless the folder has one
        (home / "package.json").write_text('{"private": true}\n')
        _run(npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *NODE_PACKAGES, at=home)

    _command("node")
    _make(home, " ".join(NODE_PACKAGES), package / "package.json", build)
    return package


def python_sdk(version: str) -> Path:
    """The interpreter of a virtual environment that has this version of the Python SDK."""
    return _environment(f"python-{version}", f"agent-client-protocol=={version}")


def textual() -> Path:
    """The interpreter of a virtual environment that has what else shows markdown in a terminal."""
    return _environment("textual", *TEXTUAL)


def _environment(name: str, *requirements: str) -> Path:
    home = PEERS / name
    interpreter = home / "bin" / "python"

    def build() -> None:
        _run(sys.executable, "-m", "venv", str(home), at=ROOT)
        pip = (str(interpreter), "-m", "pip", "--disable-pip-version-check", "--quiet")
        _run(*pip, "install", *requirements, at=home)

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


def _run(*command: str, at: Path) -> None:
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
