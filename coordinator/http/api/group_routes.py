"""Groups: listed, described, deleted."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from coordinator.console.api.request_values import bad_request
from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.group_removals import GroupRemoval
from coordinator.control.groups.description import GroupDescription, GroupSummary, MemberDescription
from coordinator.control.problem import ProblemKind
from coordinator.group.state_names import STATE_NAMES
from coordinator.net.peer import printable
from coordinator.suggestions import suggest

MOST_REMOVED: Final = 100


class GroupsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which groups: those in a state, in any case of letters, and those whose id begins so."""

    state: Annotated[str, Meta(extra_json_schema={"enum": STATE_NAMES})] | None = None
    prefix: str = ""


class GroupList(Struct, frozen=True, kw_only=True):
    """Groups, in the order of their ids. `removed` are removals of groups that do not exist any more, the newest
    first, at most 100; empty where the query names a state."""

    groups: list[GroupSummary]
    removed: list[GroupRemoval] = []


async def list_groups(control: Control, call: Call) -> GroupList:
    """All groups, or some."""
    query: GroupsQuery = call.query
    if query.state is not None and query.state.lower() not in map(str.lower, STATE_NAMES):
        detail = f"{printable(query.state)} is not a state of a group {suggest(query.state, STATE_NAMES)}."
        raise bad_request("/state", "There is no such state", detail)
    groups = await control.groups.summaries(query.state, query.prefix)
    if query.state is not None:
        return GroupList(groups=groups)
    existing = {group.group_id for group in groups}
    removals = control.group_removals.newest(query.prefix, MOST_REMOVED)
    return GroupList(
        groups=groups, removed=[removal for removal in removals if removal.group_id not in existing]
    )


async def describe_group(control: Control, call: Call) -> GroupDescription:
    """One group with its members."""
    return await control.groups.describe(call.path["group"])


async def describe_member(control: Control, call: Call) -> MemberDescription:
    """One member of a group."""
    return control.groups.describe_member(call.path["group"], call.path["member"])


async def delete_group(control: Control, call: Call) -> None:
    """As DeleteGroups."""
    await control.groups.delete(call.path["group"], call.actor)


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/groups",
        summary="Groups, by state and prefix",
        handle=list_groups,
        query=GroupsQuery,
        answer=GroupList,
        problems=(ProblemKind.LOADING,),
    ),
    ApiRoute(
        method="GET",
        path="/groups/{group}",
        summary="A group: its members, what they have, what it waits for",
        handle=describe_group,
        answer=GroupDescription,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="DELETE",
        path="/groups/{group}",
        summary="Delete a group without members, as DeleteGroups does",
        handle=delete_group,
        changes=True,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.REFUSED, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="GET",
        path="/groups/{group}/members/{member}",
        summary="A member, by member id, or by the instance id or client id that it alone has",
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
