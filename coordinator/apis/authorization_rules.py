"""Rules of authorization: the rights that a request needs, and the place of refused elements in its response.

A rule creates the guard of its API. A guard checks the rights of a request, removes the refused elements from it,
and adds their entries to the response of the handler. `authorization_table.py` has the rule of each API.

- `WholeRequest`: the request needs each of some rights; without them it has an error response.
- `PerElement`: the request needs a right for each element of an array. The others are refused.
- `PerEntry`: the response omits entries for which the client lacks a right.
- `CustomGuard`: a function checks the rights.

Error responses come from the declared messages (`protocol/error_response.py`).
"""

from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
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

As in Kafka, a request is authorized once: a decision that the helper has taken holds until the request is
answered, also when an ACL changes meanwhile. What else a guard relies on, such as the existence of a topic, it
checks after its last checkpoint, because the handler follows without another one.
"""


class Require(NamedTuple):
    """A right that a request needs as a whole."""

    operation: AclOperation
    resource: ResourceType
    field: str = ""
    """The field of the request that names the resource; empty for the cluster."""

    def is_granted(self, request: Any, helper: AuthHelper, *, logs_denied: bool = True) -> bool:
        """Return whether the client has the right."""
        name = getattr(request, self.field) if self.field else CLUSTER_NAME
        return helper.allows(self.operation, self.resource, name, logs_denied=logs_denied)


class RequireEach(NamedTuple):
    """A right that a request needs on each resource that one of its fields lists."""

    operation: AclOperation
    resource: ResourceType
    field: str

    def is_granted(self, request: Any, helper: AuthHelper) -> bool:
        """Return whether the client has the right on all resources."""
        names = dict.fromkeys(getattr(request, self.field) or ())
        return all(helper.allows(self.operation, self.resource, name) for name in names)


Requirement = Require | RequireEach


def deny_unless_granted(
    requires: Iterable[Requirement], request: Any, helper: AuthHelper, *, has_message: bool = False
) -> AuthorizationDenied | None:
    """Return the denial of a request by the first right that its client lacks, or None."""
    for requirement in requires:
        if not requirement.is_granted(request, helper):
            error = DENIED[requirement.resource]
            return helper.deny_request(request, error, error.message if has_message else None)
    return None


class Right(NamedTuple):
    """An operation on a type of resource, for the documentation."""

    operation: AclOperation
    resource: ResourceType


class Rule(Protocol):
    """The rule of one API."""

    def create_guard(self, api: Api) -> Guard | CoroutineGuard | None:
        """Return the guard of an API, or None for a request without one."""

    def list_rights(self) -> Iterator[Right]:
        """Return the rights that the rule checks."""


class WholeRequest(Struct, frozen=True):
    """A request that needs each of some rights. Kafka checks them in this order."""

    requires: tuple[Requirement, ...]
    covered_by: Require | None = None
    """A right that replaces the others."""
    unless: Callable[[Any, int], bool] | None = None
    """Takes a request and its version. Returns whether the handler refuses the request for another reason, which
    Kafka checks before."""
    has_message: bool = False
    """Whether the error has Kafka's message."""
    lends_description: bool = False
    """Whether the handler gets a function that says whether the client may describe a topic."""

    def create_guard(self, _: Api) -> Guard:
        """Return the guard."""
        requires, covered_by, unless = self.requires, self.covered_by, self.unless
        has_message, lends_description = self.has_message, self.lends_description

        def guard(request: Any, helper: AuthHelper) -> GuardResult:
            if unless is not None and unless(request, helper.api_version):
                return PASS
            if covered_by is not None and covered_by.is_granted(request, helper, logs_denied=False):
                return PASS
            denied = deny_unless_granted(requires, request, helper, has_message=has_message)
            if denied is not None:
                return denied
            return GuardPassed(arguments=(helper.may_describe,)) if lends_description else PASS

        return guard

    def list_rights(self) -> Iterator[Right]:
        """Return the rights that the rule checks."""
        yield from _list_requirements(self.covered_by, *self.requires)
        if self.lends_description:
            yield Right(AclOperation.DESCRIBE, ResourceType.TOPIC)


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
    allows: Callable[[Element], bool],
    refuse: Callable[[Element], Any],
    budget: Budget,
) -> SplitElements:
    """Split the elements of a request into allowed and refused ones, with a checkpoint after each.

    Args:
        allows: returns whether the client has the right on an element.
        refuse: builds the error entry of an element.
        budget: the budget of the request.
    """
    split = SplitElements(elements, [], [], [])
    for position, element in enumerate(elements):
        if allows(element):
            split.allowed.append(element)
        else:
            split.refused.append(refuse(element))
            split.positions.append(position)
        await budget.checkpoint()
    return split


KeyOf = Callable[[Any], Hashable]
"""Returns what tells a topic of a request, or its entry in the response, from others: its name or its id."""
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
    for entry, position in zip(split.refused, split.positions, strict=True):
        merged.extend(islice(answered, position - len(merged)))
        merged.append(entry)
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
    for entry in await failed_first(entries, split, find_key, budget):
        first = merged.setdefault(find_key(entry), entry)
        if first is not entry:
            first.partitions += entry.partitions
        await budget.checkpoint()
    return list(merged.values())


