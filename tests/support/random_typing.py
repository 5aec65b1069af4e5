"""Types at random moments into the real client, and checks what became of every key.

A run is one client with the demo agent on a stage. A seeded typist writes words at 5 to 20 keys a
second, with corrections, pastes, Enter and pauses, while questions appear. A model follows the
documented rules, and at the end the record of the conversation must agree with it: the prompts are
what was entered, in order, and the answers are those that the typist gave on purpose.

    python -m tests.support.random_typing --runs 1000 --seed 0 --jobs 4
"""

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.support.plain_client import at_prompt, client, demo
from tests.support.terminal_stage import Stage
from twofold.term.input.editor import REASON_MARK
from twofold.term.input.guard import READ, SILENCE

SCENARIOS: Final = ("showcase", "permission", "slow-permission", "permission-first")
"""Every scenario of the demo agent that asks for permission."""
_WORDS: Final = (
    *("yes", "no", "and", "dry", "run", "deny", "always", "a", "y", "n", "d", "r", "1", "2"),
    *("reject", "try", "another", "way", "now", "really", "data", "12", "ready", "add"),
)
_KINDS: Final = {"y": "allow_once", "n": "reject_once", "esc": "reject_once"}
_ASKED: Final = ("? press Tab to answer", "? press Ctrl-Y to answer", "? waiting for you")
_UNSURE: Final = (0.75 * SILENCE, 1.25 * SILENCE)
"""A gap between two keys that the client may take for a silence or not."""
_LONG_PAUSE: Final = 1.4 * SILENCE
_PATIENCE: Final = 20.0


class Stalled(Exception):
    """The machine was too slow: the typist made a pause that it did not mean to make."""


@dataclass
class Outcome:
    """What one run showed."""

    seed: int
    scenario: str
    keys: int = 0
    questions: int = 0
    prompts: int = 0
    reasons: int = 0
    typed_at_question: int = 0
    """Keys for the prompt that were pressed while a question was on the screen."""
    stalled: bool = False
    violations: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


@dataclass
class Model:
    """The input line and what was entered, by the documented rules."""

    line: str = ""
    cursor: int = 0
    entered: list[str] = field(default_factory=list)
    """What is sent or will be, in order."""
    reasons: set[int] = field(default_factory=set)
    """The places of reasons in `entered`."""
    answers: list[str] = field(default_factory=list)
    burst: bool = False
    """Keys still belong to an answer, so that Enter sends nothing."""

    def insert(self, text: str) -> None:
        self.line = self.line[: self.cursor] + text + self.line[self.cursor :]
        self.cursor += len(text)

    def press(self, key: str) -> None:
        """A key that edits."""
        before, after = self.line[: self.cursor], self.line[self.cursor :]
        row = before[before.rfind("\n") + 1 :]  # left and right stay in their row
        match key:
            case "backspace":
                self.line, self.cursor = before[:-1] + after, max(0, self.cursor - 1)
            case "delete":
                self.line = before + after[1:]
            case "left":
                self.cursor -= bool(row)
            case "right":
                self.cursor += bool(after) and after[0] != "\n"
            case "enter":
                if self.line.strip() and not self.burst:
                    self.entered.append(self.line)
                    self.clear()
            case _:
                self.insert(key)

    def clear(self) -> None:
        self.line, self.cursor = "", 0

    def put(self, line: str) -> None:
        self.line, self.cursor = line, len(line)

    def reject(self, reason: str, sent: int) -> None:
        """A reason goes before everything that is not sent yet, behind earlier reasons."""
        place = sent
        while place in self.reasons:
            place += 1
        self.reasons = {each + (each >= place) for each in self.reasons} | {place}
        self.entered.insert(place, reason)
        self.answers.append("reject_once")


