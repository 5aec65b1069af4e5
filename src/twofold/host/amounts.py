"""Durations and sizes as people write them: `90d`, `30m`, `10G`. Pure."""

from collections.abc import Mapping
from typing import Final

from twofold.errors import LocalError
from twofold.text import one_line

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES: Final = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_MOST: Final = 1e9


class BadAmount(LocalError):
    """A text is no duration, or no size."""

    def __init__(self, text: str, examples: str) -> None:
        super().__init__(f"{one_line(text)!r} is not understood. Write it as in {examples}.")


def parse_duration(text: str) -> float:
    """The seconds of a duration such as `90d`, `12h`, `30m` or `45s`; raises `BadAmount`."""
    return _parse(text, _SECONDS, "90d, 12h, 30m or 45s")


def parse_size(text: str) -> int:
    """The bytes of a size such as `10G`, `500M` or `64K`; raises `BadAmount`."""
    return int(_parse(text, _BYTES, "10G, 500M or 64K"))


def _parse(text: str, units: Mapping[str, int], examples: str) -> float:
    number, unit = text[:-1], units.get(text[-1:].lower())
    if unit is None or not number.replace(".", "", 1).isdecimal() or not number.isascii():
        raise BadAmount(text, examples)
    amount = float(number)
    if not 0 < amount < _MOST:
        raise BadAmount(text, examples)
    return amount * unit
