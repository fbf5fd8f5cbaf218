"""DescribeAcls, CreateAcls, DeleteAcls where an authorizer is configured. They ask it themselves.

Source: Kafka's `AclApis`, `AclControlManager`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from coordinator.answers import GOODBYE
from coordinator.net.caller import Caller
from coordinator.security.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    in_order,
    why_invalid,
)
from coordinator.server.acl_lines import log_added, log_removed, who_asks
from coordinator.server.handlers.in_task import InTask, apart
from coordinator.server.security_store import MOST_ACLS, SecurityStore
from protocol.errors import ErrorCode
from protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from storage.os_error import reason_of

MOST_DELETED: Final = 10_000
_FINE: Final = ""
"""Kafka's message where nothing is wrong, but for DeleteAcls."""
_REFUSED: Final = "Cluster authorization failed."

Allows = Callable[[Caller, Operation, ResourceType, str], bool]
"""Whether a client may do something to a resource."""


class AclAdmin:
    """Answers these three."""

    def __init__(self, store: SecurityStore, allows: Allows) -> None:
        """In: who is asked whether a client may."""
        self._store = store
        self._allows = allows
        self._turn = asyncio.Lock()
        """One request after the other looks at all ACLs, and changes them."""
        self._tasks = InTask()

    # Requests

    def describe(self, request: DescribeAclsRequest, caller: Caller) -> object:
        """The ACLs that a filter picks, by resource."""
        if _has_unknown(request.resource_type_filter, request.pattern_type_filter, request):
            return GOODBYE
        if not self._may(caller, Operation.DESCRIBE):
            return DescribeAclsResponse(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=_REFUSED, resources=[]
            )
        return self._tasks.begin(caller, self._describe(_filter(request)))

    def create(self, request: CreateAclsRequest, caller: Caller) -> object:
        """Adds ACLs, all in one write; each has a result of its own."""
        if any(
            _has_unknown(each.resource_type, each.resource_pattern_type, each) for each in request.creations
        ):
            return GOODBYE
        if not self._may(caller, Operation.ALTER):
            return _created(len(request.creations), ErrorCode.CLUSTER_AUTHORIZATION_FAILED, _REFUSED)
        acls = [_binding(each) for each in request.creations]
        if any(map(_is_for_filters, acls)):
            # Kafka fails where it makes an object of such a one, and with it all that were sent beside it.
            return _created(len(acls), ErrorCode.UNKNOWN_SERVER_ERROR, None)
        return self._tasks.begin(caller, self._create(acls, who_asks(caller)))

    def delete(self, request: DeleteAclsRequest, caller: Caller) -> object:
        """Removes the ACLs that filters pick, all in one write; each filter has a result of its own."""
        if any(
            _has_unknown(each.resource_type_filter, each.pattern_type_filter, each)
            for each in request.filters
        ):
            return GOODBYE
        if not self._may(caller, Operation.ALTER):
            return _deleted(len(request.filters), ErrorCode.CLUSTER_AUTHORIZATION_FAILED, _REFUSED)
        return self._tasks.begin(
            caller, self._delete([_filter(each) for each in request.filters], who_asks(caller))
        )

    def _may(self, caller: Caller, operation: Operation) -> bool:
        return self._allows(caller, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    # Answers

    async def _describe(self, wanted: AclFilter) -> DescribeAclsResponse:
        async with self._turn:
            acls = self._store.state.acls
            return await apart(lambda: _described(filter(wanted.fits, acls)), len(acls))

    async def _create(self, wanted: Sequence[AclBinding], who: str) -> CreateAclsResponse:
        async with self._turn:
            state = self._store.state
            found = await apart(lambda: [why_invalid(acl) for acl in wanted], len(wanted))
            added = {acl for acl, why in zip(wanted, found, strict=True) if why is None} - state.acls
            if added and len(state.acls) + len(added) > MOST_ACLS:
                return _created(
                    len(wanted), ErrorCode.POLICY_VIOLATION, f"There would be more than {MOST_ACLS} ACLs."
                )
            if added:
                try:
                    await self._store.change(replace(state, acls=state.acls | added))
                except OSError as error:
                    return _created(len(wanted), ErrorCode.KAFKA_STORAGE_ERROR, reason_of(error))
                log_added(in_order(added), who)
        return CreateAclsResponse(
            results=[
                AclCreationResult(error_message=_FINE)
                if why is None
                else AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=why)
                for why in found
            ]
        )

    async def _delete(self, wanted: Sequence[AclFilter], who: str) -> DeleteAclsResponse:
        async with self._turn:
            state = self._store.state
            picked = await apart(lambda: _picked(wanted, state.acls), len(wanted) * len(state.acls))
            if picked is None:
                return _deleted(
                    len(wanted),
                    ErrorCode.INVALID_REQUEST,
                    f"Cannot remove more than {MOST_DELETED} acls in a single delete operation.",
                )
            gone = frozenset().union(*picked)
            if gone:
                try:
                    await self._store.change(replace(state, acls=state.acls - gone))
                except OSError as error:
                    return _deleted(len(wanted), ErrorCode.KAFKA_STORAGE_ERROR, reason_of(error))
                log_removed(in_order(gone), who)
        return DeleteAclsResponse(
            filter_results=[_filter_result(each, acls) for each, acls in zip(wanted, picked, strict=True)]
        )


