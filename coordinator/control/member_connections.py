"""Whether a member has a connection: it joined over one that is open, or one that is open sends its heartbeats."""

from coordinator.group.view import MemberView
from coordinator.net.connections import Connections
from protocol.messages.heartbeat import HeartbeatRequest


class MemberConnections:
    """What the connections of a server tell of members. Looks at all of them: for what people ask."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def connected(self, group_id: str) -> set[str]:
        """The ids of the members of a group whose heartbeats an open connection repeats."""
        return {
            request.member_id
            for connection in self._connections.open
            for request in connection.repeated_requests()
            if isinstance(request, HeartbeatRequest) and request.group_id == group_id
        }

    def is_connected(self, group_id: str, member: MemberView) -> bool:
        """Whether a member has an open connection, as far as can be seen."""
        ids = {connection.connection_id for connection in self._connections.open}
        return member.connection_id in ids or member.name.member_id in self.connected(group_id)

    def closed_ms_ago(self, group_id: str, member: MemberView) -> int | None:
        """How long the connection over which a member joined has been closed; None where it has one, or where
        that is not known."""
        if self.is_connected(group_id, member):
            return None
        return self._connections.closed_ms_ago(member.connection_id)

    def silent_ms(self, connection_id: int) -> int | None:
        """How long ago bytes last came over a connection, or left; None where that is not known."""
        return self._connections.silent_ms(connection_id)

    def connection_closed_ms_ago(self, connection_id: int) -> int | None:
        """How long a connection has been closed; None where it is open, or that is not known. Its member may have
        another one."""
        return self._connections.closed_ms_ago(connection_id)
