"""Everything that may be asked of a server and changed about it by people, put together."""

from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.ledger.made import made_ledger
from coordinator.control.member_connections import MemberConnections
from coordinator.control.stream.stream import Stream
from coordinator.server.server import Server


class Control:
    """Made when a server is open and does not listen yet, so that it misses nothing. One attribute for each room:
    HTTP has one file for each, too."""

    def __init__(self, server: Server) -> None:
        self.acts = Acts()
        self.asker = GroupAsker(server.runtime, server.arrival)
        self.member_connections = MemberConnections(server.connections)
        self.ledger = made_ledger(server, self.acts, self.member_connections)
        self.stream = Stream()
        server.group_events.listeners += [self.ledger.observe, self.stream.observe]
        server.runtime.unloaded.append(lambda partition: self.ledger.unloaded(partition.number))

    def close(self) -> None:
        """Lets go of everything: nobody waits any more, nothing is held."""
        self.stream.close()
