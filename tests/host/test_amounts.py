"""Durations and sizes as people write them."""

import pytest

from twofold.host.amounts import BadAmount, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("30m", 1800), ("12h", 43200), ("90d", 7_776_000), ("1.5h", 5400), ("1D", 86400)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("64K", 65536), ("500m", 500 << 20), ("10G", 10 << 30), ("0.5T", 1 << 39)]
)
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "d", "90", "0d", "-1d", "1e3d", "nand", "infd", "1 d", "1w", "٣d", "1.2.3h", "9" * 400],
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    for parse in (parse_duration, parse_size):
        with pytest.raises(BadAmount, match="Write it as in"):
            parse(text)
