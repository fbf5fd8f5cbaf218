"""Changes of topics, groups and producer ids while any single call on the file system fails.

The disk refuses one call of a change. Afterwards it works again, or stays full. The answer and the state agree:
after an error everything is as it was, after a success everything is as asked, in the same process, after a kill
and after a power cut. When there is space again, the same change goes through.
"""

from collections.abc import Callable
from itertools import combinations, product
from random import Random
from typing import Any

import pytest

from coordinator.config.properties import Config
from coordinator.core.shared_types import LogFlush
from coordinator.topics.partition import ReadablePartition
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.schema import ZERO_UUID
from tests.storage.faulty_files import FaultyFiles
from tests.storage.full_disk import FullDisk
from tests.topics.broker import Broker, batch

CONFIG = Config(log_flush=LogFlush.ALWAYS)
TOPIC, GROUP = 2, 32
REFUSED = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

Change = Callable[[], object]
"""The request for a change."""


def create() -> object:
    config = CreatableTopicConfig(name="retention.ms", value="5")
    topic = CreatableTopic(
        name="new", num_partitions=3, replication_factor=1, assignments=[], configs=[config]
    )
    return CreateTopicsRequest(topics=[topic])


def grow() -> object:
    topic = CreatePartitionsTopic(name="orders", count=4)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)


def delete() -> object:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name="orders", topic_id=ZERO_UUID)], timeout_ms=1000)


def configure() -> object:
    return alter(TOPIC, "orders", "retention.ms", "123456789")


def configure_again() -> object:
    return alter(TOPIC, "orders", "max.message.bytes", "54321")


def configure_group() -> object:
    return alter(GROUP, "members", "consumer.session.timeout.ms", "50000")


def alter(kind: int, name: str, key: str, value: str) -> object:
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def reserve_producer_ids() -> object:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)


def delete_records() -> object:
    topic = DeleteRecordsTopic(
        name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=3)]
    )
    return DeleteRecordsRequest(topics=[topic], timeout_ms=1000)


CHANGES = [create, grow, delete, configure, configure_group, reserve_producer_ids]


def ask(broker: Broker, change: Change) -> int:
    """Make a change. Return the error code of the answer."""
    return error_of(broker.begin(change()).finish().response)


def error_of(response: Any) -> int:
    """The one error code in an answer."""
    for field in ("topics", "results", "responses", "partitions"):
        if hasattr(response, field) and not hasattr(response, "error_code"):
            (response,) = getattr(response, field)
    error: int = response.error_code
    return error


def prepared() -> tuple[Broker, FullDisk]:
    files = FullDisk()
    broker = Broker("/data", CONFIG, files)
    broker.create("orders", 2, segment_ms="54321")
    broker.create("other")
    broker.produce("orders", batch(5))
    broker.produce("other", batch(3))
    for log in broker.plane.list_logs().values():
        log.sync()
    broker.directory.write_checkpoints(broker.plane.list_logs())
    return broker, files


def state(broker: Broker) -> dict[str, Any]:
    """What clients can ask for, but for topic ids."""
    topics = {
        topic.name: (topic.overrides, [ends_of(partition) for partition in topic.partitions])
        for topic in broker.plane.catalogue
    }
    return {
        "topics": topics,
        "groups": dict(broker.plane.catalogue.group_configs.by_group),
        "producer ids": broker.plane.catalogue.producer_ids_reserved,
    }


def ends_of(partition: ReadablePartition) -> tuple[int, int]:
    """Where reading begins and ends."""
    assert partition.log is not None
    return partition.log.log_start_offset, partition.high_watermark


def restarted(files: FaultyFiles) -> dict[str, Any]:
    broker = Broker("/data", CONFIG, files)
    assert broker.plane.list_failed_partitions() == {}
    found = state(broker)
    partitions = {
        f"{name}-{number}" for name, (_, ends) in found["topics"].items() for number in range(len(ends))
    }
    directories = {name for name in files.listdir("/data") if files.is_directory(f"/data/{name}")}
    assert directories - {"journal"} == partitions
    return found


