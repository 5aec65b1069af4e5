"""The least of a relay: starts a command and passes bytes on, as `cat` would, both ways."""

import os
import select
import subprocess
import sys

ENOUGH = 1 << 16


def main() -> None:
    """Pass bytes on until one side ends."""
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        ways = {0: agent.stdin.fileno(), agent.stdout.fileno(): 1}
        while True:
            for source in select.select(list(ways), [], [])[0]:
                data = os.read(source, ENOUGH)
                if not data:
                    agent.stdin.close()
                    return
                while data:
                    data = data[os.write(ways[source], data) :]


if __name__ == "__main__":
    main()
