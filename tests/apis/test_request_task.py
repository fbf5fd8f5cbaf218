"""Coroutines of requests: at once, suspended, abandoned, failed and stopped."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from coordinator.apis.request_task import FinishRequest, RequestTasks
from coordinator.core import clock, time_budget
from coordinator.core.reply import Reply
from coordinator.core.response_status import BLOCKED
from coordinator.core.time_budget import RunQueue, TimeBudget
from coordinator.network.request_context import ApiCounts, RequestContext, ResponseEncoder
from protocol.apis import APIS, ApiKey
from tests.network.requests import CLIENT, AwaitedReply, Deferral


class Request:
    """A request on an event loop, and the reply that it gets if its coroutine suspends."""

    def __init__(self) -> None:
        self.run_queue = RunQueue(asyncio.get_running_loop())
        self.tasks = RequestTasks(self.run_queue, clock.Arrival())
        self.budget = TimeBudget(self.run_queue)
        self.deferral = Deferral()

    def run(self, work: Coroutine[Any, Any, object], finish: FinishRequest | None = None) -> object:
        return self.tasks.run(work, self.deferral.defer, self.budget, finish)

    @property
    def reply(self) -> AwaitedReply:
        return self.deferral.reply


@pytest.fixture
def _slices_of_no_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_budget, "SLICE_NS", -1)


async def test_a_coroutine_that_ends_at_once_needs_no_reply() -> None:
    request = Request()

    async def work() -> str:
        await request.budget.checkpoint()
        return "response"

    assert request.run(work()) == "response"
    assert not len(request.tasks)
    assert request.run(work(), lambda result, reply: (result, reply)) == ("response", None)


async def test_a_handler_gets_the_arguments_of_its_guard_and_a_budget() -> None:
    tasks = Request().tasks

    async def handle(request: str, context: RequestContext, budget: TimeBudget, right: str) -> object:
        await budget.checkpoint()
        return request, context.correlation_id, right

    encoder = ResponseEncoder(APIS[ApiKey.HEARTBEAT], 0, ApiCounts())
    context = RequestContext(CLIENT, encoder, 7, None, 0)
    assert tasks.create_handler(handle)("request", context, "read") == ("request", 7, "read")


@pytest.mark.usefixtures("_slices_of_no_length")
async def test_other_work_goes_first_at_a_checkpoint() -> None:
    request = Request()
    order: list[str] = []

    class Other:
        def run_slice(self) -> None:
            order.append("other")

    async def work() -> str:
        request.run_queue.add(Other())
        await request.budget.checkpoint()
        order.append("work")
        return "response"

    assert request.run(work()) is BLOCKED
    assert request.reply.blocks
    assert request.reply.is_in_progress
    assert await request.reply.wait() == "response"
    assert order == ["other", "work"]
    assert not len(request.tasks)


async def test_a_coroutine_goes_on_after_a_future() -> None:
    request = Request()
    future = asyncio.get_running_loop().create_future()

    async def work() -> object:
        return [await future, await future]

    assert request.run(work()) is BLOCKED
    future.set_result("value")
    assert await request.reply.wait() == ["value", "value"]


async def test_finish_may_defer_the_reply_further() -> None:
    request = Request()
    future = asyncio.get_running_loop().create_future()
    taken: list[Reply] = []

    async def work() -> object:
        return await future

    def finish(result: object, reply: Reply | None) -> object:
        assert result == "value"
        assert reply is not None
        taken.append(reply)
        return BLOCKED

    assert request.run(work(), finish) is BLOCKED
    future.set_result("value")
    while not taken:  # noqa: ASYNC110 - the future has no callback behind that of the request
        await asyncio.sleep(0)
    assert not request.reply.is_sent
    taken[0].send("later")
    assert await request.reply.wait() == "later"


async def test_an_abandoned_request_is_cancelled_at_once_and_leaves_its_lock() -> None:
    request = Request()
    lock = asyncio.Lock()
    future = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with lock:
            await future

    assert request.run(work()) is BLOCKED
    assert lock.locked()
    request.reply.abandon()
    assert not lock.locked()
    assert not len(request.tasks)
    future.set_result(None)
    await asyncio.sleep(0)
    assert not request.reply.is_sent


async def test_a_lock_goes_to_the_next_request_when_the_one_that_was_to_get_it_is_abandoned() -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    first, second = Request(), Request()

    async def work() -> str:
        async with lock:
            return "response"

    assert first.run(work()) is BLOCKED
    assert second.run(work()) is BLOCKED
    lock.release()
    first.reply.abandon()
    assert await second.reply.wait() == "response"
    assert not first.reply.response.done()


@pytest.mark.usefixtures("_slices_of_no_length")
async def test_an_abandoned_request_that_waits_for_its_turn_leaves_the_queue() -> None:
    request = Request()
    assert request.run(request.budget.checkpoint()) is BLOCKED
    assert len(request.run_queue) == 1
    request.reply.abandon()
    assert not len(request.run_queue)


async def test_a_request_that_changes_data_runs_to_its_end_without_its_client() -> None:
    request = Request()
    future = asyncio.get_running_loop().create_future()
    ended = asyncio.Event()

    async def work() -> str:
        request.budget.begin_changes()
        await future
        ended.set()
        return "response"

    assert request.run(work()) is BLOCKED
    request.reply.abandon()
    assert len(request.tasks) == 1
    future.set_result(None)
    await asyncio.wait_for(ended.wait(), 60)
    assert not request.reply.is_sent
    assert not len(request.tasks)


async def test_an_exception_fails_the_reply() -> None:
    request = Request()
    future = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await future

    assert request.run(work()) is BLOCKED
    future.set_exception(RuntimeError("a defect"))
    with pytest.raises(RuntimeError):
        await request.reply.wait()
    assert not len(request.tasks)


async def test_stop_ends_requests_that_change_data_as_well() -> None:
    request = Request()
    future = asyncio.get_running_loop().create_future()
    finished: list[str] = []

    async def work() -> None:
        request.budget.begin_changes()
        try:
            await future
        finally:
            finished.append("cleaned up")

    assert request.run(work()) is BLOCKED
    request.reply.on_finished = lambda: finished.append("memory released")
    request.tasks.stop()
    assert not len(request.tasks)
    assert sorted(finished) == ["cleaned up", "memory released"]
    future.set_result(None)
    await asyncio.sleep(0)
    assert not request.reply.is_sent
