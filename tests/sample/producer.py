"""The producer of the sample."""

import threading
from typing import Final

from confluent_kafka import Producer

TICK_S: Final = 0.1


class Production:
    """Writes so many messages a second to each topic until stopped."""

    def __init__(self, bootstrap: str, per_second: dict[str, float]) -> None:
        self._per_second = per_second
        self._stop = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._thread = threading.Thread(target=self._produce, name="production")
        self._thread.start()

    def stop(self) -> None:
        """Stop, and return when the producer has flushed for at most 60 s."""
        self._stop.set()
        self._thread.join()

    def _produce(self) -> None:
        due = dict.fromkeys(self._per_second, 0.0)
        number = 0
        while not self._stop.wait(TICK_S):
            for topic, rate in self._per_second.items():
                due[topic] += rate * TICK_S
                while due[topic] >= 1:
                    due[topic] -= 1
                    number += 1
                    self._producer.produce(topic, key=str(number), value=f"{topic} {number}")
            self._producer.poll(0)
        self._producer.flush(60)
