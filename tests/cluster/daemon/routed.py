"""A client of a cluster that sends each request to the coordinator or to the leader, as Kafka clients do."""

import asyncio
from typing import Any

from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.broker.harness import Client
from tests.cluster.daemon.cluster_daemons import Daemon, Daemons

GROUP, TRANSACTION = 0, 1
OF_TRANSACTIONS = (InitProducerIdRequest, EndTxnRequest, AddOffsetsToTxnRequest, AddPartitionsToTxnRequest)


class Routed(Client):
    """A client that looks up the destination of each request at any daemon.

    A request without a coordinator goes to any daemon.
    """

    def __init__(self, cluster: Daemons) -> None:
        self._cluster = cluster

    async def call(self, request: Any, version: int) -> Any:
        """Send a request to the daemon that it belongs to, and again to the next one if that daemon is killed."""
        while True:
            daemon = await self._where(request)
            try:
                return await daemon.ask(request, version)
            except (ConnectionError, asyncio.IncompleteReadError):
                if daemon in self._cluster.by_id.values():
                    raise

    async def coordinator(self, key: str, key_type: int) -> int:
        """Return the node id of the coordinator, or -1."""
        answer = await self._any().ask(FindCoordinatorRequest(key=key, key_type=key_type), 3)
        return int(answer.node_id)

    async def leader(self, topic: str, number: int) -> int:
        """Return the node id of the leader, or -1."""
        answer = await self._any().ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
        found = [part.leader_id for part in answer.topics[0].partitions if part.partition_index == number]
        return int(found[0])

    def _any(self) -> Daemon:
        return next(iter(self._cluster.by_id.values()))

    async def _where(self, request: Any) -> Daemon:
        if isinstance(request, OF_TRANSACTIONS):
            if isinstance(request, AddPartitionsToTxnRequest):
                transactional_id = request.v3_and_below_transactional_id
            else:
                transactional_id = request.transactional_id or ""
            found = await self.coordinator(transactional_id, TRANSACTION)
        elif isinstance(request, TxnOffsetCommitRequest | OffsetFetchRequest):
            found = await self.coordinator(request.group_id, GROUP)
        elif isinstance(request, ProduceRequest):
            [topic] = request.topic_data
            found = await self.leader(topic.name, topic.partition_data[0].index)
        elif isinstance(request, FetchRequest):
            [asked] = request.topics
            found = await self.leader(asked.topic, asked.partitions[0].partition)
        else:
            found = -1
        return self._cluster.by_id.get(found) or self._any()
