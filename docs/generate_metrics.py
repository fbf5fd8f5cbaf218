"""Generate docs/metrics.md from the output of `/metrics` and `/metrics/groups` of a groupd with one group.

python -m docs.generate_metrics
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from prometheus_client.core import Metric

from coordinator.broker.broker_metrics import EtcdMetrics, GroupCounter
from coordinator.broker.server_view import ServerView
from coordinator.cluster.member.cluster_member import OwnershipCause
from coordinator.cluster.partition_ownership import MoveCause
from coordinator.control.admin.offset_operations import PartitionEnds
from coordinator.control.control_plane import ControlPlane
from coordinator.control.metrics_snapshot import MAX_COUNTED_GROUPS as MOST_HISTORIES
from coordinator.control.metrics_snapshot import (
    MAX_METRIC_GROUPS,
    GroupCounts,
    GroupMetricsSnapshot,
    SelectedGroupMetrics,
)
from coordinator.http.group_metrics import GROUP_METRICS, GroupsCollector
from coordinator.http.metric_collectors import (
    CONTROL_METRICS,
    SERVER_METRICS,
    ControlCollector,
    ServerMetricsCollector,
)
from coordinator.network.tls_handshakes import HANDSHAKE_FAILURE_KINDS as HANDSHAKE_KINDS
from tests.broker.harness import Client, begin_producer, join_alone, serving

PAGE: Final = Path(__file__).with_name("metrics.md")
_INTRODUCTION: Final = """# Metrics

This page lists every metric. It is generated from the output of a daemon by `python -m docs.generate_metrics`;
a test fails if it is stale. [monitoring.md](monitoring.md) has a dashboard and alerts.

`/metrics` has Prometheus' text format. Counters start at 0 with the process. On Linux the response also
contains the `process_…` metrics of Prometheus' client library, such as `process_resident_memory_bytes` and
`process_open_fds`.

Begin with `groupd_rebalances_total`, which counts rebalances by cause. The [log line](log-lines.md) of each
rebalance names the member that caused it.

| metric | type | meaning |
|---|---|---|
"""
_OF_GROUPS: Final = f"""
## Single groups

`/metrics/groups` has the metrics of each group. `/metrics/groups?match=billing*` selects groups by id, and
`match` may occur several times. The response contains at most {MAX_METRIC_GROUPS:,} groups, in the order of
their ids. `/metrics` contains no names of groups, so its size is independent of their number.

- Metrics that begin with `kafka_` have the names and labels of kafka_exporter.
- A scraper that sends the version of the format in `Accept`, as Prometheus does, gets unchanged ids. Other
  clients get control and bidirectional characters as escapes.
- Counts begin with the first event of a group after the start; groupd keeps them for {MOST_HISTORIES:,} groups.

| metric | type | meaning |
|---|---|---|
"""
_VALUES: Final[Mapping[tuple[str, str], str]] = {
    (declaration.name, label): values
    for declaration in (*SERVER_METRICS, *CONTROL_METRICS, *GROUP_METRICS)
    for label, values in declaration.labels.items()
    if values
} | {
    ("groupd_failed_handshakes", "reason"): ", ".join(HANDSHAKE_KINDS),
    ("groupd_cluster_moves", "cause"): f"{', '.join(MoveCause)}; on etcd {', '.join(OwnershipCause)}",
}
"""The values of each label, including values from modules that the HTTP port does not load."""


def _history() -> GroupCounts:
    history = GroupCounts()
    history.event_counts.update(
        {(GroupCounter.EVICTED, "join"): 1, (GroupCounter.COMMITS_REFUSED, "ILLEGAL_GENERATION"): 1}
    )
    history.violations["double_owner"] = history.notices["flapping"] = 1
    return history


_ONE_GROUP: Final = SelectedGroupMetrics(
    [
        GroupMetricsSnapshot(
            group_id="billing",
            type="classic",
            state="Stable",
            members=1,
            is_frozen=False,
            rebalance_open_s=0,
            session_margin=1,
            counts=_history(),
            offsets={("orders", 0): 1},
        )
    ],
    0,
    {("orders", 0): PartitionEnds(0, 1)},
    {"orders": 1},
)
"""A snapshot that uses every label."""


def page() -> str:
    """Return the text of the page. Do not call it in an event loop."""
    of_all = "".join(map(_row, asyncio.run(_of_all_groups())))
    return _INTRODUCTION + of_all + _OF_GROUPS + "".join(map(_row, _of_one_group()))


def exported() -> list[Metric]:
    """Return all metrics of both paths, with a sample of each label. Do not call it in an event loop."""
    return [*asyncio.run(_of_all_groups()), *_of_one_group()]


def _of_one_group() -> list[Metric]:
    return list(GroupsCollector(_ONE_GROUP).collect())


async def _of_all_groups() -> list[Metric]:
    """The metrics of a server that has used every label: a group, a producer, a failed handshake, and the figures
    of a cluster."""
    with TemporaryDirectory(prefix="groupd-metrics-") as data:
        async with serving(data) as server, Client(server) as client:
            await join_alone(client, "billing")
            await begin_producer(client, "copier")
            server.connections.failed_handshakes[HANDSHAKE_KINDS[0]] += 1
            server.metrics.group_counts[GroupCounter.COMMITS_REFUSED, "ILLEGAL_GENERATION"] += 1
            control = ControlPlane(server)
            metrics = replace(
                await control.metrics.take_snapshot(),
                owned_partitions={1: 1},
                moves=dict.fromkeys(map(str, (*MoveCause, *OwnershipCause)), 1),
                engine=EtcdMetrics(0, 0, 0, 0, {"etcd1:2379": 0}, 0, is_full=False),
            )
            control.close()
            return [
                *ServerMetricsCollector(await ServerView(server).collect_metrics()).collect(),
                *ControlCollector(metrics).collect(),
            ]


def _row(metric: Metric) -> str:
    labels = sorted({label for sample in metric.samples for label in sample.labels} - {"le"})
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    described = [label for label in labels if (metric.name, label) in _VALUES]
    values = [f"`{label}`: {_VALUES[metric.name, label]}" for label in described]
    shown = f"`{name}{{{','.join(labels)}}}`" if labels else f"`{name}`"
    return f"| {shown} | {metric.type} | {'. '.join([metric.documentation, *values])} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
