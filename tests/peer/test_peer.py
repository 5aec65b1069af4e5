"""One end of a conversation: requests both ways, errors, ends, and a peer that does not read."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.scripted import HandTransport, Json, line
from tests.support.simulated import leaves_nothing, now, simulate, turns
from twofold.errors import (
    BadAnswer,
    ConnectionClosed,
    ConnectionEnded,
    LocalError,
    NoAnswer,
    PeerError,
)
from twofold.peer import answering
from twofold.peer.inbox import Inbox
from twofold.peer.peer import FLUSH, Peer
from twofold.peer.problems import Problem
from twofold.rpc.connection import Notification, Request
from twofold.rpc.errors import RequestError, RequestFailed
from twofold.transport.base import HIGH_WATER
from twofold.transport.memory import MemoryTransport, memory_pair
from twofold.wire import v2
from twofold.wire.base import Malformed


class Listening:
    """A listener that serves every request with one handler, or refuses it with `refusal`."""

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.answer: Callable[[Request], Awaitable[Any]] = self._echo
        self.refusal: RequestError | None = None
        self.received: list[Any] = []
        self.ends: list[Exception | None] = []

    async def _echo(self, request: Request) -> Any:
        return json.loads(request.params) if request.params else {}

    def never_answer(self) -> list[str]:
        """Let every request wait for its end; the methods of those that were stopped."""
        stopped: list[str] = []

        async def wait(request: Request) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(request.method)

        self.answer = wait
        return stopped

    def updated(self, update: Any, size: int) -> None:
        self.received.append((update, size))

    def requested(self, request: Request) -> None:
        assert self.peer is not None
        if self.refusal is None:
            self.peer.serve(request, self.answer)
        else:
            self.peer.refuse(request, self.refusal)

    def notified(self, notification: Notification) -> None:
        self.received.append(notification.method)

    def ended(self, error: Exception | None) -> None:
        self.ends.append(error)


class Ends:
    """A peer, who listens to it, and the other end of its transport."""

    def __init__(self, **options: Any) -> None:
        self.problems: list[Problem] = []
        self.listener = Listening()
        self.wire = HandTransport()
        options = {"report": self.problems.append, **options}
        self.peer = Peer(self.wire, self.listener, who="agent", **options)
        self.listener.peer = self.peer
        self.peer.start()

    def send(self, *messages: Json) -> None:
        self.wire.deliver(b"".join(line(message) for message in messages))

    async def requesting(self) -> asyncio.Task[Any]:
        """A request of ours that has been sent."""
        asking = asyncio.create_task(self.peer.request("m"))
        await turns()
        return asking

    async def asked(self, method: str) -> Json:
        """What we were asked, as the other side sees it."""
        await self.wire.until(lambda: method in [each.get("method") for each in self.wire.written])
        return next(each for each in self.wire.written if each.get("method") == method)

    async def answers(self, count: int = 1) -> list[Json]:
        """What we answered."""

        def found() -> list[Json]:
            return [each for each in self.wire.written if "method" not in each]

        await self.wire.until(lambda: len(found()) >= count)
        return found()

    def reads(self) -> bool:
        return not self.wire.paused

    @property
    def kinds(self) -> list[str]:
        return [problem.kind for problem in self.problems]


@asynccontextmanager
async def ends(**options: Any) -> AsyncIterator[Ends]:
    made = Ends(**options)
    yield made
    await made.peer.close()


# ---- what we ask


@pytest.mark.parametrize("as_text", [False, True], ids=["integer", "string"])
@leaves_nothing
async def test_an_answer_finds_its_request(as_text: bool) -> None:
    async with ends() as end:
        asking = [asyncio.create_task(end.peer.request("m", [index])) for index in range(3)]
        await end.wire.until(lambda: len(end.wire.written) == 3)
        for sent in reversed(end.wire.written):
            identity = str(sent["id"]) if as_text else sent["id"]
            end.send({"id": identity, "result": sent["params"]})
        assert await asyncio.gather(*asking) == [[0], [1], [2]]
        assert end.problems == []


@leaves_nothing
async def test_a_result_is_read_in_its_shape() -> None:
    async with ends() as end:
        made = asyncio.create_task(end.peer.request("m", None, v2.NewSessionResponse))
        await turns()
        end.send({"id": 1, "result": {"sessionId": "s"}})
        assert await made == v2.NewSessionResponse("s")
        empty = asyncio.create_task(end.peer.request("m", None, v2.Empty))
        await turns()
        end.send({"id": 2, "result": None})  # many agents answer null where a result is empty
        assert await empty == v2.Empty()


@leaves_nothing
async def test_a_result_of_another_shape_is_an_error() -> None:
    async with ends() as end:
        made = asyncio.create_task(end.peer.request("session/new", None, v2.NewSessionResponse))
        await turns()
        end.send({"id": 1, "result": {"sessionId": 5}})
        with pytest.raises(BadAnswer, match="session/new") as caught:
            await made
        assert caught.value.method == "session/new"


ERRORS: list[tuple[Any, int, str]] = [
    ({"code": -32000, "message": "Log in"}, -32000, "m failed: Log in (-32000)"),
    ({"code": 5, "message": "no", "data": "why"}, 5, "m failed: no (5): why"),
    ({"code": 5, "message": "no", "data": {"details": "why"}}, 5, "m failed: no (5): why"),
    (
        {"code": 5, "message": "no", "data": {"error": {"message": "why"}}},
        5,
        "m failed: no (5): why",
    ),
    ({"code": 5, "message": "no", "data": [1]}, 5, "m failed: no (5)"),
    (
        {"message": "no code"},
        -32600,
        'm failed: the peer sent a malformed error (-32600): {"message": "no',
    ),
    ({"code": "x", "message": 5}, -32600, "m failed: the peer sent a malformed error (-32600)"),
    ("text", -32600, 'm failed: the peer sent a malformed error (-32600): "text"'),
    (None, -32600, "m failed: the peer sent a malformed error (-32600): null"),
    ([], -32600, "m failed: the peer sent a malformed error (-32600): []"),
    ({}, -32600, "m failed: the peer sent a malformed error (-32600): {}"),
]


@pytest.mark.parametrize(("error", "code", "text"), ERRORS)
@leaves_nothing
async def test_an_error_reaches_the_sender_of_the_request_however_malformed(
    error: Any, code: int, text: str
) -> None:
    async with ends() as end:
        asking = await end.requesting()
        end.send({"id": 1, "error": error})
        with pytest.raises(RequestFailed) as caught:
            await asking
        assert caught.value.code == code
        assert str(caught.value).startswith(text)
        assert isinstance(caught.value, PeerError)


def deep(levels: int) -> Any:
    nested: Any = "why"
    for _ in range(levels):
        nested = {"details": nested}
    return nested


@leaves_nothing
async def test_an_error_of_any_depth_reaches_the_sender_of_the_request() -> None:
    async with ends() as end:
        asking = await end.requesting()
        data = b'{"details":' * 50_000 + b"1" + b"}" * 50_000
        error = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no","data":%b}}\n'
        end.wire.deliver(error % data)
        with pytest.raises(PeerError):
            await asking
        again = await end.requesting()
        end.send({"id": 2, "error": {"code": 1, "message": "no", "data": deep(50)}})
        with pytest.raises(RequestFailed):
            await again


UNWANTED: list[Json] = [
    {"id": 99, "result": 1},
    {"id": "x", "result": 1},
    {"id": "9" * 5000, "result": 1},
    {"id": None, "error": {"code": -32700, "message": "Parse error"}},
    {"id": 99, "error": None},
]


@pytest.mark.parametrize("answer", UNWANTED)
@leaves_nothing
async def test_an_answer_without_a_pending_request_is_reported(answer: Json) -> None:
    async with ends() as end:
        asking = await end.requesting()
        end.send(answer, {"id": 1, "result": "fine"})
        assert await asking == "fine"
        assert end.kinds == ["answer"]
        if isinstance(answer.get("error"), dict):
            assert "Parse error" in str(end.problems[0])


@leaves_nothing
async def test_a_second_answer_to_one_request_changes_nothing() -> None:
    async with ends() as end:
        asking = await end.requesting()
        end.send({"id": 1, "result": "first"}, {"id": 1, "error": {}})
        assert await asking == "first"
        assert end.kinds == ["answer"]


@leaves_nothing
async def test_unreadable_answers_fail_their_requests() -> None:
    unreadable = [
        b'{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}\n',
        b'{"jsonrpc":"2.0","id":2}\n',
        b'{"jsonrpc":"2.0","id":3,"result":"%b"}\n' % (b"x" * 3000),
        b'{"jsonrpc":"2.0","id":4,"result":"\xff"}\n',
        b'{"jsonrpc":"2.0","id":5.0,"result":"fine"}\n',
    ]
    async with ends(line_limit=2000) as end:
        asking = [asyncio.create_task(end.peer.request("m")) for _ in unreadable]
        await turns()
        for each in unreadable:
            end.wire.deliver(each)
        *failed, fine = await asyncio.gather(*asking, return_exceptions=True)
        assert fine == "fine"
        assert all(isinstance(error, PeerError) for error in failed)


@leaves_nothing
async def test_params_that_cannot_be_written_leave_nothing_behind() -> None:
    async with ends() as end:
        with pytest.raises(TypeError):
            await end.peer.request("m", object())
        asking = await end.requesting()
        end.send({"id": end.wire.written[0]["id"], "result": 1})
        assert await asking == 1


# ---- giving up


@leaves_nothing
async def test_no_answer_in_time_is_an_error_and_the_peer_is_notified() -> None:
    async with ends() as end:
        with pytest.raises(NoAnswer, match="did not answer m within 5 seconds"):
            await end.peer.request("m", within=5)
        assert now() == 5
        cancel = await end.asked("$/cancel_request")
        assert cancel["params"] == {"requestId": 1}


@leaves_nothing
async def test_cancelling_the_task_of_a_request_notifies_the_peer() -> None:
    async with ends() as end:
        asking = asyncio.create_task(end.peer.request("m"))
        await end.asked("m")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await end.asked("$/cancel_request"))["params"] == {"requestId": 1}


@leaves_nothing
async def test_a_late_answer_to_what_was_given_up_is_no_news() -> None:
    async with ends() as end:
        for _ in range(2):
            with pytest.raises(NoAnswer):
                await end.peer.request("m", within=1)
        end.send({"id": 1, "error": {"code": -32800, "message": "Request cancelled"}})
        end.send({"id": "2", "result": {}})
        assert end.problems == []
        end.send({"id": 1, "result": {}})
        assert end.kinds == ["answer"]


@leaves_nothing
async def test_an_answer_that_came_is_not_withdrawn() -> None:
    async with ends() as end:
        asking = asyncio.create_task(end.peer.request("m"))
        await end.asked("m")
        end.send({"id": 1, "result": {}})
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await turns()
        assert [each["method"] for each in end.wire.written] == ["m"]


# ---- answers in their place


@leaves_nothing
async def test_an_answer_waits_for_what_came_before_it_in_its_inbox() -> None:
    async with ends() as end:
        inbox = Inbox("s", end.problems.append)
        order: list[str] = []

        async def slow(item: str) -> None:
            await asyncio.sleep(3)
            order.append(item)

        asking = asyncio.create_task(end.peer.request("m", arrived=lambda _: inbox))
        asking.add_done_callback(lambda _: order.append("answer"))
        await turns()
        inbox.put(slow, "update")
        end.send({"id": 1, "result": 1})
        await turns()
        assert not asking.done()
        inbox.put(slow, "later update")
        assert await asking == 1
        assert order == ["update", "answer"]
        await asyncio.sleep(5)


@leaves_nothing
async def test_a_handler_that_asks_does_not_wait_for_itself() -> None:
    async with ends() as end:
        inbox = Inbox("s", end.problems.append)
        answers: list[Any] = []

        async def ask(item: Any) -> None:
            answers.append(await end.peer.request("m", arrived=lambda _: inbox))
            within = asyncio.wait_for(end.peer.request("n", arrived=lambda _: inbox), 5)
            answers.append(await within)

        inbox.put(ask, None)
        await end.asked("m")
        end.send({"id": 1, "result": 1})
        await end.asked("n")
        end.send({"id": 2, "result": 2})
        await turns()
        assert answers == [1, 2]
        assert now() == 0


@leaves_nothing
async def test_what_a_handler_left_running_waits_like_everybody_else() -> None:
    async with ends() as end:
        inbox = Inbox("s", end.problems.append)
        tasks: list[asyncio.Task[Any]] = []
        order: list[str] = []

        async def start(item: Any) -> None:
            tasks.append(asyncio.create_task(end.peer.request("m", arrived=lambda _: inbox)))
            tasks[0].add_done_callback(lambda _: order.append("answer"))
            await asyncio.sleep(0)

        async def slow(item: str) -> None:
            await asyncio.sleep(3)
            order.append(item)

        inbox.put(start, None)
        await end.asked("m")
        inbox.put(slow, "update")
        await turns()
        end.send({"id": 1, "result": 1})
        await tasks[0]
        assert order == ["update", "answer"]


@leaves_nothing
async def test_the_first_reader_of_an_answer_may_fail() -> None:
    async with ends() as end:

        def fail(outcome: Any) -> Inbox | None:
            raise ValueError("cannot look")

        asking = asyncio.create_task(end.peer.request("m", arrived=fail))
        other = asyncio.create_task(end.peer.request("m", arrived=fail))
        third = await end.requesting()
        end.send({"id": 1, "result": 1})
        with pytest.raises(ValueError, match="cannot look"):
            await asking
        assert end.kinds == ["handler"]
        end.wire.end()
        with pytest.raises(ValueError, match="cannot look"):
            await other
        with pytest.raises(ConnectionEnded):
            await third


# ---- what we are asked


@leaves_nothing
async def test_a_request_is_answered_with_what_its_handler_returns() -> None:
    async with ends() as end:
        end.send(
            {"id": 1, "method": "m", "params": {"x": 1}},
            {"id": "a", "method": "m", "params": [2]},
            {"id": 1.0, "method": "m"},
        )
        assert await end.answers(3) == [
            {"jsonrpc": "2.0", "id": 1, "result": {"x": 1}},
            {"jsonrpc": "2.0", "id": "a", "result": [2]},
            {"jsonrpc": "2.0", "id": 1, "result": {}},
        ]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


REFUSALS: list[tuple[Exception, Json]] = [
    (ValueError("the password is 1234"), {"code": -32603, "message": "Internal error"}),
    (Unspeakable(), {"code": -32603, "message": "Internal error"}),
    (
        Malformed("a.b", "must be a string"),
        {
            "code": -32602,
            "message": "Invalid params",
            "data": {"reason": "must be a string (at a.b)"},
        },
    ),
    (
        RequestError(-32002, "No such file", {"path": "/x"}),
        {"code": -32002, "message": "No such file", "data": {"path": "/x"}},
    ),
    (RequestError(7, "no", "\ud800"), {"code": 7, "message": "no", "data": "\ud800"}),
    (RequestError(7, "no", object()), {"code": -32603, "message": "Internal error"}),
]


@pytest.mark.parametrize(("error", "sent"), REFUSALS)
@leaves_nothing
async def test_of_an_error_only_what_is_meant_for_the_peer_is_sent(
    error: Exception, sent: Json
) -> None:
    async with ends() as end:

        async def fail(request: Request) -> Any:
            raise error

        end.listener.answer = fail
        end.send({"id": 1, "method": "m"})
        (answer,) = await end.answers()
        assert answer == {"jsonrpc": "2.0", "id": 1, "error": sent}
        unexpected = sent["code"] == -32603
        assert end.kinds == (["handler"] if unexpected else [])


@leaves_nothing
async def test_a_result_that_cannot_be_written_is_an_internal_error() -> None:
    async with ends() as end:

        async def odd(request: Request) -> Any:
            return object()

        end.listener.answer = odd
        end.send({"id": 1, "method": "m"})
        (answer,) = await end.answers()
        assert answer["error"] == {"code": -32603, "message": "Internal error"}


@leaves_nothing
async def test_a_request_is_answered_even_if_the_listener_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ends() as end:

        def fail(request: Request) -> None:
            raise KeyError("secret")

        monkeypatch.setattr(end.listener, "requested", fail)
        end.send({"id": 1, "method": "m"})
        (answer,) = await end.answers()
        assert answer["error"] == {"code": -32603, "message": "Internal error"}
        assert end.kinds == ["handler"]


@leaves_nothing
async def test_an_id_that_is_used_twice_at_once_is_answered_twice() -> None:
    async with ends() as end:
        go_on = asyncio.Event()

        async def wait(request: Request) -> Any:
            await go_on.wait()
            return json.loads(request.params)

        end.listener.answer = wait
        end.send({"id": 1, "method": "m", "params": 1}, {"id": 1, "method": "m", "params": 2})
        await turns()
        go_on.set()
        assert [each["result"] for each in await end.answers(2)] == [1, 2]


@leaves_nothing
async def test_messages_that_make_no_sense_are_refused_and_reported() -> None:
    async with ends() as end:
        end.wire.deliver(b"hello\n[]\n" + line({"id": 3, "method": 5}) + b"\xff\n")
        (answer,) = await end.answers()
        assert (answer["id"], answer["error"]["code"]) == (3, -32600)
        assert end.kinds == ["noise"] * 4


# ---- requests that are withdrawn


def withdraw(identity: Any) -> Json:
    return {"method": "$/cancel_request", "params": {"requestId": identity}}


CANCELLED = {"code": -32800, "message": "Request cancelled"}


@pytest.mark.parametrize("late", [False, True], ids=["at once", "while it is worked on"])
@pytest.mark.parametrize(("asked", "named"), [(1, 1), ("1", 1), (1, "1"), ("a", "a")])
@leaves_nothing
async def test_a_withdrawn_request_is_stopped_and_answered(
    asked: Any, named: Any, late: bool
) -> None:
    async with ends() as end:
        stopped = end.listener.never_answer()
        if late:
            end.send({"id": asked, "method": "m"})
            await turns()
            end.send(withdraw(named))
        else:
            end.send({"id": asked, "method": "m"}, withdraw(named))
        (answer,) = await end.answers()
        assert (answer["id"], answer["error"]) == (asked, CANCELLED)
        assert stopped == ["m"]  # the handler always gets to clean up


@leaves_nothing
async def test_a_request_is_withdrawn_before_anyone_works_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ends() as end:
        waiting: list[Request] = []
        begun: list[Request] = []
        monkeypatch.setattr(end.listener, "requested", waiting.append)

        async def wait(request: Request) -> Any:
            begun.append(request)
            await asyncio.Event().wait()

        end.send({"id": 1, "method": "m"}, withdraw(1))
        await turns()
        assert end.wire.written == []
        end.peer.serve(waiting[0], wait)  # an inbox got to it
        (answer,) = await end.answers()
        assert answer["error"] == CANCELLED
        assert begun == waiting


@leaves_nothing
async def test_a_handler_may_answer_all_the_same() -> None:
    async with ends() as end:

        async def insist(request: Request) -> Any:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "all the same"

        end.listener.answer = insist
        end.send({"id": 1, "method": "m"}, withdraw(1))
        (answer,) = await end.answers()
        assert answer["result"] == "all the same"


@leaves_nothing
async def test_withdrawing_what_is_unknown_or_nonsense_changes_nothing() -> None:
    async with ends() as end:
        end.send(withdraw(1), withdraw(None), withdraw([]), {"method": "$/cancel_request"})
        end.send({"id": 1, "method": "m"})
        (answer,) = await end.answers()
        assert answer["result"] == {}
        end.send(withdraw(1))
        await turns()
        assert len(end.wire.written) == 1
        assert end.kinds == ["noise", "noise"]


# ---- what goes out


@leaves_nothing
async def test_what_is_sent_in_one_turn_of_the_loop_is_one_write() -> None:
    async with ends() as end:
        for index in range(100):
            end.peer.notify("n", [index])
        asking = await end.requesting()
        assert len(end.wire.writes) == 1 + 1  # the task had its turn later
        assert [each.get("params") for each in end.wire.written[:100]] == [
            [index] for index in range(100)
        ]
        end.send({"id": 1, "result": 1})
        await asking


@leaves_nothing
async def test_much_is_sent_without_waiting_for_the_end_of_the_turn() -> None:
    async with ends() as end:
        large = "x" * (FLUSH // 4)
        for _ in range(9):
            end.peer.notify("n", large)
        assert len(end.wire.writes) == 2
        crowded = [end.peer.crowded]
        await end.peer.room()
        crowded.append(end.peer.crowded)
        assert crowded == [True, False]
        assert len(end.wire.writes) == 3


@leaves_nothing
async def test_senders_wait_while_the_peer_does_not_read() -> None:
    async with ends() as end:
        assert not end.peer.crowded
        end.peer.pause_writing()
        waiting = [asyncio.create_task(end.peer.room()) for _ in range(3)]
        await turns()
        waiting[0].cancel()
        await turns()
        assert [task.done() for task in waiting] == [True, False, False]
        end.peer.resume_writing()
        await asyncio.gather(*waiting[1:])
        assert not end.peer.crowded


class Unread:
    """One end of a pair in memory that never reads."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.listener = Listening()
        ours, self.theirs = memory_pair()
        self.peer = Peer(ours, self.listener, who="client", report=self.problems.append)
        self.listener.peer = self.peer
        self.peer.start()

    @property
    def waiting(self) -> int:
        """How many bytes wait to be read."""
        return sum(map(len, self.theirs._incoming))


