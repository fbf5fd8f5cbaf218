"""What becomes of topics, and who asks for one that is not there, as lines of a log."""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from coordinator.net.peer import printable
from coordinator.ongoing_failures import times
from coordinator.server.line_limit import LineLimit
from coordinator.server.log_words import client, listed
from coordinator.topics.answer import (
    ConfigChanged,
    DirectoryFailed,
    PartitionFailed,
    PartitionsAdded,
    TopicChange,
    TopicCreated,
    TopicDeleted,
)
from coordinator.topics.missing import TopicMissing, WhyMissing
from storage.uuid_text import uuid_to_text

_LOG: Final = logging.getLogger("TopicManager")

_MAX_NAME: Final = 80
_MAX_LISTED: Final = 5


def log_changes(changes: Iterable[TopicChange], limit: LineLimit) -> None:
    """Writes the lines of what became of topics. A partition that fails again and again has one a minute."""
    for change in changes:
        match change:
            case TopicCreated(name, _, partitions, automatic):
                how = " automatically" if automatic else ""
                _LOG.info("Created topic %s%s with %d partitions", name, how, partitions)
            case TopicDeleted(name, _):
                _LOG.info("Deleted topic %s", name)
            case PartitionsAdded(name, _, partitions):
                _LOG.info("Topic %s has %d partitions now", name, partitions)
            case ConfigChanged(name, configs):
                told = ", ".join(f"{key}={printable(value)}" for key, value in configs) or "none"
                _LOG.info("Topic %s has these configs now: %s", name, told)
            case PartitionFailed(name, partition, reason):
                count = limit.admit("partition failed", name, partition)
                if count:
                    _LOG.error(
                        "Partition %s-%d failed: %s%s", name, partition, printable(reason), times(count)
                    )
            case DirectoryFailed(path, reason):
                _LOG.warning("Unable to describe replica dirs for %s: %s", path, printable(reason))


def log_missing(
    missing: Sequence[TopicMissing], api: str, client_id: str, client_host: str, limit: LineLimit
) -> None:
    """Writes who asked in a request of `api` for what is not there: a line for each reason, of those topics that
    `limit` admits."""
    news: dict[WhyMissing, list[TopicMissing]] = {}
    for one in missing:
        if limit.admit("topic", client_id, client_host, one.name, one.topic_id):
            news.setdefault(one.why, []).append(one)
    for why, topics in news.items():
        names = listed([_name(one) for one in topics[:_MAX_LISTED]], len(topics))
        who = client(printable(client_id, _MAX_NAME), client_host)
        noun = "topic" if len(topics) == 1 else "topics"
        _LOG.info("Client %s asks for %s %s (%s): %s", who, noun, names, api, why.value)


def _name(one: TopicMissing) -> str:
    if one.topic_id:
        return f"with id {uuid_to_text(one.topic_id)}"
    name = printable(one.name, _MAX_NAME) or "''"
    return name if one.partition is None else f"{name}-{one.partition}"
