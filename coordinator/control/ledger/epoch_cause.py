"""Why a consumer group has another epoch, in the words of the ledger: those of classic groups where they mean the
same.

The core says it in two events: a member that was fenced, say, and the epoch that follows in the same turn.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from coordinator.group.consumer.events import (
    ConsumerMemberFenced,
    ConsumerMemberReplaced,
    EpochBumped,
    EpochCause,
    FenceCause,
    GroupConverted,
    TopicChange,
)
from coordinator.group.events import Event
from coordinator.group.rebalance_facts import RebalanceCause


class EpochWord(StrEnum):
    """What an entry of a consumer group has as its cause, beside the words of `RebalanceCause`."""

    REBALANCE_TIMEOUT = "rebalance timeout"
    """A member kept what it had to give up, or one of the classic protocol did not join again."""
    SUBSCRIPTION_CHANGED = "subscription changed"
    ASSIGNOR_CHANGED = "assignor changed"
    TOPICS_CHANGED = "topics changed"
    """In several ways at once, or in one that is not known: the group has just been loaded, say."""
    TOPIC_CREATED = "topic created"
    TOPIC_GREW = "topic grew"
    TOPIC_DELETED = "topic deleted"
    REGEX_RESOLVED = "regular expression resolved"
    UPGRADED = "group upgraded"
    DOWNGRADED = "group downgraded"


_CAUSES: Final[Mapping[EpochCause, str]] = {
    EpochCause.MEMBER_JOINED: RebalanceCause.MEMBER_JOINED,
    EpochCause.SUBSCRIPTION_CHANGED: EpochWord.SUBSCRIPTION_CHANGED,
    EpochCause.ASSIGNOR_CHANGED: EpochWord.ASSIGNOR_CHANGED,
    EpochCause.TOPICS_CHANGED: EpochWord.TOPICS_CHANGED,
    EpochCause.REGEX_RESOLVED: EpochWord.REGEX_RESOLVED,
    EpochCause.MEMBER_LEFT: RebalanceCause.MEMBER_LEFT,
    EpochCause.MEMBER_FENCED: RebalanceCause.SESSION_EXPIRED,
}
_FENCED: Final[Mapping[FenceCause, str]] = {
    FenceCause.SESSION_EXPIRED: RebalanceCause.SESSION_EXPIRED,
    FenceCause.ASKED: RebalanceCause.SESSION_EXPIRED,
    FenceCause.NOT_REVOKED: EpochWord.REBALANCE_TIMEOUT,
    FenceCause.NOT_REJOINED: EpochWord.REBALANCE_TIMEOUT,
    FenceCause.NOT_SYNCED: RebalanceCause.SYNC_EXPIRED,
}
_TOPICS: Final[Mapping[TopicChange, str]] = {
    TopicChange.CREATED: EpochWord.TOPIC_CREATED,
    TopicChange.GREW: EpochWord.TOPIC_GREW,
    TopicChange.DELETED: EpochWord.TOPIC_DELETED,
}


def fence_word(cause: FenceCause) -> str:
    """Why a member was removed."""
    return str(_FENCED[cause])


def epoch_cause(event: EpochBumped, earlier: Sequence[Event]) -> str:
    """The word. In: what happened to the group before in the same turn."""
    for one in earlier:
        if isinstance(one, GroupConverted):
            return EpochWord.UPGRADED
        if isinstance(one, ConsumerMemberFenced):
            return fence_word(one.cause)
        if isinstance(one, ConsumerMemberReplaced):
            return RebalanceCause.STATIC_MEMBER_REPLACED
    if event.change is not None:
        return _TOPICS[event.change]
    return str(_CAUSES[event.cause])


def epoch_reason(event: EpochBumped, earlier: Sequence[Event]) -> str:
    """The same as a sentence."""
    for one in earlier:
        if isinstance(one, ConsumerMemberFenced):
            return f"{event.cause.value}: {one.cause.value}"
    return f"{event.cause.value}: {', '.join(event.topics)}" if event.topics else event.cause.value
