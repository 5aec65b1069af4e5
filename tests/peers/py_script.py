"""The steps of the Python SDK's clients, in the words of neither version.

The client of `README.md`, once for both versions; `py_client_v1` and `py_client_v2` are
the SDK's part of it. It reports what it saw, one line of JSON per step, and judges nothing.
Run by an interpreter that has the SDK, so it imports nothing of the project.

The SDK handles every notification in a task of its own. The handlers here never wait, so
they run in the order of the wire, and before the answer that followed them.
"""

import asyncio
import contextlib
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acp import RequestError
from acp.connection import StreamDirection

if TYPE_CHECKING:
    from tests.peers import py_sights as sights
else:  # part of a plain script, whose folder is on the path
    import py_sights as sights

Json = dict[str, Any]

STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "10"))
LATE_AFTER = 0.05
HANDLED_WITHIN = 1
MODE_WAITS = 1
CANCEL_WAITS = 1
CANCEL = "cancel"
"""Instead of a kind of option: cancel the turn, and answer cancelled."""


class NotOffered(Exception):
    """The agent does not advertise what a step needs."""


@dataclass
class Ending:
    """How a turn ended, and how many updates had come by then."""

    stop: str | None
    updates: int
    message: str | None = None


class Client(ABC):
    """One connection to an agent with one session, and all that the agent sent in it."""

    version: int

    def __init__(self) -> None:
        self.connection: Any = None
        self.ready = False
        self.session: str | None = None
        self.offers: set[str] = set()
        """Of `load`, `list`, `resume`, `close`, `delete`."""
        self.updates: list[Json] = []
        self.requests: list[Json] = []
        """Permission requests: `title`, `options`, and `at`, the updates before it."""
        self.answer: str | None = None
        """The kind of option to answer with, `CANCEL`, or None: answer cancelled."""
        self.received = 0
        self.refused = 0
        """How many updates of the steps before never came to their handler."""
        self._news = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.connection = conn

    def observe(self, event: Any) -> None:
        """Count the updates on the wire, to find those that the SDK refused."""
        if event.direction is StreamDirection.INCOMING:
            self.received += event.message.get("method") == "session/update"

    def saw(self, update: Json) -> None:
        self.updates.append(update)
        self._news.set()

    async def decide(self, title: str | None, call: Json | None, options: list[Any]) -> str | None:
        """The option to choose; None is cancelled."""
        pairs = [[option.option_id, option.kind] for option in options]
        request = {"title": title, "options": pairs, "at": len(self.updates), "call": call}
        self.requests.append(request)
        self._news.set()
        if self.answer == CANCEL:
            await self.cancel()
        return next((option for option, kind in pairs if kind == self.answer), None)

    async def handled(self) -> None:
        """Wait for the handlers: over HTTP the SDK returns an answer before they have run."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HANDLED_WITHIN):
                await self.until(lambda: len(self.updates) + self.refused >= self.received)

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            self._news.clear()
            await self._news.wait()

    @abstractmethod
    async def initialize(self) -> Json:
        """Initialize, and fill `offers`; the facts of the step."""

    @abstractmethod
    async def new(self, cwd: str) -> Json:
        """A new session, which is `session` from now on; the answer."""

    @abstractmethod
    async def prompt(self, text: str) -> Ending:
        """A whole turn."""

    @abstractmethod
    async def cancel(self) -> None: ...

    @abstractmethod
    async def set_mode(self, mode: str) -> None: ...

    @abstractmethod
    async def list_page(self, cursor: str | None) -> tuple[list[str], str | None]: ...

    @abstractmethod
    async def replay(self, cwd: str) -> Json:
        """Load with replay; the answer."""

    @abstractmethod
    async def resume(self, cwd: str) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def delete(self) -> None: ...


class Script:
    """The steps, by their names."""

    def __init__(self, client: Client, cwd: str, prompts: Json) -> None:
        self._client = client
        self._cwd = cwd
        self._prompts = prompts
        self._modes: Json | None = None

    def _text(self, step: str, word: str) -> str:
        return str(self._prompts.get(step, self._prompts.get(word, word)))

    def _between(self, mark: int, end: int) -> list[Json]:
        """The updates of a turn, the tool calls of its permission requests among them."""
        updates = self._client.updates[mark:end]
        for request in reversed(self._client.requests):
            if mark <= request["at"] <= end and request["call"]:
                asked = {"sessionUpdate": "tool_call_update", **request["call"]}
                updates.insert(request["at"] - mark, asked)
        return updates

    def _need(self, *offers: str) -> None:
        if not self._client.offers.issuperset(offers):
            raise NotOffered

    async def initialize(self) -> Json:
        facts = await self._client.initialize()
        wanted, answered = self._client.version, facts["version"]
        if answered != wanted:
            raise RuntimeError(f"asked for version {wanted}, the agent answered {answered}")
        self._client.ready = True
        return facts

    async def new(self) -> Json:
        self._modes = sights.modes(await self._client.new(self._cwd))
        return {"session": self._client.session, "modes": self._modes}

    async def stream(self) -> Json:
        client, mark = self._client, len(self._client.updates)
        ending = await client.prompt(self._text("stream", "stream"))
        # what should not come has no event to wait for
        await asyncio.sleep(LATE_AFTER)
        turn, late = client.updates[mark : ending.updates], client.updates[ending.updates :]
        return {
            "stop": ending.stop,
            "thoughts": sights.text(turn, "agent_thought"),
            "text": sights.text(turn),
            "updates": len(sights.of_turn(turn)),
            "order_ok": not sights.conversation(late)
            and (client.version == 1 or sights.starts_with_running(turn)),
        }

    async def large(self) -> Json:
        mark = len(self._client.updates)
        ending = await self._client.prompt("x" * LARGE)
        turn = self._between(mark, ending.updates)
        return {"stop": ending.stop, "length": len(sights.text(turn))}

    async def tools(self) -> Json:
        mark = len(self._client.updates)
        ending = await self._client.prompt(self._text("tools", "tools"))
        turn = self._between(mark, ending.updates)
        facts: Json = {
            "stop": ending.stop,
            "text": sights.text(turn),
            "calls": sights.calls(turn),
            "plan": sights.plan(turn),
        }
        return (
            {**facts, "terminals": sights.terminals(turn)} if self._client.version == 2 else facts
        )

    async def allow(self) -> Json:
        return await self._permission("allow", "allow_once")

    async def reject(self) -> Json:
        return await self._permission("reject", "reject_once")

    async def _permission(self, step: str, answer: str) -> Json:
        mark, asked = len(self._client.updates), len(self._client.requests)
        self._client.answer = answer
        ending = await self._client.prompt(self._text(step, "permission"))
        turn = self._between(mark, ending.updates)
        requests = self._client.requests[asked:]
        return {
            "stop": ending.stop,
            "text": sights.text(turn),
            "calls": sights.calls(turn),
            "options": requests[-1]["options"] if requests else None,
            "asked": requests[-1]["title"] if requests else None,
        }

    async def cancel(self) -> Json:
        client, mark = self._client, len(self._client.updates)
        turn = asyncio.create_task(client.prompt(self._text("cancel", "slow")))
        spoken = asyncio.create_task(client.until(lambda: sights.text(client.updates[mark:])))
        try:
            await asyncio.wait({turn, spoken}, return_when=asyncio.FIRST_COMPLETED)
            await client.cancel()
            ending = await turn
        finally:
            turn.cancel()
            spoken.cancel()
        text = sights.text(client.updates[mark : ending.updates])
        return {"stop": ending.stop, "text": text}

    async def cancel_permission(self) -> Json:
        mark = len(self._client.updates)
        self._client.answer = CANCEL
        ending = await self._client.prompt(self._text("cancel_permission", "slow-permission"))
        turn = self._between(mark, ending.updates)
        return {"stop": ending.stop, "text": sights.text(turn), "calls": sights.calls(turn)}

    async def error(self) -> Json:
        try:
            ending = await self._client.prompt(self._text("error", "error"))
        except RequestError as error:
            return {"code": error.code, "message": str(error), "stop": None}
        return {"code": None, "message": ending.message, "stop": ending.stop}

    async def mode(self) -> Json:
        client, mark = self._client, len(self._client.updates)
        if self._modes is None:
            raise NotOffered
        await client.set_mode("code")
        with contextlib.suppress(TimeoutError):
            news = client.until(lambda: sights.current_mode(client.updates[mark:]))
            await asyncio.wait_for(news, MODE_WAITS)
        return {"current": sights.current_mode(client.updates[mark:])}

    async def list(self) -> Json:
        self._need("list")
        return {"ids": await self._ids()}

    async def _ids(self) -> Any:
        ids, cursor = await self._client.list_page(None)
        while cursor is not None:
            more, cursor = await self._client.list_page(cursor)
            ids += more
        return ids

    async def replay(self) -> Json:
        self._need("load")
        mark = len(self._client.updates)
        answer = await self._client.replay(self._cwd)
        await self._client.handled()
        updates = [sights.replayed(update) for update in self._client.updates[mark:]]
        return {"updates": updates, "modes": sights.modes(answer)}

    async def resume(self) -> Json:
        self._need("resume")
        mark = len(self._client.updates)
        await self._client.resume(self._cwd)
        await self._client.handled()
        came = self._client.updates[mark:]
        kinds = [sights.kind(update) for update in came]
        return {"updates": len(sights.conversation(came)), "kinds": kinds}

    async def close(self) -> Json:
        offers = self._client.offers
        facts: Json = {"closed": None, "deleted": None, "ids": None}
        if "close" in offers:
            await self._client.close()
            facts["closed"] = True
        if "delete" in offers:
            await self._client.delete()
            facts["deleted"] = True
        if "list" in offers:
            facts["ids"] = await self._ids()
        return facts


SETUP = ("initialize", "new")
TURNS = ("stream", "tools", "allow", "reject", "cancel", "cancel_permission", "error")
STEPS = (*SETUP, *TURNS, "mode", "list", "replay", "resume", "close")
ON_REQUEST = ("large",)
LARGE = 20_000_000


async def run(client: Client) -> None:
    """Run the steps, as the environment wants them, and print what was seen."""
    wanted = os.environ.get("STEPS", ",".join(STEPS)).split(",")
    known = (*STEPS, *ON_REQUEST)
    if not set(known).issuperset(wanted):
        raise SystemExit(f"STEPS names no steps: {', '.join(set(wanted).difference(known))}")
    prompts = json.loads(os.environ.get("PROMPTS", "{}"))
    script = Script(client, os.environ.get("CWD", os.getcwd()), prompts)
    for step in known:
        if step in wanted or step in SETUP:
            facts = await take(step, getattr(script, step), client)
            if step in wanted:
                print(json.dumps({"step": step, **facts}), flush=True)


async def take(step: str, action: Callable[[], Awaitable[Json]], client: Client) -> Json:
    """One step, bounded: its facts, and whether it came to its end."""
    if not {"initialize": True, "new": client.ready}.get(step, client.session is not None):
        return {"ok": False, "error": "no session"}
    client.answer = None
    try:
        async with asyncio.timeout(STEP_SECONDS):
            facts = await action()
    except TimeoutError:
        if client.session is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.cancel(), CANCEL_WAITS)
        await refused_now(client)
        return {"ok": False, "error": "timeout"}
    except Exception as error:
        await refused_now(client)
        return {"ok": False, "error": reason(error)}
    count = await refused_now(client)
    if count:
        noun = "update" if count == 1 else "updates"
        return {"ok": False, "error": f"the SDK refused {count} {noun}", **facts}
    return {"ok": True, **facts}


async def refused_now(client: Client) -> int:
    """How many updates the SDK refused since this was asked last."""
    # one that is still on its way to its handler is not refused
    handled = client.until(lambda: len(client.updates) + client.refused == client.received)
    try:
        await asyncio.wait_for(handled, HANDLED_WITHIN)
    except TimeoutError:
        before, client.refused = client.refused, client.received - len(client.updates)
        return client.refused - before
    return 0


def reason(error: Exception) -> str:
    match error:
        case NotOffered():
            return "not offered"
        case RequestError():
            return f"{error} ({error.code})"
        case _:
            return f"{type(error).__name__}: {error}"


async def remote_transport(url: str) -> Any:
    """The SDK's transport to an agent at a URL, with the token in the environment."""
    headers = {"Authorization": f"Bearer {os.environ['ACP_TOKEN']}"}
    if url.startswith("ws:"):
        from acp.ws.client import create_websocket_stream

        return await create_websocket_stream(url, headers=headers)
    from acp.http.client import create_http_stream

    return create_http_stream(url, headers=headers)


def is_url(command: list[str]) -> bool:
    """Whether a command line is the address of an agent instead."""
    return command[0].startswith(("ws:", "http:"))


def agent_command() -> list[str]:
    """The command line after `--`."""
    if sys.argv[1:2] != ["--"] or not sys.argv[2:]:
        raise SystemExit(f"usage: {os.path.basename(sys.argv[0])} -- COMMAND ARGS…")
    return sys.argv[2:]
