"""What the cores of a cluster believe of the engine: of the model, and of etcd."""

import asyncio
from typing import Any

import pytest

from coordinator.cluster.etcd.etcd_store import EtcdCredentials, EtcdStore
from coordinator.cluster.key_value_store import (
    ABSENT,
    CreatedAt,
    Delete,
    KeyValueStore,
    LeaseExpired,
    Put,
    ReadRange,
    StoreRequestTooLarge,
    StoreTransaction,
    StoreUnavailable,
    WrittenAt,
    find_prefix_end,
)
from tests.cluster.etcd.nodes import EtcdNodes

pytestmark = pytest.mark.timeout(600)


async def test_a_transaction_does_all_or_nothing(engine: KeyValueStore, root: bytes) -> None:
    key, other = root + b"a", root + b"b"
    first = await engine.transact(
        StoreTransaction((CreatedAt(key, ABSENT),), (Put(key, b"1"), Put(other, b"2")))
    )
    assert first.succeeded
    page = await engine.read(ReadRange(root, find_prefix_end(root)))
    assert [(entry.key, entry.value, entry.written_at) for entry in page.entries] == [
        (key, b"1", first.revision),
        (other, b"2", first.revision),
    ]
    again = await engine.transact(StoreTransaction((CreatedAt(key, ABSENT),), (Put(key, b"3"),)))
    assert not again.succeeded
    stale = StoreTransaction((WrittenAt(key, first.revision - 1),), (Put(key, b"3"),))
    assert not (await engine.transact(stale)).succeeded
    second = await engine.transact(StoreTransaction((WrittenAt(key, first.revision),), (Put(key, b"4"),)))
    assert second.succeeded
    [entry] = (await engine.read(ReadRange(key))).entries
    assert (entry.value, entry.created_at, entry.written_at) == (b"4", first.revision, second.revision)
    assert (await engine.transact(StoreTransaction((), (Delete(root, find_prefix_end(root)),)))).succeeded
    assert not (await engine.read(ReadRange(root, find_prefix_end(root)))).entries


async def test_a_proof_is_as_new_as_a_write_wherever_it_is_asked(
    engine: KeyValueStore, root: bytes, request: Any
) -> None:
    key = root + b"owner"
    token = (await engine.transact(StoreTransaction((), (Put(key, b"1"),)))).revision
    others = [engine]
    if isinstance(engine, EtcdStore):
        others = [EtcdStore([endpoint], 2000, EtcdCredentials()) for endpoint in engine.endpoints]
    for _ in range(30):
        for other in others:
            assert (await other.transact(StoreTransaction((WrittenAt(key, token),)))).succeeded
        before, token = token, (await engine.transact(StoreTransaction((), (Put(key, b"1"),)))).revision
        for other in others:
            assert not (await other.transact(StoreTransaction((WrittenAt(key, before),)))).succeeded
    if isinstance(engine, EtcdStore):
        for opened in others:
            await opened.close()


async def test_keys_go_with_their_lease(engine: KeyValueStore, root: bytes) -> None:
    lease = await engine.grant_lease(5)
    await engine.transact(StoreTransaction((), (Put(root + b"a", b"1", lease),)))
    await engine.renew_lease(lease)
    [entry] = (await engine.read(ReadRange(root + b"a"))).entries
    assert entry.lease == lease
    await engine.revoke_lease(lease)
    await engine.revoke_lease(lease)
    assert not (await engine.read(ReadRange(root + b"a"))).entries
    with pytest.raises(LeaseExpired):
        await engine.renew_lease(lease)
    with pytest.raises(LeaseExpired):
        await engine.transact(StoreTransaction((), (Put(root + b"a", b"1", lease),)))


async def test_a_watch_gives_each_change_once_and_in_order(engine: KeyValueStore, root: bytes) -> None:
    first = await engine.transact(StoreTransaction((), (Put(root + b"a", b"1"), Put(root + b"b", b"1"))))
    await engine.transact(StoreTransaction((), (Put(root + b"a", b"2"),)))
    last = await engine.transact(StoreTransaction((), (Delete(root + b"a"),)))
    seen = []
    async with asyncio.timeout(60):
        async for changes in engine.watch(root, find_prefix_end(root), first.revision):
            seen.append(([entry.value for entry in changes.written], list(changes.deleted)))
            if changes.revision == last.revision:
                break
    assert seen == [([b"1", b"1"], []), ([b"2"], []), ([], [root + b"a"])]


async def test_pages_name_the_rest(engine: KeyValueStore, root: bytes) -> None:
    keys = [root + b"%d" % number for number in range(5)]
    await engine.transact(StoreTransaction((), tuple(Put(key, b"") for key in keys)))
    page = await engine.read(ReadRange(root, find_prefix_end(root), 3))
    assert page.has_more
    rest = await engine.read(ReadRange(page.entries[-1].key + b"\0", find_prefix_end(root), 3))
    assert [entry.key for entry in (*page.entries, *rest.entries)] == keys
    assert not rest.has_more


async def test_what_is_too_large_is_told_from_what_is_unknown(engine: KeyValueStore, root: bytes) -> None:
    with pytest.raises(StoreRequestTooLarge):
        await engine.transact(StoreTransaction((), (Put(root + b"a", b"x" * (2 << 20)),)))
    with pytest.raises(StoreRequestTooLarge):
        await engine.transact(StoreTransaction((), tuple(Put(root + b"%d" % n, b"") for n in range(129))))
    assert not (await engine.read(ReadRange(root, find_prefix_end(root)))).entries


async def test_an_endpoint_that_is_dead_costs_one_try(etcd: EtcdNodes, root: bytes) -> None:
    engine = EtcdStore(["127.0.0.1:1", *etcd.endpoints.split(",")], 2000, EtcdCredentials())
    with pytest.raises(StoreUnavailable):
        await engine.read(ReadRange(root))
    assert not (await engine.read(ReadRange(root))).entries
    await engine.close()
