"""Whose connections a fault closes."""

from collections.abc import Sequence

from coordinator.control.faults.patterns import names_pattern
from coordinator.group.view import GroupView, MemberView


def members_named(view: GroupView, names: Sequence[str]) -> list[MemberView]:
    """The members of a group that have one of these names: member ids, instance ids or client ids, with `*`."""
    fits = names_pattern(list(names), "/do/disconnect")
    return [member for member in view.members if any(fits(name or "") for name in member.name[:3])]
