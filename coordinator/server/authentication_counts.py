"""How often clients were let in, or not. Source: the metrics of Kafka's `Selector` (KIP-188, KIP-368)."""

from collections import Counter
from copy import deepcopy


class AuthenticationCounts:
    """Of all listeners, since the start. Keys are listener and mechanism, "" for one that is not there."""

    __slots__ = ("expired_connections", "failed", "failed_again", "succeeded", "succeeded_again")

    def __init__(self) -> None:
        self.succeeded: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()
        self.succeeded_again: Counter[tuple[str, str]] = Counter()
        """Re-authentications."""
        self.failed_again: Counter[tuple[str, str]] = Counter()
        self.expired_connections = 0
        """Closed for a request that came after the end of its session."""

    def copy(self) -> "AuthenticationCounts":
        """The counts as they are now."""
        return deepcopy(self)
