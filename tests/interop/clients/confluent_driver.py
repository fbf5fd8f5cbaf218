"""confluent-kafka (librdkafka) as a group member or producer."""

import argparse

import confluent_kafka
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
    libversion,
)

from tests.interop.clients import transactor
from tests.interop.clients.conversation import Commands, Partition, emit, pairs, parse_options

TRANSACTION_TIMEOUT_S = 60
STAY = {"metadata.recovery.strategy": "none"}
"""A producer that bootstraps anew, as when its only broker restarts, may wait for ever for a coordinator that
it has let go: https://github.com/confluentinc/librdkafka/issues/5511"""


class Member:
    """One librdkafka consumer that prints the events of its group."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Subscribe; the group is joined by the first polls."""
        self._owned: set[Partition] = set()
        self._cooperative = options.assignor == "cooperative-sticky" or options.group_protocol == "consumer"
        settings = {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": options.group_protocol,
            "max.poll.interval.ms": options.rebalance_timeout_ms,
            "topic.metadata.refresh.interval.ms": options.metadata_max_age_ms,
            "fetch.wait.max.ms": 100,
            "isolation.level": options.isolation_level,
            "reconnect.backoff.max.ms": 500,
        }
        if options.group_protocol == "consumer":
            settings["group.remote.assignor"] = options.assignor
        else:
            settings["partition.assignment.strategy"] = options.assignor
            settings["session.timeout.ms"] = options.session_timeout_ms
            settings["heartbeat.interval.ms"] = options.heartbeat_ms
        if options.instance_id:
            settings["group.instance.id"] = options.instance_id
        if options.client_id:
            settings["client.id"] = options.client_id
        self._consumer = Consumer(settings)
        self._subscribe([f"^{options.pattern}"] if options.pattern else options.topics)

    def _subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(
            topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        fresh = {(p.topic, p.partition) for p in partitions}
        self._owned = self._owned | fresh if self._cooperative else fresh
        emit("assigned", partitions=pairs(self._owned))

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {(p.topic, p.partition) for p in partitions}
        self._owned -= gone
        emit("revoked", partitions=pairs(gone))

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {(p.topic, p.partition) for p in partitions}
        self._owned -= gone
        emit("lost", partitions=pairs(gone))

    def _commit(self) -> None:
        try:
            done = self._consumer.commit(asynchronous=False)
        except KafkaException as failure:
            error = failure.args[0]
            if error.code() == KafkaError._NO_OFFSET:
                emit("committed", offsets=[])
            else:
                emit("error", name=error.name(), message=error.str(), fatal=error.fatal())
            return
        emit("committed", offsets=[[p.topic, p.partition, p.offset] for p in done or []])

    def run(self, commands: Commands) -> None:
        """Poll until the command `leave`."""
        while True:
            command = commands.next()
            if command == ["commit"]:
                self._commit()
            elif command == ["leave"]:
                break
            elif command and command[0] == "subscribe":
                self._subscribe(command[1].split(","))
            message = self._consumer.poll(0.05)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                emit("error", name=error.name(), message=error.str(), fatal=error.fatal())
                continue
            emit(
                "record",
                topic=message.topic(),
                partition=message.partition(),
                offset=message.offset(),
                value=(message.value() or b"").decode(),
            )
        self._consumer.close()
        emit("closed")


def _transact(producer: Producer) -> bool:
    try:
        producer.init_transactions(20)
        producer.begin_transaction()
    except KafkaException as failure:
        _tell(failure)
        return False
    return True


def produce(options: argparse.Namespace) -> None:
    """Send the requested number of records and print the result."""
    settings = {
        "bootstrap.servers": options.bootstrap,
        "enable.idempotence": options.idempotent,
        "compression.codec": options.codec,
        "linger.ms": 20,
        "delivery.timeout.ms": 20000,
    }
    if options.transactional_id:
        settings |= {"transactional.id": options.transactional_id, "enable.idempotence": True}
    producer = Producer(settings)
    if options.transactional_id and not _transact(producer):
        return
    delivered = 0

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1
        else:
            emit("error", name=error.name(), message=error.str(), fatal=error.fatal())

    for number in range(options.count):
        producer.produce(options.topic, value=f"{options.codec}-{number}", on_delivery=on_delivery)
    producer.flush(60)
    if options.transactional_id:
        producer.commit_transaction(60)
    emit("produced", count=delivered)
    emit("closed")


class Transactor:
    """One transactional librdkafka producer."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Nothing is sent yet."""
        at = {"bootstrap.servers": options.bootstrap, "reconnect.backoff.max.ms": 500, **STAY}
        self._producer = Producer(at | {"transactional.id": options.transactional_id, "linger.ms": 5})
        self._group = Consumer(at | {"group.id": options.group}) if options.group else None

    def init(self) -> None:
        """See `transactor.Transactor`, here and below."""
        self._producer.init_transactions(TRANSACTION_TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def produce(self, topic: str, values: list[str]) -> None:
        failures: list[KafkaError] = []
        for value in values:
            self._producer.produce(
                topic,
                value=value,
                on_delivery=lambda error, _message: failures.append(error) if error else None,
            )
        self._producer.flush(TRANSACTION_TIMEOUT_S)
        if failures:
            raise KafkaException(failures[0])

    def offsets(self, topic: str, partition: int, offset: int) -> None:
        assert self._group is not None
        self._producer.send_offsets_to_transaction(
            [TopicPartition(topic, partition, offset)],
            self._group.consumer_group_metadata(),
            TRANSACTION_TIMEOUT_S,
        )

    def commit(self) -> None:
        self._producer.commit_transaction(TRANSACTION_TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TRANSACTION_TIMEOUT_S)

    def close(self) -> None:
        if self._group is not None:
            self._group.close()


def _tell(failure: KafkaException) -> None:
    error = failure.args[0]
    emit("error", name=error.name(), message=error.str(), fatal=error.fatal() or not error.retriable())


def main() -> None:
    """Run as the options say."""
    options = parse_options()
    emit(
        "ready",
        client="confluent-kafka",
        version=f"{confluent_kafka.__version__} (librdkafka {libversion()[0]})",
    )
    if options.mode == "produce":
        produce(options)
    elif options.mode == "transact":
        transactor.serve(Transactor(options), Commands(), KafkaException, _tell)
    else:
        Member(options).run(Commands())


if __name__ == "__main__":
    main()
