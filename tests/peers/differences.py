"""Who meets whom, and what a client then sees otherwise than `facts.expected` has it.

A difference names the pairs for which it holds, what the facts of a step are instead, and why. A
pair for which none is stated sees to the letter what is in `facts.py`. Peers of one version meet
directly or through a bridge, which makes no difference; all others need the bridge.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from tests.peers import facts
from tests.peers.facts import Json, Line, call, replayed, seen
from tests.peers.programs import PEERS

Pair: TypeAlias = tuple[str, str]
"""The names of a client and of an agent."""

PAIRS: list[Pair] = [(client, agent) for client in PEERS for agent in PEERS]

V1, V2 = "ts1 py1 tf1", "ts2 py2 tf2"
SDK_V2 = "ts2 py2"
ANY = f"{V1} {V2}"


class Difference(NamedTuple):
    """For pairs of these clients and agents, `facts` of `step` are other than in `facts.py`.

    A fact is given as it is, or as a function of what it would be.
    """

    because: str
    clients: str
    agents: str
    step: str
    facts: Line

    def holds(self, client: str, agent: str) -> bool:
        return client in self.clients.split() and agent in self.agents.split()

    def applied(self, line: Line) -> Line:
        changed = {
            name: fact(line[name]) if callable(fact) else fact for name, fact in self.facts.items()
        }
        return line | changed


def and_then(update: Json) -> Callable[[list[Json]], list[Json]]:
    """One more update, after the others."""
    return lambda updates: [*updates, update]


# ---- what version 1 agents cannot send, or send otherwise --------------------------------------

NO_TERMINALS = "`tools`: a version 1 agent has no terminals; what its command wrote is text."
NOT_CANCELLED = (
    "`cancel_permission`: a version 1 agent ends a cancelled tool call as `failed`; it has no"
    " `cancelled`."
)
ERROR_OF_PROMPT = (
    "`error`: a version 1 agent fails the prompt itself. It had sent nothing before, so the client"
    " gets the error as the answer to its prompt, not as an idle state."
)
CHUNKS = (
    "`replay`: a version 1 agent replays chunks, not whole messages; each message is announced"
    " with no content before its first chunk."
)

TEXT_INSTEAD = {
    "t2a": call("edit", "completed", "diff"),
    "t2b": call("execute", "completed", "content"),
}
UP = [
    Difference(NO_TERMINALS, V2, V1, "tools", {"calls": TEXT_INSTEAD, "terminals": {}}),
    Difference(
        NOT_CANCELLED, V2, V1, "cancel_permission", {"calls": {"p6": call("execute", "failed")}}
    ),
    Difference(ERROR_OF_PROMPT, V2, V1, "error", {"stop": None}),
    Difference(CHUNKS, V2, V1, "replay", {"updates": replayed(2, 1)}),
]

# ---- what version 1 clients cannot receive, or receive otherwise -------------------------------

TEXT_LATER = (
    "`replay`: a version 2 agent may replay a terminal after the tool call that shows it; a"
    " version 1 client gets the text by one more update of that call."
)
DOWN = [
    Difference(TEXT_LATER, V1, "tf2", "replay", {"updates": and_then(facts.TERMINAL_TEXT)}),
]

# ---- what the peers do otherwise, with or without a bridge -------------------------------------

NO_DELETE = "`close`: Python SDK 0.12.1 has no `session/delete`; the session stays listed."
NO_ERROR = (
    "`error`: Python SDK 1.0.0rc3 has no error in an idle state; the client knows only that the"
    " turn failed."
)
KEEPS_ALL = (
    "`replay`: Twofold's agent also replays thoughts, the plan and the settings, and a message of"
    " version 1 in the pieces in which it was sent."
)
ANSWERED = (
    "`mode`: Twofold's agent sends the new value of a config option of version 1 in its answer, and"
    " no update beside it."
)
NOT_DELETED: Line = {"deleted": None, "ids": ["s1"]}
NO_DETAILS: Line = {"code": None, "message": None}

OF_AGENTS = [
    Difference(NO_DELETE, ANY, "py1", "close", NOT_DELETED),
    Difference(NO_ERROR, V2, "py2", "error", NO_DETAILS),
    Difference(NO_ERROR, V1, "py2", "error", {"message": "The turn ended with an error"}),
    Difference(KEEPS_ALL, V1, "tf1 tf2", "replay", {"updates": replayed(1, 1, everything=True)}),
    Difference(KEEPS_ALL, V2, "tf1", "replay", {"updates": replayed(2, 1, everything=True)}),
    Difference(KEEPS_ALL, V2, "tf2", "replay", {"updates": replayed(2, 2, everything=True)}),
    Difference(ANSWERED, SDK_V2, "tf1", "mode", {"current": None}),
]

IN_V2 = (
    "Twofold's client speaks version 1 and shows version 2: in `stream` the prompt, running and"
    " idle are updates too, an `error` of the prompt is an idle state, and a `replay` has the"
    " update names of version 2."
)
OPTIONS_RECEIVED = (
    "`replay`, `resume`: Twofold's client gets the options of an answer as one more update."
)
WORDS_OF_V2 = {
    "tool_call": "tool_call_update",
    "plan": "plan_update",
    "current_mode_update": None,  # the option that replaces it is sent
}


def in_v2(updates: list[Line]) -> list[Line]:
    named = [{**each, "kind": WORDS_OF_V2.get(each["kind"], each["kind"])} for each in updates]
    return [each for each in named if each["kind"] is not None]


OF_CLIENTS = [
    Difference(NO_DELETE, "py1", ANY, "close", NOT_DELETED),
    Difference(NO_ERROR, "py2", V2, "error", NO_DETAILS),
    Difference(IN_V2, "tf1", ANY, "stream", {"updates": 10}),
    Difference(IN_V2, "tf1", ANY, "error", {"stop": "error"}),
    Difference(IN_V2, "tf1", ANY, "replay", {"updates": in_v2}),
    *(
        Difference(OPTIONS_RECEIVED, "tf1 tf2", ANY, step, {name: and_then(extra)})
        for step, name, extra in [
            ("replay", "updates", seen("config_option_update")),
            ("resume", "kinds", "config_option_update"),
        ]
    ),
]

TRANSLATION = [*UP, *DOWN]
"""What the bridge makes other."""
OF_PEERS = [*OF_AGENTS, *OF_CLIENTS]
"""What is other without it, too."""
DIFFERENCES = [*UP, *OF_AGENTS, *DOWN, *OF_CLIENTS]
"""All of them, in the order in which they apply."""


def expected_of(
    client: str, agent: str, stated: Sequence[Difference] = DIFFERENCES
) -> dict[str, Line]:
    """The report of `client` on each step with `agent`, but for what is left to chance."""
    lines = facts.expected(PEERS[client].version, PEERS[agent].info)
    for difference in stated:
        if difference.holds(client, agent):
            lines[difference.step] = difference.applied(lines[difference.step])
    settled: dict[str, Line] = facts.with_one_tick(lines)
    return settled
