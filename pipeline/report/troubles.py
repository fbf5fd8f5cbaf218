"""Summarise the problems of groups, a row for each kind and group, with start, amount and clients. The size is
bounded, whatever the size of the tables.
"""

from collections import Counter, defaultdict
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.causes import SECOND_STEP
from pipeline.gold.group_kinds import CONSUMER
from pipeline.gold.group_records import GROUP
from pipeline.gold.grouping import Grouping
from pipeline.report.report_tables import Row, sort_indices

MOST: Final = 100
MOST_CLIENTS: Final = 3
LOST: Final = "lost_messages"
IDLE: Final = "idle_members"
RESTLESS: Final = ("rebalance_storm", "flapping_group")
ABANDONED: Final = "abandoned_group"
_KEYS: Final = ("kind", *GROUP)
_OF_LARGEST: Final = (
    "detail", "topic", "partition", "member", "previous_offset", "log_offset", "previous_log_offset",
)  # fmt: skip
_OF_GROUP: Final = ("lag", "longest_pause_ms", "group_kind")


def troubles(
    anomalies: pa.Table,
    summaries: pa.Table,
    rebalance_causes: pa.Table,
    rebalances: pa.Table,
    lag_troubles: list[Row],
) -> list[Row]:
    """Return at most MOST rows of each kind, the ones with the greatest amounts.

    Columns: `n`: the number of anomalies of the kind; `amount`: their total; `most`: the largest of them, and
    `detail`, `topic`, `partition`, `member` and `previous_offset` belong to it; `ts` and `until_ts`: the times of
    the first and the last; `clients`: the clients that joined and left a restless group most often, or the last
    clients of an abandoned group, as `name` and `n`; `n_clients` and `n_ids`: the numbers of clients and of their
    member ids.

    Args:
        anomalies: gold `anomalies`.
        summaries: the summaries of groups.
        rebalance_causes: gold `rebalance_causes`.
        rebalances: gold `rebalance_stats`, for the member ids.
        lag_troubles: the rows of `find_lag_troubles`.
    """
    few = [
        *_largest_anomalies(anomalies),
        *_largest(_lost(summaries)),
        *_largest(_idle(rebalance_causes)),
        *lag_troubles,
    ]
    names = pa.array({row["group"] for row in few}, pa.string())
    own = {
        row["group"]: row for row in summaries.filter(pc.is_in(summaries.column("group"), names)).to_pylist()
    }
    clients = _count_clients(few, rebalance_causes, rebalances)
    empty: Row = dict.fromkeys((*_OF_LARGEST, "n_partitions", "ts", "until_ts", "most"))
    found = []
    for row in few:
        summary = own[row["group"]]
        of_group = {name: summary[name] for name in _OF_GROUP} | {"n_now": summary["n_members"]}
        found.append(empty | row | of_group | clients[_key(row)])
    return found


def _key(row: Row) -> tuple[str, str]:
    return row["kind"], row["group"]


def _largest(rows: pa.Table) -> list[Row]:
    found: list[Row] = rows.take(sort_indices(rows, [("amount", True), ("group", False)])[:MOST]).to_pylist()
    return found


def _largest_anomalies(anomalies: pa.Table) -> list[Row]:
    grouping = Grouping(anomalies, _KEYS)
    places = anomalies.select([*_KEYS, "topic", "partition"])
    distinct = Grouping(places.drop_null(), (*_KEYS, "topic", "partition")).groups
    numbers = Counter(map(tuple, zip(*(distinct.column(name).to_pylist() for name in _KEYS), strict=True)))
    amounts = pa.table({"amount": anomalies.column("amount").fill_null(0)})
    keyed = anomalies.select(list(_KEYS)).append_column("amount", amounts.column("amount"))
    largest = anomalies.take(Grouping(keyed, _KEYS).last("amount"))
    until = pc.coalesce(anomalies.column("until_ts"), anomalies.column("ts"))
    columns = {name: grouping.groups.column(name) for name in _KEYS}
    columns |= {
        "n": pa.array(grouping.count()),
        "amount": grouping.sum("amount"),
        "most": grouping.max("amount"),
        **{name: largest.column(name) for name in _OF_LARGEST},
        "ts": grouping.min("ts"),
        "until_ts": Grouping(anomalies.select(list(_KEYS)).append_column("until_ts", until), _KEYS).max(
            "until_ts"
        ),
    }
    table = pa.table(columns)
    found: list[Row] = []
    for kind in pc.unique(table.column("kind")).to_pylist():
        found += _largest(table.filter(pc.equal(table.column("kind"), kind)))
    return [row | {"n_partitions": numbers[tuple(row[name] for name in _KEYS)]} for row in found]


