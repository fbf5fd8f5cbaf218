"""Matchers of fault rules for requests, responses and group events.

The attributes of a request are read on creation or at first use, because handlers modify requests. A
condition on a field that the selected APIs do not carry could never match, so such a rule is refused at once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from coordinator.broker.group_event_log import UNLOGGED_EVENTS
from coordinator.control.faults.fault_rule import EventMatch, NamePattern, NumberPattern, RequestMatch
from coordinator.control.field_parsers import (
    compile_name_pattern,
    compile_number_pattern,
    impossible_field_problem,
    invalid_field_problem,
    matches_any,
    select_known_names,
    unknown_name_problem,
)
from coordinator.core.outcome import Now
from coordinator.core.wire_name import classes_by_wire_name
from coordinator.group.group_event_types import GroupEvent
from coordinator.group.group_shard import GroupShard
from coordinator.group.group_types import STATE_NAMES
from coordinator.group.group_view import GroupView, MemberView
from coordinator.network.request_context import RequestContext
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.runtime import Runtime
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest

GROUP_KEY_TYPE: Final = 0
"""The key type of a group in FindCoordinator."""

API_BY_NAME: Final[Mapping[str, int]] = {api.name: key for key, api in APIS.items()}

SINGLE_GROUP_APIS: Final = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
    }
)
GROUP_APIS: Final = SINGLE_GROUP_APIS | {
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.DELETE_GROUPS,
}
MEMBER_APIS: Final = SINGLE_GROUP_APIS - {ApiKey.OFFSET_DELETE}
TOPIC_APIS: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
    }
)
RECORD_WRITING_APIS: Final = SINGLE_GROUP_APIS | {ApiKey.DELETE_GROUPS}
"""The APIs that can write records of groups."""

APIS_BY_MATCH_FIELD: Final[Mapping[str, frozenset[ApiKey]]] = {
    "group": GROUP_APIS,
    "state": GROUP_APIS,
    "generation": GROUP_APIS,
    "members": GROUP_APIS,
    "topic": TOPIC_APIS,
    "member_id": MEMBER_APIS,
    "group_instance_id": MEMBER_APIS,
    "role": MEMBER_APIS,
    "first_join": frozenset({ApiKey.JOIN_GROUP}),
}
"""The APIs that carry the attribute of each match field. Every request carries the other attributes."""
ERROR_APIS: Final = GROUP_APIS | {ApiKey.LIST_GROUPS}
"""The APIs with responses in which a fault can put an error."""
PARTITION_ERROR_APIS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE})
"""The APIs with responses in which a fault can put an error of single partitions."""
EMPTY_SUCCESS_APIS: Final = frozenset({ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT})
"""APIs with a response that carries nothing but success, so that NONE can replace an error."""

DEAD: Final = "Dead"
"""Kafka's name for the state of a group that does not exist."""


class BrokerLookup:
    """Looks up the group of a request and the name of a topic."""

    def __init__(
        self, runtime: Runtime[GroupShard], now: Callable[[], Now], topic_name: Callable[[bytes], str | None]
    ) -> None:
        """Create a lookup. `now` returns group time. `topic_name` returns the name for a topic id, or None."""
        self.runtime = runtime
        self.now = now
        self.topic_name = topic_name


