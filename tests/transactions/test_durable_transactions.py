"""The law: for every prefix of the log, loading it gives the durable state that the live shard had there. And what
holds of every history: epochs never fall, a settled outcome never changes, a transaction is over only when every
partition has its marker, everybody is answered once, and in the end everything ends."""

from collections.abc import Iterator
from random import Random

import pytest

from coordinator.core.outcome import WorkDone
from coordinator.transactions.transaction import list_partitions
from coordinator.transactions.transaction_requests import (
    AddPartitions,
    MarkersWritten,
    TransactionPartition,
    WriteMarkers,
)
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records.transaction_state import TransactionLogValue
from tests.transactions.config import transaction_config
from tests.transactions.coordinator import A0, A1, B0, Ask, Coordinator, through_bytes

NAMES = ("a", "b", "c")
LAST = 32766
OUTCOMES = {2: 4, 3: 5}
"""What follows PrepareCommit and PrepareAbort."""


class History:
    """A random history of some transactional ids, with the observed results."""

    def __init__(self, seed: int, level: int) -> None:
        self.random = Random(seed)
        self.coordinator = Coordinator(transaction_version=level)
        self.states: dict[int, dict[str, TransactionLogValue]] = {0: {}}
        self.marked: dict[str, set[TransactionPartition]] = {}
        """What has its marker of the transaction that ends, in the name of the present coordinator."""
        self.asked: list[Ask] = []
        self.late: list[MarkersWritten] = []
        self.checked = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            self.coordinator.holds_works = self.random.random() < 0.5
            self.look()
        self.drain()

    def who(self, name: str) -> tuple[int, int]:
        """A producer: mostly the present one."""
        value = self.coordinator.shard.snapshot_durable().get(name)
        if value is None or self.random.random() < 0.05:
            return self.random.choice([(1, 0), (1000, LAST)])
        previous, epoch = value.previous_producer_id, value.producer_epoch
        if self.random.random() < 0.2:
            return self.random.choice(
                [(value.producer_id, epoch - 1), (previous, LAST), (value.producer_id, 0)]
            )
        return value.producer_id, epoch

    def step(self) -> None:
        random, coordinator, name = self.random, self.coordinator, self.random.choice(NAMES)
        producer_id, epoch = self.who(name)
        kind = random.randrange(12)
        if kind == 0:
            chosen = random.choice([(-1, -1), (producer_id, epoch)])
            request = InitProducerIdRequest(
                transactional_id=name,
                transaction_timeout_ms=random.choice([5_000, 60_000]),
                producer_id=chosen[0],
                producer_epoch=chosen[1],
            )
            self.asked.append(coordinator.send(request, random.choice([3, 5])))
        elif kind < 5:
            partitions = random.sample([A0, A1, B0], random.randrange(3))
            level = random.choice([0, 2])
            verifies = random.random() < 0.2
            add = AddPartitions(name, producer_id, epoch, partitions, verifies, level)
            self.asked.append(coordinator.send(add))
        elif kind < 8:
            end = EndTxnRequest(
                transactional_id=name,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=random.random() < 0.6,
            )
            self.asked.append(coordinator.send(end, random.choice([1, 4, 5, 5])))
        elif kind == 8:
            coordinator.advance(random.choice([1_000, 11_000, 70_000]))
        elif kind < 11:
            self.write_markers()
        elif random.random() < 0.4:
            self.restart()
        else:
            coordinator.finish_works(random.choice([None, "OSError"]))

    def write_markers(self) -> None:
        coordinator, random = self.coordinator, self.random
        if self.late and random.random() < 0.3:
            coordinator.tell(random.choice(self.late))
        if not coordinator.markers:
            return
        markers = coordinator.markers.pop(random.randrange(len(coordinator.markers)))
        now = random.sample(markers.partitions, random.randint(1, len(markers.partitions)))
        self.tell_written(markers, now)
        rest = [one for one in markers.partitions if one not in now]
        if rest:
            coordinator.markers.append(markers._replace(partitions=rest))

    def tell_written(self, markers: WriteMarkers, partitions: list[TransactionPartition]) -> None:
        self.marked.setdefault(markers.transactional_id, set()).update(partitions)
        written = markers.build_markers_written(partitions)
        self.coordinator.tell(written)

    def restart(self) -> None:
        coordinator = self.coordinator
        parked = [ask for ask in self.asked if ask.reply is None]
        if self.random.random() < 0.5:
            coordinator.unload()
        for ask in parked:
            # A crash: the request gets no response.
            self.asked.remove(ask)
        self.late += [markers.build_markers_written(markers.partitions) for markers in coordinator.markers]
        self.marked.clear()
        coordinator.restart()

    def look(self) -> None:
        """At the records since the last time."""
        coordinator = self.coordinator
        records = coordinator.records
        self.states[len(records)] = coordinator.shard.snapshot_durable()
        for record in records[self.checked :]:
            if record.value is not None and record.value.transaction_status in OUTCOMES.values():
                self.marked.pop(record.key.transactional_id, None)
        self.checked = len(records)

    def drain(self) -> None:
        """No further requests arrive, and all pending work is completed."""
        coordinator = self.coordinator
        coordinator.holds_works = False
        coordinator.finish_works()
        coordinator.advance(1_000_000)
        while coordinator.markers:
            markers = coordinator.markers.pop()
            self.tell_written(markers, list(markers.partitions))
        self.look()


