import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.partitioner import compute_java_hash, partition_for

VECTORS = [
    ("", 0, 0),
    ("a", 97, 47),
    ("grp", 102629, 29),
    ("group", 98629247, 47),
    ("test-group", 627841412, 12),
    ("my-group", -1906497762, 12),
    ("console-consumer-12345", 158455506, 6),
    ("connect-cluster", 1440343063, 13),
    ("polygenelubricants", -2147483648, 0),
    ("日本", 835047, 47),
    ("😀grp", 1276929186, 36),
]


@pytest.mark.parametrize(("group_id", "hashed", "partition"), VECTORS)
def test_groups_map_as_in_kafka(group_id: str, hashed: int, partition: int) -> None:
    assert compute_java_hash(group_id) == hashed
    assert partition_for(group_id, 50) == partition


@given(st.text(), st.integers(1, 1000))
def test_every_group_has_a_partition(group_id: str, partitions: int) -> None:
    assert 0 <= partition_for(group_id, partitions) < partitions
