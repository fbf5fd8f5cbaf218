"""The control plane of the daemon's own broker, which also controls the namespaces and exports traces."""

from coordinator.broker.services import Services
from coordinator.control.control_plane import ControlPlane
from coordinator.control.diagnosis.commit_observer import CommitFeed
from coordinator.control.ledger.trace_endpoint import create_exporter
from coordinator.control.namespaces.namespace_registry import NamespaceRegistry


class DaemonControlPlane(ControlPlane):
    """Adds the namespaces and the trace exporter, which exist once in a process, to a `ControlPlane`."""

    def __init__(self, services: Services, commits: CommitFeed | None = None) -> None:
        """Create the control plane of the daemon's broker. `commits` is as in `ControlPlane`."""
        super().__init__(services, commits=commits)
        self.namespaces = NamespaceRegistry(services, self.actions)
        self._traces = create_exporter()
        """Exports closed rebalances; None if traces are off."""
        if self._traces is not None:
            self.ledger.listeners.append(self._traces.on_rebalance_closed)

    async def finish(self) -> None:
        """Write and send the remaining data after the last event."""
        await super().finish()
        if self._traces is not None:
            await self._traces.close()
