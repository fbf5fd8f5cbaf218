"""docs/troubleshooting.md quotes only existing log lines, metrics and properties."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES
from coordinator.core.wire_name import classes_by_wire_name
from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.consumer.durable_consumer_group import ConsumerGroupState
from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_event_types import GroupIdEvent
from coordinator.http.metric_collectors import ServerMetricsCollector
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.topics.data_plane_answer import MissingReason
from coordinator.transactions.transaction_event_types import TransactionEvent
from coordinator.transactions.transaction_state_machine import WRITTEN
from protocol.apis import APIS
from tests.broker.harness import Client, begin_producer, join_alone, read_metrics, serving
from tests.docs.daemon_lines import nearest, writers
from tests.docs.test_docs import ROOT, anchor_of, name_of

PAGE = ROOT / "docs" / "troubleshooting.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", TEXT, re.MULTILINE))
FENCE = re.compile(r"^```(.*)$")
METRIC = re.compile(r"\b(groupd_\w+)(?:\{(\w+)=\"([^\"]*)\"\})?")
PROPERTY = re.compile(r"`(?:-o )?([a-z]+(?:\.[a-z]+)+)(?:=[\w-]+)?`")
LINK = re.compile(r"\]\(([\w.-]*)#([\w-]+)\)")

CLIENT_PROPERTIES = {
    "allow.auto.create.topics", "auto.offset.reset", "bootstrap.servers", "client.id", "group.id",
    "group.instance.id", "heartbeat.interval.ms", "max.poll.interval.ms", "max.poll.records", "metadata.max.age.ms",
    "partition.assignment.strategy", "session.timeout.ms", "topic.metadata.refresh.interval.ms",
    "isolation.level", "transaction.timeout.ms", "transactional.id",
}  # fmt: skip
"""Java's names, which librdkafka shares, and the last one, which only librdkafka has."""
LABELS: Mapping[str, set[str]] = {
    "cause": {cause.value for cause in RebalanceCause},
    "event": {*classes_by_wire_name(GroupIdEvent), *classes_by_wire_name(TransactionEvent)},
    "api": {api.name for api in APIS.values()},
}
STATES = {
    "groupd_transactional_ids": {state.value for state in WRITTEN.values()},
    "groupd_transaction_partitions": {state.value for state in PartitionState},
    "groupd_groups": {state.value for state in ClassicGroupState},
    "groupd_consumer_groups": {state.value for state in ConsumerGroupState},
    "groupd_partitions": {state.value for state in PartitionState},
}


def quoted_lines(page: Path) -> Iterator[tuple[str, str]]:
    """The lines of the page's log fences, with where they are."""
    language = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if fence:
            language = None if language is not None else fence[1]
        elif language == "log":
            yield f"{name_of(page)}:{number}", line


def test_every_quoted_line_is_one_that_the_daemon_writes() -> None:
    quoted = list(quoted_lines(PAGE))
    assert len(quoted) > 20
    wrong = [f"{place}: {line}\n  nearest: {nearest(line)}" for place, line in quoted if not writers(line)]
    assert not wrong, "nothing writes these lines:\n" + "\n".join(wrong)


def test_a_quoted_line_with_another_level_logger_or_word_is_seen() -> None:
    for place, line in quoted_lines(PAGE):
        level, _, rest = line.partition(" ")
        logger, _, text = rest.partition(" ")
        assert writers(f"{'DEBUG' if level != 'DEBUG' else 'INFO'} {rest}") == [], place
        assert writers(f"{level} [Other] {text}") == [], place
        assert writers(f"{level} {logger} Indeed {text}") == [], place


def test_an_invented_line_is_seen() -> None:
    group = "INFO [GroupCoordinator] [__consumer_offsets-9] "
    sound = "Group billing (Stable) refused Heartbeat from bob-9b2571a0 at 127.0.0.1: UNKNOWN_MEMBER_ID"
    assert writers(f"{group}{sound}: no member has this id.")
    assert not writers(f"{group}{sound}: nobody has this id.")
    assert not writers(f"{group}Group billing is on holiday.")
    assert not writers(f"[2026-11-22 01:15:18,920] {group}{sound}: no member has this id.")
    assert writers("INFO [TopicManager] Deleted topic orders")
    assert not writers("INFO [TopicManager] Deleted the topic orders")
    assert "no member has this id" in nearest(f"{group}{sound}: nobody has this id.")


def test_why_a_topic_is_missing_is_told_in_the_words_of_the_log() -> None:
    asked = [line for _, line in quoted_lines(PAGE) if " requested topic" in line]
    assert asked
    reasons = tuple(f"): {why.value}" for why in MissingReason)
    assert [line for line in asked if not line.endswith(reasons)] == []


async def test_every_metric_is_exported_with_these_labels(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as client:
        await join_alone(client, "billing")
        await begin_producer(client, "copier")
        samples = [
            sample
            for family in ServerMetricsCollector(read_metrics(server)).collect()
            for sample in family.samples
        ]
    exported: dict[str, set[str]] = {}
    for sample in samples:
        exported.setdefault(sample.name, set()).update(sample.labels)
    named = METRIC.findall(TEXT)
    assert len(named) > 15
    assert unknown_metrics(named, exported) == []
    invented = [("groupd_rebalances", "", ""), ("groupd_rebalances_total", "reason", "member left")]
    invented += [("groupd_rebalances_total", "cause", "boredom"), ("groupd_groups", "state", "loading")]
    assert unknown_metrics(invented, exported) == invented


def unknown_metrics(
    named: list[tuple[str, str, str]], exported: Mapping[str, set[str]]
) -> list[tuple[str, str, str]]:
    """Return the metrics (name, label, value; "" for none) that are not exported with that label and value."""

    def is_known(name: str, label: str, value: str) -> bool:
        if name not in exported or (label and label not in exported[name]):
            return False
        values = STATES.get(name) if label == "state" else LABELS.get(label)
        return values is None or value in values

    return [entry for entry in named if not is_known(*entry)]


def test_every_property_exists() -> None:
    named = set(PROPERTY.findall(TEXT))
    assert len(named) > 15
    assert named - CLIENT_PROPERTIES - PROPERTIES.keys() - TOPIC_PROPERTIES.keys() == set()
    assert named >= CLIENT_PROPERTIES


def test_every_symptom_leads_to_a_section_and_every_section_has_a_symptom() -> None:
    linked = [anchor for page, anchor in LINK.findall(TEXT.partition("\n## ")[0]) if not page]
    assert linked == [anchor_of(heading) for heading in SECTIONS]


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_section_says_where_it_shows_and_what_to_do(heading: str) -> None:
    parts = ["**In the log:**", "**In the metrics:**"]
    places = [SECTIONS[heading].find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)
    assert "what to do" in SECTIONS[heading].lower()
