"""Refreshes the catalogue before a daemon answers UNKNOWN_TOPIC_OR_PARTITION: another daemon of the cluster may
have created the topic a moment ago.

Requests that arrive during a refresh share the next one, which begins after all of them have arrived.
"""

import asyncio
import logging
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

_LOG: Final = logging.getLogger("MetadataCache")

FindUnknownTopics = Callable[[Catalogue, Any, int], Iterator[str | None]]
"""Takes the catalogue, a request and its version. Yields the names of requested topics that the catalogue does not
have, or has with fewer partitions; None for an unknown topic id."""
_MAX_NAMES: Final = 20
"""Number of unknown topics above which the whole catalogue is refreshed."""


class UnknownTopicRefresh:
    """Refreshes the catalogue before an unknown topic is answered. All methods belong to the event loop's
    thread."""

    def __init__(
        self, catalogue: Catalogue, refresh_topics: Callable[[Sequence[str] | None], Awaitable[object]]
    ) -> None:
        """Create a refresh.

        Args:
            catalogue: The topics that this daemon knows.
            refresh_topics: Reads topics from the cluster, by name, or all for None.
        """
        self._catalogue = catalogue
        self._refresh_topics = refresh_topics
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self._wanted: set[str | None] = set()
        self._underway: set[asyncio.Task[None]] = set()

    def wrap_routes(self, routes: Routes) -> Routes:
        """Return routes that refresh the catalogue before they answer a request for unknown topics."""
        handlers: dict[int, Handler] = {}
        for key, unknown in UNKNOWN_TOPIC_FINDERS.items():
            handlers[key] = _RefreshingHandler(self, routes.get_handler(key), unknown).handle
        return routes.with_handlers(handlers)

    def find_unknown(self, unknown: FindUnknownTopics, request: Any, version: int) -> set[str | None]:
        """Return the unknown topics of a request; see `FindUnknownTopics`."""
        return set(unknown(self._catalogue, request, version))

    def start_refresh(self, names: set[str | None], then: Callable[[], None]) -> asyncio.Task[None]:
        """Refresh topics, then call `then`, also when the refresh has failed. Return the task."""

        async def work() -> None:
            try:
                await self._join_refresh(names)
            except Exception as problem:  # noqa: BLE001 - the client gets an answer from the catalogue as it is
                _LOG.error("Failed to refresh the topics of the cluster", exc_info=problem)
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
    """Refreshes the catalogue before the handler of one API answers."""

    def __init__(self, refresh: UnknownTopicRefresh, handler: Handler, unknown: FindUnknownTopics) -> None:
        self._refresh = refresh
        self._handler = handler
        self._unknown = unknown

    def handle(self, request: Any, context: RequestContext) -> object:
        """Call the handler: at once if all topics are known or the request is large, else after a refresh."""
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
