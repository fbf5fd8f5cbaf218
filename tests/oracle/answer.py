"""Responses of two brokers in a comparable and readable form.

A response becomes plain data with the fields of its version. Error codes become names. Only the following values
are replaced, because two brokers never share them:

- member ids, or their random part: `#1`, `#2`, … in order of appearance;
- ids of topics, producers, fetch sessions and the cluster: by the named object, so that an unchanged id differs
  from a new one;
- ports, the data directory and the size of its volume, append times of the broker, times of the recording day,
  epochs of coordinators (except those that a session sets);
- the suffixes that keep the group and topic names of sessions apart;
- the wording of `error_message`, but not whether it is present, empty or null. Sessions about authorization keep
  the wording of rejections.

Arrays that Kafka fills from a hash map (`UNORDERED`) are sorted.
"""

import json
import re
import time
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

from msgspec import Struct

from protocol.error_codes import ErrorCode
from protocol.schema import layout
from storage.batch import BatchHeader, decode_records, walk_batches
from storage.producers.end_transaction_marker import decode_marker
from storage.storage_errors import CorruptBatch

UNORDERED: Final = {
    ("JoinGroupResponse", "members"): "member_id",
    ("DescribedGroup", "members"): "member_id",
    ("DescribeGroupsResponse", "groups"): "group_id",
    ("DeleteGroupsResponse", "results"): "group_id",
    ("ListGroupsResponse", "groups"): "group_id",
    ("ProduceResponse", "responses"): "name",
    ("TopicProduceResponse", "partition_responses"): "index",
    ("OffsetFetchResponse", "topics"): "name",
    ("OffsetFetchResponseTopic", "partitions"): "partition_index",
    ("OffsetFetchResponseGroup", "topics"): "name",
    ("OffsetFetchResponseTopics", "partitions"): "partition_index",
    ("CreateTopicsResponse", "topics"): "name",
    ("CreatableTopicResult", "configs"): "name",
    ("CreatePartitionsResponse", "results"): "name",
    ("DeleteTopicsResponse", "responses"): "name",
    ("MetadataResponse", "topics"): "name",
    ("MetadataResponseTopic", "partitions"): "partition_index",
    ("DescribeConfigsResponse", "results"): "resource_name",
    ("DescribeConfigsResult", "configs"): "name",
    ("ListConfigResourcesResponse", "config_resources"): "resource_name",
    ("DescribeLogDirsResult", "topics"): "name",
    ("DescribeLogDirsTopic", "partitions"): "partition_index",
    ("AddPartitionsToTxnResponse", "results_by_topic_v3_and_below"): "name",
    ("AddPartitionsToTxnResponse", "results_by_transaction"): "transactional_id",
    ("AddPartitionsToTxnResult", "topic_results"): "name",
    ("AddPartitionsToTxnTopicResult", "results_by_partition"): "partition_index",
    ("TxnOffsetCommitResponse", "topics"): "name",
    ("TxnOffsetCommitResponseTopic", "partitions"): "partition_index",
    ("WriteTxnMarkersResponse", "markers"): "producer_id",
    ("WritableTxnMarkerResult", "topics"): "name",
    ("WritableTxnMarkerTopicResult", "partitions"): "partition_index",
    ("DescribeProducersResponse", "topics"): "name",
    ("DescribeProducersTopicResponse", "partitions"): "partition_index",
    ("DescribeProducersPartitionResponse", "active_producers"): "producer_id",
    ("DescribeTransactionsResponse", "transaction_states"): "transactional_id",
    ("DescribeTransactionsTransactionState", "topics"): "topic",
    ("DescribeTransactionsTopicData", "partitions"): "",
    ("ListTransactionsResponse", "transaction_states"): "transactional_id",
    ("ListTransactionsResponse", "unknown_state_filters"): "",
    ("ConsumerGroupHeartbeatResponseAssignment", "topic_partitions"): "topic_id",
    ("ConsumerGroupHeartbeatResponseTopicPartitions", "partitions"): "",
    ("ConsumerGroupDescribeResponse", "groups"): "group_id",
    ("ConsumerGroupDescribeResponseGroup", "members"): "member_id",
    ("ConsumerGroupDescribeResponseMember", "subscribed_topic_names"): "",
    ("ConsumerGroupDescribeResponseAssignment", "topic_partitions"): "topic_name",
    ("ConsumerGroupDescribeResponseTopicPartitions", "partitions"): "",
    ("SaslHandshakeResponse", "mechanisms"): "",
    ("AlterUserScramCredentialsResponse", "results"): "user",
    ("DescribeAclsResponse", "resources"): "resource_name",
    ("DescribeUserScramCredentialsResponse", "results"): "user",
    ("DescribeAclsResource", "acls"): "principal",
    ("DeleteAclsFilterResult", "matching_acls"): "resource_name",
    ("GroupMetadataValue", "members"): "member_id",
    ("ConsumerGroupCurrentMemberAssignmentValue", "assigned_partitions"): "topic_id",
    ("ConsumerGroupCurrentMemberAssignmentValue", "partitions_pending_revocation"): "topic_id",
    ("ConsumerGroupTargetAssignmentMemberValue", "topic_partitions"): "topic_id",
    ("ConsumerGroupMemberMetadataValue", "subscribed_topic_names"): "",
    ("ConsumerGroupRegularExpressionValue", "topics"): "",
}
"""Messages and arrays in the order of a hash map of Kafka, with the field to sort by ("" for items without fields).
"""

