"""The declaration of a metric: its type, name, meaning and labels, and its samples in a snapshot of values.

Tables of declarations are the only place that names metrics. docs/metrics.md is generated from them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

Snapshot = TypeVar("Snapshot")
Sample: TypeAlias = tuple[Sequence[str], *tuple[Any, ...]]
"""The values of the labels, and the arguments of `add_metric`: a value; buckets and a sum; a count and a sum."""


@dataclass(frozen=True, slots=True)
class MetricDeclaration(Generic[Snapshot]):
    """A metric. `labels` has the meaning of the values of each label, "" for an obvious one."""

    family: Callable[..., Any]
    name: str
    meaning: str
    labels: Mapping[str, str]
    list_samples: Callable[[Snapshot], Iterable[Sample]]

    def collect(self, snapshot: Snapshot) -> Metric:
        """Return the metric with its samples in a snapshot."""
        family: Any = self.family(self.name, self.meaning, labels=list(self.labels))
        for labels, *values in self.list_samples(snapshot):
            family.add_metric(labels, *values)
        metric: Metric = family
        return metric


Declaration: TypeAlias = MetricDeclaration[Snapshot]
Samples: TypeAlias = Callable[[Snapshot], Iterable[Sample]]


class _Declare(Protocol):
    """Declares a metric with any number of samples."""

    def __call__(
        self, name: str, meaning: str, labels: Mapping[str, str], samples: Samples[Snapshot]
    ) -> Declaration[Snapshot]: ...


def _declare(family: Callable[..., Any]) -> _Declare:
    return lambda *arguments: MetricDeclaration(family, *arguments)


gauges, counters = _declare(GaugeMetricFamily), _declare(CounterMetricFamily)
histograms, summaries = _declare(HistogramMetricFamily), _declare(SummaryMetricFamily)


def gauge(name: str, meaning: str, value: Callable[[Snapshot], float]) -> Declaration[Snapshot]:
    """Declare a gauge without labels."""
    return gauges(name, meaning, {}, lambda snapshot: [((), value(snapshot))])


def counter(name: str, meaning: str, value: Callable[[Snapshot], float]) -> Declaration[Snapshot]:
    """Declare a counter without labels."""
    return counters(name, meaning, {}, lambda snapshot: [((), value(snapshot))])


class SnapshotCollector(Collector, Generic[Snapshot]):
    """Converts a snapshot into Prometheus metrics. It reads nothing else, so another thread may run it."""

    def __init__(self, declarations: Sequence[Declaration[Snapshot]], snapshot: Snapshot) -> None:
        self._declarations = declarations
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, one at a time, in the order of their declarations."""
        for declaration in self._declarations:
            yield declaration.collect(self._snapshot)
