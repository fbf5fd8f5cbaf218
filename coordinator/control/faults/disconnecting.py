"""The connections of members of a group."""

from collections.abc import Sequence

from coordinator.control.faults.patterns import names_pattern
from coordinator.net.connections import OpenConnection
from coordinator.server.server import Server
from protocol.messages.heartbeat import HeartbeatRequest


def connections_of(server: Server, group_id: str, members: Sequence[str]) -> list[OpenConnection]:
    """Over which members joined, or send heartbeats. In: member ids, instance ids or client ids, with `*`."""
    machine = server.runtime.partition_of(group_id).machine
    view = None if machine is None else machine.view(group_id, server.group_clock.now())
    if view is None or not members:
        return []
    pattern = names_pattern(list(members), "/do/disconnect")
    chosen = [member for member in view.members if any(pattern(name or "") for name in member.name[:3])]
    numbers = {member.connection_id for member in chosen}
    ids = {member.name.member_id for member in chosen}
    return [
        connection
        for connection in server.connections.open
        if connection.connection_id in numbers
        or any(
            isinstance(request, HeartbeatRequest)
            and request.group_id == group_id
            and request.member_id in ids
            for request in connection.repeated_requests()
        )
    ]
