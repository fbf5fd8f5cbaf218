"""The silver tables as any Parquet reader sees them, and their expected rows."""

from typing import Any, Final

import pyarrow.parquet as pq

from pipeline.silver.schemas import SILVER
from pipeline.warehouse import Warehouse

Rows = list[dict[str, Any]]
Tables = dict[str, Rows]

RECORDS: Final = (
    "commits", "group_generations", "members", "assignments", "group_epochs", "consumer_members",
    "member_epochs", "member_partitions", "group_expressions", "unknown_records",
)  # fmt: skip
"""The tables that say the same however the log was split into runs."""


def table(warehouse: Warehouse, name: str, *, without_batch: bool = True) -> Rows:
    """All rows of a table, in the order of the log."""
    rows: Rows = pq.read_table(warehouse.path(name)).to_pylist()
    for row in rows:
        assert row.keys() == dict(SILVER[name].columns).keys()
        if without_batch:
            del row["ingest_batch"]
    return in_order(rows)


def in_order(rows: Rows) -> Rows:
    """Sort rows by log partition, offset and the other columns."""
    return sorted(rows, key=lambda row: (row.get("log_partition"), row.get("log_offset"), repr(row)))


def tables(warehouse: Warehouse) -> Tables:
    """Those that say the same however the log was split into runs."""
    return {name: table(warehouse, name) for name in RECORDS}


def expected_tables(source_rows: Rows) -> Tables:
    """What the silver tables should hold, from rows of the plain decoder."""
    made: Tables = {name: [] for name in RECORDS}
    for row in source_rows:
        if row["kind"] == "commit":
            made["commits"].append(_pick("commits", row))
        elif row["kind"] == "unknown":
            made["unknown_records"].append(_pick("unknown_records", row))
        elif row["kind"] == "consumer_group":
            _add_consumer_group(made, row, row | row["consumer"])
        else:
            n_members = None if row["members"] is None else len(row["members"])
            made["group_generations"].append(_pick("group_generations", row | {"n_members": n_members}))
            for member in row["members"] or ():
                _add_member(made, row, member)
    return {name: in_order(rows) for name, rows in made.items()}


def _add_member(made: Tables, row: dict[str, Any], member: dict[str, Any]) -> None:
    assigned = member["assigned"]
    is_leader = row["leader"] is not None and row["leader"] == member["member_id"]
    more = {"is_leader": is_leader, "n_partitions": None if assigned is None else len(assigned)}
    made["members"].append(_pick("members", row | member | more))
    for one in assigned or ():
        made["assignments"].append(_pick("assignments", row | {"member_id": member["member_id"]} | one))


def _add_consumer_group(made: Tables, row: dict[str, Any], said: dict[str, Any]) -> None:
    match row["key_type"]:
        case 3 | 4 | 6 as number:
            record = {3: "group", 4: "topics", 6: "target"}[number]
            made["group_epochs"].append(
                _pick("group_epochs", said | {"record": record, "computed_ts": said["done_ts"]})
            )
        case 5:
            subscribed = {"subscribed_topics": said["topics"], "subscribed_expression": said["expression"]}
            made["consumer_members"].append(_pick("consumer_members", said | subscribed))
        case 7 | 8 as number:
            held = said["partitions"]
            n_pending = None
            if held is not None and number == 8:
                n_pending = sum(one["holding"] == "pending_revocation" for one in held)
            more = {
                "record": "target" if number == 7 else "current",
                "n_partitions": None if held is None else len(held) - (n_pending or 0),
                "n_pending_revocation": n_pending,
            }
            made["member_epochs"].append(_pick("member_epochs", said | more))
            made["member_partitions"] += [_pick("member_partitions", said | one) for one in held or ()]
        case 16:
            made["group_expressions"].append(
                _pick("group_expressions", said | {"resolved_ts": said["done_ts"]})
            )
        case number:
            raise AssertionError(number)


def _pick(name: str, row: dict[str, Any]) -> dict[str, Any]:
    return {column: row[column] for column, _ in SILVER[name].columns if column != "ingest_batch"}
