"""Variables of other Kafka images and the volumes of a container, as settings of groupd."""

from collections.abc import Mapping

import pytest

from coordinator.cli.settings_loader import is_writable, parse_mount_points
from coordinator.config.config_errors import ConfigError
from coordinator.config.image_variables import DATA_VOLUMES, IN_IMAGE, ContainerVolumes
from coordinator.config.listeners import Address, Listener, parse_listeners
from coordinator.config.setting_sources import read_settings
from coordinator.config.settings import Settings
from docs.image_variable_meanings import IMAGE_VARIABLES, ImageVariables
from tests.config.test_environments import IMAGE


def listeners(settings: Settings) -> list[Listener]:
    return parse_listeners(settings.parse())[0]


def warnings(settings: Settings, brokers: int = 1) -> list[str]:
    return [notice.text for notice in settings.start_notices(brokers=brokers) if notice.is_warning]


def information(settings: Settings) -> list[str]:
    return [notice.text for notice in settings.start_notices() if not notice.is_warning]


# A host and a port to advertise


@pytest.mark.parametrize(
    ("variables", "bound", "advertised"),
    [
        ({"KAFKA_ADVERTISED_HOST_NAME": "kafka"}, 9092, "kafka:9092"),
        ({"KAFKA_CFG_ADVERTISED_HOST_NAME": "kafka"}, 9092, "kafka:9092"),
        ({"KAFKA_ADVERTISED_HOST_NAME": "kafka", "KAFKA_ADVERTISED_PORT": "19092"}, 9092, "kafka:19092"),
        ({"KAFKA_ADVERTISED_HOST_NAME": "kafka", "KAFKA_PORT": "9093"}, 9093, "kafka:9093"),
        ({"KAFKA_PORT": "9093"}, 9093, ""),
        ({"ADVERTISED_HOST": "10.0.0.1", "ADVERTISED_PORT": "9092"}, 9092, "10.0.0.1:9092"),
        ({"ADVERTISED_HOST_NAME": "kafka"}, 9092, "kafka:9092"),
        ({"ADV_HOST": "127.0.0.1"}, 9092, "127.0.0.1:9092"),
        ({"ADV_HOST": "fd00::1"}, 9092, "[fd00::1]:9092"),
        ({"ADVERTISED_HOST": "old", "KAFKA_ADVERTISED_HOST_NAME": "kafka"}, 9092, "kafka:9092"),
        ({"KAFKA_ADVERTISED_PORT": "9092"}, 9092, ""),
    ],
)
def test_a_host_of_its_own_variable_is_advertised(
    variables: Mapping[str, str], bound: int, advertised: str
) -> None:
    settings = read_settings(environment={**IMAGE, **variables})
    (listener,) = listeners(settings)
    assert listener.address == Address("0.0.0.0", bound)
    assert str(listener.advertised or "") == advertised
    assert settings.start_notices() == []


def test_a_listener_that_is_set_keeps_its_port() -> None:
    environment = {
        **IMAGE,
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9095",
        "KAFKA_ADVERTISED_HOST_NAME": "kafka",
    }
    (listener,) = listeners(read_settings(environment=environment))
    assert (listener.address, listener.advertised) == (Address("0.0.0.0", 9095), Address("kafka", 9095))


def test_advertised_listeners_win() -> None:
    environment = {
        **IMAGE,
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://right:1",
        "KAFKA_ADVERTISED_HOST_NAME": "wrong",
    }
    settings = read_settings(environment=environment)
    assert listeners(settings)[0].advertised == Address("right", 1)
    (line,) = information(settings)
    assert line.endswith(": KAFKA_ADVERTISED_HOST_NAME")


@pytest.mark.parametrize(
    "variables",
    [
        {"KAFKA_ADVERTISED_PORT": "19092"},
        {
            "KAFKA_ADVERTISED_HOST_NAME": "kafka",
            "KAFKA_LISTENERS": "IN://:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "IN:PLAINTEXT",
        },
    ],
)
def test_what_cannot_be_advertised_is_a_warning_that_names_the_variable_to_set(
    variables: Mapping[str, str],
) -> None:
    settings = read_settings(environment={**IMAGE, **variables})
    assert listeners(settings)[0].advertised is None
    (warning,) = warnings(settings)
    assert warning.startswith(next(iter(variables)))
    assert "set KAFKA_ADVERTISED_" in warning


def test_a_host_that_is_none_stops_the_start_and_names_the_variable() -> None:
    with pytest.raises(ConfigError, match=r"^ADVERTISED_HOST: "):
        read_settings(environment={**IMAGE, "ADVERTISED_HOST": "a b"}).parse()


def test_a_service_of_kubernetes_is_no_port() -> None:
    environment = {**IMAGE, "KAFKA_PORT": "tcp://10.0.0.7:9093"}
    assert listeners(read_settings(environment=environment))[0].address == Address("0.0.0.0", 9092)


# Ids


