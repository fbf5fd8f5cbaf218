"""Rules for topic names: valid characters, and collisions of metric names.

Source: Kafka's `Topic`, `Topic.hasCollision`.
"""

import re
from collections.abc import Container
from typing import Final

from coordinator.core.shared_types import COORDINATOR_TOPICS

CLUSTER_METADATA: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({*COORDINATOR_TOPICS, "__share_group_state"})
MAX_LENGTH: Final = 249
_MAX_SHOWN: Final = 1000
"""The maximum length of a name in an error text. Old versions of CreateTopics allow 32,767 bytes."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def find_name_error(name: str) -> str | None:
    """Return Kafka's text for an illegal topic name, None for a legal one."""
    shown = name if len(name) <= _MAX_SHOWN else name[:_MAX_SHOWN] + "…"
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name.encode("utf-16-le")) // 2 > MAX_LENGTH:  # Java counts code units
        problem = f"the length of '{shown}' is longer than the max allowed length {MAX_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        problem = (
            f"'{shown}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {problem}"


def is_internal(name: str) -> bool:
    """Return whether a topic is internal: clients may read it but not write to it."""
    return name in INTERNAL_TOPICS


def metric_name(name: str) -> str:
    """Return the metric name of a topic. '.' and '_' are the same there, so two topics must not share one."""
    return name.replace(".", "_")


class MetricNameRegistry:
    """The metric names of all topics that exist or are being created."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def add_topic(self, name: str) -> None:
        """Add a topic that exists or is being created."""
        self._names.setdefault(metric_name(name), set()).add(name)

    def remove_topic(self, name: str) -> None:
        """Remove a topic that was deleted or not created."""
        names = self._names[metric_name(name)]
        names.discard(name)
        if not names:
            del self._names[metric_name(name)]

    def find_collision(self, name: str, ignored: Container[str] = ()) -> str | None:
        """Return a topic with the same metric name as `name`, or None.

        Args:
            name: the name of a new topic.
            ignored: topics that are not compared.
        """
        others = self._names.get(metric_name(name), ())
        return next((other for other in others if other != name and other not in ignored), None)