def _lost(summaries: pa.Table) -> pa.Table:
    rows = summaries.filter(pc.greater(summaries.column("lost"), 0))
    return pa.table(
        {
            "kind": [LOST] * len(rows),
            "log_partition": pa.nulls(len(rows), pa.int32()),
            "group": rows.column("group"),
            "amount": rows.column("lost"),
            "n": [1] * len(rows),
        }
    )


def _idle(rebalance_causes: pa.Table) -> pa.Table:
    newest = rebalance_causes.take(Grouping(rebalance_causes, GROUP).last("log_offset"))
    is_idle = pc.and_(pc.greater(newest.column("idle"), 0), pc.greater(newest.column("n_partitions"), 0))
    rows = newest.filter(is_idle)
    columns = {name: rows.column(name) for name in GROUP}
    columns |= {"amount": rows.column("idle"), "most": rows.column("n_members")}
    columns |= {"n_partitions": rows.column("n_partitions"), "ts": rows.column("record_ts")}
    return pa.table({"kind": pa.array([IDLE] * len(rows), pa.string()), "n": [1] * len(rows), **columns})


def _count_clients(
    found: list[Row], rebalance_causes: pa.Table, rebalances: pa.Table
) -> dict[tuple[str, str], Row]:
    """Return the clients of restless and abandoned groups in the periods of their anomalies, for each row."""
    none: Row = {"clients": None, "n_clients": None, "n_ids": None}
    counted = {_key(row): none for row in found}
    wanted = [row for row in found if row["kind"] in (ABANDONED, *RESTLESS)]
    groups = pa.array({row["group"] for row in wanted}, pa.string())
    moves = _by_group(rebalance_causes, groups, ("cause", "came", "went", "came_back"))
    members = _by_group(rebalances, groups, ("joined_members", "left_members"))
    for row in wanted:

        def within(other: Row, row: Row = row) -> bool:
            return bool(
                other["log_partition"] == row["log_partition"]
                and row["ts"] <= other["record_ts"] <= row["until_ts"]
            )

        clients: Counter[str] = Counter()
        for move in filter(within, moves[row["group"]]):
            if move["cause"] != SECOND_STEP:
                clients.update([*move["came"], *move["went"], *move["came_back"]])
        if not clients:
            continue
        ids: set[str] = set()
        for rebalance in filter(within, members[row["group"]]):
            ids.update(rebalance["joined_members"] or (), rebalance["left_members"] or ())
        busiest = sorted(clients.items(), key=lambda each: (-each[1], each[0]))[:MOST_CLIENTS]
        counted[_key(row)] = {
            "clients": [{"name": name, "n": n} for name, n in busiest],
            "n_clients": len(clients),
            "n_ids": len(ids) or None,
        }
    return counted


def _by_group(rows: pa.Table, groups: pa.Array, columns: tuple[str, ...]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    chosen = rows.filter(pc.is_in(rows.column("group"), groups)).select([*GROUP, "record_ts", *columns])
    for row in chosen.to_pylist():
        found[row["group"]].append(row)
    return found


def assignors(rebalance_causes: pa.Table) -> list[Row]:
    """Return the moves by assignor, the one with the most needless moves first."""
    is_known = pc.and_(
        rebalance_causes.column("moved").is_valid(), pc.greater(rebalance_causes.column("n_members"), 0)
    )
    rows = rebalance_causes.filter(is_known)
    is_consumer = pc.equal(rows.column("group_kind"), CONSUMER)
    name = pc.if_else(is_consumer, "of the coordinator", rows.column("protocol")).fill_null("?")
    grouping = Grouping(rows.append_column("assignor", name), ["assignor"])
    sums = {column: grouping.sum(column) for column in ("n_partitions", "moved", "needless")}
    counts = {"assignor": grouping.groups.column("assignor"), "n": pa.array(grouping.count())}
    found = pa.table(counts | sums)
    order = [("needless", True), ("moved", True), ("assignor", False)]
    ordered: list[Row] = found.take(sort_indices(found, order)).to_pylist()
    return ordered
