"""Placement: shares, pins, and how little moves."""

from collections import Counter

from coordinator.cluster.partition_claims import place_partitions

PARTITIONS = range(50)


def test_every_partition_has_a_live_node_and_nobody_more_than_a_share() -> None:
    for nodes in ([1], [1, 2, 3], [7, 3, 900, 12]):
        placed = place_partitions("t", PARTITIONS, nodes, {})
        assert sorted(placed) == list(PARTITIONS)
        assert max(Counter(placed.values()).values()) <= -(-50 // len(nodes))
        assert set(placed.values()) == set(nodes)


def test_the_order_in_which_nodes_are_named_changes_nothing() -> None:
    assert place_partitions("t", PARTITIONS, [1, 2, 3], {}) == place_partitions(
        "t", list(reversed(PARTITIONS)), [3, 1, 2, 2], {}
    )


def test_a_pin_counts_while_its_node_lives() -> None:
    pins = dict.fromkeys(range(40), 2)
    placed = place_partitions("t", PARTITIONS, [1, 2, 3], pins)
    assert all(placed[partition] == 2 for partition in range(40))
    assert 2 not in place_partitions("t", PARTITIONS, [1, 3], pins).values()


def test_a_pin_moves_nothing_else() -> None:
    before = place_partitions("t", PARTITIONS, [1, 2, 3], {})
    for partition in PARTITIONS:
        for node in (1, 2, 3):
            assert place_partitions("t", PARTITIONS, [1, 2, 3], {partition: node}) == {
                **before,
                partition: node,
            }


def test_a_node_that_goes_moves_little_else() -> None:
    before = place_partitions("t", PARTITIONS, [1, 2, 3], {})
    after = place_partitions("t", PARTITIONS, [1, 2], {})
    moved = [each for each in PARTITIONS if before[each] != 3 and before[each] != after[each]]
    assert len(moved) <= 8


def test_nobody_live_owns_nothing() -> None:
    assert place_partitions("t", PARTITIONS, [], {}) == {}
