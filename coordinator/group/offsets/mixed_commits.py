"""A group that commits offsets of one partition both in transactions and outside of them.

Which of the two counts is decided by the order of their records in the log: a plain commit before that of the
transaction is replaced when the transaction ends, one after it stays. Kafka says nothing of it until an offset is
skipped, and an application may do both, such as one that moves from at-least-once to exactly-once.

A plain commit without membership (generation -1) is not the application's: kafka-streams-application-reset and
kafka-consumer-groups --reset-offsets set the offsets of a stopped application like that.
"""

from collections.abc import Iterable

from coordinator.group.events import MixedCommits
from coordinator.group.group import CommitRequest
from coordinator.group.groups import Groups
from coordinator.machine.outcome import Fact
from coordinator.machine.turn import Turn
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.records import OffsetCommitKey


def check_plain(groups: Groups, request: OffsetCommitRequest, records: Iterable[Fact], turn: Turn) -> None:
    """Report a member's plain commit of a partition that has an offset of a transaction, current or pending. In:
    the records of the commit, which are not written yet."""
    group_id, kinds = request.group_id, groups.commit_kinds
    current = kinds.transactional_of(group_id)
    pending = groups.durable.offsets.pending_of(group_id)
    if not (current or pending) or kinds.is_told(group_id):
        return
    for record in records:
        key: OffsetCommitKey = record.key
        if (key.topic, key.partition) in current or key.partition in pending.get(key.topic, ()):
            _tell(groups, request, key, turn)
            return


def check_transactional(groups: Groups, request: CommitRequest, records: Iterable[Fact], turn: Turn) -> None:
    """Tell it where the commit of a transaction comes to an offset that was committed outside of any. In: what is
    about to be written."""
    kinds, offsets = groups.commit_kinds, groups.durable.offsets
    if kinds.is_told(request.group_id):
        return
    for record in records:
        key: OffsetCommitKey = record.key
        place = key.group, key.topic, key.partition
        value = offsets.get(*place)
        if value is not None and kinds.is_plain(place, value, turn.now.wall_ms):
            _tell(groups, request, key, turn)
            return


def _tell(groups: Groups, request: CommitRequest, key: OffsetCommitKey, turn: Turn) -> None:
    is_transactional = type(request) is not OffsetCommitRequest
    groups.commit_kinds.told(key.group)
    turn.tell(MixedCommits(key.group, request.member_id, key.topic, key.partition, is_transactional))
