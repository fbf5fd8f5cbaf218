"""Consumer groups (KIP-848) from a log of the product's own core to the report."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.build import build
from pipeline.ingest import ingest
from pipeline.report.page import write_report
from pipeline.report.story import story
from pipeline.warehouse import Warehouse
from protocol.error_codes import ErrorCode
from tests.group.consumer.classic import stable_member
from tests.group.consumer.members import FOO
from tests.pipeline.consumer_log import ConsumerLog
from tests.pipeline.log_directory import LogDirectory
from tests.pipeline.random_logs import Log
from tests.pipeline.rows import rows

pytestmark = pytest.mark.timeout(600)


def reached(group: ConsumerLog, epoch: int) -> int:
    """The epoch of the member `new` after one more heartbeat."""
    epoch_now, _ = group.say("new", epoch)
    assert isinstance(epoch_now, int)
    return epoch_now


def migrated() -> ConsumerLog:
    """A classic group that a member of the consumer protocol joins. The classic member leaves; another one comes,
    and the first takes its time to give back."""
    group = ConsumerLog()
    old, generation = stable_member(group)
    group.advance(1000)
    group.enter("new")
    group.advance(2000)
    assert group.leave_alone(old) is ErrorCode.NONE
    group.advance(2000)
    epoch = reached(group, generation + 1)
    group.enter("other")
    group.advance(2000)
    group.say("other", epoch + 1)
    epoch = reached(group, epoch)
    group.advance(40_000)
    group.say("new", epoch, owned={FOO: [0, 1]})
    group.say("other", epoch)
    return group


def test_a_group_that_migrates_is_told_with_its_epochs(spark: SparkSession, tmp_path: Path) -> None:
    group, log = migrated(), Log()
    written = group.written
    for first in range(0, len(written), 3):
        log.append(written[first : first + 3])
    made = LogDirectory(tmp_path / "data")
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    made.write_log(7, log, 2)
    ingest(lambda: spark, made.path, warehouse)
    made.write_log(7, log)
    ingest(lambda: spark, made.path, warehouse)
    build(lambda: spark, warehouse)
    kinds = warehouse.gold(spark, "group_kinds")
    assert rows(kinds, "from_log_offset", "kind", "migrated_from", "ended_by") == [
        (0, "classic", None, "migrated"),
        (rows(kinds, "from_log_offset")[1], "consumer", "classic", None),
    ]
    stats = warehouse.gold(spark, "rebalance_stats")
    told = rows(stats, "log_offset", "group_kind", "generation", "n_members")
    assert {row[1] for row in told} == {"classic", "consumer"}
    _, epoch, _ = group.epochs()
    assert told[-1][1:] == ("consumer", epoch, 2)
    owned = warehouse.gold(spark, "ownership").where("to_ts is null")
    now = {
        (member.member_id, "foo", partition)
        for member in group.described().members
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    }
    assert set(rows(owned, "member", "topic", "partition")) == now
    slow = warehouse.gold(spark, "anomalies").where("kind = 'slow_revocation'")
    assert rows(slow, "member", "amount") == [("new", 40)]
    report = tmp_path / "report.html"
    gathered = write_report(warehouse, str(report))
    text = " ".join(line.text for line in story(gathered))
    assert "1 used the consumer protocol (KIP-848), after 1 migration" in text
    page = report.read_text()
    for words in (
        "Epochs and ownership",
        "consumer, 1 migration",
        "migrated from classic",
        "revoked after 40 s",
    ):
        assert words in page
