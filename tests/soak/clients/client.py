"""The common settings and interface of the soak's clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

Partition = tuple[str, int]

POLL_S: Final = 0.2
COMMIT_S: Final = 5
SESSION_TIMEOUT_MS: Final = 6_000
HEARTBEAT_MS: Final = 1_000
REBALANCE_TIMEOUT_MS: Final = 15_000
METADATA_MAX_AGE_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one member. `pattern` is the prefix of its topic names."""

    bootstrap: str
    group: str
    pattern: str
    instance_id: str | None


class Refused(Exception):
    """A commit was not acknowledged: refused, or its answer is not known."""


class Client(Protocol):
    """A member of a group. Any other failure than a refused commit is one of the client's."""

    async def poll(self) -> dict[Partition, int]:
        """Consumes for a moment; the offsets that come next, by partition."""

    async def commit(self, offsets: Mapping[Partition, int], token: str) -> None:
        """Commits, with `token` as metadata. Raises Refused."""

    async def close(self) -> None:
        """Leaves the group."""
