"""What the users of a session may do, in words: `READ TOPIC orders`, `DENY WRITE TOPIC ord...`, `ALL GROUP *`,
`DESCRIBE CLUSTER`, `WRITE TXN t from 10.0.0.1`.

A name is one of the session; one that ends in dots is the beginning of names, and `*` stands for all. The kinds of
resources are Kafka's but for TXN, a transactional id.
"""

import re
from typing import Final

from coordinator.security.core.acl import (
    CLUSTER_NAME,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from tests.oracle.play import Play
from tests.oracle.secured import principal

_VERSION: Final = 3
_RIGHT: Final = re.compile(r"(DENY )?(\w+) (\w+)(?: (\S+))?(?: from (\S+))?")
_KINDS: Final = {kind.name: kind for kind in ResourceType} | {"TXN": ResourceType.TRANSACTIONAL_ID}
_DOTS: Final = "..."
_ANY: Final = 1


def creation(play: Play, user: str, right: str) -> AclCreation:
    """One right of a user."""
    found = _RIGHT.fullmatch(right)
    assert found is not None, right
    denies, operation, kind, name, host = found.groups()
    pattern = PatternType.LITERAL
    if kind == "CLUSTER":
        name = CLUSTER_NAME
    elif name.endswith(_DOTS):
        name, pattern = name.removesuffix(_DOTS), PatternType.PREFIXED
    elif name != "*":
        name = play.name(name)
    return AclCreation(
        resource_type=_KINDS[kind],
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal(play, user),
        host=host or "*",
        operation=AclOperation[operation],
        permission_type=AclPermissionType.DENY if denies else AclPermissionType.ALLOW,
    )


def grant(play: Play, user: str, *rights: str) -> None:
    """Add allow or deny ACLs for a user and wait until they take effect."""
    if not rights:
        return
    wanted = [creation(play, user, right) for right in rights]
    with play.quietly():
        answer = play.ask(CreateAclsRequest(creations=wanted), _VERSION, "admin")
    assert not any(result.error_code for result in answer.results), answer
    play.until(lambda: {_key(each) for each in wanted} <= _held(play, user))


def revoke(play: Play, user: str, *rights: str) -> None:
    """Remove ACLs of a user, all without `rights`, and wait until they no longer apply."""
    filters = [_filter_of(creation(play, user, right)) for right in rights] or [
        DeleteAclsFilter(
            resource_type_filter=_ANY,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=principal(play, user),
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
    ]
    unwanted = {_key(creation(play, user, right)) for right in rights}
    with play.quietly():
        answer = play.ask(DeleteAclsRequest(filters=filters), _VERSION, "admin")
    assert not any(result.error_code for result in answer.filter_results), answer
    play.until(lambda: not (unwanted & _held(play, user) if unwanted else _held(play, user)))


def _filter_of(of: AclCreation) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=of.resource_type,
        resource_name_filter=of.resource_name,
        pattern_type_filter=of.resource_pattern_type,
        principal_filter=of.principal,
        host_filter=of.host,
        operation=of.operation,
        permission_type=of.permission_type,
    )


Key = tuple[int, str, int, str, int, int]


def _key(of: AclCreation) -> Key:
    return (
        *(of.resource_type, of.resource_name, of.resource_pattern_type),
        *(of.host, of.operation, of.permission_type),
    )


def _held(play: Play, user: str) -> set[Key]:
    """All that the broker's authorizer knows of a user."""
    asked = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=principal(play, user),
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    return {
        (
            *(resource.resource_type, resource.resource_name, resource.pattern_type),
            *(acl.host, acl.operation, acl.permission_type),
        )
        for resource in play.ask(asked, _VERSION, "admin").resources
        for acl in resource.acls
    }
