"""The agents of `README.md` as servers on this machine, each a process of its own."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent


def ts_server(node_sdk: Path, version: int) -> list[str]:
    """The command line of the TypeScript SDK's server."""
    return ["node", str(HERE / "ts_agent.mjs"), str(node_sdk), str(version), "serve"]


def py_server(python_server: Path, version: int) -> list[str]:
    """The command line of the Python SDK's server."""
    return [str(python_server), str(HERE / "py_server.py"), str(version)]


@contextmanager
def running(command: Sequence[str], *, websocket: bool = True) -> Iterator[int]:
    """Run a server in a block; gives its port."""
    env = dict(os.environ) | ({} if websocket else {"NO_WEBSOCKET": "1"})
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
