"""What must hold between calls, written down so that simulations and tests can ask for it at every step.

The cheap parts are also asserted where the code runs. These look at every member of every group.
"""

from collections import Counter

from coordinator.group.group_type import GroupType
from coordinator.group.groups import Groups


def check_invariants(groups: Groups) -> None:
    """Raise AssertionError naming the group when something is not as it must be."""
    waiters: set[int] = set()
    for group_id, group in groups.by_id.items():
        assert group_id == group.group_id, (group_id, group.group_id)
        group.check(groups.durable, waiters)
    consumers = {group_id for group_id, group in groups.by_id.items() if group.type is GroupType.CONSUMER}
    assert groups.consumers.keys() == consumers, "the consumer groups among the groups"
    classic = {group_id for group_id, group in groups.by_id.items() if group.type is GroupType.CLASSIC}
    assert groups.classic.keys() == classic, "the classic ones among the groups"
    states = Counter(group.state for group in groups.classic.values())
    assert groups.classic_states == states, "the classic groups by state"
    groups.durable.offsets.check()
    if not any(group.is_dead for group in groups.all()):
        for group_id in groups.durable.group_ids():
            assert group_id in groups.by_id, f"{group_id} is in the log but not in memory"
