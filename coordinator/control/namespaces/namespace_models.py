"""What is told of a namespace."""

from msgspec import Struct

from coordinator.config.listeners import Address
from coordinator.net.endpoint import Endpoint
from coordinator.server.server import Server
from storage.memory_files import MemoryFiles


class NamespaceDescription(Struct, frozen=True, kw_only=True):
    """A broker. `bootstrap` is what clients connect to first, `listeners` each by its name; `topics` are those that
    are not the broker's own, with their partitions; `durable` whether its files are on a disk, and `used_bytes`
    what they take where they are in memory; `created_ms` is Unix time, None for the daemon's own broker."""

    name: str
    bootstrap: str
    listeners: dict[str, str]
    cluster_id: str
    topics: dict[str, int]
    groups: int
    connections: int
    durable: bool
    used_bytes: int | None
    created_ms: int | None


def describe(name: str, server: Server, created_ms: int | None, host: str) -> NamespaceDescription:
    """In: the name by which whoever asks has come to this machine: where a listener is on every interface, its
    clients can come by that as well."""
    listeners = {each.listener.name: str(address_for(each, host)) for each in server.endpoints}
    files = server.settings.files
    in_memory = isinstance(files, MemoryFiles)
    machines = [partition.machine for partition in server.runtime.partitions]
    return NamespaceDescription(
        name=name,
        bootstrap=next(iter(listeners.values())),
        listeners=listeners,
        cluster_id=server.directory.meta.cluster_id,
        topics={
            topic.name: len(topic.partitions)
            for topic in server.data_plane.catalogue
            if not topic.is_internal
        },
        groups=sum(machine.group_count for machine in machines if machine is not None),
        connections=len(server.connections.open),
        durable=not in_memory,
        used_bytes=files.used_bytes if isinstance(files, MemoryFiles) else None,
        created_ms=created_ms,
    )


def address_for(endpoint: Endpoint, host: str) -> Address:
    """What clients of whoever asks connect to. In: see above."""
    return endpoint.advertised_address or Address(host, endpoint.port)
