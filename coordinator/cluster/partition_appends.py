"""Appends of all partitions of a daemon to the store, and proofs that the daemon still owns them: one
transaction at a time.

Each transaction compares the token of every partition in it. It puts the pending appends of each partition
under the key of their first offset. Four rules make this safe.

*One in flight.* The next transaction begins only after the success of this one. So the log of a partition
has no gaps: each append follows all earlier offsets.

*Repeating is harmless.* Without an answer the result is unknown. The daemon then repeats the **same**
transaction, byte for byte, until it gets an answer. Only the holder of a token writes that key, and always
the same value. An early attempt may land after a later one, even after the partition was sealed: a load
ignores offsets below the end of the manifest. It may also land after the daemon released the partition.
Therefore a daemon that reloads a partition first takes a new token.

*A failed comparison concerns one partition.* After it the daemon sends each partition alone, so that the
partitions that it still owns lose nothing. A partition that fails alone is fenced. The large transaction can
never land later: a lost token never comes back.

*Proofs begin later.* An answer leaves after a transaction that **began** after its creation has proven the
token. A ticket that is submitted during a transaction therefore waits for the next one, even without data.

This module has no clock and no I/O: `next_transaction` returns the transaction to send, `apply_answer` takes
its result.
"""

from collections import deque
from collections.abc import Hashable
from typing import Final, NamedTuple

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import (
    KeyValueStoreError,
    Put,
    StoreRequestTooLarge,
    StoreTransaction,
    TransactionResult,
    WrittenAt,
)

MAX_PARTITIONS: Final = 128
"""etcd's default limit of comparisons in a transaction (`--max-txn-ops`)."""
MAX_BYTES: Final = 1 << 20
"""Below etcd's default limit of 1.5 MiB for a request (`--max-request-bytes`), which includes the keys."""


