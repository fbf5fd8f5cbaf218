"""Writes docs/metrics.md, what `/metrics` exports, from what a groupd with one group exports.

python -m docs.generate_metrics
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from prometheus_client.core import Metric

from coordinator.console.metrics import FiguresCollector
from coordinator.control.oracles.violation import OracleName
from coordinator.engine.partition import PartitionState
from coordinator.group.consumer.state import ConsumerGroupState
from coordinator.group.rebalance_facts import RebalanceCause
from coordinator.group.state import ClassicGroupState
from coordinator.net.handshake_failure import KINDS
from coordinator.server.broker import Broker
from coordinator.transactions.state import WRITTEN
from tests.server.harness import Client, begin_producer, join_alone, serving

PAGE: Final = Path(__file__).with_name("metrics.md")
_INTRODUCTION: Final = """# Metrics

Generated from what the daemon exports by `python -m docs.generate_metrics`; a test fails when it is stale.

`/metrics` answers in Prometheus' text format. A counter counts from the start. On Linux there are the `process_…`
metrics of Prometheus' client library besides, `process_resident_memory_bytes` and `process_open_fds` among them.

Two of these answer most questions: `groupd_rebalances_total` by cause says why groups rebalance, and the
[line of the log](log-lines.md) that sums up a rebalance says which member.

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
    ("groupd_log_bytes", "topic"): "",
    ("groupd_failed_handshakes", "reason"): ", ".join(KINDS),
    ("groupd_violations", "oracle"): ", ".join(OracleName),
}
"""What a label takes; a label that is new needs an entry."""


def page() -> str:
    """The page as it should be. Not from within an event loop."""
    return _INTRODUCTION + "".join(map(_row, asyncio.run(_exported())))


async def _exported() -> list[Metric]:
    """With a group and a producer that have begun, and a failed handshake, so that every label has been used."""
    with TemporaryDirectory(prefix="groupd-metrics-") as data:
        async with serving(data) as server, Client(server) as client:
            await join_alone(client, "billing")
            await begin_producer(client, "copier")
            server.connections.failed_handshakes[KINDS[0]] += 1
            return list(FiguresCollector(Broker(server).figures()).collect())


def _row(metric: Metric) -> str:
    labels = sorted({label for sample in metric.samples for label in sample.labels} - {"le"})
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    values = [f"`{label}`: {_VALUES[metric.name, label]}" for label in labels if _VALUES[metric.name, label]]
    shown = f"`{name}{{{','.join(labels)}}}`" if labels else f"`{name}`"
    return f"| {shown} | {metric.type} | {'. '.join([metric.documentation, *values])} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
