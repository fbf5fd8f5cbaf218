"""ACLs: bindings, filters, their validation, and hosts as an address in Java's form or a range in CIDR
notation. The numbers of enums are those of requests and records; error texts are Kafka's.
Source: Kafka's `AclBinding`, `AclBindingFilter`, `AclApis`, `AclControlManager`; KIP-11, KIP-140, KIP-290;
Kafka's `CidrUtils`, and `SubnetUtils` and `SubnetUtils6` of Apache Commons Net.
"""

import re
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""The wildcard for names and hosts."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only CLUSTER resource."""


class _AclCode(IntEnum):
    """An enum with wire codes. An unknown code maps to UNKNOWN."""

    __hash__ = int.__hash__  # int's hash runs in C; Enum's runs in Python

    @classmethod
    def _missing_(cls, value: object) -> "_AclCode":
        return cls(0)


class ResourceType(_AclCode):
    """The type of a resource."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_AclCode):
    """The way in which a name matches resources. ANY and MATCH are valid only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_AclCode):
    """The operation of an ACL."""

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


_CONFIG_OPERATIONS: Final = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
SUPPORTED_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        *_CONFIG_OPERATIONS,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, *_CONFIG_OPERATIONS),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        *_CONFIG_OPERATIONS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations on resources of each type. Source: Kafka's `AclEntry.supportedOperations`."""


class AclPermissionType(_AclCode):
    """The permission type of an ACL, ALLOW or DENY."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One ACL. `principal` is type and name (`User:alice`; name `*`: all principals). `host` is an address, a CIDR
    range, or `*`.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermissionType

    def __str__(self) -> str:
        """Return Kafka's text form."""
        return (
            f"StandardAcl[resourceType={self.resource_type.name}, resourceName={self.resource_name}, "
            f"patternType={self.pattern_type.name}, principal={self.principal}, host={self.host}, "
            f"operation={self.operation.name}, permissionType={self.permission.name}]"
        )


class AclFilter(NamedTuple):
    """Selects ACLs. None or ANY matches every value. The pattern type MATCH selects all ACLs that apply to the
    named resource.
    """

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermissionType = AclPermissionType.ANY

    def matches(self, acl: AclBinding) -> bool:
        """Return whether the filter selects an ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.pattern_type in (PatternType.ANY, PatternType.MATCH, acl.pattern_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermissionType.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        wanted, name = self.resource_name, acl.resource_name
        if wanted is None or wanted == name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if acl.pattern_type is PatternType.PREFIXED:
            return wanted.startswith(name)
        return name == WILDCARD

    def why_unusable(self) -> str | None:
        """Return Kafka's error text if the filter cannot be used to delete ACLs; None if it is valid."""
        if self.resource_type is ResourceType.UNKNOWN or self.pattern_type is PatternType.UNKNOWN:
            return "Unknown patternFilter."
        if self.operation is AclOperation.UNKNOWN or self.permission is AclPermissionType.UNKNOWN:
            return "Unknown entryFilter."
        return None


def why_invalid(acl: AclBinding) -> str | None:
    """Return Kafka's error text for an ACL that cannot be created; None if it is valid."""
    why = why_inconsistent(acl)
    if why is None and "/" in acl.host:
        wrong = why_invalid_range(acl.host)
        if wrong is not None:
            why = f"Invalid CIDR notation '{acl.host}': {wrong}"
    return why


def why_inconsistent(acl: AclBinding) -> str | None:
    """Return Kafka's error text for an ACL, ignoring its host, because brokers before release 4.4 did not validate
    hosts. None: it is valid.
    """
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {acl.resource_type.name}"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {acl.pattern_type.name}"
    if acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in (AclPermissionType.DENY, AclPermissionType.ALLOW):
        return f"Invalid permissionType {acl.permission.name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return None if acl.host else "Host pattern cannot be null or empty"


