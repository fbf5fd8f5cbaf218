"""Log lines about changes of topics, and about requests for unknown topics."""

import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from coordinator.core.daemon_log import LogLineLimit, format_repeats
from coordinator.core.message_text import format_list, printable
from coordinator.group.member_text import format_client
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import (
    ConfigChanged,
    DirectoryFailed,
    FilesLeft,
    GroupConfigChanged,
    MarkerRepeated,
    MissingReason,
    MissingTopic,
    PartitionFailed,
    PartitionsAdded,
    PartitionsRefused,
    ReplicationFactorReduced,
    ReplicationFactorRefused,
    StoresSet,
    TopicChange,
    TopicCreated,
    TopicDeleted,
)
from coordinator.topics.open_files import NoFileDescriptorLeft
from storage.storage_errors import format_error_reason
from storage.topic_partition import TopicPartition, uuid_to_text

_LOG: Final = logging.getLogger("TopicManager")

FEWER_REPLICAS: Final = "Request fewer replicas, or set accept.any.replication.factor=true"
"""Advice for a replication factor above the number of brokers."""
_MAX_NAME: Final = 80
_MAX_LISTED: Final = 5
_MAX_LINES: Final = 100
_SUMMARIES: Final[dict[type[TopicChange], str]] = {
    TopicCreated: "Created %d topics: %s",
    TopicDeleted: "Deleted %d topics: %s",
    PartitionsAdded: "Added partitions to %d topics: %s",
}


def log_startup_problems(plane: DataPlane) -> None:
    """Log remains of deleted topics and offline partitions after a start, with the reasons."""
    _log_not_removed(plane.directory.not_removed, plane.catalogue.removal_error)
    _log_offline(plane.list_failed_partitions())


def _log_not_removed(directories: Mapping[str, OSError], others: OSError | None) -> None:
    """Log directories of deleted topics that could not be removed.

    Args:
        directories: Directories of earlier deletions, each with its error.
        others: Error of the other deletions; None without one.
    """
    reasons = [
        f"{path}: {format_error_reason(error, path)}"
        for path, error in islice(directories.items(), _MAX_LISTED)
    ]
    if others is not None:
        reasons.insert(0, format_error_reason(others))
    if reasons:
        _log_remaining_files(format_list(reasons, len(directories) + (others is not None)))


def _log_remaining_files(reasons: str) -> None:
    _LOG.error("Deleted topics still have files, which the next start removes: %s", printable(reasons))


def _log_offline(failed: Mapping[TopicPartition, Exception]) -> None:
    """Log the offline partitions. All partitions without a file descriptor share one line."""
    without_file = {
        name: reason for name, reason in failed.items() if isinstance(reason, NoFileDescriptorLeft)
    }
    summary = describe_offline(without_file)
    if summary is not None:
        _LOG.error("%s", summary)
    for name, reason in failed.items():
        if name not in without_file:
            _LOG.error("Partition %s is offline: %s", name, format_error_reason(reason))


def describe_offline(failed: Mapping[TopicPartition, Exception]) -> str | None:
    """Return one line about all offline partitions, with the first error; None without any."""
    if not failed:
        return None
    names = [str(name) for name in islice(failed, _MAX_LISTED)]
    reason = printable(format_error_reason(next(iter(failed.values()))))
    verb = "partition is" if len(failed) == 1 else "partitions are"
    return f"{len(failed)} {verb} offline ({format_list(names, len(failed))}): {reason}"


