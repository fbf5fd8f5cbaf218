"""The one face of a server: what console, HTTP and the command line may know of it, as values."""

import asyncio

from coordinator import clock
from coordinator.net.lines_per_address import LinesPerAddress
from coordinator.net.run_queue import SLICE_NS
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

    @property
    def lines(self) -> LinesPerAddress:
        """Whether a peer that misbehaves is told of, whatever port it came to."""
        return self._server.connections.lines

    def failed(self) -> list[TopicPartition]:
        """The partitions of coordinators, of groups and of transactions, that could not be read."""
        return self._server.engine.failed()

    def disk_refusal(self) -> str | None:
        """Why the disk takes no commits of some groups, with the name of a file; None while it does."""
        return self._server.engine.refusal()

    def offline(self) -> str | None:
        """Which partitions of topics have no log that works, in a few words; None when all have."""
        return offline(self._server.data_plane.failed())

    def overview(self) -> Overview:
        """What it is and what it has; once it listens, as the next."""
        return overview(self._server)

    def figures(self) -> Figures:
        """What there is to measure, in one go: nobody is answered meanwhile."""
        steps = figures(self._server)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: Figures = end.value
                return found

    async def gather_figures(self) -> Figures:
        """The same in slices, with everybody else in between."""
        steps = figures(self._server)
        started_ns = clock.monotonic_ns()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: Figures = end.value
                return found
            if clock.monotonic_ns() - started_ns > SLICE_NS:
                await asyncio.sleep(0)
                started_ns = clock.monotonic_ns()
