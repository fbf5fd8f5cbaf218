"""What may be asked of groups, and done to one as a whole."""

from collections.abc import Callable
from heapq import merge

from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.groups.describe import describe, describe_member, summarize
from coordinator.control.groups.description import GroupDescription, GroupSummary, MemberDescription
from coordinator.control.groups.member_reference import find_member
from coordinator.control.groups.refusal import refused
from coordinator.control.member_connections import MemberConnections
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.shared import Shared
from coordinator.control.slices import Slices
from coordinator.engine.partition import PartitionState
from coordinator.engine.runtime import Runtime
from coordinator.group.shard import Shard
from coordinator.group.view import GroupView
from coordinator.machine.outcome import Now
from coordinator.net.peer import printable
from coordinator.server.server import Server
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

_DELETE_VERSION = 2


class Groups:
    """All methods belong to the event loop's thread. Each raises Problem (loading) while a group's partition is
    loading."""

    def __init__(
        self,
        server: Server,
        asker: GroupAsker,
        member_connections: MemberConnections,
        acts: Acts,
        removals: GroupRemovals,
        now_of: Callable[[str], Now],
    ) -> None:
        """In: the time of a group."""
        self._server = server
        self._asker = asker
        self._connections = member_connections
        self._acts = acts
        self._removals = removals
        self.now_of = now_of
        self._all = Shared(self._summarize_all)

    @property
    def _runtime(self) -> Runtime[Shard]:
        return self._server.runtime

    def find(self, group_id: str) -> GroupView | None:
        """A group as it is now; None when there is none."""
        machine = self._asker.partition_of(group_id).machine
        return None if machine is None else machine.view(group_id, self.now_of(group_id))

    def view(self, group_id: str) -> GroupView:
        """A group as it is now. Raises Problem (no-such-group), too."""
        view = self.find(group_id)
        if view is None:
            raise self._removals.no_such_group(group_id)
        return view

    async def summaries(self, state: str | None = None, prefix: str = "") -> list[GroupSummary]:
        """All groups, or those in a state (in any case of letters) whose id begins so, in the order of their
        ids. Whoever asks at the same time shares the work. Raises Problem (loading) until all are loaded, as
        ListGroups."""
        found = await self._all.get()
        if isinstance(found, Problem):
            raise found
        wanted = None if state is None else state.lower()
        slices = Slices()
        kept = []
        for group in found:
            if group.group_id.startswith(prefix) and wanted in (None, group.state.lower()):
                kept.append(group)
            await slices.rest()
        return kept

    async def _summarize_all(self) -> list[GroupSummary] | Problem:
        partitions = self._runtime.partitions
        loading = sum(partition.state is PartitionState.LOADING for partition in partitions)
        if loading:
            detail = f"{loading} of {len(partitions)} offsets partitions are being loaded."
            return Problem(ProblemKind.LOADING, "Groups are being loaded", detail)
        slices = Slices()
        by_partition: list[list[GroupSummary]] = []
        for partition in partitions:
            found: list[GroupSummary] = []
            for group_id in sorted([] if partition.machine is None else partition.machine.group_ids()):
                # What it was before others had their turn may be gone.
                machine = partition.machine
                view = None if machine is None else machine.view(group_id, self.now_of(group_id))
                if view is not None:
                    found.append(summarize(view))
                await slices.rest()
            by_partition.append(found)
        in_order: list[GroupSummary] = []
        for group in merge(*by_partition, key=lambda group: group.group_id):
            in_order.append(group)
            await slices.rest()
        return in_order

    async def describe(self, group_id: str) -> GroupDescription:
        """A group with all its members. Raises Problem (no-such-group), too."""
        partition = self._asker.partition_of(group_id)
        view = self.view(group_id)
        assert partition.machine is not None
        topics = partition.machine.topics
        seen = self._connections.seen(view)
        slices = Slices()
        members = []
        for member in view.members:
            members.append(describe_member(view, member, seen))
            await slices.rest()
        return describe(view, seen, topics, partition.number, members)

    def describe_member(self, group_id: str, reference: str) -> MemberDescription:
        """One member. Raises Problem (no-such-group, no-such-member, ambiguous-member), too."""
        view = self.view(group_id)
        return describe_member(view, find_member(view, reference), self._connections.seen(view))

    async def delete(self, group_id: str, by: str | None) -> None:
        """Deletes a group without members, with its offsets, as DeleteGroups. In: who, in their own words. Raises
        Problem (no-such-group; refused, with Kafka's error), too."""
        request = DeleteGroupsRequest(groups_names=[group_id])
        with self._removals.attributed_to(group_id, "", by):
            response: DeleteGroupsResponse = await self._asker.ask(group_id, request, _DELETE_VERSION)
        error = ErrorCode(response.results[0].error_code)
        if error is ErrorCode.GROUP_ID_NOT_FOUND:
            raise self._removals.no_such_group(group_id)
        if error is not ErrorCode.NONE:
            raise refused(error, f"{printable(group_id)} is not deleted", self.find(group_id))
        self._acts.note("deletion", "as DeleteGroups", group_id, by)
