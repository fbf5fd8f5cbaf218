"""What an ACL may be, and which ones a filter picks."""

import pytest

from coordinator.security.core.acl import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    why_invalid,
)

GOOD = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)


def test_numbers_that_are_not_known() -> None:
    assert ResourceType(99) is ResourceType.UNKNOWN
    assert AclOperation(-1) is AclOperation.UNKNOWN


@pytest.mark.parametrize(
    ("acl", "why"),
    [
        (GOOD, None),
        (GOOD._replace(resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster"), None),
        (GOOD._replace(host="10.0.0.0/8"), None),
        (GOOD._replace(host="not-an-address"), None),
        (
            GOOD._replace(resource_type=ResourceType.CLUSTER),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (GOOD._replace(resource_name=""), "Invalid empty resource name"),
        (GOOD._replace(resource_name="", operation=AclOperation.ANY), "Invalid empty resource name"),
        (GOOD._replace(resource_type=ResourceType.ANY), "Invalid resourceType ANY"),
        (GOOD._replace(pattern_type=PatternType.MATCH), "Invalid patternType MATCH"),
        (GOOD._replace(operation=AclOperation.UNKNOWN), "Invalid operation UNKNOWN"),
        (GOOD._replace(permission=AclPermissionType.ANY, principal="alice"), "Invalid permissionType ANY"),
        (
            GOOD._replace(principal="alice"),
            (
                "Could not parse principal from `alice` (no colon is present separating the principal type from "
                "the principal name)"
            ),
        ),
        (GOOD._replace(host=""), "Host pattern cannot be null or empty"),
        (
            GOOD._replace(host="10.0.0.0/99"),
            "Invalid CIDR notation '10.0.0.0/99': Value [99] not in range [0,32]",
        ),
    ],
)
def test_what_may_be_added(acl: AclBinding, why: str | None) -> None:
    assert why_invalid(acl) == why


PREFIX = GOOD._replace(resource_name="ord", pattern_type=PatternType.PREFIXED)
ALL_TOPICS = GOOD._replace(resource_name="*")
GROUP = GOOD._replace(resource_type=ResourceType.GROUP)
DENIED = GOOD._replace(principal="User:bob", host="10.0.0.1", permission=AclPermissionType.DENY)
ACLS = (GOOD, PREFIX, ALL_TOPICS, GROUP, DENIED)


@pytest.mark.parametrize(
    ("wanted", "picked"),
    [
        (AclFilter(), ACLS),
        (AclFilter(resource_type=ResourceType.GROUP), (GROUP,)),
        (AclFilter(resource_name="orders"), (GOOD, GROUP, DENIED)),
        (AclFilter(resource_name="orders", pattern_type=PatternType.PREFIXED), ()),
        (AclFilter(resource_name="ord", pattern_type=PatternType.PREFIXED), (PREFIX,)),
        (AclFilter(pattern_type=PatternType.LITERAL), (GOOD, ALL_TOPICS, GROUP, DENIED)),
        (AclFilter(resource_name="orders", pattern_type=PatternType.MATCH), ACLS),
        (AclFilter(resource_name="ord", pattern_type=PatternType.MATCH), (PREFIX, ALL_TOPICS)),
        (AclFilter(resource_name="or", pattern_type=PatternType.MATCH), (ALL_TOPICS,)),
        (AclFilter(principal="User:bob"), (DENIED,)),
        (AclFilter(host="10.0.0.1"), (DENIED,)),
        (AclFilter(operation=AclOperation.WRITE), ()),
        (AclFilter(permission=AclPermissionType.DENY), (DENIED,)),
        (AclFilter(operation=AclOperation.UNKNOWN), ()),
    ],
)
def test_what_a_filter_picks(wanted: AclFilter, picked: tuple[AclBinding, ...]) -> None:
    assert tuple(filter(wanted.matches, ACLS)) == picked
