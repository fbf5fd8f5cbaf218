"""Which members of a group are gone, as far as the server can see.

One without an open connection is gone. So is one whose connection has joined once more under another member id and
that has been silent for its whole session in reality: a client that counts its own session forgets its member id
when it has been stopped for too long. Its old id stays behind and, where the clock stands still, never expires.
"""

from coordinator.control.clock.group_times import GroupTimes
from coordinator.control.member_connections import MemberConnections
from coordinator.group.view import GroupView, MemberView
from coordinator.server.server import Server


class Departed:
    """See the top of this file."""

    def __init__(self, server: Server, connections: MemberConnections, times: GroupTimes) -> None:
        self._connections = connections
        self._clock = server.group_clock
        self._times = times

    def of(self, view: GroupView) -> set[str]:
        """The ids of those that are gone, pending ones among them."""
        seen = self._connections.seen(view)
        newest = {member.connection_id: member.name.member_id for member in view.members}
        newest |= {pending.connection_id: pending.name.member_id for pending in view.pending}
        gone = set()
        for member in view.members:
            member_id = member.name.member_id
            is_superseded = (
                member.connection_id in seen.open_ids and newest[member.connection_id] != member_id
            )
            is_ghost = is_superseded and self.silent_ms(view, member) >= member.session_timeout_ms
            if is_ghost or not seen.has_connection(member):
                gone.add(member_id)
        return gone | {
            pending.name.member_id for pending in view.pending if pending.connection_id not in seen.open_ids
        }

    def back_perhaps(self, view: GroupView) -> set[str]:
        """The ids of those that are gone, as far as the server can see, but whose client has a new connection:
        one that was made anew is known to be a member's with its first heartbeat over it."""
        gone, open_ids = self.of(view), self._connections.open_ids()
        members = [
            member
            for member in view.members
            if member.name.member_id in gone and member.connection_id not in open_ids
        ]
        if not members:
            return set()
        claimed = {member.connection_id for member in view.members}
        claimed |= {pending.connection_id for pending in view.pending}
        return self._connections.back_perhaps(members, claimed)

    def silent_ms(self, view: GroupView, member: MemberView) -> int:
        """How long nothing was heard of a member, in reality as far as that is known."""
        heard_ms = self._times.heard_ms(view.group_id, member.name.member_id)
        return member.silent_ms if heard_ms is None else self._clock.now().monotonic_ms - heard_ms
