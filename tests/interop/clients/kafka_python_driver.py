"""kafka-python as a group member or producer."""

import argparse
import logging
import os

import kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from tests.interop.clients import transactor
from tests.interop.clients.conversation import Commands, Partition, emit, pairs, parse_options

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells of each change of the assignment."""

    def __init__(self, cooperative: bool) -> None:
        """Start without partitions; `cooperative`: assignments add to the owned partitions."""
        self._owned: set[Partition] = set()
        self._cooperative = cooperative

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Report the owned partitions."""
        fresh = {(p.topic, p.partition) for p in assigned}
        self._owned = self._owned | fresh if self._cooperative else fresh
        emit("assigned", partitions=pairs(self._owned))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Report the revoked partitions."""
        self._gone("revoked", revoked)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """Report the lost partitions."""
        self._gone("lost", lost)

    def _gone(self, event: str, partitions: set[TopicPartition]) -> None:
        gone = {(p.topic, p.partition) for p in partitions}
        self._owned -= gone
        emit(event, partitions=pairs(gone))


def _tell(failure: KafkaError) -> None:
    emit(
        "error",
        name=type(failure).__name__,
        message=str(failure),
        fatal=not getattr(failure, "retriable", False),
    )


def _commit(consumer: KafkaConsumer) -> None:
    try:
        consumer.commit()
    except KafkaError as failure:
        _tell(failure)
    else:
        emit("committed", offsets=[])


def join_without_time_limit(consumer: KafkaConsumer) -> None:
    """Work around a bug of kafka-python 3.0.

    When a poll times out while its member joins, and the join completes before the next poll, that poll sees
    no need to join, and the client never adopts the assignment: the member sends no heartbeat and waits
    without end.
    """
    poll = consumer._coordinator.poll
    consumer._coordinator.poll = lambda timeout_ms=None: poll()


def consume(options: argparse.Namespace, commands: Commands) -> None:
    """Be a member of the group until the command `leave`."""
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        **({"client_id": options.client_id} if options.client_id else {}),
        group_instance_id=options.instance_id or None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(ASSIGNORS[options.assignor],),
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_ms,
        max_poll_interval_ms=options.rebalance_timeout_ms,
        metadata_max_age_ms=options.metadata_max_age_ms,
        fetch_max_wait_ms=100,
        isolation_level=options.isolation_level,
        reconnect_backoff_max_ms=500,
    )
    join_without_time_limit(consumer)
    listener = Listener(options.assignor == "cooperative-sticky")
    if options.pattern:
        consumer.subscribe(pattern=f"^{options.pattern}", listener=listener)
    else:
        consumer.subscribe(topics=options.topics, listener=listener)
    while True:
        command = commands.next()
        if command == ["commit"]:
            _commit(consumer)
        elif command == ["leave"]:
            break
        elif command and command[0] == "subscribe":
            consumer.subscribe(topics=command[1].split(","), listener=listener)
        try:
            polled = consumer.poll(timeout_ms=50)
        except KafkaError as failure:
            _tell(failure)
            continue
        for partition, records in polled.items():
            for record in records:
                emit(
                    "record",
                    topic=partition.topic,
                    partition=partition.partition,
                    offset=record.offset,
                    value=(record.value or b"").decode(),
                )
    consumer.close()
    emit("closed")


def produce(options: argparse.Namespace) -> None:
    """Send the requested number of records and print the result."""
    try:
        producer = KafkaProducer(
            bootstrap_servers=options.bootstrap,
            enable_idempotence=options.idempotent or bool(options.transactional_id),
            transactional_id=options.transactional_id or None,
            compression_type=None if options.codec == "none" else options.codec,
            linger_ms=20,
            acks="all",
            max_block_ms=20000,
        )
        if options.transactional_id:
            producer.init_transactions()
            producer.begin_transaction()
        sent = [
            producer.send(options.topic, value=f"{options.codec}-{number}".encode())
            for number in range(options.count)
        ]
        producer.flush(60)
        for future in sent:
            future.get(60)
        if options.transactional_id:
            producer.commit_transaction()
        emit("produced", count=len(sent))
        producer.close()
    except KafkaError as failure:
        _tell(failure)
        return
    emit("closed")


class Transactor:
    """One transactional producer of kafka-python."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Nothing is sent yet."""
        self._group = options.group
        self._producer = KafkaProducer(
            bootstrap_servers=options.bootstrap,
            transactional_id=options.transactional_id,
            linger_ms=5,
            reconnect_backoff_max_ms=500,
        )

    def init(self) -> None:
        """See `transactor.Transactor`, here and below."""
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def produce(self, topic: str, values: list[str]) -> None:
        sent = [self._producer.send(topic, value=value.encode()) for value in values]
        for future in sent:
            future.get(60)

    def offsets(self, topic: str, partition: int, offset: int) -> None:
        consumed = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(consumed, ConsumerGroupMetadata(self._group, -1, "", None))

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close()


def main() -> None:
    """Run as the options say."""
    logging.basicConfig(
        level=os.environ.get("DRIVER_LOG", "WARNING"), format="%(relativeCreated)d %(name)s %(message)s"
    )
    options = parse_options()
    emit("ready", client="kafka-python", version=kafka.__version__)
    if options.mode == "produce":
        produce(options)
    elif options.mode == "transact":
        transactor.serve(Transactor(options), Commands(), KafkaError, _tell)
    else:
        consume(options, Commands())


if __name__ == "__main__":
    main()