class PartitionId(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int


class AppendDone(NamedTuple):
    """All appends with these tickets are durable, and the token was valid afterwards."""

    partition: PartitionId
    tickets: tuple[Hashable, ...]


class AppendFenced(NamedTuple):
    """Another daemon owns the partition. The result of the appends with these tickets is unknown."""

    partition: PartitionId
    tickets: tuple[Hashable, ...]


class AppendRejected(NamedTuple):
    """The store will never accept the appends: the daemon has to reload the partition under a new token."""

    partition: PartitionId
    tickets: tuple[Hashable, ...]
    problem: KeyValueStoreError


class PendingAppend:
    """The appends and proofs of one partition in one transaction."""

    __slots__ = ("base_offset", "data", "is_dropped", "next_offset", "size", "tickets", "token")

    def __init__(self, token: int) -> None:
        self.token = token
        self.base_offset: int | None = None
        """Offset of the first record to append; None for a proof of the token only."""
        self.next_offset = 0
        self.data: list[bytes] = []
        self.size = 0
        self.tickets: list[Hashable] = []
        self.is_dropped = False
        """Whether the daemon has dropped the partition, so that the result is unused."""


PendingAppends = dict[PartitionId, PendingAppend]


class PartitionAppender:
    """The appends of one daemon. Each partition has one token at a time."""

    def __init__(self, keys: ClusterKeys) -> None:
        self._keys = keys
        self._waiting: dict[PartitionId, deque[PendingAppend]] = {}
        """Appends that are in no transaction yet. A partition has several only if they exceed MAX_BYTES
        together.
        """
        self._retried_alone: deque[tuple[PartitionId, PendingAppend]] = deque()
        """Partitions of a failed transaction, to be sent one by one before all others."""
        self._in_flight: PendingAppends | None = None
        self._sent: StoreTransaction | None = None

    def append(
        self,
        partition: PartitionId,
        token: int,
        base_offset: int,
        next_offset: int,
        data: bytes,
        ticket: Hashable | None,
    ) -> None:
        """Queue batches of a partition.

        Args:
            partition: The partition.
            token: Its current token.
            base_offset: Offset of the first record.
            next_offset: Offset after the last record.
            data: Encoded batches.
            ticket: Returned with the result. None: the caller appends again at once, with a ticket for both.
        """
        assert base_offset < next_offset, (base_offset, next_offset)
        part = self._get_pending(partition, token, len(data))
        if part.base_offset is None:
            part.base_offset = base_offset
        else:
            assert part.next_offset == base_offset, (partition, part.next_offset, base_offset)
        part.next_offset = next_offset
        part.data.append(data)
        part.size += len(data)
        if ticket is not None:
            part.tickets.append(ticket)

    def prove_token(self, partition: PartitionId, token: int, ticket: Hashable) -> None:
        """Queue a proof of the token, by a transaction that begins after this call."""
        self._get_pending(partition, token, 0).tickets.append(ticket)

    def drop_partition(self, partition: PartitionId) -> None:
        """Drop the pending appends of a partition that the daemon releases. Its tickets get no result.

        The transaction in flight may still land. The partition needs a new token before its next load.
        """
        self._waiting.pop(partition, None)
        for parts in (self._in_flight or {}).items(), self._retried_alone:
            for other, part in parts:
                if other == partition:
                    part.is_dropped = True
        self._retried_alone = deque(entry for entry in self._retried_alone if not entry[1].is_dropped)

    def next_transaction(self) -> StoreTransaction | None:
        """Return the transaction to send now; None while one is in flight, or without pending appends."""
        if self._in_flight is not None:
            return None
        parts = self._collect_pending()
        if not parts:
            return None
        self._in_flight = parts
        self._sent = self._create_transaction(parts)
        return self._sent

    def repeat_transaction(self) -> StoreTransaction:
        """Return the transaction in flight, to send it again."""
        assert self._sent is not None, "nothing is in flight"
        return self._sent

    def apply_answer(
        self, answer: TransactionResult | KeyValueStoreError
    ) -> list[AppendDone | AppendFenced | AppendRejected]:
        """Take the result of the transaction in flight and return the results of its tickets.

        StoreRequestTooLarge is the only error after which the transaction is certain to have no effect.
        After another error it stays in flight: send `repeat_transaction` until it succeeds or the session
        ends.
        """
        assert self._in_flight is not None, "nothing was asked"
        if isinstance(answer, KeyValueStoreError) and not isinstance(answer, StoreRequestTooLarge):
            return []
        parts = {partition: part for partition, part in self._in_flight.items() if not part.is_dropped}
        was_alone = len(self._in_flight) == 1
        self._in_flight = self._sent = None
        if isinstance(answer, TransactionResult) and answer.succeeded:
            return [AppendDone(partition, tuple(part.tickets)) for partition, part in parts.items()]
        if not was_alone:
            self._retried_alone.extend(parts.items())
            return []
        lost: list[AppendDone | AppendFenced | AppendRejected] = []
        for partition, part in parts.items():
            tickets = [*part.tickets]
            for later in self._waiting.pop(partition, ()):
                tickets += later.tickets
            if isinstance(answer, TransactionResult):
                lost.append(AppendFenced(partition, tuple(tickets)))
            else:
                lost.append(AppendRejected(partition, tuple(tickets), answer))
        return lost

    def abandon_in_flight(self, problem: KeyValueStoreError) -> list[AppendRejected]:
        """Give up the transaction in flight. It may still land, so the daemon has to reload its partitions
        under new tokens.
        """
        assert self._in_flight is not None, "nothing was asked"
        parts, self._in_flight, self._sent = self._in_flight, None, None
        lost = []
        for partition, part in parts.items():
            if not part.is_dropped:
                later = [ticket for each in self._waiting.pop(partition, ()) for ticket in each.tickets]
                lost.append(AppendRejected(partition, (*part.tickets, *later), problem))
        return lost

    @property
    def is_in_flight(self) -> bool:
        """Whether a transaction awaits its answer."""
        return self._in_flight is not None

    def _get_pending(self, partition: PartitionId, token: int, size: int) -> PendingAppend:
        waiting = self._waiting.setdefault(partition, deque())
        assert not waiting or waiting[-1].token == token, (partition, waiting[-1].token, token)
        if not waiting or (waiting[-1].size and waiting[-1].size + size > MAX_BYTES):
            waiting.append(PendingAppend(token))
        return waiting[-1]

    def _collect_pending(self) -> PendingAppends:
        if self._retried_alone:
            return dict([self._retried_alone.popleft()])
        parts: PendingAppends = {}
        size = 0
        for partition, waiting in list(self._waiting.items()):
            if len(parts) == MAX_PARTITIONS:
                break
            if parts and size + waiting[0].size > MAX_BYTES:
                continue
            part = waiting.popleft()
            # A partition with more to append moves to the end, so that no partition starves.
            del self._waiting[partition]
            if waiting:
                self._waiting[partition] = waiting
            parts[partition] = part
            size += part.size
        return parts

    def _create_transaction(self, parts: PendingAppends) -> StoreTransaction:
        return StoreTransaction(
            tuple(WrittenAt(self._keys.owner(*partition), part.token) for partition, part in parts.items()),
            tuple(
                Put(self._keys.log(*partition, part.base_offset), b"".join(part.data))
                for partition, part in parts.items()
                if part.base_offset is not None
            ),
        )
