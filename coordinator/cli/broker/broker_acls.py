"""The ACLs of a broker, over Kafka's protocol."""

from typing import Any

from coordinator.cli.broker.broker_connection import RequestSender
from coordinator.cli.command_errors import BrokerError
from coordinator.security.core.acl import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from protocol.error_codes import ErrorCode
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest


class BrokerAcls:
    """The ACLs of a broker. All methods raise BrokerError for an error in the response, and the errors of the
    connection."""

    def __init__(self, broker: RequestSender) -> None:
        self._broker = broker

    def find_acls(self, wanted: AclFilter) -> set[AclBinding]:
        """Return the ACLs that a filter selects."""
        answer = self._broker.send_request(
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
        _check_error(answer)
        return {_create_binding(resource, acl) for resource in answer.resources for acl in resource.acls}

    def create_acls(self, acls: list[AclBinding]) -> None:
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
        for result in self._broker.send_request(CreateAclsRequest(creations=creations)).results:
            _check_error(result)

    def delete_acls(self, filters: list[AclFilter]) -> set[AclBinding]:
        """Remove the ACLs that any of the filters selects, and return them."""
        requested = [
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
        removed: set[AclBinding] = set()
        for result in self._broker.send_request(DeleteAclsRequest(filters=requested)).filter_results:
            _check_error(result)
            removed.update(_create_binding(acl, acl) for acl in result.matching_acls)
        return removed


def _check_error(answer: Any) -> None:
    if answer.error_code != ErrorCode.NONE:
        raise BrokerError(answer.error_code, answer.error_message)


def _create_binding(resource: Any, acl: Any) -> AclBinding:
    """Create a binding from the parts of a response. Both parts may be the same object."""
    return AclBinding(
        ResourceType(resource.resource_type),
        resource.resource_name,
        PatternType(resource.pattern_type),
        acl.principal,
        acl.host,
        AclOperation(acl.operation),
        AclPermissionType(acl.permission_type),
    )
