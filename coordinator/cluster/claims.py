"""How a daemon comes to own a partition, takes a new token for it, and gives it back.

The owner key of a partition names its owner and stands under that daemon's lease. The revision at which it was
last written is the *token*: every append compares it. Each claim counts the leader epoch up in the same
transaction, which compares the epoch as it was read. So a claim whose answer was lost, and which lands when
others have owned the partition since, is refused.

A try that was not answered may have happened. The next try is then refused by what the first one wrote, and a
look at the key tells: a lease belongs to one session of one daemon, and so does a key under it. The key may as
well be left of an earlier claim of that session, and an append with its token be on its way still. So a token
that was only seen is never used: it is replaced by a new one. Every token comes from a transaction that was
answered.

A reload takes a new token, by writing the owner key again. An append in flight with the old one is refused from
then on, so it cannot land on top of what is written at the same offset after the reload.
"""

from enum import Enum, auto
from typing import NamedTuple

from coordinator.cluster.engine.engine import (
    ABSENT,
    CreatedAt,
    Delete,
    EngineError,
    Entry,
    Outcome,
    Page,
    Put,
    Read,
    Transaction,
    WrittenAt,
)
from coordinator.cluster.key_values import UnreadableKey, parse_number
from coordinator.cluster.keys import Keys


class Owned(NamedTuple):
    """The partition is this daemon's, under a new token."""

    token: int
    epoch: int


class NotOwned(NamedTuple):
    """It is not, or not any more."""

    owner: int | None
    """The node that has it, as far as was seen."""


class _Step(Enum):
    READ_EPOCH = auto()
    WRITE = auto()
    LOOK = auto()
    OVER = auto()


class Claim:
    """One attempt to own a partition, or with `token` to get a new token for one that is owned.

    `next` says what to ask; after each answer `answered` gives None, to go on with `next`, or how it ended.
    After an error the same is asked again, for as long as the session lives.
    """

    def __init__(
        self,
        keys: Keys,
        partition: tuple[str, int],
        node_id: int,
        lease: int,
        broker_epoch: int,
        token: int | None = None,
        guard: CreatedAt | None = None,
    ) -> None:
        """In: what has to hold besides: that the topic is the one whose partition is meant."""
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
        self._step = _Step.READ_EPOCH

    def next(self) -> Read | Transaction:
        """What to ask now."""
        assert self._step is not _Step.OVER, self._owner
        if self._step is _Step.READ_EPOCH:
            return Read(self._epoch_key)
        if self._step is _Step.LOOK:
            return Read(self._owner)
        put = Put(self._owner, self._value, self._lease)
        if self._old_token is not None:
            return Transaction((WrittenAt(self._owner, self._old_token), *self._holds), (put,))
        return Transaction(
            (
                CreatedAt(self._owner, ABSENT),
                *self._holds,
                WrittenAt(self._epoch_key, self._epoch_written_at),
            ),
            (put, Put(self._epoch_key, b"%d" % (self._epoch + 1))),
        )

    def answered(self, answer: Page | Outcome | EngineError) -> Owned | NotOwned | None:
        """Takes the answer to what `next` gave."""
        assert self._step is not _Step.OVER, self._owner
        if isinstance(answer, EngineError):
            return None
        if isinstance(answer, Outcome):
            assert self._step is _Step.WRITE, self._step
            if answer.succeeded:
                return self._owned(answer.revision)
            self._step = _Step.LOOK
            return None
        if self._step is _Step.READ_EPOCH:
            for entry in answer.entries:
                try:
                    self._epoch, self._epoch_written_at = parse_number(entry.value), entry.written_at
                except UnreadableKey:  # the epoch that was never counted up cannot be known
                    self._step = _Step.OVER
                    return NotOwned(None)
            self._step = _Step.WRITE
            return None
        return self._looked(answer.entries)

    def _looked(self, entries: tuple[Entry, ...]) -> NotOwned | None:
        if entries and entries[0].lease == self._lease and entries[0].written_at != self._old_token:
            self._old_token = entries[0].written_at
            self._step = _Step.READ_EPOCH
            return None
        self._step = _Step.OVER
        try:
            return NotOwned(parse_number(entries[0].value) if entries else None)
        except UnreadableKey:
            return NotOwned(None)

    def _owned(self, token: int) -> Owned:
        self._step = _Step.OVER
        assert self._old_token is None or token > self._old_token, (token, self._old_token)
        return Owned(token, self._epoch if self._old_token is not None else self._epoch + 1)


def release(keys: Keys, partition: tuple[str, int], token: int) -> Transaction:
    """Gives a partition back, once nothing of it is in flight. Repeating is harmless; refused, it was gone."""
    owner = keys.owner(*partition)
    return Transaction((WrittenAt(owner, token),), (Delete(owner),))
