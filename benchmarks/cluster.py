"""What a commit costs in a cluster: three daemons on three nodes of etcd, beside three brokers of Apache Kafka.

The load goes to one owner, as a client's does. Counted is what that process takes, and what all of the cluster do.
"""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final
from unittest import mock

from benchmarks.commit import COMMIT_VERSION, OPTIONS, commit_frames
from benchmarks.comparison import FULL, Pace, columns, compare, ratios
from benchmarks.connection import Connection
from benchmarks.flood import Load
from benchmarks.groups import CONNECTIONS, GROUPS, OFFSETS_PARTITIONS, SHARES, group_names
from benchmarks.kafka import AS_KAFKA_STARTS, FIND_VERSION, create_topic
from benchmarks.member import TOPIC
from benchmarks.process import Server, groupd
from benchmarks.report import Report
from benchmarks.three_brokers import NODES, cluster_options
from benchmarks.warm_up import METHOD
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.cluster.etcd.nodes import EtcdNodes
from tests.free_ports import free_ports
from tests.interop.build import CannotBuild
from tests.kafka_log.broker import CLUSTER_ID
from tests.kafka_log.cluster import KafkaCluster

LOADS: Final = (Load(1, 1), Load(CONNECTIONS, 1), Load(CONNECTIONS, 20))
OWNER: Final = "an owner of three"
ALL: Final = "all groupds and etcds"
ALONE: Final = "groupd alone, always"
LEADER: Final = "a Kafka of three"
ALL_KAFKAS: Final = "all three Kafkas"
_WAITING: Final = LOADS[1]
_SHARE: Final = max(SHARES)
TO_KAFKA: Final = f"{_WAITING}, {_SHARE} a connection, all to all of Kafka"
CPU: Final = "microseconds of an owner's CPU a commit, 50 waiting"
RATE: Final = "commits a second, 50 waiting"
FIGURES: Final = (TO_KAFKA, CPU, RATE)


async def coordinators(server: Server, names: Sequence[str]) -> dict[str, int]:
    """The port of the coordinator of each group, once all have one and each broker has its share."""
    connection = await Connection.open(server)
    try:
        while True:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=list(names))
            found = await connection.request(request, FIND_VERSION, FindCoordinatorResponse)
            ports = {each.key: each.port for each in found.coordinators if not each.error_code}
            shares = Counter(ports.values())
            if len(ports) == len(names) and len(shares) == NODES and min(shares.values()) > GROUPS * 3 // 4:
                return ports
            await asyncio.sleep(0.2)
    finally:
        connection.transport.abort()


async def committing(server: Server) -> tuple[Server, list[bytes]]:
    """A broker of a cluster, and what members of groups that it coordinates commit with."""
    ports = await coordinators(server, group_names(NODES * GROUPS))
    own = [name for name, port in ports.items() if port == server.port][:GROUPS]
    return server, await commit_frames(server, own)


async def start_groupds(stack: ExitStack) -> tuple[Server, list[int]]:
    """Start three daemons on etcd. Return one of them, and the process ids of the others and of etcd."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groupd-bench-")))
    stack.enter_context(mock.patch.dict(os.environ, {"CLUSTER_ID": CLUSTER_ID}))
    etcd = EtcdNodes(directory, NODES)
    stack.callback(etcd.close)
    servers = []
    for node_id, port in enumerate(free_ports(NODES), 1):
        address = f"127.0.0.1:{port}"
        options = (*OPTIONS, *cluster_options(etcd.endpoints, node_id, address))
        servers.append(stack.enter_context(groupd(*options, listens=("--listen", address))))
    return servers[0], [*(server.pid for server in servers[1:]), *etcd.pids]


async def start_kafkas(stack: ExitStack) -> tuple[Server, list[int]]:
    """Start three brokers. Return one of them, and the process ids of the others. Raises CannotBuild."""
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="groupd-bench-"))
    kafkas = KafkaCluster(
        os.path.join(directory, "kafka"),
        {"group.initial.rebalance.delay.ms": "0"},
        java_options=AS_KAFKA_STARTS,
    )
    stack.callback(kafkas.kill)
    await asyncio.to_thread(kafkas.start)
    first, *others = kafkas.nodes.values()
    host, _, port = first.bootstrap.rpartition(":")
    server = Server(first.pid, host, int(port))
    await create_topic(server, TOPIC, 6)
    return server, [node.pid for node in others]


async def measure(pace: Pace = FULL, *, with_kafka: bool = True) -> Report:
    """All in turn."""
    missing = "" if with_kafka else " Without Kafka."
    with ExitStack() as stack:
        owner, others = await start_groupds(stack)
        frames = {OWNER: await committing(owner)}
        frames[ALL] = (replace(owner, others=tuple(others)), frames[OWNER][1])
        alone = stack.enter_context(groupd(*OPTIONS, "-o", "log.flush=always"))
        frames[ALONE] = (alone, await commit_frames(alone, group_names(GROUPS)))
        if with_kafka:
            try:
                leader, followers = await start_kafkas(stack)
            except CannotBuild as problem:
                missing = f" Not there: Kafka ({' '.join(str(problem).split())})."
            else:
                frames[LEADER] = await committing(leader)
                frames[ALL_KAFKAS] = (replace(leader, others=tuple(followers)), frames[LEADER][1])
        report = _report(pace, missing)
        seen = (await compare(report, frames, [OWNER, ALL], LOADS, pace))[_SHARE]
    runs = seen[OWNER, _WAITING]
    report.figures = {
        CPU: 1e6 / median([run.per_cpu_second for run in runs]),
        RATE: median([run.per_second for run in runs]),
    }
    if (ALL_KAFKAS, _WAITING) in seen:
        report.figures[TO_KAFKA] = median(ratios(seen, ALL, ALL_KAFKAS, _WAITING))
    else:
        report.absent = [TO_KAFKA]
    return report


def _report(pace: Pace, missing: str) -> Report:
    return Report(
        "Offset commits in a cluster, per CPU-second",
        "Three daemons on three nodes of etcd, three brokers of Kafka, one daemon alone that syncs its commits, "
        "all on this machine. Connections commit one topic partition at a time "
        f"(OffsetCommit v{COMMIT_VERSION}) for one group of one member or for four in turn, all coordinated by "
        "the broker that they are connected to, which is a third of the "
        f"{OFFSETS_PARTITIONS} offsets partitions. {pace.rounds} rounds of {pace.seconds:g} s in turn. A commit is "
        "answered when a majority of etcd's nodes has synced it; with Kafka, when three brokers have it in "
        f"memory. CPU time is that of the owner alone, or of all processes of the cluster.{missing} {METHOD}",
        columns([OWNER, ALL], "commits per CPU-second"),
    )
