"""Requests that are begun and never end, more of them than there is memory for."""

import asyncio
import struct
import time
from pathlib import Path
from typing import Final

from protocol.apis import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.hostile.siege.attacker import Hostile, frame, read
from tests.hostile.siege.siege import besieged

LARGEST: Final = 16_000_000
OPTIONS: Final = (
    *("-o", f"socket.request.max.bytes={LARGEST}", "-o", f"queued.max.request.bytes={LARGEST}"),
    *("-o", "queued.max.request.stall.ms=500"),
)
CROWD: Final = 20
LATEST_S: Final = 10
"""The time of a few that stall, not of the whole crowd, which comes before."""
BEGUN: Final = struct.pack(">ihhi", LARGEST, ApiKey.PRODUCE, 7, 1) + b"\xff\xff"
"""A Produce of the largest size: no client id, and nothing of its body."""
NAMED: Final = ListGroupsRequest(states_filter=["x" * 30_000] * 10)
"""A request that does not come in one piece."""


async def trickle(hostile: Hostile) -> None:
    """A byte now and then."""
    while True:
        await hostile.send(b"\0")
        await asyncio.sleep(0.1)


async def test_a_stalled_request_does_not_block_others_forever(tmp_path: Path) -> None:
    async with besieged(tmp_path, OPTIONS) as siege:
        await siege.begin()
        crowd = [await siege.attacker.connect() for _ in range(CROWD)]
        for hostile in crowd:
            await hostile.send(BEGUN)
        trickling = [asyncio.ensure_future(trickle(hostile)) for hostile in crowd[::2]]
        patient = await siege.attacker.connect()
        asked = frame(NAMED, 4)
        started_s = time.monotonic()
        await patient.send(asked)
        answered = read(ListGroupsResponse, 4, await patient.answer())
        assert answered.error_code == ErrorCode.NONE
        assert time.monotonic() - started_s < LATEST_S
        for task in trickling:
            task.cancel()
        toll = await siege.toll()
        assert toll.is_bearable(), toll
        lines = [line for line in siege.daemon.log().splitlines() if "queued.max.request.stall.ms" in line]
        assert 0 < len(lines) <= CROWD


async def test_the_largest_request_gets_through_beside_those_that_stop(tmp_path: Path) -> None:
    async with besieged(tmp_path, OPTIONS) as siege:
        for _ in range(3):
            await (await siege.attacker.connect()).send(BEGUN)
        large = await siege.attacker.connect()
        # Its body is an empty array of topics, acks 0, and many surplus bytes: it has no response.
        body = bytes(LARGEST + 4 - len(BEGUN))
        await large.send(BEGUN + body)
        await large.send(frame(ListGroupsRequest(), 0))
        answered = read(ListGroupsResponse, 0, await large.answer())
        assert answered.error_code == ErrorCode.NONE


async def test_a_slow_request_may_continue_while_no_other_waits(tmp_path: Path) -> None:
    async with besieged(tmp_path, OPTIONS) as siege:
        slow = await siege.attacker.connect()
        asked = frame(NAMED, 4)
        for start in range(0, len(asked), 60_000):
            await slow.send(asked[start : start + 60_000])
            await asyncio.sleep(0.6)
        assert read(ListGroupsResponse, 4, await slow.answer()).error_code == ErrorCode.NONE
