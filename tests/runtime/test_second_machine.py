"""Two kinds of machine on one engine: groups, and counters that know nothing of groups."""

import asyncio

from coordinator.core.outcome import Message
from coordinator.core.response_status import AWAITING_DISK, BLOCKED
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.group.group_requests import FetchOffsets, TopicsChanged
from coordinator.group.topics_image import NO_TOPICS
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from tests.broker.harness import Client, serving
from tests.runtime.bench import COUNTERS, Bench
from tests.runtime.counter import Add, AwaitValue, Break, Counted, Refused, Ring, Square, Tell
from tests.storage.faulty_files import FaultyFiles

TIMEOUT_S = 60
NOT_COORDINATOR = Refused(ErrorCode.NOT_COORDINATOR)


def commit(offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[part])]
    )


async def committed(bench: Bench) -> int | None:
    answer = await bench.ask(
        bench.groups, "g", FetchOffsets(OffsetFetchRequestGroup(group_id="g", topics=None), False)
    )
    assert isinstance(answer, OffsetFetchResponseGroup)
    return answer.topics[0].partitions[0].committed_offset if answer.topics else None


async def owned_again(bench: Bench, name: str) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while bench.counters.find_partition(name).state is not PartitionState.OWNED:
            await one_turn()


async def one_turn() -> None:
    await asyncio.sleep(0)


async def test_an_answer_is_held_until_it_is_durable_and_parked_until_there_is_one(bench: Bench) -> None:
    answer, deferral = bench.put(bench.counters, "a", Add("a", 3))
    assert answer is AWAITING_DISK
    assert not deferral.reply.blocks
    parked, waiting = bench.put(bench.counters, "a", AwaitValue("a", 5))
    assert parked is BLOCKED
    assert waiting.reply.blocks
    assert await deferral.reply.wait() == 3
    assert not waiting.reply.is_sent
    assert await bench.ask(bench.counters, "a", Add("a", 2)) == 5
    assert await waiting.reply.wait() == 5
    assert bench.engine.waiter_count == 0


async def test_both_live_side_by_side_through_a_kill(files: FaultyFiles) -> None:
    bench = Bench(files)
    await bench.take_all()
    assert await bench.ask(bench.counters, "a", Add("a", 3)) == 3
    await bench.ask(bench.groups, "g", commit(42))
    _, unanswered = bench.put(bench.counters, "a", Add("a", 100))
    again = Bench(bench.kill())
    await again.take_all()
    assert not unanswered.reply.is_sent
    assert await again.ask(again.counters, "a", Add("a", 0)) == 3
    assert await committed(again) == 42
    await again.close()


async def test_a_failing_disk_costs_one_partition_and_is_read_again(bench: Bench, files: FaultyFiles) -> None:
    assert await bench.ask(bench.counters, "a", Add("a", 3)) == 3
    _, parked = bench.put(bench.counters, "a", AwaitValue("a", 1000))
    files.fail("fdatasync")
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == NOT_COORDINATOR
    assert await parked.reply.wait() == NOT_COORDINATOR
    await bench.ask(bench.groups, "g", commit(7))
    await owned_again(bench, "a")
    assert await bench.ask(bench.counters, "a", Add("a", 0)) in (3, 4)
    assert await committed(bench) == 7


async def test_a_machine_that_contradicts_itself_is_made_anew(bench: Bench) -> None:
    assert await bench.ask(bench.counters, "a", Add("a", 3)) == 3
    assert await bench.ask(bench.counters, "a", Break()) == Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    await owned_again(bench, "a")
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == 4


async def test_a_partition_is_moved(bench: Bench, files: FaultyFiles) -> None:
    assert await bench.ask(bench.counters, "a", Add("a", 3)) == 3
    partition = bench.counters.find_partition("a")
    _, parked = bench.put(bench.counters, "a", AwaitValue("a", 1000))
    bench.counters.lifecycle.release_partition(partition, 1, "it moves")
    assert await parked.reply.wait() == NOT_COORDINATOR
    assert partition.state is PartitionState.ABSENT

    other = Bench(files)
    other.counters.lifecycle.open_partition(other.counters.find_partition("a"), epoch=1)
    await asyncio.wait_for(other.loaded.wait(), TIMEOUT_S)
    assert await other.ask(other.counters, "a", Add("a", 1)) == 4
    other.counters.lifecycle.release_partition(other.counters.find_partition("a"), 2, "it moves back")
    await other.close()

    bench.counters.lifecycle.open_partition(partition, epoch=1)  # old news
    assert partition.state is PartitionState.ABSENT
    bench.counters.lifecycle.open_partition(partition, epoch=2)
    await owned_again(bench, "a")
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == 5


