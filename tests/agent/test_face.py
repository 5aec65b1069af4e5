"""The public face of agents: what completion shows, and what type checkers let through."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import twofold

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)
REFERENCE = {
    name: re.findall(r"`(\w+)`", members)
    for name, members in _ROW.findall(PAGE.split("## Reference")[1])
}


def members(shape: type) -> set[str]:
    return {name for name in dir(shape) if not name.startswith("_")}


@pytest.mark.parametrize("name", REFERENCE)
def test_completion_shows_what_the_page_lists_and_no_more(name: str) -> None:
    assert members(getattr(twofold, name)) == set(REFERENCE[name])


def test_objects_show_what_their_classes_show() -> None:
    assert {name for name in vars(twofold.Agent("x")) if not name.startswith("_")} == set()


@pytest.mark.parametrize("name", [*REFERENCE, "MemoryStore", "DirectoryStore"])
def test_every_public_member_has_a_docstring(name: str) -> None:
    shape = getattr(twofold, name)
    assert shape.__doc__
    for member in members(shape) if name != "Answer" else ():
        assert getattr(shape, member).__doc__, member


GOOD = """
from typing import Any, assert_type
import twofold

agent = twofold.Agent("x", "1", protocol_versions=(1,), keep=twofold.MemoryStore())

@agent.on_prompt
async def answer(turn: twofold.Turn) -> None:
    assert_type(turn.message(), twofold.MessageHandle)
    assert_type(turn.session, twofold.AgentSession)
    async with turn.tool_call("Work") as call:
        assert_type(call, twofold.ToolCallHandle)
        assert_type(await call.terminal(), twofold.TerminalHandle)
    assert_type(await turn.ask("May I?"), twofold.Answer)

@agent.on_prompt
async def refuse(turn: twofold.Turn) -> str | None:
    return "refusal"

@agent.on_new_session
@agent.on_resume_session
@agent.on_close_session
async def prepare(session: twofold.AgentSession) -> None: ...

@agent.on_config_option
async def option_set(session: twofold.AgentSession, config_id: str, value: str | bool) -> None: ...

@agent.on_login
async def log_in(method_id: str) -> None: ...

@agent.on_logout
async def log_out() -> None: ...

@agent.on_request("_x/count")
async def count(params: dict[str, Any]) -> dict[str, int]:
    return {}

@agent.on_notification("_x/seen")
async def seen(params: dict[str, Any]) -> None: ...

class Own:
    async def answer(self, turn: twofold.Turn) -> str:
        return "end_turn"

agent.on_prompt(Own().answer)
"""

BAD = {
    "not async": "@agent.on_prompt\ndef f(turn: twofold.Turn) -> None: ...",
    "no turn": "@agent.on_prompt\nasync def f() -> None: ...",
    "a number for a stop reason": "@agent.on_prompt\nasync def f(turn: twofold.Turn) -> int: ...",
    "another argument": "@agent.on_prompt\nasync def f(session: twofold.AgentSession) -> None: ...",
    "a turn": "@agent.on_new_session\nasync def f(turn: twofold.Turn) -> None: ...",
    "no value": "@agent.on_config_option\n"
    "async def f(session: twofold.AgentSession, config_id: str) -> None: ...",
    "no method": "@agent.on_login\nasync def f() -> None: ...",
    "an argument too many": "@agent.on_logout\nasync def f(method_id: str) -> None: ...",
    "not async either": '@agent.on_request("_x")\ndef f(params: object) -> int: ...',
    "no params": '@agent.on_notification("_x")\nasync def f() -> None: ...',
    "no text": "async def f(turn: twofold.Turn) -> None:\n    await turn.say(123)",
    "a wrong version": 'twofold.Agent("x", protocol_versions=(3,))',
}


def test_mypy_accepts_right_handlers_and_refuses_wrong_ones(tmp_path: Path) -> None:
    good = tmp_path / "good.py"
    good.write_text(GOOD, encoding="utf-8")
    for index, source in enumerate(BAD.values()):
        start = 'import twofold\nagent = twofold.Agent("x")\n'
        (tmp_path / f"bad_{index}.py").write_text(f"{start}{source}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        check=False,
    )
    complaints = [line for line in done.stdout.splitlines() if ": error:" in line]
    files = {Path(line.split(":")[0]).name for line in complaints}
    assert files == {f"bad_{index}.py" for index in range(len(BAD))}, done.stdout + done.stderr


def test_an_agent_keeps_its_sessions_in_the_store_it_is_given(tmp_path: Path) -> None:
    own = twofold.MemoryStore(limit=1)
    assert twofold.Agent("x", keep=own).store is own
    assert isinstance(twofold.Agent("x").store, twofold.MemoryStore)
    kept = twofold.Agent("x", keep=tmp_path / "sessions").store
    assert isinstance(kept, twofold.DirectoryStore)
    assert kept.path == tmp_path / "sessions"
