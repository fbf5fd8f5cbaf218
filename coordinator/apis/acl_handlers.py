"""DescribeAcls, CreateAcls and DeleteAcls with an authorizer, and the log lines of changed ACLs. The handlers check
authorization themselves.

Source: Kafka's `AclApis`, `AclControlManager`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeVar

from coordinator.apis.request_task import run_in_thread_if_large
from coordinator.core.message_text import printable
from coordinator.core.response_status import CLOSE_CONNECTION
from coordinator.core.time_budget import Budget
from coordinator.group.member_text import format_client
from coordinator.network.request_context import RequestContext
from coordinator.security.core.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    sort_acls,
    why_invalid,
)
from coordinator.security.security_store import MAX_ACLS, SecurityStore
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_response
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
from storage.storage_errors import format_error_reason

_LOG: Final = logging.getLogger("SecurityManager")

_MAX_LINES: Final = 100
_MAX_NAME: Final = 80
_MAX_ACL: Final = 500

MAX_DELETED: Final = 10_000
_NO_ERROR_MESSAGE: Final = ""
"""Kafka's message of a success, except in DeleteAcls."""
_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_NOT_AUTHORIZED: Final = _DENIED.message
Response = TypeVar("Response")
RefuseAll: TypeAlias = Callable[[ErrorCode, str], Response]
"""Builds the response that reports an error, with its message, for all ACLs or filters of a request."""
Allows = Callable[[RequestContext, AclOperation, ResourceType, str], bool]
"""Returns whether a client may do an operation on a resource."""


class AclHandler:
    """Answers DescribeAcls, CreateAcls and DeleteAcls."""

    def __init__(self, store: SecurityStore, allows: Allows) -> None:
        """Create the handler from the store of ACLs, and the check whether a client may do an operation on a
        resource.
        """
        self._store = store
        self._allows = allows
        self._lock = asyncio.Lock()
        """Serializes requests, which read all ACLs and change them."""

    async def describe_acls(self, request: DescribeAclsRequest, context: RequestContext, _: Budget) -> object:
        """Describe the ACLs that match a filter, by resource."""
        if _has_unknown(request.resource_type_filter, request.pattern_type_filter, request):
            return CLOSE_CONNECTION
        if not self._is_authorized(context, AclOperation.DESCRIBE):
            return build_error_response(request, context.api_version, _DENIED, _NOT_AUTHORIZED)
        acl_filter = _create_filter(request)
        async with self._lock:
            acls = self._store.state.acls
            return await run_in_thread_if_large(
                lambda: _create_describe_response(filter(acl_filter.matches, acls)), len(acls)
            )

    async def create_acls(
        self, request: CreateAclsRequest, context: RequestContext, budget: Budget
    ) -> object:
        """Add ACLs, all in one write; each has a result of its own."""
        for creation in request.creations:
            if _has_unknown(creation.resource_type, creation.resource_pattern_type, creation):
                return CLOSE_CONNECTION
            await budget.checkpoint()
        if not self._is_authorized(context, AclOperation.ALTER):
            return build_error_response(request, context.api_version, _DENIED, _NOT_AUTHORIZED)
        acls: list[AclBinding] = []
        for creation in request.creations:
            acl = _create_binding(creation)
            if _has_filter_value(acl):
                # Kafka fails when it creates the object of such an ACL, and so fails the whole request.
                return build_error_response(request, context.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)
            acls.append(acl)
            await budget.checkpoint()
        refuse_all = partial(build_error_response, request, context.api_version)
        budget.begin_changes()
        return await self._add_acls(acls, refuse_all, format_requester(context))

    async def delete_acls(
        self, request: DeleteAclsRequest, context: RequestContext, budget: Budget
    ) -> object:
        """Remove the ACLs that match filters, all in one write; each filter has a result of its own."""
        for each in request.filters:
            if _has_unknown(each.resource_type_filter, each.pattern_type_filter, each):
                return CLOSE_CONNECTION
            await budget.checkpoint()
        if not self._is_authorized(context, AclOperation.ALTER):
            return build_error_response(request, context.api_version, _DENIED, _NOT_AUTHORIZED)
        refuse_all = partial(build_error_response, request, context.api_version)
        filters: list[AclFilter] = []
        for each in request.filters:
            filters.append(_create_filter(each))
            await budget.checkpoint()
        budget.begin_changes()
        return await self._remove_acls(filters, refuse_all, format_requester(context))

    def _is_authorized(self, context: RequestContext, operation: AclOperation) -> bool:
        return self._allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    async def _add_acls(
        self, new_acls: Sequence[AclBinding], refuse_all: RefuseAll[CreateAclsResponse], requester: str
    ) -> CreateAclsResponse:
        async with self._lock:
            found = await run_in_thread_if_large(
                lambda: [why_invalid(acl) for acl in new_acls], len(new_acls)
            )
            acls = self._store.state.acls
            added = {acl for acl, why in zip(new_acls, found, strict=True) if why is None} - acls
            if added and len(acls) + len(added) > MAX_ACLS:
                why_not = f"There must not be more than {MAX_ACLS} ACLs. Remove some first."
                return refuse_all(ErrorCode.POLICY_VIOLATION, why_not)
            if added:
                try:
                    await asyncio.create_task(self._change_acls(added, frozenset()))
                except OSError as error:
                    return refuse_all(ErrorCode.KAFKA_STORAGE_ERROR, format_error_reason(error))
                log_added_acls(await run_in_thread_if_large(lambda: sort_acls(added), len(added)), requester)
        return CreateAclsResponse(
            results=[
                AclCreationResult(error_message=_NO_ERROR_MESSAGE)
                if why is None
                else AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=why)
                for why in found
            ]
        )

    async def _remove_acls(
        self, filters: Sequence[AclFilter], refuse_all: RefuseAll[DeleteAclsResponse], requester: str
    ) -> DeleteAclsResponse:
        async with self._lock:
            acls = self._store.state.acls
            picked = await run_in_thread_if_large(
                lambda: _match_filters(filters, acls), len(filters) * len(acls)
            )
            if picked is None:
                why_not = f"Cannot remove more than {MAX_DELETED} acls in a single delete operation."
                return refuse_all(ErrorCode.INVALID_REQUEST, why_not)
            removed = frozenset().union(*picked)
            if removed:
                try:
                    await asyncio.create_task(self._change_acls(frozenset(), removed))
                except OSError as error:
                    return refuse_all(ErrorCode.KAFKA_STORAGE_ERROR, format_error_reason(error))
                log_removed_acls(
                    await run_in_thread_if_large(lambda: sort_acls(removed), len(removed)), requester
                )
        return await run_in_thread_if_large(
            lambda: _create_delete_response(filters, picked), len(filters) + len(removed)
        )

    async def _change_acls(self, added: AbstractSet[AclBinding], removed: AbstractSet[AclBinding]) -> None:
        """Change the current ACLs.

        Credentials, and in a cluster ACLs as well, may have changed since the request began. Runs in a task of
        asyncio, because the timeouts of a cluster need one. Raises OSError.
        """
        state = self._store.state
        await self._store.change_state(replace(state, acls=(state.acls | added) - removed))


