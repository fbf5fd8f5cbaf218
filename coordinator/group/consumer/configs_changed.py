"""Configs of one group: they act from its next heartbeat on, and need no group to be there."""

from coordinator.group.groups import Groups
from coordinator.group.requests import GroupConfigsChanged
from coordinator.machine.turn import Turn


def group_configs_changed(groups: Groups, request: GroupConfigsChanged, turn: Turn) -> None:
    """Know the configs that a group has of its own. No reply."""
    if request.overrides:
        groups.overrides[request.group_id] = dict(request.overrides)
    else:
        groups.overrides.pop(request.group_id, None)
