"""The soft half of a shard, made from the durable one after the log was read."""

from coordinator.group.classic.load import load_classic_group
from coordinator.group.consumer.load import load_consumer_group
from coordinator.group.group import NowOf
from coordinator.group.groups import Groups
from coordinator.machine.turn import Turn


def load_groups(groups: Groups, turn: Turn, now_of: NowOf | None) -> None:
    """Every group that the log knows, each at its own time. ValueError when a record cannot be of a group."""
    assert not groups.by_id, "a shard is loaded once, before it is used"
    now = turn.now
    for group_id in groups.durable.group_ids():
        if now_of is not None:
            turn.now = now_of(group_id, now)
        if groups.durable.is_consumer(group_id):
            load_consumer_group(groups, group_id, turn)
        else:
            load_classic_group(groups, group_id, turn)
        groups.commit_kinds.loaded(group_id, turn.now.wall_ms)
    turn.now = now