async def test_a_partition_that_is_released_while_it_is_read_is_not_owned(files: FaultyFiles) -> None:
    bench = Bench(files)
    partition = bench.counters.find_partition("a")
    bench.counters.lifecycle.open_partition(partition, epoch=0)
    bench.counters.lifecycle.release_partition(partition, 1, "it moves")
    await asyncio.wait_for(bench.loaded.wait(), TIMEOUT_S)
    assert partition.state is PartitionState.ABSENT
    assert partition.machine is None
    assert partition.log is None
    await bench.close()


async def test_a_release_that_comes_late_is_old_news(bench: Bench) -> None:
    partition = bench.counters.find_partition("a")
    bench.counters.lifecycle.open_partition(partition, epoch=5)
    for late in (3, 5):
        bench.counters.lifecycle.release_partition(partition, late, "it moves")
        assert partition.state is PartitionState.OWNED
        assert await bench.ask(bench.counters, "a", Add("a", 1)) == late // 2
    bench.counters.lifecycle.release_partition(partition, 7, "it moves")
    assert partition.state is PartitionState.ABSENT
    bench.counters.lifecycle.release_partition(partition, 9, "it moves on")
    bench.counters.lifecycle.open_partition(partition, epoch=8)  # overtaken by the previous open
    assert partition.state is PartitionState.ABSENT


async def test_a_partition_that_is_taken_again_while_it_is_read_is_owned(files: FaultyFiles) -> None:
    bench = Bench(files)
    partition = bench.counters.find_partition("a")
    bench.counters.lifecycle.open_partition(partition, epoch=0)
    bench.counters.lifecycle.open_partition(partition, epoch=1)
    await owned_again(bench, "a")
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == 1
    await bench.close()


async def test_a_message_to_another_machine_leaves_when_it_is_durable(
    bench: Bench, files: FaultyFiles
) -> None:
    to_counter = Message(COUNTERS, "b", Add("b", 1))
    files.fail("fdatasync")
    assert await bench.ask(bench.counters, "a", Tell(to_counter)) == NOT_COORDINATOR
    await owned_again(bench, "a")
    await owned_again(bench, "b")
    assert await bench.ask(bench.counters, "b", Add("b", 0)) == 0
    await bench.ask(bench.counters, "a", Tell(to_counter))
    assert await bench.ask(bench.counters, "b", AwaitValue("b", 1)) == 1


async def test_a_message_reaches_a_machine_of_another_kind(bench: Bench) -> None:
    await bench.ask(bench.groups, "g", commit(42))
    deleted = TopicsChanged(NO_TOPICS, ["orders"])
    await bench.ask(bench.counters, "a", Tell(Message(CONSUMER_OFFSETS, "g", deleted)))
    async with asyncio.timeout(TIMEOUT_S):
        while await committed(bench) is not None:
            await one_turn()


async def test_the_result_of_work_comes_back(bench: Bench) -> None:
    async def square(argument: tuple[str, int]) -> int:
        return argument[1] ** 2

    bench.engine.workers["square"] = square
    await bench.ask(bench.counters, "a", Add("a", 7))
    await bench.ask(bench.counters, "a", Square("a"))
    assert await bench.ask(bench.counters, "a", AwaitValue("a", 49)) == 49


async def test_a_machine_hears_that_its_work_failed(bench: Bench) -> None:
    async def square(argument: tuple[str, int]) -> int:
        raise OSError("nobody can")

    bench.engine.workers["square"] = square
    await bench.ask(bench.counters, "a", Add("a", -7))
    await bench.ask(bench.counters, "a", Square("a"))
    assert await bench.ask(bench.counters, "a", AwaitValue("a", -1)) == -1


async def test_a_timer_fires_in_the_machine_that_set_it(bench: Bench) -> None:
    await bench.ask(bench.counters, "a", Ring("a"))
    assert await bench.ask(bench.counters, "a", AwaitValue("a", 1)) == 1
    assert await bench.ask(bench.counters, "b", Add("b", 0)) == 0


