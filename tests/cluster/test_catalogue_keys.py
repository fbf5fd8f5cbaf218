"""Topics as keys: concurrent changes by two daemons, and changes that neither may undo."""

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.cluster.catalogue_keys import CatalogueKeys
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import (
    KeyChanges,
    KeyPage,
    Put,
    ReadRange,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
)
from coordinator.cluster.partition_ownership import ClusterChangeRefused
from coordinator.cluster.shared_topic import merge_configs
from tests.cluster.model_store import ModelConnection, ModelStore

KEYS = ClusterKeys("c")


ID_1, ID_2, ID_3 = (f"{number}AAAAAAAAAAAAAAAAAAAAA" for number in (1, 2, 3))


def document(*topics: tuple[str, str, int], groups: Any = None) -> dict[str, Any]:
    entries = [
        {"name": name, "topic_id": topic_id, "partitions": partitions, "configs": {}}
        for name, topic_id, partitions in topics
    ]
    return {
        "version": 1,
        "producer_ids_reserved": 0,
        "deleted": [],
        "topics": entries,
        "groups": groups or {},
    }


async def catalogue(store: ModelStore) -> CatalogueKeys:
    """Return the catalogue of another daemon that has loaded all keys."""
    keys = CatalogueKeys(
        ModelConnection(store), KEYS, lambda _, partitions, factor: [[1, 2, 3][:factor]] * partitions
    )
    await keys.read_all_keys()
    keys.set_baseline(keys.to_document([]))
    return keys


async def write(keys: CatalogueKeys, said: Mapping[str, Any]) -> None:
    """Write a document and accept it as the baseline, as a daemon with a working disk does."""
    await keys.write_document(said)
    keys.set_baseline(said)


def see(keys: CatalogueKeys, store: ModelStore) -> None:
    """All that was changed, as a watch of its ranges gives it."""
    for changes in store.history:
        for begin, end in keys.ranges:
            written = tuple(entry for entry in changes.written if begin <= entry.key < end)
            deleted = tuple(key for key in changes.deleted if begin <= key < end)
            keys.apply_changes(KeyChanges(changes.revision, written, deleted))


async def test_one_of_two_makes_a_topic_of_one_name() -> None:
    store = ModelStore()
    first, second = await catalogue(store), await catalogue(store)
    await write(first, document(("a", ID_1, 2)))
    with pytest.raises(ClusterChangeRefused):
        await write(second, document(("a", ID_2, 3)))
    see(second, store)
    assert second.topics["a"].topic_id == ID_1
    assert second.topics["a"].replicas == [[1], [1]]


async def test_what_another_made_is_not_undone_by_who_has_not_taken_it_up() -> None:
    store = ModelStore()
    first, second = await catalogue(store), await catalogue(store)
    await write(first, document(("a", ID_1, 2)))
    see(second, store)
    await write(second, document(("b", ID_2, 1)))
    await write(second, document())
    see(first, store)
    assert list(first.topics) == ["a"]


async def test_what_two_change_of_one_topic_is_brought_together() -> None:
    store = ModelStore()
    first = await catalogue(store)
    await write(first, document(("a", ID_1, 2)))
    second = await catalogue(store)
    await write(first, document(("a", ID_1, 3)))
    await write(second, document(("a", ID_1, 5)))
    see(first, store)
    assert first.topics["a"].partitions == len(first.topics["a"].replicas) == 5
    # Who has not seen that it grew removes it all the same; one that was made anew it leaves alone.
    third = await catalogue(store)
    await write(first, document(("a", ID_1, 6)))
    await write(third, document())
    await first.read_all_keys()
    assert first.topics == {}
    with pytest.raises(ClusterChangeRefused):
        await write(second, document(("a", ID_1, 7)))
    fourth = await catalogue(store)
    await write(fourth, document(("a", ID_2, 1)))
    second.set_baseline(document(("a", ID_1, 7)))
    await write(second, document())
    assert KEYS.topic("a") in store.map.entries


@pytest.mark.parametrize(
    ("before", "said", "there", "merged"),
    [
        ({}, {"a": "1"}, {"b": "2"}, {"a": "1", "b": "2"}),
        ({"a": "1", "b": "2"}, {"b": "2"}, {"a": "1", "b": "3", "c": "4"}, {"b": "3", "c": "4"}),
        ({"a": "1"}, {"a": "2"}, {"a": "3"}, {"a": "2"}),
        ({"a": "1"}, {"a": "1"}, {}, {}),
    ],
    ids=["both-set", "one-removes", "later-wins", "removed-meanwhile"],
)
def test_each_change_of_configs_counts(
    before: dict[str, str], said: dict[str, str], there: dict[str, str], merged: dict[str, str]
) -> None:
    assert merge_configs(before, said, there) == merged


class SlowEngine(ModelConnection):
    """Something happens after each page that it reads."""

    async def read(self, read: ReadRange) -> KeyPage:
        page = await super().read(read)
        await self.happens()
        return page

    async def happens(self) -> None:
        """To be replaced."""


