"""The metrics that an expression of Prometheus uses, and the metrics that groupd exports."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from coordinator.group import group_event_types
from coordinator.group import group_event_types as consumer_events
from docs.generate_metrics import exported
from protocol.apis import APIS

_METRIC: Final = re.compile(r"\b((?:groupd|kafka|process)_\w+|up\b)(?:\{([^}]*)\})?")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_LABELS_OF_PROMETHEUS: Final = {"job", "instance"}
_SERIES_OF_PROMETHEUS: Final = {"up"}
_OF_THE_PROCESS: Final = {"process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"}

_OF_LABEL: Final = {
    "event": frozenset(name for module in (group_event_types, consumer_events) for name in vars(module)),
    "api": frozenset(api.name for api in APIS.values()),
}
"""What a label takes of which no sample is there before it has happened."""
_ANYTHING: Final = {"consumergroup", "topic", "partition", "error"}


@dataclass(frozen=True)
class Known:
    """What the samples of a metric are labelled with; of labels with few values, which."""

    labels: frozenset[str]
    values: Mapping[str, frozenset[str]]


@cache
def known() -> Mapping[str, Known]:
    """Everything that groupd exports, by the names of the samples. Not from within an event loop."""
    found: dict[str, Known] = {}
    for family in exported():
        for name in {sample.name for sample in family.samples}:
            samples = [sample.labels for sample in family.samples if sample.name == name]
            labels = frozenset(label for sample in samples for label in sample)
            values = {
                label: _OF_LABEL.get(label) or frozenset(sample[label] for sample in samples)
                for label in labels - _ANYTHING
            }
            found[name] = Known(labels, values)
    return found


def unknown(expression: str) -> Iterator[str]:
    """Yield a message for each unknown metric or label of an expression."""
    asked = list(_METRIC.finditer(expression))
    if not asked:
        yield f"no metric in {expression}"
    for match in asked:
        name, matchers = match[1], match[2] or ""
        if name in _SERIES_OF_PROMETHEUS | _OF_THE_PROCESS:
            continue
        there = known().get(name)
        if there is None:
            yield f"no metric {name}"
            continue
        for label, operator, text in _MATCHER.findall(matchers):
            yield from _unknown_label(name, there, label, text.split("|") if "~" in operator else [text])


def _unknown_label(name: str, there: Known, label: str, wanted: Iterable[str]) -> Iterator[str]:
    if label in _LABELS_OF_PROMETHEUS:
        return
    if label not in there.labels:
        yield f"{name} has no label {label}"
    for value in wanted:
        if not value.startswith("$") and value not in there.values.get(label, (value,)):
            yield f"{name} has no {label}={value}"