UNORDERED_WITH_REFUSALS: Final = {
    ("DeleteRecordsResponse", "topics"): "name",
    ("DescribeTopicPartitionsResponse", "topics"): "name",
    ("ListOffsetsResponse", "topics"): "name",
}
"""The same where it is so only when there are several topics, of which some are refused."""

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SHORT_UUID: Final = re.compile(r"[0-9A-Za-z_-]{22}")
"""A member id that a consumer group gave out."""
_MEMBERS: Final = ("member_id", "leader")
_ZERO_UUID: Final = bytes(16)
_ERRORS: Final = ("error_code", "topic_config_error_code", "partition_error_code")
_ERROR_NAMES: Final[dict[int, str]] = {int(error): error.name for error in ErrorCode}
_MESSAGES: Final = ("error_message", "batch_index_error_message")
_REFUSALS: Final = (
    *(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    *(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    *(ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.SECURITY_DISABLED),
)
_PRINTED_REQUEST: Final = re.compile(r"Request Request\(.*\)")
"""In which Kafka's controller tells the addresses of its objects."""
_TIMES: Final = (
    *("timestamp", "last_timestamp", "transaction_start_time_ms"),
    *("base_timestamp_ms", "max_timestamp_ms"),
)
_TODAY_MS: Final = 86_400_000
HIGH_COORDINATOR_EPOCH: Final = 1000
"""From here on an epoch of a coordinator is one that a session made up."""

Plain = dict[str, "Plain"] | list["Plain"] | str | int | bool | None


@dataclass
class Names:
    """What stands for the values that differ from broker to broker."""

    suffix: str
    """What a session adds to the names of its groups and topics."""
    members: dict[str, str] = field(default_factory=dict)
    topics: dict[bytes, str] = field(default_factory=dict)
    producers: dict[int, str] = field(default_factory=dict)
    fetch_sessions: dict[int, str] = field(default_factory=dict)
    refusals: bool = False
    """Whether the session is about authorization.

    Then the wording of rejections is kept, and `UNORDERED_WITH_REFUSALS` is sorted as well.
    """

    keeps_texts: bool = False
    """Whether to keep error messages, because the session tests them."""

    def topic(self, topic_id: bytes) -> str:
        """A topic id: zero, the id of a topic that the session knows, or bytes that the session invented."""
        if topic_id == _ZERO_UUID:
            return "zero"
        return self.topics.get(topic_id) or f"unknown {topic_id.hex()}"

    def producer(self, producer_id: int) -> str:
        """What stands for the id of a producer, in the order in which they are first seen."""
        return self.producers.setdefault(producer_id, f"producer {len(self.producers) + 1}")

    def text(self, value: str) -> str:
        """Replace the parts of a text that are specific to one broker or session."""
        value = value.replace(self.suffix, "")
        return _UUID.sub(lambda found: self.members.setdefault(found[0], f"#{len(self.members) + 1}"), value)

    def member(self, value: str, learn: bool = True) -> str:
        """A member id, of which the whole may be random."""
        if not _SHORT_UUID.fullmatch(value):
            return self.text(value) if learn else self.text_so_far(value)
        if not learn:
            return self.members.get(value, "#?")
        return self.members.setdefault(value, f"#{len(self.members) + 1}")

    def text_so_far(self, value: str) -> str:
        """As `text`, without learning new ids."""
        return _UUID.sub(lambda found: self.members.get(found[0], "#?"), value.replace(self.suffix, ""))


@cache
def _fields(message: type[Any], version: int) -> tuple[str, ...]:
    return tuple(entry.name for entry in layout(message, version))


def plain(value: Any, version: int, names: Names, name: str = "", learn: bool = True) -> Plain:
    """A message of this version, or a part of one, in the form to compare."""
    if isinstance(value, Struct):
        return _message(value, version, names, learn)
    if isinstance(value, list):
        return [plain(item, version, names, name, learn) for item in value]
    if isinstance(value, str):
        if name in _MESSAGES:
            return "(a text)" if value and value != "NONE" else value
        if name == "cluster_id":
            return "(its id)" if value else value
        if name == "log_dir":
            return "(its directory)" if value.startswith("/") else value
        if name in _MEMBERS:
            return names.member(value, learn)
        return names.text(value) if learn else names.text_so_far(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value), names, name)
    if isinstance(value, bool) or value is None:
        return value
    return _number(int(value), names, name)


def _message(value: Any, version: int, names: Names, learn: bool) -> Plain:
    kind = type(value).__name__
    result: dict[str, Plain] = {}
    if learn and kind == "CreatableTopicResult" and value.topic_id != _ZERO_UUID:
        names.topics.setdefault(bytes(value.topic_id), f"id of {names.text(value.name)}")
    cls: type = type(value)
    for name in _fields(cls, version):
        content = getattr(value, name)
        first = UNORDERED.get((kind, name))
        if first is None and names.refusals:
            first = UNORDERED_WITH_REFUSALS.get((kind, name))
        if first is not None:
            content = sorted(content, key=partial(_place, version, names, first))
        if name == "throttle_time_ms" and content == 0:
            continue
        is_kept = names.keeps_texts or (names.refusals and getattr(value, "error_code", 0) in _REFUSALS)
        if name in _MESSAGES and content and is_kept:
            result[name] = _PRINTED_REQUEST.sub("Request (in print)", names.text(content))
            continue
        # With an error, producer id 0 stands for an unknown producer.
        is_nobody = name == "producer_id" and content == 0 and getattr(value, "error_code", 0) != 0
        result[name] = 0 if is_nobody else plain(content, version, names, name, learn)
    return result


def _place(version: int, names: Names, first: str, item: Any) -> tuple[str, str]:
    whole = plain(item, version, names, learn=False)
    if not isinstance(whole, dict):
        return "", f"{item:>20}"
    return json.dumps(whole.get(first)), json.dumps(whole, sort_keys=True)


def _number(value: int, names: Names, name: str) -> Plain:
    if name in _ERRORS:
        return _ERROR_NAMES.get(value, value)
    if name == "port" and value > 0:
        return "(its port)"
    if name in ("total_bytes", "usable_bytes") and value > 0:
        return "(of its volume)"
    if name == "producer_id" and value >= 0:
        return names.producer(value)
    if name == "coordinator_epoch" and 0 <= value < HIGH_COORDINATOR_EPOCH:
        return "(its coordinator's)"
    if name in _TIMES and abs(value - time.time() * 1000) < _TODAY_MS:
        return "(today)"
    if name == "log_append_time_ms" and value >= 0:
        return "(the time of the append)"
    if name == "session_id" and value > 0:
        return names.fetch_sessions.setdefault(value, f"fetch session {len(names.fetch_sessions) + 1}")
    return value


def _bytes(value: bytes, names: Names, name: str) -> Plain:
    if name == "topic_id":
        return names.topic(value)
    if name == "records":
        return _batches(value, names)
    text = value.decode("ascii", "replace")
    return text if text.isascii() and text.isprintable() else value.hex()


def _batches(records: bytes, names: Names) -> Plain:
    """Return every field of each batch header, the checksum of the records, and the size of a truncated rest."""
    result: list[Plain] = []
    position = 0
    try:
        for start, header in walk_batches(records):
            described = _batch(header, names)
            if header.is_control:
                described["marker"] = _marker(header, records[start:], names)
            result.append(described)
            position = start + header.size_bytes
    except CorruptBatch:
        result.append(f"{len(records) - position} bytes that are no batch")
    else:
        if position < len(records):
            result.append(f"{len(records) - position} bytes of a batch")
    return result


def _marker(header: BatchHeader, batch: bytes, names: Names) -> Plain:
    marker = decode_marker(header, decode_records(batch, header))
    if marker is None:
        return None
    epoch = _number(marker.coordinator_epoch, names, "coordinator_epoch")
    return {"is_committed": marker.is_committed, "coordinator_epoch": epoch}


def _batch(header: BatchHeader, names: Names) -> dict[str, Plain]:
    fields = header._asdict()
    described: dict[str, Plain] = {name: _number(int(value), names, name) for name, value in fields.items()}
    if header.is_log_append_time:
        described["max_timestamp_ms"] = "(the time of the append)"
    if header.producer_id >= 0 or header.is_log_append_time:
        described["crc"] = "(covers the above)"
    return described


def flat(value: Plain, path: str = "") -> dict[str, Plain]:
    """Every leaf by its path: `topics[0].partitions[1].error_code`. An array also has its length, `topics[]`."""
    if isinstance(value, dict):
        leaves: dict[str, Plain] = {}
        for name, item in value.items():
            leaves |= flat(item, f"{path}.{name}" if path else name)
        return leaves
    if isinstance(value, list):
        leaves = {f"{path}[]": len(value)}
        for row, item in enumerate(value):
            leaves |= flat(item, f"{path}[{row}]")
        return leaves
    return {path: value}
