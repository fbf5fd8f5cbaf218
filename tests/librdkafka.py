"""How tests call librdkafka where it does not retry, or can block.

Its consumers and producers look for a new leader or coordinator by themselves. Some calls do not: they fail with
the first answer of a broker that has not heard of a move yet. While a partition has no leader,
`get_watermark_offsets` fails with _UNKNOWN_PARTITION (rd_kafka_topic_partition_list_query_leaders); at the previous
leader it fails with NOT_LEADER_FOR_PARTITION. `committed` fails with NOT_COORDINATOR, `list_topics` with
_TRANSPORT.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

TIMEOUT_S: Final = 60.0
_CALL_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 0.05
_TEMPORARY: Final = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors that end by themselves once each broker knows the current leaders and coordinators."""

COMMITS_DURING_A_TAKEOVER: Final[Mapping[str, int]] = {"retry.backoff.ms": 1000}
"""Properties of a consumer that commits while its coordinator dies: more than its `fetch.wait.max.ms`, 500 ms.

librdkafka may look for the coordinator on the connection of its Fetch. The answer then comes up to
`fetch.wait.max.ms` later, behind that of the Fetch. A commit that is retried earlier, after the default of 100 ms,
fails when the answer changes the address of the coordinator. Because of this failure librdkafka discards the new
coordinator and looks for it again, for up to a minute (confluentinc/librdkafka, issue 3645).
"""

Result = TypeVar("Result")


def retry(call: Callable[[], Result], timeout_s: float = TIMEOUT_S) -> Result:
    """Return the result of a call, which is repeated while it fails with a temporary error.

    Raises KafkaException: another error, or the temporary one that is still there after `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        try:
            return call()
        except KafkaException as failure:
            if failure.args[0].code() not in _TEMPORARY or time.monotonic() > deadline:
                raise
        pause.wait(_PAUSE_S)


def poll_until_assigned(consumer: Consumer) -> None:
    """Poll a subscribed consumer until it has partitions. Raises AssertionError after `TIMEOUT_S` seconds.

    Call it before `close()` if the group may have completed a rebalance since the last poll: `close` then calls
    the rebalance callback, in which the binding can block forever (confluentinc/librdkafka, issue 4041).
    """
    deadline = time.monotonic() + TIMEOUT_S
    while not consumer.assignment():
        assert time.monotonic() < deadline, f"no partitions were assigned within {TIMEOUT_S:g} s"
        consumer.poll(_PAUSE_S)


def end_offset(reader: Consumer, partition: TopicPartition) -> int:
    """Return the log end offset, or the last stable offset for a reader of committed records. Raises as `retry`."""

    def fetch() -> int:
        # The query takes leaders from the client's cache, where a partition without one stays as it is for minutes.
        reader.list_topics(partition.topic, timeout=_CALL_TIMEOUT_S)
        return int(reader.get_watermark_offsets(partition, timeout=_CALL_TIMEOUT_S)[1])

    return retry(fetch)


def committed_offsets(consumer: Consumer, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the committed offsets of the consumer's group, a negative one if missing. Raises as `retry`."""
    asked = list(partitions)

    def fetch() -> list[TopicPartition]:
        found: list[TopicPartition] = consumer.committed(asked, timeout=_CALL_TIMEOUT_S)
        for partition in found:
            if partition.error is not None:
                raise KafkaException(partition.error)
        return found

    return retry(fetch)


def partition_leaders(client: Consumer | AdminClient, topic: str) -> dict[int, int]:
    """Return the leader's node id for each partition of a topic, -1 if it has no leader. Raises as `retry`."""

    def fetch() -> dict[int, int]:
        found = client.list_topics(topic, timeout=_CALL_TIMEOUT_S).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        return {number: partition.leader for number, partition in found.partitions.items()}

    return retry(fetch)


def wait_for_leaders(bootstrap: str, topic: str, is_expected: Callable[[dict[int, int]], bool]) -> None:
    """Wait until the leaders of a topic, as `partition_leaders` returns them, are as expected.

    Raises AssertionError after `TIMEOUT_S` seconds; otherwise as `retry`.
    """
    client = AdminClient({"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 500})
    deadline = time.monotonic() + TIMEOUT_S
    pause = threading.Event()
    while not is_expected(leaders := partition_leaders(client, topic)):
        assert time.monotonic() < deadline, f"the leaders of {topic} are still {leaders}"
        pause.wait(_PAUSE_S)