def _has_unknown(resource_type: int, pattern_type: int, of: Any) -> bool:
    """Whether a request says UNKNOWN itself: Kafka takes it for one that it cannot read."""
    return 0 in (resource_type, pattern_type, of.operation, of.permission_type)


def _binding(creation: AclCreation) -> AclBinding:
    return AclBinding(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        Operation(creation.operation),
        Permission(creation.permission_type),
    )


def _is_for_filters(acl: AclBinding) -> bool:
    """Whether it has what only a filter can."""
    return (
        acl.resource_type is ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation is Operation.ANY
        or acl.permission is Permission.ANY
    )


def _filter(request: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        ResourceType(request.resource_type_filter),
        request.resource_name_filter,
        PatternType(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        Operation(request.operation),
        Permission(request.permission_type),
    )


def _described(acls: Iterable[AclBinding]) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_message=_FINE,
        resources=[
            DescribeAclsResource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                acls=[
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in of_one
                ],
            )
            for (resource_type, name, pattern_type), of_one in groupby(in_order(acls), lambda acl: acl[:3])
        ],
    )


def _picked(wanted: Sequence[AclFilter], acls: frozenset[AclBinding]) -> list[frozenset[AclBinding]] | None:
    """What each filter picks; None where that is too much to go at once.

    Kafka does not count an ACL twice that two filters pick, and answers with both."""
    picked: list[frozenset[AclBinding]] = []
    left = MOST_DELETED
    for each in wanted:
        picked.append(frozenset(filter(each.fits, acls)) if each.why_unusable() is None else frozenset())
        left -= len(picked[-1])
        if left < 0:
            return None
    return picked


def _filter_result(wanted: AclFilter, acls: frozenset[AclBinding]) -> DeleteAclsFilterResult:
    why = wanted.why_unusable()
    if why is not None:
        return DeleteAclsFilterResult(
            error_code=ErrorCode.INVALID_REQUEST, error_message=why, matching_acls=[]
        )
    return DeleteAclsFilterResult(
        matching_acls=[
            DeleteAclsMatchingAcl(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in in_order(acls)
        ]
    )


def _created(count: int, error: ErrorCode, why: str | None) -> CreateAclsResponse:
    """The same for all ACLs of a request."""
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=error, error_message=why) for _ in range(count)]
    )


def _deleted(count: int, error: ErrorCode, why: str) -> DeleteAclsResponse:
    """The same for all filters of a request."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=error, error_message=why, matching_acls=[])
            for _ in range(count)
        ]
    )