def sort_acls(acls: Iterable[AclBinding]) -> list[AclBinding]:
    """Sort ACLs as Kafka does: by type, then by name, longer names before their prefixes."""
    found = sorted(
        acls, key=lambda acl: (acl.pattern_type, acl.operation, acl.principal, acl.host, acl.permission)
    )
    found.sort(key=lambda acl: _java_sort_key(acl.resource_name), reverse=True)
    found.sort(key=lambda acl: acl.resource_type)
    return found


def _java_sort_key(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


_V4: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_PREFIX: Final = re.compile(r"[+-]?[0-9]{1,9}")
_V4_BITS: Final = 32
_V6_BITS: Final = 128
_CACHE_SIZE: Final = 4096


class HostRange(NamedTuple):
    """A range of addresses with a common prefix."""

    bits: int
    """The length of an address: 32 or 128 bits."""
    network: int
    """The common prefix."""
    open_bits: int
    """The number of bits after the prefix."""

    def contains(self, address: str) -> bool:
        """Return whether an address in Java's form is in the range."""
        bits, number = _parse_address(address)
        # 0.0.0.0 is not a client address, and Kafka's ranges never contain it.
        return (
            bits == self.bits and number >> self.open_bits == self.network and (bits, number) != (_V4_BITS, 0)
        )


def why_invalid_range(text: str) -> str | None:
    """Return Kafka's error text for an invalid CIDR range; None if it is valid."""
    try:
        _parse_range(text)
    except ValueError as error:
        return str(error)
    return None


def find_range(text: str) -> HostRange | None:
    """Return the range of an ACL's host; None for an address or `*`."""
    if "/" not in text:
        return None
    try:
        return _parse_range(text)
    except ValueError:
        return None  # stored by a broker that did not validate hosts; it matches no client there either


@lru_cache(_CACHE_SIZE)
def format_java_address(client_host: str) -> str:
    """Format a client's address as in ACLs: "127.0.0.1", "0:0:0:0:0:0:0:1". `client_host` may have Java's leading
    slash.
    """
    text = client_host.removeprefix("/")
    address, percent, scope = text.partition("%")
    try:
        groups = IPv6Address(address).exploded.split(":")
    except AddressValueError:
        return text
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + scope


def _parse_range(text: str) -> HostRange:
    return _parse_v6(text) if ":" in text else _parse_v4(text)


def _parse_v4(text: str) -> HostRange:
    match = _V4.fullmatch(text)
    if match is None:
        raise ValueError(f"Could not parse [{text}]")
    number = 0
    for octet in match.groups()[:4]:
        number = number << 8 | _check_at_most(int(octet), 255)
    open_bits = _V4_BITS - _check_at_most(int(match[5]), _V4_BITS)
    return HostRange(_V4_BITS, number >> open_bits, open_bits)


def _check_at_most(number: int, maximum: int) -> int:
    if number > maximum:
        raise ValueError(f"Value [{number}] not in range [0,{maximum}]")
    return number


def _parse_v6(text: str) -> HostRange:
    address, slash, prefix = text.partition("/")
    if not slash:
        raise ValueError(f"Could not parse [{text}] - missing prefix length")
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    length = int(prefix)
    if not 0 <= length <= _V6_BITS:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and {_V6_BITS}")
    inner = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    try:
        number = IPv6Address(inner.partition("%")[0])
    except AddressValueError:
        raise ValueError(f"Could not parse [{address}]") from None
    if number.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{address}] - not an IPv6 address")
    open_bits = _V6_BITS - length
    return HostRange(_V6_BITS, int(number) >> open_bits, open_bits)


@lru_cache(_CACHE_SIZE)
def _parse_address(address: str) -> tuple[int, int]:
    """Return the length of an address in bits and its value; a length of 0 for an invalid address."""
    try:
        if ":" in address:
            return _V6_BITS, int(IPv6Address(address.partition("%")[0]))
        return _V4_BITS, int(IPv4Address(address))
    except AddressValueError:
        return 0, 0
