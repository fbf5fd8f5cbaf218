"""Where an engine ends: leases whose time is over, revisions that are forgotten, the most that a request may do."""

import asyncio

import pytest

from coordinator.cluster.engine.engine import (
    Compacted,
    CreatedAt,
    Delete,
    Engine,
    LeaseGone,
    Put,
    Read,
    Transaction,
    WrittenAt,
    end_of,
)
from tests.cluster.etcd.nodes import EtcdNodes
from tests.cluster.model_engine import ModelEngine

pytestmark = pytest.mark.timeout(60)
LEAST_TTL_S = 2


def forget(engine: Engine, revision: int, request: pytest.FixtureRequest) -> None:
    """What operators have etcd do by itself."""
    if isinstance(engine, ModelEngine):
        engine.store.forget(revision)
        return
    nodes: EtcdNodes = request.getfixturevalue("etcd")
    nodes.ask("kv/compaction", revision=str(revision), physical=True)


async def put(engine: Engine, key: bytes, value: bytes = b"") -> int:
    """The revision at which it was written."""
    return (await engine.transact(Transaction((), (Put(key, value),)))).revision


async def test_the_revisions_at_which_a_key_was_made_and_written_are_told_apart(
    engine: Engine, root: bytes
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
        assert (await engine.transact(Transaction((compare,)))).succeeded is holds
    await engine.transact(Transaction((), (Delete(key),)))
    again = await put(engine, key)
    assert not (await engine.transact(Transaction((CreatedAt(key, made),)))).succeeded
    assert (await engine.transact(Transaction((CreatedAt(key, again),)))).succeeded


async def test_a_lease_that_nobody_renews_ends_and_its_keys_with_it(engine: Engine, root: bytes) -> None:
    kept, left = await engine.grant(LEAST_TTL_S), await engine.grant(LEAST_TTL_S)
    await engine.transact(
        Transaction(
            (), (Put(root + b"kept", b"", kept), Put(root + b"left", b"", left), Put(root + b"own", b""))
        )
    )
    seen = (await engine.read(Read(root, end_of(root)))).revision
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:

        async def renew() -> None:
            while True:
                await engine.keep_alive(kept)
                await asyncio.sleep(LEAST_TTL_S / 5)

        renewing = tasks.create_task(renew())
        async for changes in engine.watch(root, end_of(root), seen + 1):
            assert changes.deleted == (root + b"left",)
            break
        renewing.cancel()
    assert [entry.key for entry in (await engine.read(Read(root, end_of(root)))).entries] == [
        root + b"kept",
        root + b"own",
    ]
    with pytest.raises(LeaseGone):
        await engine.keep_alive(left)
    await engine.revoke(kept)


async def test_pages_are_of_one_moment(engine: Engine, root: bytes) -> None:
    keys = [root + b"%d" % number for number in range(4)]
    for key in keys:
        await put(engine, key, b"before")
    first = await engine.read(Read(root, end_of(root), 2))
    await engine.transact(
        Transaction((), (Put(keys[2], b"after"), Delete(keys[3]), Put(root + b"9", b"new")))
    )
    rest = await engine.read(Read(keys[1] + b"\0", end_of(root), 2, first.revision))
    assert [(entry.key, entry.value) for entry in (*first.entries, *rest.entries)] == [
        (key, b"before") for key in keys
    ]
    assert (first.has_more, rest.has_more) == (True, False)


async def test_what_is_forgotten_is_said_to_be(
    engine: Engine, root: bytes, request: pytest.FixtureRequest
) -> None:
    old = await put(engine, root + b"a", b"1")
    new = await put(engine, root + b"a", b"2")
    forget(engine, new, request)
    with pytest.raises(Compacted):
        await engine.read(Read(root + b"a", None, 0, old))
    with pytest.raises(Compacted):
        await asyncio.wait_for(anext(aiter(engine.watch(root, end_of(root), old))), 60)
    [entry] = (await engine.read(Read(root + b"a", None, 0, new))).entries
    assert entry.value == b"2"


async def test_as_much_as_an_append_may_do_is_taken(engine: Engine, root: bytes) -> None:
    keys = [root + b"%03d" % number for number in range(128)]
    tokens = [await put(engine, key) for key in keys[:4]]
    compares = tuple(WrittenAt(key, token) for key, token in zip(keys, tokens, strict=False))
    operations = tuple(Put(key, b"x" * 8192) for key in keys)
    assert (await engine.transact(Transaction(compares, operations))).succeeded
    assert len((await engine.read(Read(root, end_of(root)))).entries) == len(keys)
