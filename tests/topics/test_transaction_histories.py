"""Whatever producers, coordinators, readers and restarts do, and in whichever order: consumers of committed records
see the records of committed transactions and those outside of any, each once and in order, and nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.config.properties import Config
from coordinator.core.shared_types import LogFlush
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchResponse, PartitionData
from storage.batch import decode_records, walk_batches
from storage.log import PartitionLog
from storage.producers.end_transaction_marker import decode_marker
from tests.topics.broker import Broker, batch
from tests.topics.fetching import Where, by_partition, fetch_request
from tests.topics.transacting import TV1, end, transactional

ORDERS: Where = ("orders", 0)
V = 12
SEGMENT_BYTES = "400"

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(1, 3)),
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(1, 3)),
        st.tuples(st.just("plain"), st.integers(1, 2)),
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.tuples(st.just("abort"), st.integers(0, 3)),
        st.tuples(st.just("sync")),
        st.tuples(st.just("restart")),
        st.tuples(st.just("crash")),
        st.tuples(st.just("read"), st.integers(0, 40), st.integers(1, 300)),
    ),
    max_size=40,
)


@dataclass
class Producer:
    """One that numbers its batches, and is raised to the next epoch with each end if it is of level 2."""

    producer_id: int
    level: int
    epoch: int = 0
    sequence: int = 0
    open: list[int] = field(default_factory=list)
    """Offsets of its records in the transaction that is open."""


class History:
    """The performed operations and the expected view of them."""

    def __init__(self, path: str, *, is_flushed_always: bool) -> None:
        self.broker = Broker(path, Config(log_flush=LogFlush.ALWAYS) if is_flushed_always else None)
        self.broker.create("orders", internal_segment_bytes=SEGMENT_BYTES)
        self.is_flushed_always = is_flushed_always
        self.producers = [Producer(number, level=0 if number < 2 else 2) for number in range(4)]
        self.visible: dict[int, bytes] = {}
        """Records that are committed, or of no transaction, by offset."""
        self.ended: list[tuple[int, int]] = []
        """Where transactions began, and their markers."""
        self.written = 0

    @property
    def log(self) -> PartitionLog:
        part = self.broker.plane.catalogue.find_partition("orders", 0)
        assert part is not None
        assert part.log is not None
        return part.log

    @property
    def last_stable_offset(self) -> int:
        high_watermark = self.log.durable_offset if self.is_flushed_always else self.log.log_end_offset
        unstable = [each.open[0] for each in self.producers if each.open]
        unstable += [first for first, marker in self.ended if marker >= high_watermark]
        return min([high_watermark, *unstable])

    def take(self, step: tuple[object, ...]) -> None:
        match step:
            case ("write", int(number), int(count)):
                self._write(self.producers[number], count)
            case ("plain", int(count)):
                values = [self._value() for _ in range(count)]
                response = self.broker.produce("orders", batch(values=values))
                assert response.error_code == ErrorCode.NONE
                self.visible |= {response.base_offset + n: value for n, value in enumerate(values)}
            case ("commit" | "abort" as how, int(number)):
                self._end(self.producers[number], is_committed=how == "commit")
            case ("sync",):
                self.log.sync()
            case ("restart",):
                self.broker.restart()
            case ("crash",):
                self.broker.crash()
                self.broker.open()
            case ("read", int(offset), int(max_bytes)):
                self.check(min(offset, self.log.log_end_offset), max_bytes)

    def _value(self) -> bytes:
        self.written += 1
        return b"%d" % self.written

    def _write(self, producer: Producer, count: int) -> None:
        value = self._value()
        data = transactional(producer.producer_id, producer.epoch, producer.sequence, count, value=value)
        version = V if producer.level == 2 else TV1
        response = self.broker.produce("orders", data, version=version, transactional_id="t")
        assert response.error_code == ErrorCode.NONE, response
        producer.sequence += count
        producer.open += range(response.base_offset, response.base_offset + count)
        self.visible |= dict.fromkeys(producer.open[-count:], value)

    def _end(self, producer: Producer, *, is_committed: bool) -> None:
        if producer.level == 2:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        written = end(
            self.broker, producer.producer_id, producer.epoch, is_committed=is_committed, level=producer.level
        )
        assert written.error is ErrorCode.NONE
        if not is_committed:
            for offset in producer.open:
                del self.visible[offset]
        if producer.open:
            self.ended.append((producer.open[0], written.end_offset - 1))
        producer.open.clear()

    def check(self, offset: int, max_bytes: int) -> None:
        """A consumer that starts there."""
        stable = self.last_stable_offset
        seen = dict(self._consumed(offset, max_bytes))
        due = {at: value for at, value in self.visible.items() if offset <= at < stable}
        assert list(seen) == sorted(seen)
        assert seen == due

    def _consumed(self, position: int, max_bytes: int) -> Iterator[tuple[int, bytes | None]]:
        while True:
            request = fetch_request({ORDERS: position}, isolation_level=1, partition_max_bytes=max_bytes)
            data = by_partition(self.broker.ask(request, FetchResponse, V))[ORDERS]
            assert data.error_code == ErrorCode.NONE
            assert data.last_stable_offset == self.last_stable_offset
            if not data.records:
                assert position >= data.last_stable_offset
                return
            for base_offset, value in _committed(data):
                if base_offset >= position:
                    yield base_offset, value
            *_, (_, last) = walk_batches(data.records)
            position = last.next_offset


def _committed(data: PartitionData) -> Iterator[tuple[int, bytes | None]]:
    """What Kafka's consumer hands out of an answer: without the batches of aborted transactions and markers."""
    assert data.records is not None
    assert data.aborted_transactions is not None
    coming = sorted(data.aborted_transactions, key=lambda each: each.first_offset)
    aborted: set[int] = set()
    for position, header in walk_batches(data.records):
        while coming and coming[0].first_offset <= header.last_offset:
            aborted.add(coming.pop(0).producer_id)
        records = decode_records(data.records[position:], header)
        if header.is_control:
            marker = decode_marker(header, records)
            assert marker is not None
            if not marker.is_committed:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            yield from ((record.offset, record.value) for record in records)


@pytest.mark.parametrize("is_flushed_always", [False, True])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(STEPS)
def test_consumers_of_committed_records_see_these_and_nothing_else(
    is_flushed_always: bool, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[object, ...]]
) -> None:
    path = f"{tmp_path_factory.mktemp('history')}/data"
    history = History(path, is_flushed_always=is_flushed_always)
    for step in steps:
        history.take(step)
    history.check(0, 300)
    history.broker.restart()
    history.check(0, 300)
    for producer in history.producers:
        history.take(("abort", producer.producer_id))
    history.log.sync()
    assert history.last_stable_offset == history.log.log_end_offset
    history.check(0, 1)
    history.broker.stop()
