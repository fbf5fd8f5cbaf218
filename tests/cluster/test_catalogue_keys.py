"""Topics as keys: what two daemons do to them at one time, and what neither may undo of the other."""

from typing import Any

import pytest

from coordinator.cluster.catalogue_keys import CatalogueKeys, Refused
from coordinator.cluster.keys import Keys
from tests.cluster.model_engine import ModelEngine, ModelStore

KEYS = Keys("c")


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
    """That of one more daemon, which has taken up what there is."""
    keys = CatalogueKeys(ModelEngine(store), KEYS, lambda _, partitions: [1] * partitions)
    await keys.read()
    keys.begins_with(keys.document([]))
    return keys


def see(keys: CatalogueKeys, store: ModelStore) -> None:
    for changes in store.history:
        keys.changed(changes)


async def test_one_of_two_makes_a_topic_of_one_name() -> None:
    store = ModelStore()
    first, second = await catalogue(store), await catalogue(store)
    await first.write(document(("a", "id1", 2)))
    with pytest.raises(Refused):
        await second.write(document(("a", "id2", 3)))
    see(second, store)
    assert second.topics["a"].topic_id == "id1"
    assert list(second.topics["a"].leaders) == [1, 1]


async def test_what_another_made_is_not_undone_by_who_has_not_taken_it_up() -> None:
    store = ModelStore()
    first, second = await catalogue(store), await catalogue(store)
    await first.write(document(("a", "id1", 2)))
    see(second, store)
    await second.write(document(("b", "id2", 1)))
    await second.write(document())
    see(first, store)
    assert list(first.topics) == ["a"]


async def test_of_two_that_change_one_topic_one_is_refused_and_leaders_stay() -> None:
    store = ModelStore()
    first = await catalogue(store)
    await first.write(document(("a", "id1", 2)))
    second = await catalogue(store)
    await first.write(document(("a", "id1", 3)))
    with pytest.raises(Refused):
        await second.write(document(("a", "id1", 5)))
    with pytest.raises(Refused):
        await second.write(document())
    see(second, store)
    assert second.topics["a"].partitions == len(second.topics["a"].leaders) == 3


async def test_configs_of_groups_are_shared() -> None:
    store = ModelStore()
    first, second = await catalogue(store), await catalogue(store)
    await first.write(document(groups={"g/1": {"key": "value"}}))
    see(second, store)
    assert second.group_configs == {"g/1": {"key": "value"}}
    assert second.document([])["groups"] == {"g/1": {"key": "value"}}


async def test_blocks_of_producer_ids_do_not_meet() -> None:
    store = ModelStore()
    first, second = await catalogue(store), await catalogue(store)
    blocks = [await each.reserve_producer_ids() for each in (first, second, first)]
    assert len(set(blocks)) == 3
    assert all(abs(one - other) >= 1000 for one in blocks for other in blocks if one != other)
