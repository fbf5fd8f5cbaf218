"""The one face of a server: what console, HTTP and the command line may know of it, as values."""

from coordinator.server.figures import Figures, figures
from coordinator.server.overview import Overview, overview, standing
from coordinator.server.server import Server
from coordinator.server.topic_lines import offline
from storage.topic_partition import TopicPartition


class Broker:
    """A server, as it is seen from outside. Everything is asked for anew, in the event loop's thread."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def standing(self) -> str:
        """ready, loading or closing."""
        return standing(self._server)

    def failed(self) -> list[TopicPartition]:
        """The partitions of the groups that could not be read."""
        return self._server.runtime.failed()

    def offline(self) -> str | None:
        """Which partitions of topics have no log that works, in a few words; None when all have."""
        return offline(self._server.data_plane.failed())

    def overview(self) -> Overview:
        """What it is and what it has; once it listens, as the next."""
        return overview(self._server)

    def figures(self) -> Figures:
        """What there is to measure."""
        return figures(self._server)
