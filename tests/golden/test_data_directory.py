"""A daemon starts on the data directory of each earlier version, and serves the same groups, offsets and topics."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from tests.archive import unpack
from tests.free_ports import free_ports
from tests.golden.data_directory import ARCHIVE, CONTENT, TIMEOUT_S, daemon_on, describe
from tests.golden.versions import VERSIONS, golden_path, read_json
from tests.interop.daemon import Daemon

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "alice", "sasl.password": "secret"}


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def directory(version: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("golden") / "data"
    directory.mkdir()
    unpack(golden_path(version, ARCHIVE), str(directory))
    return str(directory)


@pytest.fixture(scope="module")
def users() -> str:
    """Where clients have to log in."""
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture(scope="module")
def daemon(directory: str, users: str) -> Iterator[Daemon]:
    daemon = daemon_on(
        directory,
        {
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
        },
        listen=f"PLAINTEXT://127.0.0.1:0,USERS://{users}",
    )
    yield daemon
    daemon.kill()


def test_all_is_served_as_before(version: str, daemon: Daemon) -> None:
    expected, served = read_json(version, CONTENT), describe(daemon.bootstrap)
    for part, content in expected.items():
        assert served[part] == content, part


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.usefixtures("daemon")
def test_a_user_logs_in_and_has_the_rights_of_the_rules(users: str, mechanism: str) -> None:
    client = AdminClient({"bootstrap.servers": users, "sasl.mechanisms": mechanism, **SASL})
    assert {"orders", "payments"} <= set(client.list_topics(timeout=TIMEOUT_S).topics)
    refused: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": users, "sasl.mechanisms": mechanism, **SASL})
    producer.produce("orders", b"x", on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    (error,) = refused
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
