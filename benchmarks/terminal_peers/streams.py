"""The messages that every program is shown: `python -m benchmarks.terminal_peers.streams FOLDER`.

A stream is a JSON Lines file of strings, the chunks of one message in order. The same call writes
the same bytes, on any machine and with any Python.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Final

CHUNKS: Final = 50_000
LINES: Final = 2_000
PIECE: Final = 4
"""How many characters of code come at a time."""

_PROSE: Final = (
    "the report says what a reading of the weather means in plain words and a place that is near "
    "the sea has wind from many sides while one in the hills has `snow_depth` to tell of so every "
    "line of it is made from **one reading** and nothing that was measured is left out or said "
    "twice"
)
_CODE: Final = (
    "def reading_{n}(place: str, celsius: float = {n}.5) -> Reading:",
    '    """What was measured at hour {n} of the year."""',
    "    if not place or celsius < -273.15:",
    '        raise ValueError(f"no reading of {{place!r}} at {n}")',
    "    wind = [side * 0.{n} for side in range(4)]  # from the north, clockwise",
    '    return Reading(place, round(celsius, 1), max(wind), sky="cloudy")',
    "",
)


def prose(chunks: int = CHUNKS) -> Iterator[str]:
    """Sentences and paragraphs, one or two words a chunk."""
    words = cycle(_PROSE.split())
    for number in range(1, chunks + 1):
        said = " ".join(islice(words, 1 + number % 2))
        if number % 120 == 0:
            yield f"{said}.\n\n"
        elif number % 12 == 0:
            yield f"{said}. "
        else:
            yield f"{said} "


def fence(lines: int = LINES) -> Iterator[str]:
    """Python in one fence, a few characters a chunk."""
    code = [_CODE[number % len(_CODE)].format(n=number // len(_CODE)) for number in range(lines)]
    text = "\n".join(["Here it is:", "", "```python", *code, "```", ""])
    for at in range(0, len(text), PIECE):
        yield text[at : at + PIECE]


def write(path: Path, chunks: Iterable[str]) -> None:
    """Write a stream."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(chunk)}\n" for chunk in chunks)


def read(path: Path) -> list[str]:
    """The chunks of a stream."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main() -> None:
    wanted = argparse.ArgumentParser(prog="streams", description="Write the standard streams.")
    wanted.add_argument("folder", type=Path)
    wanted.add_argument("--chunks", type=int, default=CHUNKS, help="of prose")
    wanted.add_argument("--lines", type=int, default=LINES, help="of code")
    given = wanted.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    write(given.folder / f"prose-{given.chunks}.jsonl", prose(given.chunks))
    write(given.folder / f"fence-{given.lines}.jsonl", fence(given.lines))


if __name__ == "__main__":
    main()
