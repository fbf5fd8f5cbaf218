"""The soft half of a shard, made from the durable one after the log was read."""

from coordinator.group.classic.load import load_classic_group
from coordinator.group.groups import Groups
from coordinator.machine.turn import Turn


def load_groups(groups: Groups, turn: Turn) -> None:
    """Every group that the log knows. ValueError when a record cannot be of a group."""
    assert not groups.by_id, "a shard is loaded once, before it is used"
    for group_id in groups.durable.group_ids():
        load_classic_group(groups, group_id, turn)
