"""How fast does an empty broker load the groups of a cluster from etcd?"""

import asyncio
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final
from unittest import mock

from benchmarks.connection import Connection
from benchmarks.history import GROUPS, PARTITIONS_OF_A_GROUP, group_name, write_history
from benchmarks.process import Server, groupd
from benchmarks.report import Absolute, Report, spread
from benchmarks.three_brokers import HOST, NODES, cluster_options
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tests.cluster.etcd.nodes import EtcdNodes
from tests.free_ports import free_ports

MILLION: Final = 1_000_000
FETCH_VERSION: Final = 8
LOAD: Final = "1 M records, one in a batch"
NEWEST: Final = "100,000 records, each the newest of its key"
FIGURES: Final = (LOAD, NEWEST)


async def seconds_to_read(stack: ExitStack, records: int, partitions_of_a_group: int) -> float:
    """Measure from the start of an empty daemon until it has returned all offsets of all groups."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groupd-bench-")))
    stack.enter_context(mock.patch.dict(os.environ, {"CLUSTER_ID": "A" * 22}))
    etcd = EtcdNodes(directory, NODES)
    stack.callback(etcd.close)
    source = str(directory / "source")
    write_history(source, records, 1, partitions_of_a_group=partitions_of_a_group)
    endpoints = ("-o", f"cluster.etcd.endpoints={etcd.endpoints}")
    command = [sys.executable, "-m", "coordinator", "cluster", "import", "--data-dir", source, *endpoints]
    await asyncio.to_thread(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)
    address = f"{HOST}:{free_ports(1)[0]}"
    options = cluster_options(etcd.endpoints, 2, address)
    began = perf_counter()
    server = stack.enter_context(groupd(*options, listens=("--listen", address)))
    assert await _offsets(server) == GROUPS * partitions_of_a_group
    return perf_counter() - began


async def _offsets(server: Server) -> int:
    """Return the number of offsets after all groups are loaded."""
    groups = [OffsetFetchRequestGroup(group_id=group_name(number), topics=None) for number in range(GROUPS)]
    connection = await Connection.open(server)
    try:
        while True:
            fetched = await connection.request(
                OffsetFetchRequest(groups=groups), FETCH_VERSION, OffsetFetchResponse
            )
            if not any(group.error_code for group in fetched.groups):
                return sum(len(topic.partitions) for group in fetched.groups for topic in group.topics)
            await asyncio.sleep(0.05)
    finally:
        connection.transport.abort()


async def measure(records: int = MILLION, rounds: int = 3) -> Report:
    """Measure rounds, each with a new etcd and broker."""
    report = Report(
        "A broker that reads groups from etcd",
        "A log of 200 groups in 50 partitions, one record in a batch, is imported into an etcd of three nodes on "
        "this machine; then a broker starts that has nothing. From its start to when it has told all offsets of "
        "all groups.",
        ["records", "keys", "rounds", "s"],
    )
    few = records // 10
    for label, size, width in ((LOAD, records, PARTITIONS_OF_A_GROUP), (NEWEST, few, few // GROUPS)):
        seconds = []
        for _ in range(rounds):
            with ExitStack() as stack:
                seconds.append(await seconds_to_read(stack, size, width))
        cells = [f"{size:,}", f"{GROUPS * width:,}", str(rounds), Absolute(spread(seconds, ".2f"))]
        report.rows.append(cells)
        report.figures[label] = median(seconds)
    return report
