"""The programs of Apache Kafka that the tests run, fetched from Maven once."""

import os

from tests.interop.build import kafka

JAVA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "java")


def dump_log() -> list[str]:
    """The command of `kafka-dump-log.sh`, without arguments. Raises CannotBuild."""
    return [*kafka("kafka-tools", os.path.join(JAVA, "tools")), "org.apache.kafka.tools.DumpLogSegments"]


def broker() -> list[str]:
    """The command that runs a class of the broker, or of ours, by name. Raises CannotBuild."""
    return kafka("kafka-broker", os.path.join(JAVA, "broker"), ("Values.java", "ShareMember.java"))
