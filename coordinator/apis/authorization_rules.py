"""Rules of authorization: the rights that a request needs, and the place of refused elements in its response.

A rule creates the guard of its API. A guard checks the rights of a request, removes the refused elements from it,
and adds their entries to the response of the handler. `authorization_table.py` has the rule of each API.

- `WholeRequest`: the request needs each of some rights; without them it has an error response.
- `PerElement`: the request needs a right for each element of an array. The others are refused.
- `PerEntry`: the response omits entries for which the client lacks a right.
- `CustomGuard`: a function checks the rights. `NoGuard`: the handler checks them, or the request needs none.

Error responses come from the declared messages (`protocol/error_response.py`).
"""

from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from coordinator.apis.auth_helper import AuthHelper, AuthorizationDenied
from coordinator.core.time_budget import Budget
from coordinator.security.core.acl import CLUSTER_NAME, AclOperation, ResourceType
from protocol.apis import Api
from protocol.error_codes import ErrorCode
from protocol.error_response import find_entry_array

Element = TypeVar("Element")

DENIED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a client that lacks a right on a resource."""
_UNKNOWN_TOPIC_ERRORS: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

ELEMENTS_PER_STEP = 16
"""The elements that a guard checks between two checkpoints."""

FinishResponse = Callable[[Any, Budget], Coroutine[Any, Any, Any]]
"""Takes the response of the handler and a budget. Returns the response for the client."""


class GuardPassed(Struct, frozen=True):
    """The rest of the request goes to its handler."""

    finish: FinishResponse | None = None
    """None: the response of the handler needs no change."""
    closes: bool = False
    """Whether the connection is closed after the request, since its client expects no response."""
    arguments: tuple[Any, ...] = ()
    """Further arguments for the handler."""


PASS: Final = GuardPassed()
GuardResult = GuardPassed | AuthorizationDenied
Guard = Callable[[Any, AuthHelper], GuardResult]
"""Checks the rights of a request, and removes the refused elements from it."""
CoroutineGuard = Callable[[Any, AuthHelper, Budget], Coroutine[Any, Any, GuardResult]]
"""A guard of requests with many elements. Other requests may be processed at its checkpoints.

