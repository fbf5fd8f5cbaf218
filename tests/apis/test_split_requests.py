"""Requests that are split: parts that come later, in any order, or not at all."""

import asyncio
from typing import Any

import pytest

from coordinator.apis.request_task import RequestTasks, gather_parts
from coordinator.core import clock
from coordinator.core.reply import DeferReply, Reply
from coordinator.core.response_status import AWAITING_DISK, DeferredResponse
from coordinator.core.time_budget import RunQueue
from coordinator.network.request_context import ApiCounts, RequestContext, ResponseEncoder
from protocol.apis import APIS, ApiKey
from tests.network.requests import CLIENT, AwaitedReply, Deferral


class SplitRequest:
    """A request of parts that come later, unless they have a response at once."""

    def __init__(self, *responses: object) -> None:
        self._responses = responses
        self._deferral = Deferral()
        self.parts: dict[int, Reply] = {}
        encoder = ResponseEncoder(APIS[ApiKey.HEARTBEAT], 0, ApiCounts())
        context = RequestContext(CLIENT, encoder, 1, None, 0, open_reply=self._deferral.defer)
        tasks = RequestTasks(RunQueue(asyncio.get_running_loop()), clock.Arrival())
        self.budget = tasks.create_budget()
        sent = (self._send_part(number) for number in range(len(responses)))
        self.result = tasks.run(gather_parts(sent, context, self.budget), context.defer, self.budget)

    def _send_part(self, number: int) -> Any:
        def send(defer: DeferReply) -> object:
            response = self._responses[number]
            if isinstance(response, DeferredResponse):
                self.parts[number] = defer(False)
            return response

        return send

    @property
    def reply(self) -> AwaitedReply:
        return self._deferral.reply


async def test_parts_that_come_at_once_need_no_reply() -> None:
    assert SplitRequest("a", "b").result == ["a", "b"]
    assert SplitRequest().result == []


async def test_parts_that_come_late_are_combined_in_the_order_of_the_request() -> None:
    split = SplitRequest(AWAITING_DISK, "b", AWAITING_DISK)
    assert split.result is AWAITING_DISK
    assert not split.reply.blocks
    assert not split.reply.is_in_progress
    split.parts[2].send("c")
    assert not split.reply.is_sent
    split.parts[0].send("a")
    assert split.reply.response.done(), "the last part completes the request within its call"
    assert await split.reply.wait() == ["a", "b", "c"]


async def test_a_client_that_disconnects_abandons_the_parts_and_late_ones_are_ignored() -> None:
    split = SplitRequest(AWAITING_DISK, AWAITING_DISK)
    abandoned: list[int] = []
    for number, part in split.parts.items():
        part.on_abandoned = lambda number=number: abandoned.append(number)
    split.parts[0].send("a")
    split.reply.abandon()
    assert abandoned == [1]
    split.parts[1].send("b")
    assert not split.reply.is_sent


async def test_parts_of_a_request_that_changes_data_are_not_abandoned() -> None:
    split = SplitRequest(AWAITING_DISK)
    split.budget.begin_changes()
    abandoned: list[bool] = []
    split.parts[0].on_abandoned = lambda: abandoned.append(True)
    split.reply.abandon()
    assert not abandoned
    split.parts[0].send("a")
    assert not split.reply.is_sent


async def test_a_part_that_fails_fails_the_request_and_abandons_the_others() -> None:
    split = SplitRequest(AWAITING_DISK, AWAITING_DISK)
    abandoned: list[bool] = []
    split.parts[1].on_abandoned = lambda: abandoned.append(True)
    split.parts[0].fail(RuntimeError("a defect"))
    with pytest.raises(RuntimeError):
        await split.reply.wait()
    assert abandoned
    split.parts[1].send("b")
