"""How a daemon and the engine of its cluster get along, in values that change no more."""

from collections.abc import Mapping
from typing import NamedTuple


class EngineFigures(NamedTuple):
    """Of a cluster on etcd."""

    fenced: int
    """How often an append was refused because another owns the partition."""
    append_seconds: float
    """The median of how long the last transactions took; NaN where there was none."""
    session_left_seconds: float
    """Until this daemon lets go of everything, unless the engine answers before."""
    engine_bytes: int
    """What the engine holds of the partitions that this daemon owns."""
    node_bytes: Mapping[str, int]
    """How large the database of each node is, of those that answer, by endpoint."""
    quota_bytes: int
    """How large it may grow."""
    is_full: bool
    """Whether the engine takes no writes for want of room."""
