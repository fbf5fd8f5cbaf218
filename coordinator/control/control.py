"""Everything that may be asked of a server and changed about it by people, put together."""

from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.failover.failover import Failover
from coordinator.control.faults.faults import Faults
from coordinator.control.member_connections import MemberConnections
from coordinator.server.server import Server


class Control:
    """Made when a server is open and does not listen yet, so that it misses nothing. One attribute for each room:
    HTTP has one file for each, too."""

    def __init__(self, server: Server) -> None:
        self.acts = Acts()
        self.asker = GroupAsker(server.runtime, server.arrival)
        self.member_connections = MemberConnections(server.connections)
        self.failover = Failover(server, self.acts, self.asker)
        self.faults = Faults(server, self.acts, self.failover)

    def close(self) -> None:
        """Lets go of everything: nobody waits any more, nothing is held."""
        self.faults.close()
        self.failover.close()
