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
"""The internal topics whose partitions are coordinators."""

_ASSIGNOR_CLASS: Final = "org.apache.kafka.coordinator.group.assignor."
CONSUMER_ASSIGNORS: Final = {
    "uniform": "uniform",
    "range": "range",
    f"{_ASSIGNOR_CLASS}UniformAssignor": "uniform",
    f"{_ASSIGNOR_CLASS}RangeAssignor": "range",
}
"""The short name of each assignor of consumer groups, by what it can be called in a property: that name, or Kafka's
class."""


class Node(NamedTuple):
    """This broker as it is advertised to the connection at hand, by the listener that it came to."""

    node_id: int
    host: str
    port: int
    listener: str = ""
    rack: str | None = None


NO_NODE: Final = Node(-1, "", -1)


class SecurityProtocol(StrEnum):
    """How a listener is reached: whether by TLS, and whether clients have to authenticate by SASL."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether bytes are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients have to authenticate before their first request."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class LogFlush(StrEnum):
    """When records reach the disk: before the answer, every `log.flush.interval.ms`, or as the OS likes."""

    ALWAYS = "always"
    INTERVAL = "interval"
    OS = "os"
