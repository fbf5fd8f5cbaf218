"""Options that name ZooKeeper, in groupd's image: the tool finds the broker by the container's variables, or by an
earlier call of `cub kafka-ready`.
"""

import tempfile
from pathlib import Path

import pytest

from tests.free_ports import free_ports
from tests.interop.daemon import Daemon
from tests.kafka_tools.calls import run_tool, run_well
from tests.kafka_tools.player import Result, StoryBrokers

ZOOKEEPER = ("--zookeeper", "zookeeper:2181/kafka")
CREDENTIAL = "SCRAM-SHA-256=[iterations=8192,password=alice-secret]"
ADD_USER = ("--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config", CREDENTIAL)


@pytest.fixture(autouse=True)
def container(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> pytest.MonkeyPatch:
    """Stand for the environment of groupd's image, without variables of the container, and its temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("container")))
    monkeypatch.setenv("GROUPD_IMAGE", "true")
    monkeypatch.setenv("GROUPD_DEFAULT_LISTENERS", f"PLAINTEXT://0.0.0.0:{free_ports(1)[0]}")
    return monkeypatch


def assert_ignored(result: Result) -> None:
    """The call succeeded, and one line reports that the option has no effect."""
    assert result.status == 0, result
    (warning,) = result.err.splitlines()
    assert warning.startswith("WARNING: --")
    assert "ZooKeeper" in warning


def test_tools_reach_the_broker_of_the_container(bootstrap: str, container: pytest.MonkeyPatch) -> None:
    port = bootstrap.rpartition(":")[2]
    (closed,) = free_ports(1)
    container.setenv("KAFKA_LISTENERS", f"CONTROLLER://:{closed},INSIDE://:{port}")
    container.setenv("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT")
    container.setenv("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER")
    create = ("--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "1")
    assert_ignored(run_tool("kafka-topics", [*ZOOKEEPER, *create]))
    assert "orders" in run_well("kafka-topics", "--bootstrap-server", bootstrap, "--list").splitlines()
    configs = ("--entity-type", "topics", "--entity-name", "orders", "--describe")
    assert_ignored(run_tool("kafka-configs", [*ZOOKEEPER, *configs]))
    assert_ignored(run_tool("kafka-consumer-groups", [*ZOOKEEPER, "--list"]))
    read = ("--topic", "orders", "--from-beginning", "--timeout-ms", "1")
    consumed = run_tool("kafka-console-consumer", [*ZOOKEEPER, *read])
    assert consumed.err.splitlines()[-1] == "Processed a total of 0 messages"


def test_acls_are_those_of_the_broker_of_the_container(
    brokers: StoryBrokers, container: pytest.MonkeyPatch
) -> None:
    container.setenv("KAFKA_LISTENERS", f"PLAINTEXT://{brokers.bootstrap('acls')}")
    authorizer = ("--authorizer", "kafka.security.auth.SimpleAclAuthorizer")
    zookeeper = ("--authorizer-properties", "zookeeper.connect=zookeeper:2181")
    assert_ignored(run_tool("kafka-acls", [*authorizer, *zookeeper, "--list"]))


def test_an_init_container_connects_where_the_broker_advertises(
    bootstrap: str, container: pytest.MonkeyPatch
) -> None:
    closed = free_ports(2)
    container.setenv("KAFKA_LISTENERS", f"INSIDE://:{closed[0]},HOST://:{closed[1]}")
    container.setenv("KAFKA_ADVERTISED_LISTENERS", f"INSIDE://{bootstrap},HOST://localhost:{closed[1]}")
    container.setenv("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "INSIDE:PLAINTEXT,HOST:PLAINTEXT")
    result = run_tool("kafka-topics", [*ZOOKEEPER, "--list"])
    assert_ignored(result)
    assert bootstrap in result.err


def test_a_variable_names_the_broker(bootstrap: str, container: pytest.MonkeyPatch) -> None:
    """Variables of an init container that no broker could start with do not matter then."""
    container.setenv("KAFKA_ADVERTISED_LISTENERS", "ignored")
    container.setenv("KAFKA_BOOTSTRAP_SERVERS", bootstrap)
    assert_ignored(run_tool("kafka-topics", [*ZOOKEEPER, "--list"]))


def test_cub_waits_for_the_broker_of_the_container(bootstrap: str, container: pytest.MonkeyPatch) -> None:
    wait = ("kafka-ready", "-z", "zookeeper:2181", "1")
    late = run_tool("cub", [*wait, "0"])
    assert late.status == 1
    assert "Use -b HOST:PORT" in late.err
    container.setenv("KAFKA_LISTENERS", f"PLAINTEXT://{bootstrap}")
    result = run_tool("cub", [*wait, "60"])
    assert result.status == 0
    assert bootstrap in result.err


def test_an_init_container_connects_to_the_broker_that_it_waited_for(bootstrap: str) -> None:
    assert run_tool("cub", ["kafka-ready", "-b", bootstrap, "1", "60"]) == ("", "", 0)
    for arguments in (["--create", "--topic", "orders"], ["--list"]):
        result = run_tool("kafka-topics", [*ZOOKEEPER, *arguments])
        assert_ignored(result)
        assert bootstrap in result.err
    assert "orders" in result.out.splitlines()


def test_a_second_zookeeper_does_not_lead_to_the_broker_of_the_first(bootstrap: str) -> None:
    """It is that of another cluster."""
    run_well("cub", "kafka-ready", "-b", bootstrap, "1", "60")
    assert_ignored(run_tool("kafka-topics", [*ZOOKEEPER, "--list"]))
    other = run_tool("kafka-topics", ["--zookeeper", "zookeeper-2:2181", "--list"])
    assert other.status == 1
    assert "--bootstrap-server" in other.err
    run_well("cub", "kafka-ready", "-b", bootstrap, "1", "60")
    assert_ignored(run_tool("kafka-topics", ["--zookeeper", "zookeeper-2:2181", "--list"]))


def test_a_broker_of_another_protocol_is_not_connected_to(bootstrap: str, tmp_path: Path) -> None:
    run_well("cub", "kafka-ready", "-b", bootstrap, "1", "60")
    (tmp_path / "client.properties").write_text("security.protocol=SSL\n")
    config = ("--command-config", str(tmp_path / "client.properties"))
    assert run_tool("kafka-topics", [*ZOOKEEPER, "--list", *config]).status == 1


def test_the_broker_of_the_container_precedes_the_one_that_was_ready(
    brokers: StoryBrokers, bootstrap: str, container: pytest.MonkeyPatch
) -> None:
    run_well("cub", "kafka-ready", "-b", brokers.bootstrap(""), "1", "60")
    container.setenv("KAFKA_LISTENERS", f"PLAINTEXT://{bootstrap}")
    result = run_tool("kafka-topics", [*ZOOKEEPER, "--list"])
    assert_ignored(result)
    assert bootstrap in result.err


def test_outside_of_the_image_no_broker_is_kept(bootstrap: str, container: pytest.MonkeyPatch) -> None:
    container.delenv("GROUPD_IMAGE")
    run_well("cub", "kafka-ready", "-b", bootstrap, "1", "60")
    container.setenv("GROUPD_IMAGE", "true")
    assert run_tool("kafka-topics", [*ZOOKEEPER, "--list"]).status == 1


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, "127.0.0.1:"),
        ({"KAFKA_ADVERTISED_LISTENERS": "ignored"}, "KAFKA_ADVERTISED_LISTENERS"),
        ({"KAFKA_ADVERTISED_LISTENERS": "SSL://localhost:9093"}, "SSL"),
        ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka.invalid:9092"}, "kafka.invalid:9092"),
    ],
)
def test_without_a_broker_the_error_names_the_remedy(
    variables: dict[str, str], named: str, container: pytest.MonkeyPatch
) -> None:
    for variable, text in variables.items():
        container.setenv(variable, text)
    result = run_tool("kafka-topics", [*ZOOKEEPER, "--list"])
    assert result.status == 1
    assert named in result.err
    assert "--bootstrap-server" in result.err
    assert "KAFKA_BOOTSTRAP_SERVERS" in result.err


def test_users_are_added_before_the_start(tmp_path: Path, container: pytest.MonkeyPatch) -> None:
    """As start scripts do, in the container that the broker then starts in."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    container.setenv("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://{address}")
    container.setenv("KAFKA_LOG_DIRS", str(tmp_path / "data"))
    result = run_tool("kafka-configs", [*ZOOKEEPER, *ADD_USER])
    assert_ignored(result)
    assert str(tmp_path / "data") in result.err
    assert "alice-secret" not in result.out + result.err
    assert "Completed" in result.out
    daemon = Daemon(str(tmp_path / "data"), listen=address)
    try:
        described = run_tool("kafka-configs", [*ZOOKEEPER, "--describe", "--entity-type", "users"])
        assert "'alice' are SCRAM-SHA-256=iterations=8192" in described.out
    finally:
        daemon.stop()


@pytest.mark.parametrize(
    "configs", ["SCRAM-SHA-256=[iterations=99999,password=hush]", "consumer_byte_rate=9"]
)
def test_what_a_broker_would_refuse_is_refused_before_the_start(
    configs: str, tmp_path: Path, container: pytest.MonkeyPatch
) -> None:
    container.setenv("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://localhost:{free_ports(1)[0]}")
    container.setenv("KAFKA_LOG_DIRS", str(tmp_path))
    user = ("--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config", configs)
    result = run_tool("kafka-configs", [*ZOOKEEPER, *user])
    assert result.status == 1
    assert "hush" not in result.out + result.err


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path, container: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    container.setenv("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://localhost:{free_ports(1)[0]}")
    container.setenv("KAFKA_LOG_DIRS", str(file))
    result = run_tool("kafka-configs", [*ZOOKEEPER, *ADD_USER])
    assert result.status == 1
    assert str(file) in result.err.splitlines()[-1]


@pytest.mark.parametrize("advertised", ["", "PLAINTEXT://kafka.invalid:9092"])
def test_users_are_not_added_in_a_container_of_another_service(
    advertised: str, tmp_path: Path, container: pytest.MonkeyPatch
) -> None:
    """The container has the variables of a broker with a data directory elsewhere, or none."""
    container.setenv("KAFKA_ADVERTISED_LISTENERS", advertised)
    container.setenv("KAFKA_LOG_DIRS", str(tmp_path / "data"))
    result = run_tool("kafka-configs", [*ZOOKEEPER, *ADD_USER])
    assert result.status == 1
    assert "--bootstrap-server" in result.err
    assert not (tmp_path / "data").exists()


def test_a_broker_that_runs_keeps_its_directory(tmp_path: Path, container: pytest.MonkeyPatch) -> None:
    """No listener has the protocol of the call. The error names another one, because the directory is in use."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    daemon = Daemon(str(tmp_path), listen=address)
    container.setenv("KAFKA_ADVERTISED_LISTENERS", f"SASL_PLAINTEXT://{address}")
    container.setenv("KAFKA_LOG_DIRS", str(tmp_path))
    try:
        result = run_tool("kafka-configs", [*ZOOKEEPER, *ADD_USER])
        assert result.status == 1
        assert "SASL_PLAINTEXT" in result.err
    finally:
        daemon.stop()