@leaves_nothing
async def test_a_peer_that_never_reads_makes_senders_wait_and_memory_is_bounded() -> None:
    end = Unread()
    sent = 0

    async def send() -> None:
        nonlocal sent
        while True:
            end.peer.notify("n", "x" * 1000)
            sent += 1
            if end.peer.crowded:
                await end.peer.room()

    tasks = [asyncio.create_task(send()) for _ in range(3)]
    await turns(1000)
    assert end.waiting <= HIGH_WATER + 2 * FLUSH
    before = sent
    await turns(1000)
    assert sent == before
    await end.peer.close()
    for task in tasks:
        with pytest.raises(ConnectionClosed):
            await task
    assert now() == 0


@pytest.mark.parametrize("how", ["served", "refused", "malformed"])
@leaves_nothing
async def test_a_peer_that_asks_and_never_reads_the_answers_has_to_wait(how: str) -> None:
    requests: dict[str, Json] = {
        "served": {"method": "m", "params": "x" * 500},
        "refused": {"method": "m", "params": "x" * 500},
        "malformed": {"method": 5, "params": "x" * 500},
    }
    end = Unread()
    if how == "refused":
        end.listener.refusal = RequestError(1, "y" * 500)
    writer = Writer(end.theirs)
    for index in range(20_000):
        if writer.full:
            break
        end.theirs.write(line({"id": index, **requests[how]}))
        await asyncio.sleep(0)
    assert writer.full  # it had to wait
    assert end.waiting <= 2 * HIGH_WATER
    await end.peer.close()