def successive(history: History) -> Iterator[tuple[str, TransactionLogValue | None, TransactionLogValue]]:
    """The values of each id in the log, each behind the one before."""
    newest: dict[str, TransactionLogValue] = {}
    for record in history.coordinator.records:
        name, value = record.key.transactional_id, record.value
        assert value is not None, "nothing expires here"
        yield name, newest.get(name), value
        newest[name] = value


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_a_random_history(seed: int, level: int) -> None:
    history = History(seed * 3 + level, level)
    history.run(150)
    coordinator = history.coordinator
    assert len(history.states) > 10
    for ask in history.asked:
        assert ask.reply is not None
    used: set[int] = set()
    for _, before, after in successive(history):
        if before is None or after.producer_id != before.producer_id:
            assert after.producer_id not in used, "a producer id that somebody had"
            assert after.producer_epoch == 0
            used.add(after.producer_id)
        else:
            assert after.producer_epoch >= before.producer_epoch, "an epoch that falls"
        status = after.transaction_status
        if before is not None and before.transaction_status in OUTCOMES:
            assert status == OUTCOMES[before.transaction_status], "another outcome"
        if status in OUTCOMES:
            assert before is not None
            assert list_partitions(after) == list_partitions(before)
        if status in OUTCOMES.values():
            assert before is not None
            assert before.transaction_status in OUTCOMES
    for name in coordinator.shard.list_transactional_ids():
        assert coordinator.state(name) in ("Empty", "CompleteCommit", "CompleteAbort"), name


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_over_before_every_partition_has_its_marker(seed: int) -> None:
    history = History(seed, 2)
    coordinator, tell = history.coordinator, history.coordinator.tell
    completed = 0

    def watched(request: MarkersWritten | WorkDone) -> object:
        nonlocal completed
        name = request.transactional_id if isinstance(request, MarkersWritten) else ""
        before = coordinator.shard.snapshot_durable().get(name)
        outcome = tell(request)
        if isinstance(request, MarkersWritten) and outcome.records:
            assert before is not None
            assert set(list_partitions(before)) <= history.marked[name]
            completed += 1
        return outcome

    coordinator.tell = watched  # type: ignore[method-assign, assignment]
    history.run(250)
    assert completed > 3


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_every_prefix_of_the_log_gives_the_state_that_was_live_there(seed: int, level: int) -> None:
    history = History(100 + seed, level)
    history.run(120)
    coordinator = history.coordinator
    config = transaction_config(transaction_version=level)
    for length, state in history.states.items():
        loaded, again = TransactionShard(config, 9), TransactionShard(config, 9)
        for record in coordinator.records[:length]:
            loaded.replay(through_bytes(record))
        assert loaded.snapshot_durable() == state
        copied = loaded.copy_durable()
        assert len(copied) == loaded.durable_keys == len(state)
        for fact in copied.facts():
            again.replay(through_bytes(fact))
        assert again.snapshot_durable() == state
        loaded.on_loaded(coordinator.now)
        loaded.check_invariants()
        assert copied.values == state, "what comes later does not change it"