async def test_what_all_are_told_reaches_those_that_were_being_read(files: FaultyFiles) -> None:
    bench = Bench(files)
    taken = bench.take_all()
    task = asyncio.ensure_future(taken)
    await asyncio.sleep(0)
    bench.counters.notify_all(Add("a", 1))
    await task
    values = [partition.machine.values["a"] for partition in bench.counters.partitions if partition.machine]
    assert values == [1, 1]
    await bench.close()


async def test_events_are_numbered_without_a_gap_over_all_machines(bench: Bench) -> None:
    await bench.ask(bench.counters, "a", Add("a", 1))
    await bench.ask(bench.groups, "g", commit(1))
    await bench.ask(bench.counters, "b", Add("b", 2))
    numbers = [number for number, _, _ in bench.events]
    assert numbers == list(range(len(numbers)))
    counted = [(partition, event) for _, partition, event in bench.events if isinstance(event, Counted)]
    assert [event for _, event in counted] == [Counted("a", 1), Counted("b", 2)]
    assert len(bench.events) > len(counted)


async def test_what_was_not_synced_when_a_partition_went_is_not_durable_when_it_comes_back(
    files: FaultyFiles,
) -> None:
    """A clean shutdown earlier does not cover later unsynced data."""
    properties = {"offsets.topic.num.partitions": "1", "log.flush": "os"}
    async with serving("/data", properties, files=files):
        pass
    async with serving("/data", properties, files=files) as server, Client(server) as client:
        await client.call(commit(42), 2)
        (partition,) = server.runtime.partitions
        server.runtime.lifecycle.release_partition(partition, 1, "it moves")
        server.runtime.lifecycle.open_partition(partition, epoch=2)
        async with asyncio.timeout(TIMEOUT_S):
            while partition.machine is None:
                await one_turn()
        assert partition.log is not None
        assert partition.log.durable_offset < partition.log.log_end_offset


async def test_damage_that_is_met_after_a_release_costs_nothing(files: FaultyFiles) -> None:
    bench = Bench(files)
    partition = bench.counters.find_partition("a")
    files.fail("open", times=1)
    bench.counters.lifecycle.open_partition(partition, epoch=0)
    bench.counters.lifecycle.release_partition(partition, 1, "it moves")
    await asyncio.wait_for(bench.loaded.wait(), TIMEOUT_S)
    assert partition.state is PartitionState.ABSENT
    bench.counters.lifecycle.open_partition(partition, epoch=2)
    await owned_again(bench, "a")
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == 1
    await bench.close()


async def test_messages_keep_their_order_and_one_that_goes_nowhere_stops_nobody(bench: Bench) -> None:
    bench.put(bench.counters, "a", Tell(Message("__nowhere", "b", Add("b", 100))))
    bench.put(bench.counters, "a", Tell(Message(COUNTERS, "b", Add("b", 1))))
    bench.put(bench.counters, "a", Tell(Message(COUNTERS, "b", Add("b", 10))))
    assert await bench.ask(bench.counters, "a", Add("a", 5)) == 5
    assert await bench.ask(bench.counters, "b", AwaitValue("b", 11)) == 11
    values = [event.value for _, _, event in bench.events if isinstance(event, Counted) and event.name == "b"]
    assert values == [1, 11]


async def test_a_contradiction_does_not_swallow_what_was_told_with_it(files: FaultyFiles) -> None:
    bench = Bench(files)
    task = asyncio.ensure_future(bench.take_all())
    await one_turn()
    bench.counters.notify_all(Break())
    bench.counters.notify_all(Add("a", 1))
    await task
    async with asyncio.timeout(TIMEOUT_S):
        while not all(part.machine and part.machine.values.get("a") for part in bench.counters.partitions):
            await one_turn()
    await bench.close()


async def test_what_was_told_before_a_partition_went_is_not_told_when_it_comes_back(
    files: FaultyFiles,
) -> None:
    bench = Bench(files)
    partition = bench.counters.find_partition("a")
    bench.counters.lifecycle.open_partition(partition, epoch=0)
    bench.counters.notify_all(Add("a", 1))
    bench.counters.lifecycle.release_partition(partition, 1, "it moves")
    bench.counters.lifecycle.open_partition(partition, epoch=2)
    await owned_again(bench, "a")
    assert await bench.ask(bench.counters, "a", Add("a", 0)) == 0
    await bench.close()
