"""Writes docs/metrics.md, what `/metrics` and `/metrics/groups` export, from what a groupd with one group exports.

python -m docs.generate_metrics
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from prometheus_client.core import Metric

from coordinator.cluster.member.member import Cause
from coordinator.cluster.ownership import MoveCause
from coordinator.console.control_metrics import ControlCollector
from coordinator.console.group_metrics import GroupsCollector
from coordinator.console.metrics import FiguresCollector
from coordinator.control.control import Control
from coordinator.control.faults.kinds import KINDS
from coordinator.control.figures.durations import PHASES
from coordinator.control.figures.group_figures import MOST_GROUPS, AllGroupFigures, GroupFigures
from coordinator.control.figures.group_history import MOST_GROUPS as MOST_HISTORIES
from coordinator.control.figures.group_history import GroupHistory
from coordinator.control.groups.partition_ends import Ends
from coordinator.control.oracles.violation import OracleName
from coordinator.engine.partition import PartitionState
from coordinator.group.consumer.state import ConsumerGroupState
from coordinator.group.group_type import GroupType
from coordinator.group.rebalance_facts import RebalanceCause
from coordinator.group.state import ClassicGroupState
from coordinator.group.state_names import STATE_NAMES
from coordinator.net.handshake_failure import KINDS as HANDSHAKE_KINDS
from coordinator.server.broker import Broker
from coordinator.server.engine_figures import EngineFigures
from coordinator.server.tallies import EVICTION_PHASES, Tally
from coordinator.transactions.state import WRITTEN
from tests.server.harness import Client, begin_producer, join_alone, serving

PAGE: Final = Path(__file__).with_name("metrics.md")
_INTRODUCTION: Final = """# Metrics

Generated from what the daemon exports by `python -m docs.generate_metrics`; a test fails when it is stale.

`/metrics` answers in Prometheus' text format. A counter counts from the start. On Linux there are the `process_…`
metrics of Prometheus' client library besides, `process_resident_memory_bytes` and `process_open_fds` among them.

Two of these answer most questions: `groupd_rebalances_total` by cause says why groups rebalance, and the
[line of the log](log-lines.md) that sums up a rebalance says which member.

[monitoring.md](monitoring.md) has a board and alerts made of these.

| metric | type | what |
|---|---|---|
"""
_OF_GROUPS: Final = f"""
## Of single groups

`/metrics/groups?match=billing*` has the metrics of the groups with such an id (`match` may come several times;
without it, of every group), at most {MOST_GROUPS:,}: the first in the order of their ids. `/metrics` names no
group, so that its size does not grow with them. Those that begin with `kafka_` have the names and labels of
kafka_exporter. A scraper that names the version of the format in `Accept`, as Prometheus does, gets ids as they
are; other readers get control and bidirectional characters in them as escapes. Counts are since groupd first heard
of a group after its start; it remembers {MOST_HISTORIES:,} groups.

