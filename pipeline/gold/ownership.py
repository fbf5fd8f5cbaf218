"""The owner of each partition over time."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from pipeline.gold.group_records import ASSIGNED, GroupRecords, Row, identity
from pipeline.gold.grouping import set_columns
from pipeline.table import Table

OWNERSHIP: Final = Table.declare(
    "ownership",
    """
    log_partition int
    group string
    topic string
    partition int
    member string
    member_id string
    group_instance_id string
    client_id string
    client_host string
    from_ts timestamp
    to_ts timestamp
    from_generation int
    to_generation int
    ended_by string
    from_log_offset bigint
    to_log_offset bigint
    """,
)

HOLDINGS: Final = Table("holdings", (*OWNERSHIP.columns, ("topic_id", "string")))
"""Ownership before the names of topics are known: a partition of a consumer group has a `topic_id` and no
`topic`."""

_CLIENT: Final = ("member_id", "group_instance_id", "client_id", "client_host")


def classic_holdings(history: GroupRecords) -> list[Row]:
    """Return one row for each unbroken stretch of group records that give a partition to the same member.

    A holding begins with its first record and ends with the first record without it. A static member is the
    same member under each of its member ids; the row names the first.
    """
    found: list[Row] = []
    held: dict[tuple[str, int, str], Row] = {}
    for record in history.classic:
        members = {row["member_id"]: row for row in history.members[record["log_offset"]]}
        still_held: dict[tuple[str, int, str], Row] = {}
        for row in history.assignments[record["log_offset"]]:
            member = members.get(row["member_id"])
            if member is None:
                continue
            place = row["topic"], row["partition"], identity(member)
            holding = held.get(place) or still_held.get(place)
            if holding is None:
                holding = history.key | _begin(place, member, record)
                found.append(holding)
            holding |= {
                "to_ts": record["next_ts"],
                "to_generation": record["generation"],
                "ended_by": "reassigned" if record["next_kind"] == ASSIGNED else record["next_kind"],
                "to_log_offset": record["next_log_offset"],
            }
            still_held[place] = holding
        held = still_held
    return found


def _begin(place: tuple[str, int, str], member: Row, record: Row) -> Row:
    topic, partition, name = place
    return {
        "topic": topic,
        "partition": partition,
        "member": name,
        **{column: member[column] for column in _CLIENT},
        "from_ts": record["record_ts"],
        "from_generation": record["generation"],
        "from_log_offset": record["log_offset"],
    }


def ownership(holdings: pa.Table, topic_names: Mapping[str, str]) -> pa.Table:
    """Return holdings with names of topics: a topic without a known name has its id instead.

    In: HOLDINGS; names by topic id.
    """
    topics = [
        topic if topic is not None else topic_names.get(topic_id, topic_id)
        for topic, topic_id in zip(
            holdings.column("topic").to_pylist(), holdings.column("topic_id").to_pylist(), strict=True
        )
    ]
    return OWNERSHIP.select(set_columns(holdings, topic=pa.array(topics, pa.string())))
