"""Operations on groups for the control API: list, describe and delete.

A member is found by its member id, or by an instance id or client id that only one member has. When the
coordinator refuses an operation, the Problem has Kafka's error name.
"""

from collections.abc import Callable
from heapq import merge
from typing import Final

from coordinator.broker.services import Services
from coordinator.control.admin.group_models import (
    AwaitedDescription,
    ConsumerMemberDescription,
    GroupDescription,
    GroupSummary,
    MemberDescription,
    PendingMemberDescription,
    RebalanceDescription,
)
from coordinator.control.coalesced_call import CoalescedCall
from coordinator.control.consumer_protocol_payloads import (
    SubscriptionReader,
    find_unowned_partitions,
    read_assignment,
    read_subscription,
)
from coordinator.control.group_client import InternalGroupClient
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.member_connections import ConnectionSnapshot, MemberConnections
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import format_count, printable
from coordinator.core.outcome import Now
from coordinator.core.time_budget import Budget, TimeBudget
from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.event_details import AwaitedRequest
from coordinator.group.group_shard import GroupShard
from coordinator.group.group_view import ConsumerMemberView, GroupView, MemberView, RebalanceView
from coordinator.group.topics_image import TopicsImage
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.runtime.runtime import Runtime
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

_DELETE_VERSION = 2


