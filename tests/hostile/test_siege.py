"""The measurement of attacks: it must detect excessive effects."""

import asyncio
import os
import signal
from pathlib import Path

from protocol.messages.list_groups import ListGroupsRequest
from tests.hostile.siege.siege import besieged

STANDSTILL_S = 1.0


async def test_a_normal_client_passes_the_siege(tmp_path: Path) -> None:
    async with besieged(tmp_path) as siege:
        await siege.begin()
        client = await siege.attacker.connect()
        answer = await client.call(ListGroupsRequest(), 4)
        assert [group.group_id for group in answer.groups] == ["neighbours"]
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_a_daemon_that_stands_still_is_seen(tmp_path: Path) -> None:
    async with besieged(tmp_path) as siege:
        await siege.begin()
        os.kill(siege.daemon.process_id, signal.SIGSTOP)
        await asyncio.sleep(STANDSTILL_S)
        os.kill(siege.daemon.process_id, signal.SIGCONT)
        toll = await siege.toll()
        assert toll.worst_ms - toll.quiet_ms > STANDSTILL_S * 500
        assert not toll.is_bearable(), toll
