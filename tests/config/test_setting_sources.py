import pytest

from coordinator.config.config_errors import ConfigError
from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES
from coordinator.config.setting_sources import parse_variable_name, read_settings

NAME = "group.initial.rebalance.delay.ms"
VARIABLE = "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS"


def test_defaults_are_kafkas() -> None:
    config = read_settings().parse()
    assert config.group_initial_rebalance_delay_ms == 3000
    assert config.group_min_session_timeout_ms == 6000
    assert config.group_max_session_timeout_ms == 1_800_000
    assert config.offsets_topic_num_partitions == 50
    assert config.offsets_retention_minutes == 10_080
    assert config.auto_create_topics_enable is True
    assert config.listeners == ("PLAINTEXT://127.0.0.1:9092",)


def test_each_source_wins_over_the_ones_before_it() -> None:
    profile: dict[str, object] = {"profile": "test"}
    file = {**profile, "file_path": "server.properties", "file_text": f"{NAME}=1"}
    environment = {**file, "environment": {VARIABLE: "2"}}
    options = {**environment, "options": (f"{NAME}=3",)}
    flags = {**options, "flags": {NAME: "4"}}
    delays = [
        read_settings(**sources).parse().group_initial_rebalance_delay_ms  # type: ignore[arg-type]
        for sources in (profile, file, environment, options, flags)
    ]
    assert delays == [0, 1, 2, 3, 4]


def test_the_test_profile_sets_exactly_what_it_says() -> None:
    assert read_settings(profile="test").texts == {
        NAME: "0",
        "group.min.session.timeout.ms": "100",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "oracle.commits": "true",
    }


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        (VARIABLE, NAME),
        ("KAFKA_A__B_C", "a_b.c"),
        ("KAFKA_A___B_C", "a-b.c"),
        ("KAFKA_CFG_LOG_DIRS", "log.dirs"),
    ],
)
def test_variables_name_properties_as_in_kafkas_images(variable: str, name: str) -> None:
    assert parse_variable_name(variable) == name


@pytest.mark.parametrize(
    "sources",
    [
        {"options": ("group.max.sise=5",)},
        {"file_path": "the.file", "file_text": "group.max.sise=5"},
        {"environment": {"GROUPD_DEFAULT_GROUP_MAX_SISE": "5"}},
    ],
)
def test_an_unknown_name_stops_the_start_and_suggests_the_nearest(sources: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"group\.max\.sise.*group\.max\.size"):
        read_settings(**sources)  # type: ignore[arg-type]


def test_an_option_must_have_a_value() -> None:
    with pytest.raises(ConfigError, match="name=value"):
        read_settings(options=("group.max.size",))


def test_the_cluster_id_is_that_of_the_official_image() -> None:
    assert read_settings(environment={}).cluster_id is None
    assert read_settings(environment={"CLUSTER_ID": ""}).cluster_id is None
    assert (
        read_settings(environment={"CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw"}).cluster_id
        == "4L6g3nShT-eMCtK--X86sw"
    )
    for text in ("a\nnode.id=7", "a b", "\x1b[31m"):
        with pytest.raises(ConfigError, match="CLUSTER_ID"):
            read_settings(environment={"CLUSTER_ID": text})


def test_a_cluster_id_that_keys_of_etcd_cannot_have_is_refused() -> None:
    cluster = ("cluster.etcd.endpoints=127.0.0.1:2379",)
    settings = read_settings(environment={"CLUSTER_ID": "a/b"}, options=cluster)
    with pytest.raises(ConfigError, match="CLUSTER_ID: a/b must not contain '/'"):
        settings.parse()
    read_settings(environment={"CLUSTER_ID": "a/b"}).parse()  # a data directory may have it
    read_settings(environment={"CLUSTER_ID": "a.b"}, options=cluster).parse()


def control_enable(*options: str, **environment: str) -> str:
    """The value of control.enable where an image opens the control API by default."""
    default = {"GROUPD_DEFAULT_CONTROL_ENABLE": "open"}
    return read_settings(environment=default | environment, options=options).parse().control_enable


def test_a_default_opens_the_control_api_unless_something_guards_it() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    token = "secret-of-sixteen-characters"
    assert control_enable() == "open"
    assert control_enable(f"authorizer.class.name={authorizer}") == "auto"
    assert control_enable(KAFKA_AUTHORIZER_CLASS_NAME=authorizer) == "auto"
    assert control_enable(KAFKA_CONTROL_TOKEN=token) == "auto"
    assert control_enable(KAFKA_CONTROL_TOKEN_FILE="/run/secrets/token") == "auto"
    assert control_enable(KAFKA_CONTROL_ENABLE="false") == "false"
    assert control_enable(KAFKA_AUTHORIZER_CLASS_NAME=authorizer, KAFKA_CONTROL_ENABLE="open") == "open"


def test_what_is_around_a_value_is_dropped() -> None:
    for settings in (
        read_settings(options=("compression.type= gzip ",)),
        read_settings(file_text="compression.type= gzip "),
        read_settings(environment={"KAFKA_COMPRESSION_TYPE": " gzip "}),
    ):
        settings.parse()
        assert settings.texts == {"compression.type": "gzip"}


def test_older_names_mean_the_newer_ones_and_lose_against_them() -> None:
    assert read_settings(file_text="broker.id=7").parse().node_id == 7
    assert read_settings(file_text="node.id=8\nbroker.id=7").parse().node_id == 8
    assert read_settings(environment={"KAFKA_NODE_ID": "8", "KAFKA_BROKER_ID": "7"}).parse().node_id == 8
    assert read_settings(file_text="log.dir=/one\nlog.dirs=/two").parse().log_dirs == ("/two",)


def test_topic_defaults_are_accepted_and_kept_as_text() -> None:
    settings = read_settings(options=("log.retention.hours=1", "min.insync.replicas=1"))
    settings.parse()
    assert settings.texts["log.retention.hours"] == "1"


@pytest.mark.parametrize("name", [*PROPERTIES, *TOPIC_PROPERTIES])
def test_every_default_is_a_legal_value(name: str) -> None:
    key = PROPERTIES.get(name) or TOPIC_PROPERTIES[name]
    if key.default:
        settings = read_settings(options=(f"{name}={key.default}",))
        settings.parse()
        assert settings.start_notices() == []
