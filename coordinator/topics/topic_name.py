"""Which names a topic may have. Source: Kafka's `Topic`."""

import re
from typing import Final

from coordinator.names import COORDINATED

CLUSTER_METADATA: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({*COORDINATED, "__share_group_state"})
MAX_LENGTH: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def why_illegal(name: str) -> str | None:
    """What is wrong with a topic name in one clause, None when it is legal."""
    if not name:
        return "a topic name must not be empty"
    if name in (".", ".."):
        return f"a topic cannot be named '{name}'"
    if len(name) > MAX_LENGTH:
        return f"a topic name has at most {MAX_LENGTH} characters, this one has {len(name)}"
    if not _LEGAL.fullmatch(name):
        return f"topic name '{name}' has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def is_internal(name: str) -> bool:
    """Whether a topic belongs to the broker: clients may read it and not write to it."""
    return name in INTERNAL_TOPICS


def metric_name(name: str) -> str:
    """The name as metrics spell it. Two topics may not share one, since '.' and '_' look the same there."""
    return name.replace(".", "_")
