"""The rights of a client on topics that the data plane checks itself.

Most rights are checked before a request reaches the data plane. These depend on what only the data plane knows: the
topics of a fetch session, or whether a topic exists.
"""

from collections.abc import Callable
from typing import NamedTuple

TopicRight = Callable[[str], bool]
"""Whether the client has a right on the topic of a name."""


class TopicRights(NamedTuple):
    """One check for each right; None allows every topic."""

    may_read: TopicRight | None = None
    may_describe: TopicRight | None = None
    may_delete: TopicRight | None = None


ALL_TOPIC_RIGHTS = TopicRights()
