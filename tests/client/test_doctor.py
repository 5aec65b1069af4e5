"""What `twofold doctor` finds out about an agent: real processes, healthy and broken ones."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import PATIENCE, TWOFOLD, asks, until
from tests.support.raw_process import alive, gone, raw_agent
from twofold.client.doctor import STEPS, Checkup, Step, examine, is_fine
from twofold.demo import SCENARIOS

DEMO = [*TWOFOLD, "agent", "--speed", "0"]
SOON = 1.0
"""The timeout of a step for agents that never answer."""
TO_START = 3.0
"""The same for the demo agent, which takes a moment to start on a busy machine."""


def examined(command: list[str], **options: Any) -> dict[str, Step]:
    """The results of an examination, by the names of the steps."""
    reported: list[Step] = []

    async def main() -> list[Step]:
        checkup = Checkup(command=command, **{"timeout": PATIENCE, **options})
        async with asyncio.timeout(2 * PATIENCE):
            return await examine(checkup, reported.append)

    steps = asyncio.run(main())
    assert steps == reported
    assert tuple(step.name for step in steps) == STEPS
    for step in steps:
        wrong = step.outcome in ("warning", "failed")
        assert bool(step.advice) == wrong, step
        assert step.detail
        assert "\n" not in "".join([step.detail, step.advice, *step.lines])
    return {step.name: step for step in steps}


def wrong(steps: dict[str, Step]) -> dict[str, str]:
    """The steps that warn or failed."""
    found = {name: step.outcome for name, step in steps.items()}
    return {name: each for name, each in found.items() if each in ("warning", "failed")}


# ---- healthy agents ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_a_healthy_agent_passes_every_step(version: int, tmp_path: Path) -> None:
    command = [*DEMO, "--version", str(version)]
    steps = examined(command, prompt="/slow", cwd=tmp_path, timeout=TO_START)
    # the scenario ends only when it is cancelled
    assert wrong(steps) == {"prompt": "failed"}
    assert {name for name, step in steps.items() if step.outcome == "skipped"} == set()
    assert steps["initialize"].facts["protocolVersion"] == version
    asked = [(each["asked"], each["answered"]) for each in steps["initialize"].facts["handshakes"]]
    assert asked == ([(2, 2)] if version == 2 else [(2, 1), (1, 1)])
    assert steps["found"].facts["path"] == sys.executable
    assert steps["found"].detail.endswith(f", Python {sys.version.split()[0]}")
    assert steps["cancel"].facts == {"stopReason": "cancelled", "givenUp": False}
    assert steps["list"].facts == {"sessions": 1}
    assert steps["resume"].facts["entries"] > 0
    assert steps["exit"].facts == {"exitCode": 0, "signal": None, "signalsSent": []}
    assert "showcase" in steps["new session"].facts["commands"]
    assert any(
        line.startswith("mode mode: ask (of ask, code)") for line in steps["new session"].lines
    )


def test_without_a_prompt_none_is_sent(tmp_path: Path) -> None:
    steps = examined([*DEMO, "crash"], cwd=tmp_path)  # a prompt would end it
    assert is_fine(list(steps.values()))
    skipped = [name for name, step in steps.items() if step.outcome == "skipped"]
    assert skipped == ["prompt", "cancel"]


def test_an_agent_that_offers_little_is_not_blamed(tmp_path: Path) -> None:
    steps = examined(raw_agent(""), prompt="hi", cwd=tmp_path)
    assert wrong(steps) == {}
    skipped = [name for name, step in steps.items() if step.outcome == "skipped"]
    assert skipped == ["cancel", "list", "close", "resume", "delete"]
    assert "try a longer prompt" in steps["cancel"].detail


# ---- the faults of the demo agent --------------------------------------------------------------

FAULTS: dict[str, dict[str, str]] = {
    "early-update": {"new session": "warning"},
    "silent": {"initialize": "failed"},
    "ignore-cancel": {
        "prompt": "failed",
        "cancel": "failed",
        "close": "failed",
        "delete": "failed",
        "protocol": "warning",
    },
    "noise": {"stdout": "warning"},
    "max-tokens": {"prompt": "warning"},
    "max-turn-requests": {"prompt": "warning"},
    "refusal": {"prompt": "warning"},
    "crash": {"prompt": "failed", "exit": "failed"},
    "auth": {"login": "warning"},
    "error": {"prompt": "failed"},
    # these end when they are cancelled or answered
    "slow": {"prompt": "failed"},
    "after-cancel": {"prompt": "failed"},
}
IMPATIENT = {"silent", "ignore-cancel", "slow", "after-cancel"}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_fault_of_the_demo_agent_is_found_and_nothing_else(
    scenario: str, tmp_path: Path
) -> None:
    timeout = TO_START if scenario in IMPATIENT else PATIENCE
    steps = examined([*DEMO, scenario], prompt="go", cwd=tmp_path, timeout=timeout)
    assert wrong(steps) == FAULTS.get(scenario, {})


def test_a_login_is_done_only_when_its_method_is_named(tmp_path: Path) -> None:
    steps = examined([*DEMO, "auth"], cwd=tmp_path)
    assert steps["login"].detail == "needed; the agent names token (Token)"
    assert "--login" in steps["login"].advice
    assert steps["new session"].outcome == "skipped"
    steps = examined([*DEMO, "auth"], cwd=tmp_path, login="token")
    assert wrong(steps) == {}
    steps = examined([*DEMO, "auth"], cwd=tmp_path, login="nosuch")
    assert steps["login"].outcome == "failed"
    assert "it names token" in steps["login"].detail


def test_no_permission_is_granted(tmp_path: Path) -> None:
    steps = examined(asks(), prompt="go", cwd=tmp_path)
    assert steps["prompt"].facts["permissionsRejected"] == 1
    assert "1 permission request, rejected: nothing is allowed" in steps["prompt"].lines


# ---- commands that are no agents ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "step", "detail", "advice"),
    [
        (["no-such-agent"], "found", "there is no command no-such-agent", "Install it"),
        (["./none"], "found", "there is no file ./none", "Check the path"),
        (["./plain"], "found", "./plain may not be executed", "chmod +x"),
        (["./broken"], "starts", "the interpreter that the first line", "Install it"),
        (["cat"], "initialize", "it is not an agent", "--acp"),
        (["echo", "hi"], "initialize", "ended with exit code 0", "--acp"),
        (["sh", "-c", "exit 3"], "initialize", "ended with exit code 3", "by itself"),
        (["sleep", "60"], "initialize", "no answer within 1 seconds", "--timeout"),
    ],
)
def test_the_report_on_a_command_that_is_no_agent_names_the_failed_step(
    command: list[str],
    step: str,
    detail: str,
    advice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "plain").write_text("x")
    (tmp_path / "broken").write_text("#!/no/such/interpreter\n")
    (tmp_path / "broken").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    steps = examined(command, prompt="go", timeout=SOON if command[0] == "sleep" else PATIENCE)
    assert steps[step].outcome == "failed"
    assert detail in steps[step].detail
    assert advice in steps[step].advice
    after = STEPS[STEPS.index(step) + 1 : STEPS.index("exit")]
    assert all(steps[name].outcome == "skipped" for name in after)


def test_what_a_command_prints_instead_of_messages_is_shown(tmp_path: Path) -> None:
    steps = examined(["echo", "usage: \x1b[2Jtool FILE"], cwd=tmp_path)
    assert steps["initialize"].lines == ["usage: tool FILE"]
    assert steps["stdout"].outcome == "warning"


# ---- agents that are broken --------------------------------------------------------------------

HANGS = """
def initialize(request):
    able = {"loadSession": True, "sessionCapabilities": {"close": {}, "list": {}, "delete": {}}}
    answer(request, {"protocolVersion": 1, "agentCapabilities": able})
