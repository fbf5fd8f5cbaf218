"""API routes for groups, their members and their committed offsets."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from coordinator.control.admin.group_models import (
    GroupDescription,
    GroupOffsets,
    GroupSummary,
    MemberDescription,
    OffsetChanges,
)
from coordinator.control.admin.offset_operations import OffsetReset
from coordinator.control.control_plane import ControlPlane
from coordinator.control.diagnosis.recent_commits import RecentCommitList
from coordinator.control.group_removals import GroupRemoval
from coordinator.control.problem import ProblemKind
from coordinator.core.message_text import printable, suggest
from coordinator.core.wire_name import wire_name
from coordinator.group.group_types import STATE_NAMES
from coordinator.http.api.api_messages import bad_request
from coordinator.http.api.api_route import ApiCall, ApiRoute

MAX_REMOVED: Final = 100


class GroupsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filter of groups: a state, in which case does not matter, and a prefix of the id."""

    state: Annotated[str, Meta(extra_json_schema={"enum": STATE_NAMES})] | None = None
    prefix: str = ""


@wire_name("GroupList")
class GroupList(Struct, frozen=True, kw_only=True):
    """Groups, in the order of their ids. `removed` are removals of groups that do not exist any more, the newest
    first, at most 100. The list is empty for a query with a state."""

    groups: list[GroupSummary]
    removed: list[GroupRemoval] = []


async def list_groups(control: ControlPlane, call: ApiCall) -> GroupList:
    """Return the groups that a query selects."""
    query: GroupsQuery = call.query
    if query.state is not None and query.state.lower() not in map(str.lower, STATE_NAMES):
        detail = f"{printable(query.state)} is not a group state {suggest(query.state, STATE_NAMES)}."
        raise bad_request("/state", "The state does not exist", detail)
    groups = await control.groups.list_groups(query.state, query.prefix)
    if query.state is not None:
        return GroupList(groups=groups)
    existing = {group.group_id for group in groups}
    removals = control.group_removals.newest(query.prefix, MAX_REMOVED)
    return GroupList(
        groups=groups, removed=[removal for removal in removals if removal.group_id not in existing]
    )


async def describe_group(control: ControlPlane, call: ApiCall) -> GroupDescription:
    """Return one group with its members."""
    return await control.groups.describe_group(call.path["group"])


async def describe_member(control: ControlPlane, call: ApiCall) -> MemberDescription:
    """Return one member of a group."""
    return control.groups.describe_member(call.path["group"], call.path["member"])


async def delete_group(control: ControlPlane, call: ApiCall) -> None:
    await control.groups.delete_group(call.path["group"], call.actor)


GROUP_ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/groups",
        summary="Groups, by state and prefix",
        command="groups list",
        handle=list_groups,
        query=GroupsQuery,
        answer=GroupList,
        problems=(ProblemKind.LOADING,),
    ),
    ApiRoute(
        method="GET",
        path="/groups/{group}",
        summary="A group: its members, their partitions, and its waits",
        command="groups describe",
        handle=describe_group,
        answer=GroupDescription,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="DELETE",
        path="/groups/{group}",
        summary="Delete a group without members, as DeleteGroups does",
        command="groups delete",
        handle=delete_group,
        changes=True,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.REFUSED, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="GET",
        path="/groups/{group}/members/{member}",
        summary="A member, by member id, or by a unique instance id or client id",
        handle=describe_member,
        answer=MemberDescription,
        problems=(
            ProblemKind.NO_SUCH_GROUP,
            ProblemKind.NO_SUCH_MEMBER,
            ProblemKind.AMBIGUOUS_MEMBER,
            ProblemKind.LOADING,
        ),
    ),
)


async def describe_offsets(control: ControlPlane, call: ApiCall) -> GroupOffsets:
    """Return the offsets of the group."""
    return await control.offsets.describe_offsets(call.path["group"])


async def list_commits(control: ControlPlane, call: ApiCall) -> RecentCommitList:
    """Return the last commits of a group."""
    return control.oracles.recent_commits.list_commits(call.path["group"])


async def set_offsets(control: ControlPlane, call: ApiCall) -> OffsetChanges:
    """Reset the offsets of the group."""
    return await control.offsets.reset_offsets(call.path["group"], call.body, call.actor)


OFFSET_ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/groups/{group}/offsets",
        summary="The committed offsets of a group, the end offsets and the lag",
        command="groups describe",
        handle=describe_offsets,
        answer=GroupOffsets,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="GET",
        path="/groups/{group}/commits",
        summary="The last stored offsets of a group, with their writers; needs oracle.commits",
        handle=list_commits,
        answer=RecentCommitList,
    ),
    ApiRoute(
        method="PUT",
        path="/groups/{group}/offsets",
        summary="Set offsets of a group without members, as kafka-consumer-groups --reset-offsets does",
        command="groups reset",
        handle=set_offsets,
        body=OffsetReset,
        answer=OffsetChanges,
        changes=True,
        problems=(
            ProblemKind.NO_SUCH_TOPIC,
            ProblemKind.NOT_POSSIBLE,
            ProblemKind.REFUSED,
            ProblemKind.LOADING,
        ),
    ),
)