As in Kafka, a request is authorized once: a decision that the helper has taken holds until the request is answered,
also when an ACL changes meanwhile. A guard checks other facts, such as the existence of a topic, after its last
checkpoint, because they must still hold when the handler runs.
"""


class Require(NamedTuple):
    """A right that a request needs."""

    operation: AclOperation
    resource: ResourceType
    field: str = ""
    """The field of the request that names the resource. It is empty for the cluster, and in lists of rights."""


def deny_unless_granted(
    requires: Iterable[Require], request: Any, helper: AuthHelper, has_message: bool = False
) -> AuthorizationDenied | None:
    """Return the denial of a request by the first right that its client lacks, or None."""
    for operation, resource, field in requires:
        if helper.allows(operation, resource, getattr(request, field) if field else CLUSTER_NAME):
            continue
        return _deny(request, helper, resource, has_message)
    return None


def _deny(request: Any, helper: AuthHelper, resource: ResourceType, has_message: bool) -> AuthorizationDenied:
    error = DENIED[resource]
    return helper.deny_request(request, error, error.message if has_message else None)


def is_covered(covered_by: Require, helper: AuthHelper) -> bool:
    """Return whether the client has a right on the cluster that replaces the others. A denial is not logged."""
    return helper.allows_on_cluster(covered_by.operation, logs_denied=False)


class Rule(Protocol):
    """The rule of one API."""

    def create_guard(self, api: Api) -> Guard | CoroutineGuard | None:
        """Return the guard of an API, or None for a request without one."""

    def list_rights(self) -> Iterator[Require]:
        """Return the rights that the rule checks."""


class WholeRequest(Struct, frozen=True):
    """A request that needs each of some rights. Kafka checks them in this order."""

    requires: tuple[Require, ...]
    requires_each: Require | None = None
    """A right on each resource that a field lists. The field may be null. Kafka checks it last."""
    covered_by: Require | None = None
    """A right that replaces the others."""
    unless: Callable[[Any, int], bool] | None = None
    """Takes a request and its version. Returns whether the handler refuses the request for another reason, which
    Kafka checks before."""
    has_message: bool = False
    """Whether the error has Kafka's message."""
    lends_description: bool = False
    """Whether the handler gets a further argument: a function that returns whether the client may describe a topic.
    """

    def create_guard(self, _: Api) -> Guard | CoroutineGuard:
        """Return the guard."""
        requires, covered_by, unless = self.requires, self.covered_by, self.unless
        has_message, lends_description = self.has_message, self.lends_description
        requires_each = self.requires_each

        def guard(request: Any, helper: AuthHelper) -> GuardResult:
            if unless is not None and unless(request, helper.api_version):
                return PASS
            if covered_by is not None and is_covered(covered_by, helper):
                return PASS
            denied = deny_unless_granted(requires, request, helper, has_message)
            if denied is not None:
                return denied
            return GuardPassed(arguments=(helper.may_describe,)) if lends_description else PASS

        if requires_each is None:
            return guard
        assert unless is None, "requests that the handler refuses would still be checked"
        assert covered_by is None, "the right would not cover the resources of a list"
        operation, resource, field = requires_each

        async def guard_each(request: Any, helper: AuthHelper, budget: Budget) -> GuardResult:
            result = guard(request, helper)
            names: Sequence[str] | None = getattr(request, field)
            if isinstance(result, AuthorizationDenied) or not names:
                return result
            for step in in_steps(names):
                if not allows_few(step, partial(helper.allows, operation, resource)):
                    return _deny(request, helper, resource, has_message)
                await budget.checkpoint()
            return result

        return guard_each

    def list_rights(self) -> Iterator[Require]:
        """Return the rights that the rule checks."""
        yield from filter(None, (self.covered_by, *self.requires, self.requires_each))
        if self.lends_description:
            yield Require(AclOperation.DESCRIBE, ResourceType.TOPIC)


def in_steps(elements: Sequence[Element]) -> Iterable[Sequence[Element]]:
    """Return the elements in lists of at most `ELEMENTS_PER_STEP`, for a checkpoint after each list."""
    if len(elements) <= ELEMENTS_PER_STEP:
        return (elements,)
    starts = range(0, len(elements), ELEMENTS_PER_STEP)
    return (elements[start : start + ELEMENTS_PER_STEP] for start in starts)


class SplitElements(NamedTuple):
    """The elements of a request, after their rights were checked."""

    elements: Sequence[Any]
    """All of them, in the order of the request."""
    allowed: list[Any]
    refused: list[Any]
    """The error entries of the refused elements."""
    positions: list[int]
    """The positions of the refused elements in the request."""


async def partition_by_authorized(
    elements: Sequence[Element],
    allows: Callable[[Any], bool],
    refuse: Callable[[Element], Any],
    budget: Budget,
    find_name: Callable[[Element], Any] | None = None,
) -> SplitElements:
    """Split the elements of a request into allowed and refused ones, in steps.

    Args:
        allows: returns whether the client has the right on an element, or on a name.
        refuse: builds the error entry of an element.
        budget: the budget of the request.
        find_name: returns the name of an element; None: `allows` takes the element itself.
    """
    allowed: list[Element] = []
    refused: list[Any] = []
    positions: list[int] = []
    allow = allowed.append
    for step in in_steps(elements):
        names = map(find_name, step) if find_name else step
        for element, name in zip(step, names, strict=True):
            if allows(name):
                allow(element)
            else:
                positions.append(len(allowed) + len(refused))
                refused.append(refuse(element))
        await budget.checkpoint()
    return SplitElements(elements, allowed, refused, positions)


def allows_few(
    elements: Sequence[Element],
    allows: Callable[[Any], bool],
    find_name: Callable[[Element], Any] | None = None,
) -> bool:
    """Return whether a request has so few elements that one step checks them, and the client has all rights.

    Most requests are of this kind. They cost no coroutine. The arguments are those of `partition_by_authorized`.
    """
    if len(elements) > ELEMENTS_PER_STEP:
        return False
    return all(map(allows, map(find_name, elements) if find_name else elements))


