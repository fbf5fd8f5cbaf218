import struct

import pytest
from crc32c import crc32c

from coordinator.config.properties import Config
from coordinator.core.response_status import CLOSE_CONNECTION, NO_RESPONSE
from coordinator.core.shared_types import LogFlush
from protocol.error_codes import ErrorCode
from protocol.messages.produce import ProduceResponse
from storage.batch import decode_records, encode_batch
from storage.record import Record
from tests.topics.broker import NOW_MS, Broker, batch, produce_request, sequenced

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
HOUR_MS = 3_600_000


def changed(data: bytes, layout: str, position: int, value: int, *, sign: bool = True) -> bytes:
    """A batch with one field of its header replaced, and a checksum that holds again."""
    edited = bytearray(data)
    struct.pack_into(layout, edited, position, value)
    if sign:
        struct.pack_into(">I", edited, 17, crc32c(bytes(edited[21:])))
    return bytes(edited)


def stored(broker: Broker, topic: str = "orders", partition: int = 0) -> list[Record]:
    part = broker.plane.catalogue.find_partition(topic, partition)
    assert part is not None
    assert part.log is not None
    return [record for found in part.log.iterate_batches() for record in decode_records(found.data)]


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_by_name(broker: Broker, version: int) -> None:
    broker.create("orders", 2)
    broker.produce("orders", batch(3), 1, version=version)
    second = broker.produce("orders", batch(2), 1, version=version)
    assert (second.error_code, second.base_offset, second.log_append_time_ms) == (ErrorCode.NONE, 3, -1)
    if version >= 5:
        assert second.log_start_offset == 0
    assert [record.offset for record in stored(broker, partition=1)] == [0, 1, 2, 3, 4]


def test_by_id(broker: Broker) -> None:
    topic_id = broker.create("orders")
    request = produce_request("", batch())
    request.topic_data[0].topic_id = topic_id
    response = broker.ask(request, ProduceResponse)
    assert response.responses[0].topic_id == topic_id
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    request.topic_data[0].topic_id = b"x" * 16
    refused = broker.ask(request, ProduceResponse).responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_compressed_batches_are_stored_as_they_came(broker: Broker, codec: int) -> None:
    broker.create("orders")
    data = batch(values=[b"a" * 100, b"b" * 100], codec=codec)
    assert broker.produce("orders", data).error_code == ErrorCode.NONE
    part = broker.plane.catalogue.find_partition("orders", 0)
    assert part is not None
    assert part.log is not None
    (found,) = part.log.iterate_batches()
    assert found.data[21:] == data[21:]
    assert [record.value for record in stored(broker)] == [b"a" * 100, b"b" * 100]


