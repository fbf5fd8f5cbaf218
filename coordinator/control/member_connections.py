"""Whether a member has a connection.

A member that has sent a request since its group was loaded has the connection of its last JoinGroup or
heartbeat. After a restart, or a move of the coordinator, groupd learns the connection of a member from its next
heartbeat. Until then the member counts as connected while its client has an open connection that no other member
is known to use.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from coordinator.group.group_view import GroupView, MemberView
from coordinator.network.connections import Connections
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest

HeartbeatRequests = HeartbeatRequest | ConsumerGroupHeartbeatRequest


class ConnectionSnapshot(NamedTuple):
    """The state of the connections of a group's members at one moment."""

    open_ids: AbstractSet[int]
    heartbeating: AbstractSet[str]
    """Ids of the members with an open connection that repeats their heartbeats."""
    unclaimed: AbstractSet[tuple[str, str]]
    """Client id and host of the open connections that no member of the group is known to use."""
    find_closed_ms_ago: Callable[[int], int | None]

    def has_connection(self, member: MemberView) -> bool:
        """Return whether a member has a connection that is known and open."""
        if member.connection_id:
            return member.connection_id in self.open_ids
        return member.name.member_id in self.heartbeating

    def is_connected(self, member: MemberView) -> bool:
        """Return whether a member has an open connection, as far as groupd knows."""
        if self.has_connection(member):
            return True
        return not member.connection_id and (member.name.client_id, member.name.client_host) in self.unclaimed

    def closed_ms_ago(self, member: MemberView) -> int | None:
        """Return the time since the connection of a member's join closed; None if the member is connected, or if
        the time is unknown."""
        return None if self.is_connected(member) else self.find_closed_ms_ago(member.connection_id)


class MemberConnections:
    """Finds the connections of members on a server. It examines all connections, so only operator requests may
    use it."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.connection_id_sources: list[Callable[[], Iterable[int]]] = []
        """Functions that return the connection numbers of stand-ins, which count as open connections."""

    def find_heartbeating_members(self, group_id: str) -> set[str]:
        """Return the ids of the members of a group with an open connection that repeats their heartbeats."""
        return {
            request.member_id
            for connection in self._connections.open
            for request in connection.repeated_requests()
            if isinstance(request, HeartbeatRequests) and request.group_id == group_id
        }

    def list_open_ids(self) -> set[int]:
        """Return the numbers of all open connections."""
        open_ids = {connection.client.connection_id for connection in self._connections.open}
        return open_ids.union(*(played() for played in self.connection_id_sources))

    def find_possibly_reconnected(self, members: Iterable[MemberView], claimed: AbstractSet[int]) -> set[str]:
        """Return the ids of disconnected members that may have connected again.

        Since the connection of such a member closed, a client with the same id and host has connected, and it is
        unknown which member uses the new connection.

        Args:
            members: The members to check.
            claimed: The numbers of connections that are known to belong to other members.
        """
        newcomers: dict[tuple[str, str], int] = {}
        for connection in self._connections.open:
            number = connection.client.connection_id
            if number not in claimed and not any(
                isinstance(request, HeartbeatRequests) for request in connection.repeated_requests()
            ):
                client = connection.client.client_id, connection.client.host
                newcomers[client] = max(number, newcomers.get(client, 0))
        return {
            member.name.member_id
            for member in members
            if newcomers.get((member.name.client_id, member.name.client_host), 0)
            > self._connections.newest_at_close(member.connection_id)
        }

    def close_connections(self, group_id: str, members: Iterable[MemberView]) -> int:
        """Close the connections of members at once, and return their number.

        A member may have two: it joined over one, and repeats its heartbeats over another.
        """
        ids = {member.name.member_id: member.connection_id for member in members}
        numbers = set(ids.values())
        theirs = [
            connection
            for connection in self._connections.open
            if connection.client.connection_id in numbers
            or any(
                isinstance(request, HeartbeatRequests)
                and request.group_id == group_id
                and request.member_id in ids
                for request in connection.repeated_requests()
            )
        ]
        for connection in theirs:
            connection.abort()
        return len(theirs)

    def take_snapshot(self, view: GroupView) -> ConnectionSnapshot:
        """Return the connection states of a group at one time, for callers that examine many members."""
        unclaimed: set[tuple[str, str]] = set()
        if any(not member.connection_id for member in view.members):
            claimed = {member.connection_id for member in view.members}
            claimed |= {pending.connection_id for pending in view.pending}
            unclaimed = {
                (connection.client.client_id, connection.client.host)
                for connection in self._connections.open
                if connection.client.connection_id not in claimed
            }
        return ConnectionSnapshot(
            self.list_open_ids(),
            self.find_heartbeating_members(view.group_id),
            unclaimed,
            self._connections.closed_ms_ago,
        )

    def silent_ms(self, connection_id: int) -> int | None:
        """Return the milliseconds since a connection last received or sent bytes; None if unknown."""
        return self._connections.silent_ms(connection_id)

    def connection_closed_ms_ago(self, connection_id: int) -> int | None:
        """Return the milliseconds since a connection closed; None if it is open or unknown. The member may have
        another connection."""
        return self._connections.closed_ms_ago(connection_id)
