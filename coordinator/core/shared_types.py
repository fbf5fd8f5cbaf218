"""Names and types that several packages use: internal topics, assignors, nodes, security protocols, and when
logs are flushed.
"""

from enum import StrEnum
from typing import Final, NamedTuple

CONSUMER_OFFSETS: Final = "__consumer_offsets"
"""The internal topic of groups and their offsets."""
TRANSACTION_STATE: Final = "__transaction_state"
"""The internal topic of transactions."""
COORDINATOR_TOPICS: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE)
"""The internal topics of the group and transaction coordinators."""

_ASSIGNOR_CLASS: Final = "org.apache.kafka.coordinator.group.assignor."
CONSUMER_ASSIGNORS: Final = {
    "uniform": "uniform",
    "range": "range",
    f"{_ASSIGNOR_CLASS}UniformAssignor": "uniform",
    f"{_ASSIGNOR_CLASS}RangeAssignor": "range",
}
"""The short name of each consumer group assignor, by its possible names in a property: the short name, or Kafka's
class.
"""


class Node(NamedTuple):
    """This broker as advertised on the listener of the current connection."""

    node_id: int
    host: str
    port: int
    listener: str = ""
    rack: str | None = None


NO_NODE: Final = Node(-1, "", -1)


class SecurityProtocol(StrEnum):
    """The security protocol of a listener: TLS or not, SASL or not."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Return whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Return whether clients must authenticate before their first request."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class LogFlush(StrEnum):
    """When records reach the disk: before the response, every `log.flush.interval.ms`, or when the OS flushes."""

    ALWAYS = "always"
    INTERVAL = "interval"
    OS = "os"