@pytest.mark.parametrize("refusal", [None, RequestError(1, "no")], ids=["served", "refused"])
@leaves_nothing
async def test_nothing_is_kept_of_a_request_that_was_answered(refusal: RequestError | None) -> None:
    async with ends() as end:
        end.listener.refusal = refusal
        end.send(*({"id": index, "method": "m"} for index in range(3)))
        assert len(await end.answers(3)) == 3
        await turns()
        answering = end.peer._answering
        assert not any((answering._fresh, answering._served, answering._tasks))


@leaves_nothing
async def test_closing_answers_a_batch_with_errors_where_there_is_no_answer_yet() -> None:
    end = Ends()

    async def answer(request: Request) -> Any:
        if request.method == "slow":
            await asyncio.get_running_loop().create_future()
        return "done"

    end.listener.answer = answer
    asked = [line({"id": 1, "method": "m"}), line({"id": 2, "method": "slow"})]
    end.wire.deliver(b"[" + b",".join(map(bytes.strip, asked)) + b"]\n")
    await turns()
    assert end.wire.written == []
    await end.peer.close()
    written: list[Any] = end.wire.written
    ((done, slow),) = written
    assert (done["id"], done["result"]) == (1, "done")
    assert (slow["id"], slow["error"]["code"]) == (2, -32603)