| metric | type | what |
|---|---|---|
"""
_VALUES: Final[Mapping[tuple[str, str], str]] = {
    ("groupd_groups", "state"): ", ".join(state.value for state in ClassicGroupState),
    ("groupd_consumer_groups", "state"): ", ".join(state.value for state in ConsumerGroupState),
    ("groupd_partitions", "state"): ", ".join(state.value for state in PartitionState),
    ("groupd_rebalances", "cause"): ", ".join(cause.value for cause in RebalanceCause),
    ("groupd_group_events", "event"): (
        "the classes of `coordinator/group/events.py` and `coordinator/group/consumer/events.py`"
    ),
    ("groupd_transactional_ids", "state"): ", ".join(state.value for state in WRITTEN.values()),
    ("groupd_transaction_partitions", "state"): ", ".join(state.value for state in PartitionState),
    ("groupd_transaction_events", "event"): "the classes of `coordinator/transactions/events.py`",
    ("groupd_request_seconds", "api"): "Kafka's names, as in [protocol.md](protocol.md)",
    ("groupd_rebalance_seconds", "phase"): ", ".join(PHASES),
    ("groupd_members_evicted", "phase"): ", ".join(EVICTION_PHASES),
    ("groupd_commits_refused", "error"): "Kafka's name",
    ("groupd_fault_hits", "fault"): ", ".join(KINDS),
    ("groupd_group_state", "type"): ", ".join((GroupType.CLASSIC, GroupType.CONSUMER)),
    ("groupd_group_state", "state"): ", ".join(STATE_NAMES),
    ("groupd_group_rebalance_seconds", "phase"): ", ".join(PHASES),
    ("groupd_group_members_evicted", "phase"): ", ".join(EVICTION_PHASES),
    ("groupd_group_commits_refused", "error"): "Kafka's name",
    ("groupd_group_violations", "oracle"): "as above",
    ("groupd_group_notices", "oracle"): "as above",
    ("groupd_failed_handshakes", "reason"): ", ".join(HANDSHAKE_KINDS),
    ("groupd_violations", "oracle"): ", ".join(OracleName),
    ("groupd_notices", "oracle"): "as above",
    ("groupd_cluster_owned_partitions", "broker"): "a node id",
    ("groupd_cluster_moves", "cause"): f"{', '.join(MoveCause)}; on etcd {', '.join(Cause)}",
    ("groupd_cluster_etcd_bytes", "endpoint"): "HOST:PORT, as in `cluster.etcd.endpoints`",
}
"""What a label takes; a label that is new needs an entry."""
_PLAIN: Final = ("consumergroup", "topic", "partition")
"""Labels that say themselves what they take."""


def _history() -> GroupHistory:
    history = GroupHistory()
    history.tallies.update({(Tally.EVICTED, "join"): 1, (Tally.COMMITS_REFUSED, "ILLEGAL_GENERATION"): 1})
    history.violations["double_owner"] = history.notices["flapping"] = 1
    return history


_ONE_GROUP: Final = AllGroupFigures(
    [
        GroupFigures(
            group_id="billing",
            type="classic",
            state="Stable",
            members=1,
            is_frozen=False,
            rebalance_open_s=0,
            session_margin=1,
            history=_history(),
            offsets={("orders", 0): 1},
        )
    ],
    0,
    {("orders", 0): Ends(0, 1)},
    {"orders": 1},
)
"""With every label."""


def page() -> str:
    """The page as it should be. Not from within an event loop."""
    of_all = "".join(map(_row, asyncio.run(_of_all_groups())))
    return _INTRODUCTION + of_all + _OF_GROUPS + "".join(map(_row, _of_one_group()))


def exported() -> list[Metric]:
    """All metrics of both paths, with a sample of each label. Not from within an event loop."""
    return [*asyncio.run(_of_all_groups()), *_of_one_group()]


def _of_one_group() -> list[Metric]:
    return list(GroupsCollector(_ONE_GROUP).collect())


async def _of_all_groups() -> list[Metric]:
    """With a group and a producer that have begun, a failed handshake, and what a cluster has, so that every label
    has been used."""
    with TemporaryDirectory(prefix="groupd-metrics-") as data:
        async with serving(data) as server, Client(server) as client:
            await join_alone(client, "billing")
            await begin_producer(client, "copier")
            server.connections.failed_handshakes[HANDSHAKE_KINDS[0]] += 1
            server.metrics.tallies[Tally.COMMITS_REFUSED, "ILLEGAL_GENERATION"] += 1
            control = Control(server)
            figures = replace(
                await control.figures.gather(),
                owned_partitions={1: 1},
                moves=dict.fromkeys(map(str, (*MoveCause, *Cause)), 1),
                engine=EngineFigures(0, 0, 0, 0, {"etcd1:2379": 0}, 0, is_full=False),
            )
            control.close()
            return [
                *FiguresCollector(Broker(server).figures()).collect(),
                *ControlCollector(figures).collect(),
            ]


def _row(metric: Metric) -> str:
    labels = sorted({label for sample in metric.samples for label in sample.labels} - {"le"})
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    taken = {label: _VALUES[metric.name, label] for label in labels if label not in _PLAIN}
    values = [f"`{label}`: {words}" for label, words in taken.items()]
    shown = f"`{name}{{{','.join(labels)}}}`" if labels else f"`{name}`"
    return f"| {shown} | {metric.type} | {'. '.join([metric.documentation, *values])} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
