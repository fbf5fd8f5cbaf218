"""ACLs: who may, or may not, do what to which resource, and filters that pick some of them.

The numbers are those that requests and records have. Source: Kafka's `AclBinding`, `AclBindingFilter`, `AclApis`,
`AclControlManager`; KIP-11, KIP-140, KIP-290.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from coordinator.security.host import why_no_range

ANYTHING: Final = "*"
"""The name, or the host, that stands for all."""
CLUSTER_NAME: Final = "kafka-cluster"
"""Of the only resource of type CLUSTER."""


class _Code(IntEnum):
    """What has numbers; one that is not known is UNKNOWN."""

    __hash__ = int.__hash__  # that of Enum is no faster than Python

    @classmethod
    def _missing_(cls, value: object) -> "_Code":
        return cls(0)


class ResourceType(_Code):
    """What a resource is."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How a name stands for resources. ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Code):
    """What is done to a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


_CONFIGS: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
OPERATIONS_ON: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        *_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        *_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What may be done to resources of a type. Source: Kafka's `AclEntry.supportedOperations`."""


class Permission(_Code):
    """Whether it may be done."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One ACL. `principal` is type and name (`User:alice`), `*` as its name is everybody; `host` is an address, a
    range of them, or `*`."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        """As Kafka prints it."""
        return (
            f"StandardAcl[resourceType={self.resource_type.name}, resourceName={self.resource_name}, "
            f"patternType={self.pattern_type.name}, principal={self.principal}, host={self.host}, "
            f"operation={self.operation.name}, permissionType={self.permission.name}]"
        )


class AclFilter(NamedTuple):
    """Picks ACLs: None, or ANY, leaves a field open. MATCH as the type of the pattern picks what applies to the
    resource of that name."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def fits(self, acl: AclBinding) -> bool:
        """Whether it picks an ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.pattern_type in (PatternType.ANY, PatternType.MATCH, acl.pattern_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._fits_name(acl)
        )

    def _fits_name(self, acl: AclBinding) -> bool:
        wanted, name = self.resource_name, acl.resource_name
        if wanted is None or wanted == name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if acl.pattern_type is PatternType.PREFIXED:
            return wanted.startswith(name)
        return name == ANYTHING

    def why_unusable(self) -> str | None:
        """What is wrong with it where ACLs are to be deleted, in Kafka's words; None: nothing."""
        if self.resource_type is ResourceType.UNKNOWN or self.pattern_type is PatternType.UNKNOWN:
            return "Unknown patternFilter."
        if self.operation is Operation.UNKNOWN or self.permission is Permission.UNKNOWN:
            return "Unknown entryFilter."
        return None


def why_invalid(acl: AclBinding) -> str | None:
    """What is wrong with an ACL that is to be added, in Kafka's words; None: nothing."""
    why = why_senseless(acl)
    if why is None and "/" in acl.host:
        wrong = why_no_range(acl.host)
        if wrong is not None:
            why = f"Invalid CIDR notation '{acl.host}': {wrong}"
    return why


def why_senseless(acl: AclBinding) -> str | None:
    """The same, of one that a broker may have had already: before release 4.4 it did not look at hosts."""
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {acl.resource_type.name}"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {acl.pattern_type.name}"
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {acl.permission.name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return None if acl.host else "Host pattern cannot be null or empty"


def in_order(acls: Iterable[AclBinding]) -> list[AclBinding]:
    """ACLs as Kafka keeps them: by type, then by name with the longest of those first that begin alike."""
    found = sorted(
        acls, key=lambda acl: (acl.pattern_type, acl.operation, acl.principal, acl.host, acl.permission)
    )
    found.sort(key=lambda acl: _as_java_sorts(acl.resource_name), reverse=True)
    found.sort(key=lambda acl: acl.resource_type)
    return found


def _as_java_sorts(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
