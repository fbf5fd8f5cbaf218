"""A broker of the cluster, as the others and their clients know it."""

from dataclasses import dataclass, field

from coordinator.names import Node


@dataclass(slots=True)
class Broker:
    """`ports` are those that clients are told, by the name of the listener; they are known once it listens."""

    node_id: int
    ports: dict[str, int] = field(default_factory=dict)

    def seen_from(self, node: Node) -> Node:
        """This broker as a client of another one should know it: it is on the same host, and has a listener of the
        same name. In: the other one, as the client knows it."""
        if node.node_id == self.node_id:
            return node
        return node._replace(node_id=self.node_id, port=self.ports[node.listener])
