"""Requests about topics that are not known here yet: another daemon may have made them a moment ago. So there is
one look at what the cluster has, before the client is told that there is no such topic.

Who asks while others look waits for the next look, which begins after the question came, and which all share.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from coordinator.apis.offset_handlers import COMMIT_TOPIC_IDS_SINCE
from coordinator.core.response_status import BLOCKED
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Handler, Routes
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.topic import ZERO_ID
from coordinator.topics.topic_name import is_internal
from protocol.apis import ApiKey

FindUnknownTopics = Callable[[Catalogue, Any, int], Iterator[str | None]]
"""Takes a request and its version; gives names of topics that are not known as it has them, None for an id."""
_MAX_NAMES: Final = 20
"""Of more everything is looked at."""


class UnknownTopicRefresh:
    """Refreshes the catalogue before an unknown topic is answered. All methods belong to the event loop's
    thread."""

    def __init__(
        self, catalogue: Catalogue, refresh_topics: Callable[[Sequence[str] | None], Awaitable[object]]
    ) -> None:
        """In: who takes up topics of some names, or all, as they are now."""
        self._catalogue = catalogue
        self._refresh_topics = refresh_topics
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self._wanted: set[str | None] = set()
        self._underway: set[asyncio.Task[None]] = set()

    def wrap_routes(self, routes: Routes) -> Routes:
        """Return routes in which some APIs look for unknown topics first."""
        handlers: dict[int, Handler] = {}
        for key, unknown in UNKNOWN_TOPIC_FINDERS.items():
            handlers[key] = _RefreshingHandler(self, routes.get_handler(key), unknown).handle
        return routes.with_handlers(handlers)

    def find_unknown(self, unknown: FindUnknownTopics, request: Any, version: int) -> set[str | None]:
        """What a request names that is not known."""
        return set(unknown(self._catalogue, request, version))

    def start_refresh(self, names: set[str | None], then: Callable[[], None]) -> asyncio.Task[None]:
        """Looks, and then goes on."""

        async def work() -> None:
            await self._join_refresh(names)
            then()

        task = asyncio.get_running_loop().create_task(work())
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)
        return task

    async def _join_refresh(self, names: set[str | None]) -> None:
        self._wanted |= names
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run_refresh(self._running))
        await asyncio.shield(self._next)

    async def _run_refresh(self, running: "asyncio.Task[None] | None") -> None:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        wanted, self._wanted = self._wanted, set()
        names = [name for name in wanted if name is not None]
        await self._refresh_topics(None if None in wanted or len(names) > _MAX_NAMES else names)


class _RefreshingHandler:
    """The handler of one API behind a refresh."""

    def __init__(self, refresh: UnknownTopicRefresh, handler: Handler, unknown: FindUnknownTopics) -> None:
        self._refresh = refresh
        self._handler = handler
        self._unknown = unknown

    def handle(self, request: Any, context: RequestContext) -> object:
        """At once where everything is known. A request that is large is not looked through."""
        if context.is_large:
            return self._handler(request, context)
        names = self._refresh.find_unknown(self._unknown, request, context.api_version)
        if not names:
            return self._handler(request, context)
        reply = context.defer(blocks=True)
        late_context = context.with_reply(reply)
        refresh = self._refresh.start_refresh(
            names, lambda: reply.complete_with(self._handler, request, late_context)
        )
        reply.begin_work(refresh.cancel)
        return BLOCKED


def _find_unknown_in_commit(catalogue: Catalogue, request: Any, version: int) -> Iterator[str | None]:
    for requested in request.topics:
        by_id = version >= COMMIT_TOPIC_IDS_SINCE
        topic = (
            catalogue.find_topic_by_id(requested.topic_id) if by_id else catalogue.find_topic(requested.name)
        )
        count = 0 if topic is None else len(topic.partitions)
        if any(part.partition_index >= count for part in requested.partitions):
            yield topic.name if topic is not None else None if by_id else requested.name


def _find_unknown_in_metadata(catalogue: Catalogue, request: Any, _: int) -> Iterator[str | None]:
    for requested in request.topics or ():
        if requested.topic_id != ZERO_ID:
            if catalogue.find_topic_by_id(requested.topic_id) is None:
                yield None
        elif (
            requested.name is not None
            and catalogue.find_topic(requested.name) is None
            and not is_internal(requested.name)
        ):
            yield requested.name


def _find_unknown_in_creation(catalogue: Catalogue, request: Any, _: int) -> Iterator[str | None]:
    return (requested.name for requested in request.topics if catalogue.find_topic(requested.name) is None)


UNKNOWN_TOPIC_FINDERS: Final[Mapping[int, FindUnknownTopics]] = {
    ApiKey.OFFSET_COMMIT: _find_unknown_in_commit,
    ApiKey.METADATA: _find_unknown_in_metadata,
    ApiKey.CREATE_TOPICS: _find_unknown_in_creation,
}
