"""An agent of ours that wants a login, with what few agents have: `guarded.py [VERSION]`.

There are two ways to log in, one of them in a terminal, and a boolean among its options. It shows
no tool calls and asks for nothing.
"""

import asyncio
import itertools
import sys

import twofold
from tests.conformance.agents.minimal import VERSIONS
from twofold import v2
from twofold.wire.shared import EnvVariable

AUTH_REQUIRED = -32000

LOGINS: list[v2.AuthMethod] = [
    v2.AuthMethodAgent("token", "Token"),
    v2.AuthMethodTerminal(
        "terminal",
        "In a terminal",
        args=["--login"],
        env=[EnvVariable("GUARDED_LOGIN", "1")],
    ),
]
OPTIONS: list[v2.SessionConfigOption] = [
    v2.SessionConfigSelect(
        "model",
        "Model",
        category="model",
        current_value="small",
        options=[
            v2.SessionConfigUngrouped("small", "Small"),
            v2.SessionConfigUngrouped("large", "Large"),
        ],
    ),
    v2.SessionConfigBoolean("polite", "Polite", current_value=True),
]


class Guarded(twofold.Agent):
    """Makes sessions only for those who have logged in."""

    def __init__(self) -> None:
        super().__init__(
            "guarded",
            "1",
            mcp=("stdio", "http"),
            auth_methods=LOGINS,
            protocol_versions=VERSIONS[sys.argv[1]] if len(sys.argv) > 1 else (1, 2),
            new_session_id=self._next,
        )
        self._logged_in = False
        self._numbers = itertools.count(1)
        self.on_prompt(self._answer)
        self.on_new_session(self._prepare)
        self.on_login(self._log_in)
        self.on_logout(self._log_out)

    def _next(self) -> str:
        if not self._logged_in:
            raise twofold.RequestError(AUTH_REQUIRED, "Authentication required")
        return f"guarded-{next(self._numbers)}"

    async def _prepare(self, session: twofold.AgentSession) -> None:
        await session.config_options(OPTIONS)

    async def _log_in(self, method_id: str) -> None:
        self._logged_in = True

    async def _log_out(self) -> None:
        self._logged_in = False

    async def _answer(self, turn: twofold.Turn) -> None:
        message = turn.message()
        await message.append("Hello, ")
        await message.append("you.")
        if turn.text == "slow":
            await asyncio.Event().wait()


if __name__ == "__main__":
    Guarded().run()
