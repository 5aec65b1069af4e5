"""The conversations with one subject: each is a process of its own, started when it is needed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.conformance.schema import Official
from tests.conformance.subjects import Subject
from tests.conformance.talk import Json, Talk
from tests.peers.install import ROOT
from tests.peers.validators import Version

T = TypeVar("T")

CWD = str(ROOT)
"""The directory of the sessions."""

_INFO = {"name": "conformance", "version": "1"}
INTRODUCTIONS: dict[Version, dict[str, Json]] = {
    1: {
        "main": {"protocolVersion": 1, "clientInfo": _INFO, "clientCapabilities": {}},
        "future": {"protocolVersion": 65535, "clientInfo": _INFO, "clientCapabilities": {}},
        "login": {
            "protocolVersion": 1,
            "clientInfo": _INFO,
            "clientCapabilities": {"auth": {"terminal": True}},
        },
    },
    2: {
        "main": {"protocolVersion": 2, "info": _INFO, "capabilities": {}},
        "future": {"protocolVersion": 65535, "info": _INFO, "capabilities": {}},
        "past": {"protocolVersion": 1, "info": _INFO, "capabilities": {}},
        "login": {
            "protocolVersion": 2,
            "info": _INFO,
            "capabilities": {"auth": {"terminal": {}}},
        },
    },
}
"""How the client introduces itself; a conversation of another name begins as `main` does."""

LOGIN: dict[Version, str] = {1: "authenticate", 2: "auth/login"}
LOGOUT: dict[Version, str] = {1: "logout", 2: "auth/logout"}

CAPABILITIES: dict[Version, dict[str, str]] = {
    1: {
        "session/new": "",
        "session/load": "loadSession",
        "session/resume": "sessionCapabilities.resume",
        "session/list": "sessionCapabilities.list",
        "session/close": "sessionCapabilities.close",
        "session/delete": "sessionCapabilities.delete",
        "additional directories": "sessionCapabilities.additionalDirectories",
        "images": "promptCapabilities.image",
        "audio": "promptCapabilities.audio",
        "embedded resources": "promptCapabilities.embeddedContext",
        "logout": "auth.logout",
    },
    2: {
        "session/new": "session",
        "session/resume": "session",
        "session/list": "session",
        "session/close": "session",
        "session/delete": "session.delete",
        "additional directories": "session.additionalDirectories",
        "images": "session.prompt.image",
        "audio": "session.prompt.audio",
        "embedded resources": "session.prompt.embeddedContext",
    },
}
"""Where an agent advertises something."""


class Absent(Exception):
    """The subject does not have what a requirement is about."""


class Visit:
    """All messages to and from one subject."""

    def __init__(self, subject: Subject, official: Official) -> None:
        self.subject = subject
        self.version = subject.version
        self.official = official
        self.talks: dict[str, Talk] = {}
        self._done: dict[Any, tuple[Any, BaseException | None]] = {}

    async def talk(self, name: str = "main") -> Talk:
        """A conversation by its name, after `initialize` and, where sessions need it, a login."""
        if name not in self.talks:
            talk = self.talks[name] = await Talk.start(self.version, self.subject.command)
            words = INTRODUCTIONS[self.version]
            talk.initialized = await talk.ask("initialize", words.get(name, words["main"]))
            if self.subject.login and name not in ("future", "past", "login"):
                await talk.call(LOGIN[self.version], {"methodId": self.logins(talk)[0]})
        return self.talks[name]

    async def once(self, exchange: "Callable[[Visit], Awaitable[T]]") -> T:
        """What came of an exchange; it is done once, however many look at it."""
        if exchange not in self._done:
            try:
                self._done[exchange] = (await exchange(self), None)
            except BaseException as error:
                self._done[exchange] = (None, error)
                raise
        return self.found(exchange)

    def found(self, exchange: "Callable[[Visit], Awaitable[T]]") -> T:
        """What came of an exchange that was done before."""
        value, failed = self._done[exchange]
        if isinstance(failed, Absent):
            raise failed
        assert failed is None, f"what it looks at failed: {failed!r}"
        found: T = value
        return found

    async def new_session(self, talk: Talk, **more: Any) -> str:
        """A session; whatever the agent sends with it has come when this returns."""
        result = await talk.call("session/new", {"cwd": CWD, "mcpServers": [], **more})
        await talk.fence()
        return str(result["sessionId"])

    async def close(self, seconds: float) -> None:
        """End the input of every process; each has some seconds to end."""
        await asyncio.gather(*(talk.close(seconds) for talk in self.talks.values()))

    def kill(self) -> None:
        """End every process at once."""
        for talk in self.talks.values():
            talk.kill()

    # ---- what the subject has

    def capabilities(self, talk: Talk) -> Json:
        """What the agent advertises."""
        result = talk.initialized["result"]
        found: Json = result.get("capabilities" if self.version == 2 else "agentCapabilities") or {}
        return found

    def has(self, talk: Talk, what: str) -> bool:
        """Whether the agent advertises something."""
        value: Any = self.capabilities(talk)
        for key in filter(None, CAPABILITIES[self.version][what].split(".")):
            value = value.get(key) if isinstance(value, dict) else None
        return value is not None and value is not False

    async def having(self, what: str) -> Talk:
        """The main conversation with an agent that advertises something."""
        talk = await self.talk()
        if not self.has(talk, what):
            raise Absent(f"no {what}")
        return talk

    def logins(self, talk: Talk, kind: str = "agent") -> list[str]:
        """The ids of the ways to log in of one type."""
        key = "id" if self.version == 1 else "methodId"
        methods = talk.initialized["result"].get("authMethods") or []
        return [each[key] for each in methods if each.get("type", "agent") == kind]