@pytest.mark.parametrize(
    ("variables", "node_id"),
    [
        ({"NODE_ID": "7"}, 7),
        ({"BROKER_ID": "7"}, 7),
        ({"BROKER_ID": "7", "NODE_ID": "8"}, 8),
        ({"NODE_ID": "7", "KAFKA_NODE_ID": "8"}, 8),
        ({"KAFKA_BROKER_ID": "-1"}, 1),
    ],
)
def test_the_node_id_has_other_names(variables: Mapping[str, str], node_id: int) -> None:
    assert read_settings(environment={**IMAGE, **variables}).parse().node_id == node_id


@pytest.mark.parametrize("variable", ["CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID"])
def test_the_cluster_id_has_other_names(variable: str) -> None:
    settings = read_settings(environment={**IMAGE, variable: "4L6g3nShT-eMCtK--X86sw"})
    assert settings.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert settings.start_notices() == []
    with pytest.raises(ConfigError, match=f"^{variable}: "):
        read_settings(environment={**IMAGE, variable: "a b"})


def test_outside_of_the_image_names_of_others_mean_nothing() -> None:
    environment = {
        "NODE_ID": "7",
        "BROKER_ID": "7",
        "ADV_HOST": "kafka",
        "ADVERTISED_HOST": "kafka",
        "ADVERTISED_PORT": "1",
        "KAFKA_PORT": "1",
        "KAFKA_CLUSTER_ID": "x",
        "CREATE_TOPICS": "a:1:1",
        "JMX_PORT": "9999",
        "HOSTNAME_COMMAND": "hostname",
    }
    settings = read_settings(environment=environment)
    assert settings.texts == {}
    assert settings.cluster_id is None
    assert settings.initial_topics == []
    assert warnings(settings) == []


# A controller's listener


CONTROLLER = "PLAINTEXT://:9092,CONTROLLER://:9093"


def test_a_controller_without_a_protocol_stays_closed() -> None:
    settings = read_settings(environment={"KAFKA_LISTENERS": CONTROLLER})
    assert [listener.name for listener in listeners(settings)] == ["PLAINTEXT"]


def test_a_controller_is_one_only_where_nothing_says_otherwise() -> None:
    named = {"KAFKA_LISTENERS": CONTROLLER, "KAFKA_CONTROLLER_LISTENER_NAMES": "OTHER"}
    with pytest.raises(ConfigError, match="CONTROLLER has no protocol"):
        read_settings(environment=named).parse()
    with pytest.raises(ConfigError, match="CONTROLLER has no protocol"):
        read_settings(file_text=f"listeners={CONTROLLER}").parse()
    mapped = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    settings = read_settings(
        environment={"KAFKA_LISTENERS": CONTROLLER, "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": mapped}
    )
    assert len(listeners(settings)) == 2


@pytest.mark.parametrize(
    "name", ["kafka.security.auth.SimpleAclAuthorizer", "kafka.security.authorizer.AclAuthorizer"]
)
def test_authorizers_of_older_releases_are_the_one_of_today(name: str) -> None:
    settings = read_settings(environment={"KAFKA_AUTHORIZER_CLASS_NAME": name})
    assert settings.parse().authorizer_class_name


# What groupd lacks


@pytest.mark.parametrize(
    ("environment", "remedy"),
    [
        ({"KAFKA_JMX_PORT": "9101"}, "/metrics"),
        ({"JMX_PORT": "9101"}, "/metrics"),
        ({"KAFKA_METRIC_REPORTERS": "io.confluent.X"}, "/metrics"),
        ({"KAFKA_CREATE_TOPIC_POLICY_CLASS_NAME": "X"}, "authorizer.class.name"),
        ({"KAFKA_REMOTE_LOG_STORAGE_SYSTEM_ENABLE": "true"}, "log.retention.bytes"),
        ({"KAFKA_OPTS": "-javaagent:/a.jar=7071"}, "-javaagent"),
        ({"HOSTNAME_COMMAND": "route -n"}, "KAFKA_"),
        ({"KAFKA_DEFAULT_REPLICATION_FACTOR": "3"}, "cluster.etcd.endpoints"),
        ({"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:1,2@b:1,3@c:1"}, "--brokers 3"),
        ({"KAFKA_CREATE_TOPICS": "a:b:c"}, "NAME:PARTITIONS:REPLICAS"),
    ],
)
def test_what_will_not_happen_is_a_warning_with_a_remedy(environment: Mapping[str, str], remedy: str) -> None:
    settings = read_settings(environment={IN_IMAGE: "true", "KAFKA_HEAP_OPTS": "-Xmx1g", **environment})
    (warning,) = warnings(settings)
    assert warning.startswith(next(iter(environment)))
    assert remedy in warning
    (line,) = information(settings)
    assert line.endswith(": KAFKA_HEAP_OPTS")


