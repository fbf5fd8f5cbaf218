"""A broker of the cluster, as the others and their clients know it."""

from dataclasses import dataclass, field

from coordinator.names import Node


@dataclass(slots=True)
class Broker:
    """`ports` are those that clients are told, by the name of the listener; they are known once it listens."""

    node_id: int
    ports: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    """What clients are told, by the name of the listener, where that is another host than this one."""

    rack: str | None = None
    lease: int = 0
    """Of its session with the engine of a cluster, if it has one."""
    epoch: int = 0
    """At which revision of that engine it registered."""

    def seen_from(self, node: Node) -> Node:
        """This broker as a client of another one should know it: on the same host, unless it is known to be on
        another one, by the listener of the same name; port -1 where it has none. In: the other one, as the client
        knows it."""
        if node.node_id == self.node_id:
            return node if self.rack is None else node._replace(rack=self.rack)
        if self.hosts:
            host, port = self.hosts.get(node.listener, ""), self.ports.get(node.listener, -1)
            return node._replace(node_id=self.node_id, host=host, port=port, rack=self.rack)
        return node._replace(node_id=self.node_id, port=self.ports[node.listener], rack=self.rack)
