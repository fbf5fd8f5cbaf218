"""Everything that may be asked of a server and changed about it by people, put together."""

from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.member_connections import MemberConnections
from coordinator.control.waits.waits import Waits
from coordinator.machine.outcome import Now
from coordinator.server.server import Server


class Control:
    """Made when a server is open and does not listen yet, so that it misses nothing. One attribute for each room:
    HTTP has one file for each, too."""

    def __init__(self, server: Server) -> None:
        self.acts = Acts()
        self.asker = GroupAsker(server.runtime, server.arrival)
        self.member_connections = MemberConnections(server.connections)

        def now_of(group_id: str) -> Now:
            return server.group_clock.now()

        self.waits = Waits(server, self.asker, self.member_connections, self.acts, now_of)

    def close(self) -> None:
        """Lets go of everything: nobody waits any more, nothing is held."""
        self.waits.close()
