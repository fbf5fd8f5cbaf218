"""The settings of a test in the mark `groupd`."""

from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class BrokerMark:
    """The settings of a test. `topics` (with numbers of partitions) and `config` (by Kafka's names) are for its
    broker. `allow`: violations of these oracles do not fail the test. `errors`: notices of these oracles fail the
    test. `record`: the groups to record."""

    topics: dict[str, int] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    allow: frozenset[str] = frozenset()
    errors: frozenset[str] = frozenset()
    record: frozenset[str] = frozenset()


_FIELDS = ("topics", "config", "allow", "errors", "record")


def read_marks(item: pytest.Item) -> BrokerMark:
    """Return the combined settings of all marks of a test; the nearest mark takes precedence. Raises
    pytest.UsageError for an unknown setting."""
    topics: dict[str, int] = {}
    config: dict[str, Any] = {}
    allow: set[str] = set()
    errors: set[str] = set()
    record: set[str] = set()
    for mark in item.iter_markers("groupd"):
        unknown = mark.kwargs.keys() - set(_FIELDS)
        if unknown or mark.args:
            names = ", ".join(sorted(unknown)) or "positional arguments"
            raise pytest.UsageError(f"{item.nodeid}: the mark groupd takes {', '.join(_FIELDS)}, not {names}")
        topics = {**mark.kwargs.get("topics", {}), **topics}
        config = {**mark.kwargs.get("config", {}), **config}
        allow |= set(mark.kwargs.get("allow", ()))
        errors |= set(mark.kwargs.get("errors", ()))
        record |= set(mark.kwargs.get("record", ()))
    return BrokerMark(topics, config, frozenset(allow), frozenset(errors), frozenset(record))