@pytest.mark.parametrize(
    "environment",
    [
        {"KAFKA_REMOTE_LOG_STORAGE_SYSTEM_ENABLE": "false"},
        {"KAFKA_QUOTA_PRODUCER_DEFAULT": "9223372036854775807"},
        {"KAFKA_METRIC_REPORTERS": ""},
        {"KAFKA_OPTS": "-Xmx1g"},
        {"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093"},
        {"KAFKA_DEFAULT_REPLICATION_FACTOR": "1"},
    ],
)
def test_a_value_that_asks_for_nothing_is_harmless(environment: Mapping[str, str]) -> None:
    assert warnings(read_settings(environment={IN_IMAGE: "true", **environment})) == []


def test_other_brokers_of_the_process_or_of_a_cluster_are_not_missing() -> None:
    environment = {
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:1,2@b:1,3@c:1",
        "KAFKA_DEFAULT_REPLICATION_FACTOR": "3",
    }
    (warning,) = warnings(read_settings(environment=environment), brokers=3)
    assert warning.startswith("KAFKA_DEFAULT_REPLICATION_FACTOR")
    etcd = {**environment, "KAFKA_CLUSTER_ETCD_ENDPOINTS": "etcd:2379"}
    assert warnings(read_settings(environment=etcd)) == []


def test_a_file_is_named_with_its_property() -> None:
    settings = read_settings(file_path="server.properties", file_text="metric.reporters=X")
    (warning,) = warnings(settings)
    assert warning.startswith("server.properties: metric.reporters ")


@pytest.mark.parametrize("row", IMAGE_VARIABLES, ids=lambda row: row.names[0])
def test_variables_that_the_documentation_names_are_known(row: ImageVariables) -> None:
    environment = {IN_IMAGE: "true"} | dict.fromkeys(row.names, "1")
    found = [notice.text for notice in read_settings(environment=environment).start_notices()]
    assert not any("is not a property" in text for text in found)


# Volumes


def with_volumes(
    *mounted: str, environment: Mapping[str, str] = IMAGE, is_writable: bool = True, **more: str
) -> Settings:
    volumes = ContainerVolumes({"/", "/proc", *mounted}, lambda _: is_writable)
    return read_settings(environment={**environment, **more}, find_volumes=lambda: volumes)


@pytest.mark.parametrize(
    ("mounted", "directory"),
    [
        ("/var/lib/kafka/data", "/var/lib/kafka/data"),
        ("/var/lib/kafka", "/var/lib/kafka/data"),
        ("/bitnami/kafka", "/bitnami/kafka/data"),
        ("/bitnami", "/bitnami/kafka/data"),
        ("/kafka/data", "/kafka/data/7"),
        ("/tmp/kraft-combined-logs", "/tmp/kraft-combined-logs"),
    ],
)
def test_a_volume_of_another_image_has_the_data_where_that_image_has_it(mounted: str, directory: str) -> None:
    settings = with_volumes(mounted, KAFKA_NODE_ID="7")
    assert settings.parse().log_dirs == (directory,)
    (line,) = information(settings)
    assert directory in line
    assert mounted in line
    assert warnings(settings) == []


def test_every_data_directory_is_in_its_volume() -> None:
    assert all(directory.startswith(path) for path, directory in DATA_VOLUMES.items())
    assert with_volumes("/kafka").parse().log_dirs[0].startswith("/kafka/")


def test_a_data_directory_that_is_set_wins_over_a_volume() -> None:
    for settings in (
        with_volumes("/bitnami/kafka", KAFKA_LOG_DIRS="/own"),
        read_settings(
            environment=IMAGE,
            flags={"log.dirs": "/own"},
            find_volumes=lambda: ContainerVolumes({"/bitnami"}, lambda _: True),
        ),
    ):
        assert settings.parse().log_dirs == ("/own",)
        assert settings.start_notices() == []


def test_without_such_a_volume_the_default_stays() -> None:
    assert with_volumes("/var/lib/groupd").parse().log_dirs == (IMAGE["GROUPD_DEFAULT_LOG_DIRS"],)


def test_outside_of_the_image_no_volume_counts() -> None:
    assert with_volumes("/kafka", environment={}).texts == {}


def test_a_volume_that_groupd_cannot_write_to_is_a_warning() -> None:
    settings = with_volumes("/bitnami/kafka", is_writable=False)
    default = IMAGE["GROUPD_DEFAULT_LOG_DIRS"]
    assert settings.parse().log_dirs == (default,)
    (warning,) = warnings(settings)
    assert warning.startswith("/bitnami/kafka ")
    assert default in warning
    assert "chown" in warning


def test_mount_points_are_those_that_linux_lists() -> None:
    text = (
        "36 35 98:0 / / rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
        "37 36 0:5 /volumes/a /bitnami/kafka rw - ext4 /dev/sda1 rw\n"
        "38 36 0:6 / /with\\040blank rw - tmpfs tmpfs rw\n"
    )
    assert parse_mount_points(text) == {"/", "/bitnami/kafka", "/with blank"}


def test_a_directory_is_writable_where_it_can_be_created(tmp_path: object) -> None:
    assert is_writable(f"{tmp_path}/not/there/yet")
    assert not is_writable("/proc/self/not-there")
