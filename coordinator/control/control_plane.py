"""The control plane of one server: every operation and diagnosis of the control API, with the rebalance
ledger that it creates.

Each attribute of `ControlPlane` is one subject, and HTTP has one file for each.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.services import Services
from coordinator.control.admin.cluster_operations import ClusterOperations
from coordinator.control.admin.coordinator_failover import CoordinatorFailover
from coordinator.control.admin.group_operations import GroupOperations
from coordinator.control.admin.offset_operations import OffsetOperations
from coordinator.control.admin.topic_operations import TopicOperations
from coordinator.control.clock.clock_advance import ClockCommands
from coordinator.control.clock.clock_registry import ClockRegistry
from coordinator.control.clock.member_commands import MemberCommands
from coordinator.control.clock.offset_expiry_command import OffsetExpiry
from coordinator.control.diagnosis.commit_observer import CommitFeed
from coordinator.control.diagnosis.group_waits import GroupWaits
from coordinator.control.diagnosis.oracle_service import OracleService
from coordinator.control.diagnosis.worst_findings import WorstFindings
from coordinator.control.event_stream import EventStream
from coordinator.control.faults.fault_registry import FaultRegistry
from coordinator.control.group_client import InternalGroupClient
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.lag_history import LagHistories
from coordinator.control.ledger.ledger_storage import LedgerFile
from coordinator.control.ledger.rebalance_ledger import RebalanceLedger
from coordinator.control.ledger.rebalance_triggers import LedgerClocks
from coordinator.control.member_connections import MemberConnections
from coordinator.control.metrics_snapshot import ControlMetricsSource, GroupCountTable, GroupMetricsSource
from coordinator.control.operator_actions import ActionLog
from coordinator.control.recording.recording_registry import RecordingRegistry
from coordinator.control.stand_ins.stand_in_registry import StandInRegistry
from coordinator.core.outcome import Now


class ControlPlane:
    """The operations and diagnoses of one server. It is created when the server is open and does not listen yet,
    so that it gets every event."""

    def __init__(
        self,
        services: Services,
        group_removals: GroupRemovals | None = None,
        commits: CommitFeed | None = None,
    ) -> None:
        """Create the control plane of an open server.

        Args:
            services: the open parts of the server.
            group_removals: the removals of a namespace, which outlive its resets; None: new ones.
            commits: a feed of stored commits that its creator connects with the oracles; None to observe commits
                from now on, if `oracle.commits` is on.
        """
        self.services: Final = services
        self.allows_crash_faults = services.settings.config.control_enable in ("true", "open")
        """Whether the configuration allows faults that end the process."""
        self.actions = ActionLog()
        self.group_removals = removals = group_removals or GroupRemovals()
        self.group_client = InternalGroupClient(
            services.runtime, services.arrival, services.membership.ownership
        )
        self.member_connections = MemberConnections(services.connections)
        self.clocks = ClockRegistry(services, self.actions, self.group_client, self.member_connections)
        group_now = self.clocks.group_now
        self.clock_commands = ClockCommands(services, self.actions, self.group_client, self.clocks, removals)
        self.member_commands = MemberCommands(
            services, self.actions, self.group_client, self.member_connections, self.clocks, removals
        )
        self.offset_expiry = OffsetExpiry(self.actions, self.group_client, self.clocks, removals)
        self.topics = TopicOperations(services, self.actions)
        self.groups = GroupOperations(
            services, self.group_client, self.member_connections, self.actions, removals, group_now
        )
        self.stand_ins = StandInRegistry(
            services, self.actions, self.group_client, self.groups, self.member_connections
        )
        self.offsets = OffsetOperations(
            self.groups, self.group_client, services.data_plane, self.actions, services.run_queue
        )
        self.ledger = create_ledger(services, self.actions, self.member_connections, group_now)
        self.stream = EventStream()
        self.waits = GroupWaits(
            services,
            self.group_client,
            self.member_connections,
            self.actions,
            group_now,
            removals,
            self.ledger,
        )
        self.worst_findings = WorstFindings(self.waits.find_worst, services.run_queue)
        self._create_faults(services)
        self.oracles = OracleService(services, self.actions, group_now, commits)
        self.recordings = RecordingRegistry(self.group_client)
        self._connect(services)

    def _connect(self, services: Services) -> None:
        self._create_metrics(services)
        services.group_events.subscribe(EventRank.REMOVALS, self.group_removals.on_event)
        services.group_events.subscribe(EventRank.LEDGER, self.ledger.on_event)
        services.group_events.subscribe(EventRank.STREAM, self.stream.on_event)
        services.runtime.unload_listeners.append(lambda part: self.ledger.on_partition_unloaded(part.number))
        self.waits.finding_providers.extend((self.clocks.find_frozen_waits, self.faults.find_held_requests))

    async def finish(self) -> None:
        """Write the remaining data after the last event."""
        await self.ledger.close()

    def close(self, ended_scope: str | None = "this process") -> None:
        """End all waits, holds and recordings. `ended_scope` names in the log the owner of the clocks that end
        although files remain; None if the files are deleted as well."""
        self.lag_histories.close()
        self.recordings.close()
        self.stand_ins.close()
        self.faults.close()
        self.failover.close()
        self.waits.close()
        self.stream.close()
        self.oracles.close()
        self.clocks.close(ended_scope)

    def _create_faults(self, services: Services) -> None:
        self.failover = CoordinatorFailover(
            services,
            self.actions,
            self.group_client,
            self.group_removals,
            self.clocks.find_group,
            self.clocks.disconnected_members.silent_ms,
        )
        self.cluster = ClusterOperations(services, self.actions)
        self.faults = FaultRegistry(
            services,
            self.actions,
            self.failover,
            self.member_connections,
            self._freeze_clock,
            self.member_commands.expire_member,
            allows_crash_faults=self.allows_crash_faults,
        )

    def _create_metrics(self, services: Services) -> None:
        counts = GroupCountTable()
        services.group_events.subscribe(EventRank.METRICS, counts.on_event)
        self.ledger.listeners.append(counts.on_rebalance_closed)
        self.oracles.listeners.append(counts.on_violation)
        self.metrics = ControlMetricsSource(
            counts, self.ledger, self.clocks, self.faults, services.membership, services.run_queue
        )
        self.group_metrics = GroupMetricsSource(
            counts, self.ledger, self.clocks, services.data_plane, services.run_queue
        )
        subscribe = partial(services.group_events.subscribe, EventRank.METRICS)
        self.lag_histories = LagHistories(self.group_metrics, subscribe, services.run_queue, services.loop)

    async def _freeze_clock(self, group_id: str) -> None:
        await self.clocks.set_clock(group_id, frozen=True, expires_disconnected=False)


class LedgerLimits(Struct, frozen=True, kw_only=True):
    """The limits of the ledger, under the names of their properties."""

    ledger_bytes: int
    ledger_file: str


def create_ledger(
    services: Services, actions: ActionLog, connections: MemberConnections, group_now: Callable[[str], Now]
) -> RebalanceLedger:
    """Create the ledger of an open server. It does not listen to events yet. `group_now` returns the time of a
    group.
    """
    limits = services.settings.config.view(LedgerLimits)
    catalogue = services.data_plane.catalogue

    def count_partitions(topic: str) -> int | None:
        found = catalogue.find_topic(topic)
        return None if found is None else len(found.partitions)

    file = LedgerFile(services.settings.files, limits.ledger_file) if limits.ledger_file else None
    return RebalanceLedger(
        actions,
        connections,
        count_partitions,
        LedgerClocks(group_now, turn=lambda: services.group_events.first_number),
        limits.ledger_bytes,
        file,
        topics=services.topic_images.get_current,
    )
