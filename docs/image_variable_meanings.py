"""Variables of other Kafka images that groupd reads, with their meaning. The code that reads them is in
`coordinator/config/image_variables.py` and `coordinator/config/initial_topics.py`."""

from typing import Final, NamedTuple


class ImageVariables(NamedTuple):
    """A row of the table. `in_image_only`: read only where GROUPD_IMAGE=true."""

    names: tuple[str, ...]
    images: str
    meaning: str
    in_image_only: bool = False


IMAGE_VARIABLES: Final = (
    ImageVariables(
        ("KAFKA_CREATE_TOPICS", "KAFKA_CREATE_TOPICS_SEPARATOR"),
        "wurstmeister",
        "Topics to create at the start, `NAME:PARTITIONS:REPLICAS` or `NAME:PARTITIONS:REPLICAS:CLEANUP_POLICY`, "
        "with commas or another separator between them. Blanks are allowed, and `--config=NAME=VALUE` behind the "
        "policy. A topic that exists stays as it is; one that cannot be created is a warning.",
    ),
    ImageVariables(("CREATE_TOPICS",), "Debezium", "The same as KAFKA_CREATE_TOPICS.", in_image_only=True),
    ImageVariables(
        ("KAFKA_ADVERTISED_HOST_NAME", "KAFKA_ADVERTISED_PORT"),
        "wurstmeister, Debezium; Kafka before 3.0",
        "Host and port of `advertised.listeners` for the listener PLAINTEXT, unless that property is set. The port "
        "is that of the listener by default. Without `listeners` it is bound to every address, port 9092.",
    ),
    ImageVariables(
        ("ADVERTISED_HOST", "ADVERTISED_HOST_NAME", "ADVERTISED_PORT", "ADV_HOST"),
        "spotify, Debezium, fast-data-dev",
        "The same as KAFKA_ADVERTISED_HOST_NAME and KAFKA_ADVERTISED_PORT, which win.",
        in_image_only=True,
    ),
    ImageVariables(
        ("KAFKA_PORT",),
        "wurstmeister, Debezium",
        "The port of the listener PLAINTEXT, unless `listeners` or `advertised.listeners` is set.",
        in_image_only=True,
    ),
    ImageVariables(
        ("NODE_ID", "BROKER_ID"),
        "Debezium",
        "`node.id`; NODE_ID wins.",
        in_image_only=True,
    ),
    ImageVariables(
        ("KAFKA_BROKER_ID",), "wurstmeister", "`node.id`; -1 stands for any id, and the default stays."
    ),
    ImageVariables(("CLUSTER_ID",), "apache, cp-kafka", "The cluster id of a new data directory."),
    ImageVariables(
        ("KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID"),
        "Bitnami",
        "The same as CLUSTER_ID, which wins.",
        in_image_only=True,
    ),
    ImageVariables(
        (
            "KAFKA_SSL_KEYSTORE_FILENAME",
            "KAFKA_SSL_KEYSTORE_CREDENTIALS",
            "KAFKA_SSL_KEY_CREDENTIALS",
            "KAFKA_SSL_TRUSTSTORE_FILENAME",
            "KAFKA_SSL_TRUSTSTORE_CREDENTIALS",
        ),
        "apache, cp-kafka",
        "Key store, truststore and files with their passwords, in `/etc/kafka/secrets`, where a listener has TLS.",
    ),
    ImageVariables(
        ("KAFKA_TLS_TYPE", "KAFKA_CERTIFICATE_PASSWORD", "KAFKA_TLS_CLIENT_AUTH"),
        "Bitnami",
        "Key store and truststore in `/opt/bitnami/kafka/config/certs`, where a listener has TLS.",
    ),
    ImageVariables(("KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS"), "Bitnami", "Users of PLAIN."),
    ImageVariables(
        ("KAFKA_OPTS",), "all", "`-Djava.security.auth.login.config=FILE`: the JAAS file with users of PLAIN."
    ),
)
