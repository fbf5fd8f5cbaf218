"""Everything that faults stand between, put together; made with the first fault."""

from collections.abc import Callable, Sequence

from coordinator.control.acts import Acts
from coordinator.control.faults.asked import Surroundings
from coordinator.control.faults.disk import DiskSeam
from coordinator.control.faults.fault import Fault, first_that_acts
from coordinator.control.faults.seam import RequestSeam
from coordinator.control.faults.told import Told
from coordinator.group.events import Event
from coordinator.machine.outcome import Now
from coordinator.server.server import Server

Act = Callable[[Fault, str], None]
"""Does what a fault does on an event of a group."""


class Seams:
    """See the top of this file."""

    def __init__(self, server: Server, acts: Acts, act: Act) -> None:
        catalogue = server.data_plane.catalogue

        def topic_name(topic_id: bytes) -> str | None:
            topic = catalogue.get_by_id(topic_id)
            return None if topic is None else topic.name

        self.told = Told(acts)
        self.disk = DiskSeam(server, self.told)
        around = Surroundings(server.runtime, server.group_clock.now, topic_name)
        self._requests = RequestSeam(server, around, self.disk, self.told)
        self._server = server
        self._act = act
        self._on_events: list[Fault] = []

    def use(self, faults: Sequence[Fault]) -> None:
        """These are there from now on, in the order in which they were made."""
        self._on_events = [fault for fault in faults if fault.on is not None]
        self._requests.use([fault for fault in faults if fault.on is None])
        self._listen()

    def add(self, fault: Fault) -> None:
        """One more is there from now on."""
        if fault.on is None:
            self._requests.add(fault)
        else:
            self._on_events.append(fault)
            self._listen()

    def _listen(self) -> None:
        listeners = self._server.group_events.listeners
        is_listening = self._happened in listeners
        if self._on_events and not is_listening:
            listeners.append(self._happened)
        elif is_listening and not self._on_events:
            listeners.remove(self._happened)

    def _happened(self, _: int, event: Event, number: int, now: Now) -> None:
        """Something happened in a group, in the middle of its turn: what comes of it waits for the end of that."""
        fault = first_that_acts(
            self._on_events,
            lambda fault: fault.on is not None and fault.on.fits(event),
        )
        if fault is not None:
            self.told.hit_event(fault, event.group_id, type(event).__name__)
            self._server.loop.call_soon(self._act, fault, event.group_id)
