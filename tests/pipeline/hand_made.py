"""Silver tables written by hand, a line of history at a time."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeline.silver.schemas import INGEST_BATCHES, SILVER
from pipeline.warehouse import BATCH_FILE, Warehouse, parquet_file

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
Partitions = Sequence[tuple[str, int]]


def at(seconds: float) -> datetime:
    """Return the time so many seconds after the start of all invented histories."""
    return START + timedelta(seconds=seconds)


class HandMade:
    """A log of one partition; every call appends a record, and `seconds` is its time. Member `a@i` has the
    member id `a` and the instance id `i`; the client id is the member id without digits."""

    def __init__(self, log_partition: int = 7) -> None:
        self._log_partition = log_partition
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SILVER}
        self.next_offset = 0

    def _append(self, table: str, seconds: float, group: str, **values: Any) -> int:
        row = {
            "log_partition": self._log_partition,
            "log_offset": self.next_offset,
            "record_ts": at(seconds),
            "group": group,
            "ingest_batch": 0,
        }
        self._rows[table].append(row | values)
        return self.next_offset

    def commit(
        self, group: str, topic: str, partition: int, offset: int | None, seconds: float, **more: Any
    ) -> int:
        """Write a commit, or a tombstone for offset None; return its log offset."""
        values = {
            "topic": topic, "partition": partition, "offset": offset, "tombstone": offset is None,
            "metadata": None if offset is None else "", "commit_ts": None if offset is None else at(seconds),
        } | more  # fmt: skip
        log_offset = self._append("commits", seconds, group, **values)
        self.next_offset += 1
        return log_offset

    def generation(
        self,
        group: str,
        generation: int,
        members: Mapping[str, Partitions],
        seconds: float,
        *,
        sync_s: float = 0.25,
        protocol_type: str = "consumer",
        protocol: str = "range",
        topics: Sequence[str] | None = None,
        is_readable: bool = True,
    ) -> int:
        """Write a record with members, synced for `sync_s`; return its log offset.

        `topics` are the subscribed topics; None takes the topics of their assignments.
        """
        leader = next(iter(members), "").split("@")[0]
        place = self._append(
            "group_generations", seconds, group, generation=generation, protocol_type=protocol_type,
            protocol=protocol if members else None, leader=leader or None, state_ts=at(seconds - sync_s),
            n_members=len(members), tombstone=False,
        )  # fmt: skip
        for name, partitions in members.items():
            member_id, _, instance_id = name.partition("@")
            self._append(
                "members", seconds, group, generation=generation, member_id=member_id,
                group_instance_id=instance_id or None, client_id=member_id.rstrip("0123456789"),
                client_host="/10.0.0.1", rebalance_timeout_ms=300000, session_timeout_ms=45000,
                is_leader=member_id == leader,
                subscribed_topics=sorted(topics or {topic for topic, _ in partitions}) if is_readable else None,
                n_partitions=len(partitions) if is_readable else None,
            )  # fmt: skip
            for topic, partition in partitions:
                self._append(
                    "assignments", seconds, group, generation=generation, member_id=member_id, topic=topic,
                    partition=partition,
                )  # fmt: skip
        self.next_offset += 1
        return place

    def emptied(self, group: str, generation: int, seconds: float) -> int:
        """The last member has left."""
        return self.generation(group, generation, {}, seconds, sync_s=0)

    def created(self, group: str, seconds: float) -> int:
        """What is written when a group comes into being."""
        return self.generation(group, 0, {}, seconds, sync_s=0, protocol_type="")

    def deleted(self, group: str, seconds: float) -> int:
        """A group's tombstone."""
        place = self._append("group_generations", seconds, group, tombstone=True)
        self.next_offset += 1
        return place

    def finding(self, kind: str, offset: int, seconds: float) -> None:
        """Something odd that was found at an offset of the log."""
        self._rows["ingest_findings"].append(
            {
                "found_ts": at(seconds), "log_partition": self._log_partition, "kind": kind,
                "first_offset": offset, "path": "00000000000000000000.log", "detail": kind, "ingest_batch": 0,
            }
        )  # fmt: skip

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Those of a silver table."""
        return self._rows[name]

    def add_rows(self, other: "HandMade") -> None:
        """Add the rows of another history unchanged."""
        for name, rows in other._rows.items():
            self._rows[name] += rows

    def piece(self, first_offset: int, next_offset: int) -> "HandMade":
        """The records from one offset up to another."""
        cut = HandMade(self._log_partition)
        for name, rows in self._rows.items():
            cut._rows[name] = [
                row for row in rows if first_offset <= row.get("log_offset", first_offset) < next_offset
            ]
        return cut

    def columns(self, name: str) -> tuple[tuple[str, str], ...]:
        """Those of a silver table, with their types."""
        return SILVER[name].columns


def together(histories: Sequence[HandMade]) -> HandMade:
    """Several histories, each in a partition of its own, as one."""
    whole = HandMade()
    for made in histories:
        whole.add_rows(made)
    return whole


def fill(warehouse: Warehouse, made: HandMade, ingest_batch: int = 1) -> None:
    """Puts a history into a warehouse as one batch of an ingest."""
    if ingest_batch == 1:
        warehouse.create()
        warehouse.prepare()
    for name, table in SILVER.items():
        rows = [{"ingested_ts": at(0), "n_records": 0}] if name == INGEST_BATCHES.name else made.rows(name)
        staging = warehouse.stage(name, ingest_batch)
        warehouse.directory.write(f"{staging}/{BATCH_FILE}", parquet_file(table, rows))
        warehouse.publish(name, ingest_batch, staging, [BATCH_FILE])
    assert ingest_batch in warehouse.complete_batches()
