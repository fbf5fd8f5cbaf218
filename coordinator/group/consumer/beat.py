"""The heartbeat of a member that says nothing new, and to which there is nothing new to say: one look is enough.

Nothing follows from it but the answer: no record, no timer, no work. `heartbeat.py` says the same, more slowly.
"""

from coordinator.group.consumer.member import JOINING_EPOCH, NO_TIMEOUT, ConsumerMember
from coordinator.group.consumer.session import extend_session
from coordinator.group.consumer.subscription import prefers_another
from coordinator.group.groups import Groups
from coordinator.machine.outcome import Context
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def beat(
    groups: Groups, request: ConsumerGroupHeartbeatRequest, context: Context, monotonic_ms: int
) -> ConsumerGroupHeartbeatResponse | None:
    """Take such a heartbeat. Out: its answer. None: it is another one, nothing has changed, and
    `consumer_group_heartbeat` says what there is to say."""
    group = groups.consumers.get(request.group_id)
    if group is None or request.group_id in groups.targets or monotonic_ms >= group.metadata_deadline_ms:
        return None
    durable = group.durable
    member = durable.members.get(request.member_id)
    if (
        member is None
        or not _says_nothing_new(request, context, member)
        or member.uses_classic_protocol
        or durable.epoch != durable.assignment_epoch
        or not member.is_reconciled_to(durable.epoch)
        or durable.regex_members
        or (
            len(durable.assignors) > 1
            and prefers_another(durable, member, member, groups.consumer_config.assignors[0])
        )
    ):
        return None
    times = groups.consumer_times(group.group_id)
    session = group.sessions[member.member_id]
    if not extend_session(session, times.session_timeout_ms, context.connection_id, monotonic_ms):
        return None
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=times.heartbeat_interval_ms,
    )


def _says_nothing_new(
    request: ConsumerGroupHeartbeatRequest, context: Context, member: ConsumerMember
) -> bool:
    return (
        request.member_epoch == member.member_epoch > JOINING_EPOCH
        and request.subscribed_topic_names is None
        and request.topic_partitions is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == NO_TIMEOUT
        and request.server_assignor is None
        and request.rack_id is None
        and request.instance_id == member.instance_id
        and context.client_id == member.client_id
        and context.client_host == member.client_host
    )
