"""Where ACLs are kept: with a broker that is asked, or in the directory of a stopped daemon."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from coordinator.cli.broker.command import Asking
from coordinator.cli.broker.connection import BrokerConnection
from coordinator.cli.broker.directory import security_of
from coordinator.cli.broker.refused import BrokerRefused
from coordinator.security.acl import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coordinator.server.security_file import SecurityFile
from protocol.errors import ErrorCode
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest


class Acls(Protocol):
    """All methods raise Unreachable, and BrokerRefused where the answer is no."""

    def described(self, wanted: AclFilter) -> set[AclBinding]:
        """Those that a filter picks."""

    def create(self, acls: list[AclBinding]) -> None:
        """Adds ACLs; one that is there already stays."""

    def delete(self, filters: list[AclFilter]) -> set[AclBinding]:
        """Removes what any of the filters picks; which ones those were."""


class _OfBroker:
    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker

    def described(self, wanted: AclFilter) -> set[AclBinding]:
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


class _OfDirectory:
    def __init__(self, file: SecurityFile) -> None:
        self._file = file

    def described(self, wanted: AclFilter) -> set[AclBinding]:
        return {acl for acl in self._file.state.acls if wanted.fits(acl)}

    def create(self, acls: list[AclBinding]) -> None:
        self._change(self._file.state.acls.union(acls))

    def delete(self, filters: list[AclFilter]) -> set[AclBinding]:
        gone = set[AclBinding]().union(*(self.described(wanted) for wanted in filters))
        self._change(self._file.state.acls - gone)
        return gone

    def _change(self, acls: frozenset[AclBinding]) -> None:
        if acls != self._file.state.acls:
            self._file.change(replace(self._file.state, acls=acls))


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


@contextmanager
def acls_of(asking: Asking, data_dir: str | None) -> Iterator[Acls]:
    """Raises Misused, Unreachable."""
    if data_dir is None:
        yield _OfBroker(asking.broker)
        return
    with security_of(data_dir) as file:
        yield _OfDirectory(file)