async def list_allowed(
    entries: Sequence[Element],
    allows: Callable[[Any], bool],
    find_name: Callable[[Element], Any],
    budget: Budget,
) -> list[Element]:
    """Return the entries of a response that the client may see, in steps. The arguments are those of
    `partition_by_authorized`.
    """
    if len(entries) <= ELEMENTS_PER_STEP:
        return [entry for entry in entries if allows(find_name(entry))]
    allowed: list[Element] = []
    for step in in_steps(entries):
        allowed += [entry for entry in step if allows(find_name(entry))]
        await budget.checkpoint()
    return allowed


def _find_topic_name(helper: AuthHelper, topic: Any) -> str | None:
    return helper.find_topic_name(topic.topic_id)


def allows_known_topic(helper: AuthHelper, operation: AclOperation, name: str | None) -> bool:
    """Return whether the client has a right on a topic that was found by its id. An unknown topic has no name."""
    return name is not None and helper.allows_on_topic(operation, name)


KeyOf = Callable[[Any], Hashable]
"""Returns the name or id that identifies a topic of a request, or its entry in the response."""
ArrangeEntries = Callable[[list[Any], SplitElements, KeyOf, Budget], Coroutine[Any, Any, list[Any]]]
"""Takes the entries of the handler's response, the split request, and the key of an element. Returns all entries in
the order of Kafka's response."""


async def refused_last(entries: list[Any], split: SplitElements, _: KeyOf, __: Budget) -> list[Any]:
    """Put refused elements behind the others."""
    return entries + split.refused


async def refused_first(entries: list[Any], split: SplitElements, _: KeyOf, __: Budget) -> list[Any]:
    """Put refused elements before the others."""
    return split.refused + entries


async def in_place(entries: list[Any], split: SplitElements, _: KeyOf, budget: Budget) -> list[Any]:
    """Put each refused element at its position in the request."""
    answered = iter(entries)
    merged: list[Any] = []
    for step in in_steps(range(len(split.refused))):
        for number in step:
            merged.extend(islice(answered, split.positions[number] - len(merged)))
            merged.append(split.refused[number])
        await budget.checkpoint()
    merged.extend(answered)
    return merged


async def in_request_order(
    entries: list[Any], split: SplitElements, find_key: KeyOf, budget: Budget
) -> list[Any]:
    """Return one entry for each element that the request names, in its order."""
    by_key = {find_key(entry): entry for entry in entries}
    by_key.update((find_key(entry), entry) for entry in split.refused)
    await budget.checkpoint()
    keys = dict.fromkeys(map(find_key, split.elements))
    return [by_key[key] for key in keys if key in by_key]


async def failed_first(
    entries: list[Any], split: SplitElements, find_key: KeyOf, budget: Budget
) -> list[Any]:
    """Put topics that failed, denied or unknown, before the others, in the order of the request."""
    failed, others = await separate_failed_topics(entries, split, find_key, budget)
    return failed + others


async def failed_first_and_merged(
    entries: list[Any], split: SplitElements, find_key: KeyOf, budget: Budget
) -> list[Any]:
    """Put topics that failed before the others, with one entry for each topic."""
    merged: dict[Hashable, Any] = {}
    for step in in_steps(await failed_first(entries, split, find_key, budget)):
        for entry in step:
            first = merged.setdefault(find_key(entry), entry)
            if first is not entry:
                first.partitions += entry.partitions
        await budget.checkpoint()
    return list(merged.values())


