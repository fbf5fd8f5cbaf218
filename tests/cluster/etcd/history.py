"""A writer and readers of one committed offset, over the wire, at the daemon that claims to coordinate it.

The writer commits increasing numbers. A read of less than the last commit acknowledged before its begin is
stale, or that commit was lost.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.broker.harness import Client
from tests.cluster.etcd.linearizable import COMMIT, FETCH, Operations, now_ns

ANSWER_S = 2.0
AGAIN_S = 0.02
HANG_S = 60


class History:
    """The operations on one group and their results."""

    def __init__(self, ports: Sequence[int], group: str, operations: Operations | None = None) -> None:
        """Record the operations at the daemons' `ports`; `operations` also gets those on partition 0."""
        self.acknowledged = -1
        """The greatest number that was."""
        self.commits = self.reads = 0
        self.stale: list[tuple[int, int]] = []
        """Pairs of the last acknowledged value before a read and the value that it returned."""
        self.longest_pause_s = 0.0
        self._ports = ports
        self.group = group
        self._operations = Operations() if operations is None else operations
        self._numbers = itertools.count()
        self._key = f"{group}/orders/0"
        self._tasks: list[asyncio.Task[None]] = []
        self._last = asyncio.get_running_loop().time()

    def start(self) -> None:
        """The writer, and two readers."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._forever(self._write))]
        self._tasks += [loop.create_task(self._forever(self._read)) for _ in range(2)]

    async def stop(self) -> None:
        """Ends them."""
        pending = set(self._tasks)
        while pending:
            for task in pending:
                task.cancel()
            # Python 3.11 may lose one in `wait_for`.
            _, pending = await asyncio.wait(pending, timeout=ANSWER_S)

    async def until_more(self, commits: int = 20, within_s: float = HANG_S) -> None:
        """Until so many more commits were acknowledged."""
        wanted = self.commits + commits
        async with asyncio.timeout(within_s):
            while True:
                if self.commits >= wanted:
                    return
                await asyncio.sleep(AGAIN_S)

    async def last(self) -> int:
        """Return the committed value; retry until a daemon responds."""
        while True:
            with contextlib.suppress(OSError, TimeoutError, EOFError, AssertionError):
                async with self._coordinator() as client:
                    found = await self._fetched(client)
                    if found is not None:
                        return found
            await asyncio.sleep(AGAIN_S)

    async def owner(self) -> int:
        """The place, among the ports, of the daemon that coordinates the group."""
        while True:
            with contextlib.suppress(OSError, TimeoutError, EOFError):
                found = await self._found()
                if found is not None:
                    return self._ports.index(found)
            await asyncio.sleep(AGAIN_S)

    async def wait_for_other_owner(self, former: int) -> None:
        """Wait until the daemons name a coordinator other than `former`. A daemon may learn of it later."""
        async with asyncio.timeout(HANG_S):
            while await self.owner() == former:  # noqa: ASYNC110 - a daemon does not notify this process
                await asyncio.sleep(AGAIN_S)

    async def _forever(self, use: Any) -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError, EOFError):
                async with self._coordinator() as client:
                    while await use(client):
                        pass
            await asyncio.sleep(AGAIN_S)

    @contextlib.asynccontextmanager
    async def _coordinator(self) -> Any:
        port = await self._found()
        if port is None:
            raise ConnectionError
        async with Client(port=port) as client:
            yield client

    async def _found(self) -> int | None:
        for port in self._ports:
            with contextlib.suppress(OSError, TimeoutError, EOFError):
                async with Client(port=port) as client:
                    answer = await self._call(client, FindCoordinatorRequest(key=self.group), 3)
                    if not answer.error_code:
                        return int(answer.port)
        return None

    @staticmethod
    async def _call(client: Client, request: Any, version: int) -> Any:
        client.send(request, version)
        return await client.receive(ANSWER_S)

    async def _write(self, client: Client) -> bool:
        number, client_id, begin = next(self._numbers), self._operations.client(), now_ns()
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=number)
        topic = OffsetCommitRequestTopic(name="orders", partitions=[part])
        is_done = False
        try:
            answer = await self._call(client, OffsetCommitRequest(group_id=self.group, topics=[topic]), 2)
            is_done = not answer.topics[0].partitions[0].error_code
        finally:
            if (
                not is_done
            ):  # The previous owner of the partition may have written it before it lost the partition.
                self._operations.may_happen(self._key, client_id, number, begin)
        if not is_done:
            return False
        self._operations.happened(self._key, client_id, COMMIT, number, begin)
        now = asyncio.get_running_loop().time()
        self.longest_pause_s = max(self.longest_pause_s, now - self._last)
        self._last = now
        self.acknowledged = max(self.acknowledged, number)
        self.commits += 1
        return True

    async def _read(self, client: Client) -> bool:
        before, begin = self.acknowledged, now_ns()
        found = await self._fetched(client)
        if found is None:
            return False
        self.reads += 1
        self._operations.happened(self._key, self._operations.client(), FETCH, found, begin)
        if found < before:
            self.stale.append((before, found))
        return True

    async def _fetched(self, client: Client) -> int | None:
        topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
        answer = await self._call(client, OffsetFetchRequest(group_id=self.group, topics=[topic]), 2)
        return None if answer.error_code else int(answer.topics[0].partitions[0].committed_offset)
