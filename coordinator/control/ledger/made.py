"""The ledger of a server."""

from collections.abc import Callable

from coordinator.control.acts import Acts
from coordinator.control.ledger.file import LedgerFile
from coordinator.control.ledger.ledger import Ledger
from coordinator.control.ledger.limits import LedgerLimits
from coordinator.control.member_connections import MemberConnections
from coordinator.machine.outcome import Now
from coordinator.server.server import Server


def made_ledger(
    server: Server, acts: Acts, connections: MemberConnections, now_of: Callable[[str], Now]
) -> Ledger:
    """Of a server that is open. It has yet to be told what happens. In: the time of a group."""
    limits = server.settings.config.view(LedgerLimits)
    catalogue = server.data_plane.catalogue

    def count_partitions(topic: str) -> int | None:
        found = catalogue.get(topic)
        return None if found is None else len(found.partitions)

    file = LedgerFile(server.settings.files, limits.ledger_file) if limits.ledger_file else None
    return Ledger(
        acts,
        connections,
        count_partitions,
        now_of,
        limits.ledger_bytes,
        file,
        turn=lambda: server.group_events.turn,
        topics=server.topic_images.current,
    )