async def separate_failed_topics(
    entries: Iterable[Any], split: SplitElements, find_key: KeyOf, budget: Budget
) -> tuple[list[Any], list[Any]]:
    """Return the entries of topics that failed, in the order of the request, and those of the other topics."""
    failed: dict[Hashable, list[Any]] = {}
    others: list[Any] = []
    for entry in split.refused:
        failed.setdefault(find_key(entry), []).append(entry)
        await budget.checkpoint()
    for entry in entries:
        if entry.partitions and entry.partitions[0].error_code in _UNKNOWN_TOPIC_ERRORS:
            failed.setdefault(find_key(entry), []).append(entry)
        else:
            others.append(entry)
        await budget.checkpoint()
    ordered: list[Any] = []
    for element in split.elements:
        ordered += failed.pop(find_key(element), ())
        await budget.checkpoint()
    return ordered, others


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
    topic_ids_since: int | None = None
    """The first version that names topics by id. A topic with an unknown id is refused with UNKNOWN_TOPIC_ID: the
    handler could find it later, without a decision."""
    is_distinct: bool = False
    """Whether elements that the request repeats have one entry."""
    has_message: bool = False
    """Whether the error has Kafka's message."""
    handles_empty: bool = False
    """Whether the handler gets a request of which no element is left."""
    show: ShowEntry | None = None
    show_if: str = ""
    """The field of the request without which entries are shown as they are; empty: there is none."""
    shown_rights: tuple[Right, ...] = ()
    """The rights that `show` checks."""

    def create_guard(self, api: Api) -> CoroutineGuard:
        """Return the guard of an API."""

        async def guard(request: Any, helper: AuthHelper, budget: Budget) -> GuardResult:
            denied = deny_unless_granted(self.before, request, helper)
            if denied is not None:
                return denied
            if self.covered_by is not None and self.covered_by.is_granted(request, helper, logs_denied=False):
                return PASS
            return await self._check_elements(response_class, request, helper, budget)

        response_class: Any = api.response
        return guard

    def list_rights(self) -> Iterator[Right]:
        """Return the rights that the rule checks."""
        yield from _list_requirements(*self.before, self.covered_by)
        yield Right(self.operation, self.resource)
        yield from self.shown_rights

    async def _check_elements(
        self, response_class: Any, request: Any, helper: AuthHelper, budget: Budget
    ) -> GuardResult:
        operation, resource = self.operation, self.resource
        is_by_id = self.topic_ids_since is not None and helper.api_version >= self.topic_ids_since
        field = "topic_id" if is_by_id else self.key
        find_key: KeyOf = attrgetter(field) if field else str
        array, entry_class = find_entry_array(response_class, helper.api_version)
        denied = DENIED[resource]
        message = denied.message if self.has_message else None

        def find_name(element: Any) -> Any:
            key = find_key(element)
            return helper.find_topic_name(key) if is_by_id else key  # type: ignore[arg-type]

        def allows(element: Any) -> bool:
            name = find_name(element)
            return name is not None and helper.allows(operation, resource, name)

        def refuse(element: Any) -> Any:
            error = ErrorCode.UNKNOWN_TOPIC_ID if find_name(element) is None else denied
            return helper.build_denied_entry(entry_class, element, error, message)

        async def finish(response: Any, finish_budget: Budget) -> Any:
            entries = getattr(response, array)
            if shows:
                entries = await self._show_entries(entries, request, helper, finish_budget)
            if split.refused and getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NONE:
                entries = await self.order(entries, split, find_key, finish_budget)
            setattr(response, array, entries)
            return response

        shows = self.show is not None and (not self.show_if or getattr(request, self.show_if))
        elements = getattr(request, self.array)
        if self.is_distinct:
            elements = list(dict.fromkeys(elements))
        split = await partition_by_authorized(elements, allows, refuse, budget)
        setattr(request, self.array, split.allowed)
        if split.refused and not split.allowed and not self.handles_empty:
            return AuthorizationDenied(await finish(response_class(**{array: []}), budget))
        return GuardPassed(finish) if split.refused or shows else PASS

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
    """A request without names, whose response omits the entries for which its client lacks a right."""

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

        def guard(request: Any, helper: AuthHelper) -> GuardResult:
            if self.covered_by is not None and self.covered_by.is_granted(request, helper, logs_denied=False):
                return PASS

            async def finish(response: Any, budget: Budget) -> Any:
                kept = []
                for entry in getattr(response, self.array):
                    name = getattr(entry, self.key)
                    if helper.allows(self.operation, self.resource, name, logs_denied=self.logs_denied):
                        kept.append(entry)
                    await budget.checkpoint()
                setattr(response, self.array, kept)
                return response

            return GuardPassed(finish)

        return guard

    def list_rights(self) -> Iterator[Right]:
        """Return the rights that the rule checks."""
        yield from _list_requirements(self.covered_by)
        yield Right(self.operation, self.resource)


class CustomGuard(Struct, frozen=True):
    """A request whose rights a function checks."""

    guard: Guard | CoroutineGuard
    rights: tuple[Right, ...]

    def create_guard(self, _: Api) -> Guard | CoroutineGuard:
        """Return the function."""
        return self.guard

    def list_rights(self) -> Iterator[Right]:
        """Return the rights that the function checks."""
        return iter(self.rights)


class CheckedByHandler(Struct, frozen=True):
    """A request whose handler checks the rights."""

    rights: tuple[Right, ...]

    def create_guard(self, _: Api) -> None:
        """Return None."""

    def list_rights(self) -> Iterator[Right]:
        """Return the rights that the handler checks."""
        return iter(self.rights)


class _Open:
    """A request for which a client needs no right."""

    def create_guard(self, _: Api) -> None:
        """Return None."""

    def list_rights(self) -> Iterator[Right]:
        """Return no right."""
        return iter(())


OPEN: Final = _Open()


def _list_requirements(*requirements: Requirement | None) -> Iterator[Right]:
    for requirement in requirements:
        if requirement is not None:
            yield Right(requirement.operation, requirement.resource)
