"""For any history of appends, seals, compactions and crashes, a load returns the acknowledged records in order."""

from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest

from coordinator.cluster import partition_log_store as store_module
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import Put, StoreTransaction, WrittenAt
from coordinator.cluster.partition_log_store import PartitionLogStore, TokenLost, UnsealedSegment
from tests.cluster.faulty_store import Dead, FaultyStore
from tests.cluster.model_map import ModelMap

KEYS = ClusterKeys("c")
WHERE = ("t", 0)


class Owner:
    """One owner after the other of one partition. Its log has a batch of some bytes at each offset."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.map = ModelMap()
        self.acknowledged: list[bytes] = []
        self.old: list[StoreTransaction] = []
        """What former owners asked for."""
        self.start()

    def start(self) -> None:
        """Claim the partition with a new writer: late requests of the previous writer are rejected."""
        self.engine = FaultyStore(self.map, self.random, 0.1)
        self.store = PartitionLogStore(self.engine, KEYS)  # type: ignore[arg-type]
        owner = KEYS.owner(*WHERE)
        self.token = self.map.transact(StoreTransaction((), (Put(owner, b"1"),))).revision

    async def load(self) -> None:
        """Check that the engine holds the acknowledged records."""
        for transaction in self.random.sample(self.old, min(3, len(self.old))):
            self.map.transact(transaction)
        self.manifest = await self.store.read_manifest(*WHERE)
        found = [data async for _, data in self.store.load_log(*WHERE, self.manifest)]
        assert b"".join(found) == b"".join(self.acknowledged)

    def append(self) -> None:
        """One that is acknowledged, and maybe sent once more later."""
        base_offset = len(self.acknowledged)
        data = b"%d," % base_offset * self.random.randint(1, 30)
        key = KEYS.log(*WHERE, base_offset)
        transaction = StoreTransaction((WrittenAt(KEYS.owner(*WHERE), self.token),), (Put(key, data),))
        assert self.map.transact(transaction).succeeded
        self.acknowledged.append(data)
        self.engine.asked.append(transaction)

    async def seal(self, *, whole: bool) -> None:
        """Upload the records since the last seal, or all records again in segments of other lengths."""
        before, end = self.manifest, len(self.acknowledged)
        first = 0 if whole else before.end_offset
        bounds = sorted({first, *self.random.sample(range(first, end + 1), min(2, end - first)), end})
        segments = [UnsealedSegment(base, self.acknowledged[base:after]) for base, after in pairwise(bounds)]
        kept = () if whole else before.segments
        if self.random.random() < 0.4:
            self.engine.dies_in = self.random.randint(0, 6)
        self.manifest = await self.store.seal_segments(*WHERE, self.token, before, kept, segments, end, 0)
        self.engine.dies_in = -1

    def repeat(self) -> None:
        """Apply delayed attempts of appends, uploads and seals, in any order."""
        late = list(self.engine.asked)
        self.random.shuffle(late)
        for transaction in late:
            self.map.transact(transaction)


@pytest.mark.parametrize("seed", range(40))
async def test_a_load_gives_what_was_acknowledged(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "RETRY_S", 0)
    monkeypatch.setattr(store_module, "PIECE_BYTES", 100)
    owner = Owner(seed)
    for _ in range(8):
        await owner.load()
        with suppress(Dead):
            for _ in range(owner.random.randint(1, 12)):
                owner.append()
                action = owner.random.random()
                if action < 0.2 and len(owner.manifest.segments) < 20:
                    await owner.seal(whole=False)
                elif action < 0.3:
                    await owner.seal(whole=True)
                elif action < 0.5:
                    owner.append()
                elif action < 0.6:
                    owner.repeat()
        if owner.random.random() < 0.3:
            owner.repeat()
        owner.old += owner.engine.asked
        owner.start()
    await owner.load()
    assert owner.acknowledged


async def test_a_seal_leaves_no_more_than_what_it_names() -> None:
    owner = Owner(0)
    owner.engine = FaultyStore(owner.map, owner.random, 0)
    owner.store = PartitionLogStore(owner.engine, KEYS)  # type: ignore[arg-type]
    await owner.load()
    for whole in (False, True, False, True):
        owner.append()
        end = len(owner.acknowledged)
        first = 0 if whole else owner.manifest.end_offset
        kept = () if whole else owner.manifest.segments
        segment = UnsealedSegment(first, owner.acknowledged[first:])
        owner.manifest = await owner.store.seal_segments(
            *WHERE, owner.token, owner.manifest, kept, [segment], end, 0
        )
    begin, end_key = KEYS.segments_range(*WHERE)
    pieces = [key for key in owner.map.entries if begin <= key < end_key]
    assert len(pieces) == sum(sealed.pieces for sealed in owner.manifest.segments) == 1
    assert not any(key.startswith(KEYS.log_range(*WHERE)[0]) for key in owner.map.entries)


async def test_nothing_is_put_in_force_by_who_lost_the_token() -> None:
    owner = Owner(0)
    await owner.load()
    owner.append()
    stale, token = owner.store, owner.token
    owner.start()
    with pytest.raises(TokenLost):
        await stale.seal_segments(
            *WHERE, token, owner.manifest, (), [UnsealedSegment(0, owner.acknowledged)], 1, 0
        )
    await owner.load()