@leaves_nothing
async def test_a_peer_that_reads_the_answers_at_last_may_ask_more() -> None:
    async with ends() as end:
        end.peer.pause_writing()
        assert end.reads()
        end.send({"id": 1, "method": "m"})
        await end.answers()
        assert not end.reads()
        end.peer.resume_writing()
        assert end.reads()


class Writer:
    """Only writes; remembers whether it was asked to wait."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.full = False
        transport.pause_reading()
        transport.start(self)

    def received(self, data: bytes) -> None:
        raise AssertionError("it does not read")

    def ended(self, error: Exception | None) -> None:
        pass

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False


# ---- making the peer wait


@leaves_nothing
async def test_reading_goes_on_when_everybody_has_released_it() -> None:
    async with ends() as end:
        end.peer.hold("one")
        end.peer.hold("two")
        end.peer.hold("one")
        end.peer.release("one")
        end.peer.release("three")
        assert not end.reads()
        end.peer.release("two")
        assert end.reads()


@leaves_nothing
async def test_a_handler_that_asks_the_peer_does_not_hold_it() -> None:
    async with ends() as end:
        inbox = Inbox("s", end.problems.append, hold=end.peer.hold, release=end.peer.release)
        states: list[bool] = []

        async def ask(item: Any) -> None:
            await asyncio.sleep(1)
            states.append(end.wire.paused)
            asking = asyncio.create_task(end.peer.request("m", arrived=lambda _: inbox))
            await end.asked("m")
            states.append(end.wire.paused)
            end.send({"id": 1, "result": 1})
            states.append(end.wire.paused)
            await asking

        inbox.put(ask, None)
        inbox.put(lambda _: None, None, size=10**8)
        inbox.put(lambda _: None, None, size=10**8)
        await asyncio.sleep(2)
        assert states == [True, False, True]  # full; but the answer must be read; full again
        assert end.reads()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small limits, so that a flood is small."""
    monkeypatch.setattr(answering, "SERVED", 10)
    monkeypatch.setattr(answering, "REFUSED", 30)


