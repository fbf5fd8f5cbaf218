"""Several writers and readers of one committed offset, each a stock client in a thread of its own."""

import itertools
import threading
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.cluster.etcd.linearizable import COMMIT, FETCH, REPEATED_AFTER_MS, Operations, now_ns

ANSWER_S = 3.0
AGAIN_S = 0.3
NOTHING = -1
"""The offset that a fetch reports for a partition without a commit."""


class StockHistory:
    """The commits and fetches of stock clients on one partition of one group, without membership."""

    def __init__(self, bootstrap: str, group: str, partition: int, operations: Operations) -> None:
        self.key = f"{group}/orders/{partition}"
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": int(ANSWER_S * 1000),
            "retry.backoff.ms": REPEATED_AFTER_MS,
            "log_level": 0,
        }
        self._partition = partition
        self._operations = operations
        self._numbers = itertools.count()
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, writers: int = 2, readers: int = 2) -> None:
        """All of them."""
        uses = [self._commit] * writers + [self._fetch] * readers
        self._threads = [threading.Thread(target=self._forever, args=(use,)) for use in uses]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends them."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _forever(self, use: Callable[[Consumer], bool]) -> None:
        consumer = Consumer(self._settings)
        try:
            while not self._is_over.is_set():
                if not use(consumer):
                    self._is_over.wait(AGAIN_S)
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer) -> bool:
        client, number, begin = self._operations.client(), next(self._numbers), now_ns()
        place = TopicPartition("orders", self._partition, number)
        try:
            [done] = consumer.commit(offsets=[place], asynchronous=False)
            error = done.error
        except KafkaException as raised:
            error = raised.args[0]
        if error is not None:  # the previous owner may have written it before it lost its partition
            self._operations.may_happen(self.key, client, number, begin, is_repeated=True)
            return False
        self._operations.happened(self.key, client, COMMIT, number, begin, is_repeated=True)
        return True

    def _fetch(self, consumer: Consumer) -> bool:
        client, begin = self._operations.client(), now_ns()
        try:
            [found] = consumer.committed([TopicPartition("orders", self._partition)], timeout=ANSWER_S)
        except KafkaException:
            return False
        if found.error is not None:
            return False
        offset = found.offset if found.offset >= 0 else NOTHING
        self._operations.happened(self.key, client, FETCH, offset, begin)
        return True
