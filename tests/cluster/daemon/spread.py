"""Transactions that concern every daemon of a cluster: one leads, another coordinates, a third has the group."""

from functools import partial

from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tests.broker.transactor import TOPICS, Transactor, until_answered
from tests.cluster.daemon.cluster_daemons import Daemon, Daemons, eventually
from tests.cluster.daemon.routed import GROUP, TRANSACTION, Routed

PROPERTIES = {"transaction.state.log.num.partitions": "3"}


def _has(daemon: Daemon, topic: str) -> bool:
    return daemon.server.data_plane.catalogue.find_topic(topic) is not None


async def spread(cluster: Daemons, level: int = 2) -> tuple[Transactor, Routed]:
    """Return a transactional id with separate brokers for its coordinator, its group and orders-0.

    Each daemon leads one of the partitions.
    """
    client = Routed(cluster)
    first = cluster.by_id[1]
    for name, count in TOPICS:
        # The last one goes where none of the others is.
        places = [first.node_id + 1, first.node_id + 2] if count > 1 else [first.node_id]
        assignments = [
            CreatableReplicaAssignment(partition_index=number, broker_ids=[place])
            for number, place in enumerate(places)
        ]
        wanted = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=[]
        )
        answer = await first.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=5000), 5)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        for daemon in cluster.by_id.values():
            await eventually(partial(_has, daemon, name))

    async def are_all_there() -> bool:
        found = [await client.coordinator(str(number), TRANSACTION) for number in range(20)]
        return set(found) == set(cluster.by_id)

    async def ask() -> ErrorCode:
        return ErrorCode.NONE if await are_all_there() else ErrorCode.COORDINATOR_NOT_AVAILABLE

    await until_answered(ask)
    leader = await client.leader("orders", 0)
    for number in range(100):
        transactor = Transactor(f"t{number}", level=level)
        of_transactions = await client.coordinator(transactor.transactional_id, TRANSACTION)
        of_group = await client.coordinator(transactor.group, GROUP)
        if of_transactions not in (leader, of_group):
            return transactor, client
    raise AssertionError("no id like that")


async def coordinator_of(cluster: Daemons, client: Routed, transactor: Transactor) -> Daemon:
    """The one that coordinates its transactions."""
    return cluster.by_id[await client.coordinator(transactor.transactional_id, TRANSACTION)]