@pytest.mark.usefixtures("few")
@leaves_nothing
async def test_a_flood_of_requests_is_held() -> None:
    async with ends() as end:
        go_on = asyncio.Event()

        async def wait(request: Request) -> Any:
            await go_on.wait()
            return {}

        end.listener.answer = wait
        for index in range(10):
            assert end.reads()
            end.send({"id": index, "method": "m"})
        assert not end.reads()
        go_on.set()
        await end.answers(10)
        await turns()
        assert end.reads()
        assert now() == 0


@pytest.mark.usefixtures("few")
@leaves_nothing
async def test_a_flood_of_requests_that_wait_for_the_peer_does_not_lock_it_out() -> None:
    async with ends() as end:

        async def ask_back(request: Request) -> Any:
            return await end.peer.request("back")

        end.listener.answer = ask_back
        for index in range(40):
            end.send({"id": index, "method": "m"})
            if end.wire.paused:
                await end.wire.until(lambda: not end.wire.paused)
        refused = [each["error"] for each in await end.answers(10)]
        assert [each["code"] for each in refused] == [-32600] * 10
        assert "wait for answers" in refused[0]["data"]["reason"]
        assert [each.kind for each in end.problems] == ["limit"]
        for sent in list(end.wire.written):
            if sent.get("method") == "back":
                end.send({"id": sent["id"], "result": "fine"})
        answers = await end.answers(40)
        assert sum(each.get("result") == "fine" for each in answers) == 30
        assert end.reads()


