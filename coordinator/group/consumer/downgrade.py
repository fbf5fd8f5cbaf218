"""A consumer group becomes a classic one when the last member of the new protocol is gone, and others are left.

They keep what the last target gave them; a rebalance begins, which gives out what the others had.

Source: Kafka's GroupMetadataManager, validateOnlineDowngradeWithFencedMembers,
validateOnlineDowngradeWithReplacedMember
convertToClassicGroup; ClassicGroup, fromConsumerGroup.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from sys import intern

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.rebalance import prepare_rebalance
from coordinator.group.classic.record import group_metadata_record
from coordinator.group.classic.session import restart_session
from coordinator.group.consumer.embedded_protocol import assignment_bytes
from coordinator.group.consumer.events import GroupConverted
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember, Target
from coordinator.group.consumer.refusal import Refusal
from coordinator.group.consumer.session import end_session
from coordinator.group.events import SubscriptionUnreadable
from coordinator.group.group_type import GroupType
from coordinator.group.groups import Groups
from coordinator.group.rebalance_facts import Trigger
from coordinator.group.state import STABLE
from coordinator.group.topics_image import TopicsImage
from coordinator.machine.outcome import Fact
from coordinator.machine.turn import Turn
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.errors import ErrorCode
from protocol.malformed import Malformed


def may_downgrade(groups: Groups, group: ConsumerGroup, without: Collection[str]) -> bool:
    """Whether the group is a classic one as soon as these members are gone."""
    left = [member for member_id, member in group.durable.members.items() if member_id not in without]
    return (
        bool(left)
        and all(member.uses_classic_protocol for member in left)
        and groups.consumer_config.migration_policy.downgrades
        and len(left) <= groups.config.group_max_size
    )


def may_downgrade_with(groups: Groups, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    """Whether the group is a classic one as soon as a member of the classic protocol has taken this one's place."""
    others = [member for member in group.durable.members.values() if member is not replaced]
    return (
        not replaced.uses_classic_protocol
        and all(member.uses_classic_protocol for member in others)
        and groups.consumer_config.migration_policy.downgrades
        and len(others) + 1 <= groups.config.group_max_size
    )


@dataclass(frozen=True, slots=True)
class Joined:
    """A `member` of the classic protocol that takes the place of the `known` one, and the records of that."""

    member: ConsumerMember
    known: ConsumerMember
    facts: Sequence[Fact]


def downgrade(
    groups: Groups,
    group: ConsumerGroup,
    without: Collection[str],
    trigger: Trigger | None,
    turn: Turn,
    joined: Joined | None = None,
) -> ClassicGroup:
    """Make it one, without these members. `trigger` is what begins a rebalance then, None where none does; `joined`
    is who comes with that. Refusal: GROUP_ID_NOT_FOUND, UNKNOWN_SERVER_ERROR, and nothing has changed."""
    classic = _classic_group(group, without, joined, groups.topics, turn)
    if joined is None:
        facts = list(group.durable.tombstones())
    else:
        successors = {joined.known.member_id: joined.member.member_id}
        facts = [*joined.facts, *group.durable.tombstones(successors)]
    for fact in facts:
        turn.write(fact)
    for member_id in list(group.sessions):
        end_session(group, member_id, turn)
    group.is_dead = True
    groups.forget(group.group_id)
    turn.write(group_metadata_record(classic))
    groups.add_classic(classic)
    is_read = classic.read_subscriptions()
    turn.tell(
        GroupConverted(
            classic.group_id,
            classic.generation_id,
            from_type=GroupType.CONSUMER,
            to_type=GroupType.CLASSIC,
            members=len(classic.members),
        )
    )
    if not is_read:
        turn.tell(
            SubscriptionUnreadable(classic.group_id, classic.generation_id, classic.protocol_name or "")
        )
    for member in classic.members.values():
        restart_session(classic, member, turn)
    if trigger is not None:
        prepare_rebalance(groups, classic, trigger, turn)
    return classic


def _classic_group(
    group: ConsumerGroup,
    without: Collection[str],
    joined: Joined | None,
    image: TopicsImage,
    turn: Turn,
) -> ClassicGroup:
    durable = group.durable
    replaced = None if joined is None else joined.known
    classic = ClassicGroup(group.group_id, turn.now.wall_ms)
    classic.generation_id = durable.epoch
    targets: dict[str, Target] = {}
    for member_id in durable.order:
        member = durable.members[member_id]
        if member_id not in without and member is not replaced:
            classic.add(_classic_member(member), PROTOCOL_TYPE)
            targets[member_id] = durable.target_of(member_id)
    if joined is not None:
        classic.add(_classic_member(joined.member), PROTOCOL_TYPE)
        targets[joined.member.member_id] = durable.target_of(joined.known.member_id)
    classic.protocol_name = classic.select_protocol()
    classic.state = STABLE
    for classic_member in classic.members.values():
        target = targets[classic_member.member_id]
        metadata = classic_member.metadata_for(classic.protocol_name)
        try:
            classic_member.assignment = assignment_bytes(target, metadata, image)
        except Malformed as error:
            message = f"Cannot downgrade the classic group {group.group_id}: {error}."
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message) from error
        classic_member.settled_assignment = classic_member.assignment
    return classic


def _classic_member(member: ConsumerMember) -> Member:
    assert member.classic is not None, member.member_id
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.classic.session_timeout_ms,
        member.rebalance_timeout_ms,
        tuple((intern(each.name), each.metadata) for each in member.classic.supported_protocols),
    )
