"""The answers to the two kinds of commits, which differ in nothing but the names of their classes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from coordinator.group.group import CommitRequest
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


@dataclass(frozen=True, slots=True)
class CommitForm:
    """The classes of a response, of its topics and of their partitions."""

    response: Callable[..., Any]
    topic: Callable[..., Any]
    partition: Callable[..., Any]


PLAIN: Final = CommitForm(OffsetCommitResponse, OffsetCommitResponseTopic, OffsetCommitResponsePartition)
IN_TRANSACTION: Final = CommitForm(
    TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition
)


def commit_error(form: CommitForm, request: CommitRequest, error: ErrorCode) -> Any:
    """An error of the group stands on each of the partitions."""
    return form.response(
        topics=[
            form.topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    form.partition(partition_index=part.partition_index, error_code=error)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