# ---- the end


@leaves_nothing
async def test_when_the_peer_is_gone_nothing_stays_pending() -> None:
    end = Ends()
    stopped = end.listener.never_answer()
    asking = asyncio.create_task(end.peer.request("m"))
    end.peer.pause_writing()
    room = asyncio.create_task(end.peer.room())
    await turns()
    end.send({"id": 1, "method": "early"})
    await turns()
    end.send({"id": 2, "method": "late"})
    why = ConnectionEnded("It fell over.")
    end.wire.end(why)
    for task in (asking, room):
        with pytest.raises(ConnectionEnded, match="It fell over"):
            await task
    assert end.listener.ends == [why]
    await turns()
    assert sorted(stopped) == ["early", "late"]
    with pytest.raises(ConnectionEnded):
        await end.peer.request("m")
    await end.peer.close()
    assert end.listener.ends == [why]


@leaves_nothing
async def test_the_last_line_needs_no_newline() -> None:
    end = Ends()
    asking = await end.requesting()
    end.wire.deliver(line({"id": 1, "result": "last words"}).rstrip())
    end.wire.end()
    assert await asking == "last words"
    await end.peer.close()


@pytest.mark.parametrize("cut", range(10, 50, 3))
@leaves_nothing
async def test_half_an_answer_at_the_end_is_no_answer(cut: int) -> None:
    end = Ends()
    asking = await end.requesting()
    end.wire.deliver(line({"id": 1, "result": {"a": {"b": [{}, {}]}}})[:cut])
    end.wire.end(ConnectionEnded("It died."))
    with pytest.raises(ConnectionEnded, match="It died"):
        await asking
    assert [problem.kind for problem in end.problems] == ["noise"]
    await end.peer.close()


