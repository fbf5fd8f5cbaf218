"""Produce one numbered record every 200 ms: producer.py BOOTSTRAP TOPIC."""

import signal
import sys
import time
from types import FrameType

from confluent_kafka import KafkaError, Message, Producer


def main(bootstrap: str, topic: str) -> int:
    stopping = False
    failed = 0

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal failed
        if error is not None:
            failed += 1
            print(f"not delivered: {error}")

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "producer", "linger.ms": 50})
    number = 0
    due = time.monotonic()
    while not stopping:
        producer.produce(topic, key=str(number % 100), value=f"order {number}", on_delivery=delivered)
        number += 1
        due += 0.2
        # poll() comes back as soon as one record is delivered.
        while not stopping and (left := due - time.monotonic()) > 0:
            producer.poll(left)
        if number % 50 == 0:
            print(f"produced {number} records, {failed} failed")
    unsent = producer.flush(5)
    print(f"stopped after {number} records, {failed} failed, {unsent} unsent")
    return 1 if failed or unsent else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