class Record:
    """What the client recorded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _messages(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        rows = self._path.read_text().split("\n")[:-1]  # the last one may be half written
        return [each["message"] for each in map(json.loads, rows) if "message" in each]

    @property
    def prompts(self) -> list[str]:
        sent = [each for each in self._messages() if each.get("method") == "session/prompt"]
        return ["".join(part["text"] for part in each["params"]["prompt"]) for each in sent]

    @property
    def answers(self) -> list[str]:
        """The kind of each option that was chosen."""
        kinds: dict[object, dict[str, str]] = {}
        made = []
        for message in self._messages():
            if message.get("method") == "session/request_permission":
                options = message["params"]["options"]
                kinds[message["id"]] = {each["optionId"]: each["kind"] for each in options}
            outcome = (message.get("result") or {}).get("outcome")
            if outcome is not None:
                chosen = kinds[message["id"]].get(outcome.get("optionId"), outcome["outcome"])
                made.append(chosen)
        return made

    @property
    def questions(self) -> int:
        asked = [each.get("method") for each in self._messages()]
        return asked.count("session/request_permission")


class Typist:
    """One person at one client."""

    def __init__(self, stage: Stage, chance: random.Random, record: Record, out: Outcome) -> None:
        self._stage = stage
        self._chance = chance
        self._record = record
        self._out = out
        self._last = time.monotonic()
        self.model = Model()

    # ---- keys

    def _gap(self, *, unsure: bool = False) -> float:
        now = time.monotonic()
        gap, self._last = now - self._last, now
        if not unsure and _UNSURE[0] <= gap < _UNSURE[1]:
            raise Stalled
        if gap >= SILENCE:
            self.model.burst = False
        return gap

    def _key(self, key: str, *, unsure: bool = False) -> float:
        """Press a key; returns the seconds since the last one."""
        gap = self._gap(unsure=unsure)
        self._stage.press(key)
        self._out.keys += 1
        self._out.log.append(f"{gap:.2f} {key}")
        return gap

    def _type(self, key: str) -> None:
        """A key for the input line, which is pressed soon after the last one."""
        time.sleep(self._chance.uniform(0.05, 0.2))
        self._edit(key)

    def _edit(self, key: str) -> None:
        self._out.typed_at_question += self.asked
        if self._key(key) >= SILENCE and not self.model.line and self._open:
            raise Stalled  # by the rules this key may have answered
        self.model.press(key)

    # ---- what is on the screen

    def _status(self) -> str:
        rows = [row for row in self._stage.screen() if row.startswith("? ")]
        return rows[-1] if rows else ""

    @property
    def asked(self) -> bool:
        return self._status().startswith(_ASKED)

    @property
    def _open(self) -> bool:
        return self._status().startswith("? waiting for you")

    def _wait(self, holds: Callable[[], object], what: str) -> None:
        try:
            self._stage.wait_for(lambda _: holds(), _PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{what}\n{error}") from None

    # ---- actions

    def begin(self) -> None:
        """Send a first prompt."""
        for key in ("g", "o", "enter"):
            self._type(key)

    def act(self) -> None:
        """Do something that a person might do now."""
        chance = self._chance.random()
        if self.asked and chance < 0.25:
            self.answer()
        elif chance < 0.72:
            self._write_word()
        elif chance < 0.80:
            for _ in range(self._chance.randint(1, 4)):
                self._type(self._chance.choice(["left", "right", "backspace", "delete"]))
        elif chance < 0.86:
            self._paste()
        elif chance < 0.95:
            self._type("enter")
        else:
            self._pause()

    def _write_word(self) -> None:
        for letter in self._chance.choice(_WORDS):
            self._type(letter)
        self._type(self._chance.choice(["space", "space", "space", "enter"]).replace("space", " "))

    def _paste(self) -> None:
        time.sleep(self._chance.uniform(0.05, 0.2))
        text = self._chance.choice(["y", "yes\n", "n\ny\n", "a b", "r reject", "1\n2"])
        if self._gap() >= SILENCE and not self.model.line and self._open:
            raise Stalled
        self._stage.paste(text)
        self._out.keys += 1
        self._out.log.append(f"paste {text!r}")
        self.model.insert(text)

    def _pause(self) -> None:
        """A long pause; with an empty line only a key that is no answer may follow it."""
        time.sleep(self._chance.uniform(_LONG_PAUSE, _LONG_PAUSE + 0.5))
        if self.model.line:
            self._edit(self._chance.choice(list("yndar1x")))
        else:
            self._out.typed_at_question += self.asked
            self._key("x")
            self.model.press("x")

    # ---- answers

    def answer(self, key: str = "") -> None:
        """Answer the question on purpose, by the documented rules."""
        if self.model.line or self._chance.random() < 0.6:
            self._open_by_key()
        else:
            self._wait(lambda: self._open, "a silence does not open the question")
            time.sleep(max(0.0, self._last + _LONG_PAUSE - time.monotonic()))
        key = key or self._chance.choice(["y", "y", "n", "esc", "r", "r", "x", "a"])
        if key == "r":
            self._give_reason()
        elif key == "x" or (key == "a" and not self._offers_always()):
            self._key(key, unsure=True)  # no answer of this question
            self.model.press(key)
        elif key == "a":  # any other key goes back
            self._key("a", unsure=True)
            self._wait(lambda: self._shows("a again"), "a is not asked for again")
            time.sleep(self._chance.uniform(0.05, 0.2))
            self._key("n", unsure=True)
        else:
            answered = len(self._record.answers)
            self._key(key, unsure=True)
            self.model.answers.append(_KINDS[key])
            self.model.burst = True
            self._wait_answered(answered, f"{key} does not answer")

    def _wait_answered(self, before: int, what: str) -> None:
        """Wait for one more answer, and until the screen no longer shows its question."""
        self._wait(lambda: len(self._record.answers) > before, what)
        self._wait(lambda: not self._open, "an answered question stays on the screen")

    def _open_by_key(self) -> None:
        time.sleep(READ + 0.15)
        self._key("ctrl-y" if self.model.line else "tab", unsure=True)
        self._wait(lambda: self._open, "a deliberate key does not open the question")
        time.sleep(0.05)

    def _give_reason(self) -> None:
        """Type a reason, and go back or reject with it."""
        self._key("r", unsure=True)
        self._wait(self._mark, "r does not ask for a reason")
        draft, answered, sent = self.model.line, *map(len, (self._record.answers, self._sent))
        self.model.clear()
        self.model.burst = True
        for _ in range(self._chance.randint(1, 3)):
            for letter in f"{self._chance.choice(_WORDS)} ":
                time.sleep(self._chance.uniform(0.05, 0.2))
                self._key(letter)
                self.model.press(letter)
        reason = self.model.line
        if self._chance.random() < 0.3:
            time.sleep(0.1)
            self._key("enter")  # it follows the key at once, and does not count
            time.sleep(0.2)
            assert self._mark(), "an Enter that followed at once ended the reason"
        if self._chance.random() < 0.4:
            time.sleep(0.1)
            self._key("esc")
            self._wait(lambda: not self._mark(), "Esc does not go back")
            assert len(self._record.answers) == answered, "Esc in a reason answered"
            self.model.put("\n".join(filter(None, [draft, reason])))
            return
        time.sleep(_LONG_PAUSE)
        self._key("enter")
        self.model.burst = True
        self.model.reject(reason.strip(), sent)
        self._out.reasons += 1
        self.model.put(draft)
        self._wait_answered(answered, "Enter does not reject")

    @property
    def _sent(self) -> list[str]:
        return self._record.prompts

    def _mark(self) -> bool:
        return self._shows(REASON_MARK.strip())

    def _shows(self, words: str) -> bool:
        return any(row.strip().startswith(words) for row in self._stage.screen())

    def _offers_always(self) -> bool:
        return self._out.scenario != "permission-first"

    # ---- the end

    def finish(self) -> None:
        """Send what is in the line, and answer until everything was sent."""
        time.sleep(_LONG_PAUSE)
        if self.model.line:
            self._key("end")
            self._key("enter")
            self.model.press("enter")
            if self.model.line:  # only blanks, which are not sent
                self._key("ctrl-u")
        deadline = time.monotonic() + 60
        while len(self._sent) < len(self.model.entered) or not at_prompt(self._stage):
            if self.asked:
                self.answer("y")
            assert time.monotonic() < deadline, f"not sent or not ended\n{self._stage.text}"
            time.sleep(0.05)


def run(seed: int, actions: int = 12) -> Outcome:
    """One seeded run with so many actions."""
    chance = random.Random(seed)
    out = Outcome(seed, SCENARIOS[seed % len(SCENARIOS)])
    speed = chance.uniform(15, 60)
    agent = demo("--version", chance.choice("12"), out.scenario, speed=round(speed, 1))
    with tempfile.TemporaryDirectory() as directory:
        record = Record(Path(directory) / "record")
        option = f"--record={Path(directory) / 'record'}"
        with client(option, agent=agent, columns=chance.choice([80, 100, 140])) as stage:
            stage.wait_for(at_prompt)
            typist = Typist(stage, chance, record, out)
            try:
                typist.begin()
                for _ in range(actions):
                    typist.act()
                typist.finish()
            except Stalled:
                out.stalled = True
            except AssertionError as error:
                out.violations.append(str(error))
            if not out.stalled:
                _compare(out, typist.model, record)
            out.questions, out.prompts = record.questions, len(record.prompts)
    return out


def _compare(out: Outcome, model: Model, record: Record) -> None:
    if record.prompts != model.entered:
        out.violations.append(f"prompts: sent {record.prompts}, entered {model.entered}")
    if record.answers != model.answers:
        out.violations.append(f"answers: sent {record.answers}, given {model.answers}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Type at random moments into the client.")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--jobs", type=int, default=4, help="runs at the same time")
    parser.add_argument("--actions", type=int, default=12, help="of the typist in one run")
    given = parser.parse_args(arguments)
    total: Counter[str] = Counter()
    seeds = range(given.seed, given.seed + given.runs)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, mp_context=context) as pool:
        for out in pool.map(partial(run, actions=given.actions), seeds):
            total.update(
                runs=1,
                stalled=out.stalled,
                questions=out.questions,
                prompts=out.prompts,
                reasons=out.reasons,
                keys=out.keys,
                keys_at_a_question=out.typed_at_question,
                violations=bool(out.violations),
            )
            for each in out.violations:
                last = "\n  ".join(out.log[-30:])
                print(f"seed {out.seed} ({out.scenario}): {each}\n  {last}", flush=True)
            if not total["runs"] % 20:
                print(dict(total), flush=True)
    print(dict(total), flush=True)
    return 1 if total["violations"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
