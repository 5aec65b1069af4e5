"""Run a program in a terminal of its own, for a person or for the benchmark.

    python -m benchmarks.terminal_peers.in_terminal benchmarks.terminal_peers.rich_markdown STREAM

What the program writes is read at once and counted, and shown to nobody: a terminal that is never
the slower one. Its questions to the terminal are not answered.
"""

import errno
import json
import os
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

COLUMNS: Final = 100
ROWS: Final = 40
_PIECE: Final = 1 << 16
_KEPT: Final = 4_000


def in_terminal(
    module: str, arguments: Sequence[str], python: str | Path = sys.executable
) -> dict[str, Any]:
    """What a program reports of itself, and `bytes_written`; `python` runs it.

    `RuntimeError` with its last words if it reports nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [str(python), "-m", module, *arguments, "--report", str(report)]
        written, last = _run(command)
        if not report.exists():
            raise RuntimeError(last.decode(errors="replace"))
        told: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return {**told, "bytes_written": written}


def _run(command: list[str]) -> tuple[int, bytes]:
    """How much it wrote, and the end of it."""
    master, slave = os.openpty()
    termios.tcsetwinsize(master, (ROWS, COLUMNS))
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
    ):
        os.close(slave)
        count, last = 0, b""
        while output := _read(master):
            count += len(output)
            last = (last + output)[-_KEPT:]
    os.close(master)
    return count, last


def _read(master: int) -> bytes:
    try:
        return os.read(master, _PIECE)
    except OSError as error:
        if error.errno != errno.EIO:  # on Linux, when the program has closed the terminal
            raise
        return b""


def main() -> None:
    module, *arguments = sys.argv[1:]
    print(json.dumps(in_terminal(module, arguments)))


if __name__ == "__main__":
    main()
