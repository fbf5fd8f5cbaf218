"""Data directories of a real broker through the pipeline: silver, gold and report match the broker's responses."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.build import GOLD, BuildSettings, build
from pipeline.ingest import ingest
from pipeline.log_ends.measure import measurer
from pipeline.report.page import write_report
from pipeline.report.story import story
from pipeline.warehouse import Warehouse
from protocol.consumer_protocol import decode_assignment
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from tests.kafka_log.fixture import NAMES, expected, unpack
from tests.pipeline.page import Page
from tests.pipeline.rows import Row
from tests.pipeline.silver_tables import table

pytestmark = pytest.mark.timeout(600)

Served = dict[str, Any]
REPORTED = "compacted"
"""The report takes as long as all before it, and says no more of the others."""
TRANSACTIONAL = {"clean": {"transactional": 4}, "killed": {"open-transaction": 1}}
"""Offsets of transactions that were committed, by group: others were aborted, or never ended. How many the cleaner
left in the third directory is its own affair."""
MIXED = {"clean": [("transactional", "orders", 3, 300, 50)], "killed": []}
OF_MEMBER = ("client_id", "client_host", "group_instance_id", "generation")


def served_by(name: str) -> Served:
    """Return every group for which the broker reported offsets."""
    return {group: view for group, view in expected(name)["served"].items() if "offsets" in view}


def gold(spark: SparkSession, warehouse: Warehouse, name: str) -> list[Row]:
    rows: list[Row] = warehouse.gold(spark, name).toArrow().to_pylist()
    return rows


def check_offsets(rows: list[Row], served: Served) -> None:
    found: dict[str, dict[str, list[Any]]] = {}
    for row in rows:
        epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
        offset = [row["offset"], epoch, row["metadata"]]
        found.setdefault(row["group"], {})[f"{row['topic']}-{row['partition']}"] = offset
    assert found == {group: view["offsets"] for group, view in served.items() if view["offsets"]}


def check_members(rows: list[Row], generations: list[Row], served: Served) -> None:
    """Silver: the members of the last record of each group."""
    last = {row["group"]: row["log_offset"] for row in generations}
    for group, view in served.items():
        if view["type"] == "classic" and view["members"]:
            found = {
                row["member_id"]: [row[name] for name in OF_MEMBER]
                for row in rows
                if (row["group"], row["log_offset"]) == (group, last[group])
            }
            assert found == {
                member_id: [member[name] for name in OF_MEMBER]
                for member_id, member in view["members"].items()
            }


def check_ownership(rows: list[Row], served: Served) -> None:
    """Check that the final ownership matches the broker's assignments."""
    held: dict[str, set[tuple[str, str, int]]] = {}
    for row in rows:
        if row["to_log_offset"] is None:
            place = (row["group_instance_id"] or row["member_id"], row["topic"], row["partition"])
            held.setdefault(row["group"], set()).add(place)
    for group, view in served.items():
        if view["type"] == "classic":
            assert held.get(group, set()) == {
                (member["group_instance_id"] or member_id, one.topic, partition)
                for member_id, member in view["members"].items()
                for one in decode_assignment(bytes.fromhex(member["assignment"])).assigned_partitions
                for partition in one.partitions
            }, group


def check_rebalances(rows: list[Row], served: Served) -> None:
    last = {row["group"]: row for row in sorted(rows, key=lambda row: row["log_offset"])}
    for group, view in served.items():
        for member in view["members"].values() if view["type"] == "classic" else ():
            row = last[group]
            state = (row["kind"], row["generation"], row["n_members"], row["ended_by"])
            assert state == ("rebalance", member["generation"], len(view["members"]), None)


def check_lag(rows: list[Row], latest: list[Row], root: Path) -> None:
    """Against the ends of the topic logs as the daemon's own log sees them."""
    ends: dict[str, int] = {}
    for path in root.iterdir():
        if path.name.rpartition("-")[0] in {"orders", "payments"}:
            opened = PartitionLog.open(OsFiles(), str(path), LogConfig())
            ends[path.name] = opened.log_end_offset
            opened.close()
    assert len(rows) == len(latest)
    for row in rows:
        end = ends.get(f"{row['topic']}-{row['partition']}")
        assert row["log_end_offset"] == end
        assert row["lag"] == (None if end is None else max(0, end - row["offset"]))


def check_transactions(name: str, tables: dict[str, list[Row]], findings: list[Row]) -> None:
    """Check that the tables count transactional commits, report mixed commits, and show the open transaction."""
    assert any(row["kind"] == "open_transaction" for row in findings) == (name == "killed")
    counted: dict[str, int] = {}
    for row in tables["velocity"]:
        counted[row["group"]] = counted.get(row["group"], 0) + row["transactional_commits"]
    counted = {group: n for group, n in counted.items() if n}
    mixed = [
        (row["group"], row["topic"], row["partition"], row["previous_offset"], row["offset"])
        for row in tables["anomalies"]
        if row["kind"] == "mixed_commits"
    ]
    assert counted == TRANSACTIONAL.get(name, counted)
    assert mixed == MIXED.get(name, mixed)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_brokers_directory_is_told_as_the_broker_told_it(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    data, served = tmp_path / "data", served_by(name)
    data.mkdir()
    unpack(name, str(data))
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    ingest(lambda: spark, str(data), warehouse)
    check_members(table(warehouse, "members"), table(warehouse, "group_generations"), served)
    assert "damage" not in {row["kind"] for row in table(warehouse, "ingest_findings")}

    build(lambda: spark, warehouse, BuildSettings(measure=measurer(str(data), None, None)))
    tables = {table: gold(spark, warehouse, table) for table in GOLD}
    check_offsets(tables["latest_offsets"], served)
    check_ownership(tables["ownership"], served)
    check_rebalances(tables["rebalance_stats"], served)
    check_lag(tables["lag"], tables["latest_offsets"], data)
    commits = [row for row in table(warehouse, "commits") if not row["tombstone"]]
    for counting in ("velocity", "progress", "commit_stats"):
        assert sum(row["commits"] for row in tables[counting]) == len(commits)
    assert tables["build_info"][0]["commits"] == len(commits)
    check_transactions(name, tables, table(warehouse, "ingest_findings"))

    if name == REPORTED:
        check_report(spark, warehouse, served, str(tmp_path / "report.html"))


def check_report(spark: SparkSession, warehouse: Warehouse, served: Served, out: str) -> None:
    gathered = write_report(warehouse, out)
    page = Page(Path(out).read_text(encoding="utf-8"))
    assert page.active == []
    assert len(story(gathered)) == 10
    assert len(gathered.groups) >= len([view for view in served.values() if view["offsets"]])
    for details in gathered.groups:
        assert details.summary["group"] in "".join(page.words)
