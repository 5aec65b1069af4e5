"""The least that an agent can do: encode, collect 64 KB, write."""

import os
from collections.abc import Iterator

from benchmarks.stdio_peers.floor_lines import (
    Chunk,
    Text,
    ToAgent,
    ToClient,
    Update,
    decode_to_agent,
    encode,
)
from benchmarks.stdio_peers.job import chunks

STDIN, STDOUT = 0, 1
ENOUGH = 1 << 16


def _requests() -> Iterator[ToAgent]:
    rest = b""
    while data := os.read(STDIN, ENOUGH):
        *lines, rest = (rest + data).split(b"\n")
        yield from map(decode_to_agent, lines)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(STDOUT, data) :]


def _stream(session: str, prompt: str) -> None:
    lines: list[bytes] = []
    size = 0
    for text in chunks(prompt):
        update = Update(session, Chunk("msg_1", Text(text)))
        line = encode(ToClient("2.0", method="session/update", params=update))
        lines.append(line)
        size += len(line) + 1
        if size >= ENOUGH:
            lines.append(b"")
            _write(b"\n".join(lines))
            lines.clear()
            size = 0
    lines.append(b"")
    _write(b"\n".join(lines))


def main() -> None:
    """Answer every request until the input ends."""
    for request in _requests():
        result: dict[str, str] = {}
        if request.method == "session/prompt":
            _stream(request.params.session_id, request.params.prompt[0].text)
            result = {"stopReason": "end_turn"}
        _write(encode(ToClient("2.0", id=request.id, result=result)) + b"\n")


if __name__ == "__main__":
    main()
