"""Limits of an engine: expired leases, compacted revisions and the maximum size of a request."""

import asyncio

import pytest

from coordinator.cluster.key_value_store import (
    CreatedAt,
    Delete,
    KeyValueStore,
    LeaseExpired,
    Put,
    ReadRange,
    RevisionsCompacted,
    StoreTransaction,
    WrittenAt,
    find_prefix_end,
)
from tests.cluster.etcd.nodes import EtcdNodes
from tests.cluster.model_store import ModelConnection

pytestmark = pytest.mark.timeout(400)
LEAST_TTL_S = 2


def forget(engine: KeyValueStore, revision: int, request: pytest.FixtureRequest) -> None:
    """What operators have etcd do by itself."""
    if isinstance(engine, ModelConnection):
        engine.store.forget(revision)
        return
    nodes: EtcdNodes = request.getfixturevalue("etcd")
    nodes.ask("kv/compaction", revision=str(revision), physical=True)


async def put(engine: KeyValueStore, key: bytes, value: bytes = b"") -> int:
    """The revision at which it was written."""
    return (await engine.transact(StoreTransaction((), (Put(key, value),)))).revision


async def test_the_revisions_at_which_a_key_was_made_and_written_are_told_apart(
    engine: KeyValueStore, root: bytes
) -> None:
    key = root + b"a"
    made = await put(engine, key)
    written = await put(engine, key)
    for compare, holds in (
        (CreatedAt(key, made), True),
        (CreatedAt(key, written), False),
        (WrittenAt(key, made), False),
        (WrittenAt(key, written), True),
    ):
        assert (await engine.transact(StoreTransaction((compare,)))).succeeded is holds
    await engine.transact(StoreTransaction((), (Delete(key),)))
    again = await put(engine, key)
    assert not (await engine.transact(StoreTransaction((CreatedAt(key, made),)))).succeeded
    assert (await engine.transact(StoreTransaction((CreatedAt(key, again),)))).succeeded


async def test_a_lease_that_nobody_renews_ends_and_its_keys_with_it(
    engine: KeyValueStore, root: bytes
) -> None:
    kept, left = await engine.grant_lease(LEAST_TTL_S), await engine.grant_lease(LEAST_TTL_S)
    await engine.transact(
        StoreTransaction(
            (), (Put(root + b"kept", b"", kept), Put(root + b"left", b"", left), Put(root + b"own", b""))
        )
    )
    seen = (await engine.read(ReadRange(root, find_prefix_end(root)))).revision
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:

        async def renew() -> None:
            while True:
                await engine.renew_lease(kept)
                await asyncio.sleep(LEAST_TTL_S / 5)

        renewing = tasks.create_task(renew())
        async for changes in engine.watch(root, find_prefix_end(root), seen + 1):
            assert changes.deleted == (root + b"left",)
            break
        renewing.cancel()
    assert [entry.key for entry in (await engine.read(ReadRange(root, find_prefix_end(root)))).entries] == [
        root + b"kept",
        root + b"own",
    ]
    with pytest.raises(LeaseExpired):
        await engine.renew_lease(left)
    await engine.revoke_lease(kept)


async def test_pages_are_of_one_moment(engine: KeyValueStore, root: bytes) -> None:
    keys = [root + b"%d" % number for number in range(4)]
    for key in keys:
        await put(engine, key, b"before")
    first = await engine.read(ReadRange(root, find_prefix_end(root), 2))
    await engine.transact(
        StoreTransaction((), (Put(keys[2], b"after"), Delete(keys[3]), Put(root + b"9", b"new")))
    )
    rest = await engine.read(ReadRange(keys[1] + b"\0", find_prefix_end(root), 2, first.revision))
    assert [(entry.key, entry.value) for entry in (*first.entries, *rest.entries)] == [
        (key, b"before") for key in keys
    ]
    assert (first.has_more, rest.has_more) == (True, False)


async def test_what_is_forgotten_is_said_to_be(
    engine: KeyValueStore, root: bytes, request: pytest.FixtureRequest
) -> None:
    old = await put(engine, root + b"a", b"1")
    new = await put(engine, root + b"a", b"2")
    forget(engine, new, request)
    with pytest.raises(RevisionsCompacted):
        await engine.read(ReadRange(root + b"a", None, 0, old))
    with pytest.raises(RevisionsCompacted):
        await asyncio.wait_for(anext(aiter(engine.watch(root, find_prefix_end(root), old))), 60)
    [entry] = (await engine.read(ReadRange(root + b"a", None, 0, new))).entries
    assert entry.value == b"2"


async def test_as_much_as_an_append_may_do_is_taken(engine: KeyValueStore, root: bytes) -> None:
    keys = [root + b"%03d" % number for number in range(128)]
    tokens = [await put(engine, key) for key in keys[:4]]
    compares = tuple(WrittenAt(key, token) for key, token in zip(keys, tokens, strict=False))
    operations = tuple(Put(key, b"x" * 8192) for key in keys)
    assert (await engine.transact(StoreTransaction(compares, operations))).succeeded
    assert len((await engine.read(ReadRange(root, find_prefix_end(root)))).entries) == len(keys)