async def separate_failed_topics(
    entries: Sequence[Any], split: SplitElements, find_key: KeyOf, budget: Budget
) -> tuple[list[Any], list[Any]]:
    """Return the entries of topics that failed, in the order of the request, and those of the other topics."""
    failed = list(split.refused)
    others: list[Any] = []
    for step in in_steps(entries):
        for entry in step:
            partitions = entry.partitions
            is_failed = partitions and partitions[0].error_code in _UNKNOWN_TOPIC_ERRORS
            (failed if is_failed else others).append(entry)
        await budget.checkpoint()
    if len(failed) == len(split.refused):
        # The refused topics have the order of the request, unless it repeats one of them.
        keys: set[Hashable] = set()
        for step in in_steps(failed):
            keys.update(map(find_key, step))
            await budget.checkpoint()
        if len(keys) == len(failed):
            return failed, others
    return await _order_by_request(failed, split, find_key, budget), others


async def _order_by_request(
    failed: list[Any], split: SplitElements, find_key: KeyOf, budget: Budget
) -> list[Any]:
    """Return entries in the order in which the request names their topics first."""
    by_key: dict[Hashable, list[Any]] = {}
    for step in in_steps(failed):
        for entry in step:
            by_key.setdefault(find_key(entry), []).append(entry)
        await budget.checkpoint()
    ordered: list[Any] = []
    for step in in_steps(split.elements):
        for element in step:
            ordered += by_key.pop(find_key(element), ())
        await budget.checkpoint()
    return ordered


ShowEntry = Callable[[Any, Any, AuthHelper, Budget], Coroutine[Any, Any, Any]]
"""Takes an entry of the handler's response, the request, the helper and a budget. Returns the entry that the client
may see."""


class PerElement(Struct, frozen=True):
    """A request that needs a right for each element of an array."""

    array: str
    """The field of the request with the elements."""
    operation: AclOperation
    resource: ResourceType
    key: str = ""
    """The field of an element that names the resource; empty where the element is the name."""
    before: tuple[Require, ...] = ()
    """The rights that the request needs as a whole. Kafka checks them first."""
    covered_by: Require | None = None
    """A right that replaces those on the elements."""
    order: ArrangeEntries = refused_last
    """Arranges the entries of refused and other elements in the response."""
    topic_ids_since: int | None = None
    """The first version that names topics by id. A topic with an unknown id is refused with UNKNOWN_TOPIC_ID: the
    handler could find it later, without a decision."""
    is_distinct: bool = False
    """Whether elements that the request repeats have one entry."""
    has_message: bool = False
    """Whether the error has Kafka's message."""
    handles_empty: bool = False
    """Whether the handler gets a request without remaining elements."""
    show: ShowEntry | None = None
    """Edits each entry for the client; None: entries stay as the handler returns them."""
    show_if: str = ""
    """The field of the request that must be true for `show` to apply; empty: it always applies."""
    shown_rights: tuple[Require, ...] = ()
    """The rights that `show` checks."""

    def create_guard(self, api: Api) -> CoroutineGuard:
        """Return the guard of an API."""
        return partial(self._guard, api.response)

    def list_rights(self) -> Iterator[Require]:
        """Return the rights that the rule checks."""
        yield from filter(None, (*self.before, self.covered_by))
        yield Require(self.operation, self.resource)
        yield from self.shown_rights

    async def _guard(
        self, response_class: Any, request: Any, helper: AuthHelper, budget: Budget
    ) -> GuardResult:
        if self.before:
            denied = deny_unless_granted(self.before, request, helper)
            if denied is not None:
                return denied
        if self.covered_by is not None and is_covered(self.covered_by, helper):
            return PASS
        elements = getattr(request, self.array)
        if self.is_distinct:
            elements = list(dict.fromkeys(elements))
        find_key: KeyOf | None = attrgetter(self.key) if self.key else None
        find_name = find_key
        if self._has_topic_ids(helper):
            find_key, find_name = attrgetter("topic_id"), partial(_find_topic_name, helper)
            allows = partial(allows_known_topic, helper, self.operation)
        else:
            allows = partial(helper.allows, self.operation, self.resource)
        shows = self.show is not None and (not self.show_if or getattr(request, self.show_if))
        if not (shows or self.is_distinct) and allows_few(elements, allows, find_name):
            return PASS
        refuse = partial(self._refuse, response_class, helper)
        split = await partition_by_authorized(elements, allows, refuse, budget, find_name)
        if not (split.refused or shows or self.is_distinct):
            return PASS
        setattr(request, self.array, split.allowed)
        array, _ = find_entry_array(response_class, helper.api_version)
        finish = partial(self._finish, array, split, find_key or str, (request, helper) if shows else None)
        if split.refused and not split.allowed and not self.handles_empty:
            return AuthorizationDenied(await finish(response_class(**{array: []}), budget))
        return GuardPassed(finish) if split.refused or shows else PASS

    def _has_topic_ids(self, helper: AuthHelper) -> bool:
        return self.topic_ids_since is not None and helper.api_version >= self.topic_ids_since

    def _refuse(self, response_class: Any, helper: AuthHelper, element: Any) -> Any:
        """Build the error entry of a refused element."""
        error = DENIED[self.resource]
        if self._has_topic_ids(helper) and helper.find_topic_name(element.topic_id) is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        _, entry_class = find_entry_array(response_class, helper.api_version)
        message = error.message if self.has_message else None
        return helper.build_denied_entry(entry_class, element, error, message)

    async def _finish(
        self,
        array: str,
        split: SplitElements,
        find_key: KeyOf,
        shown_for: tuple[Any, AuthHelper] | None,
        response: Any,
        budget: Budget,
    ) -> Any:
        """Add the refused elements to the response of the handler. `shown_for` has the request and the helper for
        `show`.
        """
        entries = getattr(response, array)
        if shown_for is not None:
            entries = await self._show_entries(entries, *shown_for, budget)
        if split.refused and getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NONE:
            entries = await self.order(entries, split, find_key, budget)
        setattr(response, array, entries)
        return response

    async def _show_entries(
        self, entries: list[Any], request: Any, helper: AuthHelper, budget: Budget
    ) -> list[Any]:
        """Return the entries that the client may see. An entry that the handler repeats is checked once."""
        assert self.show is not None
        shown: dict[int, Any] = {}
        for entry in entries:
            if id(entry) not in shown:
                shown[id(entry)] = await self.show(entry, request, helper, budget)
            await budget.checkpoint()
        return [shown[id(entry)] for entry in entries]


