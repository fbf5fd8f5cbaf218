"""The interceptors of a partition, by their classes."""

from coordinator.group.group_shard import GroupShard, ShardDecorator
from coordinator.runtime.coordinator_partition import CoordinatorPartition


def list_interceptors(partition: CoordinatorPartition[GroupShard]) -> list[str]:
    """Return the names of the classes between the runtime and the shard, the outermost first.

    The observer of commits is left out: every partition has it while `oracle.commits` is on.
    """
    names, machine = [], partition.machine
    while isinstance(machine, ShardDecorator):
        names.append(type(machine).__name__)
        machine = machine.inner
    return [name for name in names if name != "_ObservedShard"]
