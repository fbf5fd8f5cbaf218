"""aiokafka as a group member or producer."""

import argparse
import asyncio
from collections.abc import Coroutine
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from tests.interop.clients import transactor
from tests.interop.clients.conversation import Commands, emit, pairs, parse_options

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells of each change of the assignment."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Report the owned partitions."""
        emit("assigned", partitions=pairs({(p.topic, p.partition) for p in assigned}))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Report the revoked partitions."""
        emit("revoked", partitions=pairs({(p.topic, p.partition) for p in revoked}))


def _tell(failure: KafkaError) -> None:
    emit(
        "error",
        name=type(failure).__name__,
        message=str(failure),
        fatal=not getattr(failure, "retriable", False),
    )


async def _commit(consumer: AIOKafkaConsumer) -> None:
    try:
        await consumer.commit()
    except KafkaError as failure:
        _tell(failure)
    else:
        emit("committed", offsets=[])


async def consume(options: argparse.Namespace, commands: Commands) -> None:
    """Be a member of the group until the command `leave`."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        **({"client_id": options.client_id} if options.client_id else {}),
        group_instance_id=options.instance_id or None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(ASSIGNORS[options.assignor],),
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_ms,
        rebalance_timeout_ms=options.rebalance_timeout_ms,
        metadata_max_age_ms=options.metadata_max_age_ms,
        fetch_max_wait_ms=100,
        isolation_level=options.isolation_level,
    )
    listener = Listener()
    if options.pattern:
        consumer.subscribe(pattern=f"^{options.pattern}", listener=listener)
    else:
        consumer.subscribe(topics=options.topics, listener=listener)
    await consumer.start()
    while True:
        command = commands.next()
        if command == ["commit"]:
            await _commit(consumer)
        elif command == ["leave"]:
            break
        elif command and command[0] == "subscribe":
            consumer.subscribe(topics=command[1].split(","), listener=listener)
        try:
            polled = await consumer.getmany(timeout_ms=50)
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
    await consumer.stop()
    emit("closed")


async def produce(options: argparse.Namespace) -> None:
    """Send the requested number of records and print the result."""
    producer = AIOKafkaProducer(
        bootstrap_servers=options.bootstrap,
        enable_idempotence=options.idempotent or bool(options.transactional_id),
        transactional_id=options.transactional_id or None,
        compression_type=None if options.codec == "none" else options.codec,
        linger_ms=20,
        acks="all",
    )
    try:
        await producer.start()
        if options.transactional_id:
            await producer.begin_transaction()
        sent = [
            await producer.send(options.topic, value=f"{options.codec}-{number}".encode())
            for number in range(options.count)
        ]
        await asyncio.gather(*sent)
        if options.transactional_id:
            await producer.commit_transaction()
        emit("produced", count=len(sent))
    except KafkaError as failure:
        _tell(failure)
        return
    finally:
        await producer.stop()
    emit("closed")


class Transactor:
    """One transactional producer of aiokafka; its event loop runs while a command does."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Nothing is sent yet."""
        self._options = options
        self._runner = asyncio.Runner()
        self._producer: Any = None

    def _run(self, step: Coroutine[Any, Any, Any]) -> None:
        self._runner.run(step)

    async def _init(self) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._options.bootstrap,
            transactional_id=self._options.transactional_id,
            linger_ms=5,
        )
        await self._producer.start()

    def init(self) -> None:
        """See `transactor.Transactor`, here and below."""
        self._run(self._init())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    async def _produce(self, topic: str, values: list[str]) -> None:
        await asyncio.gather(*[await self._producer.send(topic, value=value.encode()) for value in values])

    def produce(self, topic: str, values: list[str]) -> None:
        self._run(self._produce(topic, values))

    def offsets(self, topic: str, partition: int, offset: int) -> None:
        consumed = {TopicPartition(topic, partition): offset}
        self._run(self._producer.send_offsets_to_transaction(consumed, self._options.group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._runner.close()


def main() -> None:
    """Run as the options say."""
    options = parse_options()
    emit("ready", client="aiokafka", version=aiokafka.__version__)
    if options.mode == "produce":
        asyncio.run(produce(options))
    elif options.mode == "transact":
        transactor.serve(Transactor(options), Commands(), KafkaError, _tell)
    else:
        asyncio.run(consume(options, Commands()))


if __name__ == "__main__":
    main()
