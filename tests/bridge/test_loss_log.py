"""Every loss is counted and reported, each kind once more, and no callback stops the bridge."""

import pytest

from twofold.bridge.loss_log import KINDS, LossLog, LossReporter
from twofold.convert.losses import NotConvertible


def test_every_loss_is_reported_and_each_kind_once_more() -> None:
    first: list[str] = []
    every: list[str] = []
    log = LossLog(
        first=lambda method, path, reason: first.append(path),
        every=lambda method, path, reason: every.append(path),
    )
    reporter = LossReporter(log)
    for index in range(3):
        reporter.losses.report(f"update.content[{index}].text1", "why")
        reporter.flush("session/update")
    reporter.losses.report("update.content[7].text2", "why")
    reporter.refuse("session/update", NotConvertible("update", "why"))
    assert first == ["update.content[0].text1", "update.content[7].text2", "update"]
    assert len(every) == log.count == 5
    assert log.refused == 1
    assert not reporter.losses


def test_the_kinds_that_are_distinguished_are_limited() -> None:
    first: list[str] = []
    log = LossLog(first=lambda method, path, reason: first.append(reason))
    reporter = LossReporter(log)
    for number in range(KINDS + 10):
        reporter.report("x", "path", f"reason {number}")
    assert len(first) == KINDS
    assert log.count == KINDS + 10


def test_a_callback_that_raises_is_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def full(method: str, path: str, reason: str) -> None:
        calls.append(reason)
        raise OSError("no space left on device")

    log = LossLog(first=full, every=full)
    reporter = LossReporter(log)
    reporter.report("x", "a", "one")
    reporter.report("x", "b", "two")
    assert calls == ["one", "one"]
    assert log.count == 2
    assert "no space left" in caplog.text
