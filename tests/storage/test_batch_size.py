from hypothesis import given
from hypothesis import strategies as st

from storage.batch import encode_batch
from storage.batch_size import calculate_batch_size
from storage.record import Record

FIELDS = st.none() | st.binary(max_size=40) | st.integers(50, 9000).map(bytes)


@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=80))
def test_it_is_the_size_of_the_batch_that_is_written(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    written = encode_batch([Record(-1, 1_800_000_000_000, key, value) for key, value in pairs])
    assert calculate_batch_size(pairs) == len(written)