class RequestAttributes:
    """The attributes of one request. They are read at their creation or at first use, because handlers change
    requests."""

    __slots__ = (
        "_lookup",
        "_topics",
        "_views",
        "client",
        "group_ids",
        "instance_ids",
        "key",
        "member_ids",
        "named_generation",
        "request",
        "version",
    )

    def __init__(self, key: int, request: Any, context: RequestContext, lookup: BrokerLookup) -> None:
        self.key = key
        self.request = request
        self.version = context.api_version
        self.client = context.client
        self.group_ids = tuple(_group_ids(key, request))
        self.member_ids = tuple(_member_ids(request, "member_id"))
        self.instance_ids = (
            *_member_ids(request, "group_instance_id"),
            *_member_ids(request, "instance_id"),
        )
        self.named_generation = _generation(request)
        self._lookup = lookup
        self._views: dict[str, GroupView | None] = {}
        self._topics: tuple[str, ...] | None = None

    def narrow_request(self, rest: Any) -> None:
        """Let the handler get only the rest of the request. The attributes stay those of the whole request."""
        self.request = rest

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics in the request."""
        if self._topics is None:
            named = _named_topics(self.request, self._lookup.topic_name)
            self._topics = tuple(dict.fromkeys(name for _, name in named))
        return self._topics

    @property
    def partition_names(self) -> Iterator[str]:
        """The names of the topic partitions in the request ("orders-0")."""
        for topic, name in _named_topics(self.request, self._lookup.topic_name):
            parts = getattr(topic, "partition_indexes", None) or getattr(topic, "partitions", None)
            for part in parts or ():
                yield f"{name}-{getattr(part, 'partition_index', part)}"

    def find_partitions(self) -> list[CoordinatorPartition[GroupShard]]:
        """Return the offsets partitions of the groups in the request."""
        found = {id(part): part for part in map(self._lookup.runtime.find_partition, self.group_ids)}
        return list(found.values())

    def find_group(self, group_id: str) -> GroupView | None:
        """Return the view of a group, as at its first use in the match."""
        if group_id not in self._views:
            machine = self._lookup.runtime.find_partition(group_id).machine
            self._views[group_id] = (
                None if machine is None else machine.view_group(group_id, self._lookup.now())
            )
        return self._views[group_id]

    def forget_groups(self) -> None:
        """Discard the views of groups, because a held request is handled later than it arrived."""
        self._views.clear()

    def is_served(self, group_id: str) -> bool:
        """Return whether the group is available now."""
        return self._lookup.runtime.find_partition(group_id).machine is not None

    def find_sender(self, view: GroupView) -> MemberView | None:
        """Return the member of a group that sent the request, or None."""
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
        if request.key_type == GROUP_KEY_TYPE:
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


MAX_CLIENTS: Final = 10_000
"""The maximum number of clients with a remembered first connection."""

_NamePredicate = Callable[[str], bool] | None
_NumberPredicate = Callable[[int], bool] | None


class RequestMatcher:
    """A compiled `RequestMatch`. Its creation raises Problem if no request can match."""

    def __init__(self, match: RequestMatch) -> None:
        self.keys = _select_apis(match)
        """The APIs of requests that can match."""
        self._version = _compile_numbers(match.version, "version")
        self._group = _compile_names(match.group, "group")
        self._topic = _compile_names(match.topic, "topic")
        self._client_id = _compile_names(match.client_id, "client_id")
        self._member_id = _compile_names(match.member_id, "member_id")
        self._instance_id = _compile_names(match.group_instance_id, "group_instance_id")
        self._host = _compile_names(match.host, "host")
        self._role = match.role
        self._state = _compile_names(match.state, "state")
        if match.state is not None:
            select_known_names(match.state, STATE_NAMES, "/match/state", "a state of a group")
        self._generation = _compile_numbers(match.generation, "generation")
        self._members = _compile_numbers(match.members, "members")
        self._first_join = match.first_join
        self._is_first_connection = match.connection == "first"
        self._first_connections: dict[str, int] = {}
        self._errors = None if match.error is None else _compile_errors(match.error)
        view_conditions = (match.role, match.state, match.members, match.first_join)
        self._needs_group_view = any(condition is not None for condition in view_conditions)

    @property
    def awaits_answer(self) -> bool:
        """Whether the match depends on the response."""
        return self._errors is not None

    def matches_errors(self, errors: set[int]) -> bool:
        """Return whether the errors of a response match."""
        return self._errors is None or not self._errors.isdisjoint(errors)

    def matches_request(self, request: RequestAttributes) -> bool:
        """Return whether a request matches, with any response."""
        if request.key not in self.keys or (self._version is not None and not self._version(request.version)):
            return False
        return (
            matches_any(self._client_id, (request.client.client_id,))
            and matches_any(self._host, (request.client.host, request.client.host.removeprefix("/")))
            and matches_any(self._member_id, request.member_ids)
            and matches_any(self._instance_id, request.instance_ids)
            and (self._topic is None or matches_any(self._topic, request.topics))
            and (
                not self._restricts_group
                or any(self._matches_group(request, name) for name in request.group_ids)
            )
            and (not self._is_first_connection or self._is_first(request))
        )

    def select_groups(self, request: RequestAttributes) -> list[str]:
        """Return the matching groups of a request; all of them if the rule has no condition on groups."""
        if not self._restricts_group:
            return list(request.group_ids)
        return [group_id for group_id in request.group_ids if self._matches_group(request, group_id)]

    @property
    def _restricts_group(self) -> bool:
        return self._needs_group_view or self._group is not None or self._generation is not None

    def _matches_group(self, request: RequestAttributes, group_id: str) -> bool:
        if self._group is not None and not self._group(group_id):
            return False
        if not self._needs_group_view and (self._generation is None or request.named_generation is not None):
            return self._generation is None or self._generation(request.named_generation or 0)
        if not request.is_served(group_id):
            return False
        view = request.find_group(group_id)
        return self._matches_generation(request, view) and self._matches_view(request, view)

    def _matches_generation(self, request: RequestAttributes, view: GroupView | None) -> bool:
        if self._generation is None:
            return True
        if request.named_generation is not None:
            return self._generation(request.named_generation)
        return view is not None and self._generation(view.generation_id)

    def _matches_view(self, request: RequestAttributes, view: GroupView | None) -> bool:
        if self._state is not None and not self._state(DEAD if view is None else view.state):
            return False
        if self._members is not None and not self._members(0 if view is None else len(view.members)):
            return False
        sender = None if view is None else request.find_sender(view)
        if self._first_join is not None and self._first_join is not (sender is None):
            return False
        if self._role is None:
            return True
        if view is None or sender is None:
            return False
        return (sender.name.member_id == view.leader_id) is (self._role == "leader")

    def _is_first(self, request: RequestAttributes) -> bool:
        if (
            len(self._first_connections) >= MAX_CLIENTS
            and request.client.client_id not in self._first_connections
        ):
            return False
        first = self._first_connections.setdefault(request.client.client_id, request.client.connection_id)
        return first == request.client.connection_id


def _select_apis(match: RequestMatch) -> frozenset[int]:
    keys = frozenset(API_BY_NAME.values())
    if match.api is not None:
        names = select_known_names(match.api, API_BY_NAME, "/match/api", "a Kafka API")
        keys = frozenset(API_BY_NAME[name] for name in names)
    for field, carriers in APIS_BY_MATCH_FIELD.items():
        if getattr(match, field) is not None:
            carried = frozenset(key for key in keys if key in carriers)
            if not carried:
                raise impossible_field_problem(
                    f"/match/{field}", f"{_format_apis(keys)} has no {field}, so the fault would never match"
                )
            keys = carried
    version = _compile_numbers(match.version, "version")
    if version is not None:
        served = frozenset(key for key in keys if any(map(version, _versions(key))))
        if not served:
            ranges = ", ".join(f"{APIS[key].name} has {_format_versions(key)}" for key in sorted(keys)[:3])
            raise impossible_field_problem("/match/version", f"no such version is served: {ranges}")
        keys = served
    return keys


def _versions(key: int) -> range:
    versions = APIS[key].versions
    return range(versions.first, versions.last + 1)


def _format_versions(key: int) -> str:
    return f"{APIS[key].versions.first} to {APIS[key].versions.last}"


def _format_apis(keys: frozenset[int]) -> str:
    names = sorted(APIS[key].name for key in keys)
    return names[0] if len(names) == 1 else f"None of {', '.join(names[:5])}"


def _compile_names(names: NamePattern | None, field: str) -> _NamePredicate:
    return None if names is None else compile_name_pattern(names, f"/match/{field}")


def _compile_numbers(number: NumberPattern | None, field: str) -> _NumberPredicate:
    return None if number is None else compile_number_pattern(number, f"/match/{field}")


def _compile_errors(names: NamePattern) -> frozenset[int]:
    found = select_known_names(names, ErrorCode.__members__, "/match/error", "a Kafka error")
    return frozenset(int(ErrorCode[name]) for name in found)


def parse_error(error: str | int) -> ErrorCode:
    """Parse the name or number of an error. Raises Problem (bad-request)."""
    try:
        return ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except KeyError:
        raise unknown_name_problem(str(error), ErrorCode.__members__, "/do/error", "a Kafka error") from None
    except ValueError:
        codes = f"{min(ErrorCode)} to {max(ErrorCode)}"
        raise invalid_field_problem(
            "/do/error", f"{error} is not the code of a Kafka error ({codes})"
        ) from None


EVENT_KINDS: Final = classes_by_wire_name(GroupEvent)


class EventMatcher:
    """A compiled `EventMatch`. Its creation raises Problem for an event that cannot occur."""

    def __init__(self, on: EventMatch) -> None:
        names = select_known_names(on.event, EVENT_KINDS, "/on/event", "an event of a group")
        self._kinds = frozenset(EVENT_KINDS[name] for name in names)
        if self._kinds <= set(UNLOGGED_EVENTS):
            raise impossible_field_problem("/on/event", f"groupd does not publish {on.event}")
        self._group = None if on.group is None else compile_name_pattern(on.group, "/on/group")
        self._generation = (
            None if on.generation is None else compile_number_pattern(on.generation, "/on/generation")
        )
        self._client_id = (
            None if on.client_id is None else compile_name_pattern(on.client_id, "/on/client_id")
        )
        self._member_id = (
            None if on.member_id is None else compile_name_pattern(on.member_id, "/on/member_id")
        )
        self._instance_id = (
            None
            if on.group_instance_id is None
            else compile_name_pattern(on.group_instance_id, "/on/group_instance_id")
        )

    def matches_event(self, event: GroupEvent) -> bool:
        """Return whether an event matches."""
        if type(event) not in self._kinds or not matches_any(self._group, (event.group_id,)):
            return False
        if self._generation is not None and (
            event.generation_id is None or not self._generation(event.generation_id)
        ):
            return False
        member = event.member
        if member is None:
            return self._client_id is self._member_id is self._instance_id is None
        return (
            matches_any(self._client_id, (member.client_id,))
            and matches_any(self._member_id, (member.member_id,))
            and matches_any(
                self._instance_id, () if member.group_instance_id is None else (member.group_instance_id,)
            )
        )


def find_named_members(view: GroupView, names: Sequence[str]) -> list[MemberView]:
    """Return the members of a group that match one of these member ids, instance ids or client ids, with `*`."""
    matches = compile_name_pattern(list(names), "/do/disconnect")
    return [member for member in view.members if any(matches(name or "") for name in member.name[:3])]
