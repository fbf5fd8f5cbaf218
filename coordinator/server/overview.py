"""What a server is and what it has, in a few values: for the log at the start, and for the HTTP port."""

from typing import NamedTuple

from coordinator import __version__
from coordinator.config.listeners import Address
from coordinator.engine.partition import PartitionState
from coordinator.server.server import Server


class ListenerOverview(NamedTuple):
    """One listener."""

    name: str
    bound: Address
    advertised: Address | None
    """What its clients are told to connect to; None: each the address that it connected to."""

    @property
    def advertised_text(self) -> str:
        """The same in words."""
        return str(self.advertised or "the address that each client connected to")


class Overview(NamedTuple):
    """All of it, at one time."""

    version: str
    data_dir: str
    standing: str
    """ready, loading or closing."""
    listeners: list[ListenerOverview]
    topics: int
    """Without those that are the broker's own."""
    groups: int
    """In the partitions that are loaded."""
    partitions: int
    """Of the groups, as the next two."""
    loaded_partitions: int
    failed_partitions: int
    transactional_ids: int | None
    """In the partitions that are loaded; None while nobody has asked for a coordinator of transactions."""
    failed_transaction_partitions: int


def standing(server: Server) -> str:
    """Whether a server is ready, loading or closing."""
    if server.is_closing:
        return "closing"
    return "ready" if server.ready.is_set() else "loading"


def overview(server: Server) -> Overview:
    """Of a server that listens."""
    partitions = server.runtime.partitions
    states = [partition.state for partition in partitions]
    transactions = server.transactions
    begun = transactions.parts if transactions.is_begun else None
    shards = (
        []
        if begun is None
        else [part.machine for part in begun.runtime.partitions if part.machine is not None]
    )
    return Overview(
        version=__version__,
        data_dir=server.settings.data_dir,
        standing=standing(server),
        listeners=[
            ListenerOverview(endpoint.listener.name, endpoint.bound_address, endpoint.advertised_address)
            for endpoint in server.endpoints
        ],
        topics=sum(not topic.is_internal for topic in server.data_plane.catalogue),
        groups=sum(part.machine.group_count for part in partitions if part.machine is not None),
        partitions=len(partitions),
        loaded_partitions=states.count(PartitionState.OWNED),
        failed_partitions=states.count(PartitionState.FAILED),
        transactional_ids=None if begun is None else sum(sum(shard.states.values()) for shard in shards),
        failed_transaction_partitions=0 if begun is None else len(begun.runtime.failed()),
    )
