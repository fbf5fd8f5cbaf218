"""The way back: a real broker starts on its directory after groupd has used it, serves the same groups and offsets,
and leaves the directory to groupd once more.
"""

import itertools
import time
from pathlib import Path

import pytest

from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.partitioner import partition_for
from tests.cli.log_directory import log
from tests.interop.daemon import Daemon
from tests.kafka_log.broker import KafkaBroker, running
from tests.kafka_log.connection import Connection
from tests.kafka_log.consumer_history import (
    AT_ONCE_OPTIONS,
    commit_where_it_reads,
    make_consumer_groups,
)
from tests.kafka_log.consumer_members import go_on
from tests.kafka_log.fixture import NAMES, expected, unpack
from tests.kafka_log.history import commit, delete_group, fill
from tests.kafka_log.view import CONSUMER, OFFSETS_KEPT_BY, View, topics, view

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

LOAD_TIMEOUT_S = 180


def ask_when_loaded(broker: KafkaBroker, groups: set[str]) -> View:
    """Wait until the broker has loaded all partitions, and return the view of its groups.

    A broker that stops during the load of a partition logs an error, whether or not the partition has groups.
    """
    deadline = time.monotonic() + LOAD_TIMEOUT_S
    with Connection(broker.bootstrap) as connection:
        probes = group_of_each_partition(connection)
        while loading := groups_in_load(connection, probes):
            assert time.monotonic() < deadline, f"partitions of these groups are still in load: {loading}"
            time.sleep(0.2)
        served = view(connection)
    assert groups <= served.keys()
    return served


def group_of_each_partition(connection: Connection) -> list[str]:
    """Return one group id for each partition of __consumer_offsets."""
    count = topics(connection)["__consumer_offsets"]["partitions"]
    found: dict[int, str] = {}
    for number in itertools.count():
        found.setdefault(partition_for(f"probe-{number}", count), f"probe-{number}")
        if len(found) == count:
            return list(found.values())
    raise AssertionError


def groups_in_load(connection: Connection, groups: list[str]) -> list[str]:
    """Return the groups with a partition in load, which the broker does not serve yet."""
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in groups]
    )
    response = connection.call(request, 9)
    return [group.group_id for group in response.groups if group.error_code]


def complaints(log: str) -> list[str]:
    """Return the errors of a broker about its data, without the errors of its parts while these connect."""
    return [
        line
        for line in log.splitlines()
        if ("orrupt" in line or "ERROR" in line) and "kafka.server.ControllerApis" not in line
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_broker_serves_what_groupd_served_and_the_other_way_round(name: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    unpack(name, str(data))
    daemon = Daemon(str(data), *AT_ONCE_OPTIONS)
    try:
        with Connection(daemon.bootstrap) as connection:
            fill(connection)
            make_consumer_groups(connection, "by-hand-of-groupd")
            groupd_view = view(connection)
    finally:
        daemon.kill() if name == "killed" else daemon.stop()
    if name == "killed":
        refused_until_recovered(tmp_path)
    with running(tmp_path) as broker:
        kafka_view = ask_when_loaded(broker, set(groupd_view))
        with pytest.raises(AssertionError, match=r"in use by process \d+ \(java\)"):
            Daemon(str(data))
        with Connection(broker.bootstrap) as connection:
            commit(connection, "by-hand-simple", {0: 77, 1: 78})
            delete_group(connection, "by-hand-emptied")
            members_go_on(connection, groupd_view, 500)
            changed = view(connection)
        broker.stop()
    assert_same(kafka_view, groupd_view, expected(name)["served"])
    # The broker logs problems with the files.
    log_text = (tmp_path / "broker.log").read_text()
    assert log_text
    assert not complaints(log_text)
    daemon = Daemon(str(data))
    try:
        with Connection(daemon.bootstrap) as connection:
            again = view(connection)
            members_go_on(connection, groupd_view, 600)
    finally:
        daemon.stop()
    assert changed["by-hand-simple"] != kafka_view["by-hand-simple"]
    assert again == {group: changed[group] for group in groupd_view.keys() - {"by-hand-emptied"}}


def members_go_on(connection: Connection, groups: View, offset: int) -> None:
    """Members of consumer groups, in any condition, which commit that offset."""
    for group, seen in groups.items():
        if seen["type"] == CONSUMER:
            commit_where_it_reads(connection, go_on(connection, group), group, offset)


def refused_until_recovered(directory: Path) -> None:
    """A broker does not serve logs that may lack records of the journal."""
    with pytest.raises((AssertionError, OSError)), running(directory):
        pass
    log_text = directory / "broker.log"
    assert "journal" in log_text.read_text()
    log_text.rename(directory / "refused.log")
    assert log("recover", directory / "data").exit_code == 0
    assert not (directory / "data" / "journal").exists()


def assert_same(kafkas: View, ours: View, before: View) -> None:
    """The broker serves the groups of groupd, and its other kinds of groups as before."""
    assert {group: kafkas[group] for group in ours} == ours
    for group, seen in before.items():
        assert kafkas[group]["type"] == seen["type"]
    assert len(ours) >= len([seen for seen in before.values() if seen["type"] in OFFSETS_KEPT_BY]) + 10
