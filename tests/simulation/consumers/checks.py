"""Invariants of consumer groups, in addition to those of all groups.

1. A member takes a partition only after its previous owner gave it up, or after the coordinator fenced that
   owner, which need not know it yet. This holds in the members' view and for both protocols. A cooperative member
   may keep partitions while a group is upgraded in the middle of a rebalance. They count only after they are
   assigned again, because the group has no record of them (as in Kafka).
2. The epoch of a group does not decrease during its life, through conversions, reloads and power cuts. Nor do
   the epochs in a member's responses.
3. Offsets of a transaction become visible at its commit, not before, and are not lost after the marker is
   acknowledged.
4. The invariants of the log, commits and responses in `tests/simulation/checks.py`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Final

from coordinator.core.outcome import Fact, Now, Outcome
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_event_types import GroupConverted
from coordinator.group.group_requests import EndTransaction
from coordinator.group.group_shard import GroupShard
from coordinator.group.group_types import GroupType
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from protocol.records.group_record_schemas import ConsumerGroupMetadataKey, GroupMetadataKey, OffsetCommitKey
from tests.simulation.checks import Checks, Place, accepted, demand
from tests.simulation.consumers.member import CooperativeMember, Member, Owned
from tests.simulation.disk import Disk

NOW: Final = Now(0, 0)


class ConsumerChecks(Checks):
    """The checks of one run with consumer groups."""

    may_park = (
        JoinGroupRequest,
        SyncGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        ConsumerGroupHeartbeatRequest,
    )

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._types: dict[str, GroupType] = {}
        self._in_consumer_group: set[int] = set()
        self._converted: set[str] = set()
        self._pending: dict[int, list[tuple[Place, int, int]]] = {}
        self._upgrades: Counter[str] = Counter()
        self._known: dict[tuple[str, str], frozenset[tuple[str, int]]] = {}
        self._upgrades_seen: dict[str, int] = {}
        self._epochs: dict[tuple[str, int], int] = {}
        self._member_epochs: defaultdict[tuple[str, int, str], int] = defaultdict(int)

    # --- ownership

    def grown(self, member: Member, others: Iterable[Member], shard: GroupShard | None) -> None:
        """Check that no other member owns the partitions that a member has just taken."""
        group_id = member.settings.group_id
        view = None if shard is None else shard.view_group(group_id, NOW)
        if view is None:
            return
        known = {one.name.member_id for one in view.members}
        if member.member_id not in known:
            return
        if member.stable:
            self._upgrades_seen[member.name] = self._upgrades[group_id]
        for other in others:
            if other is not member and other.settings.group_id == group_id and other.member_id in known:
                both = member.owns & self._counted(other)
                demand(not both, f"{group_id}: {member.name} and {other.name} both own {sorted(both)}")

    def _counted(self, member: Member) -> Owned:
        group_id = member.settings.group_id
        is_settled = self._upgrades_seen.get(member.name, 0) == self._upgrades[group_id]
        if not isinstance(member, CooperativeMember) or member.stable or is_settled:
            return member.owns
        known, image = self._known.get((group_id, member.member_id), frozenset()), member.topics.image
        return frozenset(
            (topic_id, number)
            for topic_id, number in member.owns
            if (image.by_id[topic_id].name, number) in known
        )

    # --- callbacks of the shell

    def happened(
        self, cause: Any, waiter: int, outcome: Outcome, shard: GroupShard, disk: Disk, now: Now
    ) -> None:
        self._converted = {
            event.group_id
            for event in outcome.events
            if isinstance(event, GroupConverted) and event.members > 0
        }
        for event in outcome.events:
            if isinstance(event, GroupConverted) and event.to_type == GroupType.CONSUMER:
                self._upgraded(event.group_id, shard)
        self._types = {}
        for group_id in shard.list_group_ids():
            view = shard.view_group(group_id, now)
            assert view is not None
            self._types[group_id] = view.type
        super().happened(cause, waiter, outcome, shard, disk, now)
        self._check_epochs(shard, outcome.records)
        for to, message in outcome.replies:
            if isinstance(message, TxnOffsetCommitResponse):
                asked = self._asked[to]
                pending = self._pending.setdefault(asked.message.producer_id, [])
                pending += [
                    (place, offset, asked.order) for place, offset in accepted(asked.message, message)
                ]
        if isinstance(cause, EndTransaction) and cause.is_committed:
            for place, offset, order in self._pending.get(cause.producer_id, ()):
                self._histories[place].orders[offset].append(order)

    def _upgraded(self, group_id: str, shard: GroupShard) -> None:
        """Record the group's view of its members at the upgrade."""
        self._upgrades[group_id] += 1
        view = shard.view_group(group_id, NOW)
        for one in view.members if view is not None else ():
            assert one.consumer is not None
            self._known[group_id, one.name.member_id] = frozenset(
                (name, number) for name, numbers in one.consumer.assigned.items() for number in numbers
            )

    def loaded(self, shard: GroupShard, disk: Disk) -> None:
        super().loaded(shard, disk)
        self._epochs.clear()

    def forget(self) -> None:
        super().forget()
        self._in_consumer_group.clear()

    def _check_epochs(self, shard: GroupShard, records: Iterable[Fact]) -> None:
        for group_id in {getattr(record.key, "group_id", None) or record.key.group for record in records}:
            view = shard.view_group(group_id, NOW)
            if view is not None:
                key = group_id, self._lives[group_id]
                before = self._epochs.get(key, 0)
                demand(view.generation_id >= before, f"{group_id}: epoch {view.generation_id} after {before}")
                self._epochs[key] = view.generation_id

    def _removal(self, cause: Any, record: Fact, now: Now) -> None:
        key = record.key
        if isinstance(key, OffsetCommitKey):
            super()._removal(cause, record, now)
        elif isinstance(key, GroupMetadataKey | ConsumerGroupMetadataKey):
            group_id = key.group if isinstance(key, GroupMetadataKey) else key.group_id
            if group_id not in self._converted:
                self._lives[group_id] += 1

    # --- answers

    def _answer(self, waiter: int, message: Any) -> None:
        super()._answer(waiter, message)
        if self._types.get(getattr(self._asked[waiter].message, "group_id", "")) is GroupType.CONSUMER:
            self._in_consumer_group.add(waiter)

    def released(self, waiter: int, message: Any) -> None:
        asked = self._asked[waiter]
        if isinstance(message, ConsumerGroupHeartbeatResponse) and message.member_epoch > 0:
            request = asked.message
            assert message.member_id is not None
            self._told_epoch(request.group_id, asked.life, message.member_id, message.member_epoch)
        elif isinstance(message, JoinGroupResponse) and message.error_code == 0 and not message.leader:
            self._told_epoch(asked.message.group_id, asked.life, message.member_id, message.generation_id)
        is_theirs = waiter in self._in_consumer_group
        if isinstance(asked.message, EndTransaction):
            del self._asked[waiter]
            if asked.message.is_committed:
                for place, _, order in self._pending.get(asked.message.producer_id, ()):
                    history = self._histories[place]
                    history.promised = max(history.promised, order)
        elif isinstance(message, JoinGroupResponse | SyncGroupResponse) and (
            is_theirs or not getattr(message, "leader", "somebody")
        ):
            del self._asked[waiter]
        else:
            super().released(waiter, message)

    def _told_epoch(self, group_id: str, life: int, member_id: str, epoch: int) -> None:
        key = group_id, life, member_id
        before = self._member_epochs[key]
        demand(epoch >= before, f"{group_id}: {member_id} is told epoch {epoch} after {before}")
        self._member_epochs[key] = epoch

    def told_epoch(self, group_id: str) -> int:
        """Return the highest epoch in any response to members of the present group."""
        life = self._lives[group_id]
        found = (
            epoch
            for (group, lived, _), epoch in self._member_epochs.items()
            if (group, lived) == (group_id, life)
        )
        return max(found, default=0)
