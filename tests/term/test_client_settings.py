"""`twofold run NAME` at a terminal: the settings reach the agent, and their rules decide."""

import json
from pathlib import Path

from tests.support.commands import ASKS, RUN_MAKE
from tests.support.plain_client import RUN, leave, say
from tests.support.raw_process import raw_agent
from tests.support.terminal_stage import Stage

SCRIPT = ASKS.replace("START", "0").replace("STOP", "'end_turn'")
SCRIPT = SCRIPT.replace("CALL", repr({"toolCallId": "t", **RUN_MAKE}))
MODES = """
plain = answer
def answer(request, result):
    if request["method"] == "session/new":
        modes = [{"id": each, "name": each} for each in ("ask", "plan")]
        result["modes"] = {"currentModeId": os.environ["MY_MODE"], "availableModes": modes}
    plain(request, result)
"""


def test_an_agent_of_the_settings_is_started_with_its_variables_and_rules(tmp_path: Path) -> None:
    words = json.dumps(raw_agent(f"{MODES}\n{SCRIPT}"))
    file = tmp_path / "settings.toml"
    file.write_text(
        f'[agents.mine]\ncommand = {words}\nenv = {{ MY_MODE = "plan" }}\nmode = "plan"\n'
        '[mcp.web]\nurl = "https://mcp.example"\n'
        '[rules]\nallow = ["execute"]\n',
        encoding="utf-8",
    )
    with Stage([*RUN, "mine"], columns=110, env={"TWOFOLD_SETTINGS": str(file)}) as stage:
        say(stage, "hello", "allow_once")
        assert "An MCP server is left out: raw reaches no MCP servers over HTTP (web)" in stage.text
        leave(stage)


def test_a_mode_that_the_agent_does_not_have_is_an_error_before_any_prompt(tmp_path: Path) -> None:
    words = json.dumps(raw_agent(f"{MODES}\n{SCRIPT}"))
    file = tmp_path / "settings.toml"
    file.write_text(
        f'[agents.mine]\ncommand = {words}\nenv = {{ MY_MODE = "ask" }}\nmode = "safe"\n',
        encoding="utf-8",
    )
    with Stage([*RUN, "mine"], columns=110, env={"TWOFOLD_SETTINGS": str(file)}) as stage:
        assert stage.wait_end() == 2
        assert "The session cannot begin with mode 'safe'" in stage.text