@leaves_nothing
async def test_an_end_without_a_reason_is_given_one() -> None:
    end = Ends()
    asking = await end.requesting()
    end.wire.end(OSError("whatever"))
    with pytest.raises(ConnectionEnded, match=r"The agent closed the connection\."):
        await asking
    await end.peer.close()


@leaves_nothing
async def test_closing_sends_the_queue_and_settles_pending_requests() -> None:
    end = Ends()
    asking = await end.requesting()
    end.peer.notify("last words")
    await end.peer.close()
    with pytest.raises(ConnectionClosed) as caught:
        await asking
    assert isinstance(caught.value, LocalError)
    assert end.wire.written[-1]["method"] == "last words"
    assert end.listener.ends == [None]
    with pytest.raises(ConnectionClosed):
        await end.peer.request("m")
    with pytest.raises(ConnectionClosed):
        await end.peer.room()
    end.peer.notify("after the end")
    for _ in range(10):
        with pytest.raises(ConnectionClosed) as again:
            end.peer.check_open()
    assert len(again.traceback) <= 3  # one error for all, and it does not grow
    await turns()
    await end.peer.close()
    assert end.listener.ends == [None]


@leaves_nothing
async def test_closing_settles_an_answer_that_waits_behind_a_stuck_handler() -> None:
    end = Ends()
    inbox = Inbox("s", end.problems.append)

    async def stuck(item: Any) -> None:
        await asyncio.Event().wait()

    asking = asyncio.create_task(end.peer.request("m", arrived=lambda _: inbox))
    await turns()
    inbox.put(stuck, None)
    end.send({"id": 1, "result": 1})
    await end.peer.close()
    inbox.close()
    with pytest.raises(ConnectionClosed):
        await asking
    assert now() == 0
    await inbox.stopped(1)


