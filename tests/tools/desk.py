"""An administrator's desk: Kafka's tools pointed at the broker, and helpers to create data for them."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.broker import Broker, eventually
from tests.tools.machine import Done, Machine
from tests.tools.table import Row, rows

SESSION_TIMEOUT_MS = 6000
WAIT_S = 60
FOREVER = "retention.ms=-1"


class Desk:
    """The tools and the broker."""

    def __init__(self, broker: Broker, machine: Machine) -> None:
        """Administer a broker with the tools of a machine."""
        self.bootstrap = broker.bootstrap
        self._machine = machine

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Done:
        """Run a tool against the broker."""
        return self._machine.run(tool, *arguments, "--bootstrap-server", self.bootstrap, stdin=stdin)

    def run_alone(self, tool: str, *arguments: str) -> Done:
        """Run a tool that ends with its virtual machine."""
        return self._machine.run_alone(tool, *arguments, "--bootstrap-server", self.bootstrap)

    def groups(self, *arguments: str) -> list[Row]:
        """The rows that kafka-consumer-groups prints; it must not complain."""
        done = self.run("kafka-consumer-groups", *arguments)
        assert done.status == 0, done
        assert "Error" not in done.out, done.out
        return rows(done.out)

    def groups_of_all_kinds(self, *arguments: str) -> list[Row]:
        """The rows that kafka-groups lists; it must not complain."""
        done = self.run("kafka-groups", "--list", *arguments)
        assert done.status == 0, done
        return rows(done.out)

    def run_transactions(self, command: str, *arguments: str) -> Done:
        """Run kafka-transactions, which wants to know the broker before the command."""
        return self._machine.run(
            "kafka-transactions", "--bootstrap-server", self.bootstrap, command, *arguments
        )

    def transactions(self, command: str, *arguments: str) -> list[Row]:
        """The rows that kafka-transactions prints, if any; it must not complain."""
        done = self.run_transactions(command, *arguments)
        assert done.status == 0, done
        return rows(done.out, first=done.out.split(maxsplit=1)[0]) if done.out.strip() else []

    def create_topic(self, topic: str, partitions: int = 1, *configs: str) -> None:
        """Create a topic with kafka-topics. Configs are NAME=VALUE; old timestamps need `FOREVER`."""
        wanted = [word for config in configs for word in ("--config", config)]
        create = ("--create", "--topic", topic, "--partitions", str(partitions))
        done = self.run("kafka-topics", *create, *wanted)
        assert done.status == 0, done

    def produce(self, topic: str, records: Mapping[int, Sequence[int]]) -> None:
        """Write records with these timestamps in Unix milliseconds, by partition."""
        failures: list[object] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for partition, times_ms in records.items():
            for number, time_ms in enumerate(times_ms):
                producer.produce(
                    topic,
                    partition=partition,
                    value=f"{partition}-{number}",
                    timestamp=time_ms,
                    on_delivery=lambda error, _message: failures.append(error) if error else None,
                )
        assert producer.flush(WAIT_S) == 0
        assert not failures, failures[:3]

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets as a consumer without a membership does."""
        with self._consumer(group) as consumer:
            wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
            consumer.commit(offsets=wanted, asynchronous=False)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the output of kafka-consumer-groups about a group's offsets in a topic."""
        seen = self.groups("--describe", "--group", group, "--offsets")
        return {
            int(row["PARTITION"]): int(row["CURRENT-OFFSET"])
            for row in seen
            if row["TOPIC"] == topic and row["CURRENT-OFFSET"] != "-"
        }

    def wait_empty(self, group: str) -> None:
        """Wait until the last member's goodbye has arrived: clients do not wait for its answer."""
        describe = ("--describe", "--group", group, "--state")
        eventually(f"{group} to be empty", lambda: self.groups(*describe)[0]["STATE"] == "Empty")

    @contextlib.contextmanager
    def _consumer(self, group: str, settings: Mapping[str, str | int] | None = None) -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 200,
                **(settings or {}),
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    @contextlib.contextmanager
    def member(self, group: str, topic: str, **settings: str) -> Iterator[Consumer]:
        """Yield a member of the group with the topic's partitions assigned. `settings` have underscores
        for dots.
        """
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        with self._consumer(group, dotted) as consumer:
            assigned: list[TopicPartition] = []
            consumer.subscribe([topic], on_assign=lambda _consumer, partitions: assigned.extend(partitions))
            for _ in range(10 * WAIT_S):
                if assigned:
                    break
                consumer.poll(0.1)
            assert assigned, f"{group} was not assigned {topic} in {WAIT_S} s"
            yield consumer
