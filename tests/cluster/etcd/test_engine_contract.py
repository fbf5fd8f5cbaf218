"""What the cores of a cluster believe of the engine: of the model, and of etcd."""

import asyncio
from typing import Any

import pytest

from coordinator.cluster.engine.engine import (
    ABSENT,
    CreatedAt,
    Delete,
    Engine,
    LeaseGone,
    Put,
    Read,
    TooLarge,
    Transaction,
    Unavailable,
    WrittenAt,
    end_of,
)
from coordinator.cluster.etcd.engine import Credentials, EtcdEngine
from tests.cluster.etcd.nodes import EtcdNodes

pytestmark = pytest.mark.timeout(300)


async def test_a_transaction_does_all_or_nothing(engine: Engine, root: bytes) -> None:
    key, other = root + b"a", root + b"b"
    first = await engine.transact(Transaction((CreatedAt(key, ABSENT),), (Put(key, b"1"), Put(other, b"2"))))
    assert first.succeeded
    page = await engine.read(Read(root, end_of(root)))
    assert [(entry.key, entry.value, entry.written_at) for entry in page.entries] == [
        (key, b"1", first.revision),
        (other, b"2", first.revision),
    ]
    again = await engine.transact(Transaction((CreatedAt(key, ABSENT),), (Put(key, b"3"),)))
    assert not again.succeeded
    stale = Transaction((WrittenAt(key, first.revision - 1),), (Put(key, b"3"),))
    assert not (await engine.transact(stale)).succeeded
    second = await engine.transact(Transaction((WrittenAt(key, first.revision),), (Put(key, b"4"),)))
    assert second.succeeded
    [entry] = (await engine.read(Read(key))).entries
    assert (entry.value, entry.created_at, entry.written_at) == (b"4", first.revision, second.revision)
    assert (await engine.transact(Transaction((), (Delete(root, end_of(root)),)))).succeeded
    assert not (await engine.read(Read(root, end_of(root)))).entries


async def test_a_proof_is_as_new_as_a_write_wherever_it_is_asked(
    engine: Engine, root: bytes, request: Any
) -> None:
    key = root + b"owner"
    token = (await engine.transact(Transaction((), (Put(key, b"1"),)))).revision
    others = [engine]
    if isinstance(engine, EtcdEngine):
        others = [EtcdEngine([endpoint], 2000, Credentials()) for endpoint in engine.endpoints]
    for _ in range(30):
        for other in others:
            assert (await other.transact(Transaction((WrittenAt(key, token),)))).succeeded
        before, token = token, (await engine.transact(Transaction((), (Put(key, b"1"),)))).revision
        for other in others:
            assert not (await other.transact(Transaction((WrittenAt(key, before),)))).succeeded
    if isinstance(engine, EtcdEngine):
        for opened in others:
            await opened.close()


async def test_keys_go_with_their_lease(engine: Engine, root: bytes) -> None:
    lease = await engine.grant(5)
    await engine.transact(Transaction((), (Put(root + b"a", b"1", lease),)))
    await engine.keep_alive(lease)
    [entry] = (await engine.read(Read(root + b"a"))).entries
    assert entry.lease == lease
    await engine.revoke(lease)
    await engine.revoke(lease)
    assert not (await engine.read(Read(root + b"a"))).entries
    with pytest.raises(LeaseGone):
        await engine.keep_alive(lease)
    with pytest.raises(LeaseGone):
        await engine.transact(Transaction((), (Put(root + b"a", b"1", lease),)))


async def test_a_watch_gives_each_change_once_and_in_order(engine: Engine, root: bytes) -> None:
    first = await engine.transact(Transaction((), (Put(root + b"a", b"1"), Put(root + b"b", b"1"))))
    await engine.transact(Transaction((), (Put(root + b"a", b"2"),)))
    last = await engine.transact(Transaction((), (Delete(root + b"a"),)))
    seen = []
    async with asyncio.timeout(60):
        async for changes in engine.watch(root, end_of(root), first.revision):
            seen.append(([entry.value for entry in changes.written], list(changes.deleted)))
            if changes.revision == last.revision:
                break
    assert seen == [([b"1", b"1"], []), ([b"2"], []), ([], [root + b"a"])]


async def test_pages_name_the_rest(engine: Engine, root: bytes) -> None:
    keys = [root + b"%d" % number for number in range(5)]
    await engine.transact(Transaction((), tuple(Put(key, b"") for key in keys)))
    page = await engine.read(Read(root, end_of(root), 3))
    assert page.has_more
    rest = await engine.read(Read(page.entries[-1].key + b"\0", end_of(root), 3))
    assert [entry.key for entry in (*page.entries, *rest.entries)] == keys
    assert not rest.has_more


async def test_what_is_too_large_is_told_from_what_is_unknown(engine: Engine, root: bytes) -> None:
    with pytest.raises(TooLarge):
        await engine.transact(Transaction((), (Put(root + b"a", b"x" * (2 << 20)),)))
    with pytest.raises(TooLarge):
        await engine.transact(Transaction((), tuple(Put(root + b"%d" % n, b"") for n in range(129))))
    assert not (await engine.read(Read(root, end_of(root)))).entries


async def test_an_endpoint_that_is_dead_costs_one_try(etcd: EtcdNodes, root: bytes) -> None:
    engine = EtcdEngine(["127.0.0.1:1", *etcd.endpoints.split(",")], 2000, Credentials())
    with pytest.raises(Unavailable):
        await engine.read(Read(root))
    assert not (await engine.read(Read(root))).entries
    await engine.close()
