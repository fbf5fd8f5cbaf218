"""Error responses compared with the responses of Kafka's own request classes, byte for byte, in every version."""

from collections import defaultdict
from typing import Any

import pytest

from protocol.apis import APIS, Api, ApiKey
from protocol.codec import decode, encode
from protocol.error_codes import ErrorCode
from protocol.error_response import (
    ErrorLevel,
    build_bare_error_response,
    build_error_entry,
    build_error_response,
)
from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.fetch import PartitionData
from protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.protocol.declared import full
from tests.protocol.error_response_recording import ERROR, RecordedError, read

TOPIC_ID = bytes(range(16))
FIRST_VERSION_WITH_ERROR = {ApiKey.DESCRIBE_LOG_DIRS: 3}
RECORDED: dict[ApiKey, list[RecordedError]] = defaultdict(list)
for recorded in read():
    RECORDED[recorded.api_key].append(recorded)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_an_error_response_is_that_of_kafka(api: Api) -> None:
    versions = {each.version for each in RECORDED[api.key]}
    assert versions == set(range(min(versions), api.versions.last + 1))
    for each in RECORDED[api.key]:
        request = decode(api.request, each.version, each.request)
        # Kafka's response has the message of an error only where the handlers of the API may give one.
        message = each.message if each.message.encode() in each.response else None
        response = build_error_response(request, each.version, ERROR, message)
        assert encode(response, each.version) == each.response, (each.version, request)


def find_error_codes(message: Any) -> set[int]:
    """The values of all error codes in a response."""
    if isinstance(message, list):
        return set().union(*map(find_error_codes, message))
    fields = getattr(message, "__struct_fields__", ())
    return {
        int(getattr(message, name)) for name in fields if name in ("error_code", "partition_error_code")
    }.union(*(find_error_codes(getattr(message, name)) for name in fields))


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_versions_that_kafka_no_longer_has_report_an_error_too(api: Api) -> None:
    for version in range(api.versions.first, api.versions.last + 1):
        response = build_error_response(full(api.request, version), version, ERROR)
        sent = decode(api.response, version, encode(response, version))
        if version >= FIRST_VERSION_WITH_ERROR.get(api.key, 0):
            assert ERROR in find_error_codes(sent)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_response_to_a_request_that_is_not_at_hand_has_no_entries(api: Api) -> None:
    for version in range(api.versions.first, api.versions.last + 1):
        response = build_bare_error_response(api.request, version, ERROR)
        assert decode(api.response, version, encode(response, version)) is not None
        values = [getattr(response, name) for name in response.__struct_fields__]
        assert [value for value in values if isinstance(value, list) and value] == []


FETCH = OffsetFetchRequest(
    groups=[
        OffsetFetchRequestGroup(
            group_id="g",
            topics=[OffsetFetchRequestTopics(name="t", topic_id=TOPIC_ID, partition_indexes=[3])],
        ),
        OffsetFetchRequestGroup(group_id="h"),
    ]
)


def test_partitions_have_the_error_where_the_caller_wants_it_there() -> None:
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=1)])
        ],
    )
    assert build_error_response(request, 0, ERROR) == OffsetDeleteResponse(error_code=ERROR)
    assert build_error_response(request, 0, ERROR, level=ErrorLevel.INNERMOST) == OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            OffsetDeleteResponseTopic(
                name="t", partitions=[OffsetDeleteResponsePartition(partition_index=1, error_code=ERROR)]
            )
        ],
    )
    partition = OffsetFetchResponsePartitions(
        partition_index=3, committed_offset=-1, metadata="", error_code=ERROR
    )
    topic = OffsetFetchResponseTopics(name="t", topic_id=TOPIC_ID, partitions=[partition])
    assert build_error_response(FETCH, 9, ERROR, level=ErrorLevel.INNERMOST) == OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(group_id="g", topics=[topic]),
            OffsetFetchResponseGroup(group_id="h", topics=[]),
        ]
    )


def test_an_entry_repeats_the_key_of_its_element() -> None:
    group = build_error_entry(DescribedGroup, "g", 6, ERROR, "why")
    assert (group.group_id, group.error_code, group.error_message, group.members) == ("g", ERROR, "why", [])
    partition = build_error_entry(PartitionData, 4, 17, ERROR)
    assert (partition.partition_index, partition.error_code) == (4, ERROR)


def test_an_entry_repeats_keys_that_its_version_does_not_carry() -> None:
    """The handlers of v10 find topics by their names, before they send their ids."""
    committed = OffsetCommitRequestPartition(partition_index=7, committed_offset=1, committed_metadata=None)
    topic = OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID, partitions=[committed])
    assert build_error_entry(OffsetCommitResponseTopic, topic, 10, ERROR) == OffsetCommitResponseTopic(
        name="t",
        topic_id=TOPIC_ID,
        partitions=[OffsetCommitResponsePartition(partition_index=7, error_code=ERROR)],
    )


def test_responses_share_nothing_that_a_handler_could_change() -> None:
    first, second = (build_error_response(FETCH, 8, ERROR) for _ in range(2))
    first.groups[0].topics.append("changed")
    first.groups.append("changed")
    assert second == build_error_response(FETCH, 8, ERROR)
