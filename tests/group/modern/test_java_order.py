"""The iteration orders of Kafka's sets that depend on only a part of each element."""

import pytest

from coordinator.group.modern.java_order import (
    HashOrder,
    compute_copy_capacity,
    is_table_fixed,
    mix_string,
    ordered_names,
)


@pytest.mark.parametrize("count", [1, 11, 12, 40, 46, 47, 48, 200, 1_000])
def test_topics_that_are_not_there_change_nothing_in_the_order_of_the_others(count: int) -> None:
    names = sorted(f"orders-{number}" for number in range(count))
    known = set(names[::3])
    everything = ordered_names(names, names)
    assert sorted(everything) == names
    assert everything == tuple(HashOrder(mix_string, compute_copy_capacity(count), names))
    assert ordered_names(names, known) == tuple(name for name in everything if name in known)
    if is_table_fixed(count):
        assert ordered_names(names[::3], known, count) == ordered_names(names, known)
