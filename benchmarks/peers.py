"""The official SDKs as contestants, each in a process of its own that waits while others run.

An SDK that cannot be had is not an error: whoever asks it gets `Unavailable`, which says why.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks.table import Missing
from tests.peers.install import Unavailable, python_sdk

V1 = "0.12.1"
V2 = "1.0.0rc3"

_SCRIPT = Path(__file__).with_name("sdk.py")


def why(error: Unavailable) -> Missing:
    """The reason as it stands below the table: its first line."""
    return Missing(str(error).partition("\n")[0].rstrip(":"))


class Sdk:
    """One version of the SDK, reading one version of the protocol; started when first asked."""

    def __init__(self, release: str, protocol: int) -> None:
        self.release = release
        self._protocol = protocol
        self._process: subprocess.Popen[str] | None = None
        self._missing: Unavailable | None = None

    def interpreter(self) -> Path:
        """The Python that has it, or `Unavailable`."""
        if self._missing is not None:
            raise self._missing  # to try once more to install it takes long
        try:
            return python_sdk(self.release)
        except Unavailable as error:
            self._missing = error
            raise

    def ask(self, task: str, lines: Sequence[bytes] = ()) -> Any:
        """What `benchmarks/sdk.py` answers, or `Unavailable`."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            asked = {"task": task, "lines": [line.decode() for line in lines]}
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            raise Unavailable(f"the process of SDK {self.release} ended") from None
        if "error" in answer:
            raise Unavailable(f"SDK {self.release}: {answer['error']}")
        return answer["result"]

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = [str(self.interpreter()), str(_SCRIPT), str(self._protocol)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        return self._process

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.communicate()


class Sdks:
    """The SDK of either version, for the time of a run."""

    def __init__(self) -> None:
        self.v1 = Sdk(V1, 1)
        self.v2 = Sdk(V2, 2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.v1.close()
        self.v2.close()
