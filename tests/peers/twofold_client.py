"""The client of `README.md`, made with Twofold.

    python twofold_client.py 1|2 -- COMMAND ARGS…

By the interpreter that has Twofold. It demands the version of COMMAND and reports what its
`ClientSession` holds: the facts are those of the state, and updates are what a handler receives.
Either is version 2, whatever the agent speaks. What Twofold reports as a problem fails its step.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import twofold
from twofold.wire.shared import PermissionOption

if TYPE_CHECKING:
    from tests.peers import py_sights as sights
    from tests.peers.validators import Version
else:  # a plain script, whose folder is on the path
    import py_sights as sights

Json = dict[str, Any]

STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "10"))
LATE_AFTER = 0.05
MODE_WAITS = 1
CANCEL = "cancel"
"""Instead of a kind of option: cancel the turn."""


def json_of(value: Any) -> Any:
    return json.loads(twofold.encode(value))


def pass_on(data: bytes) -> None:
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


def _texts(reply: twofold.Reply, role: str) -> str:
    messages = [entry for entry in reply.entries if isinstance(entry, twofold.Message)]
    return "".join(message.text for message in messages if message.role == role)


def _calls(reply: twofold.Reply) -> Json:
    return {
        call.tool_call_id: {
            "status": call.status,
            "kind": call.kind,
            "content": [json_of(item)["type"] for item in call.content],
        }
        for call in reply.entries
        if isinstance(call, twofold.ToolCall)
    }


class Script:
    """The steps, by their names, and what Twofold reported meanwhile."""

    def __init__(self, version: "Version", command: list[str], cwd: str, prompts: Json) -> None:
        self._version = version
        self._command = command
        self._cwd = cwd
        self._prompts = prompts
        self._open = contextlib.AsyncExitStack()
        self._client: twofold.Client | None = None
        self._session: twofold.ClientSession | None = None
        self._received = asyncio.Event()
        self.updates: list[Json] = []
        self.questions: list[twofold.Question] = []
        self.problems: list[twofold.Problem] = []
        self.answer: str | None = None
        """The kind of option to answer with, `CANCEL`, or None: reject."""

    # ---- what Twofold reports

    def _update(self, update: Any) -> None:
        self.updates.append(json_of(update))
        self._received.set()

    def _problem(self, problem: twofold.Problem) -> None:
        # what version 1 has no words for in a request of ours is known
        if problem.kind != "loss":
            self.problems.append(problem)

    async def _ask(self, question: twofold.Question) -> PermissionOption | None:
        self.questions.append(question)
        if self.answer == CANCEL:
            await self.session.cancel()
        return question.option(self.answer or "")

    async def _until(self, holds: Callable[[], object]) -> None:
        while not holds():
            self._received.clear()
            await self._received.wait()

    # ---- what the steps need

    def ready_for(self, step: str) -> bool:
        """Whether the steps before it made what it needs."""
        needs = {"initialize": True, "new": self._client is not None}
        return needs.get(step, self._session is not None)

    @property
    def client(self) -> twofold.Client:
        assert self._client is not None
        return self._client

    @property
    def session(self) -> twofold.ClientSession:
        assert self._session is not None
        return self._session

    def _modes(self) -> Json | None:
        return sights.modes({"configOptions": json_of(self.session.state.config_options)})

    async def _prompt(self, step: str, word: str) -> twofold.Reply:
        text = str(self._prompts.get(step, self._prompts.get(word, word)))
        return await self.session.prompt(text)

    def _end_of_turn(self, mark: int) -> int:
        """How many updates there were when the session had run and was idle again."""
        running = False
        for at, update in enumerate(self.updates[mark:], mark + 1):
            running = running or update.get("state") == "running"
            if running and update.get("state") == "idle":
                return at
        return len(self.updates)

    async def _ids(self) -> list[str]:
        return [info.session_id async for info in self.client.list_sessions()]

    async def end(self) -> None:
        await self._open.aclose()

    # ---- the steps

    async def initialize(self) -> Json:
        connection = twofold.connect(
            self._command,
            version=self._version,
            ask=self._ask,
            on_problem=self._problem,
            on_stderr=pass_on,
        )
        client = self._client = await self._open.enter_async_context(connection)
        return {
            "version": client.protocol_version,
            "info": {"name": client.agent.info.name, "version": client.agent.info.version},
            "auth": [json_of(method)["methodId"] for method in client.auth_methods],
        }

    async def new(self) -> Json:
        self._session = await self.client.new_session(self._cwd)
        self.session.on_update(self._update)
        return {"session": self.session.session_id, "modes": self._modes()}

    async def stream(self) -> Json:
        mark = len(self.updates)
        reply = await self._prompt("stream", "stream")
        # what should not come has no event to wait for
        await asyncio.sleep(LATE_AFTER)
        end = self._end_of_turn(mark)
        turn, late = self.updates[mark:end], self.updates[end:]
        return {
            "stop": reply.stop_reason,
            "thoughts": _texts(reply, "thought"),
            "text": _texts(reply, "agent"),
            "updates": len(sights.of_turn(turn)),
            "order_ok": not sights.conversation(late) and sights.starts_with_running(turn),
        }

    async def tools(self) -> Json:
        reply = await self._prompt("tools", "tools")
        state = self.session.state
        facts = {
            "stop": reply.stop_reason,
            "text": _texts(reply, "agent"),
            "calls": _calls(reply),
            "plan": sights.plan(json_of(list(state.plans.values()))),
        }
        terminals = {
            terminal.terminal_id: {
                "output": terminal.output.decode(errors="replace"),
                "exit": terminal.exit_status.exit_code if terminal.exit_status else None,
            }
            for terminal in state.terminals.values()
        }
        return facts if self._version == 1 else {**facts, "terminals": terminals}

    async def allow(self) -> Json:
        return await self._permission("allow", "allow_once")

    async def reject(self) -> Json:
        return await self._permission("reject", "reject_once")

    async def _permission(self, step: str, answer: str) -> Json:
        asked, self.answer = len(self.questions), answer
        reply = await self._prompt(step, "permission")
        question = self.questions[-1] if self.questions[asked:] else None
        return {
            "stop": reply.stop_reason,
            "text": _texts(reply, "agent"),
            "calls": _calls(reply),
            "options": question and [[each.option_id, each.kind] for each in question.options],
            "asked": question and question.request.title,
        }

    async def cancel(self) -> Json:
        mark = len(self.updates)
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(self._prompt("cancel", "slow"))
            spoken = group.create_task(self._until(lambda: sights.text(self.updates[mark:])))
            await asyncio.wait({turn, spoken}, return_when=asyncio.FIRST_COMPLETED)
            spoken.cancel()
            await self.session.cancel()
        reply = turn.result()
        return {"stop": reply.stop_reason, "text": _texts(reply, "agent")}

    async def cancel_permission(self) -> Json:
        self.answer = CANCEL
        reply = await self._prompt("cancel_permission", "slow-permission")
        ended = {"stop": reply.stop_reason, "text": _texts(reply, "agent")}
        return {**ended, "calls": _calls(reply)}

    async def error(self) -> Json:
        try:
            reply = await self._prompt("error", "error")
        except twofold.TurnFailed as failed:
            code, message = (failed.code, failed.message) if failed.error else (None, None)
            return {"code": code, "message": message, "stop": self.session.state.stop_reason}
        except twofold.RequestFailed as failed:
            return {"code": failed.code, "message": failed.message, "stop": None}
        return {"code": None, "message": None, "stop": reply.stop_reason}

    async def mode(self) -> Json:
        mark = len(self.updates)
        await self.session.set_mode("code")
        with contextlib.suppress(TimeoutError):
            news = self._until(lambda: sights.current_mode(self.updates[mark:]))
            await asyncio.wait_for(news, MODE_WAITS)
        return {"current": sights.current_mode(self.updates[mark:])}

    async def list(self) -> Json:
        return {"ids": await self._ids()}

    async def replay(self) -> Json:
        mark = len(self.updates)
        await self.client.load_session(self.session.session_id, self._cwd)
        updates = [sights.replayed(update) for update in self.updates[mark:]]
        return {"updates": updates, "modes": self._modes()}

    async def resume(self) -> Json:
        mark = len(self.updates)
        await self.client.resume_session(self.session.session_id, self._cwd)
        came = self.updates[mark:]
        kinds = [sights.kind(update) for update in came]
        return {"updates": len(sights.conversation(came)), "kinds": kinds}

    async def close(self) -> Json:
        facts: Json = {"closed": None, "deleted": None, "ids": None}
        if self.client.can("close"):
            await self.session.close()
            facts["closed"] = True
        if self.client.can("delete"):
            await self.client.delete_session(self.session.session_id)
            facts["deleted"] = True
        if self.client.can("list"):
            facts["ids"] = await self._ids()
        return facts


SETUP = ("initialize", "new")
TURNS = ("stream", "tools", "allow", "reject", "cancel", "cancel_permission", "error")
STEPS = (*SETUP, *TURNS, "mode", "list", "replay", "resume", "close")


async def take(step: str, script: Script) -> Json:
    """One step, bounded: its facts, and whether it came to its end."""
    if not script.ready_for(step):
        return {"ok": False, "error": "no session"}
    action: Callable[[], Awaitable[Json]] = getattr(script, step)
    script.answer = None
    script.problems.clear()
    try:
        async with asyncio.timeout(STEP_SECONDS):
            facts = await action()
    except TimeoutError:
        return {"ok": False, "error": "timeout"}
    except Exception as error:
        return {"ok": False, "error": reason(error)}
    if script.problems:
        return {"ok": False, "error": "; ".join(map(str, script.problems)), **facts}
    return {"ok": True, **facts}


def reason(error: Exception) -> str:
    if isinstance(error, twofold.NotSupported):
        return "not offered"
    return f"{type(error).__name__}: {error}"


async def main(version: "Version", command: list[str]) -> None:
    """Run the steps, as the environment wants them, and print what was seen."""
    wanted = os.environ.get("STEPS", ",".join(STEPS)).split(",")
    if not set(STEPS).issuperset(wanted):
        raise SystemExit(f"STEPS names no steps: {', '.join(set(wanted).difference(STEPS))}")
    prompts = json.loads(os.environ.get("PROMPTS", "{}"))
    script = Script(version, command, os.environ.get("CWD", os.getcwd()), prompts)
    try:
        for step in STEPS:
            if step in wanted or step in SETUP:
                facts = await take(step, script)
                if step in wanted:
                    print(json.dumps({"step": step, **facts}), flush=True)
    finally:
        await script.end()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["1" | "2" as number, "--", *command] if command:
            asyncio.run(main(1 if number == "1" else 2, command))
        case _:
            raise SystemExit("usage: twofold_client.py 1|2 -- COMMAND ARGS…")
