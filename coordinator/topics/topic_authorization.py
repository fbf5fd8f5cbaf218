"""The rights on topics that the data plane checks itself, and the bit fields of authorized operations.

Most rights are checked before a request reaches the data plane. These depend on the data plane's own state:
the topics of a fetch session, or whether a topic exists. Without an authorizer a client may perform every
operation. Source: KIP-430.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

TopicRight = Callable[[str], bool]
"""Returns whether the client has a right on the topic with this name."""


class TopicRights(NamedTuple):
    """One check for each right. None allows all topics."""

    may_read: TopicRight | None = None
    may_describe: TopicRight | None = None
    may_delete: TopicRight | None = None
    may_create: TopicRight | None = None


ALL_TOPIC_RIGHTS = TopicRights()

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12

OPERATIONS_NOT_REQUESTED: Final = -(2**31)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


ON_TOPIC: Final = _bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
ON_CLUSTER: Final = _bits(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)
