"""The text of a prompt and the decision in an answer, to compare with the recorded ones."""

from typing import Any, Final

from twofold.rpc.connection import Failure, Response
from twofold.text.safe import one_line
from twofold.wire import codec
from twofold.wire.base import Malformed

FAILED: Final = "\0failed"
"""In the place of a result: the request failed."""
_SHOWN: Final = 60


def result_of(answer: Response | Failure) -> dict[str, Any]:
    """The result of an answer, parsed; `FAILED` is in it if there is none."""
    if isinstance(answer, Failure):
        return {FAILED: True}
    try:
        result = codec.parse(answer.result)
    except Malformed:
        return {FAILED: True}
    return result if isinstance(result, dict) else {}


def decision(method: str, result: dict[str, Any]) -> str:
    """What an answer decides, in words."""
    if FAILED in result:
        return "an error"
    if method == "elicitation/create":
        return short(str(result.get("action")))
    outcome = result.get("outcome")
    if method != "session/request_permission" or not isinstance(outcome, dict):
        return "a result"
    option = outcome.get("optionId")
    return short(option) if isinstance(option, str) else one_line(str(outcome.get("outcome")))


def prompt_text(params: dict[str, Any]) -> str:
    """The text of a prompt."""
    prompt = params.get("prompt")
    blocks = prompt if isinstance(prompt, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "".join([text for text in texts if isinstance(text, str)])


def short(text: str) -> str:
    """The beginning of a text, safe to show."""
    line = one_line(text)
    return repr(line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…")
