"""`twofold serve` as a process, for tests that open its page."""

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_ADDRESS = re.compile(r"https?://\S+")


def _addresses(text: str) -> list[str]:
    return [str(found) for found in _ADDRESS.findall(text)]


class Served(NamedTuple):
    """A server that runs."""

    entry: str
    """The address that lets one browser in, once."""
    environment: dict[str, str]
    pid: int

    @property
    def token(self) -> str:
        """What a program shows to be let in."""
        folder = Path(self.environment["XDG_STATE_HOME"]) / "twofold" / "serve"
        return (folder / "token").read_text().strip()

    @property
    def memory(self) -> int | None:
        """Bytes of memory that the server uses, where the system shows that."""
        status = Path(f"/proc/{self.pid}/statm")
        if not status.exists():
            return None
        return int(status.read_text().split()[1]) * resource.getpagesize()

    @property
    def url(self) -> str:
        return "/".join(self.entry.split("/")[:3]) + "/"

    def link(self, role: str = "controller") -> str:
        """An address that lets one more browser in."""
        command = (sys.executable, "-m", "twofold", "serve", "--link", role)
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60, check=True
        )
        return _addresses(done.stdout)[-1]


@contextmanager
def serving(state: Path, *agent: str, options: tuple[str, ...] = ()) -> Iterator[Served]:
    """Serve the sessions of an agent, by default the demo agent, until the block ends."""
    environment = {**os.environ, "XDG_STATE_HOME": str(state), "XDG_RUNTIME_DIR": str(state)}
    command = [sys.executable, "-m", "twofold", "serve", "--no-open", "--port", "0", *options]
    process = subprocess.Popen(
        [*command, *(("--", *agent) if agent else ())],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            found = _addresses(line)
            if found:
                yield Served(found[-1], environment, process.pid)
                return
        raise AssertionError(f"twofold serve printed no address: {printed}")
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