def log_changes(changes: Sequence[TopicChange], limit: LogLineLimit) -> None:
    """Log changes of topics. Many changes of one kind in one request share one line."""
    for change in _log_summaries(changes):
        match change:
            case TopicCreated(name, _, partitions, automatic):
                suffix = " automatically" if automatic else ""
                _LOG.info("Created topic %s%s with %d partitions", name, suffix, partitions)
            case TopicDeleted(name, _):
                _LOG.info("Deleted topic %s", name)
            case FilesLeft(reason):
                _log_remaining_files(reason)
            case PartitionsAdded(name, _, partitions):
                _LOG.info("Topic %s has %d partitions now", name, partitions)
            case ConfigChanged(name, configs):
                text = ", ".join(f"{key}={printable(value)}" for key, value in configs) or "none"
                _LOG.info("Topic %s has these configs now: %s", name, text)
            case GroupConfigChanged(group_id, configs):
                text = ", ".join(f"{key}={printable(value)}" for key, value in configs) or "none"
                _LOG.info("Group %s has these configs now: %s", printable(group_id), text)
            case StoresSet(names):
                text = ", ".join(map(printable, names))
                _LOG.info("An admin client reloads the stores of listeners: %s", text)
            case DirectoryFailed(path, reason):
                _LOG.warning("Unable to describe replica dirs for %s: %s", path, printable(reason))
            case ReplicationFactorReduced(name, asked, replicas):
                _LOG.warning(
                    "Topic %s is created with replication factor %d instead of %d, because "
                    "accept.any.replication.factor=true",
                    name,
                    replicas,
                    asked,
                )
            case PartitionFailed() | PartitionsRefused() | ReplicationFactorRefused() | MarkerRepeated():
                _log_limited(change, limit)


def _log_limited(
    change: PartitionFailed | PartitionsRefused | ReplicationFactorRefused | MarkerRepeated,
    limit: LogLineLimit,
) -> None:
    """Log a change that may repeat often, as far as `limit` admits."""
    match change:
        case PartitionFailed(name, partition, reason):
            count = limit.admit("partition failed", name, partition)
            if count:
                _LOG.error(
                    "Partition %s-%d failed: %s%s", name, partition, printable(reason), format_repeats(count)
                )
        case PartitionsRefused(topics, reason):
            if count := limit.admit("descriptors"):
                _LOG.error(
                    "Refused %d topics because of the limit of open files (%d such requests): %s",
                    topics,
                    count,
                    reason,
                )
        case ReplicationFactorRefused(names, reason):
            shown = [printable(name, _MAX_NAME) for name in names[:_MAX_LISTED]]
            if count := limit.admit("replication factor", *shown):
                _LOG.warning(
                    "Not created: %s: %s %s%s",
                    format_list(shown, len(names)),
                    reason,
                    FEWER_REPLICAS,
                    format_repeats(count),
                )
        case MarkerRepeated(name, partition, producer_id, epoch):
            if count := limit.admit("marker repeated", name, partition):
                _LOG.info(
                    "Idempotent transaction marker retry detected for partition %s-%d, producer %d, epoch %d%s",
                    name,
                    partition,
                    producer_id,
                    epoch,
                    format_repeats(count),
                )


def _log_summaries(changes: Sequence[TopicChange]) -> list[TopicChange]:
    """Log one line for each kind with many changes. Return the other changes."""
    names: dict[type[TopicChange], list[str]] = {}
    for change in changes:
        if isinstance(change, TopicCreated | TopicDeleted | PartitionsAdded):
            names.setdefault(type(change), []).append(change.name)
    summarized = {kind: named for kind, named in names.items() if len(named) > _MAX_LINES}
    for kind, named in summarized.items():
        _LOG.info(_SUMMARIES[kind], len(named), format_list(named[:_MAX_LISTED], len(named)))
    return [change for change in changes if type(change) not in summarized]


def log_missing(
    missing: Sequence[MissingTopic], api: str, client_id: str, client_host: str, limit: LogLineLimit
) -> None:
    """Log a client's request for unknown topics: one line for each reason, with the topics that `limit` admits."""
    by_reason: dict[MissingReason, list[MissingTopic]] = {}
    for topic in missing:
        if limit.admit("topic", client_id, client_host, topic.name, topic.topic_id):
            by_reason.setdefault(topic.reason, []).append(topic)
    for reason, topics in by_reason.items():
        names = format_list([_format_name(topic) for topic in topics[:_MAX_LISTED]], len(topics))
        client = format_client(printable(client_id, _MAX_NAME), client_host)
        noun = "topic" if len(topics) == 1 else "topics"
        _LOG.info("Client %s requested %s %s (%s): %s", client, noun, names, api, reason.value)


def _format_name(topic: MissingTopic) -> str:
    if topic.topic_id:
        return f"with id {uuid_to_text(topic.topic_id)}"
    name = printable(topic.name, _MAX_NAME) or "''"
    return name if topic.partition is None else f"{name}-{topic.partition}"
