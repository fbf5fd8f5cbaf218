"""Which member somebody means."""

from typing import Final

from coordinator.control.problem import Problem, ProblemKind
from coordinator.group.view import GroupView, MemberView
from coordinator.net.peer import printable

MOST_NAMED: Final = 20
"""Members that a sentence or a list of candidates names."""


def find_member(view: GroupView, reference: str) -> MemberView:
    """The member of that member id, or the only one of that instance id or client id. Raises Problem
    (no-such-member; ambiguous-member, with the member ids that it may mean as `candidates`)."""
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
        candidates = [printable(member.name.member_id) for member in found[:MOST_NAMED]]
        raise Problem(
            ProblemKind.AMBIGUOUS_MEMBER,
            f"{wanted} may be any of {len(found)} members",
            f"{wanted} is the name of {len(found)} members of {group}: take a member id.",
            {"candidates": candidates},
        )
    there = ", ".join(printable(member.name.client_id) for member in view.members[:MOST_NAMED])
    raise Problem(
        ProblemKind.NO_SUCH_MEMBER,
        f"There is no member {wanted}",
        f"{group} has no member {wanted}. Its members are: {there}." if there else f"{group} has no members.",
    )
