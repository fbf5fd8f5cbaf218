"""A worker of Kafka Connect in distributed mode."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from protocol.messages.describe_groups import DescribeGroupsRequest
from tests.ecosystem.conftest import Start
from tests.ecosystem.program import CONNECT, prepared
from tests.ecosystem.rest import ConnectRest
from tests.free_ports import free_ports
from tests.interop.broker import Broker, eventually
from tests.kafka_log.connection import Connection

MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
GROUP: Final = "connect-cluster"


class Worker(ConnectRest):
    """One worker of the group `connect-cluster`."""

    def __init__(
        self,
        command: Sequence[str],
        start: Start,
        broker: Broker,
        directory: Path,
        **more_properties: str,
    ) -> None:
        """Start the worker by a command that runs a Java class. `directory` gets its properties file;
        `more_properties` have underscores for dots.
        """
        (port,) = free_ports(1)
        self.id = f"127.0.0.1:{port}"
        directory.mkdir()
        plain = "org.apache.kafka.connect.storage.StringConverter"
        properties = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": GROUP,
            "key.converter": plain,
            "value.converter": plain,
            "listeners": f"http://{self.id}",
            "rest.advertised.host.name": "127.0.0.1",
            "plugin.discovery": "service_load",
            "offset.flush.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "500",
            # Long enough for a busy machine.
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "400",
            "status.storage.partitions": "2",
            "offset.storage.partitions": "2",
            "consumer.session.timeout.ms": "10000",
            "consumer.heartbeat.interval.ms": "400",
        }
        for storage in ("config", "offset", "status"):
            properties[f"{storage}.storage.topic"] = f"connect-{storage}"
            properties[f"{storage}.storage.replication.factor"] = str(broker.replication_factor)
        properties |= {name.replace("_", "."): value for name, value in more_properties.items()}
        file = directory / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._program = start([*command[:1], QUIET, *command[1:], MAIN, str(file)])
        super().__init__(f"http://{self.id}", self._program.report)

    def kill(self) -> None:
        """kill -9."""
        self._program.kill()


def two_workers(start: Start, broker: Broker, directory: Path, **more_properties: str) -> list[Worker]:
    """Start two workers, with further properties (underscores for dots), and wait until they are a group."""
    command = prepared(*CONNECT)
    workers = [
        Worker(command, start, broker, directory / name, **more_properties) for name in ("first", "second")
    ]
    for worker in workers:
        worker.wait_ready()
    eventually("both workers to be members", lambda: len(assignments(broker)) == 2, workers[0].report)
    return workers


def assignments(broker: Broker) -> dict[str, bytes]:
    """What the group's workers have to do, by member id; nothing while it rebalances."""
    with Connection(broker.coordinator(GROUP)) as connection:
        (group,) = connection.call(DescribeGroupsRequest(groups=[GROUP]), 5).groups
    if group.group_state != "Stable":
        return {}
    assert group.protocol_type == "connect"
    return {member.member_id: bytes(member.member_assignment) for member in group.members}