def test_a_topic_that_names_a_codec_stores_batches_as_they_came_all_the_same(broker: Broker) -> None:
    broker.create("packed", compression_type="gzip")
    data = batch(values=[b"a" * 100])
    assert broker.produce("packed", data).error_code == ErrorCode.NONE
    part = broker.plane.catalogue.find_partition("packed", 0)
    assert part is not None
    assert part.log is not None
    (found,) = part.log.iterate_batches()
    assert found.data[21:] == data[21:]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch()[:-2], ErrorCode.INVALID_RECORD),
        (batch()[:30], ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (changed(batch(), ">b", 16, 0, sign=False), ErrorCode.INVALID_RECORD),
        (changed(batch(), ">b", 16, 1, sign=False), ErrorCode.INVALID_RECORD),
        (changed(batch(), ">b", 16, 3, sign=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(), ">b", 20, 5, sign=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(), ">i", 8, 5, sign=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(), ">i", 8, 20, sign=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(), ">i", 8, -5, sign=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(), ">q", 0, 1, sign=False), ErrorCode.INVALID_RECORD),
        (changed(batch(2), ">i", 57, 3), ErrorCode.INVALID_RECORD),
        (changed(batch(2), ">i", 57, 0), ErrorCode.INVALID_RECORD),
        (changed(batch(2, codec=GZIP), ">i", 57, 2**31 - 1), ErrorCode.RECORD_LIST_TOO_LARGE),
        (changed(batch(2), ">i", 23, 5), ErrorCode.INVALID_RECORD),
        (changed(batch(2), ">h", 21, 0x20), ErrorCode.INVALID_RECORD),
        (changed(batch(2), ">h", 21, 0x05), ErrorCode.INVALID_RECORD),
        (changed(batch(2), ">h", 21, GZIP), ErrorCode.INVALID_RECORD),
        (sequenced(5, 0, -1), ErrorCode.INVALID_RECORD),
        (batch(time_ms=NOW_MS + HOUR_MS + 1), ErrorCode.INVALID_TIMESTAMP),
        (batch(values=[b"v" * 1_100_000]), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_refused_batches_leave_nothing(broker: Broker, data: bytes | None, code: ErrorCode) -> None:
    broker.create("orders")
    response = broker.produce("orders", data)
    assert (response.error_code, response.base_offset) == (code, -1)
    assert stored(broker) == []


def test_a_torn_end_after_the_batch_is_ignored(broker: Broker) -> None:
    broker.create("orders")
    assert broker.produce("orders", batch(2) + b"xx").error_code == ErrorCode.NONE
    assert len(stored(broker)) == 2


def test_zstd_needs_version_7(broker: Broker) -> None:
    broker.create("orders")
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert broker.produce("orders", batch(codec=ZSTD), version=6).error_code == code
    assert broker.produce("orders", batch(codec=ZSTD), version=7).error_code == ErrorCode.NONE


def test_partitions_that_do_not_exist(broker: Broker) -> None:
    broker.create("orders")
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.produce("gone", batch()).error_code == code
    assert broker.produce("orders", batch(), 1).error_code == code
    assert broker.produce("orders", batch(), -1).error_code == code


def test_one_refused_partition_leaves_the_others(broker: Broker) -> None:
    broker.create("orders", 2)
    request = produce_request("orders", batch(), 0)
    request.topic_data += produce_request("orders", b"", 1).topic_data
    response = broker.ask(request, ProduceResponse, 12)
    codes = [part.error_code for topic in response.responses for part in topic.partition_responses]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_RECORD]
    assert len(stored(broker)) == 1


@pytest.mark.parametrize("acks", [5, 2, -2])
def test_acks_that_do_not_exist(broker: Broker, acks: int) -> None:
    broker.create("orders")
    assert broker.produce("orders", batch(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert stored(broker) == []


def test_acks_0_gets_no_answer_and_an_error_closes_the_connection(broker: Broker) -> None:
    broker.create("orders")
    assert broker.send(produce_request("orders", batch(), acks=0), 12).response is NO_RESPONSE
    assert len(stored(broker)) == 1
    assert broker.send(produce_request("gone", batch(), acks=0), 12).response is CLOSE_CONNECTION


def test_internal_topics_take_nothing(broker: Broker) -> None:
    broker.create("__share_group_state")
    assert broker.produce("__share_group_state", batch()).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_time_of_arrival(broker: Broker) -> None:
    broker.create("orders", message_timestamp_type="LogAppendTime")
    broker.advance(1000)
    response = broker.produce("orders", batch(2, time_ms=5))
    assert response.log_append_time_ms == NOW_MS + 1000
    assert [record.timestamp_ms for record in stored(broker)] == [NOW_MS + 1000] * 2


def test_refused_times_are_named_record_by_record(broker: Broker) -> None:
    broker.create("orders", message_timestamp_before_max_ms="1000")
    records = [Record(0, time_ms, b"k", b"v", ()) for time_ms in (NOW_MS, NOW_MS - 1001, -1, NOW_MS - 1000)]
    response = broker.produce("orders", encode_batch(records))
    assert response.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [record.batch_index for record in response.record_errors] == [1]
    assert broker.produce("orders", batch(time_ms=-1)).error_code == ErrorCode.NONE


def claiming_append_time(data: bytes) -> bytes:
    return changed(data, ">h", 21, 0x08)


def test_the_time_of_arrival_is_not_a_producers_to_claim(broker: Broker) -> None:
    broker.create("stamped", message_timestamp_type="LogAppendTime")
    response = broker.produce("stamped", claiming_append_time(batch(2)))
    assert response.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [record.batch_index for record in response.record_errors] == [0, 1]
    assert stored(broker, "stamped") == []


def test_where_it_is_claimed_a_time_counts_if_there_is_one(broker: Broker) -> None:
    broker.create("orders")
    refused = broker.produce("orders", claiming_append_time(batch(2, time_ms=-1)))
    assert (refused.error_code, len(refused.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, 2)
    far = changed(claiming_append_time(batch(2)), ">q", 35, NOW_MS * 2)
    assert broker.produce("orders", far).error_code == ErrorCode.INVALID_TIMESTAMP
    assert broker.produce("orders", claiming_append_time(batch(2))).error_code == ErrorCode.NONE
    assert [record.timestamp_ms for record in stored(broker)] == [NOW_MS, NOW_MS]


def test_of_a_missing_key_and_a_claimed_time_the_time_is_the_error(broker: Broker) -> None:
    broker.create("orders", cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    records = [Record(0, NOW_MS, key, b"v", ()) for key in (None, b"k")]
    response = broker.produce("orders", claiming_append_time(encode_batch(records)))
    assert response.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [record.batch_index for record in response.record_errors] == [0, 1]


def test_a_compacted_topic_wants_keys(broker: Broker) -> None:
    broker.create("orders", cleanup_policy="compact,delete")
    records = [Record(0, NOW_MS, key, b"v", ()) for key in (b"a", None, b"", None)]
    response = broker.produce("orders", encode_batch(records))
    assert response.error_code == ErrorCode.INVALID_RECORD
    assert [record.batch_index for record in response.record_errors] == [1, 3]
    assert broker.produce("orders", batch(2)).error_code == ErrorCode.NONE


def test_a_batch_larger_than_a_segment(broker: Broker) -> None:
    broker.create("orders", internal_segment_bytes="100")
    response = broker.produce("orders", batch(values=[b"v" * 100]))
    assert response.error_code == ErrorCode.RECORD_LIST_TOO_LARGE


# Idempotent producers


def test_a_batch_sent_twice_is_stored_once(broker: Broker) -> None:
    broker.create("orders")
    first = broker.produce("orders", sequenced(7, 0, 0, 2))
    again = broker.produce("orders", sequenced(7, 0, 0, 2))
    assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, ErrorCode.NONE)
    assert len(stored(broker)) == 2


def test_a_new_producer_is_refused_by_a_partition_that_remembers_too_many(broker: Broker) -> None:
    broker.create("orders")
    assert broker.produce("orders", sequenced(7, 0, 0, 2)).error_code == ErrorCode.NONE
    partition = broker.plane.catalogue.find_partition("orders", 0)
    assert partition is not None
    assert partition.producers is not None
    partition.producers.state.max_producers = 1
    refused = broker.produce("orders", sequenced(8, 0, 0, 2))
    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.POLICY_VIOLATION, 0)
    assert refused.error_message is not None
    assert "producer.id.expiration.ms" in refused.error_message
    assert broker.produce("orders", sequenced(7, 0, 2)).error_code == ErrorCode.NONE
    assert broker.produce("orders", batch()).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch", "sequence", "code"),
    [
        (1, 2, ErrorCode.NONE),
        (1, 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (1, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (2, 0, ErrorCode.NONE),
        (2, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (-1, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_may_follow(broker: Broker, epoch: int, sequence: int, code: ErrorCode) -> None:
    broker.create("orders")
    broker.produce("orders", sequenced(7, 1, 0, 2))
    assert broker.produce("orders", sequenced(7, epoch, sequence)).error_code == code


def test_producers_and_partitions_count_on_their_own(broker: Broker) -> None:
    broker.create("orders", 2)
    for producer_id, partition in ((7, 0), (8, 0), (7, 1)):
        response = broker.produce("orders", sequenced(producer_id, 0, 0), partition)
        assert response.error_code == ErrorCode.NONE


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_remembers_producers(broker: Broker, clean: bool) -> None:
    broker.create("orders")
    broker.produce("orders", sequenced(7, 0, 0, 2))
    broker.produce("orders", sequenced(7, 0, 2))
    if clean:
        broker.restart()
    else:
        broker.crash()
        broker.open()
    assert broker.produce("orders", sequenced(7, 0, 0, 2)).base_offset == 0
    assert broker.produce("orders", sequenced(7, 0, 3)).error_code == ErrorCode.NONE
    gap = broker.produce("orders", sequenced(7, 0, 9))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_idle_producer_is_forgotten(broker: Broker) -> None:
    broker.create("orders")
    broker.produce("orders", sequenced(7, 0, 0))
    broker.advance(broker.config.producer_id_expiration_ms)
    broker.apply_retention()
    assert broker.produce("orders", sequenced(7, 0, 50)).error_code == ErrorCode.NONE


# Durability


def test_with_log_flush_always_an_answer_waits_for_the_disk(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", Config(log_flush=LogFlush.ALWAYS))
    broker.create("orders")
    answer = broker.send(produce_request("orders", batch(3)), 12)
    ((log, offset),) = answer.durable
    assert offset == 3
    assert log.durable_offset == 0
    assert broker.send(produce_request("orders", batch(), acks=0), 12).durable == ()
    broker.stop()


def test_otherwise_it_does_not(broker: Broker) -> None:
    broker.create("orders")
    assert broker.send(produce_request("orders", batch()), 12).durable == []
