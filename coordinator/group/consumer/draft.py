"""What a heartbeat, or a classic JoinGroup, comes to, until it is written."""

from dataclasses import dataclass, field

from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.events import ConsumerMemberJoined, GroupConverted
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.refusal import Refusal
from coordinator.group.consumer.session import end_session, start_classic_sessions
from coordinator.group.consumer.upgrade import end_classic
from coordinator.group.consumer.who import Who
from coordinator.group.events import Event
from coordinator.group.group_type import GroupType
from coordinator.group.groups import Groups
from coordinator.group.record_size import batch_size
from coordinator.machine.outcome import Fact
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode


@dataclass(slots=True)
class Draft:
    """What a heartbeat comes to, until it is written. `epoch` is the group's; `topics_seen` says that its topics
    were looked at."""

    group: DurableConsumerGroup
    epoch: int
    metadata_hash: int
    is_homogeneous: bool | None = None
    topics_seen: bool = False
    facts: list[Fact] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def throw_if_too_large(groups: Groups, draft: Draft) -> None:
    """Refusal: UNKNOWN_SERVER_ERROR where Kafka could not write it, as it is one batch."""
    if draft.facts and batch_size(draft.facts) > groups.config.message_max_bytes:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def write_draft(groups: Groups, draft: Draft, who: Who, final: ConsumerMember, turn: Turn) -> ConsumerGroup:
    """All of it, made true; nothing of it can fail any more. In: the member as it is after its step."""
    group_id = draft.group.group_id
    classic = groups.find_classic(group_id)
    if classic is not None:
        turn.tell(
            GroupConverted(
                group_id,
                draft.epoch,
                from_type=GroupType.CLASSIC,
                to_type=GroupType.CONSUMER,
                members=len(classic.members),
            )
        )
        end_classic(groups, classic, turn)
    if who.known is None:
        is_classic = final.uses_classic_protocol
        turn.tell(
            ConsumerMemberJoined(group_id, draft.group.epoch, final.name, uses_classic_protocol=is_classic)
        )
    for fact in draft.facts:
        turn.write(fact)
    for event in draft.events:
        turn.tell(event)
    group = groups.consumers.get(group_id) or groups.add_consumer(group_id)
    if classic is not None:
        start_classic_sessions(group, turn)
    if draft.topics_seen:
        group.topics_seen(turn.now.monotonic_ms)
    if who.known is not None and who.replaces:
        end_session(group, who.known.member_id, turn)
    return group
