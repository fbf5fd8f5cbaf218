"""Rebalances as a trace collector sees them."""

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from coordinator.control.ledger.trace_endpoint import create_exporter
from tests.cli.test_serve import FREE, Daemon
from tests.control.ledger.trace_collector import TIMEOUT_S, collecting
from tests.free_ports import free_ports

AT_ONCE = ("-o", "group.initial.rebalance.delay.ms=0", "--topic", "orders:1")


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes}


def a_life_in_a_group(daemon: Daemon) -> None:
    """Joins, has its partition, and leaves."""
    servers = {"bootstrap.servers": f"127.0.0.1:{daemon.port}", "client.id": "alice", "group.id": "billing"}
    consumer = Consumer(servers)
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()


def ledger(daemon: Daemon) -> list[dict[str, Any]]:
    url = f"http://127.0.0.1:{daemon.http_port}/v1/groups/billing/ledger"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        entries: list[dict[str, Any]] = json.load(answer)["entries"]
        return entries


def test_each_generation_is_a_trace_with_its_waits(tmp_path: Path) -> None:
    with collecting() as collector:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
            "OTEL_BSP_SCHEDULE_DELAY": "60000",
        }
        daemon = Daemon(*FREE, *AT_ONCE, "--data-dir", str(tmp_path), **variables)
        a_life_in_a_group(daemon)
        entries = ledger(daemon)
        assert daemon.stop()[0] == 0  # the remaining spans are sent at the end
        spans = collector.until(len(entries))
    assert collector.services == {"groupd"}
    roots = [span for span in spans if not span.parent_span_id]
    assert len({root.trace_id for root in roots}) == len(roots) == len(entries)
    for root, entry in zip(roots, entries, strict=True):
        assert root.name == f"rebalance billing {entry['generation_id']}"
        root_attributes = attributes(root)
        assert root_attributes["messaging.consumer.group.name"] == "billing"
        assert (root_attributes["groupd.cause"], root_attributes["groupd.result"]) == (
            entry["cause"],
            entry["result"],
        )
        assert root.start_time_unix_nano == entry["started_ms"] * 1_000_000
        assert root.end_time_unix_nano - root.start_time_unix_nano == entry["total_ms"] * 1_000_000
    first = [span for span in spans if span.parent_span_id == roots[0].span_id]
    (assigned,) = [span for span in first if span.name == "assign (leader)"]
    assert attributes(assigned)["messaging.client.id"] == "alice"
    assert attributes(assigned)["groupd.gained_count"] == 1
    for span in first:
        assert span.trace_id == roots[0].trace_id
        assert roots[0].start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano


def test_a_missing_collector_delays_nothing(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    endpoint = f"http://127.0.0.1:{port}"
    daemon = Daemon(*FREE, *AT_ONCE, "--data-dir", str(tmp_path), OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
    a_life_in_a_group(daemon)
    assert [entry["result"] for entry in ledger(daemon)] == ["stable", "empty"]
    code, _, said = daemon.stop()
    assert code == 0
    assert "Traceback" not in said


@pytest.mark.parametrize("without", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}, {}])
def test_without_traces_the_exporter_is_not_imported(
    without: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if without:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    for name, text in without.items():
        monkeypatch.setenv(name, text)
    assert create_exporter() is None


def test_without_the_extra_the_error_names_the_packages(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    assert create_exporter() is None
    (line,) = caplog.messages
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in line
    assert "groupd[otel]" in line
