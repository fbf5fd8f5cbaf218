"""A request as rules see it: what it names, who sent it, and the group that it is about."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from coordinator.control.faults.scope import GROUP_OF_FIND
from coordinator.engine.partition import Partition
from coordinator.engine.runtime import Runtime
from coordinator.group.shard import Shard
from coordinator.group.view import GroupView, MemberView
from coordinator.machine.outcome import Now
from coordinator.net.caller import Caller
from protocol.apis import ApiKey
from protocol.messages.find_coordinator import FindCoordinatorRequest

DEAD: Final = "Dead"
"""How Kafka calls the state of a group that is not there."""


class Surroundings:
    """Where the group of a request is found, and the name of a topic."""

    def __init__(
        self, runtime: Runtime[Shard], now: Callable[[], Now], topic_name: Callable[[bytes], str | None]
    ) -> None:
        """In: group time; the name of the topic with an id, None where there is none."""
        self.runtime = runtime
        self.now = now
        self.topic_name = topic_name


class Asked:
    """One request. What it says is read when it is made, or first asked for: handlers change requests."""

    __slots__ = (
        "_around",
        "_topics",
        "_views",
        "client_host",
        "client_id",
        "connection_id",
        "group_ids",
        "instance_ids",
        "key",
        "member_ids",
        "named_generation",
        "request",
        "version",
    )

    def __init__(self, key: int, request: Any, caller: Caller, around: Surroundings) -> None:
        self.key = key
        self.request = request
        self.version = caller.api_version
        self.client_id = caller.client_id
        self.client_host = caller.client_host
        self.connection_id = caller.connection_id
        self.group_ids = tuple(_group_ids(key, request))
        self.member_ids = tuple(_member_ids(request, "member_id"))
        self.instance_ids = (
            *_member_ids(request, "group_instance_id"),
            *_member_ids(request, "instance_id"),
        )
        self.named_generation = _generation(request)
        self._around = around
        self._views: dict[str, GroupView | None] = {}
        self._topics: tuple[str, ...] | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics that it names."""
        if self._topics is None:
            named = _named_topics(self.request, self._around.topic_name)
            self._topics = tuple(dict.fromkeys(name for _, name in named))
        return self._topics

    @property
    def partition_names(self) -> Iterator[str]:
        """The partitions of topics that it names ("orders-0")."""
        for topic, name in _named_topics(self.request, self._around.topic_name):
            parts = getattr(topic, "partition_indexes", None) or getattr(topic, "partitions", None)
            for part in parts or ():
                yield f"{name}-{getattr(part, 'partition_index', part)}"

    def partitions(self) -> list[Partition[Shard]]:
        """The offsets partitions of its groups."""
        found = {id(part): part for part in map(self._around.runtime.partition_of, self.group_ids)}
        return list(found.values())

    def view(self, group_id: str) -> GroupView | None:
        """A group when it was first asked for."""
        if group_id not in self._views:
            machine = self._around.runtime.partition_of(group_id).machine
            self._views[group_id] = None if machine is None else machine.view(group_id, self._around.now())
        return self._views[group_id]

    def look_anew(self) -> None:
        """Forgets how groups were: it is reached later than it came."""
        self._views.clear()

    def is_served(self, group_id: str) -> bool:
        """Whether anything can be said of a group now."""
        return self._around.runtime.partition_of(group_id).machine is not None

    def sender(self, view: GroupView) -> MemberView | None:
        """The member of a group that sent it."""
        for member in view.members:
            if member.name.member_id in self.member_ids or (
                member.name.group_instance_id is not None
                and member.name.group_instance_id in self.instance_ids
            ):
                return member
        return None


def _group_ids(key: int, request: Any) -> Iterator[str]:
    if key == ApiKey.DESCRIBE_GROUPS:
        yield from request.groups
    elif key == ApiKey.CONSUMER_GROUP_DESCRIBE:
        yield from request.group_ids
    elif key == ApiKey.DELETE_GROUPS:
        yield from request.groups_names
    elif key == ApiKey.OFFSET_FETCH and request.groups:
        for group in request.groups:
            yield group.group_id
    elif isinstance(request, FindCoordinatorRequest):
        if request.key_type == GROUP_OF_FIND:
            yield from request.coordinator_keys or [request.key]
    elif (group_id := getattr(request, "group_id", None)) is not None:
        yield group_id


def _member_ids(request: Any, name: str) -> Iterator[str]:
    for part in (request, *getattr(request, "members", ())):
        if found := getattr(part, name, None):
            yield found


def _generation(request: Any) -> int | None:
    generation = getattr(request, "generation_id", None)
    if generation is None:
        generation = getattr(request, "generation_id_or_member_epoch", None)
    if generation is None:
        generation = getattr(request, "member_epoch", None)
    return generation


def _named_topics(request: Any, topic_name: Callable[[bytes], str | None]) -> Iterator[tuple[Any, str]]:
    holders = (request, *(getattr(request, "groups", None) or ()))
    for holder in holders:
        for field in ("topics", "topic_data"):
            for topic in getattr(holder, field, None) or ():
                name = getattr(topic, "name", None) or getattr(topic, "topic", None)
                name = name or topic_name(getattr(topic, "topic_id", b""))
                if isinstance(name, str):
                    yield topic, name