def _has_unknown(resource_type: int, pattern_type: int, entry: Any) -> bool:
    """Return whether a request contains UNKNOWN itself, which Kafka treats as unreadable."""
    return 0 in (resource_type, pattern_type, entry.operation, entry.permission_type)


def _create_binding(creation: AclCreation) -> AclBinding:
    return AclBinding(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation(creation.operation),
        AclPermissionType(creation.permission_type),
    )


def _has_filter_value(acl: AclBinding) -> bool:
    """Return whether an ACL has a value that is legal only in filters."""
    return (
        acl.resource_type is ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation is AclOperation.ANY
        or acl.permission is AclPermissionType.ANY
    )


def _create_filter(request: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        ResourceType(request.resource_type_filter),
        request.resource_name_filter,
        PatternType(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        AclOperation(request.operation),
        AclPermissionType(request.permission_type),
    )


def _create_describe_response(acls: Iterable[AclBinding]) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_message=_NO_ERROR_MESSAGE,
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
                    for acl in resource_acls
                ],
            )
            for (resource_type, name, pattern_type), resource_acls in groupby(
                sort_acls(acls), lambda acl: acl[:3]
            )
        ],
    )


def _match_filters(
    filters: Sequence[AclFilter], acls: frozenset[AclBinding]
) -> list[frozenset[AclBinding]] | None:
    """Return the matches of each filter; None if they exceed the limit of one deletion. As in Kafka, an ACL that
    matches two filters counts once and appears in both results.
    """
    picked: list[frozenset[AclBinding]] = []
    left = MAX_DELETED
    for each in filters:
        picked.append(frozenset(filter(each.matches, acls)) if each.why_unusable() is None else frozenset())
        left -= len(picked[-1])
        if left < 0:
            return None
    return picked


def _create_delete_response(
    filters: Sequence[AclFilter], picked: Sequence[frozenset[AclBinding]]
) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[_create_filter_result(each, acls) for each, acls in zip(filters, picked, strict=True)]
    )


def _create_filter_result(acl_filter: AclFilter, acls: frozenset[AclBinding]) -> DeleteAclsFilterResult:
    why = acl_filter.why_unusable()
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
            for acl in sort_acls(acls)
        ]
    )


def log_added_acls(acls: Sequence[AclBinding], requester: str) -> None:
    """Log that ACLs were added by `requester`: a line for each, up to a hundred of a request."""
    for acl in acls[:_MAX_LINES]:
        _LOG.info("Added ACL %s, by %s", printable(format_acl(acl), _MAX_ACL), requester)
    if len(acls) > _MAX_LINES:
        _LOG.info("Added %d more ACLs, by %s", len(acls) - _MAX_LINES, requester)


def log_removed_acls(acls: Sequence[AclBinding], requester: str) -> None:
    """Log that ACLs were removed by `requester`: a line for each, up to a hundred of a request."""
    for acl in acls[:_MAX_LINES]:
        _LOG.info("Removed ACL %s, by %s", printable(format_acl(acl), _MAX_ACL), requester)
    if len(acls) > _MAX_LINES:
        _LOG.info("Removed %d more ACLs, by %s", len(acls) - _MAX_LINES, requester)


def format_acl(acl: AclBinding) -> str:
    """Format an ACL for logs: `ALLOW User:alice READ of TOPIC orders (LITERAL) from *`."""
    return (
        f"{acl.permission.name} {acl.principal} {acl.operation.name} of {acl.resource_type.name} "
        f"{acl.resource_name} ({acl.pattern_type.name}) from {acl.host}"
    )


def format_requester(context: RequestContext) -> str:
    """Format the client of a request: `User:alice (kafka-acls at 127.0.0.1)`."""
    name = format_client(printable(context.client.client_id, _MAX_NAME), context.client.host)
    return f"{printable(str(context.client.principal))} ({name})"