@leaves_nothing
async def test_closing_is_bounded_even_if_a_handler_does_not_stop() -> None:
    end = Ends()
    released = asyncio.Event()

    async def deaf(request: Request) -> Any:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return {}

    end.listener.answer = deaf
    end.send({"id": 1, "method": "m"})
    await turns()
    await end.peer.close()
    assert now() <= 2
    released.set()
    await turns()


@leaves_nothing
async def test_the_handler_of_a_request_may_close_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end = Ends()
    done = asyncio.Event()
    close_wire = end.wire.close

    async def close_slowly() -> None:
        await turns()
        await close_wire()

    monkeypatch.setattr(end.wire, "close", close_slowly)

    async def close(request: Request) -> Any:
        await end.peer.close()
        done.set()
        return {}

    end.listener.answer = close
    end.send({"id": 1, "method": "m"})
    await done.wait()
    assert now() == 0
    await turns()


@leaves_nothing
async def test_nothing_is_received_after_the_end() -> None:
    end = Ends()
    await end.peer.close()
    end.peer.received(line({"method": "n"}))
    end.peer.ended(None)
    assert end.listener.received == []
    assert end.listener.ends == [None]


def test_the_callback_for_problems_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        def fail(problem: Problem) -> None:
            raise ValueError("cannot be reported")

        async with ends(report=fail) as end:
            end.wire.deliver(b"noise\n" + line({"id": 1, "method": "m"}))
            await end.answers()

    simulate(main())
    assert [record.name for record in caplog.records] == ["twofold"]


@leaves_nothing
async def test_one_message_that_cannot_be_handled_does_not_take_the_next_one_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ends() as end:
        received: list[str] = []

        def notified(notification: Notification) -> None:
            received.append(notification.method)
            if notification.method == "bad":
                raise ValueError("cannot handle it")

        monkeypatch.setattr(end.listener, "notified", notified)
        end.send({"method": "good"}, {"method": "bad"}, {"method": "better"})
        assert received == ["good", "bad", "better"]
        assert end.kinds == ["handler"]