async def test_the_mirror_is_whole_while_it_is_read_anew_and_forgets_nothing_newer() -> None:
    store = ModelStore()
    engine = SlowEngine(store)
    keys = CatalogueKeys(engine, KEYS, lambda _, partitions, factor: [[1, 2, 3][:factor]] * partitions)
    other = await catalogue(store)
    await write(other, document(("a", ID_1, 1), ("b", ID_2, 1)))
    await keys.read_all_keys()
    seen: list[set[str]] = []

    async def happens() -> None:
        seen.append(set(keys.topics))
        if len(seen) == 1:
            await write(other, document(("b", ID_2, 1), ("c", ID_3, 1)))
            see(keys, store)

    engine.happens = happens  # type: ignore[method-assign]
    await keys.read_all_keys()
    assert seen == [{"a", "b"}, {"b", "c"}]
    assert set(keys.topics) == {"b", "c"}


@pytest.mark.parametrize("is_read_anew", [False, True], ids=["watched", "read-anew"])
async def test_a_topic_that_goes_while_one_looks_for_it_is_not_brought_back(is_read_anew: bool) -> None:
    store = ModelStore()
    engine = SlowEngine(store)
    keys = CatalogueKeys(engine, KEYS, lambda _, partitions, factor: [[1, 2, 3][:factor]] * partitions)
    other = await catalogue(store)
    await write(other, document(("a", ID_1, 1), ("b", ID_2, 1)))
    looks: list[str] = []

    async def happens() -> None:
        looks.append("one more")
        if len(looks) == 1:
            await write(other, document(("b", ID_2, 1)))
            if is_read_anew:
                await keys.read_all_keys()
            else:
                see(keys, store)

    engine.happens = happens  # type: ignore[method-assign]
    await keys.refresh_topics(["a", "b"])
    assert set(keys.topics) == {"b"}
    await write(other, document(("a", ID_3, 1), ("b", ID_2, 1)))
    await keys.refresh_topics(["a", "b"])
    assert keys.topics["a"].topic_id == ID_3


class LosesAnswers(ModelConnection):
    """Applies the next transaction and another change, and loses both responses."""

    is_lost = False

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        outcome = await super().transact(transaction)
        if self.is_lost:
            self.is_lost = False
            await super().transact(StoreTransaction((), (Put(b"another key", b""),)))
            raise StoreUnavailable("the answer is lost")
        return outcome


async def test_a_topic_whose_making_was_not_answered_can_be_changed_and_deleted() -> None:
    store = ModelStore()
    engine = LosesAnswers(store)
    keys = CatalogueKeys(engine, KEYS, lambda _, partitions, factor: [[1, 2, 3][:factor]] * partitions)
    await keys.read_all_keys()
    for said in (document(("a", ID_1, 1)), document(("a", ID_1, 2)), document(), document(("a", ID_2, 1))):
        engine.is_lost = True
        await write(keys, said)
        other = await catalogue(store)
        assert other.to_document([])["topics"] == said["topics"]


async def test_configs_of_groups_are_shared() -> None:
    store = ModelStore()
    first, second = await catalogue(store), await catalogue(store)
    await write(first, document(groups={"g/1": {"key": "value"}}))
    see(second, store)
    assert second.group_configs == {"g/1": {"key": "value"}}
    assert second.to_document([])["groups"] == {"g/1": {"key": "value"}}


async def test_what_one_sets_of_a_group_stays_where_another_removes_the_rest() -> None:
    store = ModelStore()
    first = await catalogue(store)
    await write(first, document(groups={"g": {"a": "1"}}))
    second = await catalogue(store)
    await write(second, document(groups={"g": {"a": "1", "b": "2"}}))
    await write(first, document())
    third = await catalogue(store)
    assert third.group_configs == first.group_configs == {"g": {"b": "2"}}
    see(second, store)
    await write(second, document())
    assert KEYS.group_config("g") not in store.map.entries


async def test_blocks_of_producer_ids_do_not_meet() -> None:
    store = ModelStore()
    first, second = await catalogue(store), await catalogue(store)
    blocks = [await each.reserve_producer_ids() for each in (first, second, first)]
    assert len(set(blocks)) == 3
    assert all(abs(one - other) >= 1000 for one in blocks for other in blocks if one != other)


class Remembering(ModelConnection):
    """Keeps transactions so that a test can repeat them."""

    def __init__(self, store: ModelStore) -> None:
        super().__init__(store)
        self.asked: list[StoreTransaction] = []

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        self.asked.append(transaction)
        return await super().transact(transaction)


async def test_a_late_try_brings_back_nothing_that_was_removed() -> None:
    store = ModelStore()
    engine = Remembering(store)
    keys = CatalogueKeys(engine, KEYS, lambda _, partitions, factor: [[1]] * partitions)
    await keys.read_all_keys()
    both = document(("a", ID_1, 1), ("b", ID_2, 1), groups={"g": {"consumer.session.timeout.ms": "50000"}})
    await write(keys, both)
    await write(keys, document(("b", ID_2, 1)))
    for transaction in list(engine.asked):
        await engine.transact(transaction)
    assert list((await catalogue(store)).topics) == ["b"]
    assert not (await catalogue(store)).group_configs
    await write(keys, both)
    assert sorted((await catalogue(store)).topics) == ["a", "b"]
