"""Namespaces, as people read them."""

from collections.abc import Sequence

from coordinator.control.namespaces.description import NamespaceDescription
from coordinator.net.peer import printable


def described_text(namespace: NamespaceDescription) -> str:
    """One line."""
    topics = ", ".join(f"{printable(name)}:{count}" for name, count in namespace.topics.items())
    words = [
        f"{namespace.name}  {', '.join(_listeners(namespace))}",
        f"topics {topics}" if topics else "no topics",
        f"groups {namespace.groups}",
        f"connections {namespace.connections}",
    ]
    return "  ".join([*words, "on the disk"] if namespace.durable else words)


def all_text(namespaces: Sequence[NamespaceDescription]) -> str:
    """One line for each."""
    return "\n".join(map(described_text, namespaces))


def _listeners(namespace: NamespaceDescription) -> list[str]:
    if len(namespace.listeners) == 1:
        return [namespace.bootstrap]
    return [f"{name}://{address}" for name, address in namespace.listeners.items()]
