"""The ACLs of a broker, over Kafka's protocol."""

from typing import Any

from coordinator.cli.broker.refused import BrokerRefused
from coordinator.cli.broker.request_sender import RequestSender
from coordinator.security.acl import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from protocol.errors import ErrorCode
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest


class BrokerAcls:
    """All methods raise BrokerRefused for an error in the answer, and what the connection raises."""

    def __init__(self, broker: RequestSender) -> None:
        self._broker = broker

    def described(self, wanted: AclFilter) -> set[AclBinding]:
        """Return the ACLs that a filter selects."""
        answer = self._broker.ask(
            DescribeAclsRequest(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
        )
        _check(answer)
        return {_binding(resource, acl) for resource in answer.resources for acl in resource.acls}

    def create(self, acls: list[AclBinding]) -> None:
        """Add ACLs; one that exists already stays."""
        creations = [
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
        for result in self._broker.ask(CreateAclsRequest(creations=creations)).results:
            _check(result)

    def delete(self, filters: list[AclFilter]) -> set[AclBinding]:
        """Remove what any of the filters selects. Returns the removed ACLs."""
        asked = [
            DeleteAclsFilter(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
            for wanted in filters
        ]
        gone: set[AclBinding] = set()
        for result in self._broker.ask(DeleteAclsRequest(filters=asked)).filter_results:
            _check(result)
            gone.update(_binding(acl, acl) for acl in result.matching_acls)
        return gone


def _check(answer: Any) -> None:
    if answer.error_code != ErrorCode.NONE:
        raise BrokerRefused(answer.error_code, answer.error_message)


def _binding(resource: Any, acl: Any) -> AclBinding:
    """In: parts of an answer, which may be one."""
    return AclBinding(
        ResourceType(resource.resource_type),
        resource.resource_name,
        PatternType(resource.pattern_type),
        acl.principal,
        acl.host,
        Operation(acl.operation),
        Permission(acl.permission_type),
    )
