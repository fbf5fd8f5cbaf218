"""Consumers of committed records, one for each partition, and of a group's offsets.

A consumer reads a partition once, from its beginning to the last stable offset, because a delivered record
cannot be withdrawn.
"""

from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from storage.batch import decode_records
from tests.simulation.checks import demand
from tests.simulation.transactions.checks import Checks
from tests.simulation.transactions.partition import Partition
from tests.simulation.transactions.producer import OWN_TOPIC
from tests.simulation.transactions.server import Server
from tests.simulation.world import World


class Readers:
    """Readers that poll at random times; `read` reads all available records."""

    def __init__(self, world: World, server: Server, checks: Checks) -> None:
        self._world = world
        self._server = server
        self._checks = checks
        self._positions = dict.fromkeys(server.partitions, 0)
        self._durable = dict.fromkeys(server.partitions, 0)
        self._open: dict[tuple[str, int], dict[int, int]] = {name: {} for name in server.partitions}
        """By partition and producer id: the first offset of the open transaction in the durable part of the log."""
        self._act()

    def _act(self) -> None:
        if self._server.up:
            self.read(stable=self._world.chance(0.5))
        self._world.after(self._world.random.randint(5, 300), self._act)

    def read(self, *, stable: bool) -> list[OffsetFetchResponseGroup]:
        """Read new records and fetch offsets. Return the responses to the fetch that arrive at once."""
        for name, partition in self._server.partitions.items():
            self._read(name, partition)
        answers: list[OffsetFetchResponseGroup] = []

        def fetched(response: OffsetFetchResponseGroup) -> None:
            answers.append(response)
            for topic in response.topics:
                for place in topic.partitions:
                    if place.error_code == ErrorCode.NONE and place.committed_offset >= 0:
                        self._checks.offset_seen(place.committed_offset, is_own=topic.name == OWN_TOPIC)

        self._server.groups.fetch(stable=stable, then=fetched)
        return answers

    def _read(self, name: tuple[str, int], partition: Partition) -> None:
        stable, position = partition.last_stable_offset, self._positions[name]
        demand(stable >= position, f"{name}: the last stable offset falls from {position} to {stable}")
        demand(stable <= partition.log.durable, f"{name}: {stable} is stable, and not durable")
        self._check_stable(name, partition, stable)
        for offset in range(position, stable):
            entry = partition.log.entries[offset]
            producer_id = entry.header.producer_id
            is_aborted = any(
                ended.producer_id == producer_id and ended.first_offset <= offset <= ended.marker_offset
                for ended in partition.aborted
            )
            if entry.marker is None and not is_aborted:
                (record,) = decode_records(entry.data)
                assert record.value is not None
                number, which = map(int, record.value.split())
                self._checks.seen(number, which)
        self._positions[name] = stable

    def _check_stable(self, name: tuple[str, int], partition: Partition, stable: int) -> None:
        """Check that all transactions below the last stable offset have a durable marker."""
        open_now, durable = self._open[name], partition.log.durable
        for offset in range(self._durable[name], durable):  # the durable part of a log never changes
            entry = partition.log.entries[offset]
            if entry.marker is None:
                open_now.setdefault(entry.header.producer_id, offset)
            else:
                open_now.pop(entry.header.producer_id, None)
        self._durable[name] = durable
        first = min(open_now.values(), default=durable)
        demand(stable <= first, f"{name}: {stable} is stable, a transaction is open from {first} on")
