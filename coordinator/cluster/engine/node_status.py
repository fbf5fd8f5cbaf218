"""How a node of the engine is, as it says itself."""

from typing import NamedTuple


class NodeStatus(NamedTuple):
    """Of one endpoint. Where it did not answer, all but `endpoint` and `problem` is empty."""

    endpoint: str
    version: str = ""
    is_leader: bool = False
    has_leader: bool = False
    size_bytes: int = 0
    """Of its database."""
    quota_bytes: int = 0
    """How large that may grow; 0 where it does not say."""
    is_full: bool = False
    """Whether it takes no writes until somebody makes room, and says so to it."""
    problem: str = ""
    """Why there is no answer, if there is none."""
