"""Claims and placement of partitions: a pure state machine that obtains, renews and releases a partition, and
the placement that every node computes alike.

The owner key of a partition holds the node id of its owner and belongs to the lease of that session. The
*token* is the revision at which the key was last written; every append compares it. A new claim also
increments the leader epoch and compares the epoch that it has read. A claim with a lost result therefore
fails if other daemons have owned the partition since.
A claim without a result may have succeeded. Its next attempt then fails, and the claim reads the owner key. A
lease belongs to one session of one daemon, so the lease shows whether the key is its own. An earlier claim of
the session may have written that key, and an append with its token may be in flight. A claim therefore never
uses a token that it has only read: it writes the key again. Every token comes from a transaction with a known
result.
A reload of the log takes a new token by writing the owner key again. This rejects appends in flight with the
old token, so they cannot land on records that are written at the same offset after the reload.
Placement uses rendezvous hashing: the preference of a partition depends on node ids alone, so a node that
joins or leaves moves few partitions. A cap evens the shares: a node that has its share is skipped. A pin
moves its own partition only. Placement proposes, the claim decides.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

import xxhash

from coordinator.cluster.cluster_keys import ClusterKeys, UnreadableKey, parse_number
from coordinator.cluster.key_value_store import (
    ABSENT,
    CreatedAt,
    Delete,
    KeyEntry,
    KeyPage,
    KeyValueStoreError,
    Put,
    ReadRange,
    StoreTransaction,
    TransactionResult,
    WrittenAt,
)


class PartitionToken(NamedTuple):
    """This daemon owns the partition under a new token."""

    token: int
    epoch: int


class ClaimRefused(NamedTuple):
    """This daemon does not own the partition, or not any more."""

    owner: int | None
    """The node that owns it, if known."""


class _ClaimStep(Enum):
    READ_EPOCH = auto()
    WRITE = auto()
    READ_OWNER = auto()
    OVER = auto()


class Claim:
    """One attempt to own a partition, or with `token` to get a new token for an owned one.

    `next_command` returns the command to send. `apply_answer` takes its answer and returns None, to continue with
    `next_command`, or the result. After an error the command is the same again, for as long as the session lives.
    """

    def __init__(
        self,
        keys: ClusterKeys,
        partition: tuple[str, int],
        node_id: int,
        lease: int,
        broker_epoch: int,
        token: int | None = None,
        guard: CreatedAt | None = None,
    ) -> None:
        """Create a claim.

        Args:
            keys: Keys of the cluster in the store.
            partition: Topic and number.
            node_id: Id of this broker.
            lease: Lease of its session.
            broker_epoch: Revision of its registration.
            token: Current token of an owned partition; None for a partition without an owner.
            guard: Additional comparison: the topic must still be the same one.
        """
        assert lease, "a claim without a session"
        assert broker_epoch, "a claim without a registration"
        self._owner = keys.owner(*partition)
        self._epoch_key = keys.epoch(*partition)
        session = CreatedAt(keys.broker(node_id), broker_epoch)
        self._holds = (session,) if guard is None else (session, guard)
        self._value = b"%d" % node_id
        self._lease = lease
        self._old_token = token
        self._epoch = 0
        self._epoch_written_at = ABSENT
        self._step = _ClaimStep.READ_EPOCH

    def next_command(self) -> ReadRange | StoreTransaction:
        """Return the command to send now."""
        assert self._step is not _ClaimStep.OVER, self._owner
        if self._step is _ClaimStep.READ_EPOCH:
            return ReadRange(self._epoch_key)
        if self._step is _ClaimStep.READ_OWNER:
            return ReadRange(self._owner)
        put = Put(self._owner, self._value, self._lease)
        if self._old_token is not None:
            return StoreTransaction((WrittenAt(self._owner, self._old_token), *self._holds), (put,))
        return StoreTransaction(
            (
                CreatedAt(self._owner, ABSENT),
                *self._holds,
                WrittenAt(self._epoch_key, self._epoch_written_at),
            ),
            (put, Put(self._epoch_key, b"%d" % (self._epoch + 1))),
        )

    def apply_answer(
        self, answer: KeyPage | TransactionResult | KeyValueStoreError
    ) -> PartitionToken | ClaimRefused | None:
        """Apply the answer to the last command."""
        assert self._step is not _ClaimStep.OVER, self._owner
        if isinstance(answer, KeyValueStoreError):
            return None
        if isinstance(answer, TransactionResult):
            assert self._step is _ClaimStep.WRITE, self._step
            if answer.succeeded:
                return self._finish_owned(answer.revision)
            self._step = _ClaimStep.READ_OWNER
            return None
        if self._step is _ClaimStep.READ_EPOCH:
            for entry in answer.entries:
                try:
                    self._epoch, self._epoch_written_at = parse_number(entry.value), entry.written_at
                except UnreadableKey:  # an unreadable epoch cannot be increased
                    self._step = _ClaimStep.OVER
                    return ClaimRefused(None)
            self._step = _ClaimStep.WRITE
            return None
        return self._apply_owner_key(answer.entries)

    def _apply_owner_key(self, entries: tuple[KeyEntry, ...]) -> ClaimRefused | None:
        if entries and entries[0].lease == self._lease and entries[0].written_at != self._old_token:
            self._old_token = entries[0].written_at
            self._step = _ClaimStep.READ_EPOCH
            return None
        self._step = _ClaimStep.OVER
        try:
            return ClaimRefused(parse_number(entries[0].value) if entries else None)
        except UnreadableKey:
            return ClaimRefused(None)

    def _finish_owned(self, token: int) -> PartitionToken:
        self._step = _ClaimStep.OVER
        assert self._old_token is None or token > self._old_token, (token, self._old_token)
        return PartitionToken(token, self._epoch if self._old_token is not None else self._epoch + 1)


def create_release(keys: ClusterKeys, partition: tuple[str, int], token: int) -> StoreTransaction:
    """Return the release of a partition, for use when it has no appends in flight. Repeating it is harmless. If it
    fails, the ownership had already ended.
    """
    owner = keys.owner(*partition)
    return StoreTransaction((WrittenAt(owner, token),), (Delete(owner),))


def place_partitions(
    topic: str, partitions: Collection[int], live: Iterable[int], pins: Mapping[int, int]
) -> dict[int, int]:
    """Place partitions on nodes.

    Args:
        topic: Name of the topic.
        partitions: Numbers of the partitions.
        live: Ids of the live nodes.
        pins: Pinned node by partition. A pin to a live node overrides its share; others have no effect.

    Returns:
        The node id of each partition; empty without live nodes.
    """
    nodes = sorted(set(live))
    if not nodes:
        return {}
    placed = {}
    room = dict.fromkeys(nodes, -(-len(partitions) // len(nodes)))
    for partition in sorted(partitions):
        free = [node for node in nodes if room[node] > 0]
        node = max(free, key=lambda node: (_compute_weight(topic, partition, node), node))
        placed[partition] = node
        room[node] -= 1
    for partition in placed:
        if pins.get(partition) in room:
            placed[partition] = pins[partition]
    return placed


def place_replicas(
    replicas: Sequence[Sequence[int]], live: Container[int], pins: Mapping[int, int]
) -> dict[int, int]:
    """Place partitions on their replicas: on a pinned live replica, else on the first live one.

    Args:
        replicas: Replicas by partition, the preferred one first.
        live: Ids of the live nodes.
        pins: Pinned node by partition.

    Returns:
        The node id of each partition with a live replica.
    """
    placed = {}
    for partition, candidates in enumerate(replicas):
        pinned = [node for node in candidates if node == pins.get(partition)]
        for node in (*pinned, *candidates):
            if node in live:
                placed[partition] = node
                break
    return placed


def _compute_weight(topic: str, partition: int, node: int) -> int:
    return xxhash.xxh3_64_intdigest(f"{topic}/{partition}/{node}".encode())
