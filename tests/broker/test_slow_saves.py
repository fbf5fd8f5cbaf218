"""Requests that change metadata files on a slow disk: only their own clients wait."""

import asyncio
import errno
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from coordinator.topics.catalogue import Catalogue
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from storage.offset_checkpoint import LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from storage.storage_errors import catch_os_error
from storage.topic_partition import TopicPartition
from tests.apis.test_topics import produce
from tests.broker.harness import Client, heartbeat_request, join_alone, serving
from tests.broker.test_group_partitions import ONE_PARTITION
from tests.storage.faulty_files import FaultyFiles
from tests.topics.broker import Broker
from tests.topics.stepped_request import SteppedRequest

ORDERS = TopicPartition("orders", 0)
TIMEOUT_S = 60


class GatedFiles(FaultyFiles):
    """Once `is_slow`, each sync waits for its release; syncs that block the event loop are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.on_the_loop = 0
        self.is_syncing = threading.Event()
        self._waiting = 0
        self._counting = threading.Lock()
        self._goes_on = threading.Semaphore(0)

    def call(self, operation: str) -> int:
        if self.is_slow and operation in ("fdatasync", "fsync_directory"):
            if threading.current_thread() is threading.main_thread():
                self.on_the_loop += 1
            else:
                with self._counting:
                    self._waiting += 1
                    self.is_syncing.set()
                assert self._goes_on.acquire(timeout=TIMEOUT_S)
        return super().call(operation)

    def let_one_go(self) -> None:
        """A sync that waits, or the next one; several threads may have one that does."""
        with self._counting:
            self._waiting = max(0, self._waiting - 1)
            if not self._waiting:
                self.is_syncing.clear()
        self._goes_on.release()

    def let_all_go(self) -> None:
        """From here on nothing waits."""
        self.is_slow = False
        with self._counting:
            self._goes_on.release(max(1, self._waiting))
            self._waiting = 0


def alteration(name: str, value: str) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=2, resource_name="orders", configs=[config])],
        validate_only=False,
    )


def deletion_of_records() -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    topic = DeleteRecordsTopic(name="orders", partitions=[partition])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)


def records_are_deleted(answer: Any, left: FaultyFiles) -> bool:
    (partition,) = answer.topics[0].partitions
    starts = read_offsets(left, f"/data/{LOG_START_OFFSETS}")
    return (partition.error_code, partition.low_watermark, starts[ORDERS]) == (ErrorCode.NONE, 1, 1)


def topic_is_deleted(answer: Any, left: FaultyFiles) -> bool:
    points = read_offsets(left, f"/data/{RECOVERY_POINTS}")
    is_gone = ORDERS not in points and "/data/orders-0" not in left.names
    return answer.responses[0].error_code == ErrorCode.NONE and is_gone


def is_altered(answer: Any, left: FaultyFiles) -> bool:
    return answer.responses[0].error_code == ErrorCode.NONE and b"12345" in left.read("/data/topics.json")


def id_is_reserved(answer: Any, left: FaultyFiles) -> bool:
    is_saved = b'"producer_ids_reserved": 1000' in left.read("/data/topics.json")
    return (answer.error_code, answer.producer_id) == (ErrorCode.NONE, 0) and is_saved


@pytest.mark.parametrize(
    ("request_", "version", "is_done"),
    [
        (deletion_of_records(), 1, records_are_deleted),
        (DeleteTopicsRequest(topic_names=["orders"], timeout_ms=10_000), 1, topic_is_deleted),
        (alteration("retention.ms", "12345"), 1, is_altered),
        (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 1, id_is_reserved),
    ],
    ids=["DeleteRecords", "DeleteTopics", "IncrementalAlterConfigs", "InitProducerId"],
)
async def test_a_neighbour_is_answered_while_the_disk_takes_its_time(
    request_: Any, version: int, is_done: Callable[[Any, FaultyFiles], bool]
) -> None:
    files = GatedFiles()
    async with (
        serving("/data", ONE_PARTITION, topics=[("orders", 1)], files=files) as server,
        Client(server) as client,
        Client(server) as neighbour,
    ):
        produced = await client.call(produce(b"a"), 9)
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        member_id, generation_id = await join_alone(neighbour, "members")
        files.is_slow = True
        client.send(request_, version)
        answering = asyncio.ensure_future(client.receive())
        saves = 0
        while not answering.done():
            if files.is_syncing.is_set():
                beat = await neighbour.call(heartbeat_request("members", member_id, generation_id), 3)
                assert beat.error_code == ErrorCode.NONE
                # Later ones may be of the log itself, which is synced beside.
                assert saves or not answering.done()
                saves += 1
                files.let_one_go()
            await asyncio.sleep(0.001)
        files.let_all_go()
        assert saves > 0
        assert files.on_the_loop == 0
        assert is_done(answering.result(), files.crash())


async def test_producers_that_come_meanwhile_share_one_reservation() -> None:
    files = GatedFiles()
    async with serving("/data", ONE_PARTITION, files=files) as server:
        clients = [await Client(server).__aenter__() for _ in range(5)]
        files.is_slow = True
        for client in clients:
            client.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 1)
        assert await asyncio.to_thread(files.is_syncing.wait, TIMEOUT_S)
        await clients.pop().__aexit__()  # the other clients keep their ids
        files.let_all_go()
        ids = [(await client.receive()).producer_id for client in clients]
        assert len(set(ids)) == len(ids)
        assert max(ids) < 1000
        assert b'"producer_ids_reserved": 1000' in files.crash().read("/data/topics.json")
        for client in clients:
            await client.__aexit__()


async def test_changes_of_one_topic_at_the_same_time_are_both_kept() -> None:
    """A later request builds on the change being saved and is answered after it."""
    files = GatedFiles()
    async with (
        serving("/data", ONE_PARTITION, topics=[("orders", 1)], files=files) as server,
        Client(server) as first,
        Client(server) as second,
    ):
        files.is_slow = True
        first.send(alteration("retention.ms", "12345"), 1)
        assert await asyncio.to_thread(files.is_syncing.wait, TIMEOUT_S)
        second.send(alteration("segment.ms", "54321"), 1)
        files.is_slow = False
        files.let_one_go()
        for client in (first, second):
            assert (await client.receive()).responses[0].error_code == ErrorCode.NONE
        topic = server.data_plane.catalogue.find_topic("orders")
        assert topic is not None
        assert topic.overrides == {"retention.ms": "12345", "segment.ms": "54321"}
        saved = files.crash().read("/data/topics.json")
        assert b"12345" in saved
        assert b"54321" in saved


@pytest.mark.parametrize("failing", ["first", "second", "both"])
def test_of_two_changes_those_are_in_force_that_are_on_the_disk(failing: str) -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    broker.create("orders", 1)
    catalogue: Catalogue = broker.plane.catalogue
    topic = catalogue.find_topic("orders")
    assert topic is not None
    one, other = {"retention.ms": "1"}, {"segment.ms": "54321"}
    changes = [
        SteppedRequest(
            catalogue.configure_topic(broker.create_work(), topic, lambda before: {**before, **one})
        ),
        SteppedRequest(
            catalogue.configure_topic(broker.create_work(), topic, lambda before: {**before, **other})
        ),
    ]
    for name, change in zip(("first", "second"), changes, strict=True):
        if failing in (name, "both"):
            files.fail("write_atomically", error=errno.EIO)
        with pytest.raises(OSError, match="Input/output") if failing in (name, "both") else nullcontext():
            change.finish()
        files.faults.clear()
    wanted = {"first": other, "second": one, "both": {}}[failing]
    assert topic.overrides == wanted
    assert catch_os_error(catalogue.save) is None
    broker.crash()
    broker.open()
    found = broker.plane.catalogue.find_topic("orders")
    assert found is not None
    assert found.overrides == wanted
