"""A program that starts an agent and records what passes between it and the client.

python taping_agent.py TAPE COMMAND...
"""

import subprocess
import sys
import threading
from typing import IO, cast

from twofold.transport.tape import Direction, Tape


def main(path: str, command: list[str]) -> int:
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    one_at_a_time = threading.Lock()
    with open(path, "wb") as file:
        tape = Tape.to(file)

        def pass_on(way: Direction, source: IO[bytes], target: IO[bytes]) -> None:
            for line in source:
                with one_at_a_time:
                    tape.line(way, line)
                    target.write(line)
                    target.flush()
            target.close()

        there = cast("IO[bytes]", agent.stdin)
        to_agent = threading.Thread(target=pass_on, args=("c2a", sys.stdin.buffer, there))
        to_agent.daemon = True
        to_agent.start()
        pass_on("a2c", cast("IO[bytes]", agent.stdout), sys.stdout.buffer)
        return agent.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
