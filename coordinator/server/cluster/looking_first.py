"""Requests about topics that are not known here yet: another daemon may have made them a moment ago. So there is
one look at what the cluster has, before the client is told that there is no such topic.

Who asks while others look waits for the next look, which begins after the question came, and which all share.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from coordinator.answers import GOODBYE, NO_ANSWER, PARKED, Later, Silence
from coordinator.net.caller import Caller
from coordinator.net.route import Handler
from coordinator.net.routes import Routes
from coordinator.net.slot import Slot
from coordinator.server.handlers.offsets import TOPIC_IDS_SINCE
from coordinator.server.handlers.stand import Stand
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.topic import ZERO_ID
from coordinator.topics.topic_name import is_internal
from protocol.apis import ApiKey

Unknown = Callable[[Catalogue, Any, int], Iterator[str | None]]
"""Takes a request and its version; gives names of topics that are not known as it has them, None for an id."""
_MOST_NAMES: Final = 20
"""Of more everything is looked at."""


class LookingFirst:
    """All methods belong to the event loop's thread."""

    def __init__(
        self, catalogue: Catalogue, look_for: Callable[[Sequence[str] | None], Awaitable[object]]
    ) -> None:
        """In: who takes up topics of some names, or all, as they are now."""
        self._catalogue = catalogue
        self._look_for = look_for
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self._wanted: set[str | None] = set()
        self._underway: set[asyncio.Task[None]] = set()

    def altered(self, routes: Routes) -> Routes:
        """The same table, in which some APIs look first."""
        handlers: dict[int, Handler] = {}
        for key, unknown in UNKNOWN_IN.items():
            handlers[key] = _Handler(self, routes.handler(key), unknown).handle
        return routes.altered(handlers)

    def unknown_of(self, unknown: Unknown, request: Any, version: int) -> set[str | None]:
        """What a request names that is not known."""
        return set(unknown(self._catalogue, request, version))

    def begin(self, names: set[str | None], then: Callable[[], None]) -> asyncio.Task[None]:
        """Looks, and then goes on."""

        async def work() -> None:
            await self._look(names)
            then()

        task = asyncio.get_running_loop().create_task(work())
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)
        return task

    async def _look(self, names: set[str | None]) -> None:
        self._wanted |= names
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._after(self._running))
        await asyncio.shield(self._next)

    async def _after(self, running: "asyncio.Task[None] | None") -> None:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        wanted, self._wanted = self._wanted, set()
        names = [name for name in wanted if name is not None]
        await self._look_for(None if None in wanted or len(names) > _MOST_NAMES else names)


class _Handler:
    """One API."""

    def __init__(self, looking: LookingFirst, handler: Handler, unknown: Unknown) -> None:
        self._looking = looking
        self._handler = handler
        self._unknown = unknown

    def handle(self, request: Any, caller: Caller) -> object:
        """At once where everything is known. A request that is large is not looked through."""
        if caller.is_large:
            return self._handler(request, caller)
        names = self._looking.unknown_of(self._unknown, request, caller.api_version)
        if not names:
            return self._handler(request, caller)
        _Waiting(caller, request, self._handler).begin(self._looking, names)
        return PARKED


class _Waiting(Stand):
    """A request that waits for a look."""

    __slots__ = ("_handler", "_request", "_slot")

    def __init__(self, caller: Caller, request: object, handler: Handler) -> None:
        super().__init__(caller)
        self._request = request
        self._handler = handler
        self._slot: Slot

    def begin(self, looking: LookingFirst, names: set[str | None]) -> None:
        """Takes the place of the answer."""
        slot = self._slot = self.caller.answer_later(parks=True)
        slot.ends = True
        slot.dropped = looking.begin(names, self._go_on).cancel

    def answer_later(self, *, parks: bool) -> Slot:
        return self._slot

    def _go_on(self) -> None:
        slot = self._slot
        slot.ends, slot.dropped = False, None
        try:
            response = self._handler(self._request, self)
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            slot.owner.has_failed(problem)
            return
        if isinstance(response, Later):
            return
        slot.fill(NO_ANSWER if isinstance(response, Silence) else response)
        if response is GOODBYE:
            slot.owner.close()


def _in_commit(catalogue: Catalogue, request: Any, version: int) -> Iterator[str | None]:
    for asked in request.topics:
        by_id = version >= TOPIC_IDS_SINCE
        topic = catalogue.get_by_id(asked.topic_id) if by_id else catalogue.get(asked.name)
        count = 0 if topic is None else len(topic.partitions)
        if any(part.partition_index >= count for part in asked.partitions):
            yield topic.name if topic is not None else None if by_id else asked.name


def _in_metadata(catalogue: Catalogue, request: Any, _: int) -> Iterator[str | None]:
    for asked in request.topics or ():
        if asked.topic_id != ZERO_ID:
            if catalogue.get_by_id(asked.topic_id) is None:
                yield None
        elif asked.name is not None and catalogue.get(asked.name) is None and not is_internal(asked.name):
            yield asked.name


def _in_creation(catalogue: Catalogue, request: Any, _: int) -> Iterator[str | None]:
    return (asked.name for asked in request.topics if catalogue.get(asked.name) is None)


UNKNOWN_IN: Final[Mapping[int, Unknown]] = {
    ApiKey.OFFSET_COMMIT: _in_commit,
    ApiKey.METADATA: _in_metadata,
    ApiKey.CREATE_TOPICS: _in_creation,
}
