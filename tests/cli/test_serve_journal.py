"""`twofold serve` keeps its sessions, whatever ends it."""

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest

from tests.cli.test_serve import serving
from tests.support.commands import twofold
from tests.support.host_kills import run


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_that_was_acknowledged_or_shown_as_ended_is_lost_when_the_server_is_killed(
    seed: int, tmp_path: Path
) -> None:
    lost, done = asyncio.run(run(tmp_path, seed, 3))
    assert lost == []
    assert done["kills"] == 3


def test_the_journal_is_where_it_was_asked_for_and_only_the_user_can_read_it(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "kept" / "here.db"
    with serving(tmp_path, "--no-open", "--journal", str(journal)) as server:
        mode = stat.S_IMODE(os.stat(journal).st_mode)
        assert mode == 0o600
        assert server.end(signal.SIGTERM)[0] == 0
    assert not (tmp_path / "state" / "twofold" / "journal").exists()


def test_two_servers_cannot_write_one_journal(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-open") as server:
        env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        result = twofold("serve", "--no-open", "--port", "0", env=env)
        assert result.exit_code == 1
        assert f"process {server.process.pid} writes to it" in result.stderr
        assert "With --journal FILE" in result.stderr
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [("--keep", "90"), ("--keep", "-1d"), ("--idle-after", "soon"), ("--keep-size", "5X")],
)
def test_an_amount_that_is_not_understood_is_wrong_usage(option: str, value: str) -> None:
    result = twofold("serve", option, value)
    assert result.exit_code == 2
    assert "Write it as in" in result.stderr


def test_the_settings_name_the_journal_and_an_option_comes_before_them(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[serve]\njournal = "kept/mine.db"\nidle_after = "1h"\nagents = 2\n')
    env = {"TWOFOLD_SETTINGS": str(file)}
    with serving(tmp_path, "--no-open", env=env):
        assert (tmp_path / "kept" / "mine.db").exists()
    other = tmp_path / "other.db"
    with serving(tmp_path, "--no-open", "--journal", str(other), env=env):
        assert other.exists()
