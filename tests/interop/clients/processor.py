"""A processor on confluent-kafka: reads records, writes each one's checksum, and says so in one transaction.

In: HOST:PORT, group (also its transactional id), topic to read, topic to write, and what a command `hold` has.
Events on standard output, as the drivers' (`conversation.py`): `committed` with `count`, how many records of the
topic are done; `error`. Commands on standard input:

- `hold COUNT STEP`: once that many records are done, tell `held` at this step of a transaction and stay there; the
  steps are `produced`, `offsets` and `committing`, at which it does not stay.
- `go`: no longer stay.
"""

import sys
import zlib
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.interop.clients.confluent_driver import STAY
from tests.interop.clients.conversation import Commands, emit
from tests.librdkafka import committed_offsets

BATCH: Final = 100
TIMEOUT_S: Final = 60


def transform(value: bytes) -> bytes:
    """What becomes of a record: its value and the checksum of that."""
    return b"%s %08x" % (value, zlib.crc32(value))


class Processor:
    """Consumes, transforms and produces."""

    def __init__(self, bootstrap: str, name: str, source: str, target: str, *hold: str) -> None:
        """Fences its predecessor, and takes its place in the group."""
        at = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, **STAY}
        self._producer = Producer(at | {"transactional.id": name, "linger.ms": 5})
        self._consumer = Consumer(
            at
            | {
                "group.id": name,
                "group.instance.id": name,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "fetch.wait.max.ms": 50,
            }
        )
        self._target = target
        self._commands = Commands()
        self._done = 0
        self._hold = int(hold[0]), hold[1]
        self._producer.init_transactions(TIMEOUT_S)
        self._consumer.subscribe([source])

    def _step(self, name: str) -> None:
        count, step = self._hold
        if name != step or self._done < count:
            return
        emit("held")
        command = [""]
        while name != "committing" and command != ["go"]:
            command = self._commands.wait()
            self._heed(command)

    def _heed(self, command: list[str]) -> None:
        if command[0] == "hold":
            self._hold = int(command[1]), command[2]

    def _tell(self) -> None:
        # Not the positions: a consumer has none in a partition before its first record from there.
        self._done = sum(max(at.offset, 0) for at in self._committed())
        emit("committed", count=self._done)

    def _process(self, messages: list[Message]) -> None:
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(self._target, value=transform(message.value() or b""))
        self._producer.flush(TIMEOUT_S)
        self._step("produced")
        self._producer.send_offsets_to_transaction(
            self._consumer.position(self._consumer.assignment()),
            self._consumer.consumer_group_metadata(),
            TIMEOUT_S,
        )
        self._step("offsets")
        self._step("committing")
        self._producer.commit_transaction(TIMEOUT_S)

    def _committed(self) -> list[TopicPartition]:
        return committed_offsets(self._consumer, self._consumer.assignment())

    def run(self) -> None:
        """Go on until killed."""
        while True:
            command = self._commands.next()
            if command is not None:
                self._heed(command)
            messages = self._consumer.consume(BATCH, 0.2)
            failed = [message.error() for message in messages if message.error() is not None]
            if failed:
                emit("error", name=failed[0].name(), message=failed[0].str(), fatal=failed[0].fatal())
            elif messages:
                self._in_a_transaction(messages)
            elif self._consumer.assignment():
                self._tell()

    def _in_a_transaction(self, messages: list[Message]) -> None:
        try:
            self._process(messages)
        except KafkaException as failure:
            error = failure.args[0]
            emit("error", name=error.name(), message=error.str(), fatal=error.fatal())
            if not error.txn_requires_abort():
                raise
            self._producer.abort_transaction(TIMEOUT_S)
            for at in self._committed():
                self._consumer.seek(TopicPartition(at.topic, at.partition, max(at.offset, 0)))
        else:
            self._tell()


if __name__ == "__main__":
    Processor(*sys.argv[1:]).run()
