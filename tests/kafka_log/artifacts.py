"""The programs of Apache Kafka that the tests run, fetched from Maven once."""

import os
from typing import Final

from tests.interop.build import kafka

JAVA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "java")
NEWEST: Final = "4.4.0"
BROKERS: Final = {
    NEWEST: (
        "kafka-broker",
        "broker",
        (
            "ConfigValues.java",
            "BearerTokens.java",
            "JaasConfigs.java",
            "PrincipalNames.java",
            "ShareMember.java",
            "TopicExpressions.java",
            "Values.java",
        ),
    ),
    "3.9.1": ("kafka-broker-3.9.1", "broker_3.9.1", ()),
}
"""Version of Kafka: a name for the cache, the folder of its pom, programs that are compiled with it."""


def tools() -> list[str]:
    """The command that runs a command-line tool, or our `Commands`, by its class. Raises CannotBuild."""
    return kafka("kafka-tools", os.path.join(JAVA, "tools"), ("Commands.java",))


def dump_log() -> list[str]:
    """The command of `kafka-dump-log.sh`, without arguments. Raises CannotBuild."""
    return [*tools(), "org.apache.kafka.tools.DumpLogSegments"]


def broker(version: str = NEWEST) -> list[str]:
    """The command that runs a class of the broker, or of ours, by name. Raises CannotBuild; KeyError for a
    version without a pom.
    """
    name, folder, programs = BROKERS[version]
    return kafka(name, os.path.join(JAVA, folder), programs)
