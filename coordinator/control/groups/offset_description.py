"""Committed offsets as HTTP shows them."""

from msgspec import Struct


class OffsetDescription(Struct, frozen=True, kw_only=True):
    """How far a group is in one partition. `offset` is the next record to read, null where nothing was committed;
    `log_start_offset` and `end_offset` are where the partition begins and ends for consumers, null where there is
    no such partition any more, its log does not work, or another broker has it; `lag` is what is left to read, null
    where one of them is not known. `member_id` is who was assigned the partition, null for nobody."""

    topic: str
    partition: int
    offset: int | None
    metadata: str
    log_start_offset: int | None
    end_offset: int | None
    lag: int | None
    member_id: str | None


class GroupOffsets(Struct, frozen=True, kw_only=True):
    """The offsets of a group, and of partitions that its members were assigned and committed nothing for; by topic
    and partition. `lag` is the sum of those that are known, null where none is."""

    group_id: str
    state: str
    lag: int | None
    offsets: list[OffsetDescription]


class OffsetChange(Struct, frozen=True, kw_only=True):
    """What became of one offset; `before` is null where nothing had been committed."""

    topic: str
    partition: int
    before: int | None
    offset: int


class OffsetChanges(Struct, frozen=True, kw_only=True):
    """What became of some, by topic and partition; nothing where it was a dry run."""

    group_id: str
    dry_run: bool
    offsets: list[OffsetChange]
