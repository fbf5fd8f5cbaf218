"""Services that compose files run beside Kafka, beside groupd's image, with the environments of public files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.conftest import forwarder, image
from tests.docker.containers.image import Image
from tests.docker.containers.network import PortForwarder
from tests.docker.environments.environment_run import EnvironmentRun
from tests.docker.environments.public_environments import KafkaClient, load_environments
from tests.ecosystem.program import CONNECT, prepared, registry
from tests.ecosystem.rest import ConnectRest
from tests.ecosystem.side_service import SideService, confluent_properties
from tests.ecosystem.worker import MAIN as CONNECT_MAIN
from tests.ecosystem.worker import QUIET as CONNECT_QUIET
from tests.interop.broker import eventually

__all__ = ["forwarder", "image"]

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_LINES = {f"line {number}" for number in range(100)}


class PublicSetup:
    """The brokers of a public set-up, and services beside them."""

    def __init__(self, name: str, image: Image, forwarder: PortForwarder, directory: Path) -> None:
        self._environment = load_environments()[name]
        self._forwarder = forwarder
        self._services: list[SideService] = []
        self._run = EnvironmentRun(self._environment, image, forwarder, directory)
        assert self._run.start_brokers() == []

    def execute(self, line: str) -> str:
        """Run a line of a shell in the container of the first broker; return its output."""
        return self._run.execute(line)

    def client(self, service: str) -> KafkaClient:
        """Return the facts of a service."""
        return next(each for each in self._environment.clients if each.service == service)

    def start(self, service: str, command: list[str], port: int, **environment: str) -> SideService:
        """Start a service; `port` is its HTTP port."""
        self._services.append(
            SideService(
                service, command, port, environment=environment, setup=self._run, forwarder=self._forwarder
            )
        )
        return self._services[-1]

    def close(self) -> None:
        """End the services and the brokers."""
        for service in self._services:
            service.kill()
        self._run.close()


@pytest.fixture
def public_setup(
    request: pytest.FixtureRequest, image: Image, forwarder: PortForwarder, tmp_path: Path
) -> Iterator[PublicSetup]:
    """The set-up that the test names. It ends with the test."""
    setup = PublicSetup(request.param, image, forwarder, tmp_path)
    yield setup
    setup.close()


@pytest.mark.parametrize("public_setup", ["akhq"], indirect=True)
def test_kafka_connect_copies_a_file_by_a_topic(public_setup: PublicSetup, tmp_path: Path) -> None:
    """The file names converters of Confluent's image, which are not on Maven Central, and its folder of plugins."""
    variables = confluent_properties(public_setup.client("connect").environment or {}, "CONNECT_")
    replaced = {"key.converter": _JSON, "value.converter": _JSON, "plugin.path": str(tmp_path)}
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in (variables | replaced).items()))
    java, *options = prepared(*CONNECT)
    service = public_setup.start("connect", [java, CONNECT_QUIET, *options, CONNECT_MAIN, str(file)], 8083)
    worker = ConnectRest(service.url, service.report)
    worker.wait_ready()
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.write_text("".join(f"{line}\n" for line in sorted(_LINES)))
    worker.create("source", {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines"})
    worker.create("sink", {"connector.class": "FileStreamSink", "file": str(sink), "topics": "lines"})
    eventually(
        "the lines", lambda: sink.exists() and set(sink.read_text().split("\n")) >= _LINES, worker.report
    )
    described = public_setup.execute(
        "kafka-topics --bootstrap-server kafka:9092 --describe --topic __connect-.*"
    )
    summaries = [line.split("\t") for line in described.splitlines() if line.startswith("Topic:")]
    assert {(summary[0], summary[2]) for summary in summaries} == {
        ("Topic: __connect-config", "PartitionCount: 1"),
        ("Topic: __connect-offsets", "PartitionCount: 25"),
        ("Topic: __connect-status", "PartitionCount: 5"),
    }


@pytest.mark.parametrize("public_setup", ["ksml"], indirect=True)
def test_a_schema_registry_keeps_its_schemas_in_a_topic(public_setup: PublicSetup) -> None:
    """Apicurio Registry answers from its topic. It has the API of Confluent's registry, too."""
    facts = public_setup.client("schema_registry")
    registry_service = public_setup.start("schema_registry", registry(), 8081, **(facts.environment or {}))
    registry_service.wait_for("/apis")
    subject = "/apis/ccompat/v7/subjects/orders-value/versions"
    schema = {"schema": '{"type": "string"}'}
    assert json.loads(registry_service.fetch(subject, "POST", schema)) == {"id": 1}
    assert json.loads(registry_service.fetch(f"{subject}/latest"))["version"] == 1
    offsets = public_setup.execute(
        "kafka-get-offsets.sh --bootstrap-server broker:9093 --topic _apciurio-kafkasql-store"
    )
    topic, partition, end = offsets.split(":")
    assert (topic, partition) == ("_apciurio-kafkasql-store", "0")
    assert int(end) > 0