class GroupOperations:
    """Lists, describes and deletes groups. All methods belong to the event loop's thread. Each raises Problem
    (loading) while the partition of a group is loading."""

    def __init__(
        self,
        services: Services,
        group_client: InternalGroupClient,
        member_connections: MemberConnections,
        actions: ActionLog,
        removals: GroupRemovals,
        group_now: Callable[[str], Now],
    ) -> None:
        """Create the operations. `group_now` returns the time of a group."""
        self._services = services
        self._group_client = group_client
        self._connections = member_connections
        self._actions = actions
        self._removals = removals
        self.group_now = group_now
        self._summaries = CoalescedCall(self._summarize_all)

    @property
    def _runtime(self) -> Runtime[GroupShard]:
        return self._services.runtime

    def find_group(self, group_id: str) -> GroupView | None:
        """Return a group, or None if it does not exist."""
        machine = self._group_client.find_partition(group_id).machine
        return None if machine is None else machine.view_group(group_id, self.group_now(group_id))

    def get_group(self, group_id: str) -> GroupView:
        """Return a group as it is now. Also raises Problem (no-such-group)."""
        view = self.find_group(group_id)
        if view is None:
            raise self._removals.no_such_group(group_id)
        return view

    async def list_groups(self, state: str | None = None, prefix: str = "") -> list[GroupSummary]:
        """Return a summary of each group in the order of the group ids.

        `state` selects the groups in a state; case does not matter. `prefix` selects the groups whose id starts
        with it. Concurrent callers share the work. Each summary was true at one time during the call: groups may
        change at every checkpoint.

        Raises:
            Problem: (loading) a partition is loading, as in ListGroups.
        """
        found = await self._summaries.get_result()
        if isinstance(found, Problem):
            raise found
        wanted = None if state is None else state.lower()
        budget = TimeBudget(self._services.run_queue)
        selected = []
        for group in found:
            if group.group_id.startswith(prefix) and wanted in (None, group.state.lower()):
                selected.append(group)
            await budget.checkpoint()
        return selected

    async def _summarize_all(self) -> list[GroupSummary] | Problem:
        budget = TimeBudget(self._services.run_queue)
        by_partition: list[list[GroupSummary]] = []
        for partition in self._runtime.partitions:
            found = await self._summarize_partition(partition, budget)
            if isinstance(found, Problem):
                return found
            by_partition.append(found)
        in_order: list[GroupSummary] = []
        for group in merge(*by_partition, key=lambda group: group.group_id):
            in_order.append(group)
            await budget.checkpoint()
        return in_order

    async def _summarize_partition(
        self, partition: CoordinatorPartition[GroupShard], budget: Budget
    ) -> list[GroupSummary] | Problem:
        """Return the groups of a partition in the order of their ids, or why they are not available."""
        partitions = self._runtime.partitions
        loading = sum(each.state is PartitionState.LOADING for each in partitions)
        if loading:
            detail = f"{loading} of {len(partitions)} offsets partitions are being loaded."
            return Problem(ProblemKind.LOADING, "Groups are being loaded", detail)
        found: list[GroupSummary] = []
        machine = partition.machine
        for group_id in sorted([] if machine is None else machine.list_group_ids()):
            if partition.machine is not machine:  # unloaded at the checkpoint, and maybe loaded again
                return await self._summarize_partition(partition, budget)
            view = None if machine is None else machine.view_group(group_id, self.group_now(group_id))
            if view is not None:  # None: deleted at a checkpoint
                found.append(summarize_group(view))
            await budget.checkpoint()
        return found

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group with all its members as they are at the time of the call.

        Checkpoints change nothing in the result: the views, the topics and the connections are immutable values.

        Raises:
            Problem: (no-such-group; loading) as in `get_group`.
        """
        partition = self._group_client.find_partition(group_id)
        view = self.get_group(group_id)
        assert partition.machine is not None
        topics = partition.machine.topics
        connections = self._connections.take_snapshot(view)
        budget, reader = TimeBudget(self._services.run_queue), SubscriptionReader()
        members = []
        for member in view.members:
            members.append(build_member_description(view, member, connections, reader))
            await budget.checkpoint()
        return build_group_description(view, connections, topics, partition.number, members)

    def describe_member(self, group_id: str, reference: str) -> MemberDescription:
        """Describe one member. Also raises Problem (no-such-group, no-such-member, ambiguous-member)."""
        view = self.get_group(group_id)
        return build_member_description(
            view, find_member(view, reference), self._connections.take_snapshot(view), SubscriptionReader()
        )

    async def delete_group(self, group_id: str, by: str | None) -> None:
        """Delete a group without members and its offsets, as DeleteGroups does. `by` names the operator.

        Raises Problem, also no-such-group, and refused with Kafka's error.
        """
        request = DeleteGroupsRequest(groups_names=[group_id])
        with self._removals.attributed_to(group_id, "", by):
            response: DeleteGroupsResponse = await self._group_client.request(
                group_id, request, _DELETE_VERSION
            )
        error = ErrorCode(response.results[0].error_code)
        if error is ErrorCode.GROUP_ID_NOT_FOUND:
            raise self._removals.no_such_group(group_id)
        if error is not ErrorCode.NONE:
            raise refused_problem(error, f"{printable(group_id)} is not deleted", self.find_group(group_id))
        self._actions.record_action("deletion", "as DeleteGroups", group_id, by)


def summarize_group(view: GroupView) -> GroupSummary:
    """Return the summary of a group for a list."""
    return GroupSummary(
        group_id=view.group_id,
        type=view.type.value,
        state=view.state,
        protocol_type=view.protocol_type,
        generation_id=view.generation_id,
        members=len(view.members),
    )


def build_member_description(
    view: GroupView, member: MemberView, connections: ConnectionSnapshot, reader: SubscriptionReader
) -> MemberDescription:
    """Return the description of a member."""
    awaits = None
    if member.is_awaiting_join:
        awaits = AwaitedRequest.JOIN.value
    elif member.is_awaiting_sync:
        awaits = AwaitedRequest.SYNC.value
    return MemberDescription(
        member_id=member.name.member_id,
        group_instance_id=member.name.group_instance_id,
        client_id=member.name.client_id,
        client_host=member.name.client_host,
        is_leader=member.name.member_id == view.leader_id,
        is_connected=connections.is_connected(member),
        connection_closed_ms_ago=connections.closed_ms_ago(member),
        silent_ms=member.silent_ms,
        session_left_ms=member.session_left_ms,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        awaits=awaits,
        protocols=list(member.protocols),
        subscription=read_subscription(view, member, reader),
        assignment=read_assignment(view, member),
        consumer=None if member.consumer is None else _describe_consumer_member(member.consumer),
        is_subscription_too_large=reader.is_too_large(member),
    )


def _describe_consumer_member(member: ConsumerMemberView) -> ConsumerMemberDescription:
    return ConsumerMemberDescription(
        member_epoch=member.member_epoch,
        state=member.state,
        uses_classic_protocol=member.uses_classic_protocol,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        revoking={topic: list(numbers) for topic, numbers in sorted(member.pending.items())},
        revokes_left_ms=member.revokes_left_ms,
        target={topic: list(numbers) for topic, numbers in sorted(member.target.items())},
    )


def build_group_description(
    view: GroupView,
    connections: ConnectionSnapshot,
    topics: TopicsImage,
    offsets_partition: int,
    members: list[MemberDescription] | None = None,
) -> GroupDescription:
    """Return the description of a group from its view, its connections, the current topics, the number of its
    offsets partition, and its members if they are described already."""
    if members is None:
        reader = SubscriptionReader()
        members = [build_member_description(view, member, connections, reader) for member in view.members]
    unowned = {}
    is_read = all(
        described.assignment is not None or not member.assignment
        for member, described in zip(view.members, members, strict=True)
    )
    if view.state == ClassicGroupState.STABLE.value and is_read:
        unowned = find_unowned_partitions(
            (member.subscription for member in members), (member.assignment for member in members), topics
        )
    return GroupDescription(
        group_id=view.group_id,
        type=view.type.value,
        state=view.state,
        state_since_ms=view.state_since_ms,
        generation_id=view.generation_id,
        protocol_type=view.protocol_type,
        protocol_name=view.protocol_name,
        leader=view.leader_id,
        offsets_partition=offsets_partition,
        members=members,
        pending=[
            PendingMemberDescription(
                member_id=pending.name.member_id,
                client_id=pending.name.client_id,
                client_host=pending.name.client_host,
                since_ms=pending.since_ms,
                left_ms=pending.left_ms,
            )
            for pending in view.pending
        ],
        rebalance=None if view.rebalance is None else _describe_rebalance(view, view.rebalance, connections),
        unowned=unowned,
        assignment_epoch=view.assignment_epoch,
    )


def _describe_rebalance(
    view: GroupView, rebalance: RebalanceView, connections: ConnectionSnapshot
) -> RebalanceDescription:
    connected = {member.name.member_id for member in view.members if connections.is_connected(member)}
    trigger = rebalance.trigger
    return RebalanceDescription(
        cause=trigger.cause.value,
        reason=trigger.reason,
        actor=None if trigger.actor is None else trigger.actor.member_id,
        attempts=rebalance.attempts,
        from_state=rebalance.from_state,
        open_ms=rebalance.open_ms,
        phase_ms=rebalance.phase_ms,
        left_ms=rebalance.left_ms,
        is_initial=rebalance.is_initial,
        awaited=[
            AwaitedDescription(
                member_id=awaited.member.member_id,
                client_id=awaited.member.client_id,
                request=awaited.request.value,
                silent_ms=awaited.silent_ms,
                session_left_ms=awaited.session_left_ms,
                left_ms=awaited.left_ms,
                is_connected=awaited.member.member_id in connected,
            )
            for awaited in rebalance.awaited
        ],
    )


MAX_NAMED_MEMBERS: Final = 20
"""The maximum number of members in a sentence or a list of candidates."""


def find_member(view: GroupView, reference: str) -> MemberView:
    """Return the member with a member id, or the only one with an instance id or client id.

    Raises:
        Problem: no-such-member; ambiguous-member, with the possible member ids as `candidates`.
    """
    for member in view.members:
        if member.name.member_id == reference:
            return member
    found = [
        member
        for member in view.members
        if reference in (member.name.group_instance_id, member.name.client_id)
    ]
    if len(found) == 1:
        return found[0]
    wanted, group = printable(reference), printable(view.group_id)
    if found:
        candidates = [printable(member.name.member_id) for member in found[:MAX_NAMED_MEMBERS]]
        raise Problem(
            ProblemKind.AMBIGUOUS_MEMBER,
            f"{wanted} is ambiguous: {len(found)} members have it",
            f"{wanted} is the name of {len(found)} members of {group}: use a member id.",
            {"candidates": candidates},
        )
    clients = ", ".join(printable(member.name.client_id) for member in view.members[:MAX_NAMED_MEMBERS])
    raise Problem(
        ProblemKind.NO_SUCH_MEMBER,
        f"Member {wanted} does not exist",
        f"{group} has no member {wanted}. Its members are: {clients}."
        if clients
        else f"{group} has no members.",
    )


_MAX_NAMED_CLIENTS: Final = 10


def refused_problem(error: ErrorCode, what: str, view: GroupView | None) -> Problem:
    """Return the Problem of Kafka's error. `what` is the beginning of the title; `view` is the group."""
    why = ""
    if view is not None and view.members:
        names = [printable(member.name.client_id) for member in view.members[:_MAX_NAMED_CLIENTS]]
        names += ["…"] if len(view.members) > _MAX_NAMED_CLIENTS else []
        count = format_count(len(view.members), "member")
        why = f" It is {view.state} with {count} ({', '.join(names)}), but must be Empty."
    state = None if view is None else view.state
    return Problem(
        ProblemKind.REFUSED, what, f"{what}: {error.name}.{why}", {"error": error.name, "state": state}
    )
