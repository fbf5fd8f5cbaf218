"""The response to a large request behind an authorizer is finished in steps."""

from typing import Any, cast

import pytest

from coordinator.apis.auth_helper import AuditLog, AuthHelper, AuthorizationDenied
from coordinator.apis.authorization_rules import ELEMENTS_PER_STEP
from coordinator.apis.authorization_table import RULES
from coordinator.network.request_context import ApiCounts, RequestContext, ResponseEncoder
from coordinator.topics.catalogue import Catalogue
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.error_response import ErrorLevel, build_error_response
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponseTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from tests.apis.authorization_recording import RecordingAuthorizer, Rights, StandInCatalogue
from tests.network.requests import CLIENT

STEPS = 10
NAMES = [f"t{number}" for number in range(STEPS * ELEMENTS_PER_STEP)]
DENIED = "; ".join(
    f"{right} {name}"
    for name in NAMES[::2]
    for right in ("READ TOPIC", "DESCRIBE TOPIC", "DESCRIBE GROUP", "ALTER_CONFIGS TOPIC")
)
OFFSET = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)


def commit_topics() -> OffsetCommitRequest:
    topics = [OffsetCommitRequestTopic(name=name, partitions=[OFFSET]) for name in NAMES]
    return OffsetCommitRequest(group_id="g", topics=topics)


def alter_configs() -> AlterConfigsRequest:
    resources = [AlterConfigsResource(resource_type=2, resource_name=name, configs=[]) for name in NAMES]
    return AlterConfigsRequest(resources=resources, validate_only=True)


LISTED = [ListedGroup(group_id=name, protocol_type="consumer") for name in NAMES]
TOPICS = [MetadataResponseTopic(error_code=0, name=name, partitions=[]) for name in NAMES]
VISIBLE_GROUPS = NAMES[1::2]
FEW_OFFSETS = [OffsetFetchResponseTopics(name=name, partitions=[]) for name in NAMES[:ELEMENTS_PER_STEP]]
CASES: dict[ApiKey, tuple[int, Any, dict[str, Any]]] = {
    ApiKey.OFFSET_COMMIT: (9, commit_topics(), {}),
    ApiKey.ALTER_CONFIGS: (2, alter_configs(), {}),
    ApiKey.FIND_COORDINATOR: (4, FindCoordinatorRequest(coordinator_keys=list(NAMES)), {}),
    ApiKey.DESCRIBE_GROUPS: (
        6,
        DescribeGroupsRequest(groups=list(NAMES), include_authorized_operations=True),
        {},
    ),
    ApiKey.OFFSET_FETCH: (
        10,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in NAMES]),
        {"groups": [OffsetFetchResponseGroup(group_id=name, topics=FEW_OFFSETS) for name in VISIBLE_GROUPS]},
    ),
    ApiKey.LIST_GROUPS: (5, ListGroupsRequest(), {"groups": LISTED}),
    ApiKey.METADATA: (9, MetadataRequest(topics=None), {"topics": TOPICS}),
}
"""The version, the request, and entries of the handler's response that the request does not name."""


class CountingBudget:
    """Counts the checkpoints of a guard."""

    def __init__(self) -> None:
        self.checkpoints = 0

    async def checkpoint(self) -> None:
        self.checkpoints += 1

    def begin_changes(self) -> None:
        raise AssertionError("a guard changes nothing")


async def count_checkpoints(key: ApiKey) -> int:
    """Return the number of checkpoints while the guard of an API finishes its response."""
    version, request, entries = CASES[key]
    catalogue = cast("Catalogue", StandInCatalogue())
    encoder = ResponseEncoder(APIS[key], version, ApiCounts())
    context = RequestContext(CLIENT, encoder, 1, None, version)
    authorizer = RecordingAuthorizer(Rights(f"all but {DENIED}; DESCRIBE CLUSTER kafka-cluster"))
    guard: Any = RULES[key].create_guard(APIS[key])
    helper = AuthHelper(authorizer, AuditLog(), catalogue, context)
    result = (
        guard(request, helper)
        if key is ApiKey.LIST_GROUPS
        else await guard(request, helper, CountingBudget())
    )
    assert not isinstance(result, AuthorizationDenied)
    response = build_error_response(request, version, ErrorCode.NONE, level=ErrorLevel.EVERY)
    for name, value in entries.items():
        setattr(response, name, value)
    budget = CountingBudget()
    await result.finish(response, budget)
    return budget.checkpoints


@pytest.mark.parametrize("key", CASES, ids=lambda key: APIS[key].name)
async def test_a_large_response_has_checkpoints(key: ApiKey) -> None:
    assert await count_checkpoints(key) >= STEPS // 2


async def test_the_offsets_of_each_group_are_filtered_in_a_step_of_their_own() -> None:
    assert await count_checkpoints(ApiKey.OFFSET_FETCH) >= len(VISIBLE_GROUPS)
