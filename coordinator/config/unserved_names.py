"""Properties and variables that ask for a function which groupd lacks, each with what to do instead.

They differ from `ignored_names.py`: those names change nothing that a client or an operator could miss.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

_UNLIMITED: Final = ("", "-1", "9223372036854775807")
_NO_JAVA_CLASS: Final = "groupd loads no Java classes"


def _is_true(text: str) -> bool:
    return text.lower() == "true"


def _is_limit(text: str) -> bool:
    return text not in _UNLIMITED


def _has_agent(text: str) -> bool:
    return "-javaagent:" in text


class UnservedName(NamedTuple):
    """The reason and the remedy, as the end of a sentence, and which values ask for the function at all."""

    reason: str
    asks: Callable[[str], bool] = bool


_METRICS: Final = UnservedName("groupd has no JMX: read the metrics at /metrics of http.listener")
_REPORTERS: Final = UnservedName(f"{_NO_JAVA_CLASS}: read the metrics at /metrics of http.listener")
_POLICY: Final = UnservedName(
    f"{_NO_JAVA_CLASS}, and no policy checks topics: restrict clients by ACLs (authorizer.class.name)"
)
_QUOTAS: Final = UnservedName("groupd has no quotas and never throttles clients: unset it", _is_limit)
_TOKENS: Final = UnservedName("groupd has no delegation tokens: let clients log in by SCRAM or PLAIN")
_SHELL: Final = UnservedName("groupd runs no commands of variables: set the result as a KAFKA_... variable")

UNSERVED_PROPERTIES: Final[Mapping[str, UnservedName]] = {
    "alter.config.policy.class.name": _POLICY,
    "client.quota.callback.class": UnservedName(f"{_NO_JAVA_CLASS} and never throttles clients: unset it"),
    "config.providers": UnservedName(
        f"{_NO_JAVA_CLASS} and takes values like ${{file:...}} literally: set the values themselves"
    ),
    "confluent.http.server.listeners": UnservedName(
        "groupd has no REST API of Confluent's: run Confluent's REST proxy beside it"
    ),
    "confluent.metadata.server.listeners": UnservedName(
        "groupd has no metadata service: manage access by ACLs (groupd acl)"
    ),
    "create.topic.policy.class.name": _POLICY,
    "delegation.token.master.key": _TOKENS,
    "delegation.token.secret.key": _TOKENS,
    "kafka.metrics.reporters": _REPORTERS,
    "metric.reporters": _REPORTERS,
    "quota.consumer.default": _QUOTAS,
    "quota.producer.default": _QUOTAS,
    "remote.log.storage.system.enable": UnservedName(
        "groupd keeps all records in log.dirs: bound them by log.retention.bytes",
        _is_true,
    ),
    "replica.selector.class": UnservedName(
        f"{_NO_JAVA_CLASS}, and consumers read from the leader of a partition: unset it"
    ),
    "ssl.engine.factory.class": UnservedName(
        f"{_NO_JAVA_CLASS}: give the key and the certificates by ssl.keystore.location and "
        "ssl.truststore.location"
    ),
    "transaction.two.phase.commit.enable": UnservedName(
        "groupd has no two-phase commit, and transaction.max.timeout.ms ends such transactions, too: unset it",
        _is_true,
    ),
}
"""By property. Values that leave the function off are harmless."""

UNSERVED_VARIABLES: Final[Mapping[str, UnservedName]] = {
    "KAFKA_EXTRA_FLAGS": UnservedName(
        "groupd does not read it: set each --override of it as a KAFKA_... variable"
    ),
    "KAFKA_JMX_PORT": _METRICS,
    "KAFKA_OPTS": UnservedName("groupd has no JVM for an agent: remove -javaagent", _has_agent),
}
"""By variable of the environment, wherever groupd runs."""

UNSERVED_IMAGE_VARIABLES: Final[Mapping[str, UnservedName]] = {
    "BROKER_ID_COMMAND": _SHELL,
    "CUSTOM_INIT_SCRIPT": _SHELL,
    "HOSTNAME_COMMAND": _SHELL,
    "JMX_PORT": _METRICS,
    "PORT_COMMAND": _SHELL,
    "RACK_COMMAND": _SHELL,
}
"""By variable of the environment, in the image alone: elsewhere another program may mean something else by them."""


def describe_unserved(label: str, unserved: UnservedName) -> str:
    """Return the warning for a name that asks for a function which groupd lacks. `label` shows its source, too."""
    return f"{label} has no effect, because {unserved.reason}"
