"""What the first `import` costs, each in a fresh process."""

import subprocess
import sys
from pathlib import Path

from benchmarks.peers import Sdks, why
from benchmarks.table import Amount, Row, Target, Topic
from tests.peers.install import Unavailable

_PASSES = 12

_CODE = """
from time import process_time
start = process_time()
{statement}
print(process_time() - start)
"""


# `import twofold` alone imports nothing yet: each name imports what it needs.
_OURS = "from twofold import Agent, Session, connect"


def measure(sdks: Sdks) -> Topic:
    """Our import, the SDK's, and that of the one thing we depend on."""
    ours, least, theirs = [], [], []
    missing = None
    for _ in range(_PASSES):
        ours.append(_seconds(Path(sys.executable), _OURS))
        least.append(_seconds(Path(sys.executable), "import msgspec"))
        try:
            if missing is None:
                theirs.append(_seconds(sdks.v1.interpreter(), "import acp"))
        except Unavailable as error:
            missing = why(error)
    row = Row(
        "import",
        Amount(min(ours)),
        Amount(min(least), whose="msgspec"),
        missing or Amount(min(theirs)),
        Target("≤ 1/5 of SDK", 1 / 5, "SDK"),
    )
    return Topic(
        "import",
        f"`{_OURS}` beside `import acp` (SDK {sdks.v1.release}), without the start of "
        f"Python. The shortest of {_PASSES} fresh processes each, in turns.",
        [row],
    )


def _seconds(python: Path, statement: str) -> float:
    command = [str(python), "-I", "-c", _CODE.format(statement=statement)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{statement}: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout)
