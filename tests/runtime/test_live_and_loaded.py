"""A live machine and the machine that a load makes from its log have the same state, with transactions as well."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.core.outcome import Context, Now
from coordinator.core.shared_types import LogFlush
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.machine import InternalTopic
from coordinator.runtime.partition_loader import PartitionLoad
from coordinator.runtime.state_keeper import encode_state_batches
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.state_file import StatePoint, encode_state_header, format_state_path
from tests.runtime.bench import COUNTERS
from tests.runtime.counter import Add, AddWithin, CounterCodec, Counters, End, Forget, refuse
from tests.storage.faulty_files import FaultyFiles

CONFIG = LogConfig(segment_bytes=600)
NOW = Now(0, 1000)
DIRECTORY = f"/data/{COUNTERS}-0"


@dataclass(frozen=True)
class EndIteration:
    """What is kept is appended."""


@dataclass(frozen=True)
class TakeState:
    """A state is written, if the partition may have one just now."""


class Process:
    """A machine over a log that a test calls and writes step by step."""

    def __init__(self, files: FaultyFiles) -> None:
        self.files = files
        if not files.exists("/data"):
            files.mkdir("/data")
        self.log = PartitionLog.open(files, DIRECTORY, CONFIG)
        self.partition: CoordinatorPartition[Any] = CoordinatorPartition(self._topic(), 0)
        self.machine = Counters(0, 1)
        load = PartitionLoad(self.log, self.machine, files, CounterCodec())
        for _ in load.run_steps():
            pass
        self.state_end_offset = load.state_end_offset
        self.partition.log, self.partition.machine = self.log, self.machine
        self.partition.set_producers(load.producers)

    def _topic(self) -> InternalTopic[Any]:
        return InternalTopic(
            COUNTERS, 1, LogFlush.OS, 0, CounterCodec(), Counters, refuse, lambda _: self.log, "x", "x"
        )

    def do(self, step: object) -> None:
        """Takes one step."""
        if isinstance(step, EndIteration):
            self.partition.append_buffered(self.log, 1000)
        elif isinstance(step, TakeState):
            self.take_state()
        else:
            self.partition.buffer_outcome(self.machine.handle(step, Context(1, 0, "", ""), NOW))

    def take_state(self) -> None:
        """As `StateKeeper` does."""
        self.partition.append_buffered(self.log, 1000)
        point = StatePoint.at_offset(self.log, self.log.log_end_offset)
        if point is None or self.partition.has_open_transactions:
            return
        codec, facts = CounterCodec(), list(self.machine.copy_durable().facts())
        head = encode_state_header(point, codec.contents, len(facts))
        data = b"".join([head, *encode_state_batches(self.machine.copy_durable(), codec)])
        self.files.write_atomically(format_state_path(self.log, point.end_offset), data)

    def killed(self) -> "Process":
        """The next process, which has all that was written."""
        self.partition.append_buffered(self.log, 1000)
        self.log.sync()
        return Process(self.files.crash())


def seen(process: Process) -> tuple[object, ...]:
    """Return the machine's state and the pending transactional records.

    A load reads superseded records first: only records that count at the end of their transaction have an order.
    """
    machine = process.machine
    pending = list(machine.open.iterate_pending())
    superseded = sorted(each for each in pending if each.is_superseded)
    counting = [each for each in pending if not each.is_superseded]
    return machine.values, superseded, counting, open_transactions(process)


def open_transactions(process: Process) -> dict[int, int]:
    """Return first offsets by producer id; after all writes, the log has the expected ones."""
    producers = process.partition.producers
    assert producers is not None
    assert producers.state.open_transactions == process.partition.expected_producers.open_transactions
    return dict(producers.state.open_transactions)


def epochs(process: Process) -> dict[int, tuple[int, int]]:
    """Epochs of producers and their coordinators."""
    return {
        producer_id: (entry.epoch, entry.coordinator_epoch)
        for producer_id, entry in process.partition.expected_producers.iterate_entries()
    }


NAMES, PRODUCERS, EPOCHS = st.sampled_from("abc"), st.integers(1, 3), st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.builds(Add, NAMES, st.integers(0, 100)),
        st.builds(Forget, NAMES),
        st.builds(AddWithin, NAMES, st.integers(0, 100), PRODUCERS, EPOCHS),
        st.builds(End, PRODUCERS, EPOCHS, st.booleans()),
        st.builds(EndIteration),
        st.builds(TakeState),
    ),
    max_size=15,
)


@given(STEPS, STEPS)
@example([AddWithin("a", 5, 1), Add("a", 9)], [End(1)])
@example([AddWithin("b", 0, 1), AddWithin("a", 0, 1), Add("a", 0)], [])
@example([Add("a", 9), TakeState(), AddWithin("a", 5, 1)], [End(1)])
@example([AddWithin("a", 5, 1), Forget("a"), TakeState()], [End(1), Add("a", 1)])
@example([AddWithin("a", 5, 1), TakeState(), End(1), TakeState()], [AddWithin("a", 5, 1), End(1)])
def test_a_process_goes_on_where_the_one_before_it_was_killed(
    before: Sequence[object], after: Sequence[object]
) -> None:
    live = Process(FaultyFiles())
    for step in before:
        live.do(step)
    loaded = live.killed()
    assert seen(loaded) == seen(live)
    if not loaded.state_end_offset:
        assert epochs(loaded) == epochs(live)
    for step in after:
        live.do(step)
        loaded.do(step)
    for process in (live, loaded):
        process.partition.append_buffered(process.log, 1000)
    assert seen(loaded) == seen(live)
    assert loaded.log.log_end_offset == live.log.log_end_offset


def test_a_state_is_read_and_what_comes_after_it() -> None:
    live = Process(FaultyFiles())
    for step in (AddWithin("a", 1, 1), End(1), TakeState(), Add("b", 1), AddWithin("a", 5, 2), TakeState()):
        live.do(step)
    loaded = live.killed()
    assert loaded.state_end_offset == 2
    assert seen(loaded) == seen(live)
    assert open_transactions(loaded) == {2: 3}
