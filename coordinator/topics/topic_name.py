"""Which names a topic may have. Source: Kafka's `Topic`."""

import re
from typing import Final

from coordinator.names import COORDINATED

CLUSTER_METADATA: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({*COORDINATED, "__share_group_state"})
MAX_LENGTH: Final = 249
_MAX_SHOWN: Final = 1000
"""Characters of a name in an error. Old versions of CreateTopics have room for 32,767 bytes."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def why_illegal(name: str) -> str | None:
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
    """Whether a topic belongs to the broker: clients may read it and not write to it."""
    return name in INTERNAL_TOPICS


def metric_name(name: str) -> str:
    """The name as metrics spell it. Two topics may not share one, since '.' and '_' look the same there."""
    return name.replace(".", "_")
