"""Environments that people start Kafka's images with, as their documentation and examples give them."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Environment(NamedTuple):
    """The variables of a container and the expected result."""

    variables: Mapping[str, str]
    listening: Mapping[int, str]
    """The open ports with their advertised address; "" for the address that the client used."""
    ignored: tuple[str, ...]
    """All that the line for information names, in order."""
    warned: tuple[str, ...] = ()
    """The first word of each warning, in order."""


_REPLICATION: Final = {
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
}
_TESTCONTAINERS: Final = {
    **_REPLICATION,
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_NODE_ID": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}

ENVIRONMENTS: Final[Mapping[str, Environment]] = {
    "apache/kafka, its compose example": Environment(
        {
            **_REPLICATION,
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
            "KAFKA_NODE_ID": "1",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
            ),
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
            "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
        },
        {9092: "localhost:9092", 19092: "broker:19092"},
        (
            "KAFKA_CONTROLLER_QUORUM_VOTERS",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR",
            "KAFKA_PROCESS_ROLES",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR",
            "the listener CONTROLLER",
        ),
    ),
    "apache/kafka, with heap and logging": Environment(
        {
            "KAFKA_HEAP_OPTS": "-Xmx512m",
            "KAFKA_LOG4J_LOGGERS": "kafka.controller=WARN",
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
        },
        {9092: "localhost:9092"},
        ("KAFKA_HEAP_OPTS", "KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_ROOT_LOGLEVEL"),
    ),
    "confluentinc/cp-kafka with ZooKeeper: only advertised listeners, two of them": Environment(
        {
            **_REPLICATION,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_JMX_PORT": "9101",
            "KAFKA_JMX_HOSTNAME": "localhost",
        },
        {29092: "broker:29092", 9092: "localhost:9092"},
        (
            "KAFKA_JMX_HOSTNAME",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR",
            "KAFKA_ZOOKEEPER_CONNECT",
        ),
        ("KAFKA_JMX_PORT",),
    ),
    "confluentinc/cp-server with KRaft": Environment(
        {
            **_REPLICATION,
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
            "KAFKA_BROKER_ID": "1",
            "KAFKA_NODE_ID": "1",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
            ),
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
            # The example binds the name of its own container, which is known there alone.
            "KAFKA_LISTENERS": (
                "PLAINTEXT://localhost:29092,CONTROLLER://localhost:29093,PLAINTEXT_HOST://0.0.0.0:9092"
            ),
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_CONFLUENT_BALANCER_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_CONFLUENT_SCHEMA_REGISTRY_URL": "http://schema-registry:8081",
            "KAFKA_METRIC_REPORTERS": "io.confluent.metrics.reporter.ConfluentMetricsReporter",
            "CONFLUENT_METRICS_REPORTER_BOOTSTRAP_SERVERS": "broker:29092",
            "CONFLUENT_METRICS_ENABLE": "true",
        },
        {29092: "broker:29092", 9092: "localhost:9092"},
        (
            "KAFKA_CONFLUENT_BALANCER_TOPIC_REPLICATION_FACTOR",
            "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR",
            "KAFKA_CONFLUENT_SCHEMA_REGISTRY_URL",
            "KAFKA_CONTROLLER_QUORUM_VOTERS",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR",
            "KAFKA_PROCESS_ROLES",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR",
            "the listener CONTROLLER",
        ),
        ("KAFKA_METRIC_REPORTERS",),
    ),
    "bitnami/kafka with KRaft": Environment(
        {
            "ALLOW_PLAINTEXT_LISTENER": "yes",
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://:9092",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_KRAFT_CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        },
        {9092: ""},
        (
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS",
            "KAFKA_CFG_PROCESS_ROLES",
            "the listener CONTROLLER",
        ),
    ),
    "bitnami/kafka with ZooKeeper, inside and outside": Environment(
        {
            "ALLOW_PLAINTEXT_LISTENER": "yes",
            "KAFKA_CFG_BROKER_ID": "1",
            "KAFKA_CFG_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_CFG_LISTENERS": "INTERNAL://:9092,EXTERNAL://0.0.0.0:9094",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "INTERNAL://kafka:9092,EXTERNAL://localhost:9094",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
            "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "INTERNAL",
            "KAFKA_CFG_AUTO_CREATE_TOPICS_ENABLE": "true",
        },
        {9092: "kafka:9092", 9094: "localhost:9094"},
        ("KAFKA_CFG_ZOOKEEPER_CONNECT",),
    ),
    "wurstmeister/kafka": Environment(
        {
            "KAFKA_ADVERTISED_LISTENERS": "INSIDE://kafka:9092,OUTSIDE://localhost:9093",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "KAFKA_LISTENERS": "INSIDE://0.0.0.0:9092,OUTSIDE://0.0.0.0:9093",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_CREATE_TOPICS": "orders:6:1",
        },
        {9092: "kafka:9092", 9093: "localhost:9093"},
        ("KAFKA_ZOOKEEPER_CONNECT",),
    ),
    "Testcontainers for Java": Environment(
        {
            **_TESTCONTAINERS,
            "KAFKA_LISTENERS": f"{_TESTCONTAINERS['KAFKA_LISTENERS']},TC-0://0.0.0.0:19092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                f"{_TESTCONTAINERS['KAFKA_LISTENER_SECURITY_PROTOCOL_MAP']},TC-0:PLAINTEXT"
            ),
            "KAFKA_ADVERTISED_LISTENERS": (
                "PLAINTEXT://localhost:9092,BROKER://a1b2c3:9093,TC-0://kafka:19092"
            ),
        },
        {9092: "localhost:9092", 9093: "a1b2c3:9093", 19092: "kafka:19092"},
        (
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR",
            "KAFKA_PROCESS_ROLES",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR",
            "the listener CONTROLLER",
        ),
    ),
    "a pod beside a Kubernetes service called kafka": Environment(
        {
            "KAFKA_SERVICE_HOST": "10.0.0.7",
            "KAFKA_SERVICE_PORT": "9092",
            "KAFKA_SERVICE_PORT_TCP_CLIENT": "9092",
            "KAFKA_PORT": "tcp://10.0.0.7:9092",
            "KAFKA_PORT_9092_TCP": "tcp://10.0.0.7:9092",
            "KAFKA_PORT_9092_TCP_PROTO": "tcp",
            "KAFKA_PORT_9092_TCP_PORT": "9092",
            "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.7",
            "KAFKA_LISTENERS": "PLAINTEXT://:9092",
        },
        {9092: ""},
        (
            "KAFKA_PORT",
            "KAFKA_PORT_9092_TCP",
            "KAFKA_PORT_9092_TCP_ADDR",
            "KAFKA_PORT_9092_TCP_PORT",
            "KAFKA_PORT_9092_TCP_PROTO",
            "KAFKA_SERVICE_HOST",
            "KAFKA_SERVICE_PORT",
            "KAFKA_SERVICE_PORT_TCP_CLIENT",
        ),
    ),
}
