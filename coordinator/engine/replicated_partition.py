"""A partition whose log an engine has.

A position is not an offset here but the number of a submission: the next one. It brings what the partition has
appended by then, and proves that it was owned after the answer was made. So every answer waits, also those that
only read: no answer of an owner that was replaced is ever stale.
"""

from typing import Generic

from coordinator.engine.machine import M
from coordinator.engine.partition import Partition


class ReplicatedPartition(Partition[M], Generic[M]):
    """See the top of this file."""

    __slots__ = ()

    is_replicated = True

    @property
    def position(self) -> int:
        """The submission that an answer has to wait for that is made now."""
        outgoing = None if self.log is None else self.log.durability.outgoing
        return 1 if outgoing is None else outgoing.submission

    @property
    def reached(self) -> int:
        """The last submission that is confirmed."""
        outgoing = None if self.log is None else self.log.durability.outgoing
        return 0 if outgoing is None else outgoing.confirmed
