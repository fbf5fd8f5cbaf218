"""All gold tables that can be derived for each group alone."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.anomalies.abandoned_group import MeasuredEnds, abandoned_group
from pipeline.gold.anomalies.anomaly import anomaly_rows
from pipeline.gold.anomalies.anomaly_schema import ANOMALIES
from pipeline.gold.anomalies.expiring_offsets import expiring_offsets, group_standing
from pipeline.gold.anomalies.flapping_group import flapping_group
from pipeline.gold.anomalies.mixed_commits import mixed_commits
from pipeline.gold.anomalies.offset_rewind import offset_rewind
from pipeline.gold.anomalies.outside_ownership import outside_ownership
from pipeline.gold.anomalies.rebalance_storm import rebalance_storm
from pipeline.gold.anomalies.regular_leaving import regular_leaving
from pipeline.gold.anomalies.slow_revocation import slow_revocation
from pipeline.gold.anomalies.stuck_partition import REACHES, STANDSTILLS, standstills
from pipeline.gold.build_info import RECORD_TOTALS, TOTALS, record_totals
from pipeline.gold.commit_stats import COMMIT_STATS, commit_stats
from pipeline.gold.consumer_history import (
    consumer_events,
    consumer_holdings,
    consumer_rebalances,
    consumer_standing,
    revocations,
    topic_names,
)
from pipeline.gold.group_kinds import GROUP_KINDS, group_kinds
from pipeline.gold.group_records import GROUP, GroupRecords, Row, by_log_offset, group_histories
from pipeline.gold.lag import LAG, lag
from pipeline.gold.latest_offsets import LATEST_OFFSETS, latest_offsets
from pipeline.gold.ownership import HOLDINGS, classic_holdings
from pipeline.gold.progress import PROGRESS, progress
from pipeline.gold.rebalance_causes import REBALANCE_CAUSES, rebalance_causes
from pipeline.gold.rebalance_stats import REBALANCE_STATS, rebalance_stats
from pipeline.gold.velocity import VELOCITY, velocity
from pipeline.table import Table, rows_of

TOPIC_NAMES: Final = Table.declare(
    "topic_names",
    """
    topic_id string
    topic string
    """,
)
"""The topic names in the records of a group."""

GROUP_TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        LATEST_OFFSETS,
        LAG,
        VELOCITY,
        PROGRESS,
        GROUP_KINDS,
        HOLDINGS,
        REBALANCE_STATS,
        REBALANCE_CAUSES,
        COMMIT_STATS,
        ANOMALIES,
        TOPIC_NAMES,
        STANDSTILLS,
        REACHES.table,
        TOTALS.table,
        RECORD_TOTALS,
    )
}
"""The tables of `group_tables`. All but the gold tables are parts of tables that span groups."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The reference time of a build, the step of plots, and the retention of offsets."""

    as_of_us: int
    step_s: int
    retention_minutes: int


def group_tables(
    folds: Mapping[str, pa.Table], records: Mapping[str, list[Row]], log_end_offsets: pa.Table, moment: Moment
) -> dict[str, pa.Table]:
    """Return GROUP_TABLES of some groups.

    In: the folds of their commits, in the step of the moment; the rows of the silver tables of groups; gold
    `log_end_offsets` of all partitions.
    """
    latest = latest_offsets(folds["last_commits"])
    behind = lag(latest, log_end_offsets)
    told = _of_records(folds, records, latest, behind, log_end_offsets, moment)
    names = latest.select(["topic_id", "topic"]).filter(pc.is_valid(latest.column("topic_id")))
    found = {name: GROUP_TABLES[name].from_rows(rows) for name, rows in told.rows.items()}
    anomalies = [anomaly_rows(kind, rows) for kind, rows in told.anomalies.items()]
    return found | {
        LATEST_OFFSETS.name: latest,
        LAG.name: behind,
        VELOCITY.name: velocity(folds["minutes"]),
        PROGRESS.name: progress(folds["consumed"], folds["positions"], log_end_offsets, moment.step_s),
        COMMIT_STATS.name: commit_stats(folds["clients"]),
        ANOMALIES.name: pa.concat_tables(
            [offset_rewind(folds["rewinds"]), mixed_commits(folds["mixtures"]), *anomalies]
        ),
        TOPIC_NAMES.name: pa.concat_tables([TOPIC_NAMES.select(names), TOPIC_NAMES.from_rows(told.names())]),
        STANDSTILLS.name: standstills(folds["habits"], behind, moment.as_of_us),
        REACHES.name: REACHES.of(behind),
        TOTALS.name: folds["totals"],
        RECORD_TOTALS.name: record_totals(records.get("group_generations", [])),
    }


@dataclass(slots=True)
class _Told:
    """The tables derived from group records."""

    rows: dict[str, list[Row]] = field(
        default_factory=lambda: {
            table.name: [] for table in (GROUP_KINDS, HOLDINGS, REBALANCE_STATS, REBALANCE_CAUSES)
        }
    )
    anomalies: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    topics: set[tuple[str, str]] = field(default_factory=set)

    def names(self) -> Iterable[Row]:
        """Return the rows of TOPIC_NAMES."""
        return ({"topic_id": topic_id, "topic": topic} for topic_id, topic in self.topics)


def _of_records(
    folds: Mapping[str, pa.Table],
    records: Mapping[str, list[Row]],
    latest: pa.Table,
    behind: pa.Table,
    log_end_offsets: pa.Table,
    moment: Moment,
) -> _Told:
    told = _Told()
    latest_rows, lag_rows = _by_group(latest), _by_group(behind)
    commits_after, unowned = _by_group(folds["commits_after"]), _by_group(folds["unowned"])
    ends = MeasuredEnds(rows_of(log_end_offsets))
    histories = group_histories(records)
    recorded = {(history.log_partition, history.group) for history in histories}
    histories += [GroupRecords(*key) for key in latest_rows.keys() - recorded]
    for history in histories:
        key = history.log_partition, history.group
        events = consumer_events(history)
        rebalances = rebalance_stats(history, commits_after[key]) + consumer_rebalances(history, events)
        rebalances.sort(key=by_log_offset)
        causes = rebalance_causes(history)
        told.rows[REBALANCE_STATS.name] += rebalances
        told.rows[REBALANCE_CAUSES.name] += causes
        told.rows[GROUP_KINDS.name] += group_kinds(history)
        told.rows[HOLDINGS.name] += classic_holdings(history) + consumer_holdings(history, events)
        told.topics |= topic_names(history, events)
        standing = group_standing(history, consumer_standing(events))
        as_of_us = moment.as_of_us
        for kind, rows in {
            "outside_ownership": outside_ownership(unowned[key], history),
            "slow_revocation": slow_revocation(revocations(history, events), as_of_us),
            "rebalance_storm": rebalance_storm(rebalances),
            "flapping_group": flapping_group(rebalances),
            "regular_leaving": regular_leaving(causes),
            "abandoned_group": abandoned_group(rebalances, lag_rows[key], ends, as_of_us),
            "expiring_offsets": expiring_offsets(
                latest_rows[key], standing, moment.retention_minutes, as_of_us
            ),
        }.items():
            told.anomalies[kind] += rows
    return told


def _by_group(table: pa.Table) -> Mapping[tuple[int, str], list[Row]]:
    found: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows_of(table):
        found[row[GROUP[0]], row[GROUP[1]]].append(row)
    return found