class PerEntry(Struct, frozen=True):
    """A request without names. Its response omits the entries for which the client lacks a right."""

    array: str
    """The field of the response with the entries."""
    operation: AclOperation
    resource: ResourceType
    key: str
    """The field of an entry that names the resource."""
    covered_by: Require | None = None
    """A right that replaces those on the entries."""
    logs_denied: bool = True
    """Whether the audit log has the omitted entries."""

    def create_guard(self, _: Api) -> Guard:
        """Return the guard."""

        find_name = attrgetter(self.key)

        def guard(request: Any, helper: AuthHelper) -> GuardResult:
            if self.covered_by is not None and is_covered(self.covered_by, helper):
                return PASS

            allows = partial(helper.allows, self.operation, self.resource, logs_denied=self.logs_denied)

            async def finish(response: Any, budget: Budget) -> Any:
                entries = getattr(response, self.array)
                setattr(response, self.array, await list_allowed(entries, allows, find_name, budget))
                return response

            return GuardPassed(finish)

        return guard

    def list_rights(self) -> Iterator[Require]:
        """Return the rights that the rule checks."""
        yield from filter(None, (self.covered_by,))
        yield Require(self.operation, self.resource)


class CustomGuard(Struct, frozen=True):
    """A request with a function that checks its rights."""

    guard: Guard | CoroutineGuard
    rights: tuple[Require, ...]

    def create_guard(self, _: Api) -> Guard | CoroutineGuard:
        """Return the function."""
        return self.guard

    def list_rights(self) -> Iterator[Require]:
        """Return the rights that the function checks."""
        return iter(self.rights)


class NoGuard(Struct, frozen=True):
    """A request that passes without a guard: it needs no right, or its handler checks the rights."""

    rights: tuple[Require, ...] = ()

    def create_guard(self, _: Api) -> None:
        """Return None."""

    def list_rights(self) -> Iterator[Require]:
        """Return the rights that the handler checks."""
        return iter(self.rights)
