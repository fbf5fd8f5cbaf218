"""Gives a partition to another broker, as Kafka's tools do: here, and at a Kafka."""

import time
from collections.abc import Sequence
from typing import Final

from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tests.kafka_log.connection import Connection

CAUGHT_UP_S: Final = 60
AGAIN_S: Final = 0.2


def make_leader(bootstrap: str, topic: str, partition: int, node_ids: Sequence[int]) -> None:
    """Make the first replica the leader.

    `bootstrap` is HOST:PORT of any broker. `node_ids` may have the current replicas in another order. Raises
    OSError.
    """
    part = ReassignablePartition(partition_index=partition, replicas=list(node_ids))
    reassign = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[part])])
    elect = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=topic, partitions=[partition])])
    deadline = time.monotonic() + CAUGHT_UP_S
    with Connection(bootstrap) as connection:
        answer: AlterPartitionReassignmentsResponse = connection.call(reassign, 0)
        assert not answer.responses[0].partitions[0].error_code, answer
        while True:
            elected: ElectLeadersResponse = connection.call(elect, 2)
            errors = [
                part.error_code for each in elected.replica_election_results for part in each.partition_result
            ]
            if all(error in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED) for error in errors):
                return
            assert time.monotonic() < deadline, elected
            time.sleep(AGAIN_S)  # it has to catch up first