real = answer
def answer(request, result):
    if request["method"] != "session/new" or not HANG == "session/new":
        real(request, result)
def fail(request, code, text):
    if request["method"] != HANG:
        real(request, {"sessions": []})
"""


@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("session/new", "new session"),
        ("session/list", "list"),
        ("session/close", "close"),
        ("session/load", "resume"),
        ("session/delete", "delete"),
    ],
)
def test_a_request_without_an_answer_is_the_step_that_fails(
    method: str, step: str, tmp_path: Path
) -> None:
    command = raw_agent(HANGS.replace("HANG", repr(method)))
    steps = examined(command, cwd=tmp_path, timeout=SOON)
    assert wrong(steps) == {step: "failed"}
    assert "1 seconds" in steps[step].detail
    assert steps["exit"].outcome == "ok"


ONLY_1 = """
def initialize(request):
    if request["params"]["protocolVersion"] == 2:
        REFUSE
    answer(request, {"protocolVersion": 1})
"""


@pytest.mark.parametrize(
    ("refuse", "handshake"),
    [
        ("return fail(request, -32602, 'unsupported')", "refused: unsupported"),
        ("sys.exit(9)", "no answer"),
    ],
    ids=["an error", "a crash"],
)
def test_an_agent_that_refuses_to_negotiate_version_1_down_from_2_is_warned_about(
    refuse: str, handshake: str, tmp_path: Path
) -> None:
    steps = examined(raw_agent(ONLY_1.replace("REFUSE", refuse)), cwd=tmp_path)
    assert wrong(steps) == {"initialize": "warning"}
    assert f"asked for version 2, {handshake}; asked for version 1, answered 1" in (
        steps["initialize"].detail
    )


def test_a_version_can_be_demanded(tmp_path: Path) -> None:
    steps = examined(raw_agent(""), cwd=tmp_path, version=2)
    assert wrong(steps) == {"initialize": "failed"}
    assert "The agent speaks version 1" in steps["initialize"].detail


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("import atexit; atexit.register(os._exit, 5)", "exit code 5"),
        ("import atexit; atexit.register(time.sleep, 600)", "ended by SIGTERM after"),
    ],
)
def test_an_agent_that_does_not_exit_as_it_should_is_warned_about(
    script: str, found: str, tmp_path: Path
) -> None:
    steps = examined(raw_agent(script), cwd=tmp_path)
    assert wrong(steps) == {"exit": "warning"}
    assert found in steps["exit"].detail


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="the processes are found in /proc")
@pytest.mark.parametrize(("detached", "kind"), [(False, "inGroup"), (True, "detached")])
def test_what_an_agent_leaves_behind_is_named(detached: bool, kind: str, tmp_path: Path) -> None:
    script = (
        f"subprocess.Popen(['sleep', '600'], start_new_session={detached}, stdout=-3, stderr=-3)"
    )
    steps = examined(raw_agent(script), cwd=tmp_path)
    assert wrong(steps) == {"left behind": "warning"}
    (process,) = steps["left behind"].facts[kind]
    assert process["command"] == "sleep 600"
    assert f"{process['pid']} (sleep 600)" in steps["left behind"].lines[0]
    if detached:
        assert f"kill {process['pid']}" in steps["left behind"].advice
        assert alive(process["pid"])  # it is not ours to end
        os.kill(process["pid"], 9)
    assert gone(process["pid"])


def test_a_broken_update_is_a_problem_of_the_protocol(tmp_path: Path) -> None:
    script = (
        "def prompt(r):\n    update({'sessionUpdate': 'plan', 'entries': 7})\n    update('x')\n"
    )
    script += "    answer(r, {'stopReason': 'end_turn'})"
    steps = examined(raw_agent(script), prompt="go", cwd=tmp_path)
    assert wrong(steps) == {"protocol": "warning"}
    assert any("malformed update" in line for line in steps["protocol"].lines)


def test_the_end_of_standard_error_is_shown_safely(tmp_path: Path) -> None:
    script = "os.write(2, b'first\\n' * 50 + b'\\x1b[31mlast\\x1b[0m\\n')"
    steps = examined(raw_agent(script), cwd=tmp_path)
    assert wrong(steps) == {}
    assert steps["stderr"].lines[-1].strip() == "last"
    assert len(steps["stderr"].lines) < 20


def test_an_examination_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"open({str(file)!r}, 'w').write(str(os.getpid()))\ndef initialize(request): pass"

    async def main() -> None:
        checkup = Checkup(command=raw_agent(script), cwd=tmp_path)
        task = asyncio.create_task(examine(checkup))
        await until(lambda: file.exists() and bool(file.read_text()))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert gone(int(file.read_text()))
