"""Brings what partitions append to the engine that has their logs, and has it prove that they are still owned.

At the end of each iteration of the loop there is one submission for each partition in which something was appended,
or an answer was made. What becomes of it is told by its ticket, in the order of submissions. Who puts them into
transactions is `Appends`: nothing here knows of keys or tokens.

A submission that fails says nothing of what the engine has: the partition is given up, and taken anew under another
token, if it is still owned.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from coordinator.engine.durability import Synced
from storage.errors import StorageError
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Replication")


class Ticket(NamedTuple):
    """One submission of one log."""

    log: PartitionLog
    number: int
    end_offset: int
    synced: Synced


class NotReplicated(StorageError):
    """Nobody can tell what the engine has of a log."""


class Appends(Protocol):
    """Puts submissions into transactions. Raises nothing."""

    def append(
        self,
        partition: TopicPartition,
        token: int,
        base_offset: int,
        next_offset: int,
        data: bytes,
        ticket: Ticket | None,
    ) -> None:
        """Has bytes made durable under a token. Nothing is told of a piece without a ticket: that of a later one
        stands for it as well."""

    def prove(self, partition: TopicPartition, token: int, ticket: Ticket) -> None:
        """Has a token shown."""


class Replication:
    """All methods belong to the event loop's thread."""

    def __init__(self, appends: Appends, doubted: Callable[[TopicPartition], None]) -> None:
        """In: who is told that a partition was given up that may still be owned: it is to be taken anew, under a
        new token."""
        self.doubted = doubted
        self._appends = appends
        self._names: dict[PartitionLog, TopicPartition] = {}
        self._wanted: dict[PartitionLog, Synced] = {}
        self._forgotten: set[Synced] = set()

    def opened(self, partition: TopicPartition, log: PartitionLog) -> None:
        """A partition has a log, all of which the engine has."""
        self.let_go(partition)
        self._names[log] = partition

    def let_go(self, partition: TopicPartition) -> None:
        """A partition is given up: nothing of its log is submitted any more, though that may be open still."""
        for other in [log for log, name in self._names.items() if name == partition or log.is_closed]:
            del self._names[other]

    def need(self, log: PartitionLog, synced: Synced) -> None:
        """See `Durability`."""
        self._wanted[log] = synced

    def kick(self) -> None:
        """See `Durability`."""
        wanted, self._wanted = self._wanted, {}
        for log, synced in wanted.items():
            try:
                self._submit(log, synced)
            except Exception as problem:  # noqa: BLE001 - the other logs are submitted all the same
                _LOG.error("Failed to submit %s", log.directory, exc_info=problem)
                ticket = Ticket(log, -1, log.log_end_offset, synced)
                asyncio.get_running_loop().call_soon(self.failed, ticket, f"cannot submit: {problem!r}")

    def _submit(self, log: PartitionLog, synced: Synced) -> None:
        outgoing, partition = log.durability.outgoing, self._names.get(log)
        if outgoing is None or partition is None or log.is_closed:
            return
        end_offset = log.log_end_offset
        number, pieces = outgoing.take(end_offset)
        ticket = Ticket(log, number, end_offset, synced)
        if not pieces:
            self._appends.prove(partition, outgoing.token, ticket)
        for piece in pieces:
            last = ticket if piece is pieces[-1] else None
            self._appends.append(partition, outgoing.token, *piece, last)

    def forget(self, synced: Synced) -> None:
        """See `Durability`."""
        self._forgotten.add(synced)

    def done(self, ticket: Ticket) -> None:
        """The engine has it, and the token was valid after the submission."""
        log = ticket.log
        outgoing = log.durability.outgoing
        if outgoing is None or log.is_closed or ticket.synced in self._forgotten:
            return
        outgoing.confirm(ticket.number)
        log.durability.replicated(ticket.end_offset, log.log_end_offset)
        self._tell(ticket, None)

    def failed(self, ticket: Ticket, reason: str) -> None:
        """Nobody can tell what became of it."""
        if not ticket.log.is_closed and ticket.synced not in self._forgotten:
            self._tell(ticket, NotReplicated(f"{self._names.get(ticket.log)}: {reason}"))

    @staticmethod
    def _tell(ticket: Ticket, error: StorageError | None) -> None:
        try:
            ticket.synced(ticket.log, error)
        except Exception as problem:  # noqa: BLE001 - the other logs' waiters get their answers all the same
            _LOG.error("After replicating %s", ticket.log.directory, exc_info=problem)
