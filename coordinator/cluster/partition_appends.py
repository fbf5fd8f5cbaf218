"""Appends of all partitions of a daemon to the store, and proofs that it still owns them: one transaction at a
time.

Each transaction compares the token of every partition in it and puts what was appended to that partition
meanwhile under the key of its first offset. Four rules keep that safe.

*One in flight.* The next begins only when this one is known to be in, so that the log of a partition has no gaps:
what is at an offset follows all that is before it.

*Repeating is harmless.* No answer leaves it open what happened, so the **same** transaction is sent again, byte
for byte, until there is an answer. Only the holder of a token writes that key, and always the same value. An
early try may land after a later one, even after the partition was sealed: a load ignores what lies below the end
of the manifest. It may land after the partition was let go of, too: therefore whoever reloads a partition takes a
new token first.

*A refusal is nobody's fault but one.* Then each partition is asked alone, so that those that are still owned lose
nothing. What is refused alone is fenced. The large transaction can never land later: a token that was lost never
comes back.

*Proofs begin later.* An answer leaves when a transaction that **began** after it was made has shown the token.
What is submitted while one is in flight therefore waits for the next, even where it has nothing to write.

Here is no clock and no input or output: `next_transaction` returns what to send, `apply_answer` takes the answer.
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
"""etcd takes no more comparisons in a transaction (`--max-txn-ops`)."""
MAX_BYTES: Final = 1 << 20
"""etcd takes 1.5 MiB in a request (`--max-request-bytes`), keys and all."""


class PartitionId(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int


class AppendDone(NamedTuple):
    """All that was submitted with these tickets is durable, and the token was valid after that."""

    partition: PartitionId
    tickets: tuple[Hashable, ...]


class AppendFenced(NamedTuple):
    """Another owns the partition. Nothing is known of what was submitted with these tickets."""

    partition: PartitionId
    tickets: tuple[Hashable, ...]


class AppendRejected(NamedTuple):
    """The store will never take it: the partition has to be taken and loaded again."""

    partition: PartitionId
    tickets: tuple[Hashable, ...]
    problem: KeyValueStoreError


class PendingAppend:
    """What is asked for one partition in one transaction."""

    __slots__ = ("base_offset", "data", "is_dropped", "next_offset", "size", "tickets", "token")

    def __init__(self, token: int) -> None:
        self.token = token
        self.base_offset: int | None = None
        """Of the first record to append, None while only the token is to be shown."""
        self.next_offset = 0
        self.data: list[bytes] = []
        self.size = 0
        self.tickets: list[Hashable] = []
        self.is_dropped = False
        """Nobody waits for it any more."""


PendingAppends = dict[PartitionId, PendingAppend]


class PartitionAppender:
    """The appends of one daemon. Every partition in it has one token at a time."""

    def __init__(self, keys: ClusterKeys) -> None:
        self._keys = keys
        self._waiting: dict[PartitionId, deque[PendingAppend]] = {}
        """What no transaction has taken up; all but the first of a partition because those before it are large."""
        self._retried_alone: deque[tuple[PartitionId, PendingAppend]] = deque()
        """Parts of a refused transaction, to be asked one by one before anything else."""
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
        """Has batches made durable: the bytes from `base_offset` on, which end before `next_offset`. Without a
        ticket, what is appended next, at once, has one that stands for both."""
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
        """Has the token shown, by a transaction that begins after this."""
        self._get_pending(partition, token, 0).tickets.append(ticket)

    def drop_partition(self, partition: PartitionId) -> None:
        """The daemon lets go of a partition, or of its token: no ticket of it is heard of again.

        What is in flight may still land. Before the partition is read again it needs a new token.
        """
        self._waiting.pop(partition, None)
        for parts in (self._in_flight or {}).items(), self._retried_alone:
            for other, part in parts:
                if other == partition:
                    part.is_dropped = True
        self._retried_alone = deque(entry for entry in self._retried_alone if not entry[1].is_dropped)

    def next_transaction(self) -> StoreTransaction | None:
        """What to send now; None while one is in flight, or when there is nothing to do."""
        if self._in_flight is not None:
            return None
        parts = self._collect_pending()
        if not parts:
            return None
        self._in_flight = parts
        self._sent = self._create_transaction(parts)
        return self._sent

    def repeat_transaction(self) -> StoreTransaction:
        """The transaction in flight, to be sent once more."""
        assert self._sent is not None, "nothing is in flight"
        return self._sent

    def apply_answer(
        self, answer: TransactionResult | KeyValueStoreError
    ) -> list[AppendDone | AppendFenced | AppendRejected]:
        """What the transaction in flight has come to.

        Of all errors only StoreRequestTooLarge says that nothing happened and nothing ever will. After the
        others it stays in flight: send `repeat_transaction`, until it is known to be in or the session ends.
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
        """Waits for the transaction in flight no longer: its partitions have to be taken and loaded again, under
        new tokens, since it may still land."""
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
        """Whether a transaction waits for its answer."""
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
            # Who waits on goes to the end of the line, so that nobody is passed over for ever.
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
