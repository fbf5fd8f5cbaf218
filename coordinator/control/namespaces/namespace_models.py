"""The API model of a namespace, its text for a terminal, and the address under which a client reaches a
listener.
"""

from collections.abc import Sequence

from msgspec import Struct

from coordinator.broker.services import Services
from coordinator.config.listeners import Address
from coordinator.core.message_text import printable
from coordinator.core.wire_name import wire_name
from coordinator.network.endpoint import Endpoint
from storage.memory_files import MemoryFiles


@wire_name("NamespaceDescription")
class NamespaceDescription(Struct, frozen=True, kw_only=True):
    """A broker of the daemon.

    - `bootstrap`: the first address for clients.
    - `listeners`: the address of each listener.
    - `topics`: the number of partitions of each topic that is not internal.
    - `durable`: its files are on a disk.
    - `used_bytes`: the size of files in memory.
    - `created_ms`: Unix time, null for the daemon's own broker.
    """

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


def describe_namespace(
    name: str, services: Services, created_ms: int | None, host: str
) -> NamespaceDescription:
    """Describe a namespace. `host` is the host name of this request, which also reaches a listener on every
    interface."""
    listeners = {each.listener.name: str(find_client_address(each, host)) for each in services.endpoints}
    files = services.settings.files
    in_memory = isinstance(files, MemoryFiles)
    machines = [partition.machine for partition in services.runtime.partitions]
    return NamespaceDescription(
        name=name,
        bootstrap=next(iter(listeners.values())),
        listeners=listeners,
        cluster_id=services.directory.meta.cluster_id,
        topics={
            topic.name: len(topic.partitions)
            for topic in services.data_plane.catalogue
            if not topic.is_internal
        },
        groups=sum(machine.group_count for machine in machines if machine is not None),
        connections=len(services.connections.open),
        durable=not in_memory,
        used_bytes=files.used_bytes if isinstance(files, MemoryFiles) else None,
        created_ms=created_ms,
    )


def find_client_address(endpoint: Endpoint, host: str) -> Address:
    """Return the address of a listener for a client. `host` is the host name of the HTTP request, which applies to
    a listener without an advertised address.
    """
    return endpoint.advertised_address or Address(host, endpoint.port)


def format_namespace(namespace: NamespaceDescription) -> str:
    """Return the line of a namespace."""
    topics = ", ".join(f"{printable(name)}:{count}" for name, count in namespace.topics.items())
    parts = [
        f"{namespace.name}  {', '.join(_format_listeners(namespace))}",
        f"topics {topics}" if topics else "no topics",
        f"groups {namespace.groups}",
        f"connections {namespace.connections}",
    ]
    return "  ".join([*parts, "on the disk"] if namespace.durable else parts)


def format_namespaces(namespaces: Sequence[NamespaceDescription]) -> str:
    """Format namespaces, one line for each."""
    return "\n".join(map(format_namespace, namespaces))


def _format_listeners(namespace: NamespaceDescription) -> list[str]:
    if len(namespace.listeners) == 1:
        return [namespace.bootstrap]
    return [f"{name}://{address}" for name, address in namespace.listeners.items()]
