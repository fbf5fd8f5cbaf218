"""Everything that may be asked of a server and changed about it by people, put together."""

from typing import Final

from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.clock.clocks import Clocks
from coordinator.control.clock.member_acts import MemberActs
from coordinator.control.clock.moving import Moving
from coordinator.control.clock.retention import Retention
from coordinator.control.cluster.cluster import Cluster
from coordinator.control.failover.failover import Failover
from coordinator.control.faults.faults import Faults
from coordinator.control.figures.figures import Gatherer
from coordinator.control.figures.group_figures import GroupGatherer
from coordinator.control.figures.group_history import GroupHistories
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.groups.groups import Groups
from coordinator.control.groups.offsets import Offsets
from coordinator.control.ledger.made import made_ledger
from coordinator.control.member_connections import MemberConnections
from coordinator.control.namespaces.namespaces import Namespaces
from coordinator.control.oracles.oracles import Oracles
from coordinator.control.recording.recordings import Recordings
from coordinator.control.stand_ins.stand_ins import StandIns
from coordinator.control.stream.stream import Stream
from coordinator.control.topics.topics import Topics
from coordinator.control.traces.made import made_exporter
from coordinator.control.waits.waits import Waits
from coordinator.server.server import Server


class Control:
    """Made when a server is open and does not listen yet, so that it misses nothing. One attribute for each room:
    HTTP has one file for each, too."""

    def __init__(
        self,
        server: Server,
        namespaces: Namespaces | None = None,
        group_removals: GroupRemovals | None = None,
    ) -> None:
        """In: all brokers of the process, where this is about one beside the daemon's own; the group removals of a
        namespace, which outlive a reset."""
        self.server: Final = server
        self.may_harm = server.settings.config.control_enable in ("true", "open")
        """Whether what harms the process was let in in so many words."""
        self.acts = Acts()
        self.group_removals = removals = group_removals or GroupRemovals()
        server.group_events.listeners.append(removals.on_event)
        self.namespaces = namespaces or Namespaces(server, self.acts, self._control_of_namespace)
        self.asker = GroupAsker(server.runtime, server.arrival, server.brokers.ownership)
        self.member_connections = MemberConnections(server.connections)
        self.clocks = Clocks(server, self.acts, self.asker, self.member_connections)
        now_of = self.clocks.now_of
        self.moving = Moving(server, self.acts, self.asker, self.clocks, removals)
        self.member_acts = MemberActs(
            server, self.acts, self.asker, self.member_connections, self.clocks, removals
        )
        self.retention = Retention(self.acts, self.asker, self.clocks, removals)
        self.topics = Topics(server, self.acts)
        self.groups = Groups(server, self.asker, self.member_connections, self.acts, removals, now_of)
        self.stand_ins = StandIns(server, self.acts, self.asker, self.groups, self.member_connections)
        self.offsets = Offsets(self.groups, self.asker, server.data_plane, self.acts)
        self.ledger = made_ledger(server, self.acts, self.member_connections, now_of)
        self.stream = Stream()
        server.group_events.listeners += [self.ledger.observe, self.stream.observe]
        server.runtime.unloaded.append(lambda partition: self.ledger.unloaded(partition.number))
        self.waits = Waits(
            server, self.asker, self.member_connections, self.acts, now_of, removals, self.ledger
        )
        self.waits.hint_givers.append(self.clocks.frozen_hints)
        self.failover = Failover(
            server, self.acts, self.asker, removals, self.clocks.view, self.clocks.departed.silent_ms
        )
        self.cluster = Cluster(server, self.acts)
        self.faults = Faults(
            server,
            self.acts,
            self.failover,
            self.member_connections,
            self._freeze,
            self.member_acts.expire,
            may_harm=self.may_harm,
        )
        self.waits.hint_givers.append(self.faults.held_hints)
        self.oracles = Oracles(server, self.acts, now_of)
        self.recordings = Recordings(self.asker)
        self._measure(server)
        self.traces = made_exporter() if namespaces is None else None
        """Who is told of rebalances that are over; None for nobody."""
        if self.traces is not None:
            self.ledger.listeners.append(self.traces.closed)

    async def finish(self) -> None:
        """Nothing happens any more: writes and sends what is left."""
        await self.ledger.close()
        if self.traces is not None:
            await self.traces.close()

    def close(self, ends: str | None = "this process") -> None:
        """End all waits, holds and recordings.

        In: what ends and leaves its files, for the log; None where the files go as well."""
        self.recordings.close()
        self.stand_ins.close()
        self.faults.close()
        self.failover.close()
        self.waits.close()
        self.stream.close()
        self.oracles.close()
        self.clocks.close(ends)

    def _measure(self, server: Server) -> None:
        histories = GroupHistories()
        # After the ledger, which closes what a deleted group had open.
        server.group_events.listeners.append(histories.observe)
        self.ledger.listeners.append(histories.closed)
        self.oracles.listeners.append(histories.found)
        self.figures = Gatherer(histories, self.ledger, self.clocks, self.faults, server.brokers)
        self.group_figures = GroupGatherer(histories, self.ledger, self.clocks, server.data_plane)

    def _control_of_namespace(self, server: Server, group_removals: GroupRemovals) -> "Control":
        return Control(server, self.namespaces, group_removals)

    async def _freeze(self, group_id: str) -> None:
        await self.clocks.put(group_id, frozen=True, lets_gone_go=False)