@pytest.mark.parametrize("was_full", [False, True], ids=["space", "full"])
@pytest.mark.parametrize(
    ("change", "stays_full"),
    # DeleteRecords has no reserve: the way back needs space.
    [*product(CHANGES, [False, True]), (delete_records, False)],
)
def test_an_answer_says_what_is_so_after_any_refused_call(
    change: Change, stays_full: bool, was_full: bool
) -> None:
    broker, files = prepared()
    before, calls = state(broker), files.calls.total()
    assert ask(broker, change) == ErrorCode.NONE
    after, calls = state(broker), files.calls.total() - calls
    assert before != after
    for nth in range(1, calls + 10):  # a way back has calls of its own
        broker, files = prepared()
        files.is_full = was_full
        files.arm(nth, stays_full=stays_full)
        error = ask(broker, change)
        assert error in (ErrorCode.NONE, *REFUSED), nth
        expected = before if error else after
        assert state(broker) == expected, nth
        left = files.kill(), files.crash(), files.crash(Random(nth))
        for found in left:
            assert restarted(found) == expected, nth
        files.is_full = False
        files.arm(0, stays_full=False)
        if error:
            assert ask(broker, change) == ErrorCode.NONE, nth
        assert state(broker) == restarted(files.kill()) == restarted(files.crash()) == after, nth


@pytest.mark.parametrize("change", [delete, configure, configure_group, reserve_producer_ids])
def test_a_change_that_needs_no_new_directory_goes_through_on_a_full_disk(change: Change) -> None:
    """A deletion frees space."""
    broker, files = prepared()
    files.is_full = True
    assert ask(broker, change) == ErrorCode.NONE
    assert state(broker) == restarted(files.kill()) == restarted(files.crash())


def test_a_name_can_be_used_again_where_checkpoints_could_not_be_written() -> None:
    """The new log is not taken for the rest of the old one, which was synced further."""
    broker, files = prepared()
    files.is_full = True
    assert ask(broker, delete) == ErrorCode.NONE
    assert broker.create_result("orders", 2).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    files.is_full = False
    assert broker.create_result("orders", 2).error_code == ErrorCode.NONE
    assert broker.produce("orders", batch(1)).error_code == ErrorCode.NONE
    assert restarted(files.kill())["topics"]["orders"] == ({}, [(0, 1), (0, 0)])


@pytest.mark.parametrize("pair", [*combinations(CHANGES, 2), (configure, configure_again)])
def test_of_two_changes_at_the_same_time_only_a_refused_one_has_no_effect(
    pair: tuple[Change, Change],
) -> None:
    """They run between each other's awaits in any order, and the disk refuses any one call."""
    for seed in range(20):
        random = Random(seed)
        broker, files = prepared()
        waiting = {change: broker.begin(change()) for change in pair}
        files.arm(random.randrange(1, 80), stays_full=random.random() < 0.5)
        errors: dict[Change, int] = {}
        while waiting:
            change = random.choice(list(waiting))
            if waiting[change].is_ended:
                errors[change] = error_of(waiting.pop(change).finish().response)
            else:
                waiting[change].advance()
        expected, _ = prepared()
        for change, error in errors.items():
            assert error in (ErrorCode.NONE, *REFUSED, *gone(pair)), seed
            if not error:
                ask(expected, change)
        assert state(broker) == state(expected), seed
        assert restarted(files.kill()) == state(expected), seed


def gone(pair: tuple[Change, Change]) -> list[int]:
    """The error of a change after the other one has deleted its topic."""
    return [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] if delete in pair else []


def test_nothing_of_a_deleted_topic_comes_back_in_a_smaller_one_of_its_name() -> None:
    """Its files could not be removed; the new topic has fewer partitions, and a crash takes its metadata."""
    broker, files = prepared()
    broker.produce("orders", batch(2), 1)
    files.fail("unlink", times=10**9)
    files.fail("replace", nth=5, times=10**9)  # after the catalogue and the checkpoints
    assert ask(broker, delete) == ErrorCode.NONE
    files.faults.clear()
    assert broker.create_result("orders", 1).error_code == ErrorCode.NONE
    broker.produce("orders", batch(1))
    files.unlink("/data/orders-0/partition.metadata")
    assert restarted(files.kill())["topics"]["orders"] == ({}, [(0, 1)])
