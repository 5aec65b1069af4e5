"""The least that a client can do: read, decode, append."""

import asyncio
import os
import subprocess
import sys

from benchmarks.stdio_peers.floor_lines import Prompt, Text, ToAgent, decode_to_client, encode
from benchmarks.stdio_peers.job import Job, carry_out

AGENT = [sys.executable, "-m", "benchmarks.stdio_peers.floor_agent"]
ENOUGH = 1 << 16


class Client:
    """One request at a time, and nothing that waits for anything else."""

    def __init__(self, writes_to: int, reads_from: int) -> None:
        self._writes_to = writes_to
        self._reads_from = reads_from

    def request(self, method: str, params: Prompt) -> list[str]:
        """Send a request and read until its answer; the texts that came before it."""
        os.write(self._writes_to, encode(ToAgent("2.0", 1, method, params)) + b"\n")
        texts: list[str] = []
        append, rest = texts.append, b""
        while data := os.read(self._reads_from, ENOUGH):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                message = decode_to_client(line)
                if message.params is None:
                    return texts
                append(message.params.update.content.text)
        raise EOFError("the agent ended")

    async def ping(self) -> object:
        """A round trip."""
        return self.request("_ping", Prompt())

    async def turn(self, prompt: str) -> str:
        """A prompt, and the text it is answered with."""
        return "".join(self.request("session/prompt", Prompt("sess_1", [Text(prompt)])))


def main() -> None:
    """Do the job with an agent of its own."""
    with subprocess.Popen(AGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        client = Client(agent.stdin.fileno(), agent.stdout.fileno())
        asyncio.run(carry_out(Job.read(), client.ping, client.turn))
        agent.stdin.close()


if __name__ == "__main__":
    main()
