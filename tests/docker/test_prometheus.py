"""A real Prometheus with the configuration of the compose profile, and a groupd with a group that is behind."""

import contextlib
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer

from tests.cli.test_serve import FREE, Daemon
from tests.docker.test_monitoring import DOCKER, expressions, rules
from tests.free_ports import free_ports
from tests.interop.requirement import lacking
from tests.shared_fixtures import shared

TIMEOUT_S: Final = 60
AT_ONCE: Final = ("-o", "group.initial.rebalance.delay.ms=0")
_HIDES_NOTHING: Final = {"$instance": ".*", "$consumergroup": ".*", "$topic": ".*"}


class Prometheus:
    """A process of Prometheus with its HTTP API."""

    def __init__(self, directory: Path, daemon: Daemon) -> None:
        command = shutil.which("prometheus")
        if command is None:
            lacking("prometheus is not installed")
        for file in ("prometheus.yml", "groupd-rules.yml"):
            text = (DOCKER / "prometheus" / file).read_text()
            text = text.replace("groupd:9080", f"127.0.0.1:{daemon.http_port}").replace('"5s"', '"1s"')
            (directory / file).write_text(text)
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}/api/v1/"
        self.process = subprocess.Popen(
            [
                str(command),
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, what: str, **query: str) -> Any:
        """Its answer; None as long as it has none."""
        url = self._url + what + ("?" + urllib.parse.urlencode(query) if query else "")
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is not ready
                return None
            raise AssertionError(error.read().decode()) from error
        except (urllib.error.URLError, ConnectionError):
            assert self.is_alive(), "it has ended"
            return None

    def until(self, what: str, is_so: Any, **query: str) -> Any:
        """Asks until an answer is as wanted."""
        ends = time.monotonic() + TIMEOUT_S
        while time.monotonic() < ends:
            found = self.ask(what, **query)
            if found is not None and is_so(found):
                return found
            time.sleep(0.1)
        raise AssertionError(f"{what} {query}: {found}")


@shared(Daemon.is_alive, scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """With a member of billing, for which 3 of 5 records are left."""
    data = tmp_path_factory.mktemp("data")
    daemon = Daemon(*FREE, "--data-dir", str(data), "--topic", "orders:1", *AT_ONCE)
    servers = {"bootstrap.servers": f"127.0.0.1:{daemon.port}"}
    producer = Producer(servers)
    for number in range(5):
        producer.produce("orders", str(number))
    producer.flush(TIMEOUT_S)
    consumer = Consumer(servers | {"group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    two = consumer.consume(2, TIMEOUT_S)
    consumer.commit(message=two[-1], asynchronous=False)
    yield daemon
    consumer.close()
    assert daemon.stop()[0] == 0


@shared(Prometheus.is_alive, scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, daemon: Daemon) -> Iterator[Prometheus]:
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), daemon)
    yield prometheus
    prometheus.process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        prometheus.process.wait(TIMEOUT_S)


def test_it_scrapes_both_paths_and_sees_the_lag(prometheus: Prometheus) -> None:
    found = prometheus.until("query", lambda data: data["result"], query="kafka_consumergroup_lag")
    (series,) = found["result"]
    assert series["value"][1] == "3"
    assert series["metric"]["consumergroup"] == "billing"
    assert (series["metric"]["topic"], series["metric"]["partition"]) == ("orders", "0")
    prometheus.until("query", lambda data: len(data["result"]) == 2, query="up == 1")


def test_the_panels_of_the_board_show_a_group_that_is_at_work(prometheus: Prometheus) -> None:
    # A scrape that failed is a sample of 0: on a busy machine groupd may not answer in time.
    prometheus.until("query", lambda data: len(data["result"]) == 2, query="sum_over_time(up[1m]) > 2")
    empty = []
    for expression in expressions():
        text = expression.replace("$__rate_interval", "1m").replace("$__interval", "1m")
        for name, anything in _HIDES_NOTHING.items():
            text = text.replace(name, anything)
        if not prometheus.ask("query", query=text)["result"]:
            empty.append(expression)
    # No commit was refused, no consumer group of KIP-848 was there, nothing rebalanced since the first scrape, and
    # it is one broker.
    without = ("commits_refused", "EpochBumped", "completed_rebalances", "groupd_cluster_")
    assert all(any(part in expression for part in without) for expression in empty), empty


def test_it_has_loaded_the_alerts(prometheus: Prometheus) -> None:
    def are_judged(data: Any) -> bool:
        return all(rule["health"] == "ok" for group in data["groups"] for rule in group["rules"])

    data = prometheus.until("rules", lambda data: data["groups"] and are_judged(data))
    loaded = [rule["name"] for group in data["groups"] for rule in group["rules"]]
    assert loaded == [rule["alert"] for rule in rules()]
