"""Topic ids that become known between the checkpoints of a guard: no topic passes without a decision."""

from typing import Any

import pytest

from coordinator.apis import authorization_rules
from coordinator.apis.auth_helper import AuditLog, AuthHelper, AuthorizationDenied
from coordinator.apis.authorization_table import RULES
from coordinator.network.request_context import ApiCounts, RequestContext, ResponseEncoder
from coordinator.security.core.acl import AclOperation, ResourceType
from coordinator.security.core.authorizer import AclIndex, Authorizer
from coordinator.topics.catalogue import Catalogue
from protocol.apis import APIS, ApiKey
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from protocol.messages.offset_commit import OffsetCommitRequestTopic as CommitTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequestTopic as TxnTopic
from tests.apis.authorized_clients import acl
from tests.network.requests import CLIENT

LATE_ID, LATE = b"\1" * 16, "late"
OTHER_ID = b"\2" * 16
COMMIT_PARTS = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")]
TXN_PARTS = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")]
BOTH = (LATE_ID, OTHER_ID)

REQUESTS: dict[str, tuple[ApiKey, int, Any]] = {
    "OffsetCommit": (
        ApiKey.OFFSET_COMMIT,
        10,
        lambda: OffsetCommitRequest(
            group_id="g", topics=[CommitTopic(topic_id=each, partitions=COMMIT_PARTS) for each in BOTH]
        ),
    ),
    "TxnOffsetCommit": (
        ApiKey.TXN_OFFSET_COMMIT,
        6,
        lambda: TxnOffsetCommitRequest(
            transactional_id="t",
            producer_id=1,
            producer_epoch=0,
            group_id="g",
            topics=[TxnTopic(topic_id=each, partitions=TXN_PARTS) for each in BOTH],
        ),
    ),
    "OffsetFetch": (
        ApiKey.OFFSET_FETCH,
        10,
        lambda: OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g",
                    topics=[OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in BOTH],
                )
            ]
        ),
    ),
    "Metadata": (
        ApiKey.METADATA,
        12,
        lambda: MetadataRequest(topics=[MetadataRequestTopic(topic_id=each) for each in BOTH]),
    ),
    "Produce": (
        ApiKey.PRODUCE,
        13,
        lambda: ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(topic_id=each, partition_data=[PartitionProduceData(index=0, records=None)])
                for each in BOTH
            ],
        ),
    ),
}


class LateHelper(AuthHelper):
    """Finds a topic by its id once the guard has reached a checkpoint, as after a change in a cluster."""

    is_known = False

    def find_topic_name(self, topic_id: bytes) -> str | None:
        return LATE if topic_id == LATE_ID and self.is_known else None

    async def checkpoint(self) -> None:
        self.is_known = True

    def begin_changes(self) -> None:
        raise AssertionError("a guard changes nothing")


def topic_ids(request: Any) -> set[bytes]:
    """The topics that reach the handler."""
    topics = request.groups[0].topics if isinstance(request, OffsetFetchRequest) else None
    topics = getattr(request, "topics", None) or topics or getattr(request, "topic_data", [])
    return {topic.topic_id for topic in topics}


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_topic_that_becomes_known_later_does_not_reach_the_handler(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(authorization_rules, "ELEMENTS_PER_STEP", 1)
    key, version, create = REQUESTS[name]
    request = create()
    allowed = [
        acl("ANONYMOUS", AclOperation.ALL, ResourceType.GROUP, "g"),
        acl("ANONYMOUS", AclOperation.ALL, ResourceType.TRANSACTIONAL_ID, "t"),
    ]
    authorizer = Authorizer(AclIndex(frozenset(allowed)), frozenset(), False)
    encoder = ResponseEncoder(APIS[key], version, ApiCounts())
    context = RequestContext(CLIENT, encoder, 1, None, version)
    helper = LateHelper(authorizer, AuditLog(), object.__new__(Catalogue), context)
    guard: Any = RULES[key].create_guard(APIS[key])
    result = await guard(request, helper, helper)
    assert helper.is_known
    assert isinstance(result, AuthorizationDenied) or LATE_ID not in topic_ids(request)
