"""Consume a topic in a group and print every change of assignment: consumer.py BOOTSTRAP TOPIC GROUP."""

import signal
import socket
import sys
from types import FrameType

from confluent_kafka import Consumer, KafkaException, TopicPartition


def show(what: str, partitions: list[TopicPartition]) -> None:
    print(f"{what} {sorted(f'{p.topic}-{p.partition}' for p in partitions)}")


def main(bootstrap: str, topic: str, group: str) -> int:
    stopping = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": socket.gethostname(),
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
        }
    )
    consumer.subscribe(
        [topic],
        on_assign=lambda _consumer, partitions: show("assigned", partitions),
        on_revoke=lambda _consumer, partitions: show("revoked", partitions),
        on_lost=lambda _consumer, partitions: show("lost", partitions),
    )
    consumed = 0
    while not stopping:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if (error := message.error()) is not None:
            if error.fatal():
                raise KafkaException(error)
            print(f"error: {error}")
            continue
        consumed += 1
        if consumed % 50 == 0:
            print(f"consumed {consumed}, last {message.topic()}-{message.partition()}@{message.offset()}")
    # close() commits, then leaves the group: the others get these partitions at once.
    consumer.close()
    print(f"left after {consumed} records")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
